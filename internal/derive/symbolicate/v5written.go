package symbolicate

import (
	"context"
	"strconv"
	"sync"

	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/gsym"
)

const (
	// maxWritten bounds what is kept of the written answers of a module, in bytes.
	maxWritten = 24 << 20
	// onceSets is how many sets of onceSize addresses are remembered as asked for once; onceShift
	// leaves as many values of a hash of 64 bits.
	onceSets, onceShift = 1 << onceBits, 64 - onceBits
	onceBits, onceSize  = 14, 4
)

// writtenFrames caches frames of answers to /symbolicate/v5 for one module, as JSON, by address:
// crash reports and profiles ask for some addresses again and again. A frame is kept from the second
// request on. When they exceed maxWritten, those that were not used for the longest time are
// forgotten. The zero value is empty.
type writtenFrames struct {
	mu            sync.Mutex
	recent, older map[uint64]*writtenFrame
	size          int // bytes of recent
	// once has a part of the hash of each address that was asked for: in the set of its hash,
	// the last one first.
	once *[onceSets][onceSize]uint32
}

// writtenFrame is what depends on the address alone of a frame.
type writtenFrame struct {
	json        string // the members, each with a comma before it
	lines, text int    // as answerSize counts them
}

// bytes is how much memory a frame needs, about.
func (f *writtenFrame) bytes() int { return len(f.json) + 128 }

// keptFrame is what is known of an address.
type keptFrame struct {
	*writtenFrame      // nil: nothing was kept
	again         bool // the address was asked for before
}

// get sets what was kept of some addresses.
func (w *writtenFrames) get(rvas []uint64, out []keptFrame) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.once == nil {
		w.once = new([onceSets][onceSize]uint32)
	}
	for k, rva := range rvas {
		f := w.recent[rva]
		if f == nil {
			if f = w.older[rva]; f != nil {
				w.put(rva, f)
			}
		}
		out[k] = keptFrame{f, f != nil || w.again(rva)}
	}
}

// again reports whether an address was asked for before, and notes it. The caller holds mu.
func (w *writtenFrames) again(rva uint64) bool {
	hash := (rva + 1) * 0x9e3779b97f4a7c15
	set, part := &w.once[hash>>onceShift], uint32(hash>>8)
	for _, p := range set {
		if p == part {
			return true
		}
	}
	copy(set[1:], set[:onceSize-1])
	set[0] = part
	return false
}

// keep keeps the frame of an address, unless it alone would exceed the limit.
func (w *writtenFrames) keep(rva uint64, f *writtenFrame) {
	if f.bytes() > maxWritten/2 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.put(rva, f)
}

// put keeps a frame. The caller holds mu.
func (w *writtenFrames) put(rva uint64, f *writtenFrame) {
	size := f.bytes()
	if w.recent == nil || w.size+size > maxWritten/2 {
		w.older, w.recent, w.size = w.recent, map[uint64]*writtenFrame{}, 0
	}
	w.size += size
	w.recent[rva] = f
}

// WrittenV5 is an answer of version 5 as JSON.
type WrittenV5 struct{ text *[]byte }

// writtenTexts is memory for such answers, which is used again: maxKeptText bytes of each at most.
var writtenTexts = sync.Pool{New: func() any { return new([]byte) }}

const maxKeptText = 4 << 20

// AppendJSON appends the answer. It is called once: the memory of the answer is used again.
func (a WrittenV5) AppendJSON(b []byte) ([]byte, error) {
	text := *a.text
	if len(b) == 0 { // the memories are exchanged
		*a.text = b
		writtenTexts.Put(a.text)
		return text, nil
	}
	b = append(b, text...)
	a.free()
	return b, nil
}

func (a WrittenV5) free() {
	if cap(*a.text) <= maxKeptText {
		writtenTexts.Put(a.text)
	}
}

// V5Written answers jobs as V5 does, in JSON: equal to what an Encoder of encoding/json without
// escapes for HTML makes of the answer of V5, which needs several times as long and more memory than
// the answer has.
func V5Written(ctx context.Context, src Source, jobs []Job) (_ WrittenV5, err error) {
	a := WrittenV5{writtenTexts.Get().(*[]byte)}
	w := v5Writer{b: append((*a.text)[:0], `{"results":[`...)}
	defer func() {
		if *a.text = w.b; err != nil {
			a.free()
		}
	}()
	for i, j := range jobs {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		if err := w.job(ctx, src, j); err != nil {
			return WrittenV5{}, err
		}
	}
	w.b = append(w.b, `]}`...)
	return a, nil
}

