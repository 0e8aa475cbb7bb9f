package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/report"
	"github.com/symdepot/symdepot/internal/scan"
	"github.com/symdepot/symdepot/internal/term"
	"github.com/symdepot/symdepot/objfile"
)

type findCmd struct {
	JSON    bool     `help:"Print one JSON object per object found."`
	Limit   int      `help:"Maximum number of objects." default:"100"`
	Removed bool     `help:"Search the files that removals have hidden, and say when and why."`
	File    bool     `help:"Read the queries as names of local files even if no such file exists." short:"f"`
	Query   []string `arg:"" name:"query" help:"A file name (with * and ?), an id in any spelling, a server path, a SHA-256, or a local file."`
}

// Help is the long help text.
func (findCmd) Help() string {
	return `Searches the added and the cached files.

  symdepot find ntdll.pdb
  symdepot find 'lib*.so'
  symdepot find 3249D99D-0C40-4931-8610-F4E4FB0B6936
  symdepot find dfb85de42daffd09640c8fe377d572de3e168920
  symdepot find ./app.pdb          the file itself, or others with its ids
  symdepot find --removed app.pdb  when it was removed, by whom and by which rule

A query that names an existing local file finds that file, by its ids and by its content.
A cached file has no transaction: the last column names its upstream and the time of the download,
and "symdepot cache list NAME" its URL.

Exit codes: 0 found, 1 something was not found, 2 wrong command line, 3 failed, 4 no depot.`
}

// Run looks for each query.
func (c findCmd) Run(a *app) error {
	if slices.Contains(c.Query, "") {
		return term.UsageError("a query is empty")
	}
	d, err := a.open(depot.Options{MustExist: true})
	if err != nil {
		return err
	}
	defer d.Close()
	if c.Removed {
		return c.removed(a, d)
	}
	p := findPrinter{json: c.JSON, out: term.NewJSONLines(a.stdout)}
	if !c.JSON {
		p.t = term.NewTable(a.stdout, "KIND", "ARCH", "ID", "SIZE", "TRANSACTIONS", "NAME", "")
	}
	missing := 0
	for _, q := range c.Query {
		n, err := c.one(a, d, q, &p)
		if err != nil {
			return err
		}
		if n == 0 {
			missing++
			if !c.JSON {
				fmt.Fprintf(a.stderr, "symdepot: not in the depot: %s\n", term.Printable(q))
			}
		}
	}
	if !c.JSON {
		if err := p.t.Flush(); err != nil {
			return err
		}
	}
	if missing > 0 {
		return term.ErrNegative
	}
	return nil
}

func (c findCmd) one(a *app, d *depot.Depot, q string, p *findPrinter) (int, error) {
	if fi, err := os.Stat(q); c.File || err == nil && fi.Mode().IsRegular() {
		return c.localFile(a, d, q, p)
	}
	found, err := d.Find(a.ctx, depot.Scope{}, q, c.Limit)
	if err != nil {
		return 0, err
	}
	for _, f := range found {
		if err := p.print(q, f, nil); err != nil {
			return 0, err
		}
	}
	return len(found), nil
}

// localFile looks for the objects of a file on this machine, or of the files in
// it when it is an archive.
func (c findCmd) localFile(a *app, d *depot.Depot, path string, p *findPrinter) (int, error) {
	n := 0
	for f, err := range scan.Walk(a.ctx, []string{path}, scan.Options{}) {
		if err != nil {
			return n, err
		}
		same, err := sameFile(a, d, f)
		if errors.Is(err, objfile.ErrNotSymbolFile) && f.Archive != "" {
			continue
		}
		if err != nil {
			return n, fmt.Errorf("%s: %w", f.Path, err)
		}
		for _, s := range same {
			for _, found := range s.Found {
				is := found.Ref == s.Ref
				if err := p.print(f.Path, found, &is); err != nil {
					return n, err
				}
				n++
			}
		}
	}
	return n, nil
}

func sameFile(a *app, d *depot.Depot, f *scan.File) ([]depot.Same, error) {
	defer f.Discard()
	content, err := f.Open(a.ctx)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	return d.Same(a.ctx, depot.Scope{}, content, f.Name)
}

type findPrinter struct {
	json bool
	out  term.JSONLines
	t    *term.Table
}

func (p *findPrinter) print(q string, f depot.Found, same *bool) error {
	l := report.NewFound(q, f, same)
	if p.json {
		return p.out.Write(l)
	}
	p.t.Row(l.Kind, l.Arch, l.ID(), term.Size(l.Size), numbers(l.Transactions), l.Name, l.Remark())
	return nil
}

func numbers(ns []int64) string {
	var s []string
	for i, n := range ns {
		if i == 5 {
			s = append(s, "…")
			break
		}
		s = append(s, strconv.FormatInt(n, 10))
	}
	return strings.Join(s, ",")
}

