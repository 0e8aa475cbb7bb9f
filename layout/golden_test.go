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
	"github.com/symdepot/symdepot/symfile"
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
	o     symfile.Object
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
	add := func(label string, o symfile.Object) { list = append(list, labelled{label, o}) }

	add("pe", symfile.Object{Kind: symfile.PE, Role: symfile.Executable, Name: "Foo.DLL", CodeID: "00E4915Eae000", DebugID: id(t, guid+"1a")})
	add("pe without debug id", symfile.Object{Kind: symfile.PE, Role: symfile.Executable, Name: "foo.sys", CodeID: "5AB380779000"})
	add("pe short size", symfile.Object{Kind: symfile.PE, Role: symfile.Executable, Name: "x.exe", CodeID: "000000011"})
	add("pe program", symfile.Object{Kind: symfile.PE, Role: symfile.Executable, Name: "App.exe", CodeID: "5AB380779000", DebugID: id(t, guid+"1"), Main: true})
	add("pe with DWARF", symfile.Object{Kind: symfile.PE, Role: symfile.Executable | symfile.Debug, Name: "mingw.exe", CodeID: "5AB380779000", DebugID: id(t, guid+"1")})
	add("pe debug only", symfile.Object{Kind: symfile.PE, Role: symfile.Debug, Name: "app.exe.debug", CodeID: "5AB380779000", DebugID: id(t, guid+"1")})
	add("pe blanks", symfile.Object{Kind: symfile.PE, Role: symfile.Executable, Name: "my app+1.exe", CodeID: "5AB380779000"})
	add("pe beyond ASCII", symfile.Object{Kind: symfile.PE, Role: symfile.Executable, Name: "größe.dllé", CodeID: "5AB380779000"})
	add("dbg", symfile.Object{Kind: symfile.DBG, Role: symfile.Debug, Name: "acpi.dbg", CodeID: "37CDB03962040"})
	add("pdb", symfile.Object{Kind: symfile.PDB, Role: symfile.Debug, Name: "Foo.pdb", DebugID: id(t, guid+"1a")})
	add("pdb upper", symfile.Object{Kind: symfile.PDB, Role: symfile.Debug, Name: "FOO.PDB", DebugID: id(t, guid+"1")})
	add("pdb info age", symfile.Object{Kind: symfile.PDB, Role: symfile.Debug, Name: "aged.pdb", DebugID: id(t, guid+"1"), InfoAge: 5})
	add("pdb type only", symfile.Object{Kind: symfile.PDB, Role: symfile.Debug, Name: "vc140.pdb", DebugID: id(t, guid+"2"), NoDBI: true, InfoAge: 2})
	add("pdb age 0", symfile.Object{Kind: symfile.PDB, Role: symfile.Debug, Name: "zero.pdb", DebugID: id(t, guid+"0")})
	add("pdb age max", symfile.Object{Kind: symfile.PDB, Role: symfile.Debug, Name: "max.pdb", DebugID: id(t, guid+"ffffffff")})
	add("pdb japanese", symfile.Object{Kind: symfile.PDB, Role: symfile.Debug, Name: "日本.pdb", DebugID: id(t, guid+"1")})
	add("pdb2", symfile.Object{Kind: symfile.PDB20, Role: symfile.Debug, Name: "calc.pdb", DebugID: debugid.PDB20(0x418E89C3, 1)})
	add("msfz", symfile.Object{Kind: symfile.MSFZ, Role: symfile.Compressed, Name: "A.pdb", DebugID: id(t, guid+"1")})
	add("portable pdb", symfile.Object{Kind: symfile.PortablePDB, Role: symfile.Debug, Name: "Lib.pdb", DebugID: id(t, guid+"9e6d3fcc")})
	for _, e := range []struct{ label, id string }{{"sha1", sha}, {"md5", md5}, {"zeros", zeros}, {"8 bytes", sha[:16]}, {"2 bytes", "abcd"}, {"1 byte", "ab"}, {"32 bytes", sha + sha[:24]}, {"64 bytes", strings.Repeat(md5, 4)}} {
		b, err := debugid.ParseBuildID(e.id)
		if err != nil {
			t.Fatal(err)
		}
		d := b.DebugID(true)
		add("elf "+e.label, symfile.Object{Kind: symfile.ELF, Role: symfile.Executable, Name: "libm-2.23.so", CodeID: e.id, BuildID: b, DebugID: d})
		add("elf debug "+e.label, symfile.Object{Kind: symfile.ELF, Role: symfile.Debug, Name: "libm-2.23.so.debug", CodeID: e.id, BuildID: b, DebugID: d, DebugCompanion: true})
	}
	sb := debugid.BuildID(sha)
	add("elf unstripped", symfile.Object{Kind: symfile.ELF, Role: symfile.Executable | symfile.Debug, Name: "prog", CodeID: sha, BuildID: sb, DebugID: sb.DebugID(true), Main: true})
	add("elf static", symfile.Object{Kind: symfile.ELF, Role: symfile.Executable, Name: "busybox", CodeID: sha, BuildID: sb, DebugID: sb.DebugID(true), DebugCompanion: true})
	add("elf relocatable", symfile.Object{Kind: symfile.ELF, Role: symfile.Debug, Name: "mod.o", CodeID: sha, BuildID: sb, DebugID: sb.DebugID(true)})
	add("elf without build-id", symfile.Object{Kind: symfile.ELF, Role: symfile.Executable, Name: "old.so", DebugID: id(t, guid+"0")})
	add("elf dotnet", symfile.Object{Kind: symfile.ELF, Role: symfile.Executable, Name: "dotnet", CodeID: sha, BuildID: sb, DebugID: sb.DebugID(true)})
	md := id(t, guid)
	add("mach-o", symfile.Object{Kind: symfile.MachO, Role: symfile.Executable, Name: "App", CodeID: guid, DebugID: md})
	add("mach-o dylib", symfile.Object{Kind: symfile.MachO, Role: symfile.Executable, Name: "libfoo.dylib", CodeID: guid, DebugID: md})
	add("mach-o dsym", symfile.Object{Kind: symfile.MachO, Role: symfile.Debug, Name: "App", CodeID: guid, DebugID: md, DebugCompanion: true})
	add("mach-o both", symfile.Object{Kind: symfile.MachO, Role: symfile.Executable | symfile.Debug, Name: "Electron Framework", CodeID: guid, DebugID: md})
	add("wasm", symfile.Object{Kind: symfile.WASM, Role: symfile.Executable, Name: "demo.wasm", CodeID: guid, BuildID: debugid.BuildID(guid), DebugID: debugid.BuildID(guid).DebugID(false)})
	add("wasm debug", symfile.Object{Kind: symfile.WASM, Role: symfile.Debug, Name: "demo.wasm", CodeID: guid, BuildID: debugid.BuildID(guid), DebugID: debugid.BuildID(guid).DebugID(false)})
	add("wasm 17", symfile.Object{Kind: symfile.WASM, Role: symfile.Executable | symfile.Debug, Name: "m.wasm", CodeID: "10" + guid, BuildID: debugid.BuildID(guid), DebugID: debugid.BuildID("10" + guid).DebugID(false)})
	add("breakpad pe", symfile.Object{Kind: symfile.Breakpad, Role: symfile.Symbols, Name: "xul.pdb", DebugID: id(t, guid+"2"), CodeID: "5AB380779000", CodeName: "xul.dll", Of: symfile.PE})
	add("breakpad mingw", symfile.Object{Kind: symfile.Breakpad, Role: symfile.Symbols, Name: "app.exe", DebugID: id(t, guid+"2"), CodeID: "5AB380779000", CodeName: "app.exe", Of: symfile.PE})
	add("breakpad elf", symfile.Object{Kind: symfile.Breakpad, Role: symfile.Symbols, Name: "libxul.so", DebugID: sb.DebugID(true), CodeID: sha, Of: symfile.ELF})
	add("breakpad mach-o", symfile.Object{Kind: symfile.Breakpad, Role: symfile.Symbols, Name: "XUL", DebugID: md, CodeID: guid, Of: symfile.MachO})
	add("breakpad wasm", symfile.Object{Kind: symfile.Breakpad, Role: symfile.Symbols, Name: "demo.wasm", DebugID: debugid.BuildID(guid).DebugID(false), CodeID: guid, Of: symfile.WASM})
	add("breakpad unknown", symfile.Object{Kind: symfile.Breakpad, Role: symfile.Symbols, Name: "thing", DebugID: id(t, guid+"0")})
	for _, of := range []symfile.Kind{symfile.PE, symfile.PortablePDB, symfile.ELF, symfile.MachO, symfile.WASM, symfile.KindUnknown} {
		o := symfile.Object{Kind: symfile.SourceBundle, Role: symfile.Sources, Name: "crash.pdb", DebugID: id(t, guid+"1"), Of: of}
		switch of {
		case symfile.ELF, symfile.WASM:
			o.Name, o.CodeID, o.DebugID = "libfoo.so", sha, sb.DebugID(true)
		case symfile.MachO:
			o.Name, o.CodeID, o.DebugID = "App", guid, md
		}
		add("source bundle "+of.String(), o)
	}
	add("symcache", symfile.Object{Kind: symfile.SymCache, Role: symfile.SymCacheFile, Name: "foo.pdb", CodeName: "foo.pdb-v3.1.0.symcache", DebugID: id(t, guid+"1")})
	add("r2rmap", symfile.Object{Kind: symfile.R2RMap, Role: symfile.Other, Name: "System.ni.r2rmap", Version: 1, Hash: guid})
	add("bcsymbolmap", symfile.Object{Kind: symfile.BCSymbolMap, Role: symfile.BCSymbols, Name: guid + ".bcsymbolmap", DebugID: md})
	add("uuidmap", symfile.Object{Kind: symfile.UUIDMap, Role: symfile.UUIDs, Name: guid + ".plist", DebugID: md})
	add("sha1", symfile.Object{Kind: symfile.SHA1, Role: symfile.Other, Name: "main.cs", Hash: sha})
	add("jsmap", symfile.Object{Kind: symfile.JSMap, Role: symfile.Other, Name: "app.min.js.map", Hash: sha + sha[:24]})
	add("il2cpp", symfile.Object{Kind: symfile.IL2CPP, Role: symfile.IL2CPPMap, Name: "il2cpp", CodeID: guid, DebugID: md, Of: symfile.MachO})
	add("il2cpp elf", symfile.Object{Kind: symfile.IL2CPP, Role: symfile.IL2CPPMap, Name: "il2cpp", CodeID: sha, DebugID: sb.DebugID(true), Of: symfile.ELF})
	add("proguard", symfile.Object{Kind: symfile.ProGuard, Role: symfile.Mapping, Name: "mapping.txt", CodeID: guid, DebugID: md})
	add("bad name", symfile.Object{Kind: symfile.PE, Role: symfile.Executable, Name: "a/b", CodeID: "5AB380779000"})
	add("no id", symfile.Object{Kind: symfile.ELF, Role: symfile.Executable, Name: "stripped"})
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
	fmt.Fprintf(&b, "%s form %d name %q", r.Layout.Name(), r.Form, r.Name)
	for _, l := range r.Lookups {
		fmt.Fprintf(&b, " [%q %s %#x", l.Name, l.ID, uint16(l.Role))
		if l.IDKind != symfile.AnyID {
			b.WriteString([]string{"", " build-id", " mach uuid"}[l.IDKind])
		}
		if l.Unique {
			b.WriteString(" unique")
		}
		b.WriteString("]")
	}
	if r.Age != nil {
		fmt.Fprintf(&b, " age %s %d", r.Age.GUID.Lower(), r.Age.Age)
	}
	for _, s := range []string{r.Part, version(r), r.Prefix} {
		if s != "" {
			fmt.Fprintf(&b, " %q", s)
		}
	}
	return b.String()
}

