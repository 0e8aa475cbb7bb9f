package blob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"
	"sync"
	"time"
)

// Memory is a store in memory, for tests. The zero value is an empty store.
type Memory struct {
	// Now returns the current time; nil means time.Now.
	Now func() time.Time

	mu      sync.Mutex
	blobs   map[Ref]memoryBlob // guarded by mu
	written uint64             // number of writes so far; guarded by mu

	checks checks
}

type memoryBlob struct {
	content []byte // never changed
	modTime time.Time
	state   uint64 // number of the write that stored it
	fault   error  // error of every read; nil for none
}

// Damage replaces the stored bytes of a blob, for tests. If fault is not nil,
// reading returns it.
func (m *Memory) Damage(ref Ref, stored []byte, fault error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, ok := m.blobs[ref]
	if !ok {
		return
	}
	m.written++
	b.content, b.fault, b.state = stored, fault, m.written
	m.blobs[ref] = b
}

func (m *Memory) now() time.Time {
	if m.Now != nil {
		return m.Now()
	}
	return time.Now()
}

// memorySink collects a content.
type memorySink struct {
	bytes.Buffer
	want func(ref Ref) (bool, error)
}

func (s *memorySink) wanted(ref Ref, _ int64) (bool, error) { return s.want(ref) }

// Put implements [Store].
func (m *Memory) Put(ctx context.Context, ref Ref, size int64, r io.Reader) error {
	if size < 0 {
		return fmt.Errorf("put %s: negative size: %w", ref, ErrMismatch)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if there, err := m.has(ctx, ref); err != nil || there {
		return err
	}
	sink := &memorySink{want: func(got Ref) (bool, error) { return true, checkRef(got, ref) }}
	if _, _, _, err := receive(ctx, size, r, sink); err != nil {
		return fmt.Errorf("put %s: %w", ref, err)
	}
	m.set(ref, sink.Bytes())
	return nil
}

func (m *Memory) set(ref Ref, content []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.blobs == nil {
		m.blobs = make(map[Ref]memoryBlob)
	}
	m.written++
	m.blobs[ref] = memoryBlob{content: content, modTime: m.now(), state: m.written}
}

// has refreshes a blob and reports whether it exists and is intact.
func (m *Memory) has(ctx context.Context, ref Ref) (bool, error) {
	if !m.refresh(ref) {
		return false, nil
	}
	f, err := m.open(ref, -1)
	if err == nil {
		err = m.checks.known(ctx, ref, f)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// refresh sets a blob's time and reports whether the blob exists.
func (m *Memory) refresh(ref Ref) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, ok := m.blobs[ref]
	if ok {
		b.modTime = m.now()
		m.blobs[ref] = b
	}
	return ok
}

func (m *Memory) get(ref Ref) (memoryBlob, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, ok := m.blobs[ref]
	if !ok {
		return b, fmt.Errorf("blob %s: %w", ref, fs.ErrNotExist)
	}
	return b, nil
}

// Open implements [Store].
func (m *Memory) Open(ctx context.Context, ref Ref) (File, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, err := m.open(ref, -1)
	if err != nil {
		return nil, err
	}
	return m.checks.openChecked(ctx, ref, f)
}

// open opens a blob that is not visibly damaged. A size of -1 means unknown.
func (m *Memory) open(ref Ref, size int64) (*memoryFile, error) {
	b, err := m.get(ref)
	if err != nil {
		return nil, err
	}
	f := &memoryFile{Reader: bytes.NewReader(b.content), store: m, ref: ref, blob: b}
	switch n := int64(len(b.content)); {
	case n == 0 && ref != emptyRef:
		return nil, f.Reject("it is empty")
	case size >= 0 && n != size:
		return nil, f.Reject(fmt.Sprintf("it has %d bytes instead of %d", n, size))
	}
	return f, nil
}

// Verify implements [Store].
func (m *Memory) Verify(ctx context.Context, ref Ref, size int64, pace func(n int) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f, err := m.open(ref, size)
	if err != nil {
		return err
	}
	return m.checks.verify(ctx, ref, f, pace)
}

// Suspect implements [Store].
func (m *Memory) Suspect(ref Ref) bool {
	if !m.checks.suspect(ref) {
		return false
	}
	f, err := m.open(ref, -1)
	return err != nil || m.checks.isRejected(ref, f)
}

// Stat implements [Store].
func (m *Memory) Stat(ctx context.Context, ref Ref) (Info, error) {
	if err := ctx.Err(); err != nil {
		return Info{}, err
	}
	b, err := m.get(ref)
	if err != nil {
		return Info{}, err
	}
	if len(b.content) == 0 && ref != emptyRef {
		return Info{}, &DamageError{ref, "it is empty"}
	}
	return Info{ref, int64(len(b.content)), b.modTime}, nil
}

// Missing implements [Store].
func (m *Memory) Missing(ref Ref) error { return m.checks.failed(ref, stamp{}, missing) }

// Delete implements [Store].
func (m *Memory) Delete(ctx context.Context, ref Ref) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.blobs, ref)
	return nil
}

