package symbolicate

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"sync"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/symfile"
)

// managed is Symbolicator's type of modules with IL.
const managed = "pe_dotnet"

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

// orPortable returns why the functions of a module were not found: a PortableError if
// the depot has its portable PDB.
func (svc *Service) orPortable(ctx context.Context, products []string, q ModuleQuery, err error) error {
	if !errors.Is(err, fs.ErrNotExist) || errors.As(err, new(NoWorkerError)) {
		return err
	}
	hits, _, lerr := svc.lookup(ctx, products, q)
	if lerr == nil && best(hits, func(h *index.Hit) bool { return h.Object.Kind == symfile.PortablePDB }, q.DebugFile) != nil {
		return PortableError{}
	}
	return err
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
	usable := func(h *index.Hit) bool { return h.Object.Kind == symfile.PortablePDB && !lost[h.Ref] }
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

// managedFrame is the answer for a frame with IL, whose method is FunctionID. The name
// of the function stays that of the client: a portable PDB has none.
func (f NativeFrame) managedFrame(l Looker, offset uint64) NativeFrame {
	f.Status = "missing_symbol"
	if f.FunctionID == nil || offset > math.MaxUint32 || *f.FunctionID > math.MaxUint32 {
		return f
	}
	token := uint64(*f.FunctionID)
	if token>>24 == 0 {
		token |= methodDef
	}
	a, ok := l.Lookup(token<<32 | offset)
	if !ok {
		return f
	}
	at := a.Frames[0]
	f.Status, f.AbsPath, f.Filename, f.Lineno = "symbolicated", at.File, symfile.BaseName(at.File), at.Line
	return f
}
