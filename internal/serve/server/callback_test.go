package server

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/serve/oidc/oidctest"
)

// flowCookie is the cookie that a browser keeps while its person is at the provider.
const flowCookie = "__Host-sd-oidc"

// atProvider begins a sign-in in a tab, and returns the address to which the provider sends
// the browser back.
func (w *signInWorld) atProvider(t *testing.T, b *tab, next string) *url.URL {
	t.Helper()
	r := b.get("/-/login/oidc?next=" + url.QueryEscape(next))
	if r.status != 303 || b.cookies[flowCookie] == "" {
		t.Fatalf("begin: status %d to %q, cookies %v; want 303 to the provider", r.status, r.to(), b.cookies)
	}
	resp, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Get(r.to())
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	back, err := resp.Location()
	if err != nil {
		t.Fatalf("the provider: %s, %v; want the way back", resp.Status, err)
	}
	return back
}

// changedFlow changes the flow that a browser keeps.
func changedFlow(t *testing.T, kept string, change func(map[string]any)) string {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(kept)
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]any{}
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	change(m)
	if b, err = json.Marshal(m); err != nil {
		t.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// TestCallbackAttacks: nobody is signed in by an answer of the provider that is not the
// answer to the sign-in that this browser began, and nobody is led to another host.
func TestCallbackAttacks(t *testing.T) {
	t.Parallel()
	link := []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}
	forge := func(kid string, header map[string]any) func(w *signInWorld, nonce string) string {
		return func(w *signInWorld, nonce string) string {
			key := oidctest.NewRSA(t, kid)
			return oidctest.Sign(key, header, map[string]any{"iss": w.issuer.URL, "aud": "depot", "sub": "1", "nonce": nonce, "email": "bob@corp.example", "email_verified": true,
				"iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix()})
		}
	}
	for _, tt := range []struct {
		name   string
		attack func(t *testing.T, w *signInWorld, victim *tab, back *url.URL) // changes what the victim's browser has or sends
		method string
		forged func(w *signInWorld, nonce string) string // the id token that the provider's token endpoint answers
		status int
	}{
		{name: "none", status: 303},
		{name: "the attacker's whole answer (login CSRF)", status: 401, attack: func(t *testing.T, w *signInWorld, _ *tab, back *url.URL) {
			w.provider.Person = map[string]any{"email": "eve@corp.example", "email_verified": true, "groups": []string{"tools"}}
			*back = *w.atProvider(t, newTab(t, w.s), "/")
		}},
		{name: "the attacker's code with the victim's state", status: 401, attack: func(t *testing.T, w *signInWorld, _ *tab, back *url.URL) {
			q := back.Query()
			q.Set("code", w.atProvider(t, newTab(t, w.s), "/").Query().Get("code"))
			back.RawQuery = q.Encode()
		}},
		{name: "a victim that began nothing", status: 401, attack: func(_ *testing.T, _ *signInWorld, b *tab, _ *url.URL) { delete(b.cookies, flowCookie) }},
		{name: "an empty state for a forged flow without one", status: 401, attack: func(t *testing.T, _ *signInWorld, b *tab, back *url.URL) {
			b.cookies[flowCookie] = changedFlow(t, b.cookies[flowCookie], func(m map[string]any) { m["s"] = "" })
			q := back.Query()
			q.Set("state", "")
			back.RawQuery = q.Encode()
		}},
		{name: "two states, the attacker's first", status: 401, attack: func(_ *testing.T, _ *signInWorld, _ *tab, back *url.URL) { back.RawQuery = "state=x&" + back.RawQuery }},
		{name: "two codes, the attacker's first", status: 401, attack: func(t *testing.T, w *signInWorld, _ *tab, back *url.URL) {
			back.RawQuery = "code=" + w.atProvider(t, newTab(t, w.s), "/").Query().Get("code") + "&" + back.RawQuery
		}},
		{name: "the code was used by somebody else before", status: 401, attack: func(t *testing.T, w *signInWorld, b *tab, back *url.URL) {
			thief := newTab(t, w.s)
			thief.cookies[flowCookie] = b.cookies[flowCookie]
			if r := thief.get(back.RequestURI(), link...); r.status != 303 {
				t.Fatalf("the first use: status %d, want 303", r.status)
			}
		}},
		{name: "a forged nonce", status: 401, attack: func(t *testing.T, _ *signInWorld, b *tab, _ *url.URL) {
			b.cookies[flowCookie] = changedFlow(t, b.cookies[flowCookie], func(m map[string]any) { m["n"] = "" })
		}},
		{name: "an old flow", status: 401, attack: func(t *testing.T, _ *signInWorld, b *tab, _ *url.URL) {
			b.cookies[flowCookie] = changedFlow(t, b.cookies[flowCookie], func(m map[string]any) { m["t"] = time.Now().Add(-time.Hour) })
		}},
		{name: "a flow of the future", status: 401, attack: func(t *testing.T, _ *signInWorld, b *tab, _ *url.URL) {
			b.cookies[flowCookie] = changedFlow(t, b.cookies[flowCookie], func(m map[string]any) { m["t"] = time.Now().Add(time.Hour) })
		}},
		{name: "another address to come back to", status: 401, attack: func(t *testing.T, _ *signInWorld, b *tab, _ *url.URL) {
			b.cookies[flowCookie] = changedFlow(t, b.cookies[flowCookie], func(m map[string]any) { m["r"] = "https://evil.example/" })
		}},
		{name: "a POST", status: 403, method: http.MethodPost, attack: func(*testing.T, *signInWorld, *tab, *url.URL) {}},
		{name: "an id token of another key", status: 401, forged: forge("evil", nil)},
		{name: "an id token of another key with the id of the provider's", status: 401, forged: func(w *signInWorld, nonce string) string {
			return forge(w.issuer.Keys()[0].ID, nil)(w, nonce)
		}},
		{name: "an id token without a signature", status: 401, forged: func(w *signInWorld, nonce string) string {
			token := forge("evil", nil)(w, nonce)
			return oidctest.Encode(map[string]any{"alg": "none"}) + "." + strings.Split(token, ".")[1] + "."
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newSignInWorld(t, Config{})
			w.use(testBase)
			victim := newTab(t, w.s)
			back := w.atProvider(t, victim, signInsPage)
			if tt.forged != nil {
				var nonce string
				changedFlow(t, victim.cookies[flowCookie], func(m map[string]any) { nonce, _ = m["n"].(string) })
				w.issuer.Answer(func(rw http.ResponseWriter, r *http.Request) bool {
					if r.Method != http.MethodPost {
						return false
					}
					_ = json.NewEncoder(rw).Encode(map[string]string{"id_token": tt.forged(w, nonce)})
					return true
				})
			}
			if tt.attack != nil {
				tt.attack(t, w, victim, back)
			}
			method := http.MethodGet
			if tt.method != "" {
				method = tt.method
			}
			headers := link
			if method == http.MethodPost {
				headers = []string{"Origin: " + w.issuer.URL, "Sec-Fetch-Site: cross-site"}
			}
			r := victim.send(method, back.RequestURI(), url.Values{}, headers...)
			if r.status != tt.status {
				t.Errorf("status %d to %q, want %d\n%s", r.status, r.to(), tt.status, r.body)
			}
			if in := victim.cookies["__Host-sd"] != ""; in != (tt.status == 303) {
				t.Errorf("signed in: %v, cookies %v", in, victim.cookies)
			}
		})
	}
}

// TestCallbackNext: whatever the flow in a browser says, the sign-in ends at a page of this
// server.
func TestCallbackNext(t *testing.T) {
	t.Parallel()
	w := newSignInWorld(t, Config{})
	w.use(testBase)
	for _, next := range []string{
		"https://evil.example/", "//evil.example/", `/\evil.example/`, `\\evil.example`, "javascript:alert(1)", "/\t/evil.example", "http:evil.example", "///evil.example",
		"data:text/html,x", "/%0d%0aSet-Cookie:%20x=y\r\nX: y", "",
	} {
		for _, where := range []string{"in the address", "in the cookie"} {
			b := newTab(t, w.s)
			ask := next
			if where == "in the cookie" {
				ask = "/"
			}
			back := w.atProvider(t, b, ask)
			if where == "in the cookie" {
				b.cookies[flowCookie] = changedFlow(t, b.cookies[flowCookie], func(m map[string]any) { m["next"], m["Next"] = next, next })
			}
			if r := b.get(back.RequestURI(), "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"); r.status != 303 || r.to() != "/" {
				t.Errorf("next %q %s: status %d to %q, want 303 to /", next, where, r.status, r.to())
			}
		}
	}
}
