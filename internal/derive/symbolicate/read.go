package symbolicate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/breakpad"
	"github.com/symdepot/symdepot/demangle"
	"github.com/symdepot/symdepot/dwarf"
	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/internal/base/ctxio"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/objtab"
	"github.com/symdepot/symdepot/pdb"
	"github.com/symdepot/symdepot/readytorun"
	"github.com/symdepot/symdepot/symfile"
	"github.com/symdepot/symdepot/unwind"
)

// Input is one file of a module.
type Input struct {
	io.ReaderAt
	Size int64  // bytes
	Name string // base name
}

// badSource is an error of the contents of files, not of reading them.
type badSource struct{ err error }

func (e badSource) Error() string { return e.err.Error() }
func (e badSource) Unwrap() error { return e.err }

// isBadSource reports whether an error will repeat with the same files.
func isBadSource(err error) bool {
	return errors.As(err, new(badSource)) || errors.Is(err, ErrNoFunctions) || errors.Is(err, breakpad.ErrSyntax) ||
		errors.Is(err, objfile.ErrNotSymbolFile) || errors.Is(err, objfile.ErrBroken)
}

// Part is one object of a file.
type Part struct {
	objfile.Object
	Input
	path string // of a local file
	// links are the files that an ELF file refers to; see Group.
	links *objtab.Links
	// addition means that the part adds to the debug information of another: a
	// supplementary file of dwz, or split units.
	addition bool
}

// isSplit reports whether a part has split DWARF.
func (p Part) isSplit() bool { return p.Kind == symfile.ELF && p.Hash != "" }

// refersTo reports whether a part names another one as a part of its debug
// information.
func (p Part) refersTo(o Part) bool {
	if p.links == nil || !p.links.DWARF {
		return false
	}
	if o.isSplit() {
		return slices.ContainsFunc(p.links.Splits,
			func(s dwarf.Split) bool { return o.Hash == symfile.SplitID(s.ID) || o.Hash == symfile.PackageID(s.ID) })
	}
	return o.Kind == symfile.ELF && o.BuildID != "" && o.BuildID == p.links.AlternateID && o.BuildID != p.BuildID
}

// link reads which files the ELF files among the parts refer to, and marks those to
// which another one refers. The error is that of ctx or of reading.
func link(ctx context.Context, parts []Part) error {
	for i := range parts {
		p := &parts[i]
		if p.Kind != symfile.ELF || p.links != nil || p.isSplit() {
			continue
		}
		l, err := objtab.LinksOf(ctx, objtab.File{Reader: p, Size: p.Input.Size})
		if err != nil && !errors.Is(err, objfile.ErrBroken) && !errors.Is(err, objfile.ErrNotSymbolFile) {
			return err
		}
		p.links = &l
	}
	for i := range parts {
		p := &parts[i]
		p.addition = p.isSplit() || slices.ContainsFunc(parts, func(o Part) bool { return o.refersTo(*p) })
	}
	return nil
}

// Identify returns the objects of a file that may hold functions.
func Identify(in Input) ([]Part, error) {
	objects, err := objfile.Identify(in, in.Size, in.Name, objfile.Options{})
	if err != nil {
		return nil, err
	}
	var parts []Part
	for _, o := range objects {
		if o.Deflated > 0 || !holdsFunctions(o.Object) {
			continue
		}
		p := Part{Object: o, Input: in}
		if o.Offset != 0 || o.Size != in.Size {
			p.ReaderAt, p.Input.Size = io.NewSectionReader(in, o.Offset, o.Size), o.Size
		}
		parts = append(parts, p)
	}
	if len(parts) == 0 && slices.ContainsFunc(objects, func(o objfile.Object) bool { return o.Kind == symfile.PortablePDB }) {
		return nil, fmt.Errorf("%s: %w: a portable PDB has positions in IL, and no Breakpad or GSYM form; symdepot symbolicate -e reads it",
			in.Name, ErrNoFunctions)
	}
	if len(parts) == 0 {
		return nil, fmt.Errorf("%s: %w", in.Name, ErrNoFunctions)
	}
	return parts, nil
}

