package needed

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/dump"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

const testdata = "../../../testdata"

var (
	guid = debugid.GUID{0x49, 0x7b, 0x72, 0xf6, 0x39, 0x0a, 0x44, 0xfc, 0x87, 0x8e, 0x5a, 0x2d, 0x63, 0xb6, 0xcc, 0x4b}
	elf  = debugid.BuildID("adac45aa231bba3143d7af433767c61f31021c16")
)

func paths(wants []Want) []string {
	var list []string
	for _, w := range wants {
		list = append(list, w.Path)
	}
	return list
}

// TestModule: the files that a module of a dump needs, by the kinds of its ids.
func TestModule(t *testing.T) {
	t.Parallel()
	const key = "497B72F6390A44FC878E5A2D63B6CC4B"
	for _, c := range []struct {
		name string
		m    dump.Module
		want []string
	}{
		{"Windows", dump.Module{Name: "app.exe", Code: debugid.PE{TimeDateStamp: 0x5ab38077, SizeOfImage: 0x9000}, Debug: []dump.Debug{{Name: "app.pdb", ID: debugid.ID{GUID: guid, Age: 0x1a}}}},
			[]string{"app.exe/5AB380779000/app.exe", "app.pdb/" + key + "1a/app.pdb"}},
		{"no debug information", dump.Module{Name: "app.exe", Code: debugid.PE{TimeDateStamp: 1, SizeOfImage: 0x1000}}, []string{"app.exe/000000011000/app.exe"}},
		{"precompiled .NET", dump.Module{Name: "a.dll", Debug: []dump.Debug{{Name: "a.ni.pdb", ID: debugid.ID{GUID: guid, Age: 1}}, {Name: "a.pdb", ID: debugid.ID{GUID: guid, Age: 2}, Portable: true}}},
			[]string{"a.ni.pdb/" + key + "1/a.ni.pdb", "a.pdb/" + key + "FFFFFFFF/a.pdb"}},
		{"Linux", dump.Module{Name: "libc.so.6", BuildID: elf}, []string{"buildid/" + string(elf) + "/debuginfo", "buildid/" + string(elf) + "/executable"}},
		{"macOS", dump.Module{Name: "libSystem.B.dylib", UUID: guid}, []string{"497B/72F6/390A/44FC/878E/5A2D63B6CC4B"}},
		{"name outside ASCII", dump.Module{Name: "größe.exe", Code: debugid.PE{TimeDateStamp: 1, SizeOfImage: 0x1000}}, []string{"größe.exe/000000011000/größe.exe"}},
		{"no id", dump.Module{Name: "old.dll"}, nil},
		{"no name", dump.Module{Code: debugid.PE{TimeDateStamp: 1, SizeOfImage: 0x1000}}, nil},
	} {
		got := ofModule(&c.m, "crash.dmp")
		if !slices.Equal(paths(got), c.want) {
			t.Errorf("%s: %v, want %v", c.name, paths(got), c.want)
		}
		for _, w := range got {
			if _, err := w.Request(); err != nil || w.From != "crash.dmp" || w.ID == "" {
				t.Errorf("%s: %+v is not a request with an id (error %v)", c.name, w, err)
			}
		}
	}
}

// TestOf: names and ids as people write them.
func TestOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, id, path string }{
		{"a.pdb", "497B72F6390A44FC878E5A2D63B6CC4B1", "a.pdb/497B72F6390A44FC878E5A2D63B6CC4B1/a.pdb"},
		{` "a.pdb" `, " 497b72f6390a44fc878e5a2d63b6cc4b1", "a.pdb/497b72f6390a44fc878e5a2d63b6cc4b1/a.pdb"},
		{`c:\x\a.exe`, "5AB380779000", "a.exe/5AB380779000/a.exe"},
		{"größe.pdb", "497B72F6390A44FC878E5A2D63B6CC4B1", "größe.pdb/497B72F6390A44FC878E5A2D63B6CC4B1/größe.pdb"},
		{"a.pdb.sym", "497B72F6390A44FC878E5A2D63B6CC4B1", "a.pdb/497B72F6390A44FC878E5A2D63B6CC4B1/a.pdb.sym"},
		{"", "5AB380779000", ""}, {"a.exe", "", ""}, {"a.exe", "..", ""}, {"..", "5AB380779000", ""}, {"a.exe", "not an id", ""}, {"a.exe", "x/y", ""},
	} {
		w, err := Of(c.name, c.id, "")
		if c.path == "" {
			if err == nil {
				t.Errorf("Of(%q, %q) = %+v, want an error", c.name, c.id, w)
			}
			continue
		}
		if err != nil || w.Path != c.path {
			t.Errorf("Of(%q, %q): path %q, error %v; want %q", c.name, c.id, w.Path, err, c.path)
		}
	}
}

