package api

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/depot/retention"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/web"
)

// fakeRetention is a depot with transactions 1 to 5, of which 3 was removed, and 4 and
// 5 are of product theirs. It records what was asked for.
type fakeRetention struct {
	web.Retention // methods that are not called
	calls         []string
	err           error
}

func (f *fakeRetention) call(format string, args ...any) error {
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
	return f.err
}

func (f *fakeRetention) Policy(context.Context) (lifecycle.PolicyInForce, error) {
	p, err := retention.Parse("policy", []byte("retention:\n  classes:\n    - {name: release}\n    - {name: nightly, keep_last: 1}\n"))
	return lifecycle.PolicyInForce{Policy: p, Number: 7, Text: "text"}, err
}

func (f *fakeRetention) PushKey(context.Context, int64) (string, error) { return "", nil }

func (f *fakeRetention) SetPolicy(_ context.Context, file string, text []byte, who string, before int64) (lifecycle.PolicyInForce, error) {
	p, err := retention.Parse(file, text)
	if err != nil {
		return lifecycle.PolicyInForce{}, err
	}
	return lifecycle.PolicyInForce{Policy: p, Number: 8}, f.call("set by %s before %d", who, before)
}

func (f *fakeRetention) Apply(_ context.Context, plan string, yes int, who string) (lifecycle.Applied, error) {
	return lifecycle.Applied{Run: lifecycle.RetentionRun{Plan: plan, Kind: "apply"}}, f.call("apply %s %d %s", plan, yes, who)
}

func (f *fakeRetention) KindOfPlan(_ context.Context, number string) (lifecycle.PlanKind, error) {
	if number == "0000000c" {
		return lifecycle.PlanOfCollection, nil
	}
	return lifecycle.PlanOfPolicy, nil
}

func (f *fakeRetention) PlanCollection(_ context.Context, opt lifecycle.CollectOptions, who string) (lifecycle.CollectionPlan, error) {
	return lifecycle.CollectionPlan{Number: "0000000c", Collected: lifecycle.Collected{Frees: 7}}, f.call("plan gc %s %t by %s", opt.Grace, opt.EmptyTrash, who)
}

func (f *fakeRetention) PlannedCollection(_ context.Context, number string) (lifecycle.CollectionPlan, error) {
	return lifecycle.CollectionPlan{Number: number}, f.call("planned gc %s", number)
}

func (f *fakeRetention) ApplyCollection(_ context.Context, number string) (lifecycle.Collected, error) {
	return lifecycle.Collected{Frees: 7}, f.call("apply gc %s", number)
}

func (f *fakeRetention) UsageOverTime(_ context.Context, q lifecycle.UsageFilter) ([]lifecycle.UsageDay, error) {
	product := "all"
	if q.Product != nil {
		product = strconv.Quote(*q.Product)
	}
	u := lifecycle.UsageDay{Day: q.From, Product: "ours", All: q.All, Bytes: 7}
	return []lifecycle.UsageDay{u}, f.call("usage %s to %s of %s %t", q.From.Format(time.DateOnly), q.To.Format(time.DateOnly), product, q.All)
}

func (f *fakeRetention) SetComment(_ context.Context, number int64, comment string) (depot.Transaction, error) {
	return depot.Transaction{Number: number, Comment: comment}, f.call("comment %d %q", number, comment)
}

func (f *fakeRetention) Hold(_ context.Context, h lifecycle.Hold) error {
	return f.call("hold %d %s by %s", h.Number, h.Reason, h.Who)
}

func (f *fakeRetention) Unhold(_ context.Context, number int64, name string) ([]lifecycle.Hold, error) {
	return nil, f.call("unhold %d %q", number, name)
}

func (f *fakeRetention) Promote(_ context.Context, number int64, class, who string, _ bool) (lifecycle.Promotion, error) {
	return lifecycle.Promotion{Number: number, From: "nightly", To: class, Who: who}, f.call("promote %d %s", number, class)
}

func (f *fakeRetention) CheckBar(context.Context, int64, string) error { return nil }

func (f *fakeRetention) Remove(_ context.Context, number int64, who string) (depot.Transaction, error) {
	return depot.Transaction{Number: number}, f.call("remove %d by %s", number, who)
}