func version(r Request) string {
	if r.Form != FormSymCache {
		return ""
	}
	return r.SymCache.Version.Segment()
}

// TestGoldenRequests freezes the requests that paths are parsed to, by Route
// and by each layout alone.
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

// eachRequest calls each with what the asked paths ask for, and once more for
// clients that take MSFZ containers.
func eachRequest(t *testing.T, each func(path string, req Request)) {
	t.Helper()
	for _, p := range asked(t) {
		segs, err := Segments("/" + p)
		if err != nil {
			continue
		}
		req, err := Route(segs)
		if err != nil {
			continue
		}
		each(p, req)
		if req.Name == "A.pdb" {
			req.AcceptMSFZ()
			each(p+" (MSFZ accepted)", req)
		}
	}
}

// TestGoldenPlaces freezes the paths requested from servers, with their order
// and case.
func TestGoldenPlaces(t *testing.T) {
	type dialect struct {
		label string
		Dialect
	}
	var dialects []dialect
	for _, l := range Servers() {
		dialects = append(dialects, dialect{l.Name(), Dialect{Layout: l, Casing: CasingDefault, Cabinets: true, Pointers: true}})
	}
	dialects = append(dialects, []dialect{
		{"symstore two-tier", Dialect{Layout: SymStore, TwoTier: true, Cabinets: true, Pointers: true}},
		{"symstore plain only", Dialect{Layout: SymStore}},
		{"symstore upper", Dialect{Layout: SymStore, Casing: CasingUpper, Cabinets: true, Pointers: true}},
		{"symstore_index2 two-tier", Dialect{Layout: Index2, TwoTier: true, Cabinets: true, Pointers: true}},
		{"ssqp lower", Dialect{Layout: SSQP, Casing: CasingLower, Cabinets: true}},
		{"native upper", Dialect{Layout: Native, Casing: CasingUpper}},
		{"unified upper", Dialect{Layout: Unified, Casing: CasingUpper}},
		{"gdb inside", Dialect{Layout: GDB, Inside: true}},
		{"debuginfod inside", Dialect{Layout: Debuginfod, Inside: true}},
	}...)
	var b bytes.Buffer
	blocks := map[string]string{}
	eachRequest(t, func(path string, req Request) {
		start := b.Len()
		for _, d := range dialects {
			list := d.Places(&req)
			if len(list) == 0 {
				continue
			}
			fmt.Fprintf(&b, "\t%s", d.label)
			for _, p := range list {
				fmt.Fprintf(&b, "\t%s", p.Key())
				for _, f := range []struct {
					is   bool
					word string
				}{{p.Packed, "packed"}, {p.Pointer, "pointer"}, {p.Exact, "exact"}} {
					if f.is {
						b.WriteString(" (" + f.word + ")")
					}
				}
			}
			b.WriteByte('\n')
		}
		block(&b, start, path, blocks)
	})
	golden(t, "servers.txt", b.Bytes())
}

