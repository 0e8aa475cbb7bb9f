package browser

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// largePDB writes a PDB of 4.5 GB: the one of testdata with its directory at the end. It
// takes little space on disk.
func largePDB(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(testdata + "/pdb/hello-x64.pdb")
	if err != nil {
		t.Fatal(err)
	}
	const size = 4_500_000_000
	u32 := func(off int64) int64 { return int64(binary.LittleEndian.Uint32(b[off:])) }
	page, directory, blockMap := u32(32), u32(44), u32(52)
	last := size/page - 1
	blocks := slices.Clone(b[blockMap*page:][:page])
	name := filepath.Join(t.TempDir(), "large.pdb")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	write := func(p []byte, at int64) {
		if _, err := f.WriteAt(p, at*page); err != nil {
			t.Fatal(err)
		}
	}
	for i := range (directory + page - 1) / page { // the directory, in pages apart
		from := int64(binary.LittleEndian.Uint32(blocks[4*i:]))
		write(b[from*page:][:page], last-1000*(i+1))
		binary.LittleEndian.PutUint32(blocks[4*i:], uint32(last-1000*(i+1)))
	}
	binary.LittleEndian.PutUint32(b[40:], uint32(last+1))
	binary.LittleEndian.PutUint32(b[52:], uint32(last))
	write(b, 0)
	write(blocks, last)
	return name
}

// countSent makes the page note how many bytes its requests send.
const countSent = `sessionStorage.sent = 0; const fetched = window.fetch; window.fetch = (to, with_) => { sessionStorage.sent = +sessionStorage.sent + with_.body.size; return fetched(to, with_); };
const submit = HTMLFormElement.prototype.submit; HTMLFormElement.prototype.submit = function () { for (const f of this.querySelector("input[type=file]").files) sessionStorage.sent = +sessionStorage.sent + f.size; submit.call(this); }; 0`

// drop drops the files that were chosen on the area for them.
const drop = `(() => { const d = new DataTransfer(); for (const f of document.getElementById("files").files) d.items.add(f);
document.querySelector("form.drop").dispatchEvent(new DragEvent("drop", {dataTransfer: d, bubbles: true, cancelable: true})); return 0; })()`

// TestDropLargePDB: a PDB of 4.5 GB that is dropped shows its ids, after less than 8 MiB
// were sent.
func TestDropLargePDB(t *testing.T) {
	t.Parallel()
	s := newSite(t, full)
	p := newTab(t)
	for _, from := range []string{"/", "/-/identify"} {
		p.open(s.url + from)
		eval[int](p, countSent)
		p.do(chromedp.SetUploadFiles(chromedp.CSS("#files"), []string{largePDB(t)}))
		eval[int](p, drop)
		p.until(`document.querySelector("article .pairs") !== null`)
		text := eval[string](p, `document.querySelector("main").innerText`)
		if !strings.Contains(strings.ReplaceAll(text, "\u200b", ""), pdbID) || !strings.Contains(text, "large.pdb") || !strings.Contains(text, "in the depot") {
			t.Errorf("dropped on %s: the page says %q; want the id of the PDB, in the depot", from, text)
		}
		if sent := eval[int](p, `+sessionStorage.sent`); sent <= 0 || sent >= 8<<20 {
			t.Errorf("dropped on %s: %d bytes were sent, want less than 8 MiB", from, sent)
		} else {
			t.Logf("dropped on %s: %d bytes sent", from, sent)
		}
		link := eval[string](p, `document.querySelector("article ul a").href`)
		if status, _, _ := s.get(link); status != 200 {
			t.Errorf("the link to the held file, %s: status %d, want 200", link, status)
		}
		if said := p.told(); len(said) > 0 {
			t.Errorf("dropped on %s: the browser said %q, want nothing", from, said)
		}
	}
}

