package dump

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

const realMinidumps = "../testdata/minidump"

// stackwalked is what minidump-stackwalk --json says of a process.
type stackwalked struct {
	PID       *uint32
	CrashInfo struct {
		Type, Address  *string
		CrashingThread *int `json:"crashing_thread"`
	} `json:"crash_info"`
	SystemInfo struct {
		Version string `json:"os_ver"`
		CPUInfo string `json:"cpu_info"`
		CPUs    int    `json:"cpu_count"`
	} `json:"system_info"`
	Modules  []struct{}
	Unloaded []struct{} `json:"unloaded_modules"`
	Threads  []struct {
		ID     uint64 `json:"thread_id"`
		Name   string `json:"thread_name"`
		Frames []struct{ Offset string }
	}
	Crashing *struct {
		Frames []struct{ Registers map[string]string }
	} `json:"crashing_thread"`
}

func open(p []byte) (*Process, error) { return Open(bytes.NewReader(p), int64(len(p))) }

// sameAs compares a process with what minidump-stackwalk says of it.
func (want *stackwalked) sameAs(t *testing.T, p *Process) {
	t.Helper()
	same := func(what string, got, want any) {
		t.Helper()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	type crash struct {
		reason, address string
		thread          int
	}
	got, other := crash{thread: p.Requesting}, crash{thread: -1}
	if e := p.Exception; e != nil {
		got.reason, got.address = e.Reason, fmt.Sprintf("0x%0*x", 2*processors[p.Arch].size, e.Address)
	}
	if c := want.CrashInfo; c.Type != nil {
		other.reason, other.address = *c.Type, *c.Address
	}
	if c := want.CrashInfo.CrashingThread; c != nil {
		other.thread = *c
	}
	same("crash", got, other)
	pid := uint32(0)
	if want.PID != nil {
		pid = *want.PID
	}
	same("system", []any{p.Version, p.CPUInfo, p.CPUs, p.PID}, []any{want.SystemInfo.Version, want.SystemInfo.CPUInfo, want.SystemInfo.CPUs, pid})
	same("modules", len(p.Modules), len(want.Modules)+len(want.Unloaded))
	if len(p.Threads) != len(want.Threads) {
		t.Fatalf("%d threads, want %d", len(p.Threads), len(want.Threads))
	}
	for i, w := range want.Threads {
		g := p.Threads[i]
		same("thread", []any{g.ID, g.Name, g.Problem}, []any{w.ID, w.Name, ""})
		if len(w.Frames) == 0 {
			if !g.Writer {
				t.Errorf("thread %d is of the program, want the writer of the dump", g.ID)
			}
			continue
		}
		width := 2 * processors[p.Arch].size
		same("instruction", fmt.Sprintf("0x%0*x", width, g.Registers.PC()), w.Frames[0].Offset)
	}
	if want.Crashing == nil {
		return
	}
	for name, value := range want.Crashing.Frames[0].Registers {
		v, ok := p.Threads[p.Requesting].Registers.Get(name)
		same(name, fmt.Sprintf("%v 0x%0*x", ok, 2*processors[p.Arch].size, v), "true "+value)
	}
}

// TestOpenReal compares dumps of three systems with what was recorded of
// minidump-stackwalk.
func TestOpenReal(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(filepath.Join(realMinidumps, "processes.json"))
	if err != nil {
		t.Fatal(err)
	}
	var recorded map[string]*stackwalked
	if err := json.Unmarshal(b, &recorded); err != nil || len(recorded) != 8 {
		t.Fatalf("%d dumps, error %v; want 8, no error", len(recorded), err)
	}
	for name, want := range recorded {
		t.Run(name, func(t *testing.T) {
			p, closer, err := OpenFile(filepath.Join(realMinidumps, name))
			if err != nil {
				t.Fatal(err)
			}
			defer closer.Close()
			want.sameAs(t, p)
			if p.Exception != nil && (want.Crashing == nil || len(want.Crashing.Frames[0].Registers) < 10) {
				t.Error("no registers are recorded of the crashed thread, want all")
			}
			for _, th := range p.Threads { // the memory has each stack to its end
				stack := make([]byte, th.Stack.Size)
				if n := p.Memory.ReadMemory(stack, th.Stack.Address); n != len(stack) || n == 0 || !th.Stack.Contains(th.Registers.SP()) && !th.Writer {
					t.Errorf("thread %d: %d bytes of the stack %#x, the pointer %#x; want all, inside", th.ID, n, th.Stack, th.Registers.SP())
				}
			}
			if p.Memory.Err() != nil {
				t.Errorf("memory: error %v, want no error", p.Memory.Err())
			}
		})
	}
}

// TestStackwalkJudge compares with minidump-stackwalk itself on all dumps of the
// material.
func TestStackwalkJudge(t *testing.T) {
	walker := symtest.Judge(t, "rust/bin/minidump-stackwalk")
	dumps := realDumps(t, Minidump)
	if walker == "" || len(dumps) == 0 {
		t.Skip("needs minidump-stackwalk (scripts/oracles builds it) and minidumps, files named *.dmp (set SYMDEPOT_MATERIAL to a folder that has some)")
	}
	for path, b := range dumps {
		out, err := exec.Command(walker, "--json", path).Output()
		if err != nil {
			continue // it gives nothing for a dump without threads
		}
		t.Run(filepath.Base(path), func(t *testing.T) {
			var want stackwalked
			if err := json.Unmarshal(out, &want); err != nil {
				t.Fatal(err)
			}
			p, err := open(b)
			if err != nil {
				t.Fatal(err)
			}
			want.sameAs(t, p)
		})
	}
}

// TestAnnotations has what the recorded answers do not: annotations, assertion,
// mappings, age.
func TestAnnotations(t *testing.T) {
	t.Parallel()
	openReal := func(name string) *Process {
		b, err := os.ReadFile(filepath.Join(realMinidumps, name))
		if err != nil {
			t.Fatal(err)
		}
		p, err := open(b)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	want := []Annotation{{"", "hello", "world"}, {"libsystem_c.dylib", "", "abort() called"}, {"dyld", "", "dyld2 mode"}}
	if p := openReal("macos_crashpad.dmp"); !slices.Equal(p.Annotations, want) {
		t.Errorf("annotations %q, want %q", p.Annotations, want)
	}
	const text = `invalid parameter: format != nullptr in common_vfprintf at minkernel\crts\ucrt\src\appcrt\stdio\output.cpp:32`
	if p := openReal("windows_assertion.dmp"); p.Assertion != text {
		t.Errorf("assertion %q, want %q", p.Assertion, text)
	}
	p := openReal("linux_maps.dmp")
	r, ok := p.Memory.Region(p.Threads[0].Registers.PC())
	if !ok || !r.Read || !r.Execute || r.Write || !strings.Contains(r.Name, "/") {
		t.Errorf("the code at %#x is in %+v, %v; want a mapping of a file to read and execute", p.Threads[0].Registers.PC(), r, ok)
	}
	if r, ok := p.Memory.Region(p.Threads[0].Registers.SP()); !ok || r.Name != "[stack]" || !r.Write {
		t.Errorf("the stack is in %+v, %v; want [stack] to write", r, ok)
	}
	if r, ok := p.Memory.Region(8); ok {
		t.Errorf("address 8 is in %+v, want none", r)
	}
	if p := openReal("windows_full.dmp"); p.Uptime != 5*time.Second {
		t.Errorf("age %v, want 5 s", p.Uptime)
	}
}

// miniStream is a stream that a test adds to a minidump.
type miniStream struct {
	typ  uint32
	data []byte
}

// withStreams adds streams to the end of a minidump. Offsets in them are from
// the end of p: relocate adds it.
func withStreams(p []byte, streams ...miniStream) []byte {
	n := binary.LittleEndian.Uint32(p[8:])
	old := bytes.Clone(p[headerSize:][:n*directorySize])
	p = bytes.Clone(p)
	var list []byte
	for _, s := range streams {
		list = slices.Concat(list, u32(s.typ), u32(uint32(len(s.data))), u32(uint32(len(p))))
		p = append(p, s.data...)
	}
	copy(p[8:], u32(n+uint32(len(streams))))
	copy(p[12:], u32(uint32(len(p))))
	return append(append(p, list...), old...) // the first of a type counts
}

// registerBytes returns a context of c with numbered registers, and what they
// must be.
func registerBytes(c context) ([]byte, map[string]uint64) {
	b, want := make([]byte, c.size), map[string]uint64{}
	copy(b[c.at:], u32(c.flags&-c.flags))
	for _, pl := range c.places {
		for i, name := range pl.names {
			if name == "" {
				continue
			}
			v := uint64(pl.at + i*pl.size)
			copy(b[v:], u32(uint32(v)))
			want[name] = v
		}
	}
	return b, want
}

func known(r *Registers) map[string]uint64 {
	m := map[string]uint64{}
	for _, n := range r.Names() {
		m[n], _ = r.Get(n)
	}
	return m
}

// TestContexts: the registers of each processor, in the list of threads and in
// the exception.
func TestContexts(t *testing.T) {
	t.Parallel()
	for number, c := range contexts {
		f := miniFile{arch: number, platform: 0x8201, modules: []miniModule{{path: "/a"}}, memory: map[uint64][]byte{0x1000: make([]byte, 64)}}
		base := f.bytes()
		b, want := registerBytes(c)
		at := uint32(len(base))
		thread := func(id uint32, size, at uint32) []byte {
			return slices.Concat(u32(id), make([]byte, 12), u64(0), u64(0x1000), u32(0), u32(0), u32(size), u32(at))
		}
		size := uint32(len(b))
		list := slices.Concat(u32(3), thread(7, size, at), thread(8, size-1, at), thread(9, size, 0))
		exception := slices.Concat(u32(8), u32(0), u32(11), u32(1), u64(0), u64(0xfffffffffffffff0), u32(2), u32(0), u64(5), u64(6), make([]byte, 13*8), u32(size), u32(at))
		p, err := open(withStreams(append(base, b...), miniStream{streamThreads, list}, miniStream{streamException, exception}))
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Threads) != 3 || p.Requesting != 1 || p.Exception == nil || len(p.Problems) > 0 {
			t.Fatalf("%#x: got %+v; want three threads, the second requesting, an exception, no problem", number, p)
		}
		for i, some := range []map[string]uint64{want, want, {}} {
			if got := known(&p.Threads[i].Registers); !maps.Equal(got, some) {
				t.Errorf("%#x, thread %d: registers %v, want %v", number, i, got, some)
			}
		}
		for i, problem := range []string{"", "", "the registers cannot be read: the dump does not have them"} {
			if got := p.Threads[i]; got.Problem != problem || got.Stack != (Range{0x1000, 64}) {
				t.Errorf("%#x, thread %d: %q, %+v; want %q, the memory at 0x1000", number, i, got.Problem, got.Stack, problem)
			}
		}
		e := &Exception{Code: 11, Flags: 1, Address: 0xfffffffffffffff0, Parameters: []uint64{5, 6}, Thread: 8, Reason: "SIGSEGV / SEGV_MAPERR"}
		if processors[c.arch].size == 4 {
			e.Address = 0xfffffff0
		}
		if !reflect.DeepEqual(p.Exception, e) {
			t.Errorf("%#x: %+v, want %+v", number, p.Exception, e)
		}
		if pc, sp := p.Threads[0].Registers.PC(), p.Threads[0].Registers.SP(); pc == 0 || sp == 0 || pc == sp {
			t.Errorf("%#x: pc %#x, sp %#x; want two addresses", number, pc, sp)
		}
		copy(b[c.at:], u32(0)) // the context of no processor
		if p, err = open(withStreams(append(f.bytes(), b...), miniStream{streamThreads, list})); err != nil || len(known(&p.Threads[0].Registers)) > 0 || p.Threads[0].Problem == "" {
			t.Errorf("%#x: wrong flags: %v, %v; want no registers and a problem", number, p, err)
		}
	}
}

func TestRegisters(t *testing.T) {
	t.Parallel()
	r := Registers{Arch: "arm64"}
	r.Set("x29", 5)
	r.Set("lr", 6)
	r.Set("rax", 7) // of another processor
	c := r
	c.Set("fp", 8)
	c.Forget("x30")
	if got := known(&r); !maps.Equal(got, map[string]uint64{"fp": 5, "lr": 6}) {
		t.Errorf("got %v, want fp and lr", got)
	}
	if got := known(&c); !maps.Equal(got, map[string]uint64{"fp": 8}) {
		t.Errorf("the copy has %v, want fp", got)
	}
	if r.PC() != 0 || r.SP() != 0 {
		t.Errorf("pc %#x, sp %#x; want 0 for unknown ones", r.PC(), r.SP())
	}
	r = Registers{Arch: "x86"}
	if r.Set("esp", 0x1_0000_0004); r.SP() != 4 {
		t.Errorf("esp %#x, want 4: the register has 32 bits", r.SP())
	}
	var none Registers
	none.Set("rip", 1)
	none.Forget("rip")
	if _, ok := none.Get("rip"); ok || none.PC() != 0 || none.SP() != 0 || none.Names() != nil {
		t.Errorf("%+v has registers, want none", none)
	}
}

func TestReasons(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		os, arch   string
		code, flag uint32
		parameters []uint64
		want       string
	}{
		{"windows", "x86", accessViolation, 0, []uint64{1, 2}, "EXCEPTION_ACCESS_VIOLATION_WRITE"},
		{"windows", "x86", accessViolation, 0, []uint64{3, 2}, "EXCEPTION_ACCESS_VIOLATION"},
		{"windows", "x86", accessViolation, 0, nil, "EXCEPTION_ACCESS_VIOLATION"},
		{"windows", "x86", inPageError, 0, []uint64{0, 2, 0xc0000185}, "EXCEPTION_IN_PAGE_ERROR_READ / STATUS_IO_DEVICE_ERROR"},
		{"windows", "x86", inPageError, 0, []uint64{8, 2, 0xc0ffee01}, "EXCEPTION_IN_PAGE_ERROR_EXEC / 0xc0ffee01"},
		{"windows", "x86", stackBufferOverrun, 0, []uint64{18}, "EXCEPTION_STACK_BUFFER_OVERRUN / FAST_FAIL_INVALID_JUMP_BUFFER"},
		{"windows", "x86", stackBufferOverrun, 0, []uint64{70}, "EXCEPTION_STACK_BUFFER_OVERRUN / FAST_FAIL_INVALID_FLS_DATA"},
		{"windows", "x86", stackBufferOverrun, 0, []uint64{15}, "EXCEPTION_STACK_BUFFER_OVERRUN / 0x0000000f"},
		{"windows", "x86", stackBufferOverrun, 0, nil, "STATUS_STACK_BUFFER_OVERRUN"},
		{"windows", "x86", 0xe06d7363, 0, nil, "Unhandled C++ Exception"},
		{"windows", "x86", 0x12345678, 0, nil, "unknown 0x12345678"},
		{"linux", "arm64", 11, 2, nil, "SIGSEGV / SEGV_ACCERR"},
		{"linux", "arm64", 11, 0x80, nil, "SIGSEGV / SI_KERNEL"},
		{"linux", "arm64", 6, 0, nil, "SIGABRT"},
		{"linux", "arm64", 6, 0xfffffffa, nil, "SIGABRT / SI_TKILL"},
		{"android", "arm", 5, 99, nil, "SIGTRAP / 0x00000063"},
		{"android", "arm", 0xffffffff, 0, nil, "DUMP_REQUESTED"},
		{"linux", "mips", 10, 1, nil, "SIGBUS / BUS_ADRALN"},
		{"linux", "x86", 99, 1, nil, "unknown 0x00000063 / 0x00000001"},
		{"macos", "x86_64", 1, 13, nil, "EXC_BAD_ACCESS / EXC_I386_GPFLT"},
		{"macos", "arm64", 6, 1, nil, "EXC_BREAKPOINT / EXC_ARM_BREAKPOINT"},
		{"ios", "arm64", 1, 2, nil, "EXC_BAD_ACCESS / KERN_PROTECTION_FAILURE"},
		{"ios", "arm64", 1, 13, nil, "EXC_BAD_ACCESS / 0x0000000d"},
		{"macos", "arm64", 12, 2 << 29, []uint64{12, 0x4000000000000001, 7}, "EXC_GUARD / GUARD_TYPE_FD / 0x4000000000000001 / 0x0000000000000007"},
		{"macos", "arm64", simulatedMach, 0, nil, "Simulated Exception"},
		{"", "", 1, 2, nil, "unknown 0x00000001 / 0x00000002"},
	} {
		if got := reason(tt.os, tt.arch, &Exception{Code: tt.code, Flags: tt.flag, Parameters: tt.parameters}); got != tt.want {
			t.Errorf("%s %s %#x %#x %#x: %s, want %s", tt.os, tt.arch, tt.code, tt.flag, tt.parameters, got, tt.want)
		}
	}
}

