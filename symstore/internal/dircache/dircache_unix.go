//go:build unix

package dircache

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"
)

// maxOpenDirs limits the number of open folders.
const maxOpenDirs = 200

// Cache keeps directory handles open, so that many small file operations avoid
// the walk from the root to each file. Without it the walks take two thirds of the
// time under the store's lock. It never follows links: for paths with links, and
// after errors, it uses the os.Root instead. It is used by one goroutine.
type Cache struct {
	root *os.Root
	top  *os.File
	open map[string]int // descriptors of open folders
}

var errNotPlain = errors.New("not a plain name")

// dir returns the descriptor of a folder. It belongs to the cache.
func (n *Cache) dir(name string) (int, error) {
	if name == "." {
		if n.top == nil {
			top, err := n.root.Open(".")
			if err != nil {
				return -1, err
			}
			n.top = top
		}
		return int(n.top.Fd()), nil
	}
	if fd, ok := n.open[name]; ok {
		return fd, nil
	}
	parent, base, err := n.split(name)
	if err != nil {
		return -1, err
	}
	fd, err := openAt(parent, base, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return -1, err
	}
	if n.open == nil {
		n.open = map[string]int{}
	}
	n.open[name] = fd
	return fd, nil
}

func (n *Cache) split(name string) (parent int, base string, err error) {
	if base = path.Base(name); base == "." || base == ".." || base == "/" || path.IsAbs(name) {
		return -1, "", errNotPlain
	}
	parent, err = n.dir(path.Dir(name))
	return parent, base, err
}

