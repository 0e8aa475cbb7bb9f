package symstore

// How a change becomes visible
//
// Whatever takes time happens first, without the store's lock, in a folder of
// the writer's own, 000Admin/symdepot.journal/TOKEN: files are copied or
// compressed into it, checked and flushed. Under the lock the writer takes its
// number, writes a plan of every step into that folder, flushes it, and then
// takes the steps, each of them one rename or removal. What a step replaces is
// kept in the folder until the end.
//
//   - Killed before the plan stands: nothing is visible. The next writer
//     removes the folder.
//   - Killed after it: the next writer takes the remaining steps. A step that
//     was taken is recognised, so that none is taken twice.
//   - A step that fails: those before it are taken back.
//
// Which writers are dead the operating system knows: each holds a lock on
// TOKEN.owner beside its folder for as long as it lives.
//
// Nothing is flushed under the lock: with many writers that would be what they
// all wait for. After it the new small files and their folders are, and only
// then are the writer's folder and in it the former server.txt, history.txt and
// lastid.txt removed. A power loss before that may leave files empty that were
// just renamed, on some file systems; the next writer restores them from there.
// An Add that has returned is on the disk.
//
// Readers are never held up and never see a file that is not complete.

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
	"sync"
	"time"
)

const (
	journalDir  = adminDir + "/symdepot.journal"
	ownerExt    = ".owner"
	planLeaf    = "plan"
	appliedLeaf = "applied"
	oldPrefix   = "old-"
	planVersion = 1
	maxPlan     = 256 << 20 // bytes; a plan of a million files has about 200 MB
)

// errTaken says that another tool has made the transaction's file first.
var errTaken = errors.New("the transaction's number is taken")

// The kinds of steps.
const (
	opPut    = "put"    // the staged file From gets the name Path
	opWrite  = "write"  // Path gets the content Data
	opCreate = "create" // the same; Path must not be there
	opAppend = "append" // the line Data is added to server.txt or history.txt
	opRemove = "remove" // of a file that may be absent
	opRmdir  = "rmdir"  // of a folder, if it is empty
	opMove   = "move"   // From gets the name Path
)

// op is one step of a plan. Path and From lie in the store; From of a put is a
// name in the writer's folder.
type op struct {
	Do   string `json:"do"`
	Path string `json:"path"`
	From string `json:"from,omitempty"`
	Data []byte `json:"data,omitempty"`
	Had  bool   `json:"had,omitempty"` // something stood at Path before
	New  bool   `json:"new,omitempty"` // its folder has to be made
}

// plan is what a writer is about to do.
type plan struct {
	Version int    `json:"version"`
	What    string `json:"what"` // add or del or repair
	ID      ID     `json:"id"`
	Ops     []op   `json:"ops"`
}

// stage is a writer's own folder.
type stage struct {
	s     *Store
	token string
	dir   string
	owner *os.File
}

// living are the tokens of this process' writers.
var living sync.Map

// newStage makes the folder. The owner's file is locked before the folder
// exists, so that nobody takes it for a dead writer's.
func (s *Store) newStage() (*stage, error) {
	if s.opt.ReadOnly {
		return nil, ErrReadOnly
	}
	if err := s.tree.MkdirAll(journalDir, 0o777); err != nil {
		return nil, s.wrap(err)
	}
	for try := 0; ; try++ {
		st := &stage{s: s, token: s.opt.Token()}
		st.dir = path.Join(journalDir, st.token)
		ours, err := st.own()
		if err == nil && ours {
			return st, nil
		}
		if err == nil && try > 5 {
			err = fmt.Errorf("%w: %s", ErrLocked, st.dir+ownerExt)
		}
		if err != nil {
			return nil, s.wrap(err)
		}
	}
}

