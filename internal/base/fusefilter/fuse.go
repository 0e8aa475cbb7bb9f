// Package fusefilter implements binary fuse filters with fingerprints of 8 bits: a set
// of 64-bit keys in about 9 bits a key that cannot change. A key of the set is
// always found; another key is found with a probability of 1/256. The method is
// that of Graf and Lemire, "Binary Fuse Filters: Fast and Smaller Than Xor
// Filters" (2022).
package fusefilter

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/bits"
	"slices"
)

// Filter is a set of keys. Its methods may be called by several goroutines.
type Filter struct {
	seed    uint64
	segment uint32 // slots in a segment, a power of two
	starts  uint32 // slots in which the first of three segments may begin
	prints  []byte // fingerprints
	keys    uint32
}

// MaxKeys limits the keys of one filter.
const MaxKeys = 1 << 30

// Each key has one slot in each of three neighbouring segments. The exclusive or
// of the three is its fingerprint.
const arity = 3

// maxSegment limits a segment, so that the three slots of a key are near in
// memory.
const maxSegment = 1 << 18

var errKeys = errors.New("fuse: too many keys")

// Build returns the set of the keys, which should be hashes. It sorts keys and
// may overwrite them.
func Build(keys []uint64) (*Filter, error) { return new(Builder).Build(keys) }

// Builder builds filters one after the other in the same memory, about 28 bytes for each key of the
// largest one.
type Builder struct {
	f     *Filter
	mixed []uint64 // of each slot: the exclusive or of the keys in it
	count []uint8  // of each slot: the number of keys in it
	order []single
	next  []uint32 // slots with a single key
}

// Build is like the function Build.
func (b *Builder) Build(keys []uint64) (*Filter, error) {
	slices.Sort(keys)
	keys = slices.Compact(keys)
	if len(keys) > MaxKeys {
		return nil, errKeys
	}
	f := shape(uint32(len(keys)))
	b.f = f
	b.mixed = slices.Grow(b.mixed[:0], len(f.prints))[:len(f.prints)]
	b.count = slices.Grow(b.count[:0], len(f.prints))[:len(f.prints)]
	b.order = slices.Grow(b.order[:0], len(keys))
	// One seed in a few fails; a hundred in a row cannot.
	for range 100 {
		f.seed = mix(f.seed + 0x9e3779b97f4a7c15)
		if b.try(keys) {
			return f, nil
		}
	}
	return nil, errors.New("fuse: the keys do not fit")
}

// shape returns an empty filter for n keys.
func shape(n uint32) *Filter {
	f := &Filter{keys: n}
	if n == 0 {
		return f
	}
	f.segment = 4
	factor := 1.125
	if n > 1 {
		ln := math.Log(float64(n))
		f.segment = uint32(min(1<<int(math.Floor(ln/math.Log(3.33)+2.25)), maxSegment))
		factor = max(factor, 0.875+0.25*math.Log(1e6)/ln)
	}
	slots := uint32(math.Round(float64(n) * factor))
	segments := max((slots+f.segment-1)/f.segment, arity)
	f.starts = (segments - arity + 1) * f.segment
	f.prints = make([]byte, segments*f.segment)
	return f
}

// mix is the finalizer of MurmurHash3.
func mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// slots returns the slots of a mixed key.
func (f *Filter) slots(h uint64) (a, b, c uint32) {
	high, _ := bits.Mul64(h, uint64(f.starts))
	mask := f.segment - 1
	a = uint32(high)
	b = (a + f.segment) ^ uint32(h>>18)&mask
	c = (a + 2*f.segment) ^ uint32(h)&mask
	return a, b, c
}

func fingerprint(h uint64) byte { return byte(h ^ h>>32) }

// Has reports whether a key may be in the set.
func (f *Filter) Has(key uint64) bool {
	if f.keys == 0 {
		return false
	}
	h := mix(key + f.seed)
	a, b, c := f.slots(h)
	return f.prints[a]^f.prints[b]^f.prints[c] == fingerprint(h)
}

// Keys returns the number of different keys.
func (f *Filter) Keys() int { return int(f.keys) }

// Size returns the number of bytes that the fingerprints take.
func (f *Filter) Size() int { return len(f.prints) }

// single is a key that was the only one left in a slot.
type single struct {
	mixed uint64
	slot  uint32
}

// try sets the fingerprints for the current seed. It fails if the keys cannot be
// taken away one after another so that each is the only one left in some slot.
func (b *Builder) try(keys []uint64) bool {
	clear(b.mixed)
	clear(b.count)
	for _, k := range keys {
		h := mix(k + b.f.seed)
		x, y, z := b.f.slots(h)
		for _, s := range [arity]uint32{x, y, z} {
			if b.count[s] == math.MaxUint8 {
				return false
			}
			b.count[s]++
			b.mixed[s] ^= h
		}
	}
	b.order = b.order[:0]
	next := b.next[:0]
	defer func() { b.next = next[:0] }()
	for s := range b.count {
		if b.count[s] == 1 {
			next = append(next, uint32(s))
		}
		for len(next) > 0 {
			s := next[len(next)-1]
			next = next[:len(next)-1]
			if b.count[s] != 1 {
				continue
			}
			h := b.mixed[s]
			b.order = append(b.order, single{h, s})
			x, y, z := b.f.slots(h)
			for _, o := range [arity]uint32{x, y, z} {
				b.count[o]--
				b.mixed[o] ^= h
				if b.count[o] == 1 {
					next = append(next, o)
				}
			}
		}
	}
	if len(b.order) != len(keys) {
		return false
	}
	clear(b.f.prints)
	for _, o := range slices.Backward(b.order) {
		x, y, z := b.f.slots(o.mixed)
		b.f.prints[o.slot] = 0
		b.f.prints[o.slot] = fingerprint(o.mixed) ^ b.f.prints[x] ^ b.f.prints[y] ^ b.f.prints[z]
	}
	return true
}

// The encoding: magic, seed, number of keys, fingerprints, and the CRC-32C of all
// before it, in little-endian order. The shape follows from the number of keys.
var magic = [4]byte{'f', 's', '8', 1}

const header = 4 + 8 + 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// MarshalBinary returns the encoded filter.
func (f *Filter) MarshalBinary() ([]byte, error) {
	b := make([]byte, 0, header+len(f.prints)+4)
	b = append(b, magic[:]...)
	b = binary.LittleEndian.AppendUint64(b, f.seed)
	b = binary.LittleEndian.AppendUint32(b, f.keys)
	b = append(b, f.prints...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli)), nil
}

// UnmarshalBinary reads an encoded filter. It allocates no more than a copy of b.
func (f *Filter) UnmarshalBinary(b []byte) error {
	if len(b) < header+4 || [4]byte(b) != magic {
		return errors.New("fuse: not a filter")
	}
	end := len(b) - 4
	if crc32.Checksum(b[:end], castagnoli) != binary.LittleEndian.Uint32(b[end:]) {
		return errors.New("fuse: wrong checksum")
	}
	keys := binary.LittleEndian.Uint32(b[12:])
	if keys > MaxKeys || int(keys) > len(b) {
		return errKeys
	}
	got := shape(keys)
	got.seed = binary.LittleEndian.Uint64(b[4:])
	if want := header + len(got.prints) + 4; len(b) != want {
		return fmt.Errorf("fuse: %d bytes, want %d", len(b), want)
	}
	copy(got.prints, b[header:end])
	*f = *got
	return nil
}
