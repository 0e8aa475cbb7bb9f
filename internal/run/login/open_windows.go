package login

import (
	"context"
	"fmt"

	"golang.org/x/sys/windows"
)

// openBySystem has Windows open the address in the user's browser.
func openBySystem(_ context.Context, address string, parent uintptr, _ func(string) string) error {
	verb, err := windows.UTF16PtrFromString("open")
	if err != nil {
		return err
	}
	what, err := windows.UTF16PtrFromString(address)
	if err != nil {
		return err
	}
	if err := windows.ShellExecute(windows.Handle(parent), verb, what, nil, nil, windows.SW_SHOWNORMAL); err != nil {
		return fmt.Errorf("%w: %w", ErrNoBrowser, err)
	}
	return nil
}