// modules are the rows of the table of modules: name and verdict; wanted are the files of
// all of them, in order, with what the depot has. The vDSO of Linux has none.
const (
	modules = `[...document.querySelectorAll("article tbody tr")].map(r => r.cells[0].innerText.trim() + ": " + r.cells[1].innerText.trim())`
	wanted  = `[...document.querySelectorAll("article tbody tr")].flatMap(r => r.cells[3].innerText.trim().split(", ")).filter(f => f).map(f => f.split(" ")[0] + (f.endsWith(" missing") ? " missing" : " had")).sort()`
)

// TestDumpVerdicts: the verdicts on a dump's modules agree with the command get; with a
// script and without one.
func TestDumpVerdicts(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(s *site) {
		full(s)
		s.run("add", "--product", "App", dumpFiles(t))
	})
	dump, err := filepath.Abs(testdata + "/minidump/test_app.dmp")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{dump: "test_app.exe"} // with the module that is held
	if core := coreFile(t, s); core != "" {
		files[core] = "prog"
	}
	for file, held := range files {
		var got []string
		out, _ := exec.Command(program, "get", "--depot", filepath.Join(s.dir, "depot"), "--json", "-o", t.TempDir(), file).Output() // exit code 1: some are missing
		for line := range strings.Lines(string(out)) {
			var o struct{ Name, Result string }
			if err := json.Unmarshal([]byte(line), &o); err != nil {
				t.Fatalf("get: %v in %q", err, line)
			}
			got = append(got, o.Name+" "+o.Result)
		}
		slices.Sort(got)
		if !slices.ContainsFunc(got, func(o string) bool { return strings.HasSuffix(o, " had") }) {
			t.Fatalf("%s: get says %q, want a file that it had", file, got)
		}
		for _, noScript := range []bool{false, true} {
			p := newTab(t, noScript)
			p.open(s.url + "/-/identify")
			p.do(chromedp.SetUploadFiles(chromedp.CSS("#files"), []string{file}), chromedp.Click(chromedp.CSS("form.drop button")), chromedp.WaitVisible(chromedp.CSS("article table")))
			if page := eval[[]string](p, wanted); !slices.Equal(page, got) {
				t.Errorf("%s, without a script %v: the page says\n%q\nget says\n%q", file, noScript, page, got)
			}
			for _, row := range eval[[]string](p, modules) {
				name, verdict, _ := strings.Cut(row, ": ")
				want := "missing, third-party module"
				switch name {
				case held:
					want = "in the depot"
				case "linux-vdso.so.1":
					want = "part of the kernel"
				}
				if verdict != want {
					t.Errorf("%s, without a script %v: %q, want %s", file, noScript, row, want)
				}
			}
			if said := p.told(); len(said) > 0 {
				t.Errorf("%s: the browser said %q, want nothing", file, said)
			}
		}
	}
}

