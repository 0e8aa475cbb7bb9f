package watch

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/files/scan"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// The row of an object has its fields in a compact form: most objects are ELF files whose
// ids follow from the build-id. A change of this form is a change of the format of the
// index.

// The fields that are present.
const (
	hasName = 1 << iota
	hasCodeName
	hasCodeID
	hasDebugID
	hasInfoAge
	hasBuildID
	hasOf
	hasVersion
	hasHash
	hasArch
	hasPart
	hasDebugSize
	hasPDB
	isNoDBI
	isCompanion
	isMain
	isPDB20
	codeIsBuildID
	debugIsLittle // the debug id is that of the build-id
	debugIsBig
	featDebug
	featSymtab
	featUnwind
	featSources
	featUnknown
	featNoSections
)

var errRow = errors.New("a damaged row of the index")

// encoder appends fields.
type encoder struct{ b []byte }

func (e *encoder) number(n uint64) { e.b = binary.AppendUvarint(e.b, n) }

func (e *encoder) text(s string) {
	e.number(uint64(len(s)))
	e.b = append(e.b, s...)
}

// encodeObject returns the row of an object in a file of a size with a base name.
func encodeObject(o *objfile.Object, name string, size int64) []byte {
	var fields uint64
	var e encoder
	flag := func(is bool, f uint64) bool {
		if is {
			fields |= f
		}
		return is
	}
	flag(o.NoDBI, isNoDBI)
	flag(o.DebugCompanion, isCompanion)
	flag(o.Main, isMain)
	flag(o.DebugID.PDB20, isPDB20)
	ft := o.Features
	flag(ft.Debug, featDebug)
	flag(ft.Symtab, featSymtab)
	flag(ft.Unwind, featUnwind)
	flag(ft.Sources, featSources)
	flag(ft.Unknown, featUnknown)
	flag(ft.NoSections, featNoSections)
	text := func(s string, f uint64) {
		if flag(s != "", f) {
			e.text(s)
		}
	}
	number := func(n uint64, f uint64) {
		if flag(n != 0, f) {
			e.number(n)
		}
	}
	if flag(o.Name != name, hasName) {
		e.text(o.Name)
	}
	text(o.CodeName, hasCodeName)
	if id, err := hex.DecodeString(string(o.BuildID)); err == nil {
		text(string(id), hasBuildID)
	}
	if o.CodeID != "" && !flag(o.CodeID == string(o.BuildID), codeIsBuildID) {
		text(o.CodeID, hasCodeID)
	}
	switch {
	case o.DebugID.IsZero():
	case o.BuildID != "" && o.DebugID == o.BuildID.DebugID(true):
		fields |= debugIsLittle
	case o.BuildID != "" && o.DebugID == o.BuildID.DebugID(false):
		fields |= debugIsBig
	default:
		fields |= hasDebugID
		e.b = append(e.b, o.DebugID.GUID[:]...)
		e.number(uint64(o.DebugID.Age))
	}
	number(uint64(o.InfoAge), hasInfoAge)
	number(uint64(o.Of), hasOf)
	number(uint64(o.Version), hasVersion)
	text(o.Hash, hasHash)
	text(o.Arch, hasArch)
	if flag(o.Offset != 0 || o.Size != size || o.Deflated != 0, hasPart) {
		e.number(uint64(o.Offset))
		e.number(uint64(o.Size))
		e.number(uint64(o.Deflated))
	}
	number(uint64(o.DebugSize), hasDebugSize)
	text(ft.PDB, hasPDB)
	head := encoder{[]byte{byte(o.Kind)}}
	head.number(uint64(o.Role))
	head.number(fields)
	return slices.Concat(head.b, e.b)
}

// decoder takes fields.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) number() uint64 {
	n, w := binary.Uvarint(d.b)
	if w <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[w:]
	return n
}

func (d *decoder) bytes(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.bad, d.b = true, nil
		return nil
	}
	p := d.b[:n]
	d.b = d.b[n:]
	return p
}

func (d *decoder) text() string { return string(d.bytes(d.number())) }

