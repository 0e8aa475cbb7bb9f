package bucketstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"time"

	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/internal/store/bucket"
)

// Stat implements [blob.Store]. It asks the index only; ModTime is when the
// content was first added.
func (s *Store) Stat(ctx context.Context, ref blob.Ref) (blob.Info, error) {
	u, added, err := s.places.Of(ctx, ref)
	if err != nil {
		return blob.Info{}, fmt.Errorf("blob %s: %w", ref, err)
	}
	if err := s.suspected(u); err != nil {
		return blob.Info{}, err
	}
	return blob.Info{Ref: ref, Size: u.Size, ModTime: added}, nil
}

// Delete implements [blob.Store]: it evicts the content from the local cache.
// The object is deleted once its place is doomed.
func (s *Store) Delete(ctx context.Context, ref blob.Ref) error { return s.local.evict(ctx, ref) }

// Suspect implements [blob.Store]. For a content that was found damaged it asks
// the index, because another process may have uploaded the content again.
func (s *Store) Suspect(ref blob.Ref) bool {
	s.mu.Lock()
	_, bad := s.bad[ref]
	s.mu.Unlock()
	if !bad {
		return false
	}
	ctx, cancel := context.WithTimeout(s.life, askTimeout)
	defer cancel()
	u, _, err := s.places.Of(ctx, ref)
	return err != nil || s.suspected(u) != nil
}

// askTimeout limits questions to the index that have no context.
const askTimeout = 2 * time.Second

// Missing implements [blob.Store].
func (s *Store) Missing(ref blob.Ref) error {
	ctx, cancel := context.WithTimeout(s.life, askTimeout)
	defer cancel()
	u, _, err := s.places.Of(ctx, ref)
	if err != nil {
		u.Place = "" // no place yet: any later one is a new upload
	}
	return s.damaged(ref, u.Place, "it is missing")
}

// SetAside implements [blob.Backend]: the content loses its place, so that the next
// add uploads it again. The object is doomed, and kept for the time of Options.Hold.
func (s *Store) SetAside(ref blob.Ref) (string, error) {
	if !s.Suspect(ref) {
		return "", fmt.Errorf("set blob %s aside: it is not damaged any more: %w", ref, fs.ErrNotExist)
	}
	ctx, cancel := context.WithTimeout(s.life, small)
	defer cancel()
	u, _, err := s.places.Of(ctx, ref)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("set blob %s aside: %w", ref, fs.ErrNotExist) // it has no place already
	}
	if err == nil {
		err = s.places.GiveUp(ctx, u)
	}
	if err != nil {
		return "", fmt.Errorf("set blob %s aside: %w", ref, err)
	}
	return s.bucket.Name() + ", below c/" + ref.String()[:2] + "/" + ref.String(), nil
}

// List implements [blob.Store]: the contents with an object in the bucket. A
// content that was uploaded several times is listed once.
func (s *Store) List(ctx context.Context) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		var last blob.Ref
		first := true
		for info, err := range s.bucket.List(ctx, "c/") {
			if err != nil {
				s.note(err)
				yield(blob.Info{}, unavailable(err))
				return
			}
			u, ok := parseKey(info.Key)
			if !ok || !first && u.Ref == last {
				continue
			}
			first, last = false, u.Ref
			if !yield(blob.Info{Ref: u.Ref, Size: info.Size, ModTime: info.ModTime}, nil) {
				return
			}
		}
	}
}

// Verify implements [blob.Store]: it reads the whole object.
func (s *Store) Verify(ctx context.Context, ref blob.Ref, size int64, pace func(n int) error) error {
	u, _, err := s.places.Of(ctx, ref)
	if err != nil {
		return fmt.Errorf("blob %s: %w", ref, err)
	}
	if size >= 0 && size != u.Size {
		return s.damaged(ref, u.Place, fmt.Sprintf("the index has %d bytes instead of %d", u.Size, size))
	}
	sum := newSum(pace)
	err = s.get(ctx, u, sum)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !errors.Is(err, bucket.ErrNoBucket):
		return s.damaged(ref, u.Place, missingObject)
	case errors.Is(err, errSize):
		return s.damaged(ref, u.Place, err.Error())
	case err != nil:
		return fmt.Errorf("blob %s: %w", ref, err)
	case sum.ref() != ref:
		return s.damaged(ref, u.Place, fmt.Sprintf("its %d bytes have SHA-256 %s", u.Size, sum.ref()))
	}
	s.intact(ref)
	return nil
}
