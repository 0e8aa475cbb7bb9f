package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/base/wire"
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
			var own ownCounts
			for _, dump := range dumps {
				ours := stackwalk(t, walker, dump, "--symbols-url", srv.URL, "--symbols-cache", cache, "--symbols-tmp", tmp)
				theirs := stackwalk(t, walker, dump, "--symbols-path", store)
				all.compare(t, dump, ours, theirs)
				own.compare(t, srv.URL, dump, ours)
			}
			t.Logf("TABLE %s: %s", filepath.Base(set), all)
			t.Logf("TABLE %s: %d of %d frames of the server's walk are equal, %d of them named by the peer alone; %d frames of the peer without code",
				filepath.Base(set), own.equal, own.all, own.guessed, own.passed)
			if own.equal*100 < own.all*99 {
				t.Errorf("%d of %d frames of the server's walk are equal, want 99 %%", own.equal, own.all)
			}
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

// peerThread is a thread of a dump as a stack walker sees it.
type peerThread struct {
	writer bool        // of the dump
	frames []walkFrame // the offset is the address of the instruction, or the return address
}

// serverStacks asks a server for the stacks of a dump.
func serverStacks(t *testing.T, server string, dump []byte) *wire.Stacks {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server+"/-/api/v1/stack?name=crash.dmp", bytes.NewReader(dump))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/octet-stream")
	resp, text := symtest.Do(t, http.DefaultClient.Do, r)
	if resp.StatusCode != http.StatusOK {
		t.Logf("the server answers %d: %.200s", resp.StatusCode, text)
		return nil
	}
	s := &wire.Stacks{}
	if err := json.Unmarshal([]byte(text), s); err != nil {
		t.Fatal(err)
	}
	return s
}

// threadsOf returns the threads of our answer.
func threadsOf(s *wire.Stacks) (list []peerThread) {
	for i := range s.Threads {
		th := peerThread{writer: len(s.Threads[i].Frames) == 0}
		for _, f := range s.Threads[i].Frames {
			w := walkFrame{Trust: f.Trust, Offset: f.Address, Module: f.Module, Function: f.Function, File: f.File, Line: f.Line}
			for _, in := range f.Inlines {
				w.Inlines = append(w.Inlines, walkCall{in.Function, in.File, in.Line})
			}
			th.frames = append(th.frames, w)
		}
		list = append(list, th)
	}
	return list
}

// rustThreads returns the threads that minidump-stackwalk finds; nil if it does not read the dump.
func rustThreads(t *testing.T, tool, dump, arch, symbols string) []peerThread {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), tool, "--json", "--verbose=error", "--symbols-path", symbols, dump).Output()
	var w walk
	if err != nil || json.Unmarshal(out, &w) != nil {
		return nil
	}
	return w.threads(t, arch)
}

// threads returns the threads with return addresses.
func (w walk) threads(t *testing.T, arch string) (list []peerThread) {
	t.Helper()
	for _, th := range w.Threads {
		th.Frames = slices.Clone(th.Frames)
		for i := range th.Frames {
			f := &th.Frames[i]
			at, err := strconv.ParseUint(f.Offset, 0, 64)
			if err != nil {
				t.Fatalf("offset %q, want an address", f.Offset)
			}
			if i > 0 { // it is inside the call
				at += map[string]uint64{"arm64": 4, "arm": 2}[arch]
				if arch != "arm64" && arch != "arm" {
					at++
				}
			}
			f.Offset = fmt.Sprintf("%#x", at)
		}
		list = append(list, peerThread{frames: th.Frames})
	}
	return list
}

var (
	breakpadThread = regexp.MustCompile(`^Thread ([0-9]+)\b`)
	breakpadFrame  = regexp.MustCompile(`^ ?[0-9]+  (.*)$`)
	breakpadPlace  = regexp.MustCompile(`^(.*?) \[(.*) : ([0-9]+) \+ 0x[0-9a-f]+\]$`)
	breakpadPC     = regexp.MustCompile(`\b(?:rip|eip|pc) = 0x([0-9a-f]+)`)
	breakpadTrust  = map[string]string{
		"given as instruction pointer in context": "context", "call frame info": "cfi", "previous frame's frame pointer": "frame_pointer",
		"stack scanning": "scan", "call frame info with scanning": "cfi_scan",
		// For x64, Breakpad has a name of its own for a return address at the top of the stack, which is the first that a scan finds.
		"simulating a return from leaf function": "scan",
	}
)

