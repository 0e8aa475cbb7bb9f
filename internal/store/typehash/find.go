package typehash

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"io"
	"slices"
	"sort"
)

// Magic are the first bytes of a PDB (LLVM, "The MSF File Format").
const Magic = "Microsoft C/C++ MSF 7.00\r\n\x1aDS\x00\x00\x00"

const (
	superLen     = 56
	maxDirectory = 16 << 20
	headerLen    = 56 // of a type stream
	typeVersion  = 20040203
	maxRuns      = 1 << 12
	// maxStreams is how many streams are kept: a type stream names the one of its hashes in 16 bits.
	maxStreams = 1 << 16
	// maxWrong is one in how many hashes may be another one than that of its record.
	maxWrong = 16
)

// Run are hashes that are next to each other in a file.
type Run struct {
	Range
	Recipe []byte
}

// Find finds the hashes of a PDB of size bytes. With recipes, those are left out that do not follow from
// their records, and offsets in a recipe are those in the file without all hashes. A file that is no PDB, or
// whose streams contradict each other, has none.
func Find(ctx context.Context, r io.ReaderAt, size int64, recipes bool) ([]Run, error) {
	p := &file{ctx: ctx, r: r, size: size, recipes: recipes}
	if err := p.find(); err != nil || len(p.runs) > maxRuns {
		return nil, err
	}
	return p.done(), nil
}

// file is a PDB in which hashes are looked for.
type file struct {
	ctx     context.Context
	r       io.ReaderAt
	size    int64
	recipes bool
	page    int64
	list    []uint32 // of the directory
	streams []pages
	runs    []found
}

// pages are the pages of a stream, and its length.
type pages struct {
	list []uint32
	size int64
}

// found is a run before its recipe is written.
type found struct {
	Run
	buckets uint32
	records []Range // in the file
	fixes   []byte
}

// read reads bytes; false if they are not in the file.
func (p *file) read(b []byte, at int64) (bool, error) {
	if at > p.size || int64(len(b)) > p.size-at {
		return false, nil
	}
	n, err := p.r.ReadAt(b, at)
	if n == len(b) {
		return true, nil
	}
	if err == io.EOF {
		return false, nil
	}
	return false, err
}

// find finds the runs of both type streams.
func (p *file) find() error {
	var head [superLen]byte
	if ok, err := p.read(head[:], 0); !ok || string(head[:len(Magic)]) != Magic {
		return err
	}
	number := func(i int) int64 { return int64(binary.LittleEndian.Uint32(head[i:])) }
	p.page = number(32)
	n := number(44)
	if p.page < 512 || p.page > 1<<16 || p.page&(p.page-1) != 0 || n < 4*6 || n > min(maxDirectory, p.size) {
		return nil
	}
	count := (n + p.page - 1) / p.page
	list := make([]byte, 4*count)
	if ok, err := p.read(list, number(52)*p.page); !ok {
		return err
	}
	directory := make([]byte, count*p.page)
	for i := range count {
		if ok, err := p.read(directory[i*p.page:][:p.page], int64(binary.LittleEndian.Uint32(list[4*i:]))*p.page); !ok {
			return err
		}
	}
	if !p.parse(directory[:n]) {
		return nil
	}
	for _, i := range [...]int{2, 4} { // TPI and IPI
		if err := p.stream(i); err != nil {
			return err
		}
	}
	return nil
}

