package symstore

import (
	"cmp"
	"os"
	"path"

	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
	"github.com/symdepot/symdepot/symstore/internal/dircache"
)

// keyDir is the content of the folder of a key.
type keyDir struct {
	dir   string            // relative to the root of the store
	name  string            // of the file, in the spelling of its folder
	found map[string]string // entries by folded name; nil if the folder does not exist
	refs  []Ref
	junk  []Ref // unreadable lines of refs.ptr, to be kept
}

// leaf returns the path of an entry, or an empty string.
func (k *keyDir) leaf(name string) string {
	if n, ok := k.found[symfile.Fold(name)]; ok {
		return path.Join(k.dir, n)
	}
	return ""
}

func (k *keyDir) hasRefs() bool { return k.leaf(refsLeaf) != "" }

// stored returns the path of the stored file, preferring the plain one to the
// cabinet.
func (k *keyDir) stored() string {
	if p := k.leaf(k.name); p != "" {
		return p
	}
	return k.leaf(layout.CabinetName(k.name))
}

// readKeyDir lists a folder and reads its refs.ptr. A missing folder counts as
// empty.
func (d *disk) readKeyDir(dir, name string) (*keyDir, error) {
	n := dircache.New(d.root)
	defer n.Close()
	return readKeyDir(n, dir, name)
}

func readKeyDir(n *dircache.Cache, dir, name string) (*keyDir, error) {
	k := &keyDir{dir: dir, name: name}
	names, err := n.Names(dir)
	if err != nil {
		return k, ignoreNotExist(wrapError(err))
	}
	k.found = byFolded(names)
	if refs := k.leaf(refsLeaf); refs != "" {
		data, err := n.Read(refs, maxText)
		if data, err = checkText(refs, data, err); err != nil {
			return nil, err
		}
		k.refs, k.junk = parseRefs(data)
	}
	return k, nil
}

// locate returns the folder of a key and the spelling of the name on the disk.
// It looks in the folders of the store's tiers first, then in those of the
// other kind, which a conversion may not have reached.
func (s *Store) locate(name, key string) (dir, spelled string, ok bool) {
	first, second := One, Two
	if s.Tiers() == Two {
		first, second = Two, One
	}
	for _, tiers := range []Tiers{first, second} {
		if dir, spelled, ok = s.locateIn(tiers, name, key); ok {
			return dir, spelled, true
		}
	}
	return "", "", false
}

func (s *Store) locateIn(tiers Tiers, name, key string) (dir, spelled string, ok bool) {
	// The request nearly always has the spelling of the disk.
	dir = dirOf(tiers, name, key)
	if info, err := s.root.Lstat(dir); err == nil && info.IsDir() {
		return dir, name, true
	}
	parents := []string{"."}
	if tiers == Two {
		parents = nil
		buckets := []string{layout.Bucket(name)}
		// Tools on other systems keep a trailing dot that Windows drops.
		if r := []rune(name); len(r) > 1 && string(r[:2]) != buckets[0] {
			buckets = append(buckets, string(r[:2]))
		}
		for _, b := range buckets {
			if found := s.names.find(s.root, ".", b); found != "" {
				parents = append(parents, found)
			}
		}
	}
	for _, parent := range parents {
		spelled = s.names.find(s.root, parent, name)
		if spelled == "" {
			continue
		}
		if k := s.names.find(s.root, path.Join(parent, spelled), key); k != "" {
			dir = path.Join(parent, spelled, k)
			if info, err := s.root.Lstat(dir); err == nil && info.IsDir() {
				return dir, spelled, true
			}
		}
	}
	return "", "", false
}

// targets finds the folders that a writer will write to. Existing folders keep
// their spelling. It caches what it finds, so it is used under the lock, or for
// a guess that is checked under the lock.
type targets struct {
	root  *os.Root
	tiers Tiers
	names listings
	known map[string]foundDir // by folded path
}

// foundDir is a folder that exists or must be made.
type foundDir struct {
	path  string
	there bool
}

// place is the path of a key.
type place struct {
	dir       string // of the key
	spelled   string // the name in the spelling of its folder
	name, key bool   // the folders exist
}

// newTargets returns targets that list folders with n, which they do not close.
// Without n, for targets of a long life, they use the root of the store.
func (s *Store) newTargets(n *dircache.Cache) *targets {
	return &targets{
		root: s.root, tiers: s.Tiers(),
		names: listings{caseless: s.names.caseless, frozen: true, from: &s.names, cache: n},
		known: map[string]foundDir{},
	}
}

// at finds the place of a key.
func (t *targets) at(name, key string) place {
	d := foundDir{".", true}
	if t.tiers == Two {
		d = t.join(d, layout.Bucket(name))
	}
	n := t.join(d, name)
	k := t.join(n, key)
	return place{dir: k.path, spelled: path.Base(n.path), name: n.there, key: k.there}
}

func (t *targets) dir(name, key string) (dir, spelled string) {
	p := t.at(name, key)
	return p.dir, p.spelled
}

func (t *targets) join(dir foundDir, name string) foundDir {
	wanted := symfile.Fold(dir.path + "/" + name)
	if have, ok := t.known[wanted]; ok {
		return have
	}
	found := ""
	if dir.there {
		found = t.names.find(t.root, dir.path, name)
	}
	d := foundDir{path.Join(dir.path, name), found != ""}
	if d.there {
		if t.names.caseless {
			// The file system ignores case: use the spelling that the folder lists.
			found = cmp.Or(t.names.list(t.root, dir.path)[symfile.Fold(name)], found)
		}
		d.path = path.Join(dir.path, found)
	}
	t.known[wanted] = d
	return d
}
