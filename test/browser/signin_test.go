package browser

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
)

// closed is a server that asks everybody for credentials, with an audit log and more
// lines of configuration.
func closed(t *testing.T, lines ...string) (s *site, admin string) {
	t.Helper()
	conf := filepath.Join(t.TempDir(), "symdepot.yaml")
	if err := os.WriteFile(conf, []byte("auth: {demand: true, audit: {file: "+filepath.Join(t.TempDir(), "audit.jsonl")+"}}\n"+strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = newSite(t, full, "--config", conf)
	return s, s.token("admin", "--scope", "admin")
}

var secret = regexp.MustCompile(`sd_[A-Za-z0-9_-]{43}`)

// token makes a token of the depot.
func (s *site) token(name string, args ...string) string {
	s.t.Helper()
	out := s.run(append([]string{"token", "new", "--name", name}, args...)...)
	token := secret.FindString(out)
	if token == "" {
		s.t.Fatalf("token new printed no token: %s", out)
	}
	return token
}

// fill fills in and sends the form of a page that has a field, and waits for the next
// page.
func (p *tab) fill(form string, fields map[string]string) {
	p.t.Helper()
	for name, text := range fields {
		eval[bool](p, `(()=>{const e=document.querySelector('`+form+` [name=`+name+`]');if(e.type=="checkbox")e.checked=true;else e.value="`+text+`";return true})()`)
	}
	eval[bool](p, `(()=>{window.leaving=true;document.querySelector('`+form+` button[type=submit]').click();return true})()`)
	p.until(`!window.leaving && document.readyState==="complete"`)
}

// TestClosedServer: a browser at a closed server sees a form and no box of the browser,
// and gets to the page that it wanted, on this server in any case.
func TestClosedServer(t *testing.T) {
	t.Parallel()
	s, admin := closed(t)
	p := newTab(t)
	p.open(s.url + "/-/builds/2")
	if at := p.at(); !strings.HasPrefix(at, s.url+"/-/login?next=") || !eval[bool](p, `document.querySelector("main input[type=password]")!==null`) {
		t.Fatalf("the closed server shows %s, want the page for signing in", at)
	}
	p.fill("main form", map[string]string{"password": "wrong"})
	if text := eval[string](p, `document.querySelector("[role=alert]")?.textContent||""`); !strings.Contains(text, "The token is wrong") || strings.Contains(text, "user name") {
		t.Errorf("a wrong token: the page says %q, want that the token is wrong, and nothing of a user name", text)
	}
	p.fill("main form", map[string]string{"password": admin})
	if at := p.at(); at != s.url+"/-/builds/2" {
		t.Errorf("after signing in the browser is at %s, want %s/-/builds/2", at, s.url)
	}
	eval[bool](p, `(()=>{window.leaving=true;document.querySelector('form[action="/-/logout"] button').click();return true})()`)
	p.until(`!window.leaving && location.pathname==="/-/login"`)
	for _, next := range []string{"//evil.example", `/\evil.example`, "https://evil.example/", "javascript:alert(1)"} {
		q := p.newForm(s.url+"/-/login", next, admin)
		if at := q.at(); at != s.url+"/" {
			t.Errorf("next=%s: the browser is at %s, want the root", next, at)
		}
	}
	if said := p.told(); len(said) > 1 { // the wrong token is a 401
		t.Errorf("the browser said %q, want nothing but the status 401", said)
	}
}

// newForm opens the page for signing in with a page to go to, and signs in.
func (p *tab) newForm(login, next, token string) *tab {
	p.t.Helper()
	p.open(login + "?next=" + strings.NewReplacer("/", "%2F", `\`, "%5C", ":", "%3A").Replace(next))
	p.fill("main form", map[string]string{"password": token})
	return p
}

// TestForeignForm: the form of a page of another site changes nothing, although the
// browser is signed in, and our own does.
func TestForeignForm(t *testing.T) {
	t.Parallel()
	s, admin := closed(t)
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<main><form method="post" action="` + s.url + `/-/tokens"><input name="name" value="stolen"><input name="read" value="on"><button type="submit">x</button></form></main>`))
	}))
	defer evil.Close()
	p := newTab(t)
	p.newForm(s.url+"/-/login", "/", admin)
	for _, from := range []string{evil.URL, strings.Replace(evil.URL, "127.0.0.1", "localhost", 1)} { // a sibling, and another site
		p.open(from)
		p.fill("form", nil)
		if text := eval[string](p, `document.body.textContent`); !strings.HasPrefix(p.at(), s.url) || !strings.Contains(text, "403") {
			t.Errorf("a form of %s leads to %s, want a page with the status 403:\n%s", from, p.at(), text)
		}
	}
	if list := s.run("token", "list"); strings.Contains(list, "stolen") {
		t.Errorf("a form of another site made a token:\n%s", list)
	}
	p.open(s.url + "/-/tokens")
	p.fill("main form", map[string]string{"name": "ours", "read": "on", "days": "1"})
	if list := s.run("token", "list"); !strings.Contains(list, "ours") {
		t.Errorf("our own form made no token:\n%s", list)
	}
}

