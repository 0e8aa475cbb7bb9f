package depot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"path"

	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// A source file that debug information names is asked for by the build-id and
// the path in the debug information. It is kept under a hash of that path,
// because names in the index are compared without regard to case, and paths of
// sources must not be.

// sourcePath is the path of a request for a source file, without dots: some
// clients resolve them, others do not.
func sourcePath(req layout.Request) string { return path.Clean("/" + req.Section) }

func sourceName(req layout.Request) string {
	name := symfile.BaseName(sourcePath(req))
	if !symfile.ValidName(name) {
		name = "source"
	}
	return name
}

// sourceAlias is the key under which a source file is kept.
func sourceAlias(req layout.Request) symfile.Alias {
	sum := sha256.Sum256([]byte(sourcePath(req)))
	return symfile.Alias{Name: hex.EncodeToString(sum[:]), ID: "source-" + req.Lookups[0].ID, Role: symfile.Other}
}

// sourceRequest asks the index for a source file.
func sourceRequest(req layout.Request) layout.Request {
	a := sourceAlias(req)
	return layout.Request{Form: layout.FormFile, Layout: req.Layout, Lookups: []symfile.Lookup{{Name: a.Name, ID: a.ID, Role: a.Role}}}
}

// openSourceText answers with a source file that was fetched before.
func (d *Depot) openSourceText(ctx context.Context, scope Scope, req layout.Request) (*File, error) {
	return d.openOwn(ctx, scope, sourceRequest(req))
}

// mostSource is how long a source file may be; the longest known are generated.
const mostSource = 64 << 20

// most is how many bytes a transfer may have.
func (f *fetcher) most(fl *transfer) int64 {
	if fl.q.Request.Form == layout.FormSource {
		return min(f.limits.MaxBytes, mostSource)
	}
	return f.limits.MaxBytes
}
