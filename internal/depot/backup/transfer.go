package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"
	"time"

	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
)

const (
	// copyBatch and copyBytes limit the contents that are stored together: what a
	// killed transfer has to copy again.
	copyBatch = 500
	copyBytes = 64 << 20
)

// transfer copies contents into a store on disk: for a backup, or out of one. The
// copies are files of their own, never hard links: what damages one of two names
// of a file damages both, and a backup must survive that.
type transfer struct {
	// from knows cold contents: it returns the plain bytes of one whose plain bytes are
	// damaged or missing, if its cold file is intact.
	from *coldstore.Store
	to   *blob.Disk
	// hash makes contents that the target has already be hashed, and copied if
	// they are damaged. Otherwise those with the right size count as copied.
	hash bool
	// lost is called for a content that cannot be read. Its error ends the
	// transfer.
	lost     func(ctx context.Context, c record.Content, err error) error
	plain    []record.Content // copied instead of their cold files; see plainInstead
	progress func(done int64) // bytes of the contents that the target has

	done, copied, bytes int64 // bytes; contents and bytes that were copied
}

// run copies the contents of a list that the target does not have, and those of plain.
func (t *transfer) run(ctx context.Context, list iter.Seq2[record.Content, error]) error {
	if err := t.copy(ctx, list); err != nil {
		return err
	}
	return t.copy(ctx, func(yield func(record.Content, error) bool) {
		for c := range slices.Values(t.plain) {
			if !yield(c, nil) {
				return
			}
		}
	})
}

func (t *transfer) copy(ctx context.Context, list iter.Seq2[record.Content, error]) error {
	var batch []record.Content
	var size int64
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := t.store(ctx, batch)
		if err == nil {
			t.has(size)
		}
		batch, size = batch[:0], 0
		return err
	}
	for c, err := range list {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		there, err := t.holds(ctx, c)
		if err != nil {
			return err
		}
		if there {
			t.has(c.Size)
			continue
		}
		batch, size = append(batch, c), size+c.Size
		if len(batch) == copyBatch || size >= copyBytes {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// has counts bytes of contents that the target has for good.
func (t *transfer) has(size int64) {
	t.done += size
	if t.progress != nil {
		t.progress(t.done)
	}
}

// holds reports whether the target has a content.
func (t *transfer) holds(ctx context.Context, c record.Content) (bool, error) {
	info, err := t.to.Stat(ctx, c.Ref)
	if err == nil && info.Size == c.Size && t.hash {
		err = t.to.Verify(ctx, c.Ref, c.Size, nil)
	}
	if errors.Is(err, fs.ErrNotExist) { // damaged contents too
		return false, nil
	}
	return err == nil && info.Size == c.Size, err
}

// store copies contents and makes the copies durable together.
func (t *transfer) store(ctx context.Context, list []record.Content) error {
	b, err := t.to.Begin(ctx)
	if err != nil {
		return err
	}
	defer b.Abort()
	var copied []record.Content
	for _, c := range list {
		cause, err := t.put(ctx, b, c)
		if err == nil && cause != nil {
			err = t.lost(ctx, c, cause)
		} else if err == nil {
			copied = append(copied, c)
		}
		if err != nil {
			return err
		}
	}
	if err := b.Commit(ctx); err != nil {
		return err
	}
	for _, c := range copied {
		t.copied++
		t.bytes += c.Size
		if t.hash { // what the disk has, not what was written
			if err := t.to.Verify(ctx, c.Ref, c.Size, nil); err != nil {
				return fmt.Errorf("the disk does not return what was written: %w", err)
			}
		}
	}
	return nil
}

// put adds a content to a batch. cause is why the original cannot be read.
func (t *transfer) put(ctx context.Context, b blob.Batch, c record.Content) (cause, err error) {
	ctx = coldstore.Uncounted(ctx) // a copy is no use of a content
	cause, err = t.putFrom(ctx, b, c, t.from.Open)
	if cause == nil || err != nil {
		return nil, err
	}
	// Large plain bytes are not hashed before they are read. A store that has hashed them
	// uses the cold file of the content.
	return t.putFrom(ctx, b, c, t.from.OpenWhole)
}

func (t *transfer) putFrom(
	ctx context.Context, b blob.Batch, c record.Content, open func(ctx context.Context, ref blob.Ref) (blob.File, error),
) (cause, err error) {
	f, cause := open(ctx, c.Ref)
	if content.IsDenied(cause) {
		return nil, cause // nothing is lost: somebody gives the right, and the copy begins again
	}
	if cause != nil {
		return cause, ctx.Err()
	}
	defer func() { _ = f.Close() }() // opened for reading
	from := &original{r: f}
	ref, _, err := b.Put(ctx, c.Size, from)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case from.err != nil:
		return from.err, nil
	case errors.Is(err, blob.ErrMismatch):
		return err, nil // another size
	case err != nil:
		return nil, err
	case ref != c.Ref:
		return fmt.Errorf("its bytes have SHA-256 %s", ref), nil
	}
	return nil, nil
}

// plainInstead ends, in the index of a copy, the record of the content that a lost cold file
// restores, if one of some stores has the plain bytes of the content intact: the copy needs
// no cold file then.
func plainInstead(
	ctx context.Context, copied *index.DB, file blob.Ref, now func() time.Time, stores ...blob.Store,
) (c record.Content, ok bool, err error) {
	holders, err := copied.Holders(ctx, file)
	if err != nil {
		return c, false, err
	}
	for _, h := range holders {
		if h.Tool != contents.ColdTool.Name {
			continue
		}
		row, err := copied.Colds.Of(ctx, h.Of)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return c, false, err
		}
		for _, s := range stores {
			err := s.Verify(ctx, row.Ref, row.Size, nil)
			if err == nil {
				err = copied.Colds.Warm(ctx, row.Content, func() error { return nil })
				if err == nil {
					_, err = copied.DropContents(ctx, []blob.Ref{file}, now(), func(blob.Ref) error { return nil })
				}
				return row.Content, err == nil, err
			}
			if !errors.Is(err, fs.ErrNotExist) { // else they are not stored, or are damaged
				return c, false, err
			}
		}
	}
	return c, false, nil
}

// original is a file that is copied. It keeps its own error, as opposed to those of
// the target.
type original struct {
	r   io.Reader
	err error
}

func (o *original) Read(p []byte) (int, error) {
	n, err := o.r.Read(p)
	if err != nil && err != io.EOF {
		o.err = err
	}
	return n, err
}
