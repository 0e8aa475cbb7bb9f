package browser

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// crashed fills a depot with the symbols of one module of testdata/minidump.
func crashed(s *site) { s.run("add", "--product", "App", testdata+"/minidump/symbols") }

// minidump is the path of a dump of testdata.
func minidump(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(testdata + "/minidump/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// walk sends a dump with the form of the page, which is open, and waits for the answer.
func (p *tab) walk(dump string) {
	p.t.Helper()
	p.do(chromedp.SetUploadFiles(chromedp.CSS("#files"), []string{dump}), chromedp.Click(chromedp.CSS("form.drop button")))
	p.until(`document.querySelector("h1").textContent !== "Crashes" || document.querySelector("main > [role=alert]") !== null`)
}

// calls are the functions of the first thread, as the page shows them.
const calls = `[...document.querySelectorAll("section table.calls")][0].tBodies[0].rows`

// TestCrashPage: with a script and without one, a minidump shows why the program crashed, its stack, and
// what is missing.
func TestCrashPage(t *testing.T) {
	t.Parallel()
	s := newSite(t, crashed)
	var stacks struct {
		Key     string
		Threads []struct {
			Frames []struct{ Function, Module, Offset string }
		}
	}
	if err := json.Unmarshal([]byte(s.run("stack", "--json", minidump(t, "test_app.dmp"))), &stacks); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, f := range stacks.Threads[0].Frames {
		if f.Function == "" {
			f.Function = f.Module
		}
		want = append(want, f.Function)
	}
	for _, noScript := range []bool{false, true} {
		p := newTab(t, noScript)
		p.wide()
		p.open(s.url + "/-/crashes")
		p.walk(minidump(t, "test_app.dmp"))
		text := p.main()
		for _, part := range []string{
			"EXCEPTION_ACCESS_VIOLATION_WRITE at 0x45", "The program wrote to memory", "a pointer was null", stacks.Key, "c:\\test_app.cc:58", "+ 0xe",
			"kernel32.dll: add kernel32.pdb with the id BCE8785C57B44245A669896B6A19B9542", "symdepot push --server " + s.url, "context: the registers of the thread",
		} {
			if !strings.Contains(strings.ReplaceAll(text, "\u200b", ""), part) {
				t.Errorf("without a script %v: the page lacks %q:\n%s", noScript, part, text)
			}
		}
		got := eval[[]string](p, `[...`+calls+`].map(r => r.cells[0].querySelector("bdi").textContent)`)
		if len(got) < 4 || !slices.Equal(got, want) {
			t.Errorf("without a script %v: the page has the functions %q, symdepot stack %q", noScript, got, want)
		}
		if got := eval[string](p, `[...document.querySelectorAll("details.thread")].map(d => d.open).join()`); got == "" || strings.Contains(got, "true") {
			t.Errorf("without a script %v: the other threads are open: %q, want them closed", noScript, got)
		}
		links := eval[[]string](p, `[...document.querySelectorAll("main a")].map(a => a.href)`)
		for _, link := range links {
			if status, _, _ := s.get(link, "Accept", "text/html"); status != 200 {
				t.Errorf("the link %s: status %d, want 200", link, status)
			}
		}
		if !slices.Contains(links, s.file("test_app.pdb")) {
			t.Errorf("the page has the links %q, want one to the file of the module", links)
		}
		if said := p.told(); len(said) > 0 {
			t.Errorf("without a script %v: the browser said %q, want nothing", noScript, said)
		}
	}
}

// TestCrashPageLook: the stacks have no violation of WCAG A or AA, light and dark, with all details open, and
// do not scroll sideways at 320 pixels. Those of SYMDEPOT_DUMPS have long names, inlined functions and many
// frames.
func TestCrashPageLook(t *testing.T) {
	t.Parallel()
	report, err := filepath.Abs("../../applecrash/testdata/app.ips")
	if err != nil {
		t.Fatal(err)
	}
	dumps := []string{minidump(t, "test_app.dmp"), minidump(t, "windows_names.dmp"), minidump(t, "macos_crashpad.dmp"), minidump(t, "windows_assertion.dmp"), report}
	more := os.Getenv("SYMDEPOT_DUMPS")
	s := newSite(t, func(s *site) {
		crashed(s)
		if more != "" {
			s.run("add", "--product", "More", filepath.Join(more, "symbols"))
			for _, name := range []string{"linux_inline.dmp", "minidump_crashpad_annotation.dmp", "stack_exhaustion.dmp"} {
				dumps = append(dumps, filepath.Join(more, name))
			}
		}
	})
	p := newTab(t)
	for _, dump := range dumps {
		name := filepath.Base(dump)
		p.wide()
		p.open(s.url + "/-/crashes")
		p.walk(dump)
		if got := p.painted(); got.Shift >= 0.05 {
			t.Errorf("%s: a layout shift of %g, want next to none; moved were %q", name, got.Shift, got.Moved)
		}
		for _, open := range []bool{false, true} {
			what := name
			if open {
				what += ", open"
				eval[int](p, `document.querySelectorAll("main details").forEach(d => { d.open = true; }); 0`)
			}
			for _, scheme := range []string{"light", "dark"} {
				p.scheme(scheme)
				p.accessible(what + ", " + scheme)
				p.screen("crash " + what + " " + scheme)
			}
			p.scheme("light")
			p.do(chromedp.EmulateViewport(400, 800))
			p.screen("crash " + what + " phone")
			p.fits(what)
		}
		p.quiet(name)
	}
}

// TestCrashRefused: what is no dump is said on the page with the form, and what a browser calls it is no
// element.
func TestCrashRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, crashed)
	hostile := s.put(`"><script>alert(1)<`+"\u202Egpj.txt", []byte("text"))
	for _, noScript := range []bool{false, true} {
		p := newTab(t, noScript)
		p.open(s.url + "/-/crashes")
		p.walk(hostile)
		if text := p.main(); !strings.Contains(text, "a supported dump") || eval[int](p, `document.querySelectorAll("form.drop").length`) != 1 {
			t.Errorf("without a script %v: the page says %q, want that it is no dump, and the form", noScript, text)
		}
	}
	p := newTab(t)
	p.open(s.url + "/-/crashes")
	eval[int](p, `(() => { const d = new DataTransfer(); for (const n of ["a", "b"]) d.items.add(new File(["x"], n));
document.querySelector("form.drop").dispatchEvent(new DragEvent("drop", {dataTransfer: d, bubbles: true, cancelable: true})); return 0; })()`)
	p.until(`document.querySelector("form.drop [role=alert]").textContent === "One file at once."`)
	p.quiet("two files")
}

