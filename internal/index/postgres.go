package index

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// postgres is the engine of several machines: a PostgreSQL database that holds
// one index in its default schema.
type postgres struct {
	host     string // host, port and database, for messages
	readOnly bool
	pool     *pgxpool.Pool

	mu      sync.Mutex
	watches []*pgWatch // guarded by mu
}

// writeLock is the key of the advisory lock that writers of the index hold until
// their transaction ends, as writers of an SQLite file hold the file's lock.
// PostgreSQL keeps advisory locks per database.
const writeLock = applicationID

// isPostgres reports whether an address of an index names a PostgreSQL database.
func isPostgres(where string) bool {
	return strings.HasPrefix(where, "postgres://") || strings.HasPrefix(where, "postgresql://")
}

// Name returns the address of an index for messages: without a password, user
// and options.
func Name(where string) string {
	u, err := url.Parse(where)
	if !isPostgres(where) || err != nil {
		return where
	}
	return u.Scheme + "://" + u.Host + u.Path
}

// openPostgres connects to the database at a URL and brings it to the current
// format. Passwords and certificates come from the PG* variables of the
// environment or the password file, as libpq reads them.
func openPostgres(ctx context.Context, where string, opt Options) (*postgres, error) {
	cfg, err := pgxpool.ParseConfig(where)
	if err != nil {
		return &postgres{host: "of the given URL"}, errors.New("the URL is not valid; it has the form postgres://USER@HOST:PORT/DATABASE")
	}
	c := cfg.ConnConfig
	e := &postgres{host: fmt.Sprintf("postgres://%s:%d/%s", c.Host, c.Port, c.Database), readOnly: opt.ReadOnly}
	if opt.Dial != nil {
		c.DialFunc = opt.Dial
	}
	c.RuntimeParams["application_name"] = cmp.Or(c.RuntimeParams["application_name"], "symdepot")
	c.RuntimeParams["standard_conforming_strings"] = "on"
	if e.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return e, err
	}
	version, err := e.databaseFormat(ctx)
	switch {
	case err != nil:
		return e, err
	case version == 0 && (opt.ReadOnly || opt.MustExist):
		return e, fmt.Errorf("it has no tables: %w", fs.ErrNotExist)
	case version > len(e.steps()):
		return e, fmt.Errorf("it has format %d, and this program supports formats up to %d: %w; use that version", version, len(e.steps()), ErrNewer)
	case version == len(e.steps()) && opt.ReadOnly:
		return e, nil
	case version == len(e.steps()):
		return e, e.sweepNodes(ctx)
	case opt.ReadOnly:
		return e, fmt.Errorf("it has format %d, and this program reads format %d: open it once for writing to upgrade it", version, len(e.steps()))
	}
	return e, migrate(ctx, e, version, opt.Now)
}

// databaseFormat returns the number of applied migrations. A database with
// tables of another program is ErrCorrupt.
func (e *postgres) databaseFormat(ctx context.Context) (version int, err error) {
	var ours bool
	var tables int
	err = e.pool.QueryRow(ctx, `SELECT to_regclass('migration') IS NOT NULL AND to_regclass('lookup') IS NOT NULL,
		(SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace)`).Scan(&ours, &tables)
	switch {
	case err != nil:
		return 0, err
	case ours:
		err = e.pool.QueryRow(ctx, "SELECT count(*) FROM migration").Scan(&version)
		return version, err
	case tables > 0:
		return 0, fmt.Errorf("%w: it holds %d tables of a different program; name an empty database", ErrCorrupt, tables)
	}
	return 0, nil
}

func (e *postgres) name() string       { return e.host }
func (e *postgres) steps() []migration { return postgresMigrations }
func (e *postgres) points() reader     { return pgReader{e.pool} }
func (e *postgres) scans() reader      { return pgReader{e.pool} }

func (e *postgres) close() error {
	if e.pool != nil {
		e.pool.Close()
	}
	return nil
}

func (e *postgres) format(s session) (version int, err error) {
	var exists bool
	if err := s.row("SELECT to_regclass('migration') IS NOT NULL", nil, &exists); err != nil || !exists {
		return 0, err
	}
	err = s.row("SELECT count(*) FROM migration", nil, &version)
	return version, err
}

// setFormat has nothing to do: the rows of the table of migrations are the
// format.
func (e *postgres) setFormat(session, int) error { return nil }

func (e *postgres) integrity(context.Context, reader) ([]string, error) { return nil, nil }

// pgQuerier is a pool, a connection or a transaction.
type pgQuerier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// pgReader reads through a pool or a transaction. The connections keep prepared
// statements themselves.
type pgReader struct{ q pgQuerier }

func (r pgReader) row(ctx context.Context, text string, args []any, dest ...any) error {
	args, err := plain(args)
	if err != nil {
		return err
	}
	return noRows(r.q.QueryRow(ctx, inPostgres(text), args...).Scan(dest...))
}

