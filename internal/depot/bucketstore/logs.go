package bucketstore

import (
	"context"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/store/bucket"
)

// logPrefix begins the keys of log files. Audit and collection look at contents only.
const logPrefix = "audit/"

// PutLog stores a closed log file under a name, such as SERVER/FILE. It may be
// called again with the same file.
func (s *Store) PutLog(ctx context.Context, name string, size int64, r io.ReaderAt) error {
	err := s.send(ctx, logPrefix+name, size, r, bucket.PutOptions{})
	s.note(err)
	return unavailable(err)
}

// Logs yields the stored log files whose names begin with prefix. Info.Key is the
// name.
func (s *Store) Logs(ctx context.Context, prefix string) iter.Seq2[bucket.Info, error] {
	return func(yield func(bucket.Info, error) bool) {
		for info, err := range s.bucket.List(ctx, logPrefix+prefix) {
			if err != nil {
				s.note(err)
				yield(info, unavailable(err))
				return
			}
			info.Key = strings.TrimPrefix(info.Key, logPrefix)
			if !yield(info, nil) {
				return
			}
		}
	}
}

// GetLog writes n bytes of a stored log file from an offset on to w.
func (s *Store) GetLog(ctx context.Context, name string, off, n int64, w io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(stall, func() { cancel(errStalled) })
	defer watch.Stop()
	o, err := s.bucket.Get(ctx, logPrefix+name, off, n, "")
	if err == nil {
		defer o.Body.Close()
		_, err = io.Copy(failing{w}, alive{o.Body, watch})
	}
	return unavailable(causeOf(ctx, err))
}
