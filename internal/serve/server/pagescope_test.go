package server

import (
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/internal/serve/web/apitest"
)

// scopeWorld is a server whose depot holds a product "ours" and perhaps, added later, a
// product "theirs". All clocks stand still.
func scopeWorld(t *testing.T, theirs bool) (*Server, string) {
	t.Helper()
	now := func() time.Time { return time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC) }
	d := openDepot(t, depot.Options{Now: now})
	add := func(product string, names ...string) {
		for _, name := range names {
			b, err := os.ReadFile(filepath.Join("../../../testdata", name))
			if err != nil {
				t.Fatal(err)
			}
			addAs(t, d, product, filepath.Base(name), b)
		}
	}
	add("ours", "pdb/hello-x64.pdb", "pdb/hello-x64.exe", "elf/prog-sha1.debug")
	if theirs {
		add("theirs", "pdb/hello-x86.pdb", "pdb/hello-x86.exe", "elf/e-arm64", "pdb/hello-x64.exe")
	}
	store := &tokenStore{rows: map[[32]byte]auth.TokenRow{}}
	token := store.add(t, "reader", []string{"ours"}, "read")
	gate, err := auth.New(auth.Config{Policy: demand, Now: time.Now}, store, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = gate.Close() })
	a, p := webOf(d, web.Config{Tracing: web.Tracing{Gate: gate}, Makes: true, Now: now, Version: "v1"})
	return newServer(t, Config{Depot: d, Gate: gate, API: a, Pages: p}), token
}

