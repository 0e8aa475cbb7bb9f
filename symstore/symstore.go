// Package symstore reads and writes SymStore directories: the stores that
// Microsoft's symstore.exe fills and that every Windows debugger reads from a
// share. What it writes is what that tool writes, byte for byte; what it reads
// may come from any tool and any year.
//
// Unlike the genuine tool it allows many writers at once and survives being
// killed. What it adds for that stays below 000Admin and starts with
// "symdepot.": see [Store.Add] and the comment in journal.go.
//
// Names below the root are followed inside the root only: a store whose
// folders are symbolic links that lead out of it cannot be read.
package symstore

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/symfile"
)

// Names of the files that make a store.
const (
	adminDir    = "000Admin"
	pingmeFile  = "pingme.txt"
	index2File  = "index2.txt"
	lastIDFile  = adminDir + "/lastid.txt"
	serverFile  = adminDir + "/server.txt"
	historyFile = adminDir + "/history.txt"
	refsLeaf    = "refs.ptr"
	pointerLeaf = "file.ptr"
	deletedExt  = ".deleted"
)

// maxText is the size in bytes up to which a text file of a store is read.
// The largest known server.txt is far below it.
const maxText = 16 << 20

var (
	// ErrLocked is wrapped when another writer held the store for longer than
	// Options.LockWait.
	ErrLocked = errors.New("the store is locked")
	// ErrLockLost is wrapped when this writer was silent for so long that
	// another took its lock. What it was about to publish was completed or
	// undone by that one.
	ErrLockLost = errors.New("the lock was taken over by another writer")
	// ErrNoLocks is wrapped when the file system refuses locks; see Locking.
	ErrNoLocks = errors.New("the file system does not support locks")
	// ErrExists is wrapped when something stands where a file shall go:
	// a folder, another kind of file, or, by AddOptions.NoReplace and inside one
	// transaction, other content under the same key.
	ErrExists = errors.New("a file is in the way")
	// ErrReadOnly is wrapped when a store that cannot be written to shall be.
	ErrReadOnly = errors.New("the store is read-only")
	// ErrNoTransaction is wrapped when there is no live transaction of an id.
	ErrNoTransaction = errors.New("no such transaction")
	// ErrDamaged is wrapped when the records of a store contradict each other
	// or cannot be read. Check says more.
	ErrDamaged = errors.New("the store is damaged")
	// ErrNotStore is wrapped by Open for a directory that is none, and by
	// writing to a flat folder.
	ErrNotStore = errors.New("not a symbol store")
	// ErrName is wrapped for a name that cannot stand in a store, such as one
	// that Windows takes for a device.
	ErrName = errors.New("not a name for a store")
	// ErrPointer is wrapped for a pointer that may not be written or followed.
	ErrPointer = errors.New("pointer refused")
)

// ID is the number of a transaction. 0 means "none".
type ID uint64

// maxID is the largest number that fits into ten digits.
const maxID ID = 9_999_999_999

// String returns the ten digits that name the transaction's file.
func (id ID) String() string { return fmt.Sprintf("%010d", uint64(id)) }

// ParseID reads one to ten digits, with leading zeros or without and with
// blanks around.
func ParseID(s string) (ID, error) {
	s = strings.TrimSpace(s)
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || len(s) > 10 || s[0] == '+' || n == 0 {
		return 0, fmt.Errorf("transaction id %q: not one to ten digits above zero", clip(s))
	}
	return ID(n), nil
}

// Type is the fourth field of a refs.ptr line: what a stored file is.
type Type string

// The types that the genuine tool writes. Others are kept as they are.
const (
	Private  Type = "pri" // PDB with private symbols
	Public   Type = "pub" // stripped PDB
	TypeOnly Type = "typ" // PDB without a DBI stream
	Binary   Type = "bin" // executable image
)

// Transaction is one line of server.txt or history.txt.
type Transaction struct {
	ID      ID
	Deletes ID // of a del transaction: the one that it deleted, else 0
	Pointer bool
	Time    time.Time // when it started, in the time zone of this machine
	Product string
	Version string
	Comment string
}

// Entry is one line of a transaction's file.
type Entry struct {
	Name   string
	Key    string
	Source string // absolute path as its writer saw it
}

// validKey says whether key can be a folder of a store.
func validKey(key string) bool {
	return symfile.ValidName(key) && legalOnWindows(key)
}

// legalOnWindows reports whether Windows can have a file of this name, and has
// it under exactly this name.
func legalOnWindows(name string) bool {
	return !strings.ContainsAny(name, `<>:"|?*`) && strings.TrimRight(name, ". ") == name
}

// checkName says why name cannot be a stored file's.
func checkName(name string) error {
	switch {
	case !symfile.ValidName(name), !legalOnWindows(name):
		return fmt.Errorf("%w: %q", ErrName, clip(name))
	case symfile.IsDevice(name):
		return fmt.Errorf("%w: %q is a device on Windows", ErrName, clip(name))
	case strings.EqualFold(name, adminDir), strings.EqualFold(name, pingmeFile), strings.EqualFold(name, index2File):
		return fmt.Errorf("%w: %q is the store's own", ErrName, clip(name))
	}
	return nil
}

// clip keeps hostile input out of messages.
func clip(s string) string {
	if len(s) > 120 {
		return s[:120] + "…"
	}
	return s
}

// ignoreAbsent turns "not there" into success.
func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
