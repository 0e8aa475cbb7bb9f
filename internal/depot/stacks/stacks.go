// Package stacks fills the frames of pasted stacks in: it finds the files of the modules that
// a text names in the depot, and looks the addresses up in them.
package stacks

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/catalog"
	"github.com/symdepot/symdepot/internal/derive/stacktext"
	"github.com/symdepot/symdepot/internal/derive/symbolicate"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// State says what is known of a module.
type State string

// The states of modules.
const (
	Found    State = "found"
	Choose   State = "choose"   // several builds have a file of this name
	Missing  State = "missing"  // no file answers
	Pending  State = "pending"  // the functions are being read: ask again later
	Unusable State = "unusable" // the file was found, and cannot be read
)

// Answer is a text with its frames filled in.
type Answer struct {
	Modules []Module
	Lines   []Line
	// Unplaced is that of the text.
	Unplaced int
}

// Module is a module of a text.
type Module struct {
	stacktext.Module
	State State
	// File is the file whose ids were looked up; nil: the depot lists none.
	File *Build
	// Builds are the files of the name of which one can be chosen, newest first.
	Builds []Build
}

// Build is a file of a module as one build made it.
type Build struct {
	Ref     blob.Ref
	Name    string
	ID      string // as tools spell it
	Arch    string
	Product string // of the newest transaction; empty for a downloaded file
	Added   time.Time

	object symfile.Object
}

// Line is a line of the text.
type Line struct {
	Text   string
	Module int     // index in Answer.Modules; -1: none
	Frames []Frame // innermost first; none: the line is as it was
}

// Frame is a function at an address.
type Frame struct {
	Function, File string
	Line           uint32
	Inlined        bool   // into the next one
	Source         string // the line of the source file, if it can be read
}

// Filler fills texts in for one client.
type Filler struct {
	Catalog *catalog.Catalog
	Scope   answer.Scope
	Source  symbolicate.Source
	Texts   symbolicate.Texts // nil: lines of source files are not shown
}

// Fill looks the addresses of a text up. chosen are the contents of modules, by their names in
// the text; one that the client may not see counts as not chosen. The error is that of ctx, of
// the depot, or a symbolicate.RequestError.
func (f Filler) Fill(ctx context.Context, s stacktext.Stack, chosen map[string]blob.Ref) (Answer, error) {
	a := Answer{Lines: make([]Line, len(s.Lines)), Unplaced: s.Unplaced}
	var q symbolicate.NativeRequest
	for _, m := range s.Modules {
		module, err := f.module(ctx, m, chosen)
		if err != nil {
			return a, err
		}
		a.Modules = append(a.Modules, module)
		q.Modules = append(q.Modules, module.query())
	}
	var at []int // line of each frame
	var stack symbolicate.NativeStacktrace
	for i, l := range s.Lines {
		a.Lines[i] = Line{Text: l.Text, Module: -1}
		if l.Address == nil {
			continue
		}
		a.Lines[i].Module = l.Address.Module
		if a.Modules[l.Address.Module].State != Found {
			continue
		}
		at = append(at, i)
		stack.Frames = append(stack.Frames, symbolicate.RelativeFrame(l.Address.Module, l.Address.Offset, l.Address.Return))
	}
	q.Stacktraces = []symbolicate.NativeStacktrace{stack}
	q.Options.SourceContext = f.Texts != nil
	native, err := symbolicate.Native(ctx, f.Source, f.Texts, q)
	if err != nil {
		return a, err
	}
	for _, n := range native.Stacktraces[0].Frames {
		if n.Function == "" || n.OriginalIndex == nil {
			continue
		}
		l := &a.Lines[at[*n.OriginalIndex]]
		if len(l.Frames) > 0 {
			l.Frames[len(l.Frames)-1].Inlined = true
		}
		l.Frames = append(l.Frames, Frame{Function: n.Function, File: n.AbsPath, Line: n.Lineno, Source: n.ContextLine})
	}
	for i, m := range native.Modules {
		if a.Modules[i].State == Found {
			a.Modules[i].State = stateOf(m)
		}
	}
	return a, nil
}

// stateOf returns the state of a module that was looked up.
func stateOf(m symbolicate.NativeModule) State {
	switch m.DebugStatus {
	case "found", "unused":
		return Found
	case "timeout":
		return Pending
	case "malformed":
		return Unusable
	}
	return Missing
}

// module finds out which file a module of a text is. A module that stays Found is looked up.
func (f Filler) module(ctx context.Context, m stacktext.Module, chosen map[string]blob.Ref) (Module, error) {
	out := Module{Module: m, State: Found}
	if m.ID != "" {
		var err error
		out.File, err = f.Held(ctx, m.Name, m.ID)
		return out, err // an upstream or a served folder may have it
	}
	if ref, ok := chosen[m.Name]; ok {
		e, err := f.Catalog.Entry(ctx, f.Scope, ref)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return out, err
		}
		if err == nil && len(e.Objects) > 0 {
			b := newBuild(&e.Objects[0].Found)
			out.File = &b
		}
	}
	for _, name := range namesOf(m.Name) {
		var err error
		if out.Builds, err = f.builds(ctx, catalog.ObjectQuery{Name: name}); err != nil {
			return out, err
		}
		if len(out.Builds) > 0 {
			break
		}
	}
	switch {
	case out.File != nil:
	case len(out.Builds) == 0:
		out.State = Missing
	case len(out.Builds) == 1:
		out.File, out.Builds = &out.Builds[0], nil
	default:
		out.State = Choose
	}
	return out, nil
}

