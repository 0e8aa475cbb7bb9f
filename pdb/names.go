package pdb

import (
	"bytes"
	"strconv"
)

// Limits of names made from types.
const (
	maxTypeDepth = 64
	maxTypeSteps = 4096     // records that one name is made from
	maxShown     = 64 << 10 // bytes of one name
	maxTypeCache = 1 << 20  // bytes of texts that a printer keeps
)

// printer makes the shown names of functions from their types. It prints what
// Breakpad symbol files made by Mozilla's dump_syms have: a qualified name and
// the types of the parameters, without return type, class keys or a space
// before * and &. A printer serves one goroutine.
type printer struct {
	types, ids *typeStream
	// resolve returns the index that a reference into another module means.
	resolve func(index uint32) (uint32, bool)

	out    []byte
	steps  int
	broken bool // a limit was reached, or a record is not what it should be

	args      map[uint32]string // printed argument lists
	argsBytes int
}

// function returns the shown name of a function with a qualified name and the
// type ti; bare if the type is unknown. id means that ti is the index of an id.
func (p *printer) function(name []byte, ti uint32, id bool) []byte {
	p.begin()
	p.out = append(p.out, name...)
	if id {
		ti = p.typeOfID(ti)
	}
	if ti != 0 {
		leaf, data := p.record(ti)
		switch leaf {
		case lfProcedure:
			p.parameters(u32(data, 8), 1)
		case lfMFunction:
			p.methodParameters(data, true, 1)
		}
	}
	return p.finish(len(name))
}

// inlinee returns the shown name of the function with an id; nil if the id is
// unknown.
func (p *printer) inlinee(id uint32) []byte {
	p.begin()
	leaf, data := p.id(id)
	switch leaf {
	case lfFuncID:
		if scope := u32(data, 0); scope != 0 {
			p.scope(scope, 1)
			p.out = append(p.out, "::"...)
		}
	case lfMFuncID:
		p.typ(u32(data, 0), 1)
		p.out = append(p.out, "::"...)
	default:
		return nil
	}
	name := nameAt(data, 8)
	if len(name) == 0 {
		return nil
	}
	p.out = append(p.out, name...)
	bare := len(p.out)
	switch leaf, data := p.record(u32(data, 4)); leaf {
	case lfProcedure:
		p.parameters(u32(data, 8), 1)
	case lfMFunction:
		p.methodParameters(data, true, 1)
	}
	return p.finish(bare)
}

func (p *printer) begin() {
	p.out, p.steps, p.broken = p.out[:0], 0, false
}

// finish returns the printed text. If that is broken, it is cut after the name
// without parameters, which has bare bytes.
func (p *printer) finish(bare int) []byte {
	if p.broken {
		p.out = p.out[:min(bare, maxShown)]
	}
	const shown = "(anonymous namespace)"
	for _, mark := range []string{"`anonymous namespace'", "`anonymous-namespace'"} {
		if bytes.Contains(p.out, []byte(mark)) {
			p.out = append(p.out[:0], bytes.ReplaceAll(p.out, []byte(mark), []byte(shown))...)
		}
	}
	return p.out
}

// typeOfID returns the type of the function with an id.
func (p *printer) typeOfID(id uint32) uint32 {
	if leaf, data := p.id(id); leaf == lfFuncID || leaf == lfMFuncID {
		return u32(data, 4)
	}
	return 0
}

// id returns the record of an id.
func (p *printer) id(id uint32) (leaf uint16, data []byte) {
	return p.find(p.ids, id)
}

// record returns the record of a type.
func (p *printer) record(ti uint32) (leaf uint16, data []byte) {
	return p.find(p.types, ti)
}

func (p *printer) find(t *typeStream, i uint32) (leaf uint16, data []byte) {
	p.steps++
	if p.steps > maxTypeSteps || len(p.out) > maxShown {
		p.broken = true
		return 0, nil
	}
	if i&crossScope != 0 {
		ok := false
		if p.resolve != nil {
			i, ok = p.resolve(i)
		}
		if !ok {
			return 0, nil
		}
	}
	return t.record(i)
}

