package pdb

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"

	"github.com/symdepot/symdepot/functab"
)

// machineX86 is the IMAGE_FILE_MACHINE number of x86.
const machineX86 = 0x014C

// The kinds of symbol records, as cvinfo.h numbers them.
const (
	symEnd           = 0x0006
	symPublicST      = 0x1009
	symLocalProcST   = 0x100A
	symGlobalProcST  = 0x100B
	symThunk         = 0x1102
	symBlock         = 0x1103
	symPublic        = 0x110E
	symLocalProc     = 0x110F
	symGlobalProc    = 0x1110
	symGlobalManProc = 0x112A
	symLocalManProc  = 0x112B
	symTrampoline    = 0x112C
	symSepCode       = 0x1132
	symLocalProcID   = 0x1146
	symGlobalProcID  = 0x1147
	symInlineSite    = 0x114D
	symInlineSiteEnd = 0x114E
	symProcIDEnd     = 0x114F
	symLocalProcDPC  = 0x1155
	symLocalDPCID    = 0x1156
	symInlineSite2   = 0x115D
)

// Limits of the symbols of a module.
const (
	signatureC13  = 4
	maxScopes     = 512     // open scopes
	maxSites      = 1 << 20 // inlined calls of a function
	maxPieces     = 1 << 12 // cold blocks of a function
	maxInlineIDs  = 4 << 20 // ids whose names a worker keeps
	maxSepLook    = 4096    // functions before separated code that may be its parent
	keptNodes     = 1 << 12 // nodes whose memory is kept from function to function
	keptNodeBytes = 1 << 16
)

// The kinds of open scopes.
const (
	scopeBlock = 'b'
	scopeSite  = 's'
)

// sized is a stream.
type sized interface {
	io.ReaderAt
	Size() int64
}

// node is a function in a tree of inlined calls: the procedure itself or a call.
type node struct {
	parent, child, last, next int32 // -1 for none
	depth                     int   // of a call: 0 if it is inlined into the procedure
	id                        uint32
	rows                      []row    // its own, which may include those of its calls
	all                       []extent // its code and that of its calls
	code                      []extent // the part of all that is in the current piece
}

// done is a function that was added.
type done struct {
	extent
	name functab.NameID
}

// worker reads modules, one after the other.
type worker struct {
	r       *reader
	ctx     context.Context
	lines   moduleLines
	print   printer
	symbols window
	inlines map[uint32]functab.NameID
	module  int
	added   []done
	folded  map[uint64]int // functions read so far at an address of several contributions

	// The procedure that is being read.
	open   bool
	code   extent
	name   []byte
	typ    uint32
	isID   bool
	known  functab.NameID // of separated code
	cold   []extent
	scopes []byte
	over   int // scopes that were opened beyond the limit
	nodes  []node
	at     int32 // the innermost open node
	rows   int   // of all inlined calls
	lost   bool  // inlined calls were left out

	// Reused.
	pieces  []piece
	out     []row
	items   []item
	cover   []extent
	free    []extent
	outRows []functab.Row
	outCall []functab.Inline
}

// item is a part of the code of a call.
type item struct {
	extent
	node int32
}

func newWorker(ctx context.Context, r *reader) *worker {
	w := &worker{r: r, ctx: ctx, inlines: map[uint32]functab.NameID{}, folded: map[uint64]int{}}
	w.lines.r = r
	w.print = printer{types: r.types, ids: r.ids, resolve: w.lines.resolve}
	return w
}

// read adds the functions of module i. The error is fatal; damage becomes a
// warning.
func (w *worker) read(i int) error {
	m := w.r.modules[i]
	w.module, w.added = i, w.added[:0]
	if len(w.folded) > 0 {
		w.folded = map[uint64]int{}
	}
	w.open = false
	if m.stream == noStream || m.symbols+m.c13 <= 4 {
		return nil
	}
	s, err := w.r.f.section(m.stream)
	if err != nil {
		return w.damage(err)
	}
	if s.Size() == 0 {
		return nil
	}
	if total := m.symbols + m.c11 + m.c13; total > s.Size() {
		if err := w.damage(fmt.Errorf("its stream has %d of %d bytes: %w", s.Size(), total, io.ErrUnexpectedEOF)); err != nil {
			return err
		}
	}
	if err := w.lines.read(s, m); err != nil {
		if err := w.damage(fmt.Errorf("line numbers: %w", err)); err != nil {
			return err
		}
	}
	if err := w.walk(s, m); err != nil {
		if err := w.damage(fmt.Errorf("symbols: %w", err)); err != nil {
			return err
		}
	}
	return w.placeholders()
}

