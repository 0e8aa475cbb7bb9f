package dwarf

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/symdepot/symdepot/functab"
)

// Opcodes of line programs (DWARF 5, tables 7.25 and 7.26).
const (
	lnsCopy           = 1
	lnsAdvancePC      = 2
	lnsAdvanceLine    = 3
	lnsSetFile        = 4
	lnsSetColumn      = 5
	lnsNegateStmt     = 6
	lnsBasicBlock     = 7
	lnsConstAddPC     = 8
	lnsFixedAdvancePC = 9
	lnsPrologueEnd    = 10
	lnsEpilogueBegin  = 11
	lnsSetISA         = 12

	lneEndSequence = 1
	lneSetAddress  = 2
	lneDefineFile  = 3

	lnctPath       = 1
	lnctDirectory  = 2
	lnctMD5        = 5
	lnctLLVMSource = 0x2001
)

// lineRow is a row of the line table. Its file is an index of the program.
type lineRow struct {
	address uint64
	file    uint32
	line    uint32
}

// sequence is a part of the rows in ascending order, for the addresses from low up
// to high.
type sequence struct {
	low, high uint64
	lo, hi    int
}

// sourceFile is an entry of a file table.
type sourceFile struct {
	name value
	dir  uint32
	id   functab.FileID
	done bool

	md5, text value // the checksum and the source text, if their forms are not 0
}

// entry is an entry of a table of version 5.
type entry struct {
	path, md5, text value
	dir             uint64
}

// contents says what the content types of version 5 mean for an entry. Others are
// skipped.
var contents = map[uint64]func(*entry, value){
	lnctPath:       func(e *entry, v value) { e.path = v },
	lnctDirectory:  func(e *entry, v value) { e.dir = v.u },
	lnctMD5:        func(e *entry, v value) { e.md5 = v },
	lnctLLVMSource: func(e *entry, v value) { e.text = v },
}

// lineTable is the line table of the unit that a worker reads. It is read when
// the first function needs it.
type lineTable struct {
	unit    *unit
	head    bool // the header was read
	loaded  bool // the rows were read
	err     error
	program uint64 // offset of the first opcode
	end     uint64

	enc        encoding
	minInst    uint8
	maxOps     uint8
	stmt       bool
	lineBase   int8
	lineRange  uint8
	opcodeBase uint8
	lengths    [256]uint8
	dirs       []value
	files      []sourceFile
	rows       []lineRow
	seqs       []sequence
	win        window
}

func (t *lineTable) reset(u *unit) {
	*t = lineTable{unit: u, dirs: t.dirs[:0], files: t.files[:0], rows: t.rows[:0], seqs: t.seqs[:0], win: t.win}
}

// header reads the header of the line program, once. Damage leaves the table
// empty.
func (t *lineTable) header(w *worker) error {
	if t.head {
		return nil
	}
	t.head = true
	if !t.unit.hasLines || t.unit.v.line.Size() == 0 {
		t.err = errShort
		return nil
	}
	for n := 16 << 10; ; n *= 4 {
		size := t.unit.v.line.Size()
		if t.unit.lines >= size {
			t.err = fmt.Errorf("%w: the line program at %#x lies outside of the section", errBad, t.unit.lines)
			break
		}
		p := t.unit.v.line.At(t.unit.lines, min(n, maxLineHeader))
		t.dirs, t.files = t.dirs[:0], t.files[:0]
		t.err = t.parseHeader(w, p)
		if t.err == errShort && len(p) == n && n < maxLineHeader {
			continue
		}
		if t.err == errShort {
			t.err = fmt.Errorf("%w: the header of the line program at %#x is cut off", errBad, t.unit.lines)
		}
		if err := w.spend(int64(min(len(p), 16+16*len(t.files)))); err != nil {
			return err
		}
		break
	}
	if w.fatal(t.err) {
		return t.err
	}
	if t.err != nil {
		w.r.warn("DWARF unit at %#x: %v", t.unit.off, t.err)
		t.files = t.files[:0]
	}
	return nil
}

