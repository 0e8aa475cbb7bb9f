package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sync"
)

const (
	// manyFiles is the number of files, or of directories, above which one flush
	// of the whole file system is cheaper than one flush of each. Such a flush
	// also writes the data of other programs, which does not pay below this
	// number. A group keeps at most this many files open.
	manyFiles = 32
	// syncers limits the concurrent flushes. A journaling file system serves
	// several of them with one write of its journal.
	syncers = 8
)

// Group makes many files durable together. Add, SyncDir and Mkdir may be called
// by several goroutines. Commit or Abort ends the group; all other calls must
// have returned before.
type Group struct {
	tree  *Tree
	bulk  *bulk          // nil if the whole file system cannot be flushed reliably
	slots chan struct{}  // semaphore of the flushes
	wg    sync.WaitGroup // running flushes

	mu    sync.Mutex
	files []pending           // guarded by mu
	open  []*File             // the files that Commit flushes one by one; guarded by mu
	dirs  map[string]struct{} // to be flushed after the renames; guarded by mu
	err   error               // errors of the flushes; guarded by mu
}

// pending is a complete temporary file with its final name.
type pending struct {
	file *File
	name string
}

// NewGroup begins a group. Call it before the group's files are written: the
// operating system reports only write errors that happen later.
func (t *Tree) NewGroup() *Group {
	return &Group{
		tree:  t,
		bulk:  openBulk(t.root),
		slots: make(chan struct{}, syncers),
		dirs:  make(map[string]struct{}),
	}
}

// Add hands a completely written file over to the group, which will rename it to
// name. It begins to write the file to the disk; Commit reports the errors.
func (g *Group) Add(f *File, name string) {
	if g.bulk == nil {
		g.flush(f)
	} else {
		f.startWriting()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.files = append(g.files, pending{f, name})
	g.addDir(path.Dir(name))
	if g.bulk == nil {
		return
	}
	g.open = append(g.open, f)
	if len(g.files) > manyFiles {
		// syncFiles flushes them with the whole file system, which needs no open
		// files.
		for _, f := range g.open {
			g.err = errors.Join(g.err, f.close())
		}
		g.open = nil
	}
}

// flush begins to flush and close a file. It waits while too many flushes run.
func (g *Group) flush(f *File) {
	g.slots <- struct{}{}
	g.wg.Go(func() {
		defer func() { <-g.slots }()
		if err := f.sync(); err != nil {
			g.fail(err)
		}
	})
}

func (g *Group) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err = errors.Join(g.err, err)
}

// Mkdir makes one directory if it does not exist. Commit flushes its parent in
// any case: another process may have made the directory and not have flushed it
// yet.
func (g *Group) Mkdir(name string, perm fs.FileMode) error {
	g.SyncDir(path.Dir(name))
	return g.tree.Mkdir(name, perm)
}

// SyncDir makes Commit flush the directory name too.
func (g *Group) SyncDir(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.addDir(name)
}

// addDir registers a directory to be flushed. A flush of the whole file system
// needs no further names: a group of a million files would hold millions.
func (g *Group) addDir(name string) {
	if g.bulk == nil || len(g.dirs) <= manyFiles {
		g.dirs[name] = struct{}{}
	}
}

// Commit flushes all files, renames each to its final name and flushes the
// directories. If it fails, some files may have their final names, each of them
// complete; the others are removed.
func (g *Group) Commit() error {
	err := g.syncFiles()
	for len(g.files) > 0 && err == nil {
		p := g.files[0]
		if err = g.tree.rename(p.file.name, p.name); err == nil {
			g.files = g.files[1:]
		}
	}
	if err == nil {
		err = g.syncDirs()
	}
	g.Abort()
	return err
}

// syncFiles makes the content of all files durable.
func (g *Group) syncFiles() error {
	if len(g.files) > manyFiles && g.bulk != nil {
		if err := g.tree.do(OpSyncAll, ".", g.bulk.sync); err != nil {
			g.fail(fmt.Errorf("flush the file system: %w", err))
		}
	}
	for _, f := range g.open {
		g.flush(f)
	}
	g.open = nil
	g.wg.Wait()
	return g.err
}

// syncDirs makes the file names durable.
func (g *Group) syncDirs() error {
	if len(g.dirs) > manyFiles && g.bulk != nil {
		return g.tree.do(OpSyncAll, ".", g.bulk.sync)
	}
	names := make([]string, 0, len(g.dirs))
	for name := range g.dirs {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		g.slots <- struct{}{}
		g.wg.Go(func() {
			defer func() { <-g.slots }()
			if err := g.tree.SyncDir(name); err != nil {
				g.fail(err)
			}
		})
	}
	g.wg.Wait()
	return g.err
}

// Abort removes all files without a final name. It does nothing after Commit.
func (g *Group) Abort() {
	g.wg.Wait()
	for _, p := range g.files {
		p.file.Abort()
	}
	g.files, g.open = nil, nil
	g.bulk.close()
	g.bulk = nil
}
