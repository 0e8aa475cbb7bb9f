package engine

import (
	"testing"

	"github.com/symdepot/symdepot/internal/index/pgtest"
	"github.com/symdepot/symdepot/internal/remote/proxytest"
)

// A generation that was succeeded within the last day is known; older ones are
// swept, but never the newest of them.
func TestHistoryIsSwept(t *testing.T) {
	t.Parallel()
	db, err := Open(t.Context(), pgtest.Shared(t).Database(t), options())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for range 6 {
		change(t, db)
	}
	e := onServer(db)
	var first, rows int64
	for _, q := range []string{"UPDATE history SET made = now() - interval '2 days' WHERE generation <= (SELECT generation - 2 FROM state)", sweepHistory} {
		if _, err := e.pool.Exec(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	var current int64
	if err := e.pool.QueryRow(t.Context(), "SELECT min(h.generation), count(*), min(s.generation) FROM history h, state s").Scan(&first, &rows, &current); err != nil {
		t.Fatal(err)
	}
	if first != current-2 || rows != 3 {
		t.Errorf("%d generations from %d on are left of %d, want 3 from %d on", rows, first, current, current-2)
	}
}

// TestSilentHost: if the first of two hosts accepts connections and answers nothing,
// processes use the second one, and lookups are answered in time.
func TestSilentHost(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	silent := proxytest.New(t, server.Addr())
	silent.Set(proxytest.Fault{ToServer: true, ToClient: true})
	where := pgtest.Via(t, newDatabase(t), silent.Addr()+","+server.Addr())
	db, err := Open(t.Context(), where+"&target_session_attrs=read-write", options())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	change(t, db)
	// Further connections go to the second host at once.
	tried := silent.Connections()
	for range 5 {
		onServer(db).pool.Reset()
		if n, err := db.Generation(t.Context()); n == 0 || err != nil {
			t.Errorf("the generation is %d beside a silent host, %v; want one", n, err)
		}
	}
	if n := silent.Connections() - tried; n > 0 {
		t.Errorf("%d further connections to the silent host, want none", n)
	}
}
