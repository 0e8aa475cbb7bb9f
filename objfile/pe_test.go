package objfile

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/symfile"
)

var le = binary.LittleEndian

// peDebug is one entry of a debug directory to build.
type peDebug struct {
	kind  uint32
	stamp uint32
	minor uint16
	data  []byte
}

// peImage builds small images. Everything lies in one section at address
// 0x1000 and file offset 0x400.
type peImage struct {
	machine  uint16
	stamp    uint32
	size     uint32
	flags    uint16
	pe32     bool
	noHeader bool // no optional header
	entries  []peDebug
	comFlags uint32 // with a COM descriptor if not zero
}

func (p peImage) bytes() []byte {
	const lfanew, secOff, secRVA = 0x80, 0x400, 0x1000
	dirAt, optSize, magic := 112, 240, uint16(0x20b)
	if p.pe32 {
		dirAt, optSize, magic = 96, 224, 0x10b
	}
	if p.noHeader {
		optSize = 0
	}
	if p.machine == 0 {
		p.machine = 0x8664
	}
	body := make([]byte, 64+len(p.entries)*28)
	le.PutUint32(body, 72)
	le.PutUint32(body[16:], p.comFlags)
	for i, e := range p.entries {
		h := body[64+28*i:]
		le.PutUint32(h[4:], e.stamp)
		le.PutUint16(h[10:], e.minor)
		le.PutUint32(h[12:], e.kind)
		le.PutUint32(h[16:], uint32(len(e.data)))
		le.PutUint32(h[20:], uint32(secRVA+len(body)))
		le.PutUint32(h[24:], uint32(secOff+len(body)))
		body = append(body, e.data...)
	}
	img := make([]byte, secOff, secOff+len(body))
	copy(img, "MZ")
	le.PutUint16(img[24:], 0x40)
	le.PutUint32(img[0x3c:], lfanew)
	copy(img[lfanew:], "PE\x00\x00")
	h := img[lfanew+4:]
	le.PutUint16(h, p.machine)
	le.PutUint16(h[2:], 1)
	le.PutUint32(h[4:], p.stamp)
	le.PutUint16(h[16:], uint16(optSize))
	le.PutUint16(h[18:], p.flags|2)
	sec := img[lfanew+24+optSize:]
	if !p.noHeader {
		opt := img[lfanew+24:]
		le.PutUint16(opt, magic)
		le.PutUint32(opt[32:], 0x1000)
		le.PutUint32(opt[56:], p.size)
		le.PutUint32(opt[60:], secOff)
		le.PutUint16(opt[68:], 3)
		le.PutUint32(opt[dirAt-4:], 16)
		if len(p.entries) > 0 {
			le.PutUint32(opt[dirAt+6*8:], secRVA+64)
			le.PutUint32(opt[dirAt+6*8+4:], uint32(28*len(p.entries)))
		}
		if p.comFlags != 0 {
			le.PutUint32(opt[dirAt+14*8:], secRVA)
			le.PutUint32(opt[dirAt+14*8+4:], 72)
		}
	}
	copy(sec, ".rdata")
	le.PutUint32(sec[8:], uint32(len(body)))
	le.PutUint32(sec[12:], secRVA)
	le.PutUint32(sec[16:], uint32(len(body)))
	le.PutUint32(sec[20:], secOff)
	return append(img, body...)
}

const testGUID = "3249D99D0C4049318610F4E4FB0B6936"

// rsds returns a CodeView record as the bytes of the layout reference's
// worked example, with the age and name given.
func rsds(age uint32, name string) []byte {
	b := []byte("RSDS\x9d\xd9\x49\x32\x40\x0c\x31\x49\x86\x10\xf4\xe4\xfb\x0b\x69\x36")
	b = le.AppendUint32(b, age)
	return append(append(b, name...), 0)
}

func nb10(signature, age uint32, name string) []byte {
	b := append([]byte("NB10"), 0, 0, 0, 0)
	b = le.AppendUint32(le.AppendUint32(b, signature), age)
	return append(append(b, name...), 0)
}

func misc(name string) []byte {
	b := make([]byte, 0x110)
	b[0] = 1
	le.PutUint32(b[4:], 0x110)
	copy(b[12:], name)
	return b
}

func mustIdentify(t testing.TB, b []byte, path string) []Object {
	t.Helper()
	o, err := Identify(bytes.NewReader(b), int64(len(b)), path, Options{})
	if err != nil {
		t.Fatalf("Identify: %s, error %v; want no error", path, err)
	}
	return o
}

