package auth

import (
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxFile limits the size of a file, in bytes.
	maxFile = 1 << 20
	// pollEvery is the interval of polling files for changes. Polling works on
	// network file systems and through the symbolic links of containers.
	pollEvery = 30 * time.Second
	// glanceEvery is the interval of checking files that are in use.
	glanceEvery = time.Second
)

// reloaded is a value made from files and made again when they change. While
// changed files are invalid, the previous value stays in use and an error is
// logged.
type reloaded[T any] struct {
	paths []string
	make  func(contents [][]byte) (*T, error)
	log   *slog.Logger
	cur   atomic.Pointer[T]

	mu    sync.Mutex
	seen  [sha256.Size]byte // hash of the contents last read, valid or not
	stats string            // of the files at the last check
	at    time.Time         // of the last check
	bad   string            // the error last logged
}

// newReloaded reads the files for the first time. It returns an error if they
// are invalid.
func newReloaded[T any](log *slog.Logger, paths []string, mk func([][]byte) (*T, error)) (*reloaded[T], error) {
	r := &reloaded[T]{paths: paths, make: mk, log: log}
	contents, sum, err := r.read()
	if err != nil {
		return nil, err
	}
	v, err := mk(contents)
	if err != nil {
		return nil, err
	}
	r.seen, r.stats = sum, r.stat()
	r.cur.Store(v)
	return r, nil
}

// get returns the current value. It is safe for concurrent use.
func (r *reloaded[T]) get() *T { return r.cur.Load() }

// sum returns a hash of the contents last read.
func (r *reloaded[T]) sum() [sha256.Size]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen
}

// poll reads the files again if they changed.
func (r *reloaded[T]) poll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pollLocked()
}

// pollQuickly is a cheap poll: it compares times and sizes only, at most once a
// second, and never waits for another poll.
func (r *reloaded[T]) pollQuickly(now time.Time) {
	if !r.mu.TryLock() {
		return
	}
	defer r.mu.Unlock()
	if fresh(r.at, now, glanceEvery) {
		return
	}
	r.at = now
	if s := r.stat(); s != r.stats {
		r.stats = s
		r.pollLocked()
	}
}

// pollLocked is poll; the caller holds mu.
func (r *reloaded[T]) pollLocked() {
	contents, sum, err := r.read()
	if err == nil {
		if sum == r.seen {
			return
		}
		r.seen = sum
		var v *T
		if v, err = r.make(contents); err == nil {
			r.cur.Store(v)
			r.bad = ""
			r.log.Info("reloaded changed files", "files", r.paths)
			return
		}
	}
	if msg := err.Error(); msg != r.bad {
		r.bad = msg
		r.log.Error("changed files are invalid; the previous contents stay in use", "error", msg)
	}
}

// read returns the contents of the files and a hash of them.
func (r *reloaded[T]) read() (contents [][]byte, sum [sha256.Size]byte, err error) {
	h := sha256.New()
	for _, p := range r.paths {
		b, err := readSmall(p)
		if err != nil {
			return nil, sum, err
		}
		one := sha256.Sum256(b)
		h.Write(one[:])
		contents = append(contents, b)
	}
	h.Sum(sum[:0])
	return contents, sum, nil
}

func readSmall(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxFile {
		return nil, fmt.Errorf("%s: has more than %d bytes", path, maxFile)
	}
	return b, nil
}

// stat describes the files by path, size and modification time.
func (r *reloaded[T]) stat() string {
	s := ""
	for _, p := range r.paths {
		fi, err := os.Stat(p)
		if err != nil {
			s += "-;"
			continue
		}
		real, _ := filepath.EvalSymlinks(p)
		s += fmt.Sprintf("%s %d %d;", real, fi.Size(), fi.ModTime().UnixNano())
	}
	return s
}

// every calls f at intervals until stop is closed.
func every(d time.Duration, stop <-chan struct{}, f func()) {
	t := time.NewTicker(d)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return
		case <-t.C:
			f()
		}
	}
}
