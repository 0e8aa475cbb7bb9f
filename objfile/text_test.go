package objfile

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/symfile"
)

func TestBreakpadFiles(t *testing.T) {
	const code40 = "ADAC45AA231BBA3143D7AF433767C61F31021C16"
	for _, tt := range []struct {
		in                          string
		name, codeName, code, build string
		of                          symfile.Kind
		arch, features              string
	}{
		{"MODULE windows x86_64 " + testGUID + "1 C:\\x\\a b.pdb\r\nINFO CODE_ID 5AB380779A00 D:\\y\\a b.exe\r\nFUNC 1 2 0 f\r\nSTACK WIN 4 1\r\n",
			"a b.pdb", "a b.exe", "5AB380779a00", "", symfile.PE, "x86_64", "debug unwind"},
		{"MODULE Linux x86_64 AA45ACAD1B2331BA43D7AF433767C61F0 prog\nINFO CODE_ID " + code40 + "\nPUBLIC 1 0 f\n",
			"prog", "", strings.ToLower(code40), strings.ToLower(code40), symfile.ELF, "x86_64", "symtab"},
		{"MODULE Android arm AA45ACAD1B2331BA43D7AF433767C61F0 libx.so\n", "libx.so", "", "", "", symfile.ELF, "arm", ""},
		{"MODULE mac arm64e " + testGUID + "0 App\n", "App", "", strings.ToLower(testGUID), "", symfile.MachO, "arm64e", ""},
		{"MODULE iOS unknown " + testGUID + "0 App\n", "App", "", strings.ToLower(testGUID), "", symfile.MachO, "", ""},
		{"MODULE Plan9 mips " + testGUID + "0 App\nINFO CODE_ID AB\n", "App", "", "ab", "", symfile.KindUnknown, "mips", ""},
		{"MODULE windows x86 " + testGUID + "1 a.pdb\nINFO CODE_ID not-hex\n", "a.pdb", "", "", "", symfile.PE, "x86", ""},
	} {
		o := mustIdentify(t, []byte(tt.in), "any name.txt")[0]
		if o.Kind != symfile.Breakpad || o.Role != symfile.Symbols || o.Name != tt.name || o.CodeName != tt.codeName || o.CodeID != tt.code ||
			string(o.BuildID) != tt.build || o.Of != tt.of || o.Arch != tt.arch || strings.Join(o.Features.Words(), " ") != tt.features {
			t.Errorf(`%.60q: got %+v, want Kind %v, Role %v, Name %v, CodeName %v, CodeID %v, BuildID %q, Of %v, Arch %v, strings.Join(o.Features.Words(), " ") %v`, tt.in, o, symfile.Breakpad, symfile.Symbols, tt.name, tt.codeName, tt.code, tt.build, tt.of, tt.arch, tt.features)
		}
	}
	for _, in := range []string{
		"MODULE Linux x86 nothex name\n", "MODULE Linux x86 " + testGUID + " name\n", "MODULE Linux x86 " + testGUID + "1 a/\n",
		"MODULE windows x86 " + testGUID + "1 a.pdb\nINFO CODE_ID 5AB380779000 x/..\n",
	} {
		if o, err := Identify(strings.NewReader(in), int64(len(in)), "a.sym", Options{}); !errors.Is(err, ErrBroken) {
			t.Errorf(`%q: Identify("a.sym"): %+v, error %v; want ErrBroken`, in, o, err)
		}
	}
}

// TestBreakpadFeaturesAcrossChunks puts each record across every boundary of
// the search.
func TestBreakpadFeaturesAcrossChunks(t *testing.T) {
	head := "MODULE Linux x86_64 " + testGUID + "0 a\n"
	for shift := range 24 {
		pad := strings.Repeat("x", scanChunk-len(head)-shift)
		in := head + pad + "\nFUNC 1 2 0 f\n" + strings.Repeat("y", scanChunk) + "\nPUBLIC 1 0 f\n" + strings.Repeat("z", 3*scanChunk+shift) + "\nSTACK CFI"
		in += " INIT\n"
		o := mustIdentify(t, []byte(in), "a.sym")[0]
		if got := strings.Join(o.Features.Words(), " "); got != "debug symtab unwind" {
			t.Fatalf(`shift %d: %s, want "debug symtab unwind"`, shift, got)
		}
	}
	// Records behind the budget are found at the file's end.
	big := head + "FUNC 1 2 0 f\n" + strings.Repeat("1000 10 3 0\n", 1<<20) + "PUBLIC 1 0 f\nSTACK CFI INIT 1\n"
	o := mustIdentify(t, []byte(big), "a.sym")[0]
	if got := strings.Join(o.Features.Words(), " "); got != "debug symtab unwind" {
		t.Errorf(`got %q, want "debug symtab unwind"`, got)
	}
}

