package api

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/dump"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/depot/needed"
	"github.com/symdepot/symdepot/internal/files/sparse"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/internal/serve/web/webtest"
)

// outsider is a client of another product.
var outsider = web.Principal{Name: "outside", Rights: auth.Rights{Admitted: true, Products: []string{"other"}}}

// serveFiles serves the API of a depot to a client.
func serveFiles(t *testing.T, d *depot.Depot, who *web.Principal) func(path, kind string, body io.Reader) (*http.Response, string) {
	t.Helper()
	a := New(webtest.ActsOf(d))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		segs := strings.Split(strings.Trim(r.URL.EscapedPath(), "/"), "/")
		_ = a.Serve(w, &web.Request{Request: r, Segments: segs, Principal: *who, Body: r.Body, Allow: func(time.Duration) {}, Leave: func() {}, Challenges: []string{"Bearer"}})
	}))
	t.Cleanup(srv.Close)
	return func(path, kind string, body io.Reader) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+wire.APIPath+path, body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", kind)
		return symtest.Do(t, watched(t, srv.Client()).Do, req)
	}
}

// answerOf decodes the answer to a file that is sent whole, and then checks that it is
// the same if the file is sent in parts, but for what only all bytes show.
func answerOf(t *testing.T, ask func(path, kind string, body io.Reader) (*http.Response, string), name string, b []byte) (whole display.FileAnswer) {
	t.Helper()
	resp, text := ask("/identify?name="+name, "application/x-www-form-urlencoded", bytes.NewReader(b)) // as curl says
	if err := json.Unmarshal([]byte(text), &whole); resp.StatusCode != http.StatusOK || err != nil {
		t.Fatalf("%s: status %d, %s; want 200", name, resp.StatusCode, text)
	}
	var parts display.FileAnswer
	h := sparse.Header{Name: name, Size: int64(len(b)), Slices: []sparse.Range{{At: 0, Len: min(int64(len(b)), 512)}}}
	for h.Round = 1; ; h.Round++ {
		open, _, err := sparse.Message(h, bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		resp, text := ask("/identify", sparse.MediaType, open())
		if resp.StatusCode == http.StatusOK {
			if err := json.Unmarshal([]byte(text), &parts); err != nil {
				t.Fatal(err)
			}
			break
		}
		var more sparse.Need
		if err := json.Unmarshal([]byte(text), &more); resp.StatusCode != http.StatusAccepted || err != nil || len(more.Need) == 0 {
			t.Fatalf("%s, round %d: status %d, %s; want 202 with what is needed", name, h.Round, resp.StatusCode, text)
		}
		h.Slices = append(h.Slices, more.Need...)
	}
	if h.Round == 1 {
		t.Errorf("%s: the first 512 bytes are enough, want a second round", name)
	}
	exact := whole
	if parts.SHA256 == "" { // otherwise, all parts were needed
		exact = withoutBytes(whole)
	}
	want, _ := json.Marshal(exact)
	if got, _ := json.Marshal(parts); !bytes.Equal(got, want) {
		t.Errorf("%s in parts: %s\nwant %s", name, got, want)
	}
	return whole
}

// withoutBytes returns an answer without what only all bytes of the file show.
func withoutBytes(whole display.FileAnswer) display.FileAnswer {
	a := whole
	a.SHA256, a.Objects = "", nil
	for _, o := range whole.Objects {
		o.SHA256, o.Held = "", slices.Clone(o.Held)
		for i := range o.Held {
			o.Held[i].SameContent = nil
		}
		a.Objects = append(a.Objects, o)
	}
	return a
}

// TestIdentify: what files are, and what the depot has of them in the client's scope.
func TestIdentify(t *testing.T) {
	t.Parallel()
	d := webtest.FilesDepot(t, "pdb/hello-x64.pdb", "elf/prog-sha1.debug")
	ask := serveFiles(t, d, &webtest.Insider)
	a := answerOf(t, ask, "hello-x64.pdb", webtest.FileOf(t, "pdb/hello-x64.pdb"))
	if len(a.Objects) != 1 || a.Objects[0].Kind != "pdb" || a.Objects[0].DebugID != "F9EFE0B6AE7500394C4C44205044422E1" || a.Objects[0].HeldText() != "yes" ||
		len(a.Objects[0].Held) != 1 || a.Objects[0].Held[0].SHA256 != a.SHA256 || !*a.Objects[0].Held[0].SameContent {
		t.Errorf("a held PDB: %+v; want it held with the same content", a)
	}
	changed := append(webtest.FileOf(t, "pdb/hello-x64.pdb"), 0)
	if a = answerOf(t, ask, "hello-x64.pdb", changed); a.Objects[0].HeldText() != "yes, other content" {
		t.Errorf("a PDB with another end: %+v; want other content", a)
	}
	if a = answerOf(t, ask, "prog-sha1", webtest.FileOf(t, "elf/prog-sha1")); len(a.Objects[0].Held) != 1 || a.Objects[0].Held[0].Name != "prog-sha1.debug" {
		t.Errorf("a program whose debug file is held: %+v; want that", a)
	}
	if a = answerOf(t, ask, "app-fat", webtest.FileOf(t, "macho/app-fat")); len(a.Objects) != 2 || len(a.Objects[0].Held) != 0 || a.Dump != nil {
		t.Errorf("a fat program that is not held: %+v; want two objects", a)
	}
	if a = answerOf(t, serveFiles(t, d, &outsider), "hello-x64.pdb", webtest.FileOf(t, "pdb/hello-x64.pdb")); len(a.Objects) != 1 || len(a.Objects[0].Held) != 0 {
		t.Errorf("a PDB of another product: %+v; want it not held", a)
	}
}

// TestIdentifyDump: the verdicts on the modules of a dump are those that want.Fetch,
// and so the command get, comes to.
func TestIdentifyDump(t *testing.T) {
	t.Parallel()
	// The depot has the PDB of one module, and one of the name of another's PDB.
	pdb := webtest.FileOf(t, "pdb/hello-x64.pdb")
	own, app := []byte("\xb6\xe0\xef\xf9\x75\xae\x39\x00\x4c\x4c\x44\x20\x50\x44\x42\x2e"), []byte("\xe5\x32\x98\x5a\x72\x28\xc1\x41\x83\x8e\xd9\x89\x14\xe9\xb7\xff")
	d := webtest.DepotOf(t, map[string][]byte{"test_app.pdb": bytes.Replace(pdb, own, app, 1), "ntdll.pdb": pdb})
	b := webtest.FileOf(t, "minidump/test_app.dmp")
	crash, err := dump.Read(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	ask := serveFiles(t, d, &webtest.Insider)
	a := answerOf(t, ask, "test_app.dmp", b)
	if a.Dump == nil || len(a.Dump.Modules) != len(crash.Modules) || a.Dump.OS != "windows" ||
		!maps.Equal(a.Dump.Totals, map[needed.Verdict]int{needed.VerdictHere: 1, needed.VerdictOtherBuild: 1, needed.VerdictOthers: 11}) {
		t.Fatalf("the dump: %+v; want 13 modules, one held, one of another build", a.Dump)
	}
	var l needed.List
	if err := l.Local(t.Context(), filepath.Join(webtest.Testdata, "minidump", "test_app.dmp")); err != nil {
		t.Fatal(err)
	}
	got, fetched := map[string]bool{}, map[string]bool{}
	for _, m := range a.Dump.Modules {
		for _, f := range m.Files {
			got[f.Name+" "+f.ID] = f.Held
		}
	}
	if err := needed.Fetch(t.Context(), d, l.Wants, 2, nil, func(o needed.Outcome) { fetched[o.Name+" "+o.ID] = o.Result == needed.InDepot }); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, fetched) || len(got) != 26 {
		t.Errorf("files %v\nfetched %v; want the same 26", got, fetched)
	}
	resp, text := ask("/identify?name=a.dmp&missing=manifest", "", bytes.NewReader(b))
	if lines := strings.Count(text, ",1\r\n"); resp.StatusCode != http.StatusOK || lines != 24 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
		t.Errorf("the manifest: status %d, %d lines; want 200, 24\n%s", resp.StatusCode, lines, text)
	}
	resp, text = ask("/identify?name=a.dmp&missing=csv", "", bytes.NewReader(b))
	if lines := strings.Count(text, "\n"); resp.StatusCode != http.StatusOK || lines != 25 || !strings.HasPrefix(text, "name,id,part,module,verdict\n") {
		t.Errorf("the CSV: status %d, %d lines; want 200, 25\n%s", resp.StatusCode, lines, text)
	}
}

