package cold

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// compressed is a file with parts as zlib streams, as Go's linker writes them, between others.
func compressed(t testing.TB, level int, parts ...[]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	for i, p := range parts {
		b.Write(program(uint64(i), 10_000))
		w, err := zlib.NewWriterLevel(&b, level)
		if err != nil {
			t.Fatal(err)
		}
		w.Write(p)
		w.Close()
	}
	b.WriteString("the end")
	return b.Bytes()
}

// chilled makes the cold file of b as cooling does, against a base unless that is nil.
func chilled(t testing.TB, b, base []byte) []byte {
	t.Helper()
	src, err := Unpack(context.Background(), content(b))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if base == nil {
		_, err = EncodeKey(context.Background(), &out, src, nil)
	} else {
		from := content(base)
		if src.Unpacked() {
			if from, err = UnpackBase(context.Background(), from); err != nil {
				t.Fatal(err)
			}
		}
		_, err = EncodeDelta(context.Background(), &out, src, from, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestUnpackedDelta: a delta of contents whose sections are compressed is hardly longer than
// one of the same sections as they are, and is restored with any form of its base.
func TestUnpackedDelta(t *testing.T) {
	r := rand.New(rand.NewPCG(symtest.Seed(t, 33), 1))
	one, two := program(7, 900_000), program(8, 300_000)
	base := compressed(t, 1, one, two)
	b := compressed(t, 1, edit(r, one, 40), edit(r, two, 20))
	key, delta := chilled(t, base, nil), chilled(t, b, base)
	old, plain := encoded(t, base, nil), encoded(t, b, base)
	if len(delta) > len(plain)/2 {
		t.Errorf("the delta has %d bytes; without unpacking it has %d", len(delta), len(plain))
	}
	h, err := ReadHeader(bytes.NewReader(delta), int64(len(delta)))
	if err != nil || h.Version != 3 || h.Streams() != 2 || h.Size != int64(len(b)) || h.UnpackedSize() < 1_200_000 {
		t.Errorf("head %+v, %v", h, err)
	}
	open := func(file []byte, base io.ReaderAt) *Reader {
		c, err := Open(bytes.NewReader(file), int64(len(file)), base)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for name, from := range map[string]io.ReaderAt{
		"plain base": bytes.NewReader(base), "unpacked key": open(key, nil), "old key": open(old, nil),
	} {
		c := open(delta, from)
		if got := restored(t, c); !bytes.Equal(got, b) {
			t.Errorf("%s: other bytes", name)
		}
		for range 30 {
			at := r.IntN(len(b))
			p := make([]byte, min(1+r.IntN(70_000), len(b)-at))
			if n, err := c.ReadAt(p, int64(at)); n != len(p) || err != nil || !bytes.Equal(p, b[at:at+n]) {
				t.Fatalf("%s: %d bytes at %d: %d, %v", name, len(p), at, n, err)
			}
		}
	}
	// A delta of version 1 whose base has become an unpacked key.
	if got := restored(t, open(plain, open(key, nil))); !bytes.Equal(got, b) {
		t.Error("an old delta with an unpacked key gives other bytes")
	}
}

func TestUnpackGzip(t *testing.T) {
	one := program(9, 200_000)
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	w.Name = "a.sym"
	w.Write(one)
	w.Close()
	file := chilled(t, b.Bytes(), nil)
	if c := open(t, file, nil); c.Header().Streams() != 1 || !bytes.Equal(restored(t, c), b.Bytes()) {
		t.Errorf("%d streams, or other bytes", c.Header().Streams())
	}
}

// TestLeftWhole: what cannot be unpacked, or is not worth it, stays as it is, soon.
func TestLeftWhole(t *testing.T) {
	bomb := func(n int64) []byte {
		var b bytes.Buffer
		w, err := zlib.NewWriterLevel(&b, 6)
		if err != nil {
			t.Fatal(err)
		}
		io.CopyN(w, zeros{}, n)
		w.Close()
		return b.Bytes()
	}
	good := compressed(t, 1, program(4, 300_000))
	cut := bytes.Clone(good[:len(good)/2])
	var many bytes.Buffer // streams of which each claims to go on for ever
	for range 200 {
		many.Write([]byte{0x78, 0x9c, 0x00, 0xff, 0xff, 0, 0})
		many.Write(make([]byte, 0x4000))
	}
	for name, b := range map[string][]byte{
		"bomb":  bomb(300 << 20),
		"cut":   cut,
		"many":  many.Bytes(),
		"empty": nil,
	} {
		from := time.Now()
		s, err := Unpack(context.Background(), content(b))
		if err != nil || s.Unpacked() {
			t.Errorf("%s: unpacked %v, %v", name, s.Unpacked(), err)
		}
		if d := time.Since(from); d > searchTime+5*time.Second {
			t.Errorf("%s: took %v", name, d)
		}
		if got := restored(t, open(t, chilled(t, b, nil), nil)); !bytes.Equal(got, b) {
			t.Errorf("%s: other bytes", name)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Unpack(ctx, content(good)); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// TestUnpackedDamage: a bit that flips in a cold file with unpacked streams is noticed, or
// changes nothing; also in its lists of streams after its hash was made right.
func TestUnpackedDamage(t *testing.T) {
	sections := func(t testing.TB, b []byte) []byte { return compressed(t, 1, b) }
	frames := func(t testing.TB, b []byte) []byte { return framed(t, b) }
	for name, form := range map[string]func(testing.TB, []byte) []byte{"sections": sections, "cabinet": packed, "frames": frames} {
		t.Run(name, func(t *testing.T) { unpackedDamage(t, form) })
	}
}

func unpackedDamage(t *testing.T, form func(testing.TB, []byte) []byte) {
	r := rand.New(rand.NewPCG(symtest.Seed(t, 34), 1))
	one := program(7, 60_000)
	base, b := form(t, one), form(t, edit(r, one, 10))
	delta := chilled(t, b, base)
	more := int(binary.LittleEndian.Uint32(delta[headLen:])) + headMore
	reseal := func(file []byte) {
		f := file[len(file)-footLen:]
		at, n := int(binary.LittleEndian.Uint64(f)), int(binary.LittleEndian.Uint32(f[8:]))
		sum := sha256.New()
		sum.Write(file[:headLen+more])
		sum.Write(file[at : at+n])
		copy(f[12:], sum.Sum(nil))
	}
	for i := range rounds(3000) {
		file, from := bytes.Clone(delta), bytes.Clone(base)
		at := r.IntN(len(file))
		switch i % 3 {
		case 0:
			at = headLen + r.IntN(more)
			file[at] ^= 1 << r.IntN(8)
			reseal(file)
		case 1:
			file[at] ^= 1 << r.IntN(8)
		case 2:
			at = r.IntN(len(from))
			from[at] ^= 1 << r.IntN(8)
		}
		got, err := read(file, bytes.NewReader(from))
		var v *VersionError
		if err == nil && sha256.Sum256(got) != sha256.Sum256(b) && i%3 != 0 {
			t.Fatalf("case %d: a flipped bit of byte %d gives other bytes", i%3, at)
		}
		if err != nil && !errors.Is(err, ErrDamaged) && !errors.As(err, &v) {
			t.Fatalf("case %d: a flipped bit of byte %d: %v; want ErrDamaged", i%3, at, err)
		}
	}
}

// counted counts its reads.
type counted struct {
	io.ReaderAt
	n int
}

func (c *counted) ReadAt(b []byte, at int64) (int, error) {
	c.n++
	return c.ReaderAt.ReadAt(b, at)
}

// TestSearchBounds: heads without an end take no time, and the search ends with its context also where there are no
// streams.
func TestSearchBounds(t *testing.T) {
	from := time.Now()
	names := bytes.Repeat([]byte("\x1f\x8b\x08\x08and so on, no zero"), 1<<20/22)
	if s, err := Unpack(t.Context(), content(names)); err != nil || s.Unpacked() {
		t.Errorf("unpacked %v, %v", s.Unpacked(), err)
	}
	if d := time.Since(from); d > 3*time.Second {
		t.Errorf("heads of gzip whose names do not end take %v", d)
	}
	head := make([]byte, cabinetHead+4)
	copy(head, cabinetMagic)
	copy(head[8:], "\xff\xff\xff\x7f")
	copy(head[24:], "\x03\x01\x00\x01") // 256 folders
	r := &counted{ReaderAt: bytes.NewReader(bytes.Repeat(head, 4<<20/len(head)))}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Unpack(ctx, Source{ReaderAt: r, Size: 4 << 20 / int64(len(head)) * int64(len(head))}); !errors.Is(err, context.Canceled) || r.n > 0 {
		t.Errorf("%d reads after the end of the context, %v", r.n, err)
	}
}
