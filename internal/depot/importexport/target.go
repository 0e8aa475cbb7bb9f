package importexport

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"

	"github.com/symdepot/symdepot/internal/base/ctxio"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/files/unpack"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/internal/store/bucket"
	"github.com/symdepot/symdepot/layout"
)

// Target is where an export writes: the bucket, or the folder if Bucket is nil. The folder is
// made if it does not exist. The bucket stays open.
type Target struct {
	Folder string
	Bucket bucket.Bucket
}

// open opens the target.
func (t Target) open() (writer, error) {
	if t.Bucket != nil {
		return bucketWriter{t.Bucket}, nil
	}
	return newTreeWriter(t.Folder)
}

// name returns the name of the target, without secrets.
func (t Target) name() string {
	if t.Bucket != nil {
		return t.Bucket.Name()
	}
	return t.Folder
}

// writer writes the files of an export. A file appears whole or not at all. Several goroutines
// may call has and put if atOnce is more than one.
type writer interface {
	// has reports whether a file exists, and whether its content, unpacked, is that of src.
	has(ctx context.Context, name string, src *answer.File, how layout.Packing) (there, equal bool, err error)
	// put writes a file of size bytes, -1 if that is not known, and returns how many were
	// written. The file is visible after the next flush. See errInTheWay.
	put(ctx context.Context, name string, size int64, r io.Reader) (int64, error)
	// hold makes this process the only one that follows a depot into the target, until the claim
	// is released. waiting is called if it takes long, with what is waited for. See HeldError.
	hold(ctx context.Context, waiting func(text string)) (claim, error)
	// replace writes a small file. It is visible at once.
	replace(ctx context.Context, name string, data []byte) error
	// read returns a small file. A missing one is fs.ErrNotExist.
	read(ctx context.Context, name string) ([]byte, error)
	// remove removes a file. A missing one is no error.
	remove(ctx context.Context, name string) error
	// list calls each for the names of all files whose names begin with prefix.
	list(ctx context.Context, prefix string, each func(name string) error) error
	// link adds a further name of a file of size bytes, and reports whether that is possible.
	link(target, name string, size int64) bool
	// atOnce is how many files are written at once.
	atOnce() int
	// flush makes all files visible that were written so far. close discards the others.
	flush() error
	close()
}

// claim is the right to be the only one that follows a depot into a target.
type claim interface {
	// check fails if another process may have taken the target over: with a HeldError if it has.
	check() error
	release()
}

// HeldError is the error for a target into which another process follows a depot.
type HeldError struct{ Target string }

// Error names the target and the next step.
func (e *HeldError) Error() string {
	return e.Target + ": another symdepot export --follow writes there; end it first, or use another target"
}

// hasContent reports whether a plain file has the content of src.
func hasContent(ctx context.Context, file io.Reader, src *answer.File) (bool, error) {
	h := sha256.New()
	_, err := io.Copy(h, ctxio.NewReader(ctx, file))
	return err == nil && blob.Ref(h.Sum(nil)) == src.Ref, err
}

// unpacksTo reports whether a compressed file of size bytes has the content of src.
func unpacksTo(ctx context.Context, file io.ReaderAt, size int64, src *answer.File) (bool, error) {
	h := sha256.New()
	if !unpack.Packed(file) {
		return false, nil
	}
	if _, err := unpack.File(ctx, h, file, size, src.Size); err != nil {
		return false, ctx.Err() // damaged, or not what an export writes
	}
	return blob.Ref(h.Sum(nil)) == src.Ref, nil
}

// small writes a small file unless it exists with the same content.
func small(ctx context.Context, w writer, name string, data []byte) error {
	have, err := w.read(ctx, name)
	if err == nil && bytes.Equal(have, data) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_, err = w.put(ctx, name, int64(len(data)), bytes.NewReader(data))
	return err
}

// maxSmall is the most bytes of a small file.
const maxSmall = 64 << 20

// errInTheWay is the error for a path that has a folder or a link.
var errInTheWay = errors.New("a folder or a link has this path")
