package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/internal/serve/web/webtest"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
)

// testFile is a file of the repository's test data that a test adds.
type testFile struct {
	*bytes.Reader
	body []byte
}

func (f testFile) Size() int64   { return int64(len(f.body)) }
func (f testFile) Changed() bool { return false }

func readTestFile(t *testing.T, name string) testFile {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../../../../testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return testFile{bytes.NewReader(b), b}
}

// addVersion adds files of the test data.
func addVersion(t *testing.T, d *depot.Depot, product, version string, names ...string) {
	t.Helper()
	tx, err := d.Begin(t.Context(), depot.TxInfo{Product: product, Version: version})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	for _, name := range names {
		if _, err := tx.Add(t.Context(), depot.Source{Path: name, Content: readTestFile(t, name)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// serveDepot serves the API of a depot to a client.
func serveDepot(t *testing.T, d *depot.Depot, who *web.Principal) func(path string, header ...string) (*http.Response, string) {
	t.Helper()
	a := New(webtest.ActsOf(d))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		segs := strings.Split(strings.Trim(r.URL.EscapedPath(), "/"), "/")
		_ = a.Serve(w, &web.Request{Request: r, Segments: segs, Principal: *who, Body: r.Body, Allow: func(time.Duration) {}, Leave: func() {}, Challenges: []string{"Bearer"}})
	}))
	t.Cleanup(srv.Close)
	return func(path string, header ...string) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+wire.APIPath+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		return symtest.Do(t, watched(t, srv.Client()).Do, req)
	}
}

// items returns the text of a member of each item of a list, page by page.
func items(t *testing.T, ask func(path string, header ...string) (*http.Response, string), path, member string) (list []string) {
	t.Helper()
	for range 20 {
		resp, body := ask(path)
		var page struct {
			Items []map[string]any
			Next  string
		}
		if err := json.Unmarshal([]byte(body), &page); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: status %d, body %s, %v; want a list", path, resp.StatusCode, body, err)
		}
		for _, x := range page.Items {
			list = append(list, fmt.Sprint(x[member]))
		}
		link, _, _ := strings.Cut(strings.TrimPrefix(resp.Header.Get("Link"), "<"), ">")
		if page.Next == "" {
			if link != "" {
				t.Errorf("%s: the last page has a link to %s", path, link)
			}
			return list
		}
		if !strings.Contains(link, url.QueryEscape(page.Next)) {
			t.Errorf("%s: next %s, link %s; want one place", path, page.Next, link)
		}
		path = strings.TrimPrefix(link, wire.APIPath)
	}
	t.Fatalf("%s does not end", path)
	return nil
}

