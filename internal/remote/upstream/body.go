package upstream

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"github.com/symdepot/symdepot/internal/files/unpack"
	"github.com/symdepot/symdepot/internal/remote/fetch"
)

// body yields the decompressed bytes of one file and holds them to its limits and
// to the length that the upstream announced. Close may be called while Read waits.
type body struct {
	limit  int64        // of the file
	size   int64        // of the whole file, -1 while unknown
	offset int64        // where the transfer began
	packed bool         // the received bytes are compressed
	wire   func() int64 // the bytes received so far; needed if packed

	// blame turns an error of reading into the failure of the upstream; an error of
	// the local disk passes.
	blame func(error) error
	// failed makes a failure of the upstream.
	failed func(class fetch.Class, format string, args ...any) *fetch.Failure
	// end breaks the transfer off.
	end func()

	mu      sync.Mutex
	r       *bufio.Reader // guarded by mu
	n       int64         // guarded by mu; bytes read since offset
	err     error         // guarded by mu
	closers []func()      // guarded by mu; called from the last to the first
}

// first waits for the first byte.
func (b *body) first() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.size > b.limit {
		return b.failed(fetch.ClassTooLarge, "%w: %d", errTooLarge, b.size)
	}
	if _, err := b.r.Peek(1); err != nil && !errors.Is(err, io.EOF) {
		return b.blame(err)
	}
	return nil
}

func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil || len(p) == 0 {
		return 0, b.err
	}
	n, err := b.r.Read(p)
	b.n += int64(n)
	have := b.offset + b.n
	switch {
	case have > b.limit, b.packed && b.n > unpack.MaxOutput(b.wire()):
		n, err = 0, b.failed(fetch.ClassTooLarge, "%w", errTooLarge)
	case b.size >= 0 && have > b.size:
		n, err = 0, b.failed(fetch.ClassBroken, "body is longer than Content-Length, %d bytes", b.size)
	case err == nil:
	case !errors.Is(err, io.EOF):
		err = b.blame(err)
	case b.size >= 0 && have < b.size:
		err = b.failed(fetch.ClassBroken, "ended after %d of %d bytes: %w", have, b.size, io.ErrUnexpectedEOF)
	default:
		err = io.EOF
	}
	b.err = err
	return n, err
}

// Close ends the transfer.
func (b *body) Close() error {
	b.end() // ends a waiting Read
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := len(b.closers) - 1; i >= 0; i-- {
		b.closers[i]()
	}
	b.closers = nil
	if b.err == nil {
		b.err = fmt.Errorf("read after close: %w", fs.ErrClosed)
	}
	return nil
}
