package index

import (
	"database/sql"
	"strings"
	"testing"
)

// TestStagePlans: what is asked for each content of a stage does not walk through
// all its files.
func TestStagePlans(t *testing.T) {
	t.Parallel()
	raw := rawFile(t, openTest(t, Options{}))
	for _, query := range []string{filesByOneHash, filesByHash} {
		rows, err := raw.Query("EXPLAIN QUERY PLAN "+query, "stage", make([]byte, 32))
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		var plan []string
		for rows.Next() {
			var a, b, c sql.NullInt64
			var detail string
			if err := rows.Scan(&a, &b, &c, &detail); err != nil {
				t.Fatal(err)
			}
			plan = append(plan, detail)
		}
		if len(plan) == 0 || !strings.HasPrefix(plan[0], "SEARCH f USING INDEX stage_file_content (stage_id=? AND sha256=?)") {
			t.Errorf("%s:\n%s\nwant a search by stage and content", query, strings.Join(plan, "\n"))
		}
	}
}
