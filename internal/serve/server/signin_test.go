package server

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/oidc"
	"github.com/symdepot/symdepot/internal/serve/oidc/oidctest"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
)

// tab is a browser with its cookies. It reaches the server over TLS, through a proxy.
type tab struct {
	t       *testing.T
	s       *Server
	host    string
	cookies map[string]string
	header  http.Header
	// secrets were in a cookie of the browser at some time.
	secrets []string
}

func newTab(t *testing.T, s *Server) *tab {
	return &tab{t: t, s: s, host: "symbols.example.com", cookies: map[string]string{}, header: http.Header{
		"Accept": {"text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"}, "Accept-Encoding": {"gzip, deflate"}, "X-Forwarded-Proto": {"https"},
		"User-Agent": {"Mozilla/5.0 (X11; Linux x86_64) Firefox/150"},
	}}
}

// send sends one request. A form makes it a POST from a page of this server.
func (b *tab) send(method, target string, form url.Values, headers ...string) reply {
	b.t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(form.Encode()))
	r.Host = b.host
	for k, v := range b.header {
		r.Header[k] = v
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", "https://"+b.host)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for _, h := range headers {
		k, v, _ := strings.Cut(h, ": ")
		r.Header.Del(k)
		if v != "" {
			r.Header.Set(k, v)
		}
	}
	for k, v := range b.cookies {
		r.AddCookie(&http.Cookie{Name: k, Value: v})
	}
	w := httptest.NewRecorder()
	b.s.ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		if !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Secure != strings.HasPrefix(c.Name, "__Host-") && c.Name != "sd-prefs" {
			b.t.Errorf("%s %s sets the cookie %+v; want it HttpOnly, Lax, for /, and Secure if it is bound to the host", method, auth.Redact(target), c)
		}
		if delete(b.cookies, c.Name); c.MaxAge >= 0 {
			b.cookies[c.Name] = c.Value
			b.secrets = append(b.secrets, c.Value)
		}
	}
	body := w.Body.String()
	if w.Result().Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(w.Body)
		if err != nil {
			b.t.Fatal(err)
		}
		text, err := io.ReadAll(z)
		if err != nil {
			b.t.Fatal(err)
		}
		body = string(text)
	}
	for _, s := range b.secrets {
		if len(s) == 43 && strings.Contains(body, s) {
			b.t.Errorf("%s %s shows the secret of the sign-in", method, auth.Redact(target))
		}
	}
	got := reply{w.Code, w.Result().Header, body}
	compare(b.s, method, target, "", got)
	return got
}

func (b *tab) get(target string, headers ...string) reply {
	return b.send("GET", target, nil, headers...)
}

func (b *tab) post(target string, form url.Values, headers ...string) reply {
	return b.send("POST", target, form, headers...)
}

// to is where an answer leads.
func (r reply) to() string { return r.header.Get("Location") }

// signInWorld is a closed server with pages, the user alice, and audit records.
type signInWorld struct {
	*guarded
	gate     *auth.Gate
	audit    *auth.Audit
	issuer   *oidctest.Issuer
	provider *oidctest.Client
	admin    string // a token
}

// signInsPage is the page about the client and its sign-ins.
const signInsPage = "/-/signins" //nolint:misspell // a word of addresses

const testBase = "https://symbols.example.com"

func newSignInWorld(t *testing.T, cfg Config) *signInWorld {
	t.Helper()
	w := &signInWorld{guarded: newGuarded(t, demand, cfg), issuer: oidctest.New(t, "")}
	users := filepath.Join(t.TempDir(), "users")
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err == nil {
		err = os.WriteFile(users, []byte("alice:"+string(hash)+"\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.provider = &oidctest.Client{ID: "depot", Secret: "s", Redirect: testBase + "/-/login/oidc/callback",
		Person: map[string]any{"email": "bob@corp.example", "email_verified": true, "groups": []string{"tools"}}}
	w.issuer.SetClient(w.provider)
	w.gate, err = auth.New(auth.Config{
		Users: users, Policy: auth.PolicyConfig{Demand: true, Grants: []auth.Grant{
			{Who: []string{"alice"}, Read: []string{"ours"}, Write: []string{"ours"}}, {Who: []string{"oidc-group:tools"}, Read: []string{"theirs"}},
		}},
		OIDCClient: func(string) *http.Client { return http.DefaultClient },
		SignIn:     &oidc.LoginConfig{Issuer: w.issuer.URL, ClientID: "depot", ClientSecret: "s", Groups: "groups"},
	}, w.store, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.gate.Close() })
	if w.audit, err = auth.OpenAudit(auth.AuditConfig{File: filepath.Join(t.TempDir(), "audit.jsonl")}, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.audit.Close() })
	w.s.cfg.Gate, w.s.cfg.Audit = w.gate, w.audit
	w.use("")
	w.admin = w.store.add(t, "admin", nil, "admin")
	return w
}

// use gives the server an API with a base URL.
func (w *signInWorld) use(base string) {
	w.s.cfg.API, w.s.cfg.Pages = webOf(w.d, web.Config{Gate: w.gate, Tokens: apiTokens{w.store}, SignIns: w.gate, Audit: w.audit, BaseURL: base})
}

