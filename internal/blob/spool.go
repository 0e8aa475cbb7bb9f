package blob

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"os"
	"runtime"
	"sync/atomic"

	"github.com/symdepot/symdepot/internal/durable"
)

// Spool is a content on its way into a [Disk] that can be read meanwhile. One
// goroutine writes it and ends it with Keep or Abort; any number read what has
// been written. It must be closed when nobody reads it any more.
type Spool struct {
	disk *Disk
	file *durable.File // nil after Keep or Abort
	name string        // of the temporary file
	read *os.File
	hash hash.Hash
	n    atomic.Int64
}

// Spool begins one.
func (d *Disk) Spool() (*Spool, error) {
	file, err := d.tree.Create(tempDir, d.filePerm)
	if err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	read, err := d.tree.Root().Open(file.Name())
	if err != nil {
		file.Abort()
		return nil, fmt.Errorf("spool: %w", err)
	}
	return &Spool{disk: d, file: file, name: file.Name(), read: read, hash: sha256.New()}, nil
}

// Write appends p. A full disk is an error that durable.IsNoSpace knows.
func (s *Spool) Write(p []byte) (int, error) {
	n, err := s.file.Write(p)
	s.hash.Write(p[:n])
	s.n.Add(int64(n))
	return n, err
}

// ReadAt reads what has been written.
func (s *Spool) ReadAt(p []byte, off int64) (int, error) { return s.read.ReadAt(p, off) }

// File opens the file that is being written once more, so that the system can
// send it; it has no name that lasts. After Keep it may be gone.
func (s *Spool) File() (*os.File, error) { return s.disk.tree.Root().Open(s.name) }

// Size is the number of bytes that have been written.
func (s *Spool) Size() int64 { return s.n.Load() }

// Sum is the Ref of what has been written. Only the writer may call it.
func (s *Spool) Sum() (ref Ref) {
	s.hash.Sum(ref[:0])
	return ref
}

// Keep makes what has been written a blob, durably, and returns its Ref. On an
// error nothing is kept. What was written can be read until Close in any case.
func (s *Spool) Keep() (Ref, error) {
	ref := s.Sum()
	err := s.keep(ref)
	s.file = nil
	if err != nil {
		return Ref{}, fmt.Errorf("put blob %s: %w", ref, err)
	}
	return ref, nil
}

func (s *Spool) keep(ref Ref) error {
	there, err := s.disk.has(context.Background(), ref, s.Size())
	if err == nil && !there {
		err = s.disk.ensureShard(ref)
	}
	if err != nil {
		s.file.Abort()
		return err
	}
	switch {
	case there:
		s.file.Abort()
		if err := s.disk.ensureShard(ref); err != nil {
			return err
		}
		return s.disk.tree.SyncDir(shardName(ref))
	case runtime.GOOS == "windows":
		return s.copyTo(ref)
	}
	if err := s.file.Commit(blobName(ref)); err != nil {
		return err
	}
	s.disk.shards[ref[0]].Store(true)
	return nil
}

// copyTo writes the blob once more: Windows does not rename a file that
// somebody reads.
func (s *Spool) copyTo(ref Ref) error {
	defer s.file.Abort()
	to, err := s.disk.tree.Create(tempDir, s.disk.filePerm)
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
	s.disk.shards[ref[0]].Store(true)
	return nil
}

// Abort drops what has been written. After Keep it does nothing.
func (s *Spool) Abort() {
	if s.file != nil {
		s.file.Abort()
		s.file = nil
	}
}

// Close ends the reading.
func (s *Spool) Close() error { return s.read.Close() }
