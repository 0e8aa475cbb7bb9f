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

// walHeader is the length of the two copies of the header that the shared
// memory file of SQLite's write-ahead log begins with (SQLite's documentation,
// "WAL-mode file format", section 2.1). Every commit of any process changes
// both; a reader sees a commit once it sees the header that the commit wrote.
const walHeader = 2 * 48

// walVersion is the version of that header.
const walVersion = 3007000

// Watch tells whether anything changed in an index, for the price of one read
// from memory: a query costs ten times as much.
type Watch struct {
	db   *DB
	f    *os.File
	last atomic.Pointer[watched]
}

// watched is a generation that was asked for after so many writes.
type watched struct{ writes, generation uint64 }

// Watch begins to watch. It must be closed after the index, never before:
// systems with POSIX locks drop all locks that a process has on a file when it
// closes the file once.
func (db *DB) Watch() (*Watch, error) {
	f, err := os.Open(db.path + "-shm")
	if err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	return &Watch{db: db, f: f}, nil
}

// State returns the Generation. It asks for it only when something was written
// since: what is remembered there often, such as misses, costs one query per
// write, and leaves the number as it is.
func (w *Watch) State() (uint64, error) {
	n, err := w.Writes()
	if err != nil {
		return 0, err
	}
	if l := w.last.Load(); l != nil && l.writes == n {
		return l.generation, nil
	}
	// Asked for after the writes were counted: it is of these, or of later ones,
	// and then their number is another.
	g, err := w.db.Generation(context.Background())
	if err == nil {
		w.last.Store(&watched{n, g})
	}
	return g, err
}

// Writes returns a number that changes with everything that is written to the
// index, by any process.
func (w *Watch) Writes() (uint64, error) {
	var b [walHeader]byte
	if n, err := w.f.ReadAt(b[:], 0); n < len(b) {
		return 0, fmt.Errorf("watch: %w", err)
	}
	if binary.NativeEndian.Uint32(b[:]) != walVersion || b[12] == 0 {
		return 0, errors.New("watch: the log's header is not there yet")
	}
	h := fnv.New64a()
	_, _ = h.Write(b[:])
	return h.Sum64(), nil
}

// Close ends the watch.
func (w *Watch) Close() error { return w.f.Close() }
