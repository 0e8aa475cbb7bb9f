//go:build unix

package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
	"github.com/symdepot/symdepot/internal/serve/auth/kdctest"
)

// openIDProvider starts a provider that somebody else wrote, and returns its issuer. claims is
// "id_token" if the id token has the claims of a person; empty: only the user info endpoint has.
func openIDProvider(t *testing.T, claims string) (issuer string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), symtest.Tool(t, "oidc-provider"), filepath.Join("testdata", "oidc-provider.mjs"))
	var log symtest.Output
	cmd.Stderr, cmd.Env = &log, append(os.Environ(), "OIDC_CLAIMS="+claims)
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the provider:\n%s", log.String())
		}
	})
	if _, err := fmt.Fscanf(out, "issuer %s\n", &issuer); err != nil {
		t.Fatalf("the provider: %v\n%s", err, log.String())
	}
	return issuer
}

// loginSite is a server whose depot has hello-x64.pdb, of the product app, and whose
// configuration changes.
type loginSite struct {
	t    *testing.T
	dir  string
	addr string
	now  *commandtest.Serving
}

func newLoginSite(t *testing.T) *loginSite {
	t.Helper()
	s := &loginSite{t: t, dir: t.TempDir(), addr: "127.0.0.1:" + freePort(t)}
	pdb, err := filepath.Abs("../../testdata/pdb/hello-x64.pdb")
	if err != nil {
		t.Fatal(err)
	}
	runTool(t, nil, s.dir, "symdepot", "add", "--depot", s.file("depot"), "--product", "app", pdb)
	t.Cleanup(s.stop)
	return s
}

func (s *loginSite) file(name string) string { return filepath.Join(s.dir, name) }

// url is the address of the server, which a change does not change.
func (s *loginSite) url() string { return "http://" + s.addr }

func (s *loginSite) stop() {
	if s.now == nil {
		return
	}
	if err := s.now.Stop(); err != nil {
		s.t.Errorf("serve: %v\n%s", err, s.now.Log.String())
	}
	if log := s.now.Log.String(); secretShape.MatchString(log) {
		s.t.Errorf("the log has a token:\n%s", log)
	}
	if s.t.Failed() {
		s.t.Logf("the log of the server:\n%s", s.now.Log.String())
	}
	s.now = nil
}

