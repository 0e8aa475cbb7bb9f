package watch

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// running runs the folder until the test ends.
func running(t *testing.T, f *Folder) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v, want %v", err, context.Canceled)
		}
	})
}

// TestRun: what comes, changes and goes is noticed, in new folders too: by the reports of
// the system, or by rescans.
func TestRun(t *testing.T) {
	t.Parallel()
	m := testMaterial(t)
	for _, c := range []struct {
		name   string
		rescan time.Duration
		deaf   bool
	}{{"reports", time.Hour, false}, {"rescans", 50 * time.Millisecond, true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			put(t, dir, "a/prog", m.stripped)
			f := open(t, dir, Options{Rescan: c.rescan})
			if c.deaf {
				f.src = &deaf{f.src}
			} else if n, err := f.src.notify(f.dirty); err != nil {
				t.Skipf("this system reports no changes: %v", err)
			} else {
				_ = n.close()
			}
			running(t, f)
			await := func(what, id string, there bool) {
				t.Helper()
				symtest.Await(t, 20*time.Second, what, func() bool {
					_, _, err := get(t, f, "buildid/"+id+"/executable")
					if err != nil && !errors.Is(err, fs.ErrNotExist) {
						t.Fatal(err)
					}
					return (err == nil) == there
				})
			}
			await("the first scan", m.id, true)
			put(t, dir, "new/below/lib.deb", makeDeb(t, true, entry{"usr/lib/libprog.so", m.lib}))
			await("a file in a new folder", m.libID, true)
			if err := os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "moved")); err != nil {
				t.Fatal(err)
			}
			await("a moved folder", m.libID, true)
			put(t, dir, "moved/below/lib.deb", []byte("something else"))
			await("a changed file", m.libID, false)
			put(t, dir, "moved/below/again", m.lib)
			await("a file in a moved folder", m.libID, true)
			if err := os.RemoveAll(filepath.Join(dir, "a")); err != nil {
				t.Fatal(err)
			}
			await("a folder that is gone", m.id, false)
			symtest.Await(t, 20*time.Second, "the rows of files that are gone are dropped", func() bool {
				list, err := f.Entries(t.Context(), 0, 10)
				if err != nil {
					t.Fatal(err)
				}
				return len(list) == 1 && list[0].Object.Name == "again"
			})
		})
	}
}

// TestReplacedFolder: a folder that is moved away is absent at once. The folder that gets
// its path, by a move or a mount, is served instead, and changes in it are noticed.
func TestReplacedFolder(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("a folder that is open cannot be moved there")
	}
	m := testMaterial(t)
	for _, c := range []struct {
		name   string
		rescan time.Duration
		deaf   bool
	}{{"reports", time.Hour, false}, {"rescans", 50 * time.Millisecond, true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			top := t.TempDir()
			dir := filepath.Join(top, "builds")
			put(t, dir, "a/prog", m.stripped)
			put(t, top, "next/a/lib", m.lib)
			f := open(t, dir, Options{Rescan: c.rescan})
			if c.deaf {
				f.src = &deaf{f.src}
			} else if n, err := f.src.notify(f.dirty); err != nil {
				t.Skipf("this system reports no changes: %v", err)
			} else {
				_ = n.close()
			}
			running(t, f)
			has := func(id string) func() bool {
				return func() bool { _, _, err := get(t, f, "buildid/"+id+"/executable"); return err == nil }
			}
			symtest.Await(t, 20*time.Second, "the first scan", has(m.id))
			rename(t, dir, filepath.Join(top, "old"))
			wantMissing(t, f, "buildid/"+m.id+"/executable")
			rename(t, filepath.Join(top, "next"), dir)
			wantMissing(t, f, "buildid/"+m.id+"/executable")
			symtest.Await(t, 20*time.Second, "a file of the new folder", has(m.libID))
			put(t, dir, "a/prog", m.stripped)
			symtest.Await(t, 20*time.Second, "a later file of the new folder", has(m.id))
		})
	}
}

