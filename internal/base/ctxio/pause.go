package ctxio

import (
	"context"
	"time"
)

// Pause waits for a time. It returns the error of ctx if that ends before.
func Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
