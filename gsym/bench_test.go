package gsym

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/symdepot/symdepot/functab"
)

const benchFunctions = 50_000

// benchTable has 50,000 functions of 30 rows and 2 inlined calls.
func benchTable(b *testing.B) *functab.Table {
	b.Helper()
	t := functab.NewBuilder(functab.Module{OS: "Linux", Arch: "x86_64", Name: "bench"}, functab.Limits{})
	file := t.File("/build/source/file.cpp")
	for i := range uint64(benchFunctions) {
		at := 0x1000 + i*304
		f := functab.Function{Start: at, Size: 300, Name: t.Name(fmt.Sprintf("namespace::Class::method%d(int)", i), fmt.Sprintf("_ZN9namespace5Class6method%dEi", i))}
		for k := range uint64(30) {
			f.Rows = append(f.Rows, functab.Row{Start: at + k*10, File: file, Line: uint32(i%3000 + k*k%17 + 1)})
		}
		for k := range 2 {
			f.Inlines = append(f.Inlines, functab.Inline{Depth: k, Name: f.Name, CallFile: file, CallLine: 12, Ranges: []functab.Range{{Start: at + 30, Size: uint32(100 - 50*k)}}})
		}
		must(b, t.Add(f))
	}
	return table(b, t)
}

func BenchmarkWrite(b *testing.B) {
	t := benchTable(b)
	size := 0
	for b.Loop() {
		size = len(written(b, t))
	}
	b.ReportMetric(float64(size)/(benchFunctions*30), "B/row")
	b.SetBytes(int64(size))
}

// BenchmarkLookup looks up addresses in 1,000 functions, which the cache holds
// (warm), and in all functions with a cache that holds few (cold).
func BenchmarkLookup(b *testing.B) {
	out := written(b, benchTable(b))
	for _, bb := range []struct {
		name      string
		functions uint64
		cache     int64
	}{{"warm", 1000, 0}, {"cold", benchFunctions, 1 << 16}} {
		b.Run(bb.name, func(b *testing.B) {
			f, err := NewFile(bytes.NewReader(out), int64(len(out)), bb.cache)
			must(b, err)
			random := rand.New(rand.NewPCG(1, 2))
			for b.Loop() {
				if _, ok, err := f.Lookup(0x1000 + random.Uint64N(bb.functions)*304 + random.Uint64N(300)); !ok || err != nil {
					b.Fatal(ok, err)
				}
			}
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	out := written(b, benchTable(b))
	for b.Loop() {
		_, err := NewFile(bytes.NewReader(out), int64(len(out)), 0)
		must(b, err)
	}
}
