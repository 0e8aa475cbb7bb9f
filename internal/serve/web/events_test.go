package web

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/symdepot/symdepot/internal/serve/auth"
)

// TestEventsEnd: a stream of events ends after a while, so that the credentials are judged
// anew, and looks its topics up once each, however often they are named.
func TestEventsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists := 0
		acts := New(Config{})
		acts.Events.topics["jobs"] = func(context.Context) (map[string]fields, error) {
			lists++
			return nil, nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		r := requestOf(t, http.MethodGet, "/-/api/v1/events?topics=jobs,jobs", http.NoBody)
		r.Request = r.WithContext(ctx)
		begin := time.Now()
		_ = acts.Events.Serve(httptest.NewRecorder(), r)
		if d := time.Since(begin); d != eventsLife {
			t.Errorf("the stream ends after %s, want %s", d, eventsLife)
		}
		if most := int(eventsLife/eventsEvery) + 1; lists == 0 || lists > most {
			t.Errorf("the jobs were read %d times, want at most %d", lists, most)
		}
		many := requestOf(t, http.MethodGet, "/-/api/v1/events?topics="+strings.Repeat("jobs,", 1000)+"jobs", http.NoBody)
		if p := AsProblem(acts.Events.Serve(httptest.NewRecorder(), many)); p == nil || p.Status() != http.StatusBadRequest {
			t.Errorf("1001 topics: %v, want the status 400", p)
		}
	})
}

// TestStreams: one client cannot take all streams of events.
func TestStreams(t *testing.T) {
	t.Parallel()
	var s streams
	var ends []func()
	for i := range maxStreamsOfOne + 1 {
		end, ok := s.begin("anna")
		if ok != (i < maxStreamsOfOne) {
			t.Errorf("stream %d of one client: %v, want %v", i+1, ok, i < maxStreamsOfOne)
		}
		if ok {
			ends = append(ends, end)
		}
	}
	for i := range maxStreams {
		if end, ok := s.begin(fmt.Sprint(i)); ok {
			ends = append(ends, end)
		}
	}
	if len(ends) != maxStreams {
		t.Errorf("%d streams, want %d", len(ends), maxStreams)
	}
	for _, end := range ends {
		end()
	}
	if s.all != 0 || len(s.by) != 0 {
		t.Errorf("after all ended: %d streams, %v, want none", s.all, s.by)
	}
}

// requestOf is a request of somebody who reads all, for tests without a server.
func requestOf(t *testing.T, method, path string, body io.Reader) *Request {
	t.Helper()
	return &Request{
		Request: httptest.NewRequestWithContext(t.Context(), method, path, body), Segments: strings.Split(strings.Trim(strings.SplitN(path, "?", 2)[0], "/"), "/"),
		Principal: Principal{Name: "all", Rights: auth.Rights{Admitted: true, All: true}}, Body: body, Allow: func(time.Duration) {}, Leave: func() {}, Challenges: []string{"Bearer"},
	}
}
