package engine

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/symdepot/symdepot/internal/base/ctxio"
	"github.com/symdepot/symdepot/internal/base/sorting"
)

// Several processes answer from memory while others write. Each keeps a row in
// the table of nodes with the generation that it knows:
//
//   - The process that writes sees its write at once.
//   - A write returns once every node knows of it, or has not asked for
//     staleAfter.
//   - A node answers from memory until staleAfter has passed, on its own clock, since
//     it sent the question before the last answered one. A silent node therefore
//     stops before writers stop waiting for it, whatever the clocks show. The last
//     question itself does not count, because the database may still have been
//     writing its row: a writer that did not see that row may have committed a write
//     that the answer lacks. The row of the question before was committed.
//   - Each generation has a random salt, and a node sends the generation and the salt
//     that it knows. If the database does not have this pair, its history was rewound: a failover has lost
//     writes, or a backup was restored. Remembered answers carry the salt too, so
//     that none of the lost history is used when the generation reaches the same
//     number again.
//   - After a failover or a restore, the rows of nodes may be older than the memory of
//     the nodes. A write then waits until all nodes that have not asked the new server
//     have been silent for staleAfter.
const (
	askEvery   = 500 * time.Millisecond
	staleAfter = 2 * time.Second
	// peerAfter is how long a node that has an address counts as a peer after its
	// last question. It is longer than staleAfter, so that a busy moment does not
	// change who owns which keys: a peer that does not answer costs little.
	peerAfter = 10 * time.Second
	// firstAnswer is how long a process waits for the first answer.
	firstAnswer = 20 * time.Second
	// Channel wakes the nodes before their next question. With topicJobs, the
	// queue of jobs has changed.
	Channel   = "symdepot"
	topicJobs = "jobs"
)

// errStale means that the generation is not known well enough to answer from
// memory.
var errStale = errors.New("the database has not answered for two seconds")

// pgWatch knows from memory the generation of the index and what the nodes tell
// each other.
type pgWatch struct {
	e    *postgres
	id   string
	end  context.CancelFunc
	done chan struct{}

	asking   sync.Mutex // one question at a time, so that answers arrive in order
	question int64      // guarded by asking: number of the last question
	mu       sync.Mutex
	known    *moment   // of the last answer; nil: no answer yet
	asked    time.Time // from when on the last answer counts; zero: it does not
	sent     time.Time // when the last answered question was sent
	written  time.Time // of the last write of this process
	address  string    // announced
	facts    string    // sent with each question
	shared   Shared    // of the last answer
	epoch    int64     // of misses, of the last answer; 0: none yet
	bumps    uint64    // how often the epoch was of a lost history
	jobs     func()    // called when the queue of jobs may have changed
}

// moment is a point of the history of an index.
type moment struct{ generation, salt int64 }

func (e *postgres) watch() (watcher, error) {
	ctx, end := context.WithCancel(context.Background())
	w := &pgWatch{e: e, id: rand.Text(), end: end, done: make(chan struct{})}
	start := time.Now()
	for err := w.ask(ctx); err != nil; err = w.ask(ctx) {
		// A busy server may take longer once than an answer is worth.
		if !passes(err) && !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > firstAnswer {
			end()
			return nil, err
		}
	}
	e.mu.Lock()
	e.watches = append(e.watches, w)
	e.mu.Unlock()
	go w.run(ctx)
	return w, nil
}

// ask reads the generation, and publishes the one that this node knows. A writer
// that reads the row of this node may return at once, so the row is never ahead of
// the node's memory. A new generation therefore takes a second question.
func (w *pgWatch) ask(ctx context.Context) error {
	if w.e.readOnly {
		return ErrReadOnly
	}
	ctx, cancel := context.WithTimeout(ctx, staleAfter)
	defer cancel()
	w.asking.Lock()
	defer w.asking.Unlock()
	for {
		current, err := w.askOnce(ctx)
		if err != nil || current {
			return err
		}
	}
}

