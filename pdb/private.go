package pdb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/demangle"
	"github.com/symdepot/symdepot/internal/base/sharedtext"
)

// maxMask is how many bytes of a part of the public file are read at once in the search for private
// strings.
const maxMask = 64 << 20

// PrivateString is a string of a private PDB that is in its public form too.
type PrivateString struct {
	Text   string
	Stream int // of the public form; -1 if it is outside all streams
}

// String returns where the string is and the string in quotes.
func (p PrivateString) String() string {
	if p.Stream < 0 {
		return fmt.Sprintf("outside all streams: %q", p.Text)
	}
	return fmt.Sprintf("stream %d: %q", p.Stream, p.Text)
}

// PrivateStrings proves what WritePublic took away. It returns the strings of eight printable ASCII
// characters and more, of one or two bytes each, that are in the private and in the public PDB
// and are not, or not part of, what the public one keeps: names of public symbols that the
// options allow, of modules and libraries without paths, and of sections, and programs of frame data. All
// other bytes of the public file count: padding, unused pages and streams of any kind. There are none
// if all is well. The public file must be an MSF file.
//
// PrivateStrings reads the public file once, and the private one only if the public one has such strings
// at all. It needs 600 MiB of memory at most, and that only if the public file has many such strings. The error says that a file is
// damaged, or that the public file has more strings than can be looked for.
func PrivateStrings(
	private io.ReaderAt, privateSize int64, public io.ReaderAt, publicSize int64, o PublicOptions,
) ([]PrivateString, error) {
	list, err := privateStrings(private, privateSize, public, publicSize, o)
	if err != nil {
		return nil, fmt.Errorf("pdb: private strings: %w", err)
	}
	return list, nil
}

