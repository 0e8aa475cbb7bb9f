package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/run/client"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// bigSym writes a Breakpad file of about size bytes, which compresses well.
func bigSym(t *testing.T, dir string, series, size int) {
	t.Helper()
	line := fmt.Sprintf("PUBLIC 2000 0 g%d\n", series)
	body := fmt.Sprintf("MODULE Linux x86_64 %s big%d.so\nFUNC 1000 10 0 f\n", commandtest.SymID(series, 1000), series) + strings.Repeat(line, size/len(line))
	if err := os.WriteFile(filepath.Join(dir, "big.so.sym"), []byte(body), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestKilledPushes kills clients and servers of pushes at random moments: nothing
// partial is visible, a client whose server was killed finishes, and so does a
// rerun of a killed client. When the stages have expired, nothing of them is left.
func TestKilledPushes(t *testing.T) {
	t.Parallel()
	rounds := 4
	switch {
	case torture():
		rounds = 200
	case testing.Short():
		rounds = 2
	}
	const files = 30
	p := commandtest.NewPushDepot(t)
	src := t.TempDir()
	rng := rand.New(rand.NewPCG(symtest.Seed(t, 0), 1))
	want := map[int64]int64{1: transactions(t, p.Dir)[1]} // objects by transaction
	push := func(round int) *exec.Cmd {
		dir := filepath.Join(src, fmt.Sprint(round))
		commandtest.SymFiles(t, dir, round, files, 4000)
		if round%3 == 0 {
			bigSym(t, dir, round, 40<<20) // three parts
		}
		cmd := p.Command(t, "push", "--product", "app", "--version", fmt.Sprint(round), "--key", fmt.Sprint(round), "--json", dir)
		if rng.IntN(2) == 0 { // no balancer answers while the server is down
			cmd.Env = append(cmd.Env, "SYMDEPOT_SERVER="+p.Serving.URL)
		}
		return cmd
	}
	number := regexp.MustCompile(`"build":(\d+)`)
	finish := func(round int, out []byte, err error) {
		t.Helper()
		m := number.FindSubmatch(out)
		if err != nil || m == nil {
			if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
				err = fmt.Errorf("%w: %s", err, exit.Stderr)
			}
			t.Fatalf("round %d: push: %v\n%s\nwant a build", round, err, out)
		}
		n, _ := strconv.ParseInt(string(m[1]), 10, 64)
		if want[n] != 0 {
			t.Fatalf("round %d: build %d, which an earlier push made, want a new one", round, n)
		}
		want[n] = files
		if round%3 == 0 {
			want[n]++
		}
	}
	span := map[bool]time.Duration{} // of an undisturbed push, with a large file and without
	for round := range 2 {
		start := time.Now()
		out, err := push(round).Output()
		finish(round, out, err)
		span[round%3 == 0] = time.Since(start)
	}
	killed := map[bool]int{}
	round := 1
	for killed[true]+killed[false] < rounds {
		round++
		cmd := push(round)
		var stdout, stderr strings.Builder
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		start := time.Now()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		var err error
		timer := time.NewTimer(time.Duration(rng.Int64N(int64(span[round%3 == 0]))))
		server := rng.IntN(2) == 0
		var done bool
		select {
		case err = <-ended:
			done = true
			span[round%3 == 0] = time.Since(start) // the machine's speed changes
		case <-timer.C:
			killed[server]++
			if server {
				p.Kill(t)
			} else {
				_ = cmd.Process.Kill()
			}
			err = <-ended
			done = server // the client goes on
		}
		timer.Stop()
		if !done {
			list := transactions(t, p.Dir)
			for n, objects := range list {
				if want[n] == 0 && objects < files {
					t.Fatalf("round %d: build %d has %d files after the client was killed, want all or none", round, n, objects)
				}
			}
			out, rerr := p.Command(t, cmd.Args[1:]...).Output()
			finish(round, out, rerr)
		} else {
			finish(round, []byte(stdout.String()), errors.Join(err, nonEmpty(err, stderr.String())))
		}
		if round%5 == 0 {
			out := p.Must(t, cmd.Args[1:]...)
			if !strings.Contains(out, `"sent_bytes":0,`) || len(transactions(t, p.Dir)) != len(want) {
				t.Errorf("round %d: a rerun: %s\nwant nothing sent and no second build", round, out)
			}
		}
		if err := os.RemoveAll(filepath.Join(src, fmt.Sprint(round))); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d servers and %d clients were killed in %d pushes", killed[true], killed[false], round)
	got := transactions(t, p.Dir)
	if len(got) != len(want) {
		t.Errorf("%d builds, want %d", len(got), len(want))
	}
	for n, objects := range want {
		if got[n] != objects {
			t.Errorf("build %d has %d objects, want %d", n, got[n], objects)
		}
	}
	if out := p.Must(t, "verify"); !strings.HasPrefix(out, "clean: ") {
		t.Errorf("verify: %s, want clean", out)
	}

	// A stage that nobody finishes.
	dir := filepath.Join(src, "left")
	commandtest.SymFiles(t, dir, round+1, 5, 4000)
	c := p.Pusher()
	st, err := c.Open(t.Context(), wire.PushSpec{Product: "app", Version: "left"})
	if err == nil {
		_, err = c.Do(t.Context(), client.PushOptions{Stage: st.ID, Paths: []string{dir}})
	}
	if err != nil {
		t.Fatal(err)
	}
	p.Stop(t)
	staged := func() int {
		list, err := os.ReadDir(filepath.Join(p.Dir, "staged"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return len(list)
	}
	if staged() == 0 {
		t.Error("an unfinished push has no folder: the test shows nothing")
	}
	if !clockTurns() {
		return // nothing expires before a day has passed
	}
	p.Env["SYMDEPOT_TEST_CLOCK"] = "48h"
	p.Start(t)
	symtest.Await(t, 2*time.Minute, "the end of an unfinished push", func() bool { return staged() == 0 })
	if len(transactions(t, p.Dir)) != len(want) {
		t.Error("a push that has expired is visible")
	}
}

// nonEmpty returns text as an error if there is an error already.
func nonEmpty(err error, text string) error {
	if err == nil {
		return nil
	}
	return errors.New(text)
}

// TestPushAgents: thirty agents that push at once make thirty whole transactions,
// no writer waits for more than a second, and reruns send nothing.
func TestPushAgents(t *testing.T) {
	t.Parallel()
	const agents, own, shared = 30, 40, 10
	p := commandtest.NewPushDepot(t)
	all, _, _ := strings.Cut(p.Must(t, "token", "new", "--name", "all", "--scope", "read"), "\n")
	src := t.TempDir()
	commandtest.SymFiles(t, filepath.Join(src, "shared"), 1000, shared, 20_000)
	for i := range agents {
		commandtest.SymFiles(t, filepath.Join(src, fmt.Sprint(i)), i, own, 20_000)
	}
	run := func() (results [agents]client.PushResult) {
		var wg sync.WaitGroup
		for i := range agents {
			wg.Go(func() {
				r, err := p.Pusher().Do(t.Context(), client.PushOptions{PushSpec: wire.PushSpec{Product: "app", Version: fmt.Sprint(i)},
					Paths: []string{filepath.Join(src, fmt.Sprint(i)), filepath.Join(src, "shared")}})
				if err != nil || r.Files != own+shared {
					t.Errorf("agent %d: %d files, %v; want %d", i, r.Files, err, own+shared)
				}
				results[i] = r
			})
		}
		wg.Wait()
		return results
	}
	first := run()
	list := transactions(t, p.Dir)
	var numbers []int64
	for i, r := range first {
		if list[r.Transaction] != own+shared || slices.Contains(numbers, r.Transaction) {
			t.Errorf("agent %d: build %d with %d files, want one of its own with %d", i, r.Transaction, list[r.Transaction], own+shared)
		}
		numbers = append(numbers, r.Transaction)
	}
	for i, r := range run() {
		if r.Transaction != first[i].Transaction || r.SentBytes != 0 || !r.Again {
			t.Errorf("rerun of agent %d: %+v; want nothing sent and build %d", i, r.PushCommitted, first[i].Transaction)
		}
	}
	text := p.Metrics(t, all)
	for _, what := range []string{"lock", "commit"} {
		value := func(name string) string {
			m := regexp.MustCompile(`(?m)^symdepot_index_wait_seconds_` + regexp.QuoteMeta(name) + ` (\S+)$`).FindStringSubmatch(text)
			if m == nil {
				t.Fatalf("no metric symdepot_index_wait_seconds_%s", name)
			}
			return m[1]
		}
		within, count := value(`bucket{for="`+what+`",le="1"}`), value(`count{for="`+what+`"}`)
		switch {
		case within == count:
		case symtest.Wine() != "":
			t.Logf("waits for %s: %s of %s are not longer than a second; one process of Wine serves all others", what, within, count)
		default:
			t.Errorf("waits for %s: %s of %s are not longer than a second, want all", what, within, count)
		}
		t.Logf("waits for %s: %s, up to 0.1 s %s, up to 0.3 s %s, sum %s s", what, count, value(`bucket{for="`+what+`",le="0.1"}`), value(`bucket{for="`+what+`",le="0.3"}`), value(`sum{for="`+what+`"}`))
	}
	if out := p.Must(t, "verify"); !strings.HasPrefix(out, "clean: ") {
		t.Errorf("verify: %s, want clean", out)
	}
}
