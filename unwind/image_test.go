package unwind_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/unwind"
)

func id(t testing.TB, s string) debugid.ID {
	t.Helper()
	v, err := debugid.ParseBreakpad(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestJoin holds that an image gives its frames only to the tables of its own
// PDB; the error names both ids.
func TestJoin(t *testing.T) {
	t.Parallel()
	mine, other := id(t, "3249D99D0C4049318610F4E4FB0B69362"), id(t, "3249D99D0C4049318610F4E4FB0B69361")
	img := image64(nil, entry(0x100, 0x140, 0x800), info(1, 0, 0, 0, nil))
	for _, tt := range []struct {
		ids  []debugid.ID
		want string
	}{
		{[]debugid.ID{mine}, ""},
		{[]debugid.ID{other, mine}, ""},
		{[]debugid.ID{other}, "the image and the debug file do not belong together: the debug file has the id 3249D99D0C4049318610F4E4FB0B69362, the image refers to 3249D99D0C4049318610F4E4FB0B69361"},
		{nil, "the image and the debug file do not belong together: the debug file has the id 3249D99D0C4049318610F4E4FB0B69362, the image refers to none"},
	} {
		img.ids = tt.ids
		b := functab.NewBuilder(functab.Module{ID: mine, Arch: "x86_64"}, functab.Limits{})
		err := unwind.Join(t.Context(), img, b)
		if got := fmt.Sprint(err); err != nil && (got != tt.want || !errors.Is(err, unwind.ErrMismatch)) || err == nil && tt.want != "" {
			t.Errorf("ids %v: error %v, want %q", tt.ids, err, tt.want)
		}
		table, tableErr := b.Table(t.Context())
		if tableErr != nil {
			t.Fatal(tableErr)
		}
		if n := table.Counts().Frames; (n == 1) != (err == nil) {
			t.Errorf("ids %v: %d frames with error %v, want one or none", tt.ids, n, err)
		}
	}
	none := functab.NewBuilder(functab.Module{}, functab.Limits{})
	img.ids = []debugid.ID{{}}
	if err := unwind.Join(t.Context(), img, none); !errors.Is(err, unwind.ErrMismatch) {
		t.Errorf("no ids at all: error %v, want ErrMismatch", err)
	}
}

// TestFunctionsNamed: names that the image itself tells go to the entries of its exception table.
func TestFunctionsNamed(t *testing.T) {
	t.Parallel()
	img := image64(nil, slices.Concat(entry(0x100, 0x140, 0x800), entry(0x140, 0x160, 0x800), entry(0x160, 0x180, 0x800)), info(1, 0, 0, 0, nil))
	named := func(rva uint32) (string, bool) {
		return map[uint32]string{0x100: "App.Run", 0x160: "App.Stub"}[rva], rva == 0x160
	}
	b := functab.NewBuilder(functab.Module{OS: "windows", Arch: "x86_64", Name: "a.dll"}, functab.Limits{})
	if err := unwind.Functions(t.Context(), img, b, unwind.Options{Named: named}); err != nil {
		t.Fatal(err)
	}
	table, err := b.Table(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for f := range table.Functions() {
		name, _ := table.NameOf(f.Name)
		got = append(got, fmt.Sprintf("%x %x %s %v", f.Start, f.Size, name, f.Multiple))
	}
	want := []string{"100 40 App.Run false", "140 20 <unknown in a.dll> false", "160 20 App.Stub true"}
	if !slices.Equal(got, want) {
		t.Errorf("functions %q, want %q", got, want)
	}
}

// TestFunctions holds what an image without its PDB gives.
func TestFunctions(t *testing.T) {
	t.Parallel()
	img := image64(nil, append(entry(0x100, 0x140, 0x800), entry(0x140, 0x160, 0x900)...), info(1, 0, 0, 0, nil), info(1, 0, 0, 0, nil))
	img.exports = map[string]uint32{"?Open@@YAXXZ": 0x170, "data": 0x1000}
	b := functab.NewBuilder(functab.Module{OS: "windows", Arch: "x86_64", Name: "a.dll"}, functab.Limits{})
	shown := func(raw string) string { return "shown " + raw }
	if err := unwind.Functions(t.Context(), img, b, unwind.Options{Shown: shown}); err != nil {
		t.Fatal(err)
	}
	table, err := b.Table(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for f := range table.Functions() {
		name, _ := table.NameOf(f.Name)
		got = append(got, fmt.Sprintf("%x %x %s", f.Start, f.Size, name))
	}
	for s := range table.Symbols() {
		name, raw := table.NameOf(s.Name)
		if !s.Marker {
			got = append(got, fmt.Sprintf("%x %s (%s)", s.Address, name, raw))
		}
	}
	want := "100 40 <unknown in a.dll>, 140 20 <unknown in a.dll>, 170 shown ?Open@@YAXXZ (?Open@@YAXXZ)"
	if s := strings.Join(got, ", "); s != want || table.Counts().Frames != 2 {
		t.Errorf("got %s and %d frames, want %s and 2", s, table.Counts().Frames, want)
	}
}

// TestFunctionsMaterial holds that each entry of the exception tables of real
// files gives a function, for both processors.
func TestFunctionsMaterial(t *testing.T) {
	t.Parallel()
	dir := symtest.Material(t)
	for name, want := range map[string][2]int{
		"go/saferwall/kernel32.dll":            {1835, 1000},
		"npm/node-pty/win32-x64/winpty.dll":    {731, 10},
		"npm/node-pty/conpty-arm64/conpty.dll": {323, 5},
	} {
		img := openImage(t, filepath.Join(dir, "public", filepath.FromSlash(name)))
		b := functab.NewBuilder(functab.Module{Name: "x", Arch: img.Arch()}, functab.Limits{})
		if err := unwind.Functions(context.Background(), img, b, unwind.Options{}); err != nil {
			t.Fatal(err)
		}
		table, err := b.Table(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c := table.Counts()
		t.Logf("%s: %d functions, %d symbols, %d frames, warnings %q", name, c.Functions, c.Symbols, c.Frames, table.Warnings())
		if c.Functions != want[0] || c.Frames < want[0] {
			t.Errorf("%s: %d functions and %d frames, want %d and as many or more", name, c.Functions, c.Frames, want[0])
		}
	}
}

// TestCancel holds that the conversions end when the context does.
func TestCancel(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var c cfi
	cie := c.x64(0x0c, 7, 8, 0x90, 1)
	for range 2000 {
		c.fde(cie, 0x100, 0x10, 0x41, 0x0e, 16)
	}
	img := image64(nil, entry(0x100, 0x140, 0x800), info(1, 0, 0, 0, nil))
	arm := imageArm64(packed(1, 10, 0, 0, 0, 3, 16))
	for name, convert := range map[string]func(b *functab.Builder) error{
		"x64":   func(b *functab.Builder) error { return unwind.PE(ctx, img, b) },
		"ARM64": func(b *functab.Builder) error { return unwind.PE(ctx, arm, b) },
		"DWARF": func(b *functab.Builder) error {
			return unwind.EHFrame(ctx, unwind.Sections{Arch: "x86_64", EHFrame: c.b}, b)
		},
	} {
		if err := convert(functab.NewBuilder(functab.Module{}, functab.Limits{})); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error %v, want context.Canceled", name, err)
		}
	}
}

// TestLimit holds that the builder's limit ends a conversion.
func TestLimit(t *testing.T) {
	t.Parallel()
	img := image64(nil, append(entry(0x100, 0x140, 0x800), entry(0x140, 0x160, 0x800)...), info(1, 0, 0, 0, nil))
	b := functab.NewBuilder(functab.Module{}, functab.Limits{Functions: 1})
	if err := unwind.PE(t.Context(), img, b); !errors.Is(err, functab.ErrLimit) {
		t.Errorf("error %v, want functab.ErrLimit", err)
	}
}

// TestAmplification holds that data which many entries share costs bounded time
// and memory.
func TestAmplification(t *testing.T) {
	t.Parallel()
	var codes []byte
	for i := 255; i > 0; i-- {
		codes = append(codes, byte(i), 0x02)
	}
	img := image64(nil, nil, info(1, 0, 255, 0, codes))
	for i := range uint32(100_000) {
		img.bytes = append(img.bytes, entry(0x1000+i*0x100, 0x1100+i*0x100, 0x800)...)
	}
	img.size = 12 * 100_000
	list, warnings := frames(t, convertPE(img))
	rows := 0
	for _, f := range list {
		rows += 1 + len(f.Deltas)
	}
	if len(warnings) != 1 || rows > 1<<18+3*int(img.size) {
		t.Errorf("%d rows, warnings %q; want %d rows at most, and one warning", rows, warnings, 1<<18+3*int(img.size))
	}
}
