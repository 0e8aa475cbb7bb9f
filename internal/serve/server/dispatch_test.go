package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/symdepot/symdepot/internal/base/account"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/home"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/layout"
)

func TestOwnPaths(t *testing.T) {
	w := newWorld(t, Config{})
	two := newServer(t, Config{Depot: w.d, TwoTier: true, Prefixes: []string{"/corp/symbols/"}})
	c := dial(t, listen(t, w.s))
	const text = "text/plain; charset=utf-8"
	for _, tt := range []struct {
		path   string
		status int
		ctype  string
		body   string
	}{
		{"/healthz", 200, text, "ok\n"},
		{"/readyz", 200, text, "ready\n"},
		{"/pingme.txt", 200, text, ""},
		{"/download/symbols/pingme.txt", 200, text, ""},
		{"/index2.txt", 404, text, "not found\n"},
		{"/symbols/index2.txt", 404, text, "not found\n"},
		{"/robots.txt", 200, text, "User-agent: *\nDisallow: /\n"},
		{"/favicon.ico", 200, "image/svg+xml", favicon},
		{"/", 200, text, web.StartText("http://localhost", false)},
		{"//", 200, text, web.StartText("http://localhost", false)},
		{"/symbols/", 200, text, web.StartText("http://localhost/symbols", false)},
		{"/metrics/x", 404, text, "not found\n"},
		{"/HEALTHZ", 404, text, "not found\n"},
		{"/anything", 404, text, "not found\n"},
		{"/index.html", 404, text, "not found\n"},
		{"/symbols/anything", 404, text, "not found\n"},
		{"/.git/config", 404, text, "not found\n"},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			r := c.do(method, tt.path)
			if r.status != tt.status || r.header.Get("Content-Type") != tt.ctype || r.header.Get("Content-Length") != itoa(int64(len(tt.body))) {
				t.Errorf("%s %s: status %d, type %q, length %q; want %d, %q and %d", method, tt.path, r.status, r.header.Get("Content-Type"), r.header.Get("Content-Length"), tt.status, tt.ctype, len(tt.body))
			}
			if method == "GET" && r.body != tt.body {
				t.Errorf("GET %s: body %q, want %q", tt.path, r.body, tt.body)
			}
			if r.header.Get("Access-Control-Allow-Origin") != "" && builtIn[strings.Trim(tt.path, "/")] {
				t.Errorf("%s may be read from other sites, want this server's page kept from them", tt.path)
			}
		}
	}
	for _, p := range []string{"/index2.txt", "/symbols/index2.txt", "/corp/symbols/index2.txt", "/CORP/Symbols/index2.txt"} {
		if r := ask(two, "GET", p); r.status != 200 || r.body != "" || r.header.Get("Content-Type") != text {
			t.Errorf("%s with two tiers: %d %q; want 200, plain text and no body", p, r.status, r.body)
		}
	}
	if r := ask(two, "GET", "/corp/symbols"+w.pdb.path(t, layout.SymStore)); r.status != 200 {
		t.Errorf("under a configured prefix: %d, want 200", r.status)
	}
}

func TestNotReady(t *testing.T) {
	s := newServer(t, Config{Depot: newDepot(t)})
	s.routes.own.handler.(*ownPaths).ready = func(context.Context) error { return errors.New("the disk is gone") }
	if r := ask(s, "GET", "/readyz"); r.status != 503 || r.header.Get("Retry-After") == "" {
		t.Errorf(`ask("GET", "/readyz"): %d, want 503, r.header.Get("Retry-After") not ""`, r.status)
	}
	if r := ask(s, "GET", "/healthz"); r.status != 200 {
		t.Errorf("healthz: %d, want 200", r.status)
	}
}

// TestReadyWithoutStore: a server whose object store is away still answers lookups and
// serves its local cache, so a balancer keeps it.
func TestReadyWithoutStore(t *testing.T) {
	s := newServer(t, Config{Depot: newDepot(t)})
	s.routes.own.handler.(*ownPaths).ready = func(context.Context) error { return fmt.Errorf("bucket: %w", content.ErrUnavailable) }
	if r := ask(s, "GET", "/readyz"); r.status != 200 || !strings.Contains(r.body, "object store") {
		t.Errorf("readyz: %d %q, want 200 and the reason", r.status, r.body)
	}
}

