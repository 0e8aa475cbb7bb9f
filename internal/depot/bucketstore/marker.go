package bucketstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/index/places"
	"github.com/symdepot/symdepot/internal/store/bucket"
)

// marker is the content of that object: see [index.Identity].
//
// A copy of the database beside the original has the same depot, and rows of its own
// from then on: one of the two would delete objects that the other one names. So a
// collector compares the marker before each deletion, and deletes nothing if it
// differs. A copy is recognized
//
//   - by Database: a restored dump is another database, a promoted physical copy is
//     on another timeline, a copied file has another number;
//   - by Turn, which the database and the marker exchange every few hours: of two
//     copies with one Database, such as snapshots of a disk, one does not know it.
//
// What the copy dooms itself is deleted only after Options.Hold, seven days, and
// until then the original has begun many turns.
type marker struct {
	Depot    string `json:"depot"`
	Database string `json:"database,omitempty"`
	Turn     string `json:"turn,omitempty"`
}

// turnEvery is how long a turn lasts.
const turnEvery = 6 * time.Hour

// describe adds what a user needs to the error of Open.
func describe(b bucket.Bucket, err error) error {
	switch {
	case errors.Is(err, bucket.ErrClock):
		return fmt.Errorf("%w: synchronize the clock of this machine: %s", ErrStore, err.Error())
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, bucket.ErrCredentials):
		// Not an fs.ErrPermission, which is about files.
		return fmt.Errorf("%w: %s", ErrRefused, err.Error())
	case errors.As(err, new(*bucket.Error)):
		return err // it names the bucket
	}
	return fmt.Errorf("contents in %s: %w", b.Name(), err)
}

// read returns a small object.
func (s *Store) read(ctx context.Context, key string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, small, errSilent)
	defer cancel()
	o, err := s.bucket.Get(ctx, key, 0, -1, "")
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	defer o.Body.Close()
	b, err := io.ReadAll(io.LimitReader(o.Body, 64<<10))
	return b, causeOf(ctx, err)
}

// readMarker reads the marker. If there is none, the error is fs.ErrNotExist.
func (s *Store) readMarker(ctx context.Context) (m marker, err error) {
	b, err := s.read(ctx, markerKey)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(b, &m); err != nil || m.Depot == "" {
		return m, fmt.Errorf("%s is damaged", markerKey)
	}
	return m, nil
}

// writeMarker writes the marker. With fresh, the error is bucket.ErrPrecondition if
// there is one.
func (s *Store) writeMarker(ctx context.Context, id places.Identity, fresh bool) error {
	b, err := json.Marshal(marker{id.Depot, id.Database, id.Turn})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, small, errSilent)
	defer cancel()
	opt := bucket.PutOptions{ContentType: "application/json", IfAbsent: fresh}
	_, err = s.bucket.Put(ctx, markerKey, int64(len(b)), strings.NewReader(string(b)), opt)
	return causeOf(ctx, err)
}

// attach checks the marker of the bucket, or writes it into an empty one after a
// probe of the store. fresh reports the latter. Any unknown object is an error: a
// depot shares its prefix with nobody, and a new one must not look like an older one
// that lost its marker.
func (s *Store) attach(ctx context.Context, readOnly bool) (fresh bool, err error) {
	m, err := s.readMarker(ctx)
	if err == nil {
		return false, s.compare(ctx, m)
	}
	if !errors.Is(err, fs.ErrNotExist) || errors.Is(err, bucket.ErrNoBucket) {
		return false, err
	}
	if readOnly {
		return false, fmt.Errorf("%s is missing: %w", markerKey, fs.ErrNotExist)
	}
	for info, err := range s.bucket.List(ctx, "") {
		if err != nil {
			return false, err
		}
		if info.Key == markerKey || strings.HasPrefix(info.Key, probePrefix) {
			continue // of another process that attaches the bucket, or was killed while it did
		}
		return false, fmt.Errorf("it holds %s, and no %s that names its depot; name an empty prefix", info.Key, markerKey)
	}
	if err := s.probe(ctx); err != nil {
		return false, err
	}
	id, err := s.places.NewTurn(ctx, turnEvery)
	if err != nil {
		return false, err
	}
	err = s.writeMarker(ctx, id, true)
	if errors.Is(err, bucket.ErrPrecondition) {
		return s.attach(ctx, readOnly) // another process was faster
	}
	return true, err
}

// compare refuses the marker of another depot, and notes that of another copy.
func (s *Store) compare(ctx context.Context, m marker) error {
	id, err := s.places.Identity(ctx)
	if err != nil {
		return err
	}
	if m.Depot != id.Depot {
		return fmt.Errorf("%w; name another prefix, or open the depot %s", ErrOtherDepot, m.Depot)
	}
	s.noteOwner(m.owner(id))
	return nil
}

// owner returns nil if the marker agrees with the identity of a database, or
// ErrCopy.
func (m marker) owner(id places.Identity) error {
	switch {
	case m.Database == "": // written by an earlier version
		return nil
	case m.Database != id.Database:
		return fmt.Errorf("%w (the marker names %s, this is %s)", ErrCopy, m.Database, id.Database)
	case m.Turn != id.Turn && m.Turn != id.Previous:
		return fmt.Errorf("%w (it has begun a turn that this one does not know)", ErrCopy)
	}
	return nil
}

// noteOwner logs each change of the answer whether this database may delete.
func (s *Store) noteOwner(err error) {
	is := errors.Is(err, ErrCopy)
	s.mu.Lock()
	before := s.foreign
	s.foreign = is
	s.mu.Unlock()
	switch {
	case is && !before:
		s.log.Error("no object of the bucket is deleted", "bucket", s.bucket.Name(), "error", err)
	case before && !is:
		s.log.Info("objects of the bucket are deleted again", "bucket", s.bucket.Name())
	}
}

// Foreign reports whether another copy of the database owns the objects of the
// bucket, as far as this process has noticed.
func (s *Store) Foreign() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.foreign
}

// owns returns nil if this database may delete objects now, and begins a new turn
// if one is due.
func (s *Store) owns(ctx context.Context) error {
	m, err := s.readMarker(ctx)
	if err != nil {
		return err
	}
	id, err := s.places.Identity(ctx)
	if err != nil {
		return err
	}
	if m.Depot != id.Depot {
		return fmt.Errorf("%w: that of depot %s", ErrOtherDepot, m.Depot)
	}
	err = m.owner(id)
	s.noteOwner(err)
	if err != nil {
		return fmt.Errorf("%s: %w", s.bucket.Name(), err)
	}
	if id, err = s.places.NewTurn(ctx, turnEvery); err != nil || m == (marker{id.Depot, id.Database, id.Turn}) {
		return err
	}
	return s.writeMarker(ctx, id, false)
}

// CheckOwner finds out whether this database may delete objects, and begins a new turn
// if one is due. It is called now and then, so that copies are noticed soon.
func (s *Store) CheckOwner(ctx context.Context) error {
	if err := s.owns(ctx); err != nil && !errors.Is(err, ErrCopy) { // that is logged
		return describe(s.bucket, err)
	}
	return nil
}

// Claim makes this database the one that deletes objects.
func (s *Store) Claim(ctx context.Context) error {
	m, err := s.readMarker(ctx)
	if err != nil {
		return describe(s.bucket, err)
	}
	id, err := s.places.NewTurn(ctx, 0)
	if err == nil && m.Depot != id.Depot {
		err = ErrOtherDepot
	}
	if err == nil {
		err = s.writeMarker(ctx, id, false)
	}
	if err != nil {
		return describe(s.bucket, err)
	}
	s.noteOwner(nil)
	return nil
}