func openAt(parent int, base string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(parent, base, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o666)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// maybeSymlink reports whether an error may come from a symbolic link, which os.Root
// follows.
func maybeSymlink(err error) bool {
	return err == errNotPlain || err == unix.ELOOP || err == unix.ENOTDIR || err == unix.EMLINK
}

// evict closes all folders if the limit is reached, so that the next few
// opened ones stay open together.
func (n *Cache) evict() {
	if len(n.open) > maxOpenDirs {
		n.closeAll()
	}
}

// closeAll closes all folders.
func (n *Cache) closeAll() {
	for _, fd := range n.open {
		_ = unix.Close(fd) // opened for reading
	}
	clear(n.open)
}

// Close closes all folders.
func (n *Cache) Close() {
	n.closeAll()
	if n.top != nil {
		n.top.Close()
		n.top = nil
	}
}

// inBoth calls do with the folder and base name of both paths.
func (n *Cache) inBoth(from, to string, do func(int, string, int, string) error) error {
	n.evict()
	a, x, err := n.split(from)
	if err != nil {
		return err
	}
	b, y, err := n.split(to)
	if err != nil {
		return err
	}
	return do(a, x, b, y)
}

// Rename works like os.Root.Rename.
func (n *Cache) Rename(from, to string) error {
	if n.inBoth(from, to, unix.Renameat) == nil {
		return nil
	}
	n.closeAll()
	return n.root.Rename(from, to)
}

// RenameNow is Rename: here a rename never waits.
func (n *Cache) RenameNow(from, to string) error { return n.Rename(from, to) }

// Link works like os.Root.Link.
func (n *Cache) Link(from, to string) error {
	err := n.inBoth(from, to, func(a int, x string, b int, y string) error { return unix.Linkat(a, x, b, y, 0) })
	if err == nil {
		return nil
	}
	n.closeAll()
	return n.root.Link(from, to)
}

// Exists reports whether a file or folder exists.
func (n *Cache) Exists(name string) bool {
	n.evict()
	parent, base, err := n.split(name)
	if err == nil {
		var st unix.Stat_t
		err = unix.Fstatat(parent, base, &st, unix.AT_SYMLINK_NOFOLLOW)
	}
	if err == nil || err == unix.ENOENT {
		return err == nil
	}
	_, err = n.root.Lstat(name)
	return err == nil
}

// Names lists a folder.
func (n *Cache) Names(name string) ([]string, error) {
	n.evict()
	fd, err := n.dir(name)
	if err == nil {
		_, err = unix.Seek(fd, 0, 0)
	}
	var list []string
	buf := make([]byte, 8<<10)
	for err == nil {
		var k int
		if k, err = unix.ReadDirent(fd, buf); err == nil && k <= 0 {
			return list, nil
		}
		if err == nil {
			_, _, list = unix.ParseDirent(buf[:k], -1, list)
		}
	}
	if err == unix.ENOENT {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	n.closeAll()
	return ReadNames(n.root, name)
}

// Read reads a regular file of up to limit bytes, and one byte more of a longer
// one.
func (n *Cache) Read(name string, limit int) ([]byte, error) {
	n.evict()
	parent, base, err := n.split(name)
	if err != nil {
		return ReadSmall(n.root, name, limit)
	}
	fd, err := openAt(parent, base, unix.O_RDONLY|unix.O_NONBLOCK)
	if err == unix.ENOENT {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	if err != nil {
		return ReadSmall(n.root, name, limit)
	}
	defer func() { _ = unix.Close(fd) }() // opened for reading
	data := make([]byte, 0, 1024)
	for len(data) <= limit {
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
		k, err := unix.Read(fd, data[len(data):cap(data)])
		switch {
		case err == unix.EINTR:
		case err != nil:
			return nil, &fs.PathError{Op: "read", Path: name, Err: err}
		case k == 0:
			return data, nil
		default:
			data = data[:len(data)+k]
		}
	}
	return data[:limit+1], nil
}

// Mkdir makes a folder. An existing one is no error.
func (n *Cache) Mkdir(name string) error {
	n.evict()
	parent, base, err := n.split(name)
	if err == nil {
		err = unix.Mkdirat(parent, base, 0o777)
	}
	switch {
	case err == nil || err == unix.EEXIST:
		return nil
	case maybeSymlink(err):
		return mkdir(n.root, name)
	}
	return &fs.PathError{Op: "mkdir", Path: name, Err: err}
}

// Create creates a file that must not exist.
func (n *Cache) Create(name string) (*os.File, error) {
	n.evict()
	parent, base, err := n.split(name)
	if err == nil {
		var fd int
		if fd, err = openAt(parent, base, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL); err == nil {
			return os.NewFile(uintptr(fd), name), nil
		}
	}
	if maybeSymlink(err) {
		return n.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: err}
}

// Chtimes sets the time of a file.
func (n *Cache) Chtimes(name string, t time.Time) error {
	n.evict()
	parent, base, err := n.split(name)
	if err != nil {
		return n.root.Chtimes(name, t, t)
	}
	ts := unix.NsecToTimespec(t.UnixNano())
	return unix.UtimesNanoAt(parent, base, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW)
}

// CloseDir closes a folder that is not needed any more.
func (n *Cache) CloseDir(name string) {
	if fd, ok := n.open[name]; ok {
		_ = unix.Close(fd) // opened for reading
		delete(n.open, name)
	}
}

// Write creates or replaces a small file. It does not flush it.
func (n *Cache) Write(name string, data []byte) error {
	return n.writeAt(name, data, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
}

// Patch overwrites the first bytes of a file.
func (n *Cache) Patch(name string, data []byte) error {
	return n.writeAt(name, data, os.O_WRONLY)
}

func (n *Cache) writeAt(name string, data []byte, flags int) error {
	n.evict()
	parent, base, err := n.split(name)
	if err == nil {
		var fd int
		if fd, err = openAt(parent, base, flags); err == nil {
			return writeClose(fd, name, data)
		}
	}
	if maybeSymlink(err) {
		f, err := n.root.OpenFile(name, flags, 0o666)
		if err != nil {
			return err
		}
		_, err = f.Write(data)
		return errors.Join(err, f.Close())
	}
	return &fs.PathError{Op: "open", Path: name, Err: err}
}

func writeClose(fd int, name string, data []byte) error {
	var err error
	for len(data) > 0 && err == nil {
		var k int
		if k, err = unix.Write(fd, data); err == unix.EINTR {
			err = nil
			continue
		}
		data = data[max(k, 0):]
	}
	if closed := unix.Close(fd); err == nil {
		err = closed
	}
	if err != nil {
		return &fs.PathError{Op: "write", Path: name, Err: err}
	}
	return nil
}
