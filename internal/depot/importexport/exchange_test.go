package importexport

import (
	"bytes"
	"context"
	"crypto/sha256"
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

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/depot/sourcefiles"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

const testdata = "../../../testdata"

// newDepot returns an empty depot.
func newDepot(t *testing.T) *depot.Depot {
	t.Helper()
	d, err := depot.Open(t.Context(), filepath.Join(t.TempDir(), "depot"), depot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("close the depot: %v", err)
		}
	})
	return d
}

// put copies a file of testdata into a folder, under another name.
func put(t *testing.T, dir, name, from string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(testdata, from))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o666); err != nil {
		t.Fatal(err)
	}
}

// add adds paths as one transaction.
func add(t *testing.T, d *depot.Depot, info depot.TxInfo, paths ...string) AddResult {
	t.Helper()
	r, err := Add(t.Context(), d, paths, AddOptions{Info: info})
	if err != nil {
		t.Fatalf("add %v: %v", paths, err)
	}
	return r
}

// depotAnswer returns the SHA-256 of what a depot answers to a path of a layout; false
// if it has nothing. A request for a cabinet is one for the file inside.
func depotAnswer(t *testing.T, d *depot.Depot, l layout.Layout, path string) (sum blob.Ref, ok bool) {
	t.Helper()
	req, err := l.ParseFile(path)
	if err != nil {
		t.Fatalf("layout %s does not parse the path of its own file: %v", l, err)
	}
	if req.Form == layout.FormCabinet {
		req.Form = layout.FormFile
	}
	f, err := d.Get(t.Context(), answer.Question{Request: req, Local: true})
	if errors.Is(err, fs.ErrNotExist) && sourcefiles.AsksForBundle(&req) {
		f, err = d.Sources.Bundle(t.Context(), answer.Scope{}, req) // as the server does
	}
	if errors.Is(err, fs.ErrNotExist) {
		return sum, false
	}
	if err != nil {
		t.Fatalf("get %s: %v", path, err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, f.Size)); err != nil {
		t.Fatalf("read %s: %v", path, err)
	}
	return blob.Ref(h.Sum(nil)), true
}

