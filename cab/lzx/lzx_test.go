package lzx

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type frame struct {
	data []byte
	size int
}

func compress(t testing.TB, plain []byte, opt Options) []frame {
	t.Helper()
	var out []frame
	err := Compress(bytes.NewReader(plain), opt, func(b []byte, size int) error {
		if len(b) > FrameSize+3000 {
			t.Errorf("frame of %d bytes for %d", len(b), size)
		}
		out = append(out, frame{bytes.Clone(b), size})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func expand(t testing.TB, frames []frame, window int) []byte {
	t.Helper()
	d, err := NewDecoder(window, int64(len(frames))*FrameSize)
	if err != nil {
		t.Fatal(err)
	}
	var out []byte
	for i, f := range frames {
		p, err := d.Decode(f.data, f.size)
		if err != nil {
			t.Fatalf("frame %d of %d: %v", i, len(frames), err)
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

// calls is random data with many x86 calls whose targets lie at the limits of
// the translation.
func calls(n int) []byte {
	b := random(n)
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
	text := []byte(strings.Repeat("the symbols of every build of every platform; ", 4000))
	m := map[string][]byte{
		"empty": nil, "one": {'x'}, "two": {0, 0}, "five": []byte("aaaaa"),
		"below": random(FrameSize - 1), "full": random(FrameSize), "above": random(FrameSize + 1),
		"zero": make([]byte, 3*FrameSize+5), "random": random(5*FrameSize + 77), "text": text,
		"runs":      bytes.Repeat(append(random(200), make([]byte, 300)...), 1000),
		"far":       append(append(random(300000), text...), random(300000)...),
		"calls":     calls(3*FrameSize + 8),
		"call tail": append(make([]byte, FrameSize), 0xE8, 1, 2, 3, 4, 0xE8, 1, 2, 3, 4, 0),
		"mixed":     bytes.Join([][]byte{text[:1001], random(1777), text[:40000], random(40000), text[:3], random(5), make([]byte, 70000)}, nil),
	}
	files, err := filepath.Glob("../../testdata/p[de]*/*")
	if err != nil || len(files) == 0 {
		t.Fatal("no files in testdata", err)
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
		for _, window := range []int{15, 17, 21} {
			if got := expand(t, compress(t, plain, Options{Window: window}), window); !bytes.Equal(got, plain) {
				t.Errorf("%s, window %d: %d bytes back, want %d equal ones", name, window, len(got), len(plain))
			}
		}
	}
}

func TestWorkersMakeNoDifference(t *testing.T) {
	plain := bytes.Join([][]byte{random(100000), bytes.Repeat([]byte("abcdefgh, hij"), 153000), random(100000), make([]byte, chunkSize)}, nil)
	one, three := compress(t, plain, Options{}), compress(t, plain, Options{Workers: 3})
	if len(one) != len(three) {
		t.Fatalf("%d and %d frames", len(one), len(three))
	}
	n := 0
	for i := range one {
		if !bytes.Equal(one[i].data, three[i].data) {
			t.Fatalf("frame %d differs", i)
		}
		n += len(one[i].data)
	}
	if got := expand(t, one, MaxWindow); !bytes.Equal(got, plain) {
		t.Fatal("round trip")
	}
	if n > 112000 {
		t.Errorf("%d bytes: the history of the chunk before was not used", n)
	}
}

func TestCompressErrors(t *testing.T) {
	boom := errors.New("boom")
	if err := Compress(bytes.NewReader(make([]byte, 3*chunkSize)), Options{Workers: 2}, func([]byte, int) error { return boom }); !errors.Is(err, boom) {
		t.Errorf("emit: %v", err)
	}
	for _, cause := range []error{boom, io.ErrUnexpectedEOF} {
		r := io.MultiReader(bytes.NewReader(make([]byte, 3*FrameSize)), errReader{cause})
		if err := Compress(r, Options{}, func([]byte, int) error { return nil }); !errors.Is(err, cause) {
			t.Errorf("read: %v, want %v", err, cause)
		}
	}
	for _, w := range []int{14, 22} {
		if err := Compress(strings.NewReader(""), Options{Window: w}, nil); err == nil {
			t.Errorf("window %d accepted", w)
		}
		if _, err := NewDecoder(w, 1); !errors.Is(err, ErrFormat) {
			t.Errorf("window %d: %v", w, err)
		}
	}
}

type errReader struct{ err error }

func (e errReader) Read([]byte) (int, error) { return 0, e.err }

// TestSampleHeader decodes the first bytes of a genuine symbol store's file:
// the translation size, then an aligned block of the whole file.
func TestSampleHeader(t *testing.T) {
	d, err := NewDecoder(21, 11776)
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.Decode([]byte{0x5b, 0x80, 0x80, 0x8d, 0x02, 0x20, 0x0b, 0xe0, 0xb1, 0x4d}, 11776)
	if !errors.Is(err, ErrFormat) || d.translated != 12000000 || d.kind != blockAligned || d.left != 11776 {
		t.Errorf("%v: size %d, kind %d, %d bytes", err, d.translated, d.kind, d.left)
	}
}

func TestSlots(t *testing.T) {
	for s := range uint32(maxSlots) {
		for _, f := range []uint32{slotBase[s], slotBase[s+1] - 1} {
			if f > 2 && slotOf(f-2) != s {
				t.Errorf("formatted offset %d: slot %d, want %d", f, slotOf(f-2), s)
			}
		}
	}
	for i, n := range slotsOf {
		if slotBase[n] != 1<<(MinWindow+i) {
			t.Errorf("window %d: %d slots reach %d", MinWindow+i, n, slotBase[n])
		}
	}
}

func TestCodeLengths(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
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
				t.Fatalf("length %d for %d, limit %d", n, freq[i], limit)
			}
			if n > 0 {
				sum += 1 << (limit - int(n))
			}
		}
		if used > 0 && sum != 1<<limit {
			t.Fatalf("%d symbols: not complete", used)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	plain := bytes.Repeat([]byte("hello, hello "), 60)
	good := compress(t, plain, Options{})[0]
	cut := bytes.Clone(good.data[:len(good.data)-4])
	for name, f := range map[string]frame{
		"empty":            {nil, 100},
		"cut":              {cut, good.size},
		"one more claimed": {good.data, good.size + 1},
		"size 0":           {good.data, 0},
		"size above 32768": {good.data, FrameSize + 1},
		"too long":         {make([]byte, MaxFrame+1), 100},
		"zeros":            {make([]byte, 200), 100},
		"ones":             {bytes.Repeat([]byte{0xFF}, 200), 100},
	} {
		d, err := NewDecoder(21, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if p, err := d.Decode(f.data, f.size); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %q, %v", name, p, err)
		}
	}
	// A frame after one that was not full.
	d, _ := NewDecoder(21, 1<<20)
	if _, err := d.Decode(good.data, good.size); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Decode(good.data, good.size); !errors.Is(err, ErrFormat) {
		t.Errorf("frame after the last: %v", err)
	}
}

func FuzzLZXDecode(f *testing.F) {
	for _, plain := range samples(f) {
		if fs := compress(f, plain[:min(len(plain), 50000)], Options{Window: 16}); len(fs) > 0 {
			f.Add(fs[0].data, fs[0].size, 16)
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
	for _, plain := range samples(f) {
		f.Add(plain[:min(len(plain), 40000)], uint8(6), uint16(3))
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

func bench(b *testing.B) []byte {
	var plain []byte
	if name := os.Getenv("SYMDEPOT_BENCH_FILE"); name != "" {
		plain, err := os.ReadFile(name)
		if err != nil {
			b.Fatal(err)
		}
		return plain
	}
	for _, f := range []string{"hello-x64.pdb", "hello-arm64.pdb", "hello-x86.pdb"} {
		p, err := os.ReadFile("../../testdata/pdb/" + f)
		if err != nil {
			b.Fatal(err)
		}
		plain = append(plain, p...)
	}
	return plain
}

func BenchmarkDecode(b *testing.B) {
	plain := bench(b)
	frames := compress(b, plain, Options{Workers: 2})
	b.SetBytes(int64(len(plain)))
	for b.Loop() {
		d, err := NewDecoder(MaxWindow, int64(len(plain)))
		if err != nil {
			b.Fatal(err)
		}
		for _, f := range frames {
			if _, err := d.Decode(f.data, f.size); err != nil {
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
		if err := Compress(bytes.NewReader(plain), Options{}, func(p []byte, _ int) error { n += len(p); return nil }); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(n)/float64(len(plain)), "ratio")
	}
}