// TestNotReadyDenied: a server that may not read files of its depot is not ready. It names them, not
// where the depot is.
func TestNotReadyDenied(t *testing.T) {
	s := newServer(t, Config{Depot: newDepot(t)})
	s.routes.own.handler.(*ownPaths).ready = func(context.Context) error {
		return fmt.Errorf("%w: %w", content.ErrUnavailable, &account.DeniedError{Root: "/srv/depot/blobs", Path: "/srv/depot/blobs/28", What: "it is root's"})
	}
	r := ask(s, "GET", "/readyz")
	if r.status != 503 || r.header.Get("Retry-After") == "" || !strings.Contains(r.body, "blobs/28 may not be used: it is root's") || strings.Contains(r.body, "/srv") {
		t.Errorf("readyz: %d %q, want 503, the folder below the depot, and why", r.status, r.body)
	}
}

// TestMethods: other methods than GET and HEAD return no file and read no body,
// and a preflight is answered for symbol paths only.
func TestMethods(t *testing.T) {
	w := newWorld(t, Config{})
	addr := listen(t, w.s)
	path := w.pdb.path(t, layout.SymStore)
	for _, m := range []string{"POST", "PUT", "DELETE", "PATCH", "TRACE", "PROPFIND", "get", "QUERY"} {
		if r := dial(t, addr).do(m, path); r.status != 405 || r.header.Get("Allow") != "GET, HEAD, OPTIONS" {
			t.Errorf("%s: %d, Allow %q; want 405 and %q", m, r.status, r.header.Get("Allow"), "GET, HEAD, OPTIONS")
		}
	}
	for _, h := range []string{"Content-Length: 3", "Transfer-Encoding: chunked", "Content-Length: 99999999999"} {
		if r := dial(t, addr).do("GET", path, h); r.status != 413 || r.header.Get("Connection") != "close" {
			t.Errorf("GET with %s: %d, Connection %q; want 413 and %q", h, r.status, r.header.Get("Connection"), "close")
		}
	}
	if r := dial(t, addr).do("GET", path, "Content-Length: 0"); r.status != 200 {
		t.Errorf("GET with an empty body: %d, want 200", r.status)
	}
	c := dial(t, addr)
	if r := c.do("OPTIONS", path); r.status != 204 || r.header.Get("Allow") != "GET, HEAD, OPTIONS" {
		t.Errorf("OPTIONS %s: status %d, Allow %q, want 204", path, r.status, r.header.Get("Allow"))
	}
	for _, p := range []string{"/metadata", "/", "/metrics", "*"} {
		if r := c.do("OPTIONS", p); r.status != 204 || r.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("OPTIONS %s: %d %v; want 204 without CORS headers", p, r.status, r.header)
		}
	}
}

