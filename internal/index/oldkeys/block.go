// Package oldkeys is the part of an index for the keys of objects that came long ago. As rows
// of the table lookup they take a few hundred bytes each; here some hundred of them are one
// row of the table old_key, sorted and packed.
//
// A key is in one of both tables, never in both. A background pass packs the keys of old
// objects. Who changes an object takes its keys out again first, so that only this package
// writes packed keys. Who reads keys asks both tables.
package oldkeys

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/symdepot/symdepot/internal/index/engine"
)

// Key is a packed key.
type Key struct {
	ID string // folded
	// Name is the folded name, unless Own is set: then it is that of the object.
	Name   string
	Own    bool
	Object int64
	Role   int64
}

// Compare is the order of keys in a block.
func Compare(a, b Key) int {
	return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Object, b.Object), cmp.Compare(a.Name, b.Name))
}

// A block of version 1 is a version byte and the number of keys, and then of each key, numbers as uvarints:
//
//	the length of the beginning that its id shares with the one before
//	the length of the rest of the id, doubled, plus one if the rest is packed hex
//	the rest: lower-case hex digits in half a byte each, or bytes
//	the role, doubled, plus one if a name follows
//	the length of the name and the name, if it is not that of the object
//	the object
const (
	blockVersion = 1
	// blockBytes is the size up to which a block grows. Two rows fill a page of SQLite, four one
	// of PostgreSQL, which would store larger rows elsewhere.
	blockBytes = 1940
	// maxSame is the number of keys of one id that are packed. They are one block.
	maxSame = 200
	// maxText is the length in bytes up to which ids and names are packed: it bounds the memory for
	// a damaged block.
	maxText = 255
	// maxBlock limits the keys that a damaged block can claim to have.
	maxBlock = 1 << 20
)

// errBlock means that a block is damaged.
var errBlock = fmt.Errorf("%w: a block of old keys is damaged", engine.ErrCorrupt)

// isHex reports whether a text has lower-case hex digits only.
func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func nibble(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c - 'a' + 10
}

// appendKey appends a key that follows one with the id before.
func appendKey(b []byte, before string, k Key) []byte {
	shared := sharedWith(before, k.ID)
	rest := k.ID[shared:]
	b = binary.AppendUvarint(b, uint64(shared))
	if isHex(rest) {
		b = binary.AppendUvarint(b, uint64(len(rest))<<1|1)
		for i := 0; i < len(rest); i += 2 {
			x := nibble(rest[i]) << 4
			if i+1 < len(rest) {
				x |= nibble(rest[i+1])
			}
			b = append(b, x)
		}
	} else {
		b = append(binary.AppendUvarint(b, uint64(len(rest))<<1), rest...)
	}
	if k.Own {
		b = binary.AppendUvarint(b, uint64(k.Role)<<1)
	} else {
		b = binary.AppendUvarint(b, uint64(k.Role)<<1|1)
		b = append(binary.AppendUvarint(b, uint64(len(k.Name))), k.Name...)
	}
	return binary.AppendUvarint(b, uint64(k.Object))
}

// packBytes returns the block of sorted keys in version 1.
func packBytes(keys []Key) []byte {
	b := binary.AppendUvarint([]byte{blockVersion}, uint64(len(keys)))
	before := ""
	for _, k := range keys {
		b = appendKey(b, before, k)
		before = k.ID
	}
	return b
}

// split divides sorted keys into the keys of blocks of about equal size, in version 2 or 1. The keys of one id
// stay together.
func split(keys []Key, asBits bool) [][]Key {
	size, before := 0, ""
	sizes := make([]int, len(keys)) // in bits
	var one []byte
	objects := int64(1)
	for _, k := range keys {
		objects |= k.Object
	}
	for i, k := range keys {
		if asBits {
			sizes[i] = bitsOf(before, k, bits.Len64(uint64(objects)))
		} else {
			one = appendKey(one[:0], before, k)
			sizes[i] = 8 * len(one)
		}
		before = k.ID
		size += sizes[i]
	}
	n := max(1, (size+8*blockBytes-1)/(8*blockBytes))
	each := (size + n - 1) / n
	var list [][]Key
	from, sum := 0, 0
	for i := range keys {
		if i > from && sum+sizes[i] > each && keys[i].ID != keys[i-1].ID {
			list = append(list, keys[from:i:i])
			from, sum = i, 0
		}
		sum += sizes[i]
	}
	return append(list, keys[from:])
}

