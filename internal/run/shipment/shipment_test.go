package shipment

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/files/signature"
)

// collect collects copies of test files, by their new names.
func collect(t *testing.T, opt CollectOptions, files map[string]string) *Collected {
	t.Helper()
	dir := t.TempDir()
	for name, from := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, symtest.Testdata(t, from), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Collect(t.Context(), []string{dir}, opt)
	if err != nil {
		t.Fatal(err)
	}
	for i := range c.Files {
		rel, err := filepath.Rel(dir, c.Files[i].Path)
		if err != nil {
			t.Fatal(err)
		}
		c.Files[i].Path = filepath.ToSlash(rel)
	}
	return c
}

// TestCollect: programs and libraries ship, debug information beside them and compiler output do not.
func TestCollect(t *testing.T) {
	t.Parallel()
	c := collect(t, CollectOptions{Sums: []string{"SHA1", "SHA256", "WHIRLPOOL"}}, map[string]string{
		"a.exe": "pdb/hello-x64.exe", "a.pdb": "pdb/hello-x64.pdb", "b": "elf/prog-sha1.stripped", "b.debug": "elf/prog-sha1.debug",
		"c": "elf/prog-none", "d": "macho/app-fat", "e.o": "macho/m-arm64.o", "f.wasm": "wasm/w-sha1.wasm", "r.dll": "pe/resources.dll",
		"g": "macho/app-arm64.dSYM/Contents/Resources/DWARF/app-arm64", "readme": "README.md",
	})
	var got []string
	for _, f := range c.Files {
		got = append(got, fmt.Sprintf("%s %s %s %d %v", f.Path, f.Kind, f.Arch, len(f.Ask.PDBs), f.ID != ""))
	}
	want := []string{"a.exe pe x86_64 1 true", "b elf x86_64 0 true", "c elf x86_64 0 true", "d macho x86_64 0 true", "d macho arm64 0 true", "f.wasm wasm wasm32 0 true"}
	if !slices.Equal(got, want) {
		t.Errorf("what ships is %q, want %q", got, want)
	}
	if c.Unneeded != 1 || len(c.Left) != 0 || c.Unreadable != nil {
		t.Errorf("%d images without code, left out %q, unreadable %v; want 1, none, nil", c.Unneeded, c.Left, c.Unreadable)
	}
	if got := slices.Sorted(maps.Keys(c.Files[0].Sums)); !slices.Equal(got, []string{"SHA1", "SHA256"}) {
		t.Errorf("the hashes are %q, want SHA1 and SHA256", got)
	}
	for i, file := range []string{"a.pdb", "b.debug"} {
		if path := c.localSymbols(&c.Files[i]); !strings.HasSuffix(path, file) {
			t.Errorf("the symbols of %s lie in %q, want %s", c.Files[i].Path, path, file)
		}
	}
}

// file is a file that ships, for tests of judgements.
func file(kind, arch string, pdbs ...wire.CoveragePDB) File {
	return File{Path: "dist/f", Kind: kind, Arch: arch, ID: "id", Ask: wire.CoverageFile{Kind: kind, Name: "f", BuildID: "aa", PDBs: pdbs}}
}

var (
	native   = wire.CoveragePDB{Name: "f.pdb", ID: "F9EFE0B6AE7500394C4C44205044422E1"}
	portable = wire.CoveragePDB{Name: "f.pdb", ID: "F9EFE0B6AE7500394C4C44205044422EFFFFFFFF", Portable: true}
)

func here(features ...string) wire.CoverageHeld {
	return wire.CoverageHeld{Here: true, Features: append([]string{}, features...)}
}

