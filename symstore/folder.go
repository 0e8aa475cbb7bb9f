package symstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"sync"

	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/symfile"
)

// Most keys are new to a store. Their folders are completed in the workspace,
// refs.ptr included, and flushed there. Under the store's lock only one rename for
// each folder remains, or one for all folders of a name that is new as well. The
// transaction number in refs.ptr is a guess until then. If another writer took the
// number, it is overwritten in place: it is the first ten bytes of the file.

// foldersLeaf lists the completed folders, for the writer that completes a plan.
const foldersLeaf = "folders"

// folder is the completed folder of a key in a workspace.
type folder struct {
	// Rel is its path there: below that of its group, or a path of its own.
	Rel  string `json:"rel"`
	Leaf string `json:"leaf"` // the stored file or the pointer
	// Ref is the line of its refs.ptr without the number. Empty: there is no
	// refs.ptr.
	Ref string `json:"ref,omitempty"`
}

// folderList is the content of foldersLeaf.
type folderList struct {
	Guess   ID       `json:"guess"` // the number in each refs.ptr file
	Folders []folder `json:"folders"`

	byFrom map[string][]folder // built on first use
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

// target returns the path at which a step publishes the folder.
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

// spot is the staging folder of a key that is new to the store.
type spot struct {
	folder
	name  string // of the file and its folder, in the spelling of the store
	group *group // nil if the store has the folder of the name
}

// group is the staging folder of a name that is new to the store. It holds the
// folders of several keys.
type group struct {
	rel   string
	name  string
	split bool // has content that must not be published; guarded by spots.mu
}

// spots assigns staging folders to keys.
type spots struct {
	mu      sync.Mutex
	hint    *targets          // the store before the change; guarded by mu
	claimed map[string]bool   // folded names and keys; guarded by mu
	groups  map[string]*group // by folded name; guarded by mu
}

// newSpots returns spots for changes of the store in which hint finds folders.
func newSpots(hint *targets) *spots {
	return &spots{hint: hint, claimed: map[string]bool{}, groups: map[string]*group{}}
}

// claim returns the staging folder for a key. It returns nil if the store
// already has a folder of the key, or if the key was claimed before: then the
// file is staged without a folder. dir is the folder of the worker, own a
// unique name.
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

// markIncomplete records that a file could not be removed from a group, so that the group
// is not published as a whole.
func (p *spots) markIncomplete(g *group) {
	if g == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	g.split = true
}

// writeFolders writes the list of completed folders.
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

// readFolders reads the list of a writer that died.
func (ws *workspace) readFolders() error {
	f, err := ws.root.Open(foldersLeaf)
	if err != nil {
		return ignoreNotExist(err)
	}
	defer f.Close()
	if err := json.NewDecoder(io.LimitReader(f, maxPlan)).Decode(&ws.folders); err != nil {
		return fmt.Errorf("%w: %s cannot be read: %w", ErrDamaged, ws.path(foldersLeaf), err)
	}
	return nil
}

// number writes the transaction number into the staged refs.ptr files. It is
// the only write under the lock that new keys need.
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
	return ws.dirs.Patch(ws.path(name), []byte(id.String()))
}

// flushRefs adds the rewritten refs.ptr to a group to be flushed.
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

// takeFolder moves a folder to its final path. If a program that takes no lock has
// made a folder there, the files are moved into that folder.
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

// undoFolder removes the files that a step has published, and no other files.
func (ws *workspace) undoFolder(o *op) error {
	var all error
	for _, f := range ws.folders.of(o) {
		dir := f.target(o)
		for _, leaf := range f.leaves() {
			all = errors.Join(all, ignoreNotExist(ws.j.root.Remove(path.Join(dir, leaf))))
		}
		ws.j.removeEmpty(dir)
	}
	return all
}

// renumberOne repeats number for one step, after a crash.
func (ws *workspace) renumberOne(o *op, id ID) error {
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

// healFolder rewrites the refs.ptr of published folders if a power loss left it
// empty or with the guessed number.
func (ws *workspace) healFolder(o *op, id ID) error {
	if ws.has(o.From) {
		return nil // the step was not taken yet
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
			continue // intact, or changed since
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
