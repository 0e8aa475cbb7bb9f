package transcode

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/symdepot/symdepot/cab"
)

func scratch(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestCabinet(t *testing.T) {
	t.Parallel()
	rnd := rand.NewChaCha8([32]byte{1})
	for _, size := range []int{0, 1, 32<<10 - 1, 32 << 10, 200_000} {
		plain := make([]byte, size)
		_, _ = rnd.Read(plain)
		out := scratch(t)
		n, err := Cabinet(t.Context(), out, Source{bytes.NewReader(plain), int64(size), "foo.pdb", time.Date(2020, 1, 2, 3, 4, 6, 0, time.UTC)})
		if err != nil {
			t.Fatalf("%v: Cabinet: error %v, want no error", size, err)
		}
		if fi, err := out.Stat(); err != nil || fi.Size() != n {
			t.Errorf("%d bytes: the file has %d, %d were said; %v; want %v", size, fi.Size(), n, err, n)
		}
		r, err := cab.Open(out, n, cab.Options{})
		if err != nil || len(r.Files()) != 1 || r.Files()[0].Name != "foo.pdb" {
			t.Fatalf(`%v: Open: %v, error %v; want Files() of length 1, Files()[0].Name "foo.pdb"`, size, r, err)
		}
		rc, err := r.Files()[0].Open()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(rc); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("%d bytes: %d came back, %v; want the same bytes", size, len(got), err)
		}
	}
}

// liar changes what was written when it is read back.
type liar struct{ *os.File }

func (l liar) ReadAt(p []byte, off int64) (int, error) {
	n, err := l.File.ReadAt(p, off)
	if off <= 90 && 90 < off+int64(n) {
		p[90-off] ^= 1
	}
	return n, err
}

func TestCabinetFails(t *testing.T) {
	t.Parallel()
	if _, err := Cabinet(t.Context(), scratch(t), Source{nil, cab.MaxFile + 1, "x", time.Time{}}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a file above the limit: %v, want ErrTooLarge", err)
	}
	plain := bytes.Repeat([]byte("12345678"), 1000)
	if _, err := Cabinet(t.Context(), liar{scratch(t)}, Source{bytes.NewReader(plain), 8000, "x.pdb", time.Time{}}); err == nil {
		t.Error("what is read back was not compared")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Cabinet(ctx, scratch(t), Source{bytes.NewReader(plain), 8000, "x.pdb", time.Time{}}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v, want %v", err, context.Canceled)
	}
}