// TestMovedFolders: the folders that get the paths of moved ones are watched too, and so are
// the moved ones if they are still in the tree.
func TestMovedFolders(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("needs a system that reports changes of folders to the program: not Windows")
	}
	m := testMaterial(t)
	for _, to := range []string{"../outside", "build/aside", "build/zaside"} {
		t.Run(filepath.Base(to), func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "watched")
			put(t, dir, "build/now/bin/prog", m.stripped)
			f := open(t, dir, Options{Rescan: time.Hour})
			if n, err := f.src.notify(f.dirty); err != nil {
				t.Skipf("this system reports no changes: %v", err)
			} else {
				_ = n.close()
			}
			running(t, f)
			has := func(id string) func() bool {
				return func() bool { _, _, err := get(t, f, "buildid/"+id+"/executable"); return err == nil }
			}
			symtest.Await(t, 20*time.Second, "the first scan", has(m.id))
			aside := filepath.Join(dir, filepath.FromSlash(to))
			rename(t, filepath.Join(dir, "build", "now"), aside)
			if err := os.MkdirAll(filepath.Join(dir, "build", "now", "bin"), 0o755); err != nil {
				t.Fatal(err)
			}
			put(t, dir, "build/now/bin/lib", m.lib)
			symtest.Await(t, 20*time.Second, "a file in the new folder", has(m.libID))
			if err := os.Remove(filepath.Join(dir, "build", "now", "bin", "lib")); err != nil {
				t.Fatal(err)
			}
			wantMissing(t, f, "buildid/"+m.libID+"/executable")
			put(t, dir, "build/now/bin/again", m.lib)
			symtest.Await(t, 20*time.Second, "a later file in the new folder", has(m.libID))
			if strings.HasPrefix(to, "..") {
				symtest.Await(t, 20*time.Second, "the rows of the folder that is gone are dropped", func() bool {
					list, err := f.Entries(t.Context(), 0, 10)
					if err != nil {
						t.Fatal(err)
					}
					return len(list) == 1
				})
				return
			}
			put(t, aside, "bin/debug", m.debug)
			symtest.Await(t, 20*time.Second, "a file in the moved folder", func() bool {
				_, _, err := get(t, f, "buildid/"+m.id+"/debuginfo")
				return err == nil
			})
		})
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// deaf is a folder whose changes the system does not report.
type deaf struct{ origin }

func (*deaf) notify(*dirtyFolders) (notifier, error) { return nil, errors.New("deaf") }

// TestTooManyFolders: if the system watches no more folders, changes are found by
// rescans.
func TestTooManyFolders(t *testing.T) {
	t.Parallel()
	m := testMaterial(t)
	dir := t.TempDir()
	put(t, dir, "a/b/prog", m.stripped)
	f := open(t, dir, Options{Rescan: 50 * time.Millisecond})
	f.src = &few{f.src}
	running(t, f)
	has := func(id string) func() bool {
		return func() bool { _, _, err := get(t, f, "buildid/"+id+"/executable"); return err == nil }
	}
	symtest.Await(t, 20*time.Second, "the first scan", has(m.id))
	put(t, dir, "a/lib", m.lib)
	symtest.Await(t, 20*time.Second, "a file that is found by a rescan", has(m.libID))
	if s, err := f.Status(t.Context()); err != nil || s.Notified {
		t.Errorf("the status is %+v, %v, want no notifications", s, err)
	}
}

// few is a folder of a system that watches one folder.
type few struct{ origin }

func (*few) notify(*dirtyFolders) (notifier, error) { return &fewNotifier{}, nil }

type fewNotifier struct{ n int }

func (f *fewNotifier) has(string) bool { return false }
func (f *fewNotifier) close() error    { return nil }
func (f *fewNotifier) add(string) error {
	if f.n++; f.n > 1 {
		return errTooMany
	}
	return nil
}

// TestLostFolder: if the folder itself cannot be read, as a network share that went away,
// nothing is dropped, and nothing is served.
func TestLostFolder(t *testing.T) {
	t.Parallel()
	m := testMaterial(t)
	dir := t.TempDir()
	put(t, dir, "prog", m.stripped)
	f := open(t, dir, Options{})
	scanned(t, f)
	own := f.src
	f.src = &gone{own}
	if _, err := f.Scan(t.Context()); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a scan of a folder that is away: %v, want %v", err, fs.ErrPermission)
	}
	wantMissing(t, f, "buildid/"+m.id+"/executable")
	f.src = own
	wantBytes(t, f, "buildid/"+m.id+"/executable", m.stripped)
}

// gone is a folder that went away.
type gone struct{ origin }

func (*gone) folder(context.Context, string) ([]found, []string, error) {
	return nil, nil, fs.ErrPermission
}
func (*gone) snapshot(context.Context) (lister, error)     { return nil, fs.ErrPermission }
func (*gone) open(context.Context, string) (handle, error) { return nil, fs.ErrPermission }
