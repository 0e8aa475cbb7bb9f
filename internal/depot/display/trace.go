package display

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot/why"
)

// Trace explains in JSON why a request finds a file or does not.
type Trace struct {
	Asked   string `json:"asked"`   // as it was written, without secrets
	Path    string `json:"path"`    // of the request, escaped
	Verdict string `json:"verdict"` // found, redirect, made, sources, absent, not-path or unavailable
	Cause   string `json:"cause,omitempty"`
	// Status is that of the answer now; 0 if it depends on the upstreams.
	Status  int    `json:"status"`
	Says    string `json:"says"` // the result in one sentence
	Remedy  string `json:"remedy,omitempty"`
	Command string `json:"command,omitempty"`
	// Headers are those fields of the answer that clients act on.
	Headers map[string]string `json:"headers,omitempty"`
	SHA256  string            `json:"sha256,omitempty"` // of the file that answers
	Steps   []TraceStep       `json:"steps"`
	// Line and Times are where a log names the request, and how often; Log is what
	// it says of it: missing, found or nothing.
	Line  int    `json:"line,omitempty"`
	Times int    `json:"times,omitempty"`
	Log   string `json:"log,omitempty"`
}

// The marks of steps and their items.
const (
	MarkOK   = "ok"
	MarkNo   = "no"
	MarkWarn = "warn"
	MarkInfo = "info"
)

// TraceStep is one step of a lookup.
type TraceStep struct {
	Step  string      `json:"step"` // path, you, lookups, near, folders, memory, sources, cold, forms or answer
	Mark  string      `json:"mark"` // ok, no, warn or info
	Says  string      `json:"says"`
	Items []TraceItem `json:"items"`
}

// TraceItem is a part of a step. Members that do not apply are missing.
type TraceItem struct {
	Mark        string    `json:"mark"`
	What        string    `json:"what"` // one word
	Says        string    `json:"says"`
	Name        string    `json:"name,omitempty"`
	ID          string    `json:"id,omitempty"`
	Kind        string    `json:"kind,omitempty"`
	SHA256      string    `json:"sha256,omitempty"`
	Transaction int64     `json:"build,omitempty"`
	Product     string    `json:"product,omitempty"`
	Upstream    string    `json:"upstream,omitempty"`
	Path        string    `json:"path,omitempty"`
	Job         int64     `json:"job,omitempty"`
	Since       time.Time `json:"since,omitzero"`
	Until       time.Time `json:"until,omitzero"`
}

// TraceLog explains in JSON the requests in a log, those that fail first.
type TraceLog struct {
	Items    []Trace `json:"items"`
	Complete bool    `json:"complete"` // false: the log or the list was cut
}

// Mark is the mark of the whole trace.
func (l *Trace) Mark() string {
	switch why.Verdict(l.Verdict) {
	case why.VerdictFound, why.VerdictRedirect, why.VerdictMakes:
		return MarkOK
	case why.VerdictSources:
		return MarkWarn
	}
	return MarkNo
}

// Found reports whether a request gets the file.
func (l *Trace) Found() bool { return l.Mark() == MarkOK || l.Status == 200 }

// worst orders verdicts: those that need somebody first.
var worst = map[string]int{"unavailable": 0, "absent": 1, "not-path": 2, "sources": 3, "made": 4, "redirect": 5, "found": 6}

// SortTraces sorts the traces of a log: those that fail first, and of equal ones those
// that are named most often.
func SortTraces(list []Trace) {
	sorting.Stable(list, func(a, b Trace) int {
		if c := worst[a.Verdict] - worst[b.Verdict]; c != 0 {
			return c
		}
		return b.Times - a.Times
	})
}

// marks are the marks for terminals.
var marks = map[string]string{MarkOK: "+", MarkNo: "x", MarkWarn: "!", MarkInfo: " "}

// Known reports whether the step says of a request only what everybody who sends it knows: the
// form of its path, and who asks. The forms that a path does not have explain a path that has
// none.
func (s *TraceStep) Known() bool { return s.Step == "you" || s.Step == "path" && s.Mark != MarkNo }

// Print writes the trace as text: the result first, then what to do, then the steps; those
// that are Known, and each spelling of a path in a served folder, only if all is set.
func (l *Trace) Print(w io.Writer, all bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n  %s %s\n", term.Printable(l.Asked), marks[l.Mark()], l.Says)
	if l.Remedy != "" {
		fmt.Fprintf(&b, "  %s\n", l.Remedy)
	}
	if l.Command != "" {
		fmt.Fprintf(&b, "    %s\n", l.Command)
	}
	for i := range l.Steps {
		s := &l.Steps[i]
		if s.Known() && !all {
			continue
		}
		fmt.Fprintf(&b, "\n  %s %-8s %s\n", marks[s.Mark], s.Step, s.Says)
		for n := 0; n < len(s.Items); n++ {
			i, more := &s.Items[n], 0
			if !all && s.Step == "folders" {
				more = spellings(s.Items[n:])
			}
			n += more
			text := i.Says
			if s.Step == "path" {
				text = fmt.Sprintf("%-15s %s", i.What, i.Says)
			}
			fmt.Fprintf(&b, "      %s %s\n", marks[i.Mark], text)
			if more > 0 {
				fmt.Fprintf(&b, "        and %s; symdepot why -v prints all\n", term.Count(int64(more), "other spelling"))
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// spellings counts the places behind the first one that a served folder was searched for in
// vain as well, under other spellings of the path.
func spellings(list []TraceItem) (more int) {
	folder := func(i *TraceItem) string {
		name, _, _ := strings.Cut(i.Says, ": ")
		return name
	}
	if list[0].What != "absent" {
		return 0
	}
	for i := range list[1:] {
		if x := &list[1+i]; x.What != "absent" || folder(x) != folder(&list[0]) {
			break
		}
		more++
	}
	return more
}

// PrintTraces writes one trace as Trace.Print does, or a list of several with what to do about
// those that find nothing.
func PrintTraces(w io.Writer, list []Trace, all bool) error {
	if len(list) == 1 {
		return list[0].Print(w, all)
	}
	var b strings.Builder
	for i := range list {
		l := &list[i]
		fmt.Fprintf(&b, "%s %s\n    %s\n", marks[l.Mark()], term.Printable(l.Asked), l.Says)
		if l.Mark() == MarkOK {
			continue
		}
		if l.Remedy != "" {
			fmt.Fprintf(&b, "    %s\n", l.Remedy)
		}
		if l.Command != "" {
			fmt.Fprintf(&b, "      %s\n", l.Command)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Traced is a request that was traced.
type Traced struct {
	Asked string // as it was written, without secrets
	Path  string // escaped
	Token bool   // a token was removed from it
	Who   string // who asks, and what they see, in one sentence
	// MayAdd is set if those who read the trace may add files.
	MayAdd bool
	// Public is set if the client may have public forms of files of other products, which a trace
	// does not know.
	Public bool
	// Now is the time of the trace.
	Now time.Time
}
