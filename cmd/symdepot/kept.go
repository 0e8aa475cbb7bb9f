package main

import (
	"errors"
	"io/fs"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/report"
)

// kept prints the class of a transaction and its history, the holds on it, and who
// removed it.
func (a *app) kept(r *depot.Retention, tx depot.Transaction) error {
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
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	report.Kept(a.stdout, tx, holds, promotions, needs, why)
	return nil
}
