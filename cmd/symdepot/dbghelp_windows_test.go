package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// The functions of dbghelp.dll, of Windows or of Wine: a client of symbol trees
// that shares no code with symdepot.
var (
	dbghelp              = windows.NewLazySystemDLL("dbghelp.dll")
	symInitialize        = dbghelp.NewProc("SymInitializeW")
	symCleanup           = dbghelp.NewProc("SymCleanup")
	symLoadModule        = dbghelp.NewProc("SymLoadModuleExW")
	symUnloadModule      = dbghelp.NewProc("SymUnloadModule64")
	symGetModuleInfo     = dbghelp.NewProc("SymGetModuleInfoW64")
	symFromName          = dbghelp.NewProc("SymFromNameW")
	symFindFile          = dbghelp.NewProc("SymFindFileInPathW")
	symSrvGetFileIndexes = dbghelp.NewProc("SymSrvGetFileIndexInfoW")
)

// moduleInfo is an IMAGEHLP_MODULEW64.
type moduleInfo struct {
	size                             uint32
	base                             uint64
	imageSize, stamp, checksum, syms uint32
	symType                          uint32
	name                             [32]uint16
	image, loadedImage, loadedPDB    [256]uint16
	cvSig                            uint32
	cvData                           [780]uint16
	pdbSig                           uint32
	guid                             windows.GUID
	age                              uint32
	pdbUnmatched, dbgUnmatched       int32
	lines, globals, types, sources   int32
	publics                          int32
	machine, reserved                uint32
}

// indexInfo is a SYMSRV_INDEX_INFOW.
type indexInfo struct {
	size         uint32
	file         [261]uint16
	stripped     int32
	stamp, bytes uint32
	dbg, pdb     [261]uint16
	guid         windows.GUID
	sig, age     uint32
}

// symbolInfo is a SYMBOL_INFOW with room for a name.
type symbolInfo struct {
	size, typeIndex                     uint32
	_                                   [2]uint64
	index, bytes                        uint32
	module                              uint64
	flags                               uint32
	value, address                      uint64
	register, scope, tag, length, limit uint32
	name                                [256]uint16
}

// symTypePDB is SymPdb: the symbols of a module are those of a PDB.
const symTypePDB = 3

