package bucketstore

import (
	"context"
	"iter"

	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/internal/store/bucket"
)

// collect deletes objects whose places are doomed for long enough, and returns
// their number. It may run in several processes at once: deleting an object
// twice does no harm.
func (s *Store) collect(ctx context.Context) (n int, err error) {
	now := s.now()
	if _, err := s.places.Expire(ctx, now.Add(-expired)); err != nil {
		return 0, err
	}
	if n, err = s.deleteAll(ctx, s.places.Doomed(ctx, now.Add(-s.hold))); err != nil {
		return n, err
	}
	if n == 0 {
		// Nothing to delete: say now whether it could be.
		if err := s.owns(ctx); err != nil {
			return n, err
		}
	}
	return n, s.deleteAgain(ctx)
}

// DeleteNow deletes the objects of removed contents, whatever the time of Options.Hold: no older copy of the
// database can be used for these. Objects that it could not delete before are deleted too.
func (s *Store) DeleteNow(ctx context.Context, refs []blob.Ref) error {
	if err := s.places.Hurry(ctx, refs); err != nil {
		return err
	}
	_, err := s.deleteAll(ctx, s.places.Hurried(ctx))
	return err
}

// deleteAll deletes the objects of doomed places, and returns their number.
func (s *Store) deleteAll(ctx context.Context, doomed iter.Seq2[record.Upload, error]) (n int, err error) {
	var batch []record.Upload
	var failed error // of an object that cannot be deleted; the others are
	sweep := func() error {
		deleted, err := s.delete(ctx, batch)
		batch = nil
		n += len(deleted)
		if err != nil && failed == nil {
			failed = err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return s.places.Swept(ctx, deleted)
	}
	for u, err := range doomed {
		if err != nil {
			return n, err
		}
		if batch = append(batch, u); len(batch) == deleteBatch {
			if err := sweep(); err != nil {
				return n, err
			}
			if failed != nil && n == 0 {
				return n, failed // nothing can be deleted
			}
		}
	}
	if err := sweep(); err != nil {
		return n, err
	}
	return n, failed
}

// deleteBatch is the number of objects that are deleted before their rows are
// marked.
const deleteBatch = 1000

// delete deletes objects and returns the places of those that are deleted, also
// after an error. The marker of the bucket is compared first.
func (s *Store) delete(ctx context.Context, uploads []record.Upload) (places []string, failed error) {
	if len(uploads) == 0 {
		return nil, nil
	}
	if err := s.owns(ctx); err != nil {
		return nil, err
	}
	keys := make([]string, len(uploads))
	for i, u := range uploads {
		keys[i] = keyOf(u)
	}
	for i, err := range bucket.DeleteAll(ctx, s.bucket, keys) {
		if err == nil {
			places = append(places, uploads[i].Place)
		} else if failed == nil {
			failed = err
		}
	}
	s.note(failed)
	return places, unavailable(failed)
}

// deleteAgain deletes objects a second time, a week after the first, and forgets
// them: an upload that had timed out may have arrived since.
func (s *Store) deleteAgain(ctx context.Context) error {
	before := s.now().Add(-resweep)
	var old []record.Upload
	for u, err := range s.places.Resweep(ctx, before) {
		if err != nil {
			return err
		}
		old = append(old, u)
	}
	for len(old) > 0 {
		some := old[:min(len(old), deleteBatch)]
		old = old[len(some):]
		places, err := s.delete(ctx, some)
		if ferr := s.places.Forget(ctx, places); err == nil {
			err = ferr
		}
		if err != nil {
			return err
		}
	}
	return nil
}
