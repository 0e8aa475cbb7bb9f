package cold

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
)

// content is a plain content in memory.
func content(b []byte) Source {
	return Source{ReaderAt: bytes.NewReader(b), Size: int64(len(b)), Sum: sha256.Sum256(b)}
}

// program makes n bytes that look like a program: words that repeat, with numbers.
func program(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	words := make([][]byte, 4000)
	for i := range words {
		words[i] = make([]byte, 3+r.IntN(40))
		for k := range words[i] {
			words[i][k] = byte(r.IntN(256))
		}
	}
	b := make([]byte, 0, n+64)
	for len(b) < n {
		b = append(b, words[int(r.ExpFloat64()*300)%len(words)]...)
		if r.IntN(3) == 0 {
			b = append(b, byte(r.IntN(256)), byte(r.IntN(256)), 0x40, 0)
		}
	}
	return b[:n]
}

// edit gives b after n random edits: insertions, deletions, moves, numbers that grow
// and runs of zeros.
func edit(r *rand.Rand, b []byte, n int) []byte {
	b = bytes.Clone(b)
	for range n {
		if len(b) < 16 {
			b = append(b, make([]byte, 64)...)
		}
		at := r.IntN(len(b))
		size := min(1+int(r.ExpFloat64()*3000), len(b)-at)
		switch r.IntN(6) {
		case 0:
			more := make([]byte, size)
			for i := range more {
				more[i] = byte(r.IntN(256))
			}
			b = append(b[:at:at], append(more, b[at:]...)...)
		case 1:
			b = append(b[:at:at], b[at+size:]...)
		case 2:
			to := r.IntN(len(b) - size + 1)
			part := bytes.Clone(b[at : at+size])
			rest := append(b[:at:at], b[at+size:]...)
			b = append(rest[:to:to], append(part, rest[to:]...)...)
		case 3:
			by := byte(1 + r.IntN(255))
			for i := at; i < at+size; i += 16 {
				b[i] += by
			}
		case 4:
			clear(b[at : at+size])
		case 5:
			b[at] ^= byte(1 + r.IntN(255))
		}
	}
	return b
}

// encoded gives the cold file of b against base, which may be nil.
func encoded(t testing.TB, b, base []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	var s Stats
	var err error
	if base == nil {
		s, err = EncodeKey(context.Background(), &out, content(b), nil)
	} else {
		s, err = EncodeDelta(context.Background(), &out, content(b), content(base), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	if s.Bytes != int64(out.Len()) {
		t.Errorf("%d bytes were written, Stats says %d", out.Len(), s.Bytes)
	}
	return out.Bytes()
}

// open opens a cold file in memory.
func open(t testing.TB, file, base []byte) *Reader {
	t.Helper()
	var r io.ReaderAt
	if base != nil {
		r = bytes.NewReader(base)
	}
	c, err := Open(bytes.NewReader(file), int64(len(file)), r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func restored(t testing.TB, c *Reader) []byte {
	t.Helper()
	var out bytes.Buffer
	n, err := c.WriteTo(&out)
	if err != nil {
		t.Fatal(err)
	}
	if n != int64(out.Len()) {
		t.Errorf("WriteTo says %d bytes, wrote %d", n, out.Len())
	}
	return out.Bytes()
}

func TestRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	base := program(1, 3<<20+12345)
	key := encoded(t, base, nil)
	if got := restored(t, open(t, key, nil)); !bytes.Equal(got, base) {
		t.Fatal("a key does not give its content")
	}
	for i := range 12 {
		b := edit(r, base, 1<<i)
		file := encoded(t, b, base)
		if got := restored(t, open(t, file, base)); !bytes.Equal(got, b) {
			t.Fatalf("%d edits: the delta does not give its content", 1<<i)
		}
		c, err := Open(bytes.NewReader(file), int64(len(file)), open(t, key, nil))
		if err != nil {
			t.Fatal(err)
		}
		if got := restored(t, c); !bytes.Equal(got, b) {
			t.Fatalf("%d edits: the delta against a key does not give its content", 1<<i)
		}
		t.Logf("%5d edits: %d bytes of %d", 1<<i, len(file), len(b))
	}
}

// TestScattered: a block whose bytes come from more blocks of a key than a Reader keeps.
func TestScattered(t *testing.T) {
	base := program(1, 24<<20)
	var b []byte
	for i := range 60 {
		b = append(b, base[i*400_000:][:17_000]...)
	}
	key := open(t, encoded(t, base, nil), nil)
	file := encoded(t, b, base)
	c, err := Open(bytes.NewReader(file), int64(len(file)), key)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := restored(t, c); !bytes.Equal(got, b) {
		t.Error("other bytes are restored")
	}
	if e, _, err := c.entry(0); err != nil || key.fits(e.extents) {
		t.Errorf("the ranges %v are in few blocks of the key: nothing was tried (%v)", e.extents, err)
	}
}

// TestMovedTable: a table whose entries all changed, and into which entries were put at
// two places, costs what the new ones take: no run of bytes is equal in both builds, so
// that only bytes nearby can show what belongs together.
func TestMovedTable(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	base := make([]byte, 1<<20)
	for i := range base {
		base[i] = byte(r.IntN(256))
	}
	b := bytes.Clone(base)
	for i := 0; i < len(b); i += 4 {
		b[i] += 17
	}
	const more = 120
	for _, at := range []int{700_000, 300_000} {
		put := make([]byte, more)
		for i := range put {
			put[i] = byte(r.IntN(256))
		}
		b = slices.Insert(b, at, put...)
	}
	file := encoded(t, b, base)
	if got := restored(t, open(t, file, base)); !bytes.Equal(got, b) {
		t.Fatal("other bytes are restored")
	}
	// The entries are random: as insertions they would take all of their length.
	if len(file) > 20*more {
		t.Errorf("the delta takes %d bytes; want at most %d for 2 times %d new ones", len(file), 20*more, more)
	}
}