// TestJudge: states and gaps of files, by the answers of a depot.
func TestJudge(t *testing.T) {
	t.Parallel()
	managed := file("pe", "x86_64", portable)
	managed.Managed = true
	leaf := file("pe", "x86_64", native)
	leaf.NoUnwind = true
	noPDB := file("pe", "x86_64")
	bare := file("elf", "x86_64")
	bare.NoUnwind = true
	all := func(n, found, linked int64) *wire.CoverageSources {
		return &wire.CoverageSources{Named: n, Found: found, Linked: linked, Missing: []string{"x.c"}}
	}
	const every = "symbols lines unwind sources program"
	for name, c := range map[string]struct {
		f       File
		a       wire.Coverage
		require string
		states  string // symbols, lines, unwind, sources, program
		gaps    string // parts of the causes
	}{
		"all": {
			file("elf", "x86_64"), wire.Coverage{Symbols: here("debug"), Program: here("unwind"), Unwind: true, Sources: all(2, 1, 1)}, every,
			"yes yes yes yes yes", "",
		},
		"nothing": {
			file("elf", "x86_64"), wire.Coverage{Verdict: "missing-others"}, every, "no no no no no",
			"symbols: is not stored|lines: is not stored|unwind: no stored file|sources: is not stored|program: the file itself",
		},
		"names only":      {file("pe", "x86_64", native), wire.Coverage{Symbols: here("symtab", "public")}, "lines", "yes no no unknown no", "lines: names only"},
		"other link":      {file("pe", "x86", native), wire.Coverage{Verdict: wire.CoverageLater, LaterAge: 5}, "symbols", "no no no no no", "symbols: the age 5"},
		"other build":     {file("elf", "arm64"), wire.Coverage{Verdict: "other-build"}, "symbols", "no no no no no", "symbols: only that of other builds"},
		"no id":           {file("elf", "arm64"), wire.Coverage{Verdict: wire.CoverageNoID}, "symbols", "no no no no no", "symbols: no build id"},
		"no PDB":          {noPDB, wire.Coverage{Verdict: "missing-others"}, "symbols", "no no no no no", "symbols: names no PDB"},
		"a .NET assembly": {managed, wire.Coverage{Symbols: here("debug"), Sources: all(0, 0, 0)}, "unwind sources", "yes yes none none no", ""},
		"leaf functions":  {leaf, wire.Coverage{Symbols: here("debug"), Program: here()}, "unwind", "yes yes none unknown yes", ""},
		"no unwind data":  {bare, wire.Coverage{Symbols: here("debug"), Program: here()}, "unwind", "yes yes no unknown yes", "unwind: neither"},
		"in place":        {file("elf", "x86_64"), wire.Coverage{Symbols: wire.CoverageHeld{Here: true}}, "lines unwind", "yes unknown unknown unknown no", "lines: in place|unwind: in place"},
		"a source lacks": {
			file("elf", "x86_64"), wire.Coverage{Symbols: here("debug"), Sources: all(3, 1, 1)}, "sources", "yes yes no no no", "sources: 1 of 3 sources are not found, such as x.c",
		},
		"being counted": {
			file("elf", "x86_64"), wire.Coverage{Symbols: here("debug"), Sources: &wire.CoverageSources{Pending: true}}, "sources", "yes yes no unknown no", "sources: not counted yet",
		},
		"not valid": {file("elf", "x86_64"), wire.Coverage{Error: "build_id: it is wrong"}, "symbols", "no no no no no", "symbols: build_id: it is wrong"},
	} {
		col := &Collected{Files: []File{c.f}, Symbols: map[string]string{}}
		r := Judge(col, []wire.Coverage{c.a}, &Rules{}, strings.Fields(c.require))[0]
		var states []string
		for _, what := range wire.Requirements {
			states = append(states, string(r.States[what]))
		}
		if got := strings.Join(states, " "); got != c.states {
			t.Errorf("%s: the states are %s, want %s", name, got, c.states)
		}
		var want []string
		if c.gaps != "" {
			want = strings.Split(c.gaps, "|")
		}
		ok := len(want) == len(r.Gaps) && r.Covered == (len(want) == 0)
		for i := 0; ok && i < len(want); i++ {
			lacks, part, _ := strings.Cut(want[i], ": ")
			ok = r.Gaps[i].Lacks == lacks && strings.Contains(r.Gaps[i].Why, part) && r.Gaps[i].Next != ""
		}
		if !ok {
			t.Errorf("%s: the gaps are %+v, covered %v; want %q", name, r.Gaps, r.Covered, want)
		}
	}
}

