package client

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/endpoint"
	"github.com/symdepot/symdepot/internal/base/wire"
)

const someJWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.AAAA"

func plainClient(string) *http.Client { return http.DefaultClient }

// TestIDToken: without a token, that of the running CI job is exchanged, and again
// before it ends.
func TestIDToken(t *testing.T) {
	t.Parallel()
	var exchanges, asked atomic.Int64
	var life, status atomic.Int64
	life.Store(int64(time.Hour))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/github":
			asked.Add(1)
			if r.Header.Get("Authorization") != "Bearer runner" || r.URL.Query().Get("audience") != "http://"+r.Host+"/corp" || r.URL.Query().Get("api-version") != "2" {
				t.Errorf("the request for an id token is %s with %q; want the runner's token, the audience of the server and api-version 2", r.URL, r.Header.Get("Authorization"))
			}
			_ = json.NewEncoder(w).Encode(map[string]string{"value": someJWT})
		case r.Method == http.MethodPost && r.URL.Path == "/corp"+wire.TokenPath && r.Header.Get("Authorization") == "Bearer "+someJWT:
			exchanges.Add(1)
			if n := int(status.Load()); n != 0 {
				problem(w, n, "credentials")
				return
			}
			w.WriteHeader(http.StatusCreated)
			_ = json.NewEncoder(w).Encode(wire.Exchanged{Token: "secret", Expires: time.Now().Add(time.Duration(life.Load()))})
		default:
			problem(w, 401, "credentials")
		}
	}))
	defer s.Close()
	github := map[string]string{"GITHUB_ACTIONS": "true", "ACTIONS_ID_TOKEN_REQUEST_URL": s.URL + "/github?api-version=2", "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "runner"}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(someJWT+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	pusher := func(env map[string]string, file string) *Pusher {
		p, err := NewPusher(s.URL+"/corp/", file, func(k string) string { return env[k] }, plainClient, nil)
		if err != nil {
			t.Fatal(err)
		}
		p.RetryFor, p.Backoff = time.Millisecond, time.Millisecond
		return p
	}
	for _, tt := range []struct {
		name      string
		env       map[string]string
		file      string
		life      time.Duration
		want      string
		exchanges int64 // for three calls
		asked     int64
	}{
		{"GitHub", github, "", time.Hour, "secret", 1, 1},
		{"GitHub, a token that ends soon", github, "", time.Minute, "secret", 3, 3},
		{"GitLab", map[string]string{"GITLAB_CI": "true", "SYMDEPOT_ID_TOKEN": someJWT}, "", time.Minute, "secret", 1, 0},
		{"an id token in the variable for tokens", map[string]string{"SYMDEPOT_TOKEN": someJWT}, "", time.Hour, "secret", 1, 0},
		{"an id token in a file", nil, file, time.Hour, "secret", 1, 0},
		{"a token counts first", map[string]string{"SYMDEPOT_TOKEN": "sd_x", "SYMDEPOT_ID_TOKEN": someJWT}, "", time.Hour, "sd_x", 0, 0},
		{"none", map[string]string{"GITHUB_ACTIONS": "true"}, "", time.Hour, "", 0, 0},
	} {
		exchanges.Store(0)
		asked.Store(0)
		life.Store(int64(tt.life))
		p := pusher(tt.env, tt.file)
		for range 3 {
			if got, err := p.Token(); err != nil || got != tt.want {
				t.Errorf("%s: %q, %v; want %q", tt.name, got, err, tt.want)
			}
		}
		if exchanges.Load() != tt.exchanges || asked.Load() != tt.asked {
			t.Errorf("%s: %d exchanges and %d requests for id tokens, want %d and %d", tt.name, exchanges.Load(), asked.Load(), tt.exchanges, tt.asked)
		}
	}
	// What the server does not accept is not tried again.
	exchanges.Store(0)
	for code, want := range map[int]error{401: ErrCredentials, 403: ErrCredentials, 404: endpoint.ErrRefused, 503: ErrUnreachable} {
		status.Store(int64(code))
		exchanges.Store(0)
		_, err := pusher(github, "").Limits(t.Context())
		if !errors.Is(err, want) || code < 500 && exchanges.Load() != 1 {
			t.Errorf("an exchange that is answered %d: %v after %d tries, want %v", code, err, exchanges.Load(), want)
		}
	}
	if _, err := pusher(map[string]string{"GITHUB_ACTIONS": "true"}, "").Limits(t.Context()); !errors.Is(err, ErrCredentials) || !strings.Contains(err.Error(), "forks") {
		t.Errorf("a job without an id token: %v; want ErrCredentials and a hint", err)
	}
}

