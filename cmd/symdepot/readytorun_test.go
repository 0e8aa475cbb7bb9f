package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// netCore is a core file of Linux, as its kernel writes it, of a process with an assembly at base. first is
// what it has of the assembly: the start of the file, where .NET mapped the first section. The thread is at
// an address in the assembly; stack is its stack.
func netCore(path string, first []byte, base, rip uint64, stack []uint64) []byte {
	const (
		sp      = 0x7ffe_0000_0000
		section = 0x10000 // from the base
	)
	le := binary.LittleEndian
	words := func(list ...uint64) (b []byte) {
		for _, w := range list {
			b = le.AppendUint64(b, w)
		}
		return b
	}
	note := func(kind uint32, desc []byte) []byte {
		b := le.AppendUint32(le.AppendUint32(le.AppendUint32(nil, 5), uint32(len(desc))), kind)
		b = append(append(b, "CORE\x00\x00\x00\x00"...), desc...)
		return append(b, make([]byte, -len(desc)&3)...)
	}
	status := make([]byte, 336)
	le.PutUint16(status[12:], 6)
	le.PutUint32(status[32:], 70)
	le.PutUint64(status[112+16*8:], rip)
	le.PutUint64(status[112+19*8:], sp)
	files := words(2, 4096, base, base+0x1000, 0, base+section, base+section+0x4000, 0)
	files = append(files, strings.Repeat(path+"\x00", 2)...)
	notes := append(note(1, status), note(0x46494c45, files)...)
	memory := words(stack...)
	b := make([]byte, 64+4*56)
	copy(b, "\x7fELF\x02\x01\x01")
	le.PutUint16(b[16:], 4)
	le.PutUint16(b[18:], 62)
	le.PutUint64(b[32:], 64)
	le.PutUint16(b[54:], 56)
	le.PutUint16(b[56:], 4)
	for i, s := range []struct {
		kind, flags uint32
		address     uint64
		content     []byte
		size        uint64
	}{
		{4, 0, 0, notes, 0},
		{1, 4, base, nil, 0x1000},
		{1, 5, base + section, first, 0x4000},
		{1, 6, sp, memory, uint64(len(memory))},
	} {
		h := b[64+56*i:]
		le.PutUint32(h, s.kind)
		le.PutUint32(h[4:], s.flags)
		copy(h[8:], words(uint64(len(b)), s.address, s.address, uint64(len(s.content)), s.size))
		b = append(b, s.content...)
	}
	return b
}

// TestStackReadyToRun: frames of .NET code that was compiled ahead of time have names, and the stack goes on by the unwind
// data of the assembly, in a core whose only copy of the assembly's first page is where a section was mapped.
func TestStackReadyToRun(t *testing.T) {
	t.Parallel()
	const folder = "../../testdata/readytorun"
	const name, base = "Microsoft.Extensions.ObjectPool.dll", 0x7f12_3456_0000
	file, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	// Get is at its first instruction; Dispose has saved three registers and 16 bytes, Create four and 8.
	stack := []uint64{base + 0x11390, 0, 0, 3, 15, 5, base + 0x11750, 0, 3, 14, 15, 5, 0, 0}
	core := filepath.Join(t.TempDir(), "core")
	if err := os.WriteFile(core, netCore("/app/"+name, file[:4096], base, base+0x110b0, stack), 0o600); err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(t.TempDir(), "depot")
	if code, _, errs := commandtest.Symdepot(t, home, "add", folder); code != 0 {
		t.Fatalf("add: exit code %d, want 0: %s", code, errs)
	}
	want := []string{
		"Microsoft.Extensions.ObjectPool.DefaultObjectPool`1.Get context",
		"Microsoft.Extensions.ObjectPool.DisposableObjectPool`1.Dispose cfi",
		"Microsoft.Extensions.ObjectPool.ObjectPool.Create cfi",
	}
	for _, args := range [][]string{{"--symbols", folder}, nil} {
		code, out, errs := commandtest.Symdepot(t, home, append([]string{"stack", "--json", core}, args...)...)
		var s wire.Stacks
		if err := json.Unmarshal([]byte(out), &s); code != 0 || err != nil || len(s.Threads) != 1 || len(s.Modules) != 1 {
			t.Fatalf("stack %q: exit code %d, error %v, %s%s; want 0, one thread and one module", args, code, err, out, errs)
		}
		var got []string
		for _, f := range s.Threads[0].Frames {
			got = append(got, fmt.Sprint(f.Function, " ", f.Trust))
		}
		if m := s.Modules[0]; !slices.Equal(got, want) || m.Unwind != "found" || m.Debug != "found" {
			t.Errorf("stack %q: frames %q of %+v, want %q and all found", args, got, m, want)
		}
	}
}
