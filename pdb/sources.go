package pdb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

// Names of streams, in lower case.
const (
	streamSrcsrv   = "srcsrv"
	streamInjected = "/src/headerblock"
	injectedPrefix = "/src/files/"
)

// Limits of sources.
const (
	maxFileEntries = 4 << 20  // different source files
	maxTable       = 64 << 10 // bytes of line numbers of a module that are read at once for its files
	maxInjected    = 16 << 20 // bytes of the list of injected files
	maxSourceLinks = 4096     // streams
)

// isSourceLink reports whether a stream of this name, in lower case, has Source Link.
// Linkers number the streams of further object files.
func isSourceLink(low string) bool {
	return low == "sourcelink" || strings.HasPrefix(low, "sourcelink$")
}

// SourceFile is a source file of a module.
type SourceFile struct {
	Name string // as the compiler was told
	// Algorithm is that of Sum: md5, sha1, sha256, or empty without a checksum.
	Algorithm string
	Sum       []byte
}

// checksumKinds are the algorithms of checksums, as cvinfo.h numbers them, with the
// number of bytes.
var checksumKinds = map[uint8]struct {
	name string
	size int
}{1: {"md5", 16}, 2: {"sha1", 20}, 3: {"sha256", 32}}

// SourceFiles yields the source files of all modules, each once, or twice if it has a
// checksum in some modules only. It reads the file tables and not the
// line numbers. Damaged modules are left out; damaged says how many. The error is that of
// yield, of ctx or of the io.ReaderAt, or it says that there are too many files.
func (f *File) SourceFiles(ctx context.Context, yield func(SourceFile) error) (damaged int, err error) {
	if f.NoDBI || f.OldDBI {
		return 0, nil
	}
	names, err := f.readNames()
	if err := f.sourceError("string table", err); err != nil {
		return 0, err
	}
	modules, err := f.readModules()
	if err != nil {
		if e := f.sourceError("modules", err); e != nil || len(modules) == 0 {
			return 1, e
		}
		damaged++
	}
	seen := map[uint32]bool{} // by name: with a checksum
	var l moduleLines
	var old []int // modules without a file table of their own
	for i, m := range modules {
		if err := ctx.Err(); err != nil {
			return damaged, err
		}
		if m.c13 == 0 {
			old = append(old, i)
		}
		if m.stream == noStream || m.c13 == 0 {
			continue
		}
		s, err := f.section(m.stream)
		if err == nil {
			if err = l.open(s, m, maxTable); err == nil {
				err = l.sources(names, seen, yield)
			}
		}
		if stop := (stopped{}); errors.As(err, &stop) {
			return damaged, stop.error
		}
		if err != nil {
			damaged++
		}
	}
	err = f.oldFiles(len(modules), old, yield)
	if stop := (stopped{}); errors.As(err, &stop) {
		return damaged, stop.error
	}
	if err != nil {
		damaged++
	}
	return damaged, nil
}

// oldFiles yields the source files of some modules, in ascending order, out of the DBI
// stream, which has no checksums: compilers of before 2002 write no others.
func (f *File) oldFiles(modules int, wanted []int, yield func(SourceFile) error) error {
	if len(wanted) == 0 || f.dbi.filesSize < 4 {
		return nil
	}
	s, err := f.section(DBIStream)
	if err != nil {
		return err
	}
	// The numbers of modules and files have 16 bits and may have overflowed; so may the
	// first file of each module, in place of which counts are added up.
	head := make([]byte, 4*int64(modules))
	if int64(len(head)) > f.dbi.filesSize-4 {
		return nil
	}
	if err := readFull(s, head, f.dbi.files+4); err != nil {
		return err
	}
	count := func(i int) int64 { return int64(u16(head, 2*(modules+i))) }
	all := int64(0)
	for i := range modules {
		all += count(i)
	}
	offsets := f.dbi.files + 4 + int64(len(head))
	text, end := offsets+4*all, f.dbi.files+f.dbi.filesSize
	if text > end {
		return fmt.Errorf("%d source files in %d bytes", all, f.dbi.filesSize)
	}
	b := newBlocks(s, end, blockSize, min(maxNames, f.dbi.filesSize))
	seen := map[uint32]bool{}
	first, module := int64(0), 0
	for _, i := range wanted {
		for ; module < i; module++ {
			first += count(module)
		}
		for k := range count(i) {
			p, err := b.bytes(offsets+4*(first+k), 4)
			if err != nil {
				return err
			}
			at := u32(p, 0)
			if seen[at] || int64(at) >= end-text {
				continue
			}
			if len(seen) >= maxFileEntries {
				return stopped{fmt.Errorf("pdb: more than %d source files", maxFileEntries)}
			}
			seen[at] = true
			name, err := b.text(text+int64(at), maxStringLength)
			if err != nil || len(name) == 0 {
				continue
			}
			if err := yield(SourceFile{Name: string(name)}); err != nil {
				return stopped{err}
			}
		}
	}
	return nil
}

// stopped is an error that ends the search.
type stopped struct{ error }

// sourceError is the error of a part that all source files need: nothing if it is only
// missing.
func (f *File) sourceError(part string, err error) error {
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("pdb: %s: %w", part, err)
}

