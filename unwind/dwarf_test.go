package unwind_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
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

// cfi builds a section of call frame information.
type cfi struct{ b []byte }

// add appends an entry of the given content, id included.
func (c *cfi) add(content []byte) int {
	at := len(c.b)
	for len(content)%4 != 0 {
		content = append(content, 0)
	}
	c.b = append(le.AppendUint32(c.b, uint32(len(content))), content...)
	return at
}

// x64 appends a common entry with augmentation "zR" and addresses of 8 bytes.
func (c *cfi) x64(program ...byte) int {
	head := append([]byte{0, 0, 0, 0, 1}, "zR\x00"...)
	return c.add(append(append(head, 1, 0x78, 16, 1, 0), program...))
}

// fde appends an entry for n bytes at a place.
func (c *cfi) fde(cie int, at, n uint64, program ...byte) {
	p := le.AppendUint32(nil, uint32(len(c.b)+4-cie))
	p = le.AppendUint64(le.AppendUint64(p, at), n)
	c.add(append(append(p, 0), program...))
}

func convertSections(s unwind.Sections) func(b *functab.Builder) error {
	return func(b *functab.Builder) error { return unwind.EHFrame(context.Background(), s, b) }
}

func TestEHFrameVectors(t *testing.T) {
	t.Parallel()
	initial := []byte{0x0c, 7, 8, 0x90, 1} // def_cfa rsp+8; rip at cfa-8
	const head = "100 40 .cfa: $rsp 8 + .ra: .cfa -8 + ^"
	for _, tt := range []struct {
		name    string
		program []byte
		want    string
		warning string
	}{
		{"rows", []byte{0x41, 0x0e, 16, 0x83, 2, 0x42, 0x0d, 6, 0x0a, 0x44, 0xc3, 0x0b, 0x02, 4, 0x0c, 7, 8},
			head + "\n101 .cfa: $rsp 16 + $rbx: .cfa -16 + ^\n103 .cfa: $rbp 16 +\n10b .cfa: $rsp 8 +", ""},
		{"restored register", []byte{0x41, 0x83, 2, 0x44, 0xc3}, head + "\n101 $rbx: .cfa -16 + ^\n105 $rbx: $rbx", ""},
		{"advances", []byte{0x02, 1, 0x0e, 16, 0x03, 2, 0, 0x0e, 24, 0x04, 3, 0, 0, 0, 0x0e, 32}, head + "\n101 .cfa: $rsp 16 +\n103 .cfa: $rsp 24 +\n106 .cfa: $rsp 32 +", ""},
		{"set_loc", append(le.AppendUint64([]byte{0x01}, 0x400120), 0x0e, 16), head + "\n120 .cfa: $rsp 16 +", ""},
		{"rows after the end", []byte{0x7f, 0x0e, 16, 0x41, 0x0e, 24}, head + "\n13f .cfa: $rsp 16 +", ""},
		{"other rules", []byte{0x08, 3, 0x07, 12, 0x09, 6, 0, 0x14, 13, 2, 0x11, 14, 0x7e, 0x05, 15, 3, 0x2f, 3, 1, 0x2e, 8},
			head + " $rbx: .cfa 8 + ^ $rbp: $rax $r12: .undef $r13: .cfa -16 + $r14: .cfa 16 + ^ $r15: .cfa -24 + ^", ""},
		{"end of the stack", []byte{0x07, 16}, "100 40 .cfa: $rsp 8 + .ra: 0", ""},
		{"frame of a signal", []byte{0x0f, 4, 0x77, 0xa0, 1, 0x06, 0x10, 16, 3, 0x77, 0xa8, 1, 0x16, 3, 2, 0x23, 8},
			"100 40 .cfa: $rsp 160 + ^ .ra: $rsp 168 + ^ $rbx: .cfa 8 +", ""},
		{"alignment", []byte{0x0f, 6, 0x76, 8, 0x09, 0xf0, 0x1a, 0x96}, "100 40 .cfa: $rbp 8 + 16 @ .ra: .cfa -8 + ^", ""},
		{"arithmetic", []byte{0x0f, 10, 0x77, 0, 0x38, 0x32, 0x1e, 0x22, 0x12, 0x13, 0x31, 0x1c}, "100 40 .cfa: $rsp 16 + 1 - .ra: .cfa -8 + ^", ""},
		{"register with an expression that is not translated", []byte{0x10, 3, 1, 0x9c}, head + " $rbx: .undef", ""},
		{"linkage table", []byte{0x0e, 16, 0x46, 0x0e, 24, 0x4a, 0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22},
			"100 40 .cfa: $rsp 16 + .ra: .cfa -8 + ^\n106 .cfa: $rsp 24 +\n110 .cfa: $rsp 8 +\n11b .cfa: $rsp 16 +\n120 .cfa: $rsp 8 +\n12b .cfa: $rsp 16 +\n130 .cfa: $rsp 8 +\n13b .cfa: $rsp 16 +", ""},
		{"CFA that is not translated", []byte{0x44, 0x0f, 1, 0x9c}, "100 4 .cfa: $rsp 8 + .ra: .cfa -8 + ^", ""},
		{"instruction that is not known", []byte{0x44, 0x0e, 16, 0x44, 0x3f}, "100 8 .cfa: $rsp 8 + .ra: .cfa -8 + ^\n104 .cfa: $rsp 16 +", ".eh_frame: frame at 0x100: instruction 0x3f is not known; the rules from 0x108 on are omitted"},
		{"nothing to restore", []byte{0x0b}, "", ".eh_frame: frame at 0x100: the program restores a state that it did not remember; the rules from 0x100 on are omitted"},
		{"cut off", []byte{0x44, 0x0f, 90}, "100 4 .cfa: $rsp 8 + .ra: .cfa -8 + ^", ".eh_frame: frame at 0x100: the program is cut off; the rules from 0x104 on are omitted"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var c cfi
			c.fde(c.x64(initial...), 0x400100, 0x40, tt.program...)
			list, warnings := frames(t, convertSections(unwind.Sections{Arch: "x86_64", Base: 0x400000, EHFrame: c.b}))
			got := ""
			for _, f := range list {
				got += text(f)
			}
			if got != tt.want || strings.Join(warnings, "") != tt.warning {
				t.Errorf("got\n%s\nwarnings %q\nwant\n%s\nwarning %q", got, warnings, tt.want, tt.warning)
			}
		})
	}
}

