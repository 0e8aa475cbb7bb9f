package deflate

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
)

// Kind says what a stream is.
type Kind uint8

// The kinds. They are stored: a number keeps its meaning for ever.
const (
	Deflate Kind = 0 // a deflate stream
	// Folder is a folder of a cabinet that is compressed with MSZIP: blocks of data, of which
	// each has a head of 8 bytes (checksum, length, length of its bytes), "CK", and a deflate
	// stream that refers to the 32 KiB before it ([MS-CAB], 2.5 and 3).
	Folder Kind = 1
)

const (
	partBytes = 32 << 10 // that each block of a folder stands for, except the last one
	partHead  = 8
	partMark  = "CK"
	// runParts is how many blocks our own cabinets are compressed in one run: see lazy.
	runParts = 32
)

// part is the head of a block of a folder.
type part struct {
	at, end int64 // of its deflate stream
	size    int   // of its bytes
	sum     uint32
}

// readPart reads the head of the block of a folder at an offset.
func readPart(r io.ReaderAt, at, end int64, mem []byte) (p part, err error) {
	head := mem[:partHead+len(partMark)]
	if end-at < int64(len(head)) {
		return p, ErrRefused
	}
	if _, err := r.ReadAt(head, at); err != nil && err != io.EOF {
		return p, err
	}
	n := int64(binary.LittleEndian.Uint16(head[4:]))
	p = part{at: at + int64(len(head)), end: at + partHead + n, size: int(binary.LittleEndian.Uint16(head[6:])),
		sum: binary.LittleEndian.Uint32(head)}
	if n < int64(len(partMark)) || p.end > end || p.size == 0 || p.size > partBytes || string(head[partHead:]) != partMark {
		return p, ErrRefused
	}
	return p, nil
}

// partSum is the checksum of a block of a folder: the exclusive or of the words of its data and
// of its two lengths. The bytes behind the last whole word are one word, with the first byte highest.
func partSum(data []byte, size int) uint32 {
	sum := uint32(len(data)) | uint32(size)<<16
	for ; len(data) >= 4; data = data[4:] {
		sum ^= binary.LittleEndian.Uint32(data)
	}
	last := uint32(0)
	for _, b := range data {
		last = last<<8 | uint32(b)
	}
	return sum ^ last
}

// folder decodes the blocks of a folder one after the other.
type folder struct {
	r       io.ReaderAt
	at, end int64 // of the next block of the folder; of the folder
	mem     []byte
	part    part
	done    int // bytes of the part
}

func (f *folder) begin(r io.ReaderAt, at, end int64) {
	if f.mem == nil {
		f.mem = make([]byte, 1<<16)
	}
	*f = folder{r: r, at: at, end: end, mem: f.mem}
}

// next decodes the next deflate block of the folder with d, whose history it keeps. first says
// that it begins a block of the folder, which is checked, and last that it ends one.
func (f *folder) next(d *decoder, b *block) (first, last bool, err error) {
	if first = f.part.size == 0; first {
		if f.part, err = readPart(f.r, f.at, f.end, f.mem); err != nil {
			return first, false, err
		}
		data := f.mem[:f.part.end-f.at-partHead]
		if _, err := f.r.ReadAt(data, f.at+partHead); err != nil && err != io.EOF {
			return first, false, err
		}
		if partSum(data, f.part.size) != f.part.sum {
			return first, false, ErrRefused
		}
		total := d.total
		d.begin(f.r, f.part.at*8, f.part.end, d.past())
		d.total, f.done = total, 0
	}
	if err := d.next(b); err != nil {
		return first, false, err
	}
	if f.done += b.size; f.done > f.part.size {
		return first, false, ErrRefused
	}
	if !b.final {
		return first, false, nil
	}
	at := (d.position() + 7) / 8
	if d.take(d.n&7) != 0 || at != f.part.end || f.done != f.part.size || f.part.size < partBytes && f.part.end != f.end {
		return first, true, ErrRefused
	}
	f.at, f.part = f.part.end, part{}
	return first, true, nil
}

// ends says whether a block of the folder has all its bytes, and its deflate stream is not over.
func (f *folder) ends() bool { return f.part.size > 0 && f.done == f.part.size }

// over says whether the last block of the folder was decoded.
func (f *folder) over() bool { return f.part.size == 0 && f.at == f.end }

