package browser

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// The longest names: of a file in a file system, and of a product, in which no line can be
// broken at a space.
var (
	longFile = strings.Repeat("longname", 31)[:243]
	longName = strings.Repeat("Nameless", 38)[:300]
)

// noteELF is a program with a build id of 32 bytes, which is 64 digits.
func noteELF(number byte) []byte {
	id := bytes.Repeat([]byte{0xA0 | number&15}, 32)
	id[0] = number
	note := slices.Concat([]byte{4, 0, 0, 0, 32, 0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U', 0}, id)
	b := make([]byte, 64+56, 64+56+len(note))
	copy(b, "\x7fELF\x02\x01\x01")
	le := binary.LittleEndian
	le.PutUint16(b[16:], 3)  // a shared object
	le.PutUint16(b[18:], 62) // x86-64
	le.PutUint32(b[20:], 1)
	le.PutUint64(b[32:], 64) // where the one program header is
	le.PutUint16(b[52:], 64)
	le.PutUint16(b[54:], 56)
	le.PutUint16(b[56:], 1)
	le.PutUint16(b[58:], 64)
	le.PutUint32(b[64:], 4) // PT_NOTE
	le.PutUint32(b[68:], 4)
	le.PutUint64(b[72:], 120)
	le.PutUint64(b[96:], uint64(len(note)))
	le.PutUint64(b[104:], uint64(len(note)))
	le.PutUint64(b[112:], 4)
	return append(b, note...)
}

// crowded is a site with many rows, the longest names and ids, an audit log, and an
// upstream that is down.
func crowded(t *testing.T) (s *site, admin string) {
	t.Helper()
	conf := filepath.Join(t.TempDir(), "symdepot.yaml")
	if err := os.WriteFile(conf, []byte("auth: {audit: {file: "+filepath.Join(t.TempDir(), "audit.jsonl")+"}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = newSite(t, func(s *site) {
		full(s)
		dir := t.TempDir()
		for i := range byte(120) {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s%03d.so", longFile, i)), noteELF(i), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s.run("add", "--product", longName, "--version", longName, "--comment", strings.Repeat("comment", 60), dir)
		for i := range 12 {
			s.run("add", "--product", longName[:290]+fmt.Sprint(i), "--version", fmt.Sprint(longName[:290], i), filepath.Join(dir, fmt.Sprintf("%s%03d.so", longFile, i)))
		}
		policy := filepath.Join(s.dir, "policy.yaml")
		if err := os.WriteFile(policy, []byte("retention:\n  brake: 100%\n  min_age: 0s\n  classes:\n    - {name: "+longName[:60]+", keep_last: 1}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		s.run("policy", "set", policy)
		for i := range 3 {
			s.run("promote", fmt.Sprint(4+i), "--class", longName[:60])
		}
		s.run("hold", "4", strings.Repeat("because", 40))
	}, "--config", conf, "--upstream", "http://127.0.0.1:1/"+longName+",name=down", "--upstream", "http://127.0.0.1:1/x,name=gone")
	for i := range 30 {
		s.get(fmt.Sprintf("/%s%d.pdb/11112222333344445555666677778%03dA/%[1]s%[2]d.pdb", longFile, i, i))
	}
	s.get(strings.TrimSuffix(pdbPath, "pdb") + "sym")
	admin = s.token("admin", "--scope", "admin")
	for i := range 20 {
		s.token(fmt.Sprint(longName[:190], i), "--product", longName, "--expires", "1h")
	}
	for range 3 {
		s.get(pdbPath, "Authorization", "Bearer "+admin, "User-Agent", strings.Repeat("agent", 60))
	}
	s.stop() // what was missing is stored then
	s.serve()
	return s, admin
}

// TestCrowded: with many rows, names of 300 letters and ids of 64 digits, no page of an
// administrator scrolls sideways at 400 %, nothing is too small, and axe-core finds no
// violation there; the traces and the answers about files among them.
func TestCrowded(t *testing.T) {
	t.Parallel()
	needChrome(t)
	s, admin := crowded(t)
	p := newTab(t)
	p.newForm(s.url+"/-/login", "/", admin)
	long := longFile + "000.so"
	all := map[string]string{
		"long product": "/-/product?p=" + longName, "long version": "/-/version?p=" + longName + "&v=" + longName, "long compare": "/-/version?p=" + longName + "&v=" + longName + "&with=" + longName[:290] + "1",
		"long tx": "/-/builds/4", "long remove": "/-/builds/5/remove", "long search": "/-/search?q=*.so", "long name search": "/-/search?q=" + long, "nothing": "/-/search?q=" + longName,
		"trace build id": "/-/trace?path=" + url.QueryEscape("/buildid/"+fmt.Sprintf("%x", noteELF(0)[136:])+"/executable"), "trace long": "/-/trace?path=" + url.QueryEscape("/"+long+"/"+strings.Repeat("1234567890ABCDEF", 4)+"/"+long),
		"tokens": "/-/tokens", "audit": "/-/audit", "sign-ins": "/-/signins", "publish": "/-/publish", "not found": "/-/file/" + strings.Repeat("0", 64), "about": "/-/about",
		"missing": "/-/missing", "upstreams": "/-/upstreams", "jobs": "/-/jobs", "job": "/-/jobs/1", "retention": "/-/retention", "disk": "/-/disk", "products": "/-/products", "txs": "/-/builds", "home": "/",
		"long object": strings.TrimPrefix(s.file(long), s.url),
	}
	for word, path := range all {
		p.open(s.url + path)
		if at := p.at(); strings.Contains(at, "/-/login") {
			t.Fatalf("%s leads to %s, want the page", path, at)
		}
		if text := p.main(); len(text) < 20 || strings.Contains(text, "he request is not valid") {
			t.Errorf("%s shows %q, want the page", path, text)
		}
		if said := p.told(); len(said) > 0 && word != "not found" { // the browser itself reports a 404
			t.Errorf("%s: the browser said %q, want nothing", word, said)
		}
		p.fits(word)
		p.narrow()
		p.accessible(word + " at 400 %")
		p.screen("crowded-" + word)
		p.wide()
	}
	p.open(s.url + "/-/retention")
	p.click(`form[action$="/preview"] button`)
	p.fits("plan")
	p.open(s.url + "/-/tokens")
	p.fill("main form", map[string]string{"name": longName[:200], "read": "on", "days": "1"})
	p.fits("new token")
	dir := t.TempDir()
	files := []string{filepath.Join(dir, long), filepath.Join(dir, longFile+".txt")}
	for _, f := range files {
		if err := os.WriteFile(f, map[bool][]byte{true: noteELF(0), false: []byte("text")}[strings.HasSuffix(f, ".so")], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.open(s.url + "/-/identify")
	p.do(chromedp.SetUploadFiles(chromedp.CSS("#files"), files), chromedp.Click(chromedp.CSS("form.drop button")), chromedp.WaitVisible(chromedp.CSS("article .pairs")))
	p.fits("identify")
	p.narrow()
	p.accessible("identify at 400 %")
}

// TestErrorPages: the pages of errors say what is wrong, and whose fault it is, with the
// number of the request that the log has. They look as the others: light, dark, at 400 %.
func TestErrorPages(t *testing.T) {
	t.Parallel()
	audit := filepath.Join(t.TempDir(), "audit.jsonl")
	conf := filepath.Join(t.TempDir(), "symdepot.yaml")
	if err := os.WriteFile(conf, []byte("auth: {audit: {file: "+audit+"}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newSite(t, full, "--config", conf)
	admin, reader := s.token("admin", "--scope", "admin"), s.token("reader", "--product", "Game")
	p := newTab(t)
	check := func(status int, says ...string) { // without first letters, which the style sheet makes large
		t.Helper()
		text := p.main()
		for _, want := range append(says, fmt.Sprint("Status ", status), "request ") {
			if !strings.Contains(text, want) {
				t.Errorf("%s: the page says %q, want %q in it", p.at(), text, want)
			}
		}
		if !eval[bool](p, `document.querySelector("nav a, .brand") !== null && document.querySelector("main h1") !== null && document.title.endsWith("symdepot")`) {
			t.Errorf("%s: the page of the error has no navigation, no heading or no title", p.at())
		}
		word := fmt.Sprint("error-", status)
		for _, scheme := range []string{"light", "dark"} {
			p.scheme(scheme)
			p.accessible(word + " " + scheme)
			p.screen(word + "-" + scheme)
		}
		p.fits(word)
		p.narrow()
		p.screen(word + "-phone")
		p.wide()
	}
	p.open(s.url + "/-/builds/999")
	check(404, "ot found", "names nothing that you may see")
	p.open(s.url + "/-/product?p=%22%3E%3Cscript%3E%E2%80%AEgpj")
	check(404, "ot found")
	p.open(s.url + "/-/builds?limit=none")
	check(400, "he request is not valid", "he limit is not valid")
	p.open(s.url + "/-/logout") // a page that takes forms only
	check(405, "does not support the method")
	p.newForm(s.url+"/-/login", "/", reader)
	p.open(s.url + "/-/audit")
	check(403, "do not allow this", "the rights of an administrator")
	p.click(`form[action="/-/logout"] button`)
	p.newForm(s.url+"/-/login", "/", admin)
	if err := os.Remove(audit); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if err := os.MkdirAll(audit, 0o777); err != nil { // cannot be read
		t.Fatal(err)
	}
	p.open(s.url + "/-/audit")
	check(500, "nternal error", "The server could not do this", "Debuggers are answered independently")
	request := eval[string](p, `document.querySelector("main p.dim code").textContent`)
	if log := s.log.String(); request == "" || !strings.Contains(log, request) {
		t.Errorf("the log has no %q, the number of the request that failed:\n%s", request, log)
	}
	for range 4 { // one person's streams
		q := newTab(t)
		q.open(s.url + "/-/prefs")
		value(q, chromedp.Evaluate[bool](`new Promise(done => { const e = new EventSource("/-/events?topics=jobs"); e.onopen = () => done(true); })`, chromedp.EvalAwaitPromise))
	}
	p.open(s.url + "/-/events?topics=jobs")
	check(503, "he server is busy", "oo many pages are kept current")
}

// TestNoBox: a browser that has no credentials is never asked by its own box, by no page
// of a closed server: the answers have no WWW-Authenticate. Tools are asked as ever.
func TestNoBox(t *testing.T) {
	t.Parallel()
	s, admin := closed(t)
	for path := range map[string]bool{"/": true, "/?q=x": true, "/-/": true, "/-/builds": true, "/-/builds/999": true, "/-/jobs": true, "/-/tokens": true, "/-/audit": true, "/-/publish": true, "/-/search?q=a": true, "/-/events?topics=jobs": true} {
		status, h, body := s.get(path, "Accept", "text/html,application/xhtml+xml,*/*;q=0.8", "Sec-Fetch-Mode", "navigate")
		if status == http.StatusUnauthorized || h.Get("WWW-Authenticate") != "" {
			t.Errorf("GET %s as a browser: status %d, WWW-Authenticate %q; want no box", path, status, h["Www-Authenticate"])
		} else if status == http.StatusOK && !bytes.Contains(body, []byte(`type="password"`)) {
			t.Errorf("GET %s as a browser: want the form for signing in\n%.300s", path, body)
		}
		if status, h, _ := s.get(path); status != http.StatusUnauthorized || h.Get("WWW-Authenticate") == "" {
			t.Errorf("GET %s as a tool: status %d, WWW-Authenticate %q; want to be asked", path, status, h["Www-Authenticate"])
		}
	}
	// The wanted page, with its query, after signing in; and the secret is in no storage.
	p := newTab(t)
	p.open(s.url + "/-/search?q=hello*&sort=size")
	p.fill("main form", map[string]string{"password": admin})
	if at := p.at(); at != s.url+"/-/search?q=hello*&sort=size" {
		t.Errorf("after signing in the browser is at %s, want the search", at)
	}
	cookies := call(p, network.GetCookies, network.GetCookiesParams{}).Cookies
	if len(cookies) != 1 || !cookies[0].HTTPOnly || strings.Contains(cookies[0].Value, "sd_") || strings.Contains(cookies[0].Value, admin) {
		t.Errorf("the cookies are %+v, want one for the server alone, without the token", cookies)
	}
	if text := eval[string](p, `document.cookie + JSON.stringify(localStorage) + JSON.stringify(sessionStorage)`); text != "{}{}" {
		t.Errorf("scripts can read %q, want nothing", text)
	}
}
