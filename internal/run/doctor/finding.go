// Package doctor examines an installation: its configuration, depot, disk, clock,
// certificates, upstreams and running server. Each finding says what was found, what it
// means and what to do. Nothing is changed.
package doctor

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot/check"
)

// State says how bad a finding is.
type State string

// The states, from good to bad.
const (
	OK      State = "ok"
	Unknown State = "unknown" // was not looked at, or not wholly: neither good nor bad
	Warning State = "warning" // works, and somebody should look at it
	Fault   State = "fault"   // does not work
)

// Finding is one thing that was looked at.
type Finding struct {
	Area  string `json:"area"` // such as "disk"
	State State  `json:"state"`
	Text  string `json:"text"`         // what was found, and what it means
	Do    string `json:"do,omitempty"` // what to do
}

// Worst returns the worst state of a list. What is unknown is no reason to act.
func Worst(list []Finding) State {
	worst := OK
	for _, f := range list {
		if f.State == Fault || f.State == Warning && worst == OK {
			worst = f.State
		}
	}
	return worst
}

// Print prints findings for people, one a line, and what to do below it.
func Print(w io.Writer, list []Finding) error {
	var b strings.Builder
	n := map[State]int64{}
	for _, f := range list {
		n[f.State]++
		fmt.Fprintf(&b, "%-8s %-14s %s\n", f.State, f.Area, oneLine(f.Text))
		if f.Do != "" {
			fmt.Fprintf(&b, "%-8s %-14s -> %s\n", "", "", oneLine(f.Do))
		}
	}
	switch {
	case n[Fault]+n[Warning] > 0:
		fmt.Fprintf(&b, "\n%s, %s.\n", term.Count(n[Fault], "fault"), term.Count(n[Warning], "warning"))
	case n[Unknown] > 0:
		b.WriteString("\nNothing wrong was found; not everything was looked at.\n")
	default:
		b.WriteString("\nNothing is wrong.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// oneLine makes a text safe for a terminal and puts it into one line.
func oneLine(s string) string {
	return term.Printable(strings.Join(strings.Fields(s), " "))
}

const (
	// lowSpace is the share of a disk below which it is nearly full.
	lowSpace = 0.05
	// soonExpired is how long before its end a certificate is a warning.
	soonExpired = 14 * 24 * time.Hour
	// skewWarned is the difference of clocks from which times look wrong, and
	// skewFault that from which credentials are refused.
	skewWarned, skewFault = 30 * time.Second, 5 * time.Minute
)

// Disk says how much of a disk is free.
func Disk(total, free int64, err error) Finding {
	f := Finding{Area: "disk", State: OK}
	if err != nil {
		f.State, f.Text, f.Do = Warning, "the free space is not known: "+err.Error(), "look at the disk with the tools of the system"
		return f
	}
	f.Text = fmt.Sprintf("%s of %s free", term.Size(free), term.Size(total))
	const free1 = "free space there: symdepot disk shows what takes it, symdepot gc frees what nothing needs"
	switch {
	case free == 0:
		f.State, f.Do = Fault, free1
	case float64(free) < lowSpace*float64(total):
		f.State, f.Do = Warning, free1
	}
	return f
}

// Stored says what the background check of the stored files found. No file is called ok
// before it was read.
func Stored(st check.ScrubState, n check.Coverage, err error) Finding {
	f := Finding{Area: "stored files", State: OK}
	if err != nil {
		f.State, f.Text, f.Do = Warning, err.Error(), "run symdepot verify"
		return f
	}
	const minutes = "2006-01-02 15:04"
	f.Text = fmt.Sprintf("%d of %d checked, %d damaged", n.Read, n.Stored, max(st.Damaged, st.LastDamaged))
	if !st.Finished.IsZero() {
		f.Text += "; the last complete check ended on " + st.Finished.Local().Format(minutes)
	}
	switch {
	case !st.Started.IsZero():
		f.Text += "; a check has been running since " + st.Started.Local().Format(minutes)
	case st.Finished.IsZero() && n.Stored > 0:
		f.Text += "; the background check has not begun yet"
	}
	switch {
	case st.Damaged > 0 || st.LastDamaged > 0:
		f.State, f.Do = Fault, "symdepot verify names the damaged files; adding the same files again restores them"
	case n.Read < n.Stored:
		f.State, f.Do = Unknown, "a running server reads the others by and by (depot.scrub_rate); symdepot verify reads all files now"
	}
	return f
}

// Certificate says how long a certificate is valid; the zero time is that of one that
// is renewed by itself, and was not looked at.
func Certificate(end, now time.Time) Finding {
	f := Finding{Area: "certificate", State: OK, Text: "valid until " + end.UTC().Format(time.DateOnly)}
	const renew = "install a new one; the server reads it again by itself"
	switch left := end.Sub(now); {
	case end.IsZero():
		f.Text = "renewed by itself (ACME)"
	case left <= 0:
		f.State, f.Text, f.Do = Fault, "expired on "+end.UTC().Format(time.DateOnly), renew
	case left < soonExpired:
		f.State, f.Do = Warning, renew
	}
	return f
}

// clock compares the clock of this machine with another one.
func clock(whose string, skew time.Duration) Finding {
	f := Finding{Area: "clock", State: OK, Text: "agrees with that of " + whose}
	if skew = skew.Abs(); skew > skewWarned {
		f.State = Warning
		if skew > skewFault {
			f.State = Fault
		}
		f.Text = fmt.Sprintf("differs by %s from that of %s: times of builds and the ends of tokens are wrong",
			skew.Round(time.Second), whose)
		f.Do = "synchronize the clocks of both machines (NTP)"
	}
	return f
}
