package display

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
)

// Collected is the result of gc, or of its dry run, in JSON.
type Collected struct {
	// Plan is the number under which this plan can be applied until Ends.
	Plan     string    `json:"plan,omitempty"`
	Ends     time.Time `json:"ends,omitzero"`
	DryRun   bool      `json:"dry_run,omitempty"` // nothing was freed yet
	Contents int64     `json:"contents"`
	Strays   int64     `json:"strays"`
	Bytes    int64     `json:"bytes"` // lengths
	Frees    int64     `json:"frees"` // disk space
	InUse    int64     `json:"in_use,omitempty"`
	// Pending are objects that a later gc deletes from the bucket.
	Pending      int64 `json:"pending,omitempty"`
	PendingBytes int64 `json:"pending_bytes,omitempty"`
	// Waiting are the bytes that can be freed when --grace has passed, the last of
	// them at WaitingUntil.
	Waiting      int64     `json:"waiting_bytes,omitempty"`
	WaitingUntil time.Time `json:"waiting_until,omitzero"`
	// Trash are the transactions in the trash, which hold TrashBytes back.
	Trash      []Trashed `json:"trash,omitempty"`
	TrashBytes int64     `json:"trash_bytes,omitempty"`
}

// NewCollected describes the result of gc, or of its dry run.
func NewCollected(c lifecycle.Collected, dryRun bool) Collected {
	l := Collected{DryRun: dryRun, Contents: c.Contents, Strays: c.Strays, Bytes: c.Bytes, Frees: c.Frees, InUse: c.InUse, Pending: c.Pending,
		PendingBytes: c.PendingBytes, Waiting: c.Waiting, WaitingUntil: c.WaitingUntil, Trash: NewTrash(c.Trash), TrashBytes: c.TrashBytes}
	if !l.WaitingUntil.IsZero() {
		l.WaitingUntil = l.WaitingUntil.UTC().Truncate(time.Second)
	}
	return l
}

// NewCollectionPlan describes the result of a dry run of gc, and the plan for it.
func NewCollectionPlan(p lifecycle.CollectionPlan) Collected {
	l := NewCollected(p.Collected, true)
	l.Plan, l.Ends = p.Number, p.Ends
	return l
}

// Print prints the result for people.
func (l Collected) Print(w io.Writer) {
	verb := "freed"
	if l.DryRun {
		verb = "would free"
	}
	fmt.Fprintf(w, "%s %s: %s that no build uses", verb, term.Size(l.Frees), term.Count(l.Contents, "content"))
	if l.Strays > 0 {
		fmt.Fprintf(w, ", and %s of interrupted commands", term.Count(l.Strays, "leftover file"))
	}
	fmt.Fprintln(w)
	if l.Pending > 0 {
		fmt.Fprintf(w, "%s (%s) wait in the bucket; a gc that runs seven days after their removal deletes them\n",
			term.Count(l.Pending, "object"), term.Size(l.PendingBytes))
	}
	if l.InUse > 0 {
		fmt.Fprintf(w, "%s in use by other programs: the next gc frees them\n", term.Count(l.InUse, "blob"))
	}
	if l.Waiting > 0 {
		fmt.Fprintf(w, "%s more are kept until %s: their last build is gone for less than --grace\n",
			term.Size(l.Waiting), l.WaitingUntil.Local().Format("2006-01-02 15:04"))
	}
	l.printTrash(w)
	if l.Plan != "" {
		fmt.Fprintf(w, "plan %s: symdepot gc --plan %s frees exactly this, until %s\n", l.Plan, l.Plan, l.Ends.Local().Format("2006-01-02 15:04"))
	}
}

// maxTrashLines limits the transactions that gc prints.
const maxTrashLines = 20

// printTrash prints the bytes in the trash, and until when they stay.
func (l Collected) printTrash(w io.Writer) {
	if len(l.Trash) == 0 {
		return
	}
	fmt.Fprintf(w, "the trash keeps %s of %s; symdepot gc --empty-trash frees them now\n",
		term.Size(l.TrashBytes), term.Count(int64(len(l.Trash)), "build"))
	for i, t := range l.Trash {
		if i == maxTrashLines {
			fmt.Fprintf(w, "  and %d more\n", len(l.Trash)-i)
			break
		}
		of := term.Printable(strings.TrimSpace(t.Product + " " + t.Version))
		if of != "" {
			of = " (" + of + ")"
		}
		fmt.Fprintf(w, "  build %d%s until %s\n", t.Transaction, of, t.Until.Local().Format("2006-01-02 15:04"))
	}
}
