package server

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// ofThread is how many of the handles that openFiles counts belong to a thread of the
// process, at most: the thread, its events and its timers. Threads that waited for
// files stay for later.
const ofThread = 6

// openFiles returns how many handles the process has open.
func openFiles() int {
	var n uint32
	count := windows.NewLazySystemDLL("kernel32.dll").NewProc("GetProcessHandleCount")
	if ok, _, _ := count.Call(uintptr(windows.CurrentProcess()), uintptr(unsafe.Pointer(&n))); ok == 0 {
		return 0
	}
	return int(n)
}
