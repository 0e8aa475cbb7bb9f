package symbolicate

import (
	"context"
	"sync"
)

const (
	// maxWritten bounds what is kept of the written answers of a module, in bytes.
	maxWritten = 24 << 20
	// onceSets is how many sets of two addresses are remembered as asked for once; onceShift
	// leaves as many values of a hash of 64 bits.
	onceSets, onceShift = 1 << onceBits, 64 - onceBits
	onceBits            = 14
)

// writtenFrames are parts of answers of version 5 that were given for a module, as JSON, by address:
// crash reports and profiles ask for some addresses again and again. What was asked for once is
// not kept. When they exceed maxWritten, those that were not used for the longest time are
// forgotten. The zero value is empty.
type writtenFrames struct {
	mu            sync.Mutex
	recent, older map[uint64]*writtenFrame
	size          int // bytes of recent
	// once has addresses that were asked for, and one is added: in the set of its hash, the
	// last one first.
	once *[onceSets][2]uint64
}

// writtenFrame is what depends on the address alone of a frame.
type writtenFrame struct {
	json        string // the members, each with a comma before it
	lines, text int    // as answerSize counts them
}

// get returns what was kept of an address, or nil.
func (w *writtenFrames) get(rva uint64) *writtenFrame {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.recent[rva]
	if f == nil {
		if f = w.older[rva]; f != nil {
			w.put(rva, f)
		}
	}
	return f
}

// again reports whether an address was asked for before.
func (w *writtenFrames) again(rva uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.once == nil {
		w.once = new([onceSets][2]uint64)
	}
	set := &w.once[(rva+1)*0x9e3779b97f4a7c15>>onceShift]
	if set[0] == rva+1 || set[1] == rva+1 {
		return true
	}
	set[0], set[1] = rva+1, set[0]
	return false
}

// keep keeps the frame of an address.
func (w *writtenFrames) keep(rva uint64, f *writtenFrame) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.put(rva, f)
}

// put keeps a frame. The caller holds mu.
func (w *writtenFrames) put(rva uint64, f *writtenFrame) {
	size := len(f.json) + 128
	if w.recent == nil || w.size+size > maxWritten/2 {
		w.older, w.recent, w.size = w.recent, map[uint64]*writtenFrame{}, 0
	}
	w.size += size
	w.recent[rva] = f
}

// V5Written is V5 for an answer that is only written, by AppendJSON: the other members of its
// frames than Frame, Module and ModuleOffset may be empty, although the JSON has them.
func V5Written(ctx context.Context, src Source, jobs []Job) (V5Answer, error) {
	return answerV5(ctx, src, jobs, true)
}

// writtenOf returns where the frames of an offset are kept, or nil.
func (m *v5Memory) writtenOf(o Offset, modules []opened) *writtenFrames {
	if !m.onlyWritten || o.Module < 0 || o.Offset < 0 || modules[o.Module].Module == nil {
		return nil
	}
	g, _ := modules[o.Module].Looker.(gsymLooker)
	return g.written
}

// keepIn keeps what is written of a frame that has an answer, if its address was asked for before.
func (f *V5Frame) keepIn(w *writtenFrames, rva uint64) {
	if !w.again(rva) {
		return
	}
	lines, text := f.counts()
	f.rest = &writtenFrame{json: string(f.appendRest(nil)), lines: lines, text: text - len(f.Module)}
	w.keep(rva, f.rest)
}

// counts returns what answerSize counts of a frame.
func (f *V5Frame) counts() (lines, text int) {
	if f.rest != nil {
		return f.rest.lines, f.rest.text + len(f.Module)
	}
	n := len(f.Module) + len(f.Function) + len(f.File)
	for i := range f.Inlines {
		n += len(f.Inlines[i].Function) + len(f.Inlines[i].File)
	}
	return 1 + len(f.Inlines), n
}
