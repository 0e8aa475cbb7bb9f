package shipment

import (
	"fmt"
	"slices"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot/needed"
	"github.com/symdepot/symdepot/symfile"
)

// State says whether a requirement is met.
type State string

// The states.
const (
	Yes     State = "yes"
	No      State = "no"
	NotAny  State = "none"    // the file has nothing of it, and needs nothing
	Unknown State = "unknown" // the depot cannot say
)

// Result is what was found out about a file.
type Result struct {
	Path   string `json:"path"`
	Kind   string `json:"kind"`
	Arch   string `json:"arch"`
	ID     string `json:"id"`
	SHA256 string `json:"sha256,omitempty"` // if a bill of materials has it
	// Allowed says why the file needs no symbols; empty: it does.
	Allowed string `json:"allowed,omitempty"`
	// States has the state of each requirement.
	States map[string]State `json:"states"`
	// Covered says that all that is required is met.
	Covered bool `json:"covered"`
	// Gaps are the requirements that are not met, with the cause and the next step.
	Gaps []Gap `json:"gaps,omitempty"`
	// Coverage is the answer of the depot.
	Coverage wire.Coverage `json:"depot"`

	file *File
}

// Gap is a requirement that a file does not meet.
type Gap struct {
	Lacks string `json:"lacks"`
	Why   string `json:"why"`
	Next  string `json:"next"`
}

// Judge says of each file whether it meets what is required. answers has the answers of the depot in the order of the
// files. Archives that could not be read come last: they count as files that meet nothing.
func Judge(c *Collected, answers []wire.Coverage, rules *Rules, require []string) []Result {
	list := make([]Result, len(c.Files), len(c.Files)+len(c.Unread))
	for i := range c.Files {
		f, a := &c.Files[i], &answers[i]
		r := Result{
			Path: f.Path, Kind: f.Kind, Arch: f.Arch, ID: f.ID, SHA256: f.Sums["SHA256"], States: states(f, a), Coverage: *a, file: f,
		}
		if rule := rules.allows(f.Path); rule != nil {
			r.Allowed = rule.Reason
		} else if who := rules.signedByOthers(f); who != "" {
			r.Allowed = "signed by " + who
		}
		for _, what := range require {
			if s := r.States[what]; s == Yes || s == NotAny || r.Allowed != "" {
				continue
			}
			r.Gaps = append(r.Gaps, gap(c, f, a, what, r.States[what]))
		}
		r.Covered = len(r.Gaps) == 0
		list[i] = r
	}
	for _, u := range c.Unread {
		list = append(list, unread(u, rules, require))
	}
	return list
}

// unread is the result of a file that may have others in it.
func unread(u Unread, rules *Rules, require []string) Result {
	r := Result{Path: u.Path, Kind: "not read", States: map[string]State{}, file: &File{}}
	for _, what := range wire.Requirements {
		r.States[what] = Unknown
	}
	if rule := rules.allows(u.Path); rule != nil {
		r.Allowed = rule.Reason
	} else {
		const next = "check what goes into it, and leave it out here: --allow NAME"
		r.Gaps = []Gap{{Lacks: require[0], Why: "what is in it is not known: " + u.Reason, Next: next}}
	}
	r.Covered = len(r.Gaps) == 0
	return r
}

// states returns the state of each requirement.
func states(f *File, a *wire.Coverage) map[string]State {
	s := map[string]State{
		wire.RequireSymbols: yes(a.Symbols.Here), wire.RequireProgram: yes(a.Program.Here),
		wire.RequireLines: No, wire.RequireUnwind: yes(a.Unwind), wire.RequireSources: Unknown,
	}
	if a.Symbols.Here {
		s[wire.RequireLines] = yes(slices.Contains(a.Symbols.Features, "debug"))
		if a.Symbols.Features == nil {
			s[wire.RequireLines] = Unknown
		}
	}
	switch {
	case f.Managed || f.Kind == symfile.WASM.String() || f.Kind == symfile.PE.String() && f.NoUnwind && f.Arch != "x86":
		s[wire.RequireUnwind] = NotAny // such an image has only functions that need none
	case !a.Unwind && (a.Program.Here && a.Program.Features == nil || a.Symbols.Here && a.Symbols.Features == nil):
		s[wire.RequireUnwind] = Unknown
	}
	switch n := a.Sources; {
	case !a.Symbols.Here:
		s[wire.RequireSources] = No
	case n == nil || n.Pending:
	case n.Named == 0 && s[wire.RequireLines] == Yes:
		s[wire.RequireSources] = NotAny
	default:
		s[wire.RequireSources] = yes(n.Named > 0 && n.Found+n.Linked == n.Named)
	}
	return s
}

