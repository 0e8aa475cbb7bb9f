package needed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/symdepot/symdepot/dump"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// Verdict says in one word what a depot has of a module.
type Verdict string

// The verdicts, the best first.
const (
	// VerdictHere: the debug information, or the program if no other file is known.
	VerdictHere Verdict = "here"
	// VerdictStripped: the program, but not its debug information.
	VerdictStripped Verdict = "stripped"
	// VerdictOtherBuild: debug information of the same name with another id; or, if
	// none is asked for, a program.
	VerdictOtherBuild Verdict = "other-build"
	// VerdictOurs: nothing of the module, but transactions have, or had, files of its
	// names.
	VerdictOurs Verdict = "missing-ours"
	// VerdictOthers: nothing, and no transaction has files of its names.
	VerdictOthers Verdict = "missing-others"
	// VerdictNoID: the dump has no id of the module, so that no file can be asked for.
	VerdictNoID Verdict = "no-id"
	// VerdictKernel: nothing, and no file of the module exists: the kernel maps it.
	VerdictKernel Verdict = "kernel"
)

// Verdicts are all verdicts, in the order of their constants.
var Verdicts = []Verdict{VerdictHere, VerdictStripped, VerdictOtherBuild, VerdictOurs, VerdictOthers, VerdictNoID, VerdictKernel}

// Missing reports whether a debugger misses a file.
func (v Verdict) Missing() bool { return v != VerdictHere && v != VerdictNoID && v != VerdictKernel }

// Text returns the verdict in words.
func (v Verdict) Text() string {
	switch v {
	case VerdictHere:
		return "in the depot"
	case VerdictStripped:
		return "program only, without debug information"
	case VerdictOtherBuild:
		return "another build is in the depot"
	case VerdictOurs:
		return "missing, your module"
	case VerdictOthers:
		return "missing, third-party module"
	case VerdictKernel:
		return "part of the kernel"
	}
	return "no id in the dump"
}

// Depot is the part of a depot that judges modules.
type Depot interface {
	Held(ctx context.Context, scope answer.Scope, req layout.Request) (depot.Found, error)
	Named(ctx context.Context, scope answer.Scope, name string) (depot.Named, error)
}

var _ Depot = depot.Finder{}

// FileState says whether a depot has a wanted file.
type FileState struct {
	Want
	Part   string `json:"part,omitempty"` // as Want.What
	Held   bool   `json:"here"`
	SHA256 string `json:"sha256,omitempty"` // of the held file; empty in a served folder
	Size   int64  `json:"size,omitempty"`
	// Features are the kinds of information in the held file, as words.
	Features []string `json:"features,omitempty"`
}

// Module is a module with what a depot has of it.
type Module struct {
	Name string `json:"name"`
	// ID is the id that people know the module by: that of its debug information, or
	// else that of the program.
	ID      string  `json:"id"`
	Verdict Verdict `json:"verdict"`
	// Unloaded modules were not in memory any more.
	Unloaded bool `json:"unloaded,omitempty"`
	// Files are those that a debugger asks for; none of VerdictKernel.
	Files []FileState `json:"files"`
}

// Missing returns the files that a debugger misses.
func (m *Module) Missing() []FileState {
	var list []FileState
	for _, f := range m.Files {
		if !f.Held && m.Verdict.Missing() {
			list = append(list, f)
		}
	}
	return list
}

// Judge says of each module of a dump what the depot has of it in the scope. It looks
// for the files that Fetch would get, in the same way, but asks no upstream.
func Judge(ctx context.Context, d Depot, scope answer.Scope, crash *dump.Dump) ([]Module, error) {
	list := make([]Module, 0, len(crash.Modules))
	for i := range crash.Modules {
		m := &crash.Modules[i]
		judged, err := judge(ctx, d, scope, m.Name, ofModule(m, ""))
		if err != nil {
			return nil, err
		}
		judged.Unloaded = m.Unloaded
		list = append(list, judged)
	}
	return list, nil
}

// JudgeWant says what the depot has of a single file.
func JudgeWant(ctx context.Context, d Depot, scope answer.Scope, w Want) (Module, error) {
	return judge(ctx, d, scope, w.Name, []Want{w})
}

func judge(ctx context.Context, d Depot, scope answer.Scope, name string, wants []Want) (m Module, err error) {
	m = Module{Name: name, Verdict: VerdictNoID, Files: make([]FileState, 0, len(wants))}
	held, needsMore, program := false, false, false
	for _, w := range wants {
		f, err := state(ctx, d, scope, w)
		if err != nil {
			return m, err
		}
		m.Files = append(m.Files, f)
		if f.Part == partProgram {
			program = program || f.Held
			continue
		}
		m.ID, held, needsMore = w.ID, held || f.Held, true
	}
	switch {
	case len(wants) == 0:
		return m, nil
	case held || program && !needsMore:
		m.Verdict = VerdictHere
	case program:
		m.Verdict = VerdictStripped
	case isVDSO(name):
		m.Verdict, m.Files = VerdictKernel, m.Files[:0]
	default:
		m.Verdict, err = Unheld(ctx, d, scope, name, m.Files)
	}
	if m.ID == "" {
		m.ID = wants[0].ID
	}
	return m, err
}

// state looks for a file.
func state(ctx context.Context, d Depot, scope answer.Scope, w Want) (FileState, error) {
	s := FileState{Want: w, Part: w.What()}
	req, noPath := w.Request()
	if noPath != nil {
		return s, nil //nolint:nilerr // what no client can ask for is not held
	}
	found, err := d.Held(ctx, scope, req)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	s.Held, s.Size, s.Features = true, found.Size, found.Features
	if found.Ref != (depot.Found{}).Ref {
		s.SHA256 = found.Ref.String()
	}
	return s, nil
}

// Unheld returns the verdict for a module of which the depot has nothing, by its name and those of
// the files that a debugger asks for.
func Unheld(ctx context.Context, d Depot, scope answer.Scope, name string, files []FileState) (Verdict, error) {
	names, needsDebug := []string{name}, false
	for _, f := range files {
		names = append(names, f.Name)
		if f.Part != partDebug {
			continue
		}
		needsDebug = true
		if f.Object.Kind == symfile.ELF {
			names = append(names, f.Name+".debug")
		}
	}
	verdict, done := VerdictOthers, map[string]bool{"": true}
	for _, n := range names {
		if n = symfile.Fold(n); done[n] {
			continue
		}
		done[n] = true
		is, err := d.Named(ctx, scope, n)
		switch {
		case err != nil:
			return verdict, err
		case is.Debug || is.Program && !needsDebug:
			return VerdictOtherBuild, nil
		case is.Program || is.Removed:
			verdict = VerdictOurs
		}
	}
	return verdict, nil
}

// Totals counts modules by their verdicts.
func Totals(list []Module) map[Verdict]int {
	sums := map[Verdict]int{}
	for i := range list {
		sums[list[i].Verdict]++
	}
	return sums
}

// WriteManifest writes the files that a debugger misses as symchk reads them: name and
// key, each file once. Names that would break a line are left out.
func WriteManifest(w io.Writer, modules []Module) error {
	seen := map[string]bool{}
	for i := range modules {
		for _, f := range modules[i].Missing() {
			line := f.Name + "," + f.ID
			if seen[line] || strings.ContainsAny(line, "\r\n") || strings.Count(line, ",") != 1 {
				continue
			}
			seen[line] = true
			if _, err := fmt.Fprintf(w, "%s,1\r\n", line); err != nil {
				return err
			}
		}
	}
	return nil
}