// in signs a tab in with a password, or with a token in place of it.
func (w *signInWorld) in(t *testing.T, user, password string) *tab {
	t.Helper()
	b := newTab(t, w.s)
	if r := b.post("/-/login", url.Values{"user": {user}, "password": {password}}); r.status != 303 || r.to() != "/" || b.cookies["__Host-sd"] == "" {
		t.Fatalf("signing in: status %d to %q, cookies %v; want 303 to / with a cookie\n%s", r.status, r.to(), b.cookies, r.body)
	}
	return b
}

// TestClosedServer: a browser without credentials is led to the page for signing in,
// and afterwards to the page that it wants; tools are asked for credentials as ever.
func TestClosedServer(t *testing.T) {
	w := newSignInWorld(t, Config{Prefixes: []string{"corp"}})
	b := newTab(t, w.s)
	for target, want := range map[string]string{
		"/": "/-/login?next=%2F", "/?q=a": "/-/login?next=%2F%3Fq%3Da", "/-/builds/1": "/-/login?next=%2F-%2Fbuilds%2F1", "/-/search?q=a%20b": "/-/login?next=%2F-%2Fsearch%3Fq%3Da%2520b",
		"/corp/-/builds": "/corp/-/login?next=%2Fcorp%2F-%2Fbuilds", "/symbols/": "/-/login?next=%2Fsymbols%2F",
		"/-/nope": "/-/login?next=%2F-%2Fnope", "/corp/-/nope": "/corp/-/login?next=%2Fcorp%2F-%2Fnope",
	} {
		if r := b.get(target); r.status != 303 || r.to() != want || r.header.Get("Www-Authenticate") != "" {
			t.Errorf("GET %s as a browser: status %d to %q, %q; want 303 to %s without a box", target, r.status, r.to(), r.header["Www-Authenticate"], want)
		}
		if r := b.get(target, "Accept: */*"); r.status != 401 || r.header.Get("Www-Authenticate") == "" {
			t.Errorf("GET %s as a tool: status %d, %q; want 401", target, r.status, r.header["Www-Authenticate"])
		}
	}
	path := w.oursPDB.path(t, layout.SymStore)
	for _, target := range []string{path, "/metrics", "/nothing/at/all"} {
		if r := b.get(target); r.status != 401 || r.header.Get("Www-Authenticate") == "" {
			t.Errorf("GET %s as a browser: status %d, %q; want 401 as ever", target, r.status, r.header["Www-Authenticate"])
		}
	}
	for _, target := range []string{"/healthz", "/-/assets/x/app.css", "/-/login"} {
		if r := b.get(target); r.status == 401 || r.status == 303 {
			t.Errorf("GET %s: status %d, want an answer without credentials", target, r.status)
		}
	}
	// The form, wrong and right.
	page := b.get("/-/login?next=%2F-%2Fbuilds%2F1")
	if page.status != 200 || page.header.Get("Cache-Control") != "no-store" || !strings.Contains(page.body, `name="next" value="/-/builds/1"`) || !strings.Contains(page.body, `href="/-/login/oidc?next=%2F-%2Fbuilds%2F1"`) || strings.Contains(page.body, "Kerberos") {
		t.Errorf("the page for signing in: status %d, %v; want the form, the provider and no ticket\n%s", page.status, page.header, page.body)
	}
	wrong := b.post("/-/login", url.Values{"user": {"alice"}, "password": {"guess-1"}, "next": {"/-/builds/1"}})
	if wrong.status != 401 || wrong.header.Get("Www-Authenticate") != "" || !strings.Contains(wrong.body, `role="alert"`) || !strings.Contains(wrong.body, `value="alice"`) ||
		!strings.Contains(wrong.body, `name="next" value="/-/builds/1"`) || strings.Contains(wrong.body, "guess-1") || len(b.cookies) > 0 {
		t.Errorf("a wrong password: status %d, %v, cookies %v; want 401 without a box, and the form again without the password\n%s", wrong.status, wrong.header, b.cookies, wrong.body)
	}
	if r := b.post("/-/login", url.Values{"user": {"alice"}, "password": {"secret"}, "next": {"/-/builds/1"}}); r.status != 303 || r.to() != "/-/builds/1" {
		t.Fatalf("signing in: status %d to %q, want 303 to /-/builds/1", r.status, r.to())
	}
	if r := b.get("/-/builds/1"); r.status != 200 || !strings.Contains(r.body, ">alice</bdi></summary>") || !strings.Contains(r.body, "Sign out") {
		t.Errorf("the wanted page: status %d, want 200 with the name and Sign out\n%s", r.status, r.body)
	}
	for next, want := range map[string]string{"//evil": "/", `/\evil`: "/", "https://evil": "/", "/\tevil": "/", "javascript:alert(1)": "/", "/t/" + w.ours + "/": "/", "/-/search?q=a": "/-/search?q=a"} {
		fresh := newTab(t, w.s)
		if r := fresh.post("/-/login", url.Values{"user": {"alice"}, "password": {"secret"}, "next": {next}}); r.status != 303 || r.to() != want {
			t.Errorf("next=%s: status %d to %q, want 303 to %s", auth.Redact(next), r.status, r.to(), want)
		}
	}
	// The cookie counts below /-/ and at the root only.
	for target, want := range map[string]int{"/": 200, "/-/search": 200, "/-/api/v1/me": 200, path: 401, "/metrics": 401, "/metadata?key=glob&value=*": 401, "/symbols" + path: 401, "/symbols/": 200, "/-/worker/lease": 401} {
		if r := b.get(target); r.status != want {
			t.Errorf("GET %s with the cookie: status %d, want %d", target, r.status, want)
		}
	}
	if r := b.post("/-/logout", nil); r.status != 303 || r.to() != "/" || b.cookies["__Host-sd"] != "" {
		t.Errorf("signing out: status %d to %q, cookies %v; want 303 to / without a cookie", r.status, r.to(), b.cookies)
	}
	b.cookies["__Host-sd"] = b.secrets[0]
	if r := b.get("/-/builds/1"); r.status != 303 {
		t.Errorf("the cookie after signing out: status %d, want 303", r.status)
	}
	if strings.Contains(w.log.String(), b.secrets[0]) || strings.Contains(w.log.String(), "guess-1") {
		t.Error("the log has the secret of a sign-in, or a password")
	}
}

