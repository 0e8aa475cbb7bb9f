package dump

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// crashProgram has three threads, one of which writes to address 0.
const crashProgram = `#include <pthread.h>
#include <unistd.h>
static volatile int *volatile nowhere;
static pthread_barrier_t ready;
static void *wait_here(void *p) { pthread_barrier_wait(&ready); pause(); return p; }
static int deep(int n) { if (n > 0) return deep(n - 1) + 1; *nowhere = n; return 0; }
int main(void) {
	pthread_t a, b;
	pthread_barrier_init(&ready, 0, 3);
	pthread_create(&a, 0, wait_here, 0);
	pthread_create(&b, 0, wait_here, 0);
	pthread_barrier_wait(&ready);
	return deep(5);
}
`

// TestCoreOfGDB compares with the registers that gdb prints of a crash of which
// it also writes the core.
func TestCoreOfGDB(t *testing.T) {
	gcc, gdb := symtest.Tool(t, "gcc"), symtest.Tool(t, "gdb")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "prog.c"), []byte(crashProgram), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command(gcc, "-g", "-pthread", "-o", "prog", "prog.c")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		symtest.Missing(t, "tools", "gcc: %v\n%s", err, out)
	}
	run := exec.Command(gdb, "-nx", "-batch", "-ex", "run", "-ex", "info registers", "-ex", "gcore crash.core", "./prog")
	run.Dir, run.Env = dir, append(os.Environ(), "DEBUGINFOD_URLS=", "HOME="+dir)
	out, err := run.CombinedOutput()
	core := filepath.Join(dir, "crash.core")
	if _, missing := os.Stat(core); err != nil || missing != nil {
		symtest.Missing(t, "debuggers", "gdb may not trace here: %v\n%s", err, out)
	}
	p, closer, err := OpenFile(core)
	if err != nil {
		t.Fatal(err)
	}
	defer closer.Close()
	if len(p.Threads) != 3 || p.Requesting != 0 || len(p.Problems) > 0 || p.PID == 0 || uint64(p.PID) != p.Threads[0].ID || p.Threads[0].Name != "prog" {
		t.Fatalf("%d threads, requesting %d, problems %q, process %d; want three, 0, none, the first thread", len(p.Threads), p.Requesting, p.Problems, p.PID)
	}
	want := &Exception{Code: 11, Flags: 1, Thread: uint64(p.PID), Reason: "SIGSEGV / SEGV_MAPERR"}
	if !reflect.DeepEqual(p.Exception, want) {
		t.Errorf("exception %+v, want %+v", p.Exception, want)
	}
	compared := 0
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 3 {
			continue
		}
		if v, ok := p.Threads[0].Registers.Get(fields[0]); ok {
			compared++
			if got := fmt.Sprintf("%#x", v); got != fields[1] {
				t.Errorf("%s: %s, want %s", fields[0], got, fields[1])
			}
		}
	}
	if compared < len(p.Threads[0].Registers.Names()) {
		t.Errorf("gdb printed %d registers, want all %d", compared, len(p.Threads[0].Registers.Names()))
	}
	for _, th := range p.Threads {
		stack, ok := p.Memory.Region(th.Registers.SP())
		if !ok || !stack.Write || !th.Stack.Contains(th.Registers.SP()) || p.Memory.ReadMemory(make([]byte, 64), th.Registers.SP()) != 64 {
			t.Errorf("thread %d: the stack %+v is in %+v, want memory to write", th.ID, th.Stack, stack)
		}
		if code, ok := p.Memory.Region(th.Registers.PC()); !ok || !code.Execute && !code.NoProtection || !strings.HasPrefix(code.Name, "/") {
			t.Errorf("thread %d: the code at %#x is in %+v, want a mapped file", th.ID, th.Registers.PC(), code)
		}
	}
}

// coreMachines are the processors of core files whose registers are read.
var coreMachines = []struct {
	arch    string
	machine uint16
	elfBuilder
}{
	{"x86_64", 62, elfBuilder{binary.LittleEndian, true}}, {"x86", 3, elfBuilder{binary.LittleEndian, false}},
	{"arm", 40, elfBuilder{binary.LittleEndian, false}}, {"arm64", 183, elfBuilder{binary.LittleEndian, true}},
	{"mips", 8, elfBuilder{binary.BigEndian, false}}, {"mips64", 8, elfBuilder{binary.BigEndian, true}},
	{"ppc", 20, elfBuilder{binary.BigEndian, false}}, {"ppc64", 21, elfBuilder{binary.BigEndian, true}},
	{"riscv32", 243, elfBuilder{binary.LittleEndian, false}}, {"riscv64", 243, elfBuilder{binary.LittleEndian, true}},
}

// threadNote is the status of a thread, with numbered registers.
func threadNote(e elfBuilder, arch string, id uint64, signal uint16) ([]byte, map[string]uint64) {
	registers, idAt := 72, 24
	if e.is64 {
		registers, idAt = 112, 32
	}
	b, want := make([]byte, registers+400), map[string]uint64{}
	e.order.PutUint16(b[12:], signal)
	e.order.PutUint32(b[idAt:], uint32(id))
	for _, pl := range coreRegisters[arch] {
		for i, name := range pl.names {
			if name != "" {
				v := uint64(pl.at + i*pl.size + 1)
				copy(b[registers+pl.at+i*pl.size:], e.put(pl.size, v))
				want[name] = v
			}
		}
	}
	return e.note("CORE", noteStatus, b), want
}