// TestManifest: the lines of a manifest that are understood, and the reports of
// the others.
func TestManifest(t *testing.T) {
	t.Parallel()
	var l List
	err := l.Manifest("needed.txt", "; a comment\n# another\n\n  \"a.pdb\",497B72F6390A44FC878E5A2D63B6CC4B1,1\r\na.exe,5AB380779000\nA.EXE,5ab380779000\nnokey\na,b,c,d\nb.dll,??\n")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"a.pdb/497B72F6390A44FC878E5A2D63B6CC4B1/a.pdb", "a.exe/5AB380779000/a.exe"}; !slices.Equal(paths(l.Wants), want) {
		t.Errorf("wants %v, want %v", paths(l.Wants), want)
	}
	for i, line := range []string{"line 7: not name,key", "line 8: not name,key", "line 9: "} {
		if i >= len(l.Bad) || !strings.Contains(l.Bad[i], line) {
			t.Errorf("bad lines %q, want one with %q at %d", l.Bad, line, i)
		}
	}
	if err := l.Manifest("long.txt", strings.Repeat("x", 2<<20)); err == nil || !strings.Contains(err.Error(), "long.txt, line 1") {
		t.Errorf("a line of 2 MiB: error %v, want one that names the line", err)
	}
}

// TestFiles: the files that programs of each platform need, and files that need
// none.
func TestFiles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file string
		want []string
		self bool // a symbol file
	}{
		{"pdb/hello-x64.exe", []string{"hello-x64.pdb/F9EFE0B6AE7500394C4C44205044422E1/hello-x64.pdb"}, false},
		{"pdb/hello-x64.pdb", nil, true},
		{"elf/prog-sha1.stripped", []string{"buildid/" + string(elf) + "/debuginfo"}, false},
		{"elf/prog-sha1", nil, true},
		{"elf/README.md", nil, false},
	} {
		var l List
		if err := l.Local(t.Context(), filepath.Join(testdata, c.file)); err != nil {
			t.Errorf("%s: Local: error %v, want no error", c.file, err)
		}
		if !slices.Equal(paths(l.Wants), c.want) || (len(l.SymbolFiles) > 0) != c.self {
			t.Errorf("%s: wants %v, symbol files %v; want %v, %v", c.file, paths(l.Wants), l.SymbolFiles, c.want, c.self)
		}
	}
	var l List
	if err := l.Local(t.Context(), filepath.Join(testdata, "minidump", "test_app.dmp")); err != nil || len(l.Wants) != 26 {
		t.Errorf("a dump of 13 modules: %d wants, error %v; want 26", len(l.Wants), err)
	}
	cut := filepath.Join(t.TempDir(), "cut.dmp")
	if err := os.WriteFile(cut, []byte("MDMP\x93\xa7"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := l.Local(t.Context(), cut); err == nil || !strings.Contains(err.Error(), "cut.dmp") {
		t.Errorf("a cut dump: error %v, want one that names it", err)
	}
}

// TestPlaces: where files of a dump are written, by layout.
func TestPlaces(t *testing.T) {
	t.Parallel()
	module := func(m dump.Module) []Want { return ofModule(&m, "crash.dmp") }
	windows := module(dump.Module{Name: "App.exe", Code: debugid.PE{TimeDateStamp: 1, SizeOfImage: 0x1000}, Debug: []dump.Debug{{Name: "app.pdb", ID: debugid.ID{GUID: guid, Age: 1}}}})
	linux := module(dump.Module{Name: "libc.so.6", BuildID: elf})
	mac := module(dump.Module{Name: "libz.dylib", UUID: guid})
	byPath, err := OfPath("buildid/" + string(elf) + "/debuginfo")
	if err != nil {
		t.Fatal(err)
	}
	byName, err := Of("ntdll.pdb", "497b72f6390a44fc878e5a2d63b6cc4b1", "")
	if err != nil {
		t.Fatal(err)
	}
	const id = string("adac45aa231bba3143d7af433767c61f31021c16")
	for _, c := range []struct {
		l     layout.Layout
		wants []Want
		want  []string
	}{
		{layout.Flat, windows, []string{"App.exe", "app.pdb"}},
		{layout.Flat, linux, []string{"libc.so.6.debug", "libc.so.6"}},
		{layout.Flat, append(windows[:1:1], Want{Name: "APP.EXE", ID: "X", Path: "APP.EXE/X/APP.EXE"}), []string{"App.exe-000000011000", "APP.EXE-X"}},
		{layout.GDB, linux, []string{".build-id/ad/" + id[2:] + ".debug", ".build-id/ad/" + id[2:]}},
		{layout.GDB, []Want{byPath}, []string{".build-id/ad/" + id[2:] + ".debug"}},
		{layout.GDB, windows, []string{"App.exe", "app.pdb"}}, // no path in that layout
		{layout.SymStore, windows, []string{"App.exe/000000011000/App.exe", "app.pdb/497B72F6390A44FC878E5A2D63B6CC4B1/app.pdb"}},
		{layout.SymStore, []Want{byName}, []string{"ntdll.pdb/497B72F6390A44FC878E5A2D63B6CC4B1/ntdll.pdb"}},
		{layout.Index2, []Want{byName}, []string{"nt/ntdll.pdb/497B72F6390A44FC878E5A2D63B6CC4B1/ntdll.pdb"}},
		{layout.SSQP, windows[1:], []string{"app.pdb/497b72f6390a44fc878e5a2d63b6cc4b1/app.pdb"}},
		{layout.Unified, linux, []string{"ad/" + id[2:] + "/debuginfo", "ad/" + id[2:] + "/executable"}},
		{layout.Debuginfod, []Want{byPath}, []string{"buildid/" + id + "/debuginfo"}},
		{layout.LLDB, mac, []string{"497B/72F6/390A/44FC/878E/5A2D63B6CC4B"}},
	} {
		place := Places(c.wants, c.l)
		for i, w := range c.wants {
			got, err := place(w)
			if err != nil || filepath.ToSlash(got) != c.want[i] {
				t.Errorf("layout %s: %s is written to %q, error %v; want %q", c.l, w.Path, got, err, c.want[i])
			}
		}
	}
	for _, l := range layout.Folders() { // no layout leads out of the folder
		for _, w := range slices.Concat(windows, linux, mac, []Want{byPath, byName}) {
			if got, err := Places([]Want{w}, l)(w); err != nil || !filepath.IsLocal(got) {
				t.Errorf("layout %s: %s is written to %q, error %v; want a path below the folder", l, w.Path, got, err)
			}
		}
	}
}

// TestUnsafeNames: names from a dump that are refused.
func TestUnsafeNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{".bashrc", "-rf", "a.exe:stream", ""} {
		w := Want{Name: name, ID: "1", Path: name + "/1/" + name, From: "crash.dmp"}
		if got, err := Places([]Want{w}, layout.Flat)(w); err == nil {
			t.Errorf("the name %q of a dump is written to %q, want an error", name, got)
		}
	}
}

