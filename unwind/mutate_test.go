package unwind_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/unwind"
)

// TestMutations converts unwind data of real files with changed bytes.
// SYMDEPOT_MUTATIONS sets the number of changed copies of each.
func TestMutations(t *testing.T) {
	t.Parallel()
	symtest.Sequential(t)
	rounds := 20
	if n, err := strconv.Atoi(os.Getenv("SYMDEPOT_MUTATIONS")); err == nil {
		rounds = n
	}
	dir := filepath.Join(symtest.Material(t), "public")
	random := rand.New(rand.NewPCG(12, 22))
	// change returns p with some bytes of the range from to changed.
	change := func(p []byte, from, to int) []byte {
		p = slices.Clone(p)
		for range 1 + random.IntN(40) {
			at := from + random.IntN(to-from)
			switch random.IntN(3) {
			case 0:
				p[at] = byte(random.Uint32())
			case 1:
				p[at] ^= 1 << random.IntN(8)
			default:
				copy(p[at:to], p[from+random.IntN(to-from):])
			}
		}
		return p
	}
	for _, name := range []string{"go/saferwall/acpi.sys", "npm/node-pty/win32-x64/winpty.dll", "npm/node-pty/conpty-arm64/conpty.dll"} {
		img := openImage(t, filepath.Join(dir, filepath.FromSlash(name)))
		mapped := mapImage(t, img)
		rva, size := img.ExceptionTable()
		f := &flat{arch: img.Arch(), pdata: rva, size: size}
		img.CodeSections(func(_ string, rva, size uint32) bool { f.code = [2]uint32{rva, size}; return false })
		for i := range rounds {
			// The table, or the data that it refers to.
			from, to := int(rva), int(rva+size)
			if i%2 == 1 {
				from, to = max(0, from-0x8000), from
			}
			f.bytes = change(mapped, from, to)
			fuzzFrames(t, convertPE(f))
		}
	}
	var sections []unwind.Sections
	for _, path := range []string{"/lib/x86_64-linux-gnu/libm.so.6", "../testdata/elf/prog-sha1", "../testdata/elf/e-arm64", "../testdata/elf/e-ppc64-be"} {
		if _, err := os.Stat(path); err == nil {
			sections = append(sections, elfSections(t, path))
		}
	}
	for _, s := range sections {
		eh, debug := s.EHFrame, s.DebugFrame
		for range rounds {
			if len(eh) > 0 {
				s.EHFrame = change(eh, 0, min(len(eh), 4000))
			}
			if len(debug) > 0 {
				s.DebugFrame = change(debug, 0, len(debug))
			}
			fuzzFrames(t, convertSections(s))
		}
	}
	for _, name := range []string{"npm/node-pty/darwin-arm64/pty.node", "go/pprof/exe_mac_64"} {
		b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		s := machSections(t, b)
		s.Text = bytes.NewReader(b)
		info := s.CompactUnwind
		for range rounds {
			s.CompactUnwind = change(info, 0, len(info))
			fuzzFrames(t, func(b *functab.Builder) error { return unwind.Compact(context.Background(), s, b) })
		}
	}
}
