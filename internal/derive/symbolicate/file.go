package symbolicate

import (
	"errors"
	"io"

	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// File is an open file.
type File interface {
	jobs.File
	// Tag changes whenever the content does.
	Tag() string
}

// concat is a list of files as one.
type concat struct {
	files []File
	size  int64
}

// newConcat joins files of known sizes. It closes them on Close.
func newConcat(files []File) (*concat, error) {
	c := &concat{files: files}
	for _, f := range files {
		_, _, n := f.Content()
		if n < 0 {
			return nil, errors.New("a file of unknown size")
		}
		c.size += n
	}
	return c, nil
}

// Content implements jobs.File.
func (c *concat) Content() (name string, ref blob.Ref, size int64) {
	if len(c.files) == 1 {
		return c.files[0].Content()
	}
	name, _, _ = c.files[0].Content()
	return name, blob.Ref{}, c.size
}

// ReadAt implements io.ReaderAt.
func (c *concat) ReadAt(p []byte, off int64) (n int, err error) {
	for _, f := range c.files {
		_, _, size := f.Content()
		if off >= size {
			off -= size
			continue
		}
		want := p[n:]
		if int64(len(want)) > size-off {
			want = want[:size-off]
		}
		m, err := f.ReadAt(want, off)
		n += m
		if m < len(want) {
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return n, err
		}
		if n == len(p) {
			return n, nil
		}
		off = 0
	}
	return n, io.EOF
}

// Close implements io.Closer.
func (c *concat) Close() error { return closeAll(c.files) }

func closeAll[C io.Closer](files []C) error {
	var errs []error
	for _, f := range files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
