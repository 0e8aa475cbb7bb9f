// Package unpack opens files that are compressed as a whole: cabinets with one
// file, gzip and zstd.
package unpack

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/symdepot/symdepot/cab"
	"github.com/symdepot/symdepot/internal/ctxio"
)

// ErrPacked is wrapped for a compressed file that cannot be opened: damaged, of
// an unknown kind, with several files in it, or too large when unpacked.
var ErrPacked = errors.New("a compressed file that cannot be opened")

// packing is how a file is compressed, by its first bytes.
type packing uint8

const (
	plain packing = iota
	cabinet
	gzipped
	zstandard
	unsupported // SZDD and KWAJ
)

func packingOf(f io.ReaderAt) packing {
	var head [8]byte
	n, _ := f.ReadAt(head[:], 0)
	for _, m := range []struct {
		magic string
		p     packing
	}{{"MSCF\x00\x00\x00\x00", cabinet}, {"\x1f\x8b\x08", gzipped}, {"\x28\xb5\x2f\xfd", zstandard}, {"SZDD\x88\xf0\x27\x33", unsupported}, {"KWAJ\x88\xf0\x27\xd1", unsupported}} {
		if bytes.HasPrefix(head[:n], []byte(m.magic)) {
			return m.p
		}
	}
	return plain
}

// Packed reports whether a file is compressed, by its first bytes. Not all of
// what is compressed can be opened.
func Packed(f io.ReaderAt) bool { return packingOf(f) != plain }

// IsCabinet reports whether a file is a cabinet, by its first bytes.
func IsCabinet(f io.ReaderAt) bool { return packingOf(f) == cabinet }

const (
	minOutput = 1 << 30 // allowed of any file
	maxRatio  = 200     // plain bytes for each compressed one, of larger files
)

// MaxOutput is how many bytes a compressed file of size bytes may honestly
// become. A file that becomes more is made to fill a disk.
func MaxOutput(size int64) int64 { return max(minOutput, maxRatio*size) }

// File writes the content of a compressed file of size bytes to w and returns its
// length. It writes at most limit bytes, and at most MaxOutput(size). The error
// wraps ErrPacked if the fault is the file's; errors of w are returned as they
// are.
func File(ctx context.Context, w io.Writer, f io.ReaderAt, size, limit int64) (int64, error) {
	limit = min(limit, MaxOutput(size))
	refuse := func(err error) (int64, error) { return 0, fmt.Errorf("%w: %w", ErrPacked, err) }
	r, want, err := unpacker(f, size, limit)
	if err != nil {
		return refuse(err)
	}
	defer r.Close()
	src := ctxio.NewReader(ctx, r)
	n, err := io.Copy(w, io.LimitReader(src, limit+1))
	switch {
	case src.Err() != nil && ctx.Err() != nil:
		return 0, ctx.Err()
	case src.Err() != nil:
		return refuse(src.Err())
	case err != nil:
		return 0, err
	case n > limit:
		return refuse(fmt.Errorf("unpacked it has more than %d bytes", limit))
	case want >= 0 && n != want:
		return refuse(fmt.Errorf("unpacked it has %d bytes, but declares %d", n, want))
	}
	return n, nil
}

// unpacker returns a reader of the content and its declared length, -1 if none is
// declared.
func unpacker(f io.ReaderAt, size, limit int64) (io.ReadCloser, int64, error) {
	in := io.NewSectionReader(f, 0, size)
	switch packingOf(f) {
	case cabinet:
		c, err := cab.OpenSingle(f, size, cab.Options{MaxOutput: limit})
		if err != nil {
			return nil, 0, err
		}
		r, err := c.Open()
		return r, c.Size, err
	case gzipped:
		r, err := gzip.NewReader(in)
		return r, -1, err
	case zstandard:
		r, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, 0, err
		}
		return r.IOReadCloser(), -1, nil
	}
	return nil, 0, errors.New("of an unsupported kind")
}
