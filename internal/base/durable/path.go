package durable

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteFile writes a file atomically and durably, through a temporary file in
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

// ReplaceFile writes a file as WriteFile does. A file that it replaces keeps its mode and its
// owner; a symbolic link stays, and the file that it names is replaced. A new file gets exactly
// the mode perm.
func ReplaceFile(name string, data []byte, perm fs.FileMode) error {
	to, err := filepath.EvalSymlinks(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		to = name
	case err != nil:
		return err
	}
	old, err := os.Stat(to)
	switch {
	case err == nil:
		perm = old.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return inParent(to, func(t *Tree, base string) error {
		t.Exact = true
		f, err := t.Create(".", perm)
		if err != nil {
			return err
		}
		if old != nil {
			err = keepOwner(f.file, old)
		}
		if err == nil {
			_, err = f.Write(data)
		}
		if err != nil {
			f.Abort()
			return err
		}
		return f.Commit(base)
	})
}

// WriteTo is like WriteFile, with the content that write produces. If write
// fails, an existing file stays unchanged.
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
// [fs.ErrNotExist] if it does not exist.
func Remove(name string) error {
	return inParent(name, func(t *Tree, base string) error { return t.Remove(base) })
}

// SyncDir makes the creations, renames and removals in the directory name
// durable.
func SyncDir(name string) error {
	t, err := OpenTree(name)
	if err != nil {
		return err
	}
	return errors.Join(t.SyncDir("."), t.Close())
}

// MkdirAll makes a directory and its missing parents, durably. Directories that
// already exist are not flushed.
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

// IsSame reports whether two paths lead to one file or directory that exists, as APP.PDB
// and APP.pdb do on Windows.
func IsSame(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// inParent calls do with the directory of name and with name's last element.
func inParent(name string, do func(t *Tree, base string) error) error {
	name = filepath.Clean(name)
	t, err := OpenTree(filepath.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(do(t, filepath.Base(name)), t.Close())
}
