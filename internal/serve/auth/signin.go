package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/wire"
)

// A sign-in lets a browser use the credentials that it had once. It is stored beside
// the tokens: the hash of a secret, which a cookie of the browser has. What the browser
// may do is decided anew for each request, by the credentials that it was begun with,
// and it ends when they end.

// KindSignIn is TokenRow.Kind of a sign-in.
const KindSignIn = "signin"

const (
	// signInLife is the longest life of a sign-in, signInIdle how long it lives without
	// a use.
	signInLife = 7 * 24 * time.Hour
	signInIdle = 12 * time.Hour
	// maxSignInsEach is how many one principal may have, maxSignIns how many there may
	// be.
	maxSignInsEach = 20
	maxSignIns     = 10_000
	// maxSignInGroups limits the groups that are kept with a sign-in, maxAgent the text
	// about its browser, in bytes.
	maxSignInGroups = 256
	maxAgent        = 200
)

// ErrManySignIns means that the store has as many sign-ins as it may.
var ErrManySignIns = errors.New("too many browsers are signed in")

// SignIn is a new sign-in.
type SignIn struct {
	ID      string
	Secret  string // for the cookie
	Name    string // of the principal
	Expires time.Time
	// Reply, if not empty, must be sent as WWW-Authenticate.
	Reply string
}

// hashSignIn returns the hash under which a sign-in is stored. It differs from that of
// a token, so that neither is taken for the other.
func hashSignIn(secret string) [32]byte { return sha256.Sum256([]byte("signin " + secret)) }

// isSignIn reports whether a text has the form of the secret of a sign-in.
func isSignIn(secret string) bool {
	return len(secret) == tokenDigits && !strings.ContainsFunc(secret, func(r rune) bool { return r > 127 || !tokenDigit(byte(r)) })
}

// SignInOffers are the ways in which browsers can sign in.
type SignInOffers struct {
	Password bool   // with a user name and a password
	Ticket   bool   // with a Kerberos ticket
	OIDC     string // at an OpenID provider: what the link says; empty: not offered
}

// SignInOffers returns the ways in which browsers can sign in, apart from tokens, with
// which they always can.
func (g *Gate) SignInOffers() SignInOffers {
	o := SignInOffers{Password: g.users != nil, Ticket: g.tickets != nil}
	if g.login != nil {
		o.OIDC = g.login.Title()
	}
	return o
}

// SignInPassword begins a sign-in with a user name and a password, or with a token in
// place of the password. r is the request, as its client has sent it. If the challenge
// is not nil, it is the response.
func (g *Gate) SignInPassword(r *http.Request, user, password string) (SignIn, *Challenge) {
	user, password = strings.TrimSpace(user), strings.TrimRight(password, "\r\n")
	c := passwordCredential(user, password)
	if token := strings.TrimSpace(password); IsToken(token) {
		c = credential{kind: kindToken, secret: token}
	} else if c.kind == kindPassword && g.users == nil {
		c = badCredential("this server has no users with passwords")
	}
	return g.signIn(r, &c)
}

// SignInTicket begins a sign-in with the Kerberos ticket of a request. Without one the
// challenge asks for it.
func (g *Gate) SignInTicket(r *http.Request) (SignIn, *Challenge) {
	ask := &Challenge{
		Status: http.StatusUnauthorized, Header: []string{wire.Negotiate}, Text: "the browser sent no Kerberos ticket",
		Reason: errNothing.Error(),
	}
	if g.tickets == nil {
		return SignIn{}, &Challenge{Status: http.StatusNotFound, Reason: errMethod.Error()}
	}
	if r.Header["Authorization"] == nil {
		return SignIn{}, ask
	}
	c := readCredential(r.Header)
	if c.kind != kindNegotiate {
		ask.Reason = "the Authorization header has no ticket"
		if c.kind == kindBad {
			ask.Reason = c.why
		}
		return SignIn{}, ask
	}
	in, challenge := g.signIn(r, &c)
	if challenge != nil && challenge.Status == http.StatusUnauthorized {
		reply := wire.Negotiate
		if len(challenge.Header) > 0 {
			reply = challenge.Header[0] // it goes on with the negotiation
		}
		challenge.Header = []string{reply}
	}
	return in, challenge
}