// TestHostileRequests: malformed requests are answered with 404, or 400 if they
// are not HTTP, and the next request succeeds.
func TestHostileRequests(t *testing.T) {
	w := newWorld(t, Config{})
	addr := listen(t, w.s)
	pdb := w.pdb.path(t, layout.SymStore)
	const id = "0102030405060708090A0B0C0D0E0F101"
	for _, tt := range []struct {
		target string
		status int
	}{
		{"/..%2f..%2fetc%2fpasswd/" + id + "/..%2f..%2fetc%2fpasswd", 404},
		{"/../../etc/passwd", 404},
		{"/..%5c..%5cetc/" + id + "/passwd", 404},
		{"/%2e%2e/%2e%2e/%2e%2e", 404},
		{"/buildid/../../etc/passwd", 404},
		{"/buildid/" + string(w.elf.obj.BuildID) + "/section/../../../etc/passwd", 404},
		{"/a%00.pdb/" + id + "/a%00.pdb", 404},
		{"/CON/" + id + "/CON", 404},
		{"/" + strings.Repeat("a", 10000), 404},
		{"/" + strings.Repeat("a", 10000) + "/" + id + "/" + strings.Repeat("a", 10000), 404},
		{"/" + strings.Repeat("a/", 4000) + "b", 404},
		{"/" + strings.Repeat("/", 9000), 404},
		{"/%zz/" + id + "/%zz", 400},
		{"/%", 400},
		{"/a%2", 400},
		{"/\xff\xfe/" + id + "/\xff\xfe", 404},
		{"/%ff%fe/" + id + "/%ff%fe", 404},
		{"/a\"b<c>/" + id + "/a\"b<c>", 404},
		{"/a#b/" + id + "/a#b", 404},
		{"http://localhost" + pdb, 200},
		{"http://LOCALHOST:80" + pdb + "?x", 200},
		{"http://evil.example" + pdb, 404},
		{"//evil.example" + pdb, 404},
		{"relative/path", 400},
		{"*", 404},
		{"/?q=%zz", 200},
		{pdb + "?" + strings.Repeat("q", 20000), 200},
	} {
		if r := dial(t, addr).do("GET", tt.target); r.status != tt.status {
			t.Errorf("GET %.60s: %d, want %d", tt.target, r.status, tt.status)
		} else if strings.Contains(r.header.Get("Content-Type"), "html") || r.header.Get("Location") != "" {
			t.Errorf("GET %.60s: %v; want neither HTML nor a redirect", tt.target, r.header)
		}
	}
	// As much as is read, and no byte more, or the system would drop the answer.
	long := "GET " + pdb + " HTTP/1.1\r\nHost: localhost\r\nX-Long: "
	c := dial(t, addr)
	c.send(long + strings.Repeat("x", 68<<10-len(long)))
	if r := c.reply("GET"); r.status != 431 {
		t.Errorf("a header of 68 KiB: %d, want 431", r.status)
	}
	if r := dial(t, addr).do("GET", pdb); r.status != 200 {
		t.Errorf("afterwards: %d, want 200", r.status)
	}
}

func TestHosts(t *testing.T) {
	w := newWorld(t, Config{Hosts: []string{"symbols.corp.example"}})
	addr := listen(t, w.s)
	path := w.small.path(t, layout.BreakpadTree)
	for host, ok := range map[string]bool{
		"localhost": true, "localhost:1234": true, "LOCALHOST": true, "localhost.": true, "a.localhost:80": true, "127.0.0.1": true,
		"127.9.8.7:8080": true, "[::1]": true, "[::1]:8080": true, "[::ffff:127.0.0.1]:1": true, "symbols.corp.example": true,
		"Symbols.Corp.Example:8080": true, "evil.example": false, "localhost.evil.example": false, "127.0.0.1.evil.example": false,
		"10.0.0.1": false, "[fe80::1]": false, "symbols.corp.example.evil": false, "0.0.0.0": false, "notlocalhost": false,
	} {
		c := dial(t, addr)
		for range 3 {
			c.send("GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n")
			if r := c.reply("GET"); r.status == 200 != ok || !ok && r.status != 404 {
				t.Errorf("Host: %s: %d, want 200 for known hosts and else 404", host, r.status)
			}
		}
	}
	c := dial(t, addr)
	c.send("GET " + path + " HTTP/1.0\r\n\r\n")
	if r := c.reply("GET"); r.status != 200 {
		t.Errorf("HTTP/1.0 without Host: %d, want 200", r.status)
	}
	c = dial(t, addr)
	c.send("GET " + path + " HTTP/1.1\r\n\r\n")
	if r := c.reply("GET"); r.status != 400 {
		t.Errorf("HTTP/1.1 without Host: %d, want 400", r.status)
	}
	c = dial(t, addr) // an allowed name on the way to another one
	for i := range 4 {
		for _, host := range []string{"localhost", "evil.example"} {
			c.send("GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n")
			if r := c.reply("GET"); (r.status == 200) != (host == "localhost") {
				t.Errorf("round %d, Host: %s: %d, want 200 for localhost alone", i, host, r.status)
			}
		}
	}
}

