// Package stacktext reads stacks as debuggers, crash reporters and runtimes print them: which
// module each line names, and which address in it. It looks nothing up.
package stacktext

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/symfile"
)

// Limits of a text.
const (
	MaxBytes     = 1 << 20
	MaxLines     = 10_000
	MaxAddresses = 1000
)

// LimitError is the error for a text that is longer than a limit. The text is for people.
type LimitError struct{ What string }

func (e LimitError) Error() string { return e.What }

// Module is a module that a text names.
type Module struct {
	Name string // of the file, without folders
	ID   string // as the text spells it; empty if the text has none
}

// Address is an address in a module.
type Address struct {
	Module int    // index in Stack.Modules
	Offset uint64 // from the start of the module
	// Return means that the address is that of the instruction behind a call, as the text
	// prints the frames of callers.
	Return bool
}

// Line is a line of a text.
type Line struct {
	Text string // without the end of the line
	// Address is that of the frame on the line; nil: there is none whose module is known.
	Address *Address
}

// Stack is a text that was read.
type Stack struct {
	Lines   []Line
	Modules []Module
	// Unplaced is the number of frames with an address of which the text does not say where
	// their module was loaded.
	Unplaced int
}

// Parse reads a text. The error is a LimitError.
func Parse(text string) (Stack, error) {
	if len(text) > MaxBytes {
		return Stack{}, LimitError{"the text is longer than 1 MiB"}
	}
	if strings.Count(text, "\n") > MaxLines {
		return Stack{}, LimitError{fmt.Sprintf("the text has more than %d lines", MaxLines)}
	}
	r := newReader(strings.Split(strings.TrimRight(text, "\r\n"), "\n"))
	for _, line := range r.lines {
		a, ok := r.address(line)
		l := Line{Text: line}
		if ok {
			l.Address = &a
			if r.addresses++; r.addresses > MaxAddresses {
				return Stack{}, LimitError{fmt.Sprintf("the text has more than %d addresses", MaxAddresses)}
			}
		}
		r.stack.Lines = append(r.stack.Lines, l)
	}
	return r.stack, nil
}

// image is where a module was loaded.
type image struct {
	start, end uint64 // end: the first byte behind it; 0 if it is unknown
	base       uint64 // the start of the module
	module     Module
}

// reader reads one text.
type reader struct {
	lines     []string
	images    []image
	byStart   map[uint64]int    // index in images, by start
	ids       map[string]string // of modules, by their folded names
	at        map[Module]int    // index in stack.Modules
	stack     Stack
	addresses int
}

// newReader reads from all lines where modules were loaded, and which ids they have.
func newReader(lines []string) *reader {
	r := &reader{byStart: map[uint64]int{}, ids: map[string]string{}, at: map[Module]int{}}
	bases := map[string]uint64{} // of mapped files, by their paths
	for _, line := range lines {
		line = strings.TrimSuffix(line, "\r")
		r.lines = append(r.lines, line)
		r.mapped(line, bases)
		if m := withBuildID.FindStringSubmatch(line); m != nil {
			r.ids[symfile.Fold(symfile.BaseName(m[1]))] = m[2]
		}
	}
	return r
}

var (
	// The list of images of a crash report of Apple's systems, and the list of modules of
	// minidump_stackwalk.
	imageLine   = regexp.MustCompile(`^\s*0x([0-9a-fA-F]{1,16})\s+-\s+0x([0-9a-fA-F]{1,16})\s+\+?(\S+)(.*)$`)
	imageUUID   = regexp.MustCompile(`<([0-9a-fA-F]{32}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})>\s*(\S.*)?$`)
	noSymbols   = regexp.MustCompile(`No symbols, ([^,)]+), ([0-9a-fA-F]{9,40})\)`)
	withBuildID = regexp.MustCompile(`^\s*Module (\S+) .*with build-id ([0-9a-fA-F]{8,64})\s*$`)
	// A line of /proc/PID/maps, and of GDB's info proc mappings.
	mapsLine = regexp.MustCompile(`^([0-9a-f]{6,16})-([0-9a-f]{6,16})\s+[-r][-w][-x][-ps]\s+([0-9a-f]+)\s+[0-9a-f]+:[0-9a-f]+\s+\d+\s+(/.*)$`)
	gdbLine  = regexp.MustCompile(`^\s*0x([0-9a-f]+)\s+0x([0-9a-f]+)\s+0x[0-9a-f]+\s+0x([0-9a-f]+)\s+(?:[-rwxps]{4,5}\s+)?(/\S.*)$`)
)

