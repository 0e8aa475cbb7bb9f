package exchange

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/scan"
	"github.com/symdepot/symdepot/internal/term"
	"github.com/symdepot/symdepot/internal/tree"
	"github.com/symdepot/symdepot/internal/unpack"
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

// Import is an import of one tree: a folder or a bucket.
type Import struct {
	im     *importer
	bucket *copier // nil for a folder
}

// NewImport prepares to import a folder: it detects the layout.
func NewImport(ctx context.Context, folder string, opt ImportOptions) (*Import, error) {
	abs, err := filepath.Abs(folder)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(abs)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, term.UsageError(folder + " is not a folder; symdepot add takes files and archives")
	}
	im := &importer{
		adder: newAdder(nil, AddOptions{DryRun: opt.DryRun, SkipUnreadable: true, Event: opt.Event, Progress: opt.Progress}),
		iopt:  opt, ctx: ctx, dir: abs, store: opt.Origin, layout: opt.Layout, covered: map[string]bool{}, tried: map[blob.Ref]bool{},
	}
	if im.store == "" {
		im.store = filepath.ToSlash(abs)
	}
	im.store = strings.TrimRight(im.store, "/")
	if im.layout == layout.None {
		im.layout, err = tree.Detect(ctx, abs)
	}
	return &Import{im: im}, err
}

// Run imports the tree into a depot, which may be nil in a dry run.
func (i *Import) Run(d *depot.Depot) (ImportResult, error) {
	im := i.im
	im.d = d
	run := im.run
	if i.bucket != nil {
		run = i.bucket.run
	}
	err := run()
	return ImportResult{
		Counts: im.counts, Store: im.store, Layout: im.layout, Imported: im.imported, Before: im.before, LeftOut: im.failed,
		Misplaced: im.wrong, MisplacedSome: im.wrongSome,
	}, err
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

func (im *importer) run() error {
	err := im.open()
	if err != nil {
		return err
	}
	defer im.root.Close()
	switch im.layout.Records() {
	case layout.SymStoreRecords:
		if im.symbols, err = symstore.Open(im.dir, symstore.Options{ReadOnly: true, PointerRoots: im.iopt.PointerRoots}); err != nil {
			return err
		}
		defer im.symbols.Close()
		err = im.transactions()
	case layout.SymsorterRecords:
		err = im.bundles()
	}
	if err != nil {
		return err
	}
	return im.importLoose()
}

// transactions imports those of a symbol store, oldest first.
func (im *importer) transactions() error {
	for u, err := range im.symbols.Walk(im.ctx) {
		if im.ctx.Err() != nil {
			return im.ctx.Err()
		}
		if err != nil {
			im.countSkipped(im.store+"/000Admin", err.Error(), true)
		}
		for _, e := range u.Entries {
			im.covered[foldedKey(e)] = true
		}
		if u.ID == 0 || u.Deletes != 0 || len(u.Entries) == 0 {
			continue
		}
		info := im.iopt.Info
		info.Product, info.Version, info.Comment, info.Time = u.Product, u.Version, u.Comment, u.Time
		info.Origin = &depot.Origin{Store: im.store, Number: u.ID.String(), Time: u.Time}
		if im.isImported(u.ID.String()) {
			err = im.complete(u, info)
		} else {
			err = im.transaction(info, func(take taker) error { return im.listed(take, u.ID, u.Entries, map[string]bool{}) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// listed imports the files that a transaction of a symbol store lists, without those whose
// keys are in done.
func (im *importer) listed(take taker, id symstore.ID, list []symstore.Entry, done map[string]bool) error {
	return im.each(len(list), func(ctx context.Context, i int) error {
		return im.entry(ctx, im.symbols, take, id, list[i])
	}, func(i int) bool {
		k := foldedKey(list[i])
		twice := done[k]
		done[k] = true
		im.progress()
		return !twice
	})
}

// foldedKey returns the key of an entry as it is compared.
func foldedKey(e symstore.Entry) string { return symfile.Fold(e.Name + "/" + e.Key) }

// entry imports the file under one key of a store.
func (im *importer) entry(ctx context.Context, st *symstore.Store, take taker, id symstore.ID, e symstore.Entry) error {
	place := e.Name + "/" + e.Key
	f, err := openEntry(st, id, e)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, symstore.ErrPointer) || errors.Is(err, symstore.ErrDamaged) {
			im.countSkipped(im.store+"/"+place,
				"transaction "+id.String()+" lists a file that the store does not have: "+err.Error()+pointerHint(err), true)
			return nil
		}
		return scan.ReadError{Err: err}
	}
	defer f.Close()
	src := depot.Source{Path: im.sourceOf(e), Name: e.Name}
	return im.opened(ctx, take, f, src, place+"/"+e.Name)
}

// sourceOf returns the path under which the depot records the file of an entry.
func (im *importer) sourceOf(e symstore.Entry) string {
	if e.Source != "" {
		return e.Source
	}
	return im.store + "/" + e.Name + "/" + e.Key + "/" + e.Name
}

// openEntry opens the file that a transaction stored under a key, plain or
// compressed, else the target of its pointer.
func openEntry(st *symstore.Store, id symstore.ID, e symstore.Entry) (*os.File, error) {
	found, err := st.Find(e.Name, e.Key)
	if err != nil {
		return nil, err
	}
	for _, p := range []string{found.Plain, found.Compressed} {
		if p != "" {
			return st.Open(e.Name, e.Key, symfile.BaseName(p))
		}
	}
	// The pointer on disk is that of the last transaction, and may differ from the
	// pointer of this transaction.
	for _, r := range found.Refs {
		if r.ID == id && r.Pointer && r.Path != "" {
			own := *found
			own.Target = symstore.Pointer{Target: r.Path}
			if f, err := st.Follow(&own); err == nil {
				return f, nil
			}
		}
	}
	return st.Follow(found)
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
	im.countSkipped(im.store+" "+name, "the transaction was omitted: "+err.Error(), true)
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
