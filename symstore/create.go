package symstore

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"github.com/symdepot/symdepot/symstore/internal/lockfile"
)

// maker records that this Store created the store on disk. After a failure, a store
// that is still empty is removed again.
type maker struct {
	mu      sync.Mutex
	made    bool     // guarded by mu
	tiers   Tiers    // guarded by mu
	missing []string // folders that did not exist before, the innermost first; guarded by mu
	undone  bool     // guarded by mu
}

func (m *maker) begin(tiers Tiers, missing []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.made, m.tiers, m.missing = true, tiers, missing
}

// end removes the folders that were created for a store that was removed.
func (m *maker) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.undone {
		removeDirs(m.missing)
	}
}

// missingDirs lists the folders that MkdirAll will create, the innermost first.
func missingDirs(dir string) []string {
	var list []string
	dir, err := filepath.Abs(dir)
	for err == nil {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		list = append(list, dir)
		dir = filepath.Dir(dir)
	}
	return list
}

func removeDirs(list []string) {
	for _, dir := range list {
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return // it is not empty
		}
	}
}

// create creates the marker files of a new store. index2.txt comes first, because
// other writers treat the folder as a store as soon as 000Admin exists.
func (s *Store) create(tiers Tiers) error {
	if tiers == Two {
		if err := s.touch(index2File); err != nil {
			return err
		}
	}
	if err := s.tree.MkdirAll(adminDir, 0o777); err != nil {
		return wrapError(err)
	}
	return s.touch(pingmeFile)
}

// recreate creates the marker files again if the writer that created the store
// failed and removed them.
func (s *Store) recreate() error {
	if s.exists(pingmeFile) || s.exists(pingbackFile) || s.exists(lastIDFile) || s.exists(serverFile) {
		return nil
	}
	s.made.mu.Lock()
	s.made.undone = false
	s.made.mu.Unlock()
	return s.create(s.opened)
}

// undoCreate removes the marker files of an empty store that this Store created. It
// stops when it finds a trace of another writer.
func (s *Store) undoCreate() {
	m := &s.made
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.made || m.undone {
		return
	}
	// Every writer creates a folder in the journal before it changes anything else.
	if ignoreNotExist(s.root.Remove(journalDir)) != nil {
		return
	}
	d, err := s.root.Open(adminDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		names, err := d.Readdirnames(-1)
		d.Close()
		if err != nil {
			return
		}
		for _, n := range names {
			if !strings.EqualFold(n, path.Base(lockfile.Name)) {
				return
			}
		}
		if ignoreNotExist(s.root.Remove(lockfile.Name)) != nil || s.root.Remove(adminDir) != nil {
			return
		}
	}
	m.undone = ignoreNotExist(s.root.Remove(pingmeFile)) == nil
	if m.tiers == Two {
		_ = s.root.Remove(index2File) // alone, it does not mark a store
	}
}
