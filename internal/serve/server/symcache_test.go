package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/forms"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symcache"
)

const symCachePath = "/v3.1.0/app.pdb/0e7712be-af06-4421-884b-496f833c8ec1"

// metric returns the lines of a metric.
func metric(t *testing.T, s *Server, name string) string {
	t.Helper()
	var lines []string
	for line := range strings.Lines(ask(s, "GET", "/metrics").body) {
		if strings.HasPrefix(line, name) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return strings.Join(lines, "\n")
}

// busyDepot is a depot whose file is being made until done is closed. Then it is
// known that the file cannot be made.
type busyDepot struct {
	*depot.Depot
	done    chan struct{}
	held    chan struct{} // one for each request that waits
	gaveUps atomic.Int32
}

func (b *busyDepot) AnswerSymCache(ctx context.Context, ask depot.SymCacheAsk) (depot.SymCacheAnswer, error) {
	v := symcache.Version{Major: 3, Minor: 1}
	s := symcache.State{Producible: []symcache.Version{v}, AllowsRetry: ask.AllowsRetry, Head: ask.Head}
	for {
		select {
		case <-b.done:
			s.Failed = s.Producible
		default:
		}
		a := depot.SymCacheAnswer{}
		a.Decision = symcache.Decide(ask.Request.Version, s)
		a.Retry = 2500 * time.Millisecond
		if a.Action != symcache.Wait {
			return a, nil
		}
		var err error
		s.GaveUp, err = ask.Hold(ctx, func(ctx context.Context) error {
			b.held <- struct{}{}
			select {
			case <-b.done:
			case <-ctx.Done():
			}
			return nil
		})
		if err != nil {
			return a, err
		}
		if s.GaveUp {
			b.gaveUps.Add(1)
		}
	}
}

func newBusy(t *testing.T, cfg Config) (*busyDepot, *Server) {
	t.Helper()
	b := &busyDepot{Depot: newDepot(t), done: make(chan struct{}), held: make(chan struct{}, 10)}
	cfg.Depot = b.Depot
	s := newServer(t, cfg)
	s.symcache.answer = b.AnswerSymCache
	return b, s
}

// missed checks that a request got a miss, with the Retry-After or without one.
func missed(t *testing.T, what string, got reply, retry string) {
	t.Helper()
	if got.status != 404 || got.header.Get("Retry-After") != retry {
		t.Errorf("%s: status %d, Retry-After %q; want 404 and %q", what, got.status, got.header.Get("Retry-After"), retry)
	}
}

// TestSymCacheHeld: only so many requests are held, they do not count as lookups,
// and the server does not wait for them when it stops.
func TestSymCacheHeld(t *testing.T) {
	var log bytes.Buffer
	b, s := newBusy(t, Config{MaxConns: 8, MaxInFlight: 1, Log: slog.New(slog.NewTextHandler(&log, nil))})
	missed(t, "a client that retries", ask(s, "GET", symCachePath, "Allow-Retry-After: true"), "3")
	var all sync.WaitGroup
	results := make(chan reply, 2)
	for range 2 { // a quarter of MaxConns
		all.Go(func() { results <- ask(s, "GET", symCachePath) })
		<-b.held
	}
	t.Run("one more is not held", func(t *testing.T) {
		got := ask(s, "GET", symCachePath)
		missed(t, "GET", got, "")
		if cc := got.header.Get("Cache-Control"); cc != "no-store" {
			t.Errorf("Cache-Control is %q, want no-store", cc)
		}
		if got, want := metric(t, s, `symdepot_symcache_refused_total{limit="held"}`), `symdepot_symcache_refused_total{limit="held"} 1`; got != want {
			t.Errorf("the metrics have %q, want %q", got, want)
		}
		if got, want := metric(t, s, "symdepot_symcache_held_requests"), "symdepot_symcache_held_requests 2"; got != want {
			t.Errorf("the metrics have %q, want %q", got, want)
		}
		missed(t, "another one", ask(s, "GET", symCachePath), "")
		if got := log.String(); strings.Count(got, "limit=held") != 1 || !strings.Contains(got, "2 requests are held already") {
			t.Errorf("the log has %q, want one line that names the limit", got)
		}
	})
	t.Run("HEAD is never held", func(t *testing.T) {
		missed(t, "HEAD", ask(s, "HEAD", symCachePath), "3")
	})
	if len(results) != 0 {
		t.Errorf("%d of the 2 held requests have an answer, want none", len(results))
	}
	if len(s.lookups) != 0 {
		t.Errorf("%d lookups are counted while 2 requests are held, want none", len(s.lookups))
	}
	s.endWaits()
	all.Wait()
	for range 2 {
		if got := <-results; got.status != 503 || got.header.Get("Retry-After") == "" {
			t.Errorf("a held request when the server stops: status %d, %v; want 503 with Retry-After: 404 would say that there is no file", got.status, got.header)
		}
	}
	if len(s.symcache.held) != 0 {
		t.Errorf("%d requests are counted as held in the end, want none", len(s.symcache.held))
	}
	if n := b.gaveUps.Load(); n != 2 {
		t.Errorf("the depot heard from %d requests that they cannot wait, want 2", n)
	}
}

func TestSymCacheHeldEnds(t *testing.T) {
	t.Run("the client disconnects", func(t *testing.T) {
		b, s := newBusy(t, Config{SymCache: SymCacheConfig{Wait: time.Hour}})
		ctx, cancel := context.WithCancel(t.Context())
		r := httptest.NewRequestWithContext(ctx, "GET", symCachePath, nil)
		r.Host = "localhost"
		gone := make(chan struct{})
		go func() { defer close(gone); s.ServeHTTP(httptest.NewRecorder(), r) }()
		<-b.held
		cancel()
		<-gone
		if len(s.symcache.held) != 0 || len(s.lookups) != 0 {
			t.Errorf("%d held requests and %d lookups are counted in the end, want none", len(s.symcache.held), len(s.lookups))
		}
	})
	t.Run("the work ends", func(t *testing.T) {
		b, s := newBusy(t, Config{SymCache: SymCacheConfig{Wait: time.Hour}})
		answer := make(chan reply)
		go func() { answer <- ask(s, "GET", symCachePath) }()
		<-b.held
		close(b.done)
		missed(t, "a file that cannot be made", <-answer, "")
	})
	t.Run("the time is over", func(t *testing.T) {
		_, s := newBusy(t, Config{SymCache: SymCacheConfig{Wait: 10 * time.Millisecond}})
		missed(t, "a file that is being made", ask(s, "GET", symCachePath), "")
		if got, want := metric(t, s, `symdepot_symcache_refused_total{limit="wait"}`), `symdepot_symcache_refused_total{limit="wait"} 1`; got != want {
			t.Errorf("the metrics have %q, want %q", got, want)
		}
	})
}

// TestSymCacheHeldLong: a request is held as long as the work lasts, which is longer
// than any deadline of the server, in both versions of HTTP.
func TestSymCacheHeldLong(t *testing.T) {
	cert := testCert(t)
	roots := x509.NewCertPool()
	roots.AddCert(cert.Leaf)
	for _, version := range []int{1, 2} {
		t.Run(fmt.Sprintf("HTTP/%d", version), func(t *testing.T) {
			const short = 50 * time.Millisecond
			b, s := newBusy(t, Config{Wait: short, WriteTimeout: short, IdleTimeout: short, TLS: &tls.Config{Certificates: []tls.Certificate{cert}}})
			protocols := new(http.Protocols)
			protocols.SetHTTP1(version == 1)
			protocols.SetHTTP2(version == 2)
			tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "localhost"}, Protocols: protocols}
			defer tr.CloseIdleConnections()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+listen(t, s)+symCachePath, nil)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now() // before the timer starts: the request cannot seem shorter than the work
			time.AfterFunc(10*short, func() { close(b.done) })
			resp, err := tr.RoundTrip(req)
			if err != nil {
				t.Fatalf("the held request ended after %v: %v; want 404 after the end of the work", time.Since(began), err)
			}
			defer resp.Body.Close()
			if took := time.Since(began); resp.StatusCode != http.StatusNotFound || resp.ProtoMajor != version || took < 10*short {
				t.Errorf("HTTP/%d, status %d after %v; want HTTP/%d, 404 after %v", resp.ProtoMajor, resp.StatusCode, took, version, 10*short)
			}
		})
	}
}

