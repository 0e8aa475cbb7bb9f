package engine

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/symdepot/symdepot/internal/base/durable"
)

// sqliteFile is the engine of one machine: an SQLite database in a file.
type sqliteFile struct {
	path       string
	wait       time.Duration // how long a writer waits for others
	migrations []Migration

	writer *sql.DB // one connection; nil when read-only
	// queue holds one element while a goroutine of this process writes. The pool of
	// the connection wakes its waiters at random, so that one may wait very long;
	// a channel wakes them in their order.
	queue chan struct{}
	// stmts are prepared statements of the writing connection, by SQL text, and
	// wanted are those that the next writer prepares. The holder of queue uses them.
	stmts  map[string]*sql.Stmt
	wanted map[string]bool
	point  *Readers
	scan   *Readers
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

// openSQLite opens the database in a file and brings it to the current format.
// It returns the engine also with an error, so that it can be closed.
func openSQLite(ctx context.Context, path string, opt Options) (*sqliteFile, error) {
	e := &sqliteFile{path: path, wait: opt.BusyWait, migrations: opt.SQLite}
	fresh, err := IsFresh(path)
	if err != nil {
		return e, err
	}
	if fresh && (opt.ReadOnly || opt.MustExist) {
		return e, fs.ErrNotExist
	}
	version := 0
	if !fresh {
		if version, err = e.fileFormat(ctx); err != nil {
			return e, err
		}
	}
	if opt.ReadOnly {
		if version < needed(e.steps()) {
			return e, errOlder(version, len(e.steps()))
		}
	} else if err := e.openWriter(ctx, version, fresh, opt.Now); err != nil {
		return e, err
	}
	if e.point, err = OpenReaders(path, pointConns(), pointCaches/pointConns(), true); err != nil {
		return e, err
	}
	e.scan, err = OpenReaders(path, scanConns, scanCache, false)
	return e, err
}

// openWriter opens the writing connection and applies the missing migrations.
func (e *sqliteFile) openWriter(ctx context.Context, version int, fresh bool, now func() time.Time) (err error) {
	// SQLite's own error for a missing folder is unclear.
	if _, err := os.Stat(filepath.Dir(e.path)); err != nil {
		return err
	}
	e.queue = make(chan struct{}, 1)
	if e.writer, err = OpenConnections(e.path, "rwc", 1, writerCache, 500*time.Millisecond,
		"journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)", "journal_size_limit(67108864)"); err != nil {
		return err
	}
	// The first connection must be a writing one; otherwise the write-ahead log
	// would remain when the last connection is closed.
	if err := e.whileBusy(ctx, func() error { return e.writer.PingContext(ctx) }); err != nil {
		return err
	}
	if _, err := migrate(ctx, e, version, now); err != nil {
		return err
	}
	if !fresh {
		return nil
	}
	// SQLite makes the directory entry of its log durable, but not that of the
	// database.
	return durable.SyncDir(filepath.Dir(e.path))
}

// IsFresh reports whether the file is missing or empty. It must not open the
// file: closing it would release the POSIX locks of this process's other
// connections to it.
func IsFresh(path string) (bool, error) {
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

// applicationID is stored in the header of the database file: "symd".
const applicationID = 0x73796d64

// fileFormat returns the format of an existing database, or an error if this
// program cannot use it. It opens the file read-only.
func (e *sqliteFile) fileFormat(ctx context.Context) (int, error) {
	ro, err := OpenConnections(e.path, "ro", 1, 64, time.Minute)
	if err != nil {
		return 0, err
	}
	defer func() { _ = ro.Close() }()
	return fileFormat(ctx, ro, e.steps())
}

// rowQuerier is a connection or a set of them.
type rowQuerier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// fileFormat returns the format of an existing database, 0 for an empty one, or
// an error if this program cannot use it.
func fileFormat(ctx context.Context, q rowQuerier, steps []Migration) (int, error) {
	var version, app, tables int
	// One statement, so that all three values are consistent.
	const text = `SELECT (SELECT user_version FROM pragma_user_version), (SELECT application_id FROM pragma_application_id),
	                     (SELECT count(*) FROM sqlite_schema)`
	if err := q.QueryRowContext(ctx, text).Scan(&version, &app, &tables); err != nil {
		return 0, err
	}
	if app == 0 && version == 0 && tables == 0 {
		return 0, nil // its creation was interrupted
	}
	if app != applicationID {
		return 0, fmt.Errorf("%w (application id %#x); use a different folder as depot, or move the file away", ErrForeign, app)
	}
	var old bool
	if err := q.QueryRowContext(ctx, unreleased).Scan(&old); err != nil {
		return 0, err
	}
	if old {
		return 0, ErrUnreleased
	}
	if version <= len(steps) {
		return version, nil
	}
	var floor, recorded int
	err := q.QueryRowContext(ctx, "SELECT format_floor, (SELECT count(*) FROM migration) FROM state WHERE one = 1").Scan(&floor, &recorded)
	if err == nil && recorded != version {
		err = fmt.Errorf("%w: it has format %d, and %d migrations are recorded", ErrCorrupt, version, recorded)
	}
	if err != nil {
		return 0, err
	}
	return version, checkFormat(steps, version, floor)
}

func (e *sqliteFile) format(s session) (version int, err error) {
	err = s.Row("PRAGMA user_version", nil, &version)
	return version, err
}

func (e *sqliteFile) setFormat(s session, m Migration) error {
	if _, err := s.Exec(fmt.Sprintf("PRAGMA application_id = %d", applicationID)); err != nil {
		return err
	}
	if _, err := s.Exec(fmt.Sprintf("PRAGMA user_version = %d", m.Number)); err != nil {
		return err
	}
	_, err := s.Exec(setFloor, m.Floor)
	return err
}

// oldestNode knows of no other processes.
func (e *sqliteFile) oldestNode(session) (int, error) { return math.MaxInt, nil }

func (e *sqliteFile) name() string   { return e.path }
func (e *sqliteFile) points() Reader { return e.point }
func (e *sqliteFile) scans() Reader  { return e.scan }

func (e *sqliteFile) time() time.Time { return time.Now() }

func (e *sqliteFile) steps() []Migration { return e.migrations }

// fingerprint is the number of the file in its file system.
func (e *sqliteFile) fingerprint(context.Context) (string, error) {
	id, err := durable.FileID(e.path)
	return "file " + strconv.FormatUint(id, 10), err
}

func (e *sqliteFile) Close() error {
	var errs []error
	for _, p := range []*Readers{e.point, e.scan} {
		if p != nil {
			errs = append(errs, p.Close())
		}
	}
	// The writer is closed last: the last connection checkpoints the log into
	// the database, which a reader cannot do.
	if e.writer != nil {
		errs = append(errs, e.writer.Close())
	}
	return errors.Join(errs...)
}

// OpenConnections opens up to conns connections. busy is how long SQLite itself waits
// for a lock.
func OpenConnections(path, mode string, conns, cacheKiB int, busy time.Duration, pragmas ...string) (*sql.DB, error) {
	pragmas = append([]string{"cache_size(-" + strconv.Itoa(cacheKiB) + ")", "trusted_schema(0)"}, pragmas...)
	db, err := sql.Open("sqlite", sqliteURI(path, mode, busy, pragmas...))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db, nil
}

// sqliteURI returns the address of a database file for the driver, which runs the
// pragmas in their order on each new connection.
func sqliteURI(path, mode string, busy time.Duration, pragmas ...string) string {
	q := url.Values{"mode": {mode}, "_txlock": {"immediate"}, "_dqs": {"0"}, "_defensive": {"1"}, "_error_rc": {"1"}}
	q.Add("_pragma", "busy_timeout("+strconv.FormatInt(busy.Milliseconds(), 10)+")")
	for _, p := range pragmas {
		q.Add("_pragma", p)
	}
	p := filepath.ToSlash(path)
	if !strings.HasPrefix(p, "/") {
		p = "/" + p // C:/dir
	}
	u := url.URL{Scheme: "file", Path: p, RawQuery: q.Encode()}
	return u.String()
}

// Readers is a set of reading connections with their prepared statements.
type Readers struct {
	db *sql.DB
	// short means that no query takes long: one that has begun is not interrupted.
	// The driver and database/sql would each start a goroutine per query to wait for
	// the end of its context, which takes as long as the query.
	short bool

	mu    sync.RWMutex
	stmts map[string]*sql.Stmt // by SQL text; guarded by mu
}

// OpenReaders opens a database for reading through up to conns connections, each with a page cache of cacheKiB.
// See Readers for short.
func OpenReaders(path string, conns, cacheKiB int, short bool) (*Readers, error) {
	db, err := OpenConnections(path, "ro", conns, cacheKiB, time.Minute, "query_only(1)")
	if err != nil {
		return nil, err
	}
	return &Readers{db: db, short: short, stmts: make(map[string]*sql.Stmt)}, nil
}

// Close closes the connections.
func (p *Readers) Close() error { return p.db.Close() }

// prepared returns the prepared statement for a text. Texts must be constant,
// because statements are kept until the index is closed.
func (p *Readers) prepared(ctx context.Context, text string) (*sql.Stmt, error) {
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

// context returns the context of a query, or the error if it has ended.
func (p *Readers) context(ctx context.Context) (context.Context, error) {
	if err := ctx.Err(); err != nil || !p.short {
		return ctx, err
	}
	return context.WithoutCancel(ctx), nil
}

// Row reads the row of a query, or returns sql.ErrNoRows.
func (p *Readers) Row(ctx context.Context, text string, args []any, dest ...any) error {
	ctx, err := p.context(ctx)
	if err != nil {
		return err
	}
	s, err := p.prepared(ctx, text)
	if err != nil {
		return err
	}
	return s.QueryRowContext(ctx, args...).Scan(dest...)
}

// Each calls fn with each row of a query until it returns false. constant means that the text is one of few, so that
// the statement is kept.
func (p *Readers) Each(ctx context.Context, constant bool, text string, args []any, fn func(scan Scan) (bool, error)) error {
	ctx, err := p.context(ctx)
	if err != nil {
		return err
	}
	if !constant {
		return eachRow(ctx, p.db, text, args, fn)
	}
	s, err := p.prepared(ctx, text)
	if err != nil {
		return err
	}
	rows, err := s.QueryContext(ctx, args...)
	if err != nil {
		return err
	}
	return drain(rows, fn)
}

// querier is a connection or a set of them.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func eachRow(ctx context.Context, q querier, text string, args []any, fn func(scan Scan) (bool, error)) error {
	rows, err := q.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	return drain(rows, fn)
}

// drain calls fn for each row until fn returns false or an error, and closes
// the rows.
func drain(rows *sql.Rows, fn func(scan Scan) (bool, error)) error {
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if more, err := fn(rows.Scan); err != nil || !more {
			return err
		}
	}
	return rows.Err()
}

// connReader reads from one connection, on which a read transaction is open.
type connReader struct{ conn *sql.Conn }

func (c connReader) Row(ctx context.Context, text string, args []any, dest ...any) error {
	return c.conn.QueryRowContext(ctx, text, args...).Scan(dest...)
}

func (c connReader) Each(ctx context.Context, _ bool, text string, args []any, fn func(scan Scan) (bool, error)) error {
	return eachRow(ctx, c.conn, text, args, fn)
}

func (e *sqliteFile) snapshot(ctx context.Context, fn func(Reader) error) error {
	conn, err := e.scan.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	// Transactions of the pool would take the write lock.
	if _, err := conn.ExecContext(ctx, "BEGIN DEFERRED"); err != nil {
		return err
	}
	defer func() { _, _ = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK") }()
	return fn(connReader{conn})
}

// integrity runs SQLite's integrity check and its check of foreign keys.
func (e *sqliteFile) integrity(ctx context.Context, r Reader) (problems []string, err error) {
	file, err := Column(ctx, r, "PRAGMA integrity_check(100)", 100)
	if err != nil {
		return nil, err
	}
	if len(file) != 1 || file[0] != "ok" {
		for _, p := range file {
			problems = append(problems, e.path+": "+strings.TrimSpace(p))
		}
	}
	tables, err := Column(ctx, r, `SELECT "table" FROM pragma_foreign_key_check`, 20)
	for _, t := range tables {
		problems = append(problems, "a row of "+t+" refers to a missing row")
	}
	return problems, err
}

// sqliteTx is a write transaction. It holds the write lock of the database.
type sqliteTx struct {
	ctx     context.Context // never cancelled: see Database.Update
	engine  *sqliteFile
	conn    *sql.Conn
	durable bool
	renames bool // tables get other names; see Database.UpdateNames
	tx      *sql.Tx
	stmts   map[string]*sql.Stmt // by SQL text; they end with the transaction
}

// begin takes the write lock.
func (e *sqliteFile) begin(ctx context.Context, durable bool) (transaction, error) {
	return e.beginAs(ctx, &sqliteTx{durable: durable})
}

// beginAs begins a transaction with some settings; the driver does it with BEGIN IMMEDIATE.
func (e *sqliteFile) beginAs(ctx context.Context, t *sqliteTx) (transaction, error) {
	if e.writer == nil {
		return nil, ErrReadOnly
	}
	select {
	case e.queue <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	t.ctx, t.engine, t.stmts = context.WithoutCancel(ctx), e, make(map[string]*sql.Stmt)
	e.prepare(t.ctx)
	err := e.whileBusy(ctx, func() (err error) {
		if t.conn, err = e.writer.Conn(ctx); err != nil {
			return err
		}
		for _, p := range t.pragmas() {
			if _, err = t.conn.ExecContext(t.ctx, p.begin); err != nil {
				t.release()
				return err
			}
		}
		if t.tx, err = t.conn.BeginTx(t.ctx, nil); err != nil {
			t.release()
		}
		return err
	})
	if err != nil {
		<-e.queue
		return nil, err
	}
	return t, nil
}

// prepare prepares the statements that the last transaction has asked for, and keeps
// them: compiling takes longer than most of them run. One that cannot be prepared now
// is prepared by the transaction that needs it. The caller holds e.queue, and nobody
// the connection.
func (e *sqliteFile) prepare(ctx context.Context) {
	for text := range e.wanted {
		if s, err := e.writer.PrepareContext(ctx, text); err == nil {
			if e.stmts == nil {
				e.stmts = make(map[string]*sql.Stmt)
			}
			e.stmts[text] = s
		}
	}
	clear(e.wanted)
}

// end returns the writing connection, and lets the next writer begin.
func (t *sqliteTx) end() {
	t.release()
	<-t.engine.queue
}

// release returns the writing connection to its pool with its original
// settings. If these cannot be restored, it closes the connection.
func (t *sqliteTx) release() {
	for _, p := range t.pragmas() {
		if _, err := t.conn.ExecContext(t.ctx, p.end); err != nil {
			_ = t.conn.Raw(func(any) error { return driver.ErrBadConn })
		}
	}
	_ = t.conn.Close()
}

// pragma is a setting of the writing connection for one transaction, and its usual value.
type pragma struct{ begin, end string }

func (t *sqliteTx) pragmas() (list []pragma) {
	if !t.durable {
		list = append(list, pragma{"PRAGMA synchronous = NORMAL", "PRAGMA synchronous = FULL"})
	}
	if t.renames {
		// With these two, ALTER TABLE RENAME leaves the foreign keys of other tables as they are written.
		list = append(list, pragma{"PRAGMA foreign_keys = OFF", "PRAGMA foreign_keys = ON"},
			pragma{"PRAGMA legacy_alter_table = ON", "PRAGMA legacy_alter_table = OFF"})
	}
	return list
}

func (t *sqliteTx) commit() error {
	defer t.end()
	return t.tx.Commit()
}

func (t *sqliteTx) rollback() {
	// On a full disk SQLite has ended the transaction itself, and the error of
	// Rollback means nothing.
	_ = t.tx.Rollback()
	t.end()
}

func (t *sqliteTx) stmt(text string) (*sql.Stmt, error) {
	if s := t.stmts[text]; s != nil {
		return s, nil
	}
	if kept := t.engine.stmts[text]; kept != nil {
		s := t.tx.StmtContext(t.ctx, kept)
		t.stmts[text] = s
		return s, nil
	}
	s, err := t.tx.PrepareContext(t.ctx, text)
	if err == nil {
		t.stmts[text] = s
		// Some pragmas take effect when they are prepared.
		if !strings.HasPrefix(text, "PRAGMA") && len(t.engine.stmts)+len(t.engine.wanted) < maxKept {
			if t.engine.wanted == nil {
				t.engine.wanted = make(map[string]bool)
			}
			t.engine.wanted[text] = true
		}
	}
	return s, err
}

// maxKept is how many statements of the writing connection are kept. The texts are
// constants of this package, of which there are fewer.
const maxKept = 512

func (t *sqliteTx) Exec(text string, args ...any) (int64, error) {
	s, err := t.stmt(text)
	if err != nil {
		return 0, err
	}
	res, err := s.ExecContext(t.ctx, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func (t *sqliteTx) Many(text string, rows [][]any) ([]int64, error) {
	changed := make([]int64, len(rows))
	for i, args := range rows {
		n, err := t.Exec(text, args...)
		if err != nil {
			return nil, err
		}
		changed[i] = n
	}
	return changed, nil
}

func (t *sqliteTx) ExecOver(o *Statement, rows [][]any, args ...any) (int64, error) {
	if len(rows) == 0 {
		return 0, nil
	}
	list, err := o.json(rows)
	if err != nil {
		return 0, err
	}
	return t.Exec(o.sqlite, append([]any{list}, args...)...)
}

func (t *sqliteTx) EachOver(o *Statement, rows [][]any, args []any, fn func(scan Scan) error) error {
	if len(rows) == 0 {
		return nil
	}
	list, err := o.json(rows)
	if err != nil {
		return err
	}
	return t.Each(o.sqlite, append([]any{list}, args...), fn)
}

// Script runs several statements at once.
func (t *sqliteTx) Script(text string) error {
	_, err := t.tx.ExecContext(t.ctx, text)
	return err
}

func (t *sqliteTx) Row(text string, args []any, dest ...any) error {
	s, err := t.stmt(text)
	if err != nil {
		return err
	}
	return s.QueryRowContext(t.ctx, args...).Scan(dest...)
}

func (t *sqliteTx) Each(text string, args []any, fn func(scan Scan) error) error {
	s, err := t.stmt(text)
	if err != nil {
		return err
	}
	rows, err := s.QueryContext(t.ctx, args...)
	if err != nil {
		return err
	}
	return drain(rows, func(scan Scan) (bool, error) { return true, fn(scan) })
}

// whileBusy repeats try while other processes hold the lock. SQLite's own wait
// is short, so that the end of ctx is noticed, and does not cover all
// operations.
func (e *sqliteFile) whileBusy(ctx context.Context, try func() error) error {
	start := time.Now()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		err := try()
		if !errors.Is(e.classify(err), ErrBusy) || time.Since(start) > e.wait {
			return err
		}
		pause.Reset(5 * time.Millisecond)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-pause.C:
		}
	}
}

func (e *sqliteFile) classify(err error) error {
	var se *sqlite.Error
	if !errors.As(err, &se) {
		return nil
	}
	switch se.Code() & 0xff {
	case sqlite3.SQLITE_FULL:
		return ErrNoSpace
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return ErrBusy
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return ErrCorrupt
	case sqlite3.SQLITE_INTERRUPT:
		return context.Canceled
	case sqlite3.SQLITE_IOERR:
		// Growing the shared-memory file fails only if the disk is full.
		if se.Code() == sqlite3.SQLITE_IOERR_SHMSIZE {
			return ErrNoSpace
		}
	}
	return nil
}