// TestPagesKeepScope: who reads one product gets the same bytes, on every page and from
// every address of the API, whether or not the depot holds another product too.
func TestPagesKeepScope(t *testing.T) {
	with, tokenWith := scopeWorld(t, true)
	without, tokenWithout := scopeWorld(t, false)
	const theirsPDB = "/hello-x86.pdb/A822F3E889973BA54C4C44205044422E1/hello-x86.pdb"
	object := regexp.MustCompile(`/-/file/[0-9a-f]{64}`)
	var theirObject string
	for _, m := range object.FindAllString(askAll(t, with, "hello-x86.pdb"), -1) {
		theirObject = m
	}
	if theirObject == "" {
		t.Fatal("the page of their file is not there for its own reader, want it")
	}
	paths := []string{
		"/", "/-/search", "/-/search?q=*", "/-/search?q=hello*&sort=size", "/-/search?q=hello-x86.pdb", "/-/search?q=" + url.QueryEscape(theirsPDB), "/-/products", "/-/product?p=ours", "/-/product?p=theirs",
		"/-/version?p=ours&v=1.0", "/-/version?p=ours&v=1.0&with=2", "/-/version?p=theirs&v=1.0", "/-/builds", "/-/builds?removed=true", "/-/builds?product=theirs", "/-/builds?who=theirs", "/-/nope", "/nothing", "/-/builds/1", "/-/builds/4", "/-/builds/5", "/-/builds/99",
		"/-/disk", "/-/connect", "/-/trace", "/-/trace?path=" + url.QueryEscape(theirsPDB), "/-/trace?name=hello-x86.pdb&id=1", theirObject, theirObject + "/sources", theirObject + "/source?path=/tmp/hello/hello.c", theirObject + "/functions?q=sum", "/-/symbolicate?name=hello-x86.pdb", "/-/identify",
		"/-/missing", "/-/jobs", "/-/upstreams", "/-/retention", "/-/about", "/-/docs", "/-/docs?q=theirs", "/-/docs/retention", "/metrics", "/missing.csv",
		"/-/api/v1/files", "/-/api/v1/files?q=hello*", "/-/api/v1/files?product=theirs", strings.Replace(theirObject, "/-/file/", "/-/api/v1/files/", 1), strings.Replace(theirObject, "/-/file/", "/-/api/v1/files/", 1) + "/sources", "/-/api/v1/products", "/-/api/v1/versions?product=theirs",
		"/-/api/v1/versions?product=ours", "/-/api/v1/builds", "/-/api/v1/builds/4", "/-/api/v1/builds/4/files", "/-/api/v1/trace?path=" + url.QueryEscape(theirsPDB), "/-/api/v1/missing", "/-/api/v1/disk",
		"/-/api/v1/disk?product=theirs", "/-/api/v1/stats", "/-/api/v1/jobs", "/-/api/v1/about",
		theirsPDB,
		"/-/file/get?path=" + url.QueryEscape(theirsPDB), "/-/builds/4/remove", "/-/jobs/1", "/-/retention/00000000", "/-/publish", "/-/tokens/x/revoke", "/-/audit", "/-/prefs", "/-/events?topics=jobs",
		"/-/api/v1/versions/diff?product=theirs&here=1.0&there=2", "/-/api/v1/versions/files?product=theirs&version=1.0", "/-/api/v1/versions/files?product=ours&version=1.0",
	}
	// Every address of the API that is read, with their things in the places of parameters.
	d, err := described()
	if err != nil {
		t.Fatal(err)
	}
	places := strings.NewReplacer("{sha256}", strings.TrimPrefix(theirObject, "/-/file/"), "{number}", "4", "{job}", "1", "{plan}", "00000000", "{id}", "x", "{stage}", "x", "{part}", "0")
	for i := range d.Operations {
		if op := &d.Operations[i]; op.Method == http.MethodGet {
			path := apitest.Base + places.Replace(op.Path)
			if strings.Contains(path, "{") {
				t.Fatalf("the test has no value for a parameter of %s", op.Path)
			}
			paths = append(paths, path)
		}
	}
	bodies := map[string]string{
		"/-/api/v1/match":     `{"files":[{"name":"hello-x86.pdb","id":"A822F3E889973BA54C4C44205044422E1"},{"name":"hello-x86.exe","id":"x"}]}`,
		"/-/api/v1/trace/ask": `{"path":"` + theirsPDB + `"}`, "/-/api/v1/trace/log": theirsPDB + "\n",
		"/-/api/v1/identify?name=hello-x86.pdb": theirFile(t, "pdb/hello-x86.pdb"), "/-/api/v1/identify?name=hello-x64.exe": theirFile(t, "pdb/hello-x64.exe"),
		"/-/symbolicate": "stack=" + url.QueryEscape("hello-x86.pdb+0x1000\nhello-x86+0x1000\nhello-x86.pdb/A822F3E889973BA54C4C44205044422E1+0x1000"),
		"/-/trace":       "log=" + url.QueryEscape(theirsPDB), "/-/trace/ask": "path=" + url.QueryEscape(theirsPDB), "/-/builds/4/hold": "reason=x", "/-/retention/preview": "x=1", "/-/upstreams": "name=x&act=reset", "/-/jobs/1/cancel": "x=1",
		"/-/api/v1/builds/4/undo": "{}", "/-/api/v1/plans": `{"kind":"remove","build":4}`, "/-/api/v1/jobs/1/cancel": "{}", "/-/api/v1/upstreams/probe": `{"name":"x"}`,
	}
	paths = append(paths, slices.Sorted(maps.Keys(bodies))...)
	request := regexp.MustCompile(`("request":"|request <code>|"token_id":")[0-9a-z]{12}`)
	for _, p := range paths {
		for _, accept := range []string{browser, "Accept: application/json"} {
			method, body := "GET", bodies[p]
			if body != "" {
				method = "POST"
			}
			a, b := askBody(with, method, p, body, bearer(tokenWith), accept), askBody(without, method, p, body, bearer(tokenWithout), accept)
			a.body, b.body = request.ReplaceAllString(a.body, ""), request.ReplaceAllString(b.body, "")
			for _, h := range []string{"Date", "Content-Length"} {
				a.header.Del(h)
				b.header.Del(h)
			}
			if a.status != b.status || a.body != b.body {
				t.Errorf("%s %s: with another product %d, without it %d, want equal answers\n%s\n%s", method, p, a.status, b.status, differ(a.body, b.body), differ(b.body, a.body))
			}
			for name, values := range a.header {
				if got := strings.Join(b.header[name], ","); name != "Location" && got != strings.Join(values, ",") {
					t.Errorf("%s %s: the field %s is %q with another product, %q without, want them equal", method, p, name, values, got)
				}
			}
		}
	}
}

// theirFile is a file of the test data.
func theirFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../../../testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// differ returns a piece of a around its first difference from b.
func differ(a, b string) string {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	return a[max(0, i-80):min(len(a), i+200)]
}

// askAll is a search by who reads everything.
func askAll(t *testing.T, s *Server, q string) string {
	t.Helper()
	open := newServer(t, Config{Depot: s.depot, API: s.cfg.API, Pages: s.cfg.Pages})
	return ask(open, "GET", "/-/search?q="+url.QueryEscape(q), browser).body
}
