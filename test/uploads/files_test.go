package uploads

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// file is a file of a build.
type file struct {
	name string // its path in the folder of the build, with slashes
	body []byte
	// raw: the name has separators that are sent as they are. Clients that know no folders
	// send the last part of other names.
	raw bool

	known *[]object // what objects has found
}

// wire is the name that a client sends which knows no folders.
func (f *file) wire() string {
	if f.raw {
		return f.name
	}
	return path.Base(f.name)
}

// object is an object of a file: what clients of the depot request.
type object struct {
	objfile.Object
	sum   blob.Ref
	paths map[string][]layout.Layout
}

// objects returns the objects of a file; none if it is no symbol file. The name of the
// file on a server is the last part of its name, in any system's spelling.
func (f *file) objects() []object {
	if f.known == nil {
		list := identify(f)
		f.known = &list
	}
	return *f.known
}

func identify(f *file) []object {
	list, err := objfile.Identify(bytes.NewReader(f.body), int64(len(f.body)), symfile.BaseName(f.name), objfile.Options{})
	if err != nil {
		return nil
	}
	var out []object
	for _, o := range list {
		k := object{Object: o, sum: blob.Sum(f.body[o.Offset : o.Offset+o.Size]), paths: map[string][]layout.Layout{}}
		for _, l := range layout.All() {
			for _, p := range l.Paths(o.Object) {
				k.paths[p] = append(k.paths[p], l)
			}
		}
		out = append(out, k)
	}
	return out
}

// useful reports whether a file has what a crash reporter uses: clients of crash reporters
// leave out the others.
func (f *file) useful() bool {
	for _, o := range f.objects() {
		if x := o.Features; x.Debug || x.Symtab || x.Unwind || x.Sources {
			return true
		}
	}
	return false
}

// maker makes files with ids that no other file of the test has: real files, whose ids
// are replaced.
type maker struct {
	tb   testing.TB
	salt string
	n    int
}

// bytes returns n bytes that were never returned before.
func (m *maker) bytes(n int) []byte {
	m.n++
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", m.salt, m.n))
	return sum[:n]
}

// patch returns a file of testdata with other bytes in place of some.
func (m *maker) patch(body, old, id []byte) []byte {
	if !bytes.Contains(body, old) || len(old) != len(id) {
		m.tb.Fatalf("a file of testdata lacks the id %x, want it", old)
	}
	return bytes.ReplaceAll(body, old, id)
}

// first returns the first object of a file.
func (m *maker) first(body []byte, name string) objfile.Object {
	list, err := objfile.Identify(bytes.NewReader(body), int64(len(body)), name, objfile.Options{})
	if err != nil {
		m.tb.Fatal(err)
	}
	return list[0]
}

// elf returns a file of testdata/elf with a build-id of its own.
func (m *maker) elf(name string) []byte { return m.elfOf(name, m.bytes(32)) }

func (m *maker) elfOf(name string, id []byte) []byte {
	b := symtest.Testdata(m.tb, "elf/"+name)
	old := unhex(m.tb, string(m.first(b, name).BuildID))
	return m.patch(b, old, id[:len(old)])
}

func unhex(tb testing.TB, s string) []byte {
	var b []byte
	if _, err := fmt.Sscanf(s, "%x", &b); err != nil {
		tb.Fatalf("%q: %v, want hex digits", s, err)
	}
	return b
}

// pdb returns a PDB for an architecture, and its image.
func (m *maker) pdb(arch string) (image, pdb []byte) {
	image, pdb = symtest.Testdata(m.tb, "pdb/hello-"+arch+".exe"), symtest.Testdata(m.tb, "pdb/hello-"+arch+".pdb")
	old := m.first(pdb, "hello.pdb").DebugID.GUID.Microsoft()
	id := m.bytes(16)
	image, pdb = m.patch(image, old[:], id), m.patch(pdb, old[:], id)
	copy(image[int(binary.LittleEndian.Uint32(image[0x3c:]))+8:], m.bytes(4)) // TimeDateStamp
	return image, pdb
}

// macho returns copies of files of testdata/macho with the same new UUIDs: a program and
// its dSYM.
func (m *maker) macho(names ...string) [][]byte {
	ids := map[string][]byte{}
	var out [][]byte
	for _, n := range names {
		b := symtest.Testdata(m.tb, "macho/"+n)
		list, err := objfile.Identify(bytes.NewReader(b), int64(len(b)), "app", objfile.Options{})
		if err != nil {
			m.tb.Fatal(err)
		}
		for _, o := range list {
			if ids[o.CodeID] == nil {
				ids[o.CodeID] = m.bytes(16)
			}
			b = m.patch(b, unhex(m.tb, o.CodeID), ids[o.CodeID])
		}
		out = append(out, b)
	}
	return out
}

