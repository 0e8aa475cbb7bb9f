package web

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/auth"
	"github.com/symdepot/symdepot/internal/wire"
)

// Tokens is the part of the gate and the depot's tokens that the API uses.
type Tokens interface {
	// Exchange is Gate.Exchange of package auth.
	Exchange(ctx context.Context, idToken string) (secret string, row auth.TokenRow, c *auth.Challenge)
	// MakeFor is Gate.MakeFor of package auth.
	MakeFor(id *auth.Identity, rights *auth.Rights, spec auth.TokenSpec, now time.Time) (secret string, row auth.TokenRow, err error)
	// List returns all tokens, oldest first.
	List(ctx context.Context) ([]auth.TokenRow, error)
	// PutToken adds a token.
	PutToken(ctx context.Context, row auth.TokenRow) error
	// Revoke revokes a token; an unknown one is fs.ErrNotExist.
	Revoke(ctx context.Context, id string) error
	// SignIns returns the sign-ins of browsers, oldest first.
	SignIns(ctx context.Context) ([]auth.TokenRow, error)
	// EndSignIn is Gate.EndSignIn of package auth.
	EndSignIn(ctx context.Context, id string) error
}

// accounts answers requests about tokens, sign-ins and the audit log.
type accounts struct{ api *API }

// account makes a route's answer of a method of accounts.
func account(answer func(accounts, http.ResponseWriter, *Request, []string) error) func(*API, http.ResponseWriter, *Request, []string) error {
	return func(a *API, w http.ResponseWriter, r *Request, args []string) error {
		return answer(accounts{a}, w, r, args)
	}
}

const (
	maxTokenBody = 64 << 10
	// listRows is how many items a list has without a limit, maxListRows the largest
	// limit.
	listRows, maxListRows = 100, 1000
)

// Unauthenticated reports whether a request for the API brings credentials that the
// API itself checks: the exchange of an id token does.
func Unauthenticated(method string, segs []string) bool {
	return method == http.MethodPost && len(segs) == 4 && IsAPI(segs) && segs[2] == "v1" && segs[3] == "token"
}

// exchangeToken answers POST token: the id token of a CI job, as a bearer token, is
// exchanged for a token of this server.
func (s accounts) exchangeToken(w http.ResponseWriter, r *Request, _ []string) error {
	if s.api.cfg.Tokens == nil {
		return &Problem{Word: "not-found"}
	}
	scheme, idToken, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, wire.Bearer) || strings.TrimSpace(idToken) == "" || len(r.Header.Values("Authorization")) != 1 {
		return &Problem{Word: "credentials", Detail: "the id token of a CI job is expected as a bearer token. Jobs of pull requests from forks have none"}
	}
	secret, row, c := s.api.cfg.Tokens.Exchange(r.Context(), strings.TrimSpace(idToken))
	if c != nil {
		s.api.cfg.Log.Info("an id token was not exchanged", "request", r.ID, "reason", c.Reason)
		word := map[int]string{http.StatusNotFound: "not-found", http.StatusForbidden: "forbidden", http.StatusTooManyRequests: "rate", http.StatusServiceUnavailable: "busy"}[c.Status]
		return &Problem{Word: cmp.Or(word, "credentials"), Detail: c.Text}
	}
	finish(w, r)
	return writeJSON(w, http.StatusCreated, wire.Exchanged{Token: secret, Expires: row.Expires.UTC(), Name: row.Name, Products: row.Products})
}

// tokenOf describes a token without its secret.
func (s accounts) tokenOf(row *auth.TokenRow) wire.TokenInfo {
	t := wire.TokenInfo{
		ID: row.ID, Name: row.Name, Scopes: row.Scopes, Products: row.Products, State: "valid", Created: row.Created.UTC(), CreatedBy: row.CreatedBy,
		Expires: row.Expires.UTC(), LastUsed: row.LastUsed.UTC(), Revoked: row.Revoked.UTC(),
	}
	for _, p := range []*time.Time{&t.Expires, &t.LastUsed, &t.Revoked} {
		if p.Unix() <= 0 {
			*p = time.Time{}
		}
	}
	switch {
	case !row.Revoked.IsZero():
		t.State = "revoked"
	case !row.Expires.IsZero() && !s.api.cfg.Now().Before(row.Expires):
		t.State = "expired"
	}
	if u := row.UploadDefaults(); u != (auth.Uploads{}) {
		t.Uploads = &wire.TokenUploads{Product: u.Product, Version: u.Version, Branch: u.Branch, Class: u.Class}
		if u.Build != nil {
			t.Uploads.URL = u.Build.URL
		}
	}
	return t
}