// List implements [Store].
func (m *Memory) List(ctx context.Context) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		m.mu.Lock()
		var infos []Info
		for ref, b := range m.blobs {
			infos = append(infos, Info{ref, int64(len(b.content)), b.modTime})
		}
		m.mu.Unlock()
		slices.SortFunc(infos, func(a, b Info) int { return slices.Compare(a.Ref[:], b.Ref[:]) })
		for _, info := range infos {
			if err := ctx.Err(); err != nil {
				yield(Info{}, err)
				return
			}
			if !yield(info, nil) {
				return
			}
		}
	}
}

type memoryFile struct {
	*bytes.Reader
	store *Memory
	ref   Ref
	blob  memoryBlob
}

func (f *memoryFile) Read(p []byte) (int, error) {
	if f.blob.fault != nil {
		return 0, f.blob.fault
	}
	return f.Reader.Read(p)
}

func (f *memoryFile) ReadAt(p []byte, off int64) (int, error) {
	if f.blob.fault != nil {
		return 0, f.blob.fault
	}
	return f.Reader.ReadAt(p, off)
}

func (f *memoryFile) ModTime() time.Time { return f.blob.modTime }

func (f *memoryFile) stamp() (stamp, error) {
	return stamp{inode: f.blob.state, size: f.Size()}, nil
}

// Reject implements [File].
func (f *memoryFile) Reject(what string) error { return f.store.checks.reject(f.ref, f, what) }

func (f *memoryFile) Close() error { return nil }

// Begin implements [Batcher].
func (m *Memory) Begin(ctx context.Context) (Batch, error) {
	return &memoryBatch{store: m, parts: make(map[Ref][]byte)}, ctx.Err()
}

type memoryBatch struct {
	store *Memory

	mu    sync.Mutex
	parts map[Ref][]byte // nil for a content of the store; guarded by mu
	ended bool           // guarded by mu
}

func (b *memoryBatch) Put(ctx context.Context, size int64, r io.Reader) (Ref, int64, error) {
	sink := &memorySink{want: func(ref Ref) (bool, error) { return !b.Known(ctx, ref), nil }}
	ref, n, kept, err := receive(ctx, size, r, sink)
	if err != nil {
		return Ref{}, 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return Ref{}, 0, fmt.Errorf("batch: %w", fs.ErrClosed)
	}
	if kept && b.parts[ref] == nil {
		b.parts[ref] = append([]byte{}, sink.Bytes()...)
	}
	return ref, n, nil
}

func (b *memoryBatch) Known(ctx context.Context, ref Ref) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended || ctx.Err() != nil {
		return false
	}
	if _, ok := b.parts[ref]; ok {
		return true
	}
	if there, err := b.store.has(ctx, ref); err != nil || !there {
		return false
	}
	b.parts[ref] = nil
	return true
}

func (b *memoryBatch) Has(ctx context.Context, ref Ref) bool {
	b.mu.Lock()
	content := b.parts[ref]
	b.mu.Unlock()
	if content != nil {
		return true
	}
	_, err := b.store.Stat(ctx, ref)
	return err == nil
}

func (b *memoryBatch) Commit(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return fmt.Errorf("batch: %w", fs.ErrClosed)
	}
	b.ended = true
	parts := b.parts
	b.parts = nil
	if err := ctx.Err(); err != nil {
		return err
	}
	for ref, content := range parts {
		if content == nil && !b.store.refresh(ref) {
			return fmt.Errorf("blob %s was deleted while the batch was open: %w", ref, fs.ErrNotExist)
		}
	}
	for ref, content := range parts {
		if content != nil {
			b.store.set(ref, content)
		}
	}
	return nil
}

func (b *memoryBatch) Abort() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended, b.parts = true, nil
}
