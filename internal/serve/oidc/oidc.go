// Package oidc verifies the id tokens (OpenID Connect Core 1.0) that CI systems
// give to their jobs, and decides by the rules of the operator what a job may do. It
// also lets people sign in at an OpenID provider.
//
// Only issuers that a rule names are asked for their keys, never one that a token
// names. The keys are cached, and are read again for an unknown key at most once a
// minute, so that forged tokens cost an issuer nothing.
package oidc

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	// maxToken is the size of the largest id token, in bytes. Those of the known CI
	// systems have less than 4 KiB.
	maxToken = 16 << 10
	// skew is how much the clocks of issuer and server may differ.
	skew = time.Minute
)

// algorithms are the accepted ones (RFC 7518 section 3.1). The known CI systems
// sign with RS256.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.ES256}

// Refusal is the error for a token that is not accepted. Its text is for the
// client.
type Refusal struct {
	Text string
	// Forbidden: the token is valid, but no rule names its job.
	Forbidden bool
}

func (e *Refusal) Error() string { return e.Text }

func refuse(format string, args ...any) error { return &Refusal{Text: fmt.Sprintf(format, args...)} }

// ErrUnavailable means that the token cannot be checked now, because the keys of
// its issuer are not known. Another try may succeed.
var ErrUnavailable = errors.New("the keys of the issuer cannot be read now")

