package depot

import (
	"context"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/layout"
)

// Get answers a question; see search.Places.Get.
func (d *Depot) Get(ctx context.Context, q answer.Question) (*answer.File, error) {
	return d.places.Get(ctx, q)
}

// Open finds the file that answers req inside the scope: in the depot, then in
// the served folders. Not found is fs.ErrNotExist. A damaged file is not found;
// the log names it.
func (d *Depot) Open(ctx context.Context, scope answer.Scope, req layout.Request) (*answer.File, error) {
	return d.places.Open(ctx, scope, req, false, nil)
}

// Encoded returns f in the first of the content codings that has been made; see
// forms.Forms.Encoded.
func (d *Depot) Encoded(ctx context.Context, f *answer.File, codingNames []string) (*answer.File, error) {
	return d.forms.Encoded(ctx, f, codingNames)
}
