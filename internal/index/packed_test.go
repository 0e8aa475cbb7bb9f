package index

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/lists"
	"github.com/symdepot/symdepot/internal/index/oldkeys"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/index/removals"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// packAll packs all keys that can be packed, and returns their number.
func packAll(t testing.TB, db *DB) (n int64) {
	t.Helper()
	beginPacking(t, db)
	for {
		p, err := oldkeys.Pack(t.Context(), db.base, time.Now().AddDate(100, 0, 0))
		if err != nil {
			t.Fatal(err)
		}
		n += p.Packed
		if p.Ended {
			return n
		}
	}
}

// beginPacking has the decision to pack keys be an old one.
func beginPacking(t testing.TB, db *DB) {
	t.Helper()
	if err := decided(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if db.keys.May() {
		return
	}
	if still, err := db.keys.Still(t.Context(), db.base.Points); err != nil {
		t.Fatal(err)
	} else if still {
		db.keys = oldkeys.Known{} // as if a minute had passed
	}
}

func decided(ctx context.Context, db *DB) error {
	return db.base.Update(ctx, "test", func(w *engine.Write) error {
		_, err := w.Exec("UPDATE old_keys SET begins = 0 WHERE begins IS NULL")
		return err
	})
}

// rowsOf returns the number of keys that are rows.
func rowsOf(t testing.TB, db *DB) (n int64) {
	t.Helper()
	if err := db.base.Points.Row(t.Context(), "SELECT count(*) FROM lookup", nil, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// packedEntry is entry n of the twins: with several keys, ids that others share, and a key that no column gives.
func packedEntry(n, variant int) record.Entry {
	var e record.Entry
	switch n % 4 {
	case 0:
		e = pdbAge(n, fmt.Sprintf("Foo%d.pdb", n%3), byte(n%6), uint32(1+n%5))
		e.Object.InfoAge = uint32(n % 7)
		e.Aliases = e.Object.Aliases()
	case 1:
		e = elf(n, symfile.Debug|symfile.Executable, fmt.Sprintf("%040x", n%5+1), int64(n))
	case 2:
		e = pdb(n)
		e.Aliases = append(e.Aliases, symfile.Alias{Name: "other.pdb", ID: "extra", Role: symfile.Debug}, symfile.Alias{Name: "other.pdb", ID: e.Aliases[0].ID, Role: symfile.Debug})
	default:
		o := symfile.Object{Kind: symfile.PE, Role: symfile.Executable, Name: fmt.Sprintf("Prog%d.exe", n), CodeID: fmt.Sprintf("%08X%x", n%3+1, 0x1000), Main: n%2 == 0}
		e = record.Entry{Object: o, Ref: ref(n), Size: int64(1000 + n), Aliases: o.Aliases(), Path: "/build/" + o.Name}
	}
	if variant == 1 { // another version of the program identifies it otherwise
		e.Object.Version = 7
		e.Features = []string{"new"}
	}
	if variant == 2 {
		e.Aliases = slices.Clone(e.Aliases)
		e.Aliases[0].Role |= symfile.Other
	}
	return e
}

// TestPackedTwins does the same at random with two indexes, of which one packs its keys now and then: all answers
// are the same. Each comparison asks for each entry in one scope by turns, the last one, and all with
// SYMDEPOT_TORTURE, in all.
func TestPackedTwins(t *testing.T) { onEngineOfDay(t, 0, testPackedTwins) }

func testPackedTwins(t *testing.T) {
	symtest.Sequential(t)
	c := newClock()
	packs, plain := openTest(t, c.options()), openTest(t, c.options())
	both := func(do func(db *DB) (any, error)) any {
		t.Helper()
		a, err1 := do(packs)
		b, err2 := do(plain)
		if (err1 == nil) != (err2 == nil) || err1 != nil && !errors.As(err1, new(*removals.NotInTrashError)) {
			t.Fatalf("with packed keys: %v, without: %v", err1, err2)
		}
		if diff := gocmp.Diff(b, a, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(record.Stored{}), cmpopts.EquateComparable(blob.Ref{})); diff != "" {
			t.Fatalf("with packed keys (+): %s", diff)
		}
		return a
	}
	rnd := rand.New(rand.NewPCG(symtest.Seed(t, 1), 2))
	products := []string{"A", "B", ""}
	contentsOf, steps := 12, 150
	if testing.Short() {
		steps = 40
	}
	filters := map[*DB][]*Filter{packs: {packs.NewFilter(), packs.NewScopeFilter()}, plain: {plain.NewFilter(), plain.NewScopeFilter()}}
	var numbers []int64
	most := int64(0)
	for step := range steps {
		c.hours(1)
		pick := func() int64 { return numbers[rnd.IntN(len(numbers))] }
		switch k := rnd.IntN(16); {
		case k < 5 || len(numbers) == 0:
			var entries []record.Entry
			for range 1 + rnd.IntN(4) {
				entries = append(entries, packedEntry(1+rnd.IntN(contentsOf), max(0, rnd.IntN(8)-5)))
			}
			p := products[rnd.IntN(3)]
			n := both(func(db *DB) (any, error) {
				n, err := db.Commit(t.Context(), record.Tx{Kind: "add", Product: p, Entries: entries}, nil)
				if err != nil {
					return n, err
				}
				lost, err := db.Unfound(t.Context(), n, entries)
				if len(lost) > 0 {
					err = fmt.Errorf("files %v are not found", lost)
				}
				return n, err
			}).(int64)
			numbers = append(numbers, n)
		case k < 7:
			n := pick()
			both(func(db *DB) (any, error) {
				_, err := db.Trash.Remove(t.Context(), removals.Removal{Number: n, At: c.t, Until: c.t.Add(20 * time.Hour)})
				return err == nil, nil
			})
		case k < 8:
			n := pick()
			both(func(db *DB) (any, error) { _, err := db.Remove(t.Context(), n); return err == nil, nil })
		case k < 9:
			n := pick()
			both(func(db *DB) (any, error) { _, err := db.Trash.Undo(t.Context(), n); return nil, err })
		case k < 10:
			e := packedEntry(1+rnd.IntN(contentsOf), 0)
			both(func(db *DB) (any, error) {
				return nil, db.Cached.Put(t.Context(), contents.CachedFile{Source: "s", Name: e.Object.Name, Ref: e.Ref, Size: e.Size, Fetched: c.t, Entries: []record.Entry{e}}, nil)
			})
		case k < 11:
			id := packedEntry(1+rnd.IntN(contentsOf), 0).Aliases[0].ID
			both(func(db *DB) (any, error) {
				return DropReplaced(t.Context(), db, "t", contents.Replacement{IDs: []string{id}, Kind: symfile.PDB, Role: symfile.Debug})
			})
		case k < 13:
			both(func(db *DB) (any, error) {
				n, err := db.Trash.Empty(t.Context(), c.t)
				if err != nil {
					return n, err
				}
				return db.DropContents(t.Context(), unreferenced(t, db, c.t), c.t, func(blob.Ref) error { return nil })
			})
		default:
			packAll(t, packs)
		}
		most = max(most, countPacked(t, packs))
		if step%3 == 0 || step == steps-1 {
			comparePacked(t, both, filters, products, contentsOf, func(n, scope int) bool {
				return step == steps-1 || os.Getenv("SYMDEPOT_TORTURE") != "" || (step/3+n+scope)%3 == 0
			})
		}
		if step%10 == 0 {
			clean(t, packs)
		}
	}
	clean(t, packs)
	if most < 10 {
		t.Errorf("at most %d keys were packed, want more", most)
	}
}

func countPacked(t testing.TB, db *DB) (n int64) {
	t.Helper()
	if err := db.base.Points.Row(t.Context(), "SELECT coalesce(sum(keys), 0) FROM old_key", nil, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// comparePacked asks both twins everything that reads keys of those entries of those of three scopes whose
// turn it is.
func comparePacked(t *testing.T, both func(func(db *DB) (any, error)) any, filters map[*DB][]*Filter, products []string, contentsOf int,
	turn func(entry, scope int) bool,
) {
	t.Helper()
	scopes := []record.Scope{all, {Products: products[:1]}, {Products: products[1:]}}
	ctx := t.Context()
	for n := 1; n <= contentsOf; n++ {
		e := packedEntry(n, 0)
		for i, scope := range scopes {
			if !turn(n, i) {
				continue
			}
			for _, a := range e.Aliases {
				both(func(db *DB) (any, error) {
					return db.Lookup(ctx, scope, symfile.Lookup{Name: a.Name, ID: a.ID, Role: a.Role})
				})
				hits := both(func(db *DB) (any, error) {
					return db.Lookup(ctx, scope, symfile.Lookup{ID: a.ID, Role: symfile.AnyRole})
				}).([]record.Hit)
				both(func(db *DB) (any, error) {
					f := filters[db][0]
					if !scope.All {
						f = filters[db][1]
					}
					state, err := db.Generation(ctx)
					if err == nil {
						err = f.Refresh(ctx, state)
					}
					if excluded, fresh := f.Excludes(state, scope, a.ID); err == nil && (!fresh || excluded && len(hits) > 0) {
						err = fmt.Errorf("the filter excludes %s: %v, %v", a.ID, excluded, fresh)
					}
					return nil, err
				})
			}
			guid := e.Object.DebugID.GUID.Lower()
			both(func(db *DB) (any, error) { return db.HigherAge(ctx, scope, "", guid, 1) })
			both(func(db *DB) (any, error) { return ImagesOf(ctx, db, scope, guid, 10) })
			both(func(db *DB) (any, error) {
				return db.Find(ctx, scope, record.Query{IDs: []string{e.Aliases[0].ID}, Prefix: e.Aliases[0].ID[:3]}, 0)
			})
			both(func(db *DB) (any, error) {
				list, _, err := db.Lists.Objects(ctx, scope, lists.ObjectFilter{Query: record.Query{IDs: []string{e.Aliases[0].ID}, Prefix: guid[:2]}, Limit: 50})
				return list, err
			})
			both(func(db *DB) (any, error) {
				list, _, err := db.ELFPaths(ctx, scope, PathQuery{BuildID: string(e.Object.BuildID)}, 0)
				slices.SortFunc(list, func(a, b ELFPath) int { return cmp.Compare(a.Path, b.Path) })
				return list, err
			})
			both(func(db *DB) (any, error) {
				list, err := db.Trash.Find(ctx, scope, record.Query{IDs: []string{e.Aliases[0].ID}}, 0)
				slices.SortStableFunc(list, func(a, b removals.RemovedFile) int {
					return cmp.Or(cmp.Compare(a.Removal.Number, b.Removal.Number), cmp.Compare(a.Name, b.Name))
				})
				return list, err
			})
		}
		both(func(db *DB) (any, error) { return db.HasObject(ctx, e.Object, e.Size) })
		both(func(db *DB) (any, error) { return db.Stages.HasOther(ctx, "A", e.Object, ref(0)) })
	}
	both(func(db *DB) (any, error) { s, err := db.Stats(ctx); return s.Lookups, err })
}

// TestPackStays: what cannot be packed stays, what is packed is copied, and a copy is undone whole.
func TestPackStays(t *testing.T) { onEngines(t, testPackStays) }

func testPackStays(t *testing.T) {
	c := newClock()
	db := openTest(t, c.options())
	e := packedEntry(2, 0)
	commitTest(t, db, "", e, pdb(6))
	if err := db.Cached.Put(t.Context(), contents.CachedFile{Source: "s", Name: "c.pdb", Ref: ref(10), Size: 1010, Fetched: c.t, Entries: []record.Entry{pdb(10)}}, nil); err != nil {
		t.Fatal(err)
	}
	beginPacking(t, db)
	if p, err := oldkeys.Pack(t.Context(), db.base, c.t); err != nil || p.Packed != 0 {
		t.Errorf("%d keys of a new build were packed, %v, want none", p.Packed, err)
	}
	before := rowsOf(t, db)
	c.hours(1)
	commitTest(t, db, "", pdb(11))
	p, err := oldkeys.Pack(t.Context(), db.base, c.t)
	if left := rowsOf(t, db); err != nil || p.Packed == 0 || left != 3 {
		// The extra key, that of the cached file, and that of the new build.
		t.Errorf("%d keys of %d were packed, %v, %d are left; want 3 left", p.Packed, before, err, left)
	}
	clean(t, db)
	to := openTest(t, Options{})
	if err := db.Copy(t.Context(), to, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	clean(t, to)
	if len(lookupEntry(t, to, all, e)) != 1 {
		t.Error("a packed key was not copied")
	}
	if err := to.Copies.Undo(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	clean(t, to)
}

// TestPackWaits: as long as programs may come that do not find packed keys, none are packed.
func TestPackWaits(t *testing.T) { onEngines(t, testPackWaits) }

func testPackWaits(t *testing.T) {
	db := openTest(t, Options{})
	commitTest(t, db, "", pdb(1))
	if err := db.base.Update(t.Context(), "test", func(w *engine.Write) error {
		_, err := w.Exec("UPDATE state SET format_floor = 3")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if n := packAll(t, db); n != 0 {
		t.Errorf("%d keys were packed, want none", n)
	}
}

// TestPackBegins: no key is packed within a minute of the decision, in which other processes learn of it.
func TestPackBegins(t *testing.T) { onEngines(t, testPackBegins) }

func testPackBegins(t *testing.T) {
	c := newClock()
	db := openTest(t, c.options())
	other := reopen(t, db, c.options())
	commitTest(t, db, "", pdb(1))
	c.hours(1)
	for range 3 {
		if len(lookupEntry(t, other, all, pdb(1))) != 1 {
			t.Error("object 1 is not found")
		}
		if p, err := oldkeys.Pack(t.Context(), db.base, c.t); err != nil || p.Packed > 0 {
			t.Errorf("%d keys were packed, %v, want none yet", p.Packed, err)
		}
		c.t = c.t.Add(20 * time.Second)
	}
	if other.keys = (oldkeys.Known{}); len(lookupEntry(t, other, all, pdb(1))) != 1 || !other.keys.May() {
		t.Error("the other process does not know of the decision")
	}
	if p, err := oldkeys.Pack(t.Context(), db.base, c.t); err != nil || p.Packed != 1 {
		t.Errorf("%d keys were packed, %v, want 1", p.Packed, err)
	}
	for _, db := range []*DB{db, other} {
		if db.keys = (oldkeys.Known{}); len(lookupEntry(t, db, all, pdb(1))) != 1 {
			t.Error("a packed key is not found")
		}
	}
}

// TestLookupWhilePacked: a lookup finds a key at each moment at which it changes its place.
func TestLookupWhilePacked(t *testing.T) { onEngines(t, testLookupWhilePacked) }

func testLookupWhilePacked(t *testing.T) {
	db := openTest(t, Options{})
	var entries []record.Entry
	var ids []string
	for n := range 40 {
		e := figureEntry(2 * n)
		entries, ids = append(entries, e), append(ids, e.Aliases[0].ID)
	}
	commitTest(t, db, "", entries...)
	beginPacking(t, db)
	rounds := 30
	if testing.Short() {
		rounds = 8
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	var lookups atomic.Int64
	for r := range 3 {
		wg.Go(func() {
			for i := r; !stop.Load(); i++ {
				a := entries[i%len(entries)].Aliases[0]
				hits, err := db.Lookup(t.Context(), all, symfile.Lookup{Name: a.Name, ID: a.ID, Role: a.Role})
				if err != nil || len(hits) != 1 {
					t.Errorf("%d hits, %v, want 1", len(hits), err)
					return
				}
				lookups.Add(1)
			}
		})
	}
	for range rounds {
		if n := packAll(t, db); n != 80 {
			t.Errorf("%d keys were packed, want 80", n)
		}
		if err := oldkeys.UnpackIDs(t.Context(), db.base, ids); err != nil {
			t.Error(err)
		}
	}
	stop.Store(true)
	wg.Wait()
	clean(t, db)
	t.Logf("%d lookups", lookups.Load())
}

// TestManyOfOneID: the keys of an id that very many objects have are rows still.
func TestManyOfOneID(t *testing.T) { onEngines(t, testManyOfOneID) }

func testManyOfOneID(t *testing.T) {
	db := openTest(t, Options{})
	var entries []record.Entry
	for n := range 300 {
		entries = append(entries, pdbAge(n, fmt.Sprintf("f%d.pdb", n), 1, 1))
	}
	for n := range 2000 {
		entries = append(entries, figureEntry(2*n))
	}
	commitTest(t, db, "", entries...)
	packAll(t, db)
	if left := rowsOf(t, db); left != 300 {
		t.Errorf("%d keys are rows, want 300", left)
	}
	if hits, err := db.Lookup(t.Context(), all, symfile.Lookup{ID: entries[0].Aliases[0].ID, Role: symfile.AnyRole}); err != nil || len(hits) != record.MaxRows {
		t.Errorf("%d hits, %v, want %d", len(hits), err, record.MaxRows)
	}
	for _, e := range entries[300:] {
		if len(lookupEntry(t, db, all, e)) != 1 {
			t.Fatalf("%s is not found", e.Aliases[0].ID)
		}
	}
	clean(t, db)
}

// TestDamagedBlock: a damaged block is an error of the index, and the check reports it.
func TestDamagedBlock(t *testing.T) {
	t.Parallel()
	db := openTest(t, Options{})
	commitTest(t, db, "", pdb(1))
	packAll(t, db)
	breakRows(t, db, "UPDATE old_key SET body = x'01ff'")
	if _, err := db.Lookup(t.Context(), all, symfile.Lookup{ID: pdb(1).Aliases[0].ID, Role: symfile.AnyRole}); !errors.Is(err, engine.ErrCorrupt) {
		t.Errorf("Lookup: %v, want %v", err, engine.ErrCorrupt)
	}
	if problems, err := db.Check(t.Context()); err != nil || !slices.ContainsFunc(problems, func(p string) bool { return len(p) > 0 }) {
		t.Errorf("Check: %v, %v, want a problem", problems, err)
	}
}

// childPack commits and packs without end, and prints the number of each commit once it is acknowledged.
func childPack(path string, _ int) error {
	ctx := context.Background()
	db, err := Open(ctx, path, Options{})
	if err != nil {
		return err
	}
	s, err := db.Stats(ctx)
	if err == nil {
		err = decided(ctx, db)
	}
	if err != nil {
		return err
	}
	for n := int(s.Objects); ; n += 50 {
		var entries []record.Entry
		for i := range 50 {
			entries = append(entries, figureEntry(2*(n+i)))
		}
		if _, err := db.Commit(ctx, record.Tx{Kind: "add", Entries: entries}, nil); err != nil {
			return err
		}
		fmt.Println(n + 50)
		for ended := false; !ended; {
			p, err := oldkeys.Pack(ctx, db.base, time.Now().Add(time.Hour))
			if err != nil {
				return err
			}
			ended = p.Ended
		}
	}
}

// TestKillPack kills a process that packs keys at random points: no key is lost, none is there twice.
func TestKillPack(t *testing.T) {
	t.Parallel()
	kills := 6
	if testing.Short() {
		kills = 2
	}
	path := filepath.Join(t.TempDir(), "index.db")
	rnd := rand.New(rand.NewPCG(symtest.Seed(t, 7), 8))
	objects := 0
	for round := range kills {
		c := child(t.Context(), "pack", path, 0)
		out, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(out)
		for range 1 + rnd.IntN(6) {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			objects, _ = strconv.Atoi(line[:len(line)-1])
		}
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for _, n := range scanNumbers(lines, -1) {
			objects = int(n)
		}
		_ = c.Wait()
		db, err := Open(t.Context(), path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		clean(t, db)
		for n := range objects {
			for _, a := range figureEntry(2 * n).Aliases {
				if hits, err := db.Lookup(t.Context(), all, symfile.Lookup{Name: a.Name, ID: a.ID, Role: a.Role}); err != nil || len(hits) != 1 {
					t.Fatalf("round %d: %d hits of object %d, %v, want 1", round, len(hits), n, err)
				}
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPackOdd: keys of ids that PostgreSQL stores in another form stay rows, and are found.
func TestPackOdd(t *testing.T) { onEngines(t, testPackOdd) }

func testPackOdd(t *testing.T) {
	db := openTest(t, Options{})
	o := symfile.Object{Kind: symfile.Breakpad, Role: symfile.Debug, Name: "a.sym", CodeID: "odd\x01id"}
	e := record.Entry{Object: o, Ref: ref(1), Size: 1001, Aliases: []symfile.Alias{{Name: o.Name, ID: o.CodeID, Role: o.Role}}}
	commitTest(t, db, "", e, pdb(2))
	if n := packAll(t, db); n != 1 {
		t.Errorf("%d keys were packed, want that of the other file", n)
	}
	if hits := lookupEntry(t, db, all, e); len(hits) != 1 {
		t.Errorf("%d hits, want 1", len(hits))
	}
	clean(t, db)
}
