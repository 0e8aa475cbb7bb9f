package cluster

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// killAfter runs a command and kills it after a while. It reports whether the
// command had ended by itself, and how long it took.
func killAfter(t *testing.T, d time.Duration, args ...string) (ended bool, took time.Duration) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "symdepot", args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	start := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(d, func() { _ = cmd.Process.Kill() })
	err := cmd.Wait()
	took = time.Since(start)
	if kill.Stop() && err != nil { // it failed before it was killed
		t.Fatalf("symdepot %s: %v\n%s", strings.Join(args, " "), err, out.String())
	}
	return err == nil, took
}

// verifyClean verifies a depot.
func verifyClean(t *testing.T, what, dir string) {
	t.Helper()
	if code, out, errs := commandtest.Symdepot(t, dir, "verify"); code != 0 {
		t.Fatalf("%s: verify: exit %d, want 0\n%s%s", what, code, out, errs)
	}
}

// TestKilledBackups kills backups and restorations at random moments while four
// processes add, remove and collect. The backup is a whole depot each time, and so
// is the restored one.
func TestKilledBackups(t *testing.T) {
	t.Parallel()
	rounds, files := 4, 20
	switch {
	case torture() && runtime.GOOS == "windows": // a process takes several times as long to start
		rounds, files = 12, 40
	case torture():
		rounds, files = 50, 40
	}
	root := t.TempDir()
	depot, backup, restored := filepath.Join(root, "depot"), filepath.Join(root, "backup"), filepath.Join(root, "restored")
	src := filepath.Join(root, "src")
	commandtest.SymFiles(t, filepath.Join(src, "base"), 0, 3*files, 20_000)
	if code, _, errs := commandtest.Symdepot(t, depot, "add", "-p", "base", filepath.Join(src, "base")); code != 0 {
		t.Fatalf("add: exit %d, want 0: %s", code, errs)
	}

	stop := make(chan struct{})
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() { churn(t, depot, filepath.Join(src, fmt.Sprint(w)), w, files, stop) })
	}
	rng := rand.New(rand.NewPCG(symtest.Seed(t, 7), 8))
	span, killed := 2*time.Second, 0
	for round := range rounds {
		ended, took := killAfter(t, time.Duration(rng.Int64N(int64(span))), "--depot", depot, "depot", "backup", "--to", backup)
		if ended {
			span = took
		} else {
			killed++
			span = min(span*5/4, 10*time.Second)
		}
		if _, err := os.Stat(filepath.Join(backup, "depot.json")); err == nil {
			verifyClean(t, fmt.Sprintf("the backup after round %d", round), backup)
		}
	}
	// One that nobody kills, still while others write.
	if code, out, errs := commandtest.Symdepot(t, depot, "depot", "backup", "--to", backup, "--verify"); code != 0 {
		t.Fatalf("backup: exit %d, want 0\n%s%s", code, out, errs)
	}
	close(stop)
	writers.Wait()
	verifyClean(t, "the depot", depot)
	verifyClean(t, "the backup", backup)
	t.Logf("%d of %d backups were killed", killed, rounds)
	if killed == 0 {
		t.Error("no backup was killed in time; the test proves nothing")
	}

	// Restorations, over nothing and over a depot that holds something else.
	_, want, _ := commandtest.Symdepot(t, backup, "list", "--all", "--json")
	killed, span = 0, time.Second
	for round := range rounds {
		if err := os.RemoveAll(restored); err != nil {
			t.Fatal(err)
		}
		before := ""
		if round%2 == 1 {
			if code, _, errs := commandtest.Symdepot(t, restored, "add", "-p", "other", filepath.Join(src, "base", "lib0-1.so.sym")); code != 0 {
				t.Fatalf("add: exit %d, want 0: %s", code, errs)
			}
			_, before, _ = commandtest.Symdepot(t, restored, "list", "--all", "--json")
		}
		ended, took := killAfter(t, time.Duration(rng.Int64N(int64(span))), "--depot", restored, "depot", "restore", "--from", backup, "--replace")
		if ended {
			span = took
		} else {
			killed++
			span = min(span*5/4, 10*time.Second)
		}
		if _, err := os.Stat(filepath.Join(restored, "depot.json")); err == nil {
			verifyClean(t, fmt.Sprintf("the restored depot after round %d", round), restored)
			if _, got, _ := commandtest.Symdepot(t, restored, "list", "--all", "--json"); got != want && got != before {
				t.Fatalf("round %d: the depot lists\n%swant that of the backup\n%sor its own\n%s", round, got, want, before)
			}
		}
		// What was interrupted can be done again.
		if code, out, errs := commandtest.Symdepot(t, restored, "depot", "restore", "--from", backup, "--replace"); code != 0 {
			t.Fatalf("round %d: restore again: exit %d, want 0\n%s%s", round, code, out, errs)
		}
		if _, got, _ := commandtest.Symdepot(t, restored, "list", "--all", "--json"); got != want {
			t.Fatalf("round %d: the restored depot lists\n%swant\n%s", round, got, want)
		}
	}
	verifyClean(t, "the restored depot", restored)
	t.Logf("%d of %d restorations were killed", killed, rounds)
	if killed == 0 {
		t.Error("no restoration was killed in time; the test proves nothing")
	}
	if err := filepath.WalkDir(backup, func(path string, e fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(e.Name(), ".new.db") {
			t.Errorf("left behind: %s", path)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// churn adds, removes and collects until stop is closed.
func churn(t *testing.T, depot, dir string, series, files int, stop chan struct{}) {
	for n := 1; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		commandtest.SymFiles(t, dir, 100*(series+1)+n, files/4, 4000)
		code, out, errs := commandtest.Symdepot(t, depot, "add", "-p", fmt.Sprint("w", series), dir)
		// A collection without grace may free what is being added.
		if code != 0 && !strings.Contains(errs, "while it was being added") && !strings.Contains(errs, "was deleted while") {
			t.Errorf("add: exit %d\n%s%s\nwant exit 0, or a file that changed or was deleted while it was added", code, out, errs)
			return
		}
		if m := transactionLine.FindStringSubmatch(out); code == 0 && m != nil && n%3 != 0 {
			if code, _, errs := commandtest.Symdepot(t, depot, "rm", m[1]); code != 0 {
				t.Errorf("rm %s: exit %d, want 0: %s", m[1], code, errs)
			}
		}
		if series == 0 {
			if code, _, errs := commandtest.Symdepot(t, depot, "gc", "--empty-trash", "--grace", "0s"); code != 0 {
				t.Errorf("gc: exit %d, want 0: %s", code, errs)
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	}
}
