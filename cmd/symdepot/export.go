package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/durable"
	"github.com/symdepot/symdepot/internal/term"
	"github.com/symdepot/symdepot/internal/transcode"
	"github.com/symdepot/symdepot/internal/unpack"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

type exportCmd struct {
	Dir      string  `arg:"" help:"The folder to write to; it is made if it is not there."`
	Layout   string  `help:"How to arrange it: symstore, symstore_index2, ssqp, breakpad, unified, debuginfod, gdb, lldb, native or slashsymbols." required:"" placeholder:"LAYOUT"`
	Compress bool    `help:"Compress: cabinets in symstore, ssqp and native, zstd in unified." short:"z"`
	Tx       []int64 `help:"Only this transaction; repeatable." placeholder:"N"`
	Product  string  `help:"Only transactions of this product." short:"p"`
	All      bool    `help:"Put ELF, Mach-O and WASM files into a symstore tree too."`
	Lower    bool    `help:"Write all paths in lower case, for servers that tell cases apart behind clients that do not."`
	DryRun   bool    `help:"Only say what would be written." short:"n"`
	JSON     bool    `help:"Print one JSON object per file and a last one with the sums."`
}

// Help is the long help text.
func (exportCmd) Help() string {
	return `Writes what the depot holds as a tree of files, for a plain web server, a bucket or a share. A symstore tree
gets its 000Admin with all transactions and their dates, a unified one the side files of Sentry's symsorter.
Each file appears whole or not at all. What is there and equal is left alone, so that an export can be
repeated and, when it was interrupted, goes on where it was. Nothing is deleted.

  symdepot export --layout symstore --compress /srv/symbols
  symdepot export --layout unified --lower --product Game /srv/sentry

Exit codes: 0 written, 1 there is nothing to write, 2 wrong command line, 3 failed, or some files were left out;
4 no depot, 130 interrupted: run it again.`
}

// Run exports.
func (c exportCmd) Run(a *app) error {
	l, ok := layout.ByName(c.Layout)
	if !ok {
		return term.UsageError(fmt.Sprintf("no layout %q", c.Layout))
	}
	if c.Compress && packingOf(l) == packNone {
		return term.UsageError("files of layout " + c.Layout + " cannot be compressed: its clients do not expect it")
	}
	d, err := a.open(depot.Options{MustExist: true})
	if err != nil {
		return err
	}
	defer d.Close()
	ex := &exporter{a: a, d: d, cmd: c, layout: l}
	if c.JSON {
		ex.json = term.NewJSONLines(a.stdout)
	}
	if ex.txs, err = ex.selected(); err != nil {
		return err
	}
	if len(ex.txs) == 0 {
		fmt.Fprintln(a.stderr, "symdepot: there is nothing to export")
		return term.ErrNo
	}
	if !c.DryRun {
		if err := durable.MkdirAll(c.Dir, 0o777); err != nil {
			return err
		}
	}
	switch l.Name() {
	case layout.SymStore.Name(), layout.Index2.Name():
		err = ex.symstore()
	default:
		err = ex.tree()
	}
	if err != nil {
		return err
	}
	if err := ex.report(); err != nil {
		return err
	}
	if ex.failed > 0 {
		return fmt.Errorf("%s could not be written", term.Count(ex.failed, "file"))
	}
	return nil
}

// How a layout's clients take compressed files.
type packing uint8

const (
	packNone packing = iota
	packCab          // under a name that ends in an underscore
	packZstd         // under the plain name
)

func packingOf(l layout.Layout) packing {
	switch l.Name() {
	case layout.SymStore.Name(), layout.Index2.Name(), layout.SSQP.Name(), layout.Native.Name():
		return packCab
	case layout.Unified.Name():
		return packZstd
	}
	return packNone
}

// exporter writes one tree. It is used by one goroutine.
type exporter struct {
	a      *app
	d      *depot.Depot
	cmd    exportCmd
	layout layout.Layout
	json   term.JSONLines
	txs    []depot.Transaction // oldest first
	stored map[string]blob.Ref // in a symstore tree, by folded name/key

	wrote, same tally
	replaced    int64 // files of which other bytes were there
	ignored     int64 // objects without a place in the layout
	shadowed    int64 // objects that lost their place to a better one
	before      int64 // transactions that were there already
	collisions  int64 // paths that differ in case only, with different content
	failed      int64
	some        []string // what people should hear of, the first of it
}