// parseHeader reads the header at the beginning of p.
func (t *lineTable) parseHeader(w *worker, p []byte) error {
	c := cursor{b: p, be: t.unit.v.im.be}
	start := t.unit.lines
	e := encoding{addrSize: t.unit.addrSize}
	n := uint64(c.u32())
	if n == 0xffffffff {
		e.is64, n = true, c.u64()
	}
	first := start + uint64(c.i)
	if c.short {
		return errShort
	}
	size := t.unit.v.line.Size()
	if first > size || n > size-first {
		return fmt.Errorf("%w: the line program of %d bytes at %#x exceeds the section of %d bytes", errBad, n, start, size)
	}
	t.end = first + n
	if err := e.readLineVersion(&c); err != nil {
		return err
	}
	t.enc = e
	headerLen := c.offset(e.is64)
	at := start + uint64(c.i)
	if c.short {
		return errShort
	}
	if headerLen > t.end-at {
		return fmt.Errorf("%w: a line program header of %d bytes", errBad, headerLen)
	}
	t.program = at + headerLen
	if err := t.parameters(&c); err != nil {
		return err
	}
	// The tables end where the program begins, whatever they say.
	if headerLen < uint64(len(p)) {
		if k := int(t.program - start); k <= len(p) {
			c.b = p[:k]
			if err := t.tables(&c); err != nil || !c.short {
				return err
			}
			return fmt.Errorf("%w: the file table of the line program at %#x is cut off", errBad, start)
		}
	}
	if err := t.tables(&c); err != nil {
		return err
	}
	if c.short {
		return errShort
	}
	return nil
}

// readLineVersion reads the version of a line program, and in version 5 the size of its
// addresses (DWARF 5, section 6.2.4).
func (e *encoding) readLineVersion(c *cursor) error {
	e.version = c.u16()
	if e.version < 2 || e.version > 5 {
		return fmt.Errorf("%w: a line program of version %d", errBad, e.version)
	}
	if e.version < 5 {
		return nil
	}
	e.addrSize = c.u8()
	if seg := c.u8(); seg != 0 && !c.short {
		return fmt.Errorf("%w: a line program with segments", errBad)
	}
	if e.addrSize != 2 && e.addrSize != 4 && e.addrSize != 8 && !c.short {
		return fmt.Errorf("%w: a line program with addresses of %d bytes", errBad, e.addrSize)
	}
	return nil
}

// parameters reads what the program's opcodes depend on.
func (t *lineTable) parameters(c *cursor) error {
	t.minInst = c.u8()
	t.maxOps = 1
	if t.enc.version >= 4 {
		t.maxOps = max(c.u8(), 1)
	}
	t.stmt = c.u8() != 0
	t.lineBase, t.lineRange, t.opcodeBase = int8(c.u8()), c.u8(), c.u8()
	if c.short {
		return errShort
	}
	if t.lineRange == 0 || t.opcodeBase == 0 {
		return fmt.Errorf("%w: a line program with line range %d and opcode base %d", errBad, t.lineRange, t.opcodeBase)
	}
	for i := 1; i < int(t.opcodeBase); i++ {
		t.lengths[i] = c.u8()
	}
	return nil
}

// tables reads the directories and files.
func (t *lineTable) tables(c *cursor) error {
	if t.enc.version >= 5 {
		if err := t.table(c, func(e *entry) { t.dirs = append(t.dirs, e.path) }); err != nil {
			return err
		}
		return t.table(c, func(e *entry) {
			t.files = append(t.files, sourceFile{name: e.path, dir: uint32(min(e.dir, 1<<32-1)), md5: e.md5, text: e.text})
		})
	}
	t.dirs = append(t.dirs, value{}) // 0: the compilation directory
	t.files = append(t.files, sourceFile{done: true})
	base := t.unit.lines
	for {
		at := c.i
		if s := c.cstring(); len(s) == 0 {
			break
		}
		t.dirs = append(t.dirs, value{formString, base + uint64(at)})
	}
	for {
		at := c.i
		if s := c.cstring(); len(s) == 0 {
			break
		}
		dir := c.uleb()
		c.skipLEB()
		c.skipLEB()
		t.files = append(t.files, sourceFile{name: value{formString, base + uint64(at)}, dir: uint32(min(dir, 1<<32-1))})
	}
	return nil
}

