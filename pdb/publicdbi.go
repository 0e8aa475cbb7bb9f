package pdb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/symdepot/symdepot/internal/base/sharedtext"
)

// Limits of what a public PDB keeps beside its symbols.
const (
	maxPublicModules = 128 << 20 // bytes of module records
	maxFramePrograms = 1 << 20
	maxFrameText     = 16 << 20 // bytes of all programs
	optionalStreams  = 11
	moduleHead       = 64 // bytes of a module record before its names
	headerBytes      = 40
)

// publicDBI makes the DBI stream of a public PDB.
type publicDBI struct {
	s        *stripper
	list     []compiland
	modules  bytes.Buffer
	optional [optionalStreams]uint16
}

// readModules makes the module records: their first contribution and their names.
func (d *publicDBI) readModules() error {
	lines := int64(0)
	err := d.s.f.eachModule(func(head []byte, m compiland) error {
		d.list = append(d.list, m)
		h := make([]byte, moduleHead)
		copyContribution(h[4:], head[4:])
		if err := checkNumbers(bytes.NewReader(h)); err != nil {
			return err
		}
		binary.LittleEndian.PutUint16(h[34:], noStream)
		d.modules.Write(h)
		for _, name := range []string{m.name, m.object} {
			short := pathless(name)
			if cut := len(name) - len(short); cut > 0 {
				d.s.take(RemovedPaths, 1, int64(cut))
			}
			d.modules.WriteString(short)
			d.modules.WriteByte(0)
		}
		d.modules.Write(make([]byte, -d.modules.Len()&3))
		lines += m.c11 + m.c13
		if m.c11+m.c13 > 0 {
			d.s.take(RemovedLines, 1, m.c11+m.c13)
		}
		return d.s.takeStream(RemovedSymbols, m.stream, 1)
	})
	// The lines stand in the streams of the modules.
	if symbols := d.s.removed[RemovedSymbols]; symbols != nil {
		symbols.Bytes = max(symbols.Bytes-lines, 0)
	}
	return err
}

// pathless returns the name of a file without its folders. Names of modules that the
// linker makes, such as * Linker * and Import:KERNEL32.dll, have none.
func pathless(name string) string {
	name = name[strings.LastIndexAny(name, `\/`)+1:]
	if len(name) > 1 && name[1] == ':' {
		return name[2:] // a drive without a folder
	}
	return name
}

// copyContribution copies a contribution to a section without the checksums of its content and without
// the bytes that only align it.
func copyContribution(to, from []byte) {
	copy(to[:2], from[:2])     // section
	copy(to[4:18], from[4:18]) // offset, size, characteristics, module
}

// contributions returns the contributions to sections, and their size in bytes.
func (d *publicDBI) contributions() (io.Reader, int64, error) {
	f := d.s.f
	if f.dbi.contributions < 4 {
		return bytes.NewReader(nil), 0, nil
	}
	in, err := f.section(DBIStream)
	if err != nil {
		return nil, 0, err
	}
	w := &window{}
	start := 64 + f.dbi.modules
	w.reset(in, start, start+f.dbi.contributions)
	p, err := w.peek(4)
	if err != nil {
		return nil, 0, err
	}
	size := contributionSize(p)
	if size == 0 {
		return bytes.NewReader(nil), 0, nil // of before 1997
	}
	n := (f.dbi.contributions - 4) / size
	head := bytes.Clone(p[:4])
	w.skip(4)
	c := make([]byte, size)
	r := &pulled{next: func() ([]byte, error) {
		p, err := w.peek(int(size))
		if err != nil || int64(len(p)) < size {
			return nil, orEOF(err)
		}
		copyContribution(c, p)
		w.skip(size)
		return c, nil
	}}
	return io.MultiReader(bytes.NewReader(head), r), 4 + n*size, nil
}

// orEOF returns err, or io.EOF if there is none.
func orEOF(err error) error {
	if err == nil {
		return io.EOF
	}
	return err
}

