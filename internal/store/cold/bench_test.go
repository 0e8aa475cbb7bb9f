//go:build unix

package cold

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// used is the processor time that this process has used.
func used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// speed measures work on n bytes, in MB for each second of processor time.
type speed struct {
	bytes int64
	time  time.Duration
}

func (s *speed) run(n int64, f func()) {
	from := used()
	f()
	s.time += used() - from
	s.bytes += n
}

func (s *speed) String() string {
	return fmt.Sprintf("%.0f MB/s", float64(s.bytes)/1e6/max(s.time.Seconds(), 1e-9))
}

// file is a content on disk.
func file(t testing.TB, path string) Source {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	sum := sha256.New()
	n, err := io.Copy(sum, f)
	if err != nil {
		t.Fatal(err)
	}
	return Source{ReaderAt: f, Size: n, Sum: [32]byte(sum.Sum(nil))}
}

// bench measures one series.
type bench struct {
	name     string
	builds   []string
	plain    int64
	dir      string
	keys     []string // cold file of the key of each build, "" of a key itself
	files    []string
	each     []int64
	key      speed
	encode   speed
	decode   speed
	keyBytes int64
	estimate float64 // the worst of Estimate against the true length
}

// series are those that scripts/coldseries has made.
func series(t testing.TB) (all []*bench) {
	for name, builds := range symtest.ColdSeries(t) {
		all = append(all, &bench{name: name, builds: builds, dir: t.TempDir()})
	}
	return all
}

// TestBenchCold measures the series that scripts/coldseries has made.
func TestBenchCold(t *testing.T) {
	for _, b := range series(t) {
		b.run(t)
		if os.Getenv("SYMDEPOT_COLD_ALONE") == "" {
			b.others(t)
		}
	}
}

func (b *bench) run(t *testing.T) {
	b.cool(t)
	added, deltas := 0.0, 0
	var sum int64
	for i, n := range b.each {
		sum += n
		if b.keys[i] != "" {
			added += float64(n)
			deltas++
		}
	}
	added /= float64(deltas)
	mean := float64(b.plain) / float64(len(b.builds))
	keys := len(b.builds) - deltas
	t.Logf("%s: %d builds of %.1f MB; keys %d of %.1f %%, added build %.2f %%, series with its keys %.2f %% of plain",
		b.name, len(b.builds), mean/1e6, keys, 100*float64(b.keyBytes)/float64(keys)/mean, 100*added/mean, 100*float64(sum)/float64(b.plain))
	t.Logf("%s: cooling %v (keys %v), restoring with its hash %v; estimates off by at most %.0f %%", b.name, &b.encode, &b.key, &b.decode, 100*b.estimate)
	b.latency(t)
	idle := b.memory(t, "idle")
	t.Logf("%s: peak of memory above that of a process that does nothing (%.0f MiB): cooling %.0f MiB, reading %.0f MiB",
		b.name, idle, b.memory(t, "cool")-idle, b.memory(t, "read")-idle)
}

// cool makes cold files of all builds, keys first. Which is built from which is what TestBenchBases
// of package coldstore wrote: the choice of a depot.
func (b *bench) cool(t *testing.T) {
	bases := b.bases(t)
	for i, path := range b.builds {
		b.files = append(b.files, filepath.Join(b.dir, strconv.Itoa(i)+".c1"))
		st, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		b.plain += st.Size()
	}
	b.keys, b.each = make([]string, len(b.builds)), make([]int64, len(b.builds))
	for key := range b.builds {
		if bases[key] != key {
			continue
		}
		base := file(t, b.builds[key])
		b.keyBytes += b.store(t, key, base, nil)
		for i := range b.builds {
			if i == key || bases[i] != key {
				continue
			}
			b.keys[i] = b.files[key]
			src := file(t, b.builds[i])
			n := b.store(t, i, src, &base)
			if i%5 == 1 {
				if src = unpacked(t, src, Unpack); src.Unpacked() {
					base = unpacked(t, file(t, b.builds[key]), UnpackBase)
				}
				guess, err := Estimate(context.Background(), src, &base, 16)
				base = file(t, b.builds[key])
				if err != nil {
					t.Fatal(err)
				}
				b.estimate = max(b.estimate, max(float64(guess)/float64(n), float64(n)/float64(guess))-1)
			}
		}
	}
}

// bases returns the number of the base of each build; a key is its own.
func (b *bench) bases(t *testing.T) (list []int) {
	text, err := os.ReadFile(filepath.Join(filepath.Dir(b.builds[0]), "bases"))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("needs the bases of series %s (make bench-cold)", b.name)
	}
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		n, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil || n < 0 || n >= len(b.builds) {
			t.Fatalf("series %s: the base %q, %v", b.name, line, err)
		}
		list = append(list, n)
	}
	if len(list) != len(b.builds) || slices.ContainsFunc(list, func(n int) bool { return list[n] != n }) {
		t.Fatalf("series %s: bases %v of %d builds, want one for each, and all of them keys", b.name, list, len(b.builds))
	}
	return list
}

