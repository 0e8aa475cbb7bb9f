package unwind

import (
	"context"
	"encoding/binary"
	"errors"
	"io"

	"github.com/symdepot/symdepot/functab"
)

// Sections are the unwind sections of one ELF, Mach-O or PE file. Sections that
// the file does not have are empty.
type Sections struct {
	// Arch is the processor: x86, x86_64, arm, arm64, mips, ppc, riscv64 and so on.
	Arch string
	// Apple means that the file is for one of Apple's systems.
	Apple bool
	// BigEndian and AddressSize (4 or 8; 0 means 8) describe the processor.
	BigEndian   bool
	AddressSize int
	// Base is the preferred address of the module; frames are relative to it.
	Base uint64
	// EHFrame is .eh_frame, and EHFrameAddress its address.
	EHFrame        []byte
	EHFrameAddress uint64
	// TextAddress and DataAddress are the bases of pointers relative to .text and to
	// .got. They are rare.
	TextAddress, DataAddress uint64
	// DebugFrame is .debug_frame.
	DebugFrame []byte
	// Code are the sections with code, by RVA. Frames that begin outside belong to
	// code that the linker removed, and are omitted. Without sections only frames at
	// the addresses of such code are: 0, -1 and -2.
	Code []functab.Section
	// CompactUnwind is __unwind_info, and Text reads code by RVA. Only Compact uses
	// them.
	CompactUnwind []byte
	Text          io.ReaderAt
}

