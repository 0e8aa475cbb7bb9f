package pdb

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/symdepot/symdepot/functab"
)

// Module returns the description of the module that the PDB belongs to, with the
// file name of the PDB.
func (f *File) Module(name string) functab.Module {
	m := functab.Module{OS: "windows", Arch: f.Arch(), ID: f.ID(), Name: name}
	if !f.GUID.IsZero() {
		age := f.DBIAge
		if f.NoDBI || f.OldDBI {
			age = f.InfoAge
		}
		g := f.GUID.Microsoft()
		m.UUID = append(g[:], byte(age), byte(age>>8), byte(age>>16), byte(age>>24))
	}
	return m
}

// Functions adds the functions, line numbers, inlined calls, public symbols and
// x86 frame data of the PDB to b. Names are in the form of Breakpad symbol
// files; addresses are relative to the image base.
//
// Damaged parts are left out, and named by warnings of b. So are the private
// symbols of compilers of before 1998. The error is that of ctx or of the
// io.ReaderAt, or wraps functab.ErrLimit.
//
// Functions reads modules one by one through the pages of the file. Besides the
// tables in b, it needs about 16 bytes for each public symbol and each
// contribution, and a few megabytes.
//
// Functions is not yet promised: it may change in any version.
func (f *File) Functions(ctx context.Context, b *functab.Builder, opt FunctionOptions) error {
	if err := f.functions(ctx, b, opt); err != nil {
		return fmt.Errorf("pdb: %w", err)
	}
	return nil
}

func (f *File) functions(ctx context.Context, b *functab.Builder, opt FunctionOptions) error {
	if f.NoDBI {
		b.Warn("the PDB has types only: no DBI stream")
		return nil
	}
	if f.OldDBI {
		b.Warn("the DBI stream has the form of before 1995, which is not supported")
		return nil
	}
	r := &reader{f: f, b: b, files: map[uint32]functab.FileID{}}
	if err := r.open(ctx); err != nil {
		return err
	}
	if err := r.readModules(ctx, opt.Workers); err != nil {
		return err
	}
	if err := r.addTrampolines(); err != nil {
		return err
	}
	if err := r.addPublics(ctx); err != nil {
		return err
	}
	if err := r.addFrames(ctx, r.frames); err != nil {
		return err
	}
	r.say()
	return nil
}