// parse reads the directory: the number of streams, their lengths, the pages of each.
func (p *file) parse(b []byte) bool {
	p.list = make([]uint32, len(b)/4)
	for i := range p.list {
		p.list[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	n := int(min(int64(p.list[0]), 1<<24))
	if n+1 > len(p.list) {
		return false
	}
	lens, rest := p.list[1:n+1], p.list[n+1:]
	for _, size := range lens {
		if size == 1<<32-1 { // no stream
			size = 0
		}
		k := (int64(size) + p.page - 1) / p.page
		if k > int64(len(rest)) {
			return false
		}
		if len(p.streams) < maxStreams {
			p.streams = append(p.streams, pages{rest[:k], int64(size)})
		}
		rest = rest[k:]
	}
	return true
}

// at gives where bytes of a stream are in the file, and how many are there, up to n.
func (p *file) at(s pages, off, n int64) Range {
	i, in := off/p.page, off%p.page
	k := p.page - in
	for j := i + 1; k < n && j < int64(len(s.list)) && s.list[j] == s.list[j-1]+1; j++ {
		k += p.page
	}
	return Range{int64(s.list[i])*p.page + in, min(n, k)}
}

// reader reads a part of a stream.
func (p *file) reader(s pages, from, n int64) *bufio.Reader {
	return bufio.NewReaderSize(&streamReader{p, s, from, from + n}, 64<<10)
}

type streamReader struct {
	p       *file
	s       pages
	at, end int64
}

func (r *streamReader) Read(b []byte) (int, error) {
	if r.at >= r.end {
		return 0, io.EOF
	}
	x := r.p.at(r.s, r.at, min(int64(len(b)), r.end-r.at))
	ok, err := r.p.read(b[:x.Len], x.At)
	if !ok {
		if err == nil {
			err = io.EOF
		}
		return 0, err
	}
	r.at += x.Len
	return int(x.Len), r.p.ctx.Err()
}

// stream finds the runs of a type stream.
func (p *file) stream(i int) error {
	if i >= len(p.streams) {
		return nil
	}
	s := p.streams[i]
	var head [headerLen]byte
	if s.size < headerLen {
		return nil
	}
	if _, err := io.ReadFull(p.reader(s, 0, headerLen), head[:]); err != nil {
		return ended(err)
	}
	number := func(i int) int64 { return int64(binary.LittleEndian.Uint32(head[i:])) }
	hashes, n := int(binary.LittleEndian.Uint16(head[20:])), number(12)-number(8)
	from, size := number(32), number(16)
	if number(0) != typeVersion || number(4) != headerLen || hashes >= len(p.streams) || number(24) != 4 || number(28) == 0 ||
		n <= 0 || number(36) != 4*n || from%4 != 0 || from+4*n > p.streams[hashes].size || size > s.size-headerLen {
		return nil
	}
	t := typeStream{file: p, records: s, hashes: p.streams[hashes], at: headerLen, end: headerLen + size, from: from,
		buckets: uint32(number(28)), left: n}
	if p.recipes {
		t.r, t.h = p.reader(s, headerLen, size), p.reader(t.hashes, from, 4*n)
	}
	return t.all()
}

// ended drops the error of a stream that ends early.
func ended(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil
	}
	return err
}

// typeStream is a type stream.
type typeStream struct {
	*file
	records, hashes pages
	at, end         int64 // of the records that are to come
	from            int64 // of their hashes
	left            int64 // how many there are
	buckets         uint32
	r, h            *bufio.Reader
	record          []byte
}

// all finds all runs.
func (t *typeStream) all() error {
	for t.left > 0 {
		x := t.file.at(t.hashes, t.from, 4*min(t.left, maxHashes))
		n := x.Len / 4
		run := found{Run: Run{Range: Range{x.At, 4 * n}}, buckets: t.buckets}
		ok := true
		if t.recipes {
			var err error
			if ok, err = t.check(&run, n); err != nil {
				return ended(err)
			}
		}
		if ok {
			t.runs = append(t.runs, run)
		}
		if t.from, t.left = t.from+4*n, t.left-n; len(t.runs) > maxRuns {
			return nil
		}
	}
	return nil
}

// check compares n hashes with those of their records. It is false if they are better left as they are.
func (t *typeStream) check(run *found, n int64) (bool, error) {
	begin := t.at
	wrong, right := int64(0), uint64(0)
	for range n {
		now, is, err := t.next()
		if err != nil {
			return false, err
		}
		if now%t.buckets == is {
			right++
			continue
		}
		run.fixes = binary.AppendUvarint(binary.AppendUvarint(run.fixes, right), uint64(is))
		wrong, right = wrong+1, 0
	}
	if wrong > n/maxWrong || t.at-begin > maxBytes {
		return false, nil
	}
	for at := begin; at < t.at; {
		x := t.file.at(t.records, at, t.at-at)
		run.records = append(run.records, x)
		at += x.Len
	}
	return true, nil
}

// next gives the hash of the next record, and the one that is stored.
func (t *typeStream) next() (now, is uint32, err error) {
	b, err := t.r.Peek(2)
	if err != nil {
		return 0, 0, err
	}
	n := int(binary.LittleEndian.Uint16(b)) + 2
	if n < 4 {
		return 0, 0, io.EOF
	}
	if cap(t.record) < n {
		t.record = make([]byte, max(n, 1<<12))
	}
	record := t.record[:n]
	if _, err := io.ReadFull(t.r, record); err != nil {
		return 0, 0, err
	}
	var h [4]byte
	if _, err := io.ReadFull(t.h, h[:]); err != nil {
		return 0, 0, err
	}
	t.at += int64(n)
	return of(record), binary.LittleEndian.Uint32(h[:]), nil
}

// done gives the runs in the order of the file, with their recipes; none if one of them has bytes of another
// one, or of records.
func (p *file) done() []Run {
	slices.SortFunc(p.runs, func(a, b found) int { return cmp.Compare(a.At, b.At) })
	runs, before := make([]Run, 0, len(p.runs)), make([]int64, 1, len(p.runs)+1) // bytes of the runs before each
	for i, f := range p.runs {
		if i > 0 && f.At < runs[i-1].At+runs[i-1].Len {
			return nil
		}
		runs, before = append(runs, f.Run), append(before, before[i]+f.Len)
	}
	for i := range p.runs {
		if !p.recipes {
			break
		}
		f := &p.runs[i]
		b := binary.AppendUvarint(nil, uint64(f.buckets))
		b = binary.AppendUvarint(b, uint64(len(f.records)))
		end := int64(0)
		for _, x := range f.records {
			k := sort.Search(len(runs), func(k int) bool { return runs[k].At+runs[k].Len > x.At })
			if k < len(runs) && runs[k].At < x.At+x.Len {
				return nil
			}
			at := x.At - before[k]
			b = binary.AppendVarint(b, at-end)
			b = binary.AppendUvarint(b, uint64(x.Len))
			end = at + x.Len
		}
		if runs[i].Recipe = append(b, f.fixes...); len(runs[i].Recipe) > MaxRecipe {
			return nil
		}
	}
	return runs
}
