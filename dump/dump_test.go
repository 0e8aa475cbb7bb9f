package dump

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/debugid"
)

var (
	guid1 = debugid.GUID{0x49, 0x7b, 0x72, 0xf6, 0x39, 0x0a, 0x44, 0xfc, 0x87, 0x8e, 0x5a, 0x2d, 0x63, 0xb6, 0xcc, 0x4b}
	guid2 = debugid.GUID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	id20  = []byte{0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f, 0x20, 0x21, 0x22, 0x23}
)

func windowsDump() miniFile {
	return miniFile{arch: 9, platform: 2, time: 0x5ab38077, modules: []miniModule{
		{base: 0x140000000, size: 0x9000, stamp: 0x5ab38077, path: `C:\prog ä\crash.exe`, cv: rsds(guid1, 10, `d:\src\größe\crash.pdb`)},
		{base: 0x7ff800000000, size: 0x1f8000, stamp: 0x1000a5b9, path: `C:\Windows\System32\ntdll.dll`, cv: rsds(guid2, 1, "ntdll.pdb")},
		{base: 0x10000000, size: 0x2a000, stamp: 0x3417712b, path: `C:\old\arp.dll`, cv: slices.Concat([]byte("NB10"), u32(0), u32(0x3417712b), u32(3), []byte("arp.pdb\x00"))},
		{base: 0x20000000, size: 0x1000, stamp: 7, path: `C:\x\none.dll`},
		{base: 0x30000000, size: 0x1000, stamp: 8, path: `C:\x\odd.dll`, cv: []byte("NB09????????????????????")},
		{base: 0x40000000, size: 0x5000, stamp: 9, path: `C:\x\gone.dll`, unloaded: true},
	}}
}

func TestMinidumpWindows(t *testing.T) {
	want := &Dump{Kind: Minidump, Arch: "x86_64", OS: "windows", Time: time.Unix(0x5ab38077, 0).UTC(), Modules: []Module{
		{Path: `C:\prog ä\crash.exe`, Name: "crash.exe", Base: 0x140000000, Size: 0x9000, Code: debugid.PE{TimeDateStamp: 0x5ab38077, SizeOfImage: 0x9000},
			Debug: []Debug{{Path: `d:\src\größe\crash.pdb`, Name: "crash.pdb", ID: debugid.ID{GUID: guid1, Age: 10}}}},
		{Path: `C:\Windows\System32\ntdll.dll`, Name: "ntdll.dll", Base: 0x7ff800000000, Size: 0x1f8000, Code: debugid.PE{TimeDateStamp: 0x1000a5b9, SizeOfImage: 0x1f8000},
			Debug: []Debug{{Path: "ntdll.pdb", Name: "ntdll.pdb", ID: debugid.ID{GUID: guid2, Age: 1}}}},
		{Path: `C:\old\arp.dll`, Name: "arp.dll", Base: 0x10000000, Size: 0x2a000, Code: debugid.PE{TimeDateStamp: 0x3417712b, SizeOfImage: 0x2a000},
			Debug: []Debug{{Path: "arp.pdb", Name: "arp.pdb", ID: debugid.PDB20(0x3417712b, 3)}}},
		{Path: `C:\x\none.dll`, Name: "none.dll", Base: 0x20000000, Size: 0x1000, Code: debugid.PE{TimeDateStamp: 7, SizeOfImage: 0x1000}},
		{Path: `C:\x\odd.dll`, Name: "odd.dll", Base: 0x30000000, Size: 0x1000, Code: debugid.PE{TimeDateStamp: 8, SizeOfImage: 0x1000}},
		{Path: `C:\x\gone.dll`, Name: "gone.dll", Base: 0x40000000, Size: 0x5000, Code: debugid.PE{TimeDateStamp: 9, SizeOfImage: 0x5000}, Unloaded: true},
	}}
	for _, padded := range []bool{false, true} {
		f := windowsDump()
		f.padded = padded
		got, err := read(f.bytes())
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("padded %v:\n got %+v\nwant %+v", padded, got, want)
		}
	}
	if id := want.Modules[2].Debug[0].ID.Breakpad(); id != "3417712B3" {
		t.Errorf("NB10 prints as %s, want 3417712B3", id)
	}
}

