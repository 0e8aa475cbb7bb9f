package symstore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// lockedByOther makes a store whose lock another open file holds, as another
// process would, with a record by that name.
func lockedByOther(t *testing.T, dir string) (*os.File, lockRecord) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, adminDir), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, filepath.FromSlash(lockName)), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if ok, err := tryLock(f, firstByte); err != nil || !ok {
		t.Skip("no locks here", err)
	}
	r := lockRecord{token: "theirs", owner: "elsewhere process 7", since: time.Now(), renewed: time.Now()}
	if _, err := f.WriteAt([]byte(r.String()), 0); err != nil {
		t.Fatal(err)
	}
	return f, r
}

// TestTakeOver waits for a silent owner, with a clock that does not wait, and
// then keeps that owner from publishing.
func TestTakeOver(t *testing.T) {
	dir := t.TempDir()
	other, _ := lockedByOther(t, dir)
	s := create(t, dir, One, Options{})
	p := writeFile(t, filepath.Join(t.TempDir(), "x.dll"), peImage(1, 0x1000, "a"))
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		l, err := s.journal.lock(context.Background())
		if err != nil {
			t.Error(err)
			return
		}
		if waited := time.Since(began); waited < silence || waited > silence+time.Second {
			t.Errorf("taken over after %v, want %v", waited, silence)
		}
		if l.record.generation != 1 {
			t.Errorf("generation %d, want 1", l.record.generation)
		}
		theirs := &lock{j: s.journal, mode: LockOS, token: "theirs", file: other}
		if err := theirs.check(); !errors.Is(err, ErrLockLost) {
			t.Errorf("the old owner: %v, want ErrLockLost", err)
		}
		l.unlock()
	})
	mustAdd(t, s, AddOptions{}, paths(p))
}

// TestRenewed does not take over from an owner that shows that it lives.
func TestRenewed(t *testing.T) {
	dir := t.TempDir()
	other, record := lockedByOther(t, dir)
	s := create(t, dir, One, Options{LockWait: 2 * time.Minute})
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		defer close(stop)
		go func() {
			tick := time.NewTicker(renewEvery)
			defer tick.Stop()
			for {
				select {
				case <-stop:
					return
				case <-tick.C:
					record.renewed = time.Now()
					_, _ = other.WriteAt([]byte(record.String()), 0)
				}
			}
		}()
		began := time.Now()
		_, err := s.journal.lock(context.Background())
		if !errors.Is(err, ErrLocked) || time.Since(began) < 2*time.Minute {
			t.Errorf("%v after %v, want ErrLocked after 2 minutes", err, time.Since(began))
		}
	})
}

// TestRenewal holds the lock for long and looks at the record.
func TestRenewal(t *testing.T) {
	for _, mode := range []Locking{LockOS, LockFile} {
		s := create(t, t.TempDir(), One, Options{Locking: mode})
		name := map[Locking]string{LockOS: lockName, LockFile: lockFileName}[mode]
		synctest.Test(t, func(t *testing.T) {
			l, err := s.journal.lock(context.Background())
			if err != nil {
				t.Error(err)
				return
			}
			first := parseLockRecord([]byte(read(t, s, name)))
			time.Sleep(renewEvery + time.Second) // of a bubble: nobody waits
			second := parseLockRecord([]byte(read(t, s, name)))
			if first.token != l.token || second.token != l.token || second.renewed.Sub(first.renewed) != renewEvery {
				t.Errorf("%+v then %+v; want one token and a renewal after %v", first, second, renewEvery)
			}
			l.unlock()
		})
		if mode == LockFile && s.exists(lockFileName) {
			t.Error("the lock file is still there")
		}
	}
}

// TestLockFile takes over from a writer that left its file behind, and keeps
// out a second one.
func TestLockFile(t *testing.T) {
	s := create(t, t.TempDir(), One, Options{Locking: LockFile, LockWait: 5 * time.Second})
	writeFile(t, filepath.Join(s.Dir(), filepath.FromSlash(lockFileName)), []byte(lockRecord{token: "dead", owner: "crashed"}.String()))
	synctest.Test(t, func(t *testing.T) {
		if _, err := s.journal.lock(context.Background()); !errors.Is(err, ErrLocked) {
			t.Error(err)
		}
		s.opt.LockWait = time.Minute
		l, err := s.journal.lock(context.Background())
		if err != nil {
			t.Error(err)
			return
		}
		_ = s.root.Remove(lockFileName)
		if err := l.check(); !errors.Is(err, ErrLockLost) {
			t.Error(err)
		}
		l.unlock()
	})
}

// TestLostWhilePublishing loses the lock in the middle of publishing.
func TestLostWhilePublishing(t *testing.T) {
	p := writeFile(t, filepath.Join(t.TempDir(), "x.dll"), peImage(1, 0x1000, "a"))
	dir := t.TempDir()
	s := create(t, dir, One, Options{step: func(what string) error {
		if what == "create 000Admin/0000000001" {
			writeFile(t, filepath.Join(dir, filepath.FromSlash(lockName)), []byte(lockRecord{token: "another"}.String()))
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
	for _, name := range append(foreignLocks, lockFileName) {
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
	if s.exists(lockName) || s.exists(lockFileName) {
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
