package msi_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/files/msi"
)

// part is a stream of a package that the tests make.
type part struct {
	name string // \x01 stands for the character that begins the names of tables
	data []byte
	size int // of a stream that claims more than its data; 0: it does not
}

const endOfChain = 0xFFFFFFFE

// compound makes a package of streams. The last sector of a stream that claims more leads to its first one again.
func compound(parts []part) []byte {
	le := binary.LittleEndian
	var small, smallTable, body []byte
	var table []uint32
	add := func(data []byte, loop bool) (first uint32) {
		first = uint32(len(table))
		for at := 0; at < max(len(data), 1); at += 512 {
			table = append(table, uint32(len(table)+1))
		}
		if table[len(table)-1] = endOfChain; loop {
			table[len(table)-1] = first
		}
		body = append(body, data...)
		body = append(body, make([]byte, len(table)*512-len(body))...)
		return first
	}
	entry := func(name string, kind byte, sector uint32, size int, right, child uint32) []byte {
		e := make([]byte, 128)
		n := 0
		for _, c := range name {
			if c == 1 {
				c = 0x4840
			}
			le.PutUint16(e[2*n:], uint16(c))
			n++
		}
		le.PutUint16(e[64:], uint16(2*n+2))
		e[66] = kind
		le.PutUint32(e[68:], 0xFFFFFFFF)
		le.PutUint32(e[72:], right)
		le.PutUint32(e[76:], child)
		le.PutUint32(e[116:], sector)
		le.PutUint64(e[120:], uint64(size))
		return e
	}
	var directory []byte
	for i, p := range parts {
		var sector uint32
		if max(len(p.data), p.size) < 4096 {
			sector = uint32(len(small) / 64)
			small = append(small, p.data...)
			small = append(small, make([]byte, -len(small)&63)...)
			for n := uint32(len(smallTable) / 4); n < uint32(len(small)/64); n++ {
				smallTable = le.AppendUint32(smallTable, n+1)
			}
		} else {
			sector = add(p.data, p.size > len(p.data))
		}
		right := uint32(i + 2)
		if i+1 == len(parts) {
			right = 0xFFFFFFFF
		}
		directory = append(directory, entry(p.name, 2, sector, max(len(p.data), p.size), right, 0xFFFFFFFF)...)
	}
	container := add(small, false)
	root := entry("Root Entry", 5, container, len(small), 0xFFFFFFFF, 1)
	copy(root[80:], "\x84\x10\x0c\x00\x00\x00\x00\x00\xc0\x00\x00\x00\x00\x00\x00\x46")
	first := add(append(root, directory...), false)
	smallTable = append(smallTable, make([]byte, -len(smallTable)&511)...)
	links := add(smallTable, false)
	header := make([]byte, 512)
	copy(header, msi.Magic)
	le.PutUint16(header[26:], 3)
	le.PutUint16(header[28:], 0xFFFE)
	le.PutUint16(header[30:], 9)
	le.PutUint16(header[32:], 6)
	le.PutUint32(header[48:], first)
	le.PutUint32(header[56:], 4096)
	le.PutUint32(header[60:], links)
	le.PutUint32(header[64:], uint32(len(smallTable)/512))
	tables := 0
	for len(table) > (tables)*128-tables {
		tables++
	}
	le.PutUint32(header[44:], uint32(tables))
	for i := range tables {
		le.PutUint32(header[76+4*i:], uint32(len(table)+i))
	}
	for _, n := range table {
		body = le.AppendUint32(body, n)
	}
	return append(append(header, body...), make([]byte, (len(table)+tables)*512-len(body))...)
}

// rows are the tables of a package: the names of their columns, then values; a # begins the name of a column of numbers.
type rows map[string][][]any