// Held returns the file with the functions of a module that the catalog lists: of several, the one with the
// name, or else the newest. Nil: it lists none.
func (f Filler) Held(ctx context.Context, name, id string) (*Build, error) {
	list, err := f.builds(ctx, catalog.ObjectQuery{ID: id})
	if errors.Is(err, fs.ErrInvalid) || err == nil && len(list) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &list[max(0, slices.IndexFunc(list, func(b Build) bool { return strings.EqualFold(b.Name, name) }))], nil
}

// maxBuilds is how many builds of a module can be chosen from.
const maxBuilds = 50

// builds returns the files with functions that a query finds, one of each build, newest first.
func (f Filler) builds(ctx context.Context, q catalog.ObjectQuery) (list []Build, err error) {
	q.Sort, q.Limit = catalog.SortAdded, 4*maxBuilds
	p, err := f.Catalog.Objects(ctx, f.Scope, q)
	if err != nil {
		return nil, err
	}
	// Debug information comes before the program of the same module.
	sorting.Stable(p.Objects, func(a, b record.Found) int {
		return cmp.Or(b.Added.Compare(a.Added), int(b.Object.Role&symfile.Debug)-int(a.Object.Role&symfile.Debug))
	})
	seen := map[string]bool{}
	for i := range p.Objects {
		switch o := &p.Objects[i]; o.Object.Kind {
		case symfile.PDB, symfile.PE, symfile.ELF, symfile.MachO, symfile.Breakpad:
			if b := newBuild(o); b.ID != "" && !seen[b.ID] && len(list) < maxBuilds {
				seen[b.ID] = true
				list = append(list, b)
			}
		}
	}
	return list, nil
}

func newBuild(o *record.Found) Build {
	return Build{
		Ref: o.Ref, Name: o.Object.Name, ID: ModuleID(o.Object), Arch: o.Arch, Product: o.Product, Added: o.Added, object: o.Object,
	}
}

// ModuleID returns the id by which the module of a file is looked up: the build-id, or else the
// debug id or the code id. Empty: it has none.
func ModuleID(o symfile.Object) string {
	switch {
	case o.BuildID != "":
		return string(o.BuildID)
	case !o.DebugID.IsZero():
		return o.DebugID.Breakpad()
	}
	return o.CodeID
}

// SourceRequest returns the request of a debugger for the source file that the debug information
// of a file calls path. ok is false for a file without an id: no debugger can ask for its
// sources.
func SourceRequest(o symfile.Object, path string) (req layout.Request, ok bool) {
	id := ModuleID(o)
	if id == "" || path == "" {
		return req, false
	}
	req, err := layout.Route([]string{"buildid", id, "source", path})
	return req, err == nil && req.Form == layout.FormSource
}

// namesOf returns the file names that the module of a stack may have.
func namesOf(name string) []string {
	list := []string{name, name + ".debug"}
	stem := strings.TrimSuffix(strings.TrimSuffix(name, ".exe"), ".dll")
	if stem != name || !strings.Contains(name, ".") {
		list = append(list, stem+".pdb")
	}
	if !strings.Contains(name, ".") {
		list = append(list, name+".exe", name+".dll")
	}
	return slices.DeleteFunc(list, func(s string) bool { return strings.ContainsAny(s, "*?") || len(s) > catalog.MaxSearch })
}

// query returns the query for a module.
func (m *Module) query() symbolicate.NativeModule {
	if m.File == nil {
		return symbolicate.NativeModule{DebugFile: m.Name, CodeFile: m.Name, DebugID: m.ID, CodeID: m.ID}
	}
	q := QueryOf(m.File.object)
	return symbolicate.NativeModule{DebugFile: q.DebugFile, CodeFile: q.CodeFile, DebugID: q.DebugID, CodeID: q.CodeID}
}

// QueryOf returns the query for the module of a file.
func QueryOf(o symfile.Object) symbolicate.ModuleQuery {
	q := symbolicate.ModuleQuery{DebugFile: o.Name, CodeFile: cmp.Or(o.CodeName, o.Name), CodeID: cmp.Or(o.CodeID, string(o.BuildID))}
	if !o.DebugID.IsZero() {
		q.DebugID = o.DebugID.Breakpad()
	}
	return q
}

// Text returns a text with the functions below the lines of their frames.
func (a *Answer) Text() string {
	var b strings.Builder
	for _, l := range a.Lines {
		b.WriteString(l.Text)
		b.WriteByte('\n')
		for _, f := range l.Frames {
			b.WriteString("      " + f.String() + "\n")
		}
	}
	return b.String()
}