// Block is a row of old_key.
type Block struct {
	First string // no id of the block is before it, and all of the block before are
	Keys  int
	Body  []byte
}

// Blocks packs keys that are sorted by id, object and name, for an index with a floor.
func Blocks(keys []Key, floor int64) (list []Block) {
	pack, before := packBytes, ""
	if floor >= BitsFormat {
		pack = packBits
	}
	for parts := split(keys, floor >= BitsFormat); len(parts) > 0; parts = parts[1:] {
		some := parts[0]
		body := pack(some)
		if at := middle(some); len(body) > blockBytes+blockBytes/16 && at > 0 {
			// Many lengths or roles of keys took more than was expected.
			parts = append([][]Key{nil, some[:at:at], some[at:]}, parts[1:]...)
			continue
		}
		first := some[0].ID
		if n := sharedWith(before, first) + 1; len(list) > 0 && isASCII(first[:n]) {
			first = first[:n] // the shortest text after the last id before
		}
		list = append(list, Block{first, len(some), body})
		before = some[len(some)-1].ID
	}
	return list
}

// middle returns a place near the middle of sorted keys where another id begins; 0 if there is none.
func middle(keys []Key) int {
	for i := range len(keys) / 2 {
		for _, at := range []int{len(keys)/2 - i, len(keys)/2 + i} {
			if at > 0 && keys[at].ID != keys[at-1].ID {
				return at
			}
		}
	}
	return 0
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
}

// reader reads the fields of a block.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) number(limit uint64) uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > limit {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) bytes(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.bad = true
		return nil
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

const hexDigits = "0123456789abcdef"

// each calls fn for the keys of a block in their order until fn returns false. The id is in
// id, which is valid during the call, and not in the key.
func each(block []byte, fn func(id []byte, k Key) bool) error {
	switch {
	case len(block) > 0 && block[0] == bitsVersion:
		return eachBits(block, fn)
	case len(block) == 0 || block[0] != blockVersion:
		return errBlock
	}
	r := reader{b: block[1:]}
	count := r.number(maxBlock)
	id := make([]byte, 0, 64)
	for range count {
		shared := r.number(uint64(len(id)))
		length := r.number(2*maxText + 1)
		if r.bad || shared+length>>1 > maxText {
			return errBlock
		}
		id = id[:shared]
		if n := length >> 1; length&1 == 0 {
			id = append(id, r.bytes(n)...)
		} else {
			packed := r.bytes((n + 1) / 2)
			for _, x := range packed {
				id = append(id, hexDigits[x>>4], hexDigits[x&15])
			}
			if n%2 == 1 && len(packed) > 0 {
				id = id[:len(id)-1]
			}
		}
		role := r.number(math.MaxInt64)
		k := Key{Own: role&1 == 0, Role: int64(role >> 1)}
		if !k.Own {
			k.Name = string(r.bytes(r.number(maxText)))
		}
		k.Object = int64(r.number(math.MaxInt64))
		if r.bad || len(id) == 0 {
			return errBlock
		}
		if !fn(id, k) {
			return nil
		}
	}
	if len(r.b) > 0 {
		return errBlock
	}
	return nil
}

// unpack returns the keys of a block.
func unpack(block []byte) (keys []Key, err error) {
	err = each(block, func(id []byte, k Key) bool {
		k.ID = string(id)
		keys = append(keys, k)
		return true
	})
	if err == nil && !slices.IsSortedFunc(keys, Compare) {
		err = errBlock
	}
	return keys, err
}

// find returns the keys of an id in a block.
func find(block []byte, id string) (keys []Key, err error) {
	if len(block) > 0 && block[0] == bitsVersion {
		return findBits(block, id)
	}
	want := []byte(id)
	err = each(block, func(have []byte, k Key) bool {
		switch bytes.Compare(have, want) {
		case 0:
			k.ID = id
			keys = append(keys, k)
		case 1:
			return false
		}
		return true
	})
	return keys, err
}

// IsDamaged reports whether an error means that a block is damaged.
func IsDamaged(err error) bool { return errors.Is(err, errBlock) }
