package stackwalk_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/stackwalk"
)

// region is memory from an address on.
type region struct {
	start uint64
	data  []byte
}

// process is a synthetic process: its memory, and the rules of its modules.
type process struct {
	regions []region
	rules   map[int]func(rva uint64) (functab.Rules, bool)
	code    func(module int, rva uint64) bool
}

func (p *process) ReadMemory(b []byte, address uint64) int {
	for _, r := range p.regions {
		if address >= r.start && address-r.start < uint64(len(r.data)) {
			return copy(b, r.data[address-r.start:])
		}
	}
	return 0
}

func (p *process) Rules(_ context.Context, module int, rva uint64) (functab.Rules, bool) {
	if f := p.rules[module]; f != nil {
		return f(rva)
	}
	return functab.Rules{}, false
}

func (p *process) Code(_ context.Context, module int, rva uint64) bool {
	return p.code == nil || p.code(module, rva)
}

type registers map[string]uint64

func (r registers) Get(name string) (uint64, bool) {
	v, ok := r[name]
	return v, ok
}

// Places of the synthetic processes.
const (
	stackAt  = 0x7000_0100 // in the middle of a block
	moduleAt = 0x40_0000
)

var modules = []stackwalk.Module{{Base: 0x80_0000, Size: 0x1000}, {}, {Base: moduleAt, Size: 0x1_0000}}

const code = 2 // number of the module at moduleAt

// words returns a stack of words of 4 or 8 bytes.
func words(size int, list ...uint64) []region {
	var p []byte
	for _, v := range list {
		if size == 4 {
			p = binary.LittleEndian.AppendUint32(p, uint32(v))
		} else {
			p = binary.LittleEndian.AppendUint64(p, v)
		}
	}
	return []region{{stackAt, p}}
}

// table gives every address in a range of functions of 0x100 bytes the rules of a list.
func table(rules ...functab.Rules) func(rva uint64) (functab.Rules, bool) {
	return func(rva uint64) (functab.Rules, bool) {
		if n := rva / 0x100; n < uint64(len(rules)) && (rules[n].CFI != nil || rules[n].Win != nil || rules[n].Params > 0) {
			r := rules[n]
			r.Start = n * 0x100
			return r, true
		}
		return functab.Rules{}, false
	}
}

func cfi(rules ...string) functab.Rules { return functab.Rules{CFI: rules} }

// text writes frames as "PC-SP trust", relative to the stack and the module.
func text(s stackwalk.Stack) string {
	var list []string
	for _, f := range s.Frames {
		pc := fmt.Sprintf("%x", f.PC)
		if f.Module == code {
			pc = fmt.Sprintf("+%x", f.PC-moduleAt)
		}
		list = append(list, fmt.Sprintf("%s/%x %s", pc, f.SP-stackAt, f.Trust))
	}
	return strings.Join(list, ", ")
}

const at = moduleAt

