// Package xz decompresses xz data. It is the only package that links the module
// for it.
package xz

import (
	"io"

	"github.com/mikelolasagasti/xz"
)

// ErrDictionary is wrapped if the data needs a larger dictionary than allowed.
var ErrDictionary = xz.ErrMemlimit

// NewReader returns a reader of the decompressed bytes of r. Dictionaries larger
// than dictionary bytes are refused.
func NewReader(r io.Reader, dictionary uint32) (io.Reader, error) {
	return xz.NewReader(r, dictionary)
}
