package zstdseq

import (
	"context"
	"encoding/binary"
	"errors"
	"io"

	"github.com/cespare/xxhash/v2"
)

// A recipe is the first one or two bytes of the head of a frame, a setting, and what the frame has
// otherwise than predicted: for each block that is not as predicted, the number of blocks before it that
// are, and a correction. Recipes are stored: a number keeps its meaning for ever, and predictors do not
// change.

// What a correction corrects. Its kind is above the flags.
const (
	otherSize      = 1  // the bytes of the block
	otherKind      = 2  // its kind
	otherLiterals  = 4  // the mode of the literals, their size format above it, and the tree
	otherTables    = 8  // the modes of the tables, and their descriptions
	otherSequences = 16 // sequences
	otherLast      = 32 // whether it is the last block
	kindShift      = 6
)

// errRecipe is the error of a recipe that does not fit.
var errRecipe = errors.New("a recipe of a frame of zstd contradicts itself")

// IsRecipe says whether a Packer failed because its recipe does not fit.
func IsRecipe(err error) bool { return errors.Is(err, errRecipe) }

// run is a frame on its way through a predictor.
type run struct {
	finders
	finder  finder
	chooser chooser
	writer  writer
	repeats repeats
	head    head
	size    int // of the content
	most    int // bytes of a block
	p       int // bytes so far
	guess   block
	mem     []byte // literals
}

// begin begins a frame of size bytes. It is false for what no frame has.
func (r *run) begin(h head, s setting, size int64) bool {
	window := h.windowSize(size)
	if size > maxContent || window > maxWindow || !s.valid() {
		return false
	}
	r.finder = r.of(s)
	r.chooser.strategy = s.strategy &^ newer
	r.writer.reset()
	r.repeats, r.head, r.size, r.p = firstRepeats, h, int(size), 0
	r.most = int(min(maxBlock, window))
	return true
}

// expected is the size that is predicted for the next block.
func (r *run) expected() int { return min(r.most, r.size-r.p) }

// kind is the kind that is predicted for a block with a content of n bytes if it is compressed.
func (r *run) kind(block []byte, n int, ok bool) uint8 {
	const short = 25
	switch {
	case len(block) < shortest:
		return rawBlock
	case r.p > 0 && n < short && same(block):
		return rleBlock
	case !ok || n >= len(block)-saved(len(block)):
		return rawBlock
	}
	return compressedBlock
}

// same says whether all bytes are equal.
func same(b []byte) bool {
	for _, v := range b {
		if v != b[0] {
			return false
		}
	}
	return true
}

// gather returns the literals of a block.
func (r *run) gather(block []byte, sequences []seq) []byte {
	r.mem = r.mem[:0]
	for _, s := range sequences {
		r.mem = append(r.mem, block[:s.literals]...)
		block = block[s.literals+s.length:]
	}
	r.mem = append(r.mem, block...)
	return r.mem
}

// done goes on behind a block.
func (r *run) done(b *block, after repeats) {
	r.p += b.size
	if b.kind == compressedBlock {
		r.writer.commit(b)
		r.repeats = after
	}
}

// analysis makes a recipe.
type analysis struct {
	run
	recipe []byte
	exact  uint64 // blocks since the last correction
	wrong  int    // sequences of the block
	seqs   []byte // corrections of them
	brief  bool   // whether long corrections end the work
}

// errLong ends the work where the corrections of a block are long.
var errLong = errors.New("the corrections of a block are long")

func (a *analysis) begin(h head, s setting, size int64) bool {
	a.recipe = append(a.recipe[:0], h.descriptor)
	if h.descriptor&singleSegment == 0 {
		a.recipe = append(a.recipe, h.window)
	}
	a.recipe = s.append(a.recipe)
	a.exact = 0
	return a.run.begin(h, s, size)
}

