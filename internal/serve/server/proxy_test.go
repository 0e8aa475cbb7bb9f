package server

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/remote/upstream"
)

const arrivingPath = "/app.pdb/44E4EC8C2F41492B9369D6B9A059577C2/app.sym"

// arriving is a server whose depot fetches from one that the test drives.
type arriving struct {
	addr string
	d    *depot.Depot
	s    *Server
	body []byte
	// parts are written to every request; the answer ends when it is closed,
	// and breaks off when it is told to.
	parts chan []byte
	fails chan struct{}
	asked atomic.Int64 // requests
}

func newArriving(t *testing.T, sized bool, size int) *arriving {
	t.Helper()
	a := &arriving{parts: make(chan []byte), fails: make(chan struct{}), body: sym("44E4EC8C2F41492B9369D6B9A059577C2", "app.pdb", "", size)}
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.asked.Add(1)
		if r.URL.Path != arrivingPath {
			http.NotFound(w, r)
			return
		}
		if sized {
			w.Header().Set("Content-Length", fmt.Sprint(len(a.body)))
		}
		for {
			select {
			case p, ok := <-a.parts:
				if !ok {
					return
				}
				_, _ = w.Write(p)
				_ = http.NewResponseController(w).Flush()
			case <-a.fails:
				panic(http.ErrAbortHandler)
			case <-r.Context().Done():
				return
			}
		}
	}))
	t.Cleanup(far.Close)
	src, err := upstream.NewHTTP(upstream.HTTPConfig{Name: "far", URL: far.URL, Layout: "breakpad"}, upstream.NewDialer(upstream.DialerOptions{}))
	if err != nil {
		t.Fatal(err)
	}
	d, err := depot.Open(t.Context(), filepath.Join(t.TempDir(), "depot"), depot.Options{Upstreams: []depot.Upstream{{Source: src}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(d.Close(), src.Close()); err != nil {
			t.Error(err)
		}
	})
	a.d, a.s = d, newServer(t, Config{Depot: d, ID: "us"})
	a.addr = listen(t, a.s)
	return a
}

// begin sends a request and returns its connection.
func (a *arriving) begin(t *testing.T, raw string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", a.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, raw); err != nil {
		t.Fatal(err)
	}
	return c
}

func (a *arriving) get(t *testing.T, method string, headers ...string) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+a.addr+arrivingPath, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		k, v, _ := strings.Cut(h, ": ")
		req.Header.Set(k, v)
	}
	tr := &http.Transport{DisableCompression: true}
	t.Cleanup(tr.CloseIdleConnections)
	return tr.RoundTrip(req)
}

func (a *arriving) want(t *testing.T, resp *http.Response, err error, status int, body []byte, headers ...string) {
	t.Helper()
	if err != nil {
		t.Error(err)
		return
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status || !bytes.Equal(got, body) {
		t.Errorf("status %d with %d bytes, %v; want %d with %d", resp.StatusCode, len(got), err, status, len(body))
	}
	for _, h := range headers {
		k, v, _ := strings.Cut(h, ": ")
		if have := resp.Header.Get(k); have != v {
			t.Errorf("%s: %q, want %q", k, have, v)
		}
	}
}

// TestAnswersDuringDownload: HEAD, ranges and conditions are answered from the bytes
// received so far of a file that is being downloaded, with known and with
// unknown length.
func TestAnswersDuringDownload(t *testing.T) {
	for _, sized := range []bool{true, false} {
		t.Run(fmt.Sprintf("sized %v", sized), func(t *testing.T) {
			a := newArriving(t, sized, 600<<10)
			go func() { a.parts <- a.body[:400<<10] }()
			resp, err := a.get(t, "HEAD")
			length, part, tail := "", "bytes 1000-1999/*", 200
			if sized {
				length, part, tail = fmt.Sprint(len(a.body)), fmt.Sprintf("bytes 1000-1999/%d", len(a.body)), 206
			}
			a.want(t, resp, err, 200, nil, "Content-Length: "+length, "Etag: ", "Accept-Ranges: bytes")
			resp, err = a.get(t, "GET", "Range: bytes=1000-1999")
			a.want(t, resp, err, 206, a.body[1000:2000], "Content-Range: "+part)
			for _, h := range []string{"If-None-Match: \"x\",", "If-None-Match: ", "If-Modified-Since: Mon, 02 Jan 2006 15:04:05 GMT"} {
				resp, err = a.get(t, "GET", h, "Range: bytes=0-9")
				a.want(t, resp, err, 206, a.body[:10])
			}
			resp, err = a.get(t, "GET", "If-Match: \"\"")
			if err != nil || resp.StatusCode != http.StatusPreconditionFailed {
				t.Errorf("If-Match of nothing: %v, %v", resp, err)
			} else {
				_ = resp.Body.Close()
			}
			resp, err = a.get(t, "GET", "If-Range: \"x\"", "Range: bytes=0-9")
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Errorf("a Range of another answer: %v, %v", resp, err)
			} else {
				_ = resp.Body.Close()
			}
			// The end has to be waited for.
			answered, done := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				resp, err := a.get(t, "GET", "Range: bytes=-100")
				close(answered)
				want := a.body[len(a.body)-100:]
				if !sized {
					want = a.body
				}
				a.want(t, resp, err, tail, want)
			}()
			if !sized {
				<-answered // with the whole file, because its end is not known yet
			}
			a.parts <- a.body[400<<10:]
			close(a.parts)
			<-done
			resp, err = a.get(t, "GET", "Range: bytes=0-0")
			a.want(t, resp, err, 206, a.body[:1], fmt.Sprintf("Content-Range: bytes 0-0/%d", len(a.body)))
		})
	}
}

