package report

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/clip"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/scan"
	"github.com/symdepot/symdepot/internal/srclink"
	"github.com/symdepot/symdepot/internal/term"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// Object describes an object in JSON, wherever it was found.
type Object struct {
	Kind     string   `json:"kind"`
	Name     string   `json:"name"`
	Arch     string   `json:"arch"`
	Size     int64    `json:"size"`
	CodeID   string   `json:"code_id"`
	DebugID  string   `json:"debug_id"`
	BuildID  string   `json:"build_id"`
	Features []string `json:"features"`
}

func newObject(o symfile.Object, arch string, size int64, features []string) Object {
	return Object{o.Kind.String(), o.Name, arch, size, o.CodeID, o.DebugID.Breakpad(), string(o.BuildID), features}
}

// ID is the id of the object that people know it by; see the function ID.
func (o Object) ID() string { return ID(o.Kind, o.CodeID, o.DebugID, o.BuildID) }

// Found is an object that a query found, in JSON.
type Found struct {
	Query string `json:"query"`
	Object
	SHA256       string    `json:"sha256,omitempty"` // empty for an object in a watched folder
	Transactions []int64   `json:"transactions"`
	FetchedFrom  string    `json:"fetched_from,omitempty"`
	Fetched      time.Time `json:"fetched,omitzero"`
	// InPlace is the path of an object in a watched folder, behind that of its package;
	// such an object has no SHA256.
	InPlace string `json:"in_place,omitempty"`
	Away    bool   `json:"away,omitempty"` // the watched folder is away: nothing of it is served
	// Cold is how a cold content is stored; missing: it is plain.
	Cold *ColdFile `json:"cold,omitempty"`
	// SameContent is set if the query was a local file: whether the object has
	// that file's bytes, not only its ids.
	SameContent *bool `json:"same_content,omitempty"`
}

// NewFound describes an object that query found. same is nil unless the query
// was a local file.
func NewFound(query string, f depot.Found, same *bool) Found {
	l := Found{Query: query, Object: newObject(f.Object, f.Arch, f.Size, f.Features), SHA256: f.Ref.String(), Transactions: f.Transactions, FetchedFrom: f.Source, Cold: NewColdFile(f.Cold), SameContent: same}
	if l.Transactions == nil {
		l.Transactions = []int64{} // a list for programs, also if it is empty
	}
	if f.Source != "" {
		l.Fetched = f.Added.UTC()
	}
	if f.InPlace {
		l.SHA256, l.InPlace, l.Away = "", f.Path, f.Away
		if f.Archive != "" {
			l.InPlace = f.Archive + "!" + f.Path
		}
	}
	return l
}

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
// the file.
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
	return list, err
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
		lines = append(lines, fmt.Sprintf("source server stream for %s, class %s: %s", term.Count(int64(s.Files), "file"), s.Class, clip.Text(what)))
	}
	if m := l.SourceLink; m != nil && m.Rules == 0 {
		lines = append(lines, "Source Link without rules, so that it leads nowhere")
	} else if m != nil {
		var places []string
		for _, p := range m.Places[:min(len(m.Places), 5)] {
			places = append(places, p.String())
		}
		lines = append(lines, fmt.Sprintf("Source Link with %s: %s", term.Count(int64(m.Rules), "rule"), clip.Text(strings.Join(places, ", "))))
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
	id.Answers, id.Needs = answers(o)
	return id
}

// answers returns what symbolication can read of an object, and which other files it
// needs for the rest.
func answers(o objfile.Object) (list, needs []string) {
	list = []string{}
	add := func(is bool, words ...string) {
		if is {
			list = append(list, words...)
		}
	}
	need := func(is bool, format string, args ...any) {
		if is {
			needs = append(needs, fmt.Sprintf(format, args...))
		}
	}
	lines := []string{"functions", "lines", "inlines"}
	f := o.Features
	switch o.Kind {
	case symfile.PDB:
		private := f.Debug && !o.NoDBI
		add(private, lines...)
		add(!o.NoDBI, "publics")
		add(f.Unwind || !o.NoDBI && o.Arch == "x86", "unwind")
		need(o.NoDBI, "it has types only")
		need(!private && !o.NoDBI, "the private PDB, for functions and lines")
		need(!o.NoDBI && o.Arch != "x86" && !f.Unwind, "the program, for unwind rules")
	case symfile.PE:
		dwarf := f.Debug && len(o.PDBs) == 0
		add(dwarf, lines...)
		add(o.Role&symfile.Executable != 0, "publics")
		add(f.Unwind && o.Role&symfile.Executable != 0, "unwind")
		for _, w := range o.PDBs {
			need(w.Kind == symfile.PDB, "%s with the id %s, for functions and lines", w.Name, w.DebugID.Breakpad())
		}
		need(len(o.PDBs) == 0 && !dwarf, "the debug file, for functions and lines")
		need(o.Role&symfile.Executable == 0, "the program, for unwind rules")
	case symfile.ELF, symfile.MachO:
		if o.Hash != "" {
			need(true, "the program, of which this is split debug information")
			return list, needs
		}
		debug, image := f.Debug && !o.IsRelocatable(), o.Role&symfile.Executable != 0
		add(debug, lines...)
		add(f.Symtab || image && !f.Unknown, "publics")
		add(f.Unwind && image, "unwind")
		what := "the debug file"
		if o.Kind == symfile.MachO {
			what = "the dSYM"
		}
		need(image && !debug, "%s with the id %s, for functions and lines", what, ID(o.Kind.String(), o.CodeID, o.DebugID.Breakpad(), string(o.BuildID)))
		need(!image && debug, "the program, for unwind rules")
		need(o.IsRelocatable(), "it is not linked: addresses are not final")
	case symfile.Breakpad:
		add(f.Debug, lines...)
		add(f.Symtab, "publics")
		add(f.Unwind, "unwind")
	case symfile.PortablePDB:
		add(f.Debug, "lines")
		need(true, "IL offsets as addresses: see docs/symbolication.md")
	}
	return list, needs
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
