package client

import (
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// silent forwards requests to a server, but for the first uploads: those are taken whole and
// never answered, as by a server that was killed while its connections stay open.
type silent struct {
	to    http.Handler
	first atomic.Int32
}

func (s *silent) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPut && s.first.Add(-1) >= 0 {
		httptrace.ContextClientTrace(r.Context()).WroteRequest(httptrace.WroteRequestInfo{})
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	if r.Body == nil {
		r.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	s.to.ServeHTTP(w, r)
	return w.Result(), nil
}

// TestPushNoAnswer: an upload that was sent and is not answered is sent again after two
// minutes, not when the time of the upload is over.
func TestPushNoAnswer(t *testing.T) {
	t.Parallel()
	dir := buildTree(t)
	synctest.Test(t, func(t *testing.T) {
		s := &silent{to: newPushServer()}
		s.first.Store(2)
		var failed atomic.Pointer[error]
		p := &Pusher{URL: "http://depot.example", HTTP: &http.Client{Transport: s}, Token: func() (string, error) { return "secret", nil }}
		p.Retrying = func(err error, _ time.Duration) { failed.Store(&err) }
		begin := time.Now()
		r, err := p.Push(t.Context(), PushOptions{Paths: []string{dir}})
		if err != nil || r.Transaction != 1 || r.Files != 8 {
			t.Errorf("push: %+v, %v; want one build with 8 files", r, err)
		}
		if took := time.Since(begin); took < answerTime || took > 2*answerTime+time.Minute {
			t.Errorf("the push took %v, want an attempt of %v and a pause for each upload without an answer", took, answerTime)
		}
		if err := failed.Load(); err == nil || !strings.Contains((*err).Error(), "does not answer within 2m0s") {
			t.Errorf("the reason of the next attempt is %v, want that the server does not answer", err)
		}
	})
}

// TestPushSkipped: the text about skipped files fits their number.
func TestPushSkipped(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]PushResult{
		"1 file that is no symbol file":        {Skipped: 1, NotSymbols: 1},
		"3 files that are no symbol files":     {Skipped: 3, NotSymbols: 3},
		"3 files, 1 of them no symbol file":    {Skipped: 3, NotSymbols: 1},
		"12 files, 11 of them no symbol files": {Skipped: 12, NotSymbols: 11},
		"2 files":                              {Skipped: 2},
	} {
		if got := r.Text(); !strings.Contains(got, "  skipped        "+want+"\n") {
			t.Errorf("%d skipped files, %d of them no symbol files: %q, want %q", r.Skipped, r.NotSymbols, got, want)
		}
	}
}
