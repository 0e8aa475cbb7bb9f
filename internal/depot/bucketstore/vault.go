// Package bucketstore keeps contents in a bucket of an object store, and recently used
// ones in a cache on the local disk.
//
// The object of a content is c/HH/SHA256/PLACE: HH is the first byte of the hash,
// and PLACE a random name for this upload. Objects are never overwritten, and names
// are never used again. [places.Places] describes when an object becomes a content,
// and when it is deleted.
//
// Reading a content of the local cache sends no request to the store. Reading any
// other content sends one request, and the bytes go to the cache and to the readers
// at the same time. A content that the index does not have costs no request.
package bucketstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/symdepot/symdepot/internal/index/places"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/internal/store/bucket"
)

// Options of Open.
type Options struct {
	// Bucket holds the contents. The Vault closes it; Open does not if it fails.
	Bucket bucket.Bucket
	// Places are those of the depot's index.
	Places places.Places
	// Dir is the folder of the local cache. Only this program may write to it.
	Dir string
	// CacheBytes is the size above which contents are evicted from the cache;
	// zero means 50 GiB.
	CacheBytes int64
	// Hold is the time from the removal of a content to the deletion of its
	// object; zero means seven days. A copy of the database that is older cannot
	// be used with the bucket any more.
	Hold time.Duration
	// Probe makes Open write, read, list and delete an object, compare the clocks
	// and read the lifecycle rules, if the store has an API for them. Open always does
	// so when a depot uses the bucket for the first time.
	Probe bool
	// ReadOnly writes nothing to the bucket.
	ReadOnly bool
	// Log receives events; nil discards them.
	Log *slog.Logger
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

var (
	defaultHold = 7 * 24 * time.Hour
	// lease is how long an upload may take without being renewed.
	lease = 10 * time.Minute
	// expired is how long after its lease an upload is doomed.
	expired = time.Hour
	// resweep is the time between the first and the second deletion of an
	// object.
	resweep = 7 * 24 * time.Hour
)

// Times are the waiting times of a process, see Options.Hold and the rules of
// [places.Places].
type Times struct {
	Lease   time.Duration // of an upload
	Expired time.Duration // from the end of a lease until the upload is doomed
	Hold    time.Duration // the default of Options.Hold
	Resweep time.Duration // between the two deletions of an object
}

// SetTimes changes the times. It is for tests of whole programs, before the first
// Open.
func SetTimes(t Times) { lease, expired, defaultHold, resweep = t.Lease, t.Expired, t.Hold, t.Resweep }

const (
	defaultCache = 50 << 30
	// transfers is the number of concurrent transfers in each direction.
	transfers = 16
)

// Vault is an open bucket of contents. It implements [blob.Backend].
type Vault struct {
	bucket bucket.Bucket
	places places.Places
	local  *local
	hold   time.Duration
	node   string // names this process in the rows of its uploads
	log    *slog.Logger
	now    func() time.Time

	downloads, uploads chan struct{} // semaphores

	life       context.Context // ends with Close
	end        context.CancelFunc
	background sync.WaitGroup

	downloaded, uploaded, failures atomic.Int64 // see Status
	seen                           seen

	mu      sync.Mutex
	fills   map[string]*fill    // running downloads by place; guarded by mu
	bad     map[blob.Ref]damage // damaged contents; guarded by mu
	failing error               // of the last request to the store; guarded by mu
	foreign bool                // see Foreign; guarded by mu
	closed  bool                // guarded by mu
}

var _ blob.Backend = (*Vault)(nil)

// Open opens a bucket for the contents of a depot. It checks that no other depot uses
// the bucket and, with Options.Probe, that the store can keep contents.
func Open(ctx context.Context, opt Options) (*Vault, error) {
	v := &Vault{bucket: opt.Bucket, places: opt.Places, hold: opt.Hold, node: rand.Text(), log: opt.Log, now: opt.Now,
		downloads: make(chan struct{}, transfers), uploads: make(chan struct{}, transfers),
		fills: map[string]*fill{}, bad: map[blob.Ref]damage{}}
	v.life, v.end = context.WithCancel(context.Background())
	if v.hold == 0 {
		v.hold = defaultHold
	}
	if v.log == nil {
		v.log = slog.New(slog.DiscardHandler)
	}
	if v.now == nil {
		v.now = time.Now
	}
	size := opt.CacheBytes
	if size == 0 {
		size = defaultCache
	}
	fresh, err := v.attach(ctx, opt.ReadOnly)
	if err == nil && opt.Probe && !fresh && !opt.ReadOnly {
		err = v.probe(ctx)
	}
	if err != nil {
		return nil, describe(opt.Bucket, err)
	}
	if v.local, err = openLocal(ctx, opt.Dir, size); err != nil {
		return nil, err
	}
	return v, nil
}

// read returns a small object.
func (v *Vault) read(ctx context.Context, key string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, small, errSilent)
	defer cancel()
	o, err := v.bucket.Get(ctx, key, 0, -1, "")
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	defer o.Body.Close()
	b, err := io.ReadAll(io.LimitReader(o.Body, 64<<10))
	return b, causeOf(ctx, err)
}

