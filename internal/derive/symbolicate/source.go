package symbolicate

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"sync"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// lookups opens modules for one client.
type clientLookups struct {
	svc *Service
	ask Ask
}

// Source returns what opens modules for a client. Of ask, Products, Client, Via,
// Local and Hold count.
func (svc *Service) Source(ask Ask) UnwindSource { return clientLookups{svc, ask} }

// Module implements Source.
func (c clientLookups) Module(ctx context.Context, q ModuleQuery) (*Module, error) {
	if q.IL {
		return c.managedModule(ctx, q)
	}
	ask := c.ask
	ask.Format, ask.Module = lookupFormat, q
	a, f, err := c.svc.recent.find(ctx, ask, c.svc.prepare)
	var m *openModule
	if f != nil && errors.Is(err, fs.ErrNotExist) { // the file must be made
		if m := c.units(ctx, ask, a, f); m != nil {
			return m, nil
		}
		a, m, err = c.open(ctx, ask)
	} else if err == nil {
		m, err = c.openMade(ctx, a)
	}
	if errors.Is(err, fs.ErrNotExist) && a.Content.Ref != (blob.Ref{}) {
		if err = c.svc.Lost(ctx, a); err == nil {
			a, m, err = c.open(ctx, ask)
		}
	}
	if err != nil {
		return nil, c.svc.orPortable(ctx, ask.Products, q, err)
	}
	var once sync.Once
	return &Module{
		Looker: m.looker, Name: a.Object.Name, CodeFile: a.Code, From: a.From, Missing: a.Missing, Arch: a.Arch,
		Done: func() { once.Do(func() { c.svc.modules.put(a.Content.Ref, m) }) },
	}, nil
}

// units opens a large ELF module whose GSYM file is not made yet, and has the file made
// in the background. It is nil if it cannot. a and f are those of prepare.
func (c clientLookups) units(ctx context.Context, ask Ask, a Answer, f *files) *Module {
	if !byUnits(f.list[0].kind, f.size()) {
		return nil
	}
	svc, wait := c.svc, ask
	ask.Hold = nil
	if _, err := svc.make(ctx, ask, f); !errors.As(err, new(PendingError)) {
		return nil
	}
	key := blob.Ref(sha256.Sum256([]byte("units of " + f.recipe(lookupFormat)))) // not every caller sees all files
	m, err := svc.modules.share(ctx, key, func(ctx context.Context) (Looker, io.Closer, error) { return svc.openUnits(ctx, f) })
	if err != nil {
		return nil // the GSYM file answers, or tells why not
	}
	whole := func(ctx context.Context) (Looker, func(), error) {
		a, m, err := c.open(ctx, wait)
		if err != nil {
			return nil, nil, err
		}
		return m.looker, func() { svc.modules.put(a.Content.Ref, m) }, nil
	}
	l := &unitLooker{ctx: ctx, units: m.looker.(*unitTables), open: whole}
	var once sync.Once
	return &Module{
		Looker: l, Name: a.Object.Name, CodeFile: a.Code, From: a.From, Missing: a.Missing, Arch: a.Arch,
		Done: func() { once.Do(func() { l.done(); svc.modules.put(key, m) }) },
	}
}

// openUnits opens a module for lookups in its units.
func (svc *Service) openUnits(ctx context.Context, f *files) (Looker, io.Closer, error) {
	list, err := svc.openAll(ctx, f)
	if err != nil {
		return nil, nil, err
	}
	var t *unitTables
	parts, err := identifyAll(f.inputs(list))
	if err == nil {
		limited, cancel := context.WithTimeout(ctx, timeFor(f.size()))
		t, err = openUnits(limited, svc.Scratch, parts)
		cancel()
	}
	if err != nil {
		return nil, nil, errors.Join(err, closeAll(list))
	}
	return t, closers{t.Close, func() error { return closeAll(list) }}, nil
}

