// Package logincmd is the commands that begin, list and end logins of this machine, and what the
// other commands take of a login.
package logincmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/base/endpoint"
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/remote/upstream"
	"github.com/symdepot/symdepot/internal/run/client"
	"github.com/symdepot/symdepot/internal/run/console"
	"github.com/symdepot/symdepot/internal/run/keyring"
	"github.com/symdepot/symdepot/internal/run/login"
)

// say prints a message for the person.
func say(a *console.Console, format string, args ...any) { fmt.Fprintf(a.Stderr, format+"\n", args...) }

// logins returns the logins of the user. keyringName is that of new logins; empty: that of the
// environment, or the system's.
func logins(stderr io.Writer, keyringName string) (*login.Logins, error) {
	dir, err := login.DefaultDir()
	if err != nil {
		return nil, err
	}
	if keyringName == "" {
		keyringName = os.Getenv(keyring.Variable)
	}
	all := &login.Logins{
		Dir: dir, Keyring: keyringName,
		HTTP: upstream.NewDialer(upstream.DialerOptions{}).ClientFor,
		Note: func(text string) { fmt.Fprintln(stderr, "symdepot:", text) },
	}
	keepFresh(all)
	return all, nil
}

// meant is an error that also means one of package client, which says the exit code.
type meant struct {
	error
	means error
}

func (m meant) Is(target error) bool { return target == m.means }
func (m meant) Unwrap() error        { return m.error }

// meaning gives an error of package login the exit code that commands have for it.
func meaning(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, login.ErrAway):
		return meant{err, client.ErrUnreachable}
	case errors.Is(err, login.ErrSignIn), errors.Is(err, login.ErrDenied):
		return meant{err, client.ErrCredentials}
	}
	return err
}

