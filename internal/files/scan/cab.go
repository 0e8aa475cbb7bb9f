package scan

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/symdepot/symdepot/cab"
)

// cab reads a cabinet, which needs random access.
func (w *walk) cab(in *input, rest func() io.Reader) error {
	in, drop, err := w.seekable(in, rest)
	if err != nil {
		return err
	}
	defer drop()
	return w.cabinet(in, in.at, in.size, func(name string) string { return name })
}

// cabinet visits the members of a cabinet of size bytes at at, which in is or has in it, under the paths that path
// returns for their names. A cabinet of one file, such as a .pd_, is decoded when the file is opened. Of a
// cabinet of several files each folder is decoded once, in the order of the walk.
func (w *walk) cabinet(in *input, at io.ReaderAt, size int64, path func(name string) string) error {
	r, err := cab.Open(at, size, cab.Options{})
	if err != nil {
		return cabError(err)
	}
	if r.Split() {
		return cabError(cab.ErrSplit)
	}
	if err := in.meter.add(setupCost); err != nil {
		return err
	}
	if fs := r.Files(); len(fs) == 1 {
		if err := errors.Join(in.meter.entry(), in.meter.add(fs[0].Size)); err != nil {
			return err
		}
		m := in.child(path(fs[0].Name), fs[0].Size, fs[0].Modified)
		m.reopen = func(context.Context) (io.ReadCloser, error) {
			rc, err := fs[0].Open()
			return rc, cabError(err)
		}
		return w.visit(m)
	}
	return cabError(r.Walk(func(f *cab.File, content io.Reader) error {
		if w.ended() {
			return io.EOF
		}
		if err := in.meter.entry(); err != nil {
			return err
		}
		w.progress(in)
		m := in.child(path(f.Name), f.Size, f.Modified)
		m.once = &meterReader{w.ctx, content, in.meter}
		return w.visit(m)
	}))
}

// cabError maps errors of package cab to those of this package.
func cabError(err error) error {
	switch {
	case err == nil || err == io.EOF:
		return nil
	case errors.Is(err, cab.ErrSplit), errors.Is(err, cab.ErrQuantum), errors.Is(err, cab.ErrMethod):
		return fmt.Errorf("%w: %w", errUnsupported, err)
	case errors.Is(err, cab.ErrLimit):
		return fmt.Errorf("%w: %w", errLimit, err)
	}
	return err
}
