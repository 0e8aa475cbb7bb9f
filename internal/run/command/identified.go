package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot/display"
)

// identified prints what files are.
type identified struct {
	*console
	json    bool
	sources bool     // the names of source files are printed, not objects
	named   []string // the paths of the command line
	out     term.JSONLines
	table   *term.Table // unless json is set
	paths   string      // the paths under which debuggers request these files
	found   int         // objects and dumps, or names
}

// begin prints the head of the table.
func (p *identified) begin(held bool) {
	columns := []string{"KIND", "ARCH", "ID", "SIZE", "FEATURES", "ANSWERS", "PATH"}
	switch {
	case p.json:
		return
	case p.sources:
		columns = []string{"ID", "CHECKSUM", "TEXT", "SOURCE FILE", "PATH"}
	case held:
		columns = append(columns, "HELD")
	}
	p.table = term.NewTable(p.stdout, columns...)
}

// end prints what is left.
func (p *identified) end() error {
	if p.json {
		return nil
	}
	if err := p.table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprint(p.stdout, p.paths)
	return err
}

// left prints a file that is no symbol file, or cannot be read. The table has no plain ones.
func (p *identified) left(path, reason string, plain bool) error {
	switch {
	case p.json:
		return p.out.Write(struct {
			Path  string `json:"path"`
			Error string `json:"error"`
		}{path, reason})
	case plain:
	case p.sources:
		p.table.Row("-", "", "", reason, path)
	default:
		p.table.Row("-", "", "", "", reason, "", path)
	}
	return nil
}

// row prints an object.
func (p *identified) row(id *display.Identified, more ...string) {
	features, answers := strings.Join(id.Features, ","), strings.Join(id.Answers, ",")
	p.table.Row(append([]string{id.Kind, id.Arch, id.ID(), term.Size(id.Size), features, answers, id.Path}, more...)...)
	for _, line := range id.Lines() {
		p.table.Row("", "", "", "", "", "", "  "+line)
	}
	if slices.Contains(p.named, id.Path) {
		p.paths += id.PathText()
	}
}

// objects prints the objects of a file.
func (p *identified) objects(list []display.Identified) error {
	for i := range list {
		p.found++
		if !p.json {
			p.row(&list[i])
		} else if err := p.out.Write(list[i]); err != nil {
			return err
		}
	}
	return nil
}

// answer prints the answer of a server.
func (p *identified) answer(path string, answer *display.FileAnswer) error {
	for i := range answer.Objects {
		p.found++
		o := &answer.Objects[i]
		if o.Path = path; !p.json {
			p.row(&o.Identified, o.HeldText())
		} else if err := p.out.Write(o); err != nil {
			return err
		}
	}
	if answer.Dump == nil {
		return nil
	}
	p.found++
	if p.json {
		answer.Name = path
		return p.out.Write(answer)
	}
	if err := p.table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "%s: %s\n", term.Printable(path), answer.Dump.Kind)
	return answer.Dump.Table(p.stdout)
}

// incomplete warns that names of source files are missing.
func (p *identified) incomplete(text string) { p.warn([]string{term.Printable(text)}) }

// source prints a source file that an object names.
func (p *identified) source(s display.NamedSource) error {
	p.found++
	if p.json {
		return p.out.Write(s)
	}
	text := ""
	if s.Embedded {
		text = "embedded"
	}
	p.table.Row(s.ID, s.Checksum, text, s.Name, s.Path)
	return nil
}
