package symtest

import (
	"fmt"
	"strconv"
	"testing"
)

// TestPairs: every day each pair of values is in the share, which is much smaller than the
// matrix, and within some days every item has its turn.
func TestPairs(t *testing.T) {
	t.Setenv("SYMDEPOT_TORTURE", "")
	type item [3]int
	var all []item
	for i := range 6 {
		for k := range 5 {
			for j := range 4 {
				if i != k { // not all combinations exist
					all = append(all, item{i, k, j})
				}
			}
		}
	}
	values := func(x item) []string { return []string{fmt.Sprint(x[0]), fmt.Sprint(x[1]), fmt.Sprint(x[2])} }
	had := map[item]bool{}
	for day := range 40 {
		t.Setenv("SYMDEPOT_DAY", strconv.Itoa(day))
		share := Pairs(t, all, values)
		if len(share) > len(all)/2 {
			t.Errorf("day %d takes %d of %d items, want at most half", day, len(share), len(all))
		}
		pairs := map[[4]int]bool{}
		for _, x := range share {
			had[x] = true
			pairs[[4]int{0, x[0], 1, x[1]}], pairs[[4]int{0, x[0], 2, x[2]}], pairs[[4]int{1, x[1], 2, x[2]}] = true, true, true
		}
		if want := (6*5 - 5) + 6*4 + 5*4; len(pairs) != want {
			t.Errorf("day %d has %d pairs of values, want all %d", day, len(pairs), want)
		}
	}
	if len(had) != len(all) {
		t.Errorf("in 40 days %d of %d items had their turn, want all", len(had), len(all))
	}
	t.Setenv("SYMDEPOT_TORTURE", "1")
	if share := Pairs(t, all, values); len(share) != len(all) {
		t.Errorf("with SYMDEPOT_TORTURE %d of %d items, want all", len(share), len(all))
	}
}

// TestTurns: each cell has one turn in so many days, and each row and column one every day.
func TestTurns(t *testing.T) {
	t.Setenv("SYMDEPOT_TORTURE", "")
	const days, rows, columns = 3, 4, 5
	var cells [rows][columns]int
	for day := range days {
		t.Setenv("SYMDEPOT_DAY", strconv.Itoa(20658+day))
		turn := Turns(t, days)
		var inRow [rows]int
		var inColumn [columns]int
		for i := range rows {
			for k := range columns {
				if turn(i + k) {
					cells[i][k]++
					inRow[i]++
					inColumn[k]++
				}
			}
		}
		for i, n := range inRow {
			if n == 0 {
				t.Errorf("day %d: row %d has no turn, want one", day, i)
			}
		}
		for k, n := range inColumn {
			if n == 0 {
				t.Errorf("day %d: column %d has no turn, want one", day, k)
			}
		}
	}
	for i := range cells {
		for k, n := range cells[i] {
			if n != 1 {
				t.Errorf("cell %d, %d has %d turns in %d days, want 1", i, k, n, days)
			}
		}
	}
	t.Setenv("SYMDEPOT_TORTURE", "1")
	if turn := Turns(t, days); !turn(0) || !turn(1) || !turn(2) {
		t.Error("with SYMDEPOT_TORTURE not every cell has its turn")
	}
}
