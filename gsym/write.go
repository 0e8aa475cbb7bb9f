package gsym

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/functab"
)

// Write writes t as a GSYM file, little-endian, with offsets relative to the base
// of the module, so that LLVM's tools take addresses as the linker assigned them.
// Public symbols become functions without lines; one of unknown size has size 0
// and ends at the next function. Code without a source line has line 0.
//
// An error about the size of t, which wraps ErrTooLarge, is found before the first
// byte is written. Other errors are those of w.
func Write(w io.Writer, t *functab.Table) error {
	p := plan{
		t: t, textAt: make([]uint32, t.Texts()+1), rawOf: make([]uint32, t.Texts()+1),
		fileNumber: make([]uint32, t.Files()+1), files: make([]functab.FileID, 1), texts: 1,
	}
	if err := p.measure(); err != nil {
		return err
	}
	out := newWriter(w)
	p.write(out)
	return out.Flush()
}

// writer counts what it writes. Its first error ends all writing.
type writer struct {
	*bufio.Writer
	n int64
}

func newWriter(w io.Writer) *writer { return &writer{Writer: bufio.NewWriterSize(w, 256<<10)} }

func (w *writer) bytes(b []byte) {
	_, _ = w.Write(b) // Flush returns the error
	w.n += int64(len(b))
}

func (w *writer) text(s string) {
	_, _ = w.WriteString(s)
	_ = w.WriteByte(0)
	w.n += int64(len(s)) + 1
}

func (w *writer) uint32(v ...uint32) {
	var word [4]byte
	for _, v := range v {
		w.bytes(le.AppendUint32(word[:0], v))
	}
}

func (w *writer) align(n int64) {
	for w.n%n != 0 {
		w.bytes([]byte{0})
	}
}

// plan holds the places of everything in the file.
type plan struct {
	t *functab.Table

	starts    []uint64 // of functions and symbols
	wide      bool     // offsets of addresses have 8 bytes
	infoBytes []uint32 // sizes of the records of functions and symbols
	info      int64    // sum of infoBytes

	textAt     []uint32 // by number of a text: offset in the string table, or 0
	textOrder  []int    // numbers of the texts in the string table
	texts      int64    // size of the string table so far
	fileNumber []uint32 // by FileID
	files      []functab.FileID
	extra      map[string]uint32 // offsets of directories, base names and fixed texts
	extraOrder []string
	paths      [][2]uint32 // directory and base name of each file

	rawOf     []uint32 // by number of a shown text of an inlined call: number of the raw text
	nameOrder []int    // the shown texts that have one
	trailer   []record

	rows []row  // memory of encode
	out  []byte // memory of encode
}

// record is the trailer's record of a function.
type record struct {
	entry uint32
	raw   int // number of a text
	flags uint32
}

// entry is a function or a symbol.
type entry struct {
	start uint64
	size  uint32
	name  functab.NameID
	flags uint32
	f     *functab.Function // nil for a symbol
}

// all returns functions and symbols in order of address.
func (p *plan) all() iter.Seq[entry] {
	return func(yield func(entry) bool) {
		next, stop := iter.Pull(p.t.Symbols())
		defer stop()
		s, ok := next()
		symbols := func(end uint64) bool {
			for ok && s.Address < end {
				if !yield(entry{start: s.Address, size: s.Size, name: s.Name, flags: packFlags(s.Params, s.Multiple) | flagSymbol}) {
					return false
				}
				s, ok = next()
			}
			return true
		}
		for f := range p.t.Functions() {
			if !symbols(f.Start) || !yield(entry{f.Start, f.Size, f.Name, packFlags(f.Params, f.Multiple), f}) {
				return
			}
		}
		symbols(math.MaxUint64)
	}
}

func packFlags(params uint32, multiple bool) uint32 {
	params = min(params, paramsMask)
	if multiple {
		params |= flagMultiple
	}
	return params
}

