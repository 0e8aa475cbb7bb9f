package oidctest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"time"
)

// Client is a client of an issuer at which people sign in.
type Client struct {
	ID, Secret string
	// Redirect is the only URL to which browsers are sent back; empty: any.
	Redirect string
	// Person are the claims of the person who is signed in at the issuer. A nil map: the
	// person refuses.
	Person map[string]any
	// UserInfo are the claims of the user info endpoint. A nil map: there is no such endpoint.
	UserInfo map[string]any
	// Change, if not nil, changes the claims of an id token before it is signed.
	Change func(claims map[string]any)
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// grant is a code that was given to a browser.
type grant struct{ nonce, challenge, redirect string }

// SetClient lets the issuer sign people in for a client.
func (i *Issuer) SetClient(c *Client) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.client = c
	i.codes = map[string]grant{}
}

// authorize answers a browser: with a code, without any question.
func (i *Issuer) authorize(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	q := r.URL.Query()
	to, err := url.Parse(q.Get("redirect_uri"))
	if i.client == nil || err != nil || q.Get("client_id") != i.client.ID || i.client.Redirect != "" && i.client.Redirect != to.String() ||
		q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || q.Get("state") == "" || q.Get("nonce") == "" {
		http.Error(w, "the request is not valid: "+r.URL.RawQuery, http.StatusBadRequest)
		return
	}
	back := url.Values{"state": {q.Get("state")}, "iss": {i.URL}}
	if i.client.Person == nil {
		back.Set("error", "access_denied")
	} else {
		code := rand.Text()
		i.codes[code] = grant{q.Get("nonce"), q.Get("code_challenge"), to.String()}
		back.Set("code", code)
	}
	to.RawQuery = back.Encode()
	http.Redirect(w, r, to.String(), http.StatusFound)
}

// token exchanges a code, once.
func (i *Issuer) token(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	fail := func(status int, word string) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": word})
	}
	if err := r.ParseForm(); err != nil || i.client == nil {
		fail(http.StatusBadRequest, "invalid_request")
		return
	}
	id, secret, basic := r.BasicAuth()
	if !basic {
		id, secret = r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	}
	if id != i.client.ID || secret != i.client.Secret {
		fail(http.StatusUnauthorized, "invalid_client")
		return
	}
	g, ok := i.codes[r.PostForm.Get("code")]
	delete(i.codes, r.PostForm.Get("code"))
	sum := sha256.Sum256([]byte(r.PostForm.Get("code_verifier")))
	if !ok || r.PostForm.Get("grant_type") != "authorization_code" || g.redirect != r.PostForm.Get("redirect_uri") ||
		g.challenge != b64(sum[:]) {
		fail(http.StatusBadRequest, "invalid_grant")
		return
	}
	now := time.Now()
	if i.client.Now != nil {
		now = i.client.Now()
	}
	claims := map[string]any{
		"iss": i.URL, "aud": i.client.ID, "sub": "1234", "nonce": g.nonce, "iat": now.Unix(),
		"exp": now.Add(5 * time.Minute).Unix(),
	}
	maps.Copy(claims, i.client.Person)
	if i.client.Change != nil {
		i.client.Change(claims)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": accessToken, "token_type": "Bearer", "id_token": Sign(i.keys[0], nil, claims)})
}

// accessToken is what the user info endpoint accepts.
const accessToken = "access-token"

// userInfo answers with the claims of the person.
func (i *Issuer) userInfo(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.client == nil || r.Header.Get("Authorization") != "Bearer "+accessToken {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	_ = json.NewEncoder(w).Encode(i.client.UserInfo)
}
