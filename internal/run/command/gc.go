package command

import (
	"fmt"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/run/client"
	"github.com/symdepot/symdepot/internal/run/console"
)

type gcCmd struct {
	serverFlags
	DryRun     bool          `help:"Only print what would be freed, and the number of the plan." short:"n" xor:"plan"`
	Plan       string        `help:"text:gc_plan" placeholder:"PLAN" xor:"plan,trash"`
	Grace      term.Duration `help:"text:gc_grace" default:"24h"`
	EmptyTrash bool          `help:"Also delete the files of the builds in the trash: these builds cannot be restored any more." xor:"trash"`
	Claim      bool          `help:"text:gc_claim"`
	JSON       bool          `help:"Print one JSON object."`
}

// Run collects.
func (c gcCmd) Run(a *session) error {
	if c.Claim {
		if c.DryRun || c.Server != "" {
			return term.UsageError("--claim cannot be combined with --dry-run or --server")
		}
		if err := c.claim(a); err != nil {
			return err
		}
	}
	l, err := c.collect(a)
	switch {
	case client.IsNo(err):
		return a.Nothing(err.Error())
	case err != nil:
		return err
	case c.DryRun && l.Plan == "":
		fmt.Fprintln(a.Stderr, "symdepot: the plan could not be stored; gc without --plan works nevertheless")
	}
	if c.JSON {
		return term.NewJSONLines(a.Stdout).Write(l)
	}
	l.Print(a.Stdout)
	return nil
}

// collect collects garbage, or plans to. At a server, what is collected was planned just
// before; a depot of this machine is collected without a plan, because others may change it
// all the time, and a dry run of one that cannot be written has a plan without a number.
func (c gcCmd) collect(a *session) (l display.Collected, err error) {
	grace := time.Duration(c.Grace)
	if c.Server == "" && c.Plan == "" {
		return c.here(a, lifecycle.CollectOptions{Grace: grace, EmptyTrash: c.EmptyTrash})
	}
	err = a.api(c.serverFlags, depot.Options{Probe: true}, func(k *client.API) (err error) {
		switch {
		case c.Plan != "":
			l, err = k.ApplyCollection(a.Ctx, c.Plan)
		case c.DryRun:
			l, err = k.PlanCollection(a.Ctx, grace, c.EmptyTrash)
		default:
			l, err = k.Collect(a.Ctx, grace, c.EmptyTrash)
		}
		return err
	})
	return l, err
}

// here collects garbage of the depot of this machine.
func (c gcCmd) here(a *session, opt lifecycle.CollectOptions) (display.Collected, error) {
	d, err := a.open(depot.Options{MustExist: true, Probe: true})
	if err != nil {
		return display.Collected{}, err
	}
	defer d.Close()
	if c.DryRun {
		p, err := d.Retention.PlanCollection(a.Ctx, opt, console.LocalUser())
		return display.NewCollectionPlan(p), err
	}
	done, err := d.Retention.Collect(a.Ctx, opt)
	return display.NewCollected(done, false), err
}

// claim gives the depot the right to delete the objects of its bucket.
func (gcCmd) claim(a *session) error {
	d, err := a.open(depot.Options{MustExist: true, Probe: true})
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Check.Claim(a.Ctx)
}
