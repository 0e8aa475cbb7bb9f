package lifecycle

import (
	"context"
	"fmt"
	"time"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/retention"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/index/removals"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// ErrHeld is the error for a transaction that a hold protects from removal.
type ErrHeld = removals.ErrHeld

// NotInTrashError is the error for a removed transaction that cannot be restored.
type NotInTrashError = removals.NotInTrashError

// Remove removes a transaction: into the trash, unless the policy has none. Objects that
// no other transaction contains become hidden at once; Collect frees them after the trash.
// An unknown or removed transaction is fs.ErrNotExist, a held one an *ErrHeld.
func (r *Retention) Remove(ctx context.Context, number int64, who string) (record.Transaction, error) {
	p, err := r.Policy(ctx)
	if err != nil {
		return record.Transaction{}, err
	}
	at := r.now()
	return r.db.Trash.Remove(ctx, removals.Removal{Number: number, At: at, Until: p.Policy.Restorable(at), Who: who, Reason: "rm"})
}

// Purged is the result of a purge.
type Purged struct {
	Transaction record.Transaction
	// Removal says what was freed, and what others still need.
	Removal *retention.Removal
	// Contents were freed.
	Contents int64
	// InUse could not be freed because another program holds their files open.
	InUse int64
	// Pending is set for a bucket: its objects are deleted after days.
	Pending bool
}

// Purge removes a transaction past trash and grace: its contents that nothing else
// needs are freed at once. The transaction may be in the trash. Other errors are
// those of Remove; a removal whose files are not known any more is a
// *NotInTrashError.
func (r *Retention) Purge(ctx context.Context, number int64, who, detail string) (Purged, error) {
	p := Purged{Pending: r.placed}
	// If they cannot become plain, nothing has happened yet, and the command can be repeated.
	for row, err := range r.db.Colds.Purged(ctx, number) {
		if err == nil {
			err = r.cold.Warm(ctx, row, nil)
		}
		if err != nil {
			return p, fmt.Errorf("build %d stays, because other contents are built from its contents and cannot be made plain now: %w",
				number, err)
		}
	}
	s, _, err := r.Snapshot(ctx)
	if err != nil {
		return p, err
	}
	for i := range s.Transactions {
		if s.Transactions[i].Number == number {
			if p.Removal, err = s.Purge(number); err != nil {
				return p, err
			}
		}
	}
	t, refs, err := r.db.Trash.Purge(ctx, removals.Removal{Number: number, At: r.now(), Who: who, Reason: "purge", Detail: detail})
	if err != nil {
		return p, err
	}
	p.Transaction = t
	r.log.Warn("a build was purged", "build", number, "by", who, "detail", detail)
	drop := func() error {
		n, err := r.db.DropContents(ctx, refs, r.now(), content.Deleter(ctx, r.blobs, func(blob.Ref) { p.InUse++ }))
		p.Contents += int64(n)
		return err
	}
	if err := drop(); err != nil { // before the bases: their deltas may go too
		return p, err
	}
	for _, ref := range refs {
		r.cold.Store().Forget(ref)
		if err := r.cold.Free(ctx, ref); err != nil {
			return p, fmt.Errorf("build %d is removed, and content %s stays as long as cold contents are built from it: %w", number, ref, err)
		}
	}
	return p, drop()
}

// Undo restores a transaction from the trash. One that is not there is a
// *NotInTrashError; an unknown number is fs.ErrNotExist.
func (r *Retention) Undo(ctx context.Context, number int64, who string) (record.Transaction, error) {
	t, err := r.db.Trash.Undo(ctx, number)
	if err == nil {
		r.log.Info("a build was restored", "build", number, "by", who)
	}
	return t, err
}

// Trash returns the transactions in the trash, and the number and the disk space
// of the contents that they hold back together.
func (r *Retention) Trash(ctx context.Context) (list []Trashed, contents, space int64, err error) {
	return r.db.Trash.List(ctx, r.now())
}

// Removed returns files in the scope that removals have hidden, for a query as that
// of Find, the latest removals first.
func (r *Retention) Removed(ctx context.Context, scope answer.Scope, query string, limit int) ([]RemovedFile, error) {
	return r.db.Trash.Find(ctx, scope.Index(), answer.Spellings(query), limit)
}

// Why returns who removed a transaction, and why; fs.ErrNotExist if that is not known.
func (r *Retention) Why(ctx context.Context, number int64) (Removal, error) {
	return r.db.Trash.Why(ctx, number)
}

// tombstoneLife is how long the names and ids of removed files are kept.
const tombstoneLife = 400 * 24 * time.Hour

// Sweep deletes what is known of old removals.
func (r *Retention) Sweep(ctx context.Context, now time.Time) error {
	_, err := r.db.Trash.Forget(ctx, now.Add(-tombstoneLife))
	return err
}