// TestStreamEnds: a stream of events ends within seconds after the sign-in of its
// browser.
func TestStreamEnds(t *testing.T) {
	w := newSignInWorld(t, Config{Hosts: []string{"symbols.example.com"}})
	admin, boss := w.in(t, "", w.admin), w.store.add(t, "boss", nil, "admin")
	w.s.cfg.API, w.s.cfg.Pages = webOf(w.d, web.Config{Gate: w.gate, Tokens: apiTokens{w.store}, SignIns: w.gate})
	addr := listen(t, w.s)
	stream := func(headers ...string) *bufio.Reader {
		c := dial(t, addr)
		c.send("GET /-/events?topics=upstreams HTTP/1.1\r\nHost: symbols.example.com\r\n" + strings.Join(append(headers, ""), "\r\n") + "\r\n")
		resp, err := http.ReadResponse(c.r, nil)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("the stream: %+v, %v; want the status 200", resp, err)
		}
		return bufio.NewReader(resp.Body)
	}
	byCookie := stream("X-Forwarded-Proto: https", "Cookie: __Host-sd="+admin.cookies["__Host-sd"])
	byToken := stream(bearer(boss))
	begun := time.Now()
	admin.post("/-/logout", nil)
	if _, err := io.ReadAll(byCookie); err != nil || time.Since(begun) > 5*time.Second {
		t.Errorf("the stream of the browser ends %v after it has signed out, with %v; want at most 5 s and a clean end", time.Since(begun), err)
	}
	begun = time.Now()
	w.store.revoke(boss)
	if _, err := io.ReadAll(byToken); err != nil || time.Since(begun) > 8*time.Second {
		t.Errorf("the stream of the token ends %v after its revocation, with %v; want some seconds and a clean end", time.Since(begun), err)
	}
}

// TestSignedInDownload: a browser that is signed in downloads from the page of an
// object what it may read, and nothing else.
func TestSignedInDownload(t *testing.T) {
	w := newSignInWorld(t, Config{})
	b := w.in(t, "alice", "secret")
	object := func(h held) string { return "/-/file/" + blob.Sum(h.body).String() }
	page := b.get(object(w.oursPDB))
	m := regexp.MustCompile(`<a class="button" href="(/-/file/get[^"]+)" download>`).FindStringSubmatch(page.body)
	if page.status != 200 || m == nil {
		t.Fatalf("the page of the PDB: status %d, want 200 with a download below /-/\n%s", page.status, page.body)
	}
	target := html.UnescapeString(m[1])
	if r := b.get(target, "Accept-Encoding: "); r.status != 200 || r.body != string(w.oursPDB.body) || !strings.Contains(r.header.Get("Content-Disposition"), `attachment; filename=hello-x64.pdb`) {
		t.Errorf("the download: status %d with %d bytes, %q; want 200 with %d as hello-x64.pdb", r.status, len(r.body), r.header.Get("Content-Disposition"), len(w.oursPDB.body))
	}
	if r := b.get(target, "Range: bytes=0-9"); r.status != 206 || r.body != string(w.oursPDB.body[:10]) {
		t.Errorf("a part of it: status %d with %d bytes, want 206 with 10", r.status, len(r.body))
	}
	if r := b.get("/-/file/get?path=" + url.QueryEscape(w.theirsPDB.path(t, layout.SymStore))); r.status != 404 {
		t.Errorf("a file of another product: status %d, want 404", r.status)
	}
	for _, path := range []string{"", "/", "/..", "//evil/x", "/metrics", "/-/tokens", "/a%2Fb", "\x00"} {
		if r := b.get("/-/file/get?path=" + url.QueryEscape(path)); r.status != 404 {
			t.Errorf("path=%q: status %d, want 404", path, r.status)
		}
	}
	if r := b.get(target, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"); r.status != 403 {
		t.Errorf("from a page of another site: status %d, want 403", r.status)
	}
	if r := newTab(t, w.s).get(target); r.status != 303 || !strings.HasPrefix(r.to(), "/-/login?next=") {
		t.Errorf("without a cookie: status %d to %q, want 303 to the page for signing in", r.status, r.to())
	}
	if r := ask(w.s, "GET", target, bearer(w.theirs)); r.status != 404 {
		t.Errorf("as a token of another product: status %d, want 404", r.status)
	}
	if r := b.get("/-/file/get?path=" + url.QueryEscape("/none.pdb/"+bigID+"/none.pdb")); r.status != 404 || r.header.Get("Content-Disposition") != "" {
		t.Errorf("the download of a file that is not there: status %d, %q; want 404 without a name to store it under", r.status, r.header.Get("Content-Disposition"))
	}
	if r := ask(w.s, "GET", "/t/"+w.ours+target); r.status != 404 {
		t.Errorf("below a token: status %d, want 404", r.status)
	}
}

