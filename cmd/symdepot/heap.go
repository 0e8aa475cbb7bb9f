package main

// spare is memory that is never written to, and thus never resident. The collector
// counts it as part of the heap.
var spare []byte

// spareCollections lets a small heap grow by about bytes before it is collected, where
// percent is that of debug.SetGCPercent. The collector begins at a percentage of the
// heap: with a few MiB that is many times in a second while files are received or
// sent.
func spareCollections(bytes, percent int) { spare = make([]byte, bytes*100/percent) }
