package scan

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// ReadError is an error in reading a file of the walk. It distinguishes such
// errors from those of the caller's own work.
type ReadError struct{ Err error }

func (e ReadError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e ReadError) Unwrap() error { return e.Err }

// IsReadError reports whether err wraps a ReadError.
func IsReadError(err error) bool {
	var r ReadError
	return errors.As(err, &r)
}

// Identify identifies the objects in the file and discards the file. It sets
// Options.Script to the script beside the file.
func (f *File) Identify(ctx context.Context, opt objfile.Options) (objs []objfile.Object, err error) {
	err = f.Examine(ctx, opt, func(_ *Content, o []objfile.Object) error { objs = o; return nil })
	return objs, err
}

// Examine is like Identify, and lets each read the file before it is discarded.
func (f *File) Examine(ctx context.Context, opt objfile.Options, each func(c *Content, objs []objfile.Object) error) error {
	defer f.Discard()
	c, err := f.Open(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	opt.Script = f.Script()
	objs, err := objfile.Identify(c, c.Size(), strings.TrimSuffix(f.Path, symfile.BaseName(f.Path))+f.Name, opt)
	if err != nil {
		return err
	}
	return each(c, objs)
}

// Script returns a function that opens the script to which the source map
// NAME.js.map on disk belongs.
func (f *File) Script() func() (io.ReadCloser, error) {
	path := strings.TrimSuffix(f.Path, ".map")
	return func() (io.ReadCloser, error) {
		script, err := os.Open(path)
		if err != nil {
			return nil, ReadError{err}
		}
		return script, nil
	}
}
