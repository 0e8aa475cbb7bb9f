package objfile

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/symfile"
)

// Limits of the WASM reader. Those of name and id are SSQP's.
const (
	maxWASMSections = 10_000
	maxWASMName     = 64
	maxWASMBuildID  = 256

	wasmCustom, wasmFunction, wasmMemory, wasmCode = 0, 3, 5, 10
)

// wasmFile collects the facts in the sections of a module.
type wasmFile struct {
	b         *budget
	functions bool // declares functions of its own
	code      bool
	memory64  bool
	buildID   []byte // contents of the build_id section
	debugSize int64
	features  Features
	debug     map[string]*SectionData // the debug sections, if it is not nil
	r         io.ReaderAt             // of these
}

// WASMFile gives access to the debug sections of a WASM module.
type WASMFile struct{ sections map[string]*SectionData }

// OpenWASM reads the beginnings of the sections of the WASM module of size bytes at r. The
// error wraps ErrNotSymbolFile if the file is no WASM module, and ErrBroken if it is
// malformed.
func OpenWASM(r io.ReaderAt, size int64) (*WASMFile, error) {
	f := &wasmFile{b: newBudget(r, size, IDBudget+FeatureBudget), r: r, debug: map[string]*SectionData{}}
	if err := f.read(); err != nil {
		return nil, err
	}
	return &WASMFile{f.debug}, nil
}

// Section returns the content of the custom section with a name that begins with ".debug_".
// The error wraps fs.ErrNotExist if it is missing or empty.
func (w *WASMFile) Section(name string) (*SectionData, error) {
	if d, ok := w.sections[name]; ok {
		return d, nil
	}
	return nil, fmt.Errorf("WASM section %q: %w", name, fs.ErrNotExist)
}

// identifyWASM returns the object of a WASM module. It reads only the beginning
// of each section, so the budget for the ids is enough.
func identifyWASM(b *budget, name string) ([]Object, error) {
	f := &wasmFile{b: b}
	if err := f.read(); err != nil {
		return nil, err
	}
	o := Object{Arch: "wasm32", Size: b.size, DebugSize: f.debugSize, Features: f.features}
	if f.memory64 {
		o.Arch = "wasm64"
	}
	o.Kind, o.Name = symfile.WASM, name
	o.CodeID, o.DebugID, o.BuildID = wasmIDs(f.buildID)
	if f.functions || f.code {
		o.Role |= symfile.Executable
	}
	if f.debugSize > 0 {
		o.Role |= symfile.Debug
	}
	o.DebugCompanion = !f.functions // the rule of symbolic
	return []Object{o}, nil
}

// read reads the header and the beginnings of the sections.
func (f *wasmFile) read() error {
	h, err := f.b.bytes(0, 8)
	if err != nil {
		return wasmFail(f.b, err)
	}
	if string(h[:4]) != "\x00asm" {
		return notSymbol("no WASM magic")
	}
	if v := binary.LittleEndian.Uint32(h[4:]); v != 1 {
		return notSymbol("WASM of version %#x is no module", v) // for example a component
	}
	if err := f.sections(); err != nil {
		return wasmFail(f.b, err)
	}
	return nil
}

func wasmFail(b *budget, err error) error {
	if b.err != nil {
		return err
	}
	return broken("WASM: %w", err)
}

// wasmIDs returns the ids in the content of a build_id section. Sentry's tools
// use the content as it is; the tool conventions put the length of the id
// first.
func wasmIDs(raw []byte) (code string, debug debugid.ID, build debugid.BuildID) {
	if len(raw) >= 16 {
		debug.GUID = debugid.GUID(raw[:16])
	}
	build = debugid.NewBuildID(raw)
	if n, used, ok := leb128(raw); ok && n > 0 && int(n) == len(raw)-used {
		build = debugid.NewBuildID(raw[used:])
	}
	return hex.EncodeToString(raw), debug, build
}

// sections reads the beginning of each section.
func (f *wasmFile) sections() error {
	buf := make([]byte, 1+5+5+maxWASMName)
	off := int64(8)
	for n := 0; off < f.b.size; n++ {
		if n == maxWASMSections {
			return fmt.Errorf("more than %d sections", maxWASMSections)
		}
		p := buf[:min(int64(len(buf)), f.b.size-off)]
		if _, err := f.b.ReadAt(p, off); err != nil {
			return err
		}
		size, used, ok := leb128(p[1:])
		start := off + 1 + int64(used)
		if !ok || int64(size) > f.b.size-start {
			return fmt.Errorf("section %d at offset %d extends beyond the file of %d bytes", n, off, f.b.size)
		}
		id := p[0]
		p = p[1+used:]
		p = p[:min(len(p), int(size))]
		if err := f.section(id, p, start, int64(size)); err != nil {
			return fmt.Errorf("section %d: %w", n, err)
		}
		off = start + int64(size)
	}
	return nil
}

// section handles a section of size bytes at off. p is its beginning.
func (f *wasmFile) section(id byte, p []byte, off, size int64) error {
	count, used, ok := leb128(p)
	switch id {
	case wasmCustom:
		if !ok || int64(count) > size-int64(used) {
			return fmt.Errorf("the name of a custom section is longer than the section")
		}
		if count > maxWASMName {
			return nil
		}
		head := used + int(count)
		return f.custom(string(p[used:head]), off+int64(head), size-int64(head))
	case wasmFunction:
		f.functions = f.functions || ok && count > 0
	case wasmCode:
		f.code = f.code || ok && count > 0
	case wasmMemory:
		// The flags of the first memory follow the count of memories.
		f.memory64 = f.memory64 || ok && count > 0 && used < len(p) && p[used]&4 != 0
	}
	return nil
}

// custom handles a custom section with a content of size bytes at off.
func (f *wasmFile) custom(name string, off, size int64) error {
	if size == 0 {
		return nil
	}
	switch {
	case name == "build_id" && f.buildID == nil && size <= maxWASMBuildID:
		var err error
		f.buildID, err = f.b.bytes(off, size)
		return err
	case name == "name":
		f.features.Symtab = true
	case name == "sourceMappingURL":
		f.features.Sources = true
	case strings.HasPrefix(name, ".debug_"):
		f.debugSize += size
		if f.debug != nil && f.debug[name] == nil {
			f.debug[name] = &SectionData{r: f.r, off: off, size: size}
		}
		if name == ".debug_info" {
			f.features.Debug = true
		}
		if name == ".debug_frame" {
			f.features.Unwind = true
		}
	}
	return nil
}

// leb128 decodes an unsigned 32-bit number at the start of p, and returns the
// number of its bytes. ok is false if it is truncated or too large.
func leb128(p []byte) (n uint32, used int, ok bool) {
	for i, c := range p {
		if i == 4 && c > 0x0f {
			return 0, 0, false
		}
		n |= uint32(c&0x7f) << (7 * i)
		if c&0x80 == 0 {
			return n, i + 1, true
		}
	}
	return 0, 0, false
}