// TestRules: which rules a text has, and which paths they allow.
func TestRules(t *testing.T) {
	t.Parallel()
	r := &Rules{}
	if err := r.Parse("f", "# comment\n\nallow *.DLL by others\r\nallow third/*/x.so  a reason\nallow \"a b*\" quoted\nsource /opt/*\n"); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"dist/a.dll": "by others", `x\Y.Dll`: "by others", "z.zip!/third/v1/x.so": "a reason", "x.so": "", "nothird/v1/x.so": "",
		"a bc": "quoted", "third/x.so": "",
	} {
		got := ""
		if rule := r.allows(path); rule != nil {
			got = rule.Reason
		}
		if got != want {
			t.Errorf("%s is allowed for %q, want %q", path, got, want)
		}
	}
	if len(r.Unused()) != 0 || !slices.Contains(r.SourcePatterns(), "/opt/*") {
		t.Errorf("unused %v, sources %v; want none, and /opt/*", r.Unused(), r.SourcePatterns())
	}
	for text, want := range map[string]string{
		"deny x y": `"deny" is not a rule`, "allow": "a pattern of 1 to", "allow x": "the reason is missing", `allow "x y`: "a quotation mark",
		"source " + strings.Repeat("x", 501): "a pattern of 1 to", "\n\nallow": "f:3:",
	} {
		err := (&Rules{}).Parse("f", text)
		if _, usage := errors.AsType[term.UsageError](err); !usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want a usage error with %q", text, err, want)
		}
	}
}

// TestSigners: files that only others have signed need no symbols.
func TestSigners(t *testing.T) {
	t.Parallel()
	vendor, own := signature.Signer{Name: "Vendor Signing", Organization: "Vendor Inc."}, signature.Signer{Name: "x", Organization: "Example Ltd.", Team: "ABCDE12345"}
	for _, c := range []struct {
		own     []string
		signers []signature.Signer
		want    string
	}{
		{nil, []signature.Signer{vendor}, ""},
		{[]string{"example*"}, []signature.Signer{vendor}, "signed by Vendor Inc."},
		{[]string{"example*"}, []signature.Signer{own}, ""},
		{[]string{"abcde12345"}, []signature.Signer{own}, ""},
		{[]string{"example*"}, []signature.Signer{vendor, own}, ""},
		{[]string{"example*"}, nil, ""},
		{[]string{"", "*ndor signing"}, []signature.Signer{vendor}, ""},
	} {
		f := file("pe", "x86_64", native)
		f.Signers = c.signers
		r := Judge(&Collected{Files: []File{f}}, []wire.Coverage{{}}, &Rules{OwnSigners: c.own}, []string{wire.RequireSymbols})[0]
		if r.Allowed != c.want || r.Covered != (c.want != "") {
			t.Errorf("signed by %v, own %q: allowed %q, covered %v; want %q", c.signers, c.own, r.Allowed, r.Covered, c.want)
		}
	}
}

