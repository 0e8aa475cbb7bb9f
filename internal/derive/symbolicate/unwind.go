package symbolicate

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"github.com/symdepot/symdepot/breakpad"
	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/internal/base/ctxio"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/objtab"
	"github.com/symdepot/symdepot/pdb"
	"github.com/symdepot/symdepot/symfile"
	"github.com/symdepot/symdepot/unwind"
)

// UnwindSource opens modules for lookups and for walks of stacks.
type UnwindSource interface {
	Source
	Unwinder
}

// Unwinder opens the unwind rules of modules.
type Unwinder interface {
	// Unwind opens the rules of a module. The caller calls Done when it needs them no more. The
	// errors are those of Source.Module.
	Unwind(ctx context.Context, q ModuleQuery) (*Unwind, error)
}

// Unwind has the unwind rules of a module. It may be used by many goroutines.
type Unwind struct {
	// Table has the rules of a Breakpad symbol file or of a PDB; nil without them.
	Table *functab.Table
	// Finders have those of the program and of its debug file.
	Finders []*unwind.Finder
	From    string // for people: the files with the rules
	Done    func()

	// weak means that the files need not have the rules of all code: those of a program for x86
	// are in its PDB, and those of an ELF program are not in its debug file.
	weak bool
}

// Find returns the frame of the first Finder that has one for an address. It has the form of
// unwind.Finder.Find.
func (u *Unwind) Find(ctx context.Context, rva uint64) (f functab.Frame, ok bool, err error) {
	for _, finder := range u.Finders {
		if f, ok, err = finder.Find(ctx, rva); ok || err != nil {
			return f, ok, err
		}
	}
	return f, false, nil
}

// ErrNoRules is the error for a module whose program is stored and has no unwind rules, such as one for Windows with
// nothing but functions that call no others. It wraps fs.ErrNotExist.
var ErrNoRules = fmt.Errorf("the program has no unwind rules: %w", fs.ErrNotExist)

// openUnwind is a module of which only the unwind rules are open. It implements Looker, so that
// it is kept as the other modules are.
type openUnwind struct {
	Unwind
	size     int64 // of the memory that it may need, in bytes
	ruleless bool  // it has a program for Windows that has no rules
}

// Lookup implements Looker.
func (*openUnwind) Lookup(uint64) (a functab.Answer, ok bool) { return a, false }

// memory implements sizedLooker.
func (u *openUnwind) memory() int64 { return u.size }

// Unwind implements Unwinder. The program of the module comes first, because its rules are those
// of the processor's own tables; then a .sym, which has those of the file that it was made of.
func (c clientLookups) Unwind(ctx context.Context, q ModuleQuery) (*Unwind, error) {
	if !c.svc.Makes() {
		return nil, fs.ErrNotExist
	}
	u, err := c.unwind(ctx, q)
	if !errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrNoRules) || !c.fetches() {
		return u, err
	}
	ask := c.ask
	ask.Format, ask.Module = lookupFormat, q
	if _, err := c.svc.findUpstream(ctx, ask, true); err != nil {
		return nil, err
	}
	return c.unwind(ctx, q)
}