// signIn begins a sign-in with credentials.
func (g *Gate) signIn(r *http.Request, c *credential) (SignIn, *Challenge) {
	id, rights, err := g.verify(r, c)
	if err != nil {
		return SignIn{}, g.failed(err, &Identity{Reply: id.Reply}, false)
	}
	text := ""
	switch {
	case id.Exchanged: // a job has no browser, and its token is for its uploads
		text = "the token of a CI job signs in no browser"
	case id.Login != "": // the sign-in would outlive the login
		text = "the token of a login signs in no browser"
	}
	if text != "" {
		return SignIn{}, &Challenge{Status: http.StatusForbidden, Text: text, Reason: text}
	}
	facts := signInFacts{Method: id.Method}
	switch id.Method {
	case MethodToken:
		hash := HashToken(c.secret)
		facts.Token = hex.EncodeToString(hash[:])
	case MethodBasic:
		if facts.Password = g.users.fingerprint(id.Name); facts.Password == "" {
			return SignIn{}, g.failed(errPassword, nil, false) // removed meanwhile
		}
	case MethodNegotiate:
		facts.SIDs = g.policy().namedSIDs(id.SIDs)
	}
	return g.beginSignIn(r, &id, &rights, facts)
}

// beginSignIn stores a sign-in of an identity.
func (g *Gate) beginSignIn(r *http.Request, id *Identity, rights *Rights, facts signInFacts) (SignIn, *Challenge) {
	if !rights.Admitted {
		return SignIn{}, notAdmitted(id)
	}
	now := g.now()
	facts.Remote, facts.Agent = addressOf(r.RemoteAddr), agentOf(r)
	text, err := json.Marshal(facts)
	if err != nil {
		return SignIn{}, g.failed(errors.Join(errStore, err), nil, false)
	}
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the program instead
	in := SignIn{Secret: base64.RawURLEncoding.EncodeToString(b[:]), Name: id.Name, Expires: now.Add(signInLife), Reply: id.Reply}
	if !id.Until.IsZero() && id.Until.Before(in.Expires) {
		in.Expires = id.Until
	}
	if !now.Before(in.Expires) { // a ticket may be a little older than it should
		return SignIn{}, g.failed(errLoginGone, nil, false)
	}
	row := TokenRow{
		Hash: hashSignIn(in.Secret), Kind: KindSignIn, Name: id.Name, Scopes: []string{}, Created: now, Expires: in.Expires,
		CreatedBy: id.Maker(), Parent: id.TokenID, Facts: string(text),
	}
	row.ID = shortID(row.Hash)
	in.ID = row.ID
	switch err := g.store.PutSignIn(r.Context(), row, SignInLimits{Idle: signInIdle, Each: maxSignInsEach, All: maxSignIns}); {
	case errors.Is(err, ErrManySignIns):
		return SignIn{}, &Challenge{Status: http.StatusTooManyRequests, Text: err.Error(), Reason: err.Error()}
	case err != nil:
		g.log.Error("cannot store a sign-in", "error", err)
		return SignIn{}, &Challenge{Status: http.StatusServiceUnavailable, Text: "sign-ins cannot be stored now", Reason: err.Error()}
	}
	g.log.Info("a browser signed in", "who", id.Name, "by", id.Method, "signin_id", row.ID, "remote", r.RemoteAddr)
	return in, nil
}

// agentOf returns what a program says about itself, for lists.
func agentOf(r *http.Request) string {
	agent := strings.ToValidUTF8(Redact(r.UserAgent()), "?")
	if len(agent) > maxAgent {
		agent = strings.ToValidUTF8(agent[:maxAgent], "")
	}
	return agent
}

// SignOut ends the sign-in of a request's cookie.
func (g *Gate) SignOut(ctx context.Context, id *Identity) error {
	if id.SignIn == "" {
		return nil
	}
	return g.EndSignIn(ctx, id.SignIn)
}

// EndSignIn ends a sign-in or a login: on this server at once, on the others within seconds.
// One that has ended is fs.ErrNotExist.
func (g *Gate) EndSignIn(ctx context.Context, id string) error {
	err := g.store.EndSignIn(ctx, id)
	if errors.Is(err, fs.ErrNotExist) {
		err = g.store.EndLogin(ctx, id)
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		g.tokens.forget(id)
	}
	return err
}

