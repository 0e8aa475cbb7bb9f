package watch

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// wantAway checks that a folder is away: nothing is served or read.
func wantAway(t *testing.T, f *Folder, m material) {
	t.Helper()
	wantMissing(t, f, "buildid/"+m.id+"/executable")
	if _, err := f.Scan(t.Context()); !errors.Is(err, ErrAway) {
		t.Errorf("a scan of a folder that is away: %v, want %v", err, ErrAway)
	}
	if s, err := f.Status(t.Context()); err != nil || !s.Away || s.Failed == "" || s.Objects == 0 {
		t.Errorf("the status is %+v, %v, want that it is away, and what is known of it", s, err)
	}
	if list, err := f.Find(t.Context(), Query{Name: "*"}, 0); err != nil || len(list) != 1 || !list[0].Away {
		t.Errorf("a search finds %+v, %v, want one object, which is away", list, err)
	}
	if list, err := f.Entries(t.Context(), 0, 10); err != nil || len(list) > 0 {
		t.Errorf("the folder has %v, %v, want nothing", list, err)
	}
	if list, all, err := f.Metadata(t.Context(), "glob", "*", 0); err != nil || len(list) > 0 || !all {
		t.Errorf("a search for metadata finds %v, %v, want nothing", list, err)
	}
}

// wantBack checks that a folder is served again, and that no file had to be read.
func wantBack(t *testing.T, f *Folder, m material) {
	t.Helper()
	if s, err := f.Scan(t.Context()); err != nil || s.Read > 0 || s.Gone > 0 {
		t.Errorf("a scan of a folder that is back: %+v, %v, want nothing read and nothing gone", s, err)
	}
	if s, err := f.Status(t.Context()); err != nil || s.Away || s.Failed != "" {
		t.Errorf("the status is %+v, %v, want that it is not away", s, err)
	}
	wantBytes(t, f, "buildid/"+m.id+"/executable", m.stripped)
}

// TestAway: the rows of a folder that is moved away are kept, and nothing is read again
// when it is back. A new empty folder in its place is taken for an unmounted file system;
// the same folder without its files is not, nor is another one with files.
func TestAway(t *testing.T) {
	t.Parallel()
	m := testMaterial(t)
	top := t.TempDir()
	dir, old := filepath.Join(top, "builds"), filepath.Join(top, "old")
	put(t, dir, "a/prog", m.stripped)
	f := open(t, dir, Options{})
	scanned(t, f)
	dirty := func() { // what a request for a file that is not there makes
		if _, err := f.scan(t.Context(), []string{"a"}); !errors.Is(err, ErrAway) {
			t.Errorf("a scan of a folder in one that is away: %v, want %v", err, ErrAway)
		}
	}
	rename(t, dir, old)
	wantAway(t, f, m)
	dirty()
	rename(t, old, dir)
	wantBack(t, f, m)

	rename(t, dir, old)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS == "linux" {
		wantAway(t, f, m)
		dirty()
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	rename(t, old, dir)
	wantBack(t, f, m)

	if err := os.RemoveAll(filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	if s := scanned(t, f); s.Gone != 1 {
		t.Errorf("a scan of a folder whose files are gone: %+v, want 1 gone", s)
	}
}

// TestAwayAtStart: a folder that is missing when it is opened is picked up when it is
// there, and keeps its index while it is away between two starts.
func TestAwayAtStart(t *testing.T) {
	t.Parallel()
	m := testMaterial(t)
	top, index := t.TempDir(), filepath.Join(t.TempDir(), "watch.db")
	dir, old := filepath.Join(top, "builds"), filepath.Join(top, "old")
	f := open(t, dir, Options{Index: index, Rescan: 50 * time.Millisecond})
	running(t, f)
	symtest.Await(t, 20*time.Second, "the folder is away", func() bool {
		s, err := f.Status(t.Context())
		return err == nil && s.Away
	})
	put(t, top, "old/a/prog", m.stripped)
	rename(t, old, dir)
	there := func(f *Folder) func() bool {
		return func() bool { _, _, err := get(t, f, "buildid/"+m.id+"/executable"); return err == nil }
	}
	symtest.Await(t, 20*time.Second, "a folder that was missing", there(f))

	symtest.Await(t, 20*time.Second, "no scan has the folder open", func() bool { return os.Rename(dir, old) == nil })
	second := open(t, dir, Options{Index: index})
	wantAway(t, second, m)
	rename(t, old, dir)
	wantBack(t, second, m)
}
