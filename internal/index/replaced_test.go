package index

import (
	"context"
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// TestDropReplaced: a derived content is forgotten when every product that has its
// source has a file that replaces it, and not before.
func TestDropReplaced(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		db := openTest(t, newClock().options())
		source := pdb(1)
		o := symfile.Object{Kind: symfile.Breakpad, Role: symfile.Symbols, Name: source.Object.Name, DebugID: source.Object.DebugID}
		sym := record.Entry{Object: o, Ref: ref(2), Size: 1002, Aliases: o.Aliases(), Path: "/build/Foo1.sym"}
		id := symfile.Fold(o.DebugID.Breakpad())
		tool, gsym, zstd := record.Tool{Name: "symbols-sym+0123", Version: 1}, record.Tool{Name: "symbols-gsym", Version: 1}, record.Tool{Name: "zstd", Version: 1}
		commitTest(t, db, "A", source)
		commitTest(t, db, "B", source)
		for i, x := range []record.Tool{tool, gsym, zstd} {
			if err := db.PutDerived(t.Context(), source.Ref, x, &record.Content{Ref: ref(10 + i), Size: 10}); err != nil {
				t.Fatal(err)
			}
		}
		made := putMade(t, db, id)
		step := func(what string, want int64) {
			t.Helper()
			n, err := DropReplaced(t.Context(), db, "symbols-", contents.Replacement{IDs: []string{"00", id}, Kind: symfile.Breakpad, Role: symfile.Symbols})
			if err != nil || n != want {
				t.Errorf("%s: %d derived contents dropped, error %v; want %d", what, n, err, want)
			}
			refs, err := db.Cached.Replaced(t.Context(), "symbols", "made-of-", contents.Replacement{IDs: []string{"00", id}, Kind: symfile.Breakpad, Role: symfile.Symbols})
			if err != nil || len(refs) > 0 {
				t.Errorf("%s: cached files %v, error %v; want none replaced in another product", what, refs, err)
			}
		}
		step("no symbol file", 0)
		commitTest(t, db, "A", sym)
		if err := db.PutDerived(t.Context(), sym.Ref, gsym, &record.Content{Ref: ref(20), Size: 10}); err != nil {
			t.Fatal(err)
		}
		step("a symbol file in one of two products", 0)
		commitTest(t, db, "B", sym)
		step("a symbol file in both products", 2)
		for _, x := range []struct {
			of   blob.Ref
			tool record.Tool
			want error
		}{{source.Ref, tool, fs.ErrNotExist}, {source.Ref, gsym, fs.ErrNotExist}, {source.Ref, zstd, nil}, {sym.Ref, gsym, nil}} {
			if _, err := db.Derived(t.Context(), x.of, x.tool); !errors.Is(err, x.want) {
				t.Errorf("%s of %s: error %v, want %v", x.tool.Name, x.of, err, x.want)
			}
		}
		free := map[blob.Ref]bool{}
		for c, err := range db.Unreferenced(t.Context(), newClock().now().Add(time.Hour)) {
			if err != nil {
				t.Fatal(err)
			}
			free[c.Ref] = true
		}
		if len(free) != 2 || !free[ref(10)] || !free[ref(11)] {
			t.Errorf("%d contents are unreferenced: %v, want the two dropped ones", len(free), free)
		}
		commitTest(t, db, "", sym)
		refs, err := db.Cached.Replaced(t.Context(), "symbols", "made-of-", contents.Replacement{IDs: []string{id}, Kind: symfile.Breakpad, Role: symfile.Symbols})
		if err != nil || len(refs) != 1 || refs[0] != made {
			t.Errorf("cached files %v, error %v; want the made one: files without a product have a symbol file", refs, err)
		}
	})
}

// putMade puts a cached file of the source "symbols" that was made of the module id.
func putMade(t *testing.T, db *DB, id string) blob.Ref {
	t.Helper()
	e := record.Entry{
		Object: symfile.Object{Kind: symfile.Breakpad, Role: symfile.Other, Name: "foo.sym"}, Ref: ref(30), Size: 30, Path: "foo.sym",
		Aliases: []symfile.Alias{{Name: "foo.sym", ID: "made-of-" + id, Role: symfile.Other}},
	}
	err := db.Cached.Put(t.Context(), contents.CachedFile{Source: "symbols", Product: "\x01symbols", Name: "foo.sym", Ref: e.Ref, Size: e.Size, Entries: []record.Entry{e}},
		func(context.Context, []blob.Ref) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return e.Ref
}
