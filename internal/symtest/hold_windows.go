package symtest

import (
	"testing"

	"golang.org/x/sys/windows"
)

// Hold opens a file as a debugger does, which forbids all others to write, rename
// and remove it, until release is called or the test ends.
func Hold(tb testing.TB, name string) (release func()) {
	tb.Helper()
	p, err := windows.UTF16PtrFromString(name)
	if err != nil {
		tb.Fatal(err)
	}
	h, err := windows.CreateFile(p, windows.GENERIC_READ, windows.FILE_SHARE_READ, nil, windows.OPEN_EXISTING, 0, 0)
	if err != nil {
		tb.Fatal(err)
	}
	open := true
	release = func() {
		if open {
			open = false
			_ = windows.CloseHandle(h)
		}
	}
	tb.Cleanup(release)
	return release
}
