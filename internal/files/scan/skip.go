package scan

import (
	"errors"
	"io"
)

// skipper is a stream that can move forward without unpacking all that it skips.
type skipper interface {
	io.Reader
	// Skip moves n bytes forward. It is an error if there are less.
	Skip(n int64) error
}

// restarter is a skipper that decompresses parts of its data alone.
type restarter interface {
	// Restart returns how many bytes ahead the last of such parts begins that is needed for
	// the byte n bytes ahead; 0 if it has begun, or there is no such byte.
	Restart(n int64) int64
}

// Restart returns how many bytes ahead of a stream its decompression begins anew for the byte
// n bytes ahead: what is in front of that need not be decompressed if it is skipped. It is 0 if
// all must be.
func Restart(r io.Reader, n int64) int64 {
	if s, ok := r.(restarter); ok {
		return s.Restart(n)
	}
	return 0
}

// behind is Restart for a reader of which the first m bytes come from elsewhere.
func behind(r io.Reader, m, n int64) int64 {
	if n < m {
		return 0
	}
	if at := Restart(r, n-m); at > 0 {
		return at + m
	}
	return 0
}

// Discard moves a stream n bytes forward. It reads what cannot be skipped.
func Discard(r io.Reader, n int64) error {
	if s, ok := r.(skipper); ok {
		return s.Skip(n)
	}
	_, err := io.CopyN(io.Discard, r, n)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// headed is a stream whose first bytes were read.
type headed struct {
	head []byte
	r    io.Reader
}

func (h *headed) Read(p []byte) (int, error) {
	if len(h.head) > 0 {
		n := copy(p, h.head)
		h.head = h.head[n:]
		return n, nil
	}
	return h.r.Read(p)
}

// Skip implements skipper.
func (h *headed) Skip(n int64) error {
	m := min(n, int64(len(h.head)))
	h.head = h.head[m:]
	if n -= m; n == 0 {
		return nil
	}
	return Discard(h.r, n)
}

// Restart implements restarter.
func (h *headed) Restart(n int64) int64 { return behind(h.r, int64(len(h.head)), n) }

// limited is the first part of a stream.
type limited struct {
	r    io.Reader
	left int64
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, io.EOF
	}
	n, err := l.r.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}

// Skip implements skipper.
func (l *limited) Skip(n int64) error {
	if n > l.left {
		return io.ErrUnexpectedEOF
	}
	l.left -= n
	return Discard(l.r, n)
}

// Restart implements restarter.
func (l *limited) Restart(n int64) int64 {
	if n >= l.left {
		return 0
	}
	return Restart(l.r, n)
}

// Restart implements restarter.
func (r *meterReader) Restart(n int64) int64 { return Restart(r.r, n) }

// Skip implements skipper. Skipped bytes count as unpacked.
func (r *meterReader) Skip(n int64) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	if err := r.m.add(n); err != nil {
		return err
	}
	s, ok := r.r.(skipper)
	if !ok {
		_, err := io.CopyN(io.Discard, r.r, n)
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	return s.Skip(n)
}

// Skip implements skipper.
func (c *closers) Skip(n int64) error { return Discard(c.Reader, n) }

// Restart implements restarter.
func (c *closers) Restart(n int64) int64 { return Restart(c.Reader, n) }

// Restart implements restarter.
func (s *stream) Restart(n int64) int64 { return Restart(s.r, n) }

// Skip implements skipper.
func (s *stream) Skip(n int64) error {
	err := Discard(s.r, n)
	s.pos += n
	return err
}

// tarStream is the stream below a tar.Reader. Members may be read from it directly: the
// tar.Reader, which does not know of that, skips them by a seek.
type tarStream struct {
	r    io.Reader
	pos  int64 // of the tar.Reader
	more int64 // how far r is ahead of pos
}

func (s *tarStream) Read(p []byte) (int, error) {
	if s.more > 0 { // the tar.Reader throws the last byte of a member away
		n := int(min(int64(len(p)), s.more))
		clear(p[:n])
		s.more -= int64(n)
		s.pos += int64(n)
		return n, nil
	}
	n, err := s.r.Read(p)
	s.pos += int64(n)
	return n, err
}

// Seek implements io.Seeker, as far as a tar.Reader uses it.
func (s *tarStream) Seek(off int64, whence int) (int64, error) {
	if whence != io.SeekCurrent || off < 0 {
		return -1, errors.New("a stream cannot go back")
	}
	m := min(off, s.more)
	s.more -= m
	if off > m {
		if err := Discard(s.r, off-m); err != nil {
			return -1, err
		}
	}
	s.pos += off
	return s.pos, nil
}

// direct has the bytes of the member of a tar archive that begins here.
type direct struct {
	s    *tarStream
	left int64
}

func (d *direct) Read(p []byte) (int, error) {
	if d.left <= 0 {
		return 0, io.EOF
	}
	n, err := d.s.r.Read(p[:min(int64(len(p)), d.left)])
	d.left -= int64(n)
	d.s.more += int64(n)
	if err == io.EOF && d.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Skip implements skipper.
func (d *direct) Skip(n int64) error {
	if n > d.left {
		return io.ErrUnexpectedEOF
	}
	d.left -= n
	d.s.more += n
	return Discard(d.s.r, n)
}

// Restart implements restarter.
func (d *direct) Restart(n int64) int64 {
	if n >= d.left {
		return 0
	}
	return Restart(d.s.r, n)
}