// mapped reads a line of a list of what was loaded.
func (r *reader) mapped(line string, bases map[string]uint64) {
	if m := imageLine.FindStringSubmatch(line); m != nil {
		im := image{start: hex(m[1]), end: hex(m[2]) + 1, module: Module{Name: symfile.BaseName(m[3])}}
		im.base = im.start
		if u := imageUUID.FindStringSubmatch(m[4]); u != nil {
			im.module.ID = u[1]
			if u[2] != "" {
				im.module.Name = symfile.BaseName(strings.TrimSpace(u[2]))
			}
		} else if s := noSymbols.FindStringSubmatch(m[4]); s != nil {
			r.ids[symfile.Fold(im.module.Name)] = s[2]
			im.module.ID = s[2]
		}
		r.add(im)
		return
	}
	m := mapsLine.FindStringSubmatch(line)
	if m == nil {
		m = gdbLine.FindStringSubmatch(line)
	}
	if m == nil {
		return
	}
	path, start := strings.TrimSpace(m[4]), hex(m[1])
	if _, ok := bases[path]; !ok { // the first part of a file is that with the lowest address
		bases[path] = start - hex(m[3])
	}
	r.add(image{start: start, end: hex(m[2]), base: bases[path], module: Module{Name: symfile.BaseName(path)}})
}

func (r *reader) add(im image) {
	r.byStart[im.start] = len(r.images)
	r.images = append(r.images, im)
}

// image returns what was loaded at an address.
func (r *reader) image(addr uint64) (image, bool) {
	for _, im := range r.images {
		if addr >= im.start && addr < im.end {
			return im, true
		}
	}
	return image{}, false
}

// frame returns an address in a module.
func (r *reader) frame(m Module, offset uint64, behind bool) (Address, bool) {
	if m.Name == "" || strings.ContainsAny(m.Name[:1], "<[?") {
		return Address{}, false
	}
	if m.ID == "" {
		m.ID = r.ids[symfile.Fold(m.Name)]
	}
	i, ok := r.at[m]
	if !ok {
		i = len(r.stack.Modules)
		r.at[m] = i
		r.stack.Modules = append(r.stack.Modules, m)
	}
	return Address{Module: i, Offset: offset, Return: behind}, true
}

// The forms of frames: N is the number of a frame, A an address in the process, X one in a module,
// F a function, M a module.
var (
	// M/ID+X
	place = regexp.MustCompile(`(?:^|[\s(])([^\s/()]+)/([0-9a-fA-F]{9,64})\+(?:0x)?([0-9a-fA-F]{1,16})(?:$|[\s)])`)
	// #N pc X M (F) (BuildId: ID)
	tombstone = regexp.MustCompile(`#(\d+)\s+pc\s+(?:0x)?([0-9a-fA-F]{1,16})\s+(\S+)(.*)$`)
	buildID   = regexp.MustCompile(`\(BuildId: ([0-9a-fA-F]{8,64})\)`)
	// N M A BASE + X and N M A F + OFFSET
	apple = regexp.MustCompile(`^\s*(\d+)\s+(\S.*?)\s+0x([0-9a-fA-F]{1,16})\s+(?:0x([0-9a-fA-F]{1,16}) \+ (\d+)|\S.* \+ \d+)`)
	// N M + X
	stackwalk = regexp.MustCompile(`^\s*\d+\s+([^\s!(][^!(]*?) \+ 0x([0-9a-fA-F]{1,16})\s*$`)
	// #N A F (M + X)
	coredump = regexp.MustCompile(`^\s*#(\d+)\s+0x[0-9a-fA-F]+\s.*\((\S+) \+ 0x([0-9a-fA-F]{1,16})\)\s*$`)
	// #N A F (M+X) (BuildId: ID)
	sanitizer = regexp.MustCompile(`^\s*#\d+\s+0x[0-9a-fA-F]+\s.*\((\S[^()]*)\+0x([0-9a-fA-F]{1,16})\)(.*)$`)
	// M(+X) [A]
	backtrace = regexp.MustCompile(`(\S+)\(\+0x([0-9a-fA-F]{1,16})\)\s*\[0x[0-9a-fA-F]+\]`)
	// M+X and M!+X
	plain    = regexp.MustCompile(`(?:^|[\s\[])([^\s()\[\]!+]+)!?\+0x([0-9a-fA-F]{1,16})(?:$|[\s)\]])`)
	numbered = regexp.MustCompile(`^\s*#?([0-9][0-9a-fA-F]{0,3})[:.]?\s`)
	absolute = regexp.MustCompile(`^\s*(?:#?\d+[:.]?\s+)?0x([0-9a-fA-F]{6,16})\b`) // N A
)