// TestPEKeys holds the PE vectors of the SymStore reference, section 9.1: rows
// that genuine tools and public logs vouch for.
func TestPEKeys(t *testing.T) {
	for _, tt := range []struct {
		name        string
		stamp, size uint32
		key         string
	}{
		{"JobProcess.exe", 0x5A0BC0C6, 0xC83000, "5A0BC0C6c83000"},
		{"JobProcess.exe", 0x5A0CD563, 0xC85000, "5A0CD563c85000"},
		{"dummyprog.exe", 1444402430, 32768, "5617D4FE8000"},
		{"dummylib.dll", 0x5617D563, 0x8000, "5617D5638000"},
		{"a.dll", 1520452531, 512000, "5AA043B37d000"},
		{"b.dll", 77794544, 2048, "04A30CF0800"},
		{"u32_test.dll", 0xE914506E, 0xA000, "E914506Ea000"},
		{"foo.exe", 0x542D574E, 0xC2000, "542D574Ec2000"},
		{"symboltestapp2.dll", 0xDD52998F, 0x8000, "DD52998F8000"},
		{"system.io.dll", 0x595CD906, 0x31400, "595CD90631400"},
		{"system.componentmodel.eventbasedasync.dll", 0x9757F3A6, 0x36c00, "9757F3A636c00"},
		{"crash.exe", 0x5AB38077, 0x9000, "5AB380779000"},
		{"igdail32.dll", 0x5BA3F238, 0x2a000, "5BA3F2382a000"},
		{"chrome.exe", 0x54E3AECF, 0xD3000, "54E3AECFd3000"},
		{"combase.dll", 0xAFBF9EF6, 0x354000, "AFBF9EF6354000"},
		{"program.exe", 0x68555806, 0x45F000, "6855580645f000"},
		{"leading.exe", 0x00E4915E, 0xAE000, "00E4915Eae000"},
		{"zero.exe", 0, 0x3d000, "000000003d000"},
	} {
		for _, pe32 := range []bool{false, true} {
			o := mustIdentify(t, peImage{stamp: tt.stamp, size: tt.size, pe32: pe32}.bytes(), "C:\\x/"+tt.name)[0]
			if o.Kind != symfile.PE || o.CodeID != tt.key || o.Name != tt.name {
				t.Errorf("%v %q key %q, want %q", o.Kind, o.Name, o.CodeID, tt.key)
			}
		}
	}
}

func TestPEArchs(t *testing.T) {
	for machine, want := range map[uint16]string{
		0x14c: "x86", 0x8664: "x86_64", 0xaa64: "arm64", 0x1c4: "arm", 0x200: "ia64", 0x166: "mips", 0x5064: "riscv64",
		0x8664 ^ 0x7b79: "x86_64", 0xaa64 ^ 0x4644: "arm64", 0x1234: "",
	} {
		if o := mustIdentify(t, peImage{machine: machine, size: 1}.bytes(), "a.dll")[0]; o.Arch != want {
			t.Errorf("machine %#x is %q, want %q", machine, o.Arch, want)
		}
	}
}