// TestMinidumpForeign has the records that Breakpad and Crashpad write.
func TestMinidumpForeign(t *testing.T) {
	bpel := append([]byte("LEpB"), id20...)
	le := elfBuilder{binary.LittleEndian, true}
	for _, tt := range []struct {
		name     string
		platform uint32
		module   miniModule
		memory   []byte
		want     Module
	}{
		{"linux", 0x8201, miniModule{stamp: 0, path: `/usr/lib/a\b.so.1`, cv: bpel}, nil,
			Module{Path: `/usr/lib/a\b.so.1`, Name: `a\b.so.1`, BuildID: debugid.NewBuildID(id20)}},
		{"android", 0x8203, miniModule{path: "/data/app/base.apk", cv: bpel[:12]}, nil,
			Module{Path: "/data/app/base.apk", Name: "base.apk", BuildID: debugid.NewBuildID(id20[:8])}},
		{"linux", 0x8201, miniModule{path: "/lib/libm.so.6", cv: rsds(guid1, 0, "libm.so.6")}, nil,
			Module{Path: "/lib/libm.so.6", Name: "libm.so.6", Debug: []Debug{{Path: "libm.so.6", Name: "libm.so.6", ID: debugid.ID{GUID: guid1}}}}},
		{"linux", 0x8201, miniModule{path: "/lib/none.so", cv: append([]byte("LEpB"), make([]byte, 20)...)}, nil,
			Module{Path: "/lib/none.so", Name: "none.so"}},
		{"linux", 0x8201, miniModule{path: "/lib/long.so", cv: append([]byte("LEpB"), bytes.Repeat([]byte{1}, 65)...)}, nil,
			Module{Path: "/lib/long.so", Name: "long.so"}},
		{"linux", 0x8201, miniModule{path: "/lib/mem.so"}, le.image(id20, "mem.so"),
			Module{Path: "/lib/mem.so", Name: "mem.so", BuildID: debugid.NewBuildID(id20)}},
		{"macos", 0x8101, miniModule{path: "/usr/lib/dyld", cv: rsds(guid1, 0, "dyld")}, nil,
			Module{Path: "/usr/lib/dyld", Name: "dyld", UUID: guid1}},
		{"ios", 0x8102, miniModule{path: "/System/UIKit", cv: rsds(guid2, 0, "UIKit")}, nil,
			Module{Path: "/System/UIKit", Name: "UIKit", UUID: guid2}},
	} {
		tt.module.base, tt.module.size = 0x7f0000000000, 0x4000
		tt.want.Base, tt.want.Size = 0x7f0000000000, 0x4000
		f := miniFile{arch: 12, platform: tt.platform, modules: []miniModule{tt.module}}
		if tt.memory != nil {
			f.memory = map[uint64][]byte{0x7f0000000000: tt.memory}
		}
		d, err := read(f.bytes())
		if err != nil {
			t.Fatal(err)
		}
		if d.OS != tt.name || d.Arch != "arm64" || len(d.Problems) > 0 || len(d.Modules) != 1 || !reflect.DeepEqual(d.Modules[0], tt.want) {
			t.Errorf("%s: got %+v, want %+v", tt.name, d, tt.want)
		}
	}
}

