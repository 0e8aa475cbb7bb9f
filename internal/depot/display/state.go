package display

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"strings"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/depot/retention"
)

// State is a transaction with its holds and its history, in JSON.
type State struct {
	Transaction
	Holds      []Held     `json:"holds"` // ended ones included
	Promotions []Promoted `json:"promotions"`
	Needs      []int64    `json:"needs,omitempty"`   // transactions that are kept as long as this one
	Removal    *Removal   `json:"removal,omitempty"` // of a removed transaction, if it is known
	// Key is the key of the push that made it, as long as the server remembers it.
	Key string `json:"key,omitempty"`
}

// Removal describes who removed a transaction, and why, in JSON.
type Removal struct {
	By     string    `json:"by"`
	Class  string    `json:"class"` // by which it was judged
	Reason string    `json:"reason"`
	Detail string    `json:"detail"`
	Plan   string    `json:"plan,omitempty"`
	Until  time.Time `json:"until,omitzero"` // it can be restored until then
}

// NewState describes a transaction. removal is nil if it is live, or if nothing is
// known of its removal.
func NewState(t depot.Transaction, holds []lifecycle.Hold, promotions []lifecycle.Promotion, removal *lifecycle.Removal) State {
	s := State{Transaction: NewTransaction(t), Holds: NewHolds(holds), Promotions: make([]Promoted, len(promotions))}
	for i, p := range promotions {
		s.Promotions[i] = NewPromoted(p)
	}
	if r := removal; r != nil {
		s.Removal = &Removal{r.Who, r.Class, r.Reason, r.Detail, r.Plan, t.TrashUntil}
	}
	return s
}

// Changed is the result of a change of a transaction, in JSON.
type Changed struct {
	Promoted *Promoted `json:"promoted,omitempty"`
	Held     *Held     `json:"held,omitempty"`
	Released []Held    `json:"released,omitzero"`
	// Transaction is set if the comment was changed.
	Transaction *Transaction `json:"build,omitempty"`
}

// RemovePlan is the space that the removal of one transaction would free, in JSON.
type RemovePlan struct {
	Plan        string  `json:"plan"`
	Transaction int64   `json:"build"`
	Listed      int64   `json:"listed"`
	Frees       int64   `json:"frees"`  // disk space, after the trash
	Shared      int64   `json:"shared"` // bytes that others still need
	Trash       int64   `json:"trash"`  // for how many seconds the removal can be undone
	Holders     []int64 `json:"holders"`
	Pinned      bool    `json:"pinned,omitempty"`
	// Collecting means that files are still added to it: those that come after its
	// removal are another transaction.
	Collecting bool `json:"collecting,omitempty"`
}

// NewRemovePlan describes the removal of a transaction, which the trash then keeps. Its
// number identifies all of it: if anything of it changes, the number does.
func NewRemovePlan(number int64, r *retention.Removal, trash time.Duration) (RemovePlan, error) {
	l := RemovePlan{
		Transaction: number, Listed: r.Listed, Frees: r.Frees.Stored, Shared: r.Shared, Trash: int64(trash / time.Second),
		Holders: append([]int64{}, r.Holders...), Pinned: r.Pinned, Collecting: r.Open,
	}
	b, err := json.Marshal(l)
	sum := sha256.Sum256(append([]byte("symdepot remove plan 1\n"), b...))
	l.Plan = hex.EncodeToString(sum[:4])
	return l, err
}

// Print prints what the removal of the transaction would free, and how it is done, for
// people. purge means that the removal would be a purge, which takes no plan.
func (l RemovePlan) Print(w io.Writer, t Transaction, purge bool, now time.Time) {
	l.printEffect(w, t, purge, now)
	if purge {
		fmt.Fprintf(w, "symdepot rm --purge %d removes it, and frees the bytes at once\n", l.Transaction)
		return
	}
	fmt.Fprintf(w, "plan %s: symdepot rm --plan %s %d removes it if that is still so\n", l.Plan, l.Plan, l.Transaction)
}

