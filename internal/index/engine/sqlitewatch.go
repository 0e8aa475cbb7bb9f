package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"runtime/debug"
	"sync"

	"github.com/symdepot/symdepot/internal/base/durable"
)

// walHeader is the length of the two copies of the header at the start of the
// shared-memory file of SQLite's write-ahead log (SQLite's documentation,
// "WAL-mode file format", section 2.1). Every commit of any process changes
// both. A reader sees a commit once it sees the header that the commit wrote.
const walHeader = 2 * 48

// walVersion is the version of that header.
const walVersion = 3007000

// sqliteWatch reads the header of the log. It must be closed after the index,
// never before: where locks are POSIX locks, closing a file releases all locks
// of the process on it.
type sqliteWatch struct {
	f *os.File

	mu     sync.RWMutex // close waits for readers of the mapping
	mapped []byte       // the start of f; nil where f is read instead
}

func (e *sqliteFile) watch() (watcher, error) {
	// SQLite deletes the file when it closes the index, while the watch is still
	// open. Windows refuses that for 1.4 seconds unless the file is shared.
	f, err := durable.OpenShared(e.path + "-shm")
	if err != nil {
		return nil, err
	}
	return newSQLiteWatch(f), nil
}

func newSQLiteWatch(f *os.File) *sqliteWatch {
	return &sqliteWatch{f: f, mapped: mapStart(f, walHeader)}
}

func (w *sqliteWatch) writes() (uint64, error) {
	var b [walHeader]byte
	if err := w.read(b[:]); err != nil {
		return 0, fmt.Errorf("watch: %w", err)
	}
	if binary.NativeEndian.Uint32(b[:]) != walVersion || b[12] == 0 {
		return 0, errors.New("watch: the header of the log has not been written yet")
	}
	var h uint64
	for i := 0; i < len(b); i += 8 {
		h = bits.RotateLeft64(h^binary.NativeEndian.Uint64(b[i:]), 29) * 0x9e3779b97f4a7c15
	}
	return h, nil
}

// read copies the header. A copy that is made during a commit may mix both
// headers. It equals no header, so the next look reads the generation again.
func (w *sqliteWatch) read(b []byte) error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.mapped != nil {
		return copyMapped(b, w.mapped)
	}
	_, err := w.f.ReadAt(b, 0)
	return err
}

// copyMapped copies from a mapped file. If the file has been truncated, the
// access is a memory fault, which becomes an error.
func copyMapped(dst, mapped []byte) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch r := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }: // a memory fault
			err = errors.New("the shared memory of the index was truncated")
		default:
			panic(r)
		}
	}()
	copy(dst, mapped)
	return nil
}

func (w *sqliteWatch) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := unmap(w.mapped)
	w.mapped = nil
	return errors.Join(err, w.f.Close())
}
