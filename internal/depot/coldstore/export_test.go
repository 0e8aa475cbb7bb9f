package coldstore

import (
	"context"
	"fmt"

	"github.com/symdepot/symdepot/internal/store/cold"
)

// UnpackWith sets how contents are unpacked.
func (c *Cold) UnpackWith(f func(ctx context.Context, src cold.Source) (cold.Source, error)) {
	c.unpack = f
}

// CoolAll is Cool of all contents of the only series that there is, its newest one too.
func (c *Cold) CoolAll(ctx context.Context) error {
	if _, err := c.Cool(ctx, CoolOptions{}); err != nil {
		return err
	}
	names, err := c.db.Colds.Names(ctx, "", 2)
	if err != nil {
		return err
	}
	if len(names) != 1 {
		return fmt.Errorf("the names are %q, want one", names)
	}
	rows, err := c.db.Colds.Series(ctx, names[0], "")
	if err != nil {
		return err
	}
	for _, s := range seriesOf(rows, nil) {
		for i := range s.contents {
			if !s.contents[i].Cold {
				if _, err := c.CoolOne(ctx, s.contents, i, CoolOptions{}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
