package objfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
)

func TestMachOFiles(t *testing.T) {
	const dwarf = ".dSYM/Contents/Resources/DWARF/"
	for file, want := range map[string][]string{
		"app-arm64": {"macho arm64 code=4c4c441f55553144a169abafe82da5e5 debug=4C4C441F55553144A169ABAFE82DA5E50 build= executable+main symtab+unwind size=0"},
		"app-arm64" + dwarf + "app-arm64": {
			"macho arm64 code=4c4c441f55553144a169abafe82da5e5 debug=4C4C441F55553144A169ABAFE82DA5E50 build= debug+companion debug+symtab size=864"},
		"app-fat": {
			"macho x86_64 code=4c4c448a55553144a17f90251668ce67 debug=4C4C448A55553144A17F90251668CE670 build= executable+main symtab+unwind size=0",
			"macho arm64 code=4c4c44d555553144a1d31ed1c7ab3b09 debug=4C4C44D555553144A1D31ED1C7AB3B090 build= executable+main symtab+unwind size=0"},
		"app-fat" + dwarf + "app-fat": {
			"macho x86_64 code=4c4c448a55553144a17f90251668ce67 debug=4C4C448A55553144A17F90251668CE670 build= debug+companion debug+symtab+unwind size=822",
			"macho arm64 code=4c4c44d555553144a1d31ed1c7ab3b09 debug=4C4C44D555553144A1D31ED1C7AB3B090 build= debug+companion debug+symtab size=866"},
		"app-fat64": {
			"macho x86_64 code=4c4c440155553144a1865052b89f3eb5 debug=4C4C440155553144A1865052B89F3EB50 build= executable+main symtab+unwind size=0",
			"macho arm64 code=4c4c441f55553144a169abafe82da5e5 debug=4C4C441F55553144A169ABAFE82DA5E50 build= executable+main symtab+unwind size=0"},
		"app-nouuid": {"macho x86_64 code= debug= build= executable+main symtab+unwind size=0"},
		"m-arm64.o":  {"macho arm64 code= debug= build=  debug+symtab+unwind size=815"},
	} {
		objects, err := identifyBytes(t, identifyMachO, "x", readTestdata(t, "macho/"+file))
		if err != nil {
			t.Errorf(`%s: identifyBytes("x"): error %v, want no error`, file, err)
			continue
		}
		var got []string
		for _, o := range objects {
			got = append(got, summary(o))
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s:\n%s\nwant\n%s", file, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// TestMachOSlices: the bytes at the offset of each slice are that slice.
func TestMachOSlices(t *testing.T) {
	for file, same := range map[string]string{"app-fat64": "app-arm64"} {
		p := readTestdata(t, "macho/"+file)
		objects, err := identifyBytes(t, identifyMachO, file, p)
		if err != nil || len(objects) != 2 {
			t.Fatalf("identifyBytes(%q): %v, error %v; want length 2", file, objects, err)
		}
		o := objects[1]
		if !bytes.Equal(p[o.Offset:o.Offset+o.Size], readTestdata(t, "macho/"+same)) {
			t.Errorf("%s: the slice at %d of %d bytes is not %s", file, o.Offset, o.Size, same)
		}
	}
}

// machImage describes a thin image to be made.
type machImage struct {
	narrow, big bool
	cpu, sub    uint32
	filetype    uint32
	cmds        [][]byte
}

func (m machImage) order() binary.AppendByteOrder {
	if m.big {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

func (m machImage) bytes() []byte {
	o, magic := m.order(), uint32(machMagic64)
	if m.narrow {
		magic = machMagic32
	}
	var cmds []byte
	for _, c := range m.cmds {
		cmds = append(cmds, c...)
	}
	p := o.AppendUint32(nil, magic)
	for _, v := range []uint32{m.cpu, m.sub, m.filetype, uint32(len(m.cmds)), uint32(len(cmds)), 0} {
		p = o.AppendUint32(p, v)
	}
	if !m.narrow {
		p = o.AppendUint32(p, 0)
	}
	return append(p, cmds...)
}

// cmd returns a load command.
func (m machImage) cmd(kind uint32, body []byte) []byte {
	o := m.order()
	return append(o.AppendUint32(o.AppendUint32(nil, kind), uint32(8+len(body))), body...)
}

// segment returns a segment command of one section that, like the segment,
// has size bytes at off.
func (m machImage) segment(segment, section string, off, size uint64) []byte {
	o := m.order()
	word, kind := o.AppendUint64, uint32(cmdSegment64)
	if m.narrow {
		kind = cmdSegment
		word = func(p []byte, v uint64) []byte { return o.AppendUint32(p, uint32(v)) }
	}
	name := func(p []byte, s string) []byte { return append(append(p, s...), make([]byte, 16-len(s))...) }
	p := name(nil, segment)
	p = word(word(word(word(p, 0), size), off), size)
	for _, v := range []uint32{0, 0, 1, 0} {
		p = o.AppendUint32(p, v)
	}
	p = word(word(name(name(p, section), segment), 0), size)
	p = o.AppendUint32(p, uint32(off))
	p = append(p, make([]byte, 24)...)
	if !m.narrow {
		p = append(p, make([]byte, 4)...)
	}
	return m.cmd(kind, p)
}

// TestMachOIDs has the identifier vector of a UUID, in every class and byte order.
func TestMachOIDs(t *testing.T) {
	uuid := unhex(t, "67e9247c814e392ba027dbde6748fcbf")
	for i := range 4 {
		m := machImage{narrow: i&1 != 0, big: i&2 != 0, cpu: 12, sub: 9, filetype: machDylib}
		m.cmds = [][]byte{m.cmd(0x32, nil), m.cmd(cmdUUID, uuid), m.cmd(cmdUUID, make([]byte, 16)), m.segment("__DWARF", "__debug_info", 8, 16), m.segment("__TEXT", "__eh_frame", 8, 16)}
		objects, err := identifyBytes(t, identifyMachO, "x", m.bytes())
		want := "macho armv7 code=67e9247c814e392ba027dbde6748fcbf debug=67E9247C814E392BA027DBDE6748FCBF0 build= executable+debug debug+unwind size=16"
		if err != nil || summary(objects[0]) != want {
			t.Errorf("variant %d: %v, %v; want %s", i, objects, err, want)
		}
	}
	m := machImage{cpu: 0x01000007, filetype: machDylib}
	m.cmds = [][]byte{m.cmd(cmdUUID, make([]byte, 16))}
	objects, err := identifyBytes(t, identifyMachO, "x", m.bytes())
	if err != nil || objects[0].CodeID != "" || !objects[0].DebugID.IsZero() {
		t.Errorf("zero UUID: %v, %v; want no ids", objects, err)
	}
}

func TestMachOClasses(t *testing.T) {
	for _, c := range []struct {
		filetype uint32
		want     string
	}{
		{1, ""}, {2, "executable+main"}, {3, "executable"}, {5, "executable"}, {6, "executable"}, {7, "executable"}, {8, "executable"}, {9, ""},
		{10, "debug+companion"}, {11, "executable"}, {12, "executable"}, {99, ""},
	} {
		objects, err := identifyBytes(t, identifyMachO, "x", machImage{cpu: 7, filetype: c.filetype}.bytes())
		if err != nil || summary(objects[0]) != "macho x86 code= debug= build= "+c.want+"  size=0" {
			t.Errorf("type %d: %v, %v; want the kind %q", c.filetype, objects, err, c.want)
		}
	}
	for _, c := range []struct {
		cpu, sub uint32
		want     string
	}{
		{7, 3, "x86"}, {0x01000007, 3, "x86_64"}, {0x01000007, 0x80000008, "x86_64h"}, {12, 0, "arm"}, {12, 11, "armv7s"}, {0x0100000c, 0, "arm64"},
		{0x0100000c, 0x80000002, "arm64e"}, {0x0200000c, 1, "arm64_32"}, {18, 0, "ppc"}, {0x01000012, 0, "ppc64"}, {77, 0, "cpu77"},
	} {
		objects, err := identifyBytes(t, identifyMachO, "x", machImage{cpu: c.cpu, sub: c.sub, filetype: machExecute}.bytes())
		if err != nil || objects[0].Arch != c.want {
			t.Errorf("cpu %#x %#x: %v, %v, want %s", c.cpu, c.sub, objects, err, c.want)
		}
	}
}

// slice is an entry of a fat file's table.
type slice struct{ off, size uint64 }

// fat returns a fat file with a table of slices, true or not.
func fat(wide bool, contents []byte, slices ...slice) []byte {
	o := binary.BigEndian
	p := o.AppendUint32(o.AppendUint32(nil, machFat32), uint32(len(slices)))
	if wide {
		o.PutUint32(p, machFat64)
	}
	for _, s := range slices {
		p = append(p, make([]byte, 8)...)
		if wide {
			p = append(o.AppendUint64(o.AppendUint64(p, s.off), s.size), make([]byte, 8)...)
		} else {
			p = o.AppendUint32(o.AppendUint32(o.AppendUint32(p, uint32(s.off)), uint32(s.size)), 0)
		}
	}
	return append(p, contents...)
}

func TestMachOHostile(t *testing.T) {
	thin := machImage{cpu: 7, filetype: machExecute}
	image := thin.bytes()
	n := uint64(len(image))
	cmds := func(c ...[]byte) []byte { m := thin; m.cmds = c; return m.bytes() }
	edit := func(p []byte, off int, v uint32) []byte { binary.LittleEndian.PutUint32(p[off:], v); return p }
	million := fat(false, image, slice{28, n})
	binary.BigEndian.PutUint32(million[4:], 1_000_000)
	var many []slice
	for range 65 {
		many = append(many, slice{8 + 65*20, n})
	}
	inner := fat(false, image, slice{28, n})
	huge := thin.segment("__DWARF", "__debug_info", 8, 16)
	binary.LittleEndian.PutUint32(huge[64:], 1_000_000)
	for name, c := range map[string]struct {
		p    []byte
		want string
	}{
		"magic only":              {image[:8], "outside the file"},
		"core":                    {machImage{filetype: machCore}.bytes(), "core dump"},
		"4 GiB of commands":       {edit(bytes.Clone(image), 20, 0xffffffff), "outside the file"},
		"more commands than room": {edit(bytes.Clone(image), 16, 0xffffffff), "room for 0"},
		"command of 0 bytes":      {cmds([]byte{27, 0, 0, 0, 0, 0, 0, 0}), "of 0 bytes"},
		"command of 4 GiB":        {cmds([]byte{27, 0, 0, 0, 255, 255, 255, 255}), "of 4294967295 bytes"},
		"short segment":           {cmds(thin.cmd(cmdSegment64, make([]byte, 8))), "segment command of 16 bytes"},
		"segment outside":         {cmds(thin.segment("__TEXT", "__text", 8, 1000)), "segment __TEXT"},
		"segment wraps around":    {cmds(thin.segment("__TEXT", "__text", ^uint64(7), 16)), "segment __TEXT"},
		"a million sections":      {cmds(huge), "1000000 sections"},
		"no slices":               {fat(false, image), "0 slices"},
		"a million slices":        {million, "1000000 slices"},
		"65 slices":               {fat(false, image, many...), "65 slices"},
		"table outside":           {fat(false, nil, slice{28, 0})[:20], "slice table"},
		"slice outside":           {fat(false, image, slice{28, n + 1}), "does not fit"},
		"slice wraps around":      {fat(true, image, slice{40, ^uint64(0) - 20}), "does not fit"},
		"slice in the table":      {fat(false, image, slice{0, n}), "does not fit"},
		"overlapping slices":      {fat(false, image, slice{48, n}, slice{48 + n - 1, 1}), "overlaps"},
		"fat in fat":              {fat(false, inner, slice{28, uint64(len(inner))}), "without images"},
		"static libraries":        {fat(false, []byte("!<arch>\n"), slice{28, 8}), "without images"},
		"broken slice":            {fat(false, image[:12], slice{28, 12}), "slice 0"},
	} {
		objects, err := identifyBytes(t, identifyMachO, "x", c.p)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v, want %q", name, objects, err, c.want)
		}
	}
	// A slice that is no image is left out; so is one that is empty.
	p := fat(true, append([]byte("!<arch>\n"), image...), slice{104, 8}, slice{112, n}, slice{112 + n, 0})
	objects, err := identifyBytes(t, identifyMachO, "x", p)
	if err != nil || len(objects) != 1 || objects[0].Offset != 112 || objects[0].Size != int64(n) {
		t.Errorf("one image of three: %v, %v; want one of %d bytes at 112", objects, err, n)
	}
}

// TestMachOBudget: the slices share one budget.
func TestMachOBudget(t *testing.T) {
	m := machImage{cpu: 7, filetype: machExecute}
	m.cmds = [][]byte{m.cmd(0x99, make([]byte, 60_000))}
	one := m.bytes()
	file := func(n int) []byte {
		var slices []slice
		for i := range n {
			slices = append(slices, slice{uint64(8 + 20*n + i*len(one)), uint64(len(one))})
		}
		return fat(false, bytes.Repeat(one, n), slices...)
	}
	p := file(20)
	var err error
	n := allocated(func() { _, err = identifyBytes(t, identifyMachO, "x", p) })
	if !errors.Is(err, ErrBroken) || !errors.Is(err, errBudget) {
		t.Errorf("1.2 MB of load commands: %v, want ErrBroken, %v", err, errBudget)
	}
	if n > maxAlloc {
		t.Errorf("%d bytes allocated, want at most %v", n, maxAlloc)
	}
	if objects, err := identifyBytes(t, identifyMachO, "x", file(10)); len(objects) != 10 {
		t.Errorf("0.6 MB of load commands: %d objects, %v; want 10", len(objects), err)
	}
}

func TestMachODamage(t *testing.T) {
	damage(t, identifyMachO, "macho", func(path string, n int) bool {
		// Behind the contents of its one segment an object file has symbols.
		return strings.HasSuffix(path, ".o") && n > 1500
	})
}

func FuzzMachO(f *testing.F) {
	for _, p := range realFiles(f, "macho") {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p []byte) { _, _ = identifyBytes(t, identifyMachO, "x", p) })
}
