// Package durable makes files appear whole or not at all, and stay after a
// power loss once the call that made them has returned.
//
// A [Tree] works below one directory and never leaves it; [WriteFile],
// [MkdirAll], [Remove] and [SyncDir] are the same for a plain path. A [Group]
// makes many files durable together, which costs a few flushes of the disk in
// all and not a few for each file.
//
// The system calls expected on Linux, with the walk down the components of a
// name left out:
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
// On macOS fsync is fcntl(F_FULLFSYNC), because fsync there leaves the data in
// the drive's cache. On Windows it is FlushFileBuffers, folders are not
// flushed (NTFS journals its names, and there is no call for it), and a rename
// onto a file that somebody holds open is tried again for a while.
package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"sync/atomic"
)

// writeBehind is the number of bytes after which a file that is still being
// written is handed to the disk, so that the flush at the end has little left
// to wait for. It is a few times what a disk likes to take at once.
const writeBehind = 8 << 20

// Op is a step at which [Faults] may interfere.
type Op string

// The steps, in the order in which they usually happen.
const (
	OpMkdir   Op = "mkdir"
	OpCreate  Op = "create"
	OpWrite   Op = "write"
	OpSync    Op = "sync"    // of one file
	OpSyncAll Op = "syncall" // of the whole file system
	OpRename  Op = "rename"  // the name is the new one
	OpSyncDir Op = "syncdir"
	OpRemove  Op = "remove" // of a named file; dropping a temporary one is not a step
)

// Faults is asked before each step what shall become of it, which has two
// dials: whether the step lands on disk and which error is reported. A step
// that lands reports its own error first. Tests use it; nil means no faults.
// It is called from several goroutines.
type Faults func(op Op, name string) (land bool, err error)

// Tree is a directory below which files are made durable. Names are relative
// to it, with slashes, and cannot lead out of it, not even through a symbolic
// link. A Tree may be used by several goroutines.
type Tree struct {
	root *os.Root
	// Faults is for tests. It is set before the first use.
	Faults Faults
	// Exact gives new files and directories exactly the modes asked for, which
	// the umask reduces otherwise. It is set before the first use.
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

// Root gives access to the directory for everything that needs no durability.
func (t *Tree) Root() *os.Root { return t.root }

// Close lets go of the directory. Files opened from it stay usable.
func (t *Tree) Close() error { return t.root.Close() }

// do performs one step, unless the faults say otherwise.
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

// Mkdir makes one directory, if it is not there yet. It is not durable before
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

// MkdirAll makes a directory and its missing parents, durably. Directories
// that were there already are not flushed.
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
// [fs.ErrNotExist] if there is none.
func (t *Tree) Remove(name string) error {
	if err := t.do(OpRemove, name, func() error { return t.root.Remove(name) }); err != nil {
		return err
	}
	return t.SyncDir(path.Dir(name))
}

// SyncDir makes durable what was created in, renamed within and removed from a
// directory. It does nothing where the system knows no such thing.
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

// rename gives a complete and flushed temporary file its name.
func (t *Tree) rename(from, to string) error {
	return t.do(OpRename, to, func() error {
		return RetryRename(func() error { return t.root.Rename(from, to) })
	})
}

// File is a temporary file on its way to a name. It is used by one goroutine,
// which ends it with Commit, Abort or [Group.Add].
type File struct {
	tree    *Tree
	file    *os.File // nil after the end
	name    string
	written int64 // bytes so far
	started int64 // of them, those whose way to the disk has begun
}

// created numbers the temporary files of this process.
var created atomic.Uint64

// Create makes a temporary file in the directory dir of the tree; it must be
// on the file system of the final name. perm is reduced by the umask unless
// the tree is Exact.
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
	if err == nil && f.file == nil { // a fault that did not land
		err = fmt.Errorf("create %s: %w", f.name, fs.ErrNotExist)
	}
	if err != nil {
		f.Abort()
		return nil, err
	}
	return f, nil
}

// Name is the temporary file's name in the tree.
func (f *File) Name() string { return f.name }

// Write appends p. A full disk is an error that [IsNoSpace] knows.
func (f *File) Write(p []byte) (int, error) {
	n := len(p) // as a write pretends that is lost without an error
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

// startWriting begins to move to the disk what it has not seen yet, without
// waiting for the end. Errors show at the sync.
func (f *File) startWriting() {
	startWriteBehind(f.file, f.started, f.written-f.started)
	f.started = f.written
}

// StartWriting begins to move a part of a file, in bytes, to the disk without
// waiting for the end, for those who write a file by other means. It is a hint:
// errors show at the flush.
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

// Commit makes the content durable and moves it to its name, replacing what
// is there. On an error the temporary file is gone; only if the last flush, of
// the directory, has failed does the new file stand under its name, and
// whether it stays there after a power loss is open.
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

// Abort drops the temporary file. After Commit it must not be called.
func (f *File) Abort() {
	_ = f.close() // the content is unwanted
	// A temporary file that cannot be removed is left to Sweep.
	_ = f.tree.root.Remove(f.name)
}
