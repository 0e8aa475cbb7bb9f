package ppdb

import (
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/bits"
	"strings"
	"unicode/utf8"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/metadata"
)

// Limits of the results of Lines. Rows are read one at a time.
const (
	maxJSON     = 16 << 20 // bytes of Source Link
	maxPath     = 64 << 10 // bytes of a document's name
	maxEmbedded = 1 << 20  // documents with embedded text
	maxPoints   = 4 << 20  // bytes of the points of one method, three or more each
)

// More tables of the format.
const (
	tableMethodDef    = 0x06
	tableStateMachine = 0x36
	tableCustom       = 0x37
	firstDebugTable   = tableDocument
)

// customParents are the tables that the parent of custom debug information can be in
// (Portable PDB format, HasCustomDebugInformation); their order is that of the tags.
var customParents = []int{
	0x06, 0x04, 0x01, 0x02, 0x08, 0x09, 0x0A, 0x00, 0x0E, 0x17, 0x14, 0x11, 0x1A, 0x1B, 0x20, 0x23,
	0x26, 0x27, 0x28, 0x2A, 0x2C, 0x2B, 0x30, 0x32, 0x33, 0x34, 0x35,
}

// customDocument is the tag of a document as the parent.
const customDocument = 22

// customModule is the parent of information about the whole module: row 1 of table 0.
const customModule = 1<<5 | 7

// Lines are the documents and sequence points of a portable PDB: they lead from an
// instruction of a method to a source line. Methods are rows of the MethodDef table
// of the assembly, which start at 1; the assembly holds their names. Methods of Lines
// may be called from several goroutines if the ReaderAt of the file allows that.
type Lines struct {
	f       *File
	rows    [metadata.TableCount]uint32
	tables  [metadata.TableCount]metadata.Section // of the debug tables
	wide    struct{ strings, guids, blobs bool }
	widths  [metadata.TableCount]int // bytes of a row
	guids   metadata.Section
	blobs   metadata.Section
	columns int // bytes of the parent of custom debug information
}

// A Document is a source file.
type Document struct {
	Name          string
	Language      debugid.GUID // C# is 3f5162f8-07c6-11d3-9053-00c04fa302a1
	HashAlgorithm debugid.GUID // the zero GUID without a hash
	Hash          []byte
}

// A Point is a sequence point: from IL offset Offset to that of the next point, the
// instructions of a method belong to a range of lines and columns. A hidden point
// marks instructions without source.
type Point struct {
	Offset            uint32
	Document          uint32 // row of the document, 0 for none
	Hidden            bool
	Line, EndLine     uint32
	Column, EndColumn uint32
}

// Lines reads the positions of the tables. The error wraps fs.ErrNotExist if the
// file has no tables, and io.ErrUnexpectedEOF if a table exceeds its stream.
func (f *File) Lines() (*Lines, error) {
	l, err := f.lines()
	if err != nil {
		return nil, fmt.Errorf("ppdb: tables: %w", err)
	}
	return l, nil
}

