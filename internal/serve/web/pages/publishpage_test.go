package pages

import (
	"archive/zip"
	"bytes"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/catalog"
	"github.com/symdepot/symdepot/internal/depot/stage"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/intake"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/internal/serve/web/webtest"
)

// publishing is a server of the page for publishing, with its depot.
type publishing struct {
	*depot.Depot
	t      *testing.T
	srv    *httptest.Server
	client *http.Client
	dir    string // for bodies that wait
}

func newPublishing(t *testing.T, limits stage.Limits, who *web.Principal) *publishing {
	t.Helper()
	d, err := depot.Open(t.Context(), filepath.Join(t.TempDir(), "depot"), depot.Options{Stages: limits})
	if err != nil {
		t.Fatal(err)
	}
	s := &publishing{Depot: d, t: t, dir: d.Stages().UploadDir()}
	forms, err := intake.New(intake.Config{Stages: d.Stages(), Dir: s.dir})
	if err != nil {
		t.Fatal(err)
	}
	conf := web.Config{Forms: forms}
	conf.Use(d)
	a := New(web.New(conf))
	s.srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		segs := strings.Split(strings.Trim(r.URL.EscapedPath(), "/"), "/")
		_ = a.Serve(w, &web.Request{Request: r, Segments: segs, Principal: *who, Body: r.Body, Allow: func(time.Duration) {}, Leave: func() {}, Challenges: []string{"Bearer"}})
	}))
	s.client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(func() {
		s.srv.Close()
		_ = forms.Close()
		_ = d.Close()
	})
	return s
}

// writerOf is a principal who may read and add to products.
func writerOf(products ...string) *web.Principal {
	rights := auth.Rights{Admitted: true, Products: products, Write: true, WriteProducts: products}
	return &web.Principal{Name: "anna", Read: rights.MayRead, Write: rights.MayWrite, WritesAny: true, Rights: rights}
}

// ask sends a request, without following where the answer leads.
func (s *publishing) ask(method, path, kind string, body io.Reader, header ...string) (*http.Response, string) {
	s.t.Helper()
	if !strings.HasPrefix(path, "/-/") {
		path = "/-/publish" + path
	}
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.srv.URL+path, body)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return symtest.Do(s.t, s.client.Do, req)
}

