// Package coverage says what a depot has of files that ship: their debug information, and the
// files themselves, as debuggers find them.
package coverage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/needed"
	"github.com/symdepot/symdepot/internal/depot/sourcefiles"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// Limits of one question.
const (
	MaxFiles      = 1000
	maxPDBs       = 8   // of one image
	maxPatterns   = 200 // of source names
	maxPattern    = 500 // bytes of one
	lookupsAtOnce = 4
	maxMissing    = 20 // names of sources in the answer for a file

	// sourcesBriefly and sourcesLong are how long sources are counted for one question.
	sourcesBriefly = 200 * time.Millisecond
	sourcesLong    = 5 * time.Second
)

// Sources counts the sources that the debug information of a content names: *sourcefiles.Files.
type Sources interface {
	Count(ctx context.Context, scope answer.Scope, ref blob.Ref, ignored []string) (sourcefiles.Tally, error)
}

// Looker answers questions about files that ship. Its methods may be called by many goroutines.
type Looker struct {
	// Files looks files up as debuggers' requests do.
	Files needed.Depot
	// Sources counts sources; nil: they are not counted.
	Sources Sources
	// Makes says that Breakpad files are made for requests.
	Makes bool
}

// CheckAsk returns an error that names what is wrong with a question.
func CheckAsk(q *wire.CoverageAsk) (field, why string) {
	switch {
	case len(q.Files) == 0 || len(q.Files) > MaxFiles:
		return "files", fmt.Sprintf("1 to %d are expected", MaxFiles)
	case q.Sources != "" && q.Sources != wire.SourcesBriefly && q.Sources != wire.SourcesLong:
		return "sources", wire.SourcesBriefly + " or " + wire.SourcesLong + " is expected"
	case len(q.NotSources) > maxPatterns || slices.ContainsFunc(q.NotSources, func(p string) bool { return len(p) > maxPattern }):
		return "not_sources", fmt.Sprintf("at most %d patterns of at most %d bytes are expected", maxPatterns, maxPattern)
	}
	return "", ""
}

