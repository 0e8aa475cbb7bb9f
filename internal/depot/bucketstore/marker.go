package bucketstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/index/places"
	"github.com/symdepot/symdepot/internal/store/bucket"
)

// markerKey is the object that names the depot of the bucket, and the database that
// deletes objects.
const markerKey = "symdepot.json"

// probePrefix begins the keys of the objects that try the store.
const probePrefix = "probe/"

// marker is the content of that object: see [places.Identity].
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

// Errors of Open and Sweep.
var (
	// ErrOtherDepot means that a different depot uses the bucket.
	ErrOtherDepot = errors.New("a different depot keeps its contents there")
	// ErrCopy means that another copy of the depot's database deletes the objects
	// of the bucket.
	ErrCopy = errors.New("another copy of this depot's database owns the objects, so this one deletes none; if the other copy is not used any more, run symdepot gc --claim")
	// ErrRefused means that the store does not accept the credentials, or that
	// they do not have the rights.
	ErrRefused = errors.New("the store refuses the credentials or gives them too few rights; check them (AWS_ACCESS_KEY_ID and the like) and the rights to read, write, list and delete")
	// ErrStore means that the store does not do what a depot needs.
	ErrStore = errors.New("the store cannot keep the contents of a depot")
)

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

// readMarker reads the marker. If there is none, the error is fs.ErrNotExist.
func (v *Vault) readMarker(ctx context.Context) (m marker, err error) {
	b, err := v.read(ctx, markerKey)
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
func (v *Vault) writeMarker(ctx context.Context, id places.Identity, fresh bool) error {
	b, err := json.Marshal(marker{id.Depot, id.Database, id.Turn})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, small, errSilent)
	defer cancel()
	_, err = v.bucket.Put(ctx, markerKey, int64(len(b)), strings.NewReader(string(b)), bucket.PutOptions{ContentType: "application/json", IfAbsent: fresh})
	return causeOf(ctx, err)
}

// attach checks the marker of the bucket, or writes it into an empty one after a
// probe of the store. fresh reports the latter. Any unknown object is an error: a
// depot shares its prefix with nobody, and a new one must not look like an older one
// that lost its marker.
func (v *Vault) attach(ctx context.Context, readOnly bool) (fresh bool, err error) {
	m, err := v.readMarker(ctx)
	if err == nil {
		return false, v.compare(ctx, m)
	}
	if !errors.Is(err, fs.ErrNotExist) || errors.Is(err, bucket.ErrNoBucket) {
		return false, err
	}
	if readOnly {
		return false, fmt.Errorf("%s is missing: %w", markerKey, fs.ErrNotExist)
	}
	for info, err := range v.bucket.List(ctx, "") {
		if err != nil {
			return false, err
		}
		if info.Key == markerKey || strings.HasPrefix(info.Key, probePrefix) {
			continue // of another process that attaches the bucket, or was killed while it did
		}
		return false, fmt.Errorf("it holds %s, and no %s that names its depot; name an empty prefix", info.Key, markerKey)
	}
	if err := v.probe(ctx); err != nil {
		return false, err
	}
	id, err := v.places.NewTurn(ctx, turnEvery)
	if err != nil {
		return false, err
	}
	err = v.writeMarker(ctx, id, true)
	if errors.Is(err, bucket.ErrPrecondition) {
		return v.attach(ctx, readOnly) // another process was faster
	}
	return true, err
}

// compare refuses the marker of another depot, and notes that of another copy.
func (v *Vault) compare(ctx context.Context, m marker) error {
	id, err := v.places.Identity(ctx)
	if err != nil {
		return err
	}
	if m.Depot != id.Depot {
		return fmt.Errorf("%w; name another prefix, or open the depot %s", ErrOtherDepot, m.Depot)
	}
	v.noteOwner(m.owner(id))
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
func (v *Vault) noteOwner(err error) {
	is := errors.Is(err, ErrCopy)
	v.mu.Lock()
	before := v.foreign
	v.foreign = is
	v.mu.Unlock()
	switch {
	case is && !before:
		v.log.Error("no object of the bucket is deleted", "bucket", v.bucket.Name(), "error", err)
	case before && !is:
		v.log.Info("objects of the bucket are deleted again", "bucket", v.bucket.Name())
	}
}

// Foreign reports whether another copy of the database owns the objects of the
// bucket, as far as this process has noticed.
func (v *Vault) Foreign() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.foreign
}

// owns returns nil if this database may delete objects now, and begins a new turn
// if one is due.
func (v *Vault) owns(ctx context.Context) error {
	m, err := v.readMarker(ctx)
	if err != nil {
		return err
	}
	id, err := v.places.Identity(ctx)
	if err != nil {
		return err
	}
	if m.Depot != id.Depot {
		return fmt.Errorf("%w: that of depot %s", ErrOtherDepot, m.Depot)
	}
	err = m.owner(id)
	v.noteOwner(err)
	if err != nil {
		return fmt.Errorf("%s: %w", v.bucket.Name(), err)
	}
	if id, err = v.places.NewTurn(ctx, turnEvery); err != nil || m == (marker{id.Depot, id.Database, id.Turn}) {
		return err
	}
	return v.writeMarker(ctx, id, false)
}

// CheckOwner finds out whether this database may delete objects, and begins a new turn
// if one is due. It is called now and then, so that copies are noticed soon.
func (v *Vault) CheckOwner(ctx context.Context) error {
	if err := v.owns(ctx); err != nil && !errors.Is(err, ErrCopy) { // that is logged
		return describe(v.bucket, err)
	}
	return nil
}

// Claim makes this database the one that deletes objects.
func (v *Vault) Claim(ctx context.Context) error {
	m, err := v.readMarker(ctx)
	if err != nil {
		return describe(v.bucket, err)
	}
	id, err := v.places.NewTurn(ctx, 0)
	if err == nil && m.Depot != id.Depot {
		err = ErrOtherDepot
	}
	if err == nil {
		err = v.writeMarker(ctx, id, false)
	}
	if err != nil {
		return describe(v.bucket, err)
	}
	v.noteOwner(nil)
	return nil
}
