package sourcefiles

import (
	"context"
	"errors"
	"io/fs"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/files/srclink"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// ErrNoLinks means that an object leads nowhere for source files.
var ErrNoLinks = errors.New("there are no links to source files")

// Links returns where an object leads debuggers for source files. The error wraps
// fs.ErrNotExist if there is no such object, and is ErrNoLinks if it has none.
func (s *Files) Links(ctx context.Context, scope answer.Scope, ref blob.Ref) (*srclink.Links, error) {
	found, err := s.db.Find(ctx, scope.Index(), record.Query{Ref: &ref}, 1)
	if err != nil || len(found) == 0 {
		return nil, orNotFound(err)
	}
	h := found[0].Stored
	b, err := s.contents.Open(ctx, record.Content{Ref: h.Ref, Size: h.Size})
	if err != nil {
		return nil, err
	}
	defer b.Close()
	l, err := srclink.Read(b, h.Size, h.Object.Kind)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoLinks
	}
	return l, err
}
