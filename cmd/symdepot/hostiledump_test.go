package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// dumpLimit is how long a dump may take, of which the child that walks it has 10 seconds; other tests run too.
const dumpLimit = 30 * time.Second

// childMemory is the peak of the memory of the largest child of a process, in MiB; 0 where that cannot be found out.
func childMemory(t *testing.T, pid int) (most float64) {
	t.Helper()
	if runtime.GOOS != "linux" {
		return 0
	}
	tasks, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		list, _ := os.ReadFile(task)
		for _, child := range strings.Fields(string(list)) {
			status, _ := os.ReadFile("/proc/" + child + "/status") // it may have ended
			if _, text, ok := strings.Cut(string(status), "VmHWM:"); ok {
				kib, err := strconv.ParseFloat(strings.Fields(text)[0], 64)
				if err != nil {
					t.Fatal(err)
				}
				most = max(most, kib/1024)
			}
		}
	}
	return most
}

// askStack sends a dump and returns the status and the answer.
func askStack(t *testing.T, server string, dump []byte) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server+"/-/api/v1/stack?name=crash.dmp", bytes.NewReader(dump))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/octet-stream")
	resp, text := symtest.Do(t, http.DefaultClient.Do, r)
	return resp.StatusCode, text
}

// TestDamagedDumps: every dump that is cut off or changed gets a partial stack or a clear error, in time and within the memory of
// a child, and the server then answers as before. The dumps are those of testdata and of SYMDEPOT_DUMPS, whose symbol files the
// server has.
func TestDamagedDumps(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../../testdata/minidump/*.dmp")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d dumps, error %v, want some", len(paths), err)
	}
	depot, cuts := filepath.Join(t.TempDir(), "depot"), 64
	if testing.Short() {
		cuts = 8
	}
	if dir := os.Getenv("SYMDEPOT_DUMPS"); dir != "" {
		more, err := filepath.Glob(filepath.Join(dir, "*.dmp"))
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, more...)
		if code, _, errs := commandtest.Symdepot(t, depot, "add", "--product", "app", filepath.Join(dir, "symbols")); code != 0 {
			t.Fatalf("add: exit code %d, want 0: %s", code, errs)
		}
	}
	srv := commandtest.ServeDepot(t, depot, "--quiet")
	random := rand.New(rand.NewPCG(symtest.Seed(t, 341), 1))
	statuses, slowest, peak := map[int]int{}, time.Duration(0), 0.0
	try := func(what string, dump []byte) {
		start := time.Now()
		status, text := askStack(t, srv.URL, dump)
		took := time.Since(start)
		statuses[status]++
		slowest = max(slowest, took)
		if status != http.StatusOK && status != http.StatusUnprocessableEntity || status != http.StatusOK && !strings.Contains(text, `"detail":`) {
			t.Errorf("%s: status %d: %.300s; want stacks or a clear error", what, status, text)
		}
		if took > dumpLimit {
			t.Errorf("%s: took %s, want %s at most", what, took, dumpLimit)
		}
	}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		before, text := askStack(t, srv.URL, b)
		name := filepath.Base(path)
		for i := range cuts {
			try(fmt.Sprintf("%s, %d/%d of it", name, i, cuts), b[:len(b)*i/cuts])
			changed := bytes.Clone(b)
			for range 1 + random.IntN(16) {
				at := random.IntN(len(b))
				if i%2 == 0 {
					at = random.IntN(min(len(b), 4096)) // the lists are at the beginning
				}
				changed[at] = byte(random.Uint32())
			}
			try(fmt.Sprintf("%s, change %d", name, i), changed)
		}
		peak = max(peak, childMemory(t, srv.Cmd.Process.Pid))
		if after, again := askStack(t, srv.URL, b); after != before || after == http.StatusOK && again != text {
			t.Errorf("%s: the answer after the damaged ones has status %d, or is another; want %d and the same", name, after, before)
		}
	}
	if peak > 256 {
		t.Errorf("a child had %.0f MiB, want 256 at most", peak)
	}
	t.Logf("%d dumps: answers by status %v, the slowest after %s, largest child %.0f MiB", len(paths), statuses, slowest, peak)
}

// endlessDump is a minidump for x64 of a thread whose stack is so long that no dump has it whole, and is full of what loop says: the
// bytes of the stack are repeated. The file has a hole behind them.
func endlessDump(t *testing.T, path string, loop []uint64, stack int64) {
	t.Helper()
	const (
		sp      = 0x7000_0000_0000
		base    = 0x7ff6_0000_0000
		context = 1232
	)
	le := binary.LittleEndian
	var words []byte
	for len(words) < 1<<20 {
		for _, w := range loop {
			words = le.AppendUint64(words, w)
		}
	}
	b := make([]byte, 32+4*12)
	copy(b, "MDMP")
	le.PutUint32(b[4:], 0xa793)
	le.PutUint32(b[8:], 4)
	le.PutUint32(b[12:], 32)
	put := func(p []byte) uint32 { b = append(b, p...); return uint32(len(b) - len(p)) }
	stream := func(i int, kind uint32, p []byte) {
		at := put(p)
		le.PutUint32(b[32+12*i:], kind)
		le.PutUint32(b[32+12*i+4:], uint32(len(p)))
		le.PutUint32(b[32+12*i+8:], at)
	}
	system := make([]byte, 56)
	le.PutUint16(system, 9)
	le.PutUint32(system[20:], 2)
	stream(0, 7, system)
	registers := make([]byte, context)
	le.PutUint32(registers[0x30:], 0x10000b)
	le.PutUint64(registers[0x98:], sp)
	le.PutUint64(registers[0xa0:], sp+8) // rbp
	le.PutUint64(registers[0xf8:], base+0x1000)
	registersAt := put(registers)
	thread := make([]byte, 4+48)
	le.PutUint32(thread, 1)
	le.PutUint32(thread[4:], 1)
	le.PutUint64(thread[4+24:], sp)
	le.PutUint32(thread[4+40:], context)
	le.PutUint32(thread[4+44:], registersAt)
	stream(1, 3, thread)
	name := le.AppendUint32(nil, 10)
	for _, c := range "a.exe" {
		name = le.AppendUint16(name, uint16(c))
	}
	nameAt := put(append(name, 0, 0))
	module := make([]byte, 4+108)
	le.PutUint32(module, 1)
	le.PutUint64(module[4:], base)
	le.PutUint32(module[4+8:], 1<<20)
	le.PutUint32(module[4+20:], nameAt)
	stream(2, 4, module)
	memory := make([]byte, 32)
	le.PutUint64(memory, 1)
	at := uint64(len(b) + len(memory))
	le.PutUint64(memory[8:], at)
	le.PutUint64(memory[16:], sp)
	le.PutUint64(memory[24:], uint64(stack))
	stream(3, 9, memory)
	f, err := os.Create(path)
	if err == nil {
		_, err = f.Write(b)
	}
	for n := 0; err == nil && n < 16 && int64(n)<<20 < stack; n++ {
		_, err = f.Write(words[:1<<20])
	}
	if err == nil {
		err = f.Truncate(int64(at) + stack)
	}
	if err != nil || f.Close() != nil {
		t.Fatal(err)
	}
}

// TestEndlessStacks: stacks that never end, and one of 4 GiB, are cut off in time and within the memory of a child.
func TestEndlessStacks(t *testing.T) {
	t.Parallel()
	const sp, code = 0x7000_0000_0000, 0x7ff6_0000_1000
	for _, tt := range []struct {
		name  string
		loop  []uint64
		stack int64
	}{
		{"return addresses only", []uint64{code}, 16 << 20},
		{"a frame that is its own caller", []uint64{sp + 8, code}, 1 << 20},
		{"4 GiB", []uint64{code, 0}, 4 << 30},
		{"4 GiB without anything", []uint64{0}, 4 << 30},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "endless.dmp")
		endlessDump(t, path, tt.loop, tt.stack)
		cmd := exec.CommandContext(t.Context(), "symdepot", "stack", "--symbols", t.TempDir(), "--json", path)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		start := time.Now()
		if err := cmd.Run(); err != nil {
			t.Errorf("%s: %v: %.300s", tt.name, err, errs.String())
		}
		took := time.Since(start)
		if took > dumpLimit || !strings.Contains(out.String(), `"trust": "context"`) && !strings.Contains(out.String(), `"trust":"context"`) {
			t.Errorf("%s: after %s: %.300s, want the innermost frame within %s", tt.name, took, out.String(), dumpLimit)
		}
		t.Logf("%s: %d frames after %s", tt.name, strings.Count(out.String(), `"trust"`), took)
		// The server answers too, and lives on.
		if tt.stack > 1<<30 {
			continue // such a dump is read where it is
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(f)
		if f.Close(); err != nil {
			t.Fatal(err)
		}
		srv := commandtest.ServeDepot(t, filepath.Join(dir, "served"), "--quiet")
		if status, text := askStack(t, srv.URL, b); status != http.StatusOK || !strings.Contains(text, `"trust":"context"`) {
			t.Errorf("%s: the server answers %d: %.300s; want a stack", tt.name, status, text)
		}
		if peak := childMemory(t, srv.Cmd.Process.Pid); peak > 256 {
			t.Errorf("%s: a child had %.0f MiB, want 256 at most", tt.name, peak)
		}
	}
}
