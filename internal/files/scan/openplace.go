package scan

import (
	"bufio"
	"context"
	"fmt"
	"io"

	"github.com/klauspost/compress/flate"

	"github.com/symdepot/symdepot/internal/base/zstdpoint"
)

// OpenPlace returns a reader of the bytes at a place in a file of size bytes, to the end
// of its stream. A stream that has parts which can be read alone is not read from its
// beginning.
func OpenPlace(ctx context.Context, at io.ReaderAt, size int64, p Place, opt Options) (io.ReadCloser, error) {
	opt.setDefaults()
	if p.Base < 0 || p.Packed < 0 || p.Offset < 0 || p.Base > size || p.Packed > size-p.Base {
		return nil, fmt.Errorf("a place outside of the file: %w", io.ErrUnexpectedEOF)
	}
	packed := io.NewSectionReader(at, p.Base, p.Packed)
	w := &walk{ctx: ctx, opt: opt, pool: &pool{}}
	m := &meter{limit: opt.unpackLimit(size), entries: opt.MaxEntries}
	var k kind
	switch p.Method {
	case Stored:
		return io.NopCloser(packed), nil
	case Deflate:
		z := flate.NewReader(bufio.NewReader(packed))
		return &closers{&meterReader{ctx, z, m}, []io.Closer{z}}, nil
	case Gzip:
		k = gzipKind
	case Zlib:
		k = zlibKind
	case Zstd:
		k = zstdKind
	case XZ:
		k = xzKind
	case Bzip2:
		k = bzip2Kind
	default:
		return nil, fmt.Errorf("method %d is %w", p.Method, errUnsupported)
	}
	if z := w.resume(p, at, m); z != nil {
		return z, nil
	}
	var z io.ReadCloser
	if b := w.blocks(ctx, k, packed, p.Packed, m); b != nil {
		z = b
	} else {
		var err error
		if z, err = w.decompress(ctx, k, bufio.NewReaderSize(packed, 64<<10), m, zstdpoint.Options{}); err != nil {
			return nil, err
		}
	}
	if err := Discard(z, p.Offset); err != nil {
		_ = z.Close()
		return nil, fmt.Errorf("the stream ends before byte %d: %w", p.Offset, err)
	}
	return z, nil
}

// resume returns a reader of the bytes at a place in a zstd stream, of which a point in front
// was noted; nil if there is none, or if it leads nowhere.
func (w *walk) resume(p Place, at io.ReaderAt, m *meter) io.ReadCloser {
	if p.Method != Zstd || w.opt.PointBefore == nil {
		return nil
	}
	point, ok := w.opt.PointBefore(p.Base, p.Offset)
	if !ok || point.Packed > p.Packed || point.Plain > p.Offset || m.add(setupCost) != nil {
		return nil
	}
	packed := io.NewSectionReader(at, p.Base+point.Packed, p.Packed-point.Packed)
	r, err := zstdpoint.Resume(bufio.NewReaderSize(packed, 64<<10), point, uint64(w.opt.MaxWindow))
	if err != nil {
		return nil
	}
	z := &closers{&meterReader{w.ctx, r, m}, []io.Closer{r}}
	if Discard(z, p.Offset-point.Plain) != nil {
		_ = z.Close()
		return nil
	}
	return z
}