// TestPEDebugDirectory checks ids and wanted files against every sort of
// record.
func TestPEDebugDirectory(t *testing.T) {
	guid, err := debugid.ParseGUID(testGUID)
	if err != nil {
		t.Fatal(err)
	}
	pdb := func(name string, age uint32) symfile.Object {
		return symfile.Object{Kind: symfile.PDB, Role: symfile.Debug, Name: name, DebugID: debugid.ID{GUID: guid, Age: age}}
	}
	portable := func(name string, stamp uint32) symfile.Object {
		o := pdb(name, stamp)
		o.Kind = symfile.PortablePDB
		return o
	}
	cv := func(data []byte) peDebug { return peDebug{kind: 2, stamp: 7, data: data} }
	dotnet := func(stamp uint32, name string) peDebug {
		return peDebug{kind: 2, stamp: stamp, minor: portableMinor, data: rsds(1, name)}
	}
	for _, tt := range []struct {
		name  string
		img   peImage
		id    string
		wants []symfile.Object
	}{
		{"none", peImage{}, "", nil},
		{"RSDS", peImage{entries: []peDebug{cv(rsds(1, `D:\a\crash.pdb`))}}, testGUID + "1", []symfile.Object{pdb("crash.pdb", 1)}},
		{"age is hexadecimal", peImage{entries: []peDebug{cv(rsds(26, "crash.pdb"))}}, testGUID + "1a", []symfile.Object{pdb("crash.pdb", 26)}},
		{"Unix path", peImage{entries: []peDebug{cv(rsds(1, "/_/artifacts/x.pdb"))}}, testGUID + "1", []symfile.Object{pdb("x.pdb", 1)}},
		{"mixed slashes", peImage{entries: []peDebug{cv(rsds(1, `C:\a/b\\Größe 日本.pdb`))}}, testGUID + "1", []symfile.Object{pdb("Größe 日本.pdb", 1)}},
		{"Latin-1", peImage{entries: []peDebug{cv(rsds(1, "C:\\Gr\xf6\xdfe.pdb"))}}, testGUID + "1", []symfile.Object{pdb("Größe.pdb", 1)}},
		{"empty name", peImage{entries: []peDebug{cv(rsds(1, ""))}}, testGUID + "1", nil},
		{"name that no path can have", peImage{entries: []peDebug{cv(rsds(1, `C:\..`)), cv(rsds(1, "a\nb.pdb")), cv(rsds(1, "NUL.pdb")), cv(rsds(1, strings.Repeat("n", 10000)))}}, testGUID + "1", nil},
		{"NB10", peImage{entries: []peDebug{cv(nb10(0x3417712B, 3, `d:\wince\arp.pdb`))}}, "3417712B3",
			[]symfile.Object{{Kind: symfile.PDB20, Role: symfile.Debug, Name: "arp.pdb", DebugID: debugid.PDB20(0x3417712B, 3)}}},
		{"portable", peImage{comFlags: 1, entries: []peDebug{dotnet(0xa1346931, "/_/x/mscorlib.pdb"), {kind: 19, data: []byte("SHA256\x00abc")}, {kind: 16, data: []byte{1}}}},
			testGUID + "a1346931", []symfile.Object{portable("mscorlib.pdb", 0xa1346931)}},
		{"native and IL", peImage{entries: []peDebug{cv(rsds(2, "x.ni.pdb")), dotnet(0x9e6d3fcc, "x.pdb"), cv(rsds(2, "x.ni.pdb"))}}, testGUID + "2",
			[]symfile.Object{pdb("x.ni.pdb", 2), portable("x.pdb", 0x9e6d3fcc)}},
		{"DBG", peImage{stamp: 0x3B7DFE73, size: 0xf000, entries: []peDebug{{kind: 4, data: misc(`dll\jobexec.dbg`)}}}, "",
			[]symfile.Object{{Kind: symfile.DBG, Role: symfile.Debug, Name: "jobexec.dbg", CodeID: "3B7DFE73f000"}}},
		{"DBG, upper case", peImage{stamp: 1, size: 2, entries: []peDebug{{kind: 4, data: misc("mfc40u_opt.DBG")}}}, "",
			[]symfile.Object{{Kind: symfile.DBG, Role: symfile.Debug, Name: "mfc40u_opt.DBG", CodeID: "000000012"}}},
		{"stripped, image's name", peImage{stamp: 1, size: 2, flags: coffStripped, entries: []peDebug{{kind: 4, data: misc("x.dll")}}}, "",
			[]symfile.Object{{Kind: symfile.DBG, Role: symfile.Debug, Name: "x.dbg", CodeID: "000000012"}}},
		{"not stripped, image's name", peImage{entries: []peDebug{{kind: 4, data: misc(`d:\wince\arp.dll`)}}}, "", nil},
		{"perf map", peImage{entries: []peDebug{{kind: 21, data: append(append([]byte("R2RM"), 0x73, 0x4d, 0x59, 0xd6, 0xde, 0x0e, 0x96, 0xaa, 0x3c, 0x77, 0xb3, 0xe2, 0xed, 0x49, 0x80, 0x97, 1, 0, 0, 0),
			"system.componentmodel.eventbasedasync.ni.r2rmap\x00"...)}}}, "",
			[]symfile.Object{{Kind: symfile.R2RMap, Role: symfile.Other, Name: "system.componentmodel.eventbasedasync.ni.r2rmap", Version: 1, Hash: "734d59d6de0e96aa3c77b3e2ed498097"}}},
		{"records too short", peImage{entries: []peDebug{cv([]byte("RSDS")), cv([]byte("NB10xxxx")), {kind: 21, data: []byte("R2RM")}, {kind: 4, data: []byte{1}}}}, "", nil},
		{"zero GUID", peImage{entries: []peDebug{cv(append([]byte("RSDS"), make([]byte, 20)...))}}, "", nil},
	} {
		o := mustIdentify(t, tt.img.bytes(), "a.dll")[0]
		if got := o.DebugID.Breakpad(); got != tt.id {
			t.Errorf("%s: debug id %q, want %q", tt.name, got, tt.id)
		}
		if d := cmp.Diff(tt.wants, o.PDBs); d != "" {
			t.Errorf("%s: wants: %s", tt.name, d)
		}
	}
}

