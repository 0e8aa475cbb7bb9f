// Package content opens the stored contents of a depot that its index lists, and finds out,
// records and describes which of them are damaged or missing.
package content

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/symdepot/symdepot/internal/base/account"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
)

const (
	reportAgain = time.Hour // between two log lines about one content or path
	maxReported = 4096      // contents and paths whose log lines are remembered
)

// ErrUnavailable means that the store of contents does not answer now, or refuses
// all requests. The store logs when that begins and ends.
var ErrUnavailable = blob.ErrUnavailable

// IsAway reports whether an error says only that the database or the bucket does not
// answer, which is logged when it begins and when it ends.
func IsAway(err error) bool {
	return errors.Is(err, engine.ErrUnavailable) || errors.Is(err, ErrUnavailable) && !IsDenied(err)
}

// IsDenied reports whether an error says that the user of this process may not read a stored
// file. It is an ErrUnavailable too: it says nothing about the bytes.
func IsDenied(err error) bool { return errors.As(err, new(*account.DeniedError)) }

// Deleter returns the function that deletes the blobs of deleted records. A
// blob in use stays without a record, as an interrupted add leaves it: the next
// Collect finds it in the store. inUse, if not nil, is called for it.
func Deleter(ctx context.Context, blobs interface {
	Delete(context.Context, blob.Ref) error
}, inUse func(blob.Ref)) func(blob.Ref) error {
	return func(ref blob.Ref) error {
		err := blobs.Delete(ctx, ref)
		if errors.Is(err, blob.ErrInUse) {
			if inUse != nil {
				inUse(ref)
			}
			return nil
		}
		return err
	}
}

// New returns what opens the contents of a store that an index lists. placed is set if they
// are in a bucket. Close must be called in the end.
func New(blobs blob.Backend, placed bool, db *index.DB, log *slog.Logger, now func() time.Time) *Contents {
	return &Contents{blobs: blobs, placed: placed, db: db, log: log, now: now}
}

// Contents opens the stored contents that the index lists, and logs damaged ones.
type Contents struct {
	blobs  blob.Backend
	placed bool // they are in a bucket
	db     *index.DB
	log    *slog.Logger
	now    func() time.Time

	mu       sync.Mutex
	reported map[string]time.Time // by the content, or the path that is refused; guarded by mu
	pending  map[blob.Ref]string  // guarded by mu; damage that is not in the index yet
	noting   sync.WaitGroup       // of the goroutine that brings it there
}

// Open opens a content that the index lists. A damaged or missing one is logged
// and is fs.ErrNotExist.
func (cs *Contents) Open(ctx context.Context, c record.Content) (blob.File, error) {
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
	cs.Report(err)
	return nil, err
}

// OpenHashed opens a content, whether or not the index lists it, after hashing
// it. A damaged or missing one is fs.ErrNotExist.
func (cs *Contents) OpenHashed(ctx context.Context, ref blob.Ref) (blob.File, error) {
	b, err := cs.blobs.OpenWhole(ctx, ref)
	if err != nil {
		cs.Report(err)
		return nil, err
	}
	return b, nil
}

