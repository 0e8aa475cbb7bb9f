package depot_test

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/bundle"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/depottest"
	"github.com/symdepot/symdepot/internal/depot/importexport"
	"github.com/symdepot/symdepot/internal/depot/stage"
	"github.com/symdepot/symdepot/internal/remote/watch"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// anyone may do everything.
func anyone() stage.Caller {
	yes := func(string) bool { return true }
	return stage.Caller{ID: "test:ci", Name: "ci", Read: yes, Write: yes}
}

// waysIn are the ways in which a file comes into a depot. Those of other tools' uploaders are in
// test/uploads, with the server that they need.
var waysIn = map[string]func(t *testing.T, w *depottest.World, f *depottest.File){
	"add": func(t *testing.T, w *depottest.World, f *depottest.File) { w.Add(t, w.Process(t, depot.Options{}), *f) },
	"add of another version": func(t *testing.T, w *depottest.World, f *depottest.File) {
		depottest.Add(t, w.Process(t, depot.Options{}), depot.TxInfo{Product: depottest.Product, Version: "2"}, f.Name, f.Body)
	},
	"push": func(t *testing.T, w *depottest.World, f *depottest.File) {
		d := w.Process(t, depot.Options{})
		id := begin(t, d, stage.Spec{Labels: stage.Labels{Product: depottest.Product, Version: "pushed"}})
		announce(t, d, id, f)
		if _, err := d.Stages().Commit(t.Context(), anyone(), id, stage.Commit{}); err != nil {
			t.Fatalf("commit: %v", err)
		}
	},
	"upload of a known hash": func(t *testing.T, w *depottest.World, f *depottest.File) {
		d := w.Process(t, depot.Options{})
		announce(t, d, begin(t, d, stage.Spec{Labels: stage.Labels{Product: depottest.Product, Version: "known"}, Collect: true}), f)
	},
	"upload": func(t *testing.T, w *depottest.World, f *depottest.File) {
		d := w.Process(t, depot.Options{})
		id := begin(t, d, stage.Spec{Labels: stage.Labels{Product: depottest.Product, Version: "uploaded"}, Collect: true})
		if _, err := d.Stages().PutNew(t.Context(), anyone(), id, f.Name, time.Now(), bytes.NewReader(f.Body)); err != nil {
			t.Fatalf("upload: %v", err)
		}
	},
	"import": func(t *testing.T, w *depottest.World, f *depottest.File) {
		dir := t.TempDir()
		symtest.Put(t, dir, f.Path, f.Body)
		info := depot.TxInfo{Product: depottest.Product, Version: "imported"}
		im, err := importexport.NewImport(t.Context(), dir, importexport.ImportOptions{Info: info})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := im.Run(w.Process(t, depot.Options{})); err != nil {
			t.Fatal(err)
		}
	},
	"bundle import": func(t *testing.T, w *depottest.World, f *depottest.File) {
		from, err := depot.Open(t.Context(), filepath.Join(t.TempDir(), "from"), depot.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = from.Close() })
		w.Add(t, from, *f)
		var out bytes.Buffer
		if _, err := bundle.Write(t.Context(), &out, from, bundle.Options{Transactions: []int64{1}}); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "bundle")
		if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		b, err := bundle.Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		sum, err := b.Import(t.Context(), w.Process(t, depot.Options{}), depot.TxInfo{Product: depottest.Product})
		if err != nil || sum.Files != 1 {
			t.Fatalf("import of a bundle: %+v, %v; want 1 file", sum, err)
		}
	},
	"download": func(t *testing.T, w *depottest.World, f *depottest.File) { w.Download(t, f) },
	// Watched files never come into the depot: the server answers, and only the way in that
	// follows heals.
	"watched folder": func(t *testing.T, w *depottest.World, f *depottest.File) {
		watched(t, w, f)
		w.Add(t, w.Process(t, depot.Options{}), *f)
	},
}

// watched requests a file of a server that watches a folder which has it. What the depot has
// of it stays as it was.
func watched(t *testing.T, w *depottest.World, f *depottest.File) {
	t.Helper()
	builds := t.TempDir()
	symtest.Put(t, builds, f.Name, f.Body)
	folder, err := watch.Open(t.Context(), builds, watch.Options{Index: filepath.Join(t.TempDir(), "watched.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = folder.Close() })
	if sum, err := folder.Scan(t.Context()); err != nil {
		t.Fatalf("scan: %+v, %v", sum, err)
	}
	d := w.Process(t, depot.Options{})
	d.Watched.Use([]*watch.Folder{folder})
	if got, _, err := depottest.Get(t, d, f.Path); err != nil || !bytes.Equal(got, f.Body) {
		t.Errorf("GET of %s: %d bytes, %v; want the %d of the watched folder", f.Path, len(got), err, len(f.Body))
	}
	lost := w.State.Harm != depottest.Intact
	if got := slices.ContainsFunc(w.Faults(t), func(x content.Fault) bool { return isOf(x, f) }); got != lost {
		t.Errorf("verify names %s: %v, want %v after the state %q", f.Name, got, lost, w.State.Harm)
	}
}

// isOf reports whether a fault is that of a file: of its content, or of its cold file.
func isOf(x content.Fault, f *depottest.File) bool {
	ref := blob.Sum(f.Body).String()
	return x.Ref == ref || slices.ContainsFunc(x.Files, func(l content.FaultFile) bool { return l.MadeFrom == ref })
}

func begin(t *testing.T, d *depot.Depot, spec stage.Spec) string {
	t.Helper()
	st, _, err := d.Stages().Open(t.Context(), anyone(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return st.ID
}

// announce checks a file and sends it if the depot asks for it.
func announce(t *testing.T, d *depot.Depot, id string, f *depottest.File) {
	t.Helper()
	ref := blob.Sum(f.Body)
	v, err := d.Stages().Check(t.Context(), anyone(), id, []stage.Entry{{Path: f.Name, Size: int64(len(f.Body)), Ref: ref}})
	if err != nil {
		t.Fatalf("check: %v", err)
	}
	if v[0].Answer == stage.Send {
		if _, err := d.Stages().Put(t.Context(), anyone(), id, ref, bytes.NewReader(f.Body)); err != nil {
			t.Fatalf("put: %v", err)
		}
	}
}

// TestWaysInHeal brings files into a depot that has them already, in every way and for the
// states of their stored bytes that have their turn today, each from a process that has seen nothing. Afterwards all
// servers answer with the bytes, and verify finds no fault.
func TestWaysInHeal(t *testing.T) {
	symtest.Sequential(t)
	names := slices.Sorted(maps.Keys(waysIn))
	for _, s := range depottest.Today(t, depottest.All()) {
		t.Run(s.String(), func(t *testing.T) {
			w := depottest.New(t, s, slices.Repeat([]depottest.Format{depottest.Breakpad}, len(names))...)
			// Last, because verify sees everything.
			slices.SortStableFunc(names, func(a, b string) int { return strings.Count(a, "watched") - strings.Count(b, "watched") })
			for range s.Rounds() {
				w.Spoil(t)
				for i, name := range names {
					waysIn[name](t, w, &w.Files[i])
				}
				w.CheckHealed(t)
			}
		})
	}
}
