package symbolicate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/functab"
)

// Limits of one request to the symbolication APIs.
const (
	MaxBody    = 8 << 20 // bytes
	maxValues  = 1 << 20 // of JSON
	maxJobs    = 10      // Eliot's limit
	maxModules = 2000    // of all jobs
	maxFrames  = 200_000 // of all stacks
	maxLines   = 600_000 // of one answer, with inlined calls: a frame may have hundreds
	// maxText is how many bytes of names and of source lines one answer has: a name may
	// have thousands.
	maxText = 128 << 20
	// framesAtOnce is how many frames are looked up until it is checked whether the
	// client still waits.
	framesAtOnce = 1024
)

// RequestError is the error for a request that does not have the form of its API.
// The text is for the client.
type RequestError struct{ Title string }

func (e RequestError) Error() string { return e.Title }

func badRequest(format string, args ...any) error { return RequestError{fmt.Sprintf(format, args...)} }

// Job is one unit of a request to /symbolicate/v5 (Eliot's symbolication API,
// version 5): a list of modules, and stacks of offsets in them.
type Job struct {
	Modules []ModuleQuery
	Stacks  [][]Offset
}

// Offset is an address in a module.
type Offset struct {
	Module int   // index in the job's modules; -1: the address is in no module
	Offset int64 // from the base of the module; -1: unknown
}

// ParseV5 reads the body of a request of the versions 4 and 5. The error is a
// RequestError.
func ParseV5(body []byte) ([]Job, error) {
	if err := checkValues(body); err != nil {
		return nil, err
	}
	jobs, ok := parsePlain(body)
	if !ok || len(jobs) > maxJobs {
		var err error
		if jobs, err = parseAny(body); err != nil {
			return nil, err
		}
	}
	return jobs, limitJobs(jobs)
}

// parseAny parses any body.
func parseAny(body []byte) ([]Job, error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, badRequest("Payload is not valid JSON")
	}
	if dec.More() {
		return nil, badRequest("Payload is not valid JSON")
	}
	list := []any{v}
	if m, ok := v.(map[string]any); ok && m["jobs"] != nil {
		if list, ok = m["jobs"].([]any); !ok {
			return nil, badRequest("jobs must be a list")
		}
	}
	if len(list) > maxJobs {
		return nil, badRequest("please limit number of jobs in a single request to <= %d", maxJobs)
	}
	jobs := make([]Job, len(list))
	for i, v := range list {
		if err := jobs[i].parse(i, v); err != nil {
			return nil, err
		}
	}
	return jobs, nil
}

// limitJobs refuses jobs with too many modules or frames.
func limitJobs(jobs []Job) error {
	modules, frames := 0, 0
	for _, j := range jobs {
		modules += len(j.Modules)
		for _, s := range j.Stacks {
			frames += len(s)
		}
	}
	if modules > maxModules || frames > maxFrames {
		return badRequest("please limit a request to %d modules and %d frames", maxModules, maxFrames)
	}
	return nil
}

// Errors that refuse an answer that would need too much memory.
var (
	errLong     = badRequest("please ask for fewer frames: the answer has more than %d lines", maxLines)
	errLongText = badRequest("please ask for fewer frames: the names and the source lines of the answer have more than %d bytes", maxText)
)

// answerSize is how much of an answer there is.
type answerSize struct{ lines, text int }

// add counts a part of the answer. The error refuses the whole.
func (s *answerSize) add(lines, text int) error {
	s.lines += lines
	s.text += text
	switch {
	case s.lines > maxLines:
		return errLong
	case s.text > maxText:
		return errLongText
	}
	return nil
}

// checkValues refuses a body of more values than any request needs: decoded, each
// needs many times its bytes. Commas and brackets in names count too.
func checkValues(body []byte) error {
	n := 0
	for _, c := range body {
		if c == ',' || c == '[' || c == '{' {
			n++
		}
	}
	if n > maxValues {
		return badRequest("please limit a request to %d values", maxValues)
	}
	return nil
}

func (j *Job) parse(n int, v any) error {
	m, ok := v.(map[string]any)
	if !ok {
		return badRequest("job %d is invalid", n)
	}
	stacks, ok := m["stacks"]
	if !ok {
		return badRequest("job %d is invalid: no stacks specified", n)
	}
	modules, ok := m["memoryMap"]
	if !ok {
		return badRequest("job %d is invalid: no memoryMap specified", n)
	}
	if what := j.parseModules(modules); what != "" {
		return badRequest("job %d has invalid modules: %s", n, what)
	}
	if what := j.parseStacks(stacks); what != "" {
		return badRequest("job %d has invalid stacks: %s", n, what)
	}
	return nil
}

// parseModules returns a description of the fault, or an empty string.
func (j *Job) parseModules(v any) string {
	list, ok := v.([]any)
	if !ok {
		return "modules must be a list"
	}
	for i, v := range list {
		pair, ok := v.([]any)
		if !ok || len(pair) != 2 {
			return fmt.Sprintf("module index %d does not have a debug_filename and debug_id", i)
		}
		name, ok := pair[0].(string)
		if !ok || !validModuleName(name) {
			return fmt.Sprintf("module index %d has an invalid debug_filename", i)
		}
		id, ok := pair[1].(string)
		if !ok || id != "" && !debugid.IsHex(id) {
			return fmt.Sprintf("module index %d has an invalid debug_id", i)
		}
		j.Modules = append(j.Modules, ModuleQuery{DebugFile: name, DebugID: id})
	}
	return ""
}

