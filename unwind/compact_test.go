package unwind_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/unwind"
)

// unwindInfo builds __unwind_info with one regular page; entries are pairs of a
// start and an encoding, and end is the end of the last function.
func unwindInfo(end uint32, entries ...uint32) []byte {
	words := []uint32{1, 28, 0, 28, 0, 28, 2, entries[0], 52, 52, end, 0, 52, 2, 8 | uint32(len(entries)/2)<<16}
	var b []byte
	for _, w := range append(words, entries...) {
		b = le.AppendUint32(b, w)
	}
	return b
}

// compressed builds __unwind_info with one compressed page: two encodings of all
// pages and one of the page.
func compressed(start, end uint32, common [2]uint32, own uint32, entries ...uint32) []byte {
	words := []uint32{1, 28, 2, 36, 0, 36, 2, common[0], common[1], start, 60, 60, end, 0, 60}
	words = append(words, 3, 12|uint32(len(entries))<<16, uint32(12+4*len(entries))|1<<16)
	words = append(append(words, entries...), own)
	var b []byte
	for _, w := range words {
		b = le.AppendUint32(b, w)
	}
	return b
}

func TestCompactVectors(t *testing.T) {
	t.Parallel()
	code := make([]byte, 0x200)
	le.PutUint32(code[0x10a:], 0x1000)
	var eh cfi
	eh.fde(eh.x64(0x0c, 7, 8, 0x90, 1), 0x400140, 0x20, 0x41, 0x0e, 16)
	const leaf = ".cfa: $rsp 8 + .ra: .cfa -8 + ^"
	for _, tt := range []struct {
		name string
		s    unwind.Sections
		want string
	}{
		{"x86_64 frame", unwind.Sections{Arch: "x86_64", CompactUnwind: unwindInfo(0x180, 0x100, 0x01030161)},
			"100 80 .cfa: $rbp 16 + .ra: .cfa -8 + ^ $rbx: .cfa -40 + ^ $rbp: .cfa -16 + ^ $r14: .cfa -32 + ^ $r15: .cfa -24 + ^"},
		{"x86_64 frameless", unwind.Sections{Arch: "x86_64", CompactUnwind: unwindInfo(0x180, 0x100, 0x02040000|2<<10|5)},
			"100 80 .cfa: $rsp 32 + .ra: .cfa -8 + ^ $rbx: .cfa -16 + ^ $r12: .cfa -24 + ^"},
		{"x86_64 large", unwind.Sections{Arch: "x86_64", Text: bytes.NewReader(code), CompactUnwind: unwindInfo(0x180, 0x100, 0x030a0000|2<<13|1<<10|5)},
			"100 80 .cfa: $rsp 4112 + .ra: .cfa -8 + ^ $rbp: .cfa -16 + ^"},
		// Encodings that clang 19 gave for functions whose DWARF rows are the wanted rules.
		{"clang, three registers", unwind.Sections{Arch: "x86_64", CompactUnwind: unwindInfo(0x180, 0x100, 0x02040c0b)},
			"100 80 .cfa: $rsp 32 + .ra: .cfa -8 + ^ $rbx: .cfa -32 + ^ $rbp: .cfa -16 + ^ $r14: .cfa -24 + ^"},
		{"clang, six registers", unwind.Sections{Arch: "x86_64", CompactUnwind: unwindInfo(0x180, 0x100, 0x02081800)},
			"100 80 .cfa: $rsp 64 + .ra: .cfa -8 + ^ $rbx: .cfa -56 + ^ $rbp: .cfa -16 + ^ $r12: .cfa -48 + ^ $r13: .cfa -40 + ^ $r14: .cfa -32 + ^ $r15: .cfa -24 + ^"},
		{"clang, two registers", unwind.Sections{Arch: "x86_64", CompactUnwind: unwindInfo(0x180, 0x100, 0x02040804)},
			"100 80 .cfa: $rsp 32 + .ra: .cfa -8 + ^ $rbx: .cfa -24 + ^ $rbp: .cfa -16 + ^"},
		{"clang, four registers", unwind.Sections{Arch: "x86_64", CompactUnwind: unwindInfo(0x180, 0x100, 0x02061020)},
			"100 80 .cfa: $rsp 48 + .ra: .cfa -8 + ^ $rbx: .cfa -40 + ^ $rbp: .cfa -16 + ^ $r14: .cfa -32 + ^ $r15: .cfa -24 + ^"},
		{"clang, large frame", unwind.Sections{Arch: "x86_64", Text: bytes.NewReader(append(make([]byte, 0x107), 0x90, 0x13, 0, 0)), CompactUnwind: unwindInfo(0x180, 0x100, 0x03078c0b)},
			"100 80 .cfa: $rsp 5040 + .ra: .cfa -8 + ^ $rbx: .cfa -32 + ^ $rbp: .cfa -16 + ^ $r14: .cfa -24 + ^"},
		{"clang, x86", unwind.Sections{Arch: "x86", CompactUnwind: unwindInfo(0x180, 0x100, 0x020c1116)},
			"100 80 .cfa: $esp 48 + .ra: .cfa -4 + ^ $ebx: .cfa -12 + ^ $ebp: .cfa -8 + ^ $esi: .cfa -20 + ^ $edi: .cfa -16 + ^"},
		{"x86", unwind.Sections{Arch: "x86", CompactUnwind: unwindInfo(0x180, 0x100, 0x01020000|5<<3|4)},
			"100 80 .cfa: $ebp 8 + .ra: .cfa -4 + ^ $ebp: .cfa -8 + ^ $esi: .cfa -12 + ^ $edi: .cfa -16 + ^"},
		{"no information, and DWARF", unwind.Sections{Arch: "x86_64", CompactUnwind: unwindInfo(0x180, 0x100, 0, 0x140, 0x04000010)}, "100 40 " + leaf},
		{"DWARF frames come first", unwind.Sections{Arch: "x86_64", Base: 0x400000, EHFrame: eh.b, CompactUnwind: unwindInfo(0x180, 0x100, 0x01000000)},
			"100 40 .cfa: $rbp 16 + .ra: .cfa -8 + ^ $rbp: .cfa -16 + ^\n140 20 " + leaf + "\n141 .cfa: $rsp 16 +\n160 20 .cfa: $rbp 16 + .ra: .cfa -8 + ^ $rbp: .cfa -16 + ^"},
		{"arm64", unwind.Sections{Arch: "arm64", CompactUnwind: unwindInfo(0x180, 0x100, 0x04000105, 0x140, 0x02003000, 0x160, 0)},
			"100 40 .cfa: x29 16 + .ra: .cfa -8 + ^ x19: .cfa -24 + ^ x20: .cfa -32 + ^ x23: .cfa -40 + ^ x24: .cfa -48 + ^ x29: .cfa -16 + ^\n" +
				"140 20 .cfa: sp 48 + .ra: x30\n160 20 .cfa: sp 0 + .ra: x30"},
		{"arm64 frameless with registers", unwind.Sections{Arch: "arm64", CompactUnwind: unwindInfo(0x180, 0x100, 0x02002001)},
			"100 80 .cfa: sp 32 + .ra: x30 x19: .cfa -8 + ^ x20: .cfa -16 + ^"},
		{"compressed page", unwind.Sections{Arch: "arm64", CompactUnwind: compressed(0x100, 0x160, [2]uint32{0x04000000, 0x02000000}, 0x02001000, 1<<24, 2<<24|0x20, 0x40)},
			"100 20 .cfa: sp 0 + .ra: x30\n120 20 .cfa: sp 16 + .ra: x30\n140 20 .cfa: x29 16 + .ra: .cfa -8 + ^ x29: .cfa -16 + ^"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			list, warnings := frames(t, func(b *functab.Builder) error { return unwind.Compact(context.Background(), tt.s, b) })
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

func TestCompactBad(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, arch, want string
		info             []byte
	}{
		{"version", "arm64", "__unwind_info at 0x0: version 2 is not known", append([]byte{2}, unwindInfo(2, 1, 0)[1:]...)},
		{"cut off", "arm64", "__unwind_info at 0x0: the section of 0x3c bytes has no word at offset 0x3c", unwindInfo(2, 1, 0)[:60]},
		{"mode", "arm64", "compact unwind information at 0x1: mode 7 of encoding 0x7000000 is not known", unwindInfo(2, 1, 0x07000000)},
		{"register", "x86_64", "compact unwind information at 0x1: register 7 of encoding 0x1000007 is not known", unwindInfo(2, 1, 0x01000007)},
		{"permutation", "x86_64", "compact unwind information at 0x1: the permutation of 1 registers is not valid", unwindInfo(2, 1, 0x02010000|1<<10|6)},
		{"order", "arm64", "__unwind_info at 0x0: the function at 0x1 follows the one at 0x8", unwindInfo(9, 8, 0, 1, 0)},
		{"code", "x86_64", "compact unwind information at 0x1: the size of the frame is in the code, which was not given", unwindInfo(2, 1, 0x03000000)},
		{"processor", "ppc", `__unwind_info for the processor "ppc" is not translated`, unwindInfo(2, 1, 0)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			list, warnings := frames(t, func(b *functab.Builder) error {
				return unwind.Compact(context.Background(), unwind.Sections{Arch: tt.arch, CompactUnwind: tt.info}, b)
			})
			if len(list) > 0 || strings.Join(warnings, "; ") != tt.want {
				t.Errorf("%d frames, warnings %q; want none, and %q", len(list), warnings, tt.want)
			}
		})
	}
}

// machSections returns the unwind sections of one Mach-O image.
func machSections(t testing.TB, b []byte) unwind.Sections {
	t.Helper()
	m, err := objfile.OpenMachO(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) []byte {
		d, err := m.Section(name, objfile.SectionOptions{})
		if err != nil {
			return nil
		}
		b, err := d.ReadAll(1 << 30)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	return unwind.Sections{
		Arch: m.Arch(), Apple: true, Base: m.Base(), CompactUnwind: read("__unwind_info"),
		EHFrame: read("__eh_frame"), EHFrameAddress: m.SectionAddress("__eh_frame"),
	}
}

// TestCompactLLVM compares each entry of real files with the encoding that LLVM
// prints: the function's rules are those of the encoding.
func TestCompactLLVM(t *testing.T) {
	t.Parallel()
	tool := symtest.Tool(t, "llvm-objdump-19")
	dir := symtest.Material(t)
	for _, name := range []string{"npm/nativescript/NSCWinterTC-catalyst-fat/NSCWinterTC", "npm/nativescript/TNSWidgets-ios-arm64/TNSWidgets", "npm/node-pty/darwin-arm64/pty.node", "go/pprof/exe_mac_64"} {
		path := filepath.Join(dir, "public", filepath.FromSlash(name))
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		objects, err := objfile.Identify(bytes.NewReader(b), int64(len(b)), name, objfile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			t.Run(filepath.Base(name)+"-"+o.Arch, func(t *testing.T) {
				s := machSections(t, b[o.Offset:o.Offset+o.Size])
				out, err := exec.Command(tool, "--macho", "--arch", o.Arch, "--unwind-info", path).Output()
				if err != nil {
					t.Fatal(err)
				}
				s.EHFrame = nil // its frames would replace those of compact information
				list, warnings := frames(t, func(b *functab.Builder) error { return unwind.Compact(t.Context(), s, b) })
				if len(warnings) > 0 {
					t.Errorf("warnings %q, want none", warnings)
				}
				compareEncodings(t, list, out)
			})
		}
	}
}

var encodingLine = regexp.MustCompile(`function offset=0x([0-9a-f]+), encoding(?:\[\d+\])?=0x([0-9a-f]+)`)

// compareEncodings converts each encoding alone, with the words of one entry, and
// compares it with the frame that the whole table gives.
func compareEncodings(t *testing.T, list []functab.Frame, out []byte) {
	t.Helper()
	equal, dwarf := 0, 0
	for _, m := range encodingLine.FindAllSubmatch(out, -1) {
		at, _ := strconv.ParseUint(string(m[1]), 16, 64)
		encoding, _ := strconv.ParseUint(string(m[2]), 16, 32)
		var found *functab.Frame
		for i := range list {
			if list[i].Start == at {
				found = &list[i]
			}
		}
		mode := encoding >> 24 & 15
		if found == nil {
			if dwarf++; mode != 3 && mode != 4 {
				t.Errorf("function at %#x with encoding %#x has no frame", at, encoding)
			}
			continue
		}
		var prefix string
		switch {
		case strings.Contains(found.CFI, "rbp 16") && mode == 1, strings.Contains(found.CFI, "x29 16") && mode == 4, mode == 0:
			prefix = ".cfa: "
		case mode == 2 && strings.Contains(found.CFI, "sp "):
			prefix = fmt.Sprintf(".cfa: sp %d +", 16*(encoding>>12&0xfff))
			if strings.Contains(found.CFI, "$") {
				prefix = fmt.Sprintf(".cfa: $rsp %d +", 8*(encoding>>16&0xff))
			}
		default:
			t.Errorf("function at %#x with encoding %#x has the rules %q, want those of a known form", at, encoding, found.CFI)
		}
		if !strings.HasPrefix(found.CFI, prefix) {
			t.Errorf("function at %#x with encoding %#x has the rules %q, want %s", at, encoding, found.CFI, prefix)
		}
		if mode == 4 && strings.Count(found.CFI, "x2")+strings.Count(found.CFI, "x19") < 2*bitsOf(encoding&0x1f) {
			t.Errorf("function at %#x with encoding %#x has the rules %q, want %d pairs", at, encoding, found.CFI, bitsOf(encoding&0x1f))
		}
		equal++
	}
	t.Logf("%d entries equal, %d in __eh_frame", equal, dwarf)
	if equal == 0 {
		t.Error("no entry of LLVM was compared")
	}
}

func bitsOf(v uint64) (n int) {
	for ; v != 0; v &= v - 1 {
		n++
	}
	return n
}
