package engine

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	addresses "github.com/symdepot/symdepot/internal/base/address"
)

// postgres is the engine of several machines: a PostgreSQL database that holds
// one index in its default schema.
type postgres struct {
	host           string // host, port and database, for messages
	user, database string
	readOnly       bool
	wait           time.Duration // how long a writer waits for others
	log            *slog.Logger
	pool           *pgxpool.Pool

	migrations []Migration
	now        func() time.Time
	clock      serverClock

	writing   chan struct{} // has an element while this process writes or waits for the write lock
	scanning  chan struct{} // has an element for each running scan
	made      bool          // the tables exist
	writes    atomic.Uint64
	down      atomic.Bool  // the last statement found no database
	answered  atomic.Int64 // when it answered last, in the time of running
	outdated  atomic.Bool  // a newer version has changed the index so that this one cannot use it
	lastReset atomic.Int64 // a time.Duration of running
	replays   replays
	replicas  *replicas // nil: none

	mu      sync.Mutex
	watches []*pgWatch // guarded by mu
	waiting *Migration // waits for older nodes; nil: none; guarded by mu
	tried   time.Time  // when it was tried last; guarded by mu
	rewound func()     // see DB.OnRewind; guarded by mu
}

// writeLock is the key of the advisory lock that writers of the index hold until
// their transaction ends, as writers of an SQLite file hold the file's lock.
// PostgreSQL keeps advisory locks per database.
const writeLock = applicationID

// IsURL reports whether an address of an index names a PostgreSQL database.
func IsURL(where string) bool { return addresses.IsDatabase(where) }

// Name returns the address of an index for messages: without a password, user
// and options.
func Name(where string) string { return addresses.Shown(where) }

// openPostgres connects to the database at a URL and brings it to the current
// format. Passwords and certificates come from the PG* variables of the
// environment or the password file, as libpq reads them.
func openPostgres(ctx context.Context, where string, opt Options) (*postgres, error) {
	cfg, err := pgxpool.ParseConfig(where)
	if err != nil {
		return &postgres{host: "of the given URL", log: opt.Log},
			errors.New("the URL is not valid; it has the form postgres://USER@HOST:PORT/DATABASE")
	}
	c := cfg.ConnConfig
	hosts := hostsOf(c)
	e := &postgres{host: "postgres://" + strings.Join(hosts, ",") + "/" + c.Database, user: c.User, database: c.Database,
		readOnly: opt.ReadOnly, wait: opt.BusyWait, log: opt.Log, writing: make(chan struct{}, 1), scanning: make(chan struct{}, maxScans),
		migrations: opt.Postgres, now: opt.Now}
	// The hosts are tried in turn: a lookup must reach the last one in time.
	if most := PointLimit / time.Duration(len(hosts)+1); len(hosts) > 1 && (c.ConnectTimeout == 0 || c.ConnectTimeout > most) {
		c.ConnectTimeout = most
	} else if c.ConnectTimeout == 0 || c.ConnectTimeout > PointLimit {
		c.ConnectTimeout = PointLimit
	}
	usual(cfg, where, opt)
	if len(hosts) > 1 {
		preferLast(cfg)
	}
	if e.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return e, err
	}
	if err := e.checkServer(ctx); err != nil {
		return e, err
	}
	if len(opt.Replicas) > 0 {
		if e.replicas, err = openReplicas(ctx, opt.Replicas, opt); err != nil {
			return e, err
		}
	}
	version, err := e.databaseFormat(ctx)
	e.made = version > 0
	switch {
	case err != nil:
		return e, err
	case version == 0 && (opt.ReadOnly || opt.MustExist):
		return e, fmt.Errorf("it has no tables: %w", fs.ErrNotExist)
	case version < needed(e.steps()) && opt.ReadOnly:
		return e, errOlder(version, len(e.steps()))
	case opt.ReadOnly:
		return e, nil
	}
	if version < len(e.steps()) {
		if e.waiting, err = migrate(ctx, e, version, opt.Now); err != nil {
			return e, err
		}
		e.made = true
	}
	return e, e.sweepNodes(ctx)
}

