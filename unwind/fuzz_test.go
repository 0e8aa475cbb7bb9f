package unwind_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/unwind"
)

// fuzzFrames converts and checks what holds for any input: no error but that of
// the builder's limit, and frames in order whose rows lie inside.
func fuzzFrames(t *testing.T, convert func(b *functab.Builder) error) {
	t.Helper()
	b := functab.NewBuilder(functab.Module{Arch: "x86_64"}, functab.Limits{Bytes: 256 << 20})
	if err := convert(b); err != nil && !errors.Is(err, functab.ErrLimit) {
		t.Fatalf("error %v, want none or ErrLimit", err)
	}
	table, err := b.Table(context.Background())
	if errors.Is(err, functab.ErrLimit) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	last := uint64(0)
	for f := range table.Frames() {
		if f.Start < last || f.Size == 0 || f.CFI == "" {
			t.Fatalf("frame %s after the address %#x, want a size, rules and the order of addresses", text(f), last)
		}
		last = f.Start
		at := f.Start
		for _, d := range f.Deltas {
			if d.Address < at || d.Address >= f.Start+uint64(f.Size) || d.Rules == "" {
				t.Fatalf("row at %#x of frame %s, want rising addresses inside of it, with rules", d.Address, text(f))
			}
			at = d.Address
		}
	}
}

// FuzzPE converts images whose exception table is at a given address.
func FuzzPE(f *testing.F) {
	f.Add(image64(nil, entry(0x100, 0x140, 0x800), info(1, 4, 6, 0x25, []byte{6, 3, 4, 0x34, 6, 0, 2, 0x30}, entry(0x100, 0x140, 0x800)...)).bytes, false)
	f.Add(image64(nil, entry(0x100, 0x140, 0x800), info(2, 0, 6, 0, []byte{8, 0x16, 0, 6, 2, 0x30})).bytes, false)
	f.Add(imageArm64(10|1<<22|2<<27, 4|3<<22, 0xe4e183e6, 0xe4830000).bytes, true)
	f.Add(imageArm64(packed(1, 20, 3, 3, 1, 2, 4096)).bytes, true)
	f.Fuzz(func(t *testing.T, b []byte, arm bool) {
		if len(b) > 1<<20 {
			return
		}
		img := &flat{arch: "x86_64", bytes: b, pdata: uint32(min(len(b), 0x2000)), size: uint32(max(0, len(b)-0x2000)), code: [2]uint32{0, 0x2000}}
		if arm {
			img.arch = "arm64"
		}
		fuzzFrames(t, func(b *functab.Builder) error {
			return unwind.Functions(context.Background(), img, b, unwind.Options{})
		})
	})
}

// FuzzPEFile converts whole files, beginning with real ones.
func FuzzPEFile(f *testing.F) {
	for _, name := range []string{"pdb/hello-x64.exe", "pdb/hello-arm64.exe", "pe/mingw.exe", "pe/x64.exe", "pe/arm64.exe"} {
		f.Add(symtest.Testdata(f, name))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		img, err := objfile.OpenPE(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		fuzzFrames(t, func(b *functab.Builder) error {
			return unwind.Functions(context.Background(), img, b, unwind.Options{})
		})
	})
}

// FuzzEHFrame converts call frame information of any bytes.
func FuzzEHFrame(f *testing.F) {
	files, err := filepath.Glob("../testdata/elf/e-*")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range append(files, "../testdata/elf/prog-sha1") {
		s := elfSections(f, path)
		f.Add(s.Arch, s.EHFrame, s.DebugFrame, s.BigEndian)
	}
	if b, err := os.ReadFile("../testdata/macho/app-fat"); err == nil {
		f.Add("x86", b[:64], []byte(nil), false)
	}
	f.Fuzz(func(t *testing.T, arch string, eh, debug []byte, big bool) {
		size := 8
		if len(arch) < 4 {
			size = 4
		}
		s := unwind.Sections{Arch: arch, EHFrame: eh, EHFrameAddress: 0x2000, DebugFrame: debug, BigEndian: big, AddressSize: size}
		fuzzFrames(t, convertSections(s))
	})
}

// FuzzCompact converts compact unwind information of any bytes.
func FuzzCompact(f *testing.F) {
	f.Add("x86_64", unwindInfo(0x180, 0x100, 0x01030161, 0x120, 0x030a0005), make([]byte, 0x200))
	f.Add("arm64", compressed(0x100, 0x160, [2]uint32{0x04000000, 0x02000000}, 0x02001000, 1<<24, 2<<24|0x20, 0x40), []byte(nil))
	f.Fuzz(func(t *testing.T, arch string, info, code []byte) {
		s := unwind.Sections{Arch: arch, CompactUnwind: info, Text: bytes.NewReader(code)}
		fuzzFrames(t, func(b *functab.Builder) error { return unwind.Compact(context.Background(), s, b) })
	})
}
