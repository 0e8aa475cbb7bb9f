package layout

import (
	"slices"
	"strings"
	"testing"
)

const (
	hex40 = "180a373d6afbabf0eb1f09be1bc45bd796a71085"
	md5Of = "001ba81f23966cf77e40bcbb0701cd34"
	guid1 = "497b72f6390a44fc878e5a2d63b6cc4b"
)

// TestSpelling: the exact paths requested from a server of each layout, in
// order.
func TestSpelling(t *testing.T) {
	upper := strings.ToUpper(guid1)
	for _, c := range []struct {
		layout string
		set    func(*Dialect)
		ask    string
		want   []string
	}{
		{"symstore", nil, "Foo.pdb/" + guid1 + "A/foo.pdb", []string{"Foo.pdb/" + upper + "A/Foo.pdb", "Foo.pdb/" + upper + "A/Foo.pd_", "Foo.pdb/" + upper + "A/file.ptr",
			"Foo.pdb/" + upper + "a/Foo.pdb", "Foo.pdb/" + upper + "a/Foo.pd_", "Foo.pdb/" + upper + "a/file.ptr"}},
		{"symstore", nil, "Foo.pdb/" + guid1 + "9/foo.pdb", []string{"Foo.pdb/" + upper + "9/Foo.pdb", "Foo.pdb/" + upper + "9/Foo.pd_", "Foo.pdb/" + upper + "9/file.ptr"}},
		{"symstore", nil, "Foo.pdb/" + guid1 + "10/foo.pdb", []string{"Foo.pdb/" + upper + "10/Foo.pdb", "Foo.pdb/" + upper + "10/Foo.pd_", "Foo.pdb/" + upper + "10/file.ptr"}},
		{"symstore", func(d *Dialect) { d.Casing = CasingUpper }, "Foo.pdb/" + guid1 + "A/foo.pdb", []string{"FOO.PDB/" + upper + "A/FOO.PDB", "FOO.PDB/" + upper + "A/FOO.PD_", "FOO.PDB/" + upper + "A/FILE.PTR"}},
		{"symstore", func(d *Dialect) { d.Cabinets, d.Pointers = false, false }, "calc.pdb/418E89C3b/calc.pdb", []string{"calc.pdb/418E89C3B/calc.pdb", "calc.pdb/418E89C3b/calc.pdb"}},
		{"symstore", nil, "crash.pdb/" + guid1 + "b/crash.src.zip", []string{"crash.pdb/" + upper + "B/crash.src.zip", "crash.pdb/" + upper + "B/crash.pdb.src.zip", "crash.pdb/" + upper + "b/crash.src.zip", "crash.pdb/" + upper + "b/crash.pdb.src.zip"}},
		{"symstore", func(d *Dialect) { d.TwoTier = true }, "Foo.exe/5ab38077900A/Foo.exe", []string{"Fo/Foo.exe/5AB38077900a/Foo.exe", "Fo/Foo.exe/5AB38077900a/Foo.ex_", "Fo/Foo.exe/5AB38077900a/file.ptr"}},
		{"symstore", func(d *Dialect) { d.Cabinets, d.Pointers = false, false }, "Foo.exe/5ab3807700009000/Foo.exe", []string{"Foo.exe/5AB380779000/Foo.exe", "Foo.exe/5AB3807700009000/Foo.exe"}[:1]},
		{"symstore", func(d *Dialect) { d.Casing = CasingLower }, "Foo.exe/5AB38077900A/Foo.exe", []string{"foo.exe/5ab38077900a/foo.exe", "foo.exe/5ab38077900a/foo.ex_", "foo.exe/5ab38077900a/file.ptr"}},
		{"symstore", func(d *Dialect) { d.Casing, d.TwoTier = CasingUpper, true }, "_.debug/elf-buildid-sym-" + hex40 + "/_.debug", []string{"_/_.DEBUG/ELF-BUILDID-SYM-" + strings.ToUpper(hex40) + "/_.DEBUG"}},
		{"symstore", nil, "foo.pdb/" + guid1 + "ffffffff/foo.pdb", []string{"foo.pdb/" + upper + "FFFFFFFF/foo.pdb"}},
		{"symstore", nil, "foo.so/elf-buildid-" + hex40 + "/foo.so", []string{"foo.so/elf-buildid-" + hex40 + "/foo.so"}},
		{"symstore", nil, "foo.dylib/mach-uuid-" + guid1 + "/foo.dylib", []string{"foo.dylib/mach-uuid-" + guid1 + "/foo.dylib"}},
		{"symstore", nil, "buildid/" + md5Of + "/debuginfo", []string{"_.debug/elf-buildid-sym-" + md5Of + "/_.debug", "_.debug/elf-buildid-sym-" + md5Of + "00000000/_.debug"}},
		{"symstore", nil, "buildid/" + hex40 + "/executable", nil}, // the name is not known
		{"symstore", nil, "Foo.pdb/" + guid1 + "1/msfz0/Foo.pdb", []string{"Foo.pdb/" + upper + "1/msfz0/Foo.pdb"}},
		{"symstore", nil, "foo.cs/sha1-" + hex40 + "/foo.cs", []string{"foo.cs/sha1-" + hex40 + "/foo.cs"}},
		{"symstore", nil, "main.wasm/" + hex40 + "/main.wasm", []string{"main.wasm/" + hex40 + "/main.wasm"}},
		{"symstore", nil, "crash.pdb/" + guid1 + "1/crash.src.zip", []string{"crash.pdb/" + upper + "1/crash.src.zip", "crash.pdb/" + upper + "1/crash.pdb.src.zip"}},
		{"symstore", nil, "xul.pdb/" + guid1 + "1/xul.sym", []string{"xul.pdb/" + upper + "1/xul.sym"}},
		{"breakpad", nil, "xul.dll/" + guid1 + "1/xul.dll.sym", []string{"xul.dll/" + upper + "1/xul.dll.sym", "xul.dll/" + upper + "1/xul.sym"}},
		{"breakpad", nil, "xul.dll/5ab38077900a/xul.sym", []string{"xul.dll/5AB38077900A/xul.sym", "xul.dll/5AB38077900A/xul.dll.sym"}},
		{"breakpad", nil, "libc.so.6/" + guid1 + "0/libc.so.6.sym", []string{"libc.so.6/" + upper + "0/libc.so.6.sym"}},
		{"breakpad", nil, "foo.pdb/" + guid1 + "1/foo.pdb", nil},
		{"ssqp", nil, "Foo.pdb/" + upper + "A/foo.pdb", []string{"foo.pdb/" + guid1 + "A/foo.pdb", "foo.pdb/" + guid1 + "A/foo.pd_", "foo.pdb/" + guid1 + "a/foo.pdb", "foo.pdb/" + guid1 + "a/foo.pd_"}},
		{"ssqp", nil, "Foo.pdb/" + upper + "1/foo.pdb", []string{"foo.pdb/" + guid1 + "1/foo.pdb", "foo.pdb/" + guid1 + "1/foo.pd_"}},
		{"ssqp", nil, "Xul.pdb/" + guid1 + "1/Xul.sym", []string{"Xul.pdb/" + upper + "1/Xul.sym"}},
		{"ssqp", nil, "Crash.pdb/" + guid1 + "1/Crash.src.zip", []string{"crash.pdb/" + guid1 + "1/crash.src.zip", "crash.pdb/" + guid1 + "1/crash.pdb.src.zip"}},
		{"ssqp", nil, "Foo.pdb/" + upper + "FFFFFFFF/foo.pdb", []string{"foo.pdb/" + guid1 + "FFFFFFFF/foo.pdb"}},
		{"ssqp", nil, "Foo.exe/542d574ec2000/foo.exe", []string{"foo.exe/542D574Ec2000/foo.exe", "foo.exe/542D574Ec2000/foo.ex_"}},
		{"ssqp", nil, "buildid/" + md5Of + "/debuginfo", []string{"_.debug/elf-buildid-sym-" + md5Of + "00000000/_.debug", "_.debug/elf-buildid-sym-" + md5Of + "/_.debug"}},
		{"ssqp", nil, "libmscordaccore.so/elf-buildid-coreclr-" + hex40 + "/libmscordaccore.so", []string{"libmscordaccore.so/elf-buildid-coreclr-" + hex40 + "/libmscordaccore.so"}},
		{"ssqp", nil, "a.dylib/mach-uuid-coreclr-" + guid1 + "/a.dylib", []string{"a.dylib/mach-uuid-coreclr-" + guid1 + "/a.dylib"}},
		{"native", nil, "foo.so/elf-buildid-" + hex40 + "/foo.so", []string{hex40[:2] + "/" + hex40[2:]}},
		{"native", nil, "Foo.pdb/" + guid1 + "1/foo.pdb", []string{"Foo.pdb/" + upper + "1/Foo.pdb", "Foo.pdb/" + upper + "1/Foo.pd_"}},
		{"native", nil, "Foo.pdb/" + guid1 + "1a/foo.pdb", []string{"Foo.pdb/" + upper + "1a/Foo.pdb", "Foo.pdb/" + upper + "1a/Foo.pd_", "Foo.pdb/" + upper + "1A/Foo.pdb", "Foo.pdb/" + upper + "1A/Foo.pd_"}},
		{"native", nil, "_.dwarf/mach-uuid-sym-" + guid1 + "/_.dwarf", []string{"497B/72F6/390A/44FC/878E/5A2D63B6CC4B"}},
		{"unified", nil, "Foo.pdb/" + guid1 + "A/foo.pdb", []string{"49/" + guid1[2:] + "a/debuginfo"}},
		{"unified", nil, "Foo.exe/542D574Ec2000/foo.exe", []string{"54/2d574ec2000/executable", "54/2d574ec2000/debuginfo"}},
		{"unified", nil, "xul.pdb/" + guid1 + "1/xul.sym", []string{"49/" + guid1[2:] + "1/breakpad"}},
		{"gdb", nil, "buildid/" + hex40 + "/debuginfo", []string{".build-id/18/" + hex40[2:] + ".debug", "18/" + hex40[2:] + ".debug"}},
		{"gdb", func(d *Dialect) { d.Inside = true }, "buildid/" + hex40 + "/executable", []string{"18/" + hex40[2:]}},
		{"gdb", nil, "Foo.exe/542D574Ec2000/foo.exe", nil},
		{"lldb", nil, "foo.dylib/mach-uuid-" + guid1 + "/foo.dylib", []string{"497B/72F6/390A/44FC/878E/5A2D63B6CC4B.app"}},
		{"debuginfod", nil, "_.debug/elf-buildid-sym-" + md5Of + "00000000/_.debug", []string{"buildid/" + md5Of + "/debuginfo", "buildid/" + md5Of + "00000000/debuginfo"}},
		{"debuginfod", func(d *Dialect) { d.Inside = true }, "foo.so/elf-buildid-" + hex40 + "/foo.so", []string{hex40 + "/executable"}},
		{"debuginfod", nil, "Foo.exe/542D574Ec2000/foo.exe", nil},
		{"debuginfod", nil, "buildid/" + hex40 + "/source/usr/src/../lib/a b.c", []string{"buildid/" + hex40 + "/source/usr/lib/a b.c"}},
		{"debuginfod", nil, "buildid/" + hex40 + "/source/../../../metrics", []string{"buildid/" + hex40 + "/source/metrics"}},
		{"debuginfod", nil, "buildid/" + hex40 + "/section/.debug_info", []string{"buildid/" + hex40 + "/section/.debug_info"}},
		{"symstore", nil, "buildid/" + hex40 + "/section/.debug_info", nil},
		{"slashsymbols", nil, "eboot.bin/" + hex40 + "/symbols", []string{"eboot.bin/" + strings.ToUpper(hex40) + "/symbols", "eboot.bin/" + hex40 + "/symbols"}},
		{"auto", nil, "buildid/" + hex40 + "/debuginfo", []string{"buildid/" + hex40 + "/debuginfo"}},
		{"auto", nil, "Foo.pdb/" + guid1 + "ffffffff/foo.pdb", []string{"Foo.pdb/" + upper + "FFFFFFFF/Foo.pdb"}},
		{"symcache", nil, "v3.1.0/foo.pdb/" + guid1, []string{"v3.1.0/foo.pdb/" + upper + "/1"}},
		{"symcache", nil, "foo.pdb/" + guid1 + "1/foo.pdb", nil},
	} {
		req, err := Route(strings.Split(c.ask, "/"))
		if err != nil {
			t.Fatalf("%v: Route: error %v, want no error", c.ask, err)
		}
		lay, _ := ServerByName(c.layout)
		d := Dialect{Layout: lay, Casing: CasingDefault, Cabinets: true, Pointers: true}
		if c.set != nil {
			c.set(&d)
		}
		var got []string
		for _, p := range d.Places(&req) {
			got = append(got, p.Key())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s of %s:\n got %v\nwant %v", c.ask, c.layout, got, c.want)
		}
	}
}

