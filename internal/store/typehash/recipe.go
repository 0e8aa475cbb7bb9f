package typehash

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
)

// Bounds of the hashes that are made at once.
const (
	maxHashes = 1 << 14
	maxBytes  = 4 << 20 // of their records
)

// MaxRecipe is how many bytes a recipe has at most.
const MaxRecipe = 128 << 10

// ErrRecipe is the error of a recipe that does not make what it should.
var ErrRecipe = errors.New("typehash: a recipe does not fit to its records")

// Range is a part of a file.
type Range struct{ At, Len int64 }

// Hasher makes the hashes of records.
type Hasher struct {
	Ranges  []Range // of the records, one after the other
	buckets uint32
	fixes   []byte // what is left of the corrections
	right   uint64 // hashes before the next one
	fix     uint32
	out     []byte // the hashes so far
	size    int    // of all of them
	part    []byte // of a record
}

// NewHasher reads a recipe for n bytes of hashes. Its form is: the number of buckets, the number of ranges, for
// each range the signed distance from the end of the previous one and the length, then the corrections, each
// with the number of hashes that are right before it, and the hash; all are varints.
func NewHasher(recipe []byte, n int64) (*Hasher, error) {
	if n <= 0 || n > 4*maxHashes || n%4 != 0 || len(recipe) > MaxRecipe {
		return nil, ErrRecipe
	}
	h := &Hasher{size: int(n)}
	number := func(most uint64) uint64 {
		v, k := binary.Uvarint(recipe)
		if k <= 0 || v > most {
			recipe, h.size = nil, 0
			return 0
		}
		recipe = recipe[k:]
		return v
	}
	h.buckets = uint32(number(math.MaxUint32))
	count, end, sum := number(maxBytes), int64(0), int64(0)
	for range count {
		d, k := binary.Varint(recipe)
		if k <= 0 {
			return nil, ErrRecipe
		}
		recipe = recipe[k:]
		r := Range{At: end + d, Len: int64(number(maxBytes))}
		sum += r.Len
		if r.At < 0 || d > 1<<48 || end > 1<<48 || r.Len == 0 || sum > maxBytes {
			return nil, ErrRecipe
		}
		h.Ranges = append(h.Ranges, r)
		end = r.At + r.Len
	}
	if h.size == 0 || h.buckets == 0 {
		return nil, ErrRecipe
	}
	h.fixes = recipe
	return h, h.next()
}

// next reads the next correction.
func (h *Hasher) next() error {
	h.right = math.MaxUint64
	if len(h.fixes) == 0 {
		return nil
	}
	right, k := binary.Uvarint(h.fixes)
	if k <= 0 || right >= maxHashes {
		return ErrRecipe
	}
	fix, m := binary.Uvarint(h.fixes[k:])
	if m <= 0 || fix > math.MaxUint32 {
		return ErrRecipe
	}
	h.right, h.fix, h.fixes = right, uint32(fix), h.fixes[k+m:]
	return nil
}

// Write takes the next bytes of the records.
func (h *Hasher) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		if len(h.part) == 0 && len(b) >= 2 {
			if k := int(binary.LittleEndian.Uint16(b)) + 2; k <= len(b) {
				if err := h.add(b[:k]); err != nil {
					return 0, err
				}
				b = b[k:]
				continue
			}
		}
		want := 2
		if len(h.part) >= 2 {
			want = int(binary.LittleEndian.Uint16(h.part)) + 2
		}
		k := min(want-len(h.part), len(b))
		h.part, b = append(h.part, b[:k]...), b[k:]
		if len(h.part) == want && (want > 2 || h.part[0]|h.part[1] == 0) {
			if err := h.add(h.part); err != nil {
				return 0, err
			}
			h.part = h.part[:0]
		}
	}
	return n, nil
}

// add adds the hash of a record.
func (h *Hasher) add(record []byte) error {
	if len(record) < 4 || len(h.out) == h.size {
		return ErrRecipe
	}
	v := of(record) % h.buckets
	switch h.right {
	case math.MaxUint64:
	case 0:
		v = h.fix
		if err := h.next(); err != nil {
			return err
		}
	default:
		h.right--
	}
	if h.out == nil {
		h.out = make([]byte, 0, h.size)
	}
	h.out = binary.LittleEndian.AppendUint32(h.out, v)
	return nil
}

// Hashes are the hashes of all records, after all of them were written.
func (h *Hasher) Hashes() ([]byte, error) {
	if len(h.out) != h.size || len(h.part) > 0 || h.right != math.MaxUint64 {
		return nil, ErrRecipe
	}
	return h.out, nil
}

// Read reads the records from r, through buf, and gives their hashes.
func (h *Hasher) Read(r io.ReaderAt, buf []byte) ([]byte, error) {
	for _, x := range h.Ranges {
		for at, end := x.At, x.At+x.Len; at < end; {
			b := buf[:min(end-at, int64(len(buf)))]
			n, err := r.ReadAt(b, at)
			if n < len(b) {
				if err == nil || err == io.EOF {
					err = ErrRecipe
				}
				return nil, err
			}
			if _, err := h.Write(b); err != nil {
				return nil, err
			}
			at += int64(n)
		}
	}
	return h.Hashes()
}