// serve starts the server anew with a configuration.
func (s *loginSite) serve(config string, env ...string) {
	s.t.Helper()
	s.stop()
	commandtest.Write(s.t, s.file("server.yaml"), config)
	values := map[string]string{"PATH": os.Getenv("PATH"), "HOME": s.dir, "SYMDEPOT_DEPOT": s.file("depot"), "TMPDIR": s.t.TempDir(),
		"TESTSCRIPT_COMMAND": os.Getenv("TESTSCRIPT_COMMAND")}
	for _, kv := range env {
		k, v, _ := strings.Cut(kv, "=")
		values[k] = v
	}
	var err error
	s.now, err = commandtest.StartServe(func(k string) string { return values[k] }, s.dir, "--config", s.file("server.yaml"), "--listen", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
}

// loginUser is a user of a machine, with a home and a browser.
type loginUser struct {
	s   *loginSite
	env []string
}

// user returns a user with an empty home; env goes to the browser, too.
func (s *loginSite) user(name string, env ...string) *loginUser {
	s.t.Helper()
	script, err := filepath.Abs("testdata/login-browser.sh")
	home := s.file("home-" + name)
	if err := errors.Join(err, os.MkdirAll(home, 0o700)); err != nil {
		s.t.Fatal(err)
	}
	u := &loginUser{s, append([]string{"HOME=" + home, "SYMDEPOT_DEPOT=" + filepath.Join(home, "depot"), "SYMDEPOT_KEYRING=file", "PERSON=" + name,
		"ANSWER=allow", "GIT_TERMINAL_PROMPT=0", "COOKIES=" + filepath.Join(home, "cookies"), "SYMDEPOT_BROWSER=sh " + script}, env...)}
	for _, k := range []string{"PATH", "TMPDIR", "TESTSCRIPT_COMMAND"} {
		u.env = append(u.env, k+"="+os.Getenv(k))
	}
	return u
}

// run runs a command of symdepot, which exits with a code, and returns what it prints.
func (u *loginUser) run(code int, args ...string) string {
	u.s.t.Helper()
	return u.give(code, "", args...)
}

// request asks the credential helper as git does that may ask nobody; password may be empty.
func (u *loginUser) request(code int, operation, password string) string {
	u.s.t.Helper()
	input := "protocol=http\nhost=" + u.s.addr + "\n"
	if password != "" {
		input += "password=" + password + "\n"
	}
	return u.give(code, input+"\n", "credential", operation)
}

// give is run with an input.
func (u *loginUser) give(code int, input string, args ...string) string {
	u.s.t.Helper()
	cmd := exec.CommandContext(u.s.t.Context(), "symdepot", args...)
	cmd.Env, cmd.Dir, cmd.Stdin = u.env, u.s.dir, strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		u.s.t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != code {
		u.s.t.Errorf("%q: exit code %d, want %d\n%s", args, got, code, out)
	}
	if refreshShape.Match(out) {
		u.s.t.Errorf("%q prints a secret:\n%s", args, out)
	}
	return string(out)
}

// finds lets a command look for the file of the server, with the login.
func (u *loginUser) finds(code int) string {
	u.s.t.Helper()
	return u.run(code, "find", "--server", u.s.url(), "hello-x64.pdb")
}

// TestLoginOpenID: people sign in at an OpenID provider that somebody else wrote, and log a machine
// in, with curl as the browser. The login reads what the person may read when it is used, by
// name or by a group that the provider says, wherever the provider keeps the claims.
func TestLoginOpenID(t *testing.T) {
	t.Parallel()
	symtest.Tool(t, "curl")
	for name, claims := range map[string]string{"claims of the id token": "id_token", "claims of the user info endpoint": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			issuer, s := openIDProvider(t, claims), newLoginSite(t)
			commandtest.Write(t, s.file("secret"), "geheim\n")
			config := func(grants string) string {
				return fmt.Sprintf("auth:\n  sign_in: {issuer: %q, client_id: symdepot, client_secret_file: secret, groups_claim: groups, scopes: [email, groups]}\n"+
					"  grants:\n    - {who: ['oidc-group:team-of-carol'], read: [other]}\n%s", issuer, grants)
			}
			const byName, byGroup = "    - {who: ['oidc:alice@corp.example'], read: [app]}\n", "    - {who: ['oidc-group:team-of-bob'], read: [app]}\n"
			s.serve(config(byName + byGroup))
			alice, bob, carol := s.user("alice", "BY=openid"), s.user("bob", "BY=openid"), s.user("carol", "BY=openid")
			for _, u := range []*loginUser{alice, bob, carol} {
				says(t, "login", u.run(0, "login", s.url()), "as "+strings.TrimPrefix(u.env[3], "PERSON=")+"@corp.example")
			}
			says(t, "by name", alice.finds(0), "hello-x64.pdb")
			says(t, "by group", bob.finds(0), "hello-x64.pdb")
			carol.finds(1)
			s.serve(config(""))
			for _, u := range []*loginUser{alice, bob} {
				if out := u.finds(5); strings.Contains(out, "hello-x64.pdb\n") {
					t.Errorf("without rights a login reads\n%s", out)
				}
			}
			carol.finds(1)
			s.serve(config(byName))
			says(t, "with rights again", alice.finds(0), "hello-x64.pdb")
			carol.env = append(carol.env, "ANSWER=deny")
			says(t, "denied", carol.run(5, "login", s.url()), "access_denied")
		})
	}
}

// TestLoginTicket: a person signs in with the ticket of a real KDC and logs a machine in; the
// login needs no ticket afterwards, and has the rights of the principal. The KDC of MIT gives no
// Windows groups; internal/serve/auth has tickets with groups.
func TestLoginTicket(t *testing.T) {
	k, err := kdctest.New(t)
	if err != nil {
		symtest.Missing(t, "kerberos", "%v", err)
	}
	s := newLoginSite(t)
	s.addr = strings.Replace(s.addr, "127.0.0.1", "localhost", 1)
	config := func(grants string) string {
		return fmt.Sprintf("hosts: [localhost]\nauth:\n  negotiate: {keytab: %s}\n  grants:\n    - {who: [mallory@%s], read: [other]}\n%s", k.Keytab(), kdctest.Realm, grants)
	}
	s.serve(config(fmt.Sprintf("    - {who: [alice@%s], read: [app]}\n", kdctest.Realm)))
	var users []*loginUser
	for _, name := range []string{"alice", "mallory"} {
		ticket := k.As(t, name)
		u := s.user(name, "BY=ticket")
		for _, kv := range ticket.Env("") {
			if strings.HasPrefix(kv, "KRB5") {
				u.env = append(u.env, kv)
			}
		}
		says(t, "login", u.run(0, "login", s.url()), "as "+name+"@"+kdctest.Realm)
		u.env = append(u.env, "KRB5CCNAME=FILE:"+s.file("none"))
		users = append(users, u)
	}
	says(t, "alice", users[0].finds(0), "hello-x64.pdb")
	users[1].finds(1)
	s.serve(config(""))
	users[0].finds(5)
	for _, u := range users {
		u.env = append(u.env, "SYMDEPOT_BROWSER=false")
		says(t, "logout", u.run(0, "logout", s.url()), "has ended")
	}
}

