package deflate

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
)

// A recipe is the settings of a predictor, and what the stream has otherwise: for each block
// that is not as predicted, the number of blocks before it that are, and a correction.
// Recipes are stored: a number keeps its meaning for ever, and predictors do not change.
const (
	zlibSetting  = 0    // + level; memLevel 8
	zlib9Setting = 16   // + level; memLevel 9
	goSetting    = 32   // compress/flate of Go, level 1
	lazySetting  = 48   // + level, 4 to 9, of compress/flate of Go
	forgets      = 0x80 // after an empty stored block, nothing before it is referred to

	// Only of folders:
	flushedSetting = 33   // + level, 7 or 8, of github.com/klauspost/compress; in runs of 32 blocks
	primed         = 0x40 // each block begins with a new program that is given the 32 KiB before it
)

// What a correction corrects.
const (
	otherCount  = 1 // the number of tokens, of a stored block that of bytes
	otherCoding = 2 // the codes; the kind of the block is in the upper four bits
	otherTokens = 4 // tokens
	otherFinal  = 8 // whether it is the last block
)

// newPredictor returns the predictor of a setting; nil if there is none. It uses the memory of
// an earlier one.
func (r *run) newPredictor(setting byte) predictor {
	s, memory := setting&^(forgets|primed), 8
	switch {
	case s == flushedSetting+7 || s == flushedSetting+8:
		return r.newLazy(int(s-flushedSetting), true)
	case s >= lazySetting+4 && s <= lazySetting+9:
		return r.newLazy(int(s-lazySetting), false)
	case s == goSetting:
		if r.goFast == nil {
			r.goFast = &goFast{}
		}
		r.goFast.reset(&r.text)
		return r.goFast
	case s > zlib9Setting && s < zlib9Setting+10:
		s, memory = s-zlib9Setting, 9
	case s == zlibSetting || s > zlibSetting+9:
		return nil
	}
	if r.chains == nil {
		r.chains = &chains{}
	}
	r.chains.reset(&r.text, int(s), memory)
	return r.chains
}

func (r *run) newLazy(level int, flushes bool) predictor {
	if r.lazy == nil {
		r.lazy = &lazy{}
	}
	r.lazy.reset(&r.text, level, flushes)
	return r.lazy
}

// flushes says whether each block is followed by an empty one.
func (r *run) flushes() bool {
	x, ok := r.predictor.(*lazy)
	return ok && x.flushes
}

// ofFolders says whether a recipe is one that only folders have.
func ofFolders(setting byte) bool {
	s := setting &^ forgets
	return s&primed != 0 || s == flushedSetting+7 || s == flushedSetting+8
}

// Newer says whether a recipe has a setting that cold files of version 2 do not have.
func Newer(recipe []byte) bool { return len(recipe) > 0 && recipe[0]&^forgets > goSetting }

// run is a stream on its way through a predictor.
type run struct {
	text
	predictor
	goFast  *goFast
	chains  *chains
	lazy    *lazy
	setting byte
	parts   int // blocks of a folder that are begun
	p       int
	counts  counts
	scratch coding
}

func (r *run) begin(setting byte, plain io.Reader, size int) bool {
	r.reset(plain, size)
	r.setting, r.p, r.parts = setting, 0, 0
	if size > 0 && ofFolders(setting) {
		return false
	}
	r.predictor = r.newPredictor(setting)
	return r.predictor != nil
}

// take takes a token.
func (r *run) take(t token) {
	r.predictor.take(r.p, t)
	r.counts.add(t)
	r.p += t.size()
}

// expect returns the token that is predicted.
func (r *run) expect() (token, error) {
	if err := r.at(r.p); err != nil {
		return 0, err
	}
	return r.next(r.p), nil
}

// storedTokens takes the tokens up to an end as predicted, for a block that is stored: its
// program found them and did not write them. It says whether the last one ends there.
func (r *run) storedTokens(end int) (n int, whole bool, err error) {
	for whole = true; r.p < end; n++ {
		t, err := r.expect()
		if err != nil {
			return n, false, err
		}
		if r.p+t.size() > end {
			t, whole = token(r.b[r.p-r.from]), false
		}
		whole = whole && (n == 0 || !r.full(n, r.p))
		r.take(t)
	}
	return n, whole, nil
}

// final says whether a block is predicted to be the last one, of its kind and from a place on.
func (r *run) final(kind uint8, from int) bool {
	return r.p == r.size && (!r.flushes() || kind == fixed && r.p == from)
}

// over says whether a block of n tokens is predicted to end.
func (r *run) over(n int) bool { return r.p >= r.size || n > 0 && r.full(n, r.p) }

// analysis makes a recipe.
type analysis struct {
	run
	recipe  []byte
	exact   uint64 // blocks since the last correction
	tokens  []byte // corrections of the block
	wrong   int    // number of them
	flushed bool   // the last block was an empty stored one, for the first time
	decided bool   // whether the program forgets what is before such a block
}

