package command

import (
	"fmt"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/run/client"
	"github.com/symdepot/symdepot/internal/serve/web"
)

type rmCmd struct {
	serverFlags
	DryRun  bool    `help:"Only print what the removal would free, and the number of the plan." short:"n" xor:"plan"`
	Plan    string  `help:"text:rm_plan" placeholder:"PLAN" xor:"plan,purge"`
	Purge   bool    `help:"text:rm_purge" xor:"purge"`
	Reason  string  `help:"With --purge: why, for the record." placeholder:"TEXT"`
	JSON    bool    `help:"Print one JSON object per transaction."`
	Numbers []int64 `arg:"" name:"tx" help:"Numbers of transactions."`
}

// Run removes transactions.
func (c rmCmd) Run(a *session) error {
	if c.Plan != "" && len(c.Numbers) != 1 {
		return term.UsageError("--plan is that of one transaction")
	}
	done := func() {}
	defer func() { done() }()
	recorded := func(_ *depot.Depot, conf *web.Config) (err error) {
		conf.Purged, done, err = c.recorder(a)
		return err
	}
	return a.apiWith(c.serverFlags, depot.Options{Probe: c.Purge}, recorded, func(k *client.API) error {
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

func (c rmCmd) remove(a *session, k *client.API, n int64) error {
	if c.DryRun {
		l, err := k.PlanRemoval(a.ctx, n)
		switch {
		case err != nil:
			return err
		case c.JSON:
			return a.print(true, l, "")
		}
		l.Print(a.stdout, c.Purge)
		return nil
	}
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
	l, err := k.Remove(a.ctx, n, c.Plan)
	if err != nil {
		return err
	}
	return a.print(c.JSON, l, "removed transaction %d (%s)%s\n", n, term.Count(l.Objects, "object"), l.Restorable())
}
