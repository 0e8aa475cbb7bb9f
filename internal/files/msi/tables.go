package msi

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Limits of tables.
const (
	maxTables = 32 << 20 // bytes of all tables that are read
	maxPaths  = 64 << 20 // bytes of all paths of files
	maxRows   = 1 << 18  // of a table
	maxText   = 4096     // bytes of a string that is used
)

// database has the tables of a package.
type database struct {
	open func(table string) ([]byte, error) // nil bytes: there is no such table
	read int64

	width   int // of a number of a string
	texts   []span
	text    string
	columns map[string][]column // by table; read with the first table
}

// span is where a string lies in the text.
type span struct{ off, n uint32 }

// strings reads the pool of strings. A string has a number from 1 on; _StringPool has the lengths, _StringData the
// bytes. Of a very long one, the beginning is kept. Texts that are not UTF-8 are read as Latin-1.
func (d *database) strings() error {
	pool, err := d.open("_StringPool")
	if err != nil {
		return err
	}
	data, err := d.open("_StringData")
	if err != nil {
		return err
	}
	if len(pool) < 4 {
		return damaged("no strings")
	}
	le := binary.LittleEndian
	d.width = 2
	if le.Uint16(pool[2:])&0x8000 != 0 {
		d.width = 3
	}
	d.texts = make([]span, 1, 1+len(pool)/4)
	var text strings.Builder
	text.Grow(len(data))
	for pool = pool[4:]; len(pool) >= 4; pool = pool[4:] {
		n, uses := uint64(le.Uint16(pool)), le.Uint16(pool[2:])
		if n == 0 && uses != 0 { // a string of 64 KiB or more has its length in the next element
			if pool = pool[4:]; len(pool) < 4 {
				return damaged("the list of strings is cut off")
			}
			n = uint64(le.Uint32(pool))
		}
		if n > uint64(len(data)) {
			return damaged("a string lies outside of the texts")
		}
		at := text.Len()
		if b := data[:min(n, maxText)]; utf8.Valid(b) {
			text.Write(b)
		} else {
			for _, c := range b {
				text.WriteRune(rune(c))
			}
		}
		d.texts = append(d.texts, span{uint32(at), uint32(text.Len() - at)})
		data = data[n:]
	}
	d.text = text.String()
	return nil
}

// string returns the string with a number; empty if there is none.
func (d *database) string(n uint32) string {
	if int64(n) >= int64(len(d.texts)) {
		return ""
	}
	s := d.texts[n]
	return d.text[s.off : s.off+s.n]
}

// column is a column of a table.
type column struct {
	name   string
	number int
	text   bool
	width  int // bytes of a value
	off    int // where the values begin, in rows
}

// Types of columns in _Columns. The lower byte of the type of a number is its size.
const (
	typeText   = 0x0800
	typeValid  = 0x0100
	typeBinary = typeText | typeValid // with the size 0, beside typeNull and typeKey
	typeNull   = 0x1000
	typeKey    = 0x2000
)

// describe reads the table _Columns, which describes the columns of all others.
func (d *database) describe() error {
	data, err := d.open("_Columns")
	if err != nil {
		return err
	}
	d.columns = map[string][]column{}
	self := []column{{name: "Table", text: true}, {name: "Number"}, {name: "Name", text: true}, {name: "Type"}}
	for i := range self {
		if self[i].width = 2; self[i].text {
			self[i].width = d.width
		}
	}
	return d.rows(data, place(self), func(r *row) error {
		c := column{name: r.text("Name"), number: int(r.number("Number")), width: 2}
		switch t := r.number("Type"); {
		case t&^(typeNull|typeKey) == typeBinary:
		case t&typeText != 0:
			c.text, c.width = true, d.width
		case t&0xFF > 2:
			c.width = 4
		}
		table := r.text("Table")
		// The columns of a table come in order.
		if list := d.columns[table]; len(list) >= 64 || c.number != len(list)+1 {
			return damaged("column %d of the table %q comes after %d others", c.number, table, len(list))
		}
		d.columns[table] = append(d.columns[table], c)
		return nil
	})
}

// place fills in where the values of columns begin.
func place(columns []column) []column {
	off := 0
	for i := range columns {
		columns[i].off = off
		off += columns[i].width
	}
	return columns
}

// each calls do for the rows of a table, which may be missing.
func (d *database) each(table string, do func(r *row) error) error {
	if d.columns == nil {
		if err := d.describe(); err != nil {
			return err
		}
	}
	data, err := d.open(table)
	if err != nil {
		return err
	}
	if data != nil && len(d.columns[table]) == 0 {
		return damaged("the table %q has no columns", table)
	}
	if err := d.rows(data, place(d.columns[table]), do); err != nil {
		return fmt.Errorf("table %s: %w", table, err)
	}
	return nil
}

// row is a row of a table. It is valid during the call that it is given to.
type row struct {
	d       *database
	data    []byte
	columns []column
	n, rows int
}

func (d *database) rows(data []byte, columns []column, do func(r *row) error) error {
	width := 0
	for _, c := range columns {
		width += c.width
	}
	if len(data) == 0 {
		return nil
	}
	if len(data)%width != 0 {
		return damaged("%d bytes for rows of %d", len(data), width)
	}
	r := &row{d: d, data: data, columns: columns, rows: len(data) / width}
	if r.rows > maxRows {
		return fmt.Errorf("%w: a table of %d rows", ErrLimit, r.rows)
	}
	for r.n = range r.rows {
		if err := do(r); err != nil {
			return err
		}
	}
	return nil
}

// value returns the value of a column as it is stored; zero if there is no such column.
func (r *row) value(name string, text bool) (n uint32, width int) {
	for _, c := range r.columns {
		if c.name != name || c.text != text {
			continue
		}
		at := c.off*r.rows + c.width*r.n
		for i := range c.width {
			n |= uint32(r.data[at+i]) << (8 * i)
		}
		return n, c.width
	}
	return 0, 0
}

// text returns the string in a column; empty if it has none.
func (r *row) text(name string) string {
	n, _ := r.value(name, true)
	return r.d.string(n)
}

// number returns the number in a column; zero if it has none. Numbers are stored with an offset, so that zero means
// none.
func (r *row) number(name string) int64 {
	n, width := r.value(name, false)
	switch {
	case n == 0:
		return 0
	case width == 4:
		return int64(n) - 1<<31
	}
	return int64(n) - 1<<15
}
