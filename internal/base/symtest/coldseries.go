package symtest

import (
	"cmp"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ColdSeries yields the series that scripts/coldseries has made: the name of each, and the files of its
// builds in their order. SYMDEPOT_COLD_NAMES names some of them. Without any the test is skipped.
func ColdSeries(t testing.TB) iter.Seq2[string, []string] {
	t.Helper()
	root := os.Getenv("SYMDEPOT_COLD_SERIES")
	if root == "" {
		t.Skip("needs SYMDEPOT_COLD_SERIES, a folder of scripts/coldseries (make bench-cold)")
	}
	return func(yield func(string, []string) bool) {
		for _, name := range strings.Fields(cmp.Or(os.Getenv("SYMDEPOT_COLD_NAMES"), "A B C D E M P K")) {
			builds, err := filepath.Glob(filepath.Join(root, name, "[0-9][0-9]"))
			if err != nil {
				t.Fatal(err)
			}
			if len(builds) > 1 && !yield(name, builds) {
				return
			}
		}
	}
}
