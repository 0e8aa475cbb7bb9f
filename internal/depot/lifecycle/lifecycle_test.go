package lifecycle_test

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/home/hometest"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/depot/retention"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// world is a depot with three builds of a product; the first two share a file.
type world struct {
	*hometest.Home
	*lifecycle.Retention
	shared  []byte
	own     [3][]byte
	numbers [3]int64
}

const day = 24 * time.Hour

// newWorld makes a depot with a policy, if one is given: lines below the key retention. The
// builds are a day old.
func newWorld(t *testing.T, policy ...string) *world {
	t.Helper()
	r := hometest.Open(t, filepath.Join(t.TempDir(), "depot"))
	w := &world{Home: r, shared: hometest.Sym("shared", 100, 3000)}
	w.Retention = lifecycle.NewRetention(lifecycle.Home{
		DB: r.DB, Blobs: r.Blobs, Block: 1, Cold: r.Cold, Audit: func(context.Context) error { return errors.New("this is no bucket") },
	}, r.Log, r.Now)
	if len(policy) > 0 {
		w.setPolicy(t, policy...)
	}
	for i := range w.own {
		w.own[i] = hometest.Sym("app", i, 1000*(i+1))
		files := [][]byte{w.own[i]}
		if i < 2 {
			files = append(files, w.shared)
		}
		w.numbers[i] = r.Add(t, "app", "1", files...)
		r.Later(time.Minute)
	}
	r.Later(day)
	return w
}

func (w *world) setPolicy(t *testing.T, lines ...string) {
	t.Helper()
	text := "retention:\n  " + strings.Join(lines, "\n  ") + "\n"
	if _, err := w.SetPolicy(t.Context(), "policy", []byte(text), "anna", -1); err != nil {
		t.Fatal(err)
	}
}

// has fails unless the index lists a content and its bytes are stored, or neither.
func (w *world) has(t *testing.T, when string, body []byte, want bool) {
	t.Helper()
	known, err := w.DB.HasContent(t.Context(), blob.Sum(body))
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Blobs.Stat(t.Context(), blob.Sum(body))
	if stored := err == nil; known != want || stored != want {
		t.Errorf("%s: the content is listed: %v, and stored: %v; want both %v", when, known, stored, want)
	}
}

func (w *world) remove(t *testing.T, number int64) {
	t.Helper()
	if tx, err := w.Remove(t.Context(), number, "anna"); err != nil || tx.Number != number || tx.Removed.IsZero() {
		t.Fatalf("remove: %+v, %v; want the removed build %d", tx, err, number)
	}
}

// TestRemove refuses what is not there, and what is held.
func TestRemove(t *testing.T) {
	w := newWorld(t)
	if err := w.Hold(t.Context(), lifecycle.Hold{Number: w.numbers[1], Name: "release", Who: "bob"}); err != nil {
		t.Fatal(err)
	}
	w.remove(t, w.numbers[0])
	for name, c := range map[string]struct {
		number int64
		is     func(error) bool
	}{
		"unknown": {99, func(err error) bool { return errors.Is(err, fs.ErrNotExist) }},
		"removed": {w.numbers[0], func(err error) bool { return errors.Is(err, fs.ErrNotExist) }},
		"held": {w.numbers[1], func(err error) bool {
			held, ok := errors.AsType[*lifecycle.ErrHeld](err)
			return ok && held.Number == w.numbers[1] && strings.Contains(held.Error(), "bob")
		}},
	} {
		if _, err := w.Remove(t.Context(), c.number, "anna"); !c.is(err) {
			t.Errorf("remove of one that is %s: %v, want fs.ErrNotExist, or that bob holds it", name, err)
		}
	}
	if released, err := w.Unhold(t.Context(), w.numbers[1], ""); err != nil || len(released) != 1 {
		t.Errorf("unhold: %v, %v; want the one hold", released, err)
	}
	w.remove(t, w.numbers[1])
	why, err := w.Why(t.Context(), w.numbers[1])
	if err != nil || why.Who != "anna" || why.Reason != "rm" {
		t.Errorf("why: %+v, %v; want that anna has removed it", why, err)
	}
	if _, err := w.Why(t.Context(), w.numbers[2]); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("why of one that is there: %v, want fs.ErrNotExist", err)
	}
}

