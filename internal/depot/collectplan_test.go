package depot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/depot/retention"
	"github.com/symdepot/symdepot/internal/depot/stage"
	"github.com/symdepot/symdepot/internal/index/removals"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// planCollect makes a plan of a garbage collection.
func planCollect(t *testing.T, d *Depot, opt lifecycle.CollectOptions) lifecycle.CollectionPlan {
	t.Helper()
	p, err := d.Retention.PlanCollection(t.Context(), opt, "anna")
	if err != nil || p.Unstored != nil || len(p.Number) != 8 {
		t.Fatalf("plan %q of a garbage collection: error %v, unstored %v; want a number of 8 digits", p.Number, err, p.Unstored)
	}
	return p
}

// TestCollectionPlan: a garbage collection is applied as its dry run was printed, or
// not at all; what loses its transaction afterwards is not part of it.
func TestCollectionPlan(t *testing.T) {
	onRetained(t, func(t *testing.T, d *Depot, c *movable) {
		ctx := t.Context()
		setPolicy(t, d, "trash: 7d")
		var files [][]file
		var paths [][]string
		for v := range byte(4) {
			f, p := symbols(2, v)
			files, paths = append(files, f), append(paths, p)
			pushBuild(t, d, stage.Labels{Product: "G", Version: fmt.Sprint(v)}, f)
		}
		remove := func(number int64) {
			t.Helper()
			if _, err := d.Retention.Remove(ctx, number, "anna"); err != nil {
				t.Fatal(err)
			}
		}
		remove(1)
		p := planCollect(t, d, lifecycle.CollectOptions{Grace: time.Hour})
		if p.Contents != 0 || len(p.Trash) != 1 {
			t.Errorf("plan during the trash: %+v, want no content and 1 build in the trash", p.Collected)
		}
		c.move(8 * day) // the trash of 1 has ended; its grace would not have
		opt := lifecycle.CollectOptions{Grace: 30 * day}
		p = planCollect(t, d, opt)
		if p.Contents != 2 || p.Frees == 0 {
			t.Fatalf("plan after the trash: %+v, want 2 contents whatever the grace", p.Collected)
		}
		if shown, err := d.Retention.PlannedCollection(ctx, p.Number); err != nil || shown.Contents != 2 || !shown.Ends.Equal(p.Ends) {
			t.Errorf("the stored plan: %+v, %v; want %+v", shown, err, p)
		}
		// Another removal changes nothing of the plan, and the trash keeps its contents.
		c.move(time.Minute)
		remove(2)
		got, err := d.Retention.ApplyCollection(ctx, p.Number)
		if err != nil || got.Contents != 2 || got.Frees != p.Frees {
			t.Fatalf("applied: %+v, %v; want the 2 contents and %d bytes of the plan", got, err, p.Frees)
		}
		wantVisible(t, d, files[2], paths[2], true)
		if _, err := d.Retention.Undo(ctx, 2, "anna"); err != nil {
			t.Errorf("undo of a build that was removed after the plan: %v", err)
		}
		wantClean(t, d)
		if _, err := d.Retention.ApplyCollection(ctx, p.Number); !errors.Is(err, retention.ErrStale) {
			t.Errorf("a plan is applied twice: %v, want %v", err, retention.ErrStale)
		}

		// An emptied trash: a transaction that comes back makes the plan stale.
		remove(3)
		remove(4)
		opt.EmptyTrash = true
		p = planCollect(t, d, opt)
		if p.Contents != 4 {
			t.Fatalf("plan with an emptied trash: %+v, want 4 contents", p.Collected)
		}
		if _, err := d.Retention.Undo(ctx, 3, "anna"); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Retention.ApplyCollection(ctx, p.Number); !errors.Is(err, retention.ErrStale) {
			t.Errorf("a plan that frees a restored build: %v, want %v", err, retention.ErrStale)
		}
		wantVisible(t, d, files[2], paths[2], true)
		p = planCollect(t, d, opt)
		remove(3) // not part of the plan
		if got, err = d.Retention.ApplyCollection(ctx, p.Number); err != nil || got.Contents != 2 {
			t.Fatalf("applied with an emptied trash: %+v, %v; want 2 contents", got, err)
		}
		if _, err := d.Retention.Undo(ctx, 3, "anna"); err != nil {
			t.Errorf("undo of a build that is not part of the applied plan: %v", err)
		}
		wantVisible(t, d, files[2], paths[2], true)
		wantClean(t, d)

		// Each kind of plan has its own command.
		policy := preview(t, d)
		if _, err := d.Retention.ApplyCollection(ctx, policy.Ticket.Number); !errors.Is(err, lifecycle.ErrNoPlan) || !strings.Contains(err.Error(), "policy apply") {
			t.Errorf("a plan of the policy is collected: %v, want the command policy apply", err)
		}
		p = planCollect(t, d, opt)
		if _, err := d.Retention.Apply(ctx, p.Number, 0, "anna"); !errors.Is(err, lifecycle.ErrNoPlan) || !strings.Contains(err.Error(), "gc --plan") {
			t.Errorf("a plan of a collection is applied as a policy: %v, want the command gc --plan", err)
		}
		if _, err := d.Retention.ApplyCollection(ctx, "00000000"); !errors.Is(err, lifecycle.ErrNoPlan) {
			t.Errorf("an unknown plan: %v, want %v", err, lifecycle.ErrNoPlan)
		}
		if kind, err := d.Retention.KindOfPlan(ctx, p.Number); err != nil || kind != lifecycle.PlanOfCollection {
			t.Errorf("kind of plan %s: %d, %v; want %d", p.Number, kind, err, lifecycle.PlanOfCollection)
		}
		c.move(8 * day)
		if _, err := d.Retention.ApplyCollection(ctx, p.Number); !errors.Is(err, lifecycle.ErrNoPlan) {
			t.Errorf("a plan that has ended: %v, want %v", err, lifecycle.ErrNoPlan)
		}
	})
}

