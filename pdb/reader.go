package pdb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sort"
	"sync"

	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/internal/base/sorting"
)

// reader is one call of Functions.
type reader struct {
	f        *File
	b        *functab.Builder
	addr     *addresses
	names    *stringTable
	publics  *publics
	frames   []frameData
	contribs []extent
	modules  []compiland
	exports  exports
	types    *typeStream
	ids      *typeStream
	unknown  functab.NameID

	fileMu sync.Mutex
	files  map[uint32]functab.FileID // by offset in the string table; guarded by fileMu

	warnMu   sync.Mutex
	warnings []warning // guarded by warnMu
	unsaid   int       // guarded by warnMu

	targetMu sync.Mutex
	jumps    []jump           // guarded by targetMu
	starts   map[uint64]start // if linked incrementally; guarded by targetMu
}

// warning is about the module; -1 is the file itself.
type warning struct {
	module int
	text   string
}

// start is the name of the function that starts at an address, and its module.
type start struct {
	name   functab.NameID
	module int
}

// jump is a trampoline of the linker.
type jump struct {
	extent
	target uint64
}

// Limits of Functions.
const (
	maxWorkers     = 16
	maxWarnings    = 200
	maxTrampolines = 16 << 20
	maxInlineIDs   = 4 << 20 // ids whose names a worker keeps
)

// fatal reports whether err is not about the bytes of the file, so that the
// result would be different another time.
func fatal(err error) bool {
	var p *fs.PathError
	return errors.Is(err, functab.ErrLimit) || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded) || errors.As(err, &p)
}

// file returns the number of the source file whose path has an offset in the
// string table.
func (r *reader) file(off uint32) functab.FileID {
	r.fileMu.Lock()
	defer r.fileMu.Unlock()
	id, ok := r.files[off]
	if !ok {
		if path := r.names.text(off, maxStringLength); path != "" {
			id = r.b.File(functab.JoinPath(cleanName(path)))
		}
		if len(r.files) >= maxInlineIDs {
			clear(r.files)
		}
		r.files[off] = id
	}
	return id
}

// warn records a warning about a module, or about the file if module is -1.
func (r *reader) warn(module int, format string, args ...any) {
	r.warnMu.Lock()
	defer r.warnMu.Unlock()
	if len(r.warnings) >= maxWarnings {
		r.unsaid++
		return
	}
	r.warnings = append(r.warnings, warning{module, cleanName(fmt.Sprintf(format, args...))})
}

// say gives the warnings to the Builder in the order of modules.
func (r *reader) say() {
	sorting.Stable(r.warnings, func(x, y warning) int { return cmp.Compare(x.module, y.module) })
	for _, w := range r.warnings {
		r.b.Warn("%s", w.text)
	}
	if r.unsaid > 0 {
		r.b.Warn("%d more modules are damaged", r.unsaid)
	}
}

// contributionStart returns the start of the contribution of an object file
// that has the address; the address itself if there is none.
func (r *reader) contributionStart(addr uint64) uint64 {
	i := sort.Search(len(r.contribs), func(i int) bool { return r.contribs[i].start > addr })
	if i > 0 && r.contribs[i-1].end > addr {
		return r.contribs[i-1].start
	}
	return addr
}

// contributionEnd returns the end of the contribution that has the address, or
// 0 if there is none.
func (r *reader) contributionEnd(addr uint64) uint64 {
	i := sort.Search(len(r.contribs), func(i int) bool { return r.contribs[i].start > addr })
	if i > 0 && r.contribs[i-1].end > addr {
		return r.contribs[i-1].end
	}
	return 0
}

// trampoline notes a jump that an incremental linker put before a function.
func (r *reader) trampoline(b []byte) {
	e, ok := r.addr.codeRange(u16(b, 12), u32(b, 4), uint32(u16(b, 2)))
	if !ok {
		return
	}
	target, _ := r.addr.code(u16(b, 14), u32(b, 8))
	r.targetMu.Lock()
	defer r.targetMu.Unlock()
	if len(r.jumps) < maxTrampolines {
		r.jumps = append(r.jumps, jump{e, target})
	}
}

// reached notes that a function starts at an address, for the names of
// trampolines.
func (r *reader) reached(addr uint64, s start) {
	if r.starts == nil {
		return
	}
	r.targetMu.Lock()
	defer r.targetMu.Unlock()
	if old, ok := r.starts[addr]; !ok || s.module < old.module {
		r.starts[addr] = s
	}
}
