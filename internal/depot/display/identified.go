package display

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/base/truncate"
	"github.com/symdepot/symdepot/internal/files/scan"
	"github.com/symdepot/symdepot/internal/files/srclink"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// Identified is an object of a local file, in JSON.
type Identified struct {
	Path string `json:"path"`
	Object
	Paths map[string][]string `json:"paths"`           // in each layout, by its name
	Wants []string            `json:"wants,omitempty"` // paths of its PDBs in a SymStore tree
	// Answers says what can be made of the file alone: functions, lines, inlines,
	// publics and unwind. Needs names the files that answer the rest, for people.
	Answers []string `json:"answers"`
	Needs   []string `json:"needs,omitempty"`
	// Links is where a PDB leads debuggers for source files; see ReadLinks.
	Links *srclink.Links `json:"links,omitempty"`
}

// Identify describes the objects in a file, with their links to source files, and discards
// the file. The error is of the type FileError.
func Identify(ctx context.Context, f *scan.File, opt objfile.Options) (list []Identified, err error) {
	err = f.Examine(ctx, opt, func(c *scan.Content, objs []objfile.Object) error {
		for _, o := range objs {
			id := NewIdentified(f.Path, o)
			if err := id.ReadLinks(c, o); err != nil {
				return err
			}
			list = append(list, id)
		}
		return nil
	})
	if err != nil {
		return nil, &FileError{err}
	}
	return list, nil
}

// ReadLinks reads the links of o, which f has, to source files. The error is that of f.
func (id *Identified) ReadLinks(f io.ReaderAt, o objfile.Object) error {
	if o.Deflated != 0 || !MayLink(o) {
		return nil
	}
	l, err := srclink.Read(io.NewSectionReader(f, o.Offset, o.Size), o.Size, o.Kind)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	id.Links = l
	return err
}

// Lines says in lines what else the object needs, and where its links lead.
func (id *Identified) Lines() (lines []string) {
	for _, what := range id.Needs {
		lines = append(lines, "needs "+what)
	}
	return append(lines, LinkLines(id.Links)...)
}

// PathText is a paragraph with the paths under which debuggers request the object, by
// layout.
func (id *Identified) PathText() string {
	var b strings.Builder
	for _, l := range layout.All() {
		for _, path := range id.Paths[l.Name()] {
			fmt.Fprintf(&b, "  %-15s  %s\n", l.Name(), term.Printable(path))
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "\n" + term.Printable(strings.TrimSpace(id.Name+" "+id.ID())) + " is requested as\n" + b.String()
}

// MayLink reports whether an object may have links to source files.
func MayLink(o objfile.Object) bool {
	return (o.Kind == symfile.PDB || o.Kind == symfile.PortablePDB) && (o.Features.Sources || o.Features.Unknown)
}

// LinkLines says in lines where links lead.
func LinkLines(l *srclink.Links) (lines []string) {
	if l == nil {
		return nil
	}
	if s := l.Srcsrv; s != nil {
		what := s.Example.Target
		switch {
		case s.Class == srclink.Command && s.Example.Command != "":
			what = "runs " + s.Example.Command
		case s.Example.Reason != "":
			what = s.Example.Reason
		}
		files := term.Count(int64(s.Files), "file")
		lines = append(lines, fmt.Sprintf("source server stream for %s, class %s: %s", files, s.Class, truncate.Text(what)))
	}
	if m := l.SourceLink; m != nil && m.Rules == 0 {
		lines = append(lines, "Source Link without rules, so that it leads nowhere")
	} else if m != nil {
		var places []string
		for _, p := range m.Places[:min(len(m.Places), 5)] {
			places = append(places, p.String())
		}
		named := truncate.Text(strings.Join(places, ", "))
		lines = append(lines, fmt.Sprintf("Source Link with %s: %s", term.Count(int64(m.Rules), "rule"), named))
	}
	return append(lines, l.Faults...)
}

// NewIdentified describes an object of the file at path.
func NewIdentified(path string, o objfile.Object) Identified {
	id := Identified{Path: path, Object: newObject(o.Object, o.Arch, o.Size, o.Features.Words()), Paths: NewPaths(o.Object)}
	for _, w := range o.PDBs {
		if ps := layout.SymStore.Paths(w); len(ps) > 0 {
			id.Wants = append(id.Wants, ps[0])
		}
	}
	a := newAnswers(o)
	id.Answers, id.Needs = a.list, a.needs
	return id
}

// ID is the id of the object that people know it by; see the function ID. Kinds
// that are requested by a hash have it in their path only.
func (id Identified) ID() string {
	if s := id.Object.ID(); s != "" {
		return s
	}
	if ps := id.Paths[layout.SymStore.Name()]; len(ps) > 0 {
		if parts := strings.Split(ps[0], "/"); len(parts) > 1 {
			return parts[1]
		}
	}
	return ""
}
