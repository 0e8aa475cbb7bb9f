//go:build unix

package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// bigFiles returns the folder in which scripts/bench has the large debug files:
// big.pdb of scripts/bigpdb and big.so of scripts/bigdwarf.
func bigFiles(t *testing.T) string {
	t.Helper()
	commandtest.NeedBench(t)
	dir := os.Getenv("SYMDEPOT_BIG")
	if dir == "" {
		t.Skip("needs the large debug files that scripts/bench symbols makes (SYMDEPOT_BIG)")
	}
	return dir
}

// usage is what one run of a program took: seconds, processor seconds, and the peak
// of its resident memory in MiB (VmHWM).
type usage struct{ wall, cpu, peak float64 }

func (u usage) String() string {
	return fmt.Sprintf("%.2f s, %.2f s of processor time, %.0f MiB", u.wall, u.cpu, u.peak)
}

// runMeasured runs a program and returns what it took.
func runMeasured(t *testing.T, name string, args ...string) usage {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	start := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	u := usage{wall: time.Since(start).Seconds(), cpu: (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()}
	if r, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		u.peak = float64(r.Maxrss) / 1024
	}
	return u
}

// medians returns the median of each figure.
func medians(list []usage) usage {
	of := func(get func(usage) float64) float64 {
		var v []float64
		for _, u := range list {
			v = append(v, get(u))
		}
		return median(v)
	}
	return usage{of(func(u usage) float64 { return u.wall }), of(func(u usage) float64 { return u.cpu }), of(func(u usage) float64 { return u.peak })}
}

// countRecords returns the numbers of records of a symbol file by their first word;
// line records count as "line".
func countRecords(t *testing.T, path string) map[string]int {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := map[string]int{}
	r := bufio.NewReaderSize(f, 1<<20)
	for first := true; ; {
		line, more, err := r.ReadLine()
		if err != nil {
			return n
		}
		if first {
			word, _, _ := bytes.Cut(line, []byte(" "))
			if c := word[0]; c < 'A' || c > 'Z' {
				word = []byte("line")
			}
			n[string(word)]++
		}
		first = !more
	}
}

// TestBenchDumpSyms compares dump-syms with Mozilla's dump_syms on a large PDB and
// on a large ELF file. SYMDEPOT_DUMP_SYMS is the program.
func TestBenchDumpSyms(t *testing.T) {
	big := bigFiles(t)
	peer := os.Getenv("SYMDEPOT_DUMP_SYMS")
	if peer == "" {
		t.Skip("needs Mozilla's dump_syms (SYMDEPOT_DUMP_SYMS)")
	}
	rounds := 5
	if s := os.Getenv("SYMDEPOT_BENCH_ROUNDS"); s != "" {
		rounds, _ = strconv.Atoi(s)
	}
	own, err := exec.LookPath("symdepot")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"big.pdb", "big.so"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(big, name)
			info, err := os.Stat(path)
			if err != nil {
				t.Skipf("needs the file that scripts/bench symbols makes: %v", err)
			}
			dir := t.TempDir()
			ours, theirs := filepath.Join(dir, "ours.sym"), filepath.Join(dir, "theirs.sym")
			one := func() usage {
				return runMeasured(t, "sh", "-c", fmt.Sprintf("exec %s dump-syms %s >%s", own, path, ours))
			}
			two := func() usage { return runMeasured(t, peer, "--inlines", "-j", "2", path, "-o", theirs) }
			one() // reads the file once
			var a, b []usage
			for i := range rounds {
				if i%2 == 0 {
					a, b = append(a, one()), append(b, two())
				} else {
					b, a = append(b, two()), append(a, one())
				}
				t.Logf("run %d: symdepot %v; dump_syms %v", i+1, a[i], b[i])
			}
			var speed, cpu, memory []float64
			for i := range a {
				speed = append(speed, b[i].wall/a[i].wall)
				cpu = append(cpu, b[i].cpu/a[i].cpu)
				memory = append(memory, a[i].peak/b[i].peak)
			}
			t.Logf("%s, %d MiB: symdepot %v, dump_syms %v; speed %.2f of dump_syms (want at least 1), %.2f by processor time; memory %.2f (want at most 0.5), %.2f of the file",
				name, info.Size()>>20, medians(a), medians(b), median(speed), median(cpu), median(memory), medians(a).peak/float64(info.Size()>>20))
			t.Logf("%s: records of symdepot %v, of dump_syms %v", name, countRecords(t, ours), countRecords(t, theirs))
		})
	}
}

