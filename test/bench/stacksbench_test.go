//go:build linux

package bench

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/files/sparse"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// stackDump is the dump with the most frames that have functions among those that scripts/dumps/public gets: a crash on
// macOS with eleven threads.
const stackDump = "pipeline-inlines-macos-segv.dmp"

// minidump changes a minidump: its streams by kind.
type minidump struct {
	b       []byte
	streams []uint32 // kind, size and place of each
}

const (
	threadList   = 3
	memory64List = 9
)

func readMinidump(t *testing.T, b []byte) *minidump {
	t.Helper()
	if len(b) < 32 || string(b[:4]) != "MDMP" {
		t.Fatal("no minidump")
	}
	d := &minidump{b: slices.Clone(b)}
	n, at := binary.LittleEndian.Uint32(b[8:]), binary.LittleEndian.Uint32(b[12:])
	for i := range 3 * n {
		d.streams = append(d.streams, binary.LittleEndian.Uint32(b[at+4*i:]))
	}
	return d
}

// put appends bytes and returns their place.
func (d *minidump) put(b []byte) uint32 {
	d.b = append(d.b, b...)
	return uint32(len(d.b) - len(b))
}

// set replaces a stream, or adds it.
func (d *minidump) set(kind uint32, b []byte) {
	at := d.put(b)
	for i := 0; i < len(d.streams); i += 3 {
		if d.streams[i] == kind {
			d.streams[i+1], d.streams[i+2] = uint32(len(b)), at
			return
		}
	}
	d.streams = append(d.streams, kind, uint32(len(b)), at)
}

// bytes returns the dump, with its directory at the end.
func (d *minidump) bytes() []byte {
	var dir []byte
	for _, v := range d.streams {
		dir = binary.LittleEndian.AppendUint32(dir, v)
	}
	at := d.put(dir)
	binary.LittleEndian.PutUint32(d.b[8:], uint32(len(d.streams)/3))
	binary.LittleEndian.PutUint32(d.b[12:], at)
	return d.b
}

// withThreads repeats the threads of a dump, each with a stack and registers of its own in the file, until there are n, and
// then fills it up to a size.
func withThreads(t *testing.T, b []byte, n, size int) []byte {
	t.Helper()
	d := readMinidump(t, b)
	le := binary.LittleEndian
	var from []byte
	for i := 0; i < len(d.streams); i += 3 {
		if d.streams[i] == threadList {
			from = b[d.streams[i+2]:][:d.streams[i+1]]
		}
	}
	const entry = 48
	have := 0
	if len(from) > 4 {
		have = int(le.Uint32(from))
	}
	if have == 0 || len(from) < 4+have*entry {
		t.Fatal("the dump has no threads")
	}
	list := le.AppendUint32(nil, uint32(n))
	for i := range n {
		e := slices.Clone(from[4+i%have*entry:][:entry])
		if i >= have {
			le.PutUint32(e, uint32(1_000_000+i))
		}
		for _, at := range []int{32, 40} { // size and place of the stack and of the registers
			le.PutUint32(e[at+4:], d.put(b[le.Uint32(e[at+4:]):][:le.Uint32(e[at:])]))
		}
		list = append(list, e...)
	}
	d.set(threadList, list)
	if left := size - len(d.b); left > 0 {
		d.put(make([]byte, left))
	}
	return d.bytes()
}

// withMemory writes a dump with so much memory of the process that no stack needs; a file with a hole.
func withMemory(t *testing.T, b []byte, path string, size int64) {
	t.Helper()
	d := readMinidump(t, b)
	le := binary.LittleEndian
	stream := le.AppendUint64(nil, 1)
	const streamSize = 32
	// The memory follows the directory, which has one more stream.
	end := uint64(len(d.b) + streamSize + 4*(len(d.streams)+3))
	stream = le.AppendUint64(stream, end)
	stream = le.AppendUint64(stream, 0x4000_0000_0000)
	d.set(memory64List, le.AppendUint64(stream, uint64(size)))
	f, err := os.Create(path)
	if err == nil {
		_, err = f.Write(d.bytes())
	}
	if err == nil {
		err = f.Truncate(int64(end) + size)
	}
	if err != nil || f.Close() != nil || uint64(len(d.b)) != end {
		t.Fatalf("%d bytes before the memory, want %d; error %v", len(d.b), end, err)
	}
}

