package depot

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/depot/retention"
	"github.com/symdepot/symdepot/internal/depot/stage"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// planRounds is how often a race is tried; many rounds find what depends on timing.
const planRounds = 12

// twice calls f in two goroutines, and meanwhile in the one of the test.
func twice(f func(n int), meanwhile func()) {
	var both sync.WaitGroup
	for n := range 2 {
		both.Go(func() { f(n) })
	}
	meanwhile()
	both.Wait()
}

// pushMissing pushes files as one transaction, as a client does: what is gone when the push
// is committed, because a garbage collection freed it after the question, is sent then.
func pushMissing(t *testing.T, d *Depot, l stage.Labels, files []file) {
	t.Helper()
	c := pusher("ci")
	id := openStage(t, d, c, stage.Spec{Labels: l})
	send := announced(t, d, c, id, files)
	for range 4 {
		putAll(t, d, c, id, send)
		_, err := d.Stages().Commit(t.Context(), c, id, stage.Commit{Anew: true})
		if err == nil {
			return
		}
		refusal, ok := errors.AsType[*stage.Refusal](err)
		if !ok || len(refusal.Missing) == 0 {
			t.Fatalf("commit of a push during a garbage collection: %v", err)
		}
		send = nil
		for _, f := range files {
			if slices.Contains(refusal.Missing, blob.Sum(f.body)) {
				send = append(send, f)
			}
		}
	}
	t.Fatal("a push during a garbage collection was not committed after four attempts")
}

// TestCollectionPlanRace: a plan of a garbage collection is applied twice at once while the
// contents that it frees are pushed again. What a push reports as kept is there afterwards,
// and no byte is freed twice.
func TestCollectionPlanRace(t *testing.T) {
	symtest.Sequential(t)
	onRetained(t, func(t *testing.T, d *Depot, c *movable) {
		ctx := t.Context()
		setPolicy(t, d, "trash: 7d")
		applied := 0
		for v := range planRounds {
			files, paths := symbols(3, v)
			number := pushBuild(t, d, stage.Labels{Product: "G", Version: fmt.Sprint(v)}, files)
			if _, err := d.Retention.Remove(ctx, number, "anna"); err != nil {
				t.Fatal(err)
			}
			c.move(8 * day)
			p := planCollect(t, d, lifecycle.CollectOptions{Grace: time.Hour})
			if p.Contents != 3 {
				t.Fatalf("round %d: the plan frees %d contents, want 3", v, p.Contents)
			}
			// In some rounds the push has been answered before the plan is applied: then nothing of it
			// may go.
			again := func() { pushMissing(t, d, stage.Labels{Product: "G", Version: fmt.Sprint(v, " again")}, files) }
			if v%3 == 0 {
				again()
				again = func() {}
			}
			var got [2]lifecycle.Collected
			var errs [2]error
			twice(func(n int) { got[n], errs[n] = d.Retention.ApplyCollection(ctx, p.Number) }, again)
			for n, err := range errs {
				if err != nil && !errors.Is(err, retention.ErrStale) {
					t.Errorf("round %d: %v, want success or %v", v, err, retention.ErrStale)
				}
				if err == nil {
					applied++
				}
				if v%3 == 0 && (err == nil && got[n].Contents > 0) {
					t.Errorf("round %d: %d contents were freed that had been pushed again before, want none", v, got[n].Contents)
				}
			}
			if sum := got[0].Frees + got[1].Frees; sum > p.Frees || got[0].Contents+got[1].Contents > p.Contents {
				t.Errorf("round %d: %d bytes of %d contents were freed, want %d of %d at most", v, sum, got[0].Contents+got[1].Contents, p.Frees, p.Contents)
			}
			wantVisible(t, d, files, paths, true)
		}
		wantClean(t, d)
		t.Logf("%d of %d attempts were applied", applied, 2*planRounds)
	})
}

// TestPolicyPlanRace: a plan of the policy is applied twice at once while builds are pushed.
// It removes what it said, once, and nothing that was pushed meanwhile.
func TestPolicyPlanRace(t *testing.T) {
	symtest.Sequential(t)
	onRetained(t, func(t *testing.T, d *Depot, c *movable) {
		ctx := t.Context()
		setPolicy(t, d, "classes: [{name: nightly, keep_last: 2}, {name: release}]", "trash: 7d")
		build := func(v int) ([]file, []string, int64) {
			files, paths := symbols(2, v)
			return files, paths, pushBuild(t, d, stage.Labels{Product: "G", Version: fmt.Sprint(v), Branch: "main", Class: "nightly"}, files)
		}
		next := 0
		for range planRounds {
			for range 4 {
				c.move(time.Hour)
				build(next)
				next++
			}
			c.move(10 * day)
			p := preview(t, d)
			planned := numbersOf(p)
			if len(planned) == 0 {
				t.Fatalf("the plan removes nothing, want the builds above two")
			}
			var got [2]lifecycle.Applied
			var errs [2]error
			var files []file
			var paths []string
			var young int64
			twice(func(n int) { got[n], errs[n] = d.Retention.Apply(ctx, p.Ticket.Number, p.Builds(), "anna") }, func() { files, paths, young = build(next) })
			next++
			var removed int64
			for n, err := range errs {
				if err != nil && !errors.Is(err, retention.ErrStale) && !errors.Is(err, lifecycle.ErrNoPlan) {
					t.Errorf("apply: %v, want success, %v or %v", err, retention.ErrStale, lifecycle.ErrNoPlan)
				}
				removed += got[n].Run.Removed
			}
			if removed != 0 && removed != int64(len(planned)) {
				t.Errorf("%d builds were removed together, want 0 or the %d of the plan", removed, len(planned))
			}
			if slices.Contains(planned, young) {
				t.Fatalf("the plan names the build %d, which was pushed later", young)
			}
			wantVisible(t, d, files, paths, true)
		}
		wantClean(t, d)
	})
}
