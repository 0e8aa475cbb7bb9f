package logincmd

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/endpoint"
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/run/client"
	"github.com/symdepot/symdepot/internal/run/keyring"
	"github.com/symdepot/symdepot/internal/run/login"
)

// user makes the process one of a user without logins, whose keyring is files.
func user(t *testing.T) {
	t.Helper()
	home := t.TempDir()
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "AppData"} {
		t.Setenv(name, home)
	}
	t.Setenv(keyring.Variable, keyring.NameFile)
}

// console returns a console that keeps what is printed.
func console(t *testing.T) (a Console, out, errs *strings.Builder) {
	out, errs = &strings.Builder{}, &strings.Builder{}
	return Console{Ctx: t.Context(), Stdin: strings.NewReader(""), Stdout: out, Stderr: errs}, out, errs
}

// server starts a server that knows one token, and has no sign-in for programs.
func server(t *testing.T, token string) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != wire.MePath:
			http.NotFound(w, r)
		case r.Header.Get("Authorization") != "Bearer "+token:
			http.Error(w, "who", http.StatusUnauthorized)
		default:
			_ = json.NewEncoder(w).Encode(wire.Me{Name: "ci\x1b[31m", Method: "token"})
		}
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestTokenFileLogin(t *testing.T) {
	user(t)
	url, file := server(t, "sd_planted"), filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("sd_planted\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a, out, errs := console(t)
	if err := (Login{URL: url, TokenFile: file}).Run(a); err != nil {
		t.Fatal(err)
	}
	if want := "Signed in to " + url + " as ci?[31m. The token is read from " + file + " at each use.\n"; out.String() != want || errs.Len() != 0 {
		t.Errorf("printed %q, %q; want %q", out, errs, want)
	}
	out.Reset()
	if err := (Login{List: true, JSON: true}).Run(a); err != nil {
		t.Error(err)
	}
	var l login.Login
	if err := json.Unmarshal([]byte(out.String()), &l); err != nil || l.Server != url || l.TokenFile != file || strings.Contains(out.String(), "sd_planted") {
		t.Errorf("the list %s, %v", out, err)
	}
	token, err := Token(t.Context(), errs)(url + "/")
	if err != nil || token == nil {
		t.Fatalf("the login of the server: %v", err)
	}
	if got, err := token(); got != "sd_planted" || err != nil {
		t.Errorf("the token %q, %v", got, err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	_, err = token()
	if _, local := errors.AsType[*endpoint.LocalError](err); !local || !strings.Contains(err.Error(), file) {
		t.Errorf("without the file: %v; want an error that is not tried again", err)
	}
	out.Reset()
	if err := (Logout{}).Run(a); err != nil || !strings.Contains(out.String(), "Its token stays valid, and in "+file) {
		t.Errorf("logout: %q, %v", out, err)
	}
	if err := (Logout{}).Run(a); !errors.Is(err, term.ErrNegative) {
		t.Errorf("a second logout: %v, want no", err)
	}
}

// TestNoLogin: commands work on servers without a login.
func TestNoLogin(t *testing.T) {
	user(t)
	for _, server := range []string{"https://symbols.example.com", "http://symbols.example.com", "http://user:x@localhost"} {
		if token, err := Token(t.Context(), os.Stderr)(server); token != nil || err != nil {
			t.Errorf("%s: a login, or %v; want none", server, err)
		}
	}
}

// TestErrors: what is wrong decides the exit code.
func TestErrors(t *testing.T) {
	user(t)
	url, file := server(t, "sd_planted"), filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("sd_other\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a, out, errs := console(t)
	var usage term.UsageError
	for name, tt := range map[string]struct {
		err  error
		want error
		text string
	}{
		"refused":       {(Login{URL: url, TokenFile: file}).Run(a), client.ErrCredentials, "does not know the token"},
		"away":          {(Login{URL: "http://127.0.0.1:1"}).Run(a), client.ErrUnreachable, "cannot be reached"},
		"away, device":  {(Login{URL: "http://127.0.0.1:1", Device: true}).Run(a), client.ErrUnreachable, "cannot be reached"},
		"no sign-in":    {(Login{URL: url}).Run(a), login.ErrNoSignIn, "--token-file FILE"},
		"nothing":       {(Login{List: true}).Run(a), term.ErrNegative, ""},
		"no such login": {(Logout{URL: url}).Run(a), term.ErrNegative, ""},
	} {
		if !errors.Is(tt.err, tt.want) || !strings.Contains(tt.err.Error(), tt.text) || strings.Contains(tt.err.Error(), "sd_") {
			t.Errorf("%s: %v; want %v with %q", name, tt.err, tt.want, tt.text)
		}
	}
	for name, err := range map[string]error{
		"no server": (Login{}).Run(a), "plain HTTP": (Login{URL: "http://symbols.example.com"}).Run(a),
		"both": (Logout{URL: url, All: true}).Run(a), "no URL": (Logout{URL: "x"}).Run(a),
	} {
		if !errors.As(err, &usage) {
			t.Errorf("%s: %v, want a wrong command line", name, err)
		}
	}
	if out.Len() != 0 {
		t.Errorf("printed %q and %q, want nothing on standard output", out, errs)
	}
}
