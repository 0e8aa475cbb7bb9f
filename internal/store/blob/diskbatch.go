package blob

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/base/durable"
)

// diskBatch is a batch of a Disk: a group of temporary files.
type diskBatch struct {
	disk  *Disk
	group *durable.Group

	// gate is locked for reading while a content joins the group, and for
	// writing to end the batch.
	gate  sync.RWMutex
	ended bool // guarded by gate

	mu    sync.Mutex
	parts map[Ref]part // guarded by mu
}

// part is a content of a batch.
type part struct {
	size    int64     // -1 if unknown
	temp    string    // the temporary file; empty for a blob found in the store
	written time.Time // when the temporary file was complete
}

// Begin implements [Batcher].
func (d *Disk) Begin(ctx context.Context) (Batch, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return &diskBatch{disk: d, group: d.tree.NewGroup(), parts: make(map[Ref]part)}, nil
}

func (b *diskBatch) Put(ctx context.Context, size int64, r io.Reader) (Ref, int64, error) {
	ref, n, err := b.put(ctx, size, r)
	if err != nil {
		return Ref{}, 0, fmt.Errorf("put blob: %w", err)
	}
	return ref, n, nil
}

func (b *diskBatch) put(ctx context.Context, size int64, r io.Reader) (Ref, int64, error) {
	sink := &diskSink{disk: b.disk, want: func(ref Ref, n int64) (bool, error) {
		known, err := b.known(ctx, ref, n)
		return !known, err
	}}
	ref, n, kept, err := receive(ctx, size, r, sink)
	if err != nil || !kept {
		sink.abort()
		return ref, n, err
	}
	b.gate.RLock()
	defer b.gate.RUnlock()
	if b.ended {
		sink.abort()
		return Ref{}, 0, errEnded()
	}
	if !b.claim(ref, part{n, sink.file.Name(), b.disk.now()}) {
		sink.abort() // another Put was faster
		return ref, n, nil
	}
	b.group.Add(sink.file, blobName(ref))
	return ref, n, nil
}

// Adopt implements [Adopter].
func (b *diskBatch) Adopt(ctx context.Context, ref Ref, size int64, name string) error {
	if err := b.adopt(ctx, ref, size, name); err != nil {
		return fmt.Errorf("put blob %s: %w", ref, err)
	}
	return nil
}

func (b *diskBatch) adopt(ctx context.Context, ref Ref, size int64, name string) error {
	if known, err := b.known(ctx, ref, size); known || err != nil {
		return err
	}
	file, err := b.disk.tree.Adopt(name, tempDir, b.disk.filePerm)
	if err != nil {
		return err
	}
	b.gate.RLock()
	defer b.gate.RUnlock()
	if b.ended {
		file.Abort()
		return errEnded()
	}
	// The time of the file is that of another write.
	if !b.claim(ref, part{size: size, temp: file.Name()}) {
		file.Abort() // another Put was faster
		return nil
	}
	b.group.Add(file, blobName(ref))
	return nil
}

// claim adds a content to the batch unless the batch already has a temporary
// file for it.
func (b *diskBatch) claim(ref Ref, p part) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.parts[ref].temp != "" {
		return false
	}
	b.parts[ref] = p
	return true
}

func errEnded() error { return fmt.Errorf("batch: %w", fs.ErrClosed) }

// known reports whether the batch or the store has a content of the given size,
// -1 meaning any, and adds it to the batch.
func (b *diskBatch) known(ctx context.Context, ref Ref, size int64) (bool, error) {
	b.gate.RLock()
	defer b.gate.RUnlock()
	if b.ended {
		return false, errEnded()
	}
	b.mu.Lock()
	p, ok := b.parts[ref]
	b.mu.Unlock()
	if ok && (size < 0 || p.size == size) {
		return true, nil
	}
	there, err := b.disk.has(ctx, ref, size)
	if err != nil || !there {
		return false, err
	}
	b.claim(ref, part{size: size})
	return true, nil
}

func (b *diskBatch) Known(ctx context.Context, ref Ref) bool {
	if ctx.Err() != nil {
		return false
	}
	known, err := b.known(ctx, ref, -1)
	return known && err == nil
}

func (b *diskBatch) Has(ctx context.Context, ref Ref) bool {
	b.mu.Lock()
	temp := b.parts[ref].temp
	b.mu.Unlock()
	if temp != "" {
		return true
	}
	_, err := b.disk.Stat(ctx, ref)
	return err == nil
}

func (b *diskBatch) Commit(ctx context.Context) error {
	parts, ok := b.end()
	if !ok {
		return errEnded()
	}
	err := ctx.Err()
	if err == nil {
		err = b.prepare(parts)
	}
	if err != nil {
		b.group.Abort()
		return fmt.Errorf("commit blobs: %w", err)
	}
	if err := b.group.Commit(); err != nil {
		return fmt.Errorf("commit blobs: %w", err)
	}
	for ref := range parts {
		b.disk.shards[ref[0]].Store(true)
	}
	return nil
}

// prepare makes sure that every part exists, with a fresh time, and will be
// durable after the commit of the group.
func (b *diskBatch) prepare(parts map[Ref]part) error {
	now := b.disk.now()
	var gone []Ref
	for ref, p := range parts {
		if p.temp == "" {
			there, err := b.disk.refresh(ref, p.size)
			if err != nil {
				return err
			}
			if !there {
				gone = append(gone, ref)
				continue
			}
			b.group.SyncDir(shardName(ref))
		} else if now.Sub(p.written) > ModTimeSlack {
			if err := b.disk.tree.Root().Chtimes(p.temp, time.Time{}, now); err != nil {
				return err
			}
		}
		if !b.disk.shards[ref[0]].Load() {
			if err := b.group.Mkdir(shardName(ref), b.disk.dirPerm); err != nil {
				return err
			}
		}
	}
	if len(gone) > 0 {
		return &GoneError{Refs: gone}
	}
	return nil
}

func (b *diskBatch) Abort() {
	if _, ok := b.end(); ok {
		b.group.Abort()
	}
}

// end ends the batch and returns its parts, or false if it has ended before.
func (b *diskBatch) end() (map[Ref]part, bool) {
	b.gate.Lock()
	defer b.gate.Unlock()
	if b.ended {
		return nil, false
	}
	b.ended = true
	b.mu.Lock()
	defer b.mu.Unlock()
	parts := b.parts
	b.parts = nil
	return parts, true
}
