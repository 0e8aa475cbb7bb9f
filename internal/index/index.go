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
	"iter"
	"log/slog"
	"net"
	"time"

	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/lists"
	"github.com/symdepot/symdepot/internal/index/misses"
	"github.com/symdepot/symdepot/internal/index/nodes"
	"github.com/symdepot/symdepot/internal/index/oldkeys"
	"github.com/symdepot/symdepot/internal/index/places"
	"github.com/symdepot/symdepot/internal/index/queue"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/index/removals"
	"github.com/symdepot/symdepot/internal/index/schema"
	"github.com/symdepot/symdepot/internal/index/stages"
	"github.com/symdepot/symdepot/internal/index/tokens"
	"github.com/symdepot/symdepot/internal/index/wishes"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
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
	steps        []engine.Migration
	replicaLimit time.Duration
}

// DB is an open index. Its methods may be called by several goroutines.
type DB struct {
	// Parts of the index with their own methods.
	Tokens tokens.Tokens
	Wanted misses.WantedKeys
	Cached contents.CachedFiles
	Misses misses.Misses
	// Wishes are the files that senders of crashes wait for.
	Wishes wishes.Wishes
	Scrub  places.Scrub
	Places places.Places
	// Damages are the contents whose stored bytes were found damaged or missing.
	Damages places.Damages
	// Jobs is the queue of jobs.
	Jobs   queue.Jobs
	Copies Copies
	Nodes  nodes.Nodes
	Stages Stages
	Waits  *engine.Waits
	// Retention and Trash are for the transactions that a policy removes.
	Retention removals.Retention
	Trash     removals.Trash
	// Sources finds source files.
	Sources Sources
	// Lists is for lists that people read in pages.
	Lists lists.Lists
	// Colds keeps the records of cold contents, and Dumps those of crash dumps.
	Colds contents.Colds
	Dumps contents.Dumps

	base *engine.Database
	keys oldkeys.Known

	contents contents.Contents
	placed   bool
	tempDir  string
}

// Open opens the index in a file or, if where is a URL that begins with
// postgres://, in a PostgreSQL database. It checks the format before it changes
// anything: one that this version is too old for is ErrNewer. What is not an index
// is ErrCorrupt. With ReadOnly a missing file is fs.ErrNotExist.
func Open(ctx context.Context, where string, opt Options) (*DB, error) {
	o := engine.Options{
		ReadOnly: opt.ReadOnly, MustExist: opt.MustExist, Dial: opt.Dial, Replicas: opt.Replicas, ReplicaLimit: opt.replicaLimit,
		Log: opt.Log, Now: opt.Now, BusyWait: cmp.Or(opt.BusyWait, 10*time.Minute), SQLite: migrations, Postgres: postgresMigrations,
	}
	if opt.steps != nil {
		o.SQLite, o.Postgres = opt.steps, opt.steps
	}
	base, err := engine.Open(ctx, where, o)
	if err != nil {
		return nil, err
	}
	return newDB(base, opt), nil
}

// newDB returns the index in a database.
func newDB(base *engine.Database, opt Options) *DB {
	all := contents.NewContents(base, opt.Placed, max(opt.Block, 1))
	db := &DB{
		base: base, contents: all, placed: opt.Placed, tempDir: opt.TempDir, Waits: base.Waits,
		Tokens: tokens.NewTokens(base), Jobs: queue.NewJobs(base), Copies: Copies{base},
		Nodes:  nodes.NewNodes(base, dutyLife),
		Wanted: misses.NewWantedKeys(base, cmp.Or(opt.MaxWanted, 1_000_000)),
		Misses: misses.NewMisses(base, cmp.Or(opt.MaxMisses, 2_000_000)), Wishes: wishes.New(base),
		Scrub: places.NewScrub(base), Places: places.NewPlaces(base), Damages: places.NewDamages(base),
		Cached: contents.NewCachedFiles(all), Colds: contents.NewColds(base, opt.Placed), Dumps: contents.NewDumps(all),
		Retention: removals.NewRetention(base), Trash: removals.NewTrash(base, all),
		Sources: Sources{base}, Lists: lists.NewLists(base, lists.UsualLimits),
	}
	db.Stages = Stages{stages.NewStageRows(base), db}
	return db
}

// Close closes the index. Running calls end with an error.
func (db *DB) Close() error { return db.base.Close() }

// Watch starts a watch. It must be closed after the index, never before.
func (db *DB) Watch() (*engine.Watch, error) { return db.base.Watch() }

// OnRewind has fn called whenever a Watch finds that the database has lost writes
// that it knew: by a failover, or by the restore of a backup. What is remembered
// by the state of a Watch or in a Filter needs no care.
func (db *DB) OnRewind(fn func()) { db.base.OnRewind(fn) }

// ClockOf returns the clock of an index: see Options.Now.
func ClockOf(db *DB) func() time.Time { return db.base.Now }

// Reads returns the number of queries of this process.
func (db *DB) Reads() uint64 { return db.base.Reads() }

// migrations are the steps of SQLite, postgresMigrations those of PostgreSQL.
var migrations, postgresMigrations = engine.ReadMigrations(schema.Files, "sqlite"), engine.ReadMigrations(schema.Files, "postgres")

// Stages is the part of the index for pushes that are not transactions yet.
type Stages struct {
	stages.StageRows
	db *DB
}

