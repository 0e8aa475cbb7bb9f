package browser

import (
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// symCache is the path of a SymCache file of testdata/pdb/hello-x64.pdb, which a job makes.
const symCache = "/v3.1.0/hello-x64.pdb/f9efe0b6-ae75-0039-4c4c-44205044422e/1"

// lease asks a server for a job as a worker that makes SymCache files, and returns the
// answer.
func (s *site) lease(token string) string {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+"/-/worker/lease", strings.NewReader(`{"worker":"w","slots":1,"wait_seconds":0,"abilities":[{"kind":"symcache","variant":3,"version":"3.1.0"}]}`))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		s.t.Fatalf("a worker asks for a job: status %d, %v; want 200\n%s", resp.StatusCode, err, b)
	}
	return string(b)
}

// state is what the page of a job says of it.
const state = `document.querySelector("[data-field=state]").textContent`

// TestLive: the page of jobs offers a new job; the page of a job shows its state without
// being loaded again, also after the server was started again; with ten tabs open, clicks
// are answered.
func TestLive(t *testing.T) {
	t.Parallel()
	s := newSite(t, full, "--symcache-wait", "1ms")
	worker := s.token("worker", "--scope", "read", "--scope", "write")
	s.lease(worker)                                   // the server knows what the worker makes
	s.get(strings.TrimSuffix(pdbPath, "pdb") + "sym") // so that there is a list
	list := newTab(t)
	list.open(s.url + "/-/jobs")
	eval[bool](list, `window.stays = true`)
	s.get(symCache) // nobody makes it until the worker asks again
	list.until(`document.querySelector("[data-fresh] a")?.textContent === "1 new, show"`)
	list.do(chromedp.Click(chromedp.CSS("[data-fresh] a")))
	list.until(`!window.stays && document.querySelectorAll("tbody tr").length === 2`)
	eval[bool](list, `window.stays = true`)
	job := newTab(t)
	job.open(eval[string](list, `document.querySelector("tbody tr th a").href`))
	job.until(state + ` === "queued"`)
	eval[bool](job, `window.stays = true`)
	if answer := s.lease(worker); !strings.Contains(answer, "hello-x64.pdb") {
		t.Fatalf("the worker gets %s, want the job", answer)
	}
	job.until(state + ` === "running" && window.stays`)
	if class := eval[string](job, `document.querySelector("[data-field=state]").className`); class != "mark warn" {
		t.Errorf("the mark of a job that runs has the class %q, want mark warn", class)
	}
	if text := eval[string](job, `document.querySelector("[data-field=worker]").textContent`); text != "w" {
		t.Errorf("the worker of the job is %q, want w", text)
	}

	// What happens while the server is away is seen when it is back.
	s.stop()
	s.run("jobs", "cancel", path.Base(job.at()))
	s.serve()
	job.until(state + ` === "cancelled" && window.stays`)
	list.until(`document.querySelector("tbody tr [data-field=state]").textContent === "cancelled" && window.stays`)

	tabs := []*tab{list, job}
	for len(tabs) < 10 {
		p := newTab(t)
		p.open(s.url + "/-/jobs")
		tabs = append(tabs, p)
	}
	for i, p := range tabs {
		begun := time.Now()
		p.do(chromedp.Click(chromedp.CSS("nav summary")), chromedp.Click(chromedp.CSS("nav a")), chromedp.WaitVisible(chromedp.CSS("#q")))
		p.until(`location.pathname === "/-/search" && document.readyState === "complete"`)
		if d := time.Since(begun); d > 10*time.Second {
			t.Errorf("a click in tab %d of ten is answered after %v, want at once", i+1, d)
		}
	}
}

