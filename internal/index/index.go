// Package index maps keys to objects. One SQLite database holds the
// transactions, their objects, every key that finds an object, and the
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
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/symdepot/symdepot/internal/durable"
	_ "modernc.org/sqlite" // SQLite driver
)

// Options of Open. The zero value opens for reading and writing and creates the
// database if it does not exist.
type Options struct {
	// ReadOnly opens an existing database read-only; every method that writes
	// then returns an error.
	ReadOnly bool
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// BusyWait is how long a writer waits for other processes before it fails
	// with ErrBusy; zero means ten minutes. The context may end the wait
	// earlier.
	BusyWait time.Duration
	// MaxMisses and MaxWanted limit the remembered misses and the counted keys
	// of unanswered requests; the oldest ones are deleted first. Zero means two
	// million and one million.
	MaxMisses, MaxWanted int64
}

// DB is an open index. Its methods may be called by several goroutines.
type DB struct {
	// Parts of the index with their own methods.
	Tokens Tokens
	Wanted WantedKeys
	Cached CachedFiles
	Misses Misses
	Scrub  Scrub

	path string
	now  func() time.Time
	wait time.Duration

	maxMisses, maxWanted int64

	writer *sql.DB // one connection; nil when read-only
	points *pool   // for lookups by key: short and frequent
	scans  *pool   // for searches and lists, which must not use the lookups' connections
}

// Page caches in KiB. Measured with five million keys: four times as much for
// lookups does not reduce processor time, because the missed pages are leaves,
// which the operating system caches.
const (
	pointCaches = 16 << 10 // divided among the connections
	scanConns   = 2
	scanCache   = 4 << 10
	writerCache = 16 << 10
)

// pointConns is the number of concurrent lookups. All connections of a process
// share one lock on their page caches. A thread that is descheduled while it
// holds the lock stops the others, so more connections than processors are
// slower, especially the slowest percent of lookups. Further lookups wait.
func pointConns() int { return min(max(2, runtime.GOMAXPROCS(0)), 4) }

// Open opens the index in the file path. It checks the format version before it
// changes anything: a newer one is ErrNewer. A file that is not an index is
// ErrCorrupt. With ReadOnly a missing file is fs.ErrNotExist.
func Open(ctx context.Context, path string, opt Options) (*DB, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("index %s: %w", path, err)
	}
	db := &DB{path: abs, now: opt.Now, wait: opt.BusyWait,
		maxMisses: cmp.Or(opt.MaxMisses, 2_000_000), maxWanted: cmp.Or(opt.MaxWanted, 1_000_000)}
	db.Tokens, db.Wanted, db.Cached, db.Misses, db.Scrub = Tokens{db}, WantedKeys{db}, CachedFiles{db}, Misses{db}, Scrub{db}
	if db.now == nil {
		db.now = time.Now
	}
	if db.wait == 0 {
		db.wait = 10 * time.Minute
	}
	if err := db.open(ctx, opt.ReadOnly); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

func (db *DB) open(ctx context.Context, readOnly bool) error {
	fresh, err := isFresh(db.path)
	if err != nil {
		return db.fail("open", err)
	}
	if fresh && readOnly {
		return fmt.Errorf("index %s: %w", db.path, fs.ErrNotExist)
	}
	version := 0
	if !fresh {
		if version, err = db.formatVersion(ctx); err != nil {
			return err
		}
	}
	if !readOnly {
		// SQLite's own error for a missing folder is unclear.
		if _, err := os.Stat(filepath.Dir(db.path)); err != nil {
			return db.fail("open", err)
		}
		if db.writer, err = openPool(db.path, "rwc", 1, writerCache, 500*time.Millisecond,
			"journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)", "journal_size_limit(67108864)"); err != nil {
			return db.fail("open", err)
		}
		// The first connection must be a writing one; otherwise the write-ahead
		// log would remain when the last connection is closed.
		if err := db.whileBusy(ctx, func() error { return db.writer.PingContext(ctx) }); err != nil {
			return db.fail("open", err)
		}
		if err := db.migrate(ctx, version); err != nil {
			return err
		}
		if fresh {
			// SQLite makes the directory entry of its log durable, but not that
			// of the database.
			if err := durable.SyncDir(filepath.Dir(db.path)); err != nil {
				return db.fail("open", err)
			}
		}
	} else if version < formatCurrent {
		return fmt.Errorf("index %s has format %d, and this program reads format %d: open it once for writing to upgrade it", db.path, version, formatCurrent)
	}
	if db.points, err = newPool(db.path, pointConns(), pointCaches/pointConns()); err != nil {
		return db.fail("open", err)
	}
	if db.scans, err = newPool(db.path, scanConns, scanCache); err != nil {
		return db.fail("open", err)
	}
	return db.verifyMigrations(ctx)
}

