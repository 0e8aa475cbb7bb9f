package breakpad

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/functab"
)

// Limits of a symbol file. Longer lines, and more records of one function or
// unwind rule, are left out.
const (
	maxSymLine = 1 << 20
	maxRecords = 2 << 20   // lines of a function, changes of an unwind rule
	maxCalls   = 512 << 10 // ranges of inlined calls of a function
	maxDepth   = 512
)

// ReadSym reads a symbol file of any producer and adds its records to b. It
// describes the module of b by the MODULE and INFO records.
//
// Like Breakpad's own parser, ReadSym accepts CR LF line ends, skips records that
// it cannot read, and reads the older forms of INLINE and INLINE_ORIGIN. Each
// record left out is reported to b.Warn with the number of its line. Lines end at
// the start of the next one; code that no line covers has no position. INLINE
// records of one function may have any order.
//
// An error wraps ErrSyntax if the first line is not a MODULE record, or
// functab.ErrLimit; else it is an error of r.
func ReadSym(r io.Reader, b *functab.Builder) error {
	s := &symReader{r: bufio.NewReaderSize(r, 256<<10), b: b}
	line, err := s.line()
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return err
	case len(line) == 0:
		return fmt.Errorf("%w: the first line is missing or too long", ErrSyntax)
	}
	if s.head, err = parseModule(clean(string(line))); err != nil {
		return err
	}
	for {
		line, err := s.line()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if err := s.record(line); err != nil {
			return fmt.Errorf("line %d: %w", s.n, err)
		}
	}
	if err := errors.Join(s.endFunction(), s.endFrame()); err != nil {
		return err
	}
	b.SetModule(s.module())
	return nil
}

// symReader holds the state of one reading.
type symReader struct {
	r    *bufio.Reader
	b    *functab.Builder
	n    int // number of the line
	long []byte
	head Header

	files   table
	origins table

	inFunc  bool
	f       functab.Function
	out     []functab.Row // memory of f.Rows
	lines   []lineRecord
	inlines []functab.Inline
	ranges  []functab.Range

	inFrame bool
	frame   functab.Frame
}

type lineRecord struct {
	start, end uint64
	line       uint32
	file       functab.FileID
}

// table maps the numbers of FILE or INLINE_ORIGIN records.
type table struct {
	dense  []uint32
	sparse map[uint32]uint32
}

func (t *table) set(number, id uint32) {
	if int(number) < len(t.dense)+1024 {
		for int(number) >= len(t.dense) {
			t.dense = append(t.dense, math.MaxUint32)
		}
		t.dense[number] = id
		return
	}
	if t.sparse == nil {
		t.sparse = map[uint32]uint32{}
	}
	t.sparse[number] = id
}

func (t *table) get(number uint32) (id uint32, ok bool) {
	if int(number) < len(t.dense) {
		id = t.dense[number]
		return id, id != math.MaxUint32
	}
	id, ok = t.sparse[number]
	return id, ok
}

// line returns the next line without its end. A line that is too long is empty.
// The result is valid until the next call. The error is io.EOF after the last line.
func (s *symReader) line() ([]byte, error) {
	s.n++
	line, err := s.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		s.long = append(s.long[:0], line...)
		for errors.Is(err, bufio.ErrBufferFull) {
			line, err = s.r.ReadSlice('\n')
			if len(s.long) <= maxSymLine {
				s.long = append(s.long, line...)
			}
		}
		line = s.long
	}
	if err != nil && (!errors.Is(err, io.EOF) || len(line) == 0) {
		return nil, err
	}
	if len(line) > maxSymLine {
		s.bad("the line has more than 1 MiB")
		line = nil
	}
	return bytes.TrimRight(line, "\r\n"), nil
}

// bad reports a record that is left out.
func (s *symReader) bad(format string, args ...any) {
	s.b.Warn("line %d left out: "+format, append([]any{s.n}, args...)...)
}

