package pdb

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

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

// BenchmarkWritePublic makes the public form of a PDB of 1 GB, with 400,000 public symbols and
// twice as many other ones (as many for its size as Microsoft's linker writes), or of the one that SYMDEPOT_PDB names. x-sha256 is the time as a multiple of that
// for the SHA-256 of the file.
func BenchmarkWritePublic(b *testing.B) {
	in, size := largePDB(b)
	out, err := os.Create(filepath.Join(b.TempDir(), "public.pdb"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	for _, c := range []struct {
		name string
		o    PublicOptions
	}{{"all", PublicOptions{}}, {"no static", PublicOptions{NoStatic: true}}, {"undecorated", PublicOptions{Undecorated: true}}} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(size)
			b.ReportAllocs()
			var sum time.Duration
			for b.Loop() {
				b.StopTimer()
				start := time.Now()
				if _, err := io.Copy(sha256.New(), io.NewSectionReader(in, 0, size)); err != nil {
					b.Fatal(err)
				}
				sum += time.Since(start)
				if _, err := out.Seek(0, io.SeekStart); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				if _, err := WritePublic(out, in, size, c.o); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed())/float64(sum), "x-sha256")
		})
	}
}

// largePDB returns the PDB of BenchmarkWritePublic and its size.
func largePDB(b *testing.B) (in *os.File, size int64) {
	b.Helper()
	path := os.Getenv("SYMDEPOT_PDB")
	if path == "" {
		path = filepath.Join(b.TempDir(), "large.pdb")
		var records, contribs []byte
		for i := range 400000 {
			records = append(records, rec(symPublic, 2, 16*i, uint16(1), fmt.Sprintf("?method_%d@class_%d@outer@@QEAAXPEBUargument_%d@2@_K@Z", i*7919%400000, i%997, i%31))...)
			for range 2 {
				records = append(records, rec(0x1125, 0, i, uint16(1), fmt.Sprintf("outer::class_%d::method_%d", i%997, i))...)
			}
		}
		contribs = bin(uint32(0xF12EBA2D))
		for i := range 600000 {
			contribs = append(contribs, bin(uint16(1), uint16(0), 16*i, 16, 0x60500020, uint16(i/120), uint16(0), uint32(i*2654435761), 0)...)
		}
		p := testPDB{machine: 0x8664, publics: records, contribs: contribs}
		for i := range 5000 {
			local := rec(symLocalProc, 0, 0, 0, 0x10, 0, 0, 0x1001, 1<<25+16*i, uint16(1), uint8(0), fmt.Sprintf("local_%d", i))
			p.modules = append(p.modules, testModule{fmt.Sprintf(`d:\agent\work\project\module_%d.obj`, i), cat(local, bytes.Repeat(rec(0x113E, 0x74, uint16(0), "local_variable"), 1500)), make([]byte, 40000)})
		}
		streams := p.streams()
		streams[TPIStream].size = 250 << 20
		streams[IPIStream].size = 150 << 20
		file, err := os.Create(path)
		if err != nil {
			b.Fatal(err)
		}
		buildMSF(b, file, 4096, streams)
		if err := file.Close(); err != nil {
			b.Fatal(err)
		}
	}
	in, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = in.Close() })
	info, err := in.Stat()
	if err != nil {
		b.Fatal(err)
	}
	return in, info.Size()
}