// withMemory writes a dump with that much more memory behind it, as a full dump has it: a stream with a list
// of 64-bit ranges. The memory takes no space on disk.
func withMemory(t *testing.T, dump []byte, path string, more int64) {
	t.Helper()
	le := binary.LittleEndian
	count, directory := le.Uint32(dump[8:]), le.Uint32(dump[12:])
	b := slices.Clone(dump)
	moved := uint32(len(b))
	b = append(b, dump[directory:directory+12*count]...)
	list := uint32(len(b)) + 12
	for _, v := range []uint32{9, 32, list} { // Memory64ListStream
		b = le.AppendUint32(b, v)
	}
	for _, v := range []uint64{1, uint64(list) + 32, 0x7000_0000_0000, uint64(more)} {
		b = le.AppendUint64(b, v)
	}
	le.PutUint32(b[8:], count+1)
	le.PutUint32(b[12:], moved)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(int64(len(b)) + more); err != nil {
		t.Fatal(err)
	}
}

// TestLargeDump: of a dump with 500 MiB of memory less than 4 MiB are sent, and the stack is the same.
func TestLargeDump(t *testing.T) {
	t.Parallel()
	s := newSite(t, crashed)
	b, err := os.ReadFile(minidump(t, "test_app.dmp"))
	if err != nil {
		t.Fatal(err)
	}
	full := filepath.Join(t.TempDir(), "full.dmp")
	withMemory(t, b, full, 500<<20)
	p := newTab(t)
	p.open(s.url + "/-/crashes")
	eval[int](p, countSent)
	p.do(chromedp.SetUploadFiles(chromedp.CSS("#files"), []string{full}))
	eval[int](p, drop)
	p.until(`document.querySelector("table.calls, main > [role=alert], form [role=alert]:not([hidden])") !== null`)
	if text := p.main(); !strings.Contains(text, "CrashFunction") || !strings.Contains(text, "EXCEPTION_ACCESS_VIOLATION_WRITE") {
		t.Errorf("the page says %q, want the stack", text)
	}
	if sent := eval[int](p, `+sessionStorage.sent`); sent <= 0 || sent > 4<<20 {
		t.Errorf("%d bytes were sent, want 4 MiB at most", sent)
	} else {
		t.Logf("%d bytes were sent", sent)
	}
	p.quiet("a large dump")
}