// scope prints the scope of a function: a namespace.
func (p *printer) scope(id uint32, depth int) {
	leaf, data := p.id(id)
	switch {
	case depth > maxTypeDepth:
		p.broken = true
	case leaf == lfStringID:
		name := nameAt(data, 4)
		if rest, ok := bytes.CutPrefix(name, []byte("?A0x")); ok {
			if _, err := strconv.ParseUint(string(rest), 16, 32); err == nil {
				name = []byte("`anonymous namespace'")
			}
		}
		p.out = append(p.out, name...)
	case leaf == lfFuncID || leaf == lfMFuncID:
		p.out = append(p.out, nameAt(data, 8)...)
	default:
		p.out = append(p.out, "<unknown scope>"...)
	}
}

// parameters prints an argument list in parentheses.
func (p *printer) parameters(list uint32, depth int) {
	p.out = append(p.out, '(')
	p.argList(list, false, depth)
	p.out = append(p.out, ')')
}

// argList prints the types of an argument list, with a comma before the first
// if there is one.
func (p *printer) argList(list uint32, comma bool, depth int) {
	text, ok := p.args[list]
	if !ok {
		leaf, data := p.record(list)
		if leaf != lfArgList {
			p.broken = true
			return
		}
		start := len(p.out)
		n := min(int(u32(data, 0)), (len(data)-4)/4)
		for i := range max(n, 0) {
			if i > 0 {
				p.out = append(p.out, ", "...)
			}
			if ti := u32(data, 4+4*i); ti == 0 {
				p.out = append(p.out, "..."...)
			} else {
				p.typ(ti, depth+1)
			}
			if p.broken {
				return
			}
		}
		text = string(p.out[start:])
		p.out = p.out[:start]
		if p.argsBytes += len(text) + 48; p.argsBytes > maxTypeCache || p.args == nil {
			p.args, p.argsBytes = map[uint32]string{}, len(text)+48
		}
		if list&crossScope == 0 {
			p.args[list] = text
		}
	}
	if comma && text != "" {
		p.out = append(p.out, ", "...)
	}
	p.out = append(p.out, text...)
}

// methodParameters prints the parameters of an LF_MFUNCTION record, and const
// for a const method.
func (p *printer) methodParameters(data []byte, constant bool, depth int) {
	class, this := u32(data, 4), u32(data, 8)
	isConst, extra := false, false
	if this != 0 {
		// rustc gives associated functions whose first parameter is a reference
		// this reference as "this". It is a parameter then.
		isConst, extra = p.pointsTo(this, class)
		extra = !extra
	}
	p.out = append(p.out, '(')
	if extra {
		p.typ(this, depth+1)
	}
	p.argList(u32(data, 16), extra, depth)
	p.out = append(p.out, ')')
	if isConst && constant {
		p.out = append(p.out, " const"...)
	}
}

// pointsTo reports whether the type ptr is a pointer to class, and to a const
// class.
func (p *printer) pointsTo(ptr, class uint32) (isConst, ok bool) {
	leaf, data := p.record(ptr)
	if leaf != lfPointer {
		return false, false
	}
	under := u32(data, 0)
	if under == class {
		return false, true
	}
	if leaf, data = p.record(under); leaf == lfModifier && u32(data, 0) == class {
		return u16(data, 4)&1 != 0, true
	}
	return false, false
}

// typ prints a type.
func (p *printer) typ(ti uint32, depth int) {
	if depth > maxTypeDepth {
		p.broken = true
	}
	if p.broken {
		return
	}
	if ti < firstType {
		p.simple(ti, false)
		return
	}
	leaf, data := p.record(ti)
	switch leaf {
	case lfClass, lfStructure, lfInterface:
		_, n := numeric(data, 16)
		p.out = append(p.out, nameAt(data, 16+n)...)
	case lfUnion:
		_, n := numeric(data, 8)
		p.out = append(p.out, nameAt(data, 8+n)...)
	case lfEnum:
		p.out = append(p.out, nameAt(data, 12)...)
	case lfPointer:
		p.pointer(data, false, depth)
	case lfModifier:
		p.modifier(data, depth)
	case lfArray:
		p.array(ti, data, depth)
	case lfArgList:
		p.argList(ti, false, depth)
	case lfProcedure:
		p.returned(u32(data, 0), data, 5, depth)
		p.out = append(p.out, "()"...)
		p.parameters(u32(data, 8), depth)
	case lfMFunction:
		p.returned(u32(data, 0), data, 13, depth)
		p.out = append(p.out, "()"...)
		p.methodParameters(data, false, depth)
	default:
		p.out = append(p.out, "<unknown type>"...)
	}
}

