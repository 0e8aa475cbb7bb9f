package dwarf

import "github.com/symdepot/symdepot/internal/base/pagecache"

// window is a cursor over a part of a section that moves along with it. The
// caller makes it longer where an item does not fit.
type window struct {
	cursor
	r    *pagecache.Reader
	base uint64 // section offset of b[0]
	end  uint64 // section offset at which reading stops
	last bool   // b reaches end
	buf  []byte
}

// open puts the window at off of a section.
func (w *window) open(r *pagecache.Reader, off, end uint64, be bool) {
	w.r, w.end = r, min(end, r.Size())
	w.cursor = cursor{be: be}
	w.seek(off)
}

// pos is the section offset of the cursor.
func (w *window) pos() uint64 { return w.base + uint64(w.i) }

// seek moves the cursor.
func (w *window) seek(off uint64) {
	w.short = false
	off = min(off, w.end)
	if p := w.r.Whole(); p != nil {
		w.b, w.base, w.i, w.last = p[:w.end], 0, int(off), true
		return
	}
	if off >= w.base && off-w.base < uint64(len(w.b)) && (w.last || uint64(len(w.b))-(off-w.base) >= 512) {
		w.i = int(off - w.base)
		return
	}
	w.load(off, windowSize)
}

func (w *window) load(off uint64, n int) {
	n = int(min(uint64(n), w.end-off))
	if cap(w.buf) < n {
		w.buf = make([]byte, max(n, min(windowSize, 4*n)))
	}
	got := w.r.ReadInto(w.buf[:n], off)
	w.b, w.base, w.i, w.last, w.short = w.buf[:got], off, 0, got < n || off+uint64(n) >= w.end, false
}

// ahead loads more bytes if there are few before the end of the window.
func (w *window) ahead() {
	if !w.last && len(w.b)-w.i < 512 {
		w.load(w.pos(), windowSize)
	}
}

// grow is called after a read that was short: it makes the window longer, puts
// the cursor at off and reports whether a second try makes sense.
func (w *window) grow(off uint64) bool {
	n := len(w.b)
	if w.last || n >= maxWindow {
		return false
	}
	if w.base == off {
		n *= 4
	}
	w.load(off, min(max(n, windowSize), maxWindow))
	return true
}
