package depot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/symdepot/symdepot/internal/blob"
)

// DefaultGrace is how long Collect leaves alone what nothing refers to: long
// enough for the slowest add to commit what it has written.
const DefaultGrace = 24 * time.Hour

// Collected says what Collect let go of, or would.
type Collected struct {
	Contents int64 // contents without a transaction
	Strays   int64 // blobs that no row knows, as a killed add leaves them
	Bytes    int64
}

// Collect lets go of contents that no transaction has held for longer than
// grace, and of blobs of that age that were never committed. With dryRun it
// only counts.
func (d *Depot) Collect(ctx context.Context, grace time.Duration, dryRun bool) (Collected, error) {
	var c Collected
	before := d.now().Add(-grace)
	var refs []blob.Ref
	for content, err := range d.db.Unreferenced(ctx, before) {
		if err != nil {
			return c, err
		}
		refs = append(refs, content.Ref)
		c.Contents++
		c.Bytes += content.Size
	}
	if !dryRun {
		n, err := d.db.DropContents(ctx, refs, before, func(r blob.Ref) error { return d.blobs.Delete(ctx, r) })
		c.Contents = int64(n)
		if err != nil {
			return c, err
		}
	}
	for info, err := range d.blobs.List(ctx) {
		if err != nil {
			return c, err
		}
		if info.ModTime.After(before) {
			continue
		}
		known, err := d.db.HasContent(ctx, info.Ref)
		if err != nil {
			return c, err
		}
		if known {
			continue
		}
		if !dryRun {
			dropped, err := d.dropStray(ctx, info.Ref, before)
			if err != nil {
				return c, err
			}
			if !dropped {
				continue
			}
		}
		c.Strays++
		c.Bytes += info.Size
	}
	if !dryRun {
		if _, err := d.blobs.Sweep(ctx, max(grace, time.Hour)); err != nil {
			return c, err
		}
	}
	return c, nil
}

// dropStray deletes a blob that no row knows, under the index's write lock, so
// that no commit can come to refer to it meanwhile.
func (d *Depot) dropStray(ctx context.Context, ref blob.Ref, before time.Time) (dropped bool, err error) {
	err = d.db.Locked(ctx, func(known func(blob.Ref) (bool, error)) error {
		is, err := known(ref)
		if err != nil || is {
			return err
		}
		info, err := d.blobs.Stat(ctx, ref)
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.ModTime.After(before) {
			return nil
		}
		if err != nil {
			return err
		}
		dropped = true
		return d.blobs.Delete(ctx, ref)
	})
	return dropped, err
}

// Fault is one thing that Verify found wrong.
type Fault struct {
	Ref  string `json:"ref,omitempty"`
	What string `json:"what"`
}

// Verified counts what Verify looked at.
type Verified struct {
	Contents int64 `json:"contents"`
	Bytes    int64 `json:"bytes"`
	Strays   int64 `json:"strays"` // blobs that no row knows: no fault, gc takes them
	Faults   int64 `json:"faults"`
}

// Verify hashes every blob again and checks every row both ways. It calls
// fault for each fault and progress, if not nil, now and then.
func (d *Depot) Verify(ctx context.Context, fault func(Fault), progress func(bytes int64)) (Verified, error) {
	var v Verified
	report := func(f Fault) { v.Faults++; fault(f) }
	problems, err := d.db.Check(ctx)
	if err != nil {
		return v, err
	}
	for _, p := range problems {
		report(Fault{What: p})
	}
	for c, err := range d.db.Contents(ctx) {
		if err != nil {
			return v, err
		}
		v.Contents++
		what, err := d.verifyBlob(ctx, c.Ref, c.Size)
		if err != nil {
			return v, err
		}
		if what != "" {
			report(Fault{Ref: c.Ref.String(), What: what})
		}
		v.Bytes += c.Size
		if progress != nil {
			progress(v.Bytes)
		}
	}
	for info, err := range d.blobs.List(ctx) {
		if err != nil {
			return v, err
		}
		known, err := d.db.HasContent(ctx, info.Ref)
		if err != nil {
			return v, err
		}
		if !known {
			v.Strays++
		}
	}
	return v, nil
}

// verifyBlob returns what is wrong with a blob, or "". An error means that the
// check itself could not go on.
func (d *Depot) verifyBlob(ctx context.Context, ref blob.Ref, size int64) (string, error) {
	f, err := d.blobs.Open(ctx, ref)
	if errors.Is(err, fs.ErrNotExist) {
		// It may have been collected since the row was read.
		if known, err := d.db.HasContent(ctx, ref); err != nil || !known {
			return "", err
		}
		return "the blob is missing", nil
	}
	if err != nil {
		return fmt.Sprintf("the blob cannot be read: %v", err), nil
	}
	defer f.Close()
	got, n, err := blob.Hash(ctx, io.NewSectionReader(f, 0, f.Size()))
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil:
		return fmt.Sprintf("the blob cannot be read: %v", err), nil
	case n != size:
		return fmt.Sprintf("the blob has %d bytes instead of %d", n, size), nil
	case got != ref:
		return "the blob's bytes are not those that were added: SHA-256 " + got.String(), nil
	}
	return "", nil
}
