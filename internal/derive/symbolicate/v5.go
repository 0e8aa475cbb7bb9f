package symbolicate

import (
	"context"
	"errors"
	"io/fs"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/functab"
)

// opened is a module of a request, after the attempt to open it.
type opened struct {
	*Module
	err error
}

// openModules opens the modules to which a list of uses refers. All of them are
// asked for at once, so that missing files are made side by side.
func openModules(ctx context.Context, src Source, list []ModuleQuery, used []bool) []opened {
	open := make([]opened, len(list))
	done := make(chan struct{})
	n := 0
	sem := make(chan struct{}, 16)
	for i := range list {
		if !used[i] || list[i].DebugID == "" && list[i].CodeID == "" {
			continue
		}
		n++
		go func() {
			sem <- struct{}{}
			open[i].Module, open[i].err = src.Module(ctx, list[i])
			<-sem
			done <- struct{}{}
		}()
	}
	for range n {
		<-done
	}
	return open
}

// closeModules ends the use of modules.
func closeModules(list []opened) {
	for _, m := range list {
		if m.Module != nil && m.Done != nil {
			m.Done()
		}
	}
}

// uses returns which modules the stacks refer to.
func (j Job) uses() []bool {
	used := make([]bool, len(j.Modules))
	for _, s := range j.Stacks {
		for _, o := range s {
			if o.Module >= 0 {
				used[o.Module] = true
			}
		}
	}
	return used
}

// V5 answers jobs. The error is that of ctx, or a RequestError if the answer is too
// long.
func V5(ctx context.Context, src Source, jobs []Job) (V5Answer, error) {
	a := V5Answer{Results: make([]V5Result, len(jobs))}
	var size answerSize
	for i, j := range jobs {
		var err error
		if a.Results[i], err = j.v5(ctx, src, &size); err != nil {
			return a, err
		}
	}
	return a, nil
}

// v5 answers a job, and adds the size of its answer to size.
func (j Job) v5(ctx context.Context, src Source, size *answerSize) (V5Result, error) {
	used := j.uses()
	modules := openModules(ctx, src, j.Modules, used)
	defer closeModules(modules)
	r := j.noted(used, modules)
	r.Stacks = make([][]V5Frame, len(j.Stacks))
	var mem v5Memory
	for i, stack := range j.Stacks {
		frames := make([]V5Frame, len(stack))
		for k, o := range stack {
			if k%framesAtOnce == 0 && ctx.Err() != nil {
				return r, ctx.Err()
			}
			frames[k] = j.frame(k, o, modules, &mem)
			if err := size.add(frames[k].counts()); err != nil {
				return r, err
			}
		}
		r.Stacks[i] = frames
	}
	return r, nil
}

// noted returns a result with the status of each module, and without stacks.
func (j Job) noted(used []bool, modules []opened) V5Result {
	r := V5Result{FoundModules: map[string]*bool{}}
	for i, m := range j.Modules {
		r.note(m.DebugFile+"/"+m.DebugID, used[i], modules[i])
	}
	return r
}

// note records the status of a module.
func (r *V5Result) note(key string, used bool, m opened) {
	if !used {
		if _, ok := r.FoundModules[key]; !ok {
			r.FoundModules[key] = nil
		}
		return
	}
	found := m.Module != nil
	r.FoundModules[key] = &found
	if found {
		if m.From != "" {
			if r.ModuleSources == nil {
				r.ModuleSources = map[string]string{}
			}
			r.ModuleSources[key] = m.From
		}
		if len(m.Missing) > 0 {
			if r.ModuleNotes == nil {
				r.ModuleNotes = map[string][]string{}
			}
			notes := make([]string, len(m.Missing))
			for i, what := range m.Missing {
				notes[i] = "not found: " + what
			}
			r.ModuleNotes[key] = notes
		}
		return
	}
	if r.ModuleErrors == nil {
		r.ModuleErrors = map[string][]V5Error{}
	}
	r.ModuleErrors[key] = []V5Error{moduleError(m.err)}
}

// moduleError describes to clients why a module cannot be used. Details stay in the
// log: they may name files.
func moduleError(err error) V5Error {
	if e, ok := errors.AsType[NoWorkerError](err); ok {
		return V5Error{"NotFound", e.Error()}
	}
	if e, ok := errors.AsType[PortableError](err); ok {
		return V5Error{"Unusable", e.Error()}
	}
	if e, ok := errors.AsType[UnusableError](err); ok {
		return V5Error{"Unusable", e.Error()}
	}
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist):
		return V5Error{"NotFound", "no symbol file of this module was found"}
	case errors.As(err, new(PendingError)):
		return V5Error{"Pending", "the symbols of this module are being prepared; ask again later"}
	case errors.Is(err, ErrBusy):
		return V5Error{"Busy", "too many modules are being prepared; ask again later"}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return V5Error{"Timeout", "the symbols of this module were not read in time; ask again later"}
	}
	return V5Error{"Unusable", "the symbol file of this module cannot be used"}
}

const unknownModule = "<unknown>"

// moduleName returns the name of a module in answers: the program's if it is known.
func (j Job) moduleName(o Offset, modules []opened) string {
	if o.Module < 0 {
		return unknownModule
	}
	name := j.Modules[o.Module].DebugFile
	if m := modules[o.Module].Module; m != nil && m.CodeFile != "" {
		name = m.CodeFile
	}
	if name == "" {
		return unknownModule
	}
	return name
}

