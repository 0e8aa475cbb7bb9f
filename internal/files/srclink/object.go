package srclink

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/symdepot/symdepot/pdb"
	"github.com/symdepot/symdepot/ppdb"
	"github.com/symdepot/symdepot/symfile"
)

// maxLinks limits the bytes of all texts of Source Link of one object.
const maxLinks = 16 << 20

// Links says in short where a PDB leads debuggers for source files.
type Links struct {
	Srcsrv     *Summary    `json:"srcsrv,omitempty"`
	SourceLink *MapSummary `json:"source_link,omitempty"`
	// Faults say what could not be read.
	Faults []string `json:"faults,omitempty"`
}

// MapSummary says in short where Source Link leads.
type MapSummary struct {
	Rules   int     `json:"rules"`
	Skipped int     `json:"skipped,omitempty"` // rules that are not valid
	Places  []Place `json:"places,omitempty"`
}

// Read reads the links of an object of size bytes. The error wraps fs.ErrNotExist if it
// has none, or is that of r; damage is named in Faults. Reading takes at most a
// few seconds and a few times MaxMap bytes of memory.
func Read(r io.ReaderAt, size int64, kind symfile.Kind) (*Links, error) {
	l := &Links{}
	var err error
	switch kind {
	case symfile.PDB:
		err = l.pdb(r, size)
	case symfile.PortablePDB:
		err = l.portable(r, size)
	}
	if err == nil && l.Srcsrv == nil && l.SourceLink == nil && l.Faults == nil {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, fmt.Errorf("links to source files: %w", err)
	}
	return l, nil
}

// soft notes damage. Errors of the disk remain.
func (l *Links) soft(what string, err error) error {
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if errors.As(err, new(*fs.PathError)) {
		return err
	}
	l.Faults = append(l.Faults, what+": "+err.Error())
	return nil
}

func (l *Links) pdb(r io.ReaderAt, size int64) error {
	f, err := pdb.Open(r, size)
	if err != nil {
		return l.soft("PDB", err)
	}
	s, err := f.NamedStream(StreamName)
	if err == nil {
		err = l.script(s)
	}
	if err := l.soft("source server stream", err); err != nil {
		return err
	}
	streams, err := f.SourceLinks()
	if err := l.soft("Source Link", err); err != nil {
		return err
	}
	var texts [][]byte
	left := int64(maxLinks)
	for _, s := range streams {
		if left -= s.Size(); left < 0 {
			l.Faults = append(l.Faults, fmt.Sprintf("Source Link: more than %d bytes", maxLinks))
			break
		}
		text, err := io.ReadAll(s)
		if err := l.soft("Source Link", err); err != nil {
			return err
		}
		texts = append(texts, text)
	}
	l.texts(texts...)
	return nil
}

func (l *Links) script(s *io.SectionReader) error {
	script, err := ReadScript(s, s.Size())
	if err != nil {
		return err
	}
	sum, err := script.Summary()
	if err == nil {
		l.Srcsrv = &sum
	}
	return err
}

func (l *Links) portable(r io.ReaderAt, size int64) error {
	f, err := ppdb.Open(r, size)
	if err != nil {
		return l.soft("portable PDB", err)
	}
	lines, err := f.Lines()
	if err != nil {
		return l.soft("portable PDB", err)
	}
	text, err := lines.SourceLink()
	if err == nil {
		l.texts(text)
	}
	return l.soft("Source Link", err)
}

func (l *Links) texts(texts ...[]byte) {
	if len(texts) == 0 {
		return
	}
	m, err := ParseMap(texts...)
	if err != nil {
		l.Faults = append(l.Faults, err.Error())
	}
	l.SourceLink = &MapSummary{m.Rules(), m.Skipped(), m.Places()}
}

// Runs says which command a debugger could run because of the links; empty if
// none. A source server stream that cannot be read counts as one that runs something.
func (l *Links) Runs() string {
	switch {
	case l.Srcsrv != nil && l.Srcsrv.Class == Command && l.Srcsrv.Example.Command != "":
		return l.Srcsrv.Example.Command
	case l.Srcsrv != nil && l.Srcsrv.Class == Command:
		return "a command that cannot be resolved: " + l.Srcsrv.Example.Reason
	case l.Srcsrv == nil && l.hasFault("source server stream"):
		return "a source server stream that cannot be read"
	}
	return ""
}

func (l *Links) hasFault(what string) bool {
	for _, f := range l.Faults {
		if len(f) > len(what) && f[:len(what)] == what {
			return true
		}
	}
	return false
}

// Places returns all places that the links lead to.
func (l *Links) Places() []Place {
	seen := map[Place]bool{}
	if l.Srcsrv != nil {
		for _, p := range l.Srcsrv.Places {
			seen[p] = true
		}
	}
	if l.SourceLink != nil {
		for _, p := range l.SourceLink.Places {
			seen[p] = true
		}
	}
	return sortedPlaces(seen)
}
