package hfsplus_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/files/hfsplus"
	"github.com/symdepot/symdepot/internal/files/udif"
)

// files returns the files of a volume with their bytes.
func files(src io.ReaderAt, size int64) (map[string]string, error) {
	v, err := hfsplus.Open(src, size)
	if err != nil {
		return nil, err
	}
	list := map[string]string{}
	return list, v.Each(func(f *hfsplus.File) error {
		at, err := f.Open()
		if err != nil {
			return err
		}
		b, err := io.ReadAll(io.NewSectionReader(at, 0, f.Size))
		list[f.Path] = string(b)
		return err
	})
}

// TestVolume reads a volume that xorriso has made, and compares with 7-Zip.
func TestVolume(t *testing.T) {
	t.Parallel()
	z, err := gzip.NewReader(bytes.NewReader(symtest.Testdata(t, "scan/hfsplus.iso.gz")))
	if err != nil {
		t.Fatal(err)
	}
	iso, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	list, err := udif.Partitions(bytes.NewReader(iso), int64(len(iso)))
	if err != nil || len(list) != 1 {
		t.Fatalf("the partitions are %+v, %v; want one", list, err)
	}
	got, err := files(io.NewSectionReader(bytes.NewReader(iso), list[0].Offset, list[0].Size), list[0].Size)
	if err != nil || len(got) != 5 || got["empty"] != "" || got["Fo\u0308lder name/one.txt"] != "one\n" || got["Fo\u0308lder name/deep/two:colon"] != "two\n" ||
		got["App.app/Contents/MacOS/App"] != string(symtest.Testdata(t, "macho/app-fat")) {
		t.Fatalf("%d files, %v; want the 5 of the volume", len(got), err)
	}
	seven := symtest.Judge(t, "7zz")
	if seven == "" {
		return
	}
	dir := t.TempDir()
	image := filepath.Join(dir, "x.dmg")
	if err := os.WriteFile(image, iso, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), seven, "x", "-y", "-o"+filepath.Join(dir, "out"), image).CombinedOutput(); err != nil {
		t.Fatalf("7zz: %v\n%s", err, out)
	}
	theirs := map[string]string{}
	for name := range got {
		// 7-Zip composes the accents.
		b, err := os.ReadFile(filepath.Join(dir, "out", filepath.FromSlash(strings.ReplaceAll(name, "o\u0308", "ö"))))
		if err != nil {
			t.Error(err)
		}
		theirs[name] = string(b)
	}
	if !maps.Equal(got, theirs) {
		t.Error("7-Zip has other files")
	}
}

const node = 512

// maker makes small volumes of blocks of 512 bytes.
type maker struct {
	blocks  []byte
	catalog [][]byte // records
	extents [][]byte
}

func (m *maker) fork(size, blocks int, list ...uint32) []byte {
	b := make([]byte, 80)
	binary.BigEndian.PutUint64(b, uint64(size))
	binary.BigEndian.PutUint32(b[12:], uint32(blocks))
	for i, n := range list {
		binary.BigEndian.PutUint32(b[16+4*i:], n)
	}
	return b
}

// put writes bytes into new blocks, and returns the first and the number.
func (m *maker) put(b []byte) (start, count uint32) {
	start = uint32(len(m.blocks) / node)
	m.blocks = append(m.blocks, b...)
	m.blocks = append(m.blocks, make([]byte, -len(m.blocks)&(node-1))...)
	return start, uint32(len(m.blocks)/node) - start
}

func (m *maker) record(parent uint32, name string, data []byte) {
	be := binary.BigEndian
	text := utf16.Encode([]rune(name))
	key := be.AppendUint32(nil, parent)
	key = be.AppendUint16(key, uint16(len(text)))
	for _, c := range text {
		key = be.AppendUint16(key, c)
	}
	m.catalog = append(m.catalog, append(append(be.AppendUint16(nil, uint16(len(key))), key...), data...))
}

func (m *maker) folder(parent, id uint32, name string) {
	b := make([]byte, 88)
	b[1] = 1
	binary.BigEndian.PutUint32(b[8:], id)
	m.record(parent, name, b)
}

