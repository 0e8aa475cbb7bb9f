package display

import (
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/catalog"
	"github.com/symdepot/symdepot/symfile"
)

// Listed is an object of a list in JSON. It has the newest 100 of its transactions.
type Listed struct {
	Found
	Product string    `json:"product"` // of the newest transaction
	Added   time.Time `json:"added"`   // time of that transaction, or of the download
}

// NewListed describes an object of a list.
func NewListed(f depot.Found) Listed {
	return Listed{NewFound("", f, nil), f.Product, f.Added.UTC()}
}

// NewListedAll describes objects of a list.
func NewListedAll(list []depot.Found) []Listed {
	out := make([]Listed, len(list))
	for i, f := range list {
		out[i] = NewListed(f)
	}
	return out
}

// Entry is a content with its objects, in JSON.
type Entry struct {
	SHA256  string        `json:"sha256"`
	Size    int64         `json:"size"`
	Objects []EntryObject `json:"objects"` // at most 100
	// MoreObjects says that there are others.
	MoreObjects bool        `json:"more_objects,omitempty"`
	Forms       []EntryForm `json:"forms"`
	Cold        *ColdFile   `json:"cold,omitempty"`
}

// EntryObject is an object of a content, in JSON.
type EntryObject struct {
	Listed
	Paths        map[string][]string `json:"paths"`   // in each layout, by its name
	Holders      []Holder            `json:"holders"` // the newest 100
	MoreHolders  bool                `json:"more_holders,omitempty"`
	Downloads    []Download          `json:"downloads"`
	Partners     []Partner           `json:"partners"`
	Siblings     []Listed            `json:"siblings"` // the newest ten
	MoreSiblings bool                `json:"more_siblings,omitempty"`
}

// Holder is a transaction that holds an object, in JSON.
type Holder struct {
	Transaction
	Path    string `json:"path"` // with the archive
	Archive string `json:"archive,omitempty"`
	Holds   []Held `json:"holds"`
	// Ends is the earliest time at which the retention policy removes the transaction
	// because of its age, and Rule the class that says so.
	Ends time.Time `json:"ends,omitzero"`
	Rule string    `json:"rule,omitempty"`
}

// Download is where a cached file came from, in JSON.
type Download struct {
	Upstream string    `json:"upstream"`
	URL      string    `json:"url"`
	Tag      string    `json:"tag,omitempty"`
	Fetched  time.Time `json:"fetched"`
}

// Partner is another file of a module, in JSON. One without files is missing.
type Partner struct {
	Kind string   `json:"kind"`
	Role string   `json:"role"` // executable, debug, symbols, sources or other
	Name string   `json:"name"`
	ID   string   `json:"id"`
	Held []Listed `json:"here"`
}

// EntryForm is what was made of a content, or could not be made, in JSON.
type EntryForm struct {
	Name    string    `json:"name"`
	SHA256  string    `json:"sha256,omitempty"`
	Size    int64     `json:"size,omitempty"`
	Tool    string    `json:"tool"`
	Made    time.Time `json:"made,omitzero"`
	Failure string    `json:"failure,omitempty"`
	Until   time.Time `json:"until,omitzero"` // the failure is remembered until then
	// Removed is what was taken away for a public form.
	Removed []Removed `json:"removed,omitempty"`
}

// Removed is what was taken away of one kind, in JSON.
type Removed struct {
	Kind  string `json:"kind"`
	Count int64  `json:"count"`
	Bytes int64  `json:"bytes"`
}

// NewEntry describes a content.
func NewEntry(e *catalog.Entry) Entry {
	l := Entry{
		SHA256: e.Ref.String(), Size: e.Size, Objects: []EntryObject{}, MoreObjects: e.MoreObjects,
		Forms: NewForms(e.Forms), Cold: NewColdFile(e.Cold),
	}
	for i := range e.Objects {
		o := &e.Objects[i]
		x := EntryObject{
			Listed: NewListed(o.Found), Paths: NewPaths(o.Object),
			Holders: NewHolders(o.Holders), MoreHolders: o.MoreHolders,
			Downloads: []Download{}, Partners: []Partner{},
			Siblings: NewListedAll(o.Siblings), MoreSiblings: o.MoreSiblings,
		}
		for _, d := range o.Downloads {
			x.Downloads = append(x.Downloads, Download{d.Upstream, d.URL, d.Tag, d.Fetched.UTC()})
		}
		for _, p := range o.Partners {
			x.Partners = append(x.Partners, Partner{p.Kind.String(), roleWord(p.Role), p.Name, p.ID, NewListedAll(p.Held)})
		}
		l.Objects = append(l.Objects, x)
	}
	return l
}

func roleWord(r symfile.Role) string {
	switch r {
	case symfile.Executable, symfile.Debug, symfile.Symbols, symfile.Sources:
		return r.String()
	}
	return symfile.Other.String()
}

// NewHolders describes the transactions that hold an object.
func NewHolders(list []catalog.Holder) []Holder {
	out := make([]Holder, len(list))
	for i, h := range list {
		out[i] = Holder{NewTransaction(h.Transaction), origin(h.Path, h.Archive), h.Archive, NewHolds(h.Holds), h.Ends, h.Rule}
	}
	return out
}

// NewForms describes what was made of a content.
func NewForms(list []catalog.EntryForm) []EntryForm {
	out := make([]EntryForm, len(list))
	for i, f := range list {
		out[i] = EntryForm{Name: f.Name, Size: f.Size, Tool: f.Tool, Made: f.Made, Failure: f.Failure, Until: f.Until}
		if f.Size > 0 {
			out[i].SHA256 = f.Ref.String()
		}
		for _, x := range f.Removed {
			out[i].Removed = append(out[i].Removed, Removed(x))
		}
	}
	return out
}

// Product summarizes the live transactions of a product, in JSON.
type Product struct {
	Product      string    `json:"product"`
	Versions     int64     `json:"versions"`
	Transactions int64     `json:"builds"`
	Files        int64     `json:"files"`
	Bytes        int64     `json:"bytes"`
	Newest       time.Time `json:"newest"`
}

// Version summarizes the live transactions of a version, in JSON. Newest, Class and
// Transaction are those of the newest one.
type Version struct {
	Version      string    `json:"version"`
	Transactions int64     `json:"builds"`
	Files        int64     `json:"files"`
	Bytes        int64     `json:"bytes"`
	Newest       time.Time `json:"newest"`
	Class        string    `json:"class,omitempty"`
	Transaction  int64     `json:"build"`
}

// NewProduct describes a product.
func NewProduct(f catalog.ProductFacts) Product {
	return Product{f.Name, f.Versions, f.Transactions, f.Files, f.Bytes, f.Newest.UTC()}
}

// NewVersion describes a version.
func NewVersion(f catalog.VersionFacts) Version {
	return Version{f.Version, f.Transactions, f.Files, f.Bytes, f.Newest.UTC(), f.Class, f.NewestNumber}
}

// Difference is a file that only one of two versions has, or that has another id, in
// JSON.
type Difference struct {
	Name      string `json:"name"`
	Kind      string `json:"kind"`
	Arch      string `json:"arch"`
	Here      string `json:"here,omitempty"` // id
	There     string `json:"there,omitempty"`
	HereSize  int64  `json:"here_size,omitempty"`
	ThereSize int64  `json:"there_size,omitempty"`
}

// NewDifference describes a difference of two versions.
func NewDifference(d catalog.Difference) Difference {
	return Difference{d.Name, d.Kind.String(), d.Arch, d.Here, d.There, d.HereSize, d.ThereSize}
}