// TestTrashWithoutPolicy: what somebody removes can be restored for retention.DefaultTrash if
// no policy was set, or if it says nothing of a trash, and no collection frees it until then.
func TestTrashWithoutPolicy(t *testing.T) {
	if lifecycle.DefaultGrace > time.Duration(retention.DefaultTrash) {
		t.Errorf("the default grace is %v, want at most the %v of the trash", lifecycle.DefaultGrace, retention.DefaultTrash)
	}
	for _, policy := range [][]string{nil, {"brake: 30%"}} {
		w := newWorld(t, policy...)
		w.remove(t, w.numbers[0])
		w.Later(time.Duration(retention.DefaultTrash) - time.Second)
		if got, err := w.Collect(t.Context(), lifecycle.CollectOptions{}); err != nil || got.Contents != 0 || len(got.Trash) != 1 {
			t.Errorf("policy %q: collected before the end of the trash: %+v, %v; want no content, and 1 build in the trash", policy, got, err)
		}
		if tx, err := w.Undo(t.Context(), w.numbers[0], "anna"); err != nil || !tx.Removed.IsZero() {
			t.Errorf("policy %q: undo before the end of the trash: %+v, %v; want the live build", policy, tx, err)
		}
		w.has(t, "after undo", w.own[0], true)
		w.remove(t, w.numbers[0])
		w.Later(time.Duration(retention.DefaultTrash) + time.Second)
		_, err := w.Undo(t.Context(), w.numbers[0], "anna")
		if _, over := errors.AsType[*lifecycle.NotInTrashError](err); !over || !strings.Contains(err.Error(), "its time in the trash ended on") {
			t.Errorf("policy %q: undo after the trash: %v, want that its time is over", policy, err)
		}
		if got, err := w.Collect(t.Context(), lifecycle.CollectOptions{Grace: 100 * day}); err != nil || got.Contents != 1 || len(got.Trash) != 0 {
			t.Errorf("policy %q: collected after the trash: %+v, %v; want 1 content, whatever the grace", policy, got, err)
		}
		if _, err = w.Undo(t.Context(), w.numbers[0], "anna"); err == nil || !strings.Contains(err.Error(), "its time there is over") {
			t.Errorf("policy %q: undo after the collection: %v, want that its time is over", policy, err)
		}
	}
}

// TestCollect frees what nothing has held for longer than the grace, and nothing else.
func TestCollect(t *testing.T) {
	w := newWorld(t, "trash: 0")
	w.remove(t, w.numbers[0])
	for _, c := range []struct {
		when  string
		opt   lifecycle.CollectOptions
		freed int64
		waits bool
	}{
		{"within the grace", lifecycle.CollectOptions{Grace: time.Hour}, 0, true},
		{"without grace, dry", lifecycle.CollectOptions{DryRun: true}, 1, false},
		{"without grace", lifecycle.CollectOptions{}, 1, false},
		{"again", lifecycle.CollectOptions{}, 0, false},
	} {
		got, err := w.Collect(t.Context(), c.opt)
		if err != nil || got.Contents != c.freed || got.Bytes != c.freed*int64(len(w.own[0])) || got.Strays != 0 || (got.Waiting > 0) != c.waits {
			t.Errorf("%s: %+v, %v; want %d contents, and waiting ones: %v", c.when, got, err, c.freed, c.waits)
		}
		if c.when == "without grace, dry" {
			w.has(t, "after counting", w.own[0], true)
		}
		w.Later(time.Second)
	}
	w.has(t, "afterwards, the removed one's own", w.own[0], false)
	w.has(t, "afterwards, the shared", w.shared, true)
	w.has(t, "afterwards, the others'", w.own[1], true)
}