func TestDebuginfodHeaders(t *testing.T) {
	w := newWorld(t, Config{})
	loose := "/buildid/" + string(w.elf.obj.BuildID) + "/executable"
	packed := "/buildid/" + string(w.packaged.obj.BuildID) + "/executable"
	for _, tt := range []struct{ paths, request, file, archive string }{
		{"", loose, "prog-sha1.stripped", ""},
		{"name", packed, "/usr/bin/e-arm64", "e_1.0_arm64.deb"},
		{"full", loose, "/home/someone/build/prog-sha1.stripped", ""},
		{"full", packed, "/usr/bin/e-arm64", "/srv/packages/e_1.0_arm64.deb"},
		{"none", loose, "", ""},
		{"none", packed, "", ""},
	} {
		r := ask(newServer(t, Config{Depot: w.d, Paths: tt.paths}), "GET", tt.request)
		if r.status != 200 || r.header.Get("X-DEBUGINFOD-FILE") != tt.file || r.header.Get("X-DEBUGINFOD-ARCHIVE") != tt.archive ||
			r.header.Get("X-DEBUGINFOD-SIZE") != itoa(int64(len(r.body))) || r.header.Get("Last-Modified") == "" {
			t.Errorf("paths %q, %s: %d %v; want 200 with the path, the size and the time of the file", tt.paths, tt.request, r.status, r.header)
		}
	}
	if base(`C:\build\x\app.exe`) != "app.exe" {
		t.Error("a Windows path is shown whole")
	}
	if _, err := New(Config{Depot: w.d, Paths: "some"}); err == nil {
		t.Error("an unknown choice of paths is taken")
	}
	size := int64(len(w.elf.body))
	for limit, status := range map[string]int{"100": 406, itoa(size - 1): 406, itoa(size): 200, "0": 200, "": 200, "x": 200, "-1": 200} {
		r := ask(w.s, "GET", loose, "X-DEBUGINFOD-MAXSIZE: "+limit)
		if r.status != status || status == 406 && r.body != "File too large, max size="+limit+"\n" {
			t.Errorf("limit %q: %d %q", limit, r.status, r.body[:min(40, len(r.body))])
		}
	}
	if r := ask(w.s, "GET", w.pdb.path(t, layout.SymStore)); r.header.Get("X-DEBUGINFOD-SIZE") != "" {
		t.Error("debuginfod's headers on a PDB")
	}
}

func TestMetadata(t *testing.T) {
	w := newWorld(t, Config{Paths: PathsFull})
	id := string(w.packaged.obj.BuildID)
	get := func(query string) (int, metadataAnswer) {
		t.Helper()
		r := ask(w.s, "GET", "/metadata?"+query)
		var a metadataAnswer
		if r.status == 200 {
			if r.header.Get("Content-Type") != "application/json" || r.header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf(`got %s, %v; want Get("Content-Type") "application/json", Get("Access-Control-Allow-Origin") ""`, query, r.header)
			}
			if err := json.Unmarshal([]byte(r.body), &a); err != nil {
				t.Errorf("json.Unmarshal: %s, error %v; want no error", query, err)
			}
			if !strings.Contains(r.body, `"results":[`) || !strings.Contains(r.body, `"complete":`) {
				t.Errorf("got %s, %s; want one with %q, one with %q", query, r.body, `"results":[`, `"complete":`)
			}
		}
		return r.status, a
	}
	want := metadataResult{"executable", id, "/usr/bin/e-arm64", "/srv/packages/e_1.0_arm64.deb"}
	for _, q := range []string{"key=buildid&value=" + id, "key=file&value=/usr/bin/e-arm64", "key=glob&value=/usr/*/e-*", "key=buildid&value=" + strings.ToUpper(id)} {
		status, a := get(q)
		if status != 200 || !slices.Contains(a.Results, want) || !a.Complete {
			t.Errorf("%s: get: %d, %+v; want 200, Results with %v, Complete true", q, status, a, want)
		}
	}
	if status, a := get("key=file&value=/none"); status != 200 || len(a.Results) != 0 || !a.Complete {
		t.Errorf("an unknown file: %d %+v", status, a)
	}
	_, all := get("key=glob&value=/home/someone/build/prog*")
	var paged []metadataResult
	for i := range len(all.Results) {
		_, a := get("key=glob&value=/home/someone/build/prog*&limit=1&offset=" + itoa(int64(i)))
		if len(a.Results) != 1 || a.Complete != (i == len(all.Results)-1) {
			t.Errorf("page %d: %+v, want one result, and complete only on the last page", i, a)
		}
		paged = append(paged, a.Results...)
	}
	if len(all.Results) < 2 || !slices.Equal(paged, all.Results) {
		t.Errorf("pages %v, want at least two that together are all %v", paged, all.Results)
	}
	for _, q := range []string{"", "key=file", "value=x", "key=source&value=x"} {
		if r := ask(w.s, "GET", "/metadata?"+q); r.status != 404 || !strings.Contains(r.body, "glob") {
			t.Errorf(`%q: ask("GET"): %d, %q; want 404, one with "glob"`, q, r.status, r.body)
		}
	}
	plain := ask(newServer(t, Config{Depot: w.d}), "GET", "/metadata?key=glob&value=/home/*/*/prog*")
	if strings.Contains(plain.body, "someone") {
		t.Errorf("folders of the machine that ran add are told: %s, want no %q in the body", plain.body, "someone")
	}
}

