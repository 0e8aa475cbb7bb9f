package scan

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/symdepot/symdepot/internal/base/sorting"
)

// root walks one of the given paths. It follows a symbolic link.
func (w *walk) root(path string) {
	path = filepath.Clean(path)
	info, err := os.Stat(path)
	if err != nil {
		w.skip(path, reasonOf(err), err)
		return
	}
	w.found(path, info.Mode())
}

// found visits a folder or a file.
func (w *walk) found(path string, mode fs.FileMode) {
	switch {
	case mode.IsDir():
		if w.opt.FollowSymlinks && !w.enter(path) {
			return
		}
		w.folder(path)
	case mode.IsRegular() && w.parts[path]:
	case mode.IsRegular():
		w.disk(path)
	default:
		w.skip(path, ReasonIrregular, errors.New(kindOfMode(mode)))
	}
}

// enter records a folder as walked. It returns false if it was walked before:
// through a link to a parent folder, which is a loop, or through a second link
// to the folder. Without this check such links could double the walk at each
// level.
func (w *walk) enter(path string) bool {
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		w.skip(path, reasonOf(err), err)
		return false
	}
	if w.seen[real] {
		w.skip(path, ReasonLoop, nil)
		return false
	}
	if w.seen == nil {
		w.seen = map[string]bool{}
	}
	w.seen[real] = true
	return true
}

func kindOfMode(m fs.FileMode) string {
	switch {
	case m&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return strings.TrimSpace(m.String())
}

func (w *walk) folder(dir string) {
	entries, err := os.ReadDir(dir) // sorted; after an error, the entries read before it
	if w.opt.Beside {               // an installer package gives the files in its cabinets their names
		sorting.Stable(entries, func(a, b fs.DirEntry) int { return rank(a.Name()) - rank(b.Name()) })
	}
	for _, e := range entries {
		if w.ended() {
			return
		}
		path := filepath.Join(dir, e.Name())
		mode := e.Type()
		if mode&fs.ModeSymlink != 0 {
			if !w.opt.FollowSymlinks {
				w.skip(path, ReasonSymlink, nil)
				continue
			}
			info, err := os.Stat(path)
			if err != nil {
				w.skip(path, reasonOf(err), err)
				continue
			}
			mode = info.Mode()
		}
		w.found(path, mode)
	}
	if err != nil {
		w.skip(dir, reasonOf(err), err)
	}
}

// rank is 0 for the names of installer packages, else 1.
func rank(name string) int {
	if installerName(name) {
		return 0
	}
	return 1
}

// disk visits a regular file.
func (w *walk) disk(path string) {
	s, err := openDisk(path)
	if err != nil {
		w.skip(path, reasonOf(err), err)
		return
	}
	defer s.drop()
	if w.opt.Progress != nil {
		w.opt.Progress(path, 0)
	}
	_ = w.visit(&input{
		path: path, name: filepath.Base(path), top: true,
		size: s.size, mod: s.disk.info.ModTime(),
		base: s, at: s.at,
		meter: &meter{limit: w.opt.unpackLimit(s.size), entries: w.opt.MaxEntries},
	})
}
