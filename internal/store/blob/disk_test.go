package blob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/internal/base/symtest"
)

func newDisk(t testing.TB) *Disk {
	t.Helper()
	d, err := OpenDisk(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func (d *Disk) mustPut(t testing.TB, content string) Ref {
	t.Helper()
	ref := Sum([]byte(content))
	if err := d.Put(t.Context(), ref, int64(len(content)), strings.NewReader(content)); err != nil {
		t.Fatal(err)
	}
	return ref
}

func (d *Disk) mustBegin(t testing.TB) Batch {
	t.Helper()
	b, err := d.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Abort)
	return b
}

// temps lists the temporary directory.
func (d *Disk) temps(t testing.TB) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(d.dir, tempDir))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// age makes a blob look as if it was put two hours ago, and returns that time.
func (d *Disk) age(t testing.TB, ref Ref) time.Time {
	t.Helper()
	old := time.Now().Add(-2 * time.Hour).Truncate(time.Second)
	if err := os.Chtimes(d.Path(ref), old, old); err != nil {
		t.Fatal(err)
	}
	return old
}

func (d *Disk) mustStat(t testing.TB, ref Ref) Info {
	t.Helper()
	info, err := d.Stat(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func TestLayout(t *testing.T) {
	d := newDisk(t)
	ref := d.mustPut(t, "abc")
	name := filepath.Join(d.dir, "ba", "7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
	if d.Path(ref) != name {
		t.Errorf("path %s, want %s", d.Path(ref), name)
	}
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if perm := info.Mode().Perm(); runtime.GOOS != "windows" && perm&^d.filePerm != 0 {
		t.Errorf("blob has the mode %v, want at most %v", perm, d.filePerm)
	}
	// What is not a blob is not listed.
	for _, other := range []string{"tmp/x", "ba/x", "ba/" + strings.ToUpper(filepath.Base(name)), "ba/0" + filepath.Base(name), "x"} {
		if err := os.WriteFile(filepath.Join(d.dir, other), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for info, err := range d.List(t.Context()) {
		if err != nil || info.Ref != ref {
			t.Errorf("listed %s, %v; want no error and %v", info.Ref, err, ref)
		}
	}
}

// TestRefresh checks the modification times on which garbage collection relies.
func TestRefresh(t *testing.T) {
	d := newDisk(t)
	ref := d.mustPut(t, "abc")
	fresh := func(how string, since time.Time) {
		t.Helper()
		if got := d.mustStat(t, ref).ModTime; got.Before(since.Add(-ModTimeSlack)) {
			t.Errorf("after %s the time is %v, want %v or later", how, got, since)
		}
	}
	start := time.Now()
	d.age(t, ref)
	d.mustPut(t, "abc")
	fresh("put", start)

	b := d.mustBegin(t)
	d.age(t, ref)
	if !b.Known(t.Context(), ref) {
		t.Errorf("Known(%s) is false, want true", ref)
	}
	fresh("known", start)
	d.age(t, ref)
	if _, _, err := b.Put(t.Context(), -1, strings.NewReader("abc")); err != nil {
		t.Error(err)
	}
	d.age(t, ref)
	if !b.Has(t.Context(), ref) {
		t.Errorf("Has(%s) is false, want true", ref)
	}
	if got := d.mustStat(t, ref).ModTime; time.Since(got) < time.Hour {
		t.Error("Has has changed the time")
	}
	if err := b.Commit(t.Context()); err != nil {
		t.Error(err)
	}
	fresh("commit", start)
}

// TestLongBatch checks that a batch that was open for long does not commit
// blobs that look old.
func TestLongBatch(t *testing.T) {
	d := newDisk(t)
	b := d.mustBegin(t).(*diskBatch)
	ref, _, err := b.Put(t.Context(), -1, strings.NewReader("abc"))
	if err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-2 * time.Hour)
	p := b.parts[ref]
	p.written = old
	b.parts[ref] = p
	if err := os.Chtimes(filepath.Join(d.dir, p.temp), old, old); err != nil {
		t.Fatal(err)
	}
	if err := b.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := d.mustStat(t, ref).ModTime; time.Since(got) > ModTimeSlack {
		t.Errorf("the time is %v, want now", got)
	}
}

// TestDamaged puts files as a power loss leaves them in the place of a blob.
func TestDamaged(t *testing.T) {
	const content = "the content"
	repairs := map[string]func(*Disk) error{
		"put": func(d *Disk) error {
			return d.Put(t.Context(), Sum([]byte(content)), int64(len(content)), strings.NewReader(content))
		},
		"batch": func(d *Disk) error {
			b, err := d.Begin(t.Context())
			if err != nil {
				return err
			}
			b.Known(t.Context(), Sum([]byte(content)))
			if _, _, err := b.Put(t.Context(), -1, strings.NewReader(content)); err != nil {
				return err
			}
			return b.Commit(t.Context())
		},
	}
	for name, repair := range repairs {
		for _, bad := range []string{"", "the con", content + "x"} {
			d := newDisk(t)
			ref := d.mustPut(t, content)
			if err := os.WriteFile(d.Path(ref), []byte(bad), 0o644); err != nil {
				t.Fatal(err)
			}
			if bad == "" {
				_, err1 := d.Stat(t.Context(), ref)
				_, err2 := d.Open(t.Context(), ref)
				if !errors.Is(err1, fs.ErrNotExist) || !errors.Is(err2, fs.ErrNotExist) {
					t.Errorf("an empty file: %v, %v; want fs.ErrNotExist, fs.ErrNotExist", err1, err2)
				}
				if d.mustBegin(t).Known(t.Context(), ref) {
					t.Error("an empty file is known")
				}
				var listed int
				for range d.List(t.Context()) {
					listed++
				}
				if listed != 1 {
					t.Error("an empty file is not listed")
				}
			}
			if err := repair(d); err != nil {
				t.Fatalf("%s over %q: %v", name, bad, err)
			}
			if got, err := os.ReadFile(d.Path(ref)); err != nil || string(got) != content {
				t.Errorf("%s over %q: %q, %v; want %q", name, bad, got, err, content)
			}
		}
	}
}

// TestNeverCommitted leaves a batch alone as a crash does.
func TestNeverCommitted(t *testing.T) {
	d := newDisk(t)
	b := d.mustBegin(t)
	for i := range 50 {
		if _, _, err := b.Put(t.Context(), -1, strings.NewReader(strings.Repeat("x", i))); err != nil {
			t.Fatal(err)
		}
	}
	again, err := OpenDisk(d.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Close() }()
	for info, err := range again.List(t.Context()) {
		t.Errorf("listed %+v, %v, want nothing", info, err)
	}
	if n, err := again.Sweep(t.Context(), -time.Hour); n != 0 || err != nil {
		t.Errorf("swept %d files of a living process, %v; want 0 and no error", n, err)
	}
	b.Abort()
	if left := d.temps(t); len(left) > 0 {
		t.Errorf("after the abort stand %q", left)
	}
}

func TestSweep(t *testing.T) {
	d := newDisk(t)
	name := filepath.Join(d.dir, tempDir, fmt.Sprintf(".tmp-%d-0123456789ab-1", os.Getpid()))
	if err := os.WriteFile(name, []byte("left by an earlier process of this number"), 0o644); err != nil {
		t.Fatal(err)
	}
	if n, err := d.Sweep(t.Context(), time.Hour); n != 0 || err != nil {
		t.Errorf("swept %d young files, %v; want 0 and no error", n, err)
	}
	old := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(name, old, old); err != nil {
		t.Fatal(err)
	}
	if n, err := d.Sweep(t.Context(), time.Hour); n != 1 || err != nil {
		t.Errorf("swept %d old files, %v; want 1 and no error", n, err)
	}
}

// TestLinkedShard checks that a link in a shard's place leads nowhere.
func TestLinkedShard(t *testing.T) {
	d := newDisk(t)
	outside := t.TempDir()
	symtest.Symlink(t, outside, filepath.Join(d.dir, "ba"))
	ref := Sum([]byte("abc")) // ba7816…
	if err := d.Put(t.Context(), ref, 3, strings.NewReader("abc")); err == nil {
		t.Error("put behind a link")
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) > 0 {
		t.Errorf("outside the store there is %v, %v; want nothing", entries, err)
	}
	if left := d.temps(t); len(left) > 0 {
		t.Errorf("left over: %q, want none", left)
	}
}

// TestFaults lets each step of a put and of two batches go wrong in each way:
// with and without effect, reported and not.
func TestFaults(t *testing.T) {
	t.Parallel() // waits for the disk, mostly
	boom := fmt.Errorf("injected: %w", syscall.ENOSPC)
	const large = 34 // more than are flushed one by one
	batch := func(n int) func(context.Context, *Disk) error {
		return func(ctx context.Context, d *Disk) error {
			b, err := d.Begin(ctx)
			if err != nil {
				return err
			}
			defer b.Abort()
			for i := range n {
				if _, _, err := b.Put(ctx, -1, strings.NewReader(strings.Repeat("x", 1+i))); err != nil {
					return err
				}
			}
			return b.Commit(ctx)
		}
	}
	jobs := []struct {
		name  string
		blobs int
		run   func(context.Context, *Disk) error
	}{
		{"put", 1, func(ctx context.Context, d *Disk) error {
			return d.Put(ctx, Sum([]byte("x")), 1, strings.NewReader("x"))
		}},
		{"batch", 2, batch(2)},
		{"large batch", large, batch(large)},
	}
	for _, job := range jobs {
		steps := faultSteps(t, job.run)
		for _, step := range steps {
			for _, land := range []bool{false, true} {
				for _, fault := range []error{nil, boom} {
					if land && fault == nil {
						continue // nothing goes wrong
					}
					what := fmt.Sprintf("%s: step %d (%s), land %v, error %v", job.name, step.n, step.op, land, fault)
					walkFault(t, what, job.run, job.blobs, step, land, fault)
				}
			}
		}
	}
}

type faultStep struct {
	n  int
	op durable.Op
}

// faultSteps lists the steps of a job; of many alike some.
func faultSteps(t *testing.T, run func(context.Context, *Disk) error) []faultStep {
	t.Helper()
	var mu sync.Mutex
	var steps []faultStep
	seen := make(map[durable.Op]int)
	d := newDisk(t)
	n := 0
	d.tree.Faults = func(op durable.Op, _ string) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		if seen[op]++; seen[op] < 3 || seen[op]%20 == 0 {
			steps = append(steps, faultStep{n, op})
		}
		n++
		return true, nil
	}
	if err := run(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	return steps
}

func walkFault(t *testing.T, what string, run func(context.Context, *Disk) error, blobs int, step faultStep, land bool, fault error) {
	t.Helper()
	d := newDisk(t)
	var mu sync.Mutex
	var n int
	var hit durable.Op
	d.tree.Faults = func(op durable.Op, _ string) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		if n++; n-1 == step.n {
			hit = op
			return land, fault
		}
		return true, nil
	}
	err := run(t.Context(), d)
	d.tree.Faults = nil
	if fault != nil && (!errors.Is(err, syscall.ENOSPC) || !durable.IsNoSpace(err)) {
		t.Errorf("%s: reported %v, want ENOSPC", what, err)
	}
	// Lost without a word: only a rename leaves its temporary file, and only a
	// write makes a blob that is not what it should be.
	silent := !land && fault == nil
	if left := d.temps(t); len(left) > 0 && !(silent && hit == durable.OpRename) {
		t.Errorf("%s: left over: %q, want nothing", what, left)
	}
	if got, bad := d.count(t); bad > 0 && !(silent && hit == durable.OpWrite) || err == nil && !silent && got != blobs {
		t.Errorf("%s: %d blobs, want %d; %d of them bad, want none", what, got, blobs, bad)
	}
	if err := run(t.Context(), d); err != nil {
		t.Errorf("%s: second try: %v", what, err)
	}
	if got, bad := d.count(t); got != blobs || bad > 0 {
		t.Errorf("%s: after the second try %d blobs, want %d; %d of them bad, want none", what, got, blobs, bad)
	}
}

// count counts the blobs and those of them whose content is not theirs.
func (d *Disk) count(t *testing.T) (all, bad int) {
	t.Helper()
	for info, err := range d.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		all++
		content, err := os.ReadFile(d.Path(info.Ref))
		if err != nil || Sum(content) != info.Ref {
			bad++
		}
	}
	return all, bad
}

// TestAbortBesidePuts ends a batch while it is written to.
func TestAbortBesidePuts(t *testing.T) {
	d := newDisk(t)
	b := d.mustBegin(t)
	content := bytes.Repeat([]byte("x"), 1<<20)
	begun := make(chan struct{}, 8)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := 0; ; j++ {
				_, _, err := b.Put(t.Context(), -1, bytes.NewReader(content[:len(content)-8*j-i]))
				if err != nil {
					if !errors.Is(err, fs.ErrClosed) {
						t.Error(err)
					}
					return
				}
				if j == 0 {
					begun <- struct{}{}
				}
			}
		})
	}
	<-begun
	b.Abort()
	wg.Wait()
	if left := d.temps(t); len(left) > 0 {
		t.Errorf("left over: %q, want none", left)
	}
	if n, _ := d.count(t); n > 0 {
		t.Errorf("%d blobs, want 0", n)
	}
}
