package server

import (
	"bytes"
	"context"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symcache"
)

const symCachePath = "/v3.1.0/app.pdb/0e7712be-af06-4421-884b-496f833c8ec1"

// busyDepot is a depot whose file is being made until done is closed.
type busyDepot struct {
	*depot.Depot
	done chan struct{}
	mu   sync.Mutex
	asks []depot.SymCacheAsk // guarded by mu
}

func (b *busyDepot) AnswerSymCache(ctx context.Context, ask depot.SymCacheAsk) (depot.SymCacheAnswer, error) {
	b.mu.Lock()
	b.asks = append(b.asks, ask)
	b.mu.Unlock()
	a := depot.SymCacheAnswer{}
	v := symcache.Version{Major: 3, Minor: 1}
	s := symcache.State{Producible: []symcache.Version{v}, GaveUp: ask.GaveUp, AllowsRetry: ask.AllowsRetry, Head: ask.Head}
	select {
	case <-b.done:
		s.Failed = s.Producible
	default:
	}
	a.Decision = symcache.Decide(ask.Request.Version, s)
	a.Retry = 2500 * time.Millisecond
	a.Wait = func(ctx context.Context) error {
		select {
		case <-b.done:
		case <-ctx.Done():
		}
		return nil
	}
	return a, nil
}

func newBusy(t *testing.T, cfg Config) (*busyDepot, *Server) {
	t.Helper()
	b := &busyDepot{Depot: newDepot(t), done: make(chan struct{})}
	cfg.Depot = b
	return b, newServer(t, cfg)
}

// TestSymCacheHeld: requests are held only so long, only so many, without keeping
// others from looking something up, and not while the server stops.
func TestSymCacheHeld(t *testing.T) {
	b, s := newBusy(t, Config{MaxConns: 8, MaxInFlight: 1, SymCache: SymCacheConfig{Wait: time.Hour}})
	if got := ask(s, "GET", symCachePath, "Allow-Retry-After: true"); got.status != 404 || got.header.Get("Retry-After") != "3" {
		t.Errorf("%+v", got)
	}
	var all sync.WaitGroup
	results := make(chan reply, 2)
	for range 2 { // a quarter of 8
		all.Go(func() { results <- ask(s, "GET", symCachePath) })
	}
	for len(s.symcache.held) < 2 {
		time.Sleep(time.Millisecond)
	}
	// One more is told at once, finally, and the lookups are free.
	start := time.Now()
	if got := ask(s, "GET", symCachePath); got.status != 404 || got.header.Get("Retry-After") != "" || got.header.Get("Cache-Control") != "no-store" || time.Since(start) > 10*time.Second {
		t.Errorf("%+v", got)
	}
	if got := ask(s, "HEAD", symCachePath); got.status != 404 || got.header.Get("Retry-After") == "" {
		t.Errorf("%+v", got)
	}
	if len(results) != 0 || len(s.lookups) != 0 {
		t.Error("the held ones are not held, or keep others waiting")
	}
	s.endWaits()
	all.Wait()
	for range 2 {
		if got := <-results; got.status != 404 || got.header.Get("Retry-After") != "" {
			t.Errorf("%+v", got)
		}
	}
	if len(s.symcache.held) != 0 {
		t.Error("places are lost")
	}
	if !b.asks[len(b.asks)-1].GaveUp {
		t.Error("the depot was not told")
	}
}

func TestSymCacheHeldEnds(t *testing.T) {
	b, s := newBusy(t, Config{SymCache: SymCacheConfig{Wait: time.Hour}})
	// A client that goes away is not answered, and its place is free again.
	ctx, cancel := context.WithCancel(t.Context())
	r := httptest.NewRequestWithContext(ctx, "GET", symCachePath, nil)
	r.Host = "localhost"
	gone := make(chan struct{})
	go func() { defer close(gone); s.ServeHTTP(httptest.NewRecorder(), r) }()
	for len(s.symcache.held) < 1 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	<-gone
	if len(s.symcache.held) != 0 {
		t.Error("the place is lost")
	}
	// When the work has ended, those who wait are answered.
	answer := make(chan reply)
	go func() { answer <- ask(s, "GET", symCachePath) }()
	for len(s.symcache.held) < 1 {
		time.Sleep(time.Millisecond)
	}
	close(b.done)
	if got := <-answer; got.status != 404 || got.header.Get("Retry-After") != "" {
		t.Errorf("%+v", got)
	}
	s.symcache.conf.Wait = 10 * time.Millisecond
	b.done = make(chan struct{})
	if got := ask(s, "GET", symCachePath); got.status != 404 || got.header.Get("Retry-After") != "" {
		t.Errorf("%+v", got)
	}
}

