package bucketstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// groupSize and groupBytes limit the uploads that share one write to the index.
const (
	groupSize  = 256
	groupBytes = 256 << 20
)

// batch is a set of contents that are uploaded together. Contents are hashed
// into temporary files; a group of them gets its rows in one write and is then
// uploaded by several requests at once, while the caller puts the next ones.
type batch struct {
	store  *Store
	ctx    context.Context // ends with Abort
	cancel context.CancelFunc
	renew  chan struct{} // closed at the end: no lease is renewed any more

	mu    sync.Mutex
	ended bool
	known map[blob.Ref]int64 // contents of the batch by size
	// objects are those of the contents that the batch has uploaded or found.
	objects map[blob.Ref]record.Upload
	group   []spooled // waiting for their rows
	bytes   int64     // size of the group
	places  []string  // of all uploads
	err     error     // of the first failed upload

	running sync.WaitGroup // groups that are being uploaded
	groups  chan struct{}  // semaphore of them
}

// spooled is a content in a temporary file.
type spooled struct {
	upload record.Upload
	spool  *blob.Spool
}

// Begin implements [blob.Batcher].
func (s *Store) Begin(ctx context.Context) (blob.Batch, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b := &batch{
		store: s, known: map[blob.Ref]int64{}, objects: map[blob.Ref]record.Upload{}, groups: make(chan struct{}, 2), renew: make(chan struct{}),
	}
	b.ctx, b.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go b.keepLeases()
	return b, nil
}

// keepLeases renews the leases of the uploads until the batch ends.
func (b *batch) keepLeases() {
	t := time.NewTicker(lease / 3)
	defer t.Stop()
	for {
		select {
		case <-b.renew:
			return
		case <-t.C:
		}
		b.mu.Lock()
		places := b.places[:len(b.places):len(b.places)]
		b.mu.Unlock()
		b.store.renew(b.ctx, places)
	}
}

// renew renews the leases of uploads.
func (s *Store) renew(ctx context.Context, places []string) {
	if err := s.places.Renew(ctx, places, lease); err != nil && ctx.Err() == nil {
		s.log.Warn("cannot renew the leases of uploads", "error", err)
	}
}

func errEnded() error { return fmt.Errorf("batch: %w", fs.ErrClosed) }

// Put implements [blob.Batch].
func (b *batch) Put(ctx context.Context, size int64, r io.Reader) (blob.Ref, int64, error) {
	ref, n, err := b.put(ctx, size, r)
	if err != nil {
		return blob.Ref{}, 0, fmt.Errorf("put blob: %w", err)
	}
	return ref, n, nil
}

func (b *batch) put(ctx context.Context, size int64, r io.Reader) (ref blob.Ref, n int64, err error) {
	sp, err := b.store.local.disk.Spool()
	if err != nil {
		return ref, 0, err
	}
	limit := r
	if size >= 0 {
		limit = io.LimitReader(r, size+1)
	}
	n, err = io.Copy(sp, readerOf(ctx, limit))
	if err == nil && size >= 0 && n != size {
		err = fmt.Errorf("%d bytes or more instead of the declared %d: %w", n, size, blob.ErrMismatch)
	}
	ref = sp.Sum()
	var known bool
	if err == nil {
		known, err = b.has(ctx, ref, n)
	}
	if err != nil || known {
		discard(sp)
		return ref, n, err
	}
	return ref, n, b.add(ctx, spooled{newUpload(ref, n), sp})
}

func discard(sp *blob.Spool) {
	sp.Abort()
	_ = sp.Close() // only read from
}

// readerOf returns a reader that ends with the context.
func readerOf(ctx context.Context, r io.Reader) io.Reader {
	return readFunc(func(p []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return r.Read(p)
	})
}

