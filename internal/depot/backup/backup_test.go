package backup_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot/backup"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/home"
	"github.com/symdepot/symdepot/internal/depot/home/hometest"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// files are the contents of the depots of these tests.
func files() (list [][]byte) {
	for i := range 3 {
		list = append(list, hometest.Sym("app", i, 2000+i))
	}
	return list
}

// filled is a depot with two transactions.
func filled(t *testing.T) *hometest.Home {
	t.Helper()
	r := hometest.Open(t, filepath.Join(t.TempDir(), "depot"))
	f := files()
	r.Add(t, "app", "1", f[0], f[1])
	r.Add(t, "app", "2", f[2])
	return r
}

func sourceOf(r *hometest.Home) backup.Source {
	return backup.Source{Home: r.Home, Store: r.Cold.Store(), Contents: r.Contents}
}

func take(t *testing.T, r *hometest.Home, dir string, opt backup.Options) backup.Result {
	t.Helper()
	b, err := backup.Take(t.Context(), sourceOf(r), dir, opt)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// holds fails unless the folder is a depot with the contents and as many transactions.
func holds(t *testing.T, dir string, transactions int64, contents ...[]byte) {
	t.Helper()
	r := hometest.Open(t, dir)
	defer r.Close()
	if s, err := r.DB.Stats(t.Context()); err != nil || s.Transactions != transactions || s.Contents != int64(len(contents)) {
		t.Errorf("%s: %+v, %v; want %d builds with %d contents", dir, s, err, transactions, len(contents))
	}
	for i, body := range contents {
		if what, err := r.Contents.Hash(t.Context(), hometest.Content(body), nil); err != nil || what != "" {
			t.Errorf("%s: content %d: %q, %v; want it intact", dir, i, what, err)
		}
	}
}

// TestTake: a backup is a depot; the next one copies what is new and removes what is not needed.
func TestTake(t *testing.T) {
	r, dir := filled(t), filepath.Join(t.TempDir(), "sub", "backup")
	f := files()
	var done, all int64
	b := take(t, r, dir, backup.Options{Verify: true, Progress: func(d, a int64) { done, all = d, a }})
	if b.To != dir || b.Transactions != 2 || b.Contents != 3 || b.Copied != 3 || b.CopiedBytes != b.Bytes || b.Removed != 0 || b.Faults != 0 || b.Taken.IsZero() {
		t.Errorf("the first backup: %+v, want 2 builds and 3 contents, all copied", b)
	}
	if done != b.Bytes || all != b.Bytes {
		t.Errorf("progress ends at %d of %d, want %d", done, all, b.Bytes)
	}
	holds(t, dir, 2, f...)
	more := hometest.Sym("app", 7, 3000)
	r.Add(t, "app", "3", more)
	if b := take(t, r, dir, backup.Options{}); b.Copied != 1 || b.CopiedBytes != int64(len(more)) || b.Contents != 4 {
		t.Errorf("the second backup: %+v, want the one new of 4 contents copied", b)
	}
	holds(t, dir, 3, append(f, more)...)
}

// TestTakeRemoves what the depot does not have, as an earlier backup leaves it.
func TestTakeRemoves(t *testing.T) {
	r, dir := filled(t), filepath.Join(t.TempDir(), "backup")
	take(t, r, dir, backup.Options{})
	stray := hometest.Sym("app", 9, 500)
	disk, err := blob.OpenDisk(filepath.Join(dir, "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	if err := disk.Put(t.Context(), blob.Sum(stray), int64(len(stray)), strings.NewReader(string(stray))); err != nil {
		t.Fatal(err)
	}
	if err := disk.Close(); err != nil {
		t.Fatal(err)
	}
	if b := take(t, r, dir, backup.Options{}); b.Removed != 1 || b.RemovedBytes != int64(len(stray)) {
		t.Errorf("%+v, want the content removed that the depot does not have", b)
	}
}

// TestTakeDamaged: what cannot be read is reported with a remedy and is not in the backup.
func TestTakeDamaged(t *testing.T) {
	for name, harm := range map[string]func(*hometest.Home, *testing.T, []byte){"flipped": (*hometest.Home).Flip, "missing": (*hometest.Home).Lose} {
		t.Run(name, func(t *testing.T) {
			r, dir := filled(t), filepath.Join(t.TempDir(), "backup")
			f := files()
			harm(r, t, f[1])
			var faults []content.Fault
			b := take(t, r, dir, backup.Options{Fault: func(x content.Fault) { faults = append(faults, x) }})
			if b.Faults != 1 || b.Copied != 2 || len(faults) != 1 || faults[0].Ref != blob.Sum(f[1]).String() || !strings.Contains(faults[0].Remedy, "symdepot add") {
				t.Errorf("%+v with faults %+v, want 2 contents copied, and one fault that says to add the file", b, faults)
			}
			if _, err := backup.Restore(t.Context(), dir, filepath.Join(t.TempDir(), "restored"), backup.Options{}); !errors.Is(err, backup.ErrIncomplete) {
				t.Errorf("restore: %v, want backup.ErrIncomplete", err)
			}
			r.Add(t, "app", "1", f[1])
			if b := take(t, r, dir, backup.Options{}); b.Faults != 0 || b.Copied != 1 {
				t.Errorf("after the file was added again: %+v, want it copied, and no fault", b)
			}
		})
	}
}

// TestTakeRefuses folders that are not for a backup of the depot, and changes nothing in them.
func TestTakeRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		dir  func(t *testing.T, r *hometest.Home) string
		is   error
		says string
	}{
		"the depot":        {func(_ *testing.T, r *hometest.Home) string { return r.Dir }, nil, "name another folder"},
		"inside the depot": {func(_ *testing.T, r *hometest.Home) string { return filepath.Join(r.Dir, "backup", "deep") }, nil, "name another folder"},
		"around the depot": {func(_ *testing.T, r *hometest.Home) string { return filepath.Dir(r.Dir) }, nil, "name another folder"},
		"a link to the depot": {func(t *testing.T, r *hometest.Home) string {
			link := filepath.Join(t.TempDir(), "link")
			symtest.Symlink(t, r.Dir, link)
			return filepath.Join(link, "backup")
		}, nil, "name another folder"},
		"other files": {func(t *testing.T, _ *hometest.Home) string {
			dir := t.TempDir()
			symtest.Put(t, dir, "notes.txt", []byte("mine"))
			return dir
		}, backup.ErrNotBackup, "notes.txt"},
		"another depot": {func(t *testing.T, _ *hometest.Home) string { return filled(t).Dir }, backup.ErrNotBackup, "it is a depot"},
		"the backup of another depot": {func(t *testing.T, _ *hometest.Home) string {
			dir := filepath.Join(t.TempDir(), "backup")
			take(t, filled(t), dir, backup.Options{})
			return dir
		}, backup.ErrNotBackup, "a different depot"},
		"a backup that was used as a depot": {func(t *testing.T, r *hometest.Home) string {
			dir := filepath.Join(t.TempDir(), "backup")
			take(t, r, dir, backup.Options{})
			used := hometest.Open(t, dir)
			used.Add(t, "app", "9", hometest.Sym("app", 9, 100))
			used.Close()
			return dir
		}, backup.ErrNotBackup, "used as a depot"},
		"a damaged record": {func(t *testing.T, _ *hometest.Home) string {
			dir := t.TempDir()
			symtest.Put(t, dir, "backup.json", []byte("{"))
			return dir
		}, backup.ErrNotBackup, "backup.json is damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			r := filled(t)
			dir := c.dir(t, r)
			_, err := backup.Take(t.Context(), sourceOf(r), dir, backup.Options{})
			if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("take: %v, want an error that wraps %v and says %q", err, c.is, c.says)
			}
		})
	}
}

