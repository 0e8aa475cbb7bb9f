package breakpad

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/symdepot/symdepot/functab"
)

// benchTable has the tables of 50,000 functions with 30 lines and 2 inlined calls.
func benchTable(b *testing.B) *functab.Table {
	b.Helper()
	t := functab.NewBuilder(functab.Module{OS: "Linux", Arch: "x86_64", Name: "bench"}, functab.Limits{})
	var files []functab.FileID
	for i := range 1000 {
		files = append(files, t.File(fmt.Sprintf("/build/source/directory/file%d.cpp", i)))
	}
	for i := range 50_000 {
		at := 0x1000 + uint64(i)*304
		name := t.Name(fmt.Sprintf("namespace::Class%d::method%d(int, char const*)", i%500, i), "")
		f := functab.Function{Start: at, Size: 300, Name: name}
		for k := range 30 {
			f.Rows = append(f.Rows, functab.Row{Start: at + uint64(k)*10, File: files[(i+k/4)%1000], Line: uint32(i%3000 + k*k%17 + 1)})
		}
		for k := range 2 {
			f.Inlines = append(f.Inlines, functab.Inline{Depth: k, Name: name, CallFile: files[i%1000], CallLine: 12, Ranges: []functab.Range{{Start: at + 30, Size: uint32(100 - 50*k)}}})
		}
		if err := t.Add(f); err != nil {
			b.Fatal(err)
		}
	}
	tab, err := t.Table(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return tab
}

func BenchmarkWriteSym(b *testing.B) {
	t := benchTable(b)
	var n sizeOnly
	for b.Loop() {
		n = 0
		if err := WriteSym(&n, t); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(n))
}

func BenchmarkReadSym(b *testing.B) {
	var sym bytes.Buffer
	if err := WriteSym(&sym, benchTable(b)); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(sym.Len()))
	for b.Loop() {
		if err := ReadSym(io.Reader(bytes.NewReader(sym.Bytes())), functab.NewBuilder(functab.Module{}, functab.Limits{})); err != nil {
			b.Fatal(err)
		}
	}
}
