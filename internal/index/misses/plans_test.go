package misses

import (
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/index/enginetest"
)

// TestPlansScanNoTable: frequent queries do not scan a table.
func TestPlansScanNoTable(t *testing.T) {
	db := enginetest.File(t)
	for query, want := range map[string]string{
		"SELECT source FROM miss WHERE key = $1 ORDER BY source":            "SEARCH miss USING COVERING INDEX sqlite_autoindex_miss_1 (key=?)",
		"SELECT no FROM wanted WHERE name = $1 AND id = $2 AND client = $3": "SEARCH wanted USING COVERING INDEX sqlite_autoindex_wanted_1 (name=? AND id=? AND client=?)",
	} {
		plan := enginetest.Plan(t, db, query)
		if len(plan) == 0 || plan[0] != want || slices.ContainsFunc(plan, func(s string) bool { return strings.Contains(s, "TEMP B-TREE") }) {
			t.Errorf("%s: %q, want %q", query, plan, want)
		}
	}
}