// breakpadThreads returns the threads that Breakpad's minidump_stackwalk prints; nil if it does not read the dump.
func breakpadThreads(t *testing.T, tool, dump, symbols string) (list []peerThread) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), tool, dump, symbols).Output()
	if err != nil {
		return nil
	}
	threads := map[int]*peerThread{} // the crashed one is printed first
	var th *peerThread
	var inlined []walkCall
	var f *walkFrame
	for sc := bufio.NewScanner(bytes.NewReader(out)); sc.Scan(); {
		line := sc.Text()
		if m := breakpadThread.FindStringSubmatch(line); m != nil {
			n, _ := strconv.Atoi(m[1])
			th, f = &peerThread{}, nil
			threads[n] = th
			continue
		}
		if strings.HasPrefix(line, "Loaded modules:") {
			break
		}
		if th == nil {
			continue
		}
		if m := breakpadFrame.FindStringSubmatch(line); m != nil {
			th.frames = append(th.frames, walkFrame{})
			f = &th.frames[len(th.frames)-1]
			var name string
			f.Module, name, _ = strings.Cut(m[1], "!")
			if p := breakpadPlace.FindStringSubmatch(name); p != nil {
				f.Function, f.File = p[1], p[2]
				f.Line, _ = strconv.Atoi(p[3])
			} else if i := strings.LastIndex(name, " + 0x"); i >= 0 {
				f.Function = name[:i]
			}
			continue
		}
		if f == nil {
			continue
		}
		if m := breakpadPC.FindStringSubmatch(line); m != nil {
			at, _ := strconv.ParseUint(m[1], 16, 64)
			f.Offset = fmt.Sprintf("%#x", at)
		}
		_, how, ok := strings.Cut(line, "Found by: ")
		switch {
		case !ok:
		case how == "inline record":
			inlined = append(inlined, walkCall{f.Function, f.File, f.Line})
			th.frames, f = th.frames[:len(th.frames)-1], nil
		default:
			f.Trust = breakpadTrust[how]
			if f.Trust == "" {
				t.Errorf("%s: a frame found by %q, want a known way", dump, how)
			}
			f.Inlines, inlined = inlined, nil
		}
	}
	for _, n := range slices.Sorted(maps.Keys(threads)) {
		list = append(list, *threads[n])
	}
	return list
}

// ownCounts counts the frames of a server's own walk that are equal to those of minidump-stackwalk with the server's symbol files.
type ownCounts struct {
	equal, all int
	// guessed are those of the equal ones that only minidump-stackwalk names: by the export before, whose size a symbol file does not say.
	guessed int
	// passed are frames that minidump-stackwalk found by scan where the module has no code: in its data, or in its header.
	passed int
}

// sameButGuess compares frames as sameFrame does, and takes for equal those that the server leaves without a name because no export
// is so long.
func sameButGuess(a, b walkFrame) bool {
	if a.Function == "" && b.File == "" && len(b.Inlines) == 0 {
		b.Function = ""
	}
	return sameFrame(a, b)
}

func (c *ownCounts) compare(t *testing.T, server, path string, peer walk) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s := serverStacks(t, server, b)
	if s == nil {
		t.Errorf("%s: no stacks, want some", path)
		return
	}
	got, want := threadsOf(s), peer.threads(t, s.System.Arch)
	if len(got) != len(want) {
		t.Errorf("%s: %d threads, want %d", path, len(got), len(want))
		return
	}
	for i := range want {
		found := len(want[i].frames)
		want[i].frames = slices.DeleteFunc(want[i].frames, func(f walkFrame) bool {
			return f.Trust == "scan" && strings.HasPrefix(f.Function, "<") && // <unknown in NAME>, <SECTION in NAME>
				!slices.ContainsFunc(got[i].frames, func(g walkFrame) bool { return g.Offset == f.Offset })
		})
		c.passed += found - len(want[i].frames)
		exact, _ := equalFrames(got[i].frames, want[i].frames, sameFrame)
		same, report := equalFrames(got[i].frames, want[i].frames, sameButGuess)
		n := max(len(got[i].frames), len(want[i].frames))
		c.equal, c.all, c.guessed = c.equal+same, c.all+n, c.guessed+same-exact
		if same < n {
			t.Logf("%s, thread %d, %s of %s, the server's walk beside minidump-stackwalk's:%s", filepath.Base(path), i, s.System.Arch, s.System.OS, report)
		}
	}
}

// otherStacks are the dumps in which a walker finds other frames, and why. They do not count for the bar of TestStacks.
var otherStacks = map[string]string{
	"macos-no-fp.dmp minidump-stackwalk": "takes words that point into the header of a Mach-O file for return addresses, and goes on where x29 is zero",
	"macos-no-fp.dmp Breakpad":           "takes the link register of the innermost frame for a caller, also without unwind rules, and does not scan there",
	"linux_stacksmash.dmp Breakpad":      "ends where the stack is overwritten; minidump-stackwalk scans it too",
}

