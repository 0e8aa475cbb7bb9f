// Package wishes is the part of an index for files that somebody waits for: a wish names a file
// that the stack of a crash lacked, an arrival the build that has brought it. Both are limited in
// number.
package wishes

import (
	"context"
	"slices"
	"time"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/oldkeys"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/symfile"
)

// Limits of an index. The oldest rows go first.
const (
	// Most is the number of wishes, and that of arrivals.
	Most = 100_000
	// PerOwner is the number of wishes of one owner.
	PerOwner = 10_000
	// WishLife is how long a wish is kept after it was made last.
	WishLife = 90 * 24 * time.Hour
	// ArrivalLife is how long an arrival is kept.
	ArrivalLife = 30 * 24 * time.Hour
)

// Wish names a file that somebody waits for.
type Wish struct {
	ID, Name string // folded; an empty Name is any
	// Role has the roles of which the file must have one.
	Role symfile.Role
}

// Arrival is a wish that a build, a download or a watched folder has fulfilled.
type Arrival struct {
	No       int64 // grows with every arrival; never given out twice
	ID, Name string
	Build    int64
	// Source is the upstream or the watched folder that had the file; then Build is less than 0. It is
	// empty for a build.
	Source  string
	Product string
	Version string
	Time    time.Time
}

// Wishes keeps the wishes and the arrivals of an index.
type Wishes struct{ db *engine.Database }

// New returns the wishes of an index in a database.
func New(db *engine.Database) Wishes { return Wishes{db} }

// The oldest rows of a table, which go first.
const (
	oldestWishes   = "DELETE FROM wish WHERE no IN (SELECT no FROM wish ORDER BY made, no LIMIT $1)"
	oldestArrivals = "DELETE FROM arrival WHERE no IN (SELECT no FROM arrival ORDER BY no LIMIT $1)"
)

// Put makes wishes of an owner, whose share they count against. An equal wish of the owner is renewed.
// It does not wait for the disk: a crash of the machine may lose the last ones, and the next crash of
// the same program makes them again.
func (ws Wishes) Put(ctx context.Context, owner string, list []Wish) error {
	owner, now := engine.Text(owner), ws.db.Now().UnixMilli()
	for batch := range slices.Chunk(list, engine.BatchRows) {
		if err := ws.db.UpdateUnsynced(ctx, "make wishes", func(w *engine.Write) error {
			return put(w, owner, now, batch)
		}); err != nil {
			return err
		}
	}
	return nil
}