// v5Writer writes an answer of version 5.
type v5Writer struct {
	b    []byte
	size answerSize
	mem  v5Memory
	run  writtenRun
}

// runAtOnce is how many frames of one module are looked up at once.
const runAtOnce = 16

// writtenRun is the memory of looking up some frames of one module, whose offsets are known.
type writtenRun struct {
	rvas, missing [runAtOnce]uint64
	kept          [runAtOnce]keptFrame
	found         []gsym.Found
	lines         []functab.Line
}

// writtenModule is a module of a job whose frames are written.
type writtenModule struct {
	head string // what precedes the offset of a frame
	name int    // bytes of the name
	gsym gsymLooker
}

// job writes the answer to a job.
func (w *v5Writer) job(ctx context.Context, src Source, j Job) error {
	used := j.uses()
	modules := openModules(ctx, src, j.Modules, used)
	defer closeModules(modules)
	heads := make([]writtenModule, len(modules)+1) // of no module, and of each
	w.b = append(w.b, `{"stacks":[`...)
	for i, stack := range j.Stacks {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.b = append(w.b, '[')
		for k := 0; k < len(stack); {
			if k%framesAtOnce < runAtOnce && ctx.Err() != nil {
				return ctx.Err()
			}
			m := &heads[stack[k].Module+1]
			if m.head == "" {
				*m = j.writtenModule(stack[k], modules)
			}
			n, err := w.frames(k, stack, m, modules)
			if err != nil {
				return err
			}
			k += n
		}
		w.b = append(w.b, ']')
	}
	var err error
	w.b, err = j.noted(used, modules).appendModules(append(w.b, ']'))
	return err
}

// writtenModule returns the module of a frame.
func (j Job) writtenModule(o Offset, modules []opened) writtenModule {
	name := j.moduleName(o, modules)
	m := writtenModule{head: string(append(appendText([]byte(`,"module":`), name), `,"module_offset":"`...)), name: len(name)}
	if o.Module >= 0 && modules[o.Module].Module != nil {
		m.gsym, _ = modules[o.Module].Looker.(gsymLooker)
	}
	return m
}

// frames writes frames of one module from number k of a stack on, and returns how many.
func (w *v5Writer) frames(k int, stack []Offset, m *writtenModule, modules []opened) (n int, err error) {
	module := stack[k].Module
	stack = stack[k:min(len(stack), k+runAtOnce)]
	for n < len(stack) && stack[n].Module == module && (m.gsym.f == nil || stack[n].Offset >= 0) {
		w.run.rvas[n] = uint64(stack[n].Offset)
		n++
	}
	batch := m.gsym.f != nil && n > 0
	n = max(n, 1)
	if batch {
		w.look(m.gsym, n)
	}
	missing := 0
	for i, o := range stack[:n] {
		if k+i > 0 {
			w.b = append(w.b, ',')
		}
		w.b = strconv.AppendInt(append(w.b, `{"frame":`...), int64(k+i), 10)
		w.b = append(appendHex(append(w.b, m.head...), o.Offset), '"')
		lines, text := 1, 0
		if !batch {
			if a, ok := w.mem.lookup(o, modules); ok {
				lines, text = w.answer(&a, o)
			}
		} else if f := w.run.kept[i]; f.writtenFrame != nil {
			w.b = append(w.b, f.json...)
			lines, text = f.lines, f.text
		} else {
			found := &w.run.found[missing]
			missing++
			if found.OK && len(found.Frames) > 0 {
				from := len(w.b)
				lines, text = w.answer(&found.Answer, o)
				if f.again {
					m.gsym.written.keep(w.run.rvas[i], &writtenFrame{json: string(w.b[from:]), lines: lines, text: text})
				}
			}
		}
		w.b = append(w.b, '}')
		if err := w.size.add(lines, m.name+text); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// look looks up the first n offsets of the run, of which nothing is kept.
func (w *v5Writer) look(g gsymLooker, n int) {
	g.written.get(w.run.rvas[:n], w.run.kept[:n])
	missing := w.run.missing[:0]
	for i := range n {
		if w.run.kept[i].writtenFrame == nil {
			missing = append(missing, w.run.rvas[i])
		}
	}
	w.run.found, w.run.lines = g.lookupEach(missing, w.run.found, w.run.lines)
}

// answer writes what depends on the address alone of a frame, and returns what answerSize counts
// of that.
func (w *v5Writer) answer(a *functab.Answer, o Offset) (lines, text int) {
	w.b = appendAnswer(w.b, a, o.Offset)
	for i := range a.Frames {
		text += len(a.Frames[i].Function) + len(a.Frames[i].File)
	}
	return len(a.Frames), text
}
