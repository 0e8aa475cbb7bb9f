package browser

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestPolicyEditor: with and without a script an administrator begins with an example, sees
// its errors and what it would remove, and saves it. A policy that was set meanwhile is shown
// beside the text and not overwritten. Readers see the policy, and where it is changed.
func TestPolicyEditor(t *testing.T) {
	t.Parallel()
	for _, noScript := range []bool{false, true} {
		s := newSite(t, func(s *site) {
			for i := range uint64(3) {
				s.run("add", "--product", "Game", "--version", fmt.Sprint("1.", i), build(t, fmt.Sprint("game", i), i, 700_000))
			}
		}, "--auth")
		p := newTab(t, noScript)
		p.newForm(s.url+"/-/login", "/-/retention", s.token("admin", "--scope", "admin"))
		type editor struct{ text, save string }
		see := func() editor {
			t.Helper()
			return editor{eval[string](p, `document.getElementById("text").value`), eval[string](p, `document.querySelector("button[value=save]")?.textContent||""`)}
		}
		press := func(act, from, to string) {
			t.Helper()
			eval[int](p, fmt.Sprintf(`(e => { e.value = e.value.replace(%q, %q); return 0; })(document.getElementById("text"))`, from, to))
			p.click("main button[value=" + act + "]")
		}
		look := func(what string) {
			t.Helper()
			if noScript {
				return
			}
			for _, scheme := range []string{"light", "dark"} {
				p.scheme(scheme)
				p.accessible(what + " " + scheme)
				p.screen("policy-" + what + "-" + scheme)
			}
			p.scheme("light")
			p.do(chromedp.EmulateViewport(360, 800))
			p.screen("policy-" + what + "-phone")
			p.fits(what)
		}
		look("none")
		p.click("main button[value=cap]")
		if e := see(); !strings.Contains(e.text, "cap: 500GiB") || e.save != "" {
			t.Errorf("without a script %v: the editor has %+v, want the example with a cap, and nothing to save yet", noScript, e)
		}
		press("preview", "cap: 500GiB", "cpa: 500GiB")
		if text := p.main(); !strings.Contains(text, "Line 8") || !strings.Contains(text, "retention.cpa") || !strings.Contains(text, "cap") {
			t.Errorf("without a script %v: a misspelled key: the page says %q, want its line and the nearest key", noScript, text)
		}
		look("fault")
		press("preview", "cpa: 500GiB", "cap: 1MiB\n  min_age: 0s\n  brake: 10%")
		if text := p.main(); !strings.Contains(text, "The plan removes 2 builds and frees") || !strings.Contains(text, "above the brake") || !strings.Contains(text, "#1") || strings.Contains(text, "#3") {
			t.Errorf("without a script %v: the preview says %q; want that builds 1 and 2 go, and the brake", noScript, text)
		}
		look("preview")
		previewed := see()
		if out := s.run("policy", "show", "--json"); !strings.Contains(out, `"number":0`) {
			t.Errorf("without a script %v: a preview has stored a policy: %s", noScript, out)
		}
		p.click("main button[value=save]")
		if text := p.main(); !strings.Contains(text, "The policy was saved. Nothing was removed.") || !strings.Contains(text, "Policy 1 is in force") {
			t.Errorf("without a script %v: after saving the page says %q", noScript, text)
		}
		if out := s.run("policy", "show"); strings.TrimSpace(out) != strings.TrimSpace(previewed.text) {
			t.Errorf("without a script %v: stored is %q, previewed was %q", noScript, out, previewed.text)
		}
		look("saved")
		press("preview", "floor: 1", "floor: 2")
		theirs := filepath.Join(s.dir, "policy.yaml")
		if err := os.WriteFile(theirs, []byte("retention:\n  trash: 12h\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		s.run("policy", "set", theirs)
		p.click("main button[value=save]")
		if text := p.main(); !strings.Contains(text, "set policy 2 on") || !strings.Contains(text, "trash: 12h") || !strings.Contains(see().text, "floor: 2") || see().save != "" {
			t.Errorf("without a script %v: a policy that was set meanwhile: the page says %q; want both, and nothing to save", noScript, text)
		}
		look("conflict")
		reader := newTab(t, noScript)
		reader.newForm(s.url+"/-/login", "/-/retention", s.token("anna", "--scope", "read"))
		if text := reader.main(); !strings.Contains(text, "trash: 12h") || !strings.Contains(text, "symdepot policy set FILE") || eval[bool](reader, `document.querySelector("textarea") !== null`) {
			t.Errorf("without a script %v: a reader sees %q; want the policy without an editor, and the command", noScript, text)
		}
		reader.open(s.url + "/-/audit")
		if text := reader.main(); !strings.Contains(text, "rights of an administrator") || !strings.Contains(text, "You are signed in as") || !strings.Contains(text, "Sign in with other credentials") {
			t.Errorf("without a script %v: a page for administrators says %q to a reader; want the right that is missing, and where to sign in", noScript, text)
		}
		if !noScript {
			reader.screen("forbidden")
		}
	}
}

// TestHoldWords: the page of a build offers no class that the build has, and says "hold" of
// holds only.
func TestHoldWords(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(s *site) {
		policy := filepath.Join(s.dir, "policy.yaml")
		if err := os.WriteFile(policy, []byte("retention:\n  classes:\n    - {name: release}\n    - {name: nightly, keep_within: 14d}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		s.run("add", "--product", "Game", "--version", "1", "--class", "release", build(t, "game", 1, 16))
		s.run("policy", "set", policy)
		s.run("hold", "1", "GA")
	}, "--auth")
	p := newTab(t)
	p.newForm(s.url+"/-/login", "/-/builds/1", s.token("admin", "--scope", "admin"))
	if got := eval[string](p, `(e => e.value + "|" + [...e.options].map(o => o.value))(document.querySelector("select[name=class]"))`); got != "|,nightly" {
		t.Errorf("chosen and offered to promote to are %q, want none and nightly", got)
	}
	if text := p.main(); !strings.Contains(text, "On hold") || !strings.Contains(text, "Remove this hold") || strings.Contains(text, "Held") {
		t.Errorf("the page of a build on hold says %q", text)
	}
	p.screen("build-hold")
	p.accessible("a build on hold")
	p.fits("a build on hold")
	p.click("main form.inline button")
	if text := p.main(); !strings.Contains(text, "The hold was removed.") || strings.Contains(text, "On hold") {
		t.Errorf("after the hold was removed the page says %q", text)
	}
}