// unwind is Unwind without upstreams.
func (c clientLookups) unwind(ctx context.Context, q ModuleQuery) (*Unwind, error) {
	f, err := c.svc.find(ctx, c.ask.Products, q, false)
	if err == nil && len(f.list) > 0 {
		u, uerr := c.shareUnwind(ctx, f)
		if uerr == nil && u.weak {
			if sym, serr := c.symUnwind(ctx, q, fs.ErrNotExist); serr == nil {
				u.Done()
				return sym, nil
			}
		}
		if uerr == nil || !errors.Is(uerr, fs.ErrNotExist) && !isBadSource(uerr) {
			return u, uerr
		}
		err = uerr
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return c.symUnwind(ctx, q, err)
}

// symUnwind opens the rules of a .sym. why is the error if there is none.
func (c clientLookups) symUnwind(ctx context.Context, q ModuleQuery, why error) (*Unwind, error) {
	if q.DebugID == "" {
		return nil, orNotExist(why)
	}
	var unfit []blob.Ref
	for {
		sym, serr := c.svc.findSym(ctx, c.ask.Products, q, unfit)
		if errors.Is(serr, fs.ErrNotExist) {
			sym, serr = c.svc.symInTrees(ctx, c.ask.Products, q)
		}
		if errors.Is(serr, fs.ErrNotExist) {
			return nil, orNotExist(why)
		}
		if serr != nil {
			return nil, serr
		}
		u, serr := c.shareUnwind(ctx, sym)
		if serr == nil || !isBadSource(serr) || !sym.isSym() || len(unfit) == maxUnfit {
			return u, serr
		}
		why, unfit = serr, append(unfit, sym.source())
	}
}

// orNotExist is an error, or fs.ErrNotExist for nil.
func orNotExist(err error) error {
	if err == nil {
		return fs.ErrNotExist
	}
	return err
}

// shareUnwind opens the rules of a module, or shares open ones.
func (c clientLookups) shareUnwind(ctx context.Context, f *files) (*Unwind, error) {
	key := blob.Ref(sha256.Sum256([]byte("unwind rules of " + f.recipe(Breakpad)))) // not every caller sees all files
	m, err := c.svc.modules.share(ctx, key, func(ctx context.Context) (Looker, io.Closer, error) {
		limited, cancel := context.WithTimeout(ctx, timeFor(f.size()))
		defer cancel()
		return c.svc.openUnwind(limited, f)
	})
	if err != nil {
		return nil, err
	}
	u := m.looker.(*openUnwind).Unwind
	var once sync.Once
	u.Done = func() { once.Do(func() { c.svc.modules.put(key, m) }) }
	return &u, nil
}

// openUnwind opens the rules of a module. Without any, the error is fs.ErrNotExist.
func (svc *Service) openUnwind(ctx context.Context, f *files) (Looker, io.Closer, error) {
	list, err := svc.openAll(ctx, f)
	if err != nil {
		return nil, nil, err
	}
	open := closers{func() error { return closeAll(list) }}
	u := &openUnwind{}
	u.From = f.from()
	parts, err := identifyAll(f.inputs(list))
	if err == nil {
		err = u.open(ctx, svc.Scratch, parts, &open)
	}
	if err == nil && u.Table == nil && len(u.Finders) == 0 {
		if err = fs.ErrNotExist; u.ruleless {
			err = ErrNoRules
		}
	}
	if err != nil {
		return nil, nil, errors.Join(err, open.Close())
	}
	return u, open, nil
}

// finderMemory is the memory that a Finder may need beside the unwind sections, in bytes.
const finderMemory = 8 << 20

// open opens the rules in the parts of a module.
func (u *openUnwind) open(ctx context.Context, dir string, parts []Part, open *closers) error {
	for i := range parts {
		p := &parts[i]
		switch {
		case p.Kind == symfile.Breakpad:
			return u.readSym(ctx, p)
		case p.Kind == symfile.PDB:
			x86, err := isX86(p)
			if err != nil {
				return err
			}
			if x86 { // the frame data of the PDB, and the sizes of the parameters of its functions
				u.Table, err = ReadParts(ctx, dir, []Part{*p})
				u.size += p.Input.Size
				return err
			}
		case p.addition || p.isSplit():
		default:
			s := &scratch{dir: dir, left: maxScratch}
			*open = append(*open, s.close)
			finder, err := objtab.Finder(objtab.File{Reader: p, Size: p.Input.Size}, p.Kind, objtab.Options{Sections: s.sections()})
			if err = errors.Join(err, s.failure()); err != nil {
				return badIfFormat(err)
			}
			if finder.Empty() {
				u.ruleless = u.ruleless || p.Kind == symfile.PE
				continue
			}
			u.size += finderMemory + p.Input.Size/8
			if p.rank() == debugOnly {
				u.Finders, u.weak = append(u.Finders, finder), len(u.Finders) == 0
			} else {
				u.Finders, u.weak = append([]*unwind.Finder{finder}, u.Finders...), p.Kind == symfile.PE && p.Arch == "x86"
			}
		}
	}
	return nil
}

// isX86 reports whether a PDB is of a module for x86.
func isX86(p *Part) (bool, error) {
	f, err := pdb.Open(p, p.Input.Size)
	if err != nil {
		return false, badIfFormat(err)
	}
	return f.Module(p.Object.Name).Arch == "x86", nil
}

// readSym reads the rules of a .sym. Of other processors than x86, whose rules need the sizes of
// parameters, functions are left out: they take most of the memory.
func (u *openUnwind) readSym(ctx context.Context, p *Part) error {
	var from io.Reader = ctxio.NewReader(ctx, io.NewSectionReader(p, 0, p.Input.Size))
	if p.Arch != "x86" {
		from = &stackRecords{from: bufio.NewReaderSize(from, 256<<10)}
	}
	b := functab.NewBuilder(functab.Module{}, functab.Limits{})
	if err := breakpad.ReadSym(from, b); err != nil {
		return badIfFormat(err)
	}
	t, err := b.Table(ctx)
	if err != nil {
		return err
	}
	n := t.Counts()
	if n.Functions == 0 && n.Symbols == 0 && n.Frames == 0 {
		return badSource{fmt.Errorf("%s: %w", p.Name, ErrNoFunctions)}
	}
	u.Table, u.size = t, p.Input.Size
	return nil
}

// stackRecords are the MODULE and STACK records of a .sym.
type stackRecords struct {
	from *bufio.Reader
	line []byte // what is left of a record
	skip bool   // the line goes on, and is left out
	keep bool   // the line goes on
}

// Read implements io.Reader.
func (s *stackRecords) Read(p []byte) (int, error) {
	for len(s.line) == 0 {
		line, err := s.from.ReadSlice('\n')
		begins := !s.skip && !s.keep
		kept := s.keep || begins && (bytes.HasPrefix(line, []byte("STACK ")) || bytes.HasPrefix(line, []byte("MODULE ")))
		whole := err == nil
		s.keep, s.skip = kept && !whole, !kept && !whole
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			if kept && len(line) > 0 {
				s.line = line
				break
			}
			return 0, err
		}
		if kept {
			s.line = line
		}
	}
	n := copy(p, s.line)
	s.line = s.line[n:]
	return n, nil
}
