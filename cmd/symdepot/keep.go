package main

import (
	"fmt"
	"io"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
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
		return term.NewJSONLines(a.stdout).Write(struct {
			DryRun   bool  `json:"dry_run,omitempty"`
			Contents int64 `json:"contents"`
			Strays   int64 `json:"strays"`
			Bytes    int64 `json:"bytes"`
			InUse    int64 `json:"in_use,omitempty"`
			Pending  int64 `json:"pending,omitempty"`
		}{c.DryRun, got.Contents, got.Strays, got.Bytes, got.InUse, got.Pending})
	}
	verb := "freed"
	if c.DryRun {
		verb = "would free"
	}
	later, err := d.Collect(a.ctx, 0, true)
	if err != nil {
		return err
	}
	if c.DryRun {
		later.Bytes -= got.Bytes
	}
	if later.Bytes > 0 {
		defer fmt.Fprintf(a.stdout, "%s more can be freed when %s have passed since their removal (--grace)\n", term.Size(later.Bytes), c.Grace)
	}
	fmt.Fprintf(a.stdout, "%s %s: %s without a transaction, %s left by an interrupted add\n", verb, term.Size(got.Bytes), term.Count(got.Contents, "content"), term.Count(got.Strays, "blob"))
	if got.Pending > 0 {
		fmt.Fprintf(a.stdout, "%s (%s) wait in the bucket; a gc that runs seven days after their removal deletes them\n", term.Count(got.Pending, "object"), term.Size(got.PendingBytes))
	}
	if got.InUse > 0 {
		fmt.Fprintf(a.stdout, "%s in use by other programs: the next gc frees them\n", term.Count(got.InUse, "blob"))
	}
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
			printFault(a.stdout, f)
		}
	}, bar.Set)
	bar.Done()
	if err != nil {
		return err
	}
	if c.JSON {
		if err := out.Write(v); err != nil {
			return err
		}
	} else {
		word := "clean"
		if v.Faults > 0 {
			word = term.Count(v.Faults, "fault")
		}
		read := "every byte read"
		if c.Rows {
			read = "the rows checked"
		}
		fmt.Fprintf(a.stdout, "%s: %s, %s, %s", word, term.Count(v.Contents, "content"), term.Size(v.Bytes), read)
		if v.Strays > 0 {
			fmt.Fprintf(a.stdout, "; %s left by an interrupted add (gc takes them)", term.Count(v.Strays, "blob"))
		}
		fmt.Fprintln(a.stdout)
		printAudit(a.stdout, v)
		if v.Modes != "" {
			fmt.Fprintln(a.stdout, v.Modes)
		}
		if st, err := d.Check.Progress(a.ctx); err == nil && depot.ScrubText(st) != "" {
			fmt.Fprintln(a.stdout, depot.ScrubText(st))
		}
	}
	if v.Faults > 0 {
		return term.ErrNegative
	}
	return nil
}

// printAudit prints what the comparison of a bucket with the index found.
func printAudit(w io.Writer, v depot.Verified) {
	if v.Objects == 0 && v.Unknown == 0 {
		return
	}
	fmt.Fprintf(w, "%s in the bucket", term.Count(v.Objects, "object"))
	switch {
	case v.Unknown > 0 && v.Doomed:
		fmt.Fprintf(w, ", %d of them unknown and older than a month: a gc that runs in seven days deletes these", v.Unknown)
	case v.Unknown > 0:
		fmt.Fprintf(w, ", %d of them unknown and older than a month; they stay, because another copy of the database owns the objects (symdepot gc --claim)", v.Unknown)
	}
	fmt.Fprintln(w)
}

// printFault prints a fault with the files that are lost by it.
func printFault(w io.Writer, f depot.Fault) {
	what := f.What
	if f.Ref != "" {
		what = f.Ref + ": " + what
	}
	fmt.Fprintf(w, "fault: %s\n", what)
	for _, l := range f.Files {
		fmt.Fprintf(w, "  %s\n", term.Printable(l.String()))
	}
	if f.MovedTo != "" {
		fmt.Fprintf(w, "  moved to %s\n", term.Printable(f.MovedTo))
	}
	if f.Remedy != "" {
		fmt.Fprintf(w, "  to get it back: %s\n", f.Remedy)
	}
}
