package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/files/scan"
	"github.com/symdepot/symdepot/objfile"
)

// FindFile calls each for the objects that have the ids or the content of a file on this machine,
// or of the files in it if it is an archive, and returns their number.
func (a *API) FindFile(ctx context.Context, path string, each func(display.Found) error) (int, error) {
	n := 0
	for f, err := range scan.Walk(ctx, []string{path}, scan.Options{}) {
		if err != nil {
			return n, err
		}
		objects, err := objectsOf(ctx, f)
		if errors.Is(err, objfile.ErrNotSymbolFile) && f.Archive != "" {
			continue
		}
		if err != nil {
			return n, fmt.Errorf("%s: %w", f.Path, err)
		}
		for _, o := range objects {
			if err := a.same(ctx, o, func(l display.Found, same bool) error {
				if l.Query = f.Path; l.InPlace == "" {
					l.SameContent = &same
				}
				n++
				return each(l)
			}); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// objectsOf returns the objects of a file on this machine.
func objectsOf(ctx context.Context, f *scan.File) ([]depot.Same, error) {
	defer f.Discard()
	content, err := f.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	return depot.ObjectsOf(ctx, content, f.Name)
}