// holdsFunctions reports whether functions can be read of a kind of object.
func holdsFunctions(o symfile.Object) bool {
	switch o.Kind {
	case symfile.PDB:
		return !o.NoDBI
	case symfile.PE, symfile.Breakpad, symfile.ELF, symfile.MachO:
		return true
	}
	return false
}

// Group sorts parts by module: parts with the same debug id belong together, the
// debug information first, and the files to which it refers last. Parts without an
// id stay alone, but for a program of MinGW and its debug file. The modules are in the order of the parts. The error is that of ctx
// or of reading.
func Group(ctx context.Context, parts []Part) ([][]Part, error) {
	if err := link(ctx, parts); err != nil {
		return nil, err
	}
	var groups [][]Part
	for _, p := range parts {
		if p.addition {
			continue
		}
		i := slices.IndexFunc(groups, func(g []Part) bool {
			return !p.DebugID.IsZero() && g[0].DebugID == p.DebugID && !slices.ContainsFunc(g, func(o Part) bool { return o.rank() == p.rank() })
		})
		if i < 0 {
			groups = append(groups, []Part{p})
			continue
		}
		groups[i] = append(groups[i], p)
		slices.SortStableFunc(groups[i], func(a, b Part) int { return a.rank() - b.rank() })
	}
	groups, err := joinNamed(ctx, groups)
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		if !p.addition {
			continue
		}
		alone := true
		for i, g := range groups { // one supplementary file may serve several programs
			if slices.ContainsFunc(g, func(o Part) bool { return o.refersTo(p) }) {
				groups[i], alone = append(g, p), false
			}
		}
		if alone {
			groups = append(groups, []Part{p})
		}
	}
	return groups, nil
}

// debugOnly is the rank of a file that has only the debug information of a program.
const debugOnly = 2

// rank is the place of a part in its module.
func (p Part) rank() int {
	switch {
	case p.Kind == symfile.Breakpad:
		return 0
	case p.Kind == symfile.PDB:
		return 1
	case p.addition:
		return 6
	case p.Kind == symfile.PE && p.Role == symfile.Debug:
		return 5 // of MinGW
	case p.Kind == symfile.PE:
		return 4
	case p.Role&symfile.Debug != 0 && p.Role&symfile.Executable == 0:
		return debugOnly
	}
	return 3
}

// Read reads the functions of a module of its files. Temporary files are made in the
// system's folder for them.
func Read(ctx context.Context, inputs []Input) (*functab.Table, error) {
	return ReadIn(ctx, "", inputs)
}

// ReadIn is Read with temporary files in a folder.
func ReadIn(ctx context.Context, dir string, inputs []Input) (*functab.Table, error) {
	return readIn(ctx, dir, inputs, lookupFormat)
}

// readIn is ReadIn with what files of a format need.
func readIn(ctx context.Context, dir string, inputs []Input, format Format) (*functab.Table, error) {
	parts, err := identifyAll(inputs)
	if err != nil {
		return nil, err
	}
	return readParts(ctx, dir, parts, format)
}

// identifyAll returns the parts of all files.
func identifyAll(inputs []Input) (parts []Part, err error) {
	for _, in := range inputs {
		list, err := Identify(in)
		if err != nil {
			return nil, err
		}
		parts = append(parts, list...)
	}
	return parts, nil
}

// ReadParts reads the functions of a module of its parts, of which the best comes
// first. Temporary files are made in dir; an empty dir is the system's folder.
func ReadParts(ctx context.Context, dir string, parts []Part) (*functab.Table, error) {
	return readParts(ctx, dir, parts, lookupFormat)
}

