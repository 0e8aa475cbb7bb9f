package dwarf

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/functab"
)

// memory is a section in memory. It hides its bytes if paged.
type memory struct {
	b     []byte
	paged bool
}

func (m memory) ReadAt(p []byte, off int64) (int, error) {
	if off >= int64(len(m.b)) {
		return 0, io.EOF
	}
	n := copy(p, m.b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (m memory) Size() int64 { return int64(len(m.b)) }

func (m memory) Bytes() []byte {
	if m.paged {
		return nil
	}
	return m.b
}

// set is the sections of a test.
type set map[string][]byte

func (s set) sections(paged bool) Sections {
	return func(name string) (Section, error) {
		if b, ok := s[name]; ok {
			return memory{b, paged}, nil
		}
		return nil, fs.ErrNotExist
	}
}

// writer makes sections.
type writer struct{ bytes.Buffer }

func (w *writer) u8(v ...byte) *writer {
	w.Write(v)
	return w
}

func (w *writer) u16(v uint16) *writer {
	w.Write(binary.LittleEndian.AppendUint16(nil, v))
	return w
}

func (w *writer) u32(v uint32) *writer {
	w.Write(binary.LittleEndian.AppendUint32(nil, v))
	return w
}

func (w *writer) u64(v uint64) *writer {
	w.Write(binary.LittleEndian.AppendUint64(nil, v))
	return w
}

func (w *writer) uleb(v ...uint64) *writer {
	for _, x := range v {
		w.Write(binary.AppendUvarint(nil, x))
	}
	return w
}

func (w *writer) str(s string) *writer {
	w.WriteString(s + "\x00")
	return w
}

// abbreviation appends an abbreviation; attrs are pairs of attribute and form.
func (w *writer) abbreviation(code, tag uint64, children byte, attrs ...uint64) *writer {
	w.uleb(code, tag).u8(children)
	return w.uleb(append(attrs, 0, 0)...)
}

// sized prefixes a 32-bit length.
func sized(b []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), b...)
}

// unit4 is a unit of version 4 with 8-byte addresses.
func unit4(body *writer) []byte {
	var w writer
	w.u16(4).u32(0).u8(8)
	w.Write(body.Bytes())
	return sized(w.Bytes())
}

