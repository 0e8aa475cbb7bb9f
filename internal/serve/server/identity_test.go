package server

import (
	"bytes"
	"crypto/md5"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/intake"
	"github.com/symdepot/symdepot/internal/serve/oidc"
	"github.com/symdepot/symdepot/internal/serve/oidc/oidctest"
	"github.com/symdepot/symdepot/internal/serve/web"
)

// named is a server whose clients have tokens and users of equal names.
type named struct {
	t     *testing.T
	d     *depot.Depot
	store *tokenStore
	srv   *httptest.Server
	ahead atomic.Int64 // how far the server's clock is
	users string       // the file
}

func (n *named) now() time.Time { return time.Now().Add(time.Duration(n.ahead.Load())) }

func newNamed(t *testing.T, cfg auth.Config, users ...string) *named {
	t.Helper()
	n := &named{t: t, store: &tokenStore{rows: map[[32]byte]auth.TokenRow{}}, users: filepath.Join(t.TempDir(), "users")}
	var err error
	if n.d, err = depot.Open(t.Context(), t.TempDir(), depot.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.d.Close() })
	if len(users) > 0 {
		n.setUsers(users...)
		cfg.Users = n.users
	}
	cfg.Now = n.now
	gate, err := auth.New(cfg, n.store, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = gate.Close() })
	up, err := intake.New(intake.Config{Stages: n.d.Stages(), Dir: n.d.Stages().UploadDir(), Still: StillWrites(gate)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = up.Close() })
	api, _ := webOf(n.d, web.Config{Gate: gate, Tokens: apiTokens{n.store}, Now: n.now})
	n.srv = httptest.NewServer(newServer(t, Config{Depot: n.d, Gate: gate, Uploads: up, API: api}))
	t.Cleanup(n.srv.Close)
	return n
}

// setUsers writes the file of users: each has the password "secret".
func (n *named) setUsers(names ...string) {
	n.t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		n.t.Fatal(err)
	}
	text := "# users\n"
	for _, name := range names {
		text += name + ":" + string(hash) + "\n"
	}
	if err := os.WriteFile(n.users, []byte(text), 0o600); err != nil {
		n.t.Fatal(err)
	}
}

// later lets the time pass within which a revocation counts.
func (n *named) later() { n.ahead.Add(int64(5 * time.Second)) }

// send sends a request and expects a status; 0 is any.
func (n *named) send(credential, method, path string, body io.Reader, status int, header ...string) string {
	n.t.Helper()
	if !strings.HasPrefix(path, "http") {
		path = n.srv.URL + path
	}
	r, err := http.NewRequestWithContext(n.t.Context(), method, path, body)
	if err != nil {
		n.t.Fatal(err)
	}
	for _, h := range append(header, credential) {
		if k, v, ok := strings.Cut(h, ": "); ok {
			r.Header.Set(k, v)
		}
	}
	res, err := n.srv.Client().Do(r)
	if err != nil {
		n.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	if status != 0 && res.StatusCode != status {
		n.t.Errorf("%s %s: status %d, want %d: %s", method, auth.Redact(r.URL.Path), res.StatusCode, status, b[:min(len(b), 200)])
	}
	return string(b)
}

func sha1Of(b []byte) string { sum := sha1.Sum(b); return hex.EncodeToString(sum[:]) }

// chunk sends a file as one chunk, as sentry-cli does.
func (n *named) chunk(credential string, b []byte) {
	n.t.Helper()
	form := "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + sha1Of(b) + "\"\r\n\r\n" + string(b) + "\r\n--b--\r\n"
	n.send(credential, "POST", "/api/0/organizations/acme/chunk-upload/", strings.NewReader(form), 200, "Content-Type: multipart/form-data; boundary=b")
}

// assemble asks for files, and returns the state of the first.
func (n *named) assemble(credential, project string, files ...[]byte) string {
	n.t.Helper()
	q := map[string]any{}
	for i, b := range files {
		q[sha1Of(b)] = map[string]any{"name": fmt.Sprintf("f%d.sym", i), "chunks": []string{sha1Of(b)}}
	}
	body, err := json.Marshal(q)
	if err != nil {
		n.t.Fatal(err)
	}
	var out map[string]struct{ State string }
	text := n.send(credential, "POST", "/api/0/projects/acme/"+project+"/files/difs/assemble/", bytes.NewReader(body), 200)
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		n.t.Fatalf("%s: %v, want JSON", text, err)
	}
	return out[sha1Of(files[0])].State
}

func (n *named) wantState(what, got, want string) {
	n.t.Helper()
	if got != want {
		n.t.Errorf("%s: state %s, want %s", what, got, want)
	}
}