var walks = []struct {
	name     string
	arch, os string
	regs     registers
	memory   []region
	rules    []functab.Rules
	want     string
	problem  string // part of the problem of a frame or of the stack
}{{
	name: "rules of x64 to the end", arch: "x86_64", os: "linux",
	regs:   registers{"rip": at + 0x10, "rsp": stackAt, "rbp": 7},
	memory: words(8, 1, at+0x120, 2, 3, at+0x220, 0, 0),
	rules: []functab.Rules{
		cfi(".cfa: $rsp 8 + .ra: .cfa -8 + ^", ".cfa: $rsp 16 +"),
		cfi(".cfa: $rsp 24 + .ra: .cfa 8 - ^ $rbp: .cfa -24 + ^"),
		cfi(".cfa: $rbp 2 - 0 * $rsp 8 + + .ra: 0"),
	},
	want: "+10/0 context, +120/10 cfi, +220/28 cfi",
}, {
	name: "the last byte of the call has the rules", arch: "x86_64", os: "linux",
	regs:   registers{"rip": at + 0x10, "rsp": stackAt},
	memory: words(8, at+0x100, at+0x200, at+0x300),
	rules:  []functab.Rules{cfi(".cfa: $rsp 8 + .ra: .cfa -8 + ^"), cfi(".cfa: $rsp 8 + .ra: .cfa -8 + ^"), cfi(".cfa: $rsp 8 + .ra: 1")},
	want:   "+10/0 context, +100/8 cfi, +200/10 cfi, +300/18 cfi",
}, {
	name: "rules that fail, then rbp", arch: "x86_64", os: "linux",
	regs:    registers{"rip": at + 0x10, "rsp": stackAt, "rbp": stackAt + 8},
	memory:  words(8, 1, stackAt+0x18, at+0x120, 0, 0),
	rules:   []functab.Rules{cfi(".cfa: $r15 8 + .ra: .cfa -8 + ^")},
	want:    "+10/0 context, +120/18 frame_pointer",
	problem: ".cfa: the register $r15 is not known",
}, {
	name: "rbp of Windows in the middle of the frame", arch: "x86_64", os: "windows",
	regs:   registers{"rip": at + 0x10, "rsp": stackAt, "rbp": stackAt},
	memory: words(8, 1, 2, 3, 4, stackAt+0x30, at+0x120, 0, 0),
	want:   "+10/0 context, +120/30 frame_pointer",
}, {
	name: "rbp that is no frame pointer, then a search", arch: "x86_64", os: "linux",
	regs:   registers{"rip": at + 0x10, "rsp": stackAt, "rbp": stackAt + 8},
	memory: words(8, 1, 2, 3, at+0x120, at+0x3000, 0),
	want:   "+10/0 context, +120/20 scan, +3000/28 scan",
}, {
	name: "a register with a rule that fails is not known", arch: "x86_64", os: "linux",
	regs:   registers{"rip": at + 0x10, "rsp": stackAt, "rbx": stackAt},
	memory: words(8, at+0x120, at+0x220, 0),
	rules: []functab.Rules{
		cfi(".cfa: $rsp 8 + .ra: .cfa -8 + ^ $rbx: .undef"),
		cfi(".cfa: $rbx 8 + .ra: .cfa -8 + ^"),
	},
	want:    "+10/0 context, +120/8 cfi, +220/10 scan",
	problem: "the register $rbx is not known",
}, {
	name: "rules set rsp", arch: "x86_64", os: "windows",
	regs:   registers{"rip": at + 0x10, "rsp": stackAt},
	memory: words(8, at+0x120, 0, 0, stackAt+0x30, 0, 0, at+0x220, 0),
	rules: []functab.Rules{
		cfi(".cfa: $rsp 48 + .ra: .cfa 48 - ^ $rsp: .cfa 24 - ^"),
		cfi(".cfa: $rsp 8 + .ra: .cfa 8 - ^"), cfi(".cfa: $rsp 8 + .ra: .cfa 8 - ^"),
	},
	want: "+10/0 context, +120/30 cfi, +220/38 cfi",
}, {
	name: "ebp without a test", arch: "x86", os: "windows",
	regs:   registers{"eip": at + 0x10, "esp": stackAt, "ebp": stackAt + 4},
	memory: words(4, 1, 0, 0x5000, 0),
	want:   "+10/0 context, 5000/c frame_pointer",
}, {
	name: "a search for x86 finds ebp below the return address", arch: "x86", os: "linux",
	regs:   registers{"eip": at + 0x10, "esp": stackAt},
	memory: words(4, 1, stackAt+12, at+0x120, 0, at+0x220, 0),
	want:   "+10/0 context, +120/c scan, +220/14 frame_pointer",
}, {
	name: "frame data", arch: "x86", os: "windows",
	regs:   registers{"eip": at + 0x10, "esp": stackAt, "ebp": stackAt + 8},
	memory: words(4, 1, 2, stackAt+0x1c, at+0x120, 5, at+0x220, 7, 0, 0),
	rules: []functab.Rules{
		{Win: &functab.WinFrame{Type: 4, Program: "$T0 $ebp = $eip $T0 4 + ^ = $ebp $T0 ^ = $esp $T0 8 + ="}, Params: 4},
		{Win: &functab.WinFrame{Type: 4, Program: "$T0 .raSearch = $eip $T0 ^ =$esp $T0 4 + = $ebx .undef ="}},
	},
	want: "+10/0 context, +120/10 cfi, +220/18 cfi",
}, {
	name: "frame data of an aligned frame", arch: "x86", os: "windows",
	regs:   registers{"eip": at + 0x10, "esp": stackAt, "ebp": stackAt + 8, "ebx": stackAt + 20},
	memory: words(4, 1, 2, 0, at+0x120, 0, 0, 0),
	rules:  []functab.Rules{{Win: &functab.WinFrame{Type: 4, Program: "$T1 .raSearch = $T0 $T1 4 - 8 @ = $eip $T1 ^ = $esp $T1 4 + ="}}},
	want:   "+10/0 context, +120/10 cfi",
}, {
	name: "sizes of a function without a program", arch: "x86", os: "windows",
	regs:   registers{"eip": at + 0x10, "esp": stackAt, "ebp": 9},
	memory: words(4, stackAt+0x20, 1, at+0x120, 0, 0, at+0x220, 0),
	rules: []functab.Rules{
		{Win: &functab.WinFrame{SavedRegs: 8, AllocatesBP: true}},
		{Win: &functab.WinFrame{Locals: 8}},
	},
	want: "+10/0 context, +120/c cfi, +220/18 cfi",
}, {
	name: "a return address that a system call left", arch: "x86", os: "windows",
	regs:   registers{"eip": at + 0x10, "esp": stackAt, "ebp": 9},
	memory: words(4, at+0x10, at+0x120, 0),
	rules:  []functab.Rules{{Win: &functab.WinFrame{}}},
	want:   "+10/0 context, +120/8 cfi",
}, {
	name: "a program that fails, then CFI", arch: "x86", os: "windows",
	regs:   registers{"eip": at + 0x10, "esp": stackAt, "ebp": 9},
	memory: words(4, at+0x120, 0),
	rules: []functab.Rules{{
		Win: &functab.WinFrame{Type: 4, Program: "$eip $T3 ="},
		CFI: []string{".cfa: $esp 4 + .ra: .cfa -4 + ^"},
	}},
	want: "+10/0 context, +120/4 cfi",
}, {
	name: "a leaf of ARM64, then signed frame records", arch: "arm64", os: "ios",
	regs:   registers{"pc": at + 0x10, "sp": stackAt, "fp": stackAt, "lr": at + 0x120},
	memory: words(8, stackAt+0x20|0x55<<56, at+0x220|0x2a<<50, 0, 0, 0, 0x1234),
	rules: []functab.Rules{
		cfi(".cfa: sp 0 + .ra: x30"),
		cfi(".cfa: x29 16 + .ra: .cfa -8 + ^ x29: .cfa -16 + ^"),
	},
	want: "+10/0 context, +120/0 cfi, +220/10 cfi, 1234/30 frame_pointer",
}, {
	name: "the link register of a frame record is that of a function's start only", arch: "arm64", os: "linux",
	regs:   registers{"pc": 0x5000, "sp": stackAt, "x29": stackAt},
	memory: words(8, stackAt+0x10, at+0x104, stackAt+0x20, at+0x208, 0, 0),
	rules:  []functab.Rules{{}, cfi(".cfa: sp 0 + .ra: lr"), cfi(".cfa: sp 0 + .ra: lr")},
	want:   "5000/0 context, +104/10 frame_pointer, +208/10 cfi, +208/20 frame_pointer",
}, {
	name: "a leaf of ARM, then a search past bit 0", arch: "arm", os: "linux",
	regs:   registers{"pc": at + 0x11, "sp": stackAt, "lr": at + 0x121},
	memory: words(4, 1, 2, at+0x221, 0),
	rules:  []functab.Rules{cfi(".cfa: sp 0 + .ra: lr")},
	want:   "+11/0 context, +121/0 cfi, +221/c scan",
}, {
	name: "r7 on Apple's systems", arch: "arm", os: "ios",
	regs:   registers{"pc": at + 0x10, "sp": stackAt, "r7": stackAt + 4},
	memory: words(4, 1, 0, at+0x121, 0),
	want:   "+10/0 context, +121/c frame_pointer",
}, {
	name: "r11 elsewhere, if it looks like a frame", arch: "arm", os: "android",
	regs:   registers{"pc": at + 0x10, "sp": stackAt, "r11": stackAt + 4},
	memory: words(4, at+0x221, stackAt+12, at+0x121, 0, 0x100),
	want:   "+10/0 context, +121/c frame_pointer",
}, {
	name: "the stack ends", arch: "x86_64", os: "linux",
	regs: registers{"rip": at + 0x10, "rsp": stackAt},
	want: "+10/0 context",
}, {
	name: "the rules do not move", arch: "x86_64", os: "linux",
	regs:   registers{"rip": at + 0x10, "rsp": stackAt},
	memory: words(8, at+0x10, at+0x10),
	rules:  []functab.Rules{cfi(".cfa: $rsp .ra: .cfa ^")},
	want:   "+10/0 context",
}, {
	name: "two functions that enter each other", arch: "arm64", os: "linux",
	regs: registers{"pc": at + 0x10, "sp": stackAt, "x19": at + 0x120, "x20": at + 0x20},
	rules: []functab.Rules{
		cfi(".cfa: sp .ra: x19"), cfi(".cfa: sp .ra: x20"),
	},
	want:    "+10/0 context, +120/0 cfi, +20/0 cfi, +120/0 cfi, +20/0 cfi, +120/0 cfi, +20/0 cfi, +120/0 cfi, +20/0 cfi",
	problem: "more than 8 frames have the stack pointer",
}, {
	name: "no instruction pointer", arch: "x86_64", os: "linux", regs: registers{"rsp": stackAt},
	problem: "no instruction pointer",
}}

