package lzx

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/cab/internal/blocktest"
	"github.com/symdepot/symdepot/internal/base/symtest"
)

// smallChunk is the size of a chunk in tests of several workers.
const smallChunk = 2 * FrameSize

func with(opt Options) blocktest.Compressor {
	return func(r io.Reader, emit func([]byte, int) error) error { return Compress(r, opt, emit) }
}

func compress(t testing.TB, plain []byte, opt Options) []blocktest.Block {
	t.Helper()
	return blocktest.Compress(t, plain, FrameSize+3000, with(opt))
}

func expand(t testing.TB, frames []blocktest.Block, window int) []byte {
	t.Helper()
	d, err := NewDecoder(window, int64(len(frames))*FrameSize)
	if err != nil {
		t.Fatal(err)
	}
	return blocktest.Expand(t, frames, d.Decode)
}

// calls is random data with many x86 calls whose targets lie at the limits of
// the translation.
func calls(n int) []byte {
	b := blocktest.Random(n)
	rng := rand.New(rand.NewPCG(1, 2))
	for at := 0; at+5 < n; at += 5 + rng.IntN(12) {
		b[at] = 0xE8
		v := []int32{0, -1, int32(-at), int32(-at - 1), translationSize - 1, translationSize, int32(translationSize - at), int32(translationSize - at - 1), 1 << 30, -1 << 31}
		binary.LittleEndian.PutUint32(b[at+1:], uint32(v[rng.IntN(len(v))]))
	}
	return b
}

func samples(t testing.TB) map[string][]byte {
	t.Helper()
	text := blocktest.Text(4000)
	m := map[string][]byte{
		"empty": nil, "one": {'x'}, "two": {0, 0}, "five": []byte("aaaaa"),
		"below": blocktest.Random(FrameSize - 1), "full": blocktest.Random(FrameSize), "above": blocktest.Random(FrameSize + 1),
		"zero": make([]byte, 3*FrameSize+5), "random": blocktest.Random(5*FrameSize + 77), "text": text,
		"runs":      bytes.Repeat(append(blocktest.Random(200), make([]byte, 300)...), 1000),
		"far":       append(append(blocktest.Random(300000), text...), blocktest.Random(300000)...),
		"calls":     calls(3*FrameSize + 8),
		"call tail": append(make([]byte, FrameSize), 0xE8, 1, 2, 3, 4, 0xE8, 1, 2, 3, 4, 0),
		"mixed":     bytes.Join([][]byte{text[:1001], blocktest.Random(1777), text[:40000], blocktest.Random(40000), text[:3], blocktest.Random(5), make([]byte, 70000)}, nil),
	}
	maps.Copy(m, blocktest.Files(t, "../../testdata/p[de]*/*"))
	if symtest.Brief(t) {
		for name, plain := range m {
			m[name] = plain[:min(len(plain), 2*FrameSize+77)]
		}
	}
	return m
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	windows := []int{15, 17, 21}
	if symtest.Brief(t) {
		windows = []int{15, 21}
	}
	for name, plain := range samples(t) {
		for _, window := range windows {
			t.Run(fmt.Sprintf("%s, window %d", name, window), func(t *testing.T) {
				t.Parallel()
				if got := expand(t, compress(t, plain, Options{Window: window}), window); !bytes.Equal(got, plain) {
					t.Errorf("%d bytes back, want %d equal ones", len(got), len(plain))
				}
			})
		}
	}
}