// TestUnread: an archive that cannot be read is no file that passes, unless a rule allows it.
func TestUnread(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, data := range map[string]string{
		"a.msi": string(symtest.Testdata(t, "scan/sample.msi")), "b.msi": string(symtest.Testdata(t, "scan/outside.msi")),
		"c.7z": "7z\xbc\xaf\x27\x1c", "d.dmg": "encrcdsa\x00\x00\x00\x02", "e.txt": "text",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Collect(t.Context(), []string{dir}, CollectOptions{})
	if err != nil || len(c.Files) != 2 || len(c.Unread) != 3 || len(c.Left) != 0 {
		t.Fatalf("%+v, %v; want 2 programs of a package, and 3 archives that are not read", c, err)
	}
	rules := &Rules{}
	if err := errors.Join(rules.AllowFlag("*.7z"), rules.AllowFlag("*.exe")); err != nil {
		t.Fatal(err)
	}
	r := &Report{Results: Judge(c, make([]wire.Coverage, 2), rules, []string{wire.RequireSymbols}), Require: []string{wire.RequireSymbols}, FailUnder: 1}
	s := r.Summary()
	if s.Files != 2 || s.Covered != 0 || s.Allowed != 3 || s.Passed || len(rules.Unused()) != 0 {
		t.Errorf("the sums are %+v; want 2 archives that are not covered", s)
	}
	var table bytes.Buffer
	if err := r.Print(&table); err != nil || !strings.Contains(table.String(), "d.dmg: what is in it is not known: encrypted") ||
		!strings.Contains(table.String(), "one.cab: it lies outside of the package") {
		t.Errorf("%v, the table is %s; want the reasons", err, table.String())
	}
	if text, err := r.SARIF(); err != nil || !bytes.Contains(text, []byte("b.msi")) {
		t.Errorf("%v, SARIF %s; want the package in it", err, text)
	}
}

// FuzzRules: no text makes the parser or the matching fail.
func FuzzRules(f *testing.F) {
	for _, seed := range []string{"allow *.dll reason", "allow \"a b\" c\nsource x", "#\n\r\nallow a/*/b c", "allow ***?? \x00"} {
		f.Add(seed, "dist/a.dll")
	}
	f.Fuzz(func(t *testing.T, text, path string) {
		r := &Rules{}
		if err := r.Parse("f", text); err != nil {
			return
		}
		for _, rule := range r.Allow {
			if rule.Pattern == "" || rule.Reason == "" {
				t.Fatalf("%q has the rule %+v, want a pattern and a reason", text, rule)
			}
		}
		r.allows(path)
	})
}

// fakeDepot has the symbols of files whose names begin with have, and counts sources in two rounds.
type fakeDepot struct {
	mu    sync.Mutex
	asked []int // files of each question
	long  int
	came  bool // what upstreams have
}

func (d *fakeDepot) Coverage(_ context.Context, q wire.CoverageAsk) (list []wire.Coverage, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, len(q.Files))
	if q.Sources == wire.SourcesLong {
		d.long++
	}
	for _, f := range q.Files {
		c := wire.Coverage{Symbols: wire.CoverageHeld{Here: strings.HasPrefix(f.Name, "have") || d.came}}
		if c.Symbols.Here {
			c.Sources = &wire.CoverageSources{Named: 1, Found: 1, Pending: d.long < 2}
		}
		list = append(list, c)
	}
	return list, nil
}

// TestAsk: equal files are asked for once, 500 at a time, and sources until they are counted.
func TestAsk(t *testing.T) {
	t.Parallel()
	var files []File
	for i := range 1200 {
		files = append(files, File{Ask: wire.CoverageFile{Kind: "elf", Name: fmt.Sprint([]string{"have", "lack"}[i%2], i%1100), BuildID: "aa"}})
	}
	d := &fakeDepot{}
	list, err := Ask(t.Context(), d, files, AskOptions{})
	slices.Sort(d.asked)
	if err != nil || len(list) != 1200 || !slices.Equal(d.asked, []int{100, 500, 500}) || d.long != 0 {
		t.Errorf("%d answers, %v, questions of %v files, %d long ones; want 1200, and 500, 500, 100", len(list), err, d.asked, d.long)
	}
	for i, c := range list {
		if c.Symbols.Here != (i%2 == 0) {
			t.Fatalf("the answer for file %d is %+v", i, c)
		}
	}
	d = &fakeDepot{}
	if _, err := Ask(t.Context(), d, files[:2], AskOptions{Sources: true}); err != nil || !slices.Equal(d.asked, []int{2, 1, 1}) {
		t.Errorf("%v, questions of %v files; want 2, and twice that whose sources are not counted", err, d.asked)
	}
	d = &fakeDepot{}
	var paths []string
	if list, err = Ask(t.Context(), d, files[:2], AskOptions{Upstreams: func(_ context.Context, path string) (bool, error) {
		paths = append(paths, path)
		d.came = true
		return true, nil
	}}); err != nil || !slices.Equal(paths, []string{"buildid/aa/debuginfo"}) || !list[1].Symbols.Here {
		t.Errorf("%v, upstreams were asked for %q, and then it is %+v; want the missing file, and then that it is here", err, paths, list[1])
	}
}

