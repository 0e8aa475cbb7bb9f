package browser

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// withSources fills a depot with a program and its source, and two builds of one name.
func withSources(s *site) {
	s.put("src/prog.c", []byte("int a;\n\n// <script>alert(1)</script> \u202e\nint b; //"+strings.Repeat(" long", 200)+"\nvoid crash_here(void)\n{\n}\n\n"))
	s.run("add", "--product", "App", "--version", "1.0", "--sources", filepath.Join(s.dir, "src")+"=/usr/src/symdepot-src", s.copied("one/app", "elf/prog-sha1"))
	s.run("add", "--product", "App", "--version", "2.0", s.copied("two/app", "elf/embedded"), filepath.Join(testdata, "pdb"))
}

// TestSymbolicatePage: without a script, a stack is filled in after the build was chosen, and a
// frame leads to the line of its source and to the functions of its file.
func TestSymbolicatePage(t *testing.T) {
	t.Parallel()
	s := newSite(t, withSources)
	p := newTab(t, true)
	p.open(s.url + "/-/symbolicate")
	p.do(chromedp.SendKeys(chromedp.CSS("#stack"), "before\n./app(+0x113a) [0x55d0c0de113a]\n0  hello-x64 + 0x1000\n"),
		chromedp.Click(chromedp.CSS("main form button")), chromedp.WaitVisible(chromedp.CSS("main select")))
	text := value(p, chromedp.Text(chromedp.CSS("main")))
	if !strings.Contains(text, "several builds have a file of this name") || !strings.Contains(text, "sum(Pair*)") {
		t.Errorf("two builds: the page says %q, want a choice, and the function of the other module", text)
	}
	if strings.Contains(text, "crash_here") {
		t.Errorf("two builds: the page says %q, want no function before a build is chosen", text)
	}
	b, err := os.ReadFile(testdata + "/elf/prog-sha1")
	if err != nil {
		t.Fatal(err)
	}
	build := fmt.Sprintf("%x", sha256.Sum256(b))
	p.do(chromedp.SetValue(chromedp.CSS("main select"), build), chromedp.Click(chromedp.CSS("main form button")), chromedp.WaitVisible(chromedp.CSS(`.trace a[href*="/source?"]`)))
	text = eval[string](p, `document.querySelector("main").innerText`)
	if !strings.Contains(text, "crash_here") || !strings.Contains(text, "prog.c:5") || !strings.Contains(text, "void crash_here(void)") {
		t.Errorf("the chosen build: the page says %q, want crash_here of line 5, with the line", text)
	}
	p.do(chromedp.Click(chromedp.CSS(`.trace a[href*="/source?"]`)), chromedp.WaitVisible(chromedp.CSS("#L5")))
	if got := eval[string](p, `location.hash + " " + document.querySelector(":target").textContent.trim() + " " + (getComputedStyle(document.querySelector("#L5")).backgroundColor !== getComputedStyle(document.querySelector("#L4")).backgroundColor)`); got != "#L5 5void crash_here(void) true" {
		t.Errorf("the line of the source is %q, want the fifth, marked", got)
	}
	if got := eval[string](p, `document.querySelector("#L3").textContent`); !strings.Contains(got, "<script>alert(1)</script> U+202E") {
		t.Errorf("the third line is shown as %q, want it as a text, with the hidden character", got)
	}
	if status, h, b := s.get(s.url + "/-/file/" + build + "/source?raw=1&path=" + url.QueryEscape("/usr/src/symdepot-src/prog.c")); status != 200 || h.Get("Content-Type") != "text/plain; charset=utf-8" || !strings.HasPrefix(string(b), "int a;\n") {
		t.Errorf("raw: %d, %s, %q; want the text", status, h.Get("Content-Type"), b)
	}
}

// TestFunctionsPage: the page of a file finds functions, and fills the form for addresses.
func TestFunctionsPage(t *testing.T) {
	t.Parallel()
	s := newSite(t, withSources)
	p := newTab(t, true)
	p.open(s.file("hello-x64.pdb"))
	p.do(chromedp.SendKeys(chromedp.CSS(`form[action$="/functions"] input[name=q]`), "SUM"), chromedp.Click(chromedp.CSS(`form[action$="/functions"] button`)),
		chromedp.WaitVisible(chromedp.CSS("main table")))
	if text := value(p, chromedp.Text(chromedp.CSS("main table"))); !strings.Contains(text, "sum(Pair*)") || !strings.Contains(text, "0x1000") || !strings.Contains(text, "hello.c:3") || strings.Contains(text, "entry()") {
		t.Errorf("the functions are %q, want sum(Pair*) at 0x1000, line 3, alone", text)
	}
	p.open(s.file("hello-x64.pdb"))
	p.do(chromedp.Click(chromedp.CSS(`a[href*="/symbolicate?"]`)), chromedp.WaitVisible(chromedp.CSS("input[name=addresses]")),
		chromedp.SendKeys(chromedp.CSS("input[name=addresses]"), "0x1000 1010"), chromedp.Click(chromedp.CSS("main form > p:last-child button")), chromedp.WaitVisible(chromedp.CSS("#result")))
	if text := value(p, chromedp.Text(chromedp.CSS("main"))); !strings.Contains(text, "2 of 2 lines with functions") || !strings.Contains(text, "sum(Pair*)") {
		t.Errorf("addresses of the file: the page says %q, want both with their functions", text)
	}
}
