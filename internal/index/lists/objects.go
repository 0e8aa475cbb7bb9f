// Package lists is the part of an index for lists that people read in pages: objects, groups
// of them, files and versions of products, and all that is known of one object.
package lists

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/oldkeys"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/symfile"
)

// Lists is the part of the index for lists that people read in pages. A page begins
// after the last row of the page before it, by sort key and id: rows that are added or
// removed meanwhile neither repeat nor skip others.
type Lists struct {
	db     *engine.Database
	limits Limits
}

// NewLists returns the lists of an index in a database.
func NewLists(db *engine.Database, limits Limits) Lists { return Lists{db, limits} }

// ObjectSort is the order of a list of objects.
type ObjectSort uint8

// The orders. Objects with equal keys follow newest first.
const (
	ByName  ObjectSort = iota // of the folded name
	ByAdded                   // in which the depot first got them, newest first
	BySize                    // largest first
)

// ObjectKey is the place of an object in a list: the key of the sort order, and the
// id. The zero value is before the first.
type ObjectKey struct {
	Name string // by name
	Size int64  // by size
	ID   int64
}

// ObjectFilter selects objects; the zero value selects all. IDs, Prefix and Ref select
// together the objects that match any of them; Name then is an alternative to them.
type ObjectFilter struct {
	record.Query         // what the text of a search means; Name may be a pattern
	Product      *string // visible in it; nil is any
	Arch         string
	Feature      string    // one of the words
	Since        time.Time // a transaction holds it that is not older, or it was downloaded since
	// Fetched selects cached files (true), or the others; nil is any.
	Fetched *bool
	Sort    ObjectSort
	After   ObjectKey
	Limit   int
}

// Limits are limits of the work for one page.
type Limits struct {
	// Step is how many objects a page looks at that its filters may reject. So a page
	// with fewer rows than its limit may have a successor.
	Step int
	// Few is how many objects are sorted, if a search or a product selects them.
	Few int
	// Names is the number of names above which a pattern that begins with a wildcard
	// needs three characters in a row.
	Names int
}

const (
	// ListedTransactions limits Found.Transactions in a page.
	ListedTransactions = 100
	// unionProducts is up to how many products their lists are merged. With more, the
	// list of all objects is walked.
	unionProducts = 8
	manyNames     = 300_000
)

// UsualLimits are those of an index.
var UsualLimits = Limits{Step: 10_000, Few: 20_000, Names: manyNames}

// ErrShortPattern means that a pattern would be compared with too many names.
var ErrShortPattern = fmt.Errorf("the depot has more than %d names: a pattern that begins with * or ? needs three other "+
	"characters in a row", manyNames)

// Objects returns a page of the objects in the scope that f selects. next is where the
// next page begins; nil: there is none.
func (ls Lists) Objects(ctx context.Context, scope record.Scope, f ObjectFilter) (list []record.Found, next *ObjectKey, err error) {
	w := objectWalk{Lists: ls, f: f}
	if err := w.see(ctx, scope); err != nil || w.none {
		return nil, nil, ls.db.Fail("list objects", err)
	}
	rows, next, err := w.page(ctx)
	if err == nil {
		ids := make([]int64, len(rows))
		for i, r := range rows {
			ids[i] = r.ID
		}
		list, err = ls.load(ctx, w.seen, ids)
	}
	return list, next, ls.db.Fail("list objects", err)
}

// visibility is a scope as ids of products. Its texts are conditions without
// arguments.
type visibility struct {
	all      bool
	products []int64 // sorted
}

// visibility looks up the products of a scope; product, if not nil, is the only one.
func (ls Lists) visibility(ctx context.Context, scope record.Scope, product *string) (v visibility, err error) {
	switch {
	case product != nil && !scope.All && !slices.Contains(scope.Products, *product):
		return v, nil
	case product != nil:
		scope = record.Scope{Products: []string{*product}}
	case scope.All:
		return visibility{all: true}, nil
	}
	where, args := scope.Where("id", nil)
	err = ls.db.Scans.Each(ctx, scope.Few(), "SELECT id FROM product WHERE 1 = 1"+where+" ORDER BY id", args,
		func(scan engine.Scan) (bool, error) {
			var id int64
			err := scan(&id)
			v.products = append(v.products, id)
			return true, err
		})
	return v, err
}