// add takes the block that d has decoded, and writes down how it differs. Of a block that cannot be made
// again, the error is ErrRefused.
func (a *analysis) add(ctx context.Context, b *block, d *decoder) error {
	if b.size == 0 && !b.last { // no Packer makes it
		return ErrRefused
	}
	flags := 0
	plain := d.text.b[len(d.text.b)-b.size:]
	if b.size != a.expected() {
		flags |= otherSize
	}
	a.finder.begin(&d.text, b.size, a.repeats)
	most := 1 << 30
	if a.brief {
		most = 2 * usable(int64(len(d.packed)))
	}
	if err := a.sequences(ctx, b, most); err != nil {
		return err
	}
	if a.wrong > 0 {
		flags |= otherSequences
	}
	g := &a.guess
	g.sequences = b.sequences
	literals := a.gather(plain, b.sequences)
	a.chooser.choose(g, literals, &a.writer)
	if b.kind == compressedBlock {
		flags |= g.compare(b)
	} else {
		b.literals, b.form, b.tree, b.modes, b.tables = g.literals, g.form, g.tree, g.modes, g.tables
	}
	content, ok := a.writer.write(b, literals)
	if b.kind == compressedBlock && (!ok || string(content) != string(d.packed[blockHead:])) {
		return ErrRefused
	}
	if b.kind != a.kind(plain, len(content), ok) {
		flags |= otherKind
	}
	if b.last != (a.p+b.size == a.size) {
		flags |= otherLast
	}
	a.done(b, d.repeats)
	a.correct(b, flags)
	return nil
}

// compare says in which flags a block differs from what was predicted.
func (g *block) compare(b *block) (flags int) {
	if g.literals != b.literals || g.form != b.form || string(g.tree) != string(b.tree) {
		flags = otherLiterals
	}
	for i := range 3 {
		if g.modes[i] != b.modes[i] || string(g.tables[i]) != string(b.tables[i]) {
			flags |= otherTables
		}
	}
	return flags
}

// sequences takes the sequences of a block; those of a block that is not compressed are as predicted. Their
// corrections have most bytes.
func (a *analysis) sequences(ctx context.Context, b *block, most int) error {
	a.seqs, a.wrong = a.seqs[:0], 0
	if b.kind != compressedBlock {
		b.sequences = b.sequences[:0]
		for {
			s := a.finder.next()
			if s.length == 0 {
				return nil
			}
			b.sequences = append(b.sequences, s)
			a.finder.take(s)
			if len(b.sequences)&0xff == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	last := 0
	for i, s := range b.sequences {
		if i&0xff == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if a.finder.next() != s {
			a.seqs = binary.AppendUvarint(a.seqs, uint64(i-last))
			a.seqs = s.append(a.seqs)
			a.wrong++
			if last = i + 1; len(a.seqs) > most {
				return errLong
			}
		}
		a.finder.take(s)
	}
	if a.finder.next().length != 0 {
		a.seqs = binary.AppendUvarint(a.seqs, uint64(len(b.sequences)-last))
		a.seqs = append(a.seqs, 0)
		a.wrong++
	}
	return nil
}

// append writes a sequence for a correction: length, literals, offset value. The end is length 0.
func (s seq) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(s.length))
	b = binary.AppendUvarint(b, uint64(s.literals))
	return binary.AppendUvarint(b, uint64(s.off))
}

// correct writes down the corrections of a block.
func (a *analysis) correct(b *block, flags int) {
	if flags == 0 {
		a.exact++
		return
	}
	a.recipe = binary.AppendUvarint(a.recipe, a.exact)
	a.exact = 0
	if flags&otherKind != 0 {
		flags |= int(b.kind) << kindShift
	}
	a.recipe = append(a.recipe, byte(flags))
	if flags&otherSize != 0 {
		a.recipe = binary.AppendUvarint(a.recipe, uint64(b.size))
	}
	if flags&otherSequences != 0 {
		a.recipe = binary.AppendUvarint(a.recipe, uint64(a.wrong))
		a.recipe = append(a.recipe, a.seqs...)
	}
	if flags&otherLiterals != 0 {
		a.recipe = append(a.recipe, b.literals|b.form<<2)
		if b.literals == compressedLiterals {
			a.recipe = appendBytes(a.recipe, b.tree)
		}
	}
	if flags&otherTables != 0 {
		a.recipe = append(a.recipe, b.modes[0]|b.modes[1]<<2|b.modes[2]<<4)
		for i := range 3 {
			if b.modes[i] == describedTable {
				a.recipe = appendBytes(a.recipe, b.tables[i])
			}
		}
	}
}

