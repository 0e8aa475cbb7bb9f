package index

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/pgtest"
	"github.com/symdepot/symdepot/internal/index/record"
)

// nodeTest is an index as a node uses it: it answers from memory.
type nodeTest struct {
	*DB
	watch  *engine.Watch
	filter *Filter
}

func openNode(t *testing.T, where string) *nodeTest {
	t.Helper()
	db, err := Open(t.Context(), where, Options{})
	if err != nil {
		t.Fatal(err)
	}
	n := &nodeTest{DB: db, filter: db.NewFilter()}
	if n.watch, err = db.Watch(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = db.Close(), n.watch.Close() })
	return n
}

// state awaits the state that the node knows.
func (n *nodeTest) state(t *testing.T) (state uint64) {
	t.Helper()
	symtest.Await(t, time.Minute, "a node that knows the generation", func() bool {
		var err error
		state, err = n.watch.State()
		return err == nil
	})
	return state
}

// excludes reports whether the node answers a key with 404 from memory, after it
// has read the keys of its state.
func (n *nodeTest) excludes(t *testing.T, e record.Entry) bool {
	t.Helper()
	state := n.state(t)
	if err := n.filter.Refresh(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	excluded, fresh := n.filter.Excludes(state, all, e.Aliases[0].ID)
	if !fresh {
		t.Fatal("the filter does not answer for the state that it was refreshed for")
	}
	return excluded
}

// TestRewind replaces the database of a node by an older copy, in which other
// writes then bring the generation, the numbers and the ids of objects to the same
// values again. The node answers nothing from what it remembers.
func TestRewind(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	for _, c := range []struct {
		name        string
		lost, after int // writes
	}{{"same generation", 2, 2}, {"lower generation", 3, 1}, {"higher generation", 1, 3}} {
		t.Run(c.name, func(t *testing.T) {
			where := newDatabase(t)
			node := openNode(t, where)
			var rewinds atomic.Int32
			node.OnRewind(func() { rewinds.Add(1) })
			commitTest(t, node.DB, "", pdb(1))
			snapshot := server.Snapshot(t, where)
			for i := range c.lost {
				commitTest(t, node.DB, "", pdb(10+i))
			}
			known := node.state(t)
			if node.excludes(t, pdb(10)) {
				t.Error("the filter excludes what was added")
			}

			server.Rewind(t, where, snapshot)
			other, err := Open(t.Context(), where, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			for i := range c.after {
				if number := commitTest(t, other, "", pdb(20+i)); number != int64(i)+2 {
					t.Errorf("build %d after the rewind, want %d", number, i+2)
				}
			}
			if state := node.state(t); state == known {
				t.Fatal("the state after the rewind is the one before it")
			}
			for i := range c.after {
				if node.excludes(t, pdb(20+i)) {
					t.Errorf("the node excludes object %d, which was added after the rewind", 20+i)
				}
				if hits := lookupEntry(t, node.DB, all, pdb(20+i)); len(hits) != 1 {
					t.Errorf("%d objects %d, want 1", len(hits), 20+i)
				}
			}
			for i := range c.lost {
				if hits := lookupEntry(t, node.DB, all, pdb(10+i)); len(hits) != 0 {
					t.Errorf("object %d is found, which was lost", 10+i)
				}
			}
			if node.excludes(t, pdb(1)) {
				t.Error("the node excludes what the rewind has kept")
			}
			symtest.Await(t, time.Minute, "the call of OnRewind", func() bool { return rewinds.Load() > 0 })
			if n := rewinds.Load(); n != 1 {
				t.Errorf("OnRewind was called %d times, want once", n)
			}
			clean(t, node.DB)
		})
	}
}

// TestRewindVisible: when a write after a rewind returns, a node that knew the
// lost history has forgotten it, also if its row says a higher generation.
func TestRewindVisible(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	where := newDatabase(t)
	node := openNode(t, where)
	commitTest(t, node.DB, "", pdb(1))
	snapshot := server.Snapshot(t, where)
	for i := range 5 {
		commitTest(t, node.DB, "", pdb(10+i))
	}
	known := node.state(t)
	server.Rewind(t, where, snapshot)
	other, err := Open(t.Context(), where, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for i := range 6 { // passes the generation that the node knows
		commitTest(t, other, "", pdb(20+i))
		if state, err := node.watch.State(); err == nil && state == known {
			t.Fatalf("write %d after the rewind has returned: want a state unlike the one before the rewind", i+1)
		}
	}
}

// TestFailover: processes that know both hosts write to a standby after its
// promotion. What was acknowledged before is there, and numbers go on.
func TestFailover(t *testing.T) {
	primary := pgtest.New(t)
	primary.Database(t) // test1
	standby := primary.Standby(t)
	primary.Synchronous(t)
	where := pgtest.Hosts("test1", primary, standby)
	node := openNode(t, where)
	if want := fmt.Sprintf("postgres://%s,%s/test1", primary.Addr(), standby.Addr()); nameOf(node.DB) != want {
		t.Errorf("name %s, want %s", nameOf(node.DB), want)
	}
	commitTest(t, node.DB, "", pdb(1))
	known := node.state(t)
	primary.Kill(t)
	standby.Promote(t)
	promoted := time.Now()
	if n := commitTest(t, node.DB, "", pdb(2)); n != 2 {
		t.Errorf("build %d after the failover, want 2", n)
	}
	if took := time.Since(promoted); took > 10*time.Second {
		t.Errorf("the first write after the promotion took %v, want at most 10 s", took)
	}
	if node.state(t) == known {
		t.Error("the state has not changed")
	}
	for n := 1; n <= 2; n++ {
		if len(lookupEntry(t, node.DB, all, pdb(n))) != 1 {
			t.Errorf("object %d is missing after the failover", n)
		}
	}
	var moved *time.Time
	if err := rawConn(t, where).QueryRow(t.Context(), "SELECT moved FROM state").Scan(&moved); err != nil || moved == nil {
		t.Errorf("the time of the change of the server is %v, %v; want one", moved, err)
	}
	clean(t, node.DB)
}
