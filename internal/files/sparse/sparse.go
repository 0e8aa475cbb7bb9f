// Package sparse reads a file of which only some ranges are at hand, and finds
// out which others a parser needs. So a program can ask a server about a large
// file and send little of it.
package sparse

import (
	"errors"
	"fmt"
	"io"
	"slices"
)

// Limits of one file.
const (
	// MaxHeld is how many bytes of a file are held, and so sent, at most.
	MaxHeld = 16 << 20
	// MaxRounds is how often a client asks at most until it has an answer.
	MaxRounds = 32
	// Head is how much of the beginning of a file a client sends in the first
	// round: it shows the format, and often more.
	Head = 64 << 10
)

const (
	// block is the unit of what is needed: with smaller ones there would be more
	// rounds, with larger ones more bytes.
	block = 4 << 10
	// apart is the distance of two needed ranges between which the rest is needed
	// too: a range costs more than a few bytes.
	apart = 2 * block
	// maxPieces limits the ranges that are held.
	maxPieces = MaxHeld / block
	// leastAhead and mostAhead limit the bytes that one round asks for: after the first
	// gap the parser reads zeros, so later gaps are guesses. A round asks for as much as
	// there is, because a parser that has needed much needs more.
	leastAhead, mostAhead = 256 << 10, 4 << 20
	// mostOnward limits by how much a range that continues what is held is extended.
	mostOnward = 2 << 20
)

// ErrLimit means that a file cannot be read within MaxHeld.
var ErrLimit = fmt.Errorf("more than %d MiB of the file are needed", MaxHeld>>20)

// errMissing is the error of reads after a round has asked for enough.
var errMissing = errors.New("this part of the file is not at hand")

// Range is a part of a file, in bytes.
type Range struct {
	At  int64 `json:"at"`
	Len int64 `json:"len"`
}

func (r Range) end() int64 { return r.At + r.Len }

// piece is a range that is held.
type piece struct {
	at int64
	b  []byte
}

func (p piece) end() int64 { return p.at + int64(len(p.b)) }

// File is a file of a known size of which some ranges are held. It is not safe for
// concurrent use.
type File struct {
	size int64
	held []piece // in order, disjoint
	sum  int64   // bytes that are held

	// The gaps that Try has met: numbers of blocks, in the order in which they were
	// touched.
	gaps   []int64
	gapped map[int64]bool
}

// New returns a file of size bytes of which nothing is held.
func New(size int64) *File { return &File{size: max(0, size)} }

// Size returns the size of the whole file.
func (f *File) Size() int64 { return f.size }

// Add adds a range. Ranges must not overlap, and must lie within the file. The file
// keeps b.
func (f *File) Add(at int64, b []byte) error {
	n := int64(len(b))
	if at < 0 || n == 0 || at > f.size || n > f.size-at {
		return fmt.Errorf("the range of %d bytes at %d is empty or not within the %d bytes of the file", n, at, f.size)
	}
	if n > MaxHeld-f.sum || len(f.held) == maxPieces {
		return ErrLimit
	}
	i := f.after(at)
	if i > 0 && f.held[i-1].end() > at || i < len(f.held) && f.held[i].at < at+n {
		return fmt.Errorf("the range of %d bytes at %d overlaps with another one", n, at)
	}
	f.held = slices.Insert(f.held, i, piece{at, b})
	f.sum += n
	return nil
}

// after returns the index of the first held piece that begins after off.
func (f *File) after(off int64) int {
	i, _ := slices.BinarySearchFunc(f.held, off, func(p piece, off int64) int {
		if p.at > off {
			return 1
		}
		return -1
	})
	return i
}

// Try calls parse with a reader of the file. If parse touches a range that is not
// held, need says which ranges to add before the next try, in order, and whatever
// parse has returned or computed counts for nothing: it has read zeros, and may have
// ignored an error. If no range can be added because of the limits, the error wraps
// ErrLimit. Otherwise err is that of parse.
func (f *File) Try(parse func(r io.ReaderAt) error) (need []Range, err error) {
	f.gaps, f.gapped = nil, map[int64]bool{}
	err = parse((*reader)(f))
	if len(f.gaps) == 0 {
		return nil, err
	}
	need = f.need()
	if len(need) == 0 || len(f.held)+len(need) > maxPieces {
		return nil, ErrLimit
	}
	return need, nil
}