// TestMemoryOverlap: each byte of memory is there once, from the first part that
// has it; what lies beyond the file is not there.
func TestMemoryOverlap(t *testing.T) {
	t.Parallel()
	file := []byte("0123456789abcdefghij")
	s := &source{r: bytes.NewReader(file), size: int64(len(file))}
	top := ^uint64(0)
	m := newMemory(s, []region{
		{addr: 100, off: 0, size: 10}, {addr: 102, off: 10, size: 4}, {addr: 108, off: 10, size: 5}, {addr: 113, off: 0, size: 2},
		{addr: 200, off: 18, size: 100}, {addr: 300, off: 20, size: 1}, {addr: 301, off: top, size: 9}, {addr: top - 3, off: 0, size: 100},
	}, nil)
	for _, tt := range []struct {
		address uint64
		n       int
		want    string
	}{
		{100, 20, "0123456789cde01"}, {99, 1, ""}, {104, 2, "45"}, {109, 3, "9cd"}, {115, 1, ""}, {200, 9, "ij"}, {300, 1, ""}, {301, 1, ""},
		{top - 3, 9, "012"}, {top, 9, ""}, {0, 9, ""}, {100, 0, ""},
	} {
		p := bytes.Repeat([]byte{'-'}, tt.n)
		n := m.ReadMemory(p, tt.address)
		if got := string(p[:n]); got != tt.want || strings.Trim(string(p[n:]), "-") != "" {
			t.Errorf("%d bytes at %#x: %q (%q), want %q and the rest untouched", tt.n, tt.address, got, p, tt.want)
		}
	}
	if r, ok := m.Range(201); !ok || r != (Range{200, 2}) {
		t.Errorf("%+v, %v around 201; want 2 bytes at 200", r, ok)
	}
	var none Memory
	if n := none.ReadMemory(make([]byte, 4), 0); n != 0 || none.Err() != nil {
		t.Errorf("the zero value has %d bytes, error %v; want none", n, none.Err())
	}
	bad := newMemory(&source{r: failing{file, 5}, size: int64(len(file))}, []region{{addr: 0, off: 0, size: 20}}, nil)
	if n := bad.ReadMemory(make([]byte, 20), 0); n != 0 || !errors.Is(bad.Err(), errDisk) {
		t.Errorf("%d bytes, error %v; want 0, %v", n, bad.Err(), errDisk)
	}
}

