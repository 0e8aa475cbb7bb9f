package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"strings"
	"time"
)

// A login lets the programs of one machine use the rights of a person. It is a family of
// refresh tokens, of which one counts: each use gives another one, and one that comes again
// ends the login, because somebody else may have it. Access tokens have the form of other
// tokens. What they may do is decided anew for each request, by the credentials of the person
// who allowed the login, and the login ends when these end.

// Kinds of TokenRow: the access token of a login, and a login in a list of sign-ins.
const (
	KindAccess = "access"
	KindLogin  = "login"
)

// A refresh token is refreshPrefix, familyDigits characters of base64url that all refresh
// tokens of the login have in common (16 random bytes), and tokenDigits of its own (32).
const (
	refreshPrefix = "sr_"
	familyDigits  = 22
	refreshLen    = len(refreshPrefix) + familyDigits + tokenDigits
)

const (
	// accessLife is the lifetime of an access token, refreshLife that of a login without
	// another refresh.
	accessLife  = time.Hour
	refreshLife = 30 * 24 * time.Hour
	// maxLoginsEach is how many logins one principal may have, maxLogins how many there may
	// be.
	maxLoginsEach = 20
	maxLogins     = 10_000
)

// Logins is the part of a Store for logins and the requests for them.
type Logins interface {
	// BeginLogin begins the login that the request with a hash allows: it marks the request
	// as used, and adds the login and the access token that fill returns. fill may refuse
	// with an error, and may be called several times. A request that was used before ends
	// its login; the error is ErrReused. An unknown or expired one is fs.ErrNotExist. If
	// there are too many logins, the error is ErrManyLogins.
	BeginLogin(ctx context.Context, request [32]byte, limits LoginLimits, fill func(*RequestRow) (LoginRow, TokenRow, error)) error
	// RefreshLogin gives a login another refresh token, with the hash next, in place of that
	// with the hash old, and an access token. If the login has another refresh token already,
	// it ends; the error is ErrReused. An unknown or expired one is fs.ErrNotExist.
	RefreshLogin(ctx context.Context, family, old, next [32]byte, expires time.Time, access TokenRow) error
	// EndLogin deletes a login with its access tokens; an unknown one is fs.ErrNotExist.
	EndLogin(ctx context.Context, id string) error
	// LoginByFamily and LoginByID return a login, even if it has expired. If there is none,
	// the error is fs.ErrNotExist.
	LoginByFamily(ctx context.Context, family [32]byte) (LoginRow, error)
	LoginByID(ctx context.Context, id string) (LoginRow, error)
	// PutRequest adds a request. If its user code exists, the error is fs.ErrExist; if there
	// are too many, ErrManyRequests.
	PutRequest(ctx context.Context, row RequestRow, limits RequestLimits) error
	// RequestByUserCode returns the request that waits for the answer of a person. If there is
	// none, the error is fs.ErrNotExist.
	RequestByUserCode(ctx context.Context, user [32]byte) (RequestRow, error)
	// AnswerRequest stores the answer to the request with a user code: State, Name, CreatedBy,
	// Credential, Parent and Ends. If it does not wait for one, the error is fs.ErrNotExist.
	AnswerRequest(ctx context.Context, row RequestRow) error
	// AskRequest notes that a program asks for the answer, and returns the request as it was
	// before. One that asks too soon must wait longer from then on, by more.
	AskRequest(ctx context.Context, hash [32]byte, more time.Duration) (row RequestRow, soon bool, err error)
}

// LoginRow is a stored login.
type LoginRow struct {
	ID     string
	Family [32]byte // hash of what all refresh tokens of the login have in common
	Hash   [32]byte // of the refresh token that counts
	Name   string   // of whoever allowed it
	// CreatedBy is Identity.Maker of whoever allowed it, Credential what Gate.Credential says
	// of the credentials.
	CreatedBy, Credential string
	// Parent is the id of the token with which it was allowed, and with which it ends; empty:
	// none.
	Parent                  string
	Machine, Address, Agent string // of the program
	Created, LastUsed       time.Time
	Expires                 time.Time // without another refresh
	Ends                    time.Time // at the latest
}

// LoginLimits bound the logins that are stored: Each is how many one principal may have, a new
// one ends the one that was not used for the longest time; All is how many there may be.
type LoginLimits struct{ Each, All int }

// SignInRow returns the login as a row in a list of sign-ins.
func (l *LoginRow) SignInRow() TokenRow {
	var f credentialFacts
	_ = json.Unmarshal([]byte(l.Credential), &f) // the list has no method then
	text, err := json.Marshal(signInFacts{Method: f.Method, Remote: l.Address, Agent: l.Agent, Machine: l.Machine})
	if err != nil {
		text = nil // impossible: they are texts
	}
	return TokenRow{
		ID: l.ID, Kind: KindLogin, Name: l.Name, Created: l.Created, LastUsed: l.LastUsed, Expires: l.Expires, CreatedBy: l.CreatedBy,
		Parent: l.Parent, Facts: string(text),
	}
}