// keyOf returns the key of an upload's object.
func keyOf(u record.Upload) string {
	h := u.Ref.String()
	return "c/" + h[:2] + "/" + h + "/" + u.Place
}

// parseKey is the inverse of keyOf.
func parseKey(key string) (u record.Upload, ok bool) {
	p := strings.Split(key, "/")
	if len(p) != 4 || p[0] != "c" {
		return u, false
	}
	ref, err := blob.ParseRef(p[2])
	u.Ref, u.Place = ref, p[3]
	return u, err == nil && keyOf(u) == key
}

// Close implements [blob.Backend]. It breaks off running downloads.
func (v *Vault) Close() error {
	v.mu.Lock()
	v.closed = true // no download starts after this
	v.mu.Unlock()
	v.end()
	v.background.Wait()
	return errors.Join(v.local.disk.Close(), v.bucket.Close())
}

// Ready implements [blob.Backend]: the last request succeeded, or one does now.
func (v *Vault) Ready(ctx context.Context) error {
	v.mu.Lock()
	failing := v.failing
	v.mu.Unlock()
	if failing == nil {
		return nil
	}
	_, err := v.bucket.Head(ctx, markerKey)
	v.note(err)
	if isAnswer(err) {
		return nil
	}
	return unavailable(err)
}

// isAnswer reports whether the result of a request means that the store works.
func isAnswer(err error) bool {
	return err == nil || errors.Is(err, fs.ErrNotExist) && !errors.Is(err, bucket.ErrNoBucket) ||
		errors.Is(err, bucket.ErrPrecondition) || errors.Is(err, bucket.ErrRange) || errors.Is(err, errSize)
}

// unavailableError is a blob.ErrUnavailable with its cause, which may be an
// fs.ErrNotExist for a missing bucket.
type unavailableError struct{ cause error }

func (e unavailableError) Error() string        { return blob.ErrUnavailable.Error() + ": " + e.cause.Error() }
func (e unavailableError) Is(target error) bool { return target == blob.ErrUnavailable }

// unavailable makes the error of a request that got no answer a
// blob.ErrUnavailable.
func unavailable(err error) error {
	if _, local := errors.AsType[*writeError](err); local || isAnswer(err) || errors.Is(err, context.Canceled) {
		return err
	}
	return unavailableError{err}
}

// isFailing reports whether the last request got no answer.
func (v *Vault) isFailing() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.failing != nil
}

// note remembers whether the store answers, and logs each change.
func (v *Vault) note(err error) {
	if _, local := errors.AsType[*writeError](err); local || errors.Is(err, context.Canceled) {
		return // it says nothing about the store
	}
	if isAnswer(err) {
		err = nil
	}
	if err != nil {
		v.failures.Add(1)
	}
	v.mu.Lock()
	before := v.failing
	v.failing = err
	v.mu.Unlock()
	switch {
	case before == nil && err != nil:
		v.log.Error("the object store does not answer; files in the local cache are still served", "bucket", v.bucket.Name(), "error", err)
	case before != nil && err == nil:
		v.log.Info("the object store answers again", "bucket", v.bucket.Name())
	}
}

