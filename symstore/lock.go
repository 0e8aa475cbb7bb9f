package symstore

import (
	"context"

	"github.com/symdepot/symdepot/symstore/internal/lockfile"
)

// Locking is how writers exclude each other. All writers of one store must use the
// same.
type Locking uint8

const (
	// LockOS locks a byte of 000Admin/symdepot.lock with the operating system.
	// The lock ends with the process. A file system without locks gives
	// ErrNoLocks.
	LockOS = Locking(lockfile.Bytes)
	// LockFile makes the file 000Admin/symdepot.lockfile, which works on any
	// file system. After a crash the next writer waits for half a minute.
	LockFile = Locking(lockfile.File)
	// LockNone takes no lock: for a store with a single writer.
	LockNone = Locking(lockfile.None)
)

// lock is the right to publish changes of a store.
type lock struct {
	held *lockfile.Lock
	dead []*workspace // folders of dead writers, to be removed after the lock
}

// lock waits for the right to publish.
func (j *journal) lock(ctx context.Context) (*lock, error) {
	if j.opt.ReadOnly {
		return nil, ErrReadOnly
	}
	held, err := lockfile.Acquire(ctx, lockfile.Options{
		Tree: j.tree, Path: j.path, Mode: lockfile.Mode(j.opt.Locking), Wait: j.opt.LockWait,
		Now: j.opt.Now, Token: j.opt.Token, LockByte: j.opt.osLock,
	})
	if err != nil {
		return nil, wrapError(err)
	}
	l := &lock{held: held}
	if err := j.recoverAll(ctx, l); err != nil {
		l.unlock()
		return nil, err
	}
	return l, nil
}

// check returns ErrLockLost if this writer has lost the lock.
func (l *lock) check() error { return l.held.Check() }

// unlock releases the lock.
func (l *lock) unlock() {
	l.held.Release()
	for _, ws := range l.dead {
		ws.discard()
	}
}
