package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/schollz/progressbar/v3"
)

// jsonLines writes one JSON object a line.
type jsonLines struct{ enc *json.Encoder }

func newJSONLines(w io.Writer) jsonLines {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return jsonLines{enc}
}

func (j jsonLines) write(v any) error { return j.enc.Encode(v) }

// table is columns for a person to read. Without a row it prints nothing.
type table struct {
	w       *tabwriter.Writer
	columns []string // not yet printed
}

func newTable(w io.Writer, columns ...string) *table {
	return &table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0), columns}
}

func (t *table) row(cells ...string) {
	if t.columns != nil {
		fmt.Fprintln(t.w, strings.Join(t.columns, "\t"))
		t.columns = nil
	}
	for i, c := range cells {
		cells[i] = printable(c)
	}
	fmt.Fprintln(t.w, strings.Join(cells, "\t"))
}

func (t *table) flush() error { return t.w.Flush() }

// printable keeps control characters from names out of a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
}

// bytesText prints a size as a person reads it.
func bytesText(n int64) string {
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

// count prints a number with its noun.
func count(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// progress shows on a terminal how far something that takes longer than two
// seconds has come. Elsewhere it shows nothing. It is used by one goroutine.
type progress struct {
	w     io.Writer
	on    bool
	what  string
	total int64 // bytes; -1 where unknown
	start time.Time
	bar   *progressbar.ProgressBar
}

func newProgress(w io.Writer, what string, total int64) *progress {
	return &progress{w: w, on: terminal(w), what: what, total: total, start: time.Now()}
}

// set says how many bytes are done.
func (p *progress) set(done int64) {
	if !p.on {
		return
	}
	if p.bar == nil {
		if time.Since(p.start) < 2*time.Second {
			return
		}
		p.bar = progressbar.NewOptions64(p.total, progressbar.OptionSetWriter(p.w), progressbar.OptionShowBytes(true),
			progressbar.OptionSetDescription(p.what), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
	}
	_ = p.bar.Set64(done)
}

// done takes the display away.
func (p *progress) done() {
	if p.bar != nil {
		_ = p.bar.Clear()
		_ = p.bar.Exit()
		p.bar = nil
	}
}
