package watch

import (
	"encoding/binary"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// inotify reports changes in the folders of this machine.
type inotify struct {
	dirty *dirtyFolders
	dir   string
	fd    *os.File
	end   sync.WaitGroup

	mu    sync.Mutex
	paths map[int32]string // guarded by mu
	ids   map[string]int32 // guarded by mu
}

func (l *local) notify(dirty *dirtyFolders) (notifier, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	n := &inotify{dirty: dirty, dir: l.dir, fd: os.NewFile(uintptr(fd), "inotify"), paths: map[int32]string{}, ids: map[string]int32{}}
	n.end.Go(n.read)
	l.mu.Lock()
	l.moved = n.again
	l.mu.Unlock()
	return n, nil
}

// add does not follow a link in the place of the folder. Links above it lead to a folder
// whose changes make a scan, which follows no links.
func (n *inotify) add(dir string) error {
	const what = unix.IN_CLOSE_WRITE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_DELETE | unix.IN_CREATE | unix.IN_ATTRIB |
		unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR | unix.IN_EXCL_UNLINK
	flags := uint32(what)
	if dir != "" {
		flags |= unix.IN_DONT_FOLLOW
	}
	raw, err := n.fd.SyscallConn()
	if err != nil {
		return err
	}
	var id int
	var addErr error
	err = raw.Control(func(fd uintptr) {
		id, addErr = unix.InotifyAddWatch(int(fd), filepath.Join(n.dir, filepath.FromSlash(dir)), flags)
	})
	switch {
	case err != nil:
		return err
	case errors.Is(addErr, unix.ENOSPC), errors.Is(addErr, unix.ENOMEM):
		return errors.Join(errTooMany, addErr)
	case addErr != nil:
		return addErr
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if old, ok := n.paths[int32(id)]; ok && n.ids[old] == int32(id) {
		delete(n.ids, old) // the folder had another name before
	}
	n.paths[int32(id)], n.ids[dir] = dir, int32(id)
	return nil
}

func (n *inotify) has(dir string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	id, ok := n.ids[dir]
	return ok && n.paths[id] == dir
}

// again forgets all folders, because others have their paths now, and asks for a scan,
// which adds those.
func (n *inotify) again() {
	n.mu.Lock()
	old := slices.Collect(maps.Keys(n.paths))
	clear(n.paths)
	clear(n.ids)
	n.mu.Unlock()
	n.remove(old)
	n.dirty.touchAll()
}

// forget forgets a folder and those in it, which are elsewhere now: others may get their
// paths. It returns what they were. The caller holds n.mu.
func (n *inotify) forget(dir string) (paths []string, ids []int32) {
	for path, id := range n.ids {
		if path != dir && dir != "" && !strings.HasPrefix(path, dir+"/") {
			continue
		}
		delete(n.ids, path)
		if n.paths[id] == path {
			delete(n.paths, id)
			paths, ids = append(paths, path), append(ids, id)
		}
	}
	return paths, ids
}

// remove ends the reports of folders.
func (n *inotify) remove(ids []int32) {
	if len(ids) == 0 {
		return
	}
	raw, err := n.fd.SyscallConn()
	if err != nil {
		return // it is closed
	}
	_ = raw.Control(func(fd uintptr) {
		for _, id := range ids {
			_, _ = unix.InotifyRmWatch(int(fd), uint32(id)) // it may have ended by itself
		}
	})
}

func (n *inotify) close() error {
	err := n.fd.Close()
	n.end.Wait()
	return err
}

// read reads events until the descriptor is closed.
func (n *inotify) read() {
	buf := make([]byte, 64<<10)
	for {
		size, err := n.fd.Read(buf)
		if err != nil {
			if !errors.Is(err, os.ErrClosed) {
				n.dirty.touchAll()
			}
			return
		}
		for b := buf[:size]; len(b) >= unix.SizeofInotifyEvent; {
			id, mask := int32(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint32(b[4:])
			end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
			if end > len(b) {
				break
			}
			name := strings.TrimRight(string(b[unix.SizeofInotifyEvent:end]), "\x00")
			b = b[end:]
			n.event(id, mask, name)
		}
	}
}

func (n *inotify) event(id int32, mask uint32, name string) {
	if mask&unix.IN_Q_OVERFLOW != 0 {
		n.dirty.touchAll()
		return
	}
	n.mu.Lock()
	dir, ok := n.paths[id]
	var moved []string
	var ids []int32
	switch {
	case !ok:
	case mask&unix.IN_MOVE_SELF != 0:
		moved, ids = n.forget(dir)
	case mask&unix.IN_IGNORED != 0:
		delete(n.paths, id)
		if n.ids[dir] == id {
			delete(n.ids, dir)
		}
	}
	n.mu.Unlock()
	n.remove(ids) // a scan watches them again if they are still in the tree
	for _, path := range moved {
		n.dirty.touch(path)
	}
	switch {
	case !ok:
	case mask&unix.IN_CREATE != 0 && mask&unix.IN_ISDIR == 0:
		// A new file is reported when it is closed. A hard link is never opened.
		if info, err := os.Lstat(filepath.Join(n.dir, filepath.FromSlash(dir), name)); err == nil && info.Size() > 0 {
			n.dirty.touch(dir)
		}
	default:
		n.dirty.touch(dir)
	}
}
