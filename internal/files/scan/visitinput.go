package scan

import (
	"bytes"
	"compress/bzip2"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"github.com/symdepot/symdepot/internal/base/xz"
	"github.com/symdepot/symdepot/internal/base/zstdpoint"
	"github.com/symdepot/symdepot/objfile"
)

// visit detects the format of an input and yields it, or the files in it. It
// reports errors itself, with one exception: it returns the error of a stream
// that fails under its last reader. An archive around the input can ignore
// that, because it meets the same error at its next header.
func (w *walk) visit(in *input) error {
	if w.ended() || !w.meets(in) {
		return nil
	}
	rc, err := in.start(w.ctx)
	if err != nil {
		w.damaged(in, err)
		return nil
	}
	defer func() { _ = rc.Close() }()
	head := make([]byte, min(HeadSize, uint64(in.size))) // -1 becomes the largest uint64
	n, err := readFull(rc, head)
	head = head[:n]
	if err != nil && !errors.Is(err, io.EOF) {
		if in.streamed() {
			return err
		}
		w.damaged(in, err)
		return nil
	}
	body := io.Reader(rc)
	if in.streamed() {
		body = in.once
	}
	rest := func() io.Reader { return &headed{head, body} }
	if in.at != nil {
		rest = func() io.Reader { return io.NewSectionReader(in.at, 0, in.size) }
	}
	k := detect(head)
	if k == zlibKind && !w.zlib(in, head) {
		k = plain
	}
	if (k == plain || k.compressed()) && imageName(in.name) {
		k = imageKind // the end of the file decides
	}
	if k == compoundKind && !installerName(in.name) && (in.at == nil || in.depth >= w.opt.MaxDepth) {
		k = plain // rather a document
	}
	switch {
	case k == foreignKind:
		w.skip(in.path, ReasonUnsupported, foreignName(head))
	case k == plain:
		return w.leaf(in, head, rest)
	case k.compressed() && in.wraps >= 2, !k.compressed() && in.depth >= w.opt.MaxDepth:
		w.skip(in.path, ReasonDepth, nil)
	case k.compressed():
		w.unwrap(in, k, rest)
	default:
		w.archive(in, k, rest)
	}
	return nil
}

// damaged reports an error of reading an input. An exceeded limit of a file on
// disk ends all reading from it. It is reported once, with the path of that
// file.
func (w *walk) damaged(in *input, err error) {
	reason, path := reasonOf(err), in.path
	if reason == ReasonLimit && in.meter.exceeded() {
		if in.meter.reported {
			return
		}
		in.meter.reported = true
		path = in.base.disk.path
	}
	w.skip(path, reason, err)
}

// leaf yields a file that is neither an archive nor compressed.
func (w *walk) leaf(in *input, head []byte, rest func() io.Reader) error {
	if w.visitor != nil {
		w.give(in, head, rest)
		return nil
	}
	if w.opt.Want != nil {
		if err := w.opt.Want(head, in.name); err != nil {
			w.skip(in.path, ReasonUnwanted, err)
			return nil
		}
	}
	f := &File{Path: in.path, Name: in.name, Archive: in.archive, Member: in.member, Size: in.size, ModTime: in.mod, Signature: in.signature}
	switch {
	case in.top:
		f.open = openPlain(in.path)
	case in.at != nil:
		hold := in.base.take()
		f.hold = hold
		f.open = func(context.Context) (*Content, error) { return hold.content(in.at, in.size, in.crc), nil }
	case in.reopen != nil:
		f.hold = in.base.take()
		f.open = func(ctx context.Context) (*Content, error) {
			s, err := w.unpack(ctx, in)
			if err != nil {
				return nil, err
			}
			defer s.drop()
			return s.content(s.at, s.size, nil), nil
		}
	default:
		b, err := fill(w.ctx, &w.opt, w.pool, rest(), in.size)
		if err != nil {
			if reason := reasonOf(err); reason == ReasonNoSpace || reason == ReasonLimit {
				w.damaged(in, err)
				return nil
			}
			return err
		}
		s := w.keep(b, in.base)
		f.hold, f.Size = s, s.size
		f.open = func(context.Context) (*Content, error) { return s.content(s.at, s.size, nil), nil }
	}
	w.file(f)
	return nil
}

// unpack copies an input that can be reopened into a store. Any goroutine may
// call it.
func (w *walk) unpack(ctx context.Context, in *input) (*store, error) {
	rc, err := in.reopen(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rc.Close() }()
	b, err := fill(ctx, &w.opt, w.pool, rc, in.size)
	if err != nil {
		return nil, err
	}
	return w.keep(b, in.base), nil
}

// keep makes a store of a buffer. The store holds base, so that the file on
// disk stays open and Changed can check it.
func (w *walk) keep(b *buffer, base *store) *store {
	base.take()
	return newStore(b, b.size, base.disk, func() {
		b.free()
		base.drop()
	})
}