// store makes the cold file of build i, and restores it.
func (b *bench) store(t *testing.T, i int, src Source, base *Source) int64 {
	f, err := os.Create(b.files[i])
	if err != nil {
		t.Fatal(err)
	}
	var s Stats
	if base == nil {
		b.key.run(src.Size, func() { s, err = EncodeKey(context.Background(), f, unpacked(t, src, Unpack), nil) })
	} else {
		b.encode.run(src.Size, func() { s, err = b.delta(t, f, src, *base) })
	}
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	b.each[i] = s.Bytes
	b.decode.run(src.Size, func() { b.restore(t, i, src) })
	return s.Bytes
}

// restore restores the content of a cold file, and checks its hash.
func (b *bench) restore(t *testing.T, i int, src Source) {
	c, done := b.open(t, i)
	defer done()
	sum := sha256.New()
	if n, err := c.WriteTo(sum); err != nil || n != src.Size || [32]byte(sum.Sum(nil)) != src.Sum {
		t.Fatalf("a cold file of series %s is not restored: %v", b.name, err)
	}
}

// delta makes a delta as cooling does: with the streams of both unpacked.
func (b *bench) delta(t *testing.T, w io.Writer, src, base Source) (Stats, error) {
	if src = unpacked(t, src, Unpack); src.Unpacked() {
		base = unpacked(t, base, UnpackBase)
	}
	return EncodeDelta(context.Background(), w, src, base, nil)
}

