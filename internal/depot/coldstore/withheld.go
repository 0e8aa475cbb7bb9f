package coldstore

import (
	"context"
	"crypto/sha256"
	"hash"
	"io"

	"github.com/symdepot/symdepot/internal/store/blob"
)

// withheld hashes what is written to it and passes it on, except the last bytes, which
// wait for release.
type withheld struct {
	ctx  context.Context
	w    io.Writer
	hash hash.Hash
	pace func(n int) error
	left int64  // bytes that may be passed on yet
	tail []byte // the others
	err  error  // the first of w, pace or ctx
}

func newWithheld(ctx context.Context, w io.Writer, size int64, pace func(n int) error) *withheld {
	return &withheld{ctx: ctx, w: w, hash: sha256.New(), pace: pace, left: max(0, size-blob.Withheld)}
}

// Write implements [io.Writer].
func (h *withheld) Write(p []byte) (int, error) {
	if h.err = h.ctx.Err(); h.err == nil && h.pace != nil {
		h.err = h.pace(len(p))
	}
	if h.err != nil {
		return 0, h.err
	}
	h.hash.Write(p)
	pass := min(int64(len(p)), h.left)
	if h.left -= pass; pass > 0 {
		if _, h.err = h.w.Write(p[:pass]); h.err != nil {
			return 0, h.err
		}
	}
	if len(h.tail)+len(p)-int(pass) > blob.Withheld {
		h.err = io.ErrShortWrite // more bytes than the content has
		return 0, h.err
	}
	h.tail = append(h.tail, p[pass:]...)
	return len(p), nil
}

func (h *withheld) sum() (ref blob.Ref) {
	h.hash.Sum(ref[:0])
	return ref
}

// release passes the last bytes on.
func (h *withheld) release() error {
	_, err := h.w.Write(h.tail)
	return err
}