// filesForm returns a form with fields, "name=value", and files, "name", body.
func filesForm(t *testing.T, fields []string, files ...any) (kind string, body *bytes.Buffer) {
	t.Helper()
	body = new(bytes.Buffer)
	w := multipart.NewWriter(body)
	for _, f := range fields {
		name, value, _ := strings.Cut(f, "=")
		_ = w.WriteField(name, value)
	}
	for i := 0; i+1 < len(files); i += 2 {
		name, _ := files[i].(string)
		part, err := w.CreatePart(textproto.MIMEHeader{"Content-Disposition": {`form-data; name="file"; filename="` + name + `"`}})
		if err != nil {
			t.Fatal(err)
		}
		switch b := files[i+1].(type) {
		case []byte:
			_, _ = part.Write(b)
		case string:
			_, _ = io.WriteString(part, b)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return w.FormDataContentType(), body
}

// zipOf returns a zip archive with files: "name", body.
func zipOf(t *testing.T, files ...any) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i+1 < len(files); i += 2 {
		name, _ := files[i].(string)
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := files[i+1].([]byte)
		_, _ = w.Write(body)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// held returns the transactions of the depot, each as its labels and the paths of its files:
// a path once for each content.
func (s *publishing) held() (list []string) {
	s.t.Helper()
	txs, err := s.List(s.t.Context(), answer.Scope{}, depot.ListFilter{Limit: 100})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, tx := range txs {
		page, err := s.Catalog.Files(s.t.Context(), answer.Scope{}, tx.Number, catalog.FileQuery{Limit: 100})
		if err != nil {
			s.t.Fatal(err)
		}
		contents := map[string]string{} // by path and content: the path
		for _, f := range page.Files {
			contents[f.Archive+f.Path+" "+f.Ref.String()] = f.Archive + f.Path
		}
		paths := slices.Sorted(maps.Values(contents))
		list = append(list, strings.Join([]string{tx.Product, tx.Version, tx.Class, tx.Comment, tx.Who}, "|")+": "+strings.Join(paths, " "))
	}
	return list
}

// nothingWaits checks that no body and no file of a stage is left on the disk.
func (s *publishing) nothingWaits(what string) {
	s.t.Helper()
	for _, dir := range []string{s.dir, filepath.Join(filepath.Dir(s.dir), "staged")} {
		_ = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
			if err == nil && !e.IsDir() && filepath.Base(path) != "alive" {
				s.t.Errorf("%s: the file %s is left, want none", what, path)
			}
			return nil
		})
	}
}

// TestPublish: files and archives of a form are one transaction.
func TestPublish(t *testing.T) {
	t.Parallel()
	s := newPublishing(t, stage.Limits{Quotas: map[string]int64{"Game": 1 << 30}}, writerOf("Game", "Tool"))
	pdb, exe := webtest.FileOf(t, "pdb/hello-x64.pdb"), webtest.FileOf(t, "pdb/hello-x64.exe")

	resp, page := s.ask(http.MethodGet, "", "", nil)
	for _, want := range []string{`<option value="Game"`, `<option value="Tool"`, "16.0 GiB", "0 B of 1.0 GiB used", `aria-current="page">Publish`} {
		if !strings.Contains(page, want) {
			t.Errorf("the form: status %d, %q is missing in\n%s", resp.StatusCode, want, page)
		}
	}

	kind, body := filesForm(t, []string{"product=Game", "version=1.9", "comment= two\r\nlines ", "branch=main"},
		"hello-x64.pdb", pdb, "build.zip", zipOf(t, "out/hello-x64.exe", exe, "out/readme.txt", []byte("read me")), `C:\build\hello-x64.pdb`, webtest.FileOf(t, "pdb/hello-x86.pdb"))
	resp, page = s.ask(http.MethodPost, "", kind, body)
	if got := resp.Header.Get("Location"); resp.StatusCode != http.StatusSeeOther || got != "/-/builds/1?done=published&left=1" {
		t.Fatalf("a form with two files and an archive: status %d, Location %q, want 303 to build 1; %s", resp.StatusCode, got, page)
	}
	want := []string{"Game|1.9||two\nlines|anna: build.zip/out/hello-x64.exe hello-x64.pdb hello-x64.pdb"}
	if got := s.held(); !slices.Equal(got, want) {
		t.Errorf("the depot has\n%q, want\n%q", got, want)
	}
	if _, page = s.ask(http.MethodGet, resp.Header.Get("Location"), "", nil); !strings.Contains(page, "The files were published. One file in the archives is no symbol file and was left out.") {
		t.Errorf("the page of the build does not say what was left out: %s", page)
	}
	s.nothingWaits("after a commit")

	if _, page = s.ask(http.MethodGet, "/-/product?p=Game", "", nil); !strings.Contains(page, `href="/-/publish?p=Game"`) {
		t.Errorf("the page of the product does not lead to the form: %s", page)
	}
	if _, page = s.ask(http.MethodGet, "?p=Tool", "", nil); !strings.Contains(page, `<option value="Tool" selected>`) {
		t.Errorf("the form does not begin with the product of the address: %s", page)
	}

	kind, body = filesForm(t, []string{"product=Game", "version=2"}, "hello-x64.exe", exe)
	first, _ := s.ask(http.MethodPost, "", kind, bytes.NewReader(body.Bytes()))
	again, _ := s.ask(http.MethodPost, "", kind, body)
	if got := first.Header.Get("Location") + " " + again.Header.Get("Location"); got != "/-/builds/2?done=published /-/builds/2?done=again" {
		t.Errorf("the same form twice leads to %s, want build 2 and again that", got)
	}
}

// TestPublishRefused: what is no symbol file is named, and the person decides.
func TestPublishRefused(t *testing.T) {
	t.Parallel()
	s := newPublishing(t, stage.Limits{}, writerOf("Game"))
	pdb := webtest.FileOf(t, "pdb/hello-x64.pdb")

	kind, body := filesForm(t, []string{"product=Game"}, "notes.txt", "no symbols", "empty.pdb", "", "junk.zip", zipOf(t, "a.txt", []byte("a")))
	resp, page := s.ask(http.MethodPost, "", kind, body)
	if resp.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("files without symbols: status %d, want 422", resp.StatusCode)
	}
	for _, name := range []string{"notes.txt", "empty.pdb", "junk.zip"} {
		if !regexp.MustCompile(`refused</span> [^\n]*` + regexp.QuoteMeta(name) + `[^\n]*: `).MatchString(page) {
			t.Errorf("the page does not say why %s is refused: %s", name, page)
		}
	}
	s.nothingWaits("nothing was accepted")

	// The notes come first, so that the reason for them must survive what follows.
	for _, act := range []string{"abandon", "publish"} {
		kind, body = filesForm(t, []string{"product=Game", "version=1"}, "notes.txt", "no symbols", "hello-x64.pdb", pdb)
		resp, _ = s.ask(http.MethodPost, "", kind, body)
		to := resp.Header.Get("Location")
		if resp.StatusCode != http.StatusSeeOther || !strings.HasPrefix(to, "/-/publish?stage=") {
			t.Fatalf("a PDB and notes: status %d, Location %q, want 303 to the stage", resp.StatusCode, to)
		}
		if got := s.held(); len(got) != 0 {
			t.Errorf("before the decision the depot has %q, want nothing", got)
		}
		for range 2 { // the page can be read again
			_, page = s.ask(http.MethodGet, to, "", nil)
			for _, want := range []string{"1 of 2 files cannot be stored", "notes.txt", "Publish the rest (1)", "Publish nothing"} {
				if !strings.Contains(page, want) {
					t.Errorf("the page of the stage lacks %q: %s", want, page)
				}
			}
		}
		id := strings.TrimPrefix(to, "/-/publish?stage=")
		resp, page = s.ask(http.MethodPost, "/decide", "application/x-www-form-urlencoded", strings.NewReader(url.Values{"stage": {id}, "act": {act}}.Encode()))
		want := map[string]string{"abandon": "/-/publish?done=abandoned", "publish": "/-/builds/1?done=published"}[act]
		if got := resp.Header.Get("Location"); got != want {
			t.Errorf("%s: status %d, Location %q, want %q; %s", act, resp.StatusCode, got, want, page)
		}
		s.nothingWaits(act)
		after, status := to, map[string]int{"abandon": http.StatusNotFound, "publish": http.StatusSeeOther}[act]
		if resp, _ = s.ask(http.MethodGet, after, "", nil); resp.StatusCode != status {
			t.Errorf("the page of the stage after %s: status %d, want %d", act, resp.StatusCode, status)
		}
	}
	if got := s.held(); len(got) != 1 || !strings.HasSuffix(got[0], ": hello-x64.pdb") {
		t.Errorf("the depot has %q, want the PDB alone", got)
	}
}

