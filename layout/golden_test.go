package layout

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/debugid"
)

var update = flag.Bool("update", false, "write the golden files of this package anew")

// golden compares text with testdata/golden/name and shows the first lines that
// differ. The golden files freeze paths and probe orders: clients and servers
// that nobody here wrote depend on them.
func golden(t *testing.T, name string, text []byte) {
	t.Helper()
	file := filepath.Join("testdata", "golden", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, text, 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(want, text) {
		return
	}
	g, w := strings.Split(string(text), "\n"), strings.Split(string(want), "\n")
	shown := 0
	for i := range max(len(g), len(w)) {
		var a, b string
		if i < len(g) {
			a = g[i]
		}
		if i < len(w) {
			b = w[i]
		}
		if a == b {
			continue
		}
		t.Errorf("%s:%d:\n got %s\nwant %s", file, i+1, a, b)
		if shown++; shown == 5 {
			break
		}
	}
	t.Errorf("%s differs: %d lines, want %d; go test -update writes it anew, for a change that is meant", file, len(g), len(w))
}

type labelled struct {
	label string
	o     Object
}

// goldenObjects has every kind in every role that occurs, and ids at the edges:
// short, of the widths of MD5 and SHA-1, longer than any hash; ages of 0, of
// two digits and with the top bit set; names with blanks, plus signs, dots and
// letters outside of ASCII.
func goldenObjects(t testing.TB) []labelled {
	const (
		guid = "497b72f6390a44fc878e5a2d63b6cc4b"
		sha  = "dfb85de42daffd09640c8fe377d572de3e168920"
		md5  = "001ba81f23966cf77e40bcbb0701cd34"
	)
	zeros := md5[:16] + "0000000000000000"
	var list []labelled
	add := func(label string, o Object) { list = append(list, labelled{label, o}) }

	add("pe", Object{Kind: PE, Role: Executable, Name: "Foo.DLL", CodeID: "00E4915Eae000", DebugID: id(t, guid+"1a")})
	add("pe without debug id", Object{Kind: PE, Role: Executable, Name: "foo.sys", CodeID: "5AB380779000"})
	add("pe short size", Object{Kind: PE, Role: Executable, Name: "x.exe", CodeID: "000000011"})
	add("pe program", Object{Kind: PE, Role: Executable, Name: "App.exe", CodeID: "5AB380779000", DebugID: id(t, guid+"1"), Main: true})
	add("pe with DWARF", Object{Kind: PE, Role: Executable | Debug, Name: "mingw.exe", CodeID: "5AB380779000", DebugID: id(t, guid+"1")})
	add("pe debug only", Object{Kind: PE, Role: Debug, Name: "app.exe.debug", CodeID: "5AB380779000", DebugID: id(t, guid+"1")})
	add("pe blanks", Object{Kind: PE, Role: Executable, Name: "my app+1.exe", CodeID: "5AB380779000"})
	add("pe beyond ASCII", Object{Kind: PE, Role: Executable, Name: "größe.dllé", CodeID: "5AB380779000"})
	add("dbg", Object{Kind: DBG, Role: Debug, Name: "acpi.dbg", CodeID: "37CDB03962040"})
	add("pdb", Object{Kind: PDB, Role: Debug, Name: "Foo.pdb", DebugID: id(t, guid+"1a")})
	add("pdb upper", Object{Kind: PDB, Role: Debug, Name: "FOO.PDB", DebugID: id(t, guid+"1")})
	add("pdb info age", Object{Kind: PDB, Role: Debug, Name: "aged.pdb", DebugID: id(t, guid+"1"), InfoAge: 5})
	add("pdb type only", Object{Kind: PDB, Role: Debug, Name: "vc140.pdb", DebugID: id(t, guid+"2"), NoDBI: true, InfoAge: 2})
	add("pdb age 0", Object{Kind: PDB, Role: Debug, Name: "zero.pdb", DebugID: id(t, guid+"0")})
	add("pdb age max", Object{Kind: PDB, Role: Debug, Name: "max.pdb", DebugID: id(t, guid+"ffffffff")})
	add("pdb japanese", Object{Kind: PDB, Role: Debug, Name: "日本.pdb", DebugID: id(t, guid+"1")})
	add("pdb2", Object{Kind: PDB2, Role: Debug, Name: "calc.pdb", DebugID: debugid.PDB20(0x418E89C3, 1)})
	add("msfz", Object{Kind: MSFZ, Role: Compressed, Name: "A.pdb", DebugID: id(t, guid+"1")})
	add("portable pdb", Object{Kind: PortablePDB, Role: Debug, Name: "Lib.pdb", DebugID: id(t, guid+"9e6d3fcc")})
	for _, e := range []struct{ label, id string }{{"sha1", sha}, {"md5", md5}, {"zeros", zeros}, {"8 bytes", sha[:16]}, {"2 bytes", "abcd"}, {"1 byte", "ab"}, {"32 bytes", sha + sha[:24]}, {"64 bytes", strings.Repeat(md5, 4)}} {
		b, err := debugid.ParseBuildID(e.id)
		if err != nil {
			t.Fatal(err)
		}
		d := b.DebugID(true)
		add("elf "+e.label, Object{Kind: ELF, Role: Executable, Name: "libm-2.23.so", CodeID: e.id, BuildID: b, DebugID: d})
		add("elf debug "+e.label, Object{Kind: ELF, Role: Debug, Name: "libm-2.23.so.debug", CodeID: e.id, BuildID: b, DebugID: d, DebugCompanion: true})
	}
	sb := debugid.BuildID(sha)
	add("elf unstripped", Object{Kind: ELF, Role: Executable | Debug, Name: "prog", CodeID: sha, BuildID: sb, DebugID: sb.DebugID(true), Main: true})
	add("elf static", Object{Kind: ELF, Role: Executable, Name: "busybox", CodeID: sha, BuildID: sb, DebugID: sb.DebugID(true), DebugCompanion: true})
	add("elf relocatable", Object{Kind: ELF, Role: Debug, Name: "mod.o", CodeID: sha, BuildID: sb, DebugID: sb.DebugID(true), DebugCompanion: true})
	add("elf without build-id", Object{Kind: ELF, Role: Executable, Name: "old.so", DebugID: id(t, guid+"0")})
	add("elf dotnet", Object{Kind: ELF, Role: Executable, Name: "dotnet", CodeID: sha, BuildID: sb, DebugID: sb.DebugID(true)})
	md := id(t, guid)
	add("mach-o", Object{Kind: MachO, Role: Executable, Name: "App", CodeID: guid, DebugID: md})
	add("mach-o dylib", Object{Kind: MachO, Role: Executable, Name: "libfoo.dylib", CodeID: guid, DebugID: md})
	add("mach-o dsym", Object{Kind: MachO, Role: Debug, Name: "App", CodeID: guid, DebugID: md, DebugCompanion: true})
	add("mach-o both", Object{Kind: MachO, Role: Executable | Debug, Name: "Electron Framework", CodeID: guid, DebugID: md})
	add("wasm", Object{Kind: WASM, Role: Executable, Name: "demo.wasm", CodeID: guid, BuildID: debugid.BuildID(guid), DebugID: debugid.BuildID(guid).DebugID(false)})
	add("wasm debug", Object{Kind: WASM, Role: Debug, Name: "demo.wasm", CodeID: guid, BuildID: debugid.BuildID(guid), DebugID: debugid.BuildID(guid).DebugID(false)})
	add("wasm 17", Object{Kind: WASM, Role: Executable | Debug, Name: "m.wasm", CodeID: "10" + guid, BuildID: debugid.BuildID(guid), DebugID: debugid.BuildID("10" + guid).DebugID(false)})
	add("breakpad pe", Object{Kind: Breakpad, Role: Symbols, Name: "xul.pdb", DebugID: id(t, guid+"2"), CodeID: "5AB380779000", CodeName: "xul.dll", Of: PE})
	add("breakpad mingw", Object{Kind: Breakpad, Role: Symbols, Name: "app.exe", DebugID: id(t, guid+"2"), CodeID: "5AB380779000", CodeName: "app.exe", Of: PE})
	add("breakpad elf", Object{Kind: Breakpad, Role: Symbols, Name: "libxul.so", DebugID: sb.DebugID(true), CodeID: sha, Of: ELF})
	add("breakpad mach-o", Object{Kind: Breakpad, Role: Symbols, Name: "XUL", DebugID: md, CodeID: guid, Of: MachO})
	add("breakpad wasm", Object{Kind: Breakpad, Role: Symbols, Name: "demo.wasm", DebugID: debugid.BuildID(guid).DebugID(false), CodeID: guid, Of: WASM})
	add("breakpad unknown", Object{Kind: Breakpad, Role: Symbols, Name: "thing", DebugID: id(t, guid+"0")})
	for _, of := range []Kind{PE, PortablePDB, ELF, MachO, WASM, KindUnknown} {
		o := Object{Kind: SourceBundle, Role: Sources, Name: "crash.pdb", DebugID: id(t, guid+"1"), Of: of}
		switch of {
		case ELF, WASM:
			o.Name, o.CodeID, o.DebugID = "libfoo.so", sha, sb.DebugID(true)
		case MachO:
			o.Name, o.CodeID, o.DebugID = "App", guid, md
		}
		add("source bundle "+of.String(), o)
	}
	add("symcache", Object{Kind: SymCache, Role: SymCacheFile, Name: "foo.pdb", CodeName: "foo.pdb-v3.1.0.symcache", DebugID: id(t, guid+"1")})
	add("r2rmap", Object{Kind: R2RMap, Role: Other, Name: "System.ni.r2rmap", Version: 1, Hash: guid})
	add("bcsymbolmap", Object{Kind: BCSymbolMap, Role: BCSymbols, Name: guid + ".bcsymbolmap", DebugID: md})
	add("uuidmap", Object{Kind: UUIDMap, Role: UUIDs, Name: guid + ".plist", DebugID: md})
	add("sha1", Object{Kind: SHA1, Role: Other, Name: "main.cs", Hash: sha})
	add("jsmap", Object{Kind: JSMap, Role: Other, Name: "app.min.js.map", Hash: sha + sha[:24]})
	add("il2cpp", Object{Kind: IL2CPP, Role: IL2CPPMap, Name: "il2cpp", CodeID: guid, DebugID: md, Of: MachO})
	add("il2cpp elf", Object{Kind: IL2CPP, Role: IL2CPPMap, Name: "il2cpp", CodeID: sha, DebugID: sb.DebugID(true), Of: ELF})
	add("proguard", Object{Kind: ProGuard, Role: Mapping, Name: "mapping.txt", CodeID: guid, DebugID: md})
	add("bad name", Object{Kind: PE, Role: Executable, Name: "a/b", CodeID: "5AB380779000"})
	add("no id", Object{Kind: ELF, Role: Executable, Name: "stripped"})
	return list
}

// TestGoldenPaths freezes under which paths and aliases objects are found.
func TestGoldenPaths(t *testing.T) {
	var b bytes.Buffer
	for _, c := range goldenObjects(t) {
		fmt.Fprintf(&b, "%s: %s\n", c.label, c.o.Name)
		for _, l := range All() {
			for _, p := range l.Paths(c.o) {
				fmt.Fprintf(&b, "\t%s\t%s\n", l.Name(), p)
			}
		}
		for _, a := range c.o.Aliases() {
			fmt.Fprintf(&b, "\talias\t%s\t%s\t%#x\n", a.Name, a.ID, uint16(a.Role))
		}
	}
	golden(t, "paths.txt", b.Bytes())
}

// asked are paths as clients send them: those of the objects above, and what
// only clients write.
func asked(t testing.TB) []string {
	text, err := os.ReadFile(filepath.Join("testdata", "golden", "asked.txt"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// describe prints a request in one line.
func describe(r Request) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s form %d name %q", r.Layout, r.Form, r.Name)
	for _, l := range r.Lookups {
		fmt.Fprintf(&b, " [%q %s %#x", l.Name, l.ID, uint16(l.Role))
		if l.Unique {
			b.WriteString(" unique")
		}
		b.WriteString("]")
	}
	if r.Age != nil {
		fmt.Fprintf(&b, " age %s %d", r.Age.GUID.Lower(), r.Age.Age)
	}
	for _, s := range []string{r.Section, r.Version, r.Prefix} {
		if s != "" {
			fmt.Fprintf(&b, " %q", s)
		}
	}
	return b.String()
}

// TestGoldenRequests freezes what paths ask for: routed, and read by each
// layout on its own.
func TestGoldenRequests(t *testing.T) {
	var b bytes.Buffer
	for _, p := range asked(t) {
		fmt.Fprintf(&b, "%s\n", p)
		segs, err := Segments("/" + p)
		if err != nil {
			fmt.Fprintf(&b, "\terror\n")
			continue
		}
		if r, err := Route(segs, "corp/symbols"); err == nil {
			fmt.Fprintf(&b, "\troute\t%s\n", describe(r))
		}
		if r, err := RouteAdmin(segs, "corp/symbols"); err == nil {
			fmt.Fprintf(&b, "\tadmin\t%s\n", describe(r))
		}
		last := ""
		for _, l := range All() {
			r, err := l.Parse(strings.Join(segs, "/"))
			if err != nil {
				continue
			}
			text := describe(r)
			if text == last {
				text = "the same"
			} else {
				last = text
			}
			fmt.Fprintf(&b, "\t%s\t%s\n", l.Name(), text)
		}
	}
	golden(t, "requests.txt", b.Bytes())
}
