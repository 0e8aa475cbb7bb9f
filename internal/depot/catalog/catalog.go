// Package catalog shows people what a depot holds, and what clients asked it for in vain, in
// lists that are read in pages.
package catalog

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/lists"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// Catalog shows people what the depot holds: lists that are read in pages, and one
// content with all that is known of it. Every answer contains only what the scope
// includes; what is outside of it is fs.ErrNotExist, as if it did not exist.
//
// A page begins after the last item of the page before it, by sort key and id: what is
// added or removed meanwhile neither repeats nor skips other items. The text that says
// where a page begins is opaque; one that the Catalog did not make is fs.ErrInvalid.
type Catalog struct {
	db *index.DB
	// policy returns the retention policy in force.
	policy func(context.Context) (lifecycle.PolicyInForce, error)
	pages  *Pages
	log    *slog.Logger
}

// New returns the catalog of a depot.
func New(db *index.DB, policy func(context.Context) (lifecycle.PolicyInForce, error), pages *Pages, log *slog.Logger) *Catalog {
	return &Catalog{db: db, policy: policy, pages: pages, log: log}
}

// ObjectSort is the order of a list of objects.
type ObjectSort string

// The orders. Objects with equal keys follow newest first.
const (
	SortName  ObjectSort = "name"
	SortAdded ObjectSort = "added" // in which the depot first got them, newest first
	SortSize  ObjectSort = "size"  // largest first
)

// ObjectQuery selects objects. The zero value selects all.
type ObjectQuery struct {
	// Text is a file name with * and ?, an id in any spelling, a URL or a path as
	// clients request it, or a SHA-256; empty is any object.
	Text string
	// Name is a file name with * and ?, ID an id in any spelling. Both hold for each object,
	// and neither goes with Text; empty is any.
	Name, ID string
	Kind     symfile.Kind // symfile.KindUnknown is any
	Arch     string
	Product  *string // nil is any
	Feature  string  // one word
	// Since selects objects of transactions that are not older, and of files that were
	// downloaded since.
	Since  time.Time
	Origin string // OriginAdded, OriginFetched; empty is any
	Sort   ObjectSort
	After  string // ObjectPage.Next of the page before
	Limit  int    // 0 is 100; at most 1000
}

// Origins of objects.
const (
	OriginAdded   = "added"
	OriginFetched = "fetched" // downloaded, and held by no transaction
)

// ReadAs says how a search text was understood.
type ReadAs string

// The readings of a search text.
const (
	ReadAll     ReadAs = "all"
	ReadName    ReadAs = "name"
	ReadPattern ReadAs = "pattern"
	ReadID      ReadAs = "id"
	ReadPath    ReadAs = "path"
	ReadContent ReadAs = "content" // a SHA-256
)

// ObjectPage is a part of a list of objects.
type ObjectPage struct {
	ReadAs ReadAs
	// Objects have at most the newest 100 of their transactions. There can be fewer
	// objects than the limit, even none, although there are more pages: filters that
	// reject nearly all objects are applied step by step.
	Objects []record.Found
	Next    string // for ObjectQuery.After; empty: there are no more
}

// ErrShortPattern means that a pattern that begins with a wildcard would be compared
// with too many names. Its text says what is needed.
var ErrShortPattern = lists.ErrShortPattern

// MaxSearch limits the text of a search, in bytes.
const MaxSearch = 4096

// ListedTransactions is how many of its transactions an object of a list has at most,
// the newest.
const ListedTransactions = lists.ListedTransactions