// AuthenticateBrowser is Authenticate for the addresses on which a sign-in counts.
// signIn is the value of the cookie, or empty. Credentials in the path or the header
// take precedence over it; it takes precedence over those of the connection.
func (g *Gate) AuthenticateBrowser(r *http.Request, pathToken, signIn string) (Identity, Rights, *Challenge) {
	if g.off || signIn == "" || pathToken != "" || carriesAny(r.Header) {
		return g.Authenticate(r, pathToken)
	}
	id, rights, err := g.bySignIn(r.Context(), signIn, true)
	switch {
	case errors.Is(err, errStore), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return Identity{}, Rights{}, g.failed(err, nil, false)
	case err == nil && !rights.Admitted:
		return id, Rights{}, notAdmitted(&id)
	case err == nil:
		return id, rights, nil
	}
	id, rights, challenge := g.Authenticate(r, "")
	if challenge != nil {
		challenge.Reason = err.Error()
	} else if id.Failure == "" {
		id.Failure = err.Error()
	}
	return id, rights, challenge
}

// Again reports whether the credentials of a request whose answer goes on for long still
// count; id is what they proved. It is no use of a sign-in.
func (g *Gate) Again(r *http.Request, pathToken, signIn string, id *Identity) bool {
	switch {
	case id.SignIn != "":
		_, rights, err := g.bySignIn(r.Context(), signIn, false)
		return err == nil && rights.Admitted
	case id.Method == MethodToken, id.Login != "":
		_, _, c := g.Authenticate(r, pathToken)
		return c == nil
	}
	if id.Anonymous() {
		return true
	}
	_, _, err := g.Still(r.Context(), g.Credential(id))
	return err == nil
}

// bySignIn returns the identity of a sign-in and its rights. The error is errSignIn,
// errLoginGone or the context's, or it wraps errStore. use records a use.
func (g *Gate) bySignIn(ctx context.Context, secret string, use bool) (Identity, Rights, error) {
	if !isSignIn(secret) {
		return Identity{}, Rights{}, errSignIn
	}
	hash := hashSignIn(secret)
	e, err := g.tokens.entry(ctx, hash)
	if errors.Is(err, errNoToken) {
		err = errSignIn
	}
	if err != nil {
		return Identity{}, Rights{}, err
	}
	now := g.now()
	if e.row.Kind != KindSignIn || e.row.Hash != hash || !now.Before(e.row.Expires) || !g.tokens.usedSince(&e.row, now.Add(-signInIdle)) {
		return Identity{}, Rights{}, errSignIn
	}
	var facts signInFacts
	if err := json.Unmarshal([]byte(e.row.Facts), &facts); err != nil {
		return Identity{}, Rights{}, errors.Join(errStore, err)
	}
	id, rights, err := g.judge(ctx, e.row.Name, &facts)
	if err != nil {
		return Identity{}, Rights{}, err
	}
	if use {
		g.tokens.touch(e.row.ID, now)
	}
	id.Carrier, id.SignIn = "cookie", e.row.ID
	if id.Until.IsZero() || e.row.Expires.Before(id.Until) {
		id.Until = e.row.Expires
	}
	return id, rights, nil
}

// SignInInfo describes a sign-in or a login for lists.
type SignInInfo struct {
	ID       string
	Kind     string // KindSignIn or KindLogin
	Machine  string // of the program of a login, as it says
	Name     string // of the principal
	Method   Method
	TokenID  string // of the token that it was begun with
	Remote   string // address at the beginning
	Agent    string // of the browser
	Created  time.Time
	LastUsed time.Time
	Expires  time.Time // at the latest
}

// DescribeSignIn describes a stored sign-in or a login. ok is false if it has ended.
func DescribeSignIn(row *TokenRow, now time.Time) (info SignInInfo, ok bool) {
	var facts signInFacts
	if row.Kind != KindSignIn && row.Kind != KindLogin || json.Unmarshal([]byte(row.Facts), &facts) != nil {
		return info, false
	}
	used := row.LastUsed
	if used.IsZero() {
		used = row.Created
	}
	info = SignInInfo{
		ID: row.ID, Kind: row.Kind, Machine: facts.Machine, Name: row.Name, Method: facts.Method, TokenID: row.Parent, Remote: facts.Remote,
		Agent: facts.Agent, Created: row.Created, LastUsed: used, Expires: row.Expires,
	}
	if idle := used.Add(signInIdle); row.Kind == KindSignIn && idle.Before(info.Expires) {
		info.Expires = idle
	}
	return info, now.Before(info.Expires)
}