// table reads a table of version 5. Its counts are claims: each entry needs at
// least one byte.
func (t *lineTable) table(c *cursor, add func(*entry)) error {
	type field struct {
		form uint64
		set  func(*entry, value)
	}
	formats := make([]field, 0, 8)
	for range c.u8() {
		set := contents[c.uleb()]
		formats = append(formats, field{c.uleb(), set})
	}
	count := c.uleb()
	if c.short {
		return errShort
	}
	if count == 0 {
		return nil
	}
	empty := true
	for _, f := range formats {
		if f.form > 0xffff || f.form == formIndirect || f.form == formImplicitConst {
			return badForm(uint16(min(f.form, 0xffff)))
		}
		if t.enc.fixedSize(uint16(f.form)) != 0 {
			empty = false
		}
	}
	if empty {
		return fmt.Errorf("%w: a table of %d entries without content", errBad, count)
	}
	// A window that is too short for the entries is not an error yet.
	for range count {
		var x entry
		for _, f := range formats {
			v, err := t.enc.read(c, uint16(f.form), 0)
			if c.short {
				return errShort
			}
			if err != nil {
				return err
			}
			if v.form == formString || v.form == formData16 {
				v.u += t.unit.lines
			}
			if f.set != nil {
				f.set(&x, v)
			}
		}
		add(&x)
	}
	return nil
}

// str returns a string of the tables.
func (t *lineTable) str(w *worker, v value) string {
	if v.form == formString {
		return string(t.unit.v.line.CString(v.u, maxName))
	}
	return string(w.str(t.unit, v))
}

// folder returns the compilation directory and directory i of the table, to which
// names are relative. Directory 0 of version 5 is the compilation directory.
func (t *lineTable) folder(w *worker, i uint32) (comp, dir string) {
	comp = t.unit.compDir
	if uint64(i) < uint64(len(t.dirs)) {
		dir = t.str(w, t.dirs[i])
	}
	if t.enc.version >= 5 && len(t.dirs) > 0 {
		switch {
		case i == 0 && dir == comp:
			dir = ""
		case i > 0 && comp == "":
			comp = t.str(w, t.dirs[0])
		}
	}
	return comp, dir
}

// file returns the number of a source file by its index in the program.
func (t *lineTable) file(w *worker, i uint64) (functab.FileID, error) {
	if err := t.header(w); err != nil {
		return 0, err
	}
	if i >= uint64(len(t.files)) {
		return 0, nil
	}
	f := &t.files[i]
	if f.done {
		return f.id, nil
	}
	f.done = true
	name := t.str(w, f.name)
	if name == "" {
		return 0, nil
	}
	comp, dir := t.folder(w, f.dir)
	if err := w.spend(int64(len(name) + len(dir))); err != nil {
		return 0, err
	}
	f.id = w.r.b.File(functab.JoinPath(comp, dir, name))
	return f.id, nil
}

// load reads the rows, once.
func (t *lineTable) load(w *worker) error {
	if t.loaded {
		return nil
	}
	t.loaded = true
	if err := t.header(w); err != nil || t.err != nil {
		return err
	}
	err := t.run(w)
	if w.fatal(err) {
		return err
	}
	if err != nil {
		w.r.b.Warn("DWARF unit at %#x: %v", t.unit.off, err)
	}
	t.sort()
	return nil
}

// machine is the state of a line program.
type machine struct {
	address uint64
	op      uint64
	file    uint64
	line    int64
	stmt    bool
}

// lineProgram is the execution of the program of a table.
type lineProgram struct {
	*lineTable
	w        *worker
	m, start machine
	first    int    // row of the sequence
	lastStmt bool   // of the latest row, also if it was merged into the one before
	lastAt   uint64 // of the same
	constAdd uint64
}

