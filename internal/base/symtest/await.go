package symtest

import (
	"context"
	"testing"
	"time"
)

// pollEvery is the pause between two calls of a function that is polled.
const pollEvery = 10 * time.Millisecond

// Await calls ok until it returns true. After within, the test ends with a
// failure that names what was awaited.
//
// Await is for what reports no event: the state of another process, the answers
// of a server whose clients have to ask again, and the counters of the Go
// runtime. Tests wait for everything else by a channel, or in a bubble of
// testing/synctest. ok must run in the goroutine of the test.
func Await(tb testing.TB, within time.Duration, what string, ok func() bool) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), within)
	defer cancel()
	if err := Poll(ctx, ok); err != nil {
		tb.Fatalf("awaited for %v, in vain: %s", within, what)
	}
}

// Poll calls ok until it returns true or ctx ends, and returns the error of ctx.
// It is Await for other goroutines than that of the test.
func Poll(ctx context.Context, ok func() bool) error {
	for !ok() {
		if err := ctx.Err(); err != nil {
			return err
		}
		time.Sleep(pollEvery)
	}
	return nil
}
