package symstore

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/symdepot/symdepot/cab"
)

// shareFrom is the size in bytes from which one file is compressed by several
// goroutines: below it the other files keep the processors busy.
const shareFrom = 32 << 20

// pack writes a cabinet in the shape of the genuine tool's: one folder, one
// file, the plain name. It is read back and compared before it is accepted.
func (g *staging) pack(ctx context.Context, w *worker, it *item, in source, k *stagedKey) error {
	f, err := g.create(w, k)
	if err != nil {
		return err
	}
	h := sha256.New()
	method, workers := cab.MSZIP, 1
	if g.compress == LZX {
		method = cab.LZX
	}
	if in.info.Size() >= shareFrom {
		workers = runtime.GOMAXPROCS(0)
	}
	content := cab.Source{
		Name: k.Name, Modified: in.info.ModTime().Local(), Attributes: cab.AttrArchive, Size: in.info.Size(),
		Open: func() (io.ReadCloser, error) {
			h.Reset()
			return io.NopCloser(io.TeeReader(&contextReader{ctx, io.NewSectionReader(in, 0, in.info.Size()+1)}, h)), nil
		},
	}
	size, err := cab.Create(storeSeeker{f}, []cab.Source{content}, cab.WriteOptions{Method: method, Workers: workers})
	if err == nil {
		h.Sum(it.sum[:0])
		it.summed = true
		if err = verifyCabinet(f, size, it.sum); err != nil {
			err = fmt.Errorf("reading back: %w", err)
		}
	}
	if err == nil {
		return g.finish(w, f, in, k)
	}
	f.Close()
	if errors.Is(err, cab.ErrTooLarge) {
		_ = g.st.root.Remove(k.staged) // it may be stored plainly
	}
	return err
}

// storeSeeker marks errors of writing as the store's.
type storeSeeker struct{ f *os.File }

func (w storeSeeker) Write(p []byte) (int, error) {
	n, err := w.f.Write(p)
	return n, ofStore(err)
}

func (w storeSeeker) Seek(offset int64, whence int) (int64, error) { return w.f.Seek(offset, whence) }
