package unpack

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/symdepot/symdepot/cab"
)

// zeros is n zero bytes.
type zeros struct{ n int64 }

func (z *zeros) Read(p []byte) (int, error) {
	if z.n == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), z.n)
	clear(p[:n])
	z.n -= n
	return int(n), nil
}

// zstdFrame returns a frame (RFC 8878 section 3.1.1) with a window descriptor and blocks.
func zstdFrame(window byte, blocks ...[]byte) []byte {
	b := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, window}
	for _, block := range blocks {
		b = append(b, block...)
	}
	return b
}

// rle returns a block that repeats a byte n times (section 3.1.1.2): 4 bytes for 128 KiB.
func rle(n uint32, last bool) []byte {
	head := n<<3 | 1<<1
	if last {
		head |= 1
	}
	return append(binary.LittleEndian.AppendUint32(nil, head)[:3], 0)
}

// cabinetOf returns a cabinet with one file of n zero bytes.
func cabinetOf(t *testing.T, c cab.Method, n int64) []byte {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "bomb.cab"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	src := cab.Source{Name: "app.pdb", Size: n, Open: func() (io.ReadCloser, error) { return io.NopCloser(&zeros{n}), nil }}
	if _, err := cab.Create(f, []cab.Source{src}, cab.WriteOptions{Method: c}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// counter counts what it gets.
type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) { c.n += int64(len(p)); return len(p), nil }

// TestBombs: a small file that unpacks into much, claims much, or has many empty parts is
// refused: after no more than the limit has been written, with bounded memory, and in a time
// that has nothing to do with what it claims.
func TestBombs(t *testing.T) {
	// A window is allocated at once; its pages are used when something is written to them.
	const limit, memory = 8 << 20, 128<<20 + 16<<20
	many := make([][]byte, 0, 8192)
	for range 8191 {
		many = append(many, rle(128<<10, false))
	}
	var gz bytes.Buffer
	w := gzip.NewWriter(&gz)
	if _, err := io.Copy(w, &zeros{64 << 20}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	empty := zstdFrame(0, rle(0, true))
	skippable := binary.LittleEndian.AppendUint32([]byte{0x50, 0x2a, 0x4d, 0x18}, 0)
	lzx := cabinetOf(t, cab.LZX, 64<<20)
	liar := bytes.Clone(lzx)
	at := int(binary.LittleEndian.Uint32(liar[16:]))       // CFHEADER.coffFiles ([MS-CAB] section 2.1)
	binary.LittleEndian.PutUint32(liar[at:], 100)          // CFFILE.cbFile
	claims := bytes.Clone(lzx)                             //
	binary.LittleEndian.PutUint32(claims[at:], 0x7fff0000) // more than the blocks have
	for _, c := range []struct {
		name   string
		file   []byte
		refuse bool
		most   int64 // bytes that may be written
	}{
		{"zstd of 1 GiB in 32 KiB", zstdFrame(0x38, append(many, rle(128<<10, true))...), true, limit + 1},
		{"zstd that claims a window of 3.75 TiB", zstdFrame(0xff, rle(10, true)), true, 0},
		{"zstd that claims a window of 256 MiB", zstdFrame(18<<3, rle(10, true)), true, 0},
		{"zstd with a window of 128 MiB and 10 bytes", zstdFrame(17<<3, rle(10, true)), false, 10},
		{"zstd that claims 16 EiB", append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0}, append(bytes.Repeat([]byte{0xff}, 8), rle(10, true)...)...), true, limit + 1},
		{"zstd of 100,000 empty frames", bytes.Repeat(empty, 100_000), false, 0},
		{"zstd of 100,000 frames that are skipped", append(bytes.Clone(empty), bytes.Repeat(skippable, 100_000)...), false, 0},
		{"gzip of 64 MiB", gz.Bytes(), true, limit + 1},
		{"gzip of 10,000 empty members", bytes.Repeat(gzipOf(t, nil), 10_000), false, 0},
		{"LZX cabinet of 64 MiB", lzx, true, 0},
		{"LZX cabinet that says 100 bytes and has 64 MiB", liar, false, 100},
		{"LZX cabinet that says 2 GiB", claims, true, 0},
		{"MSZIP cabinet of 64 MiB", cabinetOf(t, cab.MSZIP, 64<<20), true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			var out counter
			_, err := File(ctx, &out, bytes.NewReader(c.file), int64(len(c.file)), limit)
			runtime.ReadMemStats(&after)
			if c.refuse != errors.Is(err, ErrPacked) || !c.refuse && err != nil {
				t.Errorf("%d bytes: %v, want it refused: %v", len(c.file), err, c.refuse)
			}
			if out.n > c.most {
				t.Errorf("%d bytes were written, want %d at most", out.n, c.most)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > memory {
				t.Errorf("%d MiB were allocated, want %d at most", used>>20, memory>>20)
			}
		})
	}
}

func gzipOf(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
