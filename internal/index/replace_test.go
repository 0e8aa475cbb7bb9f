package index

import (
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// entryOf is a file with one alias.
func entryOf(kind symfile.Kind, name, id string, role symfile.Role, content byte) record.Entry {
	return record.Entry{
		Object: symfile.Object{Kind: kind, Name: name, Role: role}, Ref: blob.Sum([]byte{content}), Size: 1, Path: name,
		Aliases: []symfile.Alias{{Name: name, ID: id, Role: role}},
	}
}

// TestCommitReplacesCached: an added file ends the cached files of its keys,
// and no others.
func TestCommitReplacesCached(t *testing.T) { onEngines(t, testCommitReplacesCached) }

func testCommitReplacesCached(t *testing.T) {
	symtest.Sequential(t)
	const exe, dbg = symfile.Executable, symfile.Debug
	for _, c := range []struct {
		what          string
		cached, added record.Entry
		stays         bool
	}{
		{"the same key", entryOf(symfile.PE, "a.dll", "1", exe, 1), entryOf(symfile.PE, "a.dll", "1", exe, 2), false},
		{"the same bytes", entryOf(symfile.PE, "a.dll", "1", exe, 1), entryOf(symfile.PE, "a.dll", "1", exe, 1), true},
		{"a PE of another name", entryOf(symfile.PE, "b.dll", "1", exe, 1), entryOf(symfile.PE, "a.dll", "1", exe, 2), true},
		{"an ELF file of another name", entryOf(symfile.ELF, "b.so", "1", exe, 1), entryOf(symfile.ELF, "a.so", "1", exe, 2), false},
		{"another role", entryOf(symfile.ELF, "a.so", "1", dbg, 1), entryOf(symfile.ELF, "a.so", "1", exe, 2), true},
		{"one role in common", entryOf(symfile.ELF, "a.so", "1", dbg, 1), entryOf(symfile.ELF, "a.so", "1", exe|dbg, 2), false},
		{"another id", entryOf(symfile.ELF, "a.so", "2", exe, 1), entryOf(symfile.ELF, "a.so", "1", exe, 2), true},
	} {
		t.Run(c.what, func(t *testing.T) {
			db := openTest(t, newClock().options())
			if err := db.Cached.Put(t.Context(), contents.CachedFile{Source: "s", Ref: c.cached.Ref, Size: 1, Entries: []record.Entry{c.cached}}, nil); err != nil {
				t.Fatal(err)
			}
			if _, err := db.Commit(t.Context(), record.Tx{Kind: "add", Entries: []record.Entry{c.added}}, nil); err != nil {
				t.Fatal(err)
			}
			n := 0
			for _, err := range db.Cached.Evictable(t.Context(), contents.CacheFilter{}) {
				if err != nil {
					t.Fatal(err)
				}
				n++
			}
			if want := map[bool]int{true: 1, false: 0}[c.stays]; n != want {
				t.Errorf("%d cached files after the commit, want %d", n, want)
			}
			hits, err := db.Lookup(t.Context(), record.Scope{All: true}, symfile.Lookup{ID: c.cached.Aliases[0].ID, Role: c.cached.Aliases[0].Role})
			if err != nil {
				t.Fatal(err)
			}
			seen := false
			for _, h := range hits {
				seen = seen || h.Ref == c.cached.Ref
			}
			if seen != c.stays {
				t.Errorf("the cached content is found: %v, want %v", seen, c.stays)
			}
			clean(t, db)
		})
	}
}