// TestIdentifyProblems: requests that are refused.
func TestIdentifyProblems(t *testing.T) {
	t.Parallel()
	d := webtest.FilesDepot(t, "pdb/hello-x64.pdb")
	pdb := string(webtest.FileOf(t, "pdb/hello-x64.pdb"))
	for _, c := range []struct {
		who              *web.Principal
		path, kind, body string
		status           int
		want             string
	}{
		{&webtest.NoOne, "/identify?name=a.pdb", "", pdb, 401, "problem:credentials"},
		{&webtest.NoOne, "/match", "", `{"files":[{"name":"a","id":"1"}]}`, 401, "problem:credentials"},
		{&webtest.Insider, "/identify", "", pdb, 400, `"name":"is empty`},
		{&webtest.Insider, "/identify?name=a.pdb&as=pdb", "", pdb, 400, `"as":"is unknown"`},
		{&webtest.Insider, "/identify?name=a.pdb&missing=xml", "", pdb, 400, "csv or manifest"},
		{&webtest.Insider, "/identify?name=a.pdb&only=all", "", pdb, 400, `"only":"need is expected"`},
		{&webtest.Insider, "/identify?name=a.pdb&only=need", "", pdb, 200, `{"need":[]}`},
		{&webtest.Insider, "/identify?name=a.txt&only=need", "", "some text", 200, `{"need":[]}`},
		{&webtest.Insider, "/identify?only=need", sparse.MediaType, `{"name":"a.pdb","size":10,"slices":[]}` + "\n", 202, `{"need":[{"at":0,"len":10}]}`},
		{&webtest.Insider, "/identify?name=a.pdb&missing=csv", "", pdb, 400, "not a dump"},
		{&webtest.Insider, "/identify?name=a.txt", "", "some text", 422, "a text file"},
		{&webtest.Insider, "/identify?name=a.txt", "", "", 422, "empty file"},
		{&webtest.Insider, "/identify?name=a.pdb", "", pdb[:5000], 422, "problem:not-symbol"},
		{&webtest.Insider, "/identify?name=a.dmp", "", "MDMP\x93\xa7", 422, "broken dump"},
		{&webtest.Insider, "/identify", sparse.MediaType, `{"name":"a.pdb","size":10}`, 400, "no line with a header"},
		{&webtest.Insider, "/identify", sparse.MediaType, `{"name":"a.pdb","size":10,"round":40}` + "\n", 413, "problem:too-large"},
		{&webtest.Insider, "/match", "", `{"files":[]}`, 400, "1 to 1000"},
		{&webtest.Insider, "/match", "", `{"files":[` + strings.Repeat(`{"name":"a","id":"1"},`, 1000) + `{"name":"a","id":"1"}]}`, 400, "1 to 1000"},
		{&webtest.Insider, "/match", "", `{"file":[]}`, 400, "unknown field"},
	} {
		resp, text := serveFiles(t, d, c.who)(c.path, c.kind, strings.NewReader(c.body))
		if resp.StatusCode != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s of %q with %.60q: status %d, %s; want %d with %s", c.path, c.who.Name, c.body, resp.StatusCode, text, c.status, c.want)
		}
	}
}

