package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"io/fs"
	"net/http"
	"strings"
	"time"
	"unicode"
)

// Before a login begins, a person allows it: in a browser of the machine of the program, which
// then has a code (RFC 6749 section 4.1, with the proof of RFC 7636), or in any browser, where
// the person types a code that the program shows (RFC 8628).

// The states of a request for a login.
const (
	RequestAsked   = "asked"   // a person has not answered yet
	RequestAllowed = "allowed" // the login may begin
	RequestDenied  = "denied"
	RequestUsed    = "used" // the login has begun
)

const (
	// codeLife is the lifetime of a code, deviceLife that of a request that waits for the
	// answer of a person.
	codeLife   = time.Minute
	deviceLife = 10 * time.Minute
	// devicePace is how long a program waits before it asks again, and by how much longer
	// once it came too soon.
	devicePace = 5 * time.Second
	// requestKeep is how long a request is kept after its end, so that it is recognized.
	requestKeep = 10 * time.Minute
	// maxRequestsEach is how many requests wait for one address, maxRequests how many do.
	maxRequestsEach = 20
	maxRequests     = 10_000
	// maxMachine limits the name of a machine, in bytes.
	maxMachine = 100
	// userLetters are the letters of a code that a person types: without vowels they make no
	// words. userDigits is how many letters it has.
	userLetters = "BCDFGHJKLMNPQRSTVWXZ"
	userDigits  = 8
)

var (
	// ErrManyRequests means that the store has as many requests for logins as it may.
	ErrManyRequests = errors.New("too many logins are being asked for")
	// ErrWaiting means that the person has not answered yet.
	ErrWaiting = errors.New("nobody has answered yet")
	// ErrSoon means that the program must wait longer before it asks again.
	ErrSoon = errors.New("the program asks too often")
	// ErrDenied means that the person has denied the login.
	ErrDenied = errors.New("the login was denied")
	// ErrLate means that the person did not answer in time.
	ErrLate = errors.New("nobody answered in time: log in again")
	// ErrCode means that no program waits for the code that a person typed.
	ErrCode = errors.New("no program waits for this code: it is wrong, has expired or was answered already")
)

// RequestRow is a stored request for a login.
type RequestRow struct {
	Hash [32]byte // of the code that the program has
	// UserCode is the hash of the code that the person types; zero: there is none.
	UserCode [32]byte
	State    string
	// Challenge is the code challenge (RFC 7636) of a code, Redirect where it was sent.
	Challenge, Redirect string
	// Name, CreatedBy, Credential, Parent and Ends are those of the login, once it is allowed.
	Name, CreatedBy, Credential, Parent string
	Machine, Address, Agent             string // of the program
	Created, Expires, Ends              time.Time
	// Asked is when the program asked last, zero: never; Pace how long it must wait before
	// it asks again.
	Asked time.Time
	Pace  time.Duration
	// Login is the id of the login that began with it; empty: none.
	Login string
}

// RequestLimits bound the requests that wait: Each from one address, All together. Keep is how
// long one is kept after its end.
type RequestLimits struct {
	Each, All int
	Keep      time.Duration
}

// Program is a program that asks for a login.
type Program struct {
	Machine  string // the name that it gives its machine; empty: none
	Address  string
	Agent    string
	UserCode string // the code that it shows: XXXX-XXXX; empty: none
}

// ProgramOf describes the program that sends a request. machine is what it calls its machine;
// characters that cannot be shown are left out.
func ProgramOf(r *http.Request, machine string) Program {
	machine = strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return -1
		}
		return c
	}, strings.ToValidUTF8(Redact(machine), ""))
	if len(machine) > maxMachine {
		machine = strings.ToValidUTF8(machine[:maxMachine], "")
	}
	return Program{Machine: machine, Address: addressOf(r.RemoteAddr), Agent: agentOf(r)}
}

// request returns a new request of a program.
func (p *Program) request(kind, secret, state string, now time.Time, life time.Duration) RequestRow {
	return RequestRow{
		Hash: sha256.Sum256([]byte(kind + " " + secret)), State: state, Machine: p.Machine, Address: p.Address, Agent: p.Agent,
		Created: now, Expires: now.Add(life),
	}
}

// The kinds of codes, which differ in their hashes, so that none is taken for another.
const (
	codeKind   = "code"
	deviceKind = "device"
	userKind   = "user code"
)

func hashUserCode(code string) [32]byte { return sha256.Sum256([]byte(userKind + " " + code)) }