// TestSymCacheNeverHot: answers that depend on what the transcoders can make
// are never kept in memory.
func TestSymCacheNeverHot(t *testing.T) {
	d := newDepot(t)
	s := newServer(t, Config{Depot: d})
	c := dial(t, listen(t, s))
	absent := func() {
		t.Helper()
		if got := c.do("GET", symCachePath); got.status != 404 || got.header.Get("Retry-After") != "" {
			t.Fatalf(`do("GET"): %+v, want status 404, header.Get("Retry-After") ""`, got)
		}
	}
	for range 3 {
		absent()
	}
	add(t, d, depot.Source{Path: "app.pdb/0E7712BEAF064421884B496F833C8EC11/app.pdb-v3.1.0.symcache"}, []byte("A310"))
	for range 3 {
		if got := c.do("GET", symCachePath); got.status != 200 || got.body != "A310" || got.header.Get("Content-Type") != "application/vnd.ms-symcache; version=3.1.0" {
			t.Fatalf(`do("GET"): %+v, want status 200, body "A310", header.Get("Content-Type") "application/vnd.ms-symcache; version=3.1.0"`, got)
		}
		if got := c.do("GET", symCachePath, "If-Version-Exceeds: 3.0.0"); got.status != 200 {
			t.Fatalf(`do("GET", "If-Version-Exceeds: 3.0.0"): %+v, want status 200`, got)
		}
		if got := c.do("GET", "/v3.2.0"+symCachePath[7:], "If-Version-Exceeds: 3.1.0"); got.status != 304 {
			t.Fatalf(`do("GET", "If-Version-Exceeds: 3.1.0"): %+v, want status 304`, got)
		}
	}
}

