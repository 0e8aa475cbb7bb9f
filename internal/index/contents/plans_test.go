package contents

import (
	"slices"
	"testing"

	"github.com/symdepot/symdepot/internal/index/enginetest"
)

// TestPlans: the files of a part are read in the order of an index, and only as many as there are in it.
func TestPlans(t *testing.T) {
	steps := enginetest.Plan(t, enginetest.File(t), longFiles)
	for _, want := range []string{"SEARCH tx_file USING INDEX tx_file_order ((tx_id,seq)>(?,?) AND tx_id<?)",
		"SEARCH trash_file USING PRIMARY KEY ((tx_id,seq)>(?,?) AND tx_id<?)", "SEARCH o USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN"} {
		if !slices.Contains(steps, want) {
			t.Errorf("%q, want %s among them", steps, want)
		}
	}
}