// Objects lists objects. A wrong query is fs.ErrInvalid or ErrShortPattern.
func (c *Catalog) Objects(ctx context.Context, scope answer.Scope, q ObjectQuery) (ObjectPage, error) {
	var p ObjectPage
	f := lists.ObjectFilter{Product: q.Product, Arch: q.Arch, Feature: q.Feature, Since: q.Since, Limit: pageLimit(q.Limit)}
	if len(q.Text)+len(q.Name)+len(q.ID) > MaxSearch || strings.ContainsAny(q.Feature, " \t\n") {
		return p, fmt.Errorf("search: the text is too long, or the feature is not one word: %w", fs.ErrInvalid)
	}
	var err error
	if p.ReadAs, f.Query, err = q.read(); err != nil {
		return p, err
	}
	f.Kind = q.Kind
	switch q.Sort {
	case SortName, "":
		f.Sort = lists.ByName
	case SortAdded:
		f.Sort = lists.ByAdded
	case SortSize:
		f.Sort = lists.BySize
	default:
		return p, fmt.Errorf("search: sort %q: %w", q.Sort, fs.ErrInvalid)
	}
	switch q.Origin {
	case OriginAdded, OriginFetched:
		fetched := q.Origin == OriginFetched
		f.Fetched = &fetched
	case "":
	default:
		return p, fmt.Errorf("search: origin %q: %w", q.Origin, fs.ErrInvalid)
	}
	var k pageKey
	if err := c.pages.open(&k, q.After, "object "+string(q.Sort)); err != nil {
		return p, err
	}
	f.After = lists.ObjectKey{Name: string(k.Name), Size: k.Number, ID: k.ID}
	list, next, err := c.db.Lists.Objects(ctx, scope.Index(), f)
	if err != nil {
		return p, err
	}
	if err := coldstore.Mark(ctx, c.db, scope.Index(), list); err != nil {
		return p, err
	}
	if q.ID != "" && q.Name != "" { // an id has few objects
		name := symfile.Fold(q.Name)
		list = slices.DeleteFunc(list, func(f record.Found) bool { return !index.NameFits(name, f.Object.Name) })
	}
	p.Objects = list
	if next != nil {
		p.Next = c.pages.seal(pageKey{Name: []byte(next.Name), Number: next.Size, ID: next.ID}, "object "+string(q.Sort))
	}
	return p, nil
}

// read reads what is searched for.
func (q ObjectQuery) read() (ReadAs, record.Query, error) {
	if q.Text != "" && (q.Name != "" || q.ID != "") {
		return "", record.Query{}, fmt.Errorf("search: a text goes with neither a name nor an id: %w", fs.ErrInvalid)
	}
	switch {
	case q.ID != "":
		iq := answer.Spellings(q.ID)
		if len(iq.IDs) == 0 || strings.Contains(q.ID, "/") {
			return "", iq, fmt.Errorf("search: %.80q is no id: %w", q.ID, fs.ErrInvalid)
		}
		iq.Name = "" // a file whose name is the id has another id
		return ReadID, iq, nil
	case q.Name != "":
		as := ReadName
		if strings.ContainsAny(q.Name, "*?") {
			as = ReadPattern
		}
		return as, record.Query{Name: symfile.Fold(q.Name)}, nil
	}
	as, iq := ReadSearch(q.Text)
	return as, iq, nil
}