// none reports whether nothing is visible.
func (v visibility) none() bool { return !v.all && len(v.products) == 0 }

// in returns a condition on a column with the id of a product, with AND before it.
func (v visibility) in(column string) string {
	if v.all {
		return ""
	}
	return " AND " + column + " IN (" + idList(v.products) + ")"
}

// object returns the condition that object o is visible.
func (v visibility) object() string {
	return "EXISTS (SELECT 1 FROM seen s WHERE s.object_id = o.id" + v.in("s.product_id") + ")"
}

// lists returns the ids under which listed_name has all names of visible objects.
func (v visibility) lists() []int64 {
	if v.all || len(v.products) > unionProducts {
		return []int64{0}
	}
	return v.products
}

func idList(ids []int64) string {
	var b []byte
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, id, 10)
	}
	return string(b)
}

// objectWalk reads one page of a list of objects.
type objectWalk struct {
	Lists
	f    ObjectFilter
	name string // that of the filter, as it is stored
	seen visibility
	none bool
	cond string // of the filters, each with AND before it
	args []any  // of cond
	// within is a source of all objects that cond permits, if these are few of the
	// visible ones.
	within *source
}

// see prepares the conditions.
func (w *objectWalk) see(ctx context.Context, scope record.Scope) (err error) {
	if w.seen, err = w.visibility(ctx, scope, w.f.Product); err != nil || w.seen.none() {
		w.none = true
		return err
	}
	w.name = engine.Text(w.f.Name)
	f := &w.f
	if f.Kind != symfile.KindUnknown {
		w.cond += " AND o.kind = " + w.arg(f.Kind)
	}
	if f.Arch != "" {
		w.cond += " AND " + record.ArchColumn + " = " + w.arg(engine.Text(f.Arch))
	}
	if f.Feature != "" {
		word := w.arg("% " + record.LikeEscaper.Replace(engine.Text(f.Feature)) + " %")
		w.cond += " AND ' ' || " + record.FeaturesColumn + " || ' ' LIKE " + word + ` ESCAPE '\'`
	}
	if f.Fetched != nil {
		not := ""
		if *f.Fetched {
			not = "NOT "
		}
		w.cond += " AND " + not + "EXISTS (SELECT 1 FROM seen s WHERE s.object_id = o.id AND s.tx_id > 0" + w.seen.in("s.product_id") + ")"
	}
	if !f.Since.IsZero() {
		w.cond += " AND EXISTS (SELECT 1 FROM seen s JOIN tx t ON t.id = s.tx_id WHERE s.object_id = o.id" + w.seen.in("s.product_id") +
			" AND CASE WHEN s.tx_id > 0 THEN t.time ELSE (SELECT max(f.mtime) FROM tx_file f " +
			"WHERE f.object_id = s.object_id AND f.tx_id = s.tx_id) END >= " + w.arg(f.Since.UnixMilli()) + ")"
	}
	return nil
}

// arg adds an argument of the filters and returns its mark.
func (w *objectWalk) arg(v any) string {
	w.args = append(w.args, v)
	return "$" + strconv.Itoa(len(w.args))
}

// rejects reports whether a walk through the visible objects can meet many that the
// page does not show.
func (w *objectWalk) rejects() bool {
	return len(w.args) > 0 || w.f.Fetched != nil || len(w.seen.products) > unionProducts
}

// page returns the keys of the objects of the page.
func (w *objectWalk) page(ctx context.Context) (rows []ObjectKey, next *ObjectKey, err error) {
	f := &w.f
	byID := len(f.IDs) > 0 || f.Prefix != "" || f.Ref != nil
	if !byID && record.IsPattern(w.name) {
		if err := w.checkPattern(ctx, w.name); err != nil {
			return nil, nil, err
		}
	}
	exact := w.name != "" && !record.IsPattern(w.name)
	sources := w.candidates(byID)
	switch {
	case byID:
		if rows, err = w.few(ctx, sources); err != nil {
			return nil, nil, err
		}
		rows, next = w.cut(rows)
		return rows, next, nil
	case len(sources) > 0 && w.mayBeFew(exact):
		if few, err := w.isFew(ctx, sources[0]); err != nil {
			return nil, nil, err
		} else if few {
			return w.sorted(ctx, sources[0])
		}
	}
	switch {
	case f.Sort == BySize:
		return w.bySize(ctx)
	case exact:
		return w.ofName(ctx)
	case f.Sort == ByName:
		return w.byName(ctx)
	case w.name == "" && len(w.seen.products) > 0 && len(w.seen.products) <= unionProducts:
		return w.byAddedTo(ctx)
	}
	return w.byAdded(ctx)
}

