package lockfile

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/symdepot/symdepot/internal/base/durable"
)

// optionsOf returns the options of a writer of a folder.
func optionsOf(t *testing.T, dir string, mode Mode, wait time.Duration) Options {
	t.Helper()
	tree, err := durable.OpenTree(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tree.Close() })
	n := 0
	return Options{
		Tree: tree, Path: dir, Mode: mode, Wait: wait, Now: time.Now, LockByte: TryByte,
		Token: func() string { n++; return string(rune('a' + n)) },
	}
}

// lockedByOther makes a folder whose lock another open file holds, as another
// process would, with a record by that name.
func lockedByOther(t *testing.T, dir string) (*os.File, record) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, "000Admin"), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, filepath.FromSlash(Name)), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if ok, err := TryByte(f, firstByte); err != nil || !ok {
		t.Skip("needs a file system with locks of bytes:", err)
	}
	r := record{token: "theirs", owner: "elsewhere process 7", since: time.Now(), renewed: time.Now()}
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
	opt := optionsOf(t, dir, Bytes, time.Minute)
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		l, err := Acquire(context.Background(), opt)
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
		theirs := &Lock{opt: opt, token: "theirs", file: other}
		if err := theirs.Check(); !errors.Is(err, ErrLost) {
			t.Errorf("the old owner: %v, want ErrLost", err)
		}
		l.Release()
		next, err := Acquire(context.Background(), opt)
		if err != nil {
			t.Errorf("after the new owner: %v, want the lock", err)
			return
		}
		if next.record.generation != 1 {
			t.Errorf("then generation %d, want 1", next.record.generation)
		}
		next.Release()
	})
}

// TestRenewed does not take over from an owner that shows that it lives.
func TestRenewed(t *testing.T) {
	dir := t.TempDir()
	other, record := lockedByOther(t, dir)
	opt := optionsOf(t, dir, Bytes, 2*time.Minute)
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
		_, err := Acquire(context.Background(), opt)
		if !errors.Is(err, ErrLocked) || time.Since(began) < 2*time.Minute {
			t.Errorf("%v after %v, want ErrLocked after 2 minutes", err, time.Since(began))
		}
	})
}

// TestRenewal holds the lock for long and looks at the record.
func TestRenewal(t *testing.T) {
	for mode, name := range map[Mode]string{Bytes: Name, File: FileName} {
		opt := optionsOf(t, t.TempDir(), mode, time.Minute)
		read := func() record {
			data, err := opt.Tree.Root().ReadFile(name)
			if err != nil {
				t.Error(err)
			}
			return parseRecord(data)
		}
		synctest.Test(t, func(t *testing.T) {
			l, err := Acquire(context.Background(), opt)
			if err != nil {
				t.Error(err)
				return
			}
			first := read()
			time.Sleep(renewEvery + time.Second) // of a bubble: nobody waits
			second := read()
			if first.token != l.token || second.token != l.token || second.renewed.Sub(first.renewed) != renewEvery {
				t.Errorf("%+v then %+v; want one token and a renewal after %v", first, second, renewEvery)
			}
			l.Release()
		})
		if _, err := opt.Tree.Root().Stat(FileName); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after the release %s: error %v, want %v", FileName, err, fs.ErrNotExist)
		}
	}
}

// TestFile takes over from a writer that left its file behind, and keeps
// out a second one.
func TestFile(t *testing.T) {
	opt := optionsOf(t, t.TempDir(), File, 5*time.Second)
	dead := record{token: "dead", owner: "crashed"}.String()
	root := opt.Tree.Root()
	if err := errors.Join(root.Mkdir("000Admin", 0o755), root.WriteFile(FileName, []byte(dead), 0o644)); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		if _, err := Acquire(context.Background(), opt); !errors.Is(err, ErrLocked) {
			t.Error(err)
		}
		opt.Wait = time.Minute
		l, err := Acquire(context.Background(), opt)
		if err != nil {
			t.Error(err)
			return
		}
		_ = root.Remove(FileName)
		if err := l.Check(); !errors.Is(err, ErrLost) {
			t.Error(err)
		}
		l.Release()
	})
}

func FuzzRecord(f *testing.F) {
	f.Add(record{token: "x", owner: "y"}.String())
	f.Fuzz(func(_ *testing.T, s string) { _ = parseRecord([]byte(s)).describe() })
}
