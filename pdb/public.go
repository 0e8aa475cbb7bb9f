package pdb

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// PublicFormat is the number of the form that WritePublic writes. Equal input, equal
// options and an equal number give equal bytes; a version of this module that writes
// other bytes has another number.
const PublicFormat = 2

// msfzPage is the size of the pages in bytes of the public form of an MSFZ file, which has none.
const msfzPage = 4096

// PublicOptions are the options of WritePublic. The zero value keeps the name of each public
// symbol as the linker knows it, and that of each static function.
type PublicOptions struct {
	// Undecorated writes names as people read them, without parameters: ns::f instead
	// of ?f@ns@@YAXH@Z, which says the types of the parameters. A decorated name that
	// is not understood is hidden.
	Undecorated bool
	// Exported keeps only the public symbols that the image exports, as the PDB says. Files of
	// lld do not say it, which is an error.
	Exported bool
	// NoStatic leaves out the names of static functions. They have no public symbol; as link
	// /PDBSTRIPPED does, WritePublic names them nevertheless, because debuggers
	// otherwise show an address in such a function with the name of the public symbol before it.
	NoStatic bool
	// Hide are patterns, in which * is any text and ? any character. A symbol whose name
	// as the linker knows it, or as people read it, matches one of them keeps its address,
	// and has the name MODULE+0xRVA.
	Hide []string
	// Module is the name of the image in hidden names; empty means "module".
	Module string
}

// PublicReport says what WritePublic kept and what it took away.
type PublicReport struct {
	PrivateSize int64 // of the input in bytes
	Size        int64 // of the output in bytes
	Publics     int64 // symbols in the output
	Hidden      int64 // those of them with hidden names
	Static      int64 // those of them for static functions
	// Removed has the kinds of which something was taken away, in the order of the constants.
	Removed []Removed
}

// Removed counts what WritePublic took away of one kind.
type Removed struct {
	Kind  RemovedKind
	Count int64 // records, files or streams; 0 where they were not read
	Bytes int64 // in the input
}

// RemovedKind is a kind of content that WritePublic takes away.
type RemovedKind string

// The kinds.
const (
	RemovedTypes    RemovedKind = "types"
	RemovedIDs      RemovedKind = "ids"             // of functions and strings
	RemovedSymbols  RemovedKind = "module symbols"  // functions, locals, linker command lines: a stream for each module
	RemovedLines    RemovedKind = "line numbers"    // for each module
	RemovedFiles    RemovedKind = "source files"    // their list
	RemovedSources  RemovedKind = "sources"         // injected ones, and streams that say where to get them
	RemovedGlobals  RemovedKind = "global symbols"  // records beside the public symbols, and their hash table
	RemovedPublics  RemovedKind = "public symbols"  // that are not exported
	RemovedNames    RemovedKind = "hidden names"    // of public symbols
	RemovedPaths    RemovedKind = "paths"           // of object files and libraries, before their names
	RemovedStrings  RemovedKind = "strings"         // in /names: all but programs of frame data
	RemovedPrograms RemovedKind = "frame programs"  // texts in place of programs that are none
	RemovedStreams  RemovedKind = "unknown streams" // that no rule keeps
)

// removedKinds are the kinds in the order of reports.
var removedKinds = []RemovedKind{
	RemovedTypes, RemovedIDs, RemovedSymbols, RemovedLines, RemovedFiles, RemovedSources, RemovedGlobals,
	RemovedPublics, RemovedNames, RemovedPaths, RemovedStrings, RemovedPrograms, RemovedStreams,
}

// The numbers of the streams of a public PDB.
const (
	publicLinkInfo = IPIStream + 1 + iota
	publicNames
	publicGlobals
	publicPublics
	publicRecords
	publicOptional // the first of the optional debug header
)

// ErrNotPublic is wrapped by the errors of WritePublic for a PDB that has no public symbols or
// whose form is not known well enough to make a public one: PDB 2.0, files of
// before 1997, files of types only and those of /DEBUG:FASTLINK.
var ErrNotPublic = errors.New("no public PDB can be made of it")