// isFresh reports whether the file is missing or empty. It must not open the
// file: closing it would release the POSIX locks of this process's other
// connections to it.
func isFresh(path string) (bool, error) {
	fi, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case err != nil:
		return false, err
	case !fi.Mode().IsRegular():
		return false, errors.New("not a regular file")
	}
	return fi.Size() == 0, nil
}

// Close closes the index. Running calls end with an error.
func (db *DB) Close() error {
	var errs []error
	for _, p := range []*pool{db.points, db.scans} {
		if p != nil {
			errs = append(errs, p.db.Close())
		}
	}
	// The writer is closed last: the last connection checkpoints the log into
	// the database, which a reader cannot do.
	if db.writer != nil {
		errs = append(errs, db.writer.Close())
	}
	return errors.Join(errs...)
}

// openPool opens up to conns connections. busy is how long SQLite itself waits
// for a lock.
func openPool(path, mode string, conns, cacheKiB int, busy time.Duration, pragmas ...string) (*sql.DB, error) {
	q := url.Values{"mode": {mode}, "_txlock": {"immediate"}, "_dqs": {"0"}, "_defensive": {"1"}, "_error_rc": {"1"}}
	q.Add("_pragma", "busy_timeout("+strconv.FormatInt(busy.Milliseconds(), 10)+")")
	q.Add("_pragma", "cache_size(-"+strconv.Itoa(cacheKiB)+")")
	q.Add("_pragma", "trusted_schema(0)")
	for _, p := range pragmas {
		q.Add("_pragma", p)
	}
	p := filepath.ToSlash(path)
	if !strings.HasPrefix(p, "/") {
		p = "/" + p // C:/dir
	}
	u := url.URL{Scheme: "file", Path: p, RawQuery: q.Encode()}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db, nil
}

// pool is a set of reading connections with their prepared statements.
type pool struct {
	db *sql.DB

	mu    sync.RWMutex
	stmts map[string]*sql.Stmt // by SQL text; guarded by mu

	reads atomic.Uint64 // number of queries
}

func newPool(path string, conns, cacheKiB int) (*pool, error) {
	db, err := openPool(path, "ro", conns, cacheKiB, time.Minute, "query_only(1)")
	if err != nil {
		return nil, err
	}
	return &pool{db: db, stmts: make(map[string]*sql.Stmt)}, nil
}

// prepared returns the prepared statement for a text. Texts must be constant,
// because statements are kept until the index is closed.
func (p *pool) prepared(ctx context.Context, text string) (*sql.Stmt, error) {
	p.mu.RLock()
	s := p.stmts[text]
	p.mu.RUnlock()
	if s != nil {
		return s, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.stmts[text]; s != nil {
		return s, nil
	}
	s, err := p.db.PrepareContext(ctx, text)
	if err == nil {
		p.stmts[text] = s
	}
	return s, err
}

// Reads returns the number of queries of this process.
func (db *DB) Reads() uint64 { return db.points.reads.Load() + db.scans.reads.Load() }

// row runs a constant statement that returns at most one row. If there is none,
// the error is sql.ErrNoRows.
func (p *pool) row(ctx context.Context, text string, args []any, dest ...any) error {
	p.reads.Add(1)
	s, err := p.prepared(ctx, text)
	if err != nil {
		return err
	}
	return s.QueryRowContext(ctx, args...).Scan(dest...)
}

// each runs a statement and calls fn for each row until fn returns false or an
// error. Statements marked constant are prepared and kept.
func (p *pool) each(ctx context.Context, constant bool, text string, args []any, fn func(scan func(...any) error) (bool, error)) error {
	p.reads.Add(1)
	var rows *sql.Rows
	var err error
	if constant {
		var s *sql.Stmt
		if s, err = p.prepared(ctx, text); err == nil {
			rows, err = s.QueryContext(ctx, args...)
		}
	} else {
		rows, err = p.db.QueryContext(ctx, text, args...)
	}
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if more, err := fn(rows.Scan); err != nil || !more {
			return err
		}
	}
	return rows.Err()
}

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