// TestNewToken: a new token is shown once; to load its page again, or to go back to it,
// does not show it.
func TestNewToken(t *testing.T) {
	t.Parallel()
	s, admin := closed(t)
	p := newTab(t)
	p.newForm(s.url+"/-/login", "/-/tokens", admin)
	p.fill("main form", map[string]string{"name": "ci", "read": "on", "days": "1"})
	shown := func() string { return secret.FindString(eval[string](p, `document.documentElement.outerHTML`)) }
	token := shown()
	if token == "" || !strings.HasPrefix(p.at(), s.url+"/-/tokens/") {
		t.Fatalf("after the form the browser is at %s, with the token %q; want it shown", p.at(), token)
	}
	if status, _, _ := s.get("/metrics", "Authorization", "Bearer "+token); status != http.StatusOK {
		t.Errorf("the new token: status %d, want 200", status)
	}
	eval[bool](p, `(()=>{window.leaving=true;location.reload();return true})()`)
	p.until(`!window.leaving && document.readyState==="complete"`)
	if got := shown(); got != "" {
		t.Error("the page shows the token again after it is loaded again")
	}
	p.open(s.url + "/-/tokens")
	call(p, page.NavigateToHistoryEntry, page.NavigateToHistoryEntryParams{EntryID: back(p)})
	p.until(`location.pathname.startsWith("/-/tokens/") && document.readyState==="complete"`)
	if got := shown(); got != "" {
		t.Error("the page shows the token again after Back")
	}
	if strings.Contains(s.log.String(), token) {
		t.Error("the log has the token")
	}
}

// back is the entry of the history before this one.
func back(p *tab) int64 {
	p.t.Helper()
	h := call(p, page.GetNavigationHistory, struct{}{})
	return h.Entries[h.CurrentIndex-1].ID
}

// TestRevokedToken: a browser that signed in with a token is out within five seconds
// of its revocation, and the token is in no page, address, log or storage.
func TestRevokedToken(t *testing.T) {
	t.Parallel()
	s, admin := closed(t)
	token := s.token("guest", "--product", "Game")
	p := newTab(t)
	p.open(s.url + "/t/" + token + "/")
	check := func(what string) {
		t.Helper()
		text := eval[string](p, `document.documentElement.outerHTML+" "+JSON.stringify(localStorage)+" "+JSON.stringify(sessionStorage)+" "+document.cookie`)
		if strings.Contains(text, token) {
			t.Errorf("%s: the page or the storage has the token", what)
		}
	}
	check("the root page below the token")
	eval[bool](p, `(()=>{window.leaving=true;document.querySelector('form[action$="/-/login"] button').click();return true})()`)
	p.until(`!window.leaving && document.readyState==="complete"`)
	if at := p.at(); at != s.url+"/" {
		t.Fatalf("signing in with the token leads to %s, want the root", at)
	}
	for _, path := range []string{"/", "/-/search?q=hello*", "/-/builds", "/-/tokens", "/-/signins"} {
		p.open(s.url + path)
		if at := p.at(); strings.Contains(at, token) || strings.Contains(at, "login") {
			t.Errorf("%s leads to %s, want the page without the token", path, at)
		}
		check(path)
	}
	begun := time.Now()
	s.run("token", "revoke", id(t, s, "guest"))
	for {
		p.open(s.url + "/-/builds")
		if strings.Contains(p.at(), "/-/login") {
			break
		}
		if d := time.Since(begun); d > 10*time.Second {
			t.Fatalf("the browser is signed in %v after the revocation, want at most 5 s", d)
		}
	}
	if d := time.Since(begun); d > 6*time.Second {
		t.Errorf("the browser was signed in %v after the revocation, want at most 5 s", d)
	}
	if log := s.log.String(); strings.Contains(log, token) || strings.Contains(log, admin) {
		t.Error("the log has a token")
	}
}

// TestAccountPages: the pages about tokens, sign-ins and the audit log, with hostile
// names among them, have no violation of WCAG A or AA, say nothing to the console, and
// do not scroll sideways at 320 pixels.
func TestAccountPages(t *testing.T) {
	t.Parallel()
	s, admin := closed(t)
	s.token(`"><script>alert(1)</script>`+"x\u00e9"+strings.Repeat("long", 40), "--product", "a/b", "--expires", "1h")
	reader := s.token("reader", "--product", "Game")
	for range 3 {
		if status, _, _ := s.get(pdbPath, "Authorization", "Bearer "+reader, "User-Agent", "<b>"); status != http.StatusOK {
			t.Fatalf("the PDB for the reader: status %d, want 200", status)
		}
	}
	p := newTab(t)
	p.open(s.url + "/-/login")
	fits := func(word string) {
		t.Helper()
		p.quiet(word)
		p.screen("account-" + word)
		p.accessible(word)
		p.fits(word)
	}
	fits("login")
	p.newForm(s.url+"/-/login", "/-/tokens", admin)
	fits("tokens")
	p.fill("main form", map[string]string{"name": "ci", "read": "on", "days": "1"})
	fits("new token")
	for word, path := range map[string]string{
		"sign-ins": "/-/signins", "audit": "/-/audit", "audit-none": "/-/audit?who=nobody", "home": "/", "revoke": "/-/tokens/" + id(t, s, "reader") + "/revoke", "token": "/-/tokens/" + id(t, s, "reader"),
	} {
		p.open(s.url + path)
		if at := p.at(); at != s.url+path {
			t.Errorf("%s: the browser is at %s, want %s", word, at, path)
		}
		fits(word)
	}
	p.open(s.url + "/t/" + reader + "/")
	fits("root below a token")
}

// id is that of a token.
func id(t *testing.T, s *site, name string) string {
	t.Helper()
	list := s.run("token", "list", "--json")
	m := regexp.MustCompile(`"id":"([0-9a-f]{12})","name":"` + name + `"`).FindStringSubmatch(list)
	if m == nil {
		t.Fatalf("there is no token %s:\n%s", name, list)
	}
	return m[1]
}