// Options of a Verifier.
type Options struct {
	// Client returns a client for the server at a URL. Nil: only rules with a file of
	// keys work.
	Client func(server string) *http.Client
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Log receives failures to read keys; nil discards them.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Verifier verifies id tokens. It is safe for concurrent use.
type Verifier struct {
	rules   []Rule
	issuers map[string]*keySet
	now     func() time.Time
}

// New returns a verifier. The error names the rule at fault. Files of keys are
// read, issuers are not asked.
func New(rules []Rule, opt Options) (*Verifier, error) {
	opt = opt.withDefaults()
	v := &Verifier{rules: rules, issuers: map[string]*keySet{}, now: opt.Now}
	for i, r := range rules {
		if err := r.Check(); err != nil {
			return nil, fmt.Errorf("oidc rule %d: %w", i+1, err)
		}
		if set := v.issuers[r.Issuer]; set != nil {
			if set.file != r.KeysFile {
				return nil, fmt.Errorf("oidc rule %d: another rule for %s has a different jwks_file", i+1, r.Issuer)
			}
			continue
		}
		set := newKeySet(r.Issuer, r.KeysFile, opt)
		if r.KeysFile != "" {
			if _, err := set.read(context.Background()); err != nil {
				return nil, fmt.Errorf("oidc rule %d: %w", i+1, err)
			}
		}
		v.issuers[r.Issuer] = set
	}
	return v, nil
}

// Verify checks a token and returns what its job may do. The error is a *Refusal,
// wraps ErrUnavailable, or is that of the context.
func (v *Verifier) Verify(ctx context.Context, token string) (Grant, error) {
	claims, err := v.claims(ctx, token)
	if err != nil {
		return Grant{}, err
	}
	expires, err := timely(claims, v.now())
	if err != nil {
		return Grant{}, err
	}
	g, err := decide(v.rules, claims)
	if err != nil {
		return Grant{}, err
	}
	g.Issuer, g.Subject, g.Expires, g.Origin = claims.text("iss"), claims.text("sub"), expires, origin(claims)
	return g, nil
}

// header is what is read of the header of a token before its signature is checked.
type header struct {
	Alg  string          `json:"alg"`
	Kid  string          `json:"kid"`
	Crit json.RawMessage `json:"crit"`
}

var errForm = &Refusal{Text: "this is not an id token: a JSON Web Token of three parts, signed with RS256 or ES256, is expected"}

// parse splits a token and decodes its parts without a check of the signature.
func parse(token string) (h header, c Claims, sig *jose.JSONWebSignature, err error) {
	if len(token) > maxToken {
		return h, nil, nil, refuse("the id token has %d bytes; the limit is %d", len(token), maxToken)
	}
	part := strings.Split(token, ".")
	if len(part) != 3 {
		return h, nil, nil, errForm
	}
	b, err := base64.RawURLEncoding.DecodeString(part[0])
	if err != nil || json.Unmarshal(b, &h) != nil {
		return h, nil, nil, errForm
	}
	switch {
	case !slices.Contains(algorithms, jose.SignatureAlgorithm(h.Alg)):
		return h, nil, nil, refuse("the id token is signed with the algorithm %.20q; RS256 or ES256 is expected", h.Alg)
	case h.Crit != nil:
		return h, nil, nil, refuse("the id token has critical header parameters, which are not supported")
	case h.Kid == "" || len(h.Kid) > maxKeyID:
		return h, nil, nil, refuse("the id token does not name its key (kid)")
	}
	if sig, err = jose.ParseSignedCompact(token, algorithms); err != nil {
		return h, nil, nil, errForm
	}
	c, err = parseClaims(sig.UnsafePayloadWithoutVerification())
	return h, c, sig, err
}

// claims returns the claims of a token whose signature is valid.
func (v *Verifier) claims(ctx context.Context, token string) (Claims, error) {
	h, unverified, sig, err := parse(token)
	if err != nil {
		return nil, err
	}
	issuer, _ := unverified["iss"].(string)
	set := v.issuers[issuer]
	if set == nil {
		return nil, refuse("this server trusts no issuer %.200q", issuer)
	}
	return set.verified(ctx, h, sig)
}

// verified returns the claims of a token of the issuer, if the signature is valid.
func (s *keySet) verified(ctx context.Context, h header, sig *jose.JSONWebSignature) (Claims, error) {
	key, err := s.key(ctx, h.Kid, h.Alg)
	if err != nil {
		return nil, err
	}
	payload, err := sig.Verify(key)
	if err != nil {
		return nil, refuse("the signature of the id token is not valid")
	}
	return parseClaims(payload)
}

// timely checks the times of a token (RFC 7519 section 4.1) and returns its end.
func timely(c Claims, now time.Time) (expires time.Time, err error) {
	at := func(name string) (t time.Time, ok bool, err error) {
		x, there := c[name]
		if !there {
			return t, false, nil
		}
		n, isNumber := x.(json.Number)
		f, ferr := n.Float64()
		if !isNumber || ferr != nil || f < 0 || f > math.MaxInt32*64 {
			return t, false, refuse("the claim %s of the id token is no time", name)
		}
		return time.Unix(int64(f), 0), true, nil
	}
	expires, ok, err := at("exp")
	switch {
	case err != nil:
		return expires, err
	case !ok:
		return expires, refuse("the id token has no end (exp)")
	case !now.Before(expires.Add(skew)):
		return expires, refuse("the id token has expired, %s ago; get a new one", now.Sub(expires).Round(time.Second))
	}
	for _, name := range []string{"nbf", "iat"} {
		t, ok, err := at(name)
		if err != nil {
			return expires, err
		}
		if ok && t.After(now.Add(skew)) {
			return expires, refuse("the id token is not valid yet (%s); compare the clocks of the issuer and this server", name)
		}
	}
	return expires, nil
}

// Claims are the claims of a token.
type Claims map[string]any

// parseClaims decodes the payload of a token.
func parseClaims(payload []byte) (Claims, error) {
	var c Claims
	d := json.NewDecoder(bytes.NewReader(payload))
	d.UseNumber()
	if err := d.Decode(&c); err != nil || c == nil {
		return nil, errForm
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errForm
	}
	return c, nil
}

// texts returns the values of a claim as texts: one, those of a list, or none.
func (c Claims) texts(name string) []string {
	one := func(v any) (string, bool) {
		switch v := v.(type) {
		case string:
			return v, true
		case bool:
			return fmt.Sprint(v), true
		case json.Number:
			return v.String(), true
		}
		return "", false
	}
	if list, ok := c[name].([]any); ok {
		var all []string
		for _, v := range list {
			if s, ok := one(v); ok {
				all = append(all, s)
			}
		}
		return all
	}
	if s, ok := one(c[name]); ok {
		return []string{s}
	}
	return nil
}

// text returns the value of a claim that has one, or "".
func (c Claims) text(name string) string {
	if list := c.texts(name); len(list) == 1 {
		return list[0]
	}
	return ""
}

// origin returns a hash that identifies a token: by its id (jti), or by all claims
// if it has none. Other signatures of the same claims are the same token.
func origin(c Claims) [32]byte {
	if id := c.text("jti"); id != "" {
		return sha256.Sum256([]byte(c.text("iss") + "\x00" + id))
	}
	b, err := json.Marshal(c) // sorted by name
	if err != nil {
		panic("oidc: claims that were decoded cannot be encoded: " + err.Error())
	}
	return sha256.Sum256(append([]byte("\x00"), b...))
}
