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
	// manyFiles is the number of files, or of directories, from which one
	// flush of the whole file system is cheaper than a flush of each. Below it
	// the strangers' data that such a flush writes too is not worth it, and
	// this many open files are not missed.
	manyFiles = 32
	// syncers is the number of flushes under way at once. File systems with a
	// journal serve several with one write of it.
	syncers = 8
)

// Group makes many files durable together. Add, SyncDir and Mkdir may be
// called by several goroutines; Commit or Abort ends the group, after all of
// them have returned.
type Group struct {
	tree  *Tree
	bulk  *bulk // nil where the whole file system cannot be flushed reliably
	slots chan struct{}
	wg    sync.WaitGroup // flushes under way

	mu    sync.Mutex
	files []pending           // guarded by mu
	open  []*File             // those of files to be flushed by Commit one by one; guarded by mu
	dirs  map[string]struct{} // to be flushed after the renames; guarded by mu
	err   error               // of the flushes; guarded by mu
}

// pending is a complete temporary file and the name it shall get.
type pending struct {
	file *File
	name string
}

// NewGroup begins a group. It must begin before its files are written, since
// the errors of writing are counted from here.
func (t *Tree) NewGroup() *Group {
	return &Group{
		tree:  t,
		bulk:  openBulk(t.root),
		slots: make(chan struct{}, syncers),
		dirs:  make(map[string]struct{}),
	}
}

// Add takes over a completely written file, which shall be called name. Its
// way to the disk begins; the group's end tells how it went.
func (g *Group) Add(f *File, name string) {
	if g.bulk == nil {
		g.flush(f)
	} else {
		f.startWriting()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.files = append(g.files, pending{f, name})
	g.dirs[path.Dir(name)] = struct{}{}
	if g.bulk == nil {
		return
	}
	g.open = append(g.open, f)
	if len(g.files) > manyFiles {
		// They will be flushed as a whole, which needs none of them open.
		for _, f := range g.open {
			g.err = errors.Join(g.err, f.close())
		}
		g.open = nil
	}
}

// flush begins to flush and close a file, waiting while too many are at it.
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

// Mkdir makes one directory, if it is not there yet, and lets Commit flush its
// parent: another process may have made it and not have come to that.
func (g *Group) Mkdir(name string, perm fs.FileMode) error {
	g.SyncDir(path.Dir(name))
	return g.tree.Mkdir(name, perm)
}

// SyncDir lets Commit flush the directory name as well.
func (g *Group) SyncDir(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dirs[name] = struct{}{}
}

// Commit flushes all files, then moves each to its name, then flushes the
// directories. If it fails, some files may stand under their names, each of
// them whole; the others are gone.
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
			g.fail(fmt.Errorf("sync of the file system: %w", err))
		}
	}
	for _, f := range g.open {
		g.flush(f)
	}
	g.open = nil
	g.wg.Wait()
	return g.err
}

// syncDirs makes the names durable.
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

// Abort drops all files that have no name yet. It does nothing after Commit.
func (g *Group) Abort() {
	g.wg.Wait()
	for _, p := range g.files {
		p.file.Abort()
	}
	g.files, g.open = nil, nil
	g.bulk.close()
	g.bulk = nil
}
