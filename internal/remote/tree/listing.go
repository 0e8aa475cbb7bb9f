package tree

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/symdepot/symdepot/symfile"
)

const (
	// maxListed is how many names are kept of all listed folders; one costs
	// about a hundred bytes.
	maxListed = 1 << 20
	// unsettled is the age below which a folder may have changed again without a new
	// modification time: file systems store it in steps of up to two seconds.
	unsettled = 3 * time.Second
	// expiry is the age at which a listing is read again although the folder has the
	// same modification time: on network disks that time may be outdated.
	expiry = time.Minute
)

// tree finds files below a folder in any case of their names, as Windows does.
// It never leaves the folder, not even through a symbolic link.
type tree struct {
	root *os.Root
	now  func() time.Time

	mu    sync.Mutex
	dirs  map[string]*listing // guarded by mu
	total int                 // names in dirs; guarded by mu
}

type listing struct {
	read    time.Time
	took    time.Duration     // to read it
	changed time.Time         // modification time of the folder
	names   map[string]string // by folded form
	sorted  func() []string   // the keys of names
}

// find returns the path on disk of the file or folder that parts name.
func (t *tree) find(parts ...string) (string, bool) {
	for _, p := range parts {
		if !symfile.ValidName(p) {
			return "", false
		}
	}
	// Nearly all requests have the spelling of the disk.
	exact := path.Join(parts...)
	if _, err := t.root.Stat(exact); err == nil {
		return exact, true
	}
	found := "."
	for _, p := range parts {
		name, ok := t.list(found).names[symfile.Fold(p)]
		if !ok {
			return "", false
		}
		found = path.Join(found, name)
	}
	return found, true
}

// withPrefix returns the folded names in a folder that begin with prefix, which
// is folded, in order.
func (t *tree) withPrefix(dir, prefix string) []string {
	sorted := t.list(dir).sorted()
	i, _ := slices.BinarySearch(sorted, prefix)
	n := i
	for n < len(sorted) && strings.HasPrefix(sorted[n], prefix) {
		n++
	}
	return sorted[i:n:n]
}

// emptyListing is the listing of a path that is not a readable folder.
var emptyListing = &listing{sorted: func() []string { return nil }}

// list returns the names in a folder, which must not be changed. A folder that
// cannot be read is empty.
func (t *tree) list(dir string) *listing {
	info, err := t.root.Stat(dir)
	if err != nil || !info.IsDir() {
		return emptyListing
	}
	began := t.now()
	t.mu.Lock()
	have := t.dirs[dir]
	t.mu.Unlock()
	if have != nil {
		age := began.Sub(have.read)
		if have.changed.Equal(info.ModTime()) && have.read.Sub(have.changed) > unsettled && age < expiry {
			return have
		}
		if age >= 0 && age < 10*have.took {
			// A large folder that changes constantly is not read each time: new
			// files are found by their exact names.
			return have
		}
	}
	d, err := t.root.Open(dir)
	if err != nil {
		return emptyListing
	}
	defer d.Close()
	found, err := d.Readdirnames(-1)
	if err != nil {
		return emptyListing
	}
	next := &listing{read: began, took: t.now().Sub(began), changed: info.ModTime(), names: make(map[string]string, len(found))}
	next.sorted = sync.OnceValue(func() []string { return slices.Sorted(maps.Keys(next.names)) })
	for _, n := range found {
		// Of two names that differ in case only, the first in sorted order is used.
		if have, ok := next.names[symfile.Fold(n)]; !ok || n < have {
			next.names[symfile.Fold(n)] = n
		}
	}
	t.keep(dir, next)
	return next
}

func (t *tree) keep(dir string, next *listing) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if have := t.dirs[dir]; have != nil {
		t.total -= len(have.names)
	}
	if t.dirs == nil || t.total+len(next.names) > maxListed {
		t.dirs, t.total = make(map[string]*listing), 0
	}
	t.dirs[dir] = next
	t.total += len(next.names)
}

// open opens a regular file. Everything else is fs.ErrNotExist, and so are targets
// of links outside the folder.
func (t *tree) open(name string) (*os.File, fs.FileInfo, error) {
	absent := &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	// Checked first: opening a pipe would block.
	info, err := t.root.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return nil, nil, absent
	}
	f, err := t.root.Open(name)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil, absent
		}
		return nil, nil, err
	}
	if info, err = f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, nil, errors.Join(absent, f.Close())
	}
	return f, info, nil
}
