package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/cache"
	"github.com/symdepot/symdepot/internal/depot/catalog"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/depot/why"
	"github.com/symdepot/symdepot/internal/remote/tree"
	"github.com/symdepot/symdepot/internal/remote/upstream"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/layout"
)

// traceServer is a server for a depot that explains requests.
func traceServer(t testing.TB, d *depot.Depot, cfg Config) *Server {
	t.Helper()
	cfg.Depot = d
	cfg.API, cfg.Pages = webOf(d, web.Config{Tracing: web.Tracing{Prefixes: cfg.Prefixes, Gate: cfg.Gate}})
	if d.Symbols.Makes() {
		cfg.Symbols = SymbolsConfig{Wait: time.Minute}
	}
	return newServer(t, cfg)
}

// trace has the server explain a path.
func trace(t testing.TB, s *Server, path string, headers ...string) display.Trace {
	t.Helper()
	r := ask(s, "GET", "/-/api/v1/trace?path="+url.QueryEscape(path), headers...)
	var l display.Trace
	if err := json.Unmarshal([]byte(r.body), &l); r.status != 200 || err != nil {
		t.Fatalf("trace of %s: status %d, %v: %s; want 200 and JSON", path, r.status, err, r.body)
	}
	return l
}

// agrees compares the trace of a path, before and after the request, with the true
// answer.
func agrees(t testing.TB, s *Server, path string, headers ...string) display.Trace {
	t.Helper()
	before := trace(t, s, path, headers...)
	answer := ask(s, "GET", path, headers...)
	after := trace(t, s, path, headers...)
	for when, l := range map[string]display.Trace{"before": before, "after": after} {
		depends := l.Status == 0 && l.Verdict == string(why.VerdictSources) && (answer.status == 200 || answer.status == 404)
		if l.Status != answer.status && !depends {
			t.Errorf("%s: the trace %s says %d (%s: %s), the answer is %d", path, when, l.Status, l.Verdict, l.Says, answer.status)
		}
		if (l.Mark() == display.MarkOK) != (answer.status < 400) && !depends {
			t.Errorf("%s: the trace %s has the verdict %s, the answer is %d", path, when, l.Verdict, answer.status)
		}
		if l.Verdict != string(why.VerdictFound) {
			continue
		}
		for name, want := range l.Headers {
			if name == "Content-Length" && answer.header.Get("Content-Length") == "" {
				continue
			}
			if got := strings.Join(answer.header[http.CanonicalHeaderKey(name)], ", "); got != want && name != "Vary" {
				t.Errorf("%s: the trace %s says %s: %q, the answer has %q", path, when, name, want, got)
			}
		}
	}
	return before
}

// escaped is the escaped path of segments that slashes separate.
func escaped(path string) string {
	var b strings.Builder
	for s := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		b.WriteString("/" + url.PathEscape(s))
	}
	return b.String()
}

// TestTraceAgrees: for each path of the golden files, of the objects of a depot in all
// layouts, and of the tests of protocols, the trace has the status of the true answer.
func TestTraceAgrees(t *testing.T) {
	w := newWorld(t, Config{})
	s := traceServer(t, w.d, Config{Prefixes: []string{"corp/symbols"}})
	text, err := os.ReadFile("../../../layout/testdata/golden/asked.txt")
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for line := range strings.Lines(string(text)) {
		if p := strings.TrimRight(line, "\n"); strings.Count(p, "/") >= 1 {
			list = append(list, escaped(p))
		}
	}
	for _, f := range []held{w.exe, w.pdb, w.elf, w.debug, w.small, w.big, w.packaged, w.space} {
		for _, l := range layout.All() {
			for _, p := range l.Paths(f.obj) {
				list = append(list, escaped(p), escaped(strings.ToLower(p)), escaped("corp/symbols/"+p), escaped("download/symbols/"+p), escaped("elsewhere/"+p))
			}
		}
	}
	buildID, pdb := string(w.elf.obj.BuildID), w.pdb.path(t, layout.SymStore)
	list = append(list, "/buildid/"+buildID+"/section/.text", "/buildid/"+buildID+"/section/.nope", "/buildid/"+buildID+"/source/main.c", "/buildid/"+buildID+"/sauce", "/buildid/xyz/debuginfo",
		"/buildid//debuginfo", "/buildid/"+buildID, pdb[:len(pdb)-1]+"_", pdb[:strings.LastIndex(pdb, "/")]+"/file.ptr", "/nothing.pdb/000000000000000000000000000000001/nothing.pdb",
		"/v3.1.0/hello.pdb/00000000000000000000000000000001/1", "/v3.1.0/hello-x64.pdb/"+w.pdb.obj.DebugID.GUID.Upper()+"/1", "/000Admin/lastid.txt", "/a/b/c/d/e/f/g", "/a/b", "/"+strings.ReplaceAll(pdb[1:], "/", "%2F"),
		"/small.dll/5B1D7C3A9000/small.sym", "/..%2f..%2fetc/"+smallID+"/passwd", "/a%00.pdb/"+smallID+"/a%00.pdb", "/"+strings.Repeat("a/", 400)+"b")
	slices.Sort(list)
	list = slices.Compact(list)
	verdicts := map[string]int{}
	for _, p := range list {
		verdicts[agrees(t, s, p).Verdict]++
	}
	t.Logf("%d paths: %v", len(list), verdicts)
	for v, least := range map[why.Verdict]int{why.VerdictFound: 50, why.VerdictRedirect: 1, why.VerdictAbsent: 100, why.VerdictNotPath: 5} {
		if verdicts[string(v)] < least {
			t.Errorf("%d paths have the verdict %s, want at least %d: the list proves too little", verdicts[string(v)], v, least)
		}
	}
}

