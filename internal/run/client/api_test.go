package client

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/endpoint"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/catalog"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/depot/retention"
	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/symfile"
)

// apiClient returns a client of a server with this handler.
func apiClient(t *testing.T, h http.HandlerFunc) *API {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	env := map[string]string{"SYMDEPOT_TOKEN": "sdp_x"}
	p, err := NewPusher(srv.URL, "", func(k string) string { return env[k] }, func(string) *http.Client { return srv.Client() }, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.Backoff = time.Millisecond
	return &API{remote{p, time.Second}.ask}
}

// handler is an http.RoundTripper that a handler answers in the same process.
type handler http.HandlerFunc

// RoundTrip implements http.RoundTripper.
func (h handler) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	if r.Body == nil {
		r.Body = http.NoBody
	}
	h(w, r)
	return w.Result(), nil
}

// bothWays calls test with a client of a server and with one of this process, which the same
// handler answers.
func bothWays(t *testing.T, h http.HandlerFunc, test func(t *testing.T, a *API)) {
	t.Helper()
	t.Run("server", func(t *testing.T) { test(t, apiClient(t, h)) })
	t.Run("here", func(t *testing.T) { test(t, Within(handler(h))) })
}

// verb is a method of API, whose answer is printed in a word.
type verb struct {
	name    string
	do      func(ctx context.Context, a *API) (string, error)
	request string // what is sent, if the verb sends one request
}

