package tokens

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
		"SELECT " + tokenColumns + " FROM token WHERE hash = $1": "SEARCH token USING INDEX sqlite_autoindex_token_2 (hash=?)",
	} {
		plan := enginetest.Plan(t, db, query)
		if len(plan) == 0 || plan[0] != want || slices.ContainsFunc(plan, func(s string) bool { return strings.Contains(s, "TEMP B-TREE") }) {
			t.Errorf("%s: %q, want %q", query, plan, want)
		}
	}
}
