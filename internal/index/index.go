// Package index maps keys to objects. A database, an SQLite file or one in PostgreSQL,
// holds the transactions, their objects, every key that finds an object, and the
// derivations of contents. It does not hold file contents, which are identified
// by their SHA-256.
//
// An object is visible in the products of the transactions that hold it and have
// not been removed. A commit makes all its objects visible together, and a
// removal hides them together. A content without references stays in the index,
// with the time of its last reference, until it is dropped.
//
// Downloaded files are visible in the same way until they are evicted, which
// drops their contents immediately. The index also stores misses of upstreams,
// counts of unanswered requests, jobs, failures and tokens.
//
// Several processes may use one database at the same time. Readers never wait
// for writers; writers wait for each other.
package index

import (
	"cmp"
	"context"
	"database/sql"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"
)

// Options of Open. The zero value opens for reading and writing and creates the
// database if it does not exist.
type Options struct {
	// ReadOnly opens an existing database read-only; every method that writes
	// then returns an error.
	ReadOnly bool
	// MustExist makes a missing index an fs.ErrNotExist instead of creating it.
	MustExist bool
	// Dial connects to the server of a database; nil means a plain connection.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Replicas are the URLs of standbys of the database that answer lookups.
	Replicas []string
	// Log receives changes of the state of a database server; nil means nothing.
	Log *slog.Logger
	// Now is the clock; nil means that of the database server, or of this machine
	// for a file.
	Now func() time.Time
	// BusyWait is how long a writer waits for other processes before it fails
	// with ErrBusy; zero means ten minutes. The context may end the wait
	// earlier.
	BusyWait time.Duration
	// MaxMisses and MaxWanted limit the remembered misses and the counted keys
	// of unanswered requests; the oldest ones are deleted first. Zero means two
	// million and one million.
	MaxMisses, MaxWanted int64
	// Placed means that contents are kept in a bucket: a new content needs an
	// upload, see Places.
	Placed bool
	// TempDir is the folder for temporary files; empty means the system's.
	TempDir string
	// Block is the unit in bytes in which space for contents is allocated; zero means
	// that a content takes as much as its length.
	Block int64

	// For tests; zero values mean those of this version.
	steps        []migration
	replicaLimit time.Duration
}

// DB is an open index. Its methods may be called by several goroutines.
type DB struct {
	// Parts of the index with their own methods.
	Tokens Tokens
	Wanted WantedKeys
	Cached CachedFiles
	Misses Misses
	Scrub  Scrub
	Places Places
	// Damages are the contents whose stored bytes were found damaged or missing.
	Damages Damages
	// Jobs is the queue of jobs.
	Jobs   Jobs
	Copies Copies
	Nodes  Nodes
	Stages Stages
	Waits  *Waits
	// Retention and Trash are for the transactions that a policy removes.
	Retention Retention
	Trash     Trash
	// Sources finds source files.
	Sources Sources
	// Catalog is for lists that people read in pages.
	Catalog Catalog
	// Colds keeps the records of cold contents.
	Colds Colds

	base *Database

	maxMisses, maxWanted int64
	placed               bool
	tempDir              string
	block                int64
	dutyLife             time.Duration // see Nodes
	limits               listLimits    // see Catalog
}

// Open opens the index in a file or, if where is a URL that begins with
// postgres://, in a PostgreSQL database. It checks the format before it changes
// anything: one that this version is too old for is ErrNewer. What is not an index
// is ErrCorrupt. With ReadOnly a missing file is fs.ErrNotExist.
func Open(ctx context.Context, where string, opt Options) (*DB, error) {
	o := dbOptions{
		ReadOnly: opt.ReadOnly, MustExist: opt.MustExist, Dial: opt.Dial, Replicas: opt.Replicas, ReplicaLimit: opt.replicaLimit,
		Log: opt.Log, Now: opt.Now, BusyWait: cmp.Or(opt.BusyWait, 10*time.Minute), SQLite: migrations, Postgres: postgresMigrations,
	}
	if opt.steps != nil {
		o.SQLite, o.Postgres = opt.steps, opt.steps
	}
	base, err := openDatabase(ctx, where, o)
	if err != nil {
		return nil, err
	}
	return newDB(base, opt), nil
}

// IsURL reports whether an address of an index names a database server, as
// opposed to a file.
func IsURL(where string) bool { return isPostgres(where) }

// newDB returns the index in a database.
func newDB(base *Database, opt Options) *DB {
	db := &DB{base: base, Waits: base.Waits, maxMisses: cmp.Or(opt.MaxMisses, 2_000_000), maxWanted: cmp.Or(opt.MaxWanted, 1_000_000),
		placed: opt.Placed, tempDir: opt.TempDir, block: max(opt.Block, 1), dutyLife: dutyLife, limits: usualLimits}
	db.Tokens, db.Wanted, db.Cached, db.Misses, db.Scrub, db.Places, db.Copies = Tokens{db}, WantedKeys{db}, CachedFiles{db},
		Misses{db}, Scrub{db}, Places{db}, Copies{db}
	db.Nodes, db.Stages, db.Retention, db.Trash, db.Catalog, db.Sources, db.Colds = Nodes{db}, Stages{db}, Retention{db}, Trash{db},
		Catalog{db}, Sources{db}, Colds{db}
	db.Damages, db.Jobs = Damages{db}, Jobs{db}
	return db
}

// Close closes the index. Running calls end with an error.
func (db *DB) Close() error { return db.base.Close() }

// Watch starts a watch. It must be closed after the index, never before.
func (db *DB) Watch() (*Watch, error) { return db.base.Watch() }

// OnRewind has fn called whenever a Watch finds that the database has lost writes
// that it knew: by a failover, or by the restore of a backup. What is remembered
// by the state of a Watch or in a Filter needs no care.
func (db *DB) OnRewind(fn func()) { db.base.OnRewind(fn) }

// ClockOf returns the clock of an index: see Options.Now.
func ClockOf(db *DB) func() time.Time { return db.base.Now }

// Reads returns the number of queries of this process.
func (db *DB) Reads() uint64 { return db.base.Reads() }

// Scope is the set of products that a caller may see. The zero Scope is empty.
type Scope struct {
	// All makes everything visible, regardless of Products.
	All bool
	// Products are the names of the visible products, compared exactly; ""
	// stands for transactions without a product.
	Products []string
}

// few reports whether the number of products is small enough to keep the
// prepared statements for it. Preparing one takes longer than running it.
func (s Scope) few() bool { return s.All || len(s.Products) <= 8 }

// where returns a condition on a product id column and the extended arguments.
// The condition is empty for the unlimited scope.
func (s Scope) where(column string, args []any) (string, []any) {
	switch {
	case s.All:
		return "", args
	case len(s.Products) == 0:
		return " AND 1 = 0", args
	}
	var b strings.Builder
	b.WriteString(" AND " + column + " IN (SELECT id FROM product WHERE name IN (")
	for i, p := range s.Products {
		if i > 0 {
			b.WriteByte(',')
		}
		args = append(args, p)
		b.WriteString("$" + strconv.Itoa(len(args)))
	}
	b.WriteString("))")
	return b.String(), args
}

// millis returns the stored form of a time; the zero time is null.
func millis(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMilli()
}

func fromMillis(v sql.NullInt64) time.Time {
	if !v.Valid {
		return time.Time{}
	}
	return time.UnixMilli(v.Int64).UTC()
}

// text makes external metadata valid for any database: valid UTF-8 without NUL.
func text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
}
