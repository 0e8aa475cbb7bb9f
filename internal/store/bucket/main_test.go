package bucket_test

import (
	"errors"
	"net/http"
	"os"
	"sync"
	"testing"
)

// TestMain disables the default transport: all connections must use the
// RoundTripper that the bucket was opened with.
func TestMain(m *testing.M) {
	http.DefaultTransport = refusing{}
	os.Exit(m.Run())
}

type refusing struct{}

func (refusing) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("a request past the RoundTripper that was given")
}

// tape records the requests.
type tape struct {
	next http.RoundTripper
	mu   sync.Mutex
	urls []string
}

func (r *tape) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	r.urls = append(r.urls, req.Method+" "+req.URL.String())
	r.mu.Unlock()
	return r.next.RoundTrip(req)
}

func (r *tape) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.urls...)
}
