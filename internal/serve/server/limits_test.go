package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/layout"
)

// pipes is a listener without a network, for tests whose time is not real.
type pipes struct {
	ch   chan net.Conn
	stop chan struct{}
	once sync.Once
}

func newPipes() *pipes { return &pipes{ch: make(chan net.Conn), stop: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.ch:
		return c, nil
	case <-p.stop:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.stop) }); return nil }
func (p *pipes) Addr() net.Addr { a, _ := net.Pipe(); return a.LocalAddr() }

func (p *pipes) dial() net.Conn {
	a, b := net.Pipe()
	p.ch <- a
	return b
}

const gonePath = "/a.pdb/000000000000000000000000000000001/a.pdb"

// TestTooManyLookups: lookups beyond the limit wait 20 seconds and are then
// answered 503, not 404.
func TestTooManyLookups(t *testing.T) {
	d := newDepot(t)
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := newFakeServer(t, Config{MaxInFlight: 2, Depot: d}, func(context.Context, layout.Request) (*answer.File, error) {
			<-release
			return nil, fs.ErrNotExist
		})
		results := make(chan reply, 4)
		start := time.Now()
		for range 3 {
			go func() { results <- ask(s, "GET", gonePath) }()
		}
		r := <-results
		if waited := time.Since(start); r.status != 503 || r.header.Get("Retry-After") != "5" || waited != 20*time.Second {
			t.Errorf("status %d, Retry-After %q after %v; want 503, 5 and 20 s", r.status, r.header.Get("Retry-After"), waited)
		}
		go func() { results <- ask(s, "GET", gonePath) }()
		time.Sleep(10 * time.Second)
		close(release)
		for range 3 {
			if r := <-results; r.status != 404 {
				t.Errorf("released: %d, want 404", r.status)
			}
		}
	})
}

