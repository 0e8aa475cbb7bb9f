package index

import (
	"context"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
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

// What the rows hold.
type (
	// Scope is the set of products that a caller may see.
	Scope = record.Scope
	// Tx is a transaction to commit.
	Tx = record.Tx
	// Entry is one file of a transaction.
	Entry = record.Entry
	// Origin identifies the transaction of another store that was imported.
	Origin = record.Origin
	// StageCommit is the commit of a stage, as a part of that of a transaction.
	StageCommit = record.StageCommit
	// Stored is one object in the index.
	Stored = record.Stored
	// Hit is one result of a lookup.
	Hit = record.Hit
	// Found is one result of a search.
	Found = record.Found
	// Content is a content with its size.
	Content = record.Content
	// Unreferenced is a content without references.
	Unreferenced = record.Unreferenced
	// Transaction is a committed transaction.
	Transaction = record.Transaction
	// TxFile is one file of a transaction.
	TxFile = record.TxFile
	// Cold is the record of a cold content.
	Cold = record.Cold
	// Tool is a tool that derives contents from others, with its version.
	Tool = record.Tool
	// Upload is an upload of a content to a place.
	Upload = record.Upload
)

// ClassTry is the class of transactions of try builds.
const ClassTry = record.ClassTry

// ErrNotUploaded means that a commit refers to a content that is neither known nor
// uploaded.
var ErrNotUploaded = record.ErrNotUploaded
