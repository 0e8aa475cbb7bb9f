package index

import (
	"slices"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/index/wishes"
)

// Files of upstreams and watched folders fulfil wishes, again after a new wish, and the counts stay right.
func TestBring(t *testing.T) { onEngines(t, testBring) }

func testBring(t *testing.T) {
	c := newClock()
	db := openTest(t, c.options())
	one, two := pdb(1), pdb(2)
	keys := func(list ...record.Entry) (keys []wishes.Wish) {
		for _, e := range list {
			for _, a := range e.Aliases {
				keys = append(keys, wishes.Wish{ID: a.ID, Name: a.Name, Role: a.Role})
			}
		}
		return keys
	}
	var arrived, before int64
	bring := func(w *engine.Write, tx int64, list []wishes.Wish) (err error) {
		arrived, before, err = wishes.Bring(w, tx, list, db.base.Now())
		return err
	}
	download := func(e record.Entry) {
		t.Helper()
		f := cachedFile("msdl", "game", e)
		f.Also = func(w *engine.Write, tx int64) error { return bring(w, tx, keys(e)) }
		putCached(t, db, f)
		clean(t, db)
	}
	check := func(what string, n, last, left, kept int64) {
		t.Helper()
		if arrived != n || before != last || tally(t, db, "wish") != left || tally(t, db, "arrival") != kept {
			t.Errorf("%s: %d arrivals after %d, %d wishes and %d arrivals are counted; want %d after %d, %d and %d",
				what, arrived, before, tally(t, db, "wish"), tally(t, db, "arrival"), n, last, left, kept)
		}
		clean(t, db)
	}
	wish := keys(one)[:1]
	download(one)
	check("without a wish", 0, 0, 0, 0)
	putWishes(t, db, "a", append(wish, keys(two)...)...)
	putWishes(t, db, "b", wish...)
	n := int64(len(keys(two)))
	download(one)
	check("a download", 1, 0, n, 1)
	putWishes(t, db, "a", wish...)
	download(one)
	check("the same again", 1, 1, n, 1)
	for _, scope := range []struct {
		record.Scope
		want int
	}{{all, 1}, {record.Scope{Products: []string{"game"}}, 1}, {record.Scope{Products: []string{"tool"}}, 0}} {
		list, err := db.Wishes.After(t.Context(), scope.Scope, 0, 9)
		if err != nil || len(list) != scope.want || scope.want == 1 && (list[0].Source != "msdl" || list[0].Build >= 0 || list[0].No != 2) {
			t.Errorf("the arrivals for %+v are %+v, %v; want %d of msdl", scope.Scope, list, err, scope.want)
		}
	}
	// What was downloaded since the question, before the wish.
	since := c.t
	c.t = c.t.Add(time.Minute)
	putWishes(t, db, "a", wish...)
	fetched := func(from time.Time) {
		t.Helper()
		arrived, before = 0, 0
		if err := db.Wishes.Fetched(t.Context(), wish, from, bring); err != nil {
			t.Fatal(err)
		}
	}
	fetched(c.t)
	check("downloaded before", 0, 0, n+1, 1)
	fetched(since)
	check("downloaded since", 1, 2, n, 1)
	// A folder: only what fits is passed on.
	var passed []wishes.Wish
	come := func(list ...wishes.Wish) {
		t.Helper()
		arrived, before, passed = 0, 0, nil
		if err := db.Wishes.Come(t.Context(), list, func(w *engine.Write, list []wishes.Wish) error {
			passed = list
			tx, err := contents.SourceTx(w, "folder x", "game", db.base.Now())
			if err != nil {
				return err
			}
			return bring(w, tx, list)
		}); err != nil {
			t.Fatal(err)
		}
	}
	come(keys(one)...)
	check("a folder without a wish for it", 0, 0, n, 1)
	come(keys(one, two)...)
	if len(passed) != int(n) || slices.Contains(passed, wish[0]) {
		t.Errorf("passed on: %+v, want the %d that are wished for", passed, n)
	}
	check("a folder", n, 3, 0, 1+n)
	come(keys(two)...)
	check("no wish is left", 0, 0, 0, 1+n)
	if s, err := db.Cached.Stats(t.Context()); err != nil || len(s) != 1 || s[0].Source != "msdl" {
		t.Errorf("the downloads are %+v, %v; want those of msdl alone", s, err)
	}
}
