package functab

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// maxWarnings is the number of warnings that a Builder keeps as text.
const maxWarnings = 100

// Builder collects the function tables of one module. It is safe for concurrent
// use.
type Builder struct {
	lim Limits

	mu       sync.Mutex
	module   Module
	names    []nameText
	nameIDs  map[nameText]NameID
	files    []string
	fileIDs  map[string]FileID
	funcs    []Function
	symbols  []Symbol
	frames   []Frame
	sections []Section
	warnings []string
	omitted  int // warnings that were only counted
	bytes    int64
}

type nameText struct{ shown, raw string }

// NewBuilder returns a Builder for the module m.
func NewBuilder(m Module, lim Limits) *Builder {
	return &Builder{
		lim: lim.orDefault(), module: m,
		names: make([]nameText, 1), nameIDs: map[nameText]NameID{{}: 0},
		files: make([]string, 1), fileIDs: map[string]FileID{"": 0},
	}
}

// SetModule replaces the description of the module. Readers call it if the file
// itself describes the module.
func (b *Builder) SetModule(m Module) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.module = m
}

// Module returns the description of the module.
func (b *Builder) Module() Module {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.module
}

// File returns the number of a source path. The path is complete; JoinPath makes
// it from its parts.
func (b *Builder) File(path string) FileID {
	path = b.text(path)
	b.mu.Lock()
	defer b.mu.Unlock()
	id, ok := b.fileIDs[path]
	if !ok {
		id = FileID(len(b.files))
		path = strings.Clone(path)
		b.files = append(b.files, path)
		b.fileIDs[path] = id
		b.bytes += int64(len(path)) + 64
	}
	return id
}

// Name returns the number of a name: as shown to people, and as the linker knows
// it. raw may be empty if it equals shown.
func (b *Builder) Name(shown, raw string) NameID {
	n := nameText{b.text(shown), b.text(raw)}
	if n.raw == n.shown {
		n.raw = ""
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	id, ok := b.nameIDs[n]
	if !ok {
		id = NameID(len(b.names))
		n = nameText{strings.Clone(n.shown), strings.Clone(n.raw)}
		b.names = append(b.names, n)
		b.nameIDs[n] = id
		b.bytes += int64(len(n.shown)+len(n.raw)) + 64
	}
	return id
}

// text returns s as text that fits on one line and into the limit.
func (b *Builder) text(s string) string {
	if len(s) > b.lim.Name {
		n := b.lim.Name
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n]
	}
	return s
}

// Add adds a function. The Builder copies f and all that it refers to.
func (b *Builder) Add(f Function) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	f.Rows = slices.Clone(f.Rows)
	f.Inlines = slices.Clone(f.Inlines)
	ranges := 0
	for i := range f.Inlines {
		in := &f.Inlines[i]
		in.Ranges = slices.Clone(in.Ranges)
		ranges += len(in.Ranges)
		if in.Depth < 0 || in.Depth >= b.lim.InlineDepth {
			return fmt.Errorf("%w: function at %#x: inline depth %d", ErrLimit, f.Start, in.Depth)
		}
	}
	if len(f.Rows) > b.lim.Rows || ranges > b.lim.Rows {
		return fmt.Errorf("%w: function at %#x: %d rows and %d inlined ranges", ErrLimit, f.Start, len(f.Rows), ranges)
	}
	b.bytes += int64(96 + 16*len(f.Rows) + 48*len(f.Inlines) + 16*ranges)
	b.funcs = append(b.funcs, f)
	return b.check(len(b.funcs))
}

// check reports whether a list of n records and all memory are within the limits.
func (b *Builder) check(n int) error {
	if n > b.lim.Functions {
		return fmt.Errorf("%w: more than %d records of one kind", ErrLimit, b.lim.Functions)
	}
	if b.bytes > b.lim.Bytes {
		return fmt.Errorf("%w: more than %d bytes of tables", ErrLimit, b.lim.Bytes)
	}
	return nil
}

// Symbol adds a public symbol.
func (b *Builder) Symbol(s Symbol) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.symbols = append(b.symbols, s)
	b.bytes += 32
	return b.check(len(b.symbols))
}

// Frame adds unwind rules. Of two frames with CFI that overlap, the Table keeps
// the one that was added first.
func (b *Builder) Frame(f Frame) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	f.Deltas = slices.Clone(f.Deltas)
	if f.Win != nil {
		w := *f.Win
		f.Win = &w
	}
	b.frames = append(b.frames, f)
	b.bytes += int64(80 + 24*len(f.Deltas) + len(f.CFI))
	return b.check(len(b.frames))
}

// Section adds a section with executable code. The Table places end markers of
// symbols by the sections.
func (b *Builder) Section(s Section) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.sections) < 1<<16 {
		b.sections = append(b.sections, s)
	}
}

// Warn records in words what a reader left out. A Builder keeps the first 100
// texts and counts the others.
func (b *Builder) Warn(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.warnings) >= maxWarnings {
		b.omitted++
		return
	}
	b.warnings = append(b.warnings, b.text(fmt.Sprintf(format, args...)))
}

// Table sorts and normalizes what was added. The Builder must not be used
// afterwards. The error is that of ctx, or wraps ErrLimit.
func (b *Builder) Table(ctx context.Context) (*Table, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(b.funcs, func(x, y Function) int { return compare(x.Start, y.Start) })
	slices.SortStableFunc(b.symbols, func(x, y Symbol) int { return compare(x.Address, y.Address) })
	slices.SortStableFunc(b.frames, func(x, y Frame) int { return compare(x.Start, y.Start) })
	if b.omitted > 0 {
		b.warnings = append(b.warnings, fmt.Sprintf("%d more warnings", b.omitted))
	}
	return &Table{b: b}, nil
}

func compare(x, y uint64) int {
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}
