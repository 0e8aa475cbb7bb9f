package watch

import (
	"slices"
	"sync"
)

// dirtyFolders are the folders in which something has changed since they were scanned.
type dirtyFolders struct {
	wake chan struct{} // has one element if there are more

	mu  sync.Mutex
	set map[string]struct{} // guarded by mu
	all bool                // guarded by mu; all folders may have changed
}

func newDirtyFolders() *dirtyFolders {
	return &dirtyFolders{wake: make(chan struct{}, 1), set: map[string]struct{}{}}
}

// take returns the folders that are to be scanned, and whether that is all of them.
func (d *dirtyFolders) take() (dirs []string, all bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for dir := range d.set {
		dirs = append(dirs, dir)
	}
	slices.Sort(dirs)
	all, d.all = d.all, false
	clear(d.set)
	return dirs, all
}

// maxDirty is the number of folders from which on the whole folder is scanned.
const maxDirty = 10_000

// touch asks for a scan of a folder, in which something has changed.
func (d *dirtyFolders) touch(dir string) {
	d.mu.Lock()
	if d.set[dir] = struct{}{}; len(d.set) > maxDirty {
		d.all = true
		clear(d.set)
	}
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// touchAll asks for a scan of everything.
func (d *dirtyFolders) touchAll() {
	d.mu.Lock()
	d.all = true
	d.mu.Unlock()
	d.touch("")
}