func appendBytes(b, s []byte) []byte { return append(append(b, byte(len(s))), s...) }

// Packer makes a frame of its bytes and a recipe. It is an [io.Reader].
type Packer struct {
	run
	plain  io.Reader
	text   text
	block  block
	recipe []byte
	exact  uint64
	sum    xxhash.Digest
	out    []byte
	given  int // of out
	over   bool
	err    error
}

// NewPacker returns a Packer for size bytes, those of plain, and a recipe.
func NewPacker(plain io.Reader, size int64, recipe []byte) *Packer {
	p := &Packer{plain: plain, recipe: recipe, err: errRecipe}
	if len(recipe) < 1+settingSize || recipe[0]&(hasDictionary|reservedBits) != 0 {
		return p
	}
	h := head{descriptor: recipe[0]}
	recipe = recipe[1:]
	if h.descriptor&singleSegment == 0 {
		h.window = recipe[0]
		recipe = recipe[1:]
	}
	if len(recipe) < settingSize || size < 0 || !p.begin(h, parseSetting(recipe), size) {
		return p
	}
	p.recipe, p.err = recipe[settingSize:], nil
	p.text.reset(int(h.windowSize(size)))
	p.sum.Reset()
	p.out = h.append(nil, size)
	p.skip()
	return p
}

// skip reads the number of blocks up to the next correction.
func (p *Packer) skip() {
	if p.exact = 1 << 62; len(p.recipe) > 0 {
		p.exact = p.number(1 << 40)
	}
}

// number reads a number of the recipe.
func (p *Packer) number(most uint64) uint64 {
	v, n := binary.Uvarint(p.recipe)
	if n <= 0 || v > most {
		p.err, p.recipe = errRecipe, nil
		return 0
	}
	p.recipe = p.recipe[n:]
	return v
}

// byte reads a byte of the recipe.
func (p *Packer) byte() byte {
	if len(p.recipe) == 0 {
		p.err = errRecipe
		return 0
	}
	b := p.recipe[0]
	p.recipe = p.recipe[1:]
	return b
}

// bytes reads a description.
func (p *Packer) bytes() []byte {
	n := int(p.byte())
	if n > len(p.recipe) {
		p.err = errRecipe
		return nil
	}
	b := p.recipe[:n]
	p.recipe = p.recipe[n:]
	return b
}

// Read reads the bytes of the frame.
func (p *Packer) Read(to []byte) (n int, err error) {
	for p.given == len(p.out) {
		switch {
		case p.err != nil:
			return 0, p.err
		case p.over:
			return 0, io.EOF
		}
		p.out, p.given = p.out[:0], 0
		if err := p.next(); err != nil {
			p.err, p.out = err, p.out[:0]
		}
	}
	n = copy(to, p.out[p.given:])
	p.given += n
	return n, nil
}

