package logincmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/internal/run/console"
	"github.com/symdepot/symdepot/internal/run/credential"
	"github.com/symdepot/symdepot/internal/run/login"
)

// Credential is the command symdepot credential: it answers one request of a debugger or of git
// with the logins of the user.
type Credential struct {
	Operation string `arg:"" help:"What to do: get, store or erase, in any letter case."`
	Debugger  bool   `help:"Take every request for one of a debugger, and none for one of git."`
}

// Run answers the request on standard input.
func (c Credential) Run(a *console.Console) error {
	all, err := logins(a.Stderr, "")
	if err != nil {
		return err
	}
	return meaning(c.Answer(a, helped{all, a.Stderr}))
}

// Answer is Run with given logins. GIT_TERMINAL_PROMPT=0, with which scripts forbid git to ask,
// forbids to open a sign-in.
func (c Credential) Answer(a *console.Console, logins credential.Logins) error {
	silent := slices.Contains([]string{"0", "false", "no", "off"}, strings.ToLower(os.Getenv("GIT_TERMINAL_PROMPT")))
	h := credential.Helper{Logins: logins, Debugger: c.Debugger, Silent: silent}
	return h.Run(a.Ctx, c.Operation, a.Stdin, a.Stdout)
}

// helped are the logins of the user, as a credential helper uses them.
type helped struct {
	all    *login.Logins
	stderr io.Writer
}

func (h helped) Covering(_ context.Context, address string) (string, error) {
	l, err := h.all.Covering(address)
	if errors.Is(err, login.ErrNone) {
		return "", nil
	}
	return l.Server, err
}

func (h helped) Access(ctx context.Context, server string, opt credential.AccessOptions) (credential.Access, error) {
	a, err := h.all.Access(ctx, server, login.Options{Interactive: opt.Interactive, PassOverCache: opt.PassOverCache})
	if errors.Is(err, login.ErrSignIn) {
		if l, findErr := h.all.Find(server); findErr == nil && l.KeptIn != login.KeptInFile {
			err = meant{err, credential.ErrSignIn} // a token file is not replaced by a sign-in
		}
	}
	return credential.Access{Token: a.Token, Name: a.Person, Expires: a.Ends}, err
}

func (h helped) SignIn(ctx context.Context, server string, window int64) (credential.Access, error) {
	_, err := h.all.Browser(ctx, server, func(address string) {
		fmt.Fprintf(h.stderr, "symdepot: to sign in, open %s on this machine, unless a browser opens by itself\n", address)
		if err := login.OpenBrowser(ctx, address, uintptr(window), os.Getenv); err != nil {
			fmt.Fprintln(h.stderr, "symdepot:", err)
		}
	})
	if err != nil {
		return credential.Access{}, err
	}
	return h.Access(ctx, server, credential.AccessOptions{Interactive: true})
}

func (h helped) Forget(ctx context.Context, server, token string) error {
	return h.all.Forget(ctx, server, token)
}

func (h helped) Turn(ctx context.Context, server string) (done func(), waited bool, err error) {
	return h.all.Turn(ctx, server)
}