// selected lists the transactions to export, oldest first.
func (ex *exporter) selected() ([]depot.Transaction, error) {
	if len(ex.cmd.Tx) == 0 {
		list, err := ex.d.List(ex.a.ctx, depot.Scope{}, depot.ListFilter{Product: ex.cmd.Product})
		slices.Reverse(list)
		return list, err
	}
	var list []depot.Transaction
	for _, n := range ex.cmd.Tx {
		tx, err := ex.d.Transaction(ex.a.ctx, n)
		if err != nil {
			return nil, noSuchTx(ex.a.stderr, n, err)
		}
		if !tx.Removed.IsZero() {
			fmt.Fprintf(ex.a.stderr, "symdepot: transaction %d was removed\n", n)
			return nil, term.ErrNo
		}
		if ex.cmd.Product == "" || ex.cmd.Product == tx.Product {
			list = append(list, tx)
		}
	}
	slices.SortFunc(list, func(a, b depot.Transaction) int { return int(a.Number - b.Number) })
	return slices.CompactFunc(list, func(a, b depot.Transaction) bool { return a.Number == b.Number }), nil
}

// event tells of one path; people hear of it in the end if it is notable.
func (ex *exporter) event(event, path, detail string, notable bool) {
	if notable && len(ex.some) < 20 {
		ex.some = append(ex.some, path+": "+detail)
	}
	if ex.cmd.JSON {
		_ = ex.json.Write(struct {
			Event  string `json:"event"`
			Path   string `json:"path"`
			Detail string `json:"detail,omitempty"`
		}{event, path, detail})
	}
}

func (ex *exporter) report() error {
	if ex.cmd.JSON {
		return ex.json.Write(struct {
			Event        string `json:"event"`
			DryRun       bool   `json:"dry_run,omitempty"`
			Transactions int    `json:"transactions"`
			Before       int64  `json:"there_already,omitempty"`
			Wrote        tally  `json:"written"`
			Same         tally  `json:"same"`
			Replaced     int64  `json:"replaced"`
			Ignored      int64  `json:"ignored"`
			Shadowed     int64  `json:"shadowed"`
			Collisions   int64  `json:"collisions"`
			Failed       int64  `json:"failed"`
		}{"done", ex.cmd.DryRun, len(ex.txs), ex.before, ex.wrote, ex.same, ex.replaced, ex.ignored, ex.shadowed, ex.collisions, ex.failed})
	}
	w := ex.a.stdout
	word := "exported"
	if ex.cmd.DryRun {
		word = "would export"
	}
	fmt.Fprintf(w, "%s %s to %s (%s)\n", word, term.Count(int64(len(ex.txs)), "transaction"), term.Printable(ex.cmd.Dir), ex.layout.Name())
	if ex.before > 0 {
		fmt.Fprintf(w, "  there already  %s\n", term.Count(ex.before, "transaction"))
	}
	fmt.Fprintf(w, "  written        %s, %s\n", term.Count(ex.wrote.Files, "file"), term.Size(ex.wrote.Bytes))
	for _, l := range []struct {
		n    int64
		text string
	}{
		{ex.same.Files, "  the same       %s left alone\n"}, {ex.replaced, "  replaced       %s of other content\n"},
		{ex.shadowed, "  better ones    %s passed over for a better one\n"}, {ex.ignored, "  no place       %s that the layout does not have\n"},
		{ex.collisions, "  collisions     %s that differ from another path in case only\n"}, {ex.failed, "  failed         %s\n"},
	} {
		if l.n > 0 {
			fmt.Fprintf(w, l.text, term.Count(l.n, "file"))
		}
	}
	for _, s := range ex.some {
		fmt.Fprintf(w, "    %s\n", term.Printable(s))
	}
	return nil
}

// place is a file of the tree to be.
type place struct {
	path string
	file depot.Ranked
}

