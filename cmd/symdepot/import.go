package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/term"
	"github.com/symdepot/symdepot/internal/tree"
	"github.com/symdepot/symdepot/internal/unpack"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
	"github.com/symdepot/symdepot/symstore"
)

type importCmd struct {
	txFlags
	Layout      string   `help:"How the tree is arranged: auto, symstore, symstore_index2, ssqp, breakpad, unified, gdb, lldb, debuginfod, slashsymbols, native or flat." default:"auto" placeholder:"LAYOUT"`
	PointerRoot []string `help:"Follow the pointers of a symbol store into this folder; with PREFIX= those that begin so (//server/share=/mnt/share); repeatable." placeholder:"[PREFIX=]DIR" sep:"none"`
	Origin      string   `help:"Address by which the depot remembers the tree. Default: its path here." placeholder:"ADDRESS"`
	DryRun      bool     `help:"Only say what would be imported." short:"n"`
	JSON        bool     `help:"Print one JSON object per file and transaction and a last one with the sums."`
	VerifyKey   string   `help:"For a bundle: the public key of who made it." placeholder:"FILE"`
	Unsigned    bool     `help:"For a bundle: take it without a signature."`
	Tree        string   `arg:"" help:"The folder, or a bundle."`
}

// Help is the long help text.
func (importCmd) Help() string {
	return `Takes a tree of symbol files over into the depot. Each transaction of a symbol store becomes one of ours,
with its product, version, comment and date; so does each bundle of a unified tree. Other files come in
transactions of up to 5000. What was imported before is passed over: an import that was interrupted goes on
where it was, and the same tree can be imported again and again.

Files are filed by what is in them. Those that stand under a key that is not theirs are reported.

  symdepot import /srv/symbols
  symdepot import --pointer-root '\\server\builds=/mnt/builds' --origin '\\server\symbols' /mnt/symbols
  symdepot import --dry-run --layout unified /srv/sentry
  symdepot import win.zip --verify-key corp.key.pub      a bundle: every byte is checked before the first is taken

Exit codes: 0 imported, or all was here already; 1 nothing there to import; 2 wrong command line; 3 failed,
or some transactions were left out; 4 depot damaged or newer; 130 interrupted: run it again.`
}

// Run imports the tree.
func (c importCmd) Run(a *app) error {
	if isFile(c.Tree) {
		return c.importBundle(a)
	}
	if c.VerifyKey != "" || c.Unsigned {
		return term.UsageError("--verify-key and --unsigned are for bundles; " + c.Tree + " is none")
	}
	lay, err := layout.ParseFolder(c.Layout)
	if err != nil {
		return term.UsageError(err.Error())
	}
	im, err := c.prepare(a, lay)
	if err != nil {
		return err
	}
	d, err := a.open(depot.Options{MustExist: c.DryRun})
	switch {
	case err == nil:
		defer d.Close()
	case c.DryRun && errors.Is(err, depot.ErrNoDepot):
		d = nil // looking makes no depot
	default:
		return err
	}
	im.adder = newAdder(a, d)
	im.jsonOn, im.dryRun = c.JSON, c.DryRun
	if c.JSON {
		im.json = term.NewJSONLines(a.stdout)
	}
	if err := im.run(); err != nil {
		return err
	}
	if err := im.report(); err != nil {
		return err
	}
	switch {
	case im.failed > 0:
		return fmt.Errorf("%s could not be read and was left out; import again", term.Count(im.failed, "transaction"))
	case im.added.Files+im.known.Files == 0 && im.before == 0:
		return term.ErrNo
	}
	return nil
}

// prepare looks at the tree.
func (c importCmd) prepare(a *app, lay layout.Layout) (*importer, error) {
	abs, err := filepath.Abs(c.Tree)
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
		return nil, term.UsageError(c.Tree + " is no folder; symdepot add takes files and archives")
	}
	im := &importer{dir: abs, store: c.Origin, info: c.info(), layout: lay, covered: map[string]bool{}, tried: map[blob.Ref]bool{}}
	if im.store == "" {
		im.store = filepath.ToSlash(abs)
	}
	im.store = strings.TrimRight(im.store, "/")
	if im.roots, err = pointerRoots(c.PointerRoot); err != nil {
		return nil, err
	}
	if im.layout == layout.None {
		im.layout, err = tree.Detect(a.ctx, abs)
	}
	return im, err
}

// importer takes a tree over. Its fields are owned by the walking goroutine,
// but for those that its adder guards.
type importer struct {
	*adder
	dir    string // of the tree, absolute
	store  string // its address
	layout layout.Layout
	info   depot.TxInfo // what transactions without words of their own say
	roots  []symstore.PointerRoot

	root     *os.Root         // of the tree
	symbols  *symstore.Store  // the tree, if it is a symbol store; else nil
	taken    map[string]int64 // our numbers of what was imported before, by theirs
	covered  map[string]bool  // folded name/key, or path, of what a transaction has
	imported int64            // transactions
	before   int64            // transactions, and files without one, that were here already
	failed   int64            // transactions that were left out

	wrongMu   sync.Mutex        // guards what follows
	tried     map[blob.Ref]bool // contents met in a dry run
	wrong     int64             // files under a key that is not theirs
	wrongSome []string          // the first of them
}

