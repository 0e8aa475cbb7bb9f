package client

import (
	"context"
	"errors"
	"net/http"

	"github.com/symdepot/symdepot/internal/base/blocks"
	"github.com/symdepot/symdepot/internal/base/endpoint"
	"github.com/symdepot/symdepot/internal/files/scan"
)

// source is a content that is sent, in one request or in parts.
type source struct {
	*scan.Content
	encode bool // compress it
	// recipe, if not nil, says which of its bytes the content base of the server has.
	recipe *blocks.Recipe
	base   string
}

// worthwhile reports whether a recipe saves a tenth of a content at least.
func worthwhile(r *blocks.Recipe) bool { return r.Copied() >= r.Size()/10 }

// compare finds out what a content has in common with the one that the server proposes. An error
// is that of reading the content. What goes wrong at the server makes no difference: the content
// is sent whole.
func (u *uploads) compare(ctx context.Context, f *found, c *source) error {
	if f.base == "" || u.r.p.NoDelta || u.r.limits.Blocks != blocks.Method {
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

// refusesRecipe reports whether the server did not get the content from its recipe, for instance
// because the base was removed meanwhile.
func refusesRecipe(err error) bool {
	a, ok := errors.AsType[*answerError](err)
	return ok && (a.is("digest") || a.is("not-found") || a.is("query"))
}