type readFunc func(p []byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// add adds a content to the waiting group, and starts the upload of a full one.
func (b *batch) add(ctx context.Context, s spooled) error {
	b.mu.Lock()
	_, twice := b.known[s.upload.Ref]
	err := b.err
	if b.ended {
		err = errEnded()
	}
	if err != nil || twice {
		b.mu.Unlock()
		discard(s.spool)
		return err
	}
	b.known[s.upload.Ref] = s.upload.Size
	b.objects[s.upload.Ref] = s.upload
	b.group = append(b.group, s)
	b.places = append(b.places, s.upload.Place)
	b.bytes += s.upload.Size
	var full []spooled
	if len(b.group) >= groupSize || b.bytes >= groupBytes {
		full = b.take()
	}
	b.mu.Unlock()
	return b.start(ctx, full)
}

// take empties the waiting group. b.mu is locked.
func (b *batch) take() []spooled {
	g := b.group
	b.group, b.bytes = nil, 0
	if len(g) > 0 {
		b.running.Add(1)
	}
	return g
}

// start uploads a group in the background, once fewer than two others are
// running.
func (b *batch) start(ctx context.Context, group []spooled) error {
	if len(group) == 0 {
		return nil
	}
	select {
	case b.groups <- struct{}{}:
	case <-ctx.Done():
		b.fail(ctx.Err())
		for _, s := range group {
			discard(s.spool)
		}
		b.running.Done()
		return ctx.Err()
	}
	go func() {
		defer b.running.Done()
		defer func() { <-b.groups }()
		if err := b.upload(group); err != nil {
			b.fail(err)
		}
	}()
	return nil
}

func (b *batch) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = err
	}
}

// upload uploads a group. If its leases end meanwhile, because this process stood
// still, it uploads all of it again to new places.
func (b *batch) upload(group []spooled) error {
	defer func() {
		for _, s := range group {
			discard(s.spool)
		}
	}()
	for attempt := 1; ; attempt++ {
		err := b.uploadOnce(group)
		if !errors.Is(err, record.ErrNotUploaded) || attempt == attempts {
			return err
		}
		var old []string
		b.mu.Lock()
		for i := range group {
			u := &group[i].upload
			old = append(old, u.Place)
			*u = newUpload(u.Ref, u.Size)
			b.objects[u.Ref] = *u
			b.places = append(b.places, u.Place)
		}
		b.mu.Unlock()
		b.store.abandon(b.ctx, old)
	}
}

// uploadOnce writes the rows of a group, uploads its contents, and marks the rows.
func (b *batch) uploadOnce(group []spooled) error {
	uploads, places := make([]record.Upload, len(group)), make([]string, len(group))
	for i, s := range group {
		uploads[i], places[i] = s.upload, s.upload.Place
	}
	begun := b.store.now()
	if err := b.store.places.Begin(b.ctx, b.store.node, lease, uploads); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(b.ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	next := make(chan spooled)
	for range min(transfers, len(group)) {
		wg.Go(func() {
			for s := range next {
				if err := b.store.put(ctx, s.upload, begun, s.spool); err != nil {
					cancel(fmt.Errorf("upload blob %s: %w", s.upload.Ref, err))
				}
			}
		})
	}
	for _, s := range group {
		if ctx.Err() != nil {
			break
		}
		next <- s
	}
	close(next)
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := b.store.places.Done(b.ctx, places); err != nil {
		return err
	}
	for _, s := range group {
		b.store.intact(s.upload.Ref)
	}
	return nil
}

// has reports whether the batch has a content of a size, -1 meaning any, or its object
// is in the bucket.
func (b *batch) has(ctx context.Context, ref blob.Ref, size int64) (bool, error) {
	b.mu.Lock()
	n, ok := b.known[ref]
	b.mu.Unlock()
	if ok && (size < 0 || n == size) {
		return true, nil
	}
	u, _, err := b.store.places.Of(ctx, ref)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	is := (size < 0 || u.Size == size) && b.store.there(ctx, u)
	if is {
		b.mu.Lock()
		b.objects[ref] = u
		b.mu.Unlock()
	}
	return is, nil
}

// Known implements [blob.Batch].
func (b *batch) Known(ctx context.Context, ref blob.Ref) bool { return b.Has(ctx, ref) }

// Has implements [blob.Batch].
func (b *batch) Has(ctx context.Context, ref blob.Ref) bool {
	is, err := b.has(ctx, ref, -1)
	return is && err == nil
}

// Commit implements [blob.Batch]: it waits until the store has acknowledged
// all objects.
func (b *batch) Commit(ctx context.Context) error {
	b.mu.Lock()
	if b.ended {
		b.mu.Unlock()
		return errEnded()
	}
	b.ended = true
	last := b.take()
	b.mu.Unlock()
	defer close(b.renew)
	defer b.cancel()
	stop := context.AfterFunc(ctx, b.cancel)
	defer stop()
	err := b.start(ctx, last)
	b.running.Wait()
	b.mu.Lock()
	if err == nil {
		err = b.err
	}
	b.mu.Unlock()
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		b.abandon(ctx)
		return fmt.Errorf("commit blobs: %w", err)
	}
	return nil
}

