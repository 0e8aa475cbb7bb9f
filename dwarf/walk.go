package dwarf

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/symdepot/symdepot/functab"
)

// level describes the parent of the entries that the walk reads.
type level struct {
	scope int32 // index into walk.scopes, or -1
	fn    int32 // index into walk.open, or -1: no function with code
	inl   int32 // number of inlined calls around
	owner bool  // the parent is the function fn itself
}

// scope is a namespace or a type, for the names of what is in it.
type scope struct {
	parent int32
	off    uint64 // of its entry
}

// decl is an entry with its scope.
type decl struct {
	off   uint64
	scope int32
}

// inlined is an inlined call while its function is open.
type inlined struct {
	depth  int32
	name   functab.NameID
	file   functab.FileID
	line   uint32
	lo, hi int32 // its ranges in openFunc.spans
	// implied is true for a call without code of its own: its code is that of the
	// calls in it.
	implied bool
}

// openFunc is a function whose entries are being read.
type openFunc struct {
	name    functab.NameID
	ranges  []Range
	inlines []inlined
	spans   []Range
}

// walk is the state of the walk over the entries of a unit.
type walk struct {
	levels []level // empty at the end
	scopes []scope
	decls  []decl // in the order of off
	open   []openFunc

	namesOnly bool // only scopes are collected
	scoped    bool // names have scopes in the language of the unit
	inside    bool // the unit's own entry was read
	over      int  // levels deeper than maxDepth
	die       die  // of a function or an inlined call
}

// begin begins the walk over a unit.
func (k *walk) begin(u *unit, namesOnly bool) {
	k.levels, k.scopes, k.decls, k.open = append(k.levels[:0], level{scope: -1, fn: -1}), k.scopes[:0], k.decls[:0], k.open[:0]
	k.namesOnly, k.scoped, k.inside, k.over = namesOnly, separator(u.lang) != "", false, 0
}

// scopesOf is the part of a unit that walk keeps for names.
type scopesOf struct {
	scopes []scope
	decls  []decl
}

func (s *scopesOf) find(off uint64) (int32, bool) {
	i, ok := slices.BinarySearchFunc(s.decls, off, func(d decl, off uint64) int { return cmp.Compare(d.off, off) })
	if !ok {
		return -1, false
	}
	return s.decls[i].scope, true
}

// unit reads one unit of the main file and adds its functions.
func (w *worker) unit(v *view, h header) error {
	if h.unsupported {
		return fmt.Errorf("%w: a unit of version %d that cannot be read", errBad, h.version)
	}
	if h.typ == unitType || h.typ == unitSplitType || h.die >= h.end {
		return nil
	}
	u, err := w.openUnit(v, h, nil, contribution{})
	if err != nil {
		return err
	}
	w.stats.Units++
	if u.tag == tagPartial && !u.hasCode {
		return nil // only entries that others refer to
	}
	code := u
	if u.dwo != "" || h.typ == unitSkeleton {
		split, err := w.splitUnit(u)
		if err != nil {
			return err
		}
		if split != nil {
			code = split
			if im := split.v.im; im != w.r.pkg {
				defer w.forget()
			}
		}
	}
	w.lines.reset(u)
	return w.walkUnit(code, false)
}

// walkUnit walks over all entries of a unit. With namesOnly it collects scopes
// only.
func (w *worker) walkUnit(u *unit, namesOnly bool) error {
	k, win := &w.walk, &w.win
	k.begin(u, namesOnly)
	w.names.unit = u
	win.open(u.v.info, u.die, u.end, u.v.im.be)
	for len(k.levels) > 0 {
		win.ahead()
		if len(k.levels) > 1 {
			if err := w.leaves(u); err != nil {
				return err
			}
		}
		off := win.pos()
		if off >= u.end {
			break
		}
		if err := w.spend(1); err != nil {
			return err
		}
		code := win.uleb()
		if code == 0 {
			if win.short {
				return fmt.Errorf("%w: the unit is cut off at %#x", errBad, off)
			}
			if err := w.endLevel(u); err != nil {
				return err
			}
			continue
		}
		ab := u.abbrevs.get(code)
		if ab == nil {
			return fmt.Errorf("%w: entry at %#x with unknown abbreviation %d", errBad, off, code)
		}
		w.stats.Entries++
		role := k.roleOf(ab, off)
		sibling, err := w.readEntry(u, ab, role, off)
		if err != nil {
			return err
		}
		if role == roleSkip && ab.children && sibling.form != 0 {
			if _, to, err := w.target(u, sibling); err == nil && to > win.pos() && to < u.end {
				win.seek(to)
				continue
			}
		}
		if err := w.enter(u, ab, role, off); err != nil {
			return err
		}
	}
	// The end of the unit closes what is open: some producers leave the null
	// entries at the end out.
	for i := len(k.levels) - 1; i >= 0; i-- {
		if k.levels[i].owner {
			if err := w.closeFunc(u); err != nil {
				return err
			}
		}
	}
	return nil
}