// askOnce publishes the generation and the epoch of misses that this node knows,
// and reads the current ones. It reports whether they are equal and the answer
// counts. A node that answers nothing from memory publishes the current generation,
// because it reads everything from the database until the answer arrives.
func (w *pgWatch) askOnce(ctx context.Context) (equal bool, err error) {
	w.mu.Lock()
	last, silent, address, facts := w.known, w.asked.IsZero(), w.address, w.facts
	var epoch *int64
	if e := w.epoch; e != 0 {
		epoch = &e
	}
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
	var told, toldEpoch, currentEpoch int64
	var nodes, pauses string
	var server time.Time
	if err := w.e.pool.QueryRow(ctx, askText, w.id, generation, salt, silent, len(w.e.steps()), epoch, address,
		staleAfter.Seconds(), peerAfter.Seconds(), w.question, facts).Scan(
		&told, &kept, &current.generation, &current.salt, &floor, &toldEpoch, &currentEpoch, &nodes, &pauses, &server); err != nil {
		return false, err
	}
	w.e.clock.set(server, sent, time.Now())
	if floor > len(w.e.steps()) && w.e.outdated.CompareAndSwap(false, true) {
		w.e.log.Error("a newer version has changed the database so that this one cannot use it: restart this process with that "+
			"version", "database", w.e.host)
	}
	if w.e.outdated.Load() {
		return false, errOutdated
	}
	shared := Shared{Self: w.id, Asked: sent}
	if err := shared.parse(nodes, pauses, sent); err != nil {
		return false, fmt.Errorf("read the rows of the nodes: %w", err)
	}
	if address != "" {
		shared.Peers = append(shared.Peers, Peer{w.id, address})
	}
	sorting.By(shared.Peers, func(a, b Peer) int { return cmp.Compare(a.ID, b.ID) })
	w.e.saw(running(), nil)
	w.mu.Lock()
	w.known, w.epoch = &current, currentEpoch
	if !kept {
		w.bumps++ // the epoch is of a lost history
	}
	shared.MissEpoch = uint64(currentEpoch) + w.bumps<<32
	w.shared = shared
	// An answer must not hide a write of this process that came after the question.
	if sent.After(w.written) {
		w.asked = w.sent
	}
	w.sent = sent
	counts := !w.asked.IsZero() && time.Since(w.asked) < staleAfter
	w.mu.Unlock()
	if !kept {
		w.e.noteRewound(last.generation, current.generation)
	}
	return counts && told == current.generation && toldEpoch == currentEpoch, nil
}

// askText renews the row of node $1, of format $5. The node knows generation $2 with
// the salt $3, or answers nothing from memory ($4), and knows the epoch of misses $6.
// A generation of a lost history counts as none. The answer has
//
//   - the current generation, salt and epoch,
//   - the number of other live nodes, and by how many generations the slowest one is
//     behind,
//   - the addresses and facts of the nodes that asked lately,
//   - the pauses of upstreams, with the seconds that are left.
//
// A question that arrives after a later one ($10) changes nothing and has no answer:
// the node no longer waits for it.
const askText = `WITH s AS (
	  SELECT generation, salt, format_floor, $2::bigint IS NULL
		OR EXISTS (SELECT 1 FROM history WHERE generation = $2 AND salt = $3) AS kept FROM state WHERE one = 1
	), e AS (SELECT n FROM epoch WHERE name = 'miss'),
	known AS (SELECT *, asked > now() - make_interval(secs => $8) AS is_live FROM node
		WHERE id <> $1 AND asked > now() - make_interval(secs => $9))
	INSERT INTO node (id, generation, asked, format, epoch, address, question, facts)
	SELECT $1, CASE WHEN $4 OR $2::bigint IS NULL THEN generation WHEN kept THEN $2 ELSE 0 END,
		now(), $5, coalesce($6, n), $7, $10, $11 FROM s, e
	ON CONFLICT (id)
		DO UPDATE SET generation = excluded.generation, asked = excluded.asked, format = excluded.format, epoch = excluded.epoch,
		address = excluded.address,
		question = excluded.question, facts = excluded.facts
	WHERE node.question < excluded.question
	RETURNING generation, (SELECT kept FROM s), (SELECT generation FROM s), (SELECT salt FROM s), (SELECT format_floor FROM s),
	epoch, (SELECT n FROM e),
	(SELECT json_build_array(count(*) FILTER (WHERE is_live), coalesce(max((SELECT generation
		FROM s) - known.generation) FILTER (WHERE is_live), 0),
		coalesce(json_agg(json_build_array(known.id, known.address)) FILTER (WHERE known.address <> ''), '[]'),
		coalesce(json_agg(known.facts) FILTER (WHERE known.facts <> ''), '[]'))::text FROM known),
	(SELECT coalesce(json_agg(json_build_array(source, why, extract(epoch FROM until - now())::double precision)), '[]')::text
		FROM pause WHERE until > now()), clock_timestamp()`

// noteRewound reports that the memory of lost writes was dropped.
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

