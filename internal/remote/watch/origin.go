package watch

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/cespare/xxhash/v2"

	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/index/watched"
)

// stamp is what tells a file from its changed successor.
type stamp struct {
	size, mtime, ctime int64
	inode              uint64
	tag                string // of an object in a bucket: its entity tag
}

// stampOf returns the stamp of a row.
func stampOf(f watched.File) stamp {
	return stamp{f.Size, f.MTime, f.CTime, f.Inode, f.Tag}
}

// print returns the fingerprint of a file that is of no interest.
func (s stamp) print(name string) uint64 {
	var b []byte
	b = append(b, name...)
	b = append(b, 0)
	b = append(b, s.tag...)
	for _, v := range []int64{s.size, s.mtime, s.ctime, int64(s.inode)} {
		for i := range 8 {
			b = append(b, byte(v>>(8*i)))
		}
	}
	return xxhash.Sum64(b)
}

// found is a file in a folder.
type found struct {
	name  string
	stamp stamp
}

// origin is where the files are: a folder of this machine or a bucket. Paths are relative
// to it, with slashes.
type origin interface {
	name() string
	// here says which folder is there: an id that another one does not have, "" if that
	// cannot be told, and whether nothing is in it.
	here(ctx context.Context) (id string, empty bool, err error)
	// snapshot returns how the folders are listed in a scan of all of them.
	snapshot(ctx context.Context) (lister, error)
	// folder lists the regular files of one folder and the folders in it.
	folder(ctx context.Context, dir string) (files []found, dirs []string, err error)
	// open opens a regular file.
	open(ctx context.Context, path string) (handle, error)
	// notify starts to report changed folders.
	notify(dirty *dirtyFolders) (notifier, error)
	close() error
}

// lister is origin.folder, for one scan.
type lister func(ctx context.Context, dir string) (files []found, dirs []string, err error)

// handle is an open file.
type handle interface {
	io.ReaderAt
	io.Closer
	stamp() stamp
	// changed reports whether the file has another stamp now.
	changed() bool
}

// local is a folder of this machine. It is not kept open, because a folder that is open
// cannot be unmounted, nor moved on Windows.
type local struct {
	dir string

	mu    sync.Mutex
	info  fs.FileInfo // guarded by mu; of the folder that had the path last; nil: none yet
	moved func()      // guarded by mu; called when another folder has the path; nil: nothing is to be done
}

func openLocal(dir string) (*local, error) {
	abs, err := filepath.Abs(dir)
	return &local{dir: abs}, err
}

func (l *local) name() string { return l.dir }

func (l *local) close() error { return nil }

// use calls do with the folder that has the path now. That is another one than before
// after a mount, or when a build has moved its folder away and made a new one. While
// no folder has the path, nothing is there.
func (l *local) use(do func(*os.Root) error) error {
	root, err := os.OpenRoot(l.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	info, err := root.Stat(".")
	if err != nil {
		return err
	}
	l.mu.Lock()
	moved := l.moved
	if l.info == nil || os.SameFile(info, l.info) {
		moved = nil
	}
	l.info = info
	l.mu.Unlock()
	if moved != nil {
		moved()
	}
	return do(root)
}

func (l *local) here(context.Context) (id string, empty bool, err error) {
	err = l.use(func(root *os.Root) error {
		d, err := root.Open(".")
		if err != nil {
			return err
		}
		defer d.Close()
		info, err := d.Stat()
		if err != nil {
			return err
		}
		id = folderID(info)
		if _, err = d.Readdirnames(1); errors.Is(err, io.EOF) {
			empty, err = true, nil
		}
		return err
	})
	return id, empty, err
}

func (l *local) snapshot(context.Context) (lister, error) { return l.folder, nil }

// folder does not follow links. Of a file that is being deleted nothing is reported.
func (l *local) folder(_ context.Context, dir string) (files []found, dirs []string, err error) {
	var d *os.File
	err = l.use(func(root *os.Root) (err error) {
		d, err = root.Open(orDot(dir))
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	defer d.Close()
	entries, err := d.ReadDir(-1)
	for _, e := range entries {
		switch {
		case e.IsDir():
			dirs = append(dirs, e.Name())
		case e.Type().IsRegular():
			info, infoErr := e.Info()
			if errors.Is(infoErr, fs.ErrNotExist) {
				continue
			}
			if infoErr != nil {
				err = errors.Join(err, infoErr)
				continue
			}
			if info.Mode().IsRegular() {
				files = append(files, found{e.Name(), fileStamp(info)})
			}
		}
	}
	sorting.By(files, func(a, b found) int { return strings.Compare(a.name, b.name) })
	slices.Sort(dirs)
	return files, dirs, err
}

func orDot(dir string) string {
	if dir == "" {
		return "."
	}
	return filepath.FromSlash(dir)
}

// open opens a file, and only a regular one, inside the folder. It does not block if the
// path has become a named pipe.
func (l *local) open(_ context.Context, p string) (handle, error) {
	var f *os.File
	err := l.use(func(root *os.Root) (err error) {
		f, err = root.OpenFile(filepath.FromSlash(p), os.O_RDONLY|nonblock, 0)
		return err
	})
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New(p + " is not a regular file")
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &localFile{File: f, was: fileStamp(info)}, nil
}

// localFile is an open file of this machine.
type localFile struct {
	*os.File
	was stamp
}

func (f *localFile) stamp() stamp { return f.was }

func (f *localFile) changed() bool {
	info, err := f.Stat()
	return err != nil || fileStamp(info) != f.was
}

// within joins the path of a file.
func within(dir, name string) string { return path.Join(dir, name) }

func trimSlash(s string) string { return strings.TrimPrefix(s, "/") }
