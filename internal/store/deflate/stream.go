package deflate

import (
	"bytes"
	"context"
	"errors"
	"io"
)

const (
	maxStream = 1<<31 - 1<<20 // bytes
	// A sample of a stream says how it was made.
	sampleBytes = 256 << 10
	maxSamples  = 64 // blocks
	// A stream that became more than maxRatio times shorter is hardly worth more.
	maxRatio = 64
)

// Stream is a part of a file that is a deflate stream.
type Stream struct {
	At, Len int64
	Size    int64 // of its bytes
	Recipe  []byte
	Kind    Kind
}

// inflated reads the bytes of a stream.
type inflated struct {
	decoder
	block block
	given int
	err   error
	// parts is where a folder is read; its r is nil for a deflate stream.
	parts folder
}

// restart begins at a bit in front of which past was decoded.
func (d *inflated) restart(r io.ReaderAt, bit, end int64, past []byte) {
	d.begin(r, bit, end, past)
	d.given, d.err, d.block.final, d.parts.r = 0, nil, false, nil
}

// restartFolder begins at a block of a folder in front of which past was decoded.
func (d *inflated) restartFolder(r io.ReaderAt, at, end int64, past []byte) {
	d.restart(r, 0, 0, past)
	d.parts.begin(r, at, end)
}

// boundary says whether reading can begin anew here, with the bytes before, and at which bit.
func (d *inflated) boundary() (bit int64, ok bool) {
	switch {
	case d.given != len(d.bytes()):
		return 0, false
	case d.parts.r != nil:
		return d.parts.at * 8, d.parts.part.size == 0 && !d.parts.over()
	}
	return d.position(), !d.block.final
}

// decode decodes the next block.
func (d *inflated) decode() error {
	if d.parts.r == nil {
		return d.next(&d.block)
	}
	_, _, err := d.parts.next(&d.decoder, &d.block)
	for from := d.from; err == nil && d.parts.ends(); d.from = from { // empty blocks
		_, _, err = d.parts.next(&d.decoder, &d.block)
	}
	d.block.final = d.parts.over()
	return err
}

func (d *inflated) Read(to []byte) (int, error) {
	for d.given == len(d.bytes()) {
		if d.err == nil && d.block.final {
			d.err = io.EOF
		}
		if d.err != nil {
			return 0, d.err
		}
		d.given = 0
		if d.err = d.decode(); d.err != nil {
			d.from = len(d.out)
		}
	}
	n := copy(to, d.bytes()[d.given:])
	d.given += n
	return n, nil
}

// Analyzer makes recipes of streams, one after the other.
type Analyzer struct {
	blocks   decoder
	inflated inflated
	block    block
	analysis analysis
	samples  []block // the first used are of the stream
	used     int
	plain    []byte // of the samples
	last     byte   // setting of the last stream

	// Of folders:
	folder     folder
	parts      []int // sizes of the blocks of the folder of which samples are
	lastFolder byte
}

// settings are tried in this order.
var settings = []byte{
	goSetting, zlibSetting + 6, zlibSetting + 1, zlibSetting + 9, zlibSetting + 5, zlibSetting + 4, zlibSetting + 3, zlibSetting + 2,
	zlibSetting + 7, zlibSetting + 8, zlib9Setting + 6, zlib9Setting + 9, zlib9Setting + 1, zlib9Setting + 5, zlib9Setting + 4,
	zlib9Setting + 3, zlib9Setting + 2, zlib9Setting + 7, zlib9Setting + 8,
	lazySetting + 6, lazySetting + 5, lazySetting + 9, lazySetting + 4, lazySetting + 7, lazySetting + 8,
}

// Probe reads the begin of a stream that ends before an end, and says whether it may have a
// short recipe. Of what is no stream, or a short one, the error is ErrRefused.
func (a *Analyzer) Probe(ctx context.Context, r io.ReaderAt, at, end int64) (bool, error) {
	d := &a.blocks
	d.begin(r, at*8, end, nil)
	a.used = 0
	plain := a.plain[:0]
	for final := false; !final && len(plain) < sampleBytes && a.used < maxSamples; a.used++ {
		if a.used == len(a.samples) {
			a.samples = append(a.samples, block{})
		}
		b := &a.samples[a.used]
		if err := d.next(b); err != nil {
			return false, err
		}
		plain = append(plain, d.bytes()...)
		final = b.final
	}
	a.plain = plain
	packed := int((d.position()+7)/8 - at)
	if d.total < MinStream || len(plain) > maxRatio*packed+4096 {
		return false, ErrRefused
	}
	a.last = a.choose(ctx, plain, packed/12)
	return a.last != 0, ctx.Err()
}

// MinStream is how many bytes a stream has at least that is worth unpacking.
const MinStream = 4 << 10

// choose finds the setting with the shortest recipe for the samples, below a length; 0 if
// there is none. The setting of the last stream is tried first.
func (a *Analyzer) choose(ctx context.Context, plain []byte, best int) (found byte) {
	for _, s := range append([]byte{a.last}, settings...) {
		if n, ok := a.try(ctx, s, plain, best); ok {
			if best, found = n, s; n < exactRecipe {
				break
			}
		}
	}
	return found
}

