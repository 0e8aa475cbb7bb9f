package catalog

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/index/lists"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/symfile"
)

type (
	// ProductFacts summarize a product.
	ProductFacts = lists.ProductFacts
	// VersionFacts summarize a version of a product.
	VersionFacts = lists.VersionFacts
)

// groupOrders are the orders of lists of products and of versions.
var groupOrders = map[string]lists.GroupOrder{
	"": lists.GroupsByName, "name": lists.GroupsByName, "version": lists.GroupsByName,
	"newest": lists.GroupsByNewest, "bytes": lists.GroupsByBytes,
}

// groups reads the order and the place of a list of products or versions. word is the
// order by name.
func (c *Catalog) groups(list, word, sort, after string) (o lists.GroupOrder, k *lists.GroupKey, err error) {
	o, ok := groupOrders[sort]
	if !ok || sort != "" && sort != word && o == lists.GroupsByName {
		return o, nil, fmt.Errorf("sort %q: %w", sort, fs.ErrInvalid)
	}
	var p pageKey
	if err := c.pages.open(&p, after, list); err != nil || after == "" {
		return o, nil, err
	}
	return o, &lists.GroupKey{Name: string(p.Name), Number: p.Number}, nil
}

func (c *Catalog) groupText(list string, k *lists.GroupKey) string {
	if k == nil {
		return ""
	}
	return c.pages.seal(pageKey{Name: []byte(k.Name), Number: k.Number}, list)
}

// Products lists the products in scope that have live transactions, sorted by "name",
// "newest" or "bytes". after and next are as in ObjectPage.
func (c *Catalog) Products(
	ctx context.Context, scope answer.Scope, sort, after string, limit int,
) (list []ProductFacts, next string, err error) {
	name := "products " + sort
	o, k, err := c.groups(name, "name", sort, after)
	if err != nil {
		return nil, "", err
	}
	list, more, err := c.db.Lists.Products(ctx, scope.Index(), o, k, pageLimit(limit))
	return list, c.groupText(name, more), err
}

// VersionQuery selects versions.
type VersionQuery struct {
	Prefix string // of the version
	// Class is that of the newest transaction, as a push or a promotion has set it.
	Class string
	Sort  string // "newest", "version" (byte by byte; so is an empty one) or "bytes"
	After string
	Limit int
}

// Versions lists the versions of a product that have live transactions, and the text
// for VersionQuery.After of the next page. A product outside of the scope has none.
func (c *Catalog) Versions(
	ctx context.Context, scope answer.Scope, product string, q VersionQuery,
) (list []VersionFacts, next string, err error) {
	name := "versions " + q.Sort
	o, k, err := c.groups(name, "version", q.Sort, q.After)
	if err != nil {
		return nil, "", err
	}
	f := lists.VersionFilter{Prefix: q.Prefix, Class: q.Class, Order: o, After: k, Limit: pageLimit(q.Limit)}
	list, more, err := c.db.Lists.Versions(ctx, scope.Index(), product, f)
	return list, c.groupText(name, more), err
}

// txFile is a found object as a file of a transaction.
func txFile(f record.Found) record.TxFile {
	return record.TxFile{
		Object: f.Object, Arch: f.Arch, Features: f.Features, DebugSize: f.DebugSize, Ref: f.Ref, Size: f.Size,
		Path: f.Path, Archive: f.Archive, ModTime: f.ModTime,
	}
}

func txFiles(list []record.Found) (files []record.TxFile) {
	for _, f := range list {
		files = append(files, txFile(f))
	}
	return files
}

// VersionFiles lists the distinct objects of all live transactions of a version, by name
// if the query has no order. As in ObjectPage, a page may be short although there are
// more.
func (c *Catalog) VersionFiles(ctx context.Context, scope answer.Scope, product, version string, q FileQuery) (FilePage, error) {
	f := lists.ObjectFilter{Limit: pageLimit(q.Limit)}
	f.Name, f.Kind = symfile.Fold(q.Name), q.Kind
	if _, err := q.filter(); err != nil {
		return FilePage{}, err
	}
	switch q.Sort {
	case SortAdded:
		f.Sort = lists.ByAdded
	case SortSize:
		f.Sort = lists.BySize
	}
	list := "version " + string(q.Sort)
	var k pageKey
	if err := c.pages.open(&k, q.After, list); err != nil {
		return FilePage{}, err
	}
	f.After = lists.ObjectKey{Name: string(k.Name), Size: k.Number, ID: k.ID}
	found, next, err := c.db.Lists.VersionObjects(ctx, scope.Index(), product, version, f)
	p := FilePage{Files: txFiles(found)}
	if next != nil {
		p.Next = c.pages.seal(pageKey{Name: []byte(next.Name), Number: next.Size, ID: next.ID}, list)
	}
	return p, err
}

