// Package oidctest is an issuer of id tokens for tests, with keys of its own.
package oidctest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// Issuer is an issuer at URL. Its methods may be called by many goroutines.
type Issuer struct {
	URL string

	mu       sync.Mutex
	keys     []Key
	requests int
	down     bool
	answer   func(w http.ResponseWriter, r *http.Request) bool
	client   *Client
	codes    map[string]grant
}

// Key is a key of an issuer.
type Key struct {
	ID     string
	Secret crypto.Signer // *rsa.PrivateKey or *ecdsa.PrivateKey
}

// New starts an issuer with an RSA and a P-256 key, which ends with the test. path is
// that of its URL, such as "/_services/token".
func New(t testing.TB, path string) *Issuer {
	t.Helper()
	i := &Issuer{}
	s := httptest.NewServer(http.HandlerFunc(i.serve))
	t.Cleanup(s.Close)
	i.URL = s.URL + path
	i.keys = []Key{NewRSA(t, "rsa-1"), NewEC(t, "ec-1")}
	return i
}

// NewRSA returns an RSA key.
func NewRSA(t testing.TB, id string) Key {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return Key{id, k}
}

// NewEC returns a P-256 key.
func NewEC(t testing.TB, id string) Key {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return Key{id, k}
}

// Keys returns the keys.
func (i *Issuer) Keys() []Key {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.keys
}

// SetKeys replaces the keys.
func (i *Issuer) SetKeys(keys ...Key) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = keys
}

// SetDown lets the issuer answer 503, or not.
func (i *Issuer) SetDown(down bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.down = down
}

// Answer lets f answer requests for which it returns true.
func (i *Issuer) Answer(f func(w http.ResponseWriter, r *http.Request) bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.answer = f
}

// Requests returns how many requests there were.
func (i *Issuer) Requests() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.requests
}

func (i *Issuer) serve(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	i.requests++
	down, keys, answer, client := i.down, i.keys, i.answer, i.client
	i.mu.Unlock()
	switch {
	case down:
		w.WriteHeader(http.StatusServiceUnavailable)
	case answer != nil && answer(w, r):
	case r.URL.Path == "/keys":
		_, _ = w.Write(KeySet(keys...))
	case r.URL.Path == "/authorize":
		i.authorize(w, r)
	case r.URL.Path == "/token":
		i.token(w, r)
	case r.URL.Path == "/userinfo":
		i.userInfo(w, r)
	default:
		u := "http://" + r.Host
		metadata := map[string]any{
			"issuer": i.URL, "jwks_uri": u + "/keys", "response_types_supported": []string{"code", "id_token"},
			"authorization_endpoint": u + "/authorize", "token_endpoint": u + "/token",
		}
		if client != nil && client.UserInfo != nil {
			metadata["userinfo_endpoint"] = u + "/userinfo"
		}
		_ = json.NewEncoder(w).Encode(metadata)
	}
}

// KeySet returns the public keys as JSON (RFC 7517).
func KeySet(keys ...Key) []byte {
	list := []map[string]string{}
	for _, k := range keys {
		switch p := k.Secret.Public().(type) {
		case *rsa.PublicKey:
			list = append(list, map[string]string{
				"kty": "RSA", "use": "sig", "alg": "RS256", "kid": k.ID, "n": b64(p.N.Bytes()),
				"e": b64(big.NewInt(int64(p.E)).Bytes()),
			})
		case *ecdsa.PublicKey:
			b, err := p.Bytes() // 4, x, y
			if err != nil {
				panic(err)
			}
			list = append(list, map[string]string{"kty": "EC", "crv": "P-256", "kid": k.ID, "x": b64(b[1:33]), "y": b64(b[33:])})
		}
	}
	b, err := json.Marshal(map[string]any{"keys": list})
	if err != nil {
		panic(err)
	}
	return b
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// GitHub returns the claims of a job of GitHub Actions, for an audience and a time.
func (i *Issuer) GitHub(audience string, now time.Time, more map[string]any) map[string]any {
	c := map[string]any{
		"iss": i.URL, "aud": audience, "sub": "repo:octo/game:ref:refs/heads/main", "jti": rand.Text(),
		"iat": now.Unix(), "nbf": now.Add(-5 * time.Minute).Unix(), "exp": now.Add(5 * time.Minute).Unix(),
		"repository": "octo/game", "repository_id": "74", "repository_owner": "octo", "repository_owner_id": "65",
		"ref": "refs/heads/main", "ref_type": "branch", "sha": "2f1c0ffee", "event_name": "push", "run_id": "4711", "run_attempt": "2",
		"workflow_ref": "octo/game/.github/workflows/build.yml@refs/heads/main", "runner_environment": "github-hosted",
	}
	maps.Copy(c, more)
	return c
}

// GitLab returns the claims of a job of GitLab.
func (i *Issuer) GitLab(audience string, now time.Time, more map[string]any) map[string]any {
	c := map[string]any{
		"iss": i.URL, "aud": audience, "sub": "project_path:group/sub/tool:ref_type:branch:ref:main", "jti": rand.Text(),
		"iat": now.Unix(), "nbf": now.Add(-5 * time.Second).Unix(), "exp": now.Add(time.Hour).Unix(),
		"project_path": "group/sub/tool", "project_id": "20", "namespace_id": "72", "ref": "main", "ref_type": "branch", "ref_protected": "true",
		"sha": "714a629c0b401fdce83e847fc9589983fc6f46bc", "pipeline_id": "212", "job_id": "322",
	}
	maps.Copy(c, more)
	return c
}

// Sign signs claims with the first key.
func (i *Issuer) Sign(claims map[string]any) string { return Sign(i.Keys()[0], nil, claims) }

// Sign signs claims with a key. header replaces members of the header.
func Sign(k Key, header, claims map[string]any) string {
	h := map[string]any{"typ": "JWT", "kid": k.ID, "alg": "RS256"}
	if _, ok := k.Secret.(*ecdsa.PrivateKey); ok {
		h["alg"] = "ES256"
	}
	maps.Copy(h, header)
	return SignText(k, Encode(h)+"."+Encode(claims))
}

// SignText signs the first two parts of a token.
func SignText(k Key, text string) string {
	sum := sha256.Sum256([]byte(text))
	var sig []byte
	switch s := k.Secret.(type) {
	case *rsa.PrivateKey:
		b, err := rsa.SignPKCS1v15(nil, s, crypto.SHA256, sum[:])
		if err != nil {
			panic(err)
		}
		sig = b
	case *ecdsa.PrivateKey:
		r, t, err := ecdsa.Sign(rand.Reader, s, sum[:])
		if err != nil {
			panic(err)
		}
		sig = make([]byte, 64)
		r.FillBytes(sig[:32])
		t.FillBytes(sig[32:])
	default:
		panic(fmt.Sprintf("%T", s))
	}
	return text + "." + b64(sig)
}

// Encode returns a part of a token.
func Encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b64(b)
}
