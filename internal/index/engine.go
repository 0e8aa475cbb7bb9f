package index

import (
	"context"
	"sync/atomic"
	"time"
)

// engine is the database below an index. It knows the dialect, the locks, the
// error codes and the settings of one kind of database. What the rows mean is
// the business of the rest of the package, whose statements all engines
// understand.
//
// Parameters are $1, $2, …; rows without a result are sql.ErrNoRows.
type engine interface {
	// name is the database in error messages, without secrets.
	name() string
	// points returns the connections for lookups by key, which are short and
	// frequent; scans those for searches and lists, which must not use the
	// lookups' connections.
	points() reader
	scans() reader
	// snapshot runs fn with a reader that sees one state of the database
	// throughout, without blocking writers.
	snapshot(ctx context.Context, fn func(reader) error) error
	// classify returns the sentinel of this package that describes an error of
	// the driver, or nil.
	classify(err error) error
	// integrity returns what the database's own check of its files finds.
	integrity(ctx context.Context, r reader) ([]string, error)
	// steps are the migrations from an empty database to the current format.
	steps() []migration
	// format returns the number of migrations that were applied, and setFormat
	// records one, with its floor, both within a transaction.
	format(s session) (int, error)
	setFormat(s session, m migration) error
	// oldestNode returns the oldest format that a running node knows.
	oldestNode(s session) (int, error)
	// fingerprint returns text that a copy of the database does not share.
	fingerprint(ctx context.Context) (string, error)
	// time is the clock that all processes with this database share.
	time() time.Time
	// watch returns a cheap way to notice writes.
	watch() (watcher, error)
	close() error
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
	onReplica(ctx context.Context, fn func(reader) error) bool
	// replicaStatus counts what the copies did.
	replicaStatus() ReplicaStatus
}

// transactor is an engine that repeats write transactions.
type transactor interface {
	// transact runs fn in a write transaction and commits if fn returns nil. It
	// may run fn several times, but commits once. Otherwise it is as begin.
	transact(ctx context.Context, durable bool, fn func(s session) error) error
}

// scanFunc reads the columns of a row, as (*sql.Rows).Scan does.
type scanFunc = func(...any) error

// reader reads from the database. Its methods may be called by several
// goroutines, except those of a snapshot.
type reader interface {
	// row runs a constant statement that returns at most one row.
	row(ctx context.Context, text string, args []any, dest ...any) error
	// each runs a statement and calls fn for each row until fn returns false or
	// an error. Statements marked constant are prepared and kept.
	each(ctx context.Context, constant bool, text string, args []any, fn func(scan scanFunc) (bool, error)) error
}

// session is one write transaction. Its statements are constant.
type session interface {
	// exec returns the number of rows that a statement changed.
	exec(text string, args ...any) (int64, error)
	row(text string, args []any, dest ...any) error
	each(text string, args []any, fn func(scan scanFunc) error) error
	// many runs one statement once for each list of arguments, in order, and
	// returns the numbers of changed rows. Over a network it takes one round trip.
	many(text string, rows [][]any) ([]int64, error)
	// execOver runs a statement once over all rows and returns the number of changed
	// rows. Without rows it does nothing.
	execOver(o *overRows, rows [][]any, args ...any) (int64, error)
	// eachOver runs a statement once over all rows, and calls fn for each row of its
	// result. Without rows it does nothing.
	eachOver(o *overRows, rows [][]any, args []any, fn func(scan scanFunc) error) error
	// script runs several statements without parameters.
	script(text string) error
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
	close() error
}

// counted is a reader that counts its queries.
type counted struct {
	reader
	n *atomic.Uint64
}

func (c counted) row(ctx context.Context, text string, args []any, dest ...any) error {
	c.n.Add(1)
	return c.reader.row(ctx, text, args, dest...)
}

func (c counted) each(ctx context.Context, constant bool, text string, args []any, fn func(scan scanFunc) (bool, error)) error {
	c.n.Add(1)
	return c.reader.each(ctx, constant, text, args, fn)
}