// TestDebugger: the hint that get prints, by layout and platform.
func TestDebugger(t *testing.T) {
	t.Parallel()
	windows := []Want{{Name: "a.exe", Object: symfile.Object{Kind: symfile.PE, Role: symfile.Executable, Name: "a.exe", CodeID: "000000011000"}, Path: "a.exe/000000011000/a.exe"}}
	linux := []Want{{Name: "a", Object: symfile.Object{Kind: symfile.ELF, Role: symfile.Debug, Name: "a", BuildID: elf}, Path: "buildid/" + string(elf) + "/debuginfo"}}
	mac := []Want{{Name: "a", Object: symfile.Object{Kind: symfile.MachO, Role: symfile.Debug, Name: "a", DebugID: debugid.ID{GUID: guid}}, Path: "497B/72F6/390A/44FC/878E/5A2D63B6CC4B"}}
	for _, c := range []struct {
		wants         []Want
		l             layout.Layout
		program, want string
	}{
		{windows, layout.Flat, "", "WinDbg: .sympath out"},
		{windows, layout.SymStore, "", "WinDbg: .sympath srv*out"},
		{windows, layout.GDB, "", "WinDbg: .sympath out"},
		{windows, layout.Unified, "", ""},
		{linux, layout.Flat, "out/a", "gdb out/a core"},
		{linux, layout.Flat, "", "gdb: add-symbol-file, or use symdepot get --layout gdb"},
		{linux, layout.GDB, "app", "gdb -iex 'set debug-file-directory out' app core"},
		{linux, layout.SymStore, "", "gdb: add-symbol-file, or use symdepot get --layout gdb"},
		{mac, layout.Flat, "", "lldb: settings append target.debug-file-search-paths out"},
		{nil, layout.Flat, "", ""},
	} {
		if got := Debugger(c.wants, c.l, "out", "core", c.program); got != c.want {
			t.Errorf("layout %s, program %q: hint %q, want %q", c.l, c.program, got, c.want)
		}
	}
}

