package display

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/depot/retention"
)

// Policy is the retention policy of a depot in JSON.
type Policy struct {
	Number   int64     `json:"number"` // rises with every change; 0: none was set
	Set      time.Time `json:"set,omitzero"`
	By       string    `json:"by"`
	Hash     string    `json:"hash"`
	Text     string    `json:"text"`
	Warnings []string  `json:"warnings"`
}

// NewPolicy describes a policy.
func NewPolicy(p lifecycle.PolicyInForce) Policy {
	l := Policy{p.Number, p.Set, p.By, "", p.Text, []string{}}
	if p.Number > 0 {
		l.Hash, l.Warnings = p.Policy.Hash(), append(l.Warnings, p.Policy.Warnings()...)
	}
	return l
}

// PolicyCheck lists the faults in the text of a policy, in JSON.
type PolicyCheck struct {
	File     string        `json:"file"`
	Correct  bool          `json:"correct"`
	Faults   []PolicyFault `json:"faults"`
	Warnings []string      `json:"warnings"`
}

// PolicyFault is a mistake in the text of a policy, in JSON.
type PolicyFault struct {
	Line int    `json:"line,omitempty"`
	Key  string `json:"key,omitempty"`
	What string `json:"what"`
}

// NewPolicyCheck describes a policy or, if it is wrong, the error of retention.Parse.
func NewPolicyCheck(file string, p *retention.Policy, err error) PolicyCheck {
	l := PolicyCheck{File: file, Correct: err == nil, Faults: []PolicyFault{}, Warnings: []string{}}
	if err == nil {
		l.Warnings = append(l.Warnings, p.Warnings()...)
		return l
	}
	list := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		list = joined.Unwrap()
	}
	for _, err := range list {
		if f, ok := errors.AsType[*retention.Fault](err); ok {
			l.Faults = append(l.Faults, PolicyFault{f.Line, f.Key, f.What})
		} else {
			l.Faults = append(l.Faults, PolicyFault{What: err.Error()})
		}
	}
	return l
}

// Plan is a plan in JSON.
type Plan struct {
	Plan   string    `json:"plan"`
	Now    time.Time `json:"now"`
	Ends   time.Time `json:"ends,omitzero"` // it cannot be applied later
	Policy string    `json:"policy"`        // its hash
	Builds int       `json:"builds"`        // transactions that it removes
	Listed int64     `json:"listed"`
	Shared int64     `json:"shared"`
	// Frees is the disk space in bytes that is freed in the end, FreesNow the part
	// that gc can free at once, and FreesSize the length of the files that Frees counts.
	Frees     int64 `json:"frees"`
	FreesNow  int64 `json:"frees_now"`
	FreesSize int64 `json:"frees_size"`
	Live      int64 `json:"live"` // disk space of all live transactions before
	// Trash is how long the removal can be undone, in seconds.
	Trash    int64              `json:"trash"`
	Removes  []Removes          `json:"removes"`
	Kept     map[string]int     `json:"kept"` // transactions by reason
	Groups   []Group            `json:"groups"`
	Caps     []retention.CapUse `json:"caps"`
	Brake    []retention.Braked `json:"brake"`
	Warnings []string           `json:"warnings"`
	// Unfinished are applications of earlier plans that were interrupted.
	Unfinished []lifecycle.RetentionRun `json:"unfinished,omitempty"`
}

// Removes is a transaction that a plan removes, in JSON.
type Removes struct {
	Transaction int64     `json:"build"`
	Time        time.Time `json:"time"`
	Product     string    `json:"product"`
	Version     string    `json:"version"`
	Branch      string    `json:"branch"`
	Class       string    `json:"class"`
	Reason      string    `json:"reason"`
	Detail      string    `json:"detail"`
	Listed      int64     `json:"listed"`
	Alone       int64     `json:"alone"` // disk space that its removal alone would free
}

// Group sums up the transactions of one product, branch and class, in JSON.
type Group struct {
	Class   string `json:"class"`
	Product string `json:"product"`
	Branch  string `json:"branch"`
	Kept    int    `json:"kept"`
	Removed int    `json:"removed"`
	Listed  int64  `json:"listed"`
	Frees   int64  `json:"frees"`
}

// NewPlan describes a plan.
func NewPlan(p *lifecycle.Preview) Plan {
	l := Plan{
		Plan: p.Ticket.Number, Now: p.Now, Ends: p.Ends, Policy: p.PolicyHash, Builds: p.Builds(), Listed: p.Listed, Shared: p.Shared(),
		Frees: p.Frees.Stored, FreesNow: p.FreesNow.Stored, FreesSize: p.Frees.Size, Live: p.Live.Stored,
		Trash:   int64(time.Duration(p.Trash) / time.Second),
		Removes: []Removes{}, Kept: map[string]int{}, Groups: []Group{}, Caps: append([]retention.CapUse{}, p.Caps...),
		Brake:    append([]retention.Braked{}, p.Brake...),
		Warnings: append([]string{}, p.Warnings...), Unfinished: p.Unfinished,
	}
	for v := range p.Removed() {
		l.Removes = append(l.Removes,
			Removes{v.Number, v.Time.UTC(), v.Product, v.Version, v.Branch, v.Class, v.Reason.String(), p.Detail(v), v.Listed, v.Alone.Stored})
	}
	for r, n := range p.Count {
		if reason := retention.Reason(r); n > 0 && reason.Keeps() {
			l.Kept[reason.String()] = n
		}
	}
	for _, g := range p.Groups {
		kept := 0
		for _, n := range g.Kept {
			kept += n
		}
		l.Groups = append(l.Groups, Group{g.Class, g.Product, g.Branch, kept, g.Removed, g.Listed, g.Frees.Stored})
	}
	return l
}

