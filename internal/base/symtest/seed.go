package symtest

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// Seed returns the seed of the random numbers of a test: SYMDEPOT_SEED, which repeats a
// run as far as the test alone decides what happens, otherwise a number of the test's own, or,
// if that is 0, one of the clock. The log names it, which a failing test prints.
func Seed(tb testing.TB, own uint64) uint64 {
	tb.Helper()
	seed := own
	if text := os.Getenv("SYMDEPOT_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			tb.Fatalf("SYMDEPOT_SEED: %v", err)
		}
		seed = n
	} else if own == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	tb.Logf("SYMDEPOT_SEED=%d", seed)
	return seed
}