func (m *maker) file(parent, id uint32, name string, fork []byte, change func(b []byte)) {
	b := make([]byte, 248)
	b[1] = 2
	binary.BigEndian.PutUint32(b[8:], id)
	binary.BigEndian.PutUint32(b[16:], 3786912000) // 2024-01-01
	copy(b[42:], "\x81\xa4")
	copy(b[88:], fork)
	if change != nil {
		change(b)
	}
	m.record(parent, name, b)
}

// tree makes a tree with one record in each leaf.
func (m *maker) tree(records [][]byte) []byte {
	be := binary.BigEndian
	h := make([]byte, node)
	h[8], h[11] = 1, 3
	n := uint32(len(records))
	if n > 0 {
		be.PutUint32(h[14+10:], 1)
		be.PutUint32(h[14+14:], n)
	}
	be.PutUint16(h[14+18:], node)
	be.PutUint32(h[14+22:], n+1)
	for i, r := range records {
		b := make([]byte, node)
		if i+1 < len(records) {
			be.PutUint32(b, uint32(i+2))
		}
		b[8], b[11] = 0xff, 1
		copy(b[14:], r)
		be.PutUint16(b[node-2:], 14)
		be.PutUint16(b[node-4:], uint16(14+len(r)))
		h = append(h, b...)
	}
	return h
}

func (m *maker) volume() []byte {
	catalog, extents := m.tree(m.catalog), m.tree(m.extents)
	c, cn := m.put(catalog)
	e, en := m.put(extents)
	h := m.blocks[1024:]
	copy(h, "H+\x00\x04")
	binary.BigEndian.PutUint32(h[40:], node)
	copy(h[192:], m.fork(len(extents), int(en), e, en))
	copy(h[272:], m.fork(len(catalog), int(cn), c, cn))
	return m.blocks
}

// made is a volume with a file of ten pieces, a hard link, a link, and a file that the file system has compressed.
func made() (volume []byte, pieces string) {
	m := &maker{blocks: make([]byte, 4*node)}
	m.folder(1, 2, "Volume")
	m.folder(2, 20, "a/b")
	var list []uint32
	for i := range 10 {
		text := bytes.Repeat([]byte{'0' + byte(i)}, node)
		start, n := m.put(text)
		m.put(make([]byte, node)) // a gap
		list, pieces = append(list, start, n), pieces+string(text)
	}
	m.file(20, 30, "pieces", m.fork(len(pieces)-7, 10, list[:16]...), nil)
	pieces = pieces[:len(pieces)-7]
	overflow := append([]byte{0, 10, 0, 0}, binary.BigEndian.AppendUint32(nil, 30)...)
	overflow = binary.BigEndian.AppendUint32(overflow, 8)
	overflow = append(overflow, m.fork(0, 0, list[16:]...)[16:]...)
	m.extents = append(m.extents, overflow)
	m.file(2, 31, "hard", m.fork(0, 0), func(b []byte) { copy(b[48:], "hlnkhfs+") })
	m.file(2, 32, "link", m.fork(0, 0), func(b []byte) { copy(b[42:], "\xa1\xff") })
	m.file(2, 33, "packed", m.fork(0, 0), func(b []byte) { b[41] = 0x20 })
	return m.volume(), pieces
}

