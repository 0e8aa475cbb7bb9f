package depot

import (
	"context"
	"io/fs"

	"time"

	"github.com/symdepot/symdepot/debugid"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/symfile"
)

// Catalog shows people what the depot holds: lists that are read in pages, and one
// content with all that is known of it. Every answer contains only what the scope
// includes; what is outside of it is fs.ErrNotExist, as if it did not exist.
type Catalog struct{ d *Depot }

// ObjectSort is the order of a list of objects.
type ObjectSort string

const (
	SortName  ObjectSort = "name"
	SortAdded ObjectSort = "added" // newest first
	SortSize  ObjectSort = "size"  // largest first
)

// ObjectQuery selects objects. The zero value selects all.
type ObjectQuery struct {
	// Text is a file name with * and ?, an id in any spelling, a URL or a path as
	// clients request it, or a SHA-256; empty is any object.
	Text    string
	Kind    symfile.Kind // symfile.KindUnknown is any
	Arch    string
	Product *string // nil is any
	Feature string  // one word
	Since   time.Time
	Origin  string // OriginAdded, OriginFetched; empty is any
	Sort    ObjectSort
	After   string // ObjectPage.Next of the page before
	Limit   int
}

const (
	OriginAdded   = "added"
	OriginFetched = "fetched"
)

// ReadAs says how a search text was understood.
type ReadAs string

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
	ReadAs  ReadAs
	Objects []Found
	Next    string // for ObjectQuery.After; empty: there are no more
}

// Objects lists objects.
func (c *Catalog) Objects(ctx context.Context, scope Scope, q ObjectQuery) (ObjectPage, error) {
	t := q.Text
	if t == "" {
		t = "*"
	}
	l, err := c.d.Find(ctx, scope, t, q.Limit)
	as := ReadName
	if _, e := debugid.ParseBreakpad(t); e == nil {
		as = ReadID
	}
	return ObjectPage{ReadAs: as, Objects: l}, err
}

// Entry is a content with all that is known of it.
type Entry struct {
	Ref     blob.Ref
	Size    int64
	Objects []EntryObject // in the order of their names
	Forms   []EntryForm
}

// EntryObject is an object in a content.
type EntryObject struct {
	Found
	// Holders are the live transactions in scope that hold the object, newest first,
	// at most 100; More says that there are others.
	Holders     []Holder
	MoreHolders bool
	// Downloads are the upstreams from which it was downloaded.
	Downloads []Download
	// Partners are the other files of the same module, and the names of those that are
	// missing.
	Partners []Partner
	// Siblings are other objects of the same name, the newest ten; MoreSiblings says
	// that there are others.
	Siblings     []Found
	MoreSiblings bool
}

// Holder is a transaction that holds an object.
type Holder struct {
	Transaction Transaction
	Path        string // from which it was added; may reveal details of the build machine
	Archive     string
	Holds       []Hold
	// Ends is when the retention policy removes the transaction by age, and Rule the
	// class that says so; zero if it does not.
	Ends time.Time
	Rule string
}

// Download is the origin of a cached file.
type Download struct {
	Upstream string
	URL      string // without credentials
	Tag      string // entity tag
	Fetched  time.Time
}

// Partner is another file of a module.
type Partner struct {
	Kind symfile.Kind
	Name string
	ID   string  // as its tools spell it
	Held []Found // newest first; none: it is missing
}

// EntryForm is a content that was made of another one, or that could not be made.
type EntryForm struct {
	Name    string // such as "zstd", "cabinet", "sym", "gsym", "symcache 3"
	Ref     blob.Ref
	Size    int64
	Tool    string
	Made    time.Time
	Failure string    // why it could not be made
	Until   time.Time // of the failure: when it is tried again
}

// Entry returns a content.
func (c *Catalog) Entry(ctx context.Context, scope Scope, ref blob.Ref) (*Entry, error) {
	l, err := c.d.Find(ctx, scope, ref.String(), 10)
	if err != nil || len(l) == 0 {
		return nil, fs.ErrNotExist
	}
	e := &Entry{Ref: ref, Size: l[0].Size}
	for _, f := range l {
		o := EntryObject{Found: f}
		for _, n := range f.Transactions {
			t, _ := c.d.Transaction(ctx, n)
			o.Holders = append(o.Holders, Holder{Transaction: t})
		}
		o.Siblings, _ = c.d.Find(ctx, scope, f.Object.Name, 10)
		e.Objects = append(e.Objects, o)
	}
	return e, nil
}

// FilePage is a part of the list of files of a transaction.
type FilePage struct {
	Files []TxFile
	Next  string
}

// Files lists the files of a transaction in the order in which they were added, or
// by name or size. filter is a pattern for names, or empty.
func (c *Catalog) Files(ctx context.Context, number int64, q FileQuery) (FilePage, error) {
	var p FilePage
	return p, c.d.Files(ctx, number, func(f TxFile) error { p.Files = append(p.Files, f); return nil })
}

// FileQuery selects files of a transaction or of a version.
type FileQuery struct {
	Name  string // pattern; empty is any
	Kind  symfile.Kind
	Sort  ObjectSort // empty: the order of adding
	After string
	Limit int
}
