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
// Folders of keys that are new to the store are made whole in the writer's
// folder, so that one rename publishes them: see folder.go. 000Admin/ID comes
// first, since it alone can show that a genuine symstore took the number;
// server.txt, history.txt and lastid.txt come last.
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
	opFolder = "folder" // the staged folder From gets the name Path
)

// op is one step of a plan. Path and From lie in the store; From of a put and of
// a folder lies in the writer's folder.
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
	// root is the folder. Its names are one step away there, and four from the
	// store's root.
	root *os.Root
	// near does the small things under the lock.
	near *near
	// again says that another has begun to take the steps of the plan.
	again bool
	// folders stand ready to be published.
	folders    folderList
	renumbered bool // some refs.ptr of folders is not flushed
}

// living are the tokens of this process' writers.
var living sync.Map

// newStage makes the folder. The owner's file is locked before the folder
// exists, so that nobody takes it for a dead writer's.
func (s *Store) newStage() (*stage, error) {
	if s.opt.ReadOnly {
		return nil, ErrReadOnly
	}
	for try := 0; ; try++ {
		if err := s.tree.MkdirAll(journalDir, 0o777); err != nil {
			return nil, s.wrap(err)
		}
		if err := s.createAgain(); err != nil {
			return nil, err
		}
		st := &stage{s: s, token: s.opt.Token()}
		st.dir = path.Join(journalDir, st.token)
		ours, err := st.own()
		if err == nil && ours {
			return st, nil
		}
		if errors.Is(err, fs.ErrNotExist) && try <= 5 {
			continue // the journal was removed with a store that came to nothing
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
		// It is flushed with what comes into it.
		if err = s.root.Mkdir(st.dir, 0o777); err == nil && s.exists(st.dir+ownerExt) {
			if st.root, err = s.root.OpenRoot(st.dir); err == nil {
				st.near = &near{root: s.root}
				return true, nil
			}
		}
	}
	_ = s.root.Remove(st.dir)
	_ = s.root.Remove(st.dir + ownerExt)
	st.release()
	return false, err
}

// release lets others see that this writer is done with the folder.
func (st *stage) release() {
	st.close()
	st.owner.Close()
	living.Delete(st.token)
}

// discard removes the folder. What cannot be removed the next writer will.
func (st *stage) discard() {
	if st.s.step("discard") != nil {
		return
	}
	st.close()
	_ = st.s.root.RemoveAll(st.dir)
	_ = st.s.root.Remove(st.dir + ownerExt)
}

// close closes the folder, which Windows removes only then.
func (st *stage) close() {
	if st.near != nil {
		st.near.close()
	}
	if st.root != nil {
		st.root.Close()
		st.root = nil
	}
}

// path is a name in the folder as the store's root has it.
func (st *stage) path(name string) string { return st.dir + "/" + name }

// has says whether a name is in the folder.
func (st *stage) has(name string) bool { return st.near.exists(st.path(name)) }

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
	return st.near.rename(st.path(planLeaf), st.path(appliedLeaf))
}

// failed takes back what was done before step i, unless the lock was lost:
// then it is no longer this writer's to decide.
func (st *stage) failed(p *plan, i int, err error) error {
	if errors.Is(err, ErrLockLost) || st.s.step("rollback") != nil {
		return err
	}
	undo := st.rollback(p, i)
	switch p.Ops[i].Do {
	case opPut, opWrite, opFolder:
		st.s.removeEmpty(path.Dir(p.Ops[i].Path)) // which it may have made
	}
	if undo == nil {
		undo = st.root.Remove(planLeaf)
	}
	return errors.Join(st.s.wrap(err), undo)
}

func (st *stage) writePlan(p *plan) error {
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	const whole = planLeaf + ".new"
	if err := st.write(whole, data); err != nil {
		return err
	}
	return st.near.rename(st.path(whole), st.path(planLeaf))
}

// write makes a small file in the folder.
func (st *stage) write(name string, data []byte) error { return st.near.write(st.path(name), data) }

// prepare writes the new contents into the folder.
func (st *stage) prepare(p *plan) error {
	if err := st.number(p.ID); err != nil {
		return err
	}
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
	return st.write("w"+strconv.Itoa(i), data)
}

// undoName is where, in the folder, that stands which a step replaces.
func undoName(i int, o *op) string {
	switch o.Path {
	case serverFile, historyFile, lastIDFile:
		return oldPrefix + path.Base(o.Path) // found without the plan, too
	}
	return "u" + strconv.Itoa(i)
}