// symbolFiles lists the symbol files of a tree, without its records.
func symbolFiles(t *testing.T, dir string, l layout.Layout) []string {
	t.Helper()
	var list []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && !l.IsRecord(path) {
			list = append(list, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestRoundTrip exports a depot in every layout, imports the tree into a new depot,
// and asks both for every file of the tree: they must answer with the same bytes.
// The second import of a tree imports nothing.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	build := t.TempDir()
	for name, from := range map[string]string{
		// The last letter becomes the underscore of a cabinet's name.
		"Größe.pdé": "pdb/hello-x86.pdb", "программа.ехе": "pdb/hello-x86.exe", "日本": "elf/prog-b24", "ファイル.so": "elf/libprog.so",
	} {
		put(t, build, name, from)
	}
	d := newDepot(t)
	if err := os.WriteFile(filepath.Join(build, "prog.sym"), []byte("MODULE Linux x86_64 000102030405060708090A0B0C0D0E0F0 prog\nFUNC 0 1 0 f\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	// Of one build-id a symbol store takes one file.
	for i, path := range []string{"pdb", "elf/prog-sha1", "elf/e-x86", "elf/prog-b8", "macho", "pe", "wasm", "ppdb", "rare"} {
		add(t, d, depot.TxInfo{Product: path, Version: fmt.Sprint(i)}, filepath.Join(testdata, filepath.FromSlash(path)))
	}
	add(t, d, depot.TxInfo{Product: "Spiel ä", Version: "Ω", Comment: "名前"}, build)
	txs, err := d.List(t.Context(), answer.Scope{}, depot.ListFilter{})
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(txs)
	for _, l := range layout.All() {
		for _, compress := range []bool{false, true} {
			if compress && !Compresses(l) {
				continue
			}
			t.Run(fmt.Sprintf("%s,compress=%v", l, compress), func(t *testing.T) {
				dir := t.TempDir()
				out, err := Export(t.Context(), d, txs, Target{Folder: dir}, ExportOptions{Layout: l, Compress: compress, All: true})
				if err != nil || out.Failed != 0 {
					t.Fatalf("export: %d files failed %v, error %v; want no error and 0", out.Failed, out.Some, err)
				}
				files := symbolFiles(t, dir, l)
				if len(files) < 2 {
					t.Fatalf("export wrote %v, want several files", files)
				}
				copied := newDepot(t)
				importAll(t, copied, dir, l, int64(len(files)))
				for _, path := range files {
					want, ok := depotAnswer(t, d, l, path)
					if !ok {
						t.Errorf("%s was exported, but the depot does not answer it", path)
						continue
					}
					if got, ok := depotAnswer(t, copied, l, path); !ok {
						t.Errorf("%s: not found after the import", path)
					} else if got != want {
						t.Errorf("%s: the depot answers content %s, want the same after export and import, which is %s", path, want, got)
					}
				}
				again := importTree(t, copied, dir, l)
				if again.Added.Files != 0 || again.Imported != 0 || again.Before == 0 {
					t.Errorf("second import: %d files, %d builds, %d before; want only files imported before", again.Added.Files, again.Imported, again.Before)
				}
			})
		}
	}
}

func importTree(t *testing.T, d *depot.Depot, dir string, l layout.Layout) ImportResult {
	t.Helper()
	im, err := NewImport(t.Context(), dir, ImportOptions{Layout: l})
	if err != nil {
		t.Fatal(err)
	}
	r, err := im.Run(d)
	if err != nil {
		t.Fatalf("import: %v", err)
	}
	return r
}

// importAll imports a tree of files, none of which may be skipped or misplaced.
func importAll(t *testing.T, d *depot.Depot, dir string, l layout.Layout, files int64) {
	t.Helper()
	r := importTree(t, d, dir, l)
	if r.Skipped != 0 || r.LeftOut != 0 || r.Misplaced != 0 {
		t.Errorf("import: %d skipped %v %v, %d builds left out, %d misplaced %v; want none", r.Skipped, r.Notable, r.Reasons, r.LeftOut, r.Misplaced, r.MisplacedSome)
	}
	if got := r.Added.Files + r.Known.Files; got == 0 {
		t.Errorf("import: no object of %d files", files)
	}
}

// TestExportBest: of several files for one key a symbol store gets the one that the
// depot answers with, in one transaction or in several of any order, and the sums
// are those of the written files.
func TestExportBest(t *testing.T) {
	t.Parallel()
	elf := func(name string) string {
		p, err := filepath.Abs(filepath.Join(testdata, "elf", name))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	const key = "_.debug/elf-buildid-sym-adac45aa231bba3143d7af433767c61f31021c16"
	for _, c := range []struct {
		name               string
		adds               [][]string
		shadowed, replaced int64
		detail             string // of the event for the key
	}{
		{"one build", [][]string{{elf("prog-sha1"), elf("prog-sha1.stripped"), elf("prog-sha1.debug")}}, 1, 0,
			elf("prog-sha1") + " is not written: " + elf("prog-sha1.debug") + " of build 1 is the better file for this key"},
		{"the better file later", [][]string{{elf("prog-sha1")}, {elf("prog-sha1.stripped"), elf("prog-sha1.debug")}}, 0, 1,
			elf("prog-sha1.debug") + " of build 2 replaces the different content of " + elf("prog-sha1") + " of build 1"},
		{"the better file first", [][]string{{elf("prog-sha1.debug")}, {elf("prog-sha1.stripped")}, {elf("prog-sha1")}}, 1, 0,
			elf("prog-sha1") + " is not written: " + elf("prog-sha1.debug") + " of build 1 is the better file for this key"},
	} {
		for _, compress := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,compress=%v", c.name, compress), func(t *testing.T) {
				d := newDepot(t)
				for i, paths := range c.adds {
					add(t, d, depot.TxInfo{Product: fmt.Sprint(i)}, paths...)
				}
				txs, err := d.List(t.Context(), answer.Scope{}, depot.ListFilter{})
				if err != nil {
					t.Fatal(err)
				}
				slices.Reverse(txs)
				dir := t.TempDir()
				var details []string
				opt := ExportOptions{Layout: layout.SymStore, All: true, Compress: compress, Event: func(e Event) {
					if e.Path == key {
						details = append(details, e.Detail)
					}
				}}
				r, err := Export(t.Context(), d, txs, Target{Folder: dir}, opt)
				if err != nil || r.Failed != 0 || r.Shadowed != c.shadowed || r.Replaced != c.replaced {
					t.Errorf("export: %d failed, %d shadowed, %d replaced %q, error %v; want 0, %d, %d, nil", r.Failed, r.Shadowed, r.Replaced, r.Some, err, c.shadowed, c.replaced)
				}
				if !slices.Equal(details, []string{c.detail}) {
					t.Errorf("events of %s:\n got %q\nwant %q", key, details, c.detail)
				}
				files, bytes := 0, int64(0)
				for _, p := range symbolFiles(t, dir, layout.SymStore) {
					info, err := os.Stat(filepath.Join(dir, p))
					if err != nil {
						t.Fatal(err)
					}
					files, bytes = files+1, bytes+info.Size()
				}
				if c.replaced == 0 && (r.Written.Files != int64(files) || r.Written.Bytes != bytes) {
					t.Errorf("written %d files, %d bytes; want those of the store: %d files, %d bytes", r.Written.Files, r.Written.Bytes, files, bytes)
				}
				if (r.Plain > r.Written.Bytes) != compress {
					t.Errorf("%d bytes written, %d before compression, compress=%v; want less only if compressed", r.Written.Bytes, r.Plain, compress)
				}
				copied := newDepot(t)
				importTree(t, copied, dir, layout.SSQP)
				want, _ := depotAnswer(t, d, layout.SSQP, key+"/_.debug")
				if got, ok := depotAnswer(t, copied, layout.SSQP, key+"/_.debug"); !ok || got != want {
					t.Errorf("%s: the store has content %s, want %s, which the depot answers with", key, got, want)
				}
				if r, err := Export(t.Context(), d, txs, Target{Folder: dir}, opt); err != nil || r.Before != int64(len(txs)) || r.Written.Files+r.Shadowed+r.Replaced != 0 {
					t.Errorf("second export: %d builds before, %d files written, %d shadowed, %d replaced, error %v; want %d, 0, 0, 0, nil", r.Before, r.Written.Files, r.Shadowed, r.Replaced, err, len(txs))
				}
			})
		}
	}
}

// TestExportTransactions: the transactions of a symbol store keep their words and
// dates on the way through a tree.
func TestExportTransactions(t *testing.T) {
	t.Parallel()
	d := newDepot(t)
	at := time.Date(2024, 2, 29, 12, 30, 0, 0, time.UTC)
	add(t, d, depot.TxInfo{Product: "Game", Version: "1", Comment: "first", Time: at}, filepath.Join(testdata, "pdb", "hello-x64.pdb"))
	add(t, d, depot.TxInfo{Product: "Game", Version: "2", Time: at.Add(time.Hour)}, filepath.Join(testdata, "pdb", "hello-x64.exe"))
	txs, err := d.List(t.Context(), answer.Scope{}, depot.ListFilter{})
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(txs)
	for _, l := range layout.All() {
		if l.Records() != layout.SymStoreRecords {
			continue
		}
		t.Run(l.Name(), func(t *testing.T) {
			dir := t.TempDir()
			if _, err := Export(t.Context(), d, txs, Target{Folder: dir}, ExportOptions{Layout: l}); err != nil {
				t.Fatal(err)
			}
			r, err := Export(t.Context(), d, txs, Target{Folder: dir}, ExportOptions{Layout: l})
			if err != nil || r.Before != 2 || r.Written.Files != 0 {
				t.Errorf("second export: %d builds before, %d files written, error %v; want 2, 0, nil", r.Before, r.Written.Files, err)
			}
			copied := newDepot(t)
			importTree(t, copied, dir, l)
			got, err := copied.List(t.Context(), answer.Scope{}, depot.ListFilter{})
			if err != nil || len(got) != 2 {
				t.Fatalf("after the import: %d builds, error %v; want 2", len(got), err)
			}
			slices.Reverse(got)
			for i := range got {
				if got[i].Product != txs[i].Product || got[i].Version != txs[i].Version || got[i].Comment != txs[i].Comment || !got[i].Time.Equal(txs[i].Time) {
					t.Errorf("build %d: %+v, want the words and the date of %+v", i+1, got[i], txs[i])
				}
			}
		})
	}
}

// TestImportMisplaced: a file under a key that does not match its ids is
// imported under its own ids, and reported.
func TestImportMisplaced(t *testing.T) {
	t.Parallel()
	const pdbPath = "hello-x64.pdb/F9EFE0B6AE7500394C4C44205044422E1/hello-x64.pdb"
	for _, c := range []struct {
		layout    layout.Layout
		path      string
		misplaced int64
	}{
		{layout.SymStore, pdbPath, 0},
		{layout.SymStore, "hello-x64.pdb/00000000000000000000000000000001A/hello-x64.pdb", 1},
		{layout.SymStore, "other.pdb/F9EFE0B6AE7500394C4C44205044422E1/other.pdb", 0}, // the name is that of the place
		{layout.Unified, "f9/efe0b6ae7500394c4c44205044422e1/debuginfo", 0},
		{layout.Unified, "f9/efe0b6ae7500394c4c44205044422e2/debuginfo", 1},
		{layout.Flat, "any/where/hello-x64.pdb", 0},
	} {
		t.Run(c.layout.Name()+","+c.path, func(t *testing.T) {
			dir := t.TempDir()
			put(t, dir, c.path, "pdb/hello-x64.pdb")
			d := newDepot(t)
			r := importTree(t, d, dir, c.layout)
			if r.Misplaced != c.misplaced || r.Added.Files != 1 {
				t.Errorf("%d files added, %d misplaced; want 1, %d", r.Added.Files, r.Misplaced, c.misplaced)
			}
			if _, ok := depotAnswer(t, d, layout.Unified, "f9/efe0b6ae7500394c4c44205044422e1/debuginfo"); !ok {
				t.Error("not found under its own id after the import")
			}
		})
	}
}

// TestImportDamaged: files that are cut or of no format are skipped with their
// names, and the others are imported.
func TestImportDamaged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, dir, "good.pdb/F9EFE0B6AE7500394C4C44205044422E1/good.pdb", "pdb/hello-x64.pdb")
	for name, body := range map[string]string{
		"cut.pdb/00000000000000000000000000000001A/cut.pdb":       "Microsoft C/C++ MSF 7.00\r\n\x1aDS\x00\x00\x00",
		"text.dll/5AB380779000/text.dll":                          "no symbol file",
		"packed.pdb/00000000000000000000000000000001A/packed.pd_": "MSCF\x00\x00\x00\x00",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(body), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	var skipped []string
	im, err := NewImport(t.Context(), dir, ImportOptions{Layout: layout.SymStore, Event: func(e Event) {
		if e.Kind == EventSkipped {
			skipped = append(skipped, filepath.Base(e.Path))
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := im.Run(newDepot(t))
	if err != nil || r.Added.Files != 1 {
		t.Errorf("%d files added, error %v; want the good one", r.Added.Files, err)
	}
	slices.Sort(skipped)
	if want := []string{"cut.pdb", "packed.pd_", "text.dll"}; !slices.Equal(skipped, want) {
		t.Errorf("skipped %v, want %v", skipped, want)
	}
}

// TestImportInterrupted: an import whose context ends imports nothing of the
// transaction at hand, and can be repeated.
func TestImportInterrupted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, dir, "a.pdb/F9EFE0B6AE7500394C4C44205044422E1/a.pdb", "pdb/hello-x64.pdb")
	d := newDepot(t)
	ctx, cancel := context.WithCancel(t.Context())
	im, err := NewImport(ctx, dir, ImportOptions{Layout: layout.SymStore})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := im.Run(d); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted import: error %v, want %v", err, context.Canceled)
	}
	if txs, err := d.List(t.Context(), answer.Scope{}, depot.ListFilter{}); err != nil || len(txs) != 0 {
		t.Errorf("interrupted import: %d builds, error %v; want none", len(txs), err)
	}
	if r := importTree(t, d, dir, layout.SymStore); r.Added.Files != 1 {
		t.Errorf("repeated import: %d files, want 1", r.Added.Files)
	}
}

// TestCleanBundle: names of bundles follow the rule of Sentry's symsorter.
func TestCleanBundle(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"Game_1.2", "Game_1.2"}, {"Game  1", "Game_1"}, {"__a__", "a"}, {"größe", "gr_e"}, {"a/b\\c", "a_b_c"}, {"日本", ""}, {"", ""}, {"a+b,c-d", "a+b,c-d"},
	} {
		if got := cleanBundle(c.text); got != c.want {
			t.Errorf("cleanBundle(%q) = %q, want %q", c.text, got, c.want)
		}
	}
}

