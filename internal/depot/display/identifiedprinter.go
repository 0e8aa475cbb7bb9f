package display

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/internal/base/term"
)

// IdentifiedPrinter prints what files are.
type IdentifiedPrinter struct {
	JSON    bool
	Sources bool     // the names of source files are printed, not objects
	Named   []string // the paths of the command line
	Found   int      // Objects and dumps, or names

	w     io.Writer
	out   term.JSONLines
	table *term.Table // unless JSON is set
	paths string      // the paths under which debuggers request these files
}

// Begin prints the head of the table; held: with what a server has.
func (p *IdentifiedPrinter) Begin(w io.Writer, held bool) {
	p.w, p.out = w, term.NewJSONLines(w)
	columns := []string{"KIND", "ARCH", "ID", "SIZE", "FEATURES", "ANSWERS", "PATH"}
	switch {
	case p.JSON:
		return
	case p.Sources:
		columns = []string{"ID", "CHECKSUM", "TEXT", "SOURCE FILE", "PATH"}
	case held:
		columns = append(columns, "IN DEPOT")
	}
	p.table = term.NewTable(p.w, columns...)
}

// End prints what is left.
func (p *IdentifiedPrinter) End() error {
	if p.JSON {
		return nil
	}
	if err := p.table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprint(p.w, p.paths)
	return err
}

// Left prints a file that is no symbol file, or cannot be read. The table has no plain ones.
func (p *IdentifiedPrinter) Left(path, reason string, plain bool) error {
	switch {
	case p.JSON:
		return p.out.Write(struct {
			Path  string `json:"path"`
			Error string `json:"error"`
		}{path, reason})
	case plain:
	case p.Sources:
		p.table.Row("-", "", "", reason, path)
	default:
		p.table.Row("-", "", "", "", reason, "", path)
	}
	return nil
}

// row prints an object.
func (p *IdentifiedPrinter) row(id *Identified, more ...string) {
	features, answers := strings.Join(id.Features, ","), strings.Join(id.Answers, ",")
	p.table.Row(append([]string{id.Kind, id.Arch, id.ID(), term.Size(id.Size), features, answers, id.Path}, more...)...)
	for _, line := range id.Lines() {
		p.table.Row("", "", "", "", "", "", "  "+line)
	}
	if slices.Contains(p.Named, id.Path) {
		p.paths += id.PathText()
	}
}

// Objects prints the objects of a file.
func (p *IdentifiedPrinter) Objects(list []Identified) error {
	for i := range list {
		p.Found++
		if !p.JSON {
			p.row(&list[i])
		} else if err := p.out.Write(list[i]); err != nil {
			return err
		}
	}
	return nil
}

// Answer prints the answer of a server.
func (p *IdentifiedPrinter) Answer(path string, answer *FileAnswer) error {
	for i := range answer.Objects {
		p.Found++
		o := &answer.Objects[i]
		if o.Path = path; !p.JSON {
			p.row(&o.Identified, o.HeldText())
		} else if err := p.out.Write(o); err != nil {
			return err
		}
	}
	if answer.Dump == nil {
		return nil
	}
	p.Found++
	if p.JSON {
		answer.Name = path
		return p.out.Write(answer)
	}
	if err := p.table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(p.w, "%s: %s\n", term.Printable(path), answer.Dump.Kind)
	return answer.Dump.Table(p.w)
}

// Source prints a source file that an object names.
func (p *IdentifiedPrinter) Source(s NamedSource) error {
	p.Found++
	if p.JSON {
		return p.out.Write(s)
	}
	text := ""
	if s.Embedded {
		text = "embedded"
	}
	p.table.Row(s.ID, s.Checksum, text, s.Name, s.Path)
	return nil
}
