package bucketstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
)

const (
	// strayAge is the age from which on an object that the index does not know is
	// doomed. No upload takes as long.
	strayAge = 30 * 24 * time.Hour
	// Up to auditAtOnce contents, one listing of the bucket is compared as a whole.
	// Above that, there are auditors concurrent listings.
	auditAtOnce = 50_000
	auditors    = 8
)

// Audited is the result of Audit.
type Audited struct {
	Objects int64 // in the bucket
	Missing int64 // contents without a whole object
	// Strays are objects that the index does not know and that are older than a
	// month; Doomed is set if they are deleted later. Young ones may become known.
	Strays, StrayBytes, Young int64
	Doomed                    bool
	// Foreign are objects with names that no content has. They are left alone.
	Foreign int64
}

// Audit lists the bucket and compares all objects with the index. It calls missing
// for each content whose object is missing or has a different size. Unknown objects
// that are older than a month become doomed, unless another copy of the database
// owns them. No object is read.
func (s *Store) Audit(ctx context.Context, missing func(c record.Content, what string) error) (Audited, error) {
	a := &audit{store: s, missing: missing}
	owned := s.owns(ctx)
	if owned != nil && !errors.Is(owned, ErrCopy) {
		return a.sum, owned
	}
	a.sum.Doomed = owned == nil
	n, err := s.places.Count(ctx)
	if err != nil {
		return a.sum, err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(auditors)
	if n <= auditAtOnce {
		g.Go(func() error { return a.part(gctx, "c/", 0, 255) })
	} else {
		for b := range 256 {
			g.Go(func() error { return a.part(gctx, fmt.Sprintf("c/%02x/", b), byte(b), byte(b)) })
		}
	}
	err = g.Wait()
	return a.sum, err
}

// audit is a running Audit.
type audit struct {
	store   *Store
	mu      sync.Mutex // guards sum, and calls of missing
	missing func(c record.Content, what string) error
	sum     Audited
}

// part compares the objects below a prefix with the contents whose hashes begin with
// certain bytes.
func (a *audit) part(ctx context.Context, prefix string, first, last byte) error {
	s := a.store
	low, high := blob.Ref{first}, blob.Ref(bytes.Repeat([]byte{0xff}, len(blob.Ref{})))
	high[0] = last
	// The contents first: each object of theirs was there before the listing begins.
	named := map[string]record.Content{}
	for u, err := range s.places.Named(ctx, low, high) {
		if err != nil {
			return err
		}
		named[u.Place] = u.Content
	}
	var sum Audited
	var strays []record.Upload
	for info, err := range s.bucket.List(ctx, prefix) {
		if err != nil {
			s.note(err)
			return unavailable(err)
		}
		sum.Objects++
		u, ok := parseKey(info.Key)
		if !ok {
			sum.Foreign++
			continue
		}
		u.Size = max(info.Size, 0)
		if c, ok := named[u.Place]; ok && c.Ref == u.Ref {
			delete(named, u.Place)
			if info.Size >= 0 && info.Size != c.Size {
				if err := a.lost(ctx, u.Place, c, fmt.Sprintf("its object has %d bytes instead of %d", info.Size, c.Size)); err != nil {
					return err
				}
			}
			continue
		}
		known, err := s.places.Known(ctx, u)
		switch {
		case err != nil:
			return err
		case known:
		case s.now().Sub(info.ModTime) < strayAge:
			sum.Young++
		default:
			sum.Strays++
			sum.StrayBytes += u.Size
			strays = append(strays, u)
		}
		if len(strays) == deleteBatch {
			if err := a.doom(ctx, strays); err != nil {
				return err
			}
			strays = nil
		}
	}
	for place, c := range named {
		if err := a.lost(ctx, place, c, missingObject); err != nil {
			return err
		}
	}
	if err := a.doom(ctx, strays); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sum.Objects += sum.Objects
	a.sum.Foreign += sum.Foreign
	a.sum.Young += sum.Young
	a.sum.Strays += sum.Strays
	a.sum.StrayBytes += sum.StrayBytes
	return nil
}

// doom dooms unknown objects.
func (a *audit) doom(ctx context.Context, strays []record.Upload) error {
	if len(strays) == 0 || !a.sum.Doomed {
		return nil
	}
	return a.store.places.Stray(ctx, strays)
}

// lost reports a content, unless it has been removed or uploaded again since.
func (a *audit) lost(ctx context.Context, place string, c record.Content, what string) error {
	u, _, err := a.store.places.Of(ctx, c.Ref)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil || u.Place != place {
		return nil
	}
	_ = a.store.damaged(c.Ref, place, what)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sum.Missing++
	return a.missing(c, what)
}
