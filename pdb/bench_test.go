package pdb

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/symdepot/symdepot/functab"
)

// BenchmarkFunctions reads the largest real PDB, or the one that SYMDEPOT_PDB
// names. With SYMDEPOT_PDB, scripts/bigpdb makes it.
func BenchmarkFunctions(b *testing.B) {
	path := os.Getenv("SYMDEPOT_PDB")
	if path == "" {
		var most int64
		for _, p := range materialPDBs(b) {
			if info, err := os.Stat(p); err == nil && info.Size() > most {
				path, most = p, info.Size()
			}
		}
	}
	file, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		b.Fatal(err)
	}
	for _, workers := range []int{1, 2} {
		b.Run(filepath.Base(path)+[]string{"", ", 1 worker", ", 2 workers"}[workers], func(b *testing.B) {
			b.SetBytes(info.Size())
			b.ReportAllocs()
			for b.Loop() {
				f, err := Open(file, info.Size())
				if err != nil {
					b.Fatal(err)
				}
				builder := functab.NewBuilder(f.Module("a.pdb"), functab.Limits{})
				if err := f.Functions(context.Background(), builder, FunctionOptions{Workers: workers}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
