package auth

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/symdepot/symdepot/internal/serve/oidc"
)

// maxFlow limits what the browser keeps of a sign-in at the OpenID provider, in bytes.
const maxFlow = 3 << 10

// flow is what the browser keeps in a cookie. It needs no signature: it is accepted
// from this browser only, and says only what this browser may know.
type flow struct {
	oidc.Flow
	Next string `json:"next,omitempty"`
}

// BeginOIDC begins a sign-in at the OpenID provider: the browser keeps the flow in a
// cookie and goes to the URL. redirect is the URL of this server to which the provider
// sends it back, next the page that it wants afterwards. If the challenge is not nil,
// it is the response.
func (g *Gate) BeginOIDC(r *http.Request, redirect, next string) (to, kept string, c *Challenge) {
	if g.login == nil {
		return "", "", &Challenge{Status: http.StatusNotFound, Reason: errMethod.Error()}
	}
	to, f, err := g.login.Begin(r.Context(), redirect)
	if err != nil {
		return "", "", g.oidcFailed(err)
	}
	for _, page := range []string{next, ""} {
		b, err := json.Marshal(flow{f, page})
		if err != nil {
			return "", "", g.oidcFailed(err)
		}
		if kept = base64.RawURLEncoding.EncodeToString(b); len(kept) <= maxFlow {
			break
		}
	}
	return to, kept, nil
}

// FinishOIDC begins the sign-in of a browser that the OpenID provider sent back with
// the flow that it keeps. If the challenge is not nil, it is the response.
func (g *Gate) FinishOIDC(r *http.Request, kept string) (in SignIn, next string, c *Challenge) {
	if g.login == nil {
		return in, "", &Challenge{Status: http.StatusNotFound, Reason: errMethod.Error()}
	}
	var f flow
	b, err := base64.RawURLEncoding.DecodeString(kept)
	if err != nil || len(kept) > maxFlow || json.Unmarshal(b, &f) != nil {
		f = flow{}
	}
	// Each attempt costs the provider a request.
	address := addressOf(r.RemoteAddr)
	who := "oidc " + address // the failures of others must not delay this browser
	if wait := g.attempts.wait(address, who, g.now()); wait > 0 {
		return in, "", g.failed(&DelayedError{wait, "passwords"}, nil, false)
	}
	person, err := g.login.Finish(r.Context(), f.Flow, r.URL.Query())
	if err != nil {
		if _, refused := errors.AsType[*oidc.Refusal](err); refused {
			g.attempts.failed(address, who, g.now())
		}
		return in, "", g.oidcFailed(err)
	}
	id := Identity{Name: person.Name, Method: MethodOIDC, Groups: person.Groups}
	rights := g.policy().Decide(&id)
	facts := signInFacts{Method: MethodOIDC, Issuer: g.login.Issuer()}
	facts.Groups = g.policy().namedGroups(person.Groups)
	in, c = g.beginSignIn(r, &id, &rights, facts)
	return in, f.Next, c
}

// oidcFailed turns an error of the provider into a response.
func (g *Gate) oidcFailed(err error) *Challenge {
	c := &Challenge{Status: http.StatusServiceUnavailable, Text: "the OpenID provider cannot be asked now", Reason: err.Error()}
	if refusal, ok := errors.AsType[*oidc.Refusal](err); ok {
		g.warn("oidc sign-in", "refused a sign-in at the OpenID provider", "reason", err)
		c.Status, c.Text = http.StatusUnauthorized, refusal.Text
		if refusal.Forbidden {
			c.Status = http.StatusForbidden
		}
	}
	return c
}
