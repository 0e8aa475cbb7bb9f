package engine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync/atomic"
	"time"
)

// Options of openDatabase.
type Options struct {
	// ReadOnly opens an existing database for reading only; writes are then ErrReadOnly.
	ReadOnly bool
	// MustExist makes a missing database an fs.ErrNotExist instead of creating it.
	MustExist bool
	// Dial connects to a database server; nil means a plain connection.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Replicas are the URLs of standbys of the database that answer lookups.
	Replicas []string
	// ReplicaLimit is how long a lookup may take on a replica; zero means a second.
	ReplicaLimit time.Duration
	// Log receives changes of the state of a database server; nil means nothing.
	Log *slog.Logger
	// Now is the clock; nil means that of the database server, or of this machine for a
	// file.
	Now func() time.Time
	// BusyWait is how long a writer waits for other processes before it fails with
	// ErrBusy. The context may end the wait earlier.
	BusyWait time.Duration
	// SQLite and Postgres are the steps from an empty database of each kind to the current
	// format.
	SQLite, Postgres []Migration
}

// Database is an open database. Its methods may be called by several goroutines.
type Database struct {
	// Points reads by key: lookups that are short and frequent. Scans is for searches and
	// lists, which must not use the connections of lookups.
	Points, Scans Reader
	// Waits counts the waits of writers.
	Waits *Waits

	engine engine
	now    func() time.Time
	reads  atomic.Uint64
}