// tokens returns the tokens that the client may see, oldest first.
func (s accounts) tokens(r *Request) ([]auth.TokenRow, error) {
	if err := s.known(r); err != nil {
		return nil, err
	}
	list, err := s.api.cfg.Tokens.List(r.Context())
	return managed(r, list), err
}

// known returns an error for clients that have no tokens, because they are nobody.
func (s accounts) known(r *Request) error {
	switch {
	case s.api.cfg.Tokens == nil:
		return &Problem{Word: "not-found"}
	case !r.Anonymous || r.Rights.Admin:
		return nil
	case len(r.Challenges) == 0:
		return &Problem{Word: "forbidden", Detail: "this server has no credentials configured"}
	}
	return &Problem{Word: "credentials"}
}

// managed removes the rows that the client may not see, and sorts the others.
func managed(r *Request, list []auth.TokenRow) []auth.TokenRow {
	list = slices.DeleteFunc(list, func(row auth.TokenRow) bool { return !auth.MayManage(&r.Identity, &r.Rights, &row) })
	slices.SortStableFunc(list, func(a, b auth.TokenRow) int { return strings.Compare(sortKey(&a), sortKey(&b)) })
	return list
}

// pageOf returns the part of a list that a request asks for, and the cursor of the
// next part. It sets the header field Link.
func pageOf(w http.ResponseWriter, r *Request, name string, rows func() ([]auth.TokenRow, error)) (part []auth.TokenRow, next string, err error) {
	q := r.URL.Query()
	limit, after, err := readPage(q, name)
	if err != nil {
		return nil, "", err
	}
	list, err := rows()
	if err != nil {
		return nil, "", err
	}
	list = slices.DeleteFunc(list, func(row auth.TokenRow) bool { return sortKey(&row) <= after })
	if len(list) <= limit {
		return list, "", nil
	}
	return list[:limit], linkNext(w, r, name, sortKey(&list[limit-1])), nil
}

// linkNext names the next part of a list in the header, and returns its cursor. last is the
// sort key of the last item of this part; "" if there are no more.
func linkNext(w http.ResponseWriter, r *Request, list, last string) string {
	if last == "" {
		return ""
	}
	q := r.URL.Query()
	next := cursor(list, q, last)
	w.Header().Set("Link", `<`+r.URL.EscapedPath()+`?`+with(q, "cursor", next).Encode()+`>; rel="next"`)
	return next
}

// listTokens answers GET tokens: those that the client may manage, oldest first.
func (s accounts) listTokens(w http.ResponseWriter, r *Request, _ []string) error {
	if err := only(r, "limit", "cursor"); err != nil {
		return err
	}
	list, next, err := pageOf(w, r, "tokens", func() ([]auth.TokenRow, error) { return s.tokens(r) })
	if err != nil {
		return err
	}
	out := wire.TokenList{Items: []wire.TokenInfo{}, Next: next}
	for i := range list {
		out.Items = append(out.Items, s.tokenOf(&list[i]))
	}
	return writeJSON(w, http.StatusOK, out)
}

func sortKey(row *auth.TokenRow) string {
	return row.Created.UTC().Format("2006-01-02T15:04:05.000000000") + " " + row.ID
}

// filterHash identifies the filters of a list: all parameters but limit and cursor.
func filterHash(list string, q url.Values) []byte {
	f := url.Values{}
	for k, v := range q {
		if k != "limit" && k != "cursor" {
			f[k] = v
		}
	}
	sum := sha256.Sum256([]byte(list + "?" + f.Encode()))
	return sum[:6]
}

// cursor returns the position in a list after the item with the sort key last.
func cursor(list string, q url.Values, last string) string {
	return base64.RawURLEncoding.EncodeToString(append(filterHash(list, q), last...))
}

// readPage reads the parameters limit and cursor of a list. after is the sort key of
// the last item that the client has; "" before the first.
func readPage(q url.Values, list string) (limit int, after string, err error) {
	limit = listRows
	if text := q.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxListRows {
			return 0, "", &Problem{Word: "query", Detail: "the limit is not valid", Fields: map[string]string{"limit": "a number from 1 to " + strconv.Itoa(maxListRows) + " is expected"}}
		}
	}
	text := q.Get("cursor")
	if text == "" {
		return limit, "", nil
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if h := filterHash(list, q); err != nil || len(b) < len(h) || string(b[:len(h)]) != string(h) {
		return 0, "", &Problem{Word: "cursor"}
	} else {
		return limit, string(b[len(h):]), nil
	}
}

