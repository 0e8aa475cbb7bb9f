package pdb

import (
	"bytes"
	"slices"
	"sort"

	"github.com/symdepot/symdepot/functab"
)

// finish adds the open procedure, if there is one.
func (w *worker) finish() error {
	if !w.open {
		return nil
	}
	w.open = false
	if w.lost {
		w.r.warn(w.module, "module %d (%s): inlined calls of the function at %#x: more than the limit",
			w.module, w.r.modules[w.module].name, w.code.start)
	}
	f := functab.Function{Unit: uint32(w.module)}
	w.title(&f)
	w.unite()
	if err := w.emit(f, w.code); err != nil {
		return err
	}
	for _, e := range w.cold {
		if err := w.emit(f, e); err != nil {
			return err
		}
	}
	return nil
}

// title finds the name of the procedure and the other facts of its start.
func (w *worker) title(f *functab.Function) {
	p := w.r.publics
	first := p.from(w.code.start)
	end := first
	if first < len(p.list) && uint64(p.list[first].addr) == w.code.start {
		end = p.group(first)
	}
	f.Multiple = end-first > 1
	if params, ok := parameters(w.r.frames, w.code.start); ok {
		f.Params = params
	} else if p.x86 && w.known == 0 {
		if s, ok := p.first(first, end); ok {
			f.Params = s.params
		}
	}
	if w.known != 0 {
		f.Name = w.known
		return
	}
	shown := w.print.function(w.name, w.typ, w.isID)
	if bytes.IndexByte(shown, '(') < 0 {
		// The decorated name of the public symbol has the parameters.
		if s, ok := p.first(first, end); ok {
			f.Name = w.r.b.Name(s.shown, s.raw)
			return
		}
		if len(shown) > 0 && shown[0] == '?' {
			name, _ := p.shown(string(shown))
			f.Name = w.r.b.Name(name, string(shown))
			return
		}
	}
	if len(shown) > 0 {
		f.Name = w.r.b.Name(string(shown), "")
	}
}

// unite finds the code of each inlined call: that of its rows and of the calls
// inlined into it.
func (w *worker) unite() {
	for i := len(w.nodes) - 1; i > 0; i-- {
		n := &w.nodes[i]
		for _, r := range n.rows {
			n.all = append(n.all, r.extent)
		}
		n.all = merge(n.all)
		if n.parent > 0 {
			p := &w.nodes[n.parent]
			p.all = append(p.all, n.all...)
		}
	}
}

// emit adds the part e of the procedure as a function, or as several if the
// parts of e are in different places of the image.
func (w *worker) emit(f functab.Function, e extent) error {
	w.r.publics.cover(e)
	nth := 0
	if first, end := w.lines.at(e.start); end-first > 1 {
		// The records of folded functions have the order of their lines.
		nth = w.folded[e.start]
		w.folded[e.start]++
	}
	w.added = append(w.added, done{e, f.Name})
	w.r.reached(e.start, start{f.Name, w.module})
	w.pieces = w.r.addr.pieces(w.pieces[:0], e)
	for _, p := range w.pieces {
		root := &w.nodes[0]
		root.rows = w.lines.within(root.rows[:0], p.extent, nth)
		w.layout(p)
		f.Start, f.Size = p.image, uint32(p.end-p.start)
		f.Rows, f.Inlines = w.outRows, w.outCall
		if err := w.r.b.Add(f); err != nil {
			return err
		}
	}
	return nil
}

// layout gives each instruction of the piece to the innermost call that it is
// part of, and makes the rows and calls of the function.
func (w *worker) layout(p piece) {
	w.out, w.outRows, w.outCall = w.out[:0], w.outRows[:0], w.outCall[:0]
	for i := range w.nodes {
		w.nodes[i].code = w.nodes[i].code[:0]
	}
	w.nodes[0].code = append(w.nodes[0].code, p.extent)
	for i := range w.nodes {
		n := &w.nodes[i]
		if len(n.code) == 0 {
			continue
		}
		if i > 0 {
			w.call(n, p)
		}
		w.children(n)
		w.free = subtract(w.free[:0], n.code, w.cover)
		free := w.free
		for _, r := range n.rows {
			for len(free) > 0 && free[0].end <= r.start {
				free = free[1:]
			}
			for k := 0; k < len(free) && free[k].start < r.end; k++ {
				w.out = append(w.out, row{extent{max(r.start, free[k].start), min(r.end, free[k].end)}, r.file, r.line})
			}
		}
	}
	if len(w.nodes) > 1 {
		slices.SortFunc(w.out, func(x, y row) int { return byStart(x.extent, y.extent) })
	}
	pos := p.start
	for _, r := range w.out {
		if r.start > pos && len(w.outRows) > 0 {
			w.row(row{extent{pos, r.start}, 0, 0}, p)
		}
		w.row(r, p)
		pos = r.end
	}
	if pos < p.end && len(w.outRows) > 0 {
		w.row(row{extent{pos, p.end}, 0, 0}, p)
	}
}

// row appends a row to the rows of the function, or lets the last one go on if
// it has the same position.
func (w *worker) row(r row, p piece) {
	if r.line == 0 {
		r.file = 0
	}
	if n := len(w.outRows); n > 0 && w.outRows[n-1].File == r.file && w.outRows[n-1].Line == r.line {
		return
	}
	w.outRows = append(w.outRows, functab.Row{Start: p.image + r.start - p.start, File: r.file, Line: r.line})
}

