package importexport

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"fmt"
	"slices"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/files/scan"
	"github.com/symdepot/symdepot/internal/remote/tree"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/internal/store/bucket"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
	"github.com/symdepot/symdepot/symstore"
)

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
		return nil, vanished(folder, err)
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
				"build "+id.String()+" lists a file that the store does not have: "+err.Error()+pointerHint(err), true)
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

// complete imports, as a transaction of their own, the files of a transaction of a symbol
// store that the earlier imports of the transaction skipped: the store did not have them,
// or they were damaged.
func (im *importer) complete(u symstore.Upload, info depot.TxInfo) error {
	have, paths := newEarlierObjects(), map[string]bool{}
	name := info.Origin.Number
	for n := 1; im.taken[name] != 0; n++ {
		err := im.d.Files(im.ctx, im.taken[name], func(f depot.TxFile) error {
			paths[f.Path] = true
			have.add(f)
			return nil
		})
		if err != nil {
			return err
		}
		name = fmt.Sprintf("%s rest %d", info.Origin.Number, n)
	}
	done := map[string]bool{}
	for _, e := range u.Entries {
		if paths[im.sourceOf(e)] {
			done[foldedKey(e)] = true
		}
	}
	if !slices.ContainsFunc(u.Entries, func(e symstore.Entry) bool { return !done[foldedKey(e)] }) {
		return nil
	}
	info.Origin.Number = name
	return im.transaction(info, func(take taker) error {
		return im.listed(im.newOnly(take, have), u.ID, u.Entries, done)
	})
}

// NewBucketImport prepares to import a bucket, or the part of it below a prefix. Objects
// are copied to a temporary folder, and leave it when they are imported: up to 5000 of
// them at once, or 4 GiB, and eight times as much of one folder. The records of a symbol store or of symsorter name files
// anywhere, so a bucket that has some is copied as a whole. The bucket stays open.
func NewBucketImport(ctx context.Context, b bucket.Bucket, opt ImportOptions) (*Import, error) {
	im := &importer{
		adder: newAdder(nil, AddOptions{DryRun: opt.DryRun, SkipUnreadable: true, Event: opt.Event, Progress: opt.Progress}),
		iopt:  opt, ctx: ctx, store: opt.Origin, layout: opt.Layout, covered: map[string]bool{}, tried: map[blob.Ref]bool{},
	}
	if im.store == "" {
		im.store, _, _ = strings.Cut(b.Name(), "?")
	}
	im.store = strings.TrimRight(im.store, "/")
	c := &copier{im: im, b: b, most: looseFiles}
	return &Import{im: im, bucket: c}, c.detect()
}