// loadModule loads a program with a search path and returns what dbghelp knows
// about it, and whether it finds the function entry.
func loadModule(t *testing.T, search, image string) (m moduleInfo, found bool) {
	t.Helper()
	utf16 := func(s string) *uint16 {
		p, err := windows.UTF16PtrFromString(s)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	process := uintptr(windows.CurrentProcess())
	if ok, _, err := symInitialize.Call(process, uintptr(unsafe.Pointer(utf16(search))), 0); ok == 0 {
		t.Fatalf("SymInitialize: %v, want success", err)
	}
	defer func() { _, _, _ = symCleanup.Call(process) }()
	base, _, err := symLoadModule.Call(process, 0, uintptr(unsafe.Pointer(utf16(image))), 0, 0x10000000, 0, 0, 0)
	if base == 0 {
		t.Fatalf("SymLoadModuleEx %s: %v, want a base address", image, err)
	}
	defer func() { _, _, _ = symUnloadModule.Call(process, base) }()
	m.size = uint32(unsafe.Sizeof(m))
	if ok, _, err := symGetModuleInfo.Call(process, base, uintptr(unsafe.Pointer(&m))); ok == 0 {
		t.Fatalf("SymGetModuleInfo %s: %v, want success", image, err)
	}
	s := symbolInfo{size: 88, limit: 255}
	ok, _, _ := symFromName.Call(process, uintptr(unsafe.Pointer(utf16("entry"))), uintptr(unsafe.Pointer(&s)))
	return m, ok != 0 && s.address > m.base
}

// wanted is the PDB that findFile searches.
var wanted struct {
	guid windows.GUID
	age  uint32
}

// foundFile is called by SymFindFileInPath with the path of each file of the name.
// It compares GUID and age as dbghelp reads them: 0 takes the file, 1 continues the
// search.
var foundFile = windows.NewCallback(func(path, _ uintptr) uintptr {
	i := indexInfo{size: uint32(unsafe.Sizeof(indexInfo{}))}
	if ok, _, _ := symSrvGetFileIndexes.Call(path, uintptr(unsafe.Pointer(&i)), 0); ok == 0 || i.guid != wanted.guid || i.age != wanted.age {
		return 1
	}
	return 0
})

// findFile searches a path for a PDB by its GUID and age.
func findFile(t *testing.T, search, name string, guid windows.GUID, age uint32) (path string, found bool) {
	t.Helper()
	process := uintptr(windows.CurrentProcess())
	if ok, _, err := symInitialize.Call(process, 0, 0); ok == 0 {
		t.Fatalf("SymInitialize: %v, want success", err)
	}
	defer func() { _, _, _ = symCleanup.Call(process) }()
	wanted.guid, wanted.age = guid, age
	s, err := windows.UTF16PtrFromString(search)
	if err != nil {
		t.Fatal(err)
	}
	n, err := windows.UTF16PtrFromString(name)
	if err != nil {
		t.Fatal(err)
	}
	var out [261]uint16
	const guidPointer = 8 // SSRVOPT_GUIDPTR
	ok, _, _ := symFindFile.Call(process, uintptr(unsafe.Pointer(s)), uintptr(unsafe.Pointer(n)), uintptr(unsafe.Pointer(&guid)), uintptr(age), 0,
		guidPointer, uintptr(unsafe.Pointer(&out)), foundFile, 0)
	return windows.UTF16ToString(out[:]), ok != 0
}

// TestDbghelpFind lets dbghelp find a PDB by GUID and age.
func TestDbghelpFind(t *testing.T) {
	for _, p := range []*windows.LazyProc{symInitialize, symFindFile, symSrvGetFileIndexes} {
		if err := p.Find(); err != nil {
			t.Skip(err)
		}
	}
	data, err := filepath.Abs(filepath.Join("..", "..", "testdata", "pdb"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	run := func(args ...string) {
		t.Helper()
		if code, out, errs := commandtest.Symdepot(t, filepath.Join(dir, "depot"), args...); code != 0 {
			t.Fatalf("symdepot %s: exit code %d, %s%s; want 0", args, code, out, errs)
		}
	}
	const pdb, key = "hello-x64.pdb", "F9EFE0B6AE7500394C4C44205044422E1"
	guid := windows.GUID{Data1: 0xF9EFE0B6, Data2: 0xAE75, Data3: 0x0039, Data4: [8]byte{0x4C, 0x4C, 0x44, 0x20, 0x50, 0x44, 0x42, 0x2E}}
	other := guid
	other.Data4[7]++
	run("add", filepath.Join(data, pdb))
	flat, one, two := filepath.Join(dir, "flat"), filepath.Join(dir, "one"), filepath.Join(dir, "two")
	run("get", pdb, key, "-o", filepath.Join(flat, pdb))
	run("symstore", "add", "/f", filepath.Join(data, pdb), "/s", one, "/t", "P")
	run("symstore", "add", "/3", "/f", filepath.Join(data, pdb), "/s", two, "/t", "P")
	for _, c := range []struct {
		name, search string
		guid         windows.GUID
		age          uint32
		want         string // the file, or empty
		symsrv       bool   // needs the symsrv.dll of Microsoft's debuggers
	}{
		{"a folder", flat, guid, 1, filepath.Join(flat, pdb), false},
		{"a folder, another age", flat, guid, 2, "", false},
		{"a folder, another GUID", flat, other, 1, "", false},
		{"the folder of the key in a store", filepath.Join(one, pdb, key), guid, 1, filepath.Join(one, pdb, key, pdb), false},
		{"the folder of the key in a store, another age", filepath.Join(one, pdb, key), guid, 2, "", false},
		{"the folder of the key in a two-tier store", filepath.Join(two, "he", pdb, key), guid, 1, filepath.Join(two, "he", pdb, key, pdb), false},
		{"the second folder", filepath.Join(dir, "none") + ";" + flat, guid, 1, filepath.Join(flat, pdb), false},
		{"a store", "srv*" + one, guid, 1, filepath.Join(one, pdb, key, pdb), true},
		{"a store, another age", "srv*" + one, guid, 2, "", false},
		{"a two-tier store", "srv*" + two, guid, 1, filepath.Join(two, "he", pdb, key, pdb), true},
	} {
		path, found := findFile(t, c.search, pdb, c.guid, c.age)
		if c.symsrv && !found {
			t.Logf("%s: not found, as without symsrv.dll", c.name)
			continue
		}
		if found != (c.want != "") || found && !strings.EqualFold(path, c.want) {
			t.Errorf("%s: dbghelp found %v, %q; want %q", c.name, found, path, c.want)
		}
	}
}

// TestDbghelp lets dbghelp find PDBs in the trees that symdepot writes, and
// compares the keys of files with those that dbghelp computes.
func TestDbghelp(t *testing.T) {
	for _, p := range []*windows.LazyProc{symInitialize, symLoadModule, symGetModuleInfo, symSrvGetFileIndexes} {
		if err := p.Find(); err != nil {
			t.Skip(err)
		}
	}
	data, err := filepath.Abs(filepath.Join("..", "..", "testdata", "pdb"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	depot := filepath.Join(dir, "depot")
	run := func(args ...string) {
		t.Helper()
		if code, out, errs := commandtest.Symdepot(t, depot, args...); code != 0 {
			t.Fatalf("symdepot %s: exit code %d, %s%s; want 0", args, code, out, errs)
		}
	}
	// The program stands alone: beside its PDB, every debugger finds it.
	image := filepath.Join(dir, "bin", "hello-x64.exe")
	copyFile(t, filepath.Join(data, "hello-x64.exe"), image)
	run("add", filepath.Join(data, "hello-x64.pdb"), filepath.Join(data, "hello-x86.pdb"))
	flat, classic := filepath.Join(dir, "flat"), filepath.Join(dir, "classic")
	run("get", "hello-x64.pdb", "F9EFE0B6AE7500394C4C44205044422E1", "-o", filepath.Join(flat, "hello-x64.pdb"))
	run("symstore", "add", "/f", filepath.Join(data, "hello-x64.pdb"), "/s", filepath.Join(dir, "store"), "/t", "P")
	run("symstore", "chk", image, "/s", filepath.Join(dir, "store"), "/oc", classic)
	wrong := filepath.Join(dir, "wrong")
	copyFile(t, filepath.Join(data, "hello-x86.pdb"), filepath.Join(wrong, "hello-x64.pdb"))

	for _, c := range []struct {
		name, search, pdb string
	}{
		{"the folder that get writes", flat, filepath.Join(flat, "hello-x64.pdb")},
		{"behind a folder with another PDB of that name", wrong + ";" + flat, filepath.Join(flat, "hello-x64.pdb")},
		{"the classic tree that chk /oc writes", filepath.Join(classic, "symbols", "exe"), filepath.Join(classic, "symbols", "exe", "hello-x64.pdb")},
		{"no PDB", filepath.Join(dir, "none"), ""},
		{"another PDB of that name", wrong, ""},
	} {
		m, found := loadModule(t, c.search, image)
		loaded := windows.UTF16ToString(m.loadedPDB[:])
		if c.pdb == "" {
			if found || m.symType == symTypePDB && m.pdbUnmatched == 0 {
				t.Errorf("%s: dbghelp loaded %s, want nothing that matches", c.name, loaded)
			}
			continue
		}
		if m.symType != symTypePDB || m.pdbUnmatched != 0 || !found || !strings.EqualFold(filepath.Base(loaded), filepath.Base(c.pdb)) {
			t.Errorf("%s: symbols of type %d from %q, unmatched %d, function found %v; want those of %s", c.name, m.symType, loaded, m.pdbUnmatched, found, c.pdb)
		}
		if key := guidKey(m.guid) + fmt.Sprintf("%X", m.age); key != "F9EFE0B6AE7500394C4C44205044422E1" {
			t.Errorf("%s: dbghelp reads the key %s, want F9EFE0B6AE7500394C4C44205044422E1", c.name, key)
		}
	}

	// The keys under which symdepot stores files are those that dbghelp asks for.
	names, err := filepath.Glob(filepath.Join(data, "*"))
	if err != nil {
		t.Fatal(err)
	}
	images, _ := filepath.Glob(filepath.Join("..", "..", "testdata", "pe", "*"))
	compared := 0
	for _, name := range append(names, images...) {
		p, err := windows.UTF16PtrFromString(name)
		if err != nil {
			t.Fatal(err)
		}
		i := indexInfo{size: uint32(unsafe.Sizeof(indexInfo{}))}
		if ok, _, _ := symSrvGetFileIndexes.Call(uintptr(unsafe.Pointer(p)), uintptr(unsafe.Pointer(&i)), 0); ok == 0 {
			continue
		}
		key := fmt.Sprintf("%08X%x", i.stamp, i.bytes)
		if strings.EqualFold(filepath.Ext(name), ".pdb") {
			key = guidKey(i.guid) + fmt.Sprintf("%X", i.age)
		}
		_, out, errs := commandtest.Symdepot(t, depot, "identify", "--json", name)
		if !strings.Contains(strings.ToLower(out), strings.ToLower("/"+key+"/")) {
			t.Errorf("%s: dbghelp computes the key %s, want it among the paths that symdepot prints:\n%s%s", name, key, out, errs)
		}
		compared++
	}
	if compared < 6 {
		t.Errorf("%d files compared, want at least 6", compared)
	}
	if symtest.Wine() != "" {
		t.Log("Wine has no symsrv.dll: srv* paths are not tested")
	}
}

// guidKey spells a GUID as keys have it.
func guidKey(g windows.GUID) string {
	return strings.NewReplacer("{", "", "}", "", "-", "").Replace(strings.ToUpper(g.String()))
}

// copyFile copies a file into a folder that it makes.
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o755)
	}
	if err == nil {
		err = os.WriteFile(to, b, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
