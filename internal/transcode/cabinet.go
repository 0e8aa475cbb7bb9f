package transcode

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/symdepot/symdepot/cab"
	"github.com/symdepot/symdepot/internal/ctxio"
)

// Cab makes the cabinet of a file: one folder, one file, MSZIP, which every
// client of a symbol store can read.
var Cab = Tool{"cab", 1}

// ErrTooLarge says that a file does not fit into the form asked for.
var ErrTooLarge = cab.ErrTooLarge

// Source is a file to be put into a container.
type Source struct {
	io.ReaderAt
	Size int64
	Name string    // under which the container keeps it
	Time time.Time // likewise
}

// File is where a container is written and then read back.
type File interface {
	io.WriteSeeker
	io.ReaderAt
}

// Cabinet writes src as a cabinet to the beginning of out, which must be empty,
// reads it back and compares, and returns its size. A file too large for a
// cabinet is ErrTooLarge.
func Cabinet(ctx context.Context, out File, src Source) (int64, error) {
	open := func() io.Reader { return ctxio.NewReader(ctx, io.NewSectionReader(src, 0, src.Size)) }
	n, err := cab.Create(out, []cab.Source{{
		Name: src.Name, Modified: src.Time, Attributes: cab.AttrArchive, Size: src.Size,
		Open: func() (io.ReadCloser, error) { return io.NopCloser(open()), nil },
	}}, cab.WriteOptions{Method: cab.MSZIP})
	if err != nil {
		return 0, err
	}
	r, err := cab.Open(out, n, cab.Options{})
	if err != nil {
		return 0, fmt.Errorf("the cabinet just written: %w", err)
	}
	if fs := r.Files(); len(fs) != 1 || fs[0].Size != src.Size {
		return 0, errors.New("the cabinet just written holds something else")
	}
	rc, err := r.Files()[0].Open()
	if err != nil {
		return 0, fmt.Errorf("the cabinet just written: %w", err)
	}
	defer rc.Close()
	if err := same(ctxio.NewReader(ctx, rc), open()); err != nil {
		return 0, fmt.Errorf("the cabinet just written: %w", err)
	}
	return n, nil
}

// same compares two streams.
func same(a, b io.Reader) error {
	ra, rb := bufio.NewReaderSize(a, 64<<10), bufio.NewReaderSize(b, 64<<10)
	for {
		pa, errA := ra.Peek(1)
		_, errB := rb.Peek(1)
		switch {
		case errors.Is(errA, io.EOF) && errors.Is(errB, io.EOF):
			return nil
		case errA != nil && !errors.Is(errA, io.EOF):
			return errA
		case errB != nil && !errors.Is(errB, io.EOF):
			return errB
		case len(pa) == 0 || errB != nil:
			return errors.New("another length comes out of it")
		}
		n := min(ra.Buffered(), rb.Buffered())
		pa, _ = ra.Peek(n)
		pb, _ := rb.Peek(n)
		if !bytes.Equal(pa, pb) {
			return errors.New("other bytes come out of it")
		}
		_, _ = ra.Discard(n)
		_, _ = rb.Discard(n)
	}
}
