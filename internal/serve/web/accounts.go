package web

import (
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/serve/auth"
)

// Accounts answers requests about tokens, sign-ins and the audit log.
type Accounts struct {
	gate   *auth.Gate
	store  Tokens
	audit  *auth.Audit   // nil: there is none
	audits chan struct{} // a semaphore: parts of the audit log that are read at the same time
	now    func() time.Time
	log    *slog.Logger
}

func newAccounts(cfg *Config) *Accounts {
	return &Accounts{cfg.Gate, cfg.Tokens, cfg.Audit, make(chan struct{}, maxAudits), cfg.Now, cfg.Log}
}

// TokenOf describes a token without its secret.
func (s *Accounts) TokenOf(row *auth.TokenRow) wire.TokenInfo {
	t := wire.TokenInfo{
		ID: row.ID, Name: row.Name, Scopes: row.Scopes, Products: row.Products, State: "valid",
		Created: row.Created.UTC(), CreatedBy: row.CreatedBy,
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
	case !row.Expires.IsZero() && !s.now().Before(row.Expires):
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

// Tokens returns the tokens that the client may see, oldest first.
func (s *Accounts) Tokens(r *Request) ([]auth.TokenRow, error) {
	if err := s.MayHaveTokens(r); err != nil {
		return nil, err
	}
	list, err := s.store.List(r.Context())
	return managed(r, list), err
}

// MayHaveTokens returns an error for clients that have no tokens, because they are nobody.
func (s *Accounts) MayHaveTokens(r *Request) error {
	switch {
	case s.store == nil:
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
	sorting.Stable(list, func(a, b auth.TokenRow) int { return strings.Compare(sortKey(&a), sortKey(&b)) })
	return list
}

// PageOfTokens returns the part of a list that a request asks for, and the cursor of the
// next part. It sets the header field Link.
func PageOfTokens(
	w http.ResponseWriter, r *Request, name string, rows func() ([]auth.TokenRow, error),
) (part []auth.TokenRow, next string, err error) {
	q := r.URL.Query()
	limit, after, err := ReadPage(q, name)
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
	return list[:limit], LinkNext(w, r, name, sortKey(&list[limit-1])), nil
}

func sortKey(row *auth.TokenRow) string {
	return row.Created.UTC().Format("2006-01-02T15:04:05.000000000") + " " + row.ID
}

// Token returns a token that the client may manage. Others are not found.
func (s *Accounts) Token(r *Request, id string) (auth.TokenRow, error) {
	list, err := s.Tokens(r)
	if err != nil {
		return auth.TokenRow{}, err
	}
	i := slices.IndexFunc(list, func(row auth.TokenRow) bool { return row.ID == id })
	if i < 0 {
		return auth.TokenRow{}, &Problem{Word: "not-found", Detail: "there is no such token"}
	}
	return list[i], nil
}

// MayMakeTokens returns an error for clients that are asked for credentials before they make
// tokens.
func (s *Accounts) MayMakeTokens(r *Request) error {
	switch {
	case s.store == nil:
		return &Problem{Word: "not-found"}
	case r.Anonymous && len(r.Challenges) > 0:
		return &Problem{Word: "credentials"}
	}
	return nil
}

// NewToken makes and stores a token with the rights of the client at most.
func (s *Accounts) NewToken(r *Request, q *wire.TokenSpec) (secret string, row auth.TokenRow, err error) {
	now := s.now()
	spec := auth.TokenSpec{Name: q.Name, Scopes: q.Scopes, Products: q.Products}
	if u := q.Uploads; u != nil {
		spec.Uploads = auth.Uploads{Product: u.Product, Version: u.Version, Branch: u.Branch, Class: u.Class}
		if u.URL != "" {
			return "", row, BadMember("the token is not valid", "uploads.url", "only the server sets it")
		}
	}
	if !q.Expires.IsZero() {
		if spec.Lifetime = q.Expires.Sub(now); spec.Lifetime <= 0 {
			return "", row, BadMember("the token is not valid", "expires", "is in the past")
		}
	}
	secret, row, err = s.gate.MakeFor(&r.Identity, &r.Rights, spec, now)
	if no, ok := errors.AsType[*auth.NotAllowedError](err); ok {
		return "", row, &Problem{Word: "forbidden", Detail: no.Text}
	}
	if err != nil {
		return "", row, &Problem{Word: "query", Detail: err.Error()}
	}
	if err := s.store.PutToken(r.Context(), row); err != nil {
		return "", row, err
	}
	s.log.Info("a token was made", "request", r.ID, "token_id", row.ID, "name", row.Name, "by", row.CreatedBy)
	return secret, row, nil
}

// Revoke revokes a token that the client may manage. Running servers notice within
// seconds.
func (s *Accounts) Revoke(r *Request, id string) error {
	row, err := s.Token(r, id)
	if err != nil {
		return err
	}
	switch err := s.store.Revoke(r.Context(), row.ID); {
	case errors.Is(err, fs.ErrNotExist):
		return &Problem{Word: "not-found", Detail: "there is no such token"}
	case err != nil:
		return err
	}
	s.log.Info("a token was revoked", "request", r.ID, "token_id", row.ID, "by", r.Identity.Maker())
	return nil
}

// Whoami says who a client is and what it may do.
func Whoami(p *Principal) wire.Me {
	id, rights := &p.Identity, &p.Rights
	me := wire.Me{
		Name: id.Name, Anonymous: id.Anonymous(), Method: string(id.Method), Carrier: id.Carrier, TokenID: id.TokenID,
		SignIn: id.SignIn, Login: id.Login,
		Rights: wire.Rights{
			Admin: rights.Admin, Read: products(rights.All, rights.Products),
			Write: products(rights.WriteAll, rights.WriteProducts), Public: rights.Public,
		},
	}
	if rights.PublicAll {
		me.Rights.Public = []string{auth.AllProducts}
	}
	if !id.Until.IsZero() {
		me.Until = id.Until.UTC()
	}
	me.Words = rightsInWords(&me.Rights)
	return me
}

// products returns nil for all products, and otherwise a list that is not nil.
func products(all bool, list []string) []string {
	if all {
		return nil
	}
	return append([]string{}, list...)
}

// rightsInWords says in sentences what rights are.
func rightsInWords(r *wire.Rights) []string {
	if r.Admin {
		return []string{"You are an administrator and may do everything."}
	}
	say := func(what string, list []string) string {
		names := make([]string, len(list))
		for i, p := range list {
			if names[i] = strconv.Quote(p); p == "" {
				names[i] = "without a name"
			}
		}
		switch n := len(names); {
		case list == nil:
			return "You may " + what + " all products."
		case n == 0:
			return "You may not " + what + " any product."
		case n == 1:
			return "You may " + what + " the product " + names[0] + "."
		default:
			return "You may " + what + " the products " + strings.Join(names[:n-1], ", ") + " and " + names[n-1] + "."
		}
	}
	words := []string{say("read", r.Read), say("add files to", r.Write)}
	switch {
	case slices.Contains(r.Public, auth.AllProducts):
		words = append(words, say("get the public forms of the files of", nil))
	case len(r.Public) > 0:
		words = append(words, say("get the public forms of the files of", r.Public))
	}
	return words
}

// SignIns returns the sign-ins and the logins that the client may see and that have not ended, oldest
// first.
func (s *Accounts) SignIns(r *Request) ([]auth.TokenRow, error) {
	if err := s.MayHaveTokens(r); err != nil {
		return nil, err
	}
	list, err := s.store.SignIns(r.Context())
	now := s.now()
	list = slices.DeleteFunc(list, func(row auth.TokenRow) bool { _, ok := auth.DescribeSignIn(&row, now); return !ok })
	return managed(r, list), err
}

// SignInOf describes a sign-in or a login.
func (s *Accounts) SignInOf(r *Request, row *auth.TokenRow) wire.SignInInfo {
	i, _ := auth.DescribeSignIn(row, s.now())
	kind, here := wire.SignInBrowser, r.Identity.SignIn
	if i.Kind == auth.KindLogin {
		kind, here = wire.SignInProgram, r.Identity.Login
	}
	return wire.SignInInfo{
		ID: i.ID, Kind: kind, Machine: i.Machine, Name: i.Name, Method: string(i.Method), TokenID: i.TokenID, Address: i.Remote, Browser: i.Agent,
		Created: i.Created.UTC(), LastUsed: i.LastUsed.UTC(), Expires: i.Expires.UTC(), Current: i.ID == here,
	}
}

// FinishSignIn ends a sign-in or a login that the client may see. Other servers notice within
// seconds.
func (s *Accounts) FinishSignIn(r *Request, id string) error {
	list, err := s.SignIns(r)
	if err != nil {
		return err
	}
	none := &Problem{Word: "not-found", Detail: "there is no such sign-in"}
	if !slices.ContainsFunc(list, func(row auth.TokenRow) bool { return row.ID == id }) {
		return none
	}
	switch err := s.gate.EndSignIn(r.Context(), id); {
	case errors.Is(err, fs.ErrNotExist):
		return none
	case err != nil:
		return err
	}
	s.log.Info("a sign-in was ended", "request", r.ID, "signin_id", id, "by", r.Identity.Maker())
	return nil
}

// AuditFilter reads the filters of a request for the audit log.
func (s *Accounts) AuditFilter(q url.Values) (f auth.AuditFilter, err error) {
	f = auth.AuditFilter{
		Who: q.Get("who"), Node: q.Get("node"), Remote: q.Get("remote"), Action: q.Get("action"),
		Product: q.Get("product"), Name: q.Get("file"), ID: q.Get("id"),
	}
	for name, to := range map[string]*time.Time{"since": &f.Since, "until": &f.Until} {
		if *to, err = term.ParseMoment(q.Get(name), s.now().UTC()); err != nil {
			return f, WrongParameter(name, err.Error())
		}
	}
	return f, nil
}

// AuditStep reads a part of the audit log for administrators. It reads a limited part of
// the files, so that an answer comes soon; next is where the next part begins.
func (s *Accounts) AuditStep(r *Request, step auth.AuditStep) (auth.AuditPage, error) {
	if !r.Rights.Admin {
		if r.Anonymous && len(r.Challenges) > 0 {
			return auth.AuditPage{}, &Problem{Word: "credentials"}
		}
		return auth.AuditPage{}, &Problem{Word: "forbidden", Detail: "the audit log needs the right admin"}
	}
	if s.audit == nil {
		return auth.AuditPage{}, &Problem{Word: "not-found", Detail: "this server has no audit log (auth.audit.file)"}
	}
	select {
	case s.audits <- struct{}{}:
		defer func() { <-s.audits }()
	case <-r.Context().Done():
		return auth.AuditPage{}, r.Context().Err()
	}
	r.Allow(AnswerTime)
	page, err := s.audit.Step(step)
	if errors.Is(err, auth.ErrAuditCursor) {
		err = &Problem{Word: "cursor"}
	}
	return page, err
}

// maxAudits limits the parts of the audit log that are read at the same time.
const maxAudits = 2
