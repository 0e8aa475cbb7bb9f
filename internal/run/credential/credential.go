// Package credential is a credential helper: it answers what Microsoft's debuggers and git ask
// for a server with the access token of a login.
//
// Both protocols are lines of key=value, which end with an empty line or with the input. A
// request is that of a debugger if it has a key that only debuggers send (interactive, issilent,
// isretry, parenthwnd, resourcekind), if the operation or a key has a letter in upper case (git
// sends none), or if Helper.Debugger says so. Any other request is that of git.
package credential

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
)

// ErrSignIn is wrapped by Logins.Access if no token can be had before the person signs in
// again, and by Helper.Run if the person may not be asked.
var ErrSignIn = errors.New("a new sign-in is needed")

// Logins are the logins of this user. All processes of the user share them. Nothing is written
// to standard output, and no error has a secret.
type Logins interface {
	// Covering returns the base URL of the server, of those to which the user has signed in
	// with this machine, that a URL belongs to: scheme, host and port are equal, and the path
	// begins with the segments of the base URL. It is "" if there is none. A server stays
	// known when its login ends by itself.
	Covering(ctx context.Context, address string) (server string, err error)
	// Access returns a token for a server that Covering has returned: the kept one, or one
	// that a refresh brings. It opens no sign-in. An error that wraps ErrSignIn says what to
	// type, and no token is kept then.
	Access(ctx context.Context, server string, opt AccessOptions) (Access, error)
	// SignIn lets the person sign in to a server with the browser, and keeps the new login.
	// window is the number of the window that asks; 0 is none.
	SignIn(ctx context.Context, server string, window int64) (Access, error)
	// Forget drops the access token that is kept for a server, if it is this token or if
	// token is empty. The login stays, and the next Access refreshes.
	Forget(ctx context.Context, server, token string) error
	// Turn waits until no other process of this user signs in to a server; waited says that
	// one did. done gives the turn to the next.
	Turn(ctx context.Context, server string) (done func(), waited bool, err error)
}

// AccessOptions say how Logins.Access gets a token. The zero value returns the kept token, or
// refreshes it, and asks nobody.
type AccessOptions struct {
	// PassOverCache: the server has refused the kept token, so Access gets a new one.
	PassOverCache bool
	// Interactive: the system may ask the person to unlock what keeps the login.
	Interactive bool
}

// Access is a token of a server.
type Access struct {
	Token   string
	Name    string    // of the person
	Expires time.Time // zero if it is not known
}

// quietTime is how long a request may take that asks nobody: the server can be away.
const quietTime = 30 * time.Second

// Helper answers requests with the logins of a user.
type Helper struct {
	Logins Logins
	// Debugger: every request is that of a debugger.
	Debugger bool
	// Silent: the person is never asked, whatever a request says.
	Silent bool
}

// Run reads one request and writes the answer. operation is get, store or erase, in any letter
// case. Git wants other operations to do nothing, and store does nothing: a token comes from
// Logins only.
//
// A debugger gets the reason of a failure as a line error=TEXT, and Run returns nil: whether a
// debugger reads the output of a program with another exit code than 0 is not documented. For
// git, Run returns the error. It wraps ErrSignIn if the person has to sign in.
func (h Helper) Run(ctx context.Context, operation string, in io.Reader, out io.Writer) error {
	q, err := readRequest(in, operation)
	q.debugger = q.debugger || h.Debugger
	q.silent = q.silent || h.Silent
	switch strings.ToLower(operation) {
	case "get":
		var answer []string
		if err == nil {
			answer, err = h.get(ctx, q)
		}
		if err != nil && q.debugger {
			answer, err = []string{"error=" + oneLine(err.Error())}, nil
		}
		if err != nil || len(answer) == 0 {
			return err
		}
		if _, err := io.WriteString(out, strings.Join(answer, "\n")+"\n\n"); err != nil {
			return term.OutputError{Err: err}
		}
	case "erase":
		if err != nil {
			return err
		}
		return h.erase(ctx, q)
	case "store":
		return err
	default:
		if q.debugger {
			_, err = io.WriteString(out, "error=the operation is not known: symdepot answers get, store and erase\n\n")
			return err
		}
	}
	return nil
}

