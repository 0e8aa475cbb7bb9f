package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/layout"
)

// counting counts the lookups that reach the depot.
type counting struct {
	finder
	opened atomic.Int64
}

func (c *counting) Get(ctx context.Context, q answer.Question) (*answer.File, error) {
	c.opened.Add(1)
	return c.finder.Get(ctx, q)
}

// filteredDepot is a depot whose filter of missing keys can be waited for.
type filteredDepot struct {
	*depot.Depot
	refreshed chan struct{} // receives after the filter was refreshed
}

func newFilteredDepot(t testing.TB) *filteredDepot {
	t.Helper()
	refreshed := make(chan struct{}, 1)
	return &filteredDepot{openDepot(t, depot.Options{Hooks: depot.Hooks{Refreshed: func() {
		select {
		case refreshed <- struct{}{}:
		default:
		}
	}}}), refreshed}
}

// waitForFilter waits until the filter excludes a missing path for all callers,
// and for those of the given products.
func (d *filteredDepot) waitForFilter(t testing.TB, path string, products ...string) {
	t.Helper()
	segs, err := layout.Segments(path)
	if err != nil {
		t.Fatal(err)
	}
	req, err := layout.Route(segs)
	if err != nil {
		t.Fatal(err)
	}
	end := time.NewTimer(10 * time.Second)
	defer end.Stop()
	excluded := func() bool {
		reads := d.IndexReads()
		_, err := d.Get(t.Context(), answer.Question{Scope: answer.Scope{Products: products}, Request: req})
		return errors.Is(err, fs.ErrNotExist) && d.IndexReads() == reads
	}
	for !excluded() {
		select {
		case <-d.refreshed:
		case <-end.C:
			t.Fatalf("the filter never reports that %s is missing", path)
		}
	}
}

// TestFromMemory: a repeated request is answered from memory, until something
// is added to or removed from the depot.
func TestFromMemory(t *testing.T) {
	filtered := newFilteredDepot(t)
	d := filtered.Depot
	n := &counting{finder: d}
	s := newServer(t, Config{Depot: d})
	s.files = n
	addr := listen(t, s)
	c, other := dial(t, addr), dial(t, addr)
	body := sym(smallID, "small.pdb", "", 200<<10)
	path := "/small.pdb/" + smallID + "/small.sym"
	if r := c.do("GET", path); r.status != 404 {
		t.Fatalf("GET %s before add: status %d, want 404", path, r.status)
	}
	filtered.waitForFilter(t, path)
	reads := d.IndexReads()
	for range cap(s.lookups) { // all places are taken
		s.lookups.Try()
	}
	for range 5 {
		if r := c.do("GET", path); r.status != 404 {
			t.Fatalf("GET %s before add: status %d, want 404", path, r.status)
		}
	}
	for range cap(s.lookups) {
		s.lookups.Leave()
	}
	if got := d.IndexReads(); got != reads {
		t.Errorf("%d reads of the index for a key that the filter knows to be missing, want none", got-reads)
	}
	tx := add(t, d, depot.Source{Path: "small.sym"}, body)
	for range 5 {
		for _, c := range []*rawClient{c, other} {
			if r := c.do("GET", path); r.status != 200 || r.body != string(tx.body) {
				t.Fatalf("after add: %d, want 200 and the added file", r.status)
			}
		}
	}
	before := n.opened.Load()
	for range 10 {
		c.do("GET", path)
	}
	if got := n.opened.Load(); got != before {
		t.Errorf("%d more lookups of one kept answer, want none", got-before)
	}
	if _, err := d.Retention.Remove(t.Context(), 1, ""); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if r := c.do("GET", path); r.status != 404 {
			t.Fatalf("after removal: %d, want 404", r.status)
		}
	}
	for range 5 { // no place in memory, and the same answers
		off := newServer(t, Config{Depot: d, HotBytes: -1})
		if r := dial(t, listen(t, off)).do("GET", path); r.status != 404 {
			t.Fatalf("without memory: %d, want 404", r.status)
		}
	}
}