// TestInsecureSignIn: over plain HTTP there are sign-ins on the same machine only, with
// a cookie of another name, which does not count over TLS.
func TestInsecureSignIn(t *testing.T) {
	w := newSignInWorld(t, Config{Hosts: []string{"symbols.example.com"}})
	form := url.Values{"user": {"alice"}, "password": {"secret"}}
	far := newTab(t, w.s)
	far.header.Del("X-Forwarded-Proto")
	if r := far.get("/-/login"); r.status != 200 || strings.Contains(r.body, "<form class=\"stack\"") || !strings.Contains(r.body, "HTTPS") {
		t.Errorf("the page over plain HTTP: status %d, want a sentence about HTTPS and no form\n%s", r.status, r.body)
	}
	if r := far.post("/-/login", form, "Origin: http://symbols.example.com"); r.status != 403 || len(far.cookies) > 0 {
		t.Errorf("signing in over plain HTTP: status %d, cookies %v; want 403", r.status, far.cookies)
	}
	// httptest's requests come from 192.0.2.1: a loopback name alone is not enough.
	far.host = "localhost"
	if r := far.post("/-/login", form, "Origin: http://localhost"); r.status != 403 {
		t.Errorf("a loopback name from another machine: status %d, want 403", r.status)
	}
	addr := listen(t, w.s)
	c := dial(t, addr)
	body := form.Encode()
	c.send("POST /-/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: " + itoa(int64(len(body))) + "\r\n\r\n" + body)
	r := c.reply("POST")
	cookie := r.header.Get("Set-Cookie")
	if r.status != 303 || !strings.HasPrefix(cookie, "sd=") || strings.Contains(cookie, "Secure") || !strings.Contains(cookie, "HttpOnly") {
		t.Fatalf("signing in on the same machine: status %d, %q; want 303 with the cookie sd", r.status, cookie)
	}
	cookie, _, _ = strings.Cut(cookie, ";")
	if r := c.do("GET", "/-/api/v1/me", "Cookie: "+cookie); r.status != 200 || !strings.Contains(r.body, `"name":"alice"`) {
		t.Errorf("the cookie on the same machine: status %d, %s; want alice", r.status, r.body)
	}
	far = newTab(t, w.s)
	far.cookies["sd"] = strings.TrimPrefix(cookie, "sd=")
	if r := far.get("/-/api/v1/me"); r.status != 401 {
		t.Errorf("that cookie over TLS: status %d, want 401: another host of the domain could have set it", r.status)
	}
	far.header.Del("X-Forwarded-Proto")
	if r := far.get("/-/api/v1/me"); r.status != 401 {
		t.Errorf("that cookie over plain HTTP from another machine: status %d, want 401", r.status)
	}
}

// TestForeignForms: what a browser sends for a page of another site changes nothing,
// with whatever credentials, and our own pages work, also behind a proxy.
func TestForeignForms(t *testing.T) {
	w := newSignInWorld(t, Config{})
	b := w.in(t, "alice", "secret")
	make := url.Values{"name": {"x"}, "read": {"on"}, "products": {"ours"}, "days": {"1"}}
	evil := []string{"Origin: https://evil.example", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}
	old := []string{"Origin: https://evil.example", "Sec-Fetch-Site: "} // a browser of old
	sibling := []string{"Origin: https://other.example.com", "Sec-Fetch-Site: same-site"}
	for what, headers := range map[string][]string{"another site": evil, "another site, an old browser": old, "a sibling": sibling} {
		for _, target := range []string{"/-/tokens", "/-/logout", "/-/prefs", signInsPage + "/x/end", "/-/api/v1/tokens", "/-/login"} {
			if r := b.post(target, make, headers...); r.status != 403 || b.cookies["__Host-sd"] == "" {
				t.Errorf("%s, POST %s with the cookie: status %d, want 403", what, target, r.status)
			}
		}
		for how, credentials := range map[string]string{"Basic": basic("alice", "secret"), "a token": bearer(w.admin)} {
			fresh := newTab(t, w.s)
			if r := fresh.post("/-/tokens", make, append(headers, credentials)...); r.status != 403 {
				t.Errorf("%s, POST with %s: status %d, want 403", what, how, r.status)
			}
			if r := fresh.post("/-/api/v1/tokens", make, append(headers, credentials)...); r.status != 403 {
				t.Errorf("%s, POST to the API with %s: status %d, want 403", what, how, r.status)
			}
		}
	}
	if r := b.post("/-/tokens", make); r.status != 303 {
		t.Errorf("our own form: status %d, want 303\n%s", r.status, r.body)
	}
	// A proxy that passes its own name on: the origin is not the Host, and an old browser
	// says nothing else.
	b.host = "10.0.0.5:8080"
	behind := []string{"Origin: " + testBase, "Sec-Fetch-Site: "}
	if r := b.post("/-/tokens", make, behind...); r.status != 403 {
		t.Errorf("our own form behind such a proxy without base_url: status %d, want 403", r.status)
	}
	w.use(testBase)
	if r := b.post("/-/tokens", make, behind...); r.status != 303 {
		t.Errorf("our own form behind such a proxy: status %d, want 303\n%s", r.status, r.body)
	}
	for what, headers := range map[string][]string{"another site": evil, "an old browser": old} {
		if r := b.post("/-/tokens", make, headers...); r.status != 403 {
			t.Errorf("%s with base_url: status %d, want 403", what, r.status)
		}
	}
	// A proxy that says nothing of TLS: the base URL does.
	b.host = "symbols.example.com"
	b.header.Del("X-Forwarded-Proto")
	if r := b.get(signInsPage); r.status != 200 {
		t.Errorf("behind a proxy that says nothing of TLS: status %d, want 200", r.status)
	}
}