// usual sets what connections to a database have in common.
func usual(cfg *pgxpool.Config, where string, opt Options) {
	if !strings.Contains(where, "pool_max_conns=") {
		cfg.MaxConns = int32(min(max(8, 4*runtime.GOMAXPROCS(0)), 16))
	}
	c := cfg.ConnConfig
	dial := c.DialFunc
	if opt.Dial != nil {
		dial = opt.Dial
	}
	c.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if tcp, ok := conn.(*net.TCPConn); ok && err == nil {
			noticeDeath(tcp)
		}
		return conn, err
	}
	c.RuntimeParams["application_name"] = cmp.Or(c.RuntimeParams["application_name"], "symdepot")
	c.RuntimeParams["standard_conforming_strings"] = "on"
	// Compiling a lookup takes a hundred times as long as the lookup. PostgreSQL does that
	// as long as it has no statistics about large tables, as after a first import.
	c.RuntimeParams["jit"] = cmp.Or(c.RuntimeParams["jit"], "off")
	// A process that stops in the middle of a transaction would block all writers.
	c.RuntimeParams["idle_in_transaction_session_timeout"] = cmp.Or(c.RuntimeParams["idle_in_transaction_session_timeout"], "30000")
}

// noticeDeath makes a connection fail within about deadAfter if the other host
// disappears without closing it. Where the system cannot do that, it fails later.
func noticeDeath(c *net.TCPConn) {
	_ = c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: deadAfter / 2, Interval: deadAfter / 8, Count: 4})
	limitUnanswered(c)
}

// deadAfter is how long a connection may not be acknowledged by the other host.
const deadAfter = 8 * time.Second

