package queue

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/index/enginetest"
)

// TestPlansScanNoTable: frequent queries do not scan a table.
func TestPlansScanNoTable(t *testing.T) {
	db := enginetest.File(t)
	for query, want := range map[string]string{
		"SELECT id FROM job WHERE kind = $1 AND key = $2 AND variant = $3 AND state <= 2":                           "SEARCH job USING INDEX job_active (kind=? AND key=? AND variant=?)",
		"SELECT " + jobColumns + " FROM job WHERE kind = $1 AND key = $2 AND variant = $3 ORDER BY id DESC LIMIT 1": "SEARCH job USING INDEX job_key (kind=? AND key=? AND variant=?)",
		fmt.Sprintf(nextJobs, wantedJobs):                                            "SCAN job USING INDEX job_queue",
		"SELECT id FROM job WHERE state = 2 AND lease_until <= $1":                   "SEARCH job USING COVERING INDEX job_lease (lease_until<?)",
		"SELECT class FROM failure WHERE source = $1 AND tool = $2 AND version = $3": "SEARCH failure USING PRIMARY KEY (source=? AND tool=? AND version=?)",
	} {
		plan := enginetest.Plan(t, db, query)
		if len(plan) == 0 || plan[0] != want || slices.ContainsFunc(plan, func(s string) bool { return strings.Contains(s, "TEMP B-TREE") }) {
			t.Errorf("%s: %q, want %q", query, plan, want)
		}
	}
}
