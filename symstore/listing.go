package symstore

import (
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/symdepot/symdepot/symfile"
	"github.com/symdepot/symdepot/symstore/internal/dircache"
)

// maxListed limits the number of cached names in all folders. A name takes
// about a hundred bytes.
const maxListed = 1 << 20

// unsettled is the age up to which the modification time of a folder is not
// trusted: file systems round it to up to two seconds.
const unsettled = 3 * time.Second

// listings finds names in any letter case, as Windows does, on case-sensitive
// disks. It caches the listings of folders that do not change.
type listings struct {
	caseless bool // the disk ignores letter case
	// frozen trusts every cached listing, because the store does not change
	// meanwhile.
	frozen bool
	from   *listings       // its listings are used too, if set
	cache  *dircache.Cache // used for listing folders, if set

	mu    sync.Mutex
	dirs  map[string]*listing // guarded by mu
	total int                 // names in dirs; guarded by mu
}

type listing struct {
	changed time.Time // of the folder
	settled bool
	names   map[string]string // by folded name
}

// isCaseless reports whether the disk ignores letter case in "000Admin". A
// store without that folder counts as case-sensitive, which is slower but
// correct.
func isCaseless(root *os.Root) bool {
	_, err := root.Lstat("000aDMIN")
	if err != nil {
		return false
	}
	_, err = root.Lstat(adminDir)
	return err == nil
}

// find returns the spelling of name in the folder dir, or an empty string. It
// tries the given spelling first, which is nearly always right, and lists the
// folder only if that fails.
func (l *listings) find(root *os.Root, dir, name string) string {
	if l.cache != nil {
		if l.cache.Exists(path.Join(dir, name)) {
			return name
		}
	} else if _, err := root.Lstat(path.Join(dir, name)); err == nil {
		return name
	}
	if l.caseless {
		return ""
	}
	for _, other := range []string{strings.ToLower(name), strings.ToUpper(name)} {
		if other != name && !l.frozen {
			if _, err := root.Lstat(path.Join(dir, other)); err == nil {
				return other
			}
		}
	}
	return l.list(root, dir)[symfile.Fold(name)]
}

// list returns the names in a folder. The map must not be changed.
func (l *listings) list(root *os.Root, dir string) map[string]string {
	l.mu.Lock()
	have := l.dirs[dir]
	l.mu.Unlock()
	if have != nil && l.frozen {
		return have.names
	}
	if l.from != nil {
		var next *listing
		if l.cache != nil && !l.from.settled(dir) {
			found, _ := l.cache.Names(dir) // a folder that cannot be listed counts as empty
			next = &listing{names: byFolded(found)}
		} else {
			next = &listing{names: l.from.list(root, dir)}
		}
		l.keep(dir, next)
		return next.names
	}
	info, err := root.Stat(dir)
	if err != nil || !info.IsDir() {
		if l.frozen {
			l.keep(dir, &listing{})
		}
		return nil
	}
	if have != nil && have.settled && have.changed.Equal(info.ModTime()) {
		return have.names
	}
	began := time.Now()
	d, err := root.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	found, err := d.Readdirnames(-1)
	if err != nil {
		return nil
	}
	next := &listing{info.ModTime(), began.Sub(info.ModTime()) > unsettled, byFolded(found)}
	l.keep(dir, next)
	return next.names
}

// byFolded indexes names by their folded form. Of two names that differ in
// letter case only, the one that sorts first is used.
func byFolded(names []string) map[string]string {
	m := make(map[string]string, len(names))
	for _, n := range names {
		folded := symfile.Fold(n)
		if have, ok := m[folded]; !ok || n < have {
			m[folded] = n
		}
	}
	return m
}

// settled reports whether a cached listing can be checked by the folder's
// modification time alone.
func (l *listings) settled(dir string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	have := l.dirs[dir]
	return have != nil && have.settled
}

func (l *listings) keep(dir string, next *listing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if have := l.dirs[dir]; have != nil {
		l.total -= len(have.names)
	}
	if l.dirs == nil || l.total+len(next.names) > maxListed {
		l.dirs, l.total = make(map[string]*listing), 0
	}
	l.dirs[dir] = next
	l.total += len(next.names)
}