// TestPublishProblems: a form that cannot be carried out leaves nothing, and its page says
// what is wrong and what to do.
func TestPublishProblems(t *testing.T) {
	t.Parallel()
	pdb := webtest.FileOf(t, "pdb/hello-x64.pdb")
	fixed, writes := writerOf("Game"), &web.Principal{Name: "ben", Read: func(string) bool { return false }, Write: func(p string) bool { return p == "Game" }, WritesAny: true}
	fixed.Identity.Uploads = auth.Uploads{Class: "nightly", Version: "7"}
	writes.Rights = auth.Rights{Admitted: true, Write: true, WriteProducts: []string{"Game"}}
	reader := &web.Principal{Name: "rita", Read: func(string) bool { return true }, Write: func(string) bool { return false }, Rights: auth.Rights{Admitted: true, All: true}}
	nobody := &web.Principal{Anonymous: true, Read: func(string) bool { return true }, Write: func(string) bool { return false }, Rights: auth.Rights{Admitted: true, All: true}}
	broken := zipOf(t, "hello-x64.pdb", pdb)
	for i := range 64 { // in the middle of the compressed bytes
		broken[len(broken)/2+i] ^= 0x55
	}
	for _, c := range []struct {
		name   string
		who    *web.Principal
		limits stage.Limits
		fields []string
		files  []any
		header []string
		status int
		says   []string
	}{
		{name: "no file", who: writerOf("Game"), fields: []string{"product=Game"}, files: []any{"", ""}, status: http.StatusBadRequest, says: []string{"no file was chosen"}},
		{name: "another product", who: writerOf("Game", "Tool"), fields: []string{"product=Secret"}, files: []any{"a.pdb", pdb}, status: http.StatusForbidden, says: []string{"Secret", "Nothing was published"}},
		{name: "another class", who: fixed, fields: []string{"product=Game", "class=release"}, files: []any{"a.pdb", pdb}, status: http.StatusForbidden, says: []string{"nightly"}},
		{name: "a large file", who: writerOf("Game"), limits: stage.Limits{MaxFile: 1 << 16}, fields: []string{"product=Game"}, files: []any{"a.pdb", pdb}, status: http.StatusRequestEntityTooLarge, says: []string{"a.pdb", "push.max_file"}},
		{name: "a large archive", who: writerOf("Game"), limits: stage.Limits{MaxFile: 1 << 10}, fields: []string{"product=Game"}, files: []any{"a.zip", zipOf(t, "a.pdb", pdb)}, status: http.StatusRequestEntityTooLarge, says: []string{"a.zip", "push.max_file"}},
		{name: "a long body", who: writerOf("Game"), limits: stage.Limits{MaxBytes: 1 << 10}, fields: []string{"product=Game"}, files: []any{"a.pdb", pdb}, status: http.StatusRequestEntityTooLarge, says: []string{"Send fewer files at once"}},
		{name: "quota", who: writerOf("Game"), limits: stage.Limits{Quotas: map[string]int64{"Game": 1 << 10}}, fields: []string{"product=Game"}, files: []any{"a.pdb", pdb}, status: http.StatusInsufficientStorage, says: []string{"more than the quota of 1024", "push.quotas"}},
		{name: "a damaged archive", who: writerOf("Game"), fields: []string{"product=Game"}, files: []any{"b.pdb", pdb, "a.zip", broken}, status: http.StatusBadRequest, says: []string{"a.zip", "Nothing was published"}},
		{name: "a hostile name", who: writerOf("Game"), fields: []string{"product=Game"}, files: []any{"b.pdb", pdb, "..", pdb}, status: http.StatusBadRequest, says: []string{"is not safe as a path"}},
		{name: "no right", who: reader, fields: []string{"product=Game"}, files: []any{"a.pdb", pdb}, status: http.StatusForbidden, says: []string{"the right to add files"}},
		{name: "nobody", who: nobody, fields: []string{"product=Game"}, files: []any{"a.pdb", pdb}, status: http.StatusUnauthorized},
		{name: "another site", who: writerOf("Game"), fields: []string{"product=Game"}, files: []any{"a.pdb", pdb}, header: []string{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"}, status: http.StatusForbidden, says: []string{"other sites"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newPublishing(t, c.limits, c.who)
			kind, body := filesForm(t, c.fields, c.files...)
			resp, page := s.ask(http.MethodPost, "", kind, body, c.header...)
			if resp.StatusCode != c.status {
				t.Errorf("status %d, want %d: %s", resp.StatusCode, c.status, page)
			}
			for _, want := range c.says {
				if !strings.Contains(page, want) {
					t.Errorf("the page lacks %q: %s", want, page)
				}
			}
			if got := s.held(); len(got) != 0 {
				t.Errorf("the depot has %q, want nothing", got)
			}
			s.nothingWaits(c.name)
		})
	}
	t.Run("fixed labels", func(t *testing.T) {
		t.Parallel()
		s := newPublishing(t, stage.Limits{}, fixed)
		if _, page := s.ask(http.MethodGet, "", "", nil); !strings.Contains(page, `name="class" readonly value="nightly"`) || !strings.Contains(page, `value="7" autocomplete="off" readonly`) {
			t.Errorf("the form does not show the labels of the credentials: %s", page)
		}
	})
	t.Run("writes only", func(t *testing.T) {
		t.Parallel()
		s := newPublishing(t, stage.Limits{}, writes)
		kind, body := filesForm(t, nil, "a.pdb", pdb)
		resp, _ := s.ask(http.MethodPost, "", kind, body)
		if got := resp.Header.Get("Location"); got != "/-/publish?build=1" {
			t.Fatalf("status %d, Location %q, want the page for publishing, because that of the build would not be found", resp.StatusCode, got)
		}
		if _, page := s.ask(http.MethodGet, "/-/publish?build=1", "", nil); !strings.Contains(page, "published as build 1") {
			t.Errorf("the page does not name the build: %s", page)
		}
	})
	t.Run("navigation", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			who  *web.Principal
			want bool
		}{{reader, false}, {nobody, false}, {writerOf("Game"), true}} {
			s := newPublishing(t, stage.Limits{}, c.who)
			if _, page := s.ask(http.MethodGet, "/-/products", "", nil); strings.Contains(page, ">Publish<") != c.want {
				t.Errorf("%q sees a link to the page: %v, want %v", c.who.Name, !c.want, c.want)
			}
		}
	})
}

