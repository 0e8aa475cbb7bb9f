package pdb

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sort"
	"strings"
	"sync/atomic"

	"github.com/symdepot/symdepot/demangle"
)

// Limits of public symbols.
const (
	maxPublics      = 64 << 20
	maxPublicName   = 64 << 10
	maxPublicBlocks = 2 << 20 // bytes of the symbol record stream that are kept
)

// public is a public symbol of a section of code.
type public struct {
	addr uint32 // internal address
	at   uint32 // offset in the symbol record stream
}

// publics are the public symbols of the sections of code, sorted by address. Of
// those of one address, the first in the file comes first.
type publics struct {
	b    *blocks
	list []public
	// inside has a bit for each symbol that is in a function. It is set by
	// several goroutines.
	inside []uint32
	x86    bool // names may have the decoration of C functions
}

// readPublics walks the symbol record stream. It does not use the address map,
// because some linkers write none.
func (f *File) readPublics(ctx context.Context, a *addresses) (*publics, error) {
	p := &publics{x86: f.Machine == machineX86}
	if has, err := f.hasBytes(f.dbi.record); err != nil || !has {
		return p, err
	}
	s, err := f.section(f.dbi.record)
	if err != nil {
		return nil, err
	}
	p.b = newBlocks(s, s.Size(), blockSize, maxPublicBlocks)
	if f.Format == MSFZ {
		p.b = newBlocks(s, s.Size(), spanSize, min(s.Size(), maxMSFZTypes)+spanSize)
	}
	var w window
	w.reset(scanner{s, p.b, f.Format == MSFZ}, 0, s.Size())
	for n := 0; ; n++ {
		if n%(1<<16) == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		at, kind, data, err := w.record(4)
		if err != nil {
			return nil, err
		}
		if kind == 0 || len(p.list) == maxPublics {
			break
		}
		if kind != symPublic && kind != symPublicST || len(data) < 11 {
			continue
		}
		if addr, ok := a.code(u16(data, 8), u32(data, 4)); ok && addr < 1<<32 {
			p.list = append(p.list, public{uint32(addr), uint32(at)})
		}
	}
	slices.SortFunc(p.list, func(x, y public) int {
		return cmp.Or(cmp.Compare(x.addr, y.addr), cmp.Compare(x.at, y.at))
	})
	p.inside = make([]uint32, (len(p.list)+31)/32)
	return p, nil
}

// from returns the number of the first symbol at addr or after it.
func (p *publics) from(addr uint64) int {
	return sort.Search(len(p.list), func(i int) bool { return uint64(p.list[i].addr) >= addr })
}

// cover records that the code of e is a function.
func (p *publics) cover(e extent) {
	for i := p.from(e.start); i < len(p.list) && uint64(p.list[i].addr) < e.end; i++ {
		atomic.OrUint32(&p.inside[i/32], 1<<(i%32))
	}
}

// covered reports whether symbol i is in a function.
func (p *publics) covered(i int) bool { return atomic.LoadUint32(&p.inside[i/32])>>(i%32)&1 != 0 }

// raw returns the name of symbol i as the linker knows it.
func (p *publics) raw(i int) string {
	at := int64(p.list[i].at)
	head, err := p.b.bytes(at, 4)
	if err != nil {
		return ""
	}
	data, err := p.b.bytes(at+4, int64(u16(head, 0))-2)
	if err != nil {
		return ""
	}
	return string(symbolName(u16(head, 2), data, 10))
}

// symbol is the name of an address.
type symbol struct {
	raw, shown string
	params     uint32 // bytes of parameters on the stack
	multiple   bool   // other names have the same address
}

// at returns the name of the first symbol at addr that may be code.
func (p *publics) at(addr uint64) (symbol, bool) {
	i := p.from(addr)
	if i == len(p.list) || uint64(p.list[i].addr) != addr {
		return symbol{}, false
	}
	return p.first(i, p.group(i))
}

// group returns the number of the first symbol after i with a different address.
func (p *publics) group(i int) int {
	end := i
	for end < len(p.list) && p.list[end].addr == p.list[i].addr {
		end++
	}
	return end
}

// first returns the name of the first of the symbols i to end-1, which have one
// address.
func (p *publics) first(i, end int) (symbol, bool) {
	for n := i; n < end; n++ {
		raw := p.raw(n)
		if raw == "" || constant(raw) {
			continue
		}
		s := symbol{raw: raw, multiple: end-i > 1}
		s.shown, s.params = p.shown(raw)
		return s, s.shown != ""
	}
	return symbol{}, false
}

// shown returns the name of a public symbol as people read it, and the size of
// the parameters on the stack that its decoration states.
func (p *publics) shown(raw string) (string, uint32) {
	if name, n, ok := demangle.ParamBytes(raw); ok {
		return anonymous(name), n
	}
	return anonymous(demangle.Name(raw, demangle.Options{Arch386: p.x86})), 0
}

// anonymous writes anonymous namespaces as all other tools do.
func anonymous(name string) string {
	if strings.IndexByte(name, '`') < 0 {
		return name
	}
	return strings.NewReplacer(
		"`anonymous namespace'", "(anonymous namespace)",
		"`anonymous-namespace'", "(anonymous namespace)").Replace(name)
}

// constant reports whether the name is that of a constant that compilers put
// into sections of code too: a string, a floating-point number or a vector.
func constant(raw string) bool {
	for _, prefix := range []string{"??_C", "__real@", "__xmm@", "__ymm@", "__zmm@"} {
		if strings.HasPrefix(raw, prefix) {
			return true
		}
	}
	return false
}

// symbolName returns the name at off in the data of a symbol record. Kinds of
// before 2001 have the length of the name in a byte before it.
func symbolName(kind uint16, data []byte, off int) []byte {
	if kind < 0x1000 || kind > 0x10FF {
		return nameAt(data, off)
	}
	if off >= len(data) {
		return nil
	}
	n := int(data[off])
	name := data[off+1:]
	return bytes.TrimRight(name[:min(n, len(name))], "\x00")
}