// showToken answers GET tokens/ID.
func (s accounts) showToken(w http.ResponseWriter, r *Request, args []string) error {
	row, err := s.token(r, args[0])
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, s.tokenOf(&row))
}

// token returns a token that the client may manage. Others are not found.
func (s accounts) token(r *Request, id string) (auth.TokenRow, error) {
	list, err := s.tokens(r)
	if err != nil {
		return auth.TokenRow{}, err
	}
	i := slices.IndexFunc(list, func(row auth.TokenRow) bool { return row.ID == id })
	if i < 0 {
		return auth.TokenRow{}, &Problem{Word: "not-found", Detail: "there is no such token"}
	}
	return list[i], nil
}

// makeToken answers POST tokens. The secret is part of this answer only.
func (s accounts) makeToken(w http.ResponseWriter, r *Request, _ []string) error {
	if err := s.makes(r); err != nil {
		return err
	}
	var q wire.TokenSpec
	if err := readJSON(r, maxTokenBody, &q); err != nil {
		return err
	}
	secret, row, err := s.newToken(r, &q)
	if err != nil {
		return err
	}
	out := s.tokenOf(&row)
	out.Token = secret
	w.Header().Set("Location", strings.TrimSuffix(r.URL.EscapedPath(), "/")+"/"+row.ID)
	return writeJSON(w, http.StatusCreated, out)
}

// makes returns an error for clients that are asked for credentials before they make
// tokens.
func (s accounts) makes(r *Request) error {
	switch {
	case s.api.cfg.Tokens == nil:
		return &Problem{Word: "not-found"}
	case r.Anonymous && len(r.Challenges) > 0:
		return &Problem{Word: "credentials"}
	}
	return nil
}

// newToken makes and stores a token with the rights of the client at most.
func (s accounts) newToken(r *Request, q *wire.TokenSpec) (secret string, row auth.TokenRow, err error) {
	now := s.api.cfg.Now()
	spec := auth.TokenSpec{Name: q.Name, Scopes: q.Scopes, Products: q.Products}
	if u := q.Uploads; u != nil {
		spec.Uploads = auth.Uploads{Product: u.Product, Version: u.Version, Branch: u.Branch, Class: u.Class}
		if u.URL != "" {
			return "", row, &Problem{Word: "query", Detail: "the token is not valid", Fields: map[string]string{"uploads.url": "only the server sets it"}}
		}
	}
	if !q.Expires.IsZero() {
		if spec.Lifetime = q.Expires.Sub(now); spec.Lifetime <= 0 {
			return "", row, &Problem{Word: "query", Detail: "the token is not valid", Fields: map[string]string{"expires": "is in the past"}}
		}
	}
	secret, row, err = s.api.cfg.Tokens.MakeFor(&r.Identity, &r.Rights, spec, now)
	if no, ok := errors.AsType[*auth.NotAllowedError](err); ok {
		return "", row, &Problem{Word: "forbidden", Detail: no.Text}
	}
	if err != nil {
		return "", row, &Problem{Word: "query", Detail: err.Error()}
	}
	if err := s.api.cfg.Tokens.PutToken(r.Context(), row); err != nil {
		return "", row, err
	}
	s.api.cfg.Log.Info("a token was made", "request", r.ID, "token_id", row.ID, "name", row.Name, "by", row.CreatedBy)
	return secret, row, nil
}

// revokeToken answers DELETE tokens/ID.
func (s accounts) revokeToken(w http.ResponseWriter, r *Request, args []string) error {
	if err := s.revoke(r, args[0]); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// revoke revokes a token that the client may manage. Running servers notice within
// seconds.
func (s accounts) revoke(r *Request, id string) error {
	row, err := s.token(r, id)
	if err != nil {
		return err
	}
	switch err := s.api.cfg.Tokens.Revoke(r.Context(), row.ID); {
	case errors.Is(err, fs.ErrNotExist):
		return &Problem{Word: "not-found", Detail: "there is no such token"}
	case err != nil:
		return err
	}
	s.api.cfg.Log.Info("a token was revoked", "request", r.ID, "token_id", row.ID, "by", r.Identity.Maker())
	return nil
}