// run executes the program.
func (t *lineTable) run(w *worker) error {
	win := &t.win
	win.open(t.unit.v.line, t.program, t.end, t.unit.v.im.be)
	p := lineProgram{lineTable: t, w: w, start: machine{file: 1, line: 1, stmt: t.stmt}, first: len(t.rows)}
	p.m = p.start
	if t.opcodeBase < 255 || t.lineRange > 0 {
		p.constAdd = uint64((255 - t.opcodeBase) / t.lineRange)
	}
	for {
		win.ahead()
		at := win.pos()
		if at >= t.end {
			break
		}
		if err := w.spend(1); err != nil {
			return err
		}
		saved := p.m
		var err error
		switch op := win.u8(); {
		case op >= t.opcodeBase:
			k := op - t.opcodeBase
			p.advance(uint64(k / t.lineRange))
			p.m.line += int64(t.lineBase) + int64(k%t.lineRange)
			err = p.emit()
		case op == 0:
			err = p.extended(at)
		case op == lnsCopy:
			err = p.emit()
		default:
			p.standard(op)
		}
		if err != nil {
			p.endSequence(p.m.address)
			return err
		}
		if win.short {
			if !win.grow(at) {
				p.endSequence(p.m.address)
				return fmt.Errorf("%w: the line program at %#x is cut off", errBad, t.unit.lines)
			}
			p.m = saved
		}
	}
	if n := len(t.rows); n > p.first { // the end of the sequence is missing
		p.endSequence(t.rows[n-1].address + 1)
	}
	return nil
}

// advance moves on by a number of operations.
func (p *lineProgram) advance(n uint64) {
	if p.maxOps <= 1 {
		p.m.address += n * uint64(p.minInst)
		return
	}
	k := p.m.op + n
	p.m.address += uint64(p.minInst) * (k / uint64(p.maxOps))
	p.m.op = k % uint64(p.maxOps)
}

// emit adds a row, if it says something new.
func (p *lineProgram) emit() error {
	t, m := p.lineTable, &p.m
	r := lineRow{m.address, uint32(min(m.file, 1<<32-1)), uint32(m.line)}
	if m.line < 0 || m.line > 1<<32-1 {
		r.line = 0
	}
	if n := len(t.rows); n > p.first {
		last := &t.rows[n-1]
		switch {
		case r.address < p.lastAt:
			return nil // rows that go backwards
		case r.address == p.lastAt && r.line == 0 && p.lastStmt && last.line != 0:
			return nil // line 0 replaces no statement
		case r.address == last.address: // the last row of an address wins
			*last, p.lastStmt = r, m.stmt
			return nil
		case last.line == r.line && last.file == r.file:
			p.lastStmt, p.lastAt = m.stmt, r.address
			return nil // the same position goes on
		}
	}
	if len(t.rows) >= maxUnitRows {
		return fmt.Errorf("%w: more than %d rows", errBad, maxUnitRows)
	}
	t.rows, p.lastStmt, p.lastAt = append(t.rows, r), m.stmt, r.address
	return nil
}

// endSequence ends a sequence of rows before the address high. A sequence that is no
// code is forgotten.
func (p *lineProgram) endSequence(high uint64) {
	t := p.lineTable
	if n := len(t.rows); n > p.first && high > t.rows[p.first].address && t.wanted(p.w, t.rows[p.first].address) {
		if last := t.rows[n-1].address; high <= last {
			high = last + 1
		}
		t.seqs = append(t.seqs, sequence{t.rows[p.first].address, high, p.first, n})
		p.first = n
	} else {
		t.rows = t.rows[:p.first]
	}
	p.m, p.lastStmt = p.start, false
}

