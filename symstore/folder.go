package symstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"sync"

	"github.com/symdepot/symdepot/internal/durable"
	"github.com/symdepot/symdepot/symfile"
)

// Most keys are new to a store. Their folders are made whole in the writer's
// folder, refs.ptr included, and flushed there; under the store's lock nothing
// is left of that but one rename for each folder, or one for all the folders of
// a name that is new as well. The number in refs.ptr is a guess until then. It
// is right unless another writer came before, and else it is overwritten where
// it stands: it has ten digits and begins the file.

// foldersLeaf lists the folders that stand ready, for whoever completes a plan.
const foldersLeaf = "folders"

// folder is the folder of a key that stands ready in a writer's folder.
type folder struct {
	// Rel is its path there: that of its group and the key, or one of its own.
	Rel  string `json:"rel"`
	Leaf string `json:"leaf"` // the file in it, or the pointer
	// Ref is the line of its refs.ptr without the number. Empty: it has none.
	Ref string `json:"ref,omitempty"`
}

// folderList is the content of foldersLeaf.
type folderList struct {
	Guess   ID       `json:"guess"` // the number that stands in each refs.ptr
	Folders []folder `json:"folders"`

	byFrom map[string][]folder // made when first asked for
}

// of returns the folders that a step publishes: one, or a group.
func (l *folderList) of(o *op) []folder {
	if l.byFrom == nil {
		l.byFrom = make(map[string][]folder, len(l.Folders))
		for _, f := range l.Folders {
			l.byFrom[f.Rel] = []folder{f}
			g := path.Dir(f.Rel)
			l.byFrom[g] = append(l.byFrom[g], f)
		}
	}
	return l.byFrom[o.From]
}

// target is where a step of a plan puts a folder.
func (f *folder) target(o *op) string {
	if f.Rel == o.From {
		return o.Path
	}
	return path.Join(o.Path, path.Base(f.Rel))
}

func (f *folder) leaves() []string {
	if f.Ref == "" {
		return []string{f.Leaf}
	}
	return []string{f.Leaf, refsLeaf}
}

// spot is where a file is staged whose key's folder is new.
type spot struct {
	folder
	name  string // the spelling of the name's folder, and of the file
	group *group // nil if the name's folder is in the store
}

// group is a folder of a name that is staged with folders of keys in it.
type group struct {
	rel   string
	name  string
	split bool // holds what must not be published; guarded by spots.mu
}

// spots gives each key a place to be staged at.
type spots struct {
	mu      sync.Mutex
	hint    *targets          // what the store held before; guarded by mu
	claimed map[string]bool   // folded names and keys; guarded by mu
	groups  map[string]*group // by folded name; guarded by mu
}

func newSpots(s *Store) *spots {
	return &spots{hint: s.newTargets(nil), claimed: map[string]bool{}, groups: map[string]*group{}}
}

// claim returns the place for a key, nil if its folder is in the store or
// somebody has claimed it: then its file is staged by itself. dir is the
// folder of the worker, and own a name that nobody else uses.
func (p *spots) claim(k Key, dir, own string) *spot {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := k.folded()
	if p.claimed[id] {
		return nil
	}
	p.claimed[id] = true
	there := p.hint.at(k.Name, k.Key)
	if there.key {
		return nil
	}
	sp := &spot{name: there.spelled}
	if there.name {
		sp.Rel = path.Join(dir, "k"+own)
		return sp
	}
	g := p.groups[symfile.Fold(k.Name)]
	if g == nil {
		g = &group{rel: path.Join(dir, "n"+own), name: there.spelled}
		p.groups[symfile.Fold(k.Name)] = g
	}
	sp.group, sp.Rel = g, path.Join(g.rel, k.Key)
	return sp
}

// soil notes that what was staged in a group could not be removed from it.
func (p *spots) soil(g *group) {
	if g == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	g.split = true
}

// writeFolders writes down what stands ready.
func (ws *workspace) writeFolders() error {
	if len(ws.folders.Folders) == 0 {
		return nil
	}
	data, err := json.Marshal(ws.folders)
	if err != nil {
		return err
	}
	return ws.write(foldersLeaf, data)
}

