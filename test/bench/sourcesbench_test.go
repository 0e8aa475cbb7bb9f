package bench

import (
	"archive/zip"
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// The programs of the benchmark of source files.
const (
	benchPrograms = 100
	benchNames    = 2000
)

// benchProgram compiles a program whose debug information names benchNames source files
// in /src/prog000, and returns it with its build-id.
func benchProgram(t *testing.T) (elf, id []byte) {
	t.Helper()
	dir := t.TempDir()
	var c bytes.Buffer
	for i := range benchNames {
		fmt.Fprintf(&c, "#line 1 \"/src/prog000/%s\"\nint f%d(int n) { return n + %d; }\n", benchName(i), i, i)
	}
	c.WriteString("void _start(void) { f1(1); }\n")
	symtest.Put(t, dir, "main.c", c.Bytes())
	id = bytes.Repeat([]byte{0xab}, 20)
	out, err := exec.CommandContext(t.Context(), "gcc", "-g", "-nostdlib", "-static", fmt.Sprintf("-Wl,--build-id=0x%x", id), "-o", dir+"/prog", dir+"/main.c").CombinedOutput() //nolint:gosec // a compiler with fixed arguments
	if err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	elf, err = os.ReadFile(filepath.Join(dir, "prog"))
	if err != nil {
		t.Fatal(err)
	}
	return elf, id
}

// benchName is a path of a source file below that of its program.
func benchName(i int) string { return fmt.Sprintf("part%02d/file%04d.c", i%40, i) }

// benchText is the text of a source file.
func benchText(program, i int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "// line of file %d, variant %d\n", i, program%5), 60)
}

// sourceURL returns the path of a source file of a program.
func sourceURL(p, i int) string {
	return fmt.Sprintf("/buildid/%s/source/src/prog%03d/%s", benchID(p), p, benchName(i))
}

func benchID(p int) string { return fmt.Sprintf("%02x", p) + strings.Repeat("ab", 19) }

// measureSources asks for each program once, for some files of each, and then for random
// ones of these on one connection and on eight, and logs the times.
func measureSources(t *testing.T, what, base string, first, programs, files, n int) {
	t.Helper()
	l := &pageLoad{t: t, base: base, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}, times: map[string][]time.Duration{}}
	for p := first; p < first+programs; p++ {
		l.get("first", sourceURL(p, 0), 200)
	}
	for p := first; p < first+programs; p++ {
		for i := range files {
			l.get("each file", sourceURL(p, i), 200)
		}
	}
	some := func() string { return sourceURL(first+rand.IntN(programs), rand.IntN(files)) }
	for range n {
		l.get("one", some(), 200)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range n / 8 {
				l.get("eight", some(), 200)
			}
		})
	}
	wg.Wait()
	ms := func(word string, p int) float64 { d, _ := l.percentile(word, p); return d.Seconds() * 1e3 }
	verdict := "reached"
	if ms("one", 99) > 5 {
		verdict = "NOT REACHED"
	}
	t.Logf("%s, %d requests: p50 %.2f ms, p99 %.2f ms (want 5: %s); eight connections p50 %.2f ms, p99 %.2f ms; first request of an object p50 %.1f ms, slowest %.1f ms; first of a file p50 %.2f ms, p99 %.2f ms",
		what, n, ms("one", 50), ms("one", 99), verdict, ms("eight", 50), ms("eight", 99), ms("first", 50), ms("first", 100), ms("each file", 50), ms("each file", 99))
}

// TestBenchSources measures requests for source files: of a depot with 100 programs that
// name 2,000 files each, and of a watched folder.
func TestBenchSources(t *testing.T) {
	commandtest.NeedBench(t, "gcc")
	elf, id := benchProgram(t)
	dir, depot := t.TempDir(), filepath.Join(t.TempDir(), "depot")
	watched := filepath.Join(dir, "watched")
	program := func(p int) []byte {
		b := bytes.ReplaceAll(elf, []byte("/src/prog000/"), fmt.Appendf(nil, "/src/prog%03d/", p))
		return bytes.ReplaceAll(b, id, append([]byte{byte(p)}, id[1:]...))
	}
	start := time.Now()
	for p := range benchPrograms {
		in := filepath.Join(dir, "in")
		symtest.Put(t, in, fmt.Sprintf("prog%03d", p), program(p))
		src := filepath.Join(dir, "src")
		for i := range benchNames {
			symtest.Put(t, src, benchName(i), benchText(p, i))
		}
		if code, _, errs := commandtest.Symdepot(t, depot, "add", "--product", "Bench", "--version", fmt.Sprint(p), "--sources", fmt.Sprintf("%s=/src/prog%03d", src, p), in); code != 0 {
			t.Fatalf("add: exit code %d, want 0: %s", code, errs)
		}
		if err := os.RemoveAll(in); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("depot of %d programs with %d sources each filled in %.0f s", benchPrograms, benchNames, time.Since(start).Seconds())

	const inPlace = 10
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for p := benchPrograms; p < benchPrograms+inPlace; p++ {
		symtest.Put(t, watched, fmt.Sprintf("prog%03d", p), program(p))
		for i := range benchNames {
			w, err := z.Create(fmt.Sprintf("src/prog%03d/%s", p, benchName(i)))
			if err == nil {
				_, err = w.Write(benchText(p, i))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	symtest.Put(t, watched, "sources.zip", out.Bytes())

	n := 4000
	s := commandtest.ServeDepot(t, depot, "--quiet")
	measureSources(t, "sources in the depot", s.URL, 0, benchPrograms, 20, n)
	peak, now := commandtest.Resident(t, s.Cmd.Process.Pid)
	t.Logf("resident %.0f MiB, peak %.0f MiB", now, peak)

	w := commandtest.ServeDepot(t, filepath.Join(t.TempDir(), "other"), "--quiet", "--watch", watched)
	symtest.Await(t, time.Minute, "the scan of the watched folder", func() bool {
		resp, err := http.Get(w.URL + sourceURL(benchPrograms, benchNames-1))
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	measureSources(t, fmt.Sprintf("sources in a watched zip of %d files", inPlace*benchNames), w.URL, benchPrograms, inPlace, 100, n)
	peak, now = commandtest.Resident(t, w.Cmd.Process.Pid)
	t.Logf("resident %.0f MiB, peak %.0f MiB", now, peak)
}