var (
	// ErrGrant means that a code or a refresh token is unknown, was used before, or has
	// ended with the credentials of whoever allowed it.
	ErrGrant = errors.New("the code or the token is unknown, was used before or has ended: log in again")
	// ErrReused means that a code or a refresh token was used before: its login has ended.
	ErrReused = errors.New("it was used before: its login has ended")
	// ErrManyLogins means that the store has as many logins as it may.
	ErrManyLogins = errors.New("too many programs are logged in")
)

// LoginTokens are what a program gets of its login.
type LoginTokens struct {
	Login           string // its id
	Name            string // of whoever allowed it
	Access, Refresh string
	// AccessLife is how long the access token is valid, RefreshLife how long the refresh
	// token.
	AccessLife, RefreshLife time.Duration
}

// hashFamily and hashRefresh return the hashes under which a login is stored.
func hashFamily(family string) [32]byte  { return sha256.Sum256([]byte("family " + family)) }
func hashRefresh(secret string) [32]byte { return sha256.Sum256([]byte("refresh " + secret)) }

// readRefresh returns the hashes of a refresh token. ok is false if a text does not have the
// form of one.
func readRefresh(secret string) (family, hash [32]byte, ok bool) {
	digits, ok := strings.CutPrefix(secret, refreshPrefix)
	if !ok || len(secret) != refreshLen || strings.ContainsFunc(digits, func(r rune) bool { return r > 127 || !tokenDigit(byte(r)) }) {
		return family, hash, false
	}
	return hashFamily(digits[:familyDigits]), hashRefresh(secret), true
}

// randomDigits returns n random bytes in base64url.
func randomDigits(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails: it ends the program instead
	return base64.RawURLEncoding.EncodeToString(b)
}

// issue makes the tokens of a login, at its beginning and at each refresh. family is what its
// refresh tokens have in common. l gets what changes.
func (l *LoginRow) issue(family string, now time.Time) (t LoginTokens, access TokenRow) {
	t = LoginTokens{Login: l.ID, Name: l.Name, Access: NewToken(), Refresh: refreshPrefix + family + randomDigits(32)}
	l.Hash, l.LastUsed, l.Expires = hashRefresh(t.Refresh), now, now.Add(refreshLife)
	if l.Ends.Before(l.Expires) {
		l.Expires = l.Ends
	}
	t.RefreshLife, t.AccessLife = l.Expires.Sub(now), min(accessLife, l.Expires.Sub(now))
	access = TokenRow{
		Hash: HashToken(t.Access), Kind: KindAccess, Name: l.Name, Scopes: []string{}, Created: now, Expires: now.Add(t.AccessLife),
		CreatedBy: l.CreatedBy, Parent: l.ID, Facts: l.Credential,
	}
	access.ID = shortID(access.Hash)
	return t, access
}

// begin begins the login that a request allows. check may refuse the request. agent is what the
// program says about itself.
func (g *Gate) begin(ctx context.Context, request [32]byte, agent string, check func(*RequestRow) error) (t LoginTokens, err error) {
	var begun LoginRow
	limits := LoginLimits{Each: maxLoginsEach, All: maxLogins}
	err = g.store.BeginLogin(ctx, request, limits, func(q *RequestRow) (LoginRow, TokenRow, error) {
		if err := check(q); err != nil {
			return LoginRow{}, TokenRow{}, err
		}
		now, family := g.now(), randomDigits(16)
		begun = LoginRow{
			Family: hashFamily(family), Name: q.Name, CreatedBy: q.CreatedBy, Credential: q.Credential, Parent: q.Parent,
			Machine: q.Machine, Address: q.Address, Agent: agent, Created: now, Ends: q.Ends,
		}
		begun.ID = shortID(begun.Family)
		if !now.Before(begun.Ends) {
			return LoginRow{}, TokenRow{}, ErrGrant
		}
		var access TokenRow
		t, access = begun.issue(family, now)
		return begun, access, nil
	})
	if err != nil {
		return LoginTokens{}, g.refusedGrant(err, "a code")
	}
	// Whoever allowed it may have lost the rights meanwhile.
	if _, _, err := g.Still(ctx, begun.Credential); err != nil {
		return LoginTokens{}, errors.Join(g.refusedGrant(err, "a code"), g.store.EndLogin(ctx, begun.ID))
	}
	g.log.Info("a program was logged in", "who", begun.Name, "login_id", begun.ID, "machine", begun.Machine, "remote", begun.Address)
	return t, nil
}

