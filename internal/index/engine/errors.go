package engine

import "errors"

// Errors that callers distinguish. They are wrapped in an error that names the
// file and the operation.
var (
	// ErrNoSpace: the disk is full. The operation was undone.
	ErrNoSpace = errors.New("no space left for the index")
	// ErrBusy: other processes held the write lock for too long.
	ErrBusy = errors.New("the index is in use by another process")
	// ErrCorrupt: the file is damaged, or is no database.
	ErrCorrupt = errors.New("the index is damaged")
	// ErrForeign: the file is an intact database of a different program.
	ErrForeign = errors.New("the file is the database of a different program")
	// ErrOlder: the index was written by an older version, and was opened for reading
	// only, so that it cannot be upgraded.
	ErrOlder = errors.New("open it once for writing to upgrade it")
	// ErrUnreleased: the index was written by a program of before release 0.1.0.
	ErrUnreleased = errors.New("it is of a version before release 0.1.0: write its files to a folder with symdepot export of that version, " +
		"and add the folder to a new depot with symdepot add of this one")
	// ErrNewer: the index was written by a newer version of the program.
	ErrNewer = errors.New("the index was written by a newer version of symdepot")
	// ErrUnavailable: the database server does not answer, or does not accept
	// writes at the moment. What was asked is not known.
	ErrUnavailable = errors.New("the database is not available")
	// ErrReadOnly: the index was opened for reading only.
	ErrReadOnly = errors.New("the index is open read-only")
)
