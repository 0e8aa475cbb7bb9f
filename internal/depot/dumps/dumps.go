// Package dumps keeps crash dumps for as long as the configuration says. They are contents of the
// depot that no lookup of a file finds.
package dumps

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"time"

	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// Limits of all dumps that are kept. Above them the oldest go first.
const (
	most      = 10_000
	mostBytes = 20 << 30
)

// Dump is a dump that is kept.
type Dump = contents.Dump

// Parts are what New needs.
type Parts struct {
	DB       *index.DB
	Blobs    blob.Backend
	Contents *content.Contents
	// Keep is how long dumps are kept; zero: not at all.
	Keep time.Duration
	Log  *slog.Logger
	Now  func() time.Time
}

// Dumps keeps dumps. Its methods may be called by many goroutines.
type Dumps struct {
	parts       Parts
	most        int   // above it the oldest dumps go
	bytesOfMost int64 // so of their bytes
}

// New returns the kept dumps of a depot.
func New(p Parts) *Dumps { return &Dumps{p, most, mostBytes} }

// Keeps reports whether dumps are kept.
func (ds *Dumps) Keeps() bool { return ds.parts.Keep > 0 }

// For is how long dumps are kept; zero: not at all.
func (ds *Dumps) For() time.Duration { return ds.parts.Keep }

// attempts limits how often the bytes of a dump are stored again that were deleted meanwhile with an equal dump.
const attempts = 4

// Keep keeps a dump of size bytes. Of d, the name, the sender, the key and the reason count.
func (ds *Dumps) Keep(ctx context.Context, d Dump, r io.ReaderAt, size int64) (Dump, error) {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	d.ID, d.At = hex.EncodeToString(id[:]), ds.parts.Now().UTC().Truncate(time.Millisecond)
	d.Until = d.At.Add(ds.parts.Keep)
	for attempt := 1; ; attempt++ {
		err := ds.put(ctx, &d, io.NewSectionReader(r, 0, size))
		if err == nil {
			break
		}
		if attempt == attempts || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, record.ErrNotUploaded) {
			return d, err
		}
	}
	if err := ds.Sweep(ctx, d.At); err != nil { // the hourly sweep tries again
		ds.parts.Log.Warn("dumps above the limits are not deleted yet", "error", err)
	}
	return d, nil
}

// put stores the bytes of a dump, and records it.
func (ds *Dumps) put(ctx context.Context, d *Dump, r *io.SectionReader) error {
	batch, err := ds.parts.Blobs.Begin(ctx)
	if err != nil {
		return err
	}
	defer batch.Abort()
	if d.Content.Ref, d.Content.Size, err = batch.Put(ctx, r.Size(), r); err != nil {
		return err
	}
	if err := batch.Commit(ctx); err != nil {
		return err
	}
	return ds.parts.DB.Dumps.Put(ctx, d, func(ctx context.Context, ref blob.Ref) error {
		_, err := ds.parts.Blobs.Stat(ctx, ref)
		return err
	})
}

// List returns the dumps before the one with a number, newest first, at most limit; zero: the newest.
func (ds *Dumps) List(ctx context.Context, before int64, limit int) ([]Dump, error) {
	return ds.parts.DB.Dumps.List(ctx, before, limit)
}

// Find returns a dump. One that is not there, or whose time is over, is fs.ErrNotExist.
func (ds *Dumps) Find(ctx context.Context, id string) (Dump, error) {
	d, err := ds.parts.DB.Dumps.Find(ctx, id)
	if err == nil && !ds.parts.Now().Before(d.Until) {
		err = fs.ErrNotExist
	}
	return d, err
}

// Open opens the bytes of a dump.
func (ds *Dumps) Open(ctx context.Context, d *Dump) (blob.File, error) {
	return ds.parts.Contents.Open(ctx, d.Content)
}

// Remove deletes a dump, which is fs.ErrNotExist if it is not there.
func (ds *Dumps) Remove(ctx context.Context, id string) error {
	refs, err := ds.parts.DB.Dumps.Remove(ctx, id)
	if err != nil {
		return err
	}
	return ds.drop(ctx, refs)
}

// Sweep deletes the dumps whose time is over, and the oldest ones above the limits.
func (ds *Dumps) Sweep(ctx context.Context, now time.Time) error {
	refs, err := ds.parts.DB.Dumps.Expire(ctx, now, ds.most, ds.bytesOfMost)
	if err != nil {
		return err
	}
	return ds.drop(ctx, refs)
}

// drop deletes the bytes of dumps at once, unless something else refers to them. In a bucket, objects that could
// not be deleted before are deleted too. The error is that of the first one that cannot be deleted; the others are.
func (ds *Dumps) drop(ctx context.Context, refs []blob.Ref) (failed error) {
	remove := content.Deleter(ctx, ds.parts.Blobs, func(ref blob.Ref) {
		ds.parts.Log.Warn("another program holds a deleted dump open; gc deletes it later", "content", ref.String())
	})
	if len(refs) > 0 {
		if _, err := ds.parts.DB.DropContents(ctx, refs, ds.parts.Now(), func(ref blob.Ref) error {
			err := remove(ref)
			if err == nil || ctx.Err() != nil {
				return err
			}
			failed = cmp.Or(failed, fmt.Errorf("the bytes of a deleted dump are still there until gc deletes them: %w", err))
			return nil
		}); err != nil {
			return err
		}
	}
	if b, ok := coldstore.BucketStore(ds.parts.Blobs); ok {
		return b.DeleteNow(ctx, refs)
	}
	return failed
}