// standard executes a standard opcode other than lnsCopy.
func (p *lineProgram) standard(op uint8) {
	win, m := &p.win, &p.m
	switch op {
	case lnsAdvancePC:
		p.advance(win.uleb())
	case lnsAdvanceLine:
		m.line += win.sleb()
		m.line = max(-1<<40, min(m.line, 1<<40))
	case lnsSetFile:
		m.file = win.uleb()
	case lnsSetColumn, lnsSetISA:
		win.skipLEB()
	case lnsNegateStmt:
		m.stmt = !m.stmt
	case lnsBasicBlock, lnsPrologueEnd, lnsEpilogueBegin:
	case lnsConstAddPC:
		p.advance(p.constAdd)
	case lnsFixedAdvancePC:
		m.address, m.op = m.address+uint64(win.u16()), 0
	default:
		for range p.lengths[op] {
			win.skipLEB()
		}
	}
}

// extended executes the extended opcode at an offset.
func (p *lineProgram) extended(at uint64) error {
	win, m := &p.win, &p.m
	n := win.uleb()
	body := win.pos()
	if win.short {
		return nil
	}
	if n == 0 || n > p.end-body {
		return fmt.Errorf("%w: an extended opcode of %d bytes in the line program at %#x", errBad, n, at)
	}
	switch code := win.u8(); code {
	case lneEndSequence:
		p.endSequence(m.address)
	case lneSetAddress:
		if size := int(n - 1); size == 2 || size == 4 || size == 8 {
			m.address, m.op = win.uint(size), 0
		}
	case lneDefineFile:
		name := win.pos()
		if s := win.cstring(); !win.short && len(p.files) < maxUnitRows {
			dir := win.uleb()
			if !win.short && len(s) > 0 {
				p.files = append(p.files, sourceFile{name: value{formString, name}, dir: uint32(min(dir, 1<<32-1))})
			}
		}
	}
	if !win.short {
		win.seek(body + n)
	}
	return nil
}

// wanted reports whether a sequence that starts at an address is code.
func (t *lineTable) wanted(w *worker, low uint64) bool { return w.alive(t.unit, low, low+1) }

// sort orders the sequences and removes overlaps: the first one wins.
func (t *lineTable) sort() {
	slices.SortFunc(t.seqs, func(a, b sequence) int {
		return cmp.Or(cmp.Compare(a.low, b.low), cmp.Compare(a.lo, b.lo))
	})
	kept := t.seqs[:0]
	for _, s := range t.seqs {
		if n := len(kept); n > 0 && s.low < kept[n-1].high {
			s.low = kept[n-1].high
		}
		if s.low < s.high {
			kept = append(kept, s)
		}
	}
	t.seqs = kept
}

// cover appends the rows of a range of code. A part without rows after a part
// with rows gets a row without a line.
func (t *lineTable) cover(w *worker, r Range, out []functab.Row) ([]functab.Row, error) {
	base := w.r.opt.Base
	i, found := slices.BinarySearchFunc(t.seqs, r.Start, func(s sequence, a uint64) int { return cmp.Compare(s.low, a) })
	if !found && i > 0 && t.seqs[i-1].high > r.Start {
		i--
	}
	at := r.Start
	for ; i < len(t.seqs) && t.seqs[i].low < r.End; i++ {
		s := &t.seqs[i]
		low, high := max(s.low, at), min(s.high, r.End)
		if low > at && len(out) > 0 {
			out = append(out, functab.Row{Start: at - base})
		}
		rows := t.rows[s.lo:s.hi]
		k, found := slices.BinarySearchFunc(rows, low, func(x lineRow, a uint64) int { return cmp.Compare(x.address, a) })
		if !found {
			k--
		}
		for k = max(k, 0); k < len(rows) && rows[k].address < high; k++ {
			if err := w.spend(1); err != nil {
				return out, err
			}
			file, err := t.file(w, uint64(rows[k].file))
			if err != nil {
				return out, err
			}
			out = append(out, functab.Row{Start: max(rows[k].address, low) - base, File: file, Line: rows[k].line})
		}
		at = high
	}
	if at < r.End && len(out) > 0 {
		out = append(out, functab.Row{Start: at - base})
	}
	return out, nil
}
