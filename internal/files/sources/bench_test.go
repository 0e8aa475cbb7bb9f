package sources

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/symdepot/symdepot/dwarf"
	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/objtab"
	"github.com/symdepot/symdepot/symfile"
)

// BenchmarkList lists the source files of a large file: of SYMDEPOT_SOURCES_FILE, or of the
// largest program of the material. For a file with DWARF it reports how many times longer
// reading the rows of the same file takes.
func BenchmarkList(b *testing.B) {
	path := os.Getenv("SYMDEPOT_SOURCES_FILE")
	if path == "" {
		b.Skip("SYMDEPOT_SOURCES_FILE names no file")
	}
	f, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		b.Fatal(err)
	}
	found, err := objfile.Identify(f, info.Size(), filepath.Base(path), objfile.Options{IDs: true})
	if err != nil || len(found) != 1 {
		b.Fatalf("%d objects, %v, want one", len(found), err)
	}
	o := found[0].Object
	var l *Listed
	b.SetBytes(info.Size())
	for b.Loop() {
		if l, err = List(context.Background(), f, info.Size(), o, Options{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(l.Names)), "names")
	if o.Kind != symfile.ELF {
		return
	}
	each := b.Elapsed() / time.Duration(b.N)
	d, err := objtab.Data(objtab.File{Reader: f, Size: info.Size()}, o.Kind, objtab.ELFFiles{}, objfile.SectionOptions{})
	if err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	if _, err := dwarf.Read(context.Background(), d, dwarf.Options{Workers: 1}, functab.NewBuilder(functab.Module{}, functab.Limits{})); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(time.Since(start))/float64(each), "rows/list")
}