// begin begins the recipe of a stream of size bytes, those of plain. A folder has none yet.
func (a *analysis) begin(setting byte, plain io.Reader, size int) bool {
	a.recipe = append(a.recipe[:0], setting)
	a.exact, a.flushed = 0, false
	ok := a.run.begin(setting, plain, size)
	a.decided = a.flushes()
	return ok
}

// decide finds out whether the program forgets what is before an empty stored block, of which
// the block after the first one tells.
func (a *analysis) decide(b *block) {
	at := 0
	for _, t := range b.tokens {
		if t.distance() > at && !t.literal() {
			return
		}
		if at += t.size(); at > history {
			break
		}
	}
	a.setting |= forgets
	a.recipe[0] = a.setting
	a.forget(a.p)
}

// add takes a block, and writes down how it differs.
func (a *analysis) add(ctx context.Context, b *block) error {
	a.counts.reset()
	a.tokens, a.wrong = a.tokens[:0], 0
	flags := byte(0)
	from, n := a.p, len(b.tokens)
	if a.flushed && !a.decided {
		a.decided = true
		a.decide(b)
	}
	a.flushed = b.coding.kind == stored && b.size == 0
	if b.coding.kind == stored {
		k, whole, err := a.storedTokens(from + b.size)
		if err != nil {
			return err
		}
		if n = k; !whole {
			flags = otherCount
		}
	} else if early, err := a.addTokens(ctx, b.tokens); err != nil {
		return err
	} else if early {
		flags = otherCount
	}
	if !a.over(n) {
		flags |= otherCount
	}
	c := &a.scratch
	a.choose(c, &a.counts, b.size)
	if c.kind != b.coding.kind || c.kind == dynamic && !c.header.equal(&b.coding.header) || flags != 0 && c.kind == stored {
		flags |= otherCoding | b.coding.kind<<4
		if b.coding.kind == stored {
			flags |= otherCount
		}
	}
	if a.wrong > 0 {
		flags |= otherTokens
	}
	if b.final != a.final(b.coding.kind, from) {
		flags |= otherFinal
	}
	if a.setting&forgets != 0 && b.coding.kind == stored && b.size == 0 {
		a.forget(a.p)
	}
	a.correct(b, flags, n)
	return nil
}

// addTokens takes the tokens of a block; early says that it was predicted to end before.
func (a *analysis) addTokens(ctx context.Context, tokens []token) (early bool, err error) {
	last := 0
	for i, t := range tokens {
		if i&0xfff == 0xfff && ctx.Err() != nil {
			return false, ctx.Err()
		}
		if a.p+t.size() > a.size {
			return false, ErrRefused
		}
		early = early || i > 0 && a.full(i, a.p)
		guess, err := a.expect()
		if err != nil {
			return false, err
		}
		if guess != t {
			a.tokens = binary.AppendUvarint(a.tokens, uint64(i-last))
			a.tokens = binary.AppendUvarint(a.tokens, uint64(t))
			a.wrong++
			last = i + 1
		}
		a.take(t)
	}
	return early, nil
}

// correct writes down the corrections of a block.
func (a *analysis) correct(b *block, flags byte, n int) {
	if flags == 0 {
		a.exact++
		return
	}
	a.recipe = binary.AppendUvarint(a.recipe, a.exact)
	a.exact = 0
	a.recipe = append(a.recipe, flags)
	if flags&otherCount != 0 {
		if b.coding.kind == stored {
			n = b.size
		}
		a.recipe = binary.AppendUvarint(a.recipe, uint64(n))
	}
	if h := &b.coding.header; flags&otherCoding != 0 && b.coding.kind == dynamic {
		a.recipe = binary.AppendUvarint(a.recipe, uint64(h.len()))
		a.recipe = append(a.recipe, h.bytes()...)
	}
	if flags&otherTokens != 0 {
		a.recipe = binary.AppendUvarint(a.recipe, uint64(a.wrong))
		a.recipe = append(a.recipe, a.tokens...)
	}
}

// Packer makes a stream of its bytes and a recipe. It is an [io.Reader].
type Packer struct {
	run
	recipe []byte
	exact  uint64
	block  block
	out    blockWriter
	given  int // of out.b
	over   bool
	more   bool // parts of a folder follow
	data   []byte
	err    error
}

// IsRecipe says whether a Packer failed because its recipe does not fit.
func IsRecipe(err error) bool { return errors.Is(err, errRecipe) }

var errRecipe = errors.New("a recipe of a deflate stream contradicts itself")

