package cluster

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// TestLoginNodes: of two servers on one PostgreSQL database, what a person allows at one, the
// program takes at the other; what ends a login at one ends it at the other within five seconds.
// A person who is no longer in the file of users loses it at both.
func TestLoginNodes(t *testing.T) {
	t.Parallel()
	users := commandtest.WriteUsers(t, t.TempDir(), "alice")
	conf := filepath.Join(t.TempDir(), "server.yaml")
	commandtest.Write(t, conf, fmt.Sprintf("auth:\n  users_file: %s\n  grants: [{who: [alice], read: ['*']}]\n", users))
	c := commandtest.NewClusterWith(t, 2, func(int) []string { return []string{"--config", conf, "--auth"} })
	program := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "go back to the terminal") }))
	defer program.Close()
	alice := commandtest.NewPerson(t)
	if status, where, text := alice.Open(c.Nodes[0].URL+"/-/login", url.Values{"user": {"alice"}, "password": {"secret"}}); status != 200 || where.Path != "/" {
		t.Fatalf("signing in: status %d at %s\n%s", status, where, text)
	}
	const verifier = "0123456789012345678901234567890123456789012"
	sum := sha256.Sum256([]byte(verifier))
	type tokens struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
		Login   string `json:"login_id"`
		Error   string `json:"error"`
	}
	// post sends a form of the program to a server.
	post := func(node int, endpoint string, form url.Values) (status int, got tokens) {
		t.Helper()
		form.Set("client_id", "symdepot")
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.Nodes[node].URL+"/-/oauth/"+endpoint, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
			t.Fatalf("%s: %v", endpoint, err)
		}
		return resp.StatusCode, got
	}
	redeeming := func() url.Values {
		t.Helper()
		q := url.Values{
			"response_type": {"code"}, "client_id": {"symdepot"}, "redirect_uri": {program.URL + "/"}, "code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
		}
		status, where, text := alice.Open(c.Nodes[0].URL+"/-/oauth/authorize?"+q.Encode(), url.Values{"answer": {"allow"}})
		code := where.Query().Get("code")
		if status != 200 || code == "" || text != "go back to the terminal" {
			t.Fatalf("allowing: status %d at %s\n%s", status, where, text)
		}
		return url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {program.URL + "/"}, "code_verifier": {verifier}}
	}
	login := func() (tokens, url.Values) {
		t.Helper()
		form := redeeming()
		status, got := post(1, "token", form)
		if status != 200 || got.Access == "" {
			t.Fatalf("the code at the other server: status %d, %+v", status, got)
		}
		return got, form
	}
	counts := func(node int, token string) bool {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.Nodes[node].URL+"/none.pdb/000000000000000000000000000000001/none.pdb", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusNotFound {
			t.Errorf("a missing file: status %d, want 401 or 404", resp.StatusCode)
		}
		return resp.StatusCode == http.StatusNotFound
	}
	refresh := func(got tokens) url.Values {
		return url.Values{"grant_type": {"refresh_token"}, "refresh_token": {got.Refresh}}
	}
	for what, end := range map[string]func(got tokens, used url.Values){
		"revoke": func(got tokens, _ url.Values) { post(0, "revoke", url.Values{"token": {got.Refresh}}) },
		"sign-in": func(got tokens, _ url.Values) {
			alice.Open(c.Nodes[0].URL+"/-/signins/"+got.Login+"/end", url.Values{}) //nolint:misspell // a word of addresses
		},
		"a code that comes again": func(_ tokens, used url.Values) {
			if status, got := post(0, "token", used); status != 400 || got.Error != "invalid_grant" {
				t.Errorf("a code that comes again: status %d, %+v", status, got)
			}
		},
		"a refresh token that comes again": func(got tokens, _ url.Values) {
			if status, next := post(0, "token", refresh(got)); status != 200 || !counts(1, next.Access) {
				t.Errorf("a refresh at the other server: status %d, %+v", status, next)
			}
			if status, next := post(0, "token", refresh(got)); status != 400 || next.Error != "invalid_grant" {
				t.Errorf("a refresh token that comes again: status %d, %+v", status, next)
			}
		},
	} {
		got, used := login()
		if !counts(0, got.Access) || !counts(1, got.Access) {
			t.Fatalf("%s: the access token counts at the servers: %v, %v; want both", what, counts(0, got.Access), counts(1, got.Access))
		}
		end(got, used)
		begun := time.Now()
		symtest.Await(t, time.Minute, "the end of the login at the other server", func() bool { return !counts(1, got.Access) })
		if d := time.Since(begun); d > 5*time.Second {
			t.Errorf("%s: the login counts for another %v at the other server, want at most 5 s", what, d)
		}
		symtest.Await(t, time.Minute, "the end of the login at this server", func() bool { return !counts(0, got.Access) })
	}
	// One refresh of many, at both servers.
	got, _ := login()
	results := make(chan int, 10)
	for i := range cap(results) {
		go func() {
			status, _ := post(i%2, "token", refresh(got))
			results <- status
		}()
	}
	good := 0
	for range cap(results) {
		if <-results == 200 {
			good++
		}
	}
	if good != 1 {
		t.Errorf("%d refreshes with one token succeed, want 1", good)
	}
	// The file of users is that of both servers.
	got, _ = login()
	if !counts(0, got.Access) || !counts(1, got.Access) {
		t.Fatal("a login does not count at both servers")
	}
	commandtest.WriteUsers(t, filepath.Dir(users), "bob")
	for node := range c.Nodes {
		symtest.Await(t, time.Minute, "the end of the login of a removed person", func() bool { return !counts(node, got.Access) })
	}
	if status, next := post(1, "token", refresh(got)); status != 400 || next.Error != "invalid_grant" {
		t.Errorf("a refresh of a removed person: status %d, %+v", status, next)
	}
}
