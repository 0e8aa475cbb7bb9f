package symbolicate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/symfile"
)

// ParseNative reads the body of a request to Symbolicator's /symbolicate. The error
// is a RequestError.
func ParseNative(body []byte) (NativeRequest, error) {
	var q NativeRequest
	if err := checkValues(body); err != nil {
		return q, err
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return q, badRequest("invalid JSON: %v", err)
	}
	if len(q.Stacktraces) == 0 {
		q.Stacktraces = q.Threads
	}
	frames := 0
	for _, s := range q.Stacktraces {
		frames += len(s.Frames)
	}
	if len(q.Modules) > maxModules || frames > maxFrames {
		return q, badRequest("please limit a request to %d modules and %d frames", maxModules, maxFrames)
	}
	return q, nil
}

// moduleAt returns the index of the module that contains an address, and the
// address relative to it.
func (q *NativeRequest) moduleAt(f NativeFrame) (module int, rva uint64, ok bool) {
	if rel, is := strings.CutPrefix(f.AddrMode, "rel:"); is {
		n, err := strconv.Atoi(rel)
		if err != nil || n < 0 || n >= len(q.Modules) {
			return 0, 0, false
		}
		return n, uint64(f.Instruction), true
	}
	if q.images == nil {
		q.images = newImages(q.Modules)
	}
	if module = q.images.at(f.Instruction); module < 0 {
		return 0, 0, false
	}
	return module, uint64(f.Instruction - q.Modules[module].ImageAddr), true
}

// images finds modules by addresses. A request may have so many of both that not every
// address can be compared with every module.
type images struct {
	modules []NativeModule
	starts  []Hex // the addresses from which on another module may be found, in order
	found   []int // the module from each of them on; notSought before the first question
}

// Values of images.found beside the index of a module.
const (
	noImage   = -1
	notSought = -2
)

func newImages(modules []NativeModule) *images {
	im := &images{modules: modules}
	for i := range modules {
		m := &modules[i]
		im.starts = append(im.starts, m.ImageAddr)
		if end := m.ImageAddr + Hex(m.ImageSize); end > m.ImageAddr {
			im.starts = append(im.starts, end)
		}
	}
	slices.Sort(im.starts)
	im.starts = slices.Compact(im.starts)
	im.found = slices.Repeat([]int{notSought}, len(im.starts))
	return im
}

// at returns the index of the module at an address, or noImage.
func (im *images) at(addr Hex) int {
	i, exact := slices.BinarySearch(im.starts, addr)
	if !exact {
		i--
	}
	if i < 0 {
		return noImage
	}
	if im.found[i] == notSought {
		im.found[i] = im.seek(addr)
	}
	return im.found[i]
}

// seek compares an address with all modules: of those that contain it, the one that begins
// last is found.
func (im *images) seek(addr Hex) int {
	best := noImage
	for i := range im.modules {
		m := &im.modules[i]
		switch {
		case m.Type == managed: // IL has offsets only
		case addr < m.ImageAddr || best >= 0 && m.ImageAddr <= im.modules[best].ImageAddr:
		case m.ImageSize > 0 && uint64(addr-m.ImageAddr) >= m.ImageSize:
		default:
			best = i
		}
	}
	return best
}

