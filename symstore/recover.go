package symstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/symstore/internal/dircache"
	"github.com/symdepot/symdepot/symstore/internal/lockfile"
)

// recoverAll completes or undoes the changes of writers that died. It runs
// under the lock, before any other work.
func (j *journal) recoverAll(ctx context.Context, l *lock) error {
	if err := j.resume(ctx, l); err != nil {
		return err
	}
	if err := j.redoAll(l); err != nil {
		return err
	}
	return j.removeDeferred(ctx, l)
}

// redoAll completes or undoes the plans of writers that died.
func (j *journal) redoAll(l *lock) error {
	journal, err := j.root.OpenRoot(journalDir)
	if err != nil {
		return ignoreNotExist(err)
	}
	defer journal.Close()
	d, err := journal.Open(".")
	if err != nil {
		return err
	}
	names, err := d.Readdirnames(-1)
	d.Close()
	if err != nil {
		return err
	}
	var pending []*plan
	workspaces := map[*plan]*workspace{}
	defer func() {
		for _, ws := range workspaces {
			ws.close()
		}
	}()
	for _, name := range names {
		if token, ok := strings.CutSuffix(name, ownerExt); ok {
			if !slices.Contains(names, token) {
				j.dropOwner(journal, token)
			}
			continue
		}
		ws := &workspace{j: j, token: name, dir: path.Join(journalDir, name), again: true, renumbered: true, dirs: dircache.New(j.root)}
		p, err := ws.examine(journal, l)
		if err != nil {
			return err
		}
		if p != nil {
			pending = append(pending, p)
			workspaces[p] = ws
		}
	}
	slices.SortFunc(pending, func(a, b *plan) int { return int(int64(a.ID) - int64(b.ID)) })
	for _, p := range pending {
		if err := workspaces[p].redo(l, p); err != nil {
			return fmt.Errorf("completing transaction %s: %w", p.ID, err)
		}
	}
	return nil
}

// examine examines the workspace of another writer. It returns the plan in it, if
// any: it was written under the lock, which that writer no longer holds.
// Without a plan, the workspace of a dead writer is removed after the lock is
// released. The workspace of a living writer is left alone.
func (ws *workspace) examine(journal *os.Root, l *lock) (*plan, error) {
	_, err := journal.Lstat(path.Join(ws.token, planLeaf))
	planned := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		if info, statErr := journal.Lstat(ws.token); statErr == nil && !info.IsDir() {
			return nil, nil // not a file of a writer
		}
		return nil, err
	}
	if !planned && !ws.isDead(journal) {
		return nil, nil
	}
	if ws.root, err = journal.OpenRoot(ws.token); err != nil {
		return nil, ignoreNotExist(err) // the writer has just removed it
	}
	var p *plan
	if planned {
		p, err = ws.readPlan(planLeaf)
	}
	if err == nil && p != nil {
		if err = ws.readFolders(); err == nil {
			return p, nil
		}
	}
	defer ws.close()
	if err != nil || planned && !ws.isDead(journal) {
		return nil, err
	}
	if err := ws.repair(); err != nil {
		return nil, err
	}
	l.dead = append(l.dead, ws)
	return nil, nil
}

// redo completes a plan, or undoes it if its number was taken in the meantime.
func (ws *workspace) redo(l *lock, p *plan) error {
	err := ws.repairLists()
	if err == nil {
		err = ws.rewrite(p)
	}
	if err == nil {
		err = ws.finish(l, p)
	}
	if errors.Is(err, errNumberTaken) {
		ws.discard() // finish has undone the steps
		return nil
	}
	if err != nil {
		return err
	}
	return ws.settle(p)
}

