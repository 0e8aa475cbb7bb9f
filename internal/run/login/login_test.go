package login

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/oauth2"

	"github.com/symdepot/symdepot/internal/run/keyring"
)

// Variables with which a test makes this binary one of many processes of a user.
const (
	asProcess = "SYMDEPOT_TEST_LOGINS" // the folder of the logins
	ofServer  = "SYMDEPOT_TEST_SERVER"
)

func TestMain(m *testing.M) {
	dir := os.Getenv(asProcess)
	if dir == "" {
		os.Exit(m.Run())
	}
	s := &Logins{Dir: dir, HTTP: plain}
	_, _ = io.ReadAll(os.Stdin) // until all processes are there
	got, err := s.Access(context.Background(), os.Getenv(ofServer), Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(got.Token)
}

func plain(string) *http.Client { return &http.Client{Transport: http.DefaultTransport} }

// newLogins returns the logins of a user who has none, whose keyring is files.
func newLogins(t *testing.T) *Logins {
	t.Helper()
	return &Logins{Dir: filepath.Join(t.TempDir(), "symdepot"), HTTP: plain, Keyring: keyring.NameFile, Machine: "build\x1b7"}
}

// visit is a browser: it opens an address and follows redirects, also to this machine. page gets
// what it shows at the end; nil: nobody does.
func visit(t *testing.T, page chan string) func(string) {
	return func(address string) {
		go func() {
			resp, err := http.Get(address)
			if err != nil {
				t.Errorf("the browser: %v", err)
				return
			}
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Errorf("the browser: %v", err)
			}
			if page != nil {
				page <- string(b)
			}
		}()
	}
}

// signIn signs in with a browser.
func signIn(t *testing.T, s *Logins, server string) Login {
	t.Helper()
	l, err := s.Browser(t.Context(), server, visit(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// secretFile is the file with the secret of the login for a server.
func (s *Logins) secretFile(server string) string {
	return keyring.File{Dir: s.secretsDir()}.Path(server)
}

func TestBrowser(t *testing.T) {
	t.Parallel()
	srv, s := newAuthServer(t), newLogins(t)
	var asked url.Values
	srv.decide = func(q url.Values) string { asked = q; return "" }
	l := signIn(t, s, srv.URL+"/")
	if l.Server != srv.URL || l.Person != "alice" || !strings.HasPrefix(l.ID, "login") || l.KeptIn != keyring.NameFile ||
		time.Until(l.Ends) < 29*24*time.Hour || asked.Get("device_name") != "build?7" {
		t.Errorf("the login %+v, asked for with %v", l, asked)
	}
	list, err := s.List()
	if err != nil || len(list) != 1 || list[0] != l {
		t.Errorf("the list %+v, %v; want %+v", list, err, l)
	}
	text, err := os.ReadFile(s.listPath())
	if err != nil || strings.Contains(string(text), "-secret") {
		t.Errorf("the list has a secret: %s, %v", text, err)
	}
	got, err := s.Access(t.Context(), srv.URL, Options{})
	if err != nil || srv.of(got.Token) != l.ID || got.Person != "alice" {
		t.Errorf("access %+v, %v", got, err)
	}
	if n := srv.count("token refresh_token"); n != 0 {
		t.Errorf("%d refreshes, want the kept token", n)
	}
	srv.lock(func() {
		if len(srv.agents) != 2 || !srv.agents["symdepot login"] {
			t.Errorf("the agents %v, want symdepot login beside the browser", srv.agents)
		}
	})
	// A second sign-in ends the first.
	again := signIn(t, s, srv.URL)
	if list, err = s.List(); err != nil || len(list) != 1 || srv.logins() != 1 || list[0].ID != again.ID {
		t.Errorf("after a second sign-in: %v, %v; %d at the server, want one", list, err, srv.logins())
	}
}

// TestBrowserRefused: what a browser brings back that is not the answer of this sign-in.
func TestBrowserRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*authServer)
		want   error
		text   string
	}{
		"denied": {func(s *authServer) { s.decide = func(url.Values) string { return "access_denied" } }, ErrDenied, "access_denied"},
		"another issuer": {
			func(s *authServer) { s.redirect = func(q url.Values) { q.Set("iss", "https://evil.example/-/oauth") } },
			ErrDenied, "another server",
		},
		"no issuer":    {func(s *authServer) { s.redirect = func(q url.Values) { q.Del("iss") } }, ErrDenied, "another server"},
		"a value more": {func(s *authServer) { s.redirect = func(q url.Values) { q.Add("code", "x") } }, ErrDenied, "twice"},
		"no code":      {func(s *authServer) { s.redirect = func(q url.Values) { q.Del("code") } }, ErrDenied, "no code"},
		"another code": {func(s *authServer) { s.redirect = func(q url.Values) { q.Set("code", "<b>") } }, ErrDenied, "invalid_grant"},
		"server away":  {func(s *authServer) { s.status = 503 }, ErrAway, "status 503"},
		"no refresh token": {
			func(s *authServer) { s.token = func(m map[string]any) { delete(m, "refresh_token") } }, ErrNoSignIn, "no tokens",
		},
		"a token of two lines": {
			func(s *authServer) { s.token = func(m map[string]any) { m["access_token"] = "sd_x-secret\r\nX: y" } }, ErrNoSignIn, "no tokens",
		},
		"no life": {func(s *authServer) { s.token = func(m map[string]any) { delete(m, "expires_in") } }, ErrNoSignIn, "no tokens"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, s := newAuthServer(t), newLogins(t)
			tt.change(srv)
			page := make(chan string, 1)
			_, err := s.Browser(t.Context(), srv.URL, visit(t, page))
			if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) || strings.Contains(err.Error(), "-secret") {
				t.Errorf("%v; want %v with %q, and no secret", err, tt.want, tt.text)
			}
			if list, err := s.List(); len(list) != 0 || err != nil {
				t.Errorf("the list %v, %v; want none", list, err)
			}
			if n := srv.logins(); n != 0 && name != "no refresh token" {
				t.Errorf("%d logins stay at the server", n)
			}
			if shown := <-page; !strings.Contains(shown, "<h1>Not signed in</h1>") || !strings.Contains(shown, html.EscapeString(tt.text)) {
				t.Errorf("the page %s, want %q", shown, tt.text)
			}
		})
	}
}

