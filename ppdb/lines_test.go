package ppdb

import (
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/metadata"
)

// csharp is the GUID of C# as the #GUID heap has it.
var csharp = [16]byte{0xf8, 0x62, 0x51, 0x3f, 0xc6, 0x07, 0xd3, 0x11, 0x90, 0x53, 0x00, 0xc0, 0x4f, 0xa3, 0x02, 0xa1}

// heap collects blobs.
type heap struct{ b []byte }

func (h *heap) add(b ...byte) uint16 {
	i := len(h.b)
	h.b = append(append(h.b, byte(len(b))), b...)
	return uint16(i)
}

// linesSample has two documents, four methods and a state machine.
func linesSample() []stream {
	h := &heap{b: []byte{0}}
	src, a, b := h.add([]byte("src")...), h.add([]byte("a.cs")...), h.add([]byte("b.cs")...)
	names := []uint16{h.add('/', 0, byte(src), byte(a)), h.add(0, byte(b))}
	hash := h.add(1, 2, 3)
	points := []uint16{
		// IL 0: 10:5-10:20; IL 7: hidden; IL 9: 12:9-13:2 (columns shrink); document 2; IL 200: 3:1-3:2.
		h.add(0, 0, 0, 15, 10, 5, 7, 0, 0, 2, 1, 0x73, 4, 8, 0, 2, 0x80, 191, 0, 1, 0x6F, 0x71),
		0,
		// The document stands in the blob: IL 300: 4000:1-4000:2.
		h.add(0, 2, 0x81, 0x2C, 0, 1, 0x8F, 0xA0, 1),
		// A document that does not exist.
		h.add(0, 9, 0, 0, 1, 1, 1),
	}
	link := h.add([]byte(`{"documents":{}}`)...)
	var t []byte
	for i, name := range names {
		t = le.AppendUint16(t, name)
		t = le.AppendUint16(t, uint16(1-i)*3)
		t = le.AppendUint16(t, hash)
		t = le.AppendUint16(t, 2)
	}
	for i, p := range points {
		t = le.AppendUint16(t, []uint16{1, 0, 0, 0}[i])
		t = le.AppendUint16(t, p)
	}
	t = le.AppendUint16(le.AppendUint16(t, 3), 1) // method 3 is of method 1
	t = le.AppendUint16(le.AppendUint16(le.AppendUint16(t, customModule), 1), link)
	s := sample()
	s[1].data = append(tables(map[int]uint32{0x30: 2, 0x31: 4, 0x36: 1, 0x37: 1})[:24+16], t...)
	s[4].data = slices.Concat(sourceLink[:], csharp[:], make([]byte, 16))
	s[5].data = h.b
	return s
}

