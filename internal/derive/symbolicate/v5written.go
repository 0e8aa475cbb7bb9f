package symbolicate

import (
	"context"
	"strconv"
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

// get returns what was kept of an address, or nil. again reports whether the address was asked for
// before.
func (w *writtenFrames) get(rva uint64) (f *writtenFrame, again bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f := w.recent[rva]; f != nil {
		return f, true
	}
	if f := w.older[rva]; f != nil {
		w.put(rva, f)
		return f, true
	}
	if w.once == nil {
		w.once = new([onceSets][2]uint64)
	}
	set := &w.once[(rva+1)*0x9e3779b97f4a7c15>>onceShift]
	if set[0] == rva+1 || set[1] == rva+1 {
		return nil, true
	}
	set[0], set[1] = rva+1, set[0]
	return nil, false
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
}

// writtenModule is a module of a job whose frames are written.
type writtenModule struct {
	head string // what precedes the offset of a frame
	name int    // bytes of the name
	kept *writtenFrames
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
		for k, o := range stack {
			if k%framesAtOnce == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			m := &heads[o.Module+1]
			if m.head == "" {
				*m = j.writtenModule(o, modules)
			}
			if k > 0 {
				w.b = append(w.b, ',')
			}
			w.b = strconv.AppendInt(append(w.b, `{"frame":`...), int64(k), 10)
			w.b = append(appendHex(append(w.b, m.head...), o.Offset), '"')
			lines, text := w.frame(m, o, modules)
			if err := w.size.add(lines, m.name+text); err != nil {
				return err
			}
			w.b = append(w.b, '}')
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
		if g, ok := modules[o.Module].Looker.(gsymLooker); ok {
			m.kept = g.written
		}
	}
	return m
}

// frame writes what depends on the address alone of a frame, and returns what answerSize counts of
// that. It is kept if the address was asked for before.
func (w *v5Writer) frame(m *writtenModule, o Offset, modules []opened) (lines, text int) {
	again := false
	if m.kept != nil && o.Offset >= 0 {
		var f *writtenFrame
		if f, again = m.kept.get(uint64(o.Offset)); f != nil {
			w.b = append(w.b, f.json...)
			return f.lines, f.text
		}
	}
	a, ok := w.mem.lookup(o, modules)
	if !ok {
		return 1, 0
	}
	from := len(w.b)
	w.b = appendAnswer(w.b, &a, o.Offset)
	for i := range a.Frames {
		text += len(a.Frames[i].Function) + len(a.Frames[i].File)
	}
	lines = len(a.Frames)
	if again {
		m.kept.keep(uint64(o.Offset), &writtenFrame{json: string(w.b[from:]), lines: lines, text: text})
	}
	return lines, text
}
