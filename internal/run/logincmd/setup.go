package logincmd

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/run/clientsetup"
	"github.com/symdepot/symdepot/internal/run/console"
	"github.com/symdepot/symdepot/internal/run/localproxy"
	"github.com/symdepot/symdepot/internal/run/login"
)

// Setup are the flags of login that set debuggers up.
type Setup struct {
	Configure bool     `help:"Set up the debuggers that are installed to use the login: show each change, and ask."`
	Undo      bool     `help:"With --configure: put back what stood in the files before."`
	DryRun    bool     `help:"With --configure: only show what would be changed."`
	Yes       bool     `help:"With --configure: do not ask." short:"y"`
	Only      []string `help:"With --configure: some of windows-debuggers, debuginfod, gdb, lldb, vscode, git, netrc." placeholder:"NAME"`
	Refresh   bool     `help:"Refresh what ends soon, and the files with tokens of --configure; quiet, for a service."`
}

// placeholder stands for the access token where a dry run has no login.
const placeholder = "TOKEN"

// refreshAhead is how long before its end an access token in a file is refreshed: the service
// runs every 30 minutes.
const refreshAhead = 35 * time.Minute

// check refuses flags that do not go together.
func (c Setup) check(l Login) error {
	switch {
	case !c.Configure && (c.Undo || c.DryRun || c.Yes || len(c.Only) > 0):
		return term.UsageError("--undo, --dry-run, --yes and --only go with --configure")
	case c.Refresh && (c.Configure || l.URL != "" || l.List || l.Device || l.TokenFile != ""):
		return term.UsageError("--refresh stands alone: it is for all logins")
	case c.Configure && (l.List || l.JSON):
		return term.UsageError("--configure prints no list")
	case c.Undo && len(c.Only) > 0:
		return term.UsageError("--undo puts back all that was set up for the server; it takes no --only")
	}
	if err := clientsetup.CheckNames(c.Only); err != nil {
		return term.UsageError("--only: " + err.Error())
	}
	return nil
}

// records are the changes that were made for the user.
func records(all *login.Logins) *clientsetup.Records { return clientsetup.RecordsIn(all.Dir) }

// configure sets the debuggers up for a server, or undoes that.
func (l Login) configure(a *console.Console, all *login.Logins) error {
	server, err := login.Canonical(l.URL)
	if err != nil {
		return term.UsageError(err.Error())
	}
	machine, err := clientsetup.ThisMachine(runtime.GOOS, all.Dir)
	if err != nil {
		return err
	}
	if l.Undo {
		return l.undo(a, all, machine, server)
	}
	s := &clientsetup.Setup{Machine: machine, Server: server, Token: placeholder}
	known, err := all.Find(server)
	signedIn := err == nil && !known.Ended
	switch {
	case err != nil && !errors.Is(err, login.ErrNone):
		return err
	case !signedIn && !l.DryRun:
		begun, err := l.begin(a, all)
		if err != nil {
			return meaning(err)
		}
		if err := told(a, begun); err != nil {
			return err
		}
		signedIn = true
	}
	if signedIn {
		got, err := all.Access(a.Ctx, server, login.Options{Interactive: term.IsTerminal(a.Stderr)})
		if err != nil {
			return meaning(err)
		}
		s.Token = got.Token
	}
	address, err := localproxy.Address(a.Ctx, all.Dir, server)
	if err != nil {
		return err
	}
	s.Proxy = "http://" + address
	if s.Taken, err = records(all).Debuginfod(); err != nil {
		return err
	}
	found, err := s.Plan(a.Ctx, l.Only)
	if err != nil {
		return err
	}
	return l.carryOut(a, all, machine, found)
}

// carryOut shows what was found, asks, and makes the changes: all that was agreed to, at the end.
func (l Login) carryOut(a *console.Console, all *login.Logins, machine clientsetup.Machine, found []clientsetup.Finding) error {
	canAsk := term.IsTerminal(a.Stdin)
	dry, refused := l.DryRun, false
	if !dry && !l.Yes && !canAsk {
		for _, f := range found {
			refused = refused || slices.ContainsFunc(f.Edits, func(e clientsetup.Edit) bool { return e.Existed && !e.TokenOnly() })
		}
		dry = refused
	}
	var edits []clientsetup.Edit
	var then []clientsetup.Command
	for _, f := range found {
		agreed, err := l.agree(a, f, dry, canAsk)
		if err != nil {
			return err
		}
		edits = append(edits, agreed...)
		if len(agreed) > 0 && len(agreed) == len(f.Edits) {
			for _, c := range f.Then {
				if !slices.ContainsFunc(then, func(x clientsetup.Command) bool { return x.String() == c.String() }) {
					then = append(then, c)
				}
			}
		}
	}
	switch {
	case refused:
		say(a, "symdepot: nothing was changed: files exist already, and nobody can be asked; --yes makes these changes")
		return term.ErrNegative
	case dry && len(edits) > 0:
		return unchanged(a)
	case len(edits) == 0:
		_, err := fmt.Fprintln(a.Stdout, "Nothing was changed.")
		return err
	}
	if err := records(all).Apply(a.Ctx, edits); err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	for _, c := range then {
		if out, err := machine.Run(a.Ctx, c.Program, c.Args...); err != nil {
			say(a, "symdepot: %s: %v; run this command yourself in a terminal of your login session. It printed:\n%s",
				c, err, term.PrintableText(out, 1<<10))
		}
	}
	_, err := fmt.Fprintf(a.Stdout, "%s changed; symdepot login %s --configure --undo puts back what stood before.\n",
		term.Count(int64(len(edits)), "file"), l.URL)
	return err
}