// children divides the code of a node among the calls inlined into it; of calls
// that claim the same code, the first has it. w.cover is the code of all of
// them.
func (w *worker) children(n *node) {
	w.cover = w.cover[:0]
	if n.child < 0 {
		return
	}
	w.items = w.items[:0]
	for i := n.child; i >= 0; i = w.nodes[i].next {
		for _, e := range w.nodes[i].all {
			w.items = append(w.items, item{e, i})
		}
	}
	slices.SortStableFunc(w.items, func(x, y item) int { return byStart(x.extent, y.extent) })
	pos := uint64(0)
	code := n.code
	for _, it := range w.items {
		e := extent{max(it.start, pos), it.end}
		if e.start >= e.end {
			continue
		}
		pos = e.end
		for len(code) > 0 && code[0].end <= e.start {
			code = code[1:]
		}
		c := &w.nodes[it.node]
		from := len(c.code)
		c.code = intersect(c.code, code, []extent{e})
		w.cover = append(w.cover, c.code[from:]...)
	}
}

// call adds the inlined call n to the calls of the function.
func (w *worker) call(n *node, p piece) {
	c := functab.Inline{Depth: n.depth, Name: w.inlined(n.id)}
	// The rows of the caller have the position of the call for the code of the
	// inlined function.
	rows := w.nodes[n.parent].rows
	i := sort.Search(len(rows), func(i int) bool { return rows[i].start > n.code[0].start })
	if i > 0 && rows[i-1].line != 0 {
		c.CallFile, c.CallLine = rows[i-1].file, rows[i-1].line
	}
	code := merge(n.code)
	n.code = code
	k := len(w.outCall)
	if k < cap(w.outCall) {
		c.Ranges = w.outCall[:k+1][k].Ranges[:0]
	}
	for _, e := range code {
		c.Ranges = append(c.Ranges, functab.Range{Start: p.image + e.start - p.start, Size: uint32(e.end - e.start)})
	}
	w.outCall = append(w.outCall, c)
}

// inlined returns the name of the inlined function with an id.
func (w *worker) inlined(id uint32) functab.NameID {
	if id&crossScope != 0 {
		global, ok := w.lines.resolve(id)
		if !ok {
			return 0
		}
		id = global
	}
	name, ok := w.inlines[id]
	if !ok {
		if shown := w.print.inlinee(id); len(shown) > 0 {
			name = w.r.b.Name(string(shown), "")
		}
		if len(w.inlines) >= maxInlineIDs {
			clear(w.inlines)
		}
		w.inlines[id] = name
	}
	return name
}

// placeholders adds functions for code that has line numbers but no procedure,
// as that of assemblers. Each public symbol begins one.
func (w *worker) placeholders() error {
	if len(w.lines.contribs) == 0 {
		return nil
	}
	if w.ctx.Err() != nil {
		return w.ctx.Err()
	}
	taken := make([]extent, 0, len(w.added))
	for _, d := range w.added {
		taken = append(taken, d.extent)
	}
	taken = merge(taken)
	var gaps []extent
	pos := uint64(0)
	for i, c := range w.lines.contribs {
		e := c.extent
		e.start = max(e.start, pos)
		if e.start >= e.end {
			continue
		}
		pos = e.end
		for len(taken) > 0 && taken[0].end <= e.start {
			taken = taken[1:]
		}
		gaps = subtract(gaps[:0], []extent{e}, taken)
		for _, g := range gaps {
			if err := w.placeholder(i, g); err != nil {
				return err
			}
		}
	}
	return nil
}

// placeholder adds functions for the code g of contribution i.
func (w *worker) placeholder(i int, g extent) error {
	w.lines.load(i)
	rows := w.lines.rows
	first := sort.Search(len(rows), func(i int) bool { return rows[i].start >= g.start })
	for first < len(rows) && rows[first].line == 0 {
		first++
	}
	if first == len(rows) || rows[first].start >= g.end {
		return nil
	}
	last := rows[len(rows)-1].start
	g.start = rows[first].start
	p := w.r.publics
	next := p.from(g.start + 1)
	// A symbol before the code names it if both are in one contribution of the
	// object file.
	from := next
	if from > 0 && uint64(p.list[from-1].addr) >= w.r.contributionStart(g.start) && !p.covered(from-1) {
		from = p.from(uint64(p.list[from-1].addr))
	}
	for g.start < g.end && g.start <= last {
		stop := g.end
		for next < len(p.list) && uint64(p.list[next].addr) < stop && constant(p.raw(next)) {
			next++
		}
		if next < len(p.list) {
			stop = min(stop, uint64(p.list[next].addr))
		}
		w.start(extent{g.start, stop})
		w.open = false
		f := functab.Function{Unit: uint32(w.module)}
		if s, ok := p.first(from, min(next, p.group(from))); ok {
			f.Name, f.Multiple = w.r.b.Name(s.shown, s.raw), s.multiple
			f.Params = s.params
		} else {
			f.Name = w.r.unknown
		}
		if params, ok := parameters(w.r.frames, g.start); ok {
			f.Params = params
		}
		if err := w.emit(f, w.code); err != nil {
			return err
		}
		g.start, from = stop, next
		next = p.from(stop + 1)
	}
	return nil
}