// sectionMap returns the section map: numbers only.
func (d *publicDBI) sectionMap(size int64) ([]byte, error) {
	f := d.s.f
	in, err := f.section(DBIStream)
	if err != nil || size < 4 {
		return nil, err
	}
	at := 64 + f.dbi.modules + f.dbi.contributions
	head := make([]byte, 4)
	if err := readFull(in, head, at); err != nil {
		return nil, err
	}
	b := make([]byte, 4+min(20*int64(u16(head, 0)), (size-4)/20*20))
	if err := readFull(in, b, at); err != nil {
		return nil, err
	}
	return b, checkNumbers(bytes.NewReader(b))
}

// stream returns the DBI stream.
func (d *publicDBI) stream() (publicStream, error) {
	f := d.s.f
	in, err := f.section(DBIStream)
	if err != nil {
		return publicStream{}, err
	}
	was := make([]byte, 64)
	if err := readFull(in, was, 0); err != nil {
		return publicStream{}, err
	}
	parts, contributions, err := d.contributions()
	if err == nil {
		err = checkNumbers(parts)
	}
	if err != nil {
		return publicStream{}, fmt.Errorf("section contributions: %w", err)
	}
	sectionMap, err := d.sectionMap(int64(int32(u32(was, 32))))
	if err != nil {
		return publicStream{}, fmt.Errorf("section map: %w", err)
	}
	files := emptyFiles(len(d.list))
	d.s.take(RemovedFiles, 0, max(int64(int32(u32(was, 36)))-int64(len(files)), 0))
	if n := int64(int32(u32(was, 40))) + int64(int32(u32(was, 52))); n > 0 {
		// Type servers and files of edit and continue.
		d.s.take(RemovedFiles, 0, n)
	}
	names := emptyNames()
	optional := make([]byte, 0, 2*optionalStreams)
	for _, n := range d.optional {
		optional = binary.LittleEndian.AppendUint16(optional, n)
	}
	h := make([]byte, 64)
	le := binary.LittleEndian
	le.PutUint32(h, 0xFFFFFFFF)
	copy(h[4:12], was[4:12]) // version, age
	le.PutUint16(h[12:], publicGlobals)
	copy(h[14:16], was[14:16]) // version of the linker
	le.PutUint16(h[16:], publicPublics)
	copy(h[18:20], was[18:20]) // version of the library that wrote the PDB
	le.PutUint16(h[20:], publicRecords)
	copy(h[22:24], was[22:24]) // its build
	for off, n := range map[int]int64{24: int64(d.modules.Len()), 28: contributions, 32: int64(len(sectionMap)), 36: int64(len(files)),
		48: int64(len(optional)), 52: int64(len(names))} {
		le.PutUint32(h[off:], uint32(n))
	}
	le.PutUint16(h[56:], 2) // stripped
	le.PutUint16(h[58:], f.Machine)
	tail := bytes.Join([][]byte{sectionMap, files, names, optional}, nil)
	return publicStream{
		size: int64(len(h)+d.modules.Len()) + contributions + int64(len(tail)),
		open: func() io.Reader {
			parts, _, err := d.contributions()
			if err != nil {
				parts = &pulled{next: func() ([]byte, error) { return nil, err }}
			}
			return io.MultiReader(bytes.NewReader(h), bytes.NewReader(d.modules.Bytes()), parts, bytes.NewReader(tail))
		},
	}, nil
}

// emptyFiles returns the list of source files of n modules, which have none.
func emptyFiles(n int) []byte {
	b := make([]byte, 4+4*n)
	binary.LittleEndian.PutUint16(b, uint16(n)) // of more modules, the number is cut
	return b
}

// emptyNames returns a string table without strings.
func emptyNames() []byte { return (&publicTable{}).bytes() }

// publicTable is a string table to be written.
type publicTable struct {
	text    []byte // behind the NUL of the empty text
	offsets []uint32
}

// add adds a text and returns its offset.
func (t *publicTable) add(text string) uint32 {
	at := uint32(len(t.text) + 1)
	t.offsets = append(t.offsets, at)
	t.text = append(append(t.text, text...), 0)
	return at
}

