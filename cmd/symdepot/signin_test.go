package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/run/command/commandtest"
	"github.com/symdepot/symdepot/internal/serve/oidc/oidctest"
)

// secretShape fits a token of access or of refreshing among other text, refreshShape one
// of refreshing. Random text, such as the challenge in an address, has the letters of
// their beginnings too.
var (
	secretShape  = regexp.MustCompile(`(^|[^A-Za-z0-9_-])s[dr]_[A-Za-z0-9_-]{43}`)
	refreshShape = regexp.MustCompile(`(^|[^A-Za-z0-9_-])sr_[A-Za-z0-9_-]{43}`)
)

// TestSignIn: people sign in to the real server with a password and at an OpenID
// provider, and see the page that they wanted; a restart of the server does not sign
// them out.
func TestSignIn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	depot := filepath.Join(dir, "depot")
	if code, _, errs := commandtest.Symdepot(t, depot, "add", "--product", "app", "../../testdata/pdb/hello-x64.pdb"); code != 0 {
		t.Fatalf("add: exit code %d, %s; want 0", code, errs)
	}
	issuer := oidctest.New(t, "/realms/corp")
	issuer.SetClient(&oidctest.Client{ID: "symdepot", Secret: "geheim", Person: map[string]any{"email": "bob@corp.example", "email_verified": true, "groups": []string{"tools"}}})
	secret, conf, audit := filepath.Join(dir, "secret"), filepath.Join(dir, "server.yaml"), filepath.Join(dir, "audit.jsonl")
	commandtest.Write(t, secret, "geheim\n")
	commandtest.Write(t, conf, fmt.Sprintf(`
auth:
  users_file: %s
  sign_in: {issuer: %q, client_id: symdepot, client_secret_file: %s, groups_claim: groups}
  grants:
    - {who: [alice], read: [app], write: [app]}
    - {who: ["oidc-group:tools"], admin: true}
  audit: {file: %s}
`, commandtest.WriteUsers(t, dir, "alice"), issuer.URL, secret, audit))
	env := map[string]string{"PATH": os.Getenv("PATH"), "HOME": dir, "SYMDEPOT_DEPOT": depot, "TESTSCRIPT_COMMAND": os.Getenv("TESTSCRIPT_COMMAND"), "TMPDIR": t.TempDir()}
	start := func() *commandtest.Serving {
		t.Helper()
		s, err := commandtest.StartServe(func(k string) string { return env[k] }, dir, "--config", conf)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := start()
	alice := commandtest.NewPerson(t)
	if status, where, text := alice.Open(s.URL+"/-/builds/1", nil); status != 200 || where.Path != "/-/login" || where.Query().Get("next") != "/-/builds/1" || !strings.Contains(text, "Sign in at "+strings.TrimPrefix(issuer.URL, "http://")[:9]) {
		t.Errorf("without credentials: status %d at %s, want the page for signing in\n%s", status, where, text)
	}
	if status, where, text := alice.Open(s.URL+"/-/login", url.Values{"user": {"alice"}, "password": {"secret"}, "next": {"/-/builds/1"}}); status != 200 || where.Path != "/-/builds/1" || !strings.Contains(text, "alice") || !strings.Contains(text, "hello-x64.pdb") {
		t.Fatalf("alice signs in: status %d at %s, want the build\n%s\n%s", status, where, text, s.Log.String())
	}
	bob := commandtest.NewPerson(t)
	if status, where, text := bob.Open(s.URL+"/-/login/oidc?next=/-/audit", nil); status != 200 || where.Path != "/-/audit" || !strings.Contains(text, "bob@corp.example") {
		t.Fatalf("bob signs in: status %d at %s, want the audit log\n%s", status, where, text)
	}
	// A new token is shown once.
	status, where, text := alice.Open(s.URL+"/-/tokens", url.Values{"name": {"ci"}, "read": {"on"}, "products": {"app"}, "days": {"1"}})
	token := regexp.MustCompile(`sd_[A-Za-z0-9_-]{43}`).FindString(text)
	if status != 200 || token == "" {
		t.Fatalf("a token: status %d at %s, want it on the page\n%s", status, where, text)
	}
	if _, _, again := alice.Open(where.String(), nil); strings.Contains(again, token) || !strings.Contains(again, "alice/ci") {
		t.Errorf("its page again shows the token, or not its name:\n%s", again)
	}
	if err := s.Stop(); err != nil {
		t.Errorf("serve: %v\n%s", err, s.Log.String())
	}
	if log := s.Log.String(); strings.Contains(log, token) || strings.Contains(log, "geheim") || strings.Contains(log, "password") {
		t.Errorf("the log has a secret:\n%s", log)
	}
	s = start() // at another port: cookies do not know ports
	defer func() {
		if err := s.Stop(); err != nil {
			t.Errorf("serve: %v\n%s", err, s.Log.String())
		}
	}()
	if status, where, _ := alice.Open(s.URL+"/-/signins", nil); status != 200 || where.Path == "/-/login" { //nolint:misspell // a word of addresses
		t.Errorf("after a restart: status %d at %s, want alice signed in", status, where)
	}
	if status, where, text := alice.Open(s.URL+"/-/logout", url.Values{}); status != 200 || where.Path != "/-/login" {
		t.Errorf("signing out: status %d at %s, want the page for signing in\n%s", status, where, text)
	}
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
	if r := alice.Curl(t, "-H", "Accept: text/html", s.URL+"/-/login/ticket"); r.Status != "401" || len(r.Offers) != 1 || r.Offers[0] != "Negotiate" {
		t.Errorf("without a ticket: %+v, want 401 and Negotiate alone", r)
	}
	if got := curl(s.URL + page); got != "303" {
		t.Errorf("the page without credentials: status %s, want 303", got)
	}
	if got := curl("--negotiate", "-u", ":", s.URL+"/-/login/ticket?next="+page); got != "303" {
		t.Fatalf("signing in with a ticket: status %s, want 303\n%s", got, s.Log.String())
	}
	if r := alice.Curl(t, "-H", "Accept: text/html", "-b", jar, s.URL+page); r.Status != "200" || !strings.Contains(r.Body, "alice@") || len(r.Sent) != 0 {
		t.Errorf("the page with the cookie: %+v, want 200 without a ticket", r)
	}
	form := []string{"--data", "name=x&read=on&days=1"}
	for what, headers := range map[string][]string{
		"another site": {"-H", "Origin: https://evil.example", "-H", "Sec-Fetch-Site: cross-site"}, "another site, an old browser": {"-H", "Origin: https://evil.example"},
	} {
		if got := curl(append(append(headers, form...), s.URL+page)...); got != "403" {
			t.Errorf("a form of %s with the cookie: status %s, want 403", what, got)
		}
		if r := alice.Curl(t, append(append(headers, form...), "--negotiate", "-u", ":", s.URL+page)...); r.Status != "403" {
			t.Errorf("a form of %s with the ticket: status %s, want 403", what, r.Status)
		}
	}
	if got := curl(append(form, "-H", "Origin: "+s.URL, s.URL+page)...); got != "303" {
		t.Errorf("our own form: status %s, want 303", got)
	}
	if got := s.kdc.As(t, "mallory").Curl(t, "--negotiate", "-u", ":", s.URL+"/-/login/ticket").Status; got != "403" {
		t.Errorf("somebody without rights: status %s, want 403", got)
	}
}
