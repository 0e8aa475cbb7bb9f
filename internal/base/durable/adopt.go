package durable

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// Adopt makes a temporary file in the directory dir of the tree from the existing
// file name outside of it, which keeps its own name. Both are one file where the
// file system permits, so name must not be written to any more; otherwise the
// content is copied. perm is as for [Tree.Create]; an existing file keeps its mode
// unless the tree is Exact.
func (t *Tree) Adopt(name, dir string, perm fs.FileMode) (*File, error) {
	f := &File{tree: t, name: path.Join(dir, tempName(created.Add(1)))}
	err := t.do(OpCreate, f.name, func() error {
		err := link(name, filepath.Join(t.root.Name(), filepath.FromSlash(f.name)))
		if err != nil {
			return err
		}
		// Windows flushes files only that are open for writing.
		if f.file, err = t.root.OpenFile(f.name, os.O_RDWR, 0); err != nil {
			return err
		}
		info, err := f.file.Stat()
		if err == nil && t.Exact {
			err = f.file.Chmod(perm)
		}
		if err == nil {
			f.written = info.Size()
		}
		return err
	})
	switch {
	case err == nil && f.file != nil:
		return f, nil
	case errors.Is(err, fs.ErrNotExist) || IsNoSpace(err):
		f.Abort()
		return nil, err
	}
	f.Abort()
	return t.copyOf(name, dir, perm)
}

// maxLinks limits how often link tries again.
const maxLinks = 100

// link gives a file a second name. Another file may take the place of the first one
// meanwhile: link(2) finds the old one, which has no name any more, and says that the name
// does not exist. It does, and the next try links the new file.
func link(name, second string) error {
	for n := 1; ; n++ {
		err := os.Link(name, second)
		if !errors.Is(err, fs.ErrNotExist) || n == maxLinks {
			return err
		}
		if _, serr := os.Lstat(name); serr != nil {
			return err
		}
	}
}

// copyOf makes a temporary file with the content of an existing one.
func (t *Tree) copyOf(name, dir string, perm fs.FileMode) (*File, error) {
	from, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = from.Close() }() // only read
	f, err := t.Create(dir, perm)
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(f, from); err != nil {
		f.Abort()
		return nil, err
	}
	return f, nil
}
