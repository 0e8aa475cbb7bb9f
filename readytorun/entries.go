package readytorun

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/symdepot/symdepot/metadata"
)

// entries collects the entry points of an image.
type entries struct {
	m      *Methods
	ctx    context.Context
	starts []bool // a method begins with the runtime function
	cold   uint32 // the first runtime function that is the cold part of a method
	whole  bool   // all entry points are known
	left   int    // steps: hostile entries refer to each other
	tick   int
}

var errSteps = malformed("the entry points need too much work")

// step charges a step.
func (e *entries) step() error {
	if e.left--; e.left < 0 {
		return errSteps
	}
	if e.tick++; e.tick&4095 == 0 {
		return e.ctx.Err()
	}
	return nil
}

// native reads the numbers of the native format: the count of the one bits at the low end of the first
// byte is that of the bytes that follow.
type native struct {
	b  []byte
	at uint32
	ok bool // all was inside of b so far
}

// byte reads a byte.
func (r *native) byte() uint32 {
	if uint64(r.at) >= uint64(len(r.b)) {
		r.ok = false
		return 0
	}
	r.at++
	return uint32(r.b[r.at-1])
}

// unsigned reads a number.
func (r *native) unsigned() uint32 {
	first := r.byte()
	for n := range uint32(4) {
		if first>>n&1 != 0 {
			continue
		}
		v := first >> (n + 1)
		for i := range n {
			v |= r.byte() << (7 - n + 8*i)
		}
		return v
	}
	if first>>4&1 != 0 {
		r.ok = false
	}
	v := uint32(0)
	for i := range uint32(4) {
		v |= r.byte() << (8 * i)
	}
	return v
}

// signed reads a number with a sign: the highest bit of the same form.
func (r *native) signed() int32 {
	from := r.at
	v := r.unsigned()
	if n := r.at - from; n < 5 {
		unused := 32 - 7*n
		return int32(v<<unused) >> unused
	}
	return int32(v)
}

// word reads a little-endian number of 1, 2 or 4 bytes: 1<<size.
func (r *native) word(size uint32) uint32 {
	switch {
	case uint64(r.at)+1<<size > uint64(len(r.b)):
		r.ok = false
		return 0
	case size == 0:
		return uint32(r.b[r.at])
	case size == 1:
		return uint32(binary.LittleEndian.Uint16(r.b[r.at:]))
	}
	return binary.LittleEndian.Uint32(r.b[r.at:])
}

// definitions reads the entry points of the methods without generic parameters: a sparse array, whose
// index is the row of the method less one. Its elements are in blocks of 16, each of which is a binary
// tree over the bits of the index.
func (e *entries) definitions(b []byte) error {
	r := native{b: b, ok: true}
	head := r.unsigned()
	count, size := min(head>>2, mostMethods, e.m.tables.Methods()), head&3
	base := r.at
	if size == 3 {
		size = 2
	}
	for i := range count {
		if err := e.step(); err != nil {
			return err
		}
		r.at, r.ok = base+i/16<<size, true
		if at := r.word(size); r.ok {
			r.at = base + at
			if found := e.element(&r, i); !found {
				continue
			}
		}
		if at := functionAt(&r); r.ok {
			e.add(at, method{row: i + 1})
		} else {
			return malformed("method %d", i+1)
		}
	}
	return nil
}

// element moves r, which is at the start of a block, to element i. It reports whether the array has it.
func (e *entries) element(r *native, i uint32) bool {
	for bit := uint32(8); bit > 0; bit >>= 1 {
		from := r.at
		v := r.unsigned()
		switch {
		case i&bit != 0 && v&2 != 0:
			r.at = from + v>>2
		case i&bit == 0 && v&1 != 0: // the other half follows
		case v&3 == 0: // there is one element in this part
			return v>>2 == i&15
		default:
			return false
		}
	}
	return true
}

// functionAt reads the number of the runtime function of an entry point. Lists of what must be loaded
// before the method can run may follow.
func functionAt(r *native) uint32 {
	if v := r.unsigned(); v&1 != 0 {
		return v >> 2
	} else {
		return v >> 1
	}
}

// add adds the entry point of a method: a runtime function.
func (e *entries) add(function uint32, of method) {
	if uint64(function) >= uint64(len(e.starts)) {
		return
	}
	switch have := &e.m.method[function]; {
	case !e.starts[function]:
		e.starts[function], *have = true, of
	case have.row != of.row || have.member != of.member:
		have.shared = true
	}
}

// instances reads the entry points of instances of generic methods, and of methods of generic types: a
// hash table, of whose buckets each begins with the number in a list. Each element has the signature of
// the method, and then the entry point.
func (e *entries) instances(b []byte) error {
	r := native{b: b, ok: true}
	head := r.byte()
	size, shift := head&3, head>>2
	if size == 3 || shift > 31 || uint64(1)<<shift<<size > uint64(len(b)) {
		return malformed("a table of 2^%d buckets in %d bytes", shift, len(b))
	}
	base := r.at
	for i := range uint32(1) << shift {
		if err := e.step(); err != nil {
			return err
		}
		r.at = base + i<<size
		from := r.word(size)
		r.at += 1 << size
		to := base + r.word(size)
		for r.at = base + from; r.ok && r.at < to; {
			if err := e.step(); err != nil {
				return err
			}
			r.byte() // a part of the hash
			at := r.at
			entry := native{b: b, at: at + uint32(r.signed()), ok: r.ok}
			if err := e.instance(entry); err != nil {
				return err
			}
		}
		if !r.ok {
			return malformed("bucket %d", i)
		}
	}
	return nil
}

