package public

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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

// damage returns a copy of a file with some wrong bytes, and whether it is the start of the file.
func damage(random *rand.Rand, p []byte) (q []byte, cut bool) {
	if len(p) == 0 || random.IntN(4) == 0 {
		return p[:random.IntN(len(p)+1)], true
	}
	q = bytes.Clone(p)
	// Most of what can be wrong is in the headers.
	place := func() int { return random.IntN([]int{min(len(q), 1024), len(q)}[random.IntN(2)]) }
	for range 1 + random.IntN(4) {
		switch at := place(); random.IntN(4) {
		case 0:
			q[at] ^= 1 << random.IntN(8)
		case 1:
			q[at] = byte(random.Uint32())
		case 2:
			copy(q[at:], []byte{0xff, 0xff, 0xff, byte(random.Uint32()), 0, 0, 0, 0}[random.IntN(4):])
		case 3:
			copy(q[at:], q[place():][:1])
		}
	}
	if random.IntN(8) == 0 {
		q = q[:random.IntN(len(q))]
	}
	return q, false
}

// fuzzInputs returns the first argument of the inputs that fuzzing of the formats found: those of the
// repository and, if they are there, those that scripts/fuzz keeps.
func fuzzInputs(t *testing.T) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for _, pattern := range []string{"../*/testdata/fuzz/*/*", "../.cache/fuzz/corpus/*/Fuzz*/*"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			for line := range strings.Lines(string(readFile(t, path))) {
				text, ok := strings.CutPrefix(strings.TrimSuffix(line, ")\n"), "[]byte(")
				if !ok {
					continue
				}
				p, err := strconv.Unquote(text)
				if err != nil {
					t.Fatalf("%s: %v", path, err)
				}
				all[path] = []byte(p)
				break
			}
		}
	}
	return all
}

// TestHostileFiles: of the inputs that fuzzing found, and of damaged files of all kinds, a proven public
// form appears, or the file that was there stays, without another one beside it, and the error names the
// input. The start of a file has no private text of the whole file in its public form. make torture takes
// many more.
func TestHostileFiles(t *testing.T) {
	t.Parallel()
	files := sampleFiles(t, "elf", "macho", "pe", "wasm", "pdb", "ppdb")
	files["a.sym"], files["a.gsym"] = symFile(t), gsymFile(t)
	rounds, most := 10, 2*maxSeed
	switch {
	case os.Getenv("SYMDEPOT_TORTURE") != "":
		rounds, most = 300, 1<<20
	case testing.Short():
		rounds = 3
	}
	seed := symtest.Seed(t, 1)
	h := hostileFile{t: t, dir: t.TempDir()}
	inputs := fuzzInputs(t)
	for _, path := range slices.Sorted(maps.Keys(inputs)) {
		h.check(path, inputs[path], 0, nil)
	}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		p := files[path]
		if len(p) > most {
			continue
		}
		random := rand.New(rand.NewPCG(seed, uint64(len(p))))
		gone := goneTexts(p)
		for range rounds {
			if q, cut := damage(random, p); cut {
				h.check(path, q, byte(random.IntN(8)), gone)
			} else {
				// A damaged header may say that a debug section is a part of the program.
				h.check(path, q, byte(random.IntN(8)), nil)
			}
			if t.Failed() {
				return
			}
		}
	}
	t.Logf("%d public forms, %d errors", h.made, h.refused)
	if h.made < 10 || h.refused < 100 {
		t.Errorf("%d public forms and %d errors, want some of both", h.made, h.refused)
	}
}

// goneTexts returns texts of a file that its public form lacks.
func goneTexts(p []byte) [][]byte {
	var b bytes.Buffer
	if _, err := Write(&b, bytes.NewReader(p), int64(len(p)), Options{}); err != nil {
		return nil
	}
	return slices.DeleteFunc(bytes.FieldsFunc(p, func(r rune) bool { return r < ' ' || r > '~' }), func(text []byte) bool {
		return len(text) < 8 || bytes.Contains(b.Bytes(), text)
	})
}

// hostileFile is a folder in which damaged files get public forms.
type hostileFile struct {
	t             *testing.T
	dir           string
	made, refused int
}

// check writes the public form of an input, and checks what must hold for any.
func (h *hostileFile) check(name string, p []byte, options byte, gone [][]byte) {
	h.t.Helper()
	checkWrite(h.t, p, options)
	o := Options{Exported: options&1 != 0, Undecorated: options&2 != 0}
	in, out := filepath.Join(h.dir, "in"), filepath.Join(h.dir, "out")
	before := []byte("what was there before")
	for path, content := range map[string][]byte{in: p, out: before} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			h.t.Fatal(err)
		}
	}
	_, texts, err := WriteFile(out, in, o, true)
	is := readFile(h.t, out)
	switch {
	case err != nil || len(texts) > 0:
		h.refused++
		if !bytes.Equal(is, before) || err != nil && !strings.Contains(err.Error(), in) {
			h.t.Errorf("%s: the error %v, private texts %v, and an output of %d bytes; want the name of the input, and no output", name, err, texts, len(is))
		}
	default:
		h.made++
		if left, err := CheckFiles(in, out, o); err != nil || len(left) > 0 {
			h.t.Errorf("%s: the public form has the private texts %v, error %v", name, left, err)
		}
		for _, text := range gone {
			if bytes.Contains(is, text) {
				h.t.Errorf("%s: the public form of the start of the file has the private text %q", name, text)
			}
		}
	}
	if list, err := os.ReadDir(h.dir); err != nil || len(list) != 2 {
		h.t.Errorf("%s: the folder has %v, error %v; want the input and the output", name, list, err)
	}
}
