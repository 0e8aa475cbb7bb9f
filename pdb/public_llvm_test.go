package pdb

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
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

// publicImages calls test with each image of which the PDB is there, in a folder with the public form of
// that PDB and the image: the paths of the image, the public PDB and the private one, and the symbols of code in the public PDB.
func publicImages(t *testing.T, test func(t *testing.T, image, pdb, private string, want codeNames)) {
	t.Helper()
	images := map[string]string{"../testdata/pdb/hello-x64.pdb": "hello-x64.exe", "../testdata/pdb/hello-x86.pdb": "hello-x86.exe"}
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
			program, err := os.ReadFile(filepath.Join(filepath.Dir(path), image))
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			out, _ := stripped(t, b, PublicOptions{})
			for name, c := range map[string][]byte{image: program, filepath.Base(path): out} {
				if err := os.WriteFile(filepath.Join(dir, name), c, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			test(t, filepath.Join(dir, image), filepath.Join(dir, filepath.Base(path)), path, namesOf(t, out))
		})
	}
}

// codeNames are the symbols of code in a public PDB.
type codeNames struct {
	names     map[uint64][]string // as the linker knows them, by address
	addresses []uint64            // in order
}

func namesOf(t *testing.T, b []byte) codeNames {
	t.Helper()
	p := openPublics(t, mustOpen(t, b))
	n := codeNames{names: map[uint64][]string{}}
	for i, s := range p.list {
		a := uint64(s.addr)
		if n.names[a] == nil {
			n.addresses = append(n.addresses, a)
		}
		n.names[a] = append(n.names[a], p.raw(i))
	}
	slices.Sort(n.addresses)
	return n
}

// input returns the addresses, each in a line.
func (n codeNames) input() string {
	var b strings.Builder
	for _, a := range n.addresses {
		fmt.Fprintf(&b, "%#x\n", a)
	}
	return b.String()
}

// check checks the name that a program gives to an address. what is all that it says about the address, and
// plain whether it says nothing but the name.
func (n codeNames) check(t *testing.T, address uint64, name string, plain bool, what any) {
	t.Helper()
	if !plain || !slices.Contains(n.names[address], name) {
		t.Errorf("%#x: %v, want one of %q, and neither file nor line", address, what, n.names[address])
	}
}

// imageBase returns the address that the linker gave an image.
func imageBase(t *testing.T, image string) uint64 {
	t.Helper()
	b, err := os.ReadFile(image)
	if err != nil {
		t.Fatal(err)
	}
	optional := b[le.Uint32(b[0x3c:])+24:]
	if le.Uint16(optional) == 0x10b { // x86
		return uint64(le.Uint32(optional[28:]))
	}
	return le.Uint64(optional[24:])
}

// llvm-symbolizer finds the names of public symbols and static functions at all their addresses, and no lines.
func TestPublicSymbolizer(t *testing.T) {
	t.Parallel()
	symtest.Tool(t, "llvm-symbolizer-19")
	publicImages(t, func(t *testing.T, image, _, _ string, want codeNames) {
		answers, faults := symbolizer(t, image, want.addresses, "--no-demangle")
		for a, answer := range answers {
			if len(answer) != 1 {
				t.Fatalf("%#x: %+v, want one name", a, answer)
			}
			want.check(t, a, answer[0].FunctionName, answer[0].Line == 0, answer)
		}
		if faults > 0 || len(answers) < len(want.addresses) {
			t.Errorf("%d answers to %d addresses; %d faults", len(answers), len(want.addresses), faults)
		}
	})
}

// lldb looks for names in a public PDB. That of LLVM 19 reads no public symbols of any PDB, those of Microsoft's
// linker included.
func TestPublicLLDB(t *testing.T) {
	t.Parallel()
	symtest.Tool(t, "lldb-19")
	publicImages(t, func(t *testing.T, image, pdb, _ string, want codeNames) {
		for _, name := range []string{want.names[want.addresses[0]][0], "no_such_name"} {
			out, err := exec.CommandContext(t.Context(), "lldb-19", "--no-lldbinit", "--batch",
				"-o", "target create "+image+" --symfile "+pdb, "-o", "image lookup --function "+name).CombinedOutput()
			// The exit code is 1 if nothing is found.
			if exit := new(exec.ExitError); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) || bytes.Contains(out, []byte("LineEntry:")) {
				t.Errorf("lldb, %s: %v\n%.2000s", name, err, out)
			}
		}
	})
}

// A newer lldb finds the names of public symbols and static functions at all their addresses, and nothing
// else.
func TestPublicNewLLDB(t *testing.T) {
	t.Parallel()
	tool := symtest.Judge(t, "lldb/bin/lldb")
	if tool == "" {
		t.Skip("needs a newer lldb, which scripts/oracles gets")
	}
	symbol := regexp.MustCompile(`(?m)^ +Symbol: .*?\)(?:, name="(.*?)")?(?:, mangled="(.*?)")?$`)
	private := regexp.MustCompile(`(?m)^ +(LineEntry|Function|Variable):`)
	publicImages(t, func(t *testing.T, image, pdb, _ string, want codeNames) {
		base := imageBase(t, image)
		var commands strings.Builder
		fmt.Fprintf(&commands, "target create %s --symfile %s\n", image, pdb)
		for _, a := range want.addresses {
			fmt.Fprintf(&commands, "image lookup --verbose --address %#x\n", base+a)
		}
		script := filepath.Join(t.TempDir(), "commands")
		if err := os.WriteFile(script, []byte(commands.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), tool, "--no-lldbinit", "--batch", "--source", script).CombinedOutput()
		if err != nil {
			t.Fatalf("lldb: %v\n%.2000s", err, out)
		}
		answers := strings.Split(string(out), "(lldb) image lookup ")[1:]
		if len(answers) != len(want.addresses) {
			t.Fatalf("%d answers to %d addresses\n%.2000s", len(answers), len(want.addresses), out)
		}
		for i, answer := range answers {
			m := symbol.FindStringSubmatch(answer)
			if m == nil {
				t.Errorf("%#x: %s", want.addresses[i], answer)
				continue
			}
			want.check(t, want.addresses[i], cmp.Or(m[2], m[1]), !private.MatchString(answer), answer)
		}
	})
}

