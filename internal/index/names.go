package index

import (
	"context"

	"github.com/symdepot/symdepot/internal/index/engine"
)

// Names of the rooms below that callers of an index use.

// Of the database below.
type (
	// Watch detects changes of an index with one look at memory.
	Watch = engine.Watch
	// Shared is what a process has last learned about the others on its database.
	Shared = engine.Shared
	// Peer is another process that answers requests for downloads.
	Peer = engine.Peer
	// Pause is a time before which an upstream must not be asked.
	Pause = engine.Pause
	// Pool describes the connections to the database server.
	Pool = engine.Pool
	// ReplicaStatus counts what replicas did for this process.
	ReplicaStatus = engine.ReplicaStatus
	// Waits counts how long the writers of this process waited.
	Waits = engine.Waits
	// WaitCount counts waits.
	WaitCount = engine.WaitCount
	// ConnectError says why a database server cannot be used, and what to do.
	ConnectError = engine.ConnectError
)

// Errors of the database below.
var (
	ErrNoSpace     = engine.ErrNoSpace
	ErrBusy        = engine.ErrBusy
	ErrCorrupt     = engine.ErrCorrupt
	ErrForeign     = engine.ErrForeign
	ErrOlder       = engine.ErrOlder
	ErrNewer       = engine.ErrNewer
	ErrUnreleased  = engine.ErrUnreleased
	ErrUnavailable = engine.ErrUnavailable
	ErrReadOnly    = engine.ErrReadOnly
)

// WaitBounds are the upper bounds of the buckets of a WaitCount, in seconds.
var WaitBounds = engine.WaitBounds

// Name returns the address of an index for messages: without a password, user and options.
func Name(where string) string { return engine.Name(where) }

// IsURL reports whether an address of an index names a database server, as opposed to a
// file.
func IsURL(where string) bool { return engine.IsURL(where) }

// OneWait returns a context in which several lookups share one wait for a database that
// does not answer. After the first lookup has timed out, the others fail at once.
func OneWait(ctx context.Context) context.Context { return engine.OneWait(ctx) }

// RemoveFile removes an index that no process has open, with the files that SQLite keeps
// beside it.
func RemoveFile(path string) error { return engine.RemoveFile(path) }