// WithoutPDB lists the programs and libraries of a version that refer to a PDB that is
// not in the scope, at most limit. more says that there are others.
func (c *Catalog) WithoutPDB(
	ctx context.Context, scope answer.Scope, product, version string, limit int,
) (list []record.TxFile, more bool, err error) {
	found, more, err := c.db.Lists.WithoutPDB(ctx, scope.Index(), product, version, pageLimit(limit))
	return txFiles(found), more, err
}

// Difference is a name whose files differ between two versions.
type Difference struct {
	Name string
	Kind symfile.Kind
	Arch string
	// Here and There are the ids in the first and the second version; empty: it has no
	// such file. The sizes are those of the files.
	Here, There         string
	HereSize, ThereSize int64

	key string
}

// ErrTooDifferent means that two versions have too many different files to list.
var ErrTooDifferent = fmt.Errorf("the versions differ in too many files to compare them")

// Compare lists the files that only one of two versions has, or that have other ids, by
// name.
func (c *Catalog) Compare(
	ctx context.Context, scope answer.Scope, product, here, there, after string, limit int,
) (list []Difference, next string, err error) {
	var k pageKey
	if err := c.pages.open(&k, after, "compare"); err != nil {
		return nil, "", err
	}
	type group struct {
		name, arch string
		kind       symfile.Kind
	}
	type side struct {
		name, id string
		size     int64
	}
	sides := map[group]*[2][]side{}
	more, err := c.db.Lists.Differences(ctx, scope.Index(), product, here, there, func(d lists.VersionDiff) {
		g := group{symfile.Fold(d.Object.Name), d.Arch, d.Object.Kind}
		s := sides[g]
		if s == nil {
			s = &[2][]side{}
			sides[g] = s
		}
		i := 0
		if d.There {
			i = 1
		}
		s[i] = append(s[i], side{d.Object.Name, idOf(d.Object), d.Size})
	})
	if more {
		return nil, "", ErrTooDifferent
	}
	if err != nil {
		return nil, "", err
	}
	for g, s := range sides {
		// The same id with other bytes is no difference for a debugger.
		isIn := func(list []side) func(side) bool {
			return func(x side) bool { return slices.ContainsFunc(list, func(y side) bool { return x.id == y.id }) }
		}
		a := slices.DeleteFunc(slices.Clone(s[0]), isIn(s[1]))
		b := slices.DeleteFunc(slices.Clone(s[1]), isIn(s[0]))
		for _, l := range [][]side{a, b} {
			sorting.By(l, func(x, y side) int { return cmp.Compare(x.id, y.id) })
		}
		for i := range max(len(a), len(b)) {
			d := Difference{Kind: g.kind, Arch: g.arch}
			if i < len(b) {
				d.Name, d.There, d.ThereSize = b[i].name, b[i].id, b[i].size
			}
			if i < len(a) {
				d.Name, d.Here, d.HereSize = a[i].name, a[i].id, a[i].size
			}
			d.key = strings.Join([]string{g.name, fmt.Sprintf("%03d", g.kind), g.arch, d.Here, d.There}, "\x00")
			if after == "" || d.key > string(k.Name) {
				list = append(list, d)
			}
		}
	}
	sorting.By(list, func(a, b Difference) int { return cmp.Compare(a.key, b.key) })
	if n := pageLimit(limit); len(list) > n {
		list = list[:n]
		next = c.pages.seal(pageKey{Name: []byte(list[n-1].key)}, "compare")
	}
	return list, next, nil
}

// idOf is the id by which people know an object.
func idOf(o symfile.Object) string {
	switch {
	case o.BuildID != "":
		return string(o.BuildID)
	case o.Kind == symfile.PE || o.Kind == symfile.DBG || o.DebugID.IsZero():
		if o.CodeID == "" {
			return o.Hash
		}
		return o.CodeID
	}
	return o.DebugID.Breakpad()
}