// take takes one step. Where it was taken before a crash it does nothing.
func (st *stage) take(i int, o *op) error {
	root := st.s.root
	undo := undoName(i, o)
	written := "w" + strconv.Itoa(i)
	switch o.Do {
	case opFolder:
		return st.takeFolder(o)
	case opPut:
		return st.replace(o.From, undo, o)
	case opWrite, opAppend:
		return st.replace(written, undo, o)
	case opCreate:
		return st.create(written, o)
	case opRemove:
		if st.again && st.has(undo) {
			return nil
		}
		return ignoreAbsent(st.rename(o.Path, st.path(undo)))
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

// replace gives a file of the folder its name and keeps what stood there. It
// does nothing if the file is not there: the step was taken before, or is a line
// that stands already.
func (st *stage) replace(from, undo string, o *op) error {
	if o.Had {
		if (st.again || o.Do == opAppend) && !st.has(from) {
			return nil
		}
		if err := st.keep(o.Path, st.path(undo)); err != nil {
			return err
		}
	}
	if o.New {
		if err := st.s.root.MkdirAll(path.Dir(o.Path), 0o777); err != nil {
			return err
		}
	}
	err := st.rename(st.path(from), o.Path)
	if errors.Is(err, fs.ErrNotExist) && (st.again || o.Do == opAppend) && !st.has(from) {
		return nil
	}
	return err
}

// create gives a file a name that must be free.
func (st *stage) create(from string, o *op) error {
	root := st.s.root
	if st.again && !st.has(from) {
		return nil
	}
	err := root.Link(st.path(from), o.Path)
	if err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrNotExist) {
		// No links here. A placeholder, empty for a moment, keeps others out.
		var f *os.File
		if f, err = root.OpenFile(o.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666); err == nil {
			f.Close()
			return st.rename(st.path(from), o.Path)
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
	return st.root.Remove(from)
}

// keep keeps what stands at name under a second name until the end.
func (st *stage) keep(name, undo string) error {
	err := st.near.link(name, undo)
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
	err := retried(func() error { return st.near.rename(from, to) })
	if !errors.Is(err, fs.ErrNotExist) || !st.s.exists(from) {
		return err
	}
	if err := st.s.root.MkdirAll(path.Dir(to), 0o777); err != nil {
		return err
	}
	return retried(func() error { return st.near.rename(from, to) })
}

// rollback takes back the steps before n, the last one first. It needs no
// space on the disk.
func (st *stage) rollback(p *plan, n int) error {
	var all error
	root := st.s.root
	for i := n - 1; i >= 0; i-- {
		o := &p.Ops[i]
		undo := undoName(i, o)
		var err error
		switch o.Do {
		case opFolder:
			err = st.undoFolder(o)
		case opPut, opWrite, opCreate, opAppend:
			if st.has(undo) {
				err = st.rename(st.path(undo), o.Path)
			} else if !o.Had {
				err = ignoreAbsent(root.Remove(o.Path))
				st.s.removeEmpty(path.Dir(o.Path))
			}
		case opRemove:
			if st.has(undo) {
				err = st.rename(st.path(undo), o.Path)
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
	for dir != "." && !strings.EqualFold(dir, adminDir) {
		if info, err := s.root.Lstat(dir); err != nil || !info.IsDir() || s.root.Remove(dir) != nil {
			return
		}
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
		case opFolder:
			st.flushRefs(g, &o)
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
	journal, err := s.root.OpenRoot(journalDir)
	if err != nil {
		return ignoreAbsent(err)
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
	stages := map[*plan]*stage{}
	defer func() {
		for _, st := range stages {
			st.close()
		}
	}()
	for _, name := range names {
		if token, ok := strings.CutSuffix(name, ownerExt); ok {
			if !slices.Contains(names, token) {
				s.dropOwner(journal, token)
			}
			continue
		}
		st := &stage{s: s, token: name, dir: path.Join(journalDir, name), again: true, renumbered: true, near: &near{root: s.root}}
		p, err := st.left(journal, l)
		if err != nil {
			return err
		}
		if p != nil {
			pending = append(pending, p)
			stages[p] = st
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

// left looks at a writer's folder, quickly where the writer lives. If there is a
// plan in it, whoever wrote it had the lock and has it no more; else it is
// removed, after the lock, if its writer is dead.
func (st *stage) left(journal *os.Root, l *lock) (*plan, error) {
	_, err := journal.Lstat(path.Join(st.token, planLeaf))
	planned := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		if info, statErr := journal.Lstat(st.token); statErr == nil && !info.IsDir() {
			return nil, nil // somebody's file
		}
		return nil, err
	}
	if !planned && !st.isDead(journal) {
		return nil, nil
	}
	if st.root, err = journal.OpenRoot(st.token); err != nil {
		return nil, ignoreAbsent(err) // its writer has just removed it
	}
	var p *plan
	if planned {
		p, err = st.readPlan(planLeaf)
	}
	if err == nil && p != nil {
		if err = st.readFolders(); err == nil {
			return p, nil
		}
	}
	defer st.close()
	if err != nil || planned && !st.isDead(journal) {
		return nil, err
	}
	if err := st.heal(); err != nil {
		return nil, err
	}
	l.dead = append(l.dead, st)
	return nil, nil
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
		case opFolder:
			if err := st.numberAgain(o, p.ID); err != nil {
				return err
			}
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
	f, err := st.root.Open(leaf)
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
	if p.What != whatAdd || !st.s.exists(txFile(p.ID)) {
		return nil
	}
	if err := st.readFolders(); err != nil {
		return err
	}
	for i := range p.Ops {
		o := &p.Ops[i]
		if o.Do == opFolder {
			if err := st.healFolder(o, p.ID); err != nil {
				return err
			}
			continue
		}
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
func (st *stage) isDead(journal *os.Root) bool {
	if _, alive := living.Load(st.token); alive {
		return false
	}
	f, err := journal.OpenFile(st.token+ownerExt, os.O_RDWR, 0)
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
func (s *Store) dropOwner(journal *os.Root, token string) {
	st := &stage{s: s, token: token, dir: path.Join(journalDir, token)}
	if !s.exists(st.dir) && st.isDead(journal) {
		_ = journal.Remove(token + ownerExt) // no harm if it stays
	}
}
