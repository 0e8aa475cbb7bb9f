package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/symdepot/symdepot/internal/oidc/oidctest"
	"github.com/symdepot/symdepot/internal/symtest"
)

// person is somebody with a browser.
type person struct {
	t *testing.T
	http.Client
}

func newPerson(t *testing.T) *person {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &person{t, http.Client{Jar: jar}}
}

// open opens a page and follows where it leads; a form is sent.
func (p *person) open(address string, form url.Values) (status int, where *url.URL, text string) {
	p.t.Helper()
	method, body := http.MethodGet, io.Reader(nil)
	if form != nil {
		method, body = http.MethodPost, strings.NewReader(form.Encode())
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html")
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := p.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, resp.Request.URL, string(b)
}

// writeUsers writes a file of users with the password secret.
func writeUsers(t *testing.T, dir string, names ...string) string {
	t.Helper()
	text := ""
	for _, name := range names {
		hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
		if err != nil {
			t.Fatal(err)
		}
		text += name + ":" + string(hash) + "\n"
	}
	file := filepath.Join(dir, "users")
	write(t, file, text)
	return file
}

// TestSignIn: people sign in to the real server with a password and at an OpenID
// provider, and see the page that they wanted; a restart of the server does not sign
// them out.
func TestSignIn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	depot := filepath.Join(dir, "depot")
	if code, _, errs := symdepot(t, depot, "add", "--product", "app", "../../testdata/pdb/hello-x64.pdb"); code != 0 {
		t.Fatalf("add: exit code %d, %s; want 0", code, errs)
	}
	issuer := oidctest.New(t, "/realms/corp")
	issuer.SetClient(&oidctest.Client{ID: "symdepot", Secret: "geheim", Person: map[string]any{"email": "bob@corp.example", "email_verified": true, "groups": []string{"tools"}}})
	secret, conf, audit := filepath.Join(dir, "secret"), filepath.Join(dir, "server.yaml"), filepath.Join(dir, "audit.jsonl")
	write(t, secret, "geheim\n")
	write(t, conf, fmt.Sprintf(`
auth:
  users_file: %s
  sign_in: {issuer: %q, client_id: symdepot, client_secret_file: %s, groups_claim: groups}
  grants:
    - {who: [alice], read: [app], write: [app]}
    - {who: ["oidc-group:tools"], admin: true}
  audit: {file: %s}
`, writeUsers(t, dir, "alice"), issuer.URL, secret, audit))
	env := map[string]string{"PATH": os.Getenv("PATH"), "HOME": dir, "SYMDEPOT_DEPOT": depot, "TESTSCRIPT_COMMAND": os.Getenv("TESTSCRIPT_COMMAND"), "TMPDIR": t.TempDir()}
	start := func() *serving {
		t.Helper()
		s, err := startServe(func(k string) string { return env[k] }, dir, "--config", conf)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := start()
	alice := newPerson(t)
	if status, where, text := alice.open(s.url+"/-/tx/1", nil); status != 200 || where.Path != "/-/login" || where.Query().Get("next") != "/-/tx/1" || !strings.Contains(text, "Sign in at "+strings.TrimPrefix(issuer.URL, "http://")[:9]) {
		t.Errorf("without credentials: status %d at %s, want the page for signing in\n%s", status, where, text)
	}
	if status, where, text := alice.open(s.url+"/-/login", url.Values{"user": {"alice"}, "password": {"secret"}, "next": {"/-/tx/1"}}); status != 200 || where.Path != "/-/tx/1" || !strings.Contains(text, "alice") || !strings.Contains(text, "hello-x64.pdb") {
		t.Fatalf("alice signs in: status %d at %s, want the transaction\n%s\n%s", status, where, text, s.log.String())
	}
	bob := newPerson(t)
	if status, where, text := bob.open(s.url+"/-/login/oidc?next=/-/audit", nil); status != 200 || where.Path != "/-/audit" || !strings.Contains(text, "bob@corp.example") {
		t.Fatalf("bob signs in: status %d at %s, want the audit log\n%s", status, where, text)
	}
	// A new token is shown once.
	status, where, text := alice.open(s.url+"/-/tokens", url.Values{"name": {"ci"}, "read": {"on"}, "products": {"app"}, "days": {"1"}})
	token := regexp.MustCompile(`sd_[A-Za-z0-9_-]{43}`).FindString(text)
	if status != 200 || token == "" {
		t.Fatalf("a token: status %d at %s, want it on the page\n%s", status, where, text)
	}
	if _, _, again := alice.open(where.String(), nil); strings.Contains(again, token) || !strings.Contains(again, "alice/ci") {
		t.Errorf("its page again shows the token, or not its name:\n%s", again)
	}
	if err := s.stop(); err != nil {
		t.Errorf("serve: %v\n%s", err, s.log.String())
	}
	if log := s.log.String(); strings.Contains(log, token) || strings.Contains(log, "geheim") || strings.Contains(log, "password") {
		t.Errorf("the log has a secret:\n%s", log)
	}
	s = start() // at another port: cookies do not know ports
	defer func() {
		if err := s.stop(); err != nil {
			t.Errorf("serve: %v\n%s", err, s.log.String())
		}
	}()
	if status, where, _ := alice.open(s.url+"/-/signins", nil); status != 200 || where.Path == "/-/login" { //nolint:misspell // a word of addresses
		t.Errorf("after a restart: status %d at %s, want alice signed in", status, where)
	}
	if status, where, text := alice.open(s.url+"/-/logout", url.Values{}); status != 200 || where.Path != "/-/login" {
		t.Errorf("signing out: status %d at %s, want the page for signing in\n%s", status, where, text)
	}
}

// TestSignInNodes: of two servers on one PostgreSQL database, what one signs in, the
// other knows at once, and what one revokes ends at the other within five seconds.
func TestSignInNodes(t *testing.T) {
	t.Parallel()
	users := writeUsers(t, t.TempDir(), "alice")
	conf := filepath.Join(t.TempDir(), "server.yaml")
	write(t, conf, fmt.Sprintf("auth:\n  users_file: %s\n", users))
	c := newClusterWith(t, 2, func(int) []string { return []string{"--config", conf, "--auth"} })
	token := strings.TrimSpace(c.run(t, "token", "new", "--name", "boss", "--scope", "admin"))
	signIn := func(password string) *person {
		t.Helper()
		p := newPerson(t)
		if status, where, text := p.open(c.nodes[0].url+"/-/login", url.Values{"user": {"alice"}, "password": {password}}); status != 200 || where.Path != "/" {
			t.Fatalf("signing in: status %d at %s, want the root\n%s", status, where, text)
		}
		return p
	}
	in := func(p *person, node int) bool {
		t.Helper()
		_, where, _ := p.open(c.nodes[node].url+"/-/tx", nil) // the cookie of an address counts on all its ports
		return where.Path == "/-/tx"
	}
	out := func(what string, p *person, end func()) {
		t.Helper()
		if !in(p, 0) || !in(p, 1) {
			t.Fatalf("%s: signed in at the servers: %v, %v; want both", what, in(p, 0), in(p, 1))
		}
		end()
		begun := time.Now()
		symtest.Await(t, time.Minute, "the end of the sign-in at the other server", func() bool { return !in(p, 1) })
		if d := time.Since(begun); d > 5*time.Second {
			t.Errorf("%s: the sign-in counts for another %v at the other server, want at most 5 s", what, d)
		}
		if in(p, 0) {
			t.Errorf("%s: the sign-in counts at its server", what)
		}
	}
	a, b, boss := signIn("secret"), signIn("secret"), signIn(token)
	out("signing out", a, func() { a.open(c.nodes[0].url+"/-/logout", url.Values{}) })
	out("an end by an administrator", b, func() {
		_, _, text := boss.open(c.nodes[0].url+"/-/signins", nil) //nolint:misspell // a word of addresses
		m := regexp.MustCompile(`<bdi>alice</bdi></th>.*?action="(/-/signins/[0-9a-f]+/end)"`).FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("there is no button to end the sign-in of alice:\n%s", text)
		}
		boss.open(c.nodes[0].url+m[1], url.Values{})
	})
	out("a revoked token", boss, func() {
		list := c.run(t, "token", "list", "--json")
		id := regexp.MustCompile(`"id":"([0-9a-f]{12})","name":"boss"`).FindStringSubmatch(list)
		if id == nil {
			t.Fatalf("the list has no token boss:\n%s", list)
		}
		c.run(t, "token", "revoke", id[1])
	})
}