// TestCollectionPlanOfStrays: blobs without a row are part of a plan; one that is
// added to a transaction makes it stale.
func TestCollectionPlanOfStrays(t *testing.T) {
	t.Parallel()
	d, _ := newDepot(t)
	ctx := t.Context()
	var refs []blob.Ref
	for _, text := range []string{"one", "two"} {
		ref := blob.Sum([]byte(text))
		if err := d.blobs.Put(ctx, ref, int64(len(text)), strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
		refs = append(refs, ref)
	}
	opt := lifecycle.CollectOptions{Grace: -24 * 365 * 100 * time.Hour}
	p := planCollect(t, d, opt)
	if p.Strays != 2 || p.Frees == 0 {
		t.Fatalf("plan: %+v, want 2 blobs", p.Collected)
	}
	if err := d.blobs.Delete(ctx, refs[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Retention.ApplyCollection(ctx, p.Number); !errors.Is(err, retention.ErrStale) {
		t.Errorf("a plan with a blob that was deleted: %v, want %v", err, retention.ErrStale)
	}
	p = planCollect(t, d, opt)
	if got, err := d.Retention.ApplyCollection(ctx, p.Number); err != nil || got.Strays != 1 || got.Frees != p.Frees {
		t.Errorf("applied: %+v, %v; want 1 blob and %d bytes", got, err, p.Frees)
	}
	if _, err := d.blobs.Stat(ctx, refs[1]); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the freed blob: %v, want %v", err, fs.ErrNotExist)
	}
}

// TestUsageOverTime: the usage of each day is recorded once a day and after a
// collection, by product and of the whole depot.
func TestUsageOverTime(t *testing.T) {
	onRetained(t, func(t *testing.T, d *Depot, c *movable) {
		ctx := t.Context()
		start := d.now().UTC().Truncate(24 * time.Hour)
		c.move(time.Hour - d.now().UTC().Sub(start) + day) // 01:00 of the next day
		first := d.now().UTC().Truncate(24 * time.Hour)
		a, _ := symbols(3, 1)
		b, _ := symbols(2, 2)
		one := pushBuild(t, d, stage.Labels{Product: "A", Version: "1"}, append(slices.Clone(a), b...))
		pushBuild(t, d, stage.Labels{Product: "B", Version: "1"}, b)
		read := func(f lifecycle.UsageFilter) []lifecycle.UsageDay {
			t.Helper()
			f.From, f.To = first, first.Add(10*day)
			list, err := d.Retention.UsageOverTime(ctx, f)
			if err != nil {
				t.Fatal(err)
			}
			return list
		}
		var added int64
		for _, f := range append(slices.Clone(a), b...) {
			added += int64(len(f.body))
		}
		if err := d.Retention.RecordDay(ctx, d.now()); err != nil {
			t.Fatal(err)
		}
		block := d.home.Block
		if block < 4096 {
			block = 0 // in a bucket: lengths
		}
		check := func(what string, u lifecycle.UsageDay, want lifecycle.UsageDay) {
			t.Helper()
			if block == 0 {
				want.Bytes, want.Own, want.Garbage = u.Bytes, u.Own, u.Garbage
			}
			if u != want {
				t.Errorf("%s: %+v, want %+v", what, u, want)
			}
		}
		list := read(lifecycle.UsageFilter{})
		if len(list) != 2 {
			t.Fatalf("usage by product: %+v, want A and B", list)
		}
		check("A on the first day", list[0], lifecycle.UsageDay{Day: first, Product: "A", Transactions: 1, Files: 5, Bytes: 5 * block, Own: 3 * block, Added: added})
		// A second look on the same day records nothing; the next day does.
		pushBuild(t, d, stage.Labels{Product: "B", Version: "2"}, b)
		if err := d.Retention.RecordDay(ctx, d.now()); err != nil {
			t.Fatal(err)
		}
		name := "B"
		if list = read(lifecycle.UsageFilter{Product: &name}); len(list) != 1 || list[0].Transactions != 1 || list[0].Own != 0 {
			t.Errorf("usage of B after a second look on the day: %+v, want 1 build", list)
		}
		c.move(day)
		setPolicy(t, d, "trash: 0")
		if _, err := d.Retention.Remove(ctx, one, "anna"); err != nil {
			t.Fatal(err)
		}
		if err := d.Retention.RecordDay(ctx, d.now()); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Retention.Collect(ctx, lifecycle.CollectOptions{Grace: time.Hour}); err != nil {
			t.Fatal(err)
		}
		list = read(lifecycle.UsageFilter{All: true})
		if len(list) != 2 {
			t.Fatalf("usage of the depot: %+v, want 2 days", list)
		}
		var bytesOfB int64
		for _, f := range b {
			bytesOfB += int64(len(f.body))
		}
		check("the depot on the first day", list[0], lifecycle.UsageDay{Day: first, All: true, Transactions: 2, Files: 7, Bytes: 5 * block, Own: 5 * block, Added: added + 2*bytesOfB})
		check("the depot on the second day", list[1], lifecycle.UsageDay{Day: first.Add(day), All: true, Transactions: 2, Files: 4, Bytes: 2 * block, Own: 2 * block, Garbage: 3 * block, Removed: added})
		c.move(lifecycle.UsageLife)
		if err := d.Retention.RecordUsage(ctx); err != nil {
			t.Fatal(err)
		}
		if list = read(lifecycle.UsageFilter{All: true}); len(list) != 1 || !list[0].Day.Equal(first.Add(day)) {
			t.Errorf("usage after %s: %+v, want that the first day is forgotten", lifecycle.UsageLife, list)
		}
	})
}

// TestComment: the comment of a transaction is replaced.
func TestComment(t *testing.T) {
	onRetained(t, func(t *testing.T, d *Depot, _ *movable) {
		f, _ := symbols(1, 1)
		one := pushBuild(t, d, stage.Labels{Product: "G", Version: "1", Comment: "first"}, f)
		p := planCollect(t, d, lifecycle.CollectOptions{})
		if tx, err := d.Retention.SetComment(t.Context(), one, "shipped\x00 \xff"); err != nil || tx.Number != one {
			t.Fatalf("comment: %+v, %v; want build %d", tx, err, one)
		}
		if tx, err := d.Transaction(t.Context(), one); err != nil || tx.Comment != "shipped \uFFFD" {
			t.Errorf("the comment is %q, %v; want the new one", tx.Comment, err)
		}
		if _, err := d.Retention.ApplyCollection(t.Context(), p.Number); err != nil {
			t.Errorf("a plan after a comment was changed: %v, want no error", err)
		}
		if _, err := d.Retention.SetComment(t.Context(), 99, "x"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("comment of an unknown build: %v, want %v", err, fs.ErrNotExist)
		}
	})
}

// TestUnfinishedApplication: an application that is interrupted says what remains, and
// so does the next preview; the same number goes on.
func TestUnfinishedApplication(t *testing.T) {
	t.Parallel()
	d, c := openMovable(t)
	for v := range byte(4) {
		f, _ := symbols(2, v)
		c.move(day)
		pushBuild(t, d, stage.Labels{Product: "G", Version: fmt.Sprint(v), Class: "nightly"}, f)
	}
	c.move(10 * day)
	setPolicy(t, d, "classes: [{name: nightly, keep_last: 1}]", "brake: 100%")
	p := preview(t, d)
	s, generation, err := d.Retention.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	policy, err := d.Retention.Policy(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	plan, err := policy.Policy.Plan(s, p.Now)
	if err != nil {
		t.Fatal(err)
	}
	// As if 1 of the 3 transactions had been removed before the interruption.
	run, err := d.db.Retention.Begin(t.Context(), generation, true, d.now(), func(*removals.RetainedState) (removals.Decision, error) {
		x, err := d.Retention.Decision(plan, policy, "apply", "anna")
		x.Removals = x.Removals[:1]
		return x, err
	})
	if err != nil || run.Removed != 1 {
		t.Fatalf("run: %+v, %v; want 1 removed build", run, err)
	}
	run.Outcome = removals.RunUnfinished
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = d.Retention.Finish(ctx, lifecycle.Applied{Run: run})
	var unfinished *lifecycle.UnfinishedError
	if !errors.As(err, &unfinished) || !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "1 of 3 builds were removed; symdepot policy apply "+p.Ticket.Number) {
		t.Errorf("interrupted application: %v, want that 1 of 3 builds was removed, and the command that goes on", err)
	}
}

// openMovable opens a depot with a clock that the test moves.
func openMovable(t *testing.T) (*Depot, *movable) {
	t.Helper()
	c := &movable{}
	d, err := Open(t.Context(), filepath.Join(t.TempDir(), "depot"), Options{Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d, c
}
