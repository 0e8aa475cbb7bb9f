package mszip

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/cab/internal/blocktest"
	"github.com/symdepot/symdepot/internal/base/symtest"
)

func with(opt Options) blocktest.Compressor {
	return func(r io.Reader, emit func([]byte, int) error) error { return Compress(r, opt, emit) }
}

func compress(t testing.TB, plain []byte, opt Options) []blocktest.Block {
	t.Helper()
	return blocktest.Compress(t, plain, BlockSize+12, with(opt))
}

func expand(t testing.TB, blocks []blocktest.Block) []byte {
	t.Helper()
	d := NewDecoder()
	d.strict = true
	return blocktest.Expand(t, blocks, d.Decode)
}

// letters has no repetitions to speak of, but few different bytes.
func letters(n int) []byte {
	b := blocktest.Random(n)
	for i := range b {
		b[i] = 'a' + b[i]%5*b[i]%3
	}
	return b
}

func samples(t testing.TB) map[string][]byte {
	t.Helper()
	m := map[string][]byte{
		"empty": nil, "one": {'x'}, "below": blocktest.Random(BlockSize - 1), "full": blocktest.Random(BlockSize), "above": blocktest.Random(BlockSize + 1),
		"zero": make([]byte, 3*BlockSize+5), "random": blocktest.Random(5*BlockSize + 77),
		"text": blocktest.Text(6000),
		"runs": bytes.Repeat(append(blocktest.Random(200), make([]byte, 300)...), 5000),
		"far":  append(blocktest.Random(BlockSize), blocktest.Random(BlockSize)...),
		// Each period has its distances in one slot, up to the last one.
		"period 1": make([]byte, 40000), "period 3": bytes.Repeat([]byte("abc"), 30000), "period 700": bytes.Repeat(blocktest.Random(700), 200),
		"period 30000": bytes.Repeat(blocktest.Random(30000), 10), "period 32768": bytes.Repeat(blocktest.Random(32768), 5), "no distances": letters(100000),
	}
	maps.Copy(m, blocktest.Files(t, "../../testdata/pdb/*.pdb"))
	return m
}

func TestRoundTrip(t *testing.T) {
	for name, plain := range samples(t) {
		for _, level := range []int{1, 0, 9} {
			t.Run(fmt.Sprintf("%s, level %d", name, level), func(t *testing.T) {
				if level == 9 {
					symtest.Sequential(t) // it only searches longer, in the same goroutines
				}
				if got := expand(t, compress(t, plain, Options{Level: level, Workers: 2})); !bytes.Equal(got, plain) {
					t.Errorf("%d bytes back, want %d equal ones", len(got), len(plain))
				}
			})
		}
	}
}

// TestReset decodes a folder with a decoder that failed in a different folder.
func TestReset(t *testing.T) {
	plain := blocktest.Text(3000)
	blocks := compress(t, plain, Options{})
	d := NewDecoder()
	if got := blocktest.Expand(t, blocks, d.Decode); !bytes.Equal(got, plain) {
		t.Fatal("the first folder differs")
	}
	if _, err := d.Decode([]byte("CK\x07"), 3); !errors.Is(err, ErrFormat) {
		t.Fatalf("damaged block: error %v, want ErrFormat", err)
	}
	d.Reset()
	if _, err := d.Decode([]byte("CK\x63\x60\x20\x00\x00\x00"), 3); !errors.Is(err, ErrFormat) {
		t.Errorf("a match before the start: error %v, want ErrFormat: the earlier folder is not history", err)
	}
	d.Reset()
	if got := blocktest.Expand(t, blocks, d.Decode); !bytes.Equal(got, plain) {
		t.Error("the folder after Reset differs")
	}
}

func TestWorkersMakeNoDifference(t *testing.T) {
	plain := append(blocktest.Random(runSize), bytes.Repeat([]byte("abcdefgh, hij"), 200000)...)
	one, three := compress(t, plain, Options{}), compress(t, plain, Options{Workers: 3})
	blocktest.Same(t, one, three)
}

