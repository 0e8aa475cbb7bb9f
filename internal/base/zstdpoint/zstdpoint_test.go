package zstdpoint

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// text returns bytes that a compressor describes in many ways: words, numbers, random bytes,
// one byte many times.
func text(n int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	var words [300][]byte
	for i := range words {
		words[i] = fmt.Appendf(nil, "%x", r.Uint64()>>r.IntN(60))
	}
	b := make([]byte, 0, n+1<<20)
	for len(b) < n {
		switch r.IntN(8) {
		case 0:
			for range r.IntN(200_000) {
				b = append(b, byte(r.Uint32()))
			}
		case 1:
			b = append(b, bytes.Repeat([]byte{byte(r.Uint32())}, r.IntN(300_000))...)
		case 2:
			if len(b) > 0 {
				at := r.IntN(len(b))
				b = append(b, b[at:min(len(b), at+r.IntN(100_000))]...)
			}
		case 3:
			for i := range r.IntN(20_000) {
				b = append(b, byte(i), byte(i>>8), 0, 0)
			}
		default:
			for range r.IntN(50_000) {
				b = append(b, words[r.IntN(len(words))]...)
				b = append(b, ' ')
			}
		}
	}
	return b[:n]
}

// points decompresses data and returns its points.
func points(t testing.TB, packed, plain []byte, every int64) (list []Point) {
	t.Helper()
	z, err := NewReader(bytes.NewReader(packed), Options{
		MaxWindow: 128 << 20, MaxState: 8 << 20, Every: every,
		Note: func(p Point) error { list = append(list, p); return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	got, err := io.ReadAll(z)
	if err != nil || !bytes.Equal(got, plain) {
		t.Fatalf("%d bytes, %v, want %d", len(got), err, len(plain))
	}
	return list
}

// check decompresses from each point.
func check(t testing.TB, packed, plain []byte, list []Point) {
	t.Helper()
	for _, p := range list {
		z, err := Resume(bytes.NewReader(packed[p.Packed:]), p, 128<<20)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(z)
		if err != nil || !bytes.Equal(got, plain[p.Plain:]) {
			t.Errorf("from %d: %d bytes, %v, want %d, or other bytes", p.Plain, len(got), err, len(plain)-int(p.Plain))
		}
		_ = z.Close()
	}
}

// TestPoints: from each point the rest is decompressed, whatever has compressed it.
func TestPoints(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		plain := text(3<<20, seed)
		for _, level := range []zstd.EncoderLevel{zstd.SpeedFastest, zstd.SpeedDefault, zstd.SpeedBetterCompression, zstd.SpeedBestCompression} {
			var b bytes.Buffer
			z, err := zstd.NewWriter(&b, zstd.WithEncoderLevel(level), zstd.WithWindowSize(256<<10))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(z, bytes.NewReader(plain)); err != nil || z.Close() != nil {
				t.Fatal(err)
			}
			list := points(t, b.Bytes(), plain, 1<<19)
			if len(list) < 3 {
				t.Errorf("seed %d, %v: %d points, want 3 at least", seed, level, len(list))
			}
			check(t, b.Bytes(), plain, list)
		}
	}
}

// TestPointsOfZstd: the same with the compressor that packages are made with.
func TestPointsOfZstd(t *testing.T) {
	t.Parallel()
	tool := symtest.Tool(t, "zstd")
	plain := text(7<<20, 7)
	for _, args := range [][]string{
		{"-1"}, {"-3"}, {"-3", "-T2"}, {"-3", "--zstd=wlog=18"}, {"-9", "--zstd=wlog=20"}, {"-16", "--zstd=wlog=18"},
		{"--fast=5"}, {"-5", "--no-check"}, {"-4", "--zstd=strategy=8,wlog=17"},
	} {
		cmd := exec.Command(tool, append(args, "-c")...)
		cmd.Stdin, cmd.Stderr = bytes.NewReader(plain), os.Stderr
		packed, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		// A frame that follows is read too.
		packed = append(packed, packed...)
		twice := append(bytes.Clone(plain), plain...)
		list := points(t, packed, twice, 1<<20)
		t.Logf("%v: %d points", args, len(list))
		if len(list) == 0 {
			t.Errorf("%v: no points", args)
		}
		check(t, packed, twice, list)
	}
}

// FuzzPoints: damaged data gives what the decoder alone gives, and each point leads to the same
// bytes.
func FuzzPoints(f *testing.F) {
	for level := zstd.SpeedFastest; level <= zstd.SpeedBestCompression; level++ {
		var b bytes.Buffer
		z, err := zstd.NewWriter(&b, zstd.WithEncoderLevel(level), zstd.WithWindowSize(1<<10), zstd.WithEncoderConcurrency(1))
		if err != nil {
			f.Fatal(err)
		}
		if _, err := io.Copy(z, bytes.NewReader(text(1<<20, 3)[:20_000])); err != nil || z.Close() != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, packed []byte) {
		z, err := newDecoder(bytes.NewReader(packed), 1<<20)
		if err != nil {
			return
		}
		defer z.Close()
		plain, plainErr := io.ReadAll(io.LimitReader(z, 1<<20))
		var list []Point
		r, err := NewReader(bytes.NewReader(packed), Options{
			MaxWindow: 1 << 20, MaxState: 64 << 10, Every: 1, Note: func(p Point) error { list = append(list, p); return nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		got, gotErr := io.ReadAll(io.LimitReader(r, 1<<20))
		if !bytes.Equal(got, plain) || (gotErr == nil) != (plainErr == nil) {
			t.Fatalf("%d bytes, %v, want %d, %v", len(got), gotErr, len(plain), plainErr)
		}
		for _, p := range list {
			z, err := Resume(bytes.NewReader(packed[p.Packed:]), p, 1<<20)
			if err != nil {
				t.Fatalf("the point at %d leads nowhere: %v", p.Plain, err)
			}
			rest, err := io.ReadAll(io.LimitReader(z, 1<<20-p.Plain))
			if plainErr == nil && (err != nil || !bytes.Equal(rest, plain[p.Plain:])) {
				t.Fatalf("from the point at %d: %d bytes, %v, want %d", p.Plain, len(rest), err, len(plain)-int(p.Plain))
			}
			_ = z.Close()
		}
	})
}
