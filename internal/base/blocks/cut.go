// Package blocks cuts contents into blocks where their bytes say so, so that two builds of a
// file have most blocks in common, and writes one content as a recipe from another.
package blocks

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/cespare/xxhash/v2"
)

// Method names how contents are cut: by a gear hash, into blocks of 4 to 64 KiB, 20 KiB on
// average. Two programs find the same blocks only if they name the same method.
const Method = "gear-4-20-64"

const (
	least = 4 << 10
	most  = 64 << 10
	// mask has the 14 bits of the hash that are zero where a block ends. The highest bit is
	// not among them: the hash of every other byte is tested one bit further left.
	mask = (1<<14 - 1) << 49
)

// entrySize is the size of a block in a list: its length, then its hash.
const entrySize = 4 + 8

// gear has a random number for each byte, and gearLeft twice that.
var gear, gearLeft = func() (table, left [256]uint64) {
	// The first numbers of SplitMix64 from the seed 0.
	var state uint64
	for i := range table {
		state += 0x9e3779b97f4a7c15
		z := state
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		table[i] = z ^ z>>31
		left[i] = table[i] << 1
	}
	return table, left
}()

// end returns the length of the block at the beginning of data. Only the last block of a
// content may be cut from less than most bytes.
func end(data []byte) int {
	if len(data) <= least {
		return len(data)
	}
	data = data[:min(len(data), most)]
	var h uint64
	n := least
	for ; n+1 < len(data); n += 2 {
		h = h<<2 + gearLeft[data[n]]
		if h&(mask<<1) == 0 {
			return n + 1
		}
		h += gear[data[n+1]]
		if h&mask == 0 {
			return n + 2
		}
	}
	return len(data)
}

// Cut calls each for the blocks of a content in order, until each returns an error. A block is
// valid until each returns.
func Cut(r io.Reader, each func(block []byte) error) error {
	return cut(r, end, each)
}

// cut is Cut with a function that returns the length of the block at the beginning of data. Only
// the last block of a content is cut from less than most bytes.
func cut(r io.Reader, length func(data []byte) int, each func(block []byte) error) error {
	buf := make([]byte, 8*most)
	from, to, ended := 0, 0, false
	for {
		if to-from < most && !ended {
			to = copy(buf, buf[from:to])
			from = 0
			n, err := io.ReadFull(r, buf[to:])
			to += n
			ended = errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
			if err != nil && !ended {
				return err
			}
		}
		if from == to {
			return nil
		}
		n := length(buf[from:to])
		if err := each(buf[from : from+n]); err != nil {
			return err
		}
		from += n
	}
}

// List returns the list of the blocks of a content: for each its length, four bytes, and its
// xxHash, eight bytes, both little-endian. The list has at most 12 bytes for each 4 KiB.
func List(r io.Reader) (list []byte, err error) { return (&Index{}).List(r) }

// Index finds the blocks of one content, the base.
type Index struct {
	blocks []block        // in the order of the base
	at     map[uint64]int // the first block with a hash
	size   int64
}

// block is a block of the base.
type block struct {
	off  int64
	size int
	sum  uint64
}

// ErrList means that a list of blocks is not valid.
var ErrList = errors.New("the list of blocks is not valid")

// NewIndex reads a list of blocks.
func NewIndex(list []byte) (*Index, error) {
	if len(list)%entrySize != 0 {
		return nil, fmt.Errorf("%w: it has %d bytes", ErrList, len(list))
	}
	count := len(list) / entrySize
	x := &Index{blocks: make([]block, 0, count), at: make(map[uint64]int, count)}
	for ; len(list) > 0; list = list[entrySize:] {
		n := binary.LittleEndian.Uint32(list)
		if n == 0 || n > most || x.size > math.MaxInt64-most {
			return nil, fmt.Errorf("%w: a block has %d bytes", ErrList, n)
		}
		sum := binary.LittleEndian.Uint64(list[4:])
		if _, again := x.at[sum]; !again {
			x.at[sum] = len(x.blocks)
		}
		x.blocks = append(x.blocks, block{x.size, int(n), sum})
		x.size += int64(n)
	}
	return x, nil
}

// follow cuts a content that is much like the base. The block that follows the last one in the
// base is tried first: its hash takes a fraction of the time of a search for the end of a block.
// from is the offset of a block in the base; -1: it is not there.
func (x *Index) follow(r io.Reader, each func(from int64, size int, sum uint64) error) error {
	next := 0    // the block that is expected; len(x.blocks): none
	hit := false // the block that is cut is the expected one
	return cut(r, func(data []byte) int {
		hit = false
		if next == len(x.blocks) {
			return end(data)
		}
		b := x.blocks[next]
		// A last block ends with its content, not where its bytes say so.
		if last := next == len(x.blocks)-1; b.size <= len(data) && (!last || b.size == len(data)) {
			hit = xxhash.Sum64(data[:b.size]) == b.sum
		}
		if hit {
			return b.size
		}
		return end(data)
	}, func(data []byte) error {
		if hit {
			b := x.blocks[next]
			next++
			return each(b.off, b.size, b.sum)
		}
		sum := xxhash.Sum64(data)
		if i, ok := x.at[sum]; ok && x.blocks[i].size == len(data) {
			next = i + 1
			return each(x.blocks[i].off, len(data), sum)
		}
		// Bytes that were replaced by as many leave the next block where it was.
		if next < len(x.blocks) && x.blocks[next].size == len(data) {
			next++
		} else {
			next = len(x.blocks)
		}
		return each(-1, len(data), sum)
	})
}

// List is the function List for a content that is much like the base. It takes less time.
func (x *Index) List(r io.Reader) (list []byte, err error) {
	err = x.follow(r, func(_ int64, size int, sum uint64) error {
		list = binary.LittleEndian.AppendUint32(list, uint32(size)) //nolint:gosec // at most 64 KiB
		list = binary.LittleEndian.AppendUint64(list, sum)
		return nil
	})
	return list, err
}

// Recipe compares a content with the base.
func (x *Index) Recipe(r io.Reader) (*Recipe, error) {
	out := &Recipe{}
	err := x.follow(r, func(from int64, size int, _ uint64) error {
		out.add(from, int64(size))
		return nil
	})
	return out, err
}
