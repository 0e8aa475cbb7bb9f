package api

import (
	"errors"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/symdepot/symdepot/internal/depot/catalog"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/depot/inplace"
	"github.com/symdepot/symdepot/internal/serve/web"
)

// reading begins the answer to a request for a part of a list.
func reading(r *web.Request, list string, parameters ...string) (q url.Values, limit int, after string, err error) {
	if err := errors.Join(web.OnlyParameters(r, append(parameters, "limit", "cursor")...), r.MayRead()); err != nil {
		return nil, 0, "", err
	}
	q = r.URL.Query()
	limit, after, err = web.ReadPage(q, list)
	return q, limit, after, err
}

// catalogAPI answers requests for what the depot holds.
type catalogAPI struct {
	catalog      *catalog.Catalog
	inPlace      *inplace.Places
	transactions *web.Transactions
	sources      *web.SourceLists
	symbols      *web.Symbolication
	computing    *web.Gate
	foundInPlace int // files of watched and served folders in an answer to a search
}

func (a catalogAPI) routes() []route {
	return []route{
		on(http.MethodGet, "v1/builds/*/files", a.listFiles),
		on(http.MethodGet, "v1/files", a.listObjects),
		bare(on(http.MethodGet, "v1/files/*", a.showEntry)),
		on(http.MethodGet, "v1/files/*/holders", a.listHolders),
		bare(on(http.MethodGet, "v1/files/*/paths", a.listPaths)),
		bare(on(http.MethodGet, "v1/files/*/forms", a.listForms)),
		on(http.MethodGet, "v1/files/*/sources", a.listSources),
		on(http.MethodGet, "v1/files/*/functions", a.listFunctions),
		on(http.MethodGet, "v1/served", a.listServed),
		on(http.MethodGet, "v1/products", a.listProducts),
		on(http.MethodGet, "v1/versions", a.listVersions),
		on(http.MethodGet, "v1/versions/diff", a.compareVersions),
		on(http.MethodGet, "v1/versions/files", a.listVersionFiles),
	}
}

// listObjects answers GET files.
func (a catalogAPI) listObjects(w http.ResponseWriter, r *web.Request, _ []string) error {
	q, limit, after, err := reading(r, "objects", "q", "name", "id", "kind", "arch", "product", "has", "since", "origin", "sort")
	if err != nil {
		return err
	}
	query := catalog.ObjectQuery{
		Text: q.Get("q"), Name: q.Get("name"), ID: q.Get("id"), Arch: q.Get("arch"), Product: web.ProductOf(q),
		Feature: q.Get("has"), After: after, Limit: limit,
	}
	if query.Kind, err = web.KindOf(q); err != nil {
		return err
	}
	if query.Since, err = web.TimeOf(q, "since"); err != nil {
		return err
	}
	if query.Origin, err = web.WordOf(q, "origin", catalog.OriginAdded, catalog.OriginFetched); err != nil {
		return err
	}
	sort, err := web.WordOf(q, "sort", string(catalog.SortName), string(catalog.SortAdded), string(catalog.SortSize))
	if err != nil {
		return err
	}
	query.Sort = catalog.ObjectSort(sort)
	p, err := a.catalog.Objects(r.Context(), r.Scope(), query)
	if err != nil {
		return web.ListProblem(err, after)
	}
	// The files of watched and served folders come last. They have no other filter than the kind.
	ofKind := catalog.ObjectQuery{Text: query.Text, Kind: query.Kind, After: after, Limit: limit, Sort: query.Sort}
	if p.Next == "" && query.Text != "" && query == ofKind {
		found, err := a.inPlace.Find(r.Context(), r.Scope(), query.Text, query.Kind, max(1, min(a.foundInPlace, limit-len(p.Objects))))
		if err != nil {
			return err
		}
		p.Objects = append(p.Objects, found...)
	}
	return web.WriteListRead(w, r, "objects", display.NewListedAll(p.Objects), p.Next, p.ReadAs)
}

// entry returns the content that an address names.
func (a catalogAPI) entry(r *web.Request, text string) (*catalog.Entry, error) {
	if err := r.MayRead(); err != nil {
		return nil, err
	}
	ref, err := catalog.ParseContent(text)
	var e *catalog.Entry
	if err == nil {
		e, err = a.catalog.Entry(r.Context(), r.Scope(), ref)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, web.NoContent(text)
	}
	return e, err
}

// showEntry answers GET files/SHA256.
func (a catalogAPI) showEntry(w http.ResponseWriter, r *web.Request, args []string) error {
	e, err := a.entry(r, args[0])
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, display.NewEntry(e))
}

// listPaths answers GET files/SHA256/paths.
func (a catalogAPI) listPaths(w http.ResponseWriter, r *web.Request, args []string) error {
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
		paths := display.NewPaths(o)
		for _, l := range slices.Sorted(maps.Keys(paths)) {
			for _, p := range paths[l] {
				list = append(list, path{o.Name, o.Kind.String(), l, p})
			}
		}
	}
	return web.WriteList(w, r, "paths", list, "")
}

// listForms answers GET files/SHA256/forms.
func (a catalogAPI) listForms(w http.ResponseWriter, r *web.Request, args []string) error {
	e, err := a.entry(r, args[0])
	if err != nil {
		return err
	}
	return web.WriteList(w, r, "forms", display.NewForms(e.Forms), "")
}