// TestWholeFile: a file that is longer than what is kept in memory is read again as it
// was sent, and one that is too long is refused.
func TestWholeFile(t *testing.T) {
	t.Parallel()
	b, dir := bytes.Repeat([]byte("0123456789abcdef"), web.WholeInMemory/16+1), t.TempDir()
	for _, n := range []int{0, 1, web.WholeInMemory - 1, web.WholeInMemory, web.WholeInMemory + 1, len(b)} {
		w, err := web.ReadWhole(bytes.NewReader(b[:n]), dir)
		if err != nil || w.Size() != int64(n) {
			t.Fatalf("%d bytes: %d, %v; want all", n, w.Size(), err)
		}
		got, err := io.ReadAll(io.NewSectionReader(w, 0, w.Size()))
		if err != nil || !bytes.Equal(got, b[:n]) {
			t.Errorf("%d bytes: %d differ, %v", n, len(got), err)
		}
		w.Close()
	}
	if _, err := web.ReadWhole(io.LimitReader(zeros{}, web.MaxWhole+1), dir); web.AsProblem(err) == nil || web.AsProblem(err).Word != "too-large" {
		t.Errorf("a byte more than the limit: %v, want the problem too-large", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%d files are left, %v; want none", len(left), err)
	}
}

// zeros are zeros without an end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestMatch: what the depot has of names and ids.
func TestMatch(t *testing.T) {
	t.Parallel()
	d := webtest.FilesDepot(t, "pdb/hello-x64.pdb")
	body := `{"files":[{"name":"hello-x64.pdb","id":"F9EFE0B6AE7500394C4C44205044422E1"},{"name":"HELLO-x64.pdb","id":"f9efe0b6ae7500394c4c44205044422e1"},
		{"name":"hello-x64.pdb","id":"00112233445566778899AABBCCDDEEFF1"},{"name":"other.pdb","id":"00112233445566778899AABBCCDDEEFF1"},{"name":"x","id":"?"}]}`
	resp, text := serveFiles(t, d, &webtest.Insider)("/match", "application/json", strings.NewReader(body))
	var a display.MatchAnswer
	if err := json.Unmarshal([]byte(text), &a); resp.StatusCode != http.StatusOK || err != nil || len(a.Items) != 5 {
		t.Fatalf("status %d, %s; want 200 with 5 items", resp.StatusCode, text)
	}
	for i, v := range []needed.Verdict{needed.VerdictHere, needed.VerdictHere, needed.VerdictOtherBuild, needed.VerdictOthers, needed.VerdictNoID} {
		if m := a.Items[i]; m.Verdict != v || (m.Error != "") != (v == needed.VerdictNoID) {
			t.Errorf("item %d: %+v, want the verdict %q", i, m, v)
		}
	}
	if a.Totals[needed.VerdictHere] != 2 || a.Items[0].Files[0].SHA256 == "" {
		t.Errorf("totals %v, files %+v; want 2 held, with the SHA-256", a.Totals, a.Items[0].Files)
	}
	_, text = serveFiles(t, d, &outsider)("/match", "application/json", strings.NewReader(body))
	if strings.Contains(text, `"here":true`) || strings.Contains(text, string(needed.VerdictOtherBuild)) {
		t.Errorf("for a client of another product: %s; want nothing of this one", text)
	}
}
