package index

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// Several processes answer from memory while others write. Each keeps a row in
// the table of nodes with the generation that it knows:
//
//   - The process that writes sees its write at once.
//   - A write returns once every node knows of it, or has not asked for
//     staleAfter.
//   - A node counts staleAfter from when it sent its last question, on its own
//     clock. Later it answers nothing from memory. So a silent node has stopped
//     before writers give it up, whatever the clocks show.
//   - Each generation has a random salt, and a node says which of both it knows.
//     If the database does not have them, its history was rewound: by a failover
//     that lost writes, or by the restore of a backup. The salt is also what
//     memory is compared by, so that nothing of the lost history is used when the
//     generation reaches the same number again.
//   - After a failover or a restore the rows of nodes may be older than what the
//     nodes know. So a write waits until nodes that have not asked the new server
//     are silent for staleAfter.
const (
	askEvery   = 500 * time.Millisecond
	staleAfter = 2 * time.Second
	// channel wakes the nodes before their next question.
	channel = "symdepot"
)

// errStale means that the generation is not known well enough to answer from
// memory.
var errStale = errors.New("the database has not answered for two seconds")

// pgWatch knows the generation of the index from memory.
type pgWatch struct {
	e    *postgres
	id   string
	end  context.CancelFunc
	done chan struct{}

	asking   sync.Mutex // one question at a time: no answer is older than the one before
	question int64      // guarded by asking: number of the last question
	mu       sync.Mutex
	known    *moment   // what the last answer said; nil: none yet
	asked    time.Time // when the question was sent; zero: not known
	written  time.Time // of the last write of this process
}

// moment is a point of the history of an index.
type moment struct{ generation, salt int64 }

func (e *postgres) watch() (watcher, error) {
	ctx, end := context.WithCancel(context.Background())
	w := &pgWatch{e: e, id: rand.Text(), end: end, done: make(chan struct{})}
	if err := w.ask(ctx); err != nil {
		end()
		return nil, err
	}
	e.mu.Lock()
	e.watches = append(e.watches, w)
	e.mu.Unlock()
	go w.run(ctx)
	return w, nil
}

// ask reads the generation, and tells the other nodes which one this node knows.
// The row of this node is never ahead of its memory: a writer that reads the row
// may return at once. So a new generation takes a second question.
func (w *pgWatch) ask(ctx context.Context) error {
	if w.e.readOnly {
		return ErrReadOnly
	}
	ctx, cancel := context.WithTimeout(ctx, staleAfter)
	defer cancel()
	w.asking.Lock()
	defer w.asking.Unlock()
	for {
		told, now, err := w.askOnce(ctx)
		if err != nil || told == now {
			return err
		}
	}
}

// askOnce tells which generation this node knows and reads the current one. A
// node that answers nothing from memory tells the current one, because it reads
// everything from the database until the answer is here.
func (w *pgWatch) askOnce(ctx context.Context) (told, now int64, err error) {
	w.mu.Lock()
	last, silent := w.known, w.asked.IsZero()
	w.mu.Unlock()
	var generation, salt *int64
	if last != nil {
		generation, salt = &last.generation, &last.salt
	}
	w.question++
	sent := time.Now()
	var current moment
	var kept bool
	var floor int
	var server time.Time
	if err := w.e.pool.QueryRow(ctx, askText, w.id, generation, salt, silent, len(w.e.steps()), w.question).Scan(&told, &kept, &current.generation, &current.salt, &floor, &server); err != nil {
		return 0, 0, err
	}
	w.e.clock.set(server, sent, time.Now())
	if floor > len(w.e.steps()) && w.e.outdated.CompareAndSwap(false, true) {
		w.e.log.Error("a newer version has changed the database so that this one cannot use it: restart this process with that version", "database", w.e.host)
	}
	if w.e.outdated.Load() {
		return 0, 0, errOutdated
	}
	w.e.saw(nil)
	w.mu.Lock()
	w.known = &current
	// An answer must not hide a write of this process that came after the question.
	if sent.After(w.written) {
		w.asked = sent
	}
	w.mu.Unlock()
	if !kept {
		w.e.noteRewound(last.generation, current.generation)
	}
	return told, current.generation, nil
}