// TestEHFrameForms holds the forms of entries: pointers relative to the place,
// .debug_frame of version 4 with 64-bit lengths, ARM64 with signed return
// addresses, code that the linker removed, .eh_frame before .debug_frame.
func TestEHFrameForms(t *testing.T) {
	t.Parallel()
	relative := cfi{}
	cie := relative.add(append(append([]byte{0, 0, 0, 0, 1}, "zPLRS\x00"...), 4, 0x7c, 30, 4+4, 0x9b, 1, 2, 3, 4, 0x1b, 0x1b, 0, 0x0c, 31, 0)) //nolint:dupword // bytes
	p := le.AppendUint32(nil, uint32(len(relative.b)+4-cie))
	p = le.AppendUint32(p, uint32(0x1000-(0x2000+len(relative.b)+8)))
	p = le.AppendUint32(p, 0x20)
	relative.add(append(p, 0, 0x41, 0x2d, 0x0e, 16, 0x9d, 4, 0x9e, 2))
	want := "1000 20 .cfa: sp 0 + .ra: x30\n1004 .cfa: sp 16 + .ra: .cfa -8 + ^ x29: .cfa -16 + ^"
	list, warnings := frames(t, convertSections(unwind.Sections{Arch: "arm64", EHFrame: relative.b, EHFrameAddress: 0x2000}))
	if len(list) != 1 || text(list[0]) != want || len(warnings) > 0 {
		t.Errorf("got %+v, warnings %q; want\n%s", list, warnings, want)
	}

	// A 64-bit common entry of version 4 and frames at addresses of removed code.
	content := append(bytes.Repeat([]byte{0xff}, 8), 4, 0, 8, 0, 1, 0x78, 16, 0x0c, 7, 8, 0x90, 1)
	wide := append(le.AppendUint64([]byte{0xff, 0xff, 0xff, 0xff}, uint64(len(content))), content...)
	for _, at := range []uint64{0, 1<<64 - 1, 1<<64 - 2, 0x100, 0x400100} {
		f := le.AppendUint64(le.AppendUint64(le.AppendUint64(nil, 0), at), 0x10)
		wide = append(le.AppendUint64(append(wide, 0xff, 0xff, 0xff, 0xff), uint64(len(f))), f...)
	}
	list, warnings = frames(t, convertSections(unwind.Sections{Arch: "x86_64", Base: 0x400000, DebugFrame: wide}))
	want = "100 10 .cfa: $rsp 8 + .ra: .cfa -8 + ^"
	if len(list) != 1 || text(list[0]) != want || len(warnings) > 0 {
		t.Errorf("got %+v, warnings %q; want\n%s", list, warnings, want)
	}

	var eh cfi
	eh.fde(eh.x64(0x0c, 7, 16, 0x90, 1), 0x400100, 0x10)
	list, _ = frames(t, convertSections(unwind.Sections{Arch: "x86_64", Base: 0x400000, EHFrame: eh.b, DebugFrame: wide}))
	if want = "100 10 .cfa: $rsp 16 + .ra: .cfa -8 + ^"; len(list) != 1 || text(list[0]) != want {
		t.Errorf("both sections: got %+v, want that of .eh_frame:\n%s", list, want)
	}
	list, _ = frames(t, convertSections(unwind.Sections{Arch: "x86_64", Base: 0x400000, EHFrame: eh.b, Code: []functab.Section{{Start: 0x200, Size: 0x100}}}))
	if len(list) != 0 {
		t.Errorf("code elsewhere: got %+v, want no frame", list)
	}
	_, warnings = frames(t, convertSections(unwind.Sections{Arch: "s390x", EHFrame: eh.b}))
	if len(warnings) != 1 {
		t.Errorf("s390x: warnings %q, want one", warnings)
	}
}

