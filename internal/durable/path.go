package durable

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteFile writes a small file whole, durably, by way of a temporary file in
// the same directory. perm is reduced by the umask.
func WriteFile(name string, data []byte, perm fs.FileMode) error {
	return inParent(name, func(t *Tree, base string) error {
		f, err := t.Create(".", perm)
		if err != nil {
			return err
		}
		if _, err := f.Write(data); err != nil {
			f.Abort()
			return err
		}
		return f.Commit(base)
	})
}

// WriteTo writes what write yields, and replaces the file name with it at the
// end. If write fails, the existing file stays.
func WriteTo(name string, perm fs.FileMode, write func(io.Writer) error) error {
	return inParent(name, func(t *Tree, base string) error {
		f, err := t.Create(".", perm)
		if err != nil {
			return err
		}
		w := bufio.NewWriterSize(f, 64<<10)
		if err := write(w); err != nil {
			f.Abort()
			return err
		}
		if err := w.Flush(); err != nil {
			f.Abort()
			return err
		}
		return f.Commit(base)
	})
}

// Remove removes a file or an empty directory, durably. The error is
// [fs.ErrNotExist] if there is none.
func Remove(name string) error {
	return inParent(name, func(t *Tree, base string) error { return t.Remove(base) })
}

// SyncDir makes durable what was created in, renamed within and removed from
// the directory name.
func SyncDir(name string) error {
	t, err := OpenTree(name)
	if err != nil {
		return err
	}
	return errors.Join(t.SyncDir("."), t.Close())
}

// MkdirAll makes a directory and its missing parents, durably. Directories
// that were there already are not flushed.
func MkdirAll(name string, perm fs.FileMode) error {
	name = filepath.Clean(name)
	info, err := os.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return &fs.PathError{Op: "mkdir", Path: name, Err: errNotDir}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if parent := filepath.Dir(name); parent != name {
		if err := MkdirAll(parent, perm); err != nil {
			return err
		}
	}
	return inParent(name, func(t *Tree, base string) error { return t.MkdirAll(base, perm) })
}

// inParent runs do with the directory that holds name, and name's last element.
func inParent(name string, do func(t *Tree, base string) error) error {
	name = filepath.Clean(name)
	t, err := OpenTree(filepath.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(do(t, filepath.Base(name)), t.Close())
}
