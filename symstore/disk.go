package symstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/symstore/internal/dircache"
)

// disk is the folder of a store, with the small operations that all parts of the
// package use. Names have slashes and are relative to the root, which they never
// leave.
type disk struct {
	root *os.Root
	tree *durable.Tree // the same folder, for durable changes
	opt  *Options
}

// exists reports whether a file or folder exists.
func (d *disk) exists(name string) bool {
	_, err := d.root.Lstat(name)
	return err == nil
}

// checkpoint reports the next change to the tests. An error of theirs prevents the
// change.
func (d *disk) checkpoint(what string) error {
	if d.opt.step == nil {
		return nil
	}
	return d.opt.step(what)
}

// touch creates an empty file, or sets the time of an existing one to now.
func (d *disk) touch(name string) error {
	if err := d.checkpoint("touch " + name); err != nil {
		return err
	}
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return wrapError(err)
	}
	if err := f.Close(); err != nil {
		return wrapError(err)
	}
	now := d.opt.Now()
	// The time is a hint to clients; some shares refuse to set it.
	_ = d.root.Chtimes(name, now, now)
	return nil
}

// readText reads a small file. It returns nil if the file does not exist.
func (d *disk) readText(name string) ([]byte, error) {
	data, err := dircache.ReadSmall(d.root, name, maxText)
	return checkText(name, data, err)
}

func checkText(name string, data []byte, err error) ([]byte, error) {
	if err != nil {
		return nil, ignoreNotExist(err)
	}
	if len(data) > maxText {
		return nil, fmt.Errorf("%w: %s is larger than %d bytes", ErrDamaged, name, maxText)
	}
	return data, nil
}

// openRegular opens a regular file only: opening a pipe could block.
func (d *disk) openRegular(name string) (*os.File, error) {
	info, err := d.root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: ErrExists}
	}
	return d.root.Open(name)
}

// subdirs returns the first folders in dir, without 000Admin. A limit of 0 means
// all.
func (d *disk) subdirs(dir string, limit int) ([]string, error) {
	f, err := d.root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var list []string
	for {
		entries, err := f.ReadDir(1024)
		for _, e := range entries {
			if e.IsDir() && !(dir == "." && strings.EqualFold(e.Name(), adminDir)) {
				list = append(list, e.Name())
				if len(list) == limit {
					return list, nil
				}
			}
		}
		if fileEnd(err) {
			return list, nil
		}
		if err != nil {
			return list, err
		}
	}
}

// readDir returns the entries of a folder, with an error those that it could read.
func (d *disk) readDir(dir string) ([]fs.DirEntry, error) {
	f, err := d.root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.ReadDir(-1)
}

// writeDurably replaces a small file.
func (d *disk) writeDurably(name string, data []byte) error {
	f, err := d.tree.Create(path.Dir(name), 0o666)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		f.Abort()
		return err
	}
	return f.Commit(name)
}

func (d *disk) sameFile(a, b string) bool {
	x, err := d.root.Lstat(a)
	if err != nil {
		return false
	}
	y, err := d.root.Lstat(b)
	return err == nil && os.SameFile(x, y)
}

// copyInside copies a file, for disks without hard links.
func (d *disk) copyInside(from, to string) error {
	in, err := d.root.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := d.root.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// removeEmpty removes a folder and its parents as far as they are empty, but never
// 000Admin or the root.
func (d *disk) removeEmpty(dir string) {
	for dir != "." && !strings.EqualFold(dir, adminDir) {
		if info, err := d.root.Lstat(dir); err != nil || !info.IsDir() || d.root.Remove(dir) != nil {
			return
		}
		dir = path.Dir(dir)
	}
}

func fileEnd(err error) bool { return errors.Is(err, io.EOF) }

func wrapError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: %w", ErrReadOnly, err)
	case errors.Is(err, fs.ErrExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EISDIR):
		return fmt.Errorf("%w: %w", ErrExists, err)
	}
	return err
}
