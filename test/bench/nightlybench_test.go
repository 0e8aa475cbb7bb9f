package bench

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/run/client"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// TestBenchNightly compares the push of the next build of 2 GiB over loopback with adding it, where
// the depots have the build before: with all files hashed, and as usual. Usually files that have not
// changed are not read, on file systems that are known to tell; see filestamp.Tells. A tenth of its bytes
// have changed: half of each fifth file, or 26 places in every file; or 3 % of each tenth file.
// Client and server share the processors.
func TestBenchNightly(t *testing.T) {
	commandtest.NeedBench(t)
	for _, b := range []struct {
		files, size int
		every       int // file is changed
		places      int // in a changed file
		change      int // size of each
	}{{2000, 1 << 20, 5, 1, 512 << 10}, {2000, 1 << 20, 10, 1, 31 << 10}, {2, 256 << 20, 1, 26, 1 << 20}} {
		src := t.TempDir()
		commandtest.RandomSyms(t, src, b.files, b.size)
		var files []string
		if err := filepath.WalkDir(src, func(path string, e os.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				files = append(files, path)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		depot := filepath.Join(t.TempDir(), "depot")
		p, remembering := commandtest.NewPushDepot(t), commandtest.NewPushDepot(t)
		add := func() float64 {
			start := time.Now()
			if code, _, errs := commandtest.Symdepot(t, depot, "add", "--product", "app", src); code != 0 {
				t.Fatal(errs)
			}
			return time.Since(start).Seconds()
		}
		push := func(build int, remember bool) (seconds float64, sent string) {
			to, args := remembering, []string{"push", "--product", "app", "--version", fmt.Sprint(build), "--encoding", "none", src}
			if !remember {
				to, args = p, append(args, "--hashes", client.NoHashes)
			}
			start := time.Now()
			out := to.Must(t, append(args, "--server", to.Serving.URL)...)
			seconds = time.Since(start).Seconds()
			_, sent, _ = strings.Cut(out, "sent ")
			sent, _, _ = strings.Cut(sent, "\n")
			return seconds, strings.TrimSpace(sent)
		}
		add()
		push(1, false)
		push(1, true)
		var adds, pushes, remembered, ratios, rememberedRatios []float64
		for build := 2; build <= 6; build++ {
			rng := rand.New(rand.NewPCG(uint64(build), uint64(b.size))) //nolint:gosec // positive
			for i := 0; i < len(files); i += b.every {
				changeSym(t, rng, files[i], build, b.places, b.change)
			}
			if out, err := exec.CommandContext(t.Context(), "sync").CombinedOutput(); err != nil {
				t.Fatalf("sync: %v\n%s", err, out)
			}
			var a, n, h float64
			var sent string
			if build%2 == 0 {
				a = add()
				n, sent = push(build, false)
				h, _ = push(build, true)
			} else {
				h, _ = push(build, true)
				n, sent = push(build, false)
				a = add()
			}
			adds, pushes, ratios = append(adds, a), append(pushes, n), append(ratios, n/a)
			remembered, rememberedRatios = append(remembered, h), append(rememberedRatios, h/a)
			t.Logf("build %d: add %.2f s, push %.2f s, with --hashes none %.2f s, %s", build, a, h, n, sent)
		}
		t.Logf("the next build of %d files of %d MiB, each of %d changed in %d places of %d KiB: push %.2f s, add %.2f s; ratio %.2f "+
			"(want at most 0.5); with --hashes none %.2f s, ratio %.2f", b.files, b.size>>20, b.every, b.places, b.change>>10,
			median(remembered), median(adds), median(rememberedRatios), median(pushes), median(ratios))
		p.Stop(t)
		remembering.Stop(t)
		for _, dir := range []string{depot, p.Dir, remembering.Dir, src} {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// changeSym gives a file of commandtest.RandomSyms another id and other bytes in some places.
func changeSym(t *testing.T, rng *rand.Rand, name string, build, places, size int) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(fmt.Appendf(nil, "%08X", build), int64(len("MODULE Linux x86_64 "))); err != nil {
		t.Fatal(err)
	}
	noise := make([]byte, size)
	for range places {
		for i := range noise {
			noise[i] = 'a' + byte(rng.UintN(26))
		}
		if _, err := f.WriteAt(noise, 200+rng.Int64N(info.Size()-int64(size)-201)); err != nil {
			t.Fatal(err)
		}
	}
}
