package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"time"

	"github.com/symdepot/symdepot/internal/base/memo"
)

// Limits of a Relay.
const (
	relayAtOnce = 8
	relayTime   = 15 * time.Second
	relayBytes  = 32 << 20         // of the files in memory
	relayMiss   = 10 * time.Minute // lifetime of a failure in memory
	relayKept   = time.Hour        // of a file
	relayHops   = 4                // redirects
)

// Relay fetches source files from other servers for clients that ask this one: only
// from the hosts that the operator allows, also after redirects. It keeps a few files
// and failures in memory.
type Relay struct {
	allowed func(url string) error
	client  *http.Client
	slots   chan struct{}
	now     func() time.Time
	kept    *memo.Map[string, relayed]
}

// relayed is a file, or a failure if it has no text.
type relayed struct {
	text  []byte
	until time.Time
}

// NewRelay returns a relay. allowed returns an error for a URL that may not be asked for;
// hosts are those of them that may have addresses that are not public.
func NewRelay(d *Dialer, hosts []string, allowed func(url string) error) *Relay {
	follow := func(req *http.Request, via []*http.Request) error {
		if len(via) >= relayHops {
			return errors.New("too many redirects")
		}
		return allowed(req.URL.String())
	}
	return &Relay{
		allowed: allowed, slots: make(chan struct{}, relayAtOnce), now: time.Now,
		client: &http.Client{Transport: d.Transport(hosts...), Timeout: relayTime, CheckRedirect: follow},
		kept:   memo.NewWeighed(relayBytes, func(url string, r relayed) uint32 { return uint32(len(url)+len(r.text)) + 256 }),
	}
}

// errRelayBusy means that as many files are fetched as may be at once.
var errRelayBusy = fmt.Errorf("too many source files are being fetched: %w", fs.ErrNotExist)

// Fetch returns the file at a URL, of at most limit bytes. What is not allowed, not
// found or too long is fs.ErrNotExist.
func (r *Relay) Fetch(ctx context.Context, url string, limit int64) ([]byte, error) {
	if err := r.allowed(url); err != nil {
		return nil, fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	if k, ok := r.kept.Get(url); ok && r.now().Before(k.until) {
		if k.text == nil {
			return nil, fs.ErrNotExist
		}
		return k.text, nil
	}
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	default:
		return nil, errRelayBusy // a slow server must not hold the other requests
	}
	text, err := r.get(ctx, url, limit)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		r.kept.Set(url, relayed{until: r.now().Add(relayMiss)})
		return nil, fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	r.kept.Set(url, relayed{text, r.now().Add(relayKept)})
	return text, nil
}

func (r *Relay) get(ctx context.Context, url string, limit int64) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the server answers %s", resp.Status)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(text)) > limit:
		return nil, fmt.Errorf("the file has more than %d bytes", limit)
	case len(text) == 0:
		return nil, errors.New("the file is empty")
	}
	return text, nil
}
