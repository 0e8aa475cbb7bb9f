package symstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"sync"

	"github.com/symdepot/symdepot/internal/base/truncate"
	"github.com/symdepot/symdepot/symstore/internal/dircache"
	"github.com/symdepot/symdepot/symstore/internal/lockfile"
)

// workspace is the folder of one writer. One goroutine uses it. The workers of
// a stager write into folders of their own within it.
type workspace struct {
	j     *journal
	token string
	dir   string
	owner *os.File
	// root is the opened folder. Paths from here are shorter than those from
	// the root of the store.
	root *os.Root
	dirs *dircache.Cache // for small operations under the lock
	// again means that another writer has already taken some of the steps.
	again bool
	// folders are complete and ready to be published.
	folders    folderList
	renumbered bool // some refs.ptr files are not flushed
	// held are the stored files that could not be removed because other programs
	// hold them open.
	held []heldOp
}

// liveWriters has the tokens of the writers of this process.
var liveWriters sync.Map

// own creates the owner file and the folder. ours is false if another writer
// removed the owner file before it was locked, because it took the writer for
// dead.
func (ws *workspace) own() (ours bool, err error) {
	j := ws.j
	liveWriters.Store(ws.token, true)
	f, err := j.root.OpenFile(ws.dir+ownerExt, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		liveWriters.Delete(ws.token)
		return false, err
	}
	ws.owner = f
	host, _ := os.Hostname() // without a name the owner counts as one of another machine
	_, err = fmt.Fprintf(f, "%d %s\r\n", os.Getpid(), host)
	ours = true
	if err == nil && j.opt.Locking == LockOS {
		if ours, err = j.opt.osLock(f, 0); err != nil && lockfile.RefusesLocks(err) {
			err = fmt.Errorf("%w: %w", ErrNoLocks, err)
		}
	}
	if err == nil && ours {
		// The folder is flushed together with its content.
		if err = j.root.Mkdir(ws.dir, 0o777); err == nil && j.exists(ws.dir+ownerExt) {
			if ws.root, err = j.root.OpenRoot(ws.dir); err == nil {
				ws.dirs = dircache.New(j.root)
				return true, nil
			}
		}
	}
	_ = j.root.Remove(ws.dir)
	_ = j.root.Remove(ws.dir + ownerExt)
	ws.release()
	return false, err
}

// release marks the workspace as finished for other writers.
func (ws *workspace) release() {
	ws.close()
	ws.owner.Close()
	liveWriters.Delete(ws.token)
}

// discard removes the workspace. If that fails, the next writer removes it.
func (ws *workspace) discard() {
	if ws.j.checkpoint("discard") != nil {
		return
	}
	ws.close()
	_ = ws.j.root.RemoveAll(ws.dir)
	_ = ws.j.root.Remove(ws.dir + ownerExt)
}

// close closes the folder, because Windows cannot remove an open one.
func (ws *workspace) close() {
	if ws.dirs != nil {
		ws.dirs.Close()
	}
	if ws.root != nil {
		ws.root.Close()
		ws.root = nil
	}
}

// path returns the path of a file in the workspace, relative to the root of the
// store.
func (ws *workspace) path(name string) string { return ws.dir + "/" + name }

// has reports whether the workspace has a file of that name.
func (ws *workspace) has(name string) bool { return ws.dirs.Exists(ws.path(name)) }

// commit writes the plan and takes its steps, under the lock. It undoes the
// steps if one fails, also with errNumberTaken.
func (ws *workspace) commit(l *lock, p *plan) error {
	if err := ws.j.checkpoint("plan"); err != nil {
		return err
	}
	if err := l.check(); err != nil {
		return err
	}
	err := ws.prepare(p)
	if err == nil {
		err = ws.writePlan(p)
	}
	if err != nil {
		return wrapError(err)
	}
	return ws.finish(l, p)
}

