package importexport

import (
	"context"
	"fmt"
	"sync"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// ExportOptions are the options of Export.
type ExportOptions struct {
	Layout layout.Layout
	// Compress writes cabinets or zstd, as the layout's clients expect; see
	// Compresses.
	Compress bool
	// All writes ELF, Mach-O and WASM files into a SymStore tree, too.
	All bool
	// Lower writes all paths in lower case.
	Lower bool
	// Public writes the public forms of the files, for people outside, in a layout without
	// records of its own. What has no public form is left out.
	Public bool
	// DryRun writes nothing and only reports what would be written.
	DryRun   bool
	Event    func(Event)
	Progress Progress
}

// ExportResult is the result of Export.
type ExportResult struct {
	Transactions int
	Before       int64 // transactions that the tree had already
	// Written, Same and Replaced count files: with new paths, with equal
	// content, and with different content before. Replaced files are counted
	// in Written, too. Written has the bytes on disk, Plain those before
	// compression.
	Written, Same Tally
	Plain         int64
	Replaced      int64
	// LeftOut counts objects without a path in the layout, Shadowed those
	// whose path a better object has, Collisions the paths that differ from
	// a different path in case only, Failed the files that could not be written.
	LeftOut, Shadowed, Collisions, Failed int64
	// Private counts files that have no public form.
	Private int64
	// Removed counts files that Follow removed from the target.
	Removed int64
	// LeftOutKinds counts the left out objects by kind.
	LeftOutKinds map[string]int64
	// Some describes the first notable files.
	Some []string
}

// exporter writes one tree. Its methods event, count, progress, file and write may be called by
// several goroutines.
type exporter struct {
	ctx    context.Context
	d      *depot.Depot
	to     Target
	opt    ExportOptions
	layout layout.Layout
	txs    []depot.Transaction // oldest first
	stored map[string]chosen   // in a symstore tree, by folded name/key
	// cannotOpen handles a file that open has an error for; nil: file does.
	cannotOpen func(ctx context.Context, p *place, err error) error
	result     ExportResult
	events     sync.Mutex // held by event and count
	making     sync.Mutex // held while a public form is made: one takes the memory of many files
	bytes      sync.Mutex // held by progress
}

func newExporter(ctx context.Context, d *depot.Depot, to Target, opt ExportOptions) *exporter {
	ex := &exporter{ctx: ctx, d: d, to: to, opt: opt, layout: opt.Layout}
	ex.result.LeftOutKinds = map[string]int64{}
	return ex
}

// count changes the result.
func (ex *exporter) count(change func(*ExportResult)) {
	ex.events.Lock()
	defer ex.events.Unlock()
	change(&ex.result)
}

// event reports the result for a path.
func (ex *exporter) event(kind EventKind, path, detail string, notable bool) {
	ex.events.Lock()
	defer ex.events.Unlock()
	if notable && len(ex.result.Some) < maxNotable {
		ex.result.Some = append(ex.result.Some, path+": "+detail)
	}
	if ex.opt.Event != nil {
		ex.opt.Event(Event{Kind: kind, Path: path, Detail: detail, Notable: notable})
	}
}

// progress reports the bytes done.
func (ex *exporter) progress(done, total int64) {
	if ex.opt.Progress != nil {
		ex.bytes.Lock()
		defer ex.bytes.Unlock()
		ex.opt.Progress(done, total)
	}
}

// countOmitted counts an object that the layout has no path for.
func (ex *exporter) countOmitted(tx depot.Transaction, f depot.TxFile) {
	ex.count(func(r *ExportResult) {
		r.LeftOut++
		r.LeftOutKinds[f.Object.Kind.String()]++
	})
	ex.event(EventLeftOut, f.Path,
		fmt.Sprintf("layout %s has no path for %s in build %d", ex.layout.Name(), f.Object.Kind, tx.Number), false)
}

// place is a file to write.
type place struct {
	path string
	file answer.Ranked
}

func (ex *exporter) role(p string) symfile.Role { return roleOf(ex.layout, p) }

// roleOf returns what a request for a path asks for.
func roleOf(l layout.Layout, p string) symfile.Role {
	if r, err := l.Parse(p); err == nil && len(r.Lookups) > 0 {
		return r.Lookups[0].Role
	}
	return symfile.AnyRole
}

// chosen is the best file for a key of a symbol store, and its transaction.
type chosen struct {
	answer.Ranked
	tx int64
}
