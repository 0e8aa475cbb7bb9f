package blob

import "os"

// OSFile returns the operating system's file of a blob, for sending or copying
// by the system, or nil.
func OSFile(f File) *os.File {
	if d, ok := f.(interface{ File() *os.File }); ok {
		return d.File()
	}
	return nil
}