// finish takes the steps of a plan; after a crash, those that remain.
func (ws *workspace) finish(l *lock, p *plan) error {
	for i := range p.Ops {
		o := &p.Ops[i]
		err := ws.j.checkpoint(o.Do + " " + o.Path)
		if err == nil {
			if err = l.check(); err == nil {
				err = ws.take(i, o)
			}
		}
		if err != nil {
			return ws.failed(p, i, err)
		}
	}
	if err := ws.finishDeferred(l, p); err != nil {
		return ws.failed(p, len(p.Ops), err)
	}
	if err := ws.j.checkpoint("applied"); err != nil {
		return err
	}
	return ws.dirs.Rename(ws.path(planLeaf), ws.path(appliedLeaf))
}

// failed undoes the steps before step i, or all steps. If the lock was lost, the new owner of
// the lock decides instead.
func (ws *workspace) failed(p *plan, i int, err error) error {
	if errors.Is(err, ErrLockLost) || ws.j.checkpoint("rollback") != nil {
		return err
	}
	undo := ws.rollback(p, i)
	if i < len(p.Ops) {
		switch p.Ops[i].Do {
		case opPut, opWrite, opFolder:
			ws.j.removeEmpty(path.Dir(p.Ops[i].Path)) // the step may have made it
		}
	}
	if undo == nil {
		undo = ws.root.Remove(planLeaf)
	}
	return errors.Join(wrapError(err), undo)
}

func (ws *workspace) writePlan(p *plan) error {
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	const whole = planLeaf + ".new"
	if err := ws.write(whole, data); err != nil {
		return err
	}
	return ws.dirs.Rename(ws.path(whole), ws.path(planLeaf))
}

// write creates a small file in the workspace.
func (ws *workspace) write(name string, data []byte) error { return ws.dirs.Write(ws.path(name), data) }