// TestCollectStrays frees blobs that were never committed, when they are older than the grace.
func TestCollectStrays(t *testing.T) {
	w := newWorld(t)
	stray := hometest.Sym("stray", 50, 500)
	if err := w.Blobs.Put(t.Context(), blob.Sum(stray), int64(len(stray)), strings.NewReader(string(stray))); err != nil {
		t.Fatal(err)
	}
	if got, err := w.Collect(t.Context(), lifecycle.CollectOptions{Grace: 3 * day}); err != nil || got.Strays != 0 || got.Waiting != int64(len(stray)) {
		t.Errorf("within the grace: %+v, %v; want that the stray waits", got, err)
	}
	w.Later(3 * day)
	if got, err := w.Collect(t.Context(), lifecycle.CollectOptions{Grace: day}); err != nil || got.Strays != 1 || got.Bytes != int64(len(stray)) || got.Contents != 0 {
		t.Errorf("after the grace: %+v, %v; want the stray freed", got, err)
	}
	if _, err := w.Blobs.Stat(t.Context(), blob.Sum(stray)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the stray afterwards: %v, want fs.ErrNotExist", err)
	}
}

// TestTrash holds what was removed until it ends.
func TestTrash(t *testing.T) {
	for name, c := range map[string]struct {
		later time.Duration
		empty bool
		freed bool
	}{
		"before its end":     {6 * day, false, false},
		"after its end":      {8 * day, false, true},
		"when it is emptied": {0, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "trash: 7d")
			w.remove(t, w.numbers[0])
			if list, contents, space, err := w.Trash(t.Context()); err != nil || len(list) != 1 || contents != 1 || space < int64(len(w.own[0])) {
				t.Errorf("the trash: %+v, %d contents of %d bytes, %v; want one build that holds back its own file, in whole blocks", list, contents, space, err)
			}
			w.Later(c.later)
			if got, err := w.Collect(t.Context(), lifecycle.CollectOptions{EmptyTrash: c.empty}); err != nil || (got.Contents == 1) != c.freed || (len(got.Trash) == 0) != c.freed {
				t.Errorf("collect: %+v, %v; want that the content is freed: %v", got, err, c.freed)
			}
			w.has(t, "its own file", w.own[0], !c.freed)
			tx, err := w.Undo(t.Context(), w.numbers[0], "anna")
			if c.freed {
				if gone, ok := errors.AsType[*lifecycle.NotInTrashError](err); !ok || gone.Number != w.numbers[0] {
					t.Errorf("undo: %v, want a *NotInTrashError of build %d", err, w.numbers[0])
				}
			} else if err != nil || tx.Number != w.numbers[0] || !tx.Removed.IsZero() {
				t.Errorf("undo: %+v, %v; want the build, which is not removed any more", tx, err)
			}
		})
	}
	w := newWorld(t, "trash: 7d")
	if _, err := w.Undo(t.Context(), 99, "anna"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("undo of an unknown build: %v, want fs.ErrNotExist", err)
	}
	var not *lifecycle.NotInTrashError
	if _, err := w.Undo(t.Context(), w.numbers[0], "anna"); !errors.As(err, &not) || !not.Removed.IsZero() {
		t.Errorf("undo of one that is there: %v, want a *NotInTrashError that says that it was not removed", err)
	}
}

// TestPurge frees at once, past trash and grace, what nothing else needs.
func TestPurge(t *testing.T) {
	for name, before := range map[string]func(t *testing.T, w *world){
		"live":         func(*testing.T, *world) {},
		"in the trash": func(t *testing.T, w *world) { w.remove(t, w.numbers[0]) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "trash: 7d")
			before(t, w)
			p, err := w.Purge(t.Context(), w.numbers[0], "anna", "a leak")
			if err != nil || p.Contents != 1 || p.Transaction.Number != w.numbers[0] || p.Pending || p.InUse != 0 {
				t.Errorf("purge: %+v, %v; want its one content freed", p, err)
			}
			w.has(t, "its own file", w.own[0], false)
			w.has(t, "the shared file", w.shared, true)
			if why, err := w.Why(t.Context(), w.numbers[0]); err != nil || why.Reason != "purge" || why.Detail != "a leak" {
				t.Errorf("why: %+v, %v; want the purge, for a leak", why, err)
			}
		})
	}
	w := newWorld(t)
	if _, err := w.Purge(t.Context(), 99, "anna", ""); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("purge of an unknown build: %v, want fs.ErrNotExist", err)
	}
}

