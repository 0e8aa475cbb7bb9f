package objfile

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"testing"
)

func openTestELF(t *testing.T, name string) *ELFFile {
	t.Helper()
	p, err := os.ReadFile("../testdata/elf/" + name)
	if err != nil {
		t.Fatal(err)
	}
	e, err := OpenELF(bytes.NewReader(p), int64(len(p)))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// scratchFile keeps what is written in memory.
type scratchFile struct{ bytes.Buffer }

func (s *scratchFile) ReadAt(p []byte, off int64) (int, error) {
	return bytes.NewReader(s.Bytes()).ReadAt(p, off)
}

// TestSection: a compressed section has the content of the plain one, in memory
// and in a scratch file.
func TestSection(t *testing.T) {
	t.Parallel()
	for _, name := range []string{".debug_info", ".debug_abbrev", ".debug_str", ".debug_line"} {
		plain, err := openTestELF(t, "prog-sha1").Section(name, SectionOptions{})
		if err != nil {
			t.Fatal(err)
		}
		want, err := plain.ReadAll(1 << 20)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"prog-zlib", "prog-zstd"} {
			scratches := 0
			for _, opt := range []SectionOptions{{}, {Memory: 1, Scratch: func() (Scratch, error) { scratches++; return &scratchFile{}, nil }}} {
				d, err := openTestELF(t, file).Section(name, opt)
				if err != nil {
					t.Fatalf("%s of %s: %v", name, file, err)
				}
				got, err := io.ReadAll(io.NewSectionReader(d, 0, d.Size()))
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("%s of %s: %d bytes, %v; want the %d bytes of the plain section", name, file, len(got), err, len(want))
				}
			}
			if scratches == 0 && name == ".debug_info" {
				t.Errorf("%s of %s: no scratch file was used", name, file)
			}
		}
	}
	if _, err := openTestELF(t, "prog-sha1").Section(".nothing", SectionOptions{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a section that the file does not have: %v, want fs.ErrNotExist", err)
	}
	if _, err := openTestELF(t, "prog-sha1.debug").Section(".text", SectionOptions{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a section without bytes: %v, want fs.ErrNotExist", err)
	}
	if _, err := openTestELF(t, "prog-zstd").Section(".debug_info", SectionOptions{Limit: 16}); !errors.Is(err, ErrBroken) {
		t.Errorf("a section above the limit: %v, want ErrBroken", err)
	}
}

// TestInflate: the size of a compressed section is a claim.
func TestInflate(t *testing.T) {
	t.Parallel()
	data := []byte{0x78, 0x9c, 0x4b, 0x04, 0x00, 0x00, 0x62, 0x00, 0x62} // "a"
	for _, c := range []struct {
		size uint64
		ok   bool
	}{{1, true}, {2, false}, {4 << 30, false}, {1 << 63, false}} {
		d, err := inflate(bytes.NewReader(data), 0, int64(len(data)), zlibSection, c.size, SectionOptions{})
		if c.ok != (err == nil) || c.ok && string(d.Bytes()) != "a" || !c.ok && !errors.Is(err, ErrBroken) {
			t.Errorf("one byte that claims to be %d: %v, want read: %v, else ErrBroken", c.size, err, c.ok)
		}
	}
	if _, err := inflate(bytes.NewReader(data), 0, int64(len(data)), 3, 1, SectionOptions{}); !errors.Is(err, ErrBroken) {
		t.Errorf("an unknown compression: %v, want ErrBroken", err)
	}
}

func TestCodeSymbols(t *testing.T) {
	t.Parallel()
	have := map[string]CodeSymbol{}
	e := openTestELF(t, "prog-sha1")
	if err := e.CodeSymbols(false, func(x CodeSymbol) error {
		have[x.Name] = x
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if x := have["main"]; x.Address != 0x113c || x.Size != 0x2f || x.Rank != 0 {
		t.Errorf("main is %+v, want 0x2f bytes at 0x113c, rank 0", x)
	}
	if _, ok := have["__data_start"]; ok {
		t.Error("a symbol of data is among those of code")
	}
	if name, crc, err := openTestELF(t, "prog-sha1.stripped").DebugLink(); name != "prog-sha1.debug" || crc == 0 || err != nil {
		t.Errorf("debug link %q %#x, %v; want prog-sha1.debug", name, crc, err)
	}
	for name, want := range map[string]bool{"$a": true, "$x.12": true, "$xrv64i2p1": true, "$d": true, "$alpha": false, "x": false, "$b": false} {
		if isMappingSymbol([]byte(name)) != want {
			t.Errorf("%s is a mapping symbol: %v, want %v", name, !want, want)
		}
	}
}

// TestExports walks an exports trie of two names, and tries that are damaged.
func TestExports(t *testing.T) {
	t.Parallel()
	m := &MachOFile{base: 0x1000, secs: []machSection{{addr: 0x1000, size: 0x100, flags: machPureCode}}}
	// The root has the child "_f" at 6, which is exported at 0x10 and has the child "oo" at 16.
	p := []byte{0, 1, '_', 'f', 0, 6, 2, 0, 0x10, 1, 'o', 'o', 0, 14, 2, 0, 0x20, 0}
	p[13] = 14
	var got []CodeSymbol
	walk := func(p []byte) error {
		got = nil
		tr := &trie{m: m, p: p, code: m.Code(), seen: make([]uint64, len(p)/64+1), yield: func(x CodeSymbol) error {
			got = append(got, x)
			return nil
		}}
		return tr.walk()
	}
	if err := walk(p); err != nil || len(got) != 2 || got[0].Name != "f" || got[0].Address != 0x1010 || got[1].Name != "foo" || got[1].Address != 0x1020 {
		t.Errorf("exports %+v, %v; want f at 0x1010 and foo at 0x1020", got, err)
	}
	p[13] = 6 // a child that is its own parent
	if err := walk(p); !errors.Is(err, ErrBroken) {
		t.Errorf("a trie with a cycle: %v, want ErrBroken", err)
	}
	for n := range p {
		if err := walk(p[:n]); err == nil {
			t.Errorf("a trie cut off after %d bytes is accepted", n)
		}
	}
}