// listHolders answers GET files/SHA256/holders.
func (a catalogAPI) listHolders(w http.ResponseWriter, r *web.Request, args []string) error {
	_, limit, after, err := reading(r, "holders")
	if err != nil {
		return err
	}
	var before int64
	if after != "" {
		if before, err = strconv.ParseInt(after, 10, 64); err != nil || before <= 0 {
			return &web.Problem{Word: "cursor"}
		}
	}
	ref, err := catalog.ParseContent(args[0])
	var list []catalog.Holder
	more := false
	if err == nil {
		list, more, err = a.catalog.Holders(r.Context(), r.Scope(), ref, before, limit)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return web.NoContent(args[0])
	}
	if err != nil {
		return err
	}
	next := ""
	if more && len(list) > 0 {
		next = strconv.FormatInt(list[len(list)-1].Transaction.Number, 10)
	}
	return web.WriteList(w, r, "holders", display.NewHolders(list), next)
}

// listFiles answers GET builds/N/files.
func (a catalogAPI) listFiles(w http.ResponseWriter, r *web.Request, args []string) error {
	q, limit, after, err := reading(r, "files", "name", "kind", "sort")
	if err != nil {
		return err
	}
	t, err := a.transactions.Find(r, args[0])
	if err != nil {
		return err
	}
	f, err := web.FilesAsked(q, limit, after)
	if err != nil {
		return err
	}
	p, err := a.catalog.Files(r.Context(), r.Scope(), t.Number, f)
	if err != nil {
		return web.ListProblem(err, after)
	}
	return web.WriteList(w, r, "files", web.Describe(p.Files, display.NewFile), p.Next)
}

// listServed answers GET served.
func (a catalogAPI) listServed(w http.ResponseWriter, r *web.Request, _ []string) error {
	if err := errors.Join(web.OnlyParameters(r), r.MayRead()); err != nil {
		return err
	}
	return web.WriteList(w, r, "served", web.Describe(a.inPlace.ServedFolders(r.Context(), r.Scope()), display.NewServedFolder), "")
}

// listProducts answers GET products.
func (a catalogAPI) listProducts(w http.ResponseWriter, r *web.Request, _ []string) error {
	q, limit, after, err := reading(r, "products", "sort")
	if err != nil {
		return err
	}
	sort, err := web.WordOf(q, "sort", "name", "newest", "bytes")
	if err != nil {
		return err
	}
	list, next, err := a.catalog.Products(r.Context(), r.Scope(), sort, after, limit)
	if err != nil {
		return web.ListProblem(err, after)
	}
	return web.WriteList(w, r, "products", web.Describe(list, display.NewProduct), next)
}

// listVersions answers GET versions.
func (a catalogAPI) listVersions(w http.ResponseWriter, r *web.Request, _ []string) error {
	q, limit, after, err := reading(r, "versions", "product", "prefix", "class", "sort")
	if err != nil {
		return err
	}
	product, err := web.NeedProduct(q)
	if err != nil {
		return err
	}
	sort, err := web.WordOf(q, "sort", "version", "newest", "bytes")
	if err != nil {
		return err
	}
	list, next, err := a.catalog.Versions(r.Context(), r.Scope(), product, catalog.VersionQuery{
		Prefix: q.Get("prefix"), Class: q.Get("class"), Sort: sort, After: after, Limit: limit,
	})
	if err != nil {
		return web.ListProblem(err, after)
	}
	return web.WriteList(w, r, "versions", web.Describe(list, display.NewVersion), next)
}

// compareVersions answers GET versions/diff.
func (a catalogAPI) compareVersions(w http.ResponseWriter, r *web.Request, _ []string) error {
	q, limit, after, err := reading(r, "diff", "product", "here", "there")
	if err != nil {
		return err
	}
	product, err := web.NeedProduct(q)
	if err != nil {
		return err
	}
	done, err := a.computing.Enter(r) // all differences are in memory
	if err != nil {
		return err
	}
	defer done()
	list, next, err := a.catalog.Compare(r.Context(), r.Scope(), product, q.Get("here"), q.Get("there"), after, limit)
	done()
	if err != nil {
		return web.ListProblem(err, after)
	}
	return web.WriteList(w, r, "diff", web.Describe(list, display.NewDifference), next)
}

// listVersionFiles answers GET versions/files.
func (a catalogAPI) listVersionFiles(w http.ResponseWriter, r *web.Request, _ []string) error {
	q, limit, after, err := reading(r, "version", "product", "version", "name", "kind", "sort")
	if err != nil {
		return err
	}
	product, err := web.NeedProduct(q)
	if err != nil {
		return err
	}
	f, err := web.FilesAsked(q, limit, after)
	if err != nil {
		return err
	}
	p, err := a.catalog.VersionFiles(r.Context(), r.Scope(), product, q.Get("version"), f)
	if err != nil {
		return web.ListProblem(err, after)
	}
	return web.WriteList(w, r, "version", web.Describe(p.Files, display.NewFile), p.Next)
}

// listFunctions answers GET files/SHA256/functions.
func (a catalogAPI) listFunctions(w http.ResponseWriter, r *web.Request, args []string) error {
	q, limit, after, err := reading(r, "functions", "q")
	if err != nil {
		return err
	}
	list, next, err := a.symbols.Functions(r, args[0], q.Get("q"), limit, after)
	if err != nil {
		return err
	}
	return web.WriteList(w, r, "functions", list, next)
}

// listSources answers GET files/SHA256/sources.
func (a catalogAPI) listSources(w http.ResponseWriter, r *web.Request, args []string) error {
	_, limit, after, err := reading(r, "sources")
	if err != nil {
		return err
	}
	l, next, err := a.sources.List(r, args[0], limit, after)
	if err != nil {
		return err
	}
	l.Next = web.LinkNext(w, r, "sources", next)
	return web.WriteJSON(w, http.StatusOK, l)
}