// address reads the frame on a line.
func (r *reader) address(line string) (Address, bool) {
	if imageLine.MatchString(line) || mapsLine.MatchString(line) || gdbLine.MatchString(line) {
		return Address{}, false
	}
	for _, read := range [...]func(*reader, string) (Address, bool){
		(*reader).placed, (*reader).tombstone, (*reader).apple, (*reader).moduleAndOffset, (*reader).absolute,
	} {
		if a, ok := read(r, line); ok {
			return a, true
		}
	}
	return Address{}, false
}

// placed reads M/ID+X, as symdepot symbolicate takes it.
func (r *reader) placed(line string) (Address, bool) {
	m := place.FindStringSubmatch(line)
	if m == nil || !debugid.IsHex(m[2]) {
		return Address{}, false
	}
	return r.frame(Module{m[1], m[2]}, hex(m[3]), false)
}

// tombstone reads a frame of Android. Its addresses are inside the calls.
func (r *reader) tombstone(line string) (Address, bool) {
	m := tombstone.FindStringSubmatch(line)
	if m == nil {
		return Address{}, false
	}
	path := m[3]
	if i := strings.LastIndexByte(path, '!'); i >= 0 { // a library in an archive
		path = path[i+1:]
	}
	f := Module{Name: symfile.BaseName(path)}
	if id := buildID.FindStringSubmatch(m[4]); id != nil {
		f.ID = id[1]
	}
	return r.frame(f, hex(m[2]), false)
}

// apple reads a frame of a crash report of Apple's systems.
func (r *reader) apple(line string) (Address, bool) {
	m := apple.FindStringSubmatch(line)
	if m == nil {
		return Address{}, false
	}
	addr, behind := hex(m[3]), m[1] != "0"
	if m[4] != "" {
		offset, err := strconv.ParseUint(m[5], 10, 64)
		if i, ok := r.byStart[hex(m[4])]; ok && err == nil {
			return r.frame(r.images[i].module, offset, behind)
		}
		if err == nil {
			return r.frame(Module{Name: symfile.BaseName(m[2])}, offset, behind)
		}
	}
	if im, ok := r.image(addr); ok {
		return r.frame(im.module, addr-im.base, behind)
	}
	return Address{}, false
}

// moduleAndOffset reads the forms that name a module and an offset in it.
func (r *reader) moduleAndOffset(line string) (Address, bool) {
	if m := stackwalk.FindStringSubmatch(line); m != nil { // its addresses are inside the calls
		return r.frame(Module{Name: symfile.BaseName(m[1])}, hex(m[2]), false)
	}
	if m := coredump.FindStringSubmatch(line); m != nil {
		return r.frame(Module{Name: symfile.BaseName(m[2])}, hex(m[3]), m[1] != "0")
	}
	if m := sanitizer.FindStringSubmatch(line); m != nil { // its addresses are inside the calls
		f := Module{Name: symfile.BaseName(m[1])}
		if id := buildID.FindStringSubmatch(m[3]); id != nil {
			f.ID = id[1]
		}
		return r.frame(f, hex(m[2]), false)
	}
	if m := backtrace.FindStringSubmatch(line); m != nil {
		return r.frame(Module{Name: symfile.BaseName(m[1])}, hex(m[2]), true)
	}
	if m := plain.FindStringSubmatch(line); m != nil {
		return r.frame(Module{Name: symfile.BaseName(m[1])}, hex(m[2]), r.isCaller(line))
	}
	return Address{}, false
}

// absolute reads a frame with an address in the process, such as GDB's, whose module the
// text lists.
func (r *reader) absolute(line string) (Address, bool) {
	m := absolute.FindStringSubmatch(line)
	if m == nil {
		return Address{}, false
	}
	addr := hex(m[1])
	im, ok := r.image(addr)
	if !ok {
		if strings.Contains(line, " in ") {
			r.stack.Unplaced++
		}
		return Address{}, false
	}
	return r.frame(im.module, addr-im.base, r.isCaller(line))
}

// isCaller reports whether a line has the number of a frame that is not the first.
func (r *reader) isCaller(line string) bool {
	m := numbered.FindStringSubmatch(line)
	return m != nil && strings.Trim(m[1], "0") != ""
}

// hex reads a number that a pattern has taken for one; what is too large is 0.
func hex(text string) uint64 {
	n, err := strconv.ParseUint(text, 16, 64)
	if err != nil {
		return 0
	}
	return n
}
