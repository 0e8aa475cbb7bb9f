package engine

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// replayBatch is the most uses of authenticators that one statement records.
const replayBatch = 1000

// replays records uses of authenticators. While a statement is under way, further
// uses wait and are recorded by the next one, all together.
type replays struct {
	mu      sync.Mutex
	waiting []*firstUse // guarded by mu
	running bool        // guarded by mu
}

// firstUse is the use of an authenticator that waits for the database.
type firstUse struct {
	key  [16]byte
	keep time.Duration
	done chan struct{}
	is   bool  // set before done is closed; no process has used it before
	err  error // likewise
}

// FirstUse records the use of a Kerberos authenticator, given by a hash, for a
// duration. It reports whether no process has recorded it within that time. It
// does not wait for the disk: a crash of the database server forgets the uses.
func (db *Database) FirstUse(ctx context.Context, key [16]byte, keep time.Duration) (bool, error) {
	e, ok := db.engine.(*postgres)
	if !ok {
		return true, nil
	}
	u := &firstUse{key: key, keep: keep, done: make(chan struct{})}
	r := &e.replays
	r.mu.Lock()
	r.waiting = append(r.waiting, u)
	if !r.running {
		r.running = true
		go e.recordUses()
	}
	r.mu.Unlock()
	select {
	case <-u.done:
		return u.is, db.Fail("record an authenticator", u.err)
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// recordUses records uses until none waits.
func (e *postgres) recordUses() {
	r := &e.replays
	for {
		r.mu.Lock()
		n := min(len(r.waiting), replayBatch)
		batch := r.waiting[:n:n]
		r.waiting = r.waiting[n:]
		if n == 0 {
			r.waiting, r.running = nil, false
		}
		r.mu.Unlock()
		if n == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), PointLimit)
		first, err := e.firstUses(ctx, batch)
		cancel()
		for _, u := range batch {
			u.is, u.err = first[u], err
			close(u.done)
		}
	}
}

// firstUses records uses with one statement and returns those of authenticators
// that are new. All processes insert in the order of the keys, so that none waits
// for another one that waits for it.
func (e *postgres) firstUses(ctx context.Context, batch []*firstUse) (first map[*firstUse]bool, err error) {
	by := make(map[[16]byte]*firstUse, len(batch))
	for _, u := range batch {
		if by[u.key] == nil {
			by[u.key] = u // a second use within the batch is a replay
		}
	}
	uses := make([]*firstUse, 0, len(by))
	for _, u := range by {
		uses = append(uses, u)
	}
	slices.SortFunc(uses, func(a, b *firstUse) int { return bytes.Compare(a.key[:], b.key[:]) })
	keys, seconds := make([][]byte, len(uses)), make([]float64, len(uses))
	for i, u := range uses {
		keys[i], seconds[i] = u.key[:], u.keep.Seconds()
	}
	err = pgPoints{e}.try(ctx, func(ctx context.Context) (again bool, err error) {
		first = make(map[*firstUse]bool, len(uses))
		rows, err := e.pool.Query(ctx, `INSERT INTO replay (key, until)
			SELECT k.key, now() + make_interval(secs => k.secs) FROM unnest($1::bytea[], $2::double precision[]) AS k(key, secs) ORDER BY k.key
			ON CONFLICT (key) DO UPDATE SET until = excluded.until WHERE replay.until < now() RETURNING key`, keys, seconds)
		if err != nil {
			return true, err
		}
		var key []byte
		_, err = pgx.ForEachRow(rows, []any{&key}, func() error {
			first[by[[16]byte(key)]] = true
			return nil
		})
		return true, err
	})
	return first, err
}