func mustLines(t testing.TB, s []stream) *Lines {
	t.Helper()
	l, err := mustOpen(t, build("PDB v1.0", s)).Lines()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestLines(t *testing.T) {
	t.Parallel()
	l := mustLines(t, linesSample())
	if l.Documents() != 2 || l.Methods() != 4 {
		t.Errorf("%d documents and %d methods, want 2 and 4", l.Documents(), l.Methods())
	}
	language, err := debugid.ParseGUID("3f5162f8-07c6-11d3-9053-00c04fa302a1")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"/src/a.cs", "b.cs"} {
		d, err := l.Document(uint32(i + 1))
		if err != nil || d.Name != want || d.Language != language || !bytes.Equal(d.Hash, []byte{1, 2, 3}) {
			t.Errorf("Document(%d): %+v, error %v; want %s, C#, hash 010203", i+1, d, err, want)
		}
	}
	for method, want := range map[uint32][]Point{
		1: {
			{Offset: 0, Document: 1, Line: 10, EndLine: 10, Column: 5, EndColumn: 20},
			{Offset: 7, Document: 1, Hidden: true},
			{Offset: 9, Document: 1, Line: 12, EndLine: 13, Column: 9, EndColumn: 2},
			{Offset: 200, Document: 2, Line: 3, EndLine: 3, Column: 1, EndColumn: 2},
		},
		2: nil,
		3: {{Offset: 300, Document: 2, Line: 4000, EndLine: 4000, Column: 1, EndColumn: 2}},
	} {
		if got, err := l.Points(method); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("Points(%d):\n got %+v, error %v\nwant %+v", method, got, err, want)
		}
	}
	points, err := l.Points(1)
	if err != nil {
		t.Fatal(err)
	}
	for offset, want := range map[uint32]uint32{0: 10, 6: 10, 7: 10, 8: 10, 9: 12, 199: 12, 200: 3, 1 << 28: 3} {
		if p, ok := Line(points, offset); !ok || p.Line != want {
			t.Errorf("Line at %d: %d, %t; want %d", offset, p.Line, ok, want)
		}
	}
	if p, ok := Line(points[1:], 7); ok {
		t.Errorf("Line of a hidden point alone: %+v, want none", p)
	}
	if _, err := l.Points(4); err == nil || !strings.Contains(err.Error(), "document 9 of 2") {
		t.Errorf("Points(4): error %v, want one about document 9", err)
	}
	for _, n := range []uint32{0, 5, 1 << 31} {
		if _, err := l.Points(n); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Points(%d): error %v, want fs.ErrNotExist", n, err)
		}
		if _, err := l.Document(n); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Document(%d): error %v, want fs.ErrNotExist", n, err)
		}
	}
	if m, err := l.Kickoff(3); m != 1 || err != nil {
		t.Errorf("Kickoff(3): %d, error %v; want 1", m, err)
	}
	for _, n := range []uint32{1, 2, 4} {
		if _, err := l.Kickoff(n); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Kickoff(%d): error %v, want fs.ErrNotExist", n, err)
		}
	}
	if b, err := l.SourceLink(); string(b) != `{"documents":{}}` || err != nil {
		t.Errorf("SourceLink: %s, error %v; want an empty list of documents", b, err)
	}
}

