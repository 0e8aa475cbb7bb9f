package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/symdepot/symdepot/internal/base/ctxio"
)

// Limits of write transactions.
const (
	// lockWait is how long the server waits for the write lock before the
	// process asks again. Options.BusyWait limits the sum.
	lockWait = 10 * time.Second
	// retryFor is how long a write transaction is repeated while the database is
	// not available, for example during a failover.
	retryFor = 60 * time.Second
	// writeLimit is how long one statement of a write transaction may take. It is
	// far above what the largest ones need; a wait for a server that has vanished
	// ends by it.
	writeLimit = 10 * time.Minute
	// sweepEvery is the number of write transactions of this process after which
	// it deletes old requests.
	sweepEvery = 256
)

// pgTx is a write transaction. It holds the write lock.
type pgTx struct {
	ctx context.Context // never cancelled: see Database.Update
	tx  pgx.Tx
}

// notify sends a topic to the nodes if the transaction is committed.
func (t *pgTx) notify(topic string) error {
	_, err := t.Exec("SELECT pg_notify($1, $2)", Channel, topic)
	return err
}

// transact runs fn in a write transaction. If the database is not available
// meanwhile, it repeats the transaction for up to retryFor: fn must set its
// results anew each time it runs. It returns when all processes know of the
// write.
//
// Each durable transaction inserts a random request. If the connection breaks
// while COMMIT is under way, the next attempt waits for the write lock, which a
// transaction in doubt holds until it has ended, and then finds the request if
// that transaction was committed.
func (e *postgres) transact(ctx context.Context, durable bool, fn func(session) error) error {
	if e.readOnly {
		return ErrReadOnly
	}
	a := attempt{postgres: e, durable: durable, request: rand.Text(), fn: fn}
	start := time.Now()
	for delay := 20 * time.Millisecond; ; delay = min(2*delay, 2*time.Second) {
		began := running()
		err := a.run(ctx)
		if err == nil {
			e.saw(began, nil)
			// Other processes remember durable writes only.
			if durable {
				e.noticed(context.WithoutCancel(ctx))
			}
			return nil
		}
		limit := retryFor
		switch {
		case errors.Is(err, errLockWait):
			limit = e.wait
		case !passes(err):
			return err
		default:
			e.reset()
			e.saw(began, err)
		}
		if time.Since(start) > limit || ctx.Err() != nil {
			if a.doubtful {
				err = fmt.Errorf("it is not known whether the write was made: %w", err)
			}
			return err
		}
		_ = ctxio.Pause(ctx, delay)
	}
}

// attempt is a write transaction that may be tried several times.
type attempt struct {
	*postgres
	durable  bool
	request  string
	fn       func(session) error
	doubtful bool // a COMMIT of an earlier attempt has not been answered
}

// errLockWait means that other writers held the write lock for too long.
var errLockWait = errors.New("other processes are writing")

// run tries the transaction once.
func (a *attempt) run(ctx context.Context) error {
	// Waiting writers must not take the connections of readers.
	wait := time.NewTimer(a.wait)
	defer wait.Stop()
	select {
	case a.writing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-wait.C:
		return errLockWait
	}
	defer func() { <-a.writing }()
	tx, err := a.pool.Begin(ctx)
	if err != nil {
		return err
	}
	t := &pgTx{context.WithoutCancel(ctx), tx}
	committed, err := a.lock(ctx, tx)
	switch {
	case err != nil:
	case committed:
		t.rollback()
		return nil // the earlier attempt was committed, and its results are valid
	default:
		err = a.fn(t)
	}
	if err != nil {
		t.rollback()
		return err
	}
	err = t.commit()
	a.doubtful = a.doubtful || passes(err)
	return err
}

// noteServer records that another server, or the restored copy of a database,
// makes the write: see noticed. The first write of all is no change.
const noteServer = `UPDATE state SET server = this_server(), moved = CASE WHEN server = '' THEN NULL ELSE clock_timestamp() END
	WHERE server <> this_server()`

// sweepHistory deletes the generations that were succeeded more than a day ago.
const sweepHistory = `DELETE FROM history WHERE generation < (SELECT max(generation) FROM history WHERE made < now() - interval '1 day')`

