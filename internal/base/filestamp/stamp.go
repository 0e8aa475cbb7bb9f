// Package filestamp tells one state of a file from another without reading it.
package filestamp

// Stamp identifies one state of a file. It changes whenever the bytes change, except when that
// happens within one tick of the clock of the file system: see the times. A value that the
// system does not give is zero.
type Stamp struct {
	Inode uint64
	Size  int64 // bytes
	// Written is when the bytes were written last, which programs can set to any time, and
	// Changed when the file was changed in any way, which they cannot. Nanoseconds since 1970.
	Written, Changed int64
}
