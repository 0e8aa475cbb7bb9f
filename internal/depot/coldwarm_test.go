package depot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/catalog"
	"github.com/symdepot/symdepot/internal/depot/check"
	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/why"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// chilled returns a depot with four builds of a module, of which the first three are
// cold without plain bytes, and the paths of all.
func chilled(t *testing.T) (d *Depot, c *clock, files []file, paths []string) {
	t.Helper()
	d, c = roomyDepot(t)
	n := newNightly("app.so", 7, 9000)
	for i := range 4 {
		f, path := n.build(i)
		files, paths = append(files, f), append(paths, path)
		add(t, d, "app", f)
		c.advance(24 * time.Hour)
	}
	if sum, err := d.Cold.Cool(t.Context(), coldstore.CoolOptions{After: time.Hour}); err != nil || sum.Contents != 3 {
		t.Fatalf("cool: %+v, %v, want 3 contents", sum, err)
	}
	return d, c, files, paths
}

// TestWarmFailures: contents that cannot be restored are named and stay cold; the others
// become plain.
func TestWarmFailures(t *testing.T) {
	d, _, files, _ := chilled(t)
	ctx := t.Context()
	row, err := d.Cold.Of(ctx, blob.Sum(files[1].body))
	if err != nil || row.Base == nil {
		t.Fatalf("the second content %+v, %v, want a delta", row, err)
	}
	hash := row.File.Ref.String()
	path := filepath.Join(d.dir, "blobs", hash[:2], hash[2:])
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 4
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	var faults []content.Fault
	w, err := d.Cold.WarmAll(ctx, coldstore.Warming{Failed: func(f content.Fault) { faults = append(faults, f) }})
	if err != nil || w.Contents != 2 || w.Failed != 1 || len(faults) != 1 {
		t.Fatalf("warm all: %+v, faults %+v, %v, want 2 contents and one that failed", w, faults, err)
	}
	if f := faults[0]; f.Ref != row.Ref.String() || !strings.Contains(f.What, hash) || len(f.Files) == 0 || f.Remedy == "" {
		t.Errorf("the fault %+v, want the content, its cold file %s, its build and what to do", f, hash)
	}
	if s, err := d.Cold.Stats(ctx); err != nil || s.Contents != 1 {
		t.Errorf("sums %+v, %v, want the one content that failed", s, err)
	}
}

// TestPlainBesideCold: damaged plain bytes beside an intact cold file of the same content
// are a fault, and --repair restores them.
func TestPlainBesideCold(t *testing.T) {
	for name, known := range map[string]bool{"stored too": true, "left over": false} {
		t.Run(name, func(t *testing.T) {
			d, _, files, paths := chilled(t)
			ctx := t.Context()
			ref := blob.Sum(files[1].body)
			if known { // the plain bytes have not been deleted yet
				if _, err := d.Cold.WarmThese(ctx, []blob.Ref{ref}, coldstore.Warming{}); err != nil {
					t.Fatal(err)
				}
				if sum, err := d.Cold.Cool(ctx, coldstore.CoolOptions{After: time.Hour, Grace: coldstore.CoolGrace}); err != nil || sum.Contents != 1 {
					t.Fatalf("cool: %+v, %v, want 1 content", sum, err)
				}
			}
			lossy["swapped"](t, d, files[1].body)
			if _, faults := verified(t, d, check.Options{}); len(faults) != 1 || faults[0].Ref != ref.String() || !strings.Contains(faults[0].What, "plain bytes") || !strings.Contains(faults[0].Remedy, "--repair") || len(faults[0].Files) != 1 {
				t.Fatalf("faults %+v, want the damaged plain bytes of %s, and that --repair restores them", faults, ref)
			}
			answers(t, d, map[string][]byte{paths[1]: files[1].body})
			_, faults := verified(t, d, check.Options{Repair: true})
			if len(faults) != 1 || !strings.Contains(faults[0].Remedy, "was restored") {
				t.Fatalf("faults %+v while repairing, want the one that was repaired", faults)
			}
			if b, err := os.ReadFile(faults[0].MovedTo); err != nil || len(b) != len(files[1].body) {
				t.Errorf("the damaged bytes: %d, %v, want %d that were moved aside", len(b), err, len(files[1].body))
			}
			if err := d.Cold.Store().Below().Verify(ctx, ref, int64(len(files[1].body)), nil); err != nil {
				t.Errorf("the plain bytes after the repair: %v, want that they are intact", err)
			}
			if _, faults := verified(t, d, check.Options{Restore: true}); len(faults) > 0 {
				t.Errorf("faults %+v after the repair, want none", faults)
			}
			answers(t, d, map[string][]byte{paths[1]: files[1].body})
		})
	}
}

