package objfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/symdepot/symdepot/breakpad"
	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/truncate"
	"github.com/symdepot/symdepot/symfile"
)

// identifyBreakpad reads the header of a .sym file and finds out which kinds of
// records it has.
func identifyBreakpad(b *budget, head []byte) ([]Object, error) {
	first, _, _ := bytes.Cut(head, []byte("\n"))
	if len(bytes.Fields(first)) < 5 {
		return nil, notSymbol("a text file whose first line is no MODULE record")
	}
	h, err := breakpad.ParseHeader(io.NewSectionReader(b, 0, b.size))
	if err != nil {
		return nil, err
	}
	o := b.whole(symfile.Object{
		Kind: symfile.Breakpad, Role: symfile.Symbols, Name: symfile.BaseName(h.Name), CodeName: symfile.BaseName(h.CodeName),
		DebugID: h.ID, Of: moduleKind(h.OS),
	})
	if o.Name == "" {
		return nil, broken("the MODULE record has no file name")
	}
	if o.CodeName != "" && !isRequestable(o.CodeName) {
		return nil, nameError(fmt.Sprintf("the name %q cannot be part of a path", truncate.Text(o.CodeName)))
	}
	if h.Arch != "unknown" {
		o.Arch = archWord(h.Arch)
	}
	o.setCodeID(h.CodeID)
	if o.Features.Unknown = b.ids; !b.ids {
		b.allowFeatures()
		if err := checkSymEnd(b); err != nil {
			return nil, err
		}
		o.Features = breakpadFeatures(b)
	}
	return []Object{o}, nil
}

// symEnd is how many bytes at the end of a .sym file are searched for its last line.
const symEnd = 4096

// checkSymEnd refuses a .sym file that was cut off in the middle of a record.
func checkSymEnd(b *budget) error {
	n := min(b.size, symEnd)
	end, err := b.bytes(b.size-n, n)
	if err != nil {
		return err
	}
	i := bytes.LastIndexByte(end, '\n')
	if i < 0 && n < b.size {
		return nil // a very long line
	}
	if last := end[i+1:]; breakpad.CutOff(last) {
		return broken("the file is cut off: it ends with %q, which is no whole record", truncate.Text(string(last)))
	}
	return nil
}

// moduleKind derives the format of the module from the operating system in the
// MODULE record.
func moduleKind(system string) symfile.Kind {
	switch strings.ToLower(system) {
	case "windows":
		return symfile.PE
	case "linux", "android", "fuchsia", "freebsd", "netbsd", "openbsd", "solaris", "chromeos":
		return symfile.ELF
	case "mac", "macos", "macosx", "darwin", "ios", "tvos", "watchos", "visionos":
		return symfile.MachO
	}
	return symfile.KindUnknown
}

// archWord returns the name of a processor, or an empty string if it is not a
// plain word.
func archWord(s string) string {
	if len(s) > 32 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return ""
	}
	return s
}

// setCodeID sets the code id from a text header, in the spelling of the
// module's kind. Breakpad's tools omit it for Mach-O files, whose code id is
// the UUID.
func (o *Object) setCodeID(code string) {
	if len(code) > 2*debugid.MaxBuildID || code != "" && !debugid.IsHex(strings.ReplaceAll(code, "-", "")) {
		code = ""
	}
	switch o.Of {
	case symfile.PE:
		if pe, err := debugid.ParsePE(code); err == nil {
			code = pe.String()
		}
		o.CodeID = code
	case symfile.MachO:
		g, err := debugid.ParseGUID(code)
		if err != nil && o.DebugID.Age == 0 {
			g = o.DebugID.GUID
		}
		if !g.IsZero() {
			o.CodeID = g.Lower()
		}
	case symfile.ELF, symfile.WASM:
		o.CodeID = strings.ToLower(code)
		if id, err := debugid.ParseBuildID(code); err == nil && o.Of == symfile.ELF {
			o.BuildID = id
		}
	default:
		o.CodeID = strings.ToLower(code)
	}
}

// The search for records reads chunks from the start, as far as the budget
// allows, and then the end of the file, where the PUBLIC and STACK records are.
const (
	scanChunk = 64 << 10
	scanTail  = 256 << 10
)

var scanBuffers = sync.Pool{New: func() any { return new([scanChunk]byte) }}

// breakpadFeatures searches for the first record of each kind.
func breakpadFeatures(b *budget) Features {
	var f Features
	complete := func() bool { return f.Debug && f.Symtab && f.Unwind }
	chunk := scanBuffers.Get().(*[scanChunk]byte)
	defer scanBuffers.Put(chunk)
	buf := chunk[:]
	scan := func(off, end int64) bool {
		// Chunks overlap so that none cuts the first word of a record.
		for ; off < end; off += scanChunk - 16 {
			n, err := b.ReadAt(buf[:min(scanChunk, b.size-off)], off)
			if err != nil && !errors.Is(err, io.EOF) {
				return false
			}
			p := buf[:n]
			f.Debug = f.Debug || bytes.Contains(p, []byte("\nFUNC "))
			f.Symtab = f.Symtab || bytes.Contains(p, []byte("\nPUBLIC "))
			f.Unwind = f.Unwind || bytes.Contains(p, []byte("\nSTACK "))
			if complete() {
				return true
			}
		}
		return true
	}
	// FUNC records have names, too, but the PUBLIC records are the symbol
	// table.
	head := min(b.size, (b.left-2*scanTail)/scanChunk*(scanChunk-16))
	all := scan(0, head) && head == b.size
	if !all && !complete() {
		_ = scan(max(b.size-scanTail, head), b.size)
		f.Unknown = !complete()
	}
	return f
}
