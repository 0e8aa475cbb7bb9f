package commandtest

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
)

// balancer sends the requests of clients to servers in turn, and not to one that
// has not answered.
type balancer struct {
	URL string

	Mu       sync.Mutex
	backends []*Serving        // guarded by mu
	next     int               // guarded by mu
	opened   map[*Serving]bool // servers that have opened a stage; guarded by mu
	Taken    map[string]int    // 201 for whole contents, by path; guarded by mu
	Got      chan struct{}     // closed at the first stage; guarded by mu
}

// NewBalancer returns an address that stays, in front of servers that are set later.
func NewBalancer(t *testing.T) *balancer {
	t.Helper()
	b := &balancer{}
	b.Reset(nil)
	b.URL = Front(t, b)
	return b
}

// Front serves a handler until the test ends, and then cancels its requests:
// those of killed clients may wait for a body.
func Front(t *testing.T, h http.Handler) (url string) {
	t.Helper()
	life, end := context.WithCancel(context.Background())
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(life, cancel)()
		h.ServeHTTP(w, r.WithContext(ctx))
	}))
	t.Cleanup(srv.Close)
	t.Cleanup(srv.CloseClientConnections)
	t.Cleanup(end)
	return srv.URL
}

// Reset sets the servers.
func (b *balancer) Reset(backends []*Serving) {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	b.backends, b.opened, b.Taken, b.Got = slices.Clone(backends), map[*Serving]bool{}, map[string]int{}, make(chan struct{})
}

// Owner returns the server that has opened a stage.
func (b *balancer) Owner() *Serving {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	for s := range b.opened {
		return s
	}
	return nil
}

func (b *balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.Mu.Lock()
	if len(b.backends) == 0 {
		b.Mu.Unlock()
		http.Error(w, "no server", http.StatusBadGateway)
		return
	}
	b.next++
	s := b.backends[b.next%len(b.backends)]
	b.Mu.Unlock()
	to, err := url.Parse(s.URL)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	p := httputil.NewSingleHostReverseProxy(to)
	p.ErrorLog = log.New(io.Discard, "", 0) // of killed servers
	p.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, err error) {
		b.Mu.Lock()
		if i := slices.Index(b.backends, s); i >= 0 && len(b.backends) > 1 {
			b.backends = slices.Delete(b.backends, i, i+1)
		}
		b.Mu.Unlock()
		http.Error(w, err.Error(), http.StatusBadGateway)
	}
	p.ModifyResponse = func(resp *http.Response) error {
		if resp.StatusCode != http.StatusCreated {
			return nil
		}
		b.Mu.Lock()
		defer b.Mu.Unlock()
		switch {
		case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/stages"):
			if len(b.opened) == 0 {
				close(b.Got)
			}
			b.opened[s] = true
		case r.Method == http.MethodPut:
			b.Taken[r.URL.Path]++
		}
		return nil
	}
	p.ServeHTTP(w, r)
}
