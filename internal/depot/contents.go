package depot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/index"
)

const (
	reportAgain = time.Hour // between two log lines about one damaged content
	maxReported = 4096      // damaged contents whose log lines are remembered
)

// ErrUnavailable means that the store of contents does not answer now, or refuses
// all requests. The store logs when that begins and ends.
var ErrUnavailable = blob.ErrUnavailable

// contents opens the stored contents that the index lists, and logs damaged ones.
type contents struct {
	blobs blob.Backend
	db    *index.DB
	log   *slog.Logger
	now   func() time.Time

	mu       sync.Mutex
	reported map[blob.Ref]time.Time // guarded by mu
}

// open opens a content that the index lists. A damaged or missing one is logged
// and is fs.ErrNotExist.
func (cs *contents) open(ctx context.Context, c index.Content) (blob.File, error) {
	b, err := cs.blobs.Open(ctx, c.Ref)
	switch {
	case err == nil && b.Size() != c.Size:
		err = b.Reject(fmt.Sprintf("it has %d bytes instead of %d", b.Size(), c.Size))
		_ = b.Close() // opened for reading
	case err == nil:
		return b, nil
	case errors.Is(err, fs.ErrNotExist) && !errors.Is(err, blob.ErrDamaged):
		// Evicted or collected since the lookup, or lost.
		known, kerr := cs.db.HasContent(ctx, c.Ref)
		if kerr != nil {
			return nil, kerr
		}
		if known {
			err = cs.blobs.Missing(c.Ref)
		}
	}
	cs.report(err)
	return nil, err
}

// openHashed opens a content, whether or not the index lists it, after hashing
// it. A damaged or missing one is fs.ErrNotExist.
func (cs *contents) openHashed(ctx context.Context, ref blob.Ref) (blob.File, error) {
	b, err := cs.blobs.OpenWhole(ctx, ref)
	if err != nil {
		cs.report(err)
		return nil, err
	}
	return b, nil
}

// hash hashes the stored bytes of a content and returns what is wrong with them,
// or "". pace is as for blob.Store.Verify.
func (cs *contents) hash(ctx context.Context, c index.Content, pace func(n int) error) (what string, err error) {
	err = cs.blobs.Verify(ctx, c.Ref, c.Size, pace)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if e, ok := errors.AsType[*blob.DamageError](err); ok {
		return e.What, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	// It may have been collected since its row was read.
	if known, err := cs.db.HasContent(ctx, c.Ref); err != nil || !known {
		return "", err
	}
	_ = cs.blobs.Missing(c.Ref)
	return "it is missing", nil
}

// report logs an error that says that a content is damaged, once an hour for
// each content.
func (cs *contents) report(err error) {
	e, ok := errors.AsType[*blob.DamageError](err)
	if !ok {
		return
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	now := cs.now()
	if last, ok := cs.reported[e.Ref]; ok && now.Sub(last) < reportAgain {
		return
	}
	if cs.reported == nil || len(cs.reported) >= maxReported {
		cs.reported = make(map[blob.Ref]time.Time)
	}
	cs.reported[e.Ref] = now
	cs.log.Error("a stored file is damaged and is not served; run symdepot verify", "content", e.Ref.String(), "damage", e.What)
}
