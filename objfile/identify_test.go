package objfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/symfile"
)

// TestNotSymbolFile checks that the errors say which kind of file was skipped.
func TestNotSymbolFile(t *testing.T) {
	object, err := os.ReadFile("../testdata/pe/x64.exe")
	if err != nil {
		t.Fatal(err)
	}
	coff := append(le.AppendUint32([]byte("\x64\x86\x01\x00\x00\x00\x00\x00"), 100), make([]byte, 200)...)
	for _, tt := range []struct{ in, want string }{
		{"", "empty file"},
		{"PK\x03\x04xxxx", "a ZIP archive"},
		{"!<arch>\nfoo.o/", "a static library (ar)"},
		{"!<arch>\ndebian-binary   ", "a Debian package"},
		{"MSCF\x00\x00\x00\x00", "a cabinet"},
		{"hello\nworld\n", "a text file"},
		{"h\xc3\xb6flich", "a text file"},
		{` {"version":3}`, "a JSON file"},
		{"#!/bin/sh\n", "a script"},
		{"<?xml version=\"1.0\"?><a/>", "an XML file"},
		{"\xca\xfe\xba\xbe\x00\x00\x00\x34", "a Java class"},
		{"\xca\xfe\xba\xbe\x00\x0f\x42\x40", "a Java class"}, // a fat header of a million slices reads as one
		{string(coff), "a COFF object"},
		{"\x00\x00\xff\xff\x01\x00\x64\x86" + string(make([]byte, 48)), "a COFF object"},
		{string(make([]byte, 5000)), "nothing but zero bytes"},
		{"\x01\x02\x03\x04", "a format that has no symbols or is not known"},
		{"MDMP\x93\xa7", "a minidump"},
		{string(make([]byte, 257)) + "ustar\x0000" + string(make([]byte, 300)), "a tar archive"},
		{"DIARY\n", "a text file"},
		{"DI" + strings.Repeat("e Katze\n", 20), "a text file"},
		{"MODULE foo\n  implicit none\n", "a text file whose first line is no MODULE record"},
		{"BCSymbolMap\n", "a text file whose first line is no BCSymbolMap record"},
		{"<plist><dict><key>CFBundleName</key><string>x</string></dict></plist>", "a property list that maps no UUID"},
		{"FFFFFFFF 00 nohexadecimaldigits\n", "a text file"},
		{string(object[0x40:]), "a format that has no symbols or is not known"},
	} {
		_, err := Identify(strings.NewReader(tt.in), int64(len(tt.in)), "x", Options{})
		if !errors.Is(err, ErrNotSymbolFile) || errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.20q: %v, want %q", tt.in, err, tt.want)
		}
	}
	// A character cut at the end of what is looked at does not make a file binary.
	long := strings.Repeat("x", headSize-1) + "öööö"
	if _, err := Identify(strings.NewReader(long), int64(len(long)), "x", Options{}); !strings.Contains(err.Error(), "a text file") {
		t.Error(err)
	}
}

// TestNames checks that a file with a name that no client can request is
// unusable, wherever the name comes from.
func TestNames(t *testing.T) {
	img := peImage{size: 1}.bytes()
	for path, want := range map[string]string{
		"a.dll": "a.dll", `C:\x\b.dll`: "b.dll", "x/y/a b.dll": "a b.dll", `x/y\Größe.dll`: "Größe.dll", "x/a.dll/": "a.dll", "": "",
	} {
		if got := mustIdentify(t, img, path)[0].Name; got != want {
			t.Errorf("%q: name %q, want %q", path, got, want)
		}
	}
	for _, path := range []string{"..", "x/..", ".", "a\x00b.dll", "a\nb.dll", "con", "x/NUL.dll", "Lpt1.exe", "com9.tar.gz", "aux .dll", strings.Repeat("n", 10000)} {
		if o, err := Identify(bytes.NewReader(img), int64(len(img)), path, Options{}); !errors.Is(err, ErrBroken) || len(err.Error()) > 500 {
			t.Errorf("%.40q: Identify: %v, error %v; want ErrBroken, Error() of length at most 500", path, o, err)
		}
	}
	for _, name := range []string{"..", "NUL.pdb", strings.Repeat("n", 10000), "a\x01b"} {
		sym := "MODULE windows x86_64 " + testGUID + "1 " + name + "\n"
		if o, err := Identify(strings.NewReader(sym), int64(len(sym)), "a.sym", Options{}); !errors.Is(err, ErrBroken) {
			t.Errorf(`%.40q: Identify("a.sym"): %v, error %v; want ErrBroken`, name, o, err)
		}
	}
}