// damage records err as a warning unless it is fatal, in which case it returns
// it.
func (w *worker) damage(err error) error {
	if fatal(err) {
		return err
	}
	w.r.warn(w.module, "module %d (%s): %v", w.module, w.r.modules[w.module].name, err)
	return nil
}

// walk reads the symbol records of the module.
func (w *worker) walk(s sized, m compiland) error {
	end := min(m.symbols, s.Size())
	if end < 8 {
		return nil
	}
	w.symbols.reset(s, 0, end)
	p, err := w.symbols.peek(4)
	if err != nil {
		return err
	}
	if sig := u32(p, 0); sig != signatureC13 {
		return fmt.Errorf("signature %d is not supported, only %d", sig, signatureC13)
	}
	w.symbols.skip(4)
	for n := 1; ; n++ {
		if n%(1<<12) == 0 && w.ctx.Err() != nil {
			return w.ctx.Err()
		}
		_, kind, data, err := w.symbols.record(4)
		if err == nil && kind != 0 {
			if err = w.symbol(kind, data); err != nil {
				return err
			}
			continue
		}
		// Keep the procedure that was read last if its records are complete.
		if ferr := w.finish(); ferr != nil {
			return ferr
		}
		return err
	}
}

// symbol handles a symbol record.
func (w *worker) symbol(kind uint16, b []byte) error {
	switch kind {
	case symLocalProc, symGlobalProc, symLocalProcDPC, symLocalProcST, symGlobalProcST:
		return w.begin(kind, b, 35, false)
	case symLocalProcID, symGlobalProcID, symLocalDPCID:
		return w.begin(kind, b, 35, true)
	case symGlobalManProc, symLocalManProc:
		return w.begin(kind, b, 37, false)
	case symSepCode:
		return w.separated(b)
	case symThunk:
		return w.thunk(b)
	case symTrampoline:
		w.r.trampoline(b)
	case symBlock:
		w.block(b)
	case symInlineSite:
		w.site(b, 12)
	case symInlineSite2:
		w.site(b, 16)
	case symInlineSiteEnd:
		w.close(scopeSite)
	case symEnd:
		if !w.close(scopeBlock) {
			return w.finish()
		}
	case symProcIDEnd:
		return w.finish()
	}
	return nil
}

// begin starts a procedure.
func (w *worker) begin(kind uint16, b []byte, name int, isID bool) error {
	if err := w.finish(); err != nil {
		return err
	}
	e, ok := w.r.addr.codeRange(u16(b, 32), u32(b, 28), u32(b, 12))
	if !ok {
		return nil
	}
	w.start(e)
	w.name = append(w.name[:0], symbolName(kind, b, name)...)
	w.typ, w.isID = u32(b, 24), isID
	if kind == symGlobalManProc || kind == symLocalManProc {
		w.typ = 0 // it is a metadata token
	}
	return nil
}

// start opens a procedure with the code e.
func (w *worker) start(e extent) {
	w.open, w.code = true, e
	w.known, w.typ, w.name = 0, 0, w.name[:0]
	w.cold, w.scopes, w.over = w.cold[:0], w.scopes[:0], 0
	if cap(w.nodes) > keptNodes {
		w.nodes = nil
	}
	w.nodes = w.nodes[:0]
	w.rows, w.lost = 0, false
	w.add(-1, 0)
}

// separated starts code that the compiler moved away from its procedure.
func (w *worker) separated(b []byte) error {
	if err := w.finish(); err != nil {
		return err
	}
	e, ok := w.r.addr.codeRange(u16(b, 24), u32(b, 16), u32(b, 8))
	if !ok {
		return nil
	}
	w.start(e)
	parent, _ := w.r.addr.code(u16(b, 26), u32(b, 20))
	for i := len(w.added) - 1; i >= max(0, len(w.added)-maxSepLook); i-- {
		if w.added[i].start == parent {
			w.known = w.added[i].name
			break
		}
	}
	return nil
}

// thunk adds a thunk.
func (w *worker) thunk(b []byte) error {
	if err := w.finish(); err != nil {
		return err
	}
	e, ok := w.r.addr.codeRange(u16(b, 16), u32(b, 12), uint32(u16(b, 18)))
	if !ok {
		return nil
	}
	w.start(e)
	w.name = append(w.name, nameAt(b, 21)...)
	return w.finish()
}