func TestPEMain(t *testing.T) {
	for _, tt := range []struct {
		name string
		img  peImage
		main bool
		code string
	}{
		{"program", peImage{size: 1}, true, "000000001"},
		{"library", peImage{size: 1, flags: coffDLL}, false, "000000001"},
		{"managed program", peImage{size: 1, comFlags: 1}, false, "000000001"},
		{"mixed program", peImage{size: 1, comFlags: 2}, true, "000000001"},
		{"no optional header", peImage{noHeader: true, stamp: 5}, true, ""},
		{"stamp and size zero", peImage{}, true, ""},
	} {
		o := mustIdentify(t, tt.img.bytes(), "a.exe")[0]
		if o.Main != tt.main || o.CodeID != tt.code {
			t.Errorf("%s: main %v, code id %q; want %v and %q", tt.name, o.Main, o.CodeID, tt.main, tt.code)
		}
	}
}

// TestPEFiles checks images that real linkers made.
func TestPEFiles(t *testing.T) {
	const exe, both, debug = symfile.Executable, symfile.Executable | symfile.Debug, symfile.Debug
	for _, tt := range []struct {
		file, arch, code, id, want string
		role                       symfile.Role
		main                       bool
		features                   string
	}{
		{"x64.exe", "x86_64", "6B01389A3000", "1A5555050CA84E5F4C4C44205044422E1", "Größe 日本.pdb", exe, true, ""},
		{"arm64.exe", "arm64", "E914506E3000", "360FF284201066A94C4C44205044422E1", "arm64.pdb", exe, true, ""},
		{"x86.exe", "x86", "00000ABC3000", "527C290F32A1C9764C4C44205044422E1", "x86.pdb", exe, true, ""},
		{"buildid.exe", "x86_64", "FCD6A14C3000", "FCD6A14CC6D5CE254C4C44205044422E1", "", exe, true, ""},
		{"Mixed.DLL", "x86_64", "48F5DABB3000", "9B340AA93402FA264C4C44205044422E1", "Mixed Case.PDB", exe, false, "symtab"},
		{"mingw.exe", "x86_64", "00000000d000", "44ADD8FDA5554291234E6CFDA238260D1", "", both, true, "debug symtab unwind"},
		{"mingw-stripped.exe", "x86_64", "6B0141F07000", "44ADD8FDA5554291234E6CFDA238260D1", "", exe, true, "unwind"},
		{"mingw32.exe", "x86", "00000000c000", "7B227777D1A4D2B1C0905CCC16959B181", "", both, true, "debug symtab unwind"},
		{"mingw32-release.exe", "x86", "000000006000", "8078086ED29F93DE099F81C1B9F8AADD1", "", exe, true, "unwind"},
		{"mingw.debug", "x86_64", "6B0141F0d000", "44ADD8FDA5554291234E6CFDA238260D1", "", debug, false, "debug symtab unwind"},
	} {
		objects, err := identifyFile(t, filepath.Join("../testdata/pe", tt.file), Options{})
		if err != nil {
			t.Error(err)
			continue
		}
		o, want := objects[0], ""
		if len(o.PDBs) > 0 {
			want = o.PDBs[0].Name
		}
		if o.Arch != tt.arch || o.CodeID != tt.code || o.DebugID.Breakpad() != tt.id || want != tt.want || o.Role != tt.role || o.Main != tt.main ||
			strings.Join(o.Features.Words(), " ") != tt.features || (o.DebugSize > 0) != (o.Role&debug != 0) || o.Name != tt.file || o.ResourceOnly {
			t.Errorf("%s: %+v, want %+v", tt.file, o, tt)
		}
	}
	objects, err := identifyFile(t, "../testdata/pe/resources.dll", Options{})
	if err != nil || !objects[0].ResourceOnly || objects[0].CodeID != "5A0BC0C62000" {
		t.Errorf("resources.dll: %+v, %v; want resources only, code id 5A0BC0C62000", objects, err)
	}
}

