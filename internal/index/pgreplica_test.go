package index

import (
	"log/slog"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/pgtest"
	"github.com/symdepot/symdepot/internal/index/record"
)

// TestReplicas: a standby answers lookups, but never with less than what this
// process knows: not while it is behind, not when it is away, and not when it has
// become the primary of another history.
func TestReplicas(t *testing.T) {
	primary := pgtest.New(t)
	where := primary.Database(t)
	standby := primary.Standby(t)
	// A busy machine may need longer for a lookup than the limit of a server. The log
	// tells why a replica failed.
	var log symtest.Output
	db, err := Open(t.Context(), where, Options{
		Log:          slog.New(slog.NewTextHandler(&log, nil)),
		Replicas:     []string{standby.URL("test1")},
		replicaLimit: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	w, err := db.Watch()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = db.Close(), w.Close() })

	// found looks a few times, and says how often a replica answered.
	found := func(what string, e record.Entry, want int) (answered uint64) {
		t.Helper()
		before := db.Nodes.Replicas().Answered
		for range 20 {
			if hits := lookupEntry(t, db, all, e); len(hits) != want {
				t.Fatalf("%s: %d objects, want %d", what, len(hits), want)
			}
		}
		return db.Nodes.Replicas().Answered - before
	}
	answers := func(what string, e record.Entry, want int) {
		t.Helper()
		symtest.Await(t, time.Minute, what+": answers of the replica", func() bool { return found(what, e, want) > 0 })
	}
	one := commitTest(t, db, "", pdb(1))
	found("a new object", pdb(1), 1)
	answers("an object", pdb(1), 1)
	answers("a missing key", pdb(9), 0)

	standby.In(t, "test1", "SELECT pg_wal_replay_pause()")
	standby.Await(t, "a replica that stands still", "SELECT pg_get_wal_replay_pause_state() = 'paused'")
	commitTest(t, db, "", pdb(2))
	if n := found("a new object beside a replica that is behind", pdb(2), 1); n > 0 {
		t.Errorf("%d answers of a replica that is behind, want 0", n)
	}
	if _, err := db.Remove(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	if n := found("a removed object beside a replica that is behind", pdb(1), 0); n > 0 {
		t.Errorf("%d answers of a replica that is behind, want 0", n)
	}
	if s := db.Nodes.Replicas(); s.Behind == 0 || s.Failed > 0 {
		t.Errorf("%+v, want some lookups that found the replica behind, and no failure; log: %s", s, log.String())
	}
	standby.In(t, "test1", "SELECT pg_wal_replay_resume()")
	answers("a removed object", pdb(1), 0)
	answers("a new object", pdb(2), 1)

	// Another history that has a generation of the same number.
	standby.Cut(t)
	commitTest(t, db, "", pdb(3))
	standby.Promote(t)
	other, err := Open(t.Context(), standby.URL("test1"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for n := 4; n <= 6; n++ {
		commitTest(t, other, "", pdb(n))
	}
	for n := 4; n <= 6; n++ {
		if answered := found("an object of another history", pdb(n), 0); answered > 0 {
			t.Errorf("%d answers of a server with another history, want 0", answered)
		}
	}
	found("an object that the other history lacks", pdb(3), 1)

	standby.Stop(t, "immediate")
	found("an object beside a replica that is away", pdb(2), 1)
	if s := db.Nodes.Replicas(); s.Failed == 0 {
		t.Errorf("%+v, want a failure", s)
	}
}

// TestReplicasOfSQLite: an index in a file has none.
func TestReplicasOfSQLite(t *testing.T) {
	db, err := Open(t.Context(), t.TempDir()+"/index.db", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if s := db.Nodes.Replicas(); s != (engine.ReplicaStatus{}) {
		t.Errorf("%+v, want nothing", s)
	}
}
