// Package report formats what commands print about a depot: transactions, objects,
// faults and freed space, as JSON for programs and as text for people.
package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/scan"
	"github.com/symdepot/symdepot/internal/term"
	"github.com/symdepot/symdepot/symfile"
)

// Transaction is a transaction in JSON.
type Transaction struct {
	Transaction int64     `json:"transaction"`
	Product     string    `json:"product"`
	Version     string    `json:"version"`
	Comment     string    `json:"comment"`
	Time        time.Time `json:"time"`
	Who         string    `json:"who"`
	Host        string    `json:"host"`
	Objects     int64     `json:"objects"`
	Bytes       int64     `json:"bytes"`
	Removed     time.Time `json:"removed,omitzero"`

	Branch string            `json:"branch,omitempty"`
	Class  string            `json:"class,omitempty"`
	Build  json.RawMessage   `json:"build,omitempty"` // the CI job that made the files
	Labels map[string]string `json:"labels,omitempty"`
	// Collecting: files are still added to it.
	Collecting bool `json:"collecting,omitempty"`
	// Until is the time until which a removed transaction can be restored.
	Until time.Time `json:"until,omitzero"`
	// Origin is where it was imported from; nil if it was made here.
	Origin *depot.Origin `json:"origin,omitempty"`
}

// NewTransaction describes a transaction.
func NewTransaction(t depot.Transaction) Transaction {
	l := Transaction{t.Number, t.Product, t.Version, t.Comment, t.Time.UTC(), t.Who, t.Host, t.Files, t.Bytes, t.Removed, t.Branch, t.Class, t.Build, t.Labels, t.Collecting, t.TrashUntil, t.Origin}
	if !l.Removed.IsZero() {
		l.Removed = l.Removed.UTC()
	}
	return l
}

// File is an object of a transaction in JSON.
type File struct {
	Path    string    `json:"path"`
	Archive string    `json:"archive,omitempty"`
	Kind    string    `json:"kind"`
	Name    string    `json:"name"`
	Size    int64     `json:"size"`
	ModTime time.Time `json:"modified"`
	CodeID  string    `json:"code_id"`
	DebugID string    `json:"debug_id"`
	BuildID string    `json:"build_id"`
	SHA256  string    `json:"sha256"`
	Cold    *ColdFile `json:"cold,omitempty"`
}

// NewFile describes an object of a transaction.
func NewFile(f depot.TxFile) File {
	o := f.Object
	return File{origin(f.Path, f.Archive), f.Archive, o.Kind.String(), o.Name, f.Size, f.ModTime.UTC(), o.CodeID, o.DebugID.Breakpad(), string(o.BuildID), f.Ref.String(), NewColdFile(f.Cold)}
}

// ID is the id of the object that people know it by; see the function ID.
func (f File) ID() string { return ID(f.Kind, f.CodeID, f.DebugID, f.BuildID) }

// origin is the one path of a file that may come from an archive.
func origin(path, archive string) string {
	if archive == "" || strings.Contains(path, scan.Separator) { // as older depots have it
		return path
	}
	return archive + scan.Separator + strings.TrimPrefix(path, "/")
}

// Remark holds the facts of a line of a table that have no column: whether the content is
// that of the local file, and where a cached file was downloaded from.
func (f Found) Remark() string {
	var words []string
	if f.SameContent != nil {
		words = append(words, map[bool]string{true: "same content", false: "other content"}[*f.SameContent])
	}
	if f.InPlace != "" {
		words = append(words, map[bool]string{false: "in place: ", true: "in place, away: "}[f.Away]+f.InPlace)
	}
	if f.Cold != nil {
		words = append(words, f.Cold.Text())
	}
	if f.FetchedFrom != "" {
		words = append(words, "fetched from "+f.FetchedFrom+" on "+f.Fetched.Local().Format("2006-01-02 15:04"))
	}
	return strings.Join(words, ", ")
}

// ID is the id that people know an object of a kind by: the build-id if there is
// one, the code id of a PE or DBG file, else the debug id.
func ID(kind, codeID, debugID, buildID string) string {
	switch {
	case buildID != "":
		return buildID
	case kind == "pe" || kind == "dbg" || debugID == "":
		return codeID
	}
	return debugID
}

// ObjectID is the id of an object as its own tools show it.
func ObjectID(o symfile.Object) string {
	return cmp.Or(ID(o.Kind.String(), o.CodeID, o.DebugID.Breakpad(), string(o.BuildID)), o.Hash, o.CodeID)
}

// Fault prints a fault with the files that are lost by it.
func Fault(w io.Writer, f depot.Fault) {
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
	depot.Verified
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
func NewChecked(v depot.Verified, st depot.ScrubState) Checked {
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
func Verified(w io.Writer, v depot.Verified, st depot.ScrubState, rows bool) {
	word := "clean"
	if v.Faults > 0 {
		word = term.Count(v.Faults, "fault")
	}
	read := "every byte read"
	if rows {
		read = "the rows checked"
	}
	fmt.Fprintf(w, "%s: %s, %s, %s", word, term.Count(v.Contents, "content"), term.Size(v.Bytes), read)
	if v.Strays > 0 {
		fmt.Fprintf(w, "; %s left by an interrupted add (gc takes them)", term.Count(v.Strays, "blob"))
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
	if s := depot.ScrubText(st); s != "" {
		fmt.Fprintln(w, s)
	}
}

// objects prints the differences between a bucket and the index.
func objects(w io.Writer, v depot.Verified) {
	if v.Objects == 0 && v.Unknown == 0 {
		return
	}
	fmt.Fprintf(w, "%s in the bucket", term.Count(v.Objects, "object"))
	switch {
	case v.Unknown > 0 && v.Doomed:
		fmt.Fprintf(w, ", %d of them unknown and older than a month: a gc that runs in seven days deletes these", v.Unknown)
	case v.Unknown > 0:
		fmt.Fprintf(w, ", %d of them unknown and older than a month; they stay, because another copy of the database owns the objects (symdepot gc --claim)", v.Unknown)
	}
	fmt.Fprintln(w)
}
