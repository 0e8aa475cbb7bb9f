package unwind_test

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/unwind"
)

// packed encodes packed unwind data of a function of n instructions.
func packed(flag, n, regF, regI, home, cr, frame uint32) uint32 {
	return flag | n<<2 | regF<<13 | regI<<16 | home<<20 | cr<<21 | frame/16<<23
}

func imageArm64(words ...uint32) *flat {
	f := &flat{arch: "arm64", bytes: make([]byte, 0x2000), pdata: 0x2000, size: 8}
	f.bytes = le.AppendUint32(f.bytes, 0x1000)
	if len(words) == 1 {
		f.bytes = le.AppendUint32(f.bytes, words[0])
		return f
	}
	f.bytes = le.AppendUint32(f.bytes, 0x800)
	for i, w := range words {
		le.PutUint32(f.bytes[0x800+4*i:], w)
	}
	return f
}

// bytesOf packs unwind codes into words.
func bytesOf(codes ...byte) []uint32 {
	for len(codes)%4 != 0 {
		codes = append(codes, 0xe3)
	}
	var words []uint32
	for ; len(codes) > 0; codes = codes[4:] {
		words = append(words, le.Uint32(codes))
	}
	return words
}

func TestPEArm64Vectors(t *testing.T) {
	t.Parallel()
	full := func(head uint32, rest ...[]uint32) *flat {
		return imageArm64(append([]uint32{head}, slices.Concat(rest...)...)...)
	}
	for _, tt := range []struct {
		name string
		img  *flat
		want string
	}{
		{"packed, chained", imageArm64(packed(1, 10, 0, 0, 0, 3, 16)),
			"1000 28 .cfa: sp 0 + .ra: x30\n1004 .cfa: sp 16 + .ra: .cfa -8 + ^ x29: .cfa -16 + ^ x30: .cfa -8 + ^\n1008 .cfa: x29 16 +\n" +
				"1020 .cfa: sp 16 +\n1024 .cfa: sp 0 + .ra: x30 x29: x29 x30: x30"},
		{"packed, chained and signed, registers", imageArm64(packed(1, 20, 0, 3, 0, 2, 64)),
			"1000 50 .cfa: sp 0 + .ra: x30\n1008 .cfa: sp 32 + x19: .cfa -32 + ^ x20: .cfa -24 + ^\n100c x21: .cfa -16 + ^\n" +
				"1010 .cfa: sp 64 + .ra: .cfa -56 + ^ x29: .cfa -64 + ^ x30: .cfa -56 + ^\n1014 .cfa: x29 64 +\n" +
				"103c .cfa: sp 64 +\n1040 .cfa: sp 32 + .ra: x30 x29: x29 x30: x30\n1044 x21: x21\n1048 .cfa: sp 0 + x19: x19 x20: x20"},
		{"packed, only the return address", imageArm64(packed(1, 8, 0, 2, 0, 1, 48)),
			"1000 20 .cfa: sp 0 + .ra: x30\n1004 .cfa: sp 32 + x19: .cfa -32 + ^ x20: .cfa -24 + ^\n1008 .ra: .cfa -16 + ^ x30: .cfa -16 + ^\n100c .cfa: sp 48 +\n" +
				"1014 .cfa: sp 32 +\n1018 .ra: x30 x30: x30\n101c .cfa: sp 0 + x19: x19 x20: x20"},
		{"packed, register and return address in one pair", imageArm64(packed(1, 8, 0, 1, 0, 1, 16)),
			"1000 20 .cfa: sp 0 + .ra: x30\n1004 .cfa: sp 16 +\n1008 .ra: .cfa -8 + ^ x19: .cfa -16 + ^ x30: .cfa -8 + ^\n1018 .ra: x30 x19: x19 x30: x30\n101c .cfa: sp 0 +"},
		{"packed, large frame", imageArm64(packed(1, 12, 1, 0, 0, 0, 8000)),
			"1000 30 .cfa: sp 0 + .ra: x30\n1004 .cfa: sp 16 +\n1008 .cfa: sp 4096 +\n100c .cfa: sp 8000 +\n1024 .cfa: sp 4096 +\n1028 .cfa: sp 16 +\n102c .cfa: sp 0 +"},
		{"packed, parameters stored", imageArm64(packed(1, 16, 0, 0, 1, 3, 96)),
			"1000 40 .cfa: sp 0 + .ra: x30\n1004 .cfa: sp 64 +\n1014 .cfa: sp 96 + .ra: .cfa -88 + ^ x29: .cfa -96 + ^ x30: .cfa -88 + ^\n1018 .cfa: x29 96 +\n" +
				"1034 .cfa: sp 96 +\n1038 .cfa: sp 64 + .ra: x30 x29: x29 x30: x30\n103c .cfa: sp 0 +"},
		{"packed, part of a function", imageArm64(packed(2, 8, 0, 1, 0, 3, 32)),
			"1000 20 .cfa: x29 32 + .ra: .cfa -24 + ^ x19: .cfa -16 + ^ x29: .cfa -32 + ^ x30: .cfa -24 + ^"},
		{"save_next, one packed epilog", full(10|1<<21|0<<22|2<<27, bytesOf(0x01, 0xe6, 0xe6, 0xcc, 0x05, 0xe4)),
			"1000 28 .cfa: sp 0 + .ra: x30\n1004 .cfa: sp 48 + x19: .cfa -48 + ^ x20: .cfa -40 + ^\n1008 x21: .cfa -32 + ^ x22: .cfa -24 + ^\n100c x23: .cfa -16 + ^ x24: .cfa -8 + ^\n1010 .cfa: sp 64 +\n" +
				"1018 .cfa: sp 48 +\n101c x23: x23 x24: x24\n1020 x21: x21 x22: x22\n1024 .cfa: sp 0 + x19: x19 x20: x20"},
		{"epilog in the middle", full(10|1<<22|2<<27, []uint32{4 | 3<<22}, bytesOf(0xe1, 0x83, 0xe4, 0x83, 0xe4)),
			"1000 28 .cfa: sp 0 + .ra: x30\n1004 .cfa: sp 32 + .ra: .cfa -24 + ^ x29: .cfa -32 + ^ x30: .cfa -24 + ^\n1008 .cfa: x29 32 +\n" +
				"1010 .cfa: sp 32 +\n1014 .cfa: sp 0 + .ra: x30 x29: x29 x30: x30\n1018 .cfa: x29 32 + .ra: .cfa -24 + ^ x29: .cfa -32 + ^ x30: .cfa -24 + ^"},
		{"add_fp", full(10|1<<27, bytesOf(0xe2, 0x02, 0x83, 0xe4)),
			"1000 28 .cfa: sp 0 + .ra: x30\n1004 .cfa: sp 32 + .ra: .cfa -24 + ^ x29: .cfa -32 + ^ x30: .cfa -24 + ^\n1008 .cfa: x29 16 +"},
		{"part of a function, end_c", full(10|1<<27, bytesOf(0xe5, 0xe1, 0x81, 0xe4)),
			"1000 28 .cfa: x29 16 + .ra: .cfa -8 + ^ x29: .cfa -16 + ^ x30: .cfa -8 + ^"},
		{"extended header", imageArm64(append([]uint32{10, 1 | 1<<16, 6}, bytesOf(0x02, 0xe4)...)...),
			"1000 28 .cfa: sp 0 + .ra: x30\n1004 .cfa: sp 32 +\n101c .cfa: sp 0 +\n1020 .cfa: sp 32 +"},
		{"save_lrpair, save_reg, save_any_reg", full(20|3<<27, bytesOf(0xd6, 0x82, 0xd0, 0x40, 0xe7, 0x45, 0x01, 0xc0, 0x04, 0xe4)),
			"1000 50 .cfa: sp 0 + .ra: x30\n1004 .cfa: sp 64 +\n1008 x5: .cfa -48 + ^ x6: .cfa -40 + ^\n100c x20: .cfa -64 + ^\n1010 .ra: .cfa -40 + ^ x23: .cfa -48 + ^ x30: .cfa -40 + ^"},
		{"frame of the kernel", full(10|1<<27, bytesOf(0xe9, 0xe4)), "1000 28 .cfa: sp 0 + .ra: .undef"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			list, warnings := frames(t, convertPE(tt.img))
			var got []string
			for _, f := range list {
				got = append(got, text(f))
			}
			if s := strings.Join(got, "\n"); s != tt.want || len(warnings) > 0 {
				t.Errorf("got\n%s\nwant\n%s\nwarnings %q, want none", s, tt.want, warnings)
			}
		})
	}
}