func TestWorkersMakeNoDifference(t *testing.T) {
	t.Parallel()
	same := func(t *testing.T, plain []byte, chunk int) []blocktest.Block {
		t.Helper()
		one, three := compress(t, plain, Options{chunk: chunk}), compress(t, plain, Options{Workers: 3, chunk: chunk})
		blocktest.Same(t, one, three)
		if got := expand(t, one, MaxWindow); !bytes.Equal(got, plain) {
			t.Fatalf("%d bytes back that differ from the input, want the %d bytes of the input", len(got), len(plain))
		}
		return one
	}
	text := []byte("abcdefgh, hij")
	t.Run("small chunks", func(t *testing.T) {
		t.Parallel()
		noise := blocktest.Random(50000)
		same(t, bytes.Join([][]byte{noise, bytes.Repeat(text, smallChunk/len(text)), noise, make([]byte, 3*smallChunk)}, nil), smallChunk)
	})
	t.Run("chunks of full size", func(t *testing.T) {
		t.Parallel()
		symtest.Unraced(t, "too slow there; small chunks show the same races")
		noise := blocktest.Random(100000)
		frames := same(t, bytes.Join([][]byte{noise, bytes.Repeat(text, 153000), noise, make([]byte, chunkSize)}, nil), 0)
		if n, most := blocktest.Size(frames), 112000; n > most {
			t.Errorf("%d bytes, want at most %d: the encoder does not use the history of the previous chunk", n, most)
		}
	})
}

func TestCompressErrors(t *testing.T) {
	t.Parallel()
	t.Run("small chunks", func(t *testing.T) {
		t.Parallel()
		blocktest.Errors(t, FrameSize, 3*smallChunk/FrameSize, with(Options{Workers: 2, chunk: smallChunk}))
	})
	t.Run("chunks of full size", func(t *testing.T) {
		t.Parallel()
		symtest.Unraced(t, "too slow there; small chunks show the same races")
		blocktest.Errors(t, FrameSize, 3*chunkSize/FrameSize, with(Options{Workers: 2}))
	})
	for _, w := range []int{MinWindow - 1, MaxWindow + 1} {
		t.Run(fmt.Sprintf("window %d", w), func(t *testing.T) {
			t.Parallel()
			if err := Compress(strings.NewReader(""), Options{Window: w}, nil); err == nil {
				t.Error("Compress: no error, want one")
			}
			if _, err := NewDecoder(w, 1); !errors.Is(err, ErrFormat) {
				t.Errorf("NewDecoder: error %v, want ErrFormat", err)
			}
		})
	}
}

// TestSampleHeader decodes the first bytes of a genuine symbol store's file:
// the translation size, then an aligned block of the whole file.
func TestSampleHeader(t *testing.T) {
	t.Parallel()
	d, err := NewDecoder(21, 11776)
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.Decode([]byte{0x5b, 0x80, 0x80, 0x8d, 0x02, 0x20, 0x0b, 0xe0, 0xb1, 0x4d}, 11776)
	if !errors.Is(err, ErrFormat) || d.translated != 12000000 || d.kind != blockAligned || d.left != 11776 {
		t.Errorf("error %v, translation size %d, block kind %d, %d bytes left; want ErrFormat, 12000000, %d, 11776", err, d.translated, d.kind, d.left, blockAligned)
	}
}

func TestSlots(t *testing.T) {
	t.Parallel()
	for s := range uint32(maxSlots) {
		for _, f := range []uint32{slotBase[s], slotBase[s+1] - 1} {
			if f > 2 && slotOf(f-2) != s {
				t.Errorf("formatted offset %d: slot %d, want %d", f, slotOf(f-2), s)
			}
		}
	}
	for i, n := range slotsOf {
		if slotBase[n] != 1<<(MinWindow+i) {
			t.Errorf("window %d: %d slots reach %d, want %d", MinWindow+i, n, slotBase[n], 1<<(MinWindow+i))
		}
	}
}