// radare2 finds the public symbols of the private PDB in the public one, and static functions.
func TestPublicRadare2(t *testing.T) {
	t.Parallel()
	tool := symtest.Judge(t, "radare2/radare2")
	if tool == "" {
		t.Skip("needs radare2, which scripts/oracles gets")
	}
	type symbol struct {
		Address uint64 `json:"address"`
		Name    string `json:"gdata_name"`
	}
	publicImages(t, func(t *testing.T, image, pdb, private string, want codeNames) {
		list := func(pdb string) map[symbol]bool {
			cmd := exec.CommandContext(t.Context(), tool, "-N", "-q", "-e", "scr.color=0", "-c", "idpij "+pdb, image)
			cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("radare2: %v", err)
			}
			// Of a PDB with types, they are before the symbols.
			out = out[max(bytes.LastIndex(out, []byte(`{"gvars":`)), 0):]
			var answer struct {
				Symbols []symbol `json:"gvars"`
			}
			if err := json.NewDecoder(bytes.NewReader(out)).Decode(&answer); err != nil {
				t.Fatalf("radare2 %s: %v\n%.1000s", pdb, err, out)
			}
			all := map[symbol]bool{}
			for _, s := range answer.Symbols {
				all[s] = true
			}
			return all
		}
		is, at := list(pdb), map[uint64]bool{}
		for s := range is {
			at[s.Address-imageBase(t, image)] = true
		}
		// It takes minutes for the types of larger PDBs.
		if info, err := os.Stat(private); err == nil && info.Size() < 1<<20 {
			for s := range list(private) {
				if !is[s] {
					t.Errorf("radare2: the public PDB lacks %s at %#x", s.Name, s.Address)
				}
			}
		}
		for _, a := range want.addresses {
			if !at[a] {
				t.Errorf("radare2: no symbol at %#x, want %q", a, want.names[a])
			}
		}
	})
}

// decoration matches a name with the decoration that C functions have on x86.
var decoration = regexp.MustCompile(`^[_@]?(.*?)(?:@\d+)?$`)

// symbolic, the library of Symbolicator, finds the names of public symbols and static functions at all their
// addresses, and no lines. Unwind rules are those of the private file.
func TestPublicSymbolic(t *testing.T) {
	t.Parallel()
	tool := symtest.Judge(t, "rust/bin/symbolic")
	if tool == "" {
		t.Skip("needs symbolic, which scripts/oracles builds")
	}
	for name, b := range linked(t) {
		t.Run(name, func(t *testing.T) {
			out, _ := stripped(t, b, PublicOptions{})
			want := namesOf(t, out)
			// symbolic takes the decoration of C functions off.
			for a, names := range want.names {
				for _, name := range names {
					want.names[a] = append(want.names[a], decoration.FindStringSubmatch(name)[1])
				}
			}
			lookup := func(b []byte, in string) (lines []string, unwind string) {
				path := filepath.Join(t.TempDir(), "a.pdb")
				if err := os.WriteFile(path, b, 0o600); err != nil {
					t.Fatal(err)
				}
				cmd := exec.CommandContext(t.Context(), tool, path)
				cmd.Stdin = strings.NewReader(in)
				out, err := cmd.Output()
				if err != nil {
					t.Fatalf("symbolic: %v", err)
				}
				lines = strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
				return lines[:len(lines)-1], lines[len(lines)-1]
			}
			lines, unwind := lookup(out, want.input())
			if len(lines) != len(want.addresses) {
				t.Fatalf("%d lines for %d addresses", len(lines), len(want.addresses))
			}
			for i, line := range lines {
				f := strings.Split(line, "\t")
				want.check(t, want.addresses[i], f[1], f[2] == "" && f[3] == "0", line)
			}
			if _, was := lookup(b, ""); unwind != was {
				t.Errorf("symbolic: %s bytes of unwind rules, of the private file %s", unwind, was)
			}
		})
	}
}

// pdb-addr2line, whose reader samply uses too, finds the names of public symbols and static functions at all
// their addresses, and no lines.
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
			want := namesOf(t, out)
			cmd := exec.CommandContext(t.Context(), tool, "-f", "-e", path)
			cmd.Stdin = strings.NewReader(want.input())
			answer, err := cmd.Output()
			lines := strings.Split(strings.TrimSpace(string(answer)), "\n")
			if err != nil || len(lines) != 2*len(want.addresses) {
				t.Fatalf("%d lines for %d addresses, error %v", len(lines), len(want.addresses), err)
			}
			for i, a := range want.addresses {
				want.check(t, a, lines[2*i], lines[2*i+1] == "??:?", lines[2*i:2*i+2])
			}
		})
	}
}
