// Package index knows who has which key. It keeps, in one SQLite database,
// the transactions, the objects that they hold, every spelling under which an
// object is asked for, and what was derived from which content. It moves no
// bytes: contents are named by their SHA-256.
//
// An object can be seen as long as a transaction that was not removed holds
// it, through the products of those transactions. A commit makes all its
// objects visible at once, a removal hides them at once, and a content that
// nothing refers to any more stays known, with the time since when, until it
// is dropped.
//
// Files that were fetched from elsewhere are seen in the same way until they are
// evicted, which lets go of their contents at once. Beside these, the index
// remembers what other parts of the program must not forget: what other servers
// do not have, what clients asked for in vain, jobs, failures and tokens.
//
// Several processes may use one database at once. Readers never wait for
// writers; writers wait for each other.
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
	_ "modernc.org/sqlite" // the driver
)

// Options of Open. The zero value opens for reading and writing and makes the
// database if it is not there.
type Options struct {
	// ReadOnly opens an existing database for reading only; every method
	// that writes then returns an error.
	ReadOnly bool
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// BusyWait is how long a writer waits for other processes before it
	// gives up with ErrBusy; zero is ten minutes. The context may end the
	// wait earlier.
	BusyWait time.Duration
	// MaxMisses and MaxWanted bound how many misses, and how many keys that
	// clients asked for in vain, are remembered; the oldest give way. Zero is
	// two million and one million.
	MaxMisses, MaxWanted int64
}

// DB is an open index. Its methods may be called by many goroutines.
type DB struct {
	// The parts that are used by themselves.
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
	points *pool   // lookups by key: short, many
	scans  *pool   // searches and lists: must not take the lookups' connections
}

// Page caches in KiB. With five million keys, four times as much for lookups
// costs as much processor time: what is missed are leaves, and those are the
// operating system's to keep.
const (
	pointCaches = 16 << 10 // shared out among the connections
	scanConns   = 2
	scanCache   = 4 << 10
	writerCache = 16 << 10
)

// pointConns is how many lookups run at once. All connections of a process
// share one lock on their page caches, and whoever loses the processor while
// holding it stops the rest: more connections than processors are slower, most
// of all the slowest hundredth of the lookups. Further ones wait in line.
func pointConns() int { return min(max(2, runtime.GOMAXPROCS(0)), 4) }

// Open opens the index in the file path. The version of the format is checked
// before anything there is touched: a newer one is ErrNewer. A file that is no
// index is ErrCorrupt. With ReadOnly a missing file is fs.ErrNotExist.
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
		// Without its folder SQLite's message says little.
		if _, err := os.Stat(filepath.Dir(db.path)); err != nil {
			return db.fail("open", err)
		}
		if db.writer, err = openPool(db.path, "rwc", 1, writerCache, 500*time.Millisecond,
			"journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)", "journal_size_limit(67108864)"); err != nil {
			return db.fail("open", err)
		}
		// The first connection must be one that may write, or the log
		// would be left behind when the last one is closed.
		if err := db.whileBusy(ctx, func() error { return db.writer.PingContext(ctx) }); err != nil {
			return db.fail("open", err)
		}
		if err := db.migrate(ctx, version); err != nil {
			return err
		}
		if fresh {
			// SQLite makes its log's directory entry durable, not this one.
			if err := durable.SyncDir(filepath.Dir(db.path)); err != nil {
				return db.fail("open", err)
			}
		}
	} else if version < formatCurrent {
		return fmt.Errorf("index %s has format %d, this program reads %d: open it for writing once", db.path, version, formatCurrent)
	}
	if db.points, err = newPool(db.path, pointConns(), pointCaches/pointConns()); err != nil {
		return db.fail("open", err)
	}
	if db.scans, err = newPool(db.path, scanConns, scanCache); err != nil {
		return db.fail("open", err)
	}
	return db.verifyMigrations(ctx)
}

// isFresh reports whether there is nothing yet, or a file without a byte in
// it. It must not open the file: closing it again would take away the locks of
// other connections that this process may have to it.
func isFresh(path string) (bool, error) {
	fi, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case err != nil:
		return false, err
	case !fi.Mode().IsRegular():
		return false, errors.New("not a file")
	}
	return fi.Size() == 0, nil
}

// Close closes the index. Calls under way end with an error.
func (db *DB) Close() error {
	var errs []error
	for _, p := range []*pool{db.points, db.scans} {
		if p != nil {
			errs = append(errs, p.db.Close())
		}
	}
	// The writer goes last: the last connection to go folds the log into
	// the database file, which a reader may not do.
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

// pool is a set of reading connections with the statements prepared on them.
type pool struct {
	db *sql.DB

	mu    sync.RWMutex
	stmts map[string]*sql.Stmt // guarded by mu; by SQL text

	reads atomic.Uint64 // queries run
}

func newPool(path string, conns, cacheKiB int) (*pool, error) {
	db, err := openPool(path, "ro", conns, cacheKiB, time.Minute, "query_only(1)")
	if err != nil {
		return nil, err
	}
	return &pool{db: db, stmts: make(map[string]*sql.Stmt)}, nil
}

// prepared returns the statement for a text. Only constant texts may come
// here: statements are kept until the index is closed.
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

// Reads returns how many queries this process has run.
func (db *DB) Reads() uint64 { return db.points.reads.Load() + db.scans.reads.Load() }

// row runs a constant statement that yields at most one row. A missing row is
// sql.ErrNoRows.
func (p *pool) row(ctx context.Context, text string, args []any, dest ...any) error {
	p.reads.Add(1)
	s, err := p.prepared(ctx, text)
	if err != nil {
		return err
	}
	return s.QueryRowContext(ctx, args...).Scan(dest...)
}

// each runs a statement and calls fn for each row until fn returns false or an
// error. constant statements are prepared and kept.
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

// Scope says through which products the index is looked at. The zero Scope
// sees nothing.
type Scope struct {
	// All sees everything, whatever Products says.
	All bool
	// Products are the names through which objects are seen, compared
	// exactly; "" stands for transactions without a product.
	Products []string
}

// few reports whether there are so few products that it is worth keeping the
// statements for their number: making one takes longer than running it.
func (s Scope) few() bool { return s.All || len(s.Products) <= 8 }

// where returns a condition on a product id column, with the arguments it
// adds. It is empty for the scope that sees everything.
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

// millis is how times are stored; the zero time is null.
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

// text makes metadata from outside fit for any database: valid UTF-8 without
// NUL.
func text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
}
