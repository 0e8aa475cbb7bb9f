package pdb

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/symdepot/symdepot/functab"
)

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