// TestCallback: only the answer with the state of the sign-in counts, once, at its address; the
// others do not end the sign-in.
func TestCallback(t *testing.T) {
	t.Parallel()
	srv, s := newAuthServer(t), newLogins(t)
	ask := func(method, address, host string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		if host != "" {
			req.Host = host
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		if csp := resp.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || resp.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("the header %v", resp.Header)
		}
		return resp.StatusCode, string(b)
	}
	l, err := s.Browser(t.Context(), srv.URL, func(address string) {
		u, _ := url.Parse(address)
		back := u.Query().Get("redirect_uri")
		state := u.Query().Get("state")
		for _, x := range []struct {
			method, address, host string
			status                int
		}{
			{"GET", back, "", 400},
			{"GET", back + "?state=x&code=y", "", 400},
			{"GET", back + "?state=" + state + "&code=y", "symbols.example.com", 404},
			{"GET", back + "/x?state=" + state + "&code=y", "", 404},
			{"POST", back + "?state=" + state + "&code=y", "", 405},
		} {
			if status, text := ask(x.method, x.address, x.host); status != x.status {
				t.Errorf("%s %s: %d %s, want %d", x.method, x.address, status, text, x.status)
			}
		}
		visit(t, nil)(address)
	})
	if err != nil || l.Person != "alice" {
		t.Errorf("%+v, %v; want the sign-in to go on", l, err)
	}
}

// TestInterrupted: Ctrl-C ends a sign-in at once, and nothing is left.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	srv, s := newAuthServer(t), newLogins(t)
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := s.Browser(ctx, srv.URL, func(string) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	if list, err := s.List(); len(list) != 0 || err != nil {
		t.Errorf("the list %v, %v", list, err)
	}
}