// TestRemoved lists the hidden files of a scope until they are forgotten.
func TestRemoved(t *testing.T) {
	w := newWorld(t)
	w.remove(t, w.numbers[2])
	for name, c := range map[string]struct {
		scope answer.Scope
		want  int
	}{"everything": {answer.Scope{}, 1}, "the product": {answer.Scope{Products: []string{"app"}}, 1}, "another product": {answer.Scope{Products: []string{"other"}}, 0}} {
		if list, err := w.Removed(t.Context(), c.scope, "app", 10); err != nil || len(list) != c.want {
			t.Errorf("removed in the scope of %s: %+v, %v; want %d files", name, list, err, c.want)
		}
	}
	if err := w.Sweep(t.Context(), w.Now().Add(500*day)); err != nil {
		t.Fatal(err)
	}
	if list, err := w.Removed(t.Context(), answer.Scope{}, "app", 10); err != nil || len(list) != 0 {
		t.Errorf("removed after more than a year: %+v, %v; want none", list, err)
	}
}

// lastOnly keeps the last build.
var lastOnly = []string{"classes: [{name: nightly, keep_last: 1}]", "default: nightly", "min_age: 1h", "trash: 7d"}

// TestPolicy is set if it can be read, and if it is the one that its author has seen.
func TestPolicy(t *testing.T) {
	w := newWorld(t)
	if p, err := w.Policy(t.Context()); err != nil || p.Number != 0 || p.Policy == nil {
		t.Errorf("the first policy: %+v, %v; want number 0, which keeps everything", p, err)
	}
	if _, err := w.Preview(t.Context(), "anna"); !errors.Is(err, lifecycle.ErrNoPolicy) {
		t.Errorf("preview: %v, want ErrNoPolicy", err)
	}
	if err := w.CheckClass(t.Context(), "any"); err != nil {
		t.Errorf("a class without a policy: %v, want that every one is permitted", err)
	}
	if _, err := w.SetPolicy(t.Context(), "p.yaml", []byte("retention:\n  nonsense: 1\n"), "anna", -1); err == nil || !strings.Contains(err.Error(), "p.yaml") {
		t.Errorf("a policy that cannot be read: %v, want an error that names the file", err)
	}
	w.setPolicy(t, lastOnly...)
	if err := w.CheckClass(t.Context(), "any"); err == nil {
		t.Error("a class that the policy does not have is permitted, want an error")
	}
	if err := w.CheckClass(t.Context(), "nightly"); err != nil {
		t.Errorf("a class of the policy: %v, want that it is permitted", err)
	}
	if _, err := w.SetPolicy(t.Context(), "policy", []byte("retention:\n  trash: 1d\n"), "bob", 0); !errors.Is(err, lifecycle.ErrPolicyChanged) {
		t.Errorf("a policy in the place of one that was replaced: %v, want ErrPolicyChanged", err)
	}
}