// stackServer starts a server with the symbol files of the public dumps, and returns it when it knows the functions of a dump.
func stackServer(t *testing.T, dir string, dump []byte) *commandtest.Serving {
	t.Helper()
	depot := filepath.Join(t.TempDir(), "depot")
	if code, _, errs := commandtest.Symdepot(t, depot, "add", filepath.Join(dir, "symbols")); code != 0 {
		t.Fatal(errs)
	}
	s := commandtest.ServeDepot(t, depot, "--quiet")
	for deadline := time.Now().Add(5 * time.Minute); ; {
		var a wire.Stacks
		if err := json.Unmarshal(postStack(t, s, "application/octet-stream", bytes.NewReader(dump), http.StatusOK), &a); err != nil {
			t.Fatal(err)
		}
		named, frames := 0, 0
		for _, th := range a.Threads {
			for _, f := range th.Frames {
				if frames++; f.Function != "" {
					named++
				}
			}
		}
		if named > 0 && !a.Pending {
			t.Logf("%d threads, %d frames, %d with functions", len(a.Threads), frames, named)
			return s
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d frames have functions after five minutes, pending: %v", named, frames, a.Pending)
		}
	}
}

func postStack(t *testing.T, s *commandtest.Serving, kind string, body io.Reader, status int) []byte {
	t.Helper()
	resp, err := http.Post(s.URL+"/-/api/v1/stack?name=crash.dmp", kind, body)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status {
		t.Fatalf("status %d, %v: %.200s, want %d", resp.StatusCode, err, answer, status)
	}
	return answer
}

// treeTime returns the processor seconds of a process and of its children that are alive.
func treeTime(t *testing.T, pid int) float64 {
	t.Helper()
	sum := cpuTime(t, pid)
	tasks, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	if err != nil || len(tasks) == 0 {
		t.Fatalf("the children of process %d: %v", pid, err)
	}
	for _, task := range tasks {
		list, _ := os.ReadFile(task)
		for _, child := range strings.Fields(string(list)) {
			n, _ := strconv.Atoi(child)
			sum += cpuTime(t, n)
		}
	}
	return sum
}

