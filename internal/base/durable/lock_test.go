package durable

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// TestLockFile: a second owner fails at once or waits, and gets the lock when the file is closed.
func TestLockFile(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "lock")
	first, err := LockFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := LockFile(name); !errors.Is(err, ErrLocked) {
		t.Errorf("a second lock: %v, want %v", err, ErrLocked)
	}
	gaveUp := errors.New("nobody waits longer")
	ended, end := context.WithCancelCause(t.Context())
	end(gaveUp)
	if _, err := AwaitLock(ended, name); !errors.Is(err, ErrLocked) || !errors.Is(err, gaveUp) {
		t.Errorf("a wait that ended: %v, want %v and %v", err, ErrLocked, gaveUp)
	}
	got := make(chan error)
	go func() {
		second, err := AwaitLock(t.Context(), name)
		if err == nil {
			err = second.Close()
		}
		got <- err
	}()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Errorf("the lock after the first owner: %v", err)
	}
}

// TestAwaitLockAlone: of many that wait, one at a time has the lock.
func TestAwaitLockAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			f, err := AwaitLock(t.Context(), filepath.Join(dir, "lock"))
			if err != nil {
				t.Error(err)
				return
			}
			inside := filepath.Join(dir, "inside")
			if err := os.Mkdir(inside, 0o700); err != nil {
				t.Errorf("two have the lock: %v", err)
			}
			if err := os.Remove(inside); err != nil {
				t.Error(err)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}
