package demangle

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxLiteral is the number of characters of a string that its name holds.
const maxLiteral = 32

// literal reads the rest of the name of a string literal. The name holds the
// length of the string in bytes with its end, a checksum, and the first 32
// characters: as many bytes, or twice as many for wide characters.
func (p *msParser) literal() *msSymbol {
	p.want("@_")
	wide := p.has("1")
	if !wide {
		p.want("0")
	}
	size := p.unsigned()
	p.until('@')
	var b []byte
	for p.err == nil && !p.has("@") {
		b = append(b, p.literalByte())
		if len(b) > 4*maxLiteral {
			p.malformed()
		}
	}
	if p.err != nil {
		return nil
	}
	width := 2
	if !wide {
		width = charSize(b, size)
	}
	if wide && len(b)%2 != 0 {
		p.malformed()
		return nil
	}
	cut := size > uint64(len(b))
	if wide {
		// MSVC writes no end mark of a wide string.
		cut = size > 2*maxLiteral
		if size >= uint64(len(b))+2 && !cut {
			b = append(b, 0, 0)
		}
	}
	return &msSymbol{text: quote(b, width, wide, cut)}
}

// quote writes the characters of b, which are width bytes each, as a literal. A cut
// string has no end mark.
func quote(b []byte, width int, wide, cut bool) string {
	var s strings.Builder
	switch {
	case wide:
		s.WriteByte('L')
	case width == 2:
		s.WriteByte('u')
	case width == 4:
		s.WriteByte('U')
	}
	s.WriteByte('"')
	for i := 0; i+width <= len(b); i += width {
		if !cut && i+width >= len(b) {
			break // the end mark
		}
		var c uint32
		for j := range width {
			// Wide characters are written with the high byte first, others as they are
			// in memory.
			if wide {
				c = c<<8 | uint32(b[i+j])
			} else {
				c |= uint32(b[i+j]) << (8 * j)
			}
		}
		writeChar(&s, c)
	}
	s.WriteByte('"')
	if cut {
		s.WriteString("...")
	}
	return s.String()
}

// charSize guesses the size of the characters of a string of size bytes from
// zeros among its first bytes b.
func charSize(b []byte, size uint64) int {
	if size%2 == 1 || len(b) == 0 {
		return 1
	}
	if size < 32 {
		zeros := len(b) - len(strings.TrimRight(string(b), "\x00"))
		switch {
		case zeros >= 4 && size%4 == 0:
			return 4
		case zeros >= 2:
			return 2
		}
		return 1
	}
	zeros := strings.Count(string(b), "\x00")
	switch {
	case zeros >= 2*len(b)/3 && size%4 == 0:
		return 4
	case zeros >= len(b)/3:
		return 2
	}
	return 1
}

// writeChar writes a character as in a literal of C.
func writeChar(s *strings.Builder, c uint32) {
	if i := strings.IndexByte("\x00'\"\\\a\b\f\n\r\t\v", byte(c)); i >= 0 && c < utf8.RuneSelf {
		s.WriteByte('\\')
		s.WriteByte("0'\"\\abfnrtv"[i])
		return
	}
	if ' ' <= c && c < 0x7F {
		s.WriteByte(byte(c))
		return
	}
	x := fmt.Sprintf("%X", c)
	if len(x)%2 != 0 {
		x = "0" + x
	}
	s.WriteString(`\x` + x)
}

// literalByte reads one byte of a string literal.
func (p *msParser) literalByte() byte {
	c := p.next()
	if c != '?' {
		return c
	}
	switch c = p.next(); {
	case c == '$':
		h, l := p.next()-'A', p.next()-'A'
		if h > 15 || l > 15 {
			p.malformed()
		}
		return h<<4 | l
	case '0' <= c && c <= '9':
		return ",/\\:. \n\t'-"[c-'0']
	case 'a' <= c && c <= 'z':
		return c - 'a' + 0xE1
	case 'A' <= c && c <= 'Z':
		return c - 'A' + 0xC1
	}
	p.malformed()
	return 0
}