// TestMemoryInfo reads the protections of Windows.
func TestMemoryInfo(t *testing.T) {
	t.Parallel()
	const commit, reserve, free = 0x1000, 0x2000, 0x10000
	item := func(at uint64, state, protection uint32) []byte {
		return slices.Concat(u64(at), u64(at), u32(0), u32(0), u64(0x1000), u32(state), u32(protection), u32(0), u32(0))
	}
	data := slices.Concat(u32(16), u32(48), u64(5), item(0x3000, commit, 0x20), item(0x1000, commit, 0x104), item(0x2000, reserve, 0), item(0x5000, free, 1),
		item(0x6000, commit, 0x40))
	p, err := open(withStreams(windowsDump().bytes(), miniStream{streamMemoryInfo, data}))
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[uint64]Region{
		0x1fff: {Range: Range{0x1000, 0x1000}, Read: true, Write: true},
		0x2000: {Range: Range{0x2000, 0x1000}, Reserved: true},
		0x3001: {Range: Range{0x3000, 0x1000}, Read: true, Execute: true},
		0x5001: {Range: Range{0x5000, 0x1000}, Free: true},
		0x6001: {Range: Range{0x6000, 0x1000}, Read: true, Write: true, Execute: true},
	} {
		if r, ok := p.Memory.Region(at); !ok || r != want {
			t.Errorf("%#x: %+v, %v; want %+v", at, r, ok, want)
		}
	}
	if r, ok := p.Memory.Region(0x4000); ok {
		t.Errorf("0x4000 is in %+v, want none", r)
	}
}

func TestOpenFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(text, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{dir: ErrNotDump, text: ErrNotDump, filepath.Join(dir, "none.dmp"): fs.ErrNotExist} {
		if p, c, err := OpenFile(path); !errors.Is(err, want) || !strings.Contains(err.Error(), path) || p != nil || c != nil {
			t.Errorf("%s: %v, %v, %v; want %v with the path", path, p, c, err, want)
		}
	}
	if p, err := Open(failing{windowsDump().bytes(), 100}, 1<<16); p != nil || !errors.Is(err, errDisk) {
		t.Errorf("a bad disk: %v, error %v; want %v", p, err, errDisk)
	}
}

// checkProcess is what holds for every input.
func checkProcess(t *testing.T, b []byte) {
	t.Helper()
	p, err := open(b)
	if err != nil {
		if p != nil || errors.Is(err, ErrNotDump) == errors.Is(err, ErrBroken) {
			t.Fatalf("%v with error %v; want no process, and either ErrNotDump or ErrBroken", p, err)
		}
		return
	}
	if len(p.Threads) > maxThreads || len(p.Problems) > maxProblems || len(p.Annotations) > maxAnnotations || p.Requesting >= len(p.Threads) {
		t.Fatalf("%d threads, %d problems, %d annotations, requesting %d; want them within the limits", len(p.Threads), len(p.Problems), len(p.Annotations), p.Requesting)
	}
	page := make([]byte, 4096)
	for _, th := range p.Threads[:min(len(p.Threads), 100)] {
		for _, at := range []uint64{th.Registers.SP(), th.Registers.PC(), th.Stack.Address, th.Stack.Address + th.Stack.Size} {
			n := p.Memory.ReadMemory(page, at)
			if r, ok := p.Memory.Range(at); ok != (n > 0) || ok && (!r.Contains(at) || r.Size > uint64(len(b))) {
				t.Fatalf("%d bytes at %#x, in %+v, %v; want bytes where a range is, within the file", n, at, r, ok)
			}
			p.Memory.Region(at)
		}
	}
	if err := p.Memory.Err(); err != nil {
		t.Fatalf("memory: error %v, want no error", err)
	}
}

