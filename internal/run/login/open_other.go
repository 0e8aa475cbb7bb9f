//go:build !windows

package login

import (
	"context"
	"runtime"
)

// openBySystem has the desktop open the address in the user's browser. Without a screen, the
// program that does so would start a browser in the terminal, or ask there.
func openBySystem(ctx context.Context, address string, _ uintptr, getenv func(string) string) error {
	switch {
	case runtime.GOOS == "darwin":
		return startBrowser(ctx, []string{"open", address})
	case getenv("DISPLAY") == "" && getenv("WAYLAND_DISPLAY") == "":
		return ErrNoBrowser
	}
	return startBrowser(ctx, []string{"xdg-open", address})
}
