package pdb

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"
)

// Limits of the page size, in bytes. Linkers write 512 to 32768.
const (
	minPage = 512
	maxPage = 65536
)

// maxStreams limits the number of streams. PDBs refer to streams by 16-bit
// numbers, so real files have far fewer.
const maxStreams = 1 << 20

// nilSize marks a stream that does not exist.
const nilSize = 0xFFFFFFFF

// pager converts page numbers to offsets and checks them.
type pager struct {
	r     io.ReaderAt
	end   int64 // bytes in the file
	page  int64 // size of a page in bytes
	pages int64 // pages in the file, as its header says
	width int64 // size of a stored page number in bytes: 2 or 4
}

// pagesFor returns the number of pages for n bytes.
func (p *pager) pagesFor(n int64) int64 { return (n + p.page - 1) / p.page }

// paged is a run of bytes cut into numbered pages. The list of the numbers is
// itself read only where it is needed, which is how a directory of many
// megabytes costs a few bytes: the numbers of a stream's pages are in the
// directory, those of the directory in the block map, and those of the block
// map in the header. Nothing is ever deeper than that, so that a directory
// that lists its own pages ends like any other.
type paged struct {
	*pager
	name string
	size int64       // bytes
	list io.ReaderAt // has the page numbers
	at   int64       // offset of the first page number in list
}

// ReadAt implements io.ReaderAt.
func (p *paged) ReadAt(b []byte, off int64) (int, error) {
	if off < 0 || off >= p.size {
		return 0, io.EOF
	}
	short := false
	if rest := p.size - off; int64(len(b)) > rest {
		b, short = b[:rest], true
	}
	done := 0
	for done < len(b) {
		n, err := p.readSome(b[done:], off+int64(done))
		done += n
		if err != nil {
			return done, err
		}
	}
	if short {
		return done, io.EOF
	}
	return done, nil
}

// readSome fills b from at most 128 pages, so that a small buffer is enough for
// the page numbers. It reads consecutive pages at once.
func (p *paged) readSome(b []byte, off int64) (int, error) {
	const batch = 128
	first, in := off/p.page, off%p.page
	n := min(p.pagesFor(in+int64(len(b))), batch)
	var raw [batch * 4]byte
	nums := raw[:n*p.width]
	if err := readFull(p.list, nums, p.at+first*p.width); err != nil {
		return 0, fmt.Errorf("page numbers of %s: %w", p.name, err)
	}
	number := func(i int64) int64 {
		if p.width == 2 {
			return int64(binary.LittleEndian.Uint16(nums[2*i:]))
		}
		return int64(binary.LittleEndian.Uint32(nums[4*i:]))
	}
	done := 0
	for i := int64(0); i < n && done < len(b); {
		start, run := number(i), int64(1)
		for i+run < n && number(i+run) == start+run {
			run++
		}
		want := min(run*p.page-in, int64(len(b)-done))
		if err := p.readRun(b[done:done+int(want)], start, in); err != nil {
			return done, err
		}
		done += int(want)
		i += run
		in = 0
	}
	return done, nil
}

// readRun fills b from consecutive pages, beginning at offset in of page start.
func (p *paged) readRun(b []byte, start, in int64) error {
	pos := start*p.page + in
	last := (pos + int64(len(b)) - 1) / p.page
	if start == 0 || last >= p.pages {
		bad := last
		if start == 0 {
			bad = 0
		}
		return fmt.Errorf("%s refers to page %d, which is not one of the pages 1 to %d", p.name, bad, p.pages-1)
	}
	if int64(len(b)) > p.end || pos > p.end-int64(len(b)) {
		return fmt.Errorf("%s refers to page %d, beyond the end of the file of %d bytes: %w", p.name, last, p.end, io.ErrUnexpectedEOF)
	}
	if err := readFull(p.r, b, pos); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	return nil
}

// msf is a container of pages: MSF 7.0 or the older JG. These differ in the
// size of page numbers and of directory entries.
type msf struct {
	pager
	dir     paged
	streams int
	entry   int64 // size of a directory entry in bytes: the size of a stream and, in PDB20, an unused word

	mu sync.Mutex
	// sums[i] is the number of pages of the first i*sumStep streams, as far as
	// computed; guarded by mu.
	sums []int64
}

// sumStep is the number of streams between two entries of sums.
const sumStep = 256

