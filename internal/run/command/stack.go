package command

import (
	"context"
	"errors"
	"os"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/importexport"
	"github.com/symdepot/symdepot/internal/derive/crash"
	"github.com/symdepot/symdepot/internal/derive/symbolicate"
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
	file, err := os.Open(c.Dump)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	d, done, err := c.depot(a)
	if err != nil {
		return err
	}
	defer done()
	ctx, stop := context.WithCancel(a.Ctx)
	jobs := make(chan struct{})
	go func() { defer close(jobs); d.Jobs().Run(ctx) }() // nobody else may be there to do them
	defer func() { stop(); <-jobs }()
	ask := depot.SymbolsAsk{Hold: func(ctx context.Context, wait func(context.Context) error) (bool, error) { return false, wait(ctx) }}
	src := d.Symbols.Source(ask)
	found, err := crash.Analyze(a.Ctx, func(ctx context.Context, r crash.Resolver) (*crash.Walk, error) {
		return crash.WalkFile(ctx, file, info.Size(), r)
	}, src, d.Symbols.Texts(ask), false)
	if err != nil {
		return err
	}
	if c.JSON {
		return term.NewJSONLines(a.Stdout).Write(found.Stacks())
	}
	return crash.Print(a.Stdout, found.Stacks(), show)
}

// depot opens the depot with the files of the modules. The function closes it.
func (c stackCmd) depot(a *session) (*depot.Depot, func(), error) {
	opt := depot.Options{Symbols: depot.SymbolsOptions{Make: symbolicate.MakeUpstream}}
	switch own := c.Config != "" || len(c.Upstream) > 0 || c.FromEnv || c.NoEgress; {
	case c.Server != "" && (own || c.Symbols != ""):
		return nil, nil, term.UsageError("--server does not go with --symbols, --config, --upstream, --from-env and --no-egress")
	case c.Server != "":
		return c.emptyDepot(a, opt)
	case c.Symbols == "":
		return c.open(a, opt)
	}
	d, done, err := temporaryDepot(a, opt)
	if err != nil {
		return nil, nil, err
	}
	if _, err := importexport.Add(a.Ctx, d, []string{c.Symbols}, importexport.AddOptions{SkipUnreadable: true}); err != nil && !errors.Is(err, depot.ErrEmpty) {
		done()
		return nil, nil, err
	}
	return d, done, nil
}