// TestConnectionMix sends all kinds of requests over one connection, in
// fragments and pipelined: each gets its own answer, in order.
func TestConnectionMix(t *testing.T) {
	w := newWorld(t, Config{})
	addr := listen(t, w.s)
	small, big, gone := w.small.path(t, layout.BreakpadTree), w.big.path(t, layout.BreakpadTree), gonePath
	type step struct {
		method, target, headers string
		status, bytes           int
	}
	steps := []step{
		{"GET", small, "", 200, 3000}, {"GET", gone, "", 404, 10}, {"HEAD", small, "", 200, 0}, {"GET", big, "", 200, len(w.big.body)},
		{"GET", small, "Range: bytes=1-7\r\n", 206, 7}, {"GET", small, "X-Other: 1\r\n", 200, 3000}, {"OPTIONS", small, "", 204, 0},
		{"GET", "/healthz", "", 200, 3}, {"GET", small, "Accept-Encoding: gzip\r\n", 200, 3000}, {"GET", gone, "If-None-Match: *\r\n", 404, 10},
	}
	raw := func(s step) string {
		return s.method + " " + s.target + " HTTP/1.1\r\nHost: localhost\r\n" + s.headers + "\r\n"
	}
	check := func(c *rawClient, what string, s step) {
		t.Helper()
		if r := c.reply(s.method); r.status != s.status || len(r.body) != s.bytes {
			t.Fatalf("%s: %s %.30s %q: status %d, %d bytes; want %d, %d", what, s.method, s.target, s.headers, r.status, len(r.body), s.status, s.bytes)
		}
	}
	c := dial(t, addr)
	for round := range 3 {
		for _, s := range steps {
			c.send(raw(s))
			check(c, fmt.Sprint("one by one, round ", round), s)
		}
	}
	for from := range steps { // all at once, beginning with each kind
		c := dial(t, addr)
		var all strings.Builder
		for i := range steps {
			all.WriteString(raw(steps[(from+i)%len(steps)]))
		}
		go func() { _, _ = io.WriteString(c.conn, all.String()) }()
		for i := range steps {
			check(c, fmt.Sprint("in a row from ", from), steps[(from+i)%len(steps)])
		}
	}
	for cut := 1; cut < len(raw(steps[0])); cut += 7 { // in two pieces
		c := dial(t, addr)
		for _, s := range []step{steps[1], steps[0], steps[0]} {
			text := raw(s)
			at := min(cut, len(text)-1)
			c.send(text[:at])
			c.send(text[at:])
			check(c, fmt.Sprint("cut at ", cut), s)
		}
	}
}

// TestNoSmuggling: however the bytes are divided, a part of a header or a body
// that looks like a request is not executed.
func TestNoSmuggling(t *testing.T) {
	w := newWorld(t, Config{})
	addr := listen(t, w.s)
	inner := "GET " + w.small.path(t, layout.BreakpadTree) + " HTTP/1.1\r\nHost: localhost\r\n\r\n"
	get := "GET " + gonePath + " HTTP/1.1\r\nHost: localhost\r\n"
	for i, outer := range [][]string{
		{get + "Content-Length: " + itoa(int64(len(inner))) + "\r\n\r\n", inner},
		{get + "Transfer-Encoding: chunked\r\n\r\n", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(inner), inner)},
		{get + "X: ", inner},
		{"POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + itoa(int64(len(inner))) + "\r\n\r\n", inner},
		{"GET " + gonePath + " HTTP/1.1\nHost: localhost\nContent-Length: " + itoa(int64(len(inner))) + "\n\n", inner},
		{get + "Content-length : " + itoa(int64(len(inner))) + "\r\n\r\n", inner},
		{get + "X: y\r\n Content-Length: 5\r\n\r\n", inner},
		{get + "Expect: 100-continue\r\nContent-Length: " + itoa(int64(len(inner))) + "\r\n\r\n", inner},
	} {
		c := dial(t, addr)
		c.do("GET", gonePath) // the connection is one of ours
		// The server may refuse and close at any point.
		_, _ = io.WriteString(c.conn, outer[0])
		_, _ = io.WriteString(c.conn, outer[1])
		_ = c.conn.(*net.TCPConn).CloseWrite()
		all, _ := io.ReadAll(c.r)
		if i != 6 && bytes.Contains(all, w.small.body) { // in 6 it is a request of its own
			t.Errorf("case %d: the inner request was answered, want it taken for a body:\n%.600s", i, all)
		}
	}
}

// TestParallelMemory has several connections ask for more than fits into
// memory; every answer is right.
func TestParallelMemory(t *testing.T) {
	d := newDepot(t)
	var files []held
	var paths []string
	for i := range 20 {
		id := fmt.Sprintf("%032X1", i+1)
		name := fmt.Sprintf("m%d.pdb", i)
		files = append(files, add(t, d, depot.Source{Path: name}, sym(id, name, "", 10<<10+i)))
		paths = append(paths, files[i].path(t, layout.BreakpadTree))
	}
	s := newServer(t, Config{Depot: d, HotBytes: 100 << 10})
	addr := listen(t, s)
	var wg sync.WaitGroup
	for g := range 4 {
		c := dial(t, addr)
		wg.Go(func() {
			for i := range 200 {
				n := (i*7 + g*3) % len(files)
				if i%3 == g%3 {
					n %= 4 // some are asked for more often
				}
				if r := c.do("GET", paths[n]); r.status != 200 || r.body != string(files[n].body) {
					t.Errorf("%s: %d, %d bytes; want 200 and the file", paths[n], r.status, len(r.body))
					return
				}
			}
		})
	}
	wg.Wait()
	s.hot.mu.Lock()
	defer s.hot.mu.Unlock()
	if s.hot.size > s.hot.limit || len(s.hot.ring) != len(s.hot.table) || len(s.hot.table) == 0 {
		t.Errorf("%d bytes kept, want at most %d; %d keys for %d answers, want as many", s.hot.size, s.hot.limit, len(s.hot.ring), len(s.hot.table))
	}
}