// TestPlainBesideColdLost: if the cold file is damaged too, the fault is that of the
// content, and nothing says that it was restored.
func TestPlainBesideColdLost(t *testing.T) {
	d, _, files, _ := chilled(t)
	row, err := d.Cold.Of(t.Context(), blob.Sum(files[1].body))
	if err != nil {
		t.Fatal(err)
	}
	lossy["swapped"](t, d, files[1].body)
	if err := os.Truncate(blobPath(d, row.File.Ref), row.File.Size/2); err != nil {
		t.Fatal(err)
	}
	_, faults := verified(t, d, check.Options{Repair: true})
	for _, f := range faults {
		if strings.Contains(f.Remedy, "was restored") {
			t.Errorf("fault %+v, want none that was repaired", f)
		}
	}
	if len(faults) != 2 { // the cold file, and the content
		t.Errorf("%d faults %+v, want 2", len(faults), faults)
	}
	if s, err := d.Cold.Stats(t.Context()); err != nil || s.Contents != 3 {
		t.Errorf("sums %+v, %v, want three cold contents", s, err)
	}
}

// TestPinnedDamaged: of a damaged base that only cold contents need, plain or a key, verify
// names these, and --repair keeps its record.
func TestPinnedDamaged(t *testing.T) {
	for _, form := range []string{"plain", "key"} {
		t.Run(form, func(t *testing.T) {
			d, _, files, _ := chilled(t)
			ctx := t.Context()
			if _, err := d.Retention.Remove(ctx, 4, ""); err != nil {
				t.Fatal(err)
			}
			base := blob.Sum(files[3].body)
			if form == "key" {
				if err := d.Cold.Unpin(ctx, nil); err != nil {
					t.Fatal(err)
				}
				if _, err := d.Cold.Strip(ctx, 0); err != nil {
					t.Fatal(err)
				}
				row, err := d.Cold.Of(ctx, base)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.Truncate(blobPath(d, row.File.Ref), row.File.Size/2); err != nil {
					t.Fatal(err)
				}
			} else {
				lossy["swapped"](t, d, files[3].body)
			}
			for _, repair := range []bool{false, true} {
				_, faults := verified(t, d, check.Options{Repair: repair})
				named := false
				for _, f := range faults {
					if f.Ref == base.String() {
						named = len(f.Files) == 3 && f.Files[0].BuiltFrom && strings.Contains(f.Files[0].String(), "built from it") && strings.Contains(f.Remedy, "cold contents")
					}
					if strings.Contains(f.Remedy, "nothing refer") {
						t.Errorf("repair %v: the remedy of %s is %q, and the base is needed", repair, f.Ref, f.Remedy)
					}
				}
				if !named {
					t.Errorf("repair %v: faults %+v, want one of the base %s with the three files that are built from it", repair, faults, base)
				}
			}
			if s, err := d.Cold.Stats(ctx); err != nil || s.Pinned != 1 || s.Deltas != 3 {
				t.Errorf("sums after the repair: %+v, %v, want the base with its three deltas", s, err)
			}
		})
	}
}

