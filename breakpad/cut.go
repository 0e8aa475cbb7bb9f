package breakpad

import (
	"bytes"
	"strings"
)

// CutOff reports whether a line without a line end, the last one of a symbol file, is only
// the beginning of a record, or one after which others must come: the file was cut off.
// Where a name was cut, that cannot always be told.
func CutOff(line []byte) bool {
	line = bytes.TrimRight(line, "\r\n ")
	p := fields{rest: line}
	switch word := p.word(); string(word) {
	case "":
		return false
	case "MODULE", "INFO":
		return len(p.word()) == 0
	case "FILE", "INLINE_ORIGIN":
		return true // the functions that use them come later
	case "FUNC":
		p.mark()
		p.hex(16)
		p.hex(8)
		p.hex(8)
		return cutName(&p)
	case "PUBLIC":
		p.mark()
		p.hex(16)
		p.hex(8)
		return cutName(&p)
	case "INLINE":
		return len(bytes.Fields(p.rest)) < 5
	case "STACK":
		return cutStack(&p)
	}
	p = fields{rest: line}
	p.hex(16)
	p.hex(8)
	p.dec()
	p.dec()
	return !p.done()
}

// cutName reports whether a name at the end of a record is missing, or has brackets that are
// not closed.
func cutName(p *fields) bool {
	name := p.text()
	return p.fail || name == "" || strings.Count(name, "(") > strings.Count(name, ")") || name[0] == '<' && !strings.Contains(name, ">")
}

func cutStack(p *fields) bool {
	switch string(p.word()) {
	case "CFI":
		if next := *p; string(next.word()) == "INIT" {
			*p = next
			p.hex(16)
			p.hex(8)
		} else {
			p.hex(16)
		}
		rules := p.text()
		return p.fail || rules == "" || strings.HasSuffix(rules, ":")
	case "WIN":
		p.hex(1)
		p.hex(16)
		for range 7 {
			p.hex(8)
		}
		p.dec()
		return p.text() == "" || p.fail
	}
	return true
}
