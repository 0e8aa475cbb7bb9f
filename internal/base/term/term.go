// Package term is the terminal side of commands: reading and printing sizes,
// durations and counts, tables, JSON lines, progress, and the errors that
// determine the exit code.
package term

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"

	"golang.org/x/term"
)

// ErrNegative ends a command with exit code 1 after a negative result: nothing found,
// nothing added, problems found. The command has printed the result.
var ErrNegative = errors.New("no")

// UsageError is an error in the command line, exit code 2.
type UsageError string

func (e UsageError) Error() string { return string(e) }

// Exit ends the process with this exit code. The command has printed its
// messages.
type Exit int

func (e Exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// IsTerminal reports whether what a command reads or writes is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// JSONLines writes one JSON object per line.
type JSONLines struct{ enc *json.Encoder }

// NewJSONLines returns a JSONLines that writes to w.
func NewJSONLines(w io.Writer) JSONLines {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return JSONLines{enc}
}

// Write writes one object.
func (j JSONLines) Write(v any) error { return j.enc.Encode(v) }

// Table prints aligned columns. A table without rows prints nothing, not even its
// header.
type Table struct {
	w       *tabwriter.Writer
	columns []string // the header, until it is printed
}

// NewTable returns a table with these column headers that prints to w.
func NewTable(w io.Writer, columns ...string) *Table {
	return &Table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0), columns}
}

// Row adds a row; its cells are made printable.
func (t *Table) Row(cells ...string) {
	if t.columns != nil {
		fmt.Fprintln(t.w, strings.Join(t.columns, "\t"))
		t.columns = nil
	}
	for i, c := range cells {
		cells[i] = Printable(c)
	}
	fmt.Fprintln(t.w, strings.Join(cells, "\t"))
}

// Flush prints the table.
func (t *Table) Flush() error { return t.w.Flush() }

// Printable replaces the characters of names that could change the display of a
// terminal by question marks: control characters, and invisible ones that
// reorder text, break lines or join words (Unicode categories Cc, Cf, Zl, Zp).
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			return '?'
		}
		return r
	}, s)
}

// ShellWord quotes a text for a POSIX shell, if that is needed, and makes it printable. The
// text may come from a client.
func ShellWord(s string) string {
	s = Printable(s)
	plain := s != "" && s[0] != '-'
	for i := range len(s) {
		c := s[i]
		if ('a' > c || c > 'z') && ('A' > c || c > 'Z') && ('0' > c || c > '9') && strings.IndexByte("-._/+:@%", c) < 0 {
			plain = false
		}
	}
	if plain {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// PrintableText returns a text of several lines, such as the output of a program,
// without control characters except line breaks and tabs. Of a longer text it
// keeps the last most bytes, because programs print errors last.
func PrintableText(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if r < 0x20 && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	if len(s) > most {
		s = strings.ToValidUTF8(s[len(s)-most:], "")
	}
	return strings.TrimSpace(s)
}

// Size prints a number of bytes with one decimal and a binary unit: 1.5 KiB.
func Size(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	v, i := float64(n), -1
	for v >= unit && i < 4 {
		v, i = v/unit, i+1
	}
	return fmt.Sprintf("%.1f %ciB", v, "KMGTP"[i])
}

// Count prints a number and a noun, with a plural s unless the number is 1.
func Count(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Progress shows how far an operation is, in one line of a terminal, once the
// operation has taken two seconds. It shows nothing if the output is not a
// terminal. It must not be used by several goroutines at the same time.
type Progress struct {
	w     io.Writer
	on    bool
	what  string
	total int64 // bytes; -1: unknown
	start time.Time
	shown time.Time // when the line was last written
	width int       // its length
}

// NewProgress returns the progress of an operation on total bytes; -1 means
// unknown.
func NewProgress(w io.Writer, what string, total int64) *Progress {
	return &Progress{w: w, on: IsTerminal(w), what: what, total: total, start: time.Now()}
}

// Set sets the number of bytes done. The line changes at most ten times a second.
func (p *Progress) Set(done int64) {
	now := time.Now()
	took := now.Sub(p.start)
	if !p.on || took < 2*time.Second || now.Sub(p.shown) < 100*time.Millisecond {
		return
	}
	p.shown = now
	line := p.what + " " + Size(done)
	if p.total > 0 {
		line += fmt.Sprintf(" of %s, %d%%", Size(p.total), int64(100*(float64(done)/float64(p.total))))
	}
	p.write(line + ", " + Size(int64(float64(done)/took.Seconds())) + "/s")
}

// Done removes the line.
func (p *Progress) Done() {
	if p.width > 0 {
		p.write("")
		fmt.Fprint(p.w, "\r")
	}
}

// write replaces the line. It works without the control sequences that old
// consoles of Windows print instead of following them.
func (p *Progress) write(line string) {
	fmt.Fprintf(p.w, "\r%-*s", p.width, line)
	p.width = len(line)
}

// MaxText is the largest text that ReadText reads, in bytes.
const MaxText = 64 << 20

// ReadText reads a small text written by a user: UTF-8, or UTF-16 with a byte
// order mark, as PowerShell writes redirected output.
func ReadText(r io.Reader) (string, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxText+1))
	if err != nil {
		return "", err
	}
	if len(data) > MaxText {
		return "", fmt.Errorf("the text is larger than %s", Size(MaxText))
	}
	var order binary.ByteOrder
	switch {
	case bytes.HasPrefix(data, []byte{0xff, 0xfe}):
		order = binary.LittleEndian
	case bytes.HasPrefix(data, []byte{0xfe, 0xff}):
		order = binary.BigEndian
	default:
		return string(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))), nil
	}
	units := make([]uint16, len(data)/2-1)
	for i := range units {
		units[i] = order.Uint16(data[2*i+2:])
	}
	return string(utf16.Decode(units)), nil
}
