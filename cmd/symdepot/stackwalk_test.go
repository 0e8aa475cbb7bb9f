package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// walkFrame is a frame as minidump-stackwalk prints it.
type walkFrame struct {
	Trust        string     `json:"trust"`
	Offset       string     `json:"offset"`
	Module       string     `json:"module"`
	ModuleOffset string     `json:"module_offset"`
	Function     string     `json:"function"`
	File         string     `json:"file"`
	Line         int        `json:"line"`
	Inlines      []walkCall `json:"inlines"`
}

type walkCall struct {
	Function string `json:"function"`
	File     string `json:"file"`
	Line     int    `json:"line"`
}

type walk struct {
	Threads []struct {
		ID     uint32      `json:"thread_id"`
		Frames []walkFrame `json:"frames"`
	} `json:"threads"`
}

// stackwalk runs minidump-stackwalk.
func stackwalk(t *testing.T, tool, dump string, args ...string) walk {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), tool, append(args, "--json", "--verbose=error", dump)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("minidump-stackwalk %s: %v\n%s", dump, err, errs.String())
	}
	var w walk
	if err := json.Unmarshal(out.Bytes(), &w); err != nil {
		t.Fatalf("minidump-stackwalk %s: %v", dump, err)
	}
	return w
}

// dumpSyms writes the .sym files of all modules of a folder with dump_syms, in the
// layout that minidump-stackwalk reads. dump_syms looks for the program of a PDB
// under the names x.dll and x.exe.
func dumpSyms(t *testing.T, tool, from, to string) {
	t.Helper()
	work := t.TempDir()
	files, err := filepath.Glob(filepath.Join(from, "*"))
	if err != nil {
		t.Fatal(err)
	}
	type module struct{ pdb, program string }
	modules := map[string]*module{}
	var others []string
	for _, path := range files {
		objects, err := objfile.IdentifyFile(path, objfile.Options{})
		if err != nil || len(objects) == 0 {
			continue
		}
		id := objects[0].DebugID.Breakpad()
		if modules[id] == nil {
			modules[id] = &module{}
		}
		switch objects[0].Kind {
		case symfile.PDB:
			modules[id].pdb = path
		case symfile.PE:
			modules[id].program = path
		default:
			others = append(others, path)
		}
	}
	for i, id := range slices.Sorted(maps.Keys(modules)) {
		m := modules[id]
		dir := filepath.Join(work, fmt.Sprint(i))
		if m.pdb == "" {
			if m.program != "" {
				others = append(others, m.program)
			}
			continue
		}
		name := filepath.Join(dir, filepath.Base(m.pdb))
		copyModule(t, m.pdb, name)
		if m.program != "" {
			copyModule(t, m.program, strings.TrimSuffix(name, filepath.Ext(name))+".dll")
		}
		others = append(others, name)
	}
	for _, path := range others {
		if out, err := exec.CommandContext(t.Context(), tool, "--inlines", "--store", to, path).CombinedOutput(); err != nil {
			t.Logf("dump_syms %s: %v\n%s", filepath.Base(path), err, out)
		}
	}
}

