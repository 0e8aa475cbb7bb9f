package index

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// TestOrigins: a transaction of another store is imported once, until the
// import is removed.
func TestOrigins(t *testing.T) { onEngines(t, testOrigins) }

func testOrigins(t *testing.T) {
	db, err := Open(t.Context(), filepath.Join(t.TempDir(), "index.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	o := symfile.Object{Kind: symfile.SHA1, Name: "a.c", Role: symfile.Other, Hash: "da39a3ee5e6b4b0d3255bfef95601890afd80709"}
	tx := func(store, number string) record.Tx {
		x := record.Tx{Kind: "import", Entries: []record.Entry{{Object: o, Ref: blob.Sum([]byte("a")), Size: 1, Aliases: o.Aliases()}}}
		if store != "" {
			x.Origin = &record.Origin{Store: store, Number: number}
		}
		return x
	}
	for i, c := range []struct {
		store, number string
		taken         bool
	}{{"", "", false}, {"", "", false}, {"/s", "1", false}, {"/s", "1", true}, {"/s", "2", false}, {"/t", "1", false}, {"/t", "1", true}} {
		if _, err := db.Commit(t.Context(), tx(c.store, c.number), nil); errors.Is(err, contents.ErrImported) != c.taken || err != nil && !c.taken {
			t.Errorf("commit %d of %s in %s: error %v, want ErrImported: %v", i, c.number, c.store, err, c.taken)
		}
	}
	got, err := db.Origins(t.Context(), "/s")
	if err != nil || len(got) != 2 || got["1"] != 3 || got["2"] != 4 {
		t.Errorf(`Origins("/s"): %v, error %v; want length 2, got["1"] 3, got["2"] 4`, got, err)
	}
	if got, err := db.ImportedStores(t.Context()); err != nil || !slices.Equal(got, []string{"/s", "/t"}) {
		t.Errorf("the imported stores: %q, %v; want /s and /t", got, err)
	}
	if _, err := db.Commit(t.Context(), tx("bundle:1", "1"), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Remove(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	if got, err := db.ImportedStores(t.Context()); err != nil || !slices.Equal(got, []string{"/s"}) {
		t.Errorf("the imported stores beside a bundle and a removed import: %q, %v; want /s", got, err)
	}
	if _, err := db.Remove(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	if got, err := db.Origins(t.Context(), "/s"); err != nil || len(got) != 1 {
		t.Errorf("after a removal: %v %v, want no error and 1 in got", got, err)
	}
	if _, err := db.Commit(t.Context(), tx("/s", "1"), nil); err != nil {
		t.Errorf("again after a removal: %v", err)
	}
	if bad, err := db.Check(t.Context()); err != nil || len(bad) != 0 {
		t.Errorf("Check: %q, error %v; want none", bad, err)
	}
}