// open finds or makes the GSYM file of a module, and opens it.
func (c clientLookups) open(ctx context.Context, ask Ask) (Answer, *openModule, error) {
	a, err := c.svc.answer(ctx, ask, true)
	if err != nil {
		return Answer{}, nil, err
	}
	m, err := c.openMade(ctx, a)
	return a, m, err
}

// openMade opens a GSYM file that is there.
func (c clientLookups) openMade(ctx context.Context, a Answer) (*openModule, error) {
	return c.svc.modules.get(ctx, a.Content.Ref, func(ctx context.Context) (File, error) {
		if a.Cached != nil {
			return c.svc.Depot.OpenHit(ctx, *a.Cached)
		}
		return c.svc.Depot.OpenContent(ctx, record.Content{Ref: a.Content.Ref, Size: a.Content.Size})
	})
}

// managedModule opens the portable PDB of a module with IL. It is looked up as it is:
// nothing is made of it.
func (c clientLookups) managedModule(ctx context.Context, q ModuleQuery) (*Module, error) {
	id, err := debugid.Parse(q.DebugID)
	if err != nil || id.GUID == (debugid.GUID{}) || !c.svc.Makes() {
		return nil, fs.ErrNotExist
	}
	// Portable PDBs have this in place of the age, whatever the client believes it is.
	q.DebugID = id.GUID.Upper() + symfile.PortableAge
	m, err := c.openManaged(ctx, q)
	if name := symfile.BaseName(q.DebugFile); errors.Is(err, fs.ErrNotExist) && name != "" && c.fetches() {
		if err = c.svc.fetchFile(ctx, c.ask, []string{name, q.DebugID, name}); err == nil {
			m, err = c.openManaged(ctx, q)
		}
	}
	return m, err
}

// fetches reports whether files of modules are downloaded for this client.
func (c clientLookups) fetches() bool {
	return c.svc.opt.Make == MakeUpstream && !c.ask.Local && c.ask.Hold != nil
}

// openManaged opens a portable PDB of the index, or else of a tree.
func (c clientLookups) openManaged(ctx context.Context, q ModuleQuery) (*Module, error) {
	svc := c.svc
	hits, _, err := svc.lookup(ctx, c.ask.Products, q)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	lost := map[blob.Ref]bool{}
	usable := func(h *record.Hit) bool { return h.Object.Kind == symfile.PortablePDB && !lost[h.Ref] }
	for h := best(hits, usable, q.DebugFile); h != nil; h = best(hits, usable, q.DebugFile) {
		m, err := svc.modules.get(ctx, h.Ref, func(ctx context.Context) (File, error) { return svc.Depot.OpenHit(ctx, *h) })
		if errors.Is(err, fs.ErrNotExist) {
			lost[h.Ref] = true // another content, or a tree, may have the file
			continue
		}
		if err != nil {
			return nil, err
		}
		var once sync.Once
		return &Module{
			Looker: m.looker, Name: h.Object.Name, From: symfile.PortablePDB.String() + " " + h.Object.Name, IL: true,
			Done: func() { once.Do(func() { svc.modules.put(h.Ref, m) }) },
		}, nil
	}
	name := symfile.BaseName(q.DebugFile)
	if name == "" {
		return nil, fs.ErrNotExist
	}
	req, err := request([]string{name, q.DebugID, name})
	if err != nil {
		return nil, err
	}
	f, err := svc.Depot.InTrees(ctx, c.ask.Products, req)
	if err != nil {
		return nil, err
	}
	_, _, size := f.Content()
	l, err := openLooker(f, size)
	if p, ok := l.(portable); err == nil && ok {
		return &Module{Looker: p, Name: name, From: symfile.PortablePDB.String() + " " + name, IL: true, Done: func() { _ = f.Close() }}, nil
	}
	if err == nil {
		err = fs.ErrNotExist // a file of another kind under this name
	}
	return nil, errors.Join(err, f.Close())
}
