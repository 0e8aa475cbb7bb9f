// Package crash finds the stacks of crashed processes in their dumps. It walks a dump in a child
// process, because dumps come from anywhere (Pool), with the unwind rules of the modules that the
// caller may read; then it gives the frames their functions, files and lines, as package symbolicate
// does for every address, and makes the key that groups crashes of one cause.
//
// A child process knows nothing but the dump. It asks for the rules of single addresses by the
// number of a module, and the server answers from the files that the caller may read: the child
// opens no file and no connection, and it gets no other bytes of the modules.
package crash

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/derive/symbolicate"
	"github.com/symdepot/symdepot/stackwalk"
	"github.com/symdepot/symdepot/symfile"
)

// maxModules is how many modules of a dump are listed in an answer in which no frame is.
const maxModules = 4096

// maxShown is how many frames of a thread Symbolicator shows.
const maxShown = 256

// Analysis are the stacks of a dump, with names.
type Analysis struct {
	walk    *Walk
	modules []int // numbers in the dump of the modules of answer
	states  []state
	answer  symbolicate.NativeAnswer
}

// state is what was found out of a module of the dump.
type state struct {
	unwind, from, rules, help string
	ruleless                  bool // its program is there, and has no unwind rules
}

// Analyze walks a dump and names the frames. walk is WalkFile for the dump, or Pool.Walk. texts may
// be nil: then there are no source lines. candidates lists the files of modules in the answer of
// Native. The error is that of walk, of ctx, or a symbolicate.RequestError for an answer that is too
// long.
func Analyze(
	ctx context.Context, walk func(context.Context, Resolver) (*Walk, error), src Source, texts symbolicate.Texts, candidates bool,
) (*Analysis, error) {
	r := &resolver{src: src}
	defer r.close()
	w, err := walk(ctx, r)
	if err != nil {
		return nil, err
	}
	a := &Analysis{walk: w, states: make([]state, len(r.modules))}
	q := symbolicate.NativeRequest{Stacktraces: make([]symbolicate.NativeStacktrace, len(w.Threads))}
	q.Options.SourceContext, q.Options.DIFCandidates = texts != nil, candidates
	for i := range w.Threads {
		if q.Stacktraces[i], err = w.native(i); err != nil {
			return nil, err
		}
	}
	a.choose(r, &q)
	if a.answer, err = symbolicate.Native(ctx, src, texts, q); err != nil {
		return nil, err
	}
	a.note(r)
	return a, nil
}

// choose adds the modules to a request that have frames, and others up to a limit.
func (a *Analysis) choose(r *resolver, q *symbolicate.NativeRequest) {
	used := make([]bool, len(r.native))
	for i := range a.walk.Threads {
		for _, f := range a.walk.Threads[i].Frames {
			if f.Module >= 0 {
				used[f.Module] = true
			}
		}
	}
	unused := 0
	for i, n := range r.native {
		if !used[i] && r.dump[i].Unloaded {
			continue // its addresses may be those of another module
		}
		if !used[i] {
			if unused++; unused > maxModules {
				continue
			}
		}
		a.modules = append(a.modules, i)
		q.Modules = append(q.Modules, n)
	}
	if unused > maxModules {
		a.walk.Problems = append(a.walk.Problems,
			fmt.Sprintf("the dump has %d modules without frames, of which %d are listed", unused, maxModules))
	}
}

// note takes over what the walk has found out of the modules.
func (a *Analysis) note(r *resolver) {
	for k, i := range a.modules {
		n, m := &a.answer.Modules[k], &r.modules[i]
		if !m.asked {
			a.states[i].unwind = "unused"
			if a.walk.Kind != KindReport {
				n.UnwindStatus = "unused"
			} else if n.DebugID != "" && n.DebugStatus != "unused" { // its stacks need names only
				a.states[i].help = m.help(n, n.DebugStatus)
			}
			continue
		}
		n.UnwindStatus = m.unwind
		if m.rules != nil && n.Features != nil {
			n.Features.Unwind = true
		}
		s := &a.states[i]
		s.unwind, s.ruleless = m.unwind, errors.Is(m.uerr, symbolicate.ErrNoRules)
		if m.names != nil {
			s.from = m.names.From
		}
		if m.rules != nil {
			s.rules = m.rules.From
		}
		s.help = m.help(n, n.DebugStatus)
	}
}

