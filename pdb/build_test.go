package pdb

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"io"
	"maps"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"
)

var le = binary.LittleEndian

// content is a stream to be built: data, followed by zero bytes up to size
// that are not written (a hole in a sparse file).
type content struct {
	data []byte
	size int64 // 0 means len(data)
	null bool
}

func (c content) len() int64 { return max(c.size, int64(len(c.data))) }

// sparse collects pieces of a file in memory; it is an io.WriterAt.
type sparse struct{ b []byte }

func (s *sparse) WriteAt(p []byte, off int64) (int, error) {
	if need := int(off) + len(p); need > len(s.b) {
		s.b = append(s.b, make([]byte, need-len(s.b))...)
	}
	return copy(s.b[off:], p), nil
}

// buildMSF writes an MSF 7.0 file of the streams and returns its size. Pages
// are given out from behind, so that the last stream stands first, and the
// directory and its map stand at the end.
func buildMSF(t testing.TB, w io.WriterAt, page int64, streams []content) int64 {
	t.Helper()
	put := func(b []byte, off int64) {
		if _, err := w.WriteAt(b, off); err != nil {
			t.Fatal(err)
		}
	}
	pages := func(n int64) int64 { return (n + page - 1) / page }
	next := int64(3)
	first := make([]int64, len(streams))
	for i := len(streams) - 1; i >= 0; i-- {
		first[i] = next
		put(streams[i].data, next*page)
		next += pages(streams[i].len())
	}
	dir := le.AppendUint32(nil, uint32(len(streams)))
	for _, s := range streams {
		if s.null {
			dir = le.AppendUint32(dir, nilSize)
		} else {
			dir = le.AppendUint32(dir, uint32(s.len()))
		}
	}
	for i, s := range streams {
		for p := range pages(s.len()) {
			dir = le.AppendUint32(dir, uint32(first[i]+p))
		}
	}
	numbers := func(first, n int64) []byte {
		var b []byte
		for i := range n {
			b = le.AppendUint32(b, uint32(first+i))
		}
		return b
	}
	dirPages := pages(int64(len(dir)))
	put(dir, next*page)
	blockMap := numbers(next, dirPages)
	next += dirPages
	put(blockMap, next*page)
	mapPages := pages(int64(len(blockMap)))
	head := []byte(MagicMSF)
	for _, v := range []int64{page, 1, next + mapPages, int64(len(dir)), 0} {
		head = le.AppendUint32(head, uint32(v))
	}
	head = append(head, numbers(next, mapPages)...)
	if int64(len(head)) > page {
		t.Fatal("the block map's page numbers do not fit in the superblock")
	}
	put(head, 0)
	size := (next + mapPages) * page
	put([]byte{0}, size-1)
	return size
}

// msfBytes builds a small MSF file in memory.
func msfBytes(t testing.TB, page int64, streams []content) []byte {
	var s sparse
	buildMSF(t, &s, page, streams)
	return s.b
}

// jgBytes builds a PDB 2.0 file.
func jgBytes(t testing.TB, page int, streams []content) []byte {
	t.Helper()
	pages := func(n int) int { return (n + page - 1) / page }
	next := 1
	dir := le.AppendUint32(nil, uint32(len(streams)))
	var numbers, body []byte
	for _, s := range streams {
		dir = le.AppendUint64(dir, uint64(len(s.data)))
		for range pages(len(s.data)) {
			numbers = le.AppendUint16(numbers, uint16(next))
			next++
		}
		body = append(body, s.data...)
		body = append(body, make([]byte, pages(len(body))*page-len(body))...)
	}
	dir = append(dir, numbers...)
	head := append([]byte(MagicPDB20), 0, 0, 0)[:44]
	head = le.AppendUint32(head, uint32(page))
	head = le.AppendUint16(head, 1)
	head = le.AppendUint16(head, uint16(next+pages(len(dir))))
	head = le.AppendUint32(head, uint32(len(dir)))
	head = le.AppendUint32(head, 0)
	for range pages(len(dir)) {
		head = le.AppendUint16(head, uint16(next))
		next++
	}
	if len(head) > page {
		t.Fatal("the directory's page numbers do not fit in the header")
	}
	b := append(head, make([]byte, page-len(head))...)
	b = append(b, body...)
	b = append(b, dir...)
	return append(b, make([]byte, next*page-len(b))...)
}

