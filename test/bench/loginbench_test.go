package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// TestBenchCredential measures what a debugger waits for a credential from the cache: a process of
// symdepot credential, beside one of symdepot version, alternated.
func TestBenchCredential(t *testing.T) {
	commandtest.NeedBench(t, "curl")
	dir := t.TempDir()
	config := filepath.Join(dir, "server.yaml")
	commandtest.Write(t, config, fmt.Sprintf("auth:\n  users_file: %s\n  grants: [{who: [alice], read: ['*']}]\n", commandtest.WriteUsers(t, dir, "alice")))
	s := commandtest.ServeDepot(t, filepath.Join(dir, "depot"), "--config", config)
	env := append(os.Environ(), "HOME="+dir, "SYMDEPOT_KEYRING=file", "SYMDEPOT_BROWSER=curl -s -o "+filepath.Join(dir, "page")+" -u alice:secret -L -d answer=allow")
	run := func(want, input string, args ...string) time.Duration {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "symdepot", args...)
		cmd.Env, cmd.Dir, cmd.Stdin = env, dir, strings.NewReader(input)
		begun := time.Now()
		out, err := cmd.CombinedOutput()
		took := time.Since(begun)
		if err != nil || !strings.Contains(string(out), want) {
			t.Fatalf("%q: %v, want %q in\n%s", args, err, want, out)
		}
		return took
	}
	run("Signed in", "", "login", s.URL)
	input := "protocol=http\nhost=" + strings.TrimPrefix(s.URL, "http://") + "\n\n"
	var took, bare []time.Duration
	for range 21 {
		took = append(took, run("header=Bearer sd_", input, "credential", "Get"))
		bare = append(bare, run("symdepot", "", "version"))
	}
	slices.Sort(took)
	slices.Sort(bare)
	median := took[len(took)/2]
	fmt.Printf("credential from the cache, median of %d processes: %v (%v to %v); version: %v; at most 100 ms: %s\n",
		len(took), median.Round(time.Millisecond), took[0].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond),
		bare[len(bare)/2].Round(time.Millisecond), commandtest.Verdict(median <= 100*time.Millisecond))
}