// readFolders is for those who complete what another has begun.
func (ws *workspace) readFolders() error {
	f, err := ws.root.Open(foldersLeaf)
	if err != nil {
		return ignoreAbsent(err)
	}
	defer f.Close()
	if err := json.NewDecoder(io.LimitReader(f, maxPlan)).Decode(&ws.folders); err != nil {
		return fmt.Errorf("%w: %s cannot be read: %w", ErrDamaged, ws.path(foldersLeaf), err)
	}
	return nil
}

// number makes the transaction's number that of each refs.ptr that stands
// ready. Under the lock this is all that is left to be written for a new key.
func (ws *workspace) number(id ID) error {
	if ws.folders.Guess == id {
		return nil
	}
	for _, f := range ws.folders.Folders {
		if f.Ref == "" {
			continue
		}
		if err := ws.renumber(path.Join(f.Rel, refsLeaf), id); err != nil {
			return err
		}
	}
	ws.folders.Guess, ws.renumbered = id, true
	return nil
}

func (ws *workspace) renumber(name string, id ID) error {
	return ws.dirs.patch(ws.path(name), []byte(id.String()))
}

// flushRefs lets a group flush the numbers that were written last.
func (ws *workspace) flushRefs(g *durable.Group, o *op) {
	if !ws.renumbered || !syncsNames {
		return
	}
	for _, f := range ws.folders.of(o) {
		if name := path.Join(f.target(o), refsLeaf); f.Ref != "" && ws.j.exists(name) {
			g.SyncDir(name) // flushes the content of a file as well
		}
	}
}

// takeFolder gives a folder its place. If somebody who takes no lock has made a
// folder there meanwhile, its files go into that.
func (ws *workspace) takeFolder(o *op) error {
	err := ws.rename(ws.path(o.From), o.Path)
	if err == nil || ws.again && !ws.has(o.From) {
		return nil // now, or before a crash
	}
	info, statErr := ws.j.root.Lstat(o.Path)
	if statErr != nil || !info.IsDir() {
		return err
	}
	for _, f := range ws.folders.of(o) {
		for _, leaf := range f.leaves() {
			from := path.Join(f.Rel, leaf)
			if err := ws.rename(ws.path(from), path.Join(f.target(o), leaf)); err != nil && ws.has(from) {
				return err
			}
		}
	}
	return nil
}

// undoFolder removes what a step has published, and nothing that others may
// have put beside it.
func (ws *workspace) undoFolder(o *op) error {
	var all error
	for _, f := range ws.folders.of(o) {
		dir := f.target(o)
		for _, leaf := range f.leaves() {
			all = errors.Join(all, ignoreAbsent(ws.j.root.Remove(path.Join(dir, leaf))))
		}
		ws.j.removeEmpty(dir)
	}
	return all
}

// numberAgain completes what number was about to do for one step.
func (ws *workspace) numberAgain(o *op, id ID) error {
	if !ws.has(o.From) {
		return ws.healFolder(o, id)
	}
	for _, f := range ws.folders.of(o) {
		if f.Ref != "" && ws.has(path.Join(f.Rel, refsLeaf)) {
			if err := ws.renumber(path.Join(f.Rel, refsLeaf), id); err != nil {
				return err
			}
		}
	}
	return nil
}

// healFolder gives the refs.ptr of published folders the line that a power loss
// may have taken: the file empty, or still with the guess in it.
func (ws *workspace) healFolder(o *op, id ID) error {
	if ws.has(o.From) {
		return nil // not taken yet
	}
	for _, f := range ws.folders.of(o) {
		name := path.Join(f.target(o), refsLeaf)
		if f.Ref == "" || !ws.j.exists(path.Dir(name)) {
			continue
		}
		have, err := ws.j.readText(name)
		if err != nil {
			return err
		}
		if text := string(have); text != "" && (!strings.HasSuffix(text, f.Ref) || len(text) != len(f.Ref)+10 || text[:10] == id.String()) {
			continue // whole, or changed since
		}
		const again = "refs.again"
		if err := ws.write(again, []byte(id.String()+f.Ref)); err != nil {
			return err
		}
		if err := ws.rename(ws.path(again), name); err != nil {
			return err
		}
	}
	return nil
}
