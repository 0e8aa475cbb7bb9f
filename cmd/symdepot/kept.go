package main

import (
	"errors"
	"io/fs"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/report"
	"github.com/symdepot/symdepot/internal/term"
)

// kept prints the class of a transaction and its history, the holds on it, and who
// removed it; with asJSON all of the transaction.
func (a *app) kept(r *depot.Retention, tx depot.Transaction, asJSON bool) error {
	holds, err := r.Holds(a.ctx, tx.Number)
	if err != nil {
		return err
	}
	promotions, err := r.Promotions(a.ctx, tx.Number)
	if err != nil {
		return err
	}
	needs, err := r.Needs(a.ctx, tx.Number)
	if err != nil {
		return err
	}
	why, err := r.Why(a.ctx, tx.Number)
	unknown := errors.Is(err, fs.ErrNotExist)
	if err != nil && !unknown {
		return err
	}
	if !asJSON {
		report.Kept(a.stdout, tx, holds, promotions, needs, why)
		return nil
	}
	removal := &why
	if unknown || tx.Removed.IsZero() {
		removal = nil
	}
	l := report.NewState(tx, holds, promotions, removal)
	l.Needs = needs
	if l.Key, err = r.PushKey(a.ctx, tx.Number); err != nil {
		return err
	}
	return term.NewJSONLines(a.stdout).Write(l)
}
