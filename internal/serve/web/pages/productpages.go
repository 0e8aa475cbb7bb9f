package pages

import (
	"errors"
	"net/http"
	"slices"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/catalog"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/serve/intake"
	"github.com/symdepot/symdepot/internal/serve/web"
)

// productPages are the pages about products and their versions.
type productPages struct {
	catalog   *catalog.Catalog
	depot     web.Depot
	policies  web.Policies
	history   web.History
	plots     usagePlots
	forms     *intake.Handler
	computing *web.Gate
	coverage  *web.Coverage
}

func (p productPages) routes() []pageRoute {
	return []pageRoute{
		page(http.MethodGet, "products", web.Anyone, "Builds/Products", p.products).explainedIn("web"),
		page(http.MethodGet, "product", web.Anyone, "", p.product).explainedIn("web"),
		page(http.MethodGet, "version", web.Anyone, "", p.version).explainedIn("web"),
	}
}

// sorted returns the sort key of a request, which is one of keys; the first is the
// default.
func sorted(r *web.Request, keys ...string) (string, error) {
	key := r.URL.Query().Get("sort")
	if key == "" {
		return keys[0], nil
	}
	if !slices.Contains(keys, key) {
		return "", web.BadParameter("sort", "is unknown")
	}
	return key, nil
}

// productsView is what the list of products shows.
type productsView struct {
	Head  []column
	Rows  []catalog.ProductFacts
	Pages pages
}

// products answers GET products.
func (p productPages) products(w *reply, r *web.Request, _ []string) error {
	sort, err := sorted(r, "name", "newest", "bytes")
	if err != nil {
		return err
	}
	limit, after, err := web.ReadPage(r.URL.Query(), "products")
	if err != nil {
		return err
	}
	list, next, err := p.catalog.Products(r.Context(), r.Scope(), sort, after, limit)
	if err != nil {
		return badQuery(err)
	}
	f := w.frame(r, "Products", nil)
	v := productsView{Rows: list, Pages: f.pager("products", next)}
	v.Head = f.columns(sort, "newest bytes",
		"Product|name", "Versions||num", "Builds||num", "Files||num", "Size|bytes|num", "Newest|newest")
	f.D = v
	return w.print(r, http.StatusOK, "products", f)
}

// productView is what the page of a product shows.
type productView struct {
	Name, Prefix string
	Classes      filter
	Head         []column
	Rows         []versionRow
	Pages        pages
	Plot         plot
	Found        string
	Compare      bool // there are two versions at least
	MayRead      bool
	Covered      []coveredRow // the newest builds that were checked
	Publish      string       // the page for publishing more files; or ""
}

// coveredRow is a checked build of a product.
type coveredRow struct {
	wire.CoveredBuild
	Link string
}

// shownCovered is how many checked builds the page of a product shows.
const shownCovered = 20

type versionRow struct {
	catalog.VersionFacts
	TxLink string
}

// namedProduct returns the product that a request names, if the client may see it: others do
// not exist for it.
func namedProduct(r *web.Request) (string, error) {
	q := r.URL.Query()
	name := q.Get("p")
	if !q.Has("p") || !r.Rights.MayRead(name) {
		return "", &web.Problem{Word: "not-found", Detail: "there is no such product"}
	}
	return name, nil
}

// product answers GET product?p=NAME.
func (p productPages) product(w *reply, r *web.Request, _ []string) error {
	name, err := namedProduct(r)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	vq := catalog.VersionQuery{Prefix: q.Get("prefix"), Class: q.Get("class")}
	if vq.Sort, err = sorted(r, "newest", "version", "bytes"); err != nil {
		return err
	}
	if vq.Limit, vq.After, err = web.ReadPage(q, "versions"); err != nil {
		return err
	}
	list, next, err := p.catalog.Versions(r.Context(), r.Scope(), name, vq)
	if err != nil {
		return badQuery(err)
	}
	if len(list) == 0 && vq.Prefix == "" && vq.Class == "" && vq.After == "" {
		return &web.Problem{Word: "not-found", Detail: "there is no such product"}
	}
	classes, err := classes(r.Context(), p.policies)
	if err != nil {
		return err
	}
	f := w.frame(r, shownName(name), nil)
	v := productView{
		Name: name, Prefix: vq.Prefix, Classes: choices("Class", "class", vq.Class, classes...),
		Pages: f.pager("versions", next), Compare: len(list) > 1,
	}
	v.Head = f.columns(vq.Sort, "newest bytes",
		"Version|version", "Class", "Builds||num", "Files||num", "Size|bytes|num", "Newest|newest", "Build")
	for _, x := range list {
		v.Rows = append(v.Rows, versionRow{x, f.To("builds", x.NewestNumber)})
	}
	if err := p.productPlot(r, &v); err != nil {
		return err
	}
	covered, err := p.coverage.Trend(r, name)
	if err != nil {
		return err
	}
	for _, b := range covered[:min(len(covered), shownCovered)] {
		v.Covered = append(v.Covered, coveredRow{b, f.To("builds", b.Build)})
	}
	if _, err := publisher(r, p.forms); err == nil && r.Principal.Write(name) {
		v.Publish = f.Ask("publish", "p", name)
	}
	f.D = v
	return w.print(r, http.StatusOK, "product", f)
}

