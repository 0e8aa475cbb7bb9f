package functab

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

const (
	maxWarnings = 100     // texts that a Builder keeps
	maxSections = 1 << 16 // ELF and PE have 16-bit section numbers
)

// Builder collects the function tables of one module. It is safe for concurrent
// use. Records are kept in a compact encoding: a row needs about three bytes, an
// inlined call about ten.
type Builder struct {
	lim      Limits
	encoders sync.Pool

	mu       sync.Mutex
	module   Module
	names    names
	shown    bool                    // raw names are not kept
	late     func(raw string) string // nil: shown names are known when they are added
	files    texts
	rules    texts // call frame information
	records  arena
	funcs    index
	symbols  index
	frames   index // with CFI
	wins     index // with a WinFrame
	sections []Section
	warnings []string
	omitted  int // warnings that were only counted
}

// names numbers pairs of shown and raw names.
type names struct {
	texts texts
	pairs []pair   // from number 1 on
	slots slots    // of pairs with a raw name
	plain []NameID // by the number of the text: names without a raw one
}

type pair struct{ shown, raw uint32 }

func (n *names) number(shown, raw string) NameID {
	p := pair{shown: n.texts.number(shown)}
	if raw != shown {
		p.raw = n.texts.number(raw)
	}
	if p == (pair{}) {
		return 0
	}
	if p.raw == 0 {
		return n.plainNumber(p)
	}
	hash := (p.shown*0x9E3779B1 ^ p.raw) * 0x85EBCA6B
	hash ^= hash >> 15
	if i := n.slots.find(hash, func(i uint32) bool { return n.pairs[i-1] == p }); i != 0 {
		return NameID(i)
	}
	n.pairs = append(n.pairs, p)
	n.slots.add(hash, uint32(len(n.pairs)))
	return NameID(len(n.pairs))
}

// plainNumber returns the number of a name that has no raw name.
func (n *names) plainNumber(p pair) NameID {
	if more := int(p.shown) + 1 - len(n.plain); more > 0 {
		n.plain = append(n.plain, make([]NameID, more)...)
	}
	id := &n.plain[p.shown]
	if *id == 0 {
		n.pairs = append(n.pairs, p)
		*id = NameID(len(n.pairs))
	}
	return *id
}

func (n *names) get(id NameID) (shown, raw string) {
	if id == 0 || int64(id) > int64(len(n.pairs)) {
		return "", ""
	}
	p := n.pairs[id-1]
	return n.texts.text(p.shown), n.texts.text(p.raw)
}

// either returns the shown form of a name, or the raw one before there is a shown one.
func (n *names) either(id NameID) string {
	shown, raw := n.get(id)
	return cmp.Or(shown, raw)
}

func (n *names) size() int64 {
	return n.texts.size() + int64(8*cap(n.pairs)) + int64(8*len(n.slots.list)) + int64(4*cap(n.plain))
}

// NewBuilder returns a Builder for the module m.
func NewBuilder(m Module, lim Limits) *Builder {
	b := &Builder{lim: lim.orDefault(), module: m}
	b.encoders.New = func() any { return new(encoder) }
	return b
}

// SetModule replaces the description of the module. Readers call it if the file
// itself describes the module.
func (b *Builder) SetModule(m Module) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.module = m
}

// Module returns the description of the module.
func (b *Builder) Module() Module {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.module
}

// File returns the number of a source path. The path is complete; JoinPath makes
// it from its parts.
func (b *Builder) File(path string) FileID {
	path = b.line(path)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used() > b.lim.Bytes {
		return 0 // Add reports the limit
	}
	return FileID(b.files.number(path))
}

// Name returns the number of a function name: as shown to people, and as the
// linker knows it. raw may be empty if it equals shown. Suffixes of clones made by
// compilers, such as ".cold" and ".isra.0", are removed from the shown name; the
// raw name keeps them.
func (b *Builder) Name(shown, raw string) NameID {
	late := b.late != nil && raw != "" && shown == raw
	shown, raw = b.line(shown), b.line(raw)
	switch {
	case raw == "":
		raw = shown
	case shown == "":
		shown = raw
	}
	shown = shownName(shown)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used() > b.lim.Bytes {
		return 0 // Add reports the limit
	}
	if b.shown {
		raw = shown
	}
	if late && !b.shown {
		shown = "" // until an answer needs it
	}
	return b.names.number(shown, raw)
}

// bothOf returns both forms of a name, and makes the shown one if that was put off.
func (b *Builder) bothOf(id NameID) (shown, raw string) {
	shown, raw = b.names.get(id)
	if shown != "" || raw == "" || b.late == nil {
		return shown, raw
	}
	if shown = b.line(b.late(raw)); shown == "" {
		shown = raw
	}
	shown = shownName(shown)
	p := &b.names.pairs[id-1]
	if p.shown = b.names.texts.number(shown); p.shown == p.raw {
		p.raw, raw = 0, ""
	}
	return shown, raw
}