// measure finds the sizes of all functions, and the files and texts that they use.
func (p *plan) measure() error {
	p.extra = map[string]uint32{}
	for e := range p.all() {
		shown, raw := p.t.TextsOf(e.name)
		p.use(shown)
		if raw != 0 {
			p.use(raw)
		}
		// A symbol of size 0 is known as such without a record.
		if raw != 0 || e.flags&^flagSymbol != 0 || e.f == nil && e.size > 0 {
			p.trailer = append(p.trailer, record{uint32(len(p.starts)), raw, e.flags})
		}
		if e.f != nil {
			for i := range e.f.Inlines {
				p.useCall(&e.f.Inlines[i])
			}
			for _, r := range e.f.Rows {
				if p.known(r) {
					p.file(r.File)
				}
			}
		}
		n := len(p.encode(e))
		p.infoBytes = append(p.infoBytes, uint32(n))
		p.info += int64(n)
		p.wide = p.wide || e.start > math.MaxUint32
		p.starts = append(p.starts, e.start)
		if p.info > math.MaxUint32 {
			return fmt.Errorf("%w: functions of more than 4 GiB", ErrTooLarge)
		}
	}
	for _, id := range p.files[1:] {
		path := p.t.FileName(id)
		if id == 0 {
			path = unknownFile
		}
		dir, base := splitPath(path)
		p.paths = append(p.paths, [2]uint32{p.fixed(dir), p.fixed(base)})
	}
	p.fixed(functab.Omitted)
	if l := p.layout(); l.end > math.MaxUint32 || len(p.starts) > math.MaxUint32/2 {
		return fmt.Errorf("%w: %d bytes", ErrTooLarge, l.end)
	}
	return nil
}

// use enters a text into the string table. Texts precede the fixed ones.
func (p *plan) use(text int) {
	if text == 0 || p.textAt[text] != 0 {
		return
	}
	p.textAt[text] = uint32(min(p.texts, math.MaxUint32))
	p.textOrder = append(p.textOrder, text)
	p.texts += int64(len(p.t.Text(text))) + 1
}

// useCall enters the names and the file of an inlined call.
func (p *plan) useCall(in *functab.Inline) {
	shown, raw := p.t.TextsOf(in.Name)
	p.use(shown)
	if raw != 0 && p.rawOf[shown] == 0 {
		p.use(raw)
		p.rawOf[shown] = uint32(raw)
		p.nameOrder = append(p.nameOrder, shown)
	}
	p.callFile(in)
}

// fixed enters a text that is not a name. The texts of names are complete.
func (p *plan) fixed(s string) uint32 {
	if s == "" {
		return 0
	}
	at, ok := p.extra[s]
	if !ok {
		at = uint32(min(p.texts, math.MaxUint32))
		p.extra[s] = at
		p.extraOrder = append(p.extraOrder, s)
		p.texts += int64(len(s)) + 1
	}
	return at
}

// known reports whether a row has a position.
func (p *plan) known(r functab.Row) bool {
	return r.Line != 0 && r.File != 0 && int(r.File) < len(p.fileNumber)
}

// file returns the number of a file in the file table.
func (p *plan) file(id functab.FileID) uint32 {
	if p.fileNumber[id] == 0 {
		p.fileNumber[id] = uint32(len(p.files))
		p.files = append(p.files, id)
	}
	return p.fileNumber[id]
}

func (p *plan) callFile(in *functab.Inline) uint32 {
	if in.CallFile == 0 || int(in.CallFile) >= len(p.fileNumber) {
		return p.file(0)
	}
	return p.file(in.CallFile)
}

func (p *plan) nameAt(id functab.NameID) uint32 {
	if shown, _ := p.t.TextsOf(id); shown != 0 {
		return p.textAt[shown]
	}
	return p.extra[functab.Omitted]
}

