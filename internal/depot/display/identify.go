package display

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/dump"
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/needed"
	"github.com/symdepot/symdepot/symfile"
)

// FileAnswer is what a server says of a file that a client has, in JSON: it is a dump,
// or has objects.
type FileAnswer struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
	// SHA256 is that of the whole file; empty if the client has sent parts of it only.
	SHA256  string         `json:"sha256,omitempty"`
	Objects []ObjectAnswer `json:"objects,omitempty"`
	Dump    *DumpAnswer    `json:"dump,omitempty"`
}

// ObjectAnswer is an object of a file, and the files of the depot that have its ids.
type ObjectAnswer struct {
	Identified
	// SHA256 is that of the object's bytes; empty as in FileAnswer.
	SHA256 string `json:"sha256,omitempty"`
	// Spellings are its ids as tools print them.
	Spellings []Spelling `json:"spellings,omitempty"`
	// Held are the files of the depot, and those of watched folders. Whether they have the
	// same bytes is known only if all bytes were sent, and of watched ones never.
	Held []Found `json:"here"`
}

// Spelling is a spelling of an id, and who has it.
type Spelling struct {
	Label string `json:"label"`
	Value string `json:"value"`
}

// NewObjectAnswer describes an object of a file. Ref is that of its bytes; unknown if
// exact is false.
func NewObjectAnswer(name string, s depot.Same, exact bool) ObjectAnswer {
	o := ObjectAnswer{Identified: NewIdentified(name, s.Object), Held: []Found{}}
	if exact {
		o.SHA256 = s.Ref.String()
	}
	for _, f := range s.Found {
		var same *bool
		if exact && !f.InPlace {
			is := f.Ref == s.Ref
			same = &is
		}
		o.Held = append(o.Held, NewFound(name, f, same))
	}
	return o
}

// HeldText says in few words whether the depot has the object.
func (o *ObjectAnswer) HeldText() string {
	text := "no"
	for _, f := range o.Held {
		switch {
		case f.InPlace != "":
			if text == "no" {
				text = map[bool]string{false: "in place", true: "in place, away"}[f.Away]
			}
		case f.SameContent != nil && *f.SameContent:
			return "yes"
		case symfile.Fold(f.Name) != symfile.Fold(o.Name):
			if text == "no" {
				text = "as " + f.Name // such as the debug file of a program
			}
		case f.SameContent == nil:
			text = "yes"
		default:
			text = "yes, other content"
		}
	}
	return text
}

// DumpAnswer says what the depot has of the modules of a dump.
type DumpAnswer struct {
	Kind dump.Kind `json:"kind"`
	Arch string    `json:"arch,omitempty"`
	OS   string    `json:"os,omitempty"`
	Time time.Time `json:"time,omitzero"`
	// Totals count the modules by their verdicts.
	Totals  map[needed.Verdict]int `json:"totals"`
	Modules []needed.Module        `json:"modules"`
	// Problems describe the parts of the dump that cannot be read.
	Problems []string `json:"problems,omitempty"`
}

// NewDumpAnswer describes a dump.
func NewDumpAnswer(d *dump.Dump, modules []needed.Module) *DumpAnswer {
	return &DumpAnswer{d.Kind, d.Arch, d.OS, d.Time, needed.Totals(modules), modules, d.Problems}
}

// Table prints the modules, and a line with the totals.
func (d *DumpAnswer) Table(w io.Writer) error {
	t := term.NewTable(w, "MODULE", "ID", "VERDICT")
	for _, m := range d.Modules {
		t.Row(m.Name, m.ID, m.Verdict.Text())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, term.Count(int64(len(d.Modules)), "module")+d.TotalsText()+"\n")
	return err
}

// TotalsText lists the numbers of modules by verdict, such as ": 12 in the depot; 1 missing, your module".
func (d *DumpAnswer) TotalsText() string {
	var parts []string
	for _, v := range needed.Verdicts {
		if n := d.Totals[v]; n > 0 {
			parts = append(parts, strconv.Itoa(n)+" "+v.Text())
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, "; ")
}

// WriteMissing writes the files that a debugger misses as comma-separated values, which
// a spreadsheet may open: see MissingCSV.
func WriteMissing(w io.Writer, modules []needed.Module) error {
	c := csv.NewWriter(w)
	_ = c.Write([]string{"name", "id", "part", "module", "verdict"}) // Flush has the error
	for i := range modules {
		m := &modules[i]
		for _, f := range m.Missing() {
			_ = c.Write([]string{Cell(f.Name), Cell(f.ID), f.Part, Cell(m.Name), string(m.Verdict)})
		}
	}
	c.Flush()
	return c.Error()
}

// MatchAnswer says what the depot has of files that are given by name and id, in JSON.
type MatchAnswer struct {
	Items  []Matched              `json:"items"`
	Totals map[needed.Verdict]int `json:"totals"`
}

// Matched is one of the files, or why its name or id is not valid.
type Matched struct {
	needed.Module
	Error string `json:"error,omitempty"`
}