// bytes returns the table: the texts, and a hash table of their offsets, which grows as
// those of linkers do.
func (t *publicTable) bytes() []byte {
	buckets := make([]uint32, 1)
	for n := 1; n <= len(t.offsets); n++ {
		if len(buckets)*3/4 < n {
			buckets = make([]uint32, len(buckets)*3/2+1)
		}
	}
	for _, at := range t.offsets {
		i := int(hashText(nameAt(t.text, int(at-1))) % uint32(len(buckets)))
		for buckets[i] != 0 {
			i = (i + 1) % len(buckets)
		}
		buckets[i] = at
	}
	le := binary.LittleEndian
	b := le.AppendUint32(nil, 0xEFFEEFFE)
	b = le.AppendUint32(b, 1)
	b = le.AppendUint32(b, uint32(1+len(t.text)))
	b = append(append(b, 0), t.text...)
	b = le.AppendUint32(b, uint32(len(buckets)))
	for _, at := range buckets {
		b = le.AppendUint32(b, at)
	}
	return le.AppendUint32(b, uint32(len(t.offsets)))
}

// readOptional makes the streams of the optional debug header: section headers, OMAP and
// frame data.
func (s *stripper) readOptional(d *publicDBI) error {
	in, err := s.f.section(DBIStream)
	if err != nil {
		return err
	}
	table := &publicTable{}
	programs := &framePrograms{s: s, table: table, known: map[uint32]uint32{}, texts: map[string]uint32{}}
	kept := map[int]struct {
		size  int64
		clean func([]byte) ([]byte, error)
	}{
		optFPO:      {16, unchanged},
		optToSource: {8, unchanged},
		optOMAP:     {8, unchanged},
		optSections: {headerBytes, cleanSection},
		optNewFPO:   {32, programs.clean},
		optOriginal: {headerBytes, cleanSection},
	}
	taken := maps.Clone(s.used)
	for i := range optionalStreams {
		d.optional[i] = noStream
		n, err := s.f.optionalNumber(in, i)
		if err != nil {
			return err
		}
		k, ok := kept[i]
		if has, err := s.f.hasBytes(n); err != nil || !has || !ok {
			if err != nil {
				return err
			}
			continue
		}
		if taken[n] {
			return fmt.Errorf("entry %d of the optional debug header is stream %d, which has something else", i, n)
		}
		s.used[n] = true
		stream, err := s.records(n, k.size, k.clean)
		if err != nil {
			return fmt.Errorf("stream %d of the optional debug header: %w", i, err)
		}
		d.optional[i] = uint16(len(s.streams))
		s.streams = append(s.streams, stream)
	}
	s.streams[publicNames] = memory(table.bytes())
	return s.countNames(int64(len(table.text)))
}

// countNames counts the strings that were taken away.
func (s *stripper) countNames(kept int64) error {
	names, err := s.f.Names()
	if err != nil {
		return err
	}
	n, ok := names["/names"]
	if !ok || n <= IPIStream || n >= s.f.c.count() || s.used[n] {
		return nil
	}
	s.used[n] = true
	in, err := s.f.section(n)
	if err != nil {
		return err
	}
	s.take(RemovedStrings, 0, max(in.Size()-kept, 0))
	return nil
}

// records returns a stream of the records of stream n, each of size bytes, as clean
// leaves them. All are read once before, so that clean has seen them.
func (s *stripper) records(n int, size int64, clean func([]byte) ([]byte, error)) (publicStream, error) {
	in, err := s.f.section(n)
	if err != nil {
		return publicStream{}, err
	}
	whole := in.Size() / size * size
	open := func() io.Reader {
		w := &window{}
		w.reset(in, 0, whole)
		return &pulled{next: func() ([]byte, error) {
			p, err := w.peek(int(size))
			if err != nil || int64(len(p)) < size {
				return nil, orEOF(err)
			}
			p, err = clean(p[:size])
			w.skip(size)
			return p, err
		}}
	}
	if size == headerBytes {
		_, err = io.Copy(io.Discard, open()) // the names are texts
		return publicStream{whole, open}, err
	}
	return publicStream{whole, open}, checkNumbers(open())
}