// TestMinidumpMemory: what a record does not say is in the image, if the dump
// has the image's memory; a .NET image says there that its PDB is portable.
func TestMinidumpMemory(t *testing.T) {
	ngen := peRecord{typ: 2, data: rsds(guid1, 1, "a.ni.pdb")}
	il := peRecord{typ: 2, stamp: 0x9e6d3fcc, minor: 0x504d, data: rsds(guid2, 1, "a.pdb")}
	other := peRecord{typ: 16, data: make([]byte, 36)}
	wantBoth := []Debug{{Path: "a.ni.pdb", Name: "a.ni.pdb", ID: debugid.ID{GUID: guid1, Age: 1}}, {Path: "a.pdb", Name: "a.pdb", ID: debugid.ID{GUID: guid2, Age: 0x9e6d3fcc}, Portable: true}}
	for _, tt := range []struct {
		name string
		flat bool
		full bool
		cv   []byte
		want []Debug
	}{
		{"loaded", false, false, nil, wantBoth},
		{"flat", true, true, rsds(guid2, 1, "a.pdb"), wantBoth},
		{"another record", false, true, rsds(debugid.GUID{9}, 1, "b.pdb"), append(slices.Clone(wantBoth), Debug{Path: "b.pdb", Name: "b.pdb", ID: debugid.ID{GUID: debugid.GUID{9}, Age: 1}})},
	} {
		image := peImage(0x5ab38077, 0x9000, tt.flat, ngen, other, il)
		f := miniFile{arch: 9, platform: 2, full: tt.full, modules: []miniModule{{base: 0x140000000, size: 0x9000, stamp: 0x5ab38077, path: "a.dll", cv: tt.cv}},
			// In two pieces: one read crosses them.
			memory: map[uint64][]byte{0x1000: []byte("stack"), 0x140000000: image[:0x90], 0x140000090: image[0x90:]}}
		d, err := read(f.bytes())
		if err != nil {
			t.Fatal(err)
		}
		if len(d.Modules) != 1 || !reflect.DeepEqual(d.Modules[0].Debug, tt.want) || len(d.Problems) > 0 {
			t.Errorf("%s: got %+v %v, want %+v", tt.name, d.Modules, d.Problems, tt.want)
		}
	}
}

func TestNoDump(t *testing.T) {
	le := elfBuilder{binary.LittleEndian, true}
	mach := slices.Concat([]byte("\xcf\xfa\xed\xfe"), u32(0x01000007), u32(3), u32(4), make([]byte, 16))
	for _, tt := range []struct{ file, say string }{
		{"PAGEDU64" + strings.Repeat("x", 8000), "Windows kernel (64 bit)"},
		{"PAGEDUMP", "Windows kernel (32 bit)"},
		{"USERDU64", "before minidumps"},
		{"PMDM", "big-endian"},
		{"KDUMP   ", "Linux kernel"},
		{"\x28\xb5\x2f\xfd....", "zstd"},
		{"\x1f\x8b", "gzip"},
		{string(le.image(id20, "x")), "not a core file"},
		{string(mach), "Mach-O core"},
		{"", ErrNotDump.Error()},
		{"MDM", ErrNotDump.Error()},
		{"hello", ErrNotDump.Error()},
	} {
		d, err := read([]byte(tt.file))
		if d != nil || !errors.Is(err, ErrNotDump) || !strings.Contains(err.Error(), tt.say) {
			t.Errorf("%.20q: %v, %v; want %s", tt.file, d, err, tt.say)
		}
		if k := Detect([]byte(tt.file)); k != "" {
			t.Errorf("%.20q: kind %s, want none", tt.file, k)
		}
	}
	for _, tt := range []struct {
		file []byte
		kind Kind
	}{{windowsDump().bytes(), Minidump}, {libraryCore(le).bytes(), ELFCore}, {libraryCore(elfBuilder{binary.BigEndian, false}).bytes(), ELFCore}} {
		if k := Detect(tt.file[:SniffLen]); k != tt.kind {
			t.Errorf("kind %s, want %s", k, tt.kind)
		}
	}
}

