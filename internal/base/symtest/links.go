package symtest

import (
	"os"
	"path/filepath"
	"testing"
)

// NeedsMoreThanWine skips a test under Wine and says what Wine lacks. Elsewhere it
// does nothing.
func NeedsMoreThanWine(tb testing.TB, lacks string) {
	tb.Helper()
	if v := Wine(); v != "" {
		tb.Skipf("Wine %s: %s", v, lacks)
	}
}

// Symlink makes a symbolic link, or skips the test where the system makes none:
// Windows asks for a privilege, and Wine 10 reports success without a link.
func Symlink(tb testing.TB, target, name string) {
	tb.Helper()
	if err := os.Symlink(filepath.FromSlash(target), name); err != nil {
		tb.Skipf("no symbolic links: %v", err)
	}
	if _, err := os.Lstat(name); err != nil {
		NeedsMoreThanWine(tb, "CreateSymbolicLink makes no symbolic link")
		tb.Fatalf("symbolic link %s: %v", name, err)
	}
}