// elfSections returns the unwind sections of an ELF file.
func elfSections(t testing.TB, path string) unwind.Sections {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	e, err := objfile.OpenELF(f, st.Size())
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	s := unwind.Sections{
		Arch: e.Arch(), BigEndian: e.Order() == binary.BigEndian, AddressSize: 4, Base: e.Base(),
		EHFrameAddress: e.SectionAddress(".eh_frame"),
	}
	if e.Is64() {
		s.AddressSize = 8
	}
	read := func(name string) []byte {
		d, err := e.Section(name, objfile.SectionOptions{})
		if err != nil {
			return nil
		}
		b, err := d.ReadAll(1 << 30)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	s.EHFrame, s.DebugFrame = read(".eh_frame"), read(".debug_frame")
	return s
}

// TestEHFrameLLVM compares each row without an expression with those that LLVM
// prints.
func TestEHFrameLLVM(t *testing.T) {
	t.Parallel()
	tool := symtest.Tool(t, "llvm-dwarfdump-19")
	var files []string
	for _, pattern := range []string{"../testdata/elf/e-*", "../testdata/elf/prog-sha1", "../testdata/elf/libprog.so", "/lib/x86_64-linux-gnu/libm.so.6", "/lib/x86_64-linux-gnu/libpthread.so.0", "/bin/ls"} {
		m, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, m...)
	}
	if os.Getenv("SYMDEPOT_TORTURE") != "" {
		files = append(files, "/lib/x86_64-linux-gnu/libc.so.6", "/bin/bash")
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			s := elfSections(t, path)
			if len(s.EHFrame)+len(s.DebugFrame) == 0 {
				t.Fatal("no unwind section")
			}
			out, err := exec.Command(tool, "--eh-frame", path).Output()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			list, warnings := frames(t, convertSections(s))
			for _, w := range warnings {
				t.Log(w)
			}
			compareRows(t, s.Base, list, out)
		})
	}
}