// leaves skips entries that the walk has no use for, up to one that it has, or one that is
// unusual or reaches the end of the window.
func (w *worker) leaves(u *unit) error {
	win := &w.win
	b := win.b
	if left := u.end - win.base; left < uint64(len(b)) {
		b = b[:left]
	}
	i, n := win.i, 0
	for i+1 < len(b) {
		code, at := uint64(b[i]), i+1
		if code >= 0x80 {
			if b[at] >= 0x80 {
				break
			}
			code, at = code&0x7f|uint64(b[at])<<7, at+1
		}
		if code-1 >= uint64(len(u.abbrevs.dense)) {
			break
		}
		ab := &u.abbrevs.dense[code-1]
		if !ab.leaf {
			break
		}
		if at = skipValues(b, at, ab.steps); at < 0 {
			break
		}
		i, n = at, n+1
	}
	win.i = i
	w.stats.Entries += n
	return w.spend(int64(n))
}

// skipValues returns where the values end that steps skip and that begin at b[i]. It is -1
// if that is not in b, or if a block is long.
func skipValues(b []byte, i int, steps []skipStep) int {
	for _, s := range steps {
		i += int(s.bytes)
		if s.then == skipNone {
			continue
		}
		if i >= len(b) {
			return -1
		}
		x := b[i]
		i++
		if s.then == skipBlock {
			if x >= 0x80 {
				return -1
			}
			i += int(x)
			continue
		}
		for x >= 0x80 {
			if i >= len(b) {
				return -1
			}
			x = b[i]
			i++
		}
	}
	if i > len(b) {
		return -1
	}
	return i
}

// endLevel ends a list of children.
func (w *worker) endLevel(u *unit) error {
	k := &w.walk
	if k.over > 0 {
		k.over--
		return nil
	}
	top := k.levels[len(k.levels)-1]
	if k.levels = k.levels[:len(k.levels)-1]; len(k.levels) == 1 { // the end of the unit's own entry
		k.levels = k.levels[:0]
	}
	if top.owner {
		return w.closeFunc(u)
	}
	return nil
}

// roleOf returns what the walk does with an entry, and notes the scope of a
// declaration.
func (k *walk) roleOf(ab *abbrev, off uint64) role {
	top := &k.levels[len(k.levels)-1]
	role := ab.role
	if k.namesOnly && role == roleFunc {
		role = roleDecl
	}
	if k.over > 0 || role == roleInlined && (top.fn < 0 || k.namesOnly) {
		role = roleSkip
	}
	if k.scoped && ab.named && !ab.linkage && (role == roleDecl || role == roleFunc) {
		k.decls = append(k.decls, decl{off, top.scope})
	}
	return role
}