// TestDebuggerFile: the hint for one file that was written under a name of its own.
func TestDebuggerFile(t *testing.T) {
	t.Parallel()
	at := func(name string) string { return filepath.Join("out", name) }
	for _, c := range []struct {
		w                Want
		file, dump, want string
	}{
		{Want{Name: "a.pdb", Object: symfile.Object{Kind: symfile.PDB}}, at("A.PDB"), "a.exe", "WinDbg: .sympath out"},
		{Want{Name: "a.pdb", Object: symfile.Object{Kind: symfile.PDB}}, at("b.pdb"), "a.exe", "WinDbg: name it a.pdb, then .sympath out"},
		{Want{Name: "a", Object: symfile.Object{Kind: symfile.ELF, Role: symfile.Debug}}, at("a.debug"), "a", "gdb -s " + at("a.debug") + " -e a"},
		{Want{Name: "a", Object: symfile.Object{Kind: symfile.ELF, Role: symfile.Executable}}, at("a"), "core", "gdb " + at("a") + " core"},
		{Want{Name: "a", Object: symfile.Object{Kind: symfile.MachO}}, at("a"), "x", "lldb: target symbols add " + at("a")},
		{Want{Name: "a.sym", Object: symfile.Object{Kind: symfile.Breakpad}}, at("a.sym"), "x", ""},
	} {
		if got := DebuggerFile(c.w, c.file, c.dump); got != c.want {
			t.Errorf("%s as %s: hint %q, want %q", c.w.Name, c.file, got, c.want)
		}
	}
}

// TestFetch: files that the depot has, and files that no upstream has; the
// report names each missing file once with its parts.
func TestFetch(t *testing.T) {
	t.Parallel()
	d, err := depot.Open(t.Context(), filepath.Join(t.TempDir(), "depot"), depot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	addFile(t, d, filepath.Join(testdata, "pdb", "hello-x64.pdb"))
	had, err := Of("hello-x64.pdb", "F9EFE0B6AE7500394C4C44205044422E1", "")
	if err != nil {
		t.Fatal(err)
	}
	missing := ofModule(&dump.Module{Name: "libc.so.6", BuildID: elf}, "core")
	var report Report
	results := map[string]string{}
	if err := Fetch(t.Context(), d, append([]Want{had}, missing...), 2, nil, func(o Outcome) {
		report.Add(o)
		results[o.Path] = o.Result
	}); err != nil {
		t.Fatal(err)
	}
	if results[had.Path] != InDepot || results[missing[0].Path] != Missing || results[missing[1].Path] != Missing {
		t.Errorf("results %v, want the PDB had and both parts of libc.so.6 missing", results)
	}
	if want := []string{"missing: libc.so.6 " + string(elf) + " (program, debug information): not in the depot"}; !slices.Equal(report.MissingLines(time.Now()), want) {
		t.Errorf("report %q, want %q", report.MissingLines(time.Now()), want)
	}
	got, fromDepot, err := Open(t.Context(), d, had)
	if err != nil || !fromDepot {
		t.Fatalf("open: from the depot %v, error %v; want true, nil", fromDepot, err)
	}
	defer got.Close()
	if n, err := io.Copy(io.Discard, Reader(got)); err != nil || n != got.Size {
		t.Errorf("read %d bytes, error %v; want %d", n, err, got.Size)
	}
	if _, _, err := Open(t.Context(), d, missing[0]); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open of a missing file: error %v, want %v", err, fs.ErrNotExist)
	}
}