// productPlot reads the recorded disk space of a product.
func (p productPages) productPlot(r *web.Request, v *productView) error {
	u := usageView{Days: usagePeriods[1].days}
	if err := p.plots.read(r, &u, v.Name); err != nil {
		return err
	}
	v.Plot, v.Found = u.Plot, u.Found
	return nil
}

// shownName is a name of a product or a version in a title.
func shownName(name string) string {
	if name == "" {
		return "no name"
	}
	return name
}

// versionView is what the page of a version shows.
type versionView struct {
	Product, Version string
	Transactions     []txRow
	Files, Bytes     int64
	Holds            []lifecycle.Hold
	Table            fileTable
	Unpaired         []fileRow // programs without their PDB
	MoreUnpaired     bool
	// With is the version to compare with, Others are the choices.
	With         string
	Others       []string
	Differences  []differenceRow
	Compared     bool
	ComparePages pages
	TooMany      string // why the versions cannot be compared
}

type differenceRow struct {
	catalog.Difference
	What string
}

// Limits of the page of a version.
const (
	shownUnpaired = 10
	shownVersions = 50 // to compare with
)

// version answers GET version?p=PRODUCT&v=VERSION.
func (p productPages) version(w *reply, r *web.Request, _ []string) error {
	product, err := namedProduct(r)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	version := q.Get("v")
	f := w.frame(r, shownName(product)+" "+version, nil)
	v := versionView{Product: product, Version: version, With: q.Get("with")}
	txs, err := p.depot.List(r.Context(), r.Scope(), depot.ListFilter{Product: &product, Version: version, Limit: web.ListRows})
	if err != nil {
		return err
	}
	for _, t := range txs {
		if t.Version != version { // the filter "" is any
			continue
		}
		v.Transactions = append(v.Transactions, f.txRow(t))
		v.Files += t.Files
		v.Bytes += t.Bytes
		holds, err := p.history.Holds(r.Context(), t.Number)
		if err != nil {
			return err
		}
		v.Holds = append(v.Holds, holds...)
	}
	if len(v.Transactions) == 0 {
		return &web.Problem{Word: "not-found", Detail: "there is no such version of the product"}
	}
	if err := p.versionOthers(r, &v); err != nil {
		return err
	}
	if q.Has("with") {
		err = p.compare(r, f, &v)
	} else {
		err = p.versionFiles(r, f, &v)
	}
	if err != nil {
		return err
	}
	f.D = v
	return w.print(r, http.StatusOK, "version", f)
}

// versionOthers lists the newest other versions of the product.
func (p productPages) versionOthers(r *web.Request, v *versionView) error {
	list, _, err := p.catalog.Versions(r.Context(), r.Scope(), v.Product, catalog.VersionQuery{Sort: "newest", Limit: shownVersions})
	for _, x := range list {
		if x.Version != v.Version {
			v.Others = append(v.Others, x.Version)
		}
	}
	return err
}

// versionFiles lists the files of a version, and its programs without a PDB.
func (p productPages) versionFiles(r *web.Request, f *frame, v *versionView) error {
	q, err := fileQuery(r, "versionfiles", catalog.SortName)
	if err != nil {
		return err
	}
	files, err := p.catalog.VersionFiles(r.Context(), r.Scope(), v.Product, v.Version, q)
	if err != nil {
		return badQuery(err)
	}
	v.Table = f.files("Files of "+shownName(v.Version), "versionfiles", q, files)
	list, more, err := p.catalog.WithoutPDB(r.Context(), r.Scope(), v.Product, v.Version, shownUnpaired)
	if err != nil {
		return err
	}
	v.MoreUnpaired = more
	for _, x := range list {
		v.Unpaired = append(v.Unpaired, f.fileRow(x))
	}
	return nil
}

// compare lists how a version differs from another one.
func (p productPages) compare(r *web.Request, f *frame, v *versionView) error {
	limit, after, err := web.ReadPage(r.URL.Query(), "compare")
	if err != nil {
		return err
	}
	v.Compared = true
	done, err := p.computing.Enter(r) // all differences are in memory
	if err != nil {
		return err
	}
	defer done()
	list, next, err := p.catalog.Compare(r.Context(), r.Scope(), v.Product, v.Version, v.With, after, limit)
	if errors.Is(err, catalog.ErrTooDifferent) {
		v.TooMany = err.Error()
		return nil
	}
	if err != nil {
		return badQuery(err)
	}
	for _, d := range list {
		row := differenceRow{d, "other id"}
		switch {
		case d.Here == "":
			row.What = "only there"
		case d.There == "":
			row.What = "only here"
		}
		v.Differences = append(v.Differences, row)
	}
	v.ComparePages = f.pager("compare", next)
	return nil
}
