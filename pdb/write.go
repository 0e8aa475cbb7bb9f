package pdb

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/internal/base/sorting"
)

// maxPages is the number of pages at which linkers take larger pages.
const maxPages = 1 << 20

// CopyWith writes a copy of the PDB to w whose named streams have the given
// contents, by name: a stream is replaced, or added if there is none of this name.
// Names are compared byte by byte; the stream of source indexing is srcsrv. The
// GUID and both ages stay, so that the copy belongs to the same image.
//
// The copy has the same streams under the same numbers in pages of the same
// size, one after the other, without the unused pages of the original. A file
// that would have more than 1,048,576 pages gets larger ones, as from linkers.
//
// CopyWith reads each stream once, from front to back, and writes from front to
// back; it needs about a megabyte of memory. w must not be the file that f reads. Only
// the format MSF can be written; the error for others wraps
// errors.ErrUnsupported. After an error, w has a part of the copy.
func (f *File) CopyWith(w io.Writer, streams map[string][]byte) error {
	err := f.copy(w, func(c *msfCopy, names *namedStreams) error {
		for _, name := range slices.Sorted(maps.Keys(streams)) {
			if err := c.set(names, name, streams[name]); err != nil {
				return fmt.Errorf("stream %.80q: %w", name, err)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("pdb: copy: %w", err)
	}
	return nil
}

// CopyWithout writes a copy of the PDB to w that lacks the named stream; nothing of
// its content is left in the copy. Otherwise it works like CopyWith. The error wraps
// fs.ErrNotExist if there is no stream of this name.
func (f *File) CopyWithout(w io.Writer, name string) error {
	err := f.copy(w, func(c *msfCopy, names *namedStreams) error { return c.remove(names, name) })
	if err != nil {
		return fmt.Errorf("pdb: copy without stream %.80q: %w", name, err)
	}
	return nil
}

// copy writes a copy that change has changed.
func (f *File) copy(w io.Writer, change func(*msfCopy, *namedStreams) error) error {
	m, ok := f.c.(*msf)
	if !ok || f.Format != MSF || f.Version <= maxOldInfo {
		return fmt.Errorf("the format %s with an info stream of version %d cannot be written: %w", f.Format, f.Version, errors.ErrUnsupported)
	}
	c := &msfCopy{from: m, replaced: map[int][]byte{}}
	c.page, c.content = m.page, c.stream
	var err error
	if c.sizes, err = m.sizes(); err != nil {
		return err
	}
	// Stream 0 is the directory before the last change. Its page numbers mean
	// nothing in the copy.
	if len(c.sizes) > 0 && c.size(0) > 0 {
		c.sizes[0] = 0
	}
	names, err := f.namedStreams()
	if err != nil {
		return fmt.Errorf("PDB info stream: %w", err)
	}
	if err := change(c, &names); err != nil {
		return err
	}
	if err := c.replaceInfo(names); err != nil {
		return err
	}
	_, err = c.write(w)
	return err
}

// msfFile is a file to be written.
type msfFile struct {
	page  int64
	sizes []uint32 // of the streams, with nilSize
	// content returns the bytes of a stream, as many as its size.
	content func(n int) (io.Reader, error)
}

// msfCopy is a file to be written, with the streams of another and some
// replaced ones.
type msfCopy struct {
	msfFile
	from *msf
	// replaced has the contents of streams that do not come from the other file.
	replaced map[int][]byte
}

// sizes returns the sizes of the streams. Streams that have more pages than the
// file are an error: a small file must not become a huge copy.
func (m *msf) sizes() ([]uint32, error) {
	n := m.count()
	if n > math.MaxUint16 {
		return nil, fmt.Errorf("%d streams, more than the %d that PDBs can name", n, math.MaxUint16)
	}
	b := make([]byte, m.entry*int64(n))
	if err := readFull(&m.dir, b, 4); err != nil {
		return nil, err
	}
	sizes := make([]uint32, n)
	pages := int64(0)
	for i := range sizes {
		sizes[i] = binary.LittleEndian.Uint32(b[m.entry*int64(i):])
		if sizes[i] != nilSize {
			pages += m.pagesFor(int64(sizes[i]))
		}
	}
	if have := m.pagesFor(m.end); pages > have {
		return nil, fmt.Errorf("the streams have %d pages, but the file has %d", pages, have)
	}
	return sizes, nil
}

// size returns the number of bytes of stream n.
func (c *msfFile) size(n int) int64 {
	if c.sizes[n] == nilSize {
		return 0
	}
	return int64(c.sizes[n])
}

// replace gives stream n a new content.
func (c *msfCopy) replace(n int, content []byte) {
	c.sizes[n], c.replaced[n] = uint32(len(content)), content
}

// set adds or replaces a named stream.
func (c *msfCopy) set(names *namedStreams, name string, content []byte) error {
	if name == "" || len(name) >= maxName || strings.IndexByte(name, 0) >= 0 {
		return fmt.Errorf("a stream's name has 1 to %d bytes without NUL", maxName-1)
	}
	if uint64(len(content)) >= nilSize {
		return fmt.Errorf("a stream has less than 4 GiB, not %d bytes", len(content))
	}
	i := names.find(name)
	if i >= 0 && c.owned(names, i) {
		c.replace(names.entries[i].stream, content)
		return nil
	}
	// A new stream gets a new number: other streams may refer to unused ones.
	n := len(c.sizes)
	if n >= math.MaxUint16 {
		return fmt.Errorf("no number is left for a stream after %d", n)
	}
	c.sizes = append(c.sizes, 0)
	c.replace(n, content)
	if i >= 0 {
		names.entries[i].stream = n
	} else {
		names.entries = append(names.entries, namedStream{name, n})
	}
	return nil
}

// remove removes a named stream.
func (c *msfCopy) remove(names *namedStreams, name string) error {
	i := names.find(name)
	if i < 0 {
		return fs.ErrNotExist
	}
	if c.owned(names, i) {
		// The other streams keep their numbers.
		n := names.entries[i].stream
		if c.sizes[n] = nilSize; n == len(c.sizes)-1 {
			c.sizes = c.sizes[:n]
		}
	}
	names.entries = slices.Delete(names.entries, i, i+1)
	return nil
}

// owned reports whether the stream of entry i belongs to its name alone. In
// damaged files a name may have the number of a stream that every PDB has, or
// that of another name.
func (c *msfCopy) owned(names *namedStreams, i int) bool {
	n := names.entries[i].stream
	if n <= IPIStream || n >= len(c.sizes) {
		return false
	}
	for j, e := range names.entries {
		if j != i && e.stream == n {
			return false
		}
	}
	return true
}

// replaceInfo gives the copy an info stream with the names.
func (c *msfCopy) replaceInfo(names namedStreams) error {
	info := names.bytes()
	if len(info) > maxInfo {
		return fmt.Errorf("the info stream would have %d bytes, more than the limit of %d", len(info), maxInfo)
	}
	c.replace(InfoStream, info)
	return nil
}

// place is where the parts of a copy stand. Pages are counted without those of
// the free page maps: the superblock is page 0, the streams begin at page 1.
type place struct {
	dirSize, dirAt int64 // bytes and first page of the directory
	mapSize, mapAt int64 // bytes and first page of the block map
	end            int64 // number of pages
}

// locate decides where the parts of the copy stand. It takes larger pages if
// there would be too many.
func (c *msfFile) locate() (place, error) {
	for {
		p := place{dirSize: 4 + 4*int64(len(c.sizes)), dirAt: 1}
		for i := range c.sizes {
			p.dirAt += c.pagesFor(c.size(i))
		}
		p.dirSize += 4 * (p.dirAt - 1)
		p.mapAt = p.dirAt + c.pagesFor(p.dirSize)
		p.mapSize = 4 * (p.mapAt - p.dirAt)
		p.end = p.mapAt + c.pagesFor(p.mapSize)
		holds := p.mapSize <= (c.page-52)/4*c.page && p.dirSize < nilSize
		switch {
		case holds && (c.number(p.end-1) < maxPages || c.page == maxPage):
			return p, nil
		case c.page == maxPage:
			return place{}, fmt.Errorf("%d pages of %d bytes, which is more than the format can have", p.end, c.page)
		}
		c.page *= 2
	}
}

// pagesFor returns the number of pages of the copy for n bytes.
func (c *msfFile) pagesFor(n int64) int64 { return (n + c.page - 1) / c.page }

// number returns the number in the file of page i, which is counted without the
// free page maps. These are pages 1 and 2 of each interval of as many pages as
// a page has bytes.
func (c *msfFile) number(i int64) int64 {
	interval, in := i/(c.page-2), i%(c.page-2)
	if in > 0 {
		in += 2
	}
	return interval*c.page + in
}

// write writes the file and returns its size in bytes.
func (c *msfFile) write(w io.Writer) (int64, error) {
	at, err := c.locate()
	if err != nil {
		return 0, err
	}
	out := &pageWriter{w: bufio.NewWriterSize(w, 256<<10), page: c.page, pages: c.number(at.end-1) + 1, buf: make([]byte, 256<<10)}
	out.put(c.superblock(at), int64(c.headSize(at)))
	for i := range c.sizes {
		r, err := c.content(i)
		if err != nil {
			return 0, err
		}
		if out.put(r, c.size(i)); out.err != nil {
			return 0, fmt.Errorf("stream %d: %w", i, out.err)
		}
	}
	out.put(c.directory(at), at.dirSize)
	out.put(c.run(at.dirAt, at.mapAt), at.mapSize)
	if out.err == nil {
		out.err = out.w.Flush()
	}
	return out.pages * c.page, out.err
}

// stream returns the bytes of stream i.
func (c *msfCopy) stream(i int) (io.Reader, error) {
	if b, ok := c.replaced[i]; ok || c.size(i) == 0 {
		return bytes.NewReader(b), nil
	}
	r, size, err := c.from.stream(i)
	if err != nil {
		return nil, err
	}
	return io.NewSectionReader(r, 0, size), nil
}

// headSize returns the number of bytes of the superblock.
func (c *msfFile) headSize(at place) int { return 52 + 4*int(at.end-at.mapAt) }

// superblock returns the first page.
func (c *msfFile) superblock(at place) io.Reader {
	b := append(make([]byte, 0, c.headSize(at)), MagicMSF...)
	for _, v := range []int64{c.page, 1, c.number(at.end-1) + 1, at.dirSize, 0} {
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
	}
	for i := at.mapAt; i < at.end; i++ {
		b = binary.LittleEndian.AppendUint32(b, uint32(c.number(i)))
	}
	return bytes.NewReader(b)
}

// directory returns the stream directory: the number of streams, their sizes,
// and the numbers of their pages, which follow each other.
func (c *msfFile) directory(at place) io.Reader {
	head := binary.LittleEndian.AppendUint32(make([]byte, 0, 4+4*len(c.sizes)), uint32(len(c.sizes)))
	for _, n := range c.sizes {
		head = binary.LittleEndian.AppendUint32(head, n)
	}
	return io.MultiReader(bytes.NewReader(head), c.run(1, at.dirAt))
}

// run returns the numbers of the pages from first up to end.
func (c *msfFile) run(first, end int64) io.Reader {
	return words(int(end-first), func(i int) uint32 { return uint32(c.number(first + int64(i))) })
}

// words returns n numbers of four bytes as a reader.
func words(n int, word func(i int) uint32) io.Reader {
	const most = 1 << 10
	i := 0
	b := make([]byte, 0, 4*min(n, most))
	return &pulled{next: func() ([]byte, error) {
		if i >= n {
			return nil, io.EOF
		}
		b = b[:0]
		for end := min(n, i+most); i < end; i++ {
			b = binary.LittleEndian.AppendUint32(b, word(i))
		}
		return b, nil
	}}
}

// pulled reads the bytes that next returns, one part at each call. A part is used before
// the next call.
type pulled struct {
	next func() ([]byte, error)
	rest []byte // of the last part
}

// Read implements io.Reader.
func (p *pulled) Read(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		if len(p.rest) == 0 {
			var err error
			if p.rest, err = p.next(); err != nil {
				return done, err
			}
		}
		n := copy(b[done:], p.rest)
		done, p.rest = done+n, p.rest[n:]
	}
	return done, nil
}

// pageWriter writes pages in order, and between them the free page maps. It
// keeps its first error.
type pageWriter struct {
	w     *bufio.Writer
	page  int64 // bytes of a page
	pages int64 // in the whole file
	next  int64 // number of the next page
	buf   []byte
	err   error
}

// put writes size bytes of r as whole pages.
func (w *pageWriter) put(r io.Reader, size int64) {
	for size > 0 && w.err == nil {
		w.putMaps()
		// Up to the end of the interval at once.
		n := min(size, (w.page-w.next%w.page)*w.page)
		if w.next%w.page == 0 {
			n = min(size, w.page)
		}
		w.copy(r, n)
		w.zeros(-n & (w.page - 1))
		w.next += (n + w.page - 1) / w.page
		size -= n
	}
}

// copy writes n bytes of r.
func (w *pageWriter) copy(r io.Reader, n int64) {
	for n > 0 && w.err == nil {
		b := w.buf[:min(n, int64(len(w.buf)))]
		if _, w.err = io.ReadFull(r, b); w.err == nil {
			_, w.err = w.w.Write(b)
		}
		n -= int64(len(b))
	}
}

// zeros writes n zero bytes.
func (w *pageWriter) zeros(n int64) {
	clear(w.buf[:n])
	if w.err == nil {
		_, w.err = w.w.Write(w.buf[:n])
	}
}

// putMaps writes the two free page maps of an interval, if they are next. One
// bit stands for a page and is set if the page is free. The first map is valid;
// the other, which would be used for the next change, says that all is free.
// Although a page of the map has bits for eight intervals, each interval has
// one: those after the last that is needed are not used.
func (w *pageWriter) putMaps() {
	if w.next%w.page != 1 || w.err != nil {
		return
	}
	b := w.buf[:2*w.page]
	for i := range b {
		b[i] = 0xFF
	}
	first := w.next / w.page * 8 * w.page // the page of the first bit
	used := min(max(w.pages-first, 0), 8*w.page)
	clear(b[:used/8])
	if used%8 > 0 {
		b[used/8] = 0xFF << (used % 8)
	}
	_, w.err = w.w.Write(b)
	w.next += 2
}

// namedStreams is an info stream to be written.
type namedStreams struct {
	head     []byte // version, signature, age, GUID
	entries  []namedStream
	capacity uint32 // of the hash table that was read
	tail     []byte // behind the hash table
}

type namedStream struct {
	name   string
	stream int
}

// namedStreams reads the info stream. The names are in the order in which they
// stand in it.
func (f *File) namedStreams() (namedStreams, error) {
	s, err := f.section(InfoStream)
	if err != nil {
		return namedStreams{}, err
	}
	if s.Size() > maxInfo {
		return namedStreams{}, fmt.Errorf("its %d bytes are more than the limit of %d", s.Size(), maxInfo)
	}
	b := make([]byte, s.Size())
	if err := readFull(s, b, 0); err != nil {
		return namedStreams{}, err
	}
	t := &infoTail{names: map[string]int{}}
	c := &cursor{b: b[28:]}
	n := namedStreams{head: b[:28], tail: make([]byte, 4)}
	if len(c.b) == 0 {
		return n, nil
	}
	n.capacity = c.readNames(t)
	if c.err != nil {
		return namedStreams{}, fmt.Errorf("named streams: %w", c.err)
	}
	if len(c.b) > 0 {
		n.tail = c.b
	}
	for name, stream := range t.names {
		n.entries = append(n.entries, namedStream{name, stream})
	}
	sorting.By(n.entries, func(a, b namedStream) int {
		if a.stream != b.stream {
			return a.stream - b.stream
		}
		return strings.Compare(a.name, b.name)
	})
	return n, nil
}

// find returns the index of the entry for name, or -1.
func (n *namedStreams) find(name string) int {
	return slices.IndexFunc(n.entries, func(e namedStream) bool { return e.name == name })
}

// bytes returns the info stream.
func (n *namedStreams) bytes() []byte {
	var text []byte
	offsets := make([]uint32, len(n.entries))
	for i, e := range n.entries {
		offsets[i] = uint32(len(text))
		text = append(append(text, e.name...), 0)
	}
	buckets := n.buckets()
	le := binary.LittleEndian
	b := le.AppendUint32(slices.Clone(n.head), uint32(len(text)))
	b = append(b, text...)
	b = le.AppendUint32(b, uint32(len(n.entries)))
	b = le.AppendUint32(b, uint32(len(buckets)))
	// The bits of the used buckets, without words of zeros at the end.
	words := make([]uint32, (len(buckets)+31)/32)
	for i, e := range buckets {
		if e >= 0 {
			words[i/32] |= 1 << (i % 32)
		}
	}
	for len(words) > 0 && words[len(words)-1] == 0 {
		words = words[:len(words)-1]
	}
	b = le.AppendUint32(b, uint32(len(words)))
	for _, w := range words {
		b = le.AppendUint32(b, w)
	}
	b = le.AppendUint32(b, 0) // no bucket is deleted
	for _, e := range buckets {
		if e >= 0 {
			b = le.AppendUint32(b, offsets[e])
			b = le.AppendUint32(b, uint32(n.entries[e].stream))
		}
	}
	return append(b, n.tail...)
}

// buckets returns the hash table: for each bucket the index of its entry, or -1.
// An entry whose bucket is used takes the next free one.
func (n *namedStreams) buckets() []int32 {
	capacity := int64(min(max(n.capacity, 8), 1<<20))
	for limit := capacity*2/3 + 1; int64(len(n.entries)) >= limit; limit = capacity*2/3 + 1 {
		capacity = 2 * limit
	}
	buckets := make([]int32, capacity)
	// next leads from each used bucket towards the next free one.
	next := make([]int32, capacity)
	for i := range buckets {
		buckets[i], next[i] = -1, int32(i)
	}
	free := func(i int32) int32 {
		for next[i] != i {
			next[i] = next[next[i]]
			i = next[i]
		}
		return i
	}
	for i, e := range n.entries {
		at := free(int32(int64(hashName(e.name)) % capacity))
		buckets[at] = int32(i)
		next[at] = int32((int64(at) + 1) % capacity)
	}
	return buckets
}

// hashName returns the hash of a name of a stream.
func hashName(name string) uint16 { return uint16(hashText([]byte(name))) }

// hashText returns the hash by which PDBs find names. It is the same for lower and
// upper case.
func hashText(b []byte) uint32 {
	h := uint32(0)
	for ; len(b) >= 4; b = b[4:] {
		h ^= binary.LittleEndian.Uint32(b)
	}
	if len(b) >= 2 {
		h ^= uint32(binary.LittleEndian.Uint16(b))
		b = b[2:]
	}
	if len(b) == 1 {
		h ^= uint32(b[0])
	}
	h |= 0x20202020
	h ^= h >> 11
	return h ^ h>>16
}
