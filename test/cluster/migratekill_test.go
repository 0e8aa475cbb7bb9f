package cluster

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// treeSums returns the paths and hashes of all files below a folder.
func treeSums(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		fmt.Fprintf(&b, "%s %x\n", filepath.ToSlash(rel), sha256.Sum256(content))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestKilledMigrations kills migrations to PostgreSQL and a bucket, and back, at
// random moments and resumes them: the exports are equal, and no content is uploaded
// twice beyond what was under way.
func TestKilledMigrations(t *testing.T) {
	t.Parallel()
	kills := 2
	if torture() {
		kills = 40
	}
	const files = 550 // more than two groups of uploads
	c := commandtest.NewCluster(t, 0)
	src := t.TempDir()
	commandtest.SymFiles(t, filepath.Join(src, "a"), 1, files, 2000)
	commandtest.SymFiles(t, filepath.Join(src, "b"), 2, 20, 9000)
	old, back := filepath.Join(t.TempDir(), "old"), filepath.Join(t.TempDir(), "back")
	for _, args := range [][]string{{"add", "-p", "P", "-v", "1", filepath.Join(src, "a")}, {"add", "-p", "Q", src}, {"rm", "1"}} {
		if code, out, errs := commandtest.Symdepot(t, old, args...); code != 0 {
			t.Fatalf("symdepot %q: exit code %d, want 0\n%s%s", args, code, out, errs)
		}
	}
	database, blobs := c.Value("SYMDEPOT_DEPOT"), c.Value("SYMDEPOT_DEPOT_BLOBS")
	command := func(depot, blobs string, args ...string) *exec.Cmd {
		cmd := c.Command(t.Context(), append([]string{"--depot", depot}, args...)...)
		for i, kv := range cmd.Env {
			if strings.HasPrefix(kv, "SYMDEPOT_DEPOT_BLOBS=") {
				cmd.Env[i] = "SYMDEPOT_DEPOT_BLOBS=" + blobs
			}
		}
		return cmd
	}
	// ends runs a migration, kills it after a while unless that is zero, and reports
	// whether it has ended.
	ends := func(t *testing.T, cmd *exec.Cmd, after time.Duration) bool {
		t.Helper()
		var b bytes.Buffer
		cmd.Stdout, cmd.Stderr = &b, &b
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		killed := func() bool { return false }
		if after > 0 {
			timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
			killed = func() bool { return !timer.Stop() }
		}
		err := cmd.Wait()
		if hit := killed(); err == nil || hit {
			return err == nil
		}
		if !strings.Contains(b.String(), "was moved to") { // killed after its last step
			t.Fatalf("symdepot %q: %v, want no error, or that the depot was moved\n%s", cmd.Args[1:], err, b.String())
		}
		return true
	}
	must := func(t *testing.T, depot, blobs string, args ...string) string {
		t.Helper()
		out, err := command(depot, blobs, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("symdepot %q: %v, want no error\n%s", args, err, out)
		}
		return string(out)
	}
	describe := func(t *testing.T, depot, blobs string) string {
		t.Helper()
		dir := filepath.Join(t.TempDir(), "export")
		must(t, depot, blobs, "export", "--layout", "breakpad", dir)
		return must(t, depot, blobs, "list", "--all", "--json") + treeSums(t, dir)
	}
	rng := rand.New(rand.NewPCG(symtest.Seed(t, 5), 6))
	// migrate kills a migration again and again until it has ended.
	migrate := func(t *testing.T, from, fromBlobs string, args ...string) (killed int) {
		t.Helper()
		for span := 500 * time.Millisecond; ; span = span * 7 / 6 {
			after := time.Duration(1 + rng.Int64N(int64(span)))
			if killed == kills {
				after = 0
			}
			if ends(t, command(from, fromBlobs, append([]string{"depot", "migrate"}, args...)...), after) {
				return killed
			}
			killed++
		}
	}
	want := describe(t, old, "")
	// same checks the content of a depot.
	same := func(t *testing.T, depot, blobs string) {
		t.Helper()
		if got := describe(t, depot, blobs); got != want {
			t.Errorf("builds and exported files of %s:\n%swant those of the first depot:\n%s", depot, got, want)
		}
	}
	verify := func(t *testing.T, depot, blobs string) {
		t.Helper()
		if out := must(t, depot, blobs, "verify"); !strings.HasPrefix(out, "clean: ") {
			t.Errorf("verify of %s prints %q, want clean", depot, out)
		}
	}
	symtest.Step(t, "to PostgreSQL and a bucket", func(t *testing.T) {
		killed := migrate(t, old, "", "--to", database, "--to-blobs", blobs)
		contents := files + 20
		if n := c.Objects(t); n > contents+512*killed || n < contents {
			t.Errorf("%d objects for %d contents after %d kills, want at most two groups of 256 uploads twice for each kill", n, contents, killed)
		} else {
			t.Logf("%d kills, %d objects uploaded twice", killed, n-contents)
		}
		same(t, database, blobs)
		verify(t, database, blobs)
	})
	symtest.Step(t, "back to a folder", func(t *testing.T) {
		t.Logf("%d kills on the way back", migrate(t, database, blobs, "--to", back))
		same(t, back, "")
		verify(t, back, "")
	})
	t.Run("unmove of the first depot", func(t *testing.T) {
		must(t, old, "", "depot", "unmove")
		same(t, old, "")
	})
}