// modifier prints an LF_MODIFIER record. Only const is shown.
func (p *printer) modifier(data []byte, depth int) {
	under, constant := u32(data, 0), u16(data, 4)&1 != 0
	if under < firstType {
		p.simple(under, constant)
		return
	}
	leaf, inner := p.record(under)
	if leaf == lfPointer {
		p.pointer(inner, constant, depth)
		return
	}
	if constant {
		p.out = append(p.out, "const "...)
	}
	p.typ(under, depth+1)
}

// layer is one pointer or reference of a chain of them.
type layer struct {
	mode     byte
	constant bool // the pointer is const
	pointee  bool // the value that it points to is const
}

// pointer prints an LF_POINTER record, which has the data.
func (p *printer) pointer(data []byte, constant bool, depth int) {
	var layers []layer
	for {
		attributes := u32(data, 4)
		layers = append(layers, layer{byte(attributes >> 5 & 7), attributes>>10&1 != 0 || constant, false})
		constant = false
		under := u32(data, 0)
		leaf, next := p.record(under)
		if leaf == lfModifier && len(layers) <= maxTypeDepth {
			layers[len(layers)-1].pointee = u16(next, 4)&1 != 0
			under = u32(next, 0)
			leaf, next = p.record(under)
		}
		switch {
		case len(layers) > maxTypeDepth || p.broken:
			p.broken = true
		case leaf == lfPointer:
			data = next
			continue
		case leaf == lfProcedure:
			p.returned(u32(next, 0), next, 5, depth)
			p.out = append(p.out, '(')
			p.sigils(layers, false)
			p.out = append(p.out, ')')
			p.parameters(u32(next, 8), depth+1)
		case leaf == lfMFunction:
			p.returned(u32(next, 0), next, 13, depth)
			p.out = append(p.out, '(')
			p.typ(u32(next, 4), depth+1)
			p.sigils(layers, false)
			p.out = append(p.out, ')')
			p.methodParameters(next, false, depth+1)
		default:
			p.typ(under, depth+1)
			p.sigils(layers, true)
		}
		return
	}
}

// sigils prints a chain of pointers, the innermost first. space allows a space
// at the beginning.
func (p *printer) sigils(layers []layer, space bool) {
	for i := len(layers) - 1; i >= 0; i-- {
		if layers[i].pointee {
			if space {
				p.out = append(p.out, ' ')
			}
			p.out = append(p.out, "const"...)
		}
		space = true
		switch layers[i].mode {
		case 1:
			p.out = append(p.out, '&')
		case 2, 3: // data member, method
			p.out = append(p.out, "::*"...)
		case 4:
			p.out = append(p.out, "&&"...)
		default:
			p.out = append(p.out, '*')
		}
		if layers[i].constant {
			p.out = append(p.out, " const"...)
		}
	}
}

// returned prints the return type ti and a space, but not for a constructor.
// The attributes are at off.
func (p *printer) returned(ti uint32, data []byte, off, depth int) {
	if off < len(data) && data[off]&2 != 0 {
		return
	}
	p.typ(ti, depth+1)
	p.out = append(p.out, ' ')
}

