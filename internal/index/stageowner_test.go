package index

import (
	"errors"
	"testing"

	"github.com/symdepot/symdepot/internal/index/stages"
)

// TestStageOwners: stages belong to their owners. The names of these do not count, and a
// key and the limit of open stages are those of one owner.
func TestStageOwners(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		db := openTest(t, Options{})
		open := func(id, owner, caller, wantID string, wantAgain bool) {
			t.Helper()
			row, again, err := db.Stages.Open(t.Context(), stages.StageRow{ID: id, Caller: caller, Owner: owner, Key: "key:1"}, 1)
			if err != nil || row.ID != wantID || again != wantAgain || row.Owner != owner {
				t.Errorf("%s of %s: the stage %s of %s, again %v, error %v; want %s", id, owner, row.ID, row.Owner, again, err, wantID)
			}
		}
		open("one", "token:a", "ci", "one", false)
		open("two", "token:b", "ci", "two", false)
		open("three", "token:a", "ci", "one", true)
		open("four", "token:b", "another name", "two", true)
		if _, _, err := db.Stages.Open(t.Context(), stages.StageRow{ID: "five", Caller: "ci", Owner: "token:a"}, 1); !errors.Is(err, stages.ErrTooManyStages) {
			t.Errorf("a second stage of an owner: %v, want ErrTooManyStages", err)
		}
		if _, _, err := db.Stages.Open(t.Context(), stages.StageRow{ID: "six", Caller: "ci", Owner: "token:c"}, 1); err != nil {
			t.Errorf("a stage of a third owner of the name: %v, want none", err)
		}
	})
}