func (r pgReader) each(ctx context.Context, constant bool, text string, args []any, fn func(scan func(...any) error) (bool, error)) error {
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

// storable returns a text that PostgreSQL can store: texts with NUL or with
// bytes that are no UTF-8 get a prefix that no other text has, and an escape for
// each such byte. So different texts stay different.
func storable(t string) string {
	if utf8.ValidString(t) && !strings.ContainsAny(t, "\x00\x01") {
		return t
	}
	b := []byte{1}
	for len(t) > 0 {
		r, n := utf8.DecodeRuneInString(t)
		if r == utf8.RuneError && n == 1 || r == 0 || r == '%' {
			b = fmt.Appendf(b, "%%%02X", t[0])
		} else {
			b = append(b, t[:n]...)
		}
		t = t[n:]
	}
	return string(b)
}

func noRows(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return sql.ErrNoRows
	}
	return err
}

func (e *postgres) snapshot(ctx context.Context, fn func(reader) error) error {
	tx, err := e.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // it only reads
	return fn(pgReader{tx})
}

// pgTx is a write transaction. It holds the write lock.
type pgTx struct {
	ctx     context.Context // never cancelled: see DB.update
	e       *postgres
	tx      pgx.Tx
	durable bool
}

func (e *postgres) begin(ctx context.Context, durable bool) (session, error) {
	if e.readOnly {
		return nil, ErrReadOnly
	}
	tx, err := e.pool.Begin(ctx)
	if err != nil {
		return nil, err
	}
	t := &pgTx{context.WithoutCancel(ctx), e, tx, durable}
	if !durable {
		_, err = tx.Exec(ctx, "SET LOCAL synchronous_commit = off")
	}
	if err == nil {
		_, err = tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(writeLock))
	}
	if err != nil {
		t.rollback()
		return nil, err
	}
	return t, nil
}

// commit returns when all processes know of the write. Those that do not wait
// for the disk change nothing that others keep in memory.
func (t *pgTx) commit() error {
	if !t.durable {
		return t.tx.Commit(t.ctx)
	}
	if _, err := t.tx.Exec(t.ctx, "NOTIFY "+channel); err != nil {
		t.rollback()
		return err
	}
	if err := t.tx.Commit(t.ctx); err != nil {
		return err
	}
	t.e.noticed(t.ctx)
	return nil
}

func (t *pgTx) rollback() { _ = t.tx.Rollback(t.ctx) }

func (t *pgTx) exec(text string, args ...any) (int64, error) {
	args, err := plain(args)
	if err != nil {
		return 0, err
	}
	tag, err := t.tx.Exec(t.ctx, inPostgres(text), args...)
	return tag.RowsAffected(), err
}

func (t *pgTx) script(text string) error {
	_, err := t.tx.Exec(t.ctx, inPostgres(text), pgx.QueryExecModeSimpleProtocol)
	return err
}

func (t *pgTx) row(text string, args []any, dest ...any) error {
	return pgReader{t.tx}.row(t.ctx, text, args, dest...)
}

func (t *pgTx) each(text string, args []any, fn func(scan func(...any) error) error) error {
	return pgReader{t.tx}.each(t.ctx, true, text, args, func(scan func(...any) error) (bool, error) { return true, fn(scan) })
}

func (e *postgres) classify(err error) error {
	var pe *pgconn.PgError
	if !errors.As(err, &pe) {
		return nil
	}
	switch {
	case pe.Code == "53100":
		return ErrNoSpace
	case pe.Code == "55P03":
		return ErrBusy
	case pe.Code == "25006":
		return ErrReadOnly
	case pe.Code == "57014":
		return context.Canceled
	case strings.HasPrefix(pe.Code, "XX00"):
		return ErrCorrupt
	}
	return nil
}

// insert copies rows with the COPY protocol. next returns nil after the last.
func (t *pgTx) insert(ctx context.Context, table string, columns []string, next func() ([]any, error)) error {
	_, err := t.tx.CopyFrom(ctx, pgx.Identifier{table}, columns, pgx.CopyFromFunc(func() ([]any, error) {
		row, err := next()
		if err != nil || row == nil {
			return nil, err
		}
		return plain(row)
	}))
	return err
}

// copied sets the counters of generated ids after the highest copied one.
func (t *pgTx) copied() error {
	for _, c := range []struct{ table, column string }{{"product", "id"}, {"content", "id"}, {"miss", "no"}, {"wanted", "no"}, {"job", "id"}} {
		if _, err := t.tx.Exec(t.ctx, "SELECT setval(pg_get_serial_sequence('"+c.table+"', '"+c.column+"'), coalesce(max("+c.column+"), 0) + 1, false) FROM "+c.table); err != nil {
			return err
		}
	}
	return nil
}
