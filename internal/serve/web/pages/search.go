package pages

import (
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/catalog"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/depot/inplace"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// catalogPages are the pages that search the depot.
type catalogPages struct {
	catalog *catalog.Catalog
	inPlace *inplace.Places
	remote  *depot.Remote
}

func (p catalogPages) routes() []pageRoute {
	return []pageRoute{
		page(http.MethodGet, "search", web.Anyone, "Files/Search", p.search).explainedIn("web"),
	}
}

// inPlaceRow is a file of a watched or served folder.
type inPlaceRow struct {
	objectRow
	Path, Why string // the address of the trace
	Away      bool   // the watched folder is away
}

// foundInPlace returns the files of watched and served folders that a search means.
func (p catalogPages) foundInPlace(f *frame, r *web.Request, text string, kind symfile.Kind) (list []inPlaceRow, err error) {
	if text == "" {
		return nil, nil
	}
	found, err := p.inPlace.Find(r.Context(), r.Scope(), text, kind, web.MaxInPlace)
	for _, o := range found {
		row := inPlaceRow{objectRow: f.objectRow(o), Path: display.NewListed(o).InPlace, Away: o.Away}
		row.Link = ""
		if to := layout.Path(o.Object); to != "" {
			row.Link, row.Why = download(r.Base, o.Object), f.Ask("trace", "path", "/"+to)
			if r.Identity.SignIn != "" { // the cookie does not count on the paths of symbol files
				row.Link = link(r.Base, "file", []string{web.DownloadWord}, values("path", "/"+to))
			}
		}
		list = append(list, row)
	}
	return list, err
}

// maxSearch is the longest text of a search, in bytes.
const maxSearch = 1024

// column is a column of a table that can be sorted by a link in its head.
type column struct {
	Label, Link, Sorted, Class string
}

// columns describes the head of a table. Each of names is "Label", "Label|sort key" or
// "Label|sort key|class"; sorted is the key by which the table is sorted, and down are
// the keys that sort downwards.
func (f *frame) columns(sorted string, down string, names ...string) []column {
	list := make([]column, len(names))
	for i, n := range names {
		parts := strings.Split(n, "|")
		c := column{Label: parts[0]}
		if len(parts) > 2 {
			c.Class = parts[2]
		}
		if len(parts) > 1 && parts[1] != "" {
			c.Link = f.Here("sort", parts[1], "cursor", "")
			if parts[1] == sorted {
				c.Sorted = "ascending"
				if strings.Contains(down, parts[1]) {
					c.Sorted = "descending"
				}
			}
		}
		list[i] = c
	}
	return list
}

// option is a choice of a list of choices.
type option struct{ Value, Label string }

// filter is a list of choices in the form above a table.
type filter struct {
	Label, Name, Value string
	Options            []option
}

// choices makes a filter of words; the first choice is any.
func choices(label, name, value string, words ...string) filter {
	f := filter{label, name, value, []option{{"", "any"}}}
	for _, w := range words {
		f.Options = append(f.Options, option{w, w})
	}
	return f
}

// objectRow is an object in a table.
type objectRow struct {
	Name, Link, Kind, Arch, ID string
	Features                   []string
	Size                       int64
	Added                      time.Time
	From                       string // the upstream of a cached file
	Transactions               []txLink
	Newest                     template.HTML // product and version of the newest transaction: links to their pages
	More                       string        // how many other transactions hold it, or ""
}

type txLink struct {
	Number int64
	Link   string
}

// maxShown is how many transactions a row names.
const maxShown = 3

func (f *frame) objectRow(o depot.Found) objectRow {
	row := objectRow{
		Name: o.Object.Name, Link: f.To("file", o.Ref.String()), Kind: o.Object.Kind.String(), Arch: o.Arch, ID: display.ObjectID(o.Object),
		Features: badgesOf(o.Object, o.Features), Size: o.Size, Added: o.Added, From: o.Source,
	}
	for _, n := range o.Transactions[:min(maxShown, len(o.Transactions))] {
		row.Transactions = append(row.Transactions, txLink{n, f.To("builds", n)})
	}
	if len(o.Transactions) > 0 {
		row.Newest = f.ProductLink(o.Product) + " " + f.VersionLink(o.Product, o.Version)
	}
	switch more := len(o.Transactions) - maxShown; {
	case len(o.Transactions) == catalog.ListedTransactions: // perhaps there are others
		row.More = "and more"
	case more > 0:
		row.More = fmt.Sprintf("and %d more", more)
	}
	return row
}

// table is a table of objects.
type table struct {
	Caption string
	Head    []column
	Rows    []objectRow
}

// pages are the links between the pages of a list.
type pages struct{ First, Next string }

// pager returns the links of a page of a list.
func (f *frame) pager(list, next string) pages {
	var p pages
	if f.query.Get("cursor") != "" {
		p.First = f.Here("cursor", "")
	}
	if next != "" {
		p.Next = f.Here("cursor", web.Cursor(list, f.query, next))
	}
	return p
}

// kindWords are the kinds of objects that a search can be limited to.
var kindWords = func() (words []string) {
	for k := symfile.KindUnknown + 1; ; k++ {
		w := k.String()
		if symfile.ParseKind(w) != k {
			return words
		}
		words = append(words, w)
	}
}()

// objectQuery reads the parameters of a search.
func objectQuery(q url.Values) (catalog.ObjectQuery, error) {
	o := catalog.ObjectQuery{
		Text: strings.TrimSpace(q.Get("q")), Arch: q.Get("arch"), Feature: q.Get("has"), Origin: q.Get("origin"),
		Sort: catalog.ObjectSort(q.Get("sort")),
	}
	bad := func(name, why string) (catalog.ObjectQuery, error) {
		return o, web.BadParameter(name, why)
	}
	if len(o.Text) > maxSearch {
		return bad("q", "is longer than "+strconv.Itoa(maxSearch)+" bytes")
	}
	if k := q.Get("kind"); k != "" {
		if o.Kind = symfile.ParseKind(k); o.Kind == symfile.KindUnknown {
			return bad("kind", "expected is one of "+strings.Join(kindWords, ", "))
		}
	}
	if q.Has("product") {
		if p := q.Get("product"); p != "" || q.Has("noproduct") {
			o.Product = &p
		}
	}
	switch o.Sort {
	case "":
		o.Sort = catalog.SortName
	case catalog.SortName, catalog.SortAdded, catalog.SortSize:
	default:
		return bad("sort", "name, added or size is expected")
	}
	switch o.Origin {
	case "", catalog.OriginAdded, catalog.OriginFetched:
	default:
		return bad("origin", catalog.OriginAdded+" or "+catalog.OriginFetched+" is expected")
	}
	if t := q.Get("since"); t != "" {
		var err error
		if o.Since, err = time.Parse(time.DateOnly, t); err != nil {
			return bad("since", "a day is expected, such as 2026-11-23")
		}
	}
	return o, nil
}

// searchView is what the page of a search shows.
type searchView struct {
	Text    string
	ReadAs  string // how the text was understood
	Filters []filter
	Since   string
	Product string
	Table   table
	Pages   pages
	// Near are objects of the same name with other ids, if nothing was found.
	Near table
	// InPlace are the files of watched and served folders; of the filters, only the kind counts.
	InPlace []inPlaceRow
	// Unlisted says what is served and cannot be searched so, if nothing was found; or "".
	Unlisted string
	Why      string // the address of the trace
	All      string // the search without filters, if there are some
}

// readAs says in words how the text of a search was understood.
var readAs = map[catalog.ReadAs]string{
	catalog.ReadAll: "all files", catalog.ReadName: "a name", catalog.ReadPattern: "a name with wildcards",
	catalog.ReadID: "an id", catalog.ReadPath: "a path", catalog.ReadContent: "a SHA-256",
}

// search answers GET search.
func (p catalogPages) search(w *reply, r *web.Request, _ []string) error {
	q := r.URL.Query()
	query, err := objectQuery(q)
	if err != nil {
		return err
	}
	if query.Limit, query.After, err = web.ReadPage(q, "objects"); err != nil {
		return err
	}
	found, err := p.catalog.Objects(r.Context(), r.Scope(), query)
	if err != nil {
		return badQuery(err)
	}
	f := w.frame(r, query.Text, nil)
	f.Search = query.Text
	if to := soleObject(f, query.Text, found); to != "" && query.After == "" {
		return seeOther(w, r, to)
	}
	v := searchView{
		Text: query.Text, ReadAs: readAs[found.ReadAs], Since: q.Get("since"), Product: q.Get("product"),
		Pages: f.pager("objects", found.Next),
		Filters: []filter{
			choices("Kind", "kind", q.Get("kind"), kindWords...),
			choices("Architecture", "arch", query.Arch, architectures...),
			{"Has", "has", query.Feature, featureOptions},
			choices("Origin", "origin", query.Origin, catalog.OriginAdded, catalog.OriginFetched),
		},
	}
	if query.After == "" {
		if v.InPlace, err = p.foundInPlace(f, r, query.Text, query.Kind); err != nil {
			return err
		}
	}
	v.Table = f.objects("Objects found", string(query.Sort), found.Objects)
	if query.Kind != 0 || query.Arch != "" || query.Feature != "" || query.Origin != "" || query.Product != nil || !query.Since.IsZero() {
		v.All = f.Ask("search", "q", query.Text)
	}
	if len(found.Objects) == 0 && query.Text != "" && query.After == "" {
		near, err := p.near(r, query.Text)
		if err != nil {
			return err
		}
		v.Unlisted = p.unlisted(r, found.ReadAs)
		v.Near, v.Why = f.objects("Files of the same name", "", near), f.Ask("trace", "path", query.Text)
	}
	f.D = v
	return w.print(r, http.StatusOK, "search", f)
}

// unlisted says which files are served that a search of the kind cannot find, or "".
func (p catalogPages) unlisted(r *web.Request, as catalog.ReadAs) string {
	var list []string
	served := web.Describe(p.inPlace.ServedFolders(r.Context(), r.Scope()), display.NewServedFolder)
	if text := display.UnsearchedText(served); text != "" {
		list = append(list, text)
	} else if len(served) > 0 && (as == catalog.ReadID || as == catalog.ReadContent) {
		list = append(list, "the files of served folders are found by their names, not by an id")
	}
	if len(p.remote.Upstreams()) > 0 {
		list = append(list, "the files of upstreams are served, but not listed")
	}
	if len(list) == 0 {
		return ""
	}
	text := strings.Join(list, "; ") + "."
	return strings.ToUpper(text[:1]) + text[1:]
}

// badQuery returns the problem that an error of a query is.
func badQuery(err error) error {
	if errors.Is(err, fs.ErrInvalid) || errors.Is(err, catalog.ErrShortPattern) {
		return &web.Problem{Word: "query", Detail: strings.TrimSuffix(err.Error(), ": "+fs.ErrInvalid.Error())}
	}
	return err
}

// soleObject is the address of the content that a search for an id, a path or a SHA-256
// means: the only one whose own id or name was searched for, or "".
func soleObject(f *frame, text string, found catalog.ObjectPage) string {
	if found.Next != "" {
		return ""
	}
	is := func(depot.Found) bool { return true }
	switch found.ReadAs {
	case catalog.ReadContent:
	case catalog.ReadPath:
		name := symfile.Fold(path.Base(text))
		is = func(o depot.Found) bool { return symfile.Fold(o.Object.Name) == name }
	case catalog.ReadID:
		// A program has the id of its PDB too, but only the PDB is known by it.
		id := bareID(strings.TrimPrefix(strings.ToLower(path.Base(text)), "0x"))
		is = func(o depot.Found) bool { return strings.HasPrefix(bareID(display.ObjectID(o.Object)), id) }
	default:
		return ""
	}
	var list []depot.Found
	for _, o := range found.Objects {
		if is(o) && (len(list) == 0 || list[0].Ref != o.Ref) {
			list = append(list, o)
		}
	}
	if len(list) == 0 {
		list = found.Objects
	}
	if len(list) == 0 || slices.ContainsFunc(list, func(o depot.Found) bool { return o.Ref != list[0].Ref }) {
		return ""
	}
	return f.To("file", list[0].Ref.String())
}

// bareID returns the hex digits of an id, folded.
func bareID(id string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("0123456789abcdef", r) {
			return r
		}
		return -1
	}, strings.ToLower(id))
}