// Look answers a valid question in a scope. It asks no upstream. Files that the scope does not
// contain are answered like missing ones.
func (l *Looker) Look(ctx context.Context, scope answer.Scope, q *wire.CoverageAsk) ([]wire.Coverage, error) {
	a := asking{Looker: l, scope: scope, held: map[string]*held{}}
	list := make([]wire.Coverage, len(q.Files))
	refs := make([]blob.Ref, len(q.Files))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(lookupsAtOnce)
	for i := range q.Files {
		g.Go(func() (err error) {
			list[i], refs[i], err = a.file(gctx, &q.Files[i])
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return list, l.countSources(ctx, scope, q, list, refs)
}

// countSources counts the sources of the debug information with these hashes, as long as the
// question allows.
func (l *Looker) countSources(ctx context.Context, scope answer.Scope, q *wire.CoverageAsk, list []wire.Coverage, refs []blob.Ref) error {
	if l.Sources == nil || q.Sources == "" {
		return nil
	}
	during := sourcesBriefly
	if q.Sources == wire.SourcesLong {
		during = sourcesLong
	}
	short, cancel := context.WithTimeout(ctx, during)
	defer cancel()
	g := errgroup.Group{}
	g.SetLimit(lookupsAtOnce)
	for i, ref := range refs {
		if ref == (blob.Ref{}) {
			continue
		}
		g.Go(func() error {
			t, err := l.Sources.Count(short, scope, ref, q.NotSources)
			pending := ctx.Err() == nil && (err != nil && short.Err() != nil || errors.Is(err, content.ErrUnavailable))
			if err != nil && !pending {
				return err
			}
			list[i].Sources = &wire.CoverageSources{
				Named: t.Named, Found: t.Found, Linked: t.Linked, Pending: pending, Missing: t.Missing[:min(len(t.Missing), maxMissing)],
			}
			return nil
		})
	}
	return g.Wait()
}

// asking is one question. Several files may need the same lookups, and most layouts lead to the
// same ones: each is made once.
type asking struct {
	*Looker
	scope answer.Scope
	mu    sync.Mutex // guards the map, not its values
	held  map[string]*held
}

// held is the answer to one lookup.
type held struct {
	once  sync.Once
	found depot.Found
	here  bool
	err   error
}

// look asks for a path of a layout.
func (a *asking) look(ctx context.Context, path string) (depot.Found, bool, error) {
	req, noPath := layout.Route(strings.Split(path, "/"))
	if noPath != nil {
		return depot.Found{}, false, nil //nolint:nilerr // what no client can ask for is not held
	}
	key := fmt.Sprint(req.Form, req.Part, req.Lookups, req.Age != nil)
	a.mu.Lock()
	h := a.held[key]
	if h == nil {
		h = &held{}
		a.held[key] = h
	}
	a.mu.Unlock()
	h.once.Do(func() {
		h.found, h.err = a.Files.Held(ctx, a.scope, req)
		if h.here = h.err == nil; errors.Is(h.err, fs.ErrNotExist) {
			h.err = nil
		}
	})
	return h.found, h.here, h.err
}

// wanted are the files that debuggers ask for to debug one file.
type wanted struct {
	symbols []symfile.Object // its debug information; of several, the first that the depot has counts
	program symfile.Object
	sym     symfile.Object // its Breakpad file
	layouts []layout.Layout
}

// wantedOf returns what debuggers ask for. The error says which name or id is not valid.
func wantedOf(f *wire.CoverageFile) (w wanted, err error) {
	o := symfile.Object{Kind: symfile.ParseKind(f.Kind), Role: symfile.Executable, Name: f.Name, CodeID: f.CodeID}
	w.layouts = layout.Debuggers(o.Kind)
	switch {
	case w.layouts == nil:
		return w, fmt.Errorf("kind: %q is not pe, elf, macho or wasm", clip(f.Kind))
	case !symfile.ValidName(f.Name):
		return w, fmt.Errorf("name: %q is not the name of a file", clip(f.Name))
	case len(f.PDBs) > maxPDBs || len(f.PDBs) > 0 && o.Kind != symfile.PE:
		return w, fmt.Errorf("pdbs: at most %d are expected, and of PE images only", maxPDBs)
	case len(f.CodeID) > 2*debugid.MaxBuildID+2:
		return w, fmt.Errorf("code_id: %q is not an id", clip(f.CodeID))
	}
	if f.DebugID != "" {
		if o.DebugID, err = debugid.Parse(f.DebugID); err != nil {
			return w, fmt.Errorf("debug_id: %q is not an id", clip(f.DebugID))
		}
	}
	if f.BuildID != "" {
		if o.BuildID, err = debugid.ParseBuildID(f.BuildID); err != nil {
			return w, fmt.Errorf("build_id: %q is not an id", clip(f.BuildID))
		}
	}
	w.program = o
	w.sym = symfile.Object{Kind: symfile.Breakpad, Role: symfile.Symbols, Name: o.Name, DebugID: o.DebugID, Of: o.Kind}
	if o.Kind == symfile.PE {
		return w, w.pe(f)
	}
	if o.Kind == symfile.ELF && o.BuildID == "" {
		return w, nil // only a .sym file can be found, by a hash of its code
	}
	o.Role, o.DebugCompanion = symfile.Debug, true
	w.symbols = []symfile.Object{o}
	return w, nil
}

// pe adds what debuggers ask for to debug a PE image: the PDBs that it names, or else debug
// information in the image or cut out of it.
func (w *wanted) pe(f *wire.CoverageFile) error {
	for _, p := range f.PDBs {
		id, err := debugid.Parse(p.ID)
		if err != nil || !symfile.ValidName(p.Name) {
			return fmt.Errorf("pdbs: %q with the id %q is not a PDB", clip(p.Name), clip(p.ID))
		}
		pdb := symfile.Object{Kind: symfile.PDB, Role: symfile.Debug, Name: p.Name, DebugID: id}
		if id.PDB20 {
			pdb.Kind = symfile.PDB20
		}
		if p.Portable {
			pdb.Kind = symfile.PortablePDB
		}
		w.symbols = append(w.symbols, pdb)
	}
	if len(w.symbols) > 0 {
		w.sym.Name, w.sym.DebugID = w.symbols[0].Name, w.symbols[0].DebugID
		return nil
	}
	image := w.program
	if !f.Debug {
		image.Role = symfile.Debug
	}
	w.symbols = []symfile.Object{image}
	return nil
}

// clip shortens a text of a client for a message.
func clip(s string) string { return strings.ToValidUTF8(s[:min(len(s), 100)], "") }

// file answers for one file. ref is the content of its debug information.
func (a *asking) file(ctx context.Context, f *wire.CoverageFile) (c wire.Coverage, ref blob.Ref, err error) {
	c.Layouts = map[string]string{}
	w, wrong := wantedOf(f)
	if wrong != nil {
		c.Error = wrong.Error()
		return c, ref, nil //nolint:nilerr // the answer for this file says it
	}
	program, here, err := a.first(ctx, w.program, w.layouts)
	if err != nil {
		return c, ref, err
	}
	if here {
		c.Program = heldFile(program)
		c.Unwind = unwinds(program)
	}
	asked := false
	for _, o := range w.symbols {
		found, anyPath, err := a.symbols(ctx, &c, o, w.layouts)
		if err != nil {
			return c, ref, err
		}
		if asked = asked || anyPath; found != nil {
			ref = found.Ref
			break
		}
	}
	if err := a.breakpad(ctx, &c, w.sym); err != nil {
		return c, ref, err
	}
	switch {
	case c.Symbols.Here:
		c.Verdict, c.LaterAge = "", 0
	case c.Verdict != "":
	case !asked:
		c.Verdict = wire.CoverageNoID
	default:
		files := []needed.FileState{}
		for _, o := range w.symbols {
			files = append(files, needed.FileState{Want: needed.Want{Name: o.Name, Object: o}, Part: needed.Want{Object: o}.What()})
		}
		var verdict needed.Verdict
		if c.Program.Here && f.PDBs == nil && f.Kind == symfile.PE.String() {
			verdict = needed.VerdictStripped
		} else if verdict, err = needed.Unheld(ctx, a.Files, a.scope, f.Name, files); err != nil {
			return c, ref, err
		}
		c.Verdict = string(verdict)
	}
	return c, ref, nil
}

// first looks for an object under the paths of the layouts, in their order.
func (a *asking) first(ctx context.Context, o symfile.Object, layouts []layout.Layout) (found depot.Found, here bool, err error) {
	for _, l := range layouts {
		for _, path := range l.Paths(o) {
			if found, here, err = a.look(ctx, path); here || err != nil {
				return found, here, err
			}
		}
	}
	return found, false, nil
}

// symbols looks for debug information in all layouts. found is what answers the first of them, if it is
// that of exactly this file. anyPath says that debuggers could ask for it.
func (a *asking) symbols(
	ctx context.Context, c *wire.Coverage, o symfile.Object, layouts []layout.Layout,
) (found *depot.Found, anyPath bool, err error) {
	for _, l := range layouts {
		paths := l.Paths(o)
		if len(paths) == 0 {
			continue
		}
		anyPath = true
		state := wire.CoverageMissing
		for _, path := range paths {
			f, here, err := a.look(ctx, path)
			if err != nil {
				return nil, anyPath, err
			}
			if !here {
				continue
			}
			if later := laterLink(o, f.Object); later > 0 {
				c.Verdict, c.LaterAge = wire.CoverageLater, int64(later)
				continue
			}
			if o.Role&symfile.Debug == 0 && !slices.Contains(f.Features, "debug") {
				continue // the image is here, without the debug information that the client's file has
			}
			state = wire.CoverageHere
			if found == nil {
				found, c.Symbols = &f, heldFile(f)
				c.Unwind = c.Unwind || unwinds(f)
			}
			break
		}
		if c.Layouts[l.Name()] != wire.CoverageHere {
			c.Layouts[l.Name()] = state
		}
	}
	return found, anyPath, nil
}

// laterLink returns the age of a PDB that has the GUID and another age than the asked one, 0 for any
// other file. A linker that writes a PDB again keeps its GUID: the other ages are those of other
// images. Portable PDBs have no age.
func laterLink(asked, found symfile.Object) uint32 {
	if asked.Kind != symfile.PDB || found.Kind != symfile.PDB || found.NoDBI || asked.DebugID.GUID != found.DebugID.GUID {
		return 0
	}
	if asked.DebugID.Age == found.DebugID.Age || asked.DebugID.Age == found.InfoAge {
		return 0
	}
	return found.DebugID.Age
}

// breakpad looks for the .sym file of a module, which stands for debug information that is missing.
func (a *asking) breakpad(ctx context.Context, c *wire.Coverage, sym symfile.Object) error {
	paths := layout.BreakpadTree.Paths(sym)
	if sym.DebugID.IsZero() || len(paths) == 0 {
		return nil
	}
	name := layout.BreakpadTree.Name()
	found, here, err := a.look(ctx, paths[0])
	switch {
	case err != nil:
		return err
	case here:
		c.Layouts[name] = wire.CoverageHere
		c.Unwind = c.Unwind || unwinds(found)
		if !c.Symbols.Here {
			c.Symbols = heldFile(found)
		}
	case c.Symbols.Here && a.Makes:
		c.Layouts[name] = wire.CoverageMade
	default:
		c.Layouts[name] = wire.CoverageMissing
	}
	return nil
}

// heldFile describes a file that the depot has.
func heldFile(f depot.Found) wire.CoverageHeld {
	h := wire.CoverageHeld{Here: true, Kind: f.Object.Kind.String(), Size: f.Size, Features: f.Features}
	if f.Ref != (blob.Ref{}) {
		h.SHA256 = f.Ref.String()
	}
	return h
}

// unwinds reports whether a file has unwind data: its own, or that which every PDB of a 32-bit
// x86 program has.
func unwinds(f depot.Found) bool {
	return slices.Contains(f.Features, "unwind") || f.Object.Kind == symfile.PDB && f.Arch == "x86" && !f.Object.NoDBI
}
