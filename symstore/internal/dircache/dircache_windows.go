package dircache

import (
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/symdepot/symdepot/internal/base/durable"
)

// Cache does many small file operations; see dircache_unix.go. On Windows it
// uses the os.Root for all of them.
type Cache struct{ root *os.Root }

func (n *Cache) Close() {}

// Rename replaces a file only by a file. Windows would also replace a file by a
// folder.
func (n *Cache) Rename(from, to string) error {
	if old, err := n.root.Lstat(to); err == nil && !old.IsDir() {
		if info, err := n.root.Lstat(from); err == nil && info.IsDir() {
			return &os.LinkError{Op: "rename", Old: from, New: to, Err: syscall.ENOTDIR}
		}
	}
	return durable.Rename(n.root, from, to)
}

// RenameNow renames a file without waiting for programs that hold it open.
func (n *Cache) RenameNow(from, to string) error { return n.root.Rename(from, to) }

func (n *Cache) Link(from, to string) error { return n.root.Link(from, to) }

func (n *Cache) Exists(name string) bool {
	_, err := n.root.Lstat(name)
	return err == nil
}

func (n *Cache) Names(name string) ([]string, error) { return ReadNames(n.root, name) }

func (n *Cache) Read(name string, limit int) ([]byte, error) {
	return ReadSmall(n.root, name, limit)
}

func (n *Cache) Mkdir(name string) error { return mkdir(n.root, name) }

func (n *Cache) Create(name string) (*os.File, error) {
	return n.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
}

func (n *Cache) Chtimes(name string, t time.Time) error { return n.root.Chtimes(name, t, t) }

func (n *Cache) CloseDir(string) {}

// Write flushes at once: on Windows, a flush needs a file that is open for writing.
func (n *Cache) Write(name string, data []byte) error {
	f, err := n.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func (n *Cache) Patch(name string, data []byte) error {
	f, err := n.root.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