// open reads the tables that all modules share.
func (r *reader) open(ctx context.Context) error {
	f := r.f
	keep := func(what string, err error) error {
		if err == nil || fatal(err) {
			return err
		}
		r.warn(-1, "%s: %v", what, err)
		return nil
	}
	name := cleanName(r.b.Module().Name)
	if name == "" {
		name = "module"
	}
	r.unknown = r.b.Name("<unknown in "+name+">", "")

	var err error
	if r.addr, err = f.readAddresses(); err != nil {
		if err := keep("addresses", err); err != nil {
			return err
		}
		r.addr = &addresses{}
	} else if len(r.addr.sections) == 0 {
		r.warn(-1, "the PDB has no section headers, so that no address is known")
	}
	for _, h := range r.addr.image {
		if h.code {
			r.b.Section(functab.Section{Name: cleanName(h.name), Start: h.start, Size: h.end - h.start})
		}
	}
	r.names, err = f.readNames()
	if err := keep("string table", err); err != nil {
		return err
	}
	if r.publics, err = f.readPublics(ctx, r.addr); err != nil {
		if err := keep("public symbols", err); err != nil {
			return err
		}
		r.publics = &publics{x86: f.Machine == machineX86}
	}
	r.frames, err = f.readFrames()
	if err := keep("frame data", err); err != nil {
		return err
	}
	r.contribs, err = f.readContributions(ctx, r.addr)
	if err := keep("section contributions", err); err != nil {
		return err
	}
	if fast, err := f.FastLink(); err == nil && fast {
		r.warn(-1, "the PDB was linked with /DEBUG:FASTLINK: its functions and lines are in the object files of the build machine")
	}
	if f.dbi.version < dbiV60 {
		r.warn(-1, "the module records have the form of before 1997, which is not supported")
	} else {
		r.modules, err = f.readModules()
		if err := keep("module records", err); err != nil {
			return err
		}
	}
	r.exports = exports{f: f, modules: r.modules}
	if f.dbi.incremental {
		r.starts = map[uint64]start{}
	}
	if len(r.modules) > 0 && !f.Stripped {
		r.types, err = f.openTypes(ctx, TPIStream)
		if err := keep("types", err); err != nil {
			return err
		}
		if f.hasIDs() {
			r.ids, err = f.openTypes(ctx, IPIStream)
			if err := keep("ids", err); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// hasIDs reports whether stream 4 is that of ids, which linkers write since
// 2011.
func (f *File) hasIDs() bool {
	codes, err := f.FeatureCodes()
	return err == nil && (slices.Contains(codes, 20091201) || slices.Contains(codes, 20140508))
}

// readModules reads all modules, the largest first, by several workers.
func (r *reader) readModules(ctx context.Context, workers int) error {
	order := make([]int, len(r.modules))
	for i := range order {
		order[i] = i
	}
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	workers = max(1, min(workers, maxWorkers, len(order)))
	if r.f.Format == MSFZ {
		workers = 1
	} else {
		size := func(i int) int64 { return r.modules[i].symbols + r.modules[i].c13 }
		slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(size(y), size(x)) })
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			w := newWorker(ctx, r)
			for i := range next {
				if err := w.read(i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, i := range order {
		select {
		case next <- i:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(next)
	group.Wait()
	return context.Cause(ctx)
}

// addTrampolines adds the trampolines. Each has the name of its target.
func (r *reader) addTrampolines() error {
	var pieces []piece
	for _, j := range r.jumps {
		s, ok := r.starts[j.target]
		name := s.name
		if !ok {
			name = r.unknown
			if s, ok := r.publics.at(j.target); ok {
				name = r.b.Name(s.shown, s.raw)
			}
		}
		r.publics.cover(j.extent)
		pieces = r.addr.pieces(pieces[:0], j.extent)
		for _, p := range pieces {
			f := functab.Function{Start: p.image, Size: uint32(p.end - p.start), Name: name, Jump: true, Unit: uint32(len(r.modules))}
			if err := r.b.Add(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// addPublics adds the public symbols that are not in a function. A symbol
// reaches to the next one or to the end of its contribution.
func (r *reader) addPublics(ctx context.Context) error {
	list := r.publics.list
	for i := 0; i < len(list); {
		first, end := i, r.publics.group(i)
		i = end
		if r.publics.covered(first) {
			continue
		}
		if first%(1<<12) == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		s, ok := r.publics.first(first, end)
		if !ok {
			continue
		}
		internal := uint64(list[first].addr)
		image, ok := r.addr.toImage(internal)
		if !ok {
			continue
		}
		if params, ok := parameters(r.frames, internal); ok {
			s.params = params
		}
		sym := functab.Symbol{Address: image, Name: r.b.Name(s.shown, s.raw), Params: s.params, Multiple: s.multiple}
		if stop := r.contributionEnd(internal); stop > internal && len(r.addr.omap) == 0 {
			if end < len(list) {
				stop = min(stop, uint64(list[end].addr))
			}
			sym.Size = uint32(stop - internal)
		}
		if err := r.b.Symbol(sym); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// program returns the program of a record, which the names of the PDB have; empty if it is
// not usable. known has those that were read before.
func (r *reader) program(known map[uint32]string, offset uint32) string {
	text, ok := known[offset]
	if ok {
		return text
	}
	text = strings.TrimSpace(strings.ToValidUTF8(r.names.text(offset, maxProgram), "?"))
	if strings.ContainsAny(text, "\r\n") || len(text) >= maxProgram {
		text = ""
	}
	if len(known) < 1<<16 {
		known[offset] = text
	}
	return text
}

// addFrames adds the records to b.
func (r *reader) addFrames(ctx context.Context, frames []frameData) error {
	programs := map[uint32]string{}
	var last frameData
	var pieces []piece
	for i, d := range frames {
		if i%(1<<14) == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		// Walkers know the records with a program, and those of functions
		// without a frame pointer.
		if d.code == 0 || d.code > 1<<31 || d.fpo && d.kind != 0 {
			continue
		}
		if d.start == last.start && d.code == last.code && d.prolog == last.prolog && d.fpo == last.fpo {
			continue
		}
		last = d
		w := functab.WinFrame{Params: d.param, SavedRegs: uint32(d.saved), Locals: d.locals, MaxStack: d.stack}
		if d.fpo {
			w.AllocatesBP = d.usesBP
		} else if w.Type, w.Program = 4, r.program(programs, d.program); w.Program == "" {
			continue
		}
		prolog := min(uint64(d.prolog), uint64(d.code))
		start := uint64(d.start)
		body := len(r.addr.pieces(pieces[:0], extent{start, start + prolog}))
		pieces = r.addr.pieces(pieces[:0], extent{start, start + prolog})
		pieces = r.addr.pieces(pieces, extent{start + prolog, start + uint64(d.code)})
		if prolog > 0 && body == 1 && len(pieces) > 1 && pieces[0].continues(pieces[1]) {
			pieces[1].start, pieces[1].image = pieces[0].start, pieces[0].image
			pieces, body = pieces[1:], 1
		}
		for i, p := range pieces {
			w.Prolog = 0
			if i < body {
				w.Prolog = uint32(min(prolog, p.end-p.start))
			}
			if err := r.b.Frame(functab.Frame{Start: p.image, Size: uint32(p.end - p.start), Win: &w}); err != nil {
				return fmt.Errorf("frame data: %w", err)
			}
		}
	}
	return nil
}

// FunctionOptions are the options of Functions. The zero value is good.
type FunctionOptions struct {
	// Workers is the number of modules that are read at once; 0 means one for
	// each processor. MSFZ files are read by one.
	Workers int
}