// refusedGrant returns the error for a program whose code or refresh token is not accepted:
// ErrGrant hides why. Others wrap errStore.
func (g *Gate) refusedGrant(err error, what string) error {
	switch {
	case errors.Is(err, ErrReused):
		g.warn("reused", "a login was ended: "+what+" came a second time", "reason", err)
		return ErrGrant
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, ErrEnded), errors.Is(err, ErrGrant):
		return ErrGrant
	case errors.Is(err, ErrManyLogins), errors.Is(err, ErrManyRequests), errors.Is(err, ErrDenied), errors.Is(err, context.Canceled):
		return err
	}
	g.log.Error("cannot look up or store a login", "error", err)
	return errors.Join(errStore, err)
}

// Refresh gives the program of a login other tokens for its refresh token. One that is not
// accepted is ErrGrant; one that was used before ends the login.
func (g *Gate) Refresh(ctx context.Context, refresh string) (LoginTokens, error) {
	family, hash, ok := readRefresh(refresh)
	if !ok {
		return LoginTokens{}, ErrGrant
	}
	const what = "a refresh token"
	l, err := g.store.LoginByFamily(ctx, family)
	if err != nil {
		return LoginTokens{}, g.refusedGrant(err, what)
	}
	if subtle.ConstantTimeCompare(l.Hash[:], hash[:]) == 1 {
		// A refresh is no way around what the person may do now.
		if _, _, err := g.Still(ctx, l.Credential); err != nil {
			return LoginTokens{}, g.refusedGrant(err, what)
		}
	}
	old, now := hash, g.now()
	if !now.Before(l.Expires) {
		return LoginTokens{}, ErrGrant
	}
	t, access := l.issue(refresh[len(refreshPrefix):len(refreshPrefix)+familyDigits], now)
	if err := g.store.RefreshLogin(ctx, family, old, l.Hash, l.Expires, access); err != nil {
		if errors.Is(err, ErrReused) {
			g.tokens.forget(l.ID)
		}
		return LoginTokens{}, g.refusedGrant(err, what)
	}
	return t, nil
}

// EndLoginOf ends the login of an access token or a refresh token. A text that is none of a
// login changes nothing.
func (g *Gate) EndLoginOf(ctx context.Context, token string) error {
	id := ""
	if family, _, ok := readRefresh(token); ok {
		l, err := g.store.LoginByFamily(ctx, family)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(errStore, err)
		}
		id = l.ID
	} else if IsToken(token) {
		row, err := g.store.TokenByHash(ctx, HashToken(token))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(errStore, err)
		}
		if row.Kind == KindAccess {
			id = row.Parent
		}
	}
	if id == "" {
		return nil
	}
	err := g.store.EndLogin(ctx, id)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(errStore, err)
	}
	g.tokens.forget(id)
	if err == nil {
		g.log.Info("a login was ended by its program", "login_id", id)
	}
	return nil
}

// stillLogin returns an error if the login with an id does not count any more; no id is no
// login.
func (g *Gate) stillLogin(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	l, err := g.store.LoginByID(ctx, id)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !g.now().Before(l.Expires):
		return ErrEnded
	case err != nil:
		return errors.Join(errStore, err)
	}
	return nil
}

// byLogin returns the identity of an access token, which is that of whoever allowed its login,
// and its rights now.
func (g *Gate) byLogin(ctx context.Context, e *tokenEntry, carrier string) (Identity, Rights, error) {
	id, rights, err := g.judge(ctx, e.login.Name, &e.login.signInFacts)
	if err == nil && !rights.Admitted {
		err = errLoginGone
	}
	if err != nil {
		return Identity{}, Rights{}, err
	}
	id.Carrier, id.Login, id.access, id.Until = carrier, e.row.Parent, e.row.ID, e.row.Expires
	return id, rights, nil
}

// noLogins is the part of a Store without logins.
type noLogins struct{}

func (noLogins) BeginLogin(context.Context, [32]byte, LoginLimits, func(*RequestRow) (LoginRow, TokenRow, error)) error {
	return errStore
}

func (noLogins) RefreshLogin(context.Context, [32]byte, [32]byte, [32]byte, time.Time, TokenRow) error {
	return errStore
}

func (noLogins) EndLogin(context.Context, string) error { return fs.ErrNotExist }

func (noLogins) LoginByFamily(context.Context, [32]byte) (LoginRow, error) {
	return LoginRow{}, fs.ErrNotExist
}

func (noLogins) LoginByID(context.Context, string) (LoginRow, error) {
	return LoginRow{}, fs.ErrNotExist
}

func (noLogins) PutRequest(context.Context, RequestRow, RequestLimits) error { return errStore }

func (noLogins) RequestByUserCode(context.Context, [32]byte) (RequestRow, error) {
	return RequestRow{}, fs.ErrNotExist
}

func (noLogins) AnswerRequest(context.Context, RequestRow) error { return fs.ErrNotExist }

func (noLogins) AskRequest(context.Context, [32]byte, time.Duration) (RequestRow, bool, error) {
	return RequestRow{}, false, fs.ErrNotExist
}
