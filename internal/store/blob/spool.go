package blob

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"runtime"
	"sync/atomic"

	"github.com/symdepot/symdepot/internal/base/durable"
)

// Spool is a content that is being written to a temporary file and can be read
// meanwhile. One goroutine writes it and ends it with Keep or Abort; any number
// may read the written part. It must be closed after the last read.
type Spool struct {
	tree *durable.Tree
	keep func(ctx context.Context, s *Spool, ref Ref) error // see newSpool
	file *durable.File                                      // nil after Keep or Abort
	name string                                             // name of the temporary file
	read *os.File
	hash hash.Hash
	n    atomic.Int64
}

// newSpool creates an empty spool in a folder of a tree. keep is called once, by
// Keep: it makes the temporary file a blob and ends it with Commit or Abort.
func newSpool(tree *durable.Tree, dir string, perm fs.FileMode, keep func(ctx context.Context, s *Spool, ref Ref) error) (*Spool, error) {
	file, err := tree.Create(dir, perm)
	if err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	read, err := tree.Root().Open(file.Name())
	if err != nil {
		file.Abort()
		return nil, fmt.Errorf("spool: %w", err)
	}
	return &Spool{tree: tree, keep: keep, file: file, name: file.Name(), read: read, hash: sha256.New()}, nil
}

// Spool implements [Backend]: the temporary file becomes the blob.
func (d *Disk) Spool() (*Spool, error) { return newSpool(d.tree, tempDir, d.filePerm, d.keep) }

// SpoolThrough creates an empty spool. Keep first calls before, which may read
// the spool; its error ends Keep, and nothing is stored. after is called once
// the blob is stored.
func (d *Disk) SpoolThrough(before func(ctx context.Context, s *Spool, ref Ref) error, after func(ref Ref, size int64)) (*Spool, error) {
	return newSpool(d.tree, tempDir, d.filePerm, func(ctx context.Context, s *Spool, ref Ref) error {
		if err := before(ctx, s, ref); err != nil {
			s.file.Abort()
			return err
		}
		if err := d.keep(ctx, s, ref); err != nil {
			return err
		}
		after(ref, s.Size())
		return nil
	})
}

// Write appends p. durable.IsNoSpace recognizes the error of a full disk.
func (s *Spool) Write(p []byte) (int, error) {
	n, err := s.file.Write(p)
	s.hash.Write(p[:n])
	s.n.Add(int64(n))
	return n, err
}

// ReadAt reads the written part.
func (s *Spool) ReadAt(p []byte, off int64) (int, error) { return s.read.ReadAt(p, off) }

// File opens the temporary file again, so that the system can send it. It may
// fail after Keep, because the file has been renamed.
func (s *Spool) File() (*os.File, error) { return s.tree.Root().Open(s.name) }

// Size returns the number of bytes written.
func (s *Spool) Size() int64 { return s.n.Load() }

// Sum returns the Ref of the bytes written. Only the writer may call it.
func (s *Spool) Sum() (ref Ref) {
	s.hash.Sum(ref[:0])
	return ref
}

// Keep makes the spool a blob, durably, and returns its Ref. On an error nothing
// is stored. In either case the bytes can be read until Close.
func (s *Spool) Keep(ctx context.Context) (Ref, error) {
	ref := s.Sum()
	err := s.keep(ctx, s, ref)
	s.file = nil
	if err != nil {
		return Ref{}, fmt.Errorf("put blob %s: %w", ref, err)
	}
	return ref, nil
}

// keep makes the file of a spool a blob.
func (d *Disk) keep(ctx context.Context, s *Spool, ref Ref) error {
	there, err := d.has(ctx, ref, s.Size())
	if err == nil && !there {
		err = d.ensureShard(ref)
	}
	if err != nil {
		s.file.Abort()
		return err
	}
	switch {
	case there:
		s.file.Abort()
		if err := d.ensureShard(ref); err != nil {
			return err
		}
		return d.tree.SyncDir(shardName(ref))
	case runtime.GOOS == "windows":
		return d.copySpool(s, ref)
	}
	if err := s.file.Commit(blobName(ref)); err != nil {
		return err
	}
	d.shards[ref[0]].Store(true)
	return nil
}

// copySpool writes the blob as a second file: Windows cannot rename a file that is
// open for reading.
func (d *Disk) copySpool(s *Spool, ref Ref) error {
	defer s.file.Abort()
	to, err := d.tree.Create(tempDir, d.filePerm)
	if err != nil {
		return err
	}
	buf := chunks.Get().(*[chunk]byte)
	defer chunks.Put(buf)
	for off, size := int64(0), s.Size(); off < size; {
		n, err := s.read.ReadAt(buf[:min(chunk, size-off)], off)
		if n > 0 {
			_, err = to.Write(buf[:n])
		}
		if err != nil {
			to.Abort()
			return err
		}
		off += int64(n)
	}
	if err := to.Commit(blobName(ref)); err != nil {
		return err
	}
	d.shards[ref[0]].Store(true)
	return nil
}

// Abort discards the spool. It does nothing after Keep.
func (s *Spool) Abort() {
	if s.file != nil {
		s.file.Abort()
		s.file = nil
	}
}

// Close closes the spool for reading.
func (s *Spool) Close() error { return s.read.Close() }
