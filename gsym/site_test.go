package gsym

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/symdepot/symdepot/functab"
)

// TestSites: addresses are found in short and in long records as in the tables, again and again.
func TestSites(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 8))
	b := functab.NewBuilder(functab.Module{OS: "Linux", Arch: "x86_64", Name: "sites"}, functab.Limits{})
	const n, size = 300, 0x1000
	var files []functab.FileID
	for i := range 300 {
		files = append(files, b.File(fmt.Sprintf("/src/%d/file%d.cpp", i%7, i)))
	}
	for i := range uint64(n) {
		start := size * (i + 1)
		f := functab.Function{Start: start, Size: size, Name: b.Name(fmt.Sprint("function", i), "")}
		for range r.IntN(1 << r.IntN(11)) {
			f.Rows = append(f.Rows, functab.Row{Start: start + r.Uint64N(size), File: files[r.IntN(len(files))], Line: r.Uint32N(1 << r.IntN(30))})
		}
		for range r.IntN(1 << r.IntN(9)) {
			in := functab.Inline{Depth: r.IntN(8), Name: b.Name(fmt.Sprint("inlined", r.IntN(100)), ""), CallFile: files[r.IntN(len(files))], CallLine: r.Uint32N(9999)}
			for range 1 + r.IntN(3) {
				in.Ranges = append(in.Ranges, functab.Range{Start: start + r.Uint64N(size), Size: r.Uint32N(600)})
			}
			f.Inlines = append(f.Inlines, in)
		}
		must(t, b.Add(f))
	}
	tab := table(t, b)
	out := written(t, tab)
	f := held(t, out)
	for range 3 {
		for i := range uint64(n) {
			at := size*(i+1) + r.Uint64N(size-20)
			checkLookups(t, tab, f, at, at+20)
		}
	}
	var anywhere []uint64
	for range 2000 {
		anywhere = append(anywhere, r.Uint64N(size*(n+2)))
	}
	each, _ := f.LookupEach(anywhere, nil, nil)
	for i, at := range anywhere {
		want, found := tab.Lookup(at)
		for k := range want.Frames {
			want.Frames[k].Raw = ""
		}
		if e := each[i]; e.Err != nil || e.OK != found || found && !cmp.Equal(e.Answer, want) {
			t.Fatalf("LookupEach of %#x: %+v; want %+v, %v", at, e, want, found)
		}
	}
	if len(f.cached) == 0 || len(f.cached) == n {
		t.Errorf("%d of %d functions are kept decoded, want the long ones", len(f.cached), n)
	}
	checkLookups(t, tab, f, size-3, size+3)
	checkLookups(t, tab, f, size*(n+1)-3, size*(n+1)+3)
}

// TestPaths: the paths that a file in memory keeps have a limit.
func TestPaths(t *testing.T) {
	t.Parallel()
	f := held(t, written(t, progTables(t)))
	w := f.whole.Load()
	w.left.Store(10)
	if p, err := f.path(1); p != "/usr/src/symdepot-src/prog.c" || err != nil || w.paths[1].Load() != nil {
		t.Errorf("path %q, error %v, kept %v; want one that is not kept", p, err, w.paths[1].Load())
	}
	w.left.Store(1000)
	if p, err := f.path(1); p == "" || err != nil || w.paths[1].Load() == nil || w.left.Load() >= 1000 {
		t.Errorf("path %q, error %v, %d bytes left; want one that is kept and counts", p, err, w.left.Load())
	}
}

// TestStrangeTexts: texts in memory are those that are read.
func TestStrangeTexts(t *testing.T) {
	t.Parallel()
	out := written(t, progTables(t))
	i := bytes.Index(out, []byte("main\x00"))
	for _, edit := range []string{"m\xc3\xa4n", "ma\xc3n", "\xa4ain", "ma\xff\xff"} {
		copy(out[i:], edit)
		read, memory := open(t, out), held(t, out)
		for at := range uint32(read.textEnd - read.textAt) {
			want, err := read.text(at)
			got, merr := memory.text(at)
			if err != nil || merr != nil || got != want {
				t.Errorf("%q, text at %d: %q, %v; want %q, %v", edit, at, got, merr, want, err)
			}
		}
	}
}

