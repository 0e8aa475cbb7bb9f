package inplace

import (
	"fmt"
	"io"
	"io/fs"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/remote/watch"
)

// errChanging means that a file in a watched folder changed while it was sent: the
// answer is broken off before its last bytes.
var errChanging = fmt.Errorf("the file has changed since it was indexed: %w", fs.ErrNotExist)

// watchedReader reads a file in a watched folder. The last bytes are not returned if
// the file has changed meanwhile.
type watchedReader struct{ f *watch.File }

// ReadAt implements io.ReaderAt.
func (r watchedReader) ReadAt(p []byte, off int64) (int, error) {
	n, err := r.f.ReadAt(p, off)
	if (err == nil || err == io.EOF) && off+int64(n) >= r.f.Size && r.f.Changed() {
		return 0, fmt.Errorf("%s: %w", r.f.Path, errChanging)
	}
	return n, err
}

func watchedFile(folder *watch.Folder, f *watch.File) *answer.File {
	product, _ := folder.Product()
	a := &answer.File{
		Volatile: true, InPlace: true, Kept: "in place", Product: product,
		Object: f.Object, Features: f.Features.Words(), Size: f.Size, ModTime: f.ModTime, Path: f.Path, Archive: f.Archive,
		Signature: f.Signature, ETag: f.ETag,
		Bytes: watchedReader{f}, Closer: f, ChangedSince: f.Changed,
	}
	if f.Growing() {
		a.Growing, a.Await = true, f.Arrived
	}
	return a
}
