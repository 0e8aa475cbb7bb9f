package metadata

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
)

var le = binary.LittleEndian

// heap collects texts or blobs, of which the first is empty.
type heap struct{ b []byte }

func (h *heap) text(s string) uint16 {
	h.b = append(h.b, s...)
	h.b = append(h.b, 0)
	return uint16(len(h.b) - len(s) - 1)
}

func (h *heap) blob(p ...byte) uint16 {
	h.b = append(append(h.b, byte(len(p))), p...)
	return uint16(len(h.b) - len(p) - 1)
}

// row writes columns: uint16 or uint32.
func row(columns ...any) (b []byte) {
	for _, c := range columns {
		switch v := c.(type) {
		case uint16:
			b = le.AppendUint16(b, v)
		case uint32:
			b = le.AppendUint32(b, v)
		case int:
			b = le.AppendUint16(b, uint16(v))
		}
	}
	return b
}

// build writes metadata of tables, by their numbers, and heaps.
func build(tables map[int][][]byte, strings, blobs []byte) []byte {
	var there uint64
	var counts, rows []byte
	for i := range TableCount {
		if list := tables[i]; list != nil {
			there |= 1 << i
			counts = le.AppendUint32(counts, uint32(len(list)))
			for _, r := range list {
				rows = append(rows, r...)
			}
		}
	}
	stream := make([]byte, 24)
	stream[4] = 2
	le.PutUint64(stream[8:], there)
	stream = append(append(stream, counts...), rows...)
	type part struct {
		name string
		data []byte
	}
	parts := []part{{"#~\x00\x00", stream}, {"#Strings\x00\x00\x00\x00", strings}, {"#Blob\x00\x00\x00", blobs}}
	b := append([]byte(Magic), 1, 0, 1, 0, 0, 0, 0, 0, 4, 0, 0, 0, 'v', '4', 0, 0, 0, 0, byte(len(parts)), 0)
	at := len(b)
	for _, p := range parts {
		at += 8 + len(p.name)
	}
	for _, p := range parts {
		b = append(le.AppendUint32(le.AppendUint32(b, uint32(at)), uint32(len(p.data))), p.name...)
		at += len(p.data)
	}
	for _, p := range parts {
		b = append(b, p.data...)
	}
	return b
}

// sample has a function outside of types, types in types, a generic one, and members of all kinds of types.
func sample() []byte {
	s, b := &heap{[]byte{0}}, &heap{[]byte{0}}
	return build(map[int][][]byte{
		tableTypeRef: {
			row(2<<2|2, s.text("List`1"), s.text("System.Collections.Generic")),
			row(1<<2|3, s.text("Enumerator"), 0),
		},
		tableTypeDef: {
			row(uint32(0), s.text("<Module>"), 0, 0, 1, 1),
			row(uint32(0), s.text("Outer"), s.text("App"), 0, 1, 2),
			row(uint32(0), s.text("Empty"), 0, 0, 1, 4),
			row(uint32(0), s.text("Inner`2"), 0, 0, 1, 4),
			row(uint32(0), s.text("Loop"), 0, 0, 1, 6),
		},
		tableMethodDef: {
			row(uint32(0), 0, 0, s.text("start"), 0, 1),
			row(uint32(0), 0, 0, s.text(".ctor"), 0, 1),
			row(uint32(0), 0, 0, s.text("Run"), 0, 1),
			row(uint32(0), 0, 0, s.text("<Run>b__0"), 0, 1),
			row(uint32(0), 0, 0, s.text("Åse"), 0, 1),
			row(uint32(0), 0, 0, s.text("Never"), 0, 1),
		},
		tableMemberRef: {
			row(1<<3|1, s.text("Sort"), 0),                    // TypeRef
			row(2<<3|1, s.text("MoveNext"), 0),                // TypeRef in a TypeRef
			row(4<<3, s.text("Own"), 0),                       // TypeDef
			row(1<<3|4, s.text("Add"), 0),                     // TypeSpec
			row(1<<3|2, s.text("Native"), 0),                  // ModuleRef
			row(2<<3|4, s.text("Odd"), 0),                     // TypeSpec that is no instance
			row(0<<3|5, s.text("Reserved"), 0),                // no such tag
			row(3<<3|4, s.text("Round"), 0),                   // TypeSpec of itself
			row(9<<3|1, s.text("Far"), 0),                     // no such row
			row(1<<3|1, uint16(60000), 0),                     // no such text
			row(1<<3|1, s.text(strings.Repeat("n", 5000)), 0), // too long
		},
		tableTypeSpec: {
			row(b.blob(elementGeneric, elementClass, 1<<2|1, 1, 0x0e)),
			row(b.blob(0x1d, 0x0e)),
			row(b.blob(elementGeneric, elementValueType, 3<<2|2, 1, 0x0e)),
		},
		tableNested: {row(4, 2), row(5, 5)},
	}, s.b, b.b)
}