func copyModule(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o755)
	}
	if err == nil {
		err = os.WriteFile(to, b, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// trustOrder ranks how minidump-stackwalk found a frame, the best first.
var trustOrder = []string{"context", "cfi", "frame_pointer", "cfi_scan", "scan", "none"}

// walkCounts is a row of the table: frames with the symbols of symdepot and of
// dump_syms side by side.
type walkCounts struct {
	dumps, threads, frames     int // frames at the same place in both walks
	equal, named, better       int // function, file, line and inlined calls
	worse, other               int
	longer, shorter, different int // stacks that differ after a common beginning
	guessed                    int // stacks that are shorter, where the other one goes on by scan
	trusted, distrusted        int // frames that one of them found by a better method
}

func (c walkCounts) String() string {
	return fmt.Sprintf("%d dumps, %d threads, %d frames in both: %d equal, %d equal but for the spelling of a name, %d better, %d different, %d worse; method better for %d, worse for %d frames; stacks: %d longer, %d different, %d shorter, %d shorter by a scanned frame",
		c.dumps, c.threads, c.frames, c.equal, c.named, c.better, c.other, c.worse, c.trusted, c.distrusted, c.longer, c.different, c.shorter, c.guessed)
}

// compare compares the stacks of one dump, frame by frame.
func (c *walkCounts) compare(t *testing.T, dump string, ours, theirs walk) {
	c.dumps++
	if len(ours.Threads) != len(theirs.Threads) {
		t.Fatalf("%s: %d threads, want %d", dump, len(ours.Threads), len(theirs.Threads))
	}
	show := func(what string, thread uint32, i int, a, b any) {
		t.Logf("%s thread %d frame %d: %s\n  symdepot  %+v\n  dump_syms %+v", filepath.Base(dump), thread, i, what, a, b)
	}
	for n, thread := range ours.Threads {
		a, b := thread.Frames, theirs.Threads[n].Frames
		c.threads++
		i := 0
		for ; i < len(a) && i < len(b) && a[i].Offset == b[i].Offset; i++ {
			c.frames++
			switch d := slices.Index(trustOrder, a[i].Trust) - slices.Index(trustOrder, b[i].Trust); {
			case d < 0:
				c.trusted++
				show("found by a better method", thread.ID, i, a[i], b[i])
			case d > 0:
				c.distrusted++
				show("found by a worse method", thread.ID, i, a[i], b[i])
			}
			switch judged(a[i], b[i]) {
			case "equal":
				c.equal++
			case "named":
				c.named++
			case "better":
				c.better++
				show("better", thread.ID, i, a[i], b[i])
			case "worse":
				c.worse++
				show("worse", thread.ID, i, a[i], b[i])
			default:
				c.other++
				show("different", thread.ID, i, a[i], b[i])
			}
		}
		switch {
		case i == len(a) && i == len(b):
		case i == len(b):
			c.longer++
			show("longer", thread.ID, i, a[i:], nil)
		case i == len(a) && b[i].Trust == "scan": // no rule and no frame pointer led there
			c.guessed++
			show("shorter by a frame that was found by scan", thread.ID, i, nil, b[i:])
		case i == len(a):
			c.shorter++
			show("shorter", thread.ID, i, nil, b[i:])
		default:
			c.different++
			show("different frames", thread.ID, i, a[i:], b[i:])
		}
	}
}

// spelling rewrites the names of dump_syms in the forms that differ; see
// docs/symbols-compared.md.
var spelling = strings.NewReplacer("<NoType>", "...", "`anonymous-namespace'", "(anonymous namespace)", "`anonymous namespace'", "(anonymous namespace)", "  ", " ")

// judged compares the symbols of a frame.
func judged(a, b walkFrame) string {
	if a.Function == b.Function && a.File == b.File && a.Line == b.Line && slices.Equal(a.Inlines, b.Inlines) {
		return "equal"
	}
	fix := func(f walkFrame) (walkFrame, []walkCall) {
		f.Function = spelling.Replace(f.Function)
		calls := slices.Clone(f.Inlines)
		for i := range calls {
			calls[i].Function = spelling.Replace(calls[i].Function)
		}
		f.Inlines = nil
		return f, calls
	}
	x, xs := fix(a)
	y, ys := fix(b)
	switch {
	case x.Function == y.Function && x.File == y.File && x.Line == y.Line && slices.Equal(xs, ys):
		return "named"
	case y.Function == "" || x.Function == y.Function && y.Line == 0 && x.Line != 0 && slices.Equal(xs, ys):
		return "better"
	case x.Function == "" || y.Line != 0 && x.Line == 0 || len(xs) < len(ys):
		return "worse"
	}
	return "different"
}

// TestStackwalk: minidump-stackwalk with the URL of a server whose depot holds only
// debug files and programs finds on real dumps at least what it finds with the
// symbol files of dump_syms. scripts/dumps/make writes the dumps.
func TestStackwalk(t *testing.T) {
	t.Parallel()
	walker, dumper := symtest.Tool(t, "rust/bin/minidump-stackwalk"), symtest.Tool(t, "rust/bin/dump_syms")
	root := os.Getenv("SYMDEPOT_PEERS")
	sets, err := filepath.Glob(filepath.Join(root, "dumps", "*", "depot"))
	if err != nil || len(sets) == 0 {
		t.Skip("SYMDEPOT_PEERS has no folder dumps; scripts/dumps/make writes it")
	}
	for _, set := range sets {
		set = filepath.Dir(set)
		t.Run(filepath.Base(set), func(t *testing.T) {
			dir := t.TempDir()
			depot := filepath.Join(dir, "depot")
			if code, _, errs := commandtest.Symdepot(t, depot, "add", "--product", "app", filepath.Join(set, "depot")); code != 0 {
				t.Fatalf("add: exit code %d, want 0: %s", code, errs)
			}
			env := map[string]string{"SYMDEPOT_DEPOT": depot, "PATH": os.Getenv("PATH"), "HOME": dir}
			srv, err := commandtest.StartServe(func(k string) string { return env[k] }, dir)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := srv.Stop(); err != nil {
					t.Errorf("serve: %v\n%s", err, srv.Log.String())
				}
			})
			from := filepath.Join(set, "oracle")
			if _, err := os.Stat(from); err != nil {
				from = filepath.Join(set, "depot")
			}
			store := filepath.Join(dir, "store")
			dumpSyms(t, dumper, from, store)
			dumps, err := filepath.Glob(filepath.Join(set, "*.dmp"))
			if err != nil || len(dumps) == 0 {
				t.Fatalf("%d dumps in %s, error %v, want some", len(dumps), set, err)
			}
			cache, tmp := filepath.Join(dir, "cache"), filepath.Join(dir, "tmp")
			for _, d := range []string{cache, tmp} {
				if err := os.Mkdir(d, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			var all walkCounts
			for _, dump := range dumps {
				ours := stackwalk(t, walker, dump, "--symbols-url", srv.URL, "--symbols-cache", cache, "--symbols-tmp", tmp)
				theirs := stackwalk(t, walker, dump, "--symbols-path", store)
				all.compare(t, dump, ours, theirs)
			}
			t.Logf("TABLE %s: %s", filepath.Base(set), all)
			if all.worse > 0 || all.distrusted > 0 || all.shorter > 0 {
				t.Errorf("%d frames are worse, %d found by a worse method, %d stacks shorter, want none", all.worse, all.distrusted, all.shorter)
			}
		})
	}
}

// TestStackwalkPublic: minidump-stackwalk finds the same frames, by the same unwind rules, with the symbol file of
// a public PDB as with that of the private one, and functions of equal names, but no lines. The symbol
// files are given the id of a module of a dump.
func TestStackwalkPublic(t *testing.T) {
	t.Parallel()
	walker := symtest.Judge(t, "rust/bin/minidump-stackwalk")
	if walker == "" {
		t.Skip("needs minidump-stackwalk, which scripts/oracles builds")
	}
	private := filepath.Join(symtest.Material(t), "public/npm/electron-winstaller/Setup.pdb")
	dir := t.TempDir()
	public := filepath.Join(dir, "Setup.pdb")
	if code, _, errs := commandtest.Symdepot(t, dir, "strip", "--check", private, "-o", public); code != 0 {
		t.Fatalf("strip: exit code %d, want 0: %s", code, errs)
	}
	frames := func(pdb, store string) []walkFrame {
		if code, _, errs := commandtest.Symdepot(t, dir, "dump-syms", "--store", store+"-own", pdb); code != 0 {
			t.Fatalf("dump-syms: exit code %d, want 0: %s", code, errs)
		}
		paths, err := filepath.Glob(filepath.Join(store+"-own", "*", "*", "*.sym"))
		if err != nil || len(paths) != 1 {
			t.Fatalf("dump-syms wrote %v, error %v, want a file", paths, err)
		}
		sym, err := os.ReadFile(paths[0])
		if err != nil {
			t.Fatal(err)
		}
		const id = "5A9832E5287241C1838ED98914E9B7FF1"
		_, records, _ := bytes.Cut(sym, []byte("\n"))
		symtest.Put(t, store, "test_app.pdb/"+id+"/test_app.sym", append([]byte("MODULE windows x86 "+id+" test_app.pdb\n"), records...))
		var all []walkFrame
		for _, thread := range stackwalk(t, walker, "../../testdata/minidump/test_app.dmp", "--symbols-path", store).Threads {
			all = append(all, thread.Frames...)
		}
		return all
	}
	was, is := frames(private, filepath.Join(dir, "private")), frames(public, filepath.Join(dir, "public"))
	named := 0
	for i, f := range was {
		if i >= len(is) {
			break
		}
		if f.Function != "" && f.Line > 0 && f.Trust == "cfi" {
			named++
		}
		f.File, f.Line, f.Inlines = "", 0, nil
		if !reflect.DeepEqual(f, is[i]) {
			t.Errorf("frame %d is %+v, want %+v", i, is[i], f)
		}
	}
	if len(is) != len(was) || named < 2 {
		t.Errorf("%d frames, want %d; %d with unwind rules, lines and functions in the private file, want 2 at least", len(is), len(was), named)
	}
}
