package cold

import (
	"io"

	"github.com/symdepot/symdepot/internal/store/deflate"
	"github.com/symdepot/symdepot/internal/store/zstdseq"
)

// zstdFrame is the kind of a stream that is a frame of zstd. It is stored, like those of package deflate.
const zstdFrame = deflate.Folder + 1

// frame looks at the frame of zstd at a place, and returns where it ends; 0 if there is none.
func (f *finder) frame(at int64) (end int64, err error) {
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}
	if f.failures >= maxFailures || len(f.streams) >= maxStreams {
		return 0, nil
	}
	size, n, err := f.frames.Measure(f.ctx, f.src, at, f.src.Size)
	if err != nil {
		f.failures++
		return 0, f.passed(err)
	}
	if size < zstdseq.MinStream {
		return at + n, nil
	}
	s := deflate.Stream{At: at, Len: n, Size: size, Kind: zstdFrame}
	ok, err := f.frames.Probe(f.ctx, f.src, at, size, n)
	if ok && f.recipes && err == nil {
		s.Recipe, err = f.frames.Analyze(f.ctx, f.src, at, size, n)
	}
	if err != nil {
		f.failures++
		return 0, f.passed(err)
	}
	if !ok {
		f.failures++
		return at + n, nil
	}
	f.found(s)
	return at + n, nil
}

// open returns a reader of the bytes of a stream. It takes the memory of the last one.
func (u *unpacker) open(s *deflate.Stream) io.ReaderAt {
	if s.Kind == zstdFrame {
		u.zstd = zstdseq.NewReader(u.r, s.At, s.Len, s.Size, u.zstd)
		return u.zstd
	}
	u.deflate = deflate.NewReader(u.r, *s, u.deflate)
	return u.deflate
}