func (f *fakeRetention) Purge(_ context.Context, number int64, who, detail string) (lifecycle.Purged, error) {
	return lifecycle.Purged{Transaction: depot.Transaction{Number: number}}, f.call("purge %d by %s: %s", number, who, detail)
}

func (f *fakeRetention) Undo(_ context.Context, number int64, who string) (depot.Transaction, error) {
	return depot.Transaction{Number: number}, f.call("undo %d by %s", number, who)
}

func (f *fakeRetention) Holds(context.Context, int64) ([]lifecycle.Hold, error) { return nil, nil }
func (f *fakeRetention) Promotions(context.Context, int64) ([]lifecycle.Promotion, error) {
	return nil, nil
}
func (f *fakeRetention) Needs(context.Context, int64) ([]int64, error) { return []int64{2, 4}, nil }
func (f *fakeRetention) Why(context.Context, int64) (lifecycle.Removal, error) {
	return lifecycle.Removal{Who: "ci", Reason: "expired"}, nil
}

func (f *fakeRetention) Runs(_ context.Context, before int64, limit int) ([]lifecycle.RetentionRun, error) {
	return nil, f.call("runs before %d: %d", before, limit)
}

func (f *fakeRetention) Transaction(_ context.Context, number int64) (depot.Transaction, error) {
	t := depot.Transaction{Number: number, Product: "ours"}
	switch {
	case number > 5:
		return t, fs.ErrNotExist
	case number > 3:
		t.Product = "theirs"
	case number == 2:
		t.Class = "nightly"
	case number == 3:
		t.Removed = time.Unix(1000, 0)
	}
	return t, nil
}

func (f *fakeRetention) List(ctx context.Context, scope answer.Scope, q depot.ListFilter) ([]depot.Transaction, error) {
	var list []depot.Transaction
	for n := int64(5); n > 0 && len(list) < q.Limit; n-- {
		t, err := f.Transaction(ctx, n)
		if err != nil {
			return nil, err
		}
		if (scope.Products == nil || slices.Contains(scope.Products, t.Product)) && (q.Before == 0 || n < q.Before) && (q.Removed || t.Removed.IsZero()) {
			list = append(list, t)
		}
	}
	return list, nil
}

// serveRetention serves the API to a client with these rights.
func serveRetention(t *testing.T, f *fakeRetention, who *web.Principal, audit ...*auth.Audit) func(method, path, body string, header ...string) (*http.Response, string) {
	t.Helper()
	cfg := web.Config{Retention: f, Depot: f}
	if len(audit) > 0 {
		cfg.Audit = audit[0]
	}
	a := New(web.New(cfg))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		segs := strings.Split(strings.Trim(r.URL.EscapedPath(), "/"), "/")
		_ = a.Serve(w, &web.Request{Request: r, Segments: segs, Principal: *who, Body: r.Body, Allow: func(time.Duration) {}, Leave: func() {}, Challenges: []string{"Bearer"}})
	}))
	t.Cleanup(srv.Close)
	return func(method, path, body string, header ...string) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, srv.URL+wire.APIPath+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		return symtest.Do(t, watched(t, srv.Client()).Do, req)
	}
}

