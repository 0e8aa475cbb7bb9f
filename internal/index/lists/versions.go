package lists

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/oldkeys"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/symfile"
)

// ProductFacts summarize the live transactions of a product.
type ProductFacts struct {
	Name         string
	Versions     int64
	Transactions int64
	Files, Bytes int64     // sums over the transactions
	Newest       time.Time // time of the newest transaction
}

// VersionFacts summarize the live transactions of a version of a product.
type VersionFacts struct {
	Version      string
	Transactions int64
	Files, Bytes int64
	Newest       time.Time // of the newest transaction, like the next two
	Class        string
	NewestNumber int64
}

// GroupOrder is the order of a list of products or versions.
type GroupOrder uint8

// The orders.
const (
	GroupsByName   GroupOrder = iota // byte by byte
	GroupsByNewest                   // newest transaction first
	GroupsByBytes                    // most bytes first
)

// GroupKey is the place of a product or a version in a list: its name, and the number
// of the newest transaction or the bytes.
type GroupKey struct {
	Name   string
	Number int64
}

// after returns the condition that a row of g follows a key, and the order. name, newest
// and bytes are its columns.
func (o GroupOrder) after(k *GroupKey, name string) (cond, order string, args []any) {
	number := map[GroupOrder]string{GroupsByNewest: "g.newest", GroupsByBytes: "g.bytes"}[o]
	switch {
	case number == "" && k == nil:
		return "1 = 1", name, nil
	case number == "":
		return name + " > %s", name, []any{engine.Text(k.Name)}
	case k == nil:
		return "1 = 1", number + " DESC, " + name, nil
	}
	return "(" + number + " < %s OR " + number + " = %s AND " + name + " > %s)", number + " DESC, " + name,
		[]any{k.Number, k.Number, engine.Text(k.Name)}
}

// live is the condition on transaction t that it can be seen.
const live = "t.deleted_at IS NULL AND t.id > 0"

// Products returns a page of the products in the scope that have live transactions.
func (ls Lists) Products(ctx context.Context, scope record.Scope, o GroupOrder, after *GroupKey, limit int) (list []ProductFacts,
	next *GroupKey, err error) {
	const op = "list products"
	v, err := ls.visibility(ctx, scope, nil)
	if err != nil || v.none() {
		return nil, nil, ls.db.Fail(op, err)
	}
	cond, order, args := o.after(after, "p.name")
	query := marks(`SELECT p.name, g.versions, g.transactions, g.files, g.bytes, g.newest, n.time FROM
		(SELECT v.product_id, count(*) AS versions, sum(v.transactions) AS transactions, sum(v.files) AS files,
		  sum(v.bytes) AS bytes, max(v.newest) AS newest FROM
		  (SELECT t.product_id, count(*) AS transactions, sum(t.files) AS files, sum(t.bytes) AS bytes, max(t.id) AS newest FROM tx t
			WHERE `+live+v.in("t.product_id")+` GROUP BY t.product_id, t.version) AS v
		 GROUP BY v.product_id) AS g
		JOIN product p ON p.id = g.product_id JOIN tx n ON n.id = g.newest WHERE `+cond+" ORDER BY "+order+" LIMIT %s", 0)
	var keys []GroupKey
	err = ls.db.Scans.Each(ctx, false, query, append(args, limit+1), func(scan engine.Scan) (bool, error) {
		var f ProductFacts
		var newest, at int64
		err := scan(&f.Name, &f.Versions, &f.Transactions, &f.Files, &f.Bytes, &newest, &at)
		f.Newest = time.UnixMilli(at).UTC()
		list, keys = append(list, f), append(keys, o.key(f.Name, newest, f.Bytes))
		return true, err
	})
	if len(list) > limit {
		list, next = list[:limit], &keys[limit-1]
	}
	return list, next, ls.db.Fail(op, err)
}

func (o GroupOrder) key(name string, newest, bytes int64) GroupKey {
	switch o {
	case GroupsByNewest:
		return GroupKey{name, newest}
	case GroupsByBytes:
		return GroupKey{name, bytes}
	}
	return GroupKey{Name: name}
}

// VersionFilter selects versions of a product.
type VersionFilter struct {
	Prefix string // of the version; empty is any
	Class  string // of the newest transaction, as a push or a promotion has set it; empty is any
	Order  GroupOrder
	After  *GroupKey
	Limit  int
}