// MayAllow returns a NotAllowedError if a principal cannot allow logins: one would outlive the
// credentials.
func MayAllow(id *Identity) error {
	switch {
	case id.Anonymous():
		return &NotAllowedError{"anonymous clients allow no logins"}
	case id.Exchanged:
		return &NotAllowedError{"the token of a CI job allows no logins"}
	case id.Login != "":
		return &NotAllowedError{"a login allows no other logins: sign in with a browser"}
	}
	return nil
}

// allow makes a request allowed by a principal.
func (g *Gate) allow(q *RequestRow, id *Identity, rights *Rights) error {
	if err := MayAllow(id); err != nil {
		return err
	}
	now := g.now()
	q.State, q.Name, q.CreatedBy, q.Parent, q.Ends = RequestAllowed, id.Name, id.Maker(), id.TokenID, now.Add(g.loginLife(id, rights))
	who := *id
	if (who.Method == MethodToken || who.Method == MethodCertificate) && !who.Until.IsZero() && who.Until.Before(q.Ends) {
		q.Ends = who.Until
	}
	who.Until = time.Time{} // the login outlives a ticket
	q.Credential = g.Credential(&who)
	return nil
}

// loginLife is the longest life of a login: shorter if the rights come from groups, which the
// server cannot ask about later.
func (g *Gate) loginLife(id *Identity, rights *Rights) time.Duration {
	if id.Method != MethodNegotiate && id.Method != MethodOIDC {
		return madeLife
	}
	alone := Identity{Name: id.Name, Method: id.Method}
	if r := g.policy().Decide(&alone); r.equal(rights) && g.policy().admits(&alone) {
		return madeLife
	}
	return groupLife
}

// AllowCode allows a login of a program of the same machine, at the will of a principal. The
// browser takes the code to redirect; challenge is the SHA-256 in base64url of what the program
// alone knows (RFC 7636).
func (g *Gate) AllowCode(
	ctx context.Context, id *Identity, rights *Rights, p Program, challenge, redirect string,
) (code string, err error) {
	code = randomDigits(32)
	q := p.request(codeKind, code, RequestAllowed, g.now(), codeLife)
	q.Challenge, q.Redirect = challenge, redirect
	if err := g.allow(&q, id, rights); err != nil {
		return "", err
	}
	if err := g.putRequest(ctx, q); err != nil {
		return "", g.refusedGrant(err, "a code")
	}
	return code, nil
}

func (g *Gate) putRequest(ctx context.Context, q RequestRow) error {
	return g.store.PutRequest(ctx, q, RequestLimits{Each: maxRequestsEach, All: maxRequests, Keep: requestKeep})
}

// RedeemCode begins the login that a code allows. verifier is what the program alone knows,
// redirect where the code was sent. A code that is not accepted is ErrGrant; one that was used
// before ends its login. r is the request of the program.
func (g *Gate) RedeemCode(r *http.Request, code, verifier, redirect string) (LoginTokens, error) {
	sum := sha256.Sum256([]byte(verifier))
	challenge := base64.RawURLEncoding.EncodeToString(sum[:])
	return g.begin(r.Context(), sha256.Sum256([]byte(codeKind+" "+code)), agentOf(r), func(q *RequestRow) error {
		if q.State != RequestAllowed || q.Redirect != redirect || subtle.ConstantTimeCompare([]byte(q.Challenge), []byte(challenge)) != 1 {
			return ErrGrant
		}
		return nil
	})
}

// DeviceRequest is a request for a login that waits for a person.
type DeviceRequest struct {
	Code     string // of the program
	UserCode string // as the person types it: XXXX-XXXX
	Life     time.Duration
	Pace     time.Duration // how long the program waits before it asks again
}

