package symstore

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/symdepot/symdepot/symstore/internal/lockfile"
)

// TestLostWhilePublishing loses the lock in the middle of publishing.
func TestLostWhilePublishing(t *testing.T) {
	p := writeFile(t, filepath.Join(t.TempDir(), "x.dll"), peImage(1, 0x1000, "a"))
	dir := t.TempDir()
	s := create(t, dir, One, Options{step: func(what string) error {
		if what == "create 000Admin/0000000001" {
			writeFile(t, filepath.Join(dir, filepath.FromSlash(lockfile.Name)), []byte("symdepot lock\r\ntoken another\r\n"))
		}
		return nil
	}})
	if _, err := s.Add(t.Context(), AddOptions{}, paths(p)); !errors.Is(err, ErrLockLost) {
		t.Error(err)
	}
	want(t, s, "000Admin/0000000001", noFile)
	// The next writer completes it, as the one who took over would have.
	next := create(t, dir, One, Options{})
	if r := mustAdd(t, next, AddOptions{}, paths(p)); r.ID != 2 {
		t.Errorf("mustAdd: %+v, want ID 2", r)
	}
	mustBeClean(t, next)
}

func TestForeignLocks(t *testing.T) {
	p := writeFile(t, filepath.Join(t.TempDir(), "x.dll"), peImage(1, 0x1000, "a"))
	for _, name := range []string{"_lockfile.sem", "SymStoreAdapter.lock", lockfile.FileName} {
		s := create(t, t.TempDir(), One, Options{LockWait: time.Millisecond})
		f := writeFile(t, filepath.Join(s.Dir(), filepath.FromSlash(name)), nil)
		if _, err := s.Add(t.Context(), AddOptions{}, paths(p)); !errors.Is(err, ErrLocked) {
			t.Errorf("%s: Add: error %v, want ErrLocked", name, err)
		}
		old := time.Now().Add(-25 * time.Hour)
		if err := os.Chtimes(f, old, old); err != nil {
			t.Fatal(err)
		}
		s.opt.LockWait = time.Minute
		mustAdd(t, s, AddOptions{}, paths(p))
	}
}

func TestLockNone(t *testing.T) {
	p := writeFile(t, filepath.Join(t.TempDir(), "x.dll"), peImage(1, 0x1000, "a"))
	s := create(t, t.TempDir(), One, Options{Locking: LockNone})
	mustAdd(t, s, AddOptions{}, paths(p))
	mustDel(t, s, 1)
	if s.exists(lockfile.Name) || s.exists(lockfile.FileName) {
		t.Error("a lock was made")
	}
}

// TestTokens injects the source of tokens.
func TestTokens(t *testing.T) {
	n := 0
	s := create(t, t.TempDir(), One, Options{Token: func() string { n++; return string(rune('a' + n)) }})
	p := writeFile(t, filepath.Join(t.TempDir(), "x.dll"), peImage(1, 0x1000, "a"))
	mustAdd(t, s, AddOptions{}, paths(p))
	if n != 2 { // of the folder and of the lock
		t.Errorf("%d tokens, want 2", n)
	}
}

// TestRefusedLocks works on a file system that has no locks, by choice only.
func TestRefusedLocks(t *testing.T) {
	p := writeFile(t, filepath.Join(t.TempDir(), "x.dll"), peImage(1, 0x1000, "a"))
	s := create(t, t.TempDir(), One, Options{osLock: func(*os.File, int64) (bool, error) {
		if runtime.GOOS == "windows" {
			return false, os.NewSyscallError("LockFileEx", syscall.Errno(50)) // ERROR_NOT_SUPPORTED
		}
		return false, os.NewSyscallError("fcntl", syscall.ENOLCK)
	}})
	before := tree(t, s.Dir())
	if _, err := s.Add(t.Context(), AddOptions{}, paths(p)); !errors.Is(err, ErrNoLocks) {
		t.Error(err)
	}
	if d := differ(before, tree(t, s.Dir())); d != "" || len(leftovers(t, s)) > 0 {
		t.Errorf(`differ: %s, %q; want "", length 0`, d, leftovers(t, s))
	}
	s.opt.Locking = LockFile
	mustAdd(t, s, AddOptions{}, paths(p))
}

// TestPowerLoss empties what was renamed and not flushed, as some file systems
// do, before a writer came to its end.
func TestPowerLoss(t *testing.T) {
	src := t.TempDir()
	a := writeFile(t, filepath.Join(src, "a.dll"), peImage(1, 0x1000, "a"))
	b := writeFile(t, filepath.Join(src, "b.dll"), peImage(2, 0x1000, "b"))
	killed := errors.New("killed")
	for _, stop := range []string{"applied", "settle"} {
		dir := t.TempDir()
		mustAdd(t, create(t, dir, One, Options{}), AddOptions{}, paths(a))
		dead := false
		s := create(t, dir, One, Options{step: func(what string) error {
			if dead = dead || what == stop; dead {
				return killed
			}
			return nil
		}})
		if _, err := s.Add(t.Context(), AddOptions{}, paths(a, b)); !errors.Is(err, killed) {
			t.Fatal(err)
		}
		for _, name := range []string{serverFile, historyFile, lastIDFile, "a.dll/000000011000/refs.ptr", "b.dll/000000021000/refs.ptr"} {
			writeFile(t, filepath.Join(dir, filepath.FromSlash(name)), nil)
		}
		next := create(t, dir, One, Options{})
		if r := mustAdd(t, next, AddOptions{}, paths(b)); r.ID != 3 {
			t.Errorf("mustAdd: %+v, want ID 3", r)
		}
		if _, err := next.Repair(t.Context(), CheckOptions{}); err != nil {
			t.Error(err)
		}
		mustBeClean(t, next)
		n := 0
		for u, err := range next.Walk(t.Context()) {
			if n++; err != nil || u.ID != ID(n) {
				t.Errorf("%+v: got error %v, want ID ID(n)", u, err)
			}
		}
		if n != 3 {
			t.Errorf("after %s: %d transactions, want 3", stop, n)
		}
	}
}
