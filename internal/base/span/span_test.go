package span

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// collector is an OTLP receiver.
func collector(t *testing.T) (*httptest.Server, chan exported) {
	t.Helper()
	got := make(chan exported, 16)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var e exported
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("X-Key") != "k" {
			t.Errorf("the collector got %v with %v, want JSON with the key", err, r.Header)
		}
		got <- e
	}))
	t.Cleanup(s.Close)
	return s, got
}

func newTracer(s *httptest.Server, ratio float64) *Tracer {
	return New(Options{URL: s.URL + "/v1/traces", Header: http.Header{"X-Key": {"k"}}, Client: s.Client(), Resource: map[string]string{"service.name": "symdepot"}, Ratio: ratio, Trust: []string{"own.example.com", "*.corp.example.com", "10.0.0.0/8"}})
}

// TestExport: the collector gets the spans with their parents, attributes and faults.
func TestExport(t *testing.T) {
	s, got := collector(t)
	tracer := newTracer(s, 1)
	ctx, a := tracer.Start(t.Context(), "a", Server)
	_, b := tracer.Start(ctx, "b", Client)
	b.Text("k", "v")
	b.Number("n", 5)
	b.Fail("no")
	b.End()
	a.End()
	if err := tracer.Close(); err != nil {
		t.Fatal(err)
	}
	r := (<-got).ResourceSpans[0]
	spans := r.ScopeSpans[0].Spans
	if len(spans) != 2 || *r.Resource.Attributes[0].Value.Text != "symdepot" {
		t.Fatalf("got %+v, want two spans of symdepot", r)
	}
	if x, y := spans[0], spans[1]; x.ParentSpanID != y.SpanID || x.TraceID != y.TraceID || y.ParentSpanID != "" || x.Status.Message != "no" ||
		*x.Attributes[0].Value.Text != "v" || *x.Attributes[1].Value.Number != "5" || x.Kind != Client || x.Start > x.End {
		t.Errorf("spans %+v and %+v, want b below a", x, y)
	}
}

// TestTrust: the context of a trace crosses only to and from hosts that are ours.
func TestTrust(t *testing.T) {
	s, _ := collector(t)
	tracer := newTracer(s, 0)
	defer tracer.Close()
	ctx, _ := tracer.Start(t.Context(), "a", Server)
	for host, want := range map[string]bool{"own.example.com": true, "OWN.example.com": true, "x.corp.example.com": true, "corp.example.com": false, "msdl.microsoft.com": false, "10.1.2.3": true, "11.1.2.3": false} {
		h := http.Header{}
		tracer.Inject(ctx, host, h)
		if got := h.Get("traceparent") != ""; got != want {
			t.Errorf("sent to %s: %v, want %v", host, got, want)
		}
		if !want {
			continue
		}
		if p := parse(h.Get("traceparent")); p != From(ctx) || p.sampled {
			t.Errorf("%s is read as %+v, want %+v", h, p, From(ctx))
		}
	}
	h := http.Header{"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}
	for remote, want := range map[string]bool{"10.0.0.1:5": true, "[::ffff:10.0.0.1]:5": true, "192.0.2.1:5": false} {
		if got := From(tracer.Extract(t.Context(), remote, h)) != (Parent{}); got != want {
			t.Errorf("taken from %s: %v, want %v", remote, got, want)
		}
	}
	for _, bad := range []string{"", "00", "00-0-0-0", "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-00000000000000000000000000000000-b7ad6b7169203331-01",
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x"} {
		if p := parse(bad); p != (Parent{}) {
			t.Errorf("%q is read as %+v, want nothing", bad, p)
		}
	}
}

// TestClose: a collector that says nothing delays the end by ten seconds at most, although
// a request is under way and there is more to send.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := make(chan struct{}, 2)
		tracer := New(Options{URL: "http://collector.example.com/v1/traces", Ratio: 1, Client: &http.Client{Transport: silent(asked)}, Log: slog.New(slog.DiscardHandler)})
		one := func() {
			_, s := tracer.Start(t.Context(), "a", Server)
			s.End()
		}
		one()
		<-asked // the request that sends it is under way
		one()
		began := time.Now()
		if err := tracer.Close(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > sendTime {
			t.Errorf("Close took %s, want %s at most", took, sendTime)
		}
	})
}

// silent is a server that does not answer.
type silent chan struct{}

func (s silent) RoundTrip(r *http.Request) (*http.Response, error) {
	s <- struct{}{}
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestOff: without a tracer nothing is allocated.
func TestOff(t *testing.T) {
	var tracer *Tracer
	if n := testing.AllocsPerRun(100, func() {
		ctx, s := tracer.Start(t.Context(), "a", Server)
		s.Text("k", "v")
		tracer.Inject(ctx, "x", nil)
		s.End()
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// BenchmarkSpan is a span with four attributes, as a request has: without a tracer, with
// one that records nothing, and with one that records all. Nothing is sent.
func BenchmarkSpan(b *testing.B) {
	none := func(ratio float64) *Tracer { return &Tracer{opt: Options{Ratio: ratio}} } // its queue takes nothing
	for _, c := range []struct {
		name   string
		tracer *Tracer
	}{{"off", nil}, {"unsampled", none(0)}, {"on", none(1)}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			ctx := b.Context()
			for b.Loop() {
				_, s := c.tracer.Start(ctx, "GET symstore", Server)
				s.Text("http.request.method", "GET")
				s.Text("symdepot.result", "hit")
				s.Number("http.response.status_code", 200)
				s.Number("http.response.body.size", 4096)
				s.End()
			}
		})
	}
}

// TestRedirectsAreNotFollowed: spans, and the fields with the collector's key, go to the
// address of the operator and nowhere else, whatever answers there.
func TestRedirectsAreNotFollowed(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		elsewhere := make(chan *http.Request, 16)
		other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { elsewhere <- r }))
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL+"/stolen", status) }))
		var log strings.Builder
		tracer := New(Options{URL: front.URL + "/v1/traces", Header: http.Header{"X-Key": {"planted-key"}}, Client: front.Client(), Ratio: 1, Log: slog.New(slog.NewTextHandler(&log, nil))})
		_, s := tracer.Start(t.Context(), "a", Server)
		s.End()
		if err := tracer.Close(); err != nil {
			t.Fatal(err)
		}
		select {
		case r := <-elsewhere:
			t.Errorf("%d: another host got %s %s with %v, want nothing", status, r.Method, r.URL, r.Header)
		default:
		}
		if text := log.String(); !strings.Contains(text, "traces were lost") || !strings.Contains(text, strconv.Itoa(status)) || strings.Contains(text, "planted-key") {
			t.Errorf("%d: the log is %q, want that traces were lost, with the status and without the key", status, text)
		}
		front.Close()
		other.Close()
	}
}
