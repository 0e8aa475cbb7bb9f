package symstore

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/symdepot/symdepot/internal/base/truncate"
)

// windows1252 has the characters of the bytes 0x80 to 0x9F in code page 1252.
// All other bytes are as in Unicode. Bytes without a character in the code page
// map to the code point of equal number.
var windows1252 = [32]rune{
	0x20AC, 0x81, 0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021, 0x02C6, 0x2030, 0x0160, 0x2039, 0x0152, 0x8D, 0x017D, 0x8F,
	0x90, 0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014, 0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0x9D, 0x017E, 0x0178,
}

// decode decodes one line: as UTF-8 if it is valid, else as Windows-1252. Each
// line is decoded on its own because writers of both encodings append to one
// file.
func decode(line []byte) string {
	if utf8.Valid(line) {
		return string(line)
	}
	var b strings.Builder
	for _, c := range line {
		if c >= 0x80 && c < 0xA0 {
			b.WriteRune(windows1252[c-0x80])
		} else {
			b.WriteRune(rune(c))
		}
	}
	return b.String()
}

// splitLines splits a text into its lines, without their line ends of any kind.
// It omits empty lines.
func splitLines(data []byte) [][]byte {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	var lines [][]byte
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		line = bytes.Trim(line, " \t\r\x00\x1a")
		if len(line) > 0 {
			lines = append(lines, line)
		}
	}
	return lines
}

// fields splits a line at its commas. A quoted field ends at the next quote
// before a comma or the end of the line. A missing closing quote is accepted.
func fields(line string) []string {
	var list []string
	for {
		field, rest, more := nextField(line)
		list = append(list, field)
		if !more {
			return list
		}
		line = rest
	}
}

func nextField(line string) (field, rest string, more bool) {
	if !strings.HasPrefix(line, `"`) {
		return strings.Cut(line, ",")
	}
	body := line[1:]
	if i := strings.Index(body, `",`); i >= 0 {
		return body[:i], body[i+2:], true
	}
	return strings.TrimSuffix(body, `"`), "", false
}

// clean makes a text fit between quotes, which the format cannot escape.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '"':
			return '\''
		case r < 0x20 || r == 0x7f:
			return ' '
		}
		return r
	}, s)
}

// parseTransaction reads a line of server.txt or history.txt, in today's format
// or that of 1999. Fields that are missing at its end are empty.
func parseTransaction(line string) (Transaction, error) {
	f := fields(strings.TrimSpace(line))
	id, err := ParseID(f[0])
	if err != nil {
		return Transaction{}, err
	}
	t := Transaction{ID: id}
	at := func(i int) string {
		if i < len(f) {
			return f[i]
		}
		return ""
	}
	switch strings.ToLower(strings.TrimSpace(at(1))) {
	case "del":
		t.Deletes, err = ParseID(at(2))
		return t, err
	case "add":
	default:
		return t, fmt.Errorf("transaction %s: %q must be add or del", id, truncate.Text(at(1)))
	}
	t.Pointer = strings.EqualFold(strings.TrimSpace(at(2)), "ptr")
	t.Product, t.Version, t.Comment = at(5), at(6), at(7)
	// A transaction with an unreadable time is still valid.
	t.Time = parseTime(at(3), at(4))
	return t, nil
}

// parseTime reads MM/DD/YYYY or MM/DD/YY and HH:MM:SS. It returns the zero time
// for anything else.
func parseTime(date, clock string) time.Time {
	d, err := time.ParseInLocation("1/2/2006", strings.TrimSpace(date), time.Local)
	if err != nil {
		month, rest, _ := strings.Cut(strings.TrimSpace(date), "/")
		day, year, _ := strings.Cut(rest, "/")
		y, err := strconv.ParseUint(year, 10, 7)
		if err != nil || len(year) != 2 {
			return time.Time{}
		}
		century := "20"
		if y >= 70 {
			century = "19"
		}
		if d, err = time.ParseInLocation("1/2/2006", month+"/"+day+"/"+century+year, time.Local); err != nil {
			return time.Time{}
		}
	}
	c, err := time.Parse("15:4:5", strings.TrimSpace(clock))
	if err != nil {
		return d
	}
	return time.Date(d.Year(), d.Month(), d.Day(), c.Hour(), c.Minute(), c.Second(), 0, time.Local)
}

