package symstore

import (
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/symdepot/symdepot/internal/durable"
)

// dirCache does many small file operations; see dircache_unix.go. On Windows it
// uses the os.Root for all of them.
type dirCache struct{ root *os.Root }

func (n *dirCache) close() {}

// rename replaces a file only by a file. Windows would also replace a file by a
// folder.
func (n *dirCache) rename(from, to string) error {
	if old, err := n.root.Lstat(to); err == nil && !old.IsDir() {
		if info, err := n.root.Lstat(from); err == nil && info.IsDir() {
			return &os.LinkError{Op: "rename", Old: from, New: to, Err: syscall.ENOTDIR}
		}
	}
	return durable.Rename(n.root, from, to)
}

// renameNow renames a file without waiting for programs that hold it open.
func (n *dirCache) renameNow(from, to string) error { return n.root.Rename(from, to) }

func (n *dirCache) link(from, to string) error { return n.root.Link(from, to) }

func (n *dirCache) exists(name string) bool {
	_, err := n.root.Lstat(name)
	return err == nil
}

func (n *dirCache) names(name string) ([]string, error) { return readNames(n.root, name) }

func (n *dirCache) read(name string, limit int) ([]byte, error) {
	return readSmall(n.root, name, limit)
}

func (n *dirCache) mkdir(name string) error { return mkdir(n.root, name) }

func (n *dirCache) create(name string) (*os.File, error) {
	return n.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
}

func (n *dirCache) chtimes(name string, t time.Time) error { return n.root.Chtimes(name, t, t) }

func (n *dirCache) closeDir(string) {}

// write flushes at once: on Windows, a flush needs a file that is open for writing.
func (n *dirCache) write(name string, data []byte) error {
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

func (n *dirCache) patch(name string, data []byte) error {
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
