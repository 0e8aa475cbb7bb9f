package bucketstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/symdepot/symdepot/internal/index/record"
)

// Again repeats uploads of the batch. A process that stood still for long may find that its
// leases have ended, or that garbage collection has dropped its contents: then the index
// knows some contents of the batch neither as contents nor as uploads. Their bytes are read
// from the objects of the first upload, which are kept for Options.Hold, and are uploaded
// to a new place each.
func (b *batch) Again(ctx context.Context) error {
	b.mu.Lock()
	objects := make([]record.Upload, 0, len(b.objects))
	for _, u := range b.objects {
		objects = append(objects, u)
	}
	b.mu.Unlock()
	for _, u := range objects {
		there, err := b.store.places.Finished(ctx, u.Content)
		if err != nil || there {
			if err != nil {
				return err
			}
			continue
		}
		if _, _, err := b.store.places.Of(ctx, u.Ref); err == nil {
			continue
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		up, err := b.store.uploadAgain(ctx, u)
		if err != nil {
			return fmt.Errorf("upload blob %s again: %w", u.Ref, err)
		}
		b.mu.Lock()
		b.objects[u.Ref] = up
		b.mu.Unlock()
	}
	return nil
}

// uploadAgain copies the object of an upload to a new place.
func (s *Store) uploadAgain(ctx context.Context, u record.Upload) (up record.Upload, err error) {
	sp, err := s.local.disk.Spool()
	if err != nil {
		return up, err
	}
	defer discard(sp)
	if err := s.get(ctx, u, sp); err != nil {
		return up, err
	}
	if sp.Sum() != u.Ref {
		return up, fmt.Errorf("its object has SHA-256 %s", sp.Sum())
	}
	up = newUpload(u.Ref, u.Size)
	begun := s.now()
	if err := s.places.Begin(ctx, s.node, lease, []record.Upload{up}); err != nil {
		return up, err
	}
	err = s.renewing(ctx, up, func() error { return s.put(ctx, up, begun, sp) })
	if err == nil {
		err = s.places.Done(ctx, []string{up.Place})
	}
	if err != nil {
		s.abandon(ctx, []string{up.Place})
		return up, err
	}
	s.intact(u.Ref)
	return up, nil
}
