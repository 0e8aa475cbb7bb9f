package scan

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// stream is a reader that knows where it is.
type stream struct {
	r   io.Reader
	pos int64
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.pos += int64(n)
	return n, err
}

// skipTo moves forward to pos. The last byte is always read: a seek beyond
// the end would be no error.
func (s *stream) skipTo(pos int64) error {
	if pos < s.pos {
		return errors.New("a stream cannot go back")
	}
	if seeker, ok := s.r.(io.Seeker); ok && pos > s.pos {
		if _, err := seeker.Seek(pos-1-s.pos, io.SeekCurrent); err != nil {
			return err
		}
		s.pos = pos - 1
	}
	_, err := io.CopyN(io.Discard, s, pos-s.pos)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// full fills p. The end of the stream before the first byte is io.EOF, and
// later io.ErrUnexpectedEOF.
func (s *stream) full(p []byte) error {
	_, err := io.ReadFull(s, p)
	return err
}

// member gives m its bytes, which begin where s stands: in place if the
// archive is, and all of them are there.
func (s *stream) member(in, m *input) {
	if in.at != nil && m.size <= in.size-s.pos {
		m.at = io.NewSectionReader(in.at, s.pos, m.size)
		return
	}
	m.once = io.LimitReader(s, m.size)
}

// arMember is the header of a member of a Unix archive (ar).
type arMember struct {
	name string
	size int64
	mod  time.Time
}

// arReader reads the headers of a Unix archive.
type arReader struct {
	s    *stream
	next int64 // where the next header stands
}

const arMagic = "!<arch>\n"

func newArReader(s *stream) (*arReader, error) {
	var magic [len(arMagic)]byte
	if err := s.full(magic[:]); err != nil || string(magic[:]) != arMagic {
		return nil, errors.New("ar: no magic")
	}
	return &arReader{s: s, next: s.pos}, nil
}

// header skips what is left of a member and reads the next one's header.
func (a *arReader) header() (*arMember, error) {
	// The byte that pads an odd member may be missing from the last.
	if a.next > a.s.pos+1 {
		if err := a.s.skipTo(a.next - 1); err != nil {
			return nil, fmt.Errorf("ar: %w", err)
		}
	}
	if a.next > a.s.pos {
		var pad [1]byte
		if err := a.s.full(pad[:]); err != nil {
			return nil, err
		}
	}
	var h [60]byte
	if err := a.s.full(h[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, err
		}
		return nil, fmt.Errorf("ar: %w", err)
	}
	size, err := arNumber(h[48:58])
	if err != nil || string(h[58:]) != "`\n" {
		return nil, errors.New("ar: a damaged member header")
	}
	m := &arMember{name: strings.TrimSuffix(strings.TrimRight(string(h[:16]), " "), "/"), size: size}
	if sec, err := arNumber(h[16:28]); err == nil {
		m.mod = time.Unix(sec, 0)
	}
	a.next = a.s.pos + size + size&1
	return m, nil
}

func arNumber(field []byte) (int64, error) {
	n, err := strconv.ParseUint(string(bytes.TrimRight(field, " ")), 10, 48)
	return int64(n), err
}

// deb goes through the data.tar of a Debian package. The rest of a package,
// its control files and signatures, is no symbols and passed over in silence.
func (w *walk) deb(in *input, s *stream) error {
	a, err := newArReader(s)
	if err != nil {
		return err
	}
	for !w.ended() {
		h, err := a.header()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := in.meter.entry(); err != nil {
			return err
		}
		if !strings.HasPrefix(h.name, "data.tar") {
			continue
		}
		m := in.child(h.name, h.size, h.mod)
		s.member(in, m)
		_ = w.visit(m) // a broken stream shows at the next header
	}
	return nil
}
