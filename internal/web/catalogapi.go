package web

import (
	"errors"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/report"
	"github.com/symdepot/symdepot/symfile"
)

// mayRead returns a problem for an anonymous client that can read nothing, if it could
// send credentials.
func (r *Request) mayRead() error {
	if r.Anonymous && len(r.Challenges) > 0 && !r.Rights.All && len(r.Rights.Products) == 0 {
		return &Problem{Word: "credentials"}
	}
	return nil
}

// wrong is the problem of a parameter.
func wrong(name, why string) error {
	return &Problem{Word: "query", Detail: "a parameter is not valid", Fields: map[string]string{name: why}}
}

// timeOf reads a parameter that is a time or a day; the zero time if it is missing.
func timeOf(q url.Values, name string) (time.Time, error) {
	text := q.Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	for _, form := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(form, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, wrong(name, "a time is expected, such as 2026-12-31T10:00:00Z or 2026-12-31")
}

// kindOf reads the parameter kind.
func kindOf(q url.Values) (symfile.Kind, error) {
	word := q.Get("kind")
	k := symfile.ParseKind(word)
	if word != "" && k == symfile.KindUnknown {
		return k, wrong("kind", "a kind of symbol file is expected, such as pe, pdb, elf or macho")
	}
	return k, nil
}

// wordOf reads a parameter that is one of several words, or missing.
func wordOf(q url.Values, name string, words ...string) (string, error) {
	word := q.Get(name)
	if word != "" && !slices.Contains(words, word) {
		return "", wrong(name, "one of these is expected: "+strings.Join(words, ", "))
	}
	return word, nil
}

// each describes the items of a list.
func each[T, U any](list []T, describe func(T) U) []U {
	out := make([]U, len(list))
	for i, x := range list {
		out[i] = describe(x)
	}
	return out
}

// writeList answers with a part of a list. next is the sort key of its last item, "" if
// there are no more.
func writeList[T any](w http.ResponseWriter, r *Request, name string, items []T, next string) error {
	return writeListRead(w, r, name, items, next, "")
}

// writeListRead is writeList that also says how a text was read.
func writeListRead[T any](w http.ResponseWriter, r *Request, name string, items []T, next string, as depot.ReadAs) error {
	out := struct {
		ReadAs depot.ReadAs `json:"read_as,omitempty"`
		Items  []T          `json:"items"`
		Next   string       `json:"next,omitempty"`
	}{ReadAs: as, Items: items}
	if out.Items == nil {
		out.Items = []T{}
	}
	out.Next = linkNext(w, r, name, next)
	return writeJSON(w, http.StatusOK, out)
}

// listed returns the problem that an error of a list is. after is the place that the
// client has sent.
func listed(err error, after string) error {
	switch {
	case errors.Is(err, depot.ErrShortPattern):
		return wrong("q", depot.ErrShortPattern.Error())
	case errors.Is(err, depot.ErrTooDifferent):
		return &Problem{Word: "query", Detail: depot.ErrTooDifferent.Error()}
	case errors.Is(err, fs.ErrInvalid) && after != "":
		return &Problem{Word: "cursor"}
	case errors.Is(err, fs.ErrInvalid):
		return &Problem{Word: "query", Detail: err.Error()}
	}
	return err
}

// reading begins the answer to a request for a part of a list.
func (a *API) reading(r *Request, list string, parameters ...string) (q url.Values, limit int, after string, err error) {
	if a.cfg.Catalog == nil {
		return nil, 0, "", &Problem{Word: "not-found"}
	}
	if err := errors.Join(only(r, append(parameters, "limit", "cursor")...), r.mayRead()); err != nil {
		return nil, 0, "", err
	}
	q = r.URL.Query()
	limit, after, err = readPage(q, list)
	return q, limit, after, err
}

// productOf reads the parameter product; nil if it is missing. An empty one is that of
// transactions without a product.
func productOf(q url.Values) *string {
	if !q.Has("product") {
		return nil
	}
	product := q.Get("product")
	return &product
}

// listObjects answers GET objects.
func listObjects(a *API, w http.ResponseWriter, r *Request, _ []string) error {
	q, limit, after, err := a.reading(r, "objects", "q", "name", "id", "kind", "arch", "product", "has", "since", "origin", "sort")
	if err != nil {
		return err
	}
	query := depot.ObjectQuery{Text: q.Get("q"), Name: q.Get("name"), ID: q.Get("id"), Arch: q.Get("arch"), Product: productOf(q), Feature: q.Get("has"), After: after, Limit: limit}
	if query.Kind, err = kindOf(q); err != nil {
		return err
	}
	if query.Since, err = timeOf(q, "since"); err != nil {
		return err
	}
	if query.Origin, err = wordOf(q, "origin", depot.OriginAdded, depot.OriginFetched); err != nil {
		return err
	}
	sort, err := wordOf(q, "sort", string(depot.SortName), string(depot.SortAdded), string(depot.SortSize))
	if err != nil {
		return err
	}
	query.Sort = depot.ObjectSort(sort)
	p, err := a.cfg.Catalog.Objects(r.Context(), r.scope(), query)
	if err != nil {
		return listed(err, after)
	}
	if p.Next == "" && a.cfg.InPlace != nil && query.Text != "" && query == (depot.ObjectQuery{Text: query.Text, Kind: query.Kind, After: after, Limit: limit, Sort: query.Sort}) {
		// The files of watched folders come last. They have no other filter than the kind.
		found, err := a.cfg.InPlace.Search(r.Context(), r.scope(), query.Text, query.Kind, max(1, min(a.cfg.FoundInPlace, limit-len(p.Objects))))
		if err != nil {
			return err
		}
		p.Objects = append(p.Objects, found...)
	}
	return writeListRead(w, r, "objects", report.NewListedAll(p.Objects), p.Next, p.ReadAs)
}

// noContent is the answer for a content that does not exist, or that the client may not
// see.
func noContent(text string) error {
	return &Problem{Word: "not-found", Detail: "there is no file with the SHA-256 " + clip(text)}
}

// entry returns the content that an address names.
func (a *API) entry(r *Request, text string) (*depot.Entry, error) {
	if a.cfg.Catalog == nil {
		return nil, &Problem{Word: "not-found"}
	}
	if err := r.mayRead(); err != nil {
		return nil, err
	}
	ref, err := depot.ParseContent(text)
	var e *depot.Entry
	if err == nil {
		e, err = a.cfg.Catalog.Entry(r.Context(), r.scope(), ref)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noContent(text)
	}
	return e, err
}

// showEntry answers GET objects/SHA256.
func showEntry(a *API, w http.ResponseWriter, r *Request, args []string) error {
	e, err := a.entry(r, args[0])
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, report.NewEntry(e))
}