// TestSymCacheNeverHot: what depends on what can be made is never answered from
// memory.
func TestSymCacheNeverHot(t *testing.T) {
	d := newDepot(t)
	s := newServer(t, Config{Depot: d})
	c := dial(t, listen(t, s))
	absent := func() {
		t.Helper()
		if got := c.do("GET", symCachePath); got.status != 404 || got.header.Get("Retry-After") != "" {
			t.Fatalf("%+v", got)
		}
	}
	for range 3 {
		absent()
	}
	add(t, d, depot.Source{Path: "app.pdb/0E7712BEAF064421884B496F833C8EC11/app.pdb-v3.1.0.symcache"}, []byte("A310"))
	for range 3 {
		if got := c.do("GET", symCachePath); got.status != 200 || got.body != "A310" || got.header.Get("Content-Type") != "application/vnd.ms-symcache; version=3.1.0" {
			t.Fatalf("%+v", got)
		}
		if got := c.do("GET", symCachePath, "If-Version-Exceeds: 3.0.0"); got.status != 200 {
			t.Fatalf("%+v", got)
		}
		if got := c.do("GET", "/v3.2.0"+symCachePath[7:], "If-Version-Exceeds: 3.1.0"); got.status != 304 {
			t.Fatalf("%+v", got)
		}
	}
}

// TestSymCacheConditions: an entity tag is as anywhere, dates mean nothing, and
// a large file comes compressed or in parts.
func TestSymCacheConditions(t *testing.T) {
	d := newDepot(t)
	body := bytes.Repeat([]byte("a SymCache file for tests\n"), 4000)
	add(t, d, depot.Source{Path: "app.pdb/0E7712BEAF064421884B496F833C8EC11/app.pdb-v3.1.0.symcache"}, body)
	s := newServer(t, Config{Depot: d})
	got := ask(s, "GET", symCachePath)
	tag := got.header.Get("ETag")
	if got.body != string(body) || got.header.Get("Last-Modified") != "" || len(tag) < 10 {
		t.Fatalf("%d bytes, %v", len(got.body), got.header)
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
			t.Errorf("%q: %d with %d bytes", tt.header, got.status, len(got.body))
		}
		if (got.status == 200 || got.status == 206) && got.header.Get("Content-Type") != "application/vnd.ms-symcache; version=3.1.0" {
			t.Errorf("%q: %v", tt.header, got.header)
		}
		if got.status >= 400 && (got.header.Get("Cache-Control") != "no-store" || got.header.Get("ETag") != "") {
			t.Errorf("%q: %v", tt.header, got.header)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = d.Work(ctx) }()
	defer func() { cancel(); <-done }()
	for end := time.Now().Add(20 * time.Second); ; {
		got := ask(s, "GET", symCachePath, "Accept-Encoding: zstd")
		if got.header.Get("Content-Encoding") == "zstd" {
			if got.header.Get("ETag") == tag || len(got.body) >= len(body) || !strings.Contains(got.header.Get("Vary"), "Accept-Encoding") {
				t.Errorf("%v", got.header)
			}
			return
		}
		if time.Now().After(end) {
			t.Fatal("never compressed")
		}
		time.Sleep(5 * time.Millisecond)
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
		t.Error(got, err)
	}
	if _, err := s.symcache.readSigned(query(now+60), route(strings.ToUpper(symCachePath)+"/01")); err != nil {
		t.Error("another spelling:", err)
	}
	if _, err := s.symcache.readSigned(query(now-1), req); err == nil {
		t.Error("an expired address was taken")
	}
	for _, other := range []string{"/v3.1.1" + symCachePath[7:], symCachePath + "/2", strings.Replace(symCachePath, "app", "apq", 1), strings.Replace(symCachePath, "0e", "1e", 1)} {
		if _, err := s.symcache.readSigned(query(now+60), route(other)); err == nil {
			t.Errorf("%s: another file's signature was taken", other)
		}
	}
	for _, key := range []string{"file", "until", "sign"} {
		q := query(now + 60)
		q.Del(key)
		if _, err := s.symcache.readSigned(q, req); err == nil {
			t.Error("without " + key)
		}
	}
}
