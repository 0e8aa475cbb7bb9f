package symbolicate

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/symdepot/symdepot/functab"
)

// strangeLooker is a GSYM file of 300 functions with inlined calls and strange names.
func strangeLooker(t *testing.T) Looker {
	t.Helper()
	r := rand.New(rand.NewPCG(3, 4))
	b := functab.NewBuilder(functab.Module{OS: "Linux", Arch: "x86_64", Name: "strange"}, functab.Limits{})
	for i := range uint64(300) {
		at := 0x1000 + i*0x100
		file := b.File("/src/" + strange(r) + "x.cpp")
		f := functab.Function{Start: at, Size: 0x80, Name: b.Name(fmt.Sprintf("f%d%s", i, strange(r)), "")}
		for k := range uint64(8) {
			f.Rows = append(f.Rows, functab.Row{Start: at + 16*k, File: file, Line: uint32(i + k)})
		}
		for k := range r.IntN(3) {
			in := functab.Inline{Depth: k, Name: b.Name(strange(r), ""), CallFile: file, CallLine: uint32(k + 1)}
			in.Ranges = []functab.Range{{Start: at + 16, Size: 64}}
			f.Inlines = append(f.Inlines, in)
		}
		if err := b.Add(f); err != nil {
			t.Fatal(err)
		}
	}
	table, err := b.Table(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := Write(t.Context(), &file, GSYM, table); err != nil {
		t.Fatal(err)
	}
	l, err := openLooker(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestV5Written: whatever was asked for before, and by whom, V5Written writes what V5 does.
func TestV5Written(t *testing.T) {
	t.Parallel()
	l := strangeLooker(t)
	src := shelf{"ABC1": {Looker: l, CodeFile: "strange.so"}, "ABC2": {Looker: fixed{0x10: {Frames: []functab.Line{{Function: "g"}}}}}}
	var all sync.WaitGroup
	for user := range uint64(4) {
		all.Go(func() {
			r := rand.New(rand.NewPCG(5, user))
			for range 200 {
				j := Job{Modules: []ModuleQuery{{DebugFile: fmt.Sprint("m", r.IntN(2)), DebugID: "ABC1"}, {DebugFile: "o", DebugID: "ABC2"}, {}}}
				var stack []Offset
				for range 50 {
					stack = append(stack, Offset{r.IntN(4) - 1, 0xff0 + r.Int64N(0x2000) - r.Int64N(0x1000)})
				}
				j.Stacks = [][]Offset{stack, {{1, 0x10}, {0, -1}, {-1, -1}}}
				plain, err := V5(t.Context(), src, []Job{j})
				written, werr := V5Written(t.Context(), src, []Job{j})
				if err != nil || werr != nil {
					t.Errorf("errors %v, %v", err, werr)
					return
				}
				before := make([]byte, r.IntN(2), 2)
				got, err := written.AppendJSON(before)
				if want := string(before) + encoded(t, plain); err != nil || string(got) != want {
					t.Errorf("%v, written\n%s\nwant\n%s", err, got, want)
					return
				}
			}
		})
	}
	all.Wait()
	if kept := l.(gsymLooker).written; len(kept.recent) == 0 {
		t.Error("nothing was kept")
	}
}

// TestWrittenFrames: what is asked for once is not kept, and what is kept has a limit.
func TestWrittenFrames(t *testing.T) {
	t.Parallel()
	var w writtenFrames
	ask := func(rva uint64) keptFrame {
		var f [1]keptFrame
		w.get([]uint64{rva}, f[:])
		return f[0]
	}
	get := func(rva uint64) *writtenFrame { return ask(rva).writtenFrame }
	for rva := range uint64(1000) {
		if f := ask(rva); f.writtenFrame != nil || f.again {
			t.Errorf("%#x was not asked for before", rva)
		}
	}
	known := 0
	for rva := range uint64(1000) {
		if ask(rva).again {
			known++
		}
	}
	if known < 990 {
		t.Errorf("%d of 1,000 addresses are known, want nearly all", known)
	}
	long := strings.Repeat("x", 1<<20)
	for rva := range uint64(100) {
		w.keep(rva, &writtenFrame{json: long})
		if n := len(w.recent) + len(w.older); n > maxWritten>>20 {
			t.Fatalf("%d MiB are kept, want at most %d", n, maxWritten>>20)
		}
		if rva >= 5 && get(rva-5) == nil || get(7) == nil && rva >= 7 {
			t.Fatalf("at %d, what is in use was forgotten", rva)
		}
	}
	if get(20) != nil {
		t.Error("what nobody has used for a long time is kept")
	}
	if w.keep(200, &writtenFrame{json: strings.Repeat("x", maxWritten)}); get(200) != nil || w.size > maxWritten/2 || get(99) == nil {
		t.Errorf("a frame above the limit was kept: %d bytes", w.size)
	}
}
