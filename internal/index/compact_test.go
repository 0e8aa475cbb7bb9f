package index

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/lists"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/index/removals"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// writePlain has the index write rows as programs before the short ones do.
func writePlain(t testing.TB, db *DB) {
	t.Helper()
	if err := db.base.Update(t.Context(), "test", func(w *engine.Write) error {
		_, err := w.Exec("UPDATE state SET format_floor = $1", record.CompactFormat-1)
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// compactEntry is entry n of a few hundred: objects of all kinds of ids and names, of which some share their contents,
// at paths with and without folders.
func compactEntry(n int) record.Entry {
	names := []string{"lib%d.so", "Lib%d.so", "LIB%d.SO", "lIb%d.So", "%d.dll", "Ünï%d.pdb", "Prog%d\xff.exe", "x\x01%d.sym"}
	name := fmt.Sprintf(names[n%len(names)], n/20)
	o := symfile.Object{Name: name, Kind: symfile.ELF, Role: symfile.Debug | symfile.Executable}
	guid := debugid.GUID{byte(n % 50), 2, 3, 4, 0xa, 0xb, 0xc, 0xd, 15: 9}
	id := debugid.NewBuildID(fmt.Appendf(nil, "a build-id %d of several bytes", n%50))
	switch n % 11 {
	case 0:
		o.BuildID, o.CodeID, o.DebugID = id[:40], string(id[:40]), id[:40].DebugID(true)
	case 1:
		o.BuildID, o.CodeID, o.DebugID = id[:40], string(id[:40]), id[:40].DebugID(false)
	case 2:
		o.BuildID, o.DebugID = id[:32], debugid.ID{GUID: guid, Age: 3}
	case 3:
		o.BuildID, o.CodeID, o.DebugID = id[:16], string(id[:16]), id[:16].DebugID(true)
	case 4:
		o.Kind, o.Role, o.DebugID, o.InfoAge = symfile.PDB, symfile.Debug, debugid.ID{GUID: guid, Age: uint32(n % 14)}, 2
	case 5:
		o.Kind, o.Role, o.CodeID, o.DebugID = symfile.PE, symfile.Executable, fmt.Sprintf("%08X%x", n, 0x1000), debugid.ID{GUID: guid, Age: 1}
	case 6:
		o.Kind, o.Role, o.DebugID = symfile.PDB20, symfile.Debug, debugid.PDB20(0x11223344+uint32(n), 2)
	case 7:
		o.Kind, o.CodeID, o.DebugID = symfile.MachO, guid.Lower(), debugid.ID{GUID: guid}
	case 8:
		o.Kind, o.Role, o.CodeID, o.DebugID = symfile.Breakpad, symfile.Debug, "=", debugid.ID{GUID: guid, Age: 1}
	case 9:
		o.Kind, o.Role, o.Hash = symfile.SHA1, symfile.Other, fmt.Sprintf("%040x", n)
	default:
		o.BuildID, o.CodeID, o.DebugID = id[:40], "other", id[:40].DebugID(true)
	}
	e := record.Entry{Object: o, Ref: ref(n / 3), Size: int64(1000 + n/3), Aliases: o.Aliases(), ModTime: time.UnixMilli(1700000000123).UTC()}
	if len(e.Aliases) == 0 {
		e.Aliases = []symfile.Alias{{Name: name, ID: fmt.Sprintf("key%d", n), Role: symfile.Other}}
	}
	e.Arch = []string{"x86_64", "arm64", "riscv64", "", "B"}[n%5]
	e.Features = [][]string{{"debug", "symtab"}, {"debug"}, {"special"}, {}}[n/4%4]
	dirs := []string{"/builds/%d/bin/", `C:\out\%d\`, "/builds/%d/lib/", "/", "", "/builds/%d/bin/deep/"}
	dir := dirs[n/7%len(dirs)]
	if strings.Contains(dir, "%d") {
		dir = fmt.Sprintf(dir, n%3)
	}
	e.Path = dir + name
	switch n % 13 {
	case 5:
		e.Path = dir + "renamed"
	case 6:
		e.Path, e.Archive = dir, "a.zip"
	}
	return e
}

// TestCompactTwins does the same at random with two indexes, of which one writes its rows short: all answers are the same.
func TestCompactTwins(t *testing.T) { onEngineOfDay(t, 1, testCompactTwins) }

func testCompactTwins(t *testing.T) {
	symtest.Sequential(t)
	c := newClock()
	short, plain := openTest(t, c.options()), openTest(t, c.options())
	writePlain(t, plain)
	both := func(do func(db *DB) (any, error)) any {
		t.Helper()
		a, err1 := do(short)
		b, err2 := do(plain)
		if (err1 == nil) != (err2 == nil) || err1 != nil && !errors.As(err1, new(*removals.NotInTrashError)) && !errors.Is(err1, fs.ErrNotExist) {
			t.Fatalf("with short rows: %v, without: %v", err1, err2)
		}
		if diff := gocmp.Diff(b, a, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(record.Stored{}),
			cmpopts.EquateComparable(blob.Ref{})); diff != "" {
			_, _, line, _ := runtime.Caller(1)
			t.Fatalf("line %d, with short rows (+): %s", line, diff)
		}
		return a
	}
	rnd := rand.New(rand.NewPCG(symtest.Seed(t, 3), 4))
	products, steps, different := []string{"A", "B"}, 30, 300
	if testing.Short() {
		steps = 10
	}
	var numbers []int64
	for step := range steps {
		c.hours(1)
		pick := func() int64 { return numbers[rnd.IntN(len(numbers))] }
		switch k := rnd.IntN(10); {
		case k < 5 || len(numbers) == 0:
			var entries []record.Entry
			from := rnd.IntN(different)
			for i := range 1 + rnd.IntN(40) {
				e := compactEntry((from + i*[]int{1, 3, 7}[step%3]) % different)
				if rnd.IntN(10) == 0 { // another version of the program identifies it otherwise
					e.Object.Version, e.Object.CodeName, e.Features = 7, "code", []string{"symtab"}
				}
				entries = append(entries, e)
			}
			p := products[rnd.IntN(2)]
			numbers = append(numbers, both(func(db *DB) (any, error) {
				return db.Commit(t.Context(), record.Tx{Kind: "add", Product: p, Version: "1", Entries: entries}, nil)
			}).(int64))
		case k < 6:
			n := pick()
			both(func(db *DB) (any, error) {
				_, err := db.Trash.Remove(t.Context(), removals.Removal{Number: n, At: c.t, Until: c.t.Add(5 * time.Hour)})
				return err == nil, nil
			})
		case k < 7:
			n := pick()
			both(func(db *DB) (any, error) { _, err := db.Remove(t.Context(), n); return err == nil, nil })
		case k < 8:
			n := pick()
			both(func(db *DB) (any, error) { _, err := db.Trash.Undo(t.Context(), n); return nil, err })
		case k < 9:
			both(func(db *DB) (any, error) {
				n, err := db.Trash.Empty(t.Context(), c.t)
				if err != nil {
					return n, err
				}
				return db.DropContents(t.Context(), unreferenced(t, db, c.t), c.t, func(blob.Ref) error { return nil })
			})
		default:
			packAll(t, short)
		}
		if step%10 == 9 || step == steps-1 {
			compareCompact(t, both, products, numbers, different)
			clean(t, short)
		}
	}
	clean(t, plain)
	var dirs, names, ids int64
	if err := short.base.Points.Row(t.Context(), `SELECT (SELECT count(*) FROM tx_file WHERE dir IS NOT NULL),
		(SELECT count(*) FROM object WHERE name IN ('', '/')),
		(SELECT count(*) FROM object WHERE ident IS NOT NULL)`, nil, &dirs, &names, &ids); err != nil {
		t.Fatal(err)
	}
	if dirs == 0 || names == 0 || ids == 0 {
		t.Errorf("%d files have a folder, %d objects a short name and %d short ids; want some of each", dirs, names, ids)
	}
	for _, twin := range []**DB{&short, &plain} {
		to := openTest(t, c.options())
		if err := (*twin).Copy(t.Context(), to, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		clean(t, to)
		*twin = to
	}
	compareCompact(t, both, products, numbers, different)
}

// compareCompact asks both twins everything that reads columns which may be short.
func compareCompact(t *testing.T, both func(func(db *DB) (any, error)) any, products []string, numbers []int64, different int) {
	t.Helper()
	ctx := t.Context()
	for _, n := range numbers {
		both(func(db *DB) (any, error) {
			var files []record.TxFile
			_, err := db.Show(ctx, n, func(f record.TxFile) error { files = append(files, f); return nil })
			return files, err
		})
		both(func(db *DB) (any, error) {
			list, _, err := db.Lists.FilesOf(ctx, n, lists.FileFilter{Order: lists.FilesByName, Limit: 100})
			return list, err
		})
	}
	scope := record.Scope{Products: products[:1]}
	for _, p := range products {
		both(func(db *DB) (any, error) { list, _, err := db.Lists.WithoutPDB(ctx, all, p, "1", 50); return list, err })
	}
	for _, f := range []lists.ObjectFilter{{Arch: "x86_64"}, {Arch: "riscv64"}, {Feature: "symtab"}, {Feature: "special"},
		{Product: &products[0]}} {
		f.Limit = 100
		both(func(db *DB) (any, error) { list, _, err := db.Lists.Objects(ctx, all, f); return list, err })
	}
	paths := func(q PathQuery) {
		both(func(db *DB) (any, error) {
			list, _, err := db.ELFPaths(ctx, scope, q, 0)
			slices.SortFunc(list, func(a, b ELFPath) int {
				return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.BuildID, b.BuildID), cmp.Compare(a.Role, b.Role))
			})
			return list, err
		})
	}
	for _, glob := range []string{"/builds/0/bin/*", "/builds/*/bin/lib*.so", "/builds/1/bin/lib1*",
		"/builds/[01]/lib/?ib0.so", `C:\\out\\0\\*`, "*", "/*"} {
		paths(PathQuery{Glob: glob})
	}
	for n := range different {
		if n%17 > 1 {
			continue
		}
		e := compactEntry(n)
		paths(PathQuery{Path: e.Path})
		paths(PathQuery{BuildID: string(e.Object.BuildID)})
		a := e.Aliases[0]
		both(func(db *DB) (any, error) {
			return db.Lookup(ctx, scope, symfile.Lookup{Name: a.Name, ID: a.ID, Role: symfile.AnyRole})
		})
		both(func(db *DB) (any, error) {
			list, err := db.Holders(ctx, e.Ref)
			slices.SortStableFunc(list, func(a, b Holder) int {
				return cmp.Or(cmp.Compare(b.Transaction, a.Transaction), cmp.Compare(a.File, b.File), cmp.Compare(a.Path, b.Path))
			})
			return len(list), err // which ones there are is open if there are more than fit
		})
		both(func(db *DB) (any, error) { return Namesakes(ctx, db, all, symfile.Fold(e.Object.Name), 1000) })
		both(func(db *DB) (any, error) {
			return db.Stages.Namesakes(ctx, products[0], symfile.Fold(e.Object.Name))
		})
		both(func(db *DB) (any, error) { return db.Colds.Series(ctx, symfile.Fold(e.Object.Name), "") })
		both(func(db *DB) (any, error) {
			return db.Colds.NewestOfAnother(ctx, e.Ref, symfile.Fold(path.Base(e.Path)))
		})
		both(func(db *DB) (any, error) {
			list, err := db.Trash.Find(ctx, scope, record.Query{IDs: []string{a.ID}}, 0)
			slices.SortStableFunc(list, func(a, b removals.RemovedFile) int {
				return cmp.Or(cmp.Compare(a.Removal.Number, b.Removal.Number), cmp.Compare(a.Name, b.Name))
			})
			return list, err
		})
		both(func(db *DB) (any, error) {
			l, err := db.Lists.Listing(ctx, all)
			if err != nil {
				return nil, err
			}
			found, _, err := l.OfContent(ctx, e.Ref, 20)
			var holders []any
			for _, o := range found {
				if err == nil {
					var some []lists.HolderTx
					some, _, err = l.Holders(ctx, o, 0, 20)
					holders = append(holders, some)
				}
			}
			return []any{found, holders}, err
		})
	}
}

// TestCompactRow: rows of frequent objects are short, and the folders go with their files.
func TestCompactRow(t *testing.T) { onEngines(t, testCompactRow) }

func testCompactRow(t *testing.T) {
	db := openTest(t, Options{})
	var entries []record.Entry
	for n := range 8 {
		entries = append(entries, hugeEntry(2*n))
	}
	commitTest(t, db, "", entries...)
	for _, x := range []struct {
		odd  int
		want string
	}{{1, ",libmodule2.so,=,<,=,A,D,20"}, {0, "/,module1.pdb,,1,,A,D,16"}} {
		var got string
		if err := db.base.Points.Row(t.Context(), `SELECT name || ',' || name_fold || ',' || code_id || ',' || debug_id || ',' ||
			build_id || ',' || arch || ',' || features || ',' || length(ident) FROM object WHERE id = $1`, []any{1 + x.odd}, &got); err != nil || got != x.want {
			t.Errorf("object %d is the row %q, error %v; want %q", 1+x.odd, got, err, x.want)
		}
	}
	count := func() (dirs, files int64) {
		if err := db.base.Points.Row(t.Context(), `SELECT (SELECT count(*) FROM tx_dir),
			(SELECT count(*) FROM tx_file WHERE dir IS NOT NULL AND path = '')`, nil, &dirs, &files); err != nil {
			t.Fatal(err)
		}
		return dirs, files
	}
	if dirs, files := count(); dirs != 1 || files != 8 {
		t.Errorf("%d folders and %d files in them, want 1 and 8", dirs, files)
	}
	until := time.Now().Add(time.Hour)
	if _, err := db.Trash.Remove(t.Context(), removals.Removal{Number: 1, Until: until}); err != nil {
		t.Fatal(err)
	}
	if dirs, files := count(); dirs != 1 || files != 0 {
		t.Errorf("in the trash: %d folders and %d files, want 1 and none", dirs, files)
	}
	if _, err := db.Trash.Empty(t.Context(), until.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if dirs, _ := count(); dirs != 0 {
		t.Errorf("after the trash: %d folders, want none", dirs)
	}
	clean(t, db)
}

// TestCopyShort: rows that are short are not copied where programs write and read plain ones; plain rows are copied to both.
func TestCopyShort(t *testing.T) { onEngines(t, testCopyShort) }

func testCopyShort(t *testing.T) {
	for _, x := range []struct{ plain, toPlain, fails bool }{{false, true, true}, {true, true, false}, {true, false, false}} {
		db, to := openTest(t, Options{}), openTest(t, Options{})
		if x.plain {
			writePlain(t, db)
		}
		if x.toPlain {
			writePlain(t, to)
		}
		commitTest(t, db, "", pdb(1))
		err := db.Copy(t.Context(), to, func() error { return nil })
		if errors.Is(err, errOldNodes) != x.fails || !x.fails && err != nil {
			t.Errorf("%+v: error %v", x, err)
		}
		if stats, serr := to.Stats(t.Context()); serr != nil || (stats.Objects == 0) != x.fails {
			t.Errorf("%+v: %+v, %v", x, stats, serr)
		}
	}
}

// TestLetters: a processor whose name is the letter of another one, as a .sym file may have, stays itself.
func TestLetters(t *testing.T) { onEngines(t, testLetters) }

func testLetters(t *testing.T) {
	for _, plain := range []bool{false, true} {
		db := openTest(t, Options{})
		if plain {
			writePlain(t, db)
		}
		for n, arch := range []string{"x86_64", "A", "Z"} {
			e := pdb(n + 1)
			e.Arch, e.Features = arch, []string{"B"}
			commitTest(t, db, "", e)
			commitTest(t, db, "", e)
			hits, err := db.Lookup(t.Context(), all, symfile.Lookup{Name: e.Aliases[0].Name, ID: e.Aliases[0].ID, Role: symfile.AnyRole})
			if err != nil || len(hits) != 1 || hits[0].Arch != arch || !slices.Equal(hits[0].Features, e.Features) {
				t.Errorf("plain %v, processor %s: %+v, %v", plain, arch, hits, err)
			}
			for _, f := range []lists.ObjectFilter{{Arch: arch, Limit: 9}, {Arch: arch, Feature: "B", Limit: 9}} {
				if list, _, err := db.Lists.Objects(t.Context(), all, f); err != nil || len(list) != 1 || list[0].Ref != e.Ref {
					t.Errorf("plain %v, objects with the processor %s: %+v, %v", plain, arch, list, err)
				}
			}
		}
	}
}

// TestCompactFaults: the check finds rows that stand for nothing.
func TestCompactFaults(t *testing.T) {
	t.Parallel()
	for statement, want := range map[string]string{
		"DELETE FROM tx_dir": "the folder of a file", "UPDATE tx_dir SET last = 2": "the folder of a file",
		"INSERT INTO tx_dir VALUES (2, 1, '/x/', 1, 1)": "has no files", "UPDATE object SET ident = NULL": "a short id",
	} {
		db := openTest(t, Options{})
		commitTest(t, db, "", hugeEntry(0), hugeEntry(2), hugeEntry(4), hugeEntry(6))
		clean(t, db)
		breakRows(t, db, statement)
		if problems, err := db.Check(t.Context()); err != nil || !strings.Contains(strings.Join(problems, "\n"), want) {
			t.Errorf("%s: %q, error %v, does not say %q", statement, problems, err, want)
		}
	}
}

// TestPackedWish: a wish is fulfilled by a file that comes back and whose keys are packed.
func TestPackedWish(t *testing.T) { onEngines(t, testPackedWish) }

func testPackedWish(t *testing.T) {
	c := newClock()
	db := openTest(t, c.options())
	one, two := pdb(1), packedEntry(5, 0)
	commitTest(t, db, "game", one, two)
	if packAll(t, db) < 2 {
		t.Fatal("the keys were not packed")
	}
	named, any := one.Aliases[0], two.Aliases[0]
	putWishes(t, db, "a", wishOf(named.ID, named.Name, named.Role), wishOf(any.ID, "", any.Role), wishOf(named.ID, "other.pdb", named.Role),
		wishOf(named.ID, named.Name, 1<<15))
	n := commitTest(t, db, "tool", pdb(3))
	match(t, db, n, 0)
	n = commitTest(t, db, "tool", one, two)
	match(t, db, n, 2)
	match(t, db, n, 0)
	if left := tally(t, db, "wish"); left != 2 {
		t.Errorf("%d wishes are left, want those of another name and of another role, which no file fulfils", left)
	}
	clean(t, db)
}
