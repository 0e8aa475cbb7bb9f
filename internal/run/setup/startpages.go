package setup

import "runtime/debug"

// ReleaseStart gives back the memory that only the start of the program needed: what is free of
// the heap, and the resident pages of the program file, more than half of which are used only
// while all parts are set up. It takes some milliseconds.
func ReleaseStart() error {
	debug.FreeOSMemory()
	return releaseFile()
}