// TestTakeEnds: a backup whose context ends leaves the earlier one.
func TestTakeEnds(t *testing.T) {
	r, dir := filled(t), filepath.Join(t.TempDir(), "backup")
	take(t, r, dir, backup.Options{})
	r.Add(t, "app", "3", hometest.Sym("app", 7, 3000))
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := backup.Take(ctx, sourceOf(r), dir, backup.Options{AfterSnapshot: cancel}); !errors.Is(err, context.Canceled) {
		t.Errorf("take: %v, want context.Canceled", err)
	}
	holds(t, dir, 2, files()...)
}

// TestRestore makes a folder equal to the backup: an empty one, or one that may be replaced.
func TestRestore(t *testing.T) {
	r, dir := filled(t), filepath.Join(t.TempDir(), "backup")
	taken := take(t, r, dir, backup.Options{})
	to := filepath.Join(t.TempDir(), "restored")
	got, err := backup.Restore(t.Context(), dir, to, backup.Options{})
	if want := (backup.Result{To: to, Taken: taken.Taken, Transactions: 2, Contents: 3, Bytes: taken.Bytes, Copied: 3, CopiedBytes: taken.Bytes}); err != nil || got != want {
		t.Errorf("restore: %+v, %v; want %+v", got, err, want)
	}
	holds(t, to, 2, files()...)
	if _, err := backup.Restore(t.Context(), dir, to, backup.Options{}); !errors.Is(err, backup.ErrHoldsFiles) {
		t.Errorf("restore to what holds files: %v, want backup.ErrHoldsFiles", err)
	}
	used := hometest.Open(t, to)
	if other := r.Fingerprint; used.Fingerprint == "" || used.Fingerprint == other {
		t.Errorf("the restored depot has the fingerprint %q, its original %q; want another one", used.Fingerprint, other)
	}
	used.Add(t, "app", "9", hometest.Sym("app", 9, 100))
	if _, err := backup.Restore(t.Context(), dir, to, backup.Options{Replace: true}); !errors.Is(err, backup.ErrInUse) {
		t.Errorf("restore to a depot that is open: %v, want backup.ErrInUse", err)
	}
	used.Close()
	if _, err := backup.Restore(t.Context(), dir, to, backup.Options{Replace: true}); err != nil {
		t.Errorf("restore with Replace: %v, want none", err)
	}
	holds(t, to, 2, files()...)
}