// realFiles are the minidumps of testdata.
func realFiles(t testing.TB) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(realMinidumps, "*.dmp"))
	if err != nil || len(paths) < 8 {
		t.Fatalf("%d dumps in %s, error %v; want at least 8", len(paths), realMinidumps, err)
	}
	files := map[string][]byte{}
	for _, p := range paths {
		if files[p], err = os.ReadFile(p); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// TestProcessDamaged opens every real dump cut short and changed in places that
// the streams are in.
func TestProcessDamaged(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 4))
	for path, b := range realFiles(t) {
		for range 100 {
			checkProcess(t, b[:rnd.IntN(len(b))])
		}
		places := []int{0}
		at := int(binary.LittleEndian.Uint32(b[12:]))
		for i := range int(binary.LittleEndian.Uint32(b[8:])) {
			places = append(places, at+12*i, int(binary.LittleEndian.Uint32(b[at+12*i+8:])))
		}
		for range 300 {
			q := bytes.Clone(b)
			for range 1 + rnd.IntN(4) {
				place := min(places[rnd.IntN(len(places))]+rnd.IntN(64), len(q)-1)
				q[place] = []byte{0, 1, 0x7f, 0x80, 0xff, byte(rnd.Uint32())}[rnd.IntN(6)]
			}
			checkProcess(t, q)
		}
		if t.Failed() {
			t.Fatal(path)
		}
	}
}