// finishUpgrade applies steps that have waited for older nodes.
func (e *postgres) finishUpgrade(ctx context.Context) {
	e.mu.Lock()
	due := e.waiting != nil && time.Since(e.tried) > upgradeEvery
	if due {
		e.tried = time.Now()
	}
	e.mu.Unlock()
	if !due {
		return
	}
	waiting, err := migrate(ctx, e, 0, e.now)
	if err != nil {
		e.log.Warn("cannot finish the upgrade of the database", "database", e.host, "error", oneLine(err))
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.waiting = waiting; waiting == nil {
		e.log.Info("the upgrade of the database is finished", "database", e.host)
	}
}

// oldestNode returns the oldest format that a node of the last minute knows.
func (e *postgres) oldestNode(s session) (oldest int, err error) {
	err = s.Row("SELECT coalesce(min(format), 1000000) FROM node WHERE asked > now() - interval '1 minute'", nil, &oldest)
	return oldest, err
}

// errOutdated means that a newer version has changed the index meanwhile.
var errOutdated = fmt.Errorf("%w: restart this process with that version: %w", ErrNewer, ErrUnavailable)

const (
	// upgradeEvery is how often a step is tried that waits for older nodes.
	upgradeEvery = 10 * time.Second
	// PointLimit is how long a lookup may take, and a connection until it is made.
	PointLimit = 5 * time.Second
	// maxScans is the number of concurrent scans, fewer than there are connections.
	maxScans = 4
)

// databaseFormat returns the number of applied migrations. A database with
// tables of another program is ErrForeign, one that this program is too old for
// ErrNewer.
func (e *postgres) databaseFormat(ctx context.Context) (version int, err error) {
	var ours bool
	var tables int
	err = e.pool.QueryRow(ctx, `SELECT to_regclass('migration') IS NOT NULL AND to_regclass('lookup') IS NOT NULL,
		(SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace)`).Scan(&ours, &tables)
	switch {
	case err != nil:
		return 0, err
	case ours:
		var old bool
		floor := 0
		err := e.pool.QueryRow(ctx, "SELECT (SELECT count(*) "+
			"FROM migration), ("+unreleased+"), coalesce((SELECT format_floor FROM state WHERE one = 1), 0)").Scan(&version, &old, &floor)
		switch {
		case code(err) == "42703": // there is no such column as format_floor
			return 0, ErrUnreleased
		case err == nil && old:
			err = ErrUnreleased
		}
		if err != nil {
			return version, err
		}
		return version, checkFormat(e.steps(), version, floor)
	case tables > 0:
		return 0, fmt.Errorf("%w: it holds %d tables; name an empty database", ErrForeign, tables)
	}
	return 0, nil
}

func (e *postgres) name() string       { return e.host }
func (e *postgres) steps() []Migration { return e.migrations }
func (e *postgres) points() Reader     { return pgPoints{e} }
func (e *postgres) scans() Reader      { return pgScans{e} }
func (e *postgres) time() time.Time    { return e.clock.now() }

func (e *postgres) Close() error {
	if e.replicas != nil {
		e.replicas.Close()
	}
	if e.pool != nil {
		e.pool.Close()
	}
	return nil
}

func (e *postgres) format(s session) (version int, err error) {
	var exists bool
	if err := s.Row("SELECT to_regclass('migration') IS NOT NULL", nil, &exists); err != nil || !exists {
		return 0, err
	}
	err = s.Row("SELECT count(*) FROM migration", nil, &version)
	return version, err
}

// setFormat records the floor: the rows of the table of migrations are the
// format.
func (e *postgres) setFormat(s session, m Migration) error {
	_, err := s.Exec(setFloor, m.Floor)
	return err
}

// fingerprint is the system identifier of the server's data folder, the timeline,
// which changes when a standby or a restored copy begins to write, and the number of
// the database. Servers that do not tell one of them leave it out.
func (e *postgres) fingerprint(ctx context.Context) (string, error) {
	parts := []string{"postgres"}
	for _, query := range []string{
		"SELECT system_identifier::text FROM pg_control_system()",
		"SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)",
		"SELECT oid::text FROM pg_database WHERE datname = current_database()",
	} {
		var part string
		err := pgPoints{e}.Row(ctx, query, nil, &part)
		if err != nil && (code(err) == "" || passes(err) || code(err) == "57014") {
			return "", err
		}
		parts = append(parts, cmp.Or(part, "-"))
	}
	return strings.Join(parts, " "), nil
}

// integrity checks the indexes by the extension amcheck, if the database has it
// and the user may call it.
func (e *postgres) integrity(ctx context.Context, _ Reader) (problems []string, err error) {
	var allowed bool
	if err := e.pool.QueryRow(ctx, `SELECT coalesce((SELECT has_function_privilege(p.oid, 'EXECUTE') FROM pg_extension x
		JOIN pg_depend d ON d.refobjid = x.oid AND d.deptype = 'e'
		JOIN pg_proc p ON p.oid = d.objid AND p.proname = 'bt_index_check' AND p.pronargs = 2
		WHERE x.extname = 'amcheck' LIMIT 1), false)`).Scan(&allowed); err != nil || !allowed {
		return nil, err
	}
	var indexes []string
	if err := (pgScans{e}).Each(ctx, true, `SELECT i.indexrelid::regclass::text FROM pg_index i
		JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
		WHERE a.amname = 'btree' AND c.relnamespace = current_schema()::regnamespace AND i.indisvalid ORDER BY 1`, nil,
		func(scan Scan) (bool, error) {
			var name string
			err := scan(&name)
			indexes = append(indexes, name)
			return true, err
		}); err != nil {
		return nil, err
	}
	for _, name := range indexes {
		// A fault ends the statement, so each index has its own.
		_, err := e.pool.Exec(ctx, "SELECT bt_index_check($1::text::regclass, true)", name)
		if pe := (*pgconn.PgError)(nil); errors.As(err, &pe) && strings.HasPrefix(pe.Code, "XX00") {
			problems = append(problems, fmt.Sprintf("index %s of %s: %s", name, e.host, pe.Message))
		} else if err != nil {
			return problems, err
		}
	}
	return problems, nil
}

// pgPoints reads through the pool within pointLimit. A connection that has broken
// is replaced once.
type pgPoints struct{ e *postgres }

func (p pgPoints) Row(ctx context.Context, text string, args []any, dest ...any) error {
	return p.try(ctx, func(ctx context.Context) (bool, error) { return true, pgReader{p.e.pool}.Row(ctx, text, args, dest...) })
}

func (p pgPoints) Each(ctx context.Context, constant bool, text string, args []any, fn func(scan Scan) (bool, error)) error {
	return p.try(ctx, func(ctx context.Context) (bool, error) {
		untouched := true
		err := pgReader{p.e.pool}.Each(ctx, constant, text, args, func(scan Scan) (bool, error) {
			untouched = false
			return fn(scan)
		})
		return untouched, err
	})
}

type oneWaitKey struct{}

// OneWait returns a context in which several lookups share one wait for a database
// that does not answer. After the first lookup has timed out, the others fail at once.
func OneWait(ctx context.Context) context.Context {
	return context.WithValue(ctx, oneWaitKey{}, new(atomic.Bool))
}

// try runs read, and a second time if the connection broke and read allows it.
func (p pgPoints) try(ctx context.Context, read func(context.Context) (again bool, err error)) error {
	if p.e.outdated.Load() {
		return errOutdated
	}
	waited, _ := ctx.Value(oneWaitKey{}).(*atomic.Bool)
	if waited != nil && waited.Load() {
		return errNoAnswer
	}
	limited, cancel := context.WithTimeout(ctx, PointLimit)
	defer cancel()
	began := running()
	again, err := read(limited)
	if again && broken(err) && limited.Err() == nil {
		p.e.reset()
		_, err = read(limited)
	}
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w (%v): %w", errNoAnswer, PointLimit, err)
		if waited != nil {
			waited.Store(true)
		}
	}
	p.e.saw(began, err)
	return err
}

