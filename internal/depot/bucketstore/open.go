package bucketstore

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"time"

	"github.com/symdepot/symdepot/internal/store/blob"
)

// Open opens a bucket for the contents of a depot. It checks that no other depot uses
// the bucket and, with Options.Probe, that the store can keep contents.
func Open(ctx context.Context, opt Options) (*Store, error) {
	s := &Store{bucket: opt.Bucket, places: opt.Places, hold: opt.Hold, node: rand.Text(), log: opt.Log, now: opt.Now,
		downloads: make(chan struct{}, transfers), uploads: make(chan struct{}, transfers),
		fills: map[string]*fill{}, bad: map[blob.Ref]damage{}}
	s.life, s.end = context.WithCancel(context.Background())
	if s.hold == 0 {
		s.hold = defaultHold
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.now == nil {
		s.now = time.Now
	}
	size := opt.CacheBytes
	if size == 0 {
		size = defaultCache
	}
	fresh, err := s.attach(ctx, opt.ReadOnly)
	if err == nil && opt.Probe && !fresh && !opt.ReadOnly {
		err = s.probe(ctx)
	}
	if err != nil {
		return nil, describe(opt.Bucket, err)
	}
	if s.local, err = openLocal(ctx, opt.Dir, size); err != nil {
		return nil, err
	}
	return s, nil
}

// Close implements [blob.Backend]. It breaks off running downloads.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true // no download starts after this
	s.mu.Unlock()
	s.end()
	s.background.Wait()
	return errors.Join(s.local.disk.Close(), s.bucket.Close())
}

// Ready implements [blob.Backend]: the last request succeeded, or one does now.
func (s *Store) Ready(ctx context.Context) error {
	s.mu.Lock()
	failing := s.failing
	s.mu.Unlock()
	if failing == nil {
		return nil
	}
	_, err := s.bucket.Head(ctx, markerKey)
	s.note(err)
	if isAnswer(err) {
		return nil
	}
	return unavailable(err)
}

// Status describes a Store at one moment.
type Status struct {
	Up      bool // the last request to the store was answered
	Foreign bool // see Foreign
	// Downloads and Uploads are the contents that were transferred since Open,
	// Failures the requests that were not answered.
	Downloads, Uploads, Failures int64
	Cache                        Usage
}

// Status returns the current state, without a request to the store.
func (s *Store) Status() Status {
	return Status{
		Up: !s.isFailing(), Foreign: s.Foreign(), Cache: s.CacheUsage(),
		Downloads: s.downloaded.Load(), Uploads: s.uploaded.Load(), Failures: s.failures.Load(),
	}
}

// CacheUsage returns the contents of the local cache.
func (s *Store) CacheUsage() Usage {
	s.local.mu.Lock()
	defer s.local.mu.Unlock()
	return Usage{Files: int64(s.local.order.Len()), Bytes: s.local.bytes, Limit: s.local.most}
}

// Sweep implements [blob.Backend]: it removes temporary files of ended
// processes, and deletes the objects of contents that were removed longer ago
// than Options.Hold.
func (s *Store) Sweep(ctx context.Context, olderThan time.Duration) (int, error) {
	n, err := s.local.disk.Sweep(ctx, olderThan)
	if err != nil {
		return n, err
	}
	deleted, err := s.collect(ctx)
	return n + deleted, err
}