// TestKeyOf: the key of a file in a symbol store of either tier.
func TestKeyOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ path, want string }{
		{"a.pdb/KEY/a.pdb", "a.pdb/KEY"}, {"a_/a.pdb/KEY/a.pdb", "a.pdb/KEY"}, {"a.pdb/KEY/msfz0/a.pdb", "a.pdb/KEY"},
		{"a.pdb/KEY/MSFZ0/a.pdb", "a.pdb/KEY"}, {"a.pdb", "a.pdb"}, {"a/b", "a/b"},
	} {
		if got := keyOf(c.path); got != c.want {
			t.Errorf("keyOf(%q) = %q, want %q", c.path, got, c.want)
		}
	}
}

// TestAddCounts: skipped files that are no symbol files are counted by reason;
// files that should have been added are named.
func TestAddCounts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, dir, "a.pdb", "pdb/hello-x64.pdb")
	put(t, dir, "same.pdb", "pdb/hello-x64.pdb")
	for name, body := range map[string]string{"readme.txt": "text", "cut.pdb": "Microsoft C/C++ MSF 7.00\r\n\x1aDS\x00\x00\x00"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	d := newDepot(t)
	r := add(t, d, depot.TxInfo{}, dir)
	if r.Added.Files+r.Known.Files != 2 || r.Added.Files != 1 || r.Skipped != 2 || r.NotSymbols != 1 || len(r.Notable) != 1 || !strings.Contains(r.Notable[0], "cut.pdb") {
		t.Errorf("%+v: want one new object, one known, one text and the name of the damaged file", r.Counts)
	}
	if _, err := Add(t.Context(), d, []string{filepath.Join(dir, "readme.txt")}, AddOptions{}); !errors.Is(err, depot.ErrEmpty) {
		t.Errorf("add of a text: error %v, want %v", err, depot.ErrEmpty)
	}
	if _, err := Add(t.Context(), d, []string{filepath.Join(dir, "missing")}, AddOptions{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("add of a path that does not exist: error %v, want %v", err, fs.ErrNotExist)
	}
	dry, err := Add(t.Context(), nil, []string{dir}, AddOptions{DryRun: true})
	if err != nil || dry.Transaction != 0 || dry.Added.Files == 0 {
		t.Errorf("dry run without a depot: build %d, %d objects, error %v; want 0, some, nil", dry.Transaction, dry.Added.Files, err)
	}
}

// TestExportShadowed: of several files of one path the tree has the one that the
// depot answers with.
func TestExportShadowed(t *testing.T) {
	t.Parallel()
	d := newDepot(t)
	add(t, d, depot.TxInfo{}, filepath.Join(testdata, "elf", "prog-sha1.stripped"))
	add(t, d, depot.TxInfo{}, filepath.Join(testdata, "elf", "prog-sha1"), filepath.Join(testdata, "elf", "prog-sha1.debug"))
	txs, err := d.List(t.Context(), answer.Scope{}, depot.ListFilter{})
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(txs)
	for _, l := range []layout.Layout{layout.Debuginfod, layout.GDB, layout.Unified} {
		t.Run(l.Name(), func(t *testing.T) {
			dir := t.TempDir()
			r, err := Export(t.Context(), d, txs, Target{Folder: dir}, ExportOptions{Layout: l})
			if err != nil || r.Shadowed == 0 {
				t.Errorf("%d files shadowed, error %v; want some", r.Shadowed, err)
			}
			for _, path := range symbolFiles(t, dir, l) {
				b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(path)))
				if err != nil {
					t.Fatal(err)
				}
				if want, ok := depotAnswer(t, d, l, path); !ok || blob.Ref(sha256.Sum256(b)) != want {
					t.Errorf("%s: the exported file differs from the answer of the depot", path)
				}
			}
		})
	}
	if layout.GDB.Linked() {
		dir := t.TempDir()
		if _, err := Export(t.Context(), d, txs[1:], Target{Folder: dir}, ExportOptions{Layout: layout.GDB}); err != nil {
			t.Fatal(err)
		}
		var infos []os.FileInfo
		for _, path := range symbolFiles(t, dir, layout.GDB) {
			info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(path)))
			if err != nil {
				t.Fatal(err)
			}
			infos = append(infos, info)
		}
		if len(infos) != 2 {
			t.Errorf("%d files in the gdb tree, want the program and its debug information", len(infos))
		}
	}
}