// TestPEArm64Leaves: code between the entries of the table is of leaf functions, whose caller is in the link register.
func TestPEArm64Leaves(t *testing.T) {
	t.Parallel()
	img := imageArm64(packed(1, 10, 0, 0, 0, 3, 16)) // from 1000 to 1028
	img.bytes = le.AppendUint32(le.AppendUint32(img.bytes, 0x1100), packed(1, 8, 0, 2, 0, 1, 48))
	img.size = 16
	img.code = [2]uint32{0x0f00, 0x400}
	le.PutUint32(img.bytes[0x1028:], 0xd503201f) // nop
	le.PutUint32(img.bytes[0x1030:], 0x8b010000) // add x0, x0, x1, after a zero
	le.PutUint32(img.bytes[0x1034:], 0xd65f03c0) // ret
	le.PutUint32(img.bytes[0x1120:], 0xd65f03c0)
	list, warnings := frames(t, convertPE(img))
	var got []string
	for _, f := range list {
		if len(f.Deltas) == 0 {
			got = append(got, text(f))
		}
	}
	if s, want := strings.Join(got, "\n"), "1030 d0 .cfa: sp 0 + .ra: x30\n1120 1e0 .cfa: sp 0 + .ra: x30"; s != want || len(list) != 4 || len(warnings) > 0 {
		t.Errorf("%d frames, warnings %q, without deltas\n%s\nwant 4 frames, no warnings and\n%s", len(list), warnings, s, want)
	}
	sameRules(t, unwind.NewPE(img), convertPE(img))
}

