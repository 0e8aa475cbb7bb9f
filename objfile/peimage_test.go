package objfile

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/symtest"
)

func openPEBytes(t testing.TB, b []byte) *PEImage {
	t.Helper()
	p, err := OpenPE(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatalf("OpenPE: error %v, want none", err)
	}
	return p
}

func TestOpenPE(t *testing.T) {
	t.Parallel()
	b := peImage{stamp: 0x5A0BC0C6, size: 0xC83000, entries: []peDebug{{kind: 2, data: rsds(2, "a.pdb")}, {kind: 2, data: rsds(2, "b.pdb")}}}.bytes()
	p := openPEBytes(t, b)
	want, err := debugid.ParseBreakpad(testGUID + "2")
	if err != nil {
		t.Fatal(err)
	}
	if ids := p.DebugIDs(); !slices.Equal(ids, []debugid.ID{want}) {
		t.Errorf("DebugIDs() = %v, want one: %v", ids, want)
	}
	if p.Arch() != "x86_64" || p.CodeID() != "5A0BC0C6c83000" || p.Base() != 0 {
		t.Errorf("arch %q, code id %q, base %#x; want x86_64, 5A0BC0C6c83000, 0", p.Arch(), p.CodeID(), p.Base())
	}
	s := p.Sections()
	if len(s) != 1 || s[0].Name != ".rdata" || s[0].RVA != 0x1000 || s[0].Offset != 0x400 || s[0].Stored != int64(len(b)-0x400) || s[0].Code {
		t.Errorf("Sections() = %+v, want .rdata at 0x1000", s)
	}
	buf := make([]byte, 8)
	if n, err := p.ReadAt(buf, 0x1000+64+12); n != 8 || err != nil || le.Uint32(buf) != 2 {
		t.Errorf("ReadAt in the debug directory: %d bytes % x, error %v; want the kind 2", n, buf, err)
	}
	if n, err := p.ReadAt(buf, 0x1000+int64(len(b)-0x400)-3); n != 3 || !errors.Is(err, io.EOF) {
		t.Errorf("ReadAt at the end of the section: %d bytes, error %v; want 3 and io.EOF", n, err)
	}
	for _, at := range []int64{-1, 0x900000, 1 << 40} {
		if n, err := p.ReadAt(buf, at); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("ReadAt(%#x): %d bytes, error %v; want 0 and io.EOF", at, n, err)
		}
	}
	if rva, size := p.Directory(6); rva != 0x1040 || size != 56 {
		t.Errorf("Directory(6) = %#x, %d, want 0x1040, 56", rva, size)
	}
	if rva, size := p.Directory(-1); rva != 0 || size != 0 {
		t.Errorf("Directory(-1) = %#x, %d, want zeros", rva, size)
	}
	if err := p.Exports(func(string, uint32) bool { t.Error("an export of an image without exports"); return true }); err != nil {
		t.Errorf("Exports: error %v, want none", err)
	}
	if _, err := OpenPE(strings.NewReader("\x7fELF"), 4); !errors.Is(err, ErrNotSymbolFile) {
		t.Errorf("OpenPE of an ELF file: error %v, want ErrNotSymbolFile", err)
	}
}

// exportImage returns an image whose section has an export directory at 0x1040.
func exportImage(directory []byte) []byte {
	b := peImage{entries: []peDebug{{kind: 99, data: directory}}}.bytes()
	opt := b[0x80+24:]
	le.PutUint32(opt[112:], 0x1000+64+28)
	le.PutUint32(opt[116:], uint32(len(directory)))
	return b
}