var (
	llvmFDE = regexp.MustCompile(`^[0-9a-f]+ .* FDE cie=\w+ pc=([0-9a-f]+)\.\.\.([0-9a-f]+)`)
	llvmRow = regexp.MustCompile(`^  0x([0-9a-f]+): CFA=(.*)$`)
	llvmReg = regexp.MustCompile(`^(\w+?)([+-]\d+)?$`)
)

// llvmName returns a register as walkers know it.
func llvmName(s string) string {
	s = strings.ToLower(s)
	switch {
	case s == "x2": // of RISC-V; no frame of the ARM64 files uses it
		return "sp"
	case s == "x1": // of PowerPC
		return "r1"
	case strings.HasPrefix(s, "r") && s != "ra", strings.HasPrefix(s, "e"):
		return "$" + s
	case s == "sp_64": // of MIPS
		return "$sp"
	case s == "wsp":
		return "sp"
	case strings.HasPrefix(s, "w"):
		return "x" + s[1:]
	}
	return s
}

// llvmRules turns a row of LLVM into the form of merged. ok is false for a row
// with an expression.
func llvmRules(row, ra string) (rules string, ok bool) {
	cfa, rest, _ := strings.Cut(row, ": ")
	if strings.Contains(row, "DW_OP") {
		return "", false
	}
	value := func(s string) string {
		switch {
		case s == "undefined":
			return ".undef"
		case s == "same":
			return ""
		case strings.HasPrefix(s, "["):
			n := strings.TrimPrefix(strings.Trim(s, "[]"), "CFA")
			if n == "" {
				n = "0"
			}
			return ".cfa " + strings.TrimPrefix(n, "+") + " + ^"
		}
		return llvmName(s)
	}
	m := llvmReg.FindStringSubmatch(cfa)
	if m == nil {
		return "", false
	}
	if m[2] == "" {
		m[2] = "0"
	}
	list := []string{".cfa: " + llvmName(m[1]) + " " + strings.TrimPrefix(m[2], "+") + " +"}
	raRule := llvmName(ra)
	for _, r := range strings.Split(rest, ", ") {
		name, rule, found := strings.Cut(r, "=")
		if !found {
			continue
		}
		if rule = value(rule); name == ra {
			if raRule = rule; rule == ".undef" {
				raRule = "0"
			}
		} else if rule != "" {
			list = append(list, llvmName(name)+": "+rule)
		}
	}
	list = append(list, ".ra: "+raRule)
	slices.Sort(list)
	return strings.Join(list, " "), true
}

func compareRows(t *testing.T, base uint64, list []functab.Frame, out []byte) {
	t.Helper()
	byStart := map[uint64]functab.Frame{}
	for _, f := range list {
		byStart[f.Start] = f
	}
	ra := map[bool]string{true: "RIP"}[bytes.Contains(out, []byte("RIP="))]
	if ra == "" {
		for _, name := range []string{"EIP", "W30", "LR", "RA", "X1"} {
			if ra == "" && bytes.Contains(out, []byte(name+"=")) {
				ra = name
			}
		}
	}
	var f functab.Frame
	rows, expressions, skipped := 0, 0, 0
	for line := range bytes.Lines(out) {
		s := strings.TrimRight(string(line), "\n")
		if m := llvmFDE.FindStringSubmatch(s); m != nil {
			start, _ := strconv.ParseUint(m[1], 16, 64)
			end, _ := strconv.ParseUint(m[2], 16, 64)
			f = byStart[start-base]
			if f.CFI == "" && end > start {
				skipped++
			}
			continue
		}
		m := llvmRow.FindStringSubmatch(s)
		if m == nil || f.CFI == "" {
			continue
		}
		at, _ := strconv.ParseUint(m[1], 16, 64)
		want, ok := llvmRules(m[2], ra)
		if !ok {
			expressions++
			continue
		}
		if ra == "" {
			want = strings.Replace(want, ".ra: ", "", 1)
		}
		rows++
		got := merged(f, at-base)
		if ra == "" { // a file of functions that call nothing: the register is not in LLVM's text
			got = regexp.MustCompile(` ?\.ra: \S+`).ReplaceAllString(got, "")
			want = strings.TrimSpace(want)
		}
		if got != want {
			t.Fatalf("row at %#x of the frame at %#x (%s):\n got %s\nwant %s\nframe %s", at, f.Start, m[2], got, want, text(f))
		}
	}
	t.Logf("%d frames, %d rows equal, %d with expressions, %d frames not found", len(list), rows, expressions, skipped)
	if rows == 0 || skipped > 0 {
		t.Errorf("%d rows equal, %d frames not found; want some, and all", rows, skipped)
	}
}