// listPaths answers GET objects/SHA256/paths.
func listPaths(a *API, w http.ResponseWriter, r *Request, args []string) error {
	e, err := a.entry(r, args[0])
	if err != nil {
		return err
	}
	type path struct {
		Name   string `json:"name"`
		Kind   string `json:"kind"`
		Layout string `json:"layout"`
		Path   string `json:"path"`
	}
	var list []path
	for i := range e.Objects {
		o := e.Objects[i].Object
		paths := report.NewPaths(o)
		for _, l := range slices.Sorted(maps.Keys(paths)) {
			for _, p := range paths[l] {
				list = append(list, path{o.Name, o.Kind.String(), l, p})
			}
		}
	}
	return writeList(w, r, "paths", list, "")
}

// listForms answers GET objects/SHA256/forms.
func listForms(a *API, w http.ResponseWriter, r *Request, args []string) error {
	e, err := a.entry(r, args[0])
	if err != nil {
		return err
	}
	return writeList(w, r, "forms", report.NewForms(e.Forms), "")
}

// listHolders answers GET objects/SHA256/holders.
func listHolders(a *API, w http.ResponseWriter, r *Request, args []string) error {
	_, limit, after, err := a.reading(r, "holders")
	if err != nil {
		return err
	}
	var before int64
	if after != "" {
		if before, err = strconv.ParseInt(after, 10, 64); err != nil || before <= 0 {
			return &Problem{Word: "cursor"}
		}
	}
	ref, err := depot.ParseContent(args[0])
	var list []depot.Holder
	more := false
	if err == nil {
		list, more, err = a.cfg.Catalog.Holders(r.Context(), r.scope(), ref, before, limit)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return noContent(args[0])
	}
	if err != nil {
		return err
	}
	next := ""
	if more && len(list) > 0 {
		next = strconv.FormatInt(list[len(list)-1].Transaction.Number, 10)
	}
	return writeList(w, r, "holders", report.NewHolders(list), next)
}

