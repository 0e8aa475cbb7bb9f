package objfile

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/symfile"
)

func TestELFFiles(t *testing.T) {
	const sha1 = "code=adac45aa231bba3143d7af433767c61f31021c16 debug=AA45ACAD1B2331BA43D7AF433767C61F0 build=adac45aa231bba3143d7af433767c61f31021c16"
	for file, want := range map[string]string{
		"prog-sha1":          "elf x86_64 " + sha1 + " executable+debug+main debug+symtab+unwind size=1310",
		"prog-sha1.debug":    "elf x86_64 " + sha1 + " debug+companion debug+symtab size=1310",
		"prog-sha1.stripped": "elf x86_64 " + sha1 + " executable+main symtab+unwind size=0",
		"prog-zlib":          "elf x86_64 " + sha1 + " executable+debug+main debug+symtab+unwind size=1310",
		"prog-zstd":          "elf x86_64 " + sha1 + " executable+debug+main debug+symtab+unwind size=1310",
		"prog-noshdr":        "elf x86_64 " + sha1 + " executable+companion+main unwind+no-sections size=0",
		"prog-b2":            "elf x86_64 code=abcd debug=0000CDAB0000000000000000000000000 build=abcd executable+debug+main debug+symtab+unwind size=1310",
		"prog-b8":            "elf x86_64 code=0123456789abcdef debug=67452301AB89EFCD00000000000000000 build=0123456789abcdef executable+debug+main debug+symtab+unwind size=1310",
		"prog-b24": "elf x86_64 code=000102030405060708090a0b0c0d0e0f1011121314151617 debug=030201000504070608090A0B0C0D0E0F0 " +
			"build=000102030405060708090a0b0c0d0e0f1011121314151617 executable+debug+main debug+symtab+unwind size=1310",
		"prog-none": "elf x86_64 code= debug=FCFFD37C1682FB8F451EFB2BD00A13860 build= executable+debug+main debug+symtab+unwind size=1310",
		"prog-zero": "elf x86_64 code=0000000000000000000000000000000000000000 debug= build=0000000000000000000000000000000000000000 " +
			"executable+debug+main debug+symtab+unwind size=1310",
		"libprog.so": "elf x86_64 code=48064905354de52440218c823ed3e8ec261ee56d debug=054906484D3524E540218C823ED3E8EC0 " +
			"build=48064905354de52440218c823ed3e8ec261ee56d executable+debug debug+symtab+unwind size=1085",
		"split.dwo":      "elf x86_64 code= debug= build= debug debug size=1223",
		"prog-split.dwp": "elf x86_64 code= debug= build= debug debug size=1323",
		"e-arm": "elf arm code=f4a534221fad19193e39d12715382adfaac16fc2 debug=2234A5F4AD1F19193E39D12715382ADF0 " +
			"build=f4a534221fad19193e39d12715382adfaac16fc2 executable+debug+main debug+symtab+unwind size=458",
		"e-arm64": "elf arm64 code=e833b71eed00a58db3202fbf41f2e6d7892551ea debug=1EB733E800ED8DA5B3202FBF41F2E6D70 " +
			"build=e833b71eed00a58db3202fbf41f2e6d7892551ea executable+debug+main debug+symtab+unwind size=478",
		"e-fast": "elf x86_64 code=6f25e31fc3cae4ff debug=1FE3256FCAC3FFE400000000000000000 build=6f25e31fc3cae4ff executable+debug+main debug+symtab+unwind size=442",
		"e-mips-be": "elf mips code=04bd5c789278b0791976aa721667ea9e409d5f1d debug=04BD5C789278B0791976AA721667EA9E0 " +
			"build=04bd5c789278b0791976aa721667ea9e409d5f1d executable+debug+main debug+symtab+unwind size=422",
		"e-ppc64-be": "elf ppc64 code=25c89eb99ab1bd0cf53d87bb1d9e66a86aa5af29 debug=25C89EB99AB1BD0CF53D87BB1D9E66A80 " +
			"build=25c89eb99ab1bd0cf53d87bb1d9e66a86aa5af29 executable+debug+main debug+symtab+unwind size=470",
		"e-riscv64": "elf riscv64 code=007a871524f29ebbd56b55ec435a21f9 debug=15877A00F224BB9ED56B55EC435A21F90 " +
			"build=007a871524f29ebbd56b55ec435a21f9 executable+debug+main debug+symtab+unwind size=476",
		"e-x86": "elf x86 code=898fb936e14cac154c2685ce14236fe6 debug=36B98F894CE115AC4C2685CE14236FE60 " +
			"build=898fb936e14cac154c2685ce14236fe6 executable+debug+main debug+symtab+unwind size=424",
	} {
		objects, err := identifyBytes(t, identifyELF, file, readTestdata(t, "elf/"+file))
		if err != nil {
			t.Errorf("%s: identifyBytes: error %v, want no error", file, err)
		} else if got := summary(objects[0]); got != want {
			t.Errorf("%s:\n got %s\nwant %s", file, got, want)
		}
	}
}

