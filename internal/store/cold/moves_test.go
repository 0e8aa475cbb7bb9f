package cold

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// moving gives two builds of a program of n functions, from whose second half on all is behind
// what was put in: a block with calls, one with a table of offsets at any place, and one with a
// table of addresses, all between other bytes.
func moving(n int) (base, b []byte) {
	at := func(i int, newer bool) uint32 { // where a function is
		v := uint32(0x20000 + i*37)
		if newer {
			v += uint32(i/(n/5+1)) * 1000
		}
		return v
	}
	build := func(newer bool) []byte {
		r := rand.New(rand.NewPCG(5, 6)) // the same in both builds
		var out []byte
		word := func(v uint32) { out = binary.LittleEndian.AppendUint32(out, v) }
		some := func(k int) {
			for range k {
				out = append(out, byte(1+r.IntN(4)))
			}
		}
		for part := range 3 {
			out = append(out, make([]byte, -len(out)&(1<<deltaLog-1))...)
			for i := range n {
				to := at(r.IntN(n), newer)
				switch some(1 + i%7); part {
				case 0:
					out = append(out, 0xe8)
					word(to - uint32(len(out)))
				case 1:
					word(to)
				case 2:
					some(-len(out) & 3)
					word(0x40_0000 + to)
				}
			}
		}
		return out
	}
	return build(false), build(true)
}

// TestMoves: fields that moved with what they name cost next to nothing, whatever their kind.
func TestMoves(t *testing.T) {
	base, b := moving(20_000)
	file := encoded(t, b, base)
	c := open(t, file, base)
	if got := restored(t, c); !bytes.Equal(got, b) {
		t.Fatal("other bytes are restored")
	}
	if c.header.Version != 3 {
		t.Errorf("version %d", c.header.Version)
	}
	if len(file) > 2000 {
		t.Errorf("60,000 fields that moved by five amounts take %d bytes, want at most 2000", len(file))
	}
	var kinds []uint8
	for i := range c.header.blocks() {
		if _, err := c.block(i); err != nil {
			t.Fatal(err)
		}
		if c.moves.n > 0 {
			kinds = append(kinds, c.moves.steps[0].kind)
		}
	}
	if want := []uint8{stepCode, stepAny, stepWord}; !slices.Equal(kinds, want) {
		t.Errorf("kinds of steps: %v, want %v", kinds, want)
	}
}

// TestShifts: the quick search finds what a look at each limit finds.
func TestShifts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := rapid.SliceOfNDistinct(rapid.OneOf(rapid.Uint32(), rapid.Uint32Range(70_000, 71_000)), 2, 500, rapid.ID[uint32]).Draw(t, "limits")
		slices.Sort(set)
		s := shifts{limits: set}
		for i := range len(set) - 1 {
			s.by = append(s.by, uint32(i)*7+1)
		}
		s.index()
		for i, v := range set[:len(set)-1] {
			for _, v := range []uint32{v, min(v+1, set[i+1]-1), set[i+1] - 1} {
				k, _ := slices.BinarySearch(set, v+1)
				by, ok := s.of(v - s.lo)
				if got := s.search(v - s.lo); got != s.by[k-1] || ok && by != got {
					t.Fatalf("the shift of %d is %d, want %d", v, got, s.by[k-1])
				}
			}
		}
	})
}

// TestLetters: a value is taken for a text if its lower three bytes are printable.
func TestLetters(t *testing.T) {
	for _, b := range []byte{0, 1, 0x1f, 0x20, 0x21, 0x5f, 0x7e, 0x7f, 0x80, 0x81, 0xa0, 0xfe, 0xff} {
		for i := range 3 {
			p := [4]byte{'a', '~', ' ', 0}
			p[i] = b
			if got, want := letters(binary.LittleEndian.Uint32(p[:])), b >= 0x20 && b <= 0x7e; got != want {
				t.Errorf("letters of % x: %v", p, got)
			}
		}
	}
}

// FuzzMoves: any bytes are steps or none; steps are written as they were read, keep within
// their bytes, and change nothing outside of their limits.
func FuzzMoves(f *testing.F) {
	f.Add([]byte{1, stepWord, 2, 1, 0, 1, 200, 1, 1, 8}, uint32(100), uint32(5))
	f.Add([]byte{2, stepCode, 3, 2, 1, 2, 3, 4, stepAny, 2, 1, 0, 5, 0, 1, 1, 0x80, 0x80, 4, 1, 2, 4, 6}, uint32(0), uint32(1<<31))
	base, b := moving(500)
	f.Add(encoded(f, b, base), uint32(1), uint32(3))
	f.Fuzz(func(t *testing.T, file []byte, from, to uint32) {
		var m, again moves
		rest, ok := m.parse(file)
		if !ok {
			return
		}
		written := m.append(nil)
		if left, ok := again.parse(written); !ok || len(left) > 0 || !bytes.Equal(again.append(nil), written) {
			t.Fatalf("steps that were read are not written: % x", file[:len(file)-len(rest)])
		}
		data := bytes.Repeat(append(slices.Clone(file), 0xe8, 1, 2, 3), 3)
		behind := bytes.Clone(data)
		data = data[:min(len(data), 1<<deltaLog)]
		m.apply(data[:len(data)-9], 0, int64(from), int64(to))
		if n := len(data) - 9; !bytes.Equal(data[n:], behind[n:]) {
			t.Fatal("bytes behind the end were changed")
		}
	})
}

// TestPlaces: the quick searches for fields find what a look at each byte finds.
func TestPlaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Mostly bytes that matter: of operands, of texts, and zeros.
		some := rapid.SampledFrom([]byte{0, 0, 0, 1, 2, 5, 0x0d, 0x0f, 0x84, 0x8f, 0x90, 0xe8, 0xe9, 0xff, 'a', '~', 0x7f})
		b := rapid.SliceOfN(rapid.OneOf(some, rapid.Byte()), 0, 300).Draw(t, "bytes")
		lo := rapid.OneOf(rapid.Just(uint32(leastAny)), rapid.Uint32Min(leastAny)).Draw(t, "lo")
		span := rapid.OneOf(rapid.Uint32Range(1, 1<<24), rapid.Uint32Min(1)).Draw(t, "span")
		span = min(span, 1<<32-1-lo) | 1
		within := func(v uint32) bool { return v >= lo && uint64(v) < uint64(lo)+uint64(span) }
		var f places
		var want []uint16
		for i := 0; i+4 <= len(b); i++ {
			if v := binary.LittleEndian.Uint32(b[i:]); within(v) && !letters(v) {
				want = append(want, uint16(i))
				i += 3
			}
		}
		if f.any(b, lo, span); !slices.Equal(f.at[:f.n], want) {
			t.Fatalf("fields anywhere: %v, want %v", f.at[:f.n], want)
		}
		place := rapid.Uint32().Draw(t, "place")
		want = nil
		for i := 0; i+6 <= len(b); i++ {
			at := i + 1
			switch c := b[i]; {
			case c == 0x0f && b[i+1] >= 0x80 && b[i+1] <= 0x8f:
				at++
			case c != 0xe8 && c != 0xe9 && c&^0x38 != 5:
				continue
			}
			if within(binary.LittleEndian.Uint32(b[at:]) + place + uint32(at)) {
				want = append(want, uint16(at))
				i = at + 3
			}
		}
		if f.code(b, place, lo, span); !slices.Equal(f.at[:f.n], want) {
			t.Fatalf("operands of code: %v, want %v", f.at[:f.n], want)
		}
	})
}
