package main

import (
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/check"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/report"
	"github.com/symdepot/symdepot/internal/term"
)

type verifyCmd struct {
	JSON    bool `help:"Print one JSON object per fault and a last one with the sums."`
	Repair  bool `help:"Move damaged files aside, so that adding or downloading them again restores them."`
	Restore bool `help:"Restore and hash every cold file too; otherwise the bytes that they are stored as are hashed." xor:"bytes"`
	Rows    bool `help:"Check the index only, not the stored bytes." xor:"bytes"`
	Deep    bool `help:"${verify_deep}"`
}

// Help is the long help text.
func (verifyCmd) Help() string {
	return `Reads and hashes every stored byte, and checks that the index and the stored contents agree.

  symdepot verify
  symdepot verify --repair
  symdepot verify --rows --deep     of a bucket: what is missing and what is too much, without reading the objects

Of a cold file, the stored form and the base are hashed; --restore rebuilds and hashes each cold file too (docs/cold.md). Each fault names the files that are lost with the content, and how to get them back. --repair moves
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
	v, err := d.Check.Run(a.ctx, check.Options{Repair: c.Repair, Rows: c.Rows, Deep: c.Deep, Restore: c.Restore}, func(f content.Fault) {
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