// TestTooManyConnections: beyond the limit of concurrent answers, requests on
// further connections wait until another answer ends.
func TestTooManyConnections(t *testing.T) {
	d := newDepot(t)
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := newFakeServer(t, Config{MaxConns: 2, Depot: d}, func(_ context.Context, r layout.Request) (*answer.File, error) {
			if r.Name == "slow.pdb" {
				<-release
			}
			return nil, fs.ErrNotExist
		})
		ln := newPipes()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Serve(ctx, ln) }()
		ask := func(c net.Conn, name string) {
			if _, err := io.WriteString(c, "GET /"+name+"/000000000000000000000000000000001/"+name+" HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
				t.Error(err)
			}
		}
		read := func(c net.Conn) string {
			b := make([]byte, 4096)
			n, err := c.Read(b)
			if err != nil {
				t.Error(err)
			}
			return string(b[:n])
		}
		slow := []net.Conn{ln.dial(), ln.dial()}
		for _, c := range slow {
			ask(c, "slow.pdb")
		}
		synctest.Wait()
		third := ln.dial()
		start := time.Now()
		ask(third, "a.pdb")
		if got := read(third); !strings.HasPrefix(got, "HTTP/1.1 503 ") || !strings.Contains(got, "Retry-After: 5\r\n") || time.Since(start) != 20*time.Second {
			t.Errorf("after %v: %q; want 503 with Retry-After 5 after 20 s", time.Since(start), got)
		}
		fourth := ln.dial()
		ask(fourth, "a.pdb")
		time.Sleep(5 * time.Second)
		close(release)
		for _, c := range slow {
			go func() { _, _ = io.Copy(io.Discard, c) }()
		}
		if got := read(fourth); !strings.HasPrefix(got, "HTTP/1.1 404 ") {
			t.Errorf("once there is room: %q, want %q at the beginning", got, "HTTP/1.1 404 ")
		}
		for _, c := range []net.Conn{third, fourth} {
			go func() { _, _ = io.Copy(io.Discard, c) }()
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestSlowClients: an incomplete header, an idle connection and an answer that
// the client does not read are all ended.
func TestSlowClients(t *testing.T) {
	d := newDepot(t)
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer(t, Config{Depot: d}, notFound)
		ln := newPipes()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Serve(ctx, ln) }()
		const get = "GET " + gonePath + " HTTP/1.1\r\nHost: localhost\r\n\r\n"
		for _, tt := range []struct {
			name, send string
			read       bool
			want       time.Duration
		}{
			{"nothing sent", "", true, 10 * time.Second},
			{"half a header", get[:30], true, 10 * time.Second},
			{"half a header after an answer", get + get[:30], true, 10 * time.Second},
			{"idle after an answer", get, true, 2 * time.Minute},
			{"idle after an answer of net/http", strings.Replace(get, "GET", "HEAD", 1), true, 2 * time.Minute},
			{"an answer not taken", get, false, time.Minute},
			{"an answer of net/http not taken", strings.Replace(get, "GET", "HEAD", 1), false, 80 * time.Second},
		} {
			c, start := ln.dial(), time.Now()
			if _, err := io.WriteString(c, tt.send); err != nil {
				t.Error(err)
			}
			if !tt.read {
				time.Sleep(tt.want + time.Second)
			}
			_, _ = io.Copy(io.Discard, c)
			if d := time.Since(start); tt.read && (d < tt.want || d > tt.want+time.Second) {
				t.Errorf("%s: closed after %v, want %v", tt.name, d, tt.want)
			}
			if !tt.read {
				if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
					t.Errorf("%s: still open", tt.name)
				}
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestStalledDownload: a client that reads slowly but steadily gets the whole
// file; one that stops is disconnected.
func TestStalledDownload(t *testing.T) {
	d := newDepot(t)
	big := add(t, d, depot.Source{Path: "big.sym"}, sym(bigID, "big.pdb", "", 3<<20+17))
	path := big.path(t, layout.BreakpadTree)
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config{Depot: d, MinRate: 16 << 10})
		ln := newPipes()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Serve(ctx, ln) }()
		for _, steady := range []bool{true, false} {
			c := ln.dial()
			if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); err != nil {
				t.Error(err)
			}
			start, total := time.Now(), 0
			for buf := make([]byte, 256<<10); ; {
				n, err := io.ReadFull(c, buf)
				total += n
				if err != nil {
					break
				}
				if steady {
					time.Sleep(14 * time.Second) // a little faster than the least rate
				} else {
					time.Sleep(10 * time.Minute)
				}
			}
			if steady && (total < len(big.body) || time.Since(start) < 2*time.Minute) {
				t.Errorf("steady: %d of %d bytes in %v; want all, in more than 2 minutes", total, len(big.body), time.Since(start))
			}
			if !steady && total > 1<<20 {
				t.Errorf("stalled: %d bytes; want at most 1 MiB", total)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestShutdown: a running download is finished, no new connection is accepted,
// and idle connections do not hold anything up.
func TestShutdown(t *testing.T) {
	w := newWorld(t, Config{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.s.Serve(ctx, ln) }()
	addr := ln.Addr().String()
	idle := dial(t, addr) // answered from memory
	idle.do("GET", gonePath)
	big := w.big.path(t, layout.BreakpadTree)
	c := dial(t, addr)
	c.send("GET " + big + " HTTP/1.1\r\nHost: localhost\r\n\r\n")
	r, err := http.ReadResponse(c.r, nil)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := idle.r.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("the idle connection: %v, want the error %v", err, io.EOF)
	}
	if r := ask(w.s, "GET", "/readyz"); r.status != 503 {
		t.Errorf("readyz while stopping: %d, want 503", r.status)
	}
	if c, err := net.Dial("tcp", addr); err == nil {
		_ = c.Close()
		t.Errorf("a connection to %s after the stop: accepted, want it refused", addr)
	}
	select {
	case err := <-done:
		t.Errorf("Serve ended before the download: %v", err)
	default:
	}
	b, err := io.ReadAll(r.Body)
	if err != nil || !bytes.Equal(b, w.big.body) {
		t.Errorf("%d of %d bytes, %v; want all", len(b), len(w.big.body), err)
	}
	if err := <-done; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

// TestShutdownGrace: a client that does not take its download is cut off.
func TestShutdownGrace(t *testing.T) {
	d := newDepot(t)
	big := add(t, d, depot.Source{Path: "big.sym"}, sym(bigID, "big.pdb", "", 1<<20))
	path := big.path(t, layout.BreakpadTree)
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config{Depot: d, ShutdownGrace: 5 * time.Second})
		ln := newPipes()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Serve(ctx, ln) }()
		c := ln.dial()
		_, _ = io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
		synctest.Wait()
		start := time.Now()
		cancel()
		if err := <-done; err == nil || time.Since(start) > 6*time.Second {
			t.Errorf("%v after %v; want an error within 6 s", err, time.Since(start))
		}
		_ = c.Close()
	})
}

func TestListening(t *testing.T) {
	d := newDepot(t)
	for _, public := range []bool{false, true} {
		s := newFakeServer(t, Config{Depot: d, Public: public}, notFound)
		for addr, local := range map[string]bool{"127.0.0.1:0": true, "localhost:8080": true, "[::1]:80": true, "127.1.2.3:1": true,
			":8080": false, "0.0.0.0:80": false, "[::]:80": false, "10.1.2.3:80": false, "symbols.example.com:80": false} {
			if err := s.CheckListen(addr); (err == nil) != (local || public) {
				t.Errorf("public %v, %s: %v; want success exactly for local or public servers", public, addr, err)
			} else if err != nil && !strings.Contains(err.Error(), "--public") {
				t.Errorf("%s: %v does not name the flag", addr, err)
			}
		}
		if err := s.CheckListen("8080"); err == nil {
			t.Error("a port alone is taken")
		}
	}
	ln, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Skip("no address but loopback:", err)
	}
	if err := newFakeServer(t, Config{Depot: d}, notFound).Serve(t.Context(), ln); err == nil {
		t.Error("a public listener is served")
	}
	if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the refused listener: %v, want the error %v", err, net.ErrClosed)
	}
}