// instance reads the signature and the entry point of an instance.
func (e *entries) instance(r native) error {
	if uint64(r.at) > uint64(len(r.b)) {
		return malformed("an element of the hash table is outside of it")
	}
	s := signature{Blob: metadata.Blob{Rest: r.b[r.at:]}, e: e}
	of, known := s.method()
	if s.Err != nil {
		e.whole = false // a form that is not known: so is where the entry point is
		if err := e.ctx.Err(); err != nil {
			return err
		}
		if errors.Is(s.Err, errSteps) {
			return errSteps
		}
		return nil
	}
	if !known {
		of = method{}
	}
	r.at = uint32(len(r.b) - len(s.Rest))
	if at := functionAt(&r); r.ok {
		e.add(at, of)
	}
	return nil
}

// Flags of the signature of a method.
const (
	sigMethodArgs  = 0x04 // arguments of a generic method follow
	sigSlot        = 0x08 // the number is that of a slot
	sigMember      = 0x10 // the number is a row of MemberRef
	sigConstrained = 0x20
	sigOwner       = 0x40 // the type that has the method
	sigModule      = 0x80 // the numbers are those of another module
)

// signature reads the signature of a method.
type signature struct {
	metadata.Blob
	e *entries
}

// method reads the signature. known is false if it is no method of this assembly or of one that it
// refers to.
func (s *signature) method() (of method, known bool) {
	flags := s.Unsigned()
	if flags&sigModule != 0 {
		s.Unsigned()
	}
	if flags&sigOwner != 0 {
		s.skipType(0)
	}
	of = method{row: s.Unsigned(), member: flags&sigMember != 0}
	if flags&sigMethodArgs != 0 {
		for n := s.Unsigned(); n > 0 && s.Err == nil; n-- {
			s.skipType(0)
		}
	}
	if flags&sigConstrained != 0 {
		s.skipType(0)
	}
	return of, flags&(sigSlot|sigModule) == 0
}

// Element types of signatures (ECMA-335, II.23.1.16) and those that the runtime adds.
const (
	elementVoid        = 0x01
	elementString      = 0x0e
	elementPointer     = 0x0f
	elementReference   = 0x10
	elementValueType   = 0x11
	elementClass       = 0x12
	elementTypeVar     = 0x13
	elementArray       = 0x14
	elementGeneric     = 0x15
	elementTypedRef    = 0x16
	elementInt         = 0x18
	elementUint        = 0x19
	elementFunction    = 0x1b
	elementObject      = 0x1c
	elementVector      = 0x1d // an array of one dimension
	elementMethodVar   = 0x1e
	elementRequired    = 0x1f
	elementOptional    = 0x20
	elementPinned      = 0x45
	elementRuntimeVar  = 0x3b
	elementNativeValue = 0x3d
	elementCanon       = 0x3e // stands for all classes as the argument of a generic type
	elementModule      = 0x3f // the type is of another module
)

// maxTypes is how deep types may be nested in a type.
const maxTypes = 64

var errType = malformed("a type of a form that is not known")

// step charges a step.
func (s *signature) step() {
	if err := s.e.step(); s.Err == nil && err != nil {
		s.Err = err
	}
}

// skipType reads over a type.
func (s *signature) skipType(depth int) {
	s.step()
	if depth > maxTypes && s.Err == nil {
		s.Err = errType
	}
	if s.Err != nil {
		return
	}
	types := func(n uint32) {
		for ; n > 0 && s.Err == nil; n-- {
			s.skipType(depth + 1)
		}
	}
	switch kind := s.Unsigned(); kind {
	case elementTypedRef, elementInt, elementUint, elementObject, elementCanon:
	case elementValueType, elementClass, elementTypeVar, elementMethodVar, elementRuntimeVar:
		s.Unsigned()
	case elementPointer, elementReference, elementVector, elementNativeValue, elementPinned:
		types(1)
	case elementModule, elementRequired, elementOptional:
		s.Unsigned()
		types(1)
	case elementGeneric:
		types(1)
		types(s.Unsigned())
	case elementArray:
		types(1)
		s.Unsigned() // rank
		for range 2 {
			for n := s.Unsigned(); n > 0 && s.Err == nil; n-- { // sizes, then lower bounds
				s.Unsigned()
				s.step()
			}
		}
	case elementFunction:
		if s.Unsigned()&0x10 != 0 {
			s.Unsigned() // generic parameters
		}
		n := s.Unsigned()
		types(1)
		types(n)
	default:
		if s.Err == nil && (kind < elementVoid || kind > elementString) {
			s.Err = errType
		}
	}
}
