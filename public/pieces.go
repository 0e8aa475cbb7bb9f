package public

import (
	"bufio"
	"io"
	"slices"

	"github.com/symdepot/symdepot/internal/base/sorting"
)

// span is a range of offsets in a file.
type span struct{ from, to int64 }

// pieces are the contents of an output file by their offsets.
type pieces struct {
	r    io.ReaderAt // of the input
	list []piece
	size int64 // the least size of the output; zeros are added
}

// piece is bytes in memory, or a range of the input.
type piece struct {
	at   int64 // offset in the output
	data []byte
	from int64 // offset in the input, if data is nil
	n    int64
}

// memory puts data at an offset of the output.
func (p *pieces) memory(at int64, data []byte) {
	if len(data) > 0 {
		p.list = append(p.list, piece{at: at, data: data, n: int64(len(data))})
	}
}

// input puts n bytes at an offset of the input at an offset of the output.
func (p *pieces) input(at, from, n int64) {
	if n > 0 {
		p.list = append(p.list, piece{at: at, from: from, n: n})
	}
}

// end returns the offset after the last piece.
func (p *pieces) end() int64 {
	end := p.size
	for _, x := range p.list {
		end = max(end, x.at+x.n)
	}
	return end
}

// check sorts the pieces, and says whether any two overlap.
func (p *pieces) check() error {
	sorting.Stable(p.list, func(a, b piece) int { return int(max(min(a.at-b.at, 1), -1)) })
	end := int64(0)
	for _, x := range p.list {
		if x.at < end {
			return broken("contents at offset %d overlap others", x.at)
		}
		end = x.at + x.n
	}
	return nil
}

// write writes the pieces with zeros between them. They must have been checked.
func (p *pieces) write(w io.Writer) error {
	out := bufio.NewWriterSize(w, 256<<10)
	at := int64(0)
	for _, x := range p.list {
		if err := zeros(out, x.at-at); err != nil {
			return err
		}
		var err error
		if x.data != nil {
			_, err = out.Write(x.data)
		} else {
			err = copyRange(out, p.r, x.from, x.n)
		}
		if err != nil {
			return err
		}
		at = x.at + x.n
	}
	if err := zeros(out, p.size-at); err != nil {
		return err
	}
	return out.Flush()
}

// zeros writes n zeros.
func zeros(w io.Writer, n int64) error {
	zero := make([]byte, min(max(n, 0), 64<<10))
	for n > 0 {
		k, err := w.Write(zero[:min(n, int64(len(zero)))])
		if err != nil {
			return err
		}
		n -= int64(k)
	}
	return nil
}

// copyRange copies n bytes of r at off to w.
func copyRange(w io.Writer, r io.ReaderAt, off, n int64) error {
	k, err := io.Copy(w, io.NewSectionReader(r, off, n))
	if err == nil && k < n {
		return broken("%d bytes at offset %d lie outside the file: %w", n, off, io.ErrUnexpectedEOF)
	}
	return err
}

// join sorts spans, and joins those that touch.
func join(list []span) []span {
	sorting.By(list, func(a, b span) int { return int(max(min(a.from-b.from, 1), -1)) })
	var out []span
	for _, s := range list {
		if s.to <= s.from {
			continue
		}
		if k := len(out) - 1; k >= 0 && s.from <= out[k].to {
			out[k].to = max(out[k].to, s.to)
			continue
		}
		out = append(out, s)
	}
	return out
}

// subtract returns the parts of the joined spans list that are in none of the joined spans less.
func subtract(list, less []span) []span {
	var out []span
	for _, s := range list {
		i, _ := slices.BinarySearchFunc(less, s.from, func(x span, from int64) int {
			if x.to <= from {
				return -1
			}
			return 1
		})
		for ; i < len(less) && less[i].from < s.to; i++ {
			if less[i].from > s.from {
				out = append(out, span{s.from, less[i].from})
			}
			s.from = min(less[i].to, s.to)
		}
		if s.from < s.to {
			out = append(out, s)
		}
	}
	return out
}

// total returns the number of bytes of joined spans.
func total(list []span) int64 {
	n := int64(0)
	for _, s := range list {
		n += s.to - s.from
	}
	return n
}

// alignUp rounds n up to a multiple of align, a power of two; other values of align count as 1, and
// large ones as 64 KiB.
func alignUp(n int64, align uint64) int64 {
	if align == 0 || align&(align-1) != 0 {
		return n
	}
	a := int64(min(align, 64<<10))
	return (n + a - 1) &^ (a - 1)
}