// native is a thread in the words of a request to symbolicate.
func (w *Walk) native(i int) (symbolicate.NativeStacktrace, error) {
	t := &w.Threads[i]
	registers := make(map[string]symbolicate.Hex, len(t.Registers))
	for name, v := range t.Registers {
		registers[name] = symbolicate.Hex(v)
	}
	text, err := json.Marshal(registers)
	if err != nil {
		return symbolicate.NativeStacktrace{}, err
	}
	requesting := i == w.Requesting
	s := symbolicate.NativeStacktrace{ThreadID: &t.ID, ThreadName: t.Name, Crashed: &requesting, Registers: text}
	for _, f := range t.Frames {
		frame := symbolicate.NativeFrame{Instruction: symbolicate.Hex(f.PC), Trust: nativeTrust(f.Trust)}
		if f.Reported != nil {
			frame.Package = f.Reported.Module
		}
		s.Frames = append(s.Frames, frame)
	}
	return s, nil
}

// nativeTrust is Symbolicator's word for a trust.
func nativeTrust(t stackwalk.Trust) string {
	switch t {
	case stackwalk.FramePointer:
		return "fp"
	case stackwalk.CFIScan:
		return "cfiscan"
	}
	return string(t)
}

// Pending reports whether files of modules are still being fetched or made.
func (a *Analysis) Pending() bool {
	return len(a.Waiting()) > 0
}

// Waiting returns the modules of Pending.
func (a *Analysis) Waiting() (list []symbolicate.ModuleQuery) {
	for i := range a.answer.Modules {
		if m := &a.answer.Modules[i]; m.DebugStatus == "timeout" || m.UnwindStatus == "timeout" {
			list = append(list, m.Query())
		}
	}
	return list
}

// Native is the answer of Symbolicator's POST /minidump.
func (a *Analysis) Native() symbolicate.NativeAnswer {
	w, n := a.walk, a.answer
	version, build, _ := strings.Cut(w.Version, " ")
	n.NativeCrash = &symbolicate.NativeCrash{
		System:  symbolicate.NativeSystem{OSName: osName(w.OS), OSVersion: version, OSBuild: build, Arch: w.Arch, Device: w.Device},
		Crashed: w.Exception != nil || w.Kind == KindReport, Assertion: w.Assertion, Details: w.Details,
	}
	if !w.Time.IsZero() {
		n.Timestamp = w.Time.Unix()
	}
	switch e := w.Exception; {
	case e != nil && w.Kind == KindReport:
		n.CrashReason, n.Assertion = e.Reason, ""
	case e != nil:
		n.CrashReason = fmt.Sprintf("%s / %#x", e.Reason, e.Address)
	}
	if n.Modules == nil {
		n.Modules = []symbolicate.NativeModule{}
	}
	n.Stacktraces = slices.Clone(n.Stacktraces)
	for i := range n.Stacktraces {
		s := &n.Stacktraces[i]
		s.Frames = s.Frames[:shown(s.Frames)]
	}
	n.Modules = slices.Clone(n.Modules)
	for i := range n.Modules {
		n.Modules[i].CodeID = strings.ToLower(n.Modules[i].CodeID)
	}
	if w.Kind != KindReport {
		sorting.Stable(n.Modules, func(a, b symbolicate.NativeModule) int {
			return cmp.Compare(a.ImageAddr, b.ImageAddr)
		})
	}
	return n
}

// shown is how many frames of an answer belong to the first maxShown calls.
func shown(frames []symbolicate.NativeFrame) int {
	for i := range frames {
		if n := frames[i].OriginalIndex; n != nil && *n >= maxShown {
			return i
		}
	}
	return len(frames)
}

// osName is Symbolicator's name of an operating system.
func osName(os string) string {
	switch os {
	case "windows":
		return "Windows"
	case "macos":
		return "macOS"
	case "ios":
		return "iOS"
	case "linux":
		return "Linux"
	case "android":
		return "Android"
	}
	return os
}