func TestPEExports(t *testing.T) {
	t.Parallel()
	const at = 0x1000 + 64 + 28
	d := make([]byte, 40)
	put := func(off int, v uint32) { le.PutUint32(d[off:], v) }
	put(20, 3)
	put(24, 4)
	put(28, at+40)
	put(32, at+52)
	put(36, at+68)
	d = le.AppendUint32(d, 0x2000)
	d = le.AppendUint32(d, at+76)   // a forwarder: its address is in the directory
	d = le.AppendUint32(d, 0x2010)  //
	d = le.AppendUint32(d, at+76)   // "a"
	d = le.AppendUint32(d, at+78)   // "b"
	d = le.AppendUint32(d, at+80)   // "c"
	d = le.AppendUint32(d, 0x90000) // no text
	for _, ordinal := range []uint16{2, 1, 0, 0} {
		d = le.AppendUint16(d, ordinal)
	}
	d = append(d, "a\x00b\x00c\x00"...)
	var got []string
	collect := func(p *PEImage) error {
		got = nil
		return p.Exports(func(name string, rva uint32) bool {
			got = append(got, name+strconv.FormatUint(uint64(rva), 16))
			return true
		})
	}
	if err := collect(openPEBytes(t, exportImage(d))); err != nil || !slices.Equal(got, []string{"a2010", "c2000"}) {
		t.Errorf("Exports gave %q, error %v; want a2010 c2000", got, err)
	}
	for off, v := range map[int]uint32{20: 1 << 17, 24: 1 << 19, 28: 0x80000, 32: 0x80000, 36: 0x80000} {
		before := le.Uint32(d[off:])
		put(off, v)
		if err := collect(openPEBytes(t, exportImage(d))); !errors.Is(err, ErrBroken) {
			t.Errorf("field %d set to %#x: error %v, want ErrBroken", off, v, err)
		}
		put(off, before)
	}
}

// TestPEImageMaterial compares sections and exports of real files with those that
// LLVM prints.
func TestPEImageMaterial(t *testing.T) {
	t.Parallel()
	tool := symtest.Tool(t, "llvm-readobj-19")
	dir := symtest.Material(t)
	for _, name := range []string{"go/saferwall/kernel32.dll", "go/saferwall/liblzo2-2.dll", "npm/node-pty/win32-x64/winpty.dll", "npm/node-pty/conpty-arm64/conpty.dll"} {
		path := filepath.Join(dir, "public", filepath.FromSlash(name))
		b := readFile(t, path)
		p := openPEBytes(t, b)
		out, err := exec.Command(tool, "--coff-exports", "--sections", path).Output()
		if err != nil {
			t.Fatal(err)
		}
		var want, got []string
		export := regexp.MustCompile(`Export \{\s+Ordinal: \d+\s+Name: (.*)\s+RVA: 0x([0-9A-F]+)`)
		for _, m := range export.FindAllStringSubmatch(string(out), -1) {
			want = append(want, m[1]+" "+strings.ToLower(m[2]))
		}
		section := regexp.MustCompile(`Name: (\S+) \(.*\n\s+VirtualSize: 0x([0-9A-F]+)\s+VirtualAddress: 0x([0-9A-F]+)`)
		for _, m := range section.FindAllStringSubmatch(string(out), -1) {
			want = append(want, strings.ToLower(strings.Join(m[1:], " ")))
		}
		exported := func(name string, rva uint32) bool {
			got = append(got, name+" "+strconv.FormatUint(uint64(rva), 16))
			return true
		}
		if err := p.Exports(exported); err != nil {
			t.Errorf("%s: error %v, want none", name, err)
		}
		for _, s := range p.Sections() {
			got = append(got, strings.ToLower(s.Name)+" "+strconv.FormatUint(uint64(s.Size), 16)+" "+strconv.FormatUint(uint64(s.RVA), 16))
		}
		// LLVM prints forwarders and exports without a name, too.
		for _, s := range got {
			if !slices.Contains(want, s) {
				t.Errorf("%s: %q is not among the %d lines of LLVM", name, s, len(want))
			}
		}
		t.Logf("%s: %d exports and sections, LLVM has %d", name, len(got), len(want))
		if len(got) < len(want)/2 {
			t.Errorf("%s: %d exports and sections, want at least half of LLVM's %d", name, len(got), len(want))
		}
	}
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// FuzzPEImage opens any bytes as an image and reads all of it.
func FuzzPEImage(f *testing.F) {
	f.Add(exportImage(make([]byte, 40)))
	for p, b := range samples(f) {
		if ext := filepath.Ext(p); ext == ".dll" || ext == ".exe" {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := OpenPE(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		buf := make([]byte, 64)
		for _, s := range p.Sections() {
			_, _ = p.ReadAt(buf, int64(s.RVA))
		}
		n := 0
		if err := p.Exports(func(name string, _ uint32) bool { n += len(name) + 1; return true }); err == nil && n > len(b)*len(b)+1 {
			t.Errorf("%d bytes of names in %d bytes, want at most the square", n, len(b))
		}
	})
}
