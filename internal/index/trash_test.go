package index

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/index/removals"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// dropUntil drops what is unreferenced until now and returns the dropped contents.
func dropUntil(t *testing.T, db *DB, now time.Time) (gone []blob.Ref) {
	t.Helper()
	if _, err := db.DropContents(t.Context(), unreferenced(t, db, now), now, func(r blob.Ref) error {
		gone = append(gone, r)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return gone
}

func stateOf(t *testing.T, db *DB, now time.Time) *removals.RetainedState {
	t.Helper()
	s, err := db.Retention.State(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestTrash: the files of a removed transaction are hidden and held until the end
// of the trash, and come back by undo.
func TestTrash(t *testing.T) { onEngines(t, testTrash) }

func testTrash(t *testing.T) {
	c := newClock()
	db := openTest(t, c.options())
	ctx := t.Context()
	one := commitTest(t, db, "A", pdb(1), pdb(2))
	two := commitTest(t, db, "A", pdb(2), pdb(3))
	if err := db.PutDerived(ctx, pdb(1).Ref, record.Tool{Name: "zstd", Version: 1}, &record.Content{Ref: ref(9), Size: 9}); err != nil {
		t.Fatal(err)
	}
	until := c.t.Add(7 * 24 * time.Hour)
	removed, err := db.Trash.Remove(ctx, removals.Removal{Number: one, Until: until, Who: "anna", Class: "nightly", Reason: "expired", Detail: "50 days old", Plan: "8c1f2a90"})
	if err != nil || !removed.TrashUntil.Equal(until) || !removed.Removed.Equal(c.t) {
		t.Fatalf("removal into the trash: %+v, %v; want it now, and in the trash until %v", removed, err, until)
	}
	clean(t, db)
	if hits := lookupEntry(t, db, all, pdb(1)); len(hits) > 0 {
		t.Error("a file in the trash is found")
	}
	if hits := lookupEntry(t, db, all, pdb(2)); len(hits) != 1 || hits[0].Number != two {
		t.Errorf("the shared file is found as %+v, want that of build %d", hits, two)
	}
	s := stateOf(t, db, c.t)
	if len(s.Transactions) != 2 || len(s.Transactions[0].Contents) != 2 || !s.Transactions[0].TrashUntil.Equal(until) || len(s.Contents) != 4 || len(s.Derived) != 1 {
		t.Errorf("the state has %+v; want 2 builds, 4 contents and 1 derived", s)
	}
	c.t = until.Add(-time.Millisecond)
	if gone := dropUntil(t, db, c.t); len(gone) > 0 {
		t.Errorf("%d contents in the trash were dropped, want none", len(gone))
	}
	list, contents, stored, err := db.Trash.List(ctx, c.t)
	if err != nil || len(list) != 1 || list[0].Number != one || contents != 1 || stored != 1010 || list[0].Stored != 1010 {
		t.Errorf("trash: %+v, %d contents of %d bytes, %v; want build %d with 1 content, which takes 1010 bytes with its derivation", list, contents, stored, err, one)
	}
	back, err := db.Trash.Undo(ctx, one)
	if err != nil || !back.Removed.IsZero() || !back.TrashUntil.IsZero() {
		t.Fatalf("undo: %+v, %v; want a live one", back, err)
	}
	clean(t, db)
	if hits := lookupEntry(t, db, all, pdb(1)); len(hits) != 1 || hits[0].Number != one {
		t.Errorf("after undo the file is found as %+v, want that of build %d", hits, one)
	}
	if hits := lookupEntry(t, db, all, pdb(2)); len(hits) != 1 || hits[0].Number != two {
		t.Errorf("after undo the shared file is found as %+v, want that of build %d", hits, two)
	}
	var notInTrash *removals.NotInTrashError
	if _, err := db.Trash.Undo(ctx, one); !errors.As(err, &notInTrash) || !notInTrash.Removed.IsZero() || err.Error() != fmt.Sprintf("build %d was not removed", one) {
		t.Errorf("undo of a live build: %v, want one that says it was not removed", err)
	}
	if _, err := db.Remove(ctx, one); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Trash.Undo(ctx, one); !errors.As(err, &notInTrash) || !notInTrash.Ended.IsZero() || !strings.Contains(err.Error(), "is not in the trash") {
		t.Errorf("undo of a removal without a trash: %v", err)
	}
	if gone := dropUntil(t, db, c.t); len(gone) != 2 {
		t.Errorf("%d contents were dropped, want 2: that of the file and that of its derivation", len(gone))
	}
	clean(t, db)
	if _, err := db.Trash.Undo(ctx, 99); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("undo of an unknown build: %v, want the error %v", err, fs.ErrNotExist)
	}
}

// TestTrashEnds: after the end of its trash a transaction cannot be restored, and
// its contents go whatever the grace; so they do when the trash is emptied.
func TestTrashEnds(t *testing.T) { onEngines(t, testTrashEnds) }

func testTrashEnds(t *testing.T) {
	c := newClock()
	db := openTest(t, c.options())
	ctx := t.Context()
	until := c.t.Add(24 * time.Hour)
	one, two, three := commitTest(t, db, "A", pdb(1), pdb(2)), commitTest(t, db, "B", pdb(2), pdb(3)), commitTest(t, db, "C", pdb(4))
	for number, end := range map[int64]time.Time{one: until, two: until.Add(time.Hour), three: until.Add(9 * time.Hour)} {
		if _, err := db.Trash.Remove(ctx, removals.Removal{Number: number, Until: end}); err != nil {
			t.Fatal(err)
		}
	}
	c.t = until
	var notInTrash *removals.NotInTrashError
	if _, err := db.Trash.Undo(ctx, one); !errors.As(err, &notInTrash) || !notInTrash.Ended.Equal(until) {
		t.Errorf("undo after the end of the trash: %v, want one that says when the trash ended", err)
	}
	if n, err := db.Trash.Empty(ctx, c.t); n != 1 || err != nil {
		t.Fatalf("%d builds left the trash, %v; want 1", n, err)
	}
	clean(t, db)
	if gone := dropUntil(t, db, c.t.Add(-24*time.Hour)); !slices.Equal(gone, []blob.Ref{ref(1)}) {
		t.Errorf("%d contents were dropped, want that of build %d alone", len(gone), one)
	}
	if _, err := db.Trash.Undo(ctx, two); err != nil {
		t.Errorf("undo of the build that holds the shared content: %v", err)
	}
	clean(t, db)
	if n, err := db.Trash.Empty(ctx, c.t.AddDate(100, 0, 0)); n != 1 || err != nil {
		t.Fatalf("%d builds left the trash, %v; want 1", n, err)
	}
	if gone := dropUntil(t, db, c.t.Add(-24*time.Hour)); !slices.Equal(gone, []blob.Ref{ref(4)}) {
		t.Errorf("%d contents were dropped, want that of build %d", len(gone), three)
	}
	clean(t, db)
}

// TestPurge: a purge returns what nothing needs any more, at once.
func TestPurge(t *testing.T) { onEngines(t, testPurge) }

func testPurge(t *testing.T) {
	c := newClock()
	db := openTest(t, c.options())
	ctx := t.Context()
	one, two, three := commitTest(t, db, "A", pdb(1), pdb(2)), commitTest(t, db, "A", pdb(2), pdb(3)), commitTest(t, db, "A", pdb(3), pdb(4))
	if _, err := db.Trash.Remove(ctx, removals.Removal{Number: two, Until: c.t.Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	_, refs, err := db.Trash.Purge(ctx, removals.Removal{Number: one, Reason: "purge", Who: "eve"})
	if err != nil || !slices.Equal(refs, []blob.Ref{ref(1)}) {
		t.Fatalf("purge: %d contents, %v; want the one that no other build needs", len(refs), err)
	}
	clean(t, db)
	if _, refs, err = db.Trash.Purge(ctx, removals.Removal{Number: two, Reason: "purge"}); err != nil || !slices.Equal(refs, []blob.Ref{ref(2)}) {
		t.Fatalf("purge of a build in the trash: %d contents, %v; want its one content", len(refs), err)
	}
	clean(t, db)
	var notInTrash *removals.NotInTrashError
	if _, _, err := db.Trash.Purge(ctx, removals.Removal{Number: two}); !errors.As(err, &notInTrash) {
		t.Errorf("second purge: %v, want an error that says it is not in the trash", err)
	}
	if err := db.Retention.Hold(ctx, removals.Hold{Number: three, Name: "GA", Reason: "GA", Who: "anna"}); err != nil {
		t.Fatal(err)
	}
	var held *removals.ErrHeld
	if _, _, err := db.Trash.Purge(ctx, removals.Removal{Number: three}); !errors.As(err, &held) {
		t.Errorf("purge of a held build: %v, want an error that names the hold", err)
	}
	if why, err := db.Trash.Why(ctx, one); err != nil || why.Reason != "purge" || why.Who != "eve" {
		t.Errorf("removal of build %d: %+v, %v; want the purge by eve", one, why, err)
	}
	if gone := dropUntil(t, db, c.t.Add(-time.Hour)); len(gone) != 2 {
		t.Errorf("%d purged contents were dropped, want 2", len(gone))
	}
	clean(t, db)
}

// TestHolds: a hold refuses removals until its last day has passed.
func TestHolds(t *testing.T) { onEngines(t, testHolds) }

func testHolds(t *testing.T) {
	c := newClock()
	db := openTest(t, c.options())
	ctx := t.Context()
	one := commitTest(t, db, "A", pdb(1))
	for _, h := range []removals.Hold{{Number: one, Name: "a", Reason: "crash 811", Who: "anna", Until: c.t}, {Number: one, Name: "b", Reason: "1.2 GA"}} {
		if err := db.Retention.Hold(ctx, h); err != nil {
			t.Fatal(err)
		}
	}
	var held *removals.ErrHeld
	if _, err := db.Remove(ctx, one); !errors.As(err, &held) || held.Reason != "crash 811" {
		t.Errorf("removal of a held build: %v, want an error that names the hold", err)
	}
	if list, err := db.Retention.Unhold(ctx, one, "b"); err != nil || len(list) != 1 {
		t.Fatalf("%d holds were released, %v; want 1", len(list), err)
	}
	c.hours(11) // still the last day
	if _, err := db.Remove(ctx, one); !errors.As(err, &held) {
		t.Errorf("removal on the last day of the hold: %v, want an error that names the hold", err)
	}
	if s := stateOf(t, db, c.t); len(s.Transactions) != 1 || len(s.Transactions[0].Holds) != 1 {
		t.Errorf("the state has %+v, want one with one hold", s.Transactions)
	}
	c.hours(1)
	if _, err := db.Remove(ctx, one); err != nil {
		t.Errorf("removal after the hold: %v", err)
	}
	if err := db.Retention.Hold(ctx, removals.Hold{Number: one, Name: "c"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("hold on a removed build: %v, want the error %v", err, fs.ErrNotExist)
	}
	if _, err := db.Retention.Promote(ctx, one, "release", "anna", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("promotion of a removed build: %v, want the error %v", err, fs.ErrNotExist)
	}
	two := commitTest(t, db, "A", pdb(2))
	if p, err := db.Retention.Promote(ctx, two, "release", "anna", nil); err != nil || p.To != "release" {
		t.Errorf("promotion: %+v, %v; want it in class release", p, err)
	}
	if list, err := db.Retention.Promotions(ctx, two); err != nil || len(list) != 1 || list[0].Who != "anna" {
		t.Errorf("promotions: %+v, %v; want one by anna", list, err)
	}
	if tx, err := db.Show(ctx, two, nil); err != nil || tx.Class != "release" {
		t.Errorf("class %q, %v; want release", tx.Class, err)
	}
	if err := db.Retention.SetNeeds(ctx, two, []int64{one}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("need of a removed build: %v, want the error %v", err, fs.ErrNotExist)
	}
}

// TestTombstones: what a removal hides can be found afterwards, until it is restored
// or forgotten.
func TestTombstones(t *testing.T) { onEngines(t, testTombstones) }

func testTombstones(t *testing.T) {
	c := newClock()
	db := openTest(t, c.options())
	ctx := t.Context()
	first := pdb(1)
	first.Path = `C:\build\App1.sym`
	one := commitTest(t, db, "A", first, pdb(2))
	commitTest(t, db, "A", pdb(2), pdb(3))
	if _, err := db.Trash.Remove(ctx, removals.Removal{Number: one, Until: c.t.Add(time.Hour), Who: "schedule", Class: "nightly", Reason: "expired", Detail: "50 days old", Plan: "p"}); err != nil {
		t.Fatal(err)
	}
	id := symfile.Fold(pdb(1).Aliases[0].ID)
	for _, q := range []record.Query{{Name: "foo1.pdb"}, {Name: "app1.sym"}, {Name: "f*1.pdb"}, {IDs: []string{id}}, {Prefix: id[:30]}, {Name: "foo1.pdb", IDs: []string{id}}} {
		list, err := db.Trash.Find(ctx, all, q, 10)
		if err != nil || len(list) != 1 || list[0].Name != "Foo1.pdb" || list[0].Removal.Detail != "50 days old" || list[0].Transaction.Product != "A" || list[0].Ref != ref(1) {
			t.Errorf("removed files for %+v: %+v, %v; want Foo1.pdb of product A, 50 days old", q, list, err)
		}
	}
	for _, q := range []record.Query{{Name: "foo2.pdb"}, {Name: "foo3.pdb"}} {
		if list, err := db.Trash.Find(ctx, all, q, 10); err != nil || len(list) > 0 {
			t.Errorf("removed files for %+v: %+v, %v; want none: the file is visible", q, list, err)
		}
	}
	if list, err := db.Trash.Find(ctx, record.Scope{Products: []string{"B"}}, record.Query{Name: "foo1.pdb"}, 10); err != nil || len(list) > 0 {
		t.Errorf("removed files of another product: %+v, %v; want none", list, err)
	}
	if _, err := db.Trash.Undo(ctx, one); err != nil {
		t.Fatal(err)
	}
	if list, err := db.Trash.Find(ctx, all, record.Query{Name: "foo1.pdb"}, 10); err != nil || len(list) > 0 {
		t.Errorf("removed files after undo: %+v, %v; want none", list, err)
	}
	if _, err := db.Remove(ctx, one); err != nil {
		t.Fatal(err)
	}
	if n, err := db.Trash.Forget(ctx, c.t.Add(time.Second)); err != nil || n != 1 {
		t.Errorf("%d removals were forgotten, %v; want 1", n, err)
	}
	if list, err := db.Trash.Find(ctx, all, record.Query{Name: "foo1.pdb"}, 10); err != nil || len(list) > 0 {
		t.Errorf("removed files after they were forgotten: %+v, %v; want none", list, err)
	}
}

// TestTombstonesOfOddNames: a removed file is found by the name that it was added with, and by that of its object, whatever
// bytes these have.
func TestTombstonesOfOddNames(t *testing.T) { onEngines(t, testTombstonesOfOddNames) }

func testTombstonesOfOddNames(t *testing.T) {
	c := newClock()
	db := openTest(t, c.options())
	ctx := t.Context()
	bases := []string{"Plain.sym", "Bell\x07 and \x01FF.sym", "\x01.sym", "Latin\xe9.sym", "\xff\xfe", "Cut\xc3", "Null\x00.sym", "Größe\x7f.sym"}
	object := func(n int) string { return fmt.Sprintf("Odd%d \x01\xe9.pdb", n) }
	var entries []record.Entry
	for n, base := range bases {
		e := pdb(n)
		e.Object.Name = object(n)
		if e.Path = "/build/" + base; n%2 == 1 {
			e.Path = `C:\build\new\` + base
		}
		entries = append(entries, e)
	}
	one := commitTest(t, db, "A", entries...)
	if _, err := db.Trash.Remove(ctx, removals.Removal{Number: one, Until: c.t.Add(time.Hour), Who: "schedule", Reason: "expired"}); err != nil {
		t.Fatal(err)
	}
	for n, base := range bases {
		for _, name := range []string{base, object(n), fmt.Sprintf("odd%d ?\xe9*", n)} {
			list, err := db.Trash.Find(ctx, all, record.Query{Name: symfile.Fold(name)}, 10)
			if err != nil || len(list) != 1 || list[0].Name != object(n) || list[0].Ref != ref(n) {
				t.Errorf("removed files for %q: %+v, %v; want %q", name, list, err, object(n))
			}
		}
	}
	if _, err := db.Trash.Undo(ctx, one); err != nil {
		t.Fatal(err)
	}
	if list, err := db.Trash.Find(ctx, all, record.Query{Name: symfile.Fold(bases[3])}, 10); err != nil || len(list) > 0 {
		t.Errorf("removed files after undo: %+v, %v; want none", list, err)
	}
}

// TestRuns: a run removes what was decided, in several transactions, unless the
// index was changed before; an interrupted one goes on.
func TestRuns(t *testing.T) { onEngines(t, testRuns) }

func testRuns(t *testing.T) {
	c := newClock()
	db := openTest(t, c.options())
	ctx := t.Context()
	var decided []removals.Removal
	const builds = 6
	for n := range builds {
		decided = append(decided, removals.Removal{Number: commitTest(t, db, "A", pdb(n), pdb(9)), Class: "nightly", Reason: "expired", Detail: "old"})
	}
	// Removed transactions of the run protect none.
	if err := db.Retention.SetNeeds(ctx, decided[5].Number, []int64{decided[1].Number}); err != nil {
		t.Fatal(err)
	}
	const manyFiles = 5_000 // more than one write transaction may remove, if there are others
	if err := db.base.Update(ctx, "test", func(w *engine.Write) error {
		_, err := w.Exec("UPDATE tx SET files = files + $1", manyFiles)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	until := c.t.Add(time.Hour)
	decide := func(s *removals.RetainedState) (removals.Decision, error) {
		return removals.Decision{Run: removals.Run{Plan: "p", Kind: "apply", Who: "anna", Begun: c.t, Until: until, Policy: "x", Hash: "h", Facts: "{}"}, Removals: decided}, nil
	}
	s := stateOf(t, db, c.t)
	commitTest(t, db, "B", pdb(20))
	if _, err := db.Retention.Begin(ctx, s.Generation, true, c.t, decide); !errors.Is(err, removals.ErrChanged) {
		t.Fatalf("run after a change: %v, want the error %v", err, removals.ErrChanged)
	}
	refused := errors.New("refused")
	if _, err := db.Retention.Begin(ctx, s.Generation, false, c.t, func(now *removals.RetainedState) (removals.Decision, error) {
		if now == nil || len(now.Transactions) != builds+1 {
			t.Errorf("the decision is made with %+v, want the present state", now)
		}
		return removals.Decision{}, refused
	}); !errors.Is(err, refused) {
		t.Fatalf("refused run: %v, want the error %v", err, refused)
	}
	if runs, err := db.Retention.Runs(ctx, 0, 10); err != nil || len(runs) > 0 {
		t.Errorf("%d runs after refused ones, %v", len(runs), err)
	}
	r, err := db.Retention.Begin(ctx, stateOf(t, db, c.t).Generation, true, c.t, decide)
	if err != nil || r.Removed != 1 || r.Outcome != removals.RunUnfinished {
		t.Fatalf("begun run: %+v, %v; want 1 removed and the outcome unfinished", r, err)
	}
	if err := db.Retention.Hold(ctx, removals.Hold{Number: decided[2].Number, Name: "a"}); err != nil {
		t.Fatal(err)
	}
	c.t = c.t.Add(time.Second)
	if _, err := db.Retention.Promote(ctx, decided[3].Number, "release", "anna", nil); err != nil {
		t.Fatal(err)
	}
	if err := db.Retention.SetNeeds(ctx, commitTest(t, db, "C", pdb(30)), []int64{decided[4].Number}); err != nil {
		t.Fatal(err)
	}
	list, err := db.Retention.Unfinished(ctx, "p")
	if err != nil || len(list) != 1 || !reflect.DeepEqual(list[0], r) {
		t.Fatalf("unfinished runs: %+v, %v; want %+v", list, err, r)
	}
	for r.Outcome == removals.RunUnfinished {
		before := r.Removed
		if r, err = db.Retention.Continue(ctx, r.No); err != nil {
			t.Fatal(err)
		}
		if r.Removed > before+1 {
			t.Errorf("one write removed %d builds of more than %d files, want 1", r.Removed-before, manyFiles)
		}
		for n, x := range decided { // each is hidden with all its files, or not at all
			tx, err := db.Show(ctx, x.Number, nil)
			if found := len(lookupEntry(t, db, all, pdb(n))) > 0; err != nil || found != tx.Removed.IsZero() {
				t.Errorf("build %d after %d removals: its file is found: %t, removed at %s, %v; want found exactly if not removed", x.Number, r.Removed, found, tx.Removed, err)
			}
		}
	}
	if r.Removed != 3 || r.Outcome != removals.RunDone || r.Ended.IsZero() {
		t.Errorf("ended run: %+v, want 3 removed builds: the others were held, promoted and needed meanwhile", r)
	}
	for _, x := range decided[2:5] {
		if tx, err := db.Show(ctx, x.Number, nil); err != nil || !tx.Removed.IsZero() {
			t.Errorf("build %d, which was protected meanwhile: %+v, %v; want that it is live", x.Number, tx, err)
		}
	}
	if again, err := db.Retention.Continue(ctx, r.No); err != nil || again.Removed != 3 {
		t.Errorf("an ended run goes on: %+v, %v", again, err)
	}
	if err := db.base.Update(ctx, "test", func(w *engine.Write) error {
		_, err := w.Exec("UPDATE tx SET files = files - $1 WHERE class <> 'x' AND files > $1", manyFiles)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	clean(t, db)
}

// TestPolicyRows keeps the policies and plans.
func TestPolicyRows(t *testing.T) { onEngines(t, testPolicyRows) }

func testPolicyRows(t *testing.T) {
	c := newClock()
	db := openTest(t, c.options())
	ctx := t.Context()
	if p, err := db.Retention.Policy(ctx); err != nil || p != (removals.PolicyRow{}) {
		t.Errorf("policy of a new index: %+v, %v; want none", p, err)
	}
	first, err := db.Retention.SetPolicy(ctx, removals.PolicyRow{Text: "retention: {}", Hash: "h", Who: "anna"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Retention.SetPolicy(ctx, removals.PolicyRow{Text: "other"}, 0); !errors.Is(err, removals.ErrChanged) {
		t.Errorf("policy that was changed meanwhile: %v, want the error %v", err, removals.ErrChanged)
	}
	if p, err := db.Retention.Policy(ctx); err != nil || !reflect.DeepEqual(p, first) {
		t.Errorf("policy: %+v, %v; want %+v", p, err, first)
	}
	if _, err := db.Retention.SetPolicy(ctx, removals.PolicyRow{Text: "other"}, -1); err != nil {
		t.Error(err)
	}
	if p, err := db.Retention.Policy(ctx); err != nil || p.Text != "other" || p.No != first.No+1 {
		t.Errorf("policy: %+v, %v; want the one after %+v", p, err, first)
	}
	plan := removals.PlanRow{Number: "8c1f2a90", Ticket: "{}", Who: "anna", Made: c.t, Ends: c.t.Add(time.Hour)}
	for range 2 {
		if err := db.Retention.PutPlan(ctx, plan); err != nil {
			t.Fatal(err)
		}
	}
	if p, err := db.Retention.Plan(ctx, plan.Number); err != nil || p != plan {
		t.Errorf("plan: %+v, %v; want %+v", p, err, plan)
	}
	c.hours(2)
	if _, err := db.Retention.Plan(ctx, plan.Number); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ended plan: %v, want the error %v", err, fs.ErrNotExist)
	}
}

// TestReads: the day of the last read is kept, for derived contents also as that of
// their sources.
func TestReads(t *testing.T) { onEngines(t, testReads) }

func testReads(t *testing.T) {
	c := newClock()
	db := openTest(t, c.options())
	ctx := t.Context()
	one := commitTest(t, db, "A", pdb(1), pdb(2))
	if err := db.PutDerived(ctx, pdb(1).Ref, record.Tool{Name: "zstd", Version: 1}, &record.Content{Ref: ref(9), Size: 9}); err != nil {
		t.Fatal(err)
	}
	read := func(at time.Time, n int) {
		t.Helper()
		sum, unknown := ref(n), ref(77)
		if err := db.Retention.Touch(ctx, [][]byte{sum[:], unknown[:]}, at); err != nil {
			t.Fatal(err)
		}
	}
	read(c.t, 9)
	read(c.t.Add(-48*time.Hour), 2)
	read(c.t.Add(-72*time.Hour), 2)
	days := map[int64]int64{}
	for _, k := range stateOf(t, db, c.t).Contents {
		days[k.Size] = k.ReadDay
	}
	if want := map[int64]int64{1001: record.DayOf(c.t), 9: record.DayOf(c.t), 1002: record.DayOf(c.t) - 2}; !reflect.DeepEqual(days, want) {
		t.Errorf("days of the last reads: %v, want %v", days, want)
	}
	if _, err := db.Remove(ctx, one); err != nil {
		t.Fatal(err)
	}
	dropUntil(t, db, c.t)
	var n int
	if err := db.base.Points.Row(ctx, "SELECT count(*) FROM content_read", nil, &n); err != nil || n != 0 {
		t.Errorf("%d rows of reads are left of dropped contents, %v; want no error and 0", n, err)
	}
}

// TestTrashModel removes, restores, empties and drops at random, and compares what is
// visible and what is held with a model.
func TestTrashModel(t *testing.T) { onEngines(t, testTrashModel) }

func testTrashModel(t *testing.T) {
	symtest.Sequential(t)
	c := newClock()
	db := openTest(t, c.options())
	rnd := rand.New(rand.NewPCG(3, 4))
	type txm struct {
		number int64
		has    []int
		until  time.Time // in the trash; zero: live
	}
	var list []txm
	contents, steps := 12, 120
	if testing.Short() {
		steps = 40
	}
	for step := range steps {
		c.hours(1)
		pick := func(live bool) int {
			for _, i := range rnd.Perm(len(list)) {
				if list[i].until.IsZero() == live {
					return i
				}
			}
			return -1
		}
		switch k := rnd.IntN(12); {
		case k < 4:
			x := txm{}
			var entries []record.Entry
			for range 1 + rnd.IntN(4) {
				n := 1 + rnd.IntN(contents)
				x.has = append(x.has, n)
				entries = append(entries, pdb(n))
			}
			x.number = commitTest(t, db, "A", entries...)
			list = append(list, x)
		case k < 7:
			if i := pick(true); i >= 0 {
				list[i].until = c.t.Add(time.Duration(1+rnd.IntN(20)) * time.Hour)
				if _, err := db.Trash.Remove(t.Context(), removals.Removal{Number: list[i].number, Until: list[i].until}); err != nil {
					t.Fatal(err)
				}
			}
		case k < 9:
			i := pick(false)
			if i < 0 {
				break
			}
			_, err := db.Trash.Undo(t.Context(), list[i].number)
			var gone *removals.NotInTrashError
			switch {
			case list[i].until.After(c.t) && err != nil:
				t.Fatalf("step %d: undo of build %d: %v, want success", step, list[i].number, err)
			case !list[i].until.After(c.t) && !errors.As(err, &gone):
				t.Fatalf("step %d: undo of build %d after its trash: %v, want an error that says the trash has ended", step, list[i].number, err)
			case err == nil:
				list[i].until = time.Time{}
			default:
				list = slices.Delete(list, i, i+1)
			}
		case k < 10:
			if i := pick(false); i >= 0 && list[i].until.After(c.t) {
				if _, _, err := db.Trash.Purge(t.Context(), removals.Removal{Number: list[i].number}); err != nil {
					t.Fatal(err)
				}
				list = slices.Delete(list, i, i+1)
			}
		default:
			if _, err := db.Trash.Empty(t.Context(), c.t); err != nil {
				t.Fatal(err)
			}
			dropUntil(t, db, c.t)
		}
		for n := 1; n <= contents; n++ {
			var newest int64
			held := false
			for _, x := range list {
				if slices.Contains(x.has, n) {
					held = held || x.until.IsZero() || x.until.After(c.t)
					if x.until.IsZero() {
						newest = max(newest, x.number)
					}
				}
			}
			var got int64
			if hits := lookupEntry(t, db, all, pdb(n)); len(hits) == 1 {
				got = hits[0].Number
			}
			if got != newest {
				t.Fatalf("step %d: object %d is seen from build %d, want %d", step, n, got, newest)
			}
			if has, err := db.HasContent(t.Context(), ref(n)); err != nil || held && !has {
				t.Fatalf("step %d: content %d is held and was dropped, %v; want it kept", step, n, err)
			}
		}
		if step%10 == 0 {
			clean(t, db)
		}
	}
	clean(t, db)
}