func verbs() []verb {
	reason, product := "1.2 GA", "x"
	day := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	count := func(n *int) func(error) (string, error) {
		return func(err error) (string, error) { return strings.Repeat("i", *n), err }
	}
	return []verb{
		{"Policy", func(ctx context.Context, a *API) (string, error) { p, err := a.Policy(ctx); return p.Text, err },
			"GET /-/api/v1/retention/rules"},
		{"SetPolicy", func(ctx context.Context, a *API) (string, error) {
			p, err := a.SetPolicy(ctx, "f", []byte("retention: {}"), 3)
			return p.Text, err
		}, `PUT /-/api/v1/retention/rules "3" retention: {}`},
		{"Preview", func(ctx context.Context, a *API) (string, error) { p, err := a.Preview(ctx); return p.Plan, err },
			`POST /-/api/v1/plans {"kind":"retention"}`},
		{"Apply", func(ctx context.Context, a *API) (string, error) {
			r, err := a.Apply(ctx, "a/b", 2)
			return r.Plan, err
		},
			`POST /-/api/v1/plans/a%2Fb/apply {"kind":"retention","yes_remove":2}`},
		{"PlanCollection", func(ctx context.Context, a *API) (string, error) {
			c, err := a.PlanCollection(ctx, 60500*time.Millisecond, true)
			return c.Plan, err
		}, `POST /-/api/v1/plans {"kind":"gc","grace":61,"empty_trash":true}`},
		{"ApplyCollection", func(ctx context.Context, a *API) (string, error) {
			c, err := a.ApplyCollection(ctx, "7")
			return c.Plan, err
		},
			`POST /-/api/v1/plans/7/apply {"kind":"gc"}`},
		{"Build", func(ctx context.Context, a *API) (string, error) {
			x, err := a.Transaction(ctx, 17)
			return x.Comment, err
		},
			"GET /-/api/v1/builds/17"},
		{"State", func(ctx context.Context, a *API) (string, error) { x, err := a.State(ctx, 17); return x.Comment, err },
			"GET /-/api/v1/builds/17"},
		{"Comment", func(ctx context.Context, a *API) (string, error) {
			x, err := a.Comment(ctx, 17, "c")
			return x.Comment, err
		},
			`PATCH /-/api/v1/builds/17 {"comment":"c"}`},
		{"Hold", func(ctx context.Context, a *API) (string, error) {
			h, err := a.Hold(ctx, 17, reason, day)
			return h.Reason, err
		},
			`PATCH /-/api/v1/builds/17 {"hold":{"reason":"1.2 GA","until":"2026-11-01"}}`},
		{"Unhold", func(ctx context.Context, a *API) (string, error) {
			list, err := a.Unhold(ctx, 17, reason)
			return strings.Repeat("i", len(list)), err
		}, `PATCH /-/api/v1/builds/17 {"unhold":"1.2 GA"}`},
		{"Promote", func(ctx context.Context, a *API) (string, error) {
			p, err := a.Promote(ctx, 17, "b", reason, false)
			return p.To, err
		},
			`PATCH /-/api/v1/builds/17 {"class":"b","hold":{"reason":"1.2 GA"}}`},
		{"PlanRemoval", func(ctx context.Context, a *API) (string, error) {
			p, err := a.PlanRemoval(ctx, 17)
			return p.Plan, err
		},
			`POST /-/api/v1/plans {"kind":"remove","build":17}`},
		{"Remove", func(ctx context.Context, a *API) (string, error) {
			x, err := a.Remove(ctx, 17, "p")
			return x.Comment, err
		},
			"DELETE /-/api/v1/builds/17?plan=p"},
		{"Purge", func(ctx context.Context, a *API) (string, error) {
			p, err := a.Purge(ctx, 17, "a key&x=")
			return strings.Repeat("i", int(p.Transaction)), err
		}, "DELETE /-/api/v1/builds/17?purge=true&reason=a+key%26x%3D"},
		{"Undo", func(ctx context.Context, a *API) (string, error) { x, err := a.Undo(ctx, 17); return x.Comment, err },
			"POST /-/api/v1/builds/17/undo"},
		{"Usage", func(ctx context.Context, a *API) (string, error) { _, err := a.Usage(ctx); return "", err }, "GET /-/api/v1/disk"},
		{"UsageDays", func(ctx context.Context, a *API) (string, error) {
			list, err := a.UsageDays(ctx, day, day.AddDate(0, 0, 1), &product)
			return strings.Repeat("i", len(list)), err
		}, "GET /-/api/v1/disk?by=product&from=2026-11-01&product=x&to=2026-11-02"},
		{"Builds", func(ctx context.Context, a *API) (string, error) {
			n, f := 0, depot.ListFilter{Product: &product, Version: "1", Who: "w", Since: day, Removed: true, Limit: 3}
			return count(&n)(a.Transactions(ctx, f, func(display.Transaction) error { n++; return nil }))
		}, "GET /-/api/v1/builds?limit=3&product=x&removed=true&since=2026-11-01T00%3A00%3A00Z&version=1&who=w"},
		{"Files", func(ctx context.Context, a *API) (string, error) {
			n := 0
			return count(&n)(a.Files(ctx, 17, func(display.File) error { n++; return nil }))
		}, "GET /-/api/v1/builds/17/files?limit=500"},
		{"Find", func(ctx context.Context, a *API) (string, error) {
			n, err := a.Find(ctx, "a.pdb", 7, func(display.Found) error { return nil })
			return strings.Repeat("i", n), err
		}, "GET /-/api/v1/files?limit=7&q=a.pdb"},
		{"Same", func(ctx context.Context, a *API) (string, error) {
			same := depot.Same{}
			same.Object.Kind = symfile.PDB
			return "", a.same(ctx, same, func(display.Found, bool) error { return nil })
		}, ""},
		{"Missing", func(ctx context.Context, a *API) (string, error) {
			n := 0
			return count(&n)(a.Missing(ctx, catalog.WantedFilter{Name: "a*", Client: "gdb"}, func(catalog.Wanted) error { n++; return nil }))
		}, "GET /-/api/v1/missing?client=gdb&limit=500&name=a%2A"},
		{"Trace", func(ctx context.Context, a *API) (string, error) {
			l, err := a.Trace(ctx, "/a/1/a")
			return l.Asked, err
		},
			"GET /-/api/v1/trace?path=%2Fa%2F1%2Fa"},
		{"Jobs", func(ctx context.Context, a *API) (string, error) {
			n := 0
			f := jobs.Filter{States: []jobs.State{jobs.Queued, jobs.Failed}, Limit: 2}
			return count(&n)(a.Jobs(ctx, f, func(jobs.Shown) error { n++; return nil }))
		}, "GET /-/api/v1/jobs?limit=2&state=queued&state=failed"},
		{"JobStats", func(ctx context.Context, a *API) (string, error) {
			list, err := a.JobStats(ctx)
			return strings.Repeat("i", len(list)), err
		}, "GET /-/api/v1/jobs/stats"},
		{"CancelJob", func(ctx context.Context, a *API) (string, error) { _, err := a.CancelJob(ctx, 3); return "", err }, ""},
		{"RetryJob", func(ctx context.Context, a *API) (string, error) { _, err := a.RetryJob(ctx, 3); return "", err }, ""},
		{"MakeToken", func(ctx context.Context, a *API) (string, error) {
			m, err := a.MakeToken(ctx, wire.TokenSpec{Name: "n"})
			return m.Token, err
		}, `POST /-/api/v1/tokens {"name":"n"`},
		{"RevokeToken", func(ctx context.Context, a *API) (string, error) { return "", a.RevokeToken(ctx, "a/b") }, "DELETE /-/api/v1/tokens/a%2Fb"},
		{"Tokens", func(ctx context.Context, a *API) (string, error) {
			n := 0
			return count(&n)(a.Tokens(ctx, func(wire.TokenInfo) error { n++; return nil }))
		}, "GET /-/api/v1/tokens?limit=1000"},
	}
}

