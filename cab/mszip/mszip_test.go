package mszip

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type block struct {
	data []byte
	size int
}

func compress(t testing.TB, plain []byte, opt Options) []block {
	t.Helper()
	var out []block
	err := Compress(bytes.NewReader(plain), opt, func(b []byte, size int) error {
		if len(b) > BlockSize+12 {
			t.Errorf("block of %d bytes for %d", len(b), size)
		}
		out = append(out, block{bytes.Clone(b), size})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func expand(t testing.TB, blocks []block) []byte {
	t.Helper()
	d := NewDecoder()
	d.strict = true
	var out []byte
	for i, b := range blocks {
		p, err := d.Decode(b.data, b.size)
		if err != nil {
			t.Fatalf("block %d: %v", i, err)
		}
		out = append(out, p...)
	}
	return out
}

func random(n int) []byte {
	b := make([]byte, n)
	rng := rand.NewChaCha8([32]byte{7})
	_, _ = rng.Read(b)
	return b
}

// letters has no repetitions to speak of, but few different bytes.
func letters(n int) []byte {
	b := random(n)
	for i := range b {
		b[i] = 'a' + b[i]%5*b[i]%3
	}
	return b
}

func samples(t testing.TB) map[string][]byte {
	t.Helper()
	m := map[string][]byte{
		"empty": nil, "one": {'x'}, "below": random(BlockSize - 1), "full": random(BlockSize), "above": random(BlockSize + 1),
		"zero": make([]byte, 3*BlockSize+5), "random": random(5*BlockSize + 77),
		"text": []byte(strings.Repeat("the symbols of every build of every platform; ", 6000)),
		"runs": bytes.Repeat(append(random(200), make([]byte, 300)...), 5000),
		"far":  append(random(BlockSize), random(BlockSize)...),
		// Each period has its distances in one slot, up to the last one.
		"period 1": make([]byte, 40000), "period 3": bytes.Repeat([]byte("abc"), 30000), "period 700": bytes.Repeat(random(700), 200),
		"period 30000": bytes.Repeat(random(30000), 10), "period 32768": bytes.Repeat(random(32768), 5), "no distances": letters(100000),
	}
	files, err := filepath.Glob("../../testdata/pdb/*.pdb")
	if err != nil || len(files) == 0 {
		t.Fatal("no PDBs in testdata/pdb", err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		m[filepath.Base(f)] = b
	}
	return m
}

func TestRoundTrip(t *testing.T) {
	for name, plain := range samples(t) {
		for _, level := range []int{1, 0, 9} {
			if got := expand(t, compress(t, plain, Options{Level: level, Workers: 2})); !bytes.Equal(got, plain) {
				t.Errorf("%s, level %d: %d bytes back, want %d equal ones", name, level, len(got), len(plain))
			}
		}
	}
}

func TestWorkersMakeNoDifference(t *testing.T) {
	plain := append(random(runSize), bytes.Repeat([]byte("abcdefgh, hij"), 200000)...)
	one, three := compress(t, plain, Options{}), compress(t, plain, Options{Workers: 3})
	if len(one) != len(three) {
		t.Fatalf("%d and %d blocks", len(one), len(three))
	}
	for i := range one {
		if !bytes.Equal(one[i].data, three[i].data) {
			t.Fatalf("block %d differs", i)
		}
	}
}

func TestHistoryCrossesRuns(t *testing.T) {
	plain := bytes.Repeat(random(BlockSize-100), 2*runBlocks)
	n := 0
	for _, b := range compress(t, plain, Options{}) {
		n += len(b.data)
	}
	if n > BlockSize+2*runBlocks*400 {
		t.Errorf("%d bytes: the history of the block before was not used", n)
	}
}

func TestCompressErrors(t *testing.T) {
	boom := errors.New("boom")
	if err := Compress(bytes.NewReader(make([]byte, 10*runSize)), Options{Workers: 2}, func([]byte, int) error { return boom }); !errors.Is(err, boom) {
		t.Errorf("emit: %v", err)
	}
	for _, cause := range []error{boom, io.ErrUnexpectedEOF} {
		r := io.MultiReader(bytes.NewReader(make([]byte, 3*BlockSize)), errReader{cause})
		if err := Compress(r, Options{}, func([]byte, int) error { return nil }); !errors.Is(err, cause) {
			t.Errorf("read: %v, want %v", err, cause)
		}
	}
	if err := Compress(strings.NewReader(""), Options{Level: 10}, nil); err == nil {
		t.Error("level 10 accepted")
	}
}

type errReader struct{ err error }

func (e errReader) Read([]byte) (int, error) { return 0, e.err }

func TestDecodeRefuses(t *testing.T) {
	good := compress(t, bytes.Repeat([]byte("hello "), 100), Options{})[0]
	for name, b := range map[string]block{
		"empty":            {nil, 0},
		"no CK":            {append([]byte("KC"), good.data[2:]...), 600},
		"only CK":          {[]byte("CK"), 0},
		"cut":              {good.data[:len(good.data)-4], 600},
		"one more claimed": {good.data, 601},
		"one less claimed": {good.data, 599},
		"size above 32768": {good.data, BlockSize + 1},
		"negative size":    {good.data, -1},
		"too long":         {append([]byte("CK"), make([]byte, MaxBlock)...), 600},
		"reserved type":    {[]byte("CK\x07\x00\x00\x00"), 0},
		"stored length":    {[]byte("CK\x01\x05\x00\x00\x00hello"), 5},
		"before start":     {[]byte("CK\x63\x60\x20\x00\x00\x00"), 3}, // fixed code, a match with nothing before it
		"no symbols":       {[]byte{'C', 'K', 0x05, 0, 0, 0, 0, 0, 0, 0}, 1},
	} {
		if p, err := NewDecoder().Decode(b.data, b.size); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %q, %v", name, p, err)
		}
	}
	if p, err := NewDecoder().Decode(good.data, 600); err != nil || string(p) != strings.Repeat("hello ", 100) {
		t.Errorf("%q, %v", p, err)
	}
}

func FuzzMSZIPDecode(f *testing.F) {
	for _, plain := range samples(f) {
		if bs := compress(f, plain[:min(len(plain), 20000)], Options{}); len(bs) > 0 {
			f.Add(bs[0].data, bs[0].size)
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
		plain := bytes.Repeat(seed, int(times)%64)
		plain = plain[:min(len(plain), 3*runSize)]
		if got := expand(t, compress(t, plain, Options{Level: int(level%9) + 1, Workers: 1 + int(level)%2})); !bytes.Equal(got, plain) {
			t.Fatalf("%d bytes back, want %d equal ones", len(got), len(plain))
		}
	})
}

func bench(b *testing.B) []byte {
	var plain []byte
	for range 20 {
		for _, f := range []string{"hello-x64.pdb", "hello-arm64.pdb", "hello-x86.pdb"} {
			p, err := os.ReadFile("../../testdata/pdb/" + f)
			if err != nil {
				b.Fatal(err)
			}
			plain = append(plain, p...)
		}
	}
	if name := os.Getenv("SYMDEPOT_BENCH_FILE"); name != "" {
		var err error
		if plain, err = os.ReadFile(name); err != nil {
			b.Fatal(err)
		}
	}
	return plain
}

func BenchmarkDecode(b *testing.B) {
	plain := bench(b)
	blocks := compress(b, plain, Options{})
	b.SetBytes(int64(len(plain)))
	for b.Loop() {
		d := NewDecoder()
		for _, k := range blocks {
			if _, err := d.Decode(k.data, k.size); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	plain := bench(b)
	b.SetBytes(int64(len(plain)))
	for b.Loop() {
		n := 0
		if err := Compress(bytes.NewReader(plain), Options{Workers: 2}, func(p []byte, _ int) error { n += len(p); return nil }); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(n)/float64(len(plain)), "ratio")
	}
}