// tables makes the streams of tables, stored by columns, and those of their strings.
func tables(all rows) (parts []part) {
	le := binary.LittleEndian
	number := map[string]int{}
	var list []string
	text := func(s string) uint16 {
		if number[s] == 0 && s != "" {
			list = append(list, s)
			number[s] = len(list)
		}
		return uint16(number[s])
	}
	var columns [4][]byte
	for name, content := range all {
		var data []byte
		for i, c := range content[0] {
			column, isNumber := strings.CutPrefix(c.(string), "#")
			kind := 0x0D00 | 72
			if isNumber {
				kind = 0x0502
			}
			for k, v := range []uint16{text(name), uint16(i + 1 + 0x8000), text(column), uint16(kind + 0x8000)} {
				columns[k] = le.AppendUint16(columns[k], v)
			}
			for _, row := range content[1:] {
				switch v := row[i].(type) {
				case string:
					data = le.AppendUint16(data, text(v))
				case int:
					data = le.AppendUint16(data, uint16(v+0x8000))
				}
			}
		}
		parts = append(parts, part{name: "\x01" + name, data: data})
	}
	pool, texts := []byte{0, 0, 0, 0}, []byte{}
	for _, s := range list {
		pool = le.AppendUint16(le.AppendUint16(pool, uint16(len(s))), 1)
		texts = append(texts, s...)
	}
	return append(parts, part{name: "\x01_Columns", data: bytes.Join(columns[:], nil)},
		part{name: "\x01_StringPool", data: pool}, part{name: "\x01_StringData", data: texts})
}

// TestMade: a package of the tests can be read. A text of another code page is read as Latin-1, and a cabinet
// that two media name is there once.
func TestMade(t *testing.T) {
	t.Parallel()
	p := open(t, compound(append(tables(rows{
		"Media":     {{"#LastSequence", "Cabinet"}, {1, "#a.cab"}, {2, "#a.cab"}},
		"Directory": {{"Directory", "Directory_Parent", "DefaultDir"}, {"Top", "", "SourceDir"}, {"D", "Top", "f|gr\xfcn"}},
		"Component": {{"Component", "Directory_"}, {"C", "D"}},
		"File":      {{"File", "Component_", "FileName", "#Sequence"}, {"F1", "C", "one.dll", 1}, {"F2", "C", "two.dll", 2}},
	}), part{name: "a.cab", data: make([]byte, 5000)}, part{name: "Binary.x", data: []byte("hello")})))
	if len(p.Cabinets) != 1 || len(p.Programs) != 1 || p.Cabinets[0].Paths["F1"] != "grün/one.dll" || p.Cabinets[0].Paths["F2"] != "grün/two.dll" {
		t.Errorf("the package has %+v", p)
	}
}

// TestHostile: packages whose parts stand for much more than the file has.
func TestHostile(t *testing.T) {
	files := rows{
		"Directory": {{"Directory", "Directory_Parent", "DefaultDir"}, {"Top", "", "SourceDir"}},
		"Component": {{"Component", "Directory_"}, {"C", "Top"}},
	}
	many := rows{
		"Directory": {{"Directory", "Directory_Parent", "DefaultDir"}},
		"Component": {{"Component", "Directory_"}},
		"Media":     {{"#LastSequence", "Cabinet"}},
	}
	long := strings.Repeat("\xff", 4000)
	for i := range 30_000 {
		name := fmt.Sprint(i)
		many["Directory"] = append(many["Directory"], []any{name, long, long})
		many["Component"] = append(many["Component"], []any{name, long})
		many["Media"] = append(many["Media"], []any{i & 0x7fff, long})
	}
	const size = 4 << 20
	loops := tables(files)
	loops = append(loops, part{name: "big", data: make([]byte, size)})
	for i := range 1000 {
		loops = append(loops, part{name: fmt.Sprintf("Binary.%d", i), data: make([]byte, 1024), size: size})
	}
	lost := tables(files)
	for i := range lost {
		if lost[i].name == "\x01_StringData" {
			lost[i].size = 4000 // the small sectors end before
		}
	}
	same := rows{
		"Directory": files["Directory"], "Component": files["Component"],
		"File": {{"File", "Component_", "FileName", "#Sequence"}, {"F", "C", "x", 1}, {"F", "C", "x", 2}, {"F", "C", "x", 3}},
	}
	for _, c := range []struct {
		name  string
		parts []part
		want  error
	}{
		{"streams in loops", loops, msi.ErrFormat},
		{"a long string in many rows", tables(many), nil},
		{"small sectors that end early", lost, msi.ErrFormat},
		{"files of one path", tables(same), msi.ErrFormat},
	} {
		b := compound(c.parts)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		p, err := msi.Open(bytes.NewReader(b), int64(len(b)))
		runtime.ReadMemStats(&after)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", c.name, err, c.want)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 {
			t.Errorf("%s: %d bytes are taken for a file of %d, want at most 64 MiB", c.name, n, len(b))
		}
		runtime.KeepAlive(p)
	}
}
