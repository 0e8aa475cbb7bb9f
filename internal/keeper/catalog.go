package keeper

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/symdepot/symdepot/internal/client"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/report"
	"github.com/symdepot/symdepot/internal/wire"
	"github.com/symdepot/symdepot/symfile"
)

// Catalog is what a depot holds, as commands list it.
type Catalog interface {
	// Find calls each for the objects that a text finds, ordered by name, at most limit
	// (0: all), and returns their number.
	Find(ctx context.Context, text string, limit int, each func(report.Found) error) (int, error)
	// Same calls each for the objects that have the ids or the content of an object of a
	// local file, and says whether the content is the same. Of objects in watched folders
	// that is not known; they have no SHA256.
	Same(ctx context.Context, s depot.Same, each func(report.Found, bool) error) error
	// Transactions calls each for transactions, newest first.
	Transactions(ctx context.Context, f depot.ListFilter, each func(report.Transaction) error) error
	// State returns a transaction with its history. An unknown one is fs.ErrNotExist.
	State(ctx context.Context, number int64) (report.State, error)
	// Files calls each for the files of a transaction.
	Files(ctx context.Context, number int64, each func(report.File) error) error
	// Missing calls each for the files that clients requested and did not get.
	Missing(ctx context.Context, f depot.WantedFilter, each func(depot.Wanted) error) error
}

// LocalCatalog returns what a depot holds.
func LocalCatalog(d *depot.Depot) Catalog { return localCatalog{d} }

type localCatalog struct{ d *depot.Depot }

