package pages

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/web"
)

// accountPages are the pages about who may do what.
type accountPages struct {
	accounts *web.Accounts
	now      func() time.Time
}

func (s accountPages) routes() []pageRoute {
	return []pageRoute{
		page(http.MethodGet, "tokens", web.Anyone, "Account/Tokens", s.listTokens).explainedIn("auth"),
		page(http.MethodPost, "tokens", web.Anyone, "", s.makeToken),
		page(http.MethodGet, "tokens/*", web.Anyone, "", s.showToken),
		page(http.MethodGet, "tokens/*/revoke", web.Anyone, "", s.confirmRevoke),
		page(http.MethodPost, "tokens/*/revoke", web.Anyone, "", s.revokeToken),
		page(http.MethodGet, "signins", web.Anyone, "Account/Sign-ins", s.listSignIns).explainedIn("auth"), //nolint:misspell // a word
		page(http.MethodPost, "signins/*/end", web.Anyone, "", s.endSignIn),                                //nolint:misspell // as above
		page(http.MethodGet, "audit", web.IsAdmin, "Operate/Audit", s.audit).explainedIn("auth"),
	}
}

// linked returns the links between the pages of a list, whose cursor is made already.
func (f *frame) linked(next string) (v pages) {
	if f.query.Get("cursor") != "" {
		v.First = f.Here("cursor", "")
	}
	if next != "" {
		v.Next = f.Here("cursor", next)
	}
	return v
}

// tokenRow is a token in a list.
type tokenRow struct {
	wire.TokenInfo
	Link, Revoke string // Revoke is empty if it is not valid any more
	All          bool   // it is for all products
}

func (f *frame) tokenRow(t wire.TokenInfo) tokenRow {
	row := tokenRow{TokenInfo: t, Link: f.To("tokens", t.ID), All: t.Products == nil}
	if t.State == "valid" {
		row.Revoke = f.To("tokens", t.ID, "revoke")
	}
	return row
}

// tokensView is what the page of tokens shows.
type tokensView struct {
	Rows  []tokenRow
	Pages pages
	All   bool // those of everybody
	// Make: the client may make tokens, with these rights at most.
	Make    bool
	WhyNot  string
	Rights  wire.Rights
	Longest int // days, or 0
	Form    tokenForm
}

// tokenForm is a form for a new token as it was filled in.
type tokenForm struct {
	Name, Products, Days, Default, Version, Branch, Class string
	Read, Public, Write, Admin                            bool
	Error                                                 string
	Fields                                                map[string]string
}

// listTokens answers GET tokens.
func (s accountPages) listTokens(w *reply, r *web.Request, _ []string) error {
	return s.tokens(w, r, http.StatusOK, tokenForm{Read: true, Days: "90"})
}

func (s accountPages) tokens(w *reply, r *web.Request, status int, form tokenForm) error {
	list, next, err := web.PageOfTokens(w, r, "tokens", func() ([]auth.TokenRow, error) { return s.accounts.Tokens(r) })
	if err != nil {
		return err
	}
	f := w.frame(r, "Tokens", nil)
	me := web.Whoami(&r.Principal)
	v := tokensView{All: r.Rights.Admin, Pages: f.linked(next), Rights: me.Rights, Form: form}
	for i := range list {
		v.Rows = append(v.Rows, f.tokenRow(s.accounts.TokenOf(&list[i])))
	}
	// MakeFor of package auth decides; this only says it in advance.
	if v.Make = !r.Anonymous && (r.Rights.Admin || r.Identity.Method != auth.MethodToken); !v.Make {
		v.WhyNot = "A token without the scope admin makes no tokens. Sign in with a password, a ticket or at the OpenID provider."
	}
	if !r.Rights.Admin {
		v.Longest = 366
	}
	f.Notice = notices[r.URL.Query().Get("done")]
	f.D = v
	return w.print(r, status, "tokens", f)
}