func TestStorePlaces(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		dialect   Dialect
		file, key string
		want      []string
	}{
		{"all forms", Dialect{Layout: SymStore, Cabinets: true, Pointers: true}, "Foo.pdb", "ABC1", []string{"Foo.pdb/ABC1/Foo.pdb", "Foo.pdb/ABC1/Foo.pd_", "Foo.pdb/ABC1/file.ptr"}},
		{"two tiers", Dialect{Layout: SymStore, TwoTier: true, Cabinets: true}, "Foo.pdb", "ABC1", []string{"Fo/Foo.pdb/ABC1/Foo.pdb", "Fo/Foo.pdb/ABC1/Foo.pd_"}},
		{"plain only", Dialect{Layout: SymStore}, "Foo.pdb", "ABC1", []string{"Foo.pdb/ABC1/Foo.pdb"}},
		{"a key of ELF", Dialect{Layout: SymStore, Cabinets: true}, "libc.so", "elf-buildid-" + hex40, []string{"libc.so/elf-buildid-" + hex40 + "/libc.so", "libc.so/elf-buildid-" + hex40 + "/libc.s_"}},
		{"a name that leads out of the store", Dialect{Layout: SymStore}, "..", "ABC1", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, p := range c.dialect.StorePlaces(c.file, c.key) {
				got = append(got, p.Key())
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("StorePlaces(%q, %q) = %q, want %q", c.file, c.key, got, c.want)
			}
		})
	}
}