// Versions returns a page of the versions of a product that have live transactions.
func (ls Lists) Versions(ctx context.Context, scope record.Scope, product string, f VersionFilter) (list []VersionFacts,
	next *GroupKey, err error) {
	const op = "list versions"
	v, err := ls.visibility(ctx, scope, &product)
	if err != nil || v.none() {
		return nil, nil, ls.db.Fail(op, err)
	}
	var args []any
	groups := "SELECT t.version, count(*) AS transactions, sum(t.files) AS files, sum(t.bytes) AS bytes, max(t.id) AS newest " +
		"FROM tx t WHERE " + live + v.in("t.product_id")
	if p := engine.Text(f.Prefix); p != "" {
		groups, args = groups+" AND t.version >= %s AND t.version < %s", append(args, p, record.PrefixEnd(p))
	}
	cond, order, more := f.Order.after(f.After, "g.version")
	args = append(args, more...)
	if f.Class != "" {
		cond, args = cond+" AND n.class = %s", append(args, engine.Text(f.Class))
	}
	query := marks("SELECT g.version, g.transactions, g.files, g.bytes, g.newest, n.time, n.class "+
		"FROM ("+groups+" GROUP BY t.version) AS g JOIN tx n ON n.id = g.newest WHERE "+cond+" ORDER BY "+order+" LIMIT %s", 0)
	var keys []GroupKey
	err = ls.db.Scans.Each(ctx, false, query, append(args, f.Limit+1), func(scan engine.Scan) (bool, error) {
		var x VersionFacts
		var at int64
		err := scan(&x.Version, &x.Transactions, &x.Files, &x.Bytes, &x.NewestNumber, &at, &x.Class)
		x.Newest = time.UnixMilli(at).UTC()
		list, keys = append(list, x), append(keys, f.Order.key(x.Version, x.NewestNumber, x.Bytes))
		return true, err
	})
	if len(list) > f.Limit {
		list, next = list[:f.Limit], &keys[f.Limit-1]
	}
	return list, next, ls.db.Fail(op, err)
}

// versionTx returns the tables and the condition of the files f of the live
// transactions t of a version, with one argument.
func versionTx(v visibility) (from, cond string) {
	return "tx t CROSS JOIN tx_file f", live + v.in("t.product_id") + " AND t.version = %s AND f.tx_id = t.id"
}

// VersionObjects returns a page of the distinct objects of all live transactions of a
// version. They have the paths of the newest of these, and no list of transactions. f
// has no Product.
func (ls Lists) VersionObjects(ctx context.Context, scope record.Scope, product, version string, f ObjectFilter) (list []record.Found,
	next *ObjectKey, err error) {
	const op = "list the files of a version"
	f.Product = &product
	w := objectWalk{Lists: ls, f: f}
	if err := w.see(ctx, scope); err != nil || w.none {
		return nil, nil, ls.db.Fail(op, err)
	}
	from, cond := versionTx(w.seen)
	w.within = &source{from: from + " CROSS JOIN object o", cond: cond + " AND o.id = f.object_id", args: []any{engine.Text(version)}}
	newest := "SELECT max(f.tx_id) FROM tx_file f JOIN tx t ON t.id = f.tx_id WHERE f.object_id = o.id AND " + live +
		w.seen.in("t.product_id") + " AND t.version = "
	w.cond += " AND EXISTS (" + strings.Replace(newest, "max(f.tx_id)", "1", 1) + w.arg(engine.Text(version)) + ")"
	rows, next, err := w.page(ctx)
	if err != nil {
		return nil, nil, ls.db.Fail(op, err)
	}
	ids := make([]int64, len(rows))
	for i, r := range rows {
		ids[i] = r.ID
	}
	list, err = ls.loadVia(ctx, newest+"$1", []any{engine.Text(version)}, ids)
	return list, next, ls.db.Fail(op, err)
}

// pdbKinds are the kinds of PDBs.
var pdbKinds = strings.Join([]string{strconv.Itoa(int(symfile.PDB)), strconv.Itoa(int(symfile.PDB20)),
	strconv.Itoa(int(symfile.PortablePDB)), strconv.Itoa(int(symfile.MSFZ))}, ", ")

// withoutPacked returns those of some objects whose debug id is no packed key of a visible PDB.
func (ls Lists) withoutPacked(ctx context.Context, v visibility, rows []ObjectKey) (list []ObjectKey, err error) {
	_, some, err := oldkeys.Some(ctx, ls.db.Scans)
	if err != nil || !some {
		return rows, err
	}
	for _, row := range rows {
		var id string
		if err := ls.db.Scans.Row(ctx, "SELECT lower("+record.DebugIDColumn+") FROM object o WHERE o.id = $1", []any{row.ID}, &id); err != nil {
			return nil, err
		}
		packed, err := oldkeys.Objects(ctx, ls.db.Scans, id, "")
		if err != nil {
			return nil, err
		}
		is := false
		for _, cond := range oldkeys.Among("q.id", packed) {
			if err := ls.db.Scans.Each(ctx, false, "SELECT 1 FROM object q WHERE "+cond+" AND q.kind IN ("+pdbKinds+
				") AND EXISTS (SELECT 1 FROM seen s WHERE s.object_id = q.id"+v.in("s.product_id")+") LIMIT 1", nil, func(engine.Scan) (bool, error) {
				is = true
				return false, nil
			}); err != nil {
				return nil, err
			}
		}
		if !is {
			list = append(list, row)
		}
	}
	return list, nil
}

