// Package mszip reads and writes MSZIP, the deflate-based compression of
// cabinets. Each block holds at most 32 KiB of data, as the signature "CK" and a
// complete deflate stream, which may refer back to the preceding 32 KiB of data.
//
// The package handles single blocks. The caller stores the blocks and their
// lengths; package cab does so in cabinets.
package mszip

import "errors"

const (
	// BlockSize is the largest number of bytes that one block expands to. All
	// blocks of a folder except the last one expand to BlockSize bytes.
	BlockSize = 32768
	// MaxBlock is the largest compressed size of a block, in bytes, that a
	// Decoder accepts.
	MaxBlock = 32768 + 6144

	historySize = 32768
)

// ErrFormat reports a block that is not valid MSZIP or whose expanded size
// differs from the expected size.
var ErrFormat = errors.New("mszip: damaged data")