func (s *Sections) order() binary.ByteOrder {
	if s.BigEndian {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

func (s *Sections) addressSize() int {
	if s.AddressSize == 4 {
		return 4
	}
	return 8
}

// EHFrame adds the frames of .eh_frame, then those of .debug_frame: of two frames
// for the same code the builder keeps the first. Source: DWARF 5, section 6.4, and
// the Linux Standard Base, section "Exception Frames".
func EHFrame(ctx context.Context, s Sections, b *functab.Builder) error {
	return readFrames(ctx, &s, b, nil)
}

// span is a range of addresses relative to the base.
type span struct{ start, end uint64 }

// readFrames adds the frames of both sections. It calls seen, if not nil, with the
// range of each frame.
func readFrames(ctx context.Context, s *Sections, b sink, seen func(span)) (err error) {
	m := machineFor(s.Arch, s.Apple)
	if m == nil {
		if len(s.EHFrame)+len(s.DebugFrame) > 0 {
			b.Warn("call frame information for the processor %q is not translated", s.Arch)
		}
		return nil
	}
	for _, eh := range []bool{true, false} {
		d := newFrames(ctx, s, m, b, eh)
		d.seen = seen
		err := d.all()
		if errors.Is(err, errWork) {
			b.Warn("%s: %v; the rest is omitted", d.name(), err)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// Limits of call frame information.
const (
	maxCIEs     = 4096 // kept at a time
	maxRemember = 64
)

// cie is a common information entry.
type cie struct {
	err         error
	addressSize int
	segmentSize int
	codeAlign   uint64
	dataAlign   int64
	ra          uint8
	augmented   bool // frames have augmentation data
	encoding    byte // of addresses in frames
	program     cursor
}

// frames reads one section of call frame information.
type frames struct {
	s    *Sections
	m    *machine
	b    sink
	work *work
	eh   bool
	data []byte
	cies map[int]*cie
	seen func(span) // called with the range of each frame added

	style    style
	frame    frame
	now      rules
	initial  rules // after the program of the CIE
	memory   []rules
	slots    []slots
	location uint64 // address
	end      uint64
}

func newFrames(ctx context.Context, s *Sections, m *machine, b sink, eh bool) *frames {
	data := s.DebugFrame
	if eh {
		data = s.EHFrame
	}
	return &frames{s: s, m: m, b: b, eh: eh, data: data, work: newWork(ctx, int64(len(data))), cies: map[int]*cie{}}
}

func (d *frames) name() string {
	if d.eh {
		return ".eh_frame"
	}
	return ".debug_frame"
}

func (d *frames) cursor(at, n int) cursor {
	return cursor{p: d.data[at : at+n], at: at, order: d.s.order()}
}

// entry finds the entry at an offset. body is its content after the length and id;
// next is the offset of the entry after it.
func (d *frames) entry(at int) (body cursor, id uint64, idAt, next int, err error) {
	c := d.cursor(at, len(d.data)-at)
	length, idSize := c.uint(4), 4
	if length == 1<<32-1 {
		length = c.uint(8)
		if !d.eh {
			idSize = 8
		}
	}
	if c.short || length > uint64(len(c.p)) {
		return c, 0, 0, len(d.data), bad("an entry of %d bytes begins at offset %#x of %#x", length, at, len(d.data))
	}
	next = c.at + int(length)
	if length == 0 {
		return c, 0, c.at, next, nil
	}
	c.p = c.p[:length]
	idAt = c.at
	id = c.uint(idSize)
	if idSize == 4 && !d.eh && id == 1<<32-1 {
		id = 1<<64 - 1
	}
	if c.short {
		return c, 0, 0, next, bad("the entry at offset %#x has %d bytes", at, length)
	}
	return c, id, idAt, next, nil
}

// isCIE reports whether an id is that of a common information entry.
func (d *frames) isCIE(id uint64) bool {
	if d.eh {
		return id == 0
	}
	return id == 1<<64-1
}

// all adds all frames of the section. Entries of length 0 end the tables of single
// object files; linkers leave more entries after them.
func (d *frames) all() error {
	for at := 0; len(d.data)-at >= 4; {
		next, err := d.at(at)
		if err := omit(d.b, d.name(), uint64(at), err); err != nil {
			return err
		}
		at = next
	}
	return nil
}

// at adds the frame at an offset. It skips common information entries.
func (d *frames) at(at int) (next int, err error) {
	program, e, next, err := d.head(at)
	if err != nil || e == nil {
		return next, err
	}
	return next, d.run(program, e)
}

// head reads the entry at an offset up to its program, and sets the range of its frame. e is nil for an
// entry without a frame.
func (d *frames) head(at int) (program cursor, e *cie, next int, err error) {
	if err := d.work.spend(0); err != nil {
		return program, nil, 0, err
	}
	body, id, idAt, next, err := d.entry(at)
	if err != nil || body.short || next == body.at || d.isCIE(id) {
		return program, nil, next, err
	}
	if d.eh {
		id = uint64(idAt) - id
	}
	if id >= uint64(len(d.data)) {
		return program, nil, next, bad("the common entry of the frame lies at offset %#x, outside the section", id)
	}
	c, err := d.common(int(id))
	if err != nil {
		return program, nil, next, err
	}
	program, has, err := d.fde(body, c)
	if err != nil || !has {
		return program, nil, next, err
	}
	return program, c, next, nil
}

// common returns the common information entry at an offset.
func (d *frames) common(at int) (*cie, error) {
	if c := d.cies[at]; c != nil {
		return c, c.err
	}
	if len(d.cies) >= maxCIEs {
		clear(d.cies)
	}
	c := &cie{}
	c.err = d.parseCIE(at, c)
	d.cies[at] = c
	return c, c.err
}

func (d *frames) parseCIE(at int, e *cie) error {
	c, id, _, _, err := d.entry(at)
	if err != nil {
		return err
	}
	if !d.isCIE(id) || len(c.p) == 0 {
		return bad("the entry at offset %#x is no common entry", at)
	}
	version := c.u8()
	if version != 1 && version != 3 && version != 4 {
		return bad("the common entry at offset %#x has version %d", at, version)
	}
	augmentation := c.text()
	e.addressSize = d.s.addressSize()
	if version == 4 {
		e.addressSize, e.segmentSize = int(c.u8()), int(c.u8())
		if e.addressSize != 4 && e.addressSize != 8 || e.segmentSize > 8 {
			return bad("the common entry at offset %#x has addresses of %d bytes", at, e.addressSize)
		}
	}
	if augmentation == "eh" {
		c.bytes(uint64(e.addressSize)) // data of old versions of GCC
		augmentation = ""
	}
	e.codeAlign, e.dataAlign = c.uleb(), c.sleb()
	var ra uint64
	if version == 1 {
		ra = uint64(c.u8())
	} else {
		ra = c.uleb()
	}
	var known bool
	if e.ra, known = d.m.number(ra); !known {
		return bad("the return address is in register %d, which walkers do not know", ra)
	}
	if augmentation != "" {
		if augmentation[0] != 'z' {
			return bad("the augmentation %q of the common entry at offset %#x is not known", augmentation, at)
		}
		e.augmented = true
		a := c
		a.p = c.bytes(c.uleb())
		a.at = c.at - len(a.p)
		if err := e.augment(d, augmentation[1:], a); err != nil {
			return err
		}
	}
	if c.short {
		return bad("the common entry at offset %#x is cut off", at)
	}
	e.program = c
	return nil
}

// augment reads the augmentation data of a common entry.
func (e *cie) augment(d *frames, letters string, c cursor) error {
	for _, l := range letters {
		switch l {
		case 'R':
			e.encoding = c.u8()
		case 'P':
			encoding := c.u8()
			if _, err := d.pointer(&c, encoding&^0x80, e.addressSize); err != nil && encoding != pointerOmit {
				return err
			}
		case 'L':
			c.u8()
		case 'S', 'B', 'G': // a signal's frame, signed return addresses, tagged memory
		default:
			return nil // the data of the rest cannot be read; its size is known
		}
	}
	if c.short {
		return bad("the augmentation data is cut off")
	}
	return nil
}

// Encodings of pointers.
const (
	pointerOmit     = 0xff
	pointerAligned  = 0x50
	pointerIndirect = 0x80
)

// pointer reads an encoded pointer.
func (d *frames) pointer(c *cursor, encoding byte, size int) (uint64, error) {
	if encoding == pointerOmit {
		return 0, nil
	}
	if encoding&0x70 == pointerAligned {
		if n := (d.s.EHFrameAddress + uint64(c.at)) % uint64(size); n != 0 {
			c.bytes(uint64(size) - n)
		}
		return c.uint(size), nil
	}
	base := uint64(0)
	switch encoding & 0x70 {
	case 0x00:
	case 0x10:
		base = d.s.EHFrameAddress + uint64(c.at)
	case 0x20:
		base = d.s.TextAddress
	case 0x30:
		base = d.s.DataAddress
	default:
		return 0, bad("the encoding %#x of a pointer is not known", encoding)
	}
	var v uint64
	switch encoding & 0x0f {
	case 0x0:
		v = c.uint(size)
	case 0x1:
		v = c.uleb()
	case 0x2, 0x3, 0x4:
		v = c.uint(1 << (encoding&7 - 1))
	case 0x9:
		v = uint64(c.sleb())
	case 0xa, 0xb, 0xc:
		v = uint64(c.sint(1 << (encoding&7 - 1)))
	default:
		return 0, bad("the encoding %#x of a pointer is not known", encoding)
	}
	v += base
	if size == 4 {
		v &= 1<<32 - 1
	}
	if encoding&pointerIndirect != 0 {
		return 0, bad("the address of the frame is stored outside the section")
	}
	return v, nil
}