// RemovalQuestion prints what the removals of transactions do, for people, and returns the
// question whether they are to be.
func RemovalQuestion(w io.Writer, plans []RemovePlan, list []Transaction, purge bool, now time.Time) string {
	verb, what, undoable := "Remove", term.Count(int64(len(list)), "build"), true
	for i, l := range plans {
		l.printEffect(w, list[i], purge, now)
		undoable = undoable && l.undoable(purge)
	}
	if purge {
		verb = "Purge"
	}
	if len(list) == 1 {
		what = fmt.Sprintf("build %d", list[0].Transaction)
	}
	if undoable {
		return verb + " " + what + "?"
	}
	return verb + " " + what + "? This cannot be undone."
}

// printEffect prints what goes with the transaction, what of it stays, and until when it
// can be restored if it is removed now, for people.
func (l RemovePlan) printEffect(w io.Writer, t Transaction, purge bool, now time.Time) {
	of := term.Printable(strings.TrimSpace(t.Product + " " + t.Version))
	if of != "" {
		of = " (" + of + ")"
	}
	fmt.Fprintf(w, "build %d%s has %s in %s; its removal frees %s\n",
		l.Transaction, of, term.Size(l.Listed), term.Count(t.Objects, "file"), term.Size(l.Frees))
	printNeeded(w, l.Shared, l.Holders, l.Pinned, "cached files or unfinished pushes")
	if l.Collecting {
		fmt.Fprintln(w, "files are still being added to it: files that arrive after its removal make another build, even if they are the same")
	}
	if trash := time.Duration(l.Trash) * time.Second; l.undoable(purge) {
		fmt.Fprintf(w, "symdepot undo %d restores it for %s, until %s if it is removed now; then gc frees the bytes\n",
			l.Transaction, term.Duration(trash), now.Add(trash).Local().Format("2006-01-02 15:04"))
	} else {
		fmt.Fprintln(w, "its removal cannot be undone")
	}
}

// undoable reports whether the removal, or a purge, can be undone.
func (l RemovePlan) undoable(purge bool) bool { return l.Trash > 0 && !purge }

// Print prints the class of a transaction and its history, the holds on it, and who
// removed it, as lines of an indented list.
func (s State) Print(w io.Writer, now time.Time) {
	line := func(key, format string, args ...any) {
		fmt.Fprintf(w, "  %-8s %s\n", key, fmt.Sprintf(format, args...))
	}
	if s.Branch != "" {
		line("branch", "%s", term.Printable(s.Branch))
	}
	if s.Class != "" {
		line("class", "%s", term.Printable(s.Class))
	}
	if c := s.Coverage; c != nil {
		line("checked", "%d of %d files covered (%v%%: %s) by %s on %s", c.Covered, c.Files, c.Percent(), strings.Join(c.Require, ", "),
			term.Printable(c.By), c.Checked.Local().Format(time.DateOnly))
	}
	for _, p := range s.Promotions {
		from := "none given"
		if p.From != "" {
			from = p.From
		}
		line("promoted", "from %s to %s by %s on %s", term.Printable(from), term.Printable(p.To), term.Printable(p.By),
			p.At.Local().Format(time.DateOnly))
	}
	for _, h := range s.Holds {
		until := ""
		if h.Until != "" {
			until = " until " + h.Until
		}
		line("held", "by %s%s: %s", term.Printable(h.By), until, term.Printable(h.Reason))
	}
	for _, n := range s.Needs {
		line("needs", "build %d", n)
	}
	if s.Removed.IsZero() {
		return
	}
	removed := s.Removed.Local().Format(time.RFC3339)
	if r := s.Removal; r != nil && r.Reason != "" {
		removed = retention.Tombstone{Class: r.Class, Removed: s.Removed, By: r.By, Reason: r.Reason, Detail: r.Detail}.String()
		removed = strings.TrimPrefix(removed, "removed on ")
	}
	line("removed", "%s%s", term.Printable(removed), s.Restorable(now))
}