// Unmet reports whether a cap is not met.
func (l Plan) Unmet() bool {
	return slices.ContainsFunc(l.Caps, func(c retention.CapUse) bool { return c.Unmet > 0 })
}

// Print prints the plan for people, with the command that applies it.
func (l Plan) Print(w io.Writer) error {
	fmt.Fprintf(w, "plan %s removes %s and frees %s of %s%s\n", l.Plan, term.Count(int64(l.Builds), "build"),
		term.Size(l.Frees), term.Size(l.Live), l.after())
	for _, text := range l.Warnings {
		fmt.Fprintln(w, "warning:", text)
	}
	for _, r := range l.Unfinished {
		fmt.Fprintf(w, "plan %s was applied in part: %s removed so far; symdepot policy apply %s removes the others\n",
			r.Plan, term.Count(r.Removed, "build"), r.Plan)
	}
	fmt.Fprintln(w)
	t := term.NewTable(w, "CLASS", "PRODUCT", "BRANCH", "KEPT", "REMOVED", "LISTED", "FREES")
	for _, g := range l.Groups {
		t.Row(g.Class, g.Product, g.Branch, strconv.Itoa(g.Kept), strconv.Itoa(g.Removed), term.Size(g.Listed), term.Size(g.Frees))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "LISTED: the sizes of the files. FREES: the space that comes free, on a disk in whole blocks.")
	if len(l.Removes) > 0 {
		fmt.Fprintln(w)
	}
	t = term.NewTable(w, "BUILD", "DATE", "CLASS", "PRODUCT", "VERSION", "ALONE", "REASON")
	for _, r := range l.Removes {
		t.Row(strconv.FormatInt(r.Transaction, 10), r.Time.Format(time.DateOnly), r.Class, r.Product, r.Version,
			term.Size(r.Alone), r.Reason+": "+r.Detail)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(l.Removes) > 0 {
		fmt.Fprintln(w, "ALONE: the space that would come free if only this build were removed.")
	}
	fmt.Fprintln(w)
	var kept []string
	for r := retention.Held; r.String() != "" && len(kept) < 16; r++ {
		if n := l.Kept[r.String()]; n > 0 {
			kept = append(kept, fmt.Sprintf("%d %s", n, r))
		}
		if r == retention.Needed {
			break
		}
	}
	if len(kept) > 0 {
		fmt.Fprintf(w, "kept: %s\n", strings.Join(kept, ", "))
	}
	l.limits(w)
	if l.Builds == 0 {
		return nil
	}
	apply := "symdepot policy apply " + l.Plan
	if len(l.Brake) > 0 {
		apply += fmt.Sprintf(" --yes-remove %d", l.Builds)
	}
	_, err := fmt.Fprintf(w, "to apply it: %s\n", apply)
	return err
}

// after describes when the bytes are freed.
func (l Plan) after() string {
	switch {
	case l.Builds == 0 || l.FreesNow == l.Frees:
		return ""
	case l.Trash > 0:
		return fmt.Sprintf(", after %s in the trash", term.Duration(time.Duration(l.Trash)*time.Second))
	}
	return fmt.Sprintf(", %s of it after the trash", term.Size(l.Frees-l.FreesNow))
}

func (l Plan) limits(w io.Writer) {
	for _, c := range l.Caps {
		of := strings.TrimSpace(string(c.Scope) + " " + c.Name)
		fmt.Fprintf(w, "cap of %s: %s of %s after the plan", of, term.Size(c.After), term.ByteSize(c.Limit))
		if c.Unmet > 0 {
			fmt.Fprintf(w, "; %s above it, and nothing more may be removed", term.Size(c.Unmet))
		}
		fmt.Fprintln(w)
	}
	for _, b := range l.Brake {
		fmt.Fprintf(w, "above the brake: %d of %s and %s of %s of product %q\n",
			b.Removed, term.Count(int64(b.Live), "build"), term.Size(b.Bytes), term.Size(b.Total), b.Product)
	}
}

// Run is an application of a plan in JSON.
type Run struct {
	lifecycle.RetentionRun
	Frees   int64 `json:"frees"`
	Skipped int64 `json:"skipped,omitempty"`
	Unmet   bool  `json:"cap_not_met,omitempty"`
}

// NewRun describes the application of a plan.
func NewRun(a lifecycle.Applied) Run {
	l := Run{RetentionRun: a.Run, Skipped: a.Skipped}
	if a.Preview != nil {
		l.Frees, l.Unmet = a.Preview.Frees.Stored, a.Preview.Unmet()
	}
	return l
}

// Print prints the run for people.
func (l Run) Print(w io.Writer) {
	fmt.Fprintf(w, "removed %s by plan %s", term.Count(l.Removed, "build"), l.Plan)
	switch {
	case l.Removed == 0:
	case l.Until.IsZero():
		fmt.Fprint(w, "; they cannot be restored")
	default:
		fmt.Fprintf(w, "; symdepot undo restores them until %s", l.Until.Local().Format("2006-01-02 15:04"))
	}
	fmt.Fprintln(w)
	if l.Skipped > 0 {
		fmt.Fprintf(w, "%s held or removed meanwhile\n", term.Count(l.Skipped, "build"))
	}
	if l.Unmet {
		fmt.Fprintln(w, "a cap is not met; the preview says by how much")
	}
}
