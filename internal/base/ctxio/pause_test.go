package ctxio

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if err := Pause(t.Context(), time.Minute); err != nil || time.Since(start) != time.Minute {
			t.Errorf("a pause of a minute took %v, %v; want a minute and no error", time.Since(start), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		if err := Pause(ctx, time.Minute); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("with a context of a second: %v after %v; want its error after a second", err, time.Since(start))
		}
	})
}