// bundleManifest describes the manifest of a source bundle to build.
type bundleManifest struct {
	files  int
	tail   string // attributes behind the list of files
	stored bool
	last   int // files written behind the manifest
}

// bundle builds a source bundle as Sentry's tools do: offsets count from the
// file's start.
func bundle(t testing.TB, m bundleManifest) []byte {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("SYSB\x02\x00\x00\x00")
	w := zip.NewWriter(&b)
	w.SetOffset(8)
	add := func(name, contents string, method uint16) {
		f, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: method})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(f, contents)
	}
	var manifest strings.Builder
	manifest.WriteString(`{"files":{`)
	for i := range m.files {
		if i > 0 {
			manifest.WriteString(",")
		}
		path := fmt.Sprintf("files/src/%d.c", i)
		fmt.Fprintf(&manifest, `%q:{"type":"source","path":"/src/\"%d\\.c","headers":{"debug_id":"no"}}`, path, i)
		add(path, "int x;\n", zip.Deflate)
	}
	manifest.WriteString("}")
	if m.tail != "" {
		manifest.WriteString("," + m.tail)
	}
	manifest.WriteString("}")
	method := zip.Deflate
	if m.stored {
		method = zip.Store
	}
	add(manifestName, manifest.String(), method)
	for i := range m.last {
		add(fmt.Sprintf("late%d", i), "", zip.Store)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestSourceBundles(t *testing.T) {
	for _, tt := range []struct {
		tail           string
		name, id, code string
		of             symfile.Kind
		arch           string
	}{
		{`"arch":"x86_64","debug_id":"8fc0e236-7919-fb8f-4c4c-44205044422e-1","object_name":"hello64.pdb"`,
			"hello64.pdb", "8FC0E2367919FB8F4C4C44205044422E1", "", symfile.PE, "x86_64"},
		{`"arch":"x86_64","code_id":"adac45aa231bba3143d7af433767c61f31021c16","debug_id":"aa45acad-1b23-31ba-43d7-af433767c61f","object_name":"/usr/bin/prog-sha1"`,
			"prog-sha1", "AA45ACAD1B2331BA43D7AF433767C61F0", "adac45aa231bba3143d7af433767c61f31021c16", symfile.ELF, "x86_64"},
		{`"code_id":"67e9247c814e392ba027dbde6748fcbf","debug_id":"67e9247c-814e-392b-a027-dbde6748fcbf","object_name":"App"`,
			"App", "67E9247C814E392BA027DBDE6748FCBF0", "67e9247c814e392ba027dbde6748fcbf", symfile.MachO, ""},
		{`"code_id":"5ab380779000","debug_id":"3249d99d-0c40-4931-8610-f4e4fb0b6936-1","object_name":"C:\\x\\crash.exe"`,
			"crash.exe", testGUID + "1", "5AB380779000", symfile.PE, ""},
		{`"debug_id":"4e2ca887-825e-46f3-968f-25b41ae1b5f3-9e6d3fcc","object_name":"Lib.pdb"`, "Lib.pdb", portableID, "", symfile.PortablePDB, ""},
		{`"arch":"wasm32","code_id":"bda18fd85d4a4eb893022d6bfad846b1","debug_id":"bda18fd8-5d4a-4eb8-9302-2d6bfad846b1","object_name":"a.wasm"`,
			"a.wasm", "BDA18FD85D4A4EB893022D6BFAD846B10", "bda18fd85d4a4eb893022d6bfad846b1", symfile.WASM, "wasm32"},
		{`"debug_id":"4e2ca887-825e-46f3-968f-25b41ae1b5f3","object_name":"libx.so.1"`, "libx.so.1", "4E2CA887825E46F3968F25B41AE1B5F30", "", symfile.ELF, ""},
		{``, "my", "", "", symfile.KindUnknown, ""},
		{`"long":"` + strings.Repeat("x", 1<<20) + `","object_name":"a\u00f6\n","object_name":"\u0062","n":[1,{"debug_id":"x"}],"t":true`, "b", "", "", symfile.KindUnknown, ""},
	} {
		for _, stored := range []bool{false, true} {
			o := mustIdentify(t, bundle(t, bundleManifest{files: 2, tail: tt.tail, stored: stored}), "x/my.src.zip")[0]
			if o.Kind != symfile.SourceBundle || o.Role != symfile.Sources || o.Name != tt.name || o.DebugID.Breakpad() != tt.id || o.CodeID != tt.code ||
				o.Of != tt.of || o.Arch != tt.arch || !o.Features.Sources {
				t.Errorf("%.80s: got %+v, want Kind %v, Role %v, Name %v, DebugID.Breakpad() %v, CodeID %v, Of %v, Arch %v, Features.Sources true", tt.tail, o, symfile.SourceBundle, symfile.Sources, tt.name, tt.id, tt.code, tt.of, tt.arch)
			}
		}
	}
	// Many files before the ids, and some behind the manifest.
	o := mustIdentify(t, bundle(t, bundleManifest{files: 20000, last: 50, tail: `"object_name":"big.so"`}), "x")[0]
	if o.Name != "big.so" {
		t.Errorf(`got %+v, want Name "big.so"`, o)
	}
}

func TestSourceBundleHostile(t *testing.T) {
	good := bundle(t, bundleManifest{files: 1, tail: `"debug_id":"3249d99d-0c40-4931-8610-f4e4fb0b6936-1"`})
	end := bytes.LastIndex(good, []byte("PK\x05\x06"))
	dir := bytes.LastIndex(good[:end], []byte("PK\x01\x02"))
	edit := func(f func(b []byte)) []byte {
		b := bytes.Clone(good)
		f(b)
		return b
	}
	for name, b := range map[string][]byte{
		"only a magic":          []byte("SYSB"),
		"only a header":         []byte("SYSB\x02\x00\x00\x00"),
		"version 0":             edit(func(b []byte) { b[4] = 0 }),
		"version 3":             edit(func(b []byte) { b[4] = 3 }),
		"cut":                   good[:len(good)-30],
		"directory outside":     edit(func(b []byte) { le.PutUint32(b[end+16:], 0x7fffffff) }),
		"directory of 4 GiB":    edit(func(b []byte) { le.PutUint32(b[end+12:], 0xfffffffe) }),
		"zip64 without locator": edit(func(b []byte) { le.PutUint32(b[end+12:], 0xffffffff) }),
		"no manifest":           edit(func(b []byte) { b[dir+zipEntrySize] = 'x' }),
		"manifest of 4 GiB":     edit(func(b []byte) { le.PutUint32(b[dir+24:], 0xfffffff0) }),
		"packed to 4 GiB":       edit(func(b []byte) { le.PutUint32(b[dir+20:], 0xfffffff0) }),
		"manifest elsewhere":    edit(func(b []byte) { le.PutUint32(b[dir+42:], 8) }),
		"manifest outside":      edit(func(b []byte) { le.PutUint32(b[dir+42:], 0x7fffffff) }),
		"unknown method":        edit(func(b []byte) { b[dir+10] = 99 }),
		"manifest shorter":      edit(func(b []byte) { le.PutUint32(b[dir+24:], 10) }),
		"bad id":                bundle(t, bundleManifest{tail: `"debug_id":"zzz"`}),
		"no JSON":               bundle(t, bundleManifest{tail: `}}}`}),
		"name of no path":       bundle(t, bundleManifest{tail: `"object_name":"a\u0000b"`}),
		"two dots":              bundle(t, bundleManifest{tail: `"object_name":"x/.."`}),
	} {
		if o, err := Identify(bytes.NewReader(b), int64(len(b)), "a.src.zip", Options{}); !errors.Is(err, ErrBroken) {
			t.Errorf(`%s: Identify("a.src.zip"): %+v, error %v; want ErrBroken`, name, o, err)
		}
	}
	// A bomb: 20 MiB of one string take time, not memory.
	bomb := bundle(t, bundleManifest{tail: `"x":"` + strings.Repeat("a", 20<<20) + `","object_name":"a.so"`})
	alloc := allocated(func() {
		if o := mustIdentify(t, bomb, "x")[0]; o.Name != "a.so" {
			t.Errorf(`got %+v, want Name "a.so"`, o)
		}
	})
	if alloc > maxAlloc {
		t.Errorf("allocated %d bytes, want at most %d", alloc, maxAlloc)
	}
}

func uuidMap(original string) string {
	return `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0"><dict>
	<key>DBGArchitecture</key>
	<string>arm64</string>
	<key>DBGOriginalUUID</key>
	<string>` + original + `</string>
</dict></plist>`
}

func TestAppleMaps(t *testing.T) {
	const uuid, id = "3249D99D-0C40-4931-8610-F4E4FB0B6936", testGUID + "0"
	original := uuidMap("1FA81B00-9623-F76C-7E40-BCBB0701CD34")
	for _, tt := range []struct {
		path, in string
		kind     symfile.Kind
		role     symfile.Role
	}{
		{"x/" + uuid + ".bcsymbolmap", "BCSymbolMap Version: 2.0\n_f\n", symfile.BCSymbolMap, symfile.BCSymbols},
		{strings.ToLower(testGUID) + ".bcsymbolmap", "BCSymbolMap Version: 1.0\n", symfile.BCSymbolMap, symfile.BCSymbols},
		{"a.dSYM/Contents/Resources/" + uuid + ".plist", original, symfile.UUIDMap, symfile.UUIDs},
		{uuid + ".plist", "\xef\xbb\xbf\n" + original, symfile.UUIDMap, symfile.UUIDs},
	} {
		o := mustIdentify(t, []byte(tt.in), tt.path)[0]
		if o.Kind != tt.kind || o.Role != tt.role || o.DebugID.Breakpad() != id || o.Name != symfile.BaseName(tt.path) {
			t.Errorf("%s: got %+v, want Kind %v, Role %v, DebugID.Breakpad() %v, Name symfile.BaseName(tt.path)", tt.path, o, tt.kind, tt.role, id)
		}
	}
	for path, in := range map[string]string{
		"x.bcsymbolmap": "BCSymbolMap Version: 2.0\n", uuid + ".a": "BCSymbolMap Version: 9.0\n", "Info.plist": original,
		uuid + ".plist": uuidMap("nonsense"), uuid + ".b": original[:200] + "<<<", "00000000-0000-0000-0000-000000000000.plist": original,
	} {
		if o, err := Identify(strings.NewReader(in), int64(len(in)), path, Options{}); !errors.Is(err, ErrBroken) {
			t.Errorf("%s: Identify: %+v, error %v; want ErrBroken", path, o, err)
		}
	}
}

func TestPerfMaps(t *testing.T) {
	const sig = "734D59D6DE0E96AA3C77B3E2ED498097"
	o := mustIdentify(t, []byte("FFFFFFFF 00 "+sig+"\r\nFFFFFFFE 00 1\r\nFFFFFFFD 00 2\r\nFFFFFFFC 00 3\r\nFFFFFFFB 00 1\r\n00001234 0A [f](x)\r\n"), "x/system.ni.r2rmap")[0]
	if o.Kind != symfile.R2RMap || o.Role != symfile.Other || o.Name != "system.ni.r2rmap" || o.Version != 1 || o.Hash != strings.ToLower(sig) {
		t.Errorf(`got %+v, want Kind %v, Role %v, Name "system.ni.r2rmap", Version 1, Hash strings.ToLower(sig)`, o, symfile.R2RMap, symfile.Other)
	}
	for _, in := range []string{"FFFFFFFF 00 " + sig, "FFFFFFFF 00 " + sig + "\nFFFFFFFE 00 x\n", "FFFFFFFF 00 " + sig + "\n1000 10 f\nFFFFFFFE 00 1\n"} {
		if o, err := Identify(strings.NewReader(in), int64(len(in)), "a.r2rmap", Options{}); !errors.Is(err, ErrBroken) {
			t.Errorf(`%q: Identify("a.r2rmap"): %+v, error %v; want ErrBroken`, in, o, err)
		}
	}
}

// TestAs checks the kinds that a user must name.
func TestAs(t *testing.T) {
	script := func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("")), nil }
	for _, tt := range []struct {
		in   string
		opt  Options
		key  func(Object) string
		want string
	}{
		{"", Options{Kind: symfile.SHA1}, func(o Object) string { return o.Hash }, "da39a3ee5e6b4b0d3255bfef95601890afd80709"},
		{"MZ anything\n", Options{Kind: symfile.SHA1}, func(o Object) string { return o.Hash }, "0f3bfcab24f503fe4687a9845b084e612a5065ab"},
		{`{"version":3}`, Options{Kind: symfile.JSMap, Script: script}, func(o Object) string { return o.Hash }, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
		{"{}", Options{Kind: symfile.IL2CPP, ID: testGUID + "1"}, func(o Object) string { return o.DebugID.Breakpad() }, testGUID + "1"},
		{"\xef\xbb\xbf {}", Options{Kind: symfile.IL2CPP, ID: "3249d99d-0c40-4931-8610-f4e4fb0b6936"}, func(o Object) string { return o.DebugID.Breakpad() }, testGUID + "0"},
	} {
		o, err := Identify(strings.NewReader(tt.in), int64(len(tt.in)), "x/foo.cs", tt.opt)
		if err != nil {
			t.Errorf(`%v: Identify("x/foo.cs"): error %v, want no error`, tt.opt.Kind, err)
			continue
		}
		if got := tt.key(o[0]); got != tt.want || o[0].Kind != tt.opt.Kind || o[0].Name != "foo.cs" || o[0].Role == 0 || o[0].Size != int64(len(tt.in)) {
			t.Errorf(`%v: key: %s, %+v; want %v, Kind %v, Name "foo.cs", Role not 0, Size %v`, tt.opt.Kind, got, o[0], tt.want, tt.opt.Kind, int64(len(tt.in)))
		}
	}
	boom := errors.New("boom")
	for _, tt := range []struct {
		in, want string
		opt      Options
	}{
		{"x", "only as one of", Options{Kind: symfile.ELF}},
		{"", "empty", Options{Kind: symfile.ProGuard}},
		{"{}", "put the script beside it", Options{Kind: symfile.JSMap}},
		{"{}", "boom", Options{Kind: symfile.JSMap, Script: func() (io.ReadCloser, error) { return nil, boom }}},
		{"var x;", "not JSON", Options{Kind: symfile.JSMap, Script: script}},
		{"{}", "give the debug id", Options{Kind: symfile.IL2CPP}},
		{"{}", "not a valid id", Options{Kind: symfile.IL2CPP, ID: "x"}},
		{"{}", "which means none", Options{Kind: symfile.IL2CPP, ID: strings.Repeat("0", 33)}},
		{"xx", "not JSON", Options{Kind: symfile.IL2CPP, ID: testGUID + "1"}},
		{"no mapping\n", "no mapping", Options{Kind: symfile.ProGuard}},
	} {
		if o, err := Identify(strings.NewReader(tt.in), int64(len(tt.in)), "x", tt.opt); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf(`%v, %q: Identify("x"): %+v, error %v; want an error, one with %q`, tt.opt.Kind, tt.in, o, err, tt.want)
		}
	}
}

