package public

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/objfile"
)

// elfImage is a 64-bit little-endian ELF file that tests change.
type elfImage struct {
	t *testing.T
	p []byte
}

// head returns the header of a section.
func (e elfImage) head(name string) []byte {
	e.t.Helper()
	f, err := objfile.OpenELF(bytes.NewReader(e.p), int64(len(e.p)))
	if err != nil {
		e.t.Fatal(err)
	}
	i := slices.IndexFunc(f.SectionHeaders(), func(s objfile.ELFSectionHeader) bool { return s.Name == name })
	if i < 0 {
		e.t.Fatalf("no section %s", name)
	}
	return e.p[binary.LittleEndian.Uint64(e.p[40:])+uint64(i)*64:][:64]
}

// content returns the bytes of a section.
func (e elfImage) content(name string) []byte {
	h := e.head(name)
	return e.p[binary.LittleEndian.Uint64(h[24:]):][:binary.LittleEndian.Uint64(h[32:])]
}

func sample(t *testing.T, name string) elfImage {
	return elfImage{t, bytes.Clone(symtest.Testdata(t, name))}
}

// TestHostileELF: headers that claim private bytes to be public do not make them so.
func TestHostileELF(t *testing.T) {
	t.Parallel()
	le := binary.LittleEndian
	text := bytes.Clone(sample(t, "elf/prog-sha1").content(".debug_str"))
	for name, c := range map[string]struct {
		change func(e elfImage)
		want   error // nil: a public form without the text
	}{
		"debug section that is loaded": {func(e elfImage) { le.PutUint64(e.head(".debug_str")[8:], shfAlloc) }, nil},
		"segment of all of the file": {func(e elfImage) {
			ph := e.p[le.Uint64(e.p[32:]):][2*56:] // the first PT_LOAD
			if le.Uint32(ph) != ptLoad {
				e.t.Fatal("the sample has changed")
			}
			le.PutUint64(ph[32:], uint64(len(e.p)))
		}, nil},
		"loaded section over debug section": {func(e elfImage) {
			copy(e.head(".rodata")[24:40], e.head(".debug_str")[24:40])
		}, objfile.ErrBroken},
		"names in a debug section": {func(e elfImage) {
			symtab := le.Uint64(e.head(".symtab")[24:])
			le.PutUint32(e.p[symtab+10*24:], 0xfffffff0)
		}, nil},
		"program headers in a debug section": {func(e elfImage) {
			at := le.Uint64(e.head(".debug_info")[24:])
			le.PutUint64(e.p[32:], at)
			le.PutUint16(e.p[56:], 1)
		}, objfile.ErrBroken},
		"symbols in a debug section": {func(e elfImage) {
			for at := le.Uint64(e.head(".symtab")[24:]); at < le.Uint64(e.head(".symtab")[24:])+le.Uint64(e.head(".symtab")[32:]); at += 24 {
				le.PutUint16(e.p[at+6:], 30) // the number of a section that goes
			}
		}, nil},
	} {
		e := sample(t, "elf/prog-sha1")
		c.change(e)
		var b bytes.Buffer
		_, err := Write(&b, bytes.NewReader(e.p), int64(len(e.p)), Options{})
		if !errors.Is(err, c.want) || err != nil && b.Len() > 0 {
			t.Errorf("%s: error %v and %d bytes, want %v", name, err, b.Len(), c.want)
			continue
		}
		if bytes.Contains(b.Bytes(), text) || bytes.Contains(b.Bytes(), []byte("/usr/src/symdepot-src")) {
			t.Errorf("%s: the public form has private text", name)
		}
	}
}

// TestManyNames: a million symbols that share the end of one long name take neither long nor much
// memory.
func TestManyNames(t *testing.T) {
	t.Parallel()
	e := sample(t, "elf/prog-sha1")
	le := binary.LittleEndian
	const symbols, length = 1 << 20, 60 << 10
	for _, name := range []string{".symtab", ".strtab"} {
		h := e.head(name)
		le.PutUint64(h[24:], uint64(len(e.p)))
		if name == ".strtab" {
			le.PutUint64(h[32:], length+2)
			e.p = append(append(append(e.p, 0), bytes.Repeat([]byte("a"), length)...), 0)
			continue
		}
		le.PutUint64(h[32:], symbols*24)
		for i := range uint32(symbols) {
			s := make([]byte, 24)
			le.PutUint32(s, 1+i%length)
			s[4], s[6] = sttFunc, 14
			e.p = append(e.p, s...)
		}
	}
	for _, o := range []Options{{}, {Undecorated: true}, {Hide: []string{"*b"}}} {
		start := time.Now()
		_, err := Write(io.Discard, bytes.NewReader(e.p), int64(len(e.p)), o)
		if took := time.Since(start); !errors.Is(err, objfile.ErrBroken) || took > time.Minute {
			t.Errorf("%+v: error %v after %v, want ErrBroken within a minute", o, err, took)
		}
	}
}

// TestManyTables: load commands that name one table again and again do not make the output large.
func TestManyTables(t *testing.T) {
	t.Parallel()
	p := make([]byte, 1<<20)
	le := binary.LittleEndian
	le.PutUint32(p, 0xfeedfacf)
	le.PutUint32(p[12:], 6)
	const commands = 10000
	le.PutUint32(p[16:], commands)
	le.PutUint32(p[20:], 16*commands)
	for i := range commands {
		c := p[32+16*i:]
		le.PutUint32(c, lcFunctionStarts)
		le.PutUint32(c[4:], 16)
		le.PutUint32(c[8:], 1<<19)
		le.PutUint32(c[12:], 1<<19)
	}
	if _, err := Write(io.Discard, bytes.NewReader(p), int64(len(p)), Options{}); !errors.Is(err, objfile.ErrBroken) {
		t.Errorf("error %v, want ErrBroken", err)
	}
}