// WithoutPDB returns the programs and libraries of a version that refer to a PDB of which
// none is visible, in the order of their names, at most limit.
func (ls Lists) WithoutPDB(ctx context.Context, scope record.Scope, product, version string,
	limit int) (list []record.Found, more bool, err error) {
	const op = "list programs without a PDB"
	v, err := ls.visibility(ctx, scope, &product)
	if err != nil || v.none() {
		return nil, false, ls.db.Fail(op, err)
	}
	all, err := ls.visibility(ctx, scope, nil)
	if err != nil {
		return nil, false, ls.db.Fail(op, err)
	}
	from, cond := versionTx(v)
	var rows []ObjectKey
	have := map[int64]bool{}
	query := marks("SELECT o.id, o.name_fold FROM "+from+" CROSS JOIN object o "+
		"WHERE "+cond+" AND o.id = f.object_id AND o.kind = %s AND o.debug_id <> '' AND (o.role & %s) <> 0 AND (o.role & %s) = 0 "+
		"AND NOT EXISTS (SELECT 1 FROM lookup l JOIN object q ON q.id = l.object_id AND q.kind IN ("+pdbKinds+
		") WHERE l.id = lower("+record.DebugIDColumn+") AND EXISTS (SELECT 1 FROM seen s WHERE s.object_id = q.id"+all.in("s.product_id")+"))", 0)
	err = ls.db.Scans.Each(ctx, false, query, []any{engine.Text(version), symfile.PE, symfile.Executable, symfile.Debug},
		func(scan engine.Scan) (bool, error) {
			var k ObjectKey
			err := scan(&k.ID, &k.Name)
			if !have[k.ID] {
				have[k.ID] = true
				rows = append(rows, k)
			}
			return true, err
		})
	if err != nil {
		return nil, false, ls.db.Fail(op, err)
	}
	if rows, err = ls.withoutPacked(ctx, all, rows); err != nil {
		return nil, false, ls.db.Fail(op, err)
	}
	sorting.By(rows, func(a, b ObjectKey) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(b.ID, a.ID)) })
	if more = len(rows) > limit; more {
		rows = rows[:limit]
	}
	ids := make([]int64, len(rows))
	for i, r := range rows {
		ids[i] = r.ID
	}
	newest := "SELECT max(f.tx_id) FROM tx_file f JOIN tx t ON t.id = f.tx_id WHERE f.object_id = o.id AND " + live +
		v.in("t.product_id") + " AND t.version = $1"
	list, err = ls.loadVia(ctx, newest, []any{engine.Text(version)}, ids)
	return list, more, ls.db.Fail(op, err)
}

// VersionDiff is an object that only one of two versions has.
type VersionDiff struct {
	record.Found
	There bool // the second version has it
}

// maxDiff limits the objects in which two versions differ.
const maxDiff = 200_000

// Differences calls each for the objects that only one of two versions of a product has.
// It reports whether there were too many.
func (ls Lists) Differences(ctx context.Context, scope record.Scope, product, here, there string,
	each func(VersionDiff)) (more bool, err error) {
	v, err := ls.visibility(ctx, scope, &product)
	if err != nil || v.none() {
		return false, ls.db.Fail("compare versions", err)
	}
	from, cond := versionTx(v)
	of := "SELECT f.object_id FROM " + from + " WHERE " + cond
	n := 0
	for i, versions := range [][2]string{{here, there}, {there, here}} {
		query := marks("SELECT "+record.ObjectColumns+" FROM ("+of+" EXCEPT "+of+") AS d CROSS JOIN object o CROSS JOIN content c "+
			"WHERE o.id = d.object_id AND c.id = o.content_id LIMIT %s", 0)
		if err := ls.db.Scans.Each(ctx, false, query, []any{engine.Text(versions[0]), engine.Text(versions[1]), maxDiff},
			func(scan engine.Scan) (bool, error) {
				var d VersionDiff
				d.There = i == 1
				err := record.ScanObject(scan, &d.Stored)
				if err == nil {
					each(d)
				}
				n++
				return true, err
			}); err != nil {
			return false, ls.db.Fail("compare versions", err)
		}
	}
	return n >= maxDiff, nil
}
