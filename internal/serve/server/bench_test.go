package server

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/public"
)

// discard is a ResponseWriter that keeps only the status.
type discard struct {
	header http.Header
	status int
}

func (w *discard) Header() http.Header { return w.header }

func (w *discard) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *discard) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return len(p), nil
}

// serve answers one request with the status expected of it.
func (w *discard) serve(tb testing.TB, s *Server, r *http.Request, want int) {
	tb.Helper()
	clear(w.header)
	w.status = 0
	s.ServeHTTP(w, r)
	if w.status != want {
		tb.Fatalf("%s %s: status %d, want %d", r.Method, r.RequestURI, w.status, want)
	}
}

// benchCases are a depot with a server, and requests for its usual answers.
func benchCases(tb testing.TB) (s *Server, hot, large *http.Request, missing []*http.Request) {
	tb.Helper()
	d := newFilteredDepot(tb)
	add(tb, d.Depot, depot.Source{Path: "small.sym"}, sym(smallID, "small.pdb", "", 64<<10))
	add(tb, d.Depot, depot.Source{Path: "big.sym"}, sym(bigID, "big.pdb", "", 512<<10))
	s, err := New(Config{Depot: d.Depot, Public: true})
	if err != nil {
		tb.Fatal(err)
	}
	get := func(path string) *http.Request {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.RequestURI = path
		r.RemoteAddr = "127.0.0.1:40000"
		r.Header.Set("User-Agent", "Microsoft-Symbol-Server/10.0.10036.206")
		return r
	}
	for i := range 1000 {
		missing = append(missing, get(fmt.Sprintf("/gone%d.pdb/%032X1/gone%d.pdb", i, i+1, i)))
	}
	hot, large = get("/small.pdb/"+smallID+"/small.sym"), get("/big.pdb/"+bigID+"/big.sym")
	w := &discard{header: make(http.Header)}
	for range 3 {
		w.serve(tb, s, hot, http.StatusOK)
		w.serve(tb, s, large, http.StatusOK)
	}
	for _, r := range missing {
		w.serve(tb, s, r, http.StatusNotFound)
	}
	d.waitForFilter(tb, missing[0].RequestURI)
	return s, hot, large, missing
}

// BenchmarkHandler measures the handler without the network. Its allocations,
// unlike its times, do not depend on the load of the machine.
func BenchmarkHandler(b *testing.B) {
	s, hot, large, missing := benchCases(b)
	w := &discard{header: make(http.Header)}
	for _, c := range []struct {
		name   string
		list   []*http.Request
		status int
	}{{"hot", []*http.Request{hot}, 200}, {"large", []*http.Request{large}, 200}, {"missing", missing, 404}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				w.serve(b, s, c.list[i%len(c.list)], c.status)
			}
		})
	}
}

// TestMissingAllocations: the handler of a missing key allocates the segments of its path, the
// folded id, its age and its lookups, and nothing else; two more are allowed for the race
// detector, which empties pools.
func TestMissingAllocations(t *testing.T) {
	s, _, _, missing := benchCases(t)
	w, i := &discard{header: make(http.Header)}, 0
	got := testing.AllocsPerRun(len(missing), func() {
		w.serve(t, s, missing[i%len(missing)], http.StatusNotFound)
		i++
	})
	if got > 6 {
		t.Errorf("a missing key takes %v allocations, want at most 6", got)
	}
}

// BenchmarkReads measures what it costs to record the days of reads: hits per second
// with and without it, in turns, for a file in memory and for a file on disk.
func BenchmarkReads(b *testing.B) {
	with, hot, large, _ := benchCases(b)
	without, err := New(Config{Depot: with.depot, Public: true})
	if err != nil {
		b.Fatal(err)
	}
	without.reads = nil // records nothing
	w := &discard{header: make(http.Header)}
	for _, c := range []struct {
		name string
		r    *http.Request
		turn int // requests
	}{{"memory", hot, 2000}, {"disk", large, 50}} {
		b.Run(c.name, func(b *testing.B) {
			var took [2]time.Duration
			n := 0
			for i := 0; b.Loop(); i++ {
				s := []*Server{with, without}[i%2]
				begin := time.Now()
				for range c.turn {
					w.serve(b, s, c.r, http.StatusOK)
				}
				if i >= 4 { // both are warm
					took[i%2] += time.Since(begin)
					n++
				}
			}
			if n >= 2 {
				b.ReportMetric(float64(took[1])/float64(took[0]), "with/without")
				b.ReportMetric(float64(c.turn)*float64(n)/2/took[0].Seconds(), "hits/s")
			}
		})
	}
}

// BenchmarkPublicForm measures what a request costs a caller outside, who gets the public form that has
// been made, compared with one of a caller inside who gets the same bytes as a file of a product, in
// turns: a form that is kept in memory, and one that is not.
func BenchmarkPublicForm(b *testing.B) {
	g := newGuarded(b, demand, Config{})
	var large strings.Builder
	large.WriteString("MODULE windows x86_64 " + bigID + " big.pdb\nFILE 0 /home/secret/big.cpp\n")
	for i := range 20000 {
		fmt.Fprintf(&large, "FUNC %x 10 8 game::function_%d\n%x 10 42 0\n", i*16, i, i*16)
	}
	outside := g.store.add(b, "outside", []string{"ours"}, "read:public")
	inside := g.store.add(b, "inside", []string{"shown"}, "read")
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- g.d.Work(ctx) }()
	b.Cleanup(func() { stop(); <-done })
	w := &discard{header: make(http.Header)}
	for _, c := range []struct {
		name, path string
		file       held
	}{
		{"memory", g.oursPDB.path(b, layout.SymStore), g.oursPDB},
		{"disk", "/big.pdb/" + bigID + "/big.sym", addAs(b, g.d, "ours", "big.sym", []byte(large.String()))},
	} {
		var form bytes.Buffer
		if _, err := public.Write(&form, bytes.NewReader(c.file.body), int64(len(c.file.body)), public.Options{}); err != nil {
			b.Fatal(err)
		}
		addAs(b, g.d, "shown", filepath.Base(c.path), form.Bytes())
		request := func(token string) *http.Request {
			r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, c.path, nil)
			r.RequestURI, r.RemoteAddr = c.path, "192.0.2.1:1"
			r.Header.Set("Authorization", "Bearer "+token)
			return r
		}
		kinds := [2]*http.Request{request(inside), request(outside)}
		symtest.Await(b, time.Minute, "the public form", func() bool {
			w.status = 0
			g.s.ServeHTTP(w, kinds[1])
			return w.status == http.StatusOK
		})
		b.Run(c.name, func(b *testing.B) {
			var took [2]time.Duration
			n := 0
			for i := 0; b.Loop(); i++ {
				begin := time.Now()
				for range 200 {
					w.serve(b, g.s, kinds[i%2], http.StatusOK)
				}
				if i >= 4 { // both are warm
					took[i%2] += time.Since(begin)
					n++
				}
			}
			if n >= 2 {
				b.ReportMetric(float64(took[1])/float64(took[0]), "form/file")
				b.ReportMetric(200*float64(n)/2/took[1].Seconds(), "requests/s")
			}
			if w.header.Get("Content-Length") != strconv.Itoa(form.Len()) {
				b.Errorf("%s bytes, want those of the form, %d", w.header.Get("Content-Length"), form.Len())
			}
		})
	}
}
