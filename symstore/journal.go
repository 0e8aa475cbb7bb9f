package symstore

// How a change becomes visible
//
// Whatever takes time happens first, without the store's lock, in a workspace:
// the writer's own folder 000Admin/symdepot.journal/TOKEN. Files are copied or
// compressed into it, checked and flushed. Under the lock the writer takes its
// transaction number, writes a plan of all steps into the workspace, flushes it,
// and takes the steps. Each step is one rename or one removal. What a step
// replaces is kept in the workspace until the end.
//
//   - A writer killed before the plan is written leaves nothing visible. The
//     next writer removes the workspace.
//   - If it is killed later, the next writer takes the remaining steps. It
//     recognises steps that were taken, so none is taken twice.
//   - If a step fails, the steps before it are undone. The removal of a stored file
//     that another program holds open is no failure: see deferred.go.
//
// The operating system knows which writers are dead: a living writer holds a
// lock on TOKEN.owner beside its workspace.
//
// Folders of keys that are new to the store are completed in the workspace, so
// that one rename publishes them: see folder.go. The first step makes 000Admin/ID,
// because only this file shows that a genuine symstore took the same number;
// server.txt, history.txt and lastid.txt come last.
//
// Nothing is flushed under the lock: with many writers, all would wait for the
// flushes. After the lock is released, the new small files and their folders are
// flushed, and only then is the workspace removed, with the previous server.txt,
// history.txt and lastid.txt in it. Until then a power loss may empty recently
// renamed files on some file systems; the next writer restores them from the
// workspace. An Add that has returned is on the disk.
//
// Readers never wait and never see an incomplete file.

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
)

// journal makes every change of a store atomic, for any number of writers in any
// number of processes. Add, Del, Convert and Repair use it in this way:
//
//	ws, err := j.open()        // a workspace, to stage files in without the lock
//	l, err := j.lock(ctx)      // the right to publish; completes what dead writers left
//	err = ws.commit(l, plan)   // takes all steps of the plan, or none
//	l.unlock()
//	err = ws.settle(plan)      // makes the change durable and removes the workspace
//	ws.release()
//
// A writer that gives up calls ws.discard instead of commit and settle. After
// ErrLockLost it calls neither: the new owner of the lock decides.
type journal struct {
	disk
	path string // absolute, of the store
	// restore makes the markers of the store again if they were removed.
	restore func() error
	// resume completes a conversion that was interrupted. It is called under
	// the lock, before the plans of dead writers are completed.
	resume func(context.Context, *lock) error
	// removeDeferred removes files that earlier deletions had to leave. It is
	// called under the lock, after the plans of dead writers are completed.
	removeDeferred func(context.Context, *lock) error
}

const (
	journalDir  = adminDir + "/symdepot.journal"
	ownerExt    = ".owner"
	planLeaf    = "plan"
	appliedLeaf = "applied"
	oldPrefix   = "old-"
	planVersion = 1
	maxPlan     = 256 << 20 // bytes; a plan of a million files has about 200 MB
)

// open makes a workspace. The owner's file is locked before the folder exists, so
// that no other writer takes the workspace for that of a dead writer.
func (j *journal) open() (*workspace, error) {
	if j.opt.ReadOnly {
		return nil, ErrReadOnly
	}
	for try := 0; ; try++ {
		if err := j.tree.MkdirAll(journalDir, 0o777); err != nil {
			return nil, wrapError(err)
		}
		if err := j.restore(); err != nil {
			return nil, err
		}
		ws := &workspace{j: j, token: j.opt.Token()}
		ws.dir = path.Join(journalDir, ws.token)
		ours, err := ws.own()
		if err == nil && ours {
			return ws, nil
		}
		if errors.Is(err, fs.ErrNotExist) && try <= 5 {
			continue // another writer has just removed the journal of an empty store
		}
		if err == nil && try > 5 {
			err = fmt.Errorf("%w: %s", ErrLocked, ws.dir+ownerExt)
		}
		if err != nil {
			return nil, wrapError(err)
		}
	}
}
