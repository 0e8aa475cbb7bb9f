package bucketstore

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/pgtest"
	"github.com/symdepot/symdepot/internal/index/places"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/internal/store/bucket"
	"github.com/symdepot/symdepot/internal/store/bucket/buckettest"
)

// openCopy opens a copy of the database of s on the same bucket.
func (s *store) openCopy(t *testing.T, p *buckettest.Peer, where string) *store {
	t.Helper()
	b, via := peer(t, p, "p")
	o := &store{now: s.clock(), txs: map[blob.Ref][]int64{}, requests: via}
	for ref, txs := range s.txs {
		o.txs[ref] = append([]int64{}, txs...)
	}
	var err error
	if o.db, err = index.Open(t.Context(), where, index.Options{Placed: true, Now: o.clock, MustExist: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.db.Close() })
	if o.Store, err = Open(t.Context(), Options{Bucket: b, Places: o.db.Places, Dir: t.TempDir(), Now: o.clock, Log: o.logger()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.Close() })
	return o
}

// wantStopped collects in a process that must not delete.
func wantStopped(t *testing.T, what string, s *store, objects int) {
	t.Helper()
	for range 2 {
		if n, err := s.Sweep(t.Context(), 0); n != 0 || !errors.Is(err, ErrCopy) || !strings.Contains(err.Error(), "gc --claim") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: deleted %d objects, %v; want none and ErrCopy in one line", what, n, err)
		}
	}
	if !s.Foreign() {
		t.Errorf("%s: the process does not know that another copy owns the objects", what)
	}
	if n := s.objects(t); n != objects {
		t.Errorf("%s: %d objects are left, want %d", what, n, objects)
	}
	if n := s.logged.count("no object of the bucket is deleted"); n != 1 {
		t.Errorf("%s: %d log lines, want 1", what, n)
	}
}

// TestCopiesDoNotDelete removes everything in a copy of the database and collects
// long after: the objects stay, because the original needs them. After a claim the
// copy deletes, and the original does not.
func TestCopiesDoNotDelete(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(t *testing.T) (where string, copied func(t *testing.T) string){
		"file": func(t *testing.T) (string, func(*testing.T) string) {
			where := filepath.Join(t.TempDir(), "index.db")
			return where, func(t *testing.T) string {
				b, err := os.ReadFile(where)
				if err != nil {
					t.Fatal(err)
				}
				log, err := os.ReadFile(where + "-wal") // as cp -r of a folder in use
				if err != nil {
					t.Fatal(err)
				}
				to := filepath.Join(t.TempDir(), "index.db")
				if err := errors.Join(os.WriteFile(to, b, 0o600), os.WriteFile(to+"-wal", log, 0o600)); err != nil {
					t.Fatal(err)
				}
				return to
			}
		},
		"dump": func(t *testing.T) (string, func(*testing.T) string) {
			symtest.Sequential(t) // the file shows the same races without a server
			pg := pgtest.Shared(t)
			where := pg.Database(t)
			return where, func(t *testing.T) string { return pg.Restored(t, where) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			where, copied := make(t)
			p := buckettest.S3(t)
			b, via := peer(t, p, "p")
			s := openAt(t, where, b, via, 0)
			list := s.add(t, 1000, 2000, 3000)
			o := s.openCopy(t, p, copied(t))
			o.drop(t, list...)
			wantStopped(t, "copy", o, 3)
			s.pass(defaultHold + time.Hour)
			if n, err := s.Sweep(t.Context(), 0); n != 0 || err != nil {
				t.Errorf("the original: deleted %d objects, %v; want none", n, err)
			}
			for _, c := range list {
				s.same(t, c)
			}
			if err := o.Claim(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n, err := o.Sweep(t.Context(), 0); n != 3 || err != nil || o.Foreign() {
				t.Errorf("after the claim: deleted %d objects, %v, foreign %v; want 3", n, err, o.Foreign())
			}
			s.drop(t, list[0])
			wantStopped(t, "original after the claim of the copy", s, 0)
		})
	}
}

// TestTurns changes the turn with time. A copy that cannot be told from the original
// otherwise, such as a snapshot of a whole disk, does not know it.
func TestTurns(t *testing.T) {
	t.Parallel()
	p := buckettest.S3(t)
	s := openStore(t, p, "p", 0)
	list := s.add(t, 1000)
	marked := func() marker {
		t.Helper()
		m, err := s.readMarker(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	first, err := s.places.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if m := marked(); m != (marker{first.Depot, first.Database, first.Turn}) || m.Turn == "" {
		t.Errorf("marker %+v, want that of %+v", m, first)
	}
	sweep := func() error {
		_, err := s.Sweep(t.Context(), 0)
		return err
	}
	if err := sweep(); err != nil || marked().Turn != first.Turn {
		t.Errorf("the turn changed at once, want it kept; error %v", err)
	}
	s.pass(turnEvery)
	if err := sweep(); err != nil {
		t.Fatal(err)
	}
	second := marked()
	if second.Turn == first.Turn {
		t.Error("the turn has not changed")
	}
	// Killed after the database knows the next turn, before the marker does.
	s.pass(turnEvery)
	if _, err := s.places.NewTurn(t.Context(), turnEvery); err != nil {
		t.Fatal(err)
	}
	if marked() != second {
		t.Fatal("the marker has changed: the test proves nothing")
	}
	if err := sweep(); err != nil || marked().Turn == second.Turn {
		t.Errorf("after a killed process: %v, marker %+v; want the next turn", err, marked())
	}
	// A database that has missed two turns is a copy.
	old := places.Identity{Depot: first.Depot, Database: first.Database, Turn: first.Turn}
	if err := marked().owner(old); !errors.Is(err, ErrCopy) {
		t.Errorf("a copy with an old turn: %v, want ErrCopy", err)
	}
	// The marker of an earlier version has neither.
	if err := s.writeMarker(t.Context(), places.Identity{Depot: first.Depot}, false); err != nil {
		t.Fatal(err)
	}
	if err := sweep(); err != nil || marked().Database != first.Database || marked().Turn == "" {
		t.Errorf("marker of an earlier version: %v, now %+v; want it completed", err, marked())
	}
	// A marker of another depot, or none, stops too.
	if err := s.writeMarker(t.Context(), places.Identity{Depot: "other"}, false); err != nil {
		t.Fatal(err)
	}
	s.drop(t, list...)
	if err := sweep(); !errors.Is(err, ErrOtherDepot) {
		t.Errorf("the marker of another depot: %v, want ErrOtherDepot", err)
	}
	if err := s.Claim(t.Context()); !errors.Is(err, ErrOtherDepot) {
		t.Errorf("claim of another depot's bucket: %v, want ErrOtherDepot", err)
	}
	if err := s.bucket.Delete(t.Context(), markerKey); err != nil {
		t.Fatal(err)
	}
	if err := sweep(); err == nil {
		t.Error("collected without a marker")
	}
	if n := s.objects(t); n != 1 {
		t.Errorf("%d objects, want 1", n)
	}
	if _, err := s.bucket.Put(t.Context(), markerKey, 3, strings.NewReader("xyz"), bucket.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := sweep(); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("gc with a damaged marker: %v, want an error that says so", err)
	}
}