// TestApply removes what the preview has printed, or nothing.
func TestApply(t *testing.T) {
	w := newWorld(t, lastOnly...)
	p, err := w.Preview(t.Context(), "anna")
	if err != nil {
		t.Fatal(err)
	}
	var removed []int64
	for v := range p.Removed() {
		removed = append(removed, v.Number)
	}
	slices.Sort(removed)
	if !slices.Equal(removed, w.numbers[:2]) {
		t.Fatalf("the preview removes %v, want %v", removed, w.numbers[:2])
	}
	if planned, err := w.Planned(t.Context(), p.Ticket.Number); err != nil || planned.Ticket != p.Ticket {
		t.Errorf("the plan computed again: %+v, %v; want %+v", planned, err, p.Ticket)
	}
	if kind, err := w.KindOfPlan(t.Context(), p.Ticket.Number); err != nil || kind != lifecycle.PlanOfPolicy {
		t.Errorf("the kind of the plan: %v, %v; want that of a policy", kind, err)
	}
	if _, err := w.ApplyCollection(t.Context(), p.Ticket.Number); !errors.Is(err, lifecycle.ErrNoPlan) || !strings.Contains(err.Error(), "policy apply") {
		t.Errorf("the plan applied as one of gc: %v, want ErrNoPlan and what to do", err)
	}
	if _, err := w.Apply(t.Context(), p.Ticket.Number, 1, "anna"); !errors.Is(err, retention.ErrBrake) {
		t.Errorf("the plan with the consent to another number: %v, want retention.ErrBrake", err)
	}
	if _, err := w.Apply(t.Context(), "00000000", 2, "anna"); !errors.Is(err, lifecycle.ErrNoPlan) {
		t.Errorf("an unknown plan: %v, want ErrNoPlan", err)
	}
	w.Add(t, "app", "1", hometest.Sym("app", 20, 700))
	w.Later(2 * time.Hour)
	if _, err := w.Apply(t.Context(), p.Ticket.Number, 2, "anna"); !errors.Is(err, retention.ErrStale) {
		t.Errorf("the plan after a build was added: %v, want retention.ErrStale", err)
	}
	if p, err = w.Preview(t.Context(), "anna"); err != nil {
		t.Fatal(err)
	}
	a, err := w.Apply(t.Context(), p.Ticket.Number, 3, "anna")
	if err != nil || a.Run.Removed != 3 || a.Skipped != 0 {
		t.Errorf("apply: %+v, %v; want 3 builds removed", a, err)
	}
	if list, _, _, err := w.Trash(t.Context()); err != nil || len(list) != 3 {
		t.Errorf("%d builds are in the trash, %v; want 3", len(list), err)
	}
	if runs, err := w.Runs(t.Context(), 0, 10); err != nil || len(runs) != 1 || runs[0].Who != "anna" || runs[0].Kind != "apply" {
		t.Errorf("runs: %+v, %v; want that of anna", runs, err)
	}
}

// TestApplyEnds: a plan whose context has ended has removed nothing.
func TestApplyEnds(t *testing.T) {
	w := newWorld(t, lastOnly...)
	p, err := w.Preview(t.Context(), "anna")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Apply(ctx, p.Ticket.Number, 2, "anna"); !errors.Is(err, context.Canceled) {
		t.Errorf("apply: %v, want context.Canceled", err)
	}
	for _, n := range w.numbers {
		if tx, err := w.DB.Show(t.Context(), n, nil); err != nil || !tx.Removed.IsZero() {
			t.Errorf("build %d: %+v, %v; want that it is there", n, tx, err)
		}
	}
}

// TestScheduled applies a policy with a schedule when its time has come, and once; above the
// brake it records that it has not.
func TestScheduled(t *testing.T) {
	for brake, c := range map[string]struct {
		removed int
		outcome string
	}{"brake: 90%": {2, "done"}, "brake: 30%": {0, "brake"}} {
		t.Run(brake, func(t *testing.T) {
			w := newWorld(t)
			w.setPolicy(t, append([]string{`schedule: "02:00"`, brake}, lastOnly...)...)
			runs := func(when string, want int) {
				t.Helper()
				if err := w.Scheduled(t.Context()); err != nil {
					t.Fatal(err)
				}
				list, err := w.Runs(t.Context(), 0, 10)
				if err != nil || len(list) != want || want > 0 && (list[0].Outcome != c.outcome || list[0].Kind != "schedule") {
					t.Errorf("%s: runs %+v, %v; want %d, with the outcome %s", when, list, err, want, c.outcome)
				}
			}
			runs("when it was set", 0)
			w.Later(day + time.Hour)
			runs("a day later", 1)
			runs("again", 1)
			if list, _, _, err := w.Trash(t.Context()); err != nil || len(list) != c.removed {
				t.Errorf("%d builds are in the trash, %v; want %d", len(list), err, c.removed)
			}
		})
	}
}