// mayBeFew reports whether it pays to find out that few objects are selected: a walk in the
// order of the list could reject many. exact says that one name is selected.
func (w *objectWalk) mayBeFew(exact bool) bool {
	if w.within != nil {
		return true
	}
	switch w.f.Sort {
	case BySize:
		return true
	case ByAdded:
		return record.IsPattern(w.name)
	}
	return !exact && !w.seen.all && w.rejects()
}

// checkPattern returns ErrShortPattern if a pattern would be compared with too many
// names.
func (ls Lists) checkPattern(ctx context.Context, pattern string) error {
	if record.LiteralPrefix(pattern, "*?") != "" || strings.Trim(pattern, "*") == "" {
		return nil
	}
	run := 0
	for _, r := range pattern {
		if run++; r == '*' || r == '?' {
			run = 0
		}
		if run == 3 {
			return nil
		}
	}
	most := ls.limits.Names
	var many bool
	if err := ls.db.Scans.Row(ctx, "SELECT EXISTS (SELECT 1 FROM listed_name WHERE product_id = 0 LIMIT 1 OFFSET $1)",
		[]any{most}, &many); err != nil {
		return err
	}
	if many {
		return ErrShortPattern
	}
	return nil
}

// source is a part of a statement that yields objects o. %s marks its arguments.
type source struct {
	from, cond string
	args       []any
	// id is the column with the ids of the objects, if there is no o.
	id string
	// seen says that the objects are visible.
	seen bool
	// packed says that objects with packed keys are selected too: those with ids from the first argument on
	// and before the second one or, without a second one, with the first.
	packed bool
}

// ids returns a statement that reads the ids of the objects.
func (s source) ids() string {
	return "SELECT " + cmp.Or(s.id, "o.id") + " FROM " + s.from + " WHERE " + s.cond
}

// candidates returns sources of all objects that the text of the search selects, or
// without one of those in few products; none if these are all objects.
func (w *objectWalk) candidates(byID bool) (list []source) {
	const keys = "lookup l JOIN object o ON o.id = l.object_id"
	f := &w.f
	for _, id := range f.IDs {
		list = append(list, source{from: keys, cond: "l.id = %s", args: []any{engine.Text(id)}, packed: true})
	}
	if f.Prefix != "" {
		list = append(list, source{from: keys, cond: "l.id >= %s AND l.id < %s",
			args: []any{engine.Text(f.Prefix), record.PrefixEnd(engine.Text(f.Prefix))}, packed: true})
	}
	if f.Ref != nil {
		list = append(list, source{from: "content k JOIN object o ON o.content_id = k.id",
			cond: "k.sha256 = %s AND " + record.Head("k.sha256") + " = %s", args: []any{f.Ref[:], record.HeadOf(*f.Ref)}})
	}
	if from, to, ok := record.RefRange(f.RefPrefix); ok {
		list = append(list, source{from: "content k JOIN object o ON o.content_id = k.id",
			cond: "k.sha256 >= %s AND k.sha256 <= %s AND " + record.Head("k.sha256") + " >= %s AND " + record.Head("k.sha256") + " <= %s",
			args: []any{from[:], to[:], record.HeadOf(from), record.HeadOf(to)}})
	}
	if w.within != nil {
		return []source{w.withName(*w.within)}
	}
	switch {
	case w.name != "" && (byID || !record.IsPattern(w.name)):
		return append(list, source{from: "object o", cond: "o.name_fold = %s", args: []any{w.name}})
	case byID:
		return list
	case w.name != "":
		lists := w.seen.lists()
		if len(lists) > 1 {
			lists = []int64{0}
		}
		names, args := w.names("", lists)
		return []source{{from: names + " CROSS JOIN object o", cond: "o.name_fold = k.name", args: args}}
	case len(w.seen.products) > 0 && len(w.seen.products) <= unionProducts:
		return []source{{from: "seen v", cond: "v.product_id IN (" + idList(w.seen.products) + ")", id: "v.object_id", seen: true}}
	}
	return nil
}