// TestRetentionRights: each request, who may send it, and what is wrong with others.
func TestRetentionRights(t *testing.T) {
	t.Parallel()
	nobody := web.Principal{Anonymous: true}
	guest := web.Principal{Name: "guest", Rights: auth.Rights{Admitted: true, Products: []string{"ours"}}}
	all := web.Principal{Name: "all", Rights: auth.Rights{Admitted: true, All: true}}
	ci := web.Principal{Name: "ci", Rights: auth.Rights{Admitted: true, Products: []string{"ours"}, Write: true, WriteProducts: []string{"ours"}}}
	nightly := ci
	nightly.Identity.Uploads.Class = "nightly"
	boss := web.Principal{Name: "boss", Rights: auth.Rights{Admitted: true, All: true, Write: true, WriteAll: true, Admin: true}}
	const policy = "retention:\n  classes:\n    - {name: release}\n"
	for _, tt := range []struct {
		who                *web.Principal
		method, path, body string
		status             int
		want               string // part of the answer
		call               string // of the depot; "" for none
	}{
		{&nobody, "GET", "/retention/rules", "", 401, "problem:credentials", ""},
		{&guest, "GET", "/retention/rules", "", 403, "read all products", ""},
		{&all, "GET", "/retention/rules", "", 200, `"number":7`, ""},
		{&all, "PUT", "/retention/rules", policy, 403, "scope admin", ""},
		{&boss, "PUT", "/retention/rules", policy, 200, `"number":8`, "set by boss before 7"},
		{&boss, "PUT", "/retention/rules", "retention:\n  clases: []\n", 400, "policy:2: retention.clases", ""},
		{&all, "GET", "/retention/runs?limit=3", "", 200, `{"items":[]}`, "runs before 0: 4"},
		{&all, "GET", "/retention/runs?limit=0", "", 400, "from 1 to 1000", ""},
		{&all, "GET", "/retention/runs?limt=3", "", 400, `"limt":"is unknown"`, ""},
		{&all, "POST", "/plans", "", 403, "scope write", ""},
		{&ci, "POST", "/plans", "", 403, "read all products", ""},
		{&boss, "POST", "/plans", `{"kind":"all"}`, 400, "problem:query", ""},
		{&boss, "POST", "/plans", `{"kind":"gc","build":1}`, 400, "problem:query", ""},
		{&boss, "POST", "/plans", `{"grace":1}`, 400, "of the kind gc", ""},
		{&boss, "POST", "/plans", `{"kind":"gc","grace":-1}`, 400, `"grace":"a number of seconds`, ""},
		{&ci, "POST", "/plans", `{"kind":"gc"}`, 403, "read all products", ""},
		{&boss, "POST", "/plans", `{"kind":"gc"}`, 201, `"plan":"0000000c"`, "plan gc 24h0m0s false by boss"},
		{&boss, "POST", "/plans", `{"kind":"gc","grace":60,"empty_trash":true}`, 201, `"dry_run":true`, "plan gc 1m0s true by boss"},
		{&all, "GET", "/plans/0000000c", "", 200, `"plan":"0000000c"`, "planned gc 0000000c"},
		{&ci, "POST", "/plans/0000000c/apply", "", 403, "scope admin", ""},
		{&boss, "POST", "/plans/0000000c/apply", "", 200, `"frees":7`, "apply gc 0000000c"},
		{&boss, "POST", "/plans/0000000c/apply", `{"yes_remove":3}`, 400, "belongs to a plan of the retention policy", ""},
		{&ci, "POST", "/plans/8c1f2a90/apply", "", 403, "scope admin", ""},
		{&boss, "POST", "/plans/8c1f2a90/apply", `{"yes_remove":3}`, 200, `"plan"`, "apply 8c1f2a90 3 boss"},
		{&boss, "POST", "/plans/8c1f2a90/apply", `{"yes":3}`, 400, "unknown field", ""},
		{&guest, "GET", "/disk", "", 403, "read all products", ""},
		{&guest, "GET", "/disk?from=2026-11-01", "", 403, "read all products", ""},
		{&all, "GET", "/disk?from=2026-11-01&to=2026-11-03", "", 200, `{"items":[{"day":"2026-11-01","builds":0,"files":0,"bytes":7`, "usage 2026-11-01 to 2026-11-03 of all true"},
		{&all, "GET", "/disk?from=2026-11-01&to=2026-11-03&by=product", "", 200, `"product":"ours"`, "usage 2026-11-01 to 2026-11-03 of all false"},
		{&all, "GET", "/disk?to=2026-11-30&product=", "", 200, `"items"`, `usage 2026-11-01 to 2026-11-30 of "" false`},
		{&all, "GET", "/disk?from=2026-11-01&to=2026-12-31&by=product", "", 400, "at most 31 days", ""},
		{&all, "GET", "/disk?from=2026-11-02&to=2026-11-01", "", 400, "at most 1098 days", ""},
		{&all, "GET", "/disk?from=1926-11-02", "", 400, "a day is expected", ""},
		{&all, "GET", "/disk?by=kind", "", 400, `"by":`, ""},
		{&all, "GET", "/disk?by=total&product=ours", "", 400, `"by":`, ""},
		{&all, "GET", "/disk?since=2026-11-02", "", 400, `"since":"is unknown"`, ""},

		{&nobody, "GET", "/builds", "", 401, "problem:credentials", ""},
		{&guest, "GET", "/builds/1", "", 200, `"holds":[],"promotions":[]`, ""},
		{&guest, "GET", "/builds/3", "", 200, `"removal":{"by":"ci"`, ""},
		{&guest, "GET", "/builds/4", "", 404, "there is no build 4", ""}, // as 6
		{&guest, "GET", "/builds/6", "", 404, "there is no build 6", ""},
		{&guest, "GET", "/builds/01", "", 404, "problem:not-found", ""},
		{&all, "GET", "/builds/4", "", 200, `"product":"theirs"`, ""},
		{&guest, "PATCH", "/builds/1", `{"class":"release"}`, 403, "scope write", ""},
		{&ci, "PATCH", "/builds/1", `{"class":"release"}`, 200, `"promoted":{"build":1,"from":"nightly","to":"release"`, "promote 1 release"},
		{&ci, "PATCH", "/builds/1", `{"class":"relese"}`, 400, "the nearest is release", ""},
		{&ci, "PATCH", "/builds/1", `{}`, 400, "changes nothing", ""},
		{&ci, "PATCH", "/builds/1", `{"comment":"shipped"}`, 200, `"comment":"shipped"`, `comment 1 "shipped"`},
		{&ci, "PATCH", "/builds/1", `{"comment":""}`, 200, `"comment":""`, `comment 1 ""`},
		{&ci, "PATCH", "/builds/1", `{"comment":"a\u0007"}`, 400, `"comment":`, ""},
		{&guest, "PATCH", "/builds/1", `{"comment":"shipped"}`, 403, "scope write", ""},
		{&ci, "PATCH", "/builds/4", `{"class":"release"}`, 404, "problem:not-found", ""},
		{&nightly, "PATCH", "/builds/2", `{"class":"release"}`, 403, `class \"nightly\" only`, ""},
		{&nightly, "DELETE", "/builds/1", "", 403, `class \"nightly\" only`, ""},
		{&nightly, "DELETE", "/builds/2", "", 200, `"build":2`, "remove 2 by ci"},
		{&ci, "PATCH", "/builds/1", `{"hold":{"reason":"x","until":"2126-12-31"}}`, 200, `"held":{"build":1,"name":"x"`, "hold 1 x by ci"},
		{&ci, "PATCH", "/builds/1", `{"hold":{"reason":""}}`, 400, "hold.reason", ""},
		{&ci, "PATCH", "/builds/1", `{"hold":{"reason":"x","until":"soon"}}`, 400, "hold.until", ""},
		{&ci, "PATCH", "/builds/1", `{"unhold":""}`, 403, "scope admin", ""},
		{&boss, "PATCH", "/builds/1", `{"unhold":"x"}`, 200, `{"released":[]}`, `unhold 1 "x"`},
		{&guest, "DELETE", "/builds/1", "", 403, "scope write", ""},
		{&ci, "DELETE", "/builds/1", "", 200, `"build":1`, "remove 1 by ci"},
		{&ci, "DELETE", "/builds/3", "", 409, "was removed already", ""},
		{&ci, "DELETE", "/builds/5", "", 404, "problem:not-found", ""},
		{&ci, "DELETE", "/builds/1?purge=true", "", 403, "scope admin", ""},
		{&ci, "DELETE", "/builds/1?prge=true", "", 400, "problem:query", ""},
		{&boss, "DELETE", "/builds/3?purge=true&reason=a+key", "", 200, `"contents"`, "purge 3 by boss: a key"},
		{&boss, "DELETE", "/builds/1?reason=a+key", "", 400, "belongs to a purge", ""},
		{&ci, "POST", "/builds/3/undo", "", 200, `"build":3`, "undo 3 by ci"},
	} {
		f := &fakeRetention{}
		resp, body := serveRetention(t, f, tt.who)(tt.method, tt.path, tt.body, "If-Match", `"7"`)
		if resp.StatusCode != tt.status || !strings.Contains(body, tt.want) {
			t.Errorf("%s %s of %q: status %d, body %s; want %d with %s", tt.method, tt.path, tt.who.Name, resp.StatusCode, body, tt.status, tt.want)
		}
		if got := strings.Join(f.calls, "; "); got != tt.call {
			t.Errorf("%s %s of %q: calls %q, want %q", tt.method, tt.path, tt.who.Name, got, tt.call)
		}
	}
}

