package peer

import "io"

// parts reads a content that arrives in messages.
type parts struct {
	conn io.Reader
	// expect limits the wait for the next bytes.
	expect func() error
	// begin reads messages up to the bytes of the next part, and returns their number.
	// Zero means that it has to be called again. io.EOF is the end of the content.
	begin func() (int, error)
	// broken returns the error for a content that ends early because of err.
	broken func(err error) error

	left int // bytes of the current part
	err  error
}

// Read implements io.Reader.
func (b *parts) Read(p []byte) (n int, err error) {
	for b.left == 0 && b.err == nil {
		b.left, b.err = b.begin()
	}
	if b.left == 0 {
		return 0, b.err
	}
	if err := b.expect(); err != nil {
		return 0, err
	}
	n, err = b.conn.Read(p[:min(len(p), b.left)])
	b.left -= n
	if err != nil {
		b.left, b.err = 0, b.broken(err)
		err = b.err
	}
	return n, err
}