// names returns a table k of the names after a name that fit the pattern, in order, and
// its arguments.
func (w *objectWalk) names(after string, lists []int64) (string, []any) {
	cond, args := "name > %s", []any{after}
	if p := record.LiteralPrefix(w.name, "*?"); p != "" {
		cond, args = cond+" AND name >= %s AND name < %s", append(args, p, record.PrefixEnd(p))
	}
	if w.name != "" && strings.Trim(w.name, "*") != record.LiteralPrefix(w.name, "*?") {
		cond, args = cond+` AND name LIKE %s ESCAPE '\'`, append(args, record.LikeEscaper.Replace(w.name))
	}
	var parts []string
	var all []any
	for _, id := range lists {
		parts = append(parts, "SELECT name FROM listed_name WHERE product_id = "+strconv.FormatInt(id, 10)+" AND "+cond)
		all = append(all, args...)
	}
	return "(" + strings.Join(parts, " UNION ") + ") k", all
}

// withName adds the condition that the name of objects o fits.
func (w *objectWalk) withName(s source) source {
	switch {
	case record.IsPattern(w.name):
		s.cond, s.args = s.cond+` AND o.name_fold LIKE %s ESCAPE '\'`, append(s.args, record.LikeEscaper.Replace(w.name))
	case w.name != "":
		s.cond, s.args = s.cond+" AND o.name_fold = %s", append(s.args, w.name)
	}
	return s
}

// marks replaces %s by the marks of arguments that follow others.
func marks(query string, before int) string {
	for i := 1; strings.Contains(query, "%s"); i++ {
		query = strings.Replace(query, "%s", "$"+strconv.Itoa(before+i), 1)
	}
	return query
}

// few returns the rows of all sources without duplicates. Of each source it reads at most
// limits.few rows, which is about as many as are sorted in memory.
func (w *objectWalk) few(ctx context.Context, sources []source) (rows []ObjectKey, err error) {
	have := make(map[int64]bool)
	for _, s := range sources {
		list, err := w.rows(ctx, s, "o.id DESC", w.limits.Few)
		if err != nil {
			return nil, err
		}
		if s.packed {
			// After the rows: keys are packed all the time, and seldom become rows again.
			some, err := w.packed(ctx, s)
			if err != nil {
				return nil, err
			}
			list = append(list, some...)
			sorting.Stable(list, func(a, b ObjectKey) int { return cmp.Compare(b.ID, a.ID) })
			list = list[:min(len(list), w.limits.Few)]
		}
		for _, k := range list {
			if !have[k.ID] {
				have[k.ID] = true
				rows = append(rows, k)
			}
		}
	}
	return rows, nil
}

// packed reads the newest visible objects of a source that have packed keys.
func (w *objectWalk) packed(ctx context.Context, s source) (rows []ObjectKey, err error) {
	from, _ := s.args[0].(string)
	to := ""
	if len(s.args) > 1 {
		to, _ = s.args[1].(string)
	}
	ids, err := oldkeys.Objects(ctx, w.db.Scans, from, to)
	for _, cond := range oldkeys.Among("o.id", ids) {
		if err != nil || len(rows) >= w.limits.Few {
			break
		}
		var some []ObjectKey
		some, err = w.rows(ctx, source{from: "object o", cond: cond}, "o.id DESC", w.limits.Few-len(rows))
		rows = append(rows, some...)
	}
	return rows, err
}

// isFew reports whether a source has few objects, before the filters.
func (w *objectWalk) isFew(ctx context.Context, s source) (few bool, err error) {
	few = true
	query := marks(s.ids()+" LIMIT 1 OFFSET %s", 0)
	err = w.db.Scans.Each(ctx, false, query, append(slices.Clone(s.args), w.limits.Few), func(engine.Scan) (bool, error) {
		few = false
		return false, nil
	})
	return few, err
}

