package watch

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// TestUnmount: a file system that is watched can be unmounted while nothing is sent out of
// it. Its files are absent then, and come back with it, without being read again.
func TestUnmount(t *testing.T) {
	t.Parallel()
	m := testMaterial(t)
	dir := filepath.Join(t.TempDir(), "mnt")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("none", dir, "tmpfs", 0, ""); err != nil {
		t.Skipf("file systems cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	put(t, dir, "files/a/prog", m.stripped)
	// A bind mount comes back with the same files.
	top := filepath.Join(t.TempDir(), "builds")
	if err := os.Mkdir(top, 0o755); err != nil {
		t.Fatal(err)
	}
	mount := func() {
		if err := unix.Mount(filepath.Join(dir, "files"), top, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
	}
	mount()
	t.Cleanup(func() { _ = unix.Unmount(top, unix.MNT_DETACH) })
	f := open(t, top, Options{Rescan: 50 * time.Millisecond})
	running(t, f)
	there := func() bool { _, _, err := get(t, f, "buildid/"+m.id+"/executable"); return err == nil }
	symtest.Await(t, 20*time.Second, "the first scan", there)
	symtest.Await(t, 20*time.Second, "no scan has the folder open", func() bool { return unix.Unmount(top, 0) == nil })
	symtest.Await(t, 20*time.Second, "the folder is away", func() bool { return f.away() })
	wantAway(t, f, m)
	mount()
	symtest.Await(t, 20*time.Second, "the folder is back", there)
	wantBack(t, f, m)
}

// TestUnmountWatched: the file system of a watched folder can be unmounted although the
// system reports changes in it.
func TestUnmountWatched(t *testing.T) {
	t.Parallel()
	m := testMaterial(t)
	dir := filepath.Join(t.TempDir(), "mnt")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("none", dir, "tmpfs", 0, ""); err != nil {
		t.Skipf("file systems cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	put(t, dir, "a/prog", m.stripped)
	f := open(t, dir, Options{Rescan: time.Hour})
	running(t, f)
	symtest.Await(t, 20*time.Second, "the first scan", func() bool {
		_, _, err := get(t, f, "buildid/"+m.id+"/executable")
		return err == nil && len(f.scanning) == 0
	})
	if s, err := f.Status(t.Context()); err != nil || !s.Notified {
		t.Skipf("this system reports no changes: %+v, %v", s, err)
	}
	if err := unix.Unmount(dir, 0); err != nil {
		t.Fatalf("the watched file system cannot be unmounted: %v", err)
	}
	symtest.Await(t, 20*time.Second, "the folder is away", func() bool { return f.away() })
	wantAway(t, f, m)
}