// soloSlice returns a fat file with one slice.
func soloSlice(slice []byte) []byte {
	const offset = 1 << 14
	b := make([]byte, offset, offset+len(slice))
	for i, v := range []uint32{0xcafebabe, 1, 0x0100000c, 0, offset, uint32(len(slice)), 14} { // FAT_MAGIC, one fat_arch of arm64
		binary.BigEndian.PutUint32(b[4*i:], v)
	}
	return append(b, slice...)
}

// sym returns a Breakpad file.
func (m *maker) sym(module string) []byte {
	return fmt.Appendf(nil, "MODULE Linux x86_64 %X0 %s\nFILE 0 main.c\nFUNC 1000 10 0 main\n1000 10 7 0\nPUBLIC 2000 0 g\n", m.bytes(16), module)
}

// shape is a build whose files a careless server mixes up.
type shape struct {
	name string
	// large: only ways that need few processes and requests can have it.
	large bool
	make  func(m *maker) []file
}

const dwarf = "app.dSYM/Contents/Resources/DWARF/app"

var shapes = []shape{
	{name: "base names in two folders", make: func(m *maker) []file {
		list := []file{
			{name: "arm64-v8a/libhermes.so", body: m.elf("libprog.so")}, {name: "armeabi-v7a/libhermes.so", body: m.elf("e-arm")},
			{name: "a/app.sym", body: m.sym("app")}, {name: "b/app.sym", body: m.sym("app")},
		}
		for i := range 5 {
			for _, arch := range []string{"x64", "arm64"} {
				_, pdb := m.pdb(arch)
				list = append(list, file{name: fmt.Sprintf("%s/%d/game.pdb", arch, i), body: pdb})
			}
		}
		return list
	}},
	{name: "one id, several files", make: func(m *maker) []file {
		apple := m.macho("app-arm64", "app-arm64.dSYM/Contents/Resources/DWARF/app-arm64")
		image, pdb := m.pdb("x64")
		id := m.bytes(20)
		return []file{
			{name: "app", body: apple[0]}, {name: dwarf, body: apple[1]}, {name: "bin/tool.exe", body: image}, {name: "bin/tool.pdb", body: pdb},
			{name: "usr/bin/prog", body: m.elfOf("prog-sha1.stripped", id)}, {name: "usr/lib/debug/prog", body: m.elfOf("prog-sha1.debug", id)},
		}
	}},
	{name: "one name and id, other bytes", make: func(m *maker) []file {
		one := m.elf("libprog.so")
		sym := m.sym("twin")
		return []file{
			{name: "one/libtwin.so", body: one}, {name: "two/libtwin.so", body: bytes.Replace(one, []byte("GCC: "), []byte("gcc: "), 1)}, // in .comment
			{name: "one/twin.sym", body: sym}, {name: "two/twin.sym", body: bytes.Replace(sym, []byte(" 0 g\n"), []byte(" 0 h\n"), 1)},
		}
	}},
	{name: "one name and id, another size", make: func(m *maker) []file {
		_, pdb := m.pdb("x64")
		return []file{{name: "one/twin.pdb", body: pdb}, {name: "two/twin.pdb", body: append(bytes.Clone(pdb), make([]byte, 4096)...)}}
	}},
	{name: "fat slices", make: func(m *maker) []file {
		apple := m.macho("app-fat", "app-fat.dSYM/Contents/Resources/DWARF/app-fat")
		return []file{{name: "app", body: apple[0]}, {name: dwarf, body: apple[1]}, {name: "solo", body: soloSlice(m.macho("app-arm64")[0])}}
	}},
	{name: "the same bytes twice", make: func(m *maker) []file {
		lib := m.elf("libprog.so")
		_, pdb := m.pdb("x86")
		return []file{{name: "a/lib.so", body: lib}, {name: "b/lib.so", body: lib}, {name: "c/other.so", body: lib}, {name: "a/app.pdb", body: pdb}, {name: "b/app.pdb", body: pdb}}
	}},
	{name: "names that differ in case", make: func(m *maker) []file {
		image, pdb := m.pdb("x64")
		image2, pdb2 := m.pdb("arm64")
		return []file{
			{name: "Lib.so", body: m.elf("libprog.so")}, {name: "lib.so", body: m.elf("e-arm64")}, {name: "App.exe", body: image}, {name: "app.EXE", body: image2},
			{name: "App.pdb", body: pdb}, {name: "app.PDB", body: pdb2}, {name: "mod.sym", body: m.sym("Mod")}, {name: "MOD.sym", body: m.sym("mod")},
		}
	}},
	{name: "names of 255 bytes", make: func(m *maker) []file {
		_, pdb := m.pdb("x64")
		return []file{
			{name: strings.Repeat("n", 252) + ".so", body: m.elf("libprog.so")}, {name: strings.Repeat("n", 251) + ".pdb", body: pdb},
			{name: strings.Repeat("ü", 126) + ".so", body: m.elf("e-arm")}, // 255 bytes
		}
	}},
	{name: "names beyond ASCII", make: func(m *maker) []file {
		_, pdb := m.pdb("x64")
		return []file{
			{name: "Größe 日本.pdb", body: pdb}, {name: "caf\u00e9.so", body: m.elf("libprog.so")}, {name: "cafe\u0301.so", body: m.elf("e-arm64")}, // composed and decomposed
			{name: "\U0001F41B/\U0001F41B.so", body: m.elf("e-arm")}, {name: "größe.sym", body: m.sym("größe")},
		}
	}},
	{name: "separators in names", make: func(m *maker) []file {
		_, pdb := m.pdb("x64")
		return []file{
			{name: `c:\build\one\game.pdb`, body: pdb, raw: true}, {name: `one\lib.so`, body: m.elf("libprog.so"), raw: true}, {name: `two\lib.so`, body: m.elf("e-arm"), raw: true},
			{name: "three/lib.so", body: m.elf("e-arm64"), raw: true},
		}
	}},
	{name: "a file without symbols", make: func(m *maker) []file {
		_, pdb := m.pdb("x64")
		return []file{{name: "lib.so", body: m.elf("libprog.so")}, {name: "notes.txt", body: []byte("no symbols\n")}, {name: "game.pdb", body: pdb}, {name: "broken.pdb", body: pdb[:3000]}}
	}},
	{name: "many files of one name", large: true, make: func(m *maker) []file {
		// Most are text of few bytes, with a path in each layout.
		var list []file
		for i := range many() * 3 / 4 {
			list = append(list, file{name: fmt.Sprintf("%d/game.sym", i), body: m.sym("game")})
		}
		for i := range many() / 4 {
			list = append(list, file{name: fmt.Sprintf("%d/game", i), body: m.elf("e-x86")})
		}
		return list
	}},
}

