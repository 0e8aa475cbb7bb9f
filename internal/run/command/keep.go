package command

import (
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/check"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/display"
)

type verifyCmd struct {
	JSON    bool `help:"Print one JSON object per fault and a last one with the sums."`
	Repair  bool `help:"Move damaged files to blobs/damaged; they are restored when they are added or downloaded again."`
	Restore bool `help:"Restore every cold file too, and compare it with its SHA-256." xor:"bytes"`
	Rows    bool `help:"Check the index only, not the stored bytes." xor:"bytes"`
	Deep    bool `help:"text:verify_deep"`
}

// Run verifies the depot.
func (c verifyCmd) Run(a *session) error {
	d, err := a.open(depot.Options{MustExist: true})
	if err != nil {
		return err
	}
	defer d.Close()
	stats, err := d.Stats(a.Ctx)
	if err != nil {
		return err
	}
	out := term.NewJSONLines(a.Stdout)
	bar := term.NewProgress(a.Stderr, "verifying", stats.Bytes)
	defer bar.Done()
	v, err := d.Check.Run(a.Ctx, check.Options{Repair: c.Repair, Rows: c.Rows, Deep: c.Deep, Restore: c.Restore}, func(f content.Fault) {
		if c.JSON {
			_ = out.Write(f)
		} else {
			display.Fault(a.Stdout, f)
		}
	}, bar.Set)
	bar.Done()
	if err != nil {
		return err
	}
	background, err := d.Check.Progress(a.Ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		if err := out.Write(display.NewChecked(v, background)); err != nil {
			return err
		}
	} else {
		display.Verified(a.Stdout, v, background, c.Rows)
	}
	if v.Faults > 0 {
		return term.ErrNegative
	}
	return nil
}