// TestDiscovery: servers without a sign-in, and those that speak for others.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	other := func(key, value string) func(map[string]any) { return func(m map[string]any) { m[key] = value } }
	for name, tt := range map[string]struct {
		meta func(m map[string]any)
		want string
	}{
		"another issuer":    {other("issuer", "https://evil.example/-/oauth"), "use symdepot login https://evil.example"},
		"no issuer":         {other("issuer", ""), "no symdepot server"},
		"token elsewhere":   {other("token_endpoint", "https://evil.example/token"), "address of another server: https://evil.example/token"},
		"revoke elsewhere":  {other("revocation_endpoint", "//evil.example/"), "address of another server"},
		"authorize with ps": {other("authorization_endpoint", "javascript:alert(1)"), "address of another server"},
		"a user":            {other("token_endpoint", "http://a:b@127.0.0.1/"), "address of another server"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, s := newAuthServer(t), newLogins(t)
			srv.meta = tt.meta
			_, err := s.Browser(t.Context(), srv.URL, func(string) { t.Error("a browser was opened") })
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
	srv, s := newAuthServer(t), newLogins(t)
	if _, err := s.Browser(t.Context(), srv.URL+"/elsewhere", nil); !errors.Is(err, ErrNoSignIn) || !strings.Contains(err.Error(), "--token-file") {
		t.Errorf("no metadata: %v, want %v and the next step", err, ErrNoSignIn)
	}
	srv.offline = true
	if _, err := s.Device(t.Context(), srv.URL, nil); !errors.Is(err, ErrAway) {
		t.Errorf("away: %v, want %v", err, ErrAway)
	}
	if _, err := s.Browser(t.Context(), "http://127.0.0.1:1", nil); !errors.Is(err, ErrAway) {
		t.Errorf("nobody: %v, want %v", err, ErrAway)
	}
	if _, err := s.Browser(t.Context(), "http://symbols.example.com", nil); err == nil || !strings.Contains(err.Error(), "use https") {
		t.Errorf("plain HTTP: %v", err)
	}
}

// handled answers requests without a network, so that a test can have a clock of its own.
type handled struct{ http.Handler }

func (h handled) RoundTrip(r *http.Request) (*http.Response, error) {
	w := recorder{header: http.Header{}, status: http.StatusOK}
	if r.Body == nil {
		r.Body = http.NoBody
	}
	h.ServeHTTP(&w, r)
	return &http.Response{
		StatusCode: w.status, Status: fmt.Sprint(w.status), Header: w.header, Body: io.NopCloser(strings.NewReader(w.body.String())), Request: r,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}, nil
}

type recorder struct {
	header http.Header
	status int
	body   strings.Builder
}

func (w *recorder) Header() http.Header         { return w.header }
func (w *recorder) WriteHeader(status int)      { w.status = status }
func (w *recorder) Write(b []byte) (int, error) { return w.body.Write(b) }

// TestDevice: the code is shown, and the server is asked at its interval until the person decides.
func TestDevice(t *testing.T) {
	t.Parallel()
	pending, slow, broken := "authorization_pending", "slow_down", "502"
	for name, tt := range map[string]struct {
		answers []string // of the token endpoint, one after the other; the last stays
		want    error
		after   time.Duration // of the last answer
	}{
		"at once":     {[]string{""}, nil, time.Second},
		"pending":     {[]string{pending, pending, ""}, nil, 3 * time.Second},
		"slower":      {[]string{pending, slow, pending, ""}, nil, 14 * time.Second},
		"server away": {[]string{broken, ""}, nil, 11 * time.Second},
		"denied":      {[]string{pending, "access_denied"}, ErrDenied, 2 * time.Second},
		"ended":       {[]string{pending, "expired_token"}, ErrNobody, 2 * time.Second},
		"nobody":      {[]string{pending}, ErrNobody, 10 * time.Minute},
		"code used":   {[]string{"invalid_grant"}, ErrDenied, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newLogins(t)
				srv := &authServer{
					URL: "https://symbols.example.com", codes: map[string]url.Values{}, families: map[string]string{}, used: map[string]string{},
					access: map[string]string{}, requests: map[string]int{}, agents: map[string]bool{},
				}
				at := 0
				srv.decide = func(url.Values) string {
					a := tt.answers[min(at, len(tt.answers)-1)]
					at++
					return a
				}
				began, shown := time.Now(), ""
				transport := handled{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if strings.HasSuffix(r.URL.Path, "/token") && tt.answers[min(at, len(tt.answers)-1)] == broken {
						at++
						http.Error(w, "away", http.StatusBadGateway)
						return
					}
					srv.ServeHTTP(w, r)
				})}
				s.HTTP = func(string) *http.Client { return &http.Client{Transport: transport} }
				l, err := s.Device(t.Context(), srv.URL, func(address, code string, until time.Time) {
					shown = fmt.Sprint(address, " ", code, " ", until.Sub(began))
				})
				if !errors.Is(err, tt.want) || err == nil && l.Person != "alice" {
					t.Errorf("%+v, %v; want %v", l, err, tt.want)
				}
				if took := time.Since(began).Round(time.Second); took != tt.after {
					t.Errorf("took %v, want %v", took, tt.after)
				}
				if want := "https://symbols.example.com/-/device BCDF-GHJK 10m0s"; shown != want {
					t.Errorf("shown %q, want %q", shown, want)
				}
			})
		})
	}
}