// TestGoldenCandidates freezes where files are looked for in folders, and in
// which order.
func TestGoldenCandidates(t *testing.T) {
	var b bytes.Buffer
	blocks := map[string]string{}
	eachRequest(t, func(path string, req Request) {
		start := b.Len()
		seen := map[string]string{}
		for _, l := range Folders() {
			name := l.Name()
			text := candidateLines(l, &req)
			if same := seen[text]; text != "" && same != "" {
				text = "\tlike " + same + "\n"
			} else {
				seen[text] = name
			}
			if text != "" {
				b.WriteString("\t" + name + text)
			}
		}
		block(&b, start, path, blocks)
	})
	golden(t, "folders.txt", b.Bytes())
}

// block puts a path above what was printed since start. What stands below
// another path already is not repeated.
func block(b *bytes.Buffer, start int, path string, blocks map[string]string) {
	text := string(b.Bytes()[start:])
	b.Truncate(start)
	if same := blocks[text]; same != "" && text != "" {
		fmt.Fprintf(b, "%s: like %s\n", path, same)
		return
	}
	blocks[text] = path
	fmt.Fprintf(b, "%s\n%s", path, text)
}

// candidateLines prints the candidates of each lookup of a request, the lookups
// apart.
func candidateLines(lay Layout, req *Request) string {
	var b strings.Builder
	for i, l := range req.Lookups {
		list := lay.Candidates(req, l)
		if len(list) == 0 {
			continue
		}
		fmt.Fprintf(&b, " %d", i)
		for _, c := range list {
			fmt.Fprintf(&b, "\t%s", strings.Join(c.Parts, "/"))
			for _, f := range []struct {
				is   bool
				word string
			}{{c.Packed, "packed"}, {c.Pointer, "pointer"}, {c.Text, "text"}, {c.MSFZ, "msfz"}, {c.Verify, "verify"}, {c.HigherAge, "older"}} {
				if f.is {
					b.WriteString(" (" + f.word + ")")
				}
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}