// sorted reads a page of a source of few objects by sorting all of them.
func (w *objectWalk) sorted(ctx context.Context, s source) ([]ObjectKey, *ObjectKey, error) {
	s = source{from: "object o", cond: "o.id IN (" + s.ids() + ")", args: s.args, seen: s.seen}
	order := "o.id DESC"
	after := w.f.After
	some := after != ObjectKey{}
	switch w.f.Sort {
	case ByName:
		order = "o.name_fold, o.id DESC"
		if some && after.ID == 0 {
			s.cond, s.args = s.cond+" AND o.name_fold > %s", append(s.args, after.Name)
		} else if some {
			s.cond, s.args = s.cond+" AND (o.name_fold > %s OR o.name_fold = %s AND o.id < %s)", append(s.args, after.Name, after.Name, after.ID)
		}
	case BySize:
		order = "c.size DESC, o.id DESC"
		if some {
			s.cond, s.args = s.cond+" AND (c.size < %s OR c.size = %s AND o.id < %s)", append(s.args, after.Size, after.Size, after.ID)
		}
	default:
		if some {
			s.cond, s.args = s.cond+" AND o.id < %s", append(s.args, after.ID)
		}
	}
	rows, err := w.rows(ctx, s, order, w.f.Limit+1)
	if err != nil {
		return nil, nil, err
	}
	rows, next := w.limit(rows, nil)
	return rows, next, nil
}

// cut returns the page of rows that are all there are.
func (w *objectWalk) cut(rows []ObjectKey) ([]ObjectKey, *ObjectKey) {
	compare := func(a, b ObjectKey) int {
		order := 0
		switch w.f.Sort {
		case ByName:
			order = cmp.Compare(a.Name, b.Name)
		case BySize:
			order = cmp.Compare(b.Size, a.Size)
		}
		return cmp.Or(order, cmp.Compare(b.ID, a.ID))
	}
	sorting.By(rows, compare)
	if after := w.f.After; after != (ObjectKey{}) {
		rows = slices.DeleteFunc(rows, func(r ObjectKey) bool { return compare(r, after) <= 0 })
	}
	return w.limit(rows, nil)
}

// limit returns as many rows as the page may have, and where the next one begins: after
// its last row or, if there is none left, at the end of the walk.
func (w *objectWalk) limit(rows []ObjectKey, end *ObjectKey) ([]ObjectKey, *ObjectKey) {
	if len(rows) <= w.f.Limit {
		return rows, end
	}
	rows = rows[:w.f.Limit]
	return rows, &rows[len(rows)-1]
}

// rows reads the visible objects of a source in an order.
func (w *objectWalk) rows(ctx context.Context, s source, order string, limit int) (list []ObjectKey, err error) {
	if limit <= 0 {
		return nil, nil
	}
	query := "SELECT o.id, o.name_fold, c.size FROM " + s.from + " CROSS JOIN content c WHERE " + s.cond + " AND c.id = o.content_id AND "
	visible := w.seen.object()
	if s.seen {
		visible = "1 = 1"
	}
	query = marks(query, len(w.args)) + visible + w.cond + " ORDER BY " + order + " LIMIT " + strconv.Itoa(limit)
	err = w.db.Scans.Each(ctx, false, query, slices.Concat(w.args, s.args), func(scan engine.Scan) (bool, error) {
		var k ObjectKey
		err := scan(&k.ID, &k.Name, &k.Size)
		list = append(list, k)
		return true, err
	})
	return list, err
}

// bound reads the key of the row w.limits.step rows on, if there is one.
func (w *objectWalk) bound(ctx context.Context, query string, from, dest any) (found bool, err error) {
	err = w.db.Scans.Each(ctx, true, query, []any{from, w.limits.Step}, func(scan engine.Scan) (bool, error) {
		found = true
		return false, scan(dest)
	})
	return found, err
}

