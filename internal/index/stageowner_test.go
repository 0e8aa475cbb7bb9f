package index

import (
	"errors"
	"path/filepath"
	"testing"
)

// TestStageOwners: stages belong to their owners. The names of these do not count, and a
// key and the limit of open stages are those of one owner.
func TestStageOwners(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		db := openTest(t, Options{})
		open := func(id, owner, caller, wantID string, wantAgain bool) {
			t.Helper()
			row, again, err := db.Stages.Open(t.Context(), StageRow{ID: id, Caller: caller, Owner: owner, Key: "key:1"}, 1)
			if err != nil || row.ID != wantID || again != wantAgain || row.Owner != owner {
				t.Errorf("%s of %s: the stage %s of %s, again %v, error %v; want %s", id, owner, row.ID, row.Owner, again, err, wantID)
			}
		}
		open("one", "token:a", "ci", "one", false)
		open("two", "token:b", "ci", "two", false)
		open("three", "token:a", "ci", "one", true)
		open("four", "token:b", "another name", "two", true)
		if _, _, err := db.Stages.Open(t.Context(), StageRow{ID: "five", Caller: "ci", Owner: "token:a"}, 1); !errors.Is(err, ErrTooManyStages) {
			t.Errorf("a second stage of an owner: %v, want ErrTooManyStages", err)
		}
		if _, _, err := db.Stages.Open(t.Context(), StageRow{ID: "six", Caller: "ci", Owner: "token:c"}, 1); err != nil {
			t.Errorf("a stage of a third owner of the name: %v, want none", err)
		}
	})
}

// TestStagesOfBefore: an open stage of a program without owners belongs to nobody after
// the upgrade.
func TestStagesOfBefore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "index.db")
	old := writer(t, path)
	for _, m := range migrations {
		if m.name == "0021_owner" {
			break
		}
		step(t, old, m)
	}
	err := old.update(t.Context(), "test", func(w *write) error {
		_, err := w.exec(`INSERT INTO stage (id, caller, key, product, version, branch, class, comment, build, collects, node, opened, used, changes, files, bytes, staged)
			VALUES ('old', 'token:a', 'key:1', '', '', '', '', '', '', 0, '', $1, $1, 0, 0, 0, 0)`, old.now().UnixMilli())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	db, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if row, err := db.Stages.Get(t.Context(), "old"); err != nil || row.Owner != NamedOwner+"token:a" || row.Caller != "token:a" {
		t.Errorf("the old stage is %+v (%v), want it to have no owner but its name", row, err)
	}
	if row, again, err := db.Stages.Open(t.Context(), StageRow{ID: "new", Caller: "ci", Owner: "token:a", Key: "key:1"}, 1); err != nil || again || row.ID != "new" {
		t.Errorf("opened is %+v, again %v (%v); want a new stage", row, again, err)
	}
}
