package command

import (
	"errors"
	"fmt"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/run/client"
	"github.com/symdepot/symdepot/internal/run/setup"
	"github.com/symdepot/symdepot/internal/serve/userquery"
	"github.com/symdepot/symdepot/internal/serve/web"
)

type whyCmd struct {
	serverFlags
	upstreamFlags
	watchFlags
	storeFlags
	JSON bool     `help:"Print one JSON object per request."`
	All  bool     `name:"verbose" short:"v" help:"Also print the form of the path, who asks, and all spellings of the path."`
	What []string `arg:"" name:"what" help:"text:why_what"`
}

// Run explains requests.
func (c whyCmd) Run(a *session) error {
	list, complete, err := userquery.Arguments(a.Ctx, c.What, a.Stdin)
	if wrong, ok := errors.AsType[userquery.TextError](err); ok {
		return term.UsageError(wrong.Error())
	}
	if err != nil {
		return err
	}
	if !complete {
		fmt.Fprintf(a.Stderr, "symdepot: only the first %s of the log and the first %d requests in it are read\n",
			term.Size(userquery.MaxLog), userquery.MaxAsks)
	}
	if len(list) == 0 {
		return a.Nothing("there is no request in it for a symbol file")
	}
	ws, err := c.folders(a, c.Server)
	if err != nil {
		return err
	}
	t, done, err := c.tracer(a, ws)
	if err != nil {
		return err
	}
	defer done()
	all, found := []display.Trace{}, true
	for _, q := range list {
		l, err := t.Trace(a.Ctx, q.Path())
		if err != nil {
			return err
		}
		l.AskedAs(q.Text, q.Token)
		l.Line, l.Times, l.Log = q.Line, q.Times, string(q.Outcome)
		all, found = append(all, l), found && l.Found()
	}
	display.SortTraces(all)
	if c.JSON {
		out := term.NewJSONLines(a.Stdout)
		for i := range all {
			if err := out.Write(&all[i]); err != nil {
				return err
			}
		}
	} else if err := display.PrintTraces(a.Stdout, all, c.All); err != nil {
		return err
	}
	if !found {
		ws.tell()
		return term.ErrNegative
	}
	return nil
}

// tracer returns what explains requests. The function releases it.
func (c whyCmd) tracer(a *session, ws *watchedFolders) (t *client.API, done func(), err error) {
	if c.Server != "" {
		t, err = c.client(a.Console)
		return t, func() {}, err
	}
	conf, err := c.load(a)
	if err != nil {
		return nil, nil, err
	}
	opt, closeStores, err := withStores(a.Console, conf, c.Store)
	if err != nil {
		return nil, nil, err
	}
	if opt.Records, err = setup.Records(conf); err != nil {
		closeStores()
		return nil, nil, err
	}
	opt.Records.Index = opt.Records.Refs && len(opt.Sources) == 0
	opt.MustExist, opt.Symbols, opt.MakeCabinets = true, setup.MakeSymbols(conf), conf.MakeCabinets
	d, closeDepot, err := a.site.OpenWith(a.Ctx, conf, opt)
	if err != nil {
		closeStores()
		return nil, nil, err
	}
	api := web.Config{Tracing: web.Tracing{Prefixes: conf.Prefixes, HexAge: conf.SymCache.HexAge, Redirect: conf.SymCache.Redirect}}
	err = ws.use(d, &api)
	return apiOf(d, api), func() { ws.close(); closeDepot(); closeStores() }, err
}
