// Package durable writes files atomically and durably: a file appears complete
// or not at all, and it survives a power loss once the call that wrote it has
// returned.
//
// A [Tree] works below one directory and never leaves it. [WriteFile],
// [MkdirAll], [Remove] and [SyncDir] do the same for a plain path. A [Group]
// makes many files durable together: it flushes the disk a few times in total
// instead of a few times per file.
//
// The system calls expected on Linux, without the lookups of the path
// components:
//
//	Create          openat(O_CREAT|O_EXCL) of the temporary file
//	File.Write      write; sync_file_range(SYNC_FILE_RANGE_WRITE) every 8 MiB
//	File.Commit     fsync, close, renameat, then SyncDir of the target's folder
//	SyncDir         openat, fsync, close
//	MkdirAll        mkdir, then SyncDir of the parent, for each missing folder
//	Remove          unlinkat, then SyncDir of the folder
//	Group.Add       sync_file_range(SYNC_FILE_RANGE_WRITE), and close for a large group
//	Group.Commit    small group: fsync and close each, renameat each, SyncDir each folder
//	                large group: syncfs, renameat each, then SyncDir each folder or syncfs
//
// On macOS fsync is fcntl(F_FULLFSYNC), because plain fsync leaves the data in
// the drive's cache. On Windows it is FlushFileBuffers. Directories are not
// flushed there: NTFS journals file names, and no such call exists. A rename
// over a file that another process holds open is retried for a limited time.
package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"sync/atomic"
)

// writeBehind is the number of written bytes after which a file is handed to the
// disk before it is complete, so that the final flush has little left to write.
const writeBehind = 8 << 20

// Op is a step that [Faults] can intercept.
type Op string

// The steps, in their usual order.
const (
	OpMkdir   Op = "mkdir"
	OpCreate  Op = "create"
	OpWrite   Op = "write"
	OpSync    Op = "sync"    // of one file
	OpSyncAll Op = "syncall" // of the whole file system
	OpRename  Op = "rename"  // its name is the new name
	OpSyncDir Op = "syncdir"
	OpRemove  Op = "remove" // of a named file; removing a temporary file is not a step
)

// Faults is called before each step. It decides whether the step is carried out
// (land) and which error is reported. An error of the step itself takes
// precedence. It is for tests; nil means no faults. It is called by several
// goroutines.
type Faults func(op Op, name string) (land bool, err error)

// Tree is a directory below which files are made durable. Names are relative
// to it, with slashes, and cannot lead out of it, not even through a symbolic
// link. A Tree may be used by several goroutines.
type Tree struct {
	root *os.Root
	// Faults is for tests and is set before the first use.
	Faults Faults
	// Exact gives new files and directories exactly the requested modes.
	// Otherwise the umask reduces them. It is set before the first use.
	Exact bool
}

// OpenTree opens the directory dir, which must exist.
func OpenTree(dir string) (*Tree, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &Tree{root: root}, nil
}

// Root returns the directory, for operations that need no durability.
func (t *Tree) Root() *os.Root { return t.root }

// Close closes the directory. Files opened from it stay usable.
func (t *Tree) Close() error { return t.root.Close() }

// do performs one step, subject to Faults.
func (t *Tree) do(op Op, name string, step func() error) error {
	if t.Faults == nil {
		return step()
	}
	land, fault := t.Faults(op, name)
	if land {
		if err := step(); err != nil {
			return err
		}
	}
	return fault
}

// Mkdir makes one directory if it does not exist. It becomes durable with
// [Tree.SyncDir] of its parent.
func (t *Tree) Mkdir(name string, perm fs.FileMode) error {
	return t.do(OpMkdir, name, func() error {
		err := t.root.Mkdir(name, perm.Perm())
		if err == nil && t.Exact {
			return t.root.Chmod(name, perm)
		}
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		info, err := t.root.Stat(name)
		if err == nil && !info.IsDir() {
			err = &fs.PathError{Op: "mkdir", Path: name, Err: errNotDir}
		}
		return err
	})
}

// MkdirAll makes a directory and its missing parents, durably. Directories that
// already exist are not flushed.
func (t *Tree) MkdirAll(name string, perm fs.FileMode) error {
	name = path.Clean(name)
	info, err := t.root.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return &fs.PathError{Op: "mkdir", Path: name, Err: errNotDir}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	parent := path.Dir(name)
	if parent != "." && parent != name {
		if err := t.MkdirAll(parent, perm); err != nil {
			return err
		}
	}
	if err := t.Mkdir(name, perm); err != nil {
		return err
	}
	return t.SyncDir(parent)
}