// TestSignInProvider: a browser signs in at the OpenID provider and comes back to the
// page that it wants.
func TestSignInProvider(t *testing.T) {
	w := newSignInWorld(t, Config{})
	w.use(testBase)
	b := newTab(t, w.s)
	r := b.get("/-/login/oidc?next=%2F-%2Fsignins")
	if r.status != 303 || !strings.HasPrefix(r.to(), w.issuer.URL+"/authorize?") || len(b.cookies) != 1 {
		t.Fatalf("begin: status %d to %q, cookies %v; want 303 to the provider with one cookie", r.status, r.to(), b.cookies)
	}
	resp, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Get(r.to())
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	back, err := resp.Location()
	if err != nil || back.Host != "symbols.example.com" {
		t.Fatalf("the provider: %s to %v, %v; want this server", resp.Status, back, err)
	}
	link := []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}
	if r := newTab(t, w.s).get(back.RequestURI(), link...); r.status != 401 || !strings.Contains(r.body, "begin again") {
		t.Errorf("another browser comes back: status %d, want 401 and a reason\n%s", r.status, r.body)
	}
	if r := b.get(back.RequestURI(), link...); r.status != 303 || r.to() != signInsPage || b.cookies["__Host-sd"] == "" || b.cookies["__Host-sd-oidc"] != "" {
		t.Fatalf("back: status %d to %q, cookies %v; want 303 to /-/signins, signed in\n%s", r.status, r.to(), b.cookies, r.body)
	}
	if r := b.get(signInsPage); r.status != 200 || !strings.Contains(r.body, "bob@corp.example") || !strings.Contains(r.body, "the OpenID provider") || !strings.Contains(r.body, "You may read the product") {
		t.Errorf("the page: status %d, want the person with its rights in words\n%s", r.status, r.body)
	}
	me := decoded[wire.Me](t, b.get("/-/api/v1/me"), 200)
	if me.Name != "bob@corp.example" || me.Method != "oidc" || me.Carrier != "cookie" || me.SignIn == "" || !slices.Equal(me.Rights.Read, []string{"theirs"}) || len(me.Rights.Write) != 0 {
		t.Errorf("me: %+v; want bob by the provider, with the product of its group", me)
	}
	w.provider.Person = nil
	r = b.get("/-/login/oidc")
	resp, err = (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Get(r.to())
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	back, err = resp.Location()
	if err != nil {
		t.Fatal(err)
	}
	if r := b.get(back.RequestURI(), link...); r.status != 401 || !strings.Contains(r.body, "access_denied") {
		t.Errorf("a person who refuses: status %d, want 401 and the provider's word\n%s", r.status, r.body)
	}
}

