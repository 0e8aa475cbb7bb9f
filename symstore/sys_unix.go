//go:build unix

package symstore

// syncsNames means that folders, and files opened for reading, can be flushed.
const syncsNames = true
