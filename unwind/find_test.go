package unwind_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/unwind"
)

// sameRules holds that a Finder gives the rules that the conversion of the whole module gives: at and
// around the start of each frame and of each change, and elsewhere. It returns the number of frames.
func sameRules(t *testing.T, f *unwind.Finder, convert func(b *functab.Builder) error) int {
	t.Helper()
	b := functab.NewBuilder(functab.Module{Arch: "x86_64", Name: "test"}, functab.Limits{})
	if err := convert(b); err != nil {
		t.Fatal(err)
	}
	table, err := b.Table(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var places []uint64
	for f := range table.Frames() {
		places = append(places, f.Start-1, f.Start, f.Start+uint64(f.Size)-1, f.Start+uint64(f.Size))
		for i := range f.Deltas {
			if i < 2 || i == len(f.Deltas)-1 {
				places = append(places, f.Deltas[i].Address-1, f.Deltas[i].Address)
			}
		}
	}
	frames := table.Counts().Frames
	r := rand.New(rand.NewPCG(symtest.Seed(t, 1), 1))
	for range 100 {
		places = append(places, r.Uint64N(1<<20))
	}
	if len(places) > 20_000 {
		r.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
		places = places[:20_000]
	}
	wrong := 0
	for _, at := range places {
		want, _ := table.RulesAt(at)
		frame, ok, err := f.Find(t.Context(), at)
		if err != nil {
			t.Fatalf("%#x: %v", at, err)
		}
		got, holds := frame.RulesAt(at)
		if ok != holds || !slices.Equal(got.CFI, want.CFI) || ok && got.Start != want.Start {
			t.Errorf("%#x: frame at %#x with %q, want %#x with %q", at, got.Start, got.CFI, want.Start, want.CFI)
			if wrong++; wrong > 5 {
				t.FailNow()
			}
		}
	}
	return frames
}

func TestFindPE(t *testing.T) {
	t.Parallel()
	paths := []string{"pdb/hello-x64.exe", "pdb/hello-arm64.exe", "pdb/hello-x86.exe", "pe/mingw.exe", "pe/x64.exe", "pe/arm64.exe"}
	for i, name := range paths {
		paths[i] = filepath.Join("..", "testdata", filepath.FromSlash(name))
	}
	if dir := os.Getenv("SYMDEPOT_MATERIAL"); dir != "" {
		for _, name := range []string{
			"go/saferwall/kernel32.dll", "npm/node-pty/win32-x64/winpty.dll", "npm/node-pty/conpty-arm64/conpty.dll",
		} {
			if path := filepath.Join(dir, "public", filepath.FromSlash(name)); exists(path) {
				paths = append(paths, path)
			}
		}
	}
	total := 0
	for _, path := range paths {
		img := openImage(t, path)
		n := sameRules(t, unwind.NewPE(img), convertPE(img))
		t.Logf("%s: %d frames", path, n)
		total += n
	}
	if total < 10 {
		t.Errorf("%d frames in all", total)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func TestFindSections(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../testdata/elf/e-*")
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, path := range append(files, "../testdata/elf/prog-sha1", "../testdata/elf/libprog.so") {
		s := elfSections(t, path)
		n := sameRules(t, unwind.NewSections(s), convertSections(s))
		t.Logf("%s: %d frames", path, n)
		total += n
	}
	if total < 17 {
		t.Errorf("%d frames in all", total)
	}
}

// Libraries of the system have large .eh_frame.
func TestFindLarge(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/libstdc++.so.6"} {
		if !exists(path) {
			t.Logf("%s is not there", path)
			continue
		}
		s := elfSections(t, path)
		t.Logf("%s: %d frames", path, sameRules(t, unwind.NewSections(s), convertSections(s)))
	}
}

func regularInfo() []byte { return unwindInfo(0x180, 0x100, 0x01030161, 0x120, 0x030a0005) }

func compressedInfo() []byte {
	return compressed(0x100, 0x160, [2]uint32{0x04000000, 0x02000000}, 0x02001000, 1<<24, 2<<24|0x20, 0x40)
}

func TestFindCompact(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		s    unwind.Sections
	}{
		{"regular", unwind.Sections{Arch: "x86_64", CompactUnwind: regularInfo(), Text: bytes.NewReader(make([]byte, 0x200))}},
		{"compressed", unwind.Sections{Arch: "arm64", CompactUnwind: compressedInfo()}},
	} {
		n := sameRules(t, unwind.NewSections(tc.s), func(b *functab.Builder) error { return unwind.Compact(context.Background(), tc.s, b) })
		if n < 2 {
			t.Errorf("%s: %d frames", tc.name, n)
		}
	}
	paths := []string{"../testdata/macho/app-arm64", "../testdata/macho/app-fat"}
	if dir := os.Getenv("SYMDEPOT_MATERIAL"); dir != "" {
		for _, name := range []string{
			"npm/nativescript/NSCWinterTC-catalyst-fat/NSCWinterTC", "npm/nativescript/TNSWidgets-ios-arm64/TNSWidgets",
			"npm/node-pty/darwin-arm64/pty.node",
		} {
			paths = append(paths, filepath.Join(dir, "public", filepath.FromSlash(name)))
		}
	}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		objects, err := objfile.Identify(bytes.NewReader(b), int64(len(b)), path, objfile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			s := machSections(t, b[o.Offset:o.Offset+o.Size])
			n := sameRules(t, unwind.NewSections(s), func(b *functab.Builder) error { return unwind.Compact(context.Background(), s, b) })
			t.Logf("%s %s: %d frames", path, o.Arch, n)
		}
	}
}

// A Finder reports that an answer is no longer wanted, and works after it.
func TestFindCanceled(t *testing.T) {
	t.Parallel()
	s := elfSections(t, "../testdata/elf/prog-sha1")
	f := unwind.NewSections(s)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := f.Find(ctx, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: error %v", err)
	}
	sameRules(t, f, convertSections(s))
}

// FuzzFind asks for the rules of any unwind data.
func FuzzFind(f *testing.F) {
	s := elfSections(f, "../testdata/elf/prog-sha1")
	f.Add("x86_64", s.EHFrame, []byte(nil), uint64(0x1100))
	f.Add("x86_64", []byte(nil), regularInfo(), uint64(0x110))
	f.Add("arm64", []byte(nil), compressedInfo(), uint64(0x130))
	f.Fuzz(func(t *testing.T, arch string, eh, info []byte, at uint64) {
		img := &flat{arch: arch, bytes: eh, pdata: uint32(at), size: uint32(len(info)), code: [2]uint32{0, uint32(len(eh))}}
		s := unwind.Sections{Arch: arch, EHFrame: eh, CompactUnwind: info, Text: bytes.NewReader(eh)}
		for _, finder := range []*unwind.Finder{unwind.NewSections(s), unwind.NewPE(img)} {
			frame, ok, err := finder.Find(t.Context(), at)
			if err != nil {
				t.Fatal(err)
			}
			if _, holds := frame.RulesAt(at); ok && (!holds || !strings.Contains(frame.CFI, ".cfa:")) {
				t.Fatalf("%#x: frame %+v", at, frame)
			}
		}
	})
}
