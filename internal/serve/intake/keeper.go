package intake

import (
	"context"

	"github.com/symdepot/symdepot/internal/depot/stage"
)

// keeper is the principal of an upload that goes on without its credentials, as the
// upload is stored. What it may do is asked at each use.
type keeper struct {
	ID         string // stage.Caller.ID
	Name       string
	Credential string // Who.Credential
}

func keeperOf(who *Who) keeper { return keeper{who.ID, who.Name, who.Credential} }

// caller returns the principal of an upload to a product. It may add files to the
// product as long as its credentials may, and see nothing. credential returns the latest
// ones.
func (k keeper) caller(h *service, product string, credential func() string) stage.Caller {
	c := stage.Caller{ID: k.ID, Name: k.Name, Read: func(string) bool { return false }, Write: func(p string) bool { return p == product }}
	if h.cfg.Still != nil {
		c.Again = func(ctx context.Context, p string) error { return h.cfg.Still(ctx, credential(), p) }
	}
	return c
}

// once is caller for an upload whose credentials stay the same.
func (k keeper) once(h *service, product string) stage.Caller {
	return k.caller(h, product, func() string { return k.Credential })
}

// owner returns the principal for what needs no right: to abandon an upload.
func owner(c stage.Caller) stage.Caller {
	c.Again = nil
	return c
}

// still returns an error if the credentials of an upload may not add files to its
// product any more.
func still(ctx context.Context, c stage.Caller, product string) error {
	if c.Again == nil {
		return nil
	}
	return c.Again(ctx, product)
}