// TestTokenPages: a browser makes a token, which is shown once, and revokes it; nobody
// gets more than it has, or sees the tokens of others.
func TestTokenPages(t *testing.T) {
	w := newSignInWorld(t, Config{})
	b := w.in(t, "alice", "secret")
	r := b.post("/-/tokens", url.Values{"name": {"for <ci>"}, "read": {"on"}, "write": {"on"}, "products": {"ours\r\n"}, "days": {"30"}, "class": {"nightly"}})
	if r.status != 303 || !strings.HasPrefix(r.to(), "/-/tokens/") {
		t.Fatalf("a new token: status %d to %q, want 303 to its page\n%s", r.status, r.to(), r.body)
	}
	page := b.get(r.to())
	secret := regexp.MustCompile(`<code>(sd_[^<]{43})</code>`).FindStringSubmatch(page.body)
	if page.status != 200 || secret == nil || page.header.Get("Content-Encoding") != "" || page.header.Get("Cache-Control") != "no-store" || !strings.Contains(page.body, "for &lt;ci&gt;") {
		t.Fatalf("its page: status %d, %v; want the token, not compressed and not stored\n%s", page.status, page.header, page.body)
	}
	if b.cookies["__Host-sd-new"] != "" {
		t.Error("the cookie with the new token stays, want it deleted")
	}
	for _, again := range []string{r.to(), "/-/tokens", r.to() + "/revoke", signInsPage, "/"} {
		if p := b.get(again); p.status != 200 || strings.Contains(p.body, secret[1]) {
			t.Errorf("GET %s afterwards: status %d, want 200 without the token", again, p.status)
		}
	}
	if got := ask(w.s, "GET", w.oursPDB.path(t, layout.SymStore), bearer(secret[1])); got.status != 200 {
		t.Errorf("a file with the new token: status %d, want 200", got.status)
	}
	if strings.Contains(w.log.String(), secret[1]) {
		t.Error("the log has the new token")
	}
	// The page of a token of somebody else, with a forged cookie.
	other := w.in(t, "", w.admin)
	other.cookies["__Host-sd-new"] = strings.TrimPrefix(r.to(), "/-/tokens/") + "." + w.ours
	if p := other.get(r.to()); p.status != 200 || strings.Contains(p.body, w.ours) {
		t.Errorf("a forged cookie: status %d, want the page without a token", p.status)
	}
	for what, form := range map[string]url.Values{
		"another product": {"name": {"x"}, "read": {"on"}, "products": {"theirs"}, "days": {"1"}}, "all products": {"name": {"x"}, "read": {"on"}, "days": {"1"}},
		"everything": {"name": {"x"}, "admin": {"on"}}, "two years": {"name": {"x"}, "read": {"on"}, "products": {"ours"}, "days": {"730"}},
	} {
		if r := b.post("/-/tokens", form); r.status != 403 || !strings.Contains(r.body, `role="alert"`) || !strings.Contains(r.body, `value="x"`) {
			t.Errorf("a token for %s: status %d, want 403 and the form as it was filled in\n%s", what, r.status, r.body)
		}
	}
	for what, form := range map[string]url.Values{"no name": {"read": {"on"}, "products": {"ours"}}, "no right": {"name": {"x"}, "products": {"ours"}}, "no number": {"name": {"x"}, "read": {"on"}, "days": {"soon"}}} {
		if r := b.post("/-/tokens", form); r.status != 400 || !strings.Contains(r.body, `role="alert"`) {
			t.Errorf("a token with %s: status %d, want 400 and the reason", what, r.status)
		}
	}
	if p := b.get("/-/tokens"); strings.Contains(p.body, ">theirs<") || strings.Count(p.body, `<tr><th scope="row"`) != 1 {
		t.Errorf("the tokens of alice:\n%s\nwant the new one alone", p.body)
	}
	if p := other.get("/-/tokens"); strings.Count(p.body, `<tr><th scope="row"`) != 6 {
		t.Errorf("the tokens of everybody:\n%s\nwant 6", p.body)
	}
	// A browser that signed in with a token is out with it.
	with := w.in(t, "", secret[1])
	if p := with.get("/-/tokens"); p.status != 200 || !strings.Contains(p.body, "makes no tokens") {
		t.Errorf("the tokens for a token: status %d, want a sentence in place of the form\n%s", p.status, p.body)
	}
	id := strings.TrimPrefix(r.to(), "/-/tokens/")
	if p := with.get("/-/tokens/" + firstID(t, w, "theirs")); p.status != 404 {
		t.Errorf("the page of another's token: status %d, want 404", p.status)
	}
	if p := b.get("/-/tokens/" + id + "/revoke"); p.status != 200 || !strings.Contains(p.body, "This cannot be undone") {
		t.Errorf("before the revocation: status %d, want a page that asks", p.status)
	}
	if p := b.post("/-/tokens/"+id+"/revoke", nil); p.status != 303 || p.to() != "/-/tokens?done=revoked" {
		t.Errorf("the revocation: status %d to %q, want 303", p.status, p.to())
	}
	w.clock(5 * time.Second)
	if got := with.get("/-/tokens"); got.status != 303 && got.status != 200 {
		t.Errorf("its browser: status %d", got.status)
	}
}

func firstID(t *testing.T, w *signInWorld, name string) string {
	t.Helper()
	for _, r := range w.store.rows {
		if r.Name == name {
			return r.ID
		}
	}
	t.Fatalf("there is no token %s", name)
	return ""
}

// TestRootToken: the root page of an address with a token offers to sign in with it,
// and shows it nowhere.
func TestRootToken(t *testing.T) {
	w := newSignInWorld(t, Config{})
	b := newTab(t, w.s)
	below := "/t/" + w.ours
	page := b.get(below + "/")
	if page.status != 200 || !strings.Contains(page.body, `<form method="post" action="./-/login">`) || strings.Contains(page.body, w.ours) {
		t.Errorf("the root page: status %d; want the form, and the token nowhere\n%s", page.status, page.body)
	}
	for _, target := range []string{"/-/search", "/-/builds", "/-/tokens", "/-/connect", "/-/nothing", "/-", "/-/login", "/-/login/oidc", "/-/logout"} {
		if r := b.get(below + target); r.status != 404 || strings.Contains(r.body, w.ours) {
			t.Errorf("GET %s below a token: status %d, want 404 without the token", target, r.status)
		}
	}
	unknown := "/t/" + auth.NewToken()
	if r := b.post(unknown+"/-/login", nil); r.status != 401 || len(b.cookies) > 0 {
		t.Errorf("signing in with an unknown token: status %d, want 401", r.status)
	}
	r := b.post(below+"/-/login", nil)
	if r.status != 303 || r.to() != "/" || b.cookies["__Host-sd"] == "" {
		t.Fatalf("signing in with the token: status %d to %q, want 303 to /", r.status, r.to())
	}
	me := decoded[wire.Me](t, b.get("/-/api/v1/me"), 200)
	if me.Name != "ours" || me.Method != "token" || me.Carrier != "cookie" {
		t.Errorf("me: %+v; want the token ours", me)
	}
	for _, row := range w.store.rows {
		if strings.Contains(row.Facts, w.ours) {
			t.Error("the token is stored with the sign-in")
		}
	}
	if strings.Contains(w.log.String(), w.ours) {
		t.Error("the token is in the log")
	}
}

