package cluster

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

var transactionLine = regexp.MustCompile(`^build (\d+)`)

// TestNodes adds and removes through commands while three servers on one
// PostgreSQL database and one bucket answer: when a command returns, every
// server knows.
func TestNodes(t *testing.T) {
	t.Parallel()
	c := commandtest.NewCluster(t, 3)
	same := func(what, path string, want int) {
		t.Helper()
		if got := c.Statuses(t, path); !slices.Equal(got, []int{want, want, want}) {
			t.Errorf("%s: GET %s: %v from the three servers, want %d from each", what, path, got, want)
		}
	}
	dir := t.TempDir()
	paths := commandtest.RandomSyms(t, dir, 3, 100_000)
	for _, p := range paths {
		same("before the add", p, 404) // from now on each server remembers that it is missing
	}
	for i, p := range paths {
		c.Run(t, "add", "-p", "P", filepath.Join(dir, filepath.FromSlash(p)))
		same(fmt.Sprint("after add ", i+1), p, 200)
	}
	c.Run(t, "rm", "2")
	same("after rm", paths[1], 404)
	same("after rm of another", paths[0], 200)
	if out := c.Run(t, "verify"); !strings.HasPrefix(out, "clean: 3 contents") {
		t.Errorf("verify: %s, want %q at the beginning", out, "clean: 3 contents")
	}
	if out := c.Run(t, "gc", "--empty-trash", "--grace", "0s"); !strings.Contains(out, "1 object") || !strings.Contains(out, "wait in the bucket") {
		t.Errorf("gc: %s, want one object that waits in the bucket", out)
	}
	same("after gc", paths[2], 200)
}

