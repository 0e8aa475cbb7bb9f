// Package engine is the database below an index: SQLite in a file, or PostgreSQL for the
// processes of several machines. It has what differs between the two: connections, the one
// writer, prepared statements, retries, locks, error codes, migrations, and copies of a
// file. It knows no symbols: which tables there are is said by the steps that it is opened
// with, and what rows mean by the packages that read and write them. It relies on the
// tables that processes share: state, history, request, node, epoch, pause, duty, replay.
//
// Readers never wait for writers; writers wait for each other. A write transaction runs a
// function, which may run again after a failure, so it sets its results anew.
package engine

import (
	"context"
	"sync/atomic"
	"time"
)

// engine is the database below an index. It knows the dialect, the locks, the
// error codes and the settings of one kind of database. All engines understand the
// statements of the packages above.
//
// Parameters are $1, $2, …; rows without a result are sql.ErrNoRows.
type engine interface {
	// name is the database in error messages, without secrets.
	name() string
	// points returns the connections for lookups by key, which are short and
	// frequent; scans those for searches and lists, which must not use the
	// lookups' connections.
	points() Reader
	scans() Reader
	// snapshot runs fn with a reader that sees one state of the database
	// throughout, without blocking writers.
	snapshot(ctx context.Context, fn func(Reader) error) error
	// classify returns the sentinel of this package that describes an error of
	// the driver, or nil.
	classify(err error) error
	// integrity returns what the database's own check of its files finds.
	integrity(ctx context.Context, r Reader) ([]string, error)
	// steps are the migrations from an empty database to the current format.
	steps() []Migration
	// format returns the number of migrations that were applied, and setFormat
	// records one, with its floor, both within a transaction.
	format(s session) (int, error)
	setFormat(s session, m Migration) error
	// oldestNode returns the oldest format that a running node knows.
	oldestNode(s session) (int, error)
	// fingerprint returns text that a copy of the database does not share.
	fingerprint(ctx context.Context) (string, error)
	// time is the clock that all processes with this database share.
	time() time.Time
	// watch returns a cheap way to notice writes.
	watch() (watcher, error)
	Close() error
}

// beginner is an engine whose write transactions either work or fail.
type beginner interface {
	// begin starts a write transaction. It waits for other writers until ctx
	// ends. If durable is false, a crash of the machine may undo the
	// transaction.
	begin(ctx context.Context, durable bool) (transaction, error)
}

// replicated is an engine that may have copies of the database for lookups.
type replicated interface {
	// onReplica calls fn with a reader of a copy that is not older than what this
	// process knows. It reports false if there is none or if it failed: then what fn
	// has read does not count.
	onReplica(ctx context.Context, fn func(Reader) error) bool
	// replicaStatus counts what the copies did.
	replicaStatus() ReplicaStatus
}

// transactor is an engine that repeats write transactions.
type transactor interface {
	// transact runs fn in a write transaction and commits if fn returns nil. It
	// may run fn several times, but commits once. Otherwise it is as begin.
	transact(ctx context.Context, durable bool, fn func(s session) error) error
}

// Scan reads the columns of a row, as (*sql.Rows).Scan does.
type Scan = func(...any) error

// Reader reads from the database. Its methods may be called by several
// goroutines, except those of a snapshot.
type Reader interface {
	// Row runs a constant statement that returns at most one row.
	Row(ctx context.Context, text string, args []any, dest ...any) error
	// Each runs a statement and calls fn for each row until fn returns false or
	// an error. Statements marked constant are prepared and kept.
	Each(ctx context.Context, constant bool, text string, args []any, fn func(scan Scan) (bool, error)) error
}

// session is one write transaction. Its statements are constant.
type session interface {
	// Exec returns the number of rows that a statement changed.
	Exec(text string, args ...any) (int64, error)
	Row(text string, args []any, dest ...any) error
	Each(text string, args []any, fn func(scan Scan) error) error
	// Many runs one statement once for each list of arguments, in order, and
	// returns the numbers of changed rows. Over a network it takes one round trip.
	Many(text string, rows [][]any) ([]int64, error)
	// ExecOver runs a statement once over all rows and returns the number of changed
	// rows. Without rows it does nothing.
	ExecOver(o *Statement, rows [][]any, args ...any) (int64, error)
	// EachOver runs a statement once over all rows, and calls fn for each row of its
	// result. Without rows it does nothing.
	EachOver(o *Statement, rows [][]any, args []any, fn func(scan Scan) error) error
	// Script runs several statements without parameters.
	Script(text string) error
}

// transaction is a session that its owner ends.
type transaction interface {
	session
	commit() error
	// rollback undoes the transaction. One of commit and rollback is called,
	// once.
	rollback()
}

// watcher notices writes to the database without a query.
type watcher interface {
	// writes returns a number that changes with every write to the index by any
	// process.
	writes() (uint64, error)
	Close() error
}

// counted is a reader that counts its queries.
type counted struct {
	Reader
	n *atomic.Uint64
}

func (c counted) Row(ctx context.Context, text string, args []any, dest ...any) error {
	c.n.Add(1)
	return c.Reader.Row(ctx, text, args, dest...)
}

func (c counted) Each(ctx context.Context, constant bool, text string, args []any, fn func(scan Scan) (bool, error)) error {
	c.n.Add(1)
	return c.Reader.Each(ctx, constant, text, args, fn)
}