// ofName reads a page of the newest objects of one name.
func (w *objectWalk) ofName(ctx context.Context) ([]ObjectKey, *ObjectKey, error) {
	s := source{from: "object o", cond: "o.name_fold = %s", args: []any{w.name}}
	if id := w.f.After.ID; id > 0 {
		s.cond, s.args = s.cond+" AND o.id < %s", append(s.args, id)
	}
	rows, err := w.rows(ctx, s, "o.id DESC", w.f.Limit+1)
	if err != nil {
		return nil, nil, err
	}
	rows, next := w.limit(rows, nil)
	return rows, next, nil
}

// byName reads a page in the order of names.
func (w *objectWalk) byName(ctx context.Context) (rows []ObjectKey, next *ObjectKey, err error) {
	after, n := w.f.After, w.f.Limit+1
	if after.ID > 0 {
		s := w.withName(source{from: "object o", cond: "o.name_fold = %s AND o.id < %s", args: []any{after.Name, after.ID}})
		if rows, err = w.rows(ctx, s, "o.id DESC", n); err != nil {
			return nil, nil, err
		}
	}
	lists := w.seen.lists()
	if len(lists) > 1 {
		return w.byNames(ctx, rows, lists)
	}
	names, args := w.names(after.Name, lists)
	s := source{from: names + " CROSS JOIN object o", cond: "o.name_fold = k.name", args: args}
	var end *ObjectKey
	if w.rejects() {
		var last string
		found := false
		query := marks("SELECT k.name FROM "+names+" CROSS JOIN object o WHERE o.name_fold = k.name ORDER BY k.name LIMIT 1 OFFSET %s", 0)
		if err := w.db.Scans.Each(ctx, false, query, append(slices.Clone(args), w.limits.Step), func(scan engine.Scan) (bool, error) {
			found = true
			return false, scan(&last)
		}); err != nil {
			return nil, nil, err
		}
		if found {
			s.cond, s.args = s.cond+" AND k.name <= %s", append(s.args, last) // all objects of the name are looked at
			if end, err = w.nextName(ctx, last); err != nil {
				return nil, nil, err
			}
		}
	}
	more, err := w.rows(ctx, s, "k.name, o.id DESC", n-len(rows))
	if err != nil {
		return nil, nil, err
	}
	rows, next = w.limit(append(rows, more...), end)
	return rows, next, nil
}

// nextName returns where a walk in the order of names goes on after a name; nil: nowhere.
// The client reads it, so it is no name of a product that the client does not see.
func (w *objectWalk) nextName(ctx context.Context, after string) (end *ObjectKey, err error) {
	if w.seen.all {
		return &ObjectKey{Name: after}, nil
	}
	for _, product := range w.seen.products {
		if err := w.db.Scans.Each(ctx, true, "SELECT name FROM listed_name WHERE product_id = $1 AND name > $2 ORDER BY name LIMIT 1",
			[]any{product, after}, func(scan engine.Scan) (bool, error) {
				k := ObjectKey{ID: math.MaxInt64} // before all objects of the name
				err := scan(&k.Name)
				if end == nil || k.Name < end.Name {
					end = &k
				}
				return false, err
			}); err != nil {
			return nil, err
		}
	}
	return end, nil
}

// byNames does the rest of byName for several products, name by name.
func (w *objectWalk) byNames(ctx context.Context, rows []ObjectKey, lists []int64) ([]ObjectKey, *ObjectKey, error) {
	after := w.f.After.Name
	for looked := 0; len(rows) <= w.f.Limit; {
		var list []string
		names, args := w.names(after, lists)
		names = marks("SELECT name FROM "+names+" ORDER BY name LIMIT "+strconv.Itoa(w.f.Limit+1), 0)
		if err := w.db.Scans.Each(ctx, false, names, args, func(scan engine.Scan) (bool, error) {
			var name string
			err := scan(&name)
			list = append(list, name)
			return true, err
		}); err != nil {
			return nil, nil, err
		}
		for _, name := range list {
			more, err := w.rows(ctx, source{from: "object o", cond: "o.name_fold = %s", args: []any{name}}, "o.id DESC", w.f.Limit+1-len(rows))
			if err != nil {
				return nil, nil, err
			}
			if rows = append(rows, more...); len(rows) > w.f.Limit {
				break
			}
			after = name
			looked++
		}
		if len(list) <= w.f.Limit {
			break
		}
		if looked > w.limits.Step/10 && len(rows) <= w.f.Limit {
			return rows, &ObjectKey{Name: after}, nil
		}
	}
	rows, next := w.limit(rows, nil)
	return rows, next, nil
}

