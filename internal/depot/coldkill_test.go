package depot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/check"
	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/internal/store/bucket/buckettest"
	"github.com/symdepot/symdepot/internal/store/cold"
)

// coldChild makes the test binary a process that makes contents of the depot named cold
// and plain again, collects garbage and repairs, to be killed.
const coldChild = "SYMDEPOT_DEPOT_TEST_COLD"

// coldKept is how many builds the processes of the kill test keep.
const coldKept = 10

// coolForever works until it is killed, and prints each step. Of several processes at
// once, none may delete what another has just written: then the grace is an hour.
func coolForever(where string) error {
	ctx := context.Background()
	grace := time.Duration(0)
	if where[0] == '+' {
		where, grace = where[1:], time.Hour
	}
	d, err := openRetained(ctx, where)
	if err != nil {
		return err
	}
	d.Cold.Space = func() (total, free int64, err error) { return 1 << 40, 1 << 39, nil }
	rng := rand.New(rand.NewPCG(uint64(os.Getpid()), 1))
	say := func(step string, err error) error {
		if errors.Is(err, coldstore.ErrColdRefused) || errors.Is(err, fs.ErrNotExist) && !errors.Is(err, blob.ErrDamaged) {
			err = nil // another process was faster
		}
		if err == nil {
			fmt.Println(step)
		}
		return err
	}
	for n := os.Getpid() * 1000; ; n++ {
		if err := say("added", addNightly(ctx, d, n)); err != nil {
			return err
		}
		after := coldstore.CoolGrace
		if rng.IntN(2) == 0 {
			after = 0
		}
		if _, err := d.Cold.Cool(ctx, coldstore.CoolOptions{After: -time.Hour, Grace: after}); say("cooled", err) != nil {
			return err
		}
		if _, err := d.Cold.Strip(ctx, 0); say("stripped", err) != nil {
			return err
		}
		for row, err := range d.db.Colds.All(ctx) {
			if err == nil && rng.IntN(3) == 0 {
				err = d.Cold.Warm(ctx, row, nil)
			}
			if say("warmed", err) != nil {
				return err
			}
		}
		if _, err := d.Retention.Collect(ctx, lifecycle.CollectOptions{Grace: grace, EmptyTrash: true}); say("collected", err) != nil {
			return err
		}
		if err := say("exchanged", d.Cold.Unpin(ctx, nil)); err != nil {
			return err
		}
		if _, err := d.Check.Repair(ctx, func(f content.Fault) { fmt.Fprintln(os.Stderr, "fault:", f.Ref, f.What) }, nil); say("repaired", err) != nil {
			return err
		}
	}
}