// unchanged ends what --dry-run prints.
func unchanged(a *console.Console) error {
	_, err := fmt.Fprintln(a.Stdout, "Nothing was changed: this is what the command does without --dry-run.")
	return err
}

// agree shows what a target changes, and returns what is to be done.
func (l Login) agree(a *console.Console, f clientsetup.Finding, dry, canAsk bool) (agreed []clientsetup.Edit, err error) {
	if f.Reason != "" {
		fmt.Fprintf(a.Stdout, "%s: %s.\n", f.Target, f.Reason)
	} else if len(f.Edits) == 0 {
		fmt.Fprintf(a.Stdout, "%s: set up already.\n", f.Target)
	}
	for _, e := range f.Edits {
		if e.TokenOnly() {
			agreed = append(agreed, e)
			continue
		}
		what := "new file"
		if e.Existed {
			what = "changed"
		}
		fmt.Fprintf(a.Stdout, "%s: %s (%s)\n    %s\n", f.Target, term.Printable(e.Path), what,
			strings.ReplaceAll(strings.TrimRight(e.Diff(), "\n"), "\n", "\n    "))
		yes := true
		if !dry && !l.Yes && canAsk {
			if yes, err = term.Confirm(a.Ctx, a.Stdin, a.Stderr, "Change this file?"); err != nil {
				return nil, err
			}
		}
		if yes {
			agreed = append(agreed, e)
		}
	}
	for _, n := range f.Notes {
		fmt.Fprintf(a.Stdout, "%s: note: %s.\n", f.Target, n)
	}
	return agreed, nil
}

// undo puts back what stood in the files before they were set up for a server.
func (l Login) undo(a *console.Console, all *login.Logins, machine clientsetup.Machine, server string) error {
	// What becomes of the files says whether a service must be stopped first.
	planned, err := records(all).Undo(a.Ctx, server, true)
	if err != nil {
		return err
	}
	done := planned
	if !l.DryRun {
		if stop, ok := machine.Stop(planned); ok {
			_, _ = machine.Run(a.Ctx, stop.Program, stop.Args...) // it was perhaps never started
		}
		done, err = records(all).Undo(a.Ctx, server, false)
	}
	for _, u := range done {
		text := u.Done
		if u.Left != "" {
			text += ": " + u.Left
		}
		fmt.Fprintf(a.Stdout, "%s: %s\n", term.Printable(u.Path), text)
	}
	switch {
	case err != nil:
		return err
	case len(done) == 0:
		say(a, "symdepot: nothing is set up for %s", server)
		return term.ErrNegative
	case l.DryRun:
		return unchanged(a)
	}
	return nil
}

// refresh refreshes the tokens that end soon of the servers whose tokens stand in files. A server
// that is away is tried again by the next run.
func (l Login) refresh(a *console.Console, all *login.Logins) error {
	servers, err := records(all).WithTokens()
	if err != nil {
		return err
	}
	for _, server := range servers {
		got, failed := all.Access(a.Ctx, server, login.Options{})
		if failed == nil && !got.Ends.IsZero() && time.Until(got.Ends) < refreshAhead {
			got, failed = all.Access(a.Ctx, server, login.Options{PassOverCache: true, Refused: got.Token})
		}
		if failed == nil {
			failed = records(all).Refresh(a.Ctx, server, got.Token)
		}
		if failed != nil && !errors.Is(failed, login.ErrAway) {
			err = errors.Join(err, meaning(failed))
		}
	}
	return err
}

// stillSetUp tells who ends a login that debuggers are set up to use it.
func stillSetUp(a *console.Console, all *login.Logins, server string) error {
	list, err := records(all).Servers()
	if slices.Contains(list, server) {
		say(a, "Debuggers are still set up for it; to put back what stood before: symdepot login %s --configure --undo", server)
	}
	return err
}

// keepFresh lets each refresh of a login renew the files with its token.
func keepFresh(all *login.Logins) {
	all.Refreshed = func(ctx context.Context, server, token string) {
		if err := records(all).Refresh(ctx, server, token); err != nil && all.Note != nil {
			all.Note("the files with the access token for " + server + " stay as they are: " + err.Error())
		}
	}
}