// TestBundleID: the bundle of a transaction has its product and version, or its
// number.
func TestBundleID(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tx   depot.Transaction
		want string
	}{
		{depot.Transaction{Number: 3, Product: "Game", Version: "1.2"}, "Game_1.2"},
		{depot.Transaction{Number: 3}, "symdepot_3"},
		{depot.Transaction{Number: 3, Product: "日本"}, "symdepot_3"},
		{depot.Transaction{Number: 3, Product: ".."}, "symdepot_3"},
	} {
		if got := bundleID(c.tx); got != c.want || !symfile.ValidName(got) {
			t.Errorf("bundleID(%+v) = %q, want %q", c.tx, got, c.want)
		}
	}
}

// TestExportCold writes a content that is cold to a symbol store.
func TestExportCold(t *testing.T) {
	t.Parallel()
	d := newDepot(t)
	program, err := os.ReadFile(filepath.Join(testdata, "pdb", "hello-x64.exe"))
	if err != nil {
		t.Fatal(err)
	}
	program = append(program, bytes.Repeat([]byte("what an installer appends\n"), 20_000)...)
	dir := t.TempDir()
	for i := range 2 {
		program[int(program[0x3c])+int(program[0x3d])<<8+8]++ // the time in the header, which is part of the key
		path := filepath.Join(dir, fmt.Sprint(i), "hello.exe")
		if err := errors.Join(os.Mkdir(filepath.Dir(path), 0o777), os.WriteFile(path, program, 0o666)); err != nil {
			t.Fatal(err)
		}
		add(t, d, depot.TxInfo{Product: "Game"}, path)
	}
	sum, err := d.Cold.Cool(t.Context(), coldstore.CoolOptions{After: -48 * time.Hour})
	if errors.Is(err, coldstore.ErrDiskFull) {
		t.Skip("needs a tenth of the disk: ", err)
	}
	if err != nil || sum.Contents != 1 {
		t.Fatalf("cool: %+v, %v, want the older content", sum, err)
	}
	txs, err := d.List(t.Context(), answer.Scope{}, depot.ListFilter{})
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(txs)
	for _, l := range layout.All() {
		if l.Records() != layout.SymStoreRecords {
			continue
		}
		out := t.TempDir()
		if r, err := Export(t.Context(), d, txs, Target{Folder: out}, ExportOptions{Layout: l}); err != nil || r.Failed > 0 {
			t.Fatalf("layout %s: %d files failed, %v, %v; want none", l.Name(), r.Failed, r.Some, err)
		}
		if files := symbolFiles(t, out, l); len(files) != 2 {
			t.Errorf("layout %s: files %v, want both programs", l.Name(), files)
		}
	}
}
