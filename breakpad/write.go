package breakpad

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/functab"
)

// ErrTooLarge is wrapped by the error about a symbol file that would exceed its
// limit.
var ErrTooLarge = errors.New("symbol file above the limit")

const (
	maxSym    = 8 << 30
	maxRanges = 250 // of an INLINE record: Breakpad's parser reads at most 512 words
	flushSize = 256 << 10
)

// unknownFile is the path that stands for an unknown file: line and INLINE records
// need a file number.
const unknownFile = "<unknown>"

// FrameRecords says which unwind rules a symbol file contains.
type FrameRecords int

// Choices of unwind rules.
const (
	AllFrames  FrameRecords = iota // STACK records follow the others
	NoFrames                       // no STACK records
	OnlyFrames                     // no FILE, INLINE_ORIGIN, FUNC and PUBLIC records
)

// SymOptions describes the form of a symbol file. The zero value is the complete
// form.
type SymOptions struct {
	NoInlines bool // no INLINE_ORIGIN and INLINE records
	Frames    FrameRecords
	// Path maps the path of each source file to the text of its FILE record, for
	// example "git:github.com/owner/name:path:revision". The path itself is used if
	// Path is nil or if its result is empty or does not fit on one line.
	Path func(string) string
	// Info are INFO records after INFO GENERATOR, without the word INFO:
	// "WARNING text". Readers ignore words that they do not know.
	Info []string
	// MaxBytes limits the size of the file; 0 means 8 GiB.
	MaxBytes int64
}

// WriteSym writes the complete symbol file of t; see SymOptions.Write.
func WriteSym(w io.Writer, t *functab.Table) error { return SymOptions{}.Write(w, t) }

// Write writes a symbol file of t in the form that the strictest readers accept:
// records in ascending order of address, no empty names, no line records of size
// 0, and only files and origins that a record refers to, numbered in order of use.
// The result depends only on t and o.
//
// Errors about t and o, which wrap ErrSyntax or ErrTooLarge, are found before the
// first byte is written. Other errors are those of w.
func (o SymOptions) Write(w io.Writer, t *functab.Table) error {
	m := t.Module()
	var top strings.Builder
	err := WriteHeader(&top, Header{
		OS: m.OS, Arch: m.Arch, ID: m.ID, Name: m.Name, CodeID: m.CodeID, CodeName: m.CodeFile, Generator: m.Generator,
	})
	if err != nil {
		return err
	}
	for _, info := range o.Info {
		if info == "" || !oneLine(info) {
			return fmt.Errorf("%w: the INFO record %q does not fit on one line", ErrSyntax, info)
		}
		top.WriteString("INFO " + info + "\n")
	}
	s := &symWriter{t: t, opt: o}
	if o.Frames != OnlyFrames {
		s.number()
	}
	if limit := o.MaxBytes; limit > 0 || s.mostBytes() > maxSym {
		if limit <= 0 {
			limit = maxSym
		}
		var n sizeOnly
		s.w = &n
		if s.write(top.String()); int64(n) > limit {
			return fmt.Errorf("%w: %d bytes, limit %d", ErrTooLarge, int64(n), limit)
		}
	}
	s.w, s.err = w, nil
	s.write(top.String())
	return s.err
}

func oneLine(s string) bool {
	return !strings.ContainsAny(s, "\r\n\x00") && s == strings.TrimSpace(s)
}

// sizeOnly counts the bytes written to it.
type sizeOnly int64

func (c *sizeOnly) Write(p []byte) (int, error) {
	*c += sizeOnly(len(p))
	return len(p), nil
}

// symWriter writes the records of a table. Its first error ends all writing.
type symWriter struct {
	t       *functab.Table
	opt     SymOptions
	w       io.Writer
	err     error
	buf     []byte
	files   numbers[functab.FileID] // by FileID
	origins numbers[functab.NameID] // by the number of the shown name
	names   int64                   // bytes of the names of functions
	ranges  int64                   // of inlined calls
	parts   []chunk                 // of the functions
	hold    bool                    // everything stays in buf
}

// numbers gives numbers from 0 on in order of use.
type numbers[T any] struct {
	of   []uint32 // number + 1, or 0
	used []T
}

func (n *numbers[T]) use(key int, value T) {
	if n.of[key] == 0 {
		n.used = append(n.used, value)
		n.of[key] = uint32(len(n.used))
	}
}

