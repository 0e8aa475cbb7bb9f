package stackwalk_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/objtab"
	"github.com/symdepot/symdepot/stackwalk"
	"github.com/symdepot/symdepot/symfile"
)

const crashing = `
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static volatile int deep = 12, sum;
__attribute__((noinline)) static int compare(const void *a, const void *b) {
	volatile char room[200];
	room[0] = *(const char *)a;
	if (deep-- <= 0) abort();
	return room[0] - *(const char *)b;
}
__attribute__((noinline)) static int recurse(int n) {
	char list[40];
	volatile char room[n * 8 + 16];
	room[n] = n;
	for (int i = 0; i < 40; i++) list[i] = 40 - i;
	if (n > 0) { sum += recurse(n - 1) + room[n]; return sum; }
	qsort(list, 40, 1, compare);
	return list[0] + room[0];
}
static void *sleeper(void *p) { for (;;) pause(); }
int main(void) {
	pthread_t t[3];
	for (int i = 0; i < 3; i++) pthread_create(&t[i], 0, sleeper, 0);
	usleep(100000);
	return recurse(9);
}
`

// core is a core file of Linux for x64, with the memory that it has and that of the files it names.
type core struct {
	file    *elf.File
	modules []stackwalk.Module
	sources stackwalk.Modules
	threads []registers
}

func (c *core) ReadMemory(p []byte, address uint64) int {
	for _, s := range c.file.Progs {
		if s.Type == elf.PT_LOAD && address >= s.Vaddr && address-s.Vaddr < s.Filesz {
			n, _ := s.ReadAt(p[:min(uint64(len(p)), s.Filesz-(address-s.Vaddr))], int64(address-s.Vaddr))
			return n
		}
	}
	return 0
}

// openCore reads a core file: the registers of its threads, and its files with their unwind rules.
func openCore(t *testing.T, path string) *core {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	c := &core{file: f}
	le := binary.LittleEndian
	for _, s := range f.Progs {
		if s.Type != elf.PT_NOTE {
			continue
		}
		p := make([]byte, s.Filesz)
		if _, err := s.ReadAt(p, 0); err != nil {
			t.Fatal(err)
		}
		for len(p) >= 12 {
			name, size, kind := (le.Uint32(p)+3)&^3, le.Uint32(p[4:]), le.Uint32(p[8:])
			body := p[12+name:][:size]
			p = p[12+name+(size+3)&^3:]
			switch kind {
			case 1: // NT_PRSTATUS
				regs := registers{}
				for i, name := range []string{
					"r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi", "", "rip", "", "", "rsp",
				} {
					regs[name] = le.Uint64(body[112+8*i:])
				}
				c.threads = append(c.threads, regs)
			case 0x46494c45: // NT_FILE
				c.files(t, body)
			}
		}
	}
	return c
}

// files reads the list of mapped files.
func (c *core) files(t *testing.T, p []byte) {
	t.Helper()
	n := binary.LittleEndian.Uint64(p)
	names := bytes.Split(p[16+24*n:], []byte{0})
	base := map[string]int{}
	for i := range n {
		start, end := binary.LittleEndian.Uint64(p[16+24*i:]), binary.LittleEndian.Uint64(p[24+24*i:])
		name := string(names[i])
		if m, ok := base[name]; ok {
			c.modules[m].Size = end - c.modules[m].Base
			continue
		}
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		t.Cleanup(func() { f.Close() })
		st, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		finder, err := objtab.Finder(objtab.File{Reader: f, Size: st.Size()}, symfile.ELF, objtab.Options{})
		if err != nil {
			continue // a file of data
		}
		base[name] = len(c.modules)
		c.modules = append(c.modules, stackwalk.Module{Base: start, Size: end - start})
		c.sources = append(c.sources, stackwalk.Known{Finder: finder})
	}
}

var gdbLine = regexp.MustCompile(`(?m)^(?:Thread (\d+) \(|\$\d+ = 0x([0-9a-f]+)$)`)

// TestGDB compares the stacks of a core file with those of GDB, by the .eh_frame of a program without
// frame pointers, of the C library and of the loader.
func TestGDB(t *testing.T) {
	gdb, gcc := symtest.Tool(t, "gdb"), symtest.Tool(t, "gcc")
	dir := t.TempDir()
	src, prog, file := filepath.Join(dir, "crash.c"), filepath.Join(dir, "crash"), filepath.Join(dir, "core")
	if err := os.WriteFile(src, []byte(crashing), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(gcc, "-O2", "-fomit-frame-pointer", "-o", prog, src, "-lpthread").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	// With debug information, GDB shows inlined calls and calls at the end of functions too.
	args := []string{"-nx", "-batch"}
	for _, command := range []string{
		"set debuginfod enabled off", "set debug-file-directory " + dir, "set backtrace past-main on", "set backtrace past-entry on",
		"run", "generate-core-file " + file, "thread apply all frame apply all -q p/x $pc",
	} {
		args = append(args, "-ex", command)
	}
	out, err := exec.Command(gdb, append(args, prog)...).CombinedOutput()
	if err != nil {
		t.Fatalf("gdb: %v\n%s", err, out)
	}
	var want [][]uint64
	for _, m := range gdbLine.FindAllSubmatch(out, -1) {
		if len(m[1]) > 0 {
			want = append(want, nil)
		} else if pc, err := strconv.ParseUint(string(m[2]), 16, 64); err == nil && len(want) > 0 {
			want[len(want)-1] = append(want[len(want)-1], pc)
		}
	}
	c := openCore(t, file)
	w, err := stackwalk.New(stackwalk.Process{Arch: "x86_64", OS: "linux", Modules: c.modules, Memory: c}, c.sources, stackwalk.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if len(want) != 4 || len(c.threads) != 4 {
		t.Fatalf("%d threads, GDB has %d\n%s", len(c.threads), len(want), out)
	}
	deepest := 0
	for _, regs := range c.threads {
		s, err := w.Walk(t.Context(), stackwalk.Thread{Registers: regs})
		if err != nil {
			t.Fatal(err)
		}
		var got []uint64
		report := ""
		for i, f := range s.Frames {
			got = append(got, f.PC)
			report += fmt.Sprintf("%#x %s %s\n", f.PC, f.Trust, f.Problem)
			if f.Trust != stackwalk.CFI && i > 0 {
				t.Errorf("frame %d at %#x was found by %s", i, f.PC, f.Trust)
			}
		}
		deepest = max(deepest, len(got))
		if !slices.ContainsFunc(want, func(list []uint64) bool { return slices.Equal(list, got) }) {
			t.Errorf("no thread of GDB has the frames\n%sGDB has %x", report, want)
		}
	}
	t.Logf("the deepest stack has %d frames", deepest)
	if deepest < 15 {
		t.Errorf("the deepest stack has %d frames, want 15 or more", deepest)
	}
}
