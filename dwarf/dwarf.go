// Package dwarf reads functions, line rows and inlined calls from debug
// information in DWARF versions 2 to 5, and the names of source files.
//
// It reads named sections and knows no container: where a section comes from and
// how it is stored is the caller's matter. It covers split units (.dwo files and
// .dwp packages), supplementary files (dwz) and the forms of GNU and LLVM that
// preceded version 5. It skips type units, because they have no code.
//
// Input may be hostile. Memory is bounded by the limits here and those of the
// functab.Builder, not by the size of the sections: units are read through
// windows. Time is bounded by a budget of steps that is proportional to the sizes
// of the sections. Damage in a unit loses that unit, and Read reports it to the
// Builder.
//
// The package is not yet promised: it may change in any version.
package dwarf

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/internal/base/pagecache"
)

// Section is the content of one section, decompressed. If it also has a method
// Bytes() []byte with a result that is not nil, that is used in place of reads.
// It must be safe for concurrent use.
type Section = pagecache.Source

// Sections returns a section by the name that ELF gives it, without the leading
// dot: "debug_info", "debug_str_offsets.dwo". The error wraps fs.ErrNotExist if
// there is none. Read calls it at most once for each name, from one goroutine at
// a time.
type Sections func(name string) (Section, error)

// Data are the files that make up the debug information of one module.
type Data struct {
	// Sections are the sections of the file that has the DWARF.
	Sections Sections
	// Order is the byte order; nil is little-endian.
	Order binary.ByteOrder
	// Alternate are the sections of the supplementary file that dwz makes; nil
	// if there is none.
	Alternate Sections
	// Package are the sections of the .dwp file; nil if there is none.
	Package Sections
	// Object returns the sections of a .dwo file by the name and the directory
	// in the skeleton unit and its id. The error wraps fs.ErrNotExist if there
	// is none. Object may be nil. Read calls it from one goroutine at a time.
	Object func(name, dir string, id uint64) (Sections, error)
}

// Range is a range of addresses from Start up to, but not including, End.
type Range struct{ Start, End uint64 }

// Options of Read. The zero value works.
type Options struct {
	// Base is the preferred address of the module, which is subtracted from all
	// addresses.
	Base uint64
	// Code are the executable ranges of the module, sorted. What lies outside is
	// dead code. Without ranges, only what starts at 0 and what linkers mark is
	// dead.
	Code []Range
	// Symbol returns the name that the symbol table has for an address, or an
	// empty string. It is used for functions without a linkage name. It must be
	// safe for concurrent use. Nil means no symbol table.
	Symbol func(address uint64) string
	// Demangle returns the shown form of a linkage name. Nil means unchanged. It
	// must be safe for concurrent use.
	Demangle func(raw string) string
	// Workers is the number of units that are read at the same time; 0 means one
	// for each processor, up to 8.
	Workers int
}

// Stats counts the records that were read.
type Stats struct {
	Units     int // units with code or names; type units do not count
	Entries   int // debugging information entries
	Functions int // ranges of functions
	Rows      int // line rows of these functions
	Inlines   int // inlined calls
	Damaged   int // units that were given up
	Missing   int // split units whose .dwo file was not found
}

// Limits. The others are those of functab.
const (
	maxDepth      = 512 // of nested entries
	maxChain      = 16  // references from an entry to the one with its name
	maxName       = 64 << 10
	maxUnitRows   = 16 << 20 // line rows of a unit
	maxRanges     = 1 << 20  // ranges of one entry
	maxInlines    = 1 << 20  // inlined calls in one function
	maxLineHeader = 64 << 20
	maxWorkers    = 8
	windowSize    = 256 << 10
	maxWindow     = 64 << 20 // the largest entry
	unitsPerMark  = 16
	singleMarks   = 1024 // up to so many units, each has a mark

	// Steps that reading may take: some for small files, and some for each byte.
	// An entry, a row, a range and a byte of a table are a step each.
	baseSteps    = 64 << 20
	stepsPerByte = 64
)

// omitted is the name of a function without one, as other tools write it.
const omitted = "<name omitted>"

var (
	errBad   = errors.New("damaged DWARF")
	errShort = errors.New("the window is too short")

	// ErrBudget is wrapped by the error of Read if the file needs more steps than
	// its size allows, which no compiler's output does.
	ErrBudget = errors.New("the debug information takes too many steps to read")
)

// Read reads all units and adds their functions to b, in no particular order.
// The error wraps fs.ErrNotExist if there is no debug information, ErrBudget,
// functab.ErrLimit, or it is that of ctx or of reading a section. Damage is not an
// error: it is counted and reported to b.
func Read(ctx context.Context, d Data, opt Options, b *functab.Builder) (Stats, error) {
	r, err := newReader(ctx, d, opt, b)
	if err != nil {
		return Stats{}, err
	}
	err = r.run()
	st := r.stats
	for _, im := range []*image{r.main, r.alt, r.pkg} {
		if im == nil {
			continue
		}
		for _, e := range im.errs {
			b.Warn("DWARF %s: %v", im.name, e)
		}
	}
	if st.Damaged > 0 {
		b.Warn("DWARF: %d damaged units left out", st.Damaged)
	}
	if st.Missing > 0 {
		b.Warn("DWARF: split debug information of %d units not found%s", st.Missing, r.missing())
	}
	return st, err
}

