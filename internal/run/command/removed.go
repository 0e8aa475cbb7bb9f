package command

import (
	"fmt"
	"strconv"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/display"
)

// removed is find --removed: files that removals have hidden.
func (c findCmd) removed(a *session, d *depot.Depot) error {
	out, t := term.NewJSONLines(a.Stdout), term.NewTable(a.Stdout, "KIND", "ID", "SIZE", "BUILD", "PRODUCT", "VERSION", "NAME", "")
	missing := 0
	for _, q := range c.Query {
		list, err := d.Retention.Removed(a.Ctx, answer.Scope{}, q, c.Limit)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			missing++
			fmt.Fprintf(a.Stderr, "symdepot: not among the removed files: %s\n", term.Printable(q))
		}
		for _, f := range list {
			l := display.NewRemovedFile(q, f)
			if !c.JSON {
				t.Row(l.Kind, l.ID, term.Size(l.Size), strconv.FormatInt(l.Transaction, 10), l.Product, l.Version, l.Name, l.Why(a.Now()))
			} else if err := out.Write(l); err != nil {
				return err
			}
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if missing > 0 {
		return term.ErrNegative
	}
	return nil
}