// sources yields the files of one module.
func (l *moduleLines) sources(names *stringTable, seen map[uint32]bool, yield func(SourceFile) error) error {
	return l.each(func(kind uint32, at, n int64) error {
		if kind != c13Checksums {
			return nil
		}
		return l.eachFile(at, n, func(c checksum, kind uint8, at int64) error {
			alg, known := checksumKinds[kind]
			if has, ok := seen[c.name]; ok && (has || !known) {
				return nil
			}
			if len(seen) >= maxFileEntries {
				return stopped{fmt.Errorf("pdb: more than %d source files", maxFileEntries)}
			}
			out := SourceFile{}
			if known {
				p, err := l.bytes(at, 2+int64(alg.size))
				if known = err == nil && int(p[0]) == alg.size; known {
					out.Algorithm, out.Sum = alg.name, slices.Clone(p[2:])
				}
			}
			if has, ok := seen[c.name]; ok && has == known {
				return nil
			}
			seen[c.name] = known
			if out.Name = names.text(c.name, maxStringLength); out.Name == "" {
				return nil
			}
			if err := yield(out); err != nil {
				return stopped{err}
			}
			return nil
		})
	})
}

// NamedStream returns the named stream, whose name is compared without case. The error
// wraps fs.ErrNotExist if there is none or it is empty.
func (f *File) NamedStream(name string) (*io.SectionReader, error) {
	names, err := f.Names()
	if err != nil {
		return nil, err
	}
	n, ok := names[name]
	if !ok {
		low := strings.ToLower(name)
		for _, have := range sortedNames(names) {
			if strings.ToLower(have) == low {
				n, ok = names[have], true
				break
			}
		}
	}
	if ok {
		if ok, err = f.hasBytes(n); err != nil {
			return nil, err
		}
	}
	if !ok {
		return nil, fmt.Errorf("pdb: stream %q: %w", name, fs.ErrNotExist)
	}
	return f.Stream(n)
}

// SourceLinks returns the streams with the JSON of Source Link: linkers write one for each
// object file that has some. There is none in most files.
func (f *File) SourceLinks() ([]*io.SectionReader, error) {
	names, err := f.Names()
	if err != nil {
		return nil, err
	}
	var list []*io.SectionReader
	for _, name := range sortedNames(names) {
		if !isSourceLink(strings.ToLower(name)) || len(list) == maxSourceLinks {
			continue
		}
		s, err := f.NamedStream(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// sortedNames returns the names of streams in order, for results that do not change.
func sortedNames(names map[string]int) []string {
	list := make([]string, 0, len(names))
	for name := range names {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// InjectedSource is a file that the linker or a later tool has put into the PDB.
type InjectedSource struct {
	Name string // the path of the file where it was
	// Size is the number of its bytes, as the list says.
	Size int64
	// Compression is 0 for none. Text with another one cannot be read.
	Compression uint8

	f      *File
	stream string
}

// Open returns the text. The error wraps fs.ErrNotExist if there is none or it is
// compressed.
func (s InjectedSource) Open() (*io.SectionReader, error) {
	if s.Compression != 0 {
		return nil, fmt.Errorf("pdb: injected file %q with compression %d: %w", s.Name, s.Compression, fs.ErrNotExist)
	}
	r, err := s.f.NamedStream(s.stream)
	if err != nil {
		return nil, err
	}
	return io.NewSectionReader(r, 0, min(r.Size(), s.Size)), nil
}

// InjectedSources lists the files that were put into the PDB, such as visualizers of types.
// There is none in most files.
func (f *File) InjectedSources() ([]InjectedSource, error) {
	s, err := f.NamedStream(streamInjected)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	names, err := f.readNames()
	if err != nil {
		return nil, fmt.Errorf("pdb: string table: %w", err)
	}
	const head = 64
	if s.Size() < head || s.Size() > maxInjected {
		return nil, fmt.Errorf("pdb: list of injected files: %d bytes", s.Size())
	}
	b := make([]byte, s.Size()-head)
	if err := readFull(s, b, head); err != nil {
		return nil, fmt.Errorf("pdb: list of injected files: %w", err)
	}
	list, err := f.injected(b, names)
	if err != nil {
		return nil, fmt.Errorf("pdb: list of injected files: %w", err)
	}
	return list, nil
}

// injected reads the hash table of injected files. Its values have 40 bytes: the size of
// the value, a version, a checksum, the size of the file, the names of the file, of the
// object and of the stream, the compression.
func (f *File) injected(b []byte, names *stringTable) ([]InjectedSource, error) {
	c := &cursor{b: b}
	c.u32() // count
	c.u32() // buckets
	present := bytes.Clone(c.take(4 * uint64(c.u32())))
	c.take(4 * uint64(c.u32())) // deleted buckets
	var list []InjectedSource
	for i := 0; i < 8*len(present) && c.err == nil; i++ {
		if present[i/8]>>(i%8)&1 == 0 {
			continue
		}
		c.u32() // the key: the name
		v := c.take(40)
		if c.err != nil {
			break
		}
		name, virtual := names.text(u32(v, 16), maxStringLength), names.text(u32(v, 24), maxStringLength)
		if name == "" || virtual == "" {
			continue
		}
		list = append(list, InjectedSource{
			Name: name, Size: int64(u32(v, 12)), Compression: v[28], f: f,
			stream: injectedPrefix + strings.ToLower(virtual)})
	}
	return list, c.err
}

// HasSources reports whether the PDB has source text or links to it: a srcsrv
// stream, Source Link, or injected files.
func (f *File) HasSources() (bool, error) {
	names, err := f.Names()
	if err != nil {
		return false, err
	}
	looked := 0
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if low := strings.ToLower(name); low != streamSrcsrv && low != streamInjected && !isSourceLink(low) {
			continue
		}
		if has, err := f.hasBytes(names[name]); err != nil || has {
			return has, err
		}
		// Do not search through many names of empty streams.
		if looked++; looked == 16 {
			break
		}
	}
	return false, nil
}
