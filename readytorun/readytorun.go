// Package readytorun reads which .NET methods the native code of a ready-to-run image belongs to: an
// assembly that was compiled ahead of time for the runtime CoreCLR. Source: the document "ReadyToRun
// File Format" of the project dotnet/runtime.
//
// Memory and time are bounded by the size of the image; damage gives an error or a function without a
// name, never a panic. The package is not yet promised: it may change in any version.
package readytorun

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/symdepot/symdepot/metadata"
)

// Image is a PE image. objfile.PEImage implements it.
type Image interface {
	// ReadAt reads by address relative to the image base (RVA). At the end of the stored bytes of a
	// section the error is io.EOF.
	io.ReaderAt
	// Arch is the processor: x86_64, arm64 and so on.
	Arch() string
	// Directory returns the address and the size of a data directory.
	Directory(i int) (rva, size uint32)
}

// Numbers and sizes of the format.
const (
	dirCLI    = 14 // data directory with the header of .NET (ECMA-335, II.25.3.3)
	cliSize   = 72
	cliNative = 64 // the directory of the native header in it
	cliData   = 8  // that of the metadata

	magic        = 0x00525452 // "RTR"
	headerSize   = 16
	maxSections  = 256
	maxSection   = 256 << 20 // bytes
	sectionEntry = 12

	sectionFunctions    = 102 // RuntimeFunctions
	sectionMethods      = 103 // MethodDefEntryPoints
	sectionInstances    = 109 // InstanceEntryPoints
	sectionHotColdMap   = 120
	functionsX64        = 12 // bytes of a runtime function: begin, end, unwind data
	functionsArm64      = 8  // begin, unwind data
	mostMethods         = 1 << 24
	stepsForEachByte    = 16 // work is limited to that; real images need less than one
	stepsForSmallImages = 1 << 16
)

// ErrFormat is wrapped by the error for a damaged image.
var ErrFormat = errors.New("malformed ready-to-run image")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrFormat, fmt.Sprintf(format, args...))
}

// Methods are the methods with native code in an image. They may be used by many goroutines.
type Methods struct {
	begin  []uint32 // of the runtime functions, ascending
	method []method // to which each of them belongs
	tables *metadata.Tables
}

// method is a row of a table; zero: not known.
type method struct {
	row    uint32
	member bool // the row is of MemberRef, in place of MethodDef
	// shared means that other methods have the same code, as compilers make one of equal stubs.
	shared bool
}

// Open reads the methods of an image. The error wraps fs.ErrNotExist if the image has no ready-to-run
// code of its own: a composite image, whose code is that of other assemblies, counts as one that has
// none, and so does code for processors other than x64 and ARM64. It wraps ErrFormat for a damaged
// image; others are those of ctx and of the reader.
func Open(ctx context.Context, img Image) (*Methods, error) {
	size, ok := map[string]int{"x86_64": functionsX64, "arm64": functionsArm64}[img.Arch()]
	if !ok {
		return nil, fs.ErrNotExist
	}
	at, n := img.Directory(dirCLI)
	if n < cliSize {
		return nil, fs.ErrNotExist
	}
	cli, err := read(img, at, cliSize)
	if err != nil {
		return nil, err
	}
	list, err := sections(img, cli[cliNative:])
	if err != nil {
		return nil, err
	}
	m := &Methods{}
	if err := m.functions(img, list, size); err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	data, err := readSection(img, section{le.Uint32(cli[cliData:]), le.Uint32(cli[cliData+4:])})
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	if m.tables, err = metadata.OpenTables(data); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return m, m.entryPoints(ctx, img, list)
}

// section is a range of addresses.
type section struct{ rva, size uint32 }

// sections reads the native header, of which dir is the directory.
func sections(img Image, dir []byte) (map[uint32]section, error) {
	le := binary.LittleEndian
	at, size := le.Uint32(dir), le.Uint32(dir[4:])
	if size < headerSize {
		return nil, fs.ErrNotExist
	}
	h, err := read(img, at, headerSize)
	if err != nil {
		return nil, err
	}
	if le.Uint32(h) != magic {
		return nil, fs.ErrNotExist // native images of other kinds: NGen
	}
	count := le.Uint32(h[12:])
	if count > maxSections || count*sectionEntry > size-headerSize {
		return nil, malformed("%d sections in a header of %d bytes", count, size)
	}
	table, err := read(img, at+headerSize, int(count)*sectionEntry)
	if err != nil {
		return nil, err
	}
	list := map[uint32]section{}
	for ; len(table) > 0; table = table[sectionEntry:] {
		list[le.Uint32(table)] = section{le.Uint32(table[4:]), le.Uint32(table[8:])}
	}
	return list, nil
}