// passwordLogin returns a server with a file of users, and alice, who has logged in.
func passwordLogin(t *testing.T) (*loginSite, *loginUser) {
	t.Helper()
	symtest.Tool(t, "curl")
	s := newLoginSite(t)
	users := commandtest.WriteUsers(t, s.dir, "alice", "bob")
	s.serve(fmt.Sprintf("auth:\n  users_file: %s\n  grants: [{who: [alice, bob], read: [app]}]\n", users))
	alice := s.user("alice", "BY=password")
	says(t, "login", alice.run(0, "login", s.url()), "as alice")
	return s, alice
}

// token returns the access token that the credential helper gives.
func (u *loginUser) token() string {
	u.s.t.Helper()
	_, token, _ := strings.Cut(u.request(0, "get", ""), "\npassword=")
	token, _, _ = strings.Cut(token, "\n")
	return token
}

// status returns the status of a request with a token.
func (s *loginSite) status(token string) int {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url()+helloPDB, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// TestLoginEnds: the access token of a login, which somebody may have copied, is refused at once
// after logout and after the person ended the login on the page, and as soon as the server has read
// a file of users without the person.
func TestLoginEnds(t *testing.T) {
	t.Parallel()
	s, alice := passwordLogin(t)
	ended := func(what string, end func()) {
		t.Helper()
		alice.run(0, "login", s.url())
		token := alice.token()
		if got := s.status(token); got != http.StatusOK {
			t.Fatalf("before %s: status %d, want 200", what, got)
		}
		end()
		if got := s.status(token); got != http.StatusUnauthorized {
			t.Errorf("after %s: status %d, want 401", what, got)
		}
	}
	ended("logout", func() { says(t, "logout", alice.run(0, "logout", s.url()), "has ended") })
	ended("the end on the page", func() {
		p := commandtest.NewPerson(t)
		_, _, page := p.Open(s.url()+"/-/login", url.Values{"user": {"alice"}, "password": {"secret"}, "next": {"/-/signins"}}) //nolint:misspell // a word of addresses
		id := regexp.MustCompile(`<td>program</td>(?s:.*?)action="(/-/signins/[0-9a-f]+/end)"`).FindStringSubmatch(page)
		if id == nil {
			t.Fatalf("the page has no login of a program:\n%s", page)
		}
		if status, _, text := p.Open(s.url()+id[1], url.Values{}); status != http.StatusOK {
			t.Errorf("the end: status %d\n%s", status, text)
		}
	})
	alice.request(0, "erase", alice.token())
	says(t, "an ended login", alice.request(5, "get", ""), "symdepot login "+s.url())
	alice.run(0, "login", s.url())
	token := alice.token()
	commandtest.WriteUsers(t, s.dir, "bob")
	symtest.Await(t, time.Minute, "the refusal of a removed person", func() bool { return s.status(token) == http.StatusUnauthorized })
	says(t, "a removed person", alice.finds(5), "symdepot login "+s.url())
}

// TestLoginProcesses: of fifty processes that ask for a credential when the access token has
// ended, one refreshes it, and all get the new one.
func TestLoginProcesses(t *testing.T) {
	t.Parallel()
	s, alice := passwordLogin(t)
	first := alice.token()
	requests := func() int { return strings.Count(s.now.Log.String(), `"path":"/-/oauth/token"`) }
	// A request is logged after its answer.
	symtest.Await(t, time.Minute, "the request of the login in the log", func() bool { return requests() == 1 })
	alice.request(0, "erase", first)
	tokens := make(chan string, 50)
	for range cap(tokens) {
		go func() {
			token := ""
			defer func() { tokens <- token }()
			token = alice.token()
		}()
	}
	next := <-tokens
	for range cap(tokens) - 1 {
		if got := <-tokens; got != next {
			t.Errorf("one process has the token %q, another one %q", got, next)
		}
	}
	symtest.Await(t, time.Minute, "a refresh in the log", func() bool { return requests() > 1 })
	if n := requests() - 1; n != 1 || next == first || s.status(next) != http.StatusOK {
		t.Errorf("%d refreshes, a new token %v, status %d; want one, a new token and 200", n, next != first, s.status(next))
	}
}