// Native answers a request of Symbolicator's API.
func Native(ctx context.Context, src Source, texts Texts, q NativeRequest) (NativeAnswer, error) {
	around := sourceLines{texts: texts, files: map[sourceKey][][]byte{}}
	queries := make([]ModuleQuery, len(q.Modules))
	used := make([]bool, len(q.Modules))
	for i, m := range q.Modules {
		queries[i] = m.Query()
	}
	for _, s := range q.Stacktraces {
		for _, f := range s.Frames {
			if m, _, ok := q.moduleAt(f); ok {
				used[m] = known(q.Modules[m].Type)
			}
		}
	}
	modules := openModules(ctx, src, queries, used)
	defer closeModules(modules)
	a := NativeAnswer{Status: "completed", Stacktraces: make([]NativeStacktrace, len(q.Stacktraces)), Modules: slices.Clone(q.Modules)}
	for i := range a.Modules {
		a.Modules[i].note(used[i], modules[i], q.Options.DIFCandidates)
	}
	var size answerSize
	for i, s := range q.Stacktraces {
		out := s
		out.Frames = []NativeFrame{}
		for k, f := range s.Frames {
			if k%framesAtOnce == 0 && ctx.Err() != nil {
				return a, ctx.Err()
			}
			frames := q.frame(k, f, s, modules)
			if at, _, ok := q.moduleAt(f); ok && q.Options.SourceContext && texts != nil {
				for i := range frames {
					if err := around.add(ctx, at, queries[at], &frames[i]); err != nil {
						return a, err
					}
					if frames[i].ContextLine != "" && a.Modules[at].Features != nil {
						a.Modules[at].Features.Sources = true
					}
				}
			}
			text := 0
			for i := range frames {
				text += frames[i].text()
			}
			if err := size.add(len(frames), text); err != nil {
				return a, err
			}
			out.Frames = append(out.Frames, frames...)
		}
		if q.Options.FrameOrder == "caller_first" {
			slices.Reverse(out.Frames)
		}
		a.Stacktraces[i] = out
	}
	return a, nil
}

// text is how many bytes the names and the source lines in a frame have.
func (f *NativeFrame) text() int {
	n := len(f.Package) + len(f.Symbol) + len(f.Function) + len(f.AbsPath) + len(f.Filename) + len(f.ContextLine)
	for _, l := range f.PreContext {
		n += len(l)
	}
	for _, l := range f.PostContext {
		n += len(l)
	}
	return n
}

// known reports whether modules of a type can be looked up.
func known(kind string) bool {
	switch kind {
	case "", "elf", "macho", "pe", managed:
		return true
	}
	return false
}

// Query returns the query of the depot for a module.
func (m NativeModule) Query() ModuleQuery {
	q := ModuleQuery{DebugFile: symfile.BaseName(m.DebugFile), CodeFile: symfile.BaseName(m.CodeFile), CodeID: m.CodeID, IL: m.Type == managed}
	if q.DebugFile == "" {
		q.DebugFile = q.CodeFile
	}
	if id, err := debugid.Parse(m.DebugID); err == nil {
		q.DebugID = id.Breakpad()
	}
	return q
}

// note records the status of a module.
func (m *NativeModule) note(used bool, o opened, candidates bool) {
	m.Arch, m.Features = "unknown", &NativeFeatures{}
	switch {
	case !used:
		m.DebugStatus = "unused"
		if !known(m.Type) {
			m.DebugStatus = "unsupported"
		}
	case o.Module != nil:
		m.DebugStatus = "found"
		m.Arch = cmp.Or(o.Arch, m.Arch)
		m.Features.Debug, m.Features.Symbols = true, !o.IL
		if candidates && o.From != "" {
			m.Candidates = []NativeCandidate{{Source: "symdepot", Location: o.From, Download: map[string]string{"status": "ok"}}}
			for _, what := range o.Missing {
				m.Candidates = append(m.Candidates,
					NativeCandidate{Source: "symdepot", Location: what, Download: map[string]string{"status": "notfound"}})
			}
		}
	default:
		m.DebugStatus = o.fault()
		if q := m.Query(); m.DebugStatus == debugMissing && candidates && q.DebugID+q.CodeID != "" {
			at := q.DebugFile + "/" + q.DebugID
			if q.DebugID == "" {
				at = q.CodeFile + "/" + q.CodeID
			}
			m.Candidates = []NativeCandidate{{Source: "symdepot", Location: at, Download: map[string]string{"status": "notfound"}}}
		}
	}
}

// Symbolicator's words for modules that cannot be looked up.
const (
	debugMissing   = "missing"
	debugTimeout   = "timeout"
	debugMalformed = "malformed"
)

// fault is the word for why a module is not open.
func (o opened) fault() string { return StateOf(o.err) }

// StateOf is Symbolicator's word for why a module cannot be opened, by the error: missing, timeout
// or malformed. nil means missing.
func StateOf(err error) string {
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist):
		return debugMissing
	case errors.As(err, new(PendingError)), errors.Is(err, context.DeadlineExceeded), errors.Is(err, ErrBusy):
		return debugTimeout
	}
	return debugMalformed
}

