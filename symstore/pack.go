package symstore

import (
	"context"
	"errors"
	"os"
)

// pack writes a cabinet, and reads it back before it is accepted.
func (g *staging) pack(ctx context.Context, it *item, in source, k *stagedKey) error {
	f, err := g.st.s.root.OpenFile(g.st.path(k.staged), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return ofStore(err)
	}
	defer f.Close()
	_ = ctx
	return errors.ErrUnsupported
}