// TestVerbsSend: the method, the address, the entity tag and the body of each verb's request,
// and its answer.
func TestVerbsSend(t *testing.T) {
	t.Parallel()
	changed := `{"held":{"reason":"x"},"promoted":{"to":"x"},"released":[{}]}`
	transaction := `{"comment":"x"}`
	answers := map[string]string{
		"Hold": changed, "Unhold": changed, "Promote": changed, "Comment": `{"build":` + transaction + `}`, "Usage": `{}`,
		"Remove": transaction, "Undo": transaction, "Build": transaction, "State": transaction,
	}
	for _, v := range verbs() {
		if v.request == "" {
			continue
		}
		var got string
		h := func(w http.ResponseWriter, r *http.Request) {
			b, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			got = strings.Join(strings.Fields(r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("If-Match")+" "+string(b)), " ")
			usual := `{"text":"x","plan":"x","asked":"x","token":"x","build":1,"items":[{}]}`
			_, _ = io.WriteString(w, cmp.Or(answers[v.name], usual))
		}
		t.Run(v.name, func(t *testing.T) {
			bothWays(t, h, func(t *testing.T, a *API) {
				says, err := v.do(t.Context(), a)
				if err != nil || !strings.HasPrefix(got, v.request) {
					t.Errorf("sent %q, error %v; want %q", got, err, v.request)
				}
				if v.name != "Usage" && v.name != "RevokeToken" && says != "x" && says != "i" {
					t.Errorf("the answer is read as %q, want its only word", says)
				}
			})
		})
	}
}

// TestVerbsMean: each verb gives each problem the meaning that it has in the depot, whoever
// answers, and keeps what the answer says.
func TestVerbsMean(t *testing.T) {
	t.Parallel()
	noThing := map[string]error{ // what a missing thing means, if it is not fs.ErrNotExist
		"Policy": nil, "SetPolicy": nil, "Preview": nil, "PlanCollection": nil, "Usage": nil, "UsageDays": nil, "JobStats": nil, "MakeToken": nil,
		"Tokens": nil, "Apply": lifecycle.ErrNoPlan, "ApplyCollection": lifecycle.ErrNoPlan,
	}
	for _, tt := range []struct {
		word    string
		status  int
		meaning error
		no      bool // it is an answer
	}{
		{wire.ProblemNotFound, 404, fs.ErrNotExist, false},
		{wire.ProblemNoPolicy, 409, lifecycle.ErrNoPolicy, true},
		{wire.ProblemBrake, 409, retention.ErrBrake, true},
		{wire.ProblemPlanChanged, 409, retention.ErrStale, false},
		{wire.ProblemChanged, 412, lifecycle.ErrPolicyChanged, false},
		{wire.ProblemNotInTrash, 409, errNotInTrash, true},
		{wire.ProblemHeld, 409, nil, false},
		{"query", 400, nil, false},
	} {
		problem := func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(tt.status)
			_, _ = io.WriteString(w, `{"type":"`+wire.ProblemType+tt.word+`","title":"t","detail":"so it is"}`)
		}
		for _, v := range verbs() {
			want, no := tt.meaning, tt.no
			if other, ok := noThing[v.name]; ok && tt.word == wire.ProblemNotFound {
				want, no = other, other != nil
			}
			bothWays(t, problem, func(t *testing.T, a *API) {
				_, err := v.do(t.Context(), a)
				if err == nil || !strings.Contains(err.Error(), "so it is") || IsNo(err) != no || want != nil && !errors.Is(err, want) {
					t.Errorf("%s, %s: %v, a no %v; want %v, a no %v", v.name, tt.word, err, IsNo(err), want, no)
				}
				if want == nil && errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s, %s: %v is fs.ErrNotExist, want no meaning", v.name, tt.word, err)
				}
			})
		}
	}
}

