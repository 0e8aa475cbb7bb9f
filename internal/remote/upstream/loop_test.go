package upstream

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/layout"
)

// TestSymdepotUpstream: another symdepot server reports its id and loops, and a
// Breakpad server redirects to the debug id.
func TestSymdepotUpstream(t *testing.T) {
	const sym = "app.pdb/44E4EC8C2F41492B9369D6B9A059577C2/app.sym"
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(HopHeader, "them")
		switch {
		case strings.HasSuffix(r.URL.Path, sym):
			_, _ = io.WriteString(w, "MODULE windows x86_64 44E4EC8C2F41492B9369D6B9A059577C2 app.pdb\n")
		case strings.HasPrefix(r.URL.Path, "/app.exe/"):
			http.Redirect(w, r, "/try/"+sym, http.StatusFound)
		default:
			w.Header().Set(LoopHeader, "1")
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(far.Close)
	h, err := NewHTTP(HTTPConfig{Name: "far", URL: far.URL, Layout: layout.BreakpadTree.Name()}, NewDialer(DialerOptions{}))
	if err != nil {
		t.Fatal(err)
	}
	g := Guard(h, GuardOptions{})
	t.Cleanup(func() { _ = g.Close() })
	if g.Traits().ServerID != "" {
		t.Error("known before it was asked")
	}
	req := func(path string) fetch.Ask {
		r, err := layout.Route(strings.Split(path, "/"))
		if err != nil {
			t.Fatal(err)
		}
		return fetch.Ask{Request: r}
	}
	_, err = g.Fetch(t.Context(), req("none.pdb/44E4EC8C2F41492B9369D6B9A059577C2/none.sym"))
	f, ok := errors.AsType[*fetch.Failure](err)
	if !ok || f.Class != fetch.ClassNotFound || f.Retry.IsZero() || f.Retry.After(time.Now()) || g.Traits().ServerID != "them" {
		t.Errorf("%+v, from %q; want not found, remembered for no time, from them", err, g.Traits().ServerID)
	}
	reply, err := g.Fetch(t.Context(), req("app.exe/5B2AC3D71E000/app.sym"))
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	if reply.CodeInfo != sym || reply.Name != "app.pdb" {
		t.Errorf(`got %+v, want CodeInfo %v, Name "app.pdb"`, reply, sym)
	}
}

// TestQueued: a request that waits for the limit of concurrent requests learns that
// it waits, and that the wait is over.
func TestQueued(t *testing.T) {
	hold, reached := make(chan struct{}), make(chan struct{}, 2)
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reached <- struct{}{}
		<-hold
		http.NotFound(w, r)
	}))
	t.Cleanup(far.Close)
	h, err := NewHTTP(HTTPConfig{Name: "far", URL: far.URL, Layout: layout.BreakpadTree.Name()}, NewDialer(DialerOptions{}))
	if err != nil {
		t.Fatal(err)
	}
	g := Guard(h, GuardOptions{Concurrency: 1})
	r, err := layout.Route(strings.Split("app.pdb/44E4EC8C2F41492B9369D6B9A059577C2/app.sym", "/"))
	if err != nil {
		t.Fatal(err)
	}
	first := make(chan struct{})
	go func() {
		defer close(first)
		_, _ = g.Fetch(t.Context(), fetch.Ask{Request: r})
	}()
	<-reached
	var said []bool
	_, err = g.Fetch(t.Context(), fetch.Ask{Request: r, Queued: func(waits bool) {
		if said = append(said, waits); waits {
			close(hold)
		}
	}})
	<-first
	if fetch.ClassOf(err) != fetch.ClassNotFound || len(said) != 2 || !said[0] || said[1] {
		t.Errorf("%v, waiting reported as %v; want not found, and waiting true, then false", err, said)
	}
}