// readParts is ReadParts with what files of a format need: symbol files have no
// linkage names.
func readParts(ctx context.Context, dir string, parts []Part, format Format) (_ *functab.Table, err error) {
	if len(parts) == 0 {
		return nil, ErrNoFunctions
	}
	if err := link(ctx, parts); err != nil {
		return nil, err
	}
	slices.SortStableFunc(parts, func(a, b Part) int { return a.rank() - b.rank() })
	if parts[0].addition {
		return nil, badSource{fmt.Errorf("%s: %w: the file has only a part of the debug information of a program; name the program too",
			parts[0].Name, ErrNoFunctions)}
	}
	r := reader{ctx: ctx, parts: parts, shownOnly: format == Breakpad, scratch: &scratch{dir: dir, left: maxScratch}}
	defer func() { err = errors.Join(err, r.scratch.close()) }()
	b, err := r.read()
	if failed := r.scratch.failure(); failed != nil {
		err = failed
	}
	if err != nil {
		return nil, err
	}
	t, err := b.Table(ctx)
	if err != nil {
		return nil, err
	}
	if n := t.Counts(); n.Functions == 0 && n.Symbols == 0 && n.Frames == 0 {
		return nil, badSource{fmt.Errorf("%s: %w", parts[0].Name, ErrNoFunctions)}
	}
	return t, nil
}

// reader reads the parts of one module.
type reader struct {
	ctx     context.Context
	parts   []Part
	scratch *scratch
	// shownOnly omits linkage names.
	shownOnly bool
}

// of returns the first part of a kind, or nil.
func (r *reader) of(k symfile.Kind) *Part {
	for i := range r.parts {
		if r.parts[i].Kind == k {
			return &r.parts[i]
		}
	}
	return nil
}

func (r *reader) read() (*functab.Builder, error) {
	switch first := &r.parts[0]; first.Kind {
	case symfile.PDB:
		return r.readPDB(first, r.of(symfile.PE))
	case symfile.PE:
		return r.readPE(first)
	case symfile.ELF:
		return r.readELF()
	case symfile.MachO:
		return r.readMachO()
	case symfile.Breakpad:
		return r.readSym(first)
	}
	return nil, badSource{fmt.Errorf("%s: %w: functions cannot be read of a file of the kind %s",
		r.parts[0].Name, ErrNoFunctions, r.parts[0].Kind)}
}

// workers is how many parts of a file are read at once: several files are read at
// the same time.
const workers = 2

// readPDB reads a PDB.
func (r *reader) readPDB(p, pe *Part) (*functab.Builder, error) {
	f, err := pdb.Open(p, p.Input.Size)
	if err != nil {
		return nil, badIfFormat(err)
	}
	m := f.Module(p.Object.Name)
	m.Generator = Generator
	var img *objfile.PEImage
	if pe != nil {
		if img, err = objfile.OpenPE(pe, pe.Input.Size); err != nil {
			return nil, badIfFormat(err)
		}
		m.CodeID, m.CodeFile, m.Base = strings.ToUpper(pe.CodeID), pe.Object.Name, img.Base()
	}
	b := functab.NewBuilder(m, functab.Limits{})
	if img != nil {
		if err := unwind.Join(r.ctx, img, b); err != nil {
			return nil, badIfFormat(err)
		}
	}
	return b, badIfFormat(f.Functions(r.ctx, b, pdb.FunctionOptions{Workers: workers}))
}

// readPE reads a program for Windows without its PDB. The DWARF of MinGW is in the
// program, or in the debug file that objcopy made of it.
func (r *reader) readPE(p *Part) (*functab.Builder, error) {
	img, err := objfile.OpenPE(p, p.Input.Size)
	if err != nil {
		return nil, badIfFormat(err)
	}
	m := functab.Module{
		OS: "windows", Arch: img.Arch(), ID: p.DebugID, Name: p.Object.Name, CodeID: strings.ToUpper(p.CodeID),
		CodeFile: p.Object.Name, Base: img.Base(), Generator: Generator,
	}
	if len(p.PDBs) > 0 {
		m.Name = p.PDBs[0].Name // clients ask for the symbols under the name of the PDB
	}
	b := functab.NewBuilder(m, functab.Limits{})
	found, err := r.readMinGW(b)
	if err != nil {
		return nil, badIfFormat(err)
	}
	if !found {
		l := objtab.Links{}
		if l.Debug, l.CRC, err = objtab.PELink(objtab.File{Reader: p, Size: p.Input.Size}); err != nil {
			return nil, badIfFormat(err)
		} else if l.Debug != "" {
			b.Warn("DWARF: %s is missing", missingByName(l))
		}
	}
	opt := unwind.Options{Shown: shown, Unnamed: found}
	methods, err := readytorun.Open(r.ctx, img)
	switch {
	case err == nil:
		opt.Named = methods.Name
	case errors.Is(err, readytorun.ErrFormat):
		b.Warn("names of .NET methods: %v", err)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, badIfFormat(err)
	}
	return b, badIfFormat(unwind.Functions(r.ctx, img, b, opt))
}

