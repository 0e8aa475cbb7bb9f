package functab

import (
	"iter"
	"slices"
	"strings"
)

// Omitted is the name of an inlined function whose name is unknown.
const Omitted = "<name omitted>"

// Table holds the records of a Builder. It is read-only and safe for concurrent use.
// The ranges of its functions do not overlap, its names are not empty, and its
// rows and the ranges of its inlined calls lie within their function.
type Table struct {
	module   Module
	names    names
	files    texts
	rules    texts
	records  arena
	funcs    index
	symbols  index
	frames   index
	wins     index
	sections []Section
	warnings []string
	counts   Counts
	late     func(NameID) (shown, raw string) // of an Excerpt, whose names grow
}

// Module returns the description of the module.
func (t *Table) Module() Module { return t.module }

// function returns the start and the record of function i.
func (t *Table) function(i int) (start uint64, rec []byte) {
	start, pos := t.funcs.get(i)
	return start, t.records.at(pos)
}

// Functions returns all functions in ascending order of address. Their sizes are
// not zero. Neighbouring rows differ in file or line. The caller must not change
// the value, and must not use it after the next step of the loop.
func (t *Table) Functions() iter.Seq[*Function] { return t.FunctionsIn(0, t.funcs.len()) }

// FunctionsIn returns those of Functions from number first on, up to but not including number end.
func (t *Table) FunctionsIn(first, end int) iter.Seq[*Function] {
	return func(yield func(*Function) bool) {
		var s scratch
		for i := max(0, first); i < min(end, t.funcs.len()); i++ {
			start, rec := t.function(i)
			if !yield(s.function(start, rec)) {
				return
			}
		}
	}
}

// Symbols returns the public symbols outside functions in ascending order of
// address, with the end markers.
func (t *Table) Symbols() iter.Seq[Symbol] {
	return func(yield func(Symbol) bool) {
		for i := range t.symbols.len() {
			if !yield(t.symbol(i)) {
				return
			}
		}
	}
}

func (t *Table) symbol(i int) Symbol {
	address, pos := t.symbols.get(i)
	s := decodeSymbol(address, t.records.at(pos))
	shown, _ := t.names.get(s.Name)
	s.Marker = IsMarker(shown)
	return s
}

// Frames returns the unwind rules: first those of Windows records, then call
// frame information, each in ascending order of address. The caller must not
// change the value, and must not use it after the next step of the loop.
func (t *Table) Frames() iter.Seq[Frame] {
	return func(yield func(Frame) bool) {
		var w WinFrame
		for i := range t.wins.len() {
			start, pos := t.wins.get(i)
			if !yield(decodeWin(start, t.records.at(pos), &t.rules, &w)) {
				return
			}
		}
		var f Frame
		for i := range t.frames.len() {
			start, pos := t.frames.get(i)
			f = decodeFrame(start, t.records.at(pos), &t.rules, f.Deltas)
			if !yield(f) {
				return
			}
		}
	}
}

// FileName returns the path of a file, or "" for an unknown number. The text
// shares memory with the Table.
func (t *Table) FileName(id FileID) string { return t.files.text(uint32(id)) }

// NameOf returns both forms of a name. raw is empty if it equals shown; both are
// empty for an unknown number. The texts share memory with the Table.
func (t *Table) NameOf(id NameID) (shown, raw string) { return t.names.get(id) }

// TextsOf returns the numbers of the shown and of the raw form of a name. Equal
// texts have the same number; 0 stands for no text.
func (t *Table) TextsOf(id NameID) (shown, raw int) {
	if id == 0 || int64(id) > int64(len(t.names.pairs)) {
		return 0, 0
	}
	p := t.names.pairs[id-1]
	return int(p.shown), int(p.raw)
}

// Text returns the text with a number that TextsOf returned. It shares memory with
// the Table.
func (t *Table) Text(number int) string {
	if number < 0 || number > len(t.names.texts.at) {
		return ""
	}
	return t.names.texts.text(uint32(number))
}

