package cold

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/store/deflate"
)

// rounds is how often a test tries what is random: all of it in the long form.
func rounds(all int) int {
	if os.Getenv("SYMDEPOT_TORTURE") == "" {
		return all / 10
	}
	return all
}

// counting counts what is read of a base.
type counting struct {
	io.ReaderAt
	mu    sync.Mutex
	bytes int64
}

func (c *counting) ReadAt(b []byte, at int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(b, at)
	c.mu.Lock()
	c.bytes += int64(n)
	c.mu.Unlock()
	return n, err
}

// TestTortureRanges: random ranges of a delta, whose base is a key, are equal to those
// of the content, and no range reads more of the base than its blocks may name.
func TestTortureRanges(t *testing.T) {
	r := rand.New(rand.NewPCG(symtest.Seed(t, 8), 8))
	base := program(1, 9<<20+777)
	b := edit(r, base, 600)
	key := open(t, encoded(t, base, nil), nil)
	file := encoded(t, b, base)
	seen := &counting{ReaderAt: key}
	c, err := Open(bytes.NewReader(file), int64(len(file)), seen)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	buf := make([]byte, 2<<20)
	for range rounds(100_000) {
		at := r.IntN(len(b) + 1)
		n := min(int(r.ExpFloat64()*20_000), len(buf))
		if r.IntN(4) > 0 { // most requests go on where the last one was
			at = min(len(b), at%(1<<20)+len(b)/2)
		}
		if r.IntN(10) == 0 { // and some end where the content does, or beyond
			at = max(0, len(b)-r.IntN(n+2))
		}
		seen.bytes = 0
		got, err := c.ReadAt(buf[:n], int64(at))
		want := b[at:min(at+n, len(b))]
		if got != len(want) || !bytes.Equal(buf[:got], want) || got < n && err != io.EOF || got == n && err != nil {
			t.Fatalf("range of %d at %d: %d bytes, %v", n, at, got, err)
		}
		if most := int64(n>>deltaLog+2) * maxUnits * unit; seen.bytes > most {
			t.Fatalf("range of %d at %d reads %d bytes of the base, want at most %d", n, at, seen.bytes, most)
		}
	}
	if _, err := c.ReadAt(buf[:1], -1); err == nil {
		t.Error("a range before the content reads")
	}
	if _, err := c.ReadAt(buf[:1], int64(len(b))); err != io.EOF {
		t.Errorf("a range behind the content: %v; want io.EOF", err)
	}
}

// TestConcurrentReads: goroutines share a delta and its key.
func TestConcurrentReads(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	base := program(1, 5<<20)
	b := edit(r, base, 100)
	key := open(t, encoded(t, base, nil), nil)
	file := encoded(t, b, base)
	c, err := Open(bytes.NewReader(file), int64(len(file)), key)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var g sync.WaitGroup
	for i := range 6 {
		g.Go(func() {
			r := rand.New(rand.NewPCG(9, uint64(i)))
			buf := make([]byte, 100_000)
			for range 60 {
				from, want := io.ReaderAt(c), b
				if r.IntN(3) == 0 {
					from, want = key, base
				}
				at := r.IntN(len(want) - len(buf))
				if _, err := from.ReadAt(buf, int64(at)); err != nil || !bytes.Equal(buf, want[at:at+len(buf)]) {
					t.Errorf("range at %d: other bytes, %v", at, err)
				}
			}
			var out bytes.Buffer
			if _, err := c.WriteTo(&out); err != nil || !bytes.Equal(out.Bytes(), b) {
				t.Errorf("the whole: other bytes, %v", err)
			}
		})
	}
	g.Wait()
}