// functions reads where the runtime functions begin. Each has size bytes.
func (m *Methods) functions(img Image, list map[uint32]section, size int) error {
	if list[sectionFunctions].size == 0 || list[sectionMethods].size == 0 {
		return fs.ErrNotExist
	}
	table, err := readSection(img, list[sectionFunctions])
	if err != nil {
		return fmt.Errorf("runtime functions: %w", err)
	}
	m.begin = make([]uint32, 0, len(table)/size)
	for ; len(table) >= size; table = table[size:] {
		begin := binary.LittleEndian.Uint32(table)
		if begin == 1<<32-1 { // the mark of the end
			break
		}
		if n := len(m.begin); n > 0 && begin <= m.begin[n-1] {
			return malformed("runtime function %d begins at %#x, the one before it at %#x", n, begin, m.begin[n-1])
		}
		m.begin = append(m.begin, begin)
	}
	m.method = make([]method, len(m.begin))
	return nil
}

// entryPoints finds the method of each runtime function. The first function of a method is its entry
// point; those that follow up to the next entry point are its funclets, such as handlers of exceptions.
func (m *Methods) entryPoints(ctx context.Context, img Image, list map[uint32]section) error {
	e := entries{m: m, ctx: ctx, starts: make([]bool, len(m.begin)), cold: uint32(len(m.begin)), whole: true}
	if s := list[sectionHotColdMap]; s.size >= 4 {
		b, err := read(img, s.rva, 4)
		if err != nil {
			return fmt.Errorf("parts of methods: %w", err)
		}
		e.cold = min(e.cold, binary.LittleEndian.Uint32(b)) // cold parts have no names
	}
	points, err := readSection(img, list[sectionMethods])
	if err == nil {
		e.left = stepsForSmallImages + stepsForEachByte*len(points)
		err = e.definitions(points)
	}
	if err != nil {
		return fmt.Errorf("entry points: %w", err)
	}
	if s := list[sectionInstances]; s.size > 0 {
		points, err := readSection(img, s)
		if err == nil {
			e.left = stepsForSmallImages + stepsForEachByte*len(points)
			err = e.instances(points)
		}
		if err != nil {
			return fmt.Errorf("entry points of generic methods: %w", err)
		}
	}
	if !e.whole { // the funclets of a method may be a method of which nothing is known
		return nil
	}
	var last method
	for i := range m.method {
		switch {
		case uint32(i) >= e.cold:
			last = method{}
		case e.starts[i]:
			last = m.method[i]
		}
		m.method[i] = last
	}
	return nil
}

// Name returns the full name of the method with the native code that begins at an address, or of which
// a funclet begins there, as metadata.Tables.Method spells it; empty if it is not known. shared means
// that other methods have the same code, and that name is that of the first.
func (m *Methods) Name(rva uint32) (name string, shared bool) {
	i, ok := slices.BinarySearch(m.begin, rva)
	if !ok {
		return "", false
	}
	var err error
	of := m.method[i]
	switch {
	case of.row == 0:
	case of.member:
		name, err = m.tables.Member(of.row)
	default:
		name, err = m.tables.Method(of.row)
	}
	if err != nil {
		return "", false // damaged metadata
	}
	return name, of.shared
}

// read reads n bytes at an address.
func read(img Image, rva uint32, n int) ([]byte, error) {
	b := make([]byte, n)
	got, err := img.ReadAt(b, int64(rva))
	switch {
	case got == n:
		return b, nil
	case err != nil && !errors.Is(err, io.EOF):
		return nil, err
	}
	return nil, malformed("%d bytes at address %#x: the file has %d", n, rva, got)
}

// chunk is how much is read at once, so that a size that the file does not have needs no memory.
const chunk = 1 << 20

// readSection reads a section, which is in one section of the PE file: those of a hostile file can have the
// same bytes, so that it would be larger than the file.
func readSection(img Image, s section) ([]byte, error) {
	if s.size > maxSection {
		return nil, malformed("a section of %d bytes exceeds the limit of %d", s.size, maxSection)
	}
	var all []byte
	for n := 0; n < int(s.size); n += chunk {
		again := min(n, 1) // byte of the chunk before: an end between both is inside of what is read
		b, err := read(img, s.rva+uint32(n-again), min(chunk, int(s.size)-n)+again)
		if err != nil {
			return nil, err
		}
		all = append(all, b[again:]...)
	}
	return all, nil
}
