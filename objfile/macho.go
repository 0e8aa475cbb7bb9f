package objfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/symfile"
)

// Magic numbers, as read big-endian.
const (
	machMagic32, machMagic64 = 0xfeedface, 0xfeedfacf
	machCigam32, machCigam64 = 0xcefaedfe, 0xcffaedfe
	machFat32, machFat64     = 0xcafebabe, 0xcafebabf
)

// File types and load commands (mach-o/loader.h).
const (
	machExecute, machFVMLib, machCore, machPreload = 2, 3, 4, 5
	machDylib, machDylinker, machBundle            = 6, 7, 8
	machDSYM, machKext, machFileset                = 10, 11, 12

	cmdSegment, cmdSymtab, cmdUUID, cmdSegment64 = 0x1, 0x2, 0x1b, 0x19
)

const (
	maxSlices   = 64
	maxMachName = 16
)

// identifyMachO returns the object of a Mach-O file, or one for each slice of a
// fat file. The features are in the load commands, so the budget for the ids is
// enough.
func identifyMachO(b *budget, name string) ([]Object, error) {
	p, err := b.bytes(0, 8)
	if err != nil {
		return nil, machFail(b, err)
	}
	if magic := binary.BigEndian.Uint32(p); magic == machFat32 || magic == machFat64 {
		return identifyFat(b, name, magic == machFat64, binary.BigEndian.Uint32(p[4:]))
	}
	o, err := identifyThin(b, name)
	if err != nil {
		return nil, err
	}
	return []Object{o}, nil
}

func machFail(b *budget, err error) error {
	if b.err != nil {
		return err
	}
	return broken("Mach-O: %w", err)
}

// isMachO reports whether p begins like a thin image.
func isMachO(p []byte) bool {
	switch binary.BigEndian.Uint32(p) {
	case machMagic32, machMagic64, machCigam32, machCigam64:
		return true
	}
	return false
}

// identifyFat identifies the n slices of a fat file. It omits slices that are
// not images, such as static libraries and bitcode.
func identifyFat(b *budget, name string, wide bool, n uint32) ([]Object, error) {
	if n == 0 || n > maxSlices {
		return nil, broken("Mach-O: a fat file of %d slices", n)
	}
	entry := int64(20)
	if wide {
		entry = 32
	}
	table, err := b.bytes(8, int64(n)*entry)
	if err != nil {
		return nil, machFail(b, fmt.Errorf("slice table: %w", err))
	}
	type extent struct{ off, size uint64 }
	var before []extent
	var objects []Object
	for i := range int64(n) {
		p := table[i*entry:]
		e := extent{uint64(binary.BigEndian.Uint32(p[8:])), uint64(binary.BigEndian.Uint32(p[12:]))}
		if wide {
			e = extent{binary.BigEndian.Uint64(p[8:]), binary.BigEndian.Uint64(p[16:])}
		}
		size := uint64(b.size)
		if e.off < 8+uint64(len(table)) || e.off > size || e.size > size-e.off {
			return nil, broken("Mach-O: slice %d of %d bytes at offset %d does not fit into the file of %d bytes", i, e.size, e.off, b.size)
		}
		for _, o := range before {
			if e.off < o.off+o.size && o.off < e.off+e.size {
				return nil, broken("Mach-O: slice %d overlaps another", i)
			}
		}
		before = append(before, e)
		o, err := identifySlice(b, name, int64(e.off), int64(e.size))
		if err != nil {
			return nil, fmt.Errorf("slice %d: %w", i, err)
		}
		if o.Kind != symfile.KindUnknown {
			objects = append(objects, o)
		}
	}
	if len(objects) == 0 {
		return nil, notSymbol("a fat Mach-O file without images, such as a static library")
	}
	return objects, nil
}

// identifySlice identifies the thin image in a part of b, and charges b for
// reading. It returns the zero Object if the part is not an image.
func identifySlice(b *budget, name string, off, size int64) (Object, error) {
	if size < 4 {
		return Object{}, nil
	}
	magic, err := b.bytes(off, 4)
	if err != nil {
		return Object{}, machFail(b, err)
	}
	if !isMachO(magic) {
		return Object{}, nil
	}
	o, err := identifyThin(newBudget(offsetReader{b, off}, size, b.left), name)
	o.Offset = off
	return o, err
}