// Lookup returns the objects of all products that answer a lookup.
func (ss Stages) Lookup(ctx context.Context, l symfile.Lookup) ([]record.Hit, error) {
	return ss.db.Lookup(ctx, record.Scope{All: true}, l)
}

// SetNeeds is Retention.SetNeeds.
func (ss Stages) SetNeeds(ctx context.Context, number int64, needs []int64) error {
	return ss.db.Retention.SetNeeds(ctx, number, needs)
}

// Unfound is DB.Unfound.
func (ss Stages) Unfound(ctx context.Context, number int64, entries []record.Entry) ([]int, error) {
	return ss.db.Unfound(ctx, number, entries)
}

// MarkCold sets the records of those rows of a list whose contents are cold. of returns
// the content of a row, and where its record belongs.
func MarkCold[T any](ctx context.Context, db *DB, list []T, of func(*T) (blob.Ref, **record.Cold)) error {
	return contents.MarkCold(ctx, db.base, list, of)
}

// DropReplaced deletes the records of the contents that tools, whose names begin with
// prefix, derived of the files that r replaces for every caller, and returns their
// number. The next garbage collection frees their bytes.
func DropReplaced(ctx context.Context, db *DB, prefix string, r contents.Replacement) (n int64, err error) {
	return contents.DropReplaced(ctx, db.base, prefix, r)
}

// Unreferenced yields the contents that have had no references since before.
func (db *DB) Unreferenced(ctx context.Context, before time.Time) iter.Seq2[record.Unreferenced, error] {
	return db.contents.Unreferenced(ctx, before)
}

// Contents yields all contents whose bytes are stored as they are, referenced or not:
// not the cold ones, but their cold files. Contents that are added or deleted meanwhile
// may or may not be included.
func (db *DB) Contents(ctx context.Context) iter.Seq2[record.Content, error] {
	return db.contents.All(ctx)
}

// DropContents drops those of refs that have had no references since before; see
// Contents.Drop.
func (db *DB) DropContents(ctx context.Context, refs []blob.Ref, before time.Time, deleteBlob func(blob.Ref) error) (n int, err error) {
	return db.contents.Drop(ctx, refs, before, deleteBlob, func(blob.Ref) {})
}

// Locked runs fn while no other process can write to the index. known reports
// whether the index has a content. fn must not write to the index.
func (db *DB) Locked(ctx context.Context, fn func(known func(blob.Ref) (bool, error)) error) error {
	return db.contents.Locked(ctx, fn)
}

// HasContent reports whether the index has a content, referenced or not.
func (db *DB) HasContent(ctx context.Context, ref blob.Ref) (bool, error) {
	return db.contents.Has(ctx, ref)
}

// dutyLife is how long the holder of a duty may be silent before another process
// takes over.
const dutyLife = 30 * time.Second

// Commit adds a transaction and returns its number. It is durable and atomic:
// all objects become visible together, or the index stays unchanged. Cached
// files with different bytes under the same keys are evicted, because added
// files take precedence over downloaded ones.
//
// check, if not nil, is called with the distinct contents of the transaction
// before anything is written; see Contents.Commit.
func (db *DB) Commit(ctx context.Context, tx record.Tx, check func(ctx context.Context, refs []blob.Ref) error) (int64, error) {
	return db.contents.Commit(ctx, tx, db.Stages, check)
}

// PackKeys packs keys of objects that came before a time, from where the last call has stopped, for about so long.
// A pass through all keys begins when the last one ended a day ago. No answer changes.
func PackKeys(ctx context.Context, db *DB, before time.Time, long time.Duration) error {
	return oldkeys.PackFor(ctx, db.base, before, long)
}

// ShortenRows makes rows short that older programs wrote long, from where the last call has stopped, for about so long.
// When there are none left it does nothing. No answer changes.
func ShortenRows(ctx context.Context, db *DB, long time.Duration) error {
	return contents.ShortenFor(ctx, db.base, long)
}

// Derived returns what a tool made of a content. A zero Content means that the
// tool made nothing worth keeping; if the tool has not run, the error is
// fs.ErrNotExist.
func (db *DB) Derived(ctx context.Context, source blob.Ref, tool record.Tool) (record.Content, error) {
	return db.contents.Derived(ctx, source, tool)
}

// PutDerived records what a tool made of a content; see Contents.PutDerived.
func (db *DB) PutDerived(ctx context.Context, source blob.Ref, tool record.Tool, result *record.Content) error {
	return db.contents.PutDerived(ctx, source, tool, result, "")
}

// PutNoted is PutDerived with what the tool says of the result, as JSON.
func (db *DB) PutNoted(ctx context.Context, source blob.Ref, tool record.Tool, result *record.Content, note string) error {
	return db.contents.PutDerived(ctx, source, tool, result, note)
}

// ForgetDerived deletes the records of a content that tools have derived; see
// Contents.ForgetDerived.
func (db *DB) ForgetDerived(ctx context.Context, result blob.Ref) (n int64, err error) {
	return db.contents.ForgetDerived(ctx, result)
}

// Origins returns the transactions that were imported from a store and have not
// been removed: their numbers here by their numbers in the store.
func (db *DB) Origins(ctx context.Context, store string) (map[string]int64, error) {
	return db.contents.Origins(ctx, store)
}

// ImportedStores returns the first few stores from which transactions were imported that have
// not been removed, without bundles.
func (db *DB) ImportedStores(ctx context.Context) ([]string, error) { return db.contents.Stores(ctx) }
