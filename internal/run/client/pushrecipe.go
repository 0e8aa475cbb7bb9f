package client

import (
	"context"
	"errors"
	"net/http"

	"github.com/symdepot/symdepot/internal/base/blocks"
	"github.com/symdepot/symdepot/internal/base/endpoint"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/files/scan"
)

// source is a content that is sent, in one request or in parts.
type source struct {
	*scan.Content
	encode bool // compress it
	// recipe, if not nil, says which of its bytes the content base of the server has.
	recipe *blocks.Recipe
	base   string
	// sumParts sends a hash of each part, which names a damaged one. Otherwise the server finds
	// damage by the hash of the content.
	sumParts bool
}

// maxAtOnce is the size of the largest content whose recipe is sent in one request. The server must
// have made it within answerTime.
const maxAtOnce = 1 << 30

// isShort reports whether the recipe of a content is short enough for one request. The server then
// hashes the content while it writes it; it reads parts again for that.
func (c *source) isShort(l *wire.PushLimits) bool {
	if c.recipe == nil || c.Size() > maxAtOnce {
		return false
	}
	_, n := c.recipe.Open(c, 0, c.Size())
	if c.encode { // in memory
		return n <= l.Part
	}
	return n < l.WholeBelow
}

// worthwhile reports whether a recipe saves a tenth of a content at least.
func worthwhile(r *blocks.Recipe) bool { return r.Copied() >= r.Size()/10 }

// comparable reports whether the server may have much of a content.
func (u *uploads) comparable(f *found) bool {
	return f.base != "" && !u.r.p.NoDelta && u.r.limits.Blocks == blocks.Method
}

// compare finds out what a content has in common with the one that the server proposes. An error
// is that of reading the content. What goes wrong at the server makes no difference: the content
// is sent whole.
func (u *uploads) compare(ctx context.Context, f *found, c *source) error {
	if !u.comparable(f) {
		return nil
	}
	var list []byte
	ask := exchange{method: http.MethodGet, path: stagePath(u.r.res.Stage) + "/blocks/" + f.base, raw: &list, timeout: uploadTime}
	if _, err := u.r.p.do(ctx, ask); err != nil {
		if _, answered := errors.AsType[*answerError](err); answered {
			return nil
		}
		return err
	}
	index, err := blocks.NewIndex(list)
	if err != nil {
		return nil //nolint:nilerr // the list does not count
	}
	r, err := index.Recipe(c.Reader())
	if err != nil {
		return &endpoint.LocalError{What: "read " + f.file.Path, Err: err}
	}
	if r.Size() != f.Size {
		return &endpoint.LocalError{What: "read " + f.file.Path, Err: errChanged}
	}
	if worthwhile(r) {
		c.recipe, c.base = r, f.base
	}
	return nil
}