// TestRestoreIncomplete: a damaged backup is restored only if that is asked for.
func TestRestoreIncomplete(t *testing.T) {
	r, dir := filled(t), filepath.Join(t.TempDir(), "backup")
	take(t, r, dir, backup.Options{})
	f := files()
	copied := hometest.Open(t, dir)
	path := copied.Path(f[1])
	copied.Close()
	if err := os.WriteFile(path, f[0], 0o600); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "restored")
	var faults []content.Fault
	opt := backup.Options{Fault: func(x content.Fault) { faults = append(faults, x) }}
	if _, err := backup.Restore(t.Context(), dir, to, opt); !errors.Is(err, backup.ErrIncomplete) || len(faults) != 1 || faults[0].Ref != blob.Sum(f[1]).String() {
		t.Errorf("restore: %v with faults %+v, want backup.ErrIncomplete and the damaged content", err, faults)
	}
	if s, err := home.ReadStamp(to); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder has the stamp %+v, %v; want none: nothing was restored", s, err)
	}
	opt.Incomplete = true
	if got, err := backup.Restore(t.Context(), dir, to, opt); err != nil || got.Faults != 1 || got.Copied != 0 {
		t.Errorf("restore with Incomplete: %+v, %v; want one fault, and the 2 contents that are there already not copied again", got, err)
	}
	restored := hometest.Open(t, to)
	for i, lost := range []bool{false, true, false} {
		if what, err := restored.Contents.Hash(t.Context(), hometest.Content(f[i]), nil); err != nil || (what != "") != lost {
			t.Errorf("content %d after it: %q, %v; want that it is lost: %v", i, what, err, lost)
		}
	}
}