// exactRecipe is the length below which a recipe corrects nothing but the last block.
const exactRecipe = 8

// try makes the recipe of the samples with a setting, unless it gets as long as most.
func (a *Analyzer) try(ctx context.Context, setting byte, plain []byte, most int) (int, bool) {
	x := &a.analysis
	if !x.begin(setting, bytes.NewReader(plain), len(plain)) {
		return 0, false
	}
	for i := range a.used {
		b := &a.samples[i]
		if i > 0 && i+1 == a.used && !b.final {
			break
		}
		if err := x.add(ctx, b); err != nil || len(x.recipe) >= most {
			return 0, false
		}
	}
	return len(x.recipe), true
}

// Analyze makes the recipe of a stream for which the last call of Probe returned true. ErrRefused
// is the error of a stream whose recipe is long.
func (a *Analyzer) Analyze(ctx context.Context, r io.ReaderAt, at, end int64) (Stream, error) {
	size, n, err := a.Measure(ctx, r, at, end)
	if err != nil {
		return Stream{}, err
	}
	s := Stream{At: at, Len: n, Size: size}
	x := &a.analysis
	plain := &a.inflated
	plain.restart(r, at*8, at+n, nil)
	if !x.begin(a.last, plain, int(size)) {
		return s, ErrRefused
	}
	d := &a.blocks
	d.begin(r, at*8, at+n, nil)
	for {
		if err := ctx.Err(); err != nil {
			return s, err
		}
		if err := d.next(&a.block); err != nil {
			return s, err
		}
		if err := x.add(ctx, &a.block); err != nil {
			return s, err
		}
		if int64(len(x.recipe)) > 4096+(d.position()/8-at)/8 {
			return s, ErrRefused
		}
		if a.block.final {
			break
		}
	}
	s.Recipe = bytes.Clone(x.recipe)
	return s, nil
}

// Measure decodes a stream, and returns the number of its bytes and its own length.
func (a *Analyzer) Measure(ctx context.Context, r io.ReaderAt, at, end int64) (size, n int64, err error) {
	d := &a.blocks
	d.begin(r, at*8, end, nil)
	for {
		if err := ctx.Err(); err != nil {
			return 0, 0, err
		}
		if err := d.next(&a.block); err != nil {
			return 0, 0, err
		}
		n = (d.position()+7)/8 - at
		if d.total > maxStream || d.total > maxRatio*n+sampleBytes {
			return 0, 0, ErrRefused
		}
		if !a.block.final {
			continue
		}
		if d.take(d.n&7) != 0 {
			return 0, 0, ErrRefused // known programs end with zeros
		}
		return d.total, n, nil
	}
}

const (
	marks       = 64      // places of a stream at most where a Reader can begin
	markedBytes = 1 << 20 // between two of them, at least
)

// mark is where a Reader can begin.
type mark struct {
	bit, at int64 // of the stream, of its bytes
	past    []byte
}

// Reader reads the bytes of a stream, at any place. Where it has been, it goes back to
// without decoding all before again.
type Reader struct {
	r       io.ReaderAt
	s       Stream
	d       *inflated
	at      int64
	marks   []mark
	discard []byte
}

// NewReader returns a Reader of a stream in r. It takes the memory of old, which is not used
// any more, unless that is nil.
func NewReader(r io.ReaderAt, s Stream, old *Reader) *Reader {
	n := &Reader{r: r, s: s, marks: []mark{{bit: s.At * 8}}, at: -1}
	if old != nil {
		n.d, n.discard = old.d, old.discard
	}
	return n
}

// ReadAt implements [io.ReaderAt], for one goroutine.
func (r *Reader) ReadAt(b []byte, off int64) (n int, err error) {
	r.seek(off)
	for n < len(b) && err == nil {
		if off > r.at {
			if r.discard == nil {
				r.discard = make([]byte, 32<<10)
			}
			_, err = r.read(r.discard[:min(int64(len(r.discard)), off-r.at)])
		} else {
			var k int
			k, err = r.read(b[n:])
			n += k
			off += int64(k)
		}
	}
	if errors.Is(err, io.EOF) && r.at != r.s.Size {
		err = ErrRefused
	}
	return n, err
}

// seek begins at the last mark before a place, unless the decoder is nearer.
func (r *Reader) seek(off int64) {
	m := &r.marks[0]
	for i := range r.marks {
		if r.marks[i].at <= off {
			m = &r.marks[i]
		}
	}
	if r.at >= 0 && r.at <= off && m.at <= r.at {
		return
	}
	if r.d == nil {
		r.d = &inflated{}
	}
	if r.s.Kind == Folder {
		r.d.restartFolder(r.r, m.bit/8, r.s.At+r.s.Len, m.past)
	} else {
		r.d.restart(r.r, m.bit, r.s.At+r.s.Len, m.past)
	}
	r.at = m.at
}

func (r *Reader) read(b []byte) (int, error) {
	last := &r.marks[len(r.marks)-1]
	if r.at >= last.at+max(markedBytes, r.s.Size/marks) {
		if bit, ok := r.d.boundary(); ok {
			r.marks = append(r.marks, mark{bit, r.at, bytes.Clone(r.d.past())})
		}
	}
	n, err := r.d.Read(b)
	r.at += int64(n)
	return n, err
}
