package cold

import (
	"context"
	"encoding/binary"
	"io"
	"os"
	"runtime"
	"testing"
)

// computed is a content of any length that is computed: words that depend on their place,
// or, for the newer build, on a place a bit further on every 100 MiB.
type computed struct {
	size  int64
	newer bool
}

func (c computed) ReadAt(b []byte, at int64) (n int, err error) {
	for n < len(b) && at < c.size {
		p := at
		if c.newer {
			p += at / (100 << 20) * 4_004
		}
		var w [8]byte
		x := uint64(p/8) * 0x9e3779b97f4a7c15
		x ^= x >> 29
		binary.LittleEndian.PutUint64(w[:], x*0xbf58476d1ce4e5b9)
		if c.newer && p/8%512 == 0 {
			w[p%8] += 7
		}
		k := copy(b[n:], w[p%8:])
		if c.newer { // the shift may change at any byte
			k = min(k, int((at/(100<<20)+1)*(100<<20)-at))
		}
		n, at = n+k, at+int64(k)
	}
	if n > len(b) || at > c.size {
		n -= int(at - c.size)
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// TestHuge: a content above 1 GiB against a base that is as long is stored within the
// memory of a small one, though the base moves on by kilobytes all the time.
func TestHuge(t *testing.T) {
	if os.Getenv("SYMDEPOT_TORTURE") == "" {
		t.Skip("SYMDEPOT_TORTURE is not set: gigabytes are not stored here")
	}
	const size = 1200<<20 + 12345
	base, src := computed{size, false}, computed{size, true}
	f, err := os.Create(t.TempDir() + "/huge.c1")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var most uint64
	s, err := EncodeDelta(context.Background(), f, Source{ReaderAt: src, Size: size}, Source{ReaderAt: base, Size: size}, func(int) error {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		most = max(most, m.HeapAlloc)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes are %d as a delta, with %d MiB in the heap at most", int64(size), s.Bytes, most>>20)
	if s.Bytes > size/50 || most > 160<<20 {
		t.Errorf("the delta has %d bytes and took %d MiB; want at most %d and 160", s.Bytes, most>>20, size/50)
	}
	c, err := Open(f, s.Bytes, base)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	w := &comparing{t: t, want: src}
	if n, err := c.WriteTo(w); err != nil || n != size {
		t.Fatalf("%d bytes are read back: %v", n, err)
	}
}

// comparing is a writer that expects a content.
type comparing struct {
	t    *testing.T
	want io.ReaderAt
	at   int64
	buf  []byte
}

func (c *comparing) Write(b []byte) (int, error) {
	c.buf = grow(c.buf, len(b))
	if _, err := c.want.ReadAt(c.buf, c.at); err != nil && err != io.EOF || string(b) != string(c.buf) {
		c.t.Fatalf("other bytes from %d on: %v", c.at, err)
	}
	c.at += int64(len(b))
	return len(b), nil
}
