package shipment

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/base/wire"
)

// Report is the result of a check.
type Report struct {
	Results []Result
	Require []string
	// FailUnder is the share of covered files in percent below which the answer is no.
	FailUnder float64
	// Unneeded counts images without code, which need no symbols.
	Unneeded int
	// Left says which files could not be read.
	Left []string
	// Unused are the rules that no file needed.
	Unused []Rule
	// Tool is the version of the program, for files that name it.
	Tool string
}

// Summary has the sums of a report, as the last line of JSON.
type Summary struct {
	Files     int64    `json:"files"` // without those that need no symbols
	Covered   int64    `json:"covered"`
	Percent   float64  `json:"percent"`
	Allowed   int64    `json:"allowed"`
	Unneeded  int64    `json:"without_code"`
	Require   []string `json:"require"`
	FailUnder float64  `json:"fail_under"`
	Passed    bool     `json:"passed"`
	// Met counts the files that meet each requirement, whether it is required or not.
	Met  map[string]int64 `json:"met"`
	Left []string         `json:"left_out,omitempty"`
	// UnusedRules are those that no file needed.
	UnusedRules []string `json:"unused_rules,omitempty"`
}

// Summary returns the sums.
func (r *Report) Summary() Summary {
	s := Summary{Require: r.Require, FailUnder: r.FailUnder, Unneeded: int64(r.Unneeded), Met: map[string]int64{}, Left: r.Left}
	for i := range r.Results {
		x := &r.Results[i]
		if x.Allowed != "" {
			s.Allowed++
			continue
		}
		s.Files++
		if x.Covered {
			s.Covered++
		}
		for what, state := range x.States {
			if state == Yes || state == NotAny {
				s.Met[what]++
			}
		}
	}
	s.Percent = r.build(s).Percent()
	s.Passed = s.Percent >= r.FailUnder
	for _, rule := range r.Unused {
		s.UnusedRules = append(s.UnusedRules, rule.Where+": "+rule.Pattern)
	}
	return s
}

func (r *Report) build(s Summary) wire.BuildCoverage {
	return wire.BuildCoverage{Files: s.Files, Covered: s.Covered, Allowed: s.Allowed, Require: r.Require}
}

// Limits of what a server keeps.
const (
	keptGaps = 20
	keptPath = 300
)

// Build returns what a server keeps beside a build.
func (r *Report) Build() wire.BuildCoverage {
	b := r.build(r.Summary())
	for i := range r.Results {
		x := &r.Results[i]
		if x.Covered || len(b.Gaps) == keptGaps {
			continue
		}
		g := wire.CoverageGap{Path: strings.ToValidUTF8(x.Path[max(0, len(x.Path)-keptPath):], "")}
		for _, gap := range x.Gaps {
			g.Lacks = append(g.Lacks, gap.Lacks)
		}
		b.Gaps = append(b.Gaps, g)
	}
	return b
}

// sorted returns the results, those with gaps first.
func (r *Report) sorted() []*Result {
	list := make([]*Result, len(r.Results))
	for i := range r.Results {
		list[i] = &r.Results[i]
	}
	rank := func(x *Result) int {
		switch {
		case !x.Covered:
			return 0
		case x.Allowed == "":
			return 1
		}
		return 2
	}
	slices.SortStableFunc(list, func(a, b *Result) int { return cmp.Compare(rank(a), rank(b)) })
	return list
}

// causes are the gaps of a file without those that another one entails: lines and sources come with debug
// information.
func (x *Result) causes() (list []Gap) {
	for i, g := range x.Gaps {
		if i == 0 || x.Coverage.Symbols.Here || g.Lacks != wire.RequireLines && g.Lacks != wire.RequireSources {
			list = append(list, g)
		}
	}
	return list
}

// step is a next step with the files that need it.
type step struct {
	Gap
	files []*Result
}