// TestCoreWithSources: the core file of a program that crashed in an inlined function shows the function, that
// into which it was inlined, and the lines of the source around.
func TestCoreWithSources(t *testing.T) {
	t.Parallel()
	symtest.Tool(t, "gcc")
	symtest.Tool(t, "gdb")
	const source = `#include <stdlib.h>

static inline __attribute__((always_inline)) int last(int *list, int n)
{
	// <script>alert(1)</script>
	list[n - 1] = 7;
	return list[0];
}

int __attribute__((noinline)) sum(int *list, int n)
{
	int all = last(list, n);
	return all + n;
}

int main(int argc, char **argv)
{
	return sum(0, argc + 1) + 1;
}
`
	s := newSite(t, func(s *site) {
		s.put("src/crash.c", []byte(source))
		script := `set -e; cd "$1/src"; gcc -g -O1 -Wl,--build-id -o ../crash crash.c; cd ..
gdb -nx -batch -ex 'set debuginfod enabled off' -ex run -ex 'generate-core-file core' ./crash >out 2>&1 || { cat out; exit 1; }`
		if out, err := exec.Command("sh", "-c", script, "sh", s.dir).CombinedOutput(); err != nil {
			t.Fatalf("a core file: %v\n%s", err, out)
		}
		s.run("add", "--product", "App", "--sources", filepath.Join(s.dir, "src"), filepath.Join(s.dir, "crash"))
	})
	p := newTab(t)
	p.wide()
	p.open(s.url + "/-/crashes")
	p.walk(filepath.Join(s.dir, "core"))
	rows := eval[[]string](p, `[...`+calls+`].map(r => [...r.cells].map(c => c.innerText.replaceAll("\n", " ").trim()).join(" | "))`)
	if len(rows) < 3 || !strings.HasPrefix(rows[0], "0 last inlined list[n - 1] = 7;") || !strings.Contains(rows[0], "crash.c:6") ||
		!strings.HasPrefix(rows[1], "sum +") || !strings.Contains(rows[1], "crash.c:12") || !strings.HasPrefix(rows[2], "1 main +") {
		t.Errorf("the stack is %q, want last, inlined into sum, and main", rows)
	}
	p.do(chromedp.Click(chromedp.CSS(".calls summary")), chromedp.WaitVisible(chromedp.CSS(".around")))
	if got := eval[string](p, `document.querySelector(".around").textContent`); !strings.Contains(got, "5 \t// <script>alert(1)</script>\n") || !strings.Contains(got, "11 {\n") {
		t.Errorf("the lines around are %q, want five on each side, as a text", got)
	}
	if got := eval[string](p, `document.querySelector(".around mark").textContent`); got != "6 \tlist[n - 1] = 7;\n" {
		t.Errorf("the marked line is %q, want the sixth", got)
	}
	p.accessible("the lines of a source")
	p.screen("crash core wide")
	p.do(chromedp.EmulateViewport(400, 800))
	p.screen("crash core phone")
	p.fits("the lines of a source")
	p.do(chromedp.Click(chromedp.CSS(`.calls a[href*="/source?"]`)), chromedp.WaitVisible(chromedp.CSS("#L6")))
	p.quiet("the source")
}

// TestCrashesOfReader: a caller who may not read the symbols gets a stack as if they did not exist, and one who is not signed in is led to
// the sign-in.
func TestCrashesOfReader(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(s *site) { crashed(s); full(s) }, "--auth")
	p := newTab(t)
	p.open(s.url + "/-/crashes")
	if at := p.at(); !strings.HasPrefix(at, s.url+"/-/login?next=") {
		t.Errorf("without a sign-in the page is %s, want the page for signing in", at)
	}
	p.newForm(s.url+"/-/login", "/-/crashes", s.token("Anna", "--product", "Game"))
	p.walk(minidump(t, "test_app.dmp"))
	if text := p.main(); strings.Contains(text, "CrashFunction") || !strings.Contains(text, "test_app.exe: add test_app.pdb with the id 5A9832E5287241C1838ED98914E9B7FF1") {
		t.Errorf("a reader of another product: the page says %q, want the symbols missing", text)
	}
}

// TestKeptDumpsPage: an administrator sees the kept dumps, opens the stacks of one again, reads it and deletes it, with a
// script and without one.
func TestKeptDumpsPage(t *testing.T) {
	t.Parallel()
	for _, noScript := range []bool{false, true} {
		s := newSite(t, func(s *site) { crashed(s); s.put("keep.yaml", []byte("crashes: {keep: 30d}\n")) }, "--config", "keep.yaml", "--auth")
		p := newTab(t, noScript)
		p.wide()
		p.newForm(s.url+"/-/login", "/-/crashes", s.token("admin", "--scope", "admin"))
		p.walk(minidump(t, "test_app.dmp"))
		if text := p.main(); !strings.Contains(text, "The dump is kept until") || !strings.Contains(text, "CrashFunction") {
			t.Errorf("without a script %v: the page says %q, want the stack, and until when the dump is kept", noScript, text)
		}
		p.open(s.url + "/-/crashes")
		if text := p.main(); !strings.Contains(text, "test_app.dmp") || !strings.Contains(text, "is kept for 30 days") || !strings.Contains(text, "EXCEPTION_ACCESS_VIOLATION_WRITE") {
			t.Errorf("without a script %v: the page says %q, want the kept dump", noScript, text)
		}
		if !noScript {
			for _, scheme := range []string{"light", "dark"} {
				p.scheme(scheme)
				p.accessible("kept dumps, " + scheme)
			}
			p.screen("crash kept")
			p.fits("kept dumps")
		}
		p.click(`form[action^="/-/crashes/"]:not([action$="/delete"]) button`)
		if text := p.main(); !strings.Contains(text, "Stack of test_app.dmp") || !strings.Contains(text, "CrashFunction") {
			t.Errorf("without a script %v: the page says %q, want the stack again", noScript, text)
		}
		p.open(s.url + "/-/crashes")
		p.click(`form[action$="/delete"] button`)
		if text := p.main(); strings.Contains(text, "test_app.dmp") {
			t.Errorf("without a script %v: the page says %q, want no dump any more", noScript, text)
		}
		p.quiet("kept dumps")
	}
}