// Status describes a Vault at one moment.
type Status struct {
	Up      bool // the last request to the store was answered
	Foreign bool // see Foreign
	// Downloads and Uploads are the contents that were transferred since Open,
	// Failures the requests that were not answered.
	Downloads, Uploads, Failures int64
	Cache                        Usage
}

// Status returns the current state, without a request to the store.
func (v *Vault) Status() Status {
	return Status{Up: !v.isFailing(), Foreign: v.Foreign(), Downloads: v.downloaded.Load(), Uploads: v.uploaded.Load(), Failures: v.failures.Load(), Cache: v.CacheUsage()}
}

// Stat implements [blob.Store]. It asks the index only; ModTime is when the
// content was first added.
func (v *Vault) Stat(ctx context.Context, ref blob.Ref) (blob.Info, error) {
	u, added, err := v.places.Of(ctx, ref)
	if err != nil {
		return blob.Info{}, fmt.Errorf("blob %s: %w", ref, err)
	}
	if err := v.suspected(u); err != nil {
		return blob.Info{}, err
	}
	return blob.Info{Ref: ref, Size: u.Size, ModTime: added}, nil
}

// Delete implements [blob.Store]: it evicts the content from the local cache.
// The object is deleted once its place is doomed.
func (v *Vault) Delete(ctx context.Context, ref blob.Ref) error { return v.local.evict(ctx, ref) }

// maxBad limits the remembered damaged contents.
const maxBad = 4096

// damage describes the damage of a content's object.
type damage struct{ place, what string }

// suspected returns the error for a content whose object was found damaged, or
// nil. A later upload has another place.
func (v *Vault) suspected(u record.Upload) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	d, bad := v.bad[u.Ref]
	switch {
	case !bad:
		return nil
	case d.place != u.Place:
		delete(v.bad, u.Ref)
		return nil
	}
	return &blob.DamageError{Ref: u.Ref, What: d.what}
}

// damaged remembers a damaged content.
func (v *Vault) damaged(ref blob.Ref, place, what string) error {
	v.seen.forget(place)
	v.mu.Lock()
	defer v.mu.Unlock()
	for r := range v.bad {
		if len(v.bad) < maxBad {
			break
		}
		delete(v.bad, r)
	}
	v.bad[ref] = damage{place, what}
	return &blob.DamageError{Ref: ref, What: what}
}

// there reports whether a writer may rely on the object of a content instead of uploading
// it again: no process has found it damaged or missing, and the store has an object of
// this size. Its bytes are not read. A store that does not answer says nothing about the
// object. The answer for one that is there holds for a while.
func (v *Vault) there(ctx context.Context, u record.Upload) bool {
	if u.Damage != "" || v.suspected(u) != nil {
		return false
	}
	if v.isFailing() || v.seen.lately(u.Place, v.now()) {
		return true
	}
	ctx, cancel := context.WithTimeoutCause(ctx, small, errSilent)
	defer cancel()
	info, err := v.bucket.Head(ctx, keyOf(u))
	v.note(causeOf(ctx, err))
	switch {
	case errors.Is(err, fs.ErrNotExist) && !errors.Is(err, bucket.ErrNoBucket):
		_ = v.damaged(u.Ref, u.Place, missingObject)
		return false
	case err == nil && info.Size >= 0 && info.Size != u.Size:
		_ = v.damaged(u.Ref, u.Place, fmt.Sprintf("its object has %d bytes instead of %d", info.Size, u.Size))
		return false
	case err == nil:
		v.seen.add(u.Place, v.now())
	}
	return true
}

// missingObject describes the damage of a content without an object.
const missingObject = "its object is missing in the bucket"

const (
	seenFor = 10 * time.Minute // how long an object counts as there after it was seen
	maxSeen = 1 << 16          // places that are remembered
)

// seen remembers places whose objects this process uploaded or the store had lately. The zero value is empty.
type seen struct {
	mu     sync.Mutex
	places map[string]time.Time // guarded by mu
}

