package objtab

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/objfile"
)

// damageBounds are the parts of a file that damage goes to: the debug sections and
// symbol tables, or the whole file.
func damageBounds(p []byte) [][2]int {
	out := [][2]int{{0, len(p)}}
	add := func(s objfile.Section, find func(string) (*objfile.SectionData, error)) {
		if !strings.Contains(s.Name, "debug_") && !strings.Contains(s.Name, "sym") {
			return
		}
		d, err := find(s.Name)
		if err != nil {
			return
		}
		b, err := d.ReadAll(1 << 20)
		if i := bytes.Index(p, b); err == nil && i >= 0 && len(b) > 0 {
			out = append(out, [2]int{i, i + len(b)})
		}
	}
	r := bytes.NewReader(p)
	if e, err := objfile.OpenELF(r, r.Size()); err == nil {
		for s := range e.Sections() {
			add(s, func(n string) (*objfile.SectionData, error) { return e.Section(n, objfile.SectionOptions{}) })
		}
	}
	if m, err := objfile.OpenMachO(r, r.Size()); err == nil {
		for s := range m.Sections() {
			add(s, func(n string) (*objfile.SectionData, error) { return m.Section(n, objfile.SectionOptions{}) })
		}
	}
	return out
}

// TestDamage reads real files with random changes: nothing panics, and nothing
// takes long. SYMDEPOT_DAMAGE is the time to spend, such as 10m.
func TestDamage(t *testing.T) {
	t.Parallel()
	spend := 3 * time.Second
	if s := os.Getenv("SYMDEPOT_DAMAGE"); s != "" {
		var err error
		if spend, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	var seeds [][]byte
	for _, name := range []string{"elf/prog-sha1", "elf/prog-zstd", "elf/e-arm", "elf/e-ppc64-be", "elf/prog-sha1.stripped", "macho/app-arm64", "macho/app-arm64.dSYM/Contents/Resources/DWARF/app-arm64"} {
		p, err := os.ReadFile(filepath.Join("../testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		seeds = append(seeds, p)
	}
	if extra := os.Getenv("SYMDEPOT_DWARF_FILE"); extra != "" {
		p, err := os.ReadFile(extra)
		if err != nil {
			t.Fatal(err)
		}
		seeds = append(seeds, p)
	}
	bounds := make([][][2]int, len(seeds))
	for i, p := range seeds {
		bounds[i] = damageBounds(p)
	}
	rng := rand.New(rand.NewPCG(12, uint64(spend)))
	n, slowest := 0, time.Duration(0)
	for start := time.Now(); time.Since(start) < spend; n++ {
		k := rng.IntN(len(seeds))
		p := bytes.Clone(seeds[k])
		for range 1 + rng.IntN(6) {
			b := bounds[k][rng.IntN(len(bounds[k]))]
			at := b[0] + rng.IntN(b[1]-b[0])
			switch rng.IntN(4) {
			case 0:
				p[at] = byte(rng.Uint32())
			case 1:
				p[at] ^= 1 << rng.IntN(8)
			case 2:
				p[at] = []byte{0, 0xff, 0x7f, 0x80}[rng.IntN(4)]
			case 3:
				copy(p[at:b[1]], p[b[0]+rng.IntN(b[1]-b[0]):b[1]])
			}
		}
		if rng.IntN(16) == 0 {
			p = p[:rng.IntN(len(p))]
		}
		file := File{bytes.NewReader(p), int64(len(p))}
		begin := time.Now()
		opt := Options{Workers: 1, Limits: functab.Limits{Bytes: 64 << 20}, Sections: objfile.SectionOptions{Limit: 64 << 20}}
		b, err := ELF(t.Context(), ELFFiles{Name: "x", Program: file}, opt)
		if errors.Is(err, objfile.ErrNotSymbolFile) {
			b, err = MachO(t.Context(), MachOFiles{Name: "x", Image: file}, opt)
		}
		if err == nil {
			if _, err := b.Table(t.Context()); err != nil && !errors.Is(err, functab.ErrLimit) {
				t.Errorf("Table: %v, want ErrLimit or none", err)
			}
		}
		slowest = max(slowest, time.Since(begin))
	}
	t.Logf("%d files, the slowest took %v", n, slowest)
	if slowest > 30*time.Second {
		t.Errorf("the slowest file took %v, want at most 30 s", slowest)
	}
}
