package client

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net/url"
	"slices"

	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/catalog"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/symfile"
)

// objects calls each for the objects of a list, with all their transactions.
func (a *API) objects(ctx context.Context, q url.Values, limit int, each func(display.Listed) error) (int, error) {
	return list(ctx, a, wire.ObjectsPath, q, limit, func(l display.Listed) error {
		if len(l.Transactions) == catalog.ListedTransactions {
			l.Transactions = nil
			if _, err := list(ctx, a, wire.ObjectsPath+"/"+l.SHA256+"/holders", url.Values{}, 0, func(h display.Holder) error {
				l.Transactions = append(l.Transactions, h.Transaction.Transaction)
				return nil
			}); err != nil {
				return err
			}
		}
		return each(l)
	})
}

// Find calls each for the objects that a text finds, ordered by name, at most limit (0:
// all), and returns their number.
func (a *API) Find(ctx context.Context, text string, limit int, each func(display.Found) error) (int, error) {
	return a.objects(ctx, url.Values{"q": {text}}, limit, func(l display.Listed) error {
		l.Query = text
		return each(l.Found)
	})
}

// sameObjects is how many objects are shown that have the ids of a local file.
const sameObjects = 100

// same calls each for the objects that have the ids or the content of an object of a local
// file, and says whether the content is the same. Of objects in watched folders that is not
// known; they have no SHA256.
func (a *API) same(ctx context.Context, s depot.Same, each func(display.Found, bool) error) error {
	type key struct{ sha, place, name string }
	have := map[key]bool{}
	var found []display.Listed
	texts := []string{s.Ref.String()}
	for _, alias := range s.Object.Aliases() {
		if !slices.Contains(texts, alias.ID) {
			texts = append(texts, alias.ID)
		}
	}
	kind := s.Object.Kind.String()
	for _, text := range texts {
		if _, err := a.objects(ctx, url.Values{"q": {text}, "kind": {kind}}, sameObjects, func(l display.Listed) error {
			if id := (key{l.SHA256, l.InPlace, l.Name}); !have[id] && l.Kind == kind {
				have[id] = true
				found = append(found, l)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	newest := func(l display.Listed) int64 {
		if len(l.Transactions) == 0 {
			return 0
		}
		return l.Transactions[0]
	}
	sorting.Stable(found, func(a, b display.Listed) int {
		return cmp.Or(cmp.Compare(symfile.Fold(a.Name), symfile.Fold(b.Name)), cmp.Compare(newest(b), newest(a)))
	})
	for _, l := range found[:min(len(found), sameObjects)] {
		if err := each(l.Found, l.SHA256 == s.Ref.String()); err != nil {
			return err
		}
	}
	return nil
}

// Served returns the folders that are served where they lie. A server that does not know the
// question yet has none.
func (a *API) Served(ctx context.Context) ([]display.ServedFolder, error) {
	p, err := get[struct {
		Items []display.ServedFolder `json:"items"`
	}](ctx, a, wire.ServedPath, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return p.Items, err
}

// Missing calls each for the files that clients requested and did not get.
func (a *API) Missing(ctx context.Context, f catalog.WantedFilter, each func(catalog.Wanted) error) error {
	q := given(map[string]string{"name": f.Name, "client": f.Client, "since": moment(f.Since)})
	_, err := list(ctx, a, wire.MissesPath, q, f.Limit, each)
	return err
}

// Trace explains why a request for a path finds a file or does not.
func (a *API) Trace(ctx context.Context, path string) (display.Trace, error) {
	return get[display.Trace](ctx, a, wire.TracePath, url.Values{"path": {path}})
}
