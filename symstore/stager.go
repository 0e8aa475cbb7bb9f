package symstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/symdepot/symdepot/cab"
	"github.com/symdepot/symdepot/internal/base/ctxio"
	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/internal/base/truncate"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symstore/internal/dircache"
)

// copyBuffer is the size in bytes of one read.
const copyBuffer = 256 << 10

const (
	// chunk is the number of bytes that one call copies. The kernel writes a
	// chunk to the disk while the next one is copied.
	chunk = 8 << 20
	// writeBehindFrom is the size in bytes from which a chunk is written at
	// once. Smaller files are written faster together.
	writeBehindFrom = 256 << 10
)

// stager copies or compresses files into a workspace and makes them durable
// together.
type stager struct {
	ws       *workspace
	group    *durable.Group
	compress Compression
	buffers  sync.Pool
	spots    *spots
}

func newStager(ws *workspace, spots *spots, c Compression) *stager {
	g := &stager{ws: ws, group: ws.j.tree.NewGroup(), compress: c, spots: spots}
	g.buffers.New = func() any { return new([copyBuffer]byte) }
	return g
}

func (g *stager) abort() { g.group.Abort() }

// worker is the state of one goroutine that stages files. Each worker has its
// own folder in the workspace, because the file system lets one process at a
// time change a folder.
type worker struct {
	dirs *dircache.Cache
	dir  string
}

func (g *stager) newWorker(dir string) (*worker, error) {
	w := &worker{dirs: dircache.New(g.ws.j.root), dir: dir}
	g.flush(dir)
	if err := w.dirs.Mkdir(g.ws.path(dir)); err != nil {
		w.dirs.Close()
		return nil, err
	}
	return w, nil
}

// flushAll makes the staged files durable.
func (g *stager) flushAll() error {
	for _, dir := range []string{journalDir, g.ws.dir} {
		g.group.SyncDir(dir)
	}
	if err := g.ws.writeFolders(); err != nil {
		return err
	}
	g.flush(foldersLeaf)
	return ignoreNotExist(g.group.Commit()) // dropped files do not exist any more
}

// flush registers a file or folder of the workspace to be flushed by flushAll.
func (g *stager) flush(name string) {
	if syncsNames {
		g.group.SyncDir(g.ws.path(name)) // flushes the content of a file as well
	}
}

// stageFile stages one file.
func (g *stager) stageFile(ctx context.Context, a *adder, w *worker, i int, f File) *item {
	it := &item{file: f}
	if ctx.Err() != nil {
		it.err, it.fatal = context.Cause(ctx), true
		return it
	}
	it.err = g.load(ctx, a, w, i, it)
	var store *storeError
	if errors.As(it.err, &store) {
		it.err, it.fatal = wrapError(store.err), true
	} else if it.err != nil && ctx.Err() != nil {
		it.err, it.fatal = context.Cause(ctx), true // the file failed because another one did
	}
	if it.err != nil {
		g.drop(it)
	}
	return it
}

// drop removes the staged content of a file that is not stored.
func (g *stager) drop(it *item) {
	for i := range it.keys {
		k := &it.keys[i]
		switch {
		case k.spot != nil:
			if err := g.ws.root.RemoveAll(k.spot.Rel); err != nil {
				g.spots.markIncomplete(k.spot.group)
			}
		case k.staged != "":
			_ = g.ws.root.Remove(k.staged) // on failure it is removed with the workspace
		}
	}
	it.keys = nil
}

// storeError marks an error as the store's, not the file's.
type storeError struct{ err error }

func (e *storeError) Error() string { return e.err.Error() }
func (e *storeError) Unwrap() error { return e.err }

func asStoreError(err error) error {
	if err == nil {
		return nil
	}
	return &storeError{err}
}