// lately reports whether the object was seen in the last minutes.
func (s *seen) lately(place string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.places[place]
	return ok && now.Sub(at).Abs() < seenFor
}

func (s *seen) add(place string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.places == nil || len(s.places) >= maxSeen {
		s.places = map[string]time.Time{}
	}
	s.places[place] = now
}

// forget is for a place whose object was found damaged.
func (s *seen) forget(place string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.places, place)
}

// intact forgets that a content was damaged.
func (v *Vault) intact(ref blob.Ref) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.bad, ref)
}

// Suspect implements [blob.Store]. For a content that was found damaged it asks
// the index, because another process may have uploaded the content again.
func (v *Vault) Suspect(ref blob.Ref) bool {
	v.mu.Lock()
	_, bad := v.bad[ref]
	v.mu.Unlock()
	if !bad {
		return false
	}
	ctx, cancel := context.WithTimeout(v.life, askTimeout)
	defer cancel()
	u, _, err := v.places.Of(ctx, ref)
	return err != nil || v.suspected(u) != nil
}

// askTimeout limits questions to the index that have no context.
const askTimeout = 2 * time.Second

// Missing implements [blob.Store].
func (v *Vault) Missing(ref blob.Ref) error {
	ctx, cancel := context.WithTimeout(v.life, askTimeout)
	defer cancel()
	u, _, err := v.places.Of(ctx, ref)
	if err != nil {
		u.Place = "" // no place yet: any later one is a new upload
	}
	return v.damaged(ref, u.Place, "it is missing")
}

// SetAside implements [blob.Backend]: the content loses its place, so that the next
// add uploads it again. The object is doomed, and kept for the time of Options.Hold.
func (v *Vault) SetAside(ref blob.Ref) (string, error) {
	if !v.Suspect(ref) {
		return "", fmt.Errorf("set blob %s aside: it is not damaged any more: %w", ref, fs.ErrNotExist)
	}
	ctx, cancel := context.WithTimeout(v.life, small)
	defer cancel()
	u, _, err := v.places.Of(ctx, ref)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("set blob %s aside: %w", ref, fs.ErrNotExist) // it has no place already
	}
	if err == nil {
		err = v.places.GiveUp(ctx, u)
	}
	if err != nil {
		return "", fmt.Errorf("set blob %s aside: %w", ref, err)
	}
	return v.bucket.Name() + ", below c/" + ref.String()[:2] + "/" + ref.String(), nil
}

// List implements [blob.Store]: the contents with an object in the bucket. A
// content that was uploaded several times is listed once.
func (v *Vault) List(ctx context.Context) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		var last blob.Ref
		first := true
		for info, err := range v.bucket.List(ctx, "c/") {
			if err != nil {
				v.note(err)
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
func (v *Vault) Verify(ctx context.Context, ref blob.Ref, size int64, pace func(n int) error) error {
	u, _, err := v.places.Of(ctx, ref)
	if err != nil {
		return fmt.Errorf("blob %s: %w", ref, err)
	}
	if size >= 0 && size != u.Size {
		return v.damaged(ref, u.Place, fmt.Sprintf("the index has %d bytes instead of %d", u.Size, size))
	}
	sum := newSum(pace)
	err = v.get(ctx, u, sum)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !errors.Is(err, bucket.ErrNoBucket):
		return v.damaged(ref, u.Place, missingObject)
	case errors.Is(err, errSize):
		return v.damaged(ref, u.Place, err.Error())
	case err != nil:
		return fmt.Errorf("blob %s: %w", ref, err)
	case sum.ref() != ref:
		return v.damaged(ref, u.Place, fmt.Sprintf("its %d bytes have SHA-256 %s", u.Size, sum.ref()))
	}
	v.intact(ref)
	return nil
}

// Sweep implements [blob.Backend]: it removes temporary files of ended
// processes, and deletes the objects of contents that were removed longer ago
// than Options.Hold.
func (v *Vault) Sweep(ctx context.Context, olderThan time.Duration) (int, error) {
	n, err := v.local.disk.Sweep(ctx, olderThan)
	if err != nil {
		return n, err
	}
	deleted, err := v.collect(ctx)
	return n + deleted, err
}
