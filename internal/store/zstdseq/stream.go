package zstdseq

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"math/bits"
)

const (
	// A sample of a frame says how it was made.
	sampleBytes = 256 << 10
	// MinStream is how many bytes a frame has at least that is worth unpacking.
	MinStream = 4 << 10
	// A frame that became more than maxRatio times shorter is hardly worth more.
	maxRatio = 64
)

// levels are the settings of the levels of libzstd for contents of a size, those that are used most first.
// Of the levels above 12, nothing is known here.
var levels = []struct {
	most     int64 // bytes of the content
	settings []setting
}{
	{16 << 10, []setting{
		{doubleStrategy, 14, 14, 15, 2, 4, 0}, {fastStrategy, 14, 14, 15, 1, 5, 0}, {fastStrategy, 14, 14, 15, 1, 4, 0},
	}},
	{128 << 10, []setting{
		{doubleStrategy, 17, 15, 16, 2, 5, 0}, {greedyStrategy, 17, 16, 17, 3, 4, 2}, {fastStrategy, 17, 12, 13, 1, 6, 0},
		{fastStrategy, 17, 13, 15, 1, 5, 0}, {doubleStrategy, 17, 17, 17, 2, 4, 0}, {lazyStrategy, 17, 16, 17, 3, 4, 4},
		{lazy2Strategy, 17, 16, 17, 3, 4, 8}, {lazy2Strategy, 17, 16, 17, 4, 4, 8}, {lazy2Strategy, 17, 16, 17, 5, 4, 8},
		{lazy2Strategy, 17, 16, 17, 6, 4, 8},
	}},
	{256 << 10, []setting{
		{doubleStrategy, 18, 16, 16, 1, 4, 0}, {greedyStrategy, 18, 17, 18, 5, 5, 2}, {fastStrategy, 18, 13, 14, 1, 6, 0},
		{doubleStrategy, 18, 14, 14, 1, 5, 0}, {greedyStrategy, 18, 16, 17, 3, 5, 2}, {lazyStrategy, 18, 18, 19, 3, 5, 4},
		{lazyStrategy, 18, 18, 19, 4, 4, 4}, {lazy2Strategy, 18, 18, 19, 4, 4, 8}, {lazy2Strategy, 18, 18, 19, 5, 4, 8},
		{lazy2Strategy, 18, 18, 19, 6, 4, 8},
	}},
	{maxContent, []setting{
		{doubleStrategy, 21, 16, 17, 1, 5, 0}, {greedyStrategy, 21, 18, 19, 3, 5, 2}, {fastStrategy, 19, 13, 14, 1, 7, 0},
		{fastStrategy, 20, 15, 16, 1, 6, 0}, {doubleStrategy, 21, 18, 18, 1, 5, 0}, {lazyStrategy, 21, 18, 19, 3, 5, 4},
		{lazyStrategy, 21, 19, 20, 4, 5, 8}, {lazy2Strategy, 21, 19, 20, 4, 5, 16}, {lazy2Strategy, 22, 20, 21, 4, 5, 16},
		{lazy2Strategy, 22, 21, 22, 5, 5, 16}, {lazy2Strategy, 22, 21, 22, 6, 5, 16}, {lazy2Strategy, 22, 22, 23, 6, 5, 32},
	}},
}

// settingsFor are the settings that a frame may have been made with, the likely ones first.
func settingsFor(h head, size int64) (list []setting) {
	from := len(levels) - 1
	for i := from; i >= 0 && size >= 0 && size <= levels[i].most; i-- {
		from = i
	}
	for _, s := range levels[from].settings {
		// A program makes its window and tables no larger than the content needs.
		if size > 0 {
			s.window = min(s.window, uint8(max(bits.Len64(uint64(size-1)), 10)))
		}
		if h.descriptor&singleSegment == 0 {
			s.window = 10 + h.window>>3
		}
		s.hash, s.chain = min(s.hash, s.window+1), min(s.chain, s.window)
		list = append(list, s)
		if s.strategy != fastStrategy {
			s.strategy |= newer
			list = append(list, s)
		}
	}
	return list
}

// Analyzer makes recipes of frames, one after the other.
type Analyzer struct {
	decoder  decoder
	block    block
	analysis analysis
	last     setting // of the last frame
}

// Measure returns the number of the bytes of the frame at a place, which ends before an end, and its own
// length. Of what is no frame, or none that is worth unpacking, the error is ErrRefused.
func (a *Analyzer) Measure(ctx context.Context, r io.ReaderAt, at, end int64) (size, n int64, err error) {
	d := &a.decoder
	if err := d.begin(r, at, end); err != nil {
		return 0, 0, err
	}
	for !d.over {
		if err := ctx.Err(); err != nil {
			return 0, 0, err
		}
		if d.size >= 0 {
			err = d.readBlock(&a.block)
		} else {
			err = d.next(&a.block)
		}
		if err != nil {
			return 0, 0, err
		}
		if size = int64(d.text.end()); size > maxContent || size > maxRatio*(d.at-at)+sampleBytes {
			return 0, 0, ErrRefused
		}
	}
	n = d.at - at
	if d.size >= 0 {
		size = d.size
		if d.head.descriptor&hasChecksum != 0 {
			n += checkSize
		}
	}
	if size > maxRatio*n+sampleBytes || at+n > end {
		return 0, 0, ErrRefused
	}
	return size, n, nil
}