// readMinGW reads the DWARF of the first image that has some.
func (r *reader) readMinGW(b *functab.Builder) (found bool, err error) {
	opt := objtab.Options{Workers: workers, Demangle: shown, ShownOnly: r.shownOnly, Sections: r.scratch.sections()}
	for i := range r.parts {
		p := &r.parts[i]
		if p.Kind != symfile.PE {
			continue
		}
		err := objtab.PE(r.ctx, objtab.File{Reader: p, Size: p.Input.Size}, opt, b)
		if !errors.Is(err, fs.ErrNotExist) {
			return err == nil, err
		}
	}
	return false, nil
}

// readELF reads an ELF file, or a program with its debug file.
func (r *reader) readELF() (*functab.Builder, error) {
	opt := elfOptions(r.scratch)
	opt.ShownOnly = r.shownOnly
	b, err := objtab.ELF(r.ctx, elfFiles(r.parts), opt)
	return b, badIfFormat(err)
}

// elfOptions are the options for ELF files.
func elfOptions(s *scratch) objtab.Options {
	return objtab.Options{Workers: workers, Generator: Generator, Demangle: shown, Sections: s.sections()}
}

// elfFiles returns which file of an ELF module is what, of its parts by rank.
func elfFiles(parts []Part) objtab.ELFFiles {
	files := objtab.ELFFiles{Name: parts[0].Object.Name}
	objects := map[string]objtab.File{}
	for i := range parts {
		p := &parts[i]
		if p.Kind != symfile.ELF {
			continue
		}
		f := objtab.File{Reader: p, Size: p.Input.Size}
		switch {
		case p.isSplit() && strings.HasPrefix(p.Hash, "dwp-"):
			files.Package = f
		case p.isSplit():
			objects[p.Hash] = f
		case p.addition:
			files.Alternate = f
		case p.rank() == debugOnly:
			files.Debug = f
		default:
			files.Program, files.Name = f, p.Object.Name
		}
	}
	if len(objects) > 0 {
		files.Object = func(_, _ string, id uint64) (objtab.File, error) {
			if f, ok := objects[symfile.SplitID(id)]; ok {
				return f, nil
			}
			return objtab.File{}, fs.ErrNotExist
		}
	}
	return files
}

// readMachO reads a Mach-O image, a dSYM, or both.
func (r *reader) readMachO() (*functab.Builder, error) {
	files := objtab.MachOFiles{Name: r.parts[0].Object.Name}
	for i := range r.parts {
		p := &r.parts[i]
		if p.Kind != symfile.MachO {
			continue
		}
		f := objtab.File{Reader: p, Size: p.Input.Size}
		if p.rank() == debugOnly {
			files.DSYM = f
		} else {
			files.Image, files.Name = f, p.Object.Name
		}
	}
	b, err := objtab.MachO(r.ctx, files,
		objtab.Options{Workers: workers, Generator: Generator, Demangle: shown, ShownOnly: r.shownOnly, Sections: r.scratch.sections()})
	return b, badIfFormat(err)
}

// readSym reads a Breakpad symbol file.
func (r *reader) readSym(p *Part) (*functab.Builder, error) {
	b := functab.NewBuilder(functab.Module{}, functab.Limits{})
	return b, badIfFormat(breakpad.ReadSym(ctxio.NewReader(r.ctx, io.NewSectionReader(p, 0, p.Input.Size)), b))
}

// badIfFormat marks an error of the contents of a file.
func badIfFormat(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, functab.ErrLimit) || errors.As(err, new(*fs.PathError)) {
		return err
	}
	return badSource{err}
}

// shown returns the shown form of a name.
func shown(raw string) string { return demangle.Name(raw, demangle.Options{}) }