func (f *File) lines() (*Lines, error) {
	h, ok, err := f.root.Header()
	if err == nil && !ok {
		err = fmt.Errorf("no #~ stream: %w", fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	l := &Lines{f: f, rows: h.Rows}
	l.guids, _ = f.root.Stream("#GUID")
	l.blobs, _ = f.root.Stream("#Blob")
	l.wide.strings, l.wide.guids, l.wide.blobs = h.Wide.Strings, h.Wide.GUIDs, h.Wide.Blobs
	if h.Present&(1<<firstDebugTable-1) != 0 || h.Present>>(tableCustom+1) != 0 {
		return nil, fmt.Errorf("tables %#x: only the tables of debug information are supported", h.Present)
	}
	all, err := f.referenced(h.Rows)
	if err != nil {
		return nil, err
	}
	l.measure(all)
	off := int64(0)
	for i := firstDebugTable; i <= tableCustom; i++ {
		size := int64(l.rows[i]) * int64(l.widths[i])
		if size > h.Data.Size-off {
			return nil, fmt.Errorf("table %#x of %d rows in a stream of %d bytes: %w", i, l.rows[i], h.Data.Size, io.ErrUnexpectedEOF)
		}
		l.tables[i] = metadata.Section{Offset: h.Data.Offset + off, Size: size}
		off += size
	}
	return l, nil
}

// referenced adds to rows the counts of the assembly's tables, which the #Pdb stream
// holds: columns that refer to large tables are wide.
func (f *File) referenced(rows [metadata.TableCount]uint32) ([metadata.TableCount]uint32, error) {
	s, _ := f.root.Stream("#Pdb")
	var h [32 + 4*64]byte
	n := min(s.Size, int64(len(h)))
	if n < 32 {
		return rows, nil // no reference to another table
	}
	if err := metadata.ReadFull(f.r, h[:n], s.Offset); err != nil {
		return rows, fmt.Errorf("#Pdb stream: %w", err)
	}
	tables := binary.LittleEndian.Uint64(h[24:])
	if need := 32 + 4*int64(bits.OnesCount64(tables)); need > n {
		return rows, fmt.Errorf("#Pdb stream: %d bytes of row counts in a stream of %d: %w", need, s.Size, io.ErrUnexpectedEOF)
	}
	p := h[32:]
	for i := range rows {
		if tables>>i&1 == 1 {
			if i < firstDebugTable {
				rows[i] = binary.LittleEndian.Uint32(p)
			}
			p = p[4:]
		}
	}
	return rows, nil
}

// measure computes the widths of rows from the row counts of all tables.
func (l *Lines) measure(rows [metadata.TableCount]uint32) {
	heap := func(wide bool) int {
		if wide {
			return 4
		}
		return 2
	}
	index := func(table int) int { return heap(rows[table] >= 1<<16) }
	text, guid, blob := heap(l.wide.strings), heap(l.wide.guids), heap(l.wide.blobs)
	l.columns = 2
	for _, t := range customParents {
		if rows[t] >= 1<<(16-5) {
			l.columns = 4
		}
	}
	l.widths[0x30] = blob + guid + blob + guid
	l.widths[0x31] = index(tableDocument) + blob
	l.widths[0x32] = index(tableMethodDef) + index(0x35) + index(0x33) + index(0x34) + 8
	l.widths[0x33] = 4 + text
	l.widths[0x34] = text + blob
	l.widths[0x35] = index(0x35) + blob
	l.widths[0x36] = 2 * index(tableMethodDef)
	l.widths[0x37] = l.columns + guid + blob
}

// row reads row n, from 1, of a table.
func (l *Lines) row(table int, n uint32) (*cells, error) {
	if n == 0 || n > l.rows[table] {
		return nil, fmt.Errorf("row %d of the %d in table %#x: %w", n, l.rows[table], table, fs.ErrNotExist)
	}
	b := make([]byte, l.widths[table])
	if err := metadata.ReadFull(l.f.r, b, l.tables[table].Offset+int64(n-1)*int64(len(b))); err != nil {
		return nil, err
	}
	return &cells{b}, nil
}

// cells are the columns of a row.
type cells struct{ b []byte }

// next returns the next column, of 2 or 4 bytes.
func (c *cells) next(wide bool) uint32 {
	if wide {
		v := binary.LittleEndian.Uint32(c.b)
		c.b = c.b[4:]
		return v
	}
	v := binary.LittleEndian.Uint16(c.b)
	c.b = c.b[2:]
	return uint32(v)
}

// blob reads the blob at index i of the #Blob heap, of at most limit bytes.
func (l *Lines) blob(i uint32, limit int) ([]byte, error) {
	if i == 0 {
		return nil, nil
	}
	s, err := l.blobSection(i)
	if err != nil {
		return nil, err
	}
	if s.Size() > int64(limit) {
		return nil, fmt.Errorf("blob %d of %d bytes exceeds the limit of %d", i, s.Size(), limit)
	}
	b := make([]byte, s.Size())
	return b, metadata.ReadFull(s, b, 0)
}

// blobSection finds the blob at index i of the #Blob heap. The error wraps
// io.ErrUnexpectedEOF if it is not within the heap.
func (l *Lines) blobSection(i uint32) (*io.SectionReader, error) {
	var h [4]byte
	left := l.blobs.Size - int64(i)
	if left <= 0 {
		return nil, fmt.Errorf("blob %d in a heap of %d bytes: %w", i, l.blobs.Size, io.ErrUnexpectedEOF)
	}
	head := h[:min(left, 4)]
	if err := metadata.ReadFull(l.f.r, head, l.blobs.Offset+int64(i)); err != nil {
		return nil, err
	}
	r := metadata.Blob{Rest: head}
	size := r.Unsigned()
	if r.Err != nil {
		return nil, fmt.Errorf("blob %d: %w", i, r.Err)
	}
	start := int64(len(head) - len(r.Rest))
	if int64(size) > left-start {
		return nil, fmt.Errorf("blob %d of %d bytes in a heap of %d: %w", i, size, l.blobs.Size, io.ErrUnexpectedEOF)
	}
	return io.NewSectionReader(l.f.r, l.blobs.Offset+int64(i)+start, int64(size)), nil
}

// guid reads GUID n, from 1, of the #GUID heap. 0 is the zero GUID.
func (l *Lines) guid(n uint32) (b [16]byte, err error) {
	if n == 0 {
		return b, nil
	}
	off := int64(n-1) * 16
	if off > l.guids.Size-16 {
		return b, fmt.Errorf("GUID %d in a heap of %d bytes: %w", n, l.guids.Size, io.ErrUnexpectedEOF)
	}
	return b, metadata.ReadFull(l.f.r, b[:], l.guids.Offset+off)
}

// id reads GUID n as an id.
func (l *Lines) id(n uint32) (debugid.GUID, error) {
	g, err := l.guid(n)
	if err != nil || n == 0 {
		return debugid.GUID{}, err
	}
	return debugid.FromMicrosoft(g), nil
}

// Methods returns the number of methods that the tables can hold. Methods
// without points count too.
func (l *Lines) Methods() uint32 { return l.rows[tableMethod] }

// Documents returns the number of documents.
func (l *Lines) Documents() uint32 { return l.rows[tableDocument] }

// Document reads document n, from 1. The error wraps fs.ErrNotExist if there are
// fewer.
func (l *Lines) Document(n uint32) (Document, error) {
	d, err := l.document(n)
	if err != nil {
		return Document{}, fmt.Errorf("ppdb: document %d: %w", n, err)
	}
	return d, nil
}

func (l *Lines) document(n uint32) (d Document, err error) {
	c, err := l.row(tableDocument, n)
	if err != nil {
		return d, err
	}
	name, algorithm := c.next(l.wide.blobs), c.next(l.wide.guids)
	hash, language := c.next(l.wide.blobs), c.next(l.wide.guids)
	if d.Name, err = l.path(name); err != nil {
		return d, fmt.Errorf("name: %w", err)
	}
	if d.HashAlgorithm, err = l.id(algorithm); err != nil {
		return d, err
	}
	if d.Language, err = l.id(language); err != nil {
		return d, err
	}
	if d.Hash, err = l.blob(hash, 1<<10); err != nil {
		return d, fmt.Errorf("hash: %w", err)
	}
	return d, nil
}

// path reads the name of a document: a separator, then the blobs of its parts.
func (l *Lines) path(index uint32) (string, error) {
	b, err := l.blob(index, maxPath)
	if err != nil || len(b) == 0 {
		return "", err
	}
	_, n := utf8.DecodeRune(b)
	separator := string(b[:n])
	if separator == "\x00" {
		separator = ""
	}
	var path strings.Builder
	r := metadata.Blob{Rest: b[n:]}
	for i := 0; len(r.Rest) > 0; i++ {
		part, err := l.blob(r.Unsigned(), maxPath)
		if err == nil {
			err = r.Err
		}
		if err != nil {
			return "", err
		}
		if i > 0 {
			path.WriteString(separator)
		}
		path.Write(part)
		if path.Len() > maxPath {
			return "", fmt.Errorf("more than %d bytes", maxPath)
		}
	}
	return path.String(), nil
}

// Points reads the sequence points of a method, in the order of their offsets. The
// error wraps fs.ErrNotExist if the tables have no such method; a method without
// source has no points.
func (l *Lines) Points(method uint32) ([]Point, error) {
	points, err := l.points(method)
	if err != nil {
		return nil, fmt.Errorf("ppdb: method %d: %w", method, err)
	}
	return points, nil
}

func (l *Lines) points(method uint32) ([]Point, error) {
	c, err := l.row(tableMethod, method)
	if err != nil {
		return nil, err
	}
	document, index := c.next(l.rows[tableDocument] >= 1<<16), c.next(l.wide.blobs)
	b, err := l.blob(index, maxPoints)
	if err != nil || len(b) == 0 {
		return nil, err
	}
	r := metadata.Blob{Rest: b}
	r.Unsigned() // signature of the local variables
	if document == 0 {
		document = r.Unsigned()
	}
	var points []Point
	var line, column int64 // of the last point that is not hidden
	first, hidden := true, true
	offset := uint64(0)
	for len(r.Rest) > 0 && r.Err == nil {
		delta := r.Unsigned()
		if delta == 0 && !first {
			document = r.Unsigned()
			continue
		}
		if document > l.rows[tableDocument] {
			return nil, fmt.Errorf("document %d of %d", document, l.rows[tableDocument])
		}
		first = false
		offset += uint64(delta)
		p := Point{Offset: uint32(offset), Document: document}
		lines := int64(r.Unsigned())
		var columns int64
		if lines == 0 {
			columns = int64(r.Unsigned())
		} else {
			columns = int64(r.Signed())
		}
		if p.Hidden = lines == 0 && columns == 0; !p.Hidden {
			if hidden {
				hidden = false
				line, column = int64(r.Unsigned()), int64(r.Unsigned())
			} else {
				line += int64(r.Signed())
				column += int64(r.Signed())
			}
			p.Line, p.EndLine = uint32(line), uint32(line+lines)
			p.Column, p.EndColumn = uint32(column), uint32(column+columns)
		}
		const limit = 1 << 29 // of every number in the format
		if r.Err == nil && (offset >= limit || line < 0 || line+lines >= limit || column < 0 || column+columns < 0 || column+columns >= limit) {
			return nil, fmt.Errorf("point at IL offset %d: line %d or column %d is out of range", offset, line, column)
		}
		points = append(points, p)
	}
	return points, r.Err
}

// Line returns the point that the instruction at IL offset belongs to: the last
// one at or before offset that is not hidden. ok is false if there is none.
func Line(points []Point, offset uint32) (p Point, ok bool) {
	for _, q := range points {
		if q.Offset > offset {
			break
		}
		if !q.Hidden {
			p, ok = q, true
		}
	}
	return p, ok
}

// Kickoff returns the method that the compiler made the state machine of moveNext
// from: a method with await or yield. The error wraps fs.ErrNotExist if moveNext is
// not the method of a state machine.
func (l *Lines) Kickoff(moveNext uint32) (uint32, error) {
	wide := l.widths[tableStateMachine] == 8
	// The table is sorted by its first column.
	low, high := uint32(1), l.rows[tableStateMachine]+1
	for low < high {
		mid := low + (high-low)/2
		c, err := l.row(tableStateMachine, mid)
		if err != nil {
			return 0, fmt.Errorf("ppdb: state machines: %w", err)
		}
		switch m := c.next(wide); {
		case m == moveNext:
			return c.next(wide), nil
		case m < moveNext:
			low = mid + 1
		default:
			high = mid
		}
	}
	return 0, fmt.Errorf("ppdb: method %d is not of a state machine: %w", moveNext, fs.ErrNotExist)
}

// customRow is a row of custom debug information.
type customRow struct {
	parent uint32 // as stored: the number of a row, and the tag of its table
	kind   uint32 // number of a GUID
	value  uint32 // index of a blob
}

// custom visits all rows of custom debug information until visit returns false.
func (l *Lines) custom(visit func(customRow) (bool, error)) error {
	width := l.widths[tableCustom]
	const rows = 512
	b := make([]byte, rows*width)
	for n, have := uint32(0), l.rows[tableCustom]; n < have; n += rows {
		p := b[:min(rows, int(have-n))*width]
		if err := metadata.ReadFull(l.f.r, p, l.tables[tableCustom].Offset+int64(n)*int64(width)); err != nil {
			return err
		}
		for ; len(p) > 0; p = p[width:] {
			c := cells{p}
			more, err := visit(customRow{c.next(l.columns == 4), c.next(l.wide.guids), c.next(l.wide.blobs)})
			if !more || err != nil {
				return err
			}
		}
	}
	return nil
}

// EmbeddedSource is the text of a document, as it is stored in the file.
type EmbeddedSource struct {
	Document uint32 // row
	// Size is the number of bytes of the text, as the file says.
	Size int64

	stored   *io.SectionReader
	deflated bool
}

// Open returns a reader of the text. It gives no more than Size bytes; the error of reading
// wraps io.ErrUnexpectedEOF if there are fewer.
func (e EmbeddedSource) Open() io.ReadCloser {
	in := io.NewSectionReader(e.stored, 0, e.stored.Size())
	if !e.deflated {
		return io.NopCloser(in)
	}
	z := flate.NewReader(in)
	return &exact{io.LimitReader(z, e.Size), e.Size, z}
}

// exact reports a text that is shorter than its size.
type exact struct {
	r    io.Reader
	left int64
	io.Closer
}

// Read implements io.Reader.
func (e *exact) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	e.left -= int64(n)
	if errors.Is(err, io.EOF) && e.left > 0 {
		err = fmt.Errorf("ppdb: embedded source is %d bytes too short: %w", e.left, io.ErrUnexpectedEOF)
	}
	return n, err
}

// Stored returns the number of bytes that the text takes in the file.
func (e EmbeddedSource) Stored() int64 { return e.stored.Size() }

// EmbeddedSources returns the documents with embedded text, in the order of the table. A
// malformed one is left out.
func (l *Lines) EmbeddedSources() ([]EmbeddedSource, error) {
	list, err := l.embeddedSources()
	if err != nil {
		return nil, fmt.Errorf("ppdb: embedded sources: %w", err)
	}
	return list, nil
}

func (l *Lines) embeddedSources() (list []EmbeddedSource, err error) {
	kind, err := l.f.findGUID(embeddedSource)
	if err != nil || kind == 0 {
		return nil, err
	}
	err = l.custom(func(r customRow) (bool, error) {
		if r.kind != kind || r.parent&31 != customDocument || r.parent>>5 > l.rows[tableDocument] {
			return true, nil
		}
		s, err := l.blobSection(r.value)
		if errors.Is(err, io.ErrUnexpectedEOF) || err == nil && s.Size() < 4 {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		var h [4]byte
		if err := metadata.ReadFull(s, h[:], 0); err != nil {
			return false, err
		}
		e := EmbeddedSource{Document: r.parent >> 5, stored: io.NewSectionReader(s, 4, s.Size()-4)}
		switch format := int32(binary.LittleEndian.Uint32(h[:])); {
		case format == 0:
			e.Size = e.stored.Size()
		case format > 0:
			e.Size, e.deflated = int64(format), true
		default:
			return true, nil // reserved
		}
		list = append(list, e)
		return len(list) < maxEmbedded, nil
	})
	return list, err
}

// SourceLink returns the JSON that maps paths of documents to URLs. The error wraps
// fs.ErrNotExist if the file has none.
func (l *Lines) SourceLink() (text []byte, err error) {
	kind, err := l.f.findGUID(sourceLink)
	found := false
	if err == nil && kind != 0 {
		err = l.custom(func(r customRow) (bool, error) {
			if found = r.parent == customModule && r.kind == kind; !found {
				return true, nil
			}
			if text, err = l.blob(r.value, maxJSON); err != nil {
				err = fmt.Errorf("text of Source Link: %w", err)
			}
			return false, err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("ppdb: custom debug information: %w", err)
	}
	if !found {
		return nil, fmt.Errorf("ppdb: Source Link: %w", fs.ErrNotExist)
	}
	return text, nil
}