// block opens a lexical block. A block outside its procedure is code that the
// linker moved.
func (w *worker) block(b []byte) {
	if !w.open || !w.push(scopeBlock) {
		return
	}
	e, ok := w.r.addr.codeRange(u16(b, 16), u32(b, 12), u32(b, 8))
	if !ok || e.start < w.code.end && e.end > w.code.start || len(w.cold) == maxPieces {
		return
	}
	for _, c := range w.cold {
		if e.start < c.end && e.end > c.start {
			return
		}
	}
	w.cold = append(w.cold, e)
}

// push opens a scope in the procedure. It reports whether that is within the
// limit.
func (w *worker) push(scope byte) bool {
	if w.over > 0 || len(w.scopes) >= maxScopes {
		w.over++
		return false
	}
	w.scopes = append(w.scopes, scope)
	return true
}

// close closes the innermost scope of a kind, and those inside it. It reports
// whether there is one.
func (w *worker) close(scope byte) bool {
	if w.over > 0 {
		w.over--
		return true
	}
	i := bytes.LastIndexByte(w.scopes, scope)
	if i < 0 {
		return false
	}
	for range bytes.Count(w.scopes[i:], []byte{scopeSite}) {
		w.at = max(w.nodes[w.at].parent, 0)
	}
	w.scopes = w.scopes[:i]
	return true
}

// add adds a node to the tree and makes it the current one.
func (w *worker) add(parent int32, id uint32) *node {
	i := int32(len(w.nodes))
	if int(i) < cap(w.nodes) {
		w.nodes = w.nodes[:i+1]
	} else {
		w.nodes = append(w.nodes, node{})
	}
	n := &w.nodes[i]
	*n = node{parent: parent, child: -1, last: -1, next: -1, id: id, rows: n.rows[:0], all: n.all[:0], code: n.code[:0]}
	if cap(n.rows)+cap(n.all)+cap(n.code) > keptNodeBytes {
		n.rows, n.all, n.code = nil, nil, nil
	}
	if parent >= 0 {
		p := &w.nodes[parent]
		if parent > 0 {
			n.depth = p.depth + 1
		}
		if p.last >= 0 {
			w.nodes[p.last].next = i
		} else {
			p.child = i
		}
		p.last = i
	}
	w.at = i
	return n
}

// site opens an inlined call whose annotations are at off.
func (w *worker) site(b []byte, off int) {
	if !w.open {
		return
	}
	if len(w.nodes) >= maxSites || w.rows >= maxSiteRows {
		w.lost = true
		w.over++
		return
	}
	if !w.push(scopeSite) {
		w.lost = true
		return
	}
	id := u32(b, 8)
	n := w.add(w.at, id)
	if off < len(b) {
		from, known := w.lines.inlinee(id)
		n.rows = w.lines.annotated(n.rows, b[off:], w.code.start, from, known, maxSiteRows-w.rows)
		w.rows += len(n.rows)
	}
}

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

// merge sorts ranges and joins those that touch.
func merge(list []extent) []extent {
	if !slices.IsSortedFunc(list, byStart) {
		slices.SortFunc(list, byStart)
	}
	out := list[:0]
	for _, e := range list {
		if n := len(out); n > 0 && out[n-1].end >= e.start {
			out[n-1].end = max(out[n-1].end, e.end)
		} else {
			out = append(out, e)
		}
	}
	return out
}

func byStart(x, y extent) int {
	switch {
	case x.start < y.start:
		return -1
	case x.start > y.start:
		return 1
	}
	return 0
}

// intersect appends the code that is in both sorted lists to dst.
func intersect(dst, a, b []extent) []extent {
	for len(a) > 0 && len(b) > 0 {
		e := extent{max(a[0].start, b[0].start), min(a[0].end, b[0].end)}
		if e.start < e.end {
			dst = append(dst, e)
		}
		if a[0].end < b[0].end {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return dst
}

// subtract appends the code of a that is not in b to dst. Both are sorted.
func subtract(dst, a, b []extent) []extent {
	for _, e := range a {
		for len(b) > 0 && b[0].end <= e.start {
			b = b[1:]
		}
		for i := 0; i < len(b) && b[i].start < e.end; i++ {
			if e.start < b[i].start {
				dst = append(dst, extent{e.start, b[i].start})
			}
			e.start = max(e.start, b[i].end)
		}
		if e.start < e.end {
			dst = append(dst, e)
		}
	}
	return dst
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

// cleanName returns a name without characters that would break a line of text.
func cleanName(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' {
			return -1
		}
		return r
	}, s)
}
