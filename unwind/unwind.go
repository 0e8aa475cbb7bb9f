// Package unwind reads the unwind data of compiled code and adds it to a
// functab.Builder as call frame information in Breakpad's syntax: exception
// tables of PE images for x64 and ARM64, .eh_frame and .debug_frame, and Apple's
// compact unwind information.
//
// The functions survive any input. Time and memory are bounded by the size of the
// data; a record that cannot be read or translated is omitted and reported by
// functab.Builder.Warn. Their errors are those of the context, of the reader, and
// of the builder's limits.
//
// The package is not yet promised: it may change in any version.
package unwind

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/functab"
)

// Image is a PE image. objfile.PEImage implements it.
type Image interface {
	// ReadAt reads by address relative to the image base (RVA). At the end of the
	// stored bytes of a section the error is io.EOF.
	io.ReaderAt
	// Arch is the processor: x86, x86_64, arm64 and so on.
	Arch() string
	// ExceptionTable returns the address and the size of .pdata, or zeros.
	ExceptionTable() (rva, size uint32)
	// CodeSections calls yield with each section that has instructions until yield
	// returns false.
	CodeSections(yield func(name string, rva, size uint32) bool)
	// Exports calls yield with each named export until yield returns false.
	Exports(yield func(name string, rva uint32) bool) error
	// DebugIDs returns the debug ids of the PDBs that the image refers to.
	DebugIDs() []debugid.ID
}

// ErrMismatch is wrapped by the error for an image that belongs to a different debug
// file.
var ErrMismatch = errors.New("the image and the debug file do not belong together")

// maxChain is the number of entries in a chain of unwind data.
const maxChain = 32

// work limits the steps and the rows of one input, so that a small table which
// refers to large data many times ends early. It also checks the context.
type work struct {
	ctx  context.Context
	left int64 // steps
	rows int64
	tick int
}

// errWork is the reason of a warning: the data asks for too much work.
var errWork = errors.New("the unwind data repeats itself beyond the limit")

// newWork returns the limits of a table of size bytes. Real tables need a tenth.
func newWork(ctx context.Context, size int64) *work {
	return &work{ctx: ctx, left: 4<<20 + 64*size, rows: 1<<18 + 3*size}
}

// spend charges n steps.
func (w *work) spend(n int) error {
	if w.left -= int64(n) + 1; w.left < 0 {
		return errWork
	}
	if w.tick++; w.tick&1023 == 0 {
		return w.ctx.Err()
	}
	return nil
}

// pageSize is the size of the blocks that pages reads.
const pageSize = 4 << 10

// pages reads an image by address and keeps a few blocks.
type pages struct {
	r     io.ReaderAt
	slots [64]page
	large []byte
}

type page struct {
	rva  int64
	data []byte
}

// at returns n bytes at an address, valid until the next call. The error is
// io.EOF if the image does not store them.
func (p *pages) at(rva uint32, n int) ([]byte, error) {
	start := int64(rva) &^ (pageSize - 1)
	from := int(int64(rva) - start)
	if from+n <= pageSize {
		s := &p.slots[start/pageSize%int64(len(p.slots))]
		if s.data == nil || s.rva != start {
			if s.data == nil {
				s.data = make([]byte, 0, pageSize)
			}
			got, err := p.r.ReadAt(s.data[:pageSize], start)
			s.rva, s.data = start, s.data[:got]
			if err != nil && !errors.Is(err, io.EOF) {
				s.data = nil
				return nil, err
			}
		}
		if from+n <= len(s.data) {
			return s.data[from : from+n], nil
		}
	}
	// The bytes cross a block, or the block begins before its section.
	if cap(p.large) < n {
		p.large = make([]byte, n)
	}
	got, err := p.r.ReadAt(p.large[:n], int64(rva))
	if got == n {
		return p.large[:n], nil
	}
	if err == nil {
		err = io.EOF
	}
	return nil, err
}

// malformed is an error about one entry. The entry is omitted, and the error
// becomes a warning.
type malformed string

func (e malformed) Error() string { return string(e) }

func bad(format string, args ...any) error { return malformed(fmt.Sprintf(format, args...)) }

// sink takes the frames of a conversion, and the texts about what is omitted. A sink that keeps a frame
// copies its list of changes. functab.Builder is one.
type sink interface {
	Frame(f functab.Frame) error
	Warn(format string, args ...any)
}

// omit reports an entry that is left out. It returns the errors that end the
// conversion: of reading, of the context, of the builder.
func omit(b sink, what string, at uint64, err error) error {
	var m malformed
	switch {
	case err == nil:
		return nil
	case errors.As(err, &m):
		b.Warn("%s at %#x: %s", what, at, m)
		return nil
	case errors.Is(err, io.EOF):
		b.Warn("%s at %#x: the file does not store it", what, at)
		return nil
	}
	return err
}

