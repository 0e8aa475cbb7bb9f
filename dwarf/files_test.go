package dwarf

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// lineHeader5 is a line program of version 5 without opcodes. The tables are given.
func lineHeader5(tables *writer) []byte {
	var head, line writer
	head.u8(1, 1, 1, 0xfb, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1)
	head.Write(tables.Bytes())
	line.u16(5).u8(8, 0).u32(uint32(head.Len()))
	line.Write(head.Bytes())
	return sized(line.Bytes())
}

// embedding is a program of version 5 with checksums and texts of every form.
func embedding() set {
	var tables, lineStr, str writer
	folder := func(s string) uint32 {
		at := uint32(lineStr.Len())
		lineStr.str(s)
		return at
	}
	tables.u8(1).uleb(lnctPath, formLineStrp).uleb(2).u32(folder("/src")).u32(folder("sub/../lib"))
	tables.u8(5).uleb(lnctPath, formString, lnctDirectory, formUdata, lnctMD5, formData16, lnctLLVMSource, formStrp, 0x3fff, formBlock1)
	str.str("")
	one := uint32(str.Len())
	str.str("first text")
	two := uint32(str.Len())
	str.str("second text")
	tables.uleb(4)
	entry := func(name string, dir uint64, sum byte, text uint32) {
		tables.str(name).uleb(dir).Write(bytes.Repeat([]byte{sum}, 16))
		tables.u32(text).u8(2, 0xff, 0xff)
	}
	entry("a.c", 0, 1, one) // the first file stands at number 0, and once more
	entry("a.c", 0, 1, one)
	entry("b.h", 1, 2, two)
	entry("/abs/c.h", 1, 0, 0) // without a checksum and a text
	return set{"debug_line": lineHeader5(&tables), "debug_line_str": lineStr.Bytes(), "debug_str": str.Bytes(), "debug_info": {}, "debug_abbrev": {}}
}

// filesOf reads all files, as words.
func filesOf(t testing.TB, d Data) ([]string, FileStats, error) {
	t.Helper()
	var got []string
	st, err := Files(t.Context(), d, func(f SourceFile) error {
		s := f.Name
		if f.MD5 != nil {
			s += string("0123456789"[f.MD5[0]%10])
		}
		if f.Text != nil {
			text, err := io.ReadAll(io.LimitReader(f.Text.Reader(), 1<<20))
			s += "=" + string(text)
			if err != nil {
				s += "!"
			}
		}
		got = append(got, s)
		return nil
	})
	return got, st, err
}

