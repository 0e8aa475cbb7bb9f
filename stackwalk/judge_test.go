package stackwalk_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/symdepot/symdepot/breakpad"
	"github.com/symdepot/symdepot/dump"
	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/stackwalk"
)

// peerStacks is what minidump-stackwalk says of a dump.
type peerStacks struct {
	Modules []struct {
		Base      string `json:"base_addr"`
		DebugFile string `json:"debug_file"`
		DebugID   string `json:"debug_id"`
	} `json:"modules"`
	Threads []struct {
		Frames []struct {
			Offset string `json:"offset"`
			Trust  string `json:"trust"`
		} `json:"frames"`
	} `json:"threads"`
}

// readTable reads a .sym file. It returns nil if there is none.
func readTable(t testing.TB, path string) *functab.Table {
	t.Helper()
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := functab.NewBuilder(functab.Module{}, functab.Limits{})
	if err := breakpad.ReadSym(f, b); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	table, err := b.Table(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// openDump returns a dump and a Walker for it, with the .sym files that symbols names by the base of a
// module.
func openDump(t testing.TB, path string, symbols map[uint64]string) (*dump.Process, *stackwalk.Walker) {
	t.Helper()
	p, file, err := dump.OpenFile(path)
	if err != nil {
		t.Logf("%s: %v", path, err)
		return nil, nil
	}
	t.Cleanup(func() { file.Close() })
	proc := stackwalk.Process{Arch: p.Arch, OS: p.OS, Memory: &p.Memory, AddressMask: p.AddressMask}
	src := make(stackwalk.Modules, len(p.Modules))
	for i, m := range p.Modules {
		if m.Unloaded {
			m.Size = 0
		}
		proc.Modules = append(proc.Modules, stackwalk.Module{Base: m.Base, Size: m.Size})
		if sym := symbols[m.Base]; sym != "" {
			src[i].Table = readTable(t, sym)
		}
	}
	w, err := stackwalk.New(proc, src, stackwalk.Limits{})
	if err != nil {
		t.Logf("%s: %v", path, err)
		return nil, nil
	}
	return p, w
}

func walkThread(t testing.TB, w *stackwalk.Walker, th *dump.Thread) stackwalk.Stack {
	t.Helper()
	s, err := w.Walk(t.Context(), stackwalk.Thread{Registers: &th.Registers, Stack: stackwalk.Range(th.Stack)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestJudge compares all frames of the dumps in SYMDEPOT_DUMPS/*.dmp, with the .sym files in
// SYMDEPOT_DUMPS/symbols, with those that minidump-stackwalk finds: at least 99 % must be equal in
// address and trust.
func TestJudge(t *testing.T) {
	dir := os.Getenv("SYMDEPOT_DUMPS")
	if dir == "" {
		t.Skip("needs minidumps (*.dmp) and a folder symbols with their .sym files (set SYMDEPOT_DUMPS to the folder that has both)")
	}
	tool := symtest.Tool(t, "rust/bin/minidump-stackwalk")
	paths, err := filepath.Glob(filepath.Join(dir, "*.dmp"))
	if err != nil {
		t.Fatal(err)
	}
	equal, all := 0, 0
	trusts := map[string]int{}
	for _, path := range paths {
		out, err := exec.Command(tool, "--json", "--symbols-path", filepath.Join(dir, "symbols"), path).Output()
		var peer peerStacks
		if err != nil || json.Unmarshal(out, &peer) != nil {
			t.Logf("%s: minidump-stackwalk does not read it: %v", filepath.Base(path), err)
			continue
		}
		symbols := map[uint64]string{}
		for _, m := range peer.Modules {
			base, _ := strconv.ParseUint(m.Base, 0, 64)
			symbols[base] = filepath.Join(dir, "symbols", m.DebugFile, m.DebugID, breakpad.SymName(m.DebugFile))
		}
		p, w := openDump(t, path, symbols)
		if p == nil {
			continue
		}
		if len(p.Threads) != len(peer.Threads) {
			t.Errorf("%s: %d threads, minidump-stackwalk finds %d", path, len(p.Threads), len(peer.Threads))
			continue
		}
		for i := range p.Threads {
			want := peer.Threads[i].Frames
			if len(want) == 0 {
				continue // the thread that wrote the dump
			}
			got := walkThread(t, w, &p.Threads[i]).Frames
			same, report := 0, ""
			for n := range max(len(got), len(want)) {
				g, w := "-", "-"
				if n < len(got) {
					g = fmt.Sprintf("%#x %s", got[n].Lookup(), got[n].Trust)
				}
				if n < len(want) {
					// The peer goes back by the bytes of an instruction, which differ by processor.
					at, _ := strconv.ParseUint(want[n].Offset, 0, 64)
					if n > 0 {
						at += map[string]uint64{"arm64": 3, "arm": 1}[p.Arch]
					}
					w = fmt.Sprintf("%#x %s", at, want[n].Trust)
					trusts[want[n].Trust]++
				}
				if g == w {
					same++
				}
				report += fmt.Sprintf("\n  %2d %-34s %-34s", n, g, w)
			}
			equal, all = equal+same, all+max(len(got), len(want))
			if same < max(len(got), len(want)) {
				t.Logf("%s, thread %d, %s of %s:%s", filepath.Base(path), i, p.Arch, p.OS, report)
			}
		}
	}
	t.Logf("%d of %d frames are equal; trusts of the peer: %v", equal, all, trusts)
	if all == 0 || equal*100 < all*99 {
		t.Errorf("%d of %d frames are equal, want 99 %%", equal, all)
	}
}
