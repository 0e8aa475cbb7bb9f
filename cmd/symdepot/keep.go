package main

import (
	"fmt"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/report"
	"github.com/symdepot/symdepot/internal/term"
)

type rmCmd struct {
	Numbers []int64 `arg:"" name:"tx" help:"Numbers of transactions."`
}

// Help is the long help text.
func (rmCmd) Help() string {
	return `Files that no other transaction contains disappear for every client at once; symdepot gc frees their space. A file that
several transactions contain stays until the last of them is removed.

  symdepot rm 17 18

Exit codes: 0 removed, 1 no such transaction (none was removed), 2 wrong command line, 3 failed,
4 no depot.`
}

// Run removes transactions.
func (c rmCmd) Run(a *app) error {
	d, err := a.open(depot.Options{MustExist: true})
	if err != nil {
		return err
	}
	defer d.Close()
	for _, n := range c.Numbers {
		tx, err := d.Transaction(a.ctx, n)
		if err != nil {
			return noSuchTx(a.stderr, n, err)
		}
		if !tx.Removed.IsZero() {
			fmt.Fprintf(a.stderr, "symdepot: transaction %d was removed already, on %s\n", n, tx.Removed.Local().Format(time.RFC3339))
			return term.ErrNegative
		}
	}
	for _, n := range c.Numbers {
		tx, err := d.Remove(a.ctx, n)
		if err != nil {
			return noSuchTx(a.stderr, n, err)
		}
		fmt.Fprintf(a.stdout, "removed transaction %d (%s)\n", n, term.Count(tx.Files, "object"))
	}
	return nil
}

type gcCmd struct {
	DryRun bool          `help:"Only print what would be freed." short:"n"`
	Grace  term.Duration `help:"Keep contents that lost their last transaction less than this long ago; a running add may still refer to them." default:"24h"`
	Claim  bool          `help:"Let this database delete the objects of the bucket, instead of another copy of it that is not used any more."`
	JSON   bool          `help:"Print one JSON object."`
}

// Help is the long help text.
func (gcCmd) Help() string {
	return `Frees the contents that no transaction refers to any more, and what interrupted adds left behind. Contents whose last
transaction was removed recently wait for --grace. May run beside add and serve.

With contents in a bucket, one database may delete objects: a restored dump, a promoted copy and a copied folder delete nothing, because the original may be in
use. --claim gives them that right, and takes it from the original.

  symdepot gc --dry-run
  symdepot gc --grace 1h
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
	got, err := d.Collect(a.ctx, time.Duration(c.Grace), c.DryRun)
	if err != nil {
		return err
	}
	if c.JSON {
		return term.NewJSONLines(a.stdout).Write(report.NewCollected(got, c.DryRun))
	}
	report.Freed(a.stdout, got, c.DryRun)
	return nil
}

type verifyCmd struct {
	JSON   bool `help:"Print one JSON object per fault and a last one with the sums."`
	Repair bool `help:"Move damaged files aside, so that adding or downloading them again restores them."`
	Rows   bool `help:"Check the index only, not the stored bytes."`
	Deep   bool `help:"Compare all objects of a bucket with the index. Unknown ones that are older than a month are deleted seven days later, by symdepot gc."`
}

// Help is the long help text.
func (verifyCmd) Help() string {
	return `Reads and hashes every stored byte, and checks that the index and the stored contents agree.

  symdepot verify
  symdepot verify --repair
  symdepot verify --rows --deep     of a bucket: what is missing and what is too much, without reading the objects

Each fault names the files that are lost with the content, and how to get them back. --repair moves
damaged files to blobs/damaged in the depot. Damaged files of the cache are removed from it and
downloaded again; compressed forms are made again; files that were added come back when the same
file is added again.

Exit codes: 0 clean, 1 faults were found, 2 wrong command line, 3 the check could not be finished,
4 no depot.`
}

// Run verifies the depot.
func (c verifyCmd) Run(a *app) error {
	d, err := a.open(depot.Options{MustExist: true})
	if err != nil {
		return err
	}
	defer d.Close()
	stats, err := d.Stats(a.ctx)
	if err != nil {
		return err
	}
	out := term.NewJSONLines(a.stdout)
	bar := term.NewProgress(a.stderr, "verifying", stats.Bytes)
	defer bar.Done()
	v, err := d.Check.Run(a.ctx, depot.CheckOptions{Repair: c.Repair, Rows: c.Rows, Deep: c.Deep}, func(f depot.Fault) {
		if c.JSON {
			_ = out.Write(f)
		} else {
			report.Fault(a.stdout, f)
		}
	}, bar.Set)
	bar.Done()
	if err != nil {
		return err
	}
	background, err := d.Check.Progress(a.ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		if err := out.Write(report.NewChecked(v, background)); err != nil {
			return err
		}
	} else {
		report.Verified(a.stdout, v, background, c.Rows)
	}
	if v.Faults > 0 {
		return term.ErrNegative
	}
	return nil
}