// readEntry reads the values of an entry behind its abbreviation: of a function or an
// inlined call into walk.die, of others only the reference to their sibling, if they
// have one.
func (w *worker) readEntry(u *unit, ab *abbrev, role role, off uint64) (sibling value, err error) {
	win := &w.win
	for {
		switch {
		case role == roleFunc || role == roleInlined:
			w.walk.die = die{ab: ab, off: off}
			err = w.attrs(u, &win.cursor, win.base, ab, &w.walk.die)
		case role == roleSkip && ab.sibling >= 0 && ab.children:
			sibling, err = u.skipEntry(&win.cursor, ab)
		default:
			if at := skipValues(win.b, win.i, ab.steps); ab.skipped && at >= 0 {
				win.i = at
			} else {
				sibling, err = u.skipEntry(&win.cursor, ab)
			}
		}
		if !win.short {
			break
		}
		if !win.grow(off) {
			return sibling, fmt.Errorf("%w: the entry at %#x is cut off", errBad, off)
		}
		win.uleb() // the abbreviation
		err = nil
	}
	if err == nil && win.pos() > u.end {
		err = fmt.Errorf("%w: the entry at %#x exceeds its unit", errBad, off)
	}
	return sibling, err
}

// enter does with an entry what its role says, and goes on to its children.
func (w *worker) enter(u *unit, ab *abbrev, role role, off uint64) error {
	k := &w.walk
	top := k.levels[len(k.levels)-1]
	next := level{scope: top.scope, fn: top.fn, inl: top.inl}
	switch role {
	case roleScope:
		if k.scoped && ab.children && ab.tag != tagLexical && ab.tag != tagTry && ab.tag != tagCatch && ab.tag != tagWith && k.inside {
			next.scope = int32(len(k.scopes))
			k.scopes = append(k.scopes, scope{top.scope, off})
		}
	case roleDecl:
		next.fn, next.inl = -1, 0
	case roleFunc:
		next.fn, next.inl = -1, 0
		opened, err := w.openFunc(u, &k.die)
		if err != nil {
			return err
		}
		if opened && !ab.children {
			return w.closeFunc(u)
		}
		if opened {
			next.fn, next.owner = int32(len(k.open)-1), true
		}
	case roleInlined:
		added, err := w.openInlined(u, &k.die, top)
		if err != nil {
			return err
		}
		if added {
			next.inl++
		}
	}
	k.inside = true
	switch {
	case !ab.children && len(k.levels) == 1: // a unit's entry without children
		k.levels = k.levels[:0]
	case !ab.children:
	case len(k.levels) >= maxDepth:
		k.over++
		if next.owner {
			return w.closeFunc(u)
		}
	default:
		k.levels = append(k.levels, next)
	}
	return nil
}

// skipEntry skips the values of an entry and returns its sibling reference.
func (u *unit) skipEntry(c *cursor, ab *abbrev) (value, error) {
	var sibling value
	for i, s := range ab.specs {
		if i == int(ab.sibling) {
			v, err := u.read(c, s.form, s.implicit)
			if err != nil {
				return v, err
			}
			sibling = v
			continue
		}
		if err := u.skip(c, s.form); err != nil {
			return sibling, err
		}
		if c.short {
			break
		}
	}
	return sibling, nil
}

// attrs reads the attributes that functions need. base is the section offset of
// the cursor's window.
func (w *worker) attrs(u *unit, c *cursor, base uint64, ab *abbrev, d *die) error {
	for i := range ab.specs {
		s := &ab.specs[i]
		if !wanted(s.name) {
			if err := u.skip(c, s.form); err != nil {
				return err
			}
			continue
		}
		v, err := u.read(c, s.form, s.implicit)
		if err != nil {
			return err
		}
		if v.form == formString {
			v.u += base
		}
		d.set(s.name, v)
		if c.short {
			break
		}
	}
	return nil
}

// openFunc begins a function if it has code.
func (w *worker) openFunc(u *unit, d *die) (bool, error) {
	spans, err := w.entryRanges(u, d, w.spans[:0])
	w.spans = spans
	if err != nil || len(spans) == 0 {
		return false, err
	}
	name, err := w.nameOf(u, d, spans[0].Start)
	if err != nil {
		return false, err
	}
	k := &w.walk
	if len(k.open) < cap(k.open) {
		k.open = k.open[:len(k.open)+1]
	} else {
		k.open = append(k.open, openFunc{})
	}
	f := &k.open[len(k.open)-1]
	f.name, f.ranges, f.inlines, f.spans = name, append(f.ranges[:0], spans...), f.inlines[:0], f.spans[:0]
	return true, nil
}

