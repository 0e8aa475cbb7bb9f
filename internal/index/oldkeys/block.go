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
	"slices"

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

// A block is a version byte and the number of keys, and then of each key, numbers as uvarints:
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
	blockBytes = 1900
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
	shared := 0
	for shared < len(before) && shared < len(k.ID) && before[shared] == k.ID[shared] {
		shared++
	}
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

// pack returns the block of sorted keys.
func pack(keys []Key) []byte {
	b := binary.AppendUvarint([]byte{blockVersion}, uint64(len(keys)))
	before := ""
	for _, k := range keys {
		b = appendKey(b, before, k)
		before = k.ID
	}
	return b
}

// split divides sorted keys into the keys of blocks of about equal size. The keys of one id
// stay together.
func split(keys []Key) [][]Key {
	size, before := 0, ""
	sizes := make([]int, len(keys))
	var one []byte
	for i, k := range keys {
		one = appendKey(one[:0], before, k)
		before = k.ID
		sizes[i] = len(one)
		size += len(one)
	}
	n := max(1, (size+blockBytes-1)/blockBytes)
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
	First string // the id that it begins with
	Keys  int
	Body  []byte
}

// Blocks packs keys that are sorted by id, object and name.
func Blocks(keys []Key) (list []Block) {
	for _, some := range split(keys) {
		list = append(list, Block{some[0].ID, len(some), pack(some)})
	}
	return list
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
	if len(block) == 0 || block[0] != blockVersion {
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