// FolderEnd returns where n blocks of a folder that begin at an offset end. The error is
// ErrRefused if they are not blocks of MSZIP.
func FolderEnd(ctx context.Context, r io.ReaderAt, at, end int64, n int) (int64, error) {
	var mem [partHead + len(partMark)]byte
	for i := range n {
		if i&0xff == 0 && ctx.Err() != nil {
			return 0, ctx.Err()
		}
		p, err := readPart(r, at, end, mem[:])
		if err != nil {
			return 0, err
		}
		if p.size != partBytes && i+1 < n {
			return 0, ErrRefused
		}
		at = p.end
	}
	return at, nil
}

// folderSettings are tried in this order.
var folderSettings = []byte{
	flushedSetting + 7, zlibSetting + 6, zlibSetting + 9, primed | zlibSetting + 6, primed | zlibSetting + 9, flushedSetting + 8,
	zlibSetting + 1, primed | zlibSetting + 1,
	zlibSetting + 5, zlibSetting + 7, zlibSetting + 8, zlibSetting + 4, zlibSetting + 3, zlibSetting + 2,
	primed | zlibSetting + 5, primed | zlibSetting + 7, primed | zlibSetting + 8,
	primed | zlibSetting + 4, primed | zlibSetting + 3, primed | zlibSetting + 2,
}

// ProbeFolder is Probe for a folder from at to end.
func (a *Analyzer) ProbeFolder(ctx context.Context, r io.ReaderAt, at, end int64) (bool, error) {
	d, f := &a.blocks, &a.folder
	f.begin(r, at, end)
	d.begin(r, 0, 0, nil)
	a.used, a.parts = 0, a.parts[:0]
	plain := a.plain[:0]
	for !f.over() && len(plain) < sampleBytes && a.used < maxSamples {
		if a.used == len(a.samples) {
			a.samples = append(a.samples, block{})
		}
		b := &a.samples[a.used]
		first, _, err := f.next(d, b)
		if err != nil {
			return false, err
		}
		if first {
			a.parts = append(a.parts, f.part.size)
			if f.part.size == 0 { // it is over already
				a.parts[len(a.parts)-1] = b.size
			}
		}
		plain = append(plain, d.bytes()...)
		a.used++
	}
	a.plain = plain
	for f.part.size > 0 { // up to the end of the block of the folder
		if a.used == 4*maxSamples {
			return false, ErrRefused
		}
		if a.used == len(a.samples) {
			a.samples = append(a.samples, block{})
		}
		b := &a.samples[a.used]
		if _, _, err := f.next(d, b); err != nil {
			return false, err
		}
		plain = append(plain, d.bytes()...)
		a.used++
	}
	a.plain = plain
	packed := int(f.at - at)
	if len(plain) < MinStream || len(plain) > maxRatio*packed+4096 {
		return false, ErrRefused
	}
	best, found := packed/12, byte(0)
	for _, s := range append([]byte{a.lastFolder}, folderSettings...) {
		if n, ok := a.tryFolder(ctx, s, plain, best); ok {
			if best, found = n, s; n < exactRecipe {
				break
			}
		}
	}
	a.lastFolder = found
	return found != 0, ctx.Err()
}

// tryFolder is try for the samples of a folder.
func (a *Analyzer) tryFolder(ctx context.Context, setting byte, plain []byte, most int) (int, bool) {
	x := &a.analysis
	if !x.begin(setting, bytes.NewReader(plain), 0) {
		return 0, false
	}
	first, parts := true, a.parts
	for i := range a.used {
		b := &a.samples[i]
		if first {
			if err := x.part(parts[0]); err != nil {
				return 0, false
			}
			parts = parts[1:]
		}
		if err := x.add(ctx, b); err != nil || len(x.recipe) >= most {
			return 0, false
		}
		first = b.final
	}
	return len(x.recipe), true
}