// pack compresses b with the method.
func pack(t testing.TB, method uint32, b []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	var w io.WriteCloser
	var err error
	switch method {
	case plain:
		return b
	case zstdM:
		w, err = zstd.NewWriter(&buf, zstd.WithEncoderConcurrency(1))
	case deflate:
		w, err = flate.NewWriter(&buf, 6)
	}
	if err == nil {
		_, err = w.Write(b)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// msfzBytes builds an MSFZ file: stream 1 plain, the others one after the
// other in chunks of chunk bytes, with the directory compressed too.
func msfzBytes(t testing.TB, method uint32, chunk int, streams []content) []byte {
	t.Helper()
	body := make([]byte, 80)
	var dir, table, all []byte
	for i, s := range streams {
		if s.null {
			dir = le.AppendUint32(dir, nilSize)
			continue
		}
		if n := len(s.data); n > 0 {
			dir = le.AppendUint32(dir, uint32(n))
			if i == InfoStream {
				dir = le.AppendUint64(dir, uint64(len(body)))
				body = append(body, s.data...)
			} else {
				dir = le.AppendUint64(dir, 1<<63|uint64(len(all)/chunk)<<32|uint64(len(all)%chunk))
				all = append(all, s.data...)
			}
		}
		dir = le.AppendUint32(dir, 0)
	}
	for c := range slices.Chunk(all, chunk) {
		p := pack(t, method, c)
		table = le.AppendUint64(table, uint64(len(body)))
		for _, v := range []uint32{method, uint32(len(p)), uint32(len(c))} {
			table = le.AppendUint32(table, v)
		}
		body = append(body, p...)
	}
	packed := pack(t, method, dir)
	copy(body, MagicMSFZ)
	le.PutUint64(body[40:], uint64(len(body)))
	body = append(body, packed...)
	le.PutUint64(body[48:], uint64(len(body)))
	body = append(body, table...)
	for i, v := range []int{len(streams), int(method), len(packed), len(dir), len(table) / 20, len(table)} {
		le.PutUint32(body[56+4*i:], uint32(v))
	}
	return body
}

// infoBytes builds an info stream with the named streams and feature codes.
func infoBytes(version, signature, age uint32, guid [16]byte, names map[string]int, codes ...uint32) []byte {
	b := le.AppendUint32(nil, version)
	b = le.AppendUint32(b, signature)
	b = le.AppendUint32(b, age)
	if version > maxOldInfo {
		b = append(b, guid[:]...)
	}
	var text, buckets []byte
	for _, name := range slices.Sorted(maps.Keys(names)) {
		buckets = le.AppendUint32(buckets, uint32(len(text)))
		buckets = le.AppendUint32(buckets, uint32(names[name]))
		text = append(append(text, name...), 0)
	}
	b = le.AppendUint32(b, uint32(len(text)))
	b = append(b, text...)
	b = le.AppendUint32(b, uint32(len(names)))
	b = le.AppendUint32(b, uint32(len(names)))
	words := (len(names) + 31) / 32
	b = le.AppendUint32(b, uint32(words))
	bits := make([]byte, 4*words)
	for i := range len(names) {
		bits[i/8] |= 1 << (i % 8)
	}
	b = append(b, bits...)
	b = le.AppendUint32(b, 0)
	b = append(b, buckets...)
	b = le.AppendUint32(b, 0)
	for _, c := range codes {
		b = le.AppendUint32(b, c)
	}
	return b
}

// module is a module record to be built.
type module struct {
	name              string
	symbols, c11, c13 uint32
}

// dbiOpts says what a DBI stream holds.
type dbiOpts struct {
	age                      uint32
	flags, machine           uint16
	globals, publics, record uint16
	modules                  []module
	optional                 []uint16
}

// dbiBytes builds a DBI stream.
func dbiBytes(o dbiOpts) []byte {
	var mods []byte
	for _, m := range o.modules {
		r := make([]byte, 64)
		le.PutUint32(r[36:], m.symbols)
		le.PutUint32(r[40:], m.c11)
		le.PutUint32(r[44:], m.c13)
		r = append(append(r, m.name...), 0)
		r = append(append(r, m.name+".obj"...), 0)
		mods = append(mods, append(r, make([]byte, -len(r)&3)...)...)
	}
	h := make([]byte, 64)
	le.PutUint32(h, 0xFFFFFFFF)
	le.PutUint32(h[4:], 19990903)
	le.PutUint32(h[8:], o.age)
	le.PutUint16(h[12:], o.globals)
	le.PutUint16(h[16:], o.publics)
	le.PutUint16(h[20:], o.record)
	le.PutUint32(h[24:], uint32(len(mods)))
	le.PutUint32(h[28:], 4) // section contributions
	le.PutUint32(h[48:], uint32(2*len(o.optional)))
	le.PutUint32(h[52:], 8) // EC
	le.PutUint16(h[56:], o.flags)
	le.PutUint16(h[58:], o.machine)
	h = append(h, mods...)
	h = append(h, make([]byte, 12)...)
	for _, n := range o.optional {
		h = le.AppendUint16(h, n)
	}
	return h
}

// tpiBytes builds a type stream that says it has n types.
func tpiBytes(n uint32) []byte {
	b := make([]byte, 56)
	le.PutUint32(b, 20040203)
	le.PutUint32(b[4:], 56)
	le.PutUint32(b[8:], 0x1000)
	le.PutUint32(b[12:], 0x1000+n)
	return b
}

// testGUID is C9A61DDD-D7E4-4353-A668-E39AC614A7EA as it stands in a file.
var testGUID = [16]byte{0xdd, 0x1d, 0xa6, 0xc9, 0xe4, 0xd7, 0x53, 0x43, 0xa6, 0x68, 0xe3, 0x9a, 0xc6, 0x14, 0xa7, 0xea}

// sample returns the streams of a small PDB: age 10 by its DBI stream, 12 by
// its info stream, private by a module, source-indexed, with frame data.
func sample() []content {
	return []content{
		{null: true},
		{data: infoBytes(20000404, 0x57CE755E, 12, testGUID, map[string]int{"/names": 5, "srcsrv": 6, "/LinkInfo": 7}, 20140508)},
		{data: tpiBytes(0)},
		{data: dbiBytes(dbiOpts{age: 10, machine: 0x8664, globals: 0xFFFF, publics: 8, record: 9,
			modules: []module{{name: "* Linker *", symbols: 4}, {name: "a", symbols: 4, c13: 100}}, optional: []uint16{0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 10}})},
		{},
		{data: []byte("names")},
		{data: []byte("SRCSRV: ini")},
		{},
		{data: bytes.Repeat([]byte("publics "), 300)},
		{data: bytes.Repeat([]byte("records "), 300)},
		{data: make([]byte, 32)},
	}
}