// Remove removes a file or an empty directory, durably. The error is
// [fs.ErrNotExist] if it does not exist.
func (t *Tree) Remove(name string) error {
	if err := t.do(OpRemove, name, func() error { return retryWhileBusy(func() error { return t.root.Remove(name) }) }); err != nil {
		return err
	}
	return t.SyncDir(path.Dir(name))
}

// SyncDir makes the creations, renames and removals in a directory durable. It
// does nothing on systems that cannot flush directories.
func (t *Tree) SyncDir(name string) error {
	return t.do(OpSyncDir, name, func() error {
		if !syncsDirs {
			return nil
		}
		dir, err := t.root.Open(name)
		if err != nil {
			return err
		}
		return errors.Join(syncDirFile(dir), dir.Close())
	})
}

// rename gives a complete and flushed temporary file its final name.
func (t *Tree) rename(from, to string) error {
	return t.do(OpRename, to, func() error {
		return Rename(t.root, from, to)
	})
}

// File is a temporary file that has not yet got its final name. It is used by
// one goroutine, which finishes it with Commit, Abort or [Group.Add].
type File struct {
	tree    *Tree
	file    *os.File // nil once closed
	name    string
	written int64 // bytes
	started int64 // the part of written that was handed to the disk, in bytes
}

// created counts the temporary files of this process.
var created atomic.Uint64

// Create makes a temporary file in the directory dir of the tree, which must be
// on the file system of the final name. perm is reduced by the umask unless the
// tree is Exact.
func (t *Tree) Create(dir string, perm fs.FileMode) (*File, error) {
	f := &File{tree: t, name: path.Join(dir, tempName(created.Add(1)))}
	err := t.do(OpCreate, f.name, func() error {
		file, err := t.root.OpenFile(f.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
		f.file = file
		if err == nil && t.Exact {
			err = file.Chmod(perm)
		}
		return err
	})
	if err == nil && f.file == nil { // Faults skipped the step without an error
		err = fmt.Errorf("create %s: %w", f.name, fs.ErrNotExist)
	}
	if err != nil {
		f.Abort()
		return nil, err
	}
	return f, nil
}

// Name returns the temporary file's name in the tree.
func (f *File) Name() string { return f.name }

// Write appends p. [IsNoSpace] recognizes the error of a full disk.
func (f *File) Write(p []byte) (int, error) {
	n := len(p) // also if Faults skips the write without an error
	err := f.tree.do(OpWrite, f.name, func() (err error) {
		n, err = f.file.Write(p)
		return err
	})
	f.written += int64(n)
	if f.written-f.started >= writeBehind {
		f.startWriting()
	}
	return n, err
}

// startWriting begins to write the new part of the file to the disk without
// waiting for the end. sync reports the errors.
func (f *File) startWriting() {
	startWriteBehind(f.file, f.started, f.written-f.started)
	f.started = f.written
}

// StartWriting begins to write a part of a file, in bytes, to the disk without
// waiting for the end. It is for files that this package does not write, and
// only a hint: a later flush reports the errors.
func StartWriting(f *os.File, offset, n int64) { startWriteBehind(f, offset, n) }

// sync makes the content durable and closes the file.
func (f *File) sync() error {
	err := f.tree.do(OpSync, f.name, f.file.Sync)
	return errors.Join(err, f.close())
}

func (f *File) close() error {
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file = nil
	return err
}

// Commit makes the content durable and renames the file to name, replacing an
// existing file. On an error the temporary file is removed and an existing file
// stays. The exception is an error of the last flush, that of the directory: the
// new file then has its name, but a power loss may undo the rename.
func (f *File) Commit(name string) error {
	if err := f.sync(); err != nil {
		f.Abort()
		return err
	}
	if err := f.tree.rename(f.name, name); err != nil {
		f.Abort()
		return err
	}
	return f.tree.SyncDir(path.Dir(name))
}

// Abort removes the temporary file. It must not be called after Commit.
func (f *File) Abort() {
	_ = f.close() // the content is unwanted
	// Sweep removes a temporary file that cannot be removed here.
	_ = f.tree.root.Remove(f.name)
}

// ReadFile reads a file that other processes replace, and does not hinder them. On
// Windows it waits as [RetryRename] does while a replacement is in progress.
func ReadFile(path string) (content []byte, err error) {
	err = retryWhileBusy(func() error {
		f, err := OpenShared(path)
		if err != nil {
			return err
		}
		content, err = io.ReadAll(f)
		return errors.Join(err, f.Close())
	})
	return content, err
}
