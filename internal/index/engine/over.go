package engine

import (
	"database/sql/driver"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Statement is a statement over a list of rows, so that a transaction over many rows needs
// few statements: over a network each costs a round trip, and in SQLite a call of the
// driver. Both texts take the rows as a table k.
type Statement struct {
	sqlite, postgres string
	types            []columnType
}

// columnType is the type of a column of overRows.
type columnType uint8

const (
	numberColumn columnType = iota // or null
	textColumn                     // any bytes
	hashColumn                     // bytes, such as those of a hash, or null
)

// rowTypes are the types as over takes them, with those of an array in PostgreSQL.
var rowTypes = map[string]struct {
	is    columnType
	array string
}{"number": {numberColumn, "bigint[]"}, "text": {textColumn, "text[]"}, "hash": {hashColumn, "bytea[]"}}

// argument is the mark of an argument of a statement.
var argument = regexp.MustCompile(`\$\d+`)

// Over returns a statement over rows with the columns "name type, …". {k} in the text is
// the table of the rows, named k; $2 and so on are arguments of the statement.
func Over(columns, text string) *Statement {
	o := &Statement{}
	var names, arrays, values []string
	for i, c := range strings.Split(columns, ", ") {
		name, word, _ := strings.Cut(c, " ")
		t := rowTypes[word]
		value := "value ->> " + strconv.Itoa(i)
		switch t.is {
		case textColumn:
			value = "CAST(unhex(" + value + ") AS TEXT)"
		case hashColumn:
			value = "unhex(" + value + ")"
		}
		o.types = append(o.types, t.is)
		names, values = append(names, name), append(values, value+" AS "+name)
		arrays = append(arrays, "$"+strconv.Itoa(i+1)+"::"+t.array)
	}
	o.sqlite = strings.ReplaceAll(text, "{k}", "(SELECT "+strings.Join(values, ", ")+" FROM json_each($1)) AS k")
	// In PostgreSQL each column is an argument.
	shifted := argument.ReplaceAllStringFunc(text, func(mark string) string {
		n, _ := strconv.Atoi(mark[1:]) // digits
		return "$" + strconv.Itoa(n-1+len(names))
	})
	o.postgres = strings.ReplaceAll(shifted, "{k}", "unnest("+strings.Join(arrays, ", ")+") AS k("+strings.Join(names, ", ")+")")
	return o
}

// json returns the rows as one JSON text: a list of lists of numbers, nulls, and texts
// and hashes in hex, so that any bytes come through.
func (o *Statement) json(rows [][]any) (string, error) {
	b := []byte{'['}
	for i, row := range rows {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '[')
		for j, v := range row {
			if j > 0 {
				b = append(b, ',')
			}
			v, err := driver.DefaultParameterConverter.ConvertValue(v)
			if err != nil {
				return "", err
			}
			switch v := v.(type) {
			case nil:
				b = append(b, "null"...)
			case int64:
				b = strconv.AppendInt(b, v, 10)
			case string:
				b = append(hex.AppendEncode(append(b, '"'), []byte(v)), '"')
			case []byte:
				b = append(hex.AppendEncode(append(b, '"'), v), '"')
			default:
				return "", fmt.Errorf("a column of %T", v)
			}
		}
		b = append(b, ']')
	}
	return string(append(b, ']')), nil
}

// pgArgs returns the arguments of the statement for PostgreSQL: one list for each column of
// the rows, and the others.
func (o *Statement) pgArgs(rows [][]any, args []any) ([]any, error) {
	columns := make([]any, len(o.types))
	for j, t := range o.types {
		var numbers []*int64
		var texts []string
		var sums [][]byte
		for _, row := range rows {
			v, err := driver.DefaultParameterConverter.ConvertValue(row[j])
			if err != nil {
				return nil, err
			}
			switch v := v.(type) {
			case nil:
				numbers, sums = append(numbers, nil), append(sums, nil)
			case int64:
				numbers = append(numbers, &v)
			case string:
				texts = append(texts, storable(v))
			case []byte:
				sums = append(sums, v)
			}
		}
		list, n := any(numbers), len(numbers)
		switch t {
		case textColumn:
			list, n = texts, len(texts)
		case hashColumn:
			list, n = sums, len(sums)
		}
		if n != len(rows) {
			return nil, fmt.Errorf("column %d has values of another type", j+1)
		}
		columns[j] = list
	}
	args, err := plain(args)
	return append(columns, args...), err
}

// Numbers returns a list of rows of one number.
func Numbers(list []int64) [][]any {
	rows := make([][]any, len(list))
	for i, n := range list {
		rows[i] = []any{n}
	}
	return rows
}

// ReadNumbers runs a statement over rows and returns its column of numbers.
func (w *Write) ReadNumbers(o *Statement, rows [][]any, args ...any) (list []int64, err error) {
	err = w.EachOver(o, rows, args, func(scan Scan) error {
		var n int64
		err := scan(&n)
		list = append(list, n)
		return err
	})
	return list, err
}
