package engine

import (
	"context"
	"errors"
	"time"
)

// Write is one write transaction.
type Write struct{ session }

// JobsChanged notifies the other processes, after the commit, that a job was
// entered or has ended.
func (w *Write) JobsChanged() error {
	if n, ok := w.session.(interface{ notify(topic string) error }); ok {
		return n.notify(topicJobs)
	}
	return nil
}

// Rest permits the transaction to stay idle for long, where a server would end it.
func (w *Write) Rest() error {
	if s, ok := w.session.(interface{ rest() error }); ok {
		return s.rest()
	}
	return nil
}

// Given is like Database.Given, of a text that the transaction has read.
func (w *Write) Given(text string) string {
	if _, shared := w.session.(*pgTx); shared {
		return given(text)
	}
	return text
}

// Bulk inserts many rows faster than one by one.
type Bulk interface {
	// Insert inserts rows into a table until next returns nil.
	Insert(ctx context.Context, table string, columns []string, next func() ([]any, error)) error
	// Copied is called after the last row, with the tables and columns of generated numbers.
	Copied(generated [][2]string) error
}

// Bulk returns the transaction as a Bulk; nil where inserting one by one is as fast.
func (w *Write) Bulk() Bulk {
	b, _ := w.session.(Bulk)
	return b
}

// Update runs fn in a write transaction. It commits durably if fn returns nil
// and rolls back otherwise. It waits for other writers.
//
// The statements in fn are not cancellable, because the driver starts a
// goroutine for each cancellable one. A long fn checks ctx itself; its error
// rolls the transaction back. An engine on a network may run fn several times, so
// fn sets its results anew.
func (db *Database) Update(ctx context.Context, op string, fn func(w *Write) error) error {
	return db.write(ctx, op, true, fn)
}

// UpdateUnsynced is like Update but does not wait for the disk: a crash of the machine may
// undo it, a crash of the process may not. It is for frequent, dispensable
// writes.
func (db *Database) UpdateUnsynced(ctx context.Context, op string, fn func(w *Write) error) error {
	return db.write(ctx, op, false, fn)
}

// UpdateNames is like Update, for a database in a file. A table that gets another name in fn leaves its name, with the
// foreign keys of other tables, to the table that gets the name next. Foreign keys are not checked meanwhile.
func (db *Database) UpdateNames(ctx context.Context, op string, fn func(w *Write) error) error {
	file, ok := db.engine.(*sqliteFile)
	if !ok {
		return db.Fail(op, errors.ErrUnsupported)
	}
	s, err := file.beginAs(ctx, &sqliteTx{durable: true, renames: true})
	if err != nil {
		return db.Fail(op, err)
	}
	return db.Fail(op, finish(s, db.Waits, func(s session) error { return fn(&Write{s}) }))
}

func (db *Database) write(ctx context.Context, op string, durable bool, fn func(w *Write) error) error {
	return db.Fail(op, inTransaction(ctx, db.engine, db.Waits, durable, func(s session) error { return fn(&Write{s}) }))
}

// inTransaction runs fn in a write transaction of an engine. An engine that is a
// transactor may run fn several times.
func inTransaction(ctx context.Context, e engine, waits *Waits, durable bool, fn func(s session) error) error {
	start := time.Now()
	if t, ok := e.(transactor); ok {
		defer waits.whole.since(start)
		return t.transact(ctx, durable, fn)
	}
	s, err := e.(beginner).begin(ctx, durable) // every engine is one of both
	waits.lock.since(start)
	if err != nil {
		return err
	}
	return finish(s, waits, fn)
}

// finish ends a transaction with a commit, or undoes it if fn fails.
func finish(s transaction, waits *Waits, fn func(s session) error) error {
	if err := fn(s); err != nil {
		s.rollback()
		return err
	}
	defer waits.commit.since(time.Now())
	return s.commit()
}

// IDs reads one integer column of a constant statement.
func (w *Write) IDs(text string, args ...any) ([]int64, error) {
	var list []int64
	err := w.Each(text, args, func(scan Scan) error {
		var id int64
		err := scan(&id)
		list = append(list, id)
		return err
	})
	return list, err
}