func catalogDepot(t *testing.T) *depot.Depot {
	t.Helper()
	d, err := depot.Open(t.Context(), filepath.Join(t.TempDir(), "depot"), depot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	addVersion(t, d, "Game", "1", "pdb/hello-x64.exe", "pdb/hello-x64.pdb")
	addVersion(t, d, "Game", "2", "pdb/hello-x86.exe", "pdb/hello-x64.pdb")
	addVersion(t, d, "Tool", "1", "pdb/hello-x64.pdb", "elf/prog-sha1.debug")
	addVersion(t, d, "", "0", "pdb/hello-arm64.pdb")
	return d
}

// TestCatalogAPI: lists join to what the client may see, whatever the size of their
// pages.
func TestCatalogAPI(t *testing.T) {
	t.Parallel()
	d := catalogDepot(t)
	sha := blob.Sum(readTestFile(t, "pdb/hello-x64.pdb").body).String()
	everyone := &web.Principal{Name: "all", Rights: auth.Rights{Admitted: true, All: true}}
	guest := &web.Principal{Name: "guest", Rights: auth.Rights{Admitted: true, Products: []string{"Tool"}}}
	for _, tt := range []struct {
		who          *web.Principal
		path, member string
		want         []string
	}{
		{everyone, "/files?", "name", []string{"hello-arm64.pdb", "hello-x64.exe", "hello-x64.pdb", "hello-x86.exe", "prog-sha1.debug"}},
		{everyone, "/files?q=*x64*", "kind", []string{"pe", "pdb"}},
		{everyone, "/files?q=F9EFE0B6AE7500394C4C44205044422E1", "sha256", []string{blob.Sum(readTestFile(t, "pdb/hello-x64.exe").body).String(), sha}},
		{everyone, "/files?kind=pdb&sort=added", "product", []string{"", "Tool"}},
		{everyone, "/files?product=", "name", []string{"hello-arm64.pdb"}},
		{everyone, "/files?product=Game&sort=size", "name", []string{"hello-x64.pdb", "hello-x86.exe", "hello-x64.exe"}},
		{everyone, "/files?has=private&arch=arm64", "name", []string{"hello-arm64.pdb"}},
		{everyone, "/files?origin=fetched", "name", nil},
		{everyone, "/files?since=2999-01-01", "name", nil},
		{guest, "/files?", "name", []string{"hello-x64.pdb", "prog-sha1.debug"}},
		{guest, "/files?product=Game", "name", nil},
		{everyone, "/files/" + sha + "/holders?", "build", []string{"3", "2", "1"}},
		{guest, "/files/" + sha + "/holders?", "build", []string{"3"}},
		{everyone, "/products?sort=newest", "product", []string{"", "Tool", "Game"}},
		{guest, "/products?", "product", []string{"Tool"}},
		{everyone, "/versions?product=Game", "version", []string{"1", "2"}},
		{everyone, "/versions?product=Game&sort=newest&prefix=2", "builds", []string{"1"}},
		{guest, "/versions?product=Game", "version", nil},
		{everyone, "/versions/files?product=Game&version=1", "name", []string{"hello-x64.exe", "hello-x64.pdb"}},
		{everyone, "/versions/diff?product=Game&here=1&there=2", "name", []string{"hello-x64.exe", "hello-x86.exe"}},
		{guest, "/versions/diff?product=Game&here=1&there=2", "name", nil},
		{everyone, "/builds/1/files?", "path", []string{"pdb/hello-x64.exe", "pdb/hello-x64.pdb"}},
		{everyone, "/builds/1/files?kind=pdb&sort=size", "path", []string{"pdb/hello-x64.pdb"}},
		{everyone, "/builds?product=", "build", []string{"4"}},
		{everyone, "/builds?since=2000-01-01T00:00:00Z", "build", []string{"4", "3", "2", "1"}},
	} {
		ask := serveDepot(t, d, tt.who)
		for _, limit := range []string{"limit=1", "limit=100"} {
			sep := "&"
			if strings.HasSuffix(tt.path, "?") {
				sep = ""
			}
			if got := items(t, ask, tt.path+sep+limit, tt.member); !slices.Equal(got, tt.want) {
				t.Errorf("%s for %s: %q, want %q", tt.path+sep+limit, tt.who.Name, got, tt.want)
			}
		}
	}
	if _, body := serveDepot(t, d, everyone)("/files?q=" + sha); !strings.HasPrefix(body, `{"read_as":"content","items":[{`) {
		t.Errorf("objects with a content: %s, want read_as content", body)
	}
	resp, body := serveDepot(t, d, everyone)("/files/" + strings.ToUpper(sha))
	for _, part := range []string{`"sha256":"` + sha, `"more_holders"`, `"layout"`, `"hello-x64.pdb/F9EFE0B6AE7500394C4C44205044422E1/hello-x64.pdb"`, `"role":"executable"`, `"holders":[{"build":3`} {
		if is := strings.Contains(body, part); is == (part == `"more_holders"` || part == `"layout"`) || resp.StatusCode != http.StatusOK {
			t.Errorf("the entry: status %d, %s in it: %v; body %s", resp.StatusCode, part, is, body)
		}
	}
	if got := items(t, serveDepot(t, d, guest), "/files/"+sha+"/paths", "layout"); !slices.Contains(got, "symstore") || !slices.IsSorted(got) {
		t.Errorf("layouts of the paths: %q, want symstore among them, in order", got)
	}
	if got := items(t, serveDepot(t, d, guest), "/files/"+sha+"/forms", "name"); len(got) > 0 {
		t.Errorf("forms: %q, want none", got)
	}
}

// TestCatalogAPIRefusals: wrong requests are refused, and what a client may not see does
// not exist.
func TestCatalogAPIRefusals(t *testing.T) {
	t.Parallel()
	d := catalogDepot(t)
	sha := blob.Sum(readTestFile(t, "pdb/hello-x64.pdb").body).String()
	hidden := blob.Sum(readTestFile(t, "pdb/hello-x64.exe").body).String()
	guest := &web.Principal{Name: "guest", Rights: auth.Rights{Admitted: true, Products: []string{"Tool"}}}
	ask := serveDepot(t, d, guest)
	_, body := ask("/files?limit=1")
	var page struct{ Next string }
	if err := json.Unmarshal([]byte(body), &page); err != nil || page.Next == "" {
		t.Fatalf("body %s, %v; want a page with another one", body, err)
	}
	for path, want := range map[string]string{
		"/files?color=red": "query", "/files?kind=tree": "query", "/files?sort=color": "query", "/files?since=yesterday": "query", "/files?origin=moon": "query", "/files?limit=0": "query", "/files?has=a%20b": "query",
		"/files?cursor=x": "cursor", "/files?kind=pdb&limit=1&cursor=" + page.Next: "cursor", "/products?cursor=" + page.Next: "cursor", "/files?cursor=" + page.Next + "AA": "cursor",
		"/files/" + sha[:10]: "not-found", "/files/" + hidden: "not-found", "/files/" + hidden + "/holders": "not-found", "/files/" + hidden + "/paths": "not-found", "/files/" + strings.Repeat("0", 64) + "/forms": "not-found",
		"/versions": "query", "/versions?product=Tool&sort=name": "query", "/versions/diff": "query", "/versions/files?version=1": "query", "/builds/1/files": "not-found", "/builds/99/files": "not-found", "/builds/3/files?sort=color": "query",
		"/builds?since=x": "query",
	} {
		if resp, body := ask(path); !strings.Contains(body, "problem:"+want+`"`) {
			t.Errorf("%s: status %d, body %s; want the problem %s", path, resp.StatusCode, body, want)
		}
	}
	nobody := &web.Principal{Anonymous: true}
	for _, path := range []string{"/files", "/files/" + sha, "/products", "/versions?product=Tool", "/builds/3/files"} {
		if resp, body := serveDepot(t, d, nobody)(path); resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s without credentials: status %d, body %s; want 401", path, resp.StatusCode, body)
		}
	}
}

