package importexport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/symdepot/symdepot/internal/base/ctxio"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/store/bucket"
	"github.com/symdepot/symdepot/layout"
)

// bucketWriter writes objects of a bucket. Each is visible at once.
type bucketWriter struct{ b bucket.Bucket }

func (w bucketWriter) flush() error { return nil }
func (w bucketWriter) close()       {}

// uploads is how many objects are written to a bucket at once.
const uploads = 8

// atOnce implements writer.
func (w bucketWriter) atOnce() int { return uploads }

// link implements writer: stores have no links.
func (w bucketWriter) link(string, string, int64) bool { return false }

// absent reports whether an error says that an object does not exist; a missing bucket is another
// error.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) && !errors.Is(err, bucket.ErrNoBucket)
}

// has implements writer. An object whose length differs is not read.
func (w bucketWriter) has(ctx context.Context, name string, src *answer.File, how layout.Packing) (there, equal bool, err error) {
	info, err := w.b.Head(ctx, name)
	if err != nil {
		if absent(err) {
			err = nil
		}
		return false, false, err
	}
	if how == layout.PackNone && info.Size >= 0 && info.Size != src.Size {
		return true, false, nil
	}
	o, err := w.b.Get(ctx, name, 0, -1, info.ETag)
	if err != nil {
		return true, false, err
	}
	defer o.Body.Close()
	if how == layout.PackNone {
		equal, err = hasContent(ctx, io.LimitReader(o.Body, src.Size+1), src)
		return true, equal, err
	}
	temp, n, err := spool(ctx, o.Body)
	if err != nil {
		return true, false, err
	}
	defer drop(temp)
	equal, err = unpacksTo(ctx, temp, n, src)
	return true, equal, err
}

// put implements writer. A store is told the length of an object first.
func (w bucketWriter) put(ctx context.Context, name string, size int64, r io.Reader) (int64, error) {
	if size < 0 {
		temp, n, err := spool(ctx, r)
		if err != nil {
			return 0, err
		}
		defer drop(temp)
		size, r = n, io.NewSectionReader(temp, 0, n)
	}
	_, err := w.b.Put(ctx, name, size, r, bucket.PutOptions{})
	return size, err
}

// read implements writer.
func (w bucketWriter) read(ctx context.Context, name string) ([]byte, error) {
	o, err := w.b.Get(ctx, name, 0, -1, "")
	if err != nil {
		return nil, err
	}
	defer o.Body.Close()
	return io.ReadAll(io.LimitReader(o.Body, maxSmall))
}

// replace implements writer.
func (w bucketWriter) replace(ctx context.Context, name string, data []byte) error {
	_, err := w.put(ctx, name, int64(len(data)), bytes.NewReader(data))
	return err
}

// remove implements writer.
func (w bucketWriter) remove(ctx context.Context, name string) error { return w.b.Delete(ctx, name) }

// list implements writer. Objects that stand for folders have no name.
func (w bucketWriter) list(ctx context.Context, prefix string, each func(string) error) error {
	for i, err := range w.b.List(ctx, prefix) {
		if err == nil && i.Key != "" && !strings.HasSuffix(i.Key, "/") {
			err = each(i.Key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// spool copies bytes to a temporary file, for drop.
func spool(ctx context.Context, r io.Reader) (temp *os.File, n int64, err error) {
	if temp, err = os.CreateTemp("", "symdepot-*"); err != nil {
		return nil, 0, err
	}
	if n, err = io.Copy(temp, ctxio.NewReader(ctx, r)); err != nil {
		drop(temp)
		return nil, 0, err
	}
	return temp, n, nil
}

// drop removes a temporary file.
func drop(temp *os.File) {
	_ = temp.Close()
	_ = os.Remove(temp.Name()) // one that stays is swept with the temporary files of the system
}