func TestFiles(t *testing.T) {
	t.Parallel()
	for _, paged := range []bool{false, true} {
		got, st, err := filesOf(t, Data{Sections: embedding().sections(paged)})
		want := []string{"/src/a.c1=first text", "/src/lib/b.h2=second text", "/abs/c.h"}
		if err != nil || st != (FileStats{Tables: 1}) || !slices.Equal(got, want) {
			t.Errorf("paged %v: %q, %+v, %v; want %q of 1 table", paged, got, st, err, want)
		}
		got, st, err = filesOf(t, Data{Sections: simple().sections(paged)})
		if err != nil || st != (FileStats{Tables: 1}) || !slices.Equal(got, []string{"/src/a.c"}) {
			t.Errorf("version 4, paged %v: %q, %+v, %v; want /src/a.c", paged, got, st, err)
		}
	}
	noText := embedding()
	noText["debug_str"] = noText["debug_str"][:20] // the second text has no end
	if got, _, err := filesOf(t, Data{Sections: noText.sections(true)}); err != nil || got[1] != "/src/lib/b.h2=second t!" {
		t.Errorf("%q, %v, want an error of reading the second text", got, err)
	}
	alone := simple()
	delete(alone, "debug_info")
	if got, st, err := filesOf(t, Data{Sections: alone.sections(false)}); err != nil || st.NoFolder != 1 || !slices.Equal(got, []string{"a.c"}) {
		t.Errorf("without units: %q, %+v, %v; want the relative name, and that its folder is not known", got, st, err)
	}
	if _, _, err := filesOf(t, Data{Sections: set{}.sections(false)}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without line tables: %v, want fs.ErrNotExist", err)
	}
	stop := errors.New("stop")
	if _, err := Files(t.Context(), Data{Sections: simple().sections(false)}, func(SourceFile) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("%v, want the error of yield", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	many := simple()
	many["debug_line"] = bytes.Repeat(many["debug_line"], 1000)
	if _, err := Files(ctx, Data{Sections: many.sections(false)}, func(SourceFile) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want context.Canceled", err)
	}
}

// TestFilesTraps: tables that make a reader slow or large, and damage between good ones.
func TestFilesTraps(t *testing.T) {
	good := embedding()["debug_line"]
	damaged := bytes.Clone(good)
	damaged[16] = 0 // the line range
	var counts writer
	counts.u8(0).uleb(1<<40).u8(1).uleb(lnctPath, formFlagPresent).uleb(1 << 40)
	var long writer // every entry refers to another suffix of one long name
	long.u8(1).uleb(lnctPath, formLineStrp).uleb(1).u32(0)
	long.u8(1).uleb(lnctPath, formLineStrp).uleb(1 << 16)
	for i := range uint32(1 << 16) {
		long.u32(i)
	}
	for _, c := range []struct {
		what  string
		line  []byte
		str   []byte
		stats FileStats
		err   error
	}{
		{"damage between two programs", slices.Concat(good, damaged, good), nil, FileStats{Tables: 3, Damaged: 1}, nil},
		{"padding", slices.Concat(good, make([]byte, 64), good), nil, FileStats{Tables: 18, Damaged: 16}, nil},
		{"a length beyond the section", slices.Concat(good, binary.LittleEndian.AppendUint32(nil, 1<<30)), nil, FileStats{Tables: 2, Damaged: 1}, nil},
		{"64-bit length", slices.Concat(good, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}), nil, FileStats{Tables: 2, Damaged: 1}, nil},
		{"counts without content", lineHeader5(&counts), nil, FileStats{Tables: 1, Damaged: 1}, nil},
		{"many names of one text", lineHeader5(&long), bytes.Repeat([]byte("a"), 1<<16), FileStats{}, ErrBudget},
		{"zeros", make([]byte, 16<<20), nil, FileStats{Tables: maxDamaged, Damaged: maxDamaged}, nil},
	} {
		s := embedding()
		s["debug_line"] = c.line
		if c.str != nil {
			s["debug_line_str"] = append(c.str, 0)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		n := 0
		st, err := Files(t.Context(), Data{Sections: s.sections(false)}, func(f SourceFile) error {
			if n += len(f.Name); n > 64<<20 {
				return ErrBudget
			}
			return nil
		})
		runtime.ReadMemStats(&after)
		if !errors.Is(err, c.err) || c.err == nil && st != c.stats {
			t.Errorf("%s: %+v, %v; want %+v, %v", c.what, st, err, c.stats, c.err)
		}
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%s: took %v, want less than a second on an idle machine", c.what, took)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 512<<20 {
			t.Errorf("%s: allocated %d bytes, want 512 MiB at most", c.what, n)
		}
	}
}

// FuzzFiles: any sections end, within the budget, and names are no longer than they can be.
func FuzzFiles(f *testing.F) {
	for _, s := range []set{simple(), embedding()} {
		f.Add(s["debug_line"], s["debug_line_str"], s["debug_str"], s["debug_info"], s["debug_abbrev"])
	}
	f.Fuzz(func(t *testing.T, line, lineStr, str, info, abbrev []byte) {
		s := set{"debug_line": line, "debug_line_str": lineStr, "debug_str": str, "debug_info": info, "debug_abbrev": abbrev,
			"debug_line.dwo": line, "debug_str.dwo": str}
		get := s.sections(len(line)%2 == 0)
		d := Data{Sections: get, Alternate: get, Object: func(string, string, uint64) (Sections, error) { return get, nil }}
		n := 0
		_, err := Files(t.Context(), d, func(f SourceFile) error {
			if n++; n > 10_000 {
				return ErrBudget
			}
			if len(f.Name) > 3*maxName || strings.Contains(f.Name, "\x00") {
				t.Errorf("a name of %d bytes, want at most %d without NUL", len(f.Name), 3*maxName)
			}
			if f.Text != nil {
				if _, err := io.Copy(io.Discard, io.LimitReader(f.Text.Reader(), 1<<20)); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Error(err)
				}
			}
			return nil
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrBudget) {
			t.Error(err)
		}
	})
}