// get returns the lines of the answer. None: there is no login for this server, and git asks
// its next helper.
func (h Helper) get(ctx context.Context, q request) ([]string, error) {
	address, err := q.address()
	if err != nil && !q.debugger {
		return nil, nil // git asks its next helper
	}
	if err != nil {
		return nil, err
	}
	server, err := h.Logins.Covering(ctx, address)
	switch {
	case err != nil:
		return nil, err
	case server == "" && q.debugger:
		return nil, fmt.Errorf("there is no login on this machine for %s://%s; symdepot login --list shows the logins", q.scheme, q.host)
	case server == "":
		return nil, nil
	}
	a, err := h.access(ctx, server, q)
	if err != nil {
		return nil, err
	}
	if !isBearerToken(a.Token) {
		return nil, fmt.Errorf("the token of the login for %s has characters that no request can carry; type: symdepot login %s", server, server)
	}
	a.Name = oneLine(a.Name)
	if a.Name == "" {
		a.Name = "token" // servers ignore the name beside a token
	}
	if q.debugger {
		return []string{"username=" + a.Name, "credentialkind=Bearer", "header=Bearer " + a.Token}, nil
	}
	if q.username != "" && q.username != a.Name {
		return nil, nil // git asks for another person
	}
	return gitAnswer(a, q.authtype), nil
}

// gitAnswer returns the lines for git. authtype: this git takes a credential for any scheme of
// authentication.
func gitAnswer(a Access, authtype bool) (lines []string) {
	if authtype {
		lines = []string{"capability[]=authtype", "authtype=Bearer", "credential=" + a.Token, "ephemeral=1", "username=" + a.Name}
	} else {
		lines = []string{"username=" + a.Name, "password=" + a.Token}
	}
	if !a.Expires.IsZero() {
		lines = append(lines, fmt.Sprintf("password_expiry_utc=%d", a.Expires.Unix()))
	}
	return lines
}

// access returns a token. The person signs in if there is no other way and the request allows
// it, in one process at a time: the others then find the new login. They do not ask again if
// there is none, because the person has just declined.
func (h Helper) access(ctx context.Context, server string, q request) (Access, error) {
	opt := AccessOptions{PassOverCache: q.retry, Interactive: !q.silent}
	if q.silent {
		return h.quiet(ctx, server, opt)
	}
	a, err := h.Logins.Access(ctx, server, opt)
	if !errors.Is(err, ErrSignIn) {
		return a, err
	}
	done, waited, err := h.Logins.Turn(ctx, server)
	if err != nil {
		return a, err
	}
	defer done()
	opt.PassOverCache = false // what is kept now is new
	if a, err := h.Logins.Access(ctx, server, opt); waited || !errors.Is(err, ErrSignIn) {
		return a, err
	}
	return h.Logins.SignIn(ctx, server, q.window)
}

// quiet returns a token without asking anybody, within quietTime.
func (h Helper) quiet(ctx context.Context, server string, opt AccessOptions) (Access, error) {
	limited, cancel := context.WithTimeout(ctx, quietTime)
	defer cancel()
	a, err := h.Logins.Access(limited, server, opt)
	switch {
	case errors.Is(err, ErrSignIn):
		err = fmt.Errorf("%w (the request forbids to ask)", err)
	case err != nil && ctx.Err() == nil && limited.Err() != nil:
		err = fmt.Errorf("%s has not answered within %v; try again later: %w", server, quietTime, err)
	}
	return a, err
}

// erase drops the access token that the server has refused.
func (h Helper) erase(ctx context.Context, q request) error {
	address, err := q.address()
	if err != nil {
		return nil //nolint:nilerr // it is no server of the user
	}
	server, err := h.Logins.Covering(ctx, address)
	if err != nil || server == "" {
		return err
	}
	return h.Logins.Forget(ctx, server, q.password)
}

// oneLine makes a text one printable line.
func oneLine(s string) string {
	return term.Printable(strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), "; "))
}

// isBearerToken reports whether a text can be sent as a bearer token, as RFC 6750 spells one.
func isBearerToken(s string) bool {
	s = strings.TrimRight(s, "=")
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return ('a' > r || r > 'z') && ('A' > r || r > 'Z') && ('0' > r || r > '9') && !strings.ContainsRune("-._~+/", r)
	}) < 0
}