func (f *frame) objects(caption, sorted string, list []depot.Found) table {
	t := table{Caption: plainName(caption)}
	if sorted == "" {
		t.Head = f.columns("", "", "Name", "Kind", "Arch", "Id", "Has", "Size||num", "Added", "Builds")
	} else {
		t.Head = f.columns(sorted, "added size", "Name|name", "Kind", "Arch", "Id", "Has", "Size|size|num", "Added|added", "Builds")
	}
	for _, o := range list {
		t.Rows = append(t.Rows, f.objectRow(o))
	}
	return t
}

// near finds objects of the name in a text that was not found: the last segment of a
// path, or the text as the beginning of a name.
func (p catalogPages) near(r *web.Request, text string) ([]depot.Found, error) {
	name := text
	if segs, err := layout.Segments(text); err == nil && len(segs) > 1 {
		name = segs[len(segs)-1]
	} else if strings.ContainsAny(text, "*?") {
		return nil, nil
	} else {
		name += "*"
	}
	found, err := p.catalog.Objects(r.Context(), r.Scope(), catalog.ObjectQuery{Text: name, Sort: catalog.SortAdded, Limit: 10})
	if errors.Is(err, fs.ErrInvalid) || errors.Is(err, catalog.ErrShortPattern) {
		return nil, nil
	}
	return found.Objects, err
}

// architectures and featureOptions are the choices of filters.
var (
	architectures  = []string{"x86", "x86_64", "arm", "arm64", "arm64e", "riscv64", "ppc64le", "s390x", "wasm32"}
	featureOptions = []option{{"", "any"}, {"debug", "lines"}, {"symtab", "symbols"}, {"unwind", "unwind"}, {"sources", "sources"}}
)