// TestStreamsOfOne: of the pages of one person, four are kept current. The page of the
// refusal says so, and it is free again when one of them is closed.
func TestStreamsOfOne(t *testing.T) {
	t.Parallel()
	s := newSite(t, full)
	var all []*tab
	for range 4 {
		p := newTab(t)
		p.open(s.url + "/-/jobs")
		p.do(chromedp.WaitReady(chromedp.CSS("main")))
		eval[bool](p, `(() => { const e = new EventSource("/-/events?topics=upstreams"); e.onopen = () => { window.opened = true; }; return true; })()`)
		all = append(all, p)
	}
	p := newTab(t)
	p.open(s.url + "/-/events?topics=jobs")
	if text := eval[string](p, `document.querySelector("main").innerText`); !strings.Contains(text, "oo many pages are kept current") || !strings.Contains(text, "503") {
		t.Errorf("the fifth stream: the page says %q, want that too many pages are kept current, with the status 503", text)
	}
	for _, p := range all {
		p.open(s.url + "/-/search")
	}
	p.open(s.url + "/-/jobs")
	p.do(chromedp.WaitReady(chromedp.CSS("main")))
	eval[bool](p, `(() => { const e = new EventSource("/-/events?topics=upstreams"); e.onopen = () => { window.opened = true; }; return true; })()`)
	p.until(`window.opened === true`)
}

// TestUpstreamDown: the page of upstreams shows since when an upstream fails, until when
// it is not asked, and its last error, without being loaded again; home says that one of
// two upstreams answers; held files are served; and an administrator probes it and closes
// the breaker.
func TestUpstreamDown(t *testing.T) {
	t.Parallel()
	good, bad := newSite(t, nil), newSite(t, nil)
	s := newSite(t, full, "--upstream", good.url+",name=good", "--upstream", bad.url+",name=bad")
	s.get("/vendor.pdb/11112222333344445555666677778888A/vendor.pdb")
	p := newTab(t)
	p.newForm(s.url+"/-/login", "/", s.token("admin", "--scope", "admin"))
	if text := eval[string](p, `document.querySelector(".lead").innerText`); !strings.Contains(text, "2 upstreams in order") {
		t.Errorf("before: home says %q, want 2 upstreams in order", text)
	}
	p.open(s.url + "/-/upstreams")
	eval[bool](p, `window.stays = true`)
	bad.stop()
	for i := range 6 {
		s.get(fmt.Sprintf("/vendor.pdb/1111222233334444555566667777888%dA/vendor.pdb", i))
	}
	const row = `[...document.querySelectorAll("tbody tr")].find(r => r.cells[0].innerText === "bad")`
	p.until(row + `.querySelector("[data-field=state]").textContent.includes("circuit breaker is open") && window.stays`)
	if class := eval[string](p, row+`.querySelector("[data-field=state]").className`); class != "mark bad" {
		t.Errorf("the mark of an upstream that is not asked has the class %q, want that of what is bad", class)
	}
	p.open(s.url + "/-/upstreams")
	text := eval[string](p, row+`.innerText`)
	for _, want := range []string{"circuit breaker is open", "since ", "until ", "refused"} {
		if !strings.Contains(text, want) {
			t.Errorf("the upstream that is down: the row says %q, want %q in it", text, want)
		}
	}
	begun := time.Now()
	if status, _, _ := s.get(pdbPath); status != 200 || time.Since(begun) > 5*time.Second {
		t.Errorf("a held file meanwhile: status %d after %v, want 200 at once", status, time.Since(begun))
	}
	p.open(s.url + "/")
	if text := eval[string](p, `document.querySelector(".lead").innerText`); !strings.Contains(text, "1 of 2 upstreams answer") {
		t.Errorf("meanwhile: home says %q, want 1 of 2 upstreams", text)
	}
	press := func(act, notice string) {
		t.Helper()
		eval[bool](p, `(() => { window.leaving = true; `+row+`.querySelector("button[value=`+act+`]").click(); return true; })()`)
		p.until(`!window.leaving && document.readyState === "complete"`)
		if text := eval[string](p, `document.querySelector("main .note").innerText`); !strings.Contains(text, notice) {
			t.Errorf("%s: the page says %q, want %q", act, text, notice)
		}
	}
	p.open(s.url + "/-/upstreams")
	press("probe", "did not answer") // so the breaker stays open, or opens again
	press("reset", "was closed")
	bad.serve()
	press("probe", "and answered")
	if text := eval[string](p, row+`.innerText`); !strings.Contains(text, "answers") || strings.Contains(text, "since ") {
		t.Errorf("after the upstream is back: the row says %q, want that it answers", text)
	}
	p.open(s.url + "/")
	if text := eval[string](p, `document.querySelector(".lead").innerText`); !strings.Contains(text, "2 upstreams in order") {
		t.Errorf("after: home says %q, want 2 upstreams in order", text)
	}
}
