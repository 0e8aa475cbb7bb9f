package sorting_test

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/symdepot/symdepot/internal/base/sorting"
)

// row is an element with a key of few values, so that many are equal, and its place before.
type row struct{ key, place int }

func byKey(a, b row) int { return cmp.Compare(a.key, b.key) }

// TestSorting: lists are in order afterwards, and have the elements that they had before; Stable
// orders as slices.SortStableFunc does.
func TestSorting(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var list []row
		for i, key := range rapid.SliceOfN(rapid.IntRange(0, 9), 0, 100).Draw(t, "keys") {
			list = append(list, row{key, i})
		}
		want := slices.Clone(list)
		slices.SortStableFunc(want, byKey)
		got := slices.Clone(list)
		if sorting.Stable(got, byKey); !slices.Equal(got, want) {
			t.Fatalf("Stable of %v is %v, want %v", list, got, want)
		}
		sorting.By(list, byKey)
		if !slices.IsSortedFunc(list, byKey) {
			t.Fatalf("By left %v", list)
		}
		slices.SortFunc(list, func(a, b row) int { return cmp.Or(byKey(a, b), cmp.Compare(a.place, b.place)) })
		if !slices.Equal(list, want) {
			t.Fatalf("By made %v of %v", list, want)
		}
	})
}
