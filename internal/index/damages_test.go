package index

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// damaged returns how many contents were found damaged or missing.
func damaged(ctx context.Context, db *DB) (n int, err error) {
	for _, err := range db.Damages.All(ctx) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// TestDamages: what one process finds wrong with a content all others see, until the content
// is stored again, is found intact, or is dropped.
func TestDamages(t *testing.T) { onEngines(t, testDamages) }

func testDamages(t *testing.T) {
	where, ctx := newIndex(t), t.Context()
	open := func() *DB {
		db, err := Open(ctx, where, Options{Placed: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	server, other := open(), open()
	uploaded := func(place string, n int) {
		t.Helper()
		u := record.Upload{Place: place, Content: record.Content{Ref: pdb(n).Ref, Size: pdb(n).Size}}
		if err := other.Places.Begin(ctx, "n", time.Minute, []record.Upload{u}); err != nil {
			t.Fatal(err)
		}
		if err := other.Places.Done(ctx, []string{place}); err != nil {
			t.Fatal(err)
		}
		if _, err := other.Commit(ctx, record.Tx{Kind: "add", Entries: []record.Entry{pdb(n)}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	wantOf := func(when string, n int, want string) {
		t.Helper()
		what, err := other.Damages.Of(ctx, pdb(n).Ref)
		u, _, perr := other.Places.Of(ctx, pdb(n).Ref)
		if err != nil || perr != nil || what != want || u.Damage != want {
			t.Errorf("%s: damage %q, %v, of the place %q, %v; want %q", when, what, err, u.Damage, perr, want)
		}
	}
	uploaded("p1", 1)
	uploaded("p2", 2)
	const maxDamage = 300 // bytes of a description
	long := strings.Repeat("é", maxDamage)
	for _, err := range []error{
		server.Damages.Note(ctx, pdb(1).Ref, "it is missing"),
		server.Damages.Note(ctx, pdb(1).Ref, "later words"),
		server.Damages.Note(ctx, pdb(2).Ref, long),
		server.Damages.Note(ctx, pdb(9).Ref, "unknown"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	wantOf("noted", 1, "it is missing")
	if what, err := other.Damages.Of(ctx, pdb(2).Ref); err != nil || len(what) > maxDamage+3 || len(what) < maxDamage/2 {
		t.Errorf("a long text: %d bytes, %v; want about %d", len(what), err, maxDamage)
	}
	if what, err := other.Damages.Of(ctx, pdb(9).Ref); err != nil || what != "" {
		t.Errorf("an unknown content: %q, %v; want nothing", what, err)
	}
	if list, err := other.Damages.Among(ctx, []blob.Ref{pdb(1).Ref, pdb(3).Ref}); err != nil || len(list) != 1 || list[0] != (record.Content{Ref: pdb(1).Ref, Size: pdb(1).Size}) {
		t.Errorf("among contents 1 and 3: %v, %v; want 1", list, err)
	}
	if n, err := damaged(ctx, other); n != 2 || err != nil {
		t.Errorf("%d are damaged, %v; want 2", n, err)
	}
	uploaded("p1b", 1)
	wantOf("stored again", 1, "")
	if err := other.Damages.Clear(ctx, []blob.Ref{pdb(2).Ref, pdb(9).Ref}); err != nil {
		t.Fatal(err)
	}
	wantOf("found intact", 2, "")
	if n, err := damaged(ctx, server); n != 0 || err != nil {
		t.Errorf("%d are damaged at the end, %v; want 0", n, err)
	}
}
