package answer

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/internal/remote/tree"
	"github.com/symdepot/symdepot/internal/remote/watch"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// LookupOutcome is the result of one lookup.
type LookupOutcome string

// The outcomes.
const (
	Hit             LookupOutcome = "found"
	HigherAge       LookupOutcome = "higher-age"        // a PDB of equal GUID and higher age answers
	NoHit           LookupOutcome = "no-such-id"        // nothing has the id
	OtherRole       LookupOutcome = "other-role"        // name and id are right, the file is no such part of a program
	OtherName       LookupOutcome = "other-name"        // a file of another name has the id
	Ambiguous       LookupOutcome = "ambiguous"         // several files have the id
	Damaged         LookupOutcome = "damaged"           // the stored bytes are damaged
	CachedOtherName LookupOutcome = "cached-other-name" // a cached file of another name, for which upstreams are asked first
	NoSection       LookupOutcome = "no-section"        // the file has no such section
	NotNamed        LookupOutcome = "not-named"         // its debug information names no such source
	NoText          LookupOutcome = "no-text"           // it names the source, and no text of it is held
	Away            LookupOutcome = "away"              // it is in a watched folder that is away
	Changed         LookupOutcome = "changed"           // it has changed or gone since the watched folder was indexed
)

// LookupHit is an object that a lookup has found.
type LookupHit = record.Hit

// TracedLookup is one lookup with its result. Hits are what was found, or what comes
// near.
type TracedLookup struct {
	symfile.Lookup
	Outcome LookupOutcome
	Hits    []LookupHit
}

// TracedFolder is the search in one served folder.
type TracedFolder struct {
	Dir     string
	Watched bool          // indexed in place; else it has a layout
	Other   bool          // another server of the depot watches it; Dir is empty
	Layout  layout.Layout // zero for a watched folder
	Places  []TracedPlace
}

// TracedPlace is a path below a served folder. Why is why it is no answer; nil: it is.
type TracedPlace struct {
	Path string
	Why  error
	// Outcome says the same of what comes near in the index of a watched folder, and
	// Object what that is; otherwise it is empty.
	Outcome LookupOutcome
	Object  symfile.Object
}

// Found reports whether the folder has the file.
func (f *TracedFolder) Found() bool {
	return slices.ContainsFunc(f.Places, func(p TracedPlace) bool { return p.Why == nil })
}

// Recorder notes how a lookup goes: what was looked for, and in which folders. All its methods may be called on nil, which notes
// nothing.
type Recorder struct {
	Lookups []TracedLookup
	Folders []TracedFolder
}

// recorderKey is the key of a recorder in a context, where no parameter can carry it.
type recorderKey struct{}

// WithRecorder returns a context that carries a recorder.
func WithRecorder(ctx context.Context, r *Recorder) context.Context {
	return context.WithValue(ctx, recorderKey{}, r)
}

// RecorderIn returns the recorder that a context carries; nil: none.
func RecorderIn(ctx context.Context) *Recorder {
	r, _ := ctx.Value(recorderKey{}).(*Recorder)
	return r
}

// Looked notes a lookup, its outcome and what was found or comes near.
func (r *Recorder) Looked(l symfile.Lookup, o LookupOutcome, hits []LookupHit) {
	if r == nil {
		return
	}
	if id, ok := fetch.StoredSource(l); ok {
		if o == NoHit {
			return // it was not downloaded either, which the upstreams tell
		}
		l.Name, l.ID = "", id
	}
	r.Lookups = append(r.Lookups, TracedLookup{l, o, slices.Clone(hits)})
}

// Section notes a lookup for a section of a file: whether the file has it is known later.
func (r *Recorder) Section(l symfile.Lookup, hits []LookupHit) {
	switch {
	case r == nil:
	case len(hits) == 0:
		r.Looked(l, NoHit, nil)
	default:
		r.Looked(l, NoSection, hits)
	}
}

// Folder notes the search in a folder. It returns nil if nothing is noted.
func (r *Recorder) Folder(ctx context.Context, s *tree.Folder) func(string, error) {
	if r == nil {
		return nil
	}
	r.Folders = append(r.Folders, TracedFolder{Dir: s.Dir(), Layout: s.Layout(ctx)})
	at := len(r.Folders) - 1
	return func(place string, why error) {
		r.Folders[at].Places = append(r.Folders[at].Places, TracedPlace{Path: place, Why: why})
	}
}

// nearOutcomes are the reasons of watch.Near.
var nearOutcomes = map[error]LookupOutcome{
	watch.ErrAway: Away, watch.ErrChanged: Changed, watch.ErrOtherRole: OtherRole, watch.ErrNotNamed: NotNamed, watch.ErrNoText: NoText,
}

// Watched notes the search in a watched folder. Without a file, it looks for what comes
// near.
func (r *Recorder) Watched(ctx context.Context, folder *watch.Folder, req layout.Request, f *watch.File, err error) {
	if r == nil {
		return
	}
	where := folder.Where()
	t := TracedFolder{Dir: where, Watched: true}
	below := func(archive, path string) string {
		return strings.TrimPrefix(cmp.Or(archive, path), where+string(filepath.Separator))
	}
	var near *watch.Near
	if f == nil && errors.Is(err, fs.ErrNotExist) {
		var nerr error
		if near, nerr = folder.Near(ctx, req); nerr != nil {
			err = nerr
		}
	}
	if near != nil {
		e := near.Entry
		t.Places = append(t.Places, TracedPlace{
			Path: below(e.Archive, e.Path), Why: fs.ErrNotExist, Outcome: nearOutcomes[near.Why], Object: e.Object,
		})
	} else if f != nil {
		t.Places = append(t.Places, TracedPlace{Path: below(f.Archive, f.Path)})
	} else if !errors.Is(err, fs.ErrNotExist) {
		t.Places = append(t.Places, TracedPlace{Why: err})
	}
	r.Folders = append(r.Folders, t)
}

// WatchedByOther notes the question to another server for its watched folders.
func (r *Recorder) WatchedByOther(f *File, err error) {
	if r == nil {
		return
	}
	t := TracedFolder{Watched: true, Other: true}
	if f != nil {
		t.Places = append(t.Places, TracedPlace{Path: symfile.BaseName(f.Path)})
	} else if !errors.Is(err, fs.ErrNotExist) {
		t.Places = append(t.Places, TracedPlace{Why: err})
	}
	r.Folders = append(r.Folders, t)
}
