package logincmd

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
)

// signInServer starts a server at which everybody is signed in who asks with a code. It counts the
// access tokens that it gives; they live for a number of seconds.
func signInServer(t *testing.T) (url string, given, life *atomic.Int64) {
	t.Helper()
	given, life = &atomic.Int64{}, &atomic.Int64{}
	life.Store(3600)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		base := "http://" + r.Host
		var answer map[string]any
		switch r.URL.Path {
		case "/-/oauth/token":
			answer = map[string]any{"access_token": fmt.Sprintf("sd_%043d", given.Add(1)), "refresh_token": "sr_x", "token_type": "Bearer",
				"expires_in": life.Load(), "name": "me"}
		case "/-/oauth/device_authorization":
			answer = map[string]any{"device_code": "d", "user_code": "BCDF-GHJK", "verification_uri": base + "/-/device", "expires_in": 600, "interval": 1}
		case "/-/oauth/.well-known/oauth-authorization-server":
			answer = map[string]any{"issuer": base + "/-/oauth", "authorization_endpoint": base + "/-/oauth/authorize",
				"token_endpoint": base + "/-/oauth/token", "device_authorization_endpoint": base + "/-/oauth/device_authorization",
				"revocation_endpoint": base + "/-/oauth/revoke"}
		default:
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(srv.Close)
	return srv.URL, given, life
}

// TestRefreshFiles: a file with a token gets each new one: from login --refresh, where the old one
// ends soon, and from any other command that refreshes.
func TestRefreshFiles(t *testing.T) {
	user(t)
	t.Setenv("USERPROFILE", os.Getenv("HOME")) // of Windows
	url, given, life := signInServer(t)
	a, out, errs := newConsole(t)
	if err := (Login{URL: url, Device: true, Setup: Setup{Configure: true, Yes: true, Only: []string{"netrc"}}}).Run(a); err != nil {
		t.Fatalf("%v\n%s%s", err, out, errs)
	}
	name := ".netrc"
	if runtime.GOOS == "windows" {
		name = "_netrc"
	}
	has := func(when string, n int64) {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(os.Getenv("HOME"), name))
		if want := fmt.Sprintf("password sd_%043d\n", n); err != nil || !strings.Contains(string(b), want) || given.Load() != n {
			t.Errorf("%s: %q, %v, %d tokens given; want %q", when, b, err, given.Load(), want)
		}
	}
	has("after the sign-in", 1)
	refresh := Login{Setup: Setup{Refresh: true}}
	if err := refresh.Run(a); err != nil {
		t.Error(err)
	}
	has("a token of an hour", 1)
	all, err := logins(errs, "")
	if err != nil {
		t.Fatal(err)
	}
	life.Store(30 * 60) // the next one ends before the service comes twice
	if err := all.Forget(t.Context(), url, ""); err != nil {
		t.Fatal(err)
	}
	token, err := Token(t.Context(), errs)(url)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := token(); err != nil {
		t.Error(err)
	}
	has("another command has refreshed", 2)
	said := out.Len() + errs.Len()
	if err := refresh.Run(a); err != nil {
		t.Error(err)
	}
	has("a token of half an hour", 3)
	if out.Len()+errs.Len() != said {
		t.Errorf("--refresh says %s%s", out, errs)
	}
	if strings.Contains(out.String()+errs.String(), "sd_") {
		t.Errorf("a token is printed: %s%s", out, errs)
	}
}