// rewrite rewrites the contents that a power loss may have destroyed.
func (ws *workspace) rewrite(p *plan) error {
	for i := range p.Ops {
		o := &p.Ops[i]
		switch o.Do {
		case opFolder:
			if err := ws.renumberOne(o, p.ID); err != nil {
				return err
			}
		case opWrite, opCreate, opAppend:
			if have, err := ws.j.readText(o.Path); err == nil && o.Do != opAppend && string(have) == string(o.Data) {
				continue
			}
			if err := ws.prepareOne(i, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// readPlan reads a plan. It returns nil if there is none, or only an incomplete
// one.
func (ws *workspace) readPlan(leaf string) (*plan, error) {
	f, err := ws.root.Open(leaf)
	if err != nil {
		return nil, ignoreNotExist(err)
	}
	defer f.Close()
	p := new(plan)
	if err := json.NewDecoder(io.LimitReader(f, maxPlan)).Decode(p); err != nil || p.Version != planVersion {
		if info, statErr := f.Stat(); statErr == nil && info.Size() == 0 {
			return nil, nil // lost in a power loss, before the writer reported success
		}
		return nil, fmt.Errorf("%w: %s is unreadable; remove it and repair the store", ErrDamaged, ws.path(leaf))
	}
	return p, nil
}

// repairLists restores lists that a power loss emptied between renaming and
// flushing. server.txt comes last, because history.txt shows whether it may be
// empty.
func (ws *workspace) repairLists() error {
	for _, name := range []string{lastIDFile, historyFile, serverFile} {
		old := ws.path(oldPrefix + path.Base(name))
		had, err := ws.j.readText(old)
		if err != nil {
			return err
		}
		have, err := ws.j.readText(name)
		if err != nil {
			return err
		}
		if len(had) == 0 || len(have) > 0 {
			continue
		}
		if name == serverFile {
			history, err := ws.j.readText(historyFile)
			if err != nil {
				return err
			}
			if !hasLive(history) {
				continue
			}
		}
		if err := ws.rename(old, name); err != nil {
			return err
		}
	}
	return nil
}

// hasLive reports whether a history.txt has a transaction that is not deleted.
func hasLive(history []byte) bool {
	live := map[ID]bool{}
	for _, r := range parseRecords(history) {
		switch {
		case r.err != nil:
		case r.Deletes != 0:
			delete(live, r.Deletes)
		default:
			live[r.ID] = true
		}
	}
	return len(live) > 0
}

// repair restores what a power loss destroyed of a finished transaction.
func (ws *workspace) repair() error {
	if err := ws.repairLists(); err != nil {
		return err
	}
	p, err := ws.readPlan(appliedLeaf)
	if p == nil || err != nil {
		return err
	}
	if p.What != whatAdd || !ws.j.exists(txFile(p.ID)) {
		return nil
	}
	if err := ws.readFolders(); err != nil {
		return err
	}
	for i := range p.Ops {
		o := &p.Ops[i]
		if o.Do == opFolder {
			if err := ws.healFolder(o, p.ID); err != nil {
				return err
			}
			continue
		}
		if o.Do != opWrite || path.Base(o.Path) != refsLeaf || !ws.j.exists(path.Dir(o.Path)) {
			continue
		}
		have, err := ws.j.readText(o.Path)
		if err != nil {
			return err
		}
		if list, _ := parseRefs(have); len(list) == 0 {
			if err := ws.prepareOne(i, o); err != nil {
				return err
			}
			if err := ws.rename(ws.path("w"+strconv.Itoa(i)), o.Path); err != nil {
				return err
			}
		}
	}
	return nil
}

// isDead reports whether the writer of a workspace has died. Without locks of
// the operating system only processes of this machine can be checked; writers
// of other machines count as dead after a day.
func (ws *workspace) isDead(journal *os.Root) bool {
	if _, alive := liveWriters.Load(ws.token); alive {
		return false
	}
	f, err := journal.OpenFile(ws.token+ownerExt, os.O_RDWR, 0)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	if ws.j.opt.Locking == LockOS {
		ok, err := lockfile.TryByte(f, 0)
		if ok && !ws.j.exists(ws.dir) {
			// An owner that is about to lock the file notices its removal.
			_ = ws.j.root.Remove(ws.dir + ownerExt)
		}
		return ok && err == nil
	}
	text, err := io.ReadAll(io.LimitReader(f, 1024))
	if err != nil {
		return false
	}
	number, host, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	if pid, err := strconv.Atoi(number); err == nil && host != "" {
		if own, err := os.Hostname(); err == nil && own == host {
			return processGone(pid) || pid == os.Getpid() // writers of this process are in living
		}
	}
	info, err := f.Stat()
	return err == nil && ws.j.opt.Now().Sub(info.ModTime()) > 24*time.Hour
}

// dropOwner removes the owner file of a writer that died before it created its
// workspace, or while it removed it.
func (j *journal) dropOwner(journal *os.Root, token string) {
	ws := &workspace{j: j, token: token, dir: path.Join(journalDir, token)}
	if !j.exists(ws.dir) && ws.isDead(journal) {
		_ = journal.Remove(token + ownerExt) // a leftover does no harm
	}
}