// TestBenchStacks compares the stacks of a dump of 1 MiB with 40 threads through HTTP with minidump-stackwalk, which
// reads .sym files. SYMDEPOT_MINIDUMP_STACKWALK is that program, SYMDEPOT_DUMPS what scripts/dumps/public makes.
func TestBenchStacks(t *testing.T) {
	commandtest.NeedBench(t)
	dir, peer := os.Getenv("SYMDEPOT_DUMPS"), os.Getenv("SYMDEPOT_MINIDUMP_STACKWALK")
	if dir == "" || peer == "" {
		t.Skip("needs minidump-stackwalk (SYMDEPOT_MINIDUMP_STACKWALK) and the dumps of scripts/dumps/public (SYMDEPOT_DUMPS)")
	}
	b, err := os.ReadFile(filepath.Join(dir, stackDump))
	if err != nil {
		t.Fatal(err)
	}
	dump := withThreads(t, b, 40, 1<<20)
	path := filepath.Join(t.TempDir(), "crash.dmp")
	if err := os.WriteFile(path, dump, 0o644); err != nil {
		t.Fatal(err)
	}
	s := stackServer(t, dir, dump)
	pid := s.Cmd.Process.Pid
	const each = 20
	var ours, theirs []usage
	for i := range 9 {
		one := func() {
			var wall []float64
			cpu := treeTime(t, pid)
			for range each {
				start := time.Now()
				postStack(t, s, "application/octet-stream", bytes.NewReader(dump), http.StatusOK)
				wall = append(wall, time.Since(start).Seconds())
			}
			ours = append(ours, usage{wall: median(wall), cpu: (treeTime(t, pid) - cpu) / each})
		}
		two := func() {
			var list []usage
			for range 3 {
				list = append(list, runMeasured(t, peer, "--json", "--verbose=off", "--output-file", os.DevNull, "--symbols-path", filepath.Join(dir, "symbols"), path))
			}
			theirs = append(theirs, medians(list))
		}
		if i%2 == 0 {
			one()
			two()
		} else {
			two()
			one()
		}
	}
	a, z := medians(ours), medians(theirs)
	t.Logf("a dump of %d KiB: symdepot %.1f ms, %.1f ms of processor time; minidump-stackwalk %.1f ms, %.1f ms of processor time",
		len(dump)>>10, a.wall*1e3, a.cpu*1e3, z.wall*1e3, z.cpu*1e3)
	var speed, cpu []float64
	for i := range ours {
		speed, cpu = append(speed, theirs[i].wall/ours[i].wall), append(cpu, theirs[i].cpu/ours[i].cpu)
	}
	t.Logf("FIGURE a minidump with 40 threads, beside minidump-stackwalk: clock %.1f times as fast, processor time 1/%.1f; bars 50 ms: %s, ahead: %s",
		median(speed), median(cpu), commandtest.Verdict(a.wall <= 0.05), commandtest.Verdict(median(cpu) > 1))

	// Many at once, of four clients' connections.
	before, start := treeTime(t, pid), time.Now()
	const many = 400
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range many / 4 {
				resp, err := http.Post(s.URL+"/-/api/v1/stack?name=crash.dmp", "application/octet-stream", bytes.NewReader(dump))
				if err != nil {
					t.Error(err)
					return
				}
				_, err = io.Copy(io.Discard, resp.Body)
				if resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
					t.Errorf("status %d, error %v, want 200", resp.StatusCode, err)
				}
			}
		})
	}
	all.Wait()
	used := treeTime(t, pid) - before
	t.Logf("FIGURE %d dumps by 4 clients at once: %.0f a second, %.0f for each second of processor time: %.0f on two cores; bar 100: %s", many,
		many/time.Since(start).Seconds(), many/used, 2*many/used, commandtest.Verdict(2*many/used >= 100))
}

// TestBenchFullDump shows how much is read of a dump with 500 MiB of memory: by symdepot stack, and by the page of a browser, which sends
// what the server asks for.
func TestBenchFullDump(t *testing.T) {
	commandtest.NeedBench(t)
	dir := os.Getenv("SYMDEPOT_DUMPS")
	if dir == "" {
		t.Skip("needs the dumps of scripts/dumps/public (SYMDEPOT_DUMPS)")
	}
	b, err := os.ReadFile(filepath.Join(dir, stackDump))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "full.dmp")
	withMemory(t, b, path, 500<<20)
	s := stackServer(t, dir, b)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	h := sparse.Header{Name: "full.dmp", Size: info.Size(), Slices: []sparse.Range{{At: 0, Len: 4096}}}
	var sent int64
	rounds := 0
	for {
		rounds++
		open, _, err := sparse.Message(h, f)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.Post(s.URL+"/-/api/v1/stack", sparse.MediaType, open())
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusAccepted {
			t.Fatalf("status %d, %v: %.300s", resp.StatusCode, err, answer)
		}
		sent = 0
		for _, r := range h.Slices {
			sent += r.Len
		}
		if resp.StatusCode == http.StatusOK {
			break
		}
		var more sparse.Need
		if err := json.Unmarshal(answer, &more); err != nil || len(more.Need) == 0 || rounds > 30 {
			t.Fatalf("round %d: %.200s, want what the server needs", rounds, answer)
		}
		h.Slices, h.Round = append(h.Slices, more.Need...), h.Round+1
	}
	u := runMeasured(t, "symdepot", "stack", "--server", s.URL, "--thread", "all", path)
	t.Logf("FIGURE a dump of %d MiB: the page sends %.2f MiB in %d rounds; symdepot stack --server: %v", info.Size()>>20, float64(sent)/(1<<20), rounds, u)
	if sent > 16<<20 {
		t.Errorf("the page sends %d bytes, want 16 MiB at most", sent)
	}
}