func walker(t testing.TB, arch, system string, p *process, lim stackwalk.Limits) *stackwalk.Walker {
	t.Helper()
	w, err := stackwalk.New(stackwalk.Process{Arch: arch, OS: system, Modules: modules, Memory: p}, p, lim)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestWalk(t *testing.T) {
	for _, tc := range walks {
		t.Run(tc.name, func(t *testing.T) {
			p := &process{regions: tc.memory, rules: map[int]func(uint64) (functab.Rules, bool){code: table(tc.rules...)}}
			s, err := walker(t, tc.arch, tc.os, p, stackwalk.Limits{}).Walk(t.Context(), stackwalk.Thread{Registers: tc.regs})
			if err != nil {
				t.Fatal(err)
			}
			if got := text(s); got != tc.want {
				t.Errorf("frames\n%s\nwant\n%s", got, tc.want)
			}
			problems := s.Problem
			for _, f := range s.Frames {
				problems += f.Problem
			}
			if tc.problem == "" && s.Problem != "" || !strings.Contains(problems, tc.problem) {
				t.Errorf("problem %q, want %q", problems, tc.problem)
			}
		})
	}
}

// The stack of a thread bounds frame pointers and searches.
func TestStackRange(t *testing.T) {
	p := &process{regions: words(8, 1, 2, at+0x120, 0)}
	w := walker(t, "x86_64", "linux", p, stackwalk.Limits{})
	regs := registers{"rip": at + 0x10, "rsp": stackAt}
	for size, want := range map[uint64]string{
		16: "+10/0 context",
		20: "+10/0 context",
		24: "+10/0 context, +120/18 scan",
		0:  "+10/0 context, +120/18 scan",
	} {
		s, err := w.Walk(t.Context(), stackwalk.Thread{Registers: regs, Stack: stackwalk.Range{Address: stackAt, Size: size}})
		if got := text(s); err != nil || got != want {
			t.Errorf("stack of %d bytes: %s, error %v, want %s", size, got, err, want)
		}
	}
}

// A search reads 160 words after a frame that is trusted and 40 words after another one.
func TestScanLength(t *testing.T) {
	list := make([]uint64, 500)
	list[159], list[159+40], list[159+40+41] = at+0x120, at+0x220, at+0x320
	p := &process{regions: words(8, list...)}
	regs := registers{"rip": at + 0x10, "rsp": stackAt}
	s, err := walker(t, "x86_64", "linux", p, stackwalk.Limits{}).Walk(t.Context(), stackwalk.Thread{Registers: regs})
	if want := "+10/0 context, +120/500 scan, +220/640 scan"; err != nil || text(s) != want {
		t.Errorf("%s, error %v, want %s", text(s), err, want)
	}
	p.code = func(module int, rva uint64) bool { return module != code || rva != 0x11f }
	list[160] = at + 0x120
	s, err = walker(t, "x86_64", "linux", p, stackwalk.Limits{}).Walk(t.Context(), stackwalk.Thread{Registers: regs})
	if want := "+10/0 context"; err != nil || text(s) != want {
		t.Errorf("with a word that is no code: %s, error %v, want %s", text(s), err, want)
	}
}

func TestLimits(t *testing.T) {
	list := slices.Repeat([]uint64{at + 0x20}, 3000)
	p := &process{regions: words(8, list...)}
	p.rules = map[int]func(uint64) (functab.Rules, bool){code: table(cfi(".cfa: $rsp 8 + .ra: .cfa -8 + ^"))}
	regs := registers{"rip": at + 0x10, "rsp": stackAt}
	for _, tc := range []struct {
		lim    stackwalk.Limits
		frames int
	}{{stackwalk.Limits{}, 1024}, {stackwalk.Limits{Frames: 7}, 7}} {
		s, err := walker(t, "x86_64", "linux", p, tc.lim).Walk(t.Context(), stackwalk.Thread{Registers: regs})
		if err != nil || len(s.Frames) != tc.frames || !strings.Contains(s.Problem, "the walk ended after") {
			t.Errorf("limits %+v: %d frames, problem %q, error %v", tc.lim, len(s.Frames), s.Problem, err)
		}
	}
	s, err := walker(t, "x86_64", "linux", p, stackwalk.Limits{Rules: 100}).Walk(t.Context(), stackwalk.Thread{Registers: regs})
	if err != nil || !strings.Contains(s.Frames[3].Problem, "more rules than its limit") || s.Frames[4].Trust != stackwalk.Scan {
		t.Errorf("100 bytes of rules: %q, error %v", s.Frames[3].Problem, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s, err = walker(t, "x86_64", "linux", p, stackwalk.Limits{}).Walk(ctx, stackwalk.Thread{Registers: regs})
	if !errors.Is(err, context.Canceled) || len(s.Frames) != 1 {
		t.Errorf("canceled: %d frames, error %v", len(s.Frames), err)
	}
	if _, err := stackwalk.New(stackwalk.Process{Arch: "mips"}, p, stackwalk.Limits{}); err == nil {
		t.Error("a processor that is not known: no error")
	}
}

func TestRegisters(t *testing.T) {
	p := &process{}
	regs := registers{"pc": at + 0x10, "sp": stackAt, "fp": 5, "x0": 7}
	s, err := walker(t, "arm64", "linux", p, stackwalk.Limits{}).Walk(t.Context(), stackwalk.Thread{Registers: regs})
	if err != nil {
		t.Fatal(err)
	}
	r := s.Frames[0].Registers
	var all []string
	for name, v := range r.All() {
		all = append(all, fmt.Sprint(name, "=", v))
	}
	want := []string{"x0=7", "x29=5", fmt.Sprint("sp=", stackAt), fmt.Sprint("pc=", at+0x10)}
	if !slices.Equal(all, want) {
		t.Errorf("registers %v, want %v", all, want)
	}
	if v, ok := r.Get("x29"); v != 5 || !ok {
		t.Errorf("x29: %d %v", v, ok)
	}
	if _, ok := r.Get("x30"); ok {
		t.Error("x30 is known")
	}
	var zero stackwalk.Registers
	if _, ok := zero.Get("pc"); ok {
		t.Error("the zero value has a register")
	}
}