// TestIDTokenRunner: answers of the runner that are none.
func TestIDTokenRunner(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(w http.ResponseWriter){
		"no JSON":              func(w http.ResponseWriter) { _, _ = w.Write([]byte("<html>")) },
		"no value":             func(w http.ResponseWriter) { _, _ = w.Write([]byte("{}")) },
		"no id token":          func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"value":"abc"}`)) },
		"http.StatusForbidden": func(w http.ResponseWriter) { w.WriteHeader(http.StatusForbidden) },
		"endless text":         func(w http.ResponseWriter) { _, _ = w.Write(make([]byte, 1<<20)) },
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w) }))
		env := map[string]string{"ACTIONS_ID_TOKEN_REQUEST_URL": s.URL, "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "runner"}
		p, err := NewPusher(s.URL, "", func(k string) string { return env[k] }, plainClient, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Token(); err == nil || !strings.Contains(err.Error(), "GitHub") {
			t.Errorf("%s: %v, want an error that names GitHub", name, err)
		}
		s.Close()
	}
}

// TestCredentialOrder: which credential a command sends, of those there are; and what a refusal
// says then.
func TestCredentialOrder(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { problem(w, http.StatusUnauthorized, "credentials") }))
	defer srv.Close()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("of the file"), 0o600); err != nil {
		t.Fatal(err)
	}
	login := func(server string) (func() (string, error), error) {
		if server != srv.URL {
			t.Errorf("asked for the login of %s", server)
		}
		return func() (string, error) { return "of the login", nil }, nil
	}
	none := func(string) (func() (string, error), error) { return nil, nil }
	broken := errors.New("the list is damaged")
	for name, tt := range map[string]struct {
		file, env, ci string
		login         LoginToken
		want, hint    string
		err           error
	}{
		"file":      {file: file, env: "of the variable", ci: someJWT, login: login, want: "of the file", hint: "does not know the token"},
		"variable":  {env: "of the variable", login: login, want: "of the variable", hint: "does not know the token"},
		"login":     {login: login, want: "of the login", hint: "sign in again with symdepot login " + srv.URL},
		"no login":  {login: none, hint: "sign in with symdepot login " + srv.URL},
		"no logins": {hint: "sign in with symdepot login " + srv.URL},
		"damaged":   {login: func(string) (func() (string, error), error) { return nil, broken }, err: broken},
	} {
		env := map[string]string{TokenVariable: tt.env, idTokenVariable: tt.ci}
		p, err := NewPusher(srv.URL, tt.file, func(k string) string { return env[k] }, plainClient, tt.login)
		if !errors.Is(err, tt.err) {
			t.Errorf("%s: %v, want %v", name, err, tt.err)
		}
		if err != nil {
			continue
		}
		if token, err := p.Token(); token != tt.want || err != nil {
			t.Errorf("%s: token %q, %v; want %q", name, token, err, tt.want)
		}
		if _, err := p.Limits(t.Context()); !errors.Is(err, ErrCredentials) || !strings.Contains(err.Error(), tt.hint) {
			t.Errorf("%s: %v, want %q", name, err, tt.hint)
		}
	}
	// A CI job's own token goes before the login of its machine.
	env := map[string]string{idTokenVariable: someJWT}
	p, err := NewPusher(srv.URL, "", func(k string) string { return env[k] }, plainClient, login)
	if err != nil || p.Hint != "" {
		t.Fatalf("a CI job: %v, hint %q", err, p.Hint)
	}
	if token, err := p.Token(); token != "" || !errors.Is(err, ErrCredentials) {
		t.Errorf("a CI job: token %q, %v; want the refusal of its id token", token, err)
	}
}
