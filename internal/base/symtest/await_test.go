package symtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestPoll: the function is called until it returns true, and no longer than the
// context.
func TestPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		if err := Poll(t.Context(), func() bool { n++; return n == 5 }); err != nil || n != 5 {
			t.Errorf("%d calls, error %v; want 5", n, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if err := Poll(ctx, func() bool { return false }); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > time.Minute+pollEvery {
			t.Errorf("error %v after %v, want %v after a minute", err, time.Since(began), context.DeadlineExceeded)
		}
	})
}

// TestOutput: Await returns as soon as the text is there, also if it comes in
// pieces.
func TestOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o Output
		go func() {
			for _, part := range []string{"one", " two th", "ree"} {
				time.Sleep(time.Second)
				fmt.Fprint(&o, part)
			}
		}()
		began := time.Now()
		o.Await(t, "three")
		if took := time.Since(began); took != 3*time.Second || o.String() != "one two three" {
			t.Errorf("the output was %q after %v, want %q after 3s", o.String(), took, "one two three")
		}
		o.Await(t, "two")
	})
}
