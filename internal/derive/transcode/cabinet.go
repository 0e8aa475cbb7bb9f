package transcode

import (
	"context"
	"io"
	"time"

	"github.com/symdepot/symdepot/cab"
)

// Cab is the tool that makes cabinets of one file, with MSZIP, which every client
// of a symbol store can read.
var Cab = Tool{"cab", 1}

// ErrTooLarge means that a file is too large for a cabinet.
var ErrTooLarge = cab.ErrTooLarge

// Source is a file to put into a cabinet.
type Source struct {
	io.ReaderAt
	Size int64
	Name string    // in the cabinet
	Time time.Time // in the cabinet
}

// Cabinet writes src as a cabinet to the beginning of out, which must be empty,
// reads it back, compares the content, and returns the size of the cabinet. A
// file that is too large for a cabinet is ErrTooLarge.
func Cabinet(ctx context.Context, out cab.ReadWriter, src Source) (int64, error) {
	n, _, err := cab.CreateChecked(ctx, out, []cab.Source{{
		Name: src.Name, Modified: src.Time, Attributes: cab.AttrArchive, Size: src.Size,
		Open: func() (io.ReadCloser, error) {
			return io.NopCloser(io.NewSectionReader(src, 0, src.Size)), nil
		},
	}}, cab.WriteOptions{Method: cab.MSZIP})
	return n, err
}
