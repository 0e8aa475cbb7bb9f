package importexport

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/files/scan"
	"github.com/symdepot/symdepot/internal/files/unpack"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
	"github.com/symdepot/symdepot/symstore"
)

// ImportOptions are the options of an import.
type ImportOptions struct {
	// Info describes the transactions that have no words of their own.
	Info depot.TxInfo
	// Layout is the layout of the tree; the zero value detects it.
	Layout layout.Layout
	// PointerRoots are the folders into which the pointers of a symbol store
	// are followed.
	PointerRoots []symstore.PointerRoot
	// Origin is the address under which the depot remembers the tree; empty is
	// its path.
	Origin string
	// DryRun imports nothing and only reports what would be imported.
	DryRun   bool
	Event    func(Event)
	Progress Progress
}

// ImportResult is the result of an import.
type ImportResult struct {
	Counts
	Store  string // address of the tree
	Layout layout.Layout
	// Imported counts transactions; Before counts transactions, and files
	// without one, that were imported earlier; LeftOut counts transactions that
	// could not be read.
	Imported, Before, LeftOut int64
	// Misplaced counts files under paths that their ids do not belong to;
	// MisplacedSome describes the first of them.
	Misplaced     int64
	MisplacedSome []string
}

// importer imports one tree. Its fields belong to the walking goroutine, except
// those that its adder guards.
type importer struct {
	*adder
	iopt   ImportOptions
	ctx    context.Context // of the whole import
	dir    string          // of the tree, absolute
	store  string          // its address
	layout layout.Layout

	root     *os.Root         // of the tree
	symbols  *symstore.Store  // the tree, if it is a symbol store; else nil
	taken    map[string]int64 // numbers in the depot of earlier imported transactions, by their number in the tree
	covered  map[string]bool  // folded name/key, or path, of the files of transactions
	imported int64            // transactions
	before   int64            // transactions, and files without one, that were imported earlier
	failed   int64            // transactions that could not be read

	earlier earlierObjects // of files without a transaction

	wrongMu   sync.Mutex        // guards the fields below
	tried     map[blob.Ref]bool // contents met in a dry run
	wrong     int64             // files under a key that is not theirs
	wrongSome []string          // the first of them
}

// transaction commits the files of fill as one transaction. If one of them cannot
// be read, the transaction is omitted, and a later import tries again.
func (im *importer) transaction(info depot.TxInfo, fill func(taker) error) error {
	name := info.Origin.Number
	if im.opt.DryRun {
		return im.tryTransaction(name, fill)
	}
	tx, err := im.d.Begin(im.ctx, info)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	err = fill(tx.Add)
	var n int64
	if err == nil {
		n, err = tx.Commit(im.ctx)
	}
	switch {
	case err == nil:
		im.imported++
		im.taken[name] = n
		im.report(EventImported, name, n, info)
	case errors.Is(err, depot.ErrEmpty):
		im.report(EventEmpty, name, 0, info)
	case errors.Is(err, depot.ErrImported):
		im.before++ // by an import that runs at the same time
		im.report(EventBefore, name, 0, info)
	default:
		return im.omitted(name, err)
	}
	return nil
}

// omitted counts a transaction that cannot be read. It returns only errors that end the
// import.
func (im *importer) omitted(name string, err error) error {
	if !scan.IsReadError(err) || im.ctx.Err() != nil {
		return err
	}
	im.failed++
	im.countSkipped(im.store+" "+name, "the build was omitted: "+err.Error(), true)
	return nil
}

// tryTransaction counts a transaction that would be imported: one of which some file would
// be added.
func (im *importer) tryTransaction(name string, fill func(taker) error) error {
	try := im.try()
	var some atomic.Bool
	err := fill(func(ctx context.Context, src depot.Source) ([]depot.Added, error) {
		got, err := try(ctx, src)
		if len(got) > 0 {
			some.Store(true)
		}
		return got, err
	})
	if err != nil {
		return im.omitted(name, err)
	}
	if some.Load() {
		im.imported++
	}
	return nil
}