// Whole returns a reader of the file if all of it is held. The reader is safe for
// concurrent use as long as nothing is added.
func (f *File) Whole() (r io.ReaderAt, ok bool) { return (*reader)(f), f.sum == f.size }

// reader is a File while Try runs.
type reader File

// ReadAt implements io.ReaderAt. What is not held is read as zeros, so that one round
// finds several gaps.
func (r *reader) ReadAt(p []byte, off int64) (int, error) {
	f := (*File)(r)
	if off < 0 {
		return 0, fmt.Errorf("a read at %d", off)
	}
	if off >= f.size {
		return 0, io.EOF
	}
	n, short := len(p), false
	if most := f.size - off; int64(n) > most {
		n, short = int(most), true
	}
	at, end := off, off+int64(n)
	for i := max(0, f.after(off)-1); at < end; i++ {
		next := end // the end of the gap at the offset at
		if i < len(f.held) {
			next = min(end, max(at, f.held[i].at))
			if f.held[i].end() <= at {
				continue
			}
		}
		if next > at {
			if !f.miss(at, next) {
				return 0, errMissing
			}
			clear(p[at-off : next-off])
			at = next
		}
		if i < len(f.held) && at < end {
			at += int64(copy(p[at-off:n], f.held[i].b[at-f.held[i].at:]))
		}
	}
	if short {
		return n, io.EOF
	}
	return n, nil
}

// miss records that a range was touched that is not held. It returns false if the
// round asks for enough already.
func (f *File) miss(at, end int64) bool {
	most := min(mostAhead, max(leastAhead, f.sum)) / block
	for n := at / block; n <= (end-1)/block; n++ {
		if f.gapped[n] {
			continue
		}
		if int64(len(f.gaps)) >= most {
			return false
		}
		f.gapped[n] = true
		f.gaps = append(f.gaps, n)
	}
	return true
}

// need returns the ranges of the gaps. Where not all fit into the limit, those that were
// touched first stay.
func (f *File) need() []Range {
	room := MaxHeld - f.sum
	gaps := slices.Clone(f.gaps[:min(int64(len(f.gaps)), (room+block-1)/block)])
	slices.Sort(gaps)
	var list []Range
	for _, n := range gaps {
		for _, r := range f.lacking(n*block, min(f.size, (n+1)*block)) {
			if last := len(list) - 1; last >= 0 && r.At-list[last].end() <= apart && !f.holdsAny(list[last].end(), r.At) {
				list[last].Len = r.end() - list[last].At
				continue
			}
			list = append(list, r)
		}
	}
	for _, r := range list {
		room -= r.Len
	}
	for i := range list {
		next := f.size
		if j := f.after(list[i].At); j < len(f.held) {
			next = f.held[j].at
		}
		if i+1 < len(list) {
			next = min(next, list[i+1].At)
		}
		// What is read in order is asked for in growing ranges.
		more := min(f.run(list[i].At), mostOnward, next-list[i].At) - list[i].Len
		if more = min(more, room); more > 0 {
			list[i].Len += more
			room -= more
		}
	}
	for len(list) > 0 && room < 0 { // ranges between gaps were added
		last := &list[len(list)-1]
		if over := min(-room, last.Len); over < last.Len {
			last.Len -= over
			break
		}
		room += last.Len
		list = list[:len(list)-1]
	}
	return list
}

// lacking returns the parts of a range that are not held.
func (f *File) lacking(at, end int64) []Range {
	var list []Range
	for i := max(0, f.after(at)-1); at < end && i < len(f.held); i++ {
		p := f.held[i]
		if p.end() <= at {
			continue
		}
		if p.at > at {
			list = append(list, Range{at, min(end, p.at) - at})
		}
		at = p.end()
	}
	if at < end {
		list = append(list, Range{at, end - at})
	}
	return list
}

// holdsAny reports whether a part of a range is held.
func (f *File) holdsAny(at, end int64) bool {
	i := f.after(at)
	return i > 0 && f.held[i-1].end() > at || i < len(f.held) && f.held[i].at < end
}

// run returns the number of bytes that are held without a gap before an offset.
func (f *File) run(end int64) int64 {
	at := end
	for i := f.after(end - 1); i > 0 && f.held[i-1].end() == at; i-- {
		at = f.held[i-1].at
	}
	return end - at
}