// TestMinidumpDamaged cuts and breaks a minidump: the modules that can be
// reached are listed, the rest is said.
func TestMinidumpDamaged(t *testing.T) {
	whole := windowsDump().bytes()
	for _, tt := range []struct {
		name    string
		change  func(p []byte) []byte
		modules int // -1: ErrBroken
		say     string
	}{
		{"header only", func(p []byte) []byte { return p[:32] }, -1, "directory"},
		{"half a header", func(p []byte) []byte { return p[:20] }, -1, "outside"},
		{"version", func(p []byte) []byte { p[4] = 0; return p }, -1, "version"},
		{"streams", func(p []byte) []byte { copy(p[8:], u32(1<<31)); return p }, -1, "streams"},
		{"no list", func(p []byte) []byte { copy(p[8:], u32(1)); return p }, -1, "no list"},
		{"list cut", func(p []byte) []byte { return p[:32+3*12+56+4+50] }, -1, "list of 5 modules"},
		{"list ends", func(p []byte) []byte { return p[:32+3*12+56+4+108+50] }, 1, "ends after 1"},
		{"count", func(p []byte) []byte { copy(p[32+3*12+56:], u32(0xffffffff)); return p }, 10, "module 7 of 4294967295"},
		{"names gone", func(p []byte) []byte { return p[:1<<16] }, 5, "module 5 of 5"},
		{"name length", func(p []byte) []byte {
			copy(p[binary.LittleEndian.Uint32(p[32+3*12+56+4+20:]):], u32(0x7fffffff))
			return p
		}, 6, "longer than the longest path"},
		{"record gone", func(p []byte) []byte { copy(p[32+3*12+56+4+80:], u32(0xfffffff0)); return p }, 6, "module 1 of 5"},
		{"unloaded", func(p []byte) []byte { copy(p[32+3*12+56+4+5*108+4:], u32(0)); return p }, 5, "unloaded"},
	} {
		d, err := read(tt.change(slices.Clone(whole)))
		if tt.modules < 0 {
			if d != nil || !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), tt.say) {
				t.Errorf("%s: %v, %v; want %s", tt.name, d, err, tt.say)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: got error %v, want no error", tt.name, err)
			continue
		}
		if len(d.Modules) != tt.modules || !strings.Contains(strings.Join(d.Problems, "\n"), tt.say) {
			t.Errorf("%s: %d modules, %q; want %d, %s", tt.name, len(d.Modules), d.Problems, tt.modules, tt.say)
		}
	}
}

// failing fails at every read behind its first bytes.
type failing struct {
	p  []byte
	ok int64
}

var errDisk = errors.New("disk on fire")

func (f failing) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > f.ok {
		return 0, errDisk
	}
	return copy(p, f.p[off:]), nil
}

func TestReaderFails(t *testing.T) {
	for _, p := range [][]byte{windowsDump().bytes(), libraryCore(elfBuilder{binary.LittleEndian, true}).bytes()} {
		for _, ok := range []int64{0, 64, 100} {
			if d, err := Read(failing{p, ok}, int64(len(p))); d != nil || !errors.Is(err, errDisk) || errors.Is(err, ErrBroken) {
				t.Errorf("good to %d: %v, %v; want nil, %v, not ErrBroken", ok, d, err, errDisk)
			}
		}
		if _, err := Read(bytes.NewReader(p), int64(len(p))+1<<20); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("a file that shrank: %v, want io.ErrUnexpectedEOF or no error", err)
		}
	}
}

// sparse is a large file of which few bytes are not zero.
type sparse struct {
	head []byte
	at   int64 // where tail stands
	tail []byte
}

func (s sparse) ReadAt(p []byte, off int64) (int, error) {
	clear(p)
	if off < int64(len(s.head)) {
		copy(p, s.head[off:])
	}
	if skip := s.at - off; skip < int64(len(p)) {
		if skip >= 0 {
			copy(p[skip:], s.tail)
		} else if -skip < int64(len(s.tail)) {
			copy(p, s.tail[-skip:])
		}
	}
	return len(p), nil
}