// TestMetadataLimits: searches by pattern are limited in time and number, and
// do not delay requests for files.
func TestMetadataLimits(t *testing.T) {
	t.Run("short globs", func(t *testing.T) {
		g := newGuarded(t, auth.PolicyConfig{Anonymous: []string{"ours"}}, Config{})
		for _, tt := range []struct {
			glob, header string
			status       int
		}{
			{"*", "", 404}, {"*/*/*/ab", "", 404}, {"[!?]*a", "", 404}, {"*abc", "", 200}, {"/usr/bin/*", "", 200},
			{"*", bearer(g.ours), 200}, {"*", bearer(g.all), 200},
		} {
			if r := ask(g.s, "GET", "/metadata?key=glob&value="+url.QueryEscape(tt.glob), tt.header); r.status != tt.status {
				t.Errorf("glob %q with %q: status %d, want %d", tt.glob, auth.Redact(tt.header), r.status, tt.status)
			}
		}
	})
	t.Run("a long search", func(t *testing.T) {
		d := newDepot(t)
		synctest.Test(t, func(t *testing.T) {
			searching := make(chan struct{}, 100)
			s := newServer(t, Config{Depot: d, MaxInFlight: maxSearches, Wait: 20 * time.Second})
			s.routes.own.handler.(*ownPaths).metadata.search = slowSearch(searching)
			answers := make(chan reply, 2*maxSearches)
			start := time.Now()
			for range cap(answers) {
				go func() { answers <- ask(s, "GET", "/metadata?key=glob&value=/usr/*/nope") }()
			}
			synctest.Wait()
			if n := len(searching); n != maxSearches {
				t.Errorf("%d searches at once, want %d", n, maxSearches)
			}
			if r := ask(s, "GET", gonePath); r.status != 404 || time.Since(start) > 0 {
				t.Errorf("a file beside the searches: status %d after %v, want 404 at once", r.status, time.Since(start))
			}
			complete := 0
			for range cap(answers) {
				switch r := <-answers; {
				case r.status == 200 && strings.Contains(r.body, `"complete":false`):
					complete++
				case r.status != 503:
					t.Errorf("status %d, body %q; want 503", r.status, r.body)
				}
			}
			if d := time.Since(start); complete < maxSearches || d > 2*metadataTime {
				t.Errorf("%d searches ended with what they found, all after %v; want at least %d within %v", complete, d, maxSearches, 2*metadataTime)
			}
		})
	})
}

// slowSearch returns a search that takes as long as it may.
func slowSearch(searching chan<- struct{}) func(context.Context, answer.Scope, string, string, int) ([]depot.Metadata, bool, error) {
	return func(ctx context.Context, _ answer.Scope, _, _ string, _ int) ([]depot.Metadata, bool, error) {
		searching <- struct{}{}
		<-ctx.Done()
		return nil, false, nil
	}
}

