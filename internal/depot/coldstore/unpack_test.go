package coldstore_test

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/depot/home/hometest"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/internal/store/cold"
	"github.com/symdepot/symdepot/internal/store/zstdseq"
)

// packed is a file with a stream that a form makes of plain.
func packed(t *testing.T, plain []byte, form func(t *testing.T, b *bytes.Buffer, plain []byte)) []byte {
	t.Helper()
	b := bytes.NewBuffer(hometest.Sym("app", len(plain), 100_000))
	form(t, b, plain)
	b.WriteString("\nFUNC 1 1 0 end\n")
	return b.Bytes()
}

// inZlib writes a stream of zlib, as Go's linker does.
func inZlib(t *testing.T, b *bytes.Buffer, plain []byte) {
	t.Helper()
	w, err := zlib.NewWriterLevel(b, zlib.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	w.Write(plain)
	w.Close()
}

// inZstd writes a frame of zstd, as libzstd does at level 3: size in four bytes, a single segment.
func inZstd(t *testing.T, b *bytes.Buffer, plain []byte) {
	t.Helper()
	recipe := []byte{0xa0, 2, 18, 16, 16, 1, 4, 0}
	if _, err := io.Copy(b, zstdseq.NewPacker(bytes.NewReader(plain), int64(len(plain)), recipe)); err != nil {
		t.Fatal(err)
	}
}

// letters is text that a stream of zlib makes shorter.
func letters(n int) []byte {
	r, b := rand.New(rand.NewPCG(1, 2)), make([]byte, n)
	for i := range b {
		b[i] = 'a' + byte(r.ExpFloat64()*4)%26
	}
	return b
}

// TestPredictorBroken: where the streams of a content are not made again bit for bit, since the
// predictor gives another stream as long, the content is stored with its streams as they are,
// and is read back with the bytes that it had; as a key and as a delta.
func TestPredictorBroken(t *testing.T) {
	for name, form := range map[string]func(*testing.T, *bytes.Buffer, []byte){"zlib": inZlib, "zstd": inZstd} {
		t.Run(name, func(t *testing.T) { predictorBroken(t, form) })
	}
}

func predictorBroken(t *testing.T, form func(*testing.T, *bytes.Buffer, []byte)) {
	h := hometest.Open(t, t.TempDir())
	older, plain := packed(t, letters(200_000), form), letters(200_001)
	newer := packed(t, plain, form)
	var broken []byte // as long as newer, and another
	for i := 0; len(broken) != len(newer) || bytes.Equal(broken, newer); i++ {
		other := bytes.Clone(plain)
		other[1000+i], other[1001+i] = other[1001+i], other[1000+i]
		broken = packed(t, other, form)
	}
	h.Add(t, "app", "1", older)
	h.Add(t, "app", "2", newer)
	series := []coldstore.Candidate{
		{Ref: blob.Sum(older), Size: int64(len(older)), Needed: 3},
		{Ref: blob.Sum(newer), Size: int64(len(newer))},
	}
	if done, err := h.Cold.CoolOne(t.Context(), series[:1], 0, coldstore.CoolOptions{}); err != nil || done.Skipped != "" {
		t.Fatalf("the older build: %+v, %v", done, err)
	}
	tried := 0
	h.Cold.UnpackWith(func(ctx context.Context, src cold.Source) (cold.Source, error) {
		tried++
		s, err := cold.Unpack(ctx, cold.Source{ReaderAt: bytes.NewReader(broken), Size: src.Size, Sum: src.Sum})
		if !s.Unpacked() {
			t.Error("the broken stream is not unpacked")
		}
		return s, err
	})
	for name, list := range map[string][]coldstore.Candidate{"key": series[1:], "delta": series} {
		i := len(list) - 1
		done, err := h.Cold.CoolOne(t.Context(), list, i, coldstore.CoolOptions{})
		if err != nil || done.Skipped != "" || (done.Base == series[0].Ref) != (name == "delta") {
			t.Fatalf("%s: %+v, %v", name, done, err)
		}
		row, err := h.Cold.Of(t.Context(), list[i].Ref)
		if err != nil {
			t.Fatal(err)
		}
		f, err := h.Cold.Store().Below().OpenWhole(t.Context(), row.File.Ref)
		if err != nil {
			t.Fatal(err)
		}
		head, err := cold.ReadHeader(f, f.Size())
		if f.Close(); err != nil || head.Streams() != 0 {
			t.Errorf("%s: %d streams are unpacked, %v; want none", name, head.Streams(), err)
		}
		sum := sha256.New()
		if err := h.Cold.Store().Restore(t.Context(), row, io.MultiWriter(sum), nil); err != nil || blob.Ref(sum.Sum(nil)) != list[i].Ref {
			t.Errorf("%s: other bytes are read back: %v", name, err)
		}
		if err := h.Cold.Warm(t.Context(), row, nil); err != nil {
			t.Fatal(err)
		}
	}
	if tried != 2 || !strings.Contains(h.Said.String(), "compressed sections stay as they are") {
		t.Errorf("unpacked %d times, and said: %s", tried, h.Said)
	}
}