// TestHuge: a full dump of more than 4 GiB is read where its memory is.
func TestHuge(t *testing.T) {
	const gap = 6 << 30
	image := peImage(1, 0x9000, false, peRecord{typ: 2, data: rsds(guid1, 2, "a.pdb")})
	f := miniFile{arch: 9, platform: 2, full: true, modules: []miniModule{{base: 0x140000000, size: 0x9000, stamp: 1, path: "a.dll"}},
		memory: map[uint64][]byte{0x1000: []byte("0123"), 0x140000000: image}}
	p := f.bytes()
	i := bytes.Index(p, slices.Concat(u64(0x1000), u64(4)))
	copy(p[i+8:], u64(gap))
	base := int64(binary.LittleEndian.Uint64(p[i-8:]))
	d, err := Read(sparse{p[:base], base + gap, image}, base+gap+int64(len(image)))
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Modules) != 1 || len(d.Modules[0].Debug) != 1 || d.Modules[0].Debug[0].ID.Age != 2 || len(d.Problems) > 0 {
		t.Errorf("got %+v, want Modules of length 1, Modules[0].Debug of length 1, Modules[0].Debug[0].ID.Age 2, Problems of length 0", d)
	}
}

// held measures what reading p leaves allocated and allocates in all.
func held(t *testing.T, r io.ReaderAt, size int64) (all uint64, took time.Duration) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	start := time.Now()
	d, err := Read(r, size)
	took = time.Since(start)
	runtime.ReadMemStats(&after)
	if d != nil {
		t.Logf("%d modules, %q", len(d.Modules), d.Problems)
	}
	t.Logf("err %v, %d bytes allocated, %v", err, after.TotalAlloc-before.TotalAlloc, took)
	return after.TotalAlloc - before.TotalAlloc, took
}

// TestBounds feeds dumps that ask for as much as their format lets them.
func TestBounds(t *testing.T) {
	const limit = 16 << 20
	t.Run("shared names", func(t *testing.T) {
		// Every module has the longest name there is: one, shared.
		f := miniFile{arch: 9, platform: 2, modules: []miniModule{{path: strings.Repeat("x", 30000), cv: rsds(guid1, 1, strings.Repeat("y", 30000))}}}
		p := f.bytes()
		list := bytes.Clone(p[32+2*12+56+4:][:moduleSize])
		copy(p[32+12+8:], u32(uint32(len(p)))) // the list moves to the end
		p = append(p, u32(100000)...)
		p = append(p, bytes.Repeat(list, 100000)...)
		if all, took := held(t, bytes.NewReader(p), int64(len(p))); all > 2*limit || took > 3*time.Second {
			t.Errorf("%d bytes, %v; want at most %v, at most %v", all, took, 2*limit, 3*time.Second)
		}
	})
	t.Run("regions", func(t *testing.T) {
		f := miniFile{arch: 9, platform: 2, full: true, modules: []miniModule{{path: "a"}}, memory: map[uint64][]byte{0: {1}}}
		p := f.bytes()
		copy(p[32+2*12+8:], u32(uint32(len(p))))
		p = slices.Concat(p, u64(1<<60), u64(0))
		for i := range uint64(1 << 18) { // a byte each: reading across them is slow
			p = binary.LittleEndian.AppendUint64(p, 1<<17-i)
			p = binary.LittleEndian.AppendUint64(p, 1)
		}
		if all, took := held(t, bytes.NewReader(p), int64(len(p))); all > limit || took > 3*time.Second {
			t.Errorf("%d bytes, %v; want at most %v, at most %v", all, took, limit, 3*time.Second)
		}
	})
	t.Run("core", func(t *testing.T) {
		// As many mapped files as are read, each beginning like an image.
		f := coreFile{elfBuilder: elfBuilder{binary.LittleEndian, true}, machine: 62}
		page := f.image(id20, "")
		for i := range uint64(60000) {
			f.maps = append(f.maps, coreMap{addr: 0x1000 * i, size: 0x1000, flags: 5, path: fmt.Sprintf("/f%d", i)})
		}
		f.maps[0].memory = page
		p := f.bytes()
		first := f.segment(0, 0, 0, 0, 0, 0, 0)
		one := p[64+len(first):][:len(first)]
		for i := range uint64(len(f.maps)) { // all share the one page
			at := 64 + len(first)*int(i+1)
			copy(p[at:], one)
			copy(p[at+16:], u64(0x1000*i))
		}
		if all, took := held(t, bytes.NewReader(p), int64(len(p))); all > 2*limit || took > 3*time.Second {
			t.Errorf("%d bytes, %v; want at most %v, at most %v", all, took, 2*limit, 3*time.Second)
		}
	})
	t.Run("noise", func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(1, 2))
		for _, p := range [][]byte{windowsDump().bytes(), libraryCore(elfBuilder{binary.LittleEndian, true}).bytes()} {
			for range 2000 {
				q := slices.Clone(p)
				for range 1 + rnd.IntN(8) {
					q[rnd.IntN(min(len(q), 2048))] = byte(rnd.Uint32())
				}
				check(t, q)
			}
		}
	})
}

