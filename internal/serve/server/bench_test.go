package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
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