func (g *stager) load(ctx context.Context, a *adder, w *worker, i int, it *item) error {
	var err error
	if a.opt.Pointer && it.file.Keys != nil {
		if err := g.accept(a, it, it.file.Keys); err != nil {
			return err
		}
		return g.stageKeys(ctx, a, w, it, source{}, i)
	}
	in, packed, err := openInput(it.file)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("not a regular file")
	}
	keys := it.file.Keys
	if keys == nil {
		if keys, err = Identify(in, info.Size(), it.file.Path, a.opt.AllKinds); err != nil {
			return err
		}
	}
	if err := g.accept(a, it, keys); err != nil {
		return err
	}
	if !a.opt.Pointer {
		it.bytes = info.Size()
	}
	return g.stageKeys(ctx, a, w, it, source{in, info, packed}, i)
}

// openInput opens a file. If the file of an index line does not exist,
// openInput opens the cabinet of that name: it may have been compressed since.
func openInput(f File) (in *os.File, packed bool, err error) {
	if info, err := os.Stat(f.Path); err == nil && !info.Mode().IsRegular() {
		return nil, false, errors.New("not a regular file") // opening a pipe would block
	}
	in, err = durable.OpenShared(f.Path)
	if err == nil || f.Keys == nil || !errors.Is(err, fs.ErrNotExist) {
		return in, false, err
	}
	dir, base := filepath.Split(f.Path)
	if other, err := durable.OpenShared(dir + layout.CabinetName(base)); err == nil {
		return other, true, nil
	}
	return nil, false, err
}

// accept checks the names and keys, applies the filter and records the keys.
func (g *stager) accept(a *adder, it *item, keys []Key) error {
	var err error
	if it.source, err = a.source(it.file); err != nil {
		return err
	}
	for _, k := range keys {
		if err := checkName(k.Name); err != nil {
			return err
		}
		if !validKey(k.Key) {
			return fmt.Errorf("%w: key %q", ErrName, truncate.Text(k.Key))
		}
		if passes(a.opt.Filter, k.Type) {
			it.keys = append(it.keys, stagedKey{Key: k})
		}
	}
	if len(it.keys) == 0 {
		return filtered(a.opt.Filter)
	}
	return nil
}

// source is an open file that is being stored.
type source struct {
	*os.File
	info   fs.FileInfo
	packed bool
}

// stageKeys stages the content of each key. A key that is new to the store gets
// a folder of its own.
func (g *stager) stageKeys(ctx context.Context, a *adder, w *worker, it *item, in source, i int) error {
	for n := range it.keys {
		k := &it.keys[n]
		own := strconv.Itoa(i) + "." + strconv.Itoa(n)
		if k.spot = g.spots.claim(k.Key, w.dir, own); k.spot == nil {
			if a.opt.Pointer {
				continue // a step of the plan writes the pointer
			}
			k.staged = "f" + own
			if err := g.stageContent(ctx, a, w, it, in, k); err != nil {
				return err
			}
			continue
		}
		if err := g.stageDir(ctx, a, w, it, in, k); err != nil {
			return err
		}
	}
	return nil
}

// stageDir stages the folder of a key.
func (g *stager) stageDir(ctx context.Context, a *adder, w *worker, it *item, in source, k *stagedKey) error {
	sp := k.spot
	if sp.group != nil {
		if err := w.dirs.Mkdir(g.ws.path(sp.group.rel)); err != nil {
			return asStoreError(err)
		}
		g.flush(sp.group.rel)
		defer w.dirs.CloseDir(g.ws.path(sp.group.rel))
	}
	if err := w.dirs.Mkdir(g.ws.path(sp.Rel)); err != nil {
		return asStoreError(err)
	}
	g.flush(sp.Rel)
	defer w.dirs.CloseDir(g.ws.path(sp.Rel))
	var err error
	if a.opt.Pointer {
		sp.Leaf = pointerLeaf
		err = g.writeSmall(w, path.Join(sp.Rel, sp.Leaf), a.opt.pointerContent(it.source))
	} else {
		err = g.stageContent(ctx, a, w, it, in, k)
	}
	if err != nil || a.noRefs {
		return err
	}
	ref := Ref{ID: a.guess, Pointer: a.opt.Pointer, Path: it.source, Type: k.Key.Type, Compressed: k.compressed}
	line := printRefs([]Ref{ref})
	sp.Ref = string(line[len(a.guess.String()):])
	return g.writeSmall(w, path.Join(sp.Rel, refsLeaf), line)
}

