package unpack

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
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
	zl := deflated(t, content)
	for _, c := range []struct {
		name  string
		file  []byte
		limit int64
		ok    bool
	}{
		{"gzip", gz.Bytes(), 1 << 20, true},
		{"zstd", zs, 1 << 20, true},
		{"zlib", zl, 1 << 20, true},
		{"zlib cut short", zl[:len(zl)/2], 1 << 20, false},
		{"zlib with a wrong checksum", wrongSum(t), 1 << 20, false},
		{"one byte more than the limit in zlib", zl, int64(len(content)) - 1, false},
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

// noise is a content that does not get smaller.
func noise() []byte {
	b := make([]byte, 32<<10)
	r := rand.NewChaCha8([32]byte{7})
	_, _ = r.Read(b)
	return b
}

// wrongSum is a zlib stream whose last byte is not that of its checksum.
func wrongSum(t *testing.T) []byte {
	t.Helper()
	b := deflated(t, noise())
	b[len(b)-1] ^= 1
	return b
}

func deflated(t *testing.T, content []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zlib.NewWriter(&out)
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestZlibByContent: the two bytes with which zlib begins do not make a file a
// compressed one.
func TestZlibByContent(t *testing.T) {
	t.Parallel()
	for _, header := range []string{"x\x01", "x\x5e", "x\x9c", "x\xda"} {
		for _, rest := range []string{"", "\x00", strings.Repeat("\x00", 9000), strings.Repeat("\xff", 9000), strings.Repeat("text of a file\n", 500), string(noise()), "\x01\x00\x00\xff\xff\x00\x00\x00\x01"} {
			if Packed(strings.NewReader(header + rest)) {
				t.Errorf("%q and %d bytes are taken for a compressed file, want a plain one", header, len(rest))
			}
		}
	}
	for level := zlib.HuffmanOnly; level <= zlib.BestCompression; level++ {
		for _, content := range [][]byte{[]byte("short"), noise(), make([]byte, 1<<20), []byte("MODULE windows x86_64 0 a.pdb\n")} {
			var out bytes.Buffer
			w, err := zlib.NewWriterLevel(&out, level)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(content); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if !Packed(bytes.NewReader(out.Bytes())) {
				t.Errorf("level %d, %d bytes: taken for a plain file, want a compressed one", level, len(content))
			}
		}
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
