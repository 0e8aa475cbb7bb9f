package main

import (
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/report"
	"github.com/symdepot/symdepot/internal/term"
)

type gcCmd struct {
	DryRun     bool          `help:"Only print what would be freed." short:"n"`
	Grace      term.Duration `help:"Keep contents that lost their last transaction less than this long ago; a running add may still refer to them." default:"24h"`
	EmptyTrash bool          `help:"Free now what is in the trash, too: its transactions cannot be restored any more."`
	Claim      bool          `help:"Let this database delete the objects of the bucket, instead of another copy of it that is not used any more."`
	JSON       bool          `help:"Print one JSON object."`
}

// Help is the long help text.
func (gcCmd) Help() string {
	return `Frees the contents that no transaction refers to any more, and what interrupted adds left behind. Contents whose last
transaction was removed recently wait for --grace. Transactions in the trash are printed, with the time until which symdepot undo restores them; afterwards
gc frees their contents. May run beside add and serve.

With contents in a bucket, one database may delete objects: a restored dump, a promoted copy and a copied folder delete nothing, because the original may be in
use. --claim gives them that right, and takes it from the original.

  symdepot gc --dry-run
  symdepot gc --grace 1h
  symdepot gc --empty-trash
  symdepot gc --claim

Exit codes: 0 done, 2 wrong command line, 3 failed, 4 no depot.`
}

// Run collects.
func (c gcCmd) Run(a *app) error {
	d, err := a.open(depot.Options{MustExist: true, Probe: true})
	if err != nil {
		return err
	}
	defer d.Close()
	if c.Claim {
		if c.DryRun {
			return term.UsageError("--claim cannot be combined with --dry-run")
		}
		if err := d.Check.Claim(a.ctx); err != nil {
			return err
		}
	}
	got, err := d.Retention.Collect(a.ctx, depot.CollectOptions{Grace: time.Duration(c.Grace), DryRun: c.DryRun, EmptyTrash: c.EmptyTrash})
	if err != nil {
		return err
	}
	if c.JSON {
		return term.NewJSONLines(a.stdout).Write(report.NewCollected(got, c.DryRun))
	}
	report.Freed(a.stdout, got, c.DryRun)
	return nil
}