// Token returns the access tokens of the user's logins, for commands that work on a server. A
// login that is refreshed says on stderr what the user must know of its keyring.
func Token(ctx context.Context, stderr io.Writer) client.LoginToken {
	return func(server string) (func() (string, error), error) {
		if _, err := login.Canonical(server); err != nil {
			return nil, nil //nolint:nilerr // of such a server there is no login
		}
		all, err := logins(stderr, "")
		if err != nil {
			return nil, nil //nolint:nilerr // an account without a folder has no logins
		}
		if _, err := all.Find(server); errors.Is(err, login.ErrNone) {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
		opt := login.Options{Interactive: term.IsTerminal(stderr)}
		var mu sync.Mutex
		var last login.Access // so that a push asks the keyring once in an hour, not for each file
		return func() (string, error) {
			mu.Lock()
			defer mu.Unlock()
			if time.Until(last.Ends) > login.LeastLife {
				return last.Token, nil
			}
			var err error
			last, err = all.Access(ctx, server, opt)
			if err = meaning(err); err != nil && !errors.Is(err, client.ErrUnreachable) { // else it is tried again
				err = &endpoint.LocalError{What: "use its login", Err: err}
			}
			return last.Token, err
		}, nil
	}
}

// Login is the command that begins a login, or lists those there are.
type Login struct {
	URL       string `arg:"" optional:"" name:"url" help:"Base URL of the server."`
	Device    bool   `help:"Print a code to type into a browser of any machine, for a machine that has none." xor:"how"`
	TokenFile string `help:"Use the token in this file, which is read again at each use." placeholder:"FILE" xor:"how"`
	Keyring   string `help:"text:login_keyring" enum:",system,file" default:"" placeholder:"system|file"`
	List      bool   `help:"List the logins of this machine, without their secrets." xor:"how"`
	JSON      bool   `help:"Print one JSON object per login."`
	Setup
}

// Run begins a login, or lists logins.
func (c Login) Run(a *console.Console) error {
	if err := c.check(c); err != nil {
		return err
	}
	all, err := logins(a.Stderr, c.Keyring)
	if err != nil {
		return err
	}
	switch {
	case c.List:
		return c.list(a, all)
	case c.Refresh:
		return c.refresh(a, all)
	case c.URL == "":
		return term.UsageError("the server is missing: give its URL; symdepot login --list lists the logins there are")
	case c.Configure:
		return c.configure(a, all)
	}
	if _, err := login.Canonical(c.URL); err != nil {
		return term.UsageError(err.Error())
	}
	l, err := c.begin(a, all)
	if err != nil {
		return meaning(err)
	}
	if c.JSON {
		return term.NewJSONLines(a.Stdout).Write(l)
	}
	return told(a, l)
}

// told tells of a login that has begun.
func told(a *console.Console, l login.Login) error {
	_, err := fmt.Fprintf(a.Stdout, "Signed in to %s as %s. %s\n", l.Server, term.Printable(l.Person), kept(l))
	return err
}

// kept says where the secret of a login is, and until when.
func kept(l login.Login) string {
	switch {
	case l.KeptIn == login.KeptInFile:
		return "The token is read from " + l.TokenFile + " at each use."
	case l.Ends.IsZero():
		return "symdepot logout ends the login."
	}
	return "The login ends on " + day(l.Ends) + " if it is not used before; symdepot logout ends it at once."
}

func day(t time.Time) string { return t.Local().Format("2006-01-02 15:04") }

// begin begins a login in the way that the flags say.
func (c Login) begin(a *console.Console, all *login.Logins) (login.Login, error) {
	switch {
	case c.TokenFile != "":
		return all.TokenFile(a.Ctx, c.URL, c.TokenFile)
	case c.Device:
		return all.Device(a.Ctx, c.URL, func(address, code string, until time.Time) {
			say(a, "Open %s in a browser of any machine, and type the code %s there, until %s.", address, code, until.Local().Format("15:04"))
		})
	}
	return all.Browser(a.Ctx, c.URL, func(address string) {
		say(a, "To sign in, open this address on this machine, unless a browser opens by itself:\n\n  %s\n", address)
		if err := login.OpenBrowser(a.Ctx, address, 0, os.Getenv); err != nil {
			say(a, "symdepot: %v; symdepot login --device signs in with a browser of another machine", err)
		}
	})
}

// list prints the logins.
func (c Login) list(a *console.Console, all *login.Logins) error {
	list, err := all.List()
	if err != nil {
		return err
	}
	if len(list) == 0 {
		say(a, "symdepot: this machine has no logins; symdepot login URL begins one")
		return term.ErrNegative
	}
	lines, t := term.NewJSONLines(a.Stdout), term.NewTable(a.Stdout, "SERVER", "PERSON", "KEPT IN", "CREATED", "ENDS")
	for _, l := range list {
		if c.JSON {
			if err := lines.Write(l); err != nil {
				return err
			}
			continue
		}
		ends, where := "not known", l.KeptIn
		switch {
		case l.Ended:
			ends = "ended: sign in again"
		case !l.Ends.IsZero():
			ends = day(l.Ends)
		}
		if l.TokenFile != "" {
			where = l.TokenFile
		}
		t.Row(l.Server, l.Person, where, day(l.Created), ends)
	}
	if c.JSON {
		return nil
	}
	return t.Flush()
}

// Logout is the command that ends logins.
type Logout struct {
	URL string `arg:"" optional:"" name:"url" help:"Base URL of the server. Default: that of the only login."`
	All bool   `help:"End all logins of this machine."`
}

// Run ends logins.
func (c Logout) Run(a *console.Console) error {
	all, err := logins(a.Stderr, "")
	if err != nil {
		return err
	}
	servers, err := c.servers(all)
	if err != nil {
		return err
	}
	if len(servers) == 0 {
		say(a, "symdepot: this machine has no logins")
		return term.ErrNegative
	}
	var failed error
	for _, server := range servers {
		l, told, err := all.Out(a.Ctx, server)
		switch {
		case errors.Is(err, login.ErrNone):
			say(a, "symdepot: %v", err)
			failed = errors.Join(failed, term.ErrNegative)
		case err != nil:
			failed = errors.Join(failed, err)
		case told != nil:
			failed = errors.Join(failed, fmt.Errorf("the login is removed from this machine, but the server could not be told: %w; "+
				"end it on the page Sign-ins of the server, or it ends by itself on %s", told, day(l.Ends)))
		case l.KeptIn == login.KeptInFile:
			fmt.Fprintf(a.Stdout, "The login for %s is removed. Its token stays valid, and in %s.\n", l.Server, l.TokenFile)
		default:
			fmt.Fprintf(a.Stdout, "The login for %s has ended.\n", l.Server)
		}
		if err == nil {
			failed = errors.Join(failed, stillSetUp(a, all, l.Server))
		}
	}
	return meaning(failed)
}

// servers returns the servers that the command names.
func (c Logout) servers(all *login.Logins) (servers []string, err error) {
	if c.URL != "" && c.All {
		return nil, term.UsageError("give a URL or --all, not both")
	}
	if c.URL != "" {
		if _, err := login.Canonical(c.URL); err != nil {
			return nil, term.UsageError(err.Error())
		}
		return []string{c.URL}, nil
	}
	list, err := all.List()
	if err != nil {
		return nil, err
	}
	for _, l := range list {
		servers = append(servers, l.Server)
	}
	if len(servers) > 1 && !c.All {
		return nil, term.UsageError("there are several logins: name a server of symdepot login --list, or give --all")
	}
	return servers, nil
}