// TestPurgeIsAudited: a purge is in the audit log, a removal is not.
func TestPurgeIsAudited(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	log, err := auth.OpenAudit(auth.AuditConfig{File: file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	boss := web.Principal{Name: "boss", Rights: auth.Rights{Admitted: true, All: true, Write: true, WriteAll: true, Admin: true}}
	boss.Identity.Name = "boss"
	ask := serveRetention(t, &fakeRetention{}, &boss, log)
	ask("DELETE", "/builds/1", "")
	ask("DELETE", "/builds/3?purge=true&reason=a+key", "")
	ask("DELETE", "/builds/9?purge=true", "") // there is none
	var got []string
	for e, err := range auth.ReadAudit(file, auth.AuditFilter{}) {
		if err != nil {
			t.Error(err)
		}
		got = append(got, fmt.Sprint(e.Who, " ", e.Action, " ", e.Name, " ", e.ID, " ", e.Products, " ", e.Detail, " ", e.Remote != ""))
	}
	if want := []string{"boss purge build 3 3 [ours] a key true"}; !slices.Equal(got, want) {
		t.Errorf("audit records %q, want %q", got, want)
	}
}

// TestRetentionErrors: each error of the depot has its own word and status.
func TestRetentionErrors(t *testing.T) {
	t.Parallel()
	boss := web.Principal{Name: "boss", Rights: auth.Rights{Admitted: true, All: true, Write: true, WriteAll: true, Admin: true}}
	for _, tt := range []struct {
		err    error
		status int
		word   string
	}{
		{lifecycle.ErrNoPolicy, 409, "no-policy"},
		{fmt.Errorf("plan 1: %w", lifecycle.ErrNoPlan), 404, "not-found"},
		{fmt.Errorf("plan 1: %w", retention.ErrStale), 409, "plan-changed"},
		{fmt.Errorf("plan 1: %w", retention.ErrBrake), 409, "brake"},
		{lifecycle.ErrPolicyChanged, 412, "changed"},
		{&lifecycle.ErrHeld{}, 409, "held"},
		{&lifecycle.NotInTrashError{}, 409, "not-in-trash"},
		{fs.ErrNotExist, 404, "not-found"},
		{io.ErrClosedPipe, 500, "internal"},
	} {
		resp, body := serveRetention(t, &fakeRetention{err: tt.err}, &boss)("POST", "/plans/1/apply", "")
		if resp.StatusCode != tt.status || !strings.Contains(body, "problem:"+tt.word+`"`) {
			t.Errorf("error %v: status %d, body %s; want %d with %s", tt.err, resp.StatusCode, body, tt.status, tt.word)
		}
	}
	for value, want := range map[string]int{"": 400, "7": 400, `"x"`: 400, `W/"7"`: 400, `"-1"`: 400, `"7"`: 200, "*": 200} {
		resp, body := serveRetention(t, &fakeRetention{}, &boss)("PUT", "/retention/rules", "retention:\n  classes:\n    - {name: release}\n", "If-Match", value)
		if resp.StatusCode != want {
			t.Errorf("If-Match %s: status %d, want %d; body %s", value, resp.StatusCode, want, body)
		}
	}
}

// TestTransactionPages: the pages of a list join to the list, and a cursor belongs to
// its filters.
func TestTransactionPages(t *testing.T) {
	t.Parallel()
	guest := web.Principal{Name: "guest", Rights: auth.Rights{Admitted: true, Products: []string{"ours"}}}
	ask := serveRetention(t, &fakeRetention{}, &guest)
	resp, body := ask("GET", "/builds?limit=1&removed=true", "")
	next, _, _ := strings.Cut(strings.TrimPrefix(resp.Header.Get("Link"), "<"), ">")
	if !strings.Contains(body, `"build":3`) || strings.Contains(body, "theirs") || next == "" {
		t.Fatalf("first page: body %s, Link %q; want build 3 and a next page", body, resp.Header.Get("Link"))
	}
	next = strings.TrimPrefix(next, wire.APIPath)
	if _, body = ask("GET", next, ""); !strings.Contains(body, `"build":2`) || strings.Contains(body, `"build":3`) {
		t.Errorf("second page: body %s, want build 2", body)
	}
	if resp, body = ask("GET", strings.Replace(next, "removed=true", "removed=false", 1), ""); resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, "problem:cursor") {
		t.Errorf("a cursor with other filters: status %d, body %s; want 400 with cursor", resp.StatusCode, body)
	}
}
