package index

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/index/wishes"
	"github.com/symdepot/symdepot/symfile"
)

func putWishes(t testing.TB, db *DB, owner string, list ...wishes.Wish) {
	t.Helper()
	if err := db.Wishes.Put(t.Context(), owner, list); err != nil {
		t.Fatal(err)
	}
}

// arrivals lists arrivals as "number id build".
func arrivals(t testing.TB, db *DB, scope record.Scope, after int64, limit int) (list []string) {
	t.Helper()
	all, err := db.Wishes.After(t.Context(), scope, after, limit)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		list = append(list, fmt.Sprintf("%d %s %s %d", a.No, a.ID, a.Product, a.Build))
	}
	return list
}

func match(t testing.TB, db *DB, build, want int64) {
	t.Helper()
	if n, err := db.Wishes.Match(t.Context(), build, nil); err != nil || n != want {
		t.Errorf("build %d: %d arrivals, error %v; want %d", build, n, err, want)
	}
}

func anyWish(t testing.TB, db *DB) (found bool) {
	t.Helper()
	if err := db.base.Update(t.Context(), "test", func(w *engine.Write) (err error) {
		found, err = wishes.Any(w)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return found
}

// A build fulfils the wishes that its files answer, each once, and who reads its product sees them.
func TestWishes(t *testing.T) { onEngines(t, testWishes) }

func testWishes(t *testing.T) {
	c := newClock()
	db := openTest(t, c.options())
	one, two, three := pdb(1), pdb(2), pdb(3)
	wish := func(e record.Entry) wishes.Wish {
		a := e.Aliases[0]
		return wishes.Wish{ID: a.ID, Name: a.Name, Role: a.Role}
	}
	if anyWish(t, db) {
		t.Error("a new index has wishes, want none")
	}
	other := wish(two)
	other.Name = "another name"
	wrong := wish(two)
	wrong.Role = 1 << 15
	nameless := wish(three)
	nameless.Name = ""
	putWishes(t, db, "a", wish(one), wish(one), other, wrong, nameless)
	putWishes(t, db, "b", wish(one))
	if n := tally(t, db, "wish"); n != 5 || !anyWish(t, db) {
		t.Errorf("%d wishes are counted, want 5", n)
	}
	n1 := commitTest(t, db, "game", one, two)
	match(t, db, n1, 1)
	match(t, db, n1, 0)
	n2 := commitTest(t, db, "tool", one, three)
	match(t, db, n2, 1)
	match(t, db, 999, 0)
	first, second := fmt.Sprintf("1 %s game %d", one.Aliases[0].ID, n1), fmt.Sprintf("2 %s tool %d", three.Aliases[0].ID, n2)
	for _, x := range []struct {
		scope record.Scope
		after int64
		limit int
		want  []string
	}{
		{all, 0, 9, []string{first, second}}, {all, 0, 1, []string{first}}, {all, 1, 9, []string{second}}, {all, 2, 9, nil},
		{record.Scope{Products: []string{"tool"}}, 0, 9, []string{second}}, {record.Scope{}, 0, 9, nil},
	} {
		if got := arrivals(t, db, x.scope, x.after, x.limit); !slices.Equal(got, x.want) {
			t.Errorf("arrivals after %d for %v: %q, want %q", x.after, x.scope, got, x.want)
		}
	}
	if n := tally(t, db, "wish"); n != 2 {
		t.Errorf("%d wishes are left, want the 2 that nothing answers", n)
	}
	if no, err := db.Wishes.Last(t.Context()); err != nil || no != 2 {
		t.Errorf("the newest arrival is %d, error %v; want 2", no, err)
	}
	c.t = c.t.Add(wishes.ArrivalLife + time.Hour)
	if err := db.Wishes.Sweep(t.Context(), c.t); err != nil {
		t.Fatal(err)
	}
	if got := arrivals(t, db, all, 0, 9); got != nil || tally(t, db, "arrival") != 0 || tally(t, db, "wish") != 2 {
		t.Errorf("after the life of arrivals there are %q, %d counted, and %d wishes; want none, 0 and 2", got, tally(t, db, "arrival"), tally(t, db, "wish"))
	}
	// Numbers are never given out twice.
	putWishes(t, db, "a", wish(one))
	match(t, db, n1, 1)
	if got := arrivals(t, db, all, 2, 9); len(got) != 1 || got[0][:2] != "3 " {
		t.Errorf("the arrival after the deleted ones is %q, want number 3", got)
	}
	c.t = c.t.Add(wishes.WishLife)
	if err := db.Wishes.Sweep(t.Context(), c.t); err != nil || anyWish(t, db) {
		t.Errorf("error %v, wishes after their life: %t; want none", err, anyWish(t, db))
	}
	clean(t, db)
}

// TestWishRoles: a file ends the wishes for its role. Another file of the same id is still waited for.
func TestWishRoles(t *testing.T) { onEngines(t, testWishRoles) }

func testWishRoles(t *testing.T) {
	c := newClock()
	db := openTest(t, c.options())
	one := pdb(1)
	key := one.Aliases[0]
	const another, both = symfile.Role(1 << 15), symfile.Role(1 << 14) // both is of the two wishes, and of no file
	wish := func() {
		putWishes(t, db, "a", wishOf(key.ID, "", key.Role|both), wishOf(key.ID, "", another|both))
	}
	left := func(who string, want int64) {
		t.Helper()
		if n := tally(t, db, "wish"); n != want {
			t.Errorf("%s: %d wishes are left, want %d", who, n, want)
		}
	}
	wish()
	match(t, db, commitTest(t, db, "game", one), 1)
	left("a build", 1)
	wish()
	if err := db.Wishes.Come(t.Context(), []wishes.Wish{wishOf(key.ID, key.Name, key.Role)}, func(w *engine.Write, keys []wishes.Wish) error {
		n, _, err := wishes.Bring(w, 1, keys, c.t)
		if n != 1 {
			t.Errorf("a watched folder: %d arrivals, want 1", n)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	left("a watched folder", 1)
	other := pdb(1)
	other.Aliases[0].Role = another
	match(t, db, commitTest(t, db, "game", other), 1)
	left("another build", 0)
	clean(t, db)
}

// An owner cannot push the wishes of others out.
func TestWishShare(t *testing.T) { onEngines(t, testWishShare) }

func testWishShare(t *testing.T) {
	db := openTest(t, newClock().options())
	keep := wishes.Wish{ID: "keep", Role: symfile.Executable}
	putWishes(t, db, "b", keep)
	many := make([]wishes.Wish, wishes.PerOwner+500)
	for i := range many {
		many[i] = wishes.Wish{ID: fmt.Sprintf("%032x", i), Role: symfile.Executable}
	}
	putWishes(t, db, "a", many...)
	if n := tally(t, db, "wish"); n != wishes.PerOwner+1 {
		t.Errorf("%d wishes, want %d of one owner and 1 of the other", n, wishes.PerOwner)
	}
	var n int64
	if err := db.base.Scans.Row(t.Context(), "SELECT count(*) FROM wish WHERE owner = 'b'", nil, &n); err != nil || n != 1 {
		t.Errorf("%d wishes of the other owner are left, error %v; want 1", n, err)
	}
}

func wishOf(id, name string, role symfile.Role) wishes.Wish {
	return wishes.Wish{ID: id, Name: name, Role: role}
}