// readTokenForm reads the form for a new token.
func (s accountPages) readTokenForm(r *web.Request) (form tokenForm, spec wire.TokenSpec, err error) {
	q, err := readForm(r)
	if err != nil {
		return form, spec, err
	}
	form = tokenForm{
		Name: strings.TrimSpace(q.Get("name")), Products: q.Get("products"), Days: strings.TrimSpace(q.Get("days")),
		Default: q.Get("default"), Version: q.Get("version"),
		Branch: q.Get("branch"), Class: q.Get("class"),
		Read: q.Has("read"), Public: q.Has("public"), Write: q.Has("write"), Admin: q.Has("admin"),
	}
	spec.Name = form.Name
	for scope, has := range map[string]bool{
		auth.ScopeRead: form.Read, auth.ScopeReadPublic: form.Public, auth.ScopeWrite: form.Write, auth.ScopeAdmin: form.Admin,
	} {
		if has {
			spec.Scopes = append(spec.Scopes, scope)
		}
	}
	slices.Sort(spec.Scopes)
	if len(spec.Scopes) == 0 {
		return form, spec, web.BadMember("choose what the token may do", "scopes", "at least one is expected")
	}
	for line := range strings.Lines(form.Products) {
		if line = strings.TrimSpace(line); line != "" {
			spec.Products = append(spec.Products, line)
		}
	}
	if form.Days != "" {
		n, err := strconv.Atoi(form.Days)
		if err != nil || n < 1 || n > 36500 {
			return form, spec, web.BadMember("the end is not valid", "days", "a number of days is expected, or nothing")
		}
		spec.Expires = s.now().Add(time.Duration(n) * 24 * time.Hour)
	}
	u := wire.TokenUploads{Product: form.Default, Version: form.Version, Branch: form.Branch, Class: form.Class}
	if u != (wire.TokenUploads{}) {
		spec.Uploads = &u
	}
	return form, spec, nil
}

// newLife is how long the secret of a new token can be shown: until then the browser must
// have opened the page of the token.
const newLife = time.Minute

// makeToken answers POST tokens. The secret goes to the page of the token in a cookie,
// which that page deletes: to load it again, or to go back, shows nothing.
func (s accountPages) makeToken(w *reply, r *web.Request, _ []string) error {
	if err := s.accounts.MayMakeTokens(r); err != nil {
		return err
	}
	form, spec, err := s.readTokenForm(r)
	var secret string
	var row auth.TokenRow
	if err == nil {
		secret, row, err = s.accounts.NewToken(r, &spec)
	}
	if problem := web.AsProblem(err); problem != nil && (problem.Word == "query" || problem.Word == "forbidden") {
		form.Error, form.Fields = problem.Detail, problem.Fields
		return s.tokens(w, r, problem.Status(), form)
	}
	if err != nil {
		return err
	}
	r.Transport.SetCookie(w, web.NewCookie, row.ID+"."+secret, newLife)
	return seeOther(w, r, link(r.Base, "tokens", []string{row.ID}, nil))
}

// tokenView is what the page of one token shows.
type tokenView struct {
	tokenRow
	Secret  string // of a new token
	URL     string
	Clients []web.Client
}

// showToken answers GET tokens/ID.
func (s accountPages) showToken(w *reply, r *web.Request, args []string) error {
	row, err := s.accounts.Token(r, args[0])
	if err != nil {
		return err
	}
	f := w.frame(r, "Token "+row.ID, nil)
	v := tokenView{tokenRow: f.tokenRow(s.accounts.TokenOf(&row)), URL: r.BaseURL + r.Base}
	if kept := r.Transport.Cookie(r.Request, web.NewCookie); kept != "" {
		id, secret, _ := strings.Cut(kept, ".")
		if id == row.ID && auth.IsToken(secret) && auth.HashToken(secret) == row.Hash {
			v.Secret, w.secret = secret, true
		}
		r.Transport.SetCookie(w, web.NewCookie, "", 0)
	}
	f.D = v
	return w.print(r, http.StatusOK, "token", f)
}

// confirmRevoke answers GET tokens/ID/revoke.
func (s accountPages) confirmRevoke(w *reply, r *web.Request, args []string) error {
	row, err := s.accounts.Token(r, args[0])
	if err != nil {
		return err
	}
	f := w.frame(r, "Revoke token "+row.ID, nil)
	f.D = f.tokenRow(s.accounts.TokenOf(&row))
	return w.print(r, http.StatusOK, "revoke", f)
}

// revokeToken answers POST tokens/ID/revoke.
func (s accountPages) revokeToken(w *reply, r *web.Request, args []string) error {
	if _, err := readForm(r); err != nil {
		return err
	}
	if err := s.accounts.Revoke(r, args[0]); err != nil {
		return err
	}
	return seeOther(w, r, link(r.Base, "tokens", nil, values("done", "revoked")))
}

// signInsView is what the page about the client and its sign-ins shows.
type signInsView struct {
	Me    wire.Me
	Rows  []signInRow
	Pages pages
	All   bool // those of everybody
}

