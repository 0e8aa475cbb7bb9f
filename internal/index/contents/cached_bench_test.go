package contents

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"testing"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/enginetest"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// benchEntry is the entry of the n-th of many PDBs.
func benchEntry(n int) record.Entry {
	ref := sha256.Sum256([]byte(fmt.Sprint("content ", n)))
	o := symfile.Object{Role: symfile.Debug, Name: fmt.Sprintf("Module%d.pdb", n), Kind: symfile.PDB,
		DebugID: debugid.ID{GUID: debugid.GUID(ref[:16]), Age: 1}, InfoAge: 2}
	return record.Entry{Object: o, Arch: "x86_64", Features: []string{"debug", "symtab"}, Ref: ref, Size: int64(1000 + n),
		Aliases: o.Aliases(), Path: "/builds/product/bin/" + o.Name}
}

// BenchmarkCached enters and evicts files of a source that has many already.
func BenchmarkCached(b *testing.B) {
	for _, many := range []int{100, 20_000} {
		db := enginetest.File(b)
		files := NewCachedFiles(NewContents(db, false, 1))
		for n := range many {
			e := benchEntry(n)
			if err := db.UpdateUnsynced(b.Context(), "fill", func(w *engine.Write) error {
				c := Commit{Write: w, Now: db.Now()}
				if err := c.cached(CachedFile{Source: "s", Name: "n", Ref: e.Ref, Size: e.Size, Fetched: db.Now(), Entries: []record.Entry{e}}); err != nil {
					return err
				}
				return c.count()
			}); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(strconv.Itoa(many), func(b *testing.B) {
			n := many
			for b.Loop() {
				e := benchEntry(n)
				n++
				if err := files.Put(b.Context(), CachedFile{Source: "s", Name: "n", Ref: e.Ref, Size: e.Size, Entries: []record.Entry{e}}, nil); err != nil {
					b.Fatal(err)
				}
				if n, _, err := files.Evict(b.Context(), []blob.Ref{e.Ref}, func(blob.Ref) error { return nil }); n != 1 || err != nil {
					b.Fatalf("Evict: %v, error %v; want 1", n, err)
				}
			}
		})
	}
}