func (im *importer) run() error {
	var err error
	if im.root, err = os.OpenRoot(im.dir); err != nil {
		return err
	}
	defer im.root.Close()
	im.taken = map[string]int64{}
	if im.d != nil {
		if im.taken, err = im.d.Origins(im.a.ctx, im.store); err != nil {
			return err
		}
	}
	switch im.layout {
	case layout.SymStore, layout.Index2:
		if im.symbols, err = symstore.Open(im.dir, symstore.Options{ReadOnly: true, PointerRoots: im.roots}); err != nil {
			return err
		}
		defer im.symbols.Close()
		err = im.transactions()
	case layout.Unified:
		err = im.bundles()
	}
	if err != nil {
		return err
	}
	return im.loose()
}

// transactions imports those of a symbol store, oldest first.
func (im *importer) transactions() error {
	bar := term.NewProgress(im.a.stderr, "importing", -1)
	defer bar.Done()
	for u, err := range im.symbols.Walk(im.a.ctx) {
		if im.a.ctx.Err() != nil {
			return im.a.ctx.Err()
		}
		if err != nil {
			im.skip(im.store+"/000Admin", err.Error(), true)
		}
		for _, e := range u.Entries {
			im.covered[symfile.Fold(e.Name+"/"+e.Key)] = true
		}
		if u.ID == 0 || u.Deletes != 0 || len(u.Entries) == 0 {
			continue
		}
		if im.passed(u.ID.String()) {
			continue
		}
		info := im.info
		info.Product, info.Version, info.Comment, info.Time = u.Product, u.Version, u.Comment, u.Time
		info.Origin = &depot.Origin{Store: im.store, Number: u.ID.String(), Time: u.Time}
		done := map[string]bool{}
		err = im.transaction(info, func(take taker) error {
			return im.each(len(u.Entries), func(ctx context.Context, i int) error {
				return im.entry(ctx, im.symbols, take, u.ID, u.Entries[i])
			}, func(i int) bool {
				k := symfile.Fold(u.Entries[i].Name + "/" + u.Entries[i].Key)
				twice := done[k]
				done[k] = true
				bar.Set(im.bytes.Load())
				return !twice
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// entry imports what a store has under one key.
func (im *importer) entry(ctx context.Context, st *symstore.Store, take taker, id symstore.ID, e symstore.Entry) error {
	place := e.Name + "/" + e.Key
	f, err := openEntry(st, id, e)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, symstore.ErrPointer) || errors.Is(err, symstore.ErrDamaged) {
			im.skip(im.store+"/"+place, "transaction "+id.String()+" has it, the store has not: "+err.Error(), true)
			return nil
		}
		return readError{err}
	}
	defer f.Close()
	src := depot.Source{Path: e.Source, Name: e.Name}
	if src.Path == "" {
		src.Path = im.store + "/" + place + "/" + e.Name
	}
	return im.opened(ctx, take, f, src, place+"/"+e.Name)
}

// openEntry opens what a transaction put under a key: the file in either form,
// else what its pointer leads to.
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
	// The pointer on disk is that of the last transaction; this one may have
	// had another.
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

// transaction commits what fill takes, as one. One that turns out to be
// unreadable in parts is left out, to be imported another time.
func (im *importer) transaction(info depot.TxInfo, fill func(taker) error) error {
	name := info.Origin.Number
	if im.dryRun {
		if err := fill(im.try()); err != nil && !isReadError(err) {
			return err
		}
		im.imported++
		return nil
	}
	tx, err := im.d.Begin(im.a.ctx, info)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	err = fill(tx.Add)
	var n int64
	if err == nil {
		n, err = tx.Commit(im.a.ctx)
	}
	switch {
	case err == nil:
		im.imported++
		im.taken[name] = n
		return im.tell("imported", name, n, info)
	case errors.Is(err, depot.ErrEmpty):
		return im.tell("empty", name, 0, info)
	case errors.Is(err, depot.ErrTaken):
		im.before++ // another import was faster
		return im.tell("here already", name, 0, info)
	case isReadError(err) && im.a.ctx.Err() == nil:
		im.failed++
		im.skip(im.store+" "+name, "the transaction was left out: "+err.Error(), true)
		return nil
	}
	return err
}

// try finds out what a transaction would take.
func (im *importer) try() taker {
	type key struct {
		ref    blob.Ref
		object symfile.Object
	}
	var mu sync.Mutex
	once := map[key]bool{}
	return func(ctx context.Context, src depot.Source) ([]depot.Added, error) {
		got, err := depot.Try(ctx, im.d, src)
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

// passed reports whether a transaction of the tree was imported before.
func (im *importer) passed(number string) bool {
	ours, ok := im.taken[number]
	if ok {
		im.before++
		_ = im.tell("here already", number, ours, depot.TxInfo{})
	}
	return ok
}

func (im *importer) tell(event, number string, ours int64, info depot.TxInfo) error {
	if !im.jsonOn {
		return nil
	}
	im.mu.Lock()
	defer im.mu.Unlock()
	return im.json.Write(struct {
		Event       string `json:"event"`
		Origin      string `json:"origin"`
		Transaction int64  `json:"transaction,omitempty"`
		Product     string `json:"product,omitempty"`
		Version     string `json:"version,omitempty"`
	}{event, number, ours, info.Product, info.Version})
}

// opened imports an open file, which may be compressed. place is where it
// stands in the tree.
func (im *importer) opened(ctx context.Context, take taker, f *os.File, src depot.Source, place string) error {
	info, err := f.Stat()
	if err != nil {
		return readError{err}
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

// accept counts what was taken from a file, and looks whether it stood in its
// place.
func (im *importer) accept(path, place string, got []depot.Added) {
	var objects []symfile.Object
	for _, g := range got {
		objects = append(objects, g.Object.Object)
		if !g.Again {
			im.took(path, g)
		}
	}
	if !im.confirmed(place, objects) {
		im.misplaced(place, objects)
	}
}

// judge passes over a file that cannot be taken. Only an error that ends the
// transaction is returned.
func (im *importer) judge(ctx context.Context, path string, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, objfile.ErrNotSymbolFile):
		im.skip(path, strings.TrimPrefix(err.Error(), objfile.ErrNotSymbolFile.Error()+": "), false)
	case errors.Is(err, objfile.ErrBroken), errors.Is(err, depot.ErrNoID), errors.Is(err, depot.ErrChanged), errors.Is(err, unpack.ErrPacked):
		im.skip(path, err.Error(), true)
	default:
		return err
	}
	return nil
}

// confirmed reports whether the place of a file in the tree is one where its
// own ids would put it. Places that the layout does not know say nothing.
func (im *importer) confirmed(place string, objects []symfile.Object) bool {
	var req layout.Request
	var err error
	switch im.layout {
	case layout.Flat:
		return true
	case layout.SymStore, layout.Index2, layout.SSQP:
		if req, err = layout.Index2.Parse(place); err != nil {
			req, err = layout.SymStore.Parse(place)
		}
	default:
		req, err = im.layout.Parse(place)
	}
	if err != nil {
		return true
	}
	for _, l := range req.Lookups {
		if l.Unique && req.Name != "" {
			continue // the name says more
		}
		l.Role = symfile.AnyRole // trees file some under another role's name
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

// misplaced reports a file that stands under a key that is not its own.
func (im *importer) misplaced(place string, objects []symfile.Object) {
	var own []string
	for _, o := range objects {
		for _, l := range []layout.Layout{layout.SymStore, layout.BreakpadTree, layout.Unified} {
			if ps := l.Paths(o); len(ps) > 0 {
				own = append(own, ps[0])
				break
			}
		}
	}
	im.wrongMu.Lock()
	im.wrong++
	if len(im.wrongSome) < 20 {
		im.wrongSome = append(im.wrongSome, place+": it is "+strings.Join(own, ", "))
	}
	im.wrongMu.Unlock()
	if im.jsonOn {
		im.mu.Lock()
		defer im.mu.Unlock()
		_ = im.json.Write(struct {
			Event string   `json:"event"`
			Path  string   `json:"path"`
			Own   []string `json:"own"`
		}{"misplaced", place, own})
	}
}

// report says what was imported.
func (im *importer) report() error {
	if im.jsonOn {
		return im.json.Write(struct {
			Event     string `json:"event"`
			Tree      string `json:"tree"`
			Layout    string `json:"layout"`
			DryRun    bool   `json:"dry_run,omitempty"`
			Imported  int64  `json:"transactions"`
			Before    int64  `json:"here_already"`
			LeftOut   int64  `json:"left_out"`
			Added     tally  `json:"added"`
			Known     tally  `json:"known"`
			Skipped   int64  `json:"skipped"`
			Misplaced int64  `json:"misplaced"`
		}{"done", im.store, im.layout.Name(), im.dryRun, im.imported, im.before, im.failed, im.added, im.known, im.skipped, im.wrong})
	}
	w := im.a.stdout
	word := "imported"
	if im.dryRun {
		word = "would import"
	}
	fmt.Fprintf(w, "%s %s of %s (%s)\n", word, term.Count(im.imported, "transaction"), term.Printable(im.store), im.layout)
	if im.before > 0 {
		fmt.Fprintf(w, "  passed over    %d that were imported before\n", im.before)
	}
	im.tallies(w)
	if im.wrong > 0 {
		fmt.Fprintf(w, "  misplaced      %s, kept under the ids that are in them\n", term.Count(im.wrong, "file"))
		for _, s := range im.wrongSome {
			fmt.Fprintf(w, "    %s\n", term.Printable(s))
		}
	}
	return nil
}
