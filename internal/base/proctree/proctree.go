// Package proctree runs a process within limits, and ends it with all of its descendants.
package proctree

// Limits bound a tree of processes. Zero or less is no limit. Linux and Windows can limit memory,
// Linux the size of files.
type Limits struct {
	Memory, File int64 // bytes
	// Mark is the value of TMPDIR in the environment of every process of the tree, so that Kill finds
	// those on Linux that have left its group; empty: they are not looked for.
	Mark string
}

// Limit is the limit that a process exceeded.
type Limit int

// The limits.
const (
	NoLimit Limit = iota
	MemoryLimit
	FileLimit
)