// next makes the next block.
func (p *Packer) next() error {
	flags := byte(0)
	if p.exact == 0 {
		flags = p.byte()
	} else {
		p.exact--
	}
	b := &p.block
	b.size = p.expected()
	if flags&otherSize != 0 {
		b.size = int(p.number(uint64(b.size)))
	}
	if p.err != nil {
		return p.err
	}
	p.text.room(b.size)
	from := len(p.text.b)
	p.text.b = p.text.b[:from+b.size]
	plain := p.text.b[from:]
	if _, err := io.ReadFull(p.plain, plain); err != nil {
		return err
	}
	_, _ = p.sum.Write(plain)
	after, err := p.sequences(flags&otherSequences != 0)
	if err != nil {
		return err
	}
	literals := p.gather(plain, b.sequences)
	p.chooser.choose(b, literals, &p.writer)
	if flags&otherLiterals != 0 {
		v := p.byte()
		b.literals, b.form, b.tree = v&3, v>>2&3, nil
		if b.literals == compressedLiterals {
			b.tree = p.bytes()
		}
	}
	if flags&otherTables != 0 {
		v := p.byte()
		for i := range 3 {
			b.modes[i], b.tables[i] = v>>(2*i)&3, nil
			if b.modes[i] == describedTable {
				b.tables[i] = p.bytes()
			}
		}
	}
	content, ok := p.writer.write(b, literals)
	b.kind = p.kind(plain, len(content), ok)
	if flags&otherKind != 0 {
		b.kind = flags >> kindShift
	}
	b.last = (p.p+b.size == p.size) != (flags&otherLast != 0)
	if flags != 0 {
		p.skip()
	}
	return p.finish(plain, content, ok, after)
}

// finish writes the block, and what follows the last one.
func (p *Packer) finish(plain, content []byte, ok bool, after repeats) error {
	b := &p.block
	if p.err != nil {
		return p.err
	}
	n := b.size
	switch {
	case b.kind == rawBlock:
		content = plain
	case b.kind == rleBlock && n > 0 && same(plain):
		content = plain[:1]
	case b.kind == compressedBlock && ok && len(content) <= maxBlock:
		n = len(content)
	default:
		return errRecipe
	}
	v := uint32(b.kind)<<1 | uint32(n)<<3
	if b.last {
		v |= 1
	}
	p.out = append(p.out, byte(v), byte(v>>8), byte(v>>16))
	p.out = append(p.out, content...)
	if b.size == 0 && !b.last { // nothing goes on
		return errRecipe
	}
	p.done(b, after)
	if !b.last {
		return nil
	}
	if p.over = true; p.p != p.size || len(p.recipe) > 0 {
		return errRecipe
	}
	if p.head.descriptor&hasChecksum != 0 {
		p.out = binary.LittleEndian.AppendUint32(p.out, uint32(p.sum.Sum64()))
	}
	return nil
}

// sequences takes the sequences of a block, and returns the last offsets behind it.
func (p *Packer) sequences(corrected bool) (repeats, error) {
	b := &p.block
	wrong, at := uint64(0), -1
	next := func() {
		if at = -1; wrong > 0 {
			wrong--
			at = len(b.sequences) + int(p.number(maxBlock))
		}
	}
	b.sequences = b.sequences[:0]
	if corrected {
		wrong = p.number(maxBlock)
		next()
	}
	after, left, place := p.repeats, b.size, p.p
	p.finder.begin(&p.text, b.size, p.repeats)
	for p.err == nil {
		s := p.finder.next()
		corrected := at == len(b.sequences)
		if corrected {
			s = p.sequence()
		}
		if s.length == 0 {
			if corrected {
				at = -1
			}
			break
		}
		n := int(s.literals) + int(s.length)
		offset := int(after.take(s))
		if n > left || s.length < minMatch || s.off == 0 || offset == 0 || offset > place+int(s.literals) || offset > p.text.keep {
			return after, errRecipe
		}
		b.sequences = append(b.sequences, s)
		if corrected {
			next()
		}
		p.finder.take(s)
		left, place = left-n, place+n
	}
	if at >= 0 || wrong > 0 {
		return after, errRecipe
	}
	return after, p.err
}

// sequence reads a sequence of a correction.
func (p *Packer) sequence() (s seq) {
	if s.length = uint32(p.number(maxBlock)); s.length > 0 {
		s.literals, s.off = uint32(p.number(maxBlock)), uint32(p.number(1<<31))
	}
	return s
}
