package pages

import (
	"bytes"
	"html"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/needed"
	"github.com/symdepot/symdepot/internal/files/sparse"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/internal/serve/web/webtest"
)

// servePages serves the pages of a depot to a client.
func servePages(t *testing.T, d *depot.Depot, who *web.Principal) func(method, path, kind string, body io.Reader) (*http.Response, string) {
	t.Helper()
	a := New(webtest.ActsOf(d))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		segs := strings.Split(strings.Trim(r.URL.EscapedPath(), "/"), "/")
		_ = a.Serve(w, &web.Request{Request: r, Segments: segs, Principal: *who, Body: r.Body, Allow: func(time.Duration) {}, Leave: func() {}, Challenges: []string{"Bearer"}})
	}))
	t.Cleanup(srv.Close)
	return func(method, path, kind string, body io.Reader) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", kind)
		return symtest.Do(t, srv.Client().Do, req)
	}
}

// formOf returns a form with files; those of the media type of slices are messages.
func formOf(t *testing.T, kind string, files ...string) (contentType string, body *bytes.Buffer) {
	t.Helper()
	body = new(bytes.Buffer)
	w := multipart.NewWriter(body)
	for i := 0; i+1 < len(files); i += 2 {
		part, err := w.CreatePart(textproto.MIMEHeader{"Content-Disposition": {`form-data; name="file"; filename="` + files[i] + `"`}, "Content-Type": {kind}})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(part, files[i+1])
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return w.FormDataContentType(), body
}

// TestIdentifyPage: a form with files shows what they are, and links to what is held.
func TestIdentifyPage(t *testing.T) {
	t.Parallel()
	d := webtest.FilesDepot(t, "pdb/hello-x64.pdb")
	pdb, exe, crash := string(webtest.FileOf(t, "pdb/hello-x64.pdb")), string(webtest.FileOf(t, "pdb/hello-x64.exe")), string(webtest.FileOf(t, "minidump/test_app.dmp"))
	ask := servePages(t, d, &webtest.Insider)
	if resp, text := ask("GET", "/-/identify", "", nil); resp.StatusCode != http.StatusOK || !strings.Contains(text, `enctype="multipart/form-data"`) || !strings.Contains(text, `data-api="/-/api/v1/identify"`) {
		t.Errorf("the form: status %d, %s; want 200 with a form", resp.StatusCode, text)
	}
	kind, form := formOf(t, "application/octet-stream", "hello-x64.pdb", pdb, `C:\build\hello-x64.exe`, exe, "<b>.txt", "some text", "crash.dmp", crash)
	resp, text := ask("POST", "/-/identify", kind, form)
	for _, want := range []string{
		"F9EFE0B6</wbr>", `in the depot</span> <a href="/-/file/66a2935d4d44e9456f509ace413c6f8374d69beccaa590db54d60f50bf9bf38e">`, "the same bytes", `<a href="/-/builds/1">#1</a>`,
		"<bdi>hello-x64.exe</bdi></h2>", "not in the depot", "&lt;b&gt;.txt", "a text file", "13 modules", "13 missing, third-party module", "26 files are missing", "symdepot get crash.dmp",
	} {
		want = strings.ReplaceAll(want, "</wbr>", "<wbr>")
		if resp.StatusCode != http.StatusOK || !strings.Contains(html.UnescapeString(text), html.UnescapeString(want)) {
			t.Errorf("the page: status %d, want 200 with %q", resp.StatusCode, want)
		}
	}
	if strings.Contains(text, "<b>.txt") {
		t.Error("the name of a file became an element, want it escaped")
	}

	modules := regexp.MustCompile(`name="modules" value="([^"]*)"`).FindStringSubmatch(text)
	if modules == nil {
		t.Fatal("the page has no list of missing files")
	}
	for as, want := range map[string]string{"csv": "name,id,part,module,verdict\n", "manifest": "test_app.pdb,5A9832E5287241C1838ED98914E9B7FF1,1\r\n"} {
		list := url.Values{"as": {as}, "modules": {html.UnescapeString(modules[1])}}
		resp, text := ask("POST", "/-/identify/missing", "application/x-www-form-urlencoded", strings.NewReader(list.Encode()))
		if resp.StatusCode != http.StatusOK || !strings.Contains(text, want) || strings.Count(text, "\n") < 26 || !strings.HasPrefix(resp.Header.Get("Content-Disposition"), "attachment") {
			t.Errorf("the list as %s: status %d, %.200s; want 26 files with %q", as, resp.StatusCode, text, want)
		}
	}
}

// TestIdentifyPageParts: what the script sends in place of a file.
func TestIdentifyPageParts(t *testing.T) {
	t.Parallel()
	d := webtest.FilesDepot(t, "pdb/hello-x64.pdb")
	ask := servePages(t, d, &webtest.Insider)
	b := append(webtest.FileOf(t, "pdb/hello-x64.pdb"), make([]byte, 1000)...) // what no parser reads
	message := func(slices ...sparse.Range) string {
		open, _, err := sparse.Message(sparse.Header{Name: "hello-x64.pdb", Size: int64(len(b)), Slices: slices}, bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(open())
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for text, want := range map[string]string{
		message(sparse.Range{At: 0, Len: int64(len(b))}): "other bytes", message(sparse.Range{At: 0, Len: int64(len(b)) - 1000}): "the same ids",
		message(sparse.Range{At: 0, Len: 4096}): "parts of the file are missing",
	} {
		kind, form := formOf(t, sparse.MediaType, "hello-x64.pdb", text)
		if resp, page := ask("POST", "/-/identify", kind, form); resp.StatusCode != http.StatusOK || !strings.Contains(page, want) {
			t.Errorf("a message of %d bytes: status %d, want 200 with %q\n%s", len(text), resp.StatusCode, want, page)
		}
	}
	for i, c := range []struct {
		who    *web.Principal
		kind   string
		files  []string
		status int
		want   string
	}{
		{&webtest.Insider, sparse.MediaType, []string{"a", "no message"}, 400, "no line with a header"},
		{&webtest.Insider, "", nil, 400, "no file was chosen"},
		{&webtest.Insider, "", strings.Split(strings.Repeat("a,b,", 65), ",")[:130], 413, "at most 64 files"},
		{&webtest.NoOne, "", []string{"a", "b"}, 401, "signed in"},
	} {
		kind, form := formOf(t, c.kind, c.files...)
		if resp, text := servePages(t, d, c.who)("POST", "/-/identify", kind, form); resp.StatusCode != c.status || !strings.Contains(text, c.want) {
			t.Errorf("form %d: status %d, want %d with %q\n%s", i, resp.StatusCode, c.status, c.want, text)
		}
	}
	if resp, _ := ask("POST", "/-/identify", "text/plain", strings.NewReader("x")); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("no form: status %d, want 400", resp.StatusCode)
	}
	if resp, _ := ask("POST", "/-/identify/missing", "application/x-www-form-urlencoded", strings.NewReader("as=csv&modules=x")); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("a wrong list: status %d, want 400", resp.StatusCode)
	}
}

// TestVerdictMarks: every verdict has a mark and a text of its own.
func TestVerdictMarks(t *testing.T) {
	t.Parallel()
	texts := map[string]bool{}
	for _, v := range needed.Verdicts {
		if verdictMarks[v] == "" || texts[v.Text()] {
			t.Errorf("the verdict %s: mark %q, text %q; want both, and no other verdict with the text", v, verdictMarks[v], v.Text())
		}
		texts[v.Text()] = true
	}
}

// TestNamesOfFiles: names as browsers send them, and as they are given to a shell.
func TestNamesOfFiles(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"a.dmp": "a.dmp", `C:\x\a.dmp`: "a.dmp", "x/a.dmp": "a.dmp", "/": "file", "": "file", ".": "file", "a b": "a b"} {
		if got := baseName(name); got != want {
			t.Errorf("baseName(%q) is %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]string{"a.dmp": "a.dmp", "-rf": "DUMP", "a b": "DUMP", "$(x)": "DUMP", "größe": "DUMP"} {
		if got := shellWord(name); got != want {
			t.Errorf("shellWord(%q) is %q, want %q", name, got, want)
		}
	}
}
