package web

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/symdepot/symdepot/internal/jobs"
)

// countedJobs count how often the list of jobs is read.
type countedJobs struct {
	Jobs
	lists int
}

func (c *countedJobs) List(context.Context, jobs.Filter) ([]jobs.Job, error) {
	c.lists++
	return nil, nil
}

// TestEventsEnd: a stream of events ends after a while, so that the credentials are judged
// anew, and looks its topics up once each, however often they are named.
func TestEventsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := &countedJobs{}
		a := New(Config{Jobs: list})
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		r := requestOf(t, http.MethodGet, "/-/api/v1/events?topics=queue,queue", http.NoBody)
		r.Request = r.WithContext(ctx)
		begin := time.Now()
		_ = a.Serve(httptest.NewRecorder(), r)
		if d := time.Since(begin); d != eventsLife {
			t.Errorf("the stream ends after %s, want %s", d, eventsLife)
		}
		if most := int(eventsLife/eventsEvery) + 1; list.lists == 0 || list.lists > most {
			t.Errorf("the jobs were read %d times, want at most %d", list.lists, most)
		}
		w := httptest.NewRecorder()
		_ = a.Serve(w, requestOf(t, http.MethodGet, "/-/api/v1/events?topics="+strings.Repeat("queue,", 1000)+"queue", http.NoBody))
		if w.Code != http.StatusBadRequest {
			t.Errorf("1001 topics: status %d, want 400", w.Code)
		}
	})
}
