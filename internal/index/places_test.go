package index

import (
	"errors"
	"io/fs"
	"slices"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// TestPlaces follows places through their states: upload, content, doomed,
// deleted, forgotten.
func TestPlaces(t *testing.T) { onEngines(t, testPlaces) }

func testPlaces(t *testing.T) {
	c := newClock()
	opt := c.options()
	opt.Placed = true
	db := openTest(t, opt)
	ctx := t.Context()
	ps := db.Places
	entry := pdb(1)
	up := func(place string, e record.Entry) record.Upload {
		return record.Upload{Place: place, Content: record.Content{Ref: e.Ref, Size: e.Size}}
	}
	commit := func(e record.Entry) error {
		_, err := db.Commit(ctx, record.Tx{Kind: "add", Entries: []record.Entry{e}}, nil)
		return err
	}
	// dooms checks the places that wait for their deletion.
	dooms := func(t *testing.T, when string, want ...string) {
		t.Helper()
		var list []string
		for u, err := range ps.Doomed(ctx, c.t.Add(time.Hour)) {
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, u.Place)
		}
		if slices.Sort(list); !slices.Equal(list, want) {
			t.Errorf("doomed %s: %q, want %q", when, list, want)
		}
	}

	symtest.Step(t, "an upload before its content", func(t *testing.T) {
		if err := commit(entry); !errors.Is(err, record.ErrNotUploaded) {
			t.Fatalf("commit without an upload: %v, want ErrNotUploaded", err)
		}
		if err := ps.Begin(ctx, "n1", time.Minute, []record.Upload{up("p1", entry), up("p2", entry), up("p3", pdb(3))}); err != nil {
			t.Fatal(err)
		}
		if err := commit(entry); !errors.Is(err, record.ErrNotUploaded) {
			t.Fatalf("commit before the store acknowledged: %v, want ErrNotUploaded", err)
		}
		if err := ps.Done(ctx, []string{"p1", "no such place"}); !errors.Is(err, record.ErrNotUploaded) {
			t.Errorf("end of an unknown upload: %v, want ErrNotUploaded", err)
		}
		if err := commit(entry); !errors.Is(err, record.ErrNotUploaded) {
			t.Fatalf("commit after a Done that failed: %v, want ErrNotUploaded: it marks no upload", err)
		}
		if err := ps.Done(ctx, []string{"p1"}); err != nil {
			t.Fatal(err)
		}
		if err := commit(entry); err != nil {
			t.Fatalf("commit after the upload: %v, want no error", err)
		}
		if u, added, err := ps.Of(ctx, entry.Ref); err != nil || u != up("p1", entry) || !added.Equal(c.t) {
			t.Errorf("place of the content: %+v, added %v, %v; want p1, %v", u, added, err, c.t)
		}
		id, err := ps.Depot(ctx)
		if again, err2 := ps.Depot(ctx); err != nil || err2 != nil || id == "" || id != again {
			t.Errorf("ids of the depot: %q, %v, then %q, %v; want one id", id, err, again, err2)
		}
		if _, _, err := ps.Of(ctx, pdb(3).Ref); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("place of an unknown content: %v, want fs.ErrNotExist", err)
		}
		clean(t, db)
	})
	symtest.Step(t, "a second upload of a known content replaces its place", func(t *testing.T) {
		if err := ps.Begin(ctx, "n2", time.Minute, []record.Upload{up("p0", entry)}); err != nil {
			t.Fatal(err)
		}
		if err := ps.Done(ctx, []string{"p0"}); err != nil {
			t.Fatal(err)
		}
		if err := commit(entry); err != nil {
			t.Fatalf("commit after the second upload: %v, want no error", err)
		}
		if u, _, err := ps.Of(ctx, entry.Ref); err != nil || u != up("p0", entry) {
			t.Errorf("place after a second upload: %+v, %v; want p0", u, err)
		}
		dooms(t, "after a second upload", "p1")
		clean(t, db)
	})
	symtest.Step(t, "an abandoned and an expired upload", func(t *testing.T) {
		if err := ps.Abandon(ctx, []string{"p0", "p2"}); err != nil {
			t.Fatal(err)
		}
		dooms(t, "after Abandon, which spares p0 because it is in use", "p1", "p2")
		expires := func(when string, at time.Time, want int) {
			t.Helper()
			if n, err := ps.Expire(ctx, at); n != want || err != nil {
				t.Errorf("expired %s: %d, %v; want %d", when, n, err, want)
			}
		}
		expires("during the lease", c.t.Add(time.Second), 0)
		c.t = c.t.Add(30 * time.Second)
		if err := ps.Renew(ctx, []string{"p1", "p3"}, time.Minute); err != nil {
			t.Fatal(err)
		}
		c.t = c.t.Add(45 * time.Second)
		expires("although renewed", c.t, 0)
		c.t = c.t.Add(time.Minute)
		expires("after the lease", c.t, 1)
		if err := ps.Done(ctx, []string{"p3"}); !errors.Is(err, record.ErrNotUploaded) {
			t.Errorf("end of an expired upload: %v, want ErrNotUploaded", err)
		}
		dooms(t, "after the expiry", "p1", "p2", "p3")
	})
	symtest.Step(t, "a removed content dooms its place", func(t *testing.T) {
		for n := range int64(2) {
			if _, err := db.Remove(ctx, n+1); err != nil {
				t.Fatal(err)
			}
		}
		c.t = c.t.Add(time.Hour)
		if n, err := db.DropContents(ctx, []blob.Ref{entry.Ref}, c.t, nil); n != 1 || err != nil {
			t.Fatalf("dropped %d, %v; want 1", n, err)
		}
		dooms(t, "after the removal", "p0", "p1", "p2", "p3")
		if err := commit(entry); !errors.Is(err, record.ErrNotUploaded) {
			t.Errorf("commit of a content whose place is doomed: %v, want ErrNotUploaded", err)
		}
		clean(t, db)
	})
	symtest.Step(t, "deleted in the store, deleted once more, forgotten", func(t *testing.T) {
		if err := ps.Swept(ctx, []string{"p0", "p1", "p2"}); err != nil {
			t.Fatal(err)
		}
		dooms(t, "after a sweep", "p3")
		c.t = c.t.Add(8 * 24 * time.Hour)
		var again []string
		for p, err := range ps.Resweep(ctx, c.t.Add(-7*24*time.Hour)) {
			if err != nil {
				t.Fatal(err)
			}
			again = append(again, p.Place)
		}
		if !slices.Equal(again, []string{"p0", "p1", "p2"}) {
			t.Errorf("to delete again: %q, want p0, p1 and p2", again)
		}
		if err := ps.Forget(ctx, []string{"p0", "p1", "p2", "p3"}); err != nil {
			t.Fatal(err)
		}
		for place, want := range map[string]bool{"p1": false, "p3": true} {
			if known, err := ps.Known(ctx, up(place, entry)); known != want || err != nil {
				t.Errorf("%s is known: %v, %v; want %v", place, known, err, want)
			}
		}
	})
	t.Run("stray places", func(t *testing.T) {
		if err := ps.Stray(ctx, []record.Upload{up("p3", pdb(3)), up("p9", pdb(9))}); err != nil {
			t.Fatal(err)
		}
		dooms(t, "after an audit that found the stray p9", "p3", "p9")
		clean(t, db)
	})
}
