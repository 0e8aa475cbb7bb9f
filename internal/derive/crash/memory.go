//go:build !race

package crash

// detectorMemory is what the race detector has reserved in a child, in bytes.
const detectorMemory = 0
