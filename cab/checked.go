package cab

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/symdepot/symdepot/internal/base/ctxio"
)

// ReadWriter is the file to which CreateChecked writes a cabinet and from which
// it reads it back, such as an *os.File.
type ReadWriter interface {
	io.WriteSeeker
	io.ReaderAt
}

// CreateChecked writes a cabinet as [Create] does, then decodes it and compares
// the content with what the sources yielded. It returns the length of the
// cabinet and the SHA-256 of each source.
//
// Reading the sources and reading back stop when ctx ends.
func CreateChecked(
	ctx context.Context, out ReadWriter, files []Source, opt WriteOptions,
) (size int64, sums [][sha256.Size]byte, err error) {
	base, err := out.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0, nil, err
	}
	hashes := make([]hash.Hash, len(files))
	hashed := make([]Source, len(files))
	for i, f := range files {
		h := sha256.New()
		hashes[i], hashed[i] = h, f
		hashed[i].Open = func() (io.ReadCloser, error) {
			in, err := f.Open()
			if err != nil {
				return nil, err
			}
			return struct {
				io.Reader
				io.Closer
			}{io.TeeReader(ctxio.NewReader(ctx, in), h), in}, nil
		}
	}
	if size, err = Create(out, hashed, opt); err != nil {
		return 0, nil, err
	}
	sums = make([][sha256.Size]byte, len(files))
	for i, h := range hashes {
		h.Sum(sums[i][:0])
	}
	if err := readBack(ctx, io.NewSectionReader(out, base, size), files, sums); err != nil {
		return 0, nil, fmt.Errorf("reading the new cabinet back: %w", err)
	}
	return size, sums, nil
}

// readBack decodes a cabinet and compares the hashes of its files.
func readBack(ctx context.Context, in *io.SectionReader, files []Source, sums [][sha256.Size]byte) error {
	r, err := Open(in, in.Size(), Options{})
	if err != nil {
		return err
	}
	if len(r.Files()) != len(files) {
		return fmt.Errorf("the cabinet has %d files, want %d", len(r.Files()), len(files))
	}
	i := 0
	return r.Walk(func(f *File, content io.Reader) error {
		h := sha256.New()
		if _, err := io.Copy(contextWriter{ctx, h}, content); err != nil {
			return err
		}
		if f.Size != files[i].Size || [sha256.Size]byte(h.Sum(nil)) != sums[i] {
			return fmt.Errorf("the content of %q differs", f.Name)
		}
		i++
		return nil
	})
}

// contextWriter fails after its context has ended. Unlike a ctxio.Reader it
// lets io.Copy use WriterTo.
type contextWriter struct {
	ctx context.Context
	w   io.Writer
}

func (c contextWriter) Write(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, c.ctx.Err()
	}
	return c.w.Write(p)
}

// OpenSingle opens a cabinet with exactly one file, such as a compressed file
// of a symbol store, and returns that file. Any other number of files is
// ErrFormat.
func OpenSingle(src io.ReaderAt, size int64, opt Options) (*File, error) {
	r, err := Open(src, size, opt)
	if err != nil {
		return nil, err
	}
	if n := len(r.Files()); n != 1 {
		return nil, fmt.Errorf("%w: %d files, want one", ErrFormat, n)
	}
	return r.Files()[0], nil
}

// Extract writes the content of the file to w.
func (f *File) Extract(w io.Writer) (int64, error) {
	content, err := f.Open()
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(w, content)
	return n, errors.Join(err, content.Close())
}
