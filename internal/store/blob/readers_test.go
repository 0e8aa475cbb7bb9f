package blob

import (
	"bytes"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"
)

// counting is an open blob that counts the bytes read from it.
type counting struct {
	*bytes.Reader
	bytes *atomic.Int64
}

func (c counting) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.Reader.ReadAt(p, off)
	c.bytes.Add(int64(n))
	return n, err
}
func (c counting) Close() error                      { return nil }
func (c counting) ModTime() time.Time                { return time.Time{} }
func (c counting) Reject(what string) error          { return errors.New(what) }
func (c counting) stamp() (stamp, error)             { return stamp{Size: c.Size()}, nil }
func newCounting(b []byte, n *atomic.Int64) counting { return counting{bytes.NewReader(b), n} }

// TestReadersHashOnce opens a large blob many times before it has been hashed.
// The first reader hashes what it reads, and the blob is hashed once more for
// all others; none of them waits for the first.
func TestReadersHashOnce(t *testing.T) {
	const readers = 10
	content := bytes.Repeat([]byte("0123456789abcdef"), (HashedAtOpen+Withheld)/16)
	for _, tt := range []struct {
		name string
		ref  Ref
		want error
	}{{"intact", Sum(content), nil}, {"damaged", Sum([]byte("other")), ErrDamaged}} {
		t.Run(tt.name, func(t *testing.T) {
			var c checks
			var read atomic.Int64
			var files []File
			for range readers {
				f, err := c.openChecked(t.Context(), tt.ref, newCounting(content, &read))
				if err != nil {
					t.Fatal(err)
				}
				files = append(files, f)
			}
			for i := range files {
				f := files[(i+1)%readers] // the first one last
				b, err := io.ReadAll(f)
				switch {
				case !errors.Is(err, tt.want):
					t.Errorf("reader %d: %v, want %v", i, err, tt.want)
				case tt.want == nil && !bytes.Equal(b, content):
					t.Errorf("reader %d got %d bytes, want the %d bytes of the content", i, len(b), len(content))
				case tt.want != nil && len(b) > len(content)-Withheld:
					t.Errorf("reader %d got %d of %d bytes of a damaged blob, want its last %d withheld", i, len(b), len(content), Withheld)
				}
				if err := f.Close(); err != nil {
					t.Error(err)
				}
			}
			if most := int64(readers+1) * int64(len(content)); read.Load() > most {
				t.Errorf("%d bytes were read for %d readers of %d bytes, want at most %d: one more reading for the hash", read.Load(), readers, len(content), most)
			}
			if len(c.inRead) != 0 {
				t.Errorf("%d blobs are marked as being read after all readers closed, want none", len(c.inRead))
			}
		})
	}
}
