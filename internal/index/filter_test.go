package index

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/symtest"
	"github.com/symdepot/symdepot/symfile"
)

// filterEntry is an object with one id, and a GUID and age as PDBs have.
func filterEntry(n int) Entry {
	id := fmt.Sprintf("%032x1", n)
	return Entry{
		Object: symfile.Object{Kind: symfile.PDB, Role: symfile.Debug, Name: fmt.Sprintf("f%d.pdb", n)}, Ref: blob.Sum([]byte(id)), Size: 1, Path: id,
		Aliases: []symfile.Alias{{Name: fmt.Sprintf("f%d.pdb", n), ID: id, Role: symfile.Debug}},
	}
}

// TestFilter: what is there is never called absent, in whatever way the index
// changed; what is absent is nearly always called so.
func TestFilter(t *testing.T) {
	symtest.Sequential(t)
	db, err := Open(t.Context(), filepath.Join(t.TempDir(), "index.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	f := db.NewFilter()
	if absent, fresh := f.Absent(1, "x"); absent || fresh {
		t.Error("an empty filter claims to know something")
	}
	there := map[int]bool{}
	commit := func(from, to int) int64 {
		var es []Entry
		for n := from; n < to; n++ {
			es = append(es, filterEntry(n))
			there[n] = true
		}
		number, err := db.Commit(t.Context(), Tx{Kind: "add", Entries: es}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return number
	}
	check := func(state uint64) {
		t.Helper()
		if err := f.Refresh(t.Context(), state); err != nil {
			t.Fatal(err)
		}
		wrong := 0
		for n := range 20_000 {
			id := fmt.Sprintf("%032x1", n)
			absent, fresh := f.Absent(state, id)
			if !fresh {
				t.Fatal("not fresh after a refresh")
			}
			if there[n] && absent {
				t.Fatalf("%s is there and called absent", id)
			}
			if guid, _ := f.Absent(state, id[:32]); there[n] && guid {
				t.Fatalf("the GUID %s is there and called absent", id[:32])
			}
			if !there[n] && !absent {
				wrong++
			}
		}
		if wrong > 400 {
			t.Errorf("%d absent ids went through", wrong)
		}
		if absent, fresh := f.Absent(state+1, "x"); absent || fresh {
			t.Error("the filter answers for another state")
		}
	}
	check(1)
	commit(0, 10)
	check(2)
	second := commit(10, 4000) // more than there was room for
	check(3)
	commit(4000, 4010)
	check(4)
	// Keys that go leave the filter too wide, never too narrow.
	if _, err := db.Remove(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	var refs []blob.Ref
	for n := 10; n < 4000; n++ {
		refs = append(refs, filterEntry(n).Ref)
		delete(there, n)
	}
	if n, err := db.DropContents(t.Context(), refs, db.now().Add(1e12), func(blob.Ref) error { return nil }); err != nil || n != 3990 {
		t.Fatal(n, err)
	}
	check(5)
	commit(5000, 5005)
	check(6)
	// A new alias of an object that was there before.
	e := filterEntry(5000)
	e.Aliases = append(e.Aliases, symfile.Alias{Name: "other.pdb", ID: fmt.Sprintf("%032x1", 6000), Role: symfile.Debug})
	if _, err := db.Commit(t.Context(), Tx{Kind: "add", Entries: []Entry{e}}, nil); err != nil {
		t.Fatal(err)
	}
	there[6000] = true
	check(7)
	// The newest object goes and another one comes: it must not be taken for
	// the one that was known.
	for i := range 3 {
		n := 7000 + i
		e := filterEntry(n)
		if err := db.Cached.Put(t.Context(), CachedFile{Source: "s", Ref: e.Ref, Size: e.Size, Entries: []Entry{e}}, nil); err != nil {
			t.Fatal(err)
		}
		there[n] = true
		check(uint64(8 + i))
		if files, _, err := db.Cached.Evict(t.Context(), []blob.Ref{e.Ref}, func(blob.Ref) error { return nil }); err != nil || files != 1 {
			t.Fatal(files, err)
		}
		delete(there, n)
	}
}

// TestFilterKeepsUp: while files come and go, only new keys are read.
func TestFilterKeepsUp(t *testing.T) {
	db := openTest(t, Options{})
	f := db.NewFilter()
	var bits *uint64
	for n := range 30 {
		e := filterEntry(n)
		if err := db.Cached.Put(t.Context(), CachedFile{Source: "s", Ref: e.Ref, Size: e.Size, Entries: []Entry{e}}, nil); err != nil {
			t.Fatal(err)
		}
		if err := f.Refresh(t.Context(), uint64(n)); err != nil {
			t.Fatal(err)
		}
		if absent, fresh := f.Absent(uint64(n), e.Aliases[0].ID); absent || !fresh {
			t.Errorf("%d: absent %v, fresh %v", n, absent, fresh)
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