// TestSymCacheConditions: entity tags work as for other files, dates are
// ignored, and a large file is sent compressed or in ranges.
func TestSymCacheConditions(t *testing.T) {
	derived := make(chan struct{}, 10)
	d := openDepot(t, depot.Options{Hooks: depot.Hooks{Derived: func(forms.Form) { derived <- struct{}{} }}})
	body := bytes.Repeat([]byte("a SymCache file for tests\n"), 4000)
	add(t, d, depot.Source{Path: "app.pdb/0E7712BEAF064421884B496F833C8EC11/app.pdb-v3.1.0.symcache"}, body)
	s := newServer(t, Config{Depot: d})
	got := ask(s, "GET", symCachePath)
	tag := got.header.Get("ETag")
	if got.body != string(body) || got.header.Get("Last-Modified") != "" || len(tag) < 10 {
		t.Fatalf("%d bytes, %v; want the file with an ETag and without Last-Modified", len(got.body), got.header)
	}
	for _, tt := range []struct {
		header []string
		status int
		length int
	}{
		{[]string{"If-None-Match: " + tag}, 304, 0},
		{[]string{"If-None-Match: " + tag, "If-Version-Exceeds: 3.0.0"}, 200, len(body)}, // a 304 would say that there is nothing newer
		{[]string{"If-None-Match: \"x\""}, 200, len(body)},
		{[]string{"If-Match: \"x\""}, 412, -1},
		{[]string{"If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT"}, 200, len(body)},
		{[]string{"If-Unmodified-Since: Fri, 01 Jan 1999 00:00:00 GMT"}, 200, len(body)},
		{[]string{"Range: bytes=10-19"}, 206, 10},
		{[]string{"Range: bytes=10-19", "If-Range: " + tag}, 206, 10},
		{[]string{"Range: bytes=10-19", "If-Range: \"x\""}, 200, len(body)},
		{[]string{"Range: bytes=999999-"}, 416, -1},
	} {
		got := ask(s, "GET", symCachePath, tt.header...)
		if got.status != tt.status || tt.length >= 0 && len(got.body) != tt.length {
			t.Errorf("%q: %d with %d bytes; want %d with %d", tt.header, got.status, len(got.body), tt.status, tt.length)
		}
		if (got.status == 200 || got.status == 206) && got.header.Get("Content-Type") != "application/vnd.ms-symcache; version=3.1.0" {
			t.Errorf("%q: headers %v, want the Content-Type of a SymCache file of version 3.1.0", tt.header, got.header)
		}
		if got.status >= 400 && (got.header.Get("Cache-Control") != "no-store" || got.header.Get("ETag") != "") {
			t.Errorf("%q: status %d with headers %v, want Cache-Control: no-store and no ETag", tt.header, got.status, got.header)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = d.Work(ctx) }()
	defer func() { cancel(); <-done }()
	for n := 1; len(derived) == 0 && n <= 3; n++ { // the third request has the variant made
		if got := ask(s, "GET", symCachePath, "Accept-Encoding: zstd"); got.status != 200 {
			t.Errorf("request %d for a compressed file: status %d, want 200", n, got.status)
		}
	}
	select {
	case <-derived:
	case <-time.After(20 * time.Second):
		t.Fatal("three requests had no compressed variant made")
	}
	got = ask(s, "GET", symCachePath, "Accept-Encoding: zstd")
	if coding := got.header.Get("Content-Encoding"); coding != "zstd" || got.header.Get("ETag") == tag || len(got.body) >= len(body) || !strings.Contains(got.header.Get("Vary"), "Accept-Encoding") {
		t.Errorf("the compressed file: coding %q, %d bytes, headers %v; want zstd, fewer than %d bytes, another ETag and Vary", coding, len(got.body), got.header, len(body))
	}
}

func TestSignedAddress(t *testing.T) {
	s := newServer(t, Config{Depot: newDepot(t), SymCache: SymCacheConfig{Redirect: true}})
	route := func(path string) symcache.Request {
		segs, err := layout.Segments(path)
		if err != nil {
			t.Fatal(err)
		}
		req, err := layout.Route(segs)
		if err != nil {
			t.Fatal(err)
		}
		return req.SymCache
	}
	req, v := route(symCachePath), symcache.Version{Major: 3}
	query := func(until int64) url.Values {
		return url.Values{"file": {v.String()}, "until": {strconv.FormatInt(until, 10)}, "sign": {s.symcache.signature(req, v, until)}}
	}
	now := time.Now().Unix()
	if got, err := s.symcache.readSigned(query(now+60), req); err != nil || got != v {
		t.Errorf("readSigned: %v, error %v; want %v", got, err, v)
	}
	if _, err := s.symcache.readSigned(query(now+60), route(strings.ToUpper(symCachePath)+"/01")); err != nil {
		t.Errorf("the signature of a different spelling: error %v, want no error", err)
	}
	if _, err := s.symcache.readSigned(query(now-1), req); err == nil {
		t.Error("an expired address was taken")
	}
	for _, other := range []string{"/v3.1.1" + symCachePath[7:], symCachePath + "/2", strings.Replace(symCachePath, "app", "apq", 1), strings.Replace(symCachePath, "0e", "1e", 1)} {
		if _, err := s.symcache.readSigned(query(now+60), route(other)); err == nil {
			t.Errorf("%s: another file's signature was taken, want an error", other)
		}
	}
	for _, key := range []string{"file", "until", "sign"} {
		q := query(now + 60)
		q.Del(key)
		if _, err := s.symcache.readSigned(q, req); err == nil {
			t.Errorf("a signed link without %s: no error, want one", key)
		}
	}
}
