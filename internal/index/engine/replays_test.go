package engine

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// Uses of authenticators that come while another one is recorded are recorded
// together: a database that is far away does not make each client wait for the one
// before.
func TestReplaysTogether(t *testing.T) {
	t.Parallel()
	where := newDatabase(t)
	var turns turnCounter
	var dbs []*Database
	for i := range 2 {
		opt := options()
		if i == 0 {
			opt.Dial = turns.dial
		}
		db, err := Open(t.Context(), where, opt)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		dbs = append(dbs, db)
	}
	counted, other := dbs[0], dbs[1]
	use := func(db *Database, key byte) bool {
		is, err := db.FirstUse(t.Context(), [16]byte{key}, time.Hour)
		if err != nil {
			t.Errorf("authenticator %d: %v", key, err)
		}
		return is
	}
	// While a transaction holds the row of an authenticator, its use waits, and so do
	// all that come later.
	conn, err := onServer(other).pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	held := [16]byte{200}
	if _, err := conn.Exec(t.Context(), "INSERT INTO replay (key, until) VALUES ($1, now() + interval '1 hour')", held[:]); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		if use(counted, 200) {
			t.Error("an authenticator that another process has recorded is new")
		}
	})
	replays := &onServer(counted).replays
	waiting := func() (n int, running bool) {
		replays.mu.Lock()
		defer replays.mu.Unlock()
		return len(replays.waiting), replays.running
	}
	symtest.Await(t, time.Minute, "the first statement", func() bool {
		n, running := waiting()
		return n == 0 && running
	})
	const keys = 40
	var first [keys]atomic.Int32
	for i := range 3 * keys {
		all.Go(func() {
			if use(counted, byte(i%keys)) {
				first[i%keys].Add(1)
			}
		})
	}
	symtest.Await(t, time.Minute, "the waiting uses", func() bool {
		n, _ := waiting()
		return n == 3*keys
	})
	before := turns.n.Load()
	if err := conn.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if n := turns.n.Load() - before; n > 3 { // one of the first statement, and a statement that was not prepared
		t.Errorf("%d round trips for %d uses, want at most 3", n, 3*keys)
	}
	for i := range first {
		if n := first[i].Load(); n != 1 {
			t.Errorf("authenticator %d: %d first uses, want 1", i, n)
		}
		if use(other, byte(i)) {
			t.Errorf("authenticator %d is new for another process", i)
		}
	}
}
