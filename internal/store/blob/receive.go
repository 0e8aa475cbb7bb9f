package blob

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"sync"
)

// chunk is how many bytes are read, hashed and written in one step. It fits into
// the second-level cache of common processors, so that each byte is loaded from
// memory once. Most symbol files have only a few chunks.
const chunk = 256 << 10

var chunks = sync.Pool{New: func() any { return new([chunk]byte) }}

// sink receives a content whose Ref is known only at its end.
type sink interface {
	// wanted is called with the Ref and the size before the last chunk is
	// written. It reports whether to keep the content.
	wanted(ref Ref, size int64) (bool, error)
	// Write is called with each chunk, never with an empty one.
	io.Writer
}

// receive copies a content to a sink and returns its Ref and size. A size of -1
// means unknown; for any other size, at most one byte more is read. kept is the
// sink's decision.
func receive(ctx context.Context, size int64, r io.Reader, to sink) (ref Ref, n int64, kept bool, err error) {
	buf := chunks.Get().(*[chunk]byte)
	defer chunks.Put(buf)
	hash := sha256.New()
	for end := false; !end; {
		limit := int64(chunk)
		if size >= 0 {
			limit = min(limit, size-n+1)
		}
		m, err := fill(ctx, r, buf[:limit])
		if err != nil && err != io.EOF {
			return Ref{}, 0, false, err
		}
		end = err == io.EOF
		n += int64(m)
		if size >= 0 && (n > size || end && n < size) {
			return Ref{}, 0, false, sizeError(n, size)
		}
		hash.Write(buf[:m])
		if end {
			hash.Sum(ref[:0])
			if kept, err = to.wanted(ref, n); err != nil || !kept {
				return ref, n, false, err
			}
		}
		if m > 0 {
			if _, err := to.Write(buf[:m]); err != nil {
				return Ref{}, 0, false, err
			}
		}
	}
	return ref, n, kept, nil
}

func sizeError(n, size int64) error {
	if n > size {
		return fmt.Errorf("more than the declared %d bytes: %w", size, ErrMismatch)
	}
	return fmt.Errorf("%d bytes instead of the declared %d: %w", n, size, ErrMismatch)
}

// fill reads until buf is full, the reader fails or it ends with [io.EOF].
// Unlike io.ReadFull it keeps a reader's own io.ErrUnexpectedEOF, for example
// from a truncated compressed file, as an error.
func fill(ctx context.Context, r io.Reader, buf []byte) (n int, err error) {
	for empty := 0; n < len(buf) && err == nil; {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		var m int
		m, err = r.Read(buf[n:])
		n += m
		if m > 0 {
			empty = 0
		} else if empty++; empty == 100 && err == nil {
			err = io.ErrNoProgress
		}
	}
	return n, err
}
