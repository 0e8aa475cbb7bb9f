package unpack

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// TestFile: what is opened, and what is refused as the file's fault.
func TestFile(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("symbols "), 4096)
	var gz bytes.Buffer
	w := gzip.NewWriter(&gz)
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	zs := enc.EncodeAll(content, nil)
	for _, c := range []struct {
		name  string
		file  []byte
		limit int64
		ok    bool
	}{
		{"gzip", gz.Bytes(), 1 << 20, true},
		{"zstd", zs, 1 << 20, true},
		{"as large as the limit", zs, int64(len(content)), true},
		{"one byte larger than the limit", zs, int64(len(content)) - 1, false},
		{"gzip cut short", gz.Bytes()[:gz.Len()/2], 1 << 20, false},
		{"zstd cut short", zs[:len(zs)/2], 1 << 20, false},
		{"a cabinet that is none", []byte("MSCF\x00\x00\x00\x00 and no more"), 1 << 20, false},
		{"SZDD", []byte("SZDD\x88\xf0\x27\x33A and no more"), 1 << 20, false},
	} {
		f := bytes.NewReader(c.file)
		if !Packed(f) {
			t.Errorf("%s: not recognized as compressed", c.name)
		}
		var out bytes.Buffer
		n, err := File(t.Context(), &out, f, f.Size(), c.limit)
		if c.ok && (err != nil || n != int64(len(content)) || !bytes.Equal(out.Bytes(), content)) || !c.ok && !errors.Is(err, ErrPacked) {
			t.Errorf("%s: %d bytes, %v; want opened: %v", c.name, n, err, c.ok)
		}
	}
	if Packed(bytes.NewReader([]byte("MZ"))) || Packed(bytes.NewReader(nil)) {
		t.Error("a plain file is taken for a compressed one")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := File(ctx, io.Discard, bytes.NewReader(zs), int64(len(zs)), 1<<20); !errors.Is(err, context.Canceled) || errors.Is(err, ErrPacked) {
		t.Errorf("after the end of the context: %v, want %v, not ErrPacked", err, context.Canceled)
	}
	full := errors.New("disk full")
	if _, err := File(t.Context(), failing{full}, bytes.NewReader(zs), int64(len(zs)), 1<<20); err != full {
		t.Errorf("an error of the writer: %v, want it as it is", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
