package symtest

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// Day returns the number of the day, counted from 1970-01-01, whose share of a generated
// matrix the tests take: SYMDEPOT_DAY, which repeats the share of another day, otherwise
// today. scripts/fuzz -day counts the days alike. The log names it, which a failing test prints.
func Day(tb testing.TB) int {
	tb.Helper()
	day := int(time.Now().Unix() / (24 * 60 * 60))
	if text := os.Getenv("SYMDEPOT_DAY"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			tb.Fatalf("SYMDEPOT_DAY: %q is no number of a day", text)
		}
		day = n
	}
	tb.Logf("SYMDEPOT_DAY=%d", day)
	return day
}

// Turns returns a function that reports whether a cell of a matrix has its turn today; it gets
// the sum of the cell's indexes. Each cell has a turn once in so many days, and each row and each
// column that has so many cells has one every day. With SYMDEPOT_TORTURE all have theirs.
func Turns(tb testing.TB, days int) func(sum int) bool {
	tb.Helper()
	if os.Getenv("SYMDEPOT_TORTURE") != "" {
		return func(int) bool { return true }
	}
	day := Day(tb)
	return func(sum int) bool { return (sum+day)%days == 0 }
}

// Pairs returns the items of a matrix that have their turn today: so few that each two values of
// different dimensions that an item has are together in one of them. Other days choose others.
// With SYMDEPOT_TORTURE it returns all. values returns the value of an item in each dimension.
func Pairs[T any](tb testing.TB, items []T, values func(T) []string) []T {
	tb.Helper()
	if os.Getenv("SYMDEPOT_TORTURE") != "" {
		return items
	}
	type pair struct {
		i, k int // the dimensions
		a, b string
	}
	pairs := make([][]pair, len(items))
	left := map[pair]bool{}
	for n, item := range items {
		v := values(item)
		for i := range v {
			for k := range i {
				p := pair{i, k, v[i], v[k]}
				pairs[n], left[p] = append(pairs[n], p), true
			}
		}
	}
	order := rand.New(rand.NewPCG(uint64(Day(tb)), 0)).Perm(len(items))
	taken := make([]bool, len(items))
	for len(left) > 0 {
		best, most := 0, 0
		for _, n := range order {
			count := 0
			for _, p := range pairs[n] {
				if left[p] {
					count++
				}
			}
			if count > most {
				best, most = n, count
			}
		}
		taken[best] = true
		for _, p := range pairs[best] {
			delete(left, p)
		}
	}
	var share []T
	for n, item := range items {
		if taken[n] {
			share = append(share, item)
		}
	}
	tb.Logf("%d of %d combinations have their turn today; SYMDEPOT_TORTURE=1 takes all", len(share), len(items))
	return share
}
