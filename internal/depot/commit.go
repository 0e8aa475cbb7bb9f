package depot

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/depot/retention"
	"github.com/symdepot/symdepot/internal/depot/stage"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// commits adds transactions to the depot.
type commits struct {
	depot     string // its name, for errors
	db        *index.DB
	blobs     blob.Backend
	contents  *content.Contents
	cold      *coldstore.Cold
	symbols   *Symbols
	confirmed *Confirmations
	retention *lifecycle.Retention
	// arrivals has the wishes found that a build fulfils, in a write.
	arrivals func(w *engine.Write, number int64) error
}

// commit makes the contents of a batch durable, then adds a transaction of these and of
// contents that are stored already. Every way in ends here. What was damaged or could not
// be restored, and whose bytes the transaction has brought, is healed. batch is nil if all
// contents are in their places.
//
// If tx has Again, and an equal transaction has all keys of its entries, that one's number
// is returned. If a content is not there any more, the error is a *stage.MissingError. A transaction
// with a content that cannot be read back is committed, and the error is a
// *stage.LostError.
func (c *commits) commit(ctx context.Context, tx record.Tx, batch blob.Batch) (int64, error) {
	damaged, err := c.damagedIn(ctx, tx)
	if err != nil {
		return 0, err
	}
	forms, err := c.retention.Entering(ctx, &retention.Transaction{
		Product: tx.Product, Version: tx.Version, Branch: tx.Branch, Class: tx.Class,
	})
	if err != nil {
		return 0, err
	}
	tx.Also = func(w *engine.Write, number int64) error {
		if err := c.arrivals(w, number); err != nil || forms == nil {
			return err
		}
		return forms(w, number)
	}
	if batch != nil {
		err := batch.Commit(ctx)
		if gone, ok := errors.AsType[*blob.GoneError](err); ok {
			err = &stage.MissingError{Refs: gone.Refs}
		}
		if err != nil {
			return 0, err
		}
	}
	linkRuntimes(tx.Entries)
	number, err := c.enter(ctx, tx, batch)
	if err == nil && tx.Again != nil && *tx.Again {
		// An older version may have recorded fewer keys of the same files, or they were of another kind.
		var unfound []int
		if unfound, err = c.db.Unfound(ctx, number, tx.Entries); err == nil && len(unfound) > 0 {
			*tx.Again, tx.Again = false, nil
			number, err = c.enter(ctx, tx, batch)
		}
	}
	if err != nil {
		return 0, err
	}
	c.symbols.arrived(ctx, tx.Entries)
	// The client may leave, but what was brought is stored, and a fault must be noticed.
	ctx = context.WithoutCancel(ctx)
	lost, err := healed(ctx, c.cold, c.contents, damaged)
	if err != nil {
		return number, err
	}
	return number, c.confirmed.found(ctx, number, tx.Entries, refsOf(lost))
}

// healed ends what is recorded about the damage of contents whose bytes have just been
// brought. It returns those that cannot be read back nevertheless.
func healed(
	ctx context.Context, cold *coldstore.Cold, contents *content.Contents, damaged []record.Content,
) (lost []record.Content, err error) {
	cold.AddedAgain(ctx, refsOf(damaged))
	return contents.Lost(ctx, damaged)
}

// damagedIn returns those contents of a transaction that were stored before and cannot be
// read back.
func (c *commits) damagedIn(ctx context.Context, tx record.Tx) ([]record.Content, error) {
	known := make(map[blob.Ref]bool, len(tx.Entries))
	var refs []blob.Ref
	for _, e := range tx.Entries {
		if !known[e.Ref] {
			known[e.Ref] = true
			refs = append(refs, e.Ref)
		}
	}
	list, err := c.db.Damages.Among(ctx, refs)
	if err != nil {
		return nil, err
	}
	return c.contents.Lost(ctx, list)
}

func refsOf(list []record.Content) []blob.Ref {
	refs := make([]blob.Ref, len(list))
	for i, k := range list {
		refs[i] = k.Ref
	}
	return refs
}

// commitAttempts limits how often the contents of a batch are uploaded again.
const commitAttempts = 4

// enter commits a transaction whose contents were made durable by a batch.
func (c *commits) enter(ctx context.Context, tx record.Tx, batch blob.Batch) (number int64, err error) {
	again, _ := batch.(interface{ Again(context.Context) error })
	for attempt := 1; ; attempt++ {
		number, err = c.db.Commit(ctx, tx, c.checkStored)
		if !errors.Is(err, record.ErrNotUploaded) || again == nil || attempt == commitAttempts {
			break
		}
		// This process stood still for so long that its uploads were given up.
		if aerr := again.Again(ctx); aerr != nil {
			return 0, errors.Join(err, aerr)
		}
	}
	if errors.Is(err, record.ErrNotUploaded) {
		err = c.notUploaded(ctx, tx, err)
	}
	return number, err
}

// checkStored returns a *stage.MissingError for the contents that are not stored. Garbage
// collection needs the lock of the commit that calls it, so contents that exist now stay.
func (c *commits) checkStored(ctx context.Context, refs []blob.Ref) error {
	var missing []blob.Ref
	for _, r := range refs {
		if _, err := c.blobs.Stat(ctx, r); errors.Is(err, fs.ErrNotExist) {
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
func (c *commits) notUploaded(ctx context.Context, tx record.Tx, err error) error {
	var missing []blob.Ref
	looked := make(map[blob.Ref]bool)
	for _, e := range tx.Entries {
		if looked[e.Ref] {
			continue
		}
		looked[e.Ref] = true
		done, ferr := c.db.Places.Finished(ctx, record.Content{Ref: e.Ref, Size: e.Size})
		if ferr != nil {
			return ferr
		}
		if done {
			continue
		}
		if _, _, oerr := c.db.Places.Of(ctx, e.Ref); errors.Is(oerr, fs.ErrNotExist) {
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

// linkRuntimes adds aliases with the id of a .NET runtime to the debugger helpers
// that were added from the same folder.
func linkRuntimes(entries []record.Entry) {
	folder := func(p string) string { return path.Dir(strings.ReplaceAll(p, `\`, "/")) }
	runtimes := map[string][]symfile.Object{}
	for _, e := range entries {
		switch symfile.Fold(e.Object.Name) {
		case "coreclr.dll", "clr.dll", "libcoreclr.so", "libcoreclr.dylib":
			f := folder(e.Path)
			runtimes[f] = append(runtimes[f], e.Object)
		}
	}
	if len(runtimes) == 0 {
		return
	}
	for i := range entries {
		for _, rt := range runtimes[folder(entries[i].Path)] {
			entries[i].Aliases = append(entries[i].Aliases, symfile.RuntimeHelpers(rt, entries[i].Object)...)
		}
	}
}
