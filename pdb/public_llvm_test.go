package pdb

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// llvm-pdbutil reads all of a public PDB without complaint, and shows the symbols, sections and frame data of
// the private one.
func TestPublicPdbutil(t *testing.T) {
	t.Parallel()
	tool := symtest.Tool(t, "llvm-pdbutil-19")
	record := regexp.MustCompile("^ *\\d+ (\\| S_PUB32 \\[)size = \\d+(\\] `.*)")
	for name, b := range linked(t) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			paths := []string{filepath.Join(dir, "private.pdb"), filepath.Join(dir, "public.pdb")}
			out, _ := stripped(t, b, PublicOptions{NoStatic: true})
			for i, c := range [][]byte{b, out} {
				if err := os.WriteFile(paths[i], c, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			run := func(path string, args ...string) string {
				var errs bytes.Buffer
				cmd := exec.CommandContext(t.Context(), tool, append([]string{"dump"}, append(args, path)...)...)
				cmd.Stderr = &errs
				out, err := cmd.Output()
				if err != nil || errs.Len() > 0 {
					t.Fatalf("%s: %v\n%s", cmd, err, errs.String())
				}
				return string(out)
			}
			for _, what := range [][]string{{"-section-headers"}, {"-section-map"}, {"-fpo"}} {
				if was, is := run(paths[0], what...), run(paths[1], what...); was != is {
					t.Errorf("llvm-pdbutil dump %s differs: %d bytes, then %d", what, len(was), len(is))
				}
			}
			// Offsets of records differ.
			publics := func(path string) (list []string) {
				for line := range strings.Lines(run(path, "-publics")) {
					list = append(list, record.ReplaceAllString(strings.TrimSpace(line), "$1$2"))
				}
				slices.Sort(list)
				return list
			}
			if !slices.Equal(publics(paths[0]), publics(paths[1])) {
				t.Error("llvm-pdbutil dump -publics differs")
			}
			crc := regexp.MustCompile(`data crc = \d+, reloc crc = \d+`)
			contribs := func(path string) string { return crc.ReplaceAllString(run(path, "-section-contribs"), "") }
			if contribs(paths[0]) != contribs(paths[1]) {
				t.Error("llvm-pdbutil dump -section-contribs differs")
			}
			for _, o := range []PublicOptions{{}, {Undecorated: true}, {Hide: []string{"*"}}} {
				c, _ := stripped(t, b, o)
				if err := os.WriteFile(paths[1], c, 0o600); err != nil {
					t.Fatal(err)
				}
				run(paths[1], "-all")
			}
			var streams []content
			for _, c := range contents(t, mustOpen(t, b)) {
				streams = append(streams, content{data: c})
			}
			for page, what := range map[int64]string{512: "-all", 32768: "-summary"} { // of larger pages, llvm-pdbutil lists no free ones
				c, _ := stripped(t, msfBytes(t, page, streams), PublicOptions{})
				if err := os.WriteFile(paths[1], c, 0o600); err != nil {
					t.Fatal(err)
				}
				run(paths[1], what)
			}
		})
	}
}

// llvm-symbolizer finds the names of public symbols and static functions at all their addresses, and no lines.
func TestPublicSymbolizer(t *testing.T) {
	t.Parallel()
	symtest.Tool(t, "llvm-symbolizer-19")
	images := map[string]string{"../testdata/pdb/hello-x64.pdb": "hello-x64.exe"}
	if os.Getenv("SYMDEPOT_MATERIAL") != "" {
		for _, path := range materialPDBs(t) {
			if image := map[string]string{"conpty.pdb": "conpty.node", "winpty.pdb": "winpty.dll", "Setup.pdb": "Setup.exe"}[filepath.Base(path)]; image != "" {
				images[path] = image
			}
		}
	}
	for path, image := range images {
		t.Run(image, func(t *testing.T) {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			program, err := os.ReadFile(filepath.Join(filepath.Dir(path), image))
			if err != nil {
				t.Fatal(err)
			}
			out, _ := stripped(t, b, PublicOptions{})
			for name, c := range map[string][]byte{image: program, filepath.Base(path): out} {
				if err := os.WriteFile(filepath.Join(dir, name), c, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			p := openPublics(t, mustOpen(t, out))
			names := map[uint64][]string{}
			for i, s := range p.list {
				names[uint64(s.addr)] = append(names[uint64(s.addr)], p.raw(i))
			}
			addresses := make([]uint64, 0, len(names))
			for a := range names {
				addresses = append(addresses, a)
			}
			slices.SortFunc(addresses, cmp.Compare)
			answers, faults := symbolizer(t, filepath.Join(dir, image), addresses, "--no-demangle")
			equal := 0
			for a, answer := range answers {
				if len(answer) != 1 || answer[0].Line != 0 {
					t.Fatalf("%#x: %+v, want one name without a line", a, answer)
				}
				if slices.Contains(names[a], answer[0].FunctionName) {
					equal++
				} else {
					t.Errorf("%#x: %s, want %s", a, answer[0].FunctionName, names[a])
				}
			}
			if faults > 0 || equal < len(addresses) {
				t.Errorf("%d of %d answers are equal; %d faults", equal, len(addresses), faults)
			}
		})
	}
}

// pdb-addr2line, whose reader Symbolicator and samply use too, finds the names of public symbols and static functions
// at all their addresses, and no lines.
func TestPublicAddr2line(t *testing.T) {
	t.Parallel()
	tool := symtest.Judge(t, "rust/bin/pdb-addr2line")
	if tool == "" {
		t.Skip("needs pdb-addr2line, which scripts/oracles builds")
	}
	for name, b := range linked(t) {
		t.Run(name, func(t *testing.T) {
			out, _ := stripped(t, b, PublicOptions{})
			path := filepath.Join(t.TempDir(), "public.pdb")
			if err := os.WriteFile(path, out, 0o600); err != nil {
				t.Fatal(err)
			}
			p := openPublics(t, mustOpen(t, out))
			var addresses []uint64
			var in strings.Builder
			names := map[uint64][]string{}
			for i, s := range p.list {
				a := uint64(s.addr)
				if names[a] == nil {
					addresses = append(addresses, a)
					fmt.Fprintf(&in, "%#x\n", a)
				}
				names[a] = append(names[a], p.raw(i))
			}
			cmd := exec.CommandContext(t.Context(), tool, "-f", "-e", path)
			cmd.Stdin = strings.NewReader(in.String())
			answer, err := cmd.Output()
			lines := strings.Split(strings.TrimSpace(string(answer)), "\n")
			if err != nil || len(lines) != 2*len(addresses) {
				t.Fatalf("%d lines for %d addresses, error %v", len(lines), len(addresses), err)
			}
			differ := 0
			for i, a := range addresses {
				if !slices.Contains(names[a], lines[2*i]) || lines[2*i+1] != "??:?" {
					if differ++; differ < 10 {
						t.Errorf("%#x: %s in %s, want one of %s", a, lines[2*i], lines[2*i+1], names[a])
					}
				}
			}
			if differ > 0 {
				t.Errorf("%d of %d addresses have another name", differ, len(addresses))
			}
		})
	}
}
