package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/symdepot/symdepot/internal/wire"
)

// Trace has the request for a path explained.
func (r *Retention) Trace(ctx context.Context, path string, into any) error {
	return r.send(ctx, http.MethodGet, wire.TracePath+"?"+url.Values{"path": {path}}.Encode(), nil, into)
}