// TestStacks compares the frames that a server finds in the dumps SYMDEPOT_DUMPS/*.dmp with those of minidump-stackwalk
// and of Breakpad's minidump_stackwalk: addresses, trust, functions, lines and inlined calls. All have the .sym files in
// SYMDEPOT_DUMPS/symbols, the server in its depot.
func TestStacks(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("SYMDEPOT_DUMPS")
	if dir == "" {
		t.Skip("needs minidumps (*.dmp) and a folder symbols with their .sym files (set SYMDEPOT_DUMPS to the folder that has both)")
	}
	symbols := filepath.Join(dir, "symbols")
	depot := filepath.Join(t.TempDir(), "depot")
	if code, _, errs := commandtest.Symdepot(t, depot, "add", "--product", "app", symbols); code != 0 {
		t.Fatalf("add: exit code %d, want 0: %s", code, errs)
	}
	srv := commandtest.ServeDepot(t, depot)
	dumps, err := filepath.Glob(filepath.Join(dir, "*.dmp"))
	if err != nil || len(dumps) == 0 {
		t.Fatalf("%d dumps, error %v, want some", len(dumps), err)
	}
	type peer struct {
		name           string
		threads        func(dump, arch string) []peerThread
		equal, all     int
		counted, bound int // frames without those of otherStacks: equal, all
	}
	var peers []*peer
	if tool := symtest.Judge(t, "rust/bin/minidump-stackwalk"); tool != "" {
		peers = append(peers, &peer{name: "minidump-stackwalk", threads: func(dump, arch string) []peerThread {
			return rustThreads(t, tool, dump, arch, symbols)
		}})
	}
	if tool := symtest.Judge(t, "minidump_stackwalk"); tool != "" {
		peers = append(peers, &peer{name: "Breakpad", threads: func(dump, _ string) []peerThread { return breakpadThreads(t, tool, dump, symbols) }})
	}
	if len(peers) == 0 {
		t.Skip("needs minidump-stackwalk or Breakpad's minidump_stackwalk, which scripts/oracles builds")
	}
	for _, path := range dumps {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s := serverStacks(t, srv.URL, b)
		for _, p := range peers {
			arch := ""
			if s != nil {
				arch = s.System.Arch
			}
			want := p.threads(path, arch)
			if s == nil || want == nil {
				t.Logf("%s: read by us: %v, by %s: %v", filepath.Base(path), s != nil, p.name, want != nil)
				continue
			}
			got := threadsOf(s)
			if len(got) > len(want) { // Breakpad leaves out the thread that wrote the dump
				got = slices.DeleteFunc(got, func(th peerThread) bool { return th.writer })
			}
			if len(got) != len(want) {
				t.Errorf("%s: %d threads, want those of %s: %d", filepath.Base(path), len(got), p.name, len(want))
				continue
			}
			for i := range want {
				if len(want[i].frames) == 0 {
					continue // the thread that wrote the dump
				}
				same, report := equalFrames(got[i].frames, want[i].frames, sameFrame)
				n := max(len(got[i].frames), len(want[i].frames))
				p.equal, p.all = p.equal+same, p.all+n
				if otherStacks[filepath.Base(path)+" "+p.name] == "" {
					p.counted, p.bound = p.counted+same, p.bound+n
				}
				if same < n {
					t.Logf("%s, thread %d, %s of %s, symdepot beside %s:%s", filepath.Base(path), i, arch, s.System.OS, p.name, report)
				}
			}
		}
	}
	for _, p := range peers {
		t.Logf("TABLE %s: %d of %d frames are equal", p.name, p.equal, p.all)
		if p.bound == 0 || p.counted*100 < p.bound*99 {
			t.Errorf("%d of %d frames are equal to those of %s, want 99 %%", p.counted, p.bound, p.name)
		}
	}
}

// equalFrames counts the frames that are equal, in order, and shows the others. A frame that one side alone has is one
// difference.
func equalFrames(got, want []walkFrame, equal func(a, b walkFrame) bool) (same int, report string) {
	show := func(side string, i int, f walkFrame) {
		report += fmt.Sprintf("\n  %s %2d %s %s %s!%s %s:%d", side, i, f.Offset, f.Trust, f.Module, f.Function, f.File, f.Line)
		for _, in := range f.Inlines {
			report += fmt.Sprintf(" < %s %s:%d", in.Function, in.File, in.Line)
		}
	}
	// most[i][k] is how many frames of got[i:] and want[k:] are equal in order.
	most := make([][]int, len(got)+1)
	for i := range most {
		most[i] = make([]int, len(want)+1)
	}
	for i := len(got) - 1; i >= 0; i-- {
		for k := len(want) - 1; k >= 0; k-- {
			most[i][k] = max(most[i+1][k], most[i][k+1])
			if equal(got[i], want[k]) {
				most[i][k] = most[i+1][k+1] + 1
			}
		}
	}
	i, k := 0, 0
	for i < len(got) || k < len(want) {
		switch {
		case i < len(got) && k < len(want) && equal(got[i], want[k]):
			same, i, k = same+1, i+1, k+1
		case i < len(got) && (k == len(want) || most[i+1][k] >= most[i][k+1]):
			show("ours  ", i, got[i])
			i++
		default:
			show("theirs", k, want[k])
			k++
		}
	}
	return same, report
}

// sameFrame compares frames. Breakpad prints file names without folders.
func sameFrame(a, b walkFrame) bool {
	file := func(x, y string) bool { return x == y || !strings.ContainsAny(y, `/\`) && symfile.BaseName(x) == y }
	name := func(x, y string) bool { return spelling.Replace(x) == spelling.Replace(y) }
	return a.Offset == b.Offset && a.Trust == b.Trust && name(a.Function, b.Function) && file(a.File, b.File) && a.Line == b.Line &&
		slices.EqualFunc(a.Inlines, b.Inlines, func(x, y walkCall) bool {
			return name(x.Function, y.Function) && file(x.File, y.File) && x.Line == y.Line
		})
}