// own makes the owner's file and the folder. It is not ours if somebody took
// the file for a dead writer's in the moment before it was locked.
func (st *stage) own() (ours bool, err error) {
	s := st.s
	living.Store(st.token, true)
	f, err := s.root.OpenFile(st.dir+ownerExt, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		living.Delete(st.token)
		return false, err
	}
	st.owner = f
	host, _ := os.Hostname() // an unknown host is not this one
	_, err = fmt.Fprintf(f, "%d %s\r\n", os.Getpid(), host)
	ours = true
	if err == nil && s.opt.Locking == LockOS {
		if ours, err = s.opt.osLock(f, 0); err != nil && refusesLocks(err) {
			err = fmt.Errorf("%w: %w", ErrNoLocks, err)
		}
	}
	if err == nil && ours {
		if err = s.tree.MkdirAll(st.dir, 0o777); err == nil && s.exists(st.dir+ownerExt) {
			return true, nil
		}
	}
	_ = s.root.Remove(st.dir)
	_ = s.root.Remove(st.dir + ownerExt)
	st.release()
	return false, err
}

// release lets others see that this writer is done with the folder.
func (st *stage) release() {
	st.owner.Close()
	living.Delete(st.token)
}

// discard removes the folder. What cannot be removed the next writer will.
func (st *stage) discard() {
	if st.s.step("discard") != nil {
		return
	}
	_ = st.s.root.RemoveAll(st.dir)
	_ = st.s.root.Remove(st.dir + ownerExt)
}

func (st *stage) path(name string) string { return path.Join(st.dir, name) }

// commit writes the plan and takes its steps, under the lock. On errTaken and
// other failures the steps are taken back.
func (st *stage) commit(l *lock, p *plan) error {
	if err := st.s.step("plan"); err != nil {
		return err
	}
	if err := l.check(); err != nil {
		return err
	}
	err := st.prepare(p)
	if err == nil {
		err = st.writePlan(p)
	}
	if err != nil {
		return st.s.wrap(err)
	}
	return st.finish(l, p)
}

// finish takes the steps, or those that are left after a crash.
func (st *stage) finish(l *lock, p *plan) error {
	for i := range p.Ops {
		o := &p.Ops[i]
		err := st.s.step(o.Do + " " + o.Path)
		if err == nil {
			if err = l.check(); err == nil {
				err = st.take(i, o)
			}
		}
		if err != nil {
			return st.failed(p, i, err)
		}
	}
	if err := st.s.step("applied"); err != nil {
		return err
	}
	return st.s.root.Rename(st.path(planLeaf), st.path(appliedLeaf))
}

// failed takes back what was done before step i, unless the lock was lost:
// then it is no longer this writer's to decide.
func (st *stage) failed(p *plan, i int, err error) error {
	if errors.Is(err, ErrLockLost) || st.s.step("rollback") != nil {
		return err
	}
	undo := st.rollback(p, i)
	if undo == nil {
		undo = st.s.root.Remove(st.path(planLeaf))
	}
	return errors.Join(st.s.wrap(err), undo)
}

func (st *stage) writePlan(p *plan) error {
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	whole := st.path(planLeaf + ".new")
	if err := st.s.writeQuickly(whole, data); err != nil {
		return err
	}
	return st.s.root.Rename(whole, st.path(planLeaf))
}

