package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// randomImages writes n PE images of at least low and below high bytes that do
// not compress, a hundred in a folder.
func randomImages(t *testing.T, dir string, n, low, high int) (paths []string, total int64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, uint64(n)))
	noise := make([]byte, high)
	for i := 0; i+8 <= high; i += 8 {
		binary.LittleEndian.PutUint64(noise[i:], rng.Uint64())
	}
	for i := range n {
		b := noise[:low+rng.IntN(high-low)]
		head := b[:0x200]
		clear(head)
		le := binary.LittleEndian
		copy(head, "MZ")
		le.PutUint32(head[0x3c:], 0x80)
		copy(head[0x80:], "PE\x00\x00")
		le.PutUint16(head[0x84:], 0x8664)
		le.PutUint32(head[0x88:], uint32(0x40000000+i)) // the key's first half
		le.PutUint16(head[0x94:], 240)
		le.PutUint16(head[0x96:], 0x22)
		le.PutUint16(head[0x98:], 0x20b)
		le.PutUint32(head[0x98+56:], 0x100000)
		le.PutUint32(head[0x98+60:], 0x200)
		le.PutUint32(head[0x98+108:], 16)
		p := filepath.Join(dir, fmt.Sprint("m", i/100), fmt.Sprintf("lib%d.dll", i))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, b, 0o644); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, p)
		total += int64(len(b))
	}
	return paths, total
}

// TestBenchSymstoreAdd compares symstore add with copying, hashing and flushing
// by the system's tools and, where SYMDEPOT_PYSYMSTORE names a Python that has
// the module symstore, with that, which flushes nothing and writes no refs.ptr.
// Each run has a folder of its own, and small ones are removed at the end only:
// for minutes ext4 is slow to make files where some were removed. It takes 25 GB.
func TestBenchSymstoreAdd(t *testing.T) {
	needBench(t, "sha256sum", "cp", "sync", "xargs")
	exe := filepath.Join(t.TempDir(), "symstore")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", exe, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	python := os.Getenv("SYMDEPOT_PYSYMSTORE")
	for _, c := range []struct {
		files, low, high, runs int
	}{{2000, 16 << 10, 64 << 10, 5}, {10_000, 400_000, 673_000, 3}} {
		src := t.TempDir()
		list, total := randomImages(t, src, c.files, c.low, c.high)
		times := map[string][]float64{}
		var dirs []string
		timed := func(what string, command ...string) {
			t.Helper()
			if out, err := exec.CommandContext(t.Context(), "sync").CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			start := time.Now()
			if out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%.2000s", what, err, out)
			}
			times[what] = append(times[what], time.Since(start).Seconds())
		}
		dir := func() string {
			d, err := os.MkdirTemp(filepath.Dir(src), "run")
			if err != nil {
				t.Fatal(err)
			}
			dirs = append(dirs, d)
			return d
		}
		for range c.runs {
			timed("add", exe, "add", "/r", "/f", filepath.Join(src, "*"), "/s", filepath.Join(dir(), "store"), "/t", "bench", "/o")
			timed("cp and sync", "sh", "-c", fmt.Sprintf("cp -r %s %s/copy && sync", src, dir()))
			timed("hash", "sh", "-c", fmt.Sprintf("cd %s && find . -type f | xargs sha256sum >/dev/null", src))
			if python != "" {
				command := []string{python, filepath.Join(filepath.Dir(python), "symstore"), "-p", "bench"}
				timed("python-symstore", append(append(command, filepath.Join(dir(), "store")), list...)...)
				timed("python-symstore and sync", append(append([]string{"sh", "-c", `"$@" && sync`, "sh"}, append(command, filepath.Join(dir(), "store"))...), list...)...)
			}
			if c.files < 10_000 {
				continue
			}
			for _, d := range dirs { // 5 GiB each: the disk has no room for all
				_ = os.RemoveAll(d)
			}
			dirs = nil
		}
		var parts []string
		for _, what := range []string{"add", "cp and sync", "hash", "python-symstore", "python-symstore and sync"} {
			if v := times[what]; len(v) > 0 {
				parts = append(parts, fmt.Sprintf("%s %.2f s", what, median(v)))
			}
		}
		add := median(times["add"])
		t.Logf("%d files, %d MB: %s", c.files, total>>20, strings.Join(parts, ", "))
		t.Logf("%d files: add to cp and sync %.2f (want at most 1.2)", c.files, add/median(times["cp and sync"]))
		if python != "" {
			t.Logf("%d files: %.2f times as fast as python-symstore, %.2f times as with a sync", c.files,
				median(times["python-symstore"])/add, median(times["python-symstore and sync"])/add)
		}
		for _, d := range dirs {
			_ = os.RemoveAll(d)
		}
		_ = os.RemoveAll(src)
	}
}
