package coldstore

import (
	"context"

	"github.com/symdepot/symdepot/internal/store/cold"
)

// UnpackWith sets how contents are unpacked.
func (c *Cold) UnpackWith(f func(ctx context.Context, src cold.Source) (cold.Source, error)) {
	c.unpack = f
}