// TestRestoreRefuses what is no backup, and where no depot may be.
func TestRestoreRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, from, to string) // of a backup and an empty folder
		is     error
		says   string
	}{
		"no record":        {func(t *testing.T, from, _ string) { remove(t, from, "backup.json") }, backup.ErrNotBackup, "backup.json is missing"},
		"a damaged record": {func(t *testing.T, from, _ string) { symtest.Put(t, from, "backup.json", []byte("[]")) }, backup.ErrNotBackup, "damaged"},
		"never completed":  {func(t *testing.T, from, _ string) { remove(t, from, "depot.json") }, backup.ErrNotBackup, "no backup to it was completed"},
		"no contents":      {func(t *testing.T, from, _ string) { remove(t, from, "blobs") }, backup.ErrNotBackup, "blobs"},
		"a newer format":   {func(t *testing.T, from, _ string) { symtest.Put(t, from, "depot.json", []byte(`{"format":99}`)) }, nil, "99"},
		"a damaged index":  {func(t *testing.T, from, _ string) { symtest.Put(t, from, "index.db", []byte("no database")) }, nil, "index"},
		"other files":      {func(t *testing.T, _, to string) { symtest.Put(t, to, "notes.txt", []byte("mine")) }, nil, "notes.txt"},
		"a moved depot": {func(t *testing.T, _, to string) {
			symtest.Put(t, to, "depot.json", []byte(`{"format":1,"moved":"/there"}`))
		}, nil, "/there"},
		"a newer depot": {func(t *testing.T, _, to string) { symtest.Put(t, to, "depot.json", []byte(`{"format":99}`)) }, nil, "99"},
		"a depot in bucket": {func(t *testing.T, _, to string) {
			symtest.Put(t, to, "depot.json", []byte(`{"format":1,"contents":"s3://b/p"}`))
		}, backup.ErrOnDiskOnly, "bucket"},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := filepath.Join(t.TempDir(), "backup"), t.TempDir()
			take(t, filled(t), from, backup.Options{})
			c.change(t, from, to)
			before := names(t, to)
			_, err := backup.Restore(t.Context(), from, to, backup.Options{})
			if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("restore: %v, want an error that wraps %v and says %q", err, c.is, c.says)
			}
			if s, err := home.ReadStamp(to); before == "" && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the folder has the stamp %+v, %v; want none: nothing was restored", s, err)
			}
		})
	}
	t.Run("the backup itself", func(t *testing.T) {
		from := filepath.Join(t.TempDir(), "backup")
		take(t, filled(t), from, backup.Options{})
		if _, err := backup.Restore(t.Context(), from, from, backup.Options{Replace: true}); err == nil || !strings.Contains(err.Error(), "--depot can name it") {
			t.Errorf("restore of a backup onto itself: %v, want an error that says that it is a depot", err)
		}
	})
}

// TestRestoreEnds with its context, before anything is replaced.
func TestRestoreEnds(t *testing.T) {
	r, dir := filled(t), filepath.Join(t.TempDir(), "backup")
	take(t, r, dir, backup.Options{})
	to := filepath.Join(t.TempDir(), "restored")
	old := hometest.Open(t, to)
	kept := hometest.Sym("old", 1, 500)
	old.Add(t, "old", "1", kept)
	old.Close()
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := backup.Restore(ctx, dir, to, backup.Options{Replace: true, Progress: func(int64, int64) { cancel() }}); !errors.Is(err, context.Canceled) {
		t.Errorf("restore: %v, want context.Canceled", err)
	}
	r2 := hometest.Open(t, to)
	if s, err := r2.DB.Stats(t.Context()); err != nil || s.Transactions != 1 || s.Contents != 1 {
		t.Errorf("the depot after an interrupted restore: %+v, %v; want its one build", s, err)
	}
}

// TestTaken is in UTC and in whole seconds, as the record of the backup has it.
func TestTaken(t *testing.T) {
	b := take(t, filled(t), filepath.Join(t.TempDir(), "backup"), backup.Options{})
	if b.Taken.Location() != time.UTC || !b.Taken.Equal(b.Taken.Truncate(time.Second)) {
		t.Errorf("taken at %v, want whole seconds of UTC", b.Taken)
	}
}

func remove(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

// names are the files of a folder, in one text.
func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return strings.Join(list, " ")
}
