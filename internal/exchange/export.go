package exchange

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
	"sync"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/ctxio"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/durable"
	"github.com/symdepot/symdepot/internal/transcode"
	"github.com/symdepot/symdepot/internal/unpack"
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
	// LeftOutKinds counts the left out objects by kind.
	LeftOutKinds map[string]int64
	// Some describes the first notable files.
	Some []string
}

// Compresses reports whether clients of a layout expect compressed files.
func Compresses(l layout.Layout) bool { return l.Packing() != layout.PackNone }

// Export writes the files of transactions, the oldest first, as a tree.
func Export(ctx context.Context, d *depot.Depot, txs []depot.Transaction, dir string, opt ExportOptions) (ExportResult, error) {
	ex := &exporter{ctx: ctx, d: d, dir: dir, opt: opt, layout: opt.Layout, txs: txs}
	ex.result.Transactions = len(txs)
	ex.result.LeftOutKinds = map[string]int64{}
	if !opt.DryRun {
		if err := durable.MkdirAll(dir, 0o777); err != nil {
			return ex.result, err
		}
	}
	var err error
	switch opt.Layout.Records() {
	case layout.SymStoreRecords:
		err = ex.symstore()
	default:
		err = ex.tree()
	}
	return ex.result, err
}

// exporter writes one tree. Only event may be called by several goroutines.
type exporter struct {
	ctx    context.Context
	d      *depot.Depot
	dir    string
	opt    ExportOptions
	layout layout.Layout
	txs    []depot.Transaction // oldest first
	stored map[string]chosen   // in a symstore tree, by folded name/key
	result ExportResult
	events sync.Mutex // held by event
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
		ex.opt.Progress(done, total)
	}
}

// countOmitted counts an object that the layout has no path for.
func (ex *exporter) countOmitted(tx depot.Transaction, f depot.TxFile) {
	ex.result.LeftOut++
	ex.result.LeftOutKinds[f.Object.Kind.String()]++
	ex.event(EventLeftOut, f.Path,
		fmt.Sprintf("layout %s has no path for %s in transaction %d", ex.layout.Name(), f.Object.Kind, tx.Number), false)
}

// place is a file to write.
type place struct {
	path string
	file depot.Ranked
}

