package cab

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/cab/lzx.cab again")

// TestCommitted reads the committed cabinets of other writers and of this
// package.
func TestCommitted(t *testing.T) {
	want := map[string][]byte{}
	var sources []Source
	for _, name := range []string{"hello.c", "hello-x64.exe"} {
		b, err := os.ReadFile(filepath.Join("..", "testdata", "pdb", name))
		if err != nil {
			t.Fatal(err)
		}
		want[name] = b
		sources = append(sources, source(name, b))
	}
	if *update {
		if err := os.WriteFile("../testdata/cab/lzx.cab", create(t, WriteOptions{Method: LZX}, sources...), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for name, comp := range map[string]string{"gcab-mszip.cab": "MSZIP", "gcab-plain.cab": "none", "lzx.cab": "LZX:21"} {
		b, err := os.ReadFile(filepath.Join("..", "testdata", "cab", name))
		if err != nil {
			t.Fatal(err)
		}
		r, err := openBytes(b, Options{})
		if err != nil {
			t.Fatalf("%s: openBytes: error %v, want no error", name, err)
		}
		if got := r.Folders()[0].Compression.String(); got != comp || len(r.Files()) != 2 {
			t.Errorf("%s: %s, %d files; want %s and 2 files", name, got, len(r.Files()), comp)
		}
		if err := r.Walk(func(f *File, in io.Reader) error {
			got, err := io.ReadAll(in)
			if !bytes.Equal(got, want[f.Name]) {
				t.Errorf("%s: %s: %d bytes, %v; want the %d bytes of the file", name, f.Name, len(got), err, len(want[f.Name]))
			}
			return err
		}); err != nil {
			t.Errorf("%s: Walk: error %v, want no error", name, err)
		}
	}
}

// varied rewrites a cabinet of ours, of one folder, with header flags, reserved
// areas and the names of a set's neighbours.
func varied(b []byte, flags uint16, header, folder, data int, names string) []byte {
	le := binary.LittleEndian
	filesAt, dataAt := int(le.Uint32(b[16:])), int(le.Uint32(b[headerSize:]))
	out := bytes.Clone(b[:headerSize])
	le.PutUint16(out[30:], flags)
	if flags&flagReserve != 0 {
		out = le.AppendUint16(out, uint16(header))
		out = append(out, byte(folder), byte(data))
		out = append(out, bytes.Repeat([]byte{0xAA}, header)...)
	}
	out = append(out, names...)
	folderAt := len(out)
	out = append(out, b[headerSize:headerSize+folderSize]...)
	out = append(out, bytes.Repeat([]byte{0xBB}, folder)...)
	le.PutUint32(out[16:], uint32(len(out)))
	out = append(out, b[filesAt:dataAt]...)
	le.PutUint32(out[folderAt:], uint32(len(out)))
	for at := dataAt; at < len(b); {
		n := int(le.Uint16(b[at+4:]))
		head := append(bytes.Clone(b[at:at+dataSize]), bytes.Repeat([]byte{0xCC, 0x01}, data)[:data]...)
		le.PutUint32(head, blockChecksum(b[at+dataSize:at+dataSize+n], head[4:]))
		out = append(append(out, head...), b[at+dataSize:at+dataSize+n]...)
		at += dataSize + n
	}
	le.PutUint32(out[8:], uint32(len(out)))
	return out
}

func TestReservedAreas(t *testing.T) {
	want := map[string][]byte{"a": random(100000), "b": []byte("hello")}
	for _, opt := range methods {
		b := create(t, opt, source("a", want["a"]), source("b", want["b"]))
		for _, c := range [][3]int{{0, 0, 0}, {20, 0, 0}, {0, 4, 0}, {0, 0, 3}, {6144, 255, 255}} {
			check(t, method(opt), varied(b, flagReserve, c[0], c[1], c[2], ""), want)
		}
	}
}

func TestRefusedVariants(t *testing.T) {
	b := create(t, WriteOptions{Method: MSZIP}, source("a", random(70000)))
	patched := func(at int, v ...byte) []byte {
		p := bytes.Clone(b)
		copy(p[at:], v)
		return p
	}
	const typeAt, folderAt = headerSize + 6, headerSize + folderSize + 8
	dataAt := int(binary.LittleEndian.Uint32(b[headerSize:]))
	for name, c := range map[string]struct {
		b    []byte
		want error
		open bool // only the content is refused
	}{
		"previous":        {varied(b, flagPrev, 0, 0, 0, "one.cab\x00disk 1\x00"), ErrSplit, true},
		"next":            {varied(b, flagNext, 0, 0, 0, "three.cab\x00disk 3\x00"), ErrSplit, true},
		"both":            {varied(b, flagNext|flagPrev|flagReserve, 3, 2, 1, "one.cab\x00\x00three.cab\x00\x00"), ErrSplit, true},
		"endless name":    {varied(b, flagNext, 0, 0, 0, strings.Repeat("x", 300)), ErrFormat, false},
		"continued from":  {patched(folderAt, 0xFD, 0xFF), ErrSplit, true},
		"continued to":    {patched(folderAt, 0xFE, 0xFF), ErrSplit, true},
		"continued both":  {patched(folderAt, 0xFF, 0xFF), ErrSplit, true},
		"Quantum":         {patched(typeAt, 0x22, 0x12), ErrQuantum, true},
		"unknown method":  {patched(typeAt, 4, 0), ErrMethod, true},
		"LZX:22":          {patched(typeAt, 3, 22), ErrFormat, true},
		"LZX:14":          {patched(typeAt, 3, 14), ErrFormat, true},
		"second folder":   {patched(folderAt, 1, 0), ErrFormat, false},
		"version 2":       {patched(25, 2), ErrFormat, false},
		"data behind end": {patched(headerSize, 0xFF, 0xFF, 0xFF, 0x7F), ErrFormat, true},
		"no blocks":       {patched(headerSize+4, 0, 0), ErrFormat, false},
		"block too long":  {patched(dataAt+4, 1, 0x98), ErrFormat, true},
		"block yields 0":  {patched(dataAt+6, 0, 0), ErrSplit, true},
		"yields 32769":    {patched(dataAt+6, 1, 0x80), ErrFormat, true},
		"leading garbage": {append([]byte("MZ"), b...), ErrFormat, false},
	} {
		r, err := openBytes(c.b, Options{})
		if c.open {
			if err != nil {
				t.Errorf("%s: does not open: %v", name, err)
				continue
			}
			in, oerr := r.Files()[0].Open()
			if err = oerr; err == nil {
				_, err = io.Copy(io.Discard, in)
				in.Close()
			}
		}
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// TestConcurrent reads members from several goroutines.
func TestConcurrent(t *testing.T) {
	want := map[string][]byte{"a": random(200000), "b": bytes.Repeat([]byte("b"), 300000), "c": random(50)}
	r, err := openBytes(create(t, WriteOptions{Method: LZX}, source("a", want["a"]), source("b", want["b"]), source("c", want["c"])), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 9 {
		wg.Go(func() {
			f := r.Files()[i%3]
			in, err := f.Open()
			if err != nil {
				t.Error(err)
				return
			}
			defer in.Close()
			if got, err := io.ReadAll(in); err != nil || !bytes.Equal(got, want[f.Name]) {
				t.Errorf("%s: %d bytes, %v; want the %d bytes of the file", f.Name, len(got), err, len(want[f.Name]))
			}
		})
	}
	wg.Wait()
}

// TestSequential makes sure that files opened in order decode their folder
// once: the source is read once.
func TestSequential(t *testing.T) {
	var files []Source
	content := random(40 * 30000)
	for i := range 40 {
		files = append(files, source(string(rune('a'+i)), content[i*30000:][:30000]))
	}
	b := create(t, WriteOptions{Method: MSZIP}, files...)
	src := &counting{r: bytes.NewReader(b)}
	r, err := Open(src, int64(len(b)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Files() {
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, in); err != nil {
			t.Fatal(err)
		}
		in.Close()
	}
	if src.n > int64(len(b))*5/4 {
		t.Errorf("%d bytes read of a cabinet of %d, want at most a quarter more than its size", src.n, len(b))
	}
}

type counting struct {
	r io.ReaderAt
	n int64
}

func (c *counting) ReadAt(p []byte, at int64) (int, error) {
	n, err := c.r.ReadAt(p, at)
	c.n += int64(n)
	return n, err
}

// TestGenuineRatio holds our LZX to the size of genuine cabinets of the same
// content.
func TestGenuineRatio(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(material(t, "public", "cab"), "*.cab"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		r, err := openBytes(b, Options{})
		if err != nil || r.Folders()[0].Compression != (Compression{LZX, 21}) {
			continue
		}
		var sources []Source
		if err := r.Walk(func(f *File, in io.Reader) error {
			p, err := io.ReadAll(in)
			sources = append(sources, source(f.Name, p))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		ours := create(t, WriteOptions{Method: LZX, Workers: 2}, sources...)
		ratio := float64(len(ours)) / float64(r.Size())
		t.Logf("%s: %d, ours %d: %.3f", filepath.Base(path), r.Size(), len(ours), ratio)
		if ratio > 1.15 {
			t.Errorf("%s: %.3f of the genuine size, want at most 1.15", filepath.Base(path), ratio)
		}
	}
}