func TestBaseURL(t *testing.T) {
	for addr, want := range map[string]string{"127.0.0.1:80": "http://127.0.0.1:80", "[::1]:8080": "http://[::1]:8080", "0.0.0.0:8080": "http://localhost:8080"} {
		a, err := net.ResolveTCPAddr("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if got := BaseURL(a); got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
	}
	text := web.StartText("http://127.0.0.1:8080", false)
	for _, want := range []string{`_NT_SYMBOL_PATH=srv*C:\symbols*http://127.0.0.1:8080`, `_NT_SYMCACHE_PATH=C:\SymCache*http://127.0.0.1:8080`,
		"DEBUGINFOD_URLS=http://127.0.0.1:8080\n", "--server-path http://127.0.0.1:8080 ", "--symbols-url http://127.0.0.1:8080 ", `"url": "http://127.0.0.1:8080"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the start text lacks %q", want)
		}
	}
}

// TestAccessLog: one record per request, from net/http and from memory.
func TestAccessLog(t *testing.T) {
	var out bytes.Buffer
	lw := NewLogWriter(&out)
	w := newWorld(t, Config{AccessLog: true, Log: slog.New(slog.NewJSONHandler(lw, nil))})
	c := dial(t, listen(t, w.s))
	path := w.small.path(t, layout.BreakpadTree)
	for range 3 {
		c.do("GET", path, "User-Agent: curl/8\"\\\t"+strings.Repeat("x", 1000))
	}
	c.do("HEAD", path)
	c.do("GET", gonePath)
	c.do("GET", "/"+strings.Repeat("y", 5000))
	// A record is written after the answer: the next answer on the same
	// connection, or a later one, shows that it is there.
	c.do("GET", "/healthz")
	c.do("GET", "/healthz")
	if err := lw.Close(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) < 7 {
		t.Fatalf("%d records:\n%s; want at least 7", len(lines), out.String())
	}
	for i, want := range []string{`"method":"GET","path":"` + path + `","status":200,"bytes":3000,`, "", "", `"method":"HEAD","path":"` + path + `","status":200,"bytes":0,`,
		`"status":404,"bytes":10,`, `yyy…","status":404`, `"path":"/healthz"`} {
		if !strings.Contains(lines[i], want) || !strings.Contains(lines[i], `"remote":"127.0.0.1:`) || len(lines[i]) > 1200 {
			t.Errorf("record %d is %s; want %s and the client's address in at most 1200 bytes", i, lines[i], want)
		}
	}
	if !strings.Contains(lines[1], `"protocol":"breakpad","result":"hit"`) || !strings.Contains(lines[4], `"result":"miss"`) {
		t.Errorf("got %s, %s; want one with %q, one with %q", lines[1], lines[4], `"protocol":"breakpad","result":"hit"`, `"result":"miss"`)
	}
}

// lockedBuffer is a bytes.Buffer that goroutines may share.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestLogWriter: lines appear after a while without Close, and whole.
func TestLogWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out lockedBuffer
		l := NewLogWriter(&out)
		_, _ = io.WriteString(l, "one\n")
		_, _ = io.WriteString(l, "two\n")
		if out.String() != "" {
			t.Error("written at once")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if out.String() != "one\ntwo\n" {
			t.Errorf("got %q, want %q", out.String(), "one\ntwo\n")
		}
		_, _ = l.Write(bytes.Repeat([]byte("x"), logBuffer))
		if len(out.String()) < logBuffer {
			t.Error("a full buffer waits")
		}
		_ = l.Close()
	})
}

func TestMetrics(t *testing.T) {
	w := newWorld(t, Config{Version: "v1.2.3"})
	c := dial(t, listen(t, w.s))
	path := w.small.path(t, layout.BreakpadTree)
	for range 5 {
		c.do("GET", path)
	}
	c.do("HEAD", path)
	c.do("GET", gonePath)
	for _, m := range []string{"MKCOL", "FOO", "BAR"} {
		dial(t, c.conn.RemoteAddr().String()).do(m, "/x")
	}
	c.do("GET", "/healthz")
	text := ask(w.s, "GET", "/metrics").body
	for _, want := range []string{
		`symdepot_http_requests_total{code="200",method="GET",protocol="breakpad"} 5`,
		`symdepot_http_requests_total{code="404",method="GET",protocol="symstore"} 1`,
		`symdepot_http_requests_total{code="405",method="other",protocol="none"} 3`,
		`symdepot_lookups_total{protocol="breakpad",result="hit"} 6`,
		`symdepot_lookups_total{protocol="symstore",result="miss"} 1`,
		`symdepot_http_response_bytes_total{protocol="breakpad"} 15000`,
		`symdepot_http_request_duration_seconds_count{protocol="breakpad"} 6`,
		`symdepot_http_requests_in_flight 1`,
		`version="v1.2.3"} 1`, "go_goroutines", "process_resident_memory_bytes",
		"symdepot_depot_objects 8", "symdepot_depot_builds 8", "symdepot_depot_bytes ", "symdepot_depot_contents 8",
		"# HELP symdepot_http_requests_total", "# TYPE symdepot_lookups_total counter",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}