// WritePublic writes a PDB for people who may see names and addresses of functions but no
// types, locals, lines, source files and paths. Debuggers load it for the same image:
// GUID, signature and both ages are those of the PDB of size bytes in r. It has the
// public symbols, symbols of the same kind for static functions, the section headers, the
// contributions of the modules to sections, the OMAP and the frame data, and the names of
// modules and libraries without their paths. What no rule keeps is not in it: each record
// is written anew.
//
// The input is an MSF or an MSFZ file; the output is an MSF file with pages of the same size, of 4096
// bytes for an MSFZ file, or of larger ones if they would be too many. WritePublic reads
// what it needs of r, checks it, and only then writes w from front to back: of a damaged
// input, nothing is written. After an error of r or w while it writes, the output is
// incomplete. WritePublic needs about 40 bytes of memory for each symbol, and 200 MiB at
// most besides. The error wraps ErrFormat if r is not a PDB, and ErrNotPublic if its
// form cannot be written.
func WritePublic(w io.Writer, r io.ReaderAt, size int64, o PublicOptions) (PublicReport, error) {
	report, err := strip(w, r, size, o)
	if err != nil {
		return PublicReport{}, fmt.Errorf("pdb: public: %w", err)
	}
	return report, nil
}

func strip(w io.Writer, r io.ReaderAt, size int64, o PublicOptions) (PublicReport, error) {
	f, err := open(r, size)
	if err != nil {
		return PublicReport{}, err
	}
	s := &stripper{f: f, opt: o, removed: map[RemovedKind]*Removed{}, used: map[int]bool{}}
	s.page = int64(cmp.Or(f.PageSize, msfzPage))
	if err := s.check(); err != nil {
		return PublicReport{}, err
	}
	if err := s.read(); err != nil {
		return PublicReport{}, err
	}
	p := s.symbols
	report := PublicReport{PrivateSize: size, Publics: int64(len(p.list)), Hidden: p.hidden, Static: int64(len(p.static))}
	if report.Size, err = s.write(w); err != nil {
		return PublicReport{}, err
	}
	for _, kind := range removedKinds {
		if r := s.removed[kind]; r != nil && (r.Count > 0 || r.Bytes > 0) {
			report.Removed = append(report.Removed, *r)
		}
	}
	return report, nil
}

// stripper makes a public PDB of another.
type stripper struct {
	f       *File
	opt     PublicOptions
	addr    *addresses
	symbols *publicSymbols
	removed map[RemovedKind]*Removed
	used    map[int]bool // streams of the input of which the report says something

	msfFile
	streams []publicStream
}

// publicStream is a stream of the output.
type publicStream struct {
	size int64
	open func() io.Reader
}

// take counts what is taken away.
func (s *stripper) take(kind RemovedKind, count, bytes int64) {
	r := s.removed[kind]
	if r == nil {
		r = &Removed{Kind: kind}
		s.removed[kind] = r
	}
	r.Count += count
	r.Bytes += bytes
}

// takeStream counts stream n, of which nothing is kept, unless it was counted before.
func (s *stripper) takeStream(kind RemovedKind, n int, count int64) error {
	if n == noStream || n < 0 || n >= s.f.c.count() || s.used[n] {
		return nil
	}
	s.used[n] = true
	in, err := s.f.section(n)
	if err == nil && in.Size() > 0 {
		s.take(kind, count, in.Size())
	}
	return err
}

// check rejects what cannot be written.
func (s *stripper) check() error {
	f := s.f
	switch {
	case f.Version <= maxOldInfo:
		return fmt.Errorf("a PDB without GUID, with an info stream of version %d: %w", f.Version, ErrNotPublic)
	case f.NoDBI:
		return fmt.Errorf("the PDB has types only: %w", ErrNotPublic)
	case f.OldDBI || f.dbi.version < dbiV60:
		return fmt.Errorf("the DBI stream has the form of before 1997: %w", ErrNotPublic)
	case f.Truncated > 0:
		return fmt.Errorf("the file lacks its last %d bytes: %w", f.Truncated, io.ErrUnexpectedEOF)
	case f.dbi.modules > maxPublicModules:
		return fmt.Errorf("%d bytes of module records are more than the limit of %d", f.dbi.modules, maxPublicModules)
	}
	if fast, err := f.FastLink(); err != nil {
		return err
	} else if fast {
		return fmt.Errorf("the PDB was linked with /DEBUG:FASTLINK; link with /DEBUG:FULL: %w", ErrNotPublic)
	}
	if m, ok := f.c.(*msf); ok {
		// A small file must not become a huge one.
		if _, err := m.sizes(); err != nil {
			return err
		}
	}
	return nil
}