// check is what holds for every input.
func check(t *testing.T, p []byte) {
	t.Helper()
	d, err := read(p)
	if err != nil {
		if d != nil || errors.Is(err, ErrNotDump) == errors.Is(err, ErrBroken) {
			t.Fatalf("%v with error %v; want no dump, and either ErrNotDump or ErrBroken", d, err)
		}
		return
	}
	if d.Kind != Detect(p[:min(len(p), SniffLen)]) || len(d.Modules) > maxModules || len(d.Problems) > maxProblems {
		t.Fatalf("%s, %d modules, %d problems; want the kind that Detect finds, at most %d and %d", d.Kind, len(d.Modules), len(d.Problems), maxModules, maxProblems)
	}
	for _, m := range d.Modules {
		if m.Path == "" && !m.HasID() && !m.Unloaded {
			t.Fatalf("%+v names nothing", m)
		}
		if !strings.HasSuffix(m.Path, m.Name) || strings.ContainsRune(m.Name, '/') || m.BuildID.Len() > debugid.MaxBuildID {
			t.Fatalf("got %+v, want Path that ends with %q, not strings.ContainsRune(m.Name, '/'), BuildID.Len() at most %v", m, m.Name, debugid.MaxBuildID)
		}
		for _, d := range m.Debug {
			if d.ID.IsZero() || strings.ContainsAny(d.Name, `/\`) {
				t.Fatalf("%+v, want not d.ID.IsZero(), not strings.ContainsAny(d.Name, `/\\`)", d)
			}
		}
	}
}

func FuzzMinidump(f *testing.F) {
	w := windowsDump()
	f.Add(w.bytes())
	w.memory = map[uint64][]byte{0x140000000: peImage(1, 2, false, peRecord{typ: 2, data: rsds(guid1, 1, "a.pdb")})}
	f.Add(w.bytes())
	w.full, w.padded, w.platform = true, true, 0x8201
	f.Add(w.bytes())
	for _, p := range realDumps(f, Minidump) {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p []byte) { check(t, p) })
}

func FuzzCore(f *testing.F) {
	for _, e := range builders {
		c := libraryCore(e)
		f.Add(c.bytes())
		c.noList = true
		f.Add(c.bytes())
	}
	f.Fuzz(func(t *testing.T, p []byte) { check(t, p) })
}

// TestReadFile: what is wrong with a file on disk is said with its path.
func TestReadFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(text, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{dir: ErrNotDump, text: ErrNotDump, filepath.Join(dir, "none.dmp"): fs.ErrNotExist} {
		if d, err := ReadFile(path); !errors.Is(err, want) || !strings.Contains(err.Error(), path) || d != nil {
			t.Errorf("%s: %v, %v; want %v with the path", path, d, err, want)
		}
	}
}