// TestPublishCut: a sender that leaves in the middle leaves no transaction and no bytes.
func TestPublishCut(t *testing.T) {
	t.Parallel()
	pdb := webtest.FileOf(t, "pdb/hello-x64.pdb")
	for name, files := range map[string][]any{"a file": {"a.pdb", pdb}, "an archive": {"a.pdb", pdb, "b.zip", zipOf(t, "b.pdb", pdb)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newPublishing(t, stage.Limits{}, writerOf("Game"))
			kind, body := filesForm(t, []string{"product=Game"}, files...)
			whole := body.Bytes()
			r, w := io.Pipe()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.srv.URL+"/-/publish", r)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", kind)
			answered := make(chan error, 1)
			go func() {
				resp, err := s.client.Do(req)
				if err == nil {
					err = resp.Body.Close()
				}
				answered <- err
			}()
			if _, err := w.Write(whole[:len(whole)-1000]); err != nil {
				t.Fatal(err)
			}
			_ = w.CloseWithError(io.ErrClosedPipe) // the client breaks the connection
			if err := <-answered; err == nil {
				t.Error("the cut request was answered")
			}
			s.srv.Close() // the handler has ended
			if got := s.held(); len(got) != 0 {
				t.Errorf("the depot has %q, want nothing", got)
			}
			s.nothingWaits("after the cut")
		})
	}
}