// prepare writes new contents into the workspace.
func (ws *workspace) prepare(p *plan) error {
	if err := ws.number(p.ID); err != nil {
		return err
	}
	for i := range p.Ops {
		switch p.Ops[i].Do {
		case opWrite, opCreate, opAppend:
			if err := ws.prepareOne(i, &p.Ops[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (ws *workspace) prepareOne(i int, o *op) error {
	data := o.Data
	if o.Do == opAppend {
		have, err := ws.j.readText(o.Path)
		if err != nil {
			return err
		}
		for _, raw := range splitLines(have) {
			if string(raw) == string(o.Data) {
				return nil // the step was taken before
			}
		}
		data = appendLine(have, string(o.Data), o.Path == serverFile)
	}
	return ws.write("w"+strconv.Itoa(i), data)
}

// undoName returns the name in the workspace of the file that a step replaces.
func undoName(i int, o *op) string {
	switch o.Path {
	case serverFile, historyFile, lastIDFile:
		return oldPrefix + path.Base(o.Path) // heal finds these without the plan
	}
	return "u" + strconv.Itoa(i)
}

// take takes one step. A step that was taken before a crash is not repeated.
func (ws *workspace) take(i int, o *op) error {
	root := ws.j.root
	undo := undoName(i, o)
	written := "w" + strconv.Itoa(i)
	switch o.Do {
	case opFolder:
		return ws.takeFolder(o)
	case opPut:
		return ws.replace(o.From, undo, o)
	case opWrite, opAppend:
		return ws.replace(written, undo, o)
	case opCreate:
		return ws.create(written, o)
	case opRemove:
		if ws.again && ws.has(undo) {
			return nil
		}
		if o.Later {
			return ws.takeStored(undo, o)
		}
		return ignoreNotExist(ws.rename(o.Path, ws.path(undo)))
	case opRmdir:
		_ = root.Remove(o.Path) // fails if it is not empty
		return nil
	case opMove:
		if !ws.j.exists(o.From) {
			return nil
		}
		return ws.rename(o.From, o.Path)
	}
	return fmt.Errorf("%w: %s has the unknown step %q", ErrDamaged, ws.dir, truncate.Text(o.Do))
}

// replace renames a file of the workspace to its final path and keeps the
// existing file for an undo. It does nothing if the workspace has no such file:
// then the step was taken before, or the list already has the line.
func (ws *workspace) replace(from, undo string, o *op) error {
	if o.Had {
		if (ws.again || o.Do == opAppend) && !ws.has(from) {
			return nil
		}
		if err := ws.keep(o.Path, ws.path(undo)); err != nil {
			return err
		}
	}
	if o.New {
		if err := ws.j.root.MkdirAll(path.Dir(o.Path), 0o777); err != nil {
			return err
		}
	}
	err := ws.rename(ws.path(from), o.Path)
	if errors.Is(err, fs.ErrNotExist) && (ws.again || o.Do == opAppend) && !ws.has(from) {
		return nil
	}
	return err
}

// create renames a file of the workspace to a final path that must not exist.
func (ws *workspace) create(from string, o *op) error {
	root := ws.j.root
	if ws.again && !ws.has(from) {
		return nil
	}
	err := root.Link(ws.path(from), o.Path)
	if err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrNotExist) {
		// The disk has no hard links. An empty file reserves the name.
		var f *os.File
		if f, err = root.OpenFile(o.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666); err == nil {
			f.Close()
			return ws.rename(ws.path(from), o.Path)
		}
	}
	if errors.Is(err, fs.ErrExist) {
		have, readErr := ws.j.readText(o.Path)
		if readErr != nil || string(have) != string(o.Data) {
			return errNumberTaken
		}
		err = nil // this writer created it before a crash
	}
	if err != nil {
		return err
	}
	return ws.root.Remove(from)
}

// keep saves the existing file under a second name until the change is
// complete.
func (ws *workspace) keep(name, undo string) error {
	err := ws.dirs.Link(name, undo)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another program removed it
	}
	return ws.j.copyInside(name, undo)
}

// rename renames a file within the store and makes missing folders.
func (ws *workspace) rename(from, to string) error {
	err := retried(func() error { return ws.dirs.Rename(from, to) })
	if !errors.Is(err, fs.ErrNotExist) || !ws.j.exists(from) {
		return err
	}
	if err := ws.j.root.MkdirAll(path.Dir(to), 0o777); err != nil {
		return err
	}
	return retried(func() error { return ws.dirs.Rename(from, to) })
}

// rollback undoes the steps before n, last one first. It needs no disk space.
func (ws *workspace) rollback(p *plan, n int) error {
	var all error
	root := ws.j.root
	for i := n - 1; i >= 0; i-- {
		o := &p.Ops[i]
		undo := undoName(i, o)
		var err error
		switch o.Do {
		case opFolder:
			err = ws.undoFolder(o)
		case opPut, opWrite, opCreate, opAppend:
			if ws.has(undo) {
				err = ws.rename(ws.path(undo), o.Path)
			} else if !o.Had {
				err = ignoreNotExist(root.Remove(o.Path))
				ws.j.removeEmpty(path.Dir(o.Path))
			}
		case opRemove:
			if ws.has(undo) {
				err = ws.rename(ws.path(undo), o.Path)
			}
		case opMove:
			if ws.j.exists(o.Path) && !ws.j.exists(o.From) {
				err = ws.rename(o.Path, o.From)
			}
		}
		all = errors.Join(all, err)
	}
	return all
}

// settle makes the published change durable, after the lock is released, and
// removes the workspace.
func (ws *workspace) settle(p *plan) error {
	if err := ws.j.checkpoint("settle"); err != nil {
		return err
	}
	g := ws.j.tree.NewGroup()
	seen := map[string]bool{}
	for _, o := range p.Ops {
		switch o.Do {
		case opRmdir:
			continue
		case opWrite, opCreate, opAppend:
			if syncsNames && ws.j.exists(o.Path) {
				g.SyncDir(o.Path) // flushes the content of a file as well
			}
		case opFolder:
			ws.flushRefs(g, &o)
		}
		for dir := path.Dir(o.Path); !seen[dir]; dir = path.Dir(dir) {
			seen[dir] = true
			if ws.j.exists(dir) {
				g.SyncDir(dir)
			}
		}
	}
	if len(ws.held) > 0 && syncsNames {
		g.SyncDir(deferredFile)
	}
	if err := ignoreNotExist(g.Commit()); err != nil { // a later deletion may have removed files
		return fmt.Errorf("the transaction is published, but may be lost in a power failure: %w", err)
	}
	ws.discard()
	return nil
}
