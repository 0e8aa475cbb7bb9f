package importexport

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/symdepot/symdepot/internal/base/ctxio"
	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/files/unpack"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
)

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
func (w *treeWriter) has(ctx context.Context, name string, src *answer.File, how layout.Packing) (there, equal bool) {
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

// errInTheWay is the error for a path that has a folder or a link.
var errInTheWay = errors.New("a folder or a link has this path")

// Limits of one group of files that become visible together.
const (
	flushFiles = 256
	flushBytes = 256 << 20
)
