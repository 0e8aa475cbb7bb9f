package layout

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/truncate"
	"github.com/symdepot/symdepot/symfile"
)

func id(t testing.TB, s string) debugid.ID {
	t.Helper()
	d, err := debugid.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// inputs are the objects that the vectors of testdata/sentry.tsv speak of, by
// name and file type.
func inputs(t testing.TB) map[string]map[string]symfile.Object {
	pe := func(code, name, dbg string) map[string]symfile.Object {
		p := id(t, dbg)
		debugName := strings.NewReplacer(".exe", ".pdb", ".DLL", ".PDB", ".dll", ".pdb").Replace(name)
		return map[string]symfile.Object{
			"pe":           {Kind: symfile.PE, Role: symfile.Executable, Name: name, CodeID: code, DebugID: p},
			"pdb":          {Kind: symfile.PDB, Role: symfile.Debug, Name: debugName, DebugID: p},
			"breakpad":     {Kind: symfile.Breakpad, Role: symfile.Symbols, Name: debugName, DebugID: p, Of: symfile.PE},
			"sourcebundle": {Kind: symfile.SourceBundle, Role: symfile.Sources, Name: debugName, DebugID: p, Of: symfile.PE},
		}
	}
	elf := func(build, name string) map[string]symfile.Object {
		b, err := debugid.ParseBuildID(build)
		if err != nil {
			t.Fatal(err)
		}
		d := b.DebugID(true)
		return map[string]symfile.Object{
			"elf_code":     {Kind: symfile.ELF, Role: symfile.Executable, Name: name, CodeID: build, BuildID: b, DebugID: d},
			"elf_debug":    {Kind: symfile.ELF, Role: symfile.Debug, Name: name, CodeID: build, BuildID: b, DebugID: d, DebugCompanion: true},
			"breakpad":     {Kind: symfile.Breakpad, Role: symfile.Symbols, Name: name, CodeID: build, DebugID: d, Of: symfile.ELF},
			"sourcebundle": {Kind: symfile.SourceBundle, Role: symfile.Sources, Name: name, CodeID: build, DebugID: d, Of: symfile.ELF},
		}
	}
	mach := func(uuid, name string) map[string]symfile.Object {
		d := id(t, uuid)
		return map[string]symfile.Object{
			"mach_code":    {Kind: symfile.MachO, Role: symfile.Executable, Name: name, CodeID: uuid, DebugID: d},
			"mach_debug":   {Kind: symfile.MachO, Role: symfile.Debug, Name: name, CodeID: uuid, DebugID: d, DebugCompanion: true},
			"breakpad":     {Kind: symfile.Breakpad, Role: symfile.Symbols, Name: name, DebugID: d, Of: symfile.MachO, CodeID: uuid},
			"sourcebundle": {Kind: symfile.SourceBundle, Role: symfile.Sources, Name: name, DebugID: d, Of: symfile.MachO, CodeID: uuid},
			"bcsymbolmap":  {Kind: symfile.BCSymbolMap, Role: symfile.BCSymbols, Name: name, DebugID: d},
			"uuidmap":      {Kind: symfile.UUIDMap, Role: symfile.UUIDs, Name: name, DebugID: d},
			"il2cpp":       {Kind: symfile.IL2CPP, Role: symfile.IL2CPPMap, Name: name, CodeID: uuid, DebugID: d, Of: symfile.MachO},
		}
	}
	wasm := func(raw, payload, name string) map[string]symfile.Object {
		d := debugid.BuildID(raw).DebugID(false)
		return map[string]symfile.Object{
			"wasm_code":    {Kind: symfile.WASM, Role: symfile.Executable, Name: name, CodeID: raw, BuildID: debugid.BuildID(payload), DebugID: d},
			"wasm_debug":   {Kind: symfile.WASM, Role: symfile.Debug, Name: name, CodeID: raw, BuildID: debugid.BuildID(payload), DebugID: d},
			"sourcebundle": {Kind: symfile.SourceBundle, Role: symfile.Sources, Name: name, CodeID: raw, DebugID: d, Of: symfile.WASM},
			"breakpad":     {Kind: symfile.Breakpad, Role: symfile.Symbols, Name: name, CodeID: raw, DebugID: d, Of: symfile.WASM},
		}
	}
	const crash = "3249d99d-0c40-4931-8610-f4e4fb0b6936-1"
	dot := pe("EFC9A199e000", "TimeZoneConverter.dll", "4e2ca887-825e-46f3-968f-25b41ae1b5f3-9e6d3fcc")
	dot["portablepdb"] = symfile.Object{Kind: symfile.PortablePDB, Role: symfile.Debug, Name: "TimeZoneConverter.pdb", DebugID: dot["pdb"].DebugID}
	dot["pdb"] = dot["portablepdb"]
	b := dot["sourcebundle"]
	b.Of = symfile.PortablePDB
	dot["sourcebundle"] = b
	p20 := map[string]symfile.Object{
		"pdb":      {Kind: symfile.PDB20, Role: symfile.Debug, Name: "calc.pdb", DebugID: debugid.PDB20(0x418E89C3, 1)},
		"breakpad": {Kind: symfile.Breakpad, Role: symfile.Symbols, Name: "calc.pdb", DebugID: debugid.PDB20(0x418E89C3, 1), Of: symfile.PE},
	}
	exe := pe("5AB380779000", "crash.exe", crash)
	bp := exe["breakpad"]
	bp.Name = "crash.exe"
	const uuid = "67e9247c814e392ba027dbde6748fcbf"
	return map[string]map[string]symfile.Object{
		"PE": pe("5AB380779000", "crash.exe", crash), "AGE": pe("00E4915Eae000", "Foo.DLL", "497b72f6-390a-44fc-878e-5a2d63b6cc4b-1a"),
		"DOT": dot, "P20": p20, "ONE": pe("5AB380779000", "a.exe", crash), "EXEDBG": {"breakpad": bp},
		"ELF": elf("dfb85de42daffd09640c8fe377d572de3e168920", "libm-2.23.so"), "E16": elf("001ba81f23966cf77e40bcbb0701cd34", "md5_build_id"),
		"SHORT": elf("ab", "x"), "MACHO": mach(uuid, "crash"), "FMK": mach(uuid, "Electron Framework"),
		"WASM": wasm(uuid, uuid, "demo.wasm"), "W17": wasm("10bda18fd85d4a4eb893022d6bfad846b1", "bda18fd85d4a4eb893022d6bfad846b1", "m.wasm"),
	}
}

// parseOnly are vectors that record a fault of the tool they were read from,
// or a form that nothing is stored in: they must parse, nobody prints them.
var parseOnly = map[string]string{
	"V008": "SSQP's owner prints stamps in upper case", "V010": "", "V026": "", "V027": "ages in upper case", "V028": "", "V040": "",
	"V032": "Breakpad cuts .PDB too", "V031": "Breakpad cuts .PDB too",
	"V038": "FFFFFFFF is the constant", "V039": "", "V044": "", "V045": "", "V047": "",
	"V053": "PDB 2.0 ids are eight digits", "V054": "", "V080": "", "V081": "",
	"V108": "one-byte ids", "V109": "", "V110": "", "V111": "", "V142": "not a UUID", "V143": "",
}

func rows(t *testing.T, file string) [][]string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out [][]string
	for line := range strings.Lines(string(b)) {
		out = append(out, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
	}
	return out
}

func matches(r Request, o symfile.Object) bool {
	return slices.ContainsFunc(r.Lookups, func(l symfile.Lookup) bool { return l.Finds(o) })
}

func TestSentryVectors(t *testing.T) {
	in := inputs(t)
	n := 0
	for _, row := range rows(t, "testdata/sentry.tsv") {
		num, obj, ft, name, casing := row[0], row[1], row[2], row[3], row[4]
		if row[5] == "-" {
			continue
		}
		lay, ok := ByName(name)
		if !ok {
			t.Fatalf("%s: no layout %s", num, name)
		}
		for i, p := range strings.Split(row[5], ";") {
			n++
			r, err := lay.Parse(p)
			if err != nil {
				t.Errorf("%s: Parse(%q): %v", num, p, err)
				continue
			}
			if _, err := Route(splitNonEmpty(p)); err != nil && len(splitNonEmpty(p)) > 1 {
				t.Errorf("%s: Route(%q): %v, want a request", num, p, err)
			}
			o, ok := in[obj][ft]
			if !ok || obj == "SHORT" {
				continue
			}
			if why, only := parseOnly[num]; only || casing != "default" {
				if num != "V053" && num != "V054" && !matches(r, o) {
					t.Errorf("%s (%s): %q does not find the object", num, why, p)
				}
				continue
			}
			if strings.HasSuffix(p, "_") {
				if r.Form != FormCabinet {
					t.Errorf("%s: %q is form %d, want a cabinet", num, p, r.Form)
				}
				continue
			}
			if !matches(r, o) {
				t.Errorf("%s: %q does not find the object: %+v among %+v", num, p, r.Lookups, o.Aliases())
			}
			// slashsymbols says only what the code id is; a debug file has none.
			if name == "slashsymbols" || name == "native" && ft == "sourcebundle" && i > 0 {
				continue
			}
			if name == "debuginfod" {
				p = "buildid/" + p // Sentry wants that word in the base URL
			}
			if got := lay.Paths(o); !slices.Contains(got, p) {
				t.Errorf("%s: Paths = %q, lack %q", num, got, p)
			}
		}
	}
	if n < 200 {
		t.Errorf("only %d vectors were read", n)
	}
}

// ssqpObject makes the object that an SSQP key names, as far as the key tells.
func ssqpObject(t *testing.T, p string) symfile.Object {
	s := strings.Split(p, "/")
	name, key := s[len(s)-1], s[1]
	o := symfile.Object{Name: name}
	switch {
	case strings.Contains(key, "coreclr-"):
		return symfile.Object{}
	case strings.HasPrefix(key, "elf-buildid-"):
		hex := strings.TrimPrefix(strings.TrimPrefix(key, "elf-buildid-"), "sym-")
		o.Kind, o.Role, o.CodeID, o.BuildID = symfile.ELF, symfile.Executable, hex, debugid.BuildID(hex)
		if strings.Contains(key, "-sym-") {
			o.Role, o.Name = symfile.Debug, "whatever.so.dbg"
		}
	case strings.HasPrefix(key, "mach-uuid-"):
		o.Kind, o.Role, o.CodeID = symfile.MachO, symfile.Executable, strings.TrimPrefix(strings.TrimPrefix(key, "mach-uuid-"), "sym-")
		if strings.Contains(key, "-sym-") {
			o.Role, o.Name = symfile.Debug, "x.dwarf"
		}
	case strings.HasPrefix(key, "sha1-"):
		o.Kind, o.Role, o.Hash = symfile.SHA1, symfile.Other, key[5:]
	case strings.HasPrefix(key, "r2rmap-v1-"):
		o.Kind, o.Role, o.Version, o.Hash = symfile.R2RMap, symfile.Other, 1, key[10:]
	case strings.HasSuffix(name, ".map"):
		o.Kind, o.Role, o.Hash = symfile.JSMap, symfile.Other, key
	case strings.HasSuffix(name, ".wasm"):
		o.Kind, o.Role, o.CodeID, o.BuildID = symfile.WASM, symfile.Executable, key, debugid.BuildID(key)
	case strings.HasSuffix(name, ".pdb"):
		o.Kind, o.Role, o.DebugID = symfile.PDB, symfile.Debug, id(t, key)
		if strings.HasSuffix(key, "FFFFFFFF") {
			o.Kind = symfile.PortablePDB
		} else if len(s) == 4 {
			o.Kind, o.Role = symfile.MSFZ, symfile.Compressed
		}
	default:
		pe, err := debugid.ParsePE(key)
		if err != nil {
			t.Fatal(err)
		}
		o.Kind, o.Role, o.CodeID = symfile.PE, symfile.Executable, pe.String()
	}
	return o
}

func TestSSQPVectors(t *testing.T) {
	for _, row := range rows(t, "testdata/ssqp.tsv") {
		num, p := row[0], row[1]
		r, err := SSQP.Parse(p)
		if err != nil {
			t.Errorf("Parse: %s, error %v; want no error", num, err)
			continue
		}
		o := ssqpObject(t, p)
		if o.Kind == symfile.KindUnknown {
			continue
		}
		if !matches(r, o) {
			t.Errorf("%s: %q does not find its object", num, p)
		}
		if got := SSQP.Paths(o); len(got) == 0 || got[0] != p {
			t.Errorf("%s: Paths = %q, want %q first", num, got, p)
		}
	}
}

func TestPadding(t *testing.T) {
	o := inputs(t)["E16"]["elf_code"]
	want := "md5_build_id/elf-buildid-001ba81f23966cf77e40bcbb0701cd3400000000/md5_build_id"
	if got := SSQP.Paths(o); got[0] != want {
		t.Errorf("ssqp prints %q first, want the id filled to 20 bytes", got[0])
	}
	for _, n := range []int{4, 32} {
		long := symfile.Object{Kind: symfile.ELF, Role: symfile.Executable, Name: "x", BuildID: debugid.NewBuildID(make([]byte, n))}
		if got := SSQP.Paths(long); len(got) != 1 {
			t.Errorf("an id of %d bytes has no filled form, but: %q", n, got)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	objects := []symfile.Object{
		{Kind: symfile.MSFZ, Role: symfile.Compressed, Name: "A.pdb", DebugID: id(t, "497b72f6390a44fc878e5a2d63b6cc4b1")},
		{Kind: symfile.PDB, Role: symfile.Debug, Name: "vc140.pdb", DebugID: id(t, "A54661FE22A74C50A4763D4F2F6EBCD12"), NoDBI: true, InfoAge: 2},
		{Kind: symfile.PDB, Role: symfile.Debug, Name: "aged.pdb", DebugID: id(t, "A54661FE22A74C50A4763D4F2F6EBCD11a"), InfoAge: 5},
		{Kind: symfile.PE, Role: symfile.Debug, Name: "app.exe.debug", CodeID: "5AB380779000", DebugID: id(t, "497b72f6390a44fc878e5a2d63b6cc4b1")},
		{Kind: symfile.DBG, Role: symfile.Debug, Name: "acpi.dbg", CodeID: "37CDB03962040"},
		{Kind: symfile.Breakpad, Role: symfile.Symbols, Name: "xul.dll", DebugID: id(t, "A54661FE22A74C50A4763D4F2F6EBCD12"), CodeID: "5AB380779000", CodeName: "xul.dll", Of: symfile.PE},
	}
	for _, m := range inputs(t) {
		for _, o := range m {
			objects = append(objects, o)
		}
	}
	for _, o := range objects {
		any := false
		for _, l := range All() {
			for _, p := range l.Paths(o) {
				any = true
				for what, parse := range map[string]func() (Request, error){
					"Parse":        func() (Request, error) { return l.Parse(p) },
					"lower Parse":  func() (Request, error) { return l.Parse(strings.ToLower(p)) },
					"upper Parse":  func() (Request, error) { return l.Parse(strings.ToUpper(p)) },
					"Route":        func() (Request, error) { return Route(splitNonEmpty(p)) },
					"Route prefix": func() (Request, error) { return Route(splitNonEmpty("/download/symbols/" + p)) },
				} {
					r, err := parse()
					if err != nil {
						t.Errorf("%s, %s, %q: parse: error %v, want no error", what, l.Name(), p, err)
					} else if !matches(r, o) {
						t.Errorf("%s(%s %q) does not find %s %s", what, l.Name(), p, o.Kind, o.Name)
					}
				}
			}
		}
		if !any {
			t.Errorf("%s %s has no path in any layout", o.Kind, o.Name)
		}
	}
}

func TestTypeOnlyPDB(t *testing.T) {
	o := symfile.Object{Kind: symfile.PDB, Role: symfile.Debug, Name: "vc140.pdb", DebugID: id(t, "A54661FE22A74C50A4763D4F2F6EBCD12"), NoDBI: true, InfoAge: 2}
	want := []string{"vc140.pdb/A54661FE22A74C50A4763D4F2F6EBCD1/vc140.pdb", "vc140.pdb/A54661FE22A74C50A4763D4F2F6EBCD12/vc140.pdb"}
	if got := SymStore.Paths(o); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestSymCacheRoute: a malformed SymCache path is not parsed as a different
// layout.
func TestSymCacheRoute(t *testing.T) {
	const g = "/0e7712be-af06-4421-884b-496f833c8ec1"
	for _, p := range []string{
		"v3.1/app.pdb" + g, "v3.1.0-beta/app.pdb" + g, "v3.300.0/app.pdb" + g, "3.1.0/app.pdb" + g, "v3.1.0/app.pdb" + g + "0",
		"v3.1.0/app.pdb/%7B" + g[1:], "v3.1.0/app.pdb" + g + "/-1", "v3.1.0/app.pdb" + g + "/0x1", "v3.1.0/app.pdb" + g + "/%201", "v3.1.0/app.pdb" + g + "/1/2", "v3.1.0/app.pdb",
		"v3.1.0/.." + g, "v3.1.0/%2e%2e" + g, "v3.1.0/..%5C..%5Cx" + g, "v3.1.0/a%2Fb.pdb" + g, "v3.1.0/a%5Cb.pdb" + g, "v3.1.0/a%3Ab.pdb" + g, "v3.1.0/%00" + g, "v3.1.0/.temp" + g, "v3.1.0/x." + g,
	} {
		segs, err := Segments("/" + p)
		if err != nil {
			t.Errorf("%s: Segments: error %v, want no error", p, err)
			continue
		}
		if r, err := Route(segs); err == nil {
			t.Errorf("%s asks for %+v, want an error", p, r)
		}
	}
	r, err := Route([]string{"V03.1.0", "Foo.pdb", g[1:], "1F"})
	if err != nil || r.Form != FormSymCache || len(r.Lookups) != 0 || r.SymCache.Version.Segment() != "v3.1.0" || r.SymCache.Hex.ID.Age != 31 {
		t.Errorf("an age in hex: %+v, %v; want a SymCache request of v3.1.0 with age 31", r, err)
	}
}

// TestRoute holds the dispatcher to its order, collisions first.
func TestRoute(t *testing.T) {
	const g1 = "497b72f6390a44fc878e5a2d63b6cc4b1"
	const b = "dfb85de42daffd09640c8fe377d572de3e168920"
	for _, c := range []struct{ path, layout, name, id string }{
		{"t/t.pdb/" + g1 + "/t.pdb", "symstore", "t.pdb", g1},
		{"t/" + g1 + "/t", "symstore", "t", g1},
		{"buildid/" + g1 + "/buildid", "symstore", "buildid", g1},
		{"symbols/" + g1 + "/symbols", "symstore", "symbols", g1},
		{"ab/" + g1 + "/msfz0/ab", "symstore", "ab", g1},
		{"v3.1.0/" + g1 + "/v3.1.0", "symstore", "v3.1.0", g1},
		{"v3.1.0/foo.pdb/497B72F6390A44FC878E5A2D63B6CC4B/1", "symcache", "foo.pdb", g1},
		{"symcache/v3.1.0/foo.pdb/497B72F6390A44FC878E5A2D63B6CC4B/1", "symcache", "foo.pdb", g1},
		{"symbols/v3.1.0/foo.pdb/%7B497b72f6-390a-44fc-878e-5a2d63b6cc4b%7D/01", "symcache", "foo.pdb", g1},
		{"symbols//V03.1.0/foo.pdb/497B72F6390A44FC878E5A2D63B6CC4B/", "symcache", "foo.pdb", g1},
		{"v3.1.0/foo.pdb/497B72F6390A44FC878E5A2D63B6CC4B/33", "symcache", "foo.pdb", g1[:32] + "21"}, // decimal
		{"buildid/" + strings.ToUpper(b) + "/debuginfo", "debuginfod", "", b},
		{"buildid/" + b + "/section/.debug_info", "debuginfod", "", b},
		{"download/symbols/foo.pdb/" + g1 + "/foo.pdb", "symstore", "foo.pdb", g1},
		{"try/foo.pdb/" + g1 + "/foo.sym", "breakpad", "foo.pdb", g1},
		{"foo.dll/" + g1 + "/foo.dll.sym", "breakpad", "foo.dll", g1},
		{"foo.dll/" + g1 + "/foo.sym", "breakpad", "foo.dll", g1},
		{"D:/build/x/foo.pdb/" + g1 + "/foo.sym", "breakpad", "foo.pdb", g1},
		{"df/" + b[2:], "gdb", "", b}, {".build-id/df/" + b[2:] + ".debug", "gdb", "", b},
		{"df/" + b[2:] + "/debuginfo", "unified", "", b}, {b + "/debuginfo", "debuginfod", "", b},
		{"497B/72F6/390A/44FC/878E/5A2D63B6CC4B.app", "lldb", "", g1[:32]},
		{"x/x.pdb/" + g1 + "/x.pd_", "symstore", "x.pdb", g1},
		{"x./x.pdb/" + g1 + "/file.ptr", "symstore", "x.pdb", g1},
		{"foo.exe/" + g1 + "/symbols", "slashsymbols", "foo.exe", g1},
		{"Foo+Bar.pdb/" + g1 + "/Foo+Bar.pdb", "symstore", "Foo+Bar.pdb", g1},
	} {
		segs, err := Segments("/" + c.path)
		if err != nil {
			t.Errorf("%s: Segments: error %v, want no error", c.path, err)
			continue
		}
		r, err := Route(segs)
		if err != nil {
			t.Errorf("%s: Route: error %v, want no error", c.path, err)
			continue
		}
		if r.Layout.Name() != c.layout || r.Name != c.name || r.Lookups[0].ID != c.id {
			t.Errorf("%s: %s %q %q, want %s %q %q", c.path, r.Layout.Name(), r.Name, r.Lookups[0].ID, c.layout, c.name, c.id)
		}
	}
}

func TestRouteRefuses(t *testing.T) {
	const g1 = "497b72f6390a44fc878e5a2d63b6cc4b1"
	for _, p := range []string{
		"a/b", "foo.pdb/" + g1 + "/bar.pdb", "foo.pdb/nothex/foo.pdb", "../" + g1 + "/..", "foo.pdb/" + g1 + "/foo.pdb/x",
		"xy/foo.pdb/" + g1 + "/foo.pdb", "buildid/abc/debuginfo", "buildid/ab/other", "buildid/" + strings.Repeat("ab", 65) + "/debuginfo",
		"000Admin/server.txt", "foo.pdb/" + g1 + "/refs.ptr", strings.Repeat("n", 256) + "/" + g1 + "/" + strings.Repeat("n", 256),
		"a\x00b/" + g1 + "/a\x00b", "one",
	} {
		if r, err := Route(splitNonEmpty(p)); err == nil {
			t.Errorf("%q is taken for %+v, want an error", p, r)
		}
	}
}

func TestSegments(t *testing.T) {
	for in, want := range map[string]string{
		"//a///b/": "a|b", "/a%20b/c%2Bd": "a b|c+d", "/foo.pdb%2Fabc%2ffoo.pdb": "foo.pdb|abc|foo.pdb",
		"/buildid/ab/section/%2Edebug%2Fx": "buildid|ab|section|.debug/x", "/a+b/c": "a+b|c",
	} {
		got, err := Segments(in)
		if err != nil || strings.Join(got, "|") != want {
			t.Errorf("%q: %q %v, want %q", in, got, err, want)
		}
	}
	for _, bad := range []string{"/%zz", "/" + strings.Repeat("a", 9000)} {
		if _, err := Segments(bad); err == nil {
			t.Errorf("%q is accepted, want an error", truncate.Text(bad))
		}
	}
}

func TestBucket(t *testing.T) {
	for name, want := range map[string]string{"crash.pdb": "cr", "libm-2.23.so": "li", "_.debug": "_", "x.pdb": "x", "a": "a", "ab": "ab", "größe": "gr", "日本.pdb": "日本", "..x": "_"} {
		if got := Bucket(name); got != want {
			t.Errorf("Bucket(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestHigherAgeAndCodeInfo(t *testing.T) {
	r, err := Route([]string{"foo.pdb", "497B72F6390A44FC878E5A2D63B6CC4B1A", "foo.pdb"})
	if err != nil || r.Age == nil || r.Age.Age != 26 || r.Age.GUID.Upper() != "497B72F6390A44FC878E5A2D63B6CC4B" {
		t.Errorf(`Route: %+v, error %v; want not nil, Age 26, GUID.Upper() "497B72F6390A44FC878E5A2D63B6CC4B"`, r.Age, err)
	}
	sym := symfile.Object{Kind: symfile.Breakpad, Role: symfile.Symbols, Name: "winpty.pdb", DebugID: id(t, "3198517245D844EDB92B943840F8C3D81"), CodeID: "69485E8C45000", CodeName: "winpty.dll", Of: symfile.PE}
	for _, p := range []string{"winpty.dll/69485E8C45000/winpty.sym", "winpty.dll/69485e8c00045000/winpty.dll.sym"} {
		r, err := Route(splitNonEmpty(p))
		if err != nil || !matches(r, sym) {
			t.Errorf("%s does not find the file by its code id: %+v %v", p, r, err)
		}
	}
	// An image must not answer for its absent PDB.
	exe := symfile.Object{Kind: symfile.PE, Role: symfile.Executable, Name: "winpty.dll", CodeID: "69485E8C45000", DebugID: sym.DebugID}
	r, _ = Route(splitNonEmpty("winpty.pdb/3198517245D844EDB92B943840F8C3D81/winpty.pdb"))
	if matches(r, exe) {
		t.Error("an image answers where its PDB was asked for")
	}
}

func TestRuntimeHelpers(t *testing.T) {
	rt := symfile.Object{Kind: symfile.PE, Name: "coreclr.dll", CodeID: "595EBCD5538000", Role: symfile.Executable}
	so := symfile.Object{Kind: symfile.ELF, Name: "libcoreclr.so", BuildID: "ef8f58a0b402d11c68f78342ef4fcc7d23798d4c", Role: symfile.Executable}
	for _, c := range []struct {
		rt   symfile.Object
		name string
		path string
	}{
		{rt, "mscordaccore.dll", "mscordaccore.dll/595EBCD5538000/mscordaccore.dll"},
		{rt, "mscordaccore_amd64_amd64_4.6.25505.00.dll", "mscordaccore_amd64_amd64_4.6.25505.00.dll/595EBCD5538000/mscordaccore_amd64_amd64_4.6.25505.00.dll"},
		{so, "libmscordaccore.so", "libmscordaccore.so/elf-buildid-coreclr-ef8f58a0b402d11c68f78342ef4fcc7d23798d4c/libmscordaccore.so"},
		{so, "sos.netcore.dll", "sos.netcore.dll/elf-buildid-coreclr-ef8f58a0b402d11c68f78342ef4fcc7d23798d4c/sos.netcore.dll"},
	} {
		r, err := SSQP.Parse(c.path)
		if err != nil {
			t.Fatal(err)
		}
		as := symfile.RuntimeHelpers(c.rt, symfile.Object{Name: c.name})
		if len(as) != 1 || !slices.ContainsFunc(r.Lookups, func(l symfile.Lookup) bool { return l.Matches(as[0]) }) {
			t.Errorf("%s: aliases %+v do not answer %+v", c.path, as, r.Lookups)
		}
	}
	if as := symfile.RuntimeHelpers(rt, symfile.Object{Name: "system.dll"}); as != nil {
		t.Errorf("an ordinary library got %+v, want none", as)
	}
}

func FuzzRoute(f *testing.F) {
	for _, s := range []string{"/foo.pdb/497b72f6390a44fc878e5a2d63b6cc4b1/foo.pdb", "/buildid/ab/section/%2Edebug", "/x./x.pdb/ab/x.pd_", "/v1.2.3/a/b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, p string) {
		segs, err := Segments(p)
		if err != nil {
			return
		}
		r, err := Route(segs)
		if err != nil {
			return
		}
		if len(r.Lookups) == 0 || len(r.Lookups) > 16 {
			t.Errorf("%q has %d lookups, want 1 to 16", p, len(r.Lookups))
		}
		if r.Name != "" && !symfile.ValidName(r.Name) {
			t.Errorf("%q lets the name %q through, want a valid name or none", p, r.Name)
		}
	})
}

func TestRouteAdmin(t *testing.T) {
	const g1 = "497B72F6390A44FC878E5A2D63B6CC4B1"
	for _, c := range []struct{ path, want string }{
		{"000Admin/lastid.txt", "000Admin/lastid.txt"},
		{"download/symbols/000admin/0000000001", "000admin/0000000001"},
		{"foo.pdb/" + g1 + "/refs.ptr", "foo.pdb/" + g1 + "/refs.ptr"},
		{"fo/foo.pdb/" + g1 + "/REFS.PTR", "foo.pdb/" + g1 + "/REFS.PTR"},
		{"000Admin/../x", ""}, {"000Admin/a/b", ""}, {"foo.pdb/nokey/refs.ptr", ""}, {"x/000Admin", ""}, {"../refs.ptr", ""},
	} {
		r, err := RouteAdmin(strings.Split(c.path, "/"))
		if c.want == "" && err == nil || c.want != "" && (err != nil || r.Part != c.want || r.Form != FormAdmin) {
			t.Errorf("RouteAdmin(%s): %+v, error %v; want %q (empty: an error)", c.path, r, err, c.want)
		}
	}
}

func TestCabinetName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"foo.pdb": "foo.pd_", "a": "_", "größe.dllé": "größe.dll_", "日本": "日_", "x\xff": "x_", "na/foo.exe": "na/foo.ex_",
	} {
		if got := CabinetName(name); got != want {
			t.Errorf("CabinetName(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestNumbersPrint(t *testing.T) {
	t.Parallel()
	got := fmt.Sprint([]any{FormFile, FormCabinet, FormGSYM, Form(200), NoRecords, SymsorterRecords, PackNone, PackZstd, TiersNone, TiersProbed, TiersTwo, symfile.MachIDs})
	if want := "[file cabinet gsym unknown none symsorter none zstd none probed two mach-uuid]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
