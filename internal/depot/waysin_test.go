package depot_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/bundle"
	"github.com/symdepot/symdepot/internal/depot/importexport"
	"github.com/symdepot/symdepot/internal/depot/stage"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// content is a file in memory.
type content struct{ *bytes.Reader }

func (c content) Changed() bool { return false }

// anyone may do everything.
func anyone() stage.Caller {
	yes := func(string) bool { return true }
	return stage.Caller{ID: "test:ci", Name: "ci", Read: yes, Write: yes}
}

// waysIn are the ways in which a file comes into a depot.
var waysIn = map[string]func(t *testing.T, d *depot.Depot, f depot.DamagedFile){
	"add": add,
	"push": func(t *testing.T, d *depot.Depot, f depot.DamagedFile) {
		id := begin(t, d, stage.Spec{Labels: stage.Labels{Product: "app", Version: "pushed"}})
		announce(t, d, id, f)
		if _, err := d.Stages().Commit(t.Context(), anyone(), id, stage.Commit{}); err != nil {
			t.Fatalf("commit: %v", err)
		}
	},
	"upload of a known hash": func(t *testing.T, d *depot.Depot, f depot.DamagedFile) {
		announce(t, d, begin(t, d, stage.Spec{Labels: stage.Labels{Product: "app", Version: "known"}, Collect: true}), f)
	},
	"upload": func(t *testing.T, d *depot.Depot, f depot.DamagedFile) {
		id := begin(t, d, stage.Spec{Labels: stage.Labels{Product: "app", Version: "uploaded"}, Collect: true})
		if _, err := d.Stages().PutNew(t.Context(), anyone(), id, f.Name, time.Now(), bytes.NewReader(f.Body)); err != nil {
			t.Fatalf("upload: %v", err)
		}
	},
	"import": func(t *testing.T, d *depot.Depot, f depot.DamagedFile) {
		dir := t.TempDir()
		path := filepath.Join(dir, filepath.FromSlash(f.Path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Body, 0o600); err != nil {
			t.Fatal(err)
		}
		im, err := importexport.NewImport(t.Context(), dir, importexport.ImportOptions{Info: depot.TxInfo{Product: "app", Version: "imported"}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := im.Run(d); err != nil {
			t.Fatal(err)
		}
	},
	"bundle import": func(t *testing.T, d *depot.Depot, f depot.DamagedFile) {
		from, err := depot.Open(t.Context(), filepath.Join(t.TempDir(), "from"), depot.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = from.Close() })
		add(t, from, f)
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
		if sum, err := b.Import(t.Context(), d, depot.TxInfo{Product: "app"}); err != nil || sum.Files != 1 {
			t.Fatalf("import of a bundle: %+v, %v; want 1 file", sum, err)
		}
	},
}

func add(t *testing.T, d *depot.Depot, f depot.DamagedFile) {
	t.Helper()
	tx, err := d.Begin(t.Context(), depot.TxInfo{Product: "app", Version: "added"})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.Add(t.Context(), depot.Source{Path: "/build/" + f.Name, Content: content{bytes.NewReader(f.Body)}}); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
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
func announce(t *testing.T, d *depot.Depot, id string, f depot.DamagedFile) {
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

// TestWaysInHeal brings files into a depot that has them already, in every way and for every
// state of their stored bytes, each from a process that has seen nothing. Afterwards all
// servers answer with the bytes, and verify finds no fault.
func TestWaysInHeal(t *testing.T) {
	symtest.Sequential(t)
	names := slices.Sorted(maps.Keys(waysIn))
	for _, home := range depot.Homes {
		for _, state := range depot.States {
			if state == "damaged" && (home == "bucket" || home == "database and bucket" || home == "cold key in a bucket" || home == "cold delta in a bucket") {
				continue // only a reader finds other bytes of the same length
			}
			t.Run(fmt.Sprintf("%s, %s", home, state), func(t *testing.T) {
				w := depot.NewDamagedWorld(t, home, state, len(names))
				for i, name := range names {
					waysIn[name](t, w.Process(t), w.Files[i])
				}
				w.CheckHealed(t)
			})
		}
	}
}