// plan assigns a file to each path of the tree. Of several objects with one path
// it takes the one that the depot would answer with.
func (ex *exporter) plan() ([]*place, error) {
	byPath := map[string]*place{}
	var list []*place
	for _, tx := range ex.txs {
		err := ex.d.Files(ex.ctx, tx.Number, func(f depot.TxFile) error {
			paths := ex.layout.Paths(f.Object)
			if len(paths) == 0 {
				ex.countOmitted(tx, f)
			}
			r := depot.RankedIn(tx, f)
			for _, p := range paths {
				if ex.opt.Lower {
					p = symfile.Fold(p)
				}
				have := byPath[p]
				if have == nil {
					byPath[p] = &place{p, r}
					list = append(list, byPath[p])
					continue
				}
				if have.file.Ref == f.Ref {
					have.file.Try = have.file.Try && r.Try
					continue
				}
				ex.result.Shadowed++
				ex.event(EventShadowed, p, "a different file has this path", false)
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

func (ex *exporter) role(p string) symfile.Role { return roleOf(ex.layout, p) }

// roleOf returns what a request for a path asks for.
func roleOf(l layout.Layout, p string) symfile.Role {
	if r, err := l.Parse(p); err == nil && len(r.Lookups) > 0 {
		return r.Lookups[0].Role
	}
	return symfile.AnyRole
}

// caseSafe finds paths that differ in case only. On a disk that ignores case, only
// the better file is written.
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
			ex.result.Collisions++
			ex.event(EventCollision, p.path, "different content than "+have.path, true)
		}
		if !caseless {
			keep = append(keep, p)
		} else if have.file.Ref != p.file.Ref && depot.Better(p.file, have.file, ex.role(p.path)) {
			have.file = p.file
		}
	}
	return keep, nil
}

// caseless reports whether the disk ignores the case of names.
func (ex *exporter) caseless() (bool, error) {
	if ex.opt.DryRun {
		return false, nil
	}
	dir, err := os.MkdirTemp(ex.dir, ".symdepot-Aa")
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
	if ex.opt.DryRun {
		ex.result.Written, ex.result.Plain = Tally{int64(len(list)), total}, total
		for _, p := range list {
			ex.event(EventWritten, p.path, "", false)
		}
		if ex.bundles() {
			_, err = ex.sourceBundles(nil, list)
		}
		return err
	}
	w, err := newTreeWriter(ex.dir)
	if err != nil {
		return err
	}
	defer w.close()
	var done int64
	first := map[blob.Ref]string{} // the path of a content that further paths are linked to
	var further []*place
	for _, p := range list {
		if _, ok := first[p.file.Ref]; ok && ex.layout.Linked() {
			further = append(further, p)
			continue
		}
		first[p.file.Ref] = p.path
		if err := ex.file(w, p); err != nil {
			return err
		}
		done += p.file.Size
		ex.progress(done, total)
	}
	if len(further) > 0 {
		if err := w.flush(); err != nil {
			return err
		}
	}
	for _, p := range further {
		if err := ex.link(w, first[p.file.Ref], p); err != nil {
			return err
		}
		done += p.file.Size
		ex.progress(done, total)
	}
	if ex.bundles() {
		made, err := ex.sourceBundles(w, list)
		if err != nil {
			return err
		}
		if err := ex.sideFiles(w, append(list, made...)); err != nil {
			return err
		}
	}
	return w.flush()
}

// file writes one file, unless the tree has it.
func (ex *exporter) file(w *treeWriter, p *place) error {
	if err := ex.ctx.Err(); err != nil {
		return err
	}
	src, err := ex.d.Content(ex.ctx, p.file.Ref)
	if err != nil {
		return err
	}
	defer src.Close()
	return ex.write(w, p, src)
}

// write writes a file with the bytes of src, unless the tree has it.
func (ex *exporter) write(w *treeWriter, p *place, src *depot.File) error {
	name, how := p.path, layout.PackNone
	if ex.opt.Compress {
		how = ex.layout.Packing()
	}
	if how == layout.PackCabinet {
		switch p.file.Object.Kind {
		case symfile.PE, symfile.PDB, symfile.PDB20, symfile.DBG, symfile.PortablePDB:
			name = layout.CabinetName(name)
		default:
			how = layout.PackNone
		}
	}
	if _, err := filepath.Localize(name); err != nil {
		ex.result.Failed++
		ex.event(EventFailedFile, name, "not a path on this system", true)
		return nil
	}
	there, equal := w.has(ex.ctx, name, src, how)
	if equal {
		ex.result.Same.Files++
		ex.result.Same.Bytes += src.Size
		return nil
	}
	in, packed, err := ex.pack(src, p, how)
	if errors.Is(err, transcode.ErrTooLarge) {
		// Written uncompressed: clients request that name too.
		name, packed = p.path, func() {}
		in, err = io.NewSectionReader(src, 0, src.Size), nil
		if there, equal = w.has(ex.ctx, name, src, layout.PackNone); equal {
			ex.result.Same.Files++
			ex.result.Same.Bytes += src.Size
			return nil
		}
	}
	if err != nil {
		return err
	}
	defer packed()
	n, err := w.put(ex.ctx, name, in)
	if errors.Is(err, errInTheWay) {
		ex.result.Failed++
		ex.event(EventFailedFile, name, err.Error(), true)
		return nil
	}
	if err != nil {
		return err
	}
	if there {
		ex.result.Replaced++
		ex.event(EventReplaced, name, "had different content", false)
	}
	ex.result.Written.Files++
	ex.result.Written.Bytes += n
	ex.result.Plain += src.Size
	ex.event(EventWritten, name, "", false)
	return nil
}

// link adds a further path of a file of the tree: a hard link, or a copy where the
// disk has no links. Debuggers look for a program with its own debug information
// under two paths.
func (ex *exporter) link(w *treeWriter, target string, p *place) error {
	root := w.tree.Root()
	if _, err := root.Lstat(p.path); err == nil || !filepath.IsLocal(filepath.FromSlash(p.path)) {
		return ex.file(w, p)
	}
	if err := root.MkdirAll(path.Dir(p.path), 0o777); err != nil {
		return ex.file(w, p)
	}
	if info, err := root.Lstat(target); err != nil || info.Size() != p.file.Size || root.Link(target, p.path) != nil {
		return ex.file(w, p)
	}
	w.group.SyncDir(path.Dir(p.path))
	ex.result.Written.Files++
	ex.result.Plain += p.file.Size
	ex.event(EventWritten, p.path, "a link to "+target, false)
	return nil
}

// pack returns the bytes to write.
func (ex *exporter) pack(src *depot.File, p *place, how layout.Packing) (io.Reader, func(), error) {
	plain := io.NewSectionReader(src, 0, src.Size)
	switch how {
	case layout.PackZstd:
		pr, pw := io.Pipe()
		go func() { pw.CloseWithError(transcode.Zstd.Compress(ex.ctx, pw, plain)) }()
		return pr, func() { _ = pr.Close() }, nil
	case layout.PackCabinet:
		temp, err := os.CreateTemp("", "symdepot-*")
		if err != nil {
			return nil, nil, err
		}
		drop := func() {
			_ = temp.Close()
			_ = os.Remove(temp.Name())
		}
		n, err := transcode.Cabinet(ex.ctx, temp, transcode.Source{ReaderAt: src, Size: src.Size, Name: p.file.Object.Name, Time: p.file.Added})
		if err != nil {
			drop()
			return nil, nil, err
		}
		return io.NewSectionReader(temp, 0, n), drop, nil
	}
	return plain, func() {}, nil
}

// Limits of one group of files that become visible together.
const (
	flushFiles = 256
	flushBytes = 256 << 20
)

// errInTheWay is the error for a path that has a folder or a link.
var errInTheWay = errors.New("a folder or a link has this path")

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

// close discards the files since the last flush.
func (w *treeWriter) close() {
	w.group.Abort()
	_ = w.tree.Close()
}

// flush makes all files visible that were written so far.
func (w *treeWriter) flush() error {
	err := w.group.Commit()
	w.group, w.files, w.bytes = w.tree.NewGroup(), 0, 0
	return err
}

// has reports whether a file exists, and whether its content, unpacked, is that of
// src.
func (w *treeWriter) has(ctx context.Context, name string, src *depot.File, how layout.Packing) (there, equal bool) {
	info, err := w.tree.Root().Lstat(name)
	if err != nil {
		return false, false
	}
	if !info.Mode().IsRegular() || how == layout.PackNone && info.Size() != src.Size {
		return true, false
	}
	f, err := w.tree.Root().Open(name)
	if err != nil {
		return true, false
	}
	defer f.Close()
	h := sha256.New()
	switch {
	case how == layout.PackNone:
		_, err = io.Copy(h, ctxio.NewReader(ctx, f))
	case unpack.Packed(f):
		_, err = unpack.File(ctx, h, f, info.Size(), src.Size)
	default:
		return true, false
	}
	return true, err == nil && blob.Ref(h.Sum(nil)) == src.Ref
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
	n, err := io.Copy(f, ctxio.NewReader(ctx, r))
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

// small writes a small file unless it exists with the same content.
func (w *treeWriter) small(ctx context.Context, name string, data []byte) error {
	if have, err := fs.ReadFile(w.tree.Root().FS(), name); err == nil && bytes.Equal(have, data) {
		return nil
	}
	_, err := w.put(ctx, name, bytes.NewReader(data))
	return err
}