// plan finds out what stands where. Of several objects of one path the one
// stays that the depot would answer with.
func (ex *exporter) plan() ([]*place, error) {
	byPath := map[string]*place{}
	var list []*place
	for _, tx := range ex.txs {
		err := ex.d.Files(ex.a.ctx, tx.Number, func(f depot.TxFile) error {
			paths := ex.layout.Paths(f.Object)
			if len(paths) == 0 {
				ex.ignored++
			}
			r := depot.Ranked{TxFile: f, Added: tx.Time}
			for _, p := range paths {
				if ex.cmd.Lower {
					p = symfile.Fold(p)
				}
				have := byPath[p]
				if have == nil {
					byPath[p] = &place{p, r}
					list = append(list, byPath[p])
					continue
				}
				if have.file.Ref == f.Ref {
					continue
				}
				ex.shadowed++
				if depot.Better(r, have.file, ex.role(p)) {
					have.file = r
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(list, func(a, b *place) int { return strings.Compare(a.path, b.path) })
	return ex.caseSafe(list)
}

func (ex *exporter) role(p string) symfile.Role {
	if r, err := ex.layout.Parse(p); err == nil && len(r.Lookups) > 0 {
		return r.Lookups[0].Role
	}
	return symfile.AnyRole
}

// caseSafe finds paths that differ in case only. Where the disk takes them for
// one, only the better one is written.
func (ex *exporter) caseSafe(list []*place) ([]*place, error) {
	caseless, err := ex.caseless()
	if err != nil {
		return nil, err
	}
	folded := map[string]*place{}
	var keep []*place
	for _, p := range list {
		k := symfile.Fold(p.path)
		have := folded[k]
		if have == nil {
			folded[k] = p
			keep = append(keep, p)
			continue
		}
		if have.file.Ref != p.file.Ref {
			ex.collisions++
			ex.event("collision", p.path, "other content than "+have.path, true)
		}
		if !caseless {
			keep = append(keep, p)
		} else if have.file.Ref != p.file.Ref && depot.Better(p.file, have.file, ex.role(p.path)) {
			have.file = p.file
		}
	}
	return keep, nil
}

// caseless reports whether the disk takes names that differ in case for one.
func (ex *exporter) caseless() (bool, error) {
	if ex.cmd.DryRun {
		return false, nil
	}
	dir, err := os.MkdirTemp(ex.cmd.Dir, ".symdepot-Aa")
	if err != nil {
		return false, err
	}
	defer func() { _ = os.Remove(dir) }()
	_, err = os.Stat(filepath.Join(filepath.Dir(dir), strings.ToLower(filepath.Base(dir))))
	return err == nil, nil
}

// tree writes a layout without records of its own.
func (ex *exporter) tree() error {
	list, err := ex.plan()
	if err != nil {
		return err
	}
	var total int64
	for _, p := range list {
		total += p.file.Size
	}
	if ex.cmd.DryRun {
		ex.wrote = tally{int64(len(list)), total}
		return nil
	}
	w, err := newTreeWriter(ex.cmd.Dir)
	if err != nil {
		return err
	}
	defer w.close()
	bar := term.NewProgress(ex.a.stderr, "exporting", total)
	defer bar.Done()
	var done int64
	for _, p := range list {
		if err := ex.file(w, p); err != nil {
			return err
		}
		done += p.file.Size
		bar.Set(done)
	}
	if ex.layout.Name() == layout.Unified.Name() {
		if err := ex.sideFiles(w, list); err != nil {
			return err
		}
	}
	return w.flush()
}

// file writes one file, unless it is there.
func (ex *exporter) file(w *treeWriter, p *place) error {
	if err := ex.a.ctx.Err(); err != nil {
		return err
	}
	src, err := ex.d.Content(ex.a.ctx, p.file.Ref)
	if err != nil {
		return err
	}
	defer src.Close()
	name, how := p.path, packNone
	if ex.cmd.Compress {
		how = packingOf(ex.layout)
	}
	if how == packCab {
		switch p.file.Object.Kind {
		case symfile.PE, symfile.PDB, symfile.PDB20, symfile.DBG, symfile.PortablePDB:
			name = layout.CabinetName(name)
		default:
			how = packNone
		}
	}
	if _, err := filepath.Localize(name); err != nil {
		ex.failed++
		ex.event("failed", name, "not a path on this system", true)
		return nil
	}
	there, equal := w.has(ex.a.ctx, name, src, how)
	if equal {
		ex.same.Files++
		ex.same.Bytes += src.Size
		return nil
	}
	in, packed, err := ex.pack(src, p, how)
	if errors.Is(err, transcode.ErrTooLarge) {
		// Stored plainly: a client asks for that name too.
		name, packed = p.path, func() {}
		in, err = io.NewSectionReader(src, 0, src.Size), nil
		if there, equal = w.has(ex.a.ctx, name, src, packNone); equal {
			ex.same.Files++
			ex.same.Bytes += src.Size
			return nil
		}
	}
	if err != nil {
		return err
	}
	defer packed()
	n, err := w.put(ex.a.ctx, name, in)
	if errors.Is(err, errInTheWay) {
		ex.failed++
		ex.event("failed", name, err.Error(), true)
		return nil
	}
	if err != nil {
		return err
	}
	if there {
		ex.replaced++
		ex.event("replaced", name, "other bytes were there", false)
	}
	ex.wrote.Files++
	ex.wrote.Bytes += n
	ex.event("written", name, "", false)
	return nil
}

// pack returns the bytes to write.
func (ex *exporter) pack(src *depot.File, p *place, how packing) (io.Reader, func(), error) {
	plain := io.NewSectionReader(src, 0, src.Size)
	switch how {
	case packZstd:
		pr, pw := io.Pipe()
		go func() { pw.CloseWithError(transcode.Zstd.Compress(ex.a.ctx, pw, plain)) }()
		return pr, func() { _ = pr.Close() }, nil
	case packCab:
		temp, err := os.CreateTemp("", "symdepot-*")
		if err != nil {
			return nil, nil, err
		}
		drop := func() {
			_ = temp.Close()
			_ = os.Remove(temp.Name())
		}
		n, err := transcode.Cabinet(ex.a.ctx, temp, transcode.Source{ReaderAt: src, Size: src.Size, Name: p.file.Object.Name, Time: p.file.Added})
		if err != nil {
			drop()
			return nil, nil, err
		}
		return io.NewSectionReader(temp, 0, n), drop, nil
	}
	return plain, func() {}, nil
}

// Bounds of what becomes durable in one go.
const (
	flushFiles = 256
	flushBytes = 256 << 20
)

// errInTheWay: something stands where a file shall go that cannot be replaced.
var errInTheWay = errors.New("a folder or a link is in the way")

// treeWriter writes files below a folder, each whole or not at all. It never
// leaves the folder.
type treeWriter struct {
	tree  *durable.Tree
	group *durable.Group
	files int
	bytes int64
}

func newTreeWriter(dir string) (*treeWriter, error) {
	t, err := durable.OpenTree(dir)
	if err != nil {
		return nil, err
	}
	return &treeWriter{tree: t, group: t.NewGroup()}, nil
}

// close drops what was not flushed.
func (w *treeWriter) close() {
	w.group.Abort()
	_ = w.tree.Close()
}

// flush makes all files visible that were put so far.
func (w *treeWriter) flush() error {
	err := w.group.Commit()
	w.group, w.files, w.bytes = w.tree.NewGroup(), 0, 0
	return err
}

// has reports whether a file is there, and whether it is the same as src, once
// it is unpacked.
func (w *treeWriter) has(ctx context.Context, name string, src *depot.File, how packing) (there, equal bool) {
	info, err := w.tree.Root().Lstat(name)
	if err != nil {
		return false, false
	}
	if !info.Mode().IsRegular() || how == packNone && info.Size() != src.Size {
		return true, false
	}
	f, err := w.tree.Root().Open(name)
	if err != nil {
		return true, false
	}
	defer f.Close()
	h := sha256.New()
	switch {
	case how == packNone:
		_, err = io.Copy(h, ctxReader{ctx, f})
	case unpack.Packed(f):
		_, err = unpack.File(ctx, h, f, info.Size(), src.Size)
	default:
		return true, false
	}
	return true, err == nil && blob.Ref(h.Sum(nil)) == src.Ref
}

// ctxReader ends with the context.
type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (c ctxReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// put writes a file. It is visible after the next flush.
func (w *treeWriter) put(ctx context.Context, name string, r io.Reader) (int64, error) {
	if info, err := w.tree.Root().Lstat(name); err == nil && !info.Mode().IsRegular() {
		return 0, errInTheWay
	}
	dir := path.Dir(name)
	if err := w.tree.Root().MkdirAll(dir, 0o777); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return 0, fmt.Errorf("%w: %w", errInTheWay, err)
		}
		return 0, err
	}
	f, err := w.tree.Create(dir, 0o666)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(f, ctxReader{ctx, r})
	if err != nil {
		f.Abort()
		return 0, err
	}
	w.group.Add(f, name)
	w.files++
	w.bytes += n
	if w.files >= flushFiles || w.bytes >= flushBytes {
		return n, w.flush()
	}
	return n, nil
}

// small writes a small file unless it is there with the same bytes.
func (w *treeWriter) small(ctx context.Context, name string, data []byte) error {
	if have, err := fs.ReadFile(w.tree.Root().FS(), name); err == nil && bytes.Equal(have, data) {
		return nil
	}
	_, err := w.put(ctx, name, bytes.NewReader(data))
	return err
}