// filesAsked reads the parameters of a list of files.
func filesAsked(q url.Values, limit int, after string) (f depot.FileQuery, err error) {
	f = depot.FileQuery{Name: q.Get("name"), After: after, Limit: limit}
	if f.Kind, err = kindOf(q); err != nil {
		return f, err
	}
	sort, err := wordOf(q, "sort", string(depot.SortAdded), string(depot.SortName), string(depot.SortSize))
	f.Sort = depot.ObjectSort(sort)
	return f, err
}

// listFiles answers GET transactions/N/files.
func listFiles(a *API, w http.ResponseWriter, r *Request, args []string) error {
	q, limit, after, err := a.reading(r, "files", "name", "kind", "sort")
	if err != nil {
		return err
	}
	t, err := a.transaction(r, args[0])
	if err != nil {
		return err
	}
	f, err := filesAsked(q, limit, after)
	if err != nil {
		return err
	}
	p, err := a.cfg.Catalog.Files(r.Context(), r.scope(), t.Number, f)
	if err != nil {
		return listed(err, after)
	}
	return writeList(w, r, "files", each(p.Files, report.NewFile), p.Next)
}

// listProducts answers GET products.
func listProducts(a *API, w http.ResponseWriter, r *Request, _ []string) error {
	q, limit, after, err := a.reading(r, "products", "sort")
	if err != nil {
		return err
	}
	sort, err := wordOf(q, "sort", "name", "newest", "bytes")
	if err != nil {
		return err
	}
	list, next, err := a.cfg.Catalog.Products(r.Context(), r.scope(), sort, after, limit)
	if err != nil {
		return listed(err, after)
	}
	return writeList(w, r, "products", each(list, report.NewProduct), next)
}

// needProduct reads the parameter product, which must be there.
func needProduct(q url.Values) (string, error) {
	if p := productOf(q); p != nil {
		return *p, nil
	}
	return "", wrong("product", "a product is expected; an empty one is that of transactions without a product")
}

// listVersions answers GET versions.
func listVersions(a *API, w http.ResponseWriter, r *Request, _ []string) error {
	q, limit, after, err := a.reading(r, "versions", "product", "prefix", "class", "sort")
	if err != nil {
		return err
	}
	product, err := needProduct(q)
	if err != nil {
		return err
	}
	sort, err := wordOf(q, "sort", "version", "newest", "bytes")
	if err != nil {
		return err
	}
	list, next, err := a.cfg.Catalog.Versions(r.Context(), r.scope(), product, depot.VersionQuery{Prefix: q.Get("prefix"), Class: q.Get("class"), Sort: sort, After: after, Limit: limit})
	if err != nil {
		return listed(err, after)
	}
	return writeList(w, r, "versions", each(list, report.NewVersion), next)
}

// compareVersions answers GET versions/diff.
func compareVersions(a *API, w http.ResponseWriter, r *Request, _ []string) error {
	q, limit, after, err := a.reading(r, "diff", "product", "here", "there")
	if err != nil {
		return err
	}
	product, err := needProduct(q)
	if err != nil {
		return err
	}
	done, err := a.computing(r) // all differences are in memory
	if err != nil {
		return err
	}
	defer done()
	list, next, err := a.cfg.Catalog.Compare(r.Context(), r.scope(), product, q.Get("here"), q.Get("there"), after, limit)
	done()
	if err != nil {
		return listed(err, after)
	}
	return writeList(w, r, "diff", each(list, report.NewDifference), next)
}

// listVersionFiles answers GET versions/files.
func listVersionFiles(a *API, w http.ResponseWriter, r *Request, _ []string) error {
	q, limit, after, err := a.reading(r, "version", "product", "version", "name", "kind", "sort")
	if err != nil {
		return err
	}
	product, err := needProduct(q)
	if err != nil {
		return err
	}
	f, err := filesAsked(q, limit, after)
	if err != nil {
		return err
	}
	p, err := a.cfg.Catalog.VersionFiles(r.Context(), r.scope(), product, q.Get("version"), f)
	if err != nil {
		return listed(err, after)
	}
	return writeList(w, r, "version", each(p.Files, report.NewFile), p.Next)
}
