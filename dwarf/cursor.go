package dwarf

import (
	"encoding/binary"
)

// cursor reads numbers from a window of a section. A read beyond the window sets
// short and returns 0.
type cursor struct {
	b     []byte
	i     int
	be    bool
	short bool
}

func (c *cursor) take(n int) []byte {
	if n < 0 || n > len(c.b)-c.i {
		c.short, c.i = true, len(c.b)
		return nil
	}
	p := c.b[c.i : c.i+n]
	c.i += n
	return p
}

func (c *cursor) skip(n uint64) {
	if n > uint64(len(c.b)-c.i) {
		c.short, c.i = true, len(c.b)
		return
	}
	c.i += int(n)
}

func (c *cursor) u8() uint8 {
	if c.i >= len(c.b) {
		c.short = true
		return 0
	}
	v := c.b[c.i]
	c.i++
	return v
}

func (c *cursor) u16() uint16 {
	p := c.take(2)
	if p == nil {
		return 0
	}
	if c.be {
		return binary.BigEndian.Uint16(p)
	}
	return binary.LittleEndian.Uint16(p)
}

func (c *cursor) u24() uint32 {
	p := c.take(3)
	if p == nil {
		return 0
	}
	if c.be {
		return uint32(p[0])<<16 | uint32(p[1])<<8 | uint32(p[2])
	}
	return uint32(p[2])<<16 | uint32(p[1])<<8 | uint32(p[0])
}

func (c *cursor) u32() uint32 {
	p := c.take(4)
	if p == nil {
		return 0
	}
	if c.be {
		return binary.BigEndian.Uint32(p)
	}
	return binary.LittleEndian.Uint32(p)
}

func (c *cursor) u64() uint64 {
	p := c.take(8)
	if p == nil {
		return 0
	}
	if c.be {
		return binary.BigEndian.Uint64(p)
	}
	return binary.LittleEndian.Uint64(p)
}

// uint reads an unsigned number of n bytes.
func (c *cursor) uint(n int) uint64 {
	switch n {
	case 1:
		return uint64(c.u8())
	case 2:
		return uint64(c.u16())
	case 3:
		return uint64(c.u24())
	case 4:
		return uint64(c.u32())
	case 8:
		return c.u64()
	}
	c.short, c.i = true, len(c.b)
	return 0
}

// offset reads an offset of the 32-bit or the 64-bit format.
func (c *cursor) offset(is64 bool) uint64 {
	if is64 {
		return c.u64()
	}
	return uint64(c.u32())
}

// uleb reads an unsigned LEB128 number. Bits above the 64th are dropped.
func (c *cursor) uleb() uint64 {
	if c.i < len(c.b) && c.b[c.i] < 0x80 {
		v := uint64(c.b[c.i])
		c.i++
		return v
	}
	var v uint64
	for shift := uint(0); c.i < len(c.b); shift += 7 {
		x := c.b[c.i]
		c.i++
		if shift < 64 {
			v |= uint64(x&0x7f) << shift
		}
		if x < 0x80 {
			return v
		}
	}
	c.short = true
	return 0
}

// sleb reads a signed LEB128 number.
func (c *cursor) sleb() int64 {
	var v int64
	for shift := uint(0); c.i < len(c.b); {
		x := c.b[c.i]
		c.i++
		if shift < 64 {
			v |= int64(x&0x7f) << shift
		}
		shift += 7
		if x < 0x80 {
			if x&0x40 != 0 && shift < 64 {
				v |= -1 << shift
			}
			return v
		}
	}
	c.short = true
	return 0
}

func (c *cursor) skipLEB() {
	for c.i < len(c.b) {
		x := c.b[c.i]
		c.i++
		if x < 0x80 {
			return
		}
	}
	c.short = true
}

// cstring reads a string that ends with NUL, without the NUL.
func (c *cursor) cstring() []byte {
	for j := c.i; j < len(c.b); j++ {
		if c.b[j] == 0 {
			p := c.b[c.i:j:j]
			c.i = j + 1
			return p
		}
	}
	c.short, c.i = true, len(c.b)
	return nil
}