// TestTortureBits: a bit that flips is noticed, or changes nothing.
func TestTortureBits(t *testing.T) {
	r := rand.New(rand.NewPCG(symtest.Seed(t, 10), 10))
	base := program(1, 150_000)
	b := edit(r, base, 100)
	key, delta := encoded(t, base, nil), encoded(t, b, base)
	movedBase, movedTo := moving(20_000)
	movedDelta := encoded(t, movedTo, movedBase)
	types := typesPDB(t, typeRecords(3000, -1), inOrder)
	typesKey := chilled(t, types, nil)
	at := func(file []byte) int { return int(binary.LittleEndian.Uint64(file[len(file)-footLen:])) }
	silent := 0
	for _, test := range []struct {
		name      string
		file      []byte
		base      io.ReaderAt
		want      []byte
		from, end int
	}{
		{"key", key, nil, base, headLen, at(key)},
		{"delta", delta, bytes.NewReader(base), b, headEnd(delta), at(delta)},
		{"delta with moves", movedDelta, bytes.NewReader(movedBase), movedTo, headEnd(movedDelta), at(movedDelta)},
		{"head", delta, bytes.NewReader(base), b, 0, headEnd(delta)},
		{"head with recipes", typesKey, nil, types, 0, headEnd(typesKey)},
		{"table and foot", delta, bytes.NewReader(base), b, at(delta), len(delta)},
	} {
		for range 10_000 {
			file := bytes.Clone(test.file)
			i := test.from + r.IntN(test.end-test.from)
			file[i] ^= 1 << r.IntN(8)
			got, err := read(file, test.base)
			var v *VersionError
			switch {
			case err == nil && !bytes.Equal(got, test.want):
				t.Fatalf("%s: a flipped bit of byte %d gives other bytes", test.name, i)
			case err == nil && (i < headEnd(test.file) || i >= at(test.file)):
				t.Fatalf("%s: a flipped bit of byte %d is not noticed", test.name, i)
			case err == nil:
				silent++
			case !errors.Is(err, ErrDamaged) && !errors.As(err, &v):
				t.Fatalf("%s: a flipped bit of byte %d: %v; want ErrDamaged", test.name, i, err)
			case !bytes.HasPrefix(test.want, got):
				t.Fatalf("%s: a flipped bit of byte %d gives other bytes before the error", test.name, i)
			}
		}
	}
	t.Logf("%d flipped bits changed no byte of the content", silent)
	for range rounds(1000) { // and of the base
		changed := bytes.Clone(base)
		changed[r.IntN(len(base))] ^= 1 << r.IntN(8)
		if got, err := read(delta, bytes.NewReader(changed)); err == nil && !bytes.Equal(got, b) || err != nil && !errors.Is(err, ErrDamaged) {
			t.Fatalf("a flipped bit of the base: other bytes or %v", err)
		}
	}
}

// TestEdits: whatever the contents are, what is written is read back, within bounds.
func TestEdits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		sizes := rapid.OneOf(rapid.IntRange(0, 200), rapid.IntRange(0, 300_000), rapid.SampledFrom([]int{unit, 1<<20 - 1, 1 << 20, 1<<20 + 1}))
		base := program(r.Uint64(), sizes.Draw(t, "size"))
		b := edit(r, base, rapid.IntRange(0, 300).Draw(t, "edits"))
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0:
			b = program(r.Uint64(), sizes.Draw(t, "other")) // nothing in common
		case 1:
			slices.Reverse(b)
		case 2:
			for i := range len(b) / 4 { // every fourth word grows
				if i%4 == 0 {
					binary.LittleEndian.PutUint32(b[i*4:], binary.LittleEndian.Uint32(b[i*4:])+0x1240)
				}
			}
		case 3:
			for i := range b {
				b[i]++ // nothing is equal, and all differ alike
			}
		}
		var out bytes.Buffer
		if _, err := EncodeDelta(t.Context(), &out, content(b), content(base), nil); err != nil {
			t.Fatal(err)
		}
		if most := len(b) + len(b)/100 + 2000; out.Len() > most {
			t.Fatalf("the cold file of %d bytes has %d, want at most %d", len(b), out.Len(), most)
		}
		got, err := read(out.Bytes(), bytes.NewReader(base))
		if err != nil || !bytes.Equal(got, b) {
			t.Fatalf("%d bytes against %d are not read back: %v", len(b), len(base), err)
		}
	})
}

// within runs f and complains if it allocates more than a reader may hold.
func within(t testing.TB, f func()) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 32<<20 {
		t.Errorf("a hostile file made the reader allocate %d bytes, want at most 32 MiB", n)
	}
}