func TestCoreProcess(t *testing.T) {
	t.Parallel()
	for _, m := range coreMachines {
		first, want := threadNote(m.elfBuilder, m.arch, 70, 11)
		second, _ := threadNote(m.elfBuilder, m.arch, 71, 0)
		cut := m.note("CORE", noteStatus, make([]byte, 20))
		info := slices.Concat(m.put(4, 11), make([]byte, 4), m.put(4, 2))
		if strings.HasPrefix(m.arch, "mips") {
			info = slices.Concat(m.put(4, 11), m.put(4, 2), make([]byte, 4))
		}
		if m.is64 {
			info = append(info, make([]byte, 4)...)
		}
		info = append(append(info, m.word(0xfff0)...), make([]byte, 16)...)
		mask := m.note("LINUX", notePACMask, slices.Concat(m.put(8, 0xff<<48), m.put(8, 0xff<<56)))
		for _, siginfo := range []bool{true, false} {
			f := coreFile{elfBuilder: m.elfBuilder, machine: m.machine, maps: []coreMap{{addr: 0, size: 0x1000, flags: 6, memory: make([]byte, 0x800), path: "/lib/a.so"}}}
			f.notes = slices.Concat(first)
			if siginfo {
				f.notes = append(f.notes, m.note("CORE", noteSignal, info)...)
			}
			f.notes = slices.Concat(f.notes, second, cut, mask)
			p, err := open(f.bytes())
			if err != nil {
				t.Fatal(err)
			}
			if p.Arch != m.arch || len(p.Threads) != 2 || p.Threads[0].ID != 70 || p.Threads[1].ID != 71 || p.Requesting != 0 || p.PID != 70 {
				t.Fatalf("%s: got %+v, want the threads 70 and 71 of process 70", m.arch, p)
			}
			if got := known(&p.Threads[0].Registers); !maps.Equal(got, want) {
				t.Errorf("%s: registers %v, want %v", m.arch, got, want)
			}
			e := &Exception{Code: 11, Thread: 70, Reason: "SIGSEGV"}
			if siginfo {
				e = &Exception{Code: 11, Flags: 2, Address: 0xfff0, Thread: 70, Reason: "SIGSEGV / SEGV_ACCERR"}
			}
			if !reflect.DeepEqual(p.Exception, e) {
				t.Errorf("%s: exception %+v, want %+v", m.arch, p.Exception, e)
			}
			if len(p.Problems) != 1 || !strings.Contains(p.Problems[0], "status of a thread is cut short") {
				t.Errorf("%s: problems %q, want that of the short thread", m.arch, p.Problems)
			}
			if r, ok := p.Memory.Region(0xfff); !ok || r != (Region{Range: Range{0, 0x1000}, Read: true, Write: true, Name: "/lib/a.so"}) || p.Memory.ReadMemory(make([]byte, 0x1000), 0) != 0x800 {
				t.Errorf("%s: mapping %+v, want 4 KiB of /lib/a.so with 2 KiB in the file", m.arch, r)
			}
			if m.is64 && p.AddressMask != 1<<48-1 {
				t.Errorf("%s: mask %#x, want 48 bits", m.arch, p.AddressMask)
			}
		}
	}
}

// TestCoreStopped: a process that was stopped to be dumped has not crashed.
func TestCoreStopped(t *testing.T) {
	t.Parallel()
	m := coreMachines[0]
	f := coreFile{elfBuilder: m.elfBuilder, machine: m.machine, maps: []coreMap{{addr: 0x1000, size: 0x1000}}}
	f.notes, _ = threadNote(m.elfBuilder, m.arch, 70, 19)
	if p, err := open(f.bytes()); err != nil || p.Exception != nil || p.Requesting != 0 || p.Threads[0].Problem != "the dump does not have the stack" {
		t.Errorf("got %+v, error %v; want no exception, thread 0 without its stack", p, err)
	}
	f.notes = m.note("FreeBSD", noteStatus, make([]byte, 300))
	if p, err := open(f.bytes()); err != nil || len(p.Threads) != 0 || p.Requesting != -1 || len(p.Problems) == 0 {
		t.Errorf("a core of FreeBSD: got %+v, error %v; want no threads and a problem", p, err)
	}
}

// processCore is a core with a note of each kind that is read.
func processCore(m struct {
	arch    string
	machine uint16
	elfBuilder
}) []byte {
	f := libraryCore(m.elfBuilder)
	f.machine = m.machine
	first, _ := threadNote(m.elfBuilder, m.arch, 70, 11)
	f.notes = slices.Concat(first, m.note("CORE", noteProcess, make([]byte, 136)), m.note("CORE", noteSignal, make([]byte, 128)),
		m.note("LINUX", notePACMask, make([]byte, 16)))
	return f.bytes()
}

func TestCoreProcessDamaged(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(5, 6))
	for _, m := range coreMachines {
		b := processCore(m)
		for range 200 {
			checkProcess(t, b[:rnd.IntN(len(b))])
			q := bytes.Clone(b)
			for range 1 + rnd.IntN(6) {
				q[rnd.IntN(min(len(q), 4096))] = byte(rnd.Uint32())
			}
			checkProcess(t, q)
		}
	}
}

// FuzzCoreProcess begins with cores of each processor.
func FuzzCoreProcess(f *testing.F) {
	for _, m := range coreMachines {
		f.Add(processCore(m))
	}
	f.Fuzz(func(t *testing.T, b []byte) { checkProcess(t, b) })
}
