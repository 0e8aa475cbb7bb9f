package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
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
type sqliteWatch struct{ f *os.File }

func (e *sqliteFile) watch() (watcher, error) {
	f, err := os.Open(e.path + "-shm")
	if err != nil {
		return nil, err
	}
	return sqliteWatch{f}, nil
}

func (w sqliteWatch) writes() (uint64, error) {
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

func (w sqliteWatch) close() error { return w.f.Close() }