// FuzzOpen: any file, also with a hash of the table that is right, is read or refused
// within bounds.
func FuzzOpen(f *testing.F) {
	base := program(1, 200_000)
	b := edit(rand.New(rand.NewPCG(1, 1)), base, 30)
	movedBase, movedTo := moving(1000)
	f.Add(encoded(f, movedTo, movedBase), true)
	f.Add(chilled(f, framed(f, base[:30_000]), nil), true) // with recipes
	f.Add(chilled(f, compressed(f, 6, base[:30_000]), nil), true)
	f.Add(chilled(f, typesPDB(f, typeRecords(2000, -1), inOrder), nil), true)
	for _, file := range [][]byte{encoded(f, base, nil), encoded(f, b, base), encoded(f, nil, nil), encoded(f, b[:100], base), encoded(f, make([]byte, 1000), base)} {
		f.Add(file, false)
		f.Add(file, true)
	}
	f.Fuzz(func(t *testing.T, file []byte, seal bool) {
		if len(file) >= headLen+footLen && seal {
			f := file[len(file)-footLen:]
			at, n := binary.LittleEndian.Uint64(f), binary.LittleEndian.Uint32(f[8:])
			if at >= uint64(headEnd(file)) && at <= uint64(len(file)-footLen) && uint64(n) <= uint64(len(file)-footLen)-at {
				file = sealed(file)
			}
		}
		within(t, func() {
			h, err := ReadHeader(bytes.NewReader(file), int64(len(file)))
			p, err2 := Inspect(bytes.NewReader(file), int64(len(file)))
			if (err == nil) != (err2 == nil) || err == nil && (p.Header.Sum != h.Sum || p.Header.Size != h.Size || p.Header.BaseSum != h.BaseSum) {
				t.Errorf("ReadHeader %v, Inspect %v", err, err2)
			}
			c, err := Open(bytes.NewReader(file), int64(len(file)), bytes.NewReader(base))
			if err != nil {
				return
			}
			defer c.Close()
			// A file of zeros may be as long as it likes.
			n, err := io.Copy(io.Discard, io.NewSectionReader(c, 0, min(c.Size(), 8<<20)))
			if err == nil && n != min(c.Size(), 8<<20) {
				t.Errorf("%d bytes of %d without an error", n, c.Size())
			}
		})
	})
}

// TestHugeRecipe: no memory is taken for a recipe that is longer than any.
func TestHugeRecipe(t *testing.T) {
	for _, n := range []int64{1 << 30, 1 << 40} {
		within(t, func() {
			l := newLayout(n, []deflate.Stream{{Len: n, Size: 1 << 20}}, []int64{n/8 + maxLayout + 1})
			if _, err := newPacker(zeros{}, l, false).ReadAt(make([]byte, 1), 0); !errors.Is(err, ErrDamaged) {
				t.Errorf("a stream of %d bytes: %v, want damaged", n, err)
			}
		})
	}
}

// FuzzDelta: what is written of any two contents is read back.
func FuzzDelta(f *testing.F) {
	base := program(1, 30_000)
	f.Add(base, edit(rand.New(rand.NewPCG(1, 1)), base, 10))
	f.Add([]byte{}, []byte("x"))
	f.Add(bytes.Repeat([]byte("0123456789abcdef"), 100), bytes.Repeat([]byte("0123456789abcdeg"), 100))
	f.Fuzz(func(t *testing.T, base, b []byte) {
		if got, err := read(encoded(t, b, base), bytes.NewReader(base)); err != nil || !bytes.Equal(got, b) {
			t.Fatalf("%d bytes against %d are not read back: %v", len(b), len(base), err)
		}
		if got, err := read(encoded(t, b, nil), nil); err != nil || !bytes.Equal(got, b) {
			t.Fatalf("%d bytes are not read back: %v", len(b), err)
		}
	})
}

// seedMoves are moves of one step, in parts 0, 2 and 3.
func seedMoves(kind byte) []byte {
	return []byte{1, kind, 3, 2, 0, 1, 1, 2, 0x80, 0x80, 4, 0x80, 0x80, 0x80, 0x70, 1, 8, 3}
}

// FuzzApply: payloads of a frame, as they are after decoding, of both kinds that have controls.
func FuzzApply(f *testing.F) {
	f.Add(controlOf(1000, 0, 0), []byte{1, 1, 1, 0, 0, 0, 0, 5, 1, 7}, []byte{}, uint16(1000), false)
	f.Add(controlOf(10, 20, -3), []byte{}, make([]byte, 20), uint16(30), false)
	for _, kind := range []byte{stepWord | 3<<4, stepAny, stepCode} {
		f.Add(append(controlOf(5000, 3, 1), controlOf(4000, 0, -7)...), seedMoves(kind), []byte{1, 2, 3}, uint16(9003), true)
	}
	gathered := program(1, 2*unit)
	f.Fuzz(func(_ *testing.T, controls, diffs, inserts []byte, n uint16, moved bool) {
		e := entry{kind: kindDelta, controls: len(controls), diffs: len(diffs), extents: []extent{{2, 1}, {5, 1}}}
		if moved {
			e.kind = kindMoved
		}
		(&Reader{scratch: new(scratch)}).apply(make([]byte, n), [][]byte{gathered[:unit], gathered[unit:]}, &e, 3*unit, slices.Concat(controls, diffs, inserts))
	})
}

// TestSeedsOfApply: the seeds with moves are payloads that are right.
func TestSeedsOfApply(t *testing.T) {
	for _, kind := range []byte{stepWord | 3<<4, stepAny, stepCode} {
		var m moves
		if rest, ok := m.parse(seedMoves(kind)); !ok || len(rest) > 0 {
			t.Errorf("step %#x is not read", kind)
		}
	}
}
