package setup

import "runtime/debug"

// spare is memory that is never written to, and thus never resident. The collector
// counts it as part of the heap.
var spare []byte

// CollectAt collects the heap when it has grown by percent since the last time, but not for
// every few MiB: it may always grow by about room bytes. The collector begins at a percentage
// of the heap: with a few MiB that is many times in a second while files are received or sent.
func CollectAt(percent, room int) {
	debug.SetGCPercent(percent)
	spare = make([]byte, room*100/percent)
}
