package blob

import "os"

// OSFile returns the file on disk that a blob is, so that the system can copy it;
// nil if it is none.
func OSFile(f File) *os.File {
	if d, ok := f.(interface{ File() *os.File }); ok {
		return d.File()
	}
	return nil
}