// array prints an LF_ARRAY record with its dimensions. These are in bytes in the
// file.
func (p *printer) array(ti uint32, data []byte, depth int) {
	var sizes []uint64
	element := ti
	for leaf := uint16(lfArray); leaf == lfArray; leaf, data = p.record(element) {
		if len(sizes) > maxTypeDepth {
			p.broken = true
			return
		}
		n, _ := numeric(data, 8)
		sizes = append(sizes, n)
		element = u32(data, 0)
	}
	p.typ(element, depth+1)
	sizes = append(sizes, p.size(element, depth+1))
	for i, n := range sizes[:len(sizes)-1] {
		p.out = append(p.out, '[')
		// The size of a class without definition in the file is unknown.
		if each := sizes[i+1]; each != 0 {
			p.out = strconv.AppendUint(p.out, n/each, 10)
		}
		p.out = append(p.out, ']')
	}
}

// size returns the size of a type in bytes, or 0 if it is unknown.
func (p *printer) size(ti uint32, depth int) uint64 {
	if ti < firstType {
		return simpleSize(ti)
	}
	if depth > maxTypeDepth {
		return 0
	}
	leaf, data := p.record(ti)
	switch leaf {
	case lfClass, lfStructure, lfInterface, lfUnion:
		name, n, declared, _ := className(leaf, data)
		if declared && n == 0 {
			n = p.types.definedSize(name)
		}
		return n
	case lfEnum:
		return p.size(u32(data, 4), depth+1)
	case lfModifier:
		return p.size(u32(data, 0), depth+1)
	case lfPointer:
		return uint64(u32(data, 4) >> 13 & 0x3F)
	case lfArray:
		n, _ := numeric(data, 8)
		return n
	}
	return 0
}

// simple prints a type that has no record.
func (p *printer) simple(ti uint32, constant bool) {
	name, ok := simpleNames[byte(ti)]
	if !ok {
		name = "<unknown type>"
	}
	pointer := ti>>8&0xF != 0
	switch {
	case constant && pointer:
		p.out = append(append(p.out, name...), " const*"...)
	case constant:
		p.out = append(append(p.out, "const "...), name...)
	case pointer:
		p.out = append(append(p.out, name...), '*')
	default:
		p.out = append(p.out, name...)
	}
}

// simpleSize returns the size in bytes of a type that has no record, or 0.
func simpleSize(ti uint32) uint64 {
	switch ti >> 8 & 0xF {
	case 0:
	case 6:
		return 8
	case 7:
		return 16
	default:
		return 4
	}
	switch byte(ti) {
	case 0x10, 0x20, 0x70, 0x68, 0x69, 0x30, 0x7C:
		return 1
	case 0x11, 0x21, 0x71, 0x72, 0x73, 0x7A, 0x31, 0x46:
		return 2
	case 0x08, 0x12, 0x22, 0x74, 0x75, 0x7B, 0x32, 0x40, 0x45:
		return 4
	case 0x44:
		return 6
	case 0x13, 0x23, 0x76, 0x77, 0x33, 0x41, 0x50:
		return 8
	case 0x42:
		return 10
	case 0x14, 0x24, 0x78, 0x79, 0x43, 0x51:
		return 16
	}
	return 0
}

// simpleNames are the names of the types without records by the low byte of
// their index.
var simpleNames = map[byte]string{
	0x00: "<no type>", 0x03: "void", 0x08: "HRESULT",
	0x10: "signed char", 0x20: "unsigned char", 0x70: "char",
	0x71: "wchar_t", 0x7A: "char16_t", 0x7B: "char32_t", 0x7C: "char8_t",
	0x68: "int8_t", 0x69: "uint8_t",
	0x11: "short", 0x21: "unsigned short", 0x72: "int16_t", 0x73: "uint16_t",
	0x12: "long", 0x22: "unsigned long", 0x74: "int", 0x75: "unsigned int",
	0x13: "long long", 0x23: "unsigned long long", 0x76: "int64_t", 0x77: "uint64_t",
	0x14: "int128_t", 0x24: "uint128_t", 0x78: "int128_t", 0x79: "uint128_t",
	0x30: "bool", 0x31: "bool16_t", 0x32: "bool32_t", 0x33: "bool64_t",
	0x46: "float16_t", 0x40: "float", 0x45: "float", 0x44: "float48_t", 0x41: "double",
	0x42: "long double", 0x43: "long double",
	0x50: "complex<float>", 0x51: "complex<double>", 0x52: "complex<long double>", 0x53: "complex<long double>",
}