// TestForms: pieces beyond the eighth, links, and compression.
func TestForms(t *testing.T) {
	t.Parallel()
	data, pieces := made()
	v, err := hfsplus.Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	if err := v.Each(func(f *hfsplus.File) error {
		got = append(got, fmt.Sprintf("%s %d %v %s", f.Path, f.Size, f.Compressed, f.ModTime.Format("2006-01-02")))
		at, err := f.Open()
		if f.Compressed {
			if err == nil {
				t.Error("a compressed file opens")
			}
			return nil
		}
		b, err := io.ReadAll(io.NewSectionReader(at, 0, f.Size))
		if err != nil || sha256.Sum256(b) != sha256.Sum256([]byte(pieces)) {
			t.Errorf("%s has %q, %v; want the ten pieces", f.Path, b, err)
		}
		p := make([]byte, 600)
		if n, err := at.ReadAt(p, 1000); n != 600 || err != nil || string(p) != pieces[1000:1600] {
			t.Errorf("%d bytes in the middle, %v", n, err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if want := "a:b/pieces 5113 false 2024-01-01, packed 0 true 2024-01-01"; strings.Join(got, ", ") != want {
		t.Errorf("the files are %q, want %q", got, want)
	}
}

// TestEndless: leaves in a loop, a folder in itself, and a file outside of the volume end.
func TestEndless(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func() []byte{
		"leaves": func() []byte {
			m := &maker{blocks: make([]byte, 4*node)}
			m.folder(1, 2, "Volume")
			b := m.volume()
			binary.BigEndian.PutUint32(b[5*node:], 1) // the leaf behind the header of the catalog leads to itself
			return b
		},
		"folders": func() []byte {
			m := &maker{blocks: make([]byte, 4*node)}
			m.folder(21, 20, "a")
			m.folder(20, 21, "b")
			m.file(20, 30, "c", m.fork(0, 0), nil)
			return m.volume()
		},
		"outside": func() []byte {
			m := &maker{blocks: make([]byte, 4*node)}
			m.file(2, 30, "c", m.fork(512, 1, 1<<30, 1), nil)
			return m.volume()
		},
	} {
		b := make()
		if list, err := files(bytes.NewReader(b), int64(len(b))); !errors.Is(err, hfsplus.ErrFormat) {
			t.Errorf("%s: %d files, error %v; want damaged", name, len(list), err)
		}
	}
}

// counted counts its reads.
type counted struct {
	io.ReaderAt
	n int
}

func (c *counted) ReadAt(p []byte, off int64) (int, error) {
	c.n++
	return c.ReaderAt.ReadAt(p, off)
}

// TestBounds: what a volume repeats is not read again and again.
func TestBounds(t *testing.T) {
	m := &maker{blocks: make([]byte, 4*node)}
	for i := range 1000 {
		m.folder(1, uint32(20+i), "x")
	}
	b := m.volume()
	binary.BigEndian.PutUint32(b[5*node:], 1) // the first leaf leads to itself
	r := &counted{ReaderAt: bytes.NewReader(b)}
	if _, err := hfsplus.Open(r, int64(len(b))); !errors.Is(err, hfsplus.ErrFormat) || r.n > 10 {
		t.Errorf("a leaf that leads to itself is read %d times, error %v; want it read once, and damaged", r.n, err)
	}

	m = &maker{blocks: make([]byte, 4*node)}
	for i := range 60_000 {
		m.folder(1, uint32(20+i), strings.Repeat("\u4e00", 190))
	}
	b = m.volume()
	if _, err := hfsplus.Open(bytes.NewReader(b), int64(len(b))); !errors.Is(err, hfsplus.ErrLimit) {
		t.Errorf("names of 34 MB: error %v, want one of the limit", err)
	}

	m = &maker{blocks: make([]byte, 4*node)}
	start, _ := m.put(make([]byte, node))
	for range 1000 {
		record := append([]byte{0, 10, 0, 0}, binary.BigEndian.AppendUint32(nil, 30)...)
		record = append(record, make([]byte, 4)...)
		for range 8 {
			record = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(record, start), 1)
		}
		m.extents = append(m.extents, record)
	}
	for range 100 {
		m.file(2, 30, "x", m.fork(node, 2, start, 1), nil)
	}
	m.file(2, 31, "larger", m.fork(3<<20, 6<<10, 0, 2000, 0, 2000, 0, 2000), nil)
	b = m.volume()
	v, err := hfsplus.Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := v.Each(func(f *hfsplus.File) error {
		if _, err := f.Open(); errors.Is(err, hfsplus.ErrFormat) != (f.Path == "larger") {
			t.Errorf("the file %s opens with error %v; only the one that is larger than the volume is damaged", f.Path, err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("opening 101 files of a block takes %d bytes, want at most 1 MiB", n)
	}
}

func FuzzVolume(f *testing.F) {
	data, _ := made()
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := hfsplus.Open(bytes.NewReader(data), int64(len(data)))
		if err == nil {
			err = v.Each(func(x *hfsplus.File) error {
				at, err := x.Open()
				if err != nil {
					return nil //nolint:nilerr // a damaged file: the others are read
				}
				n, err := io.Copy(io.Discard, io.NewSectionReader(at, 0, min(x.Size, 1<<20)))
				if err == nil && n != min(x.Size, 1<<20) {
					t.Fatalf("%d bytes of a file of %d, and no error", n, x.Size)
				}
				return err
			})
		}
		if err != nil && !errors.Is(err, hfsplus.ErrFormat) && !errors.Is(err, hfsplus.ErrLimit) {
			t.Fatalf("error %v, want one of the package", err)
		}
	})
}
