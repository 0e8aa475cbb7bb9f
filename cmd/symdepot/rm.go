package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/report"
	"github.com/symdepot/symdepot/internal/term"
)

type rmCmd struct {
	Purge   bool    `help:"Free the bytes now, past trash and grace: for a leak or a legal demand. Also for transactions in the trash."`
	Reason  string  `help:"With --purge: why, for the record." placeholder:"TEXT"`
	JSON    bool    `help:"Print one JSON object per transaction."`
	Numbers []int64 `arg:"" name:"tx" help:"Numbers of transactions."`
}

// Help is the long help text.
func (rmCmd) Help() string {
	return `Files that no other transaction contains disappear for every client at once; symdepot gc frees their space. A file that
several transactions contain stays until the last of them is removed. If the retention policy has a trash, symdepot undo
restores the transaction until it ends. A transaction with a hold is not removed.

  symdepot rm 17 18
  symdepot rm --purge 17 --reason "contains a key"

--purge says when others still need some of the bytes: these stay. Who purged what, and when, stays on record.

Exit codes: 0 removed, 1 no such transaction (none was removed), 2 wrong command line, 3 failed or held,
4 no depot.`
}

// Run removes transactions.
func (c rmCmd) Run(a *app) error {
	d, err := a.open(depot.Options{MustExist: true, Probe: c.Purge})
	if err != nil {
		return err
	}
	defer d.Close()
	for _, n := range c.Numbers {
		tx, err := d.Transaction(a.ctx, n)
		if err != nil {
			return noSuchTx(a.stderr, n, err)
		}
		if !tx.Removed.IsZero() && !c.Purge {
			fmt.Fprintf(a.stderr, "symdepot: transaction %d was removed already, on %s\n", n, tx.Removed.Local().Format(time.RFC3339))
			return term.ErrNegative
		}
	}
	out := term.NewJSONLines(a.stdout)
	for _, n := range c.Numbers {
		if c.Purge {
			p, err := d.Retention.Purge(a.ctx, n, localUser(), c.Reason)
			if err != nil {
				return noSuchTx(a.stderr, n, err)
			}
			if l := report.NewPurged(p); !c.JSON {
				l.Print(a.stdout)
			} else if err := out.Write(l); err != nil {
				return err
			}
			continue
		}
		tx, err := d.Retention.Remove(a.ctx, n, localUser())
		if err != nil {
			return noSuchTx(a.stderr, n, err)
		}
		if c.JSON {
			if err := out.Write(report.NewTransaction(tx)); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(a.stdout, "removed transaction %d (%s)%s\n", n, term.Count(tx.Files, "object"), report.Restorable(tx))
	}
	return nil
}

type undoCmd struct {
	JSON    bool    `help:"Print one JSON object per transaction."`
	Numbers []int64 `arg:"" name:"tx" help:"Numbers of removed transactions."`
}

// Help is the long help text.
func (undoCmd) Help() string {
	return `Restores removed transactions from the trash, with all their files. The retention policy says how long the trash keeps them.

  symdepot undo 17

Exit codes: 0 restored, 1 no such transaction, or it is not in the trash, 2 wrong command line, 3 failed, 4 no depot.`
}

// Run restores transactions.
func (c undoCmd) Run(a *app) error {
	d, err := a.open(depot.Options{MustExist: true})
	if err != nil {
		return err
	}
	defer d.Close()
	for _, n := range c.Numbers {
		tx, err := d.Retention.Undo(a.ctx, n, localUser())
		var gone *depot.NotInTrashError
		if errors.As(err, &gone) {
			return a.nothing(gone.Error())
		}
		if err != nil {
			return noSuchTx(a.stderr, n, err)
		}
		if err := a.print(c.JSON, report.NewTransaction(tx), "restored transaction %d (%s)\n", n, term.Count(tx.Files, "object")); err != nil {
			return err
		}
	}
	return nil
}