// TestProcessBounds opens dumps that ask for as much as their format lets them.
func TestProcessBounds(t *testing.T) {
	measure := func(name string, b []byte, threads int) {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			start := time.Now()
			p, err := open(b)
			took := time.Since(start)
			runtime.ReadMemStats(&after)
			if err != nil || len(p.Threads) != threads || len(p.Problems) == 0 {
				t.Fatalf("error %v; want none, %d threads and a problem", err, threads)
			}
			held := after.TotalAlloc - before.TotalAlloc
			t.Logf("%d bytes allocated, %v, %q", held, took, p.Problems)
			if held > 128<<20 || took > 5*time.Second {
				t.Errorf("%d bytes, %v; want at most %d, 5 s", held, took, 128<<20)
			}
		})
	}
	base := windowsDump().bytes()
	context, _ := registerBytes(contexts[9])
	at := uint32(len(base))
	base = append(base, context...)
	const n = 150_000
	list, names, stacks := u32(n), u32(n), []byte(nil)
	for i := range uint32(n) { // stacks of 4 GiB that overlap
		list = append(list, u32(i)...)
		list = append(list, make([]byte, 20)...)
		list = append(list, u64(uint64(i))...)
		for _, v := range []uint32{0xffffffff, 32, uint32(len(context)), at} {
			list = append(list, u32(v)...)
		}
		names = append(append(names, u32(i)...), u64(0xf0000000)...)
		stacks = append(append(stacks, u64(uint64(i))...), u64(1<<40)...)
	}
	measure("threads", withStreams(base, miniStream{streamThreads, list}, miniStream{streamThreadNames, names}), maxThreads)
	info := slices.Concat(u32(16), u32(48), u64(1<<40), make([]byte, 48*200_000))
	one := slices.Concat(u32(1), list[4:52])
	measure("mappings", withStreams(base, miniStream{streamThreads, one}, miniStream{streamMemoryInfo, info}, miniStream{streamMemory64, slices.Concat(u64(1<<40), u64(32), stacks)}), 1)
	var maps bytes.Buffer
	for i := range 400_000 {
		fmt.Fprintf(&maps, "%x-%x r-xp 0 00:00 0 /%d\n", i*16, i*16+16, i)
	}
	measure("maps", withStreams(base, miniStream{streamThreads, one}, miniStream{streamLinuxMaps, maps.Bytes()}), 1)
}