// failing fails at an offset, as a disk with a bad sector does.
type failing struct {
	io.ReaderAt
	at  int64
	err error
}

func (f failing) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > f.at {
		return 0, f.err
	}
	return f.ReaderAt.ReadAt(p, off)
}

// TestReadFailure checks that a failing disk is not taken for a broken file,
// at whatever read it fails.
func TestReadFailure(t *testing.T) {
	boom := errors.New("boom")
	for path, b := range samples(t) {
		for at := int64(0); at < int64(len(b)); at += 1 + at/16 {
			_, err := Identify(failing{bytes.NewReader(b), at, boom}, int64(len(b)), path, Options{})
			if err != nil && !errors.Is(err, boom) {
				t.Errorf("%s, failure at %d: %v, want this failure or success", path, at, err)
			}
		}
	}
	// A file that became shorter is no broken file either: it changed.
	b := samples(t)["a.dll"]
	_, err := Identify(bytes.NewReader(b[:100]), int64(len(b)), "a.dll", Options{})
	if !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, ErrBroken) {
		t.Error(err)
	}
}

// samples returns a small valid file of each kind that this half of the
// package knows, by path.
func samples(t testing.TB) map[string][]byte {
	t.Helper()
	pdb := portablePDB(0)
	const uuid = "3249D99D-0C40-4931-8610-F4E4FB0B6936"
	m := map[string][]byte{
		"a.dll": peImage{stamp: 1, size: 2, comFlags: 1, entries: []peDebug{
			{kind: 2, stamp: 3, minor: portableMinor, data: rsds(1, "a.pdb")}, {kind: 4, data: misc("a.dbg")}, {kind: 17, data: mpdb(t, pdb, len(pdb))}}}.bytes(),
		"a.dbg":                                 dbgImage{stamp: 1, size: 2, entries: []peDebug{{kind: 2, data: nb10(1, 2, "a.pdb")}}}.bytes(),
		"a.sym":                                 []byte("MODULE windows x86_64 " + testGUID + "1 a.pdb\nINFO CODE_ID 5AB380779000 a.exe\nFUNC 1 2 0 f\nPUBLIC 3 0 g\nSTACK CFI INIT 1 2\n"),
		"a.src.zip":                             bundle(t, bundleManifest{files: 3, tail: `"arch":"x86_64","debug_id":"3249d99d-0c40-4931-8610-f4e4fb0b6936-1","object_name":"a.pdb"`}),
		"a.ni.r2rmap":                           []byte("FFFFFFFF 00 734D59D6DE0E96AA3C77B3E2ED498097\nFFFFFFFE 00 1\nFFFFFFFD 00 1\n00001000 10 f\n"),
		uuid + ".bcsymbolmap":                   []byte("BCSymbolMap Version: 2.0\n_a\n_b\n"),
		uuid + ".plist":                         []byte(uuidMap("1FA81B00-9623-F76C-7E40-BCBB0701CD34")),
		"a.pdb":                                 pdb,
		symCachePath("a.pdb/" + testGUID + "1"): []byte("opaque"),
	}
	for _, f := range []string{"pdb/hello-x64.pdb", "pe/mingw.exe"} {
		b, err := os.ReadFile(filepath.Join("../testdata", f))
		if err != nil {
			t.Fatal(err)
		}
		m[filepath.Base(f)] = b
	}
	return m
}

func symCachePath(folders string) string {
	name, _, _ := strings.Cut(folders, "/")
	return "cache/" + folders + "/" + name + "-v3.1.0.symcache"
}

// TestSweepAll cuts and bends a file of each kind.
func TestSweepAll(t *testing.T) {
	for path, b := range samples(t) {
		if len(b) < 4000 {
			sweep(t, path, b, 600)
		}
	}
}

// TestTruncated checks that no kind with sizes in it is taken for whole when
// its end is missing.
func TestTruncated(t *testing.T) {
	all := samples(t)
	for _, path := range []string{"a.dll", "a.dbg", "a.src.zip", "a.pdb", "hello-x64.pdb", "mingw.exe"} {
		b := all[path]
		cut := len(b) - 1
		if path == "mingw.exe" {
			cut = 0x1400 // strings and symbols at the end may be gone in a stripped image
		}
		if o, err := Identify(bytes.NewReader(b[:cut]), int64(cut), path, Options{}); !errors.Is(err, ErrBroken) {
			t.Errorf("%s cut to %d of %d: %v, %v; want ErrBroken", path, cut, len(b), o, err)
		}
	}
}