// TestPathTokenStaysHidden: no page that refuses a form shows the token in its address.
func TestPathTokenStaysHidden(t *testing.T) {
	w := newSignInWorld(t, Config{})
	for _, path := range []string{"/-/login", "/-/logout", "/-/search"} {
		r := newTab(t, w.s).post("/t/"+w.ours+path, url.Values{"q": {"x"}}, "Origin: https://evil.example", "Sec-Fetch-Site: cross-site")
		if r.status != 403 {
			t.Errorf("POST /t/TOKEN%s for a page of another site: status %d, want 403", path, r.status)
		}
		if all := r.body + r.to(); strings.Contains(all, w.ours) {
			t.Errorf("POST /t/TOKEN%s for a page of another site shows the token: %s", path, auth.Redact(all))
		}
	}
}

// TestSignInsAPI: everybody sees and ends its own sign-ins, administrators all.
func TestSignInsAPI(t *testing.T) {
	w := newSignInWorld(t, Config{})
	a, second, theirs, admin := w.in(t, "alice", "secret"), w.in(t, "alice", "secret"), w.in(t, "", w.theirs), w.in(t, "", w.admin)
	list := func(b *tab) []wire.SignInInfo {
		t.Helper()
		return decoded[wire.SignInList](t, b.get(wire.SignInsPath), 200).Items
	}
	if got := list(a); len(got) != 2 || got[0].Name != "alice" || got[0].Method != "basic" || !strings.Contains(got[0].Browser, "Firefox") || got[0].Address == "" || got[0].Current == got[1].Current {
		t.Errorf("the sign-ins of alice: %+v; want two, one of them this", got)
	}
	if n := len(list(theirs)); n != 1 {
		t.Errorf("the token theirs sees %d sign-ins, want its own", n)
	}
	if n := len(list(admin)); n != 4 {
		t.Errorf("an administrator sees %d sign-ins, want 4", n)
	}
	var other string
	for _, s := range list(a) {
		if !s.Current {
			other = s.ID
		}
	}
	end := func(b *tab, id string) int {
		return b.send("DELETE", wire.SignInsPath+"/"+id, nil, "Sec-Fetch-Site: same-origin").status
	}
	if got := end(theirs, other); got != 404 {
		t.Errorf("the end of somebody's sign-in: status %d, want 404", got)
	}
	if got := end(a, other); got != 204 {
		t.Errorf("the end of an own sign-in: status %d, want 204", got)
	}
	if r := second.get(signInsPage); r.status != 303 {
		t.Errorf("that browser: status %d, want 303 to the page for signing in", r.status)
	}
	for _, s := range list(admin) {
		if s.Name == "theirs" {
			if r := admin.post(signInsPage+"/"+s.ID+"/end", nil); r.status != 303 || r.to() != signInsPage+"?done=ended" {
				t.Errorf("an administrator ends a sign-in: status %d to %q, want 303", r.status, r.to())
			}
		}
	}
	if r := theirs.get(signInsPage); r.status != 303 {
		t.Errorf("that browser: status %d, want 303", r.status)
	}
	if r := ask(w.s, "GET", wire.MePath); r.status != 401 {
		t.Errorf("me without credentials: status %d, want 401", r.status)
	}
	me := decoded[wire.Me](t, ask(w.s, "GET", wire.MePath, bearer(w.admin)), 200)
	if !me.Rights.Admin || me.Rights.Read != nil || me.Method != "token" || me.Carrier != "bearer" || me.TokenID == "" || len(me.Words) != 1 {
		t.Errorf("me as an administrator: %+v", me)
	}
}

