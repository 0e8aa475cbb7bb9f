package stackwalk_test

import (
	"math/rand/v2"
	"testing"

	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/stackwalk"
)

// randomMemory is memory everywhere whose words are, at random, places of the stack, of code, or any.
type randomMemory struct{ seed uint64 }

func (m randomMemory) ReadMemory(p []byte, address uint64) int {
	for i := range p {
		a := address + uint64(i)
		v := (m.seed ^ a/8) * 0x9E3779B97F4A7C15
		v ^= v >> 29
		v *= 0xBF58476D1CE4E5B9
		switch v >> 62 {
		case 0:
			v = a + v>>8%0x400
		case 1:
			v = at + v>>8%0x1_0000
		}
		p[i] = byte(v >> (a % 8 * 8))
	}
	return len(p)
}

// checkWalk walks and checks what holds for every stack.
func checkWalk(t *testing.T, arch, system string, mem stackwalk.Memory, src stackwalk.Source, regs registers) {
	t.Helper()
	w, err := stackwalk.New(stackwalk.Process{Arch: arch, OS: system, Modules: modules, Memory: mem}, src, stackwalk.Limits{Frames: 64})
	if err != nil {
		return
	}
	s, err := w.Walk(t.Context(), stackwalk.Thread{Registers: regs})
	if err != nil || len(s.Frames) > 64 {
		t.Fatalf("%d frames, error %v", len(s.Frames), err)
	}
	for i, f := range s.Frames {
		if i > 0 && (f.SP < s.Frames[i-1].SP || f.PC < 4096) || (i == 0) != (f.Trust == stackwalk.Context) {
			t.Fatalf("frame %d at %#x, sp %#x: %s", i, f.PC, f.SP, f.Trust)
		}
	}
}

// allRegisters gives every register the value of a place.
func allRegisters(pc uint64) registers {
	regs := registers{"rip": pc, "eip": pc, "pc": pc, "rsp": stackAt, "esp": stackAt, "sp": stackAt}
	for _, name := range []string{"rbp", "ebp", "x29", "r11", "r7"} {
		regs[name] = stackAt + 16
	}
	for _, name := range []string{"rbx", "ebx", "lr", "x19", "r4"} {
		regs[name] = pc + 8
	}
	return regs
}

func TestRandomMemory(t *testing.T) {
	r := rand.New(rand.NewPCG(symtest.Seed(t, 0), 1))
	for range 100 {
		m := randomMemory{r.Uint64()}
		for _, arch := range []string{"x86", "x86_64", "arm", "arm64"} {
			for _, system := range []string{"windows", "linux", "ios"} {
				checkWalk(t, arch, system, m, &process{}, allRegisters(at+r.Uint64N(0x1_0000)))
			}
		}
	}
}

// FuzzRules evaluates any rules of call frame information.
func FuzzRules(f *testing.F) {
	for _, tc := range walks {
		for _, r := range tc.rules {
			delta := ""
			if len(r.CFI) > 1 {
				delta = r.CFI[1]
			}
			if r.CFI != nil {
				f.Add(tc.arch, r.CFI[0], delta, uint64(1))
			}
		}
	}
	f.Fuzz(func(t *testing.T, arch, first, second string, seed uint64) {
		p := &process{rules: map[int]func(uint64) (functab.Rules, bool){
			code: func(uint64) (functab.Rules, bool) { return cfi(first, second), true },
		}}
		checkWalk(t, arch, "windows", randomMemory{seed}, p, allRegisters(at+0x10))
	})
}

// FuzzProgram executes any frame data program.
func FuzzProgram(f *testing.F) {
	for _, tc := range walks {
		for _, r := range tc.rules {
			if r.Win != nil {
				f.Add(r.Win.Program, r.Win.Locals, r.Win.SavedRegs, r.Params, uint64(1))
			}
		}
	}
	f.Fuzz(func(t *testing.T, program string, locals, saved, params uint32, seed uint64) {
		w := &functab.WinFrame{Program: program, Locals: locals, SavedRegs: saved, Params: params}
		if program != "" {
			w.Type = 4
		}
		p := &process{rules: map[int]func(uint64) (functab.Rules, bool){
			code: func(uint64) (functab.Rules, bool) { return functab.Rules{Win: w, Params: params}, true },
		}}
		checkWalk(t, "x86", "windows", randomMemory{seed}, p, allRegisters(at+0x10))
	})
}
