package server

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/internal/remote/upstream"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/internal/serve/web/api"
	"github.com/symdepot/symdepot/internal/serve/web/apitest"
	"github.com/symdepot/symdepot/layout"
)

// described is the description of the API.
var described = sync.OnceValues(func() (*apitest.Description, error) {
	text, err := api.Description()
	if err != nil {
		return nil, err
	}
	return apitest.New(text)
})

// testOf has the test of each server, a testing.TB.
var testOf sync.Map

// watch makes a test fail if an answer of the server to ask is not as described.
func watch(t testing.TB, s *Server) {
	testOf.Store(s, t)
	t.Cleanup(func() { testOf.Delete(s) })
}

// compare compares an answer of a server with the description.
func compare(s *Server, method, target, body string, r reply) {
	v, ok := testOf.Load(s)
	t, is := v.(testing.TB)
	if !ok || !is || !strings.Contains(target, apitest.Base) {
		return
	}
	t.Helper()
	d, err := described()
	if err == nil {
		err = d.Check(apitest.Exchange{Method: method, Target: target, Request: []byte(body), Status: r.status, Header: r.header, Body: []byte(r.body)})
	}
	if err == nil && r.status >= 400 && strings.Contains(r.body, os.TempDir()+string(filepath.Separator)) {
		err = errors.New("a problem names a path of the server")
	}
	if err != nil {
		t.Errorf("%s %s: the answer is not as described: %v\n%.2000s", method, auth.Redact(target), err, r.body)
	}
}

// apiWorld is a server with all that its API can tell of.
type apiWorld struct {
	*guarded
	admin  string // a token
	number int64  // of a transaction of ours
	sha    string // of a file of ours
	job    int64
}

const apiPolicy = "retention:\n  classes:\n    - {name: release}\n    - {name: nightly, keep_within: 1d}\n  default: nightly\n  min_age: 1h\n  trash: 7d\n"