func yes(is bool) State {
	if is {
		return Yes
	}
	return No
}

// Next steps. They name no file, so that files with the same one stand together.
const (
	nextPush     = "push it: symdepot push FOLDER"
	nextPushFile = "push the files themselves, too: symdepot push FOLDER"
)

// gap says why a requirement is not met, and what helps.
func gap(c *Collected, f *File, a *wire.Coverage, what string, s State) Gap {
	g := Gap{Lacks: what}
	switch {
	case a.Error != "":
		g.Why, g.Next = "the file cannot be asked for: "+a.Error, "see what symdepot identify prints for it"
	case what == wire.RequireSymbols:
		g.Why, g.Next = noSymbols(c, f, a)
	case what == wire.RequireProgram:
		g.Why, g.Next = "the file itself is not stored, which dumps of its processes need", nextPushFile
	case s == Unknown && what == wire.RequireSources && a.Sources != nil:
		g.Why, g.Next = "its sources are not counted yet", "run the check again"
	case s == Unknown:
		g.Why, g.Next = "its symbols are served in place, and not known so well", "add them to the depot: symdepot push FOLDER"
	case !a.Symbols.Here && what != wire.RequireUnwind:
		g.Why, g.Next = noSymbols(c, f, a)
	case what == wire.RequireLines:
		g.Why, g.Next = "the stored debug information has names only, no lines", linesNext(f)
	case what == wire.RequireUnwind && (a.Program.Here || f.NoUnwind && f.Arch != "x86"):
		g.Why, g.Next = "neither the file nor its debug information has unwind data", "build it with unwind tables (-fasynchronous-unwind-tables)"
	case what == wire.RequireUnwind:
		g.Why, g.Next = "no stored file has its unwind data", nextPushFile
	default:
		n := a.Sources
		g.Why = fmt.Sprintf("%d of %d sources are not found", n.Named-n.Found-n.Linked, n.Named)
		if len(n.Missing) > 0 {
			g.Why += ", such as " + term.Printable(n.Missing[0])
		}
		g.Next = "push them with the build: symdepot push --sources DIR; those of others: a line with source in " + RulesName
	}
	return g
}

// noSymbols says why there is no debug information of exactly this file, and what helps.
func noSymbols(c *Collected, f *File, a *wire.Coverage) (why, next string) {
	why, next = symbolsOf(f)+" is not stored", nextPush
	local := c.localSymbols(f)
	switch {
	case a.Verdict == wire.CoverageNoID || f.Kind == symfile.PE.String() && len(f.Ask.PDBs) == 0 && !f.Ask.Debug:
		return noID(f)
	case a.Verdict == wire.CoverageLater:
		why = fmt.Sprintf("the stored PDB is of another link: it has the age %d", a.LaterAge)
		next = "push the PDB that the linker wrote with this file"
	case a.Verdict == string(needed.VerdictOtherBuild):
		why += ", only that of other builds"
		next = "push the symbols of this build; if they were pushed, the file was linked again since"
	case a.Verdict == string(needed.VerdictStripped):
		why = "the file is stored, without debug information"
	case f.Ask.Debug:
		next = "push the files themselves, which have their debug information: symdepot push FOLDER"
	}
	if local != "" && local != f.Path {
		why += "; it lies in " + term.Printable(local)
		next = "push the symbol files among these files: symdepot push FOLDER"
	}
	return why, next
}

// noID is noSymbols of a file that names no debug information.
func noID(f *File) (why, next string) {
	switch f.Kind {
	case symfile.PE.String():
		return "the file names no PDB and has no debug information", "link it with /DEBUG (lld and MinGW: -Wl,--pdb= or -g)"
	case symfile.WASM.String():
		return "the file has no build id", "link it with --build-id"
	case symfile.MachO.String():
		return "the file has no UUID", "link it without -no_uuid"
	}
	return "the file has no build id, so that no debugger can ask for its debug information", "link it with -Wl,--build-id"
}

// symbolsOf names the debug information of a file for people.
func symbolsOf(f *File) string {
	switch {
	case len(f.Ask.PDBs) > 0:
		return "the PDB " + term.Printable(f.Ask.PDBs[0].Name) + " " + f.Ask.PDBs[0].ID
	case f.Kind == symfile.MachO.String():
		return "the dSYM with the UUID " + f.ID
	}
	return "the debug information with the id " + f.ID
}

// linesNext says how lines get into debug information.
func linesNext(f *File) string {
	if len(f.Ask.PDBs) > 0 {
		return "push the private PDB, not the stripped one"
	}
	return "build with -g, and push the debug information before it is stripped"
}