// byAdded reads a page of the newest objects.
func (w *objectWalk) byAdded(ctx context.Context) (rows []ObjectKey, next *ObjectKey, err error) {
	before := w.f.After.ID
	if before <= 0 {
		before = math.MaxInt64
	}
	s := w.withName(source{from: "object o", cond: "o.id < %s", args: []any{before}})
	var end *ObjectKey
	if w.rejects() || w.name != "" {
		var last int64
		found, err := w.bound(ctx, "SELECT id FROM object WHERE id < $1 ORDER BY id DESC LIMIT 1 OFFSET $2", before, &last)
		if err != nil {
			return nil, nil, err
		}
		if found {
			end = &ObjectKey{ID: last}
			s.cond, s.args = s.cond+" AND o.id >= %s", append(s.args, last)
		}
	}
	if rows, err = w.rows(ctx, s, "o.id DESC", w.f.Limit+1); err != nil {
		return nil, nil, err
	}
	rows, next = w.limit(rows, end)
	return rows, next, nil
}

// byAddedTo reads a page of the newest objects of few products.
func (w *objectWalk) byAddedTo(ctx context.Context) (rows []ObjectKey, next *ObjectKey, err error) {
	before := w.f.After.ID
	if before <= 0 {
		before = math.MaxInt64
	}
	for n, looked := w.f.Limit+1, 0; ; n = min(4*n, w.limits.Few) {
		var ids []int64
		more := false
		for _, product := range w.seen.products {
			of := 0
			if err := w.db.Scans.Each(ctx, true, "SELECT object_id FROM seen WHERE product_id = $1 AND object_id < $2 "+
				"ORDER BY object_id DESC LIMIT $3", []any{product, before, n}, func(scan engine.Scan) (bool, error) {
				var id int64
				err := scan(&id)
				ids = append(ids, id)
				of++
				return true, err
			}); err != nil {
				return nil, nil, err
			}
			more = more || of == n
		}
		slices.SortFunc(ids, func(a, b int64) int { return cmp.Compare(b, a) })
		ids = slices.Compact(ids)
		if more && len(ids) > n {
			ids = ids[:n] // older ones of a product may lie behind those that were not read
		}
		if len(ids) > 0 {
			list, err := w.rows(ctx, source{from: "object o", cond: "o.id IN (" + idList(ids) + ")", seen: true}, "o.id DESC", w.f.Limit+1-len(rows))
			if err != nil {
				return nil, nil, err
			}
			rows = append(rows, list...)
			before = ids[len(ids)-1]
		}
		switch looked += len(ids); {
		case !more || len(rows) > w.f.Limit:
			rows, next = w.limit(rows, nil)
			return rows, next, nil
		case looked >= w.limits.Step:
			return rows, &ObjectKey{ID: before}, nil
		}
	}
}

// bySize reads a page of the largest objects.
func (w *objectWalk) bySize(ctx context.Context) (rows []ObjectKey, next *ObjectKey, err error) {
	after, n := w.f.After, w.f.Limit+1
	if after == (ObjectKey{}) {
		after.Size = math.MaxInt64
	}
	if after.ID > 0 { // the rest of the objects of this size
		s := w.withName(source{from: "content k CROSS JOIN object o",
			cond: "k.size = %s AND o.content_id = k.id AND o.id < %s", args: []any{after.Size, after.ID}})
		if rows, err = w.rows(ctx, s, "o.id DESC", n); err != nil {
			return nil, nil, err
		}
	}
	s := w.withName(source{from: "content k CROSS JOIN object o", cond: "k.size < %s AND o.content_id = k.id", args: []any{after.Size}})
	var end *ObjectKey
	if w.rejects() || w.name != "" || !w.seen.all {
		var last int64
		found, err := w.bound(ctx, "SELECT size FROM content WHERE size < $1 ORDER BY size DESC LIMIT 1 OFFSET $2", after.Size, &last)
		if err != nil {
			return nil, nil, err
		}
		if found && last > 0 {
			end = &ObjectKey{Size: last} // all objects of the size are looked at
			s.cond, s.args = s.cond+" AND k.size >= %s", append(s.args, last)
		}
	}
	more, err := w.rows(ctx, s, "k.size DESC, o.id DESC", n-len(rows))
	if err != nil {
		return nil, nil, err
	}
	rows, next = w.limit(append(rows, more...), end)
	return rows, next, nil
}