func newAPIWorld(t *testing.T, policy auth.PolicyConfig) *apiWorld {
	t.Helper()
	w := &apiWorld{guarded: newGuarded(t, policy, Config{Prefixes: []string{"corp"}})}
	w.admin = w.store.add(t, "admin", nil, "admin")
	far, err := upstream.NewHTTP(upstream.HTTPConfig{Name: "far", URL: "http://127.0.0.1:1", Layout: "symstore"}, upstream.NewDialer(upstream.DialerOptions{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = far.Close() })
	remote := missingDepot(t, upstream.Guard(far, upstream.GuardOptions{}))
	audit, err := auth.OpenAudit(auth.AuditConfig{File: filepath.Join(t.TempDir(), "audit.jsonl")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = audit.Close() })
	gate := w.s.cfg.Gate
	w.s.cfg.Audit = audit
	w.s.cfg.API, w.s.cfg.Pages = webOf(w.d, web.Config{
		Scratch: t.TempDir(), Gate: gate, Tokens: apiTokens{w.store}, Audit: audit, Tracing: web.Tracing{Gate: gate}, Upstreams: remote.Remote, Missing: remote.Missing, Version: "v1.2.3",
	})
	w.sha, w.number = sha256Hex(w.oursPDB.body), 1
	for range 3 { // records of downloads
		ask(w.s, "GET", w.oursPDB.path(t, layout.SymStore), bearer(w.ours))
	}
	audit.Flush()
	kind := &shout{made: map[string]string{}}
	w.d.Jobs().Register(kind, jobs.Limits{})
	for _, key := range []string{"a", "b", "c"} {
		j, _, err := w.d.Jobs().Enqueue(t.Context(), jobs.Entry{Job: jobs.Job{Kind: "shout", Key: key, Variant: 1}})
		if err != nil {
			t.Fatal(err)
		}
		w.job = j.ID
	}
	if r := askBody(w.s, "PUT", wire.RulesPath, apiPolicy, bearer(w.admin), "If-Match: *"); r.status != 200 {
		t.Fatalf("setting a policy: status %d, %s; want 200", r.status, r.body)
	}
	return w
}

// missingDepot returns a depot with an upstream, and with three files that clients did not
// get: a depot stores their counts when it is closed.
func missingDepot(t *testing.T, src fetch.Source) *depot.Depot {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "remote")
	d, err := depot.Open(t.Context(), dir, depot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		segs := []string{fmt.Sprintf("none%d.pdb", i), bigID, fmt.Sprintf("none%d.pdb", i)}
		req, err := layout.Route(segs)
		if err != nil {
			t.Fatal(err)
		}
		for range i + 1 {
			d.Missing.Count(&req, "symsrv")
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if d, err = depot.Open(t.Context(), dir, depot.Options{Upstreams: []depot.Upstream{{Source: src}}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func sha256Hex(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// apiReads are requests for each address that is read, with the status for an
// administrator, and for a reader of one product.
func (w *apiWorld) apiReads(t *testing.T, plan string) map[string][]apiRead {
	t.Helper()
	path := url.QueryEscape(w.oursPDB.path(t, layout.SymStore))
	theirs := sha256Hex(w.theirsPDB.body)
	row, other := w.store.rows[auth.HashToken(w.ours)], w.store.rows[auth.HashToken(w.theirs)]
	return map[string][]apiRead{
		"/openapi.json":                        {{"", 200, 200}},
		"/about":                               {{"", 200, 200}},
		"/connect":                             {{"", 200, 200}},
		"/me":                                  {{"", 200, 200}},
		"/stats":                               {{"", 200, 403}},
		"/workers":                             {{"", 200, 403}},
		"/served":                              {{"", 200, 200}, {"?x=1", 400, 400}},
		"/jobs":                                {{"", 200, 403}, {"?state=queued&kind=shout", 200, 403}, {"?state=x", 400, 403}},
		"/jobs/stats":                          {{"", 200, 403}},
		"/crashes":                             {{"", 200, 403}},
		"/crashes/{id}":                        {{"x", 404, 403}},
		"/jobs/{job}":                          {{fmt.Sprint(w.job), 200, 403}, {"99", 404, 403}, {"x", 404, 403}},
		"/upstreams":                           {{"", 200, 403}},
		"/files":                               {{"", 200, 200}, {"?q=hello*&kind=pdb&sort=size", 200, 200}, {"?q=" + w.sha, 200, 200}, {"?kind=x", 400, 400}, {"?since=x", 400, 400}},
		"/files/{sha256}":                      {{w.sha, 200, 200}, {theirs, 200, 404}, {"x", 404, 404}},
		"/files/{sha256}/holders":              {{w.sha, 200, 200}, {theirs, 200, 404}, {"x", 404, 404}},
		"/files/{sha256}/paths":                {{w.sha, 200, 200}, {theirs, 200, 404}, {"x", 404, 404}},
		"/files/{sha256}/forms":                {{w.sha, 200, 200}, {theirs, 200, 404}, {"x", 404, 404}},
		"/files/{sha256}/sources":              {{w.sha, 200, 200}, {w.sha + "?limit=1", 200, 200}, {theirs, 200, 404}, {"x", 404, 404}},
		"/files/{sha256}/functions":            {{"x", 404, 404}}, // a page of them needs workers: TestLookUpPages
		"/products":                            {{"", 200, 200}, {"?sort=bytes", 200, 200}, {"?sort=x", 400, 400}},
		"/versions":                            {{"?product=ours", 200, 200}, {"?product=theirs", 200, 200}, {"", 400, 400}},
		"/versions/files":                      {{"?product=ours&version=1.0", 200, 200}, {"", 400, 400}},
		"/versions/diff":                       {{"?product=ours&here=1.0&there=2.0", 200, 200}, {"", 400, 400}},
		"/builds":                              {{"", 200, 200}, {"?removed=true", 200, 200}, {"?product=theirs", 200, 200}, {"?removed=x", 400, 400}},
		"/builds/{number}":                     {{fmt.Sprint(w.number), 200, 200}, {"4", 200, 404}, {"0", 404, 404}},
		"/builds/{number}/files":               {{fmt.Sprint(w.number), 200, 200}, {"4", 200, 404}, {"1?kind=pdb&sort=size&name=h*", 200, 200}},
		"/arrivals":                            {{"", 200, 200}, {"?after=3", 200, 200}, {"?after=-1", 400, 400}},
		"/coverage":                            {{"?product=ours", 200, 200}, {"?product=theirs", 200, 200}, {"", 400, 400}},
		"/missing":                             {{"", 200, 403}, {"?sort=last", 200, 403}, {"?format=csv", 200, 403}, {"?format=ndjson", 200, 403}, {"?format=x", 400, 403}, {"?format=csv&limit=3", 400, 403}},
		"/trace":                               {{"?path=" + path, 200, 200}, {"?path=x", 200, 200}, {"?name=none.pdb&id=" + bigID, 200, 200}, {"?as=anonymous&path=" + path, 200, 403}, {"?as=token:" + row.ID + "&path=" + path, 200, 403}, {"", 400, 400}},
		"/retention/rules":                     {{"", 200, 403}},
		"/retention/runs":                      {{"", 200, 403}, {"?limit=0", 400, 403}},
		"/plans/{plan}":                        {{plan, 200, 403}, {"00000000", 404, 403}},
		"/disk":                                {{"", 200, 403}, {"?by=total", 200, 403}, {"?by=product&from=2026-01-01&to=2026-01-03", 200, 403}, {"?product=ours", 200, 403}, {"?by=x", 400, 403}},
		"/tokens":                              {{"", 200, 200}},
		"/tokens/{id}":                         {{row.ID, 200, 200}, {other.ID, 200, 404}, {"x", 404, 404}},
		"/signins":                             {{"", 200, 200}}, //nolint:misspell // a word of addresses
		"/audit":                               {{"", 200, 403}, {"?order=oldest&since=7d", 200, 403}, {"?format=csv", 200, 403}, {"?format=ndjson", 200, 403}, {"?since=x", 400, 400}},
		"/push":                                {{"", 200, 403}},
		"/push/stages/{stage}":                 {{"x", 404, 403}},
		"/push/stages/{stage}/blocks/{sha256}": {{"x/blocks/" + w.sha, 404, 403}, {"x/blocks/x", 400, 403}},
		"/push/stages/{stage}/contents/{sha256}/parts": {{"x/contents/" + w.sha + "/parts", 404, 403}, {"x/contents/x/parts", 400, 403}},
	}
}

// apiRead is a request: what stands in place of the parameters of the path and after it,
// and the statuses.
type apiRead struct {
	rest          string
	admin, reader int
}

// target returns the address of a request.
func (a apiRead) target(template string) string {
	before, after, named := strings.Cut(template, "{")
	if !named {
		return apitest.Base + template + a.rest
	}
	_, after, _ = strings.Cut(after, "}")
	value, query, asked := strings.Cut(a.rest, "?")
	if asked {
		query = "?" + query
	}
	if strings.Contains(value, "/") {
		after = ""
	}
	return apitest.Base + before + value + after + query
}

// TestAPIReads: every address that is read answers as described, to an administrator, to a
// reader of one product and to nobody. Parameters that it does not know are refused, those
// that are described are not.
func TestAPIReads(t *testing.T) {
	w := newAPIWorld(t, demand)
	d, err := described()
	if err != nil {
		t.Fatal(err)
	}
	made := decoded[display.Plan](t, askBody(w.s, "POST", wire.PlansPath, "", bearer(w.admin)), 201)
	reads := w.apiReads(t, made.Plan)
	for i := range d.Operations {
		op := &d.Operations[i]
		if op.Method != http.MethodGet || op.Path == "/events" {
			continue
		}
		list := reads[op.Path]
		if len(list) == 0 {
			t.Errorf("the test has no request for %s", op.Path)
			continue
		}
		for _, r := range list {
			target := r.target(op.Path)
			for who, want := range map[string]int{w.admin: r.admin, w.ours: r.reader, "": 401} {
				var header []string
				if who != "" {
					header = append(header, bearer(who))
				}
				got := ask(w.s, "GET", target, header...)
				if got.status != want {
					t.Errorf("GET %s as %q: status %d, want %d: %s", target, w.nameOf(who), got.status, want, got.body)
				}
				if head := ask(w.s, "HEAD", target, header...); head.status != want || head.header.Get("Content-Type") != got.header.Get("Content-Type") {
					t.Errorf("HEAD %s as %q: status %d, type %q; want those of GET, %d and %q", target, w.nameOf(who), head.status, head.header.Get("Content-Type"), want, got.header.Get("Content-Type"))
				}
			}
		}
		w.checkParameters(t, d.Parameters(op, "query"), list[0].target(op.Path))
	}
}

// TestAPIReadsOpen: a server that lets everybody read answers clients without credentials
// as administrators, but for what only those may see.
func TestAPIReadsOpen(t *testing.T) {
	w := newAPIWorld(t, auth.PolicyConfig{})
	made := decoded[display.Plan](t, askBody(w.s, "POST", wire.PlansPath, "", bearer(w.admin)), 201)
	own := []string{
		"/crashes", "/crashes/{id}", "/tokens", "/tokens/{id}", "/signins", "/audit", //nolint:misspell // a word of addresses
		"/push", "/push/stages/{stage}", "/push/stages/{stage}/blocks/{sha256}", "/push/stages/{stage}/contents/{sha256}/parts",
	}
	for path, list := range w.apiReads(t, made.Plan) {
		for _, r := range list {
			target, want := r.target(path), r.admin
			got := ask(w.s, "GET", target)
			switch {
			case slices.Contains(own, path) && got.status != 400:
				want = 401
			case strings.Contains(target, "as="):
				want = 403
			}
			if got.status != want {
				t.Errorf("GET %s: status %d, want %d: %s", target, got.status, want, got.body)
			}
		}
	}
}

// nameOf names a client without its secret.
func (w *apiWorld) nameOf(token string) string { return w.store.rows[auth.HashToken(token)].Name }

// checkParameters sends parameters that an address has and has not.
func (w *apiWorld) checkParameters(t *testing.T, known []string, target string) {
	t.Helper()
	path, _, _ := strings.Cut(target, "?")
	unknown := func(name string) bool {
		r := ask(w.s, "GET", path+"?"+name+"=x", bearer(w.admin))
		var p wire.Problem
		return r.status == 400 && json.Unmarshal([]byte(r.body), &p) == nil && p.Fields[name] == "is unknown"
	}
	for _, name := range known {
		if unknown(name) {
			t.Errorf("GET %s does not know the parameter %s, which is described", path, name)
		}
	}
	for _, name := range []string{"nonsense", "q", "limit", "cursor", "sort", "product", "format"} {
		if !slices.Contains(known, name) && !unknown(name) {
			t.Errorf("GET %s accepts the parameter %s, which is not described", path, name)
		}
	}
}

// page is a part of a list.
type page struct {
	Items []json.RawMessage `json:"items"`
	Next  string            `json:"next"`
}

// whole reads a list page by page.
func (w *apiWorld) whole(t *testing.T, target, limit string) (items []json.RawMessage, cursor string) {
	t.Helper()
	sep := "?"
	if strings.Contains(target, "?") {
		sep = "&"
	}
	next := target + sep + "limit=" + limit
	for range 100 {
		r := ask(w.s, "GET", next, bearer(w.admin))
		p := decoded[page](t, r, 200)
		items = append(items, p.Items...)
		if p.Next == "" {
			return items, cursor
		}
		cursor = p.Next
		next, _, _ = strings.Cut(strings.TrimPrefix(r.header.Get("Link"), "<"), ">")
	}
	t.Fatalf("%s does not end", target)
	return nil, ""
}

// TestAPILists: the pages of every list join to the list, whatever their size. A cursor of
// another list or of other filters is refused, and so are limits beyond the bounds.
func TestAPILists(t *testing.T) {
	w := newAPIWorld(t, demand)
	d, err := described()
	if err != nil {
		t.Fatal(err)
	}
	cursors := map[string]string{}
	for i := range d.Operations {
		op := &d.Operations[i]
		if op.Method != http.MethodGet || !slices.Contains(d.Parameters(op, "query"), "cursor") || strings.HasSuffix(op.Path, "/functions") {
			continue
		}
		target := w.apiReads(t, "x")[op.Path][0].target(op.Path)
		small, cursor := w.whole(t, target, "1")
		large, _ := w.whole(t, target, "1000")
		if !equalItems(small, large) {
			t.Errorf("%s in pages of one has %d items, in one page %d; want the same", target, len(small), len(large))
		}
		if cursor != "" {
			cursors[target] = cursor
		}
		sep := "?"
		if strings.Contains(target, "?") {
			sep = "&"
		}
		for query, word := range map[string]string{"limit=0": "query", "limit=1001": "query", "limit=x": "query", "cursor=x": "cursor", "cursor=AAAA": "cursor"} {
			if p := decoded[wire.Problem](t, ask(w.s, "GET", target+sep+query, bearer(w.admin)), 400); p.Type != wire.ProblemType+word {
				t.Errorf("GET %s with %s: the problem %s, want %s", target, query, p.Type, word)
			}
		}
	}
	if len(cursors) < 8 {
		t.Errorf("lists with several pages: %q, want at least 8", slices.Sorted(maps.Keys(cursors)))
	}
	for target := range cursors {
		sep := "?"
		if strings.Contains(target, "?") {
			sep = "&"
		}
		for from, cursor := range cursors {
			r := ask(w.s, "GET", target+sep+"cursor="+url.QueryEscape(cursor), bearer(w.admin))
			if ok := r.status == 200; ok != (from == target) || !ok && !strings.Contains(r.body, wire.ProblemType+"cursor") {
				t.Errorf("GET %s with a cursor of %s: status %d, %s; want it accepted only there, and else the problem cursor", target, from, r.status, r.body)
			}
		}
	}
	for _, target := range []string{apitest.Base + "/builds?product=ours", apitest.Base + "/jobs?kind=shout", apitest.Base + "/missing?sort=last", apitest.Base + "/files?kind=pdb", apitest.Base + "/audit?order=oldest"} {
		path, _, _ := strings.Cut(target, "?")
		if r := ask(w.s, "GET", target+"&cursor="+url.QueryEscape(cursors[path]), bearer(w.admin)); r.status != 400 || !strings.Contains(r.body, wire.ProblemType+"cursor") || cursors[path] == "" {
			t.Errorf("GET %s with a cursor of the list without filters: status %d, %s; want the problem cursor", target, r.status, r.body)
		}
	}
}

func equalItems(a, b []json.RawMessage) bool {
	return slices.EqualFunc(a, b, func(x, y json.RawMessage) bool { return bytes.Equal(x, y) })
}

// TestAPIWholeLists: the whole forms of lists have what their pages have.
func TestAPIWholeLists(t *testing.T) {
	w := newAPIWorld(t, demand)
	for _, target := range []string{apitest.Base + "/missing?", apitest.Base + "/missing?sort=last&", apitest.Base + "/audit?", apitest.Base + "/audit?order=oldest&"} {
		items, _ := w.whole(t, strings.TrimRight(target, "?&"), "1")
		r := ask(w.s, "GET", target+"format=ndjson", bearer(w.admin))
		var lines []json.RawMessage
		for line := range strings.Lines(r.body) {
			lines = append(lines, json.RawMessage(strings.TrimSuffix(line, "\n")))
		}
		if len(items) < 3 || len(lines) == 0 || !equalItems(lines[:len(lines)-1], items) {
			t.Errorf("%s: %d lines of JSON, and %d items in pages; want at least three, the same, and one line for the end\n%s", target, len(lines), len(items), r.body)
		}
		rows, err := csv.NewReader(strings.NewReader(ask(w.s, "GET", strings.TrimRight(target, "?&"), bearer(w.admin), "Accept: text/csv").body)).ReadAll()
		if err != nil || len(rows) != len(items)+1 {
			t.Errorf("%s: %d lines of comma-separated values, %v; want a header and %d", target, len(rows), err, len(items))
		}
	}
}

// TestAPIActs: every address that changes something answers as described.
func TestAPIActs(t *testing.T) {
	w := newAPIWorld(t, demand)
	d, err := described()
	if err != nil {
		t.Fatal(err)
	}
	content := sym("00000000000000000000000000000ABC0", "new.pdb", "", 500)
	ref := sha256Hex(content)
	sum := sha256.Sum256(content)
	digest := "Content-Digest: sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
	dump, err := os.ReadFile("../../../testdata/minidump/test_app.dmp")
	if err != nil {
		t.Fatal(err)
	}
	const base = apitest.Base
	done := map[string]bool{}
	act := func(method, path, body string, status int, headers ...string) reply {
		t.Helper()
		r := askBody(w.s, method, base+path, body, append(headers, bearer(w.admin))...)
		if r.status != status {
			t.Errorf("%s %s: status %d, want %d: %s", method, path, r.status, status, r.body)
		}
		if r.status < 300 {
			done[method+" "+d.PathOf(method, path)] = true
		}
		return r
	}
	// tokens
	token := decoded[wire.TokenInfo](t, act("POST", "/tokens", `{"name":"x","scopes":["read"],"products":["ours"]}`, 201), 201)
	act("POST", "/tokens", `{"name":"x","scops":[]}`, 400)
	act("POST", "/tokens?x=y", `{"name":"x"}`, 400)
	act("DELETE", "/tokens/"+token.ID, "", 204)
	act("DELETE", "/tokens/x", "", 404)
	// files
	act("POST", "/identify?name=hello.pdb", string(w.oursPDB.body), 200)
	act("POST", "/identify?name=a.dmp", string(dump), 200)
	act("POST", "/identify?name=a.dmp&missing=csv", string(dump), 200)
	act("POST", "/identify?name=a.dmp&missing=manifest", string(dump), 200)
	act("POST", "/identify?name=a.txt", "no symbol file", 422)
	act("POST", "/stack?name=a.dmp", string(dump), 200)
	act("POST", "/stack?name=a.dmp", "no dump", 422)
	act("POST", "/stack", string(dump), 400)
	act("POST", "/stack?name=a.dmp", `{"name":"a.dmp","size":11317,"round":1,"slices":[{"at":0,"len":64}]}`+"\n"+string(dump[:64]), 202, "Content-Type: application/x-symdepot-slices")
	act("POST", "/identify?name=hello.pdb&only=need", string(w.oursPDB.body), 200)
	slices := `{"name":"hello.pdb","size":` + fmt.Sprint(len(w.oursPDB.body)) + `,"round":1,"slices":[{"at":0,"len":64}]}` + "\n" + string(w.oursPDB.body[:64])
	act("POST", "/identify", slices, 202, "Content-Type: application/x-symdepot-slices")
	act("POST", "/match", `{"files":[{"name":"hello-x64.pdb","id":"F9EFE0B6AE7500394C4C44205044422E1"},{"name":"none.pdb","id":"`+bigID+`"},{"name":"none.pdb","id":"x"}]}`, 200)
	act("POST", "/match", `{"files":[]}`, 400)
	// traces
	act("POST", "/trace/log", "SYMSRV:  HTTPGET: /download/symbols/none.pdb/"+bigID+"/none.pdb\n", 200)
	act("POST", "/trace/ask", `{"name":"none.pdb","id":"`+bigID+`"}`, 200)
	act("POST", "/trace/ask", `{"path":""}`, 400)
	// a push
	st := decoded[wire.PushState](t, act("POST", "/push/stages", `{"product":"ours","version":"3","key":"k"}`, 201), 201)
	act("POST", "/push/stages", `{"product":"ours","version":"3","key":"k"}`, 200)
	act("GET", "/push/stages/"+st.ID, "", 200)
	act("POST", "/push/stages/"+st.ID+"/check", `[{"path":"a.sym","size":`+fmt.Sprint(len(content))+`,"sha256":"`+ref+`"}]`, 200)
	act("POST", "/push/stages/"+st.ID+"/commit", `{"files":1}`, 409)
	act("GET", "/push/stages/"+st.ID+"/blocks/"+w.sha, "", 200)
	act("PUT", "/push/stages/"+st.ID+"/contents/"+ref, "other bytes", 422, digest)
	list := fmt.Sprintf("%s %d\n\n", ref, len(content))
	act("PUT", "/push/stages/"+st.ID+"/contents", string(content), 400)
	act("PUT", "/push/stages/"+st.ID+"/contents", list+string(content)+"more", 400)
	act("PUT", "/push/stages/"+st.ID+"/contents/"+ref+"/parts/0", string(content), 204, digest, "Upload-Length: "+fmt.Sprint(len(content)))
	act("PUT", "/push/stages/"+st.ID+"/contents", list+string(content), 200)
	act("GET", "/push/stages/"+st.ID+"/contents/"+ref+"/parts", "", 200)
	act("PUT", "/push/stages/"+st.ID+"/contents/"+ref, string(content), 200, digest)
	pushed := decoded[wire.PushCommitted](t, act("POST", "/push/stages/"+st.ID+"/commit", `{"files":1}`, 200), 200)
	st = decoded[wire.PushState](t, act("POST", "/push/stages", `{"product":"ours","version":"4"}`, 201), 201)
	act("DELETE", "/push/stages/"+st.ID, "", 204)
	act("POST", "/coverage", `{"files":[{"kind":"pe","name":"hello.exe","debug_id":"`+bigID+`"}]}`, 200)
	act("POST", "/coverage", `{"fils":[]}`, 400)
	act("PUT", fmt.Sprintf("/builds/%d/coverage", pushed.Transaction), `{"files":2,"covered":1,"require":["symbols"]}`, 200)
	act("PUT", "/builds/999/coverage", `{"files":2,"covered":1,"require":["symbols"]}`, 404)
	w.actTransactions(t, act, fmt.Sprint(pushed.Transaction))
	// the server
	job := fmt.Sprint(w.job)
	act("POST", "/jobs/"+job+"/cancel", "", 200)
	act("POST", "/jobs/"+job+"/cancel", "", 409)
	act("POST", "/jobs/"+job+"/retry", "", 200)
	act("POST", "/upstreams/reset", `{"name":"far"}`, 200)
	act("POST", "/upstreams/reset", `{"name":"x"}`, 404)
	act("POST", "/upstreams/probe", `{"name":"far"}`, 200)
	act("DELETE", "/memory?source=far", "", 200)
	act("DELETE", "/memory?sorce=far", "", 400)
	// Other tests have an id token, a browser that is signed in, and dumps that are kept (TestKeptDumps).
	for _, other := range []string{"POST /token", "DELETE /signins/{id}", "DELETE /crashes/{id}", "POST /crashes/{id}/stack"} {
		done[other] = true
	}
	for _, op := range d.Operations {
		if op.Method != http.MethodGet && !done[op.Method+" "+op.Path] {
			t.Errorf("the test has no request for %s %s", op.Method, op.Path)
		}
	}
}

// actTransactions changes a transaction, and what is kept.
func (w *apiWorld) actTransactions(t *testing.T, act func(method, path, body string, status int, headers ...string) reply, number string) {
	t.Helper()
	act("PATCH", "/builds/"+number, `{"class":"release","hold":{"reason":"1.2 GA","until":"2999-12-31"},"comment":"a comment"}`, 200)
	act("GET", "/builds/"+number, "", 200)
	act("DELETE", "/builds/"+number, "", 409)
	act("POST", "/builds/"+number+"/undo", "", 409)
	act("PATCH", "/builds/"+number, `{"unhold":""}`, 200)
	act("PATCH", "/builds/"+number, `{}`, 400)
	plan := decoded[display.RemovePlan](t, act("POST", "/plans", `{"kind":"remove","build":`+number+`}`, 201), 201)
	act("DELETE", "/builds/"+number+"?plan=00000000", "", 409)
	act("DELETE", "/builds/"+number+"?plan="+plan.Plan, "", 200)
	act("GET", "/builds/"+number, "", 200)
	act("POST", "/builds/"+number+"/undo", "", 200)
	act("DELETE", "/builds/"+number+"?purge=true&reason=a+key", "", 200)
	for _, body := range []string{"", `{"kind":"gc","grace":0}`} {
		p := decoded[struct{ Plan string }](t, act("POST", "/plans", body, 201), 201)
		act("GET", "/plans/"+p.Plan, "", 200)
		act("POST", "/plans/"+p.Plan+"/apply", "", 200)
	}
	act("GET", "/retention/runs", "", 200)
	act("POST", "/plans", `{"kind":"x"}`, 400)
	act("PUT", "/retention/rules", apiPolicy, 412, `If-Match: "99"`)
	act("PUT", "/retention/rules", "retention: 7", 400, "If-Match: *")
	act("PUT", "/retention/rules", apiPolicy, 200, "If-Match: *")
}

// TestAPIEvents: the stream of events begins with all that it tells of.
func TestAPIEvents(t *testing.T) {
	w := newAPIWorld(t, demand)
	srv := httptest.NewServer(w.s)
	defer srv.Close()
	d, err := described()
	if err != nil {
		t.Fatal(err)
	}
	if head := ask(w.s, "HEAD", apitest.Base+"/events?topics=jobs", bearer(w.admin)); head.status != 200 {
		t.Errorf("HEAD: status %d, want 200 and an end", head.status)
	}
	client := &http.Client{Transport: d.Watch(t, http.DefaultTransport), Timeout: time.Minute}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+apitest.Base+"/events?topics=jobs,upstreams", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Symdepot-Token", w.admin)
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			if !strings.Contains(data, fmt.Sprintf(`"job:%d"`, w.job)) || !strings.Contains(data, `"upstream:far"`) {
				t.Errorf("the first event is %s, want the jobs and the upstreams", data)
			}
			return
		}
	}
	t.Error("the stream has no event")
}
