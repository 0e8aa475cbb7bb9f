package oidc

import (
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/symdepot/symdepot/internal/serve/oidc/oidctest"
)

const audience = "https://symbols.example.com"

var start = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: start} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

func client(string) *http.Client { return http.DefaultClient }

// rule trusts the repository octo/game.
func rule(issuer string) Rule {
	return Rule{Issuer: issuer, Audience: audience, Match: map[string]string{"repository_id": "74", "ref": "refs/heads/*"}, Write: []string{"Game"}, Class: "nightly"}
}

func newVerifier(t *testing.T, c *clock, rules ...Rule) *Verifier {
	t.Helper()
	v, err := New(rules, Options{Client: client, Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// wantRefusal expects a refusal whose text has the words.
func wantRefusal(t *testing.T, what string, err error, forbidden bool, words string) {
	t.Helper()
	r, ok := errors.AsType[*Refusal](err)
	if !ok || r.Forbidden != forbidden || !strings.Contains(r.Text, words) {
		t.Errorf("%s: %v; want a refusal (forbidden: %v) with %q", what, err, forbidden, words)
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	c := newClock()
	github, gitlab := oidctest.New(t, "/_services/token"), oidctest.New(t, "")
	v := newVerifier(t, c, rule(github.URL),
		Rule{Issuer: github.URL, Audience: audience, Match: map[string]string{"sub": "repo:octo/*:ref:refs/tags/*"}, Write: []string{"*"}, Read: true, Name: "ci/{repository}", Branch: "{ref}"},
		Rule{Issuer: gitlab.URL, Audience: audience, Match: map[string]string{"project_id": "20", "ref_protected": "true"}, Write: []string{"tool"}, Product: "tool"})
	server := strings.TrimSuffix(github.URL, "/_services/token")
	for _, tt := range []struct {
		name  string
		token string
		want  Grant
	}{
		{"GitHub, RS256", github.Sign(github.GitHub(audience, start, nil)), Grant{
			Name: "oidc:github:octo/game@refs/heads/main", Write: []string{"Game"}, Class: "nightly", Expires: start.Add(5 * time.Minute).Local(),
			Build: Build{CI: "github", URL: server + "/octo/game/actions/runs/4711", Commit: "2f1c0ffee", Run: "4711", Attempt: "2"}}},
		{"GitHub, ES256, the second rule", oidctest.Sign(github.Keys()[1], nil, github.GitHub(audience, start, map[string]any{"sub": "repo:octo/tool:ref:refs/tags/v1", "repository": "octo/tool", "repository_id": "75", "ref": "refs/tags/v1"})), Grant{
			Name: "ci/octo/tool", Write: []string{"*"}, Read: true, Branch: "refs/tags/v1", Expires: start.Add(5 * time.Minute).Local(),
			Build: Build{CI: "github", URL: server + "/octo/tool/actions/runs/4711", Commit: "2f1c0ffee", Run: "4711", Attempt: "2"}}},
		{"GitLab", gitlab.Sign(gitlab.GitLab(audience, start, nil)), Grant{
			Name: "oidc:gitlab:group/sub/tool@main", Write: []string{"tool"}, Product: "tool", Expires: start.Add(time.Hour).Local(),
			Build: Build{CI: "gitlab", URL: gitlab.URL + "/group/sub/tool/-/pipelines/212", Commit: "714a629c0b401fdce83e847fc9589983fc6f46bc", Run: "212", Attempt: "322"}}},
		{"several audiences, a boolean and numbers", gitlab.Sign(gitlab.GitLab(audience, start, map[string]any{"aud": []string{"x", audience}, "ref_protected": true, "project_id": 20})), Grant{
			Name: "oidc:gitlab:group/sub/tool@main", Write: []string{"tool"}, Product: "tool", Expires: start.Add(time.Hour).Local(),
			Build: Build{CI: "gitlab", URL: gitlab.URL + "/group/sub/tool/-/pipelines/212", Commit: "714a629c0b401fdce83e847fc9589983fc6f46bc", Run: "212", Attempt: "322"}}},
	} {
		got, err := v.Verify(t.Context(), tt.token)
		tt.want.Origin = got.Origin
		if got.Issuer == "" || got.Subject == "" {
			t.Errorf("%s: the issuer is %q and the subject %q, want those of the token", tt.name, got.Issuer, got.Subject)
		}
		tt.want.Issuer, tt.want.Subject = got.Issuer, got.Subject
		if d := cmp.Diff(tt.want, got); d != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", tt.name, err, d)
		}
		if again, err := v.Verify(t.Context(), tt.token); err != nil || again.Origin != got.Origin || got.Origin == [32]byte{} {
			t.Errorf("%s: the same token has the origins %x and %x (%v); want one, not zero", tt.name, got.Origin, again.Origin, err)
		}
	}
	// A token without an id is the same whatever its signature is.
	claims := github.GitHub(audience, start, nil)
	delete(claims, "jti")
	a, err := v.Verify(t.Context(), oidctest.Sign(github.Keys()[1], nil, claims))
	b, berr := v.Verify(t.Context(), oidctest.Sign(github.Keys()[1], nil, claims))
	if err != nil || berr != nil || a.Origin != b.Origin {
		t.Errorf("without jti: origins %x and %x, %v, %v; want equal ones", a.Origin, b.Origin, err, berr)
	}
}

// TestHostile: tokens that nobody may accept.
func TestHostile(t *testing.T) {
	t.Parallel()
	c := newClock()
	i, other := oidctest.New(t, ""), oidctest.New(t, "")
	v := newVerifier(t, c, rule(i.URL))
	good := i.Sign(i.GitHub(audience, start, nil))
	if _, err := v.Verify(t.Context(), good); err != nil {
		t.Fatalf("a good token: %v", err)
	}
	rsaKey, ecKey := i.Keys()[0], i.Keys()[1]
	claims := func(more map[string]any) map[string]any { return i.GitHub(audience, start, more) }
	without := func(name string) map[string]any {
		c := claims(nil)
		delete(c, name)
		return c
	}
	hs256 := func(secret []byte) string {
		text := oidctest.Encode(map[string]any{"alg": "HS256", "typ": "JWT", "kid": "rsa-1"}) + "." + oidctest.Encode(claims(nil))
		m := hmac.New(sha256.New, secret)
		m.Write([]byte(text))
		return text + "." + base64.RawURLEncoding.EncodeToString(m.Sum(nil))
	}
	der, err := x509.MarshalPKIXPublicKey(rsaKey.Secret.Public())
	if err != nil {
		t.Fatal(err)
	}
	none := oidctest.Encode(map[string]any{"alg": "none", "kid": "rsa-1"}) + "." + oidctest.Encode(claims(nil)) + "."
	part := strings.Split(good, ".")
	stranger := oidctest.NewRSA(t, "rsa-1")
	for _, tt := range []struct {
		name, token string
		forbidden   bool
		words       string
	}{
		{"alg none", none, false, `algorithm "none"`},
		{"alg None", strings.Replace(none, oidctest.Encode(map[string]any{"alg": "none", "kid": "rsa-1"}), oidctest.Encode(map[string]any{"alg": "None", "kid": "rsa-1"}), 1), false, "algorithm"},
		{"HS256 with the public key in PEM", hs256(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})), false, `algorithm "HS256"`},
		{"HS256 with the public key in DER", hs256(der), false, `algorithm "HS256"`},
		{"HS256 with the modulus", hs256(rsaKey.Secret.Public().(*rsa.PublicKey).N.Bytes()), false, `algorithm "HS256"`},
		{"no signature", part[0] + "." + part[1] + ".", false, ""},
		{"an empty signature with RS256", part[0] + "." + part[1] + "." + base64.RawURLEncoding.EncodeToString(make([]byte, 256)), false, "signature"},
		{"other claims under the signature", part[0] + "." + oidctest.Encode(claims(map[string]any{"repository_id": "74", "sub": "x"})) + "." + part[2], false, "signature"},
		{"another key with this id", oidctest.Sign(stranger, nil, claims(nil)), false, "signature"},
		{"its own key in the header", oidctest.Sign(stranger, map[string]any{"jwk": json.RawMessage(oidctest.KeySet(stranger)[len(`{"keys":[`) : len(oidctest.KeySet(stranger))-2])}, claims(nil)), false, "signature"},
		{"a URL of keys in the header", oidctest.Sign(stranger, map[string]any{"jku": other.URL + "/keys"}, claims(nil)), false, "signature"},
		{"ES256 with the RSA key's id", oidctest.Sign(ecKey, map[string]any{"kid": "rsa-1"}, claims(nil)), false, "not for the algorithm"},
		{"no key id", oidctest.Sign(rsaKey, map[string]any{"kid": ""}, claims(nil)), false, "kid"},
		{"a critical parameter", oidctest.Sign(rsaKey, map[string]any{"crit": []string{"b64"}, "b64": false}, claims(nil)), false, "critical"},
		{"another audience", i.Sign(claims(map[string]any{"aud": "https://github.com/octo"})), false, "for the audience"},
		{"the audience with a slash", i.Sign(claims(map[string]any{"aud": audience + "/"})), false, "for the audience"},
		{"no audience", i.Sign(without("aud")), false, "for the audience"},
		{"another issuer", other.Sign(other.GitHub(audience, start, nil)), false, "trusts no issuer"},
		{"this issuer, signed by another", other.Sign(claims(nil)), false, "signature"},
		{"no issuer", i.Sign(without("iss")), false, "trusts no issuer"},
		{"expired", i.Sign(claims(map[string]any{"exp": start.Add(-2 * time.Minute).Unix()})), false, "expired"},
		{"expired, just beyond the skew", i.Sign(claims(map[string]any{"exp": start.Add(-time.Minute).Unix()})), false, "expired"},
		{"no end", i.Sign(without("exp")), false, "no end"},
		{"an end that is no time", i.Sign(claims(map[string]any{"exp": "tomorrow"})), false, "exp"},
		{"an endless end", i.Sign(claims(map[string]any{"exp": json.Number("1e300")})), false, "exp"},
		{"a negative end", i.Sign(claims(map[string]any{"exp": -1})), false, "exp"},
		{"not yet valid", i.Sign(claims(map[string]any{"nbf": start.Add(2 * time.Minute).Unix()})), false, "not valid yet"},
		{"made in the future", i.Sign(claims(map[string]any{"iat": start.Add(2 * time.Minute).Unix()})), false, "not valid yet"},
		{"another repository", i.Sign(claims(map[string]any{"repository_id": "75"})), true, "no rule"},
		{"a pull request", i.Sign(claims(map[string]any{"ref": "refs/pull/7/merge"})), true, "no rule"},
		{"a branch with a slash", i.Sign(claims(map[string]any{"ref": "refs/heads/a/b"})), true, "no rule"},
		{"no repository id", i.Sign(without("repository_id")), true, "no rule"},
		{"an object as a claim", i.Sign(claims(map[string]any{"repository_id": map[string]any{"74": "74"}})), true, "no rule"},
		{"a name that cannot be printed", i.Sign(claims(map[string]any{"repository": "octo/\u202egame"})), true, "printed"},
		{"claims that are a list", oidctest.SignText(rsaKey, part[0]+"."+oidctest.Encode([]string{"iss"})), false, "not an id token"},
		{"claims that are null", oidctest.SignText(rsaKey, part[0]+"."+oidctest.Encode(nil)), false, "not an id token"},
		{"two values as claims", oidctest.SignText(rsaKey, part[0]+"."+base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"`+i.URL+`"} {}`))), false, "not an id token"},
		{"nothing", "", false, "not an id token"},
		{"a token of this server", "sd_" + strings.Repeat("a", 43), false, "not an id token"},
		{"four parts", good + ".x", false, "not an id token"},
		{"too long", part[0] + "." + strings.Repeat("a", maxToken), false, "the limit is"},
		{"JSON serialization", `{"payload":"` + part[1] + `","signatures":[{"protected":"` + part[0] + `","signature":"` + part[2] + `"}]}`, false, "not an id token"},
	} {
		_, err := v.Verify(t.Context(), tt.token)
		wantRefusal(t, tt.name, err, tt.forbidden, tt.words)
	}
	if other.Requests() != 0 {
		t.Errorf("an issuer that no rule names got %d requests, want 0", other.Requests())
	}
	// Within the skew of the clocks.
	for name, at := range map[string]time.Time{"exp": start.Add(-59 * time.Second), "nbf": start.Add(time.Minute), "iat": start.Add(time.Minute)} {
		if _, err := v.Verify(t.Context(), i.Sign(claims(map[string]any{name: at.Unix()}))); err != nil {
			t.Errorf("%s within the skew: %v", name, err)
		}
	}
}

// TestRotation: a new key counts at once, a withdrawn one for an hour at most.
func TestRotation(t *testing.T) {
	t.Parallel()
	c := newClock()
	i := oidctest.New(t, "")
	v := newVerifier(t, c, rule(i.URL))
	old := i.Keys()[0]
	sign := func(k oidctest.Key) string { return oidctest.Sign(k, nil, i.GitHub(audience, c.now(), nil)) }
	verify := func(k oidctest.Key) error {
		_, err := v.Verify(t.Context(), sign(k))
		return err
	}
	if err := verify(old); err != nil {
		t.Fatal(err)
	}
	c.add(2 * time.Minute)
	young := oidctest.NewRSA(t, "rsa-2")
	i.SetKeys(young)
	if err := verify(young); err != nil {
		t.Errorf("a token of the new key: %v", err)
	}
	wantRefusal(t, "a token of the withdrawn key after the keys were read", verify(old), false, "has no key")
	// Without a token of a new key, a withdrawn one counts until the keys are old.
	i.SetKeys(old)
	c.add(59 * time.Minute)
	if err := verify(young); err != nil {
		t.Errorf("59 minutes after the keys were read: %v", err)
	}
	c.add(2 * time.Minute)
	wantRefusal(t, "61 minutes after the keys were read", verify(young), false, "has no key")
	if err := verify(old); err != nil {
		t.Error(err)
	}
}

// TestStorm: any number of tokens with unknown keys makes the server ask its issuer
// once a minute, and keeps nobody else out.
func TestStorm(t *testing.T) {
	t.Parallel()
	c := newClock()
	i := oidctest.New(t, "")
	v := newVerifier(t, c, rule(i.URL))
	good := i.Keys()[0]
	storm := func(round int) {
		var all sync.WaitGroup
		for n := range 16 {
			all.Go(func() {
				for m := range 100 {
					_, err := v.Verify(t.Context(), oidctest.Encode(map[string]any{"alg": "RS256", "kid": fmt.Sprintf("unknown-%d-%d-%d", round, n, m)})+"."+oidctest.Encode(i.GitHub(audience, c.now(), nil))+".AAAA")
					if _, refused := errors.AsType[*Refusal](err); !refused && !errors.Is(err, ErrUnavailable) {
						t.Errorf("an unknown key: %v", err)
					}
				}
			})
		}
		all.Wait()
	}
	for round := range 3 {
		before := i.Requests()
		storm(round)
		if n := i.Requests() - before; n != 2 {
			t.Errorf("storm %d: the issuer got %d requests, want 2 (metadata and keys)", round, n)
		}
		if _, err := v.Verify(t.Context(), oidctest.Sign(good, nil, i.GitHub(audience, c.now(), nil))); err != nil {
			t.Errorf("a good token in storm %d: %v", round, err)
		}
		c.add(keysPause)
	}
	if n := len(v.issuers[i.URL].unknown); n > maxUnknown {
		t.Errorf("%d unknown keys are remembered, want %d at most", n, maxUnknown)
	}
	// A key that the issuer gets during a storm counts within a minute; until then
	// the client is told to try again, not that the key is wrong.
	storm(3)
	young := oidctest.NewRSA(t, "rsa-2")
	i.SetKeys(young)
	sign := func() string { return oidctest.Sign(young, nil, i.GitHub(audience, c.now(), nil)) }
	if _, err := v.Verify(t.Context(), sign()); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a key that is younger than the last read: %v, want ErrUnavailable", err)
	}
	c.add(keysPause)
	if _, err := v.Verify(t.Context(), sign()); err != nil {
		t.Errorf("a minute later: %v", err)
	}
}

// TestIssuerDown: the last keys count for a day; before there are any, the client is
// told to try again, and the issuer is asked once a minute.
func TestIssuerDown(t *testing.T) {
	t.Parallel()
	c := newClock()
	i := oidctest.New(t, "")
	i.SetDown(true)
	v := newVerifier(t, c, rule(i.URL))
	verify := func() error {
		_, err := v.Verify(t.Context(), i.Sign(i.GitHub(audience, c.now(), nil)))
		return err
	}
	for range 10 {
		if err := verify(); !errors.Is(err, ErrUnavailable) {
			t.Errorf("an issuer that never answered: %v, want ErrUnavailable", err)
		}
	}
	if n := i.Requests(); n != 1 {
		t.Errorf("the issuer got %d requests within a minute, want 1", n)
	}
	i.SetDown(false)
	c.add(time.Minute)
	if err := verify(); err != nil {
		t.Fatal(err)
	}
	i.SetDown(true)
	c.add(23 * time.Hour)
	if err := verify(); err != nil {
		t.Errorf("23 hours without the issuer: %v", err)
	}
	c.add(time.Hour)
	if err := verify(); !errors.Is(err, ErrUnavailable) {
		t.Errorf("24 hours without the issuer: %v, want ErrUnavailable", err)
	}
}

func TestKeysFile(t *testing.T) {
	t.Parallel()
	c := newClock()
	i := oidctest.New(t, "")
	file := filepath.Join(t.TempDir(), "keys.json")
	r := rule(i.URL)
	r.KeysFile = file
	if _, err := New([]Rule{r}, Options{Now: c.now}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("without the file: %v, want an error that names %s", err, file)
	}
	write := func(k ...oidctest.Key) {
		if err := os.WriteFile(file, oidctest.KeySet(k...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(i.Keys()...)
	v, err := New([]Rule{r}, Options{Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Verify(t.Context(), i.Sign(i.GitHub(audience, start, nil))); err != nil {
		t.Error(err)
	}
	young := oidctest.NewRSA(t, "rsa-2")
	write(young)
	c.add(time.Minute)
	if _, err := v.Verify(t.Context(), oidctest.Sign(young, nil, i.GitHub(audience, start, nil))); err != nil {
		t.Errorf("a key that was added to the file: %v", err)
	}
	// A key that the file lacks is refused at once: waiting would not change the answer. One that
	// is written to the file counts at once.
	third := oidctest.NewRSA(t, "rsa-3")
	verify := func() error {
		_, err := v.Verify(t.Context(), oidctest.Sign(third, nil, i.GitHub(audience, start, nil)))
		return err
	}
	for range 3 {
		wantRefusal(t, "a key that the file lacks", verify(), false, "has no key")
	}
	write(young, third)
	if err := verify(); err != nil {
		t.Errorf("a key that was just written to the file: %v", err)
	}
	write(young, oidctest.NewRSA(t, "rsa-9"))
	wantRefusal(t, "a key that was just withdrawn", verify(), false, "has no key")
	// While the file cannot be read, nobody can say that it lacks a key.
	write(young)
	c.add(time.Minute)
	if err := os.WriteFile(file, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	third = oidctest.NewRSA(t, "rsa-4")
	for range 2 {
		if err := verify(); !errors.Is(err, ErrUnavailable) {
			t.Errorf("an unknown key while the file is damaged: %v, want %v", err, ErrUnavailable)
		}
	}
	if _, err := v.Verify(t.Context(), oidctest.Sign(young, nil, i.GitHub(audience, start, nil))); err != nil {
		t.Errorf("a known key while the file is damaged: %v", err)
	}
	if i.Requests() != 0 {
		t.Errorf("the issuer got %d requests, want 0", i.Requests())
	}
	r2 := rule(i.URL)
	if _, err := New([]Rule{r, r2}, Options{Client: client}); err == nil {
		t.Error("two rules for one issuer with different files of keys are accepted")
	}
}

// TestIssuerAnswers: what an issuer, or somebody in its place, may answer.
func TestIssuerAnswers(t *testing.T) {
	t.Parallel()
	i := oidctest.New(t, "")
	big := strings.Repeat(" ", maxKeySet+1)
	encryption := string(oidctest.KeySet(i.Keys()[0]))
	for name, answer := range map[string]func(path string) string{
		"another issuer":        func(string) string { return `{"issuer":"https://evil.example","jwks_uri":"` + i.URL + `/keys"}` },
		"no JSON":               func(string) string { return "<html>" },
		"no keys":               func(string) string { return `{"issuer":"` + i.URL + `"}` },
		"a file":                func(string) string { return `{"issuer":"` + i.URL + `","jwks_uri":"file:///etc/passwd"}` },
		"a password in the URL": func(string) string { return `{"issuer":"` + i.URL + `","jwks_uri":"http://a:b@127.0.0.1/"}` },
		"long metadata":         func(string) string { return big },
		"long keys": func(path string) string {
			if path == "/keys" {
				return big
			}
			return `{"issuer":"` + i.URL + `","jwks_uri":"` + i.URL + `/keys"}`
		},
		"keys for encryption": func(path string) string {
			if path == "/keys" {
				return strings.Replace(encryption, `"use":"sig"`, `"use":"enc"`, 1)
			}
			return `{"issuer":"` + i.URL + `","jwks_uri":"` + i.URL + `/keys"}`
		},
		"keys for another algorithm": func(path string) string {
			if path == "/keys" {
				return strings.Replace(encryption, `"alg":"RS256"`, `"alg":"RS512"`, 1)
			}
			return `{"issuer":"` + i.URL + `","jwks_uri":"` + i.URL + `/keys"}`
		},
		"too many keys": func(path string) string {
			if path == "/keys" {
				return `{"keys":[` + strings.Repeat("{},", maxKeys) + `{}]}`
			}
			return `{"issuer":"` + i.URL + `","jwks_uri":"` + i.URL + `/keys"}`
		},
	} {
		i.Answer(func(w http.ResponseWriter, r *http.Request) bool {
			_, _ = w.Write([]byte(answer(r.URL.Path)))
			return true
		})
		v := newVerifier(t, newClock(), rule(i.URL))
		if _, err := v.Verify(t.Context(), i.Sign(i.GitHub(audience, start, nil))); !errors.Is(err, ErrUnavailable) {
			t.Errorf("an issuer that answers with %s: %v, want ErrUnavailable", name, err)
		}
	}
}

func TestRuleCheck(t *testing.T) {
	t.Parallel()
	const issuer = "https://gitlab.example.com"
	good := func() Rule {
		return Rule{Issuer: issuer, Audience: audience, Match: map[string]string{"project_id": "20"}, Write: []string{"*"}, Branch: "{ref}"}
	}
	for _, tt := range []struct {
		name   string
		change func(r *Rule)
		want   string
	}{
		{"good", func(*Rule) {}, ""},
		{"sub", func(r *Rule) { r.Match = map[string]string{"sub": "repo:octo/*:ref:refs/heads/main"} }, ""},
		{"http with a file", func(r *Rule) { r.Issuer, r.KeysFile = "http://gitlab.corp", "keys" }, ""},
		{"http on this machine", func(r *Rule) { r.Issuer = "http://127.0.0.1:8080" }, ""},
		{"http elsewhere", func(r *Rule) { r.Issuer = "http://gitlab.corp" }, "plain HTTP"},
		{"no issuer", func(r *Rule) { r.Issuer = "" }, "issuer:"},
		{"issuer with a query", func(r *Rule) { r.Issuer += "?a=b" }, "issuer:"},
		{"no audience", func(r *Rule) { r.Audience = "" }, "audience:"},
		{"no products", func(r *Rule) { r.Write = nil }, "write:"},
		{"public forms", func(r *Rule) { r.Write, r.Branch, r.Public = nil, "", []string{"*"} }, ""},
		{"public forms and files", func(r *Rule) { r.Branch, r.Public = "", []string{"Game"} }, "public: a rule has either"},
		{"public forms and reading", func(r *Rule) { r.Write, r.Branch, r.Read, r.Public = nil, "", true, []string{"Game"} }, "public: a rule has either"},
		{"public forms with a branch", func(r *Rule) { r.Write, r.Public = nil, []string{"Game"} }, "public: jobs of this rule add no files"},
		{"no claims", func(r *Rule) { r.Match = nil }, "match: one of the claims"},
		{"names only", func(r *Rule) { r.Match = map[string]string{"repository": "octo/game", "repository_owner": "octo"} }, "match: one of the claims"},
		{"any id", func(r *Rule) { r.Match["project_id"] = "*" }, "match: one of the claims"},
		{"ids that begin with 2", func(r *Rule) { r.Match["project_id"] = "2*" }, "match: one of the claims"},
		{"any subject", func(r *Rule) { r.Match = map[string]string{"sub": "*:ref:refs/heads/main"} }, "match: one of the claims"},
		{"an empty pattern", func(r *Rule) { r.Match["ref"] = "" }, "match.ref"},
		{"a brace", func(r *Rule) { r.Name = "{ref" }, "name:"},
		{"control characters", func(r *Rule) { r.Class = "a\nb" }, "class:"},
	} {
		r := good()
		tt.change(&r)
		if err := r.Check(); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// FuzzVerify: no token makes the verifier panic, ask another issuer, or is accepted
// without the issuer's key.
func FuzzVerify(f *testing.F) {
	k := oidctest.NewRSA(f, "a")
	file := filepath.Join(f.TempDir(), "keys")
	if err := os.WriteFile(file, oidctest.KeySet(k), 0o600); err != nil {
		f.Fatal(err)
	}
	r := rule("https://issuer.example")
	r.KeysFile = file
	v, err := New([]Rule{r}, Options{Now: func() time.Time { return start }})
	if err != nil {
		f.Fatal(err)
	}
	good := oidctest.Sign(k, nil, map[string]any{"iss": r.Issuer, "aud": audience, "repository_id": 74, "ref": "refs/heads/main", "exp": start.Add(time.Hour).Unix(), "sub": "x"})
	part := strings.Split(good, ".")
	payload, err := base64.RawURLEncoding.DecodeString(part[1])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good, payload)
	f.Add("a.b.c", []byte(`{"iss":"https://issuer.example","aud":["a",1,true,null,{}],"exp":1e9}`))
	f.Add(part[0]+"."+part[1]+".", []byte(`{"jti":"x","ref":{"a":[]}}`))
	f.Fuzz(func(t *testing.T, token string, claims []byte) {
		if _, err := v.Verify(t.Context(), token); err == nil && token != good {
			t.Errorf("accepted %q", token)
		}
		// Signed claims of any form.
		if len(claims) > maxToken/2 {
			return
		}
		signed := oidctest.SignText(k, part[0]+"."+base64.RawURLEncoding.EncodeToString(claims))
		g, err := v.Verify(t.Context(), signed)
		if _, refused := errors.AsType[*Refusal](err); err != nil && !refused {
			t.Errorf("%s: %v, want a refusal", claims, err)
		}
		if err == nil && (g.Name == "" || len(g.Name) > maxName || g.Origin == [32]byte{}) {
			t.Errorf("%s grants %+v, want a name of at most %d bytes and an origin", claims, g, maxName)
		}
	})
}

// FuzzKeys: no answer of an issuer makes the parser panic or yields a weak key.
func FuzzKeys(f *testing.F) {
	f.Add(oidctest.KeySet(oidctest.NewRSA(f, "a"), oidctest.NewEC(f, "b")))
	f.Add([]byte(`{"issuer":"https://a","jwks_uri":"https://a/keys"}`))
	f.Add([]byte(`{"keys":[{"kty":"oct","k":"AA","kid":"a"},{"kty":"EC","crv":"P-384","kid":"b"},{}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		keys, err := parseKeys(b)
		if err == nil && (len(keys) == 0 || len(keys) > maxKeys) {
			t.Errorf("%d keys, want 1 to %d", len(keys), maxKeys)
		}
		for id, k := range keys {
			if p, ok := k.(*rsa.PublicKey); ok && p.N.BitLen() < minRSA || id == "" {
				t.Errorf("key %q has less than %d bits or no id", id, minRSA)
			}
		}
		if where, err := parseDiscovery(b, "https://a"); err == nil && !strings.HasPrefix(where, "https://") {
			t.Errorf("keys at %q, want https", where)
		}
	})
}