// report is a report with a covered file, one with gaps and an allowed one, whose names are hostile.
func report(t *testing.T) *Report {
	t.Helper()
	c := &Collected{Symbols: map[string]string{}}
	for _, name := range []string{"dist/good", "dist/a|b<c>&\"'\x1b[31m::x,%\u202e.so", "dist/third.dll"} {
		f := file("elf", "x86_64")
		f.Path = name
		c.Files = append(c.Files, f)
	}
	rules := &Rules{}
	if err := rules.AllowFlag("third*"); err != nil {
		t.Fatal(err)
	}
	require := []string{wire.RequireSymbols, wire.RequireLines}
	results := Judge(c, []wire.Coverage{{Symbols: here("debug"), Layouts: map[string]string{"gdb": wire.CoverageMissing, "debuginfod": wire.CoverageHere}}, {}, {}}, rules, require)
	return &Report{Results: results, Require: require, FailUnder: 60, Tool: "1"}
}

// TestFormats: all forms are well-formed and have the same result, whatever names the files have.
func TestFormats(t *testing.T) {
	t.Parallel()
	r := report(t)
	if s := r.Summary(); s.Files != 2 || s.Covered != 1 || s.Percent != 50 || s.Allowed != 1 || s.Passed || s.Met[wire.RequireSymbols] != 1 {
		t.Errorf("the sums are %+v", s)
	}
	if b := r.Build(); b.Files != 2 || b.Covered != 1 || len(b.Gaps) != 1 || !slices.Equal(b.Gaps[0].Lacks, r.Require) {
		t.Errorf("a server keeps %+v", b)
	}
	text, err := r.JUnit()
	var suites junitSuites
	if err := errors.Join(err, xml.Unmarshal(text, &suites)); err != nil || suites.Tests != 3 || suites.Failures != 1 || suites.Suite.Skipped != 1 {
		t.Errorf("JUnit: %v, %+v; want 3 tests, 1 failure, 1 skipped", err, suites)
	}
	text, err = r.SARIF()
	var log sarif
	if err := errors.Join(err, json.Unmarshal(text, &log)); err != nil || len(log.Runs[0].Results) != 1 || len(log.Runs[0].Tool.Driver.Rules) != 5 {
		t.Errorf("SARIF: %v, %s; want one result", err, text)
	}
	if err := xml.Unmarshal(r.Badge(), new(struct{ XMLName xml.Name })); err != nil || !bytes.Contains(r.Badge(), []byte(">50 %<")) {
		t.Errorf("badge: %v, %s; want XML with 50 %%", err, r.Badge())
	}
	var annotations, table, lines bytes.Buffer
	r.GitHub(&annotations)
	if n := strings.Count(annotations.String(), "\n"); n != 1 || strings.Count(annotations.String(), "::") < 2 || strings.ContainsAny(annotations.String(), "\x1b\u202e") ||
		!strings.HasPrefix(annotations.String(), "::error file=dist/a|b<c>&\"'?[31m%3A%3Ax%2C%25?.so,title=") {
		t.Errorf("annotations %q, want one line without control characters, and the path escaped", annotations.String())
	}
	if md := string(r.Markdown()); strings.Count(md, "\n| dist/") != 3 || !strings.Contains(md, `dist/a\|b\<c\>\&`) {
		t.Errorf("Markdown %s, want three rows with escaped names", md)
	}
	if err := errors.Join(r.Print(&table), r.PrintJSON(&lines)); err != nil || strings.ContainsAny(table.String(), "\x1b\u202e") || strings.Count(lines.String(), "\n") != 4 {
		t.Errorf("%v: table %q, JSON %s; want no control characters, and four lines", err, table.String(), lines.String())
	}
	if i, j := strings.Index(table.String(), "FILE"), strings.Index(table.String(), "symbols: 1 file"); j < 0 || i < j {
		t.Errorf("the table is %s; want the gaps first", table.String())
	}
	if !strings.Contains(table.String(), "no  gdb") && !strings.Contains(table.String(), "gdb\n") {
		t.Errorf("the table is %s; want the layout that lacks the file", table.String())
	}
}
