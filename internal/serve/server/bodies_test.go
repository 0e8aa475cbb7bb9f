package server

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/body"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/derive/symbolicate"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/intake"
	"github.com/symdepot/symdepot/internal/serve/web"
)

// TestBodiesSlowClient: over HTTP, a client that stops in the middle of its body gets
// 429, and does not hold up the next one.
func TestBodiesSlowClient(t *testing.T) {
	t.Parallel()
	d := openDepot(t, depot.Options{})
	s := newServer(t, Config{Depot: d, Wait: time.Minute})
	memory := body.NewMemory(body.Limits{Total: body.Part, Client: body.Part, Slow: time.Millisecond, Wait: time.Minute})
	s.routes.symbolicate.handler.(*symbolication).bodies = memory
	ts := httptest.NewServer(s)
	t.Cleanup(ts.Close)
	client := ts.Client()
	pr, pw := io.Pipe()
	defer pw.Close()
	type answer struct {
		status int
		err    error
	}
	answers := make(chan answer, 1)
	go func() {
		resp, err := client.Post(ts.URL+"/symbolicate/v5", "application/json", pr)
		if err != nil {
			answers <- answer{0, err}
			return
		}
		_ = resp.Body.Close()
		answers <- answer{resp.StatusCode, nil}
	}()
	if _, err := io.WriteString(pw, strings.Repeat(" ", body.Part)); err != nil {
		t.Fatal(err)
	}
	symtest.Await(t, time.Minute, "the part of the slow body", func() bool { return memory.Used() == body.Part })
	const fine = `{"memoryMap":[],"stacks":[[[-1,1]]]}`
	for range 3 {
		resp, err := client.Post(ts.URL+"/symbolicate/v5", "application/json", strings.NewReader(fine))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("a short request beside a slow one: status %d, want 200", resp.StatusCode)
		}
	}
	if a := <-answers; a.err != nil || a.status != http.StatusTooManyRequests {
		t.Errorf("the slow request: status %d, error %v; want 429", a.status, a.err)
	}
}

// TestClientBodies: all connections of one client together hold its share of the memory of
// bodies, however many there are and however slow they are, and others are answered.
func TestClientBodies(t *testing.T) {
	t.Parallel()
	d := openDepot(t, depot.Options{})
	s := newServer(t, Config{Depot: d, Wait: time.Minute})
	memory := s.routes.symbolicate.handler.(*symbolication).bodies
	addr := listen(t, s)
	const clients, size, share = 10, symbolicate.MaxBody, 16 << 20
	post := fmt.Sprintf("POST /symbolicate/v5 HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", size)
	for range clients {
		c := dialFrom(t, "127.0.0.2", addr)
		go func() { // all but the last byte; the server may take less
			_, _ = io.WriteString(c.conn, post+strings.Repeat(" ", size-1))
		}()
	}
	symtest.Await(t, time.Minute, "the share of the client", func() bool { return memory.Used() >= share-body.Part })
	const fine = `{"memoryMap":[],"stacks":[[[-1,1]]]}`
	for range 3 {
		c := dialFrom(t, "127.0.0.3", addr)
		c.send(fmt.Sprintf("POST /symbolicate/v5 HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(fine), fine))
		if r := c.reply("POST"); r.status != http.StatusOK {
			t.Errorf("another client beside a greedy one: status %d, want 200", r.status)
		}
		if got := memory.Used(); got > share {
			t.Errorf("one client with %d connections holds %d bytes of bodies, want %d at most", clients, got, share)
		}
	}
}

// TestBodiesCount: what arrives of a body that is read into memory counts, whatever its
// request is for, until the request has ended.
func TestBodiesCount(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, auth.PolicyConfig{}, Config{WorkerToken: workToken})
	up, err := intake.New(intake.Config{Stages: g.d.Stages(), Dir: g.d.Stages().UploadDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = up.Close() })
	w := g.s.cfg
	w.Uploads = up
	w.API, w.Pages = webOf(g.d, web.Config{Forms: up})
	s := newServer(t, w)
	addr := listen(t, s)
	const form, multi = "application/x-www-form-urlencoded", "multipart/form-data; boundary=b"
	const field = "--b\r\nContent-Disposition: form-data; name=\"product\"\r\n\r\nGame of the year, whose name is longer than what is held back for the closing boundary"
	for _, c := range []struct{ method, path, credential, kind, text string }{
		{"POST", "/-/api/v1/push/stages", g.writes, "application/json", `{"product":`},
		{"POST", "/-/trace", "", form, "path="},
		{"POST", "/-/publish", g.writes, multi, field},
		{"POST", "/-/worker/lease", workToken, "application/json", `{"worker":`},
		{"POST", "/v1/uploads:create", g.writes, "application/json", "{"},
		{"POST", "/in/ours/v1/uploads:create", g.writes, "application/json", "{"},
		{"POST", "/in/ours", g.writes, multi, field},
		{"POST", "/api/0/projects/acme/ours/files/difs/assemble/", g.writes, "application/json", "{"},
	} {
		if got := s.bodies.Used(); got != 0 {
			t.Fatalf("before %s: %d bytes are counted, want 0", c.path, got)
		}
		con := dial(t, addr)
		con.send(fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\n%s\r\nContent-Type: %s\r\nContent-Length: 1000\r\n\r\n%s", c.method, c.path, bearer(c.credential), c.kind, c.text))
		symtest.Await(t, 10*time.Second, "the first bytes of "+c.path, func() bool { return s.bodies.Used() == body.Part })
		_ = con.conn.Close()
		symtest.Await(t, 10*time.Second, "the end of "+c.path, func() bool { return s.bodies.Used() == 0 })
	}
}