// steps returns the gaps with equal causes and next steps together, in the order of the requirements.
func (r *Report) steps() (list []*step) {
	at := map[Gap]*step{}
	for _, x := range r.sorted() {
		for _, g := range x.causes() {
			key := Gap{Lacks: g.Lacks, Next: g.Next}
			if at[key] == nil {
				at[key] = &step{Gap: g}
				list = append(list, at[key])
			}
			at[key].files = append(at[key].files, x)
		}
	}
	slices.SortStableFunc(list, func(a, b *step) int {
		return cmp.Compare(slices.Index(wire.Requirements, a.Lacks), slices.Index(wire.Requirements, b.Lacks))
	})
	return list
}

// words are the states in tables.
var words = map[State]string{Yes: "yes", No: "NO", NotAny: "-", Unknown: "?"}

// state is the state of a requirement, as a cell of a table.
func (x *Result) state(what string) string {
	if n := x.Coverage.Sources; what == wire.RequireSources && n != nil && n.Named > 0 {
		text := fmt.Sprintf("%d/%d", n.Found+n.Linked, n.Named)
		if n.Pending {
			text += "…"
		}
		return text
	}
	return words[x.States[what]]
}

// absent lists the layouts in which the debug information is not found, of a file whose debug information is
// stored.
func (x *Result) absent() string {
	var list []string
	for name, state := range x.Coverage.Layouts {
		if x.Coverage.Symbols.Here && state == wire.CoverageMissing {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return strings.Join(list, ",")
}

// maxStepFiles is how many files are named for each next step in the text.
const maxStepFiles = 10

// Print prints the report for people: the gaps with their next steps, then all files.
func (r *Report) Print(w io.Writer) error {
	for _, s := range r.steps() {
		fmt.Fprintf(w, "%s: %s: %s\n", s.Lacks, term.Count(int64(len(s.files)), "file"), s.Next)
		for i, x := range s.files {
			if i == maxStepFiles {
				fmt.Fprintf(w, "    and %d more\n", len(s.files)-i)
				break
			}
			fmt.Fprintf(w, "    %s: %s\n", term.Printable(x.Path), x.why(s.Lacks))
		}
	}
	if len(r.steps()) > 0 {
		fmt.Fprintln(w)
	}
	t := term.NewTable(w, "FILE", "KIND", "ARCH", "SYMBOLS", "LINES", "UNWIND", "SOURCES", "PROGRAM", "NOT ON")
	for _, x := range r.sorted() {
		last := x.absent()
		if x.Allowed != "" {
			last = "allowed: " + x.Allowed
		}
		cells := []string{x.Path, x.Kind, x.Arch}
		for _, what := range wire.Requirements {
			cells = append(cells, x.state(what))
		}
		t.Row(append(cells, last)...)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, r.Line())
	return err
}

// why is the cause of a gap.
func (x *Result) why(lacks string) string {
	for _, g := range x.Gaps {
		if g.Lacks == lacks {
			return g.Why
		}
	}
	return ""
}

// Line is the result in one line.
func (r *Report) Line() string {
	s := r.Summary()
	text := fmt.Sprintf("%d of %s covered (%v %%): %s", s.Covered, term.Count(s.Files, "file"), s.Percent, strings.Join(r.Require, ", "))
	if s.Allowed > 0 {
		text += fmt.Sprintf("; %d allowed", s.Allowed)
	}
	if s.Unneeded > 0 {
		text += fmt.Sprintf("; %d without code", s.Unneeded)
	}
	if !s.Passed {
		text += fmt.Sprintf("; at least %v %% are demanded", r.FailUnder)
	}
	return text
}

// PrintJSON prints a line of JSON for each file, and a last one with the sums.
func (r *Report) PrintJSON(w io.Writer) error {
	lines := term.NewJSONLines(w)
	for _, x := range r.sorted() {
		if err := lines.Write(x); err != nil {
			return err
		}
	}
	return lines.Write(r.Summary())
}