// TestSignInTicket: curl, as a browser with the Kerberos ticket of a real KDC, signs in
// and is then known without the ticket. A form of another site does nothing with it.
func TestSignInTicket(t *testing.T) {
	s := newTicketServer(t, "", "")
	alice, jar := s.kdc.As(t, "alice"), filepath.Join(t.TempDir(), "jar")
	curl := func(args ...string) string {
		t.Helper()
		return alice.Curl(t, append([]string{"-H", "Accept: text/html", "-b", jar, "-c", jar}, args...)...).Status
	}
	const page = "/-/tokens"
	if r := alice.Curl(t, "-H", "Accept: text/html", s.url+"/-/login/ticket"); r.Status != "401" || len(r.Offers) != 1 || r.Offers[0] != "Negotiate" {
		t.Errorf("without a ticket: %+v, want 401 and Negotiate alone", r)
	}
	if got := curl(s.url + page); got != "303" {
		t.Errorf("the page without credentials: status %s, want 303", got)
	}
	if got := curl("--negotiate", "-u", ":", s.url+"/-/login/ticket?next="+page); got != "303" {
		t.Fatalf("signing in with a ticket: status %s, want 303\n%s", got, s.log.String())
	}
	if r := alice.Curl(t, "-H", "Accept: text/html", "-b", jar, s.url+page); r.Status != "200" || !strings.Contains(r.Body, "alice@") || len(r.Sent) != 0 {
		t.Errorf("the page with the cookie: %+v, want 200 without a ticket", r)
	}
	form := []string{"--data", "name=x&read=on&days=1"}
	for what, headers := range map[string][]string{
		"another site": {"-H", "Origin: https://evil.example", "-H", "Sec-Fetch-Site: cross-site"}, "another site, an old browser": {"-H", "Origin: https://evil.example"},
	} {
		if got := curl(append(append(headers, form...), s.url+page)...); got != "403" {
			t.Errorf("a form of %s with the cookie: status %s, want 403", what, got)
		}
		if r := alice.Curl(t, append(append(headers, form...), "--negotiate", "-u", ":", s.url+page)...); r.Status != "403" {
			t.Errorf("a form of %s with the ticket: status %s, want 403", what, r.Status)
		}
	}
	if got := curl(append(form, "-H", "Origin: "+s.url, s.url+page)...); got != "303" {
		t.Errorf("our own form: status %s, want 303", got)
	}
	if got := s.kdc.As(t, "mallory").Curl(t, "--negotiate", "-u", ":", s.url+"/-/login/ticket").Status; got != "403" {
		t.Errorf("somebody without rights: status %s, want 403", got)
	}
}
