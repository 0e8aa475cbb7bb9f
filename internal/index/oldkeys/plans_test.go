package oldkeys

import (
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/index/enginetest"
)

// TestPlans: no question walks through a table, and a part of a pass reads the keys in their order.
func TestPlans(t *testing.T) {
	db := enginetest.File(t)
	for _, query := range []string{BlockOf, BlocksFrom, Page, candidates} {
		for _, step := range enginetest.Plan(t, db, query) {
			if strings.HasPrefix(step, "SCAN") && step != "SCAN CONSTANT ROW" || strings.Contains(step, "TEMP B-TREE") {
				t.Errorf("%s: %s, want a search", query, step)
			}
		}
	}
}
