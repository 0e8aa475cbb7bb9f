package functab

import (
	"iter"
	"slices"
	"sort"
)

// Table is what a Builder collected. It is read-only and safe for concurrent use.
type Table struct{ b *Builder }

// Module returns the description of the module.
func (t *Table) Module() Module { return t.b.module }

// Functions returns all functions in ascending order of address. The ranges of
// the functions do not overlap. The caller must not change the value, and must
// not use it after the next step of the loop.
func (t *Table) Functions() iter.Seq[*Function] {
	return func(yield func(*Function) bool) {
		for i := range t.b.funcs {
			f := t.b.funcs[i]
			if !yield(&f) {
				return
			}
		}
	}
}

// Symbols returns all public symbols outside functions in ascending order of
// address, with the end markers.
func (t *Table) Symbols() iter.Seq[Symbol] { return slices.Values(t.b.symbols) }

// Frames returns the unwind rules in ascending order of address. The caller must
// not change the value, and must not use it after the next step of the loop.
func (t *Table) Frames() iter.Seq[Frame] { return slices.Values(t.b.frames) }

// FileName returns the path of a file, or "" for an unknown number.
func (t *Table) FileName(id FileID) string {
	if int(id) < len(t.b.files) {
		return t.b.files[id]
	}
	return ""
}

// NameOf returns both forms of a name. raw is empty if it equals shown.
func (t *Table) NameOf(id NameID) (shown, raw string) {
	if int(id) < len(t.b.names) {
		return t.b.names[id].shown, t.b.names[id].raw
	}
	return "", ""
}

// Files returns the number of files: valid numbers are below it.
func (t *Table) Files() int { return len(t.b.files) }

// Names returns the number of names: valid numbers are below it.
func (t *Table) Names() int { return len(t.b.names) }

// Warnings returns what the readers left out.
func (t *Table) Warnings() []string { return slices.Clone(t.b.warnings) }

// Sections returns the sections with executable code.
func (t *Table) Sections() []Section { return slices.Clone(t.b.sections) }

// Counts returns the numbers of records.
func (t *Table) Counts() Counts {
	c := Counts{Functions: len(t.b.funcs), Symbols: len(t.b.symbols), Frames: len(t.b.frames), Files: len(t.b.files) - 1, Names: len(t.b.names) - 1, Bytes: t.b.bytes}
	for i := range t.b.funcs {
		c.Rows += len(t.b.funcs[i].Rows)
		c.Inlines += len(t.b.funcs[i].Inlines)
	}
	return c
}

// Lookup returns what is known about the code at rva.
func (t *Table) Lookup(rva uint64) (Answer, bool) {
	funcs := t.b.funcs
	i := sort.Search(len(funcs), func(i int) bool { return funcs[i].Start > rva }) - 1
	if i >= 0 && (funcs[i].Size == 0 || rva-funcs[i].Start < uint64(funcs[i].Size)) {
		return t.inFunction(&funcs[i], rva), true
	}
	j := sort.Search(len(t.b.symbols), func(j int) bool { return t.b.symbols[j].Address > rva }) - 1
	if j < 0 || i >= 0 && t.b.symbols[j].Address < funcs[i].Start {
		return Answer{}, false
	}
	s := t.b.symbols[j]
	if s.Marker || s.Size > 0 && rva-s.Address >= uint64(s.Size) {
		return Answer{}, false
	}
	shown, raw := t.NameOf(s.Name)
	return Answer{Frames: []Line{{Function: shown, Raw: raw}}, FunctionStart: s.Address, FunctionSize: s.Size, Symbol: true}, true
}

func (t *Table) inFunction(f *Function, rva uint64) Answer {
	a := Answer{FunctionStart: f.Start, FunctionSize: f.Size}
	var at Row
	if k := sort.Search(len(f.Rows), func(k int) bool { return f.Rows[k].Start > rva }) - 1; k >= 0 {
		at = f.Rows[k]
	}
	chain := []*Inline{}
	for k := range f.Inlines {
		in := &f.Inlines[k]
		if in.Depth == len(chain) && slices.ContainsFunc(in.Ranges, func(r Range) bool { return rva >= r.Start && rva-r.Start < uint64(r.Size) }) {
			chain = append(chain, in)
		}
	}
	file, line := at.File, at.Line
	for _, in := range slices.Backward(chain) {
		a.Frames = append(a.Frames, t.line(in.Name, file, line))
		file, line = in.CallFile, in.CallLine
	}
	a.Frames = append(a.Frames, t.line(f.Name, file, line))
	return a
}

func (t *Table) line(name NameID, file FileID, line uint32) Line {
	if line == 0 {
		file = 0
	}
	shown, raw := t.NameOf(name)
	return Line{Function: shown, Raw: raw, File: t.FileName(file), Line: line}
}
