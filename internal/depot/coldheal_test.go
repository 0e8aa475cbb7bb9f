package depot

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot/backup"
	"github.com/symdepot/symdepot/internal/depot/check"
	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// spoiled damages the cold file of a content and returns its record.
func spoiled(t *testing.T, d *Depot, ref blob.Ref) coldstore.ColdContent {
	t.Helper()
	row, err := d.Cold.Of(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	spoil(t, d, row.File.Ref)
	return row
}

// spoil overwrites bytes in the middle of a stored file.
func spoil(t *testing.T, d *Depot, ref blob.Ref) {
	t.Helper()
	path := blobPath(d, ref)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	copy(b[len(b)/2:], "XXXX")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// coolAlone is the series of a content that others are built from.
func coolAlone(body []byte) []coldstore.Candidate {
	return []coldstore.Candidate{{Ref: blob.Sum(body), Size: int64(len(body)), Needed: 3}}
}

// TestAddHealsCold: a file that is added again while its cold file, or the key from which
// it is built, is damaged is plain afterwards, and nothing is damaged any more.
func TestAddHealsCold(t *testing.T) {
	for _, form := range []string{"delta", "key"} {
		t.Run(form, func(t *testing.T) {
			d, _, files, paths := chilled(t)
			again := files[1]
			if form == "key" {
				again = files[3]
				if _, err := d.Cold.CoolOne(t.Context(), coolAlone(again.body), 0, coldstore.CoolOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			row := spoiled(t, d, blob.Sum(again.body))
			if _, faults := verified(t, d, check.Options{}); len(faults) == 0 {
				t.Fatal("verify finds nothing, want the damaged cold file")
			}
			add(t, d, "app", again)
			if _, faults := verified(t, d, check.Options{Restore: true}); len(faults) > 0 {
				t.Errorf("faults %+v after the file was added again, want none", faults)
			}
			if _, err := d.Cold.Of(t.Context(), row.Ref); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the record of the content: %v, want none: it is plain", err)
			}
			if known, err := d.db.HasContent(t.Context(), row.File.Ref); known || err != nil {
				t.Errorf("the damaged cold file is known: %v, %v; want that it is gone", known, err)
			}
			for i, f := range files {
				answers(t, d, map[string][]byte{paths[i]: f.body})
			}
		})
	}
}

// TestWarmHealed: a content whose plain bytes are stored although its record says that they
// are not becomes plain, and its damaged cold file is dropped.
func TestWarmHealed(t *testing.T) {
	d, _, files, paths := chilled(t)
	ctx, ref := t.Context(), blob.Sum(files[1].body)
	row := spoiled(t, d, ref)
	if err := d.Cold.Store().Below().Put(ctx, ref, row.Size, bytes.NewReader(files[1].body)); err != nil {
		t.Fatal(err)
	}
	w, err := d.Cold.WarmAll(ctx, coldstore.Warming{Failed: func(f content.Fault) { t.Errorf("fault %+v, want none", f) }})
	if err != nil || w.Contents != 3 || w.Failed != 0 {
		t.Errorf("warm all: %+v, %v, want 3 contents", w, err)
	}
	if _, faults := verified(t, d, check.Options{}); len(faults) > 0 {
		t.Errorf("faults %+v afterwards, want none", faults)
	}
	for i, f := range files {
		answers(t, d, map[string][]byte{paths[i]: f.body})
	}
}

// twoForms returns a depot with builds of a module of which all but the newest are cold and
// stored plain too. They are too long to be hashed when they are opened.
func twoForms(t *testing.T) (d *Depot, files []file, want map[string][]byte) {
	t.Helper()
	d, c := roomyDepot(t)
	n := newNightly("app.so", 7, 80000)
	want = map[string][]byte{}
	for i := range 3 {
		f, path := n.build(i)
		if len(f.body) <= blob.HashedAtOpen {
			t.Fatalf("a file has %d bytes, want more than %d", len(f.body), blob.HashedAtOpen)
		}
		files, want[path] = append(files, f), f.body
		add(t, d, "app", f)
		c.advance(24 * time.Hour)
	}
	if sum, err := d.Cold.Cool(t.Context(), coldstore.CoolOptions{After: time.Hour, Grace: coldstore.CoolGrace}); err != nil || sum.Contents != 2 {
		t.Fatalf("cool: %+v, %v, want 2 contents", sum, err)
	}
	return d, files, want
}

// TestBackupOneForm: of a content that is stored plain and cold, one intact form is enough
// for a backup of the depot, and for its restoration.
func TestBackupOneForm(t *testing.T) {
	symtest.Sequential(t)
	for name, c := range map[string]struct {
		damage func(t *testing.T, d *Depot, ref blob.Ref) // of the depot, before the backup
		lose   func(d *Depot, ref blob.Ref) blob.Ref      // gone from the backup
	}{
		"the plain bytes are damaged":           {damage: spoil},
		"the cold file is damaged":              {damage: func(t *testing.T, d *Depot, ref blob.Ref) { spoiled(t, d, ref) }},
		"the plain bytes are not in the backup": {lose: func(_ *Depot, ref blob.Ref) blob.Ref { return ref }},
		"the cold file is not in the backup": {lose: func(d *Depot, ref blob.Ref) blob.Ref {
			row, err := d.Cold.Of(t.Context(), ref)
			if err != nil {
				t.Fatal(err)
			}
			return row.File.Ref
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d, files, want := twoForms(t)
			ref := blob.Sum(files[0].body)
			if c.damage != nil {
				c.damage(t, d, ref)
			}
			dir := filepath.Join(t.TempDir(), "backup")
			backUp(t, d, dir, backup.Options{})
			if c.lose != nil {
				hash := c.lose(d, ref).String()
				if err := os.Remove(filepath.Join(dir, "blobs", hash[:2], hash[2:])); err != nil {
					t.Fatal(err)
				}
			}
			fresh := filepath.Join(t.TempDir(), "fresh")
			if b, err := backup.Restore(t.Context(), dir, fresh, backup.Options{Fault: func(f content.Fault) { t.Errorf("fault %+v, want none", f) }}); err != nil || b.Faults > 0 {
				t.Fatalf("restore: %+v, %v, want a depot without faults", b, err)
			}
			again := openAt(t, fresh)
			if _, faults := verified(t, again, check.Options{Restore: true}); len(faults) > 0 {
				t.Errorf("faults %+v of the restored depot, want none", faults)
			}
			answers(t, again, want)
		})
	}
}

// TestBackupAdvice: the advice for a lost cold file is to add the file again, because
// --repair cannot bring it back.
func TestBackupAdvice(t *testing.T) {
	d, _, files, _ := chilled(t)
	spoiled(t, d, blob.Sum(files[1].body))
	var faults []content.Fault
	b := backUp(t, d, filepath.Join(t.TempDir(), "backup"), backup.Options{Fault: func(f content.Fault) { faults = append(faults, f) }})
	if b.Faults != 1 || len(faults) != 1 || !strings.Contains(faults[0].Remedy, "symdepot add") || strings.Contains(faults[0].Remedy, "--repair") {
		t.Errorf("%d faults %+v, want one with the advice to add the file again", b.Faults, faults)
	}
}

// TestBackupKeepsPlain: the plain bytes in an earlier backup replace a cold file that was
// lost since.
func TestBackupKeepsPlain(t *testing.T) {
	symtest.Sequential(t)
	d, files, want := twoForms(t)
	dir := filepath.Join(t.TempDir(), "backup")
	backUp(t, d, dir, backup.Options{})
	if n, err := d.Cold.Strip(t.Context(), 0); n != 2 || err != nil {
		t.Fatalf("strip: %d, %v, want 2 contents", n, err)
	}
	spoiled(t, d, blob.Sum(files[0].body))
	if err := os.Remove(filepath.Join(dir, "blobs", coldName(t, d, files[0].body))); err != nil {
		t.Fatal(err)
	}
	backUp(t, d, dir, backup.Options{})
	fresh := filepath.Join(t.TempDir(), "fresh")
	if _, err := backup.Restore(t.Context(), dir, fresh, backup.Options{}); err != nil {
		t.Fatal(err)
	}
	answers(t, openAt(t, fresh), want)
}

// coldName returns the name of the cold file of a content in the folder blobs.
func coldName(t *testing.T, d *Depot, body []byte) string {
	t.Helper()
	row, err := d.Cold.Of(t.Context(), blob.Sum(body))
	if err != nil {
		t.Fatal(err)
	}
	hash := row.File.Ref.String()
	return filepath.Join(hash[:2], hash[2:])
}