// TestCollectionPlan is applied as it was printed, or not at all.
func TestCollectionPlan(t *testing.T) {
	w := newWorld(t, "trash: 0")
	w.remove(t, w.numbers[0])
	w.Later(time.Second)
	plan := func() lifecycle.CollectionPlan {
		t.Helper()
		p, err := w.PlanCollection(t.Context(), lifecycle.CollectOptions{}, "anna")
		if err != nil || p.Unstored != nil || p.Number == "" {
			t.Fatalf("plan: %+v, %v; want one with a number", p, err)
		}
		return p
	}
	p := plan()
	w.has(t, "after the plan", w.own[0], true)
	if kind, err := w.KindOfPlan(t.Context(), p.Number); err != nil || kind != lifecycle.PlanOfCollection {
		t.Errorf("the kind of the plan: %v, %v; want that of a collection", kind, err)
	}
	if _, err := w.Planned(t.Context(), p.Number); !errors.Is(err, lifecycle.ErrNoPlan) || !strings.Contains(err.Error(), "gc --plan") {
		t.Errorf("the plan read as one of the policy: %v, want ErrNoPlan and what to do", err)
	}
	for name, err := range map[string]error{
		"apply": func() error { _, err := w.ApplyCollection(t.Context(), "00000000"); return err }(),
		"read":  func() error { _, err := w.PlannedCollection(t.Context(), "00000000"); return err }(),
		"kind":  func() error { _, err := w.KindOfPlan(t.Context(), "00000000"); return err }(),
	} {
		if !errors.Is(err, lifecycle.ErrNoPlan) {
			t.Errorf("%s of an unknown plan: %v, want ErrNoPlan", name, err)
		}
	}
	w.Add(t, "app", "1", w.own[0])
	if _, err := w.ApplyCollection(t.Context(), p.Number); !errors.Is(err, retention.ErrStale) {
		t.Errorf("the plan after its content was added again: %v, want retention.ErrStale", err)
	}
	w.has(t, "after a stale plan", w.own[0], true)
	w.remove(t, w.numbers[1])
	w.Later(time.Second)
	p = plan()
	got, err := w.ApplyCollection(t.Context(), p.Number)
	if err != nil || got.Contents != p.Contents || got.Bytes != p.Bytes || got.Contents != 2 {
		t.Errorf("apply: %+v, %v; want the 2 contents of %+v", got, err, p.Collected)
	}
	w.has(t, "after the plan", w.own[1], false)
	w.has(t, "after the plan, what another holds", w.own[2], true)
}

// TestUsage divides the space among those who hold it.
func TestUsage(t *testing.T) {
	w := newWorld(t, "trash: 7d")
	other := w.Add(t, "other", "2", w.shared)
	w.remove(t, w.numbers[2])
	u, err := w.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	own, shared := int64(len(w.own[0])+len(w.own[1])), int64(len(w.shared))
	want := []lifecycle.Share{{Product: "app", Transactions: 2, Own: own, Shared: shared}, {Product: "other", Transactions: 1, Shared: shared}}
	if !slices.Equal(u.Products, want) {
		t.Errorf("products %+v, want %+v", u.Products, want)
	}
	if u.Live != own+shared || u.Trash != int64(len(w.own[2])) || u.InTrash != 1 || u.Garbage != 0 || u.Bucket {
		t.Errorf("%+v, want %d bytes live and %d in the trash, of one build", u, own+shared, len(w.own[2]))
	}
	w.remove(t, other)
	if u, err = w.Usage(t.Context()); err != nil || len(u.Products) != 1 || u.Products[0].Own != own+shared {
		t.Errorf("products without the other: %+v, %v; want that app alone holds %d bytes", u.Products, err, own+shared)
	}
}

// TestUsageOverTime has one record a day. It begins at the start of a day, since an
// hour later than 23:00 is another day.
func TestUsageOverTime(t *testing.T) {
	w := newWorld(t)
	w.Later(day - w.Now().Sub(w.Now().Truncate(day)))
	first := w.Now()
	for _, later := range []time.Duration{0, time.Hour, day} {
		w.Later(later)
		if err := w.RecordDay(t.Context(), w.Now()); err != nil {
			t.Fatal(err)
		}
	}
	days, err := w.UsageOverTime(t.Context(), lifecycle.UsageFilter{From: first.Add(-day), To: w.Now().Add(day), All: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range days {
		if d.Transactions != 3 || d.Bytes == 0 {
			t.Errorf("a day: %+v, want 3 builds and their bytes", d)
		}
	}
	if len(days) != 2 {
		t.Errorf("%d records of the whole depot, want one for each of 2 days: %+v", len(days), days)
	}
}
