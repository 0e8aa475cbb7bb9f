package command

import (
	"errors"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/crashes"
	"github.com/symdepot/symdepot/internal/derive/crash"
	"github.com/symdepot/symdepot/internal/derive/symbolicate"
	"github.com/symdepot/symdepot/internal/run/client"
	"github.com/symdepot/symdepot/internal/run/setup"
)

type stackCmd struct {
	serverFlags
	upstreamFlags
	Symbols string `help:"text:stack_symbols" placeholder:"DIR"`
	Thread  string `help:"text:stack_thread" default:"crash" placeholder:"N|crash|all"`
	JSON    bool   `help:"Print all threads and modules as one JSON object."`
	Dump    string `arg:"" help:"text:stack_dump"`
}

// Run prints the stacks of a dump.
func (c stackCmd) Run(a *session) error {
	show, err := crash.ParseThreads(c.Thread)
	if err != nil {
		return term.UsageError("--thread " + c.Thread + ": " + err.Error())
	}
	d, done, err := c.depot(a)
	if err != nil {
		return err
	}
	defer done()
	found, err := crashes.Stacks(a.Ctx, d, c.Dump)
	switch {
	case err != nil:
		return err
	case c.JSON:
		return term.NewJSONLines(a.Stdout).Write(found)
	}
	return crash.Print(a.Stdout, found, show)
}

// reach returns an error if the server does not answer, or refuses the credentials: to the depot, its files would be
// missing only.
func (c stackCmd) reach(a *session) error {
	p, err := pusher(a.Console, c.Server, c.TokenFile)
	if err != nil {
		return err
	}
	err = p.Symbolicate(a.Ctx, symbolicate.V5Request(nil), &symbolicate.V5Answer{})
	if errors.Is(err, client.ErrUnreachable) || errors.Is(err, client.ErrCredentials) {
		return err
	}
	return nil // another server may have files and no such API
}

// depot opens the depot with the files of the modules. The function closes it.
func (c stackCmd) depot(a *session) (*depot.Depot, func(), error) {
	opt := depot.Options{Symbols: depot.SymbolsOptions{Make: symbolicate.MakeUpstream}}
	switch own := c.Config != "" || len(c.Upstream) > 0 || c.FromEnv || c.NoEgress; {
	case c.Server != "" && (own || c.Symbols != ""):
		return nil, nil, term.UsageError("--server does not go with --symbols, --config, --upstream, --from-env and --no-egress")
	case c.Server != "":
		if err := c.reach(a); err != nil {
			return nil, nil, err
		}
		return c.emptyDepot(a, opt)
	case c.Symbols == "":
		return c.openAny(a, opt)
	}
	d, done, err := setup.Temporary(a.Ctx, opt)
	if err != nil {
		return nil, nil, err
	}
	list, release, err := setup.ScanFolders(a.Ctx, []string{c.Symbols}, d.Watched.Dir())
	if err != nil {
		release()
		done()
		return nil, nil, err
	}
	d.Watched.Use(list)
	return d, func() { release(); done() }, nil
}
