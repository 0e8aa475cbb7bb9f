package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/run/client"
)

type findCmd struct {
	serverFlags
	watchFlags
	storeFlags
	JSON    bool     `help:"Print one JSON object per object found."`
	Limit   int      `help:"Maximum number of objects." default:"100"`
	Removed bool     `help:"Search the files that removals have hidden, and say when and why."`
	File    bool     `help:"Read the queries as names of local files even if no such file exists." short:"f"`
	Query   []string `arg:"" name:"query" help:"A file name (with * and ?), an id in any spelling, a server path, a SHA-256, or a local file."`
}

// Run looks for each query.
func (c findCmd) Run(a *session) error {
	if slices.Contains(c.Query, "") {
		return term.UsageError("a query is empty")
	}
	if c.Removed {
		if c.Server != "" {
			return term.UsageError("--removed does not go with --server")
		}
		d, err := a.open(depot.Options{MustExist: true})
		if err != nil {
			return err
		}
		defer d.Close()
		return c.removed(a, d)
	}
	ws, err := c.folders(a, c.Server)
	if err != nil {
		return err
	}
	opt, closeStores, err := c.served(ws, c.Server)
	if err != nil {
		return err
	}
	defer closeStores()
	p := findPrinter{json: c.JSON, out: term.NewJSONLines(a.Stdout)}
	if !c.JSON {
		p.t = term.NewTable(a.Stdout, "KIND", "ARCH", "ID", "SIZE", "BUILDS", "NAME", "")
	}
	missing := 0
	var hints []string
	if err := a.apiWith(c.serverFlags, opt, ws.use, func(k *client.API) error {
		defer ws.close()
		for _, q := range c.Query {
			p.found = nil
			n, err := c.one(a, k, q, &p)
			if err != nil {
				return err
			}
			if n == 0 {
				missing++
				fmt.Fprintf(a.Stderr, "symdepot: not in the depot: %s\n", term.Printable(q))
			}
			if !c.JSON {
				hint, err := k.Hints(a.Ctx, q, p.found, c.Limit)
				if err != nil {
					return err
				}
				hints = append(hints, hint...)
			}
		}
		if missing == 0 || c.JSON {
			return nil
		}
		unlisted, err := k.Unlisted(a.Ctx)
		hints = append(hints, unlisted...)
		return err
	}); err != nil {
		return err
	}
	if !c.JSON {
		if err := p.t.Flush(); err != nil {
			return err
		}
	}
	for _, h := range hints {
		fmt.Fprintln(a.Stderr, "symdepot:", h)
	}
	if missing > 0 {
		if !c.JSON {
			ws.tell()
		}
		return term.ErrNegative
	}
	return nil
}

func (c findCmd) one(a *session, k *client.API, q string, p *findPrinter) (int, error) {
	if fi, err := os.Stat(q); c.File || err == nil && fi.Mode().IsRegular() {
		return k.FindFile(a.Ctx, q, p.print)
	}
	return k.Find(a.Ctx, q, c.Limit, p.print)
}

type findPrinter struct {
	json  bool
	found []display.Found // of one query
	out   term.JSONLines
	t     *term.Table
}

func (p *findPrinter) print(l display.Found) error {
	if p.json {
		return p.out.Write(l)
	}
	p.found = append(p.found, l)
	p.t.Row(l.Kind, l.Arch, l.ID(), term.Size(l.Size), l.Numbers(), l.Name, l.Remark())
	return nil
}

type listCmd struct {
	serverFlags
	JSON    bool   `help:"Print one JSON object per build."`
	Product string `help:"Only this product." short:"p"`
	Version string `help:"Only this version." short:"v"`
	Limit   int    `help:"Maximum number, newest first; 0: all." default:"0"`
	Who     string `help:"Only those of this account (with * and ?)."`
	All     bool   `help:"Removed builds too."`
}

// anyOr returns the product that a flag names; nil, which is any, if it is not given.
func anyOr(product string) *string {
	if product == "" {
		return nil
	}
	return &product
}

// Run lists transactions.
func (c listCmd) Run(a *session) error {
	ws, err := watchFlags{}.folders(a, c.Server)
	if err != nil {
		return err
	}
	opt, closeStores, err := storeFlags{}.served(ws, c.Server)
	if err != nil {
		return err
	}
	defer closeStores()
	f := depot.ListFilter{Product: anyOr(c.Product), Version: c.Version, Who: c.Who, Limit: c.Limit, Removed: c.All}
	return a.api(c.serverFlags, opt, func(k *client.API) error {
		if c.JSON {
			out := term.NewJSONLines(a.Stdout)
			return k.Transactions(a.Ctx, f, func(t display.Transaction) error { return out.Write(t) })
		}
		var list []display.Transaction
		if err := k.Transactions(a.Ctx, f, func(x display.Transaction) error {
			list = append(list, x)
			return nil
		}); err != nil {
			return err
		}
		if len(list) == 0 {
			fmt.Fprintln(a.Stderr, "symdepot: no builds")
		}
		if err := display.PrintTransactions(a.Stdout, list); err != nil {
			return err
		}
		served, err := k.Served(a.Ctx)
		if text := display.ServedText(served); text != "" {
			fmt.Fprintln(a.Stderr, "symdepot:", text+"; symdepot import FOLDER brings the builds of one into this list")
		}
		return err
	})
}

type showCmd struct {
	serverFlags
	JSON   bool  `help:"Print the build with its class, holds, promotions and removal, then one JSON object per file."`
	Number int64 `arg:"" name:"build" help:"The build's number."`
}

// Run shows one transaction.
func (c showCmd) Run(a *session) error {
	return a.api(c.serverFlags, depot.Options{}, func(k *client.API) error {
		s, err := k.State(a.Ctx, c.Number)
		if err != nil {
			return noSuchTx(a.Stderr, c.Number, err)
		}
		if c.JSON {
			out := term.NewJSONLines(a.Stdout)
			if err := out.Write(s); err != nil {
				return err
			}
			return k.Files(a.Ctx, c.Number, func(f display.File) error { return out.Write(f) })
		}
		s.PrintWhole(a.Stdout, a.Now())
		fmt.Fprintln(a.Stdout)
		var files []display.File
		if err := k.Files(a.Ctx, c.Number, func(f display.File) error {
			files = append(files, f)
			return nil
		}); err != nil {
			return err
		}
		return display.PrintFiles(a.Stdout, files)
	})
}

func noSuchTx(w io.Writer, n int64, err error) error {
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	fmt.Fprintf(w, "symdepot: there is no build %d; `symdepot list` shows those there are\n", n)
	return term.ErrNegative
}