// ShownOnly makes the Builder keep names in their shown form alone, which takes half
// of the memory where names are mangled. Tables for Breakpad symbol files need no
// other form. It has no effect on the tables of modules for Windows, which take names
// from public symbols by their raw form. It must be called before the first Name.
func (b *Builder) ShownOnly() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shown = b.module.OS != "windows"
}

// line returns s as valid text for one line, cut to the limit for names.
func (b *Builder) line(s string) string { return cleanLine(s, b.lim.Name) }

func cleanLine(s string, limit int) string {
	if len(s) > limit {
		for limit > 0 && !utf8.RuneStart(s[limit]) {
			limit--
		}
		s = s[:limit]
	}
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7F {
			s = strings.Map(func(r rune) rune {
				if r < ' ' || r == 0x7F {
					return '_'
				}
				return r
			}, strings.ToValidUTF8(s, "\uFFFD"))
			break
		}
	}
	return strings.Trim(s, " ")
}

// Add adds a function. The Builder keeps no reference to f. The error wraps
// ErrLimit.
func (b *Builder) Add(f Function) error {
	ranges := 0
	for i := range f.Inlines {
		ranges += len(f.Inlines[i].Ranges)
		if d := f.Inlines[i].Depth; d < 0 || d >= b.lim.InlineDepth {
			return fmt.Errorf("%w: function at %#x has an inlined call of depth %d, limit %d", ErrLimit, f.Start, d, b.lim.InlineDepth)
		}
	}
	if n := max(len(f.Rows), len(f.Inlines), ranges); n > b.lim.Rows {
		return fmt.Errorf("%w: function at %#x has %d rows or inlined calls, limit %d", ErrLimit, f.Start, n, b.lim.Rows)
	}
	e := b.encoders.Get().(*encoder)
	e.function(&f)
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.put(&b.funcs, f.Start, e.out, "functions")
	if cap(e.out)+cap(e.rows) <= chunkSize && cap(e.sorted)+cap(e.inlines)+cap(e.pieces)+cap(e.kept)+cap(e.fixed)+cap(e.order) <= 1<<14 {
		b.encoders.Put(e)
	}
	return err
}

// put stores a record and enters it into an index.
func (b *Builder) put(x *index, address uint64, rec []byte, what string) error {
	if x.len() >= b.lim.Functions {
		return fmt.Errorf("%w: more than %d %s", ErrLimit, b.lim.Functions, what)
	}
	if used := b.used(); used > b.lim.Bytes || int64(len(rec)) > b.lim.Bytes-used {
		return fmt.Errorf("%w: tables of more than %d bytes", ErrLimit, b.lim.Bytes)
	}
	pos, ok := b.records.put(rec)
	if !ok {
		return fmt.Errorf("%w: tables of 16 GiB", ErrLimit)
	}
	x.add(address, pos)
	return nil
}

// used returns the memory of all tables in bytes.
func (b *Builder) used() int64 {
	return b.names.size() + b.files.size() + b.rules.size() + b.records.size +
		b.funcs.size() + b.symbols.size() + b.frames.size() + b.wins.size()
}

// Symbol adds a public symbol of code. Of several symbols at one address, the
// Table keeps the one that was added first. Names of constants that Microsoft's
// linker exports, such as ??_C@… and __real@…, are skipped. The error wraps
// ErrLimit.
func (b *Builder) Symbol(s Symbol) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	shown, raw := b.names.get(s.Name)
	if constant(shown) || constant(raw) {
		return nil
	}
	return b.put(&b.symbols, s.Address, encodeSymbol(s), "symbols")
}