// read reads the input and decides what all streams of the output hold.
func (s *stripper) read() error {
	var err error
	if s.addr, err = s.f.readAddresses(); err != nil {
		return err
	}
	s.streams = make([]publicStream, publicOptional)
	s.used[0] = true // the directory before the last change
	for _, n := range []int{InfoStream, TPIStream, DBIStream, IPIStream} {
		s.used[n] = true
	}
	dbi := publicDBI{s: s}
	if err := dbi.readModules(); err != nil {
		return fmt.Errorf("DBI stream: module records: %w", err)
	}
	if err := s.readSymbols(dbi.list); err != nil {
		return err
	}
	if err := s.readOptional(&dbi); err != nil {
		return err
	}
	if err := s.readTypes(); err != nil {
		return err
	}
	if s.streams[DBIStream], err = dbi.stream(); err != nil {
		return fmt.Errorf("DBI stream: %w", err)
	}
	if s.streams[InfoStream], err = s.info(); err != nil {
		return fmt.Errorf("PDB info stream: %w", err)
	}
	return s.countRest()
}

// memory returns a stream of bytes that are in memory.
func memory(b []byte) publicStream {
	return publicStream{int64(len(b)), func() io.Reader { return bytes.NewReader(b) }}
}

// The feature codes that public PDBs have: those of the streams of ids.
var publicFeatures = []uint32{20091201, 20140508}

// info returns the info stream.
func (s *stripper) info() (publicStream, error) {
	all, err := s.f.namedStreams()
	if err != nil {
		return publicStream{}, err
	}
	codes, err := s.f.FeatureCodes()
	if err != nil {
		return publicStream{}, err
	}
	n := namedStreams{head: all.head, entries: []namedStream{{"/LinkInfo", publicLinkInfo}, {"/names", publicNames}}, tail: make([]byte, 4)}
	for _, code := range codes {
		if slices.Contains(publicFeatures, code) {
			n.tail = binary.LittleEndian.AppendUint32(n.tail, code)
		}
	}
	s.streams[publicLinkInfo] = memory(nil)
	return memory(n.bytes()), nil
}

// readTypes counts the types and ids, and makes empty streams of them.
func (s *stripper) readTypes() error {
	for n, kind := range map[int]RemovedKind{TPIStream: RemovedTypes, IPIStream: RemovedIDs} {
		if n == IPIStream && !s.f.hasIDs() {
			s.streams[n], s.used[n] = memory(nil), false
			continue
		}
		s.streams[n] = memory(emptyTypes())
		in, err := s.f.section(n)
		if err != nil {
			continue // there is none
		}
		h := make([]byte, 56)
		if in.Size() < int64(len(h)) {
			continue
		}
		if err := readFull(in, h, 0); err != nil {
			return err
		}
		count := int64(u32(h, 12)) - int64(u32(h, 8))
		s.take(kind, max(count, 0), in.Size()-int64(len(h)))
		for _, hash := range []int{int(u16(h, 20)), int(u16(h, 22))} {
			if hash != 0 {
				if err := s.takeStream(kind, hash, 0); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// emptyTypes returns a stream of types without any, as linkers write it.
func emptyTypes() []byte {
	b := make([]byte, 0, 56)
	for _, v := range []uint32{20040203, 56, firstType, firstType, 0, 0xFFFFFFFF, 4, 0x3FFFF, 0, nilSize, 0, nilSize, 0, nilSize} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}

// countRest counts the streams of which nothing is kept.
func (s *stripper) countRest() error {
	names, err := s.f.Names()
	if err != nil {
		return err
	}
	for _, name := range sortedNames(names) {
		kind := RemovedStreams
		if low := strings.ToLower(name); strings.HasPrefix(low, "/src/") || low == "srcsrv" || isSourceLink(low) {
			kind = RemovedSources
		}
		if err := s.takeStream(kind, names[name], 1); err != nil {
			return err
		}
	}
	for n := range s.f.c.count() {
		if err := s.takeStream(RemovedStreams, n, 1); err != nil {
			return err
		}
	}
	return nil
}

// write writes the file and returns its size in bytes.
func (s *stripper) write(w io.Writer) (int64, error) {
	for i, stream := range s.streams {
		if stream.size >= nilSize {
			return 0, fmt.Errorf("stream %d would have %d bytes, more than the format can have", i, stream.size)
		}
		s.sizes = append(s.sizes, uint32(stream.size))
	}
	if len(s.sizes) > math.MaxUint16 {
		return 0, fmt.Errorf("%d streams are more than the format can have", len(s.sizes))
	}
	s.content = func(n int) (io.Reader, error) {
		if s.streams[n].open == nil {
			return bytes.NewReader(nil), nil
		}
		return s.streams[n].open(), nil
	}
	return s.msfFile.write(w)
}
