package depot

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/check"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/forms"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/depot/retention"
	"github.com/symdepot/symdepot/internal/depot/stage"
	"github.com/symdepot/symdepot/internal/index/pgtest"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// onRetained runs a test with a depot of each pair of engines, and a clock that the
// test moves.
func onRetained(t *testing.T, test func(t *testing.T, d *Depot, c *movable)) {
	t.Parallel()
	t.Run("disk", func(t *testing.T) {
		t.Parallel()
		c := &movable{}
		d, err := Open(t.Context(), filepath.Join(t.TempDir(), "depot"), Options{Now: c.now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		test(t, d, c)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		symtest.Sequential(t) // the goroutines are those of the depot on disk
		pgtest.Shared(t)
		c := &movable{}
		test(t, openServers(t, 1, Options{Now: c.now})[0], c)
	})
}

const day = 24 * time.Hour

// setPolicy sets a policy from the lines below its first key.
func setPolicy(t *testing.T, d *Depot, lines ...string) {
	t.Helper()
	text := "retention:\n  " + strings.Join(lines, "\n  ") + "\n"
	if _, err := d.Retention.SetPolicy(t.Context(), "policy", []byte(text), "anna", -1); err != nil {
		t.Fatal(err)
	}
}

func preview(t *testing.T, d *Depot) *lifecycle.Preview {
	t.Helper()
	p, err := d.Retention.Preview(t.Context(), "anna")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func numbersOf(p *lifecycle.Preview) (list []int64) {
	for v := range p.Removed() {
		list = append(list, v.Number)
	}
	return list
}

func applyPlan(t *testing.T, d *Depot, p *lifecycle.Preview) lifecycle.Applied {
	t.Helper()
	a, err := d.Retention.Apply(t.Context(), p.Ticket.Number, p.Builds(), "anna")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// pushBuild pushes files as one transaction.
func pushBuild(t *testing.T, d *Depot, l stage.Labels, files []file) int64 {
	t.Helper()
	c := pusher("ci")
	files = slices.Clone(files)
	for i := range files {
		files[i].path = fmt.Sprintf("%d/%s", i, files[i].path)
	}
	id := openStage(t, d, c, stage.Spec{Labels: l})
	putAll(t, d, c, id, announced(t, d, c, id, files))
	done, err := d.Stages().Commit(t.Context(), c, id, stage.Commit{Anew: true})
	if err != nil {
		t.Fatal(err)
	}
	return done.Transaction
}

// storedBytes returns the disk space of all stored contents, as the file system
// counts it.
func storedBytes(t *testing.T, d *Depot) (sum int64) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(d.dir, "blobs"), func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			sum += allocated(info)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// keptBytes is storedBytes or, of a depot with a bucket, the sum of the lengths of all
// contents: their objects are deleted days later.
func keptBytes(t *testing.T, d *Depot) (sum int64) {
	t.Helper()
	if !d.home.Placed {
		return storedBytes(t, d)
	}
	for c, err := range d.db.Contents(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		sum += c.Size
	}
	return sum
}

// within1 reports whether two numbers differ by at most 1 %.
func within1(a, b int64) bool { return math.Abs(float64(a-b)) <= float64(b)/100 }

// TestRetention pushes builds, and previews, applies and undoes a policy. A removed
// build is found again after undo, by lookups of the same process.
func TestRetention(t *testing.T) {
	symtest.Sequential(t)
	onRetained(t, func(t *testing.T, d *Depot, c *movable) {
		ctx := t.Context()
		if _, err := d.Retention.Preview(ctx, "anna"); !errors.Is(err, lifecycle.ErrNoPolicy) {
			t.Errorf("preview without a policy: %v, want the error %v", err, lifecycle.ErrNoPolicy)
		}
		var fault *retention.Fault
		if _, err := d.Retention.Try(ctx, "p", []byte("retention:\n  brake: 1\n")); !errors.As(err, &fault) || fault.Line != 2 {
			t.Errorf("a policy that is not valid: %v, want its fault in line 2", err)
		}
		var files [][]file
		var paths [][]string
		for v := range byte(4) {
			f, p := symbols(3, v)
			files, paths = append(files, f), append(paths, p)
			c.move(day)
			pushBuild(t, d, stage.Labels{Product: "G", Version: fmt.Sprint(v), Branch: "main", Class: "nightly"}, f)
		}
		c.move(10 * day)
		tried, err := d.Retention.Try(ctx, "p", []byte("retention: {classes: [{name: nightly, keep_last: 1}]}"))
		if err != nil || !slices.Equal(numbersOf(tried), []int64{1, 2, 3}) {
			t.Errorf("another policy would remove %v, %v; want 1, 2 and 3", numbersOf(tried), err)
		}
		if _, err := d.Retention.Planned(ctx, tried.Ticket.Number); !errors.Is(err, lifecycle.ErrNoPlan) {
			t.Errorf("the plan of a policy that was tried: %v, want none stored", err)
		}
		setPolicy(t, d, "classes: [{name: nightly, keep_last: 2}, {name: release}]", "trash: 7d", "brake: 50%")
		p := preview(t, d)
		if got := numbersOf(p); !slices.Equal(got, []int64{1, 2}) || len(p.Brake) != 0 || p.FreesNow.Stored != 0 || p.Frees.Stored == 0 {
			t.Fatalf("the plan removes %v, frees %+v, of it now %+v, and has the brake %+v; want 1 and 2 removed, bytes that come free later and no brake", got, p.Frees, p.FreesNow, p.Brake)
		}
		a := applyPlan(t, d, p)
		if a.Run.Removed != 2 || a.Skipped != 0 || a.Run.Until.Sub(a.Run.Begun) != 7*day {
			t.Errorf("run: %+v; want 2 removed, none skipped and a trash of 7 days", a)
		}
		wantVisible(t, d, files[0], paths[0], false)
		wantVisible(t, d, files[2], paths[2], true)
		if _, err := d.Retention.Apply(ctx, p.Ticket.Number, 2, "anna"); !errors.Is(err, retention.ErrStale) {
			t.Errorf("a plan is applied twice: %v, want the error %v", err, retention.ErrStale)
		}
		got, err := d.Retention.Collect(ctx, lifecycle.CollectOptions{})
		if err != nil || got.Contents != 0 || len(got.Trash) != 2 || got.TrashBytes == 0 {
			t.Errorf("gc during the trash: %+v, %v; want that 2 builds wait", got, err)
		}
		removed, err := d.Retention.Removed(ctx, answer.Scope{}, "app0.pdb", 10)
		if err != nil || len(removed) != 2 || removed[0].Removal.Class != "nightly" || removed[0].Removal.Who != "anna" {
			t.Errorf("removed files: %+v, %v; want two of class nightly, removed by anna", removed, err)
		}
		if _, err := d.Retention.Undo(ctx, 1, "anna"); err != nil {
			t.Fatal(err)
		}
		wantVisible(t, d, files[0], paths[0], true)
		wantClean(t, d)

		// A hold and a change of the policy make a plan stale; reads do not.
		p = preview(t, d)
		if err := d.Retention.Hold(ctx, lifecycle.Hold{Number: 1, Name: "GA", Who: "anna", Reason: "GA"}); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Retention.Apply(ctx, p.Ticket.Number, 0, "anna"); !errors.Is(err, retention.ErrStale) {
			t.Errorf("a plan that removes a held build: %v, want the error %v", err, retention.ErrStale)
		}
		var held *lifecycle.ErrHeld
		if _, err := d.Retention.Remove(ctx, 1, "eve"); !errors.As(err, &held) {
			t.Errorf("removal of a held build: %v, want one that names the hold", err)
		}
		if p := preview(t, d); p.Builds() != 0 || p.Count[retention.Held] != 1 {
			t.Errorf("a plan removes %d builds, and %d are held; want 0 and 1", p.Builds(), p.Count[retention.Held])
		}
		if _, err := d.Retention.Unhold(ctx, 1, ""); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Retention.Promote(ctx, 1, "relase", "anna", false); err == nil || !strings.Contains(err.Error(), "the nearest is release") {
			t.Errorf("promotion to an unknown class: %v", err)
		}
		_, _, err = d.Stages().Open(ctx, pusher("ci"), stage.Spec{Labels: stage.Labels{Product: "G", Class: "relase"}})
		wantRefusal(t, "push into an unknown class", err, stage.Invalid)
		if _, err := d.Retention.Promote(ctx, 1, "release", "anna", false); err != nil {
			t.Fatal(err)
		}
		if p := preview(t, d); p.Builds() != 0 || p.Count[retention.NoRule] != 1 {
			t.Errorf("a plan removes %d builds after the promotion, want 0", p.Builds())
		}
		c.move(8 * day) // the trash has ended
		var gone *lifecycle.NotInTrashError
		if _, err := d.Retention.Undo(ctx, 2, "anna"); !errors.As(err, &gone) {
			t.Errorf("undo after the trash: %v, want one that says so", err)
		}
		if got, err = d.Retention.Collect(ctx, lifecycle.CollectOptions{Grace: 100 * day}); err != nil || got.Contents != 3 || len(got.Trash) != 0 {
			t.Errorf("gc after the trash: %+v, %v; want 3 contents, whatever the grace", got, err)
		}
		wantClean(t, d)
	})
}

// TestFreesAsPreviewed: what apply and gc free is what the preview said, within 1 %,
// with contents shared between builds, held by the trash, and derived.
func TestFreesAsPreviewed(t *testing.T) {
	symtest.Sequential(t)
	t.Parallel()
	for _, trash := range []bool{false, true} {
		c := &movable{}
		d, err := Open(t.Context(), filepath.Join(t.TempDir(), "depot"), Options{Now: c.now, MakeCabinets: true})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = d.Close() }()
		shared, _ := symbols(20, 0)
		for v := range byte(10) {
			own, paths := symbols(8, v+1)
			for i := range own {
				own[i].body = append(own[i].body, bytes.Repeat([]byte("PUBLIC 1 0 f\n"), 2000*int(v+1))...)
			}
			c.move(day)
			pushBuild(t, d, stage.Labels{Product: "G", Version: fmt.Sprint(v), Branch: "main", Class: "nightly"}, append(own, shared[2*v:]...))
			f, _, err := get(t, d, answer.Scope{}, paths[0])
			if err != nil {
				t.Fatal(err)
			}
			if _, err := d.forms.Derive(t.Context(), forms.Form{Ref: f.Ref, Tool: forms.Codings["zstd"]}); err != nil {
				t.Fatal(err)
			}
		}
		c.move(10 * day)
		rules := []string{"classes: [{name: nightly, keep_last: 3}]", "brake: 100%"}
		if trash {
			rules = append(rules, "trash: 7d")
		} else {
			rules = append(rules, "trash: 0")
		}
		setPolicy(t, d, rules...)
		before := storedBytes(t, d)
		p := preview(t, d)
		if p.Builds() != 7 || p.Frees.DerivedStored == 0 || p.Shared() == 0 {
			t.Fatalf("the plan removes %d builds and frees %+v of %d listed bytes; want 7, with derived and shared bytes", p.Builds(), p.Frees, p.Listed)
		}
		if !trash && p.FreesNow != p.Frees || trash && p.FreesNow.Stored != 0 {
			t.Errorf("trash %t: %+v of %+v come free now; want all without a trash, none with one", trash, p.FreesNow, p.Frees)
		}
		applyPlan(t, d, p)
		if _, _, space, err := d.Retention.Trash(t.Context()); err != nil || trash && !within1(space, p.Frees.Stored) {
			t.Errorf("the trash holds %d bytes back, %v; want %d, as in the preview", space, err, p.Frees.Stored)
		}
		got, err := d.Retention.Collect(t.Context(), lifecycle.CollectOptions{EmptyTrash: trash})
		if err != nil {
			t.Fatal(err)
		}
		if freed := before - storedBytes(t, d); !within1(freed, p.Frees.Stored) {
			t.Errorf("trash %t: %d bytes came free on disk, want %d, as in the preview", trash, freed, p.Frees.Stored)
		}
		if !within1(got.Bytes, p.Frees.Size) || !within1(got.Frees, p.Frees.Stored) {
			t.Errorf("trash %t: gc reports %d bytes in %d, want %d in %d, as in the preview", trash, got.Bytes, got.Frees, p.Frees.Size, p.Frees.Stored)
		}
		wantClean(t, d)
	}
}

// TestCollectingIsKept: 200 files that are sent one by one are one transaction,
// which is young while it is open.
func TestCollectingIsKept(t *testing.T) {
	symtest.Sequential(t)
	t.Parallel()
	c := &movable{}
	d, err := Open(t.Context(), filepath.Join(t.TempDir(), "depot"), Options{Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	setPolicy(t, d, "classes: [{name: nightly, keep_last: 1}]", "min_age: 0s", "brake: 100%")
	files, paths := symbols(200, 1)
	spec := stage.Spec{Labels: stage.Labels{Product: "P", Version: "1", Class: "nightly"}, Collect: true}
	for i, f := range files {
		id := openStage(t, d, pusher("ci"), spec)
		if _, err := d.Stages().PutNew(t.Context(), pusher("ci"), id, f.path, time.Time{}, bytes.NewReader(f.body)); err != nil {
			t.Fatal(err)
		}
		if i%20 == 0 {
			if i == 100 { // another build is newer, and would be the last one
				other, _ := symbols(1, 9)
				c.move(time.Minute)
				pushBuild(t, d, stage.Labels{Product: "P", Version: "2", Class: "nightly"}, other)
			}
			p := preview(t, d)
			if p.Builds() != 0 {
				t.Fatalf("after file %d the policy removes %v, want nothing: the build is open", i, numbersOf(p))
			}
		}
	}
	wantVisible(t, d, files, paths, true)
	c.move(time.Hour)
	if err := d.Stages().Expire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p := preview(t, d); !slices.Equal(numbersOf(p), []int64{1}) {
		t.Errorf("the policy removes %v, want the build that is closed and not the last", numbersOf(p))
	}
}

// TestScheduledRun: a policy with a schedule is applied once a day; a plan above
// the brake and a clock that jumps are refused and recorded.
func TestScheduledRun(t *testing.T) {
	symtest.Sequential(t)
	onRetained(t, func(t *testing.T, d *Depot, c *movable) {
		ctx := t.Context()
		run := func() {
			t.Helper()
			for range 3 { // further ones do nothing
				if err := d.Retention.Scheduled(ctx); err != nil {
					t.Fatal(err)
				}
			}
		}
		outcomes := func() (list []string) {
			t.Helper()
			runs, err := d.Retention.Runs(ctx, 0, 10)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range slices.Backward(runs) {
				list = append(list, r.Outcome)
			}
			return list
		}
		for v := range byte(4) {
			f, _ := symbols(2, v)
			pushBuild(t, d, stage.Labels{Product: "G", Version: fmt.Sprint(v), Class: "nightly"}, f)
		}
		c.move(3 * day)
		run() // no policy
		at := d.now().Add(2 * time.Hour).UTC().Format("15:04")
		setPolicy(t, d, "classes: [{name: nightly, keep_last: 1}]", "brake: 50%", `schedule: "`+at+`"`)
		run()
		if got := outcomes(); len(got) > 0 {
			t.Fatalf("runs before the time: %q, want none", got)
		}
		c.move(day)
		run()
		if got := outcomes(); !slices.Equal(got, []string{"brake"}) {
			t.Fatalf("runs above the brake: %q, want that one was refused", got)
		}
		setPolicy(t, d, "classes: [{name: nightly, keep_last: 2}]", "brake: 50%", `schedule: "`+at+`"`)
		c.move(day)
		run()
		if got := outcomes(); !slices.Equal(got, []string{"brake", "done"}) {
			t.Fatalf("runs: %q, want that the second one was done", got)
		}
		if txs, err := d.List(ctx, answer.Scope{}, ListFilter{}); err != nil || len(txs) != 2 {
			t.Errorf("%d builds are left, %v; want 2", len(txs), err)
		}
		c.move(31 * day)
		run()
		if got := outcomes(); !slices.Equal(got, []string{"brake", "done", "clock"}) {
			t.Fatalf("runs after a jump of the clock: %q, want a brake, a run and a refusal", got)
		}
		c.move(day)
		run()
		if got := outcomes(); got[len(got)-1] != "clock" || len(got) != 4 {
			t.Fatalf("runs on the next day: %q, want that it is refused again", got)
		}
		applyPlan(t, d, preview(t, d)) // by hand
		c.move(day)
		run()
		if got := outcomes(); got[len(got)-1] != "done" {
			t.Fatalf("runs after a plan was applied by hand: %q, want done last", got)
		}
	})
}

// TestLastReads: a read keeps a build by keep_used, a read of a compressed variant
// too; only the first of a day is recorded.
func TestLastReads(t *testing.T) {
	symtest.Sequential(t)
	onRetained(t, func(t *testing.T, d *Depot, c *movable) {
		var files [][]file
		var paths [][]string
		for v := range byte(3) {
			f, p := symbols(2, v)
			files, paths = append(files, f), append(paths, p)
			pushBuild(t, d, stage.Labels{Product: "G", Version: fmt.Sprint(v), Class: "nightly"}, f)
		}
		setPolicy(t, d, "classes: [{name: nightly, keep_used: 30d}]", "brake: 100%")
		c.move(40 * day)
		f, _, err := get(t, d, answer.Scope{}, paths[1][0])
		if err != nil {
			t.Fatal(err)
		}
		reading := d.Reads().Of(f)
		for range 3 {
			d.Reads().Count(f, d.now())
			reading.Count(d.now())
		}
		if n := len(d.Reads().pending); n != 1 {
			t.Errorf("%d reads are to be recorded, want 1", n)
		}
		if err := d.Reads().store(t.Context()); err != nil {
			t.Fatal(err)
		}
		p := preview(t, d)
		if got := numbersOf(p); !slices.Equal(got, []int64{1, 3}) || p.Why(2).Reason != retention.Used {
			t.Errorf("the policy removes %v, and keeps build 2 because of %s; want 1 and 3, and a read", got, p.Why(2).Reason)
		}
		d.Reads().Count(f, d.now().Add(day))
		if n := len(d.Reads().pending); n != 1 {
			t.Errorf("%d reads of the next day are to be recorded, want 1", n)
		}
		_ = files
	})
}

// TestPurgeFrees: a purge frees at once what nothing else needs, and says what others
// need; a pushed file is not told as known afterwards.
func TestPurgeFrees(t *testing.T) {
	symtest.Sequential(t)
	onRetained(t, func(t *testing.T, d *Depot, c *movable) {
		setPolicy(t, d, "trash: 7d")
		own, paths := symbols(3, 1)
		shared, sharedPaths := symbols(2, 2)
		one := pushBuild(t, d, stage.Labels{Product: "G", Version: "1"}, append(own, shared...))
		two := pushBuild(t, d, stage.Labels{Product: "G", Version: "2"}, shared)
		if _, err := d.Retention.Remove(t.Context(), one, "anna"); err != nil {
			t.Fatal(err)
		}
		p, err := d.Retention.Purge(t.Context(), one, "eve", "a leak")
		if err != nil || p.Contents != 3 || !slices.Equal(p.Removal.Holders, []int64{two}) || p.Removal.Shared == 0 {
			t.Fatalf("purge: %+v with %+v, %v; want 3 contents, and that build %d needs others", p, p.Removal, err, two)
		}
		wantVisible(t, d, own, paths, false)
		wantVisible(t, d, shared, sharedPaths, true)
		for _, f := range own {
			if has, err := d.db.HasContent(t.Context(), blob.Sum(f.body)); err != nil || has {
				t.Errorf("%s: the content exists after the purge: %t, %v; want it freed", f.path, has, err)
			}
			if !d.home.Placed {
				if _, err := d.blobs.Stat(t.Context(), blob.Sum(f.body)); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s: its bytes exist after the purge: %v, want the error %v", f.path, err, fs.ErrNotExist)
				}
			}
		}
		wantClean(t, d)
	})
}

// TestRemoveCollecting: a transaction that is still collecting is removed with all that
// its stage knows, and a purge frees its bytes at once, whatever unfinished pushes rely
// on. Further files are another transaction, the same again are asked for.
func TestRemoveCollecting(t *testing.T) {
	symtest.Sequential(t)
	for _, purge := range []bool{false, true} {
		t.Run(fmt.Sprintf("purge %t", purge), func(t *testing.T) {
			onRetained(t, func(t *testing.T, d *Depot, c *movable) {
				who := pusher("ci")
				files, paths := symbols(3, 1)
				size := int64(len(files[0].body) + len(files[1].body))
				id := openStage(t, d, who, stage.Spec{Labels: stage.Labels{Product: "P", Version: "1"}, Collect: true})
				put := func(f file) int64 {
					t.Helper()
					a, err := d.Stages().PutNew(t.Context(), who, id, f.path, time.Time{}, bytes.NewReader(f.body))
					if err != nil {
						t.Fatal(err)
					}
					return a.Transaction
				}
				one := put(files[0])
				put(files[1])
				other := openStage(t, d, who, stage.Spec{Labels: stage.Labels{Product: "Q"}})
				announced(t, d, who, other, files[:1]) // it relies on the file
				var err error
				if purge {
					var p lifecycle.Purged
					p, err = d.Retention.Purge(t.Context(), one, "eve", "a leak")
					if err == nil && (p.Contents != 2 || p.Removal.Frees.Size != size || p.Removal.Shared != 0 || p.Removal.Pinned || !p.Removal.Open) {
						t.Errorf("purge: %d contents, %+v; want 2 contents of %d bytes that nothing needs", p.Contents, p.Removal, size)
					}
				} else {
					_, err = d.Retention.Remove(t.Context(), one, "eve")
				}
				if err != nil {
					t.Fatal(err)
				}
				if tx, err := d.db.Show(t.Context(), one, nil); err != nil || tx.Collecting {
					t.Errorf("the removed build: %+v, %v; want that it gets no further files", tx, err)
				}
				if two := put(files[2]); two == one {
					t.Errorf("the next file is in build %d, want another one", two)
				}
				c.move(2 * time.Minute)
				if err := d.Stages().Audit(t.Context(), func(text string) { t.Errorf("verify: %s; want no fault", text) }); err != nil {
					t.Fatal(err)
				}
				if send := announced(t, d, who, id, files[:1]); purge && len(send) != 1 {
					t.Errorf("of a purged file that comes again %d contents are to be sent, want 1", len(send))
				}
				put(files[0])
				wantVisible(t, d, files[:1], paths[:1], true)
				wantVisible(t, d, files[1:2], paths[1:2], false)
				wantClean(t, d)
			})
		})
	}
}

// TestUsage: own and shared bytes add up.
func TestUsage(t *testing.T) {
	t.Parallel()
	d, _ := newDepot(t)
	a, _ := symbols(3, 1)
	b, _ := symbols(2, 2)
	pushBuild(t, d, stage.Labels{Product: "A", Version: "1", Class: "nightly"}, append(a, b...))
	pushBuild(t, d, stage.Labels{Product: "A", Version: "2", Class: "release"}, a)
	pushBuild(t, d, stage.Labels{Product: "B", Version: "1", Class: "nightly"}, b[:1])
	u, err := d.Retention.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const block = 4096
	want := []lifecycle.Share{{Product: "A", Transactions: 2, Own: 4 * block, Shared: block}, {Product: "B", Transactions: 1, Shared: block}}
	if !slices.Equal(u.Products, want) || u.Live != 5*block || u.Garbage != 0 || u.Plan != nil {
		t.Errorf("usage: %+v, live %d, garbage %d; want %+v", u.Products, u.Live, u.Garbage, want)
	}
	want = []lifecycle.Share{{Class: "nightly", Transactions: 2, Own: 2 * block, Shared: 3 * block}, {Class: "release", Transactions: 1, Shared: 3 * block}}
	if !slices.Equal(u.Classes, want) {
		t.Errorf("usage by class: %+v, want %+v", u.Classes, want)
	}
	if len(u.Versions) != 3 || len(u.Kinds) != 1 || u.Kinds[0].Own != 5*block {
		t.Errorf("usage by version: %+v, by kind %+v; want three versions and one kind with 5 blocks of its own", u.Versions, u.Kinds)
	}
}

// TestYearOfNightlies simulates a year of pushes, each of which shares 90 % of its
// files with the one before, with the policy and gc: the bytes on disk are those
// that were predicted, and held builds stay whole.
func TestYearOfNightlies(t *testing.T) {
	symtest.Sequential(t)
	t.Parallel()
	builds, size := 60, 50
	if os.Getenv("SYMDEPOT_TORTURE") != "" {
		builds, size = 365, 200
	} else if testing.Short() {
		builds, size = 25, 20
	}
	c := &movable{}
	d, err := Open(t.Context(), filepath.Join(t.TempDir(), "depot"), Options{Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	yearOfNightlies(t, d, c, builds, size)
}

// TestYearOfNightliesPostgres is TestYearOfNightlies with PostgreSQL and a bucket. In the
// end the bucket has the objects of the contents only.
func TestYearOfNightliesPostgres(t *testing.T) {
	t.Parallel()
	if os.Getenv("SYMDEPOT_TORTURE") == "" {
		t.Skip("pushes a year of builds into a bucket: runs with make torture (SYMDEPOT_TORTURE=1)")
	}
	pgtest.Shared(t)
	c := &movable{}
	d := openServers(t, 1, Options{Now: c.now})[0]
	yearOfNightlies(t, d, c, 365, 200)
	c.move(9 * day)
	for range 2 { // the objects were marked before, and are deleted days later
		if _, err := d.Retention.Collect(t.Context(), lifecycle.CollectOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	v, err := d.Check.Run(t.Context(), check.Options{Rows: true, Deep: true}, func(f content.Fault) { t.Errorf("verify: %s, want no fault", f.What) }, nil)
	if err != nil || v.Objects != v.Contents || v.Unknown != 0 {
		t.Errorf("%d objects for %d contents, %d of them unknown, %v; want one for each content", v.Objects, v.Contents, v.Unknown, err)
	}
}

// yearOfNightlies pushes builds of some size, one a day, with the policy and gc.
func yearOfNightlies(t *testing.T, d *Depot, c *movable, builds, size int) {
	t.Helper()
	setPolicy(t, d, `classes: [{name: release, match: {branch: "release/*"}}, {name: nightly, keep_last: 7, keep_within: 14d}]`, "default: nightly", "trash: 3d", "brake: 50%")
	begin := time.Now()
	files, paths := symbols(size, 0)
	held := map[int64][2]any{}
	var predicted, freed int64
	for n := range builds {
		c.move(day)
		for i := range size / 10 {
			at := (n*size/10 + i) % size
			f, p := symbols(at+1, 1+n) // no id is used twice
			files[at], paths[at] = f[at], p[at]
			files[at].body = fmt.Appendf(files[at].body, "PUBLIC 2 0 build_%d\n", n)
		}
		l := stage.Labels{Product: "Game", Version: fmt.Sprint(n), Branch: "main"}
		if n%50 == 10 {
			l.Branch = fmt.Sprintf("release/%d", n)
		}
		number := pushBuild(t, d, l, files)
		switch {
		case n%20 == 5:
			if err := d.Retention.Hold(t.Context(), lifecycle.Hold{Number: number, Name: "crash", Reason: "crash"}); err != nil {
				t.Fatal(err)
			}
			fallthrough
		case n%50 == 10:
			held[number] = [2]any{slices.Clone(files), slices.Clone(paths)}
		}
		p := preview(t, d)
		predicted += p.Frees.Stored
		if p.Builds() > 0 {
			applyPlan(t, d, p)
		}
		if n%7 == 0 || n == builds-1 {
			before := keptBytes(t, d)
			if _, err := d.Retention.Collect(t.Context(), lifecycle.CollectOptions{EmptyTrash: n == builds-1}); err != nil {
				t.Fatal(err)
			}
			freed += before - keptBytes(t, d)
		}
	}
	if !within1(freed, predicted) || freed == 0 {
		t.Errorf("%d bytes came free, want the %d that were predicted", freed, predicted)
	}
	u, err := d.Retention.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if on := keptBytes(t, d); !within1(on, u.Live) {
		t.Errorf("%d bytes are kept, want the %d of live builds", on, u.Live)
	}
	for _, b := range held {
		wantVisible(t, d, b[0].([]file), b[1].([]string), true)
	}
	faults := 0
	if _, err := d.Check.Verify(t.Context(), func(f content.Fault) { faults++; t.Errorf("verify: %s, want no fault", f.What) }, nil); err != nil {
		t.Error(err)
	}
	t.Logf("%d builds of %d files in %.1f s: %d bytes freed, %d predicted, %d faults", builds, size, time.Since(begin).Seconds(), freed, predicted, faults)
}