// portablePDB builds the smallest portable PDB with the id of the layout
// reference's vector I27.
func portablePDB(padding int) []byte {
	b := []byte("BSJB\x01\x00\x01\x00\x00\x00\x00\x00\x0c\x00\x00\x00PDB v1.0\x00\x00\x00\x00\x00\x00\x01\x00")
	b = le.AppendUint32(b, uint32(len(b)+16))
	b = le.AppendUint32(b, uint32(32+padding))
	b = append(b, "#Pdb\x00\x00\x00\x00"...)
	b = append(b, 0x87, 0xa8, 0x2c, 0x4e, 0x5e, 0x82, 0xf3, 0x46, 0x96, 0x8f, 0x25, 0xb4, 0x1a, 0xe1, 0xb5, 0xf3, 0xcc, 0x3f, 0x6d, 0x9e)
	return append(b, make([]byte, 12+padding)...)
}

const portableID = "4E2CA887825E46F3968F25B41AE1B5F39e6d3fcc"

// mpdb packs a portable PDB as images embed it.
func mpdb(t testing.TB, pdb []byte, claim int) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write(pdb)
	_ = w.Close()
	return append(le.AppendUint32([]byte("MPDB"), uint32(claim)), b.Bytes()...)
}

func TestPEEmbeddedPDB(t *testing.T) {
	small := portablePDB(0)
	packed := mpdb(t, small, len(small))
	img := peImage{comFlags: 1, entries: []peDebug{
		{kind: 2, stamp: 0x9e6d3fcc, minor: portableMinor, data: rsds(1, `C:\x\Lib.pdb`)}, {kind: 17, data: packed},
	}}.bytes()
	objects := mustIdentify(t, img, "Lib.dll")
	if len(objects) != 2 {
		t.Fatalf("%d objects, want 2", len(objects))
	}
	o := objects[1]
	if o.Kind != symfile.PortablePDB || o.Name != "Lib.pdb" || o.DebugID.Breakpad() != portableID || o.Size != int64(len(small)) || o.Role != symfile.Debug {
		t.Errorf("embedded PDB: got %+v, want kind portablepdb, role debug, name Lib.pdb, debug id %s, size %d", o, portableID, len(small))
	}
	if !bytes.Equal(img[o.Offset:o.Offset+o.Deflated], packed[8:]) {
		t.Errorf("bytes at %d+%d are not the packed PDB", o.Offset, o.Deflated)
	}

	// Without a CodeView record the name comes from the image.
	o = mustIdentify(t, peImage{entries: []peDebug{{kind: 17, data: packed}}}.bytes(), "My.Lib.dll")[1]
	if o.Name != "My.Lib.pdb" || o.DebugID.Breakpad() != portableID {
		t.Errorf(`got %+v, want Name "My.Lib.pdb", DebugID.Breakpad() %v`, o, portableID)
	}

	// One that is too large to look into keeps the id of the record.
	large := portablePDB(maxInflated)
	o = mustIdentify(t, peImage{entries: []peDebug{
		{kind: 2, stamp: 0x9e6d3fcc, minor: portableMinor, data: rsds(1, "Lib.pdb")}, {kind: 17, data: mpdb(t, large, len(large))},
	}}.bytes(), "Lib.dll")[1]
	if o.DebugID.Breakpad() != testGUID+"9e6d3fcc" || !o.Features.Unknown || o.Size != int64(len(large)) {
		t.Errorf("got %+v, want DebugID.Breakpad() %v, Features.Unknown true, Size %v", o, testGUID+"9e6d3fcc", int64(len(large)))
	}

	for name, data := range map[string][]byte{
		"no header":            []byte("MPDB"),
		"no data":              packed[:8],
		"claim of 4 GiB":       mpdb(t, small, 0xffffffff),
		"claim too small":      mpdb(t, small, len(small)-1),
		"claim too large":      mpdb(t, small, len(small)+1),
		"not a portable PDB":   mpdb(t, []byte("hello"), 5),
		"not deflate":          append([]byte("MPDB\x60\x00\x00\x00"), "\xff\xff\xff\xff\xff"...),
		"cut":                  packed[:len(packed)-4],
		"large and no PDB":     mpdb(t, make([]byte, maxInflated+1), maxInflated+1),
		"only the magic of it": mpdb(t, []byte("BSJB"), 4),
	} {
		b := peImage{entries: []peDebug{{kind: 17, data: data}}}.bytes()
		if o, err := Identify(bytes.NewReader(b), int64(len(b)), "a.dll", Options{}); !errors.Is(err, ErrBroken) {
			t.Errorf(`%s: Identify("a.dll"): %+v, error %v; want ErrBroken`, name, o, err)
		}
	}
}