// TestHereFailsAsTheDepot: what the depot of this process fails with is returned as it is, and
// nobody is told of a server.
func TestHereFailsAsTheDepot(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk is full")
	a := Within(failing{broken})
	for _, v := range verbs() {
		if _, err := v.do(t.Context(), a); err != broken {
			t.Errorf("%s: %v, want %v", v.name, err, broken)
		}
	}
	a = Within(handler(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"type":"`+wire.ProblemType+`query","title":"not valid","detail":"the change is not valid","fields":{"class":"is too long"}}`)
	}))
	if _, err := a.Promote(t.Context(), 1, "c", "", false); err == nil || err.Error() != "the change is not valid; class: is too long" {
		t.Errorf("a change that is not valid: %v", err)
	}
}

type failing struct{ err error }

// RoundTrip implements http.RoundTripper.
func (f failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }

// TestListsGoOn: a list is read part by part, at most to its limit, and long times of usage
// in several requests.
func TestListsGoOn(t *testing.T) {
	t.Parallel()
	var asked []string
	parts := func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		asked = append(asked, q.Get("limit")+q.Get("cursor")+q.Get("from"))
		if q.Get("cursor") == "" && q.Get("from") == "" {
			_, _ = io.WriteString(w, `{"items":[{},{}],"next":"c"}`)
			return
		}
		_, _ = io.WriteString(w, `{"items":[{}]}`)
	}
	bothWays(t, parts, func(t *testing.T, a *API) {
		for limit, want := range map[int]string{0: "500 500c", 2: "2", 3: "3 1c", 7: "7 5c"} {
			asked = nil
			n := 0
			err := a.Files(t.Context(), 1, func(display.File) error { n++; return nil })
			if limit > 0 {
				asked, n = nil, 0
				err = a.Transactions(t.Context(), depot.ListFilter{Limit: limit}, func(display.Transaction) error { n++; return nil })
			}
			if got := strings.Join(asked, " "); err != nil || got != want || n != map[bool]int{true: 2, false: 3}[limit == 2] {
				t.Errorf("limit %d: asked for %q, %d items, %v; want %q", limit, got, n, err, want)
			}
		}
		asked = nil
		to := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
		days, err := a.UsageDays(t.Context(), to.AddDate(0, 0, -maxUsageDays), to, nil)
		if got := strings.Join(asked, " "); err != nil || got != "2023-10-30 2026-11-01" || len(days) != 2 {
			t.Errorf("%d days and one: asked for %q, %d items, %v; want two requests", maxUsageDays, got, len(days), err)
		}
	})
}

// TestRetries: a busy server is asked again; a change that the server may have
// made is not sent again, a question is.
func TestRetries(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	broken := true
	c := apiClient(t, func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) > 2 {
			_, _ = io.WriteString(w, `{}`)
			return
		}
		if broken {
			panic(http.ErrAbortHandler) // the connection ends without an answer
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	ctx := t.Context()
	if _, err := c.Undo(ctx, 1); !errors.Is(err, ErrUnreachable) || calls.Load() != 1 {
		t.Errorf("a change without an answer: %d requests, error %v; want 1 and ErrUnreachable", calls.Load(), err)
	}
	calls.Store(0)
	if _, err := c.Usage(ctx); err != nil || calls.Load() != 3 {
		t.Errorf("a question without an answer: %d requests, error %v; want 3 and none", calls.Load(), err)
	}
	calls.Store(0)
	broken = false
	if _, err := c.Undo(ctx, 1); err != nil || calls.Load() != 3 {
		t.Errorf("a change at a busy server: %d requests, error %v; want 3 and none", calls.Load(), err)
	}
}

// TestProblems: the word and the text of a problem, and its class.
func TestProblems(t *testing.T) {
	t.Parallel()
	answer, status := "", 0
	c := apiClient(t, func(w http.ResponseWriter, _ *http.Request) {
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
		_, err := c.Policy(t.Context())
		if ProblemWord(err) != tt.word || ProblemText(err) != tt.text || !errors.Is(err, tt.class) {
			t.Errorf("answer %d %s: word %q, text %q, error %v; want %q, %q, %v", tt.status, tt.body, ProblemWord(err), ProblemText(err), err, tt.word, tt.text, tt.class)
		}
	}
}