// Probe says whether the frame at a place, with the size and the length that Measure gave, may have a short
// recipe.
func (a *Analyzer) Probe(ctx context.Context, r io.ReaderAt, at, size, n int64) (bool, error) {
	if err := a.decoder.begin(r, at, at+n); err != nil {
		return false, err
	}
	list := settingsFor(a.decoder.head, a.decoder.size)
	for i, s := range list { // what made the last one, first
		if s == a.last {
			list[0], list[i] = s, list[0]
		}
	}
	best, found := 0, false
	for i, s := range list {
		got, packed, err := a.try(ctx, r, at, size, n, s)
		if err != nil {
			return false, err
		}
		if i == 0 {
			best = usable(packed)
		}
		if got < best {
			best, found, a.last = got, true, s
			if got <= 3*settingSize+int(packed/2048) {
				break // what is corrected is hardly more than the sizes of blocks
			}
		}
	}
	return found, nil
}

// try makes the recipe of a sample with a setting, and returns the length of both.
func (a *Analyzer) try(ctx context.Context, r io.ReaderAt, at, size, n int64, s setting) (got int, packed int64, err error) {
	d := &a.decoder
	if err := d.begin(r, at, at+n); err != nil {
		return 0, 0, err
	}
	if !a.analysis.begin(d.head, s, size) {
		return 0, 0, ErrRefused
	}
	a.analysis.brief = true
	from := d.at
	for !d.over && d.text.end() < sampleBytes {
		if err := d.next(&a.block); err != nil {
			return 0, 0, err
		}
		if err := a.analysis.add(ctx, &a.block, d); errors.Is(err, errLong) {
			return math.MaxInt, d.at - from, nil
		} else if err != nil {
			return 0, 0, err
		}
	}
	return len(a.analysis.recipe), d.at - from, nil
}

// usable is the length below which the recipe of n bytes of a frame is of use.
func usable(n int64) int { return int(64 + n/8) }

// Analyze makes the recipe of a frame for which the last call of Probe returned true. ErrRefused is the error
// of a frame whose recipe is long, or that cannot be made again.
func (a *Analyzer) Analyze(ctx context.Context, r io.ReaderAt, at, size, n int64) ([]byte, error) {
	d, x := &a.decoder, &a.analysis
	if err := d.begin(r, at, at+n); err != nil {
		return nil, err
	}
	if !x.begin(d.head, a.last, size) {
		return nil, ErrRefused
	}
	x.brief = true
	for !d.over {
		if err := d.next(&a.block); err != nil {
			return nil, err
		}
		if err := x.add(ctx, &a.block, d); errors.Is(err, errLong) {
			return nil, ErrRefused
		} else if err != nil {
			return nil, err
		}
		if len(x.recipe) > 4096+usable(d.at-at) {
			return nil, ErrRefused
		}
	}
	if int64(x.p) != size || d.at != at+n || len(x.recipe) > usable(n) {
		return nil, ErrRefused
	}
	return bytes.Clone(x.recipe), nil
}

// Reader reads the bytes of a frame, at any place. It decodes what is before, unless it was read last.
type Reader struct {
	r           io.ReaderAt
	at, n, size int64
	d           *decoder
	block       block
	begun       bool
}

// NewReader returns a Reader of the frame of n bytes at a place of r, which stands for size bytes. It takes
// the memory of old, which is not used any more, unless that is nil.
func NewReader(r io.ReaderAt, at, n, size int64, old *Reader) *Reader {
	x := &Reader{r: r, at: at, n: n, size: size, d: &decoder{}}
	if old != nil {
		x.d = old.d
	}
	return x
}

// ReadAt implements [io.ReaderAt], for one goroutine.
func (r *Reader) ReadAt(b []byte, off int64) (n int, err error) {
	d := r.d
	if !r.begun || off < int64(d.text.from) {
		if err := d.begin(r.r, r.at, r.at+r.n); err != nil {
			return 0, err
		}
		r.begun = true
	}
	for n < len(b) {
		if end := int64(d.text.end()); off < end {
			k := copy(b[n:], d.text.b[off-int64(d.text.from):])
			n, off = n+k, off+int64(k)
			continue
		}
		if d.over {
			if int64(d.text.end()) != r.size {
				return n, ErrRefused
			}
			return n, io.EOF
		}
		if err := d.next(&r.block); err != nil {
			r.begun = false
			return n, err
		}
	}
	return n, nil
}
