package depot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot/backup"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/home"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/internal/store/bucket"
	"github.com/symdepot/symdepot/internal/store/bucket/buckettest"
)

// As in package backup: how often it copies the index before it keeps writers out, the name of
// its record, and how many bytes it stores together.
const (
	freeRounds = 4
	recordName = "backup.json"
	copyBytes  = 64 << 20
)

// numbered is the n-th of many symbol files.
func numbered(n, size int) file {
	id := fmt.Sprintf("%032X0", n+1)
	return file{fmt.Sprintf("build/n%d.sym", n), []byte(fmt.Sprintf("MODULE Linux x86_64 %s n%d\nFUNC 1000 10 0 f\n%s", id, n, strings.Repeat("PUBLIC 2000 0 g\n", size/16)))}
}

// openAt opens a depot in a folder until the test ends.
func openAt(t *testing.T, dir string) *Depot {
	t.Helper()
	d, err := Open(t.Context(), dir, Options{MustExist: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// openNew makes a depot that the test may close.
func openNew(t *testing.T) *Depot {
	t.Helper()
	d, err := Open(t.Context(), filepath.Join(t.TempDir(), "depot"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// wantWhole verifies a depot that holds certain transactions, and closes it.
func wantWhole(t *testing.T, dir string, transactions, contents int64) {
	t.Helper()
	d := openAt(t, dir)
	defer d.Close()
	v, err := d.Check.Verify(t.Context(), func(f content.Fault) { t.Errorf("%s: fault: %+v, want none", dir, f) }, nil)
	if err != nil || v.Contents != contents || v.Strays != 0 {
		t.Errorf("%s: %d contents and %d strays, %v; want %d", dir, v.Contents, v.Strays, err, contents)
	}
	if s, err := d.Stats(t.Context()); err != nil || s.Transactions != transactions {
		t.Errorf("%s: %d builds, %v; want %d", dir, s.Transactions, err, transactions)
	}
}

func backUp(t *testing.T, d *Depot, dir string, opt backup.Options) backup.Result {
	t.Helper()
	if opt.Fault == nil {
		opt.Fault = func(f content.Fault) { t.Errorf("fault: %+v, want none", f) }
	}
	b, err := d.Backup(t.Context(), dir, opt)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// bucketOf opens the bucket of a running store.
func bucketOf(t *testing.T, p *buckettest.Peer) bucket.Bucket {
	t.Helper()
	b, err := bucket.OpenS3(bucket.S3Config{Bucket: p.Bucket, Prefix: "depot", Endpoint: p.Endpoint, Region: "us-east-1", AccessKey: p.User, SecretKey: p.Secret}, buckettest.Transport(nil))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestBackup backs up three times: each backup copies only what is new and removes
// what is not needed any more, and is a depot.
func TestBackup(t *testing.T) {
	t.Parallel()
	d, _ := newDepot(t)
	setPolicy(t, d, "trash: 0")
	dir := filepath.Join(t.TempDir(), "sub", "backup")
	one := add(t, d, "A", numbered(1, 100), numbered(2, 200))
	add(t, d, "B", numbered(2, 200), numbered(3, 300))
	if b := backUp(t, d, dir, backup.Options{}); b.Transactions != 2 || b.Contents != 3 || b.Copied != 3 || b.Removed != 0 || b.CopiedBytes != b.Bytes {
		t.Errorf("first backup: %+v; want 2 builds and 3 contents, all copied", b)
	}
	wantWhole(t, dir, 2, 3)
	add(t, d, "C", numbered(4, 400))
	if _, err := d.Retention.Remove(t.Context(), one, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Collect(t.Context(), -1, false); err != nil {
		t.Fatal(err)
	}
	if err := d.Cold.Pause(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if b := backUp(t, d, dir, backup.Options{Verify: true}); b.Transactions != 2 || b.Contents != 3 || b.Copied != 1 || b.Removed != 1 {
		t.Errorf("second backup: %+v; want 1 content copied and 1 removed", b)
	}
	wantWhole(t, dir, 2, 3)
	if b := backUp(t, d, dir, backup.Options{}); b.Copied != 0 || b.Removed != 0 {
		t.Errorf("third backup: %+v; want nothing copied", b)
	}
	// No file of the backup is one of the depot.
	for info, err := range d.blobs.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		a, err := os.Stat(blobPath(d, info.Ref))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.Stat(filepath.Join(dir, "blobs", info.Ref.String()[:2], info.Ref.String()[2:]))
		if err != nil || os.SameFile(a, b) {
			t.Errorf("content %s of the backup: %v; want a file of its own", info.Ref, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	b, err := Open(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if c, err := b.Cold.Progress(t.Context()); err != nil || !c.Paused {
		t.Errorf("cooling in the backup: %+v, %v; want paused, as in the depot", c, err)
	}
}

// TestBackupWhileCollecting frees contents between the copy of the index and that
// of the contents, in every round: at last the backup keeps writers out.
func TestBackupWhileCollecting(t *testing.T) {
	t.Parallel()
	for _, times := range []int{1, freeRounds, freeRounds + 3} {
		t.Run(fmt.Sprint(times), func(t *testing.T) {
			t.Parallel()
			d, _ := newDepot(t)
			setPolicy(t, d, "trash: 0")
			other := openAt(t, d.dir)
			add(t, d, "keep", numbered(0, 100))
			last := add(t, d, "go", numbered(1, 100))
			dir := filepath.Join(t.TempDir(), "backup")
			round := 0
			ended := make(chan error, freeRounds+3)
			work := func() error {
				// What the copied index names goes, and something new comes.
				if _, err := other.Retention.Remove(t.Context(), last, ""); err != nil {
					return err
				}
				if _, err := other.Collect(t.Context(), -1, false); err != nil {
					return err
				}
				last = add(t, other, "go", numbered(round+10, 100))
				return nil
			}
			b := backUp(t, d, dir, backup.Options{AfterSnapshot: func() {
				if round++; round > times {
					return
				}
				if round <= freeRounds {
					if err := work(); err != nil {
						t.Error(err)
					}
					return
				}
				go func() { ended <- work() }() // it waits for the backup
			}})
			if want := min(times, freeRounds) + 1; round != want {
				t.Errorf("%d rounds, want %d", round, want)
			}
			if times > freeRounds {
				if err := <-ended; err != nil {
					t.Errorf("a writer that waited: %v", err)
				}
			}
			if b.Contents != 2 || b.Faults != 0 {
				t.Errorf("backup: %+v; want 2 contents", b)
			}
			wantWhole(t, dir, 2, 2)
		})
	}
}

// TestBackupRefuses: a backup never replaces what is not the earlier backup of the
// same depot.
func TestBackupRefuses(t *testing.T) {
	symtest.Sequential(t)
	t.Parallel()
	d, _ := newDepot(t)
	add(t, d, "A", numbered(1, 100))
	other, _ := newDepot(t)
	add(t, other, "B", numbered(2, 100))
	used := filepath.Join(t.TempDir(), "used")
	backUp(t, d, used, backup.Options{})
	u := openAt(t, used)
	add(t, u, "C", numbered(3, 100))
	if err := u.Close(); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(t.TempDir(), "open")
	backUp(t, d, open, backup.Options{})
	openAt(t, open)
	others := filepath.Join(t.TempDir(), "others")
	backUp(t, other, others, backup.Options{})
	files := t.TempDir()
	if err := os.WriteFile(filepath.Join(files, "thesis.txt"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, dir, want string
		is              error
	}{
		{"the depot", d.dir, "name another folder", nil},
		{"inside the depot", filepath.Join(d.dir, "backup"), "name another folder", nil},
		{"around the depot", filepath.Dir(d.dir), "name another folder", nil},
		{"another depot", other.dir, "it is a depot", backup.ErrNotBackup},
		{"other files", files, "thesis.txt", backup.ErrNotBackup},
		{"the backup of another depot", others, "different depot", backup.ErrNotBackup},
		{"a backup that was used", used, "used as a depot", backup.ErrNotBackup},
		{"a backup that is open", open, "another process", backup.ErrInUse},
	} {
		_, err := d.Backup(t.Context(), c.dir, backup.Options{})
		if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want one line with %q", c.name, err, c.want)
		}
	}
	wantWhole(t, used, 2, 2)
	wantWhole(t, others, 1, 1)
	if _, err := os.Stat(filepath.Join(files, recordName)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a refused folder was changed: %v, want the error %v", err, fs.ErrNotExist)
	}
	placed, err := Open(t.Context(), filepath.Join(t.TempDir(), "placed"), Options{Bucket: bucketOf(t, buckettest.S3(t))})
	if err != nil {
		t.Fatal(err)
	}
	defer placed.Close()
	if _, err := placed.Backup(t.Context(), t.TempDir(), backup.Options{}); !errors.Is(err, backup.ErrOnDiskOnly) {
		t.Errorf("with a bucket: %v, want backup.ErrOnDiskOnly", err)
	}
}

// TestBackupOfDamage: damaged contents are reported, the rest is backed up, and an
// intact copy in an earlier backup stays.
func TestBackupOfDamage(t *testing.T) {
	t.Parallel()
	for name, damage := range lossy {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, _ := logged(t, Options{})
			old, young := numbered(1, 4000), numbered(2, blob.HashedAtOpen+100_000)
			add(t, d, "app", old)
			dir := filepath.Join(t.TempDir(), "backup")
			backUp(t, d, dir, backup.Options{})
			add(t, d, "app", young, numbered(3, 100))
			damage(t, d, old.body)
			damage(t, d, young.body)
			var faults []content.Fault
			b := backUp(t, d, dir, backup.Options{Fault: func(f content.Fault) { faults = append(faults, f) }})
			if b.Faults != 1 || len(faults) != 1 || faults[0].Ref != blob.Sum(young.body).String() || len(faults[0].Files) != 1 || faults[0].Files[0].Transaction != 2 || faults[0].Remedy == "" {
				t.Errorf("backup: %+v with faults %+v; want the damaged new file with its build", b, faults)
			}
			c := openAt(t, dir)
			if got, err := whole(t, c, strings.Join([]string{"n1", fmt.Sprintf("%032X0", 2), "n1.sym"}, "/")); err != nil || !bytes.Equal(got, old.body) {
				t.Errorf("the file of the earlier backup: %d bytes, %v; want %d", len(got), err, len(old.body))
			}
		})
	}
}

// TestBackupVerify: --verify finds what has rotted in the backup, and copies it
// again.
func TestBackupVerify(t *testing.T) {
	t.Parallel()
	d, _ := newDepot(t)
	f := numbered(1, 4000)
	add(t, d, "app", f)
	dir := filepath.Join(t.TempDir(), "backup")
	backUp(t, d, dir, backup.Options{})
	rotten := bytes.Clone(f.body)
	rotten[100] ^= 1
	ref := blob.Sum(f.body).String()
	if err := os.WriteFile(filepath.Join(dir, "blobs", ref[:2], ref[2:]), rotten, 0o600); err != nil {
		t.Fatal(err)
	}
	if b := backUp(t, d, dir, backup.Options{}); b.Copied != 0 {
		t.Errorf("without --verify: %+v; want nothing copied", b)
	}
	if b := backUp(t, d, dir, backup.Options{Verify: true}); b.Copied != 1 {
		t.Errorf("with --verify: %+v; want 1 content copied", b)
	}
	wantWhole(t, dir, 1, 1)
}

// TestBackupInterrupted cancels a backup in the middle: the earlier one stays as it
// was.
func TestBackupInterrupted(t *testing.T) {
	t.Parallel()
	d, _ := newDepot(t)
	add(t, d, "app", numbered(1, 100))
	dir := filepath.Join(t.TempDir(), "backup")
	backUp(t, d, dir, backup.Options{})
	add(t, d, "app", numbered(2, 100))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err := d.Backup(ctx, dir, backup.Options{AfterSnapshot: cancel}); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v, want context.Canceled", err)
	}
	wantWhole(t, dir, 1, 1)
	backUp(t, d, dir, backup.Options{})
	wantWhole(t, dir, 2, 2)
}

// TestRestore restores to a new folder and over a depot.
// TestBackupGoesOn: a backup that ends before its end is continued, not begun again. At
// most one batch is copied twice, and Progress counts only what the folder keeps.
func TestBackupGoesOn(t *testing.T) {
	t.Parallel()
	const contents, size = 40, 4 << 20
	d, _ := newDepot(t)
	var files []file
	for n := range contents {
		files = append(files, numbered(n, size))
	}
	add(t, d, "A", files...)
	dir := filepath.Join(t.TempDir(), "backup")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var said int64
	_, err := d.Backup(ctx, dir, backup.Options{Progress: func(done, _ int64) {
		if said = done; done >= contents/2*size {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("a backup that was interrupted in its middle: error %v, want %v", err, context.Canceled)
	}
	b := backUp(t, d, dir, backup.Options{})
	if again := b.CopiedBytes - (b.Bytes - said); again != 0 {
		t.Errorf("the first backup said that it has %d of %d bytes, the second copied %d: %d bytes twice, want none", said, b.Bytes, b.CopiedBytes, again)
	}
	if most := int64(contents/2*size + copyBytes); b.CopiedBytes > most {
		t.Errorf("the second backup copied %d of %d bytes, want at most %d", b.CopiedBytes, b.Bytes, most)
	}
	wantWhole(t, dir, 1, contents)
}

func TestRestore(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	add(t, d, "app", numbered(1, 100), numbered(2, 5000))
	dir := filepath.Join(t.TempDir(), "backup")
	taken := backUp(t, d, dir, backup.Options{}).Taken
	gen, err := d.db.Copies.Moment(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	fresh := filepath.Join(t.TempDir(), "fresh")
	r, err := backup.Restore(t.Context(), dir, fresh, backup.Options{})
	if err != nil || r.Transactions != 1 || r.Contents != 2 || r.Copied != 2 || !r.Taken.Equal(taken) {
		t.Errorf("restored to a new folder: %+v, %v; want 1 build and 2 contents, all copied, of the time of the backup", r, err)
	}
	wantWhole(t, fresh, 1, 2)

	// A depot that has gone on is replaced only on demand.
	add(t, d, "app", numbered(3, 100))
	if _, err := backup.Restore(t.Context(), dir, d.dir, backup.Options{Replace: true}); !errors.Is(err, backup.ErrInUse) {
		t.Errorf("restored over an open depot: %v, want backup.ErrInUse", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := backup.Restore(t.Context(), dir, d.dir, backup.Options{}); !errors.Is(err, backup.ErrHoldsFiles) || !strings.Contains(err.Error(), "--replace") {
		t.Errorf("restored over a depot: %v, want backup.ErrHoldsFiles", err)
	}
	wantWhole(t, d.dir, 2, 3)
	ref := blob.Sum(numbered(2, 5000).body).String()
	if err := os.Truncate(filepath.Join(d.dir, "blobs", ref[:2], ref[2:]), 10); err != nil {
		t.Fatal(err)
	}
	r, err = backup.Restore(t.Context(), dir, d.dir, backup.Options{Replace: true})
	if err != nil || r.Copied != 1 {
		t.Errorf("restored with Replace: %+v, %v; want the damaged content copied", r, err)
	}
	again := openAt(t, d.dir)
	v, err := again.Check.Verify(t.Context(), func(f content.Fault) { t.Errorf("fault: %+v, want none", f) }, nil)
	if err != nil || v.Contents != 2 || v.Strays != 1 {
		t.Errorf("restored depot: %+v, %v; want 2 contents, and 1 that waits for gc", v, err)
	}
	if m, err := again.db.Copies.Moment(t.Context()); err != nil || m.Generation <= gen.Generation+1 {
		t.Errorf("generation %d, %v; want more than that of the replaced depot", m.Generation, err)
	}
	if n := add(t, again, "app", numbered(4, 100)); n != 2 {
		t.Errorf("next build %d, want 2", n)
	}
}

// TestRestoreRefuses: what is not a whole backup replaces nothing.
func TestRestoreRefuses(t *testing.T) {
	symtest.Sequential(t)
	t.Parallel()
	d, _ := newDepot(t)
	add(t, d, "app", numbered(1, 100), numbered(2, 100))
	made := func(change func(dir string)) string {
		t.Helper()
		dir := filepath.Join(t.TempDir(), "backup")
		backUp(t, d, dir, backup.Options{})
		change(dir)
		return dir
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	blobOf := func(dir string, n int) string {
		ref := blob.Sum(numbered(n, 100).body).String()
		return filepath.Join(dir, "blobs", ref[:2], ref[2:])
	}
	victim := func() string {
		t.Helper()
		dir := filepath.Join(t.TempDir(), "victim")
		v, err := Open(t.Context(), dir, Options{})
		must(err)
		add(t, v, "mine", numbered(7, 100))
		must(v.Close())
		return dir
	}
	for _, c := range []struct {
		name, from, want string
		is               error
	}{
		{"no backup", t.TempDir(), "not a backup: backup.json is missing", backup.ErrNotBackup},
		{"a depot", d.dir, "backup.json", backup.ErrNotBackup},
		{"never completed", made(func(dir string) { must(os.Remove(filepath.Join(dir, "depot.json"))) }), "completed", backup.ErrNotBackup},
		{"newer", made(func(dir string) {
			b, err := json.Marshal(home.Stamp{Format: home.Format + 1})
			must(err)
			must(os.WriteFile(filepath.Join(dir, "depot.json"), b, 0o600))
		}), "use the newer symdepot", home.ErrNewer},
		{"a damaged content", made(func(dir string) { must(os.Truncate(blobOf(dir, 1), 20)) }), "--incomplete", backup.ErrIncomplete},
		{"a missing content", made(func(dir string) { must(os.Remove(blobOf(dir, 2))) }), "--incomplete", backup.ErrIncomplete},
		{"a damaged index", made(func(dir string) {
			f, err := os.OpenFile(filepath.Join(dir, "index.db"), os.O_RDWR, 0)
			must(err)
			_, err = f.WriteAt(bytes.Repeat([]byte{0xff}, 64), 3*4096)
			must(err)
			must(f.Close())
		}), "", nil},
	} {
		dir := victim()
		_, err := backup.Restore(t.Context(), c.from, dir, backup.Options{Replace: true})
		if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want an error with %q", c.name, err, c.want)
		}
		v := openAt(t, dir)
		if s, err := v.Stats(t.Context()); err != nil || s.Transactions != 1 || s.Contents != 1 {
			t.Errorf("%s: the depot holds %+v, %v; want what it held", c.name, s, err)
		}
		if _, err := whole(t, v, "n7/"+fmt.Sprintf("%032X0", 8)+"/n7.sym"); err != nil {
			t.Errorf("%s: the file of the depot: %v", c.name, err)
		}
	}
	from := made(func(dir string) { must(os.Remove(blobOf(dir, 2))) })
	to := filepath.Join(t.TempDir(), "new")
	var faults int
	r, err := backup.Restore(t.Context(), from, to, backup.Options{Incomplete: true, Fault: func(content.Fault) { faults++ }})
	if err != nil || r.Faults != 1 || faults != 1 || r.Copied != 1 {
		t.Errorf("incomplete: %+v, %v, %d faults; want one of each", r, err, faults)
	}
}

// TestRestoreOverDamage: an index that cannot be opened is kept beside the restored
// one.
func TestRestoreOverDamage(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	add(t, d, "app", numbered(1, 100))
	dir := filepath.Join(t.TempDir(), "backup")
	backUp(t, d, dir, backup.Options{})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.dir, "index.db"), bytes.Repeat([]byte("damage. "), 2000), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := backup.Restore(t.Context(), dir, d.dir, backup.Options{}); !errors.Is(err, engine.ErrCorrupt) || !strings.Contains(err.Error(), "--replace") {
		t.Errorf("without Replace: %v; want ErrCorrupt and the flag", err)
	}
	if _, err := backup.Restore(t.Context(), dir, d.dir, backup.Options{Replace: true}); err != nil {
		t.Fatal(err)
	}
	wantWhole(t, d.dir, 1, 1)
	if b, err := os.ReadFile(filepath.Join(d.dir, "index.db.damaged")); err != nil || !bytes.HasPrefix(b, []byte("damage. ")) {
		t.Errorf("the damaged index was not kept: %v", err)
	}
}
