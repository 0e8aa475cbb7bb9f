package xz

import (
	"encoding/binary"
	"errors"
	"io"
)

// errDamaged means that the data contradicts itself.
var errDamaged = errors.New("xz: damaged data")

// Sizes of LZMA2 chunks.
const (
	ringPart = 64 << 10  // bytes that a ring has more than the dictionary
	maxPart  = 8 << 10   // bytes of output that are decoded at once: the last may be for nothing
	inMask   = 1<<17 - 1 // a chunk has at most 64 KiB of input
)

// lengths are the probabilities of the length of a match.
type lengths struct {
	choice, choice2 uint16
	low, mid        [16][16]uint16
	high            [0x400]uint16
}

// probabilities are the adaptive model. The number of elements of each array is a power of
// two, so that masked indexes need no checks.
type probabilities struct {
	isMatch, isRep0Long           [16][16]uint16
	isRep, isRep0, isRep1, isRep2 [16]uint16
	slot                          [4][128]uint16
	special                       [128]uint16
	align                         [64]uint16
	matchLen, repLen              lengths
	literal                       [16][0x400]uint16
}

// lzma decodes LZMA2 chunks into a ring of the dictionary's size and a few parts more.
type lzma struct {
	probabilities

	buf     []byte // the ring, or its beginning
	ring    int    // its full size
	dict    int    // the greatest distance
	pos     int    // where the next byte goes
	wrapped bool   // the ring is full
	flat    bool   // buf has the whole block, and is no ring
	lc      uint32
	lpMask  uint32
	posMask uint32
	state   uint32
	rep     [4]uint32
	left    int // bytes of a match that are still to be copied

	rng, code uint32
	ip, inEnd int
	in        [inMask + 1]byte // one chunk of input
}

// full returns the greatest distance at a position.
func (d *lzma) full(pos int) int {
	if d.wrapped {
		return d.dict
	}
	return min(pos, d.dict)
}

// last returns the byte in front of the position.
func (d *lzma) last() byte {
	switch {
	case d.pos > 0:
		return d.buf[d.pos-1]
	case d.wrapped:
		return d.buf[len(d.buf)-1]
	}
	return 0
}

// start prepares for a block with a dictionary.
func (d *lzma) start(dict int) {
	if d.flat {
		d.dict, d.ring = dict, len(d.buf)
		return
	}
	d.dict, d.ring = dict, dict+ringPart
	d.resetDict()
}

// resetDict forgets the history. All output must have been taken.
func (d *lzma) resetDict() { d.pos, d.wrapped, d.buf = 0, false, d.buf[:min(cap(d.buf), d.ring)] }

// resetState sets the model to its beginning.
func (d *lzma) resetState() {
	fill := func(p []uint16) {
		for i := range p {
			p[i] = 1 << 10
		}
	}
	p := &d.probabilities
	for i := range 16 {
		fill(p.isMatch[i][:])
		fill(p.isRep0Long[i][:])
		fill(p.literal[i][:])
	}
	for _, a := range [][]uint16{p.isRep[:], p.isRep0[:], p.isRep1[:], p.isRep2[:], p.special[:], p.align[:]} {
		fill(a)
	}
	for i := range p.slot {
		fill(p.slot[i][:])
	}
	for _, l := range []*lengths{&p.matchLen, &p.repLen} {
		l.choice, l.choice2 = 1<<10, 1<<10
		for i := range 16 {
			fill(l.low[i][:])
			fill(l.mid[i][:])
		}
		fill(l.high[:])
	}
	d.state, d.rep = 0, [4]uint32{}
}

// setProps sets the parameters of the model.
func (d *lzma) setProps(b byte) error {
	if b > (4*5+4)*9+8 {
		return errDamaged
	}
	lc, lp, pb := uint32(b%9), uint32(b/9%5), uint32(b/45)
	if lc+lp > 4 {
		return errDamaged
	}
	d.lc, d.lpMask, d.posMask = lc, 1<<lp-1, 1<<pb-1
	return nil
}

// room makes the ring larger, or begins again at its start, if the position is at the end.
// It returns the end of the space for the next part of n bytes.
func (d *lzma) room(n int) int {
	if d.pos == len(d.buf) && !d.flat {
		if len(d.buf) < d.ring && !d.wrapped {
			bigger := make([]byte, min(d.ring, max(256<<10, 2*len(d.buf))))
			copy(bigger, d.buf)
			d.buf = bigger
		} else {
			d.pos, d.wrapped = 0, true
		}
	}
	return min(len(d.buf), d.pos+min(n, maxPart))
}

// startChunk reads a chunk of compressed data of size bytes.
func (d *lzma) startChunk(r io.Reader, size int) error {
	if size < 5 {
		return errDamaged
	}
	if _, err := io.ReadFull(r, d.in[:size]); err != nil {
		return err
	}
	if d.in[0] != 0 {
		return errDamaged
	}
	d.rng, d.code, d.ip, d.inEnd, d.left = 1<<32-1, binary.BigEndian.Uint32(d.in[1:]), 5, size, 0
	return nil
}

// part decodes at most plain bytes more of the chunk, and returns them. They are valid
// until the next call.
func (d *lzma) part(plain int) ([]byte, error) {
	if d.flat && d.pos == len(d.buf) {
		return nil, errDamaged // it is longer than the index says
	}
	end := d.room(plain)
	from := d.pos
	if !d.run(end) || d.pos-from == plain && !d.ended() {
		return nil, errDamaged
	}
	return d.buf[from:d.pos], nil
}

// ended reports whether a chunk has been decoded as its encoder ends it.
func (d *lzma) ended() bool { return d.left == 0 && d.code == 0 && d.ip == d.inEnd }

// copyPart takes at most plain bytes of a chunk that is not compressed, and returns them.
func (d *lzma) copyPart(r io.Reader, plain int) ([]byte, error) {
	if d.flat && d.pos == len(d.buf) {
		return nil, errDamaged
	}
	end := d.room(plain)
	from := d.pos
	if _, err := io.ReadFull(r, d.buf[from:end]); err != nil {
		return nil, err
	}
	d.pos = end
	return d.buf[from:end], nil
}