// TestTokensOfOneName: two tokens of one name are two principals: they share no
// chunks, no runs, no stages and no uploads.
func TestTokensOfOneName(t *testing.T) {
	n := newNamed(t, auth.Config{Policy: demand})
	add := func(name string, products []string, scopes ...string) string {
		return bearer(n.store.add(t, name, products, scopes...))
	}
	theirs, ours, again := add("ci", []string{"theirs"}, "write"), add("ci", []string{"ours"}, "write", "read"), add("ci", []string{"theirs"}, "write")
	secret, more := sym(bigID, "secret.so", "", 300), sym(smallID, "more.so", "", 300)

	n.chunk(theirs, secret)
	n.wantState("a chunk of another token of the name, for another product", n.assemble(ours, "ours", secret), "not_found")
	n.send(ours, "GET", "/secret.so/"+bigID+"/secret.so.sym", nil, 404)
	n.wantState("the same, for the same product", n.assemble(again, "theirs", secret), "not_found")
	n.wantState("the token itself", n.assemble(theirs, "theirs", secret, more), "ok")
	n.wantState("a run of another token of the name", n.assemble(again, "theirs", secret, more), "not_found")

	const stages = wire.PushPath + "/stages"
	spec := func() io.Reader { return strings.NewReader(`{"product":"theirs","version":"1","key":"job 1"}`) }
	one := n.send(theirs, "POST", stages, spec(), 201)
	two := n.send(again, "POST", stages, spec(), 201)
	n.send(theirs, "POST", stages, spec(), 200) // its own, again
	var a, b wire.PushState
	if err := json.Unmarshal([]byte(one), &a); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(two), &b); err != nil {
		t.Fatal(err)
	}
	if a.ID == b.ID {
		t.Errorf("two tokens of one name have the stage %s, want one each", a.ID)
	}
	n.send(again, "GET", stages+"/"+a.ID, nil, 404)
	n.send(again, "DELETE", stages+"/"+a.ID, nil, 404)

	var up struct{ UploadKey, UploadURL string }
	if err := json.Unmarshal([]byte(n.send(theirs, "POST", "/v1/uploads:create", nil, 200)), &up); err != nil {
		t.Fatal(err)
	}
	n.send("", "PUT", up.UploadURL, bytes.NewReader(more), 200)
	n.send(again, "POST", "/v1/uploads/"+up.UploadKey+":complete", strings.NewReader(`{}`), 404)
	n.send(theirs, "POST", "/v1/uploads/"+up.UploadKey+":complete", strings.NewReader(`{}`), 200)

	// Files that come one by one are collected by token, not by name.
	third := sym(thirdID, "third.so", "", 300)
	before := transactions(t, n.d)
	n.send(again, "PUT", "/third.so/"+thirdID+"/third.so.sym", bytes.NewReader(third), 0)
	if after := transactions(t, n.d); after != before+1 {
		t.Errorf("the file of another token of the name is in one of the %d builds there were, want one of its own", before)
	}
}

const thirdID = "11112222333344445555666677778888A"