// TestMissesAPI: missing files in pages, as CSV and as lines of JSON, which end with a
// line that says so.
func TestMissesAPI(t *testing.T) {
	t.Parallel()
	d := catalogDepot(t)
	for i, client := range []string{"windbg", "windbg", "gdb"} {
		req, err := layout.Route([]string{fmt.Sprintf("lost%d.pdb", i), fmt.Sprintf("%032X1", i+1), fmt.Sprintf("lost%d.pdb", i)})
		if err != nil {
			t.Fatal(err)
		}
		for range i + 1 {
			d.CountMissing(&req, client)
		}
	}
	dir := d.Name()
	if err := d.Close(); err != nil { // stores the counts
		t.Fatal(err)
	}
	d, err := depot.Open(t.Context(), dir, depot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	everyone := &web.Principal{Name: "all", Rights: auth.Rights{Admitted: true, All: true}}
	ask := serveDepot(t, d, everyone)
	for path, want := range map[string][]string{
		"/missing?limit=1": {"lost2.pdb", "lost1.pdb", "lost0.pdb"}, "/missing?limit=1&sort=last": {"lost2.pdb", "lost1.pdb", "lost0.pdb"}, "/missing?client=windbg": {"lost1.pdb", "lost0.pdb"}, "/missing?name=LOST0*": {"lost0.pdb"},
		"/missing?since=2999-01-01": nil,
	} {
		got := items(t, ask, path, "name")
		if strings.Contains(path, "sort=last") {
			slices.Sort(got) // all at one time
			slices.Reverse(got)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	for _, form := range []struct{ accept, query, kind, first, last string }{
		{"", "?format=csv", "text/csv", "count,name,id,client,first,last\n3,lost2.pdb,", ",windbg,"},
		{"text/csv;q=1, application/json", "?", "text/csv", "count,", ",windbg,"},
		{"application/x-ndjson", "?client=gdb", "application/x-ndjson", `{"name":"lost2.pdb","id":"`, "\n{\"end\":true}\n"},
		{"text/csv", "?format=ndjson&name=nothing", "application/x-ndjson", "{\"end\":true}\n", ""},
	} {
		resp, body := ask("/missing"+form.query, "Accept", form.accept)
		if !strings.HasPrefix(resp.Header.Get("Content-Type"), form.kind) || !strings.HasPrefix(body, form.first) || !strings.Contains(body, form.last) {
			t.Errorf("%+v: type %s, body %s", form, resp.Header.Get("Content-Type"), body)
		}
	}
	for path, want := range map[string]string{"/missing?format=xml": "query", "/missing?format=csv&limit=1": "query", "/missing?sort=name": "query", "/missing?cursor=x": "cursor"} {
		if _, body := ask(path); !strings.Contains(body, "problem:"+want+`"`) {
			t.Errorf("%s: body %s, want the problem %s", path, body, want)
		}
	}
	guest := &web.Principal{Name: "guest", Rights: auth.Rights{Admitted: true, Products: []string{"Tool"}}}
	if resp, _ := serveDepot(t, d, guest)("/missing"); resp.StatusCode != http.StatusForbidden {
		t.Errorf("misses for a reader of one product: status %d, want 403", resp.StatusCode)
	}
}