func FuzzProcess(f *testing.F) {
	for _, b := range realFiles(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) { checkProcess(t, b) })
}

// FuzzStreams puts one stream into a real dump, beginning with those of real
// dumps: each kind of stream is reached however deep in a file it is.
func FuzzStreams(f *testing.F) {
	types := []uint32{streamThreads, streamModules, streamMemory, streamException, streamSystem, streamThreadsEx, streamMemory64,
		streamCommentA, streamCommentW, streamUnloaded, streamMisc, streamMemoryInfo, streamThreadNames, streamBreakpad, streamAssertion,
		streamLinuxStatus, streamLinuxMaps, streamCrashpad, streamMacCrash}
	var hosts [][]byte
	files := realFiles(f)
	for _, path := range slices.Sorted(maps.Keys(files)) {
		b := files[path]
		hosts = append(hosts, b)
		at := binary.LittleEndian.Uint32(b[12:])
		for i := range binary.LittleEndian.Uint32(b[8:]) {
			d := b[at+12*i:]
			size, off := binary.LittleEndian.Uint32(d[4:]), binary.LittleEndian.Uint32(d[8:])
			if k := slices.Index(types, binary.LittleEndian.Uint32(d)); k >= 0 && size < 16<<10 {
				f.Add(byte(len(hosts)-1), byte(k), b[off:][:size])
			}
		}
	}
	for k := range types {
		f.Add(byte(k), byte(k), slices.Concat(u32(1), u32(16), u32(48), make([]byte, 256)))
	}
	f.Fuzz(func(t *testing.T, host, typ byte, data []byte) {
		checkProcess(t, withStreams(hosts[int(host)%len(hosts)], miniStream{types[int(typ)%len(types)], data}))
	})
}