// splitPath splits a path into its directory and its base name, so that joinPath
// returns the path.
func splitPath(path string) (dir, base string) {
	i := strings.LastIndexAny(path, `/\`)
	if i <= 0 || i == len(path)-1 || joinPath(path[:i], path[i+1:]) != path {
		return "", path
	}
	return path[:i], path[i+1:]
}

// joinPath joins the directory and the base name of a file.
func joinPath(dir, base string) string {
	switch {
	case dir == "" || base == "":
		return dir + base
	case strings.HasSuffix(dir, "/") || strings.HasSuffix(dir, `\`):
		return dir + base
	case strings.Contains(dir, `\`) && !strings.Contains(dir, "/"):
		return dir + `\` + base
	}
	return dir + "/" + base
}

// layout has the offsets of the parts of the file.
type layout struct{ addresses, infos, files, strings, functions, trailer, end int64 }

func (p *plan) layout() layout {
	align := func(n int64) int64 { return (n + 3) &^ 3 }
	var l layout
	l.addresses = headerSize
	l.infos = l.addresses + int64(len(p.starts))*p.addressSize()
	l.files = align(l.infos + 4*int64(len(p.starts)))
	l.strings = l.files + 4 + 8*int64(len(p.files))
	l.functions = align(l.strings + p.texts)
	l.trailer = l.functions + p.info
	l.end = l.trailer + trailerHead + trailerFunc*int64(len(p.trailer)) + trailerName*int64(len(p.nameOrder)) + trailerEnd
	return l
}

func (p *plan) addressSize() int64 {
	if p.wide {
		return 8
	}
	return 4
}

func (p *plan) write(w *writer) {
	l := p.layout()
	m := p.t.Module()
	uuid := m.UUID[:min(len(m.UUID), uuidSize)]
	head := le.AppendUint32(nil, magic)
	head = le.AppendUint16(head, version)
	head = append(head, byte(p.addressSize()), byte(len(uuid)))
	head = le.AppendUint64(head, m.Base)
	for _, v := range []int64{int64(len(p.starts)), l.strings, p.texts} {
		head = le.AppendUint32(head, uint32(v))
	}
	head = append(head, uuid...)
	w.bytes(append(head, make([]byte, headerSize-len(head))...))

	var word [8]byte
	for _, start := range p.starts {
		if p.wide {
			w.bytes(le.AppendUint64(word[:0], start))
		} else {
			w.bytes(le.AppendUint32(word[:0], uint32(start)))
		}
	}
	at := l.functions
	for _, n := range p.infoBytes {
		w.bytes(le.AppendUint32(word[:0], uint32(at)))
		at += int64(n)
	}
	w.align(4)
	w.uint32(uint32(len(p.files)))
	w.bytes(make([]byte, 8)) // file 0: none
	for _, path := range p.paths {
		w.uint32(path[0], path[1])
	}
	w.text("")
	for _, n := range p.textOrder {
		w.text(p.t.Text(n))
	}
	for _, s := range p.extraOrder {
		w.text(s)
	}
	w.align(4)
	for e := range p.all() {
		w.bytes(p.encode(e))
	}
	p.writeTrailer(w, l)
}

func (p *plan) writeTrailer(w *writer, l layout) {
	w.uint32(trailerMagic, trailerVersion, uint32(len(p.trailer)), uint32(len(p.nameOrder)))
	at := func(text int) uint32 {
		if text == 0 {
			return 0
		}
		return p.textAt[text]
	}
	for _, r := range p.trailer {
		w.uint32(r.entry, at(r.raw), r.flags)
	}
	slices.SortFunc(p.nameOrder, func(a, b int) int { return cmp.Compare(p.textAt[a], p.textAt[b]) })
	for _, shown := range p.nameOrder {
		w.uint32(p.textAt[shown], at(int(p.rawOf[shown])))
	}
	length := w.n - l.trailer
	w.uint32(uint32(l.trailer), 0, uint32(length), trailerMagic)
}
