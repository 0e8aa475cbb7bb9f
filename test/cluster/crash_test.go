package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/run/command"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// torture reports whether the long forms of the proofs were asked for.
func torture() bool { return os.Getenv("SYMDEPOT_TORTURE") != "" }

// transactions lists what the depot says it holds: number to objects.
func transactions(t *testing.T, depot string) map[int64]int64 {
	t.Helper()
	code, out, errs := commandtest.Symdepot(t, depot, "list", "--json")
	if code == command.ExitDepot {
		return nil // killed before there was one
	}
	if code != 0 {
		t.Fatalf("list: exit %d, want 0: %s", code, errs)
	}
	txs := map[int64]int64{}
	for dec := json.NewDecoder(strings.NewReader(out)); ; {
		var l display.Transaction
		if err := dec.Decode(&l); errors.Is(err, io.EOF) {
			return txs
		} else if err != nil {
			t.Fatal(err)
		}
		txs[l.Transaction] = l.Objects
	}
}

// TestKilledAdds kills adds at random moments: the depot must verify clean each
// time, hold every transaction that was reported, and no partial one.
func TestKilledAdds(t *testing.T) {
	t.Parallel()
	rounds := 8
	switch {
	case torture() && symtest.Wine() != "":
		rounds = 100
	case torture():
		rounds = 200
	case testing.Short():
		rounds = 5
	}
	const files = 60
	depot := filepath.Join(t.TempDir(), "depot")
	src := t.TempDir()
	rng := rand.New(rand.NewPCG(symtest.Seed(t, 1), 2))

	// One undisturbed add tells how long there is to kill.
	commandtest.SymFiles(t, filepath.Join(src, "0"), 0, files, 4000)
	start := time.Now()
	if code, _, errs := commandtest.Symdepot(t, depot, "add", filepath.Join(src, "0")); code != 0 {
		t.Fatalf("exit %d, want 0: %s", code, errs)
	}
	span := time.Since(start)

	committed := map[int]bool{0: true}
	killed := 0
	for round := 1; round <= rounds; round++ {
		dir := filepath.Join(src, fmt.Sprint(round))
		commandtest.SymFiles(t, dir, round, files, 4000)
		cmd := exec.CommandContext(t.Context(), "symdepot", "--depot", depot, "add", dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		kill := time.AfterFunc(time.Duration(rng.Int64N(int64(span))), func() { _ = cmd.Process.Kill() })
		err := cmd.Wait()
		kill.Stop()
		if err == nil {
			committed[round] = true
			span = time.Since(start) // the machine's speed changes
		} else {
			killed++
		}
		if code, out, errs := commandtest.Symdepot(t, depot, "verify"); code != 0 {
			t.Fatalf("round %d: verify: exit %d, want 0\n%s%s", round, code, out, errs)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	txs := transactions(t, depot)
	for n, objects := range txs {
		if objects != files {
			t.Errorf("build %d has %d objects instead of %d", n, objects, files)
		}
	}
	if len(txs) < len(committed) {
		t.Errorf("the depot has %d builds, want at least the %d that were reported", len(txs), len(committed))
	}
	for round := range committed {
		for _, i := range []int{0, files - 1} {
			if code, _, errs := commandtest.Symdepot(t, depot, "find", commandtest.SymID(round, i)); code != 0 {
				t.Errorf("round %d was reported, but file %d is not found: %s", round, i, errs)
			}
		}
	}
	if code, _, errs := commandtest.Symdepot(t, depot, "gc", "--grace", "0s"); code != 0 {
		t.Errorf(`symdepot("gc", "--grace", "0s"): %s, %v; want 0`, errs, code)
	}
	if code, out, _ := commandtest.Symdepot(t, depot, "verify"); code != 0 || strings.Contains(out, "interrupted") {
		t.Errorf("after gc: exit %d, want 0 and no %q in the output: %s", code, "interrupted", out)
	}
	t.Logf("%d of %d adds were killed", killed, rounds)
	if killed == 0 {
		t.Error("no add was killed in time; the test proves nothing")
	}
}

// TestConcurrentAdds lets many processes add to one depot at once.
func TestConcurrentAdds(t *testing.T) {
	t.Parallel()
	procs, files := 12, int64(40)
	switch {
	case torture() && symtest.Wine() != "":
		procs, files = 10, 60
	case torture():
		procs, files = 30, 60
	case testing.Short():
		procs, files = 10, 10
	}
	depot := filepath.Join(t.TempDir(), "depot")
	src := t.TempDir()
	var wg sync.WaitGroup
	for p := range procs {
		commandtest.SymFiles(t, filepath.Join(src, fmt.Sprint(p)), p, int(files), 400)
	}
	for p := range procs {
		wg.Go(func() {
			if code, out, errs := commandtest.Symdepot(t, depot, "add", "-p", fmt.Sprint("p", p), filepath.Join(src, fmt.Sprint(p))); code != 0 {
				t.Errorf("process %d: exit %d, want 0\n%s%s", p, code, out, errs)
			}
		})
	}
	wg.Wait()
	txs := transactions(t, depot)
	if len(txs) != procs {
		t.Errorf("%d builds instead of %d", len(txs), procs)
	}
	for n := int64(1); n <= int64(procs); n++ {
		if txs[n] != files {
			t.Errorf("build %d has %d objects instead of %d", n, txs[n], files)
		}
	}
	if code, out, _ := commandtest.Symdepot(t, depot, "verify"); code != 0 {
		t.Errorf("verify: %s, want exit code 0", out)
	}
}
