package blob

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"sync"
)

// chunk is how much is read, hashed and written at once. It stays within the
// second-level cache of usual processors, so that the memory is passed over
// once; and most symbol files are smaller than a few chunks.
const chunk = 256 << 10

var chunks = sync.Pool{New: func() any { return new([chunk]byte) }}

// sink is where a content goes whose Ref is known only at its end.
type sink interface {
	// wanted is told the Ref and the size before the last chunk is written,
	// and says whether the content shall be kept.
	wanted(ref Ref, size int64) (bool, error)
	// Write is called with each chunk, never with an empty one.
	io.Writer
}

// receive passes a content on to a sink and returns its Ref and size. A size
// of -1 is unknown; no more than one byte beyond any other is asked for. kept
// is the sink's answer.
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
		return fmt.Errorf("more than the announced %d bytes: %w", size, ErrMismatch)
	}
	return fmt.Errorf("%d bytes in place of the announced %d: %w", n, size, ErrMismatch)
}

// fill reads until buf is full or the reader fails, or ends with [io.EOF]. It
// differs from io.ReadFull in that a reader's own io.ErrUnexpectedEOF, as of
// a compressed file cut short, stays an error.
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
