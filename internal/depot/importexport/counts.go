package importexport

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/internal/base/term"
)

// Print prints how many files were added and stored before, and which were left out,
// and why.
func (c *Counts) Print(w io.Writer) {
	fmt.Fprintf(w, "  added          %s, %s\n", term.Count(c.Added.Files, "file"), term.Size(c.Added.Bytes))
	fmt.Fprintf(w, "  already stored %s, %s (same bytes)\n", term.Count(c.Known.Files, "file"), term.Size(c.Known.Bytes))
	if c.Restored > 0 {
		fmt.Fprintf(w, "  restored       %s whose stored bytes were damaged or missing\n", term.Count(c.Restored, "file"))
	}
	for _, line := range c.Flags {
		fmt.Fprintf(w, "  note           %s\n", term.Printable(line))
	}
	for _, line := range c.Lines() {
		fmt.Fprintln(w, term.Printable(line))
	}
	fmt.Fprintf(w, "  skipped        %s\n", term.Count(c.Skipped-c.NotSymbols, "file"))
	for _, line := range c.Notable {
		fmt.Fprintf(w, "    %s\n", term.Printable(line))
	}
	if c.More > 0 {
		fmt.Fprintf(w, "    and %d more like these; --json names all\n", c.More)
	}
	if c.NotSymbols == 0 {
		return
	}
	fmt.Fprintf(w, "  not symbols    %s\n", term.Count(c.NotSymbols, "file"))
	reasons := make([]string, 0, len(c.Reasons))
	for r := range c.Reasons {
		reasons = append(reasons, r)
	}
	slices.SortFunc(reasons, func(a, b string) int {
		if d := c.Reasons[b] - c.Reasons[a]; d != 0 {
			return int(d)
		}
		return strings.Compare(a, b)
	})
	for i, r := range reasons {
		if i == 10 {
			fmt.Fprintf(w, "    and for %d more reasons; --json names all\n", len(reasons)-i)
			break
		}
		fmt.Fprintf(w, "    %d × %s\n", c.Reasons[r], term.Printable(r))
	}
}