// writeSmall writes a small file.
func (g *stager) writeSmall(w *worker, name string, data []byte) error {
	g.flush(name)
	return asStoreError(w.dirs.Write(g.ws.path(name), data))
}

// stageContent stages the file of a key, compressed if that was asked for.
func (g *stager) stageContent(ctx context.Context, a *adder, w *worker, it *item, in source, k *stagedKey) error {
	if g.compress == Plain || in.packed {
		k.compressed = in.packed
		return g.copy(ctx, w, in, k)
	}
	err := fmt.Errorf("%d bytes: %w", in.info.Size(), cab.ErrTooLarge)
	if in.info.Size() <= cab.MaxFile {
		k.compressed = true
		err = g.pack(ctx, w, it, in, k)
	}
	if errors.Is(err, cab.ErrTooLarge) && a.opt.OversizePlain {
		it.plain, k.compressed = true, false
		return g.copy(ctx, w, in, k)
	}
	return err
}

// create creates the file of a key.
func (g *stager) create(w *worker, k *stagedKey) (*os.File, error) {
	if k.spot != nil {
		k.spot.Leaf = k.spot.name
		if k.compressed {
			k.spot.Leaf = layout.CabinetName(k.spot.name)
		}
		k.staged = path.Join(k.spot.Rel, k.spot.Leaf)
	}
	if fault := g.ws.j.opt.stageFault; fault != nil {
		if err := fault(k.Key.Name); err != nil {
			return nil, asStoreError(err)
		}
	}
	f, err := w.dirs.Create(g.ws.path(k.staged))
	return f, asStoreError(err)
}

// finishFile closes a file, registers it to be flushed, and sets its time to
// that of the original, as symstore.exe does.
func (g *stager) finishFile(w *worker, f *os.File, in source, k *stagedKey) error {
	info, err := f.Stat()
	if err == nil {
		k.written = info.Size()
	}
	if !syncsNames {
		err = errors.Join(err, f.Sync())
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return asStoreError(err)
	}
	g.flush(k.staged)
	// Some shares refuse to set a time.
	_ = w.dirs.Chtimes(g.ws.path(k.staged), in.info.ModTime())
	return nil
}

// copy stages the uncompressed file.
func (g *stager) copy(ctx context.Context, w *worker, in source, k *stagedKey) error {
	f, err := g.create(w, k)
	if err != nil {
		return err
	}
	if err := g.copyTo(ctx, in, f); err != nil {
		f.Close()
		return err
	}
	return g.finishFile(w, f, in, k)
}

// copyTo copies with the kernel's help, which may share blocks. An error of
// such a copy may be of either file; copyByHand finds out which.
func (g *stager) copyTo(ctx context.Context, in source, f *os.File) error {
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return err
	}
	for done := int64(0); ; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := f.ReadFrom(io.LimitReader(in.File, chunk))
		if durable.IsNoSpace(err) {
			return asStoreError(err)
		}
		if err != nil {
			return g.copyByHand(ctx, in, f)
		}
		if n >= writeBehindFrom {
			durable.StartWriting(f, done, n)
		}
		if done += n; n == chunk {
			continue
		}
		if done != in.info.Size() {
			return errChanged
		}
		return nil
	}
}

func (g *stager) copyByHand(ctx context.Context, in source, f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return asStoreError(err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return asStoreError(err)
	}
	return g.copyWhole(ctx, in, storeWriter{f})
}

var errChanged = errors.New("the file changed while it was copied")

// copyWhole copies a whole file and checks that its size did not change.
func (g *stager) copyWhole(ctx context.Context, in source, w io.Writer) error {
	buf := g.buffers.Get().(*[copyBuffer]byte)
	defer g.buffers.Put(buf)
	r := ctxio.NewReader(ctx, io.NewSectionReader(in, 0, in.info.Size()+1))
	n, err := io.CopyBuffer(struct{ io.Writer }{w}, r, buf[:])
	if err != nil {
		return err
	}
	if n != in.info.Size() {
		return errChanged
	}
	return nil
}

// storeWriter marks errors of writing as the store's.
type storeWriter struct{ w io.Writer }

func (w storeWriter) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	return n, asStoreError(err)
}
