package display

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/depot/catalog"
)

// MissingCSV writes files that clients requested and did not get, as
// comma-separated values (RFC 4180). A text that a spreadsheet would compute, because
// it begins with =, +, - or @, gets a leading apostrophe.
type MissingCSV struct{ w *csv.Writer }

// Cell is a text that a spreadsheet shows and does not compute: clients choose it.
func Cell(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}

// NewMissingCSV returns a writer to w that has written the header line.
func NewMissingCSV(w io.Writer) (*MissingCSV, error) {
	m := &MissingCSV{csv.NewWriter(w)}
	return m, m.w.Write([]string{"count", "name", "id", "client", "first", "last"})
}

// Write writes one file.
func (m *MissingCSV) Write(f catalog.Wanted) error {
	first, last := f.First.UTC().Format(time.RFC3339), f.Last.UTC().Format(time.RFC3339)
	return m.w.Write([]string{strconv.FormatInt(f.Count, 10), Cell(f.Name), Cell(f.ID), Cell(f.Client), first, last})
}

// Flush writes the buffered rows.
func (m *MissingCSV) Flush() error {
	m.w.Flush()
	return m.w.Error()
}
