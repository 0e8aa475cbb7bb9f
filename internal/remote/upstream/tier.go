package upstream

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/layout"
)

// tier remembers whether a server's layout has two tiers.
type tier struct {
	needed bool // must be probed

	mu    sync.Mutex
	two   bool          // guarded by mu
	until time.Time     // guarded by mu
	busy  chan struct{} // guarded by mu; closed at the end of the running probe
}

// isTwoTier requests index2.txt, as Microsoft's clients do. Concurrent callers
// share one probe, whose result is remembered for a time.
func (h *HTTP) isTwoTier(ctx context.Context, x *question) (bool, error) {
	t := &h.tier
	for {
		t.mu.Lock()
		if h.now().Before(t.until) {
			defer t.mu.Unlock()
			return t.two, nil
		}
		busy := t.busy
		if busy == nil {
			t.busy = make(chan struct{})
		}
		t.mu.Unlock()
		if busy == nil {
			return h.probeTier(ctx, x)
		}
		select {
		case <-busy: // the probe has ended: use its result or probe again
		case <-ctx.Done():
			return false, h.ended(ctx)
		}
	}
}

func (h *HTTP) probeTier(ctx context.Context, x *question) (bool, error) {
	two, life, err := h.askTier(ctx, x)
	t := &h.tier
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		t.two, t.until = two, h.now().Add(life)
	}
	close(t.busy)
	t.busy = nil
	return two, err
}

// askTier probes the server. It fails if the server cannot be reached, because
// the request of the file would fail too.
func (h *HTTP) askTier(ctx context.Context, x *question) (two bool, life time.Duration, err error) {
	header, err := x.header(layout.Place{Exact: true})
	if err != nil {
		return false, 0, h.failed(fetch.ClassBroken, "%w", err)
	}
	header.Del("Symbolchecksum")
	a, err := x.exchange(ctx, []*url.URL{h.url([]string{"index2.txt"})}, header)
	if err != nil {
		if errors.Is(err, errRedirect) || errors.Is(err, ErrAddress) {
			return false, tierRetry, nil
		}
		return false, 0, err
	}
	defer a.end()
	if a.resp.StatusCode == http.StatusOK {
		text, err := a.text(h.cfg.Timeouts.Header)
		return err == nil && !a.isHTML() && MayBeFile(text), tierLife, nil
	}
	class := ClassOfStatus(a.resp.StatusCode)
	a.drain(a.resp)
	if class == fetch.ClassNotFound || class == fetch.ClassForbidden {
		return false, tierLife, nil
	}
	return false, tierRetry, nil
}