func TestLinesHostile(t *testing.T) {
	t.Parallel()
	whole := linesSample()
	for name, change := range map[string]func(s []stream){
		"no tables":          func(s []stream) { s[1].name = "#x" },
		"tables cut":         func(s []stream) { s[1].data = s[1].data[:50] },
		"4 G documents":      func(s []stream) { le.PutUint32(s[1].data[24:], 1<<32-1) },
		"types in the file":  func(s []stream) { s[1].data[8] = 1 },
		"row counts cut":     func(s []stream) { le.PutUint64(s[0].data[24:], 1<<40-1) },
		"wide heaps":         func(s []stream) { s[1].data[6] = 7 },
		"methods of 70000":   func(s []stream) { s[0].data = referencing(s[0].data, 70000) },
		"no blobs":           func(s []stream) { s[5].data = nil },
		"blobs of 255 bytes": func(s []stream) { s[5].data = bytes.Repeat([]byte{0x7F}, 60) },
		"no GUIDs":           func(s []stream) { s[4].data = nil },
	} {
		s := slices.Clone(whole)
		for i := range s {
			s[i].data = slices.Clone(s[i].data)
		}
		change(s)
		l, err := mustOpen(t, build("", s)).Lines()
		if err == nil {
			all(l)
			if _, err = l.Points(1); err == nil {
				_, err = l.Document(1)
			}
		}
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// referencing adds a count of MethodDef rows to a #Pdb stream.
func referencing(pdb []byte, rows uint32) []byte {
	pdb = slices.Clone(pdb[:32])
	le.PutUint64(pdb[24:], 1<<tableMethodDef)
	return le.AppendUint32(pdb, rows)
}

// all asks everything of at most 1000 methods and documents.
func all(l *Lines) (points int) {
	for n := range min(l.Documents(), 1000) {
		_, _ = l.Document(n + 1)
	}
	for n := range min(l.Methods(), 1000) {
		p, _ := l.Points(n + 1)
		points += len(p)
		_, _ = l.Kickoff(n + 1)
	}
	if l.rows[tableCustom] < 1000 {
		_, _ = l.SourceLink()
	}
	return points
}

// TestLinesMaterial reads the real portable PDBs: the points of each method are in
// order and inside plausible lines of documents with plausible names.
func TestLinesMaterial(t *testing.T) {
	t.Parallel()
	for _, name := range realFiles(t) {
		l := openLines(t, name)
		for n := range l.Documents() {
			d, err := l.Document(n + 1)
			if err != nil || !strings.Contains(d.Name, ".") || d.Language == (debugid.GUID{}) {
				t.Errorf("%s: document %d: %+v, error %v; want a name with a dot and a language", name, n+1, d, err)
			}
		}
		points := 0
		for n := range l.Methods() {
			list, err := l.Points(n + 1)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			points += len(list)
			for i, p := range list {
				if i > 0 && p.Offset <= list[i-1].Offset || p.Document == 0 || !p.Hidden && (p.Line == 0 || p.Line > 20000 || p.EndLine < p.Line || p.Column == 0) {
					t.Errorf("%s: method %d: point %+v, want rising offsets, a document and a possible place in it", name, n+1, p)
				}
			}
		}
		t.Logf("%s: %d documents, %d methods, %d points", name, l.Documents(), l.Methods(), points)
		if points == 0 {
			t.Errorf("%s: no points", name)
		}
	}
}

// TestLinesSymbolic compares all lines below an IL offset with those of Sentry's
// symbolic, where its program is at hand: ppdbo FILE METHODS OFFSETS prints the method,
// the offset, the file and the line wherever the answer changes.
func TestLinesSymbolic(t *testing.T) {
	t.Parallel()
	tool := os.Getenv("SYMDEPOT_PPDBO")
	if tool == "" {
		t.Skip("needs a program that looks up lines with the crate symbolic-ppdb (set SYMDEPOT_PPDBO to its path)")
	}
	const offsets = 3000
	for _, name := range realFiles(t) {
		l := openLines(t, name)
		out, err := exec.Command(tool, name, strconv.Itoa(int(l.Methods())), strconv.Itoa(offsets)).Output()
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		for n := range l.Methods() {
			list, err := l.Points(n + 1)
			if err != nil {
				t.Fatal(err)
			}
			last := ""
			for offset := range uint32(offsets) {
				answer := "-"
				if p, ok := Line(list, offset); ok {
					d, err := l.Document(p.Document)
					if err != nil {
						t.Fatal(err)
					}
					answer = fmt.Sprintf("%s:%d", d.Name, p.Line)
				}
				if answer != last {
					fmt.Fprintf(&got, "%d %d %s\n", n+1, offset, answer)
					last = answer
				}
			}
		}
		want := strings.Split(string(out), "\n")
		differ := 0
		for i, line := range strings.Split(got.String(), "\n") {
			if i >= len(want) || line != want[i] {
				if differ++; differ < 10 {
					t.Errorf("%s: line %d: got %q, want %q", name, i+1, line, want[min(i, len(want)-1)])
				}
			}
		}
		t.Logf("%s: %d answers, %d differ", name, len(want)-1, differ)
	}
}

// realFiles lists the portable PDBs of the material.
func realFiles(t *testing.T) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(symtest.Material(t), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, ".pdb") {
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			if b := make([]byte, 4); metadata.ReadFull(f, b, 0) == nil && string(b) == Magic {
				names = append(names, path)
			}
		}
		return err
	})
	if err != nil || len(names) == 0 {
		t.Fatalf("%d portable PDBs, error %v; want at least one", len(names), err)
	}
	return names
}

