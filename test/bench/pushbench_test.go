package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/run/client"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// TestBenchPush compares pushing 2 GiB in 2,000 files over loopback with adding
// them, and a push of the same again with hashing them. Client and server share
// the processors.
func TestBenchPush(t *testing.T) {
	commandtest.NeedBench(t, "sha256sum")
	const files, size = 2000, 1 << 20
	src := t.TempDir()
	commandtest.RandomSyms(t, src, files, size)
	timed := func(name string, args ...string) float64 {
		start := time.Now()
		if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		return time.Since(start).Seconds()
	}
	hash := func() float64 {
		return timed("sh", "-c", fmt.Sprintf("cd %s && (find . -type f | sort | sed -n 'p;n' | xargs sha256sum >/dev/null) & cd %s && find . -type f | sort | sed -n 'n;p' | xargs sha256sum >/dev/null; wait", src, src))
	}
	var adds, plains, packed, reruns, hashes, plainRatios, packedRatios, rerunRatios []float64
	hash() // reads the files once
	for i := range 5 {
		add := func() float64 {
			depot := filepath.Join(t.TempDir(), "depot")
			timed("sync")
			start := time.Now()
			if code, _, errs := commandtest.Symdepot(t, depot, "add", src); code != 0 {
				t.Fatal(errs)
			}
			defer os.RemoveAll(depot)
			return time.Since(start).Seconds()
		}
		push := func(encoding string) (first, again float64, wire string) {
			p := commandtest.NewPushDepot(t)
			defer os.RemoveAll(p.Dir)
			defer p.Stop(t)
			one := func() (float64, string) {
				timed("sync")
				start := time.Now()
				cmd := p.Command(t, "push", "--server", p.Serving.URL, "--product", "app", "--version", "1", "--encoding", encoding, src)
				out, err := cmd.Output()
				if err != nil {
					t.Fatalf("push: %v\n%s", err, out)
				}
				return time.Since(start).Seconds(), string(out)
			}
			first, out := one()
			again, _ = one()
			_, wire, _ = strings.Cut(out, "sent ")
			wire, _, _ = strings.Cut(wire, "\n")
			return first, again, strings.TrimSpace(wire)
		}
		var a, plain, pack, again float64
		var sent string
		if i%2 == 0 {
			a = add()
			plain, again, _ = push("none")
		} else {
			plain, again, _ = push("none")
			a = add()
		}
		pack, _, sent = push("zstd")
		h := hash()
		adds, plains, packed, reruns, hashes = append(adds, a), append(plains, plain), append(packed, pack), append(reruns, again), append(hashes, h)
		plainRatios, packedRatios, rerunRatios = append(plainRatios, plain/a), append(packedRatios, pack/a), append(rerunRatios, again/h)
		t.Logf("run %d: add %.2f s, push %.2f s, with zstd %.2f s (%s), rerun %.2f s, two sha256sum %.2f s", i+1, a, plain, pack, sent, again, h)
	}
	t.Logf("push of 2 GiB in 2,000 files: %.2f s; add %.2f s; ratio %.2f (want at most 1.3); with zstd %.2f s, ratio %.2f",
		median(plains), median(adds), median(plainRatios), median(packed), median(packedRatios))
	t.Logf("a rerun: %.2f s; two sha256sum %.2f s; ratio %.2f (want at most 1.5)", median(reruns), median(hashes), median(rerunRatios))
}

// TestBenchPushMemory measures the memory of a server to which thirty agents push
// 200 files of 1 MiB each at once.
func TestBenchPushMemory(t *testing.T) {
	commandtest.NeedBench(t)
	const agents, files, size = 30, 200, 1 << 20
	for _, plain := range []bool{true, false} {
		p := commandtest.NewPushDepot(t)
		src := t.TempDir()
		for i := range agents {
			commandtest.RandomSyms(t, filepath.Join(src, fmt.Sprint(i)), files, size+16*i)
		}
		start := time.Now()
		var wg sync.WaitGroup
		for i := range agents {
			wg.Go(func() {
				c := p.Pusher()
				c.Plain, c.URL, c.RetryFor = plain, p.Serving.URL, 10*time.Minute
				if r, err := c.Do(t.Context(), client.PushOptions{PushSpec: wire.PushSpec{Product: "app", Version: fmt.Sprint(i)}, Paths: []string{filepath.Join(src, fmt.Sprint(i))}}); err != nil || r.Files != files {
					t.Errorf("agent %d: %+v, %v; want %d files", i, r, err, files)
				}
			})
		}
		wg.Wait()
		peak, now := commandtest.Resident(t, p.Serving.Cmd.Process.Pid)
		t.Logf("30 agents with 200 files of 1 MiB, compressed %v: peak %.0f MiB (want at most 128), now %.0f MiB; %.1f s", !plain, peak, now, time.Since(start).Seconds())
		p.Stop(t)
		if err := os.RemoveAll(p.Dir); err != nil {
			t.Fatal(err)
		}
		_ = os.RemoveAll(src)
	}
}