func TestCodeLengths(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	rounds := 2000
	if symtest.Brief(t) {
		rounds = 200
	}
	for range rounds {
		freq := make([]uint32, 2+rng.IntN(maxMain-2))
		used := 0
		for i := range freq {
			if rng.IntN(3) > 0 {
				freq[i] = 1 << rng.IntN(24)
				used++
			}
		}
		limit := 10 + rng.IntN(7)
		lens := make([]uint8, len(freq))
		codeLengths(freq, lens, limit, make([]uint64, len(freq)))
		sum := 0
		for i, n := range lens {
			if int(n) > limit || (freq[i] > 0 && n == 0) {
				t.Fatalf("symbol %d of frequency %d has length %d, want 1 to %d", i, freq[i], n, limit)
			}
			if n > 0 {
				sum += 1 << (limit - int(n))
			}
		}
		if used > 0 && sum != 1<<limit {
			t.Fatalf("code of %d symbols: sum of the code space is %d, want %d (a complete code)", used, sum, 1<<limit)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	plain := bytes.Repeat([]byte("hello, hello "), 60)
	good := compress(t, plain, Options{})[0]
	cut := bytes.Clone(good.Data[:len(good.Data)-4])
	for name, f := range map[string]blocktest.Block{
		"empty":            {Data: nil, Size: 100},
		"cut":              {Data: cut, Size: good.Size},
		"one more claimed": {Data: good.Data, Size: good.Size + 1},
		"size 0":           {Data: good.Data, Size: 0},
		"size above 32768": {Data: good.Data, Size: FrameSize + 1},
		"too long":         {Data: make([]byte, MaxFrame+1), Size: 100},
		"zeros":            {Data: make([]byte, 200), Size: 100},
		"ones":             {Data: bytes.Repeat([]byte{0xFF}, 200), Size: 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := NewDecoder(21, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			if p, err := d.Decode(f.Data, f.Size); !errors.Is(err, ErrFormat) {
				t.Errorf("decoded %q, error %v; want ErrFormat", p, err)
			}
		})
	}
	t.Run("frame after a short one", func(t *testing.T) {
		t.Parallel()
		d, err := NewDecoder(21, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Decode(good.Data, good.Size); err != nil {
			t.Fatalf("first frame: error %v, want none", err)
		}
		if _, err := d.Decode(good.Data, good.Size); !errors.Is(err, ErrFormat) {
			t.Errorf("frame after the last one: error %v, want ErrFormat", err)
		}
	})
}

func FuzzLZXDecode(f *testing.F) {
	most := 50000
	if symtest.Brief(f) {
		most = 5000
	}
	for _, plain := range samples(f) {
		if fs := compress(f, plain[:min(len(plain), most)], Options{Window: 16}); len(fs) > 0 {
			f.Add(fs[0].Data, fs[0].Size, 16)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, size, window int) {
		d, err := NewDecoder(window, 3*FrameSize)
		if err != nil {
			return
		}
		for range 3 {
			p, err := d.Decode(data, size)
			if err != nil {
				return
			}
			if len(p) != size {
				t.Fatalf("%d bytes, want %d", len(p), size)
			}
		}
	})
}

func FuzzLZXRoundTrip(f *testing.F) {
	most := 40000
	if symtest.Brief(f) {
		most = 4000
	}
	for _, plain := range samples(f) {
		f.Add(plain[:min(len(plain), most)], uint8(6), uint16(3))
	}
	f.Fuzz(func(t *testing.T, seed []byte, window uint8, times uint16) {
		plain := bytes.Repeat(seed, int(times)%64)
		plain = plain[:min(len(plain), 1<<18)]
		w := MinWindow + int(window)%7
		if got := expand(t, compress(t, plain, Options{Window: w}), w); !bytes.Equal(got, plain) {
			t.Fatalf("%d bytes back, want %d equal ones", len(got), len(plain))
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	plain := blocktest.BenchInput(b, "../../testdata/pdb", 1)
	frames := compress(b, plain, Options{Workers: 2})
	blocktest.BenchDecode(b, frames, func() func([]byte, int) ([]byte, error) {
		d, err := NewDecoder(MaxWindow, int64(len(plain)))
		if err != nil {
			b.Fatal(err)
		}
		return d.Decode
	})
}

func BenchmarkEncode(b *testing.B) {
	blocktest.BenchEncode(b, blocktest.BenchInput(b, "../../testdata/pdb", 1), with(Options{}))
}
