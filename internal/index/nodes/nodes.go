// Package nodes is the part of an index through which the processes on one database work
// together: chores that one of them does, pauses of upstreams, uses of authenticators.
package nodes

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"time"

	"github.com/symdepot/symdepot/internal/index/engine"
)

// Nodes is the part of the index through which the processes on one database
// work together. An index in a file has no such part: its methods then act as if
// this process were the only one.
//
// All times are those of the database's clock.
type Nodes struct {
	db   *engine.Database
	life time.Duration // how long the holder of a duty may be silent
}

// NewNodes returns what the processes on a database share. life is how long the holder of a
// duty may be silent before another process takes over.
func NewNodes(db *engine.Database, life time.Duration) Nodes { return Nodes{db, life} }

// Shared reports whether processes of several machines can use the index.
func (n Nodes) Shared() bool {
	return n.db.Shared()
}

const (
	holdDuty = `INSERT INTO duty (name, node, until) VALUES ($1, $2, now() + make_interval(secs => $3))
		ON CONFLICT (name) DO UPDATE SET node = excluded.node, until = excluded.until
		WHERE duty.until < now() AND (duty.done IS NULL OR duty.done <= now() - make_interval(secs => $4)) RETURNING true`
	renewDuty = `UPDATE duty SET until = now() + make_interval(secs => $3) WHERE name = $1 AND node = $2 RETURNING true`
	endDuty   = `UPDATE duty SET until = now() - interval '1 microsecond', done = CASE WHEN $3 THEN now() ELSE done END
		WHERE name = $1 AND node = $2 RETURNING true`
	// dropDuty is for work that is done once.
	dropDuty = `DELETE FROM duty WHERE name = $1 AND node = $2 RETURNING true`
)

// Do runs a chore unless it is running, in this process or another, or was run successfully
// within the time every. It reports whether run was called. The context of run
// ends if another process takes the chore over, which happens after this one has
// not reached the database for half a minute.
func (n Nodes) Do(ctx context.Context, chore string, every time.Duration, run func(ctx context.Context) error) (ran bool, err error) {
	return n.lease(ctx, chore, every, endDuty, run)
}

// Once runs a piece of work unless it is being done, by this process or another. It reports
// whether run was called.
func (n Nodes) Once(ctx context.Context, work string, run func(ctx context.Context) error) (ran bool, err error) {
	return n.lease(ctx, work, 0, dropDuty, run)
}

func (n Nodes) lease(ctx context.Context, name string, every time.Duration, end string,
	run func(ctx context.Context) error) (ran bool, err error) {
	if !n.Shared() {
		return true, run(ctx)
	}
	holder := rand.Text()
	held, err := n.row(ctx, "take a duty", holdDuty, name, holder, n.life.Seconds(), every.Seconds())
	if err != nil || !held {
		return false, err
	}
	held, err = n.whileHeld(ctx, name, holder, run)
	if !held {
		return true, err
	}
	// The end is recorded even if ctx has ended, so that the next process need not
	// wait.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), engine.PointLimit)
	defer cancel()
	args := []any{name, holder}
	if end == endDuty {
		args = append(args, err == nil)
	}
	_, eerr := n.row(last, "end a duty", end, args...)
	return true, errors.Join(err, eerr)
}

// errDutyLost ends the context of a chore that another process has taken over.
var errDutyLost = errors.New("another process has taken over")

// whileHeld runs a chore and renews its lease meanwhile. held is false if the
// lease was lost.
func (n Nodes) whileHeld(ctx context.Context, name, holder string, run func(ctx context.Context) error) (held bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	end, renewing := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(renewing)
		life := n.life
		tick := time.NewTicker(life / 3)
		defer tick.Stop()
		for renewed := time.Now(); ; {
			select {
			case <-end:
				return
			case <-tick.C:
			}
			sent := time.Now()
			held, err := n.row(context.WithoutCancel(ctx), "renew a duty", renewDuty, name, holder, life.Seconds())
			switch {
			case err == nil && held:
				renewed = sent
			case err == nil || time.Since(renewed) > life:
				cancel(errDutyLost)
				return
			}
		}
	}()
	err = run(ctx)
	close(end)
	<-renewing
	held = !errors.Is(context.Cause(ctx), errDutyLost)
	cancel(nil)
	return held, err
}

// row runs a statement that returns true or no row.
func (n Nodes) row(ctx context.Context, op, text string, args ...any) (is bool, err error) {
	err = n.db.Points.Row(ctx, text, args, &is)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return is, n.db.Fail(op, err)
}

// Pause tells the other processes that an upstream must not be asked for a
// duration.
func (n Nodes) Pause(ctx context.Context, upstream string, d time.Duration, why string) error {
	if !n.Shared() {
		return nil
	}
	_, err := n.row(ctx, "record a pause", `WITH put AS (INSERT INTO pause (source, until, why)
		VALUES ($1, now() + make_interval(secs => $2), $3)
		ON CONFLICT (source) DO UPDATE SET until = greatest(pause.until, excluded.until), why = excluded.why RETURNING true)
		SELECT true FROM put, pg_notify('`+engine.Channel+`', '')`, engine.Text(upstream), d.Seconds(), engine.Text(why))
	return err
}

// Sweep deletes the rows of ended processes, pauses and work, and of old
// authenticators.
func (n Nodes) Sweep(ctx context.Context) error {
	return n.db.Fail("delete old rows", n.db.SweepNodes(ctx))
}

// Pool returns the state of the connections. ok is false for an index in a file.
func (n Nodes) Pool() (p engine.Pool, ok bool) { return n.db.Pool() }

// Replicas counts what replicas of the database did for this process; zero if there are
// none.
func (n Nodes) Replicas() engine.ReplicaStatus { return n.db.Replicas() }

// FirstUse records the use of a Kerberos authenticator, given by a hash, for a
// duration. It reports whether no process has recorded it within that time. It
// does not wait for the disk: a crash of the database server forgets the uses.
func (n Nodes) FirstUse(ctx context.Context, key [16]byte, keep time.Duration) (bool, error) {
	return n.db.FirstUse(ctx, key, keep)
}
