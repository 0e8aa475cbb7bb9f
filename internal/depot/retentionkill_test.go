package depot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/depot/retention"
	"github.com/symdepot/symdepot/internal/depot/stage"
	"github.com/symdepot/symdepot/internal/remote/upstream"
	"github.com/symdepot/symdepot/internal/store/bucket"
	"github.com/symdepot/symdepot/internal/store/bucket/buckettest"
)

// retainChild makes the test binary a process that pushes builds into the depot
// named, applies its policy, restores builds and collects garbage, to be killed.
const retainChild = "SYMDEPOT_DEPOT_TEST_RETAIN"

// killPolicy keeps two of the builds.
const killPolicy = "retention:\n  classes: [{name: nightly, keep_last: 2}]\n  default: nightly\n  min_age: 0s\n  trash: 1h\n  brake: 100%\n"

// retainForever pushes, applies, restores and collects until it is killed, and
// prints each step.
func retainForever(where string) error {
	ctx := context.Background()
	d, err := openRetained(ctx, where)
	if err != nil {
		return err
	}
	if _, err := d.Retention.SetPolicy(ctx, "policy", []byte(killPolicy), "ci", -1); err != nil {
		return err
	}
	for n := 0; ; n++ {
		v := byte(os.Getpid() + n)
		for i := range byte(3) {
			files := killFiles(v + i)
			spec := killSpec(v + i)
			spec.Key = ""
			var number int64
			if err := pushAll(ctx, d, pusher("ci"), spec, files, &number); err != nil {
				return err
			}
			fmt.Println("pushed", number)
		}
		p, err := d.Retention.Preview(ctx, "ci")
		if err != nil {
			return err
		}
		fmt.Println("previewed", p.Ticket.Number)
		a, err := d.Retention.Apply(ctx, p.Ticket.Number, p.Builds(), "ci")
		if err != nil && !errors.Is(err, retention.ErrStale) {
			return err
		}
		fmt.Println("applied", a.Run.Removed)
		trash, _, _, err := d.Retention.Trash(ctx)
		if err != nil {
			return err
		}
		if len(trash) > 0 {
			if _, err := d.Retention.Undo(ctx, trash[n%len(trash)].Number, "ci"); err != nil {
				return err
			}
			fmt.Println("restored", trash[n%len(trash)].Number)
		}
		if n%3 == 1 {
			if _, err := d.Retention.Purge(ctx, trash[0].Number, "ci", "test"); err != nil {
				fmt.Println("not purged:", err)
			}
		}
		if _, err := d.Retention.Collect(ctx, lifecycle.CollectOptions{EmptyTrash: n%2 == 0}); err != nil {
			return err
		}
		fmt.Println("collected")
	}
}

// sharedDepot is a depot in PostgreSQL and a bucket, for other processes.
type sharedDepot struct{ Database, Endpoint, Bucket, User, Secret, Local string }

// openRetained opens the depot in a folder, or the one that the JSON of a
// sharedDepot names.
func openRetained(ctx context.Context, where string) (*Depot, error) {
	limits := stage.Limits{Open: 10_000} // each process that is killed may leave an open push
	if !strings.HasPrefix(where, "{") {
		return Open(ctx, where, Options{Stages: limits})
	}
	var s sharedDepot
	if err := json.Unmarshal([]byte(where), &s); err != nil {
		return nil, err
	}
	b, err := upstream.OpenBucket(&bucket.S3Config{Bucket: s.Bucket, Prefix: "depot", Endpoint: s.Endpoint, Region: "us-east-1", AccessKey: s.User, SecretKey: s.Secret},
		upstream.NewDialer(upstream.DialerOptions{}))
	if err != nil {
		return nil, err
	}
	return Open(ctx, s.Database, Options{Bucket: b, Local: s.Local, Stages: limits})
}

// TestRetentionKilledPostgres is TestRetentionKilled with PostgreSQL and a bucket.
func TestRetentionKilledPostgres(t *testing.T) {
	t.Parallel()
	if os.Getenv("SYMDEPOT_TORTURE") == "" {
		t.Skip("starts and kills processes for minutes: runs with make torture (SYMDEPOT_TORTURE=1)")
	}
	database, s3 := newDatabase(t), buckettest.S3(t)
	where, err := json.Marshal(sharedDepot{database, s3.Endpoint, s3.Bucket, s3.User, s3.Secret, t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	killRetaining(t, string(where), 40)
}

// TestRetentionKilled kills processes that apply a policy, restore builds and
// collect garbage, at random moments: the depot stays sound, each build is visible
// with all its files or not at all, and in the end nothing is left that no build
// holds.
func TestRetentionKilled(t *testing.T) {
	symtest.Unraced(t, "starts and kills processes for some seconds")
	t.Parallel()
	if testing.Short() {
		t.Skip("starts and kills processes for some seconds: run it without -short")
	}
	rounds := 8
	if os.Getenv("SYMDEPOT_TORTURE") != "" {
		rounds = 200
	}
	killRetaining(t, filepath.Join(t.TempDir(), "depot"), rounds)
}

// killRetaining kills processes that use the depot named, again and again.
func killRetaining(t *testing.T, where string, rounds int) {
	t.Helper()
	d, err := openRetained(t.Context(), where)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	rng := rand.New(rand.NewPCG(symtest.Seed(t, 3), 4))
	steps := map[string]int{}
	for range rounds {
		w := startChild(t, retainChild, where, 3+rng.IntN(25), time.Duration(rng.IntN(10))*time.Millisecond)
		w.killed(t, func(line string) bool {
			word, _, _ := strings.Cut(line, " ")
			steps[word]++
			return true
		})
		wantClean(t, d)
		if _, err := d.Check.Verify(t.Context(), func(f content.Fault) { t.Errorf("verify: %s, want no fault", f.What) }, nil); err != nil {
			t.Fatal(err)
		}
		if t.Failed() {
			t.Fatalf("after the steps %v, want no failure", steps)
		}
	}
	runs, err := d.db.Retention.Unfinished(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		if _, err := d.Retention.Finish(t.Context(), lifecycle.Applied{Run: r}); err != nil {
			t.Errorf("run %d: %v", r.No, err)
		}
	}
	// Blobs of killed pushes and purges have no rows: gc frees them after its grace.
	if _, err := d.Retention.Collect(t.Context(), lifecycle.CollectOptions{Grace: -time.Hour, EmptyTrash: true}); err != nil {
		t.Fatal(err)
	}
	// The temporary files of killed writers go when they are an hour old.
	if _, err := d.blobs.Sweep(t.Context(), -time.Hour); err != nil {
		t.Fatal(err)
	}
	u, err := d.Retention.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if on := keptBytes(t, d); on != u.Live+u.Cached {
		t.Errorf("%d bytes are kept, want the %d of builds and unfinished pushes", on, u.Live+u.Cached)
	}
	if steps["applied"] == 0 || steps["restored"] == 0 || steps["collected"] == 0 {
		t.Errorf("steps: %v, want some of each", steps)
	}
	wantClean(t, d)
}
