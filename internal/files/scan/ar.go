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

// stream is a reader that tracks its offset.
type stream struct {
	r   io.Reader
	pos int64
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.pos += int64(n)
	return n, err
}

// skipTo moves forward to pos. It reads the last byte instead of seeking past
// it, because a seek beyond the end would succeed.
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
	if _, ok := s.r.(skipper); ok {
		return s.Skip(pos - s.pos)
	}
	_, err := io.CopyN(io.Discard, s, pos-s.pos)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// full fills p. It returns io.EOF at the end of the stream, and
// io.ErrUnexpectedEOF for a part of p.
func (s *stream) full(p []byte) error {
	_, err := io.ReadFull(s, p)
	return err
}

// member sets the bytes of m, which begin at the offset of s. They are read in
// place if the whole of them is in an archive that is.
func (s *stream) member(in, m *input) {
	m.place = in.place.member(s.pos, m.size)
	if in.at != nil && m.size <= in.size-s.pos {
		m.at = io.NewSectionReader(in.at, s.pos, m.size)
		return
	}
	m.once = &limited{s, m.size}
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
	next int64 // offset of the next header
}

const arMagic = "!<arch>\n"

func newArReader(s *stream) (*arReader, error) {
	var magic [len(arMagic)]byte
	if err := s.full(magic[:]); err != nil || string(magic[:]) != arMagic {
		return nil, errors.New("ar: no magic")
	}
	return &arReader{s: s, next: s.pos}, nil
}

// header skips the rest of the current member and reads the next header.
func (a *arReader) header() (*arMember, error) {
	// Some writers omit the byte that pads an odd member at the end.
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

// deb reads the data.tar of a Debian package. It skips the control files and
// signatures silently.
func (w *walk) deb(in *input, s *stream) error {
	a, err := newArReader(s)
	if err != nil {
		return err
	}
	return eachMember(w, in, a.header, func(h *arMember) error {
		control := w.visitor != nil && strings.HasPrefix(h.name, "control.tar")
		if !control && !strings.HasPrefix(h.name, "data.tar") {
			return nil
		}
		m := in.child(h.name, h.size, h.mod)
		s.member(in, m)
		_ = w.visit(m) // if the stream is damaged, the next header fails
		return nil
	})
}
