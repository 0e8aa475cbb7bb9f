package auth

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/symdepot/symdepot/internal/serve/oidc"
)

const (
	// exchangedLife is the lifetime of a token that was exchanged for an id token.
	exchangedLife = time.Hour
	// exchangedKeep is how much longer than the id token and the new one its row is
	// kept: the clocks of issuer and server may differ.
	exchangedKeep = 5 * time.Minute
)

// ErrManyTokens means that the store has as many exchanged tokens as it may.
var ErrManyTokens = errors.New("too many tokens were exchanged within the last hour")

// Exchange makes a token for the CI job that an id token is of (RFC 7519, OpenID
// Connect Core 1.0). The token may do what the rules of the configuration grant to
// the job, for an hour. An id token is accepted once. If the challenge is not nil,
// it is the response; its texts are for the client, which needs them to correct its
// configuration.
func (g *Gate) Exchange(ctx context.Context, idToken string) (secret string, row TokenRow, c *Challenge) {
	deny := func(status int, text string, reason error) (string, TokenRow, *Challenge) {
		return "", TokenRow{}, &Challenge{Status: status, Text: text, Reason: reason.Error()}
	}
	if g.jobs == nil {
		return deny(http.StatusNotFound, "this server exchanges no id tokens; its configuration has no rules (auth.oidc)", errMethod)
	}
	grant, err := g.jobs.Verify(ctx, idToken)
	if refusal, ok := errors.AsType[*oidc.Refusal](err); ok {
		g.warn("oidc", "rejected an id token", "reason", err)
		if refusal.Forbidden {
			return deny(http.StatusForbidden, refusal.Text, err)
		}
		return deny(http.StatusUnauthorized, refusal.Text, err)
	}
	if err != nil {
		return deny(http.StatusServiceUnavailable, "the id token cannot be checked now", err)
	}
	secret, row, err = exchanged(&grant, g.now())
	if err == nil {
		err = g.store.PutToken(ctx, row)
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return deny(http.StatusUnauthorized, "the id token was exchanged before; each id token is accepted once", err)
	case errors.Is(err, ErrManyTokens):
		return deny(http.StatusTooManyRequests, err.Error(), err)
	case err != nil:
		g.log.Error("cannot store a token", "error", err)
		return deny(http.StatusServiceUnavailable, "tokens cannot be stored now", err)
	}
	g.log.Info("exchanged an id token", "who", row.Name, "token_id", row.ID, "products", row.Products, "scopes", row.Scopes,
		"url", grant.Build.URL)
	return secret, row, nil
}

// exchanged makes the token for a grant.
func exchanged(grant *oidc.Grant, now time.Time) (secret string, row TokenRow, err error) {
	spec := TokenSpec{
		Name: grant.Name, Scopes: []string{ScopeWrite}, Products: grant.Write, Lifetime: exchangedLife, CreatedBy: "oidc",
		Uploads: Uploads{Product: grant.Product, Branch: grant.Branch, Class: grant.Class},
	}
	if len(grant.Public) > 0 {
		spec.Scopes, spec.Products = []string{ScopeReadPublic}, grant.Public
	}
	if grant.Read {
		spec.Scopes = append(spec.Scopes, ScopeRead)
	}
	if slices.Contains(spec.Products, AllProducts) {
		spec.Products = nil
	}
	if secret, row, err = MakeToken(spec, now); err != nil {
		return "", TokenRow{}, err
	}
	if grant.Build != (oidc.Build{}) {
		u := spec.Uploads
		u.Build = &grant.Build
		row.Uploads = u.encode()
	}
	if row.Facts, err = encodeFacts(tokenFacts{Issuer: grant.Issuer, Subject: grant.Subject}); err != nil {
		return "", TokenRow{}, err
	}
	row.Origin, row.Keep = grant.Origin, row.Expires.Add(exchangedKeep)
	if end := grant.Expires.Add(exchangedKeep); end.After(row.Keep) {
		row.Keep = end
	}
	return secret, row, nil
}

// Maker identifies a principal, in TokenRow.CreatedBy and wherever something belongs to
// it: no two principals have the same text, while several tokens may have one name. It
// is the method and the id of the credential. A CI job that runs again has another token
// but is the same principal: it is identified by the issuer and the subject of its id
// tokens.
func (id *Identity) Maker() string {
	switch {
	case id.job != "":
		return "job:" + id.job
	case id.Method == MethodToken:
		return string(MethodToken) + ":" + id.TokenID
	}
	return string(id.Method) + ":" + id.Name
}

// madeLife is the longest lifetime of a token that a principal makes for itself.
const madeLife = 366 * 24 * time.Hour

// NotAllowedError is the error for a token beyond the rights of its maker.
type NotAllowedError struct{ Text string }

func (e *NotAllowedError) Error() string { return e.Text }

// MakeFor makes a token at the request of a principal. It has no rights that the
// principal lacks. A token makes no tokens, unless it has the scope admin: they
// would outlive it. Without that right a token has an end, a year from now at most.
func MakeFor(id *Identity, rights *Rights, spec TokenSpec, now time.Time) (secret string, row TokenRow, err error) {
	no := func(format string, args ...any) (string, TokenRow, error) {
		return "", TokenRow{}, &NotAllowedError{fmt.Sprintf(format, args...)}
	}
	switch {
	case id.Anonymous():
		return no("anonymous clients make no tokens")
	case id.Login != "":
		return no("a login makes no tokens: they would outlive it; make the token on the page Tokens")
	case !rights.Admin && id.Method == MethodToken:
		return no("a token without the scope admin makes no tokens; use a password, a ticket or a certificate")
	case !rights.Admin && spec.Lifetime == 0:
		spec.Lifetime = madeLife
	case !rights.Admin && spec.Lifetime > madeLife:
		return no("the token may be valid for %d days at most", int(madeLife/(24*time.Hour)))
	}
	scopes := spec.Scopes
	if len(scopes) == 0 {
		scopes = []string{ScopeRead}
	}
	for _, scope := range scopes {
		if why := rights.refuses(scope, spec.Products); why != "" {
			return no("%s", why)
		}
	}
	spec.CreatedBy = id.Maker()
	if !rights.Admin {
		if err := checkName(spec.Name); err != nil {
			return "", TokenRow{}, fmt.Errorf("the token's name: %w", err)
		}
		spec.Name = id.Name + "/" + spec.Name // that of no other principal
	}
	return MakeToken(spec, now)
}

// refuses returns why a principal with these rights may not make a token with a scope for
// some products, nil meaning all; empty: it may.
func (r *Rights) refuses(scope string, products []string) string {
	verb, all, may := "read", r.All, r.MayRead
	switch scope {
	case ScopeRead:
	case ScopeReadPublic:
		verb, all, may = "read the public forms of", r.All || r.PublicAll, r.MayReadPublic
	case ScopeWrite:
		verb, all, may = "write", r.WriteAll, r.MayWrite
	case ScopeAdmin:
		if !r.Admin {
			return "you do not have the scope admin"
		}
		return ""
	default:
		return "" // MakeToken names the scopes
	}
	if products == nil && !all {
		return "you may not " + verb + " all products; name those of the token"
	}
	for _, p := range products {
		if !may(p) {
			return "you may not " + verb + " the product " + strconv.Quote(p)
		}
	}
	return ""
}

// MayManage reports whether a principal may see and revoke a token: one that it has
// made, itself, or, with the right admin, any.
func MayManage(id *Identity, rights *Rights, row *TokenRow) bool {
	return rights.Admin || !id.Anonymous() && (row.CreatedBy == id.Maker() || id.TokenID != "" && row.ID == id.TokenID)
}