// askText renews the row of node $1, of format $5. It knows generation $2 with the
// salt $3, or answers nothing from memory ($4). A node that knows a lost history
// knows nothing of this one. A question that arrives after a later one ($6) changes
// nothing and has no answer: the node no longer waits for it.
const askText = `WITH s AS (
	  SELECT generation, salt, format_floor, $2::bigint IS NULL OR EXISTS (SELECT 1 FROM history WHERE generation = $2 AND salt = $3) AS kept FROM state WHERE one = 1
	)
	INSERT INTO node (id, generation, asked, format, question)
	SELECT $1, CASE WHEN $4 OR $2::bigint IS NULL THEN generation WHEN kept THEN $2 ELSE 0 END, now(), $5, $6 FROM s
	ON CONFLICT (id) DO UPDATE SET generation = excluded.generation, asked = excluded.asked, format = excluded.format, question = excluded.question
	WHERE node.question < excluded.question
	RETURNING generation, (SELECT kept FROM s), (SELECT generation FROM s), (SELECT salt FROM s), (SELECT format_floor FROM s), clock_timestamp()`

// noteRewound says that memory of an undone write was dropped.
func (e *postgres) noteRewound(known, now int64) {
	e.log.Warn("the database has lost its last writes by a failover or a restore: what this process remembered of them is dropped",
		"database", e.host, "known_generation", known, "generation", now)
	e.mu.Lock()
	fn := e.rewound
	e.mu.Unlock()
	if fn != nil {
		fn()
	}
}

// run asks twice a second, and whenever a writer notifies.
func (w *pgWatch) run(ctx context.Context) {
	defer close(w.done)
	for ctx.Err() == nil {
		if err := w.listen(ctx); err != nil && ctx.Err() == nil {
			w.e.saw(err)
			_ = w.ask(ctx) // without a connection that listens
			pause(ctx, askEvery)
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// listen asks until its connection fails.
func (w *pgWatch) listen(ctx context.Context) error {
	pooled, err := w.e.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	conn := pooled.Hijack() // it must not return to the pool while it listens
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return err
	}
	for {
		if err := w.ask(ctx); err != nil {
			return err
		}
		w.e.finishUpgrade(ctx)
		if err := waitFor(ctx, conn); err != nil {
			return err
		}
	}
}

// waitFor waits for a notification or for the time of the next question.
func waitFor(ctx context.Context, conn *pgx.Conn) error {
	wait, cancel := context.WithTimeout(ctx, askEvery)
	defer cancel()
	_, err := conn.WaitForNotification(wait)
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// writes returns the salt of the generation. It changes with every write that
// others must notice.
func (w *pgWatch) writes() (uint64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.asked) > staleAfter {
		return 0, errStale
	}
	return uint64(w.known.salt), nil
}

// wrote makes the generation unknown until the next answer, because this process
// has written.
func (w *pgWatch) wrote() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked, w.written = time.Time{}, time.Now()
}

func (w *pgWatch) close() error {
	w.end()
	<-w.done
	return nil
}

// noticed waits until all nodes know the current generation, or have been silent
// for staleAfter. An error of the database does not undo the write: it waits until
// the nodes have stopped answering from memory by themselves. If another server has taken
// over, nodes whose rows were lost may answer by the old one for staleAfter.
func (e *postgres) noticed(ctx context.Context) {
	e.mu.Lock()
	watches := e.watches
	e.mu.Unlock()
	for _, w := range watches {
		w.wrote()
		_ = w.ask(ctx)
	}
	limit := time.Now().Add(staleAfter + askEvery)
	ctx, cancel := context.WithDeadline(ctx, limit)
	defer cancel()
	for pauseFor := 5 * time.Millisecond; time.Now().Before(limit) && ctx.Err() == nil; pauseFor = min(2*pauseFor, 100*time.Millisecond) {
		var behind int
		err := e.pool.QueryRow(ctx, behindText, staleAfter.Seconds()).Scan(&behind)
		if err == nil && behind == 0 || unmigrated(err) {
			return
		}
		if broken(err) {
			e.reset()
		}
		pause(ctx, pauseFor)
	}
}

// unmigrated reports whether a table or a column does not exist: the index has an
// old format or is being made, and no node uses it.
func unmigrated(err error) bool {
	c := code(err)
	return c == "42P01" || c == "42703"
}

const behindText = `SELECT (SELECT count(*) FROM node WHERE node.generation < state.generation AND node.asked > now() - make_interval(secs => $1))
	+ CASE WHEN state.moved > now() - make_interval(secs => $1) THEN 1 ELSE 0 END FROM state WHERE one = 1`

// sweepNodes deletes the rows of processes that ended.
func (e *postgres) sweepNodes(ctx context.Context) error {
	_, err := e.pool.Exec(ctx, "DELETE FROM node WHERE asked < now() - interval '1 hour'")
	if err != nil {
		return fmt.Errorf("delete the rows of ended processes: %w", err)
	}
	return nil
}