// many is the number of files of one name: 1,000 in make torture.
func many() int {
	if os.Getenv("SYMDEPOT_TORTURE") != "" {
		return 1000
	}
	return 100
}

// mixed is a build with several of the shapes, for runs that are repeated or interrupted.
var mixed = shape{name: "mixed", make: func(m *maker) []file {
	var list []file
	for _, s := range shapes {
		switch s.name {
		case "base names in two folders", "one id, several files", "fat slices", "names beyond ASCII":
			for _, f := range s.make(m) {
				f.name = strings.ReplaceAll(strings.ReplaceAll(s.name, " ", "-"), ",", "") + "/" + f.name
				list = append(list, f)
			}
		}
	}
	return list
}}

// manner is how often and from where a build is sent.
type manner struct {
	name    string
	runs    int
	atOnce  bool
	restart bool // the server is replaced between the requests
}

var manners = []manner{
	{name: "retried", runs: 2},
	{name: "two runs at once", runs: 2, atOnce: true},
	{name: "resumed by another server", runs: 1, restart: true},
}

// slicesOf is what sentry-cli makes of a build: slices of fat files are files of their
// own, and each content is sent once.
func slicesOf(files []file) []file {
	var out []file
	have := map[blob.Ref]bool{}
	for i := range files {
		f := &files[i]
		objects := f.objects()
		if len(objects) == 0 {
			objects = []object{{Object: objfile.Object{Size: int64(len(f.body))}}}
		}
		for _, o := range objects {
			part := file{name: f.name, body: f.body[o.Offset : o.Offset+o.Size], raw: f.raw}
			if sum := blob.Sum(part.body); !have[sum] {
				have[sum] = true
				out = append(out, part)
			}
		}
	}
	return out
}

// claimed returns an id of a file as its uploaders claim it; empty if it has none.
func claimed(f *file) string {
	objects := f.objects()
	if len(objects) == 0 || objects[0].DebugID == (debugid.ID{}) {
		return ""
	}
	return objects[0].DebugID.Breakpad()
}