// AnalyzeFolder makes the recipe of a folder for which the last call of ProbeFolder returned true.
// ErrRefused is the error of a folder whose recipe is long.
func (a *Analyzer) AnalyzeFolder(ctx context.Context, r io.ReaderAt, at, end int64) (Stream, error) {
	size, err := a.MeasureFolder(ctx, r, at, end)
	if err != nil {
		return Stream{}, err
	}
	s := Stream{At: at, Len: end - at, Size: size, Kind: Folder}
	x, d, f := &a.analysis, &a.blocks, &a.folder
	plain := NewReader(r, s, nil)
	if !x.begin(a.lastFolder, io.NewSectionReader(plain, 0, size), 0) {
		return s, ErrRefused
	}
	f.begin(r, at, end)
	d.begin(r, 0, 0, nil)
	for left := size; !f.over(); {
		if err := ctx.Err(); err != nil {
			return s, err
		}
		first, _, err := f.next(d, &a.block)
		if err != nil {
			return s, err
		}
		if first {
			n := min(partBytes, left)
			left -= n
			if err := x.part(int(n)); err != nil {
				return s, err
			}
		}
		if err := x.add(ctx, &a.block); err != nil {
			return s, err
		}
		if int64(len(x.recipe)) > 4096+(f.at-at)/8 {
			return s, ErrRefused
		}
	}
	s.Recipe = bytes.Clone(x.recipe)
	return s, nil
}

// MeasureFolder decodes a folder from at to end, and returns the number of its bytes.
func (a *Analyzer) MeasureFolder(ctx context.Context, r io.ReaderAt, at, end int64) (size int64, err error) {
	d, f := &a.blocks, &a.folder
	f.begin(r, at, end)
	d.begin(r, 0, 0, nil)
	for blocks := 0; !f.over(); blocks++ {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if _, _, err := f.next(d, &a.block); err != nil {
			return 0, err
		}
		if d.total > maxStream || d.total > maxRatio*(f.at-at)+sampleBytes {
			return 0, ErrRefused
		}
	}
	return d.total, nil
}

// part begins the next block of a folder, of size bytes: what follows it is not known to its
// program.
func (r *run) part(size int) error {
	if size > partBytes || r.p != r.size || r.size > maxStream {
		return ErrRefused
	}
	r.size += size
	r.parts++
	if err := r.at(r.p); err != nil {
		return err
	}
	from := max(0, r.p-history)
	switch x := r.predictor.(type) {
	case *chains:
		if r.setting&primed == 0 {
			from = r.p
		}
		x.forget(from)
	case *lazy:
		if !x.flushes {
			return ErrRefused
		}
		if (r.parts-1)%runParts == 0 {
			x.restart(from, r.p)
		}
		x.empties = 0
	default:
		return ErrRefused
	}
	return nil
}

// FolderPacker makes a folder of a cabinet of its bytes and a recipe. It is an [io.Reader].
type FolderPacker struct {
	Packer
	left int64 // bytes of the folder whose blocks are not begun
}

// NewFolderPacker returns a FolderPacker for size bytes, those of plain, and a recipe.
func NewFolderPacker(plain io.Reader, size int64, recipe []byte) *FolderPacker {
	p := &FolderPacker{left: size}
	p.recipe = recipe
	if len(recipe) == 0 || size > maxStream || !p.begin(recipe[0], plain, 0) {
		p.err = errRecipe
		return p
	}
	p.recipe = recipe[1:]
	p.skip()
	return p
}

// Read reads the bytes of the folder.
func (p *FolderPacker) Read(to []byte) (n int, err error) {
	for p.given == len(p.out.b) {
		if p.err == nil && p.left == 0 {
			return 0, io.EOF
		}
		if p.err == nil {
			p.err = p.nextPart()
		}
		if p.err != nil {
			p.out.b, p.given = p.out.b[:0], 0
			return 0, p.err
		}
	}
	n = copy(to, p.out.b[p.given:])
	p.given += n
	return n, nil
}

// nextPart makes the next block of the folder.
func (p *FolderPacker) nextPart() error {
	size := min(partBytes, p.left)
	if err := p.part(int(size)); errors.Is(err, ErrRefused) {
		return errRecipe
	} else if err != nil {
		return err
	}
	p.left -= size
	p.more = p.left > 0
	p.out.b, p.given = append(p.out.b[:0], "        "+partMark...), 0
	for p.over = false; !p.over; {
		if err := p.next(); err != nil {
			return err
		}
		if len(p.out.b) > partHead+0xffff {
			return errRecipe
		}
	}
	if p.p != p.size {
		return errRecipe
	}
	data := p.out.b[partHead:]
	binary.LittleEndian.PutUint32(p.out.b, partSum(data, int(size)))
	binary.LittleEndian.PutUint16(p.out.b[4:], uint16(len(data)))
	binary.LittleEndian.PutUint16(p.out.b[6:], uint16(size))
	return nil
}