// record reads one line after the MODULE record.
func (s *symReader) record(line []byte) error {
	if len(line) == 0 {
		return nil
	}
	if c := line[0]; c >= '0' && c <= '9' || c >= 'a' && c <= 'f' {
		s.lineRecord(line)
		return nil
	}
	p := fields{rest: line}
	switch word := p.word(); string(word) {
	case "FUNC":
		return s.function(&p)
	case "INLINE":
		s.inline(&p)
		return nil
	case "PUBLIC":
		return s.public(&p)
	case "FILE":
		if number, path := p.dec(), p.text(); !p.fail && path != "" {
			if path == unknownFile {
				path = ""
			}
			s.files.set(number, uint32(s.b.File(path)))
			return nil
		}
	case "INLINE_ORIGIN":
		if s.origin(&p) {
			return nil
		}
	case "STACK":
		return s.stack(&p)
	case "INFO":
		s.info(&p)
		return nil
	case "MODULE":
	default:
		s.lineRecord(line) // upper-case digits
		return nil
	}
	s.bad("not a valid record: %.60q", line)
	return nil
}

func (s *symReader) info(p *fields) {
	switch string(p.word()) {
	case "CODE_ID":
		if id := string(p.word()); id != "" {
			s.head.CodeID, s.head.CodeName = clean(id), clean(p.text())
		}
	case "GENERATOR":
		s.head.Generator = clean(p.text())
	}
}

// module describes the module as the file does.
func (s *symReader) module() functab.Module {
	m := s.b.Module()
	m.OS, m.Arch, m.ID, m.Name = s.head.OS, s.head.Arch, s.head.ID, s.head.Name
	m.CodeID, m.CodeFile, m.Generator = s.head.CodeID, s.head.CodeName, s.head.Generator
	for _, text := range []*string{&m.OS, &m.Arch, &m.Name, &m.CodeID, &m.CodeFile, &m.Generator} {
		*text = strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7F {
				return '_'
			}
			return r
		}, strings.ToValidUTF8(*text, "\uFFFD"))
	}
	if len(m.UUID) > 0 || m.ID.IsZero() {
		return m
	}
	switch code, err := hex.DecodeString(m.CodeID); {
	case m.OS == "windows":
		guid := m.ID.GUID.Microsoft()
		m.UUID = append(guid[:], byte(m.ID.Age), byte(m.ID.Age>>8), byte(m.ID.Age>>16), byte(m.ID.Age>>24))
	case m.OS == "mac":
		m.UUID = m.ID.GUID[:]
	case err == nil:
		m.UUID = code[:min(len(code), 20)]
	}
	return m
}

// origin reads "number name", or the older "number file name".
func (s *symReader) origin(p *fields) bool {
	number := p.dec()
	older := *p
	if w := older.word(); !p.fail && (string(w) == "-1" || allDigits(w)) && len(bytes.TrimLeft(older.rest, " ")) > 0 {
		*p = older
	}
	name := p.text()
	if p.fail || name == "" {
		return false
	}
	if name == functab.Omitted {
		name = ""
	}
	s.origins.set(number, uint32(s.b.Name(name, "")))
	return true
}

