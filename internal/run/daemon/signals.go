package daemon

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// EndAtSecond lets the second Ctrl-C or SIGTERM end the process at once; the first ends
// ctx. A depot bears it.
func EndAtSecond(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() { signal.Reset(os.Interrupt, syscall.SIGTERM) })
}