// constant reports whether a name is that of a literal.
func constant(name string) bool {
	for _, prefix := range []string{"??_C", "__real@", "__xmm@", "__ymm@"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

func encodeSymbol(s Symbol) []byte {
	rec := binary.AppendUvarint(make([]byte, 0, 20), uint64(s.Name))
	rec = binary.AppendUvarint(rec, uint64(packParams(s.Params, s.Multiple)))
	return binary.AppendUvarint(rec, uint64(s.Size))
}

func decodeSymbol(address uint64, rec []byte) Symbol {
	d := decoder{rec}
	s := Symbol{Address: address, Name: NameID(d.uint())}
	params := uint32(d.uint())
	s.Params, s.Multiple = params&paramsMask, params&flagMultiple != 0
	s.Size = uint32(d.uint())
	return s
}

// Frame adds unwind rules. The Builder keeps no reference to f. Of two frames with
// CFI that overlap, the Table keeps the one that starts first, or if both start at
// one address, the one that was added first. A frame with CFI that lacks rules for
// .cfa or .ra, and an empty frame, are left out with a warning: stack walkers
// cannot use them. The error wraps ErrLimit.
func (b *Builder) Frame(f Frame) error {
	if f.Size == 0 || f.Start+uint64(f.Size) < f.Start {
		b.Warn("unwind rules at %#x: size %d", f.Start, f.Size)
		return nil
	}
	if f.Win != nil {
		return b.winFrame(f)
	}
	init := cleanLine(f.CFI, maxText)
	if !hasRule(init, ".cfa:") || !hasRule(init, ".ra:") {
		b.Warn("unwind rules at %#x: no rule for .cfa or .ra", f.Start)
		return nil
	}
	if len(f.Deltas) > b.lim.Rows {
		return fmt.Errorf("%w: unwind rules at %#x have %d changes, limit %d", ErrLimit, f.Start, len(f.Deltas), b.lim.Rows)
	}
	deltas := f.Deltas
	byAddress := func(a, b FrameDelta) int { return compare(a.Address, b.Address) }
	if !slices.IsSortedFunc(deltas, byAddress) {
		deltas = slices.Clone(deltas)
		slices.SortStableFunc(deltas, byAddress)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	rec := binary.AppendUvarint(make([]byte, 0, 64), uint64(f.Size))
	rec = binary.AppendUvarint(rec, uint64(b.rules.number(init)))
	var list []byte
	n, at, before := 0, f.Start, ""
	for _, d := range deltas {
		rules := cleanLine(d.Rules, maxText)
		if d.Address < f.Start || d.Address-f.Start >= uint64(f.Size) || rules == "" || rules == before {
			continue
		}
		list = binary.AppendUvarint(list, d.Address-at)
		list = binary.AppendUvarint(list, uint64(b.rules.number(rules)))
		n, at, before = n+1, d.Address, rules
	}
	rec = append(binary.AppendUvarint(rec, uint64(n)), list...)
	return b.put(&b.frames, f.Start, rec, "unwind rules")
}

// hasRule reports whether rules have a rule for a register, which ends in a colon.
func hasRule(rules, register string) bool {
	for rules != "" {
		var word string
		word, rules, _ = strings.Cut(rules, " ")
		if word == register {
			return strings.Trim(rules, " ") != ""
		}
	}
	return false
}

func decodeFrame(start uint64, rec []byte, rules *texts, deltas []FrameDelta) Frame {
	d := decoder{rec}
	f := Frame{Start: start, Size: uint32(d.uint()), CFI: rules.text(uint32(d.uint())), Deltas: deltas[:0]}
	at := start
	for range int(d.uint()) {
		at += d.uint()
		f.Deltas = append(f.Deltas, FrameDelta{at, rules.text(uint32(d.uint()))})
	}
	return f
}

func (b *Builder) winFrame(f Frame) error {
	w := *f.Win
	program := cleanLine(w.Program, maxText)
	if (w.Type == 4) != (program != "") || w.Type != 0 && w.Type != 4 {
		b.Warn("unwind rules at %#x: frame type %d with the program %q", f.Start, w.Type, program)
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	rec := make([]byte, 0, 48)
	kind := uint64(w.Type) << 1
	if w.AllocatesBP && w.Type == 0 {
		kind |= 1
	}
	rec = binary.AppendUvarint(rec, kind)
	for _, v := range []uint32{f.Size, w.Prolog, w.Epilog, w.Params, w.SavedRegs, w.Locals, w.MaxStack, b.rules.number(program)} {
		rec = binary.AppendUvarint(rec, uint64(v))
	}
	return b.put(&b.wins, f.Start, rec, "unwind rules")
}

func decodeWin(start uint64, rec []byte, rules *texts, w *WinFrame) Frame {
	d := decoder{rec}
	kind := d.uint()
	f := Frame{Start: start, Size: uint32(d.uint()), Win: w}
	*w = WinFrame{Type: int(kind >> 1), AllocatesBP: kind&1 != 0}
	for _, v := range []*uint32{&w.Prolog, &w.Epilog, &w.Params, &w.SavedRegs, &w.Locals, &w.MaxStack} {
		*v = uint32(d.uint())
	}
	w.Program = rules.text(uint32(d.uint()))
	return f
}

// Section adds a section with executable code. The Table places end markers of
// symbols by the sections. A Builder keeps the first 65,536 sections.
func (b *Builder) Section(s Section) {
	s.Name = b.line(s.Name)
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.sections) < maxSections && s.Size > 0 && s.Start+s.Size > s.Start {
		b.sections = append(b.sections, s)
	}
}

// Warn records in words what a reader left out. A Builder keeps the first 100
// texts and counts the others.
func (b *Builder) Warn(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.warnings) >= maxWarnings {
		b.omitted++
		return
	}
	b.warnings = append(b.warnings, cleanLine(fmt.Sprintf(format, args...), 1000))
}

// Warnings are warnings that were taken from a Builder.
type Warnings struct {
	texts   []string
	omitted int
}

// TakeWarnings returns the warnings so far and leaves the Builder without any. A reader whose parts do
// not read in the order of their warnings gives them back in that order.
func (b *Builder) TakeWarnings() Warnings {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := Warnings{b.warnings, b.omitted}
	b.warnings, b.omitted = nil, 0
	return w
}

// GiveWarnings adds warnings that were taken.
func (b *Builder) GiveWarnings(w Warnings) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(w.texts), max(0, maxWarnings-len(b.warnings)))
	b.warnings = append(b.warnings, w.texts[:n]...)
	b.omitted += len(w.texts) - n + w.omitted
}
