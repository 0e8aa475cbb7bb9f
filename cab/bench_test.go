//go:build unix

package cab

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// corpus joins the files below dir whose names end in one of the suffixes.
func corpus(t *testing.T, dir string, suffixes ...string) []byte {
	t.Helper()
	var paths []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && slices.Contains(suffixes, strings.ToLower(filepath.Ext(path))) {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b...)
	}
	if len(all) == 0 {
		t.Skip("no files in " + dir)
	}
	return all
}

// best is the shortest of several runs of each, one after the other in turn, so
// that the machine's moods meet all of them.
func best(runs int, what ...func()) []time.Duration {
	d := make([]time.Duration, len(what))
	for range runs {
		for i, f := range what {
			start := time.Now()
			f()
			if took := time.Since(start); d[i] == 0 || took < d[i] {
				d[i] = took
			}
		}
	}
	return d
}

func rate(n int, d time.Duration) float64 { return float64(n) / 1e6 / d.Seconds() }

// readCommand reads a whole cabinet to /dev/null, as a command would.
func readCommand(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	r, err := Open(f, st.Size(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Walk(func(_ *File, in io.Reader) error { _, err := io.Copy(null, in); return err }); err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, name string, args ...string) func() {
	return func() {
		t.Helper()
		cmd := exec.Command(name, args...)
		if null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0); err == nil {
			defer null.Close()
			cmd.Stdout = null
		}
		if err := cmd.Run(); err != nil {
			t.Fatalf("Run: %v, error %v; want no error", name, err)
		}
	}
}

// TestBenchBeside measures beside the C tools in one run: reading beside
// cabextract, writing MSZIP beside gcab, and LZX beside the genuine cabinets.
func TestBenchBeside(t *testing.T) {
	if os.Getenv("SYMDEPOT_BENCH") == "" {
		t.Skip("SYMDEPOT_BENCH is not set")
	}
	for _, tool := range []string{"cabextract", "gcab"} {
		symtest.Tool(t, tool)
	}
	public := material(t, "public")
	sets := []struct {
		name  string
		plain []byte
	}{
		{"PDBs", corpus(t, public, ".pdb")},
		{"images", corpus(t, public, ".dll", ".exe")},
	}
	dir := t.TempDir()
	fmt.Println("writing MSZIP on two cores            gcab MB/s  ours MB/s   speed  gcab bytes  our bytes    size")
	for _, s := range sets {
		plain, theirs, ours := filepath.Join(dir, s.name), filepath.Join(dir, s.name+".gcab"), filepath.Join(dir, s.name+".zip")
		if err := os.WriteFile(plain, s.plain, 0o666); err != nil {
			t.Fatal(err)
		}
		d := best(5, run(t, "gcab", "-c", "-z", "-n", theirs, plain), func() { writeCommand(t, ours, plain, WriteOptions{Method: MSZIP, Workers: 2}) })
		a, b := sizeOf(t, theirs), sizeOf(t, ours)
		fmt.Printf("%-10s %5.1f MB                   %8.1f   %8.1f  %6.2f  %10d %10d   %5.3f\n", s.name, float64(len(s.plain))/1e6,
			rate(len(s.plain), d[0]), rate(len(s.plain), d[1]), d[0].Seconds()/d[1].Seconds(), a, b, float64(b)/float64(a))
	}
	fmt.Println("writing LZX:21                         ours MB/s of processor time                        our bytes  of plain")
	for _, s := range sets {
		out := filepath.Join(dir, s.name+".lzx")
		d := oneCore(t, func() { writeCommand(t, out, filepath.Join(dir, s.name), WriteOptions{Method: LZX}) })
		fmt.Printf("%-10s %5.1f MB                              %8.1f                       %10d   %5.3f\n", s.name, float64(len(s.plain))/1e6,
			rate(len(s.plain), d), sizeOf(t, out), float64(sizeOf(t, out))/float64(len(s.plain)))
	}
	fmt.Println("reading to /dev/null             cabextract MB/s  ours MB/s   speed")
	for _, s := range sets {
		for _, suffix := range []string{".gcab", ".zip", ".lzx"} {
			path := filepath.Join(dir, s.name+suffix)
			d := best(9, run(t, "cabextract", "-q", "-p", path), func() { readCommand(t, path) })
			fmt.Printf("%-10s %-6s                    %9.1f    %9.1f  %6.2f\n", s.name, suffix, rate(len(s.plain), d[0]), rate(len(s.plain), d[1]), d[0].Seconds()/d[1].Seconds())
		}
	}
	benchGenuine(t, public)
}

// benchGenuine compresses the content of genuine LZX cabinets again.
func benchGenuine(t *testing.T, public string) {
	fmt.Println("LZX:21 content again          MB/s of processor time   genuine       ours    size")
	files, err := filepath.Glob(filepath.Join(public, "cab", "*.cab"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		r, err := openBytes(b, Options{})
		if err != nil || r.Folders()[0].Compression != (Compression{LZX, 21}) {
			continue
		}
		var sources []Source
		var total int
		err = r.Walk(func(f *File, in io.Reader) error {
			p, err := io.ReadAll(in)
			sources = append(sources, Source{Name: f.Name, Modified: f.Modified, Attributes: f.Attributes, Size: f.Size,
				Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(p)), nil }})
			total += len(p)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		var m memFile
		d := oneCore(t, func() { m = memFile{}; _, err = Create(&m, sources, WriteOptions{Method: LZX}) })
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("%-36s %9.1f     %9d  %9d   %5.3f\n", filepath.Base(path), rate(total, d), r.Size(), len(m.b), float64(len(m.b))/float64(r.Size()))
	}
}

// oneCore is the least processor time of three runs, whatever else the machine
// does meanwhile.
func oneCore(t *testing.T, f func()) time.Duration {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	used := func() time.Duration {
		var r syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
			t.Fatal(err)
		}
		return time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	var least time.Duration
	for range 3 {
		start := used()
		f()
		if took := used() - start; least == 0 || took < least {
			least = took
		}
	}
	return least
}

func sizeOf(t *testing.T, path string) int64 {
	t.Helper()
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return st.Size()
}

func writeCommand(t *testing.T, out, plain string, opt WriteOptions) {
	t.Helper()
	f, err := os.Create(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	src := Source{Name: filepath.Base(plain), Size: sizeOf(t, plain), Open: func() (io.ReadCloser, error) { return os.Open(plain) }}
	if _, err := Create(f, []Source{src}, opt); err != nil {
		t.Fatal(err)
	}
}
