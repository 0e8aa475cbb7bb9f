package command

import (
	"fmt"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/run/client"
)

type rmCmd struct {
	serverFlags
	DryRun  bool    `help:"Only print what the removal would free, and the number of the plan." short:"n" xor:"plan"`
	Plan    string  `help:"text:rm_plan" placeholder:"PLAN" xor:"plan,purge"`
	Purge   bool    `help:"text:rm_purge" xor:"purge"`
	Reason  string  `help:"With --purge: why, for the record." placeholder:"TEXT"`
	Yes     bool    `help:"Do not ask on a terminal." short:"y"`
	JSON    bool    `help:"Print one JSON object per build."`
	Numbers []int64 `arg:"" name:"build" help:"Numbers of builds."`
}

// Run removes transactions.
func (c rmCmd) Run(a *session) error {
	if c.Plan != "" && len(c.Numbers) != 1 {
		return term.UsageError("--plan is that of one build")
	}
	recorded, done := a.recording(c.Purge)
	defer done()
	return a.apiWith(c.serverFlags, depot.Options{Probe: c.Purge}, recorded, func(k *client.API) error {
		var list []display.Transaction
		for _, n := range c.Numbers {
			tx, err := k.Transaction(a.Ctx, n)
			if err != nil {
				return noSuchTx(a.Stderr, n, err)
			}
			if !tx.Removed.IsZero() && !c.Purge {
				return a.Nothing(fmt.Sprintf("build %d was removed already, on %s%s",
					n, tx.Removed.Local().Format(time.RFC3339), tx.Restorable(a.Now())))
			}
			list = append(list, tx)
		}
		if yes, err := c.confirmed(a, k, list); err != nil {
			return err
		} else if !yes {
			return a.Nothing("nothing was removed")
		}
		for _, tx := range list {
			if err := c.remove(a, k, tx); err != nil {
				return noSuchTx(a.Stderr, tx.Transaction, err)
			}
		}
		return nil
	})
}

// confirmed asks the person at a terminal whether the transactions are to go, after it has
// said what goes. A dry run removes nothing, and who gives a plan has seen what it does.
func (c rmCmd) confirmed(a *session, k *client.API, list []display.Transaction) (bool, error) {
	if c.Yes || c.DryRun || c.Plan != "" || !term.IsTerminal(a.Stdin) {
		return true, nil
	}
	var plans []display.RemovePlan
	for _, tx := range list {
		l, err := k.PlanRemoval(a.Ctx, tx.Transaction)
		if err != nil {
			return false, noSuchTx(a.Stderr, tx.Transaction, err)
		}
		plans = append(plans, l)
	}
	question := display.RemovalQuestion(a.Stderr, plans, list, c.Purge, a.Now())
	return term.Confirm(a.Ctx, a.Stdin, a.Stderr, question)
}

func (c rmCmd) remove(a *session, k *client.API, tx display.Transaction) error {
	n := tx.Transaction
	if c.DryRun {
		l, err := k.PlanRemoval(a.Ctx, n)
		switch {
		case err != nil:
			return err
		case c.JSON:
			return a.Print(true, l, "")
		}
		l.Print(a.Stdout, tx, c.Purge, a.Now())
		return nil
	}
	if c.Purge {
		l, err := k.Purge(a.Ctx, n, c.Reason)
		switch {
		case err != nil:
			return err
		case c.JSON:
			return a.Print(true, l, "")
		}
		l.Print(a.Stdout)
		return nil
	}
	l, err := k.Remove(a.Ctx, n, c.Plan)
	if err != nil {
		return err
	}
	return a.Print(c.JSON, l, "removed build %d (%s)%s\n", n, term.Count(l.Objects, "file"), l.Restorable(a.Now()))
}