// lock takes the write lock. It reports whether an earlier attempt was committed.
func (a *attempt) lock(ctx context.Context, tx pgx.Tx) (committed bool, err error) {
	floor := 0
	wait := max(min(lockWait, a.wait).Milliseconds(), 1)
	durability := "on"
	if !a.durable {
		durability = "off"
	}
	// The server's own setting may ask for more than on.
	settings := "SELECT set_config('lock_timeout', $1, true), CASE WHEN $2 = 'off' THEN set_config('synchronous_commit', 'off', true) END"
	b := &pgx.Batch{}
	b.Queue(settings, fmt.Sprint(wait), durability)
	b.Queue("SELECT pg_advisory_xact_lock($1)", int64(writeLock))
	if a.durable && a.made {
		if a.doubtful {
			b.Queue("SELECT EXISTS (SELECT 1 FROM request WHERE id = $1)",
				a.request).QueryRow(func(row pgx.Row) error { return row.Scan(&committed) })
		}
		b.Queue("INSERT INTO request (id) VALUES ($1) ON CONFLICT (id) DO NOTHING", a.request)
		sweep := a.writes.Add(1)%sweepEvery == 0
		if sweep {
			b.Queue("DELETE FROM request WHERE made < now() - interval '1 hour'")
		}
		b.Queue(noteServer)
		if sweep {
			b.Queue(sweepHistory)
		}
		b.Queue("NOTIFY " + Channel) // sent by the commit
	}
	if a.made {
		b.Queue("SELECT format_floor FROM state WHERE one = 1").QueryRow(func(row pgx.Row) error { return row.Scan(&floor) })
	}
	limited, cancel := context.WithTimeout(ctx, lockWait+writeLimit)
	defer cancel()
	err = tx.SendBatch(limited, b).Close()
	switch {
	case code(err) == "55P03":
		err = fmt.Errorf("%w: %w", errLockWait, err)
	case err == nil && floor > len(a.steps()):
		a.outdated.Store(true)
		err = errOutdated
	}
	return committed, err
}

func (t *pgTx) limited() (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.ctx, writeLimit)
}

func (t *pgTx) commit() error {
	ctx, cancel := t.limited()
	defer cancel()
	return t.tx.Commit(ctx)
}

func (t *pgTx) rollback() {
	ctx, cancel := context.WithTimeout(t.ctx, time.Second)
	defer cancel()
	_ = t.tx.Rollback(ctx) // a transaction without a connection ends by itself
}

func (t *pgTx) Exec(text string, args ...any) (int64, error) {
	args, err := plain(args)
	if err != nil {
		return 0, err
	}
	ctx, cancel := t.limited()
	defer cancel()
	tag, err := t.tx.Exec(ctx, inPostgres(text), args...)
	return tag.RowsAffected(), err
}

// Many sends all statements before it reads the first answer.
func (t *pgTx) Many(text string, rows [][]any) ([]int64, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	changed := make([]int64, len(rows))
	b := &pgx.Batch{}
	for i, args := range rows {
		args, err := plain(args)
		if err != nil {
			return nil, err
		}
		b.Queue(inPostgres(text), args...).Exec(func(tag pgconn.CommandTag) error {
			changed[i] = tag.RowsAffected()
			return nil
		})
	}
	ctx, cancel := t.limited()
	defer cancel()
	return changed, t.tx.SendBatch(ctx, b).Close()
}

func (t *pgTx) Script(text string) error {
	ctx, cancel := t.limited()
	defer cancel()
	_, err := t.tx.Exec(ctx, inPostgres(text), pgx.QueryExecModeSimpleProtocol)
	return err
}

func (t *pgTx) Row(text string, args []any, dest ...any) error {
	ctx, cancel := t.limited()
	defer cancel()
	return pgReader{t.tx}.Row(ctx, text, args, dest...)
}

func (t *pgTx) Each(text string, args []any, fn func(scan Scan) error) error {
	ctx, cancel := t.limited()
	defer cancel()
	return pgReader{t.tx}.Each(ctx, true, text, args, func(scan Scan) (bool, error) { return true, fn(scan) })
}

func (t *pgTx) ExecOver(o *Statement, rows [][]any, args ...any) (int64, error) {
	if len(rows) == 0 {
		return 0, nil
	}
	args, err := o.pgArgs(rows, args)
	if err != nil {
		return 0, err
	}
	ctx, cancel := t.limited()
	defer cancel()
	tag, err := t.tx.Exec(ctx, o.postgres, args...)
	return tag.RowsAffected(), err
}

func (t *pgTx) EachOver(o *Statement, rows [][]any, args []any, fn func(scan Scan) error) error {
	if len(rows) == 0 {
		return nil
	}
	args, err := o.pgArgs(rows, args)
	if err != nil {
		return err
	}
	ctx, cancel := t.limited()
	defer cancel()
	result, err := t.tx.Query(ctx, o.postgres, args...)
	if err != nil {
		return err
	}
	defer result.Close()
	for result.Next() {
		if err := fn(result.Scan); err != nil {
			return err
		}
	}
	return result.Err()
}

// Insert copies rows with the COPY protocol.
func (t *pgTx) Insert(ctx context.Context, table string, columns []string, next func() ([]any, error)) error {
	_, err := t.tx.CopyFrom(ctx, pgx.Identifier{table}, columns, pgx.CopyFromFunc(func() ([]any, error) {
		row, err := next()
		if err != nil || row == nil {
			return nil, err
		}
		return plain(row)
	}))
	return err
}

// Copied sets the counters of generated ids after the highest copied one.
func (t *pgTx) Copied(generated [][2]string) error {
	for _, c := range generated {
		table, column := c[0], c[1]
		if _, err := t.tx.Exec(t.ctx,
			"SELECT setval(pg_get_serial_sequence('"+table+"', '"+column+"'), coalesce(max("+column+"), 0) + 1, false) FROM "+
				table); err != nil {
			return err
		}
	}
	return nil
}

// rest permits the transaction to stay idle for long.
func (t *pgTx) rest() error {
	_, err := t.Exec("SELECT set_config('idle_in_transaction_session_timeout', '0', true)")
	return err
}