// openInlined adds an inlined call to the function that is open.
func (w *worker) openInlined(u *unit, d *die, top level) (bool, error) {
	f := &w.walk.open[top.fn]
	if len(f.inlines) >= maxInlines || len(f.spans) >= 4*maxInlines {
		return false, nil
	}
	lo := len(f.spans)
	spans, err := w.entryRanges(u, d, f.spans)
	if f.spans = spans; err != nil {
		return false, err
	}
	implied := len(spans) == lo
	name, err := w.nameOf(u, d, 0)
	if err != nil {
		return false, err
	}
	file, err := w.lines.file(w, d.callFile)
	if err != nil {
		return false, err
	}
	f.inlines = append(f.inlines, inlined{top.inl, name, file, uint32(min(d.callLine, 1<<32-1)), int32(lo), int32(len(spans)), implied})
	return true, nil
}

// closeFunc adds the innermost open function to the Builder: each range is a
// function of its own.
func (w *worker) closeFunc(u *unit) error {
	k := &w.walk
	f := &k.open[len(k.open)-1]
	defer func() { k.open = k.open[:len(k.open)-1] }()
	if err := w.lines.load(w); err != nil {
		return err
	}
	if err := w.imply(f); err != nil {
		return err
	}
	base := w.r.opt.Base
	var out functab.Function
	for _, r := range f.ranges {
		if r.End-r.Start >= 1<<32 || r.Start < base {
			continue
		}
		out = functab.Function{Start: r.Start - base, Size: uint32(r.End - r.Start), Name: f.name, Unit: w.number}
		rows, err := w.lines.cover(w, r, w.rows[:0])
		w.rows = rows
		if err != nil {
			return err
		}
		out.Rows = rows
		if err := w.spend(int64(len(f.inlines) + len(f.spans))); err != nil {
			return err
		}
		out.Inlines = w.inlinesIn(f, r)
		w.stats.Functions++
		w.stats.Rows += len(out.Rows)
		w.stats.Inlines += len(out.Inlines)
		if err := w.r.b.Add(out); err != nil {
			return err
		}
	}
	return nil
}

// imply gives the calls without ranges those of the calls in them.
func (w *worker) imply(f *openFunc) error {
	for i := len(f.inlines) - 1; i >= 0; i-- {
		c := &f.inlines[i]
		if !c.implied {
			continue
		}
		c.lo = int32(len(f.spans))
		for j := i + 1; j < len(f.inlines) && f.inlines[j].depth > c.depth; j++ {
			x := &f.inlines[j]
			if err := w.spend(1 + int64(x.hi-x.lo)); err != nil {
				return err
			}
			if x.depth == c.depth+1 && len(f.spans) < 8*maxInlines {
				f.spans = append(f.spans, f.spans[x.lo:x.hi]...)
			}
		}
		c.hi = int32(len(f.spans))
	}
	return nil
}

// inlinesIn returns the calls of f that have code in r, clipped to it. A call
// whose parent has none is not in r either.
func (w *worker) inlinesIn(f *openFunc, r Range) []functab.Inline {
	base := w.r.opt.Base
	w.inl, w.inlRanges = w.inl[:0], w.inlRanges[:0]
	dropped := int32(-1) // the depth of a call that was dropped, whose children go too
	for i := range f.inlines {
		c := &f.inlines[i]
		if dropped >= 0 && c.depth > dropped {
			continue
		}
		dropped = -1
		lo := len(w.inlRanges)
		for _, s := range f.spans[c.lo:c.hi] {
			if len(f.ranges) > 1 {
				s.Start, s.End = max(s.Start, r.Start), min(s.End, r.End)
			}
			if s.Start < s.End && s.Start >= base && s.End-s.Start < 1<<32 {
				w.inlRanges = append(w.inlRanges, functab.Range{Start: s.Start - base, Size: uint32(s.End - s.Start)})
			}
		}
		if len(w.inlRanges) == lo {
			dropped = c.depth
			continue
		}
		w.inl = append(w.inl, functab.Inline{
			Depth: int(c.depth), Name: c.name, CallFile: c.file, CallLine: c.line,
			Ranges: w.inlRanges[lo:len(w.inlRanges):len(w.inlRanges)]})
	}
	return w.inl
}
