package needed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/internal/depot"
)

// ErrDiffers is wrapped by the error of Save for an existing file with different
// content.
var ErrDiffers = errors.New("exists with different content")

// Save writes a wanted file to a path, whole or not at all. An existing file with
// the same content is left alone; one with different content is replaced only if
// force is set.
func Save(ctx context.Context, d *depot.Depot, w Want, path string, force bool) error {
	f, _, err := Open(ctx, d, w)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := os.Lstat(path); err == nil && !force {
		if sameContent(path, Reader(f)) {
			return nil
		}
		return fmt.Errorf("%s %w", path, ErrDiffers)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	return durable.WriteTo(path, 0o666, func(to io.Writer) error {
		_, err := io.Copy(to, Reader(f))
		return err
	})
}

// sameContent reports whether a regular file has the content of r.
func sameContent(path string, r io.Reader) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var a, b [64 << 10]byte
	for {
		n, errA := io.ReadFull(f, a[:])
		m, errB := io.ReadFull(r, b[:])
		if n != m || !bytes.Equal(a[:n], b[:m]) {
			return false
		}
		if errA != nil || errB != nil {
			return (errA == io.EOF || errA == io.ErrUnexpectedEOF) && errA == errB
		}
	}
}