// decodeObject is the inverse of encodeObject.
func decodeObject(row []byte, name string, size int64) (o objfile.Object, err error) {
	d := &decoder{b: row}
	if kind := d.bytes(1); len(kind) == 1 {
		o.Kind = symfile.Kind(kind[0])
	}
	o.Role = symfile.Role(d.number())
	fields := d.number()
	has := func(f uint64) bool { return fields&f != 0 }
	text := func(p *string, f uint64) {
		if has(f) {
			*p = d.text()
		}
	}
	o.Name, o.Size = name, size
	text(&o.Name, hasName)
	text(&o.CodeName, hasCodeName)
	if has(hasBuildID) {
		o.BuildID = debugid.NewBuildID([]byte(d.text()))
	}
	text(&o.CodeID, hasCodeID)
	if has(codeIsBuildID) {
		o.CodeID = string(o.BuildID)
	}
	switch {
	case has(debugIsLittle):
		o.DebugID = o.BuildID.DebugID(true)
	case has(debugIsBig):
		o.DebugID = o.BuildID.DebugID(false)
	case has(hasDebugID):
		copy(o.DebugID.GUID[:], d.bytes(uint64(len(o.DebugID.GUID))))
		o.DebugID.Age = uint32(d.number())
	}
	o.DebugID.PDB20 = has(isPDB20)
	number := func(f uint64) uint64 {
		if has(f) {
			return d.number()
		}
		return 0
	}
	o.InfoAge, o.Of, o.Version = uint32(number(hasInfoAge)), symfile.Kind(number(hasOf)), int(number(hasVersion))
	text(&o.Hash, hasHash)
	text(&o.Arch, hasArch)
	if has(hasPart) {
		o.Offset, o.Size, o.Deflated = int64(d.number()), int64(d.number()), int64(d.number())
	}
	o.DebugSize = int64(number(hasDebugSize))
	text(&o.Features.PDB, hasPDB)
	o.NoDBI, o.DebugCompanion, o.Main = has(isNoDBI), has(isCompanion), has(isMain)
	o.Features.Debug, o.Features.Symtab, o.Features.Unwind = has(featDebug), has(featSymtab), has(featUnwind)
	o.Features.Sources, o.Features.Unknown, o.Features.NoSections = has(featSources), has(featUnknown), has(featNoSections)
	if d.bad || len(d.b) > 0 || o.Offset < 0 || o.Size < 0 || o.Deflated < 0 {
		return objfile.Object{}, errRow
	}
	return o, nil
}

// encodePlace returns the row of a place; nil if it is not known.
func encodePlace(p scan.Place) []byte {
	if p.Method == scan.Nested {
		return nil
	}
	var e encoder
	e.place(p)
	return e.b
}

func (e *encoder) place(p scan.Place) {
	e.number(uint64(p.Method))
	e.number(uint64(p.Base))
	e.number(uint64(p.Packed))
	e.number(uint64(p.Offset))
}

// decodePlace is the inverse of encodePlace. A damaged row is an unknown place.
func decodePlace(row []byte) scan.Place {
	if len(row) == 0 {
		return scan.Place{}
	}
	d := &decoder{b: row}
	p := d.place()
	if d.bad {
		return scan.Place{}
	}
	return p
}

func (d *decoder) place() scan.Place {
	p := scan.Place{Method: scan.Method(d.number()), Base: int64(d.number()), Packed: int64(d.number()), Offset: int64(d.number())}
	d.bad = d.bad || p.Base < 0 || p.Packed < 0 || p.Offset < 0
	return p
}

// hash returns the number under which a text is found in the index.
func hash(kind, text string) int64 {
	var h xxhash.Digest
	h.Reset()
	_, _ = h.WriteString(kind)
	_, _ = h.WriteString("\x00")
	_, _ = h.WriteString(text)
	return int64(h.Sum64())
}

// The kinds of hashes.
const (
	byID   = "id"   // a folded id
	byName = "name" // the folded name of an object
	byAge  = "age"  // the GUID of a PDB, for higher ages
	byPath = "path" // the canonical path of a source file
	byBase = "base" // the base name of a file in a source package
)

// keysOf returns the hashes under which an object is found.
func keysOf(o symfile.Object) (keys []int64) {
	for _, a := range o.Aliases() {
		if k := hash(byID, a.ID); !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil // no client can ask for it
	}
	keys = append(keys, hash(byName, symfile.Fold(o.Name)))
	if (o.Kind == symfile.PDB || o.Kind == symfile.MSFZ) && !o.DebugID.IsZero() {
		keys = append(keys, hash(byAge, o.DebugID.GUID.Lower()))
	}
	return keys
}
