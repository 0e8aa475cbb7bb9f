package symbolicate

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

const program = symfile.Executable | symfile.Debug

// find finds the files of a module for a caller who sees these products. withSym
// prefers a held .sym, but for the unfit ones, to all other files. Not found is
// fs.ErrNotExist.
//
// This is another rule than answer.Search, which returns the first file. Here several files
// make one answer: those that the index has, added and cached ones alike, are chosen by their
// rows, before one is opened. If none of them has debug information, Depot.InTrees looks in watched
// and served folders, in the order of answer.Search: for debug information, and for a .sym file if
// the found file may be a program without debug information. Last, Depot.Answer asks the upstreams.
func (svc *Service) find(ctx context.Context, products []string, q ModuleQuery, withSym bool, unfit ...blob.Ref) (*files, error) {
	if q.DebugID == "" && q.CodeID == "" {
		return nil, fs.ErrNotExist
	}
	if withSym && q.DebugID != "" {
		if f, err := svc.findSym(ctx, products, q, unfit); !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	f, err := svc.findHeld(ctx, products, q)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !hasDebug(f.list) {
		inTree, terr := svc.findInTrees(ctx, products, q, f)
		if terr == nil {
			f, err = inTree, nil
		} else if !errors.Is(terr, fs.ErrNotExist) {
			return nil, terr
		}
	}
	if withSym && (errors.Is(err, fs.ErrNotExist) || err == nil && !hasDebug(f.list)) {
		if sym, serr := svc.symInTrees(ctx, products, q); !errors.Is(serr, fs.ErrNotExist) {
			return sym, serr
		}
	}
	if err == nil {
		err = svc.findLinked(ctx, products, f)
	}
	return f, err
}

// findSym finds a .sym that is not among the unfit ones.
func (svc *Service) findSym(ctx context.Context, products []string, q ModuleQuery, unfit []blob.Ref) (*files, error) {
	id := symfile.Fold(q.DebugID)
	if svc.Depot.NotIndexed(ctx, products, id) {
		return nil, fs.ErrNotExist
	}
	hits, err := svc.Depot.Lookup(ctx, products, symfile.Lookup{ID: id, Role: symfile.Symbols})
	if err != nil {
		return nil, err
	}
	h := best(hits, func(h *record.Hit) bool {
		return h.Object.Kind == symfile.Breakpad && h.Role&symfile.Symbols != 0 && !slices.Contains(unfit, h.Ref)
	}, q.DebugFile)
	if h == nil {
		return nil, fs.ErrNotExist
	}
	return &files{name: h.Object.Name, id: h.Object.DebugID, code: h.Object.CodeName, list: []*piece{pieceOf(h)}}, nil
}

// best returns the best hit that is allowed: one of the name first, then an added
// file, of a try build last, then the one with most debug information, then the newest.
func best(hits []record.Hit, allowed func(*record.Hit) bool, name string) *record.Hit {
	name = symfile.Fold(symfile.BaseName(name))
	rank := func(h *record.Hit) int {
		switch own := symfile.Fold(h.Object.Name); {
		case own == name:
			return 2
		case strings.HasPrefix(own, name) || strings.HasPrefix(name, own):
			return 1
		}
		return 0
	}
	var found *record.Hit
	for i := range hits {
		h := &hits[i]
		if !allowed(h) {
			continue
		}
		if found == nil || cmp.Or(
			cmp.Compare(rank(h), rank(found)), cmp.Compare(origin(h), origin(found)), cmp.Compare(h.DebugSize, found.DebugSize),
			h.Added.Compare(found.Added), slices.Compare(found.Ref[:], h.Ref[:]),
		) > 0 {
			found = h
		}
	}
	return found
}

// origin is 2 for a file of a transaction, 1 for one that only try builds have, and 0
// for a cached file.
func origin(h *record.Hit) int {
	switch {
	case h.Source != "":
		return 0
	case h.Try:
		return 1
	}
	return 2
}

// findHeld finds the files of a module in the index: those of Windows, or else those of other
// systems.
func (svc *Service) findHeld(ctx context.Context, products []string, q ModuleQuery) (*files, error) {
	hits, byCode, err := svc.lookup(ctx, products, q)
	if err != nil {
		return nil, err
	}
	pdb, pe := best(hits, isPDB, q.DebugFile), best(hits, isPE, q.CodeFile)
	if pdb == nil && pe != nil && !pe.Object.DebugID.IsZero() && byCode {
		// The client knows the program only; its debug record names the PDB.
		more, err := svc.Depot.Lookup(ctx, products, symfile.Lookup{ID: symfile.Fold(pe.Object.DebugID.Breakpad()), Role: symfile.Debug})
		if err != nil {
			return nil, err
		}
		pdb = best(more, isPDB, q.DebugFile)
	}
	f := &files{byCode: byCode}
	if pdb != nil || pe != nil {
		f.windows(q, hits, pdb, pe)
		return f, nil
	}
	if !f.images(q, hits) {
		return nil, fs.ErrNotExist
	}
	return f, nil
}

func isPDB(h *record.Hit) bool { return h.Object.Kind == symfile.PDB && !h.Object.NoDBI }
func isPE(h *record.Hit) bool {
	return h.Object.Kind == symfile.PE && h.Object.Role&symfile.Executable != 0
}
func isDebugPE(h *record.Hit) bool {
	return h.Object.Kind == symfile.PE && h.Object.Role == symfile.Debug
}

// isImage reports whether a file is an ELF or Mach-O file with one of some roles.
func isImage(h *record.Hit, role symfile.Role) bool {
	return (h.Object.Kind == symfile.ELF || h.Object.Kind == symfile.MachO) && h.Object.Role&role != 0 && h.Object.Hash == ""
}

// windows takes the PDB and the program of a module, of which one may be nil. Without a PDB it
// takes the debug file of MinGW.
func (f *files) windows(q ModuleQuery, hits []record.Hit, pdb, pe *record.Hit) {
	if pdb != nil {
		f.name, f.id, f.list = pdb.Object.Name, pdb.Object.DebugID, append(f.list, pieceOf(pdb))
	}
	if pe == nil {
		return
	}
	f.code = pe.Object.Name
	f.list = append(f.list, pieceOf(pe))
	if pdb != nil {
		return
	}
	f.name, f.id = cmp.Or(symfile.BaseName(q.DebugFile), pe.Object.Name), pe.Object.DebugID
	if f.byCode {
		f.name = pe.Object.Name
	}
	if debug := best(hits, isDebugPE, q.DebugFile); debug != nil {
		f.list = append(f.list, pieceOf(debug))
	}
}

// images takes the debug file and the program of a module of ELF or Mach-O. It reports whether
// there is any.
func (f *files) images(q ModuleQuery, hits []record.Hit) bool {
	debug := best(hits, func(h *record.Hit) bool { return isImage(h, symfile.Debug) }, "")
	code := best(hits, func(h *record.Hit) bool {
		return isImage(h, symfile.Executable) && (debug == nil || sameModule(h, debug))
	}, q.CodeFile)
	if debug != nil {
		f.list, f.name, f.id = append(f.list, pieceOf(debug)), debug.Object.Name, debug.Object.DebugID
	}
	if code != nil {
		f.name, f.id, f.code = code.Object.Name, code.Object.DebugID, code.Object.Name
		if debug == nil || code.Ref != debug.Ref {
			f.list = append(f.list, pieceOf(code))
		}
	}
	return debug != nil || code != nil
}

func sameModule(a, b *record.Hit) bool {
	return a.Object.Kind == b.Object.Kind && a.Object.CodeID == b.Object.CodeID && a.Object.BuildID == b.Object.BuildID
}

// lookup returns the objects of a module. byCode means that they were found by
// their code id.
func (svc *Service) lookup(ctx context.Context, products []string, q ModuleQuery) (hits []record.Hit, byCode bool, err error) {
	for _, l := range lookups(q) {
		if svc.Depot.NotIndexed(ctx, products, l.ID) {
			continue
		}
		if hits, err = svc.Depot.Lookup(ctx, products, l); err != nil {
			return nil, false, err
		}
		if len(hits) > 0 {
			byCode = !slices.ContainsFunc(hits, func(h record.Hit) bool { return symfile.Fold(h.Object.DebugID.Breakpad()) == l.ID })
			return hits, byCode, nil
		}
	}
	return nil, false, fs.ErrNotExist
}

// lookups lists the lookups for a module. Ids as long as a GUID need no name.
func lookups(q ModuleQuery) (list []symfile.Lookup) {
	add := func(id, name string) {
		id = symfile.Fold(id)
		switch {
		case id == "":
		case len(id) >= 32:
			list = append(list, symfile.Lookup{ID: id, Role: program})
		case name != "":
			list = append(list, symfile.Lookup{Name: symfile.Fold(symfile.BaseName(name)), ID: id, Role: program})
		}
	}
	if q.DebugID != "" {
		add(q.DebugID, cmp.Or(q.DebugFile, q.CodeFile))
		return list // the code id is only the client's claim
	}
	add(q.CodeID, cmp.Or(q.CodeFile, q.DebugFile))
	return list
}

// findInTrees finds the files of a module in the trees, and joins them with the
// program that the index has.
func (svc *Service) findInTrees(ctx context.Context, products []string, q ModuleQuery, held *files) (*files, error) {
	f := &files{}
	debugID := q.DebugID
	if held != nil {
		f = &files{name: held.name, id: held.id, code: held.code, byCode: held.byCode}
		if !held.id.IsZero() {
			debugID = held.id.Breakpad()
		}
	}
	if err := svc.debugInTrees(ctx, products, q, debugID, f); err != nil {
		return nil, err
	}
	// A code id looks like the id of a PDB 2.0.
	isCode := f.byCode || len(f.list) > 0 && f.list[0].kind == symfile.PE
	if id, err := debugid.ParseBreakpad(debugID); err == nil && f.id.IsZero() && !(id.PDB20 && isCode) {
		f.id = id
	}
	if held != nil {
		f.list = append(f.list, held.list...)
	} else if err := svc.codeInTrees(ctx, products, q, f); err != nil {
		return nil, err
	}
	if len(f.list) == 0 {
		return nil, fs.ErrNotExist
	}
	return f, nil
}

// debugInTrees takes the debug file of a module from the trees, if one has it.
func (svc *Service) debugInTrees(ctx context.Context, products []string, q ModuleQuery, debugID string, f *files) error {
	debugFile := symfile.BaseName(q.DebugFile)
	var paths [][]string
	// The name is that of the program, which may be stripped.
	if id, err := debugid.ParseBuildID(q.CodeID); err == nil && len(q.CodeID) >= 32 {
		paths = append(paths, []string{"buildid", string(id), "debuginfo"})
	}
	if debugFile != "" && debugID != "" {
		paths = append(paths, []string{debugFile, debugID, debugFile})
	}
	for _, path := range paths {
		p, err := svc.inTree(ctx, products, path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		p.debug = path[0] == "buildid"
		f.list = append(f.list, p)
		if f.name == "" || p.kind == symfile.PDB {
			f.name = cmp.Or(p.name, debugFile)
		}
		return nil
	}
	return nil
}

// symInTrees finds a .sym in the trees.
func (svc *Service) symInTrees(ctx context.Context, products []string, q ModuleQuery) (*files, error) {
	name := symfile.BaseName(cmp.Or(q.DebugFile, q.CodeFile))
	id, err := debugid.ParseBreakpad(q.DebugID)
	if name == "" || err != nil {
		return nil, fs.ErrNotExist
	}
	p, err := svc.inTree(ctx, products, []string{name, q.DebugID, layout.Stem(name) + ".sym"})
	if err != nil {
		return nil, err
	}
	p.kind = symfile.Breakpad
	return &files{name: name, id: id, list: []*piece{p}}, nil
}

// codeInTrees takes the program of a module from the trees, if one has it and it is not the
// debug file.
func (svc *Service) codeInTrees(ctx context.Context, products []string, q ModuleQuery, f *files) error {
	code := symfile.BaseName(q.CodeFile)
	if code == "" || q.CodeID == "" {
		return nil
	}
	path := []string{code, q.CodeID, code}
	if len(q.CodeID) >= 32 {
		path = []string{"buildid", q.CodeID, "executable"}
	}
	p, err := svc.inTree(ctx, products, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(f.list) > 0 && p.tag == f.list[0].tag:
		return nil
	}
	f.code = cmp.Or(p.name, code)
	f.name = cmp.Or(f.name, f.code)
	f.list = append(f.list, p)
	return nil
}

// request is the request for a file at a path of a known form.
func request(path []string) (layout.Request, error) {
	req, err := layout.Route(path)
	if err != nil || req.Form != layout.FormFile {
		return layout.Request{}, fs.ErrNotExist
	}
	return req, nil
}

// inTree finds a file in the trees.
func (svc *Service) inTree(ctx context.Context, products []string, path []string) (*piece, error) {
	req, err := request(path)
	if err != nil {
		return nil, err
	}
	f, err := svc.Depot.InTrees(ctx, products, req)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	name, ref, size := f.Content()
	if ref != (blob.Ref{}) { // it is stored: a public form
		return pieceOf(&record.Hit{Stored: record.Stored{Object: symfile.Object{Name: name, Kind: kindOfName(name)}, Ref: ref, Size: size}}), nil
	}
	return &piece{path: path, name: name, kind: kindOfName(name), tag: f.Tag(), size: size}, nil
}

// kindOfName guesses the kind of a file of a tree, for descriptions only.
func kindOfName(name string) symfile.Kind {
	switch n := symfile.Fold(name); {
	case strings.HasSuffix(n, ".pdb"):
		return symfile.PDB
	case strings.HasSuffix(n, ".dll"), strings.HasSuffix(n, ".exe"):
		return symfile.PE
	}
	return symfile.ELF
}

// open opens a piece.
func (svc *Service) open(ctx context.Context, p *piece) (File, error) {
	if p.hit != nil {
		return svc.Depot.OpenHit(ctx, *p.hit)
	}
	req, err := request(p.path)
	if err != nil {
		return nil, err
	}
	f, err := svc.Depot.InTrees(ctx, nil, req)
	if err != nil {
		return nil, err
	}
	if f.Tag() != p.tag {
		return nil, errors.Join(fs.ErrNotExist, f.Close()) // it was replaced
	}
	return f, nil
}

// openAll opens all files of a module.
func (svc *Service) openAll(ctx context.Context, f *files) ([]File, error) {
	var list []File
	for _, p := range f.list {
		file, err := svc.open(ctx, p)
		if err != nil {
			return nil, errors.Join(err, closeAll(list))
		}
		list = append(list, file)
	}
	return list, nil
}