// pgScans reads through the pool without a limit, and leaves connections for
// lookups.
type pgScans struct{ e *postgres }

// start waits until a scan may begin.
func (s pgScans) start(ctx context.Context) (end func(), err error) {
	if s.e.outdated.Load() {
		return nil, errOutdated
	}
	select {
	case s.e.scanning <- struct{}{}:
		return func() { <-s.e.scanning }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s pgScans) Row(ctx context.Context, text string, args []any, dest ...any) error {
	end, err := s.start(ctx)
	if err != nil {
		return err
	}
	defer end()
	began := running()
	err = pgReader{s.e.pool}.Row(ctx, text, args, dest...)
	if broken(err) && ctx.Err() == nil {
		s.e.reset()
		err = pgReader{s.e.pool}.Row(ctx, text, args, dest...)
	}
	s.e.saw(began, err)
	return err
}

func (s pgScans) Each(ctx context.Context, constant bool, text string, args []any, fn func(scan Scan) (bool, error)) error {
	end, err := s.start(ctx)
	if err != nil {
		return err
	}
	defer end()
	untouched, began := true, running()
	read := func() error {
		return pgReader{s.e.pool}.Each(ctx, constant, text, args, func(scan Scan) (bool, error) {
			untouched = false
			return fn(scan)
		})
	}
	if err = read(); untouched && broken(err) && ctx.Err() == nil {
		s.e.reset()
		err = read()
	}
	s.e.saw(began, err)
	return err
}

// pgQuerier is a pool, a connection or a transaction.
type pgQuerier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// pgReader reads through a pool or a transaction. The connections keep prepared
// statements themselves.
type pgReader struct{ q pgQuerier }

func (r pgReader) Row(ctx context.Context, text string, args []any, dest ...any) error {
	args, err := plain(args)
	if err != nil {
		return err
	}
	return noRows(r.q.QueryRow(ctx, inPostgres(text), args...).Scan(dest...))
}

func (r pgReader) Each(ctx context.Context, constant bool, text string, args []any, fn func(scan Scan) (bool, error)) error {
	args, err := plain(args)
	if err != nil {
		return err
	}
	if !constant {
		args = append([]any{pgx.QueryExecModeDescribeExec}, args...)
	}
	rows, err := r.q.Query(ctx, inPostgres(text), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if more, err := fn(rows.Scan); err != nil || !more {
			return err
		}
	}
	return rows.Err()
}

// inPostgres returns PostgreSQL's text of a statement.
func inPostgres(text string) string { return cmp.Or(postgresTexts[text], text) }

// plain converts arguments to the types of a database, as database/sql does.
func plain(args []any) ([]any, error) {
	list := make([]any, len(args))
	for i, a := range args {
		v, err := driver.DefaultParameterConverter.ConvertValue(a)
		if err != nil {
			return nil, err
		}
		if t, ok := v.(string); ok {
			v = storable(t)
		}
		list[i] = v
	}
	return list, nil
}

// storable returns a text that PostgreSQL can store: bytes that are not UTF-8, NUL
// and the escape character 1 become the escape character and two digits. So
// different texts stay different, and prefixes are preserved.
func storable(t string) string {
	if utf8.ValidString(t) && !strings.ContainsAny(t, "\x00\x01") {
		return t
	}
	var b []byte
	for len(t) > 0 {
		r, n := utf8.DecodeRuneInString(t)
		if r == utf8.RuneError && n == 1 || r <= 1 {
			b = fmt.Appendf(b, "\x01%02X", t[0])
		} else {
			b = append(b, t[:n]...)
		}
		t = t[n:]
	}
	return string(b)
}

// given returns the text that storable made a stored one of.
func given(t string) string {
	before, rest, escaped := strings.Cut(t, "\x01")
	if !escaped {
		return t
	}
	b := []byte(before)
	for escaped {
		if code, err := strconv.ParseUint(rest[:min(2, len(rest))], 16, 8); err == nil && len(rest) >= 2 {
			b, rest = append(b, byte(code)), rest[2:]
		} else {
			b = append(b, 1) // written by something else
		}
		before, rest, escaped = strings.Cut(rest, "\x01")
		b = append(b, before...)
	}
	return string(b)
}

func noRows(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return sql.ErrNoRows
	}
	return err
}

func (e *postgres) snapshot(ctx context.Context, fn func(Reader) error) error {
	begin := func() (pgx.Tx, error) {
		return e.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	}
	tx, err := begin()
	for range 2 { // as many connections may have been cut while they were idle
		if !broken(err) || ctx.Err() != nil {
			break
		}
		e.reset()
		tx, err = begin()
	}
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // it only reads
	return fn(pgReader{tx})
}