// TestTraceCauses: the reason, the remedy and the command of each kind of miss.
func TestTraceCauses(t *testing.T) {
	w := newWorld(t, Config{})
	s := traceServer(t, w.d, Config{})
	guid := w.pdb.obj.DebugID.GUID.Upper()
	portable := addFile(t, w.d, "ppdb/lines.pdb").obj.DebugID.GUID.Upper()
	removed := add(t, w.d, depot.Source{Path: "gone.sym"}, sym("AAAABBBBCCCCDDDDEEEEFFFF000011111", "gone.pdb", "", 400))
	list, err := w.d.List(t.Context(), answer.Scope{}, depot.ListFilter{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.d.Retention.Remove(t.Context(), list[0].Number, "anna"); err != nil {
		t.Fatal(err)
	}
	pdb := w.pdb.path(t, layout.SymStore)
	for _, tt := range []struct{ path, cause, says, command string }{
		{"/hello-x64.pdb/" + guid + "2/hello-x64.pdb", "other-age", "you ask for age 2, the depot holds age 1 of the same GUID: the PDB was linked again", ""},
		{removed.path(t, layout.BreakpadTree), "removed", fmt.Sprintf("it was here, in build %d, which was removed on ", list[0].Number), ""},
		{"/hello-x64.pdb/00000000000000000000000000000DEF1/hello-x64.pdb", "other-id", "the depot holds hello-x64.pdb of other builds", "symdepot find hello-x64.pdb"},
		{"/none.pdb/00000000000000000000000000000DEF1/none.pdb", "unknown", "nothing of the name none.pdb", ""},
		{"/small.pdb/" + smallID + "/small.pdb", "other-role", "of another kind: small.pdb (breakpad)", ""},
		{"/another.exe/" + w.exe.obj.CodeID + "/another.exe", "other-name", "a file of another name has that id: hello-x64.exe", "symdepot find " + strings.ToLower(w.exe.obj.CodeID)},
		{"/lines.pdb/" + portable + "/lines.pdb", "no-age", "the GUID is here, but the request lacks the age", "symdepot get lines.pdb/" + portable + "FFFFFFFF/lines.pdb"},
		{"/hello-x64.pdb/" + guid + "/hello-x64.pdb", "no-age", "the GUID is here, but the request lacks the age", "symdepot get hello-x64.pdb/" + guid + "1/hello-x64.pdb"},
		{"/lines.pdb/" + portable + "FFFFFFFF/lines.sym", "portable", "lines.pdb is a portable PDB, of which there is no Breakpad file", "symdepot get lines.pdb/" + portable + "FFFFFFFF/lines.pdb"},
		{"/lines.pdb/" + portable + "1/lines.gsym", "portable", "lines.pdb is a portable PDB, of which there is no GSYM file", "symdepot get lines.pdb/" + portable + "FFFFFFFF/lines.pdb"},
		{"/lines.pdb/" + portable + "FFFFFFFF/lines.pd_", "form", "no cabinet of it", "symdepot get lines.pdb/"},
		{"/lines.pdb/" + portable + "2/lines.pdb", "other-age", "the depot holds a portable PDB of the same GUID, which has the age FFFFFFFF", ""},
		{"/v3.1.0/hello-x64.pdb/00000000000000000000000000000DEF/1", "other-id", "the depot holds hello-x64.pdb of other builds", "symdepot find hello-x64.pdb"},
		{"/v3.1.0/hello-x64.pdb/" + guid + "/1", "form", "nothing makes this version of a SymCache file", "symdepot work"},
		{"/a/b/c", "not-path", "this is not the path of a symbol file", "symdepot identify FILE"},
		{pdb[:len(pdb)-1] + "_", "form", "no cabinet of it", "symdepot get hello-x64.pdb/"},
		{"/buildid/" + string(w.elf.obj.BuildID) + "/section/.nope", "no-section", `has no section ".nope"`, "symdepot identify"},
	} {
		l := agrees(t, s, tt.path)
		if l.Cause != tt.cause || !strings.Contains(l.Says, tt.says) || !strings.HasPrefix(l.Command, tt.command) || l.Remedy == "" ||
			tt.command == "" && (l.Command != "" || !strings.Contains(l.Remedy, "Ask whoever publishes the builds to ")) { // the client may not add
			t.Errorf("%s: cause %q, %q, remedy %q, command %q; want %q, %q and %q", tt.path, l.Cause, l.Says, l.Remedy, l.Command, tt.cause, tt.says, tt.command)
		}
		if strings.HasPrefix(tt.path, "/v3.") != strings.Contains(l.Remedy, "transcoder") {
			t.Errorf("%s: remedy %q; want that a transcoder is missing, for SymCache files only", tt.path, l.Remedy)
		}
		for _, step := range l.Steps {
			if step.Says == "" || step.Mark == "" {
				t.Errorf("%s: the step %q says nothing", tt.path, step.Step)
			}
		}
	}
}

// TestTraceMade: files that are made on request, before, when and after they are made.
func TestTraceMade(t *testing.T) {
	w := newSymbolsWorld(t, depot.SymbolsOptions{}, SymbolsConfig{}, true)
	s := traceServer(t, w.d, Config{})
	path := w.pdb.symPath(t)
	if l := agrees(t, s, path); l.Verdict != string(why.VerdictMakes) || l.Status != 200 {
		t.Errorf("before: verdict %s, status %d, want made and 200", l.Verdict, l.Status)
	}
	if l := agrees(t, s, path); l.Verdict != string(why.VerdictFound) || !strings.Contains(l.Says, "made of other files of its module") {
		t.Errorf("after: verdict %s, %q; want found, and that it was made", l.Verdict, l.Says)
	}
	gsym := strings.TrimSuffix(w.pdb.symPath(t), ".sym") + ".gsym"
	if l := agrees(t, s, gsym); l.Verdict != string(why.VerdictMakes) {
		t.Errorf("GSYM: verdict %s, want made", l.Verdict)
	}
	agrees(t, s, "/other.pdb/00000000000000000000000000000DEF1/other.sym")
}

// TestTraceFolders: files of served folders, in several spellings.
func TestTraceFolders(t *testing.T) {
	dir := t.TempDir()
	b, err := os.ReadFile("../../../testdata/pdb/hello-x64.pdb")
	if err != nil {
		t.Fatal(err)
	}
	const id = "F9EFE0B6AE7500394C4C44205044422E1"
	put := filepath.Join(dir, "hello-x64.pdb", id)
	if err := os.MkdirAll(put, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(put, "hello-x64.pdb"), b, 0o644); err != nil {
		t.Fatal(err)
	}
	folder, err := tree.Open(t.Context(), dir, tree.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = folder.Close() })
	s := traceServer(t, openDepot(t, depot.Options{Sources: []*tree.Folder{folder}}), Config{})
	l := agrees(t, s, "/hello-x64.pdb/"+strings.ToLower(id)+"/hello-x64.pdb")
	if l.Verdict != string(why.VerdictFound) || !strings.Contains(l.Says, "in a served folder") || strings.Contains(l.Says, dir) {
		t.Errorf("verdict %s, %q; want found in a served folder, without its path", l.Verdict, l.Says)
	}
	l = agrees(t, s, "/hello-x64.pdb/00000000000000000000000000000DEF1/hello-x64.pdb")
	i := slices.IndexFunc(l.Steps, func(s display.TraceStep) bool { return s.Step == "folders" })
	if i < 0 || len(l.Steps[i].Items) < 2 || !strings.Contains(l.Steps[i].Items[0].Path, "hello-x64.pdb/") {
		t.Errorf("the steps of a miss are %+v, want the places that were searched in the folder", l.Steps)
	}
}

// TestTraceCompressed: forms of files that have been made.
func TestTraceCompressed(t *testing.T) {
	d := openDepot(t, depot.Options{MakeCabinets: true})
	pdb := addFile(t, d, "pdb/hello-x64.pdb")
	s := traceServer(t, d, Config{})
	path := pdb.path(t, layout.SymStore)
	agrees(t, s, path[:len(path)-1]+"_")
	l := trace(t, s, path)
	i := slices.IndexFunc(l.Steps, func(s display.TraceStep) bool { return s.Step == "forms" })
	if i < 0 || !slices.ContainsFunc(l.Steps[i].Items, func(i display.TraceItem) bool { return i.Name == "cabinet" && i.What == "possible" }) {
		t.Errorf("the steps are %+v, want a cabinet that can be made", l.Steps)
	}
}

// far is an upstream that has some files, and counts requests.
type far struct {
	asked atomic.Int64
	has   atomic.Pointer[map[string][]byte]
	src   *upstream.Guarded
}

func newFar(t *testing.T, opt upstream.GuardOptions) *far {
	t.Helper()
	f := &far{}
	f.has.Store(&map[string][]byte{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.asked.Add(1)
		if b, ok := (*f.has.Load())[r.URL.Path]; ok {
			_, _ = w.Write(b)
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(srv.Close)
	src, err := upstream.NewHTTP(upstream.HTTPConfig{Name: "far", URL: srv.URL, Layout: "breakpad"}, upstream.NewDialer(upstream.DialerOptions{}))
	if err != nil {
		t.Fatal(err)
	}
	f.src = upstream.Guard(src, opt)
	return f
}

// TestTraceUpstreams: before a request the trace says who would be asked, and asks
// nobody; then it says what is remembered; private names are never asked for.
func TestTraceUpstreams(t *testing.T) {
	f := newFar(t, upstream.GuardOptions{NeverAsk: []string{"private*"}, Rank: 3})
	d := openDepot(t, depot.Options{Upstreams: []depot.Upstream{{Source: f.src, Rank: 3}}})
	t.Cleanup(func() { _ = f.src.Close() })
	s := traceServer(t, d, Config{})
	const path = "/app.pdb/44E4EC8C2F41492B9369D6B9A059577C2/app.sym"
	if l := trace(t, s, path); l.Verdict != string(why.VerdictSources) || l.Status != 0 || !strings.Contains(l.Says, "far") {
		t.Errorf("before: verdict %s, status %d, %q; want sources, 0 and the name", l.Verdict, l.Status, l.Says)
	}
	if l := trace(t, s, "/private.pdb/44E4EC8C2F41492B9369D6B9A059577C2/private.sym"); l.Cause != "excluded" || l.Status != 404 {
		t.Errorf("a private name: cause %q, status %d, want excluded and 404", l.Cause, l.Status)
	}
	if n := f.asked.Load(); n != 0 {
		t.Fatalf("traces have sent %d requests, want none", n)
	}
	agrees(t, s, "/private.pdb/44E4EC8C2F41492B9369D6B9A059577C2/private.sym")
	if n := f.asked.Load(); n != 0 {
		t.Errorf("a private name was asked for %d times, want never", n)
	}
	agrees(t, s, path)
	asked := f.asked.Load()
	l := trace(t, s, path)
	if l.Cause != "remembered" || l.Status != 404 || f.asked.Load() != asked {
		t.Errorf("after a miss: cause %q, status %d, %d requests; want remembered, 404 and %d", l.Cause, l.Status, f.asked.Load(), asked)
	}
	if i := slices.IndexFunc(l.Steps, func(s display.TraceStep) bool { return s.Step == "memory" }); i < 0 || l.Steps[i].Items[0].What != "absent" || l.Steps[i].Items[0].Until.IsZero() {
		t.Errorf("the steps are %+v, want the remembered miss with its end", l.Steps)
	}
	// Now the upstream has the file: asking it finds it.
	f.has.Store(&map[string][]byte{path: sym("44E4EC8C2F41492B9369D6B9A059577C2", "app.pdb", "", 5000)})
	r := askBody(s, "POST", "/-/api/v1/trace/ask", `{"path":"`+path+`"}`)
	if err := json.Unmarshal([]byte(r.body), &l); err != nil || r.status != 200 || l.Verdict != string(why.VerdictFound) {
		t.Errorf("asking: status %d, verdict %s, %v; want 200 and found: %s", r.status, l.Verdict, err, r.body)
	}
	agrees(t, s, path)
}

// TestTraceSubstitute: a cached file of another name answers while the upstreams are
// known to lack the named one.
func TestTraceSubstitute(t *testing.T) {
	const id = "44E4EC8C2F41492B9369D6B9A059577C2"
	f := newFar(t, upstream.GuardOptions{})
	f.has.Store(&map[string][]byte{"/app.pdb/" + id + "/app.sym": sym(id, "app.pdb", "", 5000)})
	d := openDepot(t, depot.Options{Upstreams: []depot.Upstream{{Source: f.src}}})
	t.Cleanup(func() { _ = f.src.Close() })
	s := traceServer(t, d, Config{})
	if r := ask(s, "GET", "/app.pdb/"+id+"/app.sym"); r.status != 200 {
		t.Fatalf("the download: status %d, want 200", r.status)
	}
	const other = "/other.pdb/" + id + "/other.sym"
	if l := agrees(t, s, other); l.Verdict != string(why.VerdictSources) {
		t.Errorf("before: verdict %s, want sources", l.Verdict)
	}
	if l := agrees(t, s, other); l.Verdict != string(why.VerdictFound) || !strings.Contains(l.Says, "but another name") {
		t.Errorf("after: verdict %s, %q; want found, under another name", l.Verdict, l.Says)
	}
}

// TestTraceChangesNothing: traces count no miss, remember nothing, record no use, enter
// no job and send no request.
func TestTraceChangesNothing(t *testing.T) {
	f := newFar(t, upstream.GuardOptions{})
	const cached = "/app.pdb/44E4EC8C2F41492B9369D6B9A059577C2/app.sym"
	f.has.Store(&map[string][]byte{cached: sym("44E4EC8C2F41492B9369D6B9A059577C2", "app.pdb", "", 5000)})
	d := openDepot(t, depot.Options{MakeCabinets: true, Upstreams: []depot.Upstream{{Source: f.src}}})
	t.Cleanup(func() { _ = f.src.Close() })
	pdb := addFile(t, d, "pdb/hello-x64.pdb")
	s := traceServer(t, d, Config{})
	if r := ask(s, "GET", cached); r.status != 200 {
		t.Fatalf("the download: status %d, want 200", r.status)
	}
	const missing = "/none.pdb/44E4EC8C2F41492B9369D6B9A059577C2/none.pdb"
	ask(s, "GET", missing)
	state := func() any {
		var wanted []catalog.Wanted
		if err := d.Missing.List(t.Context(), catalog.WantedFilter{}, func(w catalog.Wanted) error { wanted = append(wanted, w); return nil }); err != nil {
			t.Fatal(err)
		}
		var files []any
		for f, err := range d.Cache.Files(t.Context(), cache.Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
		jobs, err := d.Jobs().Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		generation, err := d.Generation(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		stats, misses, err := d.Cache.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return []any{wanted, files, jobs, generation, stats, misses, d.Upstreams(), f.asked.Load()}
	}
	path := pdb.path(t, layout.SymStore)
	before := state()
	for range 4 { // a cabinet is made at the first request, a compressed form at the third
		for _, p := range []string{cached, missing, path, path[:len(path)-1] + "_", pdb.symPath(t), "/new.pdb/44E4EC8C2F41492B9369D6B9A059577C2/new.pdb", "/buildid/0102030405060708/section/.text", "/a/b"} {
			trace(t, s, p)
		}
	}
	if after := state(); !reflect.DeepEqual(before, after) {
		t.Errorf("traces have changed\n%+v\nto\n%+v", before, after)
	}
}

// TestTraceScope: a reader of some products sees nothing of others, and an
// administrator sees for others what they see and why.
func TestTraceScope(t *testing.T) {
	g := newGuarded(t, demand, Config{})
	s := traceServer(t, g.d, Config{Gate: g.s.cfg.Gate})
	theirs := g.theirsPDB.path(t, layout.SymStore)
	l := agrees(t, s, theirs, bearer(g.ours))
	if text, _ := json.Marshal(l); l.Cause != "unknown" || strings.Contains(string(text), "theirs") {
		t.Errorf("a file of another product: cause %q, %s; want unknown, and no word of the product", l.Cause, text)
	}
	agrees(t, s, g.oursPDB.path(t, layout.SymStore), bearer(g.ours))
	if r := ask(s, "GET", "/-/api/v1/trace?path="+theirs); r.status != 401 {
		t.Errorf("without credentials: status %d, want 401", r.status)
	}
	for as, want := range map[string]int{"anonymous": 403, "token:1": 403} {
		if r := ask(s, "GET", "/-/api/v1/trace?as="+as+"&path="+theirs, bearer(g.all)); r.status != want {
			t.Errorf("a reader traces as %s: status %d, want %d", as, r.status, want)
		}
	}
	admin := g.store.add(t, "root", nil, "admin", "read")
	r := ask(s, "GET", "/-/api/v1/trace?as=anonymous&path="+theirs, bearer(admin))
	if err := json.Unmarshal([]byte(r.body), &l); err != nil || l.Cause != "other-product" || l.Status != 404 || !strings.Contains(l.Says, "does not see") {
		t.Errorf("an administrator traces as nobody: status %d, %s; want the cause other-product", r.status, r.body)
	}
	if r := askBody(s, "POST", "/-/api/v1/trace/ask", `{"path":"`+theirs+`"}`, bearer(g.ours)); r.status != 403 {
		t.Errorf("a reader of one product asks the upstreams: status %d, want 403", r.status)
	}
	token := "/t/" + g.all + theirs
	if r := ask(s, "GET", "/-/api/v1/trace?path="+url.QueryEscape("https://symbols.corp"+token), bearer(g.all)); r.status != 200 || strings.Contains(r.body, g.all) || !strings.Contains(r.body, "an access token") {
		t.Errorf("a path with a token: status %d, %s; want 200, and the token hidden", r.status, r.body)
	}
	log := "SYMSRV:  HTTPGET: /symbols" + theirs + "\nSYMSRV:  HttpQueryInfo: 80190194 - HTTP_STATUS_NOT_FOUND\n" + "SYMSRV:  HTTPGET: " + g.oursPDB.path(t, layout.SymStore) + "\n"
	r = askBody(s, "POST", "/-/api/v1/trace/log", log, bearer(g.ours))
	var all display.TraceLog
	if err := json.Unmarshal([]byte(r.body), &all); err != nil || len(all.Items) != 2 || all.Items[0].Status != 404 || all.Items[0].Log != "missing" || all.Items[1].Status != 200 || !all.Complete {
		t.Errorf("a log: status %d, %s; want two requests, the one that fails first", r.status, r.body)
	}
}

// TestTraceHidesProducts: the traces of a reader of one product are equal, byte for
// byte, in depots with and without another product.
func TestTraceHidesProducts(t *testing.T) {
	var answers [2][]string
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for i := range answers {
		d := openDepot(t, depot.Options{Now: func() time.Time { return at }})
		read := func(name string) []byte {
			b, err := os.ReadFile("../../../testdata/" + name)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		ours := addAs(t, d, "ours", "hello-x64.pdb", read("pdb/hello-x64.pdb"))
		guid := ours.obj.DebugID.GUID.Upper()
		if i == 1 {
			addAs(t, d, "theirs", "hello-x64.sym", sym(guid+"2", "hello-x64.pdb", "", 500))
			addAs(t, d, "theirs", "hello-x64.exe", read("pdb/hello-x64.exe"))
			gone := addAs(t, d, "theirs", "gone.sym", sym("AAAABBBBCCCCDDDDEEEEFFFF000011111", "gone.pdb", "", 400))
			list, err := d.List(t.Context(), answer.Scope{}, depot.ListFilter{Limit: 1})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := d.Retention.Remove(t.Context(), list[0].Number, "anna"); err != nil {
				t.Fatal(err)
			}
			_ = gone
		}
		store := &tokenStore{rows: map[[32]byte]auth.TokenRow{}}
		secret := store.add(t, "ours", []string{"ours"}, "read")
		gate, err := auth.New(auth.Config{Policy: demand}, store, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = gate.Close() })
		s := traceServer(t, d, Config{Gate: gate})
		for _, p := range []string{
			ours.path(t, layout.SymStore), "/hello-x64.pdb/" + guid + "2/hello-x64.sym", "/hello-x64.pdb/" + guid + "3/hello-x64.pdb", "/hello-x64.exe/C10891754000/hello-x64.exe", "/hello-x64.exe/00000000000/hello-x64.exe",
			"/gone.pdb/AAAABBBBCCCCDDDDEEEEFFFF000011111/gone.sym", ours.symPath(t), "/hello-x64.pdb/" + guid + "1/hello-x64.pd_", "/v3.1.0/hello-x64.pdb/" + guid + "/1",
		} {
			answers[i] = append(answers[i], ask(s, "GET", "/-/api/v1/trace?path="+url.QueryEscape(p), bearer(secret)).body)
		}
	}
	for i := range answers[0] {
		if answers[0][i] != answers[1][i] {
			t.Errorf("without the other product:\n%s\nwith it:\n%s", answers[0][i], answers[1][i])
		}
	}
}

// form sends a form of a page.
func form(s *Server, path string, fields url.Values, headers ...string) reply {
	return askBody(s, "POST", path, fields.Encode(), append(headers, browser, "Content-Type: application/x-www-form-urlencoded")...)
}

// TestTracePage: the page shows the result, what to do and the steps; a log becomes a
// table; a secret does not stay in the address.
func TestTracePage(t *testing.T) {
	g := newGuarded(t, demand, Config{})
	s := traceServer(t, g.d, Config{Gate: g.s.cfg.Gate})
	show := func(query, token string) reply { return ask(s, "GET", "/-/trace"+query, browser, bearer(token)) }
	ours := g.oursPDB.path(t, layout.SymStore)
	guid := g.oursPDB.obj.DebugID.GUID.Upper()
	for _, tt := range []struct {
		query, token string
		status       int
		want         []string
	}{
		{"", g.ours, 200, []string{`<input name="path" value=""`, "<textarea"}},
		{"?path=" + url.QueryEscape(ours), g.ours, 200, []string{`<span class="mark ok"><span class="away">yes:</span></span> Found, 200: hello-x64.pdb`, "/-/file/", "symstore", "Etag: ", "You are &#34;ours&#34;"}},
		{"?path=" + url.QueryEscape("/hello-x64.pdb/"+guid+"2/hello-x64.pdb"), g.ours, 200, []string{`<span class="mark bad"><span class="away">no:</span></span> Not found, 404: you ask for age 2`, "Ask whoever publishes the builds to add the PDB", "/-/builds/1"}},
		{"?path=" + url.QueryEscape("/none.pdb/"+guid[:30]+"AA2/none.pdb"), g.writes, 200, []string{"Add the build that has this file", "symdepot add FOLDER-OF-THE-BUILD"}},
		{"?name=hello-x64.pdb&id=" + guid + "1", g.ours, 200, []string{`value="hello-x64.pdb ` + guid + `1"`, "Found, 200"}},
		{"?path=%20", g.ours, 200, []string{"<textarea"}},
		{"?path=%25zz%2Fa", g.ours, 400, []string{`role="alert"`, "percent sign", `aria-invalid="true"`}},
		{"?path=" + url.QueryEscape(g.theirsPDB.path(t, layout.SymStore)), g.ours, 200, []string{"nothing of the name hello-x86.pdb"}},
		{"?as=anonymous&path=" + url.QueryEscape(ours), g.ours, 403, nil},
		{"?path=" + url.QueryEscape(`"><script>alert(1)</script>/`+guid+`1/x`), g.ours, 200, []string{"&lt;script&gt;"}},
		{"?path=" + url.QueryEscape("a\u202Egpj.exe "+guid+"1"), g.ours, 200, []string{"a?gpj.exe"}},
		{"?path=" + strings.Repeat("x", 9000), g.ours, 400, []string{"too long"}},
	} {
		r := show(tt.query, tt.token)
		if r.status != tt.status {
			t.Errorf("%.80s: status %d, want %d", tt.query, r.status, tt.status)
		}
		for _, want := range tt.want {
			if !strings.Contains(r.body, want) {
				t.Errorf("%.80s: the page lacks %q:\n%s", tt.query, want, r.body)
			}
		}
		for _, no := range []string{"<script>", "theirs", "{{", "<no value>", "ZgotmplZ"} {
			if strings.Contains(r.body, no) {
				t.Errorf("%.80s: the page has %q, want it nowhere", tt.query, no)
			}
		}
	}
	if r := show("?path="+url.QueryEscape("https://symbols.corp/t/"+g.all+ours), g.ours); r.status != 303 || strings.Contains(r.header.Get("Location"), g.all) || follow(t, s, r.header.Get("Location"), bearer(g.ours)).status != 200 {
		t.Errorf("a path with a token: status %d, Location %q; want a redirect to an address without it", r.status, r.header.Get("Location"))
	}
	log := "DBGHELP: C:\\symbols\\hello-x64.pdb\\" + guid + "2\\hello-x64.pdb - mismatched pdb\nSYMSRV:  HTTPGET: /symbols" + ours + "\n"
	r := form(s, "/-/trace", url.Values{"log": {log + strings.Repeat("x", 60<<10)}}, bearer(g.ours))
	if r.status != 200 || !strings.Contains(r.body, "2 requests in the log, 1 not found") || strings.Index(r.body, "you ask for age 2") > strings.Index(r.body, "Found, 200") {
		t.Errorf("a log: status %d, want both requests, and the one that fails first:\n%.3000s", r.status, r.body)
	}
	if r := form(s, "/-/trace", url.Values{"log": {strings.Repeat("%", 70<<10)}}, bearer(g.ours)); r.status != 413 {
		t.Errorf("a long log: status %d, want 413", r.status)
	}
	if r := form(s, "/-/trace/ask", url.Values{"path": {ours}}, bearer(g.ours)); r.status != 403 {
		t.Errorf("a reader of one product asks the upstreams: status %d, want 403", r.status)
	}
	if r := form(s, "/-/trace/ask", url.Values{"path": {ours}}, bearer(g.all)); r.status != 303 || !strings.HasPrefix(r.header.Get("Location"), "/-/trace?") {
		t.Errorf("asking: status %d, Location %q; want the page of the trace", r.status, r.header.Get("Location"))
	}
	if r := form(s, "/-/trace", url.Values{"log": {log}}, bearer(g.ours), "Origin: https://evil.example", "Sec-Fetch-Site: cross-site"); r.status != 403 {
		t.Errorf("a form of another site: status %d, want 403", r.status)
	}
}

// TestTraceAsToken: an administrator traces with the rights of a token.
func TestTraceAsToken(t *testing.T) {
	g := newGuarded(t, demand, Config{})
	gate := g.s.cfg.Gate
	a, _ := webOf(g.d, web.Config{Gate: gate, Tokens: apiTokens{g.store}, Tracing: web.Tracing{Gate: gate}})
	s := newServer(t, Config{Gate: gate, Depot: g.d, API: a})
	admin := g.store.add(t, "root", nil, "admin", "read")
	row := g.store.rows[auth.HashToken(g.ours)]
	for path, want := range map[string]string{g.oursPDB.path(t, layout.SymStore): "", g.theirsPDB.path(t, layout.SymStore): "other-product"} {
		r := ask(s, "GET", "/-/api/v1/trace?as=token:"+row.ID+"&path="+url.QueryEscape(path), bearer(admin))
		var l display.Trace
		if err := json.Unmarshal([]byte(r.body), &l); err != nil || l.Cause != want || !strings.Contains(r.body, `with the token \"ours\", which sees the product \"ours\"`) {
			t.Errorf("%s as the token ours: status %d, cause %q, want %q: %s", path, r.status, l.Cause, want, r.body)
		}
		if want != "" && !strings.Contains(r.body, `of the product \"theirs\"`) {
			t.Errorf("%s as the token ours: %s; want the product that has it", path, r.body)
		}
	}
	g.store.revoke(g.ours)
	r := ask(s, "GET", "/-/api/v1/trace?as=token:"+row.ID+"&path="+url.QueryEscape(g.oursPDB.path(t, layout.SymStore)), bearer(admin))
	if r.status == 200 && !strings.Contains(r.body, "no product") {
		t.Errorf("as a revoked token: %s; want no product seen", r.body)
	}
}
