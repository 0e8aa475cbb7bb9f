package client

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/wire"
)

// TestLocalFailure: a failure of this machine is not attributed to the server,
// and the request is not repeated.
func TestLocalFailure(t *testing.T) {
	var asked atomic.Int32
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		_, _ = io.WriteString(w, "the PDB")
	}))
	defer ts.Close()
	j := wire.Job{ID: 1, Token: "lease", Seconds: 1}
	s := &Server{HTTP: ts.Client(), URL: ts.URL, Worker: "w", Token: func() (string, error) { return "secret", nil }, Backoff: time.Millisecond}
	closed, err := os.Create(filepath.Join(t.TempDir(), "closed"))
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	unwritable, err := os.Open(closed.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer unwritable.Close()
	for _, c := range []struct {
		name, want string
		requests   int32
		do         func() error
	}{
		{"closed file", "this machine cannot write the input of a job: ", 1, func() error { return s.Input(t.Context(), j, closed) }},
		{"file opened for reading", "this machine cannot write the input of a job: ", 1, func() error { return s.Input(t.Context(), j, unwritable) }},
		{"missing result", "this machine cannot read the result: ", 0, func() error {
			return s.Complete(t.Context(), j, "3.1.0", closed.Name()+".missing", "")
		}},
	} {
		asked.Store(0)
		if err := c.do(); err == nil || !strings.HasPrefix(err.Error(), c.want) || errors.Is(err, ErrRefused) {
			t.Errorf("%s: error %v, want one that begins with %q", c.name, err, c.want)
		}
		if n := asked.Load(); n != c.requests {
			t.Errorf("%s: %d requests, want %d", c.name, n, c.requests)
		}
	}
}