func TestHistoryCrossesRuns(t *testing.T) {
	plain := bytes.Repeat(blocktest.Random(BlockSize-100), 2*runBlocks)
	if n, most := blocktest.Size(compress(t, plain, Options{})), BlockSize+2*runBlocks*400; n > most {
		t.Errorf("%d bytes, want at most %d: the history of the previous block is not used", n, most)
	}
}

func TestCompressErrors(t *testing.T) {
	blocktest.Errors(t, BlockSize, 10*runBlocks, with(Options{Workers: 2}))
	if err := Compress(strings.NewReader(""), Options{Level: 10}, nil); err == nil {
		t.Error("level 10 is accepted, want an error")
	}
}

func TestDecodeRefuses(t *testing.T) {
	good := compress(t, bytes.Repeat([]byte("hello "), 100), Options{})[0]
	for name, b := range map[string]blocktest.Block{
		"empty":            {Data: nil, Size: 0},
		"no CK":            {Data: append([]byte("KC"), good.Data[2:]...), Size: 600},
		"only CK":          {Data: []byte("CK"), Size: 0},
		"cut":              {Data: good.Data[:len(good.Data)-4], Size: 600},
		"one more claimed": {Data: good.Data, Size: 601},
		"one less claimed": {Data: good.Data, Size: 599},
		"size above 32768": {Data: good.Data, Size: BlockSize + 1},
		"negative size":    {Data: good.Data, Size: -1},
		"too long":         {Data: append([]byte("CK"), make([]byte, MaxBlock)...), Size: 600},
		"reserved type":    {Data: []byte("CK\x07\x00\x00\x00"), Size: 0},
		"stored length":    {Data: []byte("CK\x01\x05\x00\x00\x00hello"), Size: 5},
		"before start":     {Data: []byte("CK\x63\x60\x20\x00\x00\x00"), Size: 3}, // fixed code, a match with nothing before it
		"no symbols":       {Data: []byte{'C', 'K', 0x05, 0, 0, 0, 0, 0, 0, 0}, Size: 1},
	} {
		t.Run(name, func(t *testing.T) {
			if p, err := NewDecoder().Decode(b.Data, b.Size); !errors.Is(err, ErrFormat) {
				t.Errorf("decoded %q, error %v; want ErrFormat", p, err)
			}
		})
	}
	if p, err := NewDecoder().Decode(good.Data, 600); err != nil || string(p) != strings.Repeat("hello ", 100) {
		t.Errorf("the sound block: %q, %v, want 100 times \"hello \"", p, err)
	}
}

func FuzzMSZIPDecode(f *testing.F) {
	for _, plain := range samples(f) {
		if bs := compress(f, plain[:min(len(plain), 20000)], Options{}); len(bs) > 0 {
			f.Add(bs[0].Data, bs[0].Size)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, size int) {
		d := NewDecoder()
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

func FuzzMSZIPRoundTrip(f *testing.F) {
	for _, plain := range samples(f) {
		f.Add(plain[:min(len(plain), 40000)], uint8(6), uint16(3))
	}
	f.Fuzz(func(t *testing.T, seed []byte, level uint8, times uint16) {
		o := Options{Level: int(level%9) + 1, Workers: 1 + int(level)%2}
		limit := 3 * runSize
		if o.Level > 7 {
			limit = 2 * BlockSize // the search of levels 8 and 9 takes seconds for a megabyte of random text of three letters
		}
		plain := bytes.Repeat(seed, int(times)%64)
		plain = plain[:min(len(plain), limit)]
		if got := expand(t, compress(t, plain, o)); !bytes.Equal(got, plain) {
			t.Fatalf("%d bytes back, want %d equal ones", len(got), len(plain))
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	blocks := compress(b, blocktest.BenchInput(b, "../../testdata/pdb", 20), Options{})
	blocktest.BenchDecode(b, blocks, func() func([]byte, int) ([]byte, error) { return NewDecoder().Decode })
}

func BenchmarkEncode(b *testing.B) {
	blocktest.BenchEncode(b, blocktest.BenchInput(b, "../../testdata/pdb", 20), with(Options{Workers: 2}))
}
