package index

import (
	"context"
	"time"
)

// write is one write transaction.
type write struct{ session }

// jobsChanged notifies the other processes, after the commit, that a job was
// entered or has ended.
func (w *write) jobsChanged() error {
	if n, ok := w.session.(interface{ notify(topic string) error }); ok {
		return n.notify(topicJobs)
	}
	return nil
}

// update runs fn in a write transaction. It commits durably if fn returns nil
// and rolls back otherwise. It waits for other writers.
//
// The statements in fn are not cancellable, because the driver starts a
// goroutine for each cancellable one. A long fn checks ctx itself; its error
// rolls the transaction back. An engine on a network may run fn several times, so
// fn sets its results anew.
func (db *DB) update(ctx context.Context, op string, fn func(w *write) error) error {
	return db.write(ctx, op, true, fn)
}

// updateUnsynced is like update but does not wait for the disk: a crash of the machine may
// undo it, a crash of the process may not. It is for frequent, dispensable
// writes.
func (db *DB) updateUnsynced(ctx context.Context, op string, fn func(w *write) error) error {
	return db.write(ctx, op, false, fn)
}

func (db *DB) write(ctx context.Context, op string, durable bool, fn func(w *write) error) error {
	return db.fail(op, inTransaction(ctx, db.engine, &db.Waits, durable, func(s session) error { return fn(&write{s}) }))
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
	if err := fn(s); err != nil {
		s.rollback()
		return err
	}
	defer waits.commit.since(time.Now())
	return s.commit()
}

// ids reads one integer column of a constant statement.
func (w *write) ids(text string, args ...any) ([]int64, error) {
	var list []int64
	err := w.each(text, args, func(scan scanFunc) error {
		var id int64
		err := scan(&id)
		list = append(list, id)
		return err
	})
	return list, err
}
