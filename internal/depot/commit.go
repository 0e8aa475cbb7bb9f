package depot

import (
	"context"
	"errors"
	"io/fs"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/stage"
)

// commit makes the contents of a batch durable, then adds a transaction of these and of
// contents that are stored already. Every way in ends here. What was damaged or could not
// be restored, and whose bytes the transaction has brought, is healed. batch is nil if all
// contents are in their places.
//
// If a content is not there any more, the error is a *stage.MissingError. A transaction
// with a content that cannot be read back is committed, and the error is a
// *stage.LostError.
func (d *Depot) commit(ctx context.Context, tx index.Tx, batch blob.Batch) (int64, error) {
	damaged, err := d.damagedIn(ctx, tx)
	if err != nil {
		return 0, err
	}
	if batch != nil {
		if err := batch.Commit(ctx); err != nil {
			return 0, err
		}
	}
	linkRuntimes(tx.Entries)
	number, err := d.enter(ctx, tx, batch)
	if err != nil {
		return 0, err
	}
	d.Symbols.arrived(ctx, tx.Entries)
	// The client may leave, but what was brought is stored, and a fault must be noticed.
	ctx = context.WithoutCancel(ctx)
	d.Cold.addedAgain(ctx, refsOf(damaged))
	lost, err := d.contents.lost(ctx, damaged)
	if err != nil {
		return number, err
	}
	return number, d.Confirmed.found(ctx, number, tx.Entries, refsOf(lost))
}

// damagedIn returns those contents of a transaction that were stored before and cannot be
// read back.
func (d *Depot) damagedIn(ctx context.Context, tx index.Tx) ([]index.Content, error) {
	known := make(map[blob.Ref]bool, len(tx.Entries))
	var refs []blob.Ref
	for _, e := range tx.Entries {
		if !known[e.Ref] {
			known[e.Ref] = true
			refs = append(refs, e.Ref)
		}
	}
	list, err := d.db.Damages.Among(ctx, refs)
	if err != nil {
		return nil, err
	}
	return d.contents.lost(ctx, list)
}

func refsOf(list []index.Content) []blob.Ref {
	refs := make([]blob.Ref, len(list))
	for i, c := range list {
		refs[i] = c.Ref
	}
	return refs
}

// commitAttempts limits how often the contents of a batch are uploaded again.
const commitAttempts = 4

// enter commits a transaction whose contents were made durable by a batch.
func (d *Depot) enter(ctx context.Context, tx index.Tx, batch blob.Batch) (number int64, err error) {
	again, _ := batch.(interface{ Again(context.Context) error })
	for attempt := 1; ; attempt++ {
		number, err = d.db.Commit(ctx, tx, d.checkStored)
		if !errors.Is(err, index.ErrNotUploaded) || again == nil || attempt == commitAttempts {
			break
		}
		// This process stood still for so long that its uploads were given up.
		if aerr := again.Again(ctx); aerr != nil {
			return 0, errors.Join(err, aerr)
		}
	}
	if errors.Is(err, index.ErrNotUploaded) {
		err = d.notUploaded(ctx, tx, err)
	}
	return number, err
}

// checkStored returns a *stage.MissingError for the contents that are not stored. Garbage
// collection needs the lock of the commit that calls it, so contents that exist now stay.
func (d *Depot) checkStored(ctx context.Context, refs []blob.Ref) error {
	var missing []blob.Ref
	for _, r := range refs {
		if _, err := d.blobs.Stat(ctx, r); errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, r)
		} else if err != nil {
			return err
		}
	}
	if len(missing) > 0 {
		return &stage.MissingError{Refs: missing}
	}
	return nil
}

// notUploaded returns a *stage.MissingError for the contents of a transaction that are
// neither uploaded nor stored: uploads were given up, or known contents were collected
// meanwhile. If there are none by now, it returns err.
func (d *Depot) notUploaded(ctx context.Context, tx index.Tx, err error) error {
	var missing []blob.Ref
	looked := make(map[blob.Ref]bool)
	for _, e := range tx.Entries {
		if looked[e.Ref] {
			continue
		}
		looked[e.Ref] = true
		done, ferr := d.db.Places.Finished(ctx, index.Content{Ref: e.Ref, Size: e.Size})
		if ferr != nil {
			return ferr
		}
		if done {
			continue
		}
		if _, _, oerr := d.db.Places.Of(ctx, e.Ref); errors.Is(oerr, fs.ErrNotExist) {
			missing = append(missing, e.Ref)
		} else if oerr != nil {
			return oerr
		}
	}
	if len(missing) == 0 {
		return err
	}
	return &stage.MissingError{Refs: missing}
}
