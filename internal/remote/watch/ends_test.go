package watch

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"testing"
)

// TestHostileHeaders: a large ELF file in a stream whose headers say offsets beyond all
// files is looked at as any other.
func TestHostileHeaders(t *testing.T) {
	t.Parallel()
	m := testMaterial(t)
	for _, c := range []struct {
		name string
		at   int // of the field
		off  uint64
	}{
		{"program headers at the largest offset", 32, math.MaxInt64},
		{"program headers just below it", 32, math.MaxInt64 - 55},
		{"program headers at a negative offset", 32, math.MaxUint64},
		{"section headers at the largest offset", 40, math.MaxInt64},
		{"section headers at a negative offset", 40, 1 << 63},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			big := grow(t, m.prog, 2<<20)
			binary.LittleEndian.PutUint64(big[c.at:], c.off)
			dir := t.TempDir()
			put(t, dir, "p.tar.zst", zst(t, makeTar(t, entry{"usr/bin/prog", big}, entry{"z", m.lib})))
			f := open(t, dir, Options{})
			scanned(t, f)
			wantBytes(t, f, "buildid/"+m.libID+"/executable", m.lib)
		})
	}
}

// FuzzEnds: the parts that are held are those of the file, whatever its headers say.
func FuzzEnds(f *testing.F) {
	m := testMaterial(f)
	f.Add(m.prog[:4096], uint32(3<<20))
	f.Add(m.lib[:64], uint32(64))
	f.Fuzz(func(t *testing.T, head []byte, size uint32) {
		size %= 8 << 20
		if len(head) < 6 || len(head) > int(size) {
			return
		}
		file := make([]byte, size)
		for i := range file {
			file[i] = byte(i >> 8)
		}
		copy(file, head)
		e, err := readEnds(bytes.NewReader(file), int64(size), largeParts(head, int64(size)))
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range e.parts {
			got := make([]byte, len(x.data))
			if n, err := e.ReadAt(got, x.off); n < len(got) || err != nil && err != io.EOF || !bytes.Equal(got, file[x.off:x.off+int64(len(got))]) {
				t.Fatalf("%d bytes at %d: %v, or other bytes than those of the file", len(got), x.off, err)
			}
		}
	})
}