const (
	proguardVector     = "a17684c9-c283-5b51-8b37-cded476ed1c2"
	proguardLongVector = "a857a932-c89d-538d-8963-56cfe37cf0c2"
)

// TestProGuard checks the namespace and the version of the ids, which were
// computed with Python's uuid module.
func TestProGuard(t *testing.T) {
	in := "a.b.C -> a.a:\n    int x -> a\n"
	o, err := Identify(strings.NewReader(in), int64(len(in)), "mapping.txt", Options{Kind: symfile.ProGuard})
	if err != nil || o[0].DebugID.GUID.String() != proguardVector || o[0].Role != symfile.Mapping {
		t.Errorf(`Identify("mapping.txt"): %+v, error %v; want o[0].DebugID.GUID.String() %v, o[0].Role %v`, o, err, proguardVector, symfile.Mapping)
	}
	// Longer than the part that is looked at, too.
	long := in + strings.Repeat("# comment\n", 100000)
	o, err = Identify(strings.NewReader(long), int64(len(long)), "mapping.txt", Options{Kind: symfile.ProGuard})
	if err != nil || o[0].DebugID.GUID.String() != proguardLongVector {
		t.Errorf(`Identify("mapping.txt"): %+v, error %v; want o[0].DebugID.GUID.String() %v`, o, err, proguardLongVector)
	}
}

