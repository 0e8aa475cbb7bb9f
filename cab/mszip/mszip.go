// Package mszip reads and writes MSZIP, the deflate-based compression of
// cabinets: each block of at most 32 KiB is "CK" and a complete deflate stream
// that may refer back to the 32 KiB before it.
//
// It knows nothing of cabinets: blocks go in and come out, and whoever stores
// them keeps their lengths.
package mszip

import "errors"

const (
	// BlockSize is the most bytes that one block expands to. All blocks of a
	// folder but the last are full.
	BlockSize = 32768
	// MaxBlock is the most compressed bytes of one block that a reader accepts.
	MaxBlock = 32768 + 6144

	historySize = 32768
)

// ErrFormat says that a block is no valid MSZIP, or expands to another size
// than was claimed.
var ErrFormat = errors.New("mszip: damaged data")
