package main

import (
	"bytes"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/derive/symbolicate"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// dumpFolder has real dumps, and symbols, a folder of the .sym files of some of their modules.
const dumpFolder = "../../testdata/minidump"

// recordedStacks are the stacks that minidump-stackwalk finds in the dumps, by file and thread.
func recordedStacks(t *testing.T) (all map[string][][]walkFrame) {
	t.Helper()
	if err := json.Unmarshal(commandtest.Testdata(t, "minidump/stacks.json"), &all); err != nil || len(all) < 8 {
		t.Fatalf("stacks of %d dumps, error %v; want 8 at least", len(all), err)
	}
	return all
}

// asWalked is a frame in the form of minidump-stackwalk, whose addresses of callers are inside of calls.
func asWalked(t *testing.T, f *wire.StackFrame, caller bool) walkFrame {
	t.Helper()
	at, err := strconv.ParseUint(f.Address, 0, 64)
	if err != nil {
		t.Fatal(err)
	}
	if caller {
		at--
	}
	w := walkFrame{Trust: f.Trust, Offset: strconv.FormatUint(at, 16), Module: f.Module, Function: f.Function, File: f.File, Line: f.Line}
	for _, in := range f.Inlines {
		w.Inlines = append(w.Inlines, walkCall{in.Function, in.File, in.Line})
	}
	return w
}

// compareStacks compares the stacks of a dump with those that minidump-stackwalk finds.
func compareStacks(t *testing.T, what string, got *wire.Stacks, want [][]walkFrame) {
	t.Helper()
	if len(got.Threads) != len(want) {
		t.Fatalf("%s: %d threads, want %d", what, len(got.Threads), len(want))
	}
	for i, thread := range want {
		if len(got.Threads[i].Frames) != len(thread) {
			t.Errorf("%s, thread %d: %d frames, want %d", what, i, len(got.Threads[i].Frames), len(thread))
			continue
		}
		for k, w := range thread {
			w.Offset = strings.TrimLeft(strings.TrimPrefix(w.Offset, "0x"), "0")
			w.ModuleOffset = ""
			w.Function = strings.ReplaceAll(w.Function, "`anonymous namespace'", "(anonymous namespace)") // as people know it
			if g := asWalked(t, &got.Threads[i].Frames[k], k > 0); !reflect.DeepEqual(g, w) {
				t.Errorf("%s, thread %d, frame %d: %+v, want %+v", what, i, k, g, w)
			}
		}
	}
}

// stackOf runs symdepot stack.
func stackOf(t *testing.T, depot, dump string, args ...string) *wire.Stacks {
	t.Helper()
	code, out, errs := commandtest.Symdepot(t, depot, append([]string{"stack", "--json", filepath.Join(dumpFolder, dump)}, args...)...)
	s := &wire.Stacks{}
	if err := json.Unmarshal([]byte(out), s); code != 0 || err != nil {
		t.Fatalf("stack %s %q: exit code %d, error %v; want 0 and JSON\n%s%s", dump, args, code, err, out, errs)
	}
	return s
}

// sendDump sends a dump to POST /minidump, as Sentry does.
func sendDump(t *testing.T, url string, dump []byte, into any) int {
	t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	field := func(name, text string) {
		if err := form.WriteField(name, text); err != nil {
			t.Fatal(err)
		}
	}
	field("sources", `[{"id":"x","type":"http","url":"http://localhost:1/","layout":{"type":"native"}}]`)
	file, err := form.CreateFormFile("upload_file_minidump", "crash.dmp")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write(dump); err != nil {
		t.Fatal(err)
	}
	field("options", `{"dif_candidates":true}`)
	if err := form.Close(); err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, &body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", form.FormDataContentType())
	return answered(t, req, into)
}

// answered sends a request, decodes the answer, and returns the status.
func answered(t *testing.T, req *http.Request, into any) int {
	t.Helper()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		t.Fatalf("%s: status %d, %s, error %v; want JSON", req.URL, resp.StatusCode, b, err)
	}
	return resp.StatusCode
}