func allDigits(w []byte) bool {
	for _, c := range w {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(w) > 0
}

func (s *symReader) function(p *fields) error {
	if err := s.endFunction(); err != nil {
		return err
	}
	multiple := p.mark()
	f := functab.Function{Start: p.hex(16), Size: uint32(p.hex(8)), Params: uint32(p.hex(8)), Multiple: multiple}
	if p.fail {
		s.bad("not a valid FUNC record")
		return nil
	}
	f.Name = s.b.Name(p.text(), "")
	s.f, s.inFunc = f, true
	return nil
}

func (s *symReader) public(p *fields) error {
	multiple := p.mark()
	sym := functab.Symbol{Address: p.hex(16), Params: uint32(p.hex(8)), Multiple: multiple}
	name := p.text()
	if p.fail || name == "" {
		s.bad("not a valid PUBLIC record")
		return nil
	}
	sym.Name = s.b.Name(name, "")
	return s.b.Symbol(sym)
}

func (s *symReader) lineRecord(line []byte) {
	p := fields{rest: line}
	start, size := p.hex(16), p.hex(8)
	r := lineRecord{start: start, end: start + size, line: p.dec()}
	number := p.dec()
	if !p.done() {
		s.bad("not a valid record: %.60q", line)
		return
	}
	if !s.inFunc {
		s.bad("a line record without a FUNC record")
		return
	}
	file, ok := s.files.get(number)
	if !ok && r.line != 0 {
		s.bad("no FILE record has number %d", number)
		return
	}
	if r.file = functab.FileID(file); !ok {
		r.file = 0
	}
	if r.end <= r.start {
		return
	}
	if len(s.lines) >= maxRecords {
		s.bad("the function has more than %d lines", maxRecords)
		return
	}
	s.lines = append(s.lines, r)
}

// inline reads "depth line file origin" or the older "depth line origin", and
// pairs of address and size.
func (s *symReader) inline(p *fields) {
	words := 0
	for count := *p; len(count.word()) > 0; {
		words++
	}
	var in functab.Inline
	depth := p.dec()
	in.CallLine = p.dec()
	if words%2 == 0 {
		if file, ok := s.files.get(p.fileNumber()); ok {
			in.CallFile = functab.FileID(file)
		}
	}
	origin, known := s.origins.get(p.dec())
	in.Depth, in.Name = int(depth), functab.NameID(origin)
	first := len(s.ranges)
	for range (words - 4 + words%2) / 2 {
		r := functab.Range{Start: p.hex(16), Size: uint32(p.hex(8))}
		s.ranges = append(s.ranges, r)
	}
	switch {
	case p.fail || words < 5:
		s.bad("not a valid INLINE record")
	case !s.inFunc:
		s.bad("an INLINE record without a FUNC record")
	case !known:
		s.bad("no INLINE_ORIGIN record has the number in an INLINE record")
	case depth >= maxDepth:
		s.bad("an inlined call of depth %d", depth)
	case len(s.ranges) > maxCalls:
		s.bad("the function has more than %d ranges of inlined calls", maxCalls)
	default:
		in.Ranges = s.ranges[first:len(s.ranges):len(s.ranges)]
		s.inlines = append(s.inlines, in)
		return
	}
	s.ranges = s.ranges[:first]
}

// endFunction adds the current function.
func (s *symReader) endFunction() error {
	if !s.inFunc {
		return nil
	}
	f := &s.f
	f.Rows = s.out[:0]
	if !slices.IsSortedFunc(s.lines, compareLines) {
		slices.SortStableFunc(s.lines, compareLines)
	}
	end := uint64(0)
	for _, r := range s.lines {
		if r.start = max(r.start, end); r.start >= r.end {
			continue // an earlier line covers it
		}
		if len(f.Rows) > 0 && r.start > end {
			f.Rows = append(f.Rows, functab.Row{Start: end})
		}
		f.Rows = append(f.Rows, functab.Row{Start: r.start, File: r.file, Line: r.line})
		end = r.end
	}
	if len(f.Rows) > 0 {
		f.Rows = append(f.Rows, functab.Row{Start: end})
	}
	s.out = f.Rows
	f.Inlines = nest(s.inlines)
	err := s.b.Add(*f)
	s.inFunc = false
	s.lines, s.inlines, s.ranges = s.lines[:0], s.inlines[:0], s.ranges[:0]
	return err
}

func compareLines(a, b lineRecord) int {
	switch {
	case a.start < b.start:
		return -1
	case a.start > b.start:
		return 1
	}
	return 0
}

func (s *symReader) stack(p *fields) error {
	switch kind := p.word(); string(kind) {
	case "WIN":
		return s.win(p)
	case "CFI":
		older := *p
		if string(p.word()) == "INIT" {
			if err := s.endFrame(); err != nil {
				return err
			}
			f := functab.Frame{Start: p.hex(16), Size: uint32(p.hex(8)), Deltas: s.frame.Deltas[:0]}
			if f.CFI = p.text(); p.fail || f.CFI == "" {
				s.bad("not a valid STACK CFI INIT record")
				return nil
			}
			s.frame, s.inFrame = f, true
			return nil
		}
		*p = older
		d := functab.FrameDelta{Address: p.hex(16), Rules: p.text()}
		switch {
		case p.fail || d.Rules == "":
			s.bad("not a valid STACK CFI record")
		case !s.inFrame || d.Address < s.frame.Start || d.Address-s.frame.Start >= uint64(s.frame.Size):
			s.bad("a STACK CFI record outside of the STACK CFI INIT record before it")
		case len(s.frame.Deltas) >= maxRecords:
			s.bad("a STACK CFI INIT record has more than %d changes", maxRecords)
		default:
			s.frame.Deltas = append(s.frame.Deltas, d)
		}
		return nil
	}
	s.bad("not a valid STACK record")
	return nil
}

func (s *symReader) endFrame() error {
	if !s.inFrame {
		return nil
	}
	s.inFrame = false
	return s.b.Frame(s.frame)
}

func (s *symReader) win(p *fields) error {
	w := functab.WinFrame{Type: int(p.hex(1))}
	f := functab.Frame{Start: p.hex(16), Size: uint32(p.hex(8)), Win: &w}
	for _, v := range []*uint32{&w.Prolog, &w.Epilog, &w.Params, &w.SavedRegs, &w.Locals, &w.MaxStack} {
		*v = uint32(p.hex(8))
	}
	program, rest := p.dec(), p.text()
	switch {
	case p.fail || rest == "" || program > 1:
		s.bad("not a valid STACK WIN record")
		return nil
	case program == 1:
		w.Program = rest
	default:
		w.AllocatesBP = rest != "0"
	}
	return s.b.Frame(f)
}

// fields reads the fields of a record. After the first field that is not valid,
// fail is true.
type fields struct {
	rest []byte
	fail bool
}

// word returns the next word, empty at the end.
func (p *fields) word() []byte {
	i := 0
	for i < len(p.rest) && p.rest[i] == ' ' {
		i++
	}
	from := i
	for i < len(p.rest) && p.rest[i] != ' ' {
		i++
	}
	w := p.rest[from:i]
	p.rest = p.rest[i:]
	return w
}

// mark skips the mark of several symbols at one address.
func (p *fields) mark() bool {
	if next := *p; string(next.word()) == "m" {
		*p = next
		return true
	}
	return false
}

// hex reads a hexadecimal number of at most the given number of digits.
func (p *fields) hex(digits int) uint64 {
	w := p.word()
	if len(w) == 0 || len(w) > digits {
		p.fail = true
		return 0
	}
	var v uint64
	for _, c := range w {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			p.fail = true
			return 0
		}
		v = v<<4 | uint64(c)
	}
	return v
}

// dec reads a decimal number of 32 bits.
func (p *fields) dec() uint32 {
	w := p.word()
	var v uint64
	for _, c := range w {
		if c < '0' || c > '9' || v > math.MaxUint32 {
			p.fail = true
			return 0
		}
		v = v*10 + uint64(c-'0')
	}
	if len(w) == 0 || v > math.MaxUint32 {
		p.fail = true
		return 0
	}
	return uint32(v)
}

// fileNumber reads a number as dec does. For -1, Breakpad's unknown file, it
// returns one that no FILE record has.
func (p *fields) fileNumber() uint32 {
	if next := *p; string(next.word()) == "-1" {
		*p = next
		return math.MaxUint32
	}
	return p.dec()
}

// text returns the rest of the record.
func (p *fields) text() string {
	w := bytes.Trim(p.rest, " ")
	p.rest = nil
	return string(w)
}

// done reports whether all fields were valid and nothing follows them.
func (p *fields) done() bool { return !p.fail && len(bytes.Trim(p.rest, " ")) == 0 }