// TestNodesStorm has several processes add and remove at once, half of them the
// same files, while three servers answer. Then every acknowledged transaction is
// there, the numbers have no gaps, and all servers agree.
func TestNodesStorm(t *testing.T) {
	t.Parallel()
	writers, rounds := 3, 3
	if os.Getenv("SYMDEPOT_TORTURE") != "" {
		writers, rounds = 10, 30
	}
	seed := symtest.Seed(t, 1)
	c := commandtest.NewCluster(t, 3)
	shared := t.TempDir()
	common := commandtest.RandomSyms(t, shared, 5, 20_000)
	var mu sync.Mutex
	var numbers []int
	kept := map[string]bool{} // paths that some transaction certainly holds
	for _, p := range common {
		kept[p] = true
	}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed+uint64(w), 1))
			for r := range rounds {
				own := t.TempDir()
				paths := commandtest.RandomSyms(t, own, 2, 30_000+1000*(w*rounds+r))
				out, err := c.Command(t.Context(), "add", shared, own).Output()
				m := transactionLine.FindStringSubmatch(string(out))
				if err != nil || m == nil {
					t.Errorf("add: %v\n%s\nwant success and the number of the build", err, out)
					return
				}
				n, _ := strconv.Atoi(m[1])
				mu.Lock()
				numbers = append(numbers, n)
				mu.Unlock()
				for _, p := range paths {
					if got := c.Statuses(t, p); !slices.Equal(got, []int{200, 200, 200}) {
						t.Errorf("GET %s after build %d: %v, want 200 from each server", p, n, got)
					}
				}
				if rng.IntN(3) == 0 && r+1 < rounds {
					if out, err := c.Command(t.Context(), "rm", m[1]).CombinedOutput(); err != nil {
						t.Errorf("CombinedOutput: %s, error %v, %s; want no error", m[1], err, out)
					}
					continue
				}
				mu.Lock()
				for _, p := range paths {
					kept[p] = true
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.Sort(numbers)
	for i, n := range numbers {
		if n != i+1 {
			t.Fatalf("build numbers %v have a gap or a repetition at %d", numbers, i+1)
		}
	}
	for p := range kept {
		if got := c.Statuses(t, p); !slices.Equal(got, []int{200, 200, 200}) {
			t.Errorf("GET %s in the end: %v, want 200 from each server", p, got)
		}
	}
	c.Run(t, "gc", "--empty-trash", "--grace", "0s")
	if out := c.Run(t, "verify"); !strings.HasPrefix(out, "clean: ") {
		t.Errorf("verify: %s, want %q at the beginning", out, "clean: ")
	}
}

// TestMigrate moves a depot from a folder to PostgreSQL and a bucket and back:
// the files, numbers and listings stay the same, and each moved depot is
// refused until it is unmoved.
func TestMigrate(t *testing.T) {
	t.Parallel()
	c := commandtest.NewCluster(t, 0)
	src := t.TempDir()
	paths := commandtest.RandomSyms(t, src, 20, 50_000)
	old, back := filepath.Join(t.TempDir(), "old"), filepath.Join(t.TempDir(), "back")
	for i, args := range [][]string{{"add", "-p", "P", "-v", "1", src}, {"add", "-p", "Q", src}, {"rm", "1"}} {
		if code, out, errs := commandtest.Symdepot(t, old, args...); code != 0 {
			t.Fatalf("command %d: %s%s, want exit code 0", i, out, errs)
		}
	}
	in := func(depot, blobs string, args ...string) (string, error) {
		t.Helper()
		cmd := c.Command(t.Context(), append([]string{"--depot", depot}, args...)...)
		for i, kv := range cmd.Env {
			if strings.HasPrefix(kv, "SYMDEPOT_DEPOT_BLOBS=") {
				cmd.Env[i] = "SYMDEPOT_DEPOT_BLOBS=" + blobs
			}
		}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	must := func(depot, blobs string, args ...string) string {
		t.Helper()
		out, err := in(depot, blobs, args...)
		if err != nil {
			t.Fatalf("symdepot %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return out
	}
	database, bucket := c.Value("SYMDEPOT_DEPOT"), c.Value("SYMDEPOT_DEPOT_BLOBS")
	want := must(old, "", "list", "--all", "--json")
	if out := must(old, "", "depot", "migrate", "--to", database, "--to-blobs", bucket); !strings.Contains(out, "20 contents") {
		t.Errorf("migrate: %s, want 20 contents", out)
	}
	if out, err := in(old, "", "list"); err == nil || !strings.Contains(out, "was moved to postgres://") {
		t.Errorf("the old depot after the migration: %v, want an error and %q in the output\n%s", err, "was moved to postgres://", out)
	}
	if got := must(database, bucket, "list", "--all", "--json"); got != want {
		t.Errorf("builds in PostgreSQL:\n%swant\n%s", got, want)
	}
	if out := must(database, bucket, "verify"); !strings.HasPrefix(out, "clean: 20 contents") {
		t.Errorf("verify in PostgreSQL: %s, want %q at the beginning", out, "clean: 20 contents")
	}
	must(database, bucket, "depot", "migrate", "--to", back)
	if out, err := in(database, bucket, "list"); err == nil || !strings.Contains(out, "was moved") {
		t.Errorf("the database after the migration back: %v, want an error and %q in the output\n%s", err, "was moved", out)
	}
	if got := must(back, "", "list", "--all", "--json"); got != want {
		t.Errorf("builds back in a folder:\n%swant\n%s", got, want)
	}
	s := commandtest.ServeDepot(t, back, "--quiet")
	for _, p := range paths {
		status, _, _, err := commandtest.FetchURL(t.Context(), http.DefaultClient, s.URL+p)
		if err != nil || status != 200 {
			t.Errorf("GET %s from the depot that came back: %d, %v; want no error and 200", p, status, err)
		}
	}
	must(old, "", "depot", "unmove")
	if got := must(old, "", "list", "--all", "--json"); got != want {
		t.Errorf("the first depot after unmove:\n%swant\n%s", got, want)
	}
	if out := must(old, "", "add", "-p", "R", src); !strings.HasPrefix(out, "build 3") {
		t.Errorf("add after unmove: %s, want build 3", out)
	}
}