// writeQuickly makes a small file that is flushed later, or at once where that
// takes a file open for writing.
func (s *Store) writeQuickly(name string, data []byte) error {
	f, err := s.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil && !syncsNames {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// prepare writes the new contents into the folder.
func (st *stage) prepare(p *plan) error {
	for i := range p.Ops {
		switch p.Ops[i].Do {
		case opWrite, opCreate, opAppend:
			if err := st.prepareOne(i, &p.Ops[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (st *stage) prepareOne(i int, o *op) error {
	data := o.Data
	if o.Do == opAppend {
		have, err := st.s.readText(o.Path)
		if err != nil {
			return err
		}
		for _, raw := range splitLines(have) {
			if string(raw) == string(o.Data) {
				return nil // taken before
			}
		}
		data = appendLine(have, string(o.Data), o.Path == serverFile)
	}
	return st.s.writeQuickly(st.path("w"+strconv.Itoa(i)), data)
}

// undoName is where that stands which a step replaces.
func (st *stage) undoName(i int, o *op) string {
	switch o.Path {
	case serverFile, historyFile, lastIDFile:
		return st.path(oldPrefix + path.Base(o.Path)) // found without the plan, too
	}
	return st.path("u" + strconv.Itoa(i))
}

// take takes one step. Where it was taken before a crash it does nothing.
func (st *stage) take(i int, o *op) error {
	root := st.s.root
	undo := st.undoName(i, o)
	written := st.path("w" + strconv.Itoa(i))
	switch o.Do {
	case opPut:
		written = st.path(o.From)
		fallthrough
	case opWrite, opAppend:
		if o.Had {
			if !st.s.exists(written) {
				return nil // taken before, or a line that stands already
			}
			if err := st.keep(o.Path, undo); err != nil {
				return err
			}
		}
		if o.New {
			if err := root.MkdirAll(path.Dir(o.Path), 0o777); err != nil {
				return err
			}
		}
		err := st.rename(written, o.Path)
		if errors.Is(err, fs.ErrNotExist) && !st.s.exists(written) {
			return nil
		}
		return err
	case opCreate:
		return st.create(written, o)
	case opRemove:
		if st.s.exists(undo) {
			return nil
		}
		return ignoreAbsent(st.rename(o.Path, undo))
	case opRmdir:
		_ = root.Remove(o.Path) // only if it is empty
		return nil
	case opMove:
		if !st.s.exists(o.From) {
			return nil
		}
		return st.rename(o.From, o.Path)
	}
	return fmt.Errorf("%w: %s has the unknown step %q", ErrDamaged, st.dir, clip(o.Do))
}

// create gives a file a name that must be free.
func (st *stage) create(from string, o *op) error {
	root := st.s.root
	if !st.s.exists(from) {
		return nil
	}
	err := root.Link(from, o.Path)
	if err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrNotExist) {
		// No links here. A placeholder, empty for a moment, keeps others out.
		var f *os.File
		if f, err = root.OpenFile(o.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666); err == nil {
			f.Close()
			return st.rename(from, o.Path)
		}
	}
	if errors.Is(err, fs.ErrExist) {
		have, readErr := st.s.readText(o.Path)
		if readErr != nil || string(have) != string(o.Data) {
			return errTaken
		}
		err = nil // this writer's, made before a crash
	}
	if err != nil {
		return err
	}
	return root.Remove(from)
}

// keep keeps what stands at name under a second name until the end.
func (st *stage) keep(name, undo string) error {
	err := st.s.root.Link(name, undo)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil // somebody else removed it; there is nothing to keep
	}
	return st.s.copyInside(name, undo)
}

// copyInside copies a file where links are not possible.
func (s *Store) copyInside(from, to string) error {
	in, err := s.root.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := s.root.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// rename moves a file within the store and makes the folders that it needs.
func (st *stage) rename(from, to string) error {
	root := st.s.root
	err := retried(func() error { return root.Rename(from, to) })
	if !errors.Is(err, fs.ErrNotExist) || !st.s.exists(from) {
		return err
	}
	if err := root.MkdirAll(path.Dir(to), 0o777); err != nil {
		return err
	}
	return retried(func() error { return root.Rename(from, to) })
}

// rollback takes back the steps before n, the last one first. It needs no
// space on the disk.
func (st *stage) rollback(p *plan, n int) error {
	var all error
	root := st.s.root
	for i := n - 1; i >= 0; i-- {
		o := &p.Ops[i]
		undo := st.undoName(i, o)
		var err error
		switch o.Do {
		case opPut, opWrite, opCreate, opAppend:
			if st.s.exists(undo) {
				err = st.rename(undo, o.Path)
			} else if !o.Had {
				err = ignoreAbsent(root.Remove(o.Path))
				st.s.removeEmpty(path.Dir(o.Path))
			}
		case opRemove:
			if st.s.exists(undo) {
				err = st.rename(undo, o.Path)
			}
		case opMove:
			if st.s.exists(o.Path) && !st.s.exists(o.From) {
				err = st.rename(o.Path, o.From)
			}
		}
		all = errors.Join(all, err)
	}
	return all
}

// removeEmpty removes a folder and those around it as far as they are empty,
// but never 000Admin or the root.
func (s *Store) removeEmpty(dir string) {
	for dir != "." && !strings.EqualFold(dir, adminDir) && s.root.Remove(dir) == nil {
		dir = path.Dir(dir)
	}
}

// settle makes durable what was published, without the lock, and removes the
// folder.
func (st *stage) settle(p *plan) error {
	if err := st.s.step("settle"); err != nil {
		return err
	}
	g := st.s.tree.NewGroup()
	seen := map[string]bool{}
	for _, o := range p.Ops {
		switch o.Do {
		case opRmdir:
			continue
		case opWrite, opCreate, opAppend:
			if syncsNames && st.s.exists(o.Path) {
				g.SyncDir(o.Path) // flushes the content of a file as well
			}
		}
		for dir := path.Dir(o.Path); !seen[dir]; dir = path.Dir(dir) {
			seen[dir] = true
			if st.s.exists(dir) {
				g.SyncDir(dir)
			}
		}
	}
	if err := ignoreAbsent(g.Commit()); err != nil { // a deletion may have come after
		return fmt.Errorf("published, but perhaps not for good: %w", err)
	}
	st.discard()
	return nil
}

// recoverAll completes or undoes what dead writers were about to do. It runs
// under the lock, before anything else.
func (s *Store) recoverAll(ctx context.Context, l *lock) error {
	if err := s.resumeConversion(ctx, l); err != nil {
		return err
	}
	d, err := s.root.Open(journalDir)
	if err != nil {
		return ignoreAbsent(err)
	}
	entries, err := d.ReadDir(-1)
	d.Close()
	if err != nil {
		return err
	}
	var pending []*plan
	stages := map[*plan]*stage{}
	for _, e := range entries {
		if !e.IsDir() {
			s.dropOwner(e)
			continue
		}
		st := &stage{s: s, token: e.Name(), dir: path.Join(journalDir, e.Name())}
		p, err := st.readPlan(planLeaf)
		if err != nil {
			return err
		}
		if p != nil {
			// Whoever wrote it had the lock and has it no more.
			pending = append(pending, p)
			stages[p] = st
		} else if st.isDead() {
			if err := st.heal(); err != nil {
				return err
			}
			st.discard()
		}
	}
	slices.SortFunc(pending, func(a, b *plan) int { return int(int64(a.ID) - int64(b.ID)) })
	for _, p := range pending {
		if err := stages[p].redo(l, p); err != nil {
			return fmt.Errorf("completing transaction %s: %w", p.ID, err)
		}
	}
	return nil
}

// redo completes a plan; if its number was taken in the meantime, undoes it.
func (st *stage) redo(l *lock, p *plan) error {
	err := st.healLists()
	if err == nil {
		err = st.prepareAgain(p)
	}
	if err == nil {
		err = st.finish(l, p)
	}
	if errors.Is(err, errTaken) {
		st.discard() // finish has taken the steps back
		return nil
	}
	if err != nil {
		return err
	}
	return st.settle(p)
}

// prepareAgain writes contents that a power loss may have taken.
func (st *stage) prepareAgain(p *plan) error {
	for i := range p.Ops {
		o := &p.Ops[i]
		switch o.Do {
		case opWrite, opCreate, opAppend:
			if have, err := st.s.readText(o.Path); err == nil && o.Do != opAppend && string(have) == string(o.Data) {
				continue
			}
			if err := st.prepareOne(i, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// readPlan returns nil if there is none, or none that was finished.
func (st *stage) readPlan(leaf string) (*plan, error) {
	f, err := st.s.root.Open(st.path(leaf))
	if err != nil {
		return nil, ignoreAbsent(err)
	}
	defer f.Close()
	p := new(plan)
	if err := json.NewDecoder(io.LimitReader(f, maxPlan)).Decode(p); err != nil || p.Version != planVersion {
		if info, statErr := f.Stat(); statErr == nil && info.Size() == 0 {
			return nil, nil // a power loss took it, and the writer was promised nothing
		}
		return nil, fmt.Errorf("%w: %s cannot be read; remove it and run the repair", ErrDamaged, st.path(leaf))
	}
	return p, nil
}

// healLists restores the lists that a power loss has emptied after they were
// renamed and before they were flushed. server.txt comes last: whether it may
// rightly be empty history.txt says.
func (st *stage) healLists() error {
	for _, name := range []string{lastIDFile, historyFile, serverFile} {
		old := st.path(oldPrefix + path.Base(name))
		had, err := st.s.readText(old)
		if err != nil {
			return err
		}
		have, err := st.s.readText(name)
		if err != nil {
			return err
		}
		if len(had) == 0 || len(have) > 0 {
			continue
		}
		if name == serverFile {
			history, err := st.s.readText(historyFile)
			if err != nil {
				return err
			}
			if !anyLive(history) {
				continue
			}
		}
		if err := st.rename(old, name); err != nil {
			return err
		}
	}
	return nil
}

// anyLive says whether a history.txt has a transaction that was not deleted.
func anyLive(history []byte) bool {
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

// heal restores what a power loss has taken of a finished transaction.
func (st *stage) heal() error {
	if err := st.healLists(); err != nil {
		return err
	}
	p, err := st.readPlan(appliedLeaf)
	if p == nil || err != nil {
		return err
	}
	if p.What != whatAdd || !st.s.exists(path.Join(adminDir, p.ID.String())) {
		return nil
	}
	for i := range p.Ops {
		o := &p.Ops[i]
		if o.Do != opWrite || path.Base(o.Path) != refsLeaf || !st.s.exists(path.Dir(o.Path)) {
			continue
		}
		have, err := st.s.readText(o.Path)
		if err != nil {
			return err
		}
		if list, _ := parseRefs(have); len(list) == 0 {
			if err := st.prepareOne(i, o); err != nil {
				return err
			}
			if err := st.rename(st.path("w"+strconv.Itoa(i)), o.Path); err != nil {
				return err
			}
		}
	}
	return nil
}

// isDead says whether the writer of a folder is gone. Without locks that is
// known of processes of this machine only; others get a day.
func (st *stage) isDead() bool {
	if _, alive := living.Load(st.token); alive {
		return false
	}
	f, err := st.s.root.OpenFile(st.dir+ownerExt, os.O_RDWR, 0)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	if st.s.opt.Locking == LockOS {
		ok, err := tryLock(f, 0)
		if ok && !st.s.exists(st.dir) {
			// An owner that is about to lock it notices that it is gone.
			_ = st.s.root.Remove(st.dir + ownerExt)
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
			return processGone(pid) || pid == os.Getpid() // this process' own live in living
		}
	}
	info, err := f.Stat()
	return err == nil && st.s.opt.Now().Sub(info.ModTime()) > 24*time.Hour
}

// dropOwner removes the file of an owner that died before it had a folder, or
// while it removed that.
func (s *Store) dropOwner(e fs.DirEntry) {
	token, ok := strings.CutSuffix(e.Name(), ownerExt)
	st := &stage{s: s, token: token, dir: path.Join(journalDir, token)}
	if ok && !s.exists(st.dir) && st.isDead() {
		_ = s.root.Remove(st.dir + ownerExt) // no harm if it stays
	}
}