// addNightly adds a build, has the public form of it made, and removes or purges the oldest ones.
func addNightly(ctx context.Context, d *Depot, no int) error {
	nightly := newNightly("app.so", 7, 5000)
	nightly.rand = rand.New(rand.NewPCG(uint64(no), 2))
	f, _ := nightly.build(no)
	f.body = append(f.body, "FILE 0 /secret/source.cpp\n"...)
	f.body = append(f.body, nightly.addresses()...)
	tx, err := d.Begin(ctx, TxInfo{Product: "app"})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.Add(ctx, Source{Path: f.path, Content: bytesContent{Reader: bytes.NewReader(f.body)}}); err != nil {
		return err
	}
	if _, err := tx.Commit(ctx); err != nil {
		return err
	}
	form, err := d.door.Form(ctx, record.Stored{Ref: blob.Sum(f.body), Size: int64(len(f.body))})
	if err != nil {
		return err
	}
	if err := form.Answer().Close(); err != nil {
		return err
	}
	list, err := d.List(ctx, answer.Scope{}, ListFilter{})
	if err != nil {
		return err
	}
	for i := coldKept; i < len(list); i++ {
		if !list[i].Removed.IsZero() {
			continue
		}
		if no%3 == 0 {
			_, err = d.Retention.Purge(ctx, list[i].Number, "ci", "test")
		} else {
			_, err = d.Retention.Remove(ctx, list[i].Number, "")
		}
		if _, faster := errors.AsType[*lifecycle.NotInTrashError](err); err != nil && !faster && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// TestColdKilled kills processes that make contents cold and plain, collect garbage and
// repair, at random moments: every content of every build answers with its hash,
// meanwhile and after each kill, and verify finds nothing.
func TestColdKilled(t *testing.T) {
	symtest.Unraced(t, "starts and kills processes for some seconds")
	t.Parallel()
	if testing.Short() {
		t.Skip("starts and kills processes for some seconds: run it without -short")
	}
	rounds := 6
	if os.Getenv("SYMDEPOT_TORTURE") != "" {
		rounds = 400
	}
	killCooling(t, filepath.Join(t.TempDir(), "depot"), rounds, 1)
}

// TestColdKilledTogether is TestColdKilled with two processes at once.
func TestColdKilledTogether(t *testing.T) {
	t.Parallel()
	if os.Getenv("SYMDEPOT_TORTURE") == "" {
		t.Skip("starts and kills processes for minutes: runs with make torture (SYMDEPOT_TORTURE=1)")
	}
	killCooling(t, filepath.Join(t.TempDir(), "depot"), 100, 2)
}

// TestColdKilledPostgres is TestColdKilled with PostgreSQL, a bucket and two processes.
func TestColdKilledPostgres(t *testing.T) {
	t.Parallel()
	if os.Getenv("SYMDEPOT_TORTURE") == "" {
		t.Skip("starts and kills processes for minutes: runs with make torture (SYMDEPOT_TORTURE=1)")
	}
	database, s3 := newDatabase(t), buckettest.S3(t)
	where, err := json.Marshal(sharedDepot{database, s3.Endpoint, s3.Bucket, s3.User, s3.Secret, t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	killCooling(t, string(where), 60, 2)
}

func killCooling(t *testing.T, where string, rounds, processes int) {
	t.Helper()
	d, err := openRetained(t.Context(), where)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	rng := rand.New(rand.NewPCG(symtest.Seed(t, 5), 6))
	var mu sync.Mutex
	steps := map[string]int{}
	moved := 0
	for round := range rounds {
		var alive sync.WaitGroup
		for range processes {
			name := where
			if processes > 1 {
				name = "+" + where
			}
			w := startChild(t, coldChild, name, 1+rng.IntN(30), time.Duration(rng.IntN(30))*time.Millisecond)
			alive.Go(func() {
				w.killed(t, func(line string) bool {
					mu.Lock()
					defer mu.Unlock()
					steps[line]++
					return true
				})
			})
		}
		done := make(chan struct{})
		go func() { alive.Wait(); close(done) }()
		for reading := true; reading; {
			select {
			case <-done:
				reading = false
			default:
				wantAllBytes(t, d)
			}
		}
		wantAllBytes(t, d)
		wantClean(t, d)
		if _, err := d.Check.Run(t.Context(), check.Options{Restore: true}, func(f content.Fault) { t.Errorf("verify: %s %s, want no fault", f.Ref, f.What) }, nil); err != nil {
			t.Fatal(err)
		}
		moved += movedBlocks(t, d)
		if t.Failed() {
			t.Fatalf("round %d, after the steps %v", round, steps)
		}
	}
	for _, step := range []string{"added", "cooled", "stripped", "collected"} {
		if steps[step] == 0 {
			t.Errorf("steps: %v, want some of each", steps)
		}
	}
	if moved == 0 {
		t.Error("no cold file had blocks whose fields moved: the newest form was not tried")
	}
	t.Logf("steps: %v; %d blocks whose fields moved", steps, moved)
	d.Cold.Space = func() (total, free int64, err error) { return 1 << 40, 1 << 39, nil }
	if w, err := d.Cold.WarmAll(t.Context(), coldstore.Warming{}); err != nil {
		t.Errorf("warm: %+v, %v", w, err)
	}
	// What kills have left without a row is garbage, and goes.
	if _, err := d.Retention.Collect(t.Context(), lifecycle.CollectOptions{Grace: -time.Hour, EmptyTrash: true}); err != nil {
		t.Fatal(err)
	}
	v, faults := verified(t, d, check.Options{})
	if len(faults) > 0 || v.Cold != 0 || v.Strays != 0 || v.Contents > 2*(coldKept+int64(processes*rounds)) {
		t.Errorf("in the end: %+v, %+v; want plain contents of the live builds and their public forms only", v, faults)
	}
}

// movedBlocks counts the blocks of cold files whose fields moved.
func movedBlocks(t *testing.T, d *Depot) (n int) {
	t.Helper()
	for row, err := range d.db.Colds.All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		f, err := d.blobs.Open(t.Context(), row.File.Ref)
		if err != nil {
			t.Fatal(err)
		}
		report, err := cold.Inspect(f, f.Size())
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		n += report.Stats.Moved
	}
	return n
}

// wantAllBytes reads the files of all builds and compares their hashes.
func wantAllBytes(t *testing.T, d *Depot) {
	t.Helper()
	list, err := d.List(t.Context(), answer.Scope{}, ListFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tx := range list {
		if !tx.Removed.IsZero() {
			continue
		}
		var refs []blob.Ref
		err := d.Files(t.Context(), tx.Number, func(f TxFile) error {
			refs = append(refs, f.Ref)
			return nil
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		for _, ref := range refs {
			if err := hasBytes(t.Context(), d, ref); err != nil {
				t.Errorf("content %s of build %d: %v", ref, tx.Number, err)
			}
		}
	}
}

// hasBytes reads a content through the store, unless it has gone meanwhile.
func hasBytes(ctx context.Context, d *Depot, ref blob.Ref) error {
	row, err := d.db.Colds.Of(ctx, ref)
	hash := sha256.New()
	switch {
	case err == nil:
		err = d.Cold.Store().Restore(ctx, row, hash, nil) // not from the near cache
	case errors.Is(err, fs.ErrNotExist):
		var f blob.File
		if f, err = d.blobs.Open(ctx, ref); err == nil {
			defer f.Close()
			_, err = io.Copy(hash, f)
		}
	}
	if err != nil {
		// It may have become plain or have been removed while it was read.
		live, lerr := d.db.Holders(ctx, ref)
		now, nerr := d.db.Colds.Of(ctx, ref)
		if lerr == nil && (len(live) == 0 || (nerr == nil) != (row != record.Cold{}) || nerr == nil && now.Made != row.Made) {
			return nil
		}
		if f, ferr := d.blobs.Open(ctx, ref); ferr == nil {
			return f.Close()
		}
		return err
	}
	if got := blob.Ref(hash.Sum(nil)); got != ref {
		return fmt.Errorf("it was read as %s", got)
	}
	return nil
}