func transactions(t *testing.T, d *depot.Depot) int {
	t.Helper()
	list, err := d.List(t.Context(), answer.Scope{}, depot.ListFilter{})
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestJobAgain: a CI job that runs again has another token, and goes on with what it
// has sent. Another job of the same name does not.
func TestJobAgain(t *testing.T) {
	issuer := oidctest.New(t, "")
	const audience = "https://symbols.example.com"
	rule := func(match map[string]string, product string) oidc.Rule {
		return oidc.Rule{Issuer: issuer.URL, Audience: audience, Name: "ci", Match: match, Write: []string{product}}
	}
	n := newNamed(t, auth.Config{
		Policy: demand, OIDCClient: func(string) *http.Client { return http.DefaultClient },
		OIDC: []oidc.Rule{rule(map[string]string{"repository_id": "74", "environment": "other"}, "theirs"), rule(map[string]string{"repository_id": "74"}, "ours")},
	})
	job := func(claims map[string]any) string {
		t.Helper()
		idToken := issuer.Sign(issuer.GitHub(audience, n.now(), claims))
		var out wire.Exchanged
		if err := json.Unmarshal([]byte(n.send(bearer(idToken), "POST", wire.TokenPath, nil, 201)), &out); err != nil {
			t.Fatal(err)
		}
		return bearer(out.Token)
	}
	first, rerun := job(nil), job(map[string]any{"run_attempt": "3"})
	branch := job(map[string]any{"sub": "repo:octo/game:ref:refs/heads/other", "ref": "refs/heads/other"})
	other := job(map[string]any{"environment": "other"}) // the same subject
	file, more := sym(bigID, "secret.so", "", 300), sym(smallID, "more.so", "", 300)
	n.chunk(first, file)
	n.wantState("the first run", n.assemble(first, "ours", file, more), "ok")
	n.wantState("a job of another subject", n.assemble(branch, "ours", file, more), "not_found")
	n.wantState("a job of the subject with rights to another product", n.assemble(other, "theirs", file, more), "not_found")
	n.chunk(rerun, more)
	n.wantState("the job again", n.assemble(rerun, "ours", more), "ok")
	if got := transactions(t, n.d); got != 1 {
		t.Errorf("%d builds, want one of both files of the job", got)
	}
	n.send(first, "POST", wire.PushPath+"/stages", strings.NewReader(`{"product":"ours","key":"k"}`), 201)
	n.send(rerun, "POST", wire.PushPath+"/stages", strings.NewReader(`{"product":"ours","key":"k"}`), 200)
	n.send(branch, "POST", wire.PushPath+"/stages", strings.NewReader(`{"product":"ours","key":"k"}`), 201)
}

// TestURLOfRevokedToken: the URL of an upload stands for its credentials, and ends
// with them.
func TestURLOfRevokedToken(t *testing.T) {
	policy := auth.PolicyConfig{Demand: true, Grants: []auth.Grant{{Who: []string{"alice"}, Write: []string{"theirs"}}}}
	for what, end := range map[string]func(n *named, secret string){
		"revoked":    func(n *named, secret string) { n.store.revoke(secret) },
		"deleted":    func(n *named, secret string) { n.store.remove(secret) },
		"user alice": func(n *named, _ string) { n.setUsers("bob") },
	} {
		t.Run(what, func(t *testing.T) {
			n := newNamed(t, auth.Config{Policy: policy}, "alice")
			secret := n.store.add(t, "ci", []string{"theirs"}, "write")
			credential := bearer(secret)
			if strings.HasPrefix(what, "user") {
				credential = basic("alice", "secret")
			}
			files := [][]byte{sym(bigID, "one.so", "", 300), sym(smallID, "two.so", "", 400)}
			sum := func(b []byte) string { s := md5.Sum(b); return hex.EncodeToString(s[:]) }
			var opened struct {
				Files []struct{ Action struct{ URL string } }
			}
			text := n.send(credential, "POST", "/upload/v2/", strings.NewReader(fmt.Sprintf(
				`{"files":[{"key":"one.so/%s/one.so.sym","size":300,"md5_hash":"%s"},{"key":"two.so/%s/two.so.sym","size":400,"md5_hash":"%s"}]}`,
				bigID, sum(files[0]), smallID, sum(files[1]))), 201)
			if err := json.Unmarshal([]byte(text), &opened); err != nil || len(opened.Files) != 2 {
				t.Fatalf("%s (%v), want two URLs", text, err)
			}
			var up struct{ UploadURL string }
			if err := json.Unmarshal([]byte(n.send(credential, "POST", "/v1/uploads:create", nil, 200)), &up); err != nil {
				t.Fatal(err)
			}
			n.send("", "PUT", opened.Files[0].Action.URL, bytes.NewReader(files[0]), 200)

			end(n, secret)
			n.later()
			n.send(credential, "GET", "/-/api/v1/me", nil, 401)
			n.send("", "PUT", opened.Files[1].Action.URL, bytes.NewReader(files[1]), 403)
			n.send("", "POST", opened.Files[1].Action.URL, nil, 403, "X-Goog-Resumable: start")
			n.send("", "PUT", up.UploadURL, bytes.NewReader(files[1]), 403)
			if got := transactions(t, n.d); got != 1 {
				t.Errorf("%d builds, want that of the first file only, whose request was answered before", got)
			}
		})
	}
}

// TestRevokedMeanwhile: a token that is revoked while the body of its request comes adds
// nothing.
func TestRevokedMeanwhile(t *testing.T) {
	for path, method := range map[string]string{"/one.so/" + bigID + "/one.so.sym": "PUT", "/in/theirs": "POST"} {
		n := newNamed(t, auth.Config{Policy: demand})
		secret := n.store.add(t, "ci", []string{"theirs"}, "write")
		b := sym(bigID, "one.so", "", 300)
		if method == "POST" {
			b = []byte(symbolForm)
		}
		n.srv.Client().Transport.(*http.Transport).ExpectContinueTimeout = time.Minute
		late := io.MultiReader(readerFunc(func([]byte) (int, error) { // the server has read the header
			n.store.revoke(secret)
			n.later()
			return 0, io.EOF
		}), bytes.NewReader(b))
		n.send(bearer(secret), method, path, late, 403, "Expect: 100-continue", "Content-Type: "+formType)
		if got := transactions(t, n.d); got != 0 {
			t.Errorf("%s %s: %d builds, want none", method, path, got)
		}
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// remove deletes a token.
func (s *tokenStore) remove(secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.rows, auth.HashToken(secret))
}

// TestTokenOfUser: a token that a user made ends with the user within five seconds, and a
// token that it made as well.
func TestTokenOfUser(t *testing.T) {
	policy := auth.PolicyConfig{Demand: true, Grants: []auth.Grant{
		{Who: []string{"alice", "Alice"}, Read: []string{"ours"}, Write: []string{"ours"}}, {Who: []string{"root"}, Admin: true},
	}}
	n := newNamed(t, auth.Config{Policy: policy}, "alice", "Alice", "root")
	b := sym(bigID, "one.so", "", 300)
	path := "/one.so/" + bigID + "/one.so.sym"
	operator := bearer(n.store.add(t, "alice/keep", []string{"ours"}, "write", "read")) // made at the machine of the depot
	n.send(operator, "PUT", path, bytes.NewReader(b), 201)
	make := func(credential, body string) string {
		t.Helper()
		var made wire.TokenInfo
		if err := json.Unmarshal([]byte(n.send(credential, "POST", wire.TokensPath, strings.NewReader(body), 201)), &made); err != nil {
			t.Fatal(err)
		}
		return bearer(made.Token)
	}
	const both = `{"name":"keep","scopes":["read","write"],"products":["ours"]}`
	small, capital := make(basic("alice", "secret"), both), make(basic("Alice", "secret"), both)
	admins := make(basic("root", "secret"), `{"name":"automation","scopes":["admin"]}`)
	child := make(admins, both)
	good := func(status int, credentials ...string) {
		t.Helper()
		for i, c := range credentials {
			n.send(c, "GET", path, nil, status)
			if status == 401 {
				n.send(c, "PUT", path, bytes.NewReader(b), status)
			} else if i == 0 {
				n.send(c, "GET", "/-/api/v1/me", nil, status)
			}
		}
	}
	good(200, small, capital, admins, child, operator)
	n.setUsers("Alice", "root")
	n.later()
	good(401, small)
	good(200, capital, admins, child, operator)
	n.setUsers("Alice")
	n.later()
	good(401, small, admins, child)
	good(200, capital, operator)
	n.send("", "GET", "/t/"+strings.TrimPrefix(small, bearer(""))+path, nil, 401)
	n.setUsers("alice", "Alice", "root") // back again
	n.later()
	good(200, small, capital, admins, child, operator)
}

// TestTokenOfDemoted: a token has the rights that its maker still has, by the policy in
// force.
func TestTokenOfDemoted(t *testing.T) {
	grants := func(g ...auth.Grant) auth.Config {
		return auth.Config{Policy: auth.PolicyConfig{Demand: true, Grants: g}}
	}
	alice := auth.Grant{Who: []string{"alice"}, Read: []string{"a", "b"}, Write: []string{"a", "b"}}
	made := newNamed(t, grants(alice), "alice")
	var info wire.TokenInfo
	text := made.send(basic("alice", "secret"), "POST", wire.TokensPath, strings.NewReader(`{"name":"keep","scopes":["read","write"],"products":["a","b"]}`), 201)
	if err := json.Unmarshal([]byte(text), &info); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		what                 string
		grants               []auth.Grant
		readA, writeA, readB int
	}{
		{"the same", []auth.Grant{alice}, 200, 204, 200},
		{"one product less, and reading", []auth.Grant{{Who: []string{"alice"}, Read: []string{"a"}}}, 200, 403, 404},
		{"more", []auth.Grant{{Who: []string{"*"}, Admin: true}}, 200, 204, 200},
		{"another method of the name", []auth.Grant{{Who: []string{"kerberos:alice", "cert:alice"}, Admin: true}}, 401, 401, 401},
		{"nothing", []auth.Grant{{Who: []string{"bob"}, Read: []string{"*"}}}, 401, 401, 401},
	} {
		n := made.with(t, grants(tt.grants...))
		for product, id := range map[string]string{"a": bigID, "b": smallID} {
			n.send(bearer(n.store.add(t, "operator", []string{product}, "write")), "PUT", "/"+product+"/"+id+"/"+product+".sym", bytes.NewReader(sym(id, product, "", 300)), 201)
		}
		token := bearer(info.Token)
		n.send(token, "GET", "/a/"+bigID+"/a.sym", nil, tt.readA)
		n.send(token, "PUT", "/in/a/a/"+bigID+"/a.sym", bytes.NewReader(sym(bigID, "a", "", 300)), tt.writeA)
		n.send(token, "GET", "/b/"+smallID+"/b.sym", nil, tt.readB)
		if t.Failed() {
			t.Fatalf("with %s", tt.what)
		}
	}
}

// with returns a server of another configuration with the tokens and users of n.
func (n *named) with(t *testing.T, cfg auth.Config) *named {
	m := newNamed(t, cfg, "alice")
	n.store.mu.Lock()
	defer n.store.mu.Unlock()
	for hash, row := range n.store.rows {
		m.store.rows[hash] = row
	}
	return m
}
