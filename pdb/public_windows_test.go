package pdb

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/symdepot/symdepot/demangle"
)

// dbghelp (Wine's, or that of Windows) finds the names of all public symbols of a public PDB, and no lines.
func TestPublicDbghelp(t *testing.T) {
	dll := syscall.NewLazyDLL("dbghelp.dll")
	call := func(name string, args ...uintptr) uintptr {
		t.Helper()
		r, _, _ := dll.NewProc(name).Call(args...)
		return r
	}
	text := func(s string) uintptr {
		p, err := syscall.BytePtrFromString(s)
		if err != nil {
			t.Fatal(err)
		}
		return uintptr(unsafe.Pointer(p))
	}
	dir := t.TempDir()
	out, _ := stripped(t, readFile(t, "hello-x64.pdb"), PublicOptions{})
	for name, b := range map[string][]byte{"hello-x64.exe": readFile(t, "hello-x64.exe"), "hello-x64.pdb": out} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const process, base = 0x1234, 0x140000000
	if call("SymInitialize", process, text(dir), 0) == 0 {
		t.Skip("dbghelp does not start")
	}
	defer call("SymCleanup", process)
	if call("SymLoadModule64", process, 0, text(filepath.Join(dir, "hello-x64.exe")), 0, base, 0) == 0 {
		t.Fatal("dbghelp does not load the module")
	}
	p := openPublics(t, mustOpen(t, out))
	for i, s := range p.list {
		// SYMBOL_INFO: 88 bytes with the first of the name, at 84.
		info := make([]byte, 88+2000)
		le.PutUint32(info, 88)
		le.PutUint32(info[80:], 2000)
		var displacement uint64
		if call("SymFromAddr", process, base+uintptr(s.addr), uintptr(unsafe.Pointer(&displacement)), uintptr(unsafe.Pointer(&info[0]))) == 0 {
			t.Errorf("dbghelp has no symbol at %#x, want %s", s.addr, p.raw(i))
			continue
		}
		name := string(nameAt(info, 84))
		shown, _ := p.shown(p.raw(i)) // Wine prefers its own name for the entry point of the image
		if displacement != 0 || !slices.Contains([]string{p.raw(i), shown, demangle.Bare(p.raw(i), demangle.Options{}), "EntryPoint"}, name) {
			t.Errorf("at %#x: %s+%d, want %s", s.addr, name, displacement, p.raw(i))
		}
		line := make([]byte, 40)
		le.PutUint32(line, 40)
		if call("SymGetLineFromAddr64", process, base+uintptr(s.addr), uintptr(unsafe.Pointer(&displacement)), uintptr(unsafe.Pointer(&line[0]))) != 0 {
			t.Errorf("at %#x there is a line", s.addr)
		}
	}
	if len(p.list) == 0 || !strings.Contains(p.raw(0), "sum") {
		t.Errorf("%d symbols, want that of sum first", len(p.list))
	}
}
