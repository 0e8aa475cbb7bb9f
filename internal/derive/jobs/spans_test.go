package jobs

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"

	"github.com/symdepot/symdepot/internal/base/span"
)

// TestSpans: each attempt at a job has a span with its number, what happens in it is below
// that span, and an attempt that failed is marked.
func TestSpans(t *testing.T) {
	t.Parallel()
	type sent struct {
		SpanID, ParentSpanID, Name string
		Attributes                 []struct {
			Key   string
			Value struct{ IntValue string }
		}
		Status *struct{ Code int }
	}
	var mu sync.Mutex
	var spans []sent
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var e struct {
			ResourceSpans []struct{ ScopeSpans []struct{ Spans []sent } }
		}
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
			t.Error(err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		spans = append(spans, e.ResourceSpans[0].ScopeSpans[0].Spans...)
	}))
	defer collector.Close()
	tracer := span.New(span.Options{URL: collector.URL, Client: collector.Client(), Ratio: 1})
	k := &testKind{name: "k", able: []Ability{{"k", 1, "1.0"}}, make: func(ctx context.Context, j Job) (Outcome, error) {
		_, inner := tracer.Start(ctx, "inside "+j.Key, span.Internal)
		inner.End()
		if j.Key == "bad" {
			return Outcome{}, Failure{Class: "once", Detail: "as asked"}
		}
		return Outcome{Class: "ok"}, nil
	}}
	q := newQueue(t, Options{Tracer: tracer}, Limits{Slots: 1}, k)
	stop := run(t, q)
	ids := map[string]int64{}
	for key, want := range map[string]State{"good": Done, "bad": Failed} {
		ids[key] = enter(t, q, job(key)).ID
		if st, err := q.Wait(t.Context(), ids[key], Queued); err != nil || st != want {
			t.Errorf("Wait for the job %s: %v, %v; want %v", key, st, err, want)
		}
	}
	stop()
	if err := tracer.Close(); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(spans) != 4 {
		t.Fatalf("spans %+v, want one and one inside for each of two jobs", spans)
	}
	for key, id := range ids {
		var outer, inner *sent
		for i := range spans {
			s := &spans[i]
			switch {
			case s.Name == "inside "+key:
				inner = s
			case s.Name == "job k" && len(s.Attributes) == 1 && s.Attributes[0].Key == "symdepot.job" && s.Attributes[0].Value.IntValue == strconv.FormatInt(id, 10):
				outer = s
			}
		}
		if outer == nil || inner == nil || outer.ParentSpanID != "" || inner.ParentSpanID != outer.SpanID {
			t.Errorf("job %s, %d: spans %+v, want one of the job and one below it", key, id, spans)
			continue
		}
		if failed := outer.Status != nil && outer.Status.Code == 2; failed != (key == "bad") {
			t.Errorf("the span of the job %s says failed: %v", key, failed)
		}
	}
}
