package symtest

import (
	"sync"
	"testing"

	"golang.org/x/sys/windows"
)

// Hold opens a file as a debugger does, which forbids all others to write, rename
// and remove it, until release is called or the test ends.
func Hold(tb testing.TB, name string) (release func()) {
	tb.Helper()
	return hold(tb, name, windows.FILE_SHARE_READ)
}

// HoldAlone opens a file and forbids all others to open it, until release is called
// or the test ends.
func HoldAlone(tb testing.TB, name string) (release func()) {
	tb.Helper()
	return hold(tb, name, 0)
}

func hold(tb testing.TB, name string, share uint32) (release func()) {
	tb.Helper()
	p, err := windows.UTF16PtrFromString(name)
	if err != nil {
		tb.Fatal(err)
	}
	h, err := windows.CreateFile(p, windows.GENERIC_READ, share, nil, windows.OPEN_EXISTING, 0, 0)
	if err != nil {
		tb.Fatal(err)
	}
	release = sync.OnceFunc(func() { _ = windows.CloseHandle(h) })
	tb.Cleanup(release)
	return release
}
