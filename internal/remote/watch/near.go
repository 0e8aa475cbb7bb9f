package watch

import (
	"context"
	"errors"
	"io/fs"

	"github.com/symdepot/symdepot/internal/files/sources"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// Why an object of the index is no answer; see Near. ErrAway is one of these too.
var (
	ErrChanged   = errors.New("the file has changed or gone since it was indexed")
	ErrOtherRole = errors.New("the file is of another kind")
	ErrNotNamed  = errors.New("its debug information does not name the source")
	ErrNoText    = errors.New("its debug information names the source, but no text of it is here")
)

// Near is an object of the index that comes near a request without an answer.
type Near struct {
	Entry Entry
	Why   error
}

// Near explains why a request has no answer. Nil: nothing comes near it.
func (f *Folder) Near(ctx context.Context, req layout.Request) (*Near, error) {
	for _, l := range req.Lookups {
		if req.Form == layout.FormSource {
			l.Role |= symfile.Debug
		}
		hits, err := f.lookup(ctx, l)
		if err != nil {
			return nil, err
		}
		for i := range hits {
			why, err := f.whyNot(ctx, &hits[i], &req)
			if err != nil {
				return nil, err
			}
			if why != nil {
				return &Near{f.entry(&hits[i]), why}, nil //nolint:nilerr // that is what is asked for
			}
		}
	}
	for _, l := range req.Lookups {
		l.Role = ^symfile.Role(0)
		hits, err := f.lookup(ctx, l)
		if err != nil {
			return nil, err
		}
		if len(hits) > 0 {
			return &Near{f.entry(&hits[0]), ErrOtherRole}, nil
		}
	}
	return nil, nil
}

// whyNot says why an object does not answer; nil: for another reason.
func (f *Folder) whyNot(ctx context.Context, h *hit, req *layout.Request) (why, err error) {
	switch err := f.Present(ctx); {
	case errors.Is(err, ErrAway):
		return ErrAway, nil
	case err != nil:
		return nil, err
	}
	open, err := f.openFile(ctx, &h.File)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return ErrChanged, nil
		}
		return nil, err
	}
	if err := open.Close(); err != nil || req.Form != layout.FormSource {
		return nil, err
	}
	list, err := f.namesOf(ctx, h)
	if errors.Is(err, fs.ErrNotExist) {
		return ErrChanged, nil
	}
	if err != nil || len(list.value) == 0 {
		return nil, err
	}
	for _, key := range sources.Keys(req.Part) {
		if _, ok := list.value[key]; ok {
			return ErrNoText, nil
		}
	}
	return ErrNotNamed, nil
}
