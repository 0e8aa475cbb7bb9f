package bucketstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/internal/store/bucket"
)

// maxBad limits the remembered damaged contents.
const maxBad = 4096

// suspected returns the error for a content whose object was found damaged, or
// nil. A later upload has another place.
func (s *Store) suspected(u record.Upload) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, bad := s.bad[u.Ref]
	switch {
	case !bad:
		return nil
	case d.place != u.Place:
		delete(s.bad, u.Ref)
		return nil
	}
	return &blob.DamageError{Ref: u.Ref, What: d.what}
}

// damaged remembers a damaged content.
func (s *Store) damaged(ref blob.Ref, place, what string) error {
	s.seen.forget(place)
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.bad {
		if len(s.bad) < maxBad {
			break
		}
		delete(s.bad, r)
	}
	s.bad[ref] = damage{place, what}
	return &blob.DamageError{Ref: ref, What: what}
}

// there reports whether a writer may rely on the object of a content instead of uploading
// it again: no process has found it damaged or missing, and the store has an object of
// this size. Its bytes are not read. A store that does not answer says nothing about the
// object. The answer for one that is there holds for a while.
func (s *Store) there(ctx context.Context, u record.Upload) bool {
	if u.Damage != "" || s.suspected(u) != nil {
		return false
	}
	if s.isFailing() || s.seen.lately(u.Place, s.now()) {
		return true
	}
	ctx, cancel := context.WithTimeoutCause(ctx, small, errSilent)
	defer cancel()
	info, err := s.bucket.Head(ctx, keyOf(u))
	s.note(causeOf(ctx, err))
	switch {
	case errors.Is(err, fs.ErrNotExist) && !errors.Is(err, bucket.ErrNoBucket):
		_ = s.damaged(u.Ref, u.Place, missingObject)
		return false
	case err == nil && info.Size >= 0 && info.Size != u.Size:
		_ = s.damaged(u.Ref, u.Place, fmt.Sprintf("its object has %d bytes instead of %d", info.Size, u.Size))
		return false
	case err == nil:
		s.seen.add(u.Place, s.now())
	}
	return true
}

// missingObject describes the damage of a content without an object.
const missingObject = "its object is missing in the bucket"

// intact forgets that a content was damaged.
func (s *Store) intact(ref blob.Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.bad, ref)
}
