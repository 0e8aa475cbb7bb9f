// Package display formats what commands print about a depot: transactions, objects,
// faults and freed space, as JSON for programs and as text for people.
package display

import (
	"encoding/json"
	"strings"
	"time"

	"fmt"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/files/scan"
)

// Transaction is a transaction in JSON.
type Transaction struct {
	Transaction int64     `json:"build"`
	Product     string    `json:"product"`
	Version     string    `json:"version"`
	Comment     string    `json:"comment"`
	Time        time.Time `json:"time"`
	Who         string    `json:"who"`
	Host        string    `json:"host"`
	Objects     int64     `json:"files"`
	Bytes       int64     `json:"bytes"`
	Removed     time.Time `json:"removed,omitzero"`

	Branch string            `json:"branch,omitempty"`
	Class  string            `json:"class,omitempty"`
	Build  json.RawMessage   `json:"ci_job,omitempty"` // the CI job that made the files
	Labels map[string]string `json:"labels,omitempty"`
	// Coverage is what the last check of what ships has found.
	Coverage *wire.BuildCoverage `json:"coverage,omitempty"`
	// Collecting: files are still added to it.
	Collecting bool `json:"collecting,omitempty"`
	// Until is the time until which a removed transaction can be restored.
	Until time.Time `json:"until,omitzero"`
	// Origin is where it was imported from; nil if it was made here.
	Origin *depot.Origin `json:"origin,omitempty"`
}

// NewTransaction describes a transaction.
func NewTransaction(t depot.Transaction) Transaction {
	l := Transaction{
		t.Number, t.Product, t.Version, t.Comment, t.Time.UTC(), t.Who, t.Host, t.Files, t.Bytes, t.Removed,
		t.Branch, t.Class, t.Build, lifecycle.OtherLabels(t.Labels), lifecycle.CoverageOf(t.Labels), t.Collecting, t.TrashUntil, t.Origin,
	}
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
	return File{
		origin(f.Path, f.Archive), f.Archive, o.Kind.String(), o.Name, f.Size, f.ModTime.UTC(),
		o.CodeID, o.DebugID.Breakpad(), string(o.BuildID), f.Ref.String(), NewColdFile(f.Cold),
	}
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

// Restorable describes until when a removed transaction can be restored, as the end of a
// sentence.
func (t Transaction) Restorable(now time.Time) string { return restorable(t.Transaction, t.Until, now) }

// restorable describes until when a removed build can be restored, as the end of a sentence.
// Until gc has freed the files, the end of its time in the trash stays known.
func restorable(number int64, until, now time.Time) string {
	switch end := until.Local().Format("2006-01-02 15:04"); {
	case until.IsZero():
		return "; it cannot be restored"
	case !until.After(now):
		return "; it cannot be restored any more: its time in the trash ended on " + end
	default:
		return fmt.Sprintf("; symdepot undo %d restores it until %s", number, end)
	}
}