// TestTokenFile: the token is checked at the beginning, and read anew at each use.
func TestTokenFile(t *testing.T) {
	t.Parallel()
	srv, s := newAuthServer(t), newLogins(t)
	srv.access["sd_1-secret"] = "job"
	file := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.TokenFile(t.Context(), srv.URL, file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	for text, want := range map[string]string{"": "has no token", "two-secret words": "has no token", "sd_0-secret": "does not know the token"} {
		write(text)
		if _, err := s.TokenFile(t.Context(), srv.URL, file); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "-secret") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	write("sd_1-secret\n")
	l, err := s.TokenFile(t.Context(), srv.URL, file)
	if err != nil || l.Person != "of job" || l.KeptIn != KeptInFile || l.TokenFile != file {
		t.Errorf("%+v, %v", l, err)
	}
	write("sd_2-secret")
	if got, err := s.Access(t.Context(), srv.URL, Options{}); err != nil || got.Token != "sd_2-secret" {
		t.Errorf("after the file changed: %+v, %v", got, err)
	}
	if _, err := s.Access(t.Context(), srv.URL, Options{PassOverCache: true, Refused: "sd_2-secret"}); !errors.Is(err, ErrSignIn) ||
		!strings.Contains(err.Error(), file) || strings.Contains(err.Error(), "-secret") {
		t.Errorf("a refused token: %v", err)
	}
	if l, told, err := s.Out(t.Context(), srv.URL); err != nil || told != nil || l.TokenFile != file {
		t.Errorf("logout: %v, %v", told, err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("the file of the user: %v", err)
	}
}

// TestRefresh: when a token is refreshed, and what becomes of the login.
func TestRefresh(t *testing.T) {
	t.Parallel()
	srv, s := newAuthServer(t), newLogins(t)
	srv.expiresIn = 59 // less than a minute
	l := signIn(t, s, srv.URL)
	srv.expiresIn = 0
	refreshes := 0
	access := func(opt Options) (string, error) {
		t.Helper()
		got, err := s.Access(t.Context(), srv.URL, opt)
		if n := srv.count("token refresh_token") - refreshes; n != 0 {
			refreshes++
			if n != 1 {
				t.Errorf("%d refreshes at once", n)
			}
			return got.Token, err
		}
		return "kept " + got.Token, err
	}
	first, err := access(Options{})
	if err != nil || strings.HasPrefix(first, "kept") {
		t.Errorf("a token that ends: %q, %v; want a new one", first, err)
	}
	if again, err := access(Options{}); err != nil || again != "kept "+first {
		t.Errorf("a token of an hour: %q, %v; want %q", again, err, first)
	}
	if other, err := access(Options{PassOverCache: true, Refused: "sd_older-secret"}); err != nil || other != "kept "+first {
		t.Errorf("somebody else has refreshed: %q, %v; want %q", other, err, first)
	}
	second, err := access(Options{PassOverCache: true, Refused: first})
	if err != nil || second == first || strings.HasPrefix(second, "kept") {
		t.Errorf("the token is refused: %q, %v; want a new one", second, err)
	}
	third, err := access(Options{PassOverCache: true})
	if err != nil || third == second || strings.HasPrefix(third, "kept") {
		t.Errorf("the kept token is passed over: %q, %v; want a new one", third, err)
	}
	if err := s.Forget(t.Context(), srv.URL, "another"); err != nil {
		t.Error(err)
	}
	if kept, err := access(Options{}); err != nil || kept != "kept "+third {
		t.Errorf("another token was forgotten: %q, %v; want %q", kept, err, third)
	}
	if err := s.Forget(t.Context(), srv.URL, third); err != nil {
		t.Error(err)
	}
	if fourth, err := access(Options{}); err != nil || strings.HasPrefix(fourth, "kept") {
		t.Errorf("the token was forgotten: %q, %v; want a new one", fourth, err)
	}
	// A server that does not answer keeps everything.
	before, _ := os.ReadFile(s.secretFile(srv.URL))
	for name, change := range map[string]func(bool){
		"offline":     func(on bool) { srv.offline = on },
		"busy":        func(on bool) { srv.status = map[bool]int{true: 429}[on] },
		"no such API": func(on bool) { srv.status = map[bool]int{true: 404}[on] },
		"auth is off": func(on bool) { srv.base = map[bool]string{true: "/gone", false: "/corp"}[on] },
	} {
		srv.lock(func() { change(true) })
		if _, err := s.Access(t.Context(), srv.URL, Options{PassOverCache: true}); !errors.Is(err, ErrAway) || errors.Is(err, ErrSignIn) {
			t.Errorf("%s: %v, want %v", name, err, ErrAway)
		}
		srv.lock(func() { change(false) })
	}
	if after, _ := os.ReadFile(s.secretFile(srv.URL)); string(after) != string(before) || len(before) == 0 {
		t.Errorf("the secret has changed while the server was away")
	}
	refreshes = srv.count("token refresh_token")
	// The server ends the login.
	srv.lock(func() { srv.end(l.ID) })
	for range 2 {
		_, err = s.Access(t.Context(), srv.URL, Options{PassOverCache: true})
		if !errors.Is(err, ErrSignIn) || !strings.Contains(err.Error(), "sign in again with `symdepot login "+srv.URL+"`") || strings.Contains(err.Error(), "-secret") {
			t.Errorf("the server has ended the login: %v; want %v and the next step", err, ErrSignIn)
		}
	}
	if n := srv.count("token refresh_token") - refreshes; n != 1 {
		t.Errorf("%d refreshes, want 1: the secret is gone then", n)
	}
	if _, err := os.Stat(s.secretFile(srv.URL)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the secret is still there: %v", err)
	}
	if list, err := s.List(); err != nil || len(list) != 1 || !list[0].Ended {
		t.Errorf("the list %+v, %v; want the login as ended", list, err)
	}
	if back := signIn(t, s, srv.URL); back.Ended {
		t.Errorf("after a new sign-in: %+v", back)
	}
}

// TestStolen: a refresh token that somebody else has used ends the login on both machines.
func TestStolen(t *testing.T) {
	t.Parallel()
	srv, s := newAuthServer(t), newLogins(t)
	signIn(t, s, srv.URL)
	thief := newLogins(t)
	if err := os.CopyFS(thief.Dir, os.DirFS(s.Dir)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{thief.secretsDir(), thief.secretFile(srv.URL)} {
		if err := os.Chmod(path, 0o700&^map[bool]fs.FileMode{true: 0o100}[path != thief.secretsDir()]); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := thief.Access(t.Context(), srv.URL, Options{PassOverCache: true}); err != nil {
		t.Fatal(err)
	}
	for name, of := range map[string]*Logins{"owner": s, "thief": thief} {
		if _, err := of.Access(t.Context(), srv.URL, Options{PassOverCache: true}); !errors.Is(err, ErrSignIn) && name == "owner" {
			t.Errorf("the owner: %v, want %v", err, ErrSignIn)
		}
	}
	if n := srv.logins(); n != 0 {
		t.Errorf("%d logins are still valid", n)
	}
}

func TestOut(t *testing.T) {
	t.Parallel()
	srv, s := newAuthServer(t), newLogins(t)
	signIn(t, s, srv.URL)
	if _, told, err := s.Out(t.Context(), strings.ToUpper(srv.URL[:4])+srv.URL[4:]+"/"); told != nil || err != nil || srv.logins() != 0 {
		t.Errorf("logout: %v, %v; %d logins at the server, want none", told, err, srv.logins())
	}
	signIn(t, s, srv.URL)
	srv.lock(func() { srv.offline = true })
	if _, told, err := s.Out(t.Context(), srv.URL); !errors.Is(told, ErrAway) || err != nil {
		t.Errorf("logout while the server is away: %v, %v; want %v", told, err, ErrAway)
	}
	if _, err := os.Stat(s.secretFile(srv.URL)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the secret is still there: %v", err)
	}
	if _, _, err := s.Out(t.Context(), srv.URL); !errors.Is(err, ErrNone) {
		t.Errorf("a second logout: %v, want %v", err, ErrNone)
	}
	if _, err := s.Access(t.Context(), srv.URL, Options{}); !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "symdepot login "+srv.URL) {
		t.Errorf("access after: %v, want %v", err, ErrNone)
	}
}

// TestDamaged: a list or a secret that somebody has changed is an error that says what to do.
func TestDamaged(t *testing.T) {
	t.Parallel()
	srv, s := newAuthServer(t), newLogins(t)
	signIn(t, s, srv.URL)
	for _, text := range []string{"", "{", `{"access_token":"a-secret b","refresh_token":"x"}`, `{"access_token":"a-secret"}`} {
		if err := os.WriteFile(s.secretFile(srv.URL), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Access(t.Context(), srv.URL, Options{}); !errors.Is(err, ErrSignIn) || strings.Contains(err.Error(), "-secret") {
			t.Errorf("the secret %q: %v, want %v", text, err, ErrSignIn)
		}
	}
	for text, want := range map[string]string{"{": "remove it and sign in again", `{"logins":[{"server":"` + srv.URL + `","kept_in":"cloud"}]}`: `"cloud" is no keyring`} {
		if err := os.WriteFile(s.listPath(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Access(t.Context(), srv.URL, Options{}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), s.listPath()) {
			t.Errorf("the list %q: %v, want %q", text, err, want)
		}
	}
}

// TestProcesses: of fifty processes with an expired access token, one refreshes, and all have
// the new token. With a valid one, a process needs 100 ms at most; that is a figure of
// benchmarks, and here is only that no server is asked.
func TestProcesses(t *testing.T) {
	t.Parallel()
	srv, s := newAuthServer(t), newLogins(t)
	srv.expiresIn = 1
	signIn(t, s, srv.URL)
	srv.lock(func() { srv.expiresIn = 0 })
	const processes = 50
	hold, release, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	tokens := make([]string, processes)
	for i := range tokens {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), asProcess+"="+s.Dir, ofServer+"="+srv.URL)
		cmd.Stdin = hold
		all.Go(func() {
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("a process: %v, %s", err, out)
			}
			tokens[i] = string(out)
		})
	}
	_ = release.Close() // all begin
	all.Wait()
	_ = hold.Close()
	if n := srv.count("token refresh_token"); n != 1 {
		t.Errorf("%d refreshes, want 1", n)
	}
	for _, token := range tokens {
		if token != tokens[0] || srv.of(strings.TrimSpace(token)) == "" {
			t.Errorf("a process has %q, another one %q; want one token that is valid", token, tokens[0])
		}
	}
}

// TestTurn: a person is asked by one process at a time.
func TestTurn(t *testing.T) {
	t.Parallel()
	s := newLogins(t)
	done, waited, err := s.Turn(t.Context(), "https://a.example/")
	if err != nil || waited {
		t.Fatalf("the first: %v, %v", waited, err)
	}
	if other, waited, err := s.Turn(t.Context(), "https://b.example"); err != nil || waited {
		t.Errorf("another server: %v, %v", waited, err)
	} else {
		other()
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, waited, err := s.Turn(ended, "https://A.example"); !errors.Is(err, context.Canceled) || !waited {
		t.Errorf("who stops waiting: %v, %v", waited, err)
	}
	done()
	if done, waited, err = s.Turn(t.Context(), "https://a.example"); err != nil || waited {
		t.Errorf("after the first: %v, %v", waited, err)
	} else {
		done()
	}
}

// locked is a keyring that was locked after a secret was read.
type locked struct{ keyring.Store }

func (locked) Set(context.Context, string, string) error { return keyring.ErrLocked }

// TestKeyringGone: the old refresh token is of no use after a refresh. The new one goes into a
// file if the keyring does not take it, and the user is told; where a file fails too, the login
// ends at the server.
func TestKeyringGone(t *testing.T) {
	t.Parallel()
	srv, s := newAuthServer(t), newLogins(t)
	l := signIn(t, s, srv.URL)
	var notes []string
	s.Note = func(text string) { notes = append(notes, text) }
	l.KeptIn = keyring.NameSystem
	token := (&oauth2.Token{AccessToken: "sd_new-secret", RefreshToken: "sr_new-secret", Expiry: time.Now().Add(time.Hour)}).WithExtra(nil)
	got, err := s.keep(t.Context(), l, locked{}, token)
	if err != nil || got.Token != "sd_new-secret" || len(notes) != 1 || !strings.Contains(notes[0], s.secretFile(srv.URL)) {
		t.Errorf("the keyring is locked: %+v, %v, told %q; want the token, in a file", got, err, notes)
	}
	if kept, err := s.Access(t.Context(), srv.URL, Options{}); err != nil || kept.Token != "sd_new-secret" {
		t.Errorf("later: %+v, %v; want the new token", kept, err)
	}
	l.KeptIn = keyring.NameFile
	if _, err := s.keep(t.Context(), l, locked{}, token); !errors.Is(err, keyring.ErrLocked) || strings.Contains(err.Error(), "-secret") {
		t.Errorf("nothing keeps the secret: %v, want %v", err, keyring.ErrLocked)
	}
	if n := srv.count("revoke"); n != 1 {
		t.Errorf("%d requests to end the login, want 1", n)
	}
}

// TestNoKeyring: a session without the keyring that a login is in says so, and what to do.
func TestNoKeyring(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems always have a keyring")
	}
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path="+filepath.Join(t.TempDir(), "nobody"))
	s := newLogins(t)
	const server = "https://symbols.example.com"
	if err := s.put(t.Context(), Login{Server: server, KeptIn: keyring.NameSystem}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Access(t.Context(), server, Options{}); !errors.Is(err, keyring.ErrAbsent) ||
		!strings.Contains(err.Error(), "SYMDEPOT_KEYRING=file symdepot login "+server) {
		t.Errorf("%v, want %v and the next step", err, keyring.ErrAbsent)
	}
	s.Keyring = keyring.NameSystem
	srv := newAuthServer(t)
	if _, err := s.Browser(t.Context(), srv.URL, nil); !errors.Is(err, keyring.ErrAbsent) {
		t.Errorf("a sign-in that must be kept there: %v, want %v before the browser is opened", err, keyring.ErrAbsent)
	}
	s.Keyring = ""
	told := ""
	s.Note = func(text string) { told = text }
	if l := signIn(t, s, srv.URL); l.KeptIn != keyring.NameFile || !strings.Contains(told, "is kept in a file that only you can read, below "+s.secretsDir()) {
		t.Errorf("a sign-in: kept in %s, told %q; want a file, said", l.KeptIn, told)
	}
}
