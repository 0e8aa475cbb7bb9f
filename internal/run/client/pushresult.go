package client

import (
	"fmt"
	"strings"

	"github.com/symdepot/symdepot/internal/base/term"
)

// Summary returns the last line of JSON output: "done", or "failed" with the error.
func (r PushResult) Summary(failed error) any {
	event, why := "done", ""
	if failed != nil {
		event, why = "failed", failed.Error()
	}
	return struct {
		Event string `json:"event"`
		Error string `json:"error,omitempty"`
		PushResult
	}{event, why, r}
}

// Text describes the result to a person, in lines.
func (r PushResult) Text() string {
	var b strings.Builder
	switch {
	case r.opened:
		return r.Stage + "\n" // for scripts
	case r.Transaction > 0 && r.Again:
		fmt.Fprintf(&b, "build %d has these files already\n", r.Transaction)
	case r.Transaction > 0:
		fmt.Fprintf(&b, "build %d: %s\n", r.Transaction, term.Count(r.Files, "file"))
	case r.Stage != "":
		fmt.Fprintf(&b, "stage %s\n", term.Printable(r.Stage))
	}
	if r.Bytes > 0 && (r.Transaction > 0 || r.Stage != "") {
		fmt.Fprintf(&b, "  pushed         %s\n", term.Size(r.Bytes))
		fmt.Fprintf(&b, "  sent           %s, %s (%s on the wire)\n",
			term.Count(r.SentFiles, "content"), term.Size(r.SentBytes), term.Size(r.WireBytes))
	}
	if r.OtherBytes > 0 {
		verb := "have"
		if r.OtherBytes == 1 {
			verb = "has"
		}
		fmt.Fprintf(&b, "  other bytes    %s %s an id of which the product had other bytes; both are kept\n",
			term.Count(r.OtherBytes, "file"), verb)
	}
	for n, f := range r.Flags {
		if n == maxNotable {
			fmt.Fprintf(&b, "  note           and %d more; --json names them\n", len(r.Flags)-n)
			break
		}
		fmt.Fprintf(&b, "  note           %s\n", term.Printable(f.Path+": "+f.Note))
	}
	for _, line := range r.Lines() {
		fmt.Fprintln(&b, term.Printable(line))
	}
	if r.Skipped > 0 {
		fmt.Fprintf(&b, "  skipped        %s%s\n", term.Count(r.Skipped, "file"), r.notSymbols())
	}
	for _, line := range r.Notable {
		fmt.Fprintf(&b, "    %s\n", term.Printable(line))
	}
	return b.String()
}

// notSymbols says how many of the skipped files are no symbol files.
func (r *PushResult) notSymbols() string {
	switch n := r.NotSymbols; {
	case n == 0:
		return ""
	case n < r.Skipped && n == 1:
		return ", 1 of them no symbol file"
	case n < r.Skipped:
		return fmt.Sprintf(", %d of them no symbol files", n)
	case n == 1:
		return " that is no symbol file"
	}
	return " that are no symbol files"
}