// TestTableNames: the names of methods and members.
func TestTableNames(t *testing.T) {
	t.Parallel()
	tables, err := OpenTables(sample())
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"start", "App.Outer..ctor", "App.Outer.Run", "App.Outer.Inner`2.<Run>b__0", "App.Outer.Inner`2.Åse"} {
		if got, err := tables.Method(uint32(i + 1)); got != want || err != nil {
			t.Errorf("method %d: %q, error %v; want %q", i+1, got, err, want)
		}
	}
	if got, err := tables.Method(6); err == nil {
		t.Errorf("a method of a type in itself: %q, want an error", got)
	}
	for _, n := range []uint32{0, 7, 1<<32 - 1} {
		if _, err := tables.Method(n); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("method %d: error %v, want fs.ErrNotExist", n, err)
		}
	}
	for i, want := range []string{
		"System.Collections.Generic.List`1.Sort", "System.Collections.Generic.List`1.Enumerator.MoveNext", "App.Outer.Inner`2.Own",
		"System.Collections.Generic.List`1.Add", "", "", "", "", "", "", "",
	} {
		if got, err := tables.Member(uint32(i + 1)); got != want || (err == nil) != (want != "") {
			t.Errorf("member %d: %q, error %v; want %q", i+1, got, err, want)
		}
	}
	if n := tables.Methods(); n != 6 {
		t.Errorf("%d methods, want 6", n)
	}
}

// TestTableErrors: metadata that is damaged or has no tables.
func TestTableErrors(t *testing.T) {
	t.Parallel()
	whole := sample()
	for what, tt := range map[string]struct {
		b    []byte
		want error
	}{
		"a text":     {[]byte("this is no metadata"), ErrFormat},
		"nothing":    {nil, ErrFormat},
		"a cut root": {whole[:30], io.ErrUnexpectedEOF},
		"no tables":  {[]byte(strings.Replace(string(whole), "#~", "#x", 1)), fs.ErrNotExist},
		"rows beyond the end": {func() []byte {
			b := append([]byte{}, whole...)
			le.PutUint32(b[strings.Index(string(b), "#~")-8:][:4], uint32(len(b)-40))
			le.PutUint32(b[strings.Index(string(b), "#~")-4:][:4], 40)
			copy(b[len(b)-40:], make([]byte, 40))
			le.PutUint64(b[len(b)-32:], 1<<tableTypeDef)
			le.PutUint32(b[len(b)-16:], 1<<20)
			return b
		}(), io.ErrUnexpectedEOF},
	} {
		if _, err := OpenTables(tt.b); !errors.Is(err, tt.want) {
			t.Errorf("%s: error %v, want %v", what, err, tt.want)
		}
	}
	if _, err := OpenTables(build(map[int][][]byte{tableMethodPtr: {row(1)}}, []byte{0}, []byte{0})); err == nil {
		t.Error("methods out of order: no error")
	}
}

// TestWideTables: columns have four bytes where a heap or a table is large.
func TestWideTables(t *testing.T) {
	t.Parallel()
	s := &heap{make([]byte, 1<<16)}
	types := make([][]byte, 1<<14) // a row of typeDefOrRef then has four bytes
	name := uint32(len(s.b))
	s.text("Wide")
	for i := range types {
		types[i] = row(uint32(0), name, uint32(0), uint32(0), 1, 1)
	}
	method := row(uint32(0), 0, 0, name, 0, 1)
	b := build(map[int][][]byte{tableTypeDef: types, tableMethodDef: {method}}, s.b, []byte{0})
	b[strings.Index(string(b), "#Blob")+8+6] |= 1 // the first byte of the tables follows the name of the last stream
	tables, err := OpenTables(b)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := tables.Method(1); got != "Wide.Wide" || err != nil {
		t.Errorf("%q, error %v; want Wide.Wide", got, err)
	}
}

// FuzzTables: any bytes are opened or refused, and give names of bounded length.
func FuzzTables(f *testing.F) {
	f.Add(sample())
	f.Fuzz(func(t *testing.T, b []byte) {
		tables, err := OpenTables(b)
		if err != nil {
			return
		}
		for n := range uint32(64) {
			for _, name := range []func(uint32) (string, error){tables.Method, tables.Member} {
				if s, err := name(n); err == nil && len(s) > (maxNesting+3)*(maxName+1) {
					t.Fatalf("a name of %d bytes", len(s))
				}
			}
		}
	})
}

// TestLongNames: a name that types in one another make longer than the limit is refused, whatever its parts are.
func TestLongNames(t *testing.T) {
	t.Parallel()
	s := &heap{[]byte{0}}
	part := s.text(strings.Repeat("T", 1000))
	tables, err := OpenTables(build(map[int][][]byte{
		tableTypeDef: {
			row(uint32(0), part, 0, 0, 1, 1), row(uint32(0), part, 0, 0, 1, 1), row(uint32(0), part, 0, 0, 1, 1),
			row(uint32(0), part, 0, 0, 1, 1), row(uint32(0), part, 0, 0, 1, 2),
		},
		tableMethodDef: {row(uint32(0), 0, 0, part, 0, 1), row(uint32(0), 0, 0, part, 0, 1)},
		tableNested:    {row(2, 1), row(3, 2), row(4, 3), row(5, 4)},
	}, s.b, []byte{0}))
	if err != nil {
		t.Fatal(err)
	}
	for n := uint32(1); n <= 2; n++ {
		if got, err := tables.Method(n); err == nil {
			t.Errorf("method %d has a name of %d bytes, want an error above %d", n, len(got), maxName)
		}
	}
}