// parse reads the other nodes and the pauses of an answer.
func (s *Shared) parse(nodes, pauses string, now time.Time) error {
	var addresses [][2]string
	if err := json.Unmarshal([]byte(nodes), &[]any{&s.Nodes, &s.Lag, &addresses, &s.Facts}); err != nil {
		return err
	}
	s.Nodes++ // this one
	for _, a := range addresses {
		s.Peers = append(s.Peers, Peer{a[0], a[1]})
	}
	var rows [][]any
	if err := json.Unmarshal([]byte(pauses), &rows); err != nil {
		return err
	}
	for _, r := range rows {
		source, _ := r[0].(string)
		why, _ := r[1].(string)
		seconds, _ := r[2].(float64)
		s.Pauses = append(s.Pauses, Pause{source, now.Add(time.Duration(seconds * float64(time.Second))), why})
	}
	return nil
}

// announce publishes the address of this node, from the next answer on; empty:
// none.
func (w *pgWatch) announce(ctx context.Context, address string) error {
	w.mu.Lock()
	w.address = address
	w.mu.Unlock()
	return w.ask(ctx)
}

// tell publishes facts of this node, from the next question on.
func (w *pgWatch) tell(facts string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.facts = facts
}

// news returns the last answer. ok is false if it is too old.
func (w *pgWatch) news() (s Shared, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	age := time.Since(w.shared.Asked)
	if w.shared.Asked.IsZero() || age > peerAfter {
		return w.shared, false
	}
	s = w.shared
	s.Current = age <= staleAfter
	return s, true
}

// onJobs has a function called when the queue of jobs may have changed.
func (w *pgWatch) onJobs(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.jobs = f
}

func (w *pgWatch) ringJobs() {
	w.mu.Lock()
	f := w.jobs
	w.mu.Unlock()
	if f != nil {
		f()
	}
}

// run asks twice a second, and whenever a writer notifies.
func (w *pgWatch) run(ctx context.Context) {
	defer close(w.done)
	for ctx.Err() == nil {
		began := running()
		if err := w.listen(ctx); err != nil && ctx.Err() == nil {
			w.e.saw(began, err)
			_ = w.ask(ctx) // without a connection that listens
			_ = ctxio.Pause(ctx, askEvery)
		}
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
	if _, err := conn.Exec(ctx, "LISTEN "+Channel); err != nil {
		return err
	}
	w.ringJobs() // a notification may have been lost
	for {
		if err := w.ask(ctx); err != nil {
			return err
		}
		w.e.finishUpgrade(ctx)
		for next := time.Now().Add(askEvery); ; {
			topic, err := waitFor(ctx, conn, next)
			if err != nil {
				return err
			}
			if topic == topicJobs {
				w.ringJobs()
			}
			if topic != topicJobs || !time.Now().Before(next) {
				break
			}
		}
	}
}

// waitFor waits for a notification or until a time. It returns the topic.
func waitFor(ctx context.Context, conn *pgx.Conn, until time.Time) (topic string, err error) {
	wait, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	n, err := conn.WaitForNotification(wait)
	switch {
	case err == nil:
		return n.Payload, nil
	case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
		return "", nil
	}
	return "", err
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

func (w *pgWatch) Close() error {
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
		_ = ctxio.Pause(ctx, pauseFor)
	}
}

// unmigrated reports whether a table or a column does not exist: the index has an
// old format or is being made, and no node uses it.
func unmigrated(err error) bool {
	c := code(err)
	return c == "42P01" || c == "42703"
}

const behindText = `SELECT (SELECT count(*) FROM node, epoch
	WHERE epoch.name = 'miss' AND (node.generation < state.generation OR node.epoch < epoch.n)
	AND node.asked > now() - make_interval(secs => $1))
	+ CASE WHEN state.moved > now() - make_interval(secs => $1) THEN 1 ELSE 0 END FROM state WHERE one = 1`

// sweepNodes deletes the rows of processes that ended, and old rows that
// processes share.
func (e *postgres) sweepNodes(ctx context.Context) error {
	for _, text := range []string{
		"DELETE FROM node WHERE asked < now() - interval '1 hour'",
		"DELETE FROM pause WHERE until < now()",
		"DELETE FROM replay WHERE until < now()",
		"DELETE FROM duty WHERE done IS NULL AND until < now() - interval '1 day'",
	} {
		if _, err := e.pool.Exec(ctx, text); err != nil {
			return fmt.Errorf("delete the rows of ended processes: %w", err)
		}
	}
	return nil
}
