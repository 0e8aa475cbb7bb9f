package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/coverage"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/internal/serve/web/webtest"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// coverageServer serves the API of a depot to a client that tests change.
type coverageServer struct {
	*httptest.Server
	who      web.Principal
	recorded []auth.Event
	// delay is how far away the client is; tests wait for nothing.
	delay time.Duration
}

func serveCoverage(t testing.TB, d *depot.Depot, who web.Principal) *coverageServer {
	t.Helper()
	s := &coverageServer{who: who}
	acts := web.Config{Makes: true, Record: func(e auth.Event) error {
		s.recorded = append(s.recorded, e)
		return nil
	}}
	acts.Use(d)
	a := New(web.New(acts))
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.delay > 0 {
			select {
			case <-time.After(s.delay):
			case <-r.Context().Done():
			}
		}
		segs := strings.Split(strings.Trim(r.URL.EscapedPath(), "/"), "/")
		q := &web.Request{Request: r, Segments: segs, Principal: s.who, Body: r.Body, Allow: func(time.Duration) {}, Leave: func() {}, Challenges: []string{"Bearer"}}
		if err := a.Serve(w, q); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// ask sends a request and returns the status and the answer.
func (s *coverageServer) ask(t *testing.T, method, path string, body any) (int, string) {
	t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+wire.APIPath+path, bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, text := symtest.Do(t, watched(t, s.Client()).Do, req)
	return resp.StatusCode, text
}

// look asks what the depot has of test files.
func (s *coverageServer) look(t *testing.T, q wire.CoverageAsk) []wire.Coverage {
	t.Helper()
	status, text := s.ask(t, http.MethodPost, "/coverage", q)
	var answer wire.CoverageAnswer
	if err := json.Unmarshal([]byte(text), &answer); status != http.StatusOK || err != nil || len(answer.Items) != len(q.Files) {
		t.Fatalf("status %d, %s; want 200 with %d answers", status, text, len(q.Files))
	}
	return answer.Items
}

// shipped describes the program in a test file, as a client does.
func shipped(t *testing.T, name string) wire.CoverageFile {
	t.Helper()
	b := symtest.Testdata(t, name)
	objects, err := objfile.Identify(bytes.NewReader(b), int64(len(b)), name, objfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := objects[0]
	f := wire.CoverageFile{
		Kind: o.Kind.String(), Name: o.Name, CodeID: o.CodeID, DebugID: o.DebugID.Breakpad(), BuildID: string(o.BuildID),
		Debug: o.Features.Debug && len(o.PDBs) == 0,
	}
	for _, p := range o.PDBs {
		f.PDBs = append(f.PDBs, wire.CoveragePDB{Name: p.Name, ID: p.DebugID.Breakpad(), Portable: p.Kind == symfile.PortablePDB})
	}
	return f
}

// TestCoverage: the answer for each kind of files is that of debuggers' requests, in each layout.
func TestCoverage(t *testing.T) {
	t.Parallel()
	files := map[string][]byte{}
	for _, name := range []string{
		"pdb/hello-x64.pdb", "pdb/hello-x86.pdb", "pdb/hello-x86.exe", "elf/prog-sha1.debug", "macho/app-arm64.dSYM/Contents/Resources/DWARF/app-arm64", "wasm/w-sha1.wasm", "pe/mingw.exe",
	} {
		files[filepath.Base(name)] = symtest.Testdata(t, name)
	}
	s := serveCoverage(t, webtest.DepotOf(t, files), webtest.Insider)
	later := shipped(t, "pdb/hello-x64.exe")
	id := later.PDBs[0].ID
	later.PDBs = []wire.CoveragePDB{{Name: later.PDBs[0].Name, ID: id[:32] + "0"}}
	other := shipped(t, "pdb/hello-x64.exe")
	other.PDBs = []wire.CoveragePDB{{Name: other.PDBs[0].Name, ID: strings.Repeat("A", 32) + "1"}}
	for name, c := range map[string]struct {
		file    wire.CoverageFile
		symbols bool
		program bool
		unwind  bool
		verdict string
		layouts string
	}{
		"a PE image":               {shipped(t, "pdb/hello-x64.exe"), true, false, false, "", "breakpad=made ssqp=here symstore=here unified=here"},
		"with its program":         {shipped(t, "pdb/hello-x86.exe"), true, true, true, "", "breakpad=made ssqp=here symstore=here unified=here"},
		"a stripped ELF file":      {shipped(t, "elf/prog-sha1.stripped"), true, false, false, "", "breakpad=made debuginfod=here gdb=here ssqp=here unified=here"},
		"a Mach-O image":           {shipped(t, "macho/app-arm64"), true, false, false, "", "breakpad=made lldb=here ssqp=here unified=here"},
		"a WebAssembly module":     {shipped(t, "wasm/w-sha1.wasm"), true, true, false, "", "breakpad=made symstore=here unified=here"},
		"DWARF in a PE image":      {shipped(t, "pe/mingw.exe"), true, true, true, "", "breakpad=made ssqp=here symstore=here unified=here"},
		"another link":             {later, false, false, false, wire.CoverageLater, "breakpad=missing ssqp=missing symstore=missing unified=missing"},
		"another build":            {other, false, false, false, "other-build", "breakpad=missing ssqp=missing symstore=missing unified=missing"},
		"no build id":              {shipped(t, "elf/prog-none"), false, false, false, wire.CoverageNoID, "breakpad=missing"},
		"a file that nobody knows": {wire.CoverageFile{Kind: "elf", Name: "x", BuildID: "00ff"}, false, false, false, "missing-others", "debuginfod=missing gdb=missing ssqp=missing unified=missing"},
	} {
		a := s.look(t, wire.CoverageAsk{Files: []wire.CoverageFile{c.file}})[0]
		var layouts []string
		for _, l := range slices.Sorted(maps.Keys(a.Layouts)) {
			layouts = append(layouts, l+"="+a.Layouts[l])
		}
		if a.Symbols.Here != c.symbols || a.Program.Here != c.program || a.Unwind != c.unwind || a.Verdict != c.verdict || strings.Join(layouts, " ") != c.layouts || a.Error != "" {
			t.Errorf("%s: %+v\nin %s; want symbols %v, program %v, unwind %v, verdict %q in %s", name, a, layouts, c.symbols, c.program, c.unwind, c.verdict, c.layouts)
		}
		if a.Symbols.Here && (a.Symbols.SHA256 == "" || !slices.Contains(a.Symbols.Features, "debug")) {
			t.Errorf("%s: the debug information is %+v, want its hash and features", name, a.Symbols)
		}
	}
	if a := s.look(t, wire.CoverageAsk{Files: []wire.CoverageFile{later}})[0]; a.LaterAge != 1 {
		t.Errorf("the age of the stored PDB is %d, want 1", a.LaterAge)
	}
}

// TestCoverageRights: who may not read a product gets the answer for missing files, also about names, and stores no
// results. Who may only push reads nothing, and stores results.
func TestCoverageRights(t *testing.T) {
	t.Parallel()
	d := webtest.DepotOf(t, map[string][]byte{"a.pdb": symtest.Testdata(t, "pdb/hello-x64.pdb"), "a.exe": symtest.Testdata(t, "pdb/hello-x64.exe")})
	s := serveCoverage(t, d, outsider)
	q := wire.CoverageAsk{Files: []wire.CoverageFile{shipped(t, "pdb/hello-x64.exe")}, Sources: wire.SourcesLong}
	hidden := s.look(t, q)[0]
	unknown := q
	unknown.Files = []wire.CoverageFile{q.Files[0]}
	unknown.Files[0].Name, unknown.Files[0].CodeID = "nobody.exe", "00000001000"
	unknown.Files[0].PDBs = []wire.CoveragePDB{{Name: "nobody.pdb", ID: strings.Repeat("B", 32) + "1"}}
	missing := s.look(t, unknown)[0]
	if h, m := fmt.Sprintf("%+v", hidden), fmt.Sprintf("%+v", missing); h != m || hidden.Symbols.Here {
		t.Errorf("a hidden file is answered by %s, a missing one by %s; want the same", h, m)
	}
	result := wire.BuildCoverage{Files: 2, Covered: 1, Require: []string{"symbols"}, Gaps: []wire.CoverageGap{{Path: "x", Lacks: []string{"symbols"}}}}
	if status, text := s.ask(t, http.MethodPut, "/builds/1/coverage", result); status != http.StatusNotFound {
		t.Errorf("a result of who may not read the build: status %d, %s; want 404", status, text)
	}
	if status, text := s.ask(t, http.MethodGet, "/coverage?product=app", nil); status != http.StatusOK || !strings.Contains(text, `"items":[]`) {
		t.Errorf("the results of a hidden product: status %d, %s; want an empty list", status, text)
	}
	reader := web.Principal{Name: "reader", Rights: auth.Rights{Admitted: true, Products: []string{"app"}}, Write: func(string) bool { return false }}
	s.who = reader
	if status, text := s.ask(t, http.MethodPut, "/builds/1/coverage", result); status != http.StatusForbidden {
		t.Errorf("a result of a reader: status %d, %s; want 403", status, text)
	}
	pusher := reader
	pusher.Name, pusher.Write = "ci", func(p string) bool { return p == "app" }
	s.who = pusher
	if status, text := s.ask(t, http.MethodPut, "/builds/1/coverage", result); status != http.StatusOK || !strings.Contains(text, `"by":"ci"`) {
		t.Errorf("a result of a pusher: status %d, %s; want 200", status, text)
	}
	s.who.Identity.Uploads.Class = "nightly"
	if status, text := s.ask(t, http.MethodPut, "/builds/1/coverage", result); status != http.StatusForbidden {
		t.Errorf("a result with a token of another class: status %d, %s; want 403", status, text)
	}
	s.who = reader
	status, text := s.ask(t, http.MethodGet, "/coverage?product=app", nil)
	if want := `{"items":[{"build":1,"version":"","files":2,"covered":1,"require":["symbols"],"gaps":[{"path":"x","lacks":["symbols"]}],"checked":`; status != http.StatusOK || !strings.HasPrefix(text, want) {
		t.Errorf("the results of the product: status %d, %s; want %s", status, text, want)
	}
	if status, text = s.ask(t, http.MethodGet, "/builds/1", nil); status != http.StatusOK || !strings.Contains(text, `"coverage":{"files":2,`) || strings.Contains(text, "labels") {
		t.Errorf("the build: status %d, %s; want its coverage, and no labels", status, text)
	}
}

// TestCoverageRefused: questions and results that are not valid are refused with what is wrong; wrong names and ids
// only for the file that has them.
func TestCoverageRefused(t *testing.T) {
	t.Parallel()
	s := serveCoverage(t, webtest.DepotOf(t, map[string][]byte{"a.pdb": symtest.Testdata(t, "pdb/hello-x64.pdb")}), webtest.Insider)
	s.who.Write = func(string) bool { return true }
	one := []wire.CoverageFile{{Kind: "elf", Name: "a"}}
	for want, q := range map[string]wire.CoverageAsk{
		`"files"`:       {},
		`"files":"1 to`: {Files: make([]wire.CoverageFile, coverage.MaxFiles+1)},
		`"sources"`:     {Files: one, Sources: "forever"},
		`"not_sources"`: {Files: one, NotSources: []string{strings.Repeat("x", 501)}},
	} {
		if status, text := s.ask(t, http.MethodPost, "/coverage", q); status != http.StatusBadRequest || !strings.Contains(text, want) {
			t.Errorf("a question: status %d, %s; want 400 and %s", status, text, want)
		}
	}
	for want, f := range map[string]wire.CoverageFile{
		"kind":     {Kind: "pdb", Name: "a"},
		"name":     {Kind: "elf", Name: "../a"},
		"debug_id": {Kind: "elf", Name: "a", DebugID: "x"},
		"build_id": {Kind: "elf", Name: "a", BuildID: "x"},
		"code_id":  {Kind: "pe", Name: "a", CodeID: strings.Repeat("1", 200)},
		"pdbs":     {Kind: "pe", Name: "a", PDBs: []wire.CoveragePDB{{Name: "a/b", ID: strings.Repeat("1", 33)}}},
	} {
		list := s.look(t, wire.CoverageAsk{Files: []wire.CoverageFile{f, shipped(t, "pdb/hello-x64.exe")}})
		if !strings.HasPrefix(list[0].Error, want+":") || !list[1].Symbols.Here {
			t.Errorf("%+v: %+v; want an error of %s, and the answer for the other file", f, list, want)
		}
	}
	for want, c := range map[string]wire.BuildCoverage{
		`"covered"`: {Files: 1, Covered: 2, Require: []string{"symbols"}},
		`"files"`:   {Files: -1, Require: []string{"symbols"}},
		`"require"`: {Files: 1, Covered: 1, Require: []string{"colours"}},
		`"gaps"`:    {Files: 1, Covered: 1, Require: []string{"symbols"}, Gaps: []wire.CoverageGap{{Path: "x"}}},
		`"gaps":"e`: {Files: 1, Require: []string{"symbols"}, Gaps: []wire.CoverageGap{{Path: strings.Repeat("x", 301)}}},
	} {
		if status, text := s.ask(t, http.MethodPut, "/builds/1/coverage", c); status != http.StatusBadRequest || !strings.Contains(text, want) {
			t.Errorf("a result: status %d, %s; want 400 and %s", status, text, want)
		}
	}
	if status, text := s.ask(t, http.MethodPut, "/builds/7/coverage", wire.BuildCoverage{Require: []string{"symbols"}}); status != http.StatusNotFound {
		t.Errorf("a result of no build: status %d, %s; want 404", status, text)
	}
}

// TestCoverageBar: a build enters a class that demands a coverage only with that, or by force, which is recorded.
func TestCoverageBar(t *testing.T) {
	t.Parallel()
	d := webtest.DepotOf(t, map[string][]byte{"a.pdb": symtest.Testdata(t, "pdb/hello-x64.pdb")})
	policy := "retention:\n  classes:\n    - {name: release, coverage: 90%}\n    - {name: nightly, keep_within: 7d}\n"
	if _, err := d.Retention.SetPolicy(t.Context(), "policy", []byte(policy), "boss", -1); err != nil {
		t.Fatal(err)
	}
	s := serveCoverage(t, d, web.Principal{
		Name: "ci", Write: func(string) bool { return true }, Identity: auth.Identity{Name: "ci"},
		Rights: auth.Rights{Admitted: true, Products: []string{"app"}, Write: true, WriteProducts: []string{"app"}},
	})
	promote := func(want int, text string, q wire.TransactionChange) {
		t.Helper()
		if status, got := s.ask(t, http.MethodPatch, "/builds/1", q); status != want || !strings.Contains(got, text) {
			t.Errorf("%+v: status %d, %s; want %d and %s", q, status, got, want, text)
		}
	}
	keep := func(covered int64) {
		t.Helper()
		if status, text := s.ask(t, http.MethodPut, "/builds/1/coverage", wire.BuildCoverage{Files: 10, Covered: covered, Require: []string{"symbols"}}); status != http.StatusOK {
			t.Fatalf("status %d, %s; want 200", status, text)
		}
	}
	release, hold := wire.TransactionChange{Class: "release"}, &wire.HoldSpec{Reason: "GA"}
	promote(http.StatusConflict, "was not checked", release)
	keep(8)
	promote(http.StatusConflict, wire.ProblemType+wire.ProblemBelowBar, wire.TransactionChange{Class: "release", Hold: hold})
	if holds, err := d.Retention.Holds(t.Context(), 1); err != nil || len(holds) > 0 {
		t.Errorf("a refused promotion places the holds %v, %v; want none", holds, err)
	}
	promote(http.StatusOK, `"to":"nightly"`, wire.TransactionChange{Class: "nightly", Force: true})
	promote(http.StatusBadRequest, `"force"`, wire.TransactionChange{Hold: hold, Force: true})
	if len(s.recorded) > 0 {
		t.Errorf("recorded are %+v, want nothing: no bar was in the way", s.recorded)
	}
	promote(http.StatusOK, `"to":"release"`, wire.TransactionChange{Class: "release", Force: true})
	if len(s.recorded) != 1 || s.recorded[0].Action != auth.ActionForce || s.recorded[0].Who != "ci" || !strings.Contains(s.recorded[0].Detail, "80% (8 of 10 files)") {
		t.Errorf("recorded are %+v, want the forced promotion with what the coverage was", s.recorded)
	}
	keep(9)
	promote(http.StatusOK, `"to":"release"`, release)
}

// TestCoverageSources: sources are counted with their checksums, without those that do not count, and again when what
// the depot has changes.
func TestCoverageSources(t *testing.T) {
	t.Parallel()
	d := webtest.DepotOf(t, map[string][]byte{"a.pdb": symtest.Testdata(t, "pdb/hello-x64.pdb")})
	s := serveCoverage(t, d, webtest.Insider)
	q := wire.CoverageAsk{Files: []wire.CoverageFile{shipped(t, "pdb/hello-x64.exe")}, Sources: wire.SourcesLong}
	if a := s.look(t, q)[0]; a.Sources == nil || a.Sources.Named != 1 || a.Sources.Found != 0 || len(a.Sources.Missing) != 1 || a.Sources.Pending {
		t.Fatalf("the sources are %+v, want one that is missing", a.Sources)
	}
	q.NotSources = []string{"*/HELLO.c"}
	if a := s.look(t, q)[0]; a.Sources.Named != 0 || len(a.Sources.Missing) != 0 {
		t.Errorf("without those that do not count: %+v, want none", a.Sources)
	}
}

// BenchmarkCoverage asks a server that is 20 ms away for 1,000 files of which it has all, 500 at a time, as the command does.
func BenchmarkCoverage(b *testing.B) {
	const files = 1000
	stored, asks := map[string][]byte{}, []wire.CoverageFile{}
	text := "MODULE Linux x86_64 %032X0 lib%d.so\nFUNC 1000 10 0 f\n1000 10 1 0\nSTACK CFI INIT 1000 10 .cfa: $rsp 8 +\n"
	for i := range files {
		name := fmt.Sprintf("lib%d.so", i)
		stored[name+".sym"] = fmt.Appendf(nil, text, i+1, i)
		asks = append(asks, wire.CoverageFile{Kind: "elf", Name: name, DebugID: fmt.Sprintf("%032X0", i+1), BuildID: fmt.Sprintf("%040x", i+1)})
	}
	s := serveCoverage(b, webtest.DepotOf(b, stored), webtest.Insider)
	s.delay = 20 * time.Millisecond
	for b.Loop() {
		for part := range slices.Chunk(asks, 500) {
			body, err := json.Marshal(wire.CoverageAsk{Files: part, Sources: wire.SourcesBriefly})
			if err != nil {
				b.Fatal(err)
			}
			resp, err := http.Post(s.URL+wire.CoveragePath, "application/json", bytes.NewReader(body))
			if err != nil {
				b.Fatal(err)
			}
			var answer wire.CoverageAnswer
			err = json.NewDecoder(resp.Body).Decode(&answer)
			_ = resp.Body.Close()
			if err != nil || len(answer.Items) != len(part) || !answer.Items[0].Symbols.Here {
				b.Fatalf("%v, %d answers, the first %+v", err, len(answer.Items), answer.Items[:1])
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/1000files")
}