func unpacked(t testing.TB, s Source, f func(context.Context, Source) (Source, error)) Source {
	s, err := f(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// open opens the cold file of a build, with its key.
func (b *bench) open(t testing.TB, i int) (*Reader, func()) {
	open := func(path string, base io.ReaderAt) (*Reader, *os.File) {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		st, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		c, err := Open(f, st.Size(), base)
		if err != nil {
			t.Fatal(err)
		}
		return c, f
	}
	if b.keys[i] == "" {
		c, f := open(b.files[i], nil)
		return c, func() { c.Close(); f.Close() }
	}
	key, kf := open(b.keys[i], nil)
	c, f := open(b.files[i], key)
	return c, func() { c.Close(); f.Close(); key.Close(); kf.Close() }
}

// latency measures first bytes and ranges of the last build.
func (b *bench) latency(t *testing.T) {
	last := len(b.files) - 1
	for b.keys[last] == "" {
		last--
	}
	var first, ranges, cpu []time.Duration
	r := rand.New(rand.NewPCG(1, 1))
	buf := make([]byte, 64<<10)
	for range 100 {
		from, work := time.Now(), used()
		c, done := b.open(t, last)
		if _, err := c.ReadAt(buf[:1], 0); err != nil {
			t.Fatal(err)
		}
		first, cpu = append(first, time.Since(from)), append(cpu, used()-work)
		from = time.Now()
		if _, err := c.ReadAt(buf, r.Int64N(c.Size()-int64(len(buf)))); err != nil {
			t.Fatal(err)
		}
		ranges = append(ranges, time.Since(from))
		done()
	}
	p95 := func(d []time.Duration) time.Duration {
		slices.Sort(d)
		return d[len(d)*95/100].Round(10 * time.Microsecond)
	}
	t.Logf("%s: first byte p95 %v (processor time %v), random range of 64 KiB p95 %v", b.name, p95(first), p95(cpu), p95(ranges))
}

// TestBenchVersions measures version 3, whose fields move, beside version 2 in one process, on some
// builds of each series: sizes, and speeds by turns.
func TestBenchVersions(t *testing.T) {
	for _, b := range series(t) {
		key := len(b.builds) / 2
		base := file(t, b.builds[key])
		keyFile := filepath.Join(b.dir, "key")
		f, err := os.Create(keyFile)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := EncodeKey(context.Background(), f, unpacked(t, base, Unpack), nil); err != nil {
			t.Fatal(err)
		}
		f.Close()
		var plain int64
		var size [2]int64
		var cool, restore [2]speed
		b.files, b.keys = make([]string, 2), []string{keyFile, keyFile}
		for i := range b.builds {
			if step := max(1, len(b.builds)/6); i == key || i%step != 0 {
				continue
			}
			src := file(t, b.builds[i])
			plain += src.Size
			for k := range 2 {
				v := (k + i) % 2
				b.files[v] = filepath.Join(b.dir, strconv.Itoa(v))
				if f, err = os.Create(b.files[v]); err != nil {
					t.Fatal(err)
				}
				cool[v].run(src.Size, func() {
					src, base := src, base
					if src = unpacked(t, src, Unpack); src.Unpacked() {
						base = unpacked(t, base, UnpackBase)
					}
					s, err := encodeDelta(context.Background(), f, src, base, 2+v, nil)
					if err != nil {
						t.Fatal(err)
					}
					size[v] += s.Bytes
				})
				f.Close()
			}
			for k := range 6 {
				v := (k + i) % 2
				restore[v].run(src.Size, func() { b.restore(t, v, src) })
			}
		}
		t.Logf("%s: version 2 and 3: %.3f and %.3f %% of plain; cooling %v and %v (%.3f), restoring %v and %v (%.3f)", b.name,
			100*float64(size[0])/float64(plain), 100*float64(size[1])/float64(plain), &cool[0], &cool[1],
			float64(cool[0].time)/float64(cool[1].time), &restore[0], &restore[1], float64(restore[0].time)/float64(restore[1].time))
	}
}

// memory is the peak of a process of its own, in MiB.
func (b *bench) memory(t *testing.T, what string) float64 {
	last := len(b.files) - 1
	key := b.keys[last]
	if key == "" {
		key = b.files[last]
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^TestMemoryOfOne$")
	cmd.Env = append(os.Environ(), "SYMDEPOT_COLD_WHAT="+what, "SYMDEPOT_COLD_FILES="+strings.Join([]string{b.builds[last], b.builds[0], b.files[last], key}, "\n"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	_, rest, _ := strings.Cut(string(out), "VmHWM:")
	kib, err := strconv.ParseFloat(strings.Fields(rest + " -1")[0], 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib / 1024
}

// TestMemoryOfOne is the process whose memory is measured.
func TestMemoryOfOne(t *testing.T) {
	files := strings.Split(os.Getenv("SYMDEPOT_COLD_FILES"), "\n")
	switch os.Getenv("SYMDEPOT_COLD_WHAT") {
	case "cool":
		src, base := file(t, files[0]), file(t, files[1])
		for range 3 {
			if _, err := new(bench).delta(t, io.Discard, src, base); err != nil {
				t.Fatal(err)
			}
		}
	case "read":
		b := &bench{files: files[2:3], keys: files[3:4]}
		if files[2] == files[3] {
			b.keys[0] = ""
		}
		c, done := b.open(t, 0)
		defer done()
		if _, err := c.WriteTo(io.Discard); err != nil {
			t.Fatal(err)
		}
	case "idle":
	default:
		t.Skip("only for TestBenchCold")
	}
	// Where there is no such file, the peak is not known.
	status, _ := os.ReadFile("/proc/self/status")
	os.Stdout.Write(status)
}

// others measures other ways of storing the series: zstd and zstd with the first build
// as a dictionary, both for a few builds, and chunks.
func (b *bench) others(t *testing.T) {
	if path := symtest.Judge(t, "zstd"); path != "" {
		n := len(b.builds)
		run := func(arg ...string) float64 {
			var sum, plain int64
			for _, i := range []int{n / 2, n - 1} {
				to := filepath.Join(b.dir, "zst")
				args := append(append([]string{"-q", "-f", "-19", "-o", to}, arg...), b.builds[i])
				if out, err := exec.Command(path, args...).CombinedOutput(); err != nil {
					t.Fatalf("zstd: %v: %s", err, out)
				}
				a, _ := os.Stat(to)
				p, _ := os.Stat(b.builds[i])
				sum, plain = sum+a.Size(), plain+p.Size()
			}
			return 100 * float64(sum) / float64(plain)
		}
		t.Logf("%s: zstd -19 %.2f %%", b.name, run())
		t.Logf("%s: zstd -19 --patch-from the first build %.2f %%", b.name, run("--long=27", "--patch-from="+b.builds[0]))
	} else {
		t.Logf("%s: zstd is not installed", b.name)
	}
	first, added := b.chunks(t)
	t.Logf("%s: chunks of 64 KiB, new ones packed: first build %.2f %%, added build %.2f %%", b.name, first, added)
}

// chunks stores the series in chunks that content defines, of 64 KiB on average, and
// compresses the new ones of each build in frames of 1 MiB.
func (b *bench) chunks(t *testing.T) (first, added float64) {
	var gear [256]uint64
	r := rand.New(rand.NewPCG(42, 42))
	for i := range gear {
		gear[i] = r.Uint64()
	}
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	const average = 64 << 10
	have := map[[32]byte]bool{}
	for i, path := range b.builds {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		plain, stored := float64(len(data)), 0
		var pack []byte
		flush := func() { stored += len(z.EncodeAll(pack, nil)); pack = pack[:0] }
		for len(data) > 0 {
			n, h := 0, uint64(0)
			for n < len(data) && n < average*4 {
				h = h<<1 + gear[data[n]]
				n++
				// Two masks, as FastCDC: cuts are rarer before the average.
				if n >= average/4 && (n < average && h>>(64-18) == 0 || n >= average && h>>(64-14) == 0) {
					break
				}
			}
			if sum := sha256.Sum256(data[:n]); !have[sum] {
				have[sum] = true
				stored += 40 // its row
				if pack = append(pack, data[:n]...); len(pack) >= 1<<20 {
					flush()
				}
			}
			data = data[n:]
		}
		flush()
		if i == 0 {
			first = 100 * float64(stored) / plain
		} else {
			added += 100 * float64(stored) / plain / float64(len(b.builds)-1)
		}
	}
	return first, added
}