// lineAddresses returns n addresses that have lines, evenly over a symbol file, and
// the module's name and id.
func lineAddresses(t *testing.T, sym string, n int) (name, id string, list []uint64) {
	t.Helper()
	f, err := os.Open(sym)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rng := rand.New(rand.NewPCG(5, 6))
	seen := 0
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		line := sc.Bytes()
		if bytes.HasPrefix(line, []byte("MODULE ")) {
			w := strings.Fields(sc.Text())
			id, name = w[3], w[4]
		}
		if c := line[0]; c >= 'A' && c <= 'Z' {
			continue
		}
		word, _, _ := bytes.Cut(line, []byte(" "))
		a, err := strconv.ParseUint(string(word), 16, 64)
		if err != nil {
			continue
		}
		if seen++; len(list) < n {
			list = append(list, a)
		} else if k := rng.IntN(seen); k < n {
			list[k] = a
		}
	}
	if len(list) == 0 {
		t.Fatalf("%s has no lines", sym)
	}
	rng.Shuffle(len(list), func(i, k int) { list[i], list[k] = list[k], list[i] })
	return name, id, list
}

// v5Body is a request for the addresses at, of a module.
func v5Body(name, id string, at []uint64) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"memoryMap":[[%q,%q]],"stacks":[[`, name, id)
	for i, a := range at {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "[0,%d]", a)
	}
	b.WriteString("]],\"version\":5}")
	return b.Bytes()
}

// TestBenchSymbolicate measures /symbolicate/v5 of a server that has made the GSYM
// file of a large module: addresses for each second of the server's processor time
// in requests of 1,000 frames, the times of requests of 100 frames, and that of the
// first request after a start.
func TestBenchSymbolicate(t *testing.T) {
	big := bigFiles(t)
	for _, name := range []string{"big.pdb", "big.so"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(big, name)
			if _, err := os.Stat(path); err != nil {
				t.Skipf("needs the file that scripts/bench symbols makes: %v", err)
			}
			depot := filepath.Join(t.TempDir(), "depot")
			if code, _, errs := commandtest.Symdepot(t, depot, "add", path); code != 0 {
				t.Fatal(errs)
			}
			sym := filepath.Join(t.TempDir(), "x.sym")
			runMeasured(t, "sh", "-c", fmt.Sprintf("symdepot dump-syms %s >%s", path, sym))
			module, id, at := lineAddresses(t, sym, 200_000)
			start := func() *commandtest.Serving {
				env := map[string]string{"SYMDEPOT_DEPOT": depot, "PATH": os.Getenv("PATH"), "HOME": t.TempDir()}
				s, err := commandtest.StartServe(func(k string) string { return env[k] }, ".", "--quiet")
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			s := start()
			stop := func() {
				if err := s.Stop(); err != nil {
					t.Fatalf("serve: %v\n%s", err, s.Log.String())
				}
			}
			post := func(body []byte) []byte {
				resp, err := http.Post(s.URL+"/symbolicate/v5", "application/json", bytes.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				answer, err := io.ReadAll(resp.Body)
				if err != nil || resp.StatusCode != http.StatusOK {
					t.Fatalf("status %d, %v: %.200s, want 200", resp.StatusCode, err, answer)
				}
				return answer
			}
			ready := func() bool { return bytes.Contains(post(v5Body(module, id, at[:1])), []byte(`"function":`)) }
			began := time.Now()
			for !ready() {
				if time.Since(began) > 10*time.Minute {
					t.Fatal("the GSYM file was not made in 10 minutes")
				}
			}
			first := time.Since(began).Seconds()
			for done := false; !done; { // single units may have answered before
				code, out, errs := commandtest.Symdepot(t, depot, "jobs", "list", "--json")
				if done = !strings.Contains(out, `"queued"`) && !strings.Contains(out, `"running"`); code != 0 || time.Since(began) > 10*time.Minute {
					t.Fatalf("the GSYM file was not made in 10 minutes: status %d, %s", code, errs)
				}
			}
			var a struct {
				Results []struct {
					Stacks [][]struct{ Function, File string }
				}
			}
			if err := json.Unmarshal(post(v5Body(module, id, at[:1000])), &a); err != nil {
				t.Fatal(err)
			}
			for i, f := range a.Results[0].Stacks[0] {
				if f.Function == "" || f.File == "" {
					t.Errorf("no position for %#x", at[i])
				}
			}

			// Everywhere in the module: the memory of functions holds few of them. Then
			// what crash reports and profiles are: some functions again and again.
			rate := func(list []uint64, requests int) float64 {
				before := cpuTime(t, s.Cmd.Process.Pid)
				for i := range requests {
					from := i * 1000 % len(list)
					post(v5Body(module, id, list[from:min(from+1000, len(list))]))
				}
				return float64(requests) * 1000 / (cpuTime(t, s.Cmd.Process.Pid) - before)
			}
			anywhere := rate(at, 200)
			rate(at[:5000], 20)
			hot := rate(at[:5000], 400)
			var times []float64
			for i := range 3000 {
				from := i * 100 % 5000
				body := v5Body(module, id, at[from:from+100])
				began := time.Now()
				post(body)
				times = append(times, time.Since(began).Seconds()*1000)
			}
			slices.Sort(times)
			peak, _ := commandtest.Resident(t, s.Cmd.Process.Pid)
			var cold []float64
			for range 7 {
				stop()
				s = start()
				checkStatus(t, s.URL+"/healthz", http.StatusOK)
				began := time.Now()
				if !ready() {
					t.Fatal("the module was not found after a start")
				}
				cold = append(cold, time.Since(began).Seconds()*1000)
			}
			stop()
			if name == "big.so" {
				besideCrates(t, path, at, anywhere, hot)
			}
			t.Logf("%s: first answer with nothing made %.2f s (ELF: want at most 0.3)", name, first)
			t.Logf("%s: %.0f addresses for each second of processor time of the server, %.0f of them among 5,000 (want at least 50,000); 100 frames: median %.2f ms, 99 of 100 in %.2f ms (want at most 5); first request after a start %.1f ms (want at most 50); peak %.0f MiB",
				name, anywhere, hot, times[len(times)/2], times[len(times)*99/100], median(cold), peak)
		})
	}
}

// besideCrates has the crates blazesym and addr2line look the same addresses up in an ELF file whose
// base is 0, each in its process and without HTTP. SYMDEPOT_CRATES is the program of scripts/crates.
func besideCrates(t *testing.T, path string, at []uint64, anywhere, hot float64) {
	t.Helper()
	program := os.Getenv("SYMDEPOT_CRATES")
	if program == "" {
		t.Log("the crates blazesym and addr2line are not compared: run scripts/oracles (SYMDEPOT_CRATES)")
		return
	}
	var list bytes.Buffer
	for _, a := range at {
		fmt.Fprintf(&list, "%#x\n", a)
	}
	text := fmt.Sprintf("symdepot %.0f and %.0f", anywhere, hot)
	for _, name := range []string{"blazesym", "addr2line"} {
		cmd := exec.CommandContext(t.Context(), program, name, path)
		cmd.Stdin = bytes.NewReader(list.Bytes())
		var lines int
		var every, some float64
		out, err := cmd.Output()
		if err == nil {
			_, err = fmt.Sscan(string(out), &lines, &every, &some)
		}
		if err != nil || lines < len(at)*9/10 {
			t.Fatalf("%s: %v, %q; want the lines of %d addresses", name, err, out, len(at))
		}
		text += fmt.Sprintf(", %s %.0f and %.0f", name, every, some)
		if every > anywhere || some > hot {
			t.Errorf("%s is faster: %.0f and %.0f addresses a second, symdepot %.0f and %.0f", name, every, some, anywhere, hot)
		}
	}
	t.Logf("%s, addresses for each second of processor time, anywhere and among 5,000 (want at least 250,000 and 300,000): %s",
		filepath.Base(path), text)
}

// TestBenchFirstAnswer compares the first answer out of a large ELF file that nothing was
// made of, and that is in the page cache, with llvm-symbolizer: the time of the whole
// command.
func TestBenchFirstAnswer(t *testing.T) {
	path := filepath.Join(bigFiles(t), "big.so")
	info, err := os.Stat(path)
	if err != nil {
		t.Skipf("needs the file that scripts/bench symbols makes: %v", err)
	}
	peer := symtest.Tool(t, "llvm-symbolizer-19")
	sym := filepath.Join(t.TempDir(), "x.sym")
	runMeasured(t, "sh", "-c", fmt.Sprintf("symdepot dump-syms %s >%s", path, sym))
	_, _, at := lineAddresses(t, sym, 9)
	runMeasured(t, "sh", "-c", "cat "+path+" >/dev/null")
	var ours, theirs []usage
	for _, a := range at {
		address := fmt.Sprintf("%#x", a)
		ours = append(ours, runMeasured(t, "symdepot", "symbolicate", "-e", path, address))
		theirs = append(theirs, runMeasured(t, peer, "-e", path, address))
	}
	t.Logf("first answer out of %d MiB: symdepot %v (want at most 0.3 s); llvm-symbolizer %v",
		info.Size()>>20, medians(ours), medians(theirs))
}
