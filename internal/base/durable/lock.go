package durable

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"time"
)

// ErrLocked means that another process, or another open file of this one, has the lock.
var ErrLocked = errors.New("another process has the lock")

// lockPause is how long AwaitLock waits between two attempts, at least and at most.
const lockPause, lockPauseMost = 2 * time.Millisecond, 50 * time.Millisecond

// LockFile creates a file if there is none, and locks it until it is closed. The lock also
// ends with the process. The error is ErrLocked if somebody else has the lock. The file
// must not be removed while others may lock it.
func LockFile(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// AwaitLock is LockFile that waits while somebody else has the lock, until ctx ends. The
// order of those who wait is not kept.
func AwaitLock(ctx context.Context, name string) (*os.File, error) {
	for pause := lockPause; ; pause = min(2*pause, lockPauseMost) {
		f, err := LockFile(name)
		if !errors.Is(err, ErrLocked) {
			return f, err
		}
		timer := time.NewTimer(pause/2 + rand.N(pause)) // so that processes do not try all at once
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, errors.Join(err, context.Cause(ctx))
		case <-timer.C:
		}
	}
}
