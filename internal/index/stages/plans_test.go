package stages

import (
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/index/enginetest"
)

// TestStagePlans: what is asked for each content of a stage does not walk through
// all its files.
func TestStagePlans(t *testing.T) {
	t.Parallel()
	db := enginetest.File(t)
	for _, query := range []string{filesByOneHash, filesByHash} {
		plan := enginetest.Plan(t, db, query)
		if len(plan) == 0 || !strings.HasPrefix(plan[0], "SEARCH f USING INDEX stage_file_content (stage_id=? AND sha256=?)") {
			t.Errorf("%s:\n%s\nwant a search by stage and content", query, strings.Join(plan, "\n"))
		}
	}
}
