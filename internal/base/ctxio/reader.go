// Package ctxio makes what takes long stop when a context ends: readers and pauses.
package ctxio

import (
	"context"
	"errors"
	"io"
)

// Reader reads from another reader until a context ends. It must not be used by
// several goroutines at the same time.
type Reader struct {
	ctx context.Context
	r   io.Reader
	err error
}

// NewReader returns a Reader of r. A Read that is in progress when the context
// ends is not interrupted.
func NewReader(ctx context.Context, r io.Reader) *Reader { return &Reader{ctx: ctx, r: r} }

// Read returns the context's error once the context has ended.
func (r *Reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		r.err = err
		return 0, err
	}
	n, err := r.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

// Err returns the latest error of Read other than io.EOF. After a copy it
// distinguishes an error of the reader from an error of the writer.
func (r *Reader) Err() error { return r.err }
