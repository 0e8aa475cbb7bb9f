// Package bucketstore keeps contents in a bucket of an object store, and recently used
// ones in a cache on the local disk.
//
// The object of a content is c/HH/SHA256/PLACE: HH is the first byte of the hash,
// and PLACE a random name for this upload. Objects are never overwritten, and names
// are never used again. [index.Places] describes when an object becomes a content,
// and when it is deleted.
//
// Reading a content of the local cache sends no request to the store. Reading any
// other content sends one request, and the bytes go to the cache and to the readers
// at the same time. A content that the index does not have costs no request.
package bucketstore

import (
	"context"
	"errors"
	"io/fs"
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
	// Bucket holds the contents. The Store closes it; Open does not if it fails.
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
// [index.Places].
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

// Errors of Open and Sweep.
var (
	// ErrOtherDepot means that a different depot uses the bucket.
	ErrOtherDepot = errors.New("a different depot keeps its contents there")
	// ErrCopy means that another copy of the depot's database deletes the objects
	// of the bucket.
	ErrCopy = errors.New("another copy of this depot's database owns the objects, so this one deletes none; " +
		"if the other copy is not used any more, run symdepot gc --claim")
	// ErrRefused means that the store does not accept the credentials, or that
	// they do not have the rights.
	ErrRefused = errors.New("the store refuses the credentials or gives them too few rights; " +
		"check them (AWS_ACCESS_KEY_ID and the like) and the rights to read, write, list and delete")
	// ErrStore means that the store does not do what a depot needs.
	ErrStore = errors.New("the store cannot keep the contents of a depot")
)

// Store is an open bucket of contents. It implements [blob.Backend].
type Store struct {
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

// damage describes the damage of a content's object.
type damage struct{ place, what string }

var _ blob.Backend = (*Store)(nil)

// markerKey is the object that names the depot of the bucket, and the database that
// deletes objects.
const markerKey = "symdepot.json"

// probePrefix begins the keys of the objects that try the store.
const probePrefix = "probe/"

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

// errSize means that an object has a different size than its content.
var errSize = errors.New("the object has a different size")

// writeError is the error of a writer, as opposed to that of the store.
type writeError struct{ error }

func (e *writeError) Unwrap() error { return e.error }

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
func (s *Store) isFailing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failing != nil
}

// note remembers whether the store answers, and logs each change.
func (s *Store) note(err error) {
	if _, local := errors.AsType[*writeError](err); local || errors.Is(err, context.Canceled) {
		return // it says nothing about the store
	}
	if isAnswer(err) {
		err = nil
	}
	if err != nil {
		s.failures.Add(1)
	}
	s.mu.Lock()
	before := s.failing
	s.failing = err
	s.mu.Unlock()
	switch {
	case before == nil && err != nil:
		s.log.Error("the object store does not answer; files in the local cache are still served", "bucket", s.bucket.Name(), "error", err)
	case before != nil && err == nil:
		s.log.Info("the object store answers again", "bucket", s.bucket.Name())
	}
}
