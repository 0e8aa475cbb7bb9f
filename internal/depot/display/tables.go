package display

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/symfile"
)

// PrintTransactions prints a table, with the columns of class and branch if a transaction has
// them.
func PrintTransactions(w io.Writer, list []Transaction) error {
	class := slices.ContainsFunc(list, func(x Transaction) bool { return x.Class != "" })
	branch := slices.ContainsFunc(list, func(x Transaction) bool { return x.Branch != "" })
	row := func(start []string, c, b string, end ...string) []string {
		if class {
			start = append(start, c)
		}
		if branch {
			start = append(start, b)
		}
		return append(start, end...)
	}
	head := row([]string{"BUILD", "TIME", "PRODUCT", "VERSION"}, "CLASS", "BRANCH", "FILES", "SIZE", "WHO", "COMMENT")
	t := term.NewTable(w, head...)
	for i := range list {
		x, mark := &list[i], ""
		if !x.Removed.IsZero() {
			mark = " (removed)"
		}
		t.Row(row([]string{strconv.FormatInt(x.Transaction, 10) + mark, x.Time.Local().Format("2006-01-02 15:04"), x.Product, x.Version},
			x.Class, x.Branch, strconv.FormatInt(x.Objects, 10), term.Size(x.Bytes), x.Who, x.Comment)...)
	}
	return t.Flush()
}

// PrintWhole prints all that is known of a transaction but its files.
func (s State) PrintWhole(w io.Writer, now time.Time) {
	by := term.Printable(s.Who)
	if s.Host != "" {
		by += " on " + term.Printable(s.Host)
	}
	fmt.Fprintf(w, "build %d\n  time     %s\n  product  %s\n  version  %s\n  comment  %s\n  by       %s\n  files    %d, %s\n",
		s.Transaction.Transaction, s.Time.Local().Format(time.RFC3339), term.Printable(s.Product), term.Printable(s.Version),
		term.Printable(s.Comment), by, s.Objects, term.Size(s.Bytes))
	if o := s.Origin; o != nil {
		fmt.Fprintf(w, "  origin   %s of %s\n", term.Printable(o.Number), term.Printable(o.Store))
	}
	s.Print(w, now)
}

// PrintFiles prints a table of the files of a transaction, in the order of their names, then of
// their ids. It sorts the list.
func PrintFiles(w io.Writer, files []File) error {
	sorting.Stable(files, func(a, b File) int {
		return cmp.Or(cmp.Compare(symfile.Fold(a.Name), symfile.Fold(b.Name)), cmp.Compare(a.ID(), b.ID()))
	})
	t := term.NewTable(w, "KIND", "ID", "SIZE", "NAME", "PATH", "")
	for i := range files {
		f, remark := &files[i], ""
		if f.Cold != nil {
			remark = f.Cold.Text()
		}
		t.Row(f.Kind, f.ID(), term.Size(f.Size), f.Name, f.Path, remark)
	}
	return t.Flush()
}