// TestJSMapKey checks that the script's bytes count, not the map's.
func TestJSMapKey(t *testing.T) {
	js := "console.log(1)\n"
	opt := Options{Kind: symfile.JSMap, Script: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(js)), nil }}
	o, err := Identify(strings.NewReader("{}"), 2, "main.js.map", opt)
	if want := fmt.Sprintf("%x", sha256.Sum256([]byte(js))); err != nil || o[0].Hash != want || o[0].Kind != symfile.JSMap {
		t.Errorf("got %+v, error %v; want o[0].Hash %v, o[0].Kind %v", o, err, want, symfile.JSMap)
	}
}

// TestIDsOnly: with Options.IDs an object has the same ids, and features that take
// reading are unknown.
func TestIDsOnly(t *testing.T) {
	t.Parallel()
	b := []byte("MODULE Linux x86_64 000102030405060708090A0B0C0D0E0F0 prog\nINFO CODE_ID 0302010005040706\nFUNC 1000 10 0 f\nPUBLIC 2000 0 g\n")
	want, err := Identify(bytes.NewReader(b), int64(len(b)), "prog.sym", Options{})
	if err != nil || !want[0].Features.Debug {
		t.Fatalf("identify: %+v, %v; want debug information", want, err)
	}
	got, err := Identify(bytes.NewReader(b), int64(len(b)), "prog.sym", Options{IDs: true})
	if err != nil || len(got) != 1 || got[0].Object != want[0].Object || got[0].Features != (Features{Unknown: true}) {
		t.Errorf("identify by ids: %+v, %v; want %+v without features", got, err, want[0].Object)
	}
}