// PE adds the unwind rules of an image for x64 or ARM64. It does nothing for
// other processors.
func PE(ctx context.Context, img Image, b *functab.Builder) error {
	switch img.Arch() {
	case "x86_64":
		return PE64(ctx, img, b)
	case "arm64":
		return PEArm64(ctx, img, b)
	}
	return nil
}

// Join adds the unwind rules of an image to a builder that was filled from the
// image's PDB. The error wraps ErrMismatch, and names both ids, if the image does
// not refer to that PDB.
func Join(ctx context.Context, img Image, b *functab.Builder) error {
	want := b.Module().ID
	ids := img.DebugIDs()
	fits := false
	for _, id := range ids {
		fits = fits || id == want && !id.IsZero()
	}
	switch {
	case len(ids) == 0:
		return fmt.Errorf("%w: the debug file has the id %s, the image refers to none", ErrMismatch, want.Breakpad())
	case !fits:
		return fmt.Errorf("%w: the debug file has the id %s, the image refers to %s", ErrMismatch, want.Breakpad(), ids[0].Breakpad())
	}
	return PE(ctx, img, b)
}

// Options are the choices of Functions.
type Options struct {
	// Shown returns the name of an export for people, such as demangle.Name. Nil
	// means that raw names are shown.
	Shown func(raw string) string
	// Unnamed means that functions of the image were added before, from its DWARF:
	// the entries of the exception table are added without a name, so that those
	// functions keep theirs.
	Unnamed bool
	// Named returns the name of the code of an entry of the exception table, by the address where it
	// begins, if the image itself tells it; empty: it does not. shared means that functions with other
	// names have the same code. Nil means that the image has no such names.
	Named func(rva uint32) (name string, shared bool)
}

// Functions adds the functions that an image without its PDB describes: one
// function for each entry of the exception table, named by Named or "<unknown in NAME>", a
// public symbol for each export of code, the sections with code, and the unwind
// rules as PE does. NAME is the name of the builder's module.
func Functions(ctx context.Context, img Image, b *functab.Builder, opt Options) error {
	var code []functab.Section
	img.CodeSections(func(name string, rva, size uint32) bool {
		s := functab.Section{Name: name, Start: uint64(rva), Size: uint64(size)}
		code = append(code, s)
		b.Section(s)
		return true
	})
	unknown := b.Name("<unknown in "+b.Module().Name+">", "")
	if opt.Unnamed {
		unknown = 0
	}
	add := func(start, end uint32) error {
		f := functab.Function{Start: uint64(start), Size: end - start, Name: unknown}
		if opt.Named != nil {
			if name, shared := opt.Named(start); name != "" {
				f.Name, f.Multiple = b.Name(name, ""), shared
			}
		}
		return b.Add(f)
	}
	if err := entries(ctx, img, b, add); err != nil {
		return err
	}
	if err := exports(ctx, img, b, code, opt); err != nil {
		return err
	}
	return PE(ctx, img, b)
}

func exports(ctx context.Context, img Image, b *functab.Builder, code []functab.Section, opt Options) error {
	var failed error
	n := 0
	err := img.Exports(func(name string, rva uint32) bool {
		if n++; n&1023 == 0 {
			failed = ctx.Err()
		}
		if !inSections(code, uint64(rva)) || failed != nil {
			return failed == nil
		}
		shown := name
		if opt.Shown != nil {
			shown = opt.Shown(name)
		}
		failed = b.Symbol(functab.Symbol{Address: uint64(rva), Name: b.Name(shown, name)})
		return failed == nil
	})
	if failed == nil && err != nil {
		b.Warn("exports: %v", err)
	}
	return failed
}

func inSections(list []functab.Section, at uint64) bool {
	for _, s := range list {
		if at >= s.Start && at-s.Start < s.Size {
			return true
		}
	}
	return false
}

// entries calls add with the range of each entry of the exception table.
func entries(ctx context.Context, img Image, b *functab.Builder, add func(start, end uint32) error) error {
	switch img.Arch() {
	case "x86_64":
		t, err := openTable(ctx, img, b, entry64)
		for err == nil && t.next() {
			if begin, end := t.uint32(0), t.uint32(4); begin < end {
				err = add(begin, end)
			}
		}
		return t.close(err)
	case "arm64":
		t, err := openTable(ctx, img, b, entryArm64)
		d := arm64{p: &pages{r: img}, work: t.work}
		for err == nil && t.next() {
			begin := t.uint32(0)
			size, e := d.length(t.uint32(4))
			if err = omit(b, "unwind data", uint64(begin), e); err == nil && size > 0 && begin+size > begin {
				err = add(begin, begin+size)
			}
		}
		return t.close(err)
	}
	return nil
}
