package server

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/run/setup"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/layout"
)

// loginWorld is a closed server on a depot that keeps logins, with the user alice.
type loginWorld struct {
	*guarded
	gate *auth.Gate
}

func newLoginWorld(t testing.TB) *loginWorld {
	t.Helper()
	w := &loginWorld{guarded: newGuarded(t, demand, Config{Prefixes: []string{"corp"}})}
	users := filepath.Join(t.TempDir(), "users")
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err == nil {
		err = os.WriteFile(users, []byte("alice:"+string(hash)+"\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	store := setup.TokensOf(w.d)
	for _, row := range w.store.rows {
		if err := store.PutToken(t.Context(), row); err != nil {
			t.Fatal(err)
		}
	}
	w.gate, err = auth.New(auth.Config{Users: users, Policy: auth.PolicyConfig{
		Demand: true, Grants: []auth.Grant{{Who: []string{"alice"}, Read: []string{"ours"}, Write: []string{"ours"}}},
	}}, store, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.gate.Close() })
	w.s.cfg.Gate = w.gate
	w.s.cfg.API, w.s.cfg.Pages = webOf(w.d, web.Config{Gate: w.gate, Tokens: store, SignIns: w.gate})
	return w
}

// in returns a tab in which alice is signed in.
func (w *loginWorld) in(t *testing.T) *tab {
	t.Helper()
	b := newTab(t, w.s)
	if r := b.post("/-/login", url.Values{"user": {"alice"}, "password": {"secret"}}); r.status != 303 {
		t.Fatalf("signing in: status %d\n%s", r.status, r.body)
	}
	return b
}

const loginVerifier = "0123456789-0123456789_0123456789~0123456789"

const loginBack = "http://127.0.0.1:4711/back"

// authorizing is the address that a program opens in a browser, with other parameters.
func authorizing(pairs ...string) string {
	sum := sha256.Sum256([]byte(loginVerifier))
	q := url.Values{
		"response_type": {"code"}, "client_id": {wire.LoginClient}, "redirect_uri": {loginBack}, "code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])},
		"code_challenge_method": {"S256"}, "state": {"xyz"}, "device_name": {`box <script>`},
	}
	for i := 0; i < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	return "/-/oauth/authorize?" + q.Encode()
}

// form sends a form of a program.
func (w *loginWorld) form(endpoint string, q url.Values, headers ...string) reply {
	headers = append([]string{"Content-Type: application/x-www-form-urlencoded", "X-Forwarded-Proto: https"}, headers...)
	return askBody(w.s, "POST", "/-/oauth/"+endpoint, q.Encode(), headers...)
}

// oauthAnswer is what the endpoints answer.
type oauthAnswer struct {
	Error       string `json:"error"`
	Description string `json:"error_description"`
	Access      string `json:"access_token"`
	Type        string `json:"token_type"`
	Expires     int    `json:"expires_in"`
	Refresh     string `json:"refresh_token"`
	Name        string `json:"name"`
	Login       string `json:"login_id"`
	Refreshes   int    `json:"refresh_expires_in"`
	DeviceCode  string `json:"device_code"`
	UserCode    string `json:"user_code"`
	URI         string `json:"verification_uri"`
	Complete    string `json:"verification_uri_complete"`
	Interval    int    `json:"interval"`
	Issuer      string `json:"issuer"`
	Token       string `json:"token_endpoint"`
}

func (w *loginWorld) answered(t *testing.T, r reply, status int) (a oauthAnswer) {
	t.Helper()
	if r.status != status || r.header.Get("Content-Type") != "application/json" || r.header.Get("Cache-Control") != "no-store" {
		t.Fatalf("status %d, %v, want %d, JSON that is not kept: %s", r.status, r.header, status, r.body)
	}
	if err := json.Unmarshal([]byte(r.body), &a); err != nil {
		t.Fatalf("the answer %s: %v", r.body, err)
	}
	return a
}

// code lets a program log in, in a tab.
func (w *loginWorld) code(t *testing.T, b *tab) string {
	t.Helper()
	r := b.post(authorizing(), url.Values{"answer": {"allow"}})
	u, err := url.Parse(r.to())
	if r.status != 303 || err != nil || !strings.HasPrefix(r.to(), loginBack+"?") || u.Query().Get("state") != "xyz" || u.Query().Get("iss") != testBase+"/-/oauth" {
		t.Fatalf("allowing: status %d to %q, want 303 to the program with the state and the issuer\n%s", r.status, r.to(), r.body)
	}
	return u.Query().Get("code")
}

func redeeming(code string) url.Values {
	return url.Values{"grant_type": {"authorization_code"}, "client_id": {wire.LoginClient}, "code": {code}, "redirect_uri": {loginBack}, "code_verifier": {loginVerifier}}
}

// TestLoginFlow: a program logs in with a code that a browser brings, reads files as the person
// by every carrier of a token, and is seen and ended on the page Sign-ins.
func TestLoginFlow(t *testing.T) {
	w := newLoginWorld(t)
	b := newTab(t, w.s)
	first := b.get(authorizing())
	next, err := url.Parse(first.to())
	if first.status != 303 || err != nil || next.Path != "/-/login" || next.Query().Get("next") != authorizing() {
		t.Fatalf("without a sign-in: status %d to %q, want the page for signing in, and back", first.status, first.to())
	}
	if r := b.post("/-/login", url.Values{"user": {"alice"}, "password": {"secret"}, "next": {next.Query().Get("next")}}); r.to() != authorizing() {
		t.Fatalf("signing in leads to %q, want back", r.to())
	}
	page := b.get(authorizing())
	if csp := page.header.Get("Content-Security-Policy"); page.status != 200 || !strings.Contains(csp, "form-action 'self' http://127.0.0.1:4711;") || !strings.Contains(page.body, html.EscapeString("box <script>")) ||
		!strings.Contains(page.body, "alice") || !strings.Contains(page.body, "You may read the product") {
		t.Errorf("the page: status %d, %q, want who, which machine and what\n%s", page.status, csp, page.body)
	}
	if csp := b.get(signInsPage).header.Get("Content-Security-Policy"); !strings.Contains(csp, "form-action 'self';") {
		t.Errorf("other pages: %q, want forms for this server only", csp)
	}
	if r := b.post(authorizing(), url.Values{"answer": {"deny"}}); r.status != 303 || !strings.HasPrefix(r.to(), loginBack+"?error=access_denied") || !strings.Contains(r.to(), "state=xyz") {
		t.Errorf("denied: status %d to %q, want access_denied", r.status, r.to())
	}
	if r := b.post(authorizing(), url.Values{}); r.status != 400 {
		t.Errorf("no answer: status %d, want 400", r.status)
	}
	got := w.answered(t, w.form("token", redeeming(w.code(t, b))), 200)
	if got.Type != "Bearer" || got.Expires != 3600 || got.Refreshes != 30*24*3600 || got.Name != "alice" || !auth.IsToken(got.Access) || len(got.Refresh) != 68 || got.Login == "" {
		t.Errorf("the tokens are %+v", got)
	}
	ours, theirs := w.oursPDB.path(t, layout.SymStore), w.theirsPDB.path(t, layout.SymStore)
	for what, send := range map[string]func(path string) reply{
		"bearer": func(p string) reply { return ask(w.s, "GET", p, bearer(got.Access)) },
		"basic":  func(p string) reply { return ask(w.s, "GET", p, basic("any", got.Access)) },
		"header": func(p string) reply { return ask(w.s, "GET", p, wire.Token+": "+got.Access) },
		"path":   func(p string) reply { return ask(w.s, "GET", "/t/"+got.Access+p) },
	} {
		if r := send(ours); r.status != 200 || r.body != string(w.oursPDB.body) {
			t.Errorf("%s: status %d, want the file", what, r.status)
		}
		for _, path := range []string{theirs, "/none.pdb/000000000000000000000000000000001/none.pdb"} {
			if r := send(path); r.status != 404 {
				t.Errorf("%s, a hidden or missing file: status %d, want 404", what, r.status)
			}
		}
	}
	me := decoded[wire.Me](t, ask(w.s, "GET", wire.MePath, bearer(got.Access)), 200)
	if me.Name != "alice" || me.Login != got.Login || me.Method != "basic" || me.SignIn != "" {
		t.Errorf("the client is %+v, want alice by the login", me)
	}
	list := decoded[wire.SignInList](t, ask(w.s, "GET", wire.SignInsPath, bearer(got.Access)), 200)
	if len(list.Items) != 2 || list.Items[0].Kind != wire.SignInBrowser || list.Items[0].Current || list.Items[1].Kind != wire.SignInProgram || list.Items[1].ID != got.Login || list.Items[1].Machine != "box <script>" || !list.Items[1].Current {
		t.Errorf("the list is %+v, want the browser and the program", list.Items)
	}
	if r := b.get(signInsPage); !strings.Contains(r.body, html.EscapeString("box <script>")) || !strings.Contains(r.body, `action="/-/signins/`+got.Login+`/end"`) { //nolint:misspell // a word of addresses
		t.Errorf("the page Sign-ins does not show the program\n%s", r.body)
	}
	if r := b.post(signInsPage+"/"+got.Login+"/end", nil); r.status != 303 {
		t.Errorf("the end: status %d, want 303", r.status)
	}
	if r := ask(w.s, "GET", ours, bearer(got.Access)); r.status != 401 {
		t.Errorf("a file after the end: status %d, want 401", r.status)
	}
	if e := w.answered(t, w.form("token", url.Values{"grant_type": {"refresh_token"}, "client_id": {wire.LoginClient}, "refresh_token": {got.Refresh}}), 400); e.Error != "invalid_grant" {
		t.Errorf("a refresh after the end: %+v, want invalid_grant", e)
	}
	if log := w.log.String(); strings.Contains(log, got.Access) || strings.Contains(log, got.Refresh) || !strings.Contains(log, `"login_id":"`+got.Login+`"`) {
		t.Error("the log has a secret of the login, or not its id")
	}
}

// TestLoginDevice: a program shows a code, a person types it at another machine, and the program
// gets its tokens.
func TestLoginDevice(t *testing.T) {
	w := newLoginWorld(t)
	b := w.in(t)
	ask := func() (oauthAnswer, url.Values) {
		t.Helper()
		d := w.answered(t, w.form("device_authorization", url.Values{"client_id": {wire.LoginClient}, "device_name": {"far"}}), 200)
		return d, url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:device_code"}, "client_id": {wire.LoginClient}, "device_code": {d.DeviceCode}}
	}
	d, poll := ask()
	if len(d.UserCode) != 9 || d.UserCode[4] != '-' || !strings.HasSuffix(d.URI, "/-/device") || d.Complete != d.URI+"?code="+d.UserCode || d.Expires != 600 || d.Interval != 5 || !strings.HasPrefix(d.URI, "https://") {
		t.Errorf("the request is %+v", d)
	}
	for _, want := range []string{"authorization_pending", "slow_down"} {
		if e := w.answered(t, w.form("token", poll), 400); e.Error != want {
			t.Errorf("%+v, want %s", e, want)
		}
	}
	if r := b.get("/-/device"); r.status != 200 || !strings.Contains(r.body, `name="code"`) {
		t.Errorf("the page: status %d\n%s", r.status, r.body)
	}
	if r := b.get("/-/device?code=BBBBBBBB"); r.status != 404 || !strings.Contains(r.body, `role="alert"`) {
		t.Errorf("a wrong code: status %d, want 404\n%s", r.status, r.body)
	}
	page := b.get("/-/device?code=" + strings.ToLower(strings.Replace(d.UserCode, "-", "+", 1)))
	if page.status != 200 || !strings.Contains(page.body, "far") || !strings.Contains(page.body, d.UserCode) || !strings.Contains(page.body, "began the login yourself") {
		t.Errorf("the page for the answer: status %d\n%s", page.status, page.body)
	}
	if r := b.post("/-/device", url.Values{"code": {d.UserCode}, "answer": {"allow"}}); r.status != 303 || r.to() != "/-/device?done=let" {
		t.Errorf("allowed: status %d to %q", r.status, r.to())
	}
	got := w.answered(t, w.form("token", poll), 200)
	if got.Name != "alice" || got.Access == "" {
		t.Errorf("the tokens are %+v", got)
	}
	d, poll = ask()
	if r := b.post("/-/device", url.Values{"code": {d.UserCode}, "answer": {"deny"}}); r.status != 303 || r.to() != "/-/device?done=denied" {
		t.Errorf("denied: status %d to %q", r.status, r.to())
	}
	if e := w.answered(t, w.form("token", poll), 400); e.Error != "access_denied" {
		t.Errorf("%+v, want access_denied", e)
	}
	// Either token ends the login; what is none of a login changes nothing.
	for _, token := range []string{"x", w.all, got.Access, got.Access, got.Refresh} {
		if a := w.answered(t, w.form("revoke", url.Values{"client_id": {wire.LoginClient}, "token": {token}, "token_type_hint": {"x"}}), 200); a.Error != "" {
			t.Errorf("revoke: %+v, want 200", a)
		}
	}
	if r := w.form("token", url.Values{"grant_type": {"refresh_token"}, "client_id": {wire.LoginClient}, "refresh_token": {got.Refresh}}); r.status != 400 {
		t.Errorf("a refresh after the end: status %d, want 400", r.status)
	}
}

// TestLoginForms: wrong requests are refused with the errors of RFC 6749, and disclose nothing.
func TestLoginForms(t *testing.T) {
	w := newLoginWorld(t)
	code := w.code(t, w.in(t))
	with := func(q url.Values, pairs ...string) url.Values {
		for i := 0; i < len(pairs); i += 2 {
			if q.Del(pairs[i]); pairs[i+1] != "" {
				q.Set(pairs[i], pairs[i+1])
			}
		}
		return q
	}
	twice := redeeming(code)
	twice.Add("code", code)
	for _, tt := range []struct {
		what, endpoint string
		form           url.Values
		status         int
		err            string
	}{
		{"nothing", "token", url.Values{}, 400, "invalid_client"},
		{"another client", "token", with(redeeming(code), "client_id", "evil"), 400, "invalid_client"},
		{"no client", "token", with(redeeming(code), "client_id", ""), 400, "invalid_client"},
		{"no grant", "token", with(redeeming(code), "grant_type", ""), 400, "invalid_request"},
		{"password grant", "token", with(redeeming(code), "grant_type", "password"), 400, "unsupported_grant_type"},
		{"no code", "token", with(redeeming(code), "code", ""), 400, "invalid_request"},
		{"no verifier", "token", with(redeeming(code), "code_verifier", ""), 400, "invalid_request"},
		{"no address", "token", with(redeeming(code), "redirect_uri", ""), 400, "invalid_request"},
		{"a code twice", "token", twice, 400, "invalid_request"},
		{"another verifier", "token", with(redeeming(code), "code_verifier", strings.Repeat("a", 43)), 400, "invalid_grant"},
		{"another address", "token", with(redeeming(code), "redirect_uri", "http://127.0.0.1:4712/back"), 400, "invalid_grant"},
		{"another host", "token", with(redeeming(code), "redirect_uri", "https://evil.example/"), 400, "invalid_grant"},
		{"a guess", "token", with(redeeming(code), "code", strings.Repeat("A", 43)), 400, "invalid_grant"},
		{"NUL", "token", with(redeeming(code), "code", code+"\x00"), 400, "invalid_grant"},
		{"a long form", "token", with(redeeming(code), "x", strings.Repeat("a", 9<<10)), 413, "invalid_request"},
		{"no refresh token", "token", url.Values{"grant_type": {"refresh_token"}, "client_id": {wire.LoginClient}}, 400, "invalid_request"},
		{"a token as a refresh token", "token", url.Values{"grant_type": {"refresh_token"}, "client_id": {wire.LoginClient}, "refresh_token": {w.all}}, 400, "invalid_grant"},
		{"no device code", "token", url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:device_code"}, "client_id": {wire.LoginClient}}, 400, "invalid_request"},
		{"an unknown device code", "token", url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:device_code"}, "client_id": {wire.LoginClient}, "device_code": {code}}, 400, "invalid_grant"},
		{"device: no client", "device_authorization", url.Values{}, 400, "invalid_client"},
		{"revoke: nothing", "revoke", url.Values{"client_id": {wire.LoginClient}}, 400, "invalid_request"},
		{"an unknown endpoint", "introspect", url.Values{}, 404, "invalid_request"},
		{"right", "token", with(redeeming(code), "unknown", "x"), 200, ""},
		{"used", "token", redeeming(code), 400, "invalid_grant"},
	} {
		r := w.form(tt.endpoint, tt.form)
		if a := w.answered(t, r, tt.status); a.Error != tt.err || tt.err != "" && (a.Description == "" || strings.Contains(r.body, code)) {
			t.Errorf("%s: %s, want %s", tt.what, r.body, tt.err)
		}
	}
	for what, r := range map[string]reply{
		"JSON":          askBody(w.s, "POST", "/-/oauth/token", `{"client_id":"symdepot"}`, "Content-Type: application/json", "X-Forwarded-Proto: https"),
		"no kind":       askBody(w.s, "POST", "/-/oauth/token", redeeming(code).Encode(), "X-Forwarded-Proto: https"),
		"a broken form": askBody(w.s, "POST", "/-/oauth/token", "a=%zz", "Content-Type: application/x-www-form-urlencoded", "X-Forwarded-Proto: https"),
		"no TLS":        askBody(w.s, "POST", "/-/oauth/token", redeeming(code).Encode(), "Content-Type: application/x-www-form-urlencoded"),
	} {
		if a := w.answered(t, r, 400); a.Error != "invalid_request" {
			t.Errorf("%s: %+v, want invalid_request", what, a)
		}
	}
}

// TestLoginPaths: who may ask which of the new addresses.
func TestLoginPaths(t *testing.T) {
	w := newLoginWorld(t)
	b := w.in(t)
	login := w.answered(t, w.form("token", redeeming(w.code(t, b))), 200)
	const https, asBrowser = "X-Forwarded-Proto: https", "Accept: text/html"
	own := []string{"Origin: " + testBase, "Sec-Fetch-Site: same-origin", "Host: symbols.example.com"}
	foreign := []string{"Origin: https://evil.example", "Sec-Fetch-Site: cross-site", "Host: symbols.example.com"}
	link := []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}
	fetched := []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image"}
	for _, page := range []string{authorizing(), "/-/device", "/corp" + authorizing(), "/corp/-/device"} {
		for _, tt := range []struct {
			what    string
			headers []string
			status  int
		}{
			{"a tool", nil, 401}, {"a browser", []string{asBrowser}, 303}, {"a password", []string{basic("alice", "secret")}, 200}, {"a token", []string{bearer(w.ours)}, 200},
			{"a wrong token", []string{bearer(auth.NewToken())}, 401}, {"a wrong password", []string{basic("alice", "x")}, 401}, {"a login", []string{bearer(login.Access)}, 403},
			{"a login in a browser", []string{bearer(login.Access), asBrowser}, 403}, {"a refresh token", []string{bearer(login.Refresh)}, 401},
		} {
			if r := ask(w.s, "GET", page, append(tt.headers, https)...); r.status != tt.status {
				t.Errorf("GET %s with %s: status %d, want %d\n%s", page, tt.what, r.status, tt.status, r.body)
			}
		}
		for what, want := range map[string]int{"": 200, "link": 200, "image": 403} {
			headers := map[string][]string{"": nil, "link": link, "image": fetched}[what]
			if r := b.get(page, headers...); r.status != want {
				t.Errorf("GET %s in a browser, by a %s of another site: status %d, want %d", page, what, r.status, want)
			}
		}
		if r := ask(w.s, "GET", "/t/"+w.ours+page, https); r.status != 404 {
			t.Errorf("GET %s below a token: status %d, want 404", page, r.status)
		}
		if r := b.post(page, url.Values{"answer": {"allow"}, "code": {"BBBBBBBB"}}, foreign...); r.status != 403 {
			t.Errorf("POST %s by a page of another site: status %d to %q, want 403", page, r.status, r.to())
		}
		if r := ask(w.s, "GET", page, asBrowser); r.status != 303 {
			t.Errorf("GET %s without TLS: status %d, want the page for signing in, which says why not", page, r.status)
		}
		if r := ask(w.s, "GET", page, basic("alice", "secret")); r.status != 403 {
			t.Errorf("GET %s without TLS with a password: status %d, want 403", page, r.status)
		}
	}
	for _, tt := range []struct {
		method, path string
		headers      []string
		status       int
	}{
		{"GET", "/-/oauth/token", nil, 405}, {"GET", "/-/oauth/revoke", nil, 405}, {"GET", "/-/oauth/device_authorization", nil, 405}, {"PUT", "/-/oauth/token", nil, 405},
		{"POST", "/-/oauth/token", nil, 400}, {"POST", "/-/oauth/token", []string{bearer(auth.NewToken())}, 400}, {"POST", "/-/oauth/token", own, 400}, {"POST", "/-/oauth/token", foreign, 403},
		{"POST", "/-/oauth/device_authorization", foreign, 403}, {"POST", "/-/oauth/revoke", foreign, 403}, {"POST", "/t/" + w.ours + "/-/oauth/token", nil, 404},
		{"POST", "/t/" + auth.NewToken() + "/-/oauth/token", nil, 401}, {"POST", "/corp/-/oauth/token", nil, 400}, {"GET", "/-/oauth/x", nil, 404}, {"GET", "/-/oauth/token/x", nil, 404},
		{"GET", "/-/oauth/authorize/x", []string{asBrowser}, 303}, {"GET", "/-/device/x", nil, 401},
	} {
		if r := askBody(w.s, tt.method, tt.path, "", append(tt.headers, https)...); r.status != tt.status {
			t.Errorf("%s %s %q: status %d, want %d\n%s", tt.method, auth.Redact(tt.path), tt.headers, r.status, tt.status, r.body)
		}
	}
}

// TestLoginDiscovery: the discovery document is where both forms of RFC 8414 look for it, with
// the issuer as the client wrote it.
func TestLoginDiscovery(t *testing.T) {
	w := newLoginWorld(t)
	for path, issuer := range map[string]string{
		"/-/oauth/.well-known/oauth-authorization-server": "/-/oauth", "/.well-known/oauth-authorization-server/-/oauth": "/-/oauth",
		"/corp/-/oauth/.well-known/oauth-authorization-server": "/corp/-/oauth", "/corp/.well-known/oauth-authorization-server/-/oauth": "/corp/-/oauth",
		"/.well-known/oauth-authorization-server/corp/-/oauth": "/corp/-/oauth",
	} {
		got := w.answered(t, ask(w.s, "GET", path, "X-Forwarded-Proto: https"), 200)
		if want := "https://localhost" + issuer; got.Issuer != want || got.Token != want+"/token" {
			t.Errorf("GET %s: %+v, want the issuer %s", path, got, want)
		}
		if r := ask(w.s, "HEAD", path, "X-Forwarded-Proto: https"); r.status != 200 || r.body != "" {
			t.Errorf("HEAD %s: status %d, want 200", path, r.status)
		}
		if r := ask(w.s, "POST", path, "X-Forwarded-Proto: https"); r.status != 405 || r.header.Get("Allow") != "GET, HEAD" {
			t.Errorf("POST %s: status %d, %q, want 405", path, r.status, r.header.Get("Allow"))
		}
	}
	for _, path := range []string{"/.well-known/oauth-authorization-server", "/.well-known/oauth-authorization-server/x", "/.well-known/openid-configuration"} {
		if r := ask(w.s, "GET", path, bearer(w.all)); r.status != 404 {
			t.Errorf("GET %s: status %d, want 404", path, r.status)
		}
	}
}

// TestLoginOff: a server without credentials says that nothing needs a login.
func TestLoginOff(t *testing.T) {
	t.Parallel()
	d := newDepot(t)
	apis, pages := webOf(d, web.Config{Gate: auth.Everybody()})
	s := newServer(t, Config{Depot: d, Gate: auth.Everybody(), API: apis, Pages: pages})
	for _, path := range []string{"/-/oauth/token", "/-/oauth/device_authorization", "/-/oauth/.well-known/oauth-authorization-server", "/.well-known/oauth-authorization-server/-/oauth"} {
		if r := ask(s, "GET", path); r.status != 404 || !strings.Contains(r.body, "nothing needs a login here") {
			t.Errorf("GET %s: status %d, %s; want 404 with the reason", path, r.status, r.body)
		}
	}
	for _, path := range []string{authorizing(), "/-/device"} {
		if r := ask(s, "GET", path, "Accept: text/html"); r.status != 404 || !strings.Contains(r.body, "nobody needs to sign in here") {
			t.Errorf("GET %s: status %d, want 404 with the reason\n%s", path, r.status, r.body)
		}
	}
}

// BenchmarkLogin measures what a request with the access token of a login costs, compared with
// one with a token that somebody made, in turns.
func BenchmarkLogin(b *testing.B) {
	w := newLoginWorld(b)
	r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "/", nil)
	if err != nil {
		b.Fatal(err)
	}
	r.SetBasicAuth("alice", "secret")
	id, rights, challenge := w.gate.Authenticate(r, "")
	if challenge != nil {
		b.Fatalf("%+v", challenge)
	}
	sum := sha256.Sum256([]byte(loginVerifier))
	code, err := w.gate.AllowCode(b.Context(), &id, &rights, auth.Program{}, base64.RawURLEncoding.EncodeToString(sum[:]), loginBack)
	if err != nil {
		b.Fatal(err)
	}
	login, err := w.gate.RedeemCode(r, code, loginVerifier, loginBack)
	if err != nil {
		b.Fatal(err)
	}
	u := w.oursPDB.path(b, layout.SymStore)
	request := func(token string) *http.Request {
		r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, u, nil)
		if err != nil {
			b.Fatal(err)
		}
		r.RequestURI, r.RemoteAddr = u, "192.0.2.1:1"
		r.Header.Set("Authorization", "Bearer "+token)
		return r
	}
	kinds := [2]*http.Request{request(w.ours), request(login.Access)}
	out := &discard{header: make(http.Header)}
	var took [2]time.Duration
	n := 0
	for i := 0; b.Loop(); i++ {
		begin := time.Now()
		for range 500 {
			out.serve(b, w.s, kinds[i%2], http.StatusOK)
		}
		if i >= 4 { // both are warm
			took[i%2] += time.Since(begin)
			n++
		}
	}
	if n >= 2 {
		b.ReportMetric(float64(took[1])/float64(took[0]), "login/token")
		b.ReportMetric(500*float64(n)/2/took[1].Seconds(), "requests/s")
	}
}
