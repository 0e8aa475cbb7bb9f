package functab

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// fill adds n functions of 30 rows and 5 inlined calls each, as of a large C++
// program.
func fill(b *testing.B, t *Builder, n int) {
	b.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	var files []FileID
	for i := range 2000 {
		files = append(files, t.File(fmt.Sprintf("/build/source/directory%d/file%d.cpp", i%50, i)))
	}
	at := uint64(0x1000)
	var f Function
	for i := range n {
		name := t.Name(fmt.Sprintf("namespace%d::Class%d::method%d(int, char const*)", i%20, i%3000, i), fmt.Sprintf("_ZN%dClass%dmethod%d", i%20, i%3000, i))
		f = Function{Start: at, Size: 300, Name: name, Rows: f.Rows[:0], Inlines: f.Inlines[:0]}
		line := uint32(random.IntN(3000) + 1)
		for k := range uint64(30) {
			f.Rows = append(f.Rows, Row{at + k*10, files[(i+int(k)/4)%len(files)], line + uint32(random.IntN(20))})
		}
		for k := range uint64(5) {
			f.Inlines = append(f.Inlines, Inline{
				Depth: int(k) % 3, Name: name, CallFile: files[i%len(files)], CallLine: line,
				Ranges: []Range{{at + 60*(k/3) + 10*(k%3), uint32(60 - 20*(k%3))}},
			})
		}
		if err := t.Add(f); err != nil {
			b.Fatal(err)
		}
		at += 304
	}
}

// BenchmarkAdd measures rows added, sorted and made a table, and their memory.
func BenchmarkAdd(b *testing.B) {
	const n = 100_000
	for b.Loop() {
		t := NewBuilder(Module{OS: "Linux", Name: "bench"}, Limits{})
		fill(b, t, n)
		tab, err := t.Table(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		bytes := tab.records.size + tab.funcs.size()
		b.ReportMetric(float64(bytes)/float64(tab.Counts().Rows), "B/row")
		b.ReportMetric(float64(tab.Counts().Bytes)/float64(tab.Counts().Rows), "B/row-with-names")
	}
	b.ReportMetric(float64(b.N)*n*30/b.Elapsed().Seconds(), "rows/s")
}

func BenchmarkLookup(b *testing.B) {
	const n = 100_000
	t := NewBuilder(Module{OS: "Linux", Name: "bench"}, Limits{})
	fill(b, t, n)
	tab, err := t.Table(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for b.Loop() {
		if _, ok := tab.Lookup(0x1000 + random.Uint64N(n*304)/304*304 + random.Uint64N(300)); !ok {
			b.Fatal("not found")
		}
	}
}
