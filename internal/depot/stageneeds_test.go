package depot

import (
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/depot/stage"
	"github.com/symdepot/symdepot/internal/index/record"
)

// committed pushes files and returns the number of their transaction.
func committed(t *testing.T, d *Depot, c stage.Caller, l stage.Labels, files []file, ask stage.Commit) int64 {
	t.Helper()
	id := openStage(t, d, c, stage.Spec{Labels: l})
	putAll(t, d, c, id, announced(t, d, c, id, files))
	done, err := d.Stages().Commit(t.Context(), c, id, ask)
	if err != nil {
		t.Fatalf("commit of version %s: %v", l.Version, err)
	}
	return done.Transaction
}

// TestPushNeeds: a commit records which transactions it needs, also if its own
// exists already, and names only those that the caller may keep.
func TestPushNeeds(t *testing.T) {
	onDepots(t, func(t *testing.T, d *Depot) {
		all := pusher("all")
		files, _ := symbols(4, 1)
		base := committed(t, d, all, stage.Labels{Product: "Game", Version: "1"}, files[:1], stage.Commit{})
		other := committed(t, d, all, stage.Labels{Product: "Game", Version: "2", Class: "nightly"}, files[1:2], stage.Commit{})
		foreign := committed(t, d, all, stage.Labels{Product: "Engine", Version: "1"}, files[2:3], stage.Commit{})
		hidden := committed(t, d, all, stage.Labels{Product: "Secret", Version: "1"}, files[2:3], stage.Commit{})
		removed := committed(t, d, all, stage.Labels{Product: "Game", Version: "0"}, files[:1], stage.Commit{})
		if _, err := d.Retention.Remove(t.Context(), removed, "anna"); err != nil {
			t.Fatal(err)
		}
		ci := stage.Caller{ID: "test:ci", Name: "ci", Read: func(p string) bool { return p != "Secret" }, Write: func(p string) bool { return p == "Game" }}
		labels := stage.Labels{Product: "Game", Version: "1.1"}
		id := openStage(t, d, ci, stage.Spec{Labels: labels})
		putAll(t, d, ci, id, announced(t, d, ci, id, files[3:]))
		many := slices.Repeat([]int64{base}, stage.MaxNeeds+1)
		for _, tt := range []struct {
			what  string
			needs []int64
			kind  stage.Kind
			text  string
		}{
			{"an unknown build", []int64{base, 99}, stage.Invalid, "needs build 99, which does not exist"},
			{"a negative number", []int64{-1}, stage.Invalid, "does not exist"},
			{"a hidden build", []int64{hidden}, stage.Invalid, "does not exist"},
			{"a removed build", []int64{removed}, stage.Invalid, "does not exist"},
			{"a product that it only reads", []int64{foreign}, stage.Forbidden, `may not add files to product "Engine"`},
			{"too many", many, stage.Invalid, "the limit is 100"},
		} {
			r := wantRefusal(t, tt.what, second(d.Stages().Commit(t.Context(), ci, id, stage.Commit{Needs: tt.needs})), tt.kind)
			if !strings.Contains(r.Text, tt.text) {
				t.Errorf("%s: %q, want %q", tt.what, r.Text, tt.text)
			}
		}
		want := func(number int64, needs ...int64) {
			t.Helper()
			got, err := d.Retention.Needs(t.Context(), number)
			if err != nil || !slices.Equal(got, needs) {
				t.Errorf("build %d needs %v, %v; want %v", number, got, err, needs)
			}
		}
		done, err := d.Stages().Commit(t.Context(), ci, id, stage.Commit{Needs: []int64{base}})
		if err != nil {
			t.Fatal(err)
		}
		want(done.Transaction, base)
		// The same commit again names one more, and so does that of an equal push.
		if _, err := d.Stages().Commit(t.Context(), ci, id, stage.Commit{Needs: []int64{base, other}}); err != nil {
			t.Fatal(err)
		}
		want(done.Transaction, base, other)
		if n := committed(t, d, all, labels, files[3:], stage.Commit{Needs: []int64{foreign}}); n != done.Transaction {
			t.Errorf("an equal push is build %d, want %d", n, done.Transaction)
		}
		want(done.Transaction, base, other, foreign)
		if d.home.Placed {
			return
		}
		// The removal comes between the check and the commit.
		id = openStage(t, d, all, stage.Spec{Labels: stage.Labels{Product: "Game", Version: "3"}})
		announced(t, d, all, id, files[3:])
		row, err := d.db.Stages.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		_, err = d.db.Commit(t.Context(), record.Tx{Kind: "add", Product: "Game", Version: "3", Entries: []record.Entry{vectorEntry("a")},
			Stage: &record.StageCommit{ID: id, Changes: row.Changes, Needs: []int64{removed}, Result: func(int64, bool) string { return "{}" }}},
			nil)
		if err == nil || !strings.Contains(err.Error(), "was removed") {
			t.Errorf("commit of a stage that needs a removed build: %v, want an error", err)
		}
	})
}

// TestPushClass: credentials for one class use only stages of that class, also if
// those of the same name have others, and keep only transactions of that class.
func TestPushClass(t *testing.T) {
	onDepots(t, func(t *testing.T, d *Depot) {
		ci := pusher("ci")
		nightly := ci
		nightly.Class = "nightly"
		files, _ := symbols(2, 1)
		release := stage.Spec{Labels: stage.Labels{Product: "Game", Version: "1", Class: "release"}, Key: "k"}
		id := openStage(t, d, ci, release)
		putAll(t, d, ci, id, announced(t, d, ci, id, files[:1]))
		s := d.Stages()
		wantRefusal(t, "open", third(s.Open(t.Context(), nightly, release)), stage.Forbidden)
		wantRefusal(t, "open without a class", third(s.Open(t.Context(), nightly, stage.Spec{Labels: stage.Labels{Product: "Game"}})), stage.Forbidden)
		wantRefusal(t, "check", second(s.Check(t.Context(), nightly, id, entriesOf(files[1:]))), stage.Forbidden)
		wantRefusal(t, "commit", second(s.Commit(t.Context(), nightly, id, stage.Commit{})), stage.Forbidden)
		wantRefusal(t, "abandon", s.Abandon(t.Context(), nightly, id), stage.Forbidden)
		done, err := s.Commit(t.Context(), ci, id, stage.Commit{})
		if err != nil {
			t.Fatal(err)
		}
		one := committed(t, d, nightly, stage.Labels{Product: "Game", Version: "1", Class: "nightly"}, files[1:], stage.Commit{})
		id = openStage(t, d, nightly, stage.Spec{Labels: stage.Labels{Product: "Game", Version: "2", Class: "nightly"}})
		announced(t, d, nightly, id, files[1:])
		wantRefusal(t, "needs a release", second(s.Commit(t.Context(), nightly, id, stage.Commit{Needs: []int64{done.Transaction}})), stage.Forbidden)
		if _, err := s.Commit(t.Context(), nightly, id, stage.Commit{Needs: []int64{one}}); err != nil {
			t.Errorf("needs a nightly: %v", err)
		}
	})
}

// third returns the last of three results.
func third[A, B any](_ A, _ B, err error) error { return err }