// newReader opens the sections of d, and sets the budget of steps.
func newReader(ctx context.Context, d Data, opt Options, b *functab.Builder) (*reader, error) {
	if d.Sections == nil {
		return nil, fmt.Errorf("DWARF: %w", fs.ErrNotExist)
	}
	r := &reader{ctx: ctx, opt: opt, b: b, data: d}
	big := d.Order == binary.BigEndian
	r.main = &image{name: "file", be: big, get: d.Sections}
	info, err := r.main.section("debug_info")
	if err != nil {
		return nil, err
	}
	if info == nil {
		return nil, fmt.Errorf("section .debug_info: %w", fs.ErrNotExist)
	}
	if d.Alternate != nil {
		r.alt = &image{name: "supplementary file", be: big, get: d.Alternate}
	}
	if d.Package != nil {
		r.pkg = &image{name: "package", be: big, get: d.Package, split: true}
	}
	steps := int64(baseSteps)
	for _, im := range []*image{r.main, r.alt, r.pkg} {
		steps += stepsPerByte * im.bytes()
	}
	r.steps.Store(steps)
	return r, nil
}

// reader is the state that the workers of one Read share.
type reader struct {
	ctx  context.Context
	opt  Options
	b    *functab.Builder
	data Data

	main, alt, pkg *image

	steps atomic.Int64 // left
	next  atomic.Int64 // the next mark to work on

	mu     sync.Mutex
	stats  Stats
	pkgIdx *packageIndex
	pkgErr error
	lacks  []string // the names of .dwo files that were not found, of the first units
}

// namedMissing is how many .dwo files that were not found a warning names.
const namedMissing = 5

// lack counts a split unit that was not found.
func (w *worker) lack(u *unit) {
	w.stats.Missing++
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	if u.dwo != "" && len(w.r.lacks) < namedMissing && !slices.Contains(w.r.lacks, u.dwo) {
		w.r.lacks = append(w.r.lacks, u.dwo)
	}
}

// missing names .dwo files that were not found.
func (r *reader) missing() string {
	if len(r.lacks) == 0 {
		return ""
	}
	slices.Sort(r.lacks)
	more := ""
	if len(r.lacks) == namedMissing {
		more = ", …"
	}
	return ": " + strings.Join(r.lacks, ", ") + more
}

// warn reports damage to the Builder, if there is one.
func (r *reader) warn(format string, args ...any) {
	if r.b != nil {
		r.b.Warn(format, args...)
	}
}

func (r *reader) run() error {
	w0 := newWorker(r)
	v := w0.view(r.main)
	if err := w0.mark(v); err != nil {
		return err
	}
	if r.pkg != nil {
		r.pkgIdx, r.pkgErr = w0.readPackageIndex(w0.view(r.pkg))
		if r.pkgErr != nil {
			r.b.Warn("DWARF package: %v", r.pkgErr)
		}
	}
	n := r.opt.Workers
	if n <= 0 {
		n = min(runtime.GOMAXPROCS(0), maxWorkers)
	}
	n = max(1, min(n, len(r.main.marks)))
	errs := make([]error, n)
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	var wg sync.WaitGroup
	for i := range n {
		w := w0
		if i > 0 {
			w = newWorker(r)
		}
		w.ctx = ctx
		wg.Go(func() {
			if errs[i] = w.run(); errs[i] != nil {
				cancel()
			}
			r.mu.Lock()
			r.stats.add(w.stats)
			r.mu.Unlock()
		})
	}
	wg.Wait()
	if err := r.ctx.Err(); err != nil {
		return err
	}
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return nil
}

func (s *Stats) add(o Stats) {
	s.Units += o.Units
	s.Entries += o.Entries
	s.Functions += o.Functions
	s.Rows += o.Rows
	s.Inlines += o.Inlines
	s.Damaged += o.Damaged
	s.Missing += o.Missing
}

// image is the sections of one file, shared by the workers.
type image struct {
	name  string
	be    bool
	split bool // the names of the sections end in .dwo
	get   Sections

	mu     sync.Mutex
	opened map[string]Section // nil: not there
	errs   []error

	marked bool
	marks  []uint64 // the offset of every unit in .debug_info whose number is a multiple of step
	step   int      // at most unitsPerMark
	damage error    // why the list of units ends before the section
}