// TestLongRecord: a record that is too long is damaged in memory as it is in the file.
func TestLongRecord(t *testing.T) {
	t.Parallel()
	b := functab.NewBuilder(functab.Module{OS: "Linux", Arch: "x86_64", Name: "long"}, functab.Limits{})
	must(t, b.Add(functab.Function{Start: 0x1000, Size: 16, Name: b.Name("f", "")}))
	must(t, b.Add(functab.Function{Start: 0x2000, Size: 16, Name: b.Name("g", "")}))
	out := written(t, table(t, b))
	f := open(t, out)
	record := slices.Concat(le.AppendUint32(nil, 16), le.AppendUint32(nil, 0))
	for range 2 { // information of a kind that nobody knows
		record = le.AppendUint32(le.AppendUint32(record, 99), maxRecord/2)
		record = append(record, make([]byte, maxRecord/2)...)
	}
	record = append(record, make([]byte, 8)...)
	at := headerSize + (len(f.starts)+3)&^3
	le.PutUint32(out[at:], uint32(len(out)))
	le.PutUint32(out[at+4:], uint32(len(out)+8)) // so that the record seems short
	out = append(out, record...)
	for what, f := range map[string]*File{"read": open(t, out), "in memory": held(t, out)} {
		for range 3 {
			if a, ok, err := f.Lookup(0x1000 - f.Base()); !errors.Is(err, ErrFormat) {
				t.Errorf("%s: %+v, %v, error %v; want a fault", what, a, ok, err)
			}
		}
		if err := f.decode(0, &function{}, &scratch{}); !errors.Is(err, ErrFormat) {
			t.Errorf("%s, decoded: error %v, want a fault", what, err)
		}
	}
}

// FuzzSite: what is found without decoding all of a record is what is found with that.
func FuzzSite(f *testing.F) {
	f.Add([]byte("\x7e\x02\x06\x06\x13\x17\x00"), []byte("\x01\x00\x2f\x01\x01\x00\x00\x00\x00\x00\x01\x03\x03\x00\x06\x00\x00\x00\x01\x06\x00\x00"), uint32(4))
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		var rows []row
		for at := uint64(0); len(rows) < 40; at += r.Uint64N(400) {
			rows = append(rows, row{at, r.Uint32N(500), r.Uint32N(1 << r.IntN(32))})
		}
		f.Add(appendLines(nil, rows), []byte{}, r.Uint32N(5000))
	}
	f.Add([]byte("\x00\x7f\x06\x06\x13\xf7\x00"), []byte("\x02\x00\x2f\x40\x10\x01\x01\x00\x00\x00\x00\x00\x02\x03\x03\x41\x04\x01\x06\x00\x00\x00\x01\x06\x01\x03\x03\x00\x06\x00\x00\x00\x01\x06\x00\x01\x43\x03\x00\x06\x00\x00\x00\x01\x06\x00\x00"), uint32(0x44))
	f.Fuzz(func(t *testing.T, lines, calls []byte, at uint32) {
		const start = 0x100
		fn := function{start: start}
		got, rows, err := rowAt(lines, uint64(at))
		if derr := fn.decodeLines(lines, new(scratch)); derr == nil {
			if want := fn.row(uint64(at)); err != nil || got != want && len(fn.checks) > 0 || rows != (len(fn.checks) > 0) {
				t.Fatalf("row at %d: %+v, %v, error %v; want %+v, %v", at, got, rows, err, want, len(fn.checks) > 0)
			}
		}
		sites, some, err := callsAt(calls, start, start+uint64(at), nil)
		if derr := fn.decodeCalls(calls, new(scratch)); derr == nil {
			if want := fn.chain(start+uint64(at), nil); err != nil || !slices.Equal(sites, want) || some != (len(fn.calls) > 0) {
				t.Fatalf("calls at %d: %v, %v, error %v; want %v, %v", at, sites, some, err, want, len(fn.calls) > 0)
			}
		}
	})
}