// zlib decides whether an input that begins like a zlib stream is one: its name
// says so, or the decompressed bytes are a tar file or wanted; where all files are, a
// symbol file.
func (w *walk) zlib(in *input, head []byte) bool {
	z, err := zlib.NewReader(bytes.NewReader(head))
	if err != nil {
		return false
	}
	defer func() { _ = z.Close() }()
	inner := make([]byte, HeadSize)
	n, err := readFull(z, inner)
	if n == 0 && !errors.Is(err, io.EOF) {
		return false
	}
	inner = inner[:n]
	want := w.opt.Want
	if want == nil {
		want = objfile.Detect
	}
	return zlibName(in.name) || isTar(inner) || want(inner, in.name) == nil
}

// unwrap visits the decompressed content of an input.
func (w *walk) unwrap(in *input, k kind, rest func() io.Reader) {
	out := *in
	out.top, out.at, out.once, out.crc, out.sum, out.signature = false, nil, nil, nil, nil, ""
	out.size, out.name, out.wraps = -1, unpackedName(in.name), in.wraps+1
	out.place = in.place.unwrap(k)
	if in.streamed() {
		z, err := w.decompress(w.ctx, k, rest(), in.meter, zstdpoint.Options{})
		if err != nil {
			w.damaged(in, err)
			return
		}
		defer func() { _ = z.Close() }()
		out.once = z
		if err := w.visit(&out); err != nil {
			w.damaged(in, err)
		}
		return
	}
	source := *in // the closure needs a copy
	out.reopen = func(ctx context.Context) (io.ReadCloser, error) {
		if z := w.blocks(ctx, k, source.at, source.size, source.meter); z != nil {
			return z, nil
		}
		rc, err := source.start(ctx)
		if err != nil {
			return nil, err
		}
		z, err := w.decompress(ctx, k, rc, source.meter, w.notes(source.place))
		if err != nil {
			_ = rc.Close()
			return nil, err
		}
		return &closers{z, []io.Closer{z, rc}}, nil
	}
	_ = w.visit(&out) // the content is not streamed, so visit has reported all errors
}

// notes says which points are noted of a stream that is at a place.
func (w *walk) notes(p Place) zstdpoint.Options {
	if w.opt.NotePoints == nil || p.Method != Stored {
		return zstdpoint.Options{}
	}
	return w.opt.NotePoints(p.Base, p.Packed)
}

// decompress returns a reader of the decompressed bytes, which it counts. note says which
// points of zstd data are noted.
func (w *walk) decompress(ctx context.Context, k kind, r io.Reader, m *meter, note zstdpoint.Options) (io.ReadCloser, error) {
	if k == zstdKind || k == xzKind || k == bzip2Kind {
		if err := m.add(setupCost); err != nil {
			return nil, err
		}
	}
	var plain io.Reader
	var closer io.Closer = io.NopCloser(nil)
	switch k {
	case gzipKind:
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, err
		}
		plain, closer = z, z
	case zlibKind:
		z, err := zlib.NewReader(r)
		if err != nil {
			return nil, err
		}
		plain, closer = z, z
	case zstdKind:
		note.MaxWindow = uint64(max(w.opt.MaxWindow, 0))
		z, err := zstdpoint.NewReader(r, note)
		if err != nil {
			return nil, err
		}
		plain, closer = z, z
	case xzKind:
		z, err := xz.NewReader(r, uint32(min(w.opt.MaxWindow, 1<<32-1)))
		if err != nil {
			return nil, err
		}
		plain, closer = z, z
	case bzip2Kind:
		plain = bzip2.NewReader(r)
	default:
		return nil, fmt.Errorf("this compression is %w", errUnsupported)
	}
	return &closers{&meterReader{ctx, plain, m}, []io.Closer{closer}}, nil
}

// blocks returns a reader of xz or zstd data in parts that can be decompressed alone,
// which skips what is not wanted; nil for other data.
func (w *walk) blocks(ctx context.Context, k kind, at io.ReaderAt, size int64, m *meter) *closers {
	if at == nil || k != xzKind && k != zstdKind || m.add(setupCost) != nil {
		return nil
	}
	var r io.ReadCloser
	var err error
	if k == xzKind {
		r, err = xz.NewBlocks(at, size, uint32(min(w.opt.MaxWindow, 1<<32-1)), w.opt.Spare)
	} else {
		r, err = newFrames(at, size, uint64(max(w.opt.MaxWindow, zstd.MinWindowSize)))
	}
	if err != nil {
		return nil
	}
	return &closers{&meterReader{ctx, r, m}, []io.Closer{r}}
}

// archive visits the members of an archive.
func (w *walk) archive(in *input, k kind, rest func() io.Reader) {
	var err error
	switch k {
	case zipKind:
		err = w.zip(in, rest)
	case tarKind:
		err = w.tar(in, rest())
	case debKind:
		err = w.deb(in, &stream{r: rest()})
	case rpmKind:
		err = w.rpm(in, &stream{r: rest()})
	case cpioKind:
		err = w.cpio(in, &stream{r: rest()}, nil, nil)
	case cabinetKind:
		err = w.cab(in, rest)
	case compoundKind:
		err = w.msi(in, rest)
	case imageKind:
		err = w.image(in, rest)
	}
	if err != nil {
		w.damaged(in, err)
	}
}