// TestStack: the stacks of real dumps are those that minidump-stackwalk finds, and the same from a
// folder, from a depot, from a server to which the dump does not go, and from one to which it goes.
func TestStack(t *testing.T) {
	t.Parallel()
	home := filepath.Join(t.TempDir(), "depot")
	if code, _, errs := commandtest.Symdepot(t, home, "add", filepath.Join(dumpFolder, "symbols")); code != 0 {
		t.Fatalf("add: exit code %d, want 0: %s", code, errs)
	}
	srv := commandtest.ServeDepot(t, home)
	elsewhere := filepath.Join(t.TempDir(), "none")
	for name, want := range recordedStacks(t) {
		folder := stackOf(t, elsewhere, name, "--symbols", filepath.Join(dumpFolder, "symbols"))
		compareStacks(t, name, folder, want)
		var posted wire.Stacks
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/-/api/v1/stack?name=x.dmp", bytes.NewReader(commandtest.Testdata(t, "minidump/"+name)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/octet-stream")
		if status := answered(t, req, &posted); status != http.StatusOK {
			t.Fatalf("%s: status %d, want 200", name, status)
		}
		for what, got := range map[string]*wire.Stacks{
			"a depot": stackOf(t, home, name), "a server": stackOf(t, elsewhere, name, "--server", srv.URL), "POST stack": &posted,
		} {
			if !reflect.DeepEqual(got.Threads, folder.Threads) || got.Key != folder.Key || !reflect.DeepEqual(got.Crash, folder.Crash) {
				t.Errorf("%s, %s: other stacks than from a folder:\n%+v\nwant\n%+v", name, what, got, folder)
			}
		}
		var native symbolicate.NativeAnswer
		if status := sendDump(t, srv.URL+"/minidump?scope=1", commandtest.Testdata(t, "minidump/"+name), &native); status != http.StatusOK || native.Status != "completed" {
			t.Fatalf("%s, POST /minidump: status %d, %q; want 200, completed", name, status, native.Status)
		}
		compareNative(t, name, &native, folder)
	}
}

// compareNative compares Symbolicator's form of stacks with ours.
func compareNative(t *testing.T, name string, native *symbolicate.NativeAnswer, ours *wire.Stacks) {
	t.Helper()
	if len(native.Stacktraces) != len(ours.Threads) || native.NativeCrash == nil || native.Crashed != (ours.Crash != nil) || native.System.Arch != ours.System.Arch {
		t.Fatalf("%s: %d threads, %+v; want %d, %+v", name, len(native.Stacktraces), native.NativeCrash, len(ours.Threads), ours.Crash)
	}
	for i, s := range native.Stacktraces {
		n := 0
		for _, f := range ours.Threads[i].Frames {
			for _, function := range append(functionsOf(f.Inlines), f.Function) {
				if n >= len(s.Frames) || s.Frames[n].Function != function || s.Frames[n].Status != f.Status {
					t.Fatalf("%s, thread %d: frame %d is not %q, %s: %+v", name, i, n, function, f.Status, s.Frames[min(n, len(s.Frames)-1)])
				}
				n++
			}
		}
		if n != len(s.Frames) || s.ThreadID == nil || int64(*s.ThreadID) != ours.Threads[i].ID {
			t.Errorf("%s, thread %d: %d frames, with an id: %t; want %d, %d", name, i, len(s.Frames), s.ThreadID != nil, n, ours.Threads[i].ID)
		}
	}
}

func functionsOf(list []wire.StackInline) (names []string) {
	for _, in := range list {
		names = append(names, in.Function)
	}
	return names
}