// TestOldClientIsReset: an HTTP/1.0 client takes the end of the connection for
// the end of the file, so an interrupted transfer must look like a failure.
func TestOldClientIsReset(t *testing.T) {
	for _, proto := range []string{"HTTP/1.0", "HTTP/1.1"} {
		for _, sized := range []bool{true, false} {
			a := newArriving(t, sized, 600<<10)
			c := a.begin(t, "GET "+arrivingPath+" "+proto+"\r\nHost: "+a.addr+"\r\nConnection: close\r\n\r\n")
			a.parts <- a.body[:400<<10]
			var head [64]byte
			if _, err := io.ReadFull(c, head[:]); err != nil || !bytes.Contains(head[:], []byte(" 200 ")) {
				t.Fatalf(`io.ReadFull: %q, error %v; want head[:] with []byte(" 200 ")`, head, err)
			}
			go func() {
				for range 4 { // it is tried again
					select {
					case a.fails <- struct{}{}:
					case <-time.After(time.Second):
					}
				}
			}()
			rest, err := io.ReadAll(c)
			if err == nil && (proto == "HTTP/1.0" || bytes.HasSuffix(rest, []byte("0\r\n\r\n"))) {
				t.Errorf("%s, sized %v: a clean end after %d bytes, want a broken end", proto, sized, len(rest))
			}
			if len(rest) > 400<<10+8192 {
				t.Errorf("%s: %d bytes, want at most 400 KiB and headers", proto, len(rest))
			}
		}
	}
}

// TestLoopsAreReported: a server that forwarded a request learns this server's
// id, and that a loop is not a miss.
func TestLoopsAreReported(t *testing.T) {
	a := newArriving(t, true, 1000)
	req := func(hop string) *http.Response {
		resp, err := a.get(t, "GET", wire.Hop+": "+hop)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp
	}
	go func() {
		a.parts <- a.body
		close(a.parts)
	}()
	if r := req("them, us"); r.StatusCode != http.StatusNotFound || r.Header.Get(wire.Loop) == "" || r.Header.Get(wire.Hop) != "us" {
		t.Errorf(`req("them, us"): %d, %v; want %v, Get(wire.Loop) not "", Get(wire.Hop) "us"`, r.StatusCode, r.Header, http.StatusNotFound)
	}
	if r := req("them"); r.StatusCode != http.StatusOK || r.Header.Get(wire.Loop) != "" || r.Header.Get(wire.Hop) != "us" {
		t.Errorf(`req("them"): %d, %v; want %v, Get(wire.Loop) "", Get(wire.Hop) "us"`, r.StatusCode, r.Header, http.StatusOK)
	}
}

// TestKnownMiss: a remembered miss is answered without a request to the
// upstream, until the file is added.
func TestKnownMiss(t *testing.T) {
	a := newArriving(t, true, 1000)
	c := dial(t, a.addr)
	const path = "/none.pdb/44E4EC8C2F41492B9369D6B9A059577C2/none.sym"
	want := c.do("GET", path)
	if want.status != http.StatusNotFound {
		t.Fatalf("GET %s: status %d, want 404", path, want.status)
	}
	asked := a.asked.Load()
	for range 5 {
		same(t, path, c.do("GET", path), want)
	}
	if n := a.asked.Load(); n != asked {
		t.Errorf("%d more requests to the upstream for a remembered miss, want none", n-asked)
	}
	// What is added is there at once.
	add(t, a.d, depot.Source{Path: "none.sym"}, sym("44E4EC8C2F41492B9369D6B9A059577C2", "none.pdb", "", 500))
	if got := c.do("GET", path); got.status != http.StatusOK {
		t.Errorf("added, and status %d; want %d", got.status, http.StatusOK)
	}
}

// TestBrokenBeforeFirstByte: a client whose bytes have not arrived when the transfer breaks
// off has received nothing: the answer is that for a missing file, not an error of the server.
func TestBrokenBeforeFirstByte(t *testing.T) {
	a := newArriving(t, true, 600<<10)
	done := make(chan struct{})
	first := a.begin(t, "GET "+arrivingPath+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
	go func() { defer close(done); _, _ = io.Copy(io.Discard, first) }()
	a.parts <- a.body[:100<<10]
	if _, err := a.get(t, "HEAD"); err != nil { // answered once the first bytes are there
		t.Fatal(err)
	}
	spools, err := filepath.Glob(filepath.Join(a.d.Name(), "blobs", "tmp", "*"))
	if err != nil || len(spools) != 1 {
		t.Fatalf("temporary files %q, %v; want that of the download", spools, err)
	}
	if err := os.Remove(spools[0]); err != nil { // as at the end of a broken transfer
		if runtime.GOOS == "windows" {
			t.Skip("needs a system that removes open files: ", err)
		}
		t.Fatal(err)
	}
	if f, err := os.Open(spools[0]); err == nil {
		_ = f.Close()
		t.Skip("needs a system on which a removed file cannot be opened: Wine opens it as long as another handle is open")
	}
	second := a.begin(t, "GET "+arrivingPath+" HTTP/1.1\r\nHost: localhost\r\nRange: bytes=500000-500010\r\nConnection: close\r\n\r\n")
	symtest.Await(t, 20*time.Second, "a client that waits for its bytes", func() bool {
		stacks := make([]byte, 4<<20)
		return bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("fetch.(*reader).ReadAt("))
	})
	a.fails <- struct{}{}
	resp, err := http.ReadResponse(bufio.NewReader(second), nil)
	a.want(t, resp, err, http.StatusNotFound, []byte("not found\n"), "Content-Range: ", "Etag: ")
	<-done
}
