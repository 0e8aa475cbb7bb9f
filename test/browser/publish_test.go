package browser

import (
	"archive/zip"
	"crypto/sha256"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// publishing is a closed server with a retention policy, and a tab that is signed in with
// a token for the product Fresh.
func publishing(t *testing.T, noScript bool, args ...string) (s *site, p *tab, token string) {
	t.Helper()
	s, _ = closed(t, args...)
	policy := filepath.Join(s.dir, "policy.yaml")
	if err := os.WriteFile(policy, []byte("retention:\n  classes:\n    - {name: release}\n    - {name: nightly, keep_within: 14d}\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	s.run("policy", "set", policy)
	token = s.token("anna", "--scope", "read", "--scope", "write", "--product", "Fresh")
	p = newTab(t)
	p.newForm(s.url+"/-/login", "/-/publish", token)
	if noScript {
		call(p, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		p.open(s.url + "/-/publish")
	}
	return s, p, token
}

// archive writes a zip archive with files of the test data.
func archive(t *testing.T, name string, files ...string) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z := zip.NewWriter(f)
	for _, file := range files {
		b, err := os.ReadFile(filepath.Join(testdata, file))
		if err != nil {
			t.Fatal(err)
		}
		w, err := z.Create("build/" + filepath.Base(file))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write(b)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return name
}

// choose chooses the files to publish, and sends the form.
func (p *tab) choose(files ...string) {
	p.t.Helper()
	for i := range files {
		var err error
		if files[i], err = filepath.Abs(files[i]); err != nil {
			p.t.Fatal(err)
		}
	}
	p.do(chromedp.SetUploadFiles(chromedp.CSS("main input[type=file]"), files))
	eval[int](p, `document.querySelector("main form [name=version]").value = "1.0"; document.querySelector("main form [name=class]").value = "nightly"; 0`)
	p.do(chromedp.Click(chromedp.CSS("main form > p > button[type=submit]")))
}

// TestPublish: files and an archive that are published from the browser, with a script and
// without one, are on the page of their transaction, and tools can download them.
func TestPublish(t *testing.T) {
	t.Parallel()
	for _, noScript := range []bool{false, true} {
		s, p, token := publishing(t, noScript)
		if !eval[bool](p, `document.querySelector("nav a[aria-current]").textContent === "Publish" && document.querySelector("main [name=product]").value === "Fresh"`) {
			t.Fatalf("at %s the form does not name the product of the token", p.at())
		}
		p.choose(testdata+"/pdb/hello-x64.pdb", archive(t, "out.zip", "pdb/hello-x64.exe", "elf/libprog.so", "pdb/hello.c"))
		p.until(`location.pathname.startsWith("/-/builds/") && document.readyState === "complete"`)
		text := eval[string](p, `document.querySelector("main").innerText`)
		for _, want := range []string{"The files were published. One file in the archives", "hello-x64.pdb", "hello-x64.exe", "libprog.so", "Fresh", "1.0", "nightly", "anna"} {
			if !strings.Contains(text, want) {
				t.Errorf("without a script %v: the page of the build lacks %q:\n%s", noScript, want, text)
			}
		}
		want, err := os.ReadFile(testdata + "/pdb/hello-x64.pdb")
		if err != nil {
			t.Fatal(err)
		}
		if status, _, b := s.get(pdbPath, "Authorization", "Bearer "+token); status != http.StatusOK || sha256.Sum256(b) != sha256.Sum256(want) {
			t.Errorf("without a script %v: %s: status %d, %d bytes; want the bytes of the PDB", noScript, pdbPath, status, len(b))
		}
		if said := p.told(); len(said) > 0 {
			t.Errorf("without a script %v: the browser said %q, want nothing", noScript, said)
		}
	}
}

// TestPublishDecision: a file that cannot be kept is named, and what was chosen happens.
func TestPublishDecision(t *testing.T) {
	t.Parallel()
	for _, noScript := range []bool{false, true} {
		s, p, _ := publishing(t, noScript)
		before := s.run("list")
		p.choose(testdata+"/pdb/hello-x64.pdb", testdata+"/pdb/hello.c")
		p.until(`location.search.startsWith("?stage=") && document.readyState === "complete"`)
		for _, act := range []string{"abandon", "publish"} {
			if text := eval[string](p, `document.querySelector("main").innerText`); !strings.Contains(text, "hello.c: ") || !strings.Contains(text, "Nothing is published yet") {
				t.Errorf("without a script %v: the page does not say why hello.c is refused:\n%s", noScript, text)
			}
			if got := s.run("list"); got != before {
				t.Errorf("without a script %v: before the decision the depot has\n%s", noScript, got)
			}
			p.do(chromedp.Click(chromedp.CSS("main button[value=" + act + "]")))
			if act == "abandon" {
				p.until(`location.search === "?done=abandoned" && document.readyState === "complete"`)
				p.choose(testdata+"/pdb/hello-x64.pdb", testdata+"/pdb/hello.c")
				p.until(`location.search.startsWith("?stage=") && document.readyState === "complete"`)
			}
		}
		p.until(`location.pathname.startsWith("/-/builds/") && document.readyState === "complete"`)
		if text := eval[string](p, `document.querySelector("main").innerText`); !strings.Contains(text, "hello-x64.pdb") || strings.Contains(text, "hello.c") {
			t.Errorf("without a script %v: the page of the build: want the PDB alone:\n%s", noScript, text)
		}
	}
}

// TestPublishProgress: the bar moves while a slow line sends, and an upload that is stopped
// leaves nothing. What the server refuses is said beside the form.
func TestPublishProgress(t *testing.T) {
	t.Parallel()
	s, p, _ := publishing(t, false)
	before := s.run("list")
	slow := func(rate float64) {
		call(p, network.EmulateNetworkConditionsByRule, network.EmulateNetworkConditionsByRuleParams{MatchedNetworkConditions: []*network.Conditions{{DownloadThroughput: -1, UploadThroughput: rate}}})
	}
	slow(50 << 10)
	big := filepath.Join(t.TempDir(), "big.pdb")
	if err := os.WriteFile(big, make([]byte, 4<<20), 0o666); err != nil {
		t.Fatal(err)
	}
	p.choose(big)
	p.until(`document.querySelector("[data-sending]").offsetParent !== null && document.querySelector("main progress").value > 0`)
	p.do(chromedp.Click(chromedp.CSS("[data-sending] button")))
	p.until(`document.querySelector("[data-wrong]").textContent === "Stopped. Nothing was published."`)
	slow(-1)
	p.do(chromedp.Click(chromedp.CSS("main form > p > button[type=submit]")))
	p.until(`document.querySelector("[data-wrong]").textContent.includes("big.pdb: ")`)
	if first := eval[string](p, `document.querySelector("main form :is(input, select):not([type=hidden])").name`); first != "file" {
		t.Errorf("the first field of the form is %q, want the files", first)
	}
	eval[int](p, `(() => { const d = new DataTransfer(); d.items.add(new File(["x"], "dropped.txt"));
document.querySelector("main").dispatchEvent(new DragEvent("dragover", {dataTransfer: d, bubbles: true, cancelable: true})); return 0; })()`)
	if zone := eval[string](p, `(() => { const z = document.querySelector("main form .drop"), s = getComputedStyle(z); return s.borderTopStyle + " " + z.classList.contains("over"); })()`); zone != "dashed true" {
		t.Errorf("while files are dragged the zone is %q, want it dashed and marked", zone)
	}
	if !eval[bool](p, `location.pathname === "/-/publish" && document.querySelector("main form input[type=file]").files.length === 1 && document.querySelectorAll("main form").length === 1`) {
		t.Error("after a refusal the form is not as it was")
	}
	eval[int](p, `(() => { const d = new DataTransfer(); d.items.add(new File(["x"], "dropped.txt"));
document.querySelector("main").dispatchEvent(new DragEvent("drop", {dataTransfer: d, bubbles: true, cancelable: true})); return 0; })()`)
	if got := eval[string](p, `[...document.querySelector("main form input[type=file]").files].map(f => f.name).join(" ")`); got != "big.pdb dropped.txt" {
		t.Errorf("after a drop the files %q are chosen, want big.pdb and dropped.txt", got)
	}
	if got := s.run("list"); got != before {
		t.Errorf("the depot has\n%s\nwant what it had:\n%s", got, before)
	}
	for _, said := range p.told() {
		if !strings.Contains(said, "422") { // the browser reports the status
			t.Errorf("the browser said %q", said)
		}
	}
}

// TestPublishTooLarge: a file above the limit is refused before it is sent, or while it
// arrives without a script; the page says so.
func TestPublishTooLarge(t *testing.T) {
	t.Parallel()
	big := filepath.Join(t.TempDir(), "big.pdb")
	if err := os.WriteFile(big, make([]byte, 40<<20), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, noScript := range []bool{false, true} {
		s, p, _ := publishing(t, noScript, "push: {max_file: 1MiB}")
		before := s.run("list")
		p.choose(big)
		want := map[bool]string{false: "big.pdb is larger than the server takes", true: "Send fewer files at once"}[noScript]
		p.until(`(document.querySelector("main")?.textContent || "").includes("` + want + `")`)
		if got := s.run("list"); got != before {
			t.Errorf("without a script %v: the depot has\n%s\nwant what it had:\n%s", noScript, got, before)
		}
	}
}

// TestPublishPages: the pages for publishing have no violation of WCAG A or AA, light and
// dark, and do not scroll sideways at 320 pixels.
func TestPublishPages(t *testing.T) {
	t.Parallel()
	_, p, _ := publishing(t, false)
	form := p.at()
	p.choose(testdata+"/pdb/hello-x64.pdb", testdata+"/pdb/hello.c")
	p.until(`location.search.startsWith("?stage=") && document.readyState === "complete"`)
	stage := p.at()
	check := func(what string) {
		t.Helper()
		p.accessible(what)
		p.screen("publish-" + what)
		p.fits(what)
	}
	for _, scheme := range []string{"light", "dark"} {
		p.scheme(scheme)
		for what, at := range map[string]string{"form": form, "decision": stage} {
			p.open(at)
			check(what + " " + scheme)
		}
		p.open(form)
		p.choose(testdata + "/pdb/hello.c")
		p.until(`document.querySelector("[data-wrong]").textContent.includes("hello.c: ")`)
		check("refusal " + scheme)
	}
}