// benchmark asks again and again over one connection.
func benchmark(b *testing.B, cfg Config, path func(w *world) string) {
	w := newWorld(b, cfg)
	addr := listen(b, w.s)
	raw := []byte("GET " + path(w) + " HTTP/1.1\r\nHost: localhost\r\n\r\n")
	c := dial(b, addr)
	_, _ = c.conn.Write(raw)
	r, err := http.ReadResponse(c.r, nil)
	if err != nil {
		b.Fatal(err)
	}
	n, _ := io.Copy(io.Discard, r.Body)
	_, _ = c.conn.Write(raw) // the second time decides what is kept
	r, err = http.ReadResponse(c.r, nil)
	if err != nil {
		b.Fatal(err)
	}
	m, _ := io.Copy(io.Discard, r.Body)
	if n != m {
		b.Fatalf("io.Copy: %v, %v; want %v", n, m, m)
	}
	_, _ = c.conn.Write(raw)
	head, err := c.r.ReadBytes('\n')
	if err != nil {
		b.Fatal(err)
	}
	for { // how long a whole answer is
		line, err := c.r.ReadBytes('\n')
		if err != nil {
			b.Fatal(err)
		}
		head = append(head, line...)
		if len(line) == 2 {
			break
		}
	}
	if _, err := c.r.Discard(int(n)); err != nil {
		b.Fatal(err)
	}
	size := len(head) + int(n)
	b.ReportAllocs()
	b.SetBytes(int64(size))
	for b.Loop() {
		if _, err := c.conn.Write(raw); err != nil {
			b.Fatal(err)
		}
		if _, err := c.r.Discard(size); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHit(b *testing.B) {
	path := func(w *world) string {
		add(b, w.d, depot.Source{Path: "hot.sym"}, sym("00000000000000000000000000000DEF1", "hot.pdb", "", 64<<10))
		return "/hot.pdb/00000000000000000000000000000DEF1/hot.sym"
	}
	b.Run("memory", func(b *testing.B) { benchmark(b, Config{}, path) })
	b.Run("disk", func(b *testing.B) { benchmark(b, Config{HotBytes: -1}, path) })
}

func BenchmarkMiss(b *testing.B) {
	path := func(*world) string { return gonePath }
	b.Run("memory", func(b *testing.B) { benchmark(b, Config{}, path) })
	b.Run("disk", func(b *testing.B) { benchmark(b, Config{HotBytes: -1}, path) })
}

// TestHotRights: an answer that was kept while everybody could read everything is not sent with
// its Cache-Control once some content needs credentials. Rights that open a server that other
// machines reach are refused.
func TestHotRights(t *testing.T) {
	d := openDepot(t, depot.Options{})
	f := addAs(t, d, "engine", "small.sym", []byte("MODULE windows x86_64 "+smallID+" small.pdb\nPUBLIC 2000 0 exported_symbol\n"))
	store := &tokenStore{rows: map[[32]byte]auth.TokenRow{}}
	gate, err := auth.New(auth.Config{}, store, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = gate.Close() })
	s := newServer(t, Config{Depot: d, Gate: gate})
	token := store.add(t, "all", nil, auth.ScopeRead)
	path := "/" + layout.Path(f.obj)
	get := func(want string) {
		t.Helper()
		for range 3 {
			r := ask(s, "GET", path, wire.Token+": "+token)
			if got := r.header.Get("Cache-Control"); r.status != 200 || !strings.HasPrefix(got, want+",") {
				t.Errorf("status %d, Cache-Control %q; want 200 and %s", r.status, got, want)
			}
		}
	}
	get("public")
	if len(s.hot.table) == 0 {
		t.Fatal("no answer is kept")
	}
	if changed, err := s.UsePolicy(auth.PolicyConfig{Public: []string{"engine"}}); err != nil || !changed {
		t.Fatalf("rights for some: changed %v, %v", changed, err)
	}
	get("private")
	if _, err := s.UsePolicy(auth.PolicyConfig{}); !errors.Is(err, errNotPublic) {
		t.Errorf("rights for all of a server that other machines reach: %v, want an error", err)
	}
	get("private")
	s.local.Store(true)
	if changed, err := s.UsePolicy(auth.PolicyConfig{}); err != nil || !changed {
		t.Errorf("rights for all of a local server: changed %v, %v", changed, err)
	}
	get("public")
}