// try returns a taker that only reports what a transaction would add.
func (im *importer) try() taker {
	type key struct {
		ref    blob.Ref
		object symfile.Object
	}
	var mu sync.Mutex
	once := map[key]bool{}
	return func(ctx context.Context, src depot.Source) ([]depot.Added, error) {
		got, err := depot.DryRun(ctx, im.d, src)
		mu.Lock()
		defer mu.Unlock()
		for i := range got {
			k := key{got[i].Ref, got[i].Object.Object}
			got[i].Again = once[k]
			once[k] = true
		}
		im.wrongMu.Lock()
		defer im.wrongMu.Unlock()
		for i := range got {
			got[i].Known = got[i].Known || im.tried[got[i].Ref]
			im.tried[got[i].Ref] = true
		}
		return got, err
	}
}

// isImported reports whether a transaction of the tree was imported before.
func (im *importer) isImported(number string) bool {
	ours, ok := im.taken[number]
	if ok {
		im.before++
		im.report(EventBefore, number, ours, depot.TxInfo{})
	}
	return ok
}

// report reports an event of a transaction.
func (im *importer) report(kind EventKind, number string, ours int64, info depot.TxInfo) {
	im.mu.Lock()
	defer im.mu.Unlock()
	im.event(Event{Kind: kind, Origin: number, Number: ours, Product: info.Product, Version: info.Version})
}

// countSkipped counts a file that is not imported.
func (im *importer) countSkipped(path, reason string, notable bool) {
	im.skip(Event{Path: path, Detail: reason, Notable: notable})
}

// opened imports an open file, which may be compressed. place is its path in the
// tree.
func (im *importer) opened(ctx context.Context, take taker, f *os.File, src depot.Source, place string) error {
	info, err := f.Stat()
	if err != nil {
		return scan.ReadError{Err: err}
	}
	src.ModTime = info.ModTime()
	var content depot.Content = openContent{f, info}
	if unpack.Packed(f) {
		temp, drop, err := unpacked(ctx, f, info.Size())
		if err != nil {
			return im.judge(ctx, src.Path, err)
		}
		defer drop()
		content = temp
	}
	src.Content = content
	got, err := take(ctx, src)
	if err != nil {
		return im.judge(ctx, src.Path, err)
	}
	im.accept(src.Path, place, got)
	return nil
}

// accept counts the objects of a file, and checks whether its path matches their
// ids.
func (im *importer) accept(path, place string, got []depot.Added) {
	var objects []symfile.Object
	for _, g := range got {
		objects = append(objects, g.Object.Object)
		if !g.Again {
			im.countAdded(path, g)
		}
	}
	if !im.placeMatches(place, objects) {
		im.reportMisplaced(place, objects)
	}
}

// judge skips a file that cannot be added. It returns only errors that end the
// transaction.
func (im *importer) judge(ctx context.Context, path string, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errImported):
		im.mu.Lock()
		im.before++
		im.mu.Unlock()
	case errors.Is(err, objfile.ErrNotSymbolFile):
		im.countSkipped(path, notSymbolText(err), false)
	case errors.Is(err, objfile.ErrBroken), errors.Is(err, depot.ErrNoID), errors.Is(err, depot.ErrLinks),
		errors.Is(err, depot.ErrChanged), errors.Is(err, unpack.ErrPacked):
		im.countSkipped(path, err.Error(), true)
	default:
		return err
	}
	return nil
}

// placeMatches reports whether the place of a file in the tree is one where its
// own ids would put it. Paths outside the layout are not judged.
func (im *importer) placeMatches(place string, objects []symfile.Object) bool {
	req, err := im.layout.ParseFile(place)
	if err != nil {
		return true
	}
	for _, l := range req.Lookups {
		if l.Unique && req.Name != "" {
			continue // the name is more specific
		}
		l.Role = symfile.AnyRole // in trees some files have the path of a different role
		for _, o := range objects {
			for _, a := range o.Aliases() {
				if l.Matches(a) {
					return true
				}
			}
		}
	}
	return false
}

// reportMisplaced reports a file under a path that does not match its ids.
func (im *importer) reportMisplaced(place string, objects []symfile.Object) {
	var own []string
	for _, o := range objects {
		if p := layout.Path(o); p != "" {
			own = append(own, p)
		}
	}
	im.wrongMu.Lock()
	im.wrong++
	if len(im.wrongSome) < 20 {
		im.wrongSome = append(im.wrongSome, place+": it is "+strings.Join(own, ", "))
	}
	im.wrongMu.Unlock()
	im.mu.Lock()
	defer im.mu.Unlock()
	im.event(Event{Kind: EventMisplaced, Path: place, Own: own})
}