func (n *numbers[T]) number(key int) uint64 { return uint64(n.of[key]) - 1 }

// file returns the path of a row's file. A row without a path is not written.
func (s *symWriter) file(r functab.Row) (id int, ok bool) {
	return int(r.File), r.Line != 0 && r.File != 0 && int(r.File) < len(s.files.of)
}

// callFile returns the file of a call; one of unknown number counts as unknown.
func (s *symWriter) callFile(in *functab.Inline) int {
	if int(in.CallFile) >= len(s.files.of) {
		return 0
	}
	return int(in.CallFile)
}

// origin returns the number of the shown name of a call.
func (s *symWriter) origin(in *functab.Inline) int {
	shown, _ := s.t.TextsOf(in.Name)
	return shown
}

// number gives numbers to the files and origins that records refer to.
func (s *symWriter) number() {
	s.files.of = make([]uint32, s.t.Files()+1)
	s.origins.of = make([]uint32, s.t.Texts()+1)
	for f := range s.t.Functions() {
		shown, _ := s.t.NameOf(f.Name)
		s.names += int64(len(shown))
		size := len(shown) + lineBytes*(1+len(f.Rows))
		if !s.opt.NoInlines {
			for i := range f.Inlines {
				in := &f.Inlines[i]
				s.ranges += int64(len(in.Ranges))
				size += lineBytes * (1 + len(in.Ranges))
				s.origins.use(s.origin(in), in.Name)
				file := s.callFile(in)
				s.files.use(file, functab.FileID(file))
			}
		}
		for _, r := range f.Rows {
			if file, ok := s.file(r); ok {
				s.files.use(file, r.File)
			}
		}
		s.divide(size)
	}
}

// mostBytes returns a size that the records of functions, symbols and frames do not
// exceed. Together with the paths and origins, each of which is held in memory, it
// shows whether the file can reach its limit.
func (s *symWriter) mostBytes() int64 {
	if s.opt.Path != nil {
		return maxSym + 1
	}
	c := s.t.Counts()
	n := 2*c.Bytes + s.names + 64*(int64(c.Functions)+int64(c.Rows)) + 80*s.ranges
	for p := range s.t.Symbols() {
		shown, _ := s.t.NameOf(p.Name)
		n += int64(len(shown)) + 64
	}
	for f := range s.t.Frames() {
		n += int64(len(f.CFI)) + 64
		if f.Win != nil {
			n += int64(len(f.Win.Program)) + 64
		}
		for _, d := range f.Deltas {
			n += int64(len(d.Rules)) + 32
		}
	}
	return n
}

func (s *symWriter) write(top string) {
	s.buf = append(s.buf[:0], top...)
	if s.opt.Frames != OnlyFrames {
		s.writeTexts()
		if s.functions(); !s.more() {
			return
		}
		for p := range s.t.Symbols() {
			s.buf = append(s.buf, "PUBLIC "...)
			s.place(p.Multiple, p.Address)
			s.hex(uint64(p.Params), ' ')
			s.name(p.Name)
			if !s.more() {
				return
			}
		}
	}
	if s.opt.Frames != NoFrames {
		for f := range s.t.Frames() {
			if s.frame(&f); !s.more() {
				return
			}
		}
	}
	s.flush()
}

// more writes a full buffer. It is false after an error.
func (s *symWriter) more() bool {
	if len(s.buf) >= flushSize && !s.hold {
		s.flush()
	}
	return s.err == nil
}

func (s *symWriter) flush() {
	if s.err == nil {
		_, s.err = s.w.Write(s.buf)
	}
	s.buf = s.buf[:0]
}

func (s *symWriter) writeTexts() {
	for i, id := range s.files.used {
		path := s.t.FileName(id)
		if s.opt.Path != nil && path != "" {
			if mapped := s.opt.Path(path); mapped != "" && oneLine(mapped) {
				path = mapped
			}
		}
		if path == "" {
			path = unknownFile
		}
		s.buf = append(s.buf, "FILE "...)
		s.dec(uint64(i), ' ')
		s.buf = append(append(s.buf, path...), '\n')
		s.more()
	}
	for i, id := range s.origins.used {
		s.buf = append(s.buf, "INLINE_ORIGIN "...)
		s.dec(uint64(i), ' ')
		at := len(s.buf)
		s.name(id)
		// Parsers take a number before the name for the file of the older form.
		if n := bytes.IndexByte(s.buf[at:], ' '); n > 0 && (allDigits(s.buf[at:at+n]) || string(s.buf[at:at+n]) == "-1") {
			s.buf[at+n] = '_'
		}
		s.more()
	}
}

