package depot

import (
	"context"
	"time"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/audience"
	"github.com/symdepot/symdepot/internal/derive/symbolicate"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/layout"
)

// Get answers a question; see search.Places.Get.
func (d *Depot) Get(ctx context.Context, q answer.Question) (*answer.File, error) {
	return d.places.Get(ctx, q)
}

// Lacks reports whether Get would certainly find nothing for a request, without a query and
// without waiting; see search.Places.Lacks.
func (d *Depot) Lacks(ctx context.Context, scope answer.Scope, req *layout.Request) bool {
	return d.places.Lacks(ctx, scope, req)
}

// Public answers a question of people outside with a public form, and with nothing else; see
// audience.Door.Get.
func (d *Depot) Public(ctx context.Context, scope audience.Scope, q answer.Question) (*audience.File, error) {
	return d.door.Get(ctx, scope, q)
}

// PublicSource returns what opens modules for people outside; see audience.Door.Source.
func (d *Depot) PublicSource(scope audience.Scope, ask SymbolsAsk) symbolicate.UnwindSource {
	return d.door.Source(scope, ask)
}

// PublicForm opens the public form of a file of a transaction; see audience.Door.Form.
func (d *Depot) PublicForm(ctx context.Context, f TxFile) (*audience.File, error) {
	return d.door.Form(ctx, record.Stored{Object: f.Object, Ref: f.Ref, Size: f.Size, ModTime: f.ModTime})
}

// PublicRetry returns the time after which a client should ask again for a public form that is
// being made.
func (d *Depot) PublicRetry(ctx context.Context) time.Duration { return d.door.Retry(ctx) }

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
