package index

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"sync/atomic"
)

// walHeader is the length of the two copies of the header at the start of the
// shared-memory file of SQLite's write-ahead log (SQLite's documentation,
// "WAL-mode file format", section 2.1). Every commit of any process changes
// both. A reader sees a commit once it sees the header that the commit wrote.
const walHeader = 2 * 48

// walVersion is the version of that header.
const walVersion = 3007000

// Watch detects changes of an index with one read from memory. A query costs ten
// times as much.
type Watch struct {
	db   *DB
	f    *os.File
	last atomic.Pointer[watched]
}

// watched is a generation that was read when Writes had this value.
type watched struct{ writes, generation uint64 }

// Watch starts a watch. It must be closed after the index, never before: where
// locks are POSIX locks, closing a file releases all locks of the process on it.
func (db *DB) Watch() (*Watch, error) {
	f, err := os.Open(db.path + "-shm")
	if err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	return &Watch{db: db, f: f}, nil
}

// State returns the Generation. It reads the generation again only after a
// write. Frequent writes that do not change it, such as misses, cost one query
// each.
func (w *Watch) State() (uint64, error) {
	n, err := w.Writes()
	if err != nil {
		return 0, err
	}
	if l := w.last.Load(); l != nil && l.writes == n {
		return l.generation, nil
	}
	// The generation is read after Writes, so it belongs to these writes or to
	// later ones, for which Writes differs.
	g, err := w.db.Generation(context.Background())
	if err == nil {
		w.last.Store(&watched{n, g})
	}
	return g, err
}

// Writes returns a number that changes with every write to the index by any
// process.
func (w *Watch) Writes() (uint64, error) {
	var b [walHeader]byte
	if n, err := w.f.ReadAt(b[:], 0); n < len(b) {
		return 0, fmt.Errorf("watch: %w", err)
	}
	if binary.NativeEndian.Uint32(b[:]) != walVersion || b[12] == 0 {
		return 0, errors.New("watch: the header of the log has not been written yet")
	}
	h := fnv.New64a()
	_, _ = h.Write(b[:])
	return h.Sum64(), nil
}

// Close ends the watch.
func (w *Watch) Close() error { return w.f.Close() }
