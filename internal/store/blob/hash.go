package blob

import (
	"context"
	"crypto/sha256"
	"io"
	"sync"
)

// Hash reads r to its end and returns the Ref and the size of the content.
func Hash(ctx context.Context, r io.Reader) (Ref, int64, error) {
	h := sha256.New()
	buf := hashBuffers.Get().(*[256 << 10]byte)
	defer hashBuffers.Put(buf)
	var n int64
	for {
		if err := ctx.Err(); err != nil {
			return Ref{}, n, err
		}
		m, err := r.Read(buf[:])
		h.Write(buf[:m])
		n += int64(m)
		if err == io.EOF {
			var ref Ref
			h.Sum(ref[:0])
			return ref, n, nil
		}
		if err != nil {
			return Ref{}, n, err
		}
	}
}

var hashBuffers = sync.Pool{New: func() any { return new([256 << 10]byte) }}
