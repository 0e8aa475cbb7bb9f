// Package blocktest holds what the tests of the compressions of cabinets share.
package blocktest

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

// Block is a compressed block with the number of bytes that it expands to.
type Block struct {
	Data []byte
	Size int
}

// Compressor is the function Compress of a compression with its options set.
type Compressor func(r io.Reader, emit func(data []byte, size int) error) error

// Compress compresses plain. A block of more than limit bytes is an error.
func Compress(t testing.TB, plain []byte, limit int, compress Compressor) []Block {
	t.Helper()
	var out []Block
	err := compress(bytes.NewReader(plain), func(b []byte, size int) error {
		if len(b) > limit {
			t.Errorf("block %d has %d bytes for %d, want at most %d", len(out), len(b), size, limit)
		}
		out = append(out, Block{bytes.Clone(b), size})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Expand decodes blocks in their order.
func Expand(t testing.TB, blocks []Block, decode func(data []byte, size int) ([]byte, error)) []byte {
	t.Helper()
	var out []byte
	for i, b := range blocks {
		p, err := decode(b.Data, b.Size)
		if err != nil {
			t.Fatalf("block %d of %d: %v", i, len(blocks), err)
		}
		out = append(out, p...)
	}
	return out
}

// Same compares two compressions of the same bytes.
func Same(t *testing.T, a, b []Block) {
	t.Helper()
	if len(a) != len(b) {
		t.Fatalf("%d and %d blocks, want equal numbers", len(a), len(b))
	}
	for i := range a {
		if !bytes.Equal(a[i].Data, b[i].Data) {
			t.Fatalf("block %d differs", i)
		}
	}
}

// Size is the number of compressed bytes.
func Size(blocks []Block) (n int) {
	for _, b := range blocks {
		n += len(b.Data)
	}
	return n
}

// Random returns n bytes that do not compress, always the same ones.
func Random(n int) []byte {
	b := make([]byte, n)
	rng := rand.NewChaCha8([32]byte{7})
	_, _ = rng.Read(b)
	return b
}

// Text returns n lines of text.
func Text(n int) []byte {
	return []byte(strings.Repeat("the symbols of every build of every platform; ", n))
}

// Files returns the files that match the patterns, by their base names. It fails
// if there are none.
func Files(t testing.TB, patterns ...string) map[string][]byte {
	t.Helper()
	m := map[string][]byte{}
	for _, pattern := range patterns {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			m[filepath.Base(name)] = b
		}
	}
	if len(m) == 0 {
		t.Fatalf("no file matches %q", patterns)
	}
	return m
}

// Errors checks that errors of the input and of emit end a compression. block is
// the size of a block; input of so many blocks keeps all workers busy.
func Errors(t *testing.T, block, blocks int, compress Compressor) {
	t.Helper()
	boom := errors.New("boom")
	t.Run("emit", func(t *testing.T) {
		if err := compress(bytes.NewReader(make([]byte, blocks*block)), func([]byte, int) error { return boom }); !errors.Is(err, boom) {
			t.Errorf("error %v, want %v", err, boom)
		}
	})
	for _, cause := range []error{boom, io.ErrUnexpectedEOF} {
		t.Run("read: "+cause.Error(), func(t *testing.T) {
			r := io.MultiReader(bytes.NewReader(make([]byte, 3*block)), failing{cause})
			if err := compress(r, func([]byte, int) error { return nil }); !errors.Is(err, cause) {
				t.Errorf("error %v, want %v", err, cause)
			}
		})
	}
}

// failing is a reader that fails at once.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// BenchInput returns the PDBs of dir several times, or the file that
// SYMDEPOT_BENCH_FILE names.
func BenchInput(b *testing.B, dir string, times int) []byte {
	b.Helper()
	if name := os.Getenv("SYMDEPOT_BENCH_FILE"); name != "" {
		plain, err := os.ReadFile(name)
		if err != nil {
			b.Fatal(err)
		}
		return plain
	}
	var once []byte
	for _, f := range []string{"hello-x64.pdb", "hello-arm64.pdb", "hello-x86.pdb"} {
		p, err := os.ReadFile(filepath.Join(dir, f))
		if err != nil {
			b.Fatal(err)
		}
		once = append(once, p...)
	}
	return bytes.Repeat(once, times)
}

// BenchDecode measures decoding; each round has a decoder of its own.
func BenchDecode(b *testing.B, blocks []Block, decoder func() func(data []byte, size int) ([]byte, error)) {
	n := 0
	for _, k := range blocks {
		n += k.Size
	}
	b.SetBytes(int64(n))
	for b.Loop() {
		decode := decoder()
		for _, k := range blocks {
			if _, err := decode(k.Data, k.Size); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchEncode measures compressing, and reports the ratio.
func BenchEncode(b *testing.B, plain []byte, compress Compressor) {
	b.SetBytes(int64(len(plain)))
	for b.Loop() {
		n := 0
		if err := compress(bytes.NewReader(plain), func(p []byte, _ int) error { n += len(p); return nil }); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(n)/float64(len(plain)), "ratio")
	}
}
