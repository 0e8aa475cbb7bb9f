package client

import (
	"context"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot/catalog"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/symfile"
)

// maxSame is for how many ids a search by name looks for files of other names.
const maxSame = 5

// Hints says what else a query may have meant that has found something or nothing: of a name
// that nothing has, the names that begin with it; of a name that was found, the files of other
// names that have the same ids, at most limit of each.
func (a *API) Hints(ctx context.Context, q string, found []display.Found, limit int) (hints []string, err error) {
	if as, _ := catalog.ReadSearch(q); as != catalog.ReadName {
		return nil, nil
	}
	if len(found) == 0 {
		n, err := a.Find(ctx, q+"*", 1, func(display.Found) error { return nil })
		if err == nil && n > 0 {
			hints = append(hints, "there are files whose names begin so: symdepot find '"+term.Printable(q)+"*'")
		}
		return hints, err
	}
	var ids []string
	for _, f := range found {
		if id := f.ID(); id != "" && f.InPlace == "" && !slices.Contains(ids, id) && len(ids) < maxSame {
			ids = append(ids, id)
		}
	}
	for _, id := range ids {
		var names []string
		if _, err := a.Find(ctx, id, limit, func(f display.Found) error {
			if name := term.Printable(f.Name); symfile.Fold(f.Name) != symfile.Fold(q) && !slices.Contains(names, name) {
				names = append(names, name)
			}
			return nil
		}); err != nil {
			return nil, err
		}
		if len(names) > 0 {
			hints = append(hints, "of the same id: "+strings.Join(names, ", ")+"; symdepot find "+id)
		}
	}
	return hints, nil
}

// Unlisted says which served folders a search by name cannot look into.
func (a *API) Unlisted(ctx context.Context) ([]string, error) {
	served, err := a.Served(ctx)
	if text := display.UnsearchedText(served); text != "" {
		return []string{text + "; symdepot why PATH says whether one of them answers"}, err
	}
	return nil, err
}