func put(w *engine.Write, owner string, now int64, list []Wish) error {
	var rows [][]any
	made := map[Wish]bool{}
	for _, x := range list {
		x.ID, x.Name = engine.Text(x.ID), engine.Text(x.Name)
		if x.ID != "" && !made[x] {
			made[x] = true
			rows = append(rows, []any{x.ID, x.Name, int64(x.Role), owner, now})
		}
	}
	changed, err := w.Many("UPDATE wish SET made = $5 WHERE id = $1 AND name = $2 AND role = $3 AND owner = $4", rows)
	if err != nil {
		return err
	}
	var fresh [][]any
	for i, n := range changed {
		if n == 0 {
			fresh = append(fresh, rows[i])
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	if _, err := w.Many("INSERT INTO wish (id, name, role, owner, made) VALUES ($1, $2, $3, $4, $5)", fresh); err != nil {
		return err
	}
	over, err := w.Exec(`DELETE FROM wish WHERE no IN
		(SELECT no FROM wish WHERE owner = $1 ORDER BY made DESC, no DESC LIMIT 1000000 OFFSET $2)`, owner, PerOwner)
	if err != nil {
		return err
	}
	return record.LimitRows(w, "wish", int64(len(fresh))-over, Most, oldestWishes)
}

// Any reports, in the write that makes files visible, whether there is a wish at all.
func Any(w *engine.Write) (bool, error) {
	var n int64
	err := w.Row("SELECT n FROM tally WHERE name = 'wish'", nil, &n)
	return n > 0, err
}

// Match records the wishes that the files of a build fulfil as arrivals, ends them, and returns the
// number of arrivals. It changes nothing for a build that was removed. If there are arrivals, also is
// called in the same write, with the number of the arrival before them.
func (ws Wishes) Match(ctx context.Context, build int64, also func(w *engine.Write, before int64) error) (arrived int64, err error) {
	err = ws.db.Update(ctx, "match wishes", func(w *engine.Write) error {
		keys, err := keysOf(w, build)
		if err != nil {
			return err
		}
		var before int64
		if arrived, before, err = Bring(w, build, keys, ws.db.Now()); err != nil || arrived == 0 || also == nil {
			return err
		}
		return also(w, before)
	})
	return arrived, err
}

// keysOf returns the keys of the files of a build that wishes name.
func keysOf(w *engine.Write, build int64) (keys []Wish, err error) {
	if err := w.Each("SELECT DISTINCT l.id, l.name, l.role FROM tx_file f JOIN lookup l ON l.object_id = f.object_id JOIN wish w ON "+
		fulfilled("l")+" WHERE f.tx_id = $1", []any{build}, func(scan engine.Scan) error {
		k, err := scanKey(scan)
		keys = append(keys, k)
		return err
	}); err != nil {
		return nil, err
	}
	if some, err := oldkeys.AnyPacked(w); err != nil || !some {
		return keys, err
	}
	var objects []oldkeys.Object
	if err := w.Each("SELECT DISTINCT "+oldkeys.ObjectColumns+` FROM tx_file f JOIN object o ON o.id = f.object_id
		WHERE f.tx_id = $1 AND o.id <= (SELECT last_object FROM old_keys)`, []any{build}, func(scan engine.Scan) error {
		o, err := oldkeys.ScanObject(scan)
		objects = append(objects, o)
		return err
	}); err != nil {
		return nil, err
	}
	for some := range slices.Chunk(objects, engine.PageRows) {
		packed, err := oldkeys.Held(w, some)
		if err != nil {
			return nil, err
		}
		rows := make([][]any, len(packed))
		for i, k := range packed {
			rows[i] = []any{k.ID, k.Name, k.Role}
		}
		named, err := fitting(w, rows)
		if err != nil {
			return nil, err
		}
		keys = append(keys, named...)
	}
	return keys, nil
}

// After returns the arrivals after a number, oldest first, at most limit: those of builds that are
// not removed, in the products of a scope.
func (ws Wishes) After(ctx context.Context, scope record.Scope, after int64, limit int) ([]Arrival, error) {
	where, args := scope.Where("t.product_id", []any{after, limit})
	return ws.list(ctx, scope.Few(), "a.no > $1"+where, args)
}

// OfBuild returns the arrivals of a build after a number, oldest first, at most limit.
func (ws Wishes) OfBuild(ctx context.Context, build, after int64, limit int) ([]Arrival, error) {
	return ws.list(ctx, true, "a.no > $1 AND a.tx_id = $3", []any{after, limit, build})
}

func (ws Wishes) list(ctx context.Context, constant bool, where string, args []any) (list []Arrival, err error) {
	err = ws.db.Scans.Each(ctx, constant, `SELECT a.no, a.id, a.name, a.tx_id, coalesce(t.source, ''), p.name, t.version, a.at FROM arrival a
		JOIN tx t ON t.id = a.tx_id JOIN product p ON p.id = t.product_id WHERE t.deleted_at IS NULL AND `+where+" ORDER BY a.no LIMIT $2",
		args, func(scan engine.Scan) (bool, error) {
			var a Arrival
			var at int64
			err := scan(&a.No, &a.ID, &a.Name, &a.Build, &a.Source, &a.Product, &a.Version, &at)
			a.Time = time.UnixMilli(at).UTC()
			list = append(list, a)
			return true, err
		})
	if err != nil {
		return nil, ws.db.Fail("list arrivals", err)
	}
	return list, nil
}

// Last returns the number of the newest arrival; zero if there was none.
func (ws Wishes) Last(ctx context.Context) (no int64, err error) {
	err = ws.db.Scans.Row(ctx, "SELECT coalesce(max(no), 0) FROM arrival", nil, &no)
	if err != nil {
		return 0, ws.db.Fail("read the newest arrival", err)
	}
	return no, nil
}

// Sweep deletes the wishes and arrivals that are too old.
func (ws Wishes) Sweep(ctx context.Context, now time.Time) error {
	_, err := record.DeleteRows(ctx, ws.db, "wish",
		"DELETE FROM wish WHERE no IN (SELECT no FROM wish WHERE made < $2 ORDER BY made LIMIT $1)", now.Add(-WishLife).UnixMilli())
	if err != nil {
		return err
	}
	_, err = record.DeleteRows(ctx, ws.db, "arrival",
		"DELETE FROM arrival WHERE no IN (SELECT no FROM arrival WHERE at < $2 ORDER BY no LIMIT $1)", now.Add(-ArrivalLife).UnixMilli())
	return err
}