type signInRow struct {
	wire.SignInInfo
	End string // where its end is posted
}

// methods are the ways to prove an identity, for people.
var methods = map[string]string{
	string(auth.MethodToken): "a token", string(auth.MethodBasic): "a password", string(auth.MethodNegotiate): "a Kerberos ticket",
	string(auth.MethodCertificate): "a certificate", string(auth.MethodOIDC): "the OpenID provider",
}

// By says how the client proved its identity.
func (v *signInsView) By() string { return methods[v.Me.Method] }

// Program reports whether it is the login of a program.
func (s *signInRow) Program() bool { return s.Kind == wire.SignInProgram }

// By says how the sign-in was begun.
func (s *signInRow) By() string { return methods[s.Method] }

// listSignIns shows who the client is, and its sign-ins.
func (s accountPages) listSignIns(w *reply, r *web.Request, _ []string) error {
	list, next, err := web.PageOfTokens(w, r, "sign-ins", func() ([]auth.TokenRow, error) { return s.accounts.SignIns(r) })
	if err != nil {
		return err
	}
	f := w.frame(r, "Sign-ins", nil)
	v := &signInsView{Me: web.Whoami(&r.Principal), All: r.Rights.Admin, Pages: f.linked(next)}
	for i := range list {
		row := signInRow{SignInInfo: s.accounts.SignInOf(r, &list[i])}
		row.End = link(r.Base, "signins", []string{row.ID, "end"}, nil) //nolint:misspell // a word of addresses
		v.Rows = append(v.Rows, row)
	}
	f.Notice = notices[r.URL.Query().Get("done")]
	f.D = v
	return w.print(r, http.StatusOK, "signins", f) //nolint:misspell // the name of a file
}

// endSignIn ends a sign-in.
func (s accountPages) endSignIn(w *reply, r *web.Request, args []string) error {
	if _, err := readForm(r); err != nil {
		return err
	}
	if err := s.accounts.FinishSignIn(r, args[0]); err != nil {
		return err
	}
	if args[0] == r.Identity.SignIn {
		r.Transport.SetCookie(w, web.SignInCookie, "", 0)
		return seeOther(w, r, r.Base+"/")
	}
	return seeOther(w, r, link(r.Base, "signins", nil, values("done", "ended"))) //nolint:misspell // a word of addresses
}

// auditView is what the page of the audit log shows.
type auditView struct {
	None                      bool // there is no audit log
	Who, Product, File, Since string
	Action                    filter
	Rows                      []auth.Event
	Pages                     pages
	GoOn                      string // where the search goes on if nothing was found yet
	Read, CSV                 string
	Damaged                   int
}

// audit answers GET audit. Each request reads a limited part of the log.
func (s accountPages) audit(w *reply, r *web.Request, _ []string) error {
	q := r.URL.Query()
	limit, after, err := web.ReadPage(q, "audit")
	if err != nil {
		return err
	}
	where, err := s.accounts.AuditFilter(q)
	if err != nil {
		return err
	}
	f := w.frame(r, "Audit log", nil)
	v := &auditView{Who: q.Get("who"), Product: q.Get("product"), File: q.Get("file"), Since: q.Get("since")}
	v.Action = filter{
		"What", "action", q.Get("action"),
		[]option{{"", "everything"}, {auth.ActionRead, "downloads"}, {auth.ActionPurge, "purges"}, {auth.ActionForce, "forced promotions"},
			{auth.ActionDump, "crash dumps"},
		},
	}
	page, err := s.accounts.AuditStep(r, auth.AuditStep{Filter: where, After: after, Limit: limit})
	if problem := web.AsProblem(err); problem != nil && problem.Word == "not-found" {
		v.None = true
	} else if err != nil {
		return err
	}
	next := ""
	if page.Next != "" {
		next = web.Cursor("audit", q, page.Next)
	}
	v.Rows, v.Pages, v.Damaged = page.Events, f.linked(next), page.Damaged
	if next != "" && len(v.Rows) < limit {
		v.GoOn, v.Read, v.Pages.Next = v.Pages.Next, term.Size(page.Read), ""
	}
	csv := url.Values{}
	for name, list := range q {
		if name != "cursor" && name != "limit" {
			csv[name] = list
		}
	}
	csv.Set("format", "csv")
	v.CSV = link(r.Base, "api", []string{"v1", "audit"}, csv)
	f.D = v
	return w.print(r, http.StatusOK, "audit", f)
}