func openLines(t *testing.T, name string) *Lines {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	l, err := mustOpen(t, b).Lines()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// FuzzLines asks for all lines of any file.
// embeddedSample has texts for its two documents: one as it is and one deflated, and rows
// that are malformed.
func embeddedSample(t testing.TB) []stream {
	t.Helper()
	s := linesSample()
	h := &heap{b: s[5].data}
	var z bytes.Buffer
	w, err := flate.NewWriter(&z, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, strings.Repeat("text\n", 100)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	deflated := func(size uint32) uint16 { return h.add(append(le.AppendUint32(nil, size), z.Bytes()...)...) }
	var rows []byte
	n := uint32(0)
	row := func(parent, kind, value uint16) {
		rows = le.AppendUint16(le.AppendUint16(le.AppendUint16(rows, parent), kind), value)
		n++
	}
	row(1<<5|customDocument, 4, h.add(append(le.AppendUint32(nil, 0), "plain"...)...))
	row(2<<5|customDocument, 4, deflated(500))
	row(2<<5|customDocument, 4, deflated(400)) // ends early
	row(2<<5|customDocument, 4, deflated(600)) // is too short
	row(2<<5|customDocument, 4, deflated(1<<31|500))
	row(2<<5|customDocument, 4, h.add(1, 2))
	row(2<<5|customDocument, 4, 0xfff0)
	row(3<<5|customDocument, 4, deflated(500))
	row(2<<5|6, 4, deflated(500))
	row(2<<5|customDocument, 1, deflated(500))
	old := s[1].data
	body := old[24+16:]
	s[1].data = slices.Concat(tables(map[int]uint32{0x30: 2, 0x31: 4, 0x36: 1, 0x37: 1 + n})[:24+16], body[:2*8+4*4+4], body[2*8+4*4+4:2*8+4*4+4+6], rows)
	s[4].data = append(slices.Clone(s[4].data), embeddedSource[:]...)
	s[5].data = h.b
	return s
}

func TestEmbeddedSources(t *testing.T) {
	t.Parallel()
	l := mustLines(t, embeddedSample(t))
	list, err := l.EmbeddedSources()
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		document uint32
		size     int64
		text     string
		short    bool
	}{{1, 5, "plain", false}, {2, 500, strings.Repeat("text\n", 100), false}, {2, 400, strings.Repeat("text\n", 80), false}, {2, 600, strings.Repeat("text\n", 100), true}}
	if len(list) != len(want) {
		t.Fatalf("%d texts, want %d", len(list), len(want))
	}
	for i, w := range want {
		e := list[i]
		r := e.Open()
		text, err := io.ReadAll(r)
		if e.Document != w.document || e.Size != w.size || string(text) != w.text || errors.Is(err, io.ErrUnexpectedEOF) != w.short || !w.short && err != nil {
			t.Errorf("text %d: %d bytes of document %d, read %d, %v; want %+v", i, e.Size, e.Document, len(text), err, w)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	if link, err := l.SourceLink(); err != nil || string(link) != `{"documents":{}}` {
		t.Errorf("Source Link %q, %v, want that of the sample", link, err)
	}
	if list, err := mustLines(t, linesSample()).EmbeddedSources(); err != nil || list != nil {
		t.Errorf("%v, %v without embedded texts, want none", list, err)
	}
}

func FuzzLines(f *testing.F) {
	f.Add(build("PDB v1.0", embeddedSample(f)))
	f.Add(build("PDB v1.0", linesSample()))
	f.Add(build("PDB v1.0", sample()))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Open(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		l, err := p.Lines()
		if err != nil {
			return
		}
		if n := all(l); n > 1000*len(b) {
			t.Errorf("%d points of %d bytes, want at most 1000 for each", n, len(b))
		}
		sources, err := l.EmbeddedSources()
		if err != nil {
			return
		}
		for i, e := range sources {
			r := e.Open()
			n, err := io.Copy(io.Discard, io.LimitReader(r, 1<<20))
			if n > e.Size || err == nil && n < min(e.Size, 1<<20) {
				t.Errorf("document %d has %d bytes of %d, want them all or an error", e.Document, n, e.Size)
			}
			r.Close()
			if i == 100 {
				break
			}
		}
	})
}
