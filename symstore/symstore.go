// Package symstore reads and writes SymStore directories: the symbol stores that
// Microsoft's symstore.exe fills and that every Windows debugger reads from a
// share. It writes what that tool writes, byte for byte, and reads stores of any
// tool and any year.
//
// Unlike the genuine tool it allows many writers at once and survives being
// killed. The files that it needs for that are below 000Admin and begin with
// "symdepot."; see [Store.Add].
//
// All access stays inside the root: a store whose folders are symbolic links to
// the outside cannot be read.
//
// # Results
//
// A store answers four questions, each with its own type:
//
//   - What does a reader get under a key? [Store.Find] returns a [Found]: the
//     paths of the plain file, of the cabinet and of the pointer, as far as they
//     exist, and the lines of refs.ptr. [Found.Best] selects as Microsoft's
//     client does.
//   - Does the store have this file? [Store.Query] reads the keys of a local file
//     and returns an [Answer] for each key: the key, and its Found or nil.
//   - Which files are stored under a key, and when were they last read?
//     [Store.StoredFiles] returns a [StoredFile] for each file without opening it.
//   - Which transactions exist? [Store.Walk] yields an [Upload] for each: the
//     line of server.txt, and the entries of the transaction's file.
//
// Find and Query look at files, whatever the records say. Walk looks at records,
// whether or not the files exist. [Store.Check] compares both.
//
// # Promise
//
// Names and behaviour that this documentation describes change only with a new
// major version of the module. Stores stay readable and writable by Microsoft's
// tools and by earlier versions of this package; an interrupted change of an
// earlier version is completed by a later one. Error texts may change; use
// errors.Is with the variables below.
package symstore

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/truncate"
	"github.com/symdepot/symdepot/symfile"
	"github.com/symdepot/symdepot/symstore/internal/lockfile"
)

// The names of a store's own files.
const (
	adminDir   = "000Admin"
	pingmeFile = "pingme.txt"
	// pingbackFile is pingmeFile under another name, which one published description of
	// the format has. It is read and never written.
	pingbackFile = "pingback.txt"
	index2File   = "index2.txt"
	lastIDFile   = adminDir + "/lastid.txt"
	serverFile   = adminDir + "/server.txt"
	historyFile  = adminDir + "/history.txt"
	refsLeaf     = "refs.ptr"
	pointerLeaf  = "file.ptr"
	deletedExt   = ".deleted"
	// noRefsFile marks a store that was created with NoRefs. lastOwnFile has the number
	// of the last transaction that this package made.
	noRefsFile  = adminDir + "/symdepot.norefs"
	lastOwnFile = adminDir + "/symdepot.last"
)

// maxText is the largest size in bytes of a text file of a store. The largest
// known server.txt is far below it.
const maxText = 16 << 20

var (
	// ErrLocked is wrapped when the store stays locked by another writer for
	// longer than Options.LockWait.
	ErrLocked = lockfile.ErrLocked
	// ErrLockLost is wrapped when this writer failed to renew its lock and
	// another writer took it over. That writer has completed or undone the
	// change.
	ErrLockLost = lockfile.ErrLost
	// ErrNoLocks is wrapped when the file system does not support locks; see
	// Locking.
	ErrNoLocks = lockfile.ErrNoLocks
	// ErrExists is wrapped when a path is occupied: by a folder, by a file that
	// is not regular, or, with AddOptions.NoReplace or within one transaction,
	// by different content under the same key.
	ErrExists = errors.New("a file is in the way")
	// ErrReadOnly is wrapped by changes to a store that cannot be written to.
	ErrReadOnly = errors.New("the store is read-only")
	// ErrNoTransaction is wrapped when the transaction does not exist or was
	// deleted.
	ErrNoTransaction = errors.New("no such transaction")
	// ErrDamaged is wrapped when the records of a store are unreadable or
	// contradict each other. Check finds the details.
	ErrDamaged = errors.New("the store is damaged")
	// ErrNotStore is wrapped by Open for a path that is not a directory, and by
	// changes to a flat folder.
	ErrNotStore = errors.New("not a symbol store")
	// ErrRefs is wrapped when AddOptions.NoRefs is given for a store that was created
	// without it.
	ErrRefs = errors.New("the store was created with refs.ptr files")
	// ErrName is wrapped for a name that a file in a store cannot have, such as
	// a device name of Windows.
	ErrName = errors.New("not a valid name in a symbol store")
	// ErrPointer is wrapped for a pointer that must not be written or followed.
	ErrPointer = errors.New("pointer refused")
)

// ID is the number of a transaction. 0 means none.
type ID uint64

// maxID is the largest number of ten digits.
const maxID ID = 9_999_999_999

// String returns the ten digits that name the transaction file.
func (id ID) String() string { return fmt.Sprintf("%010d", uint64(id)) }

// ParseID parses one to ten digits, with or without leading zeros and
// surrounding blanks.
func ParseID(s string) (ID, error) {
	s = strings.TrimSpace(s)
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || len(s) > 10 || s[0] == '+' || n == 0 {
		return 0, fmt.Errorf("transaction id %q: want one to ten digits and a number above zero", truncate.Text(s))
	}
	return ID(n), nil
}

// Type is the kind of a stored file, the fourth field of a line in refs.ptr.
type Type string

// The types that symstore.exe writes. Other types in existing files are kept.
const (
	Private  Type = "pri" // PDB with private symbols
	Public   Type = "pub" // stripped PDB
	TypeOnly Type = "typ" // PDB without a DBI stream
	Binary   Type = "bin" // executable image
)

// Transaction is one line of server.txt or history.txt.
type Transaction struct {
	ID      ID
	Deletes ID // of a del transaction: the transaction that it deleted; else 0
	Pointer bool
	Time    time.Time // start of the transaction, in the time zone of this machine
	Product string
	Version string
	Comment string
}

// Entry is one line of a transaction file.
type Entry struct {
	Name   string
	Key    string
	Source string // absolute path on the machine of the writer
}

// validKey reports whether key can be the name of a key folder.
func validKey(key string) bool {
	return symfile.ValidName(key) && legalOnWindows(key)
}

// legalOnWindows reports whether Windows can create a file of exactly this
// name.
func legalOnWindows(name string) bool {
	return !strings.ContainsAny(name, `<>:"|?*`) && strings.TrimRight(name, ". ") == name
}

// checkName returns an error if a stored file cannot have this name.
func checkName(name string) error {
	switch {
	case !symfile.ValidName(name), !legalOnWindows(name):
		return fmt.Errorf("%w: %q", ErrName, truncate.Text(name))
	case symfile.IsDevice(name):
		return fmt.Errorf("%w: %q is a device name on Windows", ErrName, truncate.Text(name))
	case strings.EqualFold(name, adminDir), strings.EqualFold(name, pingmeFile),
		strings.EqualFold(name, pingbackFile), strings.EqualFold(name, index2File):
		return fmt.Errorf("%w: %q is reserved for the store's own files", ErrName, truncate.Text(name))
	}
	return nil
}

// ignoreNotExist turns fs.ErrNotExist into success.
func ignoreNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