// TestEHFrameReadelf compares each row without an expression with those that GNU
// readelf prints.
func TestEHFrameReadelf(t *testing.T) {
	t.Parallel()
	tool := symtest.Tool(t, "readelf")
	for _, path := range []string{"../testdata/elf/prog-sha1", "../testdata/elf/libprog.so", "/lib/x86_64-linux-gnu/libm.so.6", "/bin/ls"} {
		if _, err := os.Stat(path); err != nil {
			continue
		}
		s := elfSections(t, path)
		list, _ := frames(t, convertSections(s))
		cmd := exec.Command(tool, "--debug-dump=frames-interp", path)
		cmd.Env = append(os.Environ(), "LC_ALL=C")
		out, err := cmd.Output()
		var exit *exec.ExitError // readelf complains about other sections
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		rows, expressions := readelfRows(t, s.Base, list, string(out))
		t.Logf("%s: %d rows equal, %d with expressions", path, rows, expressions)
		if rows == 0 {
			t.Errorf("%s: no row was compared", path)
		}
	}
}

func readelfRows(t *testing.T, base uint64, list []functab.Frame, out string) (rows, expressions int) {
	t.Helper()
	byStart := map[uint64]functab.Frame{}
	for _, f := range list {
		byStart[f.Start] = f
	}
	fde := regexp.MustCompile(` FDE .* pc=([0-9a-f]+)\.\.`)
	var f functab.Frame
	var names []string
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		switch {
		case len(fields) < 2:
			continue
		case strings.Contains(line, " CIE "), strings.Contains(line, " ZERO "):
			f = functab.Frame{}
			continue
		case fde.MatchString(line):
			start, _ := strconv.ParseUint(fde.FindStringSubmatch(line)[1], 16, 64)
			f = byStart[start-base]
			continue
		case fields[0] == "LOC":
			names = fields[1:]
			continue
		}
		at, err := strconv.ParseUint(fields[0], 16, 64)
		if err != nil || f.CFI == "" || len(fields) != len(names)+1 {
			continue
		}
		var want []string
		known := true
		for i, cell := range fields[1:] {
			name := "$" + names[i]
			if names[i] == "ra" {
				name = ".ra"
			}
			switch n := cell[1:]; {
			case cell == "exp" || cell == "vexp":
				known = false
			case names[i] == "CFA":
				m := llvmReg.FindStringSubmatch(cell)
				want = append(want, ".cfa: $"+m[1]+" "+strings.TrimPrefix(m[2], "+")+" +")
			case cell == "u" && name == ".ra":
				want = append(want, ".ra: 0")
			case cell == "u", cell == "s":
			case cell[0] == 'c':
				want = append(want, name+": .cfa "+strings.TrimPrefix(n, "+")+" + ^")
			default:
				t.Fatalf("readelf's cell %q at %#x is not known", cell, at)
			}
		}
		if !known {
			expressions++
			continue
		}
		slices.Sort(want)
		if got := merged(f, at-base); got != strings.Join(want, " ") {
			t.Fatalf("row at %#x: got %s, want %s", at, got, strings.Join(want, " "))
		}
		rows++
	}
	return rows, expressions
}
