package objfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/symdepot/symdepot/internal/base/pagecache"
)

const (
	secRelocations = 4 // those with addends
	// maxRelocated is the largest section that is relocated, in bytes.
	maxRelocated = 512 << 20
)

// relocation says what a type of relocation does with the bytes at its place: their number,
// and what the value is for.
type relocation struct {
	size int
	op   uint8
}

const (
	relocSet = iota
	relocAdd
	relocSub
)

// relocations are the types that debug sections have references to other sections with, by
// the number of the processor. Others concern addresses of code.
var relocations = map[uint16]map[uint32]relocation{
	// SPARC
	2: {3: {4, relocSet}, 23: {4, relocSet}, 54: {8, relocSet}, 32: {8, relocSet}},
	// SPARC V9
	43: {3: {4, relocSet}, 23: {4, relocSet}, 54: {8, relocSet}, 32: {8, relocSet}},
	// PowerPC
	20: {1: {4, relocSet}, 24: {4, relocSet}},
	// PowerPC 64
	21: {1: {4, relocSet}, 38: {8, relocSet}, 43: {8, relocSet}},
	// S/390
	22: {4: {4, relocSet}, 22: {8, relocSet}},
	// x86-64
	62: {1: {8, relocSet}, 10: {4, relocSet}, 11: {4, relocSet}},
	// AArch64
	183: {257: {8, relocSet}, 258: {4, relocSet}},
	// RISC-V
	243: {1: {4, relocSet}, 2: {8, relocSet}, 35: {4, relocAdd}, 36: {8, relocAdd}, 39: {4, relocSub}, 40: {8, relocSub}, 56: {4, relocSet}},
	// LoongArch
	258: {1: {4, relocSet}, 2: {8, relocSet}, 50: {4, relocAdd}, 51: {8, relocAdd}, 55: {4, relocSub}, 56: {8, relocSub}},
}

// Relocated returns the content of a section like Section does, with references to other
// sections as the linker would resolve them if they were alone: relocatable files, such as
// modules of the Linux kernel, need that for their debug sections. Addresses of code stay
// relative to their sections. The error wraps fs.ErrNotExist also if the relocations of the
// processor are not known.
func (e *ELFFile) Relocated(name string, opt SectionOptions) (*SectionData, error) {
	d, err := e.Section(name, opt)
	if err != nil || !e.Relocatable() {
		return d, err
	}
	for _, s := range e.f.secs {
		if s.typ != secRelocations || !s.hasContents() || uint64(s.info) >= uint64(len(e.f.secs)) {
			continue
		}
		have := string(e.f.name(e.f.secs[s.info]))
		if have != name && !isOldName(have, name) {
			continue
		}
		types := relocations[e.f.machine]
		if types == nil {
			return nil, fmt.Errorf("ELF section %q of the machine %d with relocations: %w", name, e.f.machine, fs.ErrNotExist)
		}
		p, err := d.ReadAll(maxRelocated)
		if err != nil {
			return nil, err
		}
		if err := e.relocate(p, s, types); err != nil {
			return nil, fmt.Errorf("ELF section %q: %w", name, err)
		}
		d = &SectionData{mem: p, size: int64(len(p))}
	}
	return d, nil
}

// isOldName reports whether have is the compressed form of a section's name.
func isOldName(have, name string) bool {
	return len(have) == len(name)+1 && len(name) > 1 && have[:2] == ".z" && have[2:] == name[1:]
}

// relocate applies the relocations of a section to the bytes p. Places outside of them are
// left out.
func (e *ELFFile) relocate(p []byte, s elfSection, types map[uint32]relocation) error {
	order, each := e.f.order, int64(12)
	if e.f.is64 {
		each = 24
	}
	var symbols *pagecache.Reader
	if int(s.link) < len(e.f.secs) && e.f.secs[s.link].hasContents() {
		t := e.f.secs[s.link]
		symbols = pagecache.New(io.NewSectionReader(e.r, int64(t.off), int64(t.size)), 64)
	}
	relas, err := e.f.open(e.r, s, nil, SectionOptions{Limit: maxRelocated})
	if err != nil {
		return err
	}
	buf := make([]byte, 4096*each)
	for off := int64(0); relas.Size()-off >= each; off += int64(len(buf)) {
		chunk := buf[:min(int64(len(buf)), (relas.Size()-off)/each*each)]
		if n, err := relas.ReadAt(chunk, off); n < len(chunk) {
			return errors.Join(err, io.ErrUnexpectedEOF)
		}
		for ; len(chunk) > 0; chunk = chunk[each:] {
			var at, symbol, addend uint64
			var typ uint32
			if e.f.is64 {
				info := order.Uint64(chunk[8:])
				at, addend, typ, symbol = order.Uint64(chunk), order.Uint64(chunk[16:]), uint32(info), info>>32
			} else {
				info := order.Uint32(chunk[4:])
				at, addend, typ, symbol = uint64(order.Uint32(chunk)), uint64(int32(order.Uint32(chunk[8:]))), info&0xff, uint64(info>>8)
			}
			r, ok := types[typ]
			if !ok || at > uint64(len(p)) || uint64(len(p))-at < uint64(r.size) {
				continue
			}
			e.put(p[at:], r, addend+e.symbolValue(symbols, symbol))
		}
	}
	return symbols.Err()
}

// symbolValue returns the value of a symbol: that of a section is 0.
func (e *ELFFile) symbolValue(symbols *pagecache.Reader, i uint64) uint64 {
	if e.f.is64 {
		if p := symbols.At(24*i+8, 8); len(p) == 8 {
			return e.f.order.Uint64(p)
		}
		return 0
	}
	if p := symbols.At(16*i+4, 4); len(p) == 4 {
		return uint64(e.f.order.Uint32(p))
	}
	return 0
}

// put stores a value.
func (e *ELFFile) put(p []byte, r relocation, v uint64) {
	old := uint64(e.f.order.Uint32(p))
	if r.size == 8 {
		old = e.f.order.Uint64(p)
	}
	switch r.op {
	case relocAdd:
		v = old + v
	case relocSub:
		v = old - v
	}
	if r.size == 8 {
		e.f.order.PutUint64(p, v)
		return
	}
	e.f.order.PutUint32(p, uint32(v))
}