// armRun executes one instruction as LLVM prints the unwind codes of a prolog, on
// a model of the stack. It is written from the instructions, not from the codes.
type armRun struct {
	sp, fp  int64 // relative to the CFA
	fpKnown bool
	saved   map[string]int64
	unknown string
}

var armIns = regexp.MustCompile(`^(stp|str|ldp|ldr) (\w+)(?:, (\w+))?, \[sp(?:, #(-?\d+))?\](!)?$`)

// prolog executes an instruction of a prolog.
func (a *armRun) prolog(ins string) {
	ins = strings.NewReplacer(" lr,", " x30,", ", lr,", ", x30,", " fp", " x29", "sub sp, sp, ", "sub sp, ").Replace(ins)
	if m := armIns.FindStringSubmatch(ins); m != nil {
		n := int64(0)
		if m[4] != "" {
			n, _ = strconv.ParseInt(m[4], 10, 64)
		}
		at := a.sp + n
		if m[5] != "" {
			a.sp, at = a.sp+n, a.sp+n
		}
		for i, reg := range []string{m[2], m[3]} {
			if reg == "" || reg[0] != 'x' {
				continue
			}
			if n, _ := strconv.Atoi(reg[1:]); n < 19 {
				continue // parameters
			}
			a.saved[reg] = at + 8*int64(i)
		}
		return
	}
	var n int64
	switch ins {
	case "nop", "clear unwound to call", "pacibsp", "autibsp":
	case "mov x29, sp":
		a.fp, a.fpKnown = a.sp, true
	default:
		if _, err := fmt.Sscanf(ins, "sub sp, #%d", &n); err == nil {
			a.sp -= n
		} else if _, err := fmt.Sscanf(ins, "add x29, sp, #%d", &n); err == nil {
			a.fp, a.fpKnown = a.sp+n, true
		} else {
			a.unknown = ins
		}
	}
}

// rules returns the state as call frame information: each register once, sorted.
func (a *armRun) rules() string {
	list := []string{fmt.Sprintf(".cfa: sp %d +", -a.sp)}
	if a.fpKnown {
		list[0] = fmt.Sprintf(".cfa: x29 %d +", -a.fp)
	}
	ra := ".ra: x30"
	for reg, at := range a.saved {
		list = append(list, fmt.Sprintf("%s: .cfa %d + ^", reg, at))
		if reg == "x30" {
			ra = fmt.Sprintf(".ra: .cfa %d + ^", at)
		}
	}
	list = append(list, ra)
	slices.Sort(list)
	return strings.Join(list, " ")
}