// TestAuditPages: administrators read the audit log backwards, with filters, as JSON,
// CSV and a page; nobody else does.
func TestAuditPages(t *testing.T) {
	w := newSignInWorld(t, Config{})
	for i := range 5 {
		w.audit.Record(auth.Event{Time: time.Date(2026, 11, 1+i, 0, 0, 0, 0, time.UTC), Action: auth.ActionRead, Who: "alice", Method: auth.MethodBasic, Remote: "192.0.2.7:1", Name: "app.pdb", ID: "K", Products: []string{"P" + itoa(int64(i%2))}, Status: 200, Bytes: 7})
	}
	w.audit.Record(auth.Event{Time: time.Date(2026, 11, 9, 0, 0, 0, 0, time.UTC), Action: auth.ActionPurge, Who: "=cmd()", Name: "build 1", ID: "1", Products: []string{"P0"}, Detail: "why"})
	type part struct {
		Items []auth.Event
		Next  string
		Read  int64
	}
	get := func(query string) part {
		t.Helper()
		return decoded[part](t, ask(w.s, "GET", wire.AuditPath+"?"+query, bearer(w.admin)), 200)
	}
	days := func(p part) (list []int) {
		for _, e := range p.Items {
			list = append(list, e.Time.Day())
		}
		return list
	}
	for query, want := range map[string][]int{
		"": {9, 5, 4, 3, 2, 1}, "order=oldest": {1, 2, 3, 4, 5, 9}, "who=alice&product=P0": {5, 3, 1}, "action=purge": {9}, "file=APP*&since=2026-11-04": {5, 4}, "until=2026-11-02T00:00:00Z": {1},
		"who=nobody": nil, "remote=192.0.2.7&id=k&limit=1000": {5, 4, 3, 2, 1},
	} {
		if got := days(get(query)); !slices.Equal(got, want) {
			t.Errorf("%s: records of the days %v, want %v", query, got, want)
		}
	}
	var all []int
	for cursor := ""; ; {
		p := get("limit=2&cursor=" + cursor)
		if all = append(all, days(p)...); p.Next == "" {
			break
		}
		cursor = p.Next
	}
	if !slices.Equal(all, []int{9, 5, 4, 3, 2, 1}) {
		t.Errorf("in parts of two: %v, want all six once", all)
	}
	bent := get("limit=2").Next
	for _, query := range []string{"cursor=AAAA", "who=x&limit=2&cursor=" + bent, "since=soon", "order=up", "format=xml", "limit=0", "format=csv&limit=1"} {
		if r := ask(w.s, "GET", wire.AuditPath+"?"+query, bearer(w.admin)); r.status != 400 {
			t.Errorf("%s: status %d, %s; want 400", query, r.status, r.body)
		}
	}
	csv := ask(w.s, "GET", wire.AuditPath+"?format=csv", bearer(w.admin))
	if csv.status != 200 || !strings.HasPrefix(csv.header.Get("Content-Type"), "text/csv") || strings.Count(csv.body, "\n") != 7 || !strings.Contains(csv.body, ",'=cmd(),") && !strings.Contains(csv.body, "'=cmd()") {
		t.Errorf("as CSV: status %d, %v\n%s\nwant a header line, six records, and no formula", csv.status, csv.header, csv.body)
	}
	if r := ask(w.s, "GET", wire.AuditPath+"?who=alice&order=oldest", bearer(w.admin), "Accept: application/x-ndjson"); r.status != 200 || strings.Count(r.body, "\n") != 6 || !strings.HasPrefix(r.body, `{"time":"2026-11-01T`) || !strings.HasSuffix(r.body, "{\"end\":true}\n") {
		t.Errorf("as lines: status %d\n%s\nwant five records, the oldest first, and the end", r.status, r.body)
	}
	for who, token := range map[string]string{"a reader": w.all, "a writer": w.writes} {
		if r := ask(w.s, "GET", wire.AuditPath, bearer(token)); r.status != 403 {
			t.Errorf("%s: status %d, want 403", who, r.status)
		}
	}
	b := w.in(t, "", w.admin)
	page := b.get("/-/audit?product=P0")
	if page.status != 200 || strings.Count(page.body, `<tr><th scope="row"`) != 4 || !strings.Contains(page.body, `href="/-/api/v1/audit?format=csv&amp;product=P0"`) || !strings.Contains(page.body, "why") {
		t.Errorf("the page: status %d, want four records and the CSV\n%s", page.status, page.body)
	}
	if r := b.get("/-/api/v1/audit?format=csv&product=P0"); r.status != 200 || strings.Count(r.body, "\n") != 5 {
		t.Errorf("its CSV: status %d, want four records\n%s", r.status, r.body)
	}
	alice := w.in(t, "alice", "secret")
	if r := alice.get("/-/audit"); r.status != 403 || strings.Contains(alice.get("/").body, ">Audit<") {
		t.Errorf("the page for a reader: status %d, want 403, and no link to it", r.status)
	}
}

// TestForeignFormCertificate: a browser sends its certificate with forms of other
// sites, too.
func TestForeignFormCertificate(t *testing.T) {
	w := newSignInWorld(t, Config{})
	cert := testCert(t)
	sum := sha256.Sum256(cert.Leaf.Raw)
	gate, err := auth.New(auth.Config{Policy: auth.PolicyConfig{Demand: true, Grants: []auth.Grant{{Who: []string{"cert:carol"}, Admin: true}}},
		Certificates: []auth.CertRule{{SHA256: hex.EncodeToString(sum[:]), Name: "carol"}}}, w.store, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	w.gate, w.s.cfg.Gate = gate, gate
	w.use("")
	send := func(target string, headers ...string) int {
		form := url.Values{"name": {"x"}, "read": {"on"}}.Encode()
		r := httptest.NewRequest(http.MethodPost, target, strings.NewReader(form))
		r.Host, r.TLS = "symbols.example.com", &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert.Leaf}}
		for _, h := range append(headers, "Accept: text/html", "Content-Type: application/x-www-form-urlencoded") {
			k, v, _ := strings.Cut(h, ": ")
			r.Header.Set(k, v)
		}
		rec := httptest.NewRecorder()
		w.s.ServeHTTP(rec, r)
		return rec.Code
	}
	for _, foreign := range [][]string{{"Origin: https://evil.example", "Sec-Fetch-Site: cross-site"}, {"Origin: https://evil.example"}, {"Origin: https://a.example.com", "Sec-Fetch-Site: same-site"}} {
		for _, target := range []string{"/-/tokens", "/-/api/v1/tokens"} {
			if got := send(target, foreign...); got != 403 {
				t.Errorf("POST %s with a certificate, for a page of %q: status %d, want 403", target, foreign, got)
			}
		}
	}
	if got := send("/-/tokens", "Origin: "+testBase, "Sec-Fetch-Site: same-origin"); got != 303 {
		t.Errorf("our own form with a certificate: status %d, want 303", got)
	}
}