// content is a file that does not change.
type content struct{ *os.File }

func (c content) Size() int64 {
	info, err := c.Stat()
	if err != nil {
		return 0
	}
	return info.Size()
}

func (content) Changed() bool { return false }

// TestMissingLines: the report of missing files for users, with the remaining
// time of a remembered miss.
func TestMissingLines(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var r Report
	r.Add(Outcome{Want: Want{Name: "a.pdb", ID: "1", Path: "a.pdb/1/a.pdb"}, Result: Missing, Upstreams: []string{"corp", "microsoft"}, Until: now.Add(90 * time.Minute)})
	r.Add(Outcome{Want: Want{Name: "b.pdb", ID: "2", Path: "b.pdb/2/b.pdb"}, Result: Failed, Error: "disk is full"})
	r.Add(Outcome{Want: Want{Name: "c.pdb", ID: "3", Path: "c.pdb/3/c.pdb"}, Result: Missing, Upstreams: []string{"corp"}})
	r.Add(Outcome{Want: Want{Name: "e.pdb", ID: "5", Path: "e.pdb/5/e.pdb"}, Result: Missing, Upstreams: []string{"corp", "microsoft"}, Refusals: []string{"corp: 403 Forbidden"}})
	r.Add(Outcome{Want: Want{Name: "d\x1b[31m", ID: "4", Path: "d/4/d"}, Result: Missing})
	want := []string{
		"missing: a.pdb 1: not on corp, microsoft; remembered for 90 min, see symdepot cache forget",
		"failed: b.pdb 2: disk is full", "missing: c.pdb 3: not on corp",
	}
	got := r.MissingLines(now)
	if len(got) != 5 || !slices.Equal(got[:3], want) || strings.Contains(got[4], "\x1b") {
		t.Errorf("lines %q, want %q and two more, one without the escape character", got, want)
	} else if want := "missing: e.pdb 5: not on corp, microsoft (corp: 403 Forbidden)"; got[3] != want {
		t.Errorf("line %q, want %q", got[3], want)
	}
	for _, c := range []struct {
		d    time.Duration
		want string
	}{{72 * time.Hour, "3 days"}, {3 * time.Hour, "3 h"}, {119 * time.Minute, "119 min"}, {119 * time.Second, "119 s"}} {
		if got := roundTime(c.d); got != c.want {
			t.Errorf("roundTime(%v) = %q, want %q", c.d, got, c.want)
		}
	}
}

// TestSave: a file is written once; different content is replaced only by force.
func TestSave(t *testing.T) {
	t.Parallel()
	d, err := depot.Open(t.Context(), filepath.Join(t.TempDir(), "depot"), depot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	source := filepath.Join(testdata, "pdb", "hello-x64.pdb")
	original, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	addFile(t, d, source)
	w, err := Of("hello-x64.pdb", "F9EFE0B6AE7500394C4C44205044422E1", "")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "new", "größe.pdb")
	for _, c := range []struct {
		name   string
		before []byte // nil: no file
		force  bool
		want   error
	}{
		{"new folder", nil, false, nil}, {"same content", original, false, nil}, {"cut", original[:100], false, ErrDiffers},
		{"longer", append(original[:len(original):len(original)], 0), false, ErrDiffers}, {"empty", []byte{}, false, ErrDiffers}, {"force", original[:100], true, nil},
	} {
		if c.before != nil {
			if err := os.WriteFile(path, c.before, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if err := Save(t.Context(), d, w, path, c.force); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", c.name, err, c.want)
		}
		after := original
		if c.want != nil {
			after = c.before
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != string(after) {
			t.Errorf("%s: the file has %d bytes, error %v; want %d", c.name, len(got), err, len(after))
		}
	}
}

// addFile adds a file as one transaction.
func addFile(t *testing.T, d *depot.Depot, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tx, err := d.Begin(t.Context(), depot.TxInfo{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Add(t.Context(), depot.Source{Path: path, Name: filepath.Base(path), Content: content{f}}); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}
