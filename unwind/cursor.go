package unwind

import (
	"bytes"
	"encoding/binary"
)

// cursor reads the fields of DWARF data. After the end of the data it returns
// zeros and short is set.
type cursor struct {
	p     []byte
	at    int // offset in the section
	order binary.ByteOrder
	short bool
}

func (c *cursor) bytes(n uint64) []byte {
	if n > uint64(len(c.p)) {
		c.short = true
		c.p = nil
		return nil
	}
	p := c.p[:n]
	c.p = c.p[n:]
	c.at += int(n)
	return p
}

// uint reads an unsigned integer of n bytes: 1, 2, 4 or 8.
func (c *cursor) uint(n int) uint64 {
	p := c.bytes(uint64(n))
	switch {
	case c.short:
	case n == 1:
		return uint64(p[0])
	case n == 2:
		return uint64(c.order.Uint16(p))
	case n == 4:
		return uint64(c.order.Uint32(p))
	case n == 8:
		return c.order.Uint64(p)
	}
	return 0
}

func (c *cursor) u8() byte { return byte(c.uint(1)) }

// sint reads a signed integer of n bytes.
func (c *cursor) sint(n int) int64 {
	shift := 64 - 8*n
	return int64(c.uint(n)<<shift) >> shift
}

// uleb reads an unsigned LEB128 number. Bits above the 64th are dropped.
func (c *cursor) uleb() uint64 {
	v, _, _ := c.leb()
	return v
}

// sleb reads a signed LEB128 number.
func (c *cursor) sleb() int64 {
	v, shift, last := c.leb()
	if shift < 64 && last&0x40 != 0 {
		v |= ^uint64(0) << shift
	}
	return int64(v)
}

func (c *cursor) leb() (v uint64, shift uint, last byte) {
	for i, b := range c.p {
		if shift < 64 {
			v |= uint64(b&0x7f) << shift
		}
		shift += 7
		if b&0x80 == 0 {
			c.bytes(uint64(i + 1))
			return v, shift, b
		}
		if i == 31 {
			break
		}
	}
	c.bytes(uint64(len(c.p)) + 1)
	return 0, 0, 0
}

// text reads a string that ends with a zero byte.
func (c *cursor) text() string {
	i := bytes.IndexByte(c.p, 0)
	if i < 0 {
		c.bytes(uint64(len(c.p)) + 1)
		return ""
	}
	return string(c.bytes(uint64(i + 1))[:i])
}