// hexOffset prints an offset as the APIs do.
func hexOffset(n int64) string {
	var text [maxHex]byte
	return string(appendHex(text[:0], n))
}

// maxHex is how many bytes appendHex appends at most: those of the least number.
const maxHex = len("-0x8000000000000000")

// appendHex appends an offset as the APIs print it.
func appendHex(b []byte, n int64) []byte {
	if n >= 0 {
		return strconv.AppendInt(append(b, "0x"...), n, 16)
	}
	return strconv.AppendUint(append(b, "-0x"...), -uint64(n), 16)
}

// v5Memory is memory that many frames of an answer share: an allocation for each of
// their parts would take longer than looking them up.
type v5Memory struct {
	lines   []functab.Line // of one lookup
	inlines []V5Inline     // the next are made behind its length
	hex     strings.Builder
}

// inlinesAtOnce is for how many inlined calls memory is taken at once.
const inlinesAtOnce = 256

// calls returns an empty list with room for n inlined calls.
func (m *v5Memory) calls(n int) []V5Inline {
	if cap(m.inlines)-len(m.inlines) < n {
		m.inlines = make([]V5Inline, 0, max(n, inlinesAtOnce))
	}
	first := len(m.inlines)
	m.inlines = m.inlines[:first+n]
	return m.inlines[first : first : first+n]
}

// hexOffset is hexOffset, but its texts share memory.
func (m *v5Memory) hexOffset(n int64) string {
	if m.hex.Cap()-m.hex.Len() < maxHex {
		m.hex.Reset()
		m.hex.Grow(4096)
	}
	var text [maxHex]byte
	first := m.hex.Len()
	_, _ = m.hex.Write(appendHex(text[:0], n)) // never fails
	return m.hex.String()[first:]
}

// lookup looks one offset up. Raw names may lack, and the answer is valid until the
// next lookup.
func (m *v5Memory) lookup(o Offset, modules []opened) (a functab.Answer, ok bool) {
	if o.Module < 0 || o.Offset < 0 || modules[o.Module].Module == nil {
		return functab.Answer{}, false
	}
	rva := uint64(o.Offset)
	if l, is := modules[o.Module].Looker.(shownLooker); is {
		a, ok = l.LookupShown(rva, m.lines)
		if a.Frames != nil {
			m.lines = a.Frames
		}
	} else {
		a, ok = modules[o.Module].Lookup(rva)
	}
	return a, ok && len(a.Frames) > 0
}

func (j Job) frame(n int, o Offset, modules []opened, mem *v5Memory) V5Frame {
	f := V5Frame{Frame: n, Module: j.moduleName(o, modules), ModuleOffset: mem.hexOffset(o.Offset)}
	a, ok := mem.lookup(o, modules)
	if !ok {
		return f
	}
	outer := a.Frames[len(a.Frames)-1]
	f.Function = outer.Function
	f.FunctionOffset = mem.hexOffset(o.Offset - int64(a.FunctionStart))
	if a.FunctionSize > 0 {
		f.FunctionSize = mem.hexOffset(int64(a.FunctionSize))
	}
	f.File, f.Line = position(outer)
	if len(a.Frames) > 1 {
		f.Inlines = mem.calls(len(a.Frames) - 1)
	}
	for _, l := range a.Frames[:len(a.Frames)-1] {
		in := V5Inline{Function: l.Function}
		in.File, in.Line = position(l)
		f.Inlines = append(f.Inlines, in)
	}
	return f
}

// counts returns what answerSize counts of a frame.
func (f *V5Frame) counts() (lines, text int) {
	n := len(f.Module) + len(f.Function) + len(f.File)
	for i := range f.Inlines {
		n += len(f.Inlines[i].Function) + len(f.Inlines[i].File)
	}
	return 1 + len(f.Inlines), n
}

// position returns the file and the line of a frame: no line without a file.
func position(l functab.Line) (string, uint32) {
	if l.File == "" {
		return "", 0
	}
	return l.File, l.Line
}

// V4Answer is the answer to a request of version 4.
type V4Answer struct {
	Stacks [][]string `json:"symbolicatedStacks"`
	// KnownModules has an entry for each module of the request; null if no frame
	// refers to it.
	KnownModules []*bool `json:"knownModules"`
}

// V4 answers one job in version 4, which has no lines and no inlined functions. The error
// is that of V5.
func V4(ctx context.Context, src Source, j Job) (V4Answer, error) {
	used := j.uses()
	modules := openModules(ctx, src, j.Modules, used)
	defer closeModules(modules)
	a := V4Answer{Stacks: make([][]string, len(j.Stacks)), KnownModules: make([]*bool, len(j.Modules))}
	for i := range j.Modules {
		if used[i] {
			found := modules[i].Module != nil
			a.KnownModules[i] = &found
		}
	}
	var mem v5Memory
	var size answerSize
	for i, stack := range j.Stacks {
		list := make([]string, len(stack))
		for k, o := range stack {
			if k%framesAtOnce == 0 && ctx.Err() != nil {
				return a, ctx.Err()
			}
			what := hexOffset(o.Offset)
			if f, ok := mem.lookup(o, modules); ok {
				what = f.Frames[len(f.Frames)-1].Function
			}
			list[k] = what + " (in " + j.moduleName(o, modules) + ")"
			if err := size.add(1, len(list[k])); err != nil {
				return a, err
			}
		}
		a.Stacks[i] = list
	}
	return a, nil
}