// Hash hashes the stored bytes of a content and returns what is wrong with them,
// or "". pace is as for blob.Store.Verify.
func (cs *Contents) Hash(ctx context.Context, c record.Content, pace func(n int) error) (what string, err error) {
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

// Held reports whether the stored bytes of a content can be read back, so that a writer
// that has them need not store them: batch knows the content, and no process has found it
// damaged or missing. If one has, it is read whole here.
func (cs *Contents) Held(ctx context.Context, batch blob.Batch, c record.Content) (bool, error) {
	if !batch.Known(ctx, c.Ref) {
		return false, ctx.Err()
	}
	found, err := cs.db.Damages.Of(ctx, c.Ref)
	if err != nil || found == "" {
		return err == nil, err
	}
	what, err := cs.Hash(ctx, c, nil)
	if err != nil || what != "" {
		return false, err
	}
	return true, cs.db.Damages.Clear(ctx, []blob.Ref{c.Ref})
}

const (
	readBack   = 2  // contents that are hashed at once to find those that cannot be read back
	askedAbout = 16 // the same in a bucket, whose store is asked
)

// Lost returns those of some contents that the index lists whose bytes cannot be read back:
// see held.
func (cs *Contents) Lost(ctx context.Context, list []record.Content) ([]record.Content, error) {
	if len(list) == 0 {
		return nil, nil
	}
	batch, err := cs.blobs.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer batch.Abort()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(readBack)
	if cs.placed {
		g.SetLimit(askedAbout)
	}
	var mu sync.Mutex
	var lost []record.Content
	for _, c := range list {
		g.Go(func() error {
			is, err := cs.Held(ctx, batch, c)
			if err == nil && !is {
				mu.Lock()
				defer mu.Unlock()
				lost = append(lost, c)
			}
			return err
		})
	}
	err = g.Wait()
	return lost, err
}

// Suspected returns the contents that the index has as damaged or missing.
func (cs *Contents) Suspected(ctx context.Context) (map[blob.Ref]bool, error) {
	list := map[blob.Ref]bool{}
	for c, err := range cs.db.Damages.All(ctx) {
		if err != nil {
			return nil, err
		}
		list[c.Ref] = true
	}
	return list, nil
}

// Note records in the index, for all processes, that a content was found damaged. It does
// not wait: a commit of another process may take long.
func (cs *Contents) Note(ref blob.Ref, what string) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	running := len(cs.pending) > 0
	if cs.pending == nil {
		cs.pending = make(map[blob.Ref]string)
	}
	if len(cs.pending) < maxReported { // the others are found again
		cs.pending[ref] = what
	}
	if !running {
		cs.noting.Go(cs.writeNotes)
	}
}

// writeNotes writes what is pending until nothing is.
func (cs *Contents) writeNotes() {
	for {
		var ref blob.Ref
		var what string
		cs.mu.Lock()
		for ref, what = range cs.pending {
			break
		}
		cs.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), noteTime)
		err := cs.db.Damages.Note(ctx, ref, what)
		cancel()
		if err != nil && !errors.Is(err, engine.ErrReadOnly) {
			cs.log.Warn("cannot record that a stored file is damaged; other processes find it themselves", "content", ref.String(), "error", err)
		}
		cs.mu.Lock()
		delete(cs.pending, ref)
		done := len(cs.pending) == 0
		cs.mu.Unlock()
		if done {
			return
		}
	}
}

// noteTime limits the time for recording a damaged content.
const noteTime = 5 * time.Second

// Close waits until what was found is recorded.
func (cs *Contents) Close() { cs.noting.Wait() }

// Report logs an error that says that a content is damaged, once an hour for
// each content, and records it for all processes. One that says that the process may not read
// it is logged once an hour for what refuses, and is not recorded: other processes may.
func (cs *Contents) Report(err error) {
	if e, ok := errors.AsType[*account.DeniedError](err); ok {
		if cs.due(e.Path) {
			cs.log.Warn("stored files are not served, because this program may not read them", "path", e.Path, "why", e.What, "cure", e.Cure)
		}
		return
	}
	e, ok := errors.AsType[*blob.DamageError](err)
	if !ok {
		return
	}
	cs.Note(e.Ref, e.What)
	if cs.due(e.Ref.String()) {
		cs.log.Error("a stored file is damaged and is not served; run symdepot verify", "content", e.Ref.String(), "damage", e.What)
	}
}

// due reports whether a log line about something is due, and that it is written now.
func (cs *Contents) due(about string) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	now := cs.now()
	if last, ok := cs.reported[about]; ok && now.Sub(last) < reportAgain {
		return false
	}
	if cs.reported == nil || len(cs.reported) >= maxReported {
		cs.reported = make(map[string]time.Time)
	}
	cs.reported[about] = now
	return true
}
