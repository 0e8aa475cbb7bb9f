package index

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/index/misses"
	"github.com/symdepot/symdepot/internal/index/pgtest"
	"github.com/symdepot/symdepot/internal/index/queue"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/index/tokens"
)

// dump returns all copied rows as text.
func dump(t *testing.T, db *DB) string {
	t.Helper()
	var b strings.Builder
	for _, c := range copied {
		names := strings.Split(c.columns, ", ")
		err := db.base.Scans.Each(t.Context(), false, "SELECT "+c.columns+" FROM "+c.name+" ORDER BY "+c.key, nil, func(scan func(...any) error) (bool, error) {
			row, dest := make([]any, len(names)), make([]any, len(names))
			for i := range row {
				dest[i] = &row[i]
			}
			err := scan(dest...)
			fmt.Fprintf(&b, "%s %v\n", c.name, row)
			return true, err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// TestCopy copies an index to another engine and back: all rows are equal, both
// indexes are sound, and the next transaction has the next number.
func TestCopy(t *testing.T) {
	pg := pgtest.Shared(t)
	c := newClock()
	db := openTest(t, c.options())
	ctx := t.Context()
	commitTest(t, db, "A", pdb(1), pdb(2))
	commitTest(t, db, "B", pdb(2), pdb(3))
	commitTest(t, db, "", pdb(4))
	if _, err := db.Remove(ctx, 3); err != nil {
		t.Fatal(err)
	}
	f := pdb(5)
	if err := db.Cached.Put(ctx, contents.CachedFile{Source: "up", Name: "f", URL: "http://up/f", Ref: f.Ref, Size: f.Size, Entries: []record.Entry{f}}, nil); err != nil {
		t.Fatal(err)
	}
	if err := db.PutDerived(ctx, pdb(1).Ref, record.Tool{Name: "zstd", Version: 1}, &record.Content{Ref: ref(9), Size: 9}); err != nil {
		t.Fatal(err)
	}
	kept := contents.Dump{ID: "d", Name: "a.dmp", Who: "anna", Key: "k", Reason: "SIGSEGV", At: c.t, Until: c.t.Add(time.Hour), Content: record.Content{Ref: ref(8), Size: 8}}
	if err := db.Dumps.Put(ctx, &kept, nil); err != nil {
		t.Fatal(err)
	}
	if err := db.Misses.Put(ctx, []misses.Miss{{Key: "odd\x00\xff%", Source: "up", Class: 1, Until: c.t.Add(time.Hour), Since: c.t}}); err != nil {
		t.Fatal(err)
	}
	if err := db.Wanted.Count(ctx, []misses.Wanted{{Name: "n", ID: "i", Client: "c", Count: 3, Last: c.t}}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := db.Jobs.Enqueue(ctx, queue.Job{Kind: "k", Key: "k", Payload: []byte(`{"a":1}`)}); err != nil {
		t.Fatal(err)
	}
	if err := db.Jobs.PutFailure(ctx, queue.Failure{Source: ref(1), Tool: "t", Until: c.t.Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	if err := db.Tokens.Put(ctx, tokens.TokenRow{ID: "t", Hash: ref(7), Products: []string{"A"}}); err != nil {
		t.Fatal(err)
	}
	request := tokens.RequestRow{Hash: ref(1), State: tokens.RequestAllowed, Created: c.t, Expires: c.t.Add(time.Minute)}
	if err := db.Tokens.PutRequest(ctx, request, tokens.RequestLimits{Each: 1, All: 1}); err != nil {
		t.Fatal(err)
	}
	if err := db.Tokens.BeginLogin(ctx, request.Hash, tokens.LoginLimits{Each: 1, All: 1}, func(*tokens.RequestRow) (tokens.LoginRow, tokens.TokenRow, error) {
		l, access := loginOf(c, 1, "basic:alice", "")
		return l, access, nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Colds.Pause(ctx, true); err != nil {
		t.Fatal(err)
	}
	paused := func(t *testing.T, db *DB, want bool) {
		t.Helper()
		if c, err := db.Colds.Progress(ctx); err != nil || c.Paused != want {
			t.Errorf("cooling is paused: %v, %v; want %v", c.Paused, err, want)
		}
	}
	open := func(where string, placed bool) *DB {
		t.Helper()
		opt := c.options()
		opt.Placed = placed
		to, err := Open(ctx, where, opt)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = to.Close() })
		return to
	}
	there := open(pg.Database(t), true)
	none := func() error { return nil }
	upload := func() error {
		var ups []record.Upload
		var places []string
		for k, err := range db.Contents(ctx) {
			if err != nil {
				return err
			}
			ups = append(ups, record.Upload{Place: "p" + k.Ref.String()[:8], Content: k})
			places = append(places, ups[len(ups)-1].Place)
		}
		return errors.Join(there.Places.Begin(ctx, "n", time.Hour, ups), there.Places.Done(ctx, places))
	}
	symtest.Step(t, "to PostgreSQL", func(t *testing.T) {
		if err := db.Copy(ctx, there, none); !errors.Is(err, record.ErrNotUploaded) {
			t.Fatalf("copy without uploads: %v, want ErrNotUploaded", err)
		}
		if err := db.Copy(ctx, there, upload); err != nil {
			t.Fatalf("copy with uploads: %v, want no error", err)
		}
		clean(t, there)
		paused(t, there, true)
		if err := db.Copy(ctx, there, none); !errors.Is(err, ErrNotEmpty) {
			t.Errorf("copy into an index with rows: %v, want ErrNotEmpty", err)
		}
	})
	symtest.Step(t, "undone and made again without an upload", func(t *testing.T) {
		id, err := db.Places.Depot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if is, err := there.Copies.CopyOf(ctx, id); !is || err != nil {
			t.Errorf("the copy is one of the index: %v, %v; want true", is, err)
		}
		if is, err := db.Copies.CopyOf(ctx, id); is || err != nil {
			t.Errorf("the index is a copy of itself: %v, %v; want false", is, err)
		}
		if err := errors.Join(db.Reopen(ctx), there.Copies.Undo(ctx, time.Hour)); err != nil {
			t.Fatalf("Reopen and Undo: %v, want no error", err)
		}
		if got := dump(t, there); got != "" {
			t.Errorf("rows after Undo, want none:\n%s", got)
		}
		clean(t, there)
		paused(t, there, false)
		if err := db.Copy(ctx, there, none); err != nil {
			t.Fatalf("second copy: %v, want no error", err)
		}
		clean(t, there)
	})
	back := open(filepath.Join(t.TempDir(), "index.db"), false)
	symtest.Step(t, "back to a file", func(t *testing.T) {
		if err := there.Copy(ctx, back, none); err != nil {
			t.Fatalf("copy to a file: %v, want no error", err)
		}
		clean(t, back)
		paused(t, back, true)
	})
	symtest.Step(t, "equal rows", func(t *testing.T) {
		want := dump(t, db)
		escaped := strings.ReplaceAll(want, "odd\x00\xff%", "odd\x0100\x01FF%")
		for _, x := range []struct {
			name string
			db   *DB
			want string
		}{{"in PostgreSQL", there, escaped}, {"back in a file", back, want}} {
			if got := dump(t, x.db); got != x.want {
				t.Errorf("rows %s:\n%s\nwant\n%s", x.name, got, x.want)
			}
		}
		place := "p" + pdb(1).Ref.String()[:8]
		if u, _, err := there.Places.Of(ctx, pdb(1).Ref); err != nil || u.Place != place {
			t.Errorf("place of a copied content: %q, %v; want %q", u.Place, err, place)
		}
	})
	symtest.Step(t, "closed and reopened", func(t *testing.T) {
		if _, err := db.Commit(ctx, record.Tx{Kind: "add", Entries: []record.Entry{pdb(6)}}, nil); err == nil || !strings.Contains(err.Error(), "was moved") {
			t.Errorf("add to the copied index: %v, want an error that says that the depot was moved", err)
		}
		for _, o := range []*DB{db, there} {
			if is, err := o.Closed(ctx); !is || err != nil {
				t.Errorf("the copied index is closed: %v, %v; want true", is, err)
			}
			if err := o.Reopen(ctx); err != nil {
				t.Fatal(err)
			}
			if is, err := o.Closed(ctx); is || err != nil {
				t.Errorf("the reopened index is closed: %v, %v; want false", is, err)
			}
		}
	})
	commits := func(t *testing.T, o *DB) {
		t.Helper()
		if n, err := o.Commit(ctx, record.Tx{Kind: "add", Entries: []record.Entry{pdb(6)}}, nil); n != 4 || err != nil {
			t.Errorf("next build: %d, %v; want 4", n, err)
		}
		clean(t, o)
	}
	t.Run("next build in the file that was copied back", func(t *testing.T) { commits(t, back) })
	t.Run("next build in the first index", func(t *testing.T) { commits(t, db) })
	t.Run("next build in PostgreSQL", func(t *testing.T) {
		if err := there.Places.Begin(ctx, "n", time.Hour, []record.Upload{{Place: "new", Content: record.Content{Ref: pdb(6).Ref, Size: pdb(6).Size}}}); err != nil {
			t.Fatal(err)
		}
		if err := there.Places.Done(ctx, []string{"new"}); err != nil {
			t.Fatal(err)
		}
		commits(t, there)
	})
}

// TestCopyOddNames: names with bytes that PostgreSQL cannot store are the same in an index that was copied, also twice.
func TestCopyOddNames(t *testing.T) { onEngines(t, testCopyOddNames) }

func testCopyOddNames(t *testing.T) {
	ctx := t.Context()
	db := openTest(t, Options{})
	var entries []record.Entry
	for n, name := range []string{"a\x01b.pdb", "a\x0101b.pdb", "a\xff.pdb", "a\x00b.pdb", "a\uFFFD.pdb", "Ünï.pdb", "\x01", "Plain.pdb"} {
		entries = append(entries, pdbAge(n, name, byte(n), 1))
	}
	commitTest(t, db, "A\x01", entries...)
	first := dump(t, db)
	file, err := Open(ctx, filepath.Join(t.TempDir(), "index.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	for _, to := range []*DB{openTest(t, Options{}), openTest(t, Options{}), file} {
		if err := db.Copy(ctx, to, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		if to != file {
			if got := dump(t, to); got != first {
				t.Errorf("rows of the copy:\n%q\nwant\n%q", got, first)
			}
		}
		for _, e := range entries {
			if hits := lookupEntry(t, to, record.Scope{Products: []string{"A\x01"}}, e); len(hits) != 1 {
				t.Errorf("%q: %d hits, want 1", e.Object.Name, len(hits))
			}
		}
		clean(t, to)
		db = to
	}
}