// TestPEHostile checks that contradictory headers are rejected with the reason,
// and that other kinds of programs are named.
func TestPEHostile(t *testing.T) {
	good := peImage{size: 0x2000, entries: []peDebug{{kind: 2, data: rsds(1, "a.pdb")}}}.bytes()
	edit := func(f func([]byte) []byte) []byte { return f(bytes.Clone(good)) }
	for _, tt := range []struct {
		name, want string
		b          []byte
		broken     bool
	}{
		{"only MZ", "DOS", []byte("MZ"), false},
		{"DOS", "DOS", append([]byte("MZ"), make([]byte, 200)...), false},
		{"NE", "NE", edit(func(b []byte) []byte { copy(b[0x80:], "NE"); return b }), false},
		{"LE", "LE", edit(func(b []byte) []byte { copy(b[0x80:], "LE"); return b }), false},
		{"LX", "LX", edit(func(b []byte) []byte { copy(b[0x80:], "LX"); return b }), false},
		{"PE without zeros", "DOS", edit(func(b []byte) []byte { copy(b[0x80:], "PEx"); return b }), false},
		{"header outside", "outside", edit(func(b []byte) []byte { le.PutUint32(b[0x3c:], 0x7fff0); return b }), true},
		{"header cut", "outside", good[:0x90], true},
		{"optional header cut", "outside", good[:0xa0], true},
		{"section cut", ".rdata", good[:len(good)-1], true},
		{"65535 sections", "65535", edit(func(b []byte) []byte { le.PutUint16(b[0x86:], 65535); return b }), true},
		{"8000 sections in 1 KiB", "outside", edit(func(b []byte) []byte { le.PutUint16(b[0x86:], 8000); return b }), true},
		{"section of 4 GiB", ".rdata", edit(func(b []byte) []byte { le.PutUint32(b[0x80+24+240+16:], 0xffffffff); return b }), true},
	} {
		_, err := Identify(bytes.NewReader(tt.b), int64(len(tt.b)), "a.exe", Options{})
		if err == nil || !strings.Contains(err.Error(), tt.want) || errors.Is(err, ErrBroken) != tt.broken || errors.Is(err, ErrNotSymbolFile) == tt.broken {
			t.Errorf(`%s: Identify("a.exe"): error %v, want an error, one with %q, errors.Is(err, ErrBroken) %v, errors.Is(err, ErrNotSymbolFile) not %v`, tt.name, err, tt.want, tt.broken, tt.broken)
		}
	}
	// Records and directories that lie elsewhere count as stripped.
	for name, b := range map[string][]byte{
		"record outside":     edit(func(b []byte) []byte { le.PutUint32(b[0x440+16:], 0xfffffff0); return b }),
		"directory outside":  edit(func(b []byte) []byte { le.PutUint32(b[0x98+112+48:], 0xfffff000); return b }),
		"directory of 4 GiB": edit(func(b []byte) []byte { le.PutUint32(b[0x98+112+52:], 0xffffffff); return b }),
	} {
		o := mustIdentify(t, b, "a.exe")[0]
		if o.CodeID != "000000002000" {
			t.Errorf(`%s: got %+v, want CodeID "000000002000"`, name, o)
		}
	}
}

// TestPESweep cuts real images at every length and flips every bit of their
// headers; nothing may panic, and errors must say which of the two they are.
func TestPESweep(t *testing.T) {
	for _, file := range []string{"mingw.exe", "Mixed.DLL"} {
		b, err := os.ReadFile(filepath.Join("../testdata/pe", file))
		if err != nil {
			t.Fatal(err)
		}
		sweep(t, file, b, 1200)
	}
}

// sweep identifies all beginnings of b, and b with every bit of its first n
// bytes flipped.
func sweep(t *testing.T, path string, b []byte, n int) {
	t.Helper()
	try := func(b []byte) error {
		_, err := Identify(bytes.NewReader(b), int64(len(b)), path, Options{})
		if err != nil && !errors.Is(err, ErrNotSymbolFile) && !errors.Is(err, ErrBroken) {
			t.Fatalf("%s: %v is of neither class", path, err)
		}
		return err
	}
	for i := range b {
		_ = try(b[:i])
	}
	c := bytes.Clone(b)
	for i := range min(n, len(b)) {
		for bit := range 8 {
			c[i] ^= 1 << bit
			_ = try(c)
			c[i] ^= 1 << bit
		}
	}
}
