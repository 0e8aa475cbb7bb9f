package check_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot/check"
	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/home/hometest"
	"github.com/symdepot/symdepot/internal/index/places"
	"github.com/symdepot/symdepot/internal/store/blob"
)

func open(t *testing.T) *hometest.Home {
	t.Helper()
	return hometest.Open(t, filepath.Join(t.TempDir(), "depot"))
}

func checkerOf(r *hometest.Home, rate int64) *check.Checker {
	return check.New(r.Home, r.Cold, r.Contents, rate, r.Log)
}

// run checks all, and returns the faults by the content, or by what they say.
func run(t *testing.T, c *check.Checker, opt check.Options) (check.Verified, map[string]content.Fault) {
	t.Helper()
	faults := map[string]content.Fault{}
	v, err := c.Run(t.Context(), opt, func(f content.Fault) {
		key := f.Ref
		if key == "" {
			key = f.What
		}
		faults[key] = f
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if v.Faults != int64(len(faults)) {
		t.Errorf("%d faults are counted, want the %d that were reported", v.Faults, len(faults))
	}
	return v, faults
}

// TestRun finds what the disk has done to a content, and nothing else.
func TestRun(t *testing.T) {
	for name, c := range map[string]struct {
		harm func(t *testing.T, r *hometest.Home, body []byte)
		says string // "": no fault
	}{
		"intact":  {func(*testing.T, *hometest.Home, []byte) {}, ""},
		"flipped": {func(t *testing.T, r *hometest.Home, body []byte) { r.Flip(t, body) }, "SHA-256"},
		"missing": {func(t *testing.T, r *hometest.Home, body []byte) { r.Lose(t, body) }, "missing"},
		"empty": {func(t *testing.T, r *hometest.Home, body []byte) {
			if err := os.Truncate(r.Path(body), 0); err != nil {
				t.Fatal(err)
			}
		}, "empty"},
	} {
		t.Run(name, func(t *testing.T) {
			r := open(t)
			good, body := hometest.Sym("app", 1, 5000), hometest.Sym("app", 2, 3000)
			r.Add(t, "app", "1", good, body)
			c.harm(t, r, body)
			checker := checkerOf(r, 0)
			v, faults := run(t, checker, check.Options{})
			if v.Contents != 2 || v.Bytes != int64(len(good)+len(body)) || v.Strays != 0 {
				t.Errorf("%+v, want 2 contents of %d bytes and no stray", v, len(good)+len(body))
			}
			if rows, _ := run(t, checker, check.Options{Rows: true}); rows.Contents != 2 || rows.Faults != 0 {
				t.Errorf("of the rows alone: %+v, want 2 contents and no fault: nothing is read", rows)
			}
			if c.says == "" {
				if len(faults) > 0 {
					t.Errorf("faults %+v, want none", faults)
				}
				return
			}
			f := faults[blob.Sum(body).String()]
			if len(faults) != 1 || !strings.Contains(f.What, c.says) || len(f.Files) != 1 || f.Remedy == "" || f.MovedTo != "" {
				t.Errorf("faults %+v, want one of %s that says %q, the file that is lost and a remedy", faults, blob.Sum(body), c.says)
			}
			r.Contents.Close()
			if what, err := r.DB.Damages.Of(t.Context(), blob.Sum(body)); err != nil || what == "" {
				t.Errorf("the index has the damage %q, %v; want one, for the other processes", what, err)
			}
		})
	}
}

// TestRunClears: what is intact is not suspected any more; what is not stays so.
func TestRunClears(t *testing.T) {
	r := open(t)
	good, bad := hometest.Sym("app", 1, 3000), hometest.Sym("app", 2, 3000)
	r.Add(t, "app", "1", good, bad)
	r.Flip(t, bad)
	for _, body := range [][]byte{good, bad} {
		if err := r.DB.Damages.Note(t.Context(), blob.Sum(body), "suspected"); err != nil {
			t.Fatal(err)
		}
	}
	run(t, checkerOf(r, 0), check.Options{})
	got, err := r.Contents.Suspected(t.Context())
	if err != nil || len(got) != 1 || !got[blob.Sum(bad)] {
		t.Errorf("suspected afterwards: %v, %v; want the damaged content alone", got, err)
	}
}

// TestRunRepairs moves damaged bytes aside; a file that was added stays in the index, so that
// the same bytes restore it.
func TestRunRepairs(t *testing.T) {
	r := open(t)
	body := hometest.Sym("app", 1, 3000)
	r.Add(t, "app", "1", body)
	r.Flip(t, body)
	checker := checkerOf(r, 0)
	_, faults := run(t, checker, check.Options{Repair: true})
	moved := faults[blob.Sum(body).String()].MovedTo
	if _, err := os.Stat(moved); err != nil {
		t.Errorf("the damaged bytes were moved to %q: %v, want a file", moved, err)
	}
	if _, err := os.Stat(r.Path(body)); err == nil {
		t.Error("the damaged bytes are in their place too, want that they are not")
	}
	if known, err := r.DB.HasContent(t.Context(), blob.Sum(body)); err != nil || !known {
		t.Errorf("the index lists the content: %v, %v; want that it does", known, err)
	}
	r.Add(t, "app", "1", body)
	if v, faults := run(t, checker, check.Options{}); v.Faults != 0 {
		t.Errorf("after the file was added again: %+v, want no fault", faults)
	}
}

// TestRunReports: what stands beside the contents is reported too.
func TestRunReports(t *testing.T) {
	r := open(t)
	body, stray := hometest.Sym("app", 1, 3000), hometest.Sym("app", 2, 100)
	r.Add(t, "app", "1", body)
	if err := r.Blobs.Put(t.Context(), blob.Sum(stray), int64(len(stray)), strings.NewReader(string(stray))); err != nil {
		t.Fatal(err)
	}
	checker := checkerOf(r, 0)
	if v, _ := run(t, checker, check.Options{}); v.Strays != 1 || v.Faults != 0 {
		t.Errorf("%+v, want one stray, which is no fault", v)
	}
	const lost = "file x of stage 3 stands in no build"
	checker.UseAccepted(func(_ context.Context, report func(string)) error { report(lost); return nil })
	if _, faults := run(t, checker, check.Options{}); !strings.Contains(faults[lost].Remedy, "add or push") {
		t.Errorf("faults %+v, want one that says %q and to add or push the file", faults, lost)
	}
	fails := errors.New("the stages cannot be read")
	checker.UseAccepted(func(context.Context, func(string)) error { return fails })
	if _, err := checker.Verify(t.Context(), func(content.Fault) {}, nil); !errors.Is(err, fails) {
		t.Errorf("verify: %v, want %v", err, fails)
	}
}

// TestRunEnds with its context, and tells how far it has come.
func TestRunEnds(t *testing.T) {
	r := open(t)
	bodies := [][]byte{hometest.Sym("app", 1, 3000), hometest.Sym("app", 2, 3000)}
	r.Add(t, "app", "1", bodies...)
	checker := checkerOf(r, 0)
	var last int64
	if _, err := checker.Verify(t.Context(), func(content.Fault) {}, func(n int64) { last = n }); err != nil || last != int64(len(bodies[0])+len(bodies[1])) {
		t.Errorf("progress ends at %d, %v; want %d bytes", last, err, len(bodies[0])+len(bodies[1]))
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err := checker.Verify(ctx, func(f content.Fault) { t.Errorf("fault %+v, want none", f) }, func(int64) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("verify under a context that ends: %v, want context.Canceled", err)
	}
}

// TestRunCold names a cold file that is lost, and what cannot be restored without it.
func TestRunCold(t *testing.T) {
	r := open(t)
	older, newer := hometest.Sym("app", 3, 300<<10), hometest.Sym("app", 6, 300<<10)
	for _, body := range [][]byte{older, newer} {
		r.Add(t, "app", "1", body)
		r.Later(24 * time.Hour)
	}
	if sum, err := r.Cold.Cool(t.Context(), coldstore.CoolOptions{After: time.Hour}); err != nil || sum.Contents != 1 {
		t.Fatalf("cool: %+v, %v; want 1 content", sum, err)
	}
	checker := checkerOf(r, 0)
	if v, faults := run(t, checker, check.Options{Restore: true}); v.Cold != 1 || v.Restored != 1 || v.Contents != 3 || len(faults) > 0 {
		t.Errorf("%+v with faults %+v, want 1 cold content restored, 3 contents with its cold file, no fault", v, faults)
	}
	row, err := r.Cold.Of(t.Context(), blob.Sum(older))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Cold.Store().Below().Delete(t.Context(), row.File.Ref); err != nil {
		t.Fatal(err)
	}
	for _, restore := range []bool{false, true} {
		_, faults := run(t, checker, check.Options{Restore: restore})
		if f := faults[blob.Sum(older).String()]; len(faults) != 2 || faults[row.File.Ref.String()].What == "" || !strings.Contains(f.What, "cold file") {
			t.Errorf("restore %v: faults %+v, want the cold file %s, and the content that is lost with it", restore, faults, row.File.Ref)
		}
	}
}

// TestScrub: the background check is done once a week, by one process, and not at all with a
// negative rate.
func TestScrub(t *testing.T) {
	r := open(t)
	good, bad := hometest.Sym("app", 1, 3000), hometest.Sym("app", 2, 3000)
	r.Add(t, "app", "1", good, bad)
	r.Flip(t, bad)
	c := checkerOf(r, 1<<30)
	c.Wait = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	due := func(when string, want bool) {
		t.Helper()
		before, err := c.Progress(t.Context())
		if err == nil {
			err = c.ScrubDue(t.Context())
		}
		after, perr := c.Progress(t.Context())
		if err = errors.Join(err, perr); err != nil {
			t.Fatal(err)
		}
		if done := !after.Finished.Equal(before.Finished); done != want {
			t.Errorf("%s: a pass was done: %v, want %v", when, done, want)
		}
	}
	due("at first", true)
	if st, n, err := c.Coverage(t.Context()); err != nil || st.LastContents != 2 || st.LastDamaged != 1 || n != (check.Coverage{Read: 2, Stored: 2}) {
		t.Errorf("coverage: %+v, %+v, %v; want 2 contents read, one damaged", st, n, err)
	}
	due("at once again", false)
	r.Later(8 * 24 * time.Hour)
	if err := r.DB.Scrub.Put(t.Context(), places.ScrubState{Owner: "another", Updated: r.Now(), Started: r.Now()}); err != nil {
		t.Fatal(err)
	}
	due("while another process checks", false)
	r.Later(10 * time.Minute)
	due("when the other process is silent", true)

	never := checkerOf(r, -1)
	never.Wait = func(context.Context, time.Duration) error {
		t.Error("it waits, want that it returns")
		return errors.New("stop")
	}
	never.Scrub(t.Context())
}

// TestScrubEnds: a pass that is cut off goes on where it was.
func TestScrubEnds(t *testing.T) {
	r := open(t)
	var bodies [][]byte
	for i := range 4 {
		bodies = append(bodies, hometest.Sym("app", i, 3000))
	}
	r.Add(t, "app", "1", bodies...)
	c := checkerOf(r, 1)
	stop, calls := errors.New("stop"), 0
	c.Wait = func(context.Context, time.Duration) error {
		r.Later(time.Minute) // so that the state is written
		if calls++; calls > 5 {
			return stop
		}
		return nil
	}
	if err := c.ScrubDue(t.Context()); !errors.Is(err, stop) {
		t.Fatalf("the pass: %v, want that it stops", err)
	}
	st, err := c.Progress(t.Context())
	if err != nil || st.Started.IsZero() || st.Contents == 0 || st.Contents == 4 {
		t.Fatalf("progress %+v, %v; want a pass that has read some of 4 contents", st, err)
	}
	read := st.Contents
	c.Wait = func(context.Context, time.Duration) error { calls++; return nil }
	calls = 0
	if err := c.ScrubDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Each content takes two waits: for opening it, and for its bytes.
	if st, err = c.Progress(t.Context()); err != nil || st.LastContents != 4 || calls > 2*int(4-read) {
		t.Errorf("progress %+v after %d waits, %v; want 4 contents, the %d that were read not again", st, calls, err, read)
	}
}

func TestScrubText(t *testing.T) {
	day := time.Date(2026, 5, 4, 3, 2, 1, 0, time.Local)
	for want, st := range map[string]check.ScrubState{
		"": {},
		"background check since 2026-05-04 03:02: 7 contents checked, 1 damaged": {Started: day, Contents: 7, Damaged: 1, Finished: day, LastContents: 9},
		"last complete check 2026-05-04 03:02: 9 contents, 2 damaged":            {Finished: day, LastContents: 9, LastDamaged: 2},
	} {
		if got := check.ScrubText(st); got != want {
			t.Errorf("%+v: %q, want %q", st, got, want)
		}
	}
}

// TestOnDisk: what is for buckets says so, or does nothing, where there is none.
func TestOnDisk(t *testing.T) {
	c := checkerOf(open(t), 0)
	if err := c.Claim(t.Context()); err == nil || !strings.Contains(err.Error(), "nothing to claim") {
		t.Errorf("claim: %v, want that there is nothing to claim", err)
	}
	c.Wait = func(context.Context, time.Duration) error {
		t.Error("it waits, want that it returns")
		return errors.New("stop")
	}
	c.AuditMonthly(t.Context())
}