// load reads objects in the order of the ids, with their newest transactions. Objects
// that are no longer visible are left out.
func (ls Lists) load(ctx context.Context, v visibility, ids []int64) ([]record.Found, error) {
	list, err := ls.loadVia(ctx, "SELECT max(s.tx_id) FROM seen s WHERE s.object_id = o.id"+v.in("s.product_id"), nil, ids)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	holders, err := ls.holders(ctx, v, ids)
	for i := range list {
		list[i].Transactions = holders[list[i].Row()]
	}
	return list, err
}

// loadVia reads objects as a transaction holds them, which a query selects for object
// o.
func (ls Lists) loadVia(ctx context.Context, newest string, args []any, ids []int64) ([]record.Found, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	type loaded struct {
		record.Found
		seq int64
	}
	have := make(map[int64]loaded, len(ids))
	err := ls.db.Scans.Each(ctx, false, "SELECT "+record.ObjectColumns+", "+record.FileColumns+`, f.seq, p.name, t.version
		FROM object o JOIN content c ON c.id = o.content_id
		JOIN tx_file f ON f.object_id = o.id AND f.tx_id = (`+newest+`)
		JOIN tx t ON t.id = f.tx_id JOIN product p ON p.id = t.product_id WHERE o.id IN (`+idList(ids)+")", args,
		func(scan engine.Scan) (bool, error) {
			var l loaded
			if err := record.ScanStored(scan, &l.Stored, &l.seq, &l.Product, &l.Version); err != nil {
				return false, err
			}
			if old, ok := have[l.Row()]; !ok || l.seq < old.seq {
				have[l.Row()] = l
			}
			return true, nil
		})
	if err != nil {
		return nil, err
	}
	list := make([]record.Found, 0, len(ids))
	for _, id := range ids {
		if l, ok := have[id]; ok {
			list = append(list, l.Found)
		}
	}
	return list, nil
}

// holders returns the newest transactions that hold objects, at most ListedTransactions of
// each.
func (ls Lists) holders(ctx context.Context, v visibility, ids []int64) (map[int64][]int64, error) {
	list := make(map[int64][]int64, len(ids))
	each := func(scan engine.Scan) (bool, error) {
		var object, tx int64
		err := scan(&object, &tx)
		list[object] = append(list[object], tx)
		return true, err
	}
	join := ""
	if !v.all {
		join = " JOIN tx t ON t.id = f.tx_id" + v.in("t.product_id")
	}
	if ls.lateral() {
		return list, ls.db.Scans.Each(ctx, false, "SELECT k.id, h.tx_id FROM unnest(ARRAY["+idList(ids)+`]::bigint[]) AS k(id)
			CROSS JOIN LATERAL (SELECT DISTINCT f.tx_id FROM tx_file f`+join+" WHERE f.object_id = k.id AND f.tx_id > 0 "+
			"ORDER BY f.tx_id DESC LIMIT "+strconv.Itoa(ListedTransactions)+") AS h ORDER BY k.id, h.tx_id DESC", nil, each)
	}
	query := "SELECT DISTINCT f.object_id, f.tx_id FROM tx_file f" + join + " WHERE f.object_id = $1 AND f.tx_id > 0 " +
		"ORDER BY f.tx_id DESC LIMIT " + strconv.Itoa(ListedTransactions)
	for _, id := range ids {
		if err := ls.db.Scans.Each(ctx, v.all, query, []any{id}, each); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// lateral reports whether a join can depend on the row before it.
func (ls Lists) lateral() bool {
	return ls.db.Shared()
}
