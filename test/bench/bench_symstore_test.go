package bench

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
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

// addBench times commands that fill folders of their own below dir.
type addBench struct {
	dir   string
	total int64    // bytes that a run writes
	dirs  []string // of the runs so far
	times map[string][]float64
}

// newAddBench makes the folder of the runs. Its attribute T makes ext4 place
// each folder below it in a part of the disk of its own, far from files that
// other tests have just removed.
func newAddBench(t *testing.T, total int64) *addBench {
	t.Helper()
	b := &addBench{dir: t.TempDir(), total: total, times: map[string][]float64{}}
	// Other file systems have no such attribute.
	_ = exec.CommandContext(t.Context(), "chattr", "+T", b.dir).Run()
	return b
}

// folder makes the folder of a run. It empties the files of earlier runs if the
// disk is too small for all. It does not remove them: ext4 without a journal
// does not use the inode of a removed file again for minutes, and passes over
// each such inode whenever a file is created.
func (b *addBench) folder(t *testing.T) string {
	t.Helper()
	for ; ; b.dirs = b.dirs[1:] {
		_, free, err := durable.Space(b.dir)
		if err != nil {
			t.Fatal(err)
		}
		if free > b.total+b.total/8+1<<30 {
			break
		}
		if len(b.dirs) == 0 {
			t.Skipf("%s has %d MB free, too few for a run of %d MB", b.dir, free>>20, b.total>>20)
		}
		err = filepath.WalkDir(b.dirs[0], func(p string, e fs.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() {
				err = os.Truncate(p, 0)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	d, err := os.MkdirTemp(b.dir, "run")
	if err != nil {
		t.Fatal(err)
	}
	b.dirs = append(b.dirs, d)
	return d
}

// run times a command after everything before it is on the disk.
func (b *addBench) run(t *testing.T, what string, command ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "sync").CombinedOutput(); err != nil {
		t.Fatalf("sync: %v\n%s", err, out)
	}
	start := time.Now()
	if out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("CombinedOutput: %s, error %v, %.2000s; want no error", what, err, out)
	}
	took := time.Since(start).Seconds()
	b.times[what] = append(b.times[what], took)
	t.Logf("%-26s %6.2f s", what, took)
}

// TestBenchSymstoreAdd compares symstore add with copying and flushing by the
// system's tools, in alternating order. It also times sha256sum and, where
// SYMDEPOT_PYSYMSTORE names a Python that has the module symstore, that module,
// which flushes nothing and writes no refs.ptr. It takes up to 36 GB, and 18 GB
// at least.
func TestBenchSymstoreAdd(t *testing.T) {
	commandtest.NeedBench(t, "sha256sum", "cp")
	exe := filepath.Join(t.TempDir(), "symstore")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", exe, "../../cmd/symdepot").CombinedOutput(); err != nil {
		t.Fatalf("CombinedOutput: error %v, %s; want no error", err, out)
	}
	for _, c := range []struct {
		files, low, high, pairs int
	}{{2000, 16 << 10, 64 << 10, 5}, {10_000, 400_000, 673_000, 3}} {
		t.Run(fmt.Sprint(c.files, " files"), func(t *testing.T) {
			src := t.TempDir()
			list, total := randomImages(t, src, c.files, c.low, c.high)
			b := newAddBench(t, total)
			b.pairs(t, exe, src, c.pairs)
			b.run(t, "hash", "sh", "-c", fmt.Sprintf("cd %s && find . -type f | xargs sha256sum >/dev/null", src))
			if python := os.Getenv("SYMDEPOT_PYSYMSTORE"); python != "" {
				b.python(t, python, list)
			}
			b.report(t, c.files)
		})
	}
}

// pairs runs symstore add and cp in turn, each as often first as second.
func (b *addBench) pairs(t *testing.T, exe, src string, n int) {
	t.Helper()
	add := func() {
		b.run(t, "add", exe, "add", "/r", "/f", filepath.Join(src, "*"), "/s", filepath.Join(b.folder(t), "store"), "/t", "bench", "/o")
	}
	copied := func() {
		b.run(t, "cp and sync", "sh", "-c", fmt.Sprintf("cp -r %s %s/copy && sync", src, b.folder(t)))
	}
	for i := range n {
		if i%2 == 0 {
			copied()
			add()
		} else {
			add()
			copied()
		}
	}
}

// python runs python-symstore, without and with a flush of the disk.
func (b *addBench) python(t *testing.T, python string, list []string) {
	t.Helper()
	command := func() []string {
		c := []string{python, filepath.Join(filepath.Dir(python), "symstore"), "-p", "bench", filepath.Join(b.folder(t), "store")}
		return append(c, list...)
	}
	b.run(t, "python-symstore", command()...)
	b.run(t, "python-symstore and sync", append([]string{"sh", "-c", `"$@" && sync`, "sh"}, command()...)...)
}

func (b *addBench) report(t *testing.T, files int) {
	t.Helper()
	var parts []string
	for _, what := range []string{"add", "cp and sync", "hash", "python-symstore", "python-symstore and sync"} {
		if v := b.times[what]; len(v) > 0 {
			parts = append(parts, fmt.Sprintf("%s %.2f s", what, median(v)))
		}
	}
	add := median(b.times["add"])
	t.Logf("%d files, %d MB: %s", files, b.total>>20, strings.Join(parts, ", "))
	t.Logf("%d files: add to cp and sync %.2f (want at most 1.2)", files, add/median(b.times["cp and sync"]))
	if len(b.times["python-symstore"]) > 0 {
		t.Logf("%d files: %.2f times as fast as python-symstore, %.2f times as with a sync", files,
			median(b.times["python-symstore"])/add, median(b.times["python-symstore and sync"])/add)
	}
}
