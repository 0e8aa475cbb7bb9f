package tree

import (
	"context"
	"io"
	"os"

	"github.com/symdepot/symdepot/internal/files/unpack"
	"github.com/symdepot/symdepot/internal/files/unpackcache"
)

const defaultUnpacked = 4 << 30 // bytes of one file that is unpacked for a request

// unpackCache keeps unpacked files for a while.
type unpackCache struct {
	*unpackcache.Cache
	limit int64
}

func newUnpackCache(dir string, limit int64) *unpackCache {
	if limit <= 0 {
		limit = defaultUnpacked
	}
	return &unpackCache{unpackcache.New(unpackcache.Options{Dir: dir, HeldBytes: max(8<<30, limit)}), limit}
}

// get returns the unpacked content of the compressed file f, and closes f. key names
// the content. The caller must close the reader.
func (s *unpackCache) get(ctx context.Context, key string, f *os.File, size int64) (*unpackcache.Reader, int64, error) {
	r, err := s.Open(key, func(ctx context.Context, w io.Writer) error {
		_, err := unpack.File(ctx, w, f, size, s.limit)
		return err
	}, func() { _ = f.Close() })
	if err != nil {
		return nil, 0, err
	}
	n, err := r.Wait(ctx)
	if err != nil {
		_ = r.Close()
		return nil, 0, err
	}
	return r, n, nil
}