// offsetReader reads b from offset off on.
type offsetReader struct {
	b   *budget
	off int64
}

func (r offsetReader) ReadAt(p []byte, off int64) (int, error) { return r.b.ReadAt(p, r.off+off) }

// machFile collects the facts in the load commands of one image.
type machFile struct {
	size     uint64 // of the image
	filetype uint32
	uuid     debugid.GUID
	debug    bool  // has debug sections with content
	inflated int64 // their size
	features Features
}

// identifyThin identifies a thin image that fills b.
func identifyThin(b *budget, name string) (Object, error) {
	h, err := b.bytes(0, 28)
	if err != nil {
		return Object{}, machFail(b, err)
	}
	if !isMachO(h) {
		return Object{}, notSymbol("no Mach-O magic")
	}
	var order binary.ByteOrder = binary.LittleEndian
	if h[0] == 0xfe {
		order = binary.BigEndian
	}
	hsize := int64(28)
	if order.Uint32(h) == machMagic64 {
		hsize = 32
	}
	f := &machFile{size: uint64(b.size), filetype: order.Uint32(h[12:])}
	if f.filetype == machCore {
		return Object{}, notSymbol("a Mach-O core dump")
	}
	cmds, err := b.bytes(hsize, int64(order.Uint32(h[20:])))
	if err != nil {
		return Object{}, machFail(b, fmt.Errorf("load commands: %w", err))
	}
	if err := f.commands(b, order, cmds, order.Uint32(h[16:])); err != nil {
		return Object{}, err
	}
	o := Object{Arch: machArch(order.Uint32(h[4:]), order.Uint32(h[8:])), Size: b.size, Features: f.features}
	o.Kind, o.Name = symfile.MachO, name
	if !f.uuid.IsZero() {
		o.CodeID, o.DebugID = f.uuid.Lower(), debugid.ID{GUID: f.uuid}
	}
	o.DebugSize = f.inflated
	f.describe(&o)
	return o, nil
}

// describe sets the roles of the image. Object files, stubs and unknown types
// have none.
func (f *machFile) describe(o *Object) {
	switch f.filetype {
	case machExecute, machFVMLib, machPreload, machDylib, machDylinker, machBundle, machKext, machFileset:
		o.Role = symfile.Executable
		if f.debug { // Go programs contain their DWARF
			o.Role |= symfile.Debug
		}
	case machDSYM:
		o.Role = symfile.Debug
		o.DebugCompanion = true
	}
	o.Main = f.filetype == machExecute
}