type listCmd struct {
	JSON    bool   `help:"Print one JSON object per transaction."`
	Product string `help:"Only this product." short:"p"`
	Version string `help:"Only this version." short:"v"`
	Limit   int    `help:"Maximum number, newest first; 0: all." default:"0"`
	All     bool   `help:"Removed transactions too."`
}

// Help is the long help text.
func (listCmd) Help() string {
	return `Lists the transactions, the newest first.

  symdepot list
  symdepot list --product Game --json

Exit codes: 0 done, also when there is none; 2 wrong command line, 3 failed, 4 no depot.`
}

// anyOr returns the product that a flag names; nil, which is any, if it is not given.
func anyOr(product string) *string {
	if product == "" {
		return nil
	}
	return &product
}

// Run lists transactions.
func (c listCmd) Run(a *app) error {
	d, err := a.open(depot.Options{MustExist: true})
	if err != nil {
		return err
	}
	defer d.Close()
	txs, err := d.List(a.ctx, depot.Scope{}, depot.ListFilter{Product: anyOr(c.Product), Version: c.Version, Limit: c.Limit, Removed: c.All})
	if err != nil {
		return err
	}
	if c.JSON {
		out := term.NewJSONLines(a.stdout)
		for _, t := range txs {
			if err := out.Write(report.NewTransaction(t)); err != nil {
				return err
			}
		}
		return nil
	}
	t := term.NewTable(a.stdout, "TX", "TIME", "PRODUCT", "VERSION", "OBJECTS", "SIZE", "WHO", "COMMENT")
	if len(txs) == 0 {
		fmt.Fprintln(a.stderr, "symdepot: no transactions")
	}
	for _, x := range txs {
		mark := ""
		if !x.Removed.IsZero() {
			mark = " (removed)"
		}
		t.Row(strconv.FormatInt(x.Number, 10)+mark, x.Time.Local().Format("2006-01-02 15:04"), x.Product, x.Version,
			strconv.FormatInt(x.Files, 10), term.Size(x.Bytes), x.Who, x.Comment)
	}
	return t.Flush()
}

type showCmd struct {
	JSON   bool  `help:"Print the transaction with its class, holds, promotions and removal, then one JSON object per file."`
	Number int64 `arg:"" name:"tx" help:"The transaction's number."`
}

// Help is the long help text.
func (showCmd) Help() string {
	return `Prints a transaction and the objects that it contains.

  symdepot show 17

Exit codes: 0 shown, 1 no such transaction, 2 wrong command line, 3 failed, 4 no depot.`
}

// Run shows one transaction.
func (c showCmd) Run(a *app) error {
	d, err := a.open(depot.Options{MustExist: true})
	if err != nil {
		return err
	}
	defer d.Close()
	tx, err := d.Transaction(a.ctx, c.Number)
	if err != nil {
		return noSuchTx(a.stderr, c.Number, err)
	}
	if c.JSON {
		return c.showJSON(a, d, tx)
	}
	w := a.stdout
	fmt.Fprintf(w, "transaction %d\n  time     %s\n  product  %s\n  version  %s\n  comment  %s\n  by       %s on %s\n  objects  %d, %s\n", tx.Number,
		tx.Time.Local().Format(time.RFC3339), term.Printable(tx.Product), term.Printable(tx.Version), term.Printable(tx.Comment), term.Printable(tx.Who), term.Printable(tx.Host), tx.Files, term.Size(tx.Bytes))
	if o := tx.Origin; o != nil {
		fmt.Fprintf(w, "  origin   %s of %s\n", term.Printable(o.Number), term.Printable(o.Store))
	}
	if err := a.kept(d.Retention, tx, false); err != nil {
		return err
	}
	fmt.Fprintln(w)
	t := term.NewTable(w, "KIND", "ID", "SIZE", "NAME", "PATH")
	err = d.Files(a.ctx, c.Number, func(f depot.TxFile) error {
		l := report.NewFile(f)
		t.Row(l.Kind, l.ID(), term.Size(l.Size), l.Name, l.Path)
		return nil
	})
	if err != nil {
		return err
	}
	return t.Flush()
}

func (c showCmd) showJSON(a *app, d *depot.Depot, tx depot.Transaction) error {
	out := term.NewJSONLines(a.stdout)
	if err := a.kept(d.Retention, tx, true); err != nil {
		return err
	}
	return d.Files(a.ctx, c.Number, func(f depot.TxFile) error {
		return out.Write(report.NewFile(f))
	})
}

func noSuchTx(w io.Writer, n int64, err error) error {
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	fmt.Fprintf(w, "symdepot: there is no transaction %d; `symdepot list` shows those there are\n", n)
	return term.ErrNegative
}