func read(t testing.TB, d Data, opt Options) (*functab.Table, Stats, error) {
	t.Helper()
	b := functab.NewBuilder(functab.Module{}, functab.Limits{})
	st, err := Read(t.Context(), d, opt, b)
	if err != nil {
		return nil, st, err
	}
	table, err := b.Table(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return table, st, nil
}

// simple is a program of one function with an inlined call, in version 4.
func simple() set {
	var abbrev, info, line writer
	abbrev.abbreviation(1, tagCompile, 1, atName, formString, atCompDir, formString, atStmtList, formSecOffset, atLowPC, formAddr, atLanguage, formData1)
	abbrev.abbreviation(2, tagSubprogram, 1, atName, formString, atLowPC, formAddr, atHighPC, formData4)
	abbrev.abbreviation(3, tagInlined, 0, atAbstractOrigin, formRef4, atLowPC, formAddr, atHighPC, formUdata, atCallFile, formData1, atCallLine, formData1)
	abbrev.abbreviation(4, tagSubprogram, 0, atName, formString)
	abbrev.u8(0)
	info.uleb(1).str("a.c").str("/src").u32(0).u64(0x1000).u8(0x0c)
	origin := uint32(11 + info.Len())
	info.uleb(4).str("small")
	info.uleb(2).str("big").u64(0x1000).u32(0x20)
	info.uleb(3).u32(origin).u64(0x1008).uleb(4).u8(1, 7)
	info.u8(0, 0)
	var program writer
	program.u8(0, 9, lneSetAddress).u64(0x1000)
	program.u8(lnsAdvanceLine, 4, lnsCopy)                             // 1000: line 5
	program.u8(lnsAdvancePC).uleb(8).u8(lnsAdvanceLine, 0x7e, lnsCopy) // 1008: line 3
	program.u8(lnsAdvancePC).uleb(4).u8(lnsAdvanceLine, 2, lnsCopy)    // 100c: line 5
	program.u8(lnsAdvancePC).uleb(0x14).u8(0, 1, lneEndSequence)
	var head writer
	head.u8(1, 1, 1, 0xfb, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1)
	head.u8(0).str("a.c").u8(0, 0, 0, 0)
	line.u16(4).u32(uint32(head.Len()))
	line.Write(head.Bytes())
	line.Write(program.Bytes())
	return set{"debug_info": unit4(&info), "debug_abbrev": abbrev.Bytes(), "debug_line": sized(line.Bytes())}
}

func TestSimple(t *testing.T) {
	t.Parallel()
	for _, paged := range []bool{false, true} {
		table, st, err := read(t, Data{Sections: simple().sections(paged)}, Options{Base: 0x800})
		if err != nil {
			t.Fatal(err)
		}
		if st.Functions != 1 || st.Inlines != 1 || st.Rows != 3 || st.Damaged != 0 {
			t.Errorf("paged %v: %+v, want 1 function, 1 inlined call, 3 rows", paged, st)
		}
		for _, c := range []struct {
			at   uint64
			want string
		}{{0, "[{big  /src/a.c 5}]"}, {8, "[{small  /src/a.c 3} {big  /src/a.c 7}]"}, {12, "[{big  /src/a.c 5}]"}, {0x20, "[]"}} {
			a, _ := table.Lookup(0x800 + c.at)
			if got := fmt.Sprint(a.Frames); got != c.want {
				t.Errorf("paged %v: %#x is %s, want %s", paged, c.at, got, c.want)
			}
		}
	}
}

// TestRelativeCompilation: in version 5, directory 0 is the compilation directory, and
// only the other directories are relative to it. Debian builds so, with
// -ffile-prefix-map.
func TestRelativeCompilation(t *testing.T) {
	t.Parallel()
	for dir, want := range map[byte]string{0: "[{big  cs/a.c 5}]", 1: "[{big  cs/sub/a.c 5}]"} {
		s := simple()
		s["debug_info"] = bytes.Replace(s["debug_info"], []byte("/src\x00"), []byte("./cs\x00"), 1)
		var head, line writer
		head.u8(1, 1, 1, 0xfb, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1)
		head.u8(1).uleb(lnctPath, formString).u8(2).str("./cs").str("sub")
		head.u8(2).uleb(lnctPath, formString, lnctDirectory, formData1).u8(2).str("a.c").u8(0).str("a.c").u8(dir)
		line.u16(5).u8(8, 0).u32(uint32(head.Len()))
		line.Write(head.Bytes())
		line.u8(0, 9, lneSetAddress).u64(0x1000)
		line.u8(lnsAdvanceLine, 4, lnsCopy).u8(lnsAdvancePC).uleb(0x20).u8(0, 1, lneEndSequence)
		s["debug_line"] = sized(line.Bytes())
		table, _, err := read(t, Data{Sections: s.sections(false)}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		a, _ := table.Lookup(0x1000)
		if got := fmt.Sprint(a.Frames); got != want {
			t.Errorf("a file of directory %d: %s, want %s", dir, got, want)
		}
	}
}

// quick fails the test if Read takes long or much memory.
func quick(t *testing.T, name string, d Data, want error) Stats {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	b := functab.NewBuilder(functab.Module{}, functab.Limits{})
	st, err := Read(t.Context(), d, Options{}, b)
	runtime.ReadMemStats(&after)
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", name, err, want)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("%s: took %v, want less than a second on an idle machine", name, took)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 {
		t.Errorf("%s: allocated %d bytes, want 64 MiB at most", name, n)
	}
	return st
}

// TestTraps: input that makes other readers hang, panic or run out of memory.
func TestTraps(t *testing.T) {
	lines := func(table []byte) set {
		s := simple()
		s["debug_line"] = table
		return s
	}
	// A line table of version 5 with a count of files that need no bytes: it makes
	// the standard library allocate 4 GiB.
	var bomb writer
	bomb.u16(5).u8(8, 0).u32(0x40).u8(1, 1, 1, 0xfb, 14, 1)
	bomb.u8(0).uleb(0)          // no directories
	bomb.u8(0).uleb(0xffffffff) // files without a format
	quick(t, "files without bytes", Data{Sections: lines(sized(bomb.Bytes())).sections(false)}, nil)
	bomb.Reset()
	bomb.u16(5).u8(8, 0).u32(0x40).u8(1, 1, 1, 0xfb, 14, 1)
	bomb.u8(1).uleb(lnctPath, formFlagPresent).uleb(0xffffffff)
	quick(t, "directories of implicit bytes", Data{Sections: lines(sized(bomb.Bytes())).sections(true)}, nil)
	bomb.Reset()
	bomb.u16(5).u8(8, 0).u32(0x40).u8(1, 1, 1, 0xfb, 14, 1)
	bomb.u8(1).uleb(lnctPath, formUdata).uleb(0xffffffff)
	quick(t, "more directories than bytes", Data{Sections: lines(sized(bomb.Bytes())).sections(true)}, nil)
	for name, head := range map[string][]byte{
		"line range 0":  {1, 1, 1, 0xfb, 0, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0},
		"opcode base 0": {1, 1, 1, 0xfb, 14, 0, 0, 0},
		"opcode base 1": {1, 1, 1, 0xfb, 14, 1, 0, 0},
		"cut off":       {1, 1},
	} {
		var l writer
		l.u16(4).u32(uint32(len(head))).u8(head...)
		st := quick(t, name, Data{Sections: lines(sized(l.Bytes())).sections(false)}, nil)
		if st.Functions != 1 {
			t.Errorf("%s: %d functions, want the one without rows", name, st.Functions)
		}
	}

	// Files and lines far outside.
	var program writer
	program.u8(0, 9, lneSetAddress).u64(0x1000).u8(lnsSetFile).uleb(1 << 62).u8(lnsAdvanceLine).uleb(0x7f).u8(lnsCopy)
	program.u8(lnsAdvancePC).uleb(1<<63).u8(lnsCopy).u8(lnsAdvancePC).uleb(1<<63).u8(lnsCopy, 0, 1, lneEndSequence)
	var l writer
	head := []byte{1, 1, 1, 0xfb, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0}
	l.u16(4).u32(uint32(len(head))).u8(head...)
	l.Write(program.Bytes())
	table, _, err := read(t, Data{Sections: lines(sized(l.Bytes())).sections(false)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if a, _ := table.Lookup(0x1001); len(a.Frames) != 1 || a.Frames[0].File != "" {
		t.Errorf("a file index outside of the table: %v, want no file", a.Frames)
	}

	// Entries nested deeper than any compiler nests them, without ends.
	var abbrev, info writer
	abbrev.abbreviation(1, tagCompile, 1, atLowPC, formAddr)
	abbrev.abbreviation(2, tagLexical, 1)
	abbrev.abbreviation(3, tagSubprogram, 1, atName, formString, atLowPC, formAddr, atHighPC, formData4)
	abbrev.abbreviation(4, tagInlined, 1, atAbstractOrigin, formRef4, atLowPC, formAddr, atHighPC, formData4)
	abbrev.abbreviation(5, tagSubprogram, 1, atAbstractOrigin, formRef4, atLowPC, formAddr, atHighPC, formData4)
	abbrev.abbreviation(6, tagSubprogram, 0, atRanges, formSecOffset, atName, formString)
	abbrev.abbreviation(7, tagLexical, 0, atSibling, formRef4, atName, formIndirect)
	abbrev.u8(0)
	info.uleb(1).u64(0x1000).uleb(3).str("f").u64(0x1000).u32(0x100)
	for range 1 << 20 {
		info.u8(2)
	}
	st := quick(t, "nested blocks", Data{Sections: set{"debug_info": unit4(&info), "debug_abbrev": abbrev.Bytes()}.sections(true)}, nil)
	if st.Functions != 1 {
		t.Errorf("nested blocks: %d functions, want 1", st.Functions)
	}
	info.Reset()
	info.uleb(1).u64(0x1000).uleb(3).str("f").u64(0x1000).u32(0x100)
	for range 20000 {
		info.u8(4).u32(uint32(11)).u64(0x1000).u32(0x100)
	}
	quick(t, "nested calls", Data{Sections: set{"debug_info": unit4(&info), "debug_abbrev": abbrev.Bytes()}.sections(false)}, nil)

	// An origin that is its own origin.
	info.Reset()
	info.uleb(1).u64(0x1000)
	at := uint32(11 + info.Len())
	info.uleb(5).u32(at).u64(0x1000).u32(4).u8(0, 0)
	table, _, err = read(t, Data{Sections: set{"debug_info": unit4(&info), "debug_abbrev": abbrev.Bytes()}.sections(false)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if a, _ := table.Lookup(0x1000); len(a.Frames) != 1 || a.Frames[0].Function != omitted {
		t.Errorf("an origin that is its own: %v, want %s", a.Frames, omitted)
	}

	// Many functions with one long list of ranges.
	var ranges writer
	for i := range uint64(20000) {
		ranges.u64(i + 1).u64(i + 2)
	}
	ranges.u64(0).u64(0)
	info.Reset()
	info.uleb(1).u64(0x1000)
	for range 200000 {
		info.uleb(6).u32(0).str("")
	}
	b := functab.NewBuilder(functab.Module{}, functab.Limits{Bytes: 32 << 20})
	start := time.Now()
	_, err = Read(t.Context(), Data{Sections: set{"debug_info": unit4(&info), "debug_abbrev": abbrev.Bytes(), "debug_ranges": ranges.Bytes()}.sections(false)}, Options{}, b)
	if !errors.Is(err, ErrBudget) && !errors.Is(err, functab.ErrLimit) {
		t.Errorf("4 billion ranges: %v, want ErrBudget or ErrLimit", err)
	}
	if took := time.Since(start); took > time.Minute {
		t.Errorf("4 billion ranges: took %v, want at most a minute", took)
	}

	// Units and abbreviations without content.
	for name, s := range map[string]set{
		"no abbreviations":   {"debug_info": simple()["debug_info"]},
		"a unit of no bytes": {"debug_info": make([]byte, 64), "debug_abbrev": {0}},
		"a unit too long":    {"debug_info": {0xf0, 0, 0, 0, 4, 0}, "debug_abbrev": {0}},
		"a reserved length":  {"debug_info": {0xf3, 0xff, 0xff, 0xff, 4, 0, 0, 0}, "debug_abbrev": {0}},
		"a 64-bit length":    {"debug_info": bytes.Repeat([]byte{0xff}, 64), "debug_abbrev": {0}},
		"abbreviations cut":  {"debug_info": simple()["debug_info"], "debug_abbrev": simple()["debug_abbrev"][:20]},
		"an endless LEB":     {"debug_info": simple()["debug_info"], "debug_abbrev": bytes.Repeat([]byte{0x80}, 1<<16)},
		"an unknown version": {"debug_info": {8, 0, 0, 0, 9, 0, 0, 0, 0, 0, 8, 0}, "debug_abbrev": {0}},
	} {
		if st := quick(t, name, Data{Sections: s.sections(true)}, nil); st.Functions != 0 {
			t.Errorf("%s: %d functions, want none", name, st.Functions)
		}
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	b := functab.NewBuilder(functab.Module{}, functab.Limits{})
	if _, err := Read(t.Context(), Data{Sections: set{}.sections(false)}, Options{}, b); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without sections: %v, want fs.ErrNotExist", err)
	}
	broken := errors.New("disk")
	if _, err := Read(t.Context(), Data{Sections: func(name string) (Section, error) {
		if name == "debug_info" {
			return failing{broken}, nil
		}
		return nil, fs.ErrNotExist
	}}, Options{}, b); !errors.Is(err, broken) {
		t.Errorf("a section that cannot be read: %v, want %v", err, broken)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Read(ctx, Data{Sections: simple().sections(false)}, Options{}, b); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v, want %v", err, context.Canceled)
	}
	// One damaged unit of two costs that unit only.
	s := simple()
	good := s["debug_info"]
	bad := bytes.Clone(good)
	bad[len(bad)-3] = 0x7f
	bad[11] = 0x66 // an unknown abbreviation
	s["debug_info"] = append(bad, good...)
	table, st, err := read(t, Data{Sections: s.sections(false)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if w := strings.Join(table.Warnings(), "\n"); st.Damaged != 1 || st.Functions != 1 || !strings.Contains(w, "1 damaged units left out") {
		t.Errorf("%+v, warnings %q; want one damaged unit, one function and a warning", st, w)
	}
}

type failing struct{ err error }

func (f failing) ReadAt([]byte, int64) (int, error) { return 0, f.err }
func (f failing) Size() int64                       { return 100 }

// TestMarks: of many units, those are marked whose numbers are multiples of a step.
func TestMarks(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, singleMarks, singleMarks + 1, 5000, 20 * singleMarks, 50 * singleMarks} {
		im := &image{step: 1}
		for i := range n {
			if i%im.step == 0 {
				im.mark(uint64(100 * i))
			}
		}
		if n <= singleMarks && im.step != 1 || im.step > unitsPerMark || im.step < unitsPerMark && len(im.marks) > singleMarks {
			t.Errorf("%d units have %d marks, every %d", n, len(im.marks), im.step)
		}
		if want := (n + im.step - 1) / im.step; len(im.marks) != want {
			t.Errorf("%d units have %d marks, want %d", n, len(im.marks), want)
		}
		for i, off := range im.marks {
			if off != uint64(100*i*im.step) {
				t.Fatalf("%d units: mark %d is at %d, want %d", n, i, off, 100*i*im.step)
			}
		}
	}
}