// TestStackText: the text for people names the reason, the frames, and what is missing.
func TestStackText(t *testing.T) {
	t.Parallel()
	home := filepath.Join(t.TempDir(), "none")
	dump := filepath.Join(dumpFolder, "test_app.dmp")
	code, out, errs := commandtest.Symdepot(t, home, "stack", "--symbols", filepath.Join(dumpFolder, "symbols"), dump)
	for _, want := range []string{
		"Crash:    EXCEPTION_ACCESS_VIOLATION_WRITE at 0x45\n", "Thread 0 (3060), crashed\n",
		"   0  test_app.exe!(anonymous namespace)::CrashFunction + 0xe  [c:\\test_app.cc:58]  context\n",
		"   3  kernel32.dll + 0x16fd7  cfi\n", "  kernel32.dll: add kernel32.pdb with the id BCE8785C57B44245A669896B6A19B9542\n",
		" ((anonymous namespace)::CrashFunction < main)\n",
	} {
		if code != 0 || !strings.Contains(out, want) || strings.Contains(out, "Thread 1") {
			t.Errorf("exit code %d, want 0, %q and no other thread:\n%s%s", code, want, out, errs)
		}
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--thread", "1", dump}, 0, "\nThread 1 ("},
		{[]string{"--thread", "all", dump}, 0, "\nThread 1 ("},
		{[]string{"--thread", "x", dump}, 2, "--thread x: expected the number of a thread, crash or all"},
		{[]string{"--server", "http://127.0.0.1:1", dump}, 2, "--server does not go with --symbols"},
		{[]string{filepath.Join(dumpFolder, "README.md")}, 3, "a supported dump"},
		{[]string{filepath.Join(dumpFolder, "nothing.dmp")}, 3, "nothing.dmp"},
		{[]string{dumpFolder}, 3, dumpFolder},
	} {
		code, out, errs := commandtest.Symdepot(t, home, append([]string{"stack", "--symbols", filepath.Join(dumpFolder, "symbols")}, c.args...)...)
		if code != c.code || !strings.Contains(out+errs, c.want) {
			t.Errorf("stack %q: exit code %d, %s%s; want %d, %q", c.args, code, out, errs, c.code, c.want)
		}
	}
	if code, out, errs := commandtest.Symdepot(t, home, "stack", "--server", "http://127.0.0.1:1", dump); code != 7 || out != "" {
		t.Errorf("a server that does not answer: exit code %d, %s%s; want 7, and no stack", code, out, errs)
	}
	if code, _, errs := commandtest.Symdepot(t, home, "stack", dump); code != 4 {
		t.Errorf("no depot: exit code %d, %s; want 4", code, errs)
	}
}

// TestStackCore: the stack of a core file of a program without frame pointers, whose debug information
// is in a file of its own.
func TestStackCore(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"gcc", "gdb", "objcopy", "strip"} {
		symtest.Tool(t, tool)
	}
	dir := t.TempDir()
	commandtest.Write(t, filepath.Join(dir, "prog.c"), `struct node { int v; struct node *next; };
static inline __attribute__((always_inline)) int load(struct node *n) { return n->v; }
__attribute__((noinline)) int deep(struct node *n, int d) { if (d == 0) return load(n->next); int r = deep(n, d - 1); return r + 1; }
__attribute__((noinline)) void work(void *p) { struct node n = {1, 0}; volatile int r = deep(&n, 3); (void)r; (void)p; }
int main(int argc, char **argv) { work(argv); return 0; }
`)
	for _, args := range [][]string{
		{"gcc", "-g", "-O1", "-fomit-frame-pointer", "-o", "prog", "prog.c"},
		{"gdb", "-q", "-batch", "-ex", "run", "-ex", "generate-core-file core.1", "./prog"},
		{"mkdir", "build"},
		{"objcopy", "--only-keep-debug", "prog", "build/prog.debug"},
		{"strip", "-o", "build/prog", "prog"},
	} {
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
	}
	core := filepath.Join(dir, "core.1")
	if _, err := os.Stat(core); err != nil {
		t.Skip("needs a gdb that may trace its child (kernel.yama.ptrace_scope=1, or the capability SYS_PTRACE)")
	}
	code, out, errs := commandtest.Symdepot(t, filepath.Join(dir, "none"), "stack", "--json", "--symbols", filepath.Join(dir, "build"), core)
	var s wire.Stacks
	if err := json.Unmarshal([]byte(out), &s); code != 0 || err != nil {
		t.Fatalf("exit code %d, error %v; want 0 and JSON: %s%s", code, err, out, errs)
	}
	want := []string{"load/deep:3 context", "deep:3 cfi", "deep:3 cfi", "deep:3 cfi", "work:4 cfi", "main:5 cfi"}
	if s.Crash == nil || s.Crash.Reason != "SIGSEGV / SEGV_MAPERR" || len(s.Threads) != 1 || len(s.Threads[0].Frames) < len(want) ||
		!reflect.DeepEqual(s.KeyFrames, []string{"load", "deep", "work", "main"}) {
		t.Fatalf("crash %+v, key of %q, threads %+v; want SIGSEGV, the functions, %q", s.Crash, s.KeyFrames, s.Threads, want)
	}
	for i, w := range want {
		f := s.Threads[0].Frames[i]
		got := strings.Join(append(functionsOf(f.Inlines), f.Function), "/") + ":" + strconv.Itoa(f.Line) + " " + f.Trust
		if got != w || filepath.Base(f.File) != "prog.c" {
			t.Errorf("frame %d is %s in %s, want %s in prog.c", i, got, f.File, w)
		}
	}
}