// commands reads n load commands.
func (f *machFile) commands(b *budget, order binary.ByteOrder, p []byte, n uint32) error {
	for i := range n {
		if len(p) < 8 {
			return broken("Mach-O: %d load commands, room for %d", n, i)
		}
		size := order.Uint32(p[4:])
		if size < 8 || uint64(size) > uint64(len(p)) {
			return broken("Mach-O: load command %d of %d bytes", i, size)
		}
		c := p[:size]
		p = p[size:]
		var err error
		switch order.Uint32(c) {
		case cmdUUID:
			if len(c) >= 24 && f.uuid.IsZero() {
				f.uuid = debugid.GUID(c[8:24])
			}
		case cmdSymtab:
			if len(c) >= 16 && order.Uint32(c[12:]) > 0 {
				f.features.Symtab = true
			}
		case cmdSegment:
			err = f.segment(b, order, c, false)
		case cmdSegment64:
			err = f.segment(b, order, c, true)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// segment reads a segment command with its sections.
func (f *machFile) segment(b *budget, order binary.ByteOrder, c []byte, wide bool) error {
	head, sect := 56, 68
	if wide {
		head, sect = 72, 80
	}
	if len(c) < head {
		return broken("Mach-O: a segment command of %d bytes", len(c))
	}
	var off, size uint64
	if wide {
		off, size = order.Uint64(c[40:]), order.Uint64(c[48:])
	} else {
		off, size = uint64(order.Uint32(c[32:])), uint64(order.Uint32(c[36:]))
	}
	nsects := order.Uint32(c[head-8:])
	if uint64(nsects)*uint64(sect) > uint64(len(c)-head) {
		return broken("Mach-O: %d sections in a segment command of %d bytes", nsects, len(c))
	}
	if size == 0 {
		return nil // no bytes in this file: a dSYM has a copy of the image's header
	}
	if off > f.size || size > f.size-off {
		return broken("Mach-O: segment %s of %d bytes at offset %d lies outside the image of %d bytes", machName(c[8:24]), size, off, f.size)
	}
	for c = c[head:]; nsects > 0; nsects-- {
		var n, at uint64
		if wide {
			n, at = order.Uint64(c[40:]), uint64(order.Uint32(c[48:]))
		} else {
			n, at = uint64(order.Uint32(c[36:])), uint64(order.Uint32(c[40:]))
		}
		// Both names are needed: an object file has one segment without a name,
		// and each section has the name of its final segment.
		if err := f.section(b, machName(c[16:32]), machName(c[:16]), at, n); err != nil {
			return err
		}
		c = c[sect:]
	}
	return nil
}

// section reads one section of n bytes at off.
func (f *machFile) section(b *budget, segment, name string, off, n uint64) error {
	if n == 0 || off == 0 {
		return nil
	}
	switch {
	case segment == "__DWARF" || strings.HasPrefix(name, "__debug_") || strings.HasPrefix(name, "__zdebug_"):
		if off > f.size || n > f.size-off {
			return broken("Mach-O: section %s of %d bytes at offset %d lies outside the image of %d bytes", name, n, off, f.size)
		}
		f.debug = true
		if strings.HasPrefix(name, "__zdebug_") && n >= 12 {
			h, err := b.bytes(int64(off), 12)
			if err != nil {
				return machFail(b, err)
			}
			n = zdebugSize(h, n)
		} else if !strings.HasPrefix(name, "__debug_") {
			n = 0 // accelerator tables of a dSYM
		}
		f.inflated = addSize(f.inflated, n)
		switch name {
		case "__debug_info", "__zdebug_info":
			f.features.Debug = true
		case "__debug_frame", "__zdebug_frame":
			f.features.Unwind = true
		}
	case name == "__unwind_info" || name == "__eh_frame" || name == "__compact_unwind":
		f.features.Unwind = true
	}
	return nil
}

// machName returns the name in a field of fixed size, which it may fill.
func machName(p []byte) string {
	p = p[:maxMachName]
	if i := bytes.IndexByte(p, 0); i >= 0 {
		p = p[:i]
	}
	return string(p)
}

var (
	machCPUs = map[uint32]string{
		1: "vax", 6: "m68k", 7: "x86", 8: "mips", 10: "mc98000", 11: "hppa", 12: "arm", 13: "m88k", 14: "sparc", 15: "i860", 16: "alpha",
		18: "ppc", 24: "riscv32",
		0x01000007: "x86_64", 0x0100000c: "arm64", 0x0200000c: "arm64_32", 0x01000012: "ppc64",
	}
	machARMs = map[uint32]string{
		5: "armv4t", 6: "armv6", 7: "armv5", 8: "xscale", 9: "armv7", 10: "armv7f", 11: "armv7s", 12: "armv7k", 13: "armv8",
		14: "armv6m", 15: "armv7m", 16: "armv7em",
	}
)

// machArch returns Apple's name of the processor. The upper byte of a subtype
// has flags.
func machArch(cpu, sub uint32) string {
	sub &= 0xffffff
	switch {
	case cpu == 0x01000007 && sub == 8:
		return "x86_64h"
	case cpu == 0x0100000c && sub == 2:
		return "arm64e"
	}
	if w, ok := machARMs[sub]; ok && cpu == 12 {
		return w
	}
	if w, ok := machCPUs[cpu]; ok {
		return w
	}
	return fmt.Sprintf("cpu%d", cpu)
}
