package index

import (
	"fmt"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// filterEntry is an object with one id, and a GUID and age as PDBs have.
func filterEntry(n int) record.Entry {
	id := fmt.Sprintf("%032x1", n)
	return record.Entry{
		Object: symfile.Object{Kind: symfile.PDB, Role: symfile.Debug, Name: fmt.Sprintf("f%d.pdb", n)}, Ref: blob.Sum([]byte(id)), Size: 1, Path: id,
		Aliases: []symfile.Alias{{Name: fmt.Sprintf("f%d.pdb", n), ID: id, Role: symfile.Debug}},
	}
}

// TestFilter: the filter never excludes an existing id, however the index
// changed, and excludes nearly all others.
func TestFilter(t *testing.T) { onEngines(t, func(t *testing.T) { testFilter(t, segmentKeys) }) }

// TestFilterSegments: the same of a filter that has segments.
func TestFilterSegments(t *testing.T) { onEngines(t, func(t *testing.T) { testFilter(t, 100) }) }

func testFilter(t *testing.T, least int64) {
	symtest.Sequential(t)
	db := openTest(t, Options{})
	f := db.NewFilter()
	f.least = least
	there := map[int]bool{}
	commit := func(t *testing.T, from, to int) int64 {
		t.Helper()
		var es []record.Entry
		for n := from; n < to; n++ {
			es = append(es, filterEntry(n))
			there[n] = true
		}
		number, err := db.Commit(t.Context(), record.Tx{Kind: "add", Entries: es}, nil)
		if err != nil {
			t.Fatalf("commit of the ids %d to %d: %v, want no error", from, to-1, err)
		}
		return number
	}
	// check refreshes the filter and compares it with what is there.
	state := uint64(0)
	check := func(t *testing.T) {
		t.Helper()
		state++
		f.retry = time.Time{}
		if err := f.Refresh(t.Context(), state); err != nil {
			t.Fatalf("Refresh to state %d: %v, want no error", state, err)
		}
		wrong := 0
		for n := range 20_000 {
			id := fmt.Sprintf("%032x1", n)
			excluded, fresh := f.Excludes(state, all, id)
			if !fresh {
				t.Fatalf("Excludes(%s) after the refresh to state %d: not fresh, want fresh", id, state)
			}
			if there[n] && excluded {
				t.Fatalf("Excludes(%s) is true for an id of the index, want false", id)
			}
			if guid, _ := f.Excludes(state, all, id[:32]); there[n] && guid {
				t.Fatalf("Excludes(%s) is true for a GUID of the index, want false", id[:32])
			}
			if !there[n] && !excluded {
				wrong++
			}
		}
		if wrong > 400 {
			t.Errorf("%d of 20000 unknown ids are not excluded, want 400 at most", wrong)
		}
		if excluded, fresh := f.Excludes(state+1, all, "x"); excluded || fresh {
			t.Errorf("Excludes in a later state: %v, fresh %v; want false, false", excluded, fresh)
		}
	}
	var second int64
	symtest.Step(t, "empty", func(t *testing.T) {
		if excluded, fresh := f.Excludes(1, all, "x"); excluded || fresh {
			t.Errorf("Excludes of a new filter: %v, fresh %v; want false, false", excluded, fresh)
		}
		check(t)
	})
	symtest.Step(t, "few ids", func(t *testing.T) {
		commit(t, 0, 10)
		check(t)
	})
	symtest.Step(t, "more ids than it has space for", func(t *testing.T) {
		second = commit(t, 10, 4000)
		check(t)
		commit(t, 4000, 4010)
		check(t)
	})
	symtest.Step(t, "removed ids leave the filter too wide, never too narrow", func(t *testing.T) {
		if _, err := db.Remove(t.Context(), second); err != nil {
			t.Fatal(err)
		}
		var refs []blob.Ref
		for n := 10; n < 4000; n++ {
			refs = append(refs, filterEntry(n).Ref)
			delete(there, n)
		}
		if n, err := db.DropContents(t.Context(), refs, db.base.Now().Add(1e12), func(blob.Ref) error { return nil }); err != nil || n != 3990 {
			t.Fatalf("DropContents: %d, %v; want 3990", n, err)
		}
		check(t)
		commit(t, 5000, 5005)
		check(t)
	})
	symtest.Step(t, "a new alias of an older object", func(t *testing.T) {
		bits := &f.now.Load().bits[0]
		e := filterEntry(5000)
		e.Aliases = append(e.Aliases, symfile.Alias{Name: "other.pdb", ID: fmt.Sprintf("%032x1", 6000), Role: symfile.Debug})
		if _, err := db.Commit(t.Context(), record.Tx{Kind: "add", Entries: []record.Entry{e}}, nil); err != nil {
			t.Fatal(err)
		}
		there[6000] = true
		check(t)
		if bits != &f.now.Load().bits[0] {
			t.Error("the filter was built anew for one key that an older object gained, want the same bits")
		}
	})
	// The newest object is evicted and another one comes. It must not be taken for
	// the one that was known.
	for i := range 3 {
		symtest.Step(t, fmt.Sprintf("cached file %d comes and is evicted", i), func(t *testing.T) {
			n := 7000 + i
			e := filterEntry(n)
			if err := db.Cached.Put(t.Context(), contents.CachedFile{Source: "s", Ref: e.Ref, Size: e.Size, Entries: []record.Entry{e}}, nil); err != nil {
				t.Fatal(err)
			}
			there[n] = true
			check(t)
			if files, _, err := db.Cached.Evict(t.Context(), []blob.Ref{e.Ref}, func(blob.Ref) error { return nil }); err != nil || files != 1 {
				t.Fatalf("Evict: %d files, %v; want 1", files, err)
			}
			delete(there, n)
		})
	}
}

// TestStoredSegments: a process that starts reads the segments that another one
// has stored, and only the keys since; a damaged or outdated build is not used.
func TestStoredSegments(t *testing.T) { onEngines(t, testStoredSegments) }

func testStoredSegments(t *testing.T) {
	for _, c := range []struct {
		name string
		new  func(db *DB) *Filter
	}{{"all", (*DB).NewFilter}, {"products", (*DB).NewScopeFilter}} {
		t.Run(c.name, func(t *testing.T) {
			db := openTest(t, Options{})
			scope := record.Scope{Products: []string{"p"}}
			open := func(db *DB) *Filter {
				f := c.new(db)
				f.least = 100
				return f
			}
			commit := func(from, to int) {
				var es []record.Entry
				for n := from; n < to; n++ {
					es = append(es, filterEntry(n))
				}
				commitTest(t, db, "p", es...)
			}
			refresh := func(f *Filter) *bloom {
				t.Helper()
				f.retry = time.Time{}
				if err := f.Refresh(t.Context(), 1); err != nil {
					t.Fatal(err)
				}
				return f.now.Load()
			}
			holds := func(f *Filter, to int) {
				t.Helper()
				for n := range to {
					if excluded, fresh := f.Excludes(1, scope, fmt.Sprintf("%032x1", n)); excluded || !fresh {
						t.Fatalf("id %d: excluded %v, fresh %v, want false and true", n, excluded, fresh)
					}
				}
			}
			commit(0, 1000)
			// Earlier versions have stored builds with other entries.
			if err := db.base.Update(t.Context(), "test", func(w *engine.Write) error {
				if _, err := w.Exec("INSERT INTO filter_segment (kind, build, part, body) VALUES (1, 'old', 0, $1), (2, 'old', 0, $1)", []byte{1}); err != nil {
					return err
				}
				_, err := w.Exec("UPDATE filter SET build = 'old', last_object = 1000, keys = 1000 WHERE kind <= 2")
				return err
			}); err != nil {
				t.Fatal(err)
			}
			first := open(db)
			if b := refresh(first); b == nil || b.base == nil || b.base.keys != 1000 {
				t.Fatalf("the filter is %+v, want 1000 keys in segments", b)
			}
			holds(first, 1000)
			commit(1000, 1100)
			second := open(reopen(t, db, Options{}))
			if b := refresh(second); b == nil || b.base == nil || b.base.keys != 1000 || b.keys != 100 {
				t.Fatalf("a second process has %+v, want the 1000 stored keys and 100 others", b)
			}
			holds(second, 1100)
			count := func() (n int) {
				t.Helper()
				if err := db.base.Points.Row(t.Context(), "SELECT count(*) FROM filter_segment", nil, &n); err != nil {
					t.Fatal(err)
				}
				return n
			}
			if n := count(); n != segmentCount {
				t.Errorf("%d segments are stored, want %d", n, segmentCount)
			}
			// Too many new keys: one process builds, the other one takes over its build.
			commit(1100, 5000)
			if b := refresh(first); b.base.keys != 5000 {
				t.Errorf("the new build has %d keys, want 5000", b.base.keys)
			}
			if b := refresh(second); b.base.keys != 5000 {
				t.Errorf("the second process has a build of %d keys, want the new one of 5000", b.base.keys)
			}
			if n := count(); n != segmentCount {
				t.Errorf("%d segments are stored after a second build, want %d", n, segmentCount)
			}
			holds(first, 5000)
			holds(second, 5000)
			// While another process builds, there is no filter.
			if err := db.base.Update(t.Context(), "test", func(w *engine.Write) error {
				if _, err := w.Exec("UPDATE filter_segment SET body = $1 WHERE part = 7", []byte("damaged")); err != nil {
					return err
				}
				_, err := w.Exec("UPDATE filter SET lease_until = $1", db.base.Now().Add(time.Minute).UnixMicro())
				return err
			}); err != nil {
				t.Fatal(err)
			}
			third := open(db)
			if b := refresh(third); b != nil {
				t.Errorf("a filter of a damaged build: %+v, want nil", b)
			}
			if err := db.base.Update(t.Context(), "test", func(w *engine.Write) error {
				_, err := w.Exec("UPDATE filter SET lease_until = 0")
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if b := refresh(third); b == nil || b.base == nil {
				t.Error("the damaged build was not replaced")
			}
			holds(third, 5000)
		})
	}
}

// TestLateObjects: rows of older objects that gained keys are bounded. A filter
// that has missed some of them reads all keys.
func TestLateObjects(t *testing.T) { onEngines(t, testLateObjects) }

func testLateObjects(t *testing.T) {
	db := openTest(t, Options{})
	commitTest(t, db, "p", filterEntry(1))
	f := db.NewFilter()
	if err := f.Refresh(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	bits := &f.now.Load().bits[0]
	gain := func(n int) {
		t.Helper()
		e := filterEntry(1)
		e.Aliases = append(e.Aliases, symfile.Alias{Name: "f1.pdb", ID: fmt.Sprintf("%032x1", n), Role: symfile.Debug})
		commitTest(t, db, "p", e)
	}
	state := func() (rows, late, floor int64) {
		t.Helper()
		if err := db.base.Points.Row(t.Context(), "SELECT (SELECT count(*) FROM late_object), late_keys, late_floor FROM state", nil, &rows, &late, &floor); err != nil {
			t.Fatal(err)
		}
		return rows, late, floor
	}
	const maxLate = 100_000 // rows of late_object
	gain(2)
	if rows, late, floor := state(); rows != 1 || late != 1 || floor != 0 {
		t.Errorf("%d rows, counter %d, floor %d, want 1, 1, 0", rows, late, floor)
	}
	if err := db.base.Update(t.Context(), "test", func(w *engine.Write) error {
		_, err := w.Exec("UPDATE state SET late_keys = $1", 2*maxLate)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	gain(3)
	if rows, late, floor := state(); rows != 1 || late != 2*maxLate+1 || floor != maxLate+1 {
		t.Errorf("%d rows, counter %d, floor %d, want 1, %d, %d", rows, late, floor, 2*maxLate+1, maxLate+1)
	}
	if err := f.Refresh(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if &f.now.Load().bits[0] == bits {
		t.Error("a filter that has missed rows was not read again")
	}
	for n := 1; n <= 3; n++ {
		if excluded, fresh := f.Excludes(2, all, fmt.Sprintf("%032x1", n)); excluded || !fresh {
			t.Errorf("id %d: excluded %v, fresh %v, want false and true", n, excluded, fresh)
		}
	}
}

// TestFilterKeepsUp: while files come and go, only new keys are read.
func TestFilterKeepsUp(t *testing.T) { onEngines(t, testFilterKeepsUp) }

func testFilterKeepsUp(t *testing.T) {
	db := openTest(t, Options{})
	f := db.NewFilter()
	var bits *uint64
	for n := range 30 {
		e := filterEntry(n)
		if err := db.Cached.Put(t.Context(), contents.CachedFile{Source: "s", Ref: e.Ref, Size: e.Size, Entries: []record.Entry{e}}, nil); err != nil {
			t.Fatal(err)
		}
		if err := f.Refresh(t.Context(), uint64(n)); err != nil {
			t.Fatal(err)
		}
		if absent, fresh := f.Excludes(uint64(n), all, e.Aliases[0].ID); absent || !fresh {
			t.Errorf("%d: absent %v, fresh %v; want false and true", n, absent, fresh)
		}
		if b := &f.now.Load().bits[0]; bits != nil && b != bits {
			t.Errorf("%d: all keys were read again", n)
		}
		bits = &f.now.Load().bits[0]
		if n%2 == 0 {
			if _, _, err := db.Cached.Evict(t.Context(), []blob.Ref{e.Ref}, func(blob.Ref) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestScopeFilter compares the filter for limited scopes with lookups, through
// every way in which an object becomes visible in a product or hidden.
func TestScopeFilter(t *testing.T) { onEngines(t, testScopeFilter) }

func testScopeFilter(t *testing.T) {
	db := openTest(t, Options{})
	f := db.NewScopeFilter()
	a, b, both := record.Scope{Products: []string{"A"}}, record.Scope{Products: []string{"B"}}, record.Scope{Products: []string{"B", "A"}}
	many := record.Scope{Products: make([]string, maxFilterProducts+1)}
	state := uint64(0)
	var bits *uint64
	check := func(step string, again bool) {
		t.Helper()
		state++
		if err := f.Refresh(t.Context(), state); err != nil {
			t.Fatal(err)
		}
		if now := &f.now.Load().bits[0]; bits != nil && (now != bits) != again {
			t.Errorf("%s: all keys were read again: %v, want %v", step, now != bits, again)
		}
		bits = &f.now.Load().bits[0]
		hidden := 0
		for n := range 200 {
			id := fmt.Sprintf("%032x1", n)
			for _, scope := range []record.Scope{a, b, both, {}} {
				hits, err := db.Lookup(t.Context(), scope, symfile.Lookup{ID: id, Role: symfile.AnyRole})
				if err != nil {
					t.Fatal(err)
				}
				for _, id := range []string{id, id[:32]} {
					excluded, fresh := f.Excludes(state, scope, id)
					if !fresh {
						t.Fatalf("%s: the filter is not fresh after a refresh", step)
					}
					if excluded && len(hits) > 0 {
						t.Errorf("%s: %s is visible in %q, and the filter excludes it", step, id, scope.Products)
					}
					if !excluded && len(hits) == 0 {
						hidden++
					}
				}
			}
			if excluded, fresh := f.Excludes(state, many, id); excluded || !fresh {
				t.Errorf("%s: %s in %d products: excluded %v, fresh %v, want a query and no refresh", step, id, len(many.Products), excluded, fresh)
			}
		}
		if hidden > 40 { // of 1600; removed keys stay in the filter
			t.Errorf("%s: %d lookups of hidden or missing ids are not excluded", step, hidden)
		}
		if excluded, fresh := f.Excludes(state+1, a, "x"); excluded || fresh {
			t.Errorf("%s: the filter answers for another state", step)
		}
	}
	put := func(product, source string, n int) {
		t.Helper()
		e := filterEntry(n)
		if err := db.Cached.Put(t.Context(), contents.CachedFile{Source: source, Product: product, Ref: e.Ref, Size: e.Size, Entries: []record.Entry{e}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	check("empty", false)
	commitTest(t, db, "A", filterEntry(1), filterEntry(2))
	check("two objects of A", false)
	commitTest(t, db, "B", filterEntry(3))
	check("an object of B", false)
	commitTest(t, db, "B", filterEntry(1), filterEntry(4))
	check("an object of A added to B", false)
	put("A", "s", 5)
	check("a download for A", false)
	put("B", "s2", 5)
	check("the same download for B", false)
	put("B", "s2", 5)
	check("the same download for B again", false)
	put("B", "s2", 2)
	check("a download for B of an added object of A", false)
	last := commitTest(t, db, "A", filterEntry(3))
	check("an object of B added to A", false)
	if _, err := db.Remove(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	check("removed from A", false)
	commitTest(t, db, "A", filterEntry(3))
	check("added to A again", false)
	e := filterEntry(4)
	e.Aliases = append(e.Aliases, symfile.Alias{Name: "other.pdb", ID: fmt.Sprintf("%032x1", 6), Role: symfile.Debug})
	commitTest(t, db, "B", e)
	check("a new alias of a known object", false)
	var es []record.Entry
	for n := 1000; n < 4000; n++ {
		es = append(es, filterEntry(n))
	}
	commitTest(t, db, "A", es...)
	check("more keys than the filter has space for", true)
}
