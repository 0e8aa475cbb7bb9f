package login

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Variables that name the program that opens addresses, in this order. The first is ours; the
// second is that of many programs, and may be a list.
const (
	BrowserVariable = "SYMDEPOT_BROWSER"
	commonVariable  = "BROWSER"
)

// ErrNoBrowser means that no browser can be opened here. The person can open the address
// elsewhere, or use the sign-in with a code.
var ErrNoBrowser = errors.New("no browser can be opened here")

// OpenBrowser opens an address of http or https in a browser, and does not wait for it. A window
// that the system shows for that belongs to the window with the number parent, if that is not 0
// and windows have numbers.
func OpenBrowser(ctx context.Context, address string, parent uintptr, getenv func(string) string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("%q is not the address of a page", address)
	}
	if named := browserCommand(address, getenv); named != nil {
		return startBrowser(ctx, named)
	}
	return openBySystem(ctx, address, parent, getenv)
}

// browserCommand returns the command line that the environment names; nil: it names none.
func browserCommand(address string, getenv func(string) string) []string {
	command := getenv(BrowserVariable)
	if command == "" {
		command, _, _ = strings.Cut(getenv(commonVariable), string(filepath.ListSeparator))
	}
	if command == "" {
		return nil
	}
	words := []string{command} // the path of a program may have spaces
	if _, err := os.Stat(command); err != nil {
		words = strings.Fields(command)
	}
	placed := false
	for i, w := range words {
		if i > 0 && strings.Contains(w, "%s") {
			words[i], placed = strings.ReplaceAll(w, "%s", address), true
		}
	}
	if !placed {
		words = append(words, address)
	}
	return words
}

// startBrowser starts a program, and does not wait for its end.
func startBrowser(ctx context.Context, command []string) error {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), command[0], command[1:]...) //nolint:gosec // the program is that of the user
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%w: %w", ErrNoBrowser, err)
	}
	go func() { _ = cmd.Wait() }() // it goes its own way
	return nil
}
