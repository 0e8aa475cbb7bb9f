package report

import (
	"encoding/csv"
	"io"
	"strconv"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
)

// MissingCSV writes files that clients requested and did not get, as
// comma-separated values (RFC 4180).
type MissingCSV struct{ w *csv.Writer }

// NewMissingCSV returns a writer to w that has written the header line.
func NewMissingCSV(w io.Writer) (*MissingCSV, error) {
	m := &MissingCSV{csv.NewWriter(w)}
	return m, m.w.Write([]string{"count", "name", "id", "client", "first", "last"})
}

// Write writes one file.
func (m *MissingCSV) Write(f depot.Wanted) error {
	return m.w.Write([]string{strconv.FormatInt(f.Count, 10), f.Name, f.ID, f.Client, f.First.UTC().Format(time.RFC3339), f.Last.UTC().Format(time.RFC3339)})
}

// Flush writes what is buffered.
func (m *MissingCSV) Flush() error {
	m.w.Flush()
	return m.w.Error()
}