// errText is the error for a text where numbers should be.
var errText = errors.New("a text stands where numbers should be")

// checkNumbers reads all of r, a table of numbers. In a damaged file, such a table can lie where
// private texts are.
func checkNumbers(r io.Reader) error {
	_, err := io.Copy(&numbersOnly{}, r)
	return err
}

// numbersOnly refuses texts: eight printable characters in a row of one byte or of two.
type numbersOnly struct {
	narrow int // printable bytes at the end
	wide   int // pairs of a printable byte and zero at the end
}

// Write implements io.Writer.
func (n *numbersOnly) Write(p []byte) (int, error) {
	for i, c := range p {
		switch {
		case c >= ' ' && c <= '~':
			if n.narrow++; n.narrow > 1 {
				n.wide = 0
			}
		case c == 0 && n.narrow == 1:
			n.narrow = 0
			n.wide++
		default:
			n.narrow, n.wide = 0, 0
		}
		if n.narrow == sharedtext.Shortest || n.wide == sharedtext.Shortest {
			return i, errText
		}
	}
	return len(p), nil
}

// unchanged keeps a record of numbers.
func unchanged(p []byte) ([]byte, error) { return p, nil }

// cleanSection returns a section header whose name has nothing behind its end.
func cleanSection(p []byte) ([]byte, error) {
	c := bytes.Clone(p)
	name, _ := untilNUL(c[:8])
	clear(c[len(name):8])
	return c, checkNumbers(bytes.NewReader(c[8:]))
}

// framePrograms are the programs of frame data that the output has.
type framePrograms struct {
	s     *stripper
	table *publicTable
	names *stringTable
	known map[uint32]uint32 // offset in the output by that in the input
	texts map[string]uint32 // by text
}

// clean returns a FRAMEDATA record that refers to the names of the output.
func (f *framePrograms) clean(p []byte) ([]byte, error) {
	was := u32(p, 20)
	is, ok := f.known[was]
	if !ok {
		if len(f.known) == maxFramePrograms {
			return nil, fmt.Errorf("more than %d programs", maxFramePrograms)
		}
		var err error
		if is, err = f.program(was); err != nil {
			return nil, err
		}
		f.known[was] = is
	}
	c := bytes.Clone(p)
	binary.LittleEndian.PutUint32(c[20:], is)
	return c, nil
}

// program returns the offset in the output of the program at an offset in the input; that of the
// empty text if there is no program.
func (f *framePrograms) program(was uint32) (uint32, error) {
	if f.names == nil {
		var err error
		if f.names, err = f.s.f.readNames(); err != nil {
			return 0, fmt.Errorf("string table: %w", err)
		}
	}
	text := f.names.text(was, maxProgram)
	if text == "" {
		return 0, nil
	}
	if !isProgram(text) {
		f.s.take(RemovedPrograms, 1, int64(len(text)))
		return 0, nil
	}
	if at, ok := f.texts[text]; ok {
		return at, nil
	}
	if len(f.table.text)+len(text) > maxFrameText {
		return 0, fmt.Errorf("more than %d bytes of programs", maxFrameText)
	}
	at := f.table.add(text)
	f.texts[text] = at
	return at, nil
}

// isProgram reports whether a text is a program of frame data: variables, registers, numbers and
// operators with spaces between. A path, to which a damaged record may refer, is none.
func isProgram(text string) bool {
	if len(text) >= maxProgram {
		return false
	}
	for token := range strings.FieldsSeq(text) {
		word := strings.TrimLeft(token, "$.-")
		mark := token[:len(token)-len(word)]
		switch {
		case strings.Trim(token, "+-*/%@^=") == "" && len(token) == 1:
		case mark == "" || mark == "-":
			if word == "" || strings.Trim(word, "0123456789") != "" {
				return false
			}
		case mark == "$" || mark == ".":
			if word == "" || len(word) > 32 || strings.Trim(word, letters) != "" {
				return false
			}
		default:
			return false
		}
	}
	return true
}

const letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