// NewPacker returns a Packer for size bytes, those of plain, and a recipe.
func NewPacker(plain io.Reader, size int64, recipe []byte) *Packer {
	p := &Packer{recipe: recipe}
	if len(recipe) == 0 || size > maxStream || !p.begin(recipe[0], plain, int(size)) {
		p.err = errRecipe
		return p
	}
	p.recipe = recipe[1:]
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

// Read reads the bytes of the stream.
func (p *Packer) Read(to []byte) (n int, err error) {
	for p.given == len(p.out.b) {
		switch {
		case p.err != nil:
			return 0, p.err
		case p.over:
			return 0, io.EOF
		}
		p.out.b, p.given = p.out.b[:0], 0
		if err := p.next(); err != nil {
			p.err = err
		}
	}
	n = copy(to, p.out.b[p.given:])
	p.given += n
	return n, nil
}

// next writes the next block.
func (p *Packer) next() error {
	flags := byte(0)
	if p.exact == 0 {
		if len(p.recipe) == 0 {
			return errRecipe
		}
		flags, p.recipe = p.recipe[0], p.recipe[1:]
	} else {
		p.exact--
	}
	b := &p.block
	from := p.p
	p.counts.reset()
	b.tokens, p.data = b.tokens[:0], p.data[:0]
	count := -1
	if flags&otherCount != 0 {
		count = int(p.number(maxBlock))
	}
	b.coding.kind = flags >> 4
	if flags&otherCoding != 0 && b.coding.kind == stored {
		if count < 0 || count > p.size-from {
			return errRecipe
		}
		if err := p.stored(from + count); err != nil {
			return err
		}
	} else {
		if flags&otherCoding != 0 {
			p.readCoding(&b.coding)
		}
		if err := p.tokens(count, flags&otherTokens != 0); err != nil {
			return err
		}
		if flags&otherCoding == 0 {
			p.choose(&b.coding, &p.counts, p.p-from)
		}
		p.data = append(p.data, p.bytes(from)...)
	}
	if b.final = p.final(b.coding.kind, from); flags&otherFinal != 0 {
		b.final = !b.final
	}
	if p.setting&forgets != 0 && b.coding.kind == stored && p.p == from {
		p.forget(p.p)
	}
	if flags != 0 {
		p.skip()
	}
	p.over = b.final
	if p.err == nil && (!p.out.write(b, p.data) || b.final && !p.more && len(p.recipe) > 0) {
		return errRecipe
	}
	return p.err
}

// bytes are those from an offset up to here, if they are short enough for a stored block.
func (p *Packer) bytes(from int) []byte {
	if p.block.coding.kind != stored || p.p-from > 0xffff || from < p.from {
		return nil
	}
	return p.text.bytes(from, p.p)
}

// stored takes a stored block up to an end.
func (p *Packer) stored(end int) error {
	from := p.p
	if err := p.at(from); err != nil {
		return err
	}
	if end-from > 0xffff {
		return errRecipe
	}
	p.data = append(p.data, p.text.bytes(from, end)...)
	_, _, err := p.storedTokens(end)
	return err
}

// readCoding reads the codes of a block.
func (p *Packer) readCoding(c *coding) {
	if c.kind == fixed {
		c.setFixed()
		return
	}
	n := p.number(1 << 14)
	size := (n + 7) / 8
	if c.kind != dynamic || size > uint64(len(p.recipe)) {
		p.err = errRecipe
		return
	}
	var d decoder
	d.reset(bytes.NewReader(p.recipe[:size]), 0, int64(size))
	c.header.reset()
	d.fill()
	if !d.readCodes(c) || c.header.len() != int(n) {
		p.err = errRecipe
		return
	}
	p.recipe = p.recipe[size:]
}

// tokens takes the tokens of a block: count of them, or as many as predicted if it is
// negative.
func (p *Packer) tokens(count int, corrected bool) error {
	b := &p.block
	wrong, at := uint64(0), -1
	next := func() {
		if at = -1; wrong > 0 {
			wrong--
			at = len(b.tokens) + int(p.number(maxTokens+1))
		}
	}
	if corrected {
		wrong = p.number(maxTokens + 1)
		next()
	}
	for p.err == nil && (count < 0 && !p.run.over(len(b.tokens)) || len(b.tokens) < count) {
		t, err := p.expect()
		if err != nil {
			return err
		}
		if at == len(b.tokens) {
			t = token(p.number(maxMatch<<16 | history))
			b.tokens = append(b.tokens, t)
			next()
		} else {
			b.tokens = append(b.tokens, t)
		}
		if t.size() > p.size-p.p || !t.valid() || len(b.tokens) > maxTokens {
			return errRecipe
		}
		p.take(t)
	}
	if at >= 0 {
		return errRecipe
	}
	return p.err
}

// valid says whether a stream can have the token.
func (t token) valid() bool {
	return t.literal() || t.size() >= minMatch && t.size() <= maxMatch && t.distance() > 0 && t.distance() <= history
}
