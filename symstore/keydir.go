package symstore

import (
	"errors"
	"io/fs"
	"os"
	"path"

	"github.com/symdepot/symdepot/layout"
)

// keyDir is what the folder of a key holds.
type keyDir struct {
	dir   string            // in the store
	name  string            // of the file, as the folder around spells it
	found map[string]string // entries by folded name; nil if there is no folder
	refs  []Ref
	junk  []Ref // lines of refs.ptr that cannot be read, to be kept
}

// leaf returns the path of an entry, empty if it is not there.
func (k *keyDir) leaf(name string) string {
	if n, ok := k.found[layout.Fold(name)]; ok {
		return path.Join(k.dir, n)
	}
	return ""
}

func (k *keyDir) hasRefs() bool { return k.leaf(refsLeaf) != "" }

// stored returns the path of the file in either form, the plain one first.
func (k *keyDir) stored() string {
	if p := k.leaf(k.name); p != "" {
		return p
	}
	return k.leaf(compressedName(k.name))
}

// readKeyDir lists a folder and reads its refs.ptr. A folder that is not there
// is an empty one.
func (s *Store) readKeyDir(dir, name string) (*keyDir, error) {
	k := &keyDir{dir: dir, name: name}
	d, err := s.root.Open(dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return k, nil
		}
		return nil, s.wrap(err)
	}
	names, err := d.Readdirnames(-1)
	d.Close()
	if err != nil {
		return nil, s.wrap(err)
	}
	k.found = make(map[string]string, len(names))
	for _, n := range names {
		if have, ok := k.found[layout.Fold(n)]; !ok || n < have {
			k.found[layout.Fold(n)] = n
		}
	}
	if refs := k.leaf(refsLeaf); refs != "" {
		data, err := s.readText(refs)
		if err != nil {
			return nil, err
		}
		k.refs, k.junk = parseRefs(data)
	}
	return k, nil
}

// locate returns the folder of a key, in the spelling that the disk has, and
// the spelling of the name. It looks in the store's arrangement first and then
// in the other, where a conversion may not have come yet.
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
	// What is asked is nearly always spelled as it is stored.
	dir = dirOf(tiers, name, key)
	if info, err := s.root.Lstat(dir); err == nil && info.IsDir() {
		return dir, name, true
	}
	parents := []string{"."}
	if tiers == Two {
		parents = nil
		buckets := []string{layout.Bucket(name)}
		// Tools on other systems leave a trailing dot where Windows drops it.
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

// targets finds the folders that a writer will write to: existing ones in
// their spelling, new ones in that of the name. It is used under the lock.
type targets struct {
	s     *Store
	tiers Tiers
	names listings
	fresh map[string]string // spelling of folders to be made, by folded path
}

func (s *Store) newTargets() *targets {
	return &targets{
		s: s, tiers: s.Tiers(),
		names: listings{caseless: s.names.caseless, frozen: true},
		fresh: map[string]string{},
	}
}

func (t *targets) dir(name, key string) (dir, spelled string) {
	dir = "."
	if t.tiers == Two {
		dir = t.join(dir, layout.Bucket(name))
	}
	dir = t.join(dir, name)
	spelled = path.Base(dir)
	return t.join(dir, key), spelled
}

func (t *targets) join(dir, name string) string {
	wanted := path.Join(dir, name)
	if have, ok := t.fresh[layout.Fold(wanted)]; ok {
		return have
	}
	found := t.names.find(t.s.root, dir, name)
	if found == "" {
		found = name
	}
	t.fresh[layout.Fold(wanted)] = path.Join(dir, found)
	return path.Join(dir, found)
}

// openRegular opens a file if it is an ordinary one: opening a pipe would wait.
func (s *Store) openRegular(name string) (*os.File, error) {
	info, err := s.root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: ErrExists}
	}
	return s.root.Open(name)
}
