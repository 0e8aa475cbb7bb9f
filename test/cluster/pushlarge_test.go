package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// needTorture skips a test that takes minutes and gigabytes.
func needTorture(t *testing.T) {
	t.Helper()
	if !torture() {
		t.Skip("takes minutes and gigabytes: run it with SYMDEPOT_TORTURE=1")
	}
}

// maxPushMemory is how much memory a server may take for any push, in MiB.
const maxPushMemory = 128

// TestPushSparse pushes a sparse file of 5 GiB, and the server is killed in the
// middle: what has arrived is not sent again, and the memory stays small.
func TestPushSparse(t *testing.T) {
	t.Parallel()
	needTorture(t)
	const size = 5 << 30
	p := commandtest.NewPushDepot(t)
	src := t.TempDir()
	file := filepath.Join(src, "libprog.so")
	if err := os.WriteFile(file, commandtest.Testdata(t, "elf/libprog.so"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, size); err != nil {
		t.Fatal(err)
	}
	cmd := p.Command(t, "push", "--product", "app", "--version", "1", "--json", src)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	start := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	symtest.Await(t, 20*time.Minute, "a tenth of the parts", func() bool {
		select {
		case err := <-ended: // in a TMPDIR below 54 GB: a server keeps a tenth of its disk for pushes
			t.Fatalf("the push ended before a tenth was sent: %v\n%s%s", err, stdout.String(), stderr.String())
		default:
		}
		list, err := filepath.Glob(filepath.Join(p.Dir, "staged", "*", "*.part"))
		if err != nil || len(list) == 0 {
			return false
		}
		info, err := os.Stat(list[0])
		return err == nil && info.Size() > size/10
	})
	p.Kill(t)
	if err := <-ended; err != nil {
		t.Fatalf("push: %v\n%s%s", err, stdout.String(), stderr.String())
	}
	if want := fmt.Sprintf(`"sent_bytes":%d,`, int64(size)); !strings.Contains(stdout.String(), want) {
		t.Errorf("push: %s\nwant %s: each part is counted once", stdout.String(), want)
	}
	peak, _ := commandtest.Resident(t, p.Serving.Cmd.Process.Pid)
	t.Logf("5 GiB: %.1f s, peak of the server that was started again %.0f MiB (want at most %d)", time.Since(start).Seconds(), peak, maxPushMemory)
	if peak > maxPushMemory {
		t.Errorf("the server took %.0f MiB, want at most %d", peak, maxPushMemory)
	}
	if out := p.Must(t, "verify"); !strings.HasPrefix(out, "clean: ") {
		t.Errorf("verify: %s, want clean", out)
	}
}

// TestPushManyFiles pushes 200,000 small files, and again.
func TestPushManyFiles(t *testing.T) {
	t.Parallel()
	needTorture(t)
	const files = 200_000
	p := commandtest.NewPushDepot(t)
	src := t.TempDir()
	for i := range files / 1000 {
		commandtest.SymFiles(t, filepath.Join(src, fmt.Sprint(i)), i, 1000, 300)
	}
	start := time.Now()
	out := p.Must(t, "push", "--product", "app", "--version", "1", "--json", src)
	first := time.Since(start)
	if want := fmt.Sprintf(`"files":%d,`, files); !strings.Contains(out, want) {
		t.Errorf("push: %s\nwant %s", last(out), want)
	}
	peak, _ := commandtest.Resident(t, p.Serving.Cmd.Process.Pid)
	start = time.Now()
	again := p.Must(t, "push", "--product", "app", "--version", "1", "--json", src)
	t.Logf("200,000 files: %.1f s, again %.1f s; peak of the server %.0f MiB", first.Seconds(), time.Since(start).Seconds(), peak)
	if !strings.Contains(again, `"sent_bytes":0,`) || len(transactions(t, p.Dir)) != 2 {
		t.Errorf("a rerun: %s\nwant nothing sent and no second build", last(again))
	}
	if got := transactions(t, p.Dir)[2]; got != files {
		t.Errorf("the build has %d objects, want %d", got, files)
	}
}

// last returns the last line of a text.
func last(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// TestNodesKilledClients kills clients that push through a balancer to three
// servers with PostgreSQL at random moments: nothing partial is visible, and a rerun
// with the same key finishes.
func TestNodesKilledClients(t *testing.T) {
	t.Parallel()
	needTorture(t)
	const rounds, files = 50, 20
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte("depot: {peer_listen: \"127.0.0.1:0\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := commandtest.NewClusterWith(t, 3, func(int) []string { return []string{"--config", config, "--auth"} })
	token, _, _ := strings.Cut(c.Run(t, "token", "new", "--name", "ci", "--scope", "write", "--scope", "read", "--product", "app"), "\n")
	b := commandtest.NewBalancer(t)
	b.Reset(c.Nodes)
	rng := rand.New(rand.NewPCG(symtest.Seed(t, 0), 1))
	src := t.TempDir()
	push := func(round int) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "symdepot", "push", "--product", "app", "--version", fmt.Sprint(round), "--key", fmt.Sprint(round), "--json", filepath.Join(src, fmt.Sprint(round)))
		cmd.Env = append(os.Environ(), "HOME="+src, "SYMDEPOT_SERVER="+b.URL, "SYMDEPOT_TOKEN="+token)
		return cmd
	}
	number := regexp.MustCompile(`"build":(\d+)`)
	seen := map[string]bool{}
	span, killed := 3*time.Second, 0
	for round := 1; round <= rounds; round++ {
		dir := filepath.Join(src, fmt.Sprint(round))
		commandtest.SymFiles(t, dir, round, files, 20_000)
		bigSym(t, dir, round, 40<<20) // three parts
		cmd := push(round)
		start := time.Now()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		timer := time.NewTimer(time.Duration(rng.Int64N(int64(span))))
		select {
		case <-ended:
			span = time.Since(start) // the machine's speed changes
		case <-timer.C:
			_ = cmd.Process.Kill()
			<-ended
			killed++
			if out := c.Run(t, "list", "--product", "app"); strings.Count(out, "app") > round {
				t.Fatalf("round %d: %s\nwant one build a round", round, out)
			}
		}
		timer.Stop()
		out, err := push(round).Output()
		m := number.FindSubmatch(out)
		if err != nil || m == nil || seen[string(m[1])] || !strings.Contains(string(out), fmt.Sprintf(`"files":%d,`, files+1)) {
			if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
				err = fmt.Errorf("%w: %s", err, exit.Stderr)
			}
			t.Fatalf("round %d: a rerun: %v\n%s\nwant a build of its own with %d files", round, err, last(string(out)), files+1)
		}
		seen[string(m[1])] = true
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d clients were killed in %d rounds", killed, rounds)
	if out := c.Run(t, "list", "--product", "app"); strings.Count(out, "app") != rounds {
		t.Errorf("list: %s, want %d builds", out, rounds)
	}
	if out := c.Run(t, "verify"); !strings.HasPrefix(out, "clean: ") {
		t.Errorf("verify: %s, want clean", out)
	}
}
