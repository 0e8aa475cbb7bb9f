//go:build race

package crash

// detectorMemory is what the race detector has reserved in a child, in bytes: 370 MiB at its start.
const detectorMemory = 1 << 30
