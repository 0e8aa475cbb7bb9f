package index

import (
	"context"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Errors that callers distinguish. They are wrapped in an error that names the
// file and the operation.
var (
	// ErrNoSpace: the disk is full. The operation was undone.
	ErrNoSpace = errors.New("no space left for the index")
	// ErrBusy: other processes held the write lock for too long.
	ErrBusy = errors.New("the index is in use by another process")
	// ErrCorrupt: the file is damaged, or is no index.
	ErrCorrupt = errors.New("the index is damaged")
	// ErrNewer: the index was written by a newer version of the program.
	ErrNewer = errors.New("the index was written by a newer version of symdepot")
	// ErrReadOnly: the index was opened for reading only.
	ErrReadOnly = errors.New("the index is open read-only")
)

// class returns the sentinel for a driver error, or nil.
func class(err error) error {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return nil
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_FULL:
		return ErrNoSpace
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return ErrBusy
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return ErrCorrupt
	case sqlite3.SQLITE_IOERR:
		// Growing the shared-memory file fails only if the disk is full.
		if e.Code() == sqlite3.SQLITE_IOERR_SHMSIZE {
			return ErrNoSpace
		}
	}
	return nil
}

func interrupted(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_INTERRUPT
}

// fail wraps an error with the file, the operation and its class.
func (db *DB) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	if interrupted(err) {
		err = context.Canceled
	}
	if c := class(err); c != nil && !errors.Is(err, c) {
		return fmt.Errorf("index %s: %s: %w: %w", db.path, op, c, err)
	}
	return fmt.Errorf("index %s: %s: %w", db.path, op, err)
}
