package setup

import "runtime/debug"

// Release gives back the memory that only the start of the program needed, or some other work that has ended:
// what is free of the heap, and the resident pages of the program file, more than half of which are used only
// while all parts are set up. It takes some milliseconds.
func Release() error {
	debug.FreeOSMemory()
	return releaseFile()
}
