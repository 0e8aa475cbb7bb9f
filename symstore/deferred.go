package symstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// On Windows, a debugger may hold a stored file open in a way that forbids all
// others to rename and remove it. A deletion does not fail because of that. It
// waits for two seconds. Then it changes the records as usual, leaves the file,
// and lists it in deferredFile. Each later writer that gets the lock tries once,
// without waiting, to remove the listed files.
//
// A listed file that a later transaction stores again is not removed. That is the
// case if a line of refs.ptr lists it, or the file of a later transaction.

// deferredFile lists the files to be removed later. It does not exist if there
// are none.
const deferredFile = adminDir + "/symdepot.deferred"

const (
	deferredVersion = 1
	// maxDeferred limits the number of listed files. A deletion that would exceed
	// it fails and changes nothing.
	maxDeferred = 10_000
)

// deferredList is the content of deferredFile.
type deferredList struct {
	Version int        `json:"version"`
	Files   []deferred `json:"files"`
}

// deferred is one stored file to be removed later.
type deferred struct {
	Name string `json:"name"`
	Key  string `json:"key"`
	Leaf string `json:"leaf"` // the file or its cabinet
	// After is a transaction number: no live transaction up to it lists the key.
	After ID `json:"after"`
}

func (d deferred) key() string { return symfile.Fold(d.Name + "/" + d.Key) }

func (d deferred) is(name, key, leaf string) bool {
	return d.key() == symfile.Fold(name+"/"+key) && symfile.Fold(d.Leaf) == symfile.Fold(leaf)
}

// valid reports whether the entry names a stored file. The list may be damaged.
func (d deferred) valid() bool {
	leaf := symfile.Fold(d.Leaf)
	return checkName(d.Name) == nil && validKey(d.Key) && (leaf == symfile.Fold(d.Name) || leaf == symfile.Fold(layout.CabinetName(d.Name)))
}

// readDeferred reads the list. An unreadable list counts as empty: Check then
// finds its files as stray files.
func (d *disk) readDeferred() []deferred {
	text, err := d.readText(deferredFile)
	if err != nil || len(text) == 0 {
		return nil
	}
	var list deferredList
	if err := json.Unmarshal(text, &list); err != nil || list.Version != deferredVersion {
		return nil
	}
	return slices.DeleteFunc(list.Files, func(e deferred) bool { return !e.valid() })
}

func printDeferred(list []deferred) ([]byte, error) {
	data, err := json.Marshal(deferredList{deferredVersion, list})
	return append(data, '\n'), err
}

// removeFault returns the error that a test assigns to the removal of a stored
// file.
func (d *disk) removeFault(name string) error {
	if d.opt.removeFault == nil {
		return nil
	}
	return d.opt.removeFault(name)
}