// dumpFiles is a folder with the PDB of one module of testdata/minidump, as a .pdb with
// its ids.
func dumpFiles(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(testdata + "/pdb/hello-x64.pdb")
	if err != nil {
		t.Fatal(err)
	}
	own := []byte{0xB6, 0xE0, 0xEF, 0xF9, 0x75, 0xAE, 0x39, 0x00, 0x4C, 0x4C, 0x44, 0x20, 0x50, 0x44, 0x42, 0x2E}
	app := []byte{0xE5, 0x32, 0x98, 0x5A, 0x72, 0x28, 0xC1, 0x41, 0x83, 0x8E, 0xD9, 0x89, 0x14, 0xE9, 0xB7, 0xFF} // test_app.pdb
	at := strings.Index(string(b), string(own))
	if at < 0 {
		t.Fatal("the PDB of testdata has changed")
	}
	copy(b[at:], app)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "test_app.pdb"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// coreFile makes the core file of a process whose program the depot has; "" without gdb.
func coreFile(t *testing.T, s *site) string {
	t.Helper()
	for _, tool := range []string{"gcc", "gcore"} {
		if symtest.Judge(t, tool) == "" {
			t.Logf("no core file, because there is no %s", tool)
			return ""
		}
	}
	dir := t.TempDir()
	script := `set -e; cd "$1"; printf '#include <unistd.h>\nint main(void) { write(1, "up", 2); pause(); return 0; }' > prog.c; gcc -g -Wl,--build-id -o prog prog.c
./prog > ready & pid=$!; while ! grep -q up ready; do :; done; gcore -o core $pid; kill $pid; mv core.$pid core`
	if out, err := exec.Command("sh", "-c", script, "sh", dir).CombinedOutput(); err != nil {
		t.Fatalf("a core file: %v\n%s", err, out)
	}
	s.run("add", "--product", "App", filepath.Join(dir, "prog"))
	return filepath.Join(dir, "core")
}

// TestMissingLists: the missing files of a dump as lists.
func TestMissingLists(t *testing.T) {
	t.Parallel()
	s := newSite(t, full)
	p := newTab(t)
	p.open(s.url + "/-/identify")
	dump, err := filepath.Abs(testdata + "/minidump/test_app.dmp")
	if err != nil {
		t.Fatal(err)
	}
	p.do(chromedp.SetUploadFiles(chromedp.CSS("#files"), []string{dump}), chromedp.Click(chromedp.CSS("form.drop button")), chromedp.WaitVisible(chromedp.CSS("article table")))
	got := value(p, chromedp.Evaluate[string](`(() => { const f = document.querySelector("article form"); const d = new URLSearchParams(new FormData(f)); d.set("as", "manifest");
		return fetch(f.action, {method: "POST", body: d}).then(r => r.text()); })()`, chromedp.EvalAwaitPromise))
	if lines := regexp.MustCompile(`(?m)^\S+,[0-9A-Fa-f]+,1\r$`).FindAllString(got, -1); len(lines) != 26 {
		t.Errorf("the manifest has %d lines, want 26:\n%s", len(lines), got)
	}
}

// TestAnswersFit: the answers about files, with hostile names among them, have no
// violation of WCAG A or AA, and do not scroll sideways at 320 pixels.
func TestAnswersFit(t *testing.T) {
	t.Parallel()
	s := newSite(t, full)
	dir := t.TempDir()
	hostile := filepath.Join(dir, `"><script>alert(1)<`+"\u202Egpj.txt")
	if err := os.WriteFile(hostile, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	files := []string{hostile}
	for _, name := range []string{"pdb/hello-x64.pdb", "pe/resources.dll", "macho/app-fat", "minidump/test_app.dmp"} {
		path, err := filepath.Abs(filepath.Join(testdata, name))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, path)
	}
	p := newTab(t)
	p.narrow()
	p.open(s.url + "/-/identify")
	p.do(chromedp.SetUploadFiles(chromedp.CSS("#files"), files), chromedp.Click(chromedp.CSS("form.drop button")), chromedp.WaitVisible(chromedp.CSS("article table")))
	if n := eval[int](p, `document.querySelectorAll("article").length`); n != 5 {
		t.Errorf("%d files are answered, want 5", n)
	}
	links := eval[[]string](p, `[...document.querySelectorAll("main a")].map(a => a.href)`)
	for _, link := range links {
		if status, _, _ := s.get(link); status != 200 {
			t.Errorf("the link %s: status %d, want 200", link, status)
		}
	}
	if len(links) < 26 {
		t.Errorf("%d links, want one for each file of the dump at least", len(links))
	}
	p.quiet("the answers")
	p.fits("the answers")
	p.accessible("the answers")
}

// TestTooManyFiles: 65 files are refused before anything is sent.
func TestTooManyFiles(t *testing.T) {
	t.Parallel()
	s := newSite(t, full)
	p := newTab(t)
	p.open(s.url + "/-/identify")
	eval[int](p, countSent)
	eval[int](p, `(() => { const d = new DataTransfer(); for (let i = 0; i < 65; i++) d.items.add(new File(["x"], "f" + i));
		document.dispatchEvent(new DragEvent("drop", {dataTransfer: d, bubbles: true, cancelable: true})); return 0; })()`)
	p.until(`document.querySelector("form.drop [role=alert]").innerText.includes("64 files")`)
	if sent := eval[int](p, `+sessionStorage.sent`); sent != 0 {
		t.Errorf("%d bytes were sent, want none", sent)
	}
}
