package cab

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

func tempFile(t testing.TB) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestCreateChecked(t *testing.T) {
	var sources []Source
	var want [][]byte
	for name, b := range contents(t) {
		sources, want = append(sources, source(name, b)), append(want, b)
	}
	for _, opt := range methods {
		out := tempFile(t)
		if _, err := out.WriteString("before"); err != nil {
			t.Fatal(err)
		}
		size, sums, err := CreateChecked(t.Context(), out, sources, opt)
		if err != nil {
			t.Fatalf("%s: CreateChecked: error %v, want no error", method(opt), err)
		}
		if info, err := out.Stat(); err != nil || info.Size() != size+6 {
			t.Errorf("%s: size %d reported, the file has %d bytes more than before; %v", method(opt), size, info.Size()-6, err)
		}
		for i, b := range want {
			if sums[i] != sha256.Sum256(b) {
				t.Errorf("%s: wrong hash of %s", method(opt), sources[i].Name)
			}
		}
	}
}

// liar changes one byte of what is read back.
type liar struct {
	*os.File
	at int64
}

func (l liar) ReadAt(p []byte, off int64) (int, error) {
	n, err := l.File.ReadAt(p, off)
	if off <= l.at && l.at < off+int64(n) {
		p[l.at-off] ^= 1
	}
	return n, err
}

func TestCreateCheckedFails(t *testing.T) {
	one := []Source{source("x.pdb", bytes.Repeat([]byte("12345678"), 1000))}
	t.Run("a file above the limit", func(t *testing.T) {
		big := Source{Name: "x", Size: MaxFile + 1}
		if _, _, err := CreateChecked(t.Context(), tempFile(t), []Source{big}, WriteOptions{}); !errors.Is(err, ErrTooLarge) {
			t.Errorf("error %v, want ErrTooLarge", err)
		}
	})
	t.Run("damage on the disk", func(t *testing.T) {
		for at := int64(90); at < 93; at++ {
			if _, _, err := CreateChecked(t.Context(), liar{tempFile(t), at}, one, WriteOptions{Method: MSZIP}); err == nil {
				t.Errorf("byte %d was changed and the cabinet accepted", at)
			}
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := CreateChecked(ctx, tempFile(t), one, WriteOptions{}); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want context.Canceled", err)
		}
	})
}

func TestOpenSingle(t *testing.T) {
	a, b := source("a", []byte("first")), source("b", []byte("second"))
	one := create(t, WriteOptions{}, a)
	f, err := OpenSingle(bytes.NewReader(one), int64(len(one)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if n, err := f.Extract(&out); err != nil || n != 5 || out.String() != "first" || f.Name != "a" {
		t.Errorf("%q with %q, %d bytes, %v; want a with first", f.Name, out.String(), n, err)
	}
	two := create(t, WriteOptions{}, a, b)
	if _, err := OpenSingle(bytes.NewReader(two), int64(len(two)), Options{}); !errors.Is(err, ErrFormat) {
		t.Errorf("two files: %v, want ErrFormat", err)
	}
}

// writeSmall makes the cabinet of a small file, as symbol stores do thousands of
// times in sequence.
func writeSmall(t testing.TB, out *os.File, b []byte) {
	if _, err := out.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if _, _, err := CreateChecked(t.Context(), out, []Source{source("small.dll", b)}, WriteOptions{Method: MSZIP}); err != nil {
		t.Fatal(err)
	}
}

// TestMemoryIsReused holds many small cabinets to a tenth of the memory that
// their compressors and decoders would take if each had its own.
func TestMemoryIsReused(t *testing.T) {
	if symtest.Race {
		t.Skip("under the race detector sync.Pool drops memory at random")
	}
	out, b := tempFile(t), random(50_000)
	writeSmall(t, out, b)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const n = 50
	for range n {
		writeSmall(t, out, b)
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / n; each > 200<<10 {
		t.Errorf("%d bytes are allocated for each cabinet, want at most %d", each, 200<<10)
	}
}

func BenchmarkSmall(b *testing.B) {
	out, plain := tempFile(b), random(50_000)
	b.ReportAllocs()
	b.SetBytes(int64(len(plain)))
	for b.Loop() {
		writeSmall(b, out, plain)
	}
}