func privateStrings(
	private io.ReaderAt, privateSize int64, public io.ReaderAt, publicSize int64, o PublicOptions,
) ([]PrivateString, error) {
	f, err := open(public, publicSize)
	if err != nil {
		return nil, fmt.Errorf("public file: %w", err)
	}
	if f.Format != MSF || f.NoDBI || f.OldDBI {
		return nil, fmt.Errorf("public file: the format %s without symbols: %w", f.Format, errors.ErrUnsupported)
	}
	s := &sharedtext.Search{}
	m := &masked{f: f, opt: o}
	if err := f.eachPart(func(stream int, r io.Reader, size int64) error {
		m.out = s.Suspects(stream)
		return m.part(stream, r, size)
	}); err != nil {
		return nil, fmt.Errorf("public file: %w", err)
	}
	if !s.HasSuspects() {
		return nil, nil
	}
	p, err := open(private, privateSize)
	if err == nil {
		err = p.eachPart(func(_ int, r io.Reader, size int64) error {
			_, err := io.Copy(s.Compare(), io.LimitReader(r, size))
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("private file: %w", err)
	}
	texts, err := s.Texts()
	if err != nil {
		return nil, fmt.Errorf("public file: %w", err)
	}
	list := make([]PrivateString, 0, len(texts))
	for _, t := range texts {
		list = append(list, PrivateString{t.Text, t.Part})
	}
	return list, nil
}

// eachPart calls visit with the content of each stream, and, with the number -1, with each page
// and each end of a page that belongs to no stream.
func (f *File) eachPart(visit func(stream int, r io.Reader, size int64) error) error {
	for n := range f.c.count() {
		s, err := f.section(n)
		if err != nil {
			return err
		}
		if err := visit(n, s, s.Size()); err != nil {
			return fmt.Errorf("stream %d: %w", n, err)
		}
	}
	m, ok := f.c.(*msf)
	if !ok {
		return nil
	}
	sizes, err := m.sizes()
	if err != nil {
		return err
	}
	used := make([]byte, m.pagesFor(m.end)/8+1)
	at := 4 + m.entry*int64(len(sizes))
	for n, size := range sizes {
		if size == nilSize || size == 0 {
			continue
		}
		pages := m.pagesFor(int64(size))
		numbers := make([]byte, m.width*pages)
		if err := readFull(&m.dir, numbers, at); err != nil {
			return err
		}
		at += int64(len(numbers))
		last := int64(0)
		for b := range slices.Chunk(numbers, int(m.width)) {
			if last = int64(binary.LittleEndian.Uint16(b)); m.width == 4 {
				last = int64(binary.LittleEndian.Uint32(b))
			}
			if last/8 >= int64(len(used)) {
				return fmt.Errorf("stream %d has page %d, beyond the end of the file", n, last)
			}
			used[last/8] |= 1 << (last % 8)
		}
		if tail := int64(size) % m.page; tail > 0 {
			from := last*m.page + tail
			if err := visit(-1, io.NewSectionReader(m.r, from, m.page-tail), max(min(m.page-tail, m.end-from), 0)); err != nil {
				return err
			}
		}
	}
	for page := int64(0); page*m.page < m.end; page++ {
		if used[page/8]>>(page%8)&1 == 1 {
			continue
		}
		from, end := page*m.page, min((page+1)*m.page, m.end)
		if page == 0 {
			from = min(int64(len(MagicMSF)), end)
		}
		if err := visit(-1, io.NewSectionReader(m.r, from, end-from), end-from); err != nil {
			return fmt.Errorf("page %d: %w", page, err)
		}
	}
	return nil
}

// masked gives all bytes of a public file to out but those that it may have.
type masked struct {
	f   *File
	opt PublicOptions
	out io.Writer
}

// part gives a part of the file to out.
func (m *masked) part(stream int, r io.Reader, size int64) error {
	names, err := m.f.Names()
	if err != nil {
		return err
	}
	table, hasNames := names["/names"]
	switch {
	case stream == InfoStream:
		return m.whole(r, size, maskInfo)
	case stream == DBIStream:
		return m.dbi(r, size)
	case stream > IPIStream && stream == m.f.dbi.record:
		return m.records(r, size)
	case stream > IPIStream && stream == m.f.dbi.publics:
		return m.whole(r, size, maskBuckets)
	case stream > IPIStream && hasNames && stream == table:
		return m.whole(r, size, maskPrograms)
	case stream > IPIStream && m.isSections(stream):
		return m.whole(r, size, maskSections)
	}
	_, err = io.Copy(m.out, io.LimitReader(r, size))
	return err
}

// whole gives a part to out after mask has cleared what it may have.
func (m *masked) whole(r io.Reader, size int64, mask func([]byte)) error {
	b := make([]byte, min(size, maxMask))
	if _, err := io.ReadFull(r, b); err != nil {
		return err
	}
	mask(b)
	_, _ = m.out.Write(b)
	_, err := io.Copy(m.out, io.LimitReader(r, size-int64(len(b))))
	return err
}

// isSections reports whether a stream has section headers.
func (m *masked) isSections(stream int) bool {
	s, err := m.f.section(DBIStream)
	if err != nil {
		return false
	}
	for _, i := range []int{optSections, optOriginal} {
		if n, err := m.f.optionalNumber(s, i); err == nil && n == stream {
			return true
		}
	}
	return false
}

// maskInfo clears the ids and the names of streams that every public PDB has.
func maskInfo(b []byte) {
	clear(b[:min(len(b), 28)])
	names := []byte("/LinkInfo\x00/names\x00")
	if i := bytes.Index(b, names); i >= 0 {
		clear(b[i : i+len(names)])
	}
}

// maskBuckets clears the bits of the used buckets of the hash table, which any bytes can be.
func maskBuckets(b []byte) {
	if start := 44 + int64(u32(b, 36)); start < int64(len(b)) {
		clear(b[start:min(start+bucketBits, int64(len(b)))])
	}
}

// maskSections clears the names of sections.
func maskSections(b []byte) {
	for p := range slices.Chunk(b, 40) {
		name, _ := untilNUL(p[:min(len(p), 8)])
		clear(name)
	}
}

// maskPrograms clears the programs in a string table.
func maskPrograms(b []byte) {
	for at := 12; at < len(b) && int64(at) < 12+int64(u32(b, 8)); {
		text, _ := untilNUL(b[at:])
		if at += len(text) + 1; isProgram(string(text)) {
			clear(text)
		}
	}
}

// dbi gives the DBI stream to out without the names of modules that have no path.
func (m *masked) dbi(r io.Reader, size int64) error {
	n := min(64+m.f.dbi.modules, size)
	if n > maxPublicModules {
		return fmt.Errorf("%d bytes of module records are more than the limit of %d", n, maxPublicModules)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return err
	}
	for at := moduleHead; at+moduleHead < len(b); {
		at += moduleHead
		for range 2 {
			name, _ := untilNUL(b[at:])
			if at = min(at+len(name)+1, len(b)); len(pathless(string(name))) == len(name) {
				clear(name)
			}
		}
		at = (at + 3) &^ 3
	}
	_, _ = m.out.Write(b)
	_, err := io.Copy(m.out, io.LimitReader(r, size-n))
	return err
}

// records gives the symbol records to out without the names of public symbols that the options
// allow.
func (m *masked) records(r io.Reader, size int64) error {
	in, ok := r.(io.ReaderAt)
	if !ok {
		return errors.ErrUnsupported
	}
	var w window
	x86 := m.f.Machine == machineX86
	for w.reset(in, 0, size); w.left() > 0; {
		_, kind, data, err := w.record(1)
		if err != nil {
			return err
		}
		if kind == 0 {
			_, err := io.Copy(m.out, io.NewSectionReader(in, w.off, size-w.off))
			return err
		}
		if kind == symPublic && len(data) > 10 {
			if name, ended := untilNUL(data[10:]); ended && m.opt.allows(string(name), x86) {
				_, _ = m.out.Write(data[:10])
				_, _ = io.WriteString(m.out, sharedtext.Break)
				data = data[10+len(name):]
			}
		}
		_, _ = m.out.Write(data)
		_, _ = io.WriteString(m.out, sharedtext.Break)
	}
	return nil
}

// isPlace reports whether a text is the place of a symbol in hex, as names of hidden symbols have it:
// 0xRVA, or SSSS:OOOOOOOO of a section that the headers do not have.
func isPlace(text string) bool {
	if rva, ok := strings.CutPrefix(text, "0x"); ok {
		text = rva
	} else if section, offset, ok := strings.Cut(text, ":"); ok && section != "" {
		text = section + offset
	} else {
		return false
	}
	return text != "" && strings.Trim(text, "0123456789abcdef") == ""
}

// allows reports whether the name of a public symbol may be in the output.
func (o PublicOptions) allows(name string, x86 bool) bool {
	if place, ok := strings.CutPrefix(name, o.module()+"+"); ok && isPlace(place) {
		return true // a hidden name
	}
	shown, hidden := o.shown(name, x86)
	if hidden || !o.Undecorated {
		return !hidden && shown != ""
	}
	bare := demangle.Bare(name, demangle.Options{})
	return bare != "" && strings.HasPrefix(name, bare) // a decorated name does not begin so
}
