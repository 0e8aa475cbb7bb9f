// Package unpack decompresses files that are compressed as a whole: cabinets
// with one file, gzip, zstd and zlib.
package unpack

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"github.com/symdepot/symdepot/cab"
	"github.com/symdepot/symdepot/internal/base/ctxio"
	"github.com/symdepot/symdepot/objfile"
)

// ErrPacked is wrapped for a compressed file that cannot be decompressed:
// damaged, in an unsupported format, with several files in it, or too large when
// decompressed.
var ErrPacked = errors.New("cannot decompress the file")

// packing is the compression of a file, as its first bytes show it.
type packing uint8

const (
	plain packing = iota
	cabinet
	gzipped
	zstandard
	zlibbed
	unsupported // SZDD and KWAJ
)

func packingOf(f io.ReaderAt) packing {
	var head [8]byte
	n, _ := f.ReadAt(head[:], 0)
	for _, m := range []struct {
		magic string
		p     packing
	}{
		{"MSCF\x00\x00\x00\x00", cabinet}, {"\x1f\x8b\x08", gzipped}, {"\x28\xb5\x2f\xfd", zstandard},
		{"SZDD\x88\xf0\x27\x33", unsupported}, {"KWAJ\x88\xf0\x27\xd1", unsupported},
	} {
		if bytes.HasPrefix(head[:n], []byte(m.magic)) {
			return m.p
		}
	}
	if HasZlibHeader(head[:n]) {
		start := make([]byte, objfile.SniffLen)
		n, _ := f.ReadAt(start, 0)
		if IsZlib(start[:n]) {
			return zlibbed
		}
	}
	return plain
}

// HasZlibHeader reports whether a file may be a zlib stream (RFC 1950, section 2.2):
// deflate with a window of 32 KiB, no dictionary, valid check bits. One file in
// a few thousand begins like that by chance.
func HasZlibHeader(head []byte) bool {
	return len(head) >= 2 && head[0] == 0x78 && head[1]&0x20 == 0 && binary.BigEndian.Uint16(head)%31 == 0
}

// IsZlib reports whether a file that begins with head, its first objfile.SniffLen
// bytes or all of it, is compressed with zlib. The header of zlib is no proof: head must
// decompress without a fault, to a whole file, to half as many bytes at least or to the
// beginning of a symbol file.
func IsZlib(head []byte) bool {
	if !HasZlibHeader(head) {
		return false
	}
	z, err := zlib.NewReader(bytes.NewReader(head))
	if err != nil {
		return false
	}
	defer z.Close()
	inner, err := io.ReadAll(io.LimitReader(z, objfile.SniffLen))
	if errors.Is(err, io.ErrUnexpectedEOF) { // head ends in the middle of the stream
		if err = objfile.Detect(inner, ""); len(inner) >= objfile.SniffLen/2 {
			err = nil
		}
	}
	return err == nil && len(inner) > 0
}

// Packed reports whether a file is compressed, judging by its first bytes. File
// may not support the format.
func Packed(f io.ReaderAt) bool { return packingOf(f) != plain }

// IsCabinet reports whether a file is a cabinet, judging by its first bytes.
func IsCabinet(f io.ReaderAt) bool { return packingOf(f) == cabinet }

const (
	minOutput = 1 << 30 // bytes that every file may decompress to
	maxRatio  = 200     // decompressed bytes per compressed byte, for larger files
)

// MaxOutput returns the number of bytes that a compressed file of size bytes may
// decompress to. A file that exceeds it is treated as a decompression bomb.
func MaxOutput(size int64) int64 { return max(minOutput, maxRatio*size) }

// File writes the decompressed content of a file of size bytes to w and returns
// its length. It writes at most limit bytes, and at most MaxOutput(size). The
// error wraps ErrPacked if the compressed file is the cause; errors of w are
// returned unchanged.
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
		return refuse(fmt.Errorf("it decompresses to more than %d bytes", limit))
	case want >= 0 && n != want:
		return refuse(fmt.Errorf("it decompresses to %d bytes but declares %d", n, want))
	}
	return n, nil
}

// unpacker returns a reader of the decompressed content and the declared length,
// or -1 if none is declared.
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
	case zlibbed:
		r, err := zlib.NewReader(in)
		return r, -1, err
	case zstandard:
		r, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, 0, err
		}
		return r.IOReadCloser(), -1, nil
	}
	return nil, 0, errors.New("unsupported compression format (SZDD or KWAJ)")
}