// elfImage describes an ELF file to be made.
type elfImage struct {
	narrow, big bool
	typ         uint16
	machine     uint16
	segments    []elfPart
	sections    []elfPart // without the null section and the names
	extended    bool      // the counts stand in section 0
}

type elfPart struct {
	name  string
	typ   uint32
	flags uint64
	data  []byte
	size  uint64 // if not 0, the size to claim
	off   uint64 // if not 0, the offset to claim
	align uint64
}

// note returns a GNU note of the given type.
func (e elfImage) note(typ uint32, desc []byte) []byte {
	p := binary.BigEndian.AppendUint32(nil, 4)
	p = binary.BigEndian.AppendUint32(p, uint32(len(desc)))
	p = binary.BigEndian.AppendUint32(p, typ)
	if !e.big {
		p = binary.LittleEndian.AppendUint32(nil, 4)
		p = binary.LittleEndian.AppendUint32(p, uint32(len(desc)))
		p = binary.LittleEndian.AppendUint32(p, typ)
	}
	return append(append(p, "GNU\x00"...), desc...)
}

// bytes makes the file: header, program headers, contents, section headers.
func (e elfImage) bytes() []byte {
	order := binary.AppendByteOrder(binary.LittleEndian)
	if e.big {
		order = binary.BigEndian
	}
	u16 := func(p []byte, v uint64) []byte { return order.AppendUint16(p, uint16(v)) }
	u32 := func(p []byte, v uint64) []byte { return order.AppendUint32(p, uint32(v)) }
	addr, ehsize, phsize, shsize := order.AppendUint64, uint64(64), uint64(56), uint64(64)
	if e.narrow {
		addr, ehsize, phsize, shsize = u32, 52, 32, 40
	}
	sections := e.sections
	names := "\x00"
	if len(sections) > 0 {
		sections = append([]elfPart{{}}, sections...)
		sections = append(sections, elfPart{name: ".shstrtab", typ: 3})
		for _, s := range sections[1:] {
			names += s.name + "\x00"
		}
		sections[len(sections)-1].data = []byte(names)
	}
	start := ehsize + phsize*uint64(len(e.segments))
	var body []byte
	place := func(parts []elfPart) []elfPart {
		placed := append([]elfPart{}, parts...)
		for i := range placed {
			p := &placed[i]
			if p.off == 0 {
				p.off = start + uint64(len(body))
			}
			if p.size == 0 {
				p.size = uint64(len(p.data))
			}
			body = append(body, p.data...)
		}
		return placed
	}
	segments := place(e.segments)
	sections = place(sections)

	class, data := byte(2), byte(1)
	if e.narrow {
		class = 1
	}
	if e.big {
		data = 2
	}
	p := append([]byte("\x7fELF"), class, data, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	p = u32(u16(u16(p, uint64(e.typ)), uint64(e.machine)), 1)
	p = addr(p, 0)
	phoff, shoff := uint64(0), uint64(0)
	phnum, shnum, shstrndx := uint64(len(segments)), uint64(len(sections)), uint64(0)
	if phnum > 0 {
		phoff = ehsize
	}
	if shnum > 0 {
		shoff, shstrndx = start+uint64(len(body)), shnum-1
	}
	first := [3]uint64{}
	if e.extended {
		first = [3]uint64{shnum, shstrndx, phnum}
		phnum, shnum, shstrndx = 0xffff, 0, 0xffff
	}
	p = addr(addr(p, phoff), shoff)
	p = u16(u16(u32(p, 0), ehsize), phsize)
	p = u16(u16(u16(u16(p, phnum), shsize), shnum), shstrndx)
	for _, s := range segments {
		if e.narrow {
			p = addr(addr(addr(u32(p, uint64(s.typ)), s.off), 0), 0)
			p = u32(addr(addr(p, s.size), s.size), 0)
		} else {
			p = addr(addr(addr(u32(u32(p, uint64(s.typ)), 0), s.off), 0), 0)
			p = addr(addr(p, s.size), s.size)
		}
		p = addr(p, s.align)
	}
	p = append(p, body...)
	for i, s := range sections {
		name, link, info := strings.Index(names, "\x00"+s.name+"\x00")+1, uint64(0), uint64(0)
		if i == 0 {
			name, s.off, s.size, link, info = 0, 0, first[0], first[1], first[2]
		}
		p = addr(u32(u32(p, uint64(name)), uint64(s.typ)), s.flags)
		p = addr(addr(addr(p, 0), s.off), s.size)
		p = addr(addr(u32(u32(p, link), info), 1), 0)
	}
	return p
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	p, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestELFIDs has the identifier vectors for build-ids and code hashes, in
// every class and byte order, and from every place where an id may stand.
func TestELFIDs(t *testing.T) {
	triple := make([]byte, 128)
	for i := range triple {
		triple[i] = byte(i * 3)
	}
	upTo := func(from, to int) (p []byte) {
		for i := from; i <= to; i++ {
			p = append(p, byte(i))
		}
		return p
	}
	for _, v := range []struct {
		build  string
		text   []byte
		debug  string // little-endian
		bigger string // big-endian
	}{
		{"f1c3bcc0279865fe3058404b2831d9e64135386c", nil, "C0BCC3F19827FE653058404B2831D9E60", "F1C3BCC0279865FE3058404B2831D9E60"},
		{"b931c4fbd186e551bb617b3807d594b9064f5cac", nil, "FBC431B986D151E5BB617B3807D594B90", "B931C4FBD186E551BB617B3807D594B90"},
		{"dfb85de42daffd09640c8fe377d572de3e168920", nil, "E45DB8DFAF2D09FD640C8FE377D572DE0", "DFB85DE42DAFFD09640C8FE377D572DE0"},
		{"69389d485a9793dbe873f0ea2c93e02efaa9aa3d", nil, "489D3869975ADB93E873F0EA2C93E02E0", "69389D485A9793DBE873F0EA2C93E02E0"},
		{"180a373d6afbabf0eb1f09be1bc45bd796a71085", nil, "3D370A18FB6AF0ABEB1F09BE1BC45BD70", "180A373D6AFBABF0EB1F09BE1BC45BD70"},
		{"001ba81f23966cf77e40bcbb0701cd34", nil, "1FA81B009623F76C7E40BCBB0701CD340", "001BA81F23966CF77E40BCBB0701CD340"},
		{"0011223344556677", nil, "33221100554477660000000000000000" + "0", "00112233445566770000000000000000" + "0"},
		{"00010203", nil, "03020100000000000000000000000000" + "0", "00010203000000000000000000000000" + "0"},
		{hex.EncodeToString(upTo(0, 31)), nil, "030201000504070608090A0B0C0D0E0F0", "000102030405060708090A0B0C0D0E0F0"},
		{"abcd", nil, "0000CDAB000000000000000000000000" + "0", "ABCD0000000000000000000000000000" + "0"},
		{hex.EncodeToString(upTo(1, 64)), nil, "0403020106050807090A0B0C0D0E0F100", "0102030405060708090A0B0C0D0E0F100"},
		{"", triple, "80808080808000000000008080808080" + "0", "80808080808000000000008080808080" + "0"},
		{"", upTo(1, 20), "101010100605080" + "7090A0B0C0D0E0F10" + "0", "1010101005060708090A0B0C0D0E0F100"},
		{"", bytes.Repeat([]byte{1}, 5000), "", ""}, // 256 times the same byte
		{"", append(make([]byte, 4096), 7), "", ""}, // only the first 4096 bytes count
		{"", nil, "", ""},
	} {
		for i := range 16 {
			e := elfImage{narrow: i&1 != 0, big: i&2 != 0, typ: elfDyn, machine: 62, extended: i&8 != 0}
			if v.build != "" {
				note := append(e.note(1, make([]byte, 16)), e.note(3, unhex(t, v.build))...)
				if i&4 != 0 {
					e.segments = []elfPart{{typ: segNote, data: note, align: 4}}
				} else {
					e.sections = []elfPart{{name: ".note.any", typ: secNote, flags: secAlloc, data: note}}
				}
			}
			if v.text != nil {
				e.sections = append(e.sections, elfPart{name: ".text", typ: secProgbits, flags: secAlloc, data: v.text})
			}
			if len(e.sections) == 0 || len(e.segments) == 0 {
				e.extended = false
			}
			want := v.debug
			if e.big {
				want = v.bigger
			}
			objects, err := identifyBytes(t, identifyELF, "x", e.bytes())
			if err != nil {
				t.Errorf("%q, variant %d: %v", v.build, i, err)
				continue
			}
			if o := objects[0]; o.CodeID != v.build || string(o.BuildID) != v.build || o.DebugID.Breakpad() != want {
				t.Errorf("%q, variant %d: %s, want debug=%s", v.build, i, summary(o), want)
			}
		}
	}
}

// TestELFClasses has files of which only the headers matter.
func TestELFClasses(t *testing.T) {
	id := bytes.Repeat([]byte{0xab}, 20)
	e := elfImage{}
	note := elfPart{name: ".note.gnu.build-id", typ: secNote, flags: secAlloc, data: e.note(3, id)}
	noteSegment := elfPart{typ: segNote, data: note.data, align: 4}
	text := elfPart{name: ".text", typ: secProgbits, flags: secAlloc, data: []byte{0x90, 0x90}}
	noText := elfPart{name: ".text", typ: secNobits, flags: secAlloc, size: 100}
	dwarf := elfPart{name: ".debug_info", typ: secProgbits, data: make([]byte, 30)}
	symtab := elfPart{name: ".symtab", typ: secSymtab, data: append(make([]byte, 24+4), append([]byte{2, 0, 1, 0}, make([]byte, 16)...)...)}
	interp := elfPart{typ: segInterp, data: []byte("/lib/ld.so\x00")}
	badInterp := elfPart{typ: segInterp, data: []byte{0xff, 0xfe, 0xff, 0}}
	load := elfPart{typ: segLoad, data: make([]byte, 64)}
	for _, c := range []struct {
		name string
		e    elfImage
		want string // role flags and features
	}{
		{"static program", elfImage{typ: elfExec, sections: []elfPart{note, text}}, "executable+companion+main "},
		{"program", elfImage{typ: elfExec, segments: []elfPart{interp}, sections: []elfPart{note, text}}, "executable+main "},
		{"debug file of a program", elfImage{typ: elfExec, segments: []elfPart{badInterp}, sections: []elfPart{note, noText, dwarf}}, "debug+companion+main debug"},
		{"library", elfImage{typ: elfDyn, sections: []elfPart{note, text}}, "executable "},
		{"unstripped library", elfImage{typ: elfDyn, sections: []elfPart{note, text, dwarf, symtab}}, "executable+debug debug+symtab"},
		{"symbols only", elfImage{typ: elfDyn, sections: []elfPart{note, noText, symtab}}, "debug+companion symtab"},
		{"symbols and code", elfImage{typ: elfDyn, sections: []elfPart{note, text, symtab}}, "executable symtab"},
		{"no debug contents", elfImage{typ: elfDyn, sections: []elfPart{note, text, {name: ".debug_info", typ: secNobits, size: 9}}}, "executable "},
		{"kernel module", elfImage{typ: elfRel, sections: []elfPart{note, text, dwarf, symtab}}, "debug debug+symtab"},
		{"object file", elfImage{typ: elfRel, sections: []elfPart{text, dwarf, symtab}}, " debug+symtab"},
		{"no headers", elfImage{typ: elfDyn, segments: []elfPart{noteSegment, load}}, "executable+companion no-sections"},
		{"no headers, no code", elfImage{typ: elfDyn, segments: []elfPart{noteSegment}}, "companion "},
		{"mini debug info", elfImage{typ: elfDyn, sections: []elfPart{note, text, {name: ".gnu_debugdata", typ: secProgbits, data: []byte{1}}}}, "executable symtab"},
		{"unwind", elfImage{typ: elfDyn, sections: []elfPart{note, text, {name: ".eh_frame", typ: secProgbits, flags: secAlloc, data: []byte{1}}}}, "executable unwind"},
		{"PlayStation program", elfImage{typ: elfPSDynExec, segments: []elfPart{noteSegment, interp, load}}, "executable+main no-sections"},
		{"PlayStation library", elfImage{typ: elfPSDyn, segments: []elfPart{noteSegment, load}}, "executable+companion no-sections"},
	} {
		c.e.machine = 62
		objects, err := identifyBytes(t, identifyELF, "x", c.e.bytes())
		if err != nil {
			t.Errorf(`%s: identifyBytes("x"): error %v, want no error`, c.name, err)
			continue
		}
		words := strings.SplitN(summary(objects[0]), " ", 6)
		if got := words[5][:strings.LastIndex(words[5], " ")]; got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestELFPlayStationID(t *testing.T) {
	e := elfImage{typ: elfPSDyn, machine: 62, segments: []elfPart{{typ: segPSDynlibData, data: bytes.Repeat([]byte{0x12}, 40)}}}
	objects, err := identifyBytes(t, identifyELF, "x", e.bytes())
	if err != nil || objects[0].CodeID != strings.Repeat("12", 20) {
		t.Errorf("got %v, %v; want the build-id of 20 bytes 12", objects, err)
	}
}

// TestELFNoID has notes that are no usable build-id.
func TestELFNoID(t *testing.T) {
	e := elfImage{typ: elfDyn, machine: 62}
	long := e.note(3, make([]byte, 65))
	other := append([]byte{}, e.note(3, make([]byte, 20))...)
	copy(other[12:], "Go\x00\x00")
	lying := e.note(3, make([]byte, 20))
	binary.LittleEndian.PutUint32(lying[4:], 0xffffffff)
	for name, note := range map[string][]byte{
		"65 bytes": long, "1 byte": e.note(3, []byte{1}), "empty": e.note(3, nil), "another name": other, "a lying size": lying,
		"another type": e.note(5, make([]byte, 20)), "no note": {1, 2, 3},
	} {
		e.segments = []elfPart{{typ: segNote, data: note}}
		objects, err := identifyBytes(t, identifyELF, "x", e.bytes())
		if err != nil || objects[0].CodeID != "" || !objects[0].DebugID.IsZero() {
			t.Errorf(`%s: identifyBytes("x"): %v, error %v; want objects[0].CodeID "", objects[0].DebugID.IsZero()`, name, objects, err)
		}
	}
	// The id stands behind a note that is none, and its padding is missing.
	e.segments = []elfPart{{typ: segNote, data: append(e.note(5, make([]byte, 16)), e.note(3, []byte{0xab, 0xcd})...), align: 8}}
	objects, err := identifyBytes(t, identifyELF, "x", e.bytes())
	if err != nil || objects[0].CodeID != "abcd" {
		t.Errorf("unpadded: %v, %v; want the build-id abcd", objects, err)
	}
}

func TestELFArch(t *testing.T) {
	for _, c := range []struct {
		machine uint16
		narrow  bool
		want    string
	}{
		{3, true, "x86"}, {62, false, "x86_64"}, {62, true, "x86_64"}, {40, true, "arm"}, {183, false, "arm64"}, {8, true, "mips"}, {8, false, "mips64"},
		{20, true, "ppc"}, {21, false, "ppc64"}, {22, false, "s390x"}, {22, true, "s390"}, {243, true, "riscv32"}, {243, false, "riscv64"}, {2, true, "sparc"},
		{43, false, "sparc64"}, {258, false, "loongarch64"}, {247, false, "bpf"}, {0, false, ""}, {65000, false, "machine65000"},
	} {
		objects, err := identifyBytes(t, identifyELF, "x", elfImage{typ: elfDyn, machine: c.machine, narrow: c.narrow}.bytes())
		if err != nil || objects[0].Arch != c.want {
			t.Errorf("machine %d: %v, %v; want %s", c.machine, objects, err, c.want)
		}
	}
}

// TestELFHostile: files with contradictory headers, and the error of each.
func TestELFHostile(t *testing.T) {
	edit := func(e elfImage, off int, value ...byte) []byte {
		p := e.bytes()
		copy(p[off:], value)
		return p
	}
	with := func(parts ...elfPart) elfImage { return elfImage{typ: elfDyn, machine: 62, sections: parts} }
	text := elfPart{name: ".text", typ: secProgbits, flags: secAlloc, data: []byte{1}}
	for name, c := range map[string]struct {
		p    []byte
		want string
	}{
		"empty":                {nil, "outside the file"},
		"magic only":           {[]byte("\x7fELF"), "outside the file"},
		"class":                {edit(with(text), 4, 3), "class 3"},
		"byte order":           {edit(with(text), 5, 0), "byte order 0"},
		"core":                 {elfImage{typ: elfCore, machine: 62}.bytes(), "core dump"},
		"sections outside":     {edit(with(text), 40, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), "outside the file"},
		"segments outside":     {edit(elfImage{typ: elfDyn, segments: []elfPart{text}}, 32, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), "outside the file"},
		"section size":         {edit(with(text), 58, 1), "section headers of 1 bytes"},
		"segment size":         {edit(elfImage{typ: elfDyn, segments: []elfPart{text}}, 54, 1, 1), "program headers of 257 bytes"},
		"section of 4 GiB":     {with(elfPart{name: ".text", typ: secProgbits, data: []byte{1}, size: 1 << 32}).bytes(), "lies outside"},
		"section wraps around": {with(elfPart{name: ".text", typ: secProgbits, off: ^uint64(0) - 3, size: 8}).bytes(), "lies outside"},
		"load of 4 GiB":        {elfImage{typ: elfDyn, segments: []elfPart{{typ: segLoad, size: 1 << 32}}}.bytes(), "lies outside"},
		"65535 segments":       {edit(elfImage{typ: elfDyn, segments: []elfPart{text}}, 56, 0xff, 0xff), "65535 program headers"},
	} {
		objects, err := identifyBytes(t, identifyELF, "x", c.p)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v, want %q", name, objects, err, c.want)
		}
	}
	// A section count of 2^61: times 64 it wraps around.
	e := with(text)
	e.extended = true
	p := e.bytes()
	shoff := binary.LittleEndian.Uint64(p[40:])
	p[56], p[57] = 0, 0
	binary.LittleEndian.PutUint64(p[shoff+32:], 1<<61)
	if _, err := identifyBytes(t, identifyELF, "x", p); !errors.Is(err, ErrBroken) {
		t.Errorf("2^61 sections: %v, want ErrBroken", err)
	}
}

// manySections returns a file of n sections that all share their contents.
func manySections(n int, typ uint32, name string, size int) []byte {
	e := elfImage{typ: elfDyn, machine: 62, extended: true, segments: []elfPart{{typ: segNote, align: 4}}}
	e.segments[0].data = e.note(3, make([]byte, 20))
	e.sections = []elfPart{{name: name, typ: typ, data: make([]byte, size)}}
	p := e.bytes()
	shoff := int(binary.LittleEndian.Uint64(p[40:]))
	one, names := bytes.Clone(p[shoff+64:shoff+128]), bytes.Clone(p[shoff+128:shoff+192])
	binary.LittleEndian.PutUint64(p[shoff+32:], uint64(n))
	p = p[:shoff+64]
	for range n - 2 {
		p = append(p, one...)
	}
	p = append(p, names...)
	binary.LittleEndian.PutUint32(p[shoff+40:], uint32(n-1))
	return p
}

// TestELFManySections has files whose section headers are more than the
// budget for ids: known to elf.NewFile for gigabytes of memory.
func TestELFManySections(t *testing.T) {
	long := "." + strings.Repeat("x", 250)
	for _, c := range []struct {
		n       int
		typ     uint32
		name    string
		size    int
		unknown bool
	}{
		{100_000, secProgbits, long, 1, false},
		{100_000, secSymtab, long, 200_000, true},
		{100_000, secDynsym, long, 48, true},
		{100_000, secProgbits, ".zdebug_line", 100, false},
		{100_000, secNote, ".note", 1 << 20, false},
		{maxELFSections - 1, secProgbits, ".debug_line", 1 << 20, false},
	} {
		p := manySections(c.n, c.typ, c.name, c.size)
		var objects []Object
		var err error
		n := allocated(func() { objects, err = identifyBytes(t, identifyELF, "x", p) })
		if err != nil || objects[0].BuildID.Len() != 20 || objects[0].Features.Unknown != c.unknown {
			t.Errorf("%d of type %d: %v, %v; want a build-id of 20 bytes and unknown features: %v", c.n, c.typ, objects, err, c.unknown)
		}
		if n > maxAlloc {
			t.Errorf("%d of type %d: %d bytes allocated, want at most %v", c.n, c.typ, n, maxAlloc)
		}
	}
	// Too many: the id of the segments is lost, too, because the file lies.
	if _, err := identifyBytes(t, identifyELF, "x", manySections(maxELFSections+1, secProgbits, ".x", 1)); !errors.Is(err, ErrBroken) {
		t.Errorf("one section too many: %v", err)
	}
	// More names than the limit: the roles come from the segments.
	objects, err := identifyBytes(t, identifyELF, "x", manySections(3, secProgbits, strings.Repeat("n", maxELFNames), 1))
	if err != nil || !objects[0].Features.Unknown {
		t.Errorf("long names: %v, %v; want unknown features", objects, err)
	}
}

// TestELFDebugSize: the size of a compressed section is a claim.
func TestELFDebugSize(t *testing.T) {
	claim := func(n uint64) elfPart {
		p := binary.LittleEndian.AppendUint64(make([]byte, 8), n)
		return elfPart{name: ".debug_info", typ: secProgbits, flags: secCompressed, data: append(p, make([]byte, 84)...)}
	}
	gnu := append([]byte("ZLIB"), 0, 0, 0, 0, 0, 0, 0x12, 0x34)
	for _, c := range []struct {
		s    elfPart
		want int64
	}{
		{claim(5000), 5000},
		{claim(1 << 62), 100 * maxInflateRatio},
		{claim(^uint64(0)), 100 * maxInflateRatio},
		{elfPart{name: ".zdebug_info", typ: secProgbits, data: append(gnu, make([]byte, 88)...)}, 0x1234},
		{elfPart{name: ".zdebug_info", typ: secProgbits, data: make([]byte, 50)}, 50},
		{elfPart{name: ".debug_line", typ: secProgbits, flags: secCompressed, data: make([]byte, 5)}, 5},
	} {
		objects, err := identifyBytes(t, identifyELF, "x", elfImage{typ: elfDyn, machine: 62, sections: []elfPart{c.s}}.bytes())
		if err != nil || objects[0].DebugSize != c.want || objects[0].Role != symfile.Debug {
			t.Errorf("%s: %v, %v, want %d", c.s.name, objects, err, c.want)
		}
	}
}

func TestELFDamage(t *testing.T) {
	damage(t, identifyELF, "elf", func(path string, n int) bool {
		// A file without section headers ends in bytes that nothing refers to.
		return strings.HasSuffix(path, "prog-noshdr") && n > 11000
	})
}

func TestELFSection(t *testing.T) {
	p := readTestdata(t, "elf/prog-sha1")
	stripped := readTestdata(t, "elf/prog-sha1.debug")
	for _, c := range []struct {
		p      []byte
		name   string
		off, n int64
	}{
		{p, ".interp", 0x318, 0x1c}, {p, ".text", 0x1050, 0x11b}, {p, ".bss", 0, 0}, {p, "text", 0, 0}, {p, "", 0, 0}, {p, ".tex", 0, 0}, {p, ".nothing", 0, 0},
		{stripped, ".text", 0, 0}, {readTestdata(t, "elf/prog-zlib"), ".debug_info", 0x3070, 0x13e}, {readTestdata(t, "elf/prog-noshdr"), ".text", 0, 0},
	} {
		off, n, err := ELFSection(bytes.NewReader(c.p), int64(len(c.p)), c.name)
		if c.n == 0 && !errors.Is(err, fs.ErrNotExist) || c.n != 0 && err != nil || off != c.off || n != c.n {
			t.Errorf("%s: %#x, %#x, %v; want %#x, %#x", c.name, off, n, err, c.off, c.n)
		}
	}
	if _, _, err := ELFSection(bytes.NewReader(p[:9000]), 9000, ".text"); !errors.Is(err, ErrBroken) {
		t.Errorf("cut file: %v, want ErrBroken", err)
	}
	if _, _, err := ELFSection(strings.NewReader("MODULE Linux x86_64 0 x"), 23, ".text"); !errors.Is(err, ErrNotSymbolFile) {
		t.Errorf("no ELF file: %v", err)
	}
}

func FuzzELF(f *testing.F) {
	for _, p := range realFiles(f, "elf") {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p []byte) { _, _ = identifyBytes(t, identifyELF, "x", p) })
}

func FuzzELFSection(f *testing.F) {
	for _, p := range realFiles(f, "elf") {
		f.Add(p, ".text")
		f.Add(p, ".debug_info")
	}
	f.Fuzz(func(t *testing.T, p []byte, name string) {
		c := &countingReader{r: bytes.NewReader(p)}
		off, n, err := ELFSection(c, int64(len(p)), name)
		if c.n > IDBudget+FeatureBudget {
			t.Fatalf("read %d bytes, want at most %d", c.n, IDBudget+FeatureBudget)
		}
		if err == nil && (n <= 0 || off < 0 || off > int64(len(p)) || n > int64(len(p))-off) {
			t.Fatalf("%d bytes at %d in a file of %d bytes, want them inside", n, off, len(p))
		}
	})
}