// TestLastModified: Last-Modified is the file's own time, or the time of adding
// if that is unknown.
func TestLastModified(t *testing.T) {
	d := newDepot(t)
	own := time.Date(2019, 5, 6, 7, 8, 9, 0, time.UTC)
	dated := add(t, d, depot.Source{Path: "dated.sym", ModTime: own}, sym(smallID, "dated.pdb", "", 900))
	undated := add(t, d, depot.Source{Path: "undated.sym"}, sym(bigID, "undated.pdb", "", 900))
	s := newServer(t, Config{Depot: d})
	if got := ask(s, "GET", dated.path(t, layout.BreakpadTree)).header.Get("Last-Modified"); got != own.Format(http.TimeFormat) {
		t.Errorf("Last-Modified of a file of %v is %q, want that time", own, got)
	}
	got, err := http.ParseTime(ask(s, "GET", undated.path(t, layout.BreakpadTree)).header.Get("Last-Modified"))
	if err != nil || time.Since(got).Abs() > time.Hour {
		t.Errorf("Last-Modified of a file without a time: %v, %v; want about now", got, err)
	}
}

// TestFailures: an internal failure is not answered as a miss.
func TestFailures(t *testing.T) {
	d, path := newDepot(t), "/a.pdb/000000000000000000000000000000001/a.pdb"
	for err, want := range map[error]int{
		fs.ErrNotExist: 404, errors.New("disk"): 500, context.DeadlineExceeded: 503, &os.PathError{Op: "open", Err: fs.ErrNotExist}: 404, fs.ErrPermission: 500,
		fmt.Errorf("s3://b: %w", content.ErrUnavailable):     503,
		fmt.Errorf("postgres://h/d: %w", home.ErrNoDatabase): 503, fmt.Errorf("%w: %w", fs.ErrNotExist, home.ErrNoDatabase): 503,
	} {
		s := newFakeServer(t, Config{Depot: d}, func(context.Context, layout.Request) (*answer.File, error) { return nil, err })
		for range 3 {
			r := ask(s, "GET", path)
			if r.status != want || strings.Contains(r.body, "disk") || r.header.Get("Cache-Control") != "no-cache" {
				t.Errorf(`got error %v, %d, %q; want %v, one without "disk", r.header.Get("Cache-Control") "no-cache"`, err, r.status, r.body, want)
			}
			if got := r.header.Get("Retry-After"); (got != "") != (want == 503) {
				t.Errorf("%v: status %d with Retry-After %q; want one with 503 alone", err, r.status, got)
			}
		}
	}
}

// FuzzDispatch: any request gets one of the few statuses that clients can
// handle.
func FuzzDispatch(f *testing.F) {
	for _, s := range []string{"/", "/a.pdb/000000000000000000000000000000001/a.pdb", "/buildid/abcd/debuginfo", "/buildid/abcd/section/.text",
		"/download/symbols/x/ABCDEF0112/x_", "/v3.1.0/a.pdb/00000000000000000000000000000000/1", "/metadata?key=glob&value=/usr/*", "/?q=x",
		"/0123/4567/89AB/CDEF/0123/456789ABCDEF", "/%2e%2e/%2f/%00", "//a//b//", "/symbols/index2.txt", "/a%2Fb%2Fc"} {
		f.Add("GET", s, "text/html", "gzip")
	}
	f.Add("OPTIONS", "*", "", "")
	d := newDepot(f)
	elf := addFile(f, d, "elf/prog-sha1")
	s := newServer(f, Config{Depot: d})
	f.Add("GET", "/buildid/"+string(elf.obj.BuildID)+"/executable", "application/msfz0", "zstd, *;q=0")
	f.Fuzz(func(t *testing.T, method, target, accept, coding string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || method == "" || strings.ContainsAny(method, " \r\n") {
			return
		}
		r := &http.Request{Method: method, URL: u, RequestURI: target, Host: "localhost", Header: http.Header{"Accept": {accept}, "Accept-Encoding": {coding}}}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		switch w.Code {
		case 200, 204, 304, 404, 405:
		default:
			t.Errorf("%s %q: status %d, want 200, 204, 304, 404 or 405", method, target, w.Code)
		}
		if strings.Contains(w.Header().Get("Content-Type"), "html") && !strings.Contains(accept, "text/html") {
			t.Errorf("%s %q: HTML for who did not ask", method, target)
		}
	})
}