func (k localCatalog) Find(ctx context.Context, text string, limit int, each func(report.Found) error) (n int, err error) {
	q := depot.ObjectQuery{Text: text, Limit: rows(limit, 0)}
	for {
		p, err := k.d.Catalog.Objects(ctx, depot.Scope{}, q)
		if err != nil {
			return n, err
		}
		for _, f := range p.Objects {
			if len(f.Transactions) == depot.ListedTransactions {
				if f.Transactions, err = k.transactions(ctx, f); err != nil {
					return n, err
				}
			}
			if err := each(report.NewFound(text, f, nil)); err != nil {
				return n, err
			}
			n++
		}
		if q.After, q.Limit = p.Next, rows(limit, n); q.Limit == 0 {
			return n, nil
		}
		if q.After == "" {
			break
		}
	}
	rest := 0
	if limit > 0 {
		rest = limit - n
	}
	found, err := k.d.Watched.Search(ctx, depot.Scope{}, text, symfile.KindUnknown, rest)
	if err != nil {
		return n, err
	}
	for _, f := range found {
		if err := each(report.NewFound(text, f, nil)); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// transactions returns all transactions that hold an object.
func (k localCatalog) transactions(ctx context.Context, f depot.Found) (list []int64, err error) {
	for last, more := int64(0), true; more; {
		var holders []depot.Holder
		if holders, more, err = k.d.Catalog.Holders(ctx, depot.Scope{}, f.Ref, last, pageOf); err != nil {
			return nil, err
		}
		for _, h := range holders {
			last = h.Transaction.Number
			list = append(list, last)
		}
		more = more && len(holders) > 0
	}
	return list, nil
}

func (k localCatalog) Same(ctx context.Context, s depot.Same, each func(report.Found, bool) error) error {
	list, err := depot.FinderIn(k.d).Alike(ctx, depot.Scope{}, s.Object, &s.Ref)
	if err != nil {
		return err
	}
	for _, f := range list {
		if err := each(report.NewFound("", f, nil), f.Ref == s.Ref); err != nil {
			return err
		}
	}
	found, err := k.d.Watched.Alike(ctx, depot.Scope{}, s.Object, sameObjects)
	if err != nil {
		return err
	}
	for _, f := range found {
		if err := each(report.NewFound("", f, nil), false); err != nil {
			return err
		}
	}
	return nil
}

func (k localCatalog) Transactions(ctx context.Context, f depot.ListFilter, each func(report.Transaction) error) error {
	list, err := k.d.List(ctx, depot.Scope{}, f)
	if err != nil {
		return err
	}
	for _, t := range list {
		if err := each(report.NewTransaction(t)); err != nil {
			return err
		}
	}
	return nil
}

func (k localCatalog) State(ctx context.Context, number int64) (s report.State, err error) {
	t, err := k.d.Transaction(ctx, number)
	if err != nil {
		return s, err
	}
	r := k.d.Retention
	holds, err := r.Holds(ctx, number)
	if err != nil {
		return s, err
	}
	promotions, err := r.Promotions(ctx, number)
	if err != nil {
		return s, err
	}
	needs, err := r.Needs(ctx, number)
	if err != nil {
		return s, err
	}
	var removal *depot.Removal
	switch why, err := r.Why(ctx, number); {
	case err == nil && !t.Removed.IsZero():
		removal = &why
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return s, err
	}
	s = report.NewState(t, holds, promotions, removal)
	s.Needs = needs
	s.Key, err = r.PushKey(ctx, number)
	return s, err
}

func (k localCatalog) Files(ctx context.Context, number int64, each func(report.File) error) error {
	return k.d.Files(ctx, number, func(f depot.TxFile) error { return each(report.NewFile(f)) })
}

func (k localCatalog) Missing(ctx context.Context, f depot.WantedFilter, each func(depot.Wanted) error) error {
	return k.d.Missing.List(ctx, f, each)
}

// ServerCatalog returns what the depot of a server holds.
func ServerCatalog(c *client.Retention) Catalog { return serverCatalog{c} }

type serverCatalog struct{ c *client.Retention }

// pageOf is how many items a page has.
const pageOf = 500

// rows returns how many items the next page has, if n of limit (0: all) are there.
func rows(limit, n int) int {
	if limit <= 0 {
		return pageOf
	}
	return min(limit-n, pageOf)
}

// pages calls each for the items of a list of a server, at most limit (0: all), and
// returns their number.
func pages[T any](ctx context.Context, c *client.Retention, path string, q url.Values, limit int, each func(T) error) (n int, err error) {
	for {
		var page struct {
			Items []T    `json:"items"`
			Next  string `json:"next"`
		}
		q.Set("limit", strconv.Itoa(rows(limit, n)))
		if err := meant(c.Get(ctx, path, q, &page), fs.ErrNotExist); err != nil {
			return n, err
		}
		for _, x := range page.Items {
			if err := each(x); err != nil {
				return n, err
			}
			n++
		}
		if page.Next == "" || limit > 0 && n >= limit {
			return n, nil
		}
		q.Set("cursor", page.Next)
	}
}

// objects calls each for the objects of a list of a server, with all their
// transactions.
func (k serverCatalog) objects(ctx context.Context, q url.Values, limit int, each func(report.Listed) error) (int, error) {
	return pages(ctx, k.c, wire.ObjectsPath, q, limit, func(l report.Listed) error {
		if len(l.Transactions) == depot.ListedTransactions {
			l.Transactions = nil
			if _, err := pages(ctx, k.c, wire.ObjectsPath+"/"+l.SHA256+"/holders", url.Values{}, 0, func(h report.Holder) error {
				l.Transactions = append(l.Transactions, h.Transaction.Transaction)
				return nil
			}); err != nil {
				return err
			}
		}
		return each(l)
	})
}

func (k serverCatalog) Find(ctx context.Context, text string, limit int, each func(report.Found) error) (int, error) {
	return k.objects(ctx, url.Values{"q": {text}}, limit, func(l report.Listed) error {
		l.Query = text
		return each(l.Found)
	})
}

// sameObjects is how many objects are shown that have the ids of a local file.
const sameObjects = 100

func (k serverCatalog) Same(ctx context.Context, s depot.Same, each func(report.Found, bool) error) error {
	type key struct{ sha, place, name string }
	have := map[key]bool{}
	var list []report.Listed
	ask := func(q url.Values) error {
		_, err := k.objects(ctx, q, sameObjects, func(l report.Listed) error {
			if id := (key{l.SHA256, l.InPlace, l.Name}); !have[id] && l.Kind == s.Object.Kind.String() {
				have[id] = true
				list = append(list, l)
			}
			return nil
		})
		return err
	}
	texts := []string{s.Ref.String()}
	for _, a := range s.Object.Aliases() {
		if !slices.Contains(texts, a.ID) {
			texts = append(texts, a.ID)
		}
	}
	for _, text := range texts {
		if err := ask(url.Values{"q": {text}, "kind": {s.Object.Kind.String()}}); err != nil {
			return err
		}
	}
	newest := func(l report.Listed) int64 {
		if len(l.Transactions) == 0 {
			return 0
		}
		return l.Transactions[0]
	}
	slices.SortStableFunc(list, func(a, b report.Listed) int {
		return cmp.Or(cmp.Compare(symfile.Fold(a.Name), symfile.Fold(b.Name)), cmp.Compare(newest(b), newest(a)))
	})
	for _, l := range list[:min(len(list), sameObjects)] {
		if err := each(l.Found, l.SHA256 == s.Ref.String()); err != nil {
			return err
		}
	}
	return nil
}

func (k serverCatalog) Transactions(ctx context.Context, f depot.ListFilter, each func(report.Transaction) error) error {
	q := url.Values{}
	if f.Product != nil {
		q.Set("product", *f.Product)
	}
	for name, value := range map[string]string{"version": f.Version, "who": f.Who} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if !f.Since.IsZero() {
		q.Set("since", f.Since.UTC().Format(time.RFC3339Nano))
	}
	if f.Removed {
		q.Set("removed", "true")
	}
	_, err := pages(ctx, k.c, wire.TransactionsPath, q, f.Limit, each)
	return err
}

func (k serverCatalog) State(ctx context.Context, number int64) (report.State, error) {
	return ask[report.State](fs.ErrNotExist, func(into any) error { return k.c.Transaction(ctx, number, into) })
}

func (k serverCatalog) Files(ctx context.Context, number int64, each func(report.File) error) error {
	_, err := pages(ctx, k.c, wire.TransactionsPath+"/"+strconv.FormatInt(number, 10)+"/files", url.Values{}, 0, each)
	return err
}

func (k serverCatalog) Missing(ctx context.Context, f depot.WantedFilter, each func(depot.Wanted) error) error {
	q := url.Values{}
	for name, value := range map[string]string{"name": f.Name, "client": f.Client} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if !f.Since.IsZero() {
		q.Set("since", f.Since.UTC().Format(time.RFC3339Nano))
	}
	_, err := pages(ctx, k.c, wire.MissesPath, q, f.Limit, each)
	return err
}
