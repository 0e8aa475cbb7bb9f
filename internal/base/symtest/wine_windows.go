package symtest

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// Wine returns the version of Wine that runs this process, as its ntdll tells
// it; empty on Windows itself.
func Wine() string {
	version := windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version")
	if version.Find() != nil {
		return ""
	}
	p, _, _ := version.Call()
	// The address of a constant text in ntdll, which the garbage collector does
	// not move.
	return windows.BytePtrToString(*(**byte)(unsafe.Pointer(&p)))
}