// openMSF reads the superblock of an MSF 7.0 file and the start of its stream
// directory.
func openMSF(r io.ReaderAt, size int64) (*msf, error) {
	var h [56]byte
	if err := readFull(r, h[:], 0); err != nil {
		return nil, fmt.Errorf("MSF superblock: %w", err)
	}
	u32 := func(off int) int64 { return int64(binary.LittleEndian.Uint32(h[off:])) }
	m := &msf{pager: pager{r: r, end: size, page: u32(32), pages: u32(40), width: 4}, entry: 4}
	if err := m.checkPage("MSF superblock"); err != nil {
		return nil, err
	}
	dirSize := u32(44)
	if dirSize < 4 || dirSize > size {
		return nil, fmt.Errorf("MSF superblock: a stream directory of %d bytes in a file of %d", dirSize, size)
	}
	// The superblock has the page numbers of the block map. Most files have
	// one; files with small pages or many streams have more.
	mapSize := m.pagesFor(dirSize) * 4
	if most := (m.page - 52) / 4; m.pagesFor(mapSize) > most {
		return nil, fmt.Errorf(
			"MSF superblock: the block map of a directory of %d bytes takes %d pages, more than the %d whose numbers fit in the superblock",
			dirSize, m.pagesFor(mapSize), most)
	}
	blockMap := &paged{pager: &m.pager, name: "block map", size: mapSize, list: r, at: 52}
	m.dir = paged{pager: &m.pager, name: "stream directory", size: dirSize, list: blockMap}
	return m, m.readCount(4)
}

// openJG reads the header of a PDB 2.0 file and the start of its stream
// directory.
func openJG(r io.ReaderAt, size int64) (*msf, error) {
	var h [60]byte
	if err := readFull(r, h[:], 0); err != nil {
		return nil, fmt.Errorf("PDB 2.0 header: %w", err)
	}
	m := &msf{entry: 8, pager: pager{r: r, end: size, width: 2,
		page:  int64(binary.LittleEndian.Uint32(h[44:])),
		pages: int64(binary.LittleEndian.Uint16(h[50:])),
	}}
	if err := m.checkPage("PDB 2.0 header"); err != nil {
		return nil, err
	}
	dirSize := int64(binary.LittleEndian.Uint32(h[52:]))
	if dirSize < 4 || dirSize > size {
		return nil, fmt.Errorf("PDB 2.0 header: a stream directory of %d bytes in a file of %d", dirSize, size)
	}
	if most := (m.page - 60) / 2; m.pagesFor(dirSize) > most {
		return nil, fmt.Errorf("PDB 2.0 header: a stream directory of %d pages, more than the %d whose numbers fit in the header",
			m.pagesFor(dirSize), most)
	}
	m.dir = paged{pager: &m.pager, name: "stream directory", size: dirSize, list: r, at: 60}
	return m, m.readCount(2)
}

// checkPage rejects page sizes that no linker writes.
func (m *msf) checkPage(where string) error {
	if m.page < minPage || m.page > maxPage || m.page&(m.page-1) != 0 {
		return fmt.Errorf("%s: the page size %d is not a power of two from %d to %d", where, m.page, minPage, maxPage)
	}
	return nil
}

// readCount reads the number of streams: width bytes in the first four bytes of
// the directory.
func (m *msf) readCount(width int) error {
	var b [4]byte
	if err := readFull(&m.dir, b[:], 0); err != nil {
		return err
	}
	n := int64(binary.LittleEndian.Uint32(b[:]))
	if width == 2 {
		n = int64(binary.LittleEndian.Uint16(b[:]))
	}
	if n > (m.dir.size-4)/m.entry {
		return fmt.Errorf("stream directory: %d streams do not fit in its %d bytes", n, m.dir.size)
	}
	if n > maxStreams {
		return fmt.Errorf("stream directory: %d streams, more than the limit of %d", n, maxStreams)
	}
	m.streams = int(n)
	m.sums = []int64{0}
	return nil
}

// count implements container.
func (m *msf) count() int { return m.streams }

// missing implements container.
func (m *msf) missing() int64 { return max(0, m.pages*m.page-m.end) }

// pageSize implements container.
func (m *msf) pageSize() int { return int(m.page) }

// stream implements container.
func (m *msf) stream(n int) (io.ReaderAt, int64, error) {
	size, first, err := m.locate(n)
	if err != nil {
		return nil, 0, fmt.Errorf("size of stream %d: %w", n, err)
	}
	at := 4 + m.entry*int64(m.streams) + first*m.width
	if num := m.pagesFor(size); at > m.dir.size || num > (m.dir.size-at)/m.width {
		return nil, 0, fmt.Errorf("stream directory: the numbers of the %d pages of stream %d do not fit in its %d bytes", num, n, m.dir.size)
	}
	return &paged{pager: &m.pager, name: fmt.Sprintf("stream %d", n), size: size, list: &m.dir, at: at}, size, nil
}

// locate returns the size of stream n and the number of pages of all streams
// before it. It adds up the sizes from the nearest known sum.
func (m *msf) locate(n int) (size, before int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := min(n/sumStep, len(m.sums)-1)
	at, sum := known*sumStep, m.sums[known]
	buf := make([]byte, sumStep*m.entry)
	for {
		num := min(sumStep, n+1-at)
		part := buf[:int64(num)*m.entry]
		if err := readFull(&m.dir, part, 4+int64(at)*m.entry); err != nil {
			return 0, 0, err
		}
		for i := range num {
			size := int64(binary.LittleEndian.Uint32(part[int64(i)*m.entry:]))
			if size == nilSize {
				size = 0
			}
			if at+i == n {
				return size, sum, nil
			}
			sum += m.pagesFor(size)
		}
		at += num
		if at/sumStep == len(m.sums) {
			m.sums = append(m.sums, sum)
		}
	}
}