// ReadSearch reads the text of a search.
func ReadSearch(q string) (ReadAs, record.Query) {
	q = strings.TrimSpace(q)
	if q == "" {
		return ReadAll, record.Query{}
	}
	if strings.ContainsAny(q, `/\`) {
		return readSearchPath(q)
	}
	iq := answer.Spellings(q)
	switch {
	case iq.Ref != nil:
		return ReadContent, iq
	case len(iq.IDs) > 0:
		return ReadID, iq
	case strings.ContainsAny(q, "*?"):
		return ReadPattern, iq
	}
	return ReadName, iq
}

// readSearchPath reads a URL or a path. If it is no address of a symbol file, its last
// part is read as a name.
func readSearchPath(q string) (ReadAs, record.Query) {
	segs := searchSegments(q)
	if len(segs) == 0 {
		return ReadName, record.Query{Name: symfile.Fold(q)}
	}
	if r, ok := SearchedPath(q); ok {
		var iq record.Query
		for _, l := range r.Lookups {
			iq.IDs = append(iq.IDs, l.ID)
		}
		return ReadPath, iq
	}
	return ReadSearch(segs[len(segs)-1])
}

// SearchedPath reads the text of a search that is the URL or the path of a symbol file.
func SearchedPath(q string) (layout.Request, bool) {
	segs := searchSegments(strings.TrimSpace(q))
	for from := range segs {
		if r, err := layout.Route(segs[from:]); err == nil && len(r.Lookups) > 0 {
			return r, true
		}
	}
	return layout.Request{}, false
}

// searchSegments splits a URL or a path, without a token before the path.
func searchSegments(q string) []string {
	path := q
	if u, err := url.Parse(q); err == nil && u.Scheme != "" && u.Host != "" {
		path = u.EscapedPath()
	}
	var segs []string
	for s := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '/' || r == '\\' }) {
		if plain, err := url.PathUnescape(s); err == nil {
			s = plain
		}
		segs = append(segs, s)
	}
	if len(segs) > 2 && segs[0] == "t" {
		segs = segs[2:]
	}
	return segs
}

// FileQuery selects files of a transaction or of a version.
type FileQuery struct {
	Name  string // a name, or a pattern with * and ?; empty is any
	Kind  symfile.Kind
	Sort  ObjectSort // empty or SortAdded: the order of adding; else SortName or SortSize
	After string
	Limit int // 0 is 100; at most 1000
}

// FilePage is a part of the list of files of a transaction.
type FilePage struct {
	Files []record.TxFile
	Next  string // for FileQuery.After; empty: there are no more
}

// filter returns the filter of the index, without the place.
func (q FileQuery) filter() (f lists.FileFilter, err error) {
	f = lists.FileFilter{Name: symfile.Fold(q.Name), Kind: q.Kind, Limit: pageLimit(q.Limit)}
	switch q.Sort {
	case SortAdded, "":
	case SortName:
		f.Order = lists.FilesByName
	case SortSize:
		f.Order = lists.FilesBySize
	default:
		err = fmt.Errorf("files: sort %q: %w", q.Sort, fs.ErrInvalid)
	}
	if len(q.Name) > MaxSearch {
		err = fmt.Errorf("files: the name is too long: %w", fs.ErrInvalid)
	}
	return f, err
}

// Files lists the files of a transaction in the order in which they were added, or
// by name or size. A removed transaction has none. Whether the transaction is in the scope
// is the caller's to know; the scope decides what is said of other contents.
func (c *Catalog) Files(ctx context.Context, scope answer.Scope, number int64, q FileQuery) (FilePage, error) {
	var p FilePage
	f, err := q.filter()
	if err != nil {
		return p, err
	}
	list := fmt.Sprintf("files %d %s", number, q.Sort)
	var k pageKey
	if err := c.pages.open(&k, q.After, list); err != nil {
		return p, err
	}
	f.After = lists.FileKey{Name: string(k.Name), Size: k.Number, Seq: k.ID}
	files, next, err := c.db.Lists.FilesOf(ctx, number, f)
	if err != nil {
		return p, err
	}
	coldOf := func(f *record.TxFile) *coldstore.ColdContent { return f.Cold }
	if err := coldstore.HideBases(ctx, c.db, scope.Index(), files, coldOf); err != nil {
		return p, err
	}
	p.Files = files
	if next != nil {
		p.Next = c.pages.seal(pageKey{Name: []byte(next.Name), Number: next.Size, ID: next.Seq}, list)
	}
	return p, nil
}

// ParseContent reads the SHA-256 of a content, in any letter case. Anything else is
// fs.ErrNotExist.
func ParseContent(text string) (blob.Ref, error) {
	ref, err := blob.ParseRef(strings.ToLower(text))
	if err != nil {
		return ref, fmt.Errorf("%q is no SHA-256: %w", text, fs.ErrNotExist)
	}
	return ref, nil
}
