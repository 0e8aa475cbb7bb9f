package depot

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"testing"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/cooling"
)

// spoiled damages the cold file of a content and returns its record.
func spoiled(t *testing.T, d *Depot, ref blob.Ref) ColdContent {
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
func coolAlone(body []byte) []cooling.Content {
	return []cooling.Content{{Ref: blob.Sum(body), Size: int64(len(body)), Needed: 3}}
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
				if _, err := d.Cold.coolOne(t.Context(), coolAlone(again.body), 0, CoolOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			row := spoiled(t, d, blob.Sum(again.body))
			if _, faults := verified(t, d, CheckOptions{}); len(faults) == 0 {
				t.Fatal("verify finds nothing, want the damaged cold file")
			}
			add(t, d, "app", again)
			if _, faults := verified(t, d, CheckOptions{Restore: true}); len(faults) > 0 {
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
	if err := d.Cold.store.Below().Put(ctx, ref, row.Size, bytes.NewReader(files[1].body)); err != nil {
		t.Fatal(err)
	}
	w, err := d.Cold.WarmAll(ctx, Warming{Failed: func(f Fault) { t.Errorf("fault %+v, want none", f) }})
	if err != nil || w.Contents != 3 || w.Failed != 0 {
		t.Errorf("warm all: %+v, %v, want 3 contents", w, err)
	}
	if _, faults := verified(t, d, CheckOptions{}); len(faults) > 0 {
		t.Errorf("faults %+v afterwards, want none", faults)
	}
	for i, f := range files {
		answers(t, d, map[string][]byte{paths[i]: f.body})
	}
}
