package importexport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/symdepot/symdepot/internal/base/ctxio"
	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/layout"
)

// treeWriter writes files below a folder. It never leaves the folder.
type treeWriter struct {
	dir   string
	tree  *durable.Tree
	group *durable.Group
	files int
	bytes int64
}

func newTreeWriter(dir string) (*treeWriter, error) {
	if err := durable.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	t, err := durable.OpenTree(dir)
	if err != nil {
		return nil, err
	}
	return &treeWriter{dir: dir, tree: t, group: t.NewGroup()}, nil
}

// close implements writer.
func (w *treeWriter) close() {
	w.group.Abort()
	_ = w.tree.Close()
}

// atOnce implements writer: the files of a group become durable together.
func (w *treeWriter) atOnce() int { return 1 }

// flush implements writer.
func (w *treeWriter) flush() error {
	err := w.group.Commit()
	w.group, w.files, w.bytes = w.tree.NewGroup(), 0, 0
	return err
}

// has implements writer. A file that cannot be read is another one.
func (w *treeWriter) has(ctx context.Context, name string, src *answer.File, how layout.Packing) (there, equal bool, err error) {
	info, err := w.tree.Root().Lstat(name)
	if err != nil {
		return false, false, nil
	}
	if !info.Mode().IsRegular() || how == layout.PackNone && info.Size() != src.Size {
		return true, false, nil
	}
	f, err := w.tree.Root().Open(name)
	if err != nil {
		return true, false, nil
	}
	defer f.Close()
	if how == layout.PackNone {
		equal, err = hasContent(ctx, f, src)
	} else {
		equal, err = unpacksTo(ctx, f, info.Size(), src)
	}
	return true, err == nil && equal, ctx.Err()
}

// put implements writer.
func (w *treeWriter) put(ctx context.Context, name string, _ int64, r io.Reader) (int64, error) {
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

// link implements writer by a hard link. It is visible at once, as its target must be.
func (w *treeWriter) link(target, name string, size int64) bool {
	root := w.tree.Root()
	if _, err := root.Lstat(name); err == nil || !filepath.IsLocal(filepath.FromSlash(name)) {
		return false
	}
	if root.MkdirAll(path.Dir(name), 0o777) != nil {
		return false
	}
	if info, err := root.Lstat(target); err != nil || info.Size() != size || root.Link(target, name) != nil {
		return false
	}
	w.group.SyncDir(path.Dir(name))
	return true
}

// read implements writer.
func (w *treeWriter) read(_ context.Context, name string) ([]byte, error) {
	f, err := w.tree.Root().Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxSmall))
}

// replace implements writer.
func (w *treeWriter) replace(ctx context.Context, name string, data []byte) error {
	if _, err := w.put(ctx, name, int64(len(data)), bytes.NewReader(data)); err != nil {
		return err
	}
	return w.flush()
}

// remove implements writer. Folders that become empty go too.
func (w *treeWriter) remove(_ context.Context, name string) error {
	if err := w.tree.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for dir := path.Dir(name); dir != "." && w.removeFolder(dir); dir = path.Dir(dir) {
	}
	return nil
}

// removeFolder removes a folder if it is empty, and reports whether it did.
func (w *treeWriter) removeFolder(dir string) bool {
	info, err := w.tree.Root().Lstat(dir)
	return err == nil && info.IsDir() && w.tree.Remove(dir) == nil
}

// list implements writer. What is no file, and a file that is being written, has no name.
func (w *treeWriter) list(ctx context.Context, prefix string, each func(string) error) error {
	return fs.WalkDir(w.tree.Root().FS(), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !e.Type().IsRegular() || !strings.HasPrefix(name, prefix):
			return nil
		}
		return each(name)
	})
}

// hold implements writer by the lock of a file, which ends with the process.
func (w *treeWriter) hold(context.Context, func(string)) (claim, error) {
	if err := w.tree.MkdirAll(ownFolder, 0o777); err != nil {
		return nil, err
	}
	f, err := durable.LockFile(filepath.Join(w.dir, ownFolder, "lock"))
	if errors.Is(err, durable.ErrLocked) {
		return nil, &HeldError{w.dir}
	}
	if err != nil {
		return nil, err
	}
	return fileLock{f}, nil
}

// fileLock is a locked file. Nobody takes it over.
type fileLock struct{ file *os.File }

func (l fileLock) check() error { return nil }
func (l fileLock) release()     { _ = l.file.Close() }

// Limits of one group of files that become visible together.
const (
	flushFiles = 256
	flushBytes = 256 << 20
)
