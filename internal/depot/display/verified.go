package display

import (
	"fmt"
	"io"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot/check"
	"github.com/symdepot/symdepot/internal/depot/content"
)

// Fault prints a fault with the files that are lost by it.
func Fault(w io.Writer, f content.Fault) {
	what := f.What
	if f.Ref != "" {
		what = f.Ref + ": " + what
	}
	fmt.Fprintf(w, "fault: %s\n", what)
	for _, l := range f.Files {
		fmt.Fprintf(w, "  %s\n", term.Printable(l.String()))
	}
	if f.MovedTo != "" {
		fmt.Fprintf(w, "  moved to %s\n", term.Printable(f.MovedTo))
	}
	if f.Remedy != "" {
		fmt.Fprintf(w, "  to get it back: %s\n", f.Remedy)
	}
}

// Checked is the result of a check in JSON, after its faults.
type Checked struct {
	check.Verified
	Background *Background `json:"background_check,omitempty"`
}

// Background is the state of the check that a server runs in the background: of
// the pass that is under way, or of the last one.
type Background struct {
	Started  time.Time `json:"started,omitzero"`
	Finished time.Time `json:"finished,omitzero"`
	Contents int64     `json:"contents"`
	Damaged  int64     `json:"damaged"`
}

// NewChecked describes the result of a check.
func NewChecked(v check.Verified, st check.ScrubState) Checked {
	c := Checked{Verified: v}
	switch {
	case !st.Started.IsZero():
		c.Background = &Background{Started: st.Started.UTC(), Contents: st.Contents, Damaged: st.Damaged}
	case !st.Finished.IsZero():
		c.Background = &Background{Finished: st.Finished.UTC(), Contents: st.LastContents, Damaged: st.LastDamaged}
	}
	return c
}

// Verified prints the sums of a check. rows means that it read the index only.
func Verified(w io.Writer, v check.Verified, st check.ScrubState, rows bool) {
	word := "clean"
	if v.Faults > 0 {
		word = term.Count(v.Faults, "fault")
	}
	read := "every byte read"
	if rows {
		read = "the rows checked"
	}
	if v.Denied > 0 {
		read = fmt.Sprintf("%s not read, because this program may not", term.Count(v.Denied, "content"))
	}
	fmt.Fprintf(w, "%s: %s, %s, %s", word, term.Count(v.Contents, "content"), term.Size(v.Bytes), read)
	if v.Strays > 0 {
		fmt.Fprintf(w, "; %s of interrupted commands, which symdepot gc deletes", term.Count(v.Strays, "leftover file"))
	}
	fmt.Fprintln(w)
	switch {
	case v.Restored > 0:
		fmt.Fprintf(w, "%s, %d of them restored and hashed\n", term.Count(v.Cold, "cold content"), v.Restored)
	case v.Cold > 0:
		fmt.Fprintf(w, "%s; symdepot verify --restore restores them too\n", term.Count(v.Cold, "cold content"))
	}
	objects(w, v)
	if v.Modes != "" {
		fmt.Fprintln(w, v.Modes)
	}
	if s := check.ScrubText(st); s != "" {
		fmt.Fprintln(w, s)
	}
}

// objects prints the differences between a bucket and the index.
func objects(w io.Writer, v check.Verified) {
	if v.Objects == 0 && v.Unknown == 0 {
		return
	}
	fmt.Fprintf(w, "%s in the bucket", term.Count(v.Objects, "object"))
	switch {
	case v.Unknown > 0 && v.Doomed:
		fmt.Fprintf(w, ", %d of them unknown and older than a month: a gc that runs in seven days deletes these", v.Unknown)
	case v.Unknown > 0:
		fmt.Fprintf(w, ", %d of them unknown and older than a month; "+
			"they stay, because another copy of the database owns the objects (symdepot gc --claim)", v.Unknown)
	}
	fmt.Fprintln(w)
}