// step returns how far a return address is moved back, so that it is inside the call:
// by a byte, which is enough on x86, or to the start of the instruction before.
func step(arch string, addr uint64) uint64 {
	switch {
	case strings.HasPrefix(arch, "arm64"), strings.HasPrefix(arch, "mips"), strings.HasPrefix(arch, "ppc"):
		return addr&^3 - 4
	case strings.HasPrefix(arch, "arm"):
		return addr&^1 - 2
	}
	return addr - 1
}

// adjusts reports whether the address of a frame is that of the instruction after a
// call. The address of the first frame is the instruction itself, unless the thread
// crashed with a signal of a wrong instruction or access and its instruction pointer
// is a different one: some clients omit the frame of the crash (Symbolicator's rules for
// the adjustment of instruction addresses).
func (q *NativeRequest) adjusts(n int, f NativeFrame, s NativeStacktrace, arch string) bool {
	if f.Adjust != nil {
		return *f.Adjust
	}
	if n > 0 {
		return true
	}
	if q.Signal == nil || s.Crashed != nil && !*s.Crashed || strings.HasPrefix(f.AddrMode, "rel:") {
		return false
	}
	switch *q.Signal {
	case 4, 7, 10, 11: // SIGILL, SIGBUS of Linux and of macOS, SIGSEGV
	default:
		return false
	}
	ip, ok := s.pointer(arch)
	return ok && ip != f.Instruction
}

// pointer returns the instruction pointer among the registers.
func (s NativeStacktrace) pointer(arch string) (Hex, bool) {
	var registers map[string]json.RawMessage
	if json.Unmarshal(s.Registers, &registers) != nil {
		return 0, false
	}
	name := "pc"
	switch {
	case strings.HasPrefix(arch, "x86_64"):
		name = "rip"
	case arch == "x86":
		name = "eip"
	}
	for _, n := range []string{name, "$" + name} {
		var h Hex
		if v, ok := registers[n]; ok && string(v) != "null" {
			err := h.UnmarshalJSON(v)
			return h, err == nil
		}
	}
	return 0, false
}

func (q *NativeRequest) frame(n int, f NativeFrame, s NativeStacktrace, modules []opened) []NativeFrame {
	f.OriginalIndex = &n
	if f.AddrMode == "abs" { // which is said by leaving it out
		f.AddrMode = ""
	}
	at, rva, ok := q.moduleAt(f)
	if !ok {
		f.Status = "unknown_image"
		return []NativeFrame{f}
	}
	m := &q.Modules[at]
	if f.Package == "" {
		f.Package = m.CodeFile
	}
	o := modules[at]
	if o.Module == nil {
		if f.Status = o.fault(); f.Status == debugTimeout { // it is not known of frames
			f.Status = debugMissing
		}
		return []NativeFrame{f}
	}
	if o.IL {
		return []NativeFrame{f.managedFrame(o, rva)}
	}
	lookup := rva
	if q.adjusts(n, f, s, o.Arch) && rva > 0 {
		lookup = step(o.Arch, rva)
	}
	a, ok := o.Lookup(lookup)
	if !ok || len(a.Frames) == 0 {
		f.Status = "missing_symbol"
		return []NativeFrame{f}
	}
	start := Hex(a.FunctionStart)
	if !strings.HasPrefix(f.AddrMode, "rel:") {
		start += m.ImageAddr
	}
	f.Instruction -= Hex(rva - lookup)
	list := make([]NativeFrame, len(a.Frames))
	for i, l := range a.Frames {
		g := f
		g.Status, g.Function, g.Symbol = "symbolicated", l.Function, l.Raw
		if i == len(a.Frames)-1 { // the function itself, into which the others are inlined
			g.SymAddr = &start
		}
		if g.Symbol == "" {
			g.Symbol = l.Function
		}
		if l.File != "" {
			g.AbsPath, g.Filename, g.Lineno = l.File, symfile.BaseName(l.File), l.Line
		}
		list[i] = g
	}
	return list
}