// sparse is a file of a given head and any size, zero elsewhere.
type sparse struct {
	head []byte
	read int64
}

func (s *sparse) ReadAt(p []byte, off int64) (int, error) {
	s.read += int64(len(p))
	clear(p)
	if off < int64(len(s.head)) {
		copy(p, s.head[off:])
	}
	return len(p), nil
}

// TestBudget checks the bytes read of huge files that begin like each kind.
func TestBudget(t *testing.T) {
	const size = 5 << 30
	all := samples(t)
	all["endless.sym"] = []byte("MODULE Linux x86_64 " + testGUID + "0 a\n" + strings.Repeat("INFO X y\n", 1<<20))
	bigPE := peImage{size: 1}.bytes()
	binary.LittleEndian.PutUint16(bigPE[0x86:], maxPESections)
	all["sections.exe"] = bigPE
	for path, b := range all {
		s := &sparse{head: b}
		var objects []Object
		var err error
		alloc := allocated(func() { objects, err = Identify(s, size, path, Options{}) })
		if s.read > IDBudget+FeatureBudget {
			t.Errorf("%s: read %d bytes: %v, %v; want at most %v", path, s.read, objects, err, IDBudget+FeatureBudget)
		}
		if alloc > maxAlloc {
			t.Errorf("%s: allocated %d bytes: %v, want at most %v", path, alloc, err, maxAlloc)
		}
	}
}

// TestUnknownFeatures checks that a file whose records are beyond the budget
// has its ids and reports unknown features.
func TestUnknownFeatures(t *testing.T) {
	o, err := Identify(&sparse{head: []byte("MODULE Linux x86_64 " + testGUID + "0 a\nFUNC 1 2 0 f\n")}, 1<<30, "a.sym", Options{})
	if err != nil || !o[0].Features.Unknown || !o[0].Features.Debug || o[0].DebugID.Breakpad() != testGUID+"0" {
		t.Errorf(`Identify("a.sym"): %+v, error %v; want o[0].Features.Unknown true, o[0].Features.Debug true, o[0].DebugID.Breakpad() %v`, o, err, testGUID+"0")
	}
}

func TestIdentifySize(t *testing.T) {
	if _, err := Identify(strings.NewReader(""), -1, "a", Options{}); err == nil {
		t.Error("a file of -1 bytes is accepted")
	}
}

