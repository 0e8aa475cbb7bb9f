package depot

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot/backup"
	"github.com/symdepot/symdepot/internal/depot/check"
	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// nightlies makes the builds of a product of several modules, most of which change from
// one build to the next.
type nightlies struct {
	modules []*nightly
	last    []file
}

// newNightlies returns modules of between 0.5 and 4 MiB.
func newNightlies(modules int) *nightlies {
	n := &nightlies{last: make([]file, modules)}
	for i := range modules {
		n.modules = append(n.modules, newNightly(fmt.Sprintf("module%02d.so", i), uint64(100+i), 7200+i*50_000/modules))
	}
	return n
}

// build returns the files of a build. Each seventh module is as in the build before.
func (n *nightlies) build(no int) []file {
	for i, m := range n.modules {
		if no == 0 || (no+i)%7 != 0 {
			n.last[i], _ = m.build(no)
		}
	}
	return slices.Clone(n.last)
}

// TestColdYear adds a build every day and makes cold what is older than two weeks, as a
// server does. In the end every file of every build has its bytes, restored from the
// cold files.
func TestColdYear(t *testing.T) {
	symtest.Sequential(t)
	t.Parallel()
	days, modules := 20, 2
	if os.Getenv("SYMDEPOT_TORTURE") != "" {
		days, modules = 365, 20
	} else if testing.Short() {
		t.Skip("adds 20 builds for some seconds: run it without -short")
	}
	c := &movable{}
	d, err := Open(t.Context(), filepath.Join(t.TempDir(), "depot"), Options{Now: c.now, Cold: coldstore.ColdOptions{After: 14 * day, Rate: -1}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	d.Cold.Space = func() (total, free int64, err error) { return 1 << 40, 1 << 39, nil }
	begin, most := time.Now(), int64(0)
	n := newNightlies(modules)
	var sums [][]blob.Ref
	var plain int64
	known := map[blob.Ref]bool{}
	for no := range days {
		files := n.build(no)
		refs := make([]blob.Ref, len(files))
		for i, f := range files {
			refs[i] = sha256.Sum256(f.body)
			if !known[refs[i]] {
				plain += int64(len(f.body))
			}
			known[refs[i]] = true
		}
		sums = append(sums, refs)
		add(t, d, "Game", files...)
		c.move(day)
		if err := d.Cold.Due(t.Context()); err != nil {
			t.Fatal(err)
		}
		most = max(most, storedBytes(t, d))
	}
	c.move(30 * day)
	if err := d.Cold.Due(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.move(2 * time.Hour)
	if _, err := d.Cold.Strip(t.Context(), coldstore.CoolGrace); err != nil {
		t.Fatal(err)
	}
	s, err := d.Cold.Stats(t.Context())
	if err != nil || s.Contents != int64(len(known)-modules) || s.Both != 0 {
		t.Errorf("sums %+v, %v, want %d cold contents: all but the newest of each module", s, err, len(known)-modules)
	}
	if s.Bytes*100 > s.Plain*6 && days > 30 {
		t.Errorf("%d bytes for %d plain ones, want less than 6 per cent", s.Bytes, s.Plain)
	}
	for no, refs := range sums {
		for i, ref := range refs {
			hash := sha256.New()
			if row, err := d.Cold.Of(t.Context(), ref); err == nil {
				err = d.Cold.Store().Restore(t.Context(), row, hash, nil)
				if err != nil {
					t.Fatalf("module %d of build %d: %v", i, no, err)
				}
			} else if f, err := d.Content(t.Context(), ref); err != nil {
				t.Fatalf("module %d of build %d: %v", i, no, err)
			} else {
				_, _ = io.Copy(hash, io.NewSectionReader(f, 0, f.Size))
				_ = f.Close()
			}
			if !bytes.Equal(hash.Sum(nil), ref[:]) {
				t.Fatalf("module %d of build %d has other bytes", i, no)
			}
		}
	}
	if v, faults := verified(t, d, check.Options{}); len(faults) > 0 {
		t.Errorf("verify: %+v, %+v, want no faults", v, faults)
	}
	t.Logf("%d builds of %d files in %.0f s: %d contents of %d MiB take %d MiB (%.1f %%), %d keys; at most %d MiB stored at any moment", days, modules, time.Since(begin).Seconds(),
		len(known), plain>>20, storedBytes(t, d)>>20, 100*float64(s.Bytes)/float64(s.Plain), s.Keys, most>>20)
}

// TestColdYearKept is TestColdYear with a policy that keeps builds for 90 days: bases
// that nothing but deltas needs take a tenth of the cold bytes at most, and what a plan
// says that it frees comes free.
func TestColdYearKept(t *testing.T) {
	symtest.Sequential(t)
	t.Parallel()
	days, modules, keep := 22, 1, 10
	if os.Getenv("SYMDEPOT_TORTURE") != "" {
		days, modules, keep = 365, 6, 90
	} else if testing.Short() {
		t.Skip("adds 22 builds for some seconds: run it without -short")
	}
	c := &movable{}
	d, err := Open(t.Context(), filepath.Join(t.TempDir(), "depot"), Options{Now: c.now, Cold: coldstore.ColdOptions{After: 3 * day, Rate: -1}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	d.Cold.Space = func() (total, free int64, err error) { return 1 << 40, 1 << 39, nil }
	setPolicy(t, d, fmt.Sprintf("classes: [{name: nightly, keep_last: %d}]", keep), "default: nightly", "min_age: 0s", "brake: 100%")
	n := newNightlies(modules)
	var pinned, cold, predicted int64
	for no := range days {
		add(t, d, "Game", n.build(no)...)
		c.move(day)
		if err := d.Cold.Due(t.Context()); err != nil {
			t.Fatal(err)
		}
		if p := preview(t, d); p.Builds() > 0 {
			predicted += p.Frees.Stored
			applyPlan(t, d, p)
		}
		for range 2 { // the second takes bases whose last deltas the first has taken
			if _, err := d.Retention.Collect(t.Context(), lifecycle.CollectOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if s, err := d.Cold.Stats(t.Context()); err != nil {
			t.Fatal(err)
		} else if no > keep+3 {
			pinned, cold = pinned+s.PinnedBytes, cold+s.Bytes
		}
	}
	if pinned*10 > cold && days > 300 {
		t.Errorf("pinned bytes are %d of %d on the average, want a tenth at most", pinned, cold)
	}
	u, err := d.Retention.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if on := storedBytes(t, d); !within1(on, u.Live+u.Garbage+u.Cached) {
		t.Errorf("%d bytes are stored, want the %d of live builds and %d of garbage", on, u.Live, u.Garbage)
	}
	if _, faults := verified(t, d, check.Options{Restore: true}); len(faults) > 0 {
		t.Errorf("faults %+v, want none", faults)
	}
	t.Logf("pinned %.1f %% of the cold bytes on the average", 100*float64(pinned)/float64(max(cold, 1)))
}

// TestColdMoved copies a depot with cold contents to a bucket, and to a backup, as they
// are.
func TestColdMoved(t *testing.T) {
	d, c := roomyDepot(t)
	n := newNightly("app.so", 9, 9000)
	want := map[string][]byte{}
	for i := range 4 {
		f, path := n.build(i)
		want[path] = f.body
		add(t, d, "app", f)
		c.advance(24 * time.Hour)
	}
	if sum, err := d.Cold.Cool(t.Context(), coldstore.CoolOptions{After: time.Hour}); err != nil || sum.Contents != 3 {
		t.Fatalf("cool: %+v, %v, want 3 contents", sum, err)
	}
	cold, err := d.Cold.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "backup")
	if _, err := d.Backup(t.Context(), dir, backup.Options{Verify: true}); err != nil {
		t.Fatal(err)
	}
	saved, err := Open(t.Context(), dir, Options{MustExist: true, Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = saved.Close() }()
	to := bucketDepot(t, c)
	if _, err := d.Migrate(t.Context(), to, nil); err != nil {
		t.Fatal(err)
	}
	for name, copied := range map[string]*Depot{"backup": saved, "bucket": to} {
		if s, err := copied.Cold.Stats(t.Context()); err != nil || s != cold {
			t.Errorf("%s: %+v, %v, want %+v as in the depot", name, s, err, cold)
		}
		answers(t, copied, want)
		if _, faults := verified(t, copied, check.Options{Restore: true}); len(faults) > 0 {
			t.Errorf("%s: faults %+v, want none", name, faults)
		}
		var row record.Cold
		if _, err := copied.Cold.WarmAll(t.Context(), coldstore.Warming{Each: func(r coldstore.ColdContent) error { row = r; return nil }}); err != nil || row.Size == 0 {
			t.Errorf("%s: warm: %v", name, err)
		}
		answers(t, copied, want)
	}
}
