package client

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/endpoint"
	"github.com/symdepot/symdepot/internal/wire"
)

// retentionClient returns a client of a server with this handler.
func retentionClient(t *testing.T, h http.HandlerFunc) *Retention {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	env := map[string]string{"SYMDEPOT_TOKEN": "sdp_x"}
	c, err := NewRetention(srv.URL, "", func(k string) string { return env[k] }, func(string) *http.Client { return srv.Client() })
	if err != nil {
		t.Fatal(err)
	}
	c.p.Backoff, c.RetryFor = time.Millisecond, time.Second
	return c
}

// TestRetentionRequests: the address, the method and the body of each request.
func TestRetentionRequests(t *testing.T) {
	t.Parallel()
	var got string
	c := retentionClient(t, func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got = strings.TrimSpace(r.Method + " " + r.URL.RequestURI() + " " + r.Header.Get("If-Match") + " " + string(b))
		if a := r.Header.Get("Authorization"); a != "Bearer sdp_x" {
			t.Errorf("%s: Authorization %q, want Bearer sdp_x", got, a)
		}
		_, _ = io.WriteString(w, `{"number":7}`)
	})
	ctx, name := t.Context(), "x"
	for want, do := range map[string]func(into any) error{
		"GET /-/api/v1/retention/rules":                                     func(into any) error { return c.Rules(ctx, into) },
		`PUT /-/api/v1/retention/rules "3" text`:                            func(into any) error { return c.SetRules(ctx, []byte("text"), 3, into) },
		`PUT /-/api/v1/retention/rules *`:                                   func(into any) error { return c.SetRules(ctx, nil, -1, into) },
		`POST /-/api/v1/plans  {"kind":"retention"}`:                        func(into any) error { return c.Preview(ctx, into) },
		`POST /-/api/v1/plans  {"kind":"gc","grace":61,"empty_trash":true}`: func(into any) error { return c.PlanCollection(ctx, 60500*time.Millisecond, true, into) },
		`PATCH /-/api/v1/transactions/17  {"comment":"x"}`:                  func(into any) error { return c.Change(ctx, 17, wire.TransactionChange{Comment: &name}, into) },
		"GET /-/api/v1/usage?by=product&from=2026-11-01&product=x&to=2026-11-02": func(into any) error {
			return c.UsageDays(ctx, time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC), wire.UsageByProduct, &name, into)
		},
		`POST /-/api/v1/plans/a%2Fb/apply  {"yes_remove":2}`:              func(into any) error { return c.Apply(ctx, "a/b", wire.PlanApply{YesRemove: 2}, into) },
		"GET /-/api/v1/transactions/17":                                   func(into any) error { return c.Transaction(ctx, 17, into) },
		`PATCH /-/api/v1/transactions/17  {"class":"a"}`:                  func(into any) error { return c.Change(ctx, 17, wire.TransactionChange{Class: "a"}, into) },
		`PATCH /-/api/v1/transactions/17  {"unhold":"x"}`:                 func(into any) error { return c.Change(ctx, 17, wire.TransactionChange{Unhold: &name}, into) },
		"DELETE /-/api/v1/transactions/17":                                func(into any) error { return c.Remove(ctx, 17, "", into) },
		"DELETE /-/api/v1/transactions/17?purge=true&reason=a+key%26x%3D": func(into any) error { return c.Purge(ctx, 17, "a key&x=", into) },
		"POST /-/api/v1/transactions/17/undo":                             func(into any) error { return c.Undo(ctx, 17, into) },
		"GET /-/api/v1/usage":                                             func(into any) error { return c.Usage(ctx, into) },
	} {
		var answer struct{ Number int }
		if err := do(&answer); err != nil || got != want || answer.Number != 7 {
			t.Errorf("request %q: sent %q, answer %d, error %v; want answer 7", want, got, answer.Number, err)
		}
	}
}

// TestRetentionRetries: a busy server is asked again; a change that the server may have
// made is not sent again, a question is.
func TestRetentionRetries(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	broken := true
	c := retentionClient(t, func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) > 2 {
			_, _ = io.WriteString(w, `{}`)
			return
		}
		if broken {
			panic(http.ErrAbortHandler) // the connection ends without an answer
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	var answer struct{}
	ctx := t.Context()
	if err := c.Undo(ctx, 1, &answer); !errors.Is(err, ErrUnreachable) || calls.Load() != 1 {
		t.Errorf("a change without an answer: %d requests, error %v; want 1 and ErrUnreachable", calls.Load(), err)
	}
	calls.Store(0)
	if err := c.Usage(ctx, &answer); err != nil || calls.Load() != 3 {
		t.Errorf("a question without an answer: %d requests, error %v; want 3 and none", calls.Load(), err)
	}
	calls.Store(0)
	broken = false
	if err := c.Undo(ctx, 1, &answer); err != nil || calls.Load() != 3 {
		t.Errorf("a change at a busy server: %d requests, error %v; want 3 and none", calls.Load(), err)
	}
}

// TestRetentionProblems: the word and the text of a problem, and its class.
func TestRetentionProblems(t *testing.T) {
	t.Parallel()
	answer, status := "", 0
	c := retentionClient(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	})
	for _, tt := range []struct {
		status     int
		body       string
		word, text string
		class      error
	}{
		{409, `{"type":"urn:symdepot:problem:brake","title":"the brake holds the plan","status":409,"detail":"plan 1\u0007"}`, "brake", "plan 1 ", errConflict},
		{403, `{"type":"urn:symdepot:problem:forbidden","title":"no"}`, "forbidden", "the server answers 403: no", ErrCredentials},
		{404, `<html>not here</html>`, "", "the URL is not that of a symdepot server with this API", endpoint.ErrRefused},
	} {
		answer, status = tt.body, tt.status
		err := c.Rules(t.Context(), &struct{}{})
		if ProblemWord(err) != tt.word || ProblemText(err) != tt.text || !errors.Is(err, tt.class) {
			t.Errorf("answer %d %s: word %q, text %q, error %v; want %q, %q, %v", tt.status, tt.body, ProblemWord(err), ProblemText(err), err, tt.word, tt.text, tt.class)
		}
	}
}
