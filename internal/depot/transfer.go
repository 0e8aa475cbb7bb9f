package depot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/index"
)

const (
	// copyBatch and copyBytes limit the contents that are stored together.
	copyBatch = 500
	copyBytes = 1 << 30
)

// transfer copies contents into a store on disk: for a backup, or out of one. The
// copies are files of their own, never hard links: what damages one of two names
// of a file damages both, and a backup must survive that.
type transfer struct {
	open func(ctx context.Context, ref blob.Ref) (blob.File, error)
	to   *blob.Disk
	// hash makes contents that the target has already be hashed, and copied if
	// they are damaged. Otherwise those with the right size count as copied.
	hash bool
	// lost is called for a content that cannot be read. Its error ends the
	// transfer.
	lost     func(ctx context.Context, c index.Content, err error) error
	progress func(done int64) // bytes of the contents that the target has

	done, copied, bytes int64 // bytes; contents and bytes that were copied
}

// run copies the contents of a list that the target does not have.
func (t *transfer) run(ctx context.Context, list iter.Seq2[index.Content, error]) error {
	var batch []index.Content
	var size int64
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := t.store(ctx, batch)
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
		there, err := t.has(ctx, c)
		if err != nil {
			return err
		}
		if !there {
			batch, size = append(batch, c), size+c.Size
			if len(batch) == copyBatch || size >= copyBytes {
				if err := flush(); err != nil {
					return err
				}
			}
		}
		t.done += c.Size
		if t.progress != nil {
			t.progress(t.done)
		}
	}
	return flush()
}

// has reports whether the target has a content.
func (t *transfer) has(ctx context.Context, c index.Content) (bool, error) {
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
func (t *transfer) store(ctx context.Context, list []index.Content) error {
	b, err := t.to.Begin(ctx)
	if err != nil {
		return err
	}
	defer b.Abort()
	var copied []index.Content
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
func (t *transfer) put(ctx context.Context, b blob.Batch, c index.Content) (cause, err error) {
	f, cause := t.open(ctx, c.Ref)
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
