package main

import (
	"fmt"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/keeper"
	"github.com/symdepot/symdepot/internal/term"
)

type rmCmd struct {
	serverFlags
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

Exit codes: 0 removed, 1 no such transaction (none was removed), 2 wrong command line, 3 failed or held, 4 no depot,
5 credentials refused, 7 server not reachable.`
}

// Run removes transactions.
func (c rmCmd) Run(a *app) error {
	return a.keeper(c.serverFlags, depot.Options{Probe: c.Purge}, func(k keeper.Keeper) error {
		for _, n := range c.Numbers {
			tx, err := k.Transaction(a.ctx, n)
			if err != nil {
				return noSuchTx(a.stderr, n, err)
			}
			if !tx.Removed.IsZero() && !c.Purge {
				return a.nothing(fmt.Sprintf("transaction %d was removed already, on %s", n, tx.Removed.Local().Format(time.RFC3339)))
			}
		}
		for _, n := range c.Numbers {
			if err := c.remove(a, k, n); err != nil {
				return noSuchTx(a.stderr, n, err)
			}
		}
		return nil
	})
}

func (c rmCmd) remove(a *app, k keeper.Keeper, n int64) error {
	if c.Purge {
		l, err := k.Purge(a.ctx, n, c.Reason)
		switch {
		case err != nil:
			return err
		case c.JSON:
			return a.print(true, l, "")
		}
		l.Print(a.stdout)
		return nil
	}
	l, err := k.Remove(a.ctx, n)
	if err != nil {
		return err
	}
	return a.print(c.JSON, l, "removed transaction %d (%s)%s\n", n, term.Count(l.Objects, "object"), l.Restorable())
}

type undoCmd struct {
	serverFlags
	JSON    bool    `help:"Print one JSON object per transaction."`
	Numbers []int64 `arg:"" name:"tx" help:"Numbers of removed transactions."`
}

// Help is the long help text.
func (undoCmd) Help() string {
	return `Restores removed transactions from the trash, with all their files. The retention policy says how long the trash keeps them.

  symdepot undo 17

Exit codes: 0 restored, 1 no such transaction, or it is not in the trash, 2 wrong command line, 3 failed, 4 no depot,
5 credentials refused, 7 server not reachable.`
}

// Run restores transactions.
func (c undoCmd) Run(a *app) error {
	return a.keeper(c.serverFlags, depot.Options{}, func(k keeper.Keeper) error {
		for _, n := range c.Numbers {
			l, err := k.Undo(a.ctx, n)
			switch {
			case keeper.IsNo(err):
				return a.nothing(err.Error())
			case err != nil:
				return noSuchTx(a.stderr, n, err)
			}
			if err := a.print(c.JSON, l, "restored transaction %d (%s)\n", n, term.Count(l.Objects, "object")); err != nil {
				return err
			}
		}
		return nil
	})
}
