package watch

import (
	"context"
	"io/fs"

	"github.com/symdepot/symdepot/layout"
)

// nameLists are the names that the debug information of objects has.
type nameLists struct{}

// Source opens a source file.
func (f *Folder) Source(ctx context.Context, req layout.Request) (*File, error) {
	return nil, fs.ErrNotExist
}