// TestWarmAsked: a content that was read in three intervals becomes plain, and one that was
// read many times in one interval does not. One that cannot be read now does not keep the
// others from it.
func TestWarmAsked(t *testing.T) {
	d, c, files, paths := chilled(t)
	ctx := t.Context()
	want := map[string][]byte{}
	for i, p := range paths {
		want[p] = files[i].body
	}
	for i := range coldstore.WarmReads {
		if err := d.Cold.WarmAsked(ctx, c.now(), nil); err != nil {
			t.Fatal(err)
		}
		if s, err := d.Cold.Stats(ctx); err != nil || s.Contents != 3 {
			t.Fatalf("sums %+v, %v after %d reads, want three cold contents", s, err, i)
		}
		for range 1 + coldstore.WarmReads*min(i, 1) { // the third content only in the first interval
			answers(t, d, map[string][]byte{paths[0]: files[0].body, paths[1]: files[1].body})
		}
		if i == 0 {
			answers(t, d, want)
			answers(t, d, want)
			answers(t, d, want)
		}
		if err := d.Cold.StoreReads(ctx); err != nil {
			t.Fatal(err)
		}
		c.advance(day)
	}
	broken, first := errors.New("the disk has a bad block"), true
	err := d.Cold.WarmAsked(ctx, c.now(), func(int) error {
		if first {
			first = false
			return broken
		}
		return nil
	})
	if s, serr := d.Cold.Stats(ctx); !errors.Is(err, broken) || serr != nil || s.Contents != 2 {
		t.Errorf("the first of two cannot be read: %v; sums %+v, %v, want that error and two cold contents", err, s, serr)
	}
	if err := d.Cold.WarmAsked(ctx, c.now(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Cold.Of(ctx, blob.Sum(files[2].body)); err != nil {
		t.Errorf("the content that was read in one interval: %v, want that it is cold", err)
	}
	if s, err := d.Cold.Stats(ctx); err != nil || s.Contents != 1 {
		t.Errorf("sums %+v, %v in the end, want one cold content", s, err)
	}
	answers(t, d, want)
}

// TestVerifyWhileRemoved: contents that are removed while verify restores others are no
// faults, and do not end it.
func TestVerifyWhileRemoved(t *testing.T) {
	d, _, _, _ := chilled(t)
	steps, purged := 0, 0
	v, err := d.Check.Run(t.Context(), check.Options{Restore: true}, func(f content.Fault) { t.Errorf("fault %+v, want none", f) }, func(int64) {
		if steps++; steps != 5 { // after four stored contents and the first that is restored
			return
		}
		for number := range int64(3) {
			if _, err := d.Retention.Purge(t.Context(), number+1, "admin", "leak"); err != nil {
				t.Error(err)
			}
			purged++
		}
	})
	if err != nil || purged != 3 || v.Restored != 1 {
		t.Errorf("verify: %+v, %v, want one content that was restored before the others were removed", v, err)
	}
}

// TestPlainBaseDamaged: of a key whose plain bytes are stored too and damaged, the contents
// that are built from it are not lost.
func TestPlainBaseDamaged(t *testing.T) {
	d, c, files, paths := chilled(t)
	n := newNightly("app.so", 7, 9000)
	for i := range len(files) + 1 {
		f, _ := n.build(i)
		if i == len(files) {
			add(t, d, "app", f)
		}
	}
	c.advance(24 * time.Hour)
	if sum, err := d.Cold.Cool(t.Context(), coldstore.CoolOptions{After: time.Hour, Grace: coldstore.CoolGrace}); err != nil || sum.Contents != 1 {
		t.Fatalf("cool: %+v, %v, want 1 content: the key", sum, err)
	}
	lossy["swapped"](t, d, files[3].body)
	for _, repair := range []bool{false, true} {
		if _, faults := verified(t, d, check.Options{Repair: repair}); len(faults) != 1 || faults[0].Ref != blob.Sum(files[3].body).String() {
			t.Errorf("repair %v: faults %+v, want only the plain bytes of the key", repair, faults)
		}
	}
	want := map[string][]byte{}
	for i, p := range paths {
		want[p] = files[i].body
	}
	answers(t, d, want)
}

// TestStripKeepsLast: the plain bytes of a content whose cold file, or whose base, is gone
// before they are deleted stay, and the content is plain again.
func TestStripKeepsLast(t *testing.T) {
	symtest.Sequential(t)
	for name, lose := range map[string]func(t *testing.T, d *Depot, row coldstore.ColdContent){
		"the cold file is gone": func(t *testing.T, d *Depot, row coldstore.ColdContent) {
			if err := os.Remove(blobPath(d, row.File.Ref)); err != nil {
				t.Fatal(err)
			}
		},
		"the cold file was found damaged": func(t *testing.T, d *Depot, row coldstore.ColdContent) {
			if err := os.Truncate(blobPath(d, row.File.Ref), row.File.Size-1); err != nil {
				t.Fatal(err)
			}
			if err := d.blobs.Verify(t.Context(), row.File.Ref, row.File.Size, nil); !errors.Is(err, blob.ErrDamaged) {
				t.Fatalf("verify: %v, want ErrDamaged", err)
			}
		},
		"the base is gone": func(t *testing.T, d *Depot, row coldstore.ColdContent) {
			if err := os.Remove(blobPath(d, row.Base.Ref)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, c, files, paths := chilled(t)
			ctx, ref := t.Context(), blob.Sum(files[1].body)
			if _, err := d.Cold.WarmThese(ctx, []blob.Ref{ref}, coldstore.Warming{}); err != nil {
				t.Fatal(err)
			}
			if sum, err := d.Cold.Cool(ctx, coldstore.CoolOptions{After: time.Hour, Grace: coldstore.CoolGrace}); err != nil || sum.Contents != 1 {
				t.Fatalf("cool: %+v, %v, want 1 content", sum, err)
			}
			row, err := d.Cold.Of(ctx, ref)
			if err != nil {
				t.Fatal(err)
			}
			lose(t, d, row)
			c.advance(2 * time.Hour)
			if n, err := d.Cold.Strip(ctx, coldstore.CoolGrace); n != 0 || err != nil {
				t.Errorf("strip: %d, %v, want that the plain bytes stay", n, err)
			}
			if row, err := d.Cold.Of(ctx, ref); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the record %+v, %v, want none: the content is plain", row, err)
			}
			answers(t, d, map[string][]byte{paths[1]: files[1].body})
		})
	}
}

// TestBothDamaged: a content whose plain bytes and cold file are damaged is one fault, and
// its cold file another.
func TestBothDamaged(t *testing.T) {
	d, _, files, _ := chilled(t)
	ref := blob.Sum(files[1].body)
	if _, err := d.Cold.WarmThese(t.Context(), []blob.Ref{ref}, coldstore.Warming{}); err != nil {
		t.Fatal(err)
	}
	if sum, err := d.Cold.Cool(t.Context(), coldstore.CoolOptions{After: time.Hour, Grace: coldstore.CoolGrace}); err != nil || sum.Contents != 1 {
		t.Fatalf("cool: %+v, %v, want 1 content", sum, err)
	}
	row, err := d.Cold.Of(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	lossy["swapped"](t, d, files[1].body)
	if err := os.Truncate(blobPath(d, row.File.Ref), row.File.Size/2); err != nil {
		t.Fatal(err)
	}
	if _, faults := verified(t, d, check.Options{}); len(faults) != 2 {
		t.Errorf("%d faults %+v, want the content and its cold file", len(faults), faults)
	}
}

// TestWarmThese makes single contents plain; others and plain ones stay as they are.
func TestWarmThese(t *testing.T) {
	d, _, files, paths := chilled(t)
	w, err := d.Cold.WarmThese(t.Context(), []blob.Ref{blob.Sum(files[1].body), blob.Sum(files[3].body)}, coldstore.Warming{})
	if err != nil || w.Contents != 1 || w.Bytes != int64(len(files[1].body)) {
		t.Fatalf("warm: %+v, %v, want the one content that is cold", w, err)
	}
	if s, err := d.Cold.Stats(t.Context()); err != nil || s.Contents != 2 {
		t.Errorf("sums %+v, %v, want two cold contents", s, err)
	}
	want := map[string][]byte{}
	for i, p := range paths {
		want[p] = files[i].body
	}
	answers(t, d, want)
}

// TestWarmAllAgain: contents that become cold while all become plain are counted: earlier
// versions cannot open the depot then.
func TestWarmAllAgain(t *testing.T) {
	d, _, _, _ := chilled(t)
	steps := 0
	w, err := d.Cold.WarmAll(t.Context(), coldstore.Warming{Each: func(coldstore.ColdContent) error {
		if steps++; steps < 3 {
			return nil
		}
		_, err := d.Cold.Cool(t.Context(), coldstore.CoolOptions{After: time.Hour})
		return err
	}})
	if err != nil || w.Contents != 3 || w.Again != 3 {
		t.Errorf("warm all: %+v, %v, want 3 contents, and 3 that are cold again", w, err)
	}
	if w, err := d.Cold.WarmAll(t.Context(), coldstore.Warming{}); err != nil || w.Contents != 3 || w.Again != 0 {
		t.Errorf("warm all again: %+v, %v, want 3 contents", w, err)
	}
}

// TestWarmNoRoom: if the disk has too little space, nothing is changed.
func TestWarmNoRoom(t *testing.T) {
	d, _, files, _ := chilled(t)
	d.Cold.Space = func() (total, free int64, err error) { return 1 << 40, 2 * int64(len(files[0].body)), nil }
	if w, err := d.Cold.WarmAll(t.Context(), coldstore.Warming{}); !errors.Is(err, coldstore.ErrNoRoom) || w.Contents != 0 {
		t.Fatalf("warm all: %+v, %v, want ErrNoRoom", w, err)
	}
	if s, err := d.Cold.Stats(t.Context()); err != nil || s.Contents != 3 {
		t.Errorf("sums %+v, %v, want three cold contents", s, err)
	}
}

// TestColdShown: lists, the entry of a content, the files of a transaction, the usage and a trace say
// that a content is cold. Looking is no use of it.
func TestColdShown(t *testing.T) {
	d, _, files, paths := chilled(t)
	ctx := t.Context()
	p, err := d.Catalog.Objects(ctx, answer.Scope{}, catalog.ObjectQuery{Text: "app.so"})
	if err != nil || len(p.Objects) != 4 {
		t.Fatalf("%d objects, %v, want 4", len(p.Objects), err)
	}
	cold := 0
	for _, f := range p.Objects {
		if f.Cold != nil && f.Cold.Ref == f.Ref && f.Cold.File.Size > 0 {
			cold++
		}
	}
	if cold != 3 {
		t.Errorf("%d objects of the list are cold, want 3", cold)
	}
	e, err := d.Catalog.Entry(ctx, answer.Scope{}, blob.Sum(files[1].body))
	if err != nil || e.Cold == nil || e.Cold.Base == nil || e.Cold.Base.Ref != blob.Sum(files[3].body) {
		t.Errorf("the entry of the second build: %+v, %v, want a delta of the newest", e, err)
	}
	for number, want := range map[int64]bool{1: true, 4: false} {
		if err := d.Files(ctx, number, func(f TxFile) error {
			if (f.Cold != nil) != want {
				t.Errorf("the file of build %d: %+v, want cold: %t", number, f.Cold, want)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	u, err := d.Retention.Usage(ctx)
	if err != nil || u.Cold.Contents != 3 || u.Bucket {
		t.Errorf("usage %+v, %v, want 3 cold contents on a disk", u, err)
	}
	for i, want := range []bool{true, true, true, false} {
		tr, err := d.Tracer.Trace(ctx, why.TraceAsk{Segments: strings.Split(paths[i], "/")})
		if err != nil || tr.File == nil || (tr.File.Cold != nil) != want {
			t.Errorf("trace of build %d: %+v, %v, want a file, cold: %t", i, tr, err, want)
		}
	}
	if n := d.Cold.ReadsNoted(); n != 0 {
		t.Errorf("%d contents count as read after they were shown, want 0", n)
	}
	answers(t, d, map[string][]byte{paths[0]: files[0].body})
	s, err := d.Cold.Status(ctx)
	if n := d.Cold.ReadsNoted(); n != 1 || err != nil || s.Restored == 0 || s.RestoredBytes < uint64(len(files[0].body)) || s.Failures != 0 || s.Near == 0 || s.Sums.Contents != 3 {
		t.Errorf("after a read %d contents count as read and the status is %+v, %v; want 1, and a restored content", n, s, err)
	}
}

// TestColdShares: a base is shared by the versions whose files are built from it, and its
// transaction is needed by theirs.
func TestColdShares(t *testing.T) {
	d, c := roomyDepot(t)
	ctx := t.Context()
	n := newNightly("app.so", 7, 9000)
	for i := range 4 {
		f, _ := n.build(i)
		tx, err := d.Begin(ctx, TxInfo{Product: "app", Version: fmt.Sprint(i)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Add(ctx, Source{Path: f.path, Content: bytesContent{Reader: bytes.NewReader(f.body)}}); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Commit(ctx); err != nil {
			t.Fatal(err)
		}
		c.advance(24 * time.Hour)
		if i == 2 {
			if sum, err := d.Cold.Cool(ctx, coldstore.CoolOptions{After: time.Hour}); err != nil || sum.Contents != 2 {
				t.Fatalf("cool: %+v, %v, want 2 contents", sum, err)
			}
		}
	}
	if sum, err := d.Cold.Cool(ctx, coldstore.CoolOptions{After: time.Hour}); err != nil || sum.Contents != 1 {
		t.Fatalf("cool: %+v, %v, want 1 content: the key", sum, err)
	}
	u, err := d.Retention.Usage(ctx)
	if err != nil {
		t.Fatal(err)
	}
	state, _, err := d.Retention.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var key int64
	for _, s := range u.Versions {
		r, err := state.Removal(1 + int64(s.Version[0]-'0'))
		if err != nil {
			t.Fatal(err)
		}
		if s.Own != r.Frees.Stored {
			t.Errorf("version %s: its own are %d bytes, and the removal of its build frees %d, want as many", s.Version, s.Own, r.Frees.Stored)
		}
		switch s.Version {
		case "2":
			key = s.Shared
			if s.Own != 0 || s.Shared == 0 || r.Pinned || !slices.Equal(r.Holders, []int64{2, 1}) {
				t.Errorf("the version of the key: %+v, %+v, want that all of it is shared with those of the deltas", s, r)
			}
		case "3":
			if s.Shared != 0 {
				t.Errorf("the newest version: %+v, want nothing shared", s)
			}
		}
	}
	for _, s := range u.Versions {
		if (s.Version == "0" || s.Version == "1") && s.Shared != key {
			t.Errorf("the version of a delta: %+v, want the key of %d bytes as shared", s, key)
		}
	}
	if p := u.Products[0]; p.Shared != 0 || p.Own != u.Live {
		t.Errorf("the product: %+v, want all %d bytes as its own", p, u.Live)
	}
	p, err := d.Retention.Purge(ctx, 3, "admin", "leak")
	if err != nil || p.Removal.Frees.Stored != key || p.Removal.Shared != 0 {
		t.Errorf("purge of the key: %+v, %v, want that it frees all its %d bytes", p.Removal, err, key)
	}
}

// TestColdReadersApart: the readers of a restored content have files of their own, whose
// offsets are at the start: servers let the kernel copy from them.
func TestColdReadersApart(t *testing.T) {
	d, _, files, _ := chilled(t)
	body := files[1].body
	var readers []*os.File
	for range 2 {
		f, err := d.Cold.Store().OpenWhole(t.Context(), blob.Sum(body))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		file := blob.OSFile(f)
		if file == nil {
			t.Skip("this system cannot open a file again that has no name")
		}
		readers = append(readers, file)
	}
	half := make([]byte, len(body)/2)
	if _, err := io.ReadFull(readers[0], half); err != nil || !bytes.Equal(half, body[:len(half)]) {
		t.Errorf("the first half by the first reader: %v, want the begin of the content", err)
	}
	if b, err := io.ReadAll(readers[1]); err != nil || !bytes.Equal(b, body) {
		t.Errorf("the second reader: %d bytes, %v, want all %d", len(b), err, len(body))
	}
	if b, err := io.ReadAll(readers[0]); err != nil || !bytes.Equal(b, body[len(half):]) {
		t.Errorf("the rest by the first reader: %d bytes, %v, want the other half", len(b), err)
	}
}