// line formats t as symstore.exe does, without a line end.
func (t Transaction) line() string {
	if t.Deletes != 0 {
		return t.ID.String() + ",del," + t.Deletes.String()
	}
	kind := "file"
	if t.Pointer {
		kind = "ptr"
	}
	return fmt.Sprintf(`%s,add,%s,%s,"%s","%s","%s",`, t.ID, kind,
		t.Time.Format("01/02/2006,15:04:05"), clean(t.Product), clean(t.Version), clean(t.Comment))
}

// record is one line of server.txt or history.txt with its original bytes,
// which are kept when the file is rewritten.
type record struct {
	Transaction
	raw []byte
	err error // why the line cannot be read
}

func parseRecords(data []byte) []record {
	var list []record
	for _, raw := range splitLines(data) {
		t, err := parseTransaction(decode(raw))
		list = append(list, record{t, raw, err})
	}
	return list
}

// printServer formats server.txt: each line ends with CR LF.
func printServer(list []record) []byte {
	var b []byte
	for _, r := range list {
		b = append(append(b, r.raw...), "\r\n"...)
	}
	return b
}

// appendLine appends a line to the content of a file. It first ends the last
// line if that has no line end. The last line of history.txt has no end, that
// of server.txt has one.
func appendLine(data []byte, line string, ended bool) []byte {
	out := bytes.Clone(data)
	if len(out) > 0 && out[len(out)-1] != '\n' {
		out = append(out, "\r\n"...)
	}
	out = append(out, line...)
	if ended {
		out = append(out, "\r\n"...)
	}
	return out
}

// parseEntry reads a line of a transaction file: name, backslash, key, and the
// source path. The fields may be quoted, bare, or lack the last quote.
func parseEntry(line string) (Entry, error) {
	first, rest, more := nextField(strings.TrimSpace(line))
	if !more {
		return Entry{}, fmt.Errorf("line %q has only one field, want two: name\\key and path", truncate.Text(line))
	}
	i := strings.LastIndexAny(first, `\/`)
	if i < 0 {
		return Entry{}, fmt.Errorf("line %q has no key, want name\\key", truncate.Text(line))
	}
	rest = strings.TrimSuffix(strings.TrimPrefix(rest, `"`), `"`)
	e := Entry{Name: first[:i], Key: first[i+1:], Source: rest}
	if !validEntryName(e.Name) || !validKey(e.Key) {
		return e, fmt.Errorf("line %q: %w", truncate.Text(line), ErrName)
	}
	return e, nil
}

// validEntryName reports whether a name from a record can be opened on this
// disk. Stores made on other systems may have names that Windows refuses.
func validEntryName(name string) bool {
	return len(name) <= 255 && name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/\\\x00")
}

// line formats e as symstore.exe does, without a line end.
func (e Entry) line() string {
	return `"` + e.Name + `\` + e.Key + `","` + clean(e.Source) + `"`
}

// ParseEntries reads the record of a transaction, 000Admin/NNNNNNNNNN. It omits lines that
// cannot be read.
func ParseEntries(data []byte) []Entry {
	list, _, _ := parseEntries(data)
	return list
}

// parseEntries reads a transaction file. cut means that the last line is
// truncated: all writers end it, and it has no end.
func parseEntries(data []byte) (list []Entry, bad []error, cut bool) {
	cut = len(data) > 0 && data[len(data)-1] != '\n'
	for _, raw := range splitLines(data) {
		e, err := parseEntry(decode(raw))
		if err != nil {
			bad = append(bad, err)
			continue
		}
		list = append(list, e)
	}
	return list, bad, cut
}

func printEntries(list []Entry) []byte {
	var b []byte
	for _, e := range list {
		b = append(append(b, e.line()...), "\r\n"...)
	}
	return b
}