// function writes the records of a function. A jump has none: a stack walker that
// looks for return addresses would take stale pointers to it for some.
func (s *symWriter) function(f *functab.Function) {
	if f.Jump {
		return
	}
	s.buf = append(s.buf, "FUNC "...)
	s.place(f.Multiple, f.Start)
	s.hex(uint64(f.Size), ' ')
	s.hex(uint64(f.Params), ' ')
	s.name(f.Name)
	if !s.opt.NoInlines {
		for i := range f.Inlines {
			s.inline(&f.Inlines[i])
		}
	}
	end := f.Start + uint64(f.Size)
	for i, r := range f.Rows {
		file, ok := s.file(r)
		if !ok {
			continue
		}
		next := end
		if i+1 < len(f.Rows) {
			next = f.Rows[i+1].Start
		}
		s.hex(r.Start, ' ')
		s.hex(next-r.Start, ' ')
		s.dec(uint64(r.Line), ' ')
		s.dec(s.files.number(file), '\n')
		if !s.more() {
			return
		}
	}
}

func (s *symWriter) inline(in *functab.Inline) {
	for ranges := in.Ranges; len(ranges) > 0 && s.more(); {
		s.buf = append(s.buf, "INLINE "...)
		s.dec(uint64(in.Depth), ' ')
		s.dec(uint64(in.CallLine), ' ')
		s.dec(s.files.number(s.callFile(in)), ' ')
		s.dec(s.origins.number(s.origin(in)), ' ')
		n := min(len(ranges), maxRanges)
		for _, r := range ranges[:n] {
			s.hex(r.Start, ' ')
			s.hex(uint64(r.Size), ' ')
		}
		s.buf[len(s.buf)-1] = '\n'
		ranges = ranges[n:]
	}
}

func (s *symWriter) frame(f *functab.Frame) {
	if w := f.Win; w != nil {
		s.buf = append(s.buf, "STACK WIN "...)
		s.dec(uint64(w.Type), ' ')
		s.hex(f.Start, ' ')
		for _, v := range []uint32{f.Size, w.Prolog, w.Epilog, w.Params, w.SavedRegs, w.Locals, w.MaxStack} {
			s.hex(uint64(v), ' ')
		}
		switch {
		case w.Program != "":
			s.buf = append(append(append(s.buf, "1 "...), w.Program...), '\n')
		case w.AllocatesBP:
			s.buf = append(s.buf, "0 1\n"...)
		default:
			s.buf = append(s.buf, "0 0\n"...)
		}
		return
	}
	s.buf = append(s.buf, "STACK CFI INIT "...)
	s.hex(f.Start, ' ')
	s.hex(uint64(f.Size), ' ')
	s.buf = append(append(s.buf, f.CFI...), '\n')
	for _, d := range f.Deltas {
		s.buf = append(s.buf, "STACK CFI "...)
		s.hex(d.Address, ' ')
		s.buf = append(append(s.buf, d.Rules...), '\n')
		if !s.more() {
			return
		}
	}
}

// place writes the mark of several symbols and an address.
func (s *symWriter) place(multiple bool, address uint64) {
	if multiple {
		s.buf = append(s.buf, "m "...)
	}
	s.hex(address, ' ')
}

// name writes a name and ends the record.
func (s *symWriter) name(id functab.NameID) {
	shown, _ := s.t.NameOf(id)
	if shown == "" {
		shown = functab.Omitted
	}
	s.buf = append(append(s.buf, shown...), '\n')
}

func (s *symWriter) dec(v uint64, end byte) {
	s.buf = append(strconv.AppendUint(s.buf, v, 10), end)
}

func (s *symWriter) hex(v uint64, end byte) {
	var digits [17]byte
	i := len(digits) - 1
	digits[i] = end
	for {
		i--
		digits[i] = "0123456789abcdef"[v&15]
		if v >>= 4; v == 0 {
			break
		}
	}
	s.buf = append(s.buf, digits[i:]...)
}
