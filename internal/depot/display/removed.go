package display

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/depot/retention"
)

// RemovedFile is a file that a removal hid, in JSON.
type RemovedFile struct {
	Query       string    `json:"query"`
	Name        string    `json:"name"`
	Kind        string    `json:"kind"`
	ID          string    `json:"id"`
	Size        int64     `json:"size"`
	SHA256      string    `json:"sha256"`
	Transaction int64     `json:"build"`
	Product     string    `json:"product"`
	Version     string    `json:"version"`
	Removed     time.Time `json:"removed"`
	By          string    `json:"by"`
	Class       string    `json:"class"`
	Reason      string    `json:"reason"`
	Detail      string    `json:"detail"`
	Plan        string    `json:"plan,omitempty"`
	Until       time.Time `json:"until,omitzero"` // it can be restored until then
}

// NewRemovedFile describes a file that a removal hid.
func NewRemovedFile(query string, f lifecycle.RemovedFile) RemovedFile {
	r := f.Removal
	return RemovedFile{query, f.Name, f.Kind.String(), f.ID, f.Size, f.Ref.String(), r.Number, f.Transaction.Product, f.Transaction.Version,
		f.Transaction.Removed.UTC(), r.Who, r.Class, r.Reason, r.Detail, r.Plan, r.Until}
}

// Why describes in one sentence when, by whom and why the file was removed, and until when it
// can be restored.
func (l RemovedFile) Why(now time.Time) string {
	if l.Until.IsZero() {
		return tombstone(l)
	}
	return tombstone(l) + restorable(l.Transaction, l.Until, now)
}

// tombstone says when, by whom and why a file was removed.
func tombstone(l RemovedFile) string {
	return retention.Tombstone{Class: l.Class, Removed: l.Removed, By: l.By, Reason: l.Reason, Detail: l.Detail}.String()
}

// Purged is the result of a purge in JSON.
type Purged struct {
	Transaction int64 `json:"build"`
	Contents    int64 `json:"contents"` // freed
	Frees       int64 `json:"frees"`    // disk space
	Shared      int64 `json:"shared"`   // bytes that others still need
	// Holders are other transactions that need some of these, the newest, at most 20;
	// Pinned means that cached files do.
	Holders []int64 `json:"holders"`
	Pinned  bool    `json:"pinned,omitempty"`
	InUse   int64   `json:"in_use,omitempty"`
	Pending bool    `json:"pending,omitempty"` // the bucket's objects are deleted after days
	// Collecting means that files were still added to it: further ones are another
	// transaction.
	Collecting bool `json:"collecting,omitempty"`
}

// NewPurged describes a purge.
func NewPurged(p lifecycle.Purged) Purged {
	l := Purged{Transaction: p.Transaction.Number, Contents: p.Contents, InUse: p.InUse, Pending: p.Pending, Holders: []int64{}}
	if r := p.Removal; r != nil {
		l.Frees, l.Shared, l.Pinned, l.Holders, l.Collecting = r.Frees.Stored, r.Shared, r.Pinned, append(l.Holders, r.Holders...), r.Open
	}
	return l
}

// Print prints the result for people.
func (l Purged) Print(w io.Writer) {
	fmt.Fprintf(w, "purged build %d: %s (%s) freed\n", l.Transaction, term.Count(l.Contents, "content"), term.Size(l.Frees))
	printNeeded(w, l.Shared, l.Holders, l.Pinned, "cached files")
	if l.Collecting {
		fmt.Fprintln(w, "files were still being added to it: "+
			"files that arrive from now on make another build; see symdepot list")
	}
	if l.InUse > 0 {
		fmt.Fprintf(w, "%s in use by other programs: the next gc frees them\n", term.Count(l.InUse, "blob"))
	}
	if l.Pending {
		fmt.Fprintln(w, "the objects in the bucket are deleted by a gc that runs seven days later")
	}
}

// printNeeded prints who still needs bytes of a transaction. pinned says that these
// are not only other transactions, but pins.
func printNeeded(w io.Writer, shared int64, holders []int64, pinned bool, pins string) {
	if shared <= 0 {
		return
	}
	var needed []string
	for _, n := range holders {
		needed = append(needed, strconv.FormatInt(n, 10))
	}
	by := "builds "
	if len(needed) == 1 {
		by = "build "
	}
	by += strings.Join(needed, ", ")
	switch {
	case len(needed) == 0:
		by = pins
	case pinned:
		by += ", " + pins
	}
	fmt.Fprintf(w, "%s of it are still needed by %s and stay\n", term.Size(shared), by)
}

// Trashed is a transaction in the trash in JSON.
type Trashed struct {
	Transaction int64     `json:"build"`
	Product     string    `json:"product"`
	Version     string    `json:"version"`
	Until       time.Time `json:"until"`
	Bytes       int64     `json:"bytes"` // disk space of contents that no live transaction holds
}

// NewTrash describes the trash.
func NewTrash(list []lifecycle.Trashed) []Trashed {
	out := make([]Trashed, len(list))
	for i, t := range list {
		out[i] = Trashed{t.Number, t.Product, t.Version, t.TrashUntil, t.Stored}
	}
	return out
}
