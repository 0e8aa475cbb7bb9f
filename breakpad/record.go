package breakpad

import "bytes"

// RecordKind is the kind of a line of a symbol file.
type RecordKind uint8

// The kinds of lines.
const (
	NoRecord     RecordKind = iota // not valid
	ModuleRecord                   // MODULE
	CodeIDRecord                   // INFO CODE_ID
	InfoRecord                     // INFO with anything else
	FileRecord                     // FILE
	FuncRecord                     // FUNC
	PublicRecord                   // PUBLIC
	LineRecord                     // a source line of a function
	InlineRecord                   // INLINE
	OriginRecord                   // INLINE_ORIGIN
	StackRecord                    // STACK WIN, STACK CFI INIT, STACK CFI
)

var recordKinds = [...]string{
	"none", "MODULE", "INFO CODE_ID", "INFO", "FILE", "FUNC", "PUBLIC", "line", "INLINE", "INLINE_ORIGIN", "STACK",
}

// String returns the first words of the record, or "line" or "none".
func (k RecordKind) String() string {
	if int(k) < len(recordKinds) {
		return recordKinds[k]
	}
	return "unknown"
}

// Record is what ParseRecord finds in a line.
type Record struct {
	Kind    RecordKind
	Address uint64 // of FUNC and PUBLIC
	Name    int    // where the name of a FUNC or PUBLIC record begins in the line
}

// ParseRecord tells what a line of a symbol file, without its end, is. Of records that have no
// address, it checks the first word only, and of STACK records that all characters are printable.
func ParseRecord(line []byte) Record {
	p := fields{rest: line}
	switch word := p.word(); string(word) {
	case "MODULE":
		return Record{Kind: ModuleRecord}
	case "INFO":
		if string(p.word()) == "CODE_ID" {
			return Record{Kind: CodeIDRecord}
		}
		return Record{Kind: InfoRecord}
	case "FILE":
		return Record{Kind: FileRecord}
	case "FUNC":
		return p.named(line, FuncRecord)
	case "PUBLIC":
		return p.named(line, PublicRecord)
	case "INLINE":
		return Record{Kind: InlineRecord}
	case "INLINE_ORIGIN":
		return Record{Kind: OriginRecord}
	case "STACK":
		if p.rules() {
			return Record{Kind: StackRecord}
		}
		return Record{}
	}
	p = fields{rest: line}
	p.hex(16)
	p.hex(8)
	p.dec()
	if p.dec(); p.done() {
		return Record{Kind: LineRecord}
	}
	return Record{}
}

// named reads the rest of a FUNC or PUBLIC record.
func (p *fields) named(line []byte, kind RecordKind) Record {
	p.mark()
	r := Record{Kind: kind, Address: p.hex(16)}
	if kind == FuncRecord {
		p.hex(8)
	}
	p.hex(8)
	p.rest = bytes.TrimLeft(p.rest, " ")
	r.Name = len(line) - len(p.rest)
	if p.fail || len(p.rest) == 0 && kind == PublicRecord {
		return Record{}
	}
	return r
}

// rules reads the rest of a STACK record.
func (p *fields) rules() bool {
	for _, c := range p.rest {
		if c < ' ' || c > '~' {
			return false
		}
	}
	switch string(p.word()) {
	case "WIN":
		p.hex(1)
		p.hex(16)
		for range 7 {
			p.hex(8)
		}
		program := p.dec()
		return p.text() != "" && !p.fail && program <= 1
	case "CFI":
		if next := *p; string(next.word()) == "INIT" {
			*p = next
			p.hex(16)
			p.hex(8)
		} else {
			p.hex(16)
		}
		return p.text() != "" && !p.fail
	}
	return false
}