// merged returns the rules at an address in the form of armRun.rules.
func merged(f functab.Frame, at uint64) string {
	rules := map[string]string{}
	name := ""
	for _, w := range strings.Fields(rulesAt(f, at)) {
		if n, ok := strings.CutSuffix(w, ":"); ok {
			name = n
			rules[name] = ""
			continue
		}
		rules[name] = strings.TrimSpace(rules[name] + " " + w)
	}
	var list []string
	for name, r := range rules {
		if r != name {
			list = append(list, name+": "+r)
		}
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// reverse turns an instruction of an epilog into the one of the prolog that it
// undoes.
func reverse(ins string) string {
	post := regexp.MustCompile(`^ld(p|r) (.*), \[sp\], #(\d+)$`)
	if m := post.FindStringSubmatch(ins); m != nil {
		return "st" + m[1] + " " + m[2] + ", [sp, #-" + m[3] + "]!"
	}
	r := strings.NewReplacer("ldp ", "stp ", "ldr ", "str ", "add sp", "sub sp", "mov sp, fp", "mov fp, sp")
	if strings.HasPrefix(ins, "sub sp, fp") {
		return strings.Replace(ins, "sub sp, fp", "add fp, sp", 1)
	}
	return r.Replace(ins)
}

// TestPEArm64LLVM compares each row of prologs and epilogs of real files with the
// instructions that LLVM prints for their unwind data.
func TestPEArm64LLVM(t *testing.T) {
	t.Parallel()
	tool := symtest.Tool(t, "llvm-readobj-19")
	dir := symtest.Material(t)
	for _, name := range []string{"conpty.dll", "OpenConsole.exe"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, "public/npm/node-pty/conpty-arm64", name)
			img := openImage(t, path)
			list, warnings := frames(t, convertPE(img))
			if len(warnings) > 0 {
				t.Errorf("warnings %q, want none", warnings)
			}
			out, err := exec.Command(tool, "--unwind", path).Output()
			if err != nil {
				t.Fatal(err)
			}
			checkArm64(t, img.Base(), list, out)
			checkPackedEpilogs(t, img, list)
		})
	}
}

// function is one RuntimeFunction of LLVM's dump.
type function struct {
	start, length uint64
	packed        bool
	fragment      bool
	prolog        []string // in the order of the unwind codes
	epilogs       map[uint64][]string
}

func parseDump(base uint64, out []byte) (list []function, err error) {
	number := func(s string) uint64 {
		n, e := strconv.ParseUint(strings.TrimSpace(s), 0, 64)
		err = errors.Join(err, e)
		return n
	}
	opcode := regexp.MustCompile(`^0x[0-9a-f]+\s+; (.*)$`)
	var f *function
	var to *[]string
	var place uint64
	var codes []string
	inEpilog, single := false, false
	for line := range bytes.Lines(out) {
		s := strings.TrimSpace(string(line))
		key, value, _ := strings.Cut(s, ": ")
		switch {
		case strings.HasPrefix(s, "RuntimeFunction {"):
			list = append(list, function{epilogs: map[uint64][]string{}})
			f = &list[len(list)-1]
			to, inEpilog, single = nil, false, false
		case f == nil:
		case key == "Function":
			v, _, _ := strings.Cut(value, " (")
			if i := strings.LastIndex(value, "(0x"); i >= 0 {
				v = strings.TrimSuffix(value[i+1:], ")")
			}
			f.start = number(v) - base
		case key == "FunctionLength":
			f.length = number(value)
		case key == "Fragment":
			f.packed, f.fragment = true, value == "Yes"
		case key == "EpiloguePacked":
			single = value == "Yes"
		case strings.HasPrefix(s, "Prologue ["):
			to = &f.prolog
		case strings.HasPrefix(s, "Epilogue ["):
			codes = nil
			to, inEpilog = &codes, true
		case key == "StartOffset":
			place = 4 * number(value)
		case strings.HasPrefix(s, "Opcodes ["):
			codes = nil
			to, inEpilog = &codes, true
		case s == "]":
			if inEpilog {
				if single {
					n := slices.IndexFunc(codes, func(s string) bool { return s == "end" || s == "end_c" })
					place = f.length - 4*uint64(n+1)
				}
				f.epilogs[place] = codes
			}
			to, inEpilog = nil, false
		case to != nil:
			if m := opcode.FindStringSubmatch(s); m != nil {
				s = m[1]
			}
			*to = append(*to, s)
		}
	}
	return list, err
}