// TestStackJudge compares all frames of the dumps in SYMDEPOT_DUMPS/*.dmp, with the .sym files in
// SYMDEPOT_DUMPS/symbols, with those of minidump-stackwalk: 99 % are equal in address, trust, function, file,
// line and inlined calls.
func TestStackJudge(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("SYMDEPOT_DUMPS")
	if dir == "" {
		t.Skip("needs minidumps (*.dmp) and a folder symbols with their .sym files (set SYMDEPOT_DUMPS to the folder that has both)")
	}
	walker := symtest.Tool(t, "rust/bin/minidump-stackwalk")
	home := filepath.Join(t.TempDir(), "depot")
	if code, _, errs := commandtest.Symdepot(t, home, "add", filepath.Join(dir, "symbols")); code != 0 {
		t.Fatalf("add: exit code %d, want 0: %s", code, errs)
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*.dmp"))
	if err != nil {
		t.Fatal(err)
	}
	equal, all := 0, 0
	for _, path := range paths {
		cmd := exec.CommandContext(t.Context(), walker, "--json", "--verbose=off", "--symbols-path", filepath.Join(dir, "symbols"), path)
		text, err := cmd.Output()
		var want walk
		if err != nil || json.Unmarshal(text, &want) != nil {
			t.Logf("%s: minidump-stackwalk does not read it: %v", path, err)
			continue
		}
		code, out, errs := commandtest.Symdepot(t, home, "stack", "--json", path)
		var got wire.Stacks
		if code != 0 || json.Unmarshal([]byte(out), &got) != nil || len(got.Threads) != len(want.Threads) {
			t.Errorf("%s: exit code %d, %d threads; want 0, %d: %s", path, code, len(got.Threads), len(want.Threads), errs)
			continue
		}
		for i, thread := range want.Threads {
			mine := got.Threads[i].Frames
			for k := range max(len(mine), len(thread.Frames)) {
				all++
				if k >= len(mine) || k >= len(thread.Frames) {
					continue
				}
				w, g := thread.Frames[k], asWalked(t, &mine[k], k > 0)
				at, _ := strconv.ParseUint(w.Offset, 0, 64)
				if k > 0 { // the peer goes back by the bytes of an instruction
					at += map[string]uint64{"arm64": 3, "arm": 1}[got.System.Arch]
				}
				w.Offset, w.ModuleOffset = strconv.FormatUint(at, 16), ""
				w.Function = strings.ReplaceAll(w.Function, "`anonymous namespace'", "(anonymous namespace)")
				if reflect.DeepEqual(g, w) {
					equal++
				} else {
					t.Logf("%s, thread %d, frame %d: %+v, minidump-stackwalk: %+v", filepath.Base(path), i, k, g, w)
				}
			}
		}
	}
	t.Logf("%d of %d frames are equal", equal, all)
	if all == 0 || equal*100 < all*99 {
		t.Errorf("%d of %d frames are equal, want 99 %%", equal, all)
	}
}