// takeStored takes the step that removes a stored file. If another program holds
// the file open, it notes the file for finishDeferred instead.
func (ws *workspace) takeStored(undo string, o *op) error {
	err := ws.setAside(o.Path, undo)
	if durable.IsBusy(err) {
		ws.held = append(ws.held, heldOp{o.Path, undo})
		return nil
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return ignoreNotExist(ws.rename(o.Path, ws.path(undo)))
}

// heldOp is a step that could not be taken because another program holds the
// file open.
type heldOp struct{ path, undo string }

// setAside moves a stored file into the workspace, without waiting.
func (ws *workspace) setAside(name, undo string) error {
	if err := ws.j.removeFault(name); err != nil {
		return err
	}
	return durable.BusyError(ws.j.root, name, ws.dirs.RenameNow(name, ws.path(undo)))
}

// finishDeferred waits for the programs that hold files open, and lists the files
// that are still held. It is the last part of a change.
func (ws *workspace) finishDeferred(l *lock, p *plan) error {
	if len(ws.held) == 0 {
		return nil
	}
	undo := map[string]string{}
	var names []string
	for _, h := range ws.held {
		undo[h.path] = h.undo
		names = append(names, h.path)
	}
	held, err := durable.RetryHeld(names, func(name string) error { return ignoreNotExist(ws.setAside(name, undo[name])) })
	if err != nil {
		return err
	}
	for _, name := range names {
		if !slices.Contains(held, name) {
			ws.j.removeEmpty(path.Dir(name))
		}
	}
	ws.held = slices.DeleteFunc(ws.held, func(h heldOp) bool { return !slices.Contains(held, h.path) })
	if len(held) == 0 {
		return nil
	}
	if err := ws.j.checkpoint("defer"); err != nil {
		return err
	}
	if err := l.check(); err != nil {
		return err
	}
	list := ws.j.readDeferred()
	for _, name := range held {
		e := deferred{Name: path.Base(path.Dir(path.Dir(name))), Key: path.Base(path.Dir(name)), Leaf: path.Base(name), After: p.ID}
		list = slices.DeleteFunc(list, func(old deferred) bool { return old.is(e.Name, e.Key, e.Leaf) })
		list = append(list, e)
	}
	if len(list) > cmp.Or(ws.j.opt.maxDeferred, maxDeferred) {
		return fmt.Errorf("%s lists %d files that other programs hold open, and %d more are too many: close these programs",
			deferredFile, len(list)-len(held), len(held))
	}
	data, err := printDeferred(list)
	if err != nil {
		return err
	}
	const leaf = "deferred"
	if err := ws.write(leaf, data); err != nil {
		return err
	}
	return ws.rename(ws.path(leaf), deferredFile)
}

// remover removes the listed files that no program holds open any more. A writer
// uses it under the lock.
type remover struct {
	s *Store
	l *lock
}

// run tries each listed file once. Files that cannot be removed stay in the list;
// they never make the writer fail.
func (r remover) run(ctx context.Context) error {
	s := r.s
	list := s.readDeferred()
	if len(list) == 0 {
		return nil
	}
	listed, last, err := r.listedAfter(ctx, list)
	if err != nil {
		return err
	}
	var left []deferred
	for _, e := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.l.check(); err != nil {
			return err
		}
		if listed[e.key()] > e.After || r.remove(e) {
			continue
		}
		e.After = max(e.After, last) // so that each transaction is read once
		left = append(left, e)
	}
	if slices.Equal(left, list) {
		return nil
	}
	if err := s.checkpoint("write " + deferredFile); err != nil {
		return err
	}
	if len(left) == 0 {
		_ = s.tree.Remove(deferredFile) // if it stays, the next writer removes it
		return nil
	}
	data, err := printDeferred(left)
	if err == nil {
		_ = s.writeDurably(deferredFile, data) // the old list is still right
	}
	return err
}

// listedAfter reads the transactions that are newer than the entries. It returns
// the highest transaction that lists each of the folded names and keys, and the
// highest one that it has read.
func (r remover) listedAfter(ctx context.Context, list []deferred) (listed map[string]ID, last ID, err error) {
	oldest := list[0].After
	wanted := map[string]bool{}
	for _, e := range list {
		oldest = min(oldest, e.After)
		wanted[e.key()] = true
	}
	listed = map[string]ID{}
	for t, err := range r.s.Transactions(false) {
		if ctx.Err() != nil {
			return nil, 0, ctx.Err()
		}
		if err != nil || t.Deletes != 0 || t.ID <= oldest {
			continue // an unreadable line has no transaction
		}
		last = max(last, t.ID)
		if t.Pointer {
			continue
		}
		entries, _, _, err := r.s.readEntries(t.ID)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		for _, e := range entries {
			if k := symfile.Fold(e.Name + "/" + e.Key); wanted[k] {
				listed[k] = max(listed[k], t.ID)
			}
		}
	}
	return listed, last, nil
}

// remove removes a listed file, and its folders if they are empty then. It returns
// true if the file needs no further attempt.
func (r remover) remove(e deferred) bool {
	s := r.s
	dir, spelled, ok := s.locate(e.Name, e.Key)
	if !ok {
		return true
	}
	k, err := s.readKeyDir(dir, spelled)
	if err != nil {
		return false
	}
	name := k.leaf(e.Leaf)
	if name != "" && anyFile(k.refs) {
		return true // stored again
	}
	if name != "" {
		if s.checkpoint("remove "+name) != nil {
			return false
		}
		err := s.removeFault(name)
		if err == nil {
			err = s.root.Remove(name)
		}
		if ignoreNotExist(err) != nil {
			return false
		}
		if _, err := s.root.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			return false // the name stays until another program closes the file
		}
		_ = s.tree.SyncDir(dir) // after a power loss, Check finds the file
	}
	s.removeEmpty(dir)
	return true
}
