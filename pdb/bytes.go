package pdb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

func u16(b []byte, off int) uint16 {
	if off+2 > len(b) {
		return 0
	}
	return binary.LittleEndian.Uint16(b[off:])
}

func u32(b []byte, off int) uint32 {
	if off+4 > len(b) {
		return 0
	}
	return binary.LittleEndian.Uint32(b[off:])
}

// nameAt returns the text at off that ends with NUL, without it.
func nameAt(b []byte, off int) []byte {
	if off >= len(b) {
		return nil
	}
	s, _ := untilNUL(b[off:])
	return s
}

// readFull reads exactly len(b) bytes. It returns errors of r, wrapped or
// unchanged, and io.ErrUnexpectedEOF at the end of r.
func readFull(r io.ReaderAt, b []byte, off int64) error {
	n, err := r.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return fmt.Errorf("%d bytes at offset %d: %w", len(b), off, io.ErrUnexpectedEOF)
	}
	return err
}

// untilNUL returns the bytes of p before its first NUL, and whether it has one.
func untilNUL(p []byte) ([]byte, bool) {
	if i := bytes.IndexByte(p, 0); i >= 0 {
		return p[:i], true
	}
	return p, false
}

// cursor reads bytes in order and keeps its first error.
type cursor struct {
	b   []byte
	err error
}

// take returns the next n bytes, or nil after an error.
func (c *cursor) take(n uint64) []byte {
	if c.err == nil && n > uint64(len(c.b)) {
		c.err = fmt.Errorf("%d bytes needed, %d left: %w", n, len(c.b), io.ErrUnexpectedEOF)
	}
	if c.err != nil {
		return nil
	}
	p := c.b[:n]
	c.b = c.b[n:]
	return p
}

func (c *cursor) u32() uint32 {
	if p := c.take(4); p != nil {
		return binary.LittleEndian.Uint32(p)
	}
	return 0
}

// sized is a stream.
type sized interface {
	io.ReaderAt
	Size() int64
}

// cleanName returns a name without characters that would break a line of text.
func cleanName(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' {
			return -1
		}
		return r
	}, s)
}