func checkArm64(t *testing.T, base uint64, list []functab.Frame, out []byte) {
	functions, err := parseDump(base, out)
	if err != nil {
		t.Fatal(err)
	}
	byStart := map[uint64]functab.Frame{}
	for _, f := range list {
		byStart[f.Start] = f
	}
	prologs, epilogs, invalid := 0, 0, 0
	for _, fn := range functions {
		f, ok := byStart[fn.start]
		if !ok || uint64(f.Size) != fn.length {
			t.Fatalf("function at %#x of %d bytes: frame %q, want one of this length", fn.start, fn.length, text(f))
		}
		// Codes after end_c are of the parent: executed before this part begins.
		run := func(codes []string) (states []string, unknown string) {
			a := armRun{saved: map[string]int64{}}
			own := len(codes)
			if i := slices.Index(codes, "end_c"); i >= 0 {
				own = i
			}
			codes = slices.DeleteFunc(slices.Clone(codes), func(s string) bool { return s == "end" || s == "end_c" })
			own = min(own, len(codes))
			for i := len(codes) - 1; i >= 0; i-- {
				if i < own {
					states = append(states, a.rules())
				}
				a.prolog(codes[i])
			}
			return append(states, a.rules()), a.unknown
		}
		if slices.Contains(fn.prolog, "INVALID!") {
			// LLVM 19 has no words for "stp x19, lr, [sp, #-16]!" of packed data.
			invalid++
			continue
		}
		states, unknown := run(fn.prolog)
		if unknown != "" {
			t.Fatalf("function at %#x: the test does not know %q", fn.start, unknown)
		}
		for i, want := range states {
			at := fn.start + 4*uint64(i)
			if at >= fn.start+fn.length {
				break
			}
			if _, ok := fn.epilogs[at-fn.start]; ok {
				break // the part is an epilog as a whole
			}
			prologs++
			if got := merged(f, at); got != want {
				t.Fatalf("function at %#x, prolog at %#x:\n got %s\nwant %s\nframe %s\ncodes %q", fn.start, at, got, want, text(f), fn.prolog)
			}
		}
		for place, codes := range fn.epilogs {
			var back []string
			for _, c := range codes {
				back = append(back, reverse(c))
			}
			states, unknown := run(back)
			if unknown != "" {
				t.Fatalf("function at %#x: the test does not know %q", fn.start, unknown)
			}
			for i := range states {
				at := fn.start + place + 4*uint64(i)
				if at >= fn.start+fn.length {
					break // a part of a function that goes on in the next one
				}
				epilogs++
				if got, want := merged(f, at), states[len(states)-1-i]; got != want {
					t.Fatalf("function at %#x, epilog at %#x:\n got %s\nwant %s\nframe %s\ncodes %q", fn.start, at, got, want, text(f), codes)
				}
			}
		}
	}
	t.Logf("%d functions, %d rows of prologs, %d of epilogs", len(functions), prologs, epilogs)
	if invalid > 1 {
		t.Errorf("LLVM cannot print %d functions, want one at most", invalid)
	}
	if len(functions) < 100 || epilogs < 100 {
		t.Errorf("%d functions and %d rows of epilogs, want 100 or more of each", len(functions), epilogs)
	}
}

// checkPackedEpilogs compares the rows of the epilogs of packed unwind data, which
// LLVM does not print, with the instructions at the end of the functions.
func checkPackedEpilogs(t *testing.T, img *objfile.PEImage, list []functab.Frame) {
	mapped := mapImage(t, img)
	byStart := map[uint64]functab.Frame{}
	for _, f := range list {
		byStart[f.Start] = f
	}
	rva, size := img.ExceptionTable()
	functions, rows := 0, 0
	for table := mapped[rva : rva+size]; len(table) >= 8; table = table[8:] {
		begin, word := le.Uint32(table), le.Uint32(table[4:])
		if word&3 != 1 {
			continue
		}
		f := byStart[uint64(begin)]
		at := begin + f.Size - 4
		if le.Uint32(mapped[at:]) != 0xd65f03c0 {
			continue // a jump to another function
		}
		functions++
		for left := int64(0); at >= begin; at -= 4 {
			switch ins := le.Uint32(mapped[at:]); {
			case ins == 0xd65f03c0, ins == 0xd50323ff: // ret, autibsp
			case ins&0xffc003e0 == 0xa8c003e0, ins&0xffc003e0 == 0x6cc003e0: // ldp with sp rising
				left += int64(ins>>15&0x7f) * 8
			case ins&0xffe00fe0 == 0xf84007e0, ins&0xffe00fe0 == 0xfc4007e0: // ldr with sp rising
				left += int64(ins >> 12 & 0x1ff)
			case ins&0xffc003ff == 0x910003ff: // add sp
				left += int64(ins >> 10 & 0xfff)
			default:
				at = 0
			}
			if at == 0 {
				break
			}
			if strings.HasPrefix(merged(f, uint64(at)), ".cfa: x29") && le.Uint32(mapped[at:])&0xffc003ff == 0x910003ff {
				break // arguments of a call in the body
			}
			rows++
			if got, want := merged(f, uint64(at)), fmt.Sprintf(".cfa: sp %d +", left); !strings.HasPrefix(got, want) && left > 0 {
				t.Fatalf("function at %#x, epilog at %#x: got %s, want %s\nframe %s", begin, at, got, want, text(f))
			}
		}
	}
	t.Logf("%d functions with packed data, %d rows of their epilogs", functions, rows)
}