// Texts returns the highest number that TextsOf returns.
func (t *Table) Texts() int { return len(t.names.texts.at) }

// Files returns the number of files. Their numbers are 1 to Files.
func (t *Table) Files() int { return len(t.files.at) }

// Names returns the number of names. Their numbers are 1 to Names.
func (t *Table) Names() int { return len(t.names.pairs) }

// Warnings describes the records that the readers omitted.
func (t *Table) Warnings() []string { return slices.Clone(t.warnings) }

// Sections returns the sections with executable code in ascending order of
// address.
func (t *Table) Sections() []Section { return slices.Clone(t.sections) }

// Counts returns the numbers of records.
func (t *Table) Counts() Counts { return t.counts }

// Lookup describes the code at rva: the functions that contain it, or else the
// public symbol before it. Without either, and after an end marker, it returns
// false. The range of a symbol of unknown size ends at the next function or
// symbol.
func (t *Table) Lookup(rva uint64) (Answer, bool) {
	i, j := t.locate(rva)
	switch {
	case i >= 0:
		start, rec := t.function(i)
		return t.inFunction(start, readHead(rec), rec[headSize:], rva), true
	case j >= 0:
		s := t.symbol(j)
		return Answer{Frames: []Line{t.line(s.Name, 0, 0)}, FunctionStart: s.Address, FunctionSize: s.Size, Symbol: true}, true
	}
	return Answer{}, false
}

// locate returns the number of the function that contains rva, or else that of the public symbol
// before it; -1 for none.
func (t *Table) locate(rva uint64) (function, symbol int) {
	i := t.funcs.last(rva)
	end := uint64(0)
	if i >= 0 {
		start, rec := t.function(i)
		if end = readHead(rec).end(start); rva < end {
			return i, -1
		}
	}
	j := t.symbols.last(rva)
	if j < 0 {
		return -1, -1
	}
	if s := t.symbol(j); s.Address < end || s.Marker || s.Size > 0 && rva-s.Address >= uint64(s.Size) {
		return -1, -1
	}
	return -1, j
}

// inFunction answers for an address inside the function with the given record.
func (t *Table) inFunction(start uint64, h head, rec []byte, rva uint64) Answer {
	d := decoder{rec}
	b := d.body()
	var at Row
	inlines := decoder{d.p[b.rowBytes:]}
	for r, n := (Row{Start: start}), b.rows; n > 0; n-- {
		if d.row(&r); r.Start > rva {
			break
		}
		at = r
	}
	var chain []Inline
	in, pos := Inline{}, start
	for range b.inlines {
		ranges := inlines.inline(&in)
		hit := false
		for range ranges {
			r := inlines.span(&pos)
			hit = hit || rva-r.Start < uint64(r.Size)
		}
		if hit && in.Depth == len(chain) {
			chain = append(chain, in)
		}
	}
	a := Answer{FunctionStart: start, FunctionSize: h.size, Frames: make([]Line, 0, len(chain)+1)}
	file, line := at.File, at.Line
	for _, in := range slices.Backward(chain) {
		a.Frames = append(a.Frames, t.line(in.Name, file, line))
		file, line = in.CallFile, in.CallLine
	}
	a.Frames = append(a.Frames, t.line(NameID(h.name), file, line))
	return a
}

// line copies the texts: an answer does not keep the table in memory.
func (t *Table) line(name NameID, file FileID, line uint32) Line {
	get := t.names.get
	if t.late != nil {
		get = t.late
	}
	shown, raw := get(name)
	if shown == "" {
		shown = Omitted
	}
	l := Line{Function: strings.Clone(shown), Raw: strings.Clone(raw)}
	if path := t.files.text(uint32(file)); line != 0 && path != "" {
		l.File, l.Line = strings.Clone(path), line
	}
	return l
}