// Stacks is the answer in our own form.
func (a *Analysis) Stacks() *wire.Stacks {
	w := a.walk
	s := &wire.Stacks{
		Kind: string(w.Kind), PID: int64(w.PID), Uptime: int64(w.Uptime / time.Second), Requesting: w.Requesting,
		System:  wire.StackSystem{OS: w.OS, Version: w.Version, Arch: w.Arch, CPU: w.CPUInfo, CPUs: w.CPUs},
		Pending: a.Pending(), Problems: w.Problems, Threads: make([]wire.StackThread, len(w.Threads)),
		Modules: []wire.StackModule{},
	}
	if !w.Time.IsZero() {
		s.Time = &w.Time
	}
	if e := w.Exception; e != nil {
		s.Crash = &wire.StackCrash{Reason: e.Reason, Address: hex(e.Address), Assertion: w.Assertion}
		s.Crash.Meaning = meaning(e.Reason, e.Address, w.Kind != KindReport || e.Address != 0) // a report may not have it
	} else if w.Assertion != "" {
		s.Crash = &wire.StackCrash{Reason: "assertion", Address: hex(0), Assertion: w.Assertion}
	}
	for _, n := range w.Annotations {
		s.Annotations = append(s.Annotations, wire.StackAnnotation{Module: n.Module, Name: n.Name, Value: n.Value})
	}
	for k, i := range a.modules {
		s.Modules = append(s.Modules, a.module(k, i))
	}
	for i := range s.Threads {
		s.Threads[i] = a.thread(i)
	}
	i := w.Requesting
	if w.Thrown > 0 {
		i = w.Thrown - 1
	}
	if i >= 0 {
		s.KeyFrames = keyFrames(&s.Threads[i])
		s.Key = keyOf(s.KeyFrames)
	}
	return s
}

// module describes a module: number k of the answer, and number i of the dump.
func (a *Analysis) module(k, i int) wire.StackModule {
	m, n, st := &a.walk.Modules[i], &a.answer.Modules[k], &a.states[i]
	out := wire.StackModule{
		Name: symfile.BaseName(n.CodeFile), Path: n.CodeFile, Address: hex(m.Base), Size: int64(m.Size), CodeID: n.CodeID,
		DebugFile: symfile.BaseName(n.DebugFile), DebugID: n.Query().DebugID, Unloaded: m.Unloaded, Debug: n.DebugStatus, Unwind: st.unwind,
		From: st.from, Help: st.help,
	}
	if st.rules != "" && st.rules != st.from {
		if out.From != "" {
			out.From += "; "
		}
		out.From += "unwind rules: " + st.rules
	}
	return out
}

// thread describes a thread.
func (a *Analysis) thread(i int) wire.StackThread {
	t, n := &a.walk.Threads[i], a.answer.Stacktraces[i].Frames
	out := wire.StackThread{
		ID: int64(t.ID), Name: t.Name, Crashed: i == a.walk.Requesting && a.walk.Exception != nil, Problem: t.Problem,
		Frames: []wire.StackFrame{}, Registers: make(map[string]string, len(t.Registers)),
	}
	if t.Writer {
		out.Problem = "the thread wrote the dump"
	}
	for name, v := range t.Registers {
		out.Registers[name] = hex(v)
	}
	for k := range t.Frames {
		first := n
		for len(n) > 0 && n[0].OriginalIndex != nil && *n[0].OriginalIndex == k {
			n = n[1:]
		}
		out.Frames = append(out.Frames, a.frame(&t.Frames[k], first[:len(first)-len(n)]))
	}
	return out
}

// frame describes a frame: list has its inlined functions, innermost first, then the function.
func (a *Analysis) frame(f *Frame, list []symbolicate.NativeFrame) wire.StackFrame {
	out := wire.StackFrame{Address: hex(f.PC), Trust: string(f.Trust), Problem: f.Problem}
	if f.Module >= 0 {
		m := &a.walk.Modules[f.Module]
		out.Module, out.Offset = m.Name, hex(f.PC-m.Base)
	}
	if len(list) == 0 || list[len(list)-1].Function == "" {
		out.Function, out.FunctionOffset, out.File, out.Line = f.Reported.name()
	}
	if len(list) == 0 {
		return out
	}
	outer := &list[len(list)-1]
	out.Status = outer.Status
	if outer.Function == "" {
		return out
	}
	out.Function, out.File, out.Line = outer.Function, outer.AbsPath, int(outer.Lineno)
	out.Source, out.SourceBefore, out.SourceAfter = list[0].ContextLine, list[0].PreContext, list[0].PostContext
	if outer.SymAddr != nil {
		out.FunctionOffset = hex(f.PC - uint64(*outer.SymAddr))
	}
	for _, in := range list[:len(list)-1] {
		out.Inlines = append(out.Inlines, wire.StackInline{Function: in.Function, File: in.AbsPath, Line: int(in.Lineno)})
	}
	return out
}

func hex(n uint64) string { return fmt.Sprintf("%#x", n) }