// validModule reports whether a module has a valid name and id.
func validModule(q ModuleQuery) bool {
	return validModuleName(q.DebugFile) && (q.DebugID == "" || debugid.IsHex(q.DebugID))
}

// validModuleName reports whether a name has only characters that Eliot and samply
// accept in names of debug files.
func validModuleName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("_.+{}@<> ~-[]:()&,=!#'", c) >= 0 || c >= 0x80 {
			continue
		}
		return false
	}
	return len(s) <= 1024
}

// parseStacks returns a description of the fault, or an empty string.
func (j *Job) parseStacks(v any) string {
	list, ok := v.([]any)
	if !ok {
		return "stacks must be a list of lists"
	}
	if len(list) == 0 {
		return "no stacks specified"
	}
	j.Stacks = make([][]Offset, len(list))
	for i, v := range list {
		frames, ok := v.([]any)
		if !ok {
			return fmt.Sprintf("stack %d is not a list", i)
		}
		stack := make([]Offset, len(frames))
		for k, v := range frames {
			pair, ok := v.([]any)
			if !ok || len(pair) != 2 {
				return fmt.Sprintf("stack %d frame %d is not a list of two items", i, k)
			}
			module, ok := integer(pair[0])
			if !ok || module < -1 {
				return fmt.Sprintf("stack %d frame %d has an invalid module_index", i, k)
			}
			if module >= int64(len(j.Modules)) {
				return fmt.Sprintf("stack %d frame %d has a module_index that isn't in modules", i, k)
			}
			offset, ok := integer(pair[1])
			if !ok || offset < -1 {
				return fmt.Sprintf("stack %d frame %d has an invalid module_offset", i, k)
			}
			stack[k] = Offset{int(module), offset}
		}
		j.Stacks[i] = stack
	}
	return ""
}

// integer returns the value of a JSON number without a fraction.
func integer(v any) (int64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	i, err := strconv.ParseInt(string(n), 10, 64)
	return i, err == nil
}

// V5Answer is the answer to a request of version 5.
type V5Answer struct {
	Results []V5Result `json:"results"`
}

// V5Result is the answer to one job.
type V5Result struct {
	Stacks [][]V5Frame `json:"stacks"`
	// FoundModules says for each module, by "file/id" as the client spells them,
	// whether it was found; null if no frame refers to it.
	FoundModules map[string]*bool `json:"found_modules"`
	// ModuleErrors says why modules were not found (samply's addition).
	ModuleErrors map[string][]V5Error `json:"module_errors,omitempty"`
	// ModuleSources says which file answered for a module that was found (our own
	// addition).
	ModuleSources map[string]string `json:"module_sources,omitempty"`
	// ModuleNotes says which files of a module that was found were not found, so that
	// functions or lines may lack (our own addition).
	ModuleNotes map[string][]string `json:"module_notes,omitempty"`
}

// V5Error is the reason why a module was not found.
type V5Error struct {
	Name    string `json:"name"`
	Message string `json:"message"`
}

// V5Frame is one frame of a stack.
type V5Frame struct {
	Frame          int        `json:"frame"`
	Module         string     `json:"module"`
	ModuleOffset   string     `json:"module_offset"`
	Function       string     `json:"function,omitempty"`
	FunctionOffset string     `json:"function_offset,omitempty"`
	FunctionSize   string     `json:"function_size,omitempty"`
	File           string     `json:"file,omitempty"`
	Line           uint32     `json:"line,omitempty"`
	Inlines        []V5Inline `json:"inlines,omitempty"`
}

// V5Inline is a function that was inlined at a frame, innermost first.
type V5Inline struct {
	Function string `json:"function"`
	File     string `json:"file,omitempty"`
	Line     uint32 `json:"line,omitempty"`
}

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
	r := V5Result{Stacks: make([][]V5Frame, len(j.Stacks)), FoundModules: map[string]*bool{}}
	for i, m := range j.Modules {
		r.note(m.DebugFile+"/"+m.DebugID, used[i], modules[i])
	}
	var mem v5Memory
	for i, stack := range j.Stacks {
		frames := make([]V5Frame, len(stack))
		for k, o := range stack {
			if k%framesAtOnce == 0 && ctx.Err() != nil {
				return r, ctx.Err()
			}
			frames[k] = j.frame(k, o, modules, &mem)
			if err := size.add(1+len(frames[k].Inlines), frames[k].text()); err != nil {
				return r, err
			}
		}
		r.Stacks[i] = frames
	}
	return r, nil
}

// text is how many bytes the names in a frame have.
func (f *V5Frame) text() int {
	n := len(f.Module) + len(f.Function) + len(f.File)
	for i := range f.Inlines {
		n += len(f.Inlines[i].Function) + len(f.Inlines[i].File)
	}
	return n
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
	lines []functab.Line // of one lookup
	hex   strings.Builder
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
		f.Inlines = make([]V5Inline, 0, len(a.Frames)-1)
	}
	for _, l := range a.Frames[:len(a.Frames)-1] {
		in := V5Inline{Function: l.Function}
		in.File, in.Line = position(l)
		f.Inlines = append(f.Inlines, in)
	}
	return f
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