// AskDevice asks for a login of a program that a person allows at any machine.
func (g *Gate) AskDevice(ctx context.Context, p Program) (d DeviceRequest, err error) {
	d = DeviceRequest{Code: randomDigits(32), Life: deviceLife, Pace: devicePace}
	q := p.request(deviceKind, d.Code, RequestAsked, g.now(), deviceLife)
	q.Pace = devicePace
	for range 5 { // two requests may get the same letters
		letters := newUserCode()
		d.UserCode = userCodeText(letters)
		q.UserCode = hashUserCode(letters)
		if err = g.putRequest(ctx, q); !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	if err != nil {
		return DeviceRequest{}, g.refusedGrant(err, "a code")
	}
	return d, nil
}

// RedeemDevice begins the login that a person has allowed. The error is ErrWaiting, ErrSoon,
// ErrDenied or ErrLate, or as that of RedeemCode. r is the request of the program.
func (g *Gate) RedeemDevice(r *http.Request, code string) (LoginTokens, error) {
	hash := sha256.Sum256([]byte(deviceKind + " " + code))
	q, soon, err := g.store.AskRequest(r.Context(), hash, devicePace)
	switch {
	case err != nil:
		return LoginTokens{}, g.refusedGrant(err, "a device code")
	case q.State == RequestUsed: // begin ends its login
	case !g.now().Before(q.Expires):
		return LoginTokens{}, ErrLate
	case q.State == RequestDenied:
		return LoginTokens{}, ErrDenied
	case q.State == RequestAsked && soon:
		return LoginTokens{}, ErrSoon
	case q.State == RequestAsked:
		return LoginTokens{}, ErrWaiting
	}
	return g.begin(r.Context(), hash, agentOf(r), func(q *RequestRow) error {
		if q.State != RequestAllowed {
			return ErrDenied
		}
		return nil
	})
}

// newUserCode returns the letters of a new code that a person types.
func newUserCode() string {
	b, letters := make([]byte, 1), make([]byte, 0, userDigits)
	for len(letters) < userDigits {
		_, _ = rand.Read(b) // never fails
		if n := int(b[0]); n < 256/len(userLetters)*len(userLetters) {
			letters = append(letters, userLetters[n%len(userLetters)])
		}
	}
	return string(letters)
}

// userCodeText prints the letters of a code as programs and pages show them.
func userCodeText(letters string) string {
	return letters[:userDigits/2] + "-" + letters[userDigits/2:]
}

// readUserCode returns the letters of a code as a person typed it, in any case, with or without
// dash and spaces. ok is false if they cannot be a code.
func readUserCode(s string) (letters string, ok bool) {
	letters = strings.ToUpper(strings.Map(func(c rune) rune {
		if c == '-' || c == ' ' {
			return -1
		}
		return c
	}, s))
	return letters, len(letters) == userDigits && strings.Trim(letters, userLetters) == ""
}

// Asked returns the program that waits for the code that a person typed. A code for which none
// waits is ErrCode; too many of them are a *DelayedError. r is the request of the person.
func (g *Gate) Asked(r *http.Request, id *Identity, userCode string) (Program, error) {
	q, err := g.asked(r, id, userCode)
	if err != nil {
		return Program{}, err
	}
	return q.program(userCode), nil
}

// program describes the program of a request, for which a person typed a code.
func (q *RequestRow) program(userCode string) Program {
	letters, _ := readUserCode(userCode)
	return Program{q.Machine, q.Address, q.Agent, userCodeText(letters)}
}

func (g *Gate) asked(r *http.Request, id *Identity, userCode string) (RequestRow, error) {
	if err := MayAllow(id); err != nil {
		return RequestRow{}, err
	}
	address, who := addressOf(r.RemoteAddr), id.Maker()
	if wait := g.codes.wait(address, who, g.now()); wait > 0 {
		return RequestRow{}, &DelayedError{wait, "codes"}
	}
	letters, ok := readUserCode(userCode)
	q, err := RequestRow{}, fs.ErrNotExist
	if ok {
		q, err = g.store.RequestByUserCode(r.Context(), hashUserCode(letters))
	}
	if errors.Is(err, fs.ErrNotExist) {
		g.codes.failed(address, who, g.now())
		return RequestRow{}, ErrCode
	}
	if err != nil {
		return RequestRow{}, errors.Join(errStore, err)
	}
	return q, nil
}

// Answer records the answer of a principal to the program that waits for a code: whether it may
// log in. The error is that of Asked.
func (g *Gate) Answer(r *http.Request, id *Identity, rights *Rights, userCode string, may bool) (Program, error) {
	q, err := g.asked(r, id, userCode)
	if err != nil {
		return Program{}, err
	}
	q.State = RequestDenied
	if may {
		err = g.allow(&q, id, rights)
	}
	if err == nil {
		err = g.store.AnswerRequest(r.Context(), q)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = ErrCode
	case err != nil && !errors.As(err, new(*NotAllowedError)):
		err = errors.Join(errStore, err)
	}
	if err != nil {
		return Program{}, err
	}
	return q.program(userCode), nil
}
