package transcode

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func TestCompress(t *testing.T) {
	t.Parallel()
	plain := bytes.Repeat([]byte("symbols compress well; "), 100_000)
	for _, tool := range []Tool{Zstd, Gzip} {
		var b bytes.Buffer
		if err := tool.Compress(t.Context(), &b, bytes.NewReader(plain)); err != nil {
			t.Fatalf("%v: Compress: error %v, want no error", tool, err)
		}
		if b.Len() > len(plain)/10 {
			t.Errorf("%s: %d of %d bytes, want at most a tenth", tool.Name, b.Len(), len(plain))
		}
		var r io.Reader
		var err error
		if tool == Gzip {
			r, err = gzip.NewReader(&b)
		} else {
			r, err = zstd.NewReader(&b)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("%s: %d bytes came back, %v, want the same bytes", tool.Name, len(got), err)
		}
	}
}

func TestCompressStops(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Zstd.Compress(ctx, io.Discard, bytes.NewReader(make([]byte, 1<<20))); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v, want context.Canceled", err)
	}
	if err := (Tool{"lz4", 1}).Compress(t.Context(), io.Discard, nil); err == nil {
		t.Error("an unknown coding is taken")
	}
}
