package server

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/symdepot/symdepot/internal/base/span"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/remote/upstream"
)

// sentSpan is a span as a collector gets it.
type sentSpan struct {
	TraceID      string `json:"traceId"`
	SpanID       string `json:"spanId"`
	ParentSpanID string `json:"parentSpanId"`
	Name         string `json:"name"`
	Attributes   []struct {
		Key   string            `json:"key"`
		Value map[string]string `json:"value"`
	} `json:"attributes"`
}

// TestSpans: a request for a file that is downloaded has spans of the request, the lookup,
// the download and the upstream, each below the one before. The trace of the client goes on,
// and goes on to the upstream, because both are ours. No span names the file.
func TestSpans(t *testing.T) {
	var mu sync.Mutex
	spans := map[string]sentSpan{} // by name
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), "app.pdb") || strings.Contains(string(body), "44E4EC8C") {
			t.Errorf("a span names a file: %s", body)
		}
		var e struct {
			ResourceSpans []struct {
				ScopeSpans []struct {
					Spans []sentSpan `json:"spans"`
				} `json:"scopeSpans"`
			} `json:"resourceSpans"`
		}
		if err := json.Unmarshal(body, &e); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, s := range e.ResourceSpans[0].ScopeSpans[0].Spans {
			spans[s.Name] = s
		}
	}))
	defer collector.Close()
	passed := make(chan string, 8)
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		passed <- r.Header.Get("traceparent")
		if r.URL.Path != arrivingPath {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(sym("44E4EC8C2F41492B9369D6B9A059577C2", "app.pdb", "", 1000))
	}))
	defer far.Close()
	at, err := url.Parse(far.URL)
	if err != nil {
		t.Fatal(err)
	}
	tracer := span.New(span.Options{URL: collector.URL, Client: collector.Client(), Ratio: 1, Trust: []string{at.Hostname()}})
	src, err := upstream.NewHTTP(upstream.HTTPConfig{Name: "far", URL: far.URL, Layout: "breakpad", Tracer: tracer}, upstream.NewDialer(upstream.DialerOptions{}))
	if err != nil {
		t.Fatal(err)
	}
	d, err := depot.Open(t.Context(), filepath.Join(t.TempDir(), "depot"), depot.Options{Upstreams: []depot.Upstream{{Source: src}}, Tracer: tracer})
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t, Config{Depot: d, ID: "us", Tracer: tracer})
	front := httptest.NewServer(s)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, front.URL+arrivingPath, nil)
	if err != nil {
		t.Fatal(err)
	}
	const trace = "0af7651916cd43dd8448eb211c80319c"
	req.Header.Set("traceparent", "00-"+trace+"-b7ad6b7169203331-01")
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	if err = errors.Join(err, answer.Body.Close()); err != nil || answer.StatusCode != http.StatusOK || len(body) == 0 {
		t.Fatalf("status %d, %d bytes, %v", answer.StatusCode, len(body), err)
	}
	front.Close() // waits for the end of the request
	if err := errors.Join(d.Close(), src.Close(), tracer.Close()); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	above := "b7ad6b7169203331"
	for _, name := range []string{"GET breakpad", "lookup", "download", "upstream far"} {
		sp, ok := spans[name]
		if !ok || sp.TraceID != trace || sp.ParentSpanID != above {
			t.Fatalf("span %q is %+v, want one of the trace %s below %s; all: %+v", name, sp, trace, above, spans)
		}
		above = sp.SpanID
	}
	if got := <-passed; got != "00-"+trace+"-"+above+"-01" {
		t.Errorf("the upstream got the context %q, want that of its span", got)
	}
	has := map[string]string{}
	for _, a := range spans["GET breakpad"].Attributes {
		has[a.Key] = a.Value["stringValue"] + a.Value["intValue"]
	}
	if has["http.response.status_code"] != "200" || has["http.route"] != "breakpad" || has["http.response.body.size"] == "" || has["symdepot.result"] != "hit" {
		t.Errorf("attributes %v, want status, route, size and result", has)
	}
}
