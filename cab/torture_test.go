package cab

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// pattern yields zeros and now and then a number, so that places differ, and
// what looks like an x86 call.
type pattern struct{ n int64 }

func (p *pattern) Read(b []byte) (int, error) {
	clear(b)
	for i := range b {
		if at := p.n + int64(i); at%65521 == 0 {
			b[i] = byte(at >> 16)
		} else if at%4099 == 0 {
			b[i] = 0xE8
		}
	}
	p.n += int64(len(b))
	return len(b), nil
}

func (p *pattern) Close() error { return nil }

// header is an io.WriteSeeker that keeps only the first bytes.
type header struct {
	first [64]byte
	pos   int64
}

func (h *header) Write(p []byte) (int, error) {
	if h.pos < int64(len(h.first)) {
		copy(h.first[h.pos:], p)
	}
	h.pos += int64(len(p))
	return len(p), nil
}

func (h *header) Seek(off int64, whence int) (int64, error) {
	if whence == io.SeekCurrent {
		off += h.pos
	}
	h.pos = off
	return off, nil
}

// TestTortureLimits writes files of the format's limit: 65,535 blocks.
func TestTortureLimits(t *testing.T) {
	if os.Getenv("SYMDEPOT_TORTURE") == "" {
		t.Skip("SYMDEPOT_TORTURE is not set: gigabytes are not compressed here")
	}
	for _, opt := range []WriteOptions{{Method: MSZIP, Workers: 2}, {Method: LZX, Workers: 2}} {
		path := filepath.Join(t.TempDir(), "limit.cab")
		out, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		src := Source{Name: "limit.pdb", Size: MaxFile, Open: func() (io.ReadCloser, error) {
			return struct {
				io.Reader
				io.Closer
			}{io.LimitReader(&pattern{}, MaxFile), io.NopCloser(nil)}, nil
		}}
		n, err := Create(out, []Source{src}, opt)
		if err != nil {
			t.Fatalf("%s: Create: error %v, want no error", method(opt), err)
		}
		r, err := Open(out, n, Options{})
		if err != nil {
			t.Fatal(err)
		}
		in, err := r.Files()[0].Open()
		if err != nil {
			t.Fatal(err)
		}
		compare(t, in, MaxFile)
		if f := r.Folders()[0]; f.Blocks != 65535 {
			t.Errorf("%d blocks, want 65535", f.Blocks)
		}
		for _, tool := range [][]string{{"cabextract", "-q", "-p", path}, {"7zz", "x", "-so", path}} {
			if symtest.Judge(t, tool[0]) == "" {
				t.Logf("%s is not installed", tool[0])
				continue
			}
			cmd := exec.Command(tool[0], tool[1:]...)
			in, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			compare(t, in, MaxFile)
			if err := cmd.Wait(); err != nil {
				t.Errorf("%s: Wait: error %v, want no error", tool[0], err)
			}
		}
	}
}

// compare reads n bytes of the pattern and the end.
func compare(t *testing.T, in io.Reader, n int64) {
	t.Helper()
	want := &pattern{}
	a, b := make([]byte, 1<<20), make([]byte, 1<<20)
	for n > 0 {
		k := min(n, int64(len(a)))
		if _, err := io.ReadFull(in, a[:k]); err != nil {
			t.Fatal(err)
		}
		_, _ = want.Read(b[:k])
		if string(a[:k]) != string(b[:k]) {
			t.Fatalf("content differs, %d bytes before the end", n)
		}
		n -= k
	}
	if k, err := in.Read(a); k != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("behind the end: %d bytes, %v; want none and io.EOF", k, err)
	}
}

// TestTortureTooLarge compresses incompressible data: each block is within its
// limit, but the cabinet would have more than 2 GiB.
func TestTortureTooLarge(t *testing.T) {
	if os.Getenv("SYMDEPOT_TORTURE") == "" {
		t.Skip("SYMDEPOT_TORTURE is not set: gigabytes are not compressed here")
	}
	src := Source{Name: "random.bin", Size: MaxFile, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(io.LimitReader(rand.NewChaCha8([32]byte{1}), MaxFile)), nil
	}}
	var h header
	n, err := Create(&h, []Source{src}, WriteOptions{Method: MSZIP, Workers: 2, Level: 1})
	if !errors.Is(err, ErrTooLarge) || n != 0 {
		t.Errorf("%d bytes, %v, want %v", n, err, ErrTooLarge)
	}
	if h.first != [64]byte{} {
		t.Errorf("the header was written: %q, want nothing before the files end", h.first)
	}
	if h.pos < 1<<30 || h.pos >= 1<<31 {
		t.Errorf("gave up at %d, want a failure between 1 and 2 GiB", h.pos)
	}
}