// Abort implements [blob.Batch].
func (b *batch) Abort() {
	b.mu.Lock()
	if b.ended {
		b.mu.Unlock()
		return
	}
	b.ended = true
	for _, s := range b.group {
		discard(s.spool)
	}
	b.group, b.known = nil, nil
	b.mu.Unlock()
	ctx := context.WithoutCancel(b.ctx)
	b.cancel()
	b.running.Wait()
	close(b.renew)
	b.abandon(ctx)
}

// abandon dooms the uploads of the batch. If that fails, they expire.
func (b *batch) abandon(ctx context.Context) {
	b.store.abandon(ctx, b.places)
}

func (s *Store) abandon(ctx context.Context, places []string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if len(places) == 0 {
		return
	}
	if err := s.places.Abandon(ctx, places); err != nil {
		s.log.Warn("cannot abandon uploads; their leases expire", "error", err)
	}
}

// Put implements [blob.Store]. The content becomes one of the depot when a
// commit of the index refers to it.
func (s *Store) Put(ctx context.Context, ref blob.Ref, size int64, r io.Reader) error {
	if size < 0 {
		return fmt.Errorf("put blob %s: size %d: %w", ref, size, blob.ErrMismatch)
	}
	b, err := s.Begin(ctx)
	if err != nil {
		return err
	}
	defer b.Abort()
	if b.Known(ctx, ref) {
		return nil
	}
	got, _, err := b.Put(ctx, size, r)
	if err != nil {
		return err
	}
	if got != ref {
		return fmt.Errorf("put blob %s: the bytes have SHA-256 %s: %w", ref, got, blob.ErrMismatch)
	}
	return b.Commit(ctx)
}

// Spool implements [blob.Backend]: Keep uploads the content.
func (s *Store) Spool() (*blob.Spool, error) {
	return s.local.disk.SpoolThrough(func(ctx context.Context, spool *blob.Spool, ref blob.Ref) error {
		u, _, err := s.places.Of(ctx, ref)
		switch {
		case err == nil && u.Size == spool.Size() && s.there(ctx, u):
			return nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return err
		}
		up := newUpload(ref, spool.Size())
		begun := s.now()
		if err := s.places.Begin(ctx, s.node, lease, []record.Upload{up}); err != nil {
			return err
		}
		err = s.renewing(ctx, up, func() error { return s.put(ctx, up, begun, spool) })
		if err == nil {
			err = s.places.Done(ctx, []string{up.Place})
		}
		if err != nil {
			s.abandon(ctx, []string{up.Place})
			return err
		}
		s.intact(ref)
		return nil
	}, func(ref blob.Ref, size int64) {
		s.local.used(ref, size)
		if err := s.local.shrink(context.WithoutCancel(s.life)); err != nil {
			s.log.Warn("cannot evict from the local cache", "error", err)
		}
	})
}

// renewing renews the lease of an upload while do runs.
func (s *Store) renewing(ctx context.Context, u record.Upload, do func() error) error {
	ended := make(chan struct{})
	var renewer sync.WaitGroup
	defer renewer.Wait()
	defer close(ended)
	renewer.Go(func() {
		t := time.NewTicker(lease / 3)
		defer t.Stop()
		for {
			select {
			case <-ended:
				return
			case <-t.C:
				s.renew(ctx, []string{u.Place})
			}
		}
	})
	return do()
}