// Open opens the database in a file or, if where is a URL that begins with
// postgres://, in PostgreSQL, and brings it to the current format. It checks the format
// before it changes anything: one that the steps do not reach is ErrNewer. What has not
// gone through the steps is ErrCorrupt. With ReadOnly a missing file is fs.ErrNotExist.
func Open(ctx context.Context, where string, opt Options) (*Database, error) {
	given := opt.Now
	if given == nil {
		opt.Now = time.Now
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	e, err := openEngine(ctx, where, opt)
	db := databaseOf(e, opt.Now)
	if given == nil {
		db.now = e.time
	}
	if err == nil {
		err = verifyMigrations(ctx, e.steps(), db.Scans)
	}
	if err != nil {
		return nil, errors.Join(db.Fail("open", err), e.Close())
	}
	return db, nil
}

// openEngine returns an engine that must be closed also if there is an error.
func openEngine(ctx context.Context, where string, opt Options) (engine, error) {
	if IsURL(where) {
		return openPostgres(ctx, where, opt)
	}
	abs, err := filepath.Abs(where)
	if err != nil {
		return &sqliteFile{path: where}, err
	}
	return openSQLite(ctx, abs, opt)
}

func databaseOf(e engine, now func() time.Time) *Database {
	db := &Database{engine: e, now: now, Waits: &Waits{}}
	db.Points, db.Scans = counted{e.points(), &db.reads}, counted{e.scans(), &db.reads}
	return db
}

// Close closes the database. Running calls end with an error.
func (db *Database) Close() error { return db.engine.Close() }

// Now is the clock that all processes with this database share.
func (db *Database) Now() time.Time { return db.now() }

// Reads returns the number of queries of this process.
func (db *Database) Reads() uint64 { return db.reads.Load() }

// Format returns the number of the last step that this program knows.
func (db *Database) Format() int { return len(db.engine.steps()) }

// Fingerprint returns text that a copy of the database does not share.
func (db *Database) Fingerprint(ctx context.Context) (string, error) {
	return db.engine.fingerprint(ctx)
}

// Snapshot runs fn with a reader that sees one state of the database throughout, without
// blocking writers.
func (db *Database) Snapshot(ctx context.Context, fn func(Reader) error) error {
	return db.engine.snapshot(ctx, fn)
}

// Integrity returns what the database's own check of its files finds. r is a reader of a
// Snapshot.
func (db *Database) Integrity(ctx context.Context, r Reader) ([]string, error) {
	return db.engine.integrity(ctx, r)
}

// Classify returns the error of this package that describes an error of the driver, or nil.
func (db *Database) Classify(err error) error { return db.engine.classify(err) }

// Lookup calls fn with a reader of a replica that is not older than what this process
// knows, or with Points. fn may be called twice, so it sets its results anew.
func (db *Database) Lookup(ctx context.Context, fn func(Reader) error) error {
	if e, ok := db.engine.(replicated); ok && e.onReplica(ctx, fn) {
		db.reads.Add(1)
		return nil
	}
	return fn(db.Points)
}

// Refusal is an error that is no fault of the database: Fail returns it as it is.
type Refusal interface {
	error
	Refusal()
}

// Fail wraps an error with the database, the operation and its class. nil stays nil.
func (db *Database) Fail(op string, err error) error { return fail(db.engine, op, err) }

func fail(e engine, op string, err error) error {
	if err == nil {
		return nil
	}
	if r, ok := errors.AsType[Refusal](err); ok {
		return r
	}
	if c := e.classify(err); errors.Is(c, context.Canceled) {
		err = context.Canceled
	} else if c != nil && !errors.Is(err, c) {
		return fmt.Errorf("index %s: %s: %w: %w", e.name(), op, c, err)
	}
	return fmt.Errorf("index %s: %s: %w", e.name(), op, err)
}

// stateText reads what identifies a state of the index. A file is not replaced
// while it is open, so the generation does; a database may be.
var stateText = Dialects("SELECT generation FROM state WHERE one = 1", "SELECT salt FROM state WHERE one = 1")

// Generation returns a number that changes with every write that others must notice. It
// never repeats, even after the database was restored from a backup.
func (db *Database) Generation(ctx context.Context) (uint64, error) {
	var g int64
	err := db.Points.Row(ctx, stateText, nil, &g)
	return uint64(g), db.Fail("read the generation", err)
}

// Shared reports whether processes of several machines can use the database.
func (db *Database) Shared() bool {
	_, ok := db.engine.(*postgres)
	return ok
}

// Given returns the text that was given for one that the database returns: PostgreSQL has another form of texts with
// certain bytes. Who stores what was read gives that text again.
func (db *Database) Given(text string) string {
	if db.Shared() {
		return given(text)
	}
	return text
}

// Pool returns the state of the connections. ok is false for a file.
func (db *Database) Pool() (p Pool, ok bool) {
	e, ok := db.engine.(*postgres)
	if !ok || e.pool == nil {
		return p, false
	}
	s := e.pool.Stat()
	return Pool{
		InUse: int64(s.AcquiredConns()), Idle: int64(s.IdleConns()), Most: int64(s.MaxConns()),
		Waits: s.EmptyAcquireCount(), WaitTime: s.EmptyAcquireWaitTime(),
	}, true
}

// Replicas counts what replicas of the database did for this process; zero if there are
// none.
func (db *Database) Replicas() ReplicaStatus {
	if e, ok := db.engine.(replicated); ok {
		return e.replicaStatus()
	}
	return ReplicaStatus{}
}

// SweepNodes deletes the rows of processes that ended, and old rows that processes share.
func (db *Database) SweepNodes(ctx context.Context) error {
	if e, ok := db.engine.(*postgres); ok {
		return e.sweepNodes(ctx)
	}
	return nil
}

// OnRewind has fn called whenever a Watch finds that the database has lost writes that it
// knew: by a failover, or by the restore of a backup.
func (db *Database) OnRewind(fn func()) {
	if e, ok := db.engine.(*postgres); ok {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.rewound = fn
	}
}

// Copy writes the database as it is at one moment to a new file, while readers and writers
// go on. Only a file can be copied so; otherwise the error is errors.ErrUnsupported.
// progress, if not nil, is called with the copied bytes and all bytes.
func (db *Database) Copy(ctx context.Context, to string, progress func(done, all int64)) error {
	e, ok := db.engine.(*sqliteFile)
	if !ok {
		return db.Fail("copy", errors.ErrUnsupported)
	}
	return db.Fail("copy to "+to, snapshotFile(ctx, e.path, to, e.steps(), progress))
}

// Column returns up to limit values of one column as text.
func Column(ctx context.Context, r Reader, query string, limit int) ([]string, error) {
	var list []string
	err := r.Each(ctx, false, query, nil, func(scan Scan) (bool, error) {
		var v sql.NullString
		err := scan(&v)
		list = append(list, v.String)
		return len(list) < limit, err
	})
	return list, err
}