// TestSymCache follows the layouts of a client's cache folder.
func TestSymCache(t *testing.T) {
	const id = "90E6CD6C673057E64C4C44205044422E"
	for _, tt := range []struct{ path, name, id, err string }{
		{"c/chrome_child.dll.pdb/" + id + "1/chrome_child.dll.pdb-v3.1.0.symcache", "chrome_child.dll.pdb", id + "1", ""},
		{`C:\SymCache\Foo.pdb\` + strings.ToLower(id) + `21\foo.pdb-V3.10.2-beta-1.SYMCACHE`, "Foo.pdb", id + "21", ""},
		{"a.pdb/" + id + "1/a.pdb-v3.1.0.symcache", "a.pdb", id + "1", ""},
		{"a.pdb/" + id + "1/b.pdb-v3.1.0.symcache", "", "", "different PDB"},
		{"a.pdb/" + id + "/a.pdb-v3.1.0.symcache", "", "", "not a GUID with age"},
		{"a.pdb/" + id + "123456789/a.pdb-v3.1.0.symcache", "", "", "not a GUID with age"},
		{"a.pdb/418E89C31/a.pdb-v3.1.0.symcache", "", "", "not a GUID with age"},
		{"a.pdb/" + strings.Repeat("0", 33) + "/a.pdb-v3.1.0.symcache", "", "", "not a GUID with age"},
		{id + "1/a.pdb-v3.1.0.symcache", "", "", "outside of its folders"},
		{"a.pdb-v3.1.0.symcache", "", "", "outside of its folders"},
		{"a.pdb/" + id + "1/a.pdb.symcache", "", "", "does not end in a version"},
		{"a.pdb/" + id + "1/.symcache", "", "", "hidden"},
		{"a.pdb/" + id + "1/a.pdb-v3.300.0.symcache", "", "", "not a SymCache version"},
		{"a.pdb/" + id + "1/a.pdb-v3.1.0.negativesymcache", "", "", "could not make"},
		{"a.pdb/" + id + "1/a.pdb-v3.1.0.symcache.pending", "", "", "not finished"},
		{"chrome.dll-" + strings.ToLower(id) + "1v2.symcache", "", "", "version 1 or 2"},
		{"chrome.exe-54e3aecf000d3000v1.symcache", "", "", "version 1 or 2"},
	} {
		o, err := Identify(strings.NewReader("opaque"), 6, tt.path, Options{})
		if tt.err != "" {
			if !errors.Is(err, ErrNotSymbolFile) || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: got error %v, want ErrNotSymbolFile, one with %q", tt.path, err, tt.err)
			}
			continue
		}
		if err != nil || o[0].Kind != symfile.SymCache || o[0].Name != tt.name || o[0].DebugID.Breakpad() != tt.id || o[0].Role != symfile.SymCacheFile {
			t.Errorf("%s: got %+v, error %v; want o[0].Kind %v, o[0].Name %v, o[0].DebugID.Breakpad() %v, o[0].Role %v", tt.path, o, err, symfile.SymCache, tt.name, tt.id, symfile.SymCacheFile)
		}
	}
	for _, magic := range []string{"SYMC\x07\x00\x00\x00", "CMYS\x00\x00\x00\x07"} {
		_, err := Identify(strings.NewReader(magic), 8, "c/a.pdb/"+id+"1/a.pdb-v3.1.0.symcache", Options{})
		if !errors.Is(err, ErrNotSymbolFile) || !strings.Contains(err.Error(), "Sentry") {
			t.Errorf(`%q: Identify(8): error %v, want ErrNotSymbolFile, one with "Sentry"`, magic, err)
		}
	}
}

// dbgImage builds a .DBG file.
type dbgImage struct {
	stamp, size uint32
	names       int // bytes of exported names
	entries     []peDebug
}

func (d dbgImage) bytes() []byte {
	b := make([]byte, 48+40+d.names+28*len(d.entries))
	copy(b, "DI")
	le.PutUint16(b[4:], 0x14c)
	le.PutUint32(b[8:], d.stamp)
	le.PutUint32(b[20:], d.size)
	le.PutUint32(b[24:], 1)
	le.PutUint32(b[28:], uint32(d.names))
	le.PutUint32(b[32:], uint32(28*len(d.entries)))
	for i, e := range d.entries {
		h := b[48+40+d.names+28*i:]
		le.PutUint32(h[12:], e.kind)
		le.PutUint32(h[16:], uint32(len(e.data)))
		le.PutUint32(h[24:], uint32(len(b)))
		b = append(b, e.data...)
	}
	return b
}

// TestDBG holds the DBG vectors of the SymStore reference, section 9.2, in
// today's casing of keys.
func TestDBG(t *testing.T) {
	for _, tt := range []struct {
		name        string
		stamp, size uint32
		key         string
	}{
		{"acpi.dbg", 0x37CDB039, 0x62040, "37CDB03962040"}, {"canon800.dbg", 0x35D9FD51, 0xB000, "35D9FD51b000"},
		{"certcrpt.dbg", 0x352BF049, 0x11000, "352BF04911000"}, {"dbghelp.dbg", 0x38039FF4, 0x39000, "38039FF439000"},
	} {
		o := mustIdentify(t, dbgImage{stamp: tt.stamp, size: tt.size}.bytes(), tt.name)[0]
		if o.Kind != symfile.DBG || o.Role != symfile.Debug || o.CodeID != tt.key || o.Arch != "x86" || o.Name != tt.name {
			t.Errorf(`got %+v, want Kind %v, Role %v, CodeID %v, Arch "x86", Name %v`, o, symfile.DBG, symfile.Debug, tt.key, tt.name)
		}
	}
	o := mustIdentify(t, dbgImage{size: 1, names: 20, entries: []peDebug{
		{kind: 1, data: []byte("coff")}, {kind: 3, data: make([]byte, 16)}, {kind: 2, data: []byte("NB09xxxxxxxx")}, {kind: 2, data: nb10(0x37A8F40E, 2, "msvcrt.pdb")},
	}}.bytes(), "a.dbg")[0]
	if got := fmt.Sprint(o.Features.Words()); got != "[debug symtab unwind]" || o.DebugSize != 12 {
		t.Errorf(`got %s, %+v; want "[debug symtab unwind]", DebugSize 12`, got, o)
	}
	if len(o.PDBs) != 1 || o.PDBs[0].Kind != symfile.PDB20 || symfile.Fold(o.PDBs[0].DebugID.Breakpad()) != "37a8f40e2" {
		t.Errorf("wants %+v", o.PDBs)
	}
	good := dbgImage{size: 1, entries: []peDebug{{kind: 2, data: nb10(1, 2, "a.pdb")}}}.bytes()
	for name, edit := range map[string]func(b []byte){
		"sections":         func(b []byte) { le.PutUint32(b[24:], 0xffffffff) },
		"names":            func(b []byte) { le.PutUint32(b[28:], 0xffffffff) },
		"directory":        func(b []byte) { le.PutUint32(b[32:], 0xffffffff) },
		"directory uneven": func(b []byte) { le.PutUint32(b[32:], 29) },
		"record outside":   func(b []byte) { le.PutUint32(b[88+16:], 0xffffffff) },
	} {
		b := bytes.Clone(good)
		edit(b)
		if _, err := Identify(bytes.NewReader(b), int64(len(b)), "a.dbg", Options{}); !errors.Is(err, ErrBroken) {
			t.Errorf(`%s: Identify("a.dbg"): error %v, want ErrBroken`, name, err)
		}
	}
}

// TestPDBFiles checks the containers of Microsoft's debug information against
// the images that were linked with them.
func TestPDBFiles(t *testing.T) {
	for _, arch := range []string{"x64", "x86", "arm64"} {
		image, err := identifyFile(t, "../testdata/pdb/hello-"+arch+".exe", Options{})
		if err != nil {
			t.Fatal(err)
		}
		pdb, err := identifyFile(t, "../testdata/pdb/hello-"+arch+".pdb", Options{})
		if err != nil {
			t.Fatal(err)
		}
		p, w := pdb[0], image[0].PDBs[0]
		if p.Kind != symfile.PDB || p.Role != symfile.Debug || p.DebugID != w.DebugID || p.Name != w.Name || p.Arch != image[0].Arch || p.InfoAge != 1 || p.NoDBI {
			t.Errorf("%+v is not what %+v asks for", p, w)
		}
		if p.Features.PDB != "private" || !p.Features.Debug || !p.Features.Symtab || p.Features.Sources != (arch == "x64") || p.Features.Unwind != (arch == "x86") {
			t.Errorf(`%s: got %v, %q, %v, %v, %v, %v; want "private", true, true, (arch == "x64"), (arch == "x86")`, arch, p.Features.Words(), p.Features.PDB, p.Features.Debug, p.Features.Symtab, p.Features.Sources, p.Features.Unwind)
		}
	}
	o := mustIdentify(t, portablePDB(0), "x/Lib.pdb")[0]
	if o.Kind != symfile.PortablePDB || o.DebugID.Breakpad() != portableID || o.Name != "Lib.pdb" || o.Role != symfile.Debug {
		t.Errorf(`got %+v, want Kind %v, DebugID.Breakpad() %v, Name "Lib.pdb", Role %v`, o, symfile.PortablePDB, portableID, symfile.Debug)
	}
}

// TestIdentifyFile: what is wrong with a file on disk is said with its path.
func TestIdentifyFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	image, err := os.ReadFile("../testdata/pe/x64.exe")
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, tt := range []struct {
		path string
		want error
	}{
		{dir, ErrNotSymbolFile},
		{write("notes.txt", []byte("hello")), ErrNotSymbolFile},
		{write("cut.exe", image[:200]), ErrBroken},
		{filepath.Join(dir, "none.exe"), fs.ErrNotExist},
	} {
		list, err := IdentifyFile(tt.path, Options{})
		if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.path) || list != nil {
			t.Errorf("%s: %v, %v; want %v with the path", tt.path, list, err, tt.want)
		}
	}
	path := write("whole.exe", image)
	list, err := IdentifyFile(path, Options{})
	if err != nil || len(list) != 1 || list[0].Name != "whole.exe" || list[0].Kind != symfile.PE {
		t.Errorf("%v, %v; want one PE image called whole.exe", list, err)
	}
	if _, err := IdentifyFile(path, Options{Kind: symfile.SHA1}); err != nil {
		t.Errorf("of the kind sha1: %v", err)
	}
}
