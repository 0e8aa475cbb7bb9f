package client

import (
	"context"
	"io/fs"
	"net/http"
	"net/url"
	"time"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/display"
)

// Transactions calls each for transactions, newest first.
func (a *API) Transactions(ctx context.Context, f depot.ListFilter, each func(display.Transaction) error) error {
	q := given(map[string]string{"version": f.Version, "who": f.Who, "since": moment(f.Since)})
	if f.Product != nil {
		q.Set("product", *f.Product)
	}
	if f.Removed {
		q.Set("removed", "true")
	}
	_, err := list(ctx, a, wire.TransactionsPath, q, f.Limit, each)
	return err
}

// State returns a transaction with its history.
func (a *API) State(ctx context.Context, number int64) (display.State, error) {
	return get[display.State](ctx, a, numbered(wire.TransactionsPath, number), nil)
}

// Transaction returns a transaction.
func (a *API) Transaction(ctx context.Context, number int64) (display.Transaction, error) {
	s, err := a.State(ctx, number)
	return s.Transaction, err
}

// Files calls each for the files of a transaction.
func (a *API) Files(ctx context.Context, number int64, each func(display.File) error) error {
	_, err := list(ctx, a, numbered(wire.TransactionsPath, number)+"/files", url.Values{}, 0, each)
	return err
}

// change changes a transaction.
func (a *API) change(ctx context.Context, number int64, q wire.TransactionChange) (display.Changed, error) {
	return send[display.Changed](ctx, a, http.MethodPatch, numbered(wire.TransactionsPath, number), q, fs.ErrNotExist)
}

// value is what a pointer points to; the zero value if it is nil.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// Comment replaces the comment of a transaction.
func (a *API) Comment(ctx context.Context, number int64, comment string) (display.Transaction, error) {
	done, err := a.change(ctx, number, wire.TransactionChange{Comment: &comment})
	return value(done.Transaction), err
}

// Hold protects a transaction from removal until the end of a day; the zero time: for ever.
func (a *API) Hold(ctx context.Context, number int64, reason string, until time.Time) (display.Held, error) {
	spec := &wire.HoldSpec{Reason: reason}
	if !until.IsZero() {
		spec.Until = until.UTC().Format(time.DateOnly)
	}
	done, err := a.change(ctx, number, wire.TransactionChange{Hold: spec})
	return value(done.Held), err
}

// Unhold releases the hold with a reason, or all if it is empty. It returns those that were
// released.
func (a *API) Unhold(ctx context.Context, number int64, reason string) ([]display.Held, error) {
	done, err := a.change(ctx, number, wire.TransactionChange{Unhold: &reason})
	return done.Released, err
}

// Promote changes the class of a transaction. If hold is not empty, it also places a hold
// for this reason. With force, the coverage that the class demands does not matter.
func (a *API) Promote(ctx context.Context, number int64, class, hold string, force bool) (display.Promoted, error) {
	q := wire.TransactionChange{Class: class, Force: force}
	if hold != "" {
		q.Hold = &wire.HoldSpec{Reason: hold}
	}
	done, err := a.change(ctx, number, q)
	return value(done.Promoted), err
}

// PlanRemoval computes what the removal of a transaction would free, as a plan.
func (a *API) PlanRemoval(ctx context.Context, number int64) (display.RemovePlan, error) {
	spec := wire.PlanSpec{Kind: wire.PlanRemove, Transaction: number}
	return send[display.RemovePlan](ctx, a, http.MethodPost, wire.PlansPath, spec, fs.ErrNotExist)
}

// remove removes a transaction.
func remove[T any](ctx context.Context, a *API, number int64, q url.Values) (T, error) {
	path := numbered(wire.TransactionsPath, number)
	return call[T](ctx, a, request{method: http.MethodDelete, path: path, query: q, missing: fs.ErrNotExist})
}

// Remove removes a transaction. If plan is not empty and would be another one now, nothing
// is removed, and the error is retention.ErrStale.
func (a *API) Remove(ctx context.Context, number int64, plan string) (display.Transaction, error) {
	return remove[display.Transaction](ctx, a, number, given(map[string]string{"plan": plan}))
}

// Purge removes a transaction and frees its bytes at once.
func (a *API) Purge(ctx context.Context, number int64, reason string) (display.Purged, error) {
	return remove[display.Purged](ctx, a, number, given(map[string]string{"purge": "true", "reason": reason}))
}

// Undo restores a transaction from the trash.
func (a *API) Undo(ctx context.Context, number int64) (display.Transaction, error) {
	q := request{method: http.MethodPost, path: numbered(wire.TransactionsPath, number) + "/undo", missing: fs.ErrNotExist}
	return call[display.Transaction](ctx, a, q)
}