// section returns a section, or nil if there is none. A section that cannot be
// decompressed counts as missing, and the error is kept in errs.
func (im *image) section(name string) (Section, error) {
	im.mu.Lock()
	defer im.mu.Unlock()
	if s, ok := im.opened[name]; ok {
		return s, nil
	}
	s, err := im.get(name)
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil, err
	}
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			im.errs = append(im.errs, fmt.Errorf("section %s: %w", name, err))
		}
		s = nil
	}
	if s != nil && s.Size() <= 0 {
		s = nil
	}
	if im.opened == nil {
		im.opened = map[string]Section{}
	}
	im.opened[name] = s
	return s, nil
}

// bytes returns the size of the sections that a budget depends on.
func (im *image) bytes() int64 {
	if im == nil {
		return 0
	}
	var n int64
	for _, name := range []string{"debug_info", "debug_abbrev", "debug_line", "debug_ranges", "debug_rnglists"} {
		if im.split {
			name += ".dwo"
		}
		if s, _ := im.section(name); s != nil {
			n += s.Size()
		}
	}
	return n
}

// view is an image as one worker reads it.
type view struct {
	im                                                                          *image
	info, abbrev, str, lineStr, strOffsets, addr, ranges, rnglists, line, index *pagecache.Reader

	linkages offsets // names by the offset of their linkage name in .debug_str
	named    offsets // names by the offset of the entry that leads to them: found, packed
}

// view returns the worker's view of an image.
func (w *worker) view(im *image) *view {
	if im == nil {
		return nil
	}
	if v := w.views[im]; v != nil {
		return v
	}
	open := func(name string, pages, size int) *pagecache.Reader {
		if im.split && !strings.HasSuffix(name, "_index") {
			name += ".dwo"
		}
		s, err := im.section(name)
		if err != nil || s == nil {
			return nil
		}
		return pagecache.NewSize(s, pages, size)
	}
	v := &view{im: im}
	// The strings of a unit are in some parts of the section, in an order of chance, and
	// references lead to any entry of a unit: the pages of these hold what one unit has.
	const page, short = 16 << 10, 8 << 10
	v.info, v.abbrev = open("debug_info", 256, short), open("debug_abbrev", 8, page)
	v.str, v.strOffsets = open("debug_str", 512, short), open("debug_str_offsets", 32, page)
	v.rnglists = open("debug_rnglists", 32, page)
	if im.split {
		v.index = open("debug_cu_index", 8, page)
	} else {
		v.lineStr, v.addr, v.ranges = open("debug_line_str", 16, page), open("debug_addr", 32, page), open("debug_ranges", 32, page)
	}
	v.line = open("debug_line", 1, page)
	w.views[im] = v
	return v
}

// err returns the first error of reading a section.
func (v *view) err() error {
	for _, r := range []*pagecache.Reader{v.info, v.abbrev, v.str, v.lineStr, v.strOffsets, v.addr, v.ranges, v.rnglists, v.line, v.index} {
		if err := r.Err(); err != nil {
			return err
		}
	}
	return nil
}

// worker reads units, one after the other.
type worker struct {
	r     *reader
	ctx   context.Context
	spent int64
	stats Stats
	views map[*image]*view

	abbrevs     map[abbrevKey]*abbrevs
	abbrevSpecs int

	units map[dieKey]*unit // units that others refer to
	names names
	win   window // of the walk
	lines lineTable
	walk  walk
	spans []Range // scratch
	rows  []functab.Row

	inl       []functab.Inline // scratch
	inlRanges []functab.Range
	number    uint32 // of the unit in the file
	survey    bool   // units are opened for their first entries alone
}

func newWorker(r *reader) *worker {
	return &worker{r: r, ctx: r.ctx, views: map[*image]*view{}, abbrevs: map[abbrevKey]*abbrevs{}, units: map[dieKey]*unit{}}
}

// spend subtracts steps from the budget. The error is ErrBudget or that of the
// context.
func (w *worker) spend(n int64) error {
	if w.spent += n; w.spent < 8192 {
		return nil
	}
	left := w.r.steps.Add(-w.spent)
	w.spent = 0
	if left < 0 {
		return ErrBudget
	}
	return w.ctx.Err()
}

// fatal reports whether an error ends the whole Read and not only a unit.
func (w *worker) fatal(err error) bool {
	return err != nil && !errors.Is(err, errBad) && !errors.Is(err, errShort)
}

func (w *worker) run() error {
	marks := w.r.main.marks
	v := w.view(w.r.main)
	for {
		m := int(w.r.next.Add(1) - 1)
		if m >= len(marks) {
			return nil
		}
		off := marks[m]
		for i := range w.r.main.step {
			w.number = uint32(m*w.r.main.step + i)
			h, err := v.header(off)
			if err != nil {
				break // the end, or damage that mark has reported
			}
			if err := w.unit(v, h); w.fatal(err) {
				return err
			} else if err != nil {
				w.stats.Damaged++
				w.r.b.Warn("DWARF unit at %#x: %v", off, err)
			}
			if err := v.err(); err != nil {
				return err
			}
			off = h.end
		}
	}
}
