package index

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"time"
)

// write is one write transaction. It holds the write lock of the database.
type write struct {
	ctx   context.Context // never cancelled: see update
	tx    *sql.Tx
	stmts map[string]*sql.Stmt // by SQL text; they end with the transaction
}

// update runs fn in a write transaction. It commits durably if fn returns nil
// and rolls back otherwise. It waits for other writers.
//
// The statements in fn are not cancellable, because the driver starts a
// goroutine for each cancellable one. A long fn checks ctx itself; its error
// rolls the transaction back.
func (db *DB) update(ctx context.Context, op string, fn func(w *write) error) error {
	return db.write(ctx, op, true, fn)
}

// note is like update but does not wait for the disk: a crash of the machine may
// undo it, a crash of the process may not. It is for frequent, dispensable
// writes.
func (db *DB) note(ctx context.Context, op string, fn func(w *write) error) error {
	return db.write(ctx, op, false, fn)
}

func (db *DB) write(ctx context.Context, op string, durable bool, fn func(w *write) error) error {
	if db.writer == nil {
		return db.fail(op, ErrReadOnly)
	}
	conn, tx, err := db.begin(ctx, durable)
	if err != nil {
		return db.fail(op, err)
	}
	defer func() { giveBack(conn, durable) }()
	w := &write{context.WithoutCancel(ctx), tx, make(map[string]*sql.Stmt)}
	if err := fn(w); err != nil {
		// On a full disk SQLite has ended the transaction itself, and the error
		// of Rollback means nothing.
		_ = tx.Rollback()
		return db.fail(op, err)
	}
	return db.fail(op, tx.Commit())
}

// begin takes the write lock; the driver begins with BEGIN IMMEDIATE.
func (db *DB) begin(ctx context.Context, durable bool) (conn *sql.Conn, tx *sql.Tx, err error) {
	err = db.whileBusy(ctx, func() error {
		if conn, err = db.writer.Conn(ctx); err != nil {
			return err
		}
		if !durable {
			if _, err = conn.ExecContext(context.WithoutCancel(ctx), "PRAGMA synchronous = NORMAL"); err != nil {
				giveBack(conn, durable)
				return err
			}
		}
		if tx, err = conn.BeginTx(context.WithoutCancel(ctx), nil); err != nil {
			giveBack(conn, durable)
		}
		return err
	})
	return conn, tx, err
}

// giveBack returns the writing connection to its pool with its original
// settings. If these cannot be restored, it closes the connection.
func giveBack(conn *sql.Conn, durable bool) {
	if !durable {
		if _, err := conn.ExecContext(context.Background(), "PRAGMA synchronous = FULL"); err != nil {
			_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		}
	}
	_ = conn.Close()
}

// whileBusy repeats try while other processes hold the lock. SQLite's own wait
// is short, so that the end of ctx is noticed, and does not cover all
// operations.
func (db *DB) whileBusy(ctx context.Context, try func() error) error {
	start := time.Now()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		err := try()
		if !errors.Is(class(err), ErrBusy) || time.Since(start) > db.wait {
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

func (w *write) stmt(text string) (*sql.Stmt, error) {
	if s := w.stmts[text]; s != nil {
		return s, nil
	}
	s, err := w.tx.PrepareContext(w.ctx, text)
	if err == nil {
		w.stmts[text] = s
	}
	return s, err
}

// exec runs a constant statement and returns the number of rows it changed.
func (w *write) exec(text string, args ...any) (int64, error) {
	s, err := w.stmt(text)
	if err != nil {
		return 0, err
	}
	res, err := s.ExecContext(w.ctx, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// row reads one row of a constant statement. If there is none, the error is
// sql.ErrNoRows.
func (w *write) row(text string, args []any, dest ...any) error {
	s, err := w.stmt(text)
	if err != nil {
		return err
	}
	return s.QueryRowContext(w.ctx, args...).Scan(dest...)
}

// ids reads one integer column of a constant statement.
func (w *write) ids(text string, args ...any) ([]int64, error) {
	s, err := w.stmt(text)
	if err != nil {
		return nil, err
	}
	rows, err := s.QueryContext(w.ctx, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var list []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		list = append(list, id)
	}
	return list, rows.Err()
}
